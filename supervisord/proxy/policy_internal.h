/* policy_internal.h: what the files of the judge share: policy.c begins and ends a decision,
 * policy_service.c judges requests for services, policy_host.c tunnels and requests for hosts,
 * policy_token.c the run's token. Functions that return bool refuse in OUT when they say false. */
#ifndef PROXY_POLICY_INTERNAL_H
#define PROXY_POLICY_INTERNAL_H

#include "proxy/policy.h"

/* policy.c */
/* Always false. */
bool policy_refuse(struct policy_decision *out, int status, const char *reason,
                   const char *message);
/* An escaped slash in a path is one of a name's, and stays one. */
bool policy_keeps_slashes(const struct service *service);
/* The path below the service, in the one form that is judged and sent. */
bool policy_set_path(const struct entry *entry, struct policy_decision *out);

/* policy_token.c */
/* The header in which a service's clients put the token. */
bool policy_is_token_place(const struct service *service, const char *name);
/* Parameters of the query whose name is the service's, as "NAME=value" between & or ends. *AT is
 * the first, *LEN its length. */
size_t policy_find_parameter(const struct service *service, const char *target, const char **at,
                             size_t *len);
/* SERVICE is NULL for a host, which has no place for it. */
bool policy_token_misplaced(const struct http_request *request, const struct service *service);
bool policy_check_token(const struct http_request *request, const struct policy_grant *grant,
                        struct policy_decision *out);
/* A tunnel, or a request in the clear for a host: who may use the proxy at all. */
bool policy_check_proxy_token(const struct http_request *request, const struct policy_grant *grant,
                              struct policy_decision *out);

/* policy_service.c */
/* A request for OUT's service, whose path below it is in OUT already. */
void policy_judge_service(const struct http_request *request, const struct entry *entry,
                          const struct policy_grant *grant, struct policy_decision *out);
void policy_allow(const struct http_request *request, const struct entry *entry,
                  struct policy_decision *out);

/* policy_host.c */
void policy_judge_tunnel(const struct http_request *request, const struct entry *entry,
                         const struct policy_grant *grant, struct policy_decision *out);
/* A request that names its host: for the service there, else by the rules for hosts. */
void policy_judge_host(const struct http_request *request, const struct entry *entry,
                       const struct policy_grant *grant, struct policy_decision *out);

#endif
