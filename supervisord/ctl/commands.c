#include "ctl/commands.h"

#include "common/mem.h"
#include "common/nearest.h"
#include "common/str.h"
#include "ctl/usage.h"

#define COMMON (ARGS_BIT(ARGS_HELP) | ARGS_BIT(ARGS_JSON) | ARGS_BIT(ARGS_TRACE))
#define CREATE                                                                                     \
    (ARGS_BIT(ARGS_WAIT) | ARGS_BIT(ARGS_REPO) | ARGS_BIT(ARGS_NO_REPO) | ARGS_BIT(ARGS_BRANCH) |  \
     ARGS_BIT(ARGS_SESSION) | ARGS_BIT(ARGS_MODEL) | ARGS_BIT(ARGS_TITLE) | ARGS_BIT(ARGS_AGENT) | \
     ARGS_BIT(ARGS_TIMEOUT) | ARGS_BIT(ARGS_KEY) | ARGS_BIT(ARGS_INCLUDE_UNCOMMITTED) |            \
     ARGS_BIT(ARGS_INCLUDE_UNTRACKED))
#define ANY_WORDS 100000

static const struct ctl_command commands[] = {
    { "status",
      "",
      "is the supervisor running, and how",
      NULL,
      { COMMON, 0, 0, 0 },
      SESSION_DONT_START,
      CONNECT_FIRST,
      cmd_status },
    { "run",
      "TASK|-",
      "give a task to a coding agent",
      "TASK is one word to the shell: quote it; - reads it from standard input. Without --repo, "
      "--no-repo and --session the\n"
      "git checkout around the current folder is used. Without --wait the run's id is printed and "
      "the run goes on by itself.\n"
      "A run begins with what is committed. --include-uncommitted takes the changes of the files "
      "along, and leaves them and\n"
      "the repository's index and branches as they are; sandboxctl pull --apply puts the agent's "
      "changes on top.",
      { COMMON | CREATE, 1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_run },
    { "get",
      "RUN",
      "state and result of a run",
      "RUN is a run's id, or \"last\" for the newest one.",
      { COMMON | ARGS_BIT(ARGS_WAIT), 1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_get },
    { "list",
      "",
      "runs, newest first",
      "Ten unless --limit says more, up to 100; --before goes on from the last answer's cursor. "
      "Where "
      "a session is wanted,\n"
      "as by run --session, a run's id stands for its session.",
      { COMMON | ARGS_BIT(ARGS_STATUS) | ARGS_BIT(ARGS_SESSION) | ARGS_BIT(ARGS_LIMIT) |
            ARGS_BIT(ARGS_BEFORE),
        0, 0, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_list },
    { "logs",
      "RUN",
      "what happened in a run",
      "All of it, oldest first, unless --tail or --limit says less. With --json -f each event is "
      "printed as one line of JSON.",
      { COMMON | ARGS_BIT(ARGS_FOLLOW) | ARGS_BIT(ARGS_AFTER) | ARGS_BIT(ARGS_LIMIT) |
            ARGS_BIT(ARGS_TAIL),
        1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_logs },
    { "diff",
      "RUN|SESSION",
      "what a run changed, as a unified diff",
      "To another program the diff goes as it is: sandboxctl diff last | git apply",
      { COMMON | ARGS_BIT(ARGS_PATH) | ARGS_BIT(ARGS_MAX_BYTES) | ARGS_BIT(ARGS_STAT), 1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_diff },
    { "cancel",
      "RUN",
      "stop a run; its work is kept",
      NULL,
      { COMMON, 1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_cancel },
    { "send",
      "RUN|SESSION MESSAGE",
      "say something to a session's agent",
      "An agent at work reads it at its next step; else it becomes a run of its own, after those "
      "of the session that have not ended. --mode chooses.",
      { COMMON | ARGS_BIT(ARGS_MODE) | ARGS_BIT(ARGS_KEY), 2, 2, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_send },
    { "answer",
      "RUN [REQUEST] ANSWER",
      "answer a question or a permission request",
      "REQUEST may be left out: the one that is open is meant then.",
      { COMMON, 2, 3, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_answer },
    { "sessions",
      "",
      "sessions, newest first",
      "Ten unless --limit says more, up to 100; --before goes on from the last answer's cursor.",
      { COMMON | ARGS_BIT(ARGS_LIMIT) | ARGS_BIT(ARGS_BEFORE), 0, 0, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_sessions },
    { "session",
      "get SESSION | rename SESSION TITLE | checkpoint SESSION | restore SESSION CHECKPOINT | "
      "fork SESSION | hold SESSION | release SESSION | rm SESSION",
      "look at a session, copy it, or take it back to a checkpoint",
      "get shows its checkpoints and its disk use; rename gives it another title; checkpoint keeps "
      "files and conversation as they\n"
      "are now; restore makes them what they were at a checkpoint, and keeps one of now before; "
      "fork makes a new session that\n"
      "begins where this one is now, or was at --checkpoint; nothing deletes a session on hold "
      "until release; rm deletes\n"
      "it with its workspace and runs.",
      { COMMON | ARGS_BIT(ARGS_CHECKPOINT) | ARGS_BIT(ARGS_TITLE), 1, 3, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_session },
    { "rm",
      "SESSION",
      "delete a session with its workspace and runs",
      NULL,
      { COMMON, 1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_rm },
    { "backup",
      "create SESSION FILE|s3:KEY | restore FILE|s3:KEY",
      "a session into one file, and back, also on another machine",
      "s3:KEY is an object of the storage that backup.* in the configuration names. With "
      "--passphrase the backup is sealed:\n"
      "sandboxctl secret set BACKUP_PASSPHRASE; sandboxctl backup create SESSION FILE --passphrase "
      "BACKUP_PASSPHRASE",
      { COMMON | ARGS_BIT(ARGS_PASSPHRASE), 1, 3, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_backup },
    { "retention",
      "",
      "delete sessions by age and disk use, as retention.* is set",
      "The supervisor does this by itself at its start and once a day. Sessions at work or on hold "
      "stay.",
      { COMMON | ARGS_BIT(ARGS_DRY_RUN), 0, 0, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_retention },
    { "exec",
      "RUN [--] COMMAND...",
      "run a command in the sandbox of a live run",
      "Ends with the command's own exit code, or with 127 when there is no such command. Its input "
      "is empty.",
      { COMMON, 2, ANY_WORDS, 1 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_exec },
    { "files",
      "RUN|SESSION [PATH]",
      "list the files of a session",
      "As they are now, also while an agent works; PATH is relative to the repository's folder. "
      ".git "
      "is left out.",
      { COMMON, 1, 2, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_files },
    { "cat",
      "RUN|SESSION PATH",
      "print a file of a session",
      "As it is now, byte for byte. Not more than 64 MiB unless --max-bytes says so.",
      { COMMON | ARGS_BIT(ARGS_MAX_BYTES), 2, 2, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_cat },
    { "pull",
      "RUN|SESSION",
      "bring a session's branch into the repository here",
      "Makes a new branch with its commits in the git repository around the current folder, and "
      "leaves the files alone.\n"
      "With --branch NAME a branch that is there already is moved forward, if nothing else is on "
      "it "
      "and it isn't checked out.\n"
      "With --apply no branch is made: all changes, committed or not, are put on the files here as "
      "a patch, or merged with\n"
      "what has changed here meanwhile, or none when there is a conflict.",
      { COMMON | ARGS_BIT(ARGS_BRANCH) | ARGS_BIT(ARGS_APPLY) | ARGS_BIT(ARGS_PATH), 1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_pull },
    { "export",
      "RUN|SESSION FILE|DIR/|-",
      "save the files of a session",
      "As a tar archive FILE, or into the folder DIR, which is made or empty; - writes the archive "
      "to standard output. Nothing is\n"
      "overwritten; .git stays behind.",
      { COMMON | ARGS_BIT(ARGS_PATH) | ARGS_BIT(ARGS_MAX_BYTES), 2, 2, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_export },
    { "pr",
      "RUN|SESSION",
      "push a session's branch, and open or update its pull request",
      "A draft unless --ready. The same command again brings it up to date; it never opens a "
      "second "
      "one for the branch.",
      { COMMON | ARGS_BIT(ARGS_TITLE) | ARGS_BIT(ARGS_BODY) | ARGS_BIT(ARGS_BASE) |
            ARGS_BIT(ARGS_READY) | ARGS_BIT(ARGS_COMMIT),
        1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_pr },
    { "secret",
      "set NAME | list | rm NAME",
      "credentials that the proxy puts into requests",
      "set reads the value from standard input, or asks for it without showing it. It is never an "
      "argument.",
      { COMMON, 1, 2, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_secret },
    { "services",
      "",
      "upstreams that the proxy knows",
      NULL,
      { COMMON, 0, 0, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_services },
    { "audit",
      "[RUN]",
      "what the proxy let through and refused, newest first",
      "100 unless --limit says more, up to 1000. With -f the last ones come oldest first, then "
      "each as it is decided, with --json as one "
      "line "
      "of JSON. It ends with the run, or with Ctrl-C.",
      { COMMON | ARGS_BIT(ARGS_LIMIT) | ARGS_BIT(ARGS_BEFORE) | ARGS_BIT(ARGS_FOLLOW), 0, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_audit },
    { "notice",
      "test",
      "send a test notice by every way that is configured",
      "Says of each way whether it was taken, and what to do when it was not; then it ends with 1. "
      "A way is tried once.",
      { COMMON, 1, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_notice },
    { "web",
      "[--live] [RUN|SESSION]",
      "open the web pages: the board, the page of a run or session, or its agent's own",
      "Prints an address that signs one browser in, once, within five minutes, and opens it where "
      "there is a display. With --live it leads to OpenCode's own pages of a run that is at work; "
      "to use them from another machine, forward the port: ssh -L PORT:127.0.0.1:PORT.",
      { COMMON | ARGS_BIT(ARGS_LIVE), 0, 1, 0 },
      SESSION_START,
      CONNECT_FIRST,
      cmd_web },
    { "doctor",
      "",
      "what works here, and what to do about what doesn't",
      NULL,
      { COMMON | ARGS_BIT(ARGS_SERVICE), 0, 0, 0 },
      SESSION_DONT_START,
      CONNECT_ITSELF,
      cmd_doctor },
    { "service",
      "install | status | uninstall",
      "the supervisor as a service of your systemd",
      "install writes a socket and a service unit and starts them; a supervisor that runs is "
      "stopped "
      "before, its sandboxes\n"
      "and agents go on meanwhile. status ends with 0 when the socket is open.",
      { COMMON, 1, 1, 0 },
      SESSION_DONT_START,
      CONNECT_ITSELF,
      cmd_service },
    { "completion",
      "bash | zsh | fish",
      "print what makes a shell complete sandboxctl's words",
      "bash: eval \"$(sandboxctl completion bash)\" in ~/.bashrc. zsh: the same in ~/.zshrc, "
      "behind "
      "compinit.\n"
      "fish: sandboxctl completion fish > ~/.config/fish/completions/sandboxctl.fish",
      { COMMON, 1, 1, 0 },
      SESSION_DONT_START,
      CONNECT_ITSELF,
      cmd_completion },
    { "complete",
      "[WORD]...",
      NULL, /* for the shells: not shown */
      NULL,
      { COMMON, 0, ANY_WORDS, 1 },
      SESSION_DONT_START,
      CONNECT_ITSELF,
      cmd_complete },
    { "call",
      "METHOD [JSON]",
      "send a raw request to the supervisor",
      "METHOD and its parameters are described in docs/protocol.md. secret.set reads its blob from "
      "standard input.",
      { COMMON, 1, 2, 0 },
      SESSION_DONT_START,
      CONNECT_FIRST,
      cmd_call },
    { "stop",
      "",
      "stop the supervisor",
      "Runs go on meanwhile in their sandboxes, and the next supervisor takes them up. The next "
      "command starts one.",
      { COMMON, 0, 0, 0 },
      SESSION_DONT_START,
      CONNECT_FIRST,
      cmd_stop },
};

const struct ctl_command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (str_equal(commands[i].name, name))
            return &commands[i];
    }
    return NULL;
}

const struct ctl_command *command_at(size_t number)
{
    return number < ARRAY_LEN(commands) ? &commands[number] : NULL;
}

void commands_append_nearest(struct buf *out, const char *name)
{
    const char *names[ARRAY_LEN(commands)];
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (commands[i].help != NULL)
            names[count++] = commands[i].name;
    }
    nearest_append_similar(out, names, count, name);
}

void commands_print_help(FILE *out)
{
    fputs("usage: sandboxctl [--json] [--trace] COMMAND ...\n\n", out);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (commands[i].help != NULL)
            fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
    fputs("\nsandboxctl COMMAND --help tells more; --version prints the version.\n"
          "Exit codes:",
          out);
    for (int code = 0; code < EXIT_CODE_COUNT; code++)
        fprintf(out, "%s %d %s", code > 0 ? "," : "", code, exit_code_words[code]);
    fputs(".\n", out);
}

/* "usage: sandboxctl list [OPTIONS]"; of verbs, which fill lines of their own, only the one that
 * was asked for, if one was. */
static void print_usage(const struct ctl_command *command, const char *verb, FILE *out)
{
    bool verbs = usage_has_verbs(command->words);
    const char *part = verbs && verb != NULL ? usage_of_verb(command->words, verb) : NULL;
    const char *only = part;
    const char *options = (command->rules.allowed & ~COMMON) != 0 ? " [OPTIONS]" : "";

    for (part = part != NULL ? part : command->words; part != NULL;) {
        fprintf(out, "%s sandboxctl %s%s%s%.*s\n",
                part == command->words || part == only ? "usage:" : "      ", command->name,
                options, part[0] != '\0' ? " " : "", (int)usage_length(part), part);
        part = verbs && only == NULL ? usage_next_verb(part) : NULL;
    }
}

void command_print_help(const struct ctl_command *command, FILE *out)
{
    print_usage(command, NULL, out);
    fprintf(out, "\n%s\n", command->help != NULL ? command->help : "");
    if (command->more != NULL)
        fprintf(out, "\n%s\n", command->more);
    fputc('\n', out);
    args_print_options(out, command->rules.allowed);
}

static int run_connected(const struct ctl_command *command, struct session *session,
                         struct error *err)
{
    int code;

    if (command->connect == CONNECT_FIRST && session_connect(session, command->start, err) < 0)
        return -1;
    code = command->run(session, err);
    session_disconnect(session);
    return code;
}

int command_run(const struct ctl_command *command, struct session *session, int argc,
                char *const *argv)
{
    struct error err = ERROR_INIT;
    int code;

    if (args_parse(&session->args, argc, argv, &command->rules, command->words, &err) < 0) {
        session->json = session->args.has[ARGS_JSON];
        session_fail(session, &err);
        print_usage(command, session->args.word_count > 0 ? session->args.words[0] : NULL, stderr);
        return EXIT_USAGE;
    }
    session->json = session->args.has[ARGS_JSON];
    if (session->args.has[ARGS_HELP]) {
        command_print_help(command, stdout);
        return EXIT_DONE;
    }
    code = run_connected(command, session, &err);
    return err.code != ERR_NONE ? session_fail(session, &err) : code;
}
