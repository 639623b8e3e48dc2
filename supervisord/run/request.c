/* request.c: run.create judged and written down. Everything that can be said of a request without a
 * sandbox is said here. */
#include "run/internal.h"

#include <string.h>
#include <unistd.h>

#include "common/str.h"

#define TITLE_MAX 60

const struct run_model_service *request_model_service(const struct runs *runs, const char *model)
{
    const char *slash = strchr(model, '/');

    for (size_t i = 0; slash != NULL && i < runs->options.model_service_count; i++) {
        const struct run_model_service *service = &runs->options.model_services[i];

        if (strlen(service->name) == (size_t)(slash - model) &&
            strncmp(service->name, model, (size_t)(slash - model)) == 0)
            return service;
    }
    return NULL;
}

void request_hash(const char *const *parts, size_t count, uint32_t number, uint8_t to[32])
{
    for (unsigned lane = 0; lane < 4; lane++) {
        uint64_t sum = STR_HASH_START ^ (lane * 0x9e3779b97f4a7c15u) ^ number;

        for (size_t i = 0; i < count; i++) {
            sum = str_hash(sum, parts[i]);
            sum = (sum ^ 0x1ffu) * STR_HASH_PRIME;
        }
        memcpy(to + 8 * lane, &sum, 8);
    }
}

/* The task's first line with anything in it. */
static char *title_of(const char *task)
{
    size_t len;
    char *title;

    task += strspn(task, " \t\r\n\v\f");
    len = strcspn(task, "\r\n");
    if (len <= TITLE_MAX)
        return mem_strndup(task, len);
    len = str_utf8_cut(task, TITLE_MAX);
    while (len > TITLE_MAX / 2 && task[len] != ' ')
        len--;
    len = str_utf8_cut(task, len);
    title = mem_printf("%.*s…", (int)len, task);
    return title;
}

static int check_agent(struct runs *runs, const char *name, const struct agent_driver **driver,
                       const struct agent_profile **profile, struct error *err)
{
    AUTO_BUF struct buf names = BUF_INIT(8192);

    *driver = driver_find(runs, name, profile);
    if (*driver != NULL)
        return 0;
    driver_names(runs, &names);
    return error_argument(err, "agent", "is not known; known are: %s", buf_text(&names));
}

/* What a run that names no model gets: an agent may have a model of its own, where the default one
 * is of a provider that it can't use. */
static const char *default_model(const struct runs *runs, const struct agent_profile *profile,
                                 const char *repository)
{
    const struct run_repository *settings = places_settings(runs, repository);
    const char *model = settings != NULL && settings->model[0] != '\0'
                            ? settings->model
                            : runs->options.default_model;
    size_t len = strcspn(model, "/");

    if (profile == NULL || profile->model[0] == '\0')
        return model;
    for (size_t i = 0; i < profile->service_count; i++) {
        if (strlen(profile->services[i]) == len && strncmp(profile->services[i], model, len) == 0)
            return model;
    }
    return profile->model;
}

static int check_model(struct runs *runs, const struct agent_driver *driver,
                       const struct agent_profile *profile, const char *model, struct error *err)
{
    struct agent_provider *providers;
    struct agent_options options;
    const struct run_model_service *service;
    bool present = true;
    int rc;

    if (driver->check_model == NULL)
        return 0;
    providers = mem_new_zero(runs->options.model_service_count + 1, sizeof(*providers));
    for (size_t i = 0; i < runs->options.model_service_count; i++) {
        providers[i].name = runs->options.model_services[i].name;
        providers[i].npm = runs->options.model_services[i].npm;
        providers[i].models = runs->options.model_services[i].models;
        providers[i].model_count = runs->options.model_services[i].model_count;
    }
    options = (struct agent_options){ .providers = providers,
                                      .provider_count = runs->options.model_service_count,
                                      .profile = profile };
    rc = driver->check_model(&options, model, err);
    free(providers);
    if (rc < 0)
        return -1;
    /* Asked in the background, should nothing be known: the run finds out before its prompt. */
    if (catalogue_check(runs, driver, model,
                        str_equal(model, runs->options.default_model) ? CATALOGUE_LOOK
                                                                      : CATALOGUE_ASK,
                        err) == CATALOGUE_UNKNOWN)
        return -1;
    service = request_model_service(runs, model);
    if (service != NULL && !proxy_model_priced(runs->proxy, model)) {
        error_argument(err, "model",
                       "`%s` has no price, and the money of runs is limited: a person must give it "
                       "one under `prices` in the configuration, or set model.centsPerRun to 0",
                       model);
        err->code = ERR_DENIED;
        return -1;
    }
    if (service != NULL && proxy_service_ready(runs->proxy, service->name, &present) && !present) {
        error_argument(
            err, "model",
            "the service `%s` has no credential yet; a person must store it on this machine first: "
            "sandboxctl secret set %s",
            service->name, service->secret);
        err->code = ERR_DENIED;
        return -1;
    }
    return 0;
}

