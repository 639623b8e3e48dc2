#include <errno.h>

#include "unit/store/sample.h"

static void check_events(struct store *store, uint64_t n, uint64_t after, size_t limit,
                         const char *expected)
{
    struct error err = ERROR_INIT;
    struct sample_list list = { 0 };
    struct id id = sample_id(ID_KIND_RUN, n);

    CHECK_OK(store_event_each(store, &id, after, limit, sample_add_event, &list, &err));
    CHECK_STR(list.text, expected);
}

TEST(batched_events_are_read_at_once_and_are_on_disk_after_a_flush)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id id = sample_id(ID_KIND_RUN, 1);

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_create(store, 2, 1, 0, &err));
    CHECK(!store_has_batch(store));
    CHECK_OK(store_flush(store, &err));
    CHECK_OK(sample_append(store, 1, 2, "two", &err));
    CHECK_OK(sample_append(store, 2, 2, "other", &err));
    CHECK_OK(sample_append(store, 1, 3, "three", &err));
    CHECK(store_has_batch(store));
    check_events(store, 1, 0, 0, "1:created 2:two 3:three");
    check_events(store, 1, 2, 0, "3:three");
    check_events(store, 1, 1, 1, "2:two");
    check_events(store, 2, 1, 0, "2:other");
    CHECK_EQ(store_event_last(store, &id), 3);
    CHECK_EQ(sample_entries(store, STORE_EVENTS), 2u);
    CHECK_OK(store_flush(store, &err));
    CHECK(!store_has_batch(store));
    CHECK_EQ(sample_entries(store, STORE_EVENTS), 5u);
    CHECK_EQ(sample_entries(store, STORE_EVENT_INDEX), 5u);
    check_events(store, 1, 0, 0, "1:created 2:two 3:three");
    check_events(store, 1, 3, 0, "");
    check_events(store, 1, UINT64_MAX, 0, "");
    CHECK_EQ(store_event_last(store, &id), 3);
    store_close(store);
}

TEST(an_update_commits_what_is_batched_and_its_own_event_behind_it)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    struct event_record event;

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_append(store, 1, 2, "two", &err));
    sample_run(&run, 1, 1, 4);
    run.last_event = 3;
    sample_event(&event, 3, "state");
    CHECK_OK(store_run_update(store, &run, NULL, &event, &err));
    CHECK(!store_has_batch(store));
    check_events(store, 1, 0, 0, "1:created 2:two 3:state");
    event_record_finish(&event);
    run_record_finish(&run);
    store_close(store);
}

TEST(closing_commits_what_is_batched)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_append(store, 1, 2, "two", &err));
    store_close(store);
    store = sample_open();
    check_events(store, 1, 1, 0, "2:two");
    store_close(store);
}

TEST(a_loaded_run_counts_events_that_its_record_does_not_know)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    struct id id = sample_id(ID_KIND_RUN, 1);

    run_record_init(&run);
    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_append(store, 1, 2, "two", &err));
    CHECK_OK(store_run_load(store, &id, &run, &err));
    CHECK_EQ(run.last_event, 2);
    CHECK_OK(sample_append(store, 1, 3, "three", &err));
    store_close(store);
    store = sample_open();
    CHECK_OK(store_run_load(store, &id, &run, &err));
    CHECK_EQ(run.last_event, 3);
    run_record_finish(&run);
    store_close(store);
}

TEST(a_number_is_used_once_and_needs_its_run)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct run_record run;
    struct event_record event;

    CHECK_CODE(sample_append(store, 1, 1, "lost", &err), ERR_NOT_FOUND);
    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_CODE(sample_append(store, 1, 1, "again", &err), ERR_BUG);
    CHECK_OK(sample_append(store, 1, 2, "two", &err));
    CHECK_CODE(sample_append(store, 1, 2, "again", &err), ERR_BUG);
    sample_run(&run, 1, 1, 4);
    sample_event(&event, 2, "again");
    CHECK_CODE(store_run_update(store, &run, NULL, &event, &err), ERR_BUG);
    CHECK(store_has_batch(store)); /* what was refused committed nothing */
    check_events(store, 1, 0, 0, "1:created 2:two");
    event.number = 5;
    run.last_event = 4;
    run.id = sample_id(ID_KIND_RUN, 2);
    CHECK_CODE(store_run_create(store, &run, NULL, &event, &err), ERR_BUG);
    event_record_finish(&event);
    run_record_finish(&run);
    store_close(store);
}

