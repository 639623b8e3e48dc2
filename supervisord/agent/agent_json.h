/* agent_json.h: agents' JSON as our strict parser wants it, and what drivers take from it. Its
 * strings may hold U+0000 (a tool printed one) and halves of surrogate pairs (a text was cut in the
 * middle of one); both are legal for JavaScript and refused by json_parse. */
#ifndef AGENT_AGENT_JSON_H
#define AGENT_AGENT_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "common/json_write.h"

/* Replaces such escapes by \ufffd, in place: the length stays. Text that is no JSON may be changed
 * too, never beyond LEN. */
void agent_json_mend(char *text, size_t len);
/* Mends TEXT, then parses it. */
int agent_json_parse(struct json_doc **out, char *text, size_t len, size_t max_bytes,
                     struct error *err);

/* The string, borrowed; "" for anything else, and for NULL. */
const char *agent_json_text(const struct json_value *value);
/* At most MAX bytes of TEXT, whole characters: appended, or as a member. */
void agent_append_cut(struct buf *to, const char *text, size_t max);
void agent_member_cut(struct json_writer *writer, const char *name, const char *text, size_t max);

#define AGENT_TODOS_TEXT 64
/* An AGENT_EVENT_TODO's data, {"todos":[…]} with the first hundred, each by WRITE, and its text, "2
 * of 5 done". False: more than DATA takes. */
bool agent_todos_write(const struct json_value *todos,
                       void (*write)(struct json_writer *writer, const struct json_value *todo),
                       struct buf *data, char text[AGENT_TODOS_TEXT]);

#endif
