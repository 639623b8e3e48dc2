/* inject.h: the headers that go upstream, with the real credential in place of the run's token. The
 * only place that opens a secret. */
#ifndef PROXY_INJECT_H
#define PROXY_INJECT_H

#include "http/http.h"
#include "proxy/services.h"
#include "vault/vault.h"

/* Hides a credential that an upstream gives back. */
struct inject_veil;

/* What is looked for in a service's answers, made once for each secret; zeroed at first. */
struct scrub_set;
struct inject_cache {
    struct secret *secret;
    struct scrub_set *set;
    bool open; /* the secret's bytes are readable */
};
void inject_cache_finish(struct inject_cache *cache);
/* A secret that was put in stays readable for the next request; call this before the loop sleeps.
 */
void inject_cache_rest(struct inject_cache *cache);

struct inject_source {
    struct vault *vault;        /* NULL: the request goes without a credential */
    struct inject_cache *cache; /* of the service */
};

/* Writes REQUEST's headers as they go upstream, but those of framing, as lines that each end with
 * CRLF, and makes the veil for its response. A git service without its secret goes without one.
 * ERR->code is ERR_NOT_FOUND when the secret isn't there, ERR_INVALID when it can't be a header
 * value, ERR_LIMIT without guarded memory. OUT (nothing in it on failure) is freed with inject_free
 * as soon as it was copied to where it goes out, *VEIL (which may be NULL: nothing to hide) with
 * inject_veil_free. */
int inject_headers(const struct service *service, const struct http_request *request,
                   const struct inject_source *source, struct buf *out, struct inject_veil **veil,
                   struct error *err);
/* Of a service whose credential goes into the query: PATH with it, as *OUT, and the veil. Errors as
 * above; SOURCE has a vault. */
int inject_query(const struct service *service, const char *path,
                 const struct inject_source *source, char **out, struct inject_veil **veil,
                 struct error *err);
/* The line that the secret NAME, "user:password", makes for the proxy on the way. OUT is freed with
 * inject_free; untouched on failure. */
int inject_parent(struct vault *vault, const char *name, struct buf *out, struct error *err);
/* Wipes, then frees; NULL is fine. */
void inject_path_free(char *path);
/* Wipes, then frees. */
void inject_free(struct buf *lines);

/* The functions take NULL for a veil that hides nothing. */
void inject_veil_free(struct inject_veil *veil);
/* Overwrites the credential in TEXT, however it is written (scrub.h), by as many asterisks. */
void inject_veil_text(struct inject_veil *veil, char *text);
/* True when the next piece of a body may be shown as it is. */
bool inject_veil_passes(const struct inject_veil *veil, const char *data, size_t len);
/* Appends to OUT what may be shown of the next piece of a body; the start of what may become a
 * credential is held back. */
void inject_veil_feed(struct inject_veil *veil, const char *data, size_t len, struct buf *out);
/* Appends what was held back: the body is over. */
void inject_veil_end(struct inject_veil *veil, struct buf *out);

/* How often the credential was hidden. */
size_t inject_veil_found(const struct inject_veil *veil);

/* True for headers of the client that never go upstream: credentials of any kind, what tells where
 * the client is, what changes the method behind the judge's back. Hop-by-hop and framing headers
 * are dropped as well, elsewhere. */
bool inject_drops(const struct service *service, const char *name);

#endif
