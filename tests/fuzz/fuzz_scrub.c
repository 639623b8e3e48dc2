// links: supervisor_proxy
/* A stream in pieces against a naive search on the joined stream. Input: a byte for the length of
 * the pieces, a byte for the credential, then text in which "\1" to "\7" stand for it in several
 * forms. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "proxy/scrub.h"

#define TEXT_MAX (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const keys[] = { "sk-ant-0123456789", "aaaaaaaaab", "%41&#/\\u0\"x",
                                    "++//--__==" };

static void append_form(struct buf *out, char form, const char *key)
{
    char base64[200];
    char shifted[200];

    for (const char *c = key; form < 6 && *c != '\0'; c++) {
        unsigned byte = (unsigned char)*c;

        if (form == 1)
            buf_append_char(out, *c);
        else if (form == 2)
            buf_printf(out, "%%%02x", byte);
        else if (form == 3)
            buf_printf(out, "%02X", byte);
        else if (form == 4)
            buf_printf(out, "\\u%04x", byte);
        else
            buf_printf(out, "&#%u;", byte);
    }
    if (form < 6)
        return;
    snprintf(shifted, sizeof(shifted), "%s%s", form == 6 ? "?" : "??", key);
    sodium_bin2base64(base64, sizeof(base64), (const unsigned char *)shifted, strlen(shifted),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    buf_append_str(out, base64);
}

/* Every place where the fixed text FORM stands must be hidden. */
static void check_form(const struct buf *text, const struct buf *shown, const char *form)
{
    size_t len = strlen(form);

    for (size_t at = 0; at + len <= text->len; at++)
        if (memcmp(text->data + at, form, len) == 0)
            for (size_t i = 0; i < len; i++)
                BUG_ON(shown->data[at + i] != '*');
}

static void check_forms(const struct buf *text, const struct buf *shown, const char *key)
{
    for (char form = 1; form <= 7; form++) {
        struct buf one;

        buf_init(&one, 4096);
        append_form(&one, form, key);
        if (form >= 6) {
            /* Of base64 only the digits that depend on nothing else are known. */
            if (8 * (strlen(key) + (form == 6 ? 1 : 2)) % 6 != 0)
                one.data[one.len - 1] = '\0';
            check_form(text, shown, one.data + (form == 6 ? 2 : 3));
        } else {
            check_form(text, shown, buf_text(&one));
        }
        buf_finish(&one);
    }
}

static void run(struct scrub_set *set, const struct buf *text, size_t step, struct buf *out)
{
    struct scrub scrub;

    scrub_init(&scrub, set);
    for (size_t at = 0; at < text->len; at += step) {
        size_t before = scrub.held.len + out->len;
        size_t piece = text->len - at < step ? text->len - at : step;

        scrub_feed(&scrub, text->data + at, piece, out);
        BUG_ON(scrub.held.len + out->len != before + piece);
        BUG_ON(scrub.held.len > 8 * 140);
    }
    scrub_end(&scrub, out);
    scrub_finish(&scrub);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text;
    struct buf whole;
    struct buf pieces;
    bool empty;

    if (size < 2 || size > TEXT_MAX / 200 || sodium_init() < 0)
        return 0;
    const char *key = keys[data[1] % ARRAY_LEN(keys)];
    const struct scrub_source source = { key, strlen(key) };
    struct scrub_set *set = scrub_set_new(&source, 1, &empty);
    buf_init(&text, TEXT_MAX);
    buf_init(&whole, TEXT_MAX);
    buf_init(&pieces, TEXT_MAX);
    for (size_t i = 2; i < size; i++) {
        if (data[i] >= 1 && data[i] <= 7)
            append_form(&text, (char)data[i], key);
        else
            buf_append_char(&text, (char)data[i]);
    }
    if (text.len > 0) {
        run(set, &text, text.len, &whole);
        run(set, &text, 1u + data[0] % 40, &pieces);
        BUG_ON(whole.len != text.len || pieces.len != text.len);
        BUG_ON(memcmp(whole.data, pieces.data, text.len) != 0);
        for (size_t i = 0; i < text.len; i++)
            BUG_ON(whole.data[i] != text.data[i] && whole.data[i] != '*');
        check_forms(&text, &whole, key);
    }
    buf_finish(&text);
    buf_finish(&whole);
    buf_finish(&pieces);
    scrub_set_unref(set);
    return 0;
}
