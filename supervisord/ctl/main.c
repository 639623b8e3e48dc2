/* main.c: sandboxctl, the supervisor's command line. */
#include <unistd.h>

#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/page.h"

static int fail_unknown(const struct session *session, const char *name)
{
    AUTO_BUF struct buf near = BUF_INIT(1024);
    struct error err = ERROR_INIT;

    commands_append_nearest(&near, name);
    error_set(&err, ERR_INVALID, 0, "there is no command %.60s%s%s; sandboxctl --help shows all",
              name, near.len > 0 ? "; nearest: " : "", buf_text(&near));
    return session_fail(session, &err);
}

/* "help" and perhaps the command that it is about. */
static int help(const struct session *session, const char *name)
{
    const struct ctl_command *command = name != NULL ? command_find(name) : NULL;

    if (name != NULL && command == NULL)
        return fail_unknown(session, name);
    if (command != NULL)
        command_print_help(command, stdout);
    else
        commands_print_help(stdout);
    return EXIT_DONE;
}

static int run(struct session *session, int argc, char **argv)
{
    static const struct args_rules rules = { .allowed = ARGS_BIT(ARGS_JSON) | ARGS_BIT(ARGS_TRACE) |
                                                        ARGS_BIT(ARGS_HELP) };
    const struct ctl_command *command;
    struct error err = ERROR_INIT;
    int at = 1;

    if (argc > 1 && (str_equal(argv[1], "--version") || str_equal(argv[1], "-V"))) {
        printf("sandboxctl %s\n", SANDBOX_VERSION);
        return EXIT_DONE;
    }
    if (argc == 2 && str_equal(argv[1], "--man")) { /* for the build */
        AUTO_BUF struct buf page = BUF_INIT(1u << 20);

        page_print(&page);
        session_print(&page);
        return EXIT_DONE;
    }
    while (at < argc && argv[at][0] == '-')
        at++;
    if (args_parse(&session->args, at - 1, argv + 1, &rules, "", &err) < 0)
        return session_fail(session, &err);
    session->json = session->args.has[ARGS_JSON];
    if (at < argc && str_equal(argv[at], "help"))
        return help(session, argv[at + 1]);
    if (session->args.has[ARGS_HELP]) {
        commands_print_help(stdout);
        return EXIT_DONE;
    }
    if (at == argc) {
        if (!session->json)
            commands_print_help(stderr);
        error_set(&err, ERR_INVALID, 0, "COMMAND is missing: sandboxctl --help shows all");
        return session->json ? session_fail(session, &err) : EXIT_USAGE;
    }
    command = command_find(argv[at]);
    return command != NULL ? command_run(command, session, argc - at - 1, argv + at + 1)
                           : fail_unknown(session, argv[at]);
}

int main(int argc, char **argv)
{
    struct session session = { .client = NULL };
    struct error err = ERROR_INIT;
    int code;

    session.out_terminal = isatty(STDOUT_FILENO) == 1;
    session.err_terminal = isatty(STDERR_FILENO) == 1;
    if (paths_init(&session.paths, &err) < 0)
        return session_fail(&session, &err);
    code = run(&session, argc, argv);
    args_finish(&session.args);
    paths_finish(&session.paths);
    if (fflush(stdout) != 0 && code == EXIT_DONE) {
        perror("sandboxctl: standard output");
        code = EXIT_FAILED;
    }
    return code;
}
