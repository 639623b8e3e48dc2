#include <string.h>

#include "agent/opencode/opencode_internal.h"
#include "common/id.h"
#include "common/json_write.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define BODY_MAX (1024 * 1024)

static void on_warm_timeout(uv_timer_t *timer);

/* Sending ------------------------------------------------------------------------------------- */

/* An id as OpenCode makes them: its order is that of time, and it decides which message is the
 * newer one. Twelve hexadecimal digits of milliseconds times 4096 plus a counter, then random
 * letters. Our counter is 0, theirs begins at 1. */
void opencode_make_message_id(struct opencode *opencode, char to[OPENCODE_ID_SIZE])
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unsigned char random[14];
    uint64_t now = clock_wall_ms(opencode->clock);
    size_t len;

    opencode->last_id_ms = now > opencode->last_id_ms ? now : opencode->last_id_ms + 1;
    len = (size_t)snprintf(to, OPENCODE_ID_SIZE, "msg_%012llx",
                           (unsigned long long)((opencode->last_id_ms << 12) & 0xffffffffffff));
    id_random(random, sizeof(random));
    for (size_t i = 0; i < sizeof(random); i++)
        to[len++] = letters[random[i] % (sizeof(letters) - 1)];
    to[len] = '\0';
}

int opencode_write_prompt(struct opencode *opencode, const char *id, const char *text,
                          struct buf *body)
{
    struct json_writer writer;

    buf_init(body, BODY_MAX);
    json_write_init(&writer, body);
    json_write_object(&writer);
    json_member_string(&writer, "messageID", id);
    /* Always with its model: a session remembers the last one used, even a bad one. */
    json_write_name(&writer, "model");
    json_write_object(&writer);
    json_member_string(&writer, "providerID", opencode->model.provider);
    json_member_string(&writer, "modelID", opencode->model.name);
    json_write_object_end(&writer);
    json_write_name(&writer, "parts");
    json_write_array(&writer);
    if (text != NULL) {
        json_write_object(&writer);
        json_member_string(&writer, "type", "text");
        json_member_string(&writer, "text", text);
        json_write_object_end(&writer);
    }
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    return body->failed ? -1 : 0;
}

static void on_sent(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct error err = ERROR_INIT;

    opencode->request = NULL;
    if (response->err == NULL &&
        opencode_expect_ok(response, "OpenCode refused the prompt", &err) < 0) {
        opencode_prompt_fail(opencode, "not_started", err.text);
        return;
    }
    if (opencode->prompt.stop != STOP_NO)
        opencode_post_abort(opencode);
    if (opencode->prompt.state != PROMPT_SENDING)
        return;
    /* Without an answer its fate is unknown: it is never sent again, the messages tell. */
    if (response->err != NULL) {
        log_warn(opencode->id, "prompt: %s", response->err->text);
        opencode_look_after(opencode, opencode->timing.again);
        return;
    }
    opencode->prompt.state = PROMPT_SENT;
    uv_timer_start(&opencode->step_timer, opencode_on_step, opencode->timing.taken, 0);
}

static void post_prompt(struct opencode *opencode)
{
    AUTO_FREE
    char *path = mem_printf("/session/%s/prompt_async", opencode->conversation);
    AUTO_BUF struct buf body = { 0 };

    if (opencode_write_prompt(opencode, opencode->prompt.message_id, opencode->prompt.text, &body) <
        0) {
        opencode_prompt_fail(opencode, "not_started", "the prompt is too long");
        return;
    }
    opencode->prompt.state = PROMPT_SENDING;
    opencode_ask(opencode, &opencode->request, "POST", path, buf_text(&body), on_sent);
}

/* Its id is on disk before it is sent, so that a later supervisor can ask whether it arrived. */
static void send_prompt(struct opencode *opencode)
{
    uint64_t now = clock_wall_ms(opencode->clock);
    struct opencode_prompt *prompt = &opencode->prompt;

    opencode_make_message_id(opencode, prompt->message_id);
    if (!opencode->callbacks.on_sending(opencode->callbacks.data, opencode->conversation,
                                        prompt->message_id)) {
        opencode_prompt_fail(opencode, "not_started", "the prompt could not be recorded");
        return;
    }
    opencode->newest_created_ms = now;
    opencode_events_begin(opencode->events, prompt->message_id, now);
    post_prompt(opencode);
}

void opencode_prompt_send_again(struct opencode *opencode)
{
    opencode_log_event(opencode, "the prompt had not arrived; it is sent now");
    if (opencode->closing || opencode->prompt.state == PROMPT_NONE)
        return;
    opencode->prompt.unsent = false;
    post_prompt(opencode);
}

