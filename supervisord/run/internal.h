/* internal.h: what the files of run/ share. Nobody else includes it. */
#ifndef RUN_INTERNAL_H
#define RUN_INTERNAL_H

#include <stdatomic.h>

#include "agent/agent.h"
#include "common/list.h"
#include "common/log.h"
#include "common/mem.h"
#include "io/io.h"
#include "run/chore.h"
#include "run/command.h"
#include "run/run.h"
#include "workspace/usage_watch.h"
#include "workspace/workspace.h"

#define RUN_PROXY_PORT 4999
#define RUN_HELD_MAX 8
#define RUN_DIFF_MAX (4u << 20)
#define RUN_OUTPUT_MAX (256u << 10)
#define RUN_LIMITS (SANDBOX_LIMIT_PROCESSES + 1)

struct collect;      /* collect.c: evidence being taken */
struct clone;        /* clone.c: code coming in */
struct setup;        /* setup.c: a repository's set-up command */
struct session_task; /* session_task.c */
struct told;         /* told.c: what an earlier supervisor heard */

/* In a record's prompt_id: sent, by an agent that gives prompts no ids. */
#define PROMPT_WITHOUT_ID "-"

/* trouble.c: the model's failures in a row, by the proxy's account or, where that sees none, the
 * agent's. */
struct run_trouble {
    uint32_t failures;
    bool by_agent;
    uint32_t status;
    const char *code; /* of common/failure.c */
    char words[PROXY_MODEL_WORDS_MAX];
    uint64_t retry_at_ms;  /* the provider wants to be left alone until then; 0: no word */
    uint64_t next_ms;      /* when it will be asked again, as far as known; 0: not */
    char *view;            /* JSON for views; NULL while all is well, */
    char *text;            /* as is this sentence */
    const char *exhausted; /* it is not asked again, and why */
    bool told;
};

/* watch.c: the last sample of what the sandbox's programs had used of the processor. */
struct run_watch {
    struct command *command; /* that takes one */
    bool sampled;
    uint64_t cpu_ms;
    uint64_t sample_mono_ms;
};

/* checkpoint_run.c: what there is of a run's checkpoints. */
struct run_checkpoints {
    uv_timer_t timer;  /* runs while there is something that the newest one has not */
    bool busy;         /* one is being made */
    bool holds_prompt; /* … that is to be whole before the agent begins, and it would */
    bool first;        /* the one being made is that */
    bool last_wanted;  /* the one at the turn's end follows the one being made */
    bool last_done;
};

/* A run that has not ended. Its record is what is on disk; it is changed only together with the
 * disk. */
struct run {
    struct runs *runs;
    struct list link; /* runs::live */
    struct run_record record;
    struct session_record session;
    struct workspace_layout layout;
    char *runtime_dir;

    struct sandbox *sandbox; /* NULL before and after */
    bool sandbox_over;       /* it has ended or could not start: only to be closed */
    const struct agent_driver *driver;
    const struct agent_profile *profile; /* of an agent that is described by configuration */
    struct agent *agent;
    bool agent_closing;
    bool sandbox_closing;
    bool agent_done;         /* on_end has been called for the prompt */
    bool prompt_sent;        /* by us, or about to be */
    bool adopting;           /* its sandbox is being taken up again */
    bool awaits_trust;       /* its sandbox is made once run_trust is complete */
    bool unheard;            /* taken up again, and its agent has said nothing since */
    struct told *told;       /* NULL: nothing */
    struct command *command; /* the one git command under way */
    struct clone *clone;
    struct setup *setup;
    struct collect *collect;
    struct list execs; /* run_exec::link */
    struct list pages; /* run_pages::link */

    struct handles handles;
    uv_timer_t deadline;
    uv_timer_t watch; /* stall watchdog, and the wait for an abort */
    uint64_t active_mono_ms;

    enum run_event held[RUN_HELD_MAX]; /* events whose transaction could not be written yet */
    size_t held_count;
    bool finished;
    uint64_t limit_times[RUN_LIMITS]; /* by enum sandbox_limit: how often each was held */
    struct usage_watch *usage;        /* NULL before and after */
    uint64_t output_bytes;            /* of its events, by this supervisor */
    uint64_t dropped_events;
    bool output_over;
    bool output_told;
    struct run_trouble trouble;
    bool at_length;     /* its model's last answer was cut off by its greatest length */
    bool model_awaited; /* until the agent's program has told which models it knows */
    struct run_watch watched;
    bool mirrored;  /* its sandbox sees a mirror of its repository */
    bool wait_told; /* its log says that it waits for the machine */
    struct run_checkpoints checkpoints;

