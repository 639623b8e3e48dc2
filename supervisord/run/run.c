#include "run/internal.h"

#include <string.h>

#include "common/str.h"

/* Options are copied deeply: the configuration may be read again. */
static const char *const *copy_list(const char *const *list, size_t count)
{
    return (const char *const *)str_list_copy(list, count);
}

static void free_list(const char *const *list, size_t count)
{
    str_list_free((char **)(uintptr_t)list, count);
}

static const struct run_model_service *copy_services(const struct run_model_service *list,
                                                     size_t count)
{
    struct run_model_service *copy = mem_new_zero(count + 1, sizeof(*copy));

    for (size_t i = 0; i < count; i++) {
        copy[i].name = mem_strdup(list[i].name);
        copy[i].npm = mem_strdup(list[i].npm);
        copy[i].path = mem_strdup(list[i].path);
        copy[i].secret = mem_strdup(list[i].secret);
        copy[i].models = copy_list(list[i].models, list[i].model_count);
        copy[i].model_count = list[i].model_count;
    }
    return copy;
}

static const struct run_repository *copy_repositories(const struct run_repository *list,
                                                      size_t count)
{
    struct run_repository *copy = mem_new_zero(count + 1, sizeof(*copy));

    for (size_t i = 0; i < count; i++) {
        copy[i] = list[i];
        copy[i].address = mem_strdup(list[i].address);
        copy[i].setup = mem_strdup(list[i].setup);
        copy[i].filter = mem_strdup(list[i].filter);
        copy[i].model = mem_strdup(list[i].model);
        copy[i].work_branch = mem_strdup(list[i].work_branch);
        if (list[i].services != NULL)
            copy[i].services = copy_list(list[i].services, list[i].service_count);
        if (list[i].egress != NULL)
            copy[i].egress = copy_list(list[i].egress, list[i].egress_count);
        if (list[i].push.refs != NULL)
            copy[i].push.refs = copy_list(list[i].push.refs, list[i].push.ref_count);
    }
    return copy;
}

static const char **text_slots(struct runs_options *options, size_t index)
{
    const char **slots[] = { &options->state_dir,         &options->runtime_dir,
                             &options->data_dir,          &options->default_agent,
                             &options->default_model,     &options->agent_opencode,
                             &options->sandbox.backend,   &options->sandbox.bwrap,
                             &options->sandbox.init_path, &options->home,
                             &options->machine_root,      &options->clone_filter,
                             &options->work_branch,       &options->git_name,
                             &options->git_email };

    return index < ARRAY_LEN(slots) ? slots[index] : NULL;
}

static void copy_options(struct runs_options *to, const struct runs_options *from)
{
    const char **slot;

    *to = *from;
    for (size_t i = 0; (slot = text_slots(to, i)) != NULL; i++)
        *slot = mem_strdup(*slot);
    to->local_repositories = copy_list(from->local_repositories, from->local_repository_count);
    to->git_services = copy_list(from->git_services, from->git_service_count);
    to->git_targets = copy_list(from->git_targets, from->git_service_count);
    to->model_services = copy_services(from->model_services, from->model_service_count);
    to->repositories = copy_repositories(from->repositories, from->repository_count);
    to->setup_allow = copy_list(from->setup_allow, from->setup_allow_count);
    to->environment = copy_list(from->environment, from->environment_count);
    to->folders = copy_list(from->folders, from->folder_count);
    to->caches = copy_list(from->caches, from->cache_count);
}

static void finish_options(struct runs_options *options)
{
    const char **slot;

    for (size_t i = 0; (slot = text_slots(options, i)) != NULL; i++)
        free((void *)(uintptr_t)*slot);
    free_list(options->local_repositories, options->local_repository_count);
    free_list(options->git_services, options->git_service_count);
    free_list(options->git_targets, options->git_service_count);
    for (size_t i = 0; i < options->repository_count; i++) {
        const struct run_repository *repository = &options->repositories[i];

        free((void *)(uintptr_t)repository->address);
        free((void *)(uintptr_t)repository->setup);
        free((void *)(uintptr_t)repository->filter);
        free((void *)(uintptr_t)repository->model);
        free((void *)(uintptr_t)repository->work_branch);
        free_list(repository->services, repository->service_count);
        free_list(repository->egress, repository->egress_count);
        free_list(repository->push.refs, repository->push.ref_count);
    }
    free((void *)(uintptr_t)options->repositories);
    free_list(options->setup_allow, options->setup_allow_count);
    free_list(options->environment, options->environment_count);
    free_list(options->folders, options->folder_count);
    free_list(options->caches, options->cache_count);
    for (size_t i = 0; i < options->model_service_count; i++) {
        const struct run_model_service *service = &options->model_services[i];

        free((void *)(uintptr_t)service->name);
        free((void *)(uintptr_t)service->npm);
        free((void *)(uintptr_t)service->path);
        free((void *)(uintptr_t)service->secret);
        free_list(service->models, service->model_count);
    }
    free((void *)(uintptr_t)options->model_services);
}

