/* scrub.c: candidates are found by a hash of four bytes and then compared in full, by a small
 * matcher that follows every way to write each byte. */
#include "proxy/scrub.h"

#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "vault/vault.h"

#define PATTERNS_PER_SOURCE 5u
#define SOURCES_MAX 4u
#define FILTER_BITS 16u
#define TABLE_SIZE 8192u /* of a power of two; never more than half full */
#define POSITIONS_MAX 8u
#define ESCAPE_MAX 8u /* the longest way to write one byte */
#define PREFIX 4u

enum kind { KIND_TEXT, KIND_HEX, KIND_BASE64 };

struct pattern {
    size_t at; /* in the guarded bytes */
    size_t len;
    enum kind kind;
};

struct scrub_set {
    unsigned references;
    struct secret *bytes;
    struct pattern patterns[SOURCES_MAX * PATTERNS_PER_SOURCE];
    size_t count;
    uint32_t factor;
    uint32_t fill;
    bool starts[256]; /* a pattern may begin with this byte */
    uint32_t pairs[(1u << 16) /
                   32]; /* bits: two bytes next to each other among a pattern's first four */
    uint8_t filter[(1u << FILTER_BITS) / 8];
    uint32_t table[TABLE_SIZE]; /* hashes of the first four bytes; 0 is free */
};

/* Ways to write a byte
 * -------------------------------------------------------------------------------------- */

/* The outcome of reading an escape: its size, or one of these. */
enum { ESCAPE_NONE = -1, ESCAPE_CUT = 0 };

/* HEAD, then two hex digits. */
static int read_hex(const char *text, size_t len, const char *head, unsigned char *byte)
{
    size_t head_len = strlen(head);

    for (size_t i = 0; i < head_len + 2; i++) {
        if (i == len)
            return ESCAPE_CUT;
        if (i < head_len ? text[i] != head[i] : str_hex_value(text[i]) < 0)
            return ESCAPE_NONE;
    }
    *byte = (unsigned char)(str_hex_value(text[head_len]) << 4 | str_hex_value(text[head_len + 1]));
    return (int)head_len + 2;
}

static int read_backslash(const char *text, size_t len, unsigned char *byte)
{
    if (len == 1)
        return ESCAPE_CUT;
    if (text[1] == 'u')
        return read_hex(text, len, "\\u00", byte);
    if (text[1] == 'x')
        return read_hex(text, len, "\\x", byte);
    if (strchr("/\"'\\", text[1]) == NULL || text[1] == '\0')
        return ESCAPE_NONE;
    *byte = (unsigned char)text[1];
    return 2;
}

static const struct entity {
    const char *name;
    char byte;
} entities[] = {
    { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' },
};

static int read_number(const char *text, size_t len, unsigned char *byte)
{
    bool hex = len > 2 && (text[2] == 'x' || text[2] == 'X');
    size_t at = hex ? 3 : 2;
    unsigned value = 0;

    for (; at < len && at < ESCAPE_MAX; at++) {
        int digit = str_hex_value(text[at]);

        if (text[at] == ';' && value > 0 && value < 256) {
            *byte = (unsigned char)value;
            return (int)at + 1;
        }
        if (digit < 0 || (!hex && digit > 9))
            return ESCAPE_NONE;
        value = value * (hex ? 16 : 10) + (unsigned)digit;
    }
    return at == len && at < ESCAPE_MAX ? ESCAPE_CUT : ESCAPE_NONE;
}

static int read_entity(const char *text, size_t len, unsigned char *byte)
{
    if (len == 1)
        return ESCAPE_CUT;
    if (text[1] == '#')
        return read_number(text, len, byte);
    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        size_t name_len = strlen(entities[i].name);
        size_t same = len < name_len ? len : name_len;

        if (memcmp(text, entities[i].name, same) != 0)
            continue;
        *byte = (unsigned char)entities[i].byte;
        return len < name_len ? ESCAPE_CUT : (int)name_len;
    }
    return ESCAPE_NONE;
}

static int read_escape(const char *text, size_t len, unsigned char *byte)
{
    switch (text[0]) {
    case '%':
        return read_hex(text, len, "%", byte);
    case '\\':
        return read_backslash(text, len, byte);
    case '&':
        return read_entity(text, len, byte);
    default:
        return ESCAPE_NONE;
    }
}

