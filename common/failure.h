/* failure.h: the names of everything that a run can fail by: one table of codes, each with what a
 * person can do about it and whether the same task may succeed when it is tried again. What a
 * model's provider answers is named here as well, so that the proxy's view and an agent's get the
 * same name. Pure. */
#ifndef COMMON_FAILURE_H
#define COMMON_FAILURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

struct failure_kind {
    const char *code;
    bool retryable;
    const char *meaning; /* for the documentation */
    const char *hint;    /* what a person can do */
};

/* NULL: there is no such code. */
const struct failure_kind *failure_find(const char *code);
/* Walks the table, NULL at its end. */
const struct failure_kind *failure_at(size_t index);
/* The table as docs/agents.md has it. */
void failure_print(struct buf *out);

/* A code of the table by what a provider says, or NULL. Words that mean the same under whatever
 * status they come stand first: "out of credit" is a 400 here and a 429 there. */
const char *failure_of_words(const char *words);
const char *failure_of_status(uint64_t status);
/* Words that are asked when no status says more: of an error in the middle of an answer, or of a
 * connection. */
const char *failure_of_symptom(const char *words);

#endif
