/* proxy.c: runs, their grants and listeners; everything of a run is cut when it is revoked. */
#include "proxy/proxy_internal.h"

#include <sodium.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define DEFAULT_CONNECTIONS 64u
#define DEFAULT_CONNECT_MS 10000u
#define DEFAULT_IDLE_MS 600000u
#define DEFAULT_RETRY_AFTER_SECONDS 60u
#define TRAFFIC_INTERVAL_MS 1000u

/* Proxy
 * ----------------------------------------------------------------------------------------------------------
 */

void proxy_part_opened(struct proxy *proxy)
{
    proxy->open++;
}

void proxy_part_closed(struct proxy *proxy)
{
    if (--proxy->open > 0)
        return;
    void (*done)(void *data) = proxy->done;
    void *data = proxy->done_data;

    for (size_t i = 0; i < proxy->services.count; i++)
        inject_cache_finish(&proxy->caches[i]);
    free(proxy->caches);
    services_finish(&proxy->services);
    parent_finish(&proxy->parent);
    price_table_finish(&proxy->prices);
    egress_finish(&proxy->egress);
    egress_finish(&proxy->allowed);
    tls_context_free(proxy->tls_server);
    tls_context_free(proxy->tls_client);
    free(proxy->ca_file);
    free(proxy);
    if (done != NULL)
        done(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    proxy_part_closed(handle->data);
}

static void on_rest(uv_prepare_t *prepare)
{
    struct proxy *proxy = prepare->data;

    for (size_t i = 0; i < proxy->services.count; i++)
        inject_cache_rest(&proxy->caches[i]);
    uv_prepare_stop(prepare);
}

void proxy_rest_soon(struct proxy *proxy)
{
    if (!proxy->closing)
        uv_prepare_start(&proxy->rest, on_rest);
}

static void fill_defaults(struct proxy_options *options)
{
    if (options->connections_per_run == 0)
        options->connections_per_run = DEFAULT_CONNECTIONS;
    if (options->upstream_connect_ms == 0)
        options->upstream_connect_ms = DEFAULT_CONNECT_MS;
    if (options->upstream_idle_ms == 0)
        options->upstream_idle_ms = DEFAULT_IDLE_MS;
    if (options->retry_after_max_seconds == 0)
        options->retry_after_max_seconds = DEFAULT_RETRY_AFTER_SECONDS;
    if (options->model_head_ms == 0)
        options->model_head_ms = options->upstream_idle_ms;
    if (options->model_silence_ms == 0)
        options->model_silence_ms = options->upstream_idle_ms;
}

int proxy_set_ca(struct proxy *proxy, struct ca *ca, struct error *err)
{
    if (ca == NULL)
        return 0;
    if (tls_server_context_new(&proxy->tls_server, err) < 0)
        return -1;
    proxy->ca = ca;
    return 0;
}

static int read_rules(struct proxy *proxy, const struct proxy_options *options, struct error *err)
{
    if (services_init(&proxy->services, options->services, options->service_count, err) < 0 ||
        egress_init(&proxy->egress, options->egress, options->egress_count, err) < 0 ||
        parent_init(&proxy->parent, &options->parent, proxy->vault, err) < 0)
        return -1;
    return proxy_set_ca(proxy, options->ca, err);
}

struct tls_context *proxy_tls_client(struct proxy *proxy, struct error *err)
{
    if (proxy->tls_client == NULL &&
        tls_client_context_new(&proxy->tls_client, proxy->ca_file, err) < 0)
        proxy->tls_client = NULL;
    return proxy->tls_client;
}

int proxy_start(struct proxy **out, uv_loop_t *loop, struct vault *vault, const struct clock *clock,
                const struct proxy_options *options, struct error *err)
{
    struct proxy *proxy = NEW(struct proxy);

    if (sodium_init() < 0) {
        free(proxy);
        return error_set(err, ERR_UNAVAILABLE, 0, "libsodium can't start");
    }
    proxy->vault = vault;
    if (read_rules(proxy, options, err) < 0) {
        services_finish(&proxy->services);
        egress_finish(&proxy->egress);
        parent_finish(&proxy->parent);
        free(proxy);
        return -1;
    }
    proxy->caches = mem_new_zero(proxy->services.count + 1, sizeof(*proxy->caches));
    proxy->loop = loop;
    proxy->clock = clock;
    proxy->options = *options;
    proxy->options.services = NULL; /* the caller's; ours are in the tables */
    proxy->options.egress = NULL;
    price_table_init(&proxy->prices, options->prices, options->price_count);
    proxy->options.prices = NULL;
    proxy->options.parent = (struct parent_options){ 0 };
    proxy->ca_file = mem_strdup(options->ca_file);
    proxy->options.ca_file = proxy->ca_file;
    fill_defaults(&proxy->options);
    list_init(&proxy->runs);
    uv_idle_init(loop, &proxy->closer);
    proxy->closer.data = proxy;
    uv_prepare_init(loop, &proxy->rest);
    proxy->rest.data = proxy;
    proxy->open = 2;
    *out = proxy;
    return 0;
}

/* Runs
 * -----------------------------------------------------------------------------------------------------------
 */

static struct run *find_run(const struct proxy *proxy, const char *run_id)
{
    LIST_EACH(&proxy->runs, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (strcmp(run->id, run_id) == 0)
            return run;
    }
    return NULL;
}

struct run *proxy_run(const struct proxy *proxy, const char *run_id)
{
    return find_run(proxy, run_id);
}

void run_part_opened(struct run *run)
{
    run->open++;
}

void run_part_closed(struct run *run)
{
    struct proxy *proxy = run->proxy;

    BUG_ON(run->open == 0);
    if (--run->open > 0)
        return;
    /* The run's own part goes with revoking, so this one is revoked. */
    free(run->id);
    free(run->granted);
    for (size_t i = 0; i < run->grant.repository_count; i++) {
        free(run->repositories[i].path);
        free(run->repositories[i].branch);
        str_list_free(run->repositories[i].push_refs, run->repositories[i].push_ref_count);
    }
    free(run->repositories);
    egress_finish(&run->egress);
    git_tips_finish(&run->tips);
    lfs_places_finish(&run->lfs);
    free(run->origins);
    free(run->only_ref);
    free(run);
    proxy_part_closed(proxy);
}

static void on_part_closed(void *data)
{
    run_part_closed(data);
}

struct curl_loop *run_hosts(struct run *run, struct error *err)
{
    if (run->hosts == NULL && curl_loop_start(&run->hosts, run->proxy->loop, err) == 0)
        run_part_opened(run);
    return run->hosts;
}

struct origin *run_origin(struct run *run, const struct service *service, struct error *err)
{
    struct proxy *proxy = run->proxy;
    struct origin **origin = &run->origins[service - proxy->services.items];
    struct origin_options options = { .service = service,
                                      .parent = &proxy->parent,
                                      .connect_timeout_ms = proxy->options.upstream_connect_ms };

    if (*origin != NULL)
        return *origin;
    if (strcmp(service->scheme, "https") == 0) {
        options.tls = proxy_tls_client(proxy, err);
        if (options.tls == NULL)
            return NULL;
    }
    *origin = origin_start(proxy->loop, &options);
    run_part_opened(run);
    return *origin;
}

void run_note_traffic(struct run *run)
{
    const struct proxy_options *options = &run->proxy->options;
    uint64_t now = clock_mono_ms(run->proxy->clock);

    if (options->on_traffic == NULL ||
        (run->traffic_ms != 0 && now - run->traffic_ms < TRAFFIC_INTERVAL_MS))
        return;
    run->traffic_ms = now;
    options->on_traffic(options->data, run->id);
}

void run_note_pushed(struct run *run)
{
    const struct proxy_options *options = &run->proxy->options;
    AUTO_BUF struct buf text;

    buf_init(&text, 256u << 10);
    git_tips_format(&run->tips, &text);
    if (options->on_pushed != NULL && !text.failed)
        options->on_pushed(options->data, run->id, buf_text(&text));
}

static struct policy_repository granted_repository(const struct service *service,
                                                   const struct proxy_repository *from)
{
    const struct proxy_push *push = &from->push;

    return (struct policy_repository){
        .service = service,
        .path = mem_strdup(from->path),
        .branch = mem_strdup(from->branch),
        .push_refs = push->refs != NULL ? str_list_copy(push->refs, push->ref_count) : NULL,
        .push_ref_count = push->refs != NULL ? push->ref_count : 0,
        .push_overwrite = push->overwrite == PROXY_OVERWRITE_AS_SERVICE
                              ? service->push_overwrite
                              : push->overwrite == PROXY_OVERWRITE_YES,
    };
}

static void grant_repositories(struct run *run, const struct proxy_grant *grant)
{
    run->repositories = mem_new_zero(grant->repository_count + 1, sizeof(*run->repositories));
    run->grant.repositories = run->repositories;
    for (size_t i = 0; i < grant->repository_count; i++) {
        const struct proxy_repository *from = &grant->repositories[i];
        const struct service *service =
            services_find(&run->proxy->services, from->service, strlen(from->service));

        if (service == NULL)
            continue;
        run->repositories[run->grant.repository_count++] = granted_repository(service, from);
    }
    git_tips_parse(&run->tips, grant->pushed);
}

/* Hosts of its own, if the grant has some, and what all runs are allowed. */
static int grant_hosts(struct run *run, const struct proxy_grant *grant, struct error *err)
{
    const struct egress *allowed = &run->proxy->allowed;

    run->grant.egress = grant->no_hosts ? NULL : &run->proxy->egress;
    if (grant->no_hosts || grant->egress == NULL)
        return 0;
    run->grant.egress = &run->egress;
    if (egress_init(&run->egress, grant->egress, grant->egress_count, err) < 0)
        return -1;
    for (size_t i = 0; i < allowed->count; i++)
        if (egress_add(&run->egress, allowed->rules[i].text, err) < 0)
            return -1;
    return 0;
}

/* Marks the services a run may use; a name that isn't configured grants nothing. */
static void mark_granted(struct run *run, const struct proxy_grant *grant)
{
    const struct services *services = &run->proxy->services;

    for (size_t i = 0; i < services->count; i++) {
        run->granted[i] = grant->services == NULL;
        for (size_t k = 0; grant->services != NULL && k < grant->service_count; k++)
            run->granted[i] |= strcmp(services->items[i].name, grant->services[k]) == 0;
    }
}

static int grant_run(struct proxy *proxy, const struct proxy_grant *grant,
                     const struct token_hash *hash, struct error *err)
{
    struct run *run;

    if (proxy->closing)
        return error_set(err, ERR_UNAVAILABLE, 0, "the proxy is closing");
    if (find_run(proxy, grant->run_id) != NULL)
        return error_set(err, ERR_CONFLICT, 0, "run %s has a grant already", grant->run_id);
    run = NEW(struct run);
    run->proxy = proxy;
    if (grant_hosts(run, grant, err) < 0) {
        egress_finish(&run->egress);
        free(run);
        return -1;
    }
    run->id = mem_strdup(grant->run_id);
    run->granted = mem_new_zero(proxy->services.count + 1, sizeof(*run->granted));
    run->origins = mem_new_zero(proxy->services.count + 1, sizeof(struct origin *));
    run->grant.services = &proxy->services;
    run->grant.granted = run->granted;
    run->only_ref = mem_strdup(grant->only_ref);
    run->grant.intercepts = proxy->ca != NULL;
    list_init(&run->conns);
    mark_granted(run, grant);
    grant_repositories(run, grant);
    run->grant.token = *hash;
    run->budget.requests = grant->model_requests;
    run->budget.used = grant->model_used;
    run->retries = grant->model_retries;
    run->open = 1;
    proxy->open++;
    list_append(&proxy->runs, &run->link);
    return 0;
}

int proxy_grant_run(struct proxy *proxy, const struct proxy_grant *grant,
                    char token[PROXY_TOKEN_SIZE], uint8_t hash[PROXY_TOKEN_HASH_SIZE],
                    struct error *err)
{
    struct token_hash made;

    token_make(token, &made);
    memcpy(hash, made.bytes, sizeof(made.bytes));
    return grant_run(proxy, grant, &made, err);
}

int proxy_restore_run(struct proxy *proxy, const struct proxy_grant *grant,
                      const uint8_t hash[PROXY_TOKEN_HASH_SIZE], struct error *err)
{
    struct token_hash known;

    memcpy(known.bytes, hash, sizeof(known.bytes));
    return grant_run(proxy, grant, &known, err);
}

static void on_accept(void *data, int fd)
{
    client_conn_start(data, fd);
}

int proxy_attach(struct proxy *proxy, const char *run_id, int listen_fd, struct error *err)
{
    struct run *run = find_run(proxy, run_id);

    if (run == NULL || run->listener != NULL) {
        close(listen_fd);
        return run == NULL ? error_set(err, ERR_NOT_FOUND, 0, "run %s has no grant", run_id)
                           : error_set(err, ERR_CONFLICT, 0, "run %s is served already", run_id);
    }
    if (listener_start(&run->listener, proxy->loop, listen_fd, proxy->options.connections_per_run,
                       on_accept, run, err) < 0) {
        run->listener = NULL;
        return error_wrap(err, "proxy of run %s", run_id);
    }
    run_part_opened(run);
    return 0;
}

static void cut_run(struct run *run)
{
    list_remove(&run->link);
    run->revoked = true;
    sodium_memzero(&run->grant.token, sizeof(run->grant.token));
    if (run->listener != NULL) {
        listener_close(run->listener, on_part_closed, run);
        run->listener = NULL;
    }
    LIST_EACH(&run->conns, link) {
        client_conn_cut(client_conn_from_link(link), "revoked");
    }
    for (size_t i = 0; i < run->proxy->services.count; i++)
        if (run->origins[i] != NULL)
            origin_close(run->origins[i], on_part_closed, run);
    if (run->hosts != NULL)
        curl_loop_close(run->hosts, on_part_closed, run);
    run_part_closed(run);
}

int proxy_allow(struct proxy *proxy, const char *rule, struct error *err)
{
    if (egress_add(&proxy->egress, rule, err) < 0 || egress_add(&proxy->allowed, rule, err) < 0)
        return -1;
    LIST_EACH(&proxy->runs, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->grant.egress == &run->egress && egress_add(&run->egress, rule, err) < 0)
            return -1;
    }
    return 0;
}

