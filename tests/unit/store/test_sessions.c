#include "unit/store/sample.h"

static bool add_session(void *data, const struct session_record *session)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)sample_number(&session->id));
    return sample_add(data, text);
}

static int put_session(struct store *store, uint64_t n, uint32_t host_uid, struct error *err)
{
    struct session_record session;

    sample_session(&session, n);
    session.host_uid = host_uid;
    int result = store_session_update(store, &session, err);
    session_record_finish(&session);
    return result;
}

TEST(sessions_are_listed_newest_first_by_cursor_and_counted)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct sample_list list = { 0 };
    struct id before = sample_id(ID_KIND_SESSION, 100);
    uint64_t count;

    for (uint64_t n = 0; n < 150; n++)
        CHECK_OK(put_session(store, n, 0, &err));
    CHECK_OK(store_session_count(store, &count, &err));
    CHECK_EQ(count, 150);
    CHECK_OK(store_session_each(store, &before, 3, add_session, &list, &err));
    CHECK_STR(list.text, "99 98 97");
    list = (struct sample_list){ 0 };
    CHECK_OK(store_session_each(store, NULL, 0, add_session, &list, &err));
    CHECK_EQ(list.count, 150u);
    list = (struct sample_list){ .stop_after = 1 };
    CHECK_OK(store_session_each(store, NULL, 0, add_session, &list, &err));
    CHECK_STR(list.text, "149");
    store_close(store);
}

TEST(a_session_is_updated_in_place)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct session_record session;
    struct id id = sample_id(ID_KIND_SESSION, 1);

    sample_session(&session, 1);
    CHECK_CODE(store_session_load(store, &id, &session, &err), ERR_NOT_FOUND);
    session_record_finish(&session);
    sample_session(&session, 1);
    CHECK_OK(store_session_update(store, &session, &err));
    record_set(&session.title, "changed");
    CHECK_OK(store_session_update(store, &session, &err));
    record_set(&session.title, "");
    CHECK_OK(store_session_load(store, &id, &session, &err));
    CHECK_STR(session.title, "changed");
    session.id.text[0] = '\0';
    CHECK_CODE(store_session_update(store, &session, &err), ERR_BUG);
    session_record_finish(&session);
    store_close(store);
}

TEST(a_deleted_session_leaves_nothing_behind_and_others_alone)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id session = sample_id(ID_KIND_SESSION, 1);
    struct id run_id = sample_id(ID_KIND_RUN, 1);
    struct run_record run;
    static const enum store_db gone[] = {
        STORE_RUNS,     STORE_RUN_SESSIONS, STORE_RUN_STATES, STORE_RUN_KEYS,   STORE_DIFFS,
        STORE_SESSIONS, STORE_SESSION_UIDS, STORE_EVENTS,     STORE_EVENT_INDEX
    };
    size_t before[ARRAY_LEN(gone)];
    uint64_t counts[2];

    CHECK_OK(sample_create(store, 50, 2, 1, &err));
    for (size_t i = 0; i < ARRAY_LEN(gone); i++)
        before[i] = sample_entries(store, gone[i]);
    CHECK_OK(put_session(store, 1, 4711, &err));
    sample_run(&run, 1, 1, 0);
    record_set(&run.idempotency_key, "key");
    CHECK_OK(store_run_create(store, &run, NULL, NULL, &err));
    run_record_finish(&run);
    CHECK_OK(sample_create(store, 99, 1, 1, &err));
    CHECK_OK(put_session(store, 1, 4711, &err));
    CHECK_OK(store_diff_put(store, &run_id, "diff", 4, &err));
    for (uint64_t number = 2; number < 50; number++)
        CHECK_OK(sample_append(store, 99, number, "said", &err));
    CHECK(store_has_batch(store));
    CHECK_OK(store_session_delete(store, &session, &err));
    CHECK(!store_has_batch(store));
    for (size_t i = 0; i < ARRAY_LEN(gone); i++)
        CHECK_EQ(sample_entries(store, gone[i]), before[i]);
    CHECK_OK(store_run_counts(store, counts, 2, &err));
    CHECK_EQ(counts[0], 0);
    CHECK_EQ(counts[1], 1);
    CHECK_CODE(sample_append(store, 99, 50, "late", &err), ERR_NOT_FOUND);
    CHECK_CODE(store_session_delete(store, &session, &err), ERR_NOT_FOUND);
    store_close(store);
}

TEST(free_uids_are_the_lowest_that_no_session_has)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id id = sample_id(ID_KIND_SESSION, 2);
    uint32_t uid;

    CHECK_OK(store_session_free_slot(store, 1000, 3, &uid, &err));
    CHECK_EQ(uid, 1000);
    CHECK_OK(put_session(store, 9, 999, &err));
    CHECK_OK(put_session(store, 1, 1000, &err));
    CHECK_OK(put_session(store, 2, 1001, &err));
    CHECK_OK(put_session(store, 3, 1001, &err)); /* two may share one, as all do without root */
    CHECK_OK(store_session_free_slot(store, 1000, 3, &uid, &err));
    CHECK_EQ(uid, 1002);
    CHECK_OK(put_session(store, 4, 1002, &err));
    CHECK_CODE(store_session_free_slot(store, 1000, 3, &uid, &err), ERR_LIMIT);
    CHECK_OK(store_session_delete(store, &id, &err));
    CHECK_CODE(store_session_free_slot(store, 1000, 3, &uid, &err), ERR_LIMIT);
    CHECK_OK(put_session(store, 3, 5, &err)); /* moves */
    CHECK_OK(store_session_free_slot(store, 1000, 3, &uid, &err));
    CHECK_EQ(uid, 1001);
    store_close(store);
}
