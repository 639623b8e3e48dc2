/* mirror.c: large repositories are kept once on this machine, so that the next session copies most
 * of one instead of fetching it. A mirror is written by git in a sandbox of its own, in which
 * nothing of an agent ever is, and seen read-only by sessions, which copy from it only after the
 * remote has let them read. Nobody waits for one: the session that finds a large repository without
 * a mirror has it already, and the mirror is made behind its back. */
#include "run/internal.h"

#include <string.h>
#include <unistd.h>

#include "common/paths.h"
#include "common/str.h"
#include "workspace/checkpoint.h"

#define FOLDER "/mirror" /* inside the sandbox that writes it */
#define EMPTY_MS 600000

struct mirror {
    struct list link; /* runs::mirrors */
    struct runs *runs;
    struct workspace_mirror place;
    char *url;
    char *filter;
    const char *format; /* of object names; static */
    char *runtime_dir;
    struct id run_id; /* of no run: what the proxy knows it by */
    struct sandbox *sandbox;
    struct command *command;
    bool fresh;         /* nothing in it counts */
    session_cb removed; /* of one that is being removed: it has no sandbox of its own */
    void *data;
    struct chore *chore;
};

static void mirror_free(struct mirror *mirror)
{
    list_remove(&mirror->link);
    workspace_mirror_finish(&mirror->place);
    free(mirror->url);
    free(mirror->filter);
    free(mirror->runtime_dir);
    free(mirror);
}

static void on_closed(void *data)
{
    struct mirror *mirror = data;
    struct runs *runs = mirror->runs;
    struct error err = ERROR_INIT;

    proxy_revoke(runs->proxy, mirror->run_id.text);
    if (sandbox_runtime_remove(mirror->runtime_dir, &err) < 0)
        log_warn("mirror", "%s", err.text);
    mirror_free(mirror);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

static void say_failure(const struct mirror *mirror, const char *why)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);

    str_append_escaped(&text, mirror->url, strlen(mirror->url), 200);
    buf_append_str(&text, " is not mirrored: ");
    str_append_escaped(&text, why, strcspn(why, "\r\n"), 300);
    log_warn("mirror", "%s", buf_text(&text));
}

static void on_fetched(void *data, const struct command_result *result, const struct error *err)
{
    struct mirror *mirror = data;
    struct error local = ERROR_INIT;

    mirror->command = NULL;
    if (err != NULL)
        say_failure(mirror, err->text);
    else if (result->timed_out)
        say_failure(mirror, "no progress");
    else if (result->code != 0)
        say_failure(mirror, result->err_tail);
    else if (workspace_mirror_mark(&mirror->place, mirror->url, mirror->filter, &local) < 0)
        say_failure(mirror, local.text);
    else
        log_info("mirror", "%s is up to date", mirror->place.folder);
    sandbox_stop(mirror->sandbox);
}

static void on_listen(void *data, int fd, const struct error *err)
{
    struct mirror *mirror = data;
    struct runs *runs = mirror->runs;
    struct error local = ERROR_INIT;
    struct git_command command;
    int rc = -1;

    if (err == NULL)
        rc = proxy_attach(runs->proxy, mirror->run_id.text, fd, &local);
    if (rc == 0) {
        if (sandbox_layers(mirror->sandbox) & UINT32_C(1) << SANDBOX_LAYER_NETWORK_NAMESPACE)
            proxy_open_listener(runs->proxy, mirror->run_id.text);
        git_mirror(&command, &(struct git_mirror_wish){ .url = mirror->url,
                                                        .filter = mirror->filter,
                                                        .format = mirror->format,
                                                        .folder = FOLDER,
                                                        .fresh = mirror->fresh });
        struct command_options options = {
            .argv = (const char *const *)command.argv,
            .env = git_environment(),
            .cwd = FOLDER,
            .silence_ms = (uint64_t)runs->options.clone_minutes * 60000,
            .on_done = on_fetched,
            .data = mirror,
        };
        rc = command_start(&mirror->command, runs->loop, mirror->sandbox, &options, &local);
        git_command_finish(&command);
    }
    if (rc < 0) {
        say_failure(mirror, err != NULL ? err->text : local.text);
        sandbox_stop(mirror->sandbox);
    }
}

