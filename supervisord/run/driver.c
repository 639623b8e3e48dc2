/* driver.c: the run's side of its agent: what it gives the driver, and what it hears from it. */
#include "run/internal.h"

#include <string.h>

#include "common/failure.h"
#include "common/str.h"

const struct agent_driver *driver_find(const struct runs *runs, const char *name,
                                       const struct agent_profile **profile)
{
    const struct agent_driver *driver = agent_driver_find(name);

    *profile = NULL;
    if (driver != NULL)
        return driver->by_profile ? NULL : driver;
    for (size_t i = 0; i < runs->options.agent_count; i++) {
        if (!str_equal(runs->options.agents[i].name, name))
            continue;
        *profile = &runs->options.agents[i];
        return agent_driver_find((*profile)->driver);
    }
    return NULL;
}

void driver_names(const struct runs *runs, struct buf *out)
{
    for (size_t i = 0; agent_driver_at(i) != NULL; i++) {
        if (!agent_driver_at(i)->by_profile)
            buf_printf(out, "%s%s", out->len > 0 ? ", " : "", agent_driver_at(i)->name);
    }
    for (size_t i = 0; i < runs->options.agent_count; i++)
        buf_printf(out, "%s%s", out->len > 0 ? ", " : "", runs->options.agents[i].name);
}

static void add_agent_file(void *data, const char *target, const char *text, size_t len)
{
    sandbox_spec_add_file(data, target, text, len, 0444);
}

static void add_agent_dir(void *data, const char *target)
{
    sandbox_spec_add_frozen_dir(data, target);
}

static void add_agent_program(void *data, const char *source, const char *target)
{
    sandbox_spec_add_mount(data, source, target, SANDBOX_READ_ONLY);
}

struct agent_files driver_files(struct sandbox_spec *spec)
{
    return (struct agent_files){ .data = spec,
                                 .add_file = add_agent_file,
                                 .add_frozen_dir = add_agent_dir,
                                 .add_program = add_agent_program };
}

static struct agent_provider *make_providers(const struct runs_options *options)
{
    struct agent_provider *providers =
        mem_new_zero(options->model_service_count + 1, sizeof(*providers));

    for (size_t i = 0; i < options->model_service_count; i++) {
        const struct run_model_service *service = &options->model_services[i];

        providers[i] = (struct agent_provider){
            .name = service->name,
            .npm = service->npm,
            .base_url = mem_printf("http://127.0.0.1:%d/proxy/%s%s", RUN_PROXY_PORT, service->name,
                                   service->path),
            .models = service->models,
            .model_count = service->model_count,
        };
    }
    return providers;
}

static void free_providers(struct agent_provider *providers)
{
    for (size_t i = 0; providers[i].name != NULL; i++)
        free((void *)(uintptr_t)providers[i].base_url);
    free(providers);
}

int driver_prepare_bare(struct runs *runs, const struct agent_driver *driver, const char *path,
                        struct sandbox_spec *spec, struct error *err)
{
    const struct agent_files files = driver_files(spec);
    struct agent_provider *providers = make_providers(&runs->options);
    const struct agent_options options = { .id = "",
                                           .token = "none",
                                           .password = "",
                                           .model = runs->options.default_model,
                                           .directory = SANDBOX_WORKSPACE,
                                           .home = SANDBOX_HOME,
                                           .conversation = "",
                                           .title = "",
                                           .providers = providers,
                                           .provider_count = runs->options.model_service_count };
    int rc = driver->prepare(&options, path, &files, err);

    free_providers(providers);
    return rc;
}

