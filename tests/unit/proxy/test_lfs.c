#include "proxy/lfs.h"

#include <string.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "harness/test.h"

#define OID "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define OBJECT(actions) "{\"objects\":[{\"oid\":\"" OID "\",\"size\":5,\"actions\":{" actions "}}]}"

static struct services services;
static struct lfs_places places;
static struct buf out;

static void begin(void)
{
    static const struct proxy_service list[] = {
        { .name = "git", .target = "http://127.0.0.1:8080", .inject_header = "" }
    };
    struct error err = ERROR_INIT;

    CHECK_EQ(services_init(&services, list, 1, &err), 0);
    buf_init(&out, LFS_BODY_MAX);
}

static void finish(void)
{
    lfs_places_finish(&places);
    services_finish(&services);
    buf_finish(&out);
}

static int rewrite(const char *body, bool upload)
{
    const struct lfs_answer answer = {
        .service = services.items, .base = "http://proxy/t/", .upload = upload, .now_ms = 1000
    };
    struct error err = ERROR_INIT;

    buf_clear(&out);
    return lfs_rewrite(&places, &answer, body, strlen(body), &out, &err);
}

TEST(an_answer_keeps_nothing_of_the_storage)
{
    const struct lfs_place *place;

    begin();
    CHECK_EQ(
        rewrite(OBJECT("\"download\":{\"href\":\"https://s.example/x?sig=SECRET\",\"header\":"
                       "{\"Authorization\":\"SECRET\",\"Host\":\"y\"},\"expires_in\":60,"
                       "\"note\":\"SECRET\"},\"upload\":{\"href\":\"https://s.example/SECRET\"}"),
                false),
        0);
    CHECK(strstr(buf_text(&out), "SECRET") == NULL && strstr(buf_text(&out), "s.example") == NULL);
    CHECK_HAS(buf_text(&out), "\"download\":{\"href\":\"http://proxy/t/");
    CHECK_HAS(buf_text(&out), "\"expires_in\":60");
    CHECK_EQ(places.count, 1u);
    place = places.list[0];
    CHECK_STR(place->path, "/x?sig=SECRET");
    CHECK_STR(place->storage->host, "s.example");
    CHECK_EQ(place->header_count, 1u); /* what frames a request is the proxy's own */
    CHECK(lfs_find(&places, place->key, LFS_KEY_SIZE - 1, 60999) == place);
    CHECK(lfs_find(&places, place->key, LFS_KEY_SIZE - 1, 61000) == NULL);
    CHECK(lfs_find(&places, place->key, LFS_KEY_SIZE - 2, 1000) == NULL);
    CHECK(lfs_find(&places, "AAAAAAAAAAAAAAAAAAAAAA", LFS_KEY_SIZE - 1, 1000) == NULL);
    finish();
}

TEST(only_the_service_itself_may_be_asked_in_the_clear_or_at_a_private_address)
{
    begin();
    CHECK_EQ(rewrite(OBJECT("\"download\":{\"href\":\"http://127.0.0.1:8080/o\"}"), false), 0);
    CHECK_EQ(places.list[0]->storage->exception.family, AF_INET);
    CHECK_EQ(rewrite(OBJECT("\"download\":{\"href\":\"https://127.0.0.1:8081/o\"}"), false), 0);
    CHECK_EQ(places.list[1]->storage->exception.family, 0);
    CHECK_EQ(rewrite(OBJECT("\"download\":{\"href\":\"http://127.0.0.1:8081/o\"}"), false), -1);
    CHECK_EQ(rewrite(OBJECT("\"download\":{\"href\":\"http://s.example/o\"}"), false), -1);
    finish();
}

TEST(what_cannot_be_used_is_refused_as_a_whole)
{
    static const char *const rows[] = {
        "",
        "[]",
        "{}",
        "{\"objects\":{}}",
        "{\"transfer\":\"ssh\",\"objects\":[]}",
        "{\"objects\":[{\"oid\":\"../x\",\"size\":1}]}",
        "{\"objects\":[7]}",
        OBJECT("\"download\":{}"),
        OBJECT("\"download\":{\"href\":\"file:///etc/passwd\"}"),
        OBJECT("\"download\":{\"href\":\"https:///x\"}"),
        OBJECT("\"download\":{\"href\":\"https://s.example\"}"),
        OBJECT("\"download\":{\"href\":\"https://a@s.example/x\"}"),
        OBJECT("\"download\":{\"href\":\"https://0x7f.1/x\"}"),
        OBJECT("\"download\":{\"href\":\"https://s.example/x#y\"}"),
        OBJECT("\"download\":{\"href\":\"https://s.example/x\\r\\nA: b\"}"),
        OBJECT(
            "\"download\":{\"href\":\"https://s.example/x\",\"header\":{\"A\":\"b\\r\\nC: d\"}}"),
        OBJECT("\"download\":{\"href\":\"https://s.example/x\",\"header\":{\"A: b\":\"c\"}}"),
        OBJECT("\"download\":{\"href\":\"https://s.example/x\",\"header\":{\"A\":7}}"),
    };

    begin();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rewrite(rows[i], false) != -1)
            CHECK_FAILED(rows[i]);
    CHECK_EQ(rewrite("{\"objects\":[]}", true), 0);
    finish();
}

TEST(the_oldest_places_go_when_there_are_too_many)
{
    char first[LFS_KEY_SIZE];

    begin();
    for (int i = 0; i < 5000; i++) {
        CHECK_EQ(rewrite(OBJECT("\"upload\":{\"href\":\"https://s.example/x\"}"), true), 0);
        if (i == 0)
            memcpy(first, places.list[0]->key, sizeof(first));
    }
    CHECK_EQ(places.count, 4096u);
    CHECK(lfs_find(&places, first, LFS_KEY_SIZE - 1, 1000) == NULL);
    finish();
}

TEST(a_batch_downloads_or_uploads)
{
    static const struct {
        const char *body;
        enum lfs_operation operation;
    } rows[] = {
        { "{\"operation\":\"download\",\"objects\":[]}", LFS_DOWNLOAD },
        { "{\"operation\":\"upload\"}", LFS_UPLOAD },
        { "{\"operation\":\"download\",\"operation\":\"upload\"}", LFS_UNCLEAR },
        { "{\"operation\":\"delete\"}", LFS_UNCLEAR },
        { "{\"operation\":[\"upload\"]}", LFS_UNCLEAR },
        { "{}", LFS_UNCLEAR },
        { "", LFS_UNCLEAR },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_EQ(lfs_read_request(rows[i].body, strlen(rows[i].body)), rows[i].operation);
}
