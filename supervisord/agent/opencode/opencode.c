#include "agent/opencode/opencode.h"

#include <stdarg.h>
#include <string.h>

#include "agent/opencode/opencode_internal.h"
#include "agent/opencode/opencode_locate.h"
#include "agent/agent_environment.h"
#include "common/base64.h"
#include "common/id.h"
#include "common/json_write.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "common/versions.h"

const struct opencode_timing opencode_timing = {
    .start = 60000,
    .request = 30000,
    .silence = 30000,
    .taken = 15000,
    .debounce = 500,
    .again = 1000,
    .quiet = 60000,
    .abort = 10000,
    .warm = 6000,
    .reconnect = 100,
    .stream_lost = 60000,
    .retry_max = 600000,
    .clock_ahead = 10000,
    .drain = 200,
};

/* Small tools --------------------------------------------------------------------------------- */

void opencode_log_event(struct opencode *opencode, const char *format, ...)
{
    char text[600];
    struct agent_event event = { .kind = AGENT_EVENT_LOG, .text = text };
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (!opencode->closing)
        opencode->callbacks.on_event(opencode->callbacks.data, &event);
}

void opencode_drop(struct opencode_exchange **slot)
{
    if (*slot == NULL)
        return;
    opencode_exchange_cancel(*slot);
    *slot = NULL;
}

void opencode_ask(struct opencode *opencode, struct opencode_exchange **slot, const char *method,
                  const char *path, const char *body, opencode_response_cb done)
{
    struct opencode_request request = {
        .method = method, .path = path, .body = body, .timeout_ms = opencode->timing.request
    };
    struct error err = ERROR_INIT;
    struct opencode_response response = { .err = &err };

    opencode_drop(slot);
    if (opencode_http_send(slot, opencode->http, &request, done, opencode, &err) == 0)
        return;
    *slot = NULL;
    done(opencode, &response);
}

int opencode_expect_ok(const struct opencode_response *response, const char *what,
                       struct error *err)
{
    const char *words;

    if (response->err != NULL) {
        *err = *response->err;
        return error_wrap(err, "%s", what);
    }
    if (response->status == 200 || response->status == 204)
        return 0;
    words = json_string(json_path(response->json, "data.message"));
    if (words == NULL)
        words = json_string(json_get(response->json, "message"));
    return error_set(err, response->status == 404 ? ERR_NOT_FOUND : ERR_UNAVAILABLE, 0,
                     "%s: status %d%s%s", what, response->status, words != NULL ? ": " : "",
                     words != NULL ? words : "");
}

/* Start --------------------------------------------------------------------------------------- */

void opencode_start_failed(struct opencode *opencode, const char *code, const struct error *err)
{
    if (opencode->phase == OPENCODE_DEAD || opencode->closing)
        return;
    opencode->phase = OPENCODE_DEAD;
    uv_timer_stop(&opencode->start_timer);
    opencode_drop(&opencode->request);
    opencode_drop(&opencode->stream);
    opencode->callbacks.on_ready(opencode->callbacks.data, code, err);
}

static void on_start_timeout(uv_timer_t *timer)
{
    struct opencode *opencode = timer->data;
    AUTO_BUF struct buf lines = { 0 };
    struct error err = ERROR_INIT;

    buf_init(&lines, LAST_LINES * (LINE_MAX_BYTES + 16));
    opencode_last_lines(opencode, &lines);
    error_set(&err, ERR_TIMEOUT, 0, "OpenCode was not ready in time%s%s", lines.len > 0 ? ": " : "",
              buf_text(&lines));
    opencode_start_failed(opencode, "agent_not_ready", &err);
}

static void ready(struct opencode *opencode)
{
    if (opencode->resuming) {
        opencode_resume_opened(opencode);
        return;
    }
    uv_timer_stop(&opencode->start_timer);
    opencode->phase = OPENCODE_READY;
    opencode->callbacks.on_ready(opencode->callbacks.data, NULL, NULL);
}

