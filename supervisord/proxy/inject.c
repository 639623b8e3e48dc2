/* inject.c: every byte of the lines was checked before; they are sent as they are. */
#include "proxy/inject.h"

#include <sodium.h>
#include <strings.h>

#include "common/mem.h"
#include "proxy/scrub.h"

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

struct inject_veil {
    struct scrub scrub;
};

/* Where nothing is put in, nothing of the client's own is taken out but what proxies consume. */
static const char *const dropped_always[] = {
    "proxy-authorization", "host", "content-length", "expect",         "max-forwards",
    "forwarded",           "via",  "x-real-ip",      "true-client-ip", "cf-connecting-ip",
};

static bool listed(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

bool inject_drops(const struct service *service, const char *name)
{
    if (service->egress ? listed(dropped_always, ARRAY_LEN(dropped_always), name)
                        : listed(dropped, ARRAY_LEN(dropped), name))
        return true;
    return strncasecmp(name, "x-forwarded-", 12) == 0 || strncasecmp(name, "proxy-", 6) == 0 ||
           strcasecmp(name, service->inject_header) == 0;
}

#define IDENTITY "Accept-Encoding: identity\r\n"

static void append_header(struct buf *out, const char *name, const char *value)
{
    buf_append_str(out, name);
    buf_append_str(out, *value != '\0' ? ": " : ":");
    buf_append_str(out, value);
    buf_append(out, "\r\n", 2);
}

/* At most; what is left out is counted as well. */
static size_t client_headers_size(const struct http_request *request)
{
    size_t size = sizeof(IDENTITY);

    for (size_t i = 0; i < request->headers.count; i++)
        size += strlen(request->headers.items[i].name) + strlen(request->headers.items[i].value) +
                strlen(": \r\n");
    return size;
}

static void append_client_headers(struct buf *out, const struct service *service,
                                  const struct http_request *request)
{
    const struct http_headers *headers = &request->headers;

    for (size_t i = 0; i < headers->count; i++) {
        const struct http_header *header = &headers->items[i];

        if (!http_headers_hop_by_hop(headers, header->name) && !inject_drops(service, header->name))
            append_header(out, header->name, header->value);
    }
    /* An event stream must be readable for its end, and an answer for a reflected secret. */
    if (!service->egress)
        buf_append_str(out, IDENTITY);
}

/* Memory of the right size from the start: growing would leave copies of the credential behind. */
static void begin_lines(struct buf *out, const struct service *service,
                        const struct http_request *request, size_t credential_size)
{
    size_t size = client_headers_size(request) + credential_size;

    buf_init(out, size);
    if (buf_reserve(out, size) == NULL)
        BUG("no memory for headers");
    append_client_headers(out, service, request);
}

/* A line end would start a header of the secret's own, so only printable ASCII is taken. */
static bool secret_valid(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (value[i] < 0x20 || value[i] > 0x7e)
            return false;
    return len > 0 && value[0] != ' ' && value[len - 1] != ' ';
}

/* Heap text that the caller wipes. */
static char *encode(const char *plain, size_t len)
{
    size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL);
    char *encoded = mem_new_zero(1, size);

    return sodium_bin2base64(encoded, size, (const unsigned char *)plain, len,
                             sodium_base64_VARIANT_ORIGINAL);
}

/* The same. */
static char *render_basic(const struct service *service, const char *value, size_t len)
{
    size_t plain_len = strlen(service->basic_user) + 1 + len;
    char *plain = mem_new_zero(1, plain_len + 1);
    char *encoded;

    memcpy(plain, service->basic_user, strlen(service->basic_user));
    plain[strlen(service->basic_user)] = ':';
    memcpy(plain + plain_len - len, value, len);
    encoded = encode(plain, plain_len);
    sodium_memzero(plain, plain_len);
    free(plain);
    return encoded;
}

/* At most, with a secret of LEN bytes. */
static size_t credential_size(const struct service *service, size_t len)
{
    size_t user = service->basic_user != NULL ? strlen(service->basic_user) : 0;

    return strlen(service->inject_header) + strlen(service->inject_before) +
           strlen(service->inject_after) + strlen(": \r\n") +
           sodium_base64_encoded_len(user + 1 + len, sodium_base64_VARIANT_ORIGINAL);
}

static void append_credential(struct buf *out, const struct service *service,
                              const struct scrub_source *shown)
{
    buf_append_str(out, service->inject_header);
    buf_append_str(out, ": ");
    buf_append_str(out, service->inject_before);
    buf_append(out, shown->text, shown->len);
    buf_append_str(out, service->inject_after);
    buf_append(out, "\r\n", 2);
    BUG_ON(out->failed);
}

