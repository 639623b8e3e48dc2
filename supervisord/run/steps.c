/* steps.c: what the rules start on the way in: sandbox, agent, prompt. */
#include "run/internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/fd.h"
#include "common/json_write.h"
#include "common/paths.h"
#include "common/str.h"

#define REQUEST_MAX (512u << 10)

void run_touch(struct run *run)
{
    run->active_mono_ms = clock_mono_ms(run->runs->clock);
}

char *run_directory(const struct run *run)
{
    if (run->session.directory[0] == '\0')
        return mem_strdup(SANDBOX_WORKSPACE);
    return mem_printf(SANDBOX_WORKSPACE "/%s", run->session.directory);
}

/* Sandbox
 * -------------------------------------------------------------------------------------------------------
 */

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

/* "github" also answers for the address people type, wherever the service's target points. */
static const char *canonical_origin(const char *service)
{
    static const char *const origins[][2] = {
        { "github", "https://github.com" },
        { "gitlab", "https://gitlab.com" },
    };

    for (size_t i = 0; i < ARRAY_LEN(origins); i++) {
        if (str_equal(origins[i][0], service))
            return origins[i][1];
    }
    return NULL;
}

static void add_route(struct git_route *routes, size_t *count, const char *from,
                      const char *service)
{
    size_t len = from != NULL ? strlen(from) : 0;

    if (len == 0)
        return;
    while (len > 0 && from[len - 1] == '/')
        len--;
    routes[*count].from = mem_printf("%.*s/", (int)len, from);
    routes[*count].to = mem_printf("http://127.0.0.1:%d/proxy/%s/", RUN_PROXY_PORT, service);
    (*count)++;
}

static void add_git_config(struct run *run, struct sandbox_spec *spec, const char *token)
{
    const struct runs_options *options = &run->runs->options;
    struct git_route *routes = mem_new_zero(2 * options->git_service_count + 1, sizeof(*routes));
    size_t count = 0;
    AUTO_FREE
    char *pair = mem_printf("x-access-token:%s", token);
    AUTO_FREE
    char *basic = base64_encode(pair, strlen(pair));
    AUTO_FREE
    char *base = mem_printf("http://127.0.0.1:%d/proxy/", RUN_PROXY_PORT);
    AUTO_BUF struct buf text;

    buf_init(&text, 64u << 10);
    for (size_t i = 0; i < options->git_service_count; i++) {
        const char *origin = canonical_origin(options->git_services[i]);

        add_route(routes, &count, options->git_targets[i], options->git_services[i]);
        if (origin != NULL && !str_equal(origin, options->git_targets[i]))
            add_route(routes, &count, origin, options->git_services[i]);
    }
    git_config_write(&text, routes, count, base, basic);
    sandbox_spec_add_file(spec, "/etc/gitconfig", text.data, text.len, 0444);
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)routes[i].from);
        free((void *)(uintptr_t)routes[i].to);
    }
    free(routes);
}

/* A local repository's objects and names, without its config (which may hold credentials) and its
 * work folder. */
