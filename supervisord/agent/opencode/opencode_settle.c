#include <string.h>

#include "agent/opencode/opencode_internal.h"
#include "common/mem.h"
#include "common/str.h"

/* How a prompt ends: looking at status and messages once it seems to be idle, and telling. */

#define LOOKS_MAX 5 /* at a state that should pass by itself */
#define SILENT_LOOKS_MAX                                                                           \
    3 /* at a stored prompt without an answer, or an answer with a tool still running */
#define FAILED_LOOKS_MAX 20

/* How many of the newest messages to fetch; 0: all. Usually the last one is enough. */
static const unsigned message_limits[] = { 4, 100, 0 };

/* End ----------------------------------------------------------------------------------------- */

void opencode_prompt_forget(struct opencode *opencode)
{
    free(opencode->prompt.text);
    opencode_steer_forget(opencode);
    opencode->prompt = (struct opencode_prompt){ .state = PROMPT_NONE };
}

void opencode_end_prompt(struct opencode *opencode, struct agent_end *end)
{
    const struct agent_usage none = { 0 };

    end->usage = opencode_events_usage(opencode->events);
    end->usage_known = memcmp(&end->usage, &none, sizeof(none)) != 0;
    uv_timer_stop(&opencode->step_timer);
    uv_timer_stop(&opencode->abort_timer);
    uv_timer_stop(&opencode->warm_timer);
    uv_timer_stop(&opencode->quiet_timer);
    opencode_drop(&opencode->request);
    opencode_drop(&opencode->abort_request);
    opencode_drop(&opencode->sync_request);
    if (opencode->resuming)
        uv_timer_stop(&opencode->start_timer);
    opencode->resuming = false;
    opencode_steer_end(opencode, "the turn ended before the agent read it");
    if (opencode->closing)
        return;
    opencode_prompt_forget(opencode);
    opencode->callbacks.on_end(opencode->callbacks.data, end);
}

struct agent_end opencode_empty_end(enum agent_end_kind kind)
{
    return (struct agent_end){
        .kind = kind, .output = "", .finish_reason = "", .error_code = "", .message = "", .hint = ""
    };
}

void opencode_end_failed(struct opencode *opencode, const struct opencode_failure *failure,
                         const char *output, const char *finish)
{
    struct opencode_failure why =
        opencode->prompt.stop == STOP_DOOMED ? opencode->prompt.doom : *failure;
    struct agent_end end = opencode_empty_end(AGENT_END_FAILED);

    if (opencode->prompt.stop == STOP_ASKED || (why.aborted && opencode->prompt.stop == STOP_NO))
        end.kind = AGENT_END_ABORTED;
    end.output = output;
    end.finish_reason = finish;
    end.message = opencode->prompt.stop == STOP_ASKED ? "" : why.message;
    if (end.kind == AGENT_END_FAILED) {
        end.error_code = why.code;
        end.hint = why.hint;
        end.retryable = why.retryable;
    }
    opencode_end_prompt(opencode, &end);
}

void opencode_prompt_fail(struct opencode *opencode, const char *code, const char *message)
{
    struct opencode_failure failure;

    if (opencode->prompt.state == PROMPT_NONE)
        return;
    opencode_failure_set(&failure, code, message);
    opencode_end_failed(opencode, &failure, "", "");
}

/* For a prompt without an answer: what OpenCode said last, or CODE. */
static void fail_silent(struct opencode *opencode, const char *code, const char *message)
{
    struct opencode_failure failure;

    opencode_failure_set(&failure, code, message);
    if (opencode->prompt.last_error.code != NULL && opencode->prompt.last_error.code[0] != '\0')
        failure = opencode->prompt.last_error;
    opencode_end_failed(opencode, &failure, "", "");
}

/* Why an answer that ended in order is no whole one. */
static const struct {
    const char *finish;
    const char *message;
    const char *hint;
} incomplete[] = {
    { "length", "the answer was cut at the model's limit", "ask it to go on" },
    { "tool-calls", "the agent stopped because a request was rejected",
      "answer the request or ask again" },
    { "stop", "the model's last answer is empty", "ask it to go on" },
};