/* OpenCode orders messages by time: a prompt that is older than the last message is stored and
 * never answered. */
static void on_newest(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct error err = ERROR_INIT;

    opencode->request = NULL;
    if (opencode_expect_ok(response, "read the conversation", &err) < 0) {
        opencode_start_failed(opencode, "agent_not_ready", &err);
        return;
    }
    for (const struct json_value *message = json_first(response->json); message != NULL;
         message = json_next(message)) {
        uint64_t created = json_u64(json_path(message, "info.time.created"), 0);

        if (created > opencode->newest_created_ms)
            opencode->newest_created_ms = created;
    }
    ready(opencode);
}

static void on_conversation(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    const char *id = json_string(json_get(response->json, "id"));
    AUTO_FREE
    char *path = NULL;
    struct error err = ERROR_INIT;

    opencode->request = NULL;
    if (opencode_expect_ok(
            response, opencode->continued ? "go on with the conversation" : "begin a conversation",
            &err) == 0 &&
        !opencode_id_usable(id))
        error_set(&err, ERR_UNAVAILABLE, 0, "OpenCode gave the conversation no id");
    if (err.code != ERR_NONE) {
        opencode_start_failed(opencode, "agent_not_ready", &err);
        return;
    }
    str_copy(opencode->conversation, sizeof(opencode->conversation), id);
    opencode_events_follow(opencode->events, opencode->conversation);
    if (!opencode->continued) {
        ready(opencode);
        return;
    }
    path = mem_printf("/session/%s/message?limit=2", opencode->conversation);
    opencode_ask(opencode, &opencode->request, "GET", path, NULL, on_newest);
}

void opencode_on_streaming(struct opencode *opencode)
{
    AUTO_FREE
    char *path = mem_printf("/session/%s", opencode->conversation);
    AUTO_BUF struct buf body = { 0 };
    struct json_writer writer;

    opencode->phase = OPENCODE_OPENING;
    opencode->stream_live = true;
    if (opencode->continued) {
        opencode_ask(opencode, &opencode->request, "GET", path, NULL, on_conversation);
        return;
    }
    buf_init(&body, 16384);
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string_opt(&writer, "title", opencode->title);
    json_write_object_end(&writer);
    opencode_ask(opencode, &opencode->request, "POST", "/session", buf_text(&body),
                 on_conversation);
}

static void on_project(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    const char *vcs = json_string(json_get(response->json, "vcs"));
    struct error err = ERROR_INIT;

    opencode->request = NULL;
    if (opencode_expect_ok(response, "ask OpenCode for its project", &err) < 0) {
        opencode_start_failed(opencode, "agent_not_ready", &err);
        return;
    }
    if (!str_equal(vcs, "git"))
        opencode_log_event(
            opencode,
            "OpenCode sees no git repository in %s: it is none, or belongs to another user",
            opencode->directory);
    if (opencode->closing)
        return;
    opencode->phase = OPENCODE_STREAMING;
    if (opencode_stream_open(opencode, &err) < 0)
        opencode_start_failed(opencode, "agent_not_ready", &err);
}

static void on_health(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    const char *version = json_string(json_get(response->json, "version"));
    const struct known_version *known = version_known("opencode");
    struct error err = ERROR_INIT;

    opencode->request = NULL;
    if (opencode_expect_ok(response, "ask OpenCode for its health", &err) < 0) {
        opencode_start_failed(opencode, "agent_not_ready", &err);
        return;
    }
    if (version == NULL || !version_works(known, version)) {
        error_set(&err, ERR_UNAVAILABLE, 0, "OpenCode %.40s is not supported; versions %s are",
                  version != NULL ? version : "?", known->words);
        opencode_start_failed(opencode, "agent_unsupported", &err);
        return;
    }
    log_info(opencode->id, "OpenCode %.40s answers", version);
    opencode_ask(opencode, &opencode->request, "GET", "/project/current", NULL, on_project);
}

void opencode_on_listening(struct opencode *opencode)
{
    opencode->phase = OPENCODE_CHECKING;
    opencode_ask(opencode, &opencode->request, "GET", "/global/health", NULL, on_health);
}