void driver_setup_init(struct driver_setup *setup, struct run *run, const char *token)
{
    const struct runs_options *options = &run->runs->options;

    setup->providers = make_providers(options);
    setup->directory = run_directory(run);
    /* Of no worth outside the sandbox, and inside whoever can read the agent's environment has the
     * token too: what matters is that the next supervisor knows it. */
    str_hex(setup->password, run->record.token_hash, 16);
    setup->environment = environment_added(run);
    setup->options = (struct agent_options){
        .id = run->record.id.text,
        .token = token,
        .password = setup->password,
        .model = run->record.model,
        .directory = setup->directory,
        .home = SANDBOX_HOME,
        /* Another agent's conversation is of no use to this one. */
        .conversation = str_equal(run_place(run)->agent, run->record.agent)
                            ? run_place(run)->agent_session
                            : "",
        .title = run->record.title,
        .providers = setup->providers,
        .provider_count = options->model_service_count,
        .env = setup->environment,
        .model_head_ms = (uint64_t)options->model_head_seconds * 1000,
        .model_silence_ms = (uint64_t)options->model_silence_seconds * 1000,
        .model_wait_ms = (uint64_t)options->model_retry_wait_seconds * 1000,
        .permissions = options->permissions,
        .questions = options->questions,
        .profile = run->profile,
        .start_timeout_ms = (uint64_t)options->agent_start_seconds * 1000,
        .clock = run->runs->clock,
    };
}

void driver_setup_finish(struct driver_setup *setup, const struct run *run)
{
    (void)run;
    free_providers(setup->providers);
    free(setup->directory);
    free(setup->environment);
}

/* One answer of the sandbox on its way to the driver: the types of the two floors meet here only.
 */
struct relay {
    void (*spawned)(void *context, const struct agent_process *process, const struct error *err);
    void (*ended)(void *context, int code, int signal, const struct error *err);
    void *context;
};

static void relay_spawned(void *data, const struct sandbox_process *process,
                          const struct error *err)
{
    struct relay *relay = data;
    struct agent_process copy = { 0, -1, -1, -1 };

    if (process != NULL)
        copy = (struct agent_process){ process->id, process->stdin_fd, process->stdout_fd,
                                       process->stderr_fd };
    relay->spawned(relay->context, err == NULL ? &copy : NULL, err);
    free(relay);
}

static int host_spawn(void *data, const struct agent_command *command,
                      void (*done)(void *, const struct agent_process *, const struct error *),
                      void *context, struct error *err)
{
    struct run *run = data;
    struct sandbox_command wanted = { .argv = command->argv,
                                      .env = command->env,
                                      .cwd = command->cwd,
                                      .stdin_mode = command->stdin_pipe ? SANDBOX_STDIN_PIPE
                                                                        : SANDBOX_STDIN_NULL };
    struct relay *relay = NEW(struct relay);

    relay->spawned = done;
    relay->context = context;
    if (sandbox_spawn(run->sandbox, &wanted, relay_spawned, relay, err) == 0)
        return 0;
    free(relay);
    return -1;
}

static int host_attach(void *data, uint32_t process_id,
                       void (*done)(void *, const struct agent_process *, const struct error *),
                       void *context, struct error *err)
{
    struct run *run = data;
    struct relay *relay = NEW(struct relay);

    relay->spawned = done;
    relay->context = context;
    if (sandbox_attach(run->sandbox, process_id, relay_spawned, relay, err) == 0)
        return 0;
    free(relay);
    return -1;
}

static void relay_ended(void *data, const struct sandbox_exit *status, const struct error *err)
{
    struct relay *relay = data;

    relay->ended(relay->context, status != NULL ? status->code : -1,
                 status != NULL ? status->signal : 0, err);
    free(relay);
}

static int host_wait(void *data, uint32_t process_id,
                     void (*done)(void *, int, int, const struct error *), void *context,
                     struct error *err)
{
    struct run *run = data;
    struct relay *relay = NEW(struct relay);

    relay->ended = done;
    relay->context = context;
    if (sandbox_wait(run->sandbox, process_id, relay_ended, relay, err) == 0)
        return 0;
    free(relay);
    return -1;
}

static int host_connect(void *data, uint16_t port, void (*done)(void *, int, const struct error *),
                        void *context, struct error *err)
{
    struct run *run = data;

    return sandbox_connect(run->sandbox, port, done, context, err);
}

