#include "unit/store/sample.h"

static bool add_checkpoint(void *data, const struct checkpoint_record *checkpoint)
{
    char text[64];

    snprintf(text, sizeof(text), "%u/%u", (unsigned)checkpoint->number,
             (unsigned)checkpoint->chain);
    return sample_add(data, text);
}

static int put(struct store *store, uint64_t session, uint32_t number, uint32_t chain,
               uint32_t keep_from, struct error *err)
{
    struct id id = sample_id(ID_KIND_SESSION, session);
    struct checkpoint_record checkpoint;

    checkpoint_record_init(&checkpoint);
    checkpoint.number = number;
    checkpoint.chain = chain;
    checkpoint.time_ms = 1000 + number;
    checkpoint.place_count = SESSION_PLACES_MAX;
    checkpoint.place = SESSION_PLACES_MAX - 1;
    record_set(&checkpoint.places[SESSION_PLACES_MAX - 1].agent_session, "ses_of_the_agent");
    checkpoint.places[0].cloned = true;
    int result = store_checkpoint_add(store, &id, &checkpoint, keep_from, err);
    checkpoint_record_finish(&checkpoint);
    return result;
}

TEST(checkpoints_are_listed_oldest_first_and_each_session_has_its_own)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id one = sample_id(ID_KIND_SESSION, 1);
    struct sample_list list = { 0 };

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_create(store, 2, 2, 0, &err));
    for (uint32_t n = 1; n <= 70; n++)
        CHECK_OK(put(store, 1, n, n > 300 ? 300 : 1, 0, &err));
    CHECK_OK(put(store, 2, 1, 1, 0, &err));
    CHECK_OK(store_checkpoint_each(store, &one, 0, add_checkpoint, &list, &err));
    CHECK_EQ(list.count, 70u);
    list = (struct sample_list){ 0 };
    CHECK_OK(store_checkpoint_each(store, &one, 69, add_checkpoint, &list, &err));
    CHECK_STR(list.text, "69/1 70/1");
    list = (struct sample_list){ .stop_after = 1 };
    CHECK_OK(store_checkpoint_each(store, &one, 0, add_checkpoint, &list, &err));
    CHECK_STR(list.text, "1/1");
    store_close(store);
}

TEST(older_ones_go_in_the_transaction_that_adds_one)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id one = sample_id(ID_KIND_SESSION, 1);
    struct sample_list list = { 0 };

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    for (uint32_t n = 1; n <= 4; n++)
        CHECK_OK(put(store, 1, n, n, 0, &err));
    CHECK_OK(put(store, 1, 5, 4, 4, &err));
    CHECK_OK(store_checkpoint_each(store, &one, 0, add_checkpoint, &list, &err));
    CHECK_STR(list.text, "4/4 5/4");
    CHECK_OK(store_session_delete(store, &one, &err));
    CHECK_EQ(sample_entries(store, STORE_CHECKPOINTS), 0u);
    CHECK_CODE(put(store, 1, 6, 6, 0, &err), ERR_NOT_FOUND);
    store_close(store);
}

TEST(a_checkpoint_comes_back_with_its_places)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id one = sample_id(ID_KIND_SESSION, 1);
    struct checkpoint_record back;

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(put(store, 1, 3, 2, 0, &err));
    checkpoint_record_init(&back);
    CHECK_OK(store_checkpoint_load(store, &one, 3, &back, &err));
    CHECK_EQ(back.number, 3u);
    CHECK_EQ(back.chain, 2u);
    CHECK_EQ(back.place, SESSION_PLACES_MAX - 1u);
    CHECK_STR(back.places[SESSION_PLACES_MAX - 1].agent_session, "ses_of_the_agent");
    CHECK(back.places[0].cloned);
    CHECK_CODE(store_checkpoint_load(store, &one, 4, &back, &err), ERR_NOT_FOUND);
    checkpoint_record_finish(&back);
    store_close(store);
}