    char *current_step;
    struct list requests; /* open ones, oldest first: open_request::link in waiting.c */
    uv_timer_t answer;    /* runs out when nobody has answered the oldest one */
};

struct runs {
    uv_loop_t *loop;
    struct store *store;
    struct proxy *proxy;
    const struct clock *clock;
    struct runs_options options; /* strings are ours */
    struct id_source run_ids;
    struct id_source session_ids;
    struct list live;   /* run::link, oldest first */
    struct list tasks;  /* what is being done with sessions: session_task::link */
    struct list chores; /* chore::link */
    struct list visits; /* visit::link */
    struct list pulls;  /* pull requests under way: pull_op::link */
    struct list takes;  /* take::link */
    struct list subscriptions;
    struct list watchers;   /* runs_watcher::link */
    struct list catalogues; /* catalogue::link */
    struct list mirrors;    /* mirror::link */
    size_t open_runs;       /* run structs whose memory is not yet gone */
    struct handles handles;
    uv_timer_t tick;      /* commits batched events, wakes subscribers, admits */
    uv_timer_t again;     /* tries a refused transaction again */
    uv_timer_t retention; /* daily, if there is a policy */
    uv_timer_t carry;     /* runs while something is queued that the machine can't carry */
    bool admit_wanted;
    struct run_trust trust;
    bool trust_found;
    bool trying; /* trial.c */
    bool retaining;
    bool backing_up;               /* or bringing back */
    atomic_bool *retention_cancel; /* while it counts */
    bool closing;
    void (*closed)(void *data);
    void *closed_data;
};

/* Kinds of stored events, by value those of the socket's protocol. */
enum run_note {
    RUN_NOTE_STATE,
    RUN_NOTE_LOG,
    RUN_NOTE_TEXT,
    RUN_NOTE_REASONING,
    RUN_NOTE_TOOL,
    RUN_NOTE_TODO,
    RUN_NOTE_QUESTION,
    RUN_NOTE_PERMISSION,
    RUN_NOTE_RETRY,
    RUN_NOTE_USAGE,
    RUN_NOTE_REFUSED,
    RUN_NOTE_ERROR,
    RUN_NOTE_MESSAGE, /* what a client said to the agent while it worked, and what became of it */
};

/* registry.c */
struct run *registry_find(struct runs *runs, const char *id);
struct run *registry_find_session(struct runs *runs, const struct id *session, bool active_only);
/* Makes the live object for a record (copied). */
struct run *registry_add(struct runs *runs, const struct run_record *record,
                         const struct session_record *session);
/* Bits of the session's places that live runs work in or wait for. */
uint32_t registry_places_in_use(struct runs *runs, const struct id *session);
/* A run was created in the session: the session's other live runs, which write it too, get to know
 * what that changed. */
void registry_session_grew(struct runs *runs, const struct session_record *session);
void registry_release(
    struct run *run); /* after the final state: frees it once its handles are closed */

/* apply.c: the only writer of run->record.state. 0, or -1 when the event is not allowed in this
 * state (logged), or when its transaction failed: it is then held and tried again, and the run goes
 * on as soon as the disk does. */
int run_apply(struct run *run, enum run_event event);
void apply_retry_held(struct runs *runs);
/* Starts the action of the run's state once more, after a restart. */
void apply_act_again(struct run *run, enum run_action action);
void runs_try_again_soon(struct runs *runs);
/* Notes why, then applies RUN_EV_STEP_FAILED. The first error wins. */
void run_fail(struct run *run, const char *code, const char *message, const char *hint,
              bool retryable);
/* Something is not as it should be, and the run goes on: told in its log and with its evidence. */
void run_warn(struct run *run, const char *text);
/* Writes the record and the session's without an event. */
int run_save(struct run *run, struct error *err);
void run_note_error(struct run *run, const char *code, const char *message, const char *hint,
                    bool retryable);

/* events.c */
/* Tell the watchers (run.h). */
void events_changed(struct runs *runs, const struct run_record *run);
void events_session_changed(struct runs *runs, const struct id *session);
/* Appends an event to the run's log (batched) and wakes subscribers. TEXT is cut to 16 KiB, DATA to
 * 64 KiB (dropped if longer). */
