/* token.c: tokens are random, so a plain hash suffices. */
#include "proxy/token.h"

#include <sodium.h>
#include <string.h>

#include "common/id.h"
#include "common/mem.h"

#define PREFIX "sbx_"
#define PREFIX_LEN 4u
#define RANDOM_BYTES 32u

static void hash_text(struct token_hash *hash, const char *text, size_t len)
{
    crypto_generichash(hash->bytes, sizeof(hash->bytes), (const unsigned char *)text, len, NULL, 0);
}

void token_make(char text[TOKEN_LEN + 1], struct token_hash *hash)
{
    unsigned char random[RANDOM_BYTES];

    id_random(random, sizeof(random));
    memcpy(text, PREFIX, PREFIX_LEN);
    sodium_bin2base64(text + PREFIX_LEN, TOKEN_LEN + 1 - PREFIX_LEN, random, sizeof(random),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    hash_text(hash, text, TOKEN_LEN);
    sodium_memzero(random, sizeof(random));
}

bool token_matches(const struct token_hash *hash, const char *text, size_t len)
{
    struct token_hash other;

    if (len != TOKEN_LEN)
        return false;
    hash_text(&other, text, len);
    return sodium_memcmp(hash->bytes, other.bytes, sizeof(other.bytes)) == 0;
}

static bool is_base64url(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_';
}

/* The first one of TEXT, or NULL. */
static const char *find(const char *text, size_t len)
{
    for (size_t at = 0; at + TOKEN_LEN <= len; at++) {
        size_t run = PREFIX_LEN;

        if (memcmp(text + at, PREFIX, PREFIX_LEN) != 0)
            continue;
        while (run < TOKEN_LEN && is_base64url(text[at + run]))
            run++;
        if (run == TOKEN_LEN)
            return text + at;
    }
    return NULL;
}

bool token_occurs(const char *text, size_t len)
{
    return find(text, len) != NULL;
}

void token_hide(char *text)
{
    size_t len = text != NULL ? strlen(text) : 0;
    const char *found;

    while (len > 0 && (found = find(text, len)) != NULL) {
        size_t at = (size_t)(found - text) + PREFIX_LEN;

        while (at < len && is_base64url(text[at]))
            text[at++] = '*';
        text += at;
        len -= at;
    }
}
