/* json.h: reading JSON from peers who may be hostile.
 *
 * json_parse accepts exactly one value: bounded size and depth, valid UTF-8, no NUL (raw or
 * \u0000), no lone surrogate, no repeated member name, numbers of at most 63 characters that a
 * double holds finitely, nothing behind the value but white space (RFC 8259). After that a field
 * table fills a struct, or the accessors walk the value. No other file touches the parser's own
 * types. */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "error.h"

#define JSON_DEPTH_MAX 64

struct json_doc;   /* owns everything below it */
struct json_value; /* borrowed from its document */

/* TEXT need not be terminated and is not kept. *OUT is freed with json_free (NULL is fine). */
int json_parse(struct json_doc **out, const char *text, size_t len, size_t max_bytes,
               struct error *err);
/* The same for our configuration file: line comments, block comments and trailing commas are
 * allowed; errors name line and column. */
int json_parse_commented(struct json_doc **out, const char *text, size_t len, size_t max_bytes,
                         struct error *err);
void json_free(struct json_doc *doc);
void json_free_cleanup(struct json_doc **doc);
#define AUTO_JSON __attribute__((cleanup(json_free_cleanup)))

const struct json_value *json_root(const struct json_doc *doc);

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_NUMBER,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT,
};

/* Accessors take NULL for VALUE and answer "nothing" then, so that look-ups can be chained. */
enum json_kind json_kind(const struct json_value *value); /* NULL counts as JSON_KIND_NULL */
const struct json_value *json_get(const struct json_value *object,
                                  const char *name); /* exact case; NULL if absent */
/* Walks "info.time.completed"; a member name with a dot can't be reached this way. */
const struct json_value *json_path(const struct json_value *object, const char *path);
const char *json_string(const struct json_value *value); /* NULL if it isn't a string */
bool json_bool(const struct json_value *value, bool otherwise);
double json_number(const struct json_value *value, double otherwise);
/* A whole number in 0..2^53; OTHERWISE for anything else. */
uint64_t json_u64(const struct json_value *value, uint64_t otherwise);
size_t json_count(const struct json_value *array_or_object);
const struct json_value *json_first(const struct json_value *array_or_object);
const struct json_value *json_next(const struct json_value *element);
const char *json_name(const struct json_value *member); /* of a member of an object */
/* Appends the value as compact one-line JSON. */
void json_append(struct buf *buf, const struct json_value *value);
/* Line on which the member or element begins, for messages about the configuration file; 0 if
 * unknown. */
unsigned json_line(const struct json_value *value);

/* Field tables
 * -------------------------------------------------------------------------------------------------
 */

enum json_need { JSON_OPTIONAL, JSON_REQUIRED };

enum json_field_kind {
    JSON_FIELD_END,
    JSON_FIELD_STRING, /* const char *: borrowed from the document, min..max in code points */
    JSON_FIELD_BOOL,   /* bool */
    JSON_FIELD_U32,    /* uint32_t, min..max */
    JSON_FIELD_U64,    /* uint64_t, min..max, at most 2^53 */
    JSON_FIELD_ENUM,   /* int-sized enum; names[] ends with NULL, the index is the value */
    JSON_FIELD_VALUE,  /* const struct json_value *: anything, borrowed */
};

struct json_field {
    const char *name;
    enum json_field_kind kind;
    enum json_need need;
    size_t offset;
    uint64_t min;
    uint64_t max;
    const char *const *names; /* JSON_FIELD_ENUM */
    const char *help;         /* one or two sentences for schemas; may be NULL */
};

#define JSON_OFFSET(type, member, ctype)                                                           \
    _Generic(((type *)0)->member, ctype : offsetof(type, member))

#define JSON_STRING_FIELD(type, member, need, min, max, help)                                      \
    {                                                                                              \
#member, JSON_FIELD_STRING, need, JSON_OFFSET(type, member, const char *), min, max, NULL, \
            help                                                                                   \
    }
#define JSON_BOOL_FIELD(type, member, need, help)                                                  \
    {                                                                                              \
#member, JSON_FIELD_BOOL, need, JSON_OFFSET(type, member, bool), 0, 1, NULL, help          \
    }
#define JSON_U32_FIELD(type, member, need, min, max, help)                                         \
    {                                                                                              \
#member, JSON_FIELD_U32, need, JSON_OFFSET(type, member, uint32_t), min, max, NULL, help   \
    }
#define JSON_U64_FIELD(type, member, need, min, max, help)                                         \
    {                                                                                              \
#member, JSON_FIELD_U64, need, JSON_OFFSET(type, member, uint64_t), min, max, NULL, help   \
    }
/* The member must be of type int (enums are read through an int). */
#define JSON_ENUM_FIELD(type, member, need, name_list, help)                                       \
    {                                                                                              \
#member, JSON_FIELD_ENUM, need, JSON_OFFSET(type, member, int), 0, 0, name_list, help      \
    }
#define JSON_VALUE_FIELD(type, member, need, help)                                                 \
    {                                                                                              \
#member, JSON_FIELD_VALUE, need, JSON_OFFSET(type, member, const struct json_value *), 0,  \
            0, NULL, help                                                                          \
    }
#define JSON_FIELD_LAST                                                                            \
    {                                                                                              \
        NULL, JSON_FIELD_END, JSON_OPTIONAL, 0, 0, 0, NULL, NULL                                   \
    }

enum json_mode {
    /* Our socket and files: unknown members are refused, types are exact. */
    JSON_STRICT,
    /* Arguments from a model: unknown members are ignored; for optional fields null, "" and "null"
     * mean absent; "5" and 5.0 are 5; "true" is true. */
    JSON_LENIENT,
};

/* Fills TARGET, which already holds the defaults. VALUE must be an object (in JSON_LENIENT, NULL
 * and null count as {}). On failure err->argument names the field and the text says what is
 * allowed; TARGET may be half filled. Strings are borrowed from the document. */
int json_read(const struct json_value *value, const struct json_field *fields, enum json_mode mode,
              void *target, struct error *err);

#endif
