/* opencode_json.h: OpenCode's JSON as our strict parser wants it. Its strings may hold U+0000 (a
 * tool printed one) and halves of surrogate pairs (a text was cut in the middle of one); both are
 * legal for JavaScript and refused by json_parse. */
#ifndef AGENT_OPENCODE_JSON_H
#define AGENT_OPENCODE_JSON_H

#include <stddef.h>

#include "common/error.h"
#include "common/json.h"

/* Replaces such escapes by \ufffd, in place: the length stays. Text that is no JSON may be changed
 * too, never beyond LEN. */
void opencode_json_mend(char *text, size_t len);
/* Mends TEXT, then parses it. */
int opencode_json_parse(struct json_doc **out, char *text, size_t len, size_t max_bytes,
                        struct error *err);

#endif
