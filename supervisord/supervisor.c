#include "supervisor.h"

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "agent/agent.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "control/control.h"
#include "proxy/proxy.h"
#include "run/run.h"
#include "sandbox/cgroup.h"
#include "registries.h"
#include "service_manager.h"
#include "signals.h"
#include "store/store.h"
#include "telling.h"
#include "vault/ca.h"
#include "vault/trust.h"
#include "vault/vault.h"
#include "web/web.h"

#define WEB_TOKEN_MIN 20 /* characters */

#define OTHER_WAIT_MS 15000u /* for another supervisor to serve, or to end */
#define OTHER_LOOK_MS 20

struct supervisor {
    const struct paths *paths;
    const struct config *config;
    uv_loop_t loop;
    struct signals signals;
    bool signals_started;
    struct store *store;
    struct vault *vault;
    struct ca *ca;
    struct trust trust;
    struct registries *registries;
    struct proxy *proxy;
    struct runs *runs;
    struct telling *telling; /* NULL: no notices are wanted */
    struct web *web;
    struct control *control;
    uv_timer_t idle;
    bool idle_open;
    uint32_t idle_minutes;
    bool serving; /* it came so far */
    bool stopping;
    char *init_path;
    struct agent_profile *agents;
    struct cgroup_host *cgroups;
    char *bwrap;
};

/* Options from the configuration
 * --------------------------------------------------------------------------------- */

static bool is_git_service(const struct config_service *service)
{
    return service->provider_path[0] == '\0' && strstr(service->inject_value, ":basic:") != NULL;
}

static bool is_model_service(const struct config_service *service)
{
    return service->provider_npm[0] != '\0';
}

static struct proxy_service *make_proxy_services(const struct config *config)
{
    struct proxy_service *services = mem_new_zero(config->service_count + 1, sizeof(*services));

    for (size_t i = 0; i < config->service_count; i++) {
        const struct config_service *from = &config->services[i];

        services[i] = (struct proxy_service){
            .name = from->name,
            .target = from->target,
            .inject_header = from->inject_header,
            .inject_query = from->inject_query,
            .inject_value = from->inject_value,
            .secret = from->secret,
            .allow = (const char *const *)from->allow,
            .allow_count = from->allow_count,
            .private = from->private,
            .model = is_model_service(from),
            .probe = from->probe,
            .push_refs = (const char *const *)from->push_refs,
            .push_ref_count = from->push_ref_count,
            .push_overwrite = from->push_overwrite,
            .repositories = (const char *const *)from->git_repositories,
            .repository_count = from->git_repository_count,
        };
    }
    return services;
}

static void on_decision(void *data, const struct proxy_decision *decision)
{
    struct supervisor *supervisor = data;
    struct audit_record audit;
    struct error err = ERROR_INIT;

    audit_record_init(&audit);
    audit.time_ms = clock_wall_ms(clock_system());
    id_parse(ID_KIND_RUN, decision->run_id, &audit.run);
    record_set(&audit.service, decision->service);
    record_set(&audit.method, decision->method);
    record_set(&audit.host, decision->host);
    record_set(&audit.path, decision->path);
    record_set(&audit.detail, decision->detail);
    audit.verdict = (uint32_t)decision->verdict;
    record_set(&audit.reason, decision->reason);
    audit.status = decision->status;
    audit.request_bytes = decision->request_bytes;
    audit.response_bytes = decision->response_bytes;
    audit.milliseconds = decision->milliseconds;
    audit.input_tokens = decision->input_tokens;
    audit.output_tokens = decision->output_tokens;
    audit.microdollars = decision->microdollars;
    if (store_audit_append(supervisor->store, &audit, &err) < 0)
        log_error("audit", "record lost: %s", err.text);
    else if (supervisor->control != NULL)
        control_audited(supervisor->control);
    audit_record_finish(&audit);
    if (supervisor->runs != NULL)
        runs_proxy_decision(supervisor->runs, decision);
}

static void on_traffic(void *data, const char *run_id)
{
    struct supervisor *supervisor = data;

    if (supervisor->runs != NULL)
        runs_proxy_traffic(supervisor->runs, run_id);
}

