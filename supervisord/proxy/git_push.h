/* git_push.h: the gate of a push: its commands are read and judged before a byte of it leaves, and
 * what the server took is remembered. */
#ifndef PROXY_GIT_PUSH_H
#define PROXY_GIT_PUSH_H

#include "http/http.h"
#include "proxy/body_gate.h"
#include "proxy/git_rules.h"
#include "proxy/git_tips.h"

struct git_push_options {
    struct git_push_rules rules; /* borrowed, as long as the gate lives */
    struct git_tips *tips;       /* of the run; borrowed as well */
    const char *place;           /* "github/o/r"; copied */
    /* A ref was taken by the server; TIPS holds it. At the end of the gate. May be NULL. */
    void (*on_pushed)(void *data);
    void *data;
};

struct body_gate *git_push_gate_new(const struct http_request *request,
                                    const struct git_push_options *options);
/* "refs/heads/agent/x 0000000..1a2b3c4, …" for the audit; "" before the commands were read. */
void git_push_describe(struct body_gate *gate, struct buf *out);

#endif
