/* opencode_seen.h: what was told already, remembered by a hash of its id. A collision loses one
 * event, and only the agent can make one. */
#ifndef AGENT_OPENCODE_SEEN_H
#define AGENT_OPENCODE_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts zeroed. */
struct opencode_seen {
    uint64_t *slots; /* open addressing; 0 is free */
    size_t count;
    size_t size;
};

void opencode_seen_finish(struct opencode_seen *seen);
/* Of WHAT was seen ("part ") and its ID; never 0. */
uint64_t opencode_seen_hash(const char *what, const char *id);
bool opencode_seen_has(const struct opencode_seen *seen, uint64_t hash);
/* True the first time. When too much was seen, all of it is forgotten: then something old may be
 * told twice. */
bool opencode_seen_add(struct opencode_seen *seen, uint64_t hash);

#endif
