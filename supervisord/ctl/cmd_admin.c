/* cmd_admin.c: the commands about everything but runs. */
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/print.h"
#include "ctl/target.h"
#include "ctl/terminal.h"
#include "proto/frame.h"
#include "proto/methods.h"

#define TEXT_MAX (64u << 20)
#define AUDIT_TAIL 10 /* records that a follower sees of what was before */

typedef void print_function(struct buf *out, const struct json_value *reply);

static int call_and_print(struct session *session, const char *method, const struct buf *body,
                          print_function *print, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
    struct client_message message;

    if (session_call(session, method, body, &message, err) < 0)
        return -1;
    if (session->json) {
        session_print_json(message.envelope.body);
    } else {
        print(&text, message.envelope.body);
        if (session->out_terminal)
            terminal_fit(&text, terminal_width(STDOUT_FILENO));
        session_print(&text);
    }
    client_message_finish(&message);
    return EXIT_DONE;
}

static void begin(struct json_writer *writer, struct buf *body)
{
    json_write_init(writer, body);
    json_write_object(writer);
}

int cmd_status(struct session *session, struct error *err)
{
    return call_and_print(session, "system.status", NULL, print_status, err);
}

static void print_deleted(struct buf *out, const struct json_value *reply)
{
    (void)reply;
    buf_append_str(out, "deleted\n");
}

/* secret
 * ----------------------------------------------------------------------------------------------------------
 */

struct value {
    char bytes[FRAME_BLOB_MAX];
    size_t len;
};

static int read_value(int fd, struct value *value, bool one_line, struct error *err)
{
    for (;;) {
        ssize_t got;

        if (value->len == sizeof(value->bytes))
            return error_set(err, ERR_LIMIT, 0, "the value is longer than %zu bytes",
                             sizeof(value->bytes));
        got = read(fd, value->bytes + value->len, sizeof(value->bytes) - value->len);
        if (got < 0)
            return error_set(err, ERR_SYSTEM, 0, "the value could not be read");
        value->len += (size_t)got;
        if (got == 0 || (one_line && memchr(value->bytes, '\n', value->len) != NULL))
            return 0;
    }
}

/* Waits for a typed line or a signal. */
static int wait_for_line(int signals, struct error *err)
{
    struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                            { .fd = signals, .events = POLLIN } };
    struct signalfd_siginfo info;

    if (poll(fds, ARRAY_LEN(fds), -1) < 0)
        return error_set(err, ERR_SYSTEM, 0, "the value could not be read");
    if (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        return error_set(err, ERR_CANCELLED, 0, "nothing was stored");
    return 0;
}

/* Signals are held back meanwhile: they must not leave a terminal behind that hides what is typed.
 */
static int prompt_value(struct value *value, const char *name, struct error *err)
{
    struct termios before;
    struct termios quiet;
    sigset_t held;
    sigset_t old;
    int signals;
    int rc;

    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return error_set(err, ERR_SYSTEM, 0, "the terminal can't be made to hide what is typed");
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGQUIT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigaddset(&held, SIGTSTP);
    sigprocmask(SIG_BLOCK, &held, &old);
    signals = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
    quiet = before;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    fprintf(stderr, "value of %s (not shown): ", name);
    rc = wait_for_line(signals, err);
    if (rc == 0)
        rc = read_value(STDIN_FILENO, value, true, err);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    fputc('\n', stderr);
    fd_close(&signals);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static int send_value(struct session *session, const char *name, const struct value *value,
                      struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    struct client_message message;
    struct json_writer writer;

    begin(&writer, &body);
    json_member_string(&writer, "name", name);
    json_write_object_end(&writer);
    if (client_call_blob(session->client, "secret.set", buf_text(&body), value->bytes, value->len,
                         SESSION_CALL_MS, &message, err) < 0)
        return -1;
    if (session->json)
        session_print_json(message.envelope.body);
    else
        puts(json_bool(json_get(message.envelope.body, "replaced"), false) ? "replaced" : "stored");
    client_message_finish(&message);
    return EXIT_DONE;
}

static int secret_set(struct session *session, const char *name, struct error *err)
{
    struct value *value;
    bool prompt = isatty(STDIN_FILENO) == 1;
    int code = -1;
    int rc;

    /* Before somebody types a value for nothing. */
    if (!str_is_secret_name(name))
        return error_argument(err, "name",
                              "a secret's name is an upper-case letter, then upper-case letters, "
                              "digits and _");
    value = NEW(struct value);
    rc = prompt ? prompt_value(value, name, err) : read_value(STDIN_FILENO, value, false, err);

    while (rc == 0 && value->len > 0 &&
           (value->bytes[value->len - 1] == '\n' || value->bytes[value->len - 1] == '\r'))
        value->len--;
    if (rc == 0 && value->len == 0)
        rc = error_set(err, ERR_INVALID, 0, "the value is empty");
    if (rc == 0)
        code = send_value(session, name, value, err);
    explicit_bzero(value, sizeof(*value));
    free(value);
    return code;
}

static int secret_rm(struct session *session, const char *name, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    struct json_writer writer;

    begin(&writer, &body);
    json_member_string(&writer, "name", name);
    json_write_object_end(&writer);
    return call_and_print(session, "secret.delete", &body, print_deleted, err);
}

static void print_secrets_now(struct buf *out, const struct json_value *list)
{
    print_secrets(out, list, clock_wall_ms(clock_system()));
}

int cmd_secret(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    const char *verb = args->words[0];

    if (str_equal(verb, "list"))
        return call_and_print(session, "secret.list", NULL, print_secrets_now, err);
    return str_equal(verb, "set") ? secret_set(session, args->words[1], err)
                                  : secret_rm(session, args->words[1], err);
}

/* services, audit, stop
 * ------------------------------------------------------------------------------------------- */

int cmd_services(struct session *session, struct error *err)
{
    return call_and_print(session, "service.list", NULL, print_services, err);
}

static void write_audit(struct buf *body, const char *run_id, uint64_t before, uint64_t limit)
{
    struct json_writer writer;

    begin(&writer, body);
    json_member_string_opt(&writer, "runId", run_id);
    json_member_u64_opt(&writer, "before", before);
    json_member_u64_opt(&writer, "limit", limit);
    json_write_object_end(&writer);
}

static void print_one_record(struct session *session, const struct json_value *record)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);

    if (session->json) {
        session_print_json(record);
        return;
    }
    print_audit_record(&text, record);
    if (session->out_terminal)
        terminal_fit(&text, terminal_width(STDOUT_FILENO));
    session_print(&text);
}

