/* inject.c: every byte of the list was checked before; libcurl sends it as it is. */
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
    size_t name_len = strlen(name);
    size_t value_len = strlen(value);
    AUTO_FREE
    char *line = mem_new(name_len + value_len + 3);

    memcpy(line, name, name_len);
    if (value_len == 0) {
        memcpy(line + name_len, ";", 2);
    } else {
        memcpy(line + name_len, ": ", 2);
        memcpy(line + name_len + 2, value, value_len + 1);
    }
    append(list, line);
}

static void append_client_headers(struct curl_slist **list, const struct service *service,
                                  const struct http_request *request)
{
    const struct http_headers *headers = &request->headers;
    bool accepts = false;
    bool typed = false;

    for (size_t i = 0; i < headers->count; i++) {
        const struct http_header *header = &headers->items[i];

        if (http_headers_hop_by_hop(headers, header->name))
            continue;
        accepts |= strcasecmp(header->name, "accept") == 0;
        typed |= strcasecmp(header->name, "content-type") == 0;
        if (!inject_drops(service, header->name))
            append_header(list, header->name, header->value);
    }
    /* What libcurl would add by itself. */
    append(list, "Expect:");
    if (!accepts)
        append(list, "Accept:");
    if (!typed)
        append(list, "Content-Type:");
    if (service->egress)
        return;
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

void inject_cache_finish(struct inject_cache *cache)
{
    secret_unref(cache->secret);
    scrub_set_unref(cache->set);
    *cache = (struct inject_cache){ 0 };
}

/* SECRET is open as VALUE. */
static int use_secret(struct curl_slist **list, const struct service *service,
                      struct secret *secret, const struct scrub_source *value,
                      struct inject_cache *cache, struct inject_veil **veil, struct error *err)
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
    append_line(list, service, shown[count - 1].text, shown[count - 1].len);
    if (!cached_veil(cache, secret, veil))
        status = make_veil(cache, secret, shown, count, veil, err);
    if (encoded != NULL)
        sodium_memzero(encoded, strlen(encoded));
    free(encoded);
    return status;
}

int inject_headers(const struct service *service, const struct http_request *request,
                   const struct inject_source *source, struct curl_slist **out,
                   struct inject_veil **veil, struct error *err)
{
    struct curl_slist *list = NULL;
    struct scrub_source value;
    struct secret *secret;
    struct error why = ERROR_INIT;
    int status;

    *veil = NULL;
    append_client_headers(&list, service, request);
    if (service->inject == INJECT_NONE || service->inject == INJECT_QUERY ||
        source->vault == NULL) {
        *out = list;
        return 0;
    }
    secret = vault_get(source->vault, service->secret, &why);
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
    value.text = secret_open(secret, &value.len);
    status = use_secret(&list, service, secret, &value, source->cache, veil, err);
    secret_shut(secret);
    secret_unref(secret);
    if (status < 0) {
        inject_free(list);
        return -1;
    }
    *out = list;
    return 0;
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
