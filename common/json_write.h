/* json_write.h: writes compact one-line JSON straight into a buffer. Any bytes may be given as
 * text: what isn't UTF-8 becomes U+FFFD, control characters are escaped, so the output is always
 * valid (RFC 8259) and one line. Commas are the writer's business. A wrong order of calls is BUG().
 */
#ifndef COMMON_JSON_WRITE_H
#define COMMON_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "json.h"

#define JSON_WRITE_DEPTH (JSON_DEPTH_MAX + 1) /* level 0 is outside of any object or array */

struct json_writer {
    struct buf *buf;
    unsigned depth;
    bool comma[JSON_WRITE_DEPTH];
    bool object[JSON_WRITE_DEPTH];
    bool after_name;
};

void json_write_init(struct json_writer *writer, struct buf *buf);
void json_write_object(struct json_writer *writer); /* { */
void json_write_object_end(struct json_writer *writer);
void json_write_array(struct json_writer *writer); /* [ */
void json_write_array_end(struct json_writer *writer);
void json_write_name(struct json_writer *writer, const char *name);

void json_write_string(struct json_writer *writer, const char *text); /* NULL writes "" */
void json_write_bytes(struct json_writer *writer, const char *data, size_t len);
void json_write_u64(struct json_writer *writer, uint64_t value);
void json_write_i64(struct json_writer *writer, int64_t value);
void json_write_double(struct json_writer *writer, double value); /* not finite becomes 0 */
void json_write_bool(struct json_writer *writer, bool value);
void json_write_null(struct json_writer *writer);
/* TEXT is already valid compact JSON (from json_append or this writer). */
void json_write_raw(struct json_writer *writer, const char *text, size_t len);
/* The same for members of the object that is open: "name":value,… without braces. */
void json_write_members(struct json_writer *writer, const char *text, size_t len);
void json_write_value(struct json_writer *writer, const struct json_value *value);

/* Name and value at once. The _opt form writes nothing for NULL or "". */
void json_member_string(struct json_writer *writer, const char *name, const char *text);
void json_member_string_opt(struct json_writer *writer, const char *name, const char *text);
void json_member_u64(struct json_writer *writer, const char *name, uint64_t value);
void json_member_u64_opt(struct json_writer *writer, const char *name,
                         uint64_t value); /* nothing for 0 */
void json_member_double(struct json_writer *writer, const char *name, double value);
void json_member_bool(struct json_writer *writer, const char *name, bool value);

/* Writes {"type":"object","properties":{…},"required":[…]} for a field table: JSON Schema 2020-12
 * without $schema, flat, every property with a type; "required" is left out when nothing is.
 * JSON_FIELD_VALUE is written as an object. */
void json_write_schema(struct json_writer *writer, const struct json_field *fields);

#endif
