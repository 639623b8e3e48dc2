/* cmd_run.c: the commands about runs. */
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/live.h"
#include "ctl/print.h"
#include "ctl/snapshot.h"
#include "ctl/target.h"
#include "ctl/terminal.h"
#include "proto/msg_run.h"

#define TASK_BYTES_MAX (RUN_TASK_MAX * 4 + 1)
#define BODY_MAX (2u << 20)
#define TEXT_MAX (64u << 20)
#define LOG_PAGE 500

static uint64_t now_ms(void)
{
    return clock_wall_ms(clock_system());
}

static void begin(struct json_writer *writer, struct buf *body)
{
    json_write_init(writer, body);
    json_write_object(writer);
}

static void member_number(struct json_writer *writer, const struct args *args, const char *name,
                          enum args_option option)
{
    if (args->has[option])
        json_member_u64(writer, name, args->number[option]);
}

/* run
 * -------------------------------------------------------------------------------------------------------------
 */

static int read_stdin(struct buf *text, struct error *err)
{
    char part[4096];
    size_t got;

    while ((got = fread(part, 1, sizeof(part), stdin)) > 0)
        buf_append(text, part, got);
    if (text->failed)
        return error_set(err, ERR_INVALID, 0, "the task is too long: at most %d characters",
                         RUN_TASK_MAX);
    while (text->len > 0 && text->data[text->len - 1] == '\n')
        text->data[--text->len] = '\0';
    if (text->len == 0)
        return error_set(err, ERR_INVALID, 0, "the task on standard input is empty");
    return 0;
}

/* The folder at or above the current one that holds .git. */
static char *find_checkout(void)
{
    AUTO_FREE
    char *folder = realpath(".", NULL);

    while (folder != NULL) {
        AUTO_FREE
        char *git = mem_printf("%s/.git", folder);
        char *slash = strrchr(folder, '/');
        struct stat info;

        if (lstat(git, &info) == 0)
            return STEAL(folder);
        if (slash == NULL || slash == folder)
            return NULL;
        *slash = '\0';
    }
    return NULL;
}

/* A folder here is named by its whole path, since the supervisor runs elsewhere; anything else is
 * passed on as it is. */
static char *absolute_repository(const char *given)
{
    struct stat info;

    if (strstr(given, "://") == NULL && stat(given, &info) == 0 && S_ISDIR(info.st_mode))
        return realpath(given, NULL);
    return mem_strdup(given);
}

static char *choose_repository(const struct args *args)
{
    char *found;

    if (args->has[ARGS_REPO])
        return absolute_repository(args->text[ARGS_REPO]);
    if (args->has[ARGS_NO_REPO] || args->has[ARGS_SESSION])
        return NULL;
    found = find_checkout();
    if (found != NULL && !args->has[ARGS_JSON]) {
        AUTO_BUF struct buf line = BUF_INIT(PATH_MAX * 4);

        print_line(&line, found, PATH_MAX);
        fprintf(stderr, "using the checkout in %s (--no-repo starts in an empty folder)\n",
                buf_text(&line));
    }
    return found;
}

static int check_snapshot(const struct args *args, const char *repository, struct error *err)
{
    if (args->has[ARGS_SESSION] || args->has[ARGS_BRANCH])
        return error_set(err, ERR_INVALID, 0,
                         "--include-uncommitted begins a session with the files as they are here: "
                         "it goes with neither --session nor --branch");
    if (repository == NULL || repository[0] != '/')
        return error_set(err, ERR_INVALID, 0,
                         "--include-uncommitted wants a git work tree on this machine: go there, "
                         "or name it with --repo");
    return 0;
}

static void tell_snapshot(const struct session *session, const struct snapshot *snapshot)
{
    if (session->args.has[ARGS_JSON])
        return;
    if (snapshot->commit[0] == '\0')
        fprintf(stderr, "nothing is uncommitted here\n");
    else
        fprintf(stderr, "your uncommitted changes come along, as commit %.12s\n", snapshot->commit);
    if (snapshot->left_out > 0)
        fprintf(stderr, "%llu untracked file%s out (--include-untracked . takes them along)\n",
                (unsigned long long)snapshot->left_out,
                snapshot->left_out == 1 ? " stays" : "s stay");
}