/* Waits for what a prompt needs: the event stream, and a clock that is past the conversation's last
 * message. */
static void try_to_send(struct opencode *opencode)
{
    uint64_t now = clock_wall_ms(opencode->clock);
    uint64_t newest = opencode->newest_created_ms;
    char text[160];

    if (!opencode->stream_live) {
        if (uv_now(opencode->loop) - opencode->prompt.begun_ms >= opencode->timing.stream_lost)
            opencode_prompt_fail(opencode, "agent_stalled",
                                 "the agent's event stream can't be opened");
        else
            uv_timer_start(&opencode->step_timer, opencode_on_step, opencode->timing.again, 0);
        return;
    }
    if (newest < now) {
        send_prompt(opencode);
        return;
    }
    if (newest - now <= opencode->timing.clock_ahead) {
        uv_timer_start(&opencode->step_timer, opencode_on_step, newest - now + 1, 0);
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "this machine's clock is %llu s behind the conversation's last message",
                   (unsigned long long)(newest - now) / 1000);
    opencode_prompt_fail(opencode, "not_started", text);
}

/* One timer for a prompt's own waits. */
void opencode_on_step(uv_timer_t *timer)
{
    struct opencode *opencode = timer->data;

    switch (opencode->prompt.state) {
    case PROMPT_WAITING:
        if (opencode->prompt.stop == STOP_NO) {
            try_to_send(opencode);
        } else {
            struct agent_end end = opencode_empty_end(AGENT_END_ABORTED);

            opencode_end_prompt(opencode, &end);
        }
        return;
    case PROMPT_SENT:
    case PROMPT_SETTLING:
        opencode_ask_status(opencode);
        return;
    case PROMPT_NONE:
    case PROMPT_SENDING:
    case PROMPT_RUNNING:
        return;
    }
}

/* An event can get lost in spite of all: after a time of silence the status is asked for. */
static void on_quiet(uv_timer_t *timer)
{
    struct opencode *opencode = timer->data;

    if (opencode->prompt.state == PROMPT_RUNNING &&
        uv_now(opencode->loop) - opencode->prompt.progress_ms >= opencode->timing.quiet) {
        opencode->prompt.progress_ms = uv_now(opencode->loop);
        opencode_look_after(opencode, 0);
    }
}

static void watch_quiet(struct opencode *opencode)
{
    opencode->prompt.begun_ms = opencode->prompt.progress_ms = uv_now(opencode->loop);
    uv_timer_start(&opencode->quiet_timer, on_quiet, opencode->timing.quiet / 2,
                   opencode->timing.quiet / 2);
}

void opencode_prompt_follow(struct opencode *opencode)
{
    opencode->prompt.state = PROMPT_RUNNING;
    watch_quiet(opencode);
    uv_timer_start(&opencode->stream_timer, opencode_on_stream_timer, 0, 0);
}

int opencode_prompt(struct agent *agent, const char *text, struct error *err)
{
    struct opencode *opencode = opencode_of(agent);

    if (opencode->phase != OPENCODE_READY || opencode->exit_text[0] != '\0')
        return error_set(err, ERR_UNAVAILABLE, 0, "the agent is not running");
    if (opencode->health != HEALTH_GOOD)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "the agent can take no more prompts in this process");
    if (opencode->prompt.state != PROMPT_NONE)
        return error_set(err, ERR_CONFLICT, 0, "the agent is at work");
    opencode->prompt.state = PROMPT_WAITING;
    opencode->prompt.text = mem_strdup(text);
    watch_quiet(opencode);
    uv_timer_start(&opencode->step_timer, opencode_on_step, 0, 0);
    return 0;
}

/* Stopping ------------------------------------------------------------------------------------ */

static void on_child_aborted(void *data, const struct opencode_response *response)
{
    (void)data;
    (void)response;
}

static void abort_children(struct opencode *opencode)
{
    const char *child;

    for (size_t i = 0; (child = opencode_events_child(opencode->events, i)) != NULL; i++) {
        AUTO_FREE
        char *path = mem_printf("/session/%s/abort", child);
        struct opencode_request request = { .method = "POST",
                                            .path = path,
                                            .timeout_ms = opencode->timing.abort };
        struct opencode_exchange *unused;
        struct error ignored = ERROR_INIT;

        (void)opencode_http_send(&unused, opencode->http, &request, on_child_aborted, opencode,
                                 &ignored);
    }
}

