#include "common/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "common/mem.h"
#include "common/str.h"

#define ULID_BYTES 16
#define ULID_LEN 26
#define PREFIX_LEN 4
#define TIME_MAX ((UINT64_C(1) << 48) - 1)

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

static const char *prefix(enum id_kind kind)
{
    switch (kind) {
    case ID_KIND_RUN:
        return "run_";
    case ID_KIND_SESSION:
        return "ses_";
    case ID_KIND_REQUEST:
        return "req_";
    }
    BUG("unknown kind of id");
}

void id_random(void *to, unsigned long len)
{
    char *at = to;

    while (len) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            BUG("no random bytes");
        at += got;
        len -= (unsigned long)got;
    }
}

/* False when all bits were set. */
static bool count_up(uint8_t *bytes, size_t len)
{
    for (size_t i = len; i-- > 0;)
        if (++bytes[i] != 0)
            return true;
    return false;
}

static void next_value(struct id_source *source, uint64_t wall_ms)
{
    bool later = !source->used || wall_ms > source->last_ms;

    if (!later && count_up(source->last_random, sizeof(source->last_random)))
        return;
    source->last_ms = later ? wall_ms : source->last_ms + 1;
    BUG_ON(source->last_ms > TIME_MAX);
    source->used = true;
    id_random(source->last_random, sizeof(source->last_random));
}

void id_make(struct id_source *source, enum id_kind kind, uint64_t wall_ms, struct id *out)
{
    uint8_t bytes[ULID_BYTES];
    unsigned bits = 0;
    unsigned held = 2; /* 128 bits are spelled as 130: two zero bits come first */
    char *to = out->text + PREFIX_LEN;

    next_value(source, wall_ms < TIME_MAX ? wall_ms : TIME_MAX);
    for (unsigned i = 0; i < 6; i++)
        bytes[i] = (uint8_t)(source->last_ms >> (40 - 8 * i));
    memcpy(bytes + 6, source->last_random, sizeof(source->last_random));

    memcpy(out->text, prefix(kind), PREFIX_LEN);
    for (size_t i = 0; i < ULID_BYTES; i++) {
        bits = bits << 8 | bytes[i];
        held += 8;
        while (held >= 5) {
            held -= 5;
            *to++ = alphabet[bits >> held & 31];
        }
        bits &= (1u << held) - 1;
    }
    *to = '\0';
}

bool id_parse(enum id_kind kind, const char *text, struct id *out)
{
    if (!text || !str_starts(text, prefix(kind)) || strnlen(text, ID_SIZE) != ID_SIZE - 1)
        return false;
    if (strspn(text + PREFIX_LEN, alphabet) != ULID_LEN || text[PREFIX_LEN] > '7')
        return false;
    if (out)
        str_copy(out->text, sizeof(out->text), text);
    return true;
}

uint64_t id_time_ms(const struct id *id)
{
    uint64_t value = 0;

    for (size_t i = 0; i < 10; i++) {
        const char *digit = strchr(alphabet, id->text[PREFIX_LEN + i]);

        value = value << 5 | (uint64_t)(digit && *digit ? digit - alphabet : 0);
    }
    return value;
}
