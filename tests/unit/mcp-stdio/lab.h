/* lab.h: a server with a clock that the test turns, a supervisor that the test plays, and the lines
 * that come out. */
#ifndef TESTS_UNIT_MCP_STDIO_LAB_H
#define TESTS_UNIT_MCP_STDIO_LAB_H

#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "mcp-stdio/backend.h"
#include "mcp-stdio/server.h"
#include "tests/harness/tmp.h"
#include "tests/unit/proto/peer.h"

#define MODERN_META_WITH(capabilities)                                                             \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"c\",\"version\":\"1\"},"                   \
    "\"io.modelcontextprotocol/clientCapabilities\":{" capabilities "}}"
#define MODERN_META MODERN_META_WITH("")
#define WITH_TASKS "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}"
#define WITH_FORMS "\"elicitation\":{}"

/* One request as a line. */
#define REQUEST(id, method, params)                                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" params "}}"
#define LEGACY_START(revision, capabilities)                                                       \
    REQUEST("0", "initialize",                                                                     \
            "\"protocolVersion\":\"" revision "\",\"capabilities\":{" capabilities                 \
            "},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}")
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id    \
    ",\"reason\":\"r\"}}"

#define RUN_ID "run_01m8m5px9sxrrtn0g249zdyj80"
/* Views of that run. */
#define VIEW_OF(status, rest)                                                                      \
    "{\"runId\":\"" RUN_ID "\",\"sessionId\":\"ses_1\",\"status\":\"" status                       \
    "\",\"message\":\"m\",\"task\":\"t\",\"createdAt\":1795973412153,\"cursor\":7" rest "}"
#define VIEW_RUNNING VIEW_OF("running", ",\"phase\":\"work\"")
#define VIEW_COMPLETED                                                                             \
    VIEW_OF("completed", ",\"verdict\":\"changed\",\"completedAt\":1795973431116,\"result\":{"     \
                         "\"success\":true,\"output\":\"All done.\"}")
#define VIEW_WAITING                                                                               \
    VIEW_OF("waiting", ",\"request\":{\"requestId\":\"que_1\",\"kind\":\"question\",\"text\":"     \
                       "\"Which licence?\",\"options\":[\"MIT\",\"GPL\"]}")

struct lab_clock {
    struct clock clock; /* first */
    uint64_t mono_ms;
};

struct lab {
    struct lab_clock clock;
    struct backend_options backend;
    struct server *server;
    struct peer peer;
    struct buf line; /* the last one taken from the server */
    struct json_doc *doc;
    int launched;
};

static struct lab lab;

static inline uint64_t lab_mono_ms(const struct clock *clock)
{
    return ((const struct lab_clock *)(const void *)clock)->mono_ms;
}

static inline int lab_launch(const struct paths *paths, int *started, struct error *err)
{
    *started = -1;
    (void)paths;
    (void)err;
    lab.launched++;
    return 0;
}

static inline void lab_finish(void *data)
{
    (void)data;
    server_free(STEAL(lab.server));
    json_free(STEAL(lab.doc));
    buf_finish(&lab.line);
    unsetenv("SANDBOX_MCP_STATE");
    unsetenv("SANDBOX_MCP_RUNTIME");
}

/* A server without any supervisor. */
static inline void lab_start_alone(void)
{
    struct server_options options = { .clock = &lab.clock.clock };

    lab = (struct lab){ .clock = { { lab_mono_ms, lab_mono_ms }, 1000000 } };
    lab.peer.fd = lab.peer.listen_fd = -1;
    buf_init(&lab.line, 16u << 20);
    test_defer(lab_finish, NULL);
    lab.server = server_new(&options);
}

/* One whose supervisor is not there yet. */
static inline void lab_start_absent(void)
{
    struct server_options options = { .clock = &lab.clock.clock, .backend = &lab.backend };

    lab = (struct lab){ .clock = { { lab_mono_ms, lab_mono_ms }, 1000000 },
                        .backend = { lab_launch, 10000, 5000 } };
    lab.peer.fd = lab.peer.listen_fd = -1;
    buf_init(&lab.line, 16u << 20);
    test_defer(lab_finish, NULL);
    setenv("SANDBOX_MCP_STATE", tmp_subdir("state"), 1);
    setenv("SANDBOX_MCP_RUNTIME", tmp_subdir("run"), 1);
    lab.server = server_new(&options);
}