static char fold(enum kind kind, char c)
{
    if (kind == KIND_HEX && c >= 'A' && c <= 'F')
        return (char)(c - 'A' + 'a');
    if (kind == KIND_BASE64 && (c == '-' || c == '_'))
        return c == '-' ? '+' : '/';
    return c;
}

/* Matching
 * ------------------------------------------------------------------------------------------ */

enum match { MATCH_NO, MATCH_PARTIAL, MATCH_FULL };

struct positions {
    size_t at[POSITIONS_MAX];
    size_t count;
};

static void positions_add(struct positions *positions, size_t at)
{
    for (size_t i = 0; i < positions->count; i++)
        if (positions->at[i] == at)
            return;
    if (positions->count < POSITIONS_MAX)
        positions->at[positions->count++] = at;
}

/* From all the places where the text may be after some bytes of the pattern, to those after the
 * byte WANT. True when the text ended before it was clear. */
static bool step(enum kind kind, char want, const char *text, size_t len,
                 const struct positions *from, struct positions *to)
{
    bool cut = false;

    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        size_t at = from->at[i];
        unsigned char byte;
        int size;

        if (at == len) {
            cut = true;
            continue;
        }
        if (fold(kind, text[at]) == want)
            positions_add(to, at + 1);
        size = read_escape(text + at, len - at, &byte);
        if (size == ESCAPE_CUT)
            cut = true;
        else if (size > 0 && fold(kind, (char)byte) == want)
            positions_add(to, at + (size_t)size);
    }
    return cut;
}

static enum match match_one(const struct pattern *pattern, const char *bytes, const char *text,
                            size_t len, size_t *end)
{
    struct positions now = { .at = { 0 }, .count = 1 };
    bool cut = false;

    for (size_t i = 0; i < pattern->len; i++) {
        struct positions next;

        cut |= step(pattern->kind, bytes[pattern->at + i], text, len, &now, &next);
        if (next.count == 0)
            return cut ? MATCH_PARTIAL : MATCH_NO;
        now = next;
    }
    *end = now.at[0];
    for (size_t i = 1; i < now.count; i++)
        if (now.at[i] > *end)
            *end = now.at[i];
    return MATCH_FULL;
}

struct found {
    size_t end; /* 0: none matches in full */
    bool partial;
};

static struct found match_all(const struct scrub_set *set, const char *bytes, const char *text,
                              size_t len)
{
    struct found found = { 0 };

    for (size_t i = 0; i < set->count; i++) {
        size_t end = 0;
        enum match match = match_one(&set->patterns[i], bytes, text, len, &end);

        found.partial |= match == MATCH_PARTIAL;
        if (match == MATCH_FULL && end > found.end)
            found.end = end;
    }
    return found;
}

/* The filter
 * ---------------------------------------------------------------------------------------- */

static uint32_t hash(const struct scrub_set *set, const char *text)
{
    uint32_t word;

    memcpy(&word, text, sizeof(word));
    word *= set->factor;
    return word != 0 ? word : 1;
}

static unsigned pair_at(const char *text)
{
    uint16_t pair;

    memcpy(&pair, text, sizeof(pair));
    return pair;
}

static void pair_add(struct scrub_set *set, const char *text)
{
    unsigned pair = pair_at(text);

    set->pairs[pair / 32] |= 1u << pair % 32;
}

static bool pair_has(const struct scrub_set *set, const char *text)
{
    unsigned pair = pair_at(text);

    return (set->pairs[pair / 32] >> pair % 32 & 1) != 0;
}

static bool filter_has(const struct scrub_set *set, const char *text)
{
    uint32_t value = hash(set, text);
    uint32_t bit = value >> (32 - FILTER_BITS);

    if ((set->filter[bit >> 3] & 1u << (bit & 7)) == 0)
        return false;
    for (uint32_t slot = bit % TABLE_SIZE; set->table[slot] != 0; slot = (slot + 1) % TABLE_SIZE)
        if (set->table[slot] == value)
            return true;
    return false;
}