void proxy_open_listener(struct proxy *proxy, const char *run_id)
{
    struct run *run = find_run(proxy, run_id);

    if (run != NULL)
        run->grant.open_listener = true;
}

void proxy_limit_push(struct proxy *proxy, const char *run_id, const char *only_ref)
{
    struct run *run = find_run(proxy, run_id);

    if (run == NULL || run->only_ref == NULL)
        return;
    free(run->only_ref);
    run->only_ref = mem_strdup(only_ref);
}

void proxy_revoke(struct proxy *proxy, const char *run_id)
{
    struct run *run = find_run(proxy, run_id);

    if (run != NULL)
        cut_run(run);
}

static void on_errands_closed(void *data)
{
    proxy_part_closed(data);
}

void proxy_close(struct proxy *proxy, void (*done)(void *data), void *data)
{
    if (proxy->closing)
        return;
    proxy->closing = true;
    proxy->done = done;
    proxy->done_data = data;
    while (!list_empty(&proxy->runs))
        cut_run(LIST_ENTRY(proxy->runs.next, struct run, link));
    if (proxy->errands != NULL)
        curl_loop_close(proxy->errands, on_errands_closed, proxy);
    uv_close((uv_handle_t *)&proxy->closer, on_handle_closed);
    uv_close((uv_handle_t *)&proxy->rest, on_handle_closed);
}

