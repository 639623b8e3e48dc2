/* config.h: every setting, from one table: name, type, range, default, help. An empty or missing
 * file works. Only the roof (supervisor.c, main.c) reads it and passes every part its own options.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/paths.h"

/* Where a service's credential goes: a header whose value is a template with one {SECRET_NAME}. */
struct config_service {
    char *name;
    char *target; /* "https://api.anthropic.com": scheme, host, optional port and path prefix */
    char *inject_header; /* lower case; "" when the service needs no credential */
    char *inject_query;  /* or the parameter that it goes into, "" none */
    char *inject_value;  /* "{ANTHROPIC_API_KEY}", "Bearer {CORP_KEY}", "Basic
                            {GITHUB_TOKEN:basic:x-access-token}" */
    char *secret;        /* the name inside the braces, "" when none */
    char **allow; /* "POST /v1/messages", "GET /models/..." (... or * at the end: any below); NULL:
                     all */
    size_t allow_count;
    char **push_refs; /* what git may push: "agent/...", "refs/tags/x"; NULL: the default */
    size_t push_ref_count;
    bool push_overwrite;     /* refs that exist may be changed and deleted */
    char **git_repositories; /* beside the session's own: "owner/name", "owner/...", "..." */
    size_t git_repository_count;
    bool plain_http;     /* an http target may lie beyond loopback */
    bool private;        /* the target's name may lead to a private address */
    char *provider_npm;  /* model provider settings for the agent; "" when it is no model service */
    char *provider_path; /* appended to /proxy/NAME: "/v1" */
    char **provider_models;
    size_t provider_model_count;
    char *probe; /* path of a harmless GET that needs the credential, for doctor; "" none */
    bool builtin;
};

/* An agent that speaks the Agent Client Protocol: see agent/agent_profile.h, whose members these
 * are. */
struct config_agent_file {
    char *target;
    char *text;
};
struct config_agent {
    char *name;
    char *program;
    char **packages;
    size_t package_count;
    char **arguments;
    size_t argument_count;
    char **environment;
    size_t environment_count;
    struct config_agent_file *files;
    size_t file_count;
    char **services;
    size_t service_count;
    char *model;
    char *set_model;
    char *set_mode;
    char *before;
    char *install;
    unsigned permissions; /* 0 allow, 1 ask, 2 reject */
    bool builtin;
};

enum config_choice { CONFIG_CHOICE_NONE, CONFIG_CHOICE_NO, CONFIG_CHOICE_YES };

/* What the operator says about one repository. */
struct config_repository {
    char *address;          /* as a run names it; with a star at the end: all that begin so */
    char *setup;            /* the set-up command, "" none */
    uint32_t setup_minutes; /* 0: as for others */
    char *filter;           /* as clone_filter; "" as for others */
    char *model;            /* of runs that name none; "" as for others */
    char *work_branch;      /* as work_branch below; NULL: as for others */
    char **services;        /* that its runs may use; NULL: all */
    size_t service_count;
    char **egress; /* in the place of egress_allow; NULL: as for others */
    size_t egress_count;
    char **push_refs; /* in the place of its service's; NULL: as that has it */
    size_t push_ref_count;
    enum config_choice push_overwrite;
};

/* What a model costs, in microdollars for a million tokens of each kind. */
struct config_price {
    char *model; /* "anthropic/claude-sonnet-4-5", or with a star at its end */
    uint64_t input;
    uint64_t output;
    uint64_t cache_read;
    uint64_t cache_write;
    bool builtin;
};

enum config_origin { CONFIG_ORIGIN_DEFAULT, CONFIG_ORIGIN_FILE, CONFIG_ORIGIN_ENVIRONMENT };

#define CONFIG_SETTINGS_MAX 128

