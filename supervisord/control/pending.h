/* pending.h: a request that is answered later, and whose client may go away before. */
#ifndef CONTROL_PENDING_H
#define CONTROL_PENDING_H

#include "control/internal.h"

/* May be the first member of something larger. */
struct pending {
    struct request *request; /* NULL once nobody waits for the answer any more */
    struct control *control;
    struct id session;
};

/* PENDING is zeroed heap memory, freed with free(). */
void pending_init(struct pending *pending, struct request *request);
/* A new one about the session that SESSION_TEXT names. NULL: that is no id, and the request has
 * been answered and is gone. */
struct pending *pending_about(struct request *request, const char *session_text);
/* What takes a while has begun (RC 0), or the request fails with ERR and PENDING is freed. */
void pending_begun(struct pending *pending, int rc, const struct error *err);
/* It is over: answers, if anybody waits, with ERR or the session's id and NUMBER as NAME (NULL:
 * none), and frees. */
void pending_reply(struct pending *pending, const struct error *err, const char *name,
                   uint64_t number);
/* The same without a number, as a callback; DATA is the pending. */
void pending_over(void *data, const struct error *err);

#endif
