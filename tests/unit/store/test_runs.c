#include <time.h>

#include "unit/store/sample.h"

TEST(a_created_run_is_there_with_session_and_event_also_after_reopening)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    struct session_record session;
    struct sample_list list = { 0 };
    struct id id = sample_id(ID_KIND_RUN, 1);
    struct id session_id = sample_id(ID_KIND_SESSION, 2);

    CHECK_OK(sample_create(store, 1, 2, 0, &err));
    store_close(store);
    store = sample_open();
    run_record_init(&run);
    session_record_init(&session);
    CHECK_OK(store_run_load(store, &id, &run, &err));
    CHECK_STR(run.task, "do it");
    CHECK_STR(run.session.text, session_id.text);
    CHECK_OK(store_session_load(store, &session_id, &session, &err));
    CHECK_STR(session.title, "a session");
    CHECK_OK(store_event_each(store, &id, 0, 10, sample_add_event, &list, &err));
    CHECK_STR(list.text, "1:created");
    run_record_finish(&run);
    session_record_finish(&session);
    store_close(store);
}

TEST(a_run_is_created_once)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    uint64_t counts[4];

    CHECK_OK(sample_create(store, 1, 1, 2, &err));
    CHECK_CODE(sample_create(store, 1, 3, 2, &err), ERR_CONFLICT);
    CHECK_OK(store_run_counts(store, counts, 4, &err));
    CHECK_EQ(counts[2], 1);
    CHECK_EQ(sample_entries(store, STORE_SESSIONS), 1u);
    store_close(store);
}

TEST(what_is_not_there_is_not_found)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    struct id id = sample_id(ID_KIND_RUN, 1);
    AUTO_BUF struct buf diff = { 0 };

    buf_init(&diff, 100);
    sample_run(&run, 1, 1, 0);
    CHECK_CODE(store_run_load(store, &id, &run, &err), ERR_NOT_FOUND);
    CHECK_CODE(store_run_by_key(store, "key", &run, &err), ERR_NOT_FOUND);
    CHECK_CODE(store_run_by_key(store, "", &run, &err), ERR_NOT_FOUND);
    run_record_finish(&run);
    sample_run(&run, 1, 1, 0);
    CHECK_CODE(store_run_update(store, &run, NULL, NULL, &err), ERR_NOT_FOUND);
    CHECK_CODE(store_diff_load(store, &id, &diff, &err), ERR_NOT_FOUND);
    CHECK_CODE(store_diff_put(store, &id, "x", 1, &err), ERR_NOT_FOUND);
    run_record_finish(&run);
    store_close(store);
}

TEST(an_idempotency_key_leads_to_its_run_and_is_taken_once)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    struct run_record found;
    char long_key[STORE_KEY_MAX + 2];

    run_record_init(&found);
    sample_run(&run, 1, 1, 0);
    record_set(&run.idempotency_key, "order 66");
    CHECK_OK(store_run_create(store, &run, NULL, NULL, &err));
    CHECK_OK(store_run_by_key(store, "order 66", &found, &err));
    CHECK_STR(found.id.text, run.id.text);
    CHECK_CODE(store_run_by_key(store, "order 6", &found, &err), ERR_NOT_FOUND);
    run.id = sample_id(ID_KIND_RUN, 2);
    CHECK_CODE(store_run_create(store, &run, NULL, NULL, &err), ERR_CONFLICT);
    CHECK_CODE(store_run_load(store, &run.id, &found, &err), ERR_NOT_FOUND);
    memset(long_key, 'k', sizeof(long_key));
    long_key[STORE_KEY_MAX + 1] = '\0';
    record_set(&run.idempotency_key, long_key);
    CHECK_CODE(store_run_create(store, &run, NULL, NULL, &err), ERR_INVALID);
    CHECK_STR(err.argument, "idempotencyKey");
    long_key[STORE_KEY_MAX] = '\0';
    record_set(&run.idempotency_key, long_key);
    CHECK_OK(store_run_create(store, &run, NULL, NULL, &err));
    CHECK_OK(store_run_by_key(store, long_key, &found, &err));
    run_record_finish(&run);
    run_record_finish(&found);
    store_close(store);
}

