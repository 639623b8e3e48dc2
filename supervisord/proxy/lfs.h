/* lfs.h: Git LFS. A server's answer to a batch names places in its storage, with headers that open
 * them. The sandbox gets places of the proxy's own instead, each for one object and one thing to do
 * with it, and the real ones are kept here until they expire. Pure. */
#ifndef PROXY_LFS_H
#define PROXY_LFS_H

#include "common/json.h"
#include "proxy/services.h"

#define LFS_KEY_SIZE 23 /* 128 bits of base64url, and NUL */
#define LFS_BODY_MAX (4u << 20)

struct lfs_header {
    char *name;
    char *value; /* wiped when it is freed */
};

struct lfs_place {
    char key[LFS_KEY_SIZE];
    const char *method;            /* "GET", "PUT", "POST" */
    const struct service *service; /* whose answer it comes from */
    struct service *storage;       /* owned */
    char *path;                    /* there, with the query; wiped when it is freed */
    struct lfs_header *headers;
    size_t header_count;
    char oid[65];
    uint64_t size;
    uint64_t expires_ms;
};

struct lfs_places {
    struct lfs_place **list; /* oldest first */
    size_t count;
    size_t room;
};

void lfs_places_finish(struct lfs_places *places);
/* NULL: there is none, or it has expired. */
const struct lfs_place *lfs_find(const struct lfs_places *places, const char *key, size_t len,
                                 uint64_t now_ms);

enum lfs_operation { LFS_UNCLEAR, LFS_DOWNLOAD, LFS_UPLOAD };
/* What a batch asks for. */
enum lfs_operation lfs_read_request(const char *body, size_t len);

struct lfs_answer {
    const struct service *service;
    const char *base; /* what a place's key is appended to */
    bool upload;
    uint64_t now_ms;
};
/* Appends to OUT the server's answer BODY with places of our own, which are added to PLACES. -1: it
 * is none, or wants what isn't possible here; nothing of it may be shown. */
int lfs_rewrite(struct lfs_places *places, const struct lfs_answer *answer, const char *body,
                size_t len, struct buf *out, struct error *err);

#endif