static struct inject_veil *veil_new(struct scrub_set *set)
{
    struct inject_veil *veil = NEW(struct inject_veil);

    scrub_init(&veil->scrub, set);
    return veil;
}

/* Looks for what is stored, SHOWN[0], and what is sent in its place, SHOWN[1], if that differs. A
 * set is kept as long as the secret stays the same. */
static int make_veil(struct inject_cache *cache, struct secret *secret,
                     const struct scrub_source *shown, size_t count, struct inject_veil **veil,
                     struct error *err)
{
    bool empty = false;
    struct scrub_set *set;

    set = scrub_set_new(shown, count, &empty);
    if (set == NULL && !empty)
        return error_set(err, ERR_LIMIT, 0, "no guarded memory to look for the credential");
    inject_cache_finish(cache);
    cache->secret = secret_ref(secret);
    cache->set = set;
    *veil = set != NULL ? veil_new(set) : NULL;
    return 0;
}

/* True when the set of SECRET is at hand. */
static bool cached_veil(const struct inject_cache *cache, const struct secret *secret,
                        struct inject_veil **veil)
{
    if (cache->secret != secret)
        return false;
    *veil = cache->set != NULL ? veil_new(cache->set) : NULL;
    return true;
}

void inject_cache_rest(struct inject_cache *cache)
{
    if (cache->open)
        secret_shut(cache->secret);
    cache->open = false;
}

void inject_cache_finish(struct inject_cache *cache)
{
    inject_cache_rest(cache);
    secret_unref(cache->secret);
    scrub_set_unref(cache->set);
    *cache = (struct inject_cache){ 0 };
}

/* SECRET is open; requests come in crowds, and to open and shut it are two system calls. */
static void leave_open(struct inject_cache *cache, struct secret *secret)
{
    if (cache->secret == secret && !cache->open)
        cache->open = true;
    else
        secret_shut(secret);
}

/* SECRET is open as VALUE. */
static int use_secret(struct buf *out, const struct service *service, struct secret *secret,
                      const struct scrub_source *value, struct inject_cache *cache,
                      struct inject_veil **veil, struct error *err)
{
    struct scrub_source shown[2] = { *value };
    size_t count = 1;
    char *encoded = NULL;
    int status = 0;

    if (!secret_valid(value->text, value->len))
        return error_set(err, ERR_INVALID, 0, "secret %s can't be a header value", service->secret);
    if (service->inject == INJECT_BASIC) {
        encoded = render_basic(service, value->text, value->len);
        shown[count++] = (struct scrub_source){ encoded, strlen(encoded) };
    }
    append_credential(out, service, &shown[count - 1]);
    if (!cached_veil(cache, secret, veil))
        status = make_veil(cache, secret, shown, count, veil, err);
    if (encoded != NULL)
        sodium_memzero(encoded, strlen(encoded));
    free(encoded);
    return status;
}

int inject_headers(const struct service *service, const struct http_request *request,
                   const struct inject_source *source, struct buf *out, struct inject_veil **veil,
                   struct error *err)
{
    bool bare =
        service->inject == INJECT_NONE || service->inject == INJECT_QUERY || source->vault == NULL;
    struct error why = ERROR_INIT;
    struct scrub_source value;
    struct secret *secret;
    int status;

    *veil = NULL;
    *out = (struct buf){ 0 };
    secret = bare ? NULL : vault_get(source->vault, service->secret, &why);
    if (secret == NULL && !bare && !(service->git && why.code == ERR_NOT_FOUND)) {
        *err = why;
        return -1;
    }
    if (secret == NULL) {
        /* Public repositories need none; of a private one git is told by its server. */
        begin_lines(out, service, request, 0);
        return 0;
    }
    value.text = secret_open(secret, &value.len);
    begin_lines(out, service, request, credential_size(service, value.len));
    status = use_secret(out, service, secret, &value, source->cache, veil, err);
    leave_open(source->cache, secret);
    secret_unref(secret);
    if (status < 0)
        inject_free(out);
    return status;
}

/* Appends VALUE with all but unreserved characters escaped; TO has room for three bytes each. */
static char *escape(char *to, const char *value, size_t len)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];

        if (memchr(plain, c, sizeof(plain) - 1) != NULL) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    *to = '\0';
    return to;
}

