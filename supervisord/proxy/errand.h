/* errand.h: a request of the supervisor's own to a service: to its target and nowhere else, with
 * the service's credential, by the same rules for addresses and answers as a sandbox's request, and
 * recorded as one. No redirect is followed, and the credential is hidden where it comes back. */
#ifndef PROXY_ERRAND_H
#define PROXY_ERRAND_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "proxy/proxy.h"

struct errand;

struct errand_options {
    const char *run_id;  /* for the record */
    const char *service; /* a configured one's name */
    /* Where a service's API wants its credential in another way than git does: what stands between
     * the target and PATH, and the header with the secret between BEFORE and its end. NULL: as the
     * service itself. */
    const char *prefix;
    const char *header;
    const char *before;
    const char *method;
    const char *path; /* with the query; what it is made of has been escaped */
    const void *body; /* JSON; NULL: none */
    size_t body_len;
    size_t answer_max; /* bytes */
    uint64_t timeout_ms;
    const char *const *kept; /* names of headers of the answer; the first that is there is kept */
    size_t kept_count;
};

struct errand_answer {
    int status;
    const char *body; /* NUL-terminated behind LEN */
    size_t len;
    const char *kept; /* the header's value, "" none */
};

/* Once, from the loop, unless cancelled; ANSWER is borrowed. ERR: there is none; its code is
 * ERR_NOT_FOUND without the credential, ERR_LIMIT for an answer that is too long, ERR_TIMEOUT,
 * ERR_DENIED for an address that is not allowed, else ERR_UNAVAILABLE. */
typedef void (*errand_cb)(void *data, const struct errand_answer *answer, const struct error *err);

/* Options are borrowed during the call. -1 also when the credential isn't there. */
int errand_start(struct errand **out, struct proxy *proxy, const struct errand_options *options,
                 errand_cb done, void *data, struct error *err);
/* No callback follows. */
void errand_cancel(struct errand *errand);

#endif
