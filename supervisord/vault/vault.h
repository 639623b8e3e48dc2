/* vault.h: named secrets. At rest each is one file state/vault/NAME, XChaCha20-Poly1305 with the
 * name as additional data; the master key comes from a systemd credential
 * ($CREDENTIALS_DIRECTORY/sandbox-mcp-key, at least 32 bytes), else from the 0600 file
 * state/vault.key, made at first use. An opened secret stays in memory as long as its file is
 * unchanged: what this process stores or deletes holds at once, what somebody else does to the file
 * within a second. Synchronous; files are small. */
#ifndef VAULT_VAULT_H
#define VAULT_VAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/error.h"
#include "vault/secret.h"

struct vault;

struct vault_options {
    const char *state_dir;
    const struct clock *clock;
};

int vault_open(struct vault **out, const struct vault_options *options, struct error *err);
void vault_close(struct vault *vault);

/* [A-Z][A-Z0-9_]{0,63} */
bool vault_name_valid(const char *name);

/* Stores durably, replacing. *REPLACED (may be NULL) tells whether there was one. One trailing line
 * end of the value is dropped; NUL, CR and LF inside are refused (a header value could not hold
 * them). */
int vault_put(struct vault *vault, const char *name, const void *value, size_t len, bool *replaced,
              struct error *err);
/* Removes what is stored and what was taken from the environment. */
int vault_delete(struct vault *vault, const char *name, struct error *err);

/* Takes the environment variable NAME into memory (not to disk) if it is set, and wipes and removes
 * it from the environment. A stored secret of the same name wins. */
void vault_take_environment(struct vault *vault, const char *name);

/* A reference to the secret, or NULL with ERR_NOT_FOUND (or ERR_SYSTEM/ERR_BUG: can't be opened
 * with this key). */
struct secret *vault_get(struct vault *vault, const char *name, struct error *err);
/* The same, but a copy that shares nothing with others: for a thread. */
struct secret *vault_copy(struct vault *vault, const char *name, struct error *err);
bool vault_has(struct vault *vault, const char *name);

/* What this program itself must keep and no user names or sees, sealed in the same way in the file
 * state/vault.NAME; lower-case letters. vault_own_get: NULL with ERR_NOT_FOUND when there is none.
 */
int vault_own_put(struct vault *vault, const char *name, const void *value, size_t len,
                  struct error *err);
struct secret *vault_own_get(struct vault *vault, const char *name, struct error *err);

struct vault_entry {
    const char *name;
    const char *source; /* "stored" or "environment" */
    uint64_t updated_ms;
};
/* In the order of names; no value is opened. */
void vault_each(struct vault *vault, void (*each)(void *data, const struct vault_entry *entry),
                void *data);

#endif