void events_note(struct run *run, enum run_note kind, const char *text, const char *data);
/* With the agent's own name for what is told, or NULL. */
void events_note_as(struct run *run, enum run_note kind, const char *text, const char *data,
                    const char *key);
/* A message's idempotency key, "" none, and what tells a repetition of it from another message. */
struct message_key {
    const char *text;
    uint8_t hash[32];
};
/* A message for the run's agent, under the agent's own ID for it: in one transaction, at once, of
 * any length and outside of the limits. */
int events_note_message(struct run *run, const char *text, const char *data, const char *id,
                        const struct message_key *key, struct error *err);
/* What is said of the run's limits is kept also when its output is not. */
void events_note_limit(struct run *run, const char *text, const char *data);
void events_wake(struct runs *runs, const struct run_record *run);
void events_pump(struct runs *runs);
void events_drop_all(struct runs *runs); /* ends every subscription without a callback */
void events_tick_soon(struct runs *runs, uint64_t delay_ms);

/* admission.c */
void admission_wanted(struct runs *runs);
void admission_admit(struct runs *runs);
size_t admission_queued(struct runs *runs);
void admission_arm_deadline(struct run *run);
/* Its sandbox ends by itself some time after the deadline, should there be no supervisor then. */
void admission_bind_sandbox(struct run *run);
bool admission_late(const struct run *run);
void admission_time_out(struct run *run);

/* limits.c */
void limits_on_hit(void *data, enum sandbox_limit limit, uint64_t times); /* for sandbox_start */
/* When a limit may be behind the failure: notes an error that names it, and is true. */
bool limits_explain(struct run *run, const char *code, const char *message);
/* Asks what the limits did: notes what is new, and gets room for the commands that take evidence.
 */
void limits_look(struct run *run);
void limits_watch(struct run *run); /* of the disk, from the sandbox's start; safe to repeat */
void limits_end(struct run *run);
/* Whether an event of LEN bytes is still to be kept. */
bool limits_take_output(struct run *run, size_t len);
/* Ends runs that wrote too much; from the loop. */
void limits_tick(struct runs *runs);

/* watch.c: ends a run in which nothing goes on any more */
void watch_start(struct run *run);
void watch_end(struct run *run);

/* trouble.c */
void trouble_on_agent_retry(struct run *run, const struct agent_event *event);
/* The agent has got an answer that it can use. */
void trouble_on_progress(struct run *run);
/* The run's model requests are used up. */
/* How often the proxy asks a busy model again for it. */
uint32_t run_model_retries(const struct run *run);
void runs_proxy_refused_model(struct run *run, const char *reason);
/* When the model's failures are behind the run's: notes the error by their name, and is true. */
bool trouble_explain(struct run *run);
/* Ends runs whose model is not asked again; from the loop. */
void trouble_tick(struct runs *runs);
void trouble_finish(struct run *run);

/* steps.c, clone.c, collect.c, stop.c: the actions of the rules */
void step_start_sandbox(struct run *run);
void step_clone(struct run *run);
void clone_free(struct run *run);
void step_setup(struct run *run);
void setup_free(struct run *run);
void step_start_agent(struct run *run);
void step_prompt(struct run *run);
void step_collect(struct run *run);
void step_abort_and_collect(struct run *run);
void collect_free(struct run *run);
/* leftovers.c: what still runs in the sandbox beside the agent itself. DONE as of a command. */
int leftovers_start(struct run *run, void (*done)(void *data, const struct command_result *result,
                                                  const struct error *err));
void leftovers_take(struct run *run, const struct command_result *result);
void step_stop(struct run *run);
void step_finish(struct run *run);
/* environment.c: what every program of a run gets to know, "NAME=value" and NULL at the end. */
char **environment_new(const struct run *run);
void environment_free(char **environment);
/* What the configuration adds, to be borrowed while the array lives (free the array only). */
void run_open_listener(struct run *run);
/* trust.c: finds the certificates, before anything of a sandbox; safe to repeat. */
void trust_find(struct runs *runs);
/* The INDEXth variable, NULL behind the last; and the mounts. */
const char *trust_variable(const struct run *run, size_t index);
void trust_add(const struct run *run, struct sandbox_spec *spec);
const char **environment_added(const struct run *run);

