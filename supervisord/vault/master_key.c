#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "vault/vault_internal.h"

enum { CREDENTIAL_MAX = 4096 };

/* Straight into the caller's memory, so that no other copy is left to wipe. -1 with err->sys ENOENT
 * when there is no such file. */
static ssize_t read_bounded(int fd, const char *path, unsigned char *to, size_t max,
                            struct error *err)
{
    size_t len = 0;

    while (len < max) {
        ssize_t got = read(fd, to + len, max - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, ERR_SYSTEM, errno, "read %s", path);
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return (ssize_t)len;
}

static ssize_t read_key_file(const char *path, bool ours, unsigned char *to, size_t max,
                             struct error *err)
{
    struct stat status;
    AUTO_CLOSE
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(err, ERR_SYSTEM, errno, "open %s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(err, ERR_INVALID, 0, "%s is no regular file", path);
    if (ours && (status.st_uid != geteuid() || (status.st_mode & 077) != 0))
        return error_set(err, ERR_DENIED, 0, "%s must belong to this user and have mode 0600",
                         path);
    return read_bounded(fd, path, to, max, err);
}

static struct secret *make_secret(const unsigned char key[SEAL_KEY_SIZE], struct error *err)
{
    struct secret *secret = secret_new(key, SEAL_KEY_SIZE);

    if (secret == NULL)
        error_set(err, ERR_LIMIT, 0, "no locked memory for the vault's key");
    return secret;
}

/* Whatever form the credential has (raw, hex, a long phrase with a line end), its hash is the key.
 */
static struct secret *from_credential(const char *path, struct error *err)
{
    unsigned char content[CREDENTIAL_MAX + 1];
    unsigned char key[SEAL_KEY_SIZE];
    struct secret *secret = NULL;
    ssize_t len = read_key_file(path, false, content, sizeof(content), err);

    if (len >= 0 && (len < SEAL_KEY_SIZE || len > CREDENTIAL_MAX)) {
        error_set(err, ERR_INVALID, 0, "%s must hold %d to %d bytes", path, SEAL_KEY_SIZE,
                  CREDENTIAL_MAX);
    } else if (len >= 0) {
        crypto_generichash(key, sizeof(key), content, (size_t)len, NULL, 0);
        secret = make_secret(key, err);
    }
    sodium_memzero(content, sizeof(content));
    sodium_memzero(key, sizeof(key));
    return secret;
}

static struct secret *make_file(const char *path, struct error *err)
{
    unsigned char key[SEAL_KEY_SIZE];
    struct secret *secret = NULL;

    randombytes_buf(key, sizeof(key));
    if (fd_replace_file(path, key, sizeof(key), 0600, err) == 0)
        secret = make_secret(key, err);
    sodium_memzero(key, sizeof(key));
    return secret;
}

static struct secret *from_file(const char *path, struct error *err)
{
    unsigned char content[SEAL_KEY_SIZE + 1];
    struct error problem = ERROR_INIT;
    struct secret *secret = NULL;
    ssize_t len = read_key_file(path, true, content, sizeof(content), &problem);

    if (len < 0 && problem.sys == ENOENT)
        secret = make_file(path, err);
    else if (len < 0)
        *err = problem;
    else if (len != SEAL_KEY_SIZE)
        error_set(err, ERR_INVALID, 0, "%s is damaged: it must hold %d bytes", path, SEAL_KEY_SIZE);
    else
        secret = make_secret(content, err);
    sodium_memzero(content, sizeof(content));
    return secret;
}

struct secret *master_key_load(const char *state_dir, struct error *err)
{
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    AUTO_FREE
    char *file = mem_printf("%s/vault.key", state_dir);

    if (credentials != NULL && credentials[0] == '/') {
        AUTO_FREE
        char *path = mem_printf("%s/sandbox-mcp-key", credentials);

        if (access(path, F_OK) == 0)
            return from_credential(path, err);
    }
    return from_file(file, err);
}