/* A run that may not use its model's service would only find out from the proxy. */
static int check_services(const struct runs *runs, const struct run_record *run, struct error *err)
{
    const struct run_repository *settings = places_settings(runs, run->repository);
    const struct run_model_service *service = request_model_service(runs, run->model);

    if (settings == NULL || settings->services == NULL || service == NULL)
        return 0;
    for (size_t i = 0; i < settings->service_count; i++) {
        if (str_equal(settings->services[i], service->name))
            return 0;
    }
    error_argument(err, "model",
                   "runs of this repository may not use the service `%s`: the configuration lists "
                   "the services for it under `repositories`",
                   service->name);
    err->code = ERR_DENIED;
    return -1;
}

static int not_found(struct error *err, const char *argument, const char *what, const char *id)
{
    error_argument(err, argument, "%s `%s` is not known", what, id);
    err->code = ERR_NOT_FOUND;
    return -1;
}

/* Whether this repository may be worked on; fills in REPOSITORY, to be finished in any case. */
static int judge_repository(struct runs *runs, const struct run_request *request,
                            struct repository *repository, struct error *err)
{
    const struct runs_options *options = &runs->options;
    struct repository_rules rules = { .targets = options->git_targets,
                                      .target_count = options->git_service_count,
                                      .local_folders = options->local_repositories,
                                      .local_folder_count = options->local_repository_count,
                                      .any_local = request->local_caller };
    static const char *const canonical[] = { "https://github.com", "https://gitlab.com" };
    const char **targets =
        mem_new_zero(options->git_service_count + ARRAY_LEN(canonical), sizeof(*targets));
    int rc;

    for (size_t i = 0; i < options->git_service_count; i++)
        targets[i] = options->git_targets[i];
    for (size_t i = 0; i < options->git_service_count; i++) {
        if (str_equal(options->git_services[i], "github"))
            targets[rules.target_count++] = canonical[0];
        if (str_equal(options->git_services[i], "gitlab"))
            targets[rules.target_count++] = canonical[1];
    }
    rules.targets = targets;
    rc = repository_parse(request->repository, &rules, repository, err);
    free(targets);
    return rc;
}

static char *choose_work_branch(const struct runs *runs, const struct run_request *request,
                                const struct session_record *session)
{
    AUTO_FREE
    char *derived = title_of(request->task);

    return places_work_branch(runs, request->repository,
                              request->title[0] != '\0' ? request->title : derived, &session->id);
}

/* Sets the place of the session in which the run will work: the one it names, else where the
 * session's newest run works. */
static int continue_in(struct runs *runs, const struct run_request *request,
                       struct session_record *session, struct error *err)
{
    uint32_t in_use = registry_places_in_use(runs, &session->id);
    int known = request->repository[0] == '\0' ? (int)places_go_on(session, in_use)
                                               : places_find(session, request->repository);
    struct repository repository;
    int rc;

    if (known >= 0) {
        struct session_place *place = &session->places[known];

        session->place = (uint32_t)known;
        if (!place->cloned && (in_use & UINT32_C(1) << known) == 0 && request->branch[0] != '\0')
            record_set(&place->branch, request->branch);
        if (request->branch[0] == '\0' || str_equal(request->branch, place->branch))
            return 0;
        error_argument(err, "branch",
                       "this session works on branch `%s` of that repository; leave branch out "
                       "(the agent can change branches itself), or start a new session",
                       place->branch);
        err->code = ERR_CONFLICT;
        return -1;
    }
    rc = judge_repository(runs, request, &repository, err);
    if (rc == 0) {
        AUTO_FREE
        char *work_branch = choose_work_branch(runs, request, session);
        const struct place_wish wish = { request->repository, request->branch, work_branch };

        rc = places_add(session, in_use, &wish, repository.name, err);
    }
    repository_finish(&repository);
    return rc;
}

static int continue_session(struct runs *runs, const struct run_request *request,
                            struct session_record *session, struct error *err)
{
    struct id id;

    if (!id_parse(ID_KIND_SESSION, request->session_id, &id))
        return not_found(err, "sessionId", "session", request->session_id);
    if (store_session_load(runs->store, &id, session, err) < 0)
        return err->code == ERR_NOT_FOUND
                   ? not_found(err, "sessionId", "session", request->session_id)
                   : -1;
    if (session_task_check_run(runs, session, err) < 0)
        return -1;
    return continue_in(runs, request, session, err);
}

