// links: mcp_core
/* A client and a supervisor that say what they should not, when they should not: calls, tasks,
 * forms and subscriptions in any order of requests, replies, events, losses and time. The input is
 * pairs of bytes, what happens and with what; the supervisor's end of the socket is played in the
 * same thread. Each line that comes out must be whole, valid JSON-RPC. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "mcp-stdio/backend.h"
#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/version.h"
#include "tests/fuzz/mcp_lines.h"

#define PENDING_MAX 200
#define STEPS_MAX 400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RUN "run_01m8m5px9sxrrtn0g249zdyj80"
#define LEGACY(id, method, params)                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" params "}}\n"
#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"progressToken\":7,"   \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"extensions\":{"          \
    "\"io.modelcontextprotocol/tasks\":{}}}}"
#define MODERN(id, method, params) LEGACY(id, method, params META)
#define GET                                                                                        \
    "\"name\":\"opencode_get_result\",\"arguments\":{\"runId\":\"" RUN "\",\"waitSeconds\":20}"
#define START "\"name\":\"opencode_run_task\",\"arguments\":{\"task\":\"x\",\"wait\":true}"
#define ID "\"taskId\":\"" RUN "\""
#define ACCEPT "{\"action\":\"accept\",\"content\":{\"answer\":\"MIT\"}}"
#define ANSWER(id) "{\"jsonrpc\":\"2.0\",\"id\":\"question-" id "\",\"result\":" ACCEPT "}\n"
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id    \
    "}}\n"

static const char *const lines[] = {
    LEGACY("0", "initialize",
           "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"elicitation\":{}}"),
    LEGACY("0", "initialize", "\"protocolVersion\":\"2025-03-26\",\"capabilities\":{}"),
    LEGACY("1", "tools/call", GET),
    LEGACY("2", "tools/call", GET ",\"_meta\":{\"progressToken\":\"t\"}"),
    LEGACY("3", "tools/call", START ",\"task\":{}"),
    LEGACY("4", "tools/call", "\"name\":\"opencode_cancel_run\",\"arguments\":{\"runId\":\"r\"}"),
    LEGACY("5", "tasks/get", ID),
    LEGACY("6", "tasks/result", ID),
    LEGACY("7", "tasks/cancel", ID),
    LEGACY("8", "tasks/list", ""),
    LEGACY("9", "resources/read", "\"uri\":\"run://" RUN "/log\""),
    LEGACY("10", "resources/read", "\"uri\":\"run://" RUN "/diff\""),
    LEGACY("11", "resources/read", "\"uri\":\"session://ses_1\""),
    LEGACY("12", "resources/list", ""),
    LEGACY("13", "resources/subscribe", "\"uri\":\"run://" RUN "/log\""),
    LEGACY("14", "resources/subscribe", "\"uri\":\"run://" RUN "/diff\""),
    LEGACY("15", "resources/unsubscribe", "\"uri\":\"run://" RUN "/log\""),
    LEGACY("16", "completion/complete",
           "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"session://{sessionId}\"},\"argument\":{"
           "\"name\":\"sessionId\",\"value\":\"s\"}"),
    MODERN("17", "tools/call", GET ","),
    MODERN("18", "tools/call", GET ",\"inputResponses\":{\"que_1\":" ACCEPT "},"),
    MODERN("19", "tools/call", START ","),
    MODERN("20", "tasks/get", ID ","),
    MODERN("21", "tasks/update", ID ",\"inputResponses\":{\"que_1\":" ACCEPT "},"),
    MODERN("22", "tasks/cancel", ID ","),
    MODERN("23", "subscriptions/listen",
           "\"notifications\":{\"resourceSubscriptions\":[\"run://" RUN
           "/log\"],\"taskIds\":[\"" RUN "\"]},"),
    CANCEL("1"),
    CANCEL("2"),
    CANCEL("6"),
    CANCEL("23"),
    ANSWER("1"),
    ANSWER("2"),
    "{\"jsonrpc\":\"2.0\",\"id\":\"question-1\",\"error\":{\"code\":1,\"message\":\"m\"}}\n",
    "["
    "{\"jsonrpc\":\"2.0\",\"id\":30,\"method\":\"tools/call\",\"params\":{" GET "}},"
    "{\"jsonrpc\":\"2.0\",\"id\":31,\"method\":\"resources/list\"}]\n",
};

#define VIEW(status, rest)                                                                         \
    "{\"runId\":\"" RUN "\",\"status\":\"" status "\",\"createdAt\":1,\"cursor\":7" rest "}"

static const char *const bodies[] = {
    "{}",
    VIEW("queued", ""),
    VIEW("running", ",\"steps\":[{\"number\":1,\"time\":2,\"kind\":\"tool\",\"text\":\"x\"}]"),
    VIEW("waiting", ",\"request\":{\"requestId\":\"que_1\",\"kind\":\"question\",\"text\":\"q\","
                    "\"options\":[\"MIT\",\"GPL\"]}"),
    VIEW("waiting", ",\"request\":{\"requestId\":\"que_2\",\"options\":5,\"questions\":[1,{}]}"),
    VIEW("waiting", ""),
    VIEW("completed", ",\"result\":{\"success\":true,\"output\":\"o\"}"),
    VIEW("failed", ",\"result\":5"),
    VIEW("nonsense", ",\"steps\":5,\"request\":[]"),
    "{\"status\":\"completed\",\"cursor\":99}",
    "{\"events\":[],\"cursor\":7,\"hasMore\":false}",
    "{\"events\":[{\"number\":1,\"time\":1,\"kind\":\"tool\",\"text\":\"t\"}],\"cursor\":1,"
    "\"hasMore\":true}",
    "{\"runs\":[{\"runId\":\"" RUN "\"},{},5],\"hasMore\":true,\"cursor\":\"" RUN "\"}",
    "{\"sessions\":[{\"sessionId\":\"ses_1\"}],\"hasMore\":false}",
    "{\"diff\":\"d\",\"files\":{},\"truncated\":1}",
    "{\"number\":8,\"time\":1,\"kind\":\"tool\",\"text\":\"t\"}",
    "{\"number\":9,\"time\":1,\"kind\":\"state\",\"text\":\"s\",\"data\":{\"status\":\"running\"}}",
    "{\"number\":9,\"time\":1,\"kind\":\"state\",\"text\":\"s\",\"data\":{\"status\":\"completed\"}"
    "}",
    "{\"number\":9,\"kind\":\"question\",\"data\":{\"requestId\":\"que_2\"}}",
};

struct lab_clock {
    struct clock clock; /* first */
    uint64_t ms;
};