static void explain_incomplete(struct agent_end *end)
{
    for (size_t i = 0; i < ARRAY_LEN(incomplete); i++) {
        if (str_equal(incomplete[i].finish, end->finish_reason)) {
            end->message = incomplete[i].message;
            end->hint = incomplete[i].hint;
        }
    }
}

static void end_by_verdict(struct opencode *opencode, const struct opencode_verdict *verdict)
{
    struct agent_end end = opencode_empty_end(verdict->end);
    bool whole = verdict->end == AGENT_END_DONE ||
                 (verdict->end == AGENT_END_INCOMPLETE && opencode->prompt.stop == STOP_NO);

    if (!whole) {
        opencode_end_failed(opencode, &verdict->failure, buf_text(&verdict->output),
                            verdict->finish);
        return;
    }
    end.output = buf_text(&verdict->output);
    end.finish_reason = verdict->finish;
    if (end.kind == AGENT_END_INCOMPLETE)
        explain_incomplete(&end);
    opencode_end_prompt(opencode, &end);
}

void opencode_prompt_crashed(struct opencode *opencode)
{
    AUTO_BUF struct buf text = { 0 };

    opencode->phase = OPENCODE_DEAD;
    opencode->stream_live = false;
    uv_timer_stop(&opencode->stream_timer);
    opencode_drop(&opencode->stream);
    if (opencode->prompt.state == PROMPT_NONE) {
        opencode_log_event(opencode, "OpenCode %s", opencode->exit_text);
        return;
    }
    buf_init(&text, 2 * LAST_LINES * LINE_MAX_BYTES);
    buf_printf(&text, "OpenCode %s: ", opencode->exit_text);
    opencode_last_lines(opencode, &text);
    opencode_prompt_fail(opencode, "agent_crashed", buf_text(&text));
}

/* Verdict ------------------------------------------------------------------------------------- */

void opencode_look_after(struct opencode *opencode, uint64_t wait_ms)
{
    opencode->prompt.state = PROMPT_SETTLING;
    opencode_drop(&opencode->request);
    uv_timer_start(&opencode->step_timer, opencode_on_step, wait_ms, 0);
}

/* True when the doubtful state that was just seen may pass: it will be looked at again. */
static bool look_again(struct opencode *opencode, unsigned max)
{
    if (++opencode->prompt.looks > max)
        return false;
    opencode_look_after(opencode, opencode->timing.again);
    return true;
}

static void on_no_answer(struct opencode *opencode, const struct error *err)
{
    if (++opencode->prompt.failed > FAILED_LOOKS_MAX)
        opencode_prompt_fail(opencode, "agent_stalled", err->text);
    else
        opencode_look_after(opencode, opencode->timing.again);
}

/* Nothing tells of the prompt, and the supervisor that was to send it is gone. What that one wrote
 * may still be on its way. */
static bool find_or_send(struct opencode *opencode)
{
    if (!opencode->prompt.unsent || opencode->prompt.stop != STOP_NO)
        return false;
    if (!look_again(opencode, SILENT_LOOKS_MAX))
        opencode_prompt_send_again(opencode);
    return true;
}

static void judge(struct opencode *opencode, const struct opencode_verdict *verdict)
{
    const struct opencode_prompt *prompt = &opencode->prompt;
    bool explained = prompt->last_error.code != NULL && prompt->last_error.code[0] != '\0';

    switch (verdict->kind) {
    case OPENCODE_VERDICT_MISSING:
    case OPENCODE_VERDICT_SILENT:
        if (verdict->kind == OPENCODE_VERDICT_MISSING && find_or_send(opencode))
            return;
        if (prompt->taken && !explained && !(prompt->stop != STOP_NO && prompt->idle_last) &&
            look_again(opencode, SILENT_LOOKS_MAX))
            return;
        fail_silent(opencode, "not_started",
                    "OpenCode did not take the prompt up; its clock may be behind the "
                    "conversation's last message");
        return;
    case OPENCODE_VERDICT_OPEN:
        if (!look_again(opencode, LOOKS_MAX))
            fail_silent(opencode, "model_error", "the model's answer was never finished");
        return;
    case OPENCODE_VERDICT_ENDED:
        if (verdict->tool_running && verdict->end != AGENT_END_ABORTED && prompt->stop == STOP_NO &&
            look_again(opencode, SILENT_LOOKS_MAX))
            return;
        if ((verdict->end == AGENT_END_DONE || verdict->end == AGENT_END_INCOMPLETE) &&
            opencode_steer_holds(opencode))
            return;
        if (!opencode->closing)
            end_by_verdict(opencode, verdict);
        return;
    }
}