/* Who has changes here mostly means them, too. */
static void tell_left_out(const struct args *args, const char *repository)
{
    size_t changed;

    if (args->has[ARGS_JSON] || args->has[ARGS_BRANCH] || repository == NULL ||
        repository[0] != '/')
        return;
    changed = snapshot_count_changed(repository);
    if (changed > 0)
        fprintf(stderr,
                "%zu changed file%s here %s not committed and stay%s out (--include-uncommitted "
                "takes them along)\n",
                changed, changed == 1 ? "" : "s", changed == 1 ? "is" : "are",
                changed == 1 ? "s" : "");
}

/* What the run is to begin with, if that isn't what is committed. */
static int include_uncommitted(const struct session *session, const char *repository,
                               struct snapshot *snapshot, struct error *err)
{
    const struct args *args = &session->args;
    const struct snapshot_options options = {
        .folder = args->has[ARGS_REPO] ? repository : NULL,
        .untracked = args->text[ARGS_INCLUDE_UNTRACKED],
    };

    *snapshot = (struct snapshot){ .commit = "" };
    if (!args->has[ARGS_INCLUDE_UNCOMMITTED] && !args->has[ARGS_INCLUDE_UNTRACKED]) {
        tell_left_out(args, repository);
        return 0;
    }
    if (check_snapshot(args, repository, err) < 0 || snapshot_make(&options, snapshot, err) < 0)
        return -1;
    tell_snapshot(session, snapshot);
    return 0;
}

static int write_create(struct session *session, struct buf *body, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf task = BUF_INIT(TASK_BYTES_MAX);
    AUTO_BUF struct buf of = BUF_INIT(256);
    AUTO_FREE
    char *repository = choose_repository(args);
    const char *branch = args->text[ARGS_BRANCH];
    struct snapshot snapshot;
    struct json_writer writer;

    if (args->has[ARGS_REPO] && args->has[ARGS_NO_REPO])
        return error_set(err, ERR_INVALID, 0, "--repo and --no-repo don't go together");
    if (str_equal(args->words[0], "-")) {
        if (read_stdin(&task, err) < 0)
            return -1;
    } else {
        buf_append_str(&task, args->words[0]);
    }
    if (args->has[ARGS_SESSION] && target_session(session, args->text[ARGS_SESSION], &of, err) < 0)
        return -1;
    if (include_uncommitted(session, repository, &snapshot, err) < 0)
        return -1;
    if (snapshot.commit[0] != '\0')
        branch = snapshot.commit;
    begin(&writer, body);
    json_member_string(&writer, "task", buf_text(&task));
    json_member_string_opt(&writer, "repository", repository);
    json_member_string_opt(&writer, "branch", branch);
    json_member_string_opt(&writer, "sessionId", buf_text(&of));
    json_member_string_opt(&writer, "model", args->text[ARGS_MODEL]);
    json_member_string_opt(&writer, "title", args->text[ARGS_TITLE]);
    json_member_string_opt(&writer, "agent", args->text[ARGS_AGENT]);
    json_member_string_opt(&writer, "idempotencyKey", args->text[ARGS_KEY]);
    member_number(&writer, args, "timeoutMinutes", ARGS_TIMEOUT);
    json_write_object_end(&writer);
    return 0;
}

static void print_created(const struct json_value *created)
{
    AUTO_BUF struct buf text = BUF_INIT(8192);
    const char *id = json_string(json_get(created, "runId"));
    const char *session = json_string(json_get(created, "sessionId"));
    const char *url = json_string(json_get(created, "webUiUrl"));

    print_line(&text, id != NULL ? id : "", 64);
    buf_append_char(&text, '\n');
    session_print(&text);
    fflush(stdout);
    buf_printf(&text, "session  %s\n", session != NULL ? session : "");
    if (url != NULL) {
        buf_append_str(&text, "web      ");
        print_line(&text, url, 1000);
        buf_append_char(&text, '\n');
    }
    buf_printf(&text, "watch    sandboxctl logs -f %s\nresult   sandboxctl get --wait %s\n",
               id != NULL ? id : "", id != NULL ? id : "");
    fputs(buf_text(&text), stderr);
}