bool proxy_push_branch(const struct proxy *proxy, const char *service,
                       const struct proxy_push *push, const char *wanted, struct buf *out)
{
    const struct service *found = services_find(&proxy->services, service, strlen(service));
    bool own = push->refs != NULL;
    const char *const *refs = own             ? push->refs
                              : found != NULL ? (const char *const *)found->push_refs
                                              : NULL;
    size_t count = found == NULL ? 0 : own ? push->ref_count : found->push_ref_count;
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", wanted);

    for (size_t i = 0; i < count; i++) {
        if (!git_ref_matches(refs[i], ref))
            continue;
        buf_append_str(out, wanted);
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        size_t skip = str_starts(refs[i], "refs/heads/") ? strlen("refs/heads/") : 0;

        if (!str_ends(refs[i], "/...") || (skip == 0 && str_starts(refs[i], "refs/")))
            continue;
        buf_printf(out, "%.*s%s", (int)(strlen(refs[i]) - 3 - skip), refs[i] + skip, wanted);
        return true;
    }
    return false;
}

void proxy_pushed_add(const char *pushed, const char *service, const char *path, const char *ref,
                      const char *id, struct buf *out)
{
    struct git_tips tips = { .count = 0 };
    AUTO_FREE
    char *place = mem_printf("%s%s", service, path);

    git_tips_parse(&tips, pushed);
    git_tips_set(&tips, place, ref, id);
    git_tips_format(&tips, out);
    git_tips_finish(&tips);
}

bool proxy_service_ready(const struct proxy *proxy, const char *service, bool *secret_present)
{
    const struct service *found = services_find(&proxy->services, service, strlen(service));

    if (found == NULL)
        return false;
    *secret_present = found->inject == INJECT_NONE || vault_has(proxy->vault, found->secret);
    return true;
}

bool proxy_model_priced(const struct proxy *proxy, const char *model)
{
    AUTO_FREE
    char *service = mem_strndup(model, strcspn(model, "/"));
    const char *name = model + strlen(service);

    return proxy->options.model_limits.microdollars == 0 ||
           price_find(&proxy->prices, service, name + (name[0] == '/')) != NULL;
}

uint64_t proxy_requests(const struct proxy *proxy, const char *run_id)
{
    const struct run *run = find_run(proxy, run_id);

    return run != NULL ? run->answered : 0;
}
