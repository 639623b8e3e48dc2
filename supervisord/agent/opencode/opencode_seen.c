#include "agent/opencode/opencode_seen.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define SEEN_MAX 65536u

void opencode_seen_finish(struct opencode_seen *seen)
{
    free(seen->slots);
}

/* Over a prefix that says what was seen and the id. */
uint64_t opencode_seen_hash(const char *what, const char *id)
{
    uint64_t hash = str_hash(str_hash(STR_HASH_START, what), id);

    return hash != 0 ? hash : 1;
}

bool opencode_seen_has(const struct opencode_seen *seen, uint64_t hash)
{
    for (size_t i = 0; i < seen->size; i++) {
        uint64_t slot = seen->slots[(hash + i) & (seen->size - 1)];

        if (slot == hash)
            return true;
        if (slot == 0)
            return false;
    }
    return false;
}

static void seen_insert(struct opencode_seen *seen, uint64_t hash)
{
    size_t at = (size_t)hash & (seen->size - 1);

    while (seen->slots[at] != 0)
        at = (at + 1) & (seen->size - 1);
    seen->slots[at] = hash;
    seen->count++;
}

static void seen_grow(struct opencode_seen *seen)
{
    struct opencode_seen old = *seen;

    *seen = (struct opencode_seen){ .size = old.size > 0 ? old.size * 2 : 256 };
    seen->slots = mem_new_zero(seen->size, sizeof(*seen->slots));
    for (size_t i = 0; i < old.size; i++) {
        if (old.slots[i] != 0)
            seen_insert(seen, old.slots[i]);
    }
    free(old.slots);
}

bool opencode_seen_add(struct opencode_seen *seen, uint64_t hash)
{
    if (opencode_seen_has(seen, hash))
        return false;
    if (seen->count >= SEEN_MAX) {
        memset(seen->slots, 0, seen->size * sizeof(*seen->slots));
        seen->count = 0;
    }
    if (seen->count * 2 >= seen->size)
        seen_grow(seen);
    seen_insert(seen, hash);
    return true;
}