static void on_ready(void *data, const struct error *err)
{
    struct mirror *mirror = data;
    struct error local = ERROR_INIT;

    if (err != NULL) {
        say_failure(mirror, err->text);
        sandbox_close(mirror->sandbox, on_closed, mirror);
    } else if (sandbox_listen(mirror->sandbox, RUN_PROXY_PORT, on_listen, mirror, &local) < 0) {
        say_failure(mirror, local.text);
        sandbox_stop(mirror->sandbox);
    }
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct mirror *mirror = data;

    (void)end;
    if (mirror->command != NULL)
        command_cancel(STEAL(mirror->command));
    sandbox_close(mirror->sandbox, on_closed, mirror);
}

/* Reading this one repository is all that it may do. */
static int grant(struct mirror *mirror, char token[PROXY_TOKEN_SIZE], struct error *err)
{
    struct runs *runs = mirror->runs;
    const char *service;
    const char *path = git_place_at_service(&runs->options, mirror->url, &service);
    const struct proxy_repository repository = { .service = service, .path = path, .branch = "" };
    const struct proxy_grant grant = { .run_id = mirror->run_id.text,
                                       .services = &service,
                                       .service_count = 1,
                                       .repositories = &repository,
                                       .repository_count = 1 };
    uint8_t hash[PROXY_TOKEN_HASH_SIZE];

    if (path == NULL)
        return error_set(err, ERR_NOT_FOUND, 0, "no git service has it");
    return proxy_grant_run(runs->proxy, &grant, token, hash, err);
}

static int start(struct mirror *mirror, struct error *err)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = mirror };
    struct runs *runs = mirror->runs;
    struct sandbox_spec spec;
    char token[PROXY_TOKEN_SIZE];
    int rc;

    if (paths_make_private(mirror->runtime_dir, err) < 0 || grant(mirror, token, err) < 0)
        return -1;
    sandbox_spec_init(&spec);
    spec.id = mem_strdup("mirror");
    spec.runtime_dir = mem_strdup(mirror->runtime_dir);
    spec.host_uid = mirror->place.uid;
    spec.hostname = mem_strdup("sandbox");
    spec.limits = runs->options.limits;
    sandbox_spec_add_mount(&spec, mirror->place.folder, FOLDER, SANDBOX_READ_WRITE);
    step_add_git_config(runs, &spec, token);
    rc =
        sandbox_start(&mirror->sandbox, runs->loop, &runs->options.sandbox, &spec, &callbacks, err);
    sandbox_spec_finish(&spec);
    if (rc < 0)
        proxy_revoke(runs->proxy, mirror->run_id.text);
    return rc;
}

static bool is_under_way(const struct runs *runs, const char *folder)
{
    LIST_EACH(&runs->mirrors, link) {
        if (str_equal(LIST_ENTRY(link, struct mirror, link)->place.folder, folder))
            return true;
    }
    return false;
}

/* Files of all mirrors belong to one uid, which is no session's. */
uint32_t mirror_uid(const struct runs *runs)
{
    return geteuid() == 0 ? runs->options.host_uid_base + runs->options.host_uid_count - 1
                          : geteuid();
}

static bool is_wanted(struct run *run)
{
    return run->runs->options.mirror_mib > 0 && str_starts(run_place(run)->repository, "http");
}

void mirror_add(struct run *run, struct sandbox_spec *spec)
{
    struct workspace_mirror place;
    AUTO_FREE
    char *url = place_plain_address(run);

    run->mirrored = false;
    if (!is_wanted(run) || run_place(run)->cloned)
        return;
    workspace_mirror_init(&place, run->runs->options.state_dir, url, mirror_uid(run->runs));
    if (workspace_mirror_age(&place, url, place_filter(run)) != WORKSPACE_MIRROR_NONE) {
        sandbox_spec_add_mount(spec, place.folder, GIT_MIRROR_DIR, SANDBOX_READ_ONLY);
        run->mirrored = true;
    }
    workspace_mirror_finish(&place);
}