/* Answers ------------------------------------------------------------------------------------- */

static void on_answer_taken(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct error err = ERROR_INIT;

    if (opencode_expect_ok(response, "the answer was not taken", &err) < 0)
        opencode_log_event(opencode, "%s", err.text);
}

static int post_answer(struct opencode *opencode, const char *kind, const char *id,
                       const char *verb, const char *body, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("/%s/%s/%s", kind, id, verb);
    struct opencode_request request = {
        .method = "POST", .path = path, .body = body, .timeout_ms = opencode->timing.request
    };
    struct opencode_exchange *unused;

    return opencode_http_send(&unused, opencode->http, &request, on_answer_taken, opencode, err);
}

/* What stands behind "reject:", or NULL when ANSWER is no rejection. */
static const char *rejection(const char *answer)
{
    const char *rest = answer + strlen("reject");

    if (!str_starts(answer, "reject") || (rest[0] != '\0' && rest[0] != ':'))
        return NULL;
    rest += rest[0] == ':';
    while (*rest == ' ')
        rest++;
    return rest;
}

static int answer_permission(struct opencode *opencode, const char *id, const char *answer,
                             struct error *err)
{
    const char *why = rejection(answer);
    AUTO_BUF struct buf body = { 0 };
    struct json_writer writer;

    if (why == NULL && !str_equal(answer, "once") && !str_equal(answer, "always"))
        return error_argument(err, "answer", "is once, always, reject or \"reject: why\"");
    buf_init(&body, 128 * 1024);
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "reply", why != NULL ? "reject" : answer);
    json_member_string_opt(&writer, "message", why);
    json_write_object_end(&writer);
    if (body.failed)
        return error_argument(err, "answer", "is too long");
    return post_answer(opencode, "permission", id, "reply", buf_text(&body), err);
}

/* One line for each question; a single line answers them all. */
static int answer_question(struct opencode *opencode, const char *id, size_t questions,
                           const char *answer, struct error *err)
{
    const char *line = answer;
    AUTO_BUF struct buf body = { 0 };
    struct json_writer writer;

    if (rejection(answer) != NULL)
        return post_answer(opencode, "question", id, "reject", NULL, err);
    buf_init(&body, 128 * 1024);
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_write_name(&writer, "answers");
    json_write_array(&writer);
    for (size_t i = 0; i < questions; i++) {
        size_t len = questions > 1 ? strcspn(line, "\n") : strlen(line);

        json_write_array(&writer);
        json_write_bytes(&writer, line, len);
        json_write_array_end(&writer);
        if (line[len] == '\n' && line[len + 1] != '\0')
            line += len + 1;
    }
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    if (body.failed)
        return error_argument(err, "answer", "is too long");
    return post_answer(opencode, "question", id, "reply", buf_text(&body), err);
}

static int driver_answer(struct agent *agent, const char *request_id, const char *answer,
                         struct error *err)
{
    struct opencode *opencode = opencode_of(agent);
    size_t questions = opencode_events_open_request(opencode->events, request_id);

    if (questions == 0 || !opencode_id_usable(request_id))
        return error_set(err, ERR_NOT_FOUND, 0, "no open request %.40s", request_id);
    if (opencode->phase != OPENCODE_READY)
        return error_set(err, ERR_UNAVAILABLE, 0, "the agent is not running");
    if (str_starts(request_id, "que"))
        return answer_question(opencode, request_id, questions, answer, err);
    return answer_permission(opencode, request_id, answer, err);
}

/* Pages --------------------------------------------------------------------------------------- */

/* "/BASE64(directory)/session/ID", in the alphabet for addresses and without padding. */
static char *page_path(const struct opencode *opencode)
{
    AUTO_FREE
    char *coded = base64_encode(opencode->directory, strlen(opencode->directory));

    for (char *at = coded; *at != '\0'; at++)
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at == '=' ? '\0' : *at;
    return mem_printf("/%s/session/%s", coded, opencode->conversation);
}

