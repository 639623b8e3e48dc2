/* agent.h: a coding agent inside a sandbox, behind one table of functions. A driver turns the
 * neutral calls into its agent's protocol. It never sees a sandbox: struct agent_host gives it a
 * way to start programs and to reach ports inside. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/agent_event.h"
#include "agent/agent_profile.h"
#include "common/clock.h"
#include "common/error.h"

struct agent;

/* What the run gives the driver. The functions follow the rules of sandbox.h: 0 means exactly one
 * callback, later; -1 none. */
struct agent_process {
    uint32_t id;
    int stdin_fd;
    int stdout_fd;
    int stderr_fd;
};

struct agent_command {
    const char *const *argv;
    const char *const *env;
    const char *cwd;
    bool stdin_pipe; /* else /dev/null */
};

struct agent_host {
    void *data;
    int (*spawn)(void *data, const struct agent_command *command,
                 void (*done)(void *context, const struct agent_process *process,
                              const struct error *err),
                 void *context, struct error *err);
    /* The streams again of a process that an earlier supervisor started. */
    int (*attach)(void *data, uint32_t process_id,
                  void (*done)(void *context, const struct agent_process *process,
                               const struct error *err),
                  void *context, struct error *err);
    int (*wait)(void *data, uint32_t process_id,
                void (*done)(void *context, int code, int signal, const struct error *err),
                void *context, struct error *err);
    int (*connect)(void *data, uint16_t port,
                   void (*done)(void *context, int fd, const struct error *err), void *context,
                   struct error *err);
    void (*signal)(void *data, uint32_t process_id, int signal);
};

struct agent_callbacks {
    /* Once: ready for prompts (ERR NULL), or the agent could not be started; FAILURE_CODE is then
     * agent_not_found, agent_not_ready, agent_crashed, agent_unsupported. After a resume that found
     * its prompt: what happened meanwhile has been told. */
    void (*on_ready)(void *data, const char *failure_code, const struct error *err);
    /* The process that a resume will need to know has been started. */
    void (*on_process)(void *data, uint32_t process_id);
    /* The prompt is about to be sent, under this id. False: it could not be recorded, so it is not
     * sent. */
    bool (*on_sending)(void *data, const char *conversation, const char *prompt_id);
    void (*on_event)(void *data, const struct agent_event *event);
    /* The agent took the prompt up. Until then its fate is unknown. */
    void (*on_prompt_taken)(void *data);
    /* Once per message of steer, before the prompt's on_end: the agent has read it (UNREAD NULL),
     * or it won't in this prompt, and UNREAD says why. */
    void (*on_steered)(void *data, const char *message_id, const char *unread);
    /* Once per prompt. */
    void (*on_end)(void *data, const struct agent_end *end);
    void *data;
};

struct agent_provider {
    const char *name;          /* service name: "anthropic" */
    const char *npm;           /* "@ai-sdk/anthropic"; "" for one that the agent has built in */
    const char *base_url;      /* "http://127.0.0.1:4999/proxy/anthropic/v1" */
    const char *const *models; /* own models of an OpenAI-compatible provider */
    size_t model_count;
};

/* What becomes of that for which an agent would ask. */
enum agent_policy { AGENT_ALLOW, AGENT_ASK, AGENT_DENY };

struct agent_options {
    const char *id;           /* run id, for log lines */
    const char *token;        /* the run's worthless token: what the agent takes for its API key */
    const char *password;     /* of the agent's own server, the same at a resume */
    const char *model;        /* "anthropic/claude-sonnet-4-5" */
    const char *directory;    /* absolute, inside: where the work is */
    const char *home;         /* "/home/agent" */
    const char *conversation; /* the agent's id of a conversation to go on with; "" for a new one */
    const char *title;        /* for a new conversation; "" lets the agent choose */
    const struct agent_provider *providers;
    size_t provider_count;
    const char *const *env; /* more "NAME=value" for the agent (proxy, certificates), NULL at the
                               end; NULL: none */
    enum agent_policy permissions; /* for commands, changes of files, the network */
    enum agent_policy questions;   /* AGENT_DENY: it has no way to ask */
    /* The proxy's patience with a model: until its answer begins, between two bytes of it, and with
     * one that fails. 0: the driver's own. */
    uint64_t model_head_ms;
    uint64_t model_silence_ms;
    uint64_t model_wait_ms;
    uint64_t start_timeout_ms;           /* 0: the driver's own */
    const struct agent_profile *profile; /* of an agent that is described by configuration; NULL:
                                            the driver is the agent */
    const struct clock *clock;
};

#define AGENT_MESSAGE_ID_SIZE 64 /* with its NUL */

/* A message that is to be read in the prompt under way. */
struct agent_message {
    const char *id; /* of steer_id */
    const char *text;
};