static void on_model(void *data, const struct proxy_model_news *news)
{
    struct supervisor *supervisor = data;

    if (supervisor->runs != NULL)
        runs_proxy_model(supervisor->runs, news);
}

static void on_pushed(void *data, const char *run_id, const char *pushed)
{
    struct supervisor *supervisor = data;

    if (supervisor->runs != NULL)
        runs_proxy_pushed(supervisor->runs, run_id, pushed);
}

static void on_registry(void *data, const char *rule)
{
    struct supervisor *supervisor = data;
    struct error err = ERROR_INIT;

    if (supervisor->proxy == NULL)
        return;
    if (proxy_allow(supervisor->proxy, rule, &err) == 0)
        log_debug("registries", "sandboxes may: %s", rule);
    else
        log_warn("registries", "%s", err.text);
}

static void on_registries(void *data)
{
    struct supervisor *supervisor = data;

    if (supervisor->runs != NULL)
        runs_trust_found(supervisor->runs);
}

/* Only for the first run: a supervisor that only answers questions needs no certificates. Without
 * them there is no way to hosts whose requests are judged; services are there all the same. */
static void find_trust(void *data, struct run_trust *trust)
{
    struct supervisor *supervisor = data;
    const char *extra = supervisor->config->ca_file;
    struct error err = ERROR_INIT;

    bool known = supervisor->registries == NULL || registries_need(supervisor->registries);

    if (ca_open(&supervisor->ca, supervisor->vault, clock_system(), &err) == 0 &&
        trust_write(&supervisor->trust, supervisor->paths->state, ca_pem(supervisor->ca),
                    extra[0] != '\0' ? extra : NULL, &err) == 0 &&
        proxy_set_ca(supervisor->proxy, supervisor->ca, &err) == 0) {
        *trust = (struct run_trust){ supervisor->trust.folder,
                                     supervisor->trust.system_file,
                                     supervisor->trust.java_file,
                                     NULL,
                                     NULL,
                                     !known };
        if (supervisor->registries != NULL) {
            trust->variable = registries_variable;
            trust->variable_data = supervisor->registries;
        }
        return;
    }
    log_error("proxy", "sandboxes get no certificates: %s", err.text);
}

static struct price *make_prices(const struct config *config)
{
    struct price *prices = mem_new_zero(config->price_count + 1, sizeof(*prices));

    for (size_t i = 0; i < config->price_count; i++) {
        const struct config_price *from = &config->prices[i];

        prices[i] = (struct price){ .model = from->model,
                                    .input = from->input,
                                    .output = from->output,
                                    .cache_read = from->cache_read,
                                    .cache_write = from->cache_write };
    }
    return prices;
}

static int start_proxy(struct supervisor *supervisor, struct error *err)
{
    struct proxy_service *services = make_proxy_services(supervisor->config);
    const struct config *config = supervisor->config;
    struct price *prices = make_prices(config);
    struct proxy_options options = {
        .services = services,
        .service_count = config->service_count,
        .egress = (const char *const *)config->egress_allow,
        .egress_count = config->egress_allow_count,
        .ca_file = config->ca_file[0] != '\0' ? config->ca_file : NULL,
        .parent = { .address = config->egress_proxy,
                    .without = (const char *const *)config->egress_no_proxy,
                    .without_count = config->egress_no_proxy_count,
                    .secret = config->egress_proxy_secret },
        .model_head_ms = (uint64_t)config->model_head_seconds * 1000,
        .model_silence_ms = (uint64_t)config->model_silence_seconds * 1000,
        .retry_after_max_seconds = config->model_retry_wait_seconds,
        .model_limits = { .failures = config->model_failures,
                          .wait_ms = (uint64_t)config->model_retry_wait_seconds * 1000,
                          .requests = config->model_requests,
                          .tokens = config->model_tokens,
                          .microdollars = (uint64_t)config->model_cents * 10000 },
        .prices = prices,
        .price_count = config->price_count,
        .on_decision = on_decision,
        .on_traffic = on_traffic,
        .on_model = on_model,
        .on_pushed = on_pushed,
        .data = supervisor,
    };
    int rc = proxy_start(&supervisor->proxy, &supervisor->loop, supervisor->vault, clock_system(),
                         &options, err);

    free(services);
    free(prices);
    return rc;
}

