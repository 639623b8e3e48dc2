#include "vault/secret.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct secret {
    char *data; /* sodium memory */
    size_t len;
    unsigned references;
    unsigned opens;
};

struct secret *secret_new(const void *data, size_t len)
{
    BUG_ON(len == 0 || len > SECRET_MAX);
    BUG_ON(sodium_init() < 0);
    char *guarded = sodium_malloc(len);
    if (guarded == NULL)
        return NULL;
    struct secret *secret = NEW(struct secret);
    memcpy(guarded, data, len);
    BUG_ON(sodium_mprotect_noaccess(guarded) != 0);
    secret->data = guarded;
    secret->len = len;
    secret->references = 1;
    return secret;
}

struct secret *secret_ref(struct secret *secret)
{
    secret->references++;
    return secret;
}

void secret_unref(struct secret *secret)
{
    if (secret == NULL)
        return;
    BUG_ON(secret->references == 0);
    if (--secret->references > 0)
        return;
    BUG_ON(secret->opens != 0);
    sodium_free(secret->data); /* wipes first */
    free(secret);
}

const char *secret_open(struct secret *secret, size_t *len)
{
    if (secret->opens++ == 0)
        BUG_ON(sodium_mprotect_readonly(secret->data) != 0);
    *len = secret->len;
    return secret->data;
}

void secret_shut(struct secret *secret)
{
    BUG_ON(secret->opens == 0);
    if (--secret->opens == 0)
        BUG_ON(sodium_mprotect_noaccess(secret->data) != 0);
}

size_t secret_len(const struct secret *secret)
{
    return secret->len;
}

bool secret_matches(struct secret *secret, const char *text, size_t len)
{
    size_t own_len;
    const char *own = secret_open(secret, &own_len);
    bool right = own_len == len && sodium_memcmp(own, text, len) == 0;

    secret_shut(secret);
    return right;
}
