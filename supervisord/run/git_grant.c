/* git_grant.c: which repositories of which git services are a session's own. */
#include "run/internal.h"

#include <strings.h>

#include "common/log.h"
#include "common/str.h"

const char *git_canonical_origin(const char *service)
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

/* What stands behind BASE in URL, from its slash on; NULL when URL doesn't lie below it. */
static const char *path_below(const char *url, const char *base)
{
    size_t len = base != NULL ? strlen(base) : 0;

    while (len > 0 && base[len - 1] == '/')
        len--;
    return len > 0 && strncasecmp(url, base, len) == 0 && url[len] == '/' ? url + len : NULL;
}

const char *git_place_at_service(const struct runs_options *options, const char *url,
                                 const char **service)
{
    for (size_t i = 0; i < options->git_service_count; i++) {
        const char *found = path_below(url, options->git_targets[i]);

        if (found == NULL)
            found = path_below(url, git_canonical_origin(options->git_services[i]));
        *service = options->git_services[i];
        if (found != NULL)
            return found;
    }
    return NULL;
}

void git_grant_init(struct git_grant *repositories, const struct run *run,
                    struct proxy_grant *grant)
{
    const struct run_repository *settings =
        places_settings(run->runs, run->session.places[run->record.place].repository);

    *repositories = (struct git_grant){ .count = 0 };
    if (settings != NULL && settings->services != NULL) {
        grant->services = settings->services;
        grant->service_count = settings->service_count;
    }
    if (settings != NULL && settings->egress != NULL) {
        grant->egress = settings->egress;
        grant->egress_count = settings->egress_count;
    }
    for (size_t i = 0; i < run->session.place_count; i++) {
        const struct session_place *place = &run->session.places[i];
        struct proxy_repository *to = &repositories->items[repositories->count];
        const char *found =
            git_place_at_service(&run->runs->options, place->repository, &to->service);
        size_t len = found != NULL ? strlen(found) : 0;

        while (len > 0 && found[len - 1] == '/')
            len--;
        if (len == 0)
            continue;
        to->path = repositories->paths[repositories->count++] = mem_strndup(found, len);
        to->push = places_push(run->runs, place->repository);
        /* Never the branch it began with, which is somebody else's; where the operator lets nothing
         * be pushed, none. */
        to->branch = to->push.refs != NULL && to->push.ref_count == 0 ? "" : place->work_branch;
    }
    grant->repositories = repositories->items;
    grant->repository_count = repositories->count;
    grant->pushed = run->session.pushed;
}

void git_grant_finish(struct git_grant *repositories)
{
    for (size_t i = 0; i < repositories->count; i++)
        free(repositories->paths[i]);
}

void runs_proxy_pushed(struct runs *runs, const char *run_id, const char *pushed)
{
    struct run *run = registry_find(runs, run_id);
    struct error err = ERROR_INIT;

    if (run == NULL) {
        pull_request_pushed(runs, run_id, pushed);
        return;
    }
    record_set(&run->session.pushed, pushed);
    if (run_save(run, &err) < 0)
        log_warn(run_id, "what was pushed can't be stored: %s", err.text);
}