struct service_lists {
    struct run_model_service *models;
    size_t model_count;
    const char **git_names;
    const char **git_targets;
    size_t git_count;
};

static void make_service_lists(const struct config *config, struct service_lists *lists)
{
    *lists = (struct service_lists){ 0 };
    lists->models = mem_new_zero(config->service_count + 1, sizeof(*lists->models));
    lists->git_names = mem_new_zero(config->service_count + 1, sizeof(char *));
    lists->git_targets = mem_new_zero(config->service_count + 1, sizeof(char *));
    for (size_t i = 0; i < config->service_count; i++) {
        const struct config_service *from = &config->services[i];

        if (is_model_service(from))
            lists->models[lists->model_count++] =
                (struct run_model_service){ .name = from->name,
                                            /* Agents know the built-in ones by name. */
                                            .npm = from->builtin ? "" : from->provider_npm,
                                            .path = from->provider_path,
                                            .secret = from->secret,
                                            .models = (const char *const *)from->provider_models,
                                            .model_count = from->provider_model_count };
        if (is_git_service(from)) {
            lists->git_names[lists->git_count] = from->name;
            lists->git_targets[lists->git_count++] = from->target;
        }
    }
}

static enum agent_policy policy_of(const char *word)
{
    return str_equal(word, "ask") ? AGENT_ASK : str_equal(word, "deny") ? AGENT_DENY : AGENT_ALLOW;
}

static void finish_service_lists(struct service_lists *lists)
{
    free(lists->models);
    free(lists->git_names);
    free(lists->git_targets);
}

/* The bits of the layers that the configuration demands. */
static int read_required(const struct config *config, uint32_t *required, struct error *err)
{
    AUTO_BUF struct buf known = BUF_INIT(4096);

    *required = 0;
    for (size_t i = 0; i < config->sandbox_require_count; i++) {
        int layer = sandbox_layer_parse(config->sandbox_require[i]);

        if (layer < 0) {
            sandbox_layers_print((UINT32_C(1) << SANDBOX_LAYER_COUNT) - 1, &known);
            return error_set(err, ERR_INVALID, 0,
                             "sandbox.require: there is no layer %.40s; known: %s",
                             config->sandbox_require[i], buf_text(&known));
        }
        *required |= UINT32_C(1) << layer;
    }
    return 0;
}

/* Strings are the configuration's. */
static struct agent_profile *make_profiles(const struct config *config)
{
    struct agent_profile *profiles = mem_new_zero(config->agent_count + 1, sizeof(*profiles));

    for (size_t i = 0; i < config->agent_count; i++) {
        const struct config_agent *from = &config->agents[i];
        struct agent_profile_file *files = mem_new_zero(from->file_count + 1, sizeof(*files));

        for (size_t j = 0; j < from->file_count; j++)
            files[j] = (struct agent_profile_file){ from->files[j].target, from->files[j].text };
        profiles[i] =
            (struct agent_profile){ .name = from->name,
                                    .driver = "acp",
                                    .program = from->program,
                                    .packages = (const char *const *)from->packages,
                                    .package_count = from->package_count,
                                    .arguments = (const char *const *)from->arguments,
                                    .argument_count = from->argument_count,
                                    .environment = (const char *const *)from->environment,
                                    .environment_count = from->environment_count,
                                    .files = files,
                                    .file_count = from->file_count,
                                    .services = (const char *const *)from->services,
                                    .service_count = from->service_count,
                                    .model = from->model,
                                    .set_model = from->set_model,
                                    .set_mode = from->set_mode,
                                    .before = from->before,
                                    .install = from->install,
                                    .permissions = (enum agent_permissions)from->permissions };
    }
    return profiles;
}

static void free_profiles(struct agent_profile *profiles, size_t count)
{
    for (size_t i = 0; profiles != NULL && i < count; i++)
        free((void *)(uintptr_t)profiles[i].files);
    free(profiles);
}

static void on_notice(void *data)
{
    struct supervisor *supervisor = data;

    telling_due(supervisor->telling);
}