int session_uid(struct runs *runs, uint32_t *uid, struct error *err)
{
    if (geteuid() != 0) {
        *uid = (uint32_t)geteuid();
        return 0;
    }
    /* The last one is for sandboxes of no session. */
    return store_session_free_slot(
        runs->store, runs->options.host_uid_base,
        runs->options.host_uid_count - (runs->options.host_uid_count > 1), uid, err);
}

int session_new_id(struct runs *runs, struct session_record *session, struct error *err)
{
    id_make(&runs->session_ids, ID_KIND_SESSION, clock_wall_ms(runs->clock), &session->id);
    return session_uid(runs, &session->host_uid, err);
}

static int new_session(struct runs *runs, const struct run_request *request, uint64_t now,
                       struct session_record *session, struct error *err)
{
    struct repository repository;
    int rc = judge_repository(runs, request, &repository, err);

    if (rc == 0 && request->branch[0] != '\0' && request->repository[0] == '\0')
        rc = error_argument(err, "branch", "needs `repository` too");
    if (rc == 0)
        rc = session_new_id(runs, session, err);
    AUTO_FREE
    char *work_branch = choose_work_branch(runs, request, session);
    const struct place_wish wish = { request->repository, request->branch, work_branch };
    places_begin(session, &wish, repository.name);
    session->created_ms = now;
    repository_finish(&repository);
    return rc;
}

int request_find_repetition(struct runs *runs, const struct message_key *key,
                            struct run_record *run, bool *steered, struct error *err)
{
    struct error local = ERROR_INIT;
    uint8_t told[32];
    int rc;

    if (key->text[0] == '\0')
        return 1;
    rc = store_run_by_key(runs->store, key->text, run, &local);
    *steered = rc == 0 && !str_equal(run->idempotency_key, key->text);
    if (*steered)
        rc = store_told_by_key(runs->store, key->text, told, &local);
    if (rc < 0) {
        if (local.code == ERR_NOT_FOUND)
            return 1;
        *err = local;
        return -1;
    }
    if (memcmp(*steered ? told : run->request_hash, key->hash, sizeof(key->hash)) == 0)
        return run_load(runs, &run->id, run, err);
    error_argument(err, "idempotencyKey", "`%.60s` was used for a different request (run %s)",
                   key->text, run->id.text);
    err->code = ERR_CONFLICT;
    return -1;
}

/* What a run is given, else what the session's newest run had, else the default. */
static void choose(char **field, const char *given, const char *before, const char *otherwise)
{
    record_set(field, given[0] != '\0' ? given : before[0] != '\0' ? before : otherwise);
}

static bool take_newest(void *data, const struct run_record *run)
{
    struct run_record *newest = data;

    run_record_finish(newest);
    run_record_copy(newest, run);
    return false;
}

/* The newest run of a session that may be gone. */
static void newest_of(struct runs *runs, const struct id *session, struct run_record *run)
{
    const struct store_run_filter filter = { .session = session, .limit = 1 };
    struct error err = ERROR_INIT;

    if (store_run_each(runs->store, &filter, take_newest, run, &err) < 0)
        log_warn(session->text, "its newest run can't be read: %s", err.text);
}

/* A follow-up goes on with the session's agent, and with its model if that is the same agent's. "":
 * the agent's default, when the agent is known. */
static void choose_agent(struct runs *runs, const struct run_request *request,
                         const struct session_record *session, struct run_record *run)
{
    struct run_record newest;
    struct error err = ERROR_INIT;

    run_record_init(&newest);
    if (session->run_count == 0 && session->forked_from.text[0] != '\0')
        newest_of(runs, &session->forked_from, &newest);
    else if (session->run_count > 0 && run_load(runs, &session->last_run, &newest, &err) < 0)
        log_warn(session->id.text, "its newest run can't be read: %s", err.text);
    choose(&run->agent, request->agent, newest.agent, runs->options.default_agent);
    choose(&run->model, request->model, str_equal(run->agent, newest.agent) ? newest.model : "",
           "");
    run_record_finish(&newest);
}