static void host_signal(void *data, uint32_t process_id, int signal)
{
    struct run *run = data;

    if (run->sandbox != NULL && !run->sandbox_over)
        sandbox_signal(run->sandbox, process_id, signal);
}

static void on_agent_ready(void *data, const char *failure_code, const struct error *err)
{
    struct run *run = data;
    const struct failure_kind *kind = failure_code != NULL ? failure_find(failure_code) : NULL;

    if (err != NULL) {
        run->agent_done = true;
        run_fail(run, failure_code, err->text, kind != NULL ? kind->hint : "",
                 kind == NULL || kind->retryable);
    } else if (run->record.state == RUN_PROMPT && run->record.prompt_id[0] == '\0' &&
               !run->prompt_sent) {
        step_prompt(run);
    } else if (run->record.state == RUN_WAITING && !waiting_any(run)) {
        run_apply(run, RUN_EV_ANSWERED);
    } else {
        run_apply(run, RUN_EV_AGENT_READY);
    }
}

static void on_agent_process(void *data, uint32_t process_id)
{
    struct run *run = data;
    struct error err = ERROR_INIT;

    run->record.agent_process = process_id;
    if (run_save(run, &err) < 0)
        log_warn(run->record.id.text, "the agent's process can't be recorded: %s", err.text);
}

static bool on_sending(void *data, const char *conversation, const char *prompt_id)
{
    struct run *run = data;
    struct error err = ERROR_INIT;

    if (conversation[0] != '\0') {
        record_set(&run_place(run)->agent_session, conversation);
        record_set(&run_place(run)->agent, run->record.agent);
    }
    record_set(&run->record.prompt_id, prompt_id[0] != '\0' ? prompt_id : PROMPT_WITHOUT_ID);
    if (run_save(run, &err) == 0)
        return true;
    log_error(run->record.id.text, "the prompt is not sent, it can't be recorded: %s", err.text);
    record_set(&run->record.prompt_id, "");
    return false;
}

static void set_text(char **slot, const char *text)
{
    free(*slot);
    *slot = mem_strdup(text);
}

/* Unless it was told to the supervisor before us. */
static void note(struct run *run, enum run_note kind, const struct agent_event *event,
                 const char *data)
{
    if (event->key == NULL || !told_has(run->told, event->key))
        events_note_as(run, kind, event->text, data, event->key);
}

static void take_usage(struct run *run, const struct agent_usage *usage)
{
    struct run_usage_record *to = &run->record.usage;

    to->input_tokens = usage->input_tokens;
    to->output_tokens = usage->output_tokens;
    to->cache_read_tokens = usage->cache_read_tokens;
    to->cache_write_tokens = usage->cache_write_tokens;
    to->cost_microdollars = usage->cost_microdollars;
    events_changed(run->runs, &run->record);
}

/* Whoever watches sees what it costs while it works. */
static void note_usage(struct run *run)
{
    const struct run_usage_record *usage = &run->record.usage;
    AUTO_FREE
    char *text = mem_printf("%llu tokens in, %llu out", (unsigned long long)usage->input_tokens,
                            (unsigned long long)usage->output_tokens);
    AUTO_FREE
    char *data = mem_printf("{\"inputTokens\":%llu,\"outputTokens\":%llu,\"costUsd\":%.6f}",
                            (unsigned long long)usage->input_tokens,
                            (unsigned long long)usage->output_tokens,
                            (double)usage->cost_microdollars / 1e6);

    events_note(run, RUN_NOTE_USAGE, text, data);
}

static void on_usage(struct run *run, const struct agent_usage *usage)
{
    uint64_t before = run->record.usage.input_tokens + run->record.usage.output_tokens;

    take_usage(run, usage);
    if (run->record.usage.input_tokens + run->record.usage.output_tokens != before)
        note_usage(run);
}