static bool driver_pages(struct agent *agent, struct agent_pages *pages)
{
    struct opencode *opencode = opencode_of(agent);

    /* Asked before it is ready it would never answer. */
    if (opencode->phase != OPENCODE_READY || opencode->closing || opencode->exit_text[0] != '\0')
        return false;
    *pages = (struct agent_pages){ .port = OPENCODE_PORT,
                                   .authorization = opencode_http_authorization(opencode->http),
                                   .path = page_path(opencode) };
    return true;
}

/* Life ---------------------------------------------------------------------------------------- */

static void opencode_free(struct opencode *opencode)
{
    opencode_prompt_forget(opencode);
    opencode_events_free(opencode->events);
    agent_environment_free(opencode->environment);
    for (size_t i = 0; i < ARRAY_LEN(opencode->outputs); i++)
        buf_finish(&opencode->outputs[i].line);
    buf_finish(&opencode->held);
    free(opencode->id);
    free(opencode->model_text);
    free(opencode->directory);
    free(opencode->title);
    free(opencode);
}

void opencode_closed_one(void *data)
{
    struct opencode *opencode = data;
    void (*done)(void *data) = opencode->done;
    void *done_data = opencode->done_data;

    if (--opencode->pending_closes > 0)
        return;
    opencode_free(opencode);
    if (done != NULL)
        done(done_data);
}

static void close_all(struct opencode *opencode, void (*done)(void *data), void *data)
{
    uv_handle_t *timers[] = {
        (uv_handle_t *)&opencode->start_timer, (uv_handle_t *)&opencode->stream_timer,
        (uv_handle_t *)&opencode->step_timer,  (uv_handle_t *)&opencode->abort_timer,
        (uv_handle_t *)&opencode->quiet_timer, (uv_handle_t *)&opencode->drain_timer,
        (uv_handle_t *)&opencode->warm_timer,  (uv_handle_t *)&opencode->steers.timer,
    };

    opencode->closing = true;
    opencode->done = done;
    opencode->done_data = data;
    opencode_events_stop(opencode->events);
    opencode->pending_closes = 1;
    opencode_process_close(opencode);
    opencode->stream = opencode->request = opencode->abort_request = opencode->sync_request = NULL;
    opencode->steers.request = NULL;
    if (opencode->http != NULL) {
        opencode->pending_closes++;
        opencode_http_close(opencode->http, opencode_closed_one, opencode);
    }
    handles_close_all(&opencode->handles, opencode->loop, timers, ARRAY_LEN(timers));
}

static void driver_close(struct agent *agent, void (*done)(void *data), void *data)
{
    struct opencode *opencode = opencode_of(agent);

    if (!opencode->closing)
        close_all(opencode, done, data);
}

static void init_timers(struct opencode *opencode)
{
    uv_timer_t *timers[] = { &opencode->start_timer, &opencode->stream_timer,
                             &opencode->step_timer,  &opencode->abort_timer,
                             &opencode->quiet_timer, &opencode->drain_timer,
                             &opencode->warm_timer,  &opencode->steers.timer };

    handles_init(&opencode->handles, opencode_closed_one, opencode);
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        uv_timer_init(opencode->loop, timers[i]);
        handles_add(&opencode->handles, (uv_handle_t *)timers[i], opencode);
    }
}

static void copy_options(struct opencode *opencode, const struct agent_options *options,
                         const char *password)
{
    opencode->id = mem_strdup(options->id);
    opencode->directory = mem_strdup(options->directory);
    opencode->title = mem_strdup(options->title);
    opencode->clock = options->clock;
    opencode->continued = options->conversation[0] != '\0';
    str_copy(opencode->conversation, sizeof(opencode->conversation), options->conversation);
    opencode->environment = opencode_environment_new(options, password);
    if (options->model_wait_ms > 0)
        opencode->timing.retry_max = options->model_wait_ms;
    if (options->start_timeout_ms > 0)
        opencode->timing.start = options->start_timeout_ms;
}

