/* msg_web.h: signing a browser in. The reply of web.link is {"url","expiresAt"}: whoever opens URL
 * first, before EXPIRES_AT (unix ms), sees and may do what a person can on the web pages. */
#ifndef PROTO_MSG_WEB_H
#define PROTO_MSG_WEB_H

#include "common/json.h"

struct web_link_params {
    const char *runId;     /* the page to open, or */
    const char *sessionId; /* this one; neither: the board */
    bool live;             /* its agent's own pages instead */
};
extern const struct json_field web_link_fields[];

#endif