static struct proxy_push push_of(const struct config_repository *repository)
{
    static const enum proxy_overwrite overwrite[] = {
        [CONFIG_CHOICE_NONE] = PROXY_OVERWRITE_AS_SERVICE,
        [CONFIG_CHOICE_NO] = PROXY_OVERWRITE_NO,
        [CONFIG_CHOICE_YES] = PROXY_OVERWRITE_YES,
    };

    return (struct proxy_push){ .refs = (const char *const *)repository->push_refs,
                                .ref_count = repository->push_ref_count,
                                .overwrite = overwrite[repository->push_overwrite] };
}

static int start_runs(struct supervisor *supervisor, struct error *err)
{
    const struct config *config = supervisor->config;
    struct service_lists lists;
    struct runs_options options;
    struct run_repository *repositories;
    uint32_t required;
    int rc;

    if (read_required(config, &required, err) < 0)
        return -1;

    make_service_lists(config, &lists);
    supervisor->agents = make_profiles(config);
    repositories = mem_new_zero(config->repository_count + 1, sizeof(*repositories));
    for (size_t i = 0; i < config->repository_count; i++)
        repositories[i] =
            (struct run_repository){ .address = config->repositories[i].address,
                                     .setup = config->repositories[i].setup,
                                     .setup_minutes = config->repositories[i].setup_minutes,
                                     .filter = config->repositories[i].filter,
                                     .model = config->repositories[i].model,
                                     .work_branch = config->repositories[i].work_branch,
                                     .services =
                                         (const char *const *)config->repositories[i].services,
                                     .service_count = config->repositories[i].service_count,
                                     .egress = (const char *const *)config->repositories[i].egress,
                                     .egress_count = config->repositories[i].egress_count,
                                     .push = push_of(&config->repositories[i]) };
    options = (struct runs_options){
        .state_dir = supervisor->paths->state,
        .runtime_dir = supervisor->paths->runtime,
        .data_dir = supervisor->paths->data,
        .default_agent = config->default_agent,
        .default_model = config->default_model,
        .default_timeout_minutes = config->default_timeout_minutes,
        .concurrent_runs = config->concurrent_runs,
        .max_queued_runs = config->max_queued_runs,
        .clone_minutes = config->clone_minutes,
        .clone_filter = config->clone_filter,
        .mirror_mib = config->mirror_mib,
        .work_branch = config->work_branch,
        .git_name = config->git_name,
        .git_email = config->git_email,
        .stall_minutes = config->stall_minutes,
        .model_failures = config->model_failures,
        .model_requests = config->model_requests,
        .model_retries = config->model_retries,
        .model_tokens = config->model_tokens,
        .model_microdollars = (uint64_t)config->model_cents * 10000,
        .model_head_seconds = config->model_head_seconds,
        .model_silence_seconds = config->model_silence_seconds,
        .model_retry_wait_seconds = config->model_retry_wait_seconds,
        .agent_start_seconds = config->agent_start_seconds,
        .permissions = policy_of(config->permissions),
        .questions = policy_of(config->questions),
        .answer_seconds = config->answer_seconds,
        .stop_unanswered = str_equal(config->unanswered, "stop"),
        .agent_opencode = config->agent_opencode,
        .agents = supervisor->agents,
        .agent_count = config->agent_count,
        .local_repositories = (const char *const *)config->local_repositories,
        .local_repository_count = config->local_repository_count,
        .host_uid_base = config->host_uid_base,
        .host_uid_count = config->host_uid_count,
        .repositories = repositories,
        .repository_count = config->repository_count,
        .setup_allow = (const char *const *)config->setup_allow,
        .setup_allow_count = config->setup_allow_count,
        .setup_minutes = config->setup_minutes,
        .find_trust = find_trust,
        .find_trust_data = supervisor,
        .notices = telling_wanted(config),
        .on_notice = on_notice,
        .on_notice_data = supervisor,
        .environment = (const char *const *)config->sandbox_environment,
        .environment_count = config->sandbox_environment_count,
        .folders = (const char *const *)config->sandbox_folders,
        .folder_count = config->sandbox_folder_count,
        .caches = (const char *const *)config->sandbox_caches,
        .cache_count = config->sandbox_cache_count,
        .home = supervisor->paths->home,
        .sandbox = { .backend = config->sandbox_backend,
                     .allow_none = config->sandbox_allow_none,
                     .required = required,
                     .bwrap = config->sandbox_bwrap,
                     .init_path = supervisor->init_path,
                     .start_timeout_ms = 20000,
                     .cgroups = supervisor->cgroups },
        .limits = { .memory_bytes = (uint64_t)config->memory_mib << 20,
                    .processes = config->processes,
                    .cpu_weight = config->cpu_weight,
                    .open_files = config->open_files,
                    .file_size_bytes = (uint64_t)config->disk_mib << 20,
                    .tmp_bytes = (uint64_t)config->tmp_mib << 20 },
        .machine = { .free_memory_mib = config->free_memory_mib,
                     .free_disk_mib = config->free_disk_mib,
                     .memory_pressure_percent = config->memory_pressure_percent },
        .disk_mib = config->disk_mib,
        .retention_days = config->retention_days,
        .retention_mirror_days = config->retention_mirror_days,
        .retention_mib = config->retention_mib,
        .checkpoint_mib = config->checkpoint_mib,
        .checkpoint_count = config->checkpoint_count,
        .checkpoint_seconds = config->checkpoint_seconds,
        .output_mib = config->output_mib,
        .model_services = lists.models,
        .model_service_count = lists.model_count,
        .git_services = lists.git_names,
        .git_targets = lists.git_targets,
        .git_service_count = lists.git_count,
    };
    rc = runs_start(&supervisor->runs, &supervisor->loop, supervisor->store, supervisor->proxy,
                    clock_system(), &options, err);
    finish_service_lists(&lists);
    free(repositories);
    return rc;
}

