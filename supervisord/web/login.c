/* login.c: browsers that are signed in. A code from a link, or the token, becomes a session; what
 * the browser shows is random and known here by its hash only. */
#include <sodium.h>
#include <unistd.h>

#include "common/fd.h"
#include "web/internal.h"

#define CODES_MAX 32
#define SESSIONS_MAX 64
#define HASH_SIZE 32
#define SESSION_LINE_MAX (2 * HASH_SIZE + 24)
#define TRY_AGAIN_MS 3000

struct login {
    char *path;
    const struct clock *clock;
    struct {
        unsigned char hash[HASH_SIZE];
        char *path; /* NULL: free */
        uint64_t until_mono_ms;
    } codes[CODES_MAX];
    struct {
        unsigned char hash[HASH_SIZE];
        uint64_t until_ms; /* wall clock; 0: free */
    } sessions[SESSIONS_MAX];
    uint64_t try_mono_ms; /* not before this */
};

/* The scope is the key: with another one the same text is another secret. */
static void hash_in_scope(const char *scope, const char *text, unsigned char hash[HASH_SIZE])
{
    size_t len = strlen(scope);

    BUG_ON(len > 0 && len < crypto_generichash_KEYBYTES_MIN);
    crypto_generichash(hash, HASH_SIZE, (const unsigned char *)text, WEB_TOKEN_SIZE - 1,
                       len > 0 ? (const unsigned char *)scope : NULL, len);
}

static void make_secret(const char *scope, char text[WEB_TOKEN_SIZE], unsigned char hash[HASH_SIZE])
{
    unsigned char bytes[32];

    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2base64(text, WEB_TOKEN_SIZE, bytes, sizeof(bytes),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(bytes, sizeof(bytes));
    hash_in_scope(scope, text, hash);
}

static bool hash_secret(const char *scope, const char *text, unsigned char hash[HASH_SIZE])
{
    if (text == NULL || strlen(text) != WEB_TOKEN_SIZE - 1)
        return false;
    hash_in_scope(scope, text, hash);
    return true;
}

/* Codes --------------------------------------------------------------------------------------- */

void login_make_code(struct login *login, const char *scope, const char *path,
                     char code[WEB_TOKEN_SIZE])
{
    size_t oldest = 0;

    for (size_t i = 0; i < CODES_MAX; i++) {
        if (login->codes[i].path == NULL) {
            oldest = i;
            break;
        }
        if (login->codes[i].until_mono_ms < login->codes[oldest].until_mono_ms)
            oldest = i;
    }
    free(login->codes[oldest].path);
    login->codes[oldest].path = mem_strdup(path);
    login->codes[oldest].until_mono_ms = clock_mono_ms(login->clock) + LOGIN_CODE_MS;
    make_secret(scope, code, login->codes[oldest].hash);
}

char *login_take_code(struct login *login, const char *scope, const char *code)
{
    uint64_t now = clock_mono_ms(login->clock);
    unsigned char hash[HASH_SIZE];
    char *path = NULL;

    if (!hash_secret(scope, code, hash))
        return NULL;
    for (size_t i = 0; i < CODES_MAX; i++) {
        bool right = sodium_memcmp(login->codes[i].hash, hash, HASH_SIZE) == 0;

        if (!right || login->codes[i].path == NULL)
            continue;
        if (now < login->codes[i].until_mono_ms)
            path = STEAL(login->codes[i].path);
        free(STEAL(login->codes[i].path));
    }
    return path;
}

/* Sessions ------------------------------------------------------------------------------------ */

static void read_line(struct login *login, const char *line, size_t len, size_t *count)
{
    unsigned char hash[HASH_SIZE];
    char until[24] = "";
    uint64_t until_ms;
    size_t hash_len;

    if (*count == SESSIONS_MAX || len <= 2 * HASH_SIZE + 1 || len >= 2 * HASH_SIZE + sizeof(until))
        return;
    memcpy(until, line + 2 * HASH_SIZE + 1, len - 2 * HASH_SIZE - 1);
    if (sodium_hex2bin(hash, HASH_SIZE, line, 2 * HASH_SIZE, NULL, &hash_len, NULL) != 0 ||
        hash_len != HASH_SIZE || !str_parse_u64(until, UINT64_C(1) << 53, &until_ms))
        return;
    memcpy(login->sessions[*count].hash, hash, HASH_SIZE);
    login->sessions[(*count)++].until_ms = until_ms;
}

static int save(const struct login *login, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(SESSIONS_MAX * SESSION_LINE_MAX);
    uint64_t now = clock_wall_ms(login->clock);

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        char hex[2 * HASH_SIZE + 1];

        if (login->sessions[i].until_ms <= now)
            continue;
        str_hex(hex, login->sessions[i].hash, HASH_SIZE);
        buf_printf(&text, "%s %llu\n", hex, (unsigned long long)login->sessions[i].until_ms);
    }
    return fd_replace_file(login->path, buf_text(&text), text.len, 0600, err);
}