struct play {
    struct lab_clock clock;
    struct server *server;
    int fd; /* the supervisor's end; -1: none */
    struct buf in;
    struct pending {
        uint64_t id;
        bool stream; /* its reply is not all there will be */
    } pending[PENDING_MAX];
    size_t count;
};

static int listen_fd = -1;

static void drop_line(void *data, const char *line)
{
    (void)data;
    (void)line;
}

static uint64_t clock_ms(const struct clock *clock)
{
    return ((const struct lab_clock *)(const void *)clock)->ms;
}

static int launch(const struct paths *paths, int *started, struct error *err)
{
    *started = -1;
    (void)paths;
    (void)err;
    return 0;
}

static char folder[] = "/tmp/fuzz-mcp-XXXXXX";
static char socket_path[sizeof(folder) + 20];

static void clean_up(void)
{
    unlink(socket_path);
    rmdir(folder);
}

/* The socket is made once, for all inputs. */
static void set_up(void)
{
    struct error err = ERROR_INIT;

    log_set_sink(drop_line, NULL);
    require(mkdtemp(folder) != NULL);
    setenv("SANDBOX_MCP_STATE", folder, 1);
    setenv("SANDBOX_MCP_RUNTIME", folder, 1);
    snprintf(socket_path, sizeof(socket_path), "%s/supervisor.sock", folder);
    atexit(clean_up);
    listen_fd = fd_listen_unix(socket_path, SOCK_STREAM | SOCK_NONBLOCK, 8, &err);
    require(listen_fd >= 0);
}

static void drop(struct play *play)
{
    fd_close(&play->fd);
    buf_clear(&play->in);
    play->count = 0;
}