struct config {
    char *default_agent;
    char *default_model;
    uint32_t default_timeout_minutes;
    uint32_t concurrent_runs;
    uint32_t memory_mib;
    uint32_t processes;
    uint32_t disk_mib;
    uint32_t tmp_mib;
    uint32_t open_files;
    uint32_t cpu_weight;
    uint32_t output_mib;
    uint32_t free_memory_mib;
    uint32_t free_disk_mib;
    uint32_t memory_pressure_percent;
    uint32_t max_queued_runs;
    char **local_repositories; /* absolute, ~ expanded */
    size_t local_repository_count;
    char *sandbox_backend;
    bool sandbox_allow_none;
    char **sandbox_require;
    size_t sandbox_require_count;
    char **sandbox_environment; /* "NAME=value" */
    size_t sandbox_environment_count;
    char **sandbox_folders; /* "HOST-PATH:PATH-INSIDE" */
    size_t sandbox_folder_count;
    char **sandbox_caches; /* "npm" or "npm=/path" */
    size_t sandbox_cache_count;
    char *sandbox_bwrap;    /* program; found on PATH when it has no slash */
    char *sandbox_init;     /* "" : beside the daemon's own program */
    uint32_t host_uid_base; /* first of the host uids given to sessions when started as root */
    uint32_t host_uid_count;
    char *agent_opencode; /* "" : data/agents/opencode/bin/opencode, then PATH */
    uint32_t agent_start_seconds;
    char *permissions; /* allow, ask or deny */
    char *questions;   /* ask or deny */
    uint32_t answer_seconds;
    char *unanswered;       /* deny or stop */
    uint32_t clone_minutes; /* without progress */
    char *clone_filter;     /* git's, or "none" */
    char *work_branch;      /* a template, "" none */
    uint32_t mirror_mib;    /* 0: no mirrors */
    char *git_name;
    char *git_email;
    uint32_t setup_minutes;
    char **setup_allow;
    size_t setup_allow_count;
    uint32_t model_head_seconds;
    uint32_t model_silence_seconds;
    uint32_t model_failures;           /* in a row */
    uint32_t model_retry_wait_seconds; /* from the first of them on */
    uint32_t model_requests;           /* of one run; 0: no limit */
    uint32_t model_tokens;             /* the same, as the next */
    uint32_t model_retries; /* of a model that is busy, for what doesn't ask again by itself */
    uint32_t model_cents;
    uint32_t stall_minutes; /* no sign of progress: stalled */
    char *backup_endpoint;  /* of storage that speaks S3; "" none */
    char *backup_region;
    char *backup_bucket;
    char *backup_access_key; /* names of secrets */
    char *backup_secret_key;
    uint32_t retention_days; /* 0: sessions are kept for ever */
    uint32_t retention_mirror_days;
    uint32_t retention_mib;      /* of all sessions and mirrors; 0: any */
    uint32_t checkpoint_seconds; /* while a run works; 0: only at its turns */
    uint32_t checkpoint_mib;     /* of one session's; 0: none are made */
    uint32_t checkpoint_count;
    char *web_listen; /* "127.0.0.1" */
    bool web_enabled;
    uint32_t web_port;       /* 0: any free one */
    char *web_remote_listen; /* "": this machine only */
    char **web_names;        /* by which other machines know this one */
    size_t web_name_count;
    char *notices_program; /* "" none, as below */
    char *notices_webhook;
    char *notices_webhook_secret; /* name of a secret */
    char *notices_ntfy;
    char *notices_ntfy_token; /* name of a secret */
    bool notices_desktop;
    char **notices_events; /* "ended", "waiting"; none: both */
    size_t notices_event_count;
    char *log_level;
    uint32_t idle_exit_minutes; /* 0: never; the daemon ends when it had no connection and no live
                                   run for so long */
    char **egress_allow; /* "[METHODS ]HOST:PORT[/path][ private]"; HOST may begin with "*." for any
                            name below; lower case */
    size_t egress_allow_count;
    bool detect_registries;
    char *ca_file;          /* "" none */
    char *egress_proxy;     /* "http://HOST:PORT", "" none */
    char **egress_no_proxy; /* "[*.]HOST[:PORT]", lower case */
    size_t egress_no_proxy_count;
    char *egress_proxy_secret;       /* name of a secret; "" none is needed */
    struct config_service *services; /* built-in ones and the file's */
    size_t service_count;
    struct config_agent *agents; /* built-in ones and the file's */
    size_t agent_count;
    struct config_repository *repositories; /* in the order of the file */
    size_t repository_count;
    struct config_price *prices; /* built-in ones and the file's */
    size_t price_count;
    char *file; /* the file that was asked for; it may be missing */
    enum config_origin origins[CONFIG_SETTINGS_MAX]; /* in the order of the table */
};

/* Defaults, then the file at PATHS->config_file if it exists (a file that exists but can't be read
 * or is wrong is an error naming file, line and key), then the environment variables named in the
 * table. */
int config_load(struct config **out, const struct paths *paths, struct error *err);
void config_free(struct config *config);

/* The settings of the table as items of a manual page (common/manual.h). */
void config_manual(struct buf *out);
/* --print-config: one "name = value  # origin: help" line a setting, services after them. */
void config_print(const struct config *config, struct buf *out);

#endif