static int add_local_source(struct run *run, struct sandbox_spec *spec, struct error *err)
{
    static const char config[] = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
    static const char *const parts[] = { "objects", "refs", "HEAD", "packed-refs", "shallow" };
    const struct repository_rules rules = { .any_local = true, .any_target = true };
    struct repository repository;
    struct stat st;

    if (run->session.cloned || run->session.repository[0] == '\0')
        return 0;
    if (!str_starts(run->session.repository, "/") &&
        !str_starts(run->session.repository, "file://"))
        return 0;
    if (repository_parse(run->session.repository, &rules, &repository, err) < 0) {
        repository_finish(&repository);
        return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        AUTO_FREE
        char *source = mem_printf("%s/%s", repository.git_dir, parts[i]);
        AUTO_FREE
        char *target = mem_printf(REPOSITORY_LOCAL_DIR "/%s", parts[i]);

        if (lstat(source, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
            sandbox_spec_add_mount(spec, source, target, SANDBOX_READ_ONLY);
    }
    sandbox_spec_add_file(spec, REPOSITORY_LOCAL_DIR "/config", config, sizeof(config) - 1, 0444);
    repository_finish(&repository);
    return 0;
}

struct agent_setup {
    struct agent_options options;
    struct agent_provider *providers;
    char *directory;
};

static void agent_setup_init(struct agent_setup *setup, struct run *run, const char *token)
{
    const struct runs_options *options = &run->runs->options;

    setup->providers = mem_new_zero(options->model_service_count + 1, sizeof(*setup->providers));
    for (size_t i = 0; i < options->model_service_count; i++) {
        const struct run_model_service *service = &options->model_services[i];

        setup->providers[i] = (struct agent_provider){
            .name = service->name,
            .npm = service->npm,
            .base_url = mem_printf("http://127.0.0.1:%d/proxy/%s%s", RUN_PROXY_PORT, service->name,
                                   service->path),
            .models = service->models,
            .model_count = service->model_count,
        };
    }
    setup->directory = run_directory(run);
    setup->options = (struct agent_options){
        .id = run->record.id.text,
        .token = token,
        .model = run->record.model,
        .directory = setup->directory,
        .home = SANDBOX_HOME,
        .conversation = run->session.agent_session,
        .title = run->record.title,
        .providers = setup->providers,
        .provider_count = options->model_service_count,
        .start_timeout_ms = (uint64_t)options->agent_start_seconds * 1000,
        .clock = run->runs->clock,
    };
}

static void agent_setup_finish(struct agent_setup *setup, const struct run *run)
{
    for (size_t i = 0; i < run->runs->options.model_service_count; i++)
        free((void *)(uintptr_t)setup->providers[i].base_url);
    free(setup->providers);
    free(setup->directory);
}

static int add_agent(struct run *run, struct sandbox_spec *spec, const char *token,
                     struct error *err)
{
    struct agent_files files = { .data = spec,
                                 .add_file = add_agent_file,
                                 .add_frozen_dir = add_agent_dir,
                                 .add_program = add_agent_program };
    const struct runs_options *options = &run->runs->options;
    AUTO_FREE
    char *program = NULL;
    struct agent_setup setup;
    int rc;

    if (run->driver->locate != NULL &&
        run->driver->locate(options->agent_opencode, options->data_dir, &program, err) < 0)
        return -1;
    agent_setup_init(&setup, run, token);
    rc = run->driver->prepare(&setup.options, program, &files, err);
    agent_setup_finish(&setup, run);
    return rc;
}

static void on_listen(void *data, int fd, const struct error *err)
{
    struct run *run = data;
    struct error local = ERROR_INIT;

    if (run->record.state != RUN_SANDBOX) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (err != NULL) {
        run_fail(run, "sandbox_failed", err->text, "see the supervisor's log", true);
        return;
    }
    if (proxy_attach(run->runs->proxy, run->record.id.text, fd, &local) < 0) {
        run_fail(run, "sandbox_failed", local.text, "see the supervisor's log", true);
        return;
    }
    run_apply(run, RUN_EV_SANDBOX_READY);
}

static const char *sandbox_hint(const struct error *err)
{
    return err->code == ERR_UNAVAILABLE
               ? "install or enable what the message names; sandboxctl doctor checks it"
               : "sandboxctl doctor checks what sandboxes need here";
}

static void on_sandbox_ready(void *data, const struct error *err)
{
    struct run *run = data;
    struct error local = ERROR_INIT;

    if (err != NULL) {
        run->sandbox_over = true;
        if (run->record.state == RUN_STOPPING)
            step_stop(run);
        else
            run_fail(run, "sandbox_failed", err->text, sandbox_hint(err), true);
        return;
    }
    if (run->record.state != RUN_SANDBOX)
        return;
    if (sandbox_listen(run->sandbox, RUN_PROXY_PORT, on_listen, run, &local) < 0)
        run_fail(run, "sandbox_failed", local.text, "see the supervisor's log", true);
}

static void on_sandbox_end(void *data, const struct sandbox_end *end)
{
    struct run *run = data;

    run->sandbox_over = true;
    switch ((enum run_state)run->record.state) {
    case RUN_STOPPING:
        step_stop(run);
        return;
    case RUN_COLLECTING:
        /* The evidence commands end with it and say so. */
        return;
    case RUN_QUEUED:
    case RUN_SANDBOX:
    case RUN_CLONE:
    case RUN_AGENT:
    case RUN_PROMPT:
    case RUN_WORKING:
    case RUN_WAITING:
    case RUN_COMPLETED:
    case RUN_FAILED:
    case RUN_CANCELLED:
    case RUN_INTERRUPTED:
    case RUN_STATE_COUNT:
        break;
    }
    if (end->out_of_memory)
        run_fail(run, "out_of_memory", "the sandbox was ended by the kernel for want of memory",
                 "raise limits.memoryMiB in the configuration", true);
    else
        run_fail(run, "sandbox_failed",
                 end->text[0] != '\0' ? end->text : "the sandbox ended unexpectedly",
                 "its work is kept: continue the session with a new run", true);
}

static int start_sandbox(struct run *run, struct sandbox_spec *spec, struct error *err)
{
    struct sandbox_callbacks callbacks = { .on_ready = on_sandbox_ready,
                                           .on_end = on_sandbox_end,
                                           .data = run };
    struct runs *runs = run->runs;
    struct proxy_grant grant = { .run_id = run->record.id.text };
    char token[PROXY_TOKEN_SIZE];

    spec->id = mem_strdup(run->record.id.text);
    spec->runtime_dir = mem_strdup(run->runtime_dir);
    spec->host_uid = run->session.host_uid;
    spec->hostname = mem_strdup("sandbox");
    spec->limits = runs->options.limits;
    proxy_revoke(runs->proxy, run->record.id.text);
    if (proxy_grant_run(runs->proxy, &grant, token, err) < 0)
        return -1;
    sandbox_spec_add_mount(spec, run->layout.workspace, SANDBOX_WORKSPACE, SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(spec, run->layout.home, SANDBOX_HOME, SANDBOX_READ_WRITE);
    add_git_config(run, spec, token);
    if (add_agent(run, spec, token, err) < 0 || add_local_source(run, spec, err) < 0)
        return -1;
    return sandbox_start(&run->sandbox, runs->loop, &runs->options.sandbox, spec, &callbacks, err);
}

void step_start_sandbox(struct run *run)
{
    struct sandbox_spec spec;
    struct error err = ERROR_INIT;
    int rc;

    admission_arm_deadline(run);
    run_touch(run);
    run->sandbox_over = false;
    if (workspace_make(&run->layout, run->session.host_uid, &err) < 0 ||
        paths_make_private(run->runtime_dir, &err) < 0) {
        run_fail(run, err.sys == ENOSPC || err.sys == EDQUOT ? "disk_full" : "sandbox_failed",
                 err.text, "check the state folder's permissions and free space", true);
        return;
    }
    sandbox_spec_init(&spec);
    rc = start_sandbox(run, &spec, &err);
    sandbox_spec_finish(&spec);
    if (rc < 0)
        run_fail(run, err.code == ERR_NOT_FOUND ? "agent_not_found" : "sandbox_failed", err.text,
                 err.code == ERR_NOT_FOUND
                     ? "install the agent; sandboxctl doctor shows where it is looked for"
                     : sandbox_hint(&err),
                 true);
}

/* Agent
 * ---------------------------------------------------------------------------------------------------------
 */

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

    if (err != NULL)
        run_fail(run, failure_code, err->text,
                 "the run's log has the agent's own words: sandboxctl logs", true);
    else
        run_apply(run, RUN_EV_AGENT_READY);
}

static void set_text(char **slot, const char *text)
{
    free(*slot);
    *slot = mem_strdup(text);
}

static void forget_request(struct run *run)
{
    free(STEAL(run->open_request));
    free(STEAL(run->open_request_id));
}

/* A request as run views and events show it: what the driver's data holds comes last. */
static void write_request(struct buf *out, const struct agent_event *event, enum run_note kind)
{
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    json_member_string(&writer, "requestId", event->request_id);
    json_member_string(&writer, "kind", kind == RUN_NOTE_QUESTION ? "question" : "permission");
    json_member_string(&writer, "text", event->text);
    if (event->data != NULL && !str_equal(event->data, "{}"))
        buf_printf(out, ",%s", event->data + 1); /* its end is ours */
    else
        json_write_object_end(&writer);
}

static void on_request(struct run *run, const struct agent_event *event, enum run_note kind)
{
    AUTO_BUF struct buf request = BUF_INIT(REQUEST_MAX);

    write_request(&request, event, kind);
    set_text(&run->open_request, request.failed ? "{}" : buf_text(&request));
    set_text(&run->open_request_id, event->request_id);
    events_note(run, kind, event->text, run->open_request);
    run_apply(run, RUN_EV_ASKED);
}

static void take_usage(struct run *run, const struct agent_usage *usage)
{
    struct run_usage_record *to = &run->record.usage;

    to->input_tokens = usage->input_tokens;
    to->output_tokens = usage->output_tokens;
    to->cache_read_tokens = usage->cache_read_tokens;
    to->cache_write_tokens = usage->cache_write_tokens;
    to->cost_microdollars = usage->cost_microdollars;
}

static void on_agent_event(void *data, const struct agent_event *event)
{
    struct run *run = data;

    run_touch(run);
    switch (event->kind) {
    case AGENT_EVENT_ALIVE:
    case AGENT_EVENT_RUNNING:
    case AGENT_EVENT_TITLE:
        break;
    case AGENT_EVENT_TEXT:
        events_note(run, RUN_NOTE_TEXT, event->text, event->data);
        break;
    case AGENT_EVENT_REASONING:
        events_note(run, RUN_NOTE_REASONING, event->text, event->data);
        break;
    case AGENT_EVENT_TOOL_START:
        set_text(&run->current_step, event->text);
        break;
    case AGENT_EVENT_TOOL:
        set_text(&run->current_step, event->text);
        events_note(run, RUN_NOTE_TOOL, event->text, event->data);
        break;
    case AGENT_EVENT_TODO:
        events_note(run, RUN_NOTE_TODO, event->text, event->data);
        break;
    case AGENT_EVENT_PERMISSION:
        on_request(run, event, RUN_NOTE_PERMISSION);
        break;
    case AGENT_EVENT_QUESTION:
        on_request(run, event, RUN_NOTE_QUESTION);
        break;
    case AGENT_EVENT_ANSWERED:
        if (str_equal(run->open_request_id, event->request_id)) {
            forget_request(run);
            run_apply(run, RUN_EV_ANSWERED);
        }
        break;
    case AGENT_EVENT_RETRY:
        events_note(run, RUN_NOTE_RETRY, event->text, event->data);
        break;
    case AGENT_EVENT_USAGE:
        take_usage(run, &event->usage);
        break;
    case AGENT_EVENT_LOG:
        events_note(run, RUN_NOTE_LOG, event->text, event->data);
        break;
    }
}

static void on_prompt_taken(void *data, const char *conversation, const char *prompt_id)
{
    struct run *run = data;

    record_set(&run->session.agent_session, conversation);
    record_set(&run->session.agent, run->record.agent);
    record_set(&run->record.prompt_id, prompt_id);
    run_apply(run, RUN_EV_PROMPT_TAKEN);
}

static void take_end(struct run *run, const struct agent_end *end)
{
    size_t len = strlen(end->output);
    AUTO_FREE
    char *output = mem_strndup(
        end->output, len > RUN_OUTPUT_MAX ? str_utf8_cut(end->output, RUN_OUTPUT_MAX) : len);

    record_set(&run->record.output, output);
    record_set(&run->record.evidence.finish_reason, end->finish_reason);
    if (end->usage_known)
        take_usage(run, &end->usage);
    if (end->kind == AGENT_END_INCOMPLETE)
        record_set(&run->record.verdict, "incomplete");
}

static void on_agent_end(void *data, const struct agent_end *end)
{
    struct run *run = data;

    run->agent_done = true;
    forget_request(run);
    uv_timer_stop(&run->watch);
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
        run_fail(run, end->error_code[0] != '\0' ? end->error_code : "agent_error", end->message,
                 end->hint, end->retryable);
        break;
    }
}

void step_start_agent(struct run *run)
{
    const struct agent_host host = { .data = run,
                                     .spawn = host_spawn,
                                     .wait = host_wait,
                                     .connect = host_connect,
                                     .signal = host_signal };
    const struct agent_callbacks callbacks = { .on_ready = on_agent_ready,
                                               .on_event = on_agent_event,
                                               .on_prompt_taken = on_prompt_taken,
                                               .on_end = on_agent_end,
                                               .data = run };
    struct agent_setup setup;
    struct error err = ERROR_INIT;
    int rc;

    /* The driver keeps the token only in the configuration file that it placed before. */
    agent_setup_init(&setup, run, "");
    rc = run->driver->start(&run->agent, run->runs->loop, &host, &setup.options, &callbacks, &err);
    agent_setup_finish(&setup, run);
    if (rc < 0)
        run_fail(run, "agent_not_ready", err.text,
                 "the run's log has the agent's own words: sandboxctl logs", true);
}

static void on_watch(uv_timer_t *timer)
{
    struct run *run = timer->data;
    uint64_t limit = (uint64_t)run->runs->options.stall_minutes * 60000;
    uint64_t silent = clock_mono_ms(run->runs->clock) - run->active_mono_ms;
    AUTO_FREE
    char *message = NULL;

    if (silent < limit) {
        uv_timer_start(&run->watch, on_watch, limit - silent, 0);
        return;
    }
    if (run->record.state == RUN_WAITING) /* its silence is ours, until the answer */
        uv_timer_start(&run->watch, on_watch, limit, 0);
    if (run->record.state != RUN_PROMPT && run->record.state != RUN_WORKING)
        return;
    message = mem_printf("no sign of life from the agent or its model for %u minutes",
                         run->runs->options.stall_minutes);
    run->driver->abort(run->agent);
    run_fail(run, "agent_stalled", message, "continue the session with a new run", true);
}

void step_prompt(struct run *run)
{
    struct error err = ERROR_INIT;

    run_touch(run);
    run->agent_done = false;
    if (run->runs->options.stall_minutes > 0)
        uv_timer_start(&run->watch, on_watch, (uint64_t)run->runs->options.stall_minutes * 60000,
                       0);
    if (run->driver->prompt(run->agent, run->record.task, &err) < 0) {
        run->agent_done = true;
        run_fail(run, "agent_error", err.text, "", true);
    }
}