/* Above the progress of run --wait. */
static void print_followed(const struct json_value *created)
{
    AUTO_BUF struct buf text = BUF_INIT(8192);
    const char *id = json_string(json_get(created, "runId"));
    const char *url = json_string(json_get(created, "webUiUrl"));

    print_line(&text, id != NULL ? id : "", 64);
    if (url != NULL) {
        buf_append_str(&text, "  ");
        print_line(&text, url, 1000);
    }
    fprintf(stderr, "%s\n", buf_text(&text));
}

static int get_view(struct session *session, const char *run_id, struct client_message *message,
                    struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct json_writer writer;

    begin(&writer, &body);
    json_member_string(&writer, "runId", run_id);
    json_write_object_end(&writer);
    return session_call(session, "run.get", &body, message, err);
}

static bool view_succeeded(const struct json_value *view)
{
    return json_bool(json_path(view, "result.success"), false);
}

static void print_view(struct session *session, const struct json_value *view)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);

    if (session->json) {
        session_print_json(view);
        return;
    }
    print_run(&text, view, now_ms());
    session_print(&text);
}

/* Follows the run, then prints its view. */
static int wait_and_print(struct session *session, const char *run_id, uint64_t after,
                          enum live_mode mode, struct error *err)
{
    struct client_message message;
    enum live_end end;
    int code;

    if (live_follow(session, run_id, after, session->json ? LIVE_SILENT : mode, &end, err) < 0)
        return -1;
    if (end == LIVE_LEFT) {
        fprintf(stderr, "the run goes on; come back with: sandboxctl get --wait %s\n", run_id);
        return 128 + SIGINT;
    }
    if (get_view(session, run_id, &message, err) < 0)
        return -1;
    print_view(session, message.envelope.body);
    code = view_succeeded(message.envelope.body) ? EXIT_DONE : EXIT_FAILED;
    client_message_finish(&message);
    return code;
}

/* A copy that is safe to print and to keep beyond the message. */
static char *copy_id(const struct json_value *object, const char *name)
{
    AUTO_BUF struct buf id = BUF_INIT(256);
    const char *text = json_string(json_get(object, name));

    print_line(&id, text != NULL ? text : "", 64);
    return mem_strdup(buf_text(&id));
}

int cmd_run(struct session *session, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    AUTO_FREE
    char *run_id = NULL;
    struct client_message message;
    bool wait = session->args.has[ARGS_WAIT];

    if (write_create(session, &body, err) < 0 ||
        session_call(session, "run.create", &body, &message, err) < 0)
        return -1;
    run_id = copy_id(message.envelope.body, "runId");
    if (session->json && !wait)
        session_print_json(message.envelope.body);
    else if (!session->json && !wait)
        print_created(message.envelope.body);
    else if (!session->json)
        print_followed(message.envelope.body);
    client_message_finish(&message);
    return wait ? wait_and_print(session, run_id, 0, LIVE_EVENTS, err) : EXIT_DONE;
}

/* get, list
 * ---------------------------------------------------------------------------------------------------------
 */

/* What was asked before somebody came to wait. */
static void tell_request(const struct session *session, const struct json_value *view)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);

    if (session->json)
        return;
    print_request(&text, view, now_ms());
    fputs(buf_text(&text), stderr);
}

int cmd_get(struct session *session, struct error *err)
{
    AUTO_BUF struct buf id = BUF_INIT(256);
    struct client_message message;
    bool over;
    uint64_t cursor;

    if (target_run(session, session->args.words[0], &id, err) < 0 ||
        get_view(session, buf_text(&id), &message, err) < 0)
        return -1;
    over = json_kind(json_get(message.envelope.body, "result")) == JSON_KIND_OBJECT;
    cursor = json_u64(json_get(message.envelope.body, "cursor"), 0);
    if (session->args.has[ARGS_WAIT] && !over) {
        tell_request(session, message.envelope.body);
        client_message_finish(&message);
        return wait_and_print(session, buf_text(&id), cursor, LIVE_STATUS, err);
    }
    print_view(session, message.envelope.body);
    over = session->args.has[ARGS_WAIT] && !view_succeeded(message.envelope.body);
    client_message_finish(&message);
    return over ? EXIT_FAILED : EXIT_DONE;
}

