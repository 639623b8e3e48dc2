/* session_count.c: how much disk a session takes, counted in a thread. */
#include "run/internal.h"

#include "workspace/usage.h"

struct count {
    struct runs *runs;
    struct id session;
    struct workspace_layout layout;
    uv_work_t work;
    struct session_usage usage;
    void (*done)(void *data, const struct session_usage *usage, const struct error *err);
    void *data;
};

uint64_t session_count_folder(const char *folder, const atomic_bool *cancel)
{
    struct usage usage = { 0 };
    struct error ignored = ERROR_INIT;

    return usage_walk(folder, cancel, &usage, &ignored) == 0 ? usage.bytes : 0;
}

static void walk(uv_work_t *work)
{
    struct count *count = work->data;

    count->usage.file_bytes = session_count_folder(count->layout.session, NULL);
    count->usage.checkpoint_bytes = session_count_folder(count->layout.checkpoints, NULL);
}

static void set_usage(struct session_record *session, const void *data)
{
    const struct session_usage *usage = data;

    session->disk_bytes = usage->file_bytes;
    session->checkpoint_bytes = usage->checkpoint_bytes;
}

static void after_walk(uv_work_t *work, int status)
{
    struct count *count = work->data;
    struct runs *runs = count->runs;
    struct error err = ERROR_INIT;

    if (status < 0)
        error_set(&err, ERR_CANCELLED, 0, "its files were not counted");
    else if (!runs->closing)
        session_change(runs, &count->session, set_usage, &count->usage, &err);
    count->done(count->data, &count->usage, err.code != ERR_NONE ? &err : NULL);
    workspace_layout_finish(&count->layout);
    free(count);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

int session_count(struct runs *runs, const struct id *id,
                  void (*done)(void *data, const struct session_usage *usage,
                               const struct error *err),
                  void *data, struct error *err)
{
    struct count *count = NEW(struct count);

    count->runs = runs;
    count->session = *id;
    count->done = done;
    count->data = data;
    count->work.data = count;
    workspace_layout_init(&count->layout, runs->options.state_dir, id->text);
    if (uv_queue_work(runs->loop, &count->work, walk, after_walk) != 0) {
        workspace_layout_finish(&count->layout);
        free(count);
        return error_set(err, ERR_SYSTEM, 0, "its files can't be counted now");
    }
    runs->open_runs++;
    return 0;
}
