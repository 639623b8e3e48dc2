#include <errno.h>

#include "unit/store/sample.h"

static int append(struct store *store, uint64_t run, const char *path, struct error *err)
{
    struct audit_record audit;

    audit_record_init(&audit);
    if (run != 0)
        audit.run = sample_id(ID_KIND_RUN, run);
    record_set(&audit.path, path);
    int result = store_audit_append(store, &audit, err);
    audit_record_finish(&audit);
    return result;
}

static bool add_audit(void *data, const struct audit_record *audit)
{
    char text[64];

    snprintf(text, sizeof(text), "%llu:%.40s", (unsigned long long)audit->number, audit->path);
    return sample_add(data, text);
}

static void check_audit(struct store *store, uint64_t run, uint64_t before, size_t limit,
                        const char *expected)
{
    struct error err = ERROR_INIT;
    struct sample_list list = { 0 };
    struct id id = sample_id(ID_KIND_RUN, run);

    CHECK_OK(store_audit_each(store, run != 0 ? &id : NULL, before, limit, add_audit, &list, &err));
    CHECK_STR(list.text, expected);
}

static void check_both(struct store *store)
{
    check_audit(store, 0, 0, 0, "5:e 4:d 3:c 2:b 1:a");
    check_audit(store, 1, 0, 0, "4:d 2:b 1:a");
    check_audit(store, 2, 0, 0, "5:e");
    check_audit(store, 3, 0, 0, "");
    check_audit(store, 0, 4, 2, "3:c 2:b");
    check_audit(store, 1, 4, 1, "2:b");
    check_audit(store, 1, 1, 0, "");
}

TEST(audit_records_are_read_newest_first_from_memory_and_disk_alike)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();

    CHECK_OK(append(store, 1, "a", &err));
    CHECK_OK(append(store, 1, "b", &err));
    CHECK_OK(store_flush(store, &err));
    CHECK_OK(append(store, 0, "c", &err));
    CHECK_OK(append(store, 1, "d", &err));
    CHECK_OK(append(store, 2, "e", &err));
    check_both(store);
    CHECK(store_has_batch(store));
    store_close(store);
    store = sample_open();
    check_both(store);
    CHECK_OK(append(store, 0, "f", &err));
    check_audit(store, 0, 0, 1, "6:f");
    store_close(store);
}

TEST(many_audit_records_go_through_pages)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct sample_list list = { 0 };
    struct id id = sample_id(ID_KIND_RUN, 2);

    for (uint64_t n = 0; n < 400; n++) {
        CHECK_OK(append(store, n % 2 + 1, "", &err));
        if (n == 250)
            CHECK_OK(store_flush(store, &err));
    }
    CHECK_OK(store_audit_each(store, NULL, 0, 0, add_audit, &list, &err));
    CHECK_EQ(list.count, 400u);
    list = (struct sample_list){ 0 };
    CHECK_OK(store_audit_each(store, &id, 0, 0, add_audit, &list, &err));
    CHECK_EQ(list.count, 200u);
    list = (struct sample_list){ .stop_after = 3 };
    CHECK_OK(store_audit_each(store, &id, 0, 0, add_audit, &list, &err));
    CHECK_STR(list.text, "400: 398: 396:");
    store_close(store);
}

TEST(audit_records_outlive_their_session)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct id session = sample_id(ID_KIND_SESSION, 1);

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(append(store, 1, "a", &err));
    CHECK_OK(store_session_delete(store, &session, &err));
    check_audit(store, 1, 0, 0, "1:a");
    store_close(store);
}

static int full(void *data)
{
    (void)data;
    return ENOSPC;
}

TEST(audit_records_wait_for_room_within_a_bound)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    struct sample_list list = { 0 };

    store_set_fault(store, full, NULL);
    store->audit.max_bytes = 5000;
    for (int n = 0; n < 100; n++)
        CHECK_OK(append(store, 0, "x", &err));
    CHECK_CODE(store_flush(store, &err), ERR_LIMIT);
    CHECK(store->audit.dropped > 0);
    store_set_fault(store, NULL, NULL);
    CHECK_OK(store_flush(store, &err));
    CHECK_OK(store_audit_each(store, NULL, 0, 0, add_audit, &list, &err));
    CHECK_EQ(list.count + store->audit.dropped, 100);
    CHECK_EQ(store->audit.bytes, 0u);
    store_close(store);
}

static void check_after(struct store *store, uint64_t run, uint64_t after, size_t limit,
                        const char *expected)
{
    struct error err = ERROR_INIT;
    struct sample_list list = { 0 };
    struct id id = sample_id(ID_KIND_RUN, run);

    CHECK_OK(store_audit_after(store, run != 0 ? &id : NULL, after, limit, add_audit, &list, &err));
    CHECK_STR(list.text, expected);
}

static void check_after_all(struct store *store)
{
    check_after(store, 0, 0, 0, "1:a 2:b 3:c 4:d 5:e");
    check_after(store, 0, 2, 0, "3:c 4:d 5:e");
    check_after(store, 0, 2, 2, "3:c 4:d");
    check_after(store, 1, 0, 0, "1:a 2:b 4:d");
    check_after(store, 1, 1, 1, "2:b");
    check_after(store, 2, 4, 0, "5:e");
    check_after(store, 3, 0, 0, "");
    check_after(store, 0, 5, 0, "");
    check_after(store, 0, UINT64_MAX, 0, "");
}

TEST(audit_records_are_read_oldest_first_behind_a_number)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();

    CHECK_OK(append(store, 1, "a", &err));
    CHECK_OK(append(store, 1, "b", &err));
    CHECK_OK(store_flush(store, &err));
    CHECK_OK(append(store, 0, "c", &err));
    CHECK_OK(append(store, 1, "d", &err));
    CHECK_OK(append(store, 2, "e", &err));
    check_after_all(store);
    store_close(store);
    store = sample_open();
    check_after_all(store);
    store_close(store);
}

static bool count_upwards(void *data, const struct audit_record *audit)
{
    uint64_t *last = data;

    if (audit->number != *last + 1)
        return false;
    *last = audit->number;
    return true;
}

TEST(many_audit_records_are_read_upwards_across_disk_and_memory)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();
    uint64_t last = 0;

    for (uint64_t n = 0; n < 400; n++) {
        CHECK_OK(append(store, 1, "", &err));
        if (n == 191) /* three whole pages on disk, and three more in memory */
            CHECK_OK(store_flush(store, &err));
    }
    CHECK_OK(store_audit_after(store, NULL, 0, 0, count_upwards, &last, &err));
    CHECK_EQ(last, 400u);
    store_close(store);
}
