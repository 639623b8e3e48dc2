/* steps.c: what the rules start first: the sandbox and what lies in it. */
#include "run/internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/fd.h"
#include "common/paths.h"
#include "common/str.h"

void run_touch(struct run *run)
{
    run->active_mono_ms = clock_mono_ms(run->runs->clock);
}

/* Sandbox
 * -------------------------------------------------------------------------------------------------------
 */

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

void step_add_git_config(const struct runs *runs, struct sandbox_spec *spec, const char *token)
{
    const struct runs_options *options = &runs->options;
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
        const char *origin = git_canonical_origin(options->git_services[i]);

        add_route(routes, &count, options->git_targets[i], options->git_services[i]);
        if (origin != NULL && !str_equal(origin, options->git_targets[i]))
            add_route(routes, &count, origin, options->git_services[i]);
    }
    git_config_write(&text, &(struct git_settings){ .name = options->git_name,
                                                    .email = options->git_email,
                                                    .routes = routes,
                                                    .route_count = count,
                                                    .proxy_base = base,
                                                    .basic_credentials = basic });
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
    static const char sha1[] = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
    static const char sha256[] = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
                                 "[extensions]\n\tobjectFormat = sha256\n";
    static const char *const parts[] = { "objects", "refs", "packed-refs", "shallow" };
    const struct repository_rules rules = { .any_local = true, .any_target = true };
    struct repository repository;
    const char *config;
    struct stat st;

    if (run_place(run)->cloned || run_place(run)->repository[0] == '\0')
        return 0;
    if (repository_parse(run_place(run)->repository, &rules, &repository, err) < 0 ||
        repository.kind != REPOSITORY_LOCAL) {
        int rc = repository.kind == REPOSITORY_URL ? 0 : -1;

        repository_finish(&repository);
        return rc;
    }
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        AUTO_FREE
        char *source = mem_printf("%s/%s", repository.git_dir, parts[i]);
        AUTO_FREE
        char *target = mem_printf(REPOSITORY_LOCAL_DIR "/%s", parts[i]);

        if (lstat(source, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
            sandbox_spec_add_mount(spec, source, target, SANDBOX_READ_ONLY);
    }
    config = repository.sha256 ? sha256 : sha1;
    sandbox_spec_add_mount(spec, repository.head, REPOSITORY_LOCAL_DIR "/HEAD", SANDBOX_READ_ONLY);
    sandbox_spec_add_file(spec, REPOSITORY_LOCAL_DIR "/config", config, strlen(config), 0444);
    repository_finish(&repository);
    return 0;
}

static int add_agent(struct run *run, struct sandbox_spec *spec, const char *token,
                     struct error *err)
{
    const struct agent_files files = driver_files(spec);
    const struct runs_options *options = &run->runs->options;
    AUTO_FREE
    char *program = NULL;
    struct driver_setup setup;
    int rc;

    if (run->driver->locate != NULL && run->driver->locate(run->profile, options->agent_opencode,
                                                           options->data_dir, &program, err) < 0)
        return -1;
    driver_setup_init(&setup, run, token);
    rc = run->driver->prepare(&setup.options, program, &files, err);
    driver_setup_finish(&setup, run);
    return rc;
}

/* With a network of its own, only the run's programs reach its listener. */
void run_open_listener(struct run *run)
{
    if (sandbox_layers(run->sandbox) & UINT32_C(1) << SANDBOX_LAYER_NETWORK_NAMESPACE)
        proxy_open_listener(run->runs->proxy, run->record.id.text);
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
    run_open_listener(run);
    run_apply(run, RUN_EV_SANDBOX_READY);
}

static const char *sandbox_hint(const struct error *err)
{
    if (err->code == ERR_INVALID)
        return "the configuration asks for what this machine doesn't have";
    return err->code == ERR_UNAVAILABLE
               ? "install or enable what the message names; sandboxctl doctor checks it"
               : "sandboxctl doctor checks what sandboxes need here";
}

static void note_isolation(struct run *run)
{
    AUTO_BUF struct buf layers = BUF_INIT(4096);
    AUTO_FREE
    char *text = NULL;

    sandbox_layers_print(sandbox_layers(run->sandbox), &layers);
    record_set(&run->record.isolation, buf_text(&layers));
    text = mem_printf("sandbox held by: %s", layers.len > 0 ? buf_text(&layers) : "nothing");
    events_note(run, RUN_NOTE_LOG, text, "{\"phase\":\"sandbox\"}");
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
    note_isolation(run);
    admission_bind_sandbox(run);
    limits_watch(run);
    if (sandbox_listen(run->sandbox, RUN_PROXY_PORT, on_listen, run, &local) < 0)
        run_fail(run, "sandbox_failed", local.text, "see the supervisor's log", true);
}

void step_on_sandbox_end(void *data, const struct sandbox_end *end)
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
    case RUN_SETUP:
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
                                           .on_end = step_on_sandbox_end,
                                           .on_limit = limits_on_hit,
                                           .data = run };
    struct runs *runs = run->runs;
    struct proxy_grant grant = { .run_id = run->record.id.text,
                                 .model_retries = run_model_retries(run) };
    struct git_grant repositories;
    char token[PROXY_TOKEN_SIZE];
    int rc;

    spec->id = mem_strdup(run->record.id.text);
    spec->runtime_dir = mem_strdup(run->runtime_dir);
    spec->host_uid = run->session.host_uid;
    spec->hostname = mem_strdup("sandbox");
    spec->limits = runs->options.limits;
    proxy_revoke(runs->proxy, run->record.id.text);
    git_grant_init(&repositories, run, &grant);
    rc = proxy_grant_run(runs->proxy, &grant, token, run->record.token_hash, err);
    git_grant_finish(&repositories);
    if (rc < 0)
        return -1;
    sandbox_spec_add_mount(spec, run->layout.workspace, SANDBOX_WORKSPACE, SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(spec, run->layout.home, SANDBOX_HOME, SANDBOX_READ_WRITE);
    step_add_git_config(run->runs, spec, token);
    mirror_add(run, spec);
    trust_add(run, spec);
    if (caches_add(run, spec, err) < 0 || add_agent(run, spec, token, err) < 0 ||
        add_local_source(run, spec, err) < 0)
        return -1;
    return sandbox_start(&run->sandbox, runs->loop, &runs->options.sandbox, spec, &callbacks, err);
}

void step_start_sandbox(struct run *run)
{
    struct sandbox_spec spec;
    struct error err = ERROR_INIT;
    int rc;

    trust_find(run->runs);
    run->awaits_trust = run->runs->trust.pending;
    if (run->awaits_trust) {
        run->sandbox_over = true;
        return;
    }
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
    if (rc < 0 && (err.sys == ENOSPC || err.sys == EDQUOT))
        run_fail(run, "disk_full", err.text, "free disk space: sandboxctl rm removes a session",
                 true);
    else if (rc < 0)
        run_fail(run, err.code == ERR_NOT_FOUND ? "agent_not_found" : "sandbox_failed", err.text,
                 err.code == ERR_NOT_FOUND
                     ? "install the agent; sandboxctl doctor shows where it is looked for"
                     : sandbox_hint(&err),
                 true);
}
