#include "proxy/scrub.h"

#include <sodium.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"

#define KEY "sk-ant/\"&%1-ZzKp+9_q"
#define KEY_LEN (sizeof(KEY) - 1)

static struct scrub_set *set_of(const char *text)
{
    struct scrub_source source = { text, strlen(text) };
    bool empty = true;
    struct scrub_set *set;

    CHECK(sodium_init() >= 0);
    set = scrub_set_new(&source, 1, &empty);
    CHECK(!empty && set != NULL);
    return set;
}

/* TEXT through a stream in pieces of STEP; freed by the caller. */
static char *through(struct scrub_set *set, const char *text, size_t len, size_t step)
{
    struct scrub scrub;
    struct buf out;

    buf_init(&out, 1u << 20);
    scrub_init(&scrub, set);
    for (size_t at = 0; at < len; at += step)
        scrub_feed(&scrub, text + at, len - at < step ? len - at : step, &out);
    scrub_end(&scrub, &out);
    scrub_finish(&scrub);
    CHECK_EQ(out.len, len);
    return buf_steal(&out);
}

/* Hidden between an x on either side, wherever it is cut, with nothing else changed. */
static void check_hidden(struct scrub_set *set, const char *form)
{
    size_t len = strlen(form);
    AUTO_FREE
    char *text = mem_printf("x%sx", form);
    AUTO_FREE
    char *want = mem_strdup(text);
    AUTO_FREE
    char *header = mem_strdup(text);

    memset(want + 1, '*', len);
    for (size_t step = 1; step <= len + 2; step++) {
        AUTO_FREE
        char *shown = through(set, text, len + 2, step);

        if (!str_equal(shown, want))
            CHECK_STR(form, shown);
    }
    CHECK_EQ(scrub_text(set, header, len + 2), 1);
    CHECK_STR(header, want);
}

struct form {
    const char *before;
    const char *digits; /* "x", "X": two hex digits; "d", "03d": decimal */
    const char *after;
};

static char *encode(const struct form *form)
{
    struct buf out;

    buf_init(&out, 4096);
    for (size_t i = 0; i < KEY_LEN; i++) {
        unsigned byte = (unsigned char)KEY[i];

        buf_append_str(&out, form->before);
        if (str_equal(form->digits, "x"))
            buf_printf(&out, "%02x", byte);
        else if (str_equal(form->digits, "X"))
            buf_printf(&out, "%02X", byte);
        else if (str_equal(form->digits, "03d"))
            buf_printf(&out, "%03u", byte);
        else
            buf_printf(&out, "%u", byte);
        buf_append_str(&out, form->after);
    }
    return buf_steal(&out);
}

TEST(every_way_to_write_a_credential_is_hidden_wherever_it_is_cut)
{
    static const struct form forms[] = {
        { "%", "x", "" },     { "%", "X", "" },     { "", "x", "" },     { "", "X", "" },
        { "\\u00", "x", "" }, { "\\u00", "X", "" }, { "\\x", "x", "" },  { "&#", "d", ";" },
        { "&#", "03d", ";" }, { "&#x", "x", ";" },  { "&#X", "X", ";" }, { "&#x0", "x", ";" },
    };
    struct scrub_set *set = set_of(KEY);

    check_hidden(set, KEY);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        AUTO_FREE
        char *form = encode(&forms[i]);

        check_hidden(set, form);
    }
    /* As JSON, encodeURIComponent and HTML have it, and all mixed. */
    check_hidden(set, "sk-ant\\/\\\"&%1-ZzKp+9_q");
    check_hidden(set, "sk-ant%2F%22%26%251-ZzKp%2B9_q");
    check_hidden(set, "sk-ant/&quot;&amp;%1-ZzKp+9_q");
    check_hidden(set, "s%6B-\\u0061nt%2f\\\"&amp;%251&#45;Z\\x7aKp+9_q");
    scrub_set_unref(set);
}

