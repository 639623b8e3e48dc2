/* places.c: the repositories of a session. Each has a folder of the workspace to itself, its own
 * branch and its own clone; a run works in one. */
#include "run/internal.h"

#include <string.h>
#include <strings.h>

#include "common/str.h"

struct session_place *run_place(struct run *run)
{
    return &run->session.places[run->record.place];
}

char *place_directory(const struct session_place *place)
{
    if (place->directory[0] == '\0')
        return mem_strdup(SANDBOX_WORKSPACE);
    return mem_printf(SANDBOX_WORKSPACE "/%s", place->directory);
}

char *run_directory(struct run *run)
{
    return place_directory(run_place(run));
}

bool places_any_cloned(const struct session_record *session)
{
    for (size_t i = 0; i < session->place_count; i++) {
        if (session->places[i].cloned)
            return true;
    }
    return false;
}

/* Without what makes no difference to a git server. */
static size_t address_len(const char *address)
{
    size_t len = strlen(address);

    while (len > 1 && address[len - 1] == '/')
        len--;
    if (len > 4 && strncmp(address + len - 4, ".git", 4) == 0 && address[len - 5] != '/')
        len -= 4;
    return len;
}

char *place_plain(const struct session_place *place)
{
    return mem_strndup(place->repository, address_len(place->repository));
}

char *place_plain_address(struct run *run)
{
    return place_plain(run_place(run));
}

int places_find(const struct session_record *session, const char *repository)
{
    for (size_t i = 0; i < session->place_count; i++) {
        const char *known = session->places[i].repository;

        if (known[0] != '\0' && address_len(known) == address_len(repository) &&
            strncmp(known, repository, address_len(known)) == 0)
            return (int)i;
    }
    return -1;
}

/* Two repositories of one name lie side by side, also for tools that don't tell cases apart. */
static bool folder_taken(const struct session_record *session, const char *folder)
{
    for (size_t i = 0; i < session->place_count; i++) {
        if (strcasecmp(session->places[i].directory, folder) == 0)
            return true;
    }
    return false;
}

static void settle(struct session_record *session, size_t at, const struct place_wish *wish,
                   const char *name)
{
    struct session_place *place = &session->places[at];
    AUTO_FREE
    char *folder = mem_strdup(name ? name : "");

    for (unsigned number = 2; name && folder_taken(session, folder); number++) {
        free(folder);
        folder = mem_printf("%s-%u", name, number);
    }
    record_set(&place->repository, wish->repository);
    record_set(&place->branch, wish->branch);
    record_set(&place->work_branch, wish->work_branch);
    record_set(&place->directory, folder);
    session->place = (uint32_t)at;
}

void places_begin(struct session_record *session, const struct place_wish *wish, const char *name)
{
    settle(session, 0, wish, name);
}

/* A place whose clone never came about, and that no run waits for, is given away again. */
static int free_place(const struct session_record *session, uint32_t in_use)
{
    for (uint32_t i = 1; i < session->place_count; i++) {
        if (!session->places[i].cloned && (in_use & UINT32_C(1) << i) == 0)
            return (int)i;
    }
    return session->place_count < SESSION_PLACES_MAX ? (int)session->place_count : -1;
}

int places_add(struct session_record *session, uint32_t in_use, const struct place_wish *wish,
               const char *name, struct error *err)
{
    int at = free_place(session, in_use);

    if (at < 0) {
        error_argument(err, "repository",
                       "this session has %d repositories already; start a new session",
                       SESSION_PLACES_MAX);
        err->code = ERR_LIMIT;
        return -1;
    }
    if ((uint32_t)at < session->place_count)
        record_set(&session->places[at].directory, "");
    settle(session, (size_t)at, wish, name);
    if ((uint32_t)at == session->place_count)
        session->place_count++;
    return 0;
}

uint32_t places_go_on(const struct session_record *session, uint32_t in_use)
{
    uint32_t place = session->place;

    if (session->places[place].cloned || (in_use & UINT32_C(1) << place) != 0)
        return place;
    for (uint32_t i = session->place_count; i > 0; i--) {
        if (session->places[i - 1].cloned)
            return i - 1;
    }
    return place;
}

void places_take_new(struct session_record *to, const struct session_record *from)
{
    for (size_t i = 0; i < from->place_count; i++) {
        if (to->places[i].cloned)
            continue;
        record_set(&to->places[i].repository, from->places[i].repository);
        record_set(&to->places[i].branch, from->places[i].branch);
        record_set(&to->places[i].directory, from->places[i].directory);
        record_set(&to->places[i].work_branch, from->places[i].work_branch);
    }
    to->place_count = from->place_count;
    to->place = from->place;
}

/* The operator's settings ------------------------------------------------------------------------
 */

static bool text_matches(const char *pattern, const char *address,
                         int (*compare)(const char *a, const char *b, size_t len))
{
    size_t len = address_len(pattern);

    if (str_ends(pattern, "*"))
        return compare(pattern, address, strlen(pattern) - 1) == 0;
    return len == address_len(address) && compare(pattern, address, len) == 0;
}

/* At a git service an address has more than one spelling, and what is said of a repository holds
 * for it by any of them. */
static bool matches(const struct runs_options *options, const char *pattern, const char *address)
{
    const char *pattern_service;
    const char *service;
    const char *pattern_path = git_place_at_service(options, pattern, &pattern_service);
    const char *path = git_place_at_service(options, address, &service);

    if (pattern_path == NULL || path == NULL)
        return text_matches(pattern, address, strncmp);
    return str_equal(pattern_service, service) && text_matches(pattern_path, path, strncasecmp);
}

/* The first that fits, in the order of the file. */
const struct run_repository *places_settings(const struct runs *runs, const char *repository)
{
    const struct runs_options *options = &runs->options;

    for (size_t i = 0; i < options->repository_count; i++) {
        if (matches(options, options->repositories[i].address, repository))
            return &options->repositories[i];
    }
    return NULL;
}

struct proxy_push places_push(const struct runs *runs, const char *repository)
{
    const struct run_repository *settings = places_settings(runs, repository);

    return settings != NULL ? settings->push : (struct proxy_push){ .refs = NULL };
}

char *places_work_branch(const struct runs *runs, const char *repository, const char *title,
                         const struct id *session)
{
    const struct run_repository *settings = places_settings(runs, repository);
    const char *template = settings != NULL && settings->work_branch != NULL
                               ? settings->work_branch
                               : runs->options.work_branch;

    return branch_from_template(template, title, session->text);
}

const struct run_repository *place_settings(struct run *run)
{
    return places_settings(run->runs, run_place(run)->repository);
}

const char *place_filter(struct run *run)
{
    const struct run_repository *settings = place_settings(run);

    const char *filter = settings != NULL && settings->filter[0] != '\0'
                             ? settings->filter
                             : run->runs->options.clone_filter;

    return str_equal(filter, "none") ? "" : filter;
}