static void runs_free(void *data)
{
    struct runs *runs = data;
    void (*closed)(void *) = runs->closed;
    void *closed_data = runs->closed_data;

    finish_options(&runs->options);
    catalogue_free_all(runs);
    free(runs);
    if (closed != NULL)
        closed(closed_data);
}

static void close_handles(struct runs *runs)
{
    uv_handle_t *handles[] = { (uv_handle_t *)&runs->tick, (uv_handle_t *)&runs->again,
                               (uv_handle_t *)&runs->carry, (uv_handle_t *)&runs->retention };

    handles_close_all(&runs->handles, runs->loop, handles, ARRAY_LEN(handles));
}

static void on_tick(uv_timer_t *timer)
{
    struct runs *runs = timer->data;
    struct error err = ERROR_INIT;

    if (store_has_batch(runs->store) && store_flush(runs->store, &err) < 0)
        log_error("store", "events wait in memory: %s", err.text);
    if (runs->closing) {
        if (runs->open_runs == 0)
            close_handles(runs);
        return;
    }
    limits_tick(runs);
    trouble_tick(runs);
    if (runs->admit_wanted)
        admission_admit(runs);
    events_pump(runs);
}

void events_tick_soon(struct runs *runs, uint64_t delay_ms)
{
    if (uv_is_closing((uv_handle_t *)&runs->tick))
        return;
    if (uv_is_active((uv_handle_t *)&runs->tick) && uv_timer_get_due_in(&runs->tick) <= delay_ms)
        return;
    uv_timer_start(&runs->tick, on_tick, delay_ms, 0);
}

static void on_again(uv_timer_t *timer)
{
    apply_retry_held(timer->data);
}

void runs_try_again_soon(struct runs *runs)
{
    if (!uv_is_closing((uv_handle_t *)&runs->again))
        uv_timer_start(&runs->again, on_again, 1000, 0);
}

int runs_start(struct runs **out, uv_loop_t *loop, struct store *store, struct proxy *proxy,
               const struct clock *clock, const struct runs_options *options, struct error *err)
{
    struct runs *runs = NEW(struct runs);

    runs->loop = loop;
    runs->store = store;
    runs->proxy = proxy;
    runs->clock = clock;
    copy_options(&runs->options, options);
    list_init(&runs->live);
    list_init(&runs->tasks);
    list_init(&runs->chores);
    list_init(&runs->visits);
    list_init(&runs->pulls);
    list_init(&runs->takes);
    list_init(&runs->subscriptions);
    list_init(&runs->watchers);
    list_init(&runs->catalogues);
    list_init(&runs->mirrors);
    handles_init(&runs->handles, runs_free, runs);
    uv_timer_init(loop, &runs->tick);
    handles_add(&runs->handles, (uv_handle_t *)&runs->tick, runs);
    uv_timer_init(loop, &runs->again);
    handles_add(&runs->handles, (uv_handle_t *)&runs->again, runs);
    uv_timer_init(loop, &runs->carry);
    handles_add(&runs->handles, (uv_handle_t *)&runs->carry, runs);
    uv_timer_init(loop, &runs->retention);
    handles_add(&runs->handles, (uv_handle_t *)&runs->retention, runs);
    *out = runs;
    if (recover_all(runs, err) < 0 || restore_recover(runs, err) < 0) {
        runs_close(runs, NULL, NULL);
        *out = NULL;
        return -1;
    }
    retention_start(runs);
    return 0;
}

/* Leaving: the run's parts are let go in order, its state and its sandbox stay as they are.
 * ---------------------------- */

static void leave(struct run *run);

static void on_left(void *data)
{
    struct run *run = data;

    if (run->agent_closing) {
        run->agent_closing = false;
        run->agent = NULL;
    } else {
        run->sandbox_closing = false;
        run->sandbox = NULL;
    }
    leave(run);
}