void mirror_refresh(struct run *run, uint64_t clone_kib, const char *format)
{
    struct runs *runs = run->runs;
    struct mirror *mirror;
    struct error err = ERROR_INIT;
    enum workspace_mirror_age age;

    if (!is_wanted(run) || runs->closing || clone_kib >> 10 < runs->options.mirror_mib)
        return;
    mirror = NEW(struct mirror);
    mirror->runs = runs;
    list_init(&mirror->link);
    mirror->url = place_plain_address(run);
    mirror->filter = mem_strdup(place_filter(run));
    mirror->format = format;
    workspace_mirror_init(&mirror->place, runs->options.state_dir, mirror->url, mirror_uid(runs));
    age = workspace_mirror_age(&mirror->place, mirror->url, mirror->filter);
    if (age == WORKSPACE_MIRROR_YOUNG || is_under_way(runs, mirror->place.folder)) {
        mirror_free(mirror);
        return;
    }
    mirror->fresh = age == WORKSPACE_MIRROR_NONE;
    mirror->runtime_dir =
        mem_printf("%s/sandboxes/mirror-%s", runs->options.runtime_dir, mirror->place.name);
    id_make(&runs->run_ids, ID_KIND_RUN, clock_wall_ms(runs->clock), &mirror->run_id);
    if (workspace_mirror_make(&mirror->place, &err) < 0 ||
        (mirror->fresh && workspace_mirror_unmark(&mirror->place, &err) < 0) ||
        start(mirror, &err) < 0) {
        say_failure(mirror, err.text);
        mirror_free(mirror);
        return;
    }
    list_append(&runs->mirrors, &mirror->link);
    runs->open_runs++;
    log_info(run->record.id.text, "its repository is mirrored in %s", mirror->place.folder);
}

/* Removing ------------------------------------------------------------------------------------ */

static bool will_copy(const struct run *run, const struct workspace_mirror *mirror)
{
    const struct session_place *place = &run->session.places[run->record.place];
    struct workspace_mirror own;
    AUTO_FREE
    char *url = place_plain(place);
    bool same;

    if (!run->mirrored || place->cloned)
        return false;
    workspace_mirror_init(&own, run->runs->options.state_dir, url, mirror->uid);
    same = str_equal(own.name, mirror->name);
    workspace_mirror_finish(&own);
    return same;
}

bool mirror_busy(const struct runs *runs, const struct workspace_mirror *mirror)
{
    if (is_under_way(runs, mirror->folder))
        return true;
    LIST_EACH(&runs->live, link) {
        if (will_copy(LIST_ENTRY(link, struct run, link), mirror))
            return true;
    }
    return false;
}

static void on_emptied(void *data, const struct command_result *result, const struct error *err)
{
    struct mirror *mirror = data;
    session_cb removed = mirror->removed;
    void *removed_data = mirror->data;
    struct error local = ERROR_INIT;

    if (err != NULL)
        local = *err;
    else if (result->timed_out || result->code != 0)
        error_set(&local, ERR_SYSTEM, 0, "some files could not be removed (%.100s)",
                  result->err_tail);
    else
        workspace_mirror_remove_empty(&mirror->place, &local);
    if (local.code != ERR_NONE)
        log_warn("mirror", "%s is not removed: %s", mirror->place.own, local.text);
    mirror_free(mirror);
    removed(removed_data, local.code != ERR_NONE ? &local : NULL);
}

static int empty(struct mirror *mirror, struct error *err)
{
    AUTO_FREE
    char *name = mem_printf("mirror-%s", mirror->place.name);
    struct git_command command;
    const struct chore_options options = {
        .name = name,
        .host_uid = mirror->place.uid,
        .mounts = { { mirror->place.folder, FOLDER, SANDBOX_READ_WRITE } },
        .command = &command,
        .timeout_ms = EMPTY_MS,
        .on_done = on_emptied,
        .data = mirror,
    };

    if (workspace_mirror_make(&mirror->place, err) < 0 ||
        workspace_mirror_unmark(&mirror->place, err) < 0)
        return -1;
    checkpoint_clear_command(&command, FOLDER);
    return chore_start(&mirror->chore, mirror->runs, &options, err);
}

int mirror_remove(struct runs *runs, const struct workspace_mirror *place,
                  void (*done)(void *data, const struct error *err), void *data, struct error *err)
{
    struct mirror *mirror = NEW(struct mirror);

    mirror->runs = runs;
    workspace_mirror_copy(&mirror->place, place);
    mirror->removed = done;
    mirror->data = data;
    list_append(&runs->mirrors, &mirror->link);
    if (empty(mirror, err) == 0)
        return 0;
    mirror_free(mirror);
    return -1;
}

void mirror_close(struct runs *runs)
{
    LIST_EACH(&runs->mirrors, link) {
        struct mirror *mirror = LIST_ENTRY(link, struct mirror, link);

        if (mirror->command != NULL)
            command_cancel(STEAL(mirror->command));
        if (mirror->sandbox != NULL)
            sandbox_stop(mirror->sandbox);
    }
}