static void on_abort_answer(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct error err = ERROR_INIT;

    opencode->abort_request = NULL;
    if (opencode_expect_ok(response, "stop the agent", &err) < 0)
        log_warn(opencode->id, "%s", err.text);
    /* An idle session answers the same, and a prompt just sent may not have begun: look. */
    if (opencode->prompt.state != PROMPT_SETTLING)
        opencode_look_after(opencode, opencode->timing.debounce);
}

void opencode_post_abort(struct opencode *opencode)
{
    AUTO_FREE
    char *path = mem_printf("/session/%s/abort", opencode->conversation);

    if (opencode->abort_request != NULL)
        return;
    if (!opencode->warm) {
        if (!uv_is_active((uv_handle_t *)&opencode->warm_timer))
            uv_timer_start(&opencode->warm_timer, on_warm_timeout, opencode->timing.warm, 0);
        return;
    }
    opencode_ask(opencode, &opencode->abort_request, "POST", path, NULL, on_abort_answer);
    abort_children(opencode);
}

/* OpenCode prepares itself at a process's first prompt. Interrupted in that, it answers every later
 * prompt with an error ("All fibers interrupted"), so the first stop waits until an answer has
 * begun; when none does, the process is used up. */
static void on_warm_timeout(uv_timer_t *timer)
{
    struct opencode *opencode = timer->data;

    opencode->health = HEALTH_USED_UP;
    opencode->warm = true;
    opencode_post_abort(opencode);
}

static void on_abort_timeout(uv_timer_t *timer)
{
    struct opencode *opencode = timer->data;
    struct agent_end end = opencode_empty_end(AGENT_END_ABORTED);

    if (opencode->health == HEALTH_GOOD)
        opencode->health = HEALTH_UNSTOPPED;
    if (opencode->prompt.stop == STOP_DOOMED) {
        opencode_end_failed(opencode, &opencode->prompt.doom, "", "");
        return;
    }
    end.message = "the agent did not stop when asked";
    end.hint = "its sandbox has to be ended";
    opencode_end_prompt(opencode, &end);
}

static void stop(struct opencode *opencode, enum opencode_stop why)
{
    struct opencode_prompt *prompt = &opencode->prompt;

    prompt->stop = why;
    uv_timer_start(&opencode->abort_timer, on_abort_timeout, opencode->timing.abort, 0);
    switch (prompt->state) {
    case PROMPT_WAITING:
        uv_timer_start(&opencode->step_timer, opencode_on_step, 0, 0);
        return;
    case PROMPT_SENT:
    case PROMPT_RUNNING:
    case PROMPT_SETTLING:
        opencode_post_abort(opencode);
        return;
    case PROMPT_SENDING: /* on_sent does it */
    case PROMPT_NONE:
        return;
    }
}

void opencode_abort(struct agent *agent)
{
    struct opencode *opencode = opencode_of(agent);

    if (opencode->prompt.state == PROMPT_NONE || opencode->closing)
        return;
    if (opencode->prompt.stop == STOP_NO)
        stop(opencode, STOP_ASKED);
    opencode->prompt.stop = STOP_ASKED;
}

static void doom(struct opencode *opencode, const char *code, const char *message)
{
    if (opencode->prompt.stop != STOP_NO)
        return;
    opencode_failure_set(&opencode->prompt.doom, code, message);
    stop(opencode, STOP_DOOMED);
}

/* What the events say ------------------------------------------------------------------------- */

static void taken(struct opencode *opencode)
{
    struct opencode_prompt *prompt = &opencode->prompt;

    if (prompt->taken)
        return;
    prompt->taken = true;
    prompt->unsent = false;
    opencode->callbacks.on_prompt_taken(opencode->callbacks.data);
}

static void on_busy(struct opencode *opencode)
{
    struct opencode_prompt *prompt = &opencode->prompt;

    taken(opencode);
    if (opencode->closing || prompt->state == PROMPT_NONE)
        return;
    prompt->idle_last = false;
    if (prompt->state != PROMPT_RUNNING && prompt->state != PROMPT_SENDING)
        opencode_go_on_running(opencode);
}

static void on_idle(struct opencode *opencode)
{
    /* Before the prompt is taken it is the last prompt's second "idle". */
    if (!opencode->prompt.taken)
        return;
    opencode->prompt.idle_last = true;
    opencode->prompt.looks = 0;
    if (opencode->prompt.state != PROMPT_SENDING)
        opencode_look_after(opencode, opencode->timing.debounce);
}

