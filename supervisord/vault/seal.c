#include <sodium.h>
#include <string.h>

#include "common/mem.h"
#include "vault/vault_internal.h"

_Static_assert(SEAL_KEY_SIZE == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key");
_Static_assert(SEAL_NONCE_SIZE == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES, "nonce");
_Static_assert(SEAL_TAG_SIZE == crypto_aead_xchacha20poly1305_ietf_ABYTES, "tag");

enum { NAME_MAX_LEN = 64, EXTRA_MAX = SEAL_CLEAR_SIZE + NAME_MAX_LEN };

/* Tells a wrong key from a damaged file, and nothing about the key. */
static void key_id(const unsigned char *key, unsigned char to[SEAL_KEY_ID_SIZE])
{
    static const char purpose[] = "sandbox-mcp vault key id";
    unsigned char hash[crypto_generichash_BYTES];

    crypto_generichash(hash, sizeof(hash), (const unsigned char *)purpose, sizeof(purpose) - 1, key,
                       SEAL_KEY_SIZE);
    memcpy(to, hash, SEAL_KEY_ID_SIZE);
    sodium_memzero(hash, sizeof(hash));
}

static const unsigned char *open_key(struct secret *key)
{
    size_t len;
    const char *bytes = secret_open(key, &len);

    BUG_ON(len != SEAL_KEY_SIZE);
    return (const unsigned char *)bytes;
}

/* The data that is authenticated beside the ciphertext. */
static size_t make_extra(unsigned char to[EXTRA_MAX], const unsigned char *clear, const char *name)
{
    size_t len = strlen(name);

    BUG_ON(len > NAME_MAX_LEN);
    memcpy(to, clear, SEAL_CLEAR_SIZE);
    memcpy(to + SEAL_CLEAR_SIZE, name, len);
    return SEAL_CLEAR_SIZE + len;
}

void seal(struct secret *key, const char *name, uint64_t time_ms, const void *value, size_t len,
          struct buf *out)
{
    unsigned char extra[EXTRA_MAX];
    unsigned char head[SEAL_HEAD_SIZE];

    BUG_ON(len == 0 || len > SECRET_MAX);
    const unsigned char *key_bytes = open_key(key);
    head[0] = SEAL_VERSION;
    key_id(key_bytes, head + 1);
    for (unsigned i = 0; i < 8; i++)
        head[1 + SEAL_KEY_ID_SIZE + i] = (unsigned char)(time_ms >> (56 - 8 * i));
    randombytes_buf(head + SEAL_CLEAR_SIZE, SEAL_NONCE_SIZE);
    size_t extra_len = make_extra(extra, head, name);
    buf_append(out, head, sizeof(head));
    char *to = buf_reserve(out, len + SEAL_TAG_SIZE);
    if (to != NULL) {
        crypto_aead_xchacha20poly1305_ietf_encrypt((unsigned char *)to, NULL, value, len, extra,
                                                   extra_len, NULL, head + SEAL_CLEAR_SIZE,
                                                   key_bytes);
        buf_commit(out, len + SEAL_TAG_SIZE);
    }
    secret_shut(key);
}

static struct secret *decrypt(const unsigned char *key_bytes, const char *name,
                              const unsigned char *data, size_t len, struct error *err)
{
    unsigned char extra[EXTRA_MAX];
    size_t extra_len = make_extra(extra, data, name);
    size_t value_len = len - SEAL_HEAD_SIZE - SEAL_TAG_SIZE;
    unsigned char *value = sodium_malloc(value_len);
    struct secret *secret = NULL;

    if (value == NULL) {
        error_set(err, ERR_LIMIT, 0, "no locked memory is left");
        return NULL;
    }
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(value, NULL, NULL, data + SEAL_HEAD_SIZE,
                                                   len - SEAL_HEAD_SIZE, extra, extra_len,
                                                   data + SEAL_CLEAR_SIZE, key_bytes) != 0)
        error_set(err, ERR_BUG, 0, "its file is damaged: set it again");
    else if ((secret = secret_new(value, value_len)) == NULL)
        error_set(err, ERR_LIMIT, 0, "no locked memory is left");
    sodium_free(value); /* wipes first */
    return secret;
}

struct secret *unseal(struct secret *key, const char *name, const void *data, size_t len,
                      struct error *err)
{
    const unsigned char *bytes = data;
    unsigned char id[SEAL_KEY_ID_SIZE];
    struct secret *secret = NULL;

    if (len <= SEAL_HEAD_SIZE + SEAL_TAG_SIZE || len > SEAL_MAX) {
        error_set(err, ERR_BUG, 0, "its file is damaged (%zu bytes): set it again", len);
        return NULL;
    }
    if (bytes[0] != SEAL_VERSION) {
        error_set(err, ERR_BUG, 0, "its file has the unknown version %u", (unsigned)bytes[0]);
        return NULL;
    }
    const unsigned char *key_bytes = open_key(key);
    key_id(key_bytes, id);
    if (sodium_memcmp(id, bytes + 1, sizeof(id)) != 0)
        error_set(err, ERR_SYSTEM, 0,
                  "its file is sealed with another master key than the present one");
    else
        secret = decrypt(key_bytes, name, bytes, len, err);
    secret_shut(key);
    return secret;
}

uint64_t seal_time(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    uint64_t value = 0;

    if (len < SEAL_CLEAR_SIZE || bytes[0] != SEAL_VERSION)
        return 0;
    for (unsigned i = 0; i < 8; i++)
        value = value << 8 | bytes[1 + SEAL_KEY_ID_SIZE + i];
    return value;
}
