#include "agent/opencode/opencode_internal.h"
#include "common/log.h"
#include "common/mem.h"

#define RECONNECT_MAX_MS 5000
#define SYNC_CHILDREN_MAX 16

/* The stream ---------------------------------------------------------------------------------- */

static void on_stream_data(void *data, const char *bytes, size_t len)
{
    struct opencode *opencode = data;

    if (!opencode_resume_hold(opencode, bytes, len))
        opencode_events_feed(opencode->events, bytes, len);
}

static void on_stream_end(void *data, const struct error *err)
{
    struct opencode *opencode = data;
    struct error failed = *err;

    opencode->stream = NULL;
    if (opencode->phase == OPENCODE_STREAMING) {
        error_wrap(&failed, "OpenCode's events");
        opencode_start_failed(opencode, "agent_not_ready", &failed);
        return;
    }
    if (opencode->phase == OPENCODE_DEAD || opencode->exit_text[0] != '\0')
        return;
    if (opencode->stream_live)
        opencode->stream_lost_ms = uv_now(opencode->loop);
    opencode->stream_live = false;
    opencode_drop(&opencode->sync_request);
    log_debug(opencode->id, "agent's event stream: %s", err->text);
    opencode_stream_reopen(opencode);
}

int opencode_stream_open(struct opencode *opencode, struct error *err)
{
    struct opencode_stream_callbacks callbacks = { .on_data = on_stream_data,
                                                   .on_end = on_stream_end,
                                                   .data = opencode };

    opencode_events_reconnected(opencode->events);
    buf_clear(&opencode->held);
    return opencode_http_listen(&opencode->stream, opencode->http, "/event",
                                opencode->timing.silence, &callbacks, err);
}

void opencode_stream_reopen(struct opencode *opencode)
{
    uint64_t wait = opencode->timing.reconnect
                    << (opencode->reconnects < 8 ? opencode->reconnects : 8);
    bool waited_for = opencode->prompt.state != PROMPT_NONE;

    if (waited_for &&
        uv_now(opencode->loop) - opencode->stream_lost_ms >= opencode->timing.stream_lost) {
        opencode_prompt_fail(opencode, "agent_stalled",
                             "the agent's event stream was lost and could not be opened again");
        if (opencode->closing)
            return;
    }
    opencode->reconnects++;
    uv_timer_start(&opencode->stream_timer, opencode_on_stream_timer,
                   wait < RECONNECT_MAX_MS ? wait : RECONNECT_MAX_MS, 0);
}

/* State by REST ------------------------------------------------------------------------------- */

struct sync_step {
    const char *path; /* the whole path, or what follows the session in it */
    bool of_session;  /* "/session/ID" stands before */
    void (*read)(struct opencode_events *events, const struct json_value *json);
};

enum { STEP_MESSAGES = 1 };

static const struct sync_step sync_steps[] = {
    { "/children", true, opencode_events_read_children },
    [STEP_MESSAGES] = { "/message?limit=100", true, opencode_events_read_messages },
    { "/permission", false, opencode_events_read_permissions },
    { "/question", false, opencode_events_read_questions },
};

/* A resume reads the whole list, as far as it can be had: everything since the prompt may be news.
 */
static const struct sync_step whole_step = { "/message", true, opencode_events_read_messages };

/* Then the messages of each subagent. */
static const struct sync_step child_step = { "/message?limit=100", true,
                                             opencode_events_read_messages };

static const struct sync_step *current_step(const struct opencode *opencode, const char **session)
{
    unsigned step = opencode->sync_step;

    *session = opencode->conversation;
    if (step == STEP_MESSAGES && opencode->resuming && !opencode->too_long)
        return &whole_step;
    if (step < ARRAY_LEN(sync_steps))
        return &sync_steps[step];
    step -= (unsigned)ARRAY_LEN(sync_steps);
    *session = step < SYNC_CHILDREN_MAX ? opencode_events_child(opencode->events, step) : NULL;
    return *session != NULL ? &child_step : NULL;
}

static void ask_step(struct opencode *opencode);

static void on_step_answer(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    const char *session;
    const struct sync_step *step = current_step(opencode, &session);
    struct error err = ERROR_INIT;

    opencode->sync_request = NULL;
    if (opencode_expect_ok(response, "look at the state", &err) < 0) {
        log_debug(opencode->id, "%s", err.text);
        opencode->too_long |= response->err != NULL && response->err->code == ERR_LIMIT;
        opencode_sync_later(opencode);
        return;
    }
    if (step != NULL)
        step->read(opencode->events, response->json);
    if (opencode->closing || opencode->prompt.state == PROMPT_NONE)
        return;
    opencode->sync_step++;
    if (current_step(opencode, &session) != NULL)
        ask_step(opencode);
    else
        opencode_prompt_synced(opencode);
}

static void ask_step(struct opencode *opencode)
{
    const char *session;
    const struct sync_step *step = current_step(opencode, &session);
    AUTO_FREE
    char *path = step->of_session ? mem_printf("/session/%s%s", session, step->path)
                                  : mem_strdup(step->path);

    opencode_ask(opencode, &opencode->sync_request, "GET", path, NULL, on_step_answer);
}

/* Reconnects when there is no stream, else looks at the state. */
void opencode_on_stream_timer(uv_timer_t *timer)
{
    struct opencode *opencode = timer->data;
    struct error err = ERROR_INIT;

    if (opencode->phase < OPENCODE_OPENING || opencode->phase == OPENCODE_DEAD ||
        opencode->exit_text[0] != '\0')
        return;
    if (opencode->stream == NULL) {
        if (opencode_stream_open(opencode, &err) < 0)
            opencode_stream_reopen(opencode);
        return;
    }
    if (!opencode->stream_live || opencode->prompt.state == PROMPT_NONE ||
        opencode->sync_request != NULL)
        return;
    opencode->sync_step = 0;
    ask_step(opencode);
}

void opencode_sync_later(struct opencode *opencode)
{
    if (opencode->stream != NULL && !uv_is_active((uv_handle_t *)&opencode->stream_timer))
        uv_timer_start(&opencode->stream_timer, opencode_on_stream_timer, opencode->timing.again,
                       0);
}