/* The token that signs a browser of another machine in. NULL: there is none, or it is too easy. */
static struct secret *web_token(struct supervisor *supervisor)
{
    struct error err = ERROR_INIT;
    struct secret *secret = vault_get(supervisor->vault, "WEB_TOKEN", &err);

    if (secret == NULL || secret_len(secret) >= WEB_TOKEN_MIN)
        return secret;
    secret_unref(secret);
    return NULL;
}

static bool web_token_matches(void *data, const char *token)
{
    struct secret *secret = web_token(data);
    bool right;

    if (secret == NULL)
        return false;
    right = secret_matches(secret, token, strlen(token));
    secret_unref(secret);
    return right;
}

/* Other machines reach the pages only when there is a token to ask them for. */
static bool web_goes_out(struct supervisor *supervisor)
{
    struct secret *secret;

    if (supervisor->config->web_remote_listen[0] == '\0')
        return false;
    secret = web_token(supervisor);
    if (secret != NULL) {
        secret_unref(secret);
        return true;
    }
    log_error("web",
              "the pages stay on this machine: web.remoteListen wants the secret WEB_TOKEN, of "
              "at least %d characters; set it with sandboxctl secret set WEB_TOKEN and start "
              "the supervisor again",
              WEB_TOKEN_MIN);
    return false;
}

static int start_web(struct supervisor *supervisor, struct error *err)
{
    const struct config *config = supervisor->config;
    struct web_options options = { .listen = config->web_listen,
                                   .port = (uint16_t)config->web_port,
                                   .state_dir = supervisor->paths->state };

    if (!config->web_enabled)
        return 0;
    if (web_goes_out(supervisor)) {
        options.listen = config->web_remote_listen;
        options.remote = true;
        options.names = (const char *const *)config->web_names;
        options.name_count = config->web_name_count;
        options.token_matches = web_token_matches;
        options.token_data = supervisor;
    }
    return web_start(&supervisor->web, &supervisor->loop, supervisor->runs, supervisor->store,
                     clock_system(), &options, err);
}

static void web_url(void *data, const char *run_id, struct buf *out)
{
    struct supervisor *supervisor = data;

    if (supervisor->web != NULL)
        web_run_url(supervisor->web, run_id, out);
}

static int web_login(void *data, const char *page, struct buf *out, uint64_t *expires_ms,
                     struct error *err)
{
    struct supervisor *supervisor = data;

    return web_login_url(supervisor->web, page, out, expires_ms, err);
}

static int web_agent(void *data, const struct id *session, struct buf *out, uint64_t *expires_ms,
                     struct error *err)
{
    struct supervisor *supervisor = data;

    return web_agent_url(supervisor->web, session, out, expires_ms, err);
}

