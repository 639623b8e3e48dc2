/* ask.h: what the questions of ask.c need of a sandbox. */
#ifndef SANDBOX_ASK_H
#define SANDBOX_ASK_H

struct control_link;
struct sandbox;

/* NULL unless it is ready and not being closed. */
struct control_link *sandbox_control(const struct sandbox *sandbox);

#endif