static void on_agent_event(void *data, const struct agent_event *event)
{
    struct run *run = data;

    run_touch(run);
    run->unheard = false;
    switch (event->kind) {
    case AGENT_EVENT_ALIVE:
    case AGENT_EVENT_RUNNING:
    case AGENT_EVENT_TITLE:
        break;
    case AGENT_EVENT_TEXT:
        trouble_on_progress(run);
        note(run, RUN_NOTE_TEXT, event, event->data);
        break;
    case AGENT_EVENT_REASONING:
        note(run, RUN_NOTE_REASONING, event, event->data);
        break;
    case AGENT_EVENT_TOOL_START:
        set_text(&run->current_step, event->text);
        events_changed(run->runs, &run->record);
        break;
    case AGENT_EVENT_TOOL:
        trouble_on_progress(run);
        set_text(&run->current_step, event->text);
        note(run, RUN_NOTE_TOOL, event, event->data);
        break;
    case AGENT_EVENT_TODO:
        events_note(run, RUN_NOTE_TODO, event->text, event->data);
        break;
    case AGENT_EVENT_PERMISSION:
        waiting_on_asked(run, event, RUN_NOTE_PERMISSION);
        break;
    case AGENT_EVENT_QUESTION:
        waiting_on_asked(run, event, RUN_NOTE_QUESTION);
        break;
    case AGENT_EVENT_ANSWERED:
        waiting_on_answered(run, event->request_id);
        break;
    case AGENT_EVENT_RETRY:
        trouble_on_agent_retry(run, event);
        break;
    case AGENT_EVENT_USAGE:
        on_usage(run, &event->usage);
        break;
    case AGENT_EVENT_LOG:
        events_note(run, RUN_NOTE_LOG, event->text, event->data);
        break;
    }
}

static void on_prompt_taken(void *data)
{
    run_apply(data, RUN_EV_PROMPT_TAKEN);
}

/* The Agent Client Protocol's agents may not say that an answer was cut off; the proxy saw it. */
static bool was_cut(const struct run *run, const struct agent_end *end)
{
    return run->profile != NULL && run->at_length &&
           (end->kind == AGENT_END_DONE || end->kind == AGENT_END_INCOMPLETE);
}

static void take_end(struct run *run, const struct agent_end *end)
{
    size_t len = strlen(end->output);
    AUTO_FREE
    char *output = mem_strndup(
        end->output, len > RUN_OUTPUT_MAX ? str_utf8_cut(end->output, RUN_OUTPUT_MAX) : len);

    record_set(&run->record.output, output);
    record_set(&run->record.evidence.finish_reason,
               was_cut(run, end) ? "length" : end->finish_reason);
    if (end->usage_known)
        take_usage(run, &end->usage);
    if (end->kind == AGENT_END_INCOMPLETE || was_cut(run, end))
        record_set(&run->record.verdict, "incomplete");
}

static void on_agent_end(void *data, const struct agent_end *end)
{
    struct run *run = data;
    struct error ignored = ERROR_INIT;

    run->agent_done = true;
    waiting_forget_all(run);
    watch_end(run);
    take_end(run, end);
    if (run->record.state == RUN_COLLECTING) {
        /* It was asked to stop; what it did is looked at now. */
        step_collect(run);
        return;
    }
    switch (end->kind) {
    case AGENT_END_DONE:
    case AGENT_END_INCOMPLETE:
        run_apply(run, RUN_EV_AGENT_DONE);
        break;
    case AGENT_END_ABORTED:
        run_fail(run, "agent_error", "the agent stopped by itself before it was done", "", true);
        break;
    case AGENT_END_FAILED:
        if (str_equal(end->error_code, "model_unknown")) /* the next one is refused at once */
            (void)catalogue_check(run->runs, run->driver, run->record.model, CATALOGUE_ASK,
                                  &ignored);
        /* The proxy knows better than the agent how its model failed. */
        if ((str_starts(end->error_code, "model_") ||
             str_equal(end->error_code, run->trouble.code)) &&
            trouble_explain(run)) {
            run_apply(run, RUN_EV_STEP_FAILED);
            break;
        }
        run_fail(run, end->error_code[0] != '\0' ? end->error_code : "agent_error", end->message,
                 end->hint, end->retryable);
        break;
    }
}