/* SECRET is open as VALUE. Its escaped form is hidden as well. */
static int append_parameter(const struct service *service, const char *path, struct secret *secret,
                            const struct scrub_source *value, struct inject_cache *cache,
                            char **out, struct inject_veil **veil, struct error *err)
{
    size_t size = strlen(path) + strlen(service->inject_query) + 3 * value->len + 3;
    struct scrub_source shown[2] = { *value };
    size_t count = 1;
    char *start;
    char *end;

    if (!secret_valid(value->text, value->len))
        return error_set(err, ERR_INVALID, 0, "secret %s can't be in a query", service->secret);
    *out = mem_new_zero(1, size);
    start = stpcpy(stpcpy(*out, path), strchr(path, '?') != NULL ? "&" : "?");
    start = stpcpy(stpcpy(start, service->inject_query), "=");
    end = escape(start, value->text, value->len);
    if ((size_t)(end - start) > value->len)
        shown[count++] = (struct scrub_source){ start, (size_t)(end - start) };
    if (cached_veil(cache, secret, veil) || make_veil(cache, secret, shown, count, veil, err) == 0)
        return 0;
    inject_path_free(STEAL(*out));
    return -1;
}

int inject_query(const struct service *service, const char *path,
                 const struct inject_source *source, char **out, struct inject_veil **veil,
                 struct error *err)
{
    struct secret *secret = vault_get(source->vault, service->secret, err);
    struct scrub_source value;
    int status;

    *veil = NULL;
    *out = NULL;
    if (secret == NULL)
        return -1;
    value.text = secret_open(secret, &value.len);
    status = append_parameter(service, path, secret, &value, source->cache, out, veil, err);
    leave_open(source->cache, secret);
    secret_unref(secret);
    return status;
}

/* SECRET is open as VALUE. */
static int append_parent(struct buf *out, const char *name, const struct scrub_source *value,
                         struct error *err)
{
    static const char start[] = "Proxy-Authorization: Basic ";
    char *encoded;
    size_t len;

    if (!secret_valid(value->text, value->len) || memchr(value->text, ':', value->len) == NULL)
        return error_set(err, ERR_INVALID, 0, "secret %s is not \"user:password\"", name);
    encoded = encode(value->text, value->len);
    len = strlen(encoded);
    buf_init(out, sizeof(start) + len + 2);
    if (buf_reserve(out, sizeof(start) + len + 1) == NULL)
        BUG("no memory for a header");
    buf_append_str(out, start);
    buf_append(out, encoded, len);
    buf_append_str(out, "\r\n");
    BUG_ON(out->failed);
    sodium_memzero(encoded, len);
    free(encoded);
    return 0;
}

int inject_parent(struct vault *vault, const char *name, struct buf *out, struct error *err)
{
    struct secret *secret = vault_get(vault, name, err);
    struct scrub_source value;
    int status;

    if (secret == NULL)
        return -1;
    value.text = secret_open(secret, &value.len);
    status = append_parent(out, name, &value, err);
    secret_shut(secret);
    secret_unref(secret);
    return status;
}

void inject_path_free(char *path)
{
    if (path != NULL)
        sodium_memzero(path, strlen(path));
    free(path);
}

void inject_free(struct buf *lines)
{
    if (lines->data != NULL)
        sodium_memzero(lines->data, lines->cap);
    buf_finish(lines);
}

/* Veils
 * ----------------------------------------------------------------------------------------------------------
 */

void inject_veil_free(struct inject_veil *veil)
{
    if (veil == NULL)
        return;
    scrub_finish(&veil->scrub);
    free(veil);
}

void inject_veil_text(struct inject_veil *veil, char *text)
{
    if (veil != NULL)
        veil->scrub.found += scrub_text(veil->scrub.set, text, strlen(text));
}

bool inject_veil_passes(const struct inject_veil *veil, const char *data, size_t len)
{
    return veil == NULL || scrub_passes(&veil->scrub, data, len);
}

void inject_veil_feed(struct inject_veil *veil, const char *data, size_t len, struct buf *out)
{
    if (veil == NULL)
        buf_append(out, data, len);
    else
        scrub_feed(&veil->scrub, data, len, out);
}

void inject_veil_end(struct inject_veil *veil, struct buf *out)
{
    if (veil != NULL)
        scrub_end(&veil->scrub, out);
}

size_t inject_veil_found(const struct inject_veil *veil)
{
    return veil != NULL ? veil->scrub.found : 0;
}
