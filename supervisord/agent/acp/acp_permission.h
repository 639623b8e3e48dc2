/* acp_permission.h: a request for permission, and which of its options an answer means: by kind,
 * since their ids are every agent's own. Pure. */
#ifndef AGENT_ACP_ACP_PERMISSION_H
#define AGENT_ACP_ACP_PERMISSION_H

#include "agent/acp/acp_rpc.h"

struct acp_permission {
    char request_id[32]; /* ours: "perm_1" */
    char *id_json;       /* the agent's, as it has to come back */
    char *options[4];    /* option ids by enum acp_option; NULL: not offered */
    char *text;          /* "execute: sh tests/run.sh" */
    char *data;          /* {"options":["once","reject"],…} */
    bool answered;       /* its reply is sent, and to be told */
};

/* NULL when ID or PARAMS are nothing that can be answered. */
struct acp_permission *acp_permission_new(const struct acp_message *message, unsigned number);
void acp_permission_free(struct acp_permission *permission);
/* ANSWER is once, always, reject or "reject: why". *OPTION is NULL for a refusal without an option
 * of its own. False: no such answer. */
bool acp_permission_choose(const struct acp_permission *permission, const char *answer,
                           const char **option);
/* The whole reply line. OPTION NULL: cancelled. */
void acp_permission_reply(struct buf *out, const struct acp_permission *permission,
                          const char *option);

#endif