static void ask_messages(struct opencode *opencode);

static void on_messages(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct opencode_verdict verdict;
    struct error err = ERROR_INIT;
    unsigned limit = message_limits[opencode->prompt.limit];

    opencode->request = NULL;
    if (opencode_expect_ok(response, "read the messages", &err) < 0) {
        on_no_answer(opencode, &err);
        return;
    }
    opencode->prompt.failed = 0;
    opencode_verdict_init(&verdict);
    opencode_verdict_read(&verdict, response->json, opencode->prompt.message_id);
    if (verdict.kind == OPENCODE_VERDICT_ENDED && str_equal(verdict.failure.code, "agent_crashed"))
        opencode->health = HEALTH_USED_UP;
    if (verdict.kind == OPENCODE_VERDICT_MISSING && limit > 0 &&
        json_count(response->json) >= limit) {
        opencode->prompt.limit++;
        ask_messages(opencode);
    } else {
        /* Usage of a last message whose event has not come yet. */
        opencode_events_read_messages(opencode->events, response->json);
        if (!opencode->closing && opencode->prompt.state == PROMPT_SETTLING)
            judge(opencode, &verdict);
    }
    opencode_verdict_finish(&verdict);
}

static void ask_messages(struct opencode *opencode)
{
    unsigned limit = message_limits[opencode->prompt.limit];
    AUTO_FREE
    char *path = limit > 0
                     ? mem_printf("/session/%s/message?limit=%u", opencode->conversation, limit)
                     : mem_printf("/session/%s/message", opencode->conversation);

    opencode_ask(opencode, &opencode->request, "GET", path, NULL, on_messages);
}

void opencode_go_on_running(struct opencode *opencode)
{
    struct opencode_prompt *prompt = &opencode->prompt;

    prompt->state = PROMPT_RUNNING;
    prompt->looks = 0;
    prompt->progress_ms = uv_now(opencode->loop);
    uv_timer_stop(&opencode->step_timer);
    opencode_drop(&opencode->request);
    if (prompt->stop != STOP_NO)
        opencode_post_abort(opencode);
}

static void on_status(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct opencode_prompt *prompt = &opencode->prompt;
    const char *type =
        json_string(json_get(json_get(response->json, opencode->conversation), "type"));
    struct error err = ERROR_INIT;

    opencode->request = NULL;
    if (opencode_expect_ok(response, "ask for the status", &err) < 0) {
        on_no_answer(opencode, &err);
        return;
    }
    if (type != NULL && !str_equal(type, "idle")) {
        if (!prompt->idle_last) {
            opencode_go_on_running(opencode);
            return;
        }
        /* Known to say "busy" after the end, sometimes for good: then the messages decide. */
        if (prompt->stop != STOP_NO)
            opencode_post_abort(opencode);
        if (look_again(opencode, LOOKS_MAX))
            return;
    } else if (opencode_events_child_busy(opencode->events, response->json)) {
        if (prompt->stop != STOP_NO)
            opencode_post_abort(opencode);
        opencode_look_after(opencode, opencode->timing.again);
        return;
    }
    prompt->limit = 0;
    ask_messages(opencode);
}

void opencode_ask_status(struct opencode *opencode)
{
    opencode->prompt.state = PROMPT_SETTLING;
    opencode_ask(opencode, &opencode->request, "GET", "/session/status", NULL, on_status);
}