/* Deleting the session takes the keys along, and nobody else's. */
TEST(a_messages_key_is_written_with_it_and_goes_with_its_session)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    struct run_record found;
    struct event_record said;
    char long_key[STORE_KEY_MAX + 1];
    uint8_t hash[32];
    uint8_t read[32] = { 0 };

    memset(hash, 7, sizeof(hash));
    memset(long_key, 'k', sizeof(long_key));
    long_key[STORE_KEY_MAX] = '\0';
    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_create(store, 2, 2, 0, &err));
    run_record_init(&found);
    event_record_init(&said);
    sample_run(&run, 1, 1, 0);
    CHECK_OK(store_run_load(store, &run.id, &run, &err));
    said.number = ++run.last_event;
    record_set(&said.text, "also the README");
    CHECK_CODE(store_told_by_key(store, "k1", read, &err), ERR_NOT_FOUND);
    CHECK_OK(store_run_told(store, &run, &said, "k1", hash, &err));
    CHECK_OK(store_told_by_key(store, "k1", read, &err));
    CHECK(memcmp(read, hash, sizeof(hash)) == 0);
    CHECK_OK(store_run_by_key(store, "k1", &found, &err));
    CHECK_STR(found.id.text, run.id.text);
    CHECK_EQ(found.last_event, run.last_event);
    CHECK_STR(found.idempotency_key, "");

    /* Taken: neither the key nor the event is written. */
    said.number = ++run.last_event;
    CHECK_CODE(store_run_told(store, &run, &said, "k1", hash, &err), ERR_CONFLICT);
    CHECK_EQ(store_event_last(store, &run.id), run.last_event - 1);
    CHECK_OK(store_run_told(store, &run, &said, long_key, hash, &err));
    run_record_finish(&run);
    sample_run(&run, 3, 1, 0);
    record_set(&run.idempotency_key, "k1");
    CHECK_CODE(store_run_create(store, &run, NULL, NULL, &err), ERR_CONFLICT);

    run_record_finish(&run);
    sample_run(&run, 2, 2, 0);
    CHECK_OK(store_run_load(store, &run.id, &run, &err));
    said.number = ++run.last_event;
    CHECK_OK(store_run_told(store, &run, &said, "k2", hash, &err));
    run.session = sample_id(ID_KIND_SESSION, 1);
    CHECK_OK(store_session_delete(store, &run.session, &err));
    CHECK_CODE(store_run_by_key(store, "k1", &found, &err), ERR_NOT_FOUND);
    CHECK_CODE(store_run_by_key(store, long_key, &found, &err), ERR_NOT_FOUND);
    CHECK_OK(store_run_by_key(store, "k2", &found, &err));
    CHECK_OK(store_told_by_key(store, "k2", read, &err));
    event_record_finish(&said);
    run_record_finish(&run);
    run_record_finish(&found);
    store_close(store);
}

TEST(counters_follow_states_and_failed_updates_leave_them)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    uint64_t counts[70];

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_create(store, 2, 1, 0, &err));
    CHECK_OK(sample_create(store, 3, 1, 63, &err));
    CHECK_OK(sample_set_state(store, 2, 5, &err));
    CHECK_OK(sample_set_state(store, 2, 5, &err));
    CHECK_OK(store_run_counts(store, counts, 70, &err));
    CHECK_EQ(counts[0], 1);
    CHECK_EQ(counts[5], 1);
    CHECK_EQ(counts[63], 1);
    CHECK_EQ(counts[64], 0);
    CHECK_CODE(sample_set_state(store, 2, 64, &err), ERR_BUG);
    sample_run(&run, 1, 9, 3); /* another session */
    CHECK_CODE(store_run_update(store, &run, NULL, NULL, &err), ERR_BUG);
    run_record_finish(&run);
    CHECK_OK(store_run_counts(store, counts, 6, &err));
    CHECK_EQ(counts[3], 0);
    CHECK_EQ(sample_entries(store, STORE_RUN_STATES), 3u);
    store_close(store);
}

static void check_list(struct store *store, const struct store_run_filter *filter,
                       const char *expected)
{
    struct error err = ERROR_INIT;
    struct sample_list list = { 0 };

    CHECK_OK(store_run_each(store, filter, sample_add_run, &list, &err));
    CHECK_STR(list.text, expected);
}