TEST(base64_is_hidden_at_every_alignment_and_in_both_alphabets)
{
    struct scrub_set *set = set_of(KEY);
    static const int variants[] = { sodium_base64_VARIANT_ORIGINAL, sodium_base64_VARIANT_URLSAFE };

    for (size_t v = 0; v < 2; v++) {
        for (size_t before = 0; before < 7; before++) {
            for (size_t after = 0; after < 4; after++) {
                AUTO_FREE
                char *plain =
                    mem_printf("%.*s%s%.*s", (int)before, "QwErTyU", KEY, (int)after, "PoIu");
                char encoded[200];

                sodium_bin2base64(encoded, sizeof(encoded), (const unsigned char *)plain,
                                  strlen(plain), variants[v]);
                size_t from = (8 * before + 5) / 6;
                size_t to = 8 * (before + KEY_LEN) / 6;
                for (size_t step = 1; step < 30; step++) {
                    AUTO_FREE
                    char *shown = through(set, encoded, strlen(encoded), step);

                    CHECK_EQ(strspn(shown + from, "*"), to - from);
                    CHECK(memcmp(shown, encoded, from) == 0);
                    CHECK_STR(shown + to, encoded + to);
                }
            }
        }
    }
    scrub_set_unref(set);
}

TEST(overlapping_credentials_are_all_hidden)
{
    const struct scrub_source sources[] = { { "abcabcabc", 9 }, { "cabcxyzw", 8 } };
    bool empty;
    struct scrub_set *set;

    CHECK(sodium_init() >= 0);
    set = scrub_set_new(sources, 2, &empty);
    for (size_t step = 1; step < 24; step++) {
        AUTO_FREE
        char *shown = through(set, "-abcabcabcabcxyzw-abcab", 23, step);

        CHECK_STR(shown, "-****************-abcab");
    }
    scrub_set_unref(set);
}

TEST(only_the_start_of_a_credential_is_held_back)
{
    struct scrub_set *set = set_of("sk-ant-0123456789");
    static const char *const events[] = { "data: 1\n\n", "data: {\"a\":\"b\"}\n\n", "\n", "}" };
    struct scrub scrub;
    struct buf out;

    buf_init(&out, 4096);
    scrub_init(&scrub, set);
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        buf_clear(&out);
        scrub_feed(&scrub, events[i], strlen(events[i]), &out);
        CHECK_STR(buf_text(&out), events[i]);
    }
    buf_clear(&out);
    scrub_feed(&scrub, "a sk-ant-0", 10, &out);
    CHECK_STR(buf_text(&out), "a ");
    scrub_feed(&scrub, "x", 1, &out);
    CHECK_STR(buf_text(&out), "a sk-ant-0x");
    buf_clear(&out);
    scrub_feed(&scrub, "sk-ant-012345678", 16, &out);
    scrub_end(&scrub, &out);
    CHECK_STR(buf_text(&out), "sk-ant-012345678");
    CHECK_EQ(scrub.found, 0);
    scrub_finish(&scrub);
    scrub_set_unref(set);
    buf_finish(&out);
}

TEST(many_decoys_do_not_end_the_search)
{
    struct scrub_set *set = set_of("sk-ant-0123456789");
    struct buf text;

    buf_init(&text, 1u << 20);
    for (unsigned i = 0; i < 10000; i++)
        buf_printf(&text, "sk-ant-01234567%02u ", i % 89);
    buf_append_str(&text, "sk-ant-0123456789");
    AUTO_FREE
    char *shown = through(set, text.data, text.len, 1000);
    CHECK_HAS(shown, "sk-ant-0123456788 ");
    CHECK_STR(shown + text.len - 17, "*****************");
    buf_finish(&text);
    scrub_set_unref(set);
}

TEST(what_is_too_short_is_not_looked_for)
{
    const struct scrub_source source = { "short", 5 };
    bool empty = false;

    CHECK(scrub_set_new(&source, 1, &empty) == NULL);
    CHECK(empty);
}