static const struct json_value *element_at(const struct json_value *list, size_t index)
{
    const struct json_value *at = json_first(list);

    while (index-- > 0)
        at = json_next(at);
    return at;
}

/* The last ones, oldest first; *AFTER becomes the newest one's number. */
static int print_last_records(struct session *session, const char *run_id, uint64_t *after,
                              struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct client_message message;
    const struct json_value *records;

    write_audit(&body, run_id, 0, args->has[ARGS_LIMIT] ? args->number[ARGS_LIMIT] : AUDIT_TAIL);
    if (session_call(session, "audit.list", &body, &message, err) < 0)
        return -1;
    records = json_get(message.envelope.body, "records");
    *after = json_u64(json_get(json_first(records), "number"), 0);
    for (size_t i = json_count(records); i > 0; i--)
        print_one_record(session, element_at(records, i - 1));
    client_message_finish(&message);
    fflush(stdout);
    return 0;
}

static int follow_audit(struct session *session, const char *run_id, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;
    uint64_t after = 0;

    if (session->args.has[ARGS_BEFORE])
        return error_set(err, ERR_INVALID, 0, "--before has no meaning with --follow");
    if (print_last_records(session, run_id, &after, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string_opt(&writer, "runId", run_id);
    json_member_bool(&writer, "follow", true);
    json_member_u64_opt(&writer, "after", after);
    json_write_object_end(&writer);
    return session_stream(session, "audit.list", &body, print_one_record, err) < 0 ? -1 : EXIT_DONE;
}

int cmd_audit(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(4096);
    uint64_t before = 0;

    if (args->word_count == 1 && target_run(session, args->words[0], &id, err) < 0)
        return -1;
    if (args->has[ARGS_FOLLOW])
        return follow_audit(session, buf_text(&id), err);
    if (args->has[ARGS_BEFORE] &&
        !str_parse_u64(args->text[ARGS_BEFORE], UINT64_C(1) << 53, &before))
        return error_set(err, ERR_INVALID, 0, "--before wants a record's number here");
    write_audit(&body, buf_text(&id), before, args->number[ARGS_LIMIT]);
    return call_and_print(session, "audit.list", &body, print_audit, err);
}

static void print_stopping(struct buf *out, const struct json_value *reply)
{
    (void)reply;
    buf_append_str(out, "stopping\n");
}

int cmd_stop(struct session *session, struct error *err)
{
    return call_and_print(session, "system.shutdown", NULL, print_stopping, err);
}

/* call
 * --------------------------------------------------------------------------------------------------------------
 */

static int check_json(const char *text, bool *follows, struct error *err)
{
    AUTO_JSON struct json_doc *doc = NULL;

    if (json_parse(&doc, text, strlen(text), FRAME_JSON_MAX, err) < 0)
        return error_wrap(err, "parameters");
    if (json_kind(json_root(doc)) != JSON_KIND_OBJECT)
        return error_set(err, ERR_INVALID, 0, "parameters are a JSON object");
    *follows = json_bool(json_get(json_root(doc), "follow"), false);
    return 0;
}

/* The reply, and what comes behind it when the method streams. */
static int print_answers(struct session *session, uint64_t id, bool streams, struct error *err)
{
    for (;;) {
        struct client_message message;
        int rc = client_next(session->client, -1, &message, err);
        enum envelope_kind kind = message.envelope.kind;
        bool ours = message.envelope.id == id;

        if (rc < 0)
            return -1;
        if (rc == 0)
            continue;
        if (ours && kind == ENVELOPE_ERROR)
            *err = message.envelope.error;
        else if (ours && message.envelope.body != NULL)
            session_print_json(message.envelope.body);
        client_message_finish(&message);
        fflush(stdout);
        if (ours && (kind == ENVELOPE_ERROR || kind == ENVELOPE_END ||
                     (kind == ENVELOPE_REPLY && !streams)))
            return EXIT_DONE;
    }
}

static uint64_t send_raw(struct session *session, const char *method, const char *params,
                         struct error *err)
{
    enum method known = method_find(method);
    struct value *value;
    uint64_t id = 0;

    if (known == METHOD_COUNT || (method_infos[known].flags & METHOD_BLOB) == 0)
        return client_send(session->client, method, params, NULL, 0, err);
    value = NEW(struct value);
    if (read_value(STDIN_FILENO, value, false, err) == 0)
        id = client_send(session->client, method, params, value->bytes, value->len, err);
    explicit_bzero(value, sizeof(*value));
    free(value);
    return id;
}

int cmd_call(struct session *session, struct error *err)
{
    const char *method = session->args.words[0];
    const char *params = session->args.word_count > 1 ? session->args.words[1] : "{}";
    bool follows = false;
    uint64_t id;

    session->api_words = true;
    if (check_json(params, &follows, err) < 0)
        return -1;
    id = send_raw(session, method, params, err);
    if (id == 0)
        return -1;
    return print_answers(session, id, follows || str_equal(method, "run.exec"), err);
}
