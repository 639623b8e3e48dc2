/* client.h: a blocking client of the supervisor's socket, for sandboxctl, and a non-blocking one
 * for callers with a poll loop of their own (sandbox-mcp). One connection, many requests in flight.
 */
#ifndef PROTO_CLIENT_H
#define PROTO_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/json.h"
#include "proto/envelope.h"

struct client;

/* Connects to the socket at PATH and says hello as ROLE ("ctl", "mcp", "test"). Waits at most
 * TIMEOUT_MS. ERR_UNAVAILABLE when nobody listens, ERR_TIMEOUT when the daemon doesn't answer,
 * ERR_CONFLICT with both versions in the text when it speaks another protocol version. */
int client_connect(struct client **out, const char *path, const char *role, int timeout_ms,
                   struct error *err);
/* The same for a caller with a poll loop of its own: returns as soon as hello is on its way,
 * nothing here ever waits, and client_send only gathers what client_flush then sends. client_next
 * takes in the answer to hello (a refusal is its error); until client_ready nothing else may be
 * sent. ERR_UNAVAILABLE when nobody listens or the daemon's queue of connections is full. */
int client_open(struct client **out, const char *path, const char *role, struct error *err);
bool client_ready(const struct client *client);
/* Sends what the socket takes now. -1: the connection is over. */
int client_flush(struct client *client, struct error *err);
/* Something waits to be sent: poll for POLLOUT too. */
bool client_sending(const struct client *client);
void client_free(struct client *client); /* closes; NULL is fine */

/* Called for each frame that is sent (OUT true) or received: sandboxctl --trace. Blobs are shown by
 * length only. */
void client_set_trace(struct client *client,
                      void (*trace)(void *data, bool out, const char *text, size_t len),
                      void *data);

/* The descriptor, for poll(). */
int client_fd(const struct client *client);

/* Sends a request (BODY: compact JSON object or NULL; BLOB may be NULL) and returns its id, or 0
 * with ERR. */
uint64_t client_send(struct client *client, const char *method, const char *body, const void *blob,
                     size_t blob_len, struct error *err);
int client_cancel(struct client *client, uint64_t id, struct error *err);

/* One message from the daemon. DOC owns what the envelope borrows; release with
 * client_message_finish. */
struct client_message {
    struct json_doc *doc; /* NULL: a reply to a client of client_open, whose body is text only; or
                             bytes, at TEXT, which belong to the event before */
    struct envelope envelope;
    const char *body; /* then, borrowed like TEXT: not yet looked at, see client_message_read */
    size_t body_len;
    const char *text; /* as it came; borrowed until the next call with this client. NULL when it was
                         kept for later */
    size_t len;
};
/* Reads the body when that has not been done; ERR_BUG when it is not understood, and then the
 * connection is of no use any more. */
int client_message_read(struct client_message *message, struct error *err);
void client_message_finish(struct client_message *message);

/* From now on blobs are taken too, by client_next only. Else a blob breaks the protocol. */
void client_take_blobs(struct client *client);

/* Next message: waits at most TIMEOUT_MS (-1: for ever, 0: only what is there). 1: MESSAGE filled;
 * 0: nothing in time; -1: the connection is over (ERR_UNAVAILABLE) or the daemon broke the
 * protocol. */
int client_next(struct client *client, int timeout_ms, struct client_message *message,
                struct error *err);

/* Request and its reply in one: 0 with MESSAGE filled (kind ENVELOPE_REPLY), or -1 with the
 * daemon's own error in ERR. What comes for other requests meanwhile is kept for client_next. After
 * a timeout the request is cancelled; a reply that was already on its way may still come, so
 * callers of client_next pass over ids they don't know. */
int client_call(struct client *client, const char *method, const char *body, int timeout_ms,
                struct client_message *message, struct error *err);
int client_call_blob(struct client *client, const char *method, const char *body, const void *blob,
                     size_t blob_len, int timeout_ms, struct client_message *message,
                     struct error *err);

#endif
