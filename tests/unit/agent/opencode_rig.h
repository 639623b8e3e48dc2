/* opencode_rig.h: the driver against a server written here, on the same loop: host and server are
 * one struct. What the server says after a prompt is a list of frames; "MSG" in them becomes the
 * prompt's id, "SAID" that of the newest message for it, and a line that begins with '!' is an
 * order to the server itself. */
#ifndef TESTS_OPENCODE_RIG_H
#define TESTS_OPENCODE_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/opencode/opencode.h"
#include "agent/opencode/opencode_events.h"
#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "io/io.h"

#define CONNS_MAX 64
#define SES "\"sessionID\":\"ses_1\""
#define BUSY "{\"type\":\"session.status\",\"properties\":{" SES ",\"status\":{\"type\":\"busy\"}}}"
#define IDLE "{\"type\":\"session.status\",\"properties\":{" SES ",\"status\":{\"type\":\"idle\"}}}"
#define USER                                                                                       \
    "{\"type\":\"message.updated\",\"properties\":{" SES                                           \
    ",\"info\":{\"id\":\"MSG\",\"role\":\"user\"," SES "}}}"
#define ANSWERING                                                                                  \
    "{\"type\":\"message.updated\",\"properties\":{" SES                                           \
    ",\"info\":{\"id\":\"msg_a\",\"parentID\":\"MSG\",\"role\":\"assistant\"," SES "}}}"
#define RETRY                                                                                      \
    "{\"type\":\"session.status\",\"properties\":{" SES                                            \
    ",\"status\":{\"type\":\"retry\",\"attempt\":1,\"message\":\"busy\",\"next\":1}}}"
#define RETRY_LATE                                                                                 \
    "{\"type\":\"session.status\",\"properties\":{" SES                                            \
    ",\"status\":{\"type\":\"retry\",\"attempt\":1,\"message\":\"slow "                            \
    "down\",\"next\":99999999999999}}}"
#define TEXT                                                                                       \
    "{\"type\":\"message.part.updated\",\"properties\":{" SES                                      \
    ",\"part\":{\"id\":\"prt_1\",\"type\":\"text\"," SES                                           \
    ",\"messageID\":\"msg_a\",\"text\":\"all done\",\"time\":{\"start\":1,\"end\":2}}}}"
#define FAILURE(name, status, words)                                                               \
    "{\"name\":\"" name "\",\"data\":{\"message\":\"" words "\",\"statusCode\":" status "}}"
#define ERROR_EVENT(failure)                                                                       \
    "{\"type\":\"session.error\",\"properties\":{" SES ",\"error\":" failure "}}"
#define MESSAGE_USER "{\"info\":{\"id\":\"MSG\",\"role\":\"user\"," SES "},\"parts\":[]}"
#define MESSAGE_ANSWER(more)                                                                       \
    "{\"info\":{\"id\":\"msg_a\",\"parentID\":\"MSG\",\"role\":\"assistant\"," SES "," more        \
    "\"tokens\":{\"input\":7,\"output\":3},\"cost\":0.5},"                                         \
    "\"parts\":[{\"id\":\"prt_1\",\"type\":\"text\"," SES                                          \
    ",\"messageID\":\"msg_a\",\"text\":\"all done\",\"time\":{\"start\":1,\"end\":2}}]}"
#define ENDED "\"time\":{\"created\":1,\"completed\":2},"
#define DONE "[" MESSAGE_USER "," MESSAGE_ANSWER("\"finish\":\"stop\"," ENDED) "]"
#define OPEN "[" MESSAGE_USER "," MESSAGE_ANSWER("\"time\":{\"created\":1},") "]"
#define FINISH_UNKNOWN(id)                                                                         \
    "{\"type\":\"message.updated\",\"properties\":{" SES ",\"info\":{\"id\":\"" id                 \
    "\",\"parentID\":\"MSG\",\"role\":\"assistant\"," SES "," ENDED "\"finish\":\"unknown\"}}}"
