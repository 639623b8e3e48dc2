/* sample.h: records and stores for the tests of store/. */
#ifndef TESTS_UNIT_STORE_SAMPLE_H
#define TESTS_UNIT_STORE_SAMPLE_H

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "store/store_internal.h"

#define CHECK_OK(call) sample_check_ok((call), &err, __FILE__, __LINE__, #call)
#define CHECK_CODE(call, expected)                                                                 \
    do {                                                                                           \
        err = (struct error)ERROR_INIT;                                                            \
        CHECK_EQ((call), -1);                                                                      \
        CHECK_EQ((int)err.code, (int)(expected));                                                  \
    } while (0)

static inline void sample_check_ok(int result, const struct error *err, const char *file, int line,
                                   const char *what)
{
    if (result != 0)
        fprintf(stderr, "%s: %s\n", what, err->text);
    test_check(result == 0, file, line, what);
}

/* The N-th id of that kind, made at 1,000,000 + N / 4 milliseconds, so that four share a time. */
static inline struct id sample_id(enum id_kind kind, uint64_t n)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    struct id id = { "" };
    uint64_t ms = 1000000 + n / 4;

    memset(id.text, '0', sizeof(id.text) - 1);
    memcpy(id.text, kind == ID_KIND_RUN ? "run_" : "ses_", 4);
    for (unsigned i = 0; i < 10; i++)
        id.text[4 + i] = digits[ms >> (45 - 5 * i) & 31];
    for (unsigned i = 0; i < 12; i++)
        id.text[18 + i] = digits[n >> (55 - 5 * i) & 31];
    return id;
}

static inline void sample_run(struct run_record *run, uint64_t n, uint64_t session, uint32_t state)
{
    run_record_init(run);
    run->id = sample_id(ID_KIND_RUN, n);
    run->session = sample_id(ID_KIND_SESSION, session);
    run->state = state;
    run->created_ms = id_time_ms(&run->id);
    run->last_event = 1;
    record_set(&run->task, "do it");
}

static inline void sample_session(struct session_record *session, uint64_t n)
{
    session_record_init(session);
    session->id = sample_id(ID_KIND_SESSION, n);
    session->created_ms = id_time_ms(&session->id);
    record_set(&session->title, "a session");
}

static inline void sample_event(struct event_record *event, uint64_t number, const char *text)
{
    event_record_init(event);
    event->number = number;
    event->time_ms = 5000 + number;
    event->kind = 3;
    record_set(&event->text, text);
}

/* A run with its session and first event. */
static inline int sample_create(struct store *store, uint64_t n, uint64_t session_n, uint32_t state,
                                struct error *err)
{
    struct run_record run;
    struct session_record session;
    struct event_record event;

    sample_run(&run, n, session_n, state);
    sample_session(&session, session_n);
    sample_event(&event, 1, "created");
    int result = store_run_create(store, &run, &session, &event, err);
    run_record_finish(&run);
    session_record_finish(&session);
    event_record_finish(&event);
    return result;
}

static inline int sample_append(struct store *store, uint64_t n, uint64_t number, const char *text,
                                struct error *err)
{
    struct id id = sample_id(ID_KIND_RUN, n);
    struct event_record event;

    sample_event(&event, number, text);
    int result = store_event_append(store, &id, &event, err);
    event_record_finish(&event);
    return result;
}

static inline int sample_set_state(struct store *store, uint64_t n, uint32_t state,
                                   struct error *err)
{
    struct id id = sample_id(ID_KIND_RUN, n);
    struct run_record run;

    run_record_init(&run);
    int result = store_run_load(store, &id, &run, err);
    run.state = state;
    if (result == 0)
        result = store_run_update(store, &run, NULL, NULL, err);
    run_record_finish(&run);
    return result;
}

static inline struct store *sample_open_sized(uint64_t map_size_bytes)
{
    struct store_options options = { tmp_path("db"), map_size_bytes };
    struct error err = ERROR_INIT;
    struct store *store = NULL;

    CHECK_OK(store_open(&store, &options, &err));
    return store;
}

static inline struct store *sample_open(void)
{
    return sample_open_sized(0);
}

/* Entries of a sub-database. */
static inline size_t sample_entries(struct store *store, enum store_db db)
{
    struct error err = ERROR_INIT;
    MDB_txn *txn;
    MDB_stat stat = { 0 };

    CHECK_OK(store_read_begin(store, &txn, &err));
    int rc = mdb_stat(txn, store->dbi[db], &stat);
    store_read_end(store);
    CHECK_EQ(rc, 0);
    return stat.ms_entries;
}

/* Collects what a list hands out as short text: the last digits of ids, or numbers. */
struct sample_list {
    char text[4096];
    size_t count;
    size_t stop_after; /* 0: never */
};

static inline bool sample_add(struct sample_list *list, const char *what)
{
    size_t len = strlen(list->text);

    snprintf(list->text + len, sizeof(list->text) - len, "%s%s", len > 0 ? " " : "", what);
    return ++list->count != list->stop_after;
}

static inline uint64_t sample_number(const struct id *id)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    uint64_t n = 0;

    for (unsigned i = 18; i < 30; i++)
        n = n << 5 | (uint64_t)(strchr(digits, id->text[i]) - digits);
    return n;
}

static inline bool sample_add_run(void *data, const struct run_record *run)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)sample_number(&run->id));
    return sample_add(data, text);
}

static inline bool sample_add_event(void *data, const struct event_record *event)
{
    char text[64];

    snprintf(text, sizeof(text), "%llu:%.40s", (unsigned long long)event->number, event->text);
    return sample_add(data, text);
}

#endif
