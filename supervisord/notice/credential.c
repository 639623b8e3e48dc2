/* credential.c: the only file of notice/ that sees a secret. */
#include "notice/internal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define HEADER_MAX (SECRET_MAX + 64)

/* The header's copy is wiped with the list. */
int credential_add_bearer(struct delivery *delivery, const char *name, struct error *err)
{
    struct secret *secret;
    char *line;
    size_t len;
    int rc;

    if (name[0] == '\0')
        return 0;
    secret = vault_get(delivery_notices(delivery)->vault, name, err);
    if (secret == NULL)
        return -1;
    line = mem_new_zero(1, HEADER_MAX);
    const char *token = secret_open(secret, &len);
    memcpy(line, "Authorization: Bearer ", 22);
    memcpy(line + 22, token, len);
    secret_shut(secret);
    secret_unref(secret);
    rc = transfer_add_header(delivery, line, err);
    sodium_memzero(line, HEADER_MAX);
    free(line);
    return rc;
}

int credential_sign(struct delivery *delivery, const char *id, uint64_t seconds, struct buf *out,
                    struct error *err)
{
    struct notices *notices = delivery_notices(delivery);
    const char *name = notices->options.webhook_secret;
    struct secret *secret;
    size_t len;
    int rc;

    if (name[0] == '\0')
        return 0;
    secret = vault_get(notices->vault, name, err);
    if (secret == NULL)
        return -1;
    const char *key = secret_open(secret, &len);
    rc = notice_sign(key, len, id, seconds, &delivery->body, out);
    secret_shut(secret);
    secret_unref(secret);
    return rc == 0
               ? 0
               : error_set(err, ERR_INVALID, 0,
                           "secret %s begins with whsec_, but what follows is not base64", name);
}