#define PERMISSION                                                                                 \
    "{\"type\":\"permission.asked\",\"properties\":{\"id\":\"per_1\"," SES                         \
    ",\"permission\":\"bash\",\"patterns\":[\"ls\"],\"metadata\":{\"command\":\"ls -l\"}}}"
#define REPLIED                                                                                    \
    "{\"type\":\"permission.replied\",\"properties\":{" SES                                        \
    ",\"requestID\":\"per_1\",\"reply\":\"once\"}}"

#define CHILD_MESSAGES                                                                             \
    "[{\"info\":{\"id\":\"msg_c\",\"role\":\"assistant\",\"sessionID\":\"ses_2\",\"time\":{"       \
    "\"created\":99999999999999}},"                                                                \
    "\"parts\":[{\"id\":\"prt_c\",\"type\":\"text\",\"sessionID\":\"ses_2\",\"messageID\":\"msg_"  \
    "c\",\"text\":\"looked\","                                                                     \
    "\"time\":{\"start\":1,\"end\":2}}]}]"

struct conn {
    struct fake *fake;
    struct stream *stream;
    struct buf in;
    bool is_events;
};

struct fake {
    uv_loop_t loop;
    /* what it does */
    const char *version;
    const char *first_line;
    const char *vcs;
    const char *const *after_prompt;
    const char *const *after_abort;
    const char *const *after_reply;
    const char *const *at_children; /* when it is asked for them */
    const char *const *after_reconnect;
    const char *messages;
    const char *status;
    const char *permissions;
    const char *children;
    const char *conversation;          /* to go on with */
    const char *prompt_reply;          /* instead of 204 */
    const char *answer;                /* to requests */
    const struct agent_resume *resume; /* instead of a start */
    bool unknown_process;              /* attaching fails */
    const char *const *when_ready;     /* frames after it became ready */
    const char *const *say;            /* messages for the prompt, once it is taken */
    const char *const *after_message;  /* frames */
    const char *const *after_nudge;
    const char *message_reply; /* instead of 204 */
    unsigned missing;          /* so often a message is not found when it is asked for */
    unsigned posts;            /* prompts that came */
    unsigned deaf;             /* so many connections get no answer at first */
    bool mute;                 /* requests but those of the start get no answer */
    bool abort_when_taken;
    uint64_t abort_after_ms;
    unsigned prompts;
    /* what became of it */
    struct agent *agent;
    struct conn conns[CONNS_MAX];
    struct conn *events;
    unsigned streams;
    unsigned aborts;
    int stdout_fd;
    char message_id[OPENCODE_ID_SIZE];
    char said_id[OPENCODE_ID_SIZE];
    unsigned said; /* messages that came */
    unsigned nudges;
    char last_reply[512];
    struct buf log;
    void (*wait_done)(void *context, int code, int signal, const struct error *err);
    void *wait_context;
    unsigned steps;
    unsigned close_at; /* close the agent at this step; 0: when the prompts are over */
    bool closing;
    bool closed;
    uv_timer_t abort_timer;
    uv_timer_t guard;
};

static const struct opencode_timing quick = {
    .start = 2000,
    .request = 400,
    .silence = 300,
    .taken = 120,
    .debounce = 15,
    .again = 15,
    .quiet = 150,
    .abort = 250,
    .warm = 60,
    .reconnect = 5,
    .stream_lost = 300,
    .retry_max = 10000,
    .clock_ahead = 60,
    .drain = 10,
};

static void on_agent_closed(void *data)
{
    struct fake *fake = data;

    fake->closed = true;
    for (size_t i = 0; i < CONNS_MAX; i++) {
        if (fake->conns[i].stream != NULL)
            stream_close(fake->conns[i].stream, NULL, NULL);
        fake->conns[i].stream = NULL;
        buf_finish(&fake->conns[i].in);
    }
    if (fake->wait_done != NULL) {
        struct error err = ERROR_INIT;

        error_set(&err, ERR_CANCELLED, 0, "the sandbox ended");
        fake->wait_done(fake->wait_context, -1, 0, &err);
        fake->wait_done = NULL;
    }
    fd_close(&fake->stdout_fd);
    uv_close((uv_handle_t *)&fake->abort_timer, NULL);
    uv_close((uv_handle_t *)&fake->guard, NULL);
}

