/* told.c: what an earlier supervisor heard of a run's agent and wrote down. */
#include "run/internal.h"

#include <stdlib.h>
#include <string.h>

#define OUTPUT_MAX (16u << 10)

struct told {
    uint64_t *keys; /* hashes, sorted */
    size_t count;
    size_t cap;
    struct buf output;
};

/* FNV-1a. */
static uint64_t hash_key(const char *key)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *key != '\0'; key++)
        hash = (hash ^ (unsigned char)*key) * UINT64_C(1099511628211);
    return hash;
}

static void add_key(struct told *told, const char *key)
{
    if (told->count == told->cap) {
        size_t cap = told->cap > 0 ? 2 * told->cap : 256;
        uint64_t *keys = mem_new_zero(cap, sizeof(*keys));

        if (told->count > 0)
            memcpy(keys, told->keys, told->count * sizeof(*keys));
        free(told->keys);
        told->keys = keys;
        told->cap = cap;
    }
    told->keys[told->count++] = hash_key(key);
}

static void add_output(struct told *told, const char *text)
{
    size_t len = strlen(text);

    if (len >= OUTPUT_MAX) {
        text += len - OUTPUT_MAX + 1;
        len = OUTPUT_MAX - 1;
    }
    if (told->output.len + len + 1 > OUTPUT_MAX)
        buf_consume(&told->output, told->output.len + len + 1 - OUTPUT_MAX);
    buf_append(&told->output, text, len);
    buf_append_char(&told->output, '\n');
}

static bool add_event(void *data, const struct event_record *event)
{
    struct told *told = data;

    if (event->key[0] != '\0')
        add_key(told, event->key);
    if (event->kind == RUN_NOTE_TEXT)
        add_output(told, event->text);
    return true;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

struct told *told_load(struct store *store, const struct id *run)
{
    struct told *told = NEW(struct told);
    struct error err = ERROR_INIT;

    buf_init(&told->output, OUTPUT_MAX);
    if (store_event_each(store, run, 0, SIZE_MAX, add_event, told, &err) < 0)
        log_warn(run->text, "its events can't be read, some may be told twice: %s", err.text);
    if (told->count > 0)
        qsort(told->keys, told->count, sizeof(*told->keys), compare);
    return told;
}

void told_free(struct told *told)
{
    if (told == NULL)
        return;
    free(told->keys);
    buf_finish(&told->output);
    free(told);
}

bool told_has(const struct told *told, const char *key)
{
    uint64_t hash = hash_key(key);

    return told != NULL && told->count > 0 &&
           bsearch(&hash, told->keys, told->count, sizeof(hash), compare) != NULL;
}

const char *told_output(const struct told *told)
{
    return told != NULL ? buf_text(&told->output) : "";
}
