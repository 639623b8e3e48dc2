/* record.h: what the store holds, as plain structs, and their encoding. A record on disk is a
 * version byte followed by tagged fields (tag, length, bytes) in rising order of tags and a zero
 * byte at the end, so that a newer field is skipped by an older reader of the same version, an
 * absent one is zero and a cut record is noticed. Decoding bounds everything and fails with ERR_BUG
 * on a damaged record. Pure: no I/O. */
#ifndef STORE_RECORD_H
#define STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/id.h"

/* Strings of a record are on the heap, owned by the record, never NULL after record_init ("" is
 * absent). */

struct run_error_record {
    char *code; /* "" none; else clone_failed, model_auth, … */
    char *phase;
    char *message;
    char *hint;
    bool retryable;
    uint64_t
        retry_at_ms; /* wall clock: the provider wants to be left alone until then; 0: no word */
};

struct run_evidence_record {
    bool known;
    char *branch;
    char *base_commit;
    char *start_tree; /* the files that it began with; "": those of base_commit */
    char *head_commit;
    uint64_t commits;
    uint64_t files_changed;
    uint64_t insertions;
    uint64_t deletions;
    uint64_t untracked;
    uint64_t binary_files;
    uint64_t renames;
    uint64_t submodules; /* whose commit changed */
    uint64_t refused_requests;
    char *remote_state;  /* what the remote has of the branch, once something was pushed: "same",
                            "other", "absent", "unknown"; "" nothing was */
    char *remote_commit; /* and where it stands there */
    char *warnings;      /* what is not as it should be, one a line; "" nothing */
    char *left_running;  /* programs that the agent left behind, one command a line; "" none */
    char *finish_reason;
    bool diff_truncated;
};

struct run_usage_record {
    uint64_t input_tokens;
    uint64_t output_tokens;
    uint64_t cache_read_tokens;
    uint64_t cache_write_tokens;
    uint64_t requests;
    uint64_t failed_requests; /* model requests that failed */
    uint64_t cost_microdollars;
    /* By the proxy's count, which limits are held against; the ones above are the agent's. */
    uint64_t counted_tokens;
    uint64_t counted_microdollars;
};

struct run_record {
    struct id id;
    struct id session;
    uint32_t state;   /* enum run_state; the store doesn't interpret it beyond indexing */
    uint32_t outcome; /* enum run_outcome: how it will end, once that is decided */
    char *task;
    char *title;
    char *agent;
    char *model;
    char *repository;
    char *branch;
    uint32_t place; /* of its session's places: the one it works in */
    char *verdict;
    char *output; /* the agent's last answer */
    uint64_t created_ms;
    uint64_t started_ms;
    uint64_t updated_ms;
    uint64_t ended_ms;
    uint64_t timeout_ms;
    uint64_t deadline_ms; /* wall clock; 0 until started */
    uint64_t last_event;  /* number of the newest event */
    char *idempotency_key;
    uint8_t request_hash[32]; /* of the parameters, to tell a repetition from a different request */
    char *prompt_id;          /* the agent's id of our prompt, from before it is sent */
    uint8_t token_hash[32];   /* of the token that its sandbox shows to the proxy */
    uint32_t agent_process;   /* the agent's process by init's counting; 0 before it was started */
    char *isolation;          /* the layers that held its sandbox: "seccomp, landlock, …" */
    struct run_error_record error;
    struct run_evidence_record evidence;
    struct run_usage_record usage;
    uint64_t notice_due; /* number of the event that people are yet to be told of; 0 none */
};

/* Where in a session's workspace a run works. Its first two and where it lies are settled with the
 * run that first names it. */
struct session_place {
    char *repository;  /* "" for a session that began without one */
    char *branch;      /* as asked for, then as found; "" the default one, not yet known */
    char *work_branch; /* the session's own, made of it; "" works on BRANCH itself */
    char *directory;   /* relative to the workspace: "" or "calc" */
    char *base_commit; /* HEAD right after the clone; "" before it */
    char *tree;        /* the files as its last run left them; "" not known */
    bool cloned;       /* the clone is whole: set in the transaction that says so */
    bool set_up;       /* the set-up command has done its work, or there is none */
    char *agent;
    char *agent_session; /* the agent's own id of the conversation, which belongs to the folder; ""
                            before the first prompt */
};

#define SESSION_PLACES_MAX 8

