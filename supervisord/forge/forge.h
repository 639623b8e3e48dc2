/* forge.h: pull requests of GitHub, GitLab and Gitea: one table says how each names things; here
 * requests to their APIs are written, and their answers, which may be anything, are read. Pure: no
 * I/O. */
#ifndef FORGE_FORGE_H
#define FORGE_FORGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define FORGE_ANSWER_MAX (4u << 20)
#define FORGE_TEXT_MAX (60u << 10) /* bytes of a pull request's text */
#define FORGE_TITLE_MAX 200        /* bytes */
#define FORGE_PAGES_MAX 20u

struct forge {
    const char *git_service; /* the service whose repositories belong to it */
    const char *name;        /* "GitHub" */
    const char *thing;       /* "pull request" */
    /* How its API is reached; as in proxy/errand.h. */
    const char *service;
    const char *prefix;
    const char *header;
    const char *before;
    const char *permission; /* what a token needs to open one */
    uint32_t page_size;
    /* Members of a request to write, "" where there is none. */
    const char *write_head;
    const char *write_base;
    const char *write_body;
    const char *draft_prefix; /* of a title, where drafts are made so; else a member "draft" */
    bool draft_by_edit;       /* a draft can be made ready, and the reverse, by an edit */
    const char *edit_method;
    /* Where things stand in an answer. */
    const char *number;
    const char *url;
    const char *body;
    const char *open; /* the state's word */
    const char *head;
    const char *base;
    const char *head_repository;
    const char *base_repository;
};

/* The one that GIT_SERVICE is; NULL: it is plain git. */
const struct forge *forge_find(const char *git_service);
/* The headers of an answer that name permissions. */
extern const char *const forge_permission_headers[];
extern const size_t forge_permission_header_count;

/* Requests
 * -------------------------------------------------------------------------------------------- */

struct forge_request {
    const char *method;
    struct buf path; /* with the query */
    struct buf body; /* empty: none */
};
void forge_request_finish(struct forge_request *request);

struct forge_change {
    const char *head; /* the branch; only for a new one */
    const char *base; /* NULL: not changed */
    const char *title;
    const char *body;
    bool sets_draft; /* a new one; or a title is written, where that says so */
    bool draft;
};

/* REPOSITORY: "owner/name", or what else has at least two parts. ERR_INVALID: the forge has none of
 * such a form. */
int forge_check_repository(const struct forge *forge, const char *repository, struct error *err);
/* The open ones of the branch HEAD; PAGE counts from 1. */
void forge_list(const struct forge *forge, const char *repository, const char *head, uint32_t page,
                struct forge_request *out);
void forge_create(const struct forge *forge, const char *repository,
                  const struct forge_change *change, struct forge_request *out);
void forge_edit(const struct forge *forge, const char *repository, uint64_t number,
                const struct forge_change *change, struct forge_request *out);
void forge_get(const struct forge *forge, const char *repository, uint64_t number,
               struct forge_request *out);

/* Answers
 * --------------------------------------------------------------------------------------------- */

struct forge_pull {
    uint64_t number; /* 0: none */
    char *url;
    char *title; /* without a prefix that makes a draft */
    char *body;
    char *head;
    char *base;
    bool draft;
    bool open;
};
void forge_pull_finish(struct forge_pull *pull);

/* What a forge said that is no success. */
enum forge_trouble {
    FORGE_UNREADABLE, /* no JSON, or not the expected one */
    FORGE_REDIRECT,
    FORGE_BAD_TOKEN,
    FORGE_NO_PERMISSION,
    FORGE_EXISTS,   /* there is one of the branch already */
    FORGE_NO_DRAFT, /* drafts are not to be had for this repository */
    FORGE_REFUSED,  /* the request itself, in the forge's words */
    FORGE_BUSY,     /* later */
};
struct forge_problem {
    enum forge_trouble trouble;
    const char *code;
    char message[400];
    char hint[300];
    bool retryable;
};

struct forge_answer {
    int status;
    const char *body;
    size_t len;
    const char *permissions; /* of the headers, "" none */
};

/* The open one of HEAD, or number 0; *MORE: there may be one on the next page. -1: PROBLEM. */
int forge_read_list(const struct forge *forge, const struct forge_answer *answer, const char *head,
                    struct forge_pull *out, bool *more, struct forge_problem *problem);
/* Of forge_create, forge_edit and forge_get. */
int forge_read_pull(const struct forge *forge, const struct forge_answer *answer,
                    struct forge_pull *out, struct forge_problem *problem);

#endif