static void close_agent(struct fake *fake)
{
    if (fake->closing || fake->agent == NULL)
        return;
    fake->closing = true;
    fake->agent->driver->close(fake->agent, on_agent_closed, fake);
}

/* Counts everything that happens between the driver and the world. */
static void step(struct fake *fake)
{
    if (++fake->steps == fake->close_at)
        close_agent(fake);
}

/* Server -------------------------------------------------------------------------------------- */

static void append_replaced(struct buf *out, const char *text, const struct fake *fake)
{
    static const char *const marks[] = { "\"MSG\"", "\"SAID\"" };
    const char *const ids[] = { fake->message_id, fake->said_id };

    while (*text != '\0') {
        size_t which = 0;

        while (which < ARRAY_LEN(marks) && !str_starts(text, marks[which]))
            which++;
        if (which == ARRAY_LEN(marks)) {
            buf_append_char(out, *text++);
            continue;
        }
        buf_printf(out, "\"%s\"", ids[which]);
        text += strlen(marks[which]);
    }
}

static void send_frame(struct fake *fake, const char *frame)
{
    AUTO_BUF struct buf body = { 0 };
    AUTO_BUF struct buf chunk = { 0 };

    if (fake->events == NULL || fake->events->stream == NULL)
        return;
    buf_init(&body, 1 << 20);
    buf_init(&chunk, 1 << 20);
    buf_append_str(&body, "data: ");
    append_replaced(&body, frame, fake);
    buf_append_str(&body, "\n\n");
    buf_printf(&chunk, "%zx\r\n%s\r\n", body.len, body.data);
    stream_write(fake->events->stream, chunk.data, chunk.len);
}

static void cut_stream(struct fake *fake)
{
    struct stream *stream = fake->events->stream;

    fake->events->stream = NULL;
    buf_finish(&fake->events->in);
    stream_reset(stream, NULL, NULL);
    fake->events = NULL;
}

static void die(struct fake *fake)
{
    void (*done)(void *context, int code, int signal, const struct error *err) = fake->wait_done;

    if (done == NULL)
        return;
    fake->wait_done = NULL;
    CHECK(write(fake->stdout_fd, "panic: oh no\n", 13) == 13);
    done(fake->wait_context, 3, 0, NULL);
}

static void play(struct fake *fake, const char *const *frames)
{
    for (; frames != NULL && *frames != NULL && !fake->closing; frames++) {
        if (str_equal(*frames, "!cut"))
            cut_stream(fake);
        else if (str_equal(*frames, "!die"))
            die(fake);
        else if (str_starts(*frames, "!status "))
            fake->status = *frames + strlen("!status ");
        else if (str_starts(*frames, "!messages "))
            fake->messages = *frames + strlen("!messages ");
        else
            send_frame(fake, *frames);
    }
}

static void reply(struct conn *conn, const char *body)
{
    AUTO_BUF struct buf replaced = { 0 };
    AUTO_BUF struct buf out = { 0 };

    buf_init(&replaced, 1 << 20);
    buf_init(&out, 1 << 20);
    append_replaced(&replaced, body, conn->fake);
    buf_printf(&out,
               "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
               replaced.len, buf_text(&replaced));
    stream_write(conn->stream, out.data, out.len);
}

static void reply_raw(struct conn *conn, const char *text)
{
    stream_write(conn->stream, text, strlen(text));
}

static void on_message_posted(struct conn *conn, const char *id, const char *body)
{
    struct fake *fake = conn->fake;

    if (strstr(body, "\"parts\":[]") != NULL) {
        CHECK(str_starts(id, fake->said_id));
        fake->nudges++;
        reply_raw(conn, "HTTP/1.1 204 No Content\r\n\r\n");
        play(fake, fake->after_nudge);
        return;
    }
    fake->said++;
    (void)snprintf(fake->said_id, sizeof(fake->said_id), "%.*s", (int)strcspn(id, "\""), id);
    reply_raw(conn, fake->message_reply != NULL ? fake->message_reply
                                                : "HTTP/1.1 204 No Content\r\n\r\n");
    play(fake, fake->after_message);
}

