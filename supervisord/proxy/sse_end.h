/* sse_end.h: tells whether an event stream of a model has had its final event. An agent that sees a
 * stream end early but cleanly asks again and again, so the proxy must know a cut when it sees one.
 */
#ifndef PROXY_SSE_END_H
#define PROXY_SSE_END_H

#include <stdbool.h>
#include <stddef.h>

#define SSE_END_WINDOW 48u

struct sse_end {
    char window[SSE_END_WINDOW]; /* the last bytes, white space left out, line ends kept */
    size_t len;
    bool seen;
    bool at_length; /* the provider says that the answer reached its greatest length */
};

void sse_end_init(struct sse_end *end);
void sse_end_feed(struct sse_end *end, const char *data, size_t len);

#endif