struct session_record {
    struct id id;
    char *title;
    struct session_place places[SESSION_PLACES_MAX]; /* only ever added to */
    uint32_t place_count;                            /* at least 1 */
    uint32_t place;                                  /* that of the newest run */
    uint32_t host_uid;                               /* uid its sandbox runs under on the host */
    char *pushed;                                    /* what it has pushed, as the proxy put it */
    uint64_t created_ms;
    uint64_t updated_ms;
    uint64_t run_count;
    struct id last_run;
    char *pull_url;            /* of the newest pull request; "" none */
    uint64_t pull_number;      /* there */
    char *pull_repository;     /* it is of this one, as a place names it, */
    char *pull_branch;         /* from this branch */
    char *pull_base;           /* into that */
    bool making;               /* a copy or a backup is being brought in: not whole yet */
    bool held;                 /* retention leaves it alone */
    uint32_t restoring;        /* the checkpoint that it is being taken back to; 0: none */
    struct id forked_from;     /* "" none */
    uint32_t forked_number;    /* of that session's checkpoint */
    uint64_t disk_bytes;       /* when they were last counted: its files, */
    uint64_t checkpoint_bytes; /* and its checkpoints */
};

/* What there was of a session at one moment. */
struct checkpoint_record {
    uint32_t number; /* part of the key; from 1 */
    uint32_t chain;  /* number of the one that holds all its files: itself or an older one */
    uint32_t reason; /* enum checkpoint_reason of run; stored by number */
    uint64_t time_ms;
    struct id run; /* "" none */
    uint64_t bytes;
    uint64_t entries;
    uint64_t left_out; /* files that were too large or could not be read */
    struct session_place places[SESSION_PLACES_MAX];
    uint32_t place_count;
    uint32_t place;
};

struct event_record {
    uint64_t number; /* part of the key */
    uint64_t time_ms;
    uint32_t kind; /* enum event_kind of proto; stored by number */
    char *text;
    char *data; /* compact JSON object, "" for none */
    char *key;  /* what it tells of, by the agent's own name, "" for none: a second telling after a
                   restart is known by it */
};

struct audit_record {
    uint64_t number; /* part of the key */
    uint64_t time_ms;
    struct id run;
    char *service;
    char *method;
    char *host;
    char *path;       /* without query values that could hold secrets */
    char *detail;     /* the refs of a push, "" mostly */
    uint32_t verdict; /* enum audit_verdict of proxy: 0 allow, 1 deny, 2 error */
    char *reason;
    uint32_t status;
    uint64_t request_bytes;
    uint64_t response_bytes;
    uint64_t milliseconds;
    uint64_t input_tokens; /* of a model request, also those that a cache had */
    uint64_t output_tokens;
    uint64_t microdollars;
};

/* init makes every string ""; finish frees; copy makes an independent one in TO, which holds
 * nothing yet. record_set replaces a string field. */
void run_record_init(struct run_record *run);
void run_record_finish(struct run_record *run);
void run_record_copy(struct run_record *to, const struct run_record *from);
void session_record_init(struct session_record *session);
void session_record_finish(struct session_record *session);
void session_record_copy(struct session_record *to, const struct session_record *from);
void checkpoint_record_init(struct checkpoint_record *checkpoint);
void checkpoint_record_finish(struct checkpoint_record *checkpoint);
void checkpoint_record_copy(struct checkpoint_record *to, const struct checkpoint_record *from);
void event_record_init(struct event_record *event);
void event_record_finish(struct event_record *event);
void audit_record_init(struct audit_record *audit);
void audit_record_finish(struct audit_record *audit);
void record_set(char **field, const char *text); /* frees the old one; NULL counts as "" */

/* encode appends; the buffer's maximum is the record's. decode replaces what RUN, which is
 * initialised, held; on failure it may be half filled but can be finished. */
void run_record_encode(const struct run_record *run, struct buf *out);
int run_record_decode(const void *data, size_t len, struct run_record *run, struct error *err);
void session_record_encode(const struct session_record *session, struct buf *out);
int session_record_decode(const void *data, size_t len, struct session_record *session,
                          struct error *err);
/* Without number. */
void checkpoint_record_encode(const struct checkpoint_record *checkpoint, struct buf *out);
int checkpoint_record_decode(const void *data, size_t len, struct checkpoint_record *checkpoint,
                             struct error *err);
void event_record_encode(const struct event_record *event, struct buf *out); /* without number */
int event_record_decode(const void *data, size_t len, struct event_record *event,
                        struct error *err);
void audit_record_encode(const struct audit_record *audit, struct buf *out); /* without number */
int audit_record_decode(const void *data, size_t len, struct audit_record *audit,
                        struct error *err);

#endif
