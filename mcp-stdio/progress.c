#include "mcp-stdio/progress.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "proto/msg_event.h"
#include "proto/msg_run.h"

#define BEAT_MS 5000
#define PAUSE_MS 1000 /* between two lines at least */

void progress_init(struct progress *progress, struct jsonrpc_slice token)
{
    *progress = (struct progress){ .due_ms = UINT64_MAX };
    if (!token.data)
        return;
    progress->token = mem_strndup(token.data, token.len);
    progress->token_len = token.len;
}

void progress_finish(struct progress *progress)
{
    free(progress->token);
    progress->token = NULL;
}

/* Copies as much as fits; true when that changes TO. */
static bool set(char *to, size_t size, const char *text)
{
    char before[sizeof(((struct progress *)0)->step)];

    if (!text)
        return false;
    str_copy(before, sizeof(before), to);
    str_copy(to, size, text);
    return strcmp(before, to) != 0;
}

static bool set_status(struct progress *progress, const char *status)
{
    return set(progress->status, sizeof(progress->status), status);
}

static bool set_phase(struct progress *progress, const char *phase)
{
    return set(progress->phase, sizeof(progress->phase), phase);
}

static bool set_step(struct progress *progress, const char *text)
{
    return set(progress->step, sizeof(progress->step), text);
}

void progress_begin(struct progress *progress, const struct json_value *view, uint64_t now_ms)
{
    const struct json_value *newest = json_first(json_get(view, "steps"));

    if (!progress_wanted(progress))
        return;
    set_status(progress, json_string(json_get(view, "status")));
    set_phase(progress, json_string(json_get(view, "phase")));
    set_step(progress, json_string(json_get(newest, "text")));
    progress->begun_ms = now_ms;
    progress->due_ms = now_ms;
}

static bool is_ended(const char *status)
{
    for (int i = 0; status && run_status_names[i]; i++)
        if (strcmp(status, run_status_names[i]) == 0)
            return run_status_ended((enum run_status)i);
    return false;
}

static bool is_step(const char *kind)
{
    static const enum event_kind steps[] = { EVENT_KIND_TEXT,       EVENT_KIND_TOOL,
                                             EVENT_KIND_TODO,       EVENT_KIND_QUESTION,
                                             EVENT_KIND_RETRY,      EVENT_KIND_REFUSED,
                                             EVENT_KIND_PERMISSION, EVENT_KIND_ERROR };

    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (str_equal(kind, event_kind_names[steps[i]]))
            return true;
    return false;
}

void progress_event(struct progress *progress, const struct json_value *event, uint64_t now_ms)
{
    const char *kind = json_string(json_get(event, "kind"));
    bool changed = false;

    if (!progress_wanted(progress))
        return;
    if (str_equal(kind, event_kind_names[EVENT_KIND_STATE])) {
        changed = set_status(progress, json_string(json_path(event, "data.status")));
        changed |= set_phase(progress, json_string(json_path(event, "data.phase")));
        /* The answer to the call follows at once, and clients drop a line that comes with it. */
        if (is_ended(progress->status))
            changed = false;
    } else if (is_step(kind)) {
        changed = set_step(progress, json_string(json_get(event, "text")));
    }
    if (!changed)
        return;
    progress->due_ms = progress->last_ms && progress->last_ms + PAUSE_MS > now_ms
                           ? progress->last_ms + PAUSE_MS
                           : now_ms;
}

void progress_write(struct progress *progress, struct json_writer *writer, uint64_t now_ms)
{
    AUTO_BUF struct buf message = BUF_INIT(1024);

    buf_append_str(&message, progress->status);
    if (progress->phase[0])
        buf_printf(&message, " (%s)", progress->phase);
    if (progress->step[0])
        buf_printf(&message, ": %s", progress->step);
    buf_printf(&message, " [waited %llu s]",
               (unsigned long long)((now_ms - progress->begun_ms) / 1000));
    json_write_name(writer, "progressToken");
    json_write_raw(writer, progress->token, progress->token_len);
    json_member_u64(writer, "progress", ++progress->count);
    json_member_string(writer, "message", buf_text(&message));
    progress->last_ms = now_ms;
    progress->due_ms = now_ms + BEAT_MS;
}
