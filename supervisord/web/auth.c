/* auth.c: what a request shows: the host it asks, the page it comes from, its token and cookie. The
 * token of a run's link is an HMAC of the run's id, so nothing is stored per link and a link opens
 * one run only. */
#include <arpa/inet.h>
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

static void hash_of(const unsigned char key[WEB_KEY_SIZE], const char *purpose, const char *text,
                    unsigned char hash[crypto_auth_hmacsha256_BYTES])
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, WEB_KEY_SIZE);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)purpose, strlen(purpose));
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)text, strlen(text));
    crypto_auth_hmacsha256_final(&state, hash);
    sodium_memzero(&state, sizeof(state));
}

void auth_token(const unsigned char key[WEB_KEY_SIZE], const char *run_id,
                char token[WEB_TOKEN_SIZE])
{
    unsigned char hash[crypto_auth_hmacsha256_BYTES];

    hash_of(key, "web run ", run_id, hash);
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

void auth_prefix(const unsigned char key[WEB_KEY_SIZE], char prefix[WEB_PREFIX_SIZE])
{
    unsigned char hash[crypto_auth_hmacsha256_BYTES];

    hash_of(key, "web prefix", "", hash);
    memcpy(prefix, "/w/", 3);
    sodium_bin2base64(prefix + 3, WEB_PREFIX_SIZE - 3, hash, 12,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

void auth_agent_host(const unsigned char key[WEB_KEY_SIZE], const struct id *session,
                     char host[WEB_AGENT_HOST_SIZE])
{
    unsigned char hash[crypto_auth_hmacsha256_BYTES];
    char proof[17];

    hash_of(key, "web agent ", session->text, hash);
    str_hex(proof, hash, 8);
    (void)snprintf(host, WEB_AGENT_HOST_SIZE, "%s-%s.localhost", session->text + 4, proof);
}

bool auth_agent_host_parse(const unsigned char key[WEB_KEY_SIZE], const char *host, uint16_t port,
                           struct id *session)
{
    char name[WEB_AGENT_HOST_SIZE];
    char text[ID_SIZE];
    struct id id;

    if (host == NULL || strlen(host) < ID_SIZE)
        return false;
    (void)snprintf(text, sizeof(text), "ses_%.26s", host);
    if (!id_parse(ID_KIND_SESSION, text, &id))
        return false;
    auth_agent_host(key, &id, name);

    AUTO_FREE
    char *right = mem_printf("%s:%u", name, (unsigned)port);

    if (strlen(right) != strlen(host) || sodium_memcmp(right, host, strlen(host)) != 0)
        return false;
    *session = id;
    return true;
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

/* Length of HOST without its port; 0 when it is none. */
static size_t name_len(const char *host)
{
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    uint64_t port;

    if (len > strlen(host))
        return 0;
    if (host[len] == '\0')
        return len;
    return host[len] == ':' && str_parse_u64(host + len + 1, UINT16_MAX, &port) ? len : 0;
}

static bool is_address(const char *host, size_t len)
{
    unsigned char address[16];
    char text[INET6_ADDRSTRLEN] = "";
    bool bracket = host[0] == '[';

    if (bracket) {
        host++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof(text))
        return false;
    memcpy(text, host, len);
    return inet_pton(bracket ? AF_INET6 : AF_INET, text, address) == 1;
}

bool auth_remote_host_allowed(const char *host, const char *const *names, size_t count)
{
    size_t len = host != NULL ? name_len(host) : 0;

    if (len == 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == len && strncasecmp(names[i], host, len) == 0)
            return true;
    }
    return is_address(host, len);
}

const char *auth_origin_host(const char *origin)
{
    if (origin == NULL)
        return NULL;
    if (str_starts(origin, "http://"))
        return origin + strlen("http://");
    return str_starts(origin, "https://") ? origin + strlen("https://") : NULL;
}

bool auth_origin_allowed(const char *origin, uint16_t port)
{
    return origin != NULL && str_starts(origin, "http://") &&
           auth_host_allowed(auth_origin_host(origin), port);
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* The plain characters at AT, which must end at END or the text's end. */
static bool take_plain(const char *at, char end, char *value, size_t size)
{
    size_t len = 0;

    while (is_plain(at[len]))
        len++;
    if ((at[len] != '\0' && at[len] != end) || len >= size)
        return false;
    memcpy(value, at, len);
    value[len] = '\0';
    return true;
}

bool query_value(const char *target, const char *name, char *value, size_t size)
{
    const char *at = strchr(target, '?');
    size_t len = strlen(name);

    while (at != NULL && at[0] != '\0') {
        at++; /* behind ? or & */
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return take_plain(at + len + 1, '&', value, size);
        at = strchr(at, '&');
    }
    return false;
}

/* Looks through one header, "a=1; b=2" (RFC 6265, 4.2.1). */
static void look_for_cookie(const char *at, const char *name, char *value, size_t size,
                            unsigned *found)
{
    size_t len = strlen(name);

    while (at != NULL && at[0] != '\0') {
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            ++*found;
            if (!take_plain(at + len + 1, ';', value, size))
                value[0] = '\0';
        }
        at = strchr(at, ';');
        for (at = at != NULL ? at + 1 : NULL; at != NULL && at[0] == ' ';)
            at++;
    }
}

bool cookie_value(const struct http_headers *headers, const char *name, char *value, size_t size)
{
    unsigned found = 0;

    value[0] = '\0';
    for (size_t i = 0; i < headers->count; i++) {
        if (strcasecmp(headers->items[i].name, "cookie") == 0)
            look_for_cookie(headers->items[i].value, name, value, size, &found);
    }
    if (found == 1 && value[0] != '\0')
        return true;
    value[0] = '\0';
    return false;
}
