/* auth.c: who may see a run: whoever has its link. The token in it is an HMAC of the run's id, so
 * nothing is stored per link and a link opens one run only. */
#include <sodium.h>
#include <strings.h>
#include <unistd.h>

#include "common/fd.h"
#include "web/internal.h"

int auth_load_key(const char *state_dir, unsigned char key[WEB_KEY_SIZE], struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s/web.key", state_dir);
    AUTO_FREE
    char *text = NULL;
    struct error missing = ERROR_INIT;
    size_t len = 0;

    if (fd_read_file(path, WEB_KEY_SIZE, &text, &len, &missing) == 0) {
        if (len != WEB_KEY_SIZE)
            return error_set(err, ERR_INVALID, 0,
                             "%s holds no key; remove it to have a new one made", path);
        memcpy(key, text, WEB_KEY_SIZE);
        sodium_memzero(text, len);
        return 0;
    }
    if (access(path, F_OK) == 0) {
        *err = missing;
        return error_wrap(err, "web key");
    }
    randombytes_buf(key, WEB_KEY_SIZE);
    return fd_replace_file(path, key, WEB_KEY_SIZE, 0600, err);
}

static void run_hash(const unsigned char key[WEB_KEY_SIZE], const char *run_id,
                     unsigned char hash[crypto_auth_hmacsha256_BYTES])
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, WEB_KEY_SIZE);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)"web run ", 8);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)run_id, strlen(run_id));
    crypto_auth_hmacsha256_final(&state, hash);
    sodium_memzero(&state, sizeof(state));
}

void auth_token(const unsigned char key[WEB_KEY_SIZE], const char *run_id,
                char token[WEB_TOKEN_SIZE])
{
    unsigned char hash[crypto_auth_hmacsha256_BYTES];

    run_hash(key, run_id, hash);
    sodium_bin2base64(token, WEB_TOKEN_SIZE, hash, sizeof(hash),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

bool auth_token_matches(const unsigned char key[WEB_KEY_SIZE], const char *run_id,
                        const char *token)
{
    char right[WEB_TOKEN_SIZE];

    if (token == NULL || strlen(token) != WEB_TOKEN_SIZE - 1)
        return false;
    auth_token(key, run_id, right);
    return sodium_memcmp(right, token, WEB_TOKEN_SIZE - 1) == 0;
}

bool auth_host_allowed(const char *host, uint16_t port)
{
    static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };

    for (size_t i = 0; host != NULL && i < ARRAY_LEN(names); i++) {
        AUTO_FREE
        char *allowed = mem_printf("%s:%u", names[i], (unsigned)port);

        if (strcasecmp(host, allowed) == 0)
            return true;
    }
    return false;
}

bool auth_origin_allowed(const char *origin, uint16_t port)
{
    return origin != NULL && str_starts(origin, "http://") &&
           auth_host_allowed(origin + strlen("http://"), port);
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool query_value(const char *target, const char *name, char *value, size_t size)
{
    const char *at = strchr(target, '?');
    size_t name_len = strlen(name);

    while (at != NULL && at[0] != '\0') {
        at++; /* behind ? or & */
        if (strncmp(at, name, name_len) == 0 && at[name_len] == '=') {
            size_t len = 0;

            for (at += name_len + 1; is_plain(at[len]);)
                len++;
            if ((at[len] != '\0' && at[len] != '&') || len >= size)
                return false;
            memcpy(value, at, len);
            value[len] = '\0';
            return true;
        }
        at = strchr(at, '&');
    }
    return false;
}
