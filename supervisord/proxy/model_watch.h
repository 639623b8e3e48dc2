/* model_watch.h: reads along in a model's answer: whether an event stream has had its final event,
 * whether it was an error, and what the provider says then. Pure, with bounded memory. */
#ifndef PROXY_MODEL_WATCH_H
#define PROXY_MODEL_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "proxy/sse_end.h"

#define MODEL_WORDS_MAX 400u
#define MODEL_TYPE_MAX 64u

struct model_watch {
    bool stream;        /* an event stream: must not end without its final event */
    bool failed_status; /* 400 and above */
    struct sse_end end;
    struct buf start; /* of a body that is no stream */
    struct buf line;  /* of a stream, under way */
    bool line_too_long;
    bool error; /* the provider says that it failed */
    char words[MODEL_WORDS_MAX];
    char type[MODEL_TYPE_MAX]; /* the provider's name for the error */
};

void model_watch_init(struct model_watch *watch, int status, bool stream);
void model_watch_feed(struct model_watch *watch, const char *bytes, size_t len);
/* The body is over. */
void model_watch_end(struct model_watch *watch);
void model_watch_finish(struct model_watch *watch);

#endif
