/* session.c: the end of a session. Its files are removed inside a sandbox of its own uid, where
 * nothing but them can be reached; only the emptied folders are removed from outside. */
#include "run/internal.h"

#include "common/paths.h"
#include "common/str.h"

#define CACHES "/caches" /* inside, for the removal only */

struct removal {
    struct runs *runs;
    struct list link; /* runs::removals */
    struct session_record session;
    struct workspace_layout layout;
    char *runtime_dir;
    struct sandbox *sandbox;
    struct command *command;
    struct error error;
    bool failed;
    void (*done)(void *data, const struct error *err);
    void *data;
};

bool session_being_deleted(struct runs *runs, const struct id *session)
{
    LIST_EACH(&runs->removals, link) {
        const struct removal *removal = LIST_ENTRY(link, struct removal, link);

        if (str_equal(removal->session.id.text, session->text))
            return true;
    }
    return false;
}

static void removal_free(struct removal *removal)
{
    list_remove(&removal->link);
    session_record_finish(&removal->session);
    workspace_layout_finish(&removal->layout);
    free(removal->runtime_dir);
    removal->runs->open_runs--;
    if (removal->runs->closing && removal->runs->open_runs == 0)
        events_tick_soon(removal->runs, 0);
    free(removal);
}

static void fail(struct removal *removal, const struct error *err)
{
    if (removal->failed)
        return;
    removal->failed = true;
    removal->error = *err;
    error_wrap(&removal->error, "session %s can't be removed", removal->session.id.text);
}

static void on_closed(void *data)
{
    struct removal *removal = data;
    struct error err = ERROR_INIT;

    sandbox_runtime_remove(removal->runtime_dir, &err);
    if (!removal->failed &&
        (workspace_remove_empty(&removal->layout, &err) < 0 ||
         store_session_delete(removal->runs->store, &removal->session.id, &err) < 0))
        fail(removal, &err);
    log_info(removal->session.id.text, "%s", removal->failed ? removal->error.text : "deleted");
    removal->done(removal->data, removal->failed ? &removal->error : NULL);
    removal_free(removal);
}

static void on_emptied(void *data, const struct command_result *result, const struct error *err)
{
    struct removal *removal = data;
    struct error local = ERROR_INIT;

    removal->command = NULL;
    if (err != NULL) {
        fail(removal, err);
    } else if (result->timed_out) {
        error_set(&local, ERR_TIMEOUT, 0,
                  "to empty its folders takes longer than ten minutes; delete it again to go on");
        fail(removal, &local);
    } else if (result->code != 0) {
        error_set(&local, ERR_SYSTEM, 0, "some files could not be removed (%.100s)",
                  result->err_tail);
        fail(removal, &local);
    }
    sandbox_stop(removal->sandbox);
}

static void on_ready(void *data, const struct error *err)
{
    /* Folders that the agent made unreadable are its uid's own. */
    static const char script[] =
        "chmod -R u+rwX " SANDBOX_WORKSPACE " " SANDBOX_HOME " " CACHES " 2>/dev/null; "
        "find " SANDBOX_WORKSPACE " " SANDBOX_HOME " " CACHES " -mindepth 1 -depth -delete";
    static const char *const argv[] = { "sh", "-c", script, NULL };
    struct removal *removal = data;
    struct error local = ERROR_INIT;
    struct command_options options = { .argv = argv,
                                       .env = git_environment(),
                                       .cwd = "/",
                                       .timeout_ms = 600000,
                                       .on_done = on_emptied,
                                       .data = removal };

    if (err != NULL) {
        fail(removal, err);
        sandbox_close(removal->sandbox, on_closed, removal);
        return;
    }
    if (command_start(&removal->command, removal->runs->loop, removal->sandbox, &options, &local) <
        0) {
        fail(removal, &local);
        sandbox_stop(removal->sandbox);
    }
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct removal *removal = data;
    struct error local = ERROR_INIT;

    if (end->kind == SANDBOX_END_LOST) {
        error_set(&local, ERR_SYSTEM, 0, "its sandbox ended too early: %s", end->text);
        fail(removal, &local);
    }
    sandbox_close(removal->sandbox, on_closed, removal);
}

static int start(struct removal *removal, struct error *err)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = removal };
    struct runs *runs = removal->runs;
    struct sandbox_spec spec;
    int rc;

    if (workspace_make(&removal->layout, removal->session.host_uid, err) < 0 ||
        paths_make_private(removal->runtime_dir, err) < 0)
        return -1;
    workspace_clear_caches(&removal->layout);
    sandbox_spec_init(&spec);
    spec.id = mem_strdup(removal->session.id.text);
    spec.runtime_dir = mem_strdup(removal->runtime_dir);
    spec.host_uid = removal->session.host_uid;
    spec.hostname = mem_strdup("sandbox");
    spec.limits = runs->options.limits;
    sandbox_spec_add_mount(&spec, removal->layout.workspace, SANDBOX_WORKSPACE, SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(&spec, removal->layout.home, SANDBOX_HOME, SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(&spec, removal->layout.caches, CACHES, SANDBOX_READ_WRITE);
    rc = sandbox_start(&removal->sandbox, runs->loop, &runs->options.sandbox, &spec, &callbacks,
                       err);
    sandbox_spec_finish(&spec);
    return rc;
}

int session_delete(struct runs *runs, const struct id *id,
                   void (*done)(void *data, const struct error *err), void *data, struct error *err)
{
    struct removal *removal;

    if (registry_find_session(runs, id, false) != NULL)
        return error_set(err, ERR_CONFLICT, 0,
                         "session %s has a run that hasn't ended; cancel it first", id->text);
    if (session_being_deleted(runs, id))
        return error_set(err, ERR_CONFLICT, 0, "session %s is being deleted already", id->text);
    removal = NEW(struct removal);
    session_record_init(&removal->session);
    removal->runs = runs;
    list_append(&runs->removals, &removal->link);
    removal->done = done;
    removal->data = data;
    runs->open_runs++;
    if (store_session_load(runs->store, id, &removal->session, err) < 0) {
        removal_free(removal);
        return -1;
    }
    workspace_layout_init(&removal->layout, runs->options.state_dir, id->text);
    removal->runtime_dir = mem_printf("%s/sandboxes/%s", runs->options.runtime_dir, id->text);
    if (start(removal, err) < 0) {
        removal_free(removal);
        return -1;
    }
    return 0;
}
