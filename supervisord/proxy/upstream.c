/* upstream.c: which way an exchange goes. */
#include "proxy/upstream_internal.h"

int upstream_start(struct upstream **out, uv_loop_t *loop, const struct upstream_options *options,
                   const struct upstream_callbacks *callbacks, struct error *err)
{
    return options->origin != NULL ? upstream_direct_start(out, loop, options, callbacks, err)
                                   : upstream_curl_start(out, loop, options, callbacks, err);
}

bool upstream_send(struct upstream *upstream, const void *data, size_t len)
{
    return upstream->way->send(upstream, data, len);
}

void upstream_send_end(struct upstream *upstream)
{
    upstream->way->send_end(upstream);
}

void upstream_resume(struct upstream *upstream)
{
    upstream->way->resume(upstream);
}

void upstream_cancel(struct upstream *upstream)
{
    upstream->way->cancel(upstream);
}
