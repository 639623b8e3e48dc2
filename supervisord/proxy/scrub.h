/* scrub.h: hides credentials in what comes back from an upstream, in headers and in streams that
 * are cut anywhere: each byte of one becomes an asterisk, so lengths stay. Found are the credential
 * as it is, percent-encoded, with the escapes of JSON, JavaScript and HTML, all of these mixed, in
 * hex of either case, and in base64 of either alphabet at any alignment. What is reversed, split up
 * or encrypted is out of reach.
 *
 * What is searched for lies in guarded memory; outside of it are only hashes of the first four
 * bytes, by which nearly all of a stream is passed over. */
#ifndef PROXY_SCRUB_H
#define PROXY_SCRUB_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

#define SCRUB_SHORTEST 8u /* shorter ones would be found by chance */

struct scrub_source {
    const char *text; /* wiped by the caller */
    size_t len;
};

/* What to look for; shared by the streams of a service. */
struct scrub_set;

/* NULL when there is no memory to guard, or nothing that is long enough (then *EMPTY is true). */
struct scrub_set *scrub_set_new(const struct scrub_source *sources, size_t count, bool *empty);
struct scrub_set *scrub_set_ref(struct scrub_set *set);
void scrub_set_unref(struct scrub_set *set); /* NULL is fine */
/* In place; returns how many were found. */
size_t scrub_text(struct scrub_set *set, char *text, size_t len);

struct scrub {
    struct scrub_set *set;
    struct buf held;     /* what may be the start of a credential; wiped */
    size_t masked_ahead; /* how many bytes from the start of HELD on are hidden in any case */
    size_t found;
};

void scrub_init(struct scrub *scrub, struct scrub_set *set); /* takes a reference */
void scrub_finish(struct scrub *scrub);
/* True when the next piece may be shown as it is, without being copied. */
bool scrub_passes(const struct scrub *scrub, const char *data, size_t len);
/* Appends to OUT what may be shown; the start of what may become a credential is held back, and
 * nothing else. */
void scrub_feed(struct scrub *scrub, const char *data, size_t len, struct buf *out);
/* The stream is over: appends what was held back. */
void scrub_end(struct scrub *scrub, struct buf *out);

#endif