struct chain {
    struct store *store;
    uint64_t next;
    uint64_t expected;
};

static bool append_more(void *data, const struct event_record *event)
{
    struct chain *chain = data;
    struct error err = ERROR_INIT;

    CHECK_EQ(event->number, chain->expected);
    chain->expected++;
    if (chain->next <= 500)
        CHECK_OK(sample_append(chain->store, 1, chain->next++, "more", &err));
    if (event->number % 50 == 0)
        CHECK_OK(store_flush(chain->store, &err));
    return true;
}

TEST(events_that_come_while_reading_are_read_once_in_order)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id id = sample_id(ID_KIND_RUN, 1);
    struct chain chain = { store, 302, 1 };

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    for (uint64_t number = 2; number <= 301; number++)
        CHECK_OK(sample_append(store, 1, number, "first", &err));
    CHECK_OK(store_event_each(store, &id, 0, 0, append_more, &chain, &err));
    CHECK(chain.expected > 301);
    CHECK_EQ(store_event_last(store, &id), 500);
    store_close(store);
}

TEST(large_events_go_through_pages_of_their_own)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    AUTO_FREE
    char *text = mem_new_zero(1, (1 << 20) + 1);

    memset(text, 'x', 1 << 20);
    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    for (uint64_t number = 2; number < 8; number++)
        CHECK_OK(sample_append(store, 1, number, text, &err));
    CHECK_OK(store_flush(store, &err));
    struct sample_list list = { 0 };
    struct id id = sample_id(ID_KIND_RUN, 1);
    CHECK_OK(store_event_each(store, &id, 0, 0, sample_add_event, &list, &err));
    CHECK_EQ(list.count, 7u);
    store_close(store);
}

static int fail_with(void *data)
{
    return *(int *)data;
}

TEST(on_a_full_disk_nothing_is_half_written_and_batched_events_wait)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    int code = ENOSPC;
    struct run_record run;
    struct id id = sample_id(ID_KIND_RUN, 2);

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_append(store, 1, 2, "two", &err));
    store_set_fault(store, fail_with, &code);
    CHECK_CODE(store_flush(store, &err), ERR_LIMIT);
    CHECK_HAS(err.text, "disk full");
    CHECK_CODE(sample_create(store, 2, 1, 0, &err), ERR_LIMIT);
    CHECK_CODE(sample_set_state(store, 1, 3, &err), ERR_LIMIT);
    code = EIO;
    CHECK_CODE(store_flush(store, &err), ERR_SYSTEM);
    CHECK_EQ(err.sys, EIO);
    run_record_init(&run);
    CHECK_CODE(store_run_load(store, &id, &run, &err), ERR_NOT_FOUND);
    run_record_finish(&run);
    CHECK(store_has_batch(store));
    check_events(store, 1, 0, 0, "1:created 2:two");
    CHECK_EQ(sample_entries(store, STORE_EVENTS), 1u);
    store_set_fault(store, NULL, NULL);
    CHECK_OK(sample_create(store, 2, 1, 0, &err));
    CHECK(!store_has_batch(store));
    check_events(store, 1, 0, 0, "1:created 2:two");
    store_close(store);
}

TEST(while_the_disk_is_full_the_batch_is_bounded_and_the_oldest_go)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    int code = ENOSPC;
    struct id id = sample_id(ID_KIND_RUN, 1);
    struct sample_list list = { 0 };

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    store_set_fault(store, fail_with, &code);
    store->events.max_bytes = 10000;
    for (uint64_t number = 2; number <= 200; number++)
        CHECK_OK(sample_append(store, 1, number, "text", &err));
    CHECK(store->events.bytes <= 10000);
    CHECK(store->events.dropped > 100);
    store_set_fault(store, NULL, NULL);
    CHECK_OK(store_flush(store, &err));
    CHECK_EQ(store->events.bytes, 0u);
    CHECK_OK(store_event_each(store, &id, 0, 0, sample_add_event, &list, &err));
    CHECK_EQ(list.count + store->events.dropped, 200);
    CHECK_EQ(store_event_last(store, &id), 200);
    store_close(store);
}