static void send_frames(struct play *play, const struct buf *frames)
{
    if (send(play->fd, frames->data, frames->len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        drop(play);
}

static void forget(struct play *play, uint64_t id)
{
    for (size_t i = 0; i < play->count; i++)
        if (play->pending[i].id == id)
            play->pending[i--] = play->pending[--play->count];
}

static void on_frame(struct play *play, const struct frame *frame)
{
    AUTO_JSON struct json_doc *doc = NULL;
    AUTO_BUF struct buf out = BUF_INIT(4096);
    struct envelope envelope;
    struct error err = ERROR_INIT;

    require(json_parse(&doc, frame->data, frame->len, FRAME_JSON_MAX, &err) == 0);
    require(envelope_read(doc, &envelope, &err) == 0);
    if (envelope.kind == ENVELOPE_CANCEL) {
        forget(play, envelope.id);
    } else if (strcmp(envelope.method, "hello") == 0) {
        AUTO_BUF struct buf body = BUF_INIT(200);

        buf_printf(&body, "{\"protocol\":%u,\"pid\":1,\"version\":\"1\"}", PROTO_VERSION);
        envelope_append_reply(&out, envelope.id, buf_text(&body), &err);
        send_frames(play, &out);
    } else if (play->count < PENDING_MAX) {
        play->pending[play->count++] =
            (struct pending){ envelope.id, strcmp(envelope.method, "run.events") == 0 };
    }
}

/* The supervisor takes what it was sent. */
static void hear(struct play *play)
{
    struct error err = ERROR_INIT;
    struct frame frame;
    long used;

    if (play->fd < 0)
        play->fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    while (play->fd >= 0) {
        char *to = buf_reserve(&play->in, 65536);
        ssize_t got = recv(play->fd, to, 65536, MSG_DONTWAIT);

        if (got <= 0) {
            if (got == 0)
                drop(play);
            break;
        }
        buf_commit(&play->in, (size_t)got);
        while ((used = frame_parse(buf_text(&play->in), play->in.len, &frame, &err)) > 0) {
            on_frame(play, &frame);
            if (play->fd < 0)
                return;
            buf_consume(&play->in, (size_t)used);
        }
    }
}

/* Both ends go on until there is nothing to hear. */
static void turn(struct play *play)
{
    for (int i = 0; i < 4; i++) {
        struct pollfd entry;

        server_tick(play->server);
        hear(play);
        if (server_poll(play->server, &entry) && poll(&entry, 1, 0) == 1)
            server_supervisor_ready(play->server);
    }
    server_tick(play->server);
    check_output(server_output(play->server));
}

static void reply(struct play *play, uint8_t what, uint8_t with)
{
    AUTO_BUF struct buf out = BUF_INIT(1u << 20);
    const char *body = bodies[with % ARRAY_LEN(bodies)];
    struct error error = ERROR_INIT;
    struct error err = ERROR_INIT;
    struct pending one;
    uint64_t id;

    if (play->fd < 0 || play->count == 0)
        return;
    one = play->pending[play->count - 1 - (with / ARRAY_LEN(bodies)) % play->count];
    id = one.id;
    switch (what) {
    case 0:
        envelope_append_reply(&out, id, body, &err);
        break;
    case 1:
        envelope_append_event(&out, id, body, &err);
        break;
    case 2:
        envelope_append_end(&out, id, body, &err);
        break;
    default:
        error_set(&error, (enum error_code)(ERR_INVALID + with % 8), 0, "no");
        envelope_append_error(&out, id, &error, &err);
    }
    if (what > 1 || (what == 0 && !one.stream))
        forget(play, id);
    send_frames(play, &out);
}

static void step(struct play *play, uint8_t what, uint8_t with)
{
    switch (what % 8) {
    case 0:
    case 1:
    case 2:
        feed(play->server, lines[with % ARRAY_LEN(lines)], strlen(lines[with % ARRAY_LEN(lines)]));
        break;
    case 3:
    case 4:
        reply(play, 0, with);
        break;
    case 5:
        reply(play, 1, with);
        break;
    case 6:
        reply(play, 2 + with % 2, with);
        break;
    default:
        if (with < 16)
            drop(play);
        else
            play->clock.ms += with * 100u;
    }
    turn(play);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct backend_options backend = { launch, 10000, 5000 };
    struct play play = { .clock = { { clock_ms, clock_ms }, 1000000 }, .fd = -1 };
    struct server_options options = { .clock = &play.clock.clock, .backend = &backend };

    if (listen_fd < 0)
        set_up();
    buf_init(&play.in, 16u << 20);
    play.server = server_new(&options);
    for (size_t at = 0; at + 1 < size && at < 2 * STEPS_MAX; at += 2)
        step(&play, data[at], data[at + 1]);
    server_free(play.server);
    drop(&play);
    buf_finish(&play.in);
    /* What the server had connected and nobody took. */
    for (int fd; (fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        close(fd);
    return 0;
}