static void fill_run(struct runs *runs, const struct run_request *request,
                     const struct session_record *session, uint64_t now, struct run_record *run)
{
    AUTO_FREE
    char *derived = title_of(request->task);

    id_make(&runs->run_ids, ID_KIND_RUN, now, &run->id);
    run->session = session->id;
    run->state = RUN_QUEUED;
    record_set(&run->task, request->task);
    record_set(&run->title, request->title[0] != '\0' ? request->title : derived);
    choose_agent(runs, request, session, run);
    run->place = session->place;
    record_set(&run->repository, session->places[session->place].repository);
    record_set(&run->branch, session->places[session->place].branch);
    record_set(&run->idempotency_key, request->idempotency_key);
    run->created_ms = run->updated_ms = now;
    run->timeout_ms =
        60000ull * (request->timeout_minutes > 0 ? request->timeout_minutes
                                                 : runs->options.default_timeout_minutes);
    run->last_event = 1;
}

static int write_run(struct runs *runs, struct run_record *run, struct session_record *session,
                     struct error *err)
{
    struct event_record note;
    int rc;

    event_record_init(&note);
    note.number = 1;
    note.time_ms = run->created_ms;
    note.kind = RUN_NOTE_STATE;
    record_set(&note.text, "queued: queue");
    record_set(&note.data, "{\"status\":\"queued\",\"phase\":\"queue\"}");
    session->updated_ms = run->created_ms;
    session->run_count++;
    session->last_run = run->id;
    if (session->title[0] == '\0')
        record_set(&session->title, run->title);
    rc = store_run_create(runs->store, run, session, &note, err);
    event_record_finish(&note);
    return rc;
}

static int create(struct runs *runs, const struct run_request *request, const uint8_t hash[32],
                  struct run_record *run, struct session_record *session, struct error *err)
{
    const struct agent_driver *driver;
    const struct agent_profile *profile;
    uint64_t now = clock_wall_ms(runs->clock);
    struct run *live;

    if (str_blank(request->task))
        return error_argument(err, "task", "must say what is to be done; it is empty or blank");
    if (branch_check(request->branch, err) < 0)
        return -1;
    if ((request->session_id[0] != '\0' ? continue_session(runs, request, session, err)
                                        : new_session(runs, request, now, session, err)) < 0)
        return -1;
    if (admission_queued(runs) >= runs->options.max_queued_runs)
        return error_set(err, ERR_LIMIT, 0, "%u runs wait already; try again later",
                         runs->options.max_queued_runs);
    run_record_finish(run);
    run_record_init(run);
    fill_run(runs, request, session, now, run);
    memcpy(run->request_hash, hash, sizeof(run->request_hash));
    if (check_agent(runs, run->agent, &driver, &profile, err) < 0)
        return -1;
    if (run->model[0] == '\0' && driver->check_model != NULL)
        record_set(&run->model, default_model(runs, profile, run->repository));
    if (check_services(runs, run, err) < 0 ||
        check_model(runs, driver, profile, run->model, err) < 0)
        return -1;
    if (write_run(runs, run, session, err) < 0)
        return -1;
    registry_session_grew(runs, session);
    live = registry_add(runs, run, session);
    live->driver = driver;
    live->profile = profile;
    log_info(run->id.text, "created in session %s", session->id.text);
    events_changed(runs, run);
    admission_wanted(runs);
    return 0;
}

int request_create(struct runs *runs, const struct run_request *request, const uint8_t hash[32],
                   struct run_record *run, struct error *err)
{
    struct session_record session;
    int rc;

    session_record_init(&session);
    rc = create(runs, request, hash, run, &session, err);
    session_record_finish(&session);
    return rc;
}

int run_create(struct runs *runs, const struct run_request *request, struct run_record *run,
               struct error *err)
{
    const char *const parts[] = { request->task,       request->repository, request->branch,
                                  request->session_id, request->model,      request->title,
                                  request->agent };
    struct message_key key = { .text = request->idempotency_key };
    bool steered;
    int repeated;

    request_hash(parts, ARRAY_LEN(parts), request->timeout_minutes, key.hash);
    repeated = request_find_repetition(runs, &key, run, &steered, err);
    return repeated <= 0 ? repeated : request_create(runs, request, key.hash, run, err);
}

int run_cancel(struct runs *runs, const struct id *id, struct error *err)
{
    struct run_record record;
    struct run *run = registry_find(runs, id->text);
    int rc;

    if (run != NULL) {
        run_apply(run, RUN_EV_CANCEL_ASKED);
        return 0;
    }
    run_record_init(&record);
    rc = store_run_load(runs->store, id, &record, err);
    run_record_finish(&record);
    return rc;
}

int run_answer(struct runs *runs, const struct id *id, const char *request_id, const char *answer,
               struct error *err)
{
    struct run *run = registry_find(runs, id->text);

    if (run == NULL)
        return error_set(err, ERR_CONFLICT, 0, "run %s asks nothing now", id->text);
    return waiting_answer(run, request_id, answer, err);
}
