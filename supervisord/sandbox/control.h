/* control.h: the supervisor's side of init's control socket. What comes from there is a stranger's:
 * every packet is checked, and the first wrong one ends the connection. */
#ifndef SANDBOX_CONTROL_H
#define SANDBOX_CONTROL_H

#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "common/error.h"
#include "sandbox/init/protocol.h"

struct control_link;

struct control_answer {
    struct init_reply reply;
    int fds[3]; /* by bit of reply.fds; -1 where none came. The callee takes them with fd_steal; the
                   rest is closed */
    pid_t sender;
};

/* ERR is NULL when init did what was asked. ANSWER is NULL when there is none: the connection
 * ended. */
typedef void (*control_done_cb)(void *data, struct control_answer *answer, const struct error *err);

struct control_callbacks {
    /* Once, unless control_link_close comes first: the connection is over; every question has been
     * answered. */
    void (*on_lost)(void *data, const struct error *err);
    void *data;
};

/* Takes FD, also on failure. */
int control_link_start(struct control_link **out, uv_loop_t *loop, int fd,
                       const struct control_callbacks *callbacks, struct error *err);
/* Sends REQUEST, whose protocol, tag and len are filled in here, and LEN bytes behind it. DONE runs
 * once, from the loop, also when the connection ends or is closed. */
int control_link_ask(struct control_link *control, struct init_request *request, const void *data,
                     size_t len, control_done_cb done, void *done_data, struct error *err);
/* The same without an answer. */
void control_link_tell(struct control_link *control, struct init_request *request);
/* Only from the loop: answers all open questions with ERR and then calls on_lost, as if the
 * connection had ended. */
void control_link_cut(struct control_link *control, const struct error *err);
/* Open questions are answered with ERR_CANCELLED, then DONE. */
void control_link_close(struct control_link *control, void (*done)(void *data), void *data);

#endif
