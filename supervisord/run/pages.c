/* pages.c: connections to the pages that an agent itself shows, while it is at work. */
#include "common/buf.h"
#include "common/fd.h"
#include "run/internal.h"

/* What the sandbox's answer finds: it may come when nobody waits for it any more. */
struct pages_call {
    struct run_pages *pages; /* NULL: nobody */
};

struct run_pages {
    struct list link; /* run::pages */
    struct run *run;
    struct pages_call *call; /* while connecting */
    struct run_pages_callbacks callbacks;
};

/* The session's run whose agent shows pages now; what they are to PAGES. */
static struct run *find_shown(struct runs *runs, const struct id *session,
                              struct agent_pages *pages, struct error *err)
{
    struct run *run = registry_find_session(runs, session, true);

    if (run != NULL && run->agent != NULL && !run->agent_closing && run->sandbox != NULL &&
        !run->sandbox_over && run->driver->pages != NULL && run->driver->pages(run->agent, pages))
        return run;
    error_set(err, ERR_CONFLICT, 0,
              "no agent that has pages of its own is at work in this session now");
    return NULL;
}

int run_pages_path(struct runs *runs, const struct id *session, struct buf *path, struct error *err)
{
    struct agent_pages pages = { .path = NULL };

    if (find_shown(runs, session, &pages, err) == NULL)
        return -1;
    buf_append_str(path, pages.path);
    free(pages.path);
    return 0;
}

static void forget(struct run_pages *pages)
{
    if (pages->call != NULL)
        pages->call->pages = NULL;
    list_remove(&pages->link);
    free(pages);
}

static void on_connected(void *data, int fd, const struct error *err)
{
    struct pages_call *call = data;
    struct run_pages *pages = call->pages;
    struct agent_pages shown = { .path = NULL };
    struct error gone = ERROR_INIT;

    free(call);
    if (pages == NULL) {
        fd_close(&fd);
        return;
    }
    pages->call = NULL;
    if (err == NULL &&
        find_shown(pages->run->runs, &pages->run->session.id, &shown, &gone) == NULL) {
        fd_close(&fd);
        err = &gone;
    }
    free(shown.path);
    pages->callbacks.on_connected(pages->callbacks.data, fd, shown.authorization, err);
}

int run_pages_connect(struct run_pages **out, struct runs *runs, const struct id *session,
                      const struct run_pages_callbacks *callbacks, struct error *err)
{
    struct agent_pages shown = { .path = NULL };
    struct run *run = find_shown(runs, session, &shown, err);
    struct pages_call *call;
    struct run_pages *pages;

    if (run == NULL)
        return -1;
    free(shown.path);
    call = NEW(struct pages_call);
    if (sandbox_connect(run->sandbox, shown.port, on_connected, call, err) < 0) {
        free(call);
        return -1;
    }
    pages = NEW(struct run_pages);
    pages->run = run;
    pages->callbacks = *callbacks;
    pages->call = call;
    call->pages = pages;
    list_append(&run->pages, &pages->link);
    *out = pages;
    return 0;
}

void run_pages_release(struct run_pages *pages)
{
    forget(pages);
}

void pages_cut_all(struct run *run)
{
    while (!list_empty(&run->pages)) {
        struct run_pages *pages = LIST_ENTRY(run->pages.next, struct run_pages, link);
        struct run_pages_callbacks callbacks = pages->callbacks;

        forget(pages);
        callbacks.on_cut(callbacks.data);
    }
}