/* What is known of an agent that an earlier supervisor started. */
struct agent_resume {
    uint32_t process_id;
    const char *prompt_id; /* of the prompt under way; NULL: none was sent */
    const char *text;      /* that prompt */
    uint64_t sent_ms;      /* when, wall clock, or earlier */
    bool taken;            /* on_prompt_taken was called for it */
    bool waiting;          /* a request of its was open */
    const char *output; /* the end of what the agent said until then, as far as it was recorded */
    const struct agent_message
        *messages; /* recorded for steer, oldest first; on_steered wasn't called for them */
    size_t message_count;
};

/* Files the driver wants in the sandbox before it starts (read-only), and programs of the host. */
struct agent_files {
    void *data;
    void (*add_file)(void *data, const char *target, const char *text, size_t len);
    void (*add_frozen_dir)(void *data, const char *target);
    void (*add_program)(void *data, const char *source,
                        const char *target); /* a host file or folder, read-only */
};

/* An HTTP server of the agent's, with pages for people. */
struct agent_pages {
    uint16_t port;             /* inside */
    const char *authorization; /* value of that header, which nobody else may learn; borrowed */
    char *path;                /* of the conversation's page; heap */
};

struct agent_driver {
    const char *name; /* "opencode", "shell", "acp" */
    bool by_profile;  /* can only start agents that a profile describes */
    /* A resume hears only what is still to come: an answer that was read and not recorded is lost.
     */
    bool resumes_blind;
    /* What it starts may give up on a model that is busy, and isn't known to ask again. */
    bool asks_once;
    /* Its own lasting program inside, or the folder of such, which is there when a prompt has ended
     * and no leftover of it; NULL: none. */
    const char *program;
    /* The agent's program on the host: *PATH (heap) or ERR_NOT_FOUND with how to install it.
     * PROFILE as in agent_options, CONFIGURED is the setting ("" for none), DATA_DIR is our data
     * folder. NULL: needs none. */
    int (*locate)(const struct agent_profile *profile, const char *configured, const char *data_dir,
                  char **path, struct error *err);
    /* Pure: what must lie in the sandbox. PROGRAM is what locate found, or NULL. */
    int (*prepare)(const struct agent_options *options, const char *program,
                   const struct agent_files *files, struct error *err);
    /* Can the model be used? 0, or ERR_INVALID naming `model` with the nearest names. May answer 0
     * for "can't tell". NULL: the agent asks no model, and its runs have none. */
    int (*check_model)(const struct agent_options *options, const char *model, struct error *err);
    /* A command that prints, in a sandbox with nothing but what prepare put there, every model that
     * the agent can use, one provider/model a line. NULL: it can't tell. */
    const char *const *models_command;
    /* Starts the agent; on_ready follows. OPTIONS and HOST's table are copied. */
    int (*start)(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                 const struct agent_options *options, const struct agent_callbacks *callbacks,
                 struct error *err);
    /* The same for an agent that runs already: on_ready, and if a prompt was under way what start
     * and prompt would have told of it from here on. Events told before may be told again, with the
     * same key. */
    int (*resume)(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                  const struct agent_options *options, const struct agent_resume *resume,
                  const struct agent_callbacks *callbacks, struct error *err);
    /* One prompt at a time. on_prompt_taken, events, on_end follow. */
    int (*prompt)(struct agent *agent, const char *text, struct error *err);
    /* A new id for a message that is to be read in the prompt under way, so that it can be recorded
     * before it is sent. ERR_CONFLICT: the agent can't take one now. NULL, like steer: it never
     * can. */
    int (*steer_id)(struct agent *agent, char id[AGENT_MESSAGE_ID_SIZE], struct error *err);
    /* Sends the message of the id just made; on_steered follows. Messages keep their order, and one
     * whose fate is unknown is only sent again when the agent says that it never got it. */
    void (*steer)(struct agent *agent, const struct agent_message *message);
    /* Answers a permission request (answer "once", "always", "reject" or "reject: why") or a
     * question (one label or free text). */
    int (*answer)(struct agent *agent, const char *request_id, const char *answer,
                  struct error *err);
    /* False while it has none. NULL: it never has. */
    bool (*pages)(struct agent *agent, struct agent_pages *pages);
    /* Asks it to stop the prompt; on_end follows with AGENT_END_ABORTED (or what came first). */
    void (*abort)(struct agent *agent);
    /* No callback after DONE. Does not end the processes: the sandbox does. */
    void (*close)(struct agent *agent, void (*done)(void *data), void *data);
};

/* Every driver's agent struct begins with this. */
struct agent {
    const struct agent_driver *driver;
};

/* NULL for an unknown name. agent_driver_at walks the table, NULL at its end. */
const struct agent_driver *agent_driver_find(const char *name);
const struct agent_driver *agent_driver_at(size_t index);

#endif
