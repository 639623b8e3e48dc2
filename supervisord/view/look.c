/* look.c: views that read the store and the runs. */
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "view/diff.h"
#include "view/view.h"

#define STEPS 10
#define STEPS_WINDOW 200 /* newest events among which steps are looked for */

void view_context_fill(struct view_context *context, struct runs *runs,
                       const struct run_record *run, uint64_t now_ms, const char *web_url)
{
    bool over = run_ended(run);

    *context = (struct view_context){
        .now_ms = now_ms,
        .web_url = web_url,
        .current_step = over ? NULL : run_current_step(runs, &run->id),
        .retrying = over ? NULL : run_retrying(runs, &run->id),
        .waiting_since_ms = over ? 0 : run_waiting_since_ms(runs, &run->id),
        .open_request = over ? NULL : run_open_request(runs, &run->id),
    };
    runs_model_limits(runs, &context->model_tokens, &context->model_microdollars);
}

struct steps {
    char *texts[STEPS]; /* a ring */
    size_t count;
};

static bool keep_step(void *data, const struct event_record *event)
{
    struct steps *steps = data;
    AUTO_BUF struct buf text = BUF_INIT(32u << 10);
    char **slot = &steps->texts[steps->count % STEPS];

    if (!view_is_step(event))
        return true;
    view_step(&text, event);
    if (text.failed)
        return true;
    free(*slot);
    *slot = buf_steal(&text);
    steps->count++;
    return true;
}

void view_run(struct json_writer *writer, struct store *store, const struct run_record *run,
              const struct view_context *context)
{
    AUTO_BUF struct buf message = BUF_INIT(16u << 10);
    uint64_t after = run->last_event > STEPS_WINDOW ? run->last_event - STEPS_WINDOW : 0;
    struct error err = ERROR_INIT;
    struct steps steps = { .count = 0 };
    const char *ordered[STEPS];
    size_t count;
    struct run_view view;

    if (store_event_each(store, &run->id, after, STEPS_WINDOW, keep_step, &steps, &err) < 0)
        log_warn(run->id.text, "its newest steps can't be read: %s", err.text);
    count = steps.count < STEPS ? steps.count : STEPS;
    for (size_t i = 0; i < count; i++)
        ordered[i] = steps.texts[(steps.count - 1 - i) % STEPS];
    view_fill(&view, run, context, &message);
    run_view_write(writer, &view, ordered, count);
    for (size_t i = 0; i < STEPS; i++)
        free(steps.texts[i]);
}

void view_run_item(struct json_writer *writer, const struct run_record *run,
                   const struct view_context *context)
{
    AUTO_BUF struct buf message = BUF_INIT(16u << 10);
    struct run_view view;

    view_fill(&view, run, context, &message);
    run_list_item_write(writer, &view);
}

uint64_t view_states_of_status(int status)
{
    struct run_record run = { 0 };
    uint64_t states = 0;

    for (uint32_t state = 0; state < RUN_STATE_COUNT; state++) {
        run.state = state;
        if (run_status_of(&run) == status)
            states |= UINT64_C(1) << state;
    }
    return states;
}

uint64_t view_states_ended(void)
{
    uint64_t states = 0;

    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        if (run_state_final((enum run_state)state))
            states |= UINT64_C(1) << state;
    }
    return states;
}

/* The store counts by finer states. */
int view_counts(struct store *store, uint64_t counts[RUN_STATUS_COUNT], struct error *err)
{
    uint64_t states[RUN_STATE_COUNT] = { 0 };
    struct run_record run = { 0 };

    if (store_run_counts(store, states, RUN_STATE_COUNT, err) < 0)
        return -1;
    for (uint32_t state = 0; state < RUN_STATE_COUNT; state++) {
        run.state = state;
        counts[run_status_of(&run)] += states[state];
    }
    return 0;
}

static bool take_first(void *data, const struct run_record *run)
{
    struct run_record *first = data;

    run_record_finish(first);
    run_record_copy(first, run);
    return false;
}

int view_newest_ended(struct store *store, const struct id *session, struct run_record *run,
                      struct error *err)
{
    struct store_run_filter filter = { .session = session,
                                       .states = view_states_ended(),
                                       .limit = 1 };

    if (store_run_each(store, &filter, take_first, run, err) < 0)
        return -1;
    if (run->id.text[0] == '\0')
        return error_set(err, ERR_NOT_FOUND, 0, "session %s has no run that has ended",
                         session->text);
    return 0;
}

int view_diff_load(struct store *store, const struct run_record *run, struct buf *diff,
                   struct error *err)
{
    if (store_diff_load(store, &run->id, diff, err) == 0)
        return 0;
    if (err->code != ERR_NOT_FOUND)
        return -1;
    if (!run_ended(run))
        return error_set(
            err, ERR_CONFLICT, 0,
            "run %s has not ended; its diff is taken at its end. What is changed by now is "
            "told for sessionId %s",
            run->id.text, run->session.text);
    return 0; /* it ended without changes, or before there was anything to compare */
}

static void write_diff(struct buf *body, const struct view_diff_source *source,
                       const struct buf *diff, const char *path, size_t max)
{
    AUTO_BUF struct buf text = BUF_INIT(STORE_DIFF_MAX + 4096);
    struct diff_options options = { .path = path, .max_bytes = max, .was_cut = source->was_cut };
    struct json_writer writer;
    bool truncated;

    json_write_init(&writer, body);
    json_write_object(&writer);
    json_member_string_opt(&writer, "runId", source->run);
    json_member_string(&writer, "sessionId", source->session);
    json_member_string(&writer, "baseCommit", source->base);
    json_member_string(&writer, "headCommit", source->head);
    json_write_name(&writer, "files");
    truncated = diff_write(buf_text(diff), diff->len, &options, &text, &writer);
    json_write_name(&writer, "diff");
    json_write_bytes(&writer, buf_text(&text), text.len);
    json_member_bool(&writer, "truncated", truncated);
    json_write_object_end(&writer);
}

void view_diff_of(struct buf *body, const struct view_diff_source *source, const struct buf *diff,
                  const char *path, size_t max)
{
    write_diff(body, source, diff, path, max);
    /* Text that is mostly control characters grows when it is escaped: rather less of it than
     * none. */
    while (body->failed && max > 4096) {
        max /= 4;
        buf_clear(body);
        write_diff(body, source, diff, path, max);
    }
}

void view_diff(struct buf *body, const struct run_record *run, const struct buf *diff,
               const char *path, size_t max)
{
    const struct view_diff_source source = { .run = run->id.text,
                                             .session = run->session.text,
                                             .base = run->evidence.base_commit,
                                             .head = run->evidence.head_commit,
                                             .was_cut = run->evidence.diff_truncated };

    view_diff_of(body, &source, diff, path, max);
}