int cmd_list(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf of = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
    struct client_message message;
    struct json_writer writer;

    if (args->has[ARGS_SESSION] && target_session(session, args->text[ARGS_SESSION], &of, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string_opt(&writer, "sessionId", buf_text(&of));
    json_member_string_opt(&writer, "status", args->text[ARGS_STATUS]);
    json_member_string_opt(&writer, "before", args->text[ARGS_BEFORE]);
    member_number(&writer, args, "limit", ARGS_LIMIT);
    json_write_object_end(&writer);
    if (session_call(session, "run.list", &body, &message, err) < 0)
        return -1;
    if (session->json) {
        session_print_json(message.envelope.body);
    } else {
        print_runs(&text, message.envelope.body, now_ms());
        if (session->out_terminal)
            terminal_fit(&text, terminal_width(STDOUT_FILENO));
        session_print(&text);
    }
    client_message_finish(&message);
    return EXIT_DONE;
}

/* logs
 * --------------------------------------------------------------------------------------------------------------
 */

static void print_one_event(struct session *session, const struct json_value *event)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);

    if (session->json) {
        session_print_json(event);
    } else {
        print_event(&text, event);
        session_print(&text);
    }
}

static void write_events(struct buf *body, const char *run_id, uint64_t after, uint64_t limit,
                         bool follow)
{
    struct json_writer writer;

    begin(&writer, body);
    json_member_string(&writer, "runId", run_id);
    json_member_u64(&writer, "after", after);
    if (follow)
        json_member_bool(&writer, "follow", true);
    else
        json_member_u64(&writer, "limit", limit);
    json_write_object_end(&writer);
}

/* All pages are one answer, printed as they come. */
static void print_events_json(const struct json_value *events, bool first)
{
    if (first)
        fputs("{\"events\":[", stdout);
    for (const struct json_value *at = json_first(events); at != NULL; at = json_next(at)) {
        AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);

        if (!first)
            buf_append_char(&text, ',');
        first = false;
        json_append(&text, at);
        session_print(&text);
    }
}

static int print_stored(struct session *session, const char *run_id, uint64_t after,
                        struct error *err)
{
    const struct args *args = &session->args;
    uint64_t left = args->has[ARGS_LIMIT] ? args->number[ARGS_LIMIT] : UINT64_MAX;
    bool first = true;
    bool more = true;

    while (more && (left > 0 || first)) {
        AUTO_BUF struct buf body = BUF_INIT(1024);
        struct client_message message;
        const struct json_value *events;

        write_events(&body, run_id, after, left < LOG_PAGE ? left : LOG_PAGE, false);
        if (session_call(session, "run.events", &body, &message, err) < 0)
            return -1;
        events = json_get(message.envelope.body, "events");
        for (const struct json_value *at = json_first(events); at != NULL && !session->json;
             at = json_next(at))
            print_one_event(session, at);
        if (session->json)
            print_events_json(events, first);
        first = false;
        left -= json_count(events) < left ? json_count(events) : left;
        after = json_u64(json_get(message.envelope.body, "cursor"), after);
        more = json_bool(json_get(message.envelope.body, "hasMore"), false);
        client_message_finish(&message);
    }
    if (session->json)
        printf("],\"cursor\":%llu,\"hasMore\":%s}\n", (unsigned long long)after,
               more ? "true" : "false");
    return EXIT_DONE;
}

static int print_following(struct session *session, const char *run_id, uint64_t after,
                           struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);

    write_events(&body, run_id, after, 0, true);
    return session_stream(session, "run.events", &body, print_one_event, err) < 0 ? -1 : EXIT_DONE;
}

/* Behind which event to begin. */
static int find_start(struct session *session, const char *run_id, uint64_t *after,
                      struct error *err)
{
    const struct args *args = &session->args;
    struct client_message message;
    uint64_t last;

    *after = args->number[ARGS_AFTER];
    if (!args->has[ARGS_TAIL])
        return 0;
    if (args->has[ARGS_AFTER])
        return error_set(err, ERR_INVALID, 0, "--tail and --after don't go together");
    if (get_view(session, run_id, &message, err) < 0)
        return -1;
    last = json_u64(json_get(message.envelope.body, "cursor"), 0);
    client_message_finish(&message);
    *after = last > args->number[ARGS_TAIL] ? last - args->number[ARGS_TAIL] : 0;
    return 0;
}

