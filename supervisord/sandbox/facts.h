/* facts.h: what the kernel says about a sandbox's first process, and which layers follow from it.
 */
#ifndef SANDBOX_FACTS_H
#define SANDBOX_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

struct sandbox_facts {
    uid_t uid; /* all four are this one */
    bool one_uid;
    bool first;    /* pid 1 of a pid namespace below ours */
    bool filtered; /* a seccomp filter is in force */
    bool no_new_privs;
    bool no_capabilities;    /* every set is empty, so none can come back */
    uint32_t own_namespaces; /* bits 1 << enum sandbox_layer: another one than ours */
};

/* Fills everything but own_namespaces from the text of /proc/PID/status. -1 when it names no uid.
 */
int facts_parse(const char *status, struct sandbox_facts *facts);
/* ERR_UNAVAILABLE when the process can't be looked at. */
int facts_read(pid_t pid, struct sandbox_facts *facts, struct error *err);
/* Bits 1 << enum sandbox_layer, without what cgroups hold. LANDLOCK is what init claims: the number
 * of the kernel's interface, 0 for none. The kernel tells nobody else, so the claim counts only for
 * an init that everything else vouches for. */
uint32_t facts_layers(const struct sandbox_facts *facts, uid_t our_uid, uint32_t landlock);

#endif
