#include "common/id.h"

#include <string.h>

#include "common/str.h"
#include "harness/test.h"

#define NOW UINT64_C(1795964645123)

TEST(an_id_is_a_prefix_and_26_characters)
{
    struct id_source source = { 0 };
    struct id id;

    id_make(&source, ID_KIND_RUN, NOW, &id);
    CHECK_EQ(strlen(id.text), 30);
    CHECK(str_starts(id.text, "run_"));
    CHECK(id_parse(ID_KIND_RUN, id.text, NULL));
    id_make(&source, ID_KIND_SESSION, NOW, &id);
    CHECK(str_starts(id.text, "ses_"));
    id_make(&source, ID_KIND_REQUEST, NOW, &id);
    CHECK(str_starts(id.text, "req_"));
}

TEST(an_id_tells_its_time)
{
    struct id_source source = { 0 };
    struct id id;

    id_make(&source, ID_KIND_RUN, NOW, &id);
    CHECK_EQ(id_time_ms(&id), NOW);
    id_make(&source, ID_KIND_RUN, (UINT64_C(1) << 48) - 1, &id);
    CHECK_EQ(id_time_ms(&id), (UINT64_C(1) << 48) - 1);
    CHECK(str_starts(id.text, "run_7zzzzzzzzz"));
}

TEST(the_encoding_is_that_of_a_ulid)
{
    /* The last random bytes are counted up by one. */
    struct id_source source = { .last_ms = UINT64_C(1469922850259),
                                .last_random = { 0 },
                                .used = true };
    struct id id;

    id_make(&source, ID_KIND_RUN, 0, &id);
    CHECK_STR(id.text, "run_01arz3ndek0000000000000001");
    memset(source.last_random, 0xff, sizeof(source.last_random));
    source.last_random[9] = 0xfe;
    id_make(&source, ID_KIND_RUN, 0, &id);
    CHECK_STR(id.text, "run_01arz3ndekzzzzzzzzzzzzzzzz");
}

TEST(ids_rise_within_a_millisecond_and_when_the_clock_steps_back)
{
    struct id_source source = { 0 };
    struct id last;
    struct id next;

    id_make(&source, ID_KIND_RUN, NOW, &last);
    for (uint64_t i = 0; i < 10000; i++) {
        id_make(&source, ID_KIND_RUN, NOW - i % 5, &next);
        CHECK(strcmp(next.text, last.text) > 0);
        last = next;
    }
    id_make(&source, ID_KIND_RUN, NOW + 1, &next);
    CHECK(strcmp(next.text, last.text) > 0);
    CHECK_EQ(id_time_ms(&next), NOW + 1);
}

TEST(a_random_part_that_is_used_up_borrows_the_next_millisecond)
{
    struct id_source source = { .last_ms = NOW, .used = true };
    struct id id;

    memset(source.last_random, 0xff, sizeof(source.last_random));
    id_make(&source, ID_KIND_RUN, NOW, &id);
    CHECK_EQ(id_time_ms(&id), NOW + 1);
}

TEST(ids_of_two_sources_differ)
{
    struct id_source one = { 0 };
    struct id_source other = { 0 };
    struct id a;
    struct id b;

    id_make(&one, ID_KIND_RUN, NOW, &a);
    id_make(&other, ID_KIND_RUN, NOW, &b);
    CHECK(strcmp(a.text, b.text) != 0);
}

TEST(only_exact_ids_are_parsed)
{
    struct id id;

    CHECK(id_parse(ID_KIND_RUN, "run_01arz3ndektsv4rrffq69g5fav", &id));
    CHECK_STR(id.text, "run_01arz3ndektsv4rrffq69g5fav");
    CHECK(!id_parse(ID_KIND_SESSION, "run_01arz3ndektsv4rrffq69g5fav", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "run_01ARZ3NDEKTSV4RRFFQ69G5FAV", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "run_01arz3ndektsv4rrffq69g5fa", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "run_01arz3ndektsv4rrffq69g5favv", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "run_81arz3ndektsv4rrffq69g5fav", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "run_01arz3ndektsv4rrffq69g5fai", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "run_01arz3ndektsv4rrffq69g5fa/", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "../../../../etc/passwd00000000", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "run_", NULL));
    CHECK(!id_parse(ID_KIND_RUN, "", NULL));
    CHECK(!id_parse(ID_KIND_RUN, NULL, NULL));
}

TEST(random_bytes_fill_all_of_their_room)
{
    unsigned char bytes[300] = { 0 };
    size_t zeros = 0;

    id_random(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        zeros += bytes[i] == 0;
    CHECK(zeros < 30);
    CHECK(memcmp(bytes, bytes + 150, 150) != 0);
}
