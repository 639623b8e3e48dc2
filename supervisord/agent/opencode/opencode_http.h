/* opencode_http.h: HTTP exchanges with a server inside the sandbox. Every exchange gets a
 * connection of its own from the host, so that none is ever half used. */
#ifndef AGENT_OPENCODE_HTTP_H
#define AGENT_OPENCODE_HTTP_H

#include <stdint.h>
#include <uv.h>

#include "agent/agent.h"
#include "common/error.h"
#include "common/json.h"

struct opencode_http;
struct opencode_exchange;

/* HOST's table is copied. PASSWORD is that of OPENCODE_SERVER_PASSWORD. */
int opencode_http_start(struct opencode_http **out, uv_loop_t *loop, const struct agent_host *host,
                        uint16_t port, const char *password, struct error *err);
/* Cancels all exchanges; no callback runs but DONE. */
void opencode_http_close(struct opencode_http *http, void (*done)(void *data), void *data);

/* The value of the header that lets requests in; borrowed. */
const char *opencode_http_authorization(const struct opencode_http *http);

struct opencode_request {
    const char *method; /* "GET", "POST" */
    const char *path;   /* with query */
    const char *body;   /* JSON; NULL for none */
    uint64_t timeout_ms;
};

/* STATUS and JSON hold during the call. JSON is NULL for an empty body. An answer that is not JSON
 * is an error: OpenCode answers an unknown path with its web page and status 200. ERR: NULL, or why
 * there is no answer (status is 0 then). */
struct opencode_response {
    int status;
    const struct json_value *json;
    const struct error *err;
};
typedef void (*opencode_response_cb)(void *data, const struct opencode_response *response);

/* The request is borrowed during the call. DONE runs once, later; *OUT is gone when it runs. */
int opencode_http_send(struct opencode_exchange **out, struct opencode_http *http,
                       const struct opencode_request *request, opencode_response_cb done,
                       void *data, struct error *err);

struct opencode_stream_callbacks {
    void (*on_data)(void *data, const char *bytes, size_t len);
    /* Once: the stream ended, broke, was refused or was silent for too long. *OUT is gone when it
     * runs. */
    void (*on_end)(void *data, const struct error *err);
    void *data;
};

/* GET PATH as an event stream. SILENCE_MS without a byte ends it. */
int opencode_http_listen(struct opencode_exchange **out, struct opencode_http *http,
                         const char *path, uint64_t silence_ms,
                         const struct opencode_stream_callbacks *callbacks, struct error *err);

/* Its callbacks don't run any more. May be called from within any callback of this file. */
void opencode_exchange_cancel(struct opencode_exchange *exchange);

#endif