static void on_prompt_posted(struct conn *conn, const char *body)
{
    struct fake *fake = conn->fake;
    const char *id = strstr(body, "\"messageID\":\"");

    CHECK(id != NULL);
    id += strlen("\"messageID\":\"");
    if (strstr(body, "\"text\":\"do it\"") == NULL) {
        on_message_posted(conn, id, body);
        return;
    }
    fake->posts++;
    (void)snprintf(fake->message_id, sizeof(fake->message_id), "%.*s", (int)strcspn(id, "\""), id);
    reply_raw(conn,
              fake->prompt_reply != NULL ? fake->prompt_reply : "HTTP/1.1 204 No Content\r\n\r\n");
    play(fake, fake->after_prompt);
}

static void on_events_opened(struct conn *conn)
{
    struct fake *fake = conn->fake;

    fake->events = conn;
    reply_raw(
        conn,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    send_frame(fake, "{\"type\":\"server.connected\",\"properties\":{}}");
    if (fake->streams++ > 0)
        play(fake, fake->after_reconnect);
}

static void route(struct conn *conn, const char *line, const char *body)
{
    struct fake *fake = conn->fake;
    AUTO_FREE
    char *text = NULL;

    if (str_starts(line, "GET /global/health")) {
        text = mem_printf("{\"healthy\":true,\"version\":\"%s\"}", fake->version);
        reply(conn, text);
    } else if (str_starts(line, "GET /project/current")) {
        text = mem_printf("{\"id\":\"x\",\"vcs\":\"%s\"}", fake->vcs);
        reply(conn, text);
    } else if (str_starts(line, "GET /event ")) {
        on_events_opened(conn);
    } else if (str_starts(line, "POST /session ") || str_starts(line, "GET /session/ses_1 ")) {
        reply(conn, "{\"id\":\"ses_1\"}");
    } else if (fake->mute) {
        return;
    } else if (strstr(line, "/prompt_async ") != NULL) {
        on_prompt_posted(conn, body);
    } else if (strstr(line, "/session/ses_1/message/msg_") != NULL) {
        if (fake->missing == 0)
            reply(conn, "{\"info\":{}}");
        else if (fake->missing--)
            reply_raw(conn, "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
                            "Content-Length: 2\r\n\r\n{}");
    } else if (strstr(line, "/session/ses_1/message") != NULL) {
        reply(conn, fake->messages);
    } else if (strstr(line, "/session/status ") != NULL) {
        reply(conn, fake->status);
    } else if (strstr(line, "/abort ") != NULL) {
        fake->aborts++;
        reply(conn, "true");
        play(fake, fake->after_abort);
    } else if (str_starts(line, "POST /permission/per_1/reply ")) {
        str_copy(fake->last_reply, sizeof(fake->last_reply), body);
        reply(conn, "true");
        play(fake, fake->after_reply);
    } else if (str_starts(line, "GET /permission ")) {
        reply(conn, fake->permissions);
    } else if (strstr(line, "/session/ses_2/message") != NULL) {
        reply(conn, CHILD_MESSAGES);
    } else if (strstr(line, "/ses_1/children ") != NULL) {
        play(fake, fake->at_children);
        reply(conn, fake->children);
    } else if (str_starts(line, "GET /question ")) {
        reply(conn, "[]");
    } else {
        reply_raw(conn,
                  "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<web");
    }
}

static void on_request_bytes(void *data, const char *bytes, size_t len)
{
    struct conn *conn = data;
    const char *body;
    const char *length;
    size_t wanted = 0;

    buf_append(&conn->in, bytes, len);
    body = strstr(buf_text(&conn->in), "\r\n\r\n");
    if (body == NULL || conn->is_events)
        return;
    body += 4;
    length = strstr(buf_text(&conn->in), "Content-Length: ");
    if (length != NULL)
        wanted = strtoul(length + 16, NULL, 10);
    if (conn->in.len - (size_t)(body - conn->in.data) < wanted)
        return;
    CHECK(strstr(buf_text(&conn->in), "Authorization: Basic ") != NULL);
    conn->is_events = true; /* one request a connection */
    step(conn->fake);
    if (conn->fake->deaf > 0)
        conn->fake->deaf--;
    else if (!conn->fake->closing)
        route(conn, buf_text(&conn->in), body);
}

static void on_request_end(void *data, const struct error *err)
{
    struct conn *conn = data;

    (void)err;
    if (conn->fake->events == conn)
        conn->fake->events = NULL;
    stream_close(conn->stream, NULL, NULL);
    conn->stream = NULL;
    buf_finish(&conn->in);
}

/* Host ---------------------------------------------------------------------------------------- */

struct later {
    uv_timer_t timer;
    struct fake *fake;
    void (*spawned)(void *context, const struct agent_process *process, const struct error *err);
    void (*connected)(void *context, int fd, const struct error *err);
    void *context;
};

static void free_later(uv_handle_t *handle)
{
    free(handle->data);
}

static void connect_now(struct later *later)
{
    struct fake *fake = later->fake;
    struct stream_callbacks callbacks = { .on_data = on_request_bytes, .on_end = on_request_end };
    struct error err = ERROR_INIT;
    int pair[2];

    CHECK_EQ(fd_socketpair(pair, &err), 0);
    CHECK_EQ(fd_set_nonblocking(pair[0], true, &err) + fd_set_nonblocking(pair[1], true, &err), 0);
    for (size_t i = 0; i < CONNS_MAX; i++) {
        struct conn *conn = &fake->conns[i];

        if (conn->stream != NULL)
            continue;
        *conn = (struct conn){ .fake = fake };
        buf_init(&conn->in, 1 << 20);
        callbacks.data = conn;
        if (fake->closed)
            fd_close(&pair[1]);
        else
            CHECK_EQ(stream_start(&conn->stream, &fake->loop, pair[1], &callbacks, &err), 0);
        later->connected(later->context, pair[0], NULL);
        return;
    }
    CHECK_FAILED("too many connections");
}

static void spawn_now(struct later *later)
{
    struct fake *fake = later->fake;
    int out[2];
    struct error err = ERROR_INIT;

    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    CHECK_EQ(fd_set_nonblocking(out[0], true, &err), 0);
    fake->stdout_fd = out[1];
    CHECK(write(out[1], fake->first_line, strlen(fake->first_line)) ==
          (ssize_t)strlen(fake->first_line));
    later->spawned(later->context, &(struct agent_process){ 7, -1, out[0], -1 }, NULL);
    if (fake->closed)
        fd_close(&fake->stdout_fd);
}

static void on_later(uv_timer_t *timer)
{
    struct later *later = timer->data;

    step(later->fake);
    if (later->spawned != NULL)
        spawn_now(later);
    else
        connect_now(later);
    uv_close((uv_handle_t *)timer, free_later);
}

static struct later *later_new(struct fake *fake, void *context)
{
    struct later *later = NEW(struct later);

    later->fake = fake;
    later->context = context;
    uv_timer_init(&fake->loop, &later->timer);
    later->timer.data = later;
    uv_timer_start(&later->timer, on_later, 0, 0);
    return later;
}

static int host_spawn(void *data, const struct agent_command *command,
                      void (*done)(void *context, const struct agent_process *process,
                                   const struct error *err),
                      void *context, struct error *err)
{
    (void)err;
    CHECK_STR(command->argv[0], "/opt/opencode");
    CHECK_STR(command->cwd, "/workspace");
    later_new(data, context)->spawned = done;
    return 0;
}

/* Its "listening" was read by another. */
static int host_attach(void *data, uint32_t id,
                       void (*done)(void *context, const struct agent_process *process,
                                    const struct error *err),
                       void *context, struct error *err)
{
    struct fake *fake = data;

    if (fake->unknown_process)
        return error_set(err, ERR_NOT_FOUND, 0, "no such process");
    CHECK_EQ(id, 7u);
    fake->first_line = "";
    later_new(data, context)->spawned = done;
    return 0;
}

static int host_wait(void *data, uint32_t id,
                     void (*done)(void *context, int code, int signal, const struct error *err),
                     void *context, struct error *err)
{
    struct fake *fake = data;

    (void)err;
    CHECK_EQ(id, 7u);
    fake->wait_done = done;
    fake->wait_context = context;
    return 0;
}

static int host_connect(void *data, uint16_t port,
                        void (*done)(void *context, int fd, const struct error *err), void *context,
                        struct error *err)
{
    (void)err;
    CHECK_EQ(port, 4096);
    later_new(data, context)->connected = done;
    return 0;
}

static void host_signal(void *data, uint32_t id, int signal)
{
    (void)data;
    (void)id;
    (void)signal;
}

/* Run ----------------------------------------------------------------------------------------- */

static void next_prompt(struct fake *fake)
{
    struct error err = ERROR_INIT;

    if (fake->closing)
        return;
    if (fake->prompts-- == 0)
        close_agent(fake);
    else if (fake->agent->driver->prompt(fake->agent, "do it", &err) < 0)
        CHECK_FAILED(err.text);
    else
        CHECK_EQ(fake->agent->driver->prompt(fake->agent, "more", &err), -1);
}

static void on_ready(void *data, const char *failure_code, const struct error *err)
{
    struct fake *fake = data;

    buf_printf(&fake->log, "ready%s%s%s%s\n", failure_code != NULL ? " " : "",
               failure_code != NULL ? failure_code : "", err != NULL ? ": " : "",
               err != NULL ? err->text : "");
    step(fake);
    if (failure_code != NULL)
        close_agent(fake);
    else if (fake->resume == NULL || fake->resume->prompt_id == NULL)
        next_prompt(fake);
    else
        fake->prompts = 0;
    if (!fake->closing)
        play(fake, fake->when_ready);
}

static void on_event(void *data, const struct agent_event *event)
{
    struct fake *fake = data;
    static const char *const names[] = {
        "",         "text",     "reasoning", "tool",    "tool start", "todo",  "permission",
        "question", "answered", "retry",     "running", "title",      "usage", "log",
    };
    struct error err = ERROR_INIT;

    CHECK(!fake->closing);
    if (event->kind != AGENT_EVENT_ALIVE && event->kind != AGENT_EVENT_LOG)
        buf_printf(&fake->log, "%s %s\n", names[event->kind],
                   event->text != NULL ? event->text : "");
    step(fake);
    if (!fake->closing && event->kind == AGENT_EVENT_PERMISSION && fake->answer != NULL)
        CHECK_EQ(fake->agent->driver->answer(fake->agent, event->request_id, fake->answer, &err),
                 0);
}

static void on_abort_timer(uv_timer_t *timer)
{
    struct fake *fake = timer->data;

    if (!fake->closing)
        fake->agent->driver->abort(fake->agent);
}

static void on_process(void *data, uint32_t process_id)
{
    (void)data;
    CHECK(process_id != 0);
}

static bool on_sending(void *data, const char *conversation, const char *prompt_id)
{
    (void)data;
    CHECK_STR(conversation, "ses_1");
    CHECK(str_starts(prompt_id, "msg_"));
    return true;
}

static void say(struct fake *fake)
{
    char id[AGENT_MESSAGE_ID_SIZE] = "";
    struct agent_message message = { .id = id };
    struct error err = ERROR_INIT;

    for (const char *const *text = fake->say; text != NULL && *text != NULL && !fake->closing;
         text++) {
        message.text = *text;
        CHECK_EQ(fake->agent->driver->steer_id(fake->agent, id, &err), 0);
        fake->agent->driver->steer(fake->agent, &message);
    }
}

static void on_steered(void *data, const char *message_id, const char *unread)
{
    struct fake *fake = data;

    CHECK(!fake->closing);
    CHECK(str_starts(message_id, "msg_"));
    buf_printf(&fake->log, "%s%s\n",
               unread == NULL ? "read" : "unread: ", unread == NULL ? "" : unread);
    step(fake);
}

static void on_taken(void *data)
{
    struct fake *fake = data;

    buf_append_str(&fake->log, "taken\n");
    step(fake);
    say(fake);
    if (fake->abort_when_taken)
        uv_timer_start(&fake->abort_timer, on_abort_timer, fake->abort_after_ms, 0);
}

static void on_end(void *data, const struct agent_end *end)
{
    static const char *const kinds[] = { "done", "incomplete", "failed", "aborted" };
    struct fake *fake = data;

    buf_printf(&fake->log, "end %s [%s] %s|%s|%s", kinds[end->kind], end->finish_reason,
               end->error_code, end->message, end->output);
    if (end->usage_known)
        buf_printf(&fake->log, "|%llu/%llu", (unsigned long long)end->usage.input_tokens,
                   (unsigned long long)end->usage.cost_microdollars);
    buf_append_char(&fake->log, '\n');
    step(fake);
    next_prompt(fake);
}

static void on_guard(uv_timer_t *timer)
{
    struct fake *fake = timer->data;

    buf_append_str(&fake->log, "HUNG\n");
    close_agent(fake);
}

static void fake_init(struct fake *fake)
{
    *fake = (struct fake){
        .version = "1.18.33",
        .first_line = "opencode server listening on http://127.0.0.1:4096\n",
        .vcs = "git",
        .messages = "[]",
        .status = "{}",
        .permissions = "[]",
        .children = "[]",
        .conversation = "",
        .prompts = 1,
        .stdout_fd = -1,
    };
    buf_init(&fake->log, 1 << 20);
}

static const char *run(struct fake *fake)
{
    struct agent_provider provider = { .name = "anthropic",
                                       .npm = "",
                                       .base_url = "http://127.0.0.1:4999/v1" };
    struct agent_options options = {
        .id = "run_1",
        .token = "token",
        .model = "anthropic/claude-sonnet-4-5",
        .directory = "/workspace",
        .home = "/home/agent",
        .conversation = fake->conversation,
        .title = "",
        .providers = &provider,
        .provider_count = 1,
        .clock = clock_system(),
    };
    struct agent_host host = { .data = fake,
                               .spawn = host_spawn,
                               .attach = host_attach,
                               .wait = host_wait,
                               .connect = host_connect,
                               .signal = host_signal };
    struct agent_callbacks callbacks = { .on_ready = on_ready,
                                         .on_process = on_process,
                                         .on_sending = on_sending,
                                         .on_event = on_event,
                                         .on_prompt_taken = on_taken,
                                         .on_steered = on_steered,
                                         .on_end = on_end,
                                         .data = fake };
    struct error err = ERROR_INIT;

    CHECK_EQ(uv_loop_init(&fake->loop), 0);
    uv_timer_init(&fake->loop, &fake->abort_timer);
    uv_timer_init(&fake->loop, &fake->guard);
    fake->abort_timer.data = fake->guard.data = fake;
    uv_timer_start(&fake->guard, on_guard, 5000, 0);
    signal(SIGPIPE, SIG_IGN);
    if (fake->resume == NULL) {
        CHECK_EQ(
            opencode_start(&fake->agent, &fake->loop, &host, &options, &callbacks, &quick, &err),
            0);
    } else {
        str_copy(fake->message_id, sizeof(fake->message_id),
                 fake->resume->prompt_id != NULL ? fake->resume->prompt_id : "");
        CHECK_EQ(opencode_resume_with(&fake->agent, &fake->loop, &host, &options, fake->resume,
                                      &callbacks, &quick, &err),
                 0);
    }
    uv_run(&fake->loop, UV_RUN_DEFAULT);
    CHECK(fake->closed);
    CHECK_EQ(uv_loop_close(&fake->loop), 0);
    return buf_text(&fake->log);
}

static const char *const plain_success[] = { USER, BUSY, ANSWERING, TEXT, "!messages " DONE,
                                             IDLE, IDLE, NULL };

#endif
