/* registry.c: all live runs. Few at a time, so a list is searched. */
#include "run/internal.h"

#include "common/str.h"

struct run *registry_find(struct runs *runs, const char *id)
{
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (str_equal(run->record.id.text, id))
            return run;
    }
    return NULL;
}

struct run *registry_find_session(struct runs *runs, const struct id *session, bool active_only)
{
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (str_equal(run->session.id.text, session->text) &&
            (!active_only || run->record.state != RUN_QUEUED))
            return run;
    }
    return NULL;
}

uint32_t registry_places_in_use(struct runs *runs, const struct id *session)
{
    uint32_t found = 0;

    LIST_EACH(&runs->live, link) {
        const struct run *run = LIST_ENTRY(link, struct run, link);

        if (str_equal(run->session.id.text, session->text))
            found |= UINT32_C(1) << run->record.place;
    }
    return found;
}

void registry_session_grew(struct runs *runs, const struct session_record *session)
{
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (!str_equal(run->session.id.text, session->id.text))
            continue;
        record_set(&run->session.title, session->title);
        run->session.run_count = session->run_count;
        run->session.last_run = session->last_run;
        places_take_new(&run->session, session);
    }
}

static void run_free(void *data)
{
    struct run *run = data;
    struct runs *runs = run->runs;

    run_record_finish(&run->record);
    session_record_finish(&run->session);
    workspace_layout_finish(&run->layout);
    free(run->runtime_dir);
    told_free(run->told);
    trouble_finish(run);
    waiting_forget_all(run);
    free(run->current_step);
    free(run);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

struct run *registry_add(struct runs *runs, const struct run_record *record,
                         const struct session_record *session)
{
    struct run *run = NEW(struct run);

    run->runs = runs;
    run_record_copy(&run->record, record);
    session_record_copy(&run->session, session);
    workspace_layout_init(&run->layout, runs->options.state_dir, session->id.text);
    run->runtime_dir = mem_printf("%s/sandboxes/%s", runs->options.runtime_dir, session->id.text);
    list_init(&run->execs);
    list_init(&run->pages);
    handles_init(&run->handles, run_free, run);
    uv_timer_init(runs->loop, &run->deadline);
    handles_add(&run->handles, (uv_handle_t *)&run->deadline, run);
    uv_timer_init(runs->loop, &run->watch);
    handles_add(&run->handles, (uv_handle_t *)&run->watch, run);
    uv_timer_init(runs->loop, &run->checkpoints.timer);
    handles_add(&run->handles, (uv_handle_t *)&run->checkpoints.timer, run);
    waiting_init(run);
    list_append(&runs->live, &run->link);
    runs->open_runs++;
    return run;
}

void registry_release(struct run *run)
{
    uv_handle_t *handles[] = { (uv_handle_t *)&run->deadline, (uv_handle_t *)&run->watch,
                               (uv_handle_t *)&run->answer,
                               (uv_handle_t *)&run->checkpoints.timer };

    list_remove(&run->link);
    handles_close_all(&run->handles, run->runs->loop, handles, ARRAY_LEN(handles));
}