int cmd_logs(struct session *session, struct error *err)
{
    AUTO_BUF struct buf id = BUF_INIT(256);
    uint64_t after;

    if (target_run(session, session->args.words[0], &id, err) < 0 ||
        find_start(session, buf_text(&id), &after, err) < 0)
        return -1;
    return session->args.has[ARGS_FOLLOW] ? print_following(session, buf_text(&id), after, err)
                                          : print_stored(session, buf_text(&id), after, err);
}

/* diff
 * --------------------------------------------------------------------------------------------------------------
 */

static void print_diff(struct session *session, const struct json_value *diff)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
    const char *patch = json_string(json_get(diff, "diff"));

    if (session->json) {
        session_print_json(diff);
        return;
    }
    if (session->args.has[ARGS_STAT])
        print_diff_files(&text, diff);
    else if (patch != NULL && terminal_has_color(STDOUT_FILENO))
        terminal_color_diff(&text, patch);
    else if (patch != NULL && session->out_terminal)
        print_text(&text, patch, "");
    else if (patch != NULL)
        buf_append_str(&text, patch); /* byte for byte, for git apply */
    if (session->out_terminal)
        terminal_page(&text);
    else
        session_print(&text);
    if (json_bool(json_get(diff, "truncated"), false))
        fputs("sandboxctl: the diff is truncated\n", stderr);
}

