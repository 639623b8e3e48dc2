/* inject.c: every byte of the list was checked before; libcurl sends it as it is. */
#include "proxy/inject.h"

#include <sodium.h>
#include <strings.h>

#include "common/mem.h"
#include "proxy/mask.h"

static const char *const dropped[] = {
    /* credentials */
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
    "cookie2",
    "proxy-authorization",
    /* framing and what this proxy answers itself */
    "host",
    "content-length",
    "expect",
    "max-forwards",
    "accept-encoding",
    /* origin of the request */
    "forwarded",
    "via",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
    /* method overrides */
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    /* half of an answer may hold half of a secret */
    "range",
    "if-range",
};

#define VEIL_SHORTEST 8u /* shorter ones would be found by chance */

struct inject_veil {
    struct secret *secrets[MASK_PATTERNS_MAX]; /* as stored, as sent */
    size_t count;
    struct buf held; /* the last bytes, which begin like one of them; wiped */
};

bool inject_drops(const struct service *service, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(dropped); i++)
        if (strcasecmp(name, dropped[i]) == 0)
            return true;
    return strncasecmp(name, "x-forwarded-", 12) == 0 || strncasecmp(name, "proxy-", 6) == 0 ||
           strcasecmp(name, service->inject_header) == 0;
}

static void append(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);

    if (longer == NULL)
        BUG("no memory for a header");
    *list = longer;
}

/* libcurl takes "Name;" for a header with an empty value and "Name:" for one to leave out. */
static void append_header(struct curl_slist **list, const char *name, const char *value)
{
    AUTO_FREE
    char *line = value[0] == '\0' ? mem_printf("%s;", name) : mem_printf("%s: %s", name, value);

    append(list, line);
}

static void append_client_headers(struct curl_slist **list, const struct service *service,
                                  const struct http_request *request)
{
    struct http_headers kept;

    http_headers_init(&kept);
    for (size_t i = 0; i < request->headers.count; i++)
        http_headers_add(&kept, request->headers.items[i].name, request->headers.items[i].value);
    http_headers_drop_hop_by_hop(&kept);
    for (size_t i = 0; i < kept.count; i++)
        if (!inject_drops(service, kept.items[i].name))
            append_header(list, kept.items[i].name, kept.items[i].value);
    /* What libcurl would add by itself. */
    append(list, "Expect:");
    if (http_headers_get(&kept, "accept") == NULL)
        append(list, "Accept:");
    if (http_headers_get(&kept, "content-type") == NULL)
        append(list, "Content-Type:");
    http_headers_finish(&kept);
    /* An event stream must be readable for its end, and an answer for a reflected secret. */
    append(list, "Accept-Encoding: identity");
}

/* A line end would start a header of the secret's own, so only printable ASCII is taken. */
static bool secret_valid(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (value[i] < 0x20 || value[i] > 0x7e)
            return false;
    return len > 0 && value[0] != ' ' && value[len - 1] != ' ';
}

/* Heap text of *LEN_OUT bytes that the caller wipes. */
static char *render_basic(const struct service *service, const char *value, size_t len)
{
    size_t plain_len = strlen(service->basic_user) + 1 + len;
    char *plain = mem_new_zero(1, plain_len + 1);
    size_t encoded_size = sodium_base64_encoded_len(plain_len, sodium_base64_VARIANT_ORIGINAL);
    char *encoded = mem_new_zero(1, encoded_size);

    memcpy(plain, service->basic_user, strlen(service->basic_user));
    plain[strlen(service->basic_user)] = ':';
    memcpy(plain + plain_len - len, value, len);
    sodium_bin2base64(encoded, encoded_size, (const unsigned char *)plain, plain_len,
                      sodium_base64_VARIANT_ORIGINAL);
    sodium_memzero(plain, plain_len);
    free(plain);
    return encoded;
}

/* By hand into memory of the right size: the printf family leaves copies behind when it grows. */
static void append_line(struct curl_slist **list, const struct service *service, const char *shown,
                        size_t shown_len)
{
    size_t size = strlen(service->inject_header) + 2 + strlen(service->inject_before) + shown_len +
                  strlen(service->inject_after) + 1;
    char *line = mem_new_zero(1, size);
    char *to = stpcpy(stpcpy(stpcpy(line, service->inject_header), ": "), service->inject_before);

    memcpy(to, shown, shown_len);
    memcpy(to + shown_len, service->inject_after, strlen(service->inject_after));
    append(list, line);
    sodium_memzero(line, size);
    free(line);
}

/* Takes its own reference to SECRET. */
static void veil_add(struct inject_veil *veil, struct secret *secret, size_t len)
{
    if (len >= VEIL_SHORTEST)
        veil->secrets[veil->count++] = secret_ref(secret);
}

