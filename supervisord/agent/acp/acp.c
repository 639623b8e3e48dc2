#include "agent/acp/acp.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/acp/acp_internal.h"
#include "agent/acp/acp_locate.h"
#include "agent/agent_environment.h"
#include "common/mem.h"
#include "common/str.h"

static const struct acp_timing default_timing = { .start_ms = 60000,
                                                  .quiet_ms = 300,
                                                  .settle_ms = 250,
                                                  .stop_ms = 10000,
                                                  .drain_ms = 500,
                                                  .mute_ms = 3000 };

static struct acp *acp_of(struct agent *agent)
{
    return (struct acp *)agent;
}

void acp_set_timing(struct agent *agent, const struct acp_timing *timing)
{
    acp_of(agent)->timing = *timing;
}

void acp_log(struct acp *acp, const char *format, ...)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    struct agent_event event = { .kind = AGENT_EVENT_LOG };
    char line[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    str_append_utf8(&text, line, strlen(line));
    event.text = buf_text(&text);
    acp->callbacks.on_event(acp->callbacks.data, &event);
}

void acp_start_failed(struct acp *acp, const char *code, const struct error *err)
{
    acp->phase = ACP_DEAD;
    uv_timer_stop(&acp->timer);
    acp->callbacks.on_ready(acp->callbacks.data, code, err);
}

void acp_ready(struct acp *acp)
{
    acp->phase = ACP_READY;
    uv_timer_stop(&acp->timer);
    acp->callbacks.on_ready(acp->callbacks.data, NULL, NULL);
}

static void on_event(void *data, const struct agent_event *event)
{
    struct acp *acp = data;

    if (!acp->closing)
        acp->callbacks.on_event(acp->callbacks.data, event);
}

/* Life ----------------------------------------------------------------------------------------- */

void acp_closed_one(void *data)
{
    struct acp *acp = data;
    void (*done)(void *data) = acp->done;
    void *done_data = acp->done_data;

    if (--acp->pending_closes > 0)
        return;
    for (size_t i = 0; i < acp->permission_count; i++)
        acp_permission_free(acp->permissions[i]);
    acp_events_free(acp->events);
    acp_rpc_finish(&acp->rpc);
    buf_finish(&acp->error_line);
    agent_environment_free(acp->environment);
    free(acp->set_model);
    free(acp->directory);
    free(acp->id);
    free(acp);
    if (done != NULL)
        done(done_data);
}

static void close_now(struct acp *acp)
{
    uv_handle_t *timers[] = { (uv_handle_t *)&acp->timer, (uv_handle_t *)&acp->stop_timer,
                              (uv_handle_t *)&acp->drain_timer, (uv_handle_t *)&acp->answer_timer };

    acp->pending_closes = 1;
    acp_process_close(acp);
    handles_close_all(&acp->handles, acp->loop, timers, ARRAY_LEN(timers));
}

static void on_settled(uv_timer_t *timer)
{
    close_now(timer->data);
}

/* Its streams stay open until it has settled: without an input agents end. */
static void driver_close(struct agent *agent, void (*done)(void *data), void *data)
{
    struct acp *acp = acp_of(agent);
    uint64_t now = uv_now(acp->loop);

    if (acp->closing)
        return;
    acp->closing = true;
    acp->done = done;
    acp->done_data = data;
    acp_events_stop(acp->events);
    if (acp->phase != ACP_DEAD && acp->settled_ms > now)
        uv_timer_start(&acp->timer, on_settled, acp->settled_ms - now, 0);
    else
        close_now(acp);
}