int cmd_diff(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct client_message message;
    struct json_writer writer;

    if (target_either(session, args->words[0], &id, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string(&writer, target_member(buf_text(&id)), buf_text(&id));
    json_member_string_opt(&writer, "path", args->text[ARGS_PATH]);
    member_number(&writer, args, "maxBytes", ARGS_MAX_BYTES);
    json_write_object_end(&writer);
    if (session_call(session, "run.diff", &body, &message, err) < 0)
        return -1;
    print_diff(session, message.envelope.body);
    client_message_finish(&message);
    return EXIT_DONE;
}

/* cancel, send, answer
 * ---------------------------------------------------------------------------------------------- */

int cmd_cancel(struct session *session, struct error *err)
{
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct client_message message;
    struct json_writer writer;

    if (target_run(session, session->args.words[0], &id, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string(&writer, "runId", buf_text(&id));
    json_write_object_end(&writer);
    if (session_call(session, "run.cancel", &body, &message, err) < 0)
        return -1;
    print_view(session, message.envelope.body);
    client_message_finish(&message);
    return EXIT_DONE;
}

int cmd_send(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct client_message message;
    struct json_writer writer;

    if (target_either(session, args->words[0], &id, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string(&writer, target_member(buf_text(&id)), buf_text(&id));
    json_member_string(&writer, "message", args->words[1]);
    json_member_string_opt(&writer, "mode", args->text[ARGS_MODE]);
    json_member_string_opt(&writer, "idempotencyKey", args->text[ARGS_KEY]);
    json_write_object_end(&writer);
    if (session_call(session, "run.send", &body, &message, err) < 0)
        return -1;
    if (session->json) {
        session_print_json(message.envelope.body);
    } else {
        const char *action = json_string(json_get(message.envelope.body, "action"));
        const char *run = json_string(json_get(message.envelope.body, "runId"));

        printf("%s: %s\n",
               str_equal(action, "steered")  ? "for the agent at work"
               : str_equal(action, "queued") ? "queued behind the session's other runs"
                                             : "follow-up run",
               run != NULL ? run : "?");
    }
    client_message_finish(&message);
    return EXIT_DONE;
}

/* The request that is open now. */
static int find_request(struct session *session, const char *run_id, struct buf *request,
                        struct error *err)
{
    struct client_message message;
    const char *found;

    if (get_view(session, run_id, &message, err) < 0)
        return -1;
    found = json_string(json_path(message.envelope.body, "request.requestId"));
    if (found != NULL)
        buf_append_str(request, found);
    client_message_finish(&message);
    return found != NULL ? 0 : error_set(err, ERR_CONFLICT, 0, "the run waits for no answer");
}

int cmd_answer(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf request = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct client_message message;
    struct json_writer writer;

    if (target_run(session, args->words[0], &id, err) < 0)
        return -1;
    if (args->word_count == 3)
        buf_append_str(&request, args->words[1]);
    else if (find_request(session, buf_text(&id), &request, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string(&writer, "runId", buf_text(&id));
    json_member_string(&writer, "requestId", buf_text(&request));
    json_member_string(&writer, "answer", args->words[args->word_count - 1]);
    json_write_object_end(&writer);
    if (session_call(session, "run.answer", &body, &message, err) < 0)
        return -1;
    if (session->json)
        session_print_json(message.envelope.body);
    else
        puts("answered");
    client_message_finish(&message);
    return EXIT_DONE;
}

/* exec
 * --------------------------------------------------------------------------------------------------------------
 */

static void print_output(const struct session *session, const struct json_value *event)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
    bool is_stderr = str_equal(json_string(json_get(event, "stream")), "stderr");
    const char *data = json_string(json_get(event, "data"));
    size_t len = data != NULL ? strlen(data) : 0;

    if (session->json) {
        session_print_json(event);
        return;
    }
    /* On a terminal a command of the sandbox may write text, but not steer. */
    for (size_t at = 0; at < len && (is_stderr ? session->err_terminal : session->out_terminal);) {
        size_t part = strcspn(data + at, "\n\t\r");

        str_append_escaped(&text, data + at, part, SIZE_MAX);
        at += part;
        if (at < len)
            buf_append_char(&text, data[at++]);
    }
    if (!(is_stderr ? session->err_terminal : session->out_terminal))
        buf_append(&text, data, len);
    fwrite(buf_text(&text), 1, text.len, is_stderr ? stderr : stdout);
    fflush(is_stderr ? stderr : stdout);
}

/* The exit codes that shells have for a command that is not there, or can't be started. */
static int exec_failed(const struct session *session, enum error_code code, const char *message,
                       struct error *err)
{
    struct error failed = ERROR_INIT;

    if (code != ERR_NOT_FOUND && code != ERR_DENIED)
        return error_set(err, code, 0, "%s", message);
    error_set(&failed, code, 0, "%.100s: %s", session->args.words[1], message);
    session_fail(session, &failed);
    return code == ERR_NOT_FOUND ? 127 : 126;
}

static int exec_code(const struct session *session, const struct json_value *end, struct error *err)
{
    uint64_t signal = json_u64(json_get(end, "signal"), 0);
    const char *message = json_string(json_path(end, "error.message"));
    const char *code = json_string(json_path(end, "error.code"));

    if (message != NULL)
        return exec_failed(session, code != NULL ? error_code_parse(code) : ERR_SYSTEM, message,
                           err);
    if (signal != 0)
        return 128 + (int)(signal & 0x7f);
    return (int)(json_u64(json_get(end, "exitCode"), 1) & 0xff);
}

int cmd_exec(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct json_writer writer;

    if (target_run(session, args->words[0], &id, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string(&writer, "runId", buf_text(&id));
    json_write_name(&writer, "argv");
    json_write_array(&writer);
    for (size_t i = 1; i < args->word_count; i++)
        json_write_string(&writer, args->words[i]);
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    if (client_send(session->client, "run.exec", buf_text(&body), NULL, 0, err) == 0)
        return -1;
    for (;;) {
        struct client_message message;
        int code = -1;
        int rc = client_next(session->client, -1, &message, err);
        enum envelope_kind kind = message.envelope.kind;

        if (rc < 0)
            return -1;
        if (rc == 0)
            continue;
        if (kind == ENVELOPE_EVENT)
            print_output(session, message.envelope.body);
        else if (kind == ENVELOPE_END)
            code = exec_code(session, message.envelope.body, err);
        else if (kind == ENVELOPE_ERROR)
            *err = message.envelope.error;
        if (kind == ENVELOPE_END && session->json)
            session_print_json(message.envelope.body);
        client_message_finish(&message);
        if (kind == ENVELOPE_END || kind == ENVELOPE_ERROR)
            return code;
    }
}