/* Random when the caller has none: then nobody can resume it. */
static void choose_password(char to[PASSWORD_SIZE], const char *given)
{
    unsigned char random[16];

    if (given != NULL && given[0] != '\0') {
        str_copy(to, PASSWORD_SIZE, given);
        return;
    }
    id_random(random, sizeof(random));
    str_hex(to, random, sizeof(random));
}

int opencode_new(struct opencode **out, uv_loop_t *loop, const struct agent_host *host,
                 const struct agent_options *options, const struct agent_callbacks *callbacks,
                 const struct opencode_timing *timing, struct error *err)
{
    struct opencode *opencode;
    struct opencode_events_callbacks on_events = { .on_event = opencode_on_event,
                                                   .on_note = opencode_on_note };
    struct opencode_model model;
    char password[PASSWORD_SIZE];

    if (opencode_model_parse(&model, options->model, err) < 0)
        return -1;
    if (options->conversation[0] != '\0' && !opencode_id_usable(options->conversation))
        return error_set(err, ERR_INVALID, 0, "OpenCode has no conversation %.60s",
                         options->conversation);
    choose_password(password, options->password);
    opencode = NEW(struct opencode);
    opencode->agent.driver = &opencode_driver;
    opencode->loop = loop;
    opencode->host = *host;
    opencode->callbacks = *callbacks;
    opencode->timing = *timing;
    copy_options(opencode, options, password);
    opencode->model_text = mem_strdup(options->model);
    (void)opencode_model_parse(&opencode->model, opencode->model_text, err);
    on_events.data = opencode;
    opencode->events = opencode_events_new(&on_events);
    init_timers(opencode);
    if (opencode_http_start(&opencode->http, loop, host, OPENCODE_PORT, password, err) < 0) {
        opencode_discard(opencode);
        return -1;
    }
    *out = opencode;
    return 0;
}

void opencode_discard(struct opencode *opencode)
{
    close_all(opencode, NULL, NULL);
}

void opencode_begin_start(struct opencode *opencode)
{
    uv_timer_start(&opencode->start_timer, on_start_timeout, opencode->timing.start, 0);
}

int opencode_start(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                   const struct agent_options *options, const struct agent_callbacks *callbacks,
                   const struct opencode_timing *timing, struct error *err)
{
    struct opencode *opencode;

    if (opencode_new(&opencode, loop, host, options, callbacks, timing, err) < 0)
        return -1;
    if (opencode_process_start(opencode, err) < 0) {
        opencode_discard(opencode);
        return -1;
    }
    opencode_begin_start(opencode);
    *out = &opencode->agent;
    return 0;
}

static int driver_start(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                        const struct agent_options *options,
                        const struct agent_callbacks *callbacks, struct error *err)
{
    return opencode_start(out, loop, host, options, callbacks, &opencode_timing, err);
}

static int locate(const struct agent_profile *profile, const char *configured, const char *data_dir,
                  char **path, struct error *err)
{
    (void)profile;
    return opencode_locate(configured, data_dir, path, err);
}

/* It writes to its home, and must not meet a session's database. */
static const char *const models_command[] = {
    "/usr/bin/env",
    "-i",
    "HOME=/tmp/models",
    "PATH=/usr/local/bin:/usr/bin:/bin",
    ("XDG_CONFIG_HOME=" OPENCODE_CONFIG_HOME),
    OPENCODE_SWITCHES,
    OPENCODE_PROGRAM,
    "models",
    NULL,
};

const struct agent_driver opencode_driver = {
    .name = "opencode",
    .program = OPENCODE_PROGRAM,
    .locate = locate,
    .prepare = opencode_prepare,
    .check_model = opencode_check_model,
    .models_command = models_command,
    .start = driver_start,
    .resume = opencode_resume,
    .prompt = opencode_prompt,
    .steer_id = opencode_steer_id,
    .steer = opencode_steer,
    .answer = driver_answer,
    .pages = driver_pages,
    .abort = opencode_abort,
    .close = driver_close,
};