/* caches.c */
/* Folders and caches of the configuration. */
int caches_add(struct run *run, struct sandbox_spec *spec, struct error *err);
/* Variables that point tools to them: from INDEX 0 up, NULL at the end. */
const char *caches_variable(const struct run *run, size_t index);

/* mirror.c */
/* Lets the run's sandbox read the mirror of the repository that it will clone, if there is one. */
void mirror_add(struct run *run, struct sandbox_spec *spec);
/* The repository has been cloned, and is so large: makes a mirror of it, or brings an old one up to
 * date, while the run goes on. FORMAT is static. */
void mirror_refresh(struct run *run, uint64_t clone_kib, const char *format);
/* Ends what is under way, which counts among open_runs. */
void mirror_close(struct runs *runs);
/* The uid whose files mirrors are. */
uint32_t mirror_uid(const struct runs *runs);
/* Somebody writes to it, or may be about to copy it. */
bool mirror_busy(const struct runs *runs, const struct workspace_mirror *mirror);
/* Removes one that isn't busy; no run sees it from now on. */
int mirror_remove(struct runs *runs, const struct workspace_mirror *mirror,
                  void (*done)(void *data, const struct error *err), void *data, struct error *err);

/* progress.c: lines of a program's progress for the log, not too many of them. */
struct progress {
    struct buf line;
    uint64_t told_ms;
};
void progress_init(struct progress *progress);
void progress_finish(struct progress *progress);
void progress_feed(struct run *run, struct progress *progress, const char *bytes, size_t len);

/* driver.c */
/* The driver of the agent called NAME, and its profile or NULL; NULL when there is none. */
const struct agent_driver *driver_find(const struct runs *runs, const char *name,
                                       const struct agent_profile **profile);
/* Their names, with commas. */
void driver_names(const struct runs *runs, struct buf *out);
struct driver_setup {
    struct agent_options options;
    struct agent_provider *providers;
    char *directory;
    const char **environment;
    char password[2 * 16 + 1];
};
void driver_setup_init(struct driver_setup *setup, struct run *run, const char *token);
void driver_setup_finish(struct driver_setup *setup, const struct run *run);
/* Takes up the agent of a run that outlived a supervisor. What it had told is known by run->told.
 */
int driver_resume(struct run *run, struct error *err);

/* places.c */
/* The one that the run works in, borrowed from its session. */
struct session_place *run_place(struct run *run);
/* Where it lies inside: heap string. */
char *run_directory(struct run *run);
char *place_directory(const struct session_place *place);
bool places_any_cloned(const struct session_record *session);
/* What the operator says about its repository, or NULL: the first entry that fits. */
const struct run_repository *place_settings(struct run *run);
const struct run_repository *places_settings(const struct runs *runs, const char *repository);
struct proxy_push places_push(const struct runs *runs, const char *repository);
/* The name that SESSION's own branch of the repository will have: heap string, "" for none. */
char *places_work_branch(const struct runs *runs, const char *repository, const char *title,
                         const struct id *session);
/* Its repository's address without what makes no difference: heap string. */
char *place_plain_address(struct run *run);
char *place_plain(const struct session_place *place);
/* git's filter for what isn't fetched before it is needed; "" all of it is. */
const char *place_filter(struct run *run);
/* The place of a repository, or -1. */
int places_find(const struct session_record *session, const char *repository);
struct place_wish {
    const char *repository;
    const char *branch;
    const char *work_branch;
};
/* The first place of a new session. NAME is for its folder; NULL: the workspace itself. */
void places_begin(struct session_record *session, const struct place_wish *wish, const char *name);
/* Another one, which becomes the newest run's. IN_USE: bits of places that live runs work in or
 * wait for. ERR_LIMIT: there are as many as can be. */
int places_add(struct session_record *session, uint32_t in_use, const struct place_wish *wish,
               const char *name, struct error *err);
/* Where a run that names no repository works: where the newest one does, unless that never got
 * there. */
uint32_t places_go_on(const struct session_record *session, uint32_t in_use);
/* What the newest run has added to its session, for the copy that an older run writes. */
void places_take_new(struct session_record *to, const struct session_record *from);

/* What the agent needs in a sandbox of no run. PATH is its program. */
int driver_prepare_bare(struct runs *runs, const struct agent_driver *driver, const char *path,
                        struct sandbox_spec *spec, struct error *err);
/* For struct agent_files. */
struct agent_files driver_files(struct sandbox_spec *spec);

void run_touch(struct run *run);