static struct agent_host make_host(struct run *run)
{
    return (struct agent_host){ .data = run,
                                .spawn = host_spawn,
                                .attach = host_attach,
                                .wait = host_wait,
                                .connect = host_connect,
                                .signal = host_signal };
}

static struct agent_callbacks make_callbacks(struct run *run)
{
    return (struct agent_callbacks){ .on_ready = on_agent_ready,
                                     .on_process = on_agent_process,
                                     .on_sending = on_sending,
                                     .on_event = on_agent_event,
                                     .on_prompt_taken = on_prompt_taken,
                                     .on_steered = steer_on_read,
                                     .on_end = on_agent_end,
                                     .data = run };
}

void step_start_agent(struct run *run)
{
    const struct agent_host host = make_host(run);
    const struct agent_callbacks callbacks = make_callbacks(run);
    struct driver_setup setup;
    struct error err = ERROR_INIT;
    int rc;

    /* The driver keeps the token only in the configuration file that it placed before. */
    driver_setup_init(&setup, run, "");
    rc = run->driver->start(&run->agent, run->runs->loop, &host, &setup.options, &callbacks, &err);
    driver_setup_finish(&setup, run);
    if (rc < 0)
        run_fail(run, "agent_not_ready", err.text,
                 "the run's log has the agent's own words: sandboxctl logs", true);
}

static void start_watch(struct run *run)
{
    run_touch(run);
    run->agent_done = false;
    watch_start(run);
}

int driver_resume(struct run *run, struct error *err)
{
    const struct agent_host host = make_host(run);
    const struct agent_callbacks callbacks = make_callbacks(run);
    bool prompted = run->record.prompt_id[0] != '\0';
    size_t message_count;
    const struct agent_message *messages = told_messages(run->told, &message_count);
    const struct agent_resume resume = {
        .process_id = run->record.agent_process,
        .prompt_id = prompted ? run->record.prompt_id : NULL,
        .text = run->record.task,
        .sent_ms = run->record.started_ms,
        .taken = run->record.state == RUN_WORKING || run->record.state == RUN_WAITING,
        .waiting = run->record.state == RUN_WAITING,
        .output = told_output(run->told),
        .messages = messages,
        .message_count = message_count,
    };
    struct driver_setup setup;
    int rc;

    if (prompted)
        start_watch(run);
    run->unheard = true;
    driver_setup_init(&setup, run, "");
    rc = run->driver->resume(&run->agent, run->runs->loop, &host, &setup.options, &resume,
                             &callbacks, err);
    driver_setup_finish(&setup, run);
    return rc;
}

/* True when it may be sent. A model other than the configured one may be a name that the agent
 * doesn't know. */
static bool model_is_fine(struct run *run)
{
    bool usual = str_equal(run->record.model, run->runs->options.default_model);
    struct error err = ERROR_INIT;

    switch (catalogue_check(run->runs, run->driver, run->record.model,
                            usual ? CATALOGUE_LOOK : CATALOGUE_ASK, &err)) {
    case CATALOGUE_FINE:
        return true;
    case CATALOGUE_PENDING:
        run->model_awaited = !usual;
        run->agent_done = !usual; /* nothing is to be stopped until then */
        return usual;
    case CATALOGUE_UNKNOWN:
        run->agent_done = true;
        run_fail(run, "model_unknown", err.text, "choose one of these, or another that it knows",
                 false);
        return false;
    }
    return true;
}

void step_prompt(struct run *run)
{
    struct error err = ERROR_INIT;

    if (!model_is_fine(run) || checkpoint_holds_prompt(run))
        return;
    run->prompt_sent = true;
    run->at_length = false;
    start_watch(run);
    if (run->driver->prompt(run->agent, run->record.task, &err) < 0) {
        run->agent_done = true;
        run_fail(run, "agent_error", err.text, "", true);
    }
}
