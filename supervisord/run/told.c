/* told.c: what an earlier supervisor heard of a run's agent and wrote down. */
#include "run/internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/str.h"

#define OUTPUT_MAX (16u << 10)
#define ASKED_MAX 64

struct told {
    uint64_t *keys; /* hashes, sorted */
    size_t count;
    size_t cap;
    struct buf output;
    struct asked {
        uint64_t request; /* hash of its id */
        uint64_t time_ms;
    } asked[ASKED_MAX]; /* a ring of the newest */
    size_t asked_count;
    struct agent_message *messages; /* ours, like their strings */
    size_t message_count;
    size_t message_cap;
};

static uint64_t hash_key(const char *key)
{
    return str_hash(STR_HASH_START, key);
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

static void free_message(struct agent_message *message)
{
    free((void *)(uintptr_t)message->id);
    free((void *)(uintptr_t)message->text);
}

static void add_message(struct told *told, const char *id, const char *text)
{
    if (told->message_count == told->message_cap) {
        size_t cap = told->message_cap > 0 ? 2 * told->message_cap : 8;
        struct agent_message *messages = mem_new_zero(cap, sizeof(*messages));

        if (told->message_count > 0)
            memcpy(messages, told->messages, told->message_count * sizeof(*messages));
        free(told->messages);
        told->messages = messages;
        told->message_cap = cap;
    }
    told->messages[told->message_count++] =
        (struct agent_message){ .id = mem_strdup(id), .text = mem_strdup(text) };
}

static void settle_message(struct told *told, const char *id)
{
    for (size_t i = 0; i < told->message_count; i++) {
        if (!str_equal(told->messages[i].id, id))
            continue;
        free_message(&told->messages[i]);
        memmove(&told->messages[i], &told->messages[i + 1],
                (--told->message_count - i) * sizeof(told->messages[0]));
        return;
    }
}

static bool add_event(void *data, const struct event_record *event)
{
    struct told *told = data;

    if (event->key[0] != '\0')
        add_key(told, event->key);
    if (event->kind == RUN_NOTE_TEXT)
        add_output(told, event->text);
    if (event->kind == RUN_NOTE_QUESTION || event->kind == RUN_NOTE_PERMISSION)
        told->asked[told->asked_count++ % ASKED_MAX] =
            (struct asked){ hash_key(event->key), event->time_ms };
    if (event->kind == RUN_NOTE_MESSAGE && steer_settled_id(event->key) != NULL)
        settle_message(told, steer_settled_id(event->key));
    else if (event->kind == RUN_NOTE_MESSAGE)
        add_message(told, event->key, event->text);
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
    for (size_t i = 0; i < told->message_count; i++)
        free_message(&told->messages[i]);
    free(told->messages);
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

const struct agent_message *told_messages(const struct told *told, size_t *count)
{
    *count = told != NULL ? told->message_count : 0;
    return told != NULL ? told->messages : NULL;
}

uint64_t told_asked_ms(const struct told *told, const char *request_id)
{
    uint64_t hash = hash_key(request_id);

    for (size_t i = 0; told != NULL && i < told->asked_count && i < ASKED_MAX; i++) {
        if (told->asked[i].request == hash)
            return told->asked[i].time_ms;
    }
    return 0;
}

const char *told_output(const struct told *told)
{
    return told != NULL ? buf_text(&told->output) : "";
}