static struct acp *acp_new(uv_loop_t *loop, const struct agent_host *host,
                           const struct agent_options *options,
                           const struct agent_callbacks *callbacks)
{
    struct acp *acp = NEW(struct acp);
    const struct acp_events_callbacks events = { on_event, acp };
    uv_timer_t *timers[] = { &acp->timer, &acp->stop_timer, &acp->drain_timer, &acp->answer_timer };

    acp->agent.driver = &acp_driver;
    acp->loop = loop;
    acp->host = *host;
    acp->callbacks = *callbacks;
    acp->profile = options->profile;
    acp->timing = default_timing;
    if (options->start_timeout_ms > 0)
        acp->timing.start_ms = options->start_timeout_ms;
    acp->id = mem_strdup(options->id);
    acp->directory = mem_strdup(options->directory);
    acp->environment = acp_environment_new(options);
    acp->events = acp_events_new(&events);
    acp->next_number = ACP_CALL_PROMPTS;
    acp->set_model = mem_strdup("");
    str_copy(acp->conversation, sizeof(acp->conversation), options->conversation);
    buf_init(&acp->error_line, 4096);
    handles_init(&acp->handles, acp_closed_one, acp);
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        uv_timer_init(loop, timers[i]);
        handles_add(&acp->handles, (uv_handle_t *)timers[i], acp);
    }
    return acp;
}

static int check_options(const struct agent_options *options, struct error *err)
{
    if (options->profile == NULL)
        return error_set(err, ERR_INVALID, 0, "this agent is described by no profile");
    return 0;
}

static int expand_model(struct acp *acp, const struct agent_options *options, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);

    if (options->profile->set_model[0] == '\0')
        return 0;
    if (acp_expand(&text, options, options->profile->set_model, err) < 0)
        return -1;
    free(acp->set_model);
    acp->set_model = buf_steal(&text);
    return 0;
}

static int driver_start(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                        const struct agent_options *options,
                        const struct agent_callbacks *callbacks, struct error *err)
{
    struct acp *acp;

    if (check_options(options, err) < 0)
        return -1;
    acp = acp_new(loop, host, options, callbacks);
    if (expand_model(acp, options, err) < 0 || acp_process_start(acp, err) < 0) {
        driver_close(&acp->agent, NULL, NULL);
        return -1;
    }
    *out = &acp->agent;
    return 0;
}

/* The agent's streams outlive us, so a prompt that was sent goes on, and its answer will name the
 * prompt's number. Nothing else can be picked up in the middle: the protocol has no way to ask. */
static int driver_resume(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                         const struct agent_options *options, const struct agent_resume *resume,
                         const struct agent_callbacks *callbacks, struct error *err)
{
    struct acp *acp;
    uint64_t number;

    if (check_options(options, err) < 0)
        return -1;
    if (resume->process_id == 0 || resume->prompt_id == NULL)
        return error_set(err, ERR_NOT_FOUND, 0, "it had not begun");
    if (resume->waiting)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "the request that it waits for can't be answered any more");
    if (!str_parse_u64(resume->prompt_id, UINT64_C(1) << 53, &number) || number < ACP_CALL_PROMPTS)
        return error_set(err, ERR_INVALID, 0, "its prompt has no number");
    acp = acp_new(loop, host, options, callbacks);
    acp->resumed = acp->resync = true;
    acp->prompt = (struct acp_prompt){ .active = true, .number = number, .taken = resume->taken };
    acp->next_number = number + 1;
    acp_events_continued(acp->events);
    acp_events_begin(acp->events, resume->output);
    if (acp_process_attach(acp, resume->process_id, err) < 0) {
        driver_close(&acp->agent, NULL, NULL);
        return -1;
    }
    *out = &acp->agent;
    return 0;
}

/* Calls ---------------------------------------------------------------------------------------- */

static int driver_prompt(struct agent *agent, const char *text, struct error *err)
{
    return acp_prompt_send(acp_of(agent), text, err);
}

static int driver_answer(struct agent *agent, const char *request_id, const char *answer,
                         struct error *err)
{
    return acp_prompt_answer(acp_of(agent), request_id, answer, err);
}

static void driver_abort(struct agent *agent)
{
    acp_prompt_abort(acp_of(agent));
}

const struct agent_driver acp_driver = {
    .name = "acp",
    .by_profile = true,
    .resumes_blind = true,
    .program = ACP_PROGRAM_DIR,
    .locate = acp_locate,
    .prepare = acp_prepare,
    .check_model = acp_check_model,
    .start = driver_start,
    .resume = driver_resume,
    .prompt = driver_prompt,
    .answer = driver_answer,
    .abort = driver_abort,
    .close = driver_close,
};
