/* doctor.h: what sandboxes and agents need of a machine. Facts are read (doctor_facts.c), then one
 * table judges them (doctor_checks.c), which does no I/O: a test can break each fact in turn. */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/userns.h"
#include "ctl/session.h"

/* Facts
 * -------------------------------------------------------------------------------------------- */

/* What came of making a sandbox. */
enum doctor_trial { DOCTOR_TRIAL_NONE, DOCTOR_TRIAL_WORKED, DOCTOR_TRIAL_FAILED };

struct doctor_agent {
    const char *name;
    const char *program; /* NULL: it needs none, or has not one alone */
    const char *problem; /* why it can't be started; NULL: it can */
    const char *install; /* a command; NULL: unknown */
    const char *version; /* NULL: not asked, or it doesn't say */
    bool is_default;
};

struct doctor_service {
    const char *name;
    const char *target;
    const char *secret; /* "" it needs none */
    bool present;
};

struct doctor_place {
    const char *path;
    bool there;
    bool ours;
    bool is_socket;
    bool writable; /* for us */
    mode_t mode;   /* permissions */
};

#define DOCTOR_LIST_MAX 64

/* A string is NULL when there is nothing to name. */
struct doctor_facts {
    const char *config_file;
    const char *config_problem; /* NULL: it is right */
    const char *supervisord;    /* the program */
    const char *git;
    const char *bwrap_wanted; /* as configured */
    const char *bwrap;
    const char *bwrap_version;
    bool has_userns;                      /* the kernel */
    const struct userns_switch *userns;   /* that forbids them */
    enum doctor_trial trial;              /* the supervisor's, or without one our own */
    const char *trial_words;              /* why it failed */
    const char *layers;                   /* that hold, as one text */
    const char *missing[DOCTOR_LIST_MAX]; /* layers */
    size_t missing_count;
    unsigned cgroup_version; /* 0: none are mounted */
    const char *limits;
    struct doctor_place state;
    struct doctor_place socket;
    const char *disk; /* the folder that was looked at */
    uint64_t free_mib;
    uint64_t wanted_mib;
    uint64_t free_files; /* UINT64_MAX: unlimited or unknown */
    bool disk_known;
    uint64_t now_ms;
    uint64_t written_ms; /* the database, last; 0: never */
    uint64_t started_ms; /* the supervisor, by the clock of then; 0: none runs */
    uint64_t uptime_ms;
    bool serves;
    const char *supervisor_problem; /* why it doesn't serve, when one is there */
    const char *supervisor_version;
    uint64_t pid;
    struct doctor_agent agents[DOCTOR_LIST_MAX];
    size_t agent_count;
    struct doctor_service services[DOCTOR_LIST_MAX];
    size_t service_count;
    char **owned; /* strings that doctor_facts_finish frees */
    size_t owned_count;
};

/* ROOT is put before the system's own paths: "", but in tests. A supervisor is asked if one serves
 * SESSION's socket, and none is started; SESSION stays connected. What can't be read is a fact of
 * its own. */
void doctor_facts_read(struct doctor_facts *facts, struct session *session, const char *root);
void doctor_facts_finish(struct doctor_facts *facts);

/* The system's part alone, which needs no session. For tests. */
void doctor_facts_machine(struct doctor_facts *facts, const char *root);
void doctor_place_read(struct doctor_place *place, const char *path);
/* The value of NAME in what `sandbox-supervisord --print-config` prints, as JSON; NULL. Heap. */
char *doctor_setting(const char *text, const char *name);

/* Checks
 * -------------------------------------------------------------------------------------------- */

enum doctor_verdict {
    DOCTOR_GOOD,
    DOCTOR_NOTE,    /* it works without */
    DOCTOR_SKIPPED, /* only a supervisor knows */
    DOCTOR_BROKEN,
};

struct doctor_finding {
    const char *check;
    enum doctor_verdict verdict;
    const char *reason;
    const char *mend; /* a command, "" none */
};

/* Each finding in the table's order; strings live for the call. */
void doctor_judge(const struct doctor_facts *facts,
                  void (*each)(void *data, const struct doctor_finding *finding), void *data);

/* TEMPLATE with what its {names} stand for. INDEX is of the agent, service or layer. */
void doctor_fill(struct buf *out, const char *template, const struct doctor_facts *facts,
                 size_t index);

#endif