TEST(lists_are_newest_first_and_filtered)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id before = sample_id(ID_KIND_RUN, 5);
    struct id session = sample_id(ID_KIND_SESSION, 1);
    struct id nobody = sample_id(ID_KIND_SESSION, 2);

    for (uint64_t n = 0; n < 10; n++)
        CHECK_OK(sample_create(store, n, n % 2 == 0 ? 0 : 1, (uint32_t)(n % 3), &err));
    check_list(store, &(struct store_run_filter){ 0 }, "9 8 7 6 5 4 3 2 1 0");
    check_list(store, &(struct store_run_filter){ .limit = 3 }, "9 8 7");
    check_list(store, &(struct store_run_filter){ .before = &before }, "4 3 2 1 0");
    check_list(store, &(struct store_run_filter){ .session = &session }, "9 7 5 3 1");
    check_list(store, &(struct store_run_filter){ .session = &nobody }, "");
    check_list(store,
               &(struct store_run_filter){ .session = &session, .before = &before, .limit = 1 },
               "3");
    check_list(store, &(struct store_run_filter){ .states = 1 << 1 }, "7 4 1");
    check_list(store, &(struct store_run_filter){ .states = 1 << 1 | 1 << 2 }, "8 7 5 4 2 1");
    check_list(store, &(struct store_run_filter){ .states = 6, .before = &before, .limit = 2 },
               "4 2");
    check_list(store, &(struct store_run_filter){ .session = &session, .states = 1 << 1 }, "7 1");
    check_list(store, &(struct store_run_filter){ .states = 1ull << 40 }, "");
    /* Runs 4 to 7 were made at 1000001. */
    check_list(store, &(struct store_run_filter){ .before_ms = 1000002 }, "7 6 5 4 3 2 1 0");
    check_list(store, &(struct store_run_filter){ .before_ms = 1000001 }, "3 2 1 0");
    check_list(store, &(struct store_run_filter){ .before_ms = 1000002, .before = &before },
               "4 3 2 1 0");
    check_list(store, &(struct store_run_filter){ .before_ms = 1 }, "");
    check_list(store, &(struct store_run_filter){ .before_ms = UINT64_MAX, .limit = 1 }, "9");
    store_close(store);
}

TEST(a_list_stops_when_it_is_told)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct sample_list list = { .stop_after = 2 };

    for (uint64_t n = 0; n < 5; n++)
        CHECK_OK(sample_create(store, n, 0, 0, &err));
    CHECK_OK(store_run_each(store, &(struct store_run_filter){ 0 }, sample_add_run, &list, &err));
    CHECK_STR(list.text, "4 3");
    store_close(store);
}

struct mover {
    struct store *store;
    uint64_t seen;
    uint64_t last;
};

/* Each run leaves the listed state, and newer ones come, while the list is under way. */
static bool move_on(void *data, const struct run_record *run)
{
    struct mover *mover = data;
    struct error err = ERROR_INIT;
    uint64_t n = sample_number(&run->id);

    CHECK(mover->seen == 0 || n < mover->last);
    CHECK_OK(sample_set_state(mover->store, n, 2, &err));
    CHECK_OK(sample_create(mover->store, 1000 + mover->seen, 0, 1, &err));
    mover->last = n;
    mover->seen++;
    return true;
}

TEST(a_callback_may_write_and_each_run_is_seen_once)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct mover mover = { store, 0, 0 };
    uint64_t counts[3];

    for (uint64_t n = 0; n < 100; n++)
        CHECK_OK(sample_create(store, n, 0, 1, &err));
    CHECK_OK(store_run_each(store, &(struct store_run_filter){ .states = 1 << 1 }, move_on, &mover,
                            &err));
    CHECK_EQ(mover.seen, 100);
    CHECK_OK(store_run_counts(store, counts, 3, &err));
    CHECK_EQ(counts[1], 100);
    CHECK_EQ(counts[2], 100);
    store_close(store);
}

TEST(pages_by_cursor_are_stable_while_runs_are_added)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct sample_list list = { 0 };
    struct id before;
    uint64_t next_new = 100;

    for (uint64_t n = 0; n < 12; n++)
        CHECK_OK(sample_create(store, n, 0, 0, &err));
    before = sample_id(ID_KIND_RUN, 12);
    for (int page = 0; page < 3; page++) {
        struct store_run_filter filter = { .before = &before, .limit = 4 };

        CHECK_OK(store_run_each(store, &filter, sample_add_run, &list, &err));
        before = sample_id(ID_KIND_RUN, 12 - list.count);
        CHECK_OK(sample_create(store, next_new++, 0, 0, &err));
    }
    CHECK_STR(list.text, "11 10 9 8 7 6 5 4 3 2 1 0");
    store_close(store);
}

