/* pull_text.h: title and text of a pull request. Pure. */
#ifndef RUN_PULL_TEXT_H
#define RUN_PULL_TEXT_H

#include "common/buf.h"
#include "store/store.h"
#include "workspace/publish.h"

/* What is known of the branch. */
struct pull_text_facts {
    const struct publish_changes *changes;
    const struct session_record *session;
    const char *page;       /* "" none */
    const struct buf *runs; /* from pull_text_add_run */
};

/* A line of the list of runs. Appends nothing once the list is long. */
void pull_text_add_run(struct buf *runs, const struct run_record *run, const char *state);
/* One line, cut. GIVEN may be "". */
void pull_text_title(struct buf *out, const char *given, const struct pull_text_facts *facts);
/* GIVEN ("" none), and below it what is known, between marks by which it is found again. */
void pull_text_body(struct buf *out, const char *given, const struct pull_text_facts *facts);
/* The text OLD of an open pull request brought up to date: what stands between the marks, and what
 * is above them if GIVEN isn't "". Without marks it is a person's, and stays unless GIVEN. False:
 * nothing changes. */
bool pull_text_renew(struct buf *out, const char *old, const char *given,
                     const struct pull_text_facts *facts);

#endif
