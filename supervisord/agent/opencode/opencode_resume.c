#include "agent/opencode/opencode_internal.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define PROBE_MS 1000
#define HELD_MAX (8u * 1024 * 1024)

/* The line that says "listening" may have been read by the supervisor that is gone, and a request
 * sent before it is never answered: so each question is a short one. */
static void probe(struct opencode *opencode);

static void on_probe_timer(uv_timer_t *timer)
{
    probe(timer->data);
}

static void on_probe(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;

    opencode->request = NULL;
    if (opencode->phase != OPENCODE_LISTENING)
        return;
    if (response->err == NULL && response->status == 200)
        opencode_on_listening(opencode);
    else
        uv_timer_start(&opencode->step_timer, on_probe_timer, opencode->timing.reconnect, 0);
}

static void probe(struct opencode *opencode)
{
    struct opencode_request request = { .method = "GET",
                                        .path = "/global/health",
                                        .timeout_ms = PROBE_MS };
    struct error err = ERROR_INIT;

    if (opencode->phase != OPENCODE_LISTENING || opencode->exit_text[0] != '\0')
        return;
    if (opencode_http_send(&opencode->request, opencode->http, &request, on_probe, opencode,
                           &err) == 0)
        return;
    opencode->request = NULL;
    uv_timer_start(&opencode->step_timer, on_probe_timer, PROBE_MS, 0);
}

void opencode_resume_attached(struct opencode *opencode)
{
    log_info(opencode->id, "OpenCode is there still");
    probe(opencode);
}

void opencode_resume_opened(struct opencode *opencode)
{
    opencode->phase = OPENCODE_READY;
    opencode_prompt_follow(opencode);
}

bool opencode_resume_hold(struct opencode *opencode, const char *bytes, size_t len)
{
    /* A new stream's greeting is not for later. */
    if (!opencode->resuming || !opencode->stream_live)
        return false;
    buf_append(&opencode->held, bytes, len);
    return true;
}

void opencode_resume_caught_up(struct opencode *opencode)
{
    struct buf held = opencode->held;

    buf_init(&opencode->held, HELD_MAX);
    opencode->resuming = false;
    uv_timer_stop(&opencode->start_timer);
    opencode->callbacks.on_ready(opencode->callbacks.data, NULL, NULL);
    if (!opencode->closing && held.failed) {
        /* More than could be kept: a new stream, and the state is read again. */
        opencode_drop(&opencode->stream);
        opencode_events_reconnected(opencode->events);
        opencode->stream_live = false;
        opencode->stream_lost_ms = uv_now(opencode->loop);
        opencode_stream_reopen(opencode);
    } else if (!opencode->closing && held.len > 0) {
        opencode_events_feed(opencode->events, held.data, held.len);
    }
    buf_finish(&held);
}

static int check(const struct agent_resume *resume, struct error *err)
{
    if (resume->process_id == 0)
        return error_set(err, ERR_NOT_FOUND, 0, "OpenCode's process is not known");
    if (resume->prompt_id != NULL && !opencode_id_usable(resume->prompt_id))
        return error_set(err, ERR_INVALID, 0, "OpenCode has no message %.60s", resume->prompt_id);
    return 0;
}

/* What became of the prompt is found by reading the conversation once it is open. */
static void take_prompt(struct opencode *opencode, const struct agent_resume *resume)
{
    struct opencode_prompt *prompt = &opencode->prompt;

    opencode->resuming = true;
    buf_init(&opencode->held, HELD_MAX);
    str_copy(prompt->message_id, sizeof(prompt->message_id), resume->prompt_id);
    prompt->text = mem_strdup(resume->text);
    prompt->taken = resume->taken;
    prompt->unsent = !resume->taken;
    opencode_events_begin(opencode->events, prompt->message_id, resume->sent_ms);
    opencode_steer_resume(opencode, resume);
}

int opencode_resume_with(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                         const struct agent_options *options, const struct agent_resume *resume,
                         const struct agent_callbacks *callbacks,
                         const struct opencode_timing *timing, struct error *err)
{
    struct opencode *opencode;

    if (check(resume, err) < 0 ||
        opencode_new(&opencode, loop, host, options, callbacks, timing, err) < 0)
        return -1;
    opencode->resumed = true;
    if (opencode_process_attach(opencode, resume->process_id, err) < 0) {
        opencode_discard(opencode);
        return -1;
    }
    if (resume->prompt_id != NULL)
        take_prompt(opencode, resume);
    opencode_begin_start(opencode);
    *out = &opencode->agent;
    return 0;
}

int opencode_resume(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                    const struct agent_options *options, const struct agent_resume *resume,
                    const struct agent_callbacks *callbacks, struct error *err)
{
    return opencode_resume_with(out, loop, host, options, resume, callbacks, &opencode_timing, err);
}
