#include "run/visit.h"

#include <unistd.h>

#include "common/paths.h"
#include "common/str.h"
#include "run/internal.h"

#define VISITS_MAX 8
#define VISIT_MS 3600000u /* init ends it then, whether or not a supervisor lives */

struct visit {
    struct runs *runs;
    struct list link; /* runs::visits */
    struct id session;
    char *name;   /* the session's, and more: of no other sandbox, also of earlier supervisors */
    char *run_id; /* of the grant; NULL: none */
    char *runtime_dir;
    struct session_task *task; /* while it lasts the session can't be deleted or taken back */
    struct sandbox *sandbox;
    bool over; /* it has ended or could not start: only to be closed */
    bool closing;
    void (*on_ready)(void *data, const struct error *err);
    void *data;
};

struct sandbox *visit_sandbox(const struct visit *visit)
{
    return visit->sandbox;
}

/* Another visit may be granted the same right after. */
static void end_way_out(struct visit *visit)
{
    if (visit->run_id != NULL)
        proxy_revoke(visit->runs->proxy, visit->run_id);
    free(STEAL(visit->run_id));
}

static void visit_free(struct visit *visit)
{
    struct runs *runs = visit->runs;

    list_remove(&visit->link);
    session_task_end(visit->task);
    end_way_out(visit);
    free(visit->runtime_dir);
    free(visit->name);
    free(visit);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

static void on_closed(void *data)
{
    struct visit *visit = data;
    struct error err = ERROR_INIT;

    if (sandbox_runtime_remove(visit->runtime_dir, &err) < 0)
        log_warn(visit->session.text, "%s", err.text);
    visit_free(visit);
}

static void tell(struct visit *visit, const struct error *err)
{
    if (!visit->closing)
        visit->on_ready(visit->data, err);
}

static void on_listen(void *data, int fd, const struct error *err)
{
    struct visit *visit = data;
    struct error local = ERROR_INIT;

    if (visit->closing) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (err == NULL && proxy_attach(visit->runs->proxy, visit->run_id, fd, &local) < 0)
        err = &local;
    tell(visit, err);
}

static void on_ready(void *data, const struct error *err)
{
    struct visit *visit = data;
    struct error local = ERROR_INIT;

    visit->over = err != NULL;
    if (visit->closing && visit->over) {
        sandbox_close(visit->sandbox, on_closed, visit);
        return;
    }
    if (visit->closing) {
        sandbox_stop(visit->sandbox);
        return;
    }
    if (err == NULL)
        sandbox_set_deadline(visit->sandbox, VISIT_MS);
    if (err != NULL || visit->run_id == NULL)
        tell(visit, err);
    else if (sandbox_listen(visit->sandbox, RUN_PROXY_PORT, on_listen, visit, &local) < 0)
        tell(visit, &local);
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct visit *visit = data;

    (void)end;
    visit->over = true;
    if (visit->closing)
        sandbox_close(visit->sandbox, on_closed, visit);
}

void visit_close(struct visit *visit)
{
    if (visit->closing)
        return;
    visit->closing = true;
    end_way_out(visit);
    if (visit->over)
        sandbox_close(visit->sandbox, on_closed, visit);
    else
        sandbox_stop(visit->sandbox);
}

static int grant_way_out(struct visit *visit, const struct proxy_grant *grant,
                         struct sandbox_spec *spec, struct error *err)
{
    char token[PROXY_TOKEN_SIZE];
    uint8_t hash[PROXY_TOKEN_HASH_SIZE];

    if (proxy_grant_run(visit->runs->proxy, grant, token, hash, err) < 0)
        return -1;
    visit->run_id = mem_strdup(grant->run_id);
    step_add_git_config(visit->runs, spec, token);
    return 0;
}

static int start(struct visit *visit, const struct visit_options *options,
                 const struct workspace_layout *layout, struct sandbox_spec *spec,
                 struct error *err)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = visit };
    struct runs *runs = visit->runs;

    if (workspace_make(layout, options->session->host_uid, err) < 0 ||
        paths_make_private(visit->runtime_dir, err) < 0)
        return -1;
    spec->id = mem_strdup(visit->name);
    spec->runtime_dir = mem_strdup(visit->runtime_dir);
    spec->host_uid = options->session->host_uid;
    spec->hostname = mem_strdup("sandbox");
    spec->limits = runs->options.limits;
    sandbox_spec_add_mount(spec, layout->workspace, SANDBOX_WORKSPACE, options->access);
    if (options->grant != NULL && grant_way_out(visit, options->grant, spec, err) < 0)
        return -1;
    if (options->grant == NULL)
        step_add_git_config(runs, spec, "");
    return sandbox_start(&visit->sandbox, runs->loop, &runs->options.sandbox, spec, &callbacks,
                         err);
}

int visit_start(struct visit **out, struct runs *runs, const struct visit_options *options,
                struct error *err)
{
    struct workspace_layout layout;
    struct sandbox_spec spec;
    struct visit *visit;
    size_t count = 0;
    uint8_t random[6];
    char digits[2 * sizeof(random) + 1];
    int rc;

    LIST_EACH(&runs->visits, link)
        count++;
    if (runs->closing)
        return error_set(err, ERR_UNAVAILABLE, 0, "the supervisor is stopping");
    if (count >= VISITS_MAX)
        return error_set(err, ERR_LIMIT, 0, "%d sessions are being looked at already; try again",
                         VISITS_MAX);
    if (options->session->making || options->session->restoring != 0)
        return error_set(err, ERR_CONFLICT, 0, "session %s is not whole now",
                         options->session->id.text);
    visit = NEW(struct visit);
    visit->runs = runs;
    visit->session = options->session->id;
    visit->on_ready = options->on_ready;
    visit->data = options->data;
    id_random(random, sizeof(random));
    str_hex(digits, random, sizeof(random));
    visit->name = mem_printf("%s.%s", visit->session.text, digits);
    visit->runtime_dir = mem_printf("%s/sandboxes/%s", runs->options.runtime_dir, visit->name);
    list_append(&runs->visits, &visit->link);
    runs->open_runs++;
    workspace_layout_init(&layout, runs->options.state_dir, visit->session.text);
    sandbox_spec_init(&spec);
    rc = session_task_begin(&visit->task, runs, &visit->session, SESSION_TASK_READ,
                            "being looked at or published", err);
    if (rc == 0)
        rc = start(visit, options, &layout, &spec, err);
    sandbox_spec_finish(&spec);
    workspace_layout_finish(&layout);
    if (rc < 0) {
        visit_free(visit);
        return -1;
    }
    *out = visit;
    return 0;
}
