/* secret.h: a secret in memory: guarded pages that can't be swapped, dumped or read except between
 * secret_open and secret_shut (libsodium's sodium_malloc and sodium_mprotect_*). Made only in
 * vault/. */
#ifndef VAULT_SECRET_H
#define VAULT_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_MAX (32u << 10) /* bytes */

struct secret;

/* Copies LEN bytes (1..SECRET_MAX); the caller wipes its own copy. Returns a secret with one
 * reference, or NULL when there is no memory to lock. */
struct secret *secret_new(const void *data, size_t len);
struct secret *secret_ref(struct secret *secret);
void secret_unref(struct secret *secret); /* the last one wipes and frees; NULL is fine */

/* Makes the bytes readable until the matching secret_shut; opens may nest. */
const char *secret_open(struct secret *secret, size_t *len);
void secret_shut(struct secret *secret);
size_t secret_len(const struct secret *secret);
/* In constant time for texts of the secret's length. */
bool secret_matches(struct secret *secret, const char *text, size_t len);

#endif
