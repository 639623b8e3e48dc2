/* session_change.c: a session's own settings. */
#include "run/internal.h"

#include "common/str.h"

int session_change(struct runs *runs, const struct id *id,
                   void (*change)(struct session_record *session, const void *data),
                   const void *data, struct error *err)
{
    struct session_record session;
    int rc;

    session_record_init(&session);
    rc = store_session_load(runs->store, id, &session, err);
    if (rc == 0) {
        change(&session, data);
        rc = store_session_update(runs->store, &session, err);
    }
    session_record_finish(&session);
    if (rc < 0)
        return -1;
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (str_equal(run->session.id.text, id->text))
            change(&run->session, data);
    }
    events_session_changed(runs, id);
    return 0;
}

static void set_title(struct session_record *session, const void *data)
{
    record_set(&session->title, data);
}

int session_rename(struct runs *runs, const struct id *id, const char *title, struct error *err)
{
    if (str_blank(title))
        return error_argument(err, "title", "is empty");
    return session_change(runs, id, set_title, title, err);
}

static void set_hold(struct session_record *session, const void *data)
{
    const enum session_hold *hold = data;

    session->held = *hold == SESSION_HELD;
}

int session_hold(struct runs *runs, const struct id *id, enum session_hold hold, struct error *err)
{
    return session_change(runs, id, set_hold, &hold, err);
}