static void leave(struct run *run)
{
    if (run->agent_closing || run->sandbox_closing)
        return;
    if (run->agent != NULL) {
        run->agent_closing = true;
        run->driver->close(run->agent, on_left, run);
        return;
    }
    if (run->sandbox != NULL) {
        run->sandbox_closing = true;
        sandbox_close(run->sandbox, on_left, run);
        return;
    }
    registry_release(run);
}

void runs_close(struct runs *runs, void (*done)(void *data), void *data)
{
    if (runs->closing)
        return;
    runs->closing = true;
    runs->closed = done;
    runs->closed_data = data;
    events_drop_all(runs);
    uv_timer_stop(&runs->retention);
    if (runs->retention_cancel != NULL)
        atomic_store(runs->retention_cancel, true);
    catalogue_close(runs);
    chores_cancel(runs);
    pull_request_close_all(runs);
    take_close_all(runs);
    mirror_close(runs);
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->command != NULL)
            command_cancel(STEAL(run->command));
        clone_free(run);
        setup_free(run);
        collect_free(run);
        if (run->usage != NULL)
            usage_watch_close(STEAL(run->usage));
        exec_cut_all(run);
        pages_cut_all(run);
        leave(run);
    }
    events_tick_soon(runs, 0);
}

/* Queries
 * -------------------------------------------------------------------------------------------------------
 */

int run_load(struct runs *runs, const struct id *id, struct run_record *record, struct error *err)
{
    const struct run *run = registry_find(runs, id->text);

    if (run == NULL)
        return store_run_load(runs->store, id, record, err);
    run_record_finish(record);
    run_record_copy(record, &run->record);
    return 0;
}

const char *run_current_step(struct runs *runs, const struct id *id)
{
    const struct run *run = registry_find(runs, id->text);

    if (run == NULL || (run->record.state != RUN_WORKING && run->record.state != RUN_WAITING))
        return NULL;
    return run->trouble.text != NULL ? run->trouble.text : run->current_step;
}

const char *run_open_request(struct runs *runs, const struct id *id)
{
    const struct run *run = registry_find(runs, id->text);

    return run != NULL && run->record.state == RUN_WAITING ? waiting_oldest(run) : NULL;
}

uint64_t run_waiting_since_ms(struct runs *runs, const struct id *id)
{
    const struct run *run = registry_find(runs, id->text);

    return run != NULL && run->record.state == RUN_WAITING ? waiting_since_ms(run) : 0;
}

const char *run_retrying(struct runs *runs, const struct id *id)
{
    const struct run *run = registry_find(runs, id->text);

    return run != NULL ? run->trouble.view : NULL;
}

void runs_model_limits(const struct runs *runs, uint64_t *tokens, uint64_t *microdollars)
{
    *tokens = runs->options.model_tokens;
    *microdollars = runs->options.model_microdollars;
}

size_t runs_live(const struct runs *runs)
{
    size_t count = 0;

    for (const struct list *link = runs->live.next; link != &runs->live; link = link->next)
        count++;
    return count;
}

void runs_proxy_decision(struct runs *runs, const struct proxy_decision *decision)
{
    struct run *run = registry_find(runs, decision->run_id);
    AUTO_FREE
    char *text = NULL;
    AUTO_BUF struct buf path = BUF_INIT(4096);

    /* The audit record is batched with the events. */
    events_tick_soon(runs, 100);
    if (run == NULL)
        return;
    run->record.usage.counted_tokens += decision->input_tokens + decision->output_tokens;
    run->record.usage.counted_microdollars += decision->microdollars;
    if (decision->verdict == AUDIT_ALLOW) {
        run->record.usage.requests++;
        return;
    }
    if (decision->verdict == AUDIT_DENY)
        run->record.evidence.refused_requests++;
    runs_proxy_refused_model(run, decision->reason);
    str_append_escaped(&path, decision->path, strlen(decision->path), 500);
    text = mem_printf("%s %s %s%s: %s", decision->verdict == AUDIT_DENY ? "refused" : "failed",
                      decision->method,
                      decision->service[0] != '\0' ? decision->service : decision->host,
                      buf_text(&path), decision->reason);
    events_note(run, RUN_NOTE_REFUSED, text, NULL);
}

void runs_proxy_traffic(struct runs *runs, const char *run_id)
{
    struct run *run = registry_find(runs, run_id);

    if (run != NULL)
        run_touch(run);
}
