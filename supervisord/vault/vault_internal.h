/* vault_internal.h: the master key and the sealed form of a secret at rest. */
#ifndef VAULT_VAULT_INTERNAL_H
#define VAULT_VAULT_INTERNAL_H

#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "vault/secret.h"

/* A sealed secret: version, id of the master key, time (milliseconds, big-endian), nonce, then
 * ciphertext and tag (XChaCha20-Poly1305, IETF). What stands before the nonce and the secret's name
 * are authenticated with it. */
enum {
    SEAL_VERSION = 1,
    SEAL_KEY_SIZE = 32,
    SEAL_KEY_ID_SIZE = 8,
    SEAL_NONCE_SIZE = 24,
    SEAL_TAG_SIZE = 16,
    SEAL_CLEAR_SIZE = 1 + SEAL_KEY_ID_SIZE + 8,
    SEAL_HEAD_SIZE = SEAL_CLEAR_SIZE + SEAL_NONCE_SIZE,
    SEAL_MAX = SEAL_HEAD_SIZE + SECRET_MAX + SEAL_TAG_SIZE,
};

/* KEY holds SEAL_KEY_SIZE bytes. LEN is 1..SECRET_MAX. */
void seal(struct secret *key, const char *name, uint64_t time_ms, const void *value, size_t len,
          struct buf *out);
/* NULL when it is damaged, moved to another name, or sealed with another key; the text says which.
 */
struct secret *unseal(struct secret *key, const char *name, const void *data, size_t len,
                      struct error *err);
/* The time in the clear part; 0 when that is damaged. It is only proven by unseal. */
uint64_t seal_time(const void *data, size_t len);

/* From $CREDENTIALS_DIRECTORY/sandbox-mcp-key (at least 32 bytes of any kind, hashed), else
 * STATE_DIR/vault.key (32 bytes), which is made when it is missing. NULL on failure. */
struct secret *master_key_load(const char *state_dir, struct error *err);

#endif