TEST(a_damaged_record_costs_itself_only)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id id = sample_id(ID_KIND_RUN, 1);
    struct id session = sample_id(ID_KIND_SESSION, 0);
    struct run_record run;
    MDB_txn *txn;
    MDB_val key = store_id_val(&id);
    MDB_val value = store_val("\1\5", 2);

    for (uint64_t n = 0; n < 3; n++)
        CHECK_OK(sample_create(store, n, 0, 0, &err));
    CHECK_EQ(mdb_txn_begin(store->env, NULL, 0, &txn), 0);
    CHECK_EQ(mdb_put(txn, store->dbi[STORE_RUNS], &key, &value, 0), 0);
    CHECK_EQ(mdb_txn_commit(txn), 0);
    check_list(store, &(struct store_run_filter){ 0 }, "2 0");
    run_record_init(&run);
    CHECK_CODE(store_run_load(store, &id, &run, &err), ERR_BUG);
    CHECK_HAS(err.text, id.text);
    run_record_finish(&run);
    CHECK_OK(store_session_delete(store, &session, &err));
    CHECK_EQ(sample_entries(store, STORE_RUNS), 0u);
    store_close(store);
}

TEST(a_diff_is_replaced_bounded_and_binary_safe)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id id = sample_id(ID_KIND_RUN, 1);
    AUTO_FREE
    char *large = mem_new_zero(1, STORE_DIFF_MAX + 1);
    AUTO_BUF struct buf diff = { 0 };

    buf_init(&diff, STORE_DIFF_MAX);
    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_CODE(store_diff_put(store, &id, large, STORE_DIFF_MAX + 1, &err), ERR_LIMIT);
    memset(large, 'd', STORE_DIFF_MAX);
    CHECK_OK(store_diff_put(store, &id, large, STORE_DIFF_MAX, &err));
    CHECK_OK(store_diff_load(store, &id, &diff, &err));
    CHECK_EQ(diff.len, STORE_DIFF_MAX);
    CHECK_EQ(memcmp(diff.data, large, STORE_DIFF_MAX), 0);
    CHECK_OK(store_diff_put(store, &id, "a\0b", 3, &err));
    buf_clear(&diff);
    CHECK_OK(store_diff_load(store, &id, &diff, &err));
    CHECK_EQ(diff.len, 3u);
    CHECK_EQ(memcmp(diff.data, "a\0b", 3), 0);
    CHECK_OK(store_diff_put(store, &id, NULL, 0, &err));
    buf_clear(&diff);
    CHECK_OK(store_diff_load(store, &id, &diff, &err));
    CHECK_EQ(diff.len, 0u);
    store_close(store);
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* All in one transaction: making them one by one would test the disk. */
static int put_many(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    uint64_t count = *(uint64_t *)data;
    AUTO_BUF struct buf record = { 0 };
    int rc = 0;

    (void)err;
    buf_init(&record, STORE_RECORD_MAX);
    for (uint64_t n = 0; n < count && rc == 0; n++) {
        struct run_record run;
        uint8_t state_key[1 + STORE_ID_LEN];

        sample_run(&run, n, n / 10, n % 1000 == 0 ? 1 : 6);
        buf_clear(&record);
        run_record_encode(&run, &record);
        MDB_val key = store_id_val(&run.id);
        MDB_val value = store_val(record.data, record.len);
        rc = mdb_put(txn, store->dbi[STORE_RUNS], &key, &value, MDB_APPEND);
        state_key[0] = (uint8_t)run.state;
        memcpy(state_key + 1, run.id.text, STORE_ID_LEN);
        key = store_val(state_key, sizeof(state_key));
        value = store_val("", 0);
        if (rc == 0)
            rc = mdb_put(txn, store->dbi[STORE_RUN_STATES], &key, &value, 0);
        run_record_finish(&run);
    }
    return rc;
}

static bool count_run(void *data, const struct run_record *run)
{
    (void)run;
    ++*(uint64_t *)data;
    return true;
}

TEST(hundred_thousand_runs_are_listed_without_reading_them_all)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    uint64_t count = 100000;
    uint64_t seen = 0;
    uint64_t at[4];

    CHECK_OK(store_write(store, put_many, &count, &err));
    at[0] = now_us();
    CHECK_OK(
        store_run_each(store, &(struct store_run_filter){ .limit = 50 }, count_run, &seen, &err));
    at[1] = now_us();
    CHECK_EQ(seen, 50);
    seen = 0;
    CHECK_OK(store_run_each(store, &(struct store_run_filter){ .states = 1 << 1 }, count_run, &seen,
                            &err));
    at[2] = now_us();
    CHECK_EQ(seen, 100);
    seen = 0;
    CHECK_OK(store_run_each(store, &(struct store_run_filter){ 0 }, count_run, &seen, &err));
    at[3] = now_us();
    CHECK_EQ(seen, count);
    printf("newest 50: %llu us, 100 in a rare state: %llu us, all: %llu us\n",
           (unsigned long long)(at[1] - at[0]), (unsigned long long)(at[2] - at[1]),
           (unsigned long long)(at[3] - at[2]));
    store_close(store);
}
