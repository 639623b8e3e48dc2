/* server.h: one MCP client's server: bytes in, bytes out. It reads messages, finds the era of each,
 * and answers. The owner (main, a test, a fuzzer) moves the bytes and the time; nothing here waits.
 */
#ifndef MCP_STDIO_SERVER_H
#define MCP_STDIO_SERVER_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/clock.h"
#include "mcp-stdio/era.h"
#include "mcp-stdio/jsonrpc.h"

struct backend_options;

struct server_options {
    const struct clock *clock;
    const struct backend_options *backend; /* NULL: there is no supervisor, and calls say so */
};

struct server *server_new(const struct server_options *options);
void server_free(struct server *server);

/* Bytes from the client: read up to LEN of them into the returned place, then say how many came.
 * NULL when memory is out. */
char *server_input_reserve(struct server *server, size_t len);
void server_input_commit(struct server *server, size_t len);
/* Bytes for the client, whole lines. The owner consumes what it has written. */
struct buf *server_output(struct server *server);
/* So much output waits that nothing more should be read from either side. */
bool server_is_full(const struct server *server);
/* A call is in flight whose answer is expected any moment (an open subscription is not). */
bool server_is_busy(const struct server *server);

/* The supervisor's socket, for the owner's poll(): false while there is none. */
bool server_poll(const struct server *server, struct pollfd *entry);
/* The socket is ready. */
void server_supervisor_ready(struct server *server);
/* The moment (monotonic ms) for server_tick; UINT64_MAX: none. */
uint64_t server_deadline_ms(const struct server *server);
/* Does what is due, and sends what was gathered for the supervisor: call once a turn. */
void server_tick(struct server *server);

/* For eras and tools --------------------------------------------------------------------------- */

struct batch; /* the answers to one array of messages */

/* Where an answer goes, and to whom. */
struct server_target {
    struct jsonrpc_slice id;
    const struct era *era;
    const char *revision;  /* static */
    unsigned capabilities; /* the client's, bits of enum client_capability */
    struct batch *batch;   /* NULL: a line of its own */
};

struct request {
    const struct jsonrpc_message *message;
    struct server_target target;
};

/* Member NAME of the request's params, or NULL. */
const struct json_value *request_param(const struct request *request, const char *name);

/* An answer being written. Between begin and end the caller adds members of the result. */
struct server_answer {
    struct server *server;
    const struct server_target *target;
    struct buf *out;
    size_t start; /* of this answer in out */
    struct json_writer writer;
};

void server_answer_begin(struct server_answer *answer, struct server *server,
                         const struct server_target *target);
/* The same for a result of another type than "complete" (modern: input_required, task). */
void server_answer_begin_as(struct server_answer *answer, struct server *server,
                            const struct server_target *target, const char *type);
/* When the answer came out too large for a line, an error goes out in its place. */
void server_answer_end(struct server_answer *answer);
/* A result with nothing in it. */
void server_acknowledge(struct server *server, const struct server_target *target);
/* An error response; DATA is compact JSON or NULL. */
void server_refuse(struct server *server, const struct server_target *target, int code,
                   const char *message, const char *data);
/* The same for params that are wrong. */
void server_refuse_params(struct server *server, const struct request *request,
                          const char *message);
/* Lists have one page, unless they say otherwise: refuses any cursor and returns -1. */
int server_refuse_cursor(struct server *server, const struct request *request);
/* A line of its own: a notification, or a request with ID (compact JSON). The caller writes the
 * members of params, then ends both with server_notify_end. */
void server_notify_begin(struct server *server, struct json_writer *writer, const char *method);
void server_ask_begin(struct server *server, struct json_writer *writer, struct jsonrpc_slice id,
                      const char *method);
void server_notify_end(struct server *server, struct json_writer *writer);

/* A batch waits for the answers of those who hold it; NULL is fine. */
void server_batch_hold(struct batch *batch);
void server_batch_release(struct server *server, struct batch *batch);

/* REVISION (static) was negotiated with a client of CAPABILITIES. */
void server_set_client(struct server *server, const char *revision, unsigned capabilities);
struct calls *server_calls(struct server *server);
struct memo *server_memo(struct server *server);
struct subscriptions *server_subscriptions(struct server *server);

#endif