/* exec.c */
void exec_cut_all(struct run *run);
/* pages.c */
void pages_cut_all(struct run *run);

/* request.c */
/* Four FNV-1a sums with different starts: enough to tell a repetition of one's own request from
 * another request. */
void request_hash(const char *const *parts, size_t count, uint32_t number, uint8_t to[32]);
/* 0 RUN is what KEY made, or, STEERED, whose agent was told something under it; 1 the key is new;
 * -1 refused: it was something else. */
int request_find_repetition(struct runs *runs, const struct message_key *key,
                            struct run_record *run, bool *steered, struct error *err);
/* A new run, whose key is known to be new. */
int request_create(struct runs *runs, const struct run_request *request, const uint8_t hash[32],
                   struct run_record *run, struct error *err);
int session_uid(struct runs *runs, uint32_t *uid, struct error *err);
/* Gives a new session its id and its uid. */
int session_new_id(struct runs *runs, struct session_record *session, struct error *err);
const struct run_model_service *request_model_service(const struct runs *runs, const char *model);

/* told.c: the keys of a run's stored events, and the end of what its agent said. NULL knows
 * nothing. */
struct told *told_load(struct store *store, const struct id *run);
void told_free(struct told *told);
bool told_has(const struct told *told, const char *key);
const char *told_output(const struct told *told);
/* When the request was told of; 0: it wasn't. */
uint64_t told_asked_ms(const struct told *told, const char *request_id);
/* Messages that were to be read in the run and of which no more is known, oldest first. Borrowed.
 */
const struct agent_message *told_messages(const struct told *told, size_t *count);

/* steer.c: messages for the run's agent while it works. */
/* On disk when it returns 0. ERR_CONFLICT: not now, or not with this agent. */
int steer_send(struct run *run, const char *text, const struct message_key *key, struct error *err);
/* For the driver's callbacks. */
void steer_on_read(void *data, const char *message_id, const char *unread);
/* The run can't be gone on with: tells of what its agent hasn't read. */
void steer_lost(struct run *run);
/* Is an event's key that of what became of a message? Its id then, else NULL. */
const char *steer_settled_id(const char *key);

/* waiting.c: what the agent asks, until it is answered. */
struct open_request;
void waiting_init(struct run *run);
/* The agent asks; KIND says whether it is a question or for permission. */
void waiting_on_asked(struct run *run, const struct agent_event *event, enum run_note kind);
/* Of a request: it was answered or rejected, by whomever. */
void waiting_on_answered(struct run *run, const char *request_id);
void waiting_forget_all(struct run *run);
bool waiting_any(const struct run *run);
int waiting_answer(struct run *run, const char *request_id, const char *answer, struct error *err);
/* The oldest one as JSON, or NULL. */
const char *waiting_oldest(const struct run *run);
uint64_t waiting_since_ms(const struct run *run);

/* catalogue.c */
enum catalogue_verdict {
    CATALOGUE_FINE,    /* known, or nobody can tell */
    CATALOGUE_UNKNOWN, /* ERR names `model` and the nearest ones */
    CATALOGUE_PENDING, /* the agent's program is being asked; a run that says so in model_awaited
                          is prompted when it has answered */
};
enum catalogue_need {
    CATALOGUE_LOOK, /* at what is known */
    CATALOGUE_ASK,  /* the agent's program, should nothing be known */
};
enum catalogue_verdict catalogue_check(struct runs *runs, const struct agent_driver *driver,
                                       const char *model, enum catalogue_need need,
                                       struct error *err);
/* Ends what is asked, which counts among open_runs. */
void catalogue_close(struct runs *runs);
void catalogue_free_all(struct runs *runs);

/* adopt.c: takes up the sandbox of a run that was under way. -1: nothing lives there. */
int adopt_begin(struct run *run, struct error *err);

/* steps.c */
/* git's settings inside: who the agent is, and the way to the git services with TOKEN. */
void step_add_git_config(const struct runs *runs, struct sandbox_spec *spec, const char *token);
void step_on_sandbox_end(void *data, const struct sandbox_end *end);

/* session_task.c: what is being done with whole sessions, and what so must wait. */
enum session_task_kind {
    SESSION_TASK_CHECKPOINT, /* one at a time; beside a run, too */
    SESSION_TASK_READ,       /* its checkpoints are needed: none may go */
    SESSION_TASK_CHANGE,     /* nothing else, and no run */
};
/* DOING, as in "session … is DOING" ("being deleted"), is kept by reference. ERR_CONFLICT. */
int session_task_begin(struct session_task **out, struct runs *runs, const struct id *session,
                       enum session_task_kind kind, const char *doing, struct error *err);
