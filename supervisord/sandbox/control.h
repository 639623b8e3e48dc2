/* control.h: the supervisor's side of a sandbox-init's control socket. Whatever comes from there is
 * treated as hostile: sizes, tags and descriptors are checked, and a connection that breaks the
 * rules is over. */
#ifndef SANDBOX_CONTROL_H
#define SANDBOX_CONTROL_H

#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "common/error.h"
#include "sandbox/init/protocol.h"

struct control_link;

/* The reply to one request. FDS are the callee's to own (-1 where there is none); ERR instead when
 * the connection is over. */
typedef void (*control_reply_cb)(void *data, const struct init_reply *reply, int fds[3],
                                 pid_t sender, const struct error *err);

/* Connects to the socket at PATH. ON_LOST runs once, from the loop, when the connection breaks. */
int control_link_start(struct control_link **out, uv_loop_t *loop, const char *path,
                       void (*on_lost)(void *data), void *data, struct error *err);
/* Every outstanding request is answered with ERR_CANCELLED from within; then DONE, later. */
void control_link_close(struct control_link *link, void (*done)(void *data), void *data);

/* Sends VERB with LEN bytes of DATA. DONE NULL: no reply is wanted. */
int control_link_ask(struct control_link *link, struct init_request request, const void *data,
                     size_t len, control_reply_cb done, void *context, struct error *err);

#endif