static void filter_add(struct scrub_set *set, const char *text)
{
    uint32_t value = hash(set, text);
    uint32_t bit = value >> (32 - FILTER_BITS);
    uint32_t slot = bit % TABLE_SIZE;

    if (filter_has(set, text))
        return;
    BUG_ON(++set->fill > TABLE_SIZE / 2);
    set->filter[bit >> 3] |= (uint8_t)(1u << (bit & 7));
    while (set->table[slot] != 0)
        slot = (slot + 1) % TABLE_SIZE;
    set->table[slot] = value;
}

/* The starts of a pattern in every way of writing it, byte after byte. */
struct prefix {
    struct scrub_set *set;
    enum kind kind;
    const char *text; /* of the pattern; at least four bytes */
    char bytes[PREFIX + ESCAPE_MAX];
};

static void prefix_add(struct prefix *prefix, size_t len, size_t index);

static void prefix_try(struct prefix *prefix, size_t len, size_t index, const char *way)
{
    size_t way_len = strlen(way);

    memcpy(prefix->bytes + len, way, way_len);
    prefix_add(prefix, len + way_len, index + 1);
}

/* The forms of one concrete byte C. */
static void prefix_byte(struct prefix *prefix, size_t len, size_t index, char c)
{
    static const char lower[] = "0123456789abcdef";
    static const char upper[] = "0123456789ABCDEF";
    unsigned high = (unsigned char)c >> 4;
    unsigned low = (unsigned char)c & 15;
    const char *const first[] = { lower, upper };
    char way[ESCAPE_MAX + 1];

    prefix_try(prefix, len, index, (const char[]){ c, '\0' });
    for (size_t i = 0; i < (lower[high] != upper[high] ? 2u : 1u); i++) {
        for (size_t k = 0; k < (lower[low] != upper[low] ? 2u : 1u); k++) {
            snprintf(way, sizeof(way), "%%%c%c", first[i][high], first[k][low]);
            prefix_try(prefix, len, index, way);
            snprintf(way, sizeof(way), "\\x%c%c", first[i][high], first[k][low]);
            prefix_try(prefix, len, index, way);
            snprintf(way, sizeof(way), "&#x%c%c;", first[i][high], first[k][low]);
            prefix_try(prefix, len, index, way);
            snprintf(way, sizeof(way), "&#X%c%c;", first[i][high], first[k][low]);
            prefix_try(prefix, len, index, way);
        }
    }
    prefix_try(prefix, len, index, "\\u00");
    snprintf(way, sizeof(way), "&#%u;", (unsigned)(unsigned char)c);
    prefix_try(prefix, len, index, way);
    /* Leading zeros. */
    for (unsigned digit = 0; digit < 10; digit++) {
        snprintf(way, sizeof(way), "&#0%u", digit);
        prefix_try(prefix, len, index, way);
    }
    prefix_try(prefix, len, index, "&#x0");
    prefix_try(prefix, len, index, "&#X0");
    if (strchr("/\"'\\", c) != NULL)
        prefix_try(prefix, len, index, (const char[]){ '\\', c, '\0' });
    for (size_t i = 0; i < ARRAY_LEN(entities); i++)
        if (entities[i].byte == c)
            prefix_try(prefix, len, index, entities[i].name);
}

/* Recursion of at most four levels: each adds a byte. */
static void prefix_add(struct prefix *prefix, size_t len, size_t index)
{
    char c = prefix->text[index];

    if (len >= PREFIX) {
        filter_add(prefix->set, prefix->bytes);
        for (size_t i = 0; i + 1 < PREFIX; i++)
            pair_add(prefix->set, prefix->bytes + i);
        prefix->set->starts[(unsigned char)prefix->bytes[0]] = true;
        return;
    }
    prefix_byte(prefix, len, index, c);
    if (prefix->kind == KIND_HEX && c >= 'a' && c <= 'f')
        prefix_byte(prefix, len, index, (char)(c - 'a' + 'A'));
    if (prefix->kind == KIND_BASE64 && (c == '+' || c == '/'))
        prefix_byte(prefix, len, index, c == '+' ? '-' : '_');
}

/* Sets
 * ---------------------------------------------------------------------------------------------- */

