/* visit.h: a sandbox of the supervisor's own at a session's files, for as long as a few commands
 * take: beside the session's runs and apart from them. Programs of a run neither see what goes on
 * in it nor reach its way out. The files may change meanwhile, and they may lie. */
#ifndef RUN_VISIT_H
#define RUN_VISIT_H

#include <stdbool.h>

#include "common/error.h"
#include "common/id.h"
#include "proxy/proxy.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

struct runs;
struct visit;

struct visit_options {
    const struct session_record *session;
    enum sandbox_access access; /* to the workspace */
    /* NULL: nothing is reached from inside. run_id must be of a run that isn't live. */
    const struct proxy_grant *grant;
    /* Once, from the loop, unless visit_close was called. After ERR there is but visit_close. */
    void (*on_ready)(void *data, const struct error *err);
    void *data;
};

/* Options are borrowed during the call. ERR_LIMIT: there are as many as can be.
 * ERR_CONFLICT: the session is being deleted or taken back. While there is a visit it can't be. */
int visit_start(struct visit **out, struct runs *runs, const struct visit_options *options,
                struct error *err);
/* For commands, from on_ready until visit_close. When it ends by itself they say so. */
struct sandbox *visit_sandbox(const struct visit *visit);
/* Ends all that runs in it and forgets it. Commands in it must be over or cancelled. */
void visit_close(struct visit *visit);

#endif