int login_open(struct login **out, const char *state_dir, const struct clock *clock,
               struct error *err)
{
    struct login *login = NEW(struct login);
    AUTO_FREE
    char *text = NULL;
    size_t count = 0;
    size_t len = 0;

    login->clock = clock;
    login->path = mem_printf("%s/web.sessions", state_dir);
    if (access(login->path, F_OK) == 0 &&
        fd_read_file(login->path, SESSIONS_MAX * SESSION_LINE_MAX, &text, &len, err) < 0) {
        login_close(login);
        return error_wrap(err, "browsers that are signed in");
    }
    for (const char *at = text; at != NULL && *at != '\0';) {
        size_t line = strcspn(at, "\n");

        read_line(login, at, line, &count);
        at += line + (at[line] == '\n');
    }
    *out = login;
    return 0;
}

void login_close(struct login *login)
{
    if (login == NULL)
        return;
    for (size_t i = 0; i < CODES_MAX; i++)
        free(login->codes[i].path);
    free(login->path);
    sodium_memzero(login, sizeof(*login));
    free(login);
}

uint64_t login_lasts_ms(const char *scope)
{
    return scope[0] == '\0' ? LOGIN_SESSION_MS : LOGIN_AGENT_MS;
}

int login_begin(struct login *login, const char *scope, char text[WEB_TOKEN_SIZE],
                struct error *err)
{
    size_t oldest = 0;

    for (size_t i = 1; i < SESSIONS_MAX; i++) {
        if (login->sessions[i].until_ms < login->sessions[oldest].until_ms)
            oldest = i;
    }
    make_secret(scope, text, login->sessions[oldest].hash);
    login->sessions[oldest].until_ms = clock_wall_ms(login->clock) + login_lasts_ms(scope);
    return save(login, err);
}

/* The session's index, or SESSIONS_MAX. All are looked at, so that the time tells nothing. */
static size_t find(const struct login *login, const char *scope, const char *text)
{
    uint64_t now = clock_wall_ms(login->clock);
    size_t found = SESSIONS_MAX;
    unsigned char hash[HASH_SIZE];

    if (!hash_secret(scope, text, hash))
        return SESSIONS_MAX;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        bool right = sodium_memcmp(login->sessions[i].hash, hash, HASH_SIZE) == 0;

        if (right && now < login->sessions[i].until_ms)
            found = i;
    }
    return found;
}

bool login_valid(const struct login *login, const char *scope, const char *text)
{
    return find(login, scope, text) != SESSIONS_MAX;
}

void login_end(struct login *login, const char *scope, const char *text)
{
    size_t found = find(login, scope, text);
    struct error err = ERROR_INIT;

    if (found == SESSIONS_MAX)
        return;
    sodium_memzero(&login->sessions[found], sizeof(login->sessions[found]));
    if (save(login, &err) < 0)
        log_warn("web", "a browser is signed out only until the next start: %s", err.text);
}

bool login_may_try(struct login *login)
{
    return clock_mono_ms(login->clock) >= login->try_mono_ms;
}

void login_tried(struct login *login, bool right)
{
    login->try_mono_ms = right ? 0 : clock_mono_ms(login->clock) + TRY_AGAIN_MS;
}
