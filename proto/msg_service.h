/* msg_service.h: services, secrets and audit. A secret's value comes as the blob frame right behind
 * secret.set and is never part of any JSON. */
#ifndef PROTO_MSG_SERVICE_H
#define PROTO_MSG_SERVICE_H

#include "common/json.h"
#include "common/json_write.h"

struct secret_name_params {
    const char *name; /* [A-Z][A-Z0-9_]{0,63}: checked by the daemon */
};
extern const struct json_field secret_name_fields[]; /* secret.set, secret.delete */

struct secret_view {
    const char *name;
    const char *source; /* "stored" or "environment" */
    uint64_t updatedAt; /* 0 for "environment" */
};
void secret_view_write(struct json_writer *writer, const struct secret_view *view);
/* secret.list: {"secrets":[…]}; secret.set: {"name","replaced":bool}; secret.delete: {"name"}. */

struct service_view {
    const char *name;
    const char *target;
    const char *secret; /* name of the secret it needs, "" when none */
    bool secretPresent;
};
void service_view_write(struct json_writer *writer, const struct service_view *view);
/* service.list: {"services":[…]}. */

struct service_check_params {
    const char *name;
};
extern const struct json_field service_check_fields[];

struct service_check_view {
    const char *name;
    const char *target;
    const char *secret;  /* "" when none */
    const char *outcome; /* works, secret_missing, secret_unusable, key_refused, unreachable, tls,
                            no_probe, failed */
    uint64_t status;     /* of the answer, 0 none */
    const char *reason;  /* of the proxy's record, "" none */
};
void service_check_view_write(struct json_writer *writer, const struct service_check_view *view);

/* One way of notice.test's reply. */
struct notice_trial_view {
    const char *way;     /* program, webhook, ntfy, desktop */
    const char *outcome; /* told, failed, refused */
    const char *why;     /* "" told */
    const char *next;    /* "" told */
};
void notice_trial_view_write(struct json_writer *writer, const struct notice_trial_view *view);

struct audit_list_params {
    const char *runId;
    uint32_t limit;
    uint64_t before; /* record number; 0: the newest */
    bool follow;
    uint64_t after; /* record number, to follow from */
};
extern const struct json_field audit_list_fields[];

struct audit_view {
    uint64_t number;
    uint64_t time;
    const char *runId;
    const char *service;
    const char *method;
    const char *host;
    const char *path;
    const char *detail;   /* the refs of a push */
    uint64_t inputTokens; /* of a model request, the next two as well */
    uint64_t outputTokens;
    double costUsd;
    const char *verdict; /* allow, deny, error */
    const char *reason;
    uint64_t status;
    uint64_t requestBytes;
    uint64_t responseBytes;
    uint64_t milliseconds;
};
void audit_view_write(struct json_writer *writer, const struct audit_view *view);
/* audit.list: {"records":[…],"hasMore":bool,"cursor":N}. */

#endif