/* The form that is sent is hidden as well as the one that is stored. */
static int append_basic(struct curl_slist **list, const struct service *service, const char *value,
                        size_t len, struct inject_veil *veil, struct error *err)
{
    char *encoded = render_basic(service, value, len);
    size_t encoded_len = strlen(encoded);
    struct secret *rendered = encoded_len <= SECRET_MAX ? secret_new(encoded, encoded_len) : NULL;

    if (rendered != NULL) {
        append_line(list, service, encoded, encoded_len);
        veil_add(veil, rendered, encoded_len);
    }
    sodium_memzero(encoded, encoded_len);
    free(encoded);
    if (rendered == NULL)
        return error_set(err, ERR_LIMIT, 0, "no guarded memory for secret %s", service->secret);
    secret_unref(rendered);
    return 0;
}

/* SECRET is open as VALUE. */
static int use_secret(struct curl_slist **list, const struct service *service,
                      struct secret *secret, const char *value, size_t len,
                      struct inject_veil *veil, struct error *err)
{
    if (!secret_valid(value, len))
        return error_set(err, ERR_INVALID, 0, "secret %s can't be a header value", service->secret);
    veil_add(veil, secret, len);
    if (service->inject == INJECT_BASIC)
        return append_basic(list, service, value, len, veil, err);
    append_line(list, service, value, len);
    return 0;
}

int inject_headers(const struct service *service, const struct http_request *request,
                   struct vault *vault, struct curl_slist **out, struct inject_veil **veil,
                   struct error *err)
{
    struct curl_slist *list = NULL;
    struct inject_veil *made;
    struct secret *secret;
    struct error why = ERROR_INIT;
    const char *value;
    size_t len;
    int status;

    *veil = NULL;
    append_client_headers(&list, service, request);
    if (service->inject == INJECT_NONE) {
        *out = list;
        return 0;
    }
    secret = vault_get(vault, service->secret, &why);
    if (secret == NULL && service->git && why.code == ERR_NOT_FOUND) {
        /* Public repositories need none; of a private one git is told by its server. */
        *out = list;
        return 0;
    }
    if (secret == NULL) {
        inject_free(list);
        *err = why;
        return -1;
    }
    made = NEW(struct inject_veil);
    buf_init(&made->held, SECRET_MAX);
    value = secret_open(secret, &len);
    status = use_secret(&list, service, secret, value, len, made, err);
    secret_shut(secret);
    secret_unref(secret);
    if (status < 0) {
        inject_veil_free(made);
        inject_free(list);
        return -1;
    }
    *out = list;
    *veil = made;
    return 0;
}

void inject_free(struct curl_slist *list)
{
    for (struct curl_slist *item = list; item != NULL; item = item->next)
        sodium_memzero(item->data, strlen(item->data));
    curl_slist_free_all(list);
}

/* Veils
 * ----------------------------------------------------------------------------------------------------------
 */

void inject_veil_free(struct inject_veil *veil)
{
    if (veil == NULL)
        return;
    for (size_t i = 0; i < veil->count; i++)
        secret_unref(veil->secrets[i]);
    if (veil->held.data != NULL)
        sodium_memzero(veil->held.data, veil->held.cap);
    buf_finish(&veil->held);
    free(veil);
}

static void open_all(struct inject_veil *veil, struct mask_pattern patterns[MASK_PATTERNS_MAX])
{
    for (size_t i = 0; i < veil->count; i++)
        patterns[i].text = secret_open(veil->secrets[i], &patterns[i].len);
}

static void shut_all(struct inject_veil *veil)
{
    for (size_t i = 0; i < veil->count; i++)
        secret_shut(veil->secrets[i]);
}

void inject_veil_text(struct inject_veil *veil, char *text)
{
    struct mask_pattern patterns[MASK_PATTERNS_MAX];

    if (veil == NULL || veil->count == 0)
        return;
    open_all(veil, patterns);
    mask_all(text, strlen(text), patterns, veil->count);
    shut_all(veil);
}

void inject_veil_feed(struct inject_veil *veil, const char *data, size_t len, struct buf *out)
{
    struct mask_pattern patterns[MASK_PATTERNS_MAX];
    size_t start = out->len;
    size_t kept;

    if (veil == NULL || veil->count == 0) {
        buf_append(out, data, len);
        return;
    }
    buf_append(out, veil->held.data, veil->held.len);
    buf_append(out, data, len);
    BUG_ON(out->failed);
    open_all(veil, patterns);
    mask_all(out->data + start, out->len - start, patterns, veil->count);
    kept = mask_open_end(out->data + start, out->len - start, patterns, veil->count);
    shut_all(veil);
    buf_clear(&veil->held);
    buf_append(&veil->held, out->data + out->len - kept, kept);
    out->len -= kept;
}

void inject_veil_end(struct inject_veil *veil, struct buf *out)
{
    if (veil == NULL)
        return;
    buf_append(out, veil->held.data, veil->held.len);
    buf_clear(&veil->held);
}
