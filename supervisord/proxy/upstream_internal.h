/* upstream_internal.h: the two ways of an exchange. */
#ifndef PROXY_UPSTREAM_INTERNAL_H
#define PROXY_UPSTREAM_INTERNAL_H

#include "proxy/upstream.h"

/* As the functions of upstream.h. */
struct upstream_way {
    bool (*send)(struct upstream *upstream, const void *data, size_t len);
    void (*send_end)(struct upstream *upstream);
    void (*resume)(struct upstream *upstream);
    void (*cancel)(struct upstream *upstream);
};

/* The first member of either way's own struct. */
struct upstream {
    const struct upstream_way *way;
};

int upstream_direct_start(struct upstream **out, uv_loop_t *loop,
                          const struct upstream_options *options,
                          const struct upstream_callbacks *callbacks, struct error *err);
int upstream_curl_start(struct upstream **out, uv_loop_t *loop,
                        const struct upstream_options *options,
                        const struct upstream_callbacks *callbacks, struct error *err);

#endif