void session_task_end(struct session_task *task); /* NULL is fine */
/* ERR_CONFLICT while there can be no run of the session. */
int session_task_check_run(struct runs *runs, const struct session_record *session,
                           struct error *err);
bool session_task_any(struct runs *runs, const struct id *session);
bool session_task_reads(struct runs *runs, const struct id *session);
/* Changes the record on disk and the copies of live runs alike. */
int session_change(struct runs *runs, const struct id *id,
                   void (*change)(struct session_record *session, const void *data),
                   const void *data, struct error *err);

/* checkpoint.c */
typedef void (*checkpoint_cb)(void *data, uint32_t number, const struct error *err);
struct checkpoint_request {
    const struct session_record *session;
    const struct id *run; /* NULL: none */
    enum checkpoint_reason reason;
    bool within;        /* a task of SESSION_TASK_CHANGE that the caller holds */
    bool keep_all;      /* none is dropped for it */
    checkpoint_cb done; /* once; NUMBER is that of the newest one, which may be older */
    void *data;
};
int checkpoint_start(struct runs *runs, const struct checkpoint_request *request,
                     struct error *err);
bool checkpoint_wanted(const struct runs *runs, const struct session_record *session);
/* Makes the files of SESSION (with FROM's checkpoints) what checkpoint NUMBER says. */
int checkpoint_unpack(struct runs *runs, const struct session_record *session,
                      const struct id *from, uint32_t number,
                      void (*done)(void *data, const struct error *err), void *data,
                      struct error *err);
/* The newest one's number; 0: none. */
uint32_t checkpoint_newest(struct runs *runs, const struct id *session);
/* Takes over what a place was then. */
void checkpoint_take_places(struct session_record *session,
                            const struct checkpoint_record *checkpoint);

/* checkpoint_run.c */
void checkpoint_first(struct run *run);        /* its agent is being started */
bool checkpoint_holds_prompt(struct run *run); /* step_prompt comes again then */
void checkpoint_touch(struct run *run);        /* something was done */
/* True when step_collect's end has to wait for checkpoint_last_done; safe to repeat. */
bool checkpoint_last(struct run *run);
bool checkpoint_end(struct run *run); /* true when step_stop has to wait, and comes again */
void collect_checkpoint_done(struct run *run);

/* session_count.c: in a thread; 0 for a folder that isn't there. CANCEL may be NULL. */
uint64_t session_count_folder(const char *folder, const atomic_bool *cancel);

/* "3 4 5": those that are needed for checkpoint NUMBER, in order; heap, NULL with ERR. */
char *checkpoint_chain(struct runs *runs, const struct id *session, uint32_t number,
                       struct error *err);

/* retention.c */
void retention_start(struct runs *runs);

/* restore.c, fork.c: what a dead supervisor left half done is done again, or away with. */
int restore_recover(struct runs *runs, struct error *err);

/* pull_request.c: pushed in the name of a run that has ended. */
void pull_request_pushed(struct runs *runs, const char *run_id, const char *pushed);
void pull_request_close_all(struct runs *runs);

/* take.c */
void take_close_all(struct runs *runs);

/* recover.c: nothing of the run can be gone on with, for the reason WHY; NULL: its sandbox has
 * ended. */
void recover_lost(struct run *run, const char *why);
int recover_all(struct runs *runs, struct error *err);

/* git_grant.c */
/* "github" also answers for the address people type, wherever the service's target points; NULL for
 * other services. */
const char *git_canonical_origin(const char *service);
/* The path of URL at a git service, from its slash on, whose name goes to *SERVICE; NULL when it
 * lies at none. */
const char *git_place_at_service(const struct runs_options *options, const char *url,
                                 const char **service);
/* The session's repositories in the form of the proxy, which borrows them. */
struct git_grant {
    struct proxy_repository items[SESSION_PLACES_MAX];
    char *paths[SESSION_PLACES_MAX];
    size_t count;
};
/* Also fills GRANT, which must not outlive REPOSITORIES and the run's session. */
void git_grant_init(struct git_grant *repositories, const struct run *run,
                    struct proxy_grant *grant);
void git_grant_finish(struct git_grant *repositories);

#endif