static void stop(void *data);

/* The unit's, or one of our own. */
static int take_socket(struct supervisor *supervisor, struct error *err)
{
    int fd;

    if (service_manager_socket(supervisor->paths->socket, &fd, err) < 0)
        return -1;
    return fd >= 0 ? fd : fd_listen_unix(supervisor->paths->socket, SOCK_STREAM, 128, err);
}

struct service_check {
    control_service_check_cb done;
    void *check;
};

static void on_service_tried(void *data, const struct proxy_probe_result *result)
{
    struct service_check *asked = data;
    const struct control_service_check told = { proxy_probe_name(result->outcome), result->status,
                                                result->reason };

    asked->done(asked->check, &told);
    free(asked);
}

static int check_service(void *data, const char *service, control_service_check_cb done,
                         void *check, struct error *err)
{
    struct supervisor *supervisor = data;
    struct service_check *asked = NEW(struct service_check);

    *asked = (struct service_check){ done, check };
    if (proxy_probe(supervisor->proxy, service, on_service_tried, asked, err) == 0)
        return 0;
    free(asked);
    return -1;
}

struct notice_trials {
    control_notices_tried_cb done;
    void *trial;
};

static void on_notices_tried(void *data, const struct notice_trial *trials, size_t count)
{
    static const char *const outcomes[] = {
        [NOTICE_TOLD] = "told", [NOTICE_FAILED] = "failed", [NOTICE_REFUSED] = "refused"
    };
    struct notice_trials *asked = data;
    struct control_notice_trial *told = mem_new_zero(count + 1, sizeof(*told));

    for (size_t i = 0; i < count; i++)
        told[i] = (struct control_notice_trial){ trials[i].way, outcomes[trials[i].outcome],
                                                 trials[i].why, trials[i].next };
    asked->done(asked->trial, told, count);
    free(told);
    free(asked);
}

static int try_notices(void *data, control_notices_tried_cb done, void *trial, struct error *err)
{
    struct supervisor *supervisor = data;
    struct notice_trials *asked = NEW(struct notice_trials);

    *asked = (struct notice_trials){ done, trial };
    if (telling_try(supervisor->telling, on_notices_tried, asked, err) == 0)
        return 0;
    free(asked);
    return -1;
}

static int start_control(struct supervisor *supervisor, struct error *err)
{
    const struct config *config = supervisor->config;
    struct control_service *services = mem_new_zero(config->service_count + 1, sizeof(*services));
    struct control_options options;
    int rc = -1;

    for (size_t i = 0; i < config->service_count; i++)
        services[i] =
            (struct control_service){ config->services[i].name, config->services[i].target,
                                      config->services[i].secret };
    options =
        (struct control_options){ .socket_path = supervisor->paths->socket,
                                  .state_dir = supervisor->paths->state,
                                  .sandbox_tool = config->sandbox_bwrap,
                                  .version = SANDBOX_VERSION,
                                  .services = services,
                                  .service_count = config->service_count,
                                  .storage = { config->backup_endpoint, config->backup_region,
                                               config->backup_bucket, config->backup_access_key,
                                               config->backup_secret_key },
                                  .web_url = web_url,
                                  .web_login = supervisor->web != NULL ? web_login : NULL,
                                  .web_agent = web_agent,
                                  .check_service = check_service,
                                  .try_notices = try_notices,
                                  .on_shutdown = stop,
                                  .data = supervisor };
    options.listen_fd = take_socket(supervisor, err);
    if (options.listen_fd >= 0)
        rc = control_start(&supervisor->control, &supervisor->loop, supervisor->runs,
                           supervisor->store, supervisor->vault, clock_system(), &options, err);
    free(services);
    return rc;
}

/* Life
 * --------------------------------------------------------------------------------------------------------------
 */

static void reload(void *data)
{
    struct supervisor *supervisor = data;
    struct config *config = NULL;
    struct error err = ERROR_INIT;
    int level;

    if (config_load(&config, supervisor->paths, &err) < 0) {
        log_error("config", "the old one stays: %s", err.text);
        return;
    }
    level = log_level_parse(config->log_level);
    if (level >= 0)
        log_set_level((enum log_level)level);
    log_info("config", "read again; settings other than log.level take effect at the next start");
    config_free(config);
}