static void add_pattern(struct scrub_set *set, struct buf *bytes, enum kind kind, const char *text,
                        size_t len)
{
    if (len < SCRUB_SHORTEST)
        return;
    set->patterns[set->count++] = (struct pattern){ bytes->len, len, kind };
    buf_append(bytes, text, len);
}

/* The digits that depend on TEXT alone, with SHIFT bytes of something else in front of it. */
static void add_base64(struct scrub_set *set, struct buf *bytes, const struct scrub_source *source,
                       size_t shift)
{
    size_t plain_len = source->len + shift;
    size_t size = sodium_base64_encoded_len(plain_len, sodium_base64_VARIANT_ORIGINAL);
    char *plain = mem_new_zero(1, plain_len);
    char *encoded = mem_new_zero(1, size);
    size_t from = (8 * shift + 5) / 6;
    size_t to = 8 * plain_len / 6;

    memcpy(plain + shift, source->text, source->len);
    sodium_bin2base64(encoded, size, (const unsigned char *)plain, plain_len,
                      sodium_base64_VARIANT_ORIGINAL);
    add_pattern(set, bytes, KIND_BASE64, encoded + from, to - from);
    sodium_memzero(plain, plain_len);
    sodium_memzero(encoded, size);
    free(plain);
    free(encoded);
}

static void add_hex(struct scrub_set *set, struct buf *bytes, const struct scrub_source *source)
{
    char *hex = mem_new_zero(1, 2 * source->len + 1);

    str_hex(hex, source->text, source->len);
    add_pattern(set, bytes, KIND_HEX, hex, 2 * source->len);
    sodium_memzero(hex, 2 * source->len);
    free(hex);
}

static void add_prefixes(struct scrub_set *set, const char *bytes)
{
    for (size_t i = 0; i < set->count; i++) {
        struct prefix prefix = { .set = set,
                                 .kind = set->patterns[i].kind,
                                 .text = bytes + set->patterns[i].at };

        prefix_add(&prefix, 0, 0);
        sodium_memzero(&prefix, sizeof(prefix));
    }
}

struct scrub_set *scrub_set_new(const struct scrub_source *sources, size_t count, bool *empty)
{
    struct scrub_set *set = NEW(struct scrub_set);
    struct buf bytes;
    size_t most = 64;

    BUG_ON(count > SOURCES_MAX);
    set->references = 1;
    randombytes_buf(&set->factor, sizeof(set->factor));
    set->factor |= 1;
    for (size_t i = 0; i < count; i++)
        most += 8 * sources[i].len + 64;
    buf_init(&bytes, most);
    /* All at once, so that growing leaves no copies behind. */
    BUG_ON(buf_reserve(&bytes, most) == NULL);
    for (size_t i = 0; i < count; i++) {
        if (sources[i].len < SCRUB_SHORTEST)
            continue;
        add_pattern(set, &bytes, KIND_TEXT, sources[i].text, sources[i].len);
        add_hex(set, &bytes, &sources[i]);
        for (size_t shift = 0; shift < 3; shift++)
            add_base64(set, &bytes, &sources[i], shift);
    }
    BUG_ON(bytes.failed);
    *empty = set->count == 0;
    if (set->count > 0) {
        add_prefixes(set, bytes.data);
        set->bytes = bytes.len <= SECRET_MAX ? secret_new(bytes.data, bytes.len) : NULL;
    }
    sodium_memzero(bytes.data, bytes.cap);
    buf_finish(&bytes);
    if (set->bytes == NULL) {
        free(set);
        return NULL;
    }
    return set;
}

struct scrub_set *scrub_set_ref(struct scrub_set *set)
{
    set->references++;
    return set;
}

void scrub_set_unref(struct scrub_set *set)
{
    if (set == NULL || --set->references > 0)
        return;
    secret_unref(set->bytes);
    free(set);
}

/* Searching
 * ----------------------------------------------------------------------------------------- */

struct search {
    struct scrub_set *set;
    const char *bytes; /* NULL until something looked like a credential */
    char *data;
    size_t len;
    size_t masked_until;
    size_t found;
    bool whole; /* nothing follows, so what is cut at the end is none */
};

