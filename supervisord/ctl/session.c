#include "ctl/session.h"

#include "common/mem.h"
#include "common/str.h"
#include "ctl/wording.h"
#include "proto/launch.h"

#define START_MS 20000
#define CONNECT_MS 5000

const char *const exit_code_words[EXIT_CODE_COUNT] = {
    [EXIT_DONE] = "done",           [EXIT_FAILED] = "failed",
    [EXIT_USAGE] = "wrong usage",   [EXIT_NO_SUPERVISOR] = "no supervisor",
    [EXIT_NOT_FOUND] = "not found", [EXIT_REFUSED] = "refused",
};

int exit_code_of(enum error_code code)
{
    switch (code) {
    case ERR_NONE:
        return EXIT_DONE;
    case ERR_INVALID:
        return EXIT_USAGE;
    case ERR_NOT_FOUND:
        return EXIT_NOT_FOUND;
    case ERR_DENIED:
    case ERR_CONFLICT:
    case ERR_LIMIT:
        return EXIT_REFUSED;
    case ERR_UNAVAILABLE:
        return EXIT_NO_SUPERVISOR;
    case ERR_TIMEOUT:
    case ERR_CANCELLED:
    case ERR_SYSTEM:
    case ERR_BUG:
        break;
    }
    return EXIT_FAILED;
}

static void trace_frame(void *data, bool out, const char *text, size_t len)
{
    (void)data;
    if (text == NULL)
        fprintf(stderr, "%c (%zu bytes)\n", out ? '>' : '<', len);
    else
        fprintf(stderr, "%c %.*s\n", out ? '>' : '<', (int)len, text);
}

int session_connect(struct session *session, enum session_start start, struct error *err)
{
    struct error tried = ERROR_INIT; /* a first attempt may fail and a later one succeed */
    int rc =
        start == SESSION_START
            ? launch_connect(&session->client, &session->paths, "ctl", START_MS, &tried)
            : client_connect(&session->client, session->paths.socket, "ctl", CONNECT_MS, &tried);

    if (rc < 0) {
        session->client = NULL;
        *err = tried;
        return tried.code == ERR_UNAVAILABLE && start == SESSION_DONT_START
                   ? error_wrap(err, "no supervisor is running")
                   : -1;
    }
    if (session->args.has[ARGS_TRACE])
        client_set_trace(session->client, trace_frame, NULL);
    return 0;
}

void session_disconnect(struct session *session)
{
    client_free(STEAL(session->client));
}

int session_call(struct session *session, const char *method, const struct buf *body,
                 struct client_message *message, struct error *err)
{
    if (body != NULL && body->failed)
        return error_set(err, ERR_LIMIT, 0, "the request is too large");
    return client_call(session->client, method, body != NULL ? buf_text(body) : NULL,
                       SESSION_CALL_MS, message, err);
}

/* 1: the stream is over; 0: it goes on. */
static int take_stream(struct session *session, uint64_t id,
                       void (*each)(struct session *session, const struct json_value *event),
                       struct error *err)
{
    struct client_message message;
    int rc = client_next(session->client, -1, &message, err);
    enum envelope_kind kind;

    if (rc <= 0)
        return rc;
    kind = message.envelope.id == id ? message.envelope.kind : ENVELOPE_REPLY;
    if (kind == ENVELOPE_EVENT)
        each(session, message.envelope.body);
    else if (kind == ENVELOPE_ERROR)
        *err = message.envelope.error;
    client_message_finish(&message);
    if (kind == ENVELOPE_ERROR)
        return -1;
    return kind == ENVELOPE_END;
}

int session_stream(struct session *session, const char *method, const struct buf *body,
                   void (*each)(struct session *session, const struct json_value *event),
                   struct error *err)
{
    uint64_t id = client_send(session->client, method, buf_text(body), NULL, 0, err);
    int rc = 0;

    if (id == 0)
        return -1;
    while (rc == 0) {
        rc = take_stream(session, id, each, err);
        fflush(stdout);
    }
    return rc < 0 ? -1 : 0;
}

int session_fail(const struct session *session, const struct error *failed)
{
    AUTO_BUF struct buf text = BUF_INIT(8192);
    struct json_writer writer;
    struct error said = *failed;
    struct error *err = &said;

    if (!session->api_words)
        wording_translate(err);
    str_append_escaped(&text, err->text, strlen(err->text), 4096);
    fprintf(stderr, "sandboxctl: %s\n", buf_text(&text));
    if (session->json) {
        buf_clear(&text);
        json_write_init(&writer, &text);
        json_write_object(&writer);
        json_write_name(&writer, "error");
        json_write_object(&writer);
        json_member_string(&writer, "code", error_code_name(err->code));
        json_member_string(&writer, "message", err->text);
        json_member_string_opt(&writer, "argument", err->argument);
        json_write_object_end(&writer);
        json_write_object_end(&writer);
        printf("%s\n", buf_text(&text));
    }
    return exit_code_of(err->code);
}

void session_print(struct buf *text)
{
    fwrite(buf_text(text), 1, text->len, stdout);
    buf_clear(text);
}

void session_print_json(const struct json_value *value)
{
    AUTO_BUF struct buf text = BUF_INIT(64u << 20);

    json_append(&text, value);
    buf_append_char(&text, '\n');
    session_print(&text);
}