static void on_idle_minute(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;

    if (control_connections(supervisor->control) > 0 || runs_live(supervisor->runs) > 0 ||
        (supervisor->web != NULL && web_streams(supervisor->web) > 0))
        supervisor->idle_minutes = 0;
    else if (++supervisor->idle_minutes >= supervisor->config->idle_exit_minutes)
        stop(supervisor);
}

static void start_idle_exit(struct supervisor *supervisor)
{
    if (supervisor->config->idle_exit_minutes == 0)
        return;
    uv_timer_init(&supervisor->loop, &supervisor->idle);
    supervisor->idle.data = supervisor;
    supervisor->idle_open = true;
    uv_timer_start(&supervisor->idle, on_idle_minute, 60000, 60000);
}

static void proxy_down(void *data)
{
    struct supervisor *supervisor = data;

    supervisor->proxy = NULL;
}

static void runs_down(void *data)
{
    struct supervisor *supervisor = data;

    supervisor->runs = NULL;
    registries_close(supervisor->registries); /* sandboxes were told of its variables */
    if (supervisor->proxy != NULL)
        proxy_close(supervisor->proxy, proxy_down, supervisor);
}

static void close_runs(struct supervisor *supervisor)
{
    if (supervisor->runs != NULL)
        runs_close(supervisor->runs, runs_down, supervisor);
    else
        runs_down(supervisor);
}

static void telling_down(void *data)
{
    struct supervisor *supervisor = data;

    supervisor->telling = NULL;
    close_runs(supervisor);
}

static void web_down(void *data)
{
    struct supervisor *supervisor = data;

    supervisor->web = NULL;
    if (supervisor->telling != NULL)
        telling_close(supervisor->telling, telling_down, supervisor);
    else
        telling_down(supervisor);
}

static void control_down(void *data)
{
    struct supervisor *supervisor = data;

    supervisor->control = NULL;
    if (supervisor->web != NULL)
        web_close(supervisor->web, web_down, supervisor);
    else
        web_down(supervisor);
}

static void stop(void *data)
{
    struct supervisor *supervisor = data;

    if (supervisor->stopping)
        return;
    supervisor->stopping = true;
    if (supervisor->serving)
        log_info("supervisor", "stopping");
    service_manager_tell("STOPPING=1");
    if (supervisor->signals_started)
        signals_close(&supervisor->signals, NULL);
    if (supervisor->idle_open)
        uv_close((uv_handle_t *)&supervisor->idle, NULL);
    if (supervisor->control != NULL)
        control_close(supervisor->control, control_down, supervisor);
    else
        control_down(supervisor);
}

/* sandbox-init lies beside this program in a build folder, below libexec when installed. */
static char *find_init(const struct config *config, struct error *err)
{
    static const char *const places[] = { "sandbox-init", "../libexec/sandbox-mcp/sandbox-init" };
    char self[PATH_MAX];
    ssize_t len;
    char *slash;

    if (config->sandbox_init[0] != '\0')
        return mem_strdup(config->sandbox_init);
    len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (len < 0) {
        error_set(err, ERR_SYSTEM, 0, "the program's own place can't be read");
        return NULL;
    }
    self[len] = '\0';
    slash = strrchr(self, '/');
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char *path = mem_printf("%s/%s", self, places[i]);

        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    error_set(err, ERR_NOT_FOUND, 0,
              "sandbox-init is neither in %s nor in ../libexec/sandbox-mcp; set sandbox.init",
              self);
    return NULL;
}

static void take_notice_secrets(struct supervisor *supervisor)
{
    const char *names[] = { supervisor->config->notices_webhook_secret,
                            supervisor->config->notices_ntfy_token };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (names[i][0] != '\0')
            vault_take_environment(supervisor->vault, names[i]);
    }
}

static bool is_served(const struct supervisor *supervisor)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE
    int fd = fd_connect_unix(supervisor->paths->socket, SOCK_STREAM, &err);

    return fd >= 0;
}

/* Where another supervisor has the state and serves, this one isn't needed. One that doesn't serve
 * is about to, or is stopping, and then this one takes its place. */