static inline void lab_listen(void)
{
    peer_listen(&lab.peer, tmp_path("run/supervisor.sock"));
}

static inline void lab_start(void)
{
    lab_start_absent();
    lab_listen();
}

/* One turn of the owner's loop, which waits for the supervisor at most WAIT_MS. */
static inline void lab_turn(int wait_ms)
{
    struct pollfd entry;

    if (server_poll(lab.server, &entry) && poll(&entry, 1, wait_ms) == 1)
        server_supervisor_ready(lab.server);
    server_tick(lab.server);
}

static inline void lab_pass(uint64_t milliseconds)
{
    lab.clock.mono_ms += milliseconds;
    lab_turn(0);
}

static inline void lab_feed(const char *data, size_t len)
{
    while (len) {
        size_t step = len < 4096 ? len : 4096;
        char *to = server_input_reserve(lab.server, step);

        CHECK(to != NULL);
        memcpy(to, data, step);
        server_input_commit(lab.server, step);
        data += step;
        len -= step;
    }
}

static inline void lab_say(const char *line)
{
    lab_feed(line, strlen(line));
    lab_feed("\n", 1);
    lab_turn(0);
}

/* The next line from the server in lab.line, parsed in lab.doc; false when there is none. */
static inline bool lab_next(void)
{
    struct buf *out = server_output(lab.server);
    char *end = out->len ? memchr(out->data, '\n', out->len) : NULL;
    struct error err = ERROR_INIT;

    buf_clear(&lab.line);
    json_free(STEAL(lab.doc));
    if (!end)
        return false;
    buf_append(&lab.line, out->data, (size_t)(end - out->data));
    buf_consume(out, (size_t)(end - out->data) + 1);
    CHECK_EQ(json_parse(&lab.doc, lab.line.data, lab.line.len, 16u << 20, &err), 0);
    return true;
}

static inline const char *lab_line(void)
{
    CHECK(lab_next());
    return buf_text(&lab.line);
}

static inline bool lab_silent(void)
{
    return server_output(lab.server)->len == 0;
}

static inline const struct json_value *lab_get(const char *path)
{
    return json_path(json_root(lab.doc), path);
}

/* The error's code of the answer to LINE; 0 when it is a result, 1 when there is no answer. */
static inline int lab_code(const char *line)
{
    lab_say(line);
    if (!lab_next())
        return 1;
    return (int)json_number(lab_get("error.code"), 0);
}

/* The text of the tool result in lab.doc. */
static inline const char *lab_text(void)
{
    const char *text = json_string(json_get(json_first(lab_get("result.content")), "text"));

    return text ? text : "";
}

static inline bool lab_is_error(void)
{
    return json_bool(lab_get("result.isError"), false);
}

/* The connection is made, hello is done, and the next request is in lab.peer.request. */
static inline void lab_meet(void)
{
    peer_accept(&lab.peer);
    peer_answer_hello(&lab.peer, PROTO_VERSION);
    lab_turn(PEER_WAIT_MS);
    CHECK(peer_read(&lab.peer));
}

/* The supervisor answers the request that it has read last. */
static inline void lab_reply(const char *body)
{
    peer_reply(&lab.peer, lab.peer.request.id, body);
    lab_turn(PEER_WAIT_MS);
}

/* Its next request is METHOD. */
static inline void lab_expect(const char *method)
{
    CHECK(peer_read(&lab.peer));
    CHECK_STR(lab.peer.request.method ? lab.peer.request.method : "(none)", method);
}

static inline const char *lab_param(const char *name)
{
    return json_string(json_get(lab.peer.request.body, name));
}

static inline void lab_refuse(enum error_code code, const char *text)
{
    struct error error = ERROR_INIT;

    error_set(&error, code, 0, "%s", text);
    peer_fail(&lab.peer, lab.peer.request.id, &error);
    lab_turn(PEER_WAIT_MS);
}

/* Calls a tool in the legacy era with ID. */
static inline void lab_call(const char *id, const char *tool, const char *arguments,
                            const char *meta)
{
    AUTO_BUF struct buf line = BUF_INIT(16u << 20);

    buf_printf(&line,
               "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/"
               "call\",\"params\":{\"name\":\"%s\",\"arguments\":%s%s%s}}",
               id, tool, arguments, meta ? "," : "", meta ? meta : "");
    lab_say(buf_text(&line));
}

#endif
