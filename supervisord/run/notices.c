/* notices.c: which runs people are yet to be told of. */
#include "run/internal.h"

int runs_notices_due(struct runs *runs, struct id *due, size_t size, size_t *count,
                     struct error *err)
{
    return store_notices_due(runs->store, due, size, count, err);
}

static int told_of_ended(struct runs *runs, const struct id *id, uint64_t number, struct error *err)
{
    struct run_record record;
    int rc;

    run_record_init(&record);
    rc = store_run_load(runs->store, id, &record, err);
    if (rc == 0 && record.notice_due == number) {
        record.notice_due = 0;
        rc = store_run_update(runs->store, &record, NULL, NULL, err);
    }
    run_record_finish(&record);
    return rc;
}

int runs_notice_told(struct runs *runs, const struct id *id, uint64_t number, struct error *err)
{
    struct run *run = registry_find(runs, id->text);

    if (run == NULL)
        return told_of_ended(runs, id, number, err);
    if (run->record.notice_due != number)
        return 0;
    run->record.notice_due = 0;
    if (store_run_update(runs->store, &run->record, NULL, NULL, err) == 0)
        return 0;
    run->record.notice_due = number;
    return -1;
}
