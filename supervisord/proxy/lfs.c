#include "proxy/lfs.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"

#define PLACES_MAX 4096u
#define HEADERS_MAX 16u
#define TEXT_MAX_BYTES 8192u
#define LIFE_MAX_SECONDS 3600u

/* Places
 * ------------------------------------------------------------------------------------------------
 */

static void wipe(char *text)
{
    if (text != NULL)
        sodium_memzero(text, strlen(text));
    free(text);
}

static void free_place(struct lfs_place *place)
{
    for (size_t i = 0; i < place->header_count; i++) {
        free(place->headers[i].name);
        wipe(place->headers[i].value);
    }
    free(place->headers);
    wipe(place->path);
    service_host_free(place->storage);
    free(place);
}

void lfs_places_finish(struct lfs_places *places)
{
    for (size_t i = 0; i < places->count; i++)
        free_place(places->list[i]);
    free(places->list);
    *places = (struct lfs_places){ .count = 0 };
}

const struct lfs_place *lfs_find(const struct lfs_places *places, const char *key, size_t len,
                                 uint64_t now_ms)
{
    for (size_t i = 0; len == LFS_KEY_SIZE - 1 && i < places->count; i++)
        if (sodium_memcmp(places->list[i]->key, key, len) == 0)
            return now_ms < places->list[i]->expires_ms ? places->list[i] : NULL;
    return NULL;
}

static void drop_first(struct lfs_places *places)
{
    free_place(places->list[0]);
    places->count--;
    memmove(places->list, places->list + 1, places->count * sizeof(*places->list));
}

/* Takes PLACE; the oldest goes when there are too many. */
static void add_place(struct lfs_places *places, struct lfs_place *place)
{
    if (places->count == PLACES_MAX)
        drop_first(places);
    if (places->count == places->room) {
        size_t room = places->room > 0 ? 2 * places->room : 16;
        struct lfs_place **list = mem_new_zero(room, sizeof(struct lfs_place *));

        if (places->count > 0)
            memcpy(list, places->list, places->count * sizeof(struct lfs_place *));
        free(places->list);
        places->list = list;
        places->room = room;
    }
    places->list[places->count++] = place;
}

/* The request
 * ------------------------------------------------------------------------------------------------
 */

enum lfs_operation lfs_read_request(const char *body, size_t len)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;
    const char *operation;

    if (len == 0 || json_parse(&doc, body, len, LFS_BODY_MAX, &ignored) < 0)
        return LFS_UNCLEAR;
    operation = json_string(json_get(json_root(doc), "operation"));
    if (str_equal(operation, "download"))
        return LFS_DOWNLOAD;
    return str_equal(operation, "upload") ? LFS_UPLOAD : LFS_UNCLEAR;
}

/* The answer
 * ------------------------------------------------------------------------------------------------
 */

static int bad(struct error *err, const char *why)
{
    return error_set(err, ERR_INVALID, 0, "the answer about large files %s", why);
}

/* What may stand in a line of a request. */
static bool is_printable(const char *text, char from)
{
    if (strlen(text) > TEXT_MAX_BYTES)
        return false;
    for (; *text != '\0'; text++)
        if (*text < from || *text > '~')
            return false;
    return true;
}

/* HREF's storage: https anywhere, or wherever the service itself is. An address of the service's
 * own may be private as the service's may; another one has to be public. */
static int read_href(struct lfs_place *place, const char *href, struct error *err)
{
    static const struct addr_exception none = { 0 };
    const struct service *service = place->service;
    const char *rest = strstr(href, "://");
    struct host host;
    bool https = str_starts(href, "https://");
    bool own;

    if (rest == NULL || (!https && !str_starts(href, "http://")) || !is_printable(href, '!') ||
        strchr(href, '#') != NULL)
        return bad(err, "names no place on the web");
    rest += 3;
    size_t authority = strcspn(rest, "/?");
    if (rest[authority] != '/' || !host_parse(rest, authority, https ? 443 : 80, &host))
        return bad(err, "names no host");
    own =
        host_equal(&host, &service->where) && str_equal(service->scheme, https ? "https" : "http");
    if (!own && !https)
        return bad(err, "names a place without TLS");
    place->storage =
        service_host_new(&host, https ? "https" : "http", own ? &service->exception : &none);
    place->path = mem_strdup(rest + authority);
    return 0;
}