/* The next place from AT on where something may begin; LEN when there is none. */
static size_t next_candidate(const struct scrub_set *set, const char *data, size_t len, size_t at)
{
    for (; at < len; at++) {
        /* A pattern that begins here or at one of the next two bytes has the two behind them among
         * its first four: most text is passed over in steps of three. */
        while (len - at >= PREFIX + 2 && !pair_has(set, data + at + 2))
            at += 3;
        if (at == len)
            break;
        if (!set->starts[(unsigned char)data[at]])
            continue;
        if (len - at < PREFIX || filter_has(set, data + at))
            break;
    }
    return at;
}

/* Up to END, what is hidden in any case. */
static void mask(struct search *search, size_t from, size_t end)
{
    size_t until = search->masked_until < end ? search->masked_until : end;

    if (until > from)
        memset(search->data + from, '*', until - from);
}

/* Everything from *STOP on may still become part of a credential. */
static void search_run(struct search *search, size_t *stop)
{
    const size_t least = search->whole ? SCRUB_SHORTEST : 1;
    size_t at = 0;

    for (;;) {
        size_t next = next_candidate(search->set, search->data, search->len, at);
        struct found found;
        size_t len;

        /* What comes later only looks ahead. */
        mask(search, at, next);
        at = next;
        if (search->len - at < least)
            break;
        if (search->bytes == NULL)
            search->bytes = secret_open(search->set->bytes, &len);
        found = match_all(search->set, search->bytes, search->data + at, search->len - at);
        if (found.end > 0) {
            search->found++;
            if (at + found.end > search->masked_until)
                search->masked_until = at + found.end;
        }
        if (found.partial && !search->whole)
            break;
        mask(search, at, at + 1);
        at++;
    }
    if (search->whole) {
        mask(search, at, search->len);
        at = search->len;
    }
    *stop = at;
    if (search->bytes != NULL)
        secret_shut(search->set->bytes);
}

size_t scrub_text(struct scrub_set *set, char *text, size_t len)
{
    struct search search = { .set = set, .data = text, .len = len, .whole = true };
    size_t stop;

    search_run(&search, &stop);
    return search.found;
}

/* Streams
 * ------------------------------------------------------------------------------------------- */

void scrub_init(struct scrub *scrub, struct scrub_set *set)
{
    *scrub = (struct scrub){ .set = scrub_set_ref(set) };
    buf_init(&scrub->held, (size_t)SECRET_MAX * ESCAPE_MAX + 64);
}

void scrub_finish(struct scrub *scrub)
{
    if (scrub->held.data != NULL)
        sodium_memzero(scrub->held.data, scrub->held.cap);
    buf_finish(&scrub->held);
    scrub_set_unref(scrub->set);
    scrub->set = NULL;
}

bool scrub_passes(const struct scrub *scrub, const char *data, size_t len)
{
    return scrub->held.len == 0 && scrub->masked_ahead == 0 &&
           next_candidate(scrub->set, data, len, 0) == len;
}

void scrub_feed(struct scrub *scrub, const char *data, size_t len, struct buf *out)
{
    size_t start = out->len;
    size_t stop;

    buf_append(out, scrub->held.data, scrub->held.len);
    buf_append(out, data, len);
    BUG_ON(out->failed);
    if (out->len == start)
        return;
    struct search search = { .set = scrub->set,
                             .data = out->data + start,
                             .len = out->len - start,
                             .masked_until = scrub->masked_ahead };
    search_run(&search, &stop);
    scrub->found += search.found;
    scrub->masked_ahead = search.masked_until > stop ? search.masked_until - stop : 0;
    buf_clear(&scrub->held);
    buf_append(&scrub->held, out->data + start + stop, search.len - stop);
    BUG_ON(scrub->held.failed);
    out->len = start + stop;
    out->data[out->len] = '\0';
}

void scrub_end(struct scrub *scrub, struct buf *out)
{
    size_t start = out->len;
    size_t len = scrub->held.len;

    if (len == 0)
        return;
    buf_append(out, scrub->held.data, len);
    BUG_ON(out->failed);
    scrub->found += scrub_text(scrub->set, out->data + start, len);
    if (scrub->masked_ahead > 0)
        memset(out->data + start, '*', scrub->masked_ahead < len ? scrub->masked_ahead : len);
    buf_clear(&scrub->held);
    scrub->masked_ahead = 0;
}
