#include "proto/msg_web.h"

#define ID_TEXT_MAX 64

const struct json_field web_link_fields[] = {
    JSON_STRING_FIELD(struct web_link_params, runId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "The run whose page is to be opened."),
    JSON_STRING_FIELD(struct web_link_params, sessionId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "The session whose page is to be opened."),
    JSON_BOOL_FIELD(struct web_link_params, live, JSON_OPTIONAL,
                    "The pages that its agent itself shows while it is at work."),
    JSON_FIELD_LAST,
};