static bool is_framing(const char *name)
{
    static const char *const names[] = { "host",    "connection", "content-length",
                                         "upgrade", "te",         "transfer-encoding",
                                         "expect",  "trailer",    "keep-alive" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static int read_headers(struct lfs_place *place, const struct json_value *headers,
                        struct error *err)
{
    size_t count = json_kind(headers) == JSON_KIND_OBJECT ? json_count(headers) : 0;

    if (count > HEADERS_MAX)
        return bad(err, "has too many headers");
    place->headers = mem_new_zero(count + 1, sizeof(*place->headers));
    for (const struct json_value *one = count > 0 ? json_first(headers) : NULL; one != NULL;
         one = json_next(one)) {
        const char *name = json_name(one);
        const char *value = json_string(one);

        if (value == NULL || name[0] == '\0' || !is_printable(name, '!') ||
            strpbrk(name, "\"(),/:;<=>?@[\\]{}") != NULL || !is_printable(value, ' '))
            return bad(err, "has a header that is none");
        if (is_framing(name))
            continue;
        place->headers[place->header_count++] =
            (struct lfs_header){ mem_strdup(name), mem_strdup(value) };
    }
    return 0;
}

static uint64_t life_seconds(const struct json_value *action)
{
    uint64_t seconds = json_u64(json_get(action, "expires_in"), LIFE_MAX_SECONDS);

    return seconds < LIFE_MAX_SECONDS ? seconds : LIFE_MAX_SECONDS;
}

static void make_key(char key[LFS_KEY_SIZE])
{
    unsigned char bytes[16];

    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2base64(key, LFS_KEY_SIZE, bytes, sizeof(bytes),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

struct object {
    const char *oid;
    uint64_t size;
};

static bool valid_oid(const char *oid)
{
    return oid != NULL && strlen(oid) == 64 && strspn(oid, "0123456789abcdef") == 64;
}

static struct lfs_place *make_place(const struct lfs_answer *answer, const struct object *object,
                                    const struct json_value *action, struct error *err)
{
    struct lfs_place *place = NEW(struct lfs_place);
    const char *href = json_string(json_get(action, "href"));

    place->service = answer->service;
    if (href == NULL)
        bad(err, "has an action without a place");
    if (href == NULL || read_href(place, href, err) < 0 ||
        read_headers(place, json_get(action, "header"), err) < 0) {
        free_place(place);
        return NULL;
    }
    make_key(place->key);
    str_copy(place->oid, sizeof(place->oid), object->oid);
    place->size = object->size;
    place->expires_ms = answer->now_ms + life_seconds(action) * 1000;
    return place;
}

/* Without a header: the client's git shows its token wherever the proxy is. */
static void write_place(struct json_writer *writer, const struct lfs_answer *answer,
                        const struct lfs_place *place, const char *name)
{
    AUTO_FREE
    char *href = mem_printf("%s%s", answer->base, place->key);

    json_write_name(writer, name);
    json_write_object(writer);
    json_member_string(writer, "href", href);
    json_member_u64(writer, "expires_in", (place->expires_ms - answer->now_ms) / 1000);
    json_write_object_end(writer);
}

static const struct {
    const char *name;
    const char *method;
    bool upload;
} actions[] = {
    { "download", "GET", false },
    { "upload", "PUT", true },
    { "verify", "POST", true },
};

static int write_actions(struct lfs_places *places, const struct lfs_answer *answer,
                         const struct object *object, const struct json_value *list,
                         struct json_writer *writer, struct error *err)
{
    json_write_name(writer, "actions");
    json_write_object(writer);
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        const struct json_value *action = json_get(list, actions[i].name);
        struct lfs_place *place;

        if (json_kind(action) != JSON_KIND_OBJECT || actions[i].upload != answer->upload)
            continue;
        place = make_place(answer, object, action, err);
        if (place == NULL)
            return -1;
        place->method = actions[i].method;
        add_place(places, place);
        write_place(writer, answer, place, actions[i].name);
    }
    json_write_object_end(writer);
    return 0;
}

static void write_error(struct json_writer *writer, const struct json_value *error)
{
    json_write_name(writer, "error");
    json_write_object(writer);
    json_member_u64(writer, "code", json_u64(json_get(error, "code"), 500));
    json_member_string(writer, "message", json_string(json_get(error, "message")));
    json_write_object_end(writer);
}

static int write_object(struct lfs_places *places, const struct lfs_answer *answer,
                        const struct json_value *from, struct json_writer *writer,
                        struct error *err)
{
    const struct object object = { json_string(json_get(from, "oid")),
                                   json_u64(json_get(from, "size"), 0) };
    const struct json_value *list = json_get(from, "actions");
    const struct json_value *error = json_get(from, "error");

    if (!valid_oid(object.oid))
        return bad(err, "names no object");
    json_write_object(writer);
    json_member_string(writer, "oid", object.oid);
    json_member_u64(writer, "size", object.size);
    /* So that nobody looks for a credential of another kind. */
    json_member_bool(writer, "authenticated", true);
    if (json_kind(error) == JSON_KIND_OBJECT)
        write_error(writer, error);
    else if (json_kind(list) == JSON_KIND_OBJECT &&
             write_actions(places, answer, &object, list, writer, err) < 0)
        return -1;
    json_write_object_end(writer);
    return 0;
}

int lfs_rewrite(struct lfs_places *places, const struct lfs_answer *answer, const char *body,
                size_t len, struct buf *out, struct error *err)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct error why = ERROR_INIT;
    struct json_writer writer;
    const struct json_value *objects;
    const char *transfer;

    if (len == 0 || json_parse(&doc, body, len, LFS_BODY_MAX, &why) < 0)
        return bad(err, "is no JSON");
    objects = json_get(json_root(doc), "objects");
    transfer = json_string(json_get(json_root(doc), "transfer"));
    if (transfer != NULL && !str_equal(transfer, "basic"))
        return bad(err, "chooses a transfer that isn't \"basic\"");
    if (json_kind(objects) != JSON_KIND_ARRAY)
        return bad(err, "has no objects");
    json_write_init(&writer, out);
    json_write_object(&writer);
    json_member_string(&writer, "transfer", "basic");
    json_write_name(&writer, "objects");
    json_write_array(&writer);
    for (const struct json_value *one = json_first(objects); one != NULL; one = json_next(one))
        if (write_object(places, answer, one, &writer, err) < 0)
            return -1;
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    return out->failed ? bad(err, "is too large") : 0;
}