static int open_store(struct supervisor *supervisor, const struct store_options *options,
                      struct error *err)
{
    uint64_t begun_ms = clock_mono_ms(clock_system());

    for (;;) {
        if (store_open(&supervisor->store, options, err) == 0)
            return 0;
        if (err->code != ERR_CONFLICT || is_served(supervisor) ||
            clock_mono_ms(clock_system()) - begun_ms > OTHER_WAIT_MS)
            return -1;
        *err = (struct error)ERROR_INIT;
        poll(NULL, 0, OTHER_LOOK_MS); /* nothing is served yet that could wait for this */
    }
}

static int open_storage(struct supervisor *supervisor, struct error *err)
{
    AUTO_FREE
    char *database = mem_printf("%s/db", supervisor->paths->state);
    struct store_options store = { .directory = database };
    struct vault_options vault = { .state_dir = supervisor->paths->state, .clock = clock_system() };

    if (paths_make_private(supervisor->paths->state, err) < 0 ||
        paths_make_private(supervisor->paths->runtime, err) < 0)
        return -1;
    if (open_store(supervisor, &store, err) < 0 || vault_open(&supervisor->vault, &vault, err) < 0)
        return -1;
    for (size_t i = 0; i < supervisor->config->service_count; i++) {
        if (supervisor->config->services[i].secret[0] != '\0')
            vault_take_environment(supervisor->vault, supervisor->config->services[i].secret);
    }
    take_notice_secrets(supervisor);
    return 0;
}

static void find_limits(struct supervisor *supervisor)
{
    AUTO_BUF struct buf text = BUF_INIT(1024);

    supervisor->cgroups = cgroup_host_find("", supervisor->paths->runtime);
    cgroup_host_describe(supervisor->cgroups, &text);
    log_info("limits", "%s", buf_text(&text));
}

static int start(struct supervisor *supervisor, struct error *err)
{
    if (open_storage(supervisor, err) < 0)
        return -1;
    supervisor->init_path = find_init(supervisor->config, err);
    if (supervisor->init_path == NULL)
        return -1;
    if (signals_start(&supervisor->signals, &supervisor->loop, stop, reload, supervisor, err) < 0)
        return -1;
    supervisor->signals_started = true;
    find_limits(supervisor);
    if (supervisor->config->detect_registries)
        supervisor->registries = registries_new(
            &supervisor->loop, supervisor->paths->home, supervisor->paths->state,
            &(struct registries_callbacks){ on_registry, on_registries, supervisor });
    if (start_proxy(supervisor, err) < 0 || start_runs(supervisor, err) < 0 ||
        start_web(supervisor, err) < 0 || start_control(supervisor, err) < 0 ||
        telling_start(&supervisor->telling, &supervisor->loop, supervisor->vault, clock_system(),
                      supervisor->config, err) < 0)
        return -1;
    telling_serve(supervisor->telling, supervisor->runs, web_url, supervisor);
    start_idle_exit(supervisor);
    log_info("supervisor", "version %s, pid %d, socket %s%s%s", SANDBOX_VERSION, (int)getpid(),
             supervisor->paths->socket, supervisor->web != NULL ? ", web " : "",
             supervisor->web != NULL ? web_origin(supervisor->web) : "");
    service_manager_tell("READY=1");
    supervisor->serving = true;
    return 0;
}

int supervisor_run(const struct paths *paths, const struct config *config, struct error *err)
{
    struct supervisor *supervisor = NEW(struct supervisor);
    int rc;

    supervisor->paths = paths;
    supervisor->config = config;
    uv_loop_init(&supervisor->loop);
    rc = start(supervisor, err);
    if (rc < 0)
        stop(supervisor);
    uv_run(&supervisor->loop, UV_RUN_DEFAULT);
    store_close(supervisor->store);
    ca_close(supervisor->ca);
    trust_finish(&supervisor->trust);
    if (supervisor->vault != NULL)
        vault_close(supervisor->vault);
    BUG_ON(uv_loop_close(&supervisor->loop) != 0);
    free(supervisor->init_path);
    free_profiles(supervisor->agents, config->agent_count);
    cgroup_host_free(supervisor->cgroups);
    if (supervisor->serving)
        log_info("supervisor", "stopped");
    free(supervisor);
    return rc;
}