static void on_error(struct opencode *opencode, const struct json_value *error)
{
    struct opencode_prompt *prompt = &opencode->prompt;
    const char *words = json_string(json_path(error, "data.message"));

    /* Some errors come twice, the second time as a stack trace. */
    if (prompt->last_error.code == NULL || words == NULL || strstr(words, "\n    at ") == NULL)
        opencode_failure_read(&prompt->last_error, error);
    if (prompt->state == PROMPT_SENT)
        uv_timer_start(&opencode->step_timer, opencode_on_step, opencode->timing.again, 0);
}

static void on_answering(struct opencode *opencode, const char *message_id)
{
    opencode->warm = true;
    if (uv_is_active((uv_handle_t *)&opencode->warm_timer)) {
        uv_timer_stop(&opencode->warm_timer);
        opencode_post_abort(opencode);
    }
    opencode_steer_answering(opencode, message_id);
}

static void on_finish(struct opencode *opencode, const char *finish)
{
    struct opencode_prompt *prompt = &opencode->prompt;

    prompt->unknown_finishes = str_equal(finish, "unknown") ? prompt->unknown_finishes + 1 : 0;
    /* OpenCode would ask again at once, for ever. */
    if (prompt->unknown_finishes >= 2)
        doom(opencode, "model_error",
             "the model's answer was cut off without a reason, twice in a row");
}

static void on_retry(struct opencode *opencode, const struct opencode_note *note)
{
    uint64_t now = clock_wall_ms(opencode->clock);

    on_busy(opencode);
    if (!opencode->closing && opencode->prompt.state != PROMPT_NONE && note->number > now &&
        note->number - now > opencode->timing.retry_max)
        doom(opencode, "model_rate_limited", note->text);
}

static void on_prompt_note(struct opencode *opencode, const struct opencode_note *note)
{
    opencode->prompt.progress_ms = uv_now(opencode->loop);
    switch (note->kind) {
    case OPENCODE_NOTE_TAKEN:
        taken(opencode);
        return;
    case OPENCODE_NOTE_BUSY:
        on_busy(opencode);
        return;
    case OPENCODE_NOTE_RETRY:
        on_retry(opencode, note);
        return;
    case OPENCODE_NOTE_IDLE:
        on_idle(opencode);
        return;
    case OPENCODE_NOTE_ERROR:
        on_error(opencode, note->error);
        return;
    case OPENCODE_NOTE_ANSWERING:
        on_answering(opencode, note->text);
        return;
    case OPENCODE_NOTE_FINISH:
        on_finish(opencode, note->text);
        return;
    case OPENCODE_NOTE_LOST:
        opencode_sync_later(opencode);
        return;
    case OPENCODE_NOTE_CHILD_IDLE:
    case OPENCODE_NOTE_CONNECTED:
        return;
    }
}

static void on_connected(struct opencode *opencode)
{
    if (opencode->phase == OPENCODE_STREAMING) {
        opencode_on_streaming(opencode);
        return;
    }
    opencode->stream_live = true;
    opencode->reconnects = 0;
    opencode_prompt_stream_live(opencode);
}

void opencode_on_note(void *data, const struct opencode_note *note)
{
    struct opencode *opencode = data;

    if (note->kind == OPENCODE_NOTE_CONNECTED)
        on_connected(opencode);
    else if (opencode->prompt.state > PROMPT_WAITING)
        on_prompt_note(opencode, note);
    else if (note->kind == OPENCODE_NOTE_IDLE && opencode->health == HEALTH_UNSTOPPED)
        opencode->health = HEALTH_GOOD;
}

void opencode_on_event(void *data, const struct agent_event *event)
{
    struct opencode *opencode = data;

    opencode->prompt.progress_ms = uv_now(opencode->loop);
    opencode->callbacks.on_event(opencode->callbacks.data, event);
}

void opencode_prompt_stream_live(struct opencode *opencode)
{
    if (opencode->prompt.state == PROMPT_WAITING)
        uv_timer_start(&opencode->step_timer, opencode_on_step, 0, 0);
    else if (opencode->prompt.state != PROMPT_NONE)
        uv_timer_start(&opencode->stream_timer, opencode_on_stream_timer, 0, 0);
}

/* The gap is filled; what state the session is in was not asked for yet. */
void opencode_prompt_synced(struct opencode *opencode)
{
    if (opencode->resuming)
        opencode_resume_caught_up(opencode);
    if (opencode->closing)
        return;
    opencode_steer_go_on(opencode);
    if (opencode->prompt.state == PROMPT_RUNNING)
        opencode_look_after(opencode, 0);
}
