/* curl_loop.h: libcurl's multi interface on the loop. One curl_loop is one connection pool; the
 * proxy has one per run and service so that no connection is shared between runs, agents' drivers
 * one for themselves.
 *
 * The owner makes the easy handle's options itself, except what the job sets: WRITEFUNCTION,
 * HEADERFUNCTION, READFUNCTION, CLOSESOCKETFUNCTION and their data, PRIVATE, NOSIGNAL. The process
 * ignores SIGPIPE. Callbacks run from the loop; on_done runs outside libcurl, so everything may be
 * done there. */
#ifndef IO_CURL_LOOP_H
#define IO_CURL_LOOP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/error.h"

struct curl_loop;
struct curl_job;

/* curl_global_init is main()'s business. */
int curl_loop_start(struct curl_loop **out, uv_loop_t *loop, struct error *err);
/* Jobs still running are cancelled (their on_done runs with CURLE_ABORTED_BY_CALLBACK from the
 * loop), then DONE. */
void curl_loop_close(struct curl_loop *curl, void (*done)(void *data), void *data);

struct curl_job_callbacks {
    /* Inside libcurl: only take notes. One header line with its line end, as CURLOPT_HEADERFUNCTION
     * gives it; false aborts. */
    bool (*on_header)(void *data, const char *line, size_t len);
    /* Inside libcurl: body bytes. Return false to pause, having taken nothing: the same bytes come
     * again after curl_job_resume. */
    bool (*on_body)(void *data, const char *bytes, size_t len);
    /* Inside libcurl: fill at most LEN bytes of the request body. Return the number, 0 for its end,
     * CURL_READFUNC_PAUSE when nothing is there yet (then curl_job_resume_upload when it is),
     * CURL_READFUNC_ABORT. NULL: no body by reading. */
    size_t (*on_read)(void *data, char *to, size_t len);
    /* Once, outside libcurl. RESULT and the easy handle's info tell the rest; the easy handle is
     * already off the multi and is the owner's to clean up (curl_easy_cleanup) now or later. */
    void (*on_done)(void *data, CURLcode result);
    void *data;
};

/* Begins the transfer of EASY (owned by the caller, borrowed until on_done). */
int curl_job_start(struct curl_job **out, struct curl_loop *curl, CURL *easy,
                   const struct curl_job_callbacks *callbacks, struct error *err);
/* Both defer to the next loop turn, so they may be called from anywhere. */
void curl_job_resume(struct curl_job *job);
void curl_job_resume_upload(struct curl_job *job);
/* Takes it off at once, closing its connection; on_done does NOT run. Not from inside libcurl's
 * callbacks. */
void curl_job_cancel(struct curl_job *job);

/* For a CURLOPT_PREREQFUNCTION: bytes that nobody asked for wait on the cached connection with that
 * LOCAL_PORT. Libcurl would take them for the answer to the request that it is about to send, so
 * the callee aborts and tries again with a fresh connection. */
bool curl_loop_has_unasked_input(const struct curl_loop *curl, uint16_t local_port);

/* An easy handle for a job, new or used before and reset; NULL without memory. It is given back
 * with the job over, also while the loop is closing. */
CURL *curl_loop_take_handle(struct curl_loop *curl);
void curl_loop_give_handle(struct curl_loop *curl, CURL *easy);

#endif
