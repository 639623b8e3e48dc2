#include "mcp-stdio/jsonrpc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define LOG "mcp"
#define READ_MAX (64u << 10)  /* bytes that the owner reserves at most */
#define KEEP_MAX (256u << 10) /* a larger buffer is given back when it is empty */

/* Lines ---------------------------------------------------------------------------------------- */

void jsonrpc_lines_init(struct jsonrpc_lines *lines)
{
    *lines = (struct jsonrpc_lines){ .at = 0 };
    buf_init(&lines->in, JSONRPC_LINE_MAX + 2 * READ_MAX);
}

void jsonrpc_lines_finish(struct jsonrpc_lines *lines)
{
    buf_finish(&lines->in);
}

static void drop_handed_out(struct jsonrpc_lines *lines)
{
    buf_consume(&lines->in, lines->at);
    lines->scanned -= lines->at;
    lines->at = 0;
    if (lines->in.len == 0 && lines->in.cap > KEEP_MAX)
        buf_finish(&lines->in);
}

char *jsonrpc_lines_reserve(struct jsonrpc_lines *lines, size_t len)
{
    drop_handed_out(lines);
    return buf_reserve(&lines->in, len);
}

void jsonrpc_lines_commit(struct jsonrpc_lines *lines, size_t len)
{
    buf_commit(&lines->in, len);
}

/* Everything up to the next line end, without it; may still be blank. */
static bool take_line(struct jsonrpc_lines *lines, struct jsonrpc_slice *line)
{
    const char *data = buf_text(&lines->in);
    const char *end = lines->scanned < lines->in.len
                          ? memchr(data + lines->scanned, '\n', lines->in.len - lines->scanned)
                          : NULL;

    if (!end) {
        lines->scanned = lines->in.len;
        return false;
    }
    line->data = data + lines->at;
    line->len = (size_t)(end - line->data);
    lines->at = lines->scanned = (size_t)(end - data) + 1;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct jsonrpc_slice trim(struct jsonrpc_slice text)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";

    if (text.len >= 3 && memcmp(text.data, byte_order_mark, 3) == 0) {
        text.data += 3;
        text.len -= 3;
    }
    for (; text.len && is_space(text.data[0]); text.len--)
        text.data++;
    while (text.len && is_space(text.data[text.len - 1]))
        text.len--;
    return text;
}

static void begin_discarding(struct jsonrpc_lines *lines)
{
    if (lines->in.len - lines->at <= JSONRPC_LINE_MAX)
        return;
    if (!lines->discarding)
        log_warn(LOG, "a line of more than %u bytes is passed over", JSONRPC_LINE_MAX);
    lines->discarding = true;
    lines->at = lines->scanned = lines->in.len;
}

bool jsonrpc_lines_next(struct jsonrpc_lines *lines, struct jsonrpc_slice *line)
{
    while (take_line(lines, line)) {
        bool whole = !lines->discarding;

        lines->discarding = false;
        *line = trim(*line);
        if (whole && line->len)
            return true;
    }
    begin_discarding(lines);
    return false;
}

/* Walking over text ---------------------------------------------------------------------------- */

/* Text that the parser has refused comes here too: each step stays inside and says when it makes no
 * sense. */
struct walk {
    struct jsonrpc_slice text;
    size_t at;
};

static char peek(const struct walk *walk)
{
    return walk->at < walk->text.len ? walk->text.data[walk->at] : '\0';
}

static void skip_space(struct walk *walk)
{
    while (walk->at < walk->text.len && is_space(walk->text.data[walk->at]))
        walk->at++;
}

static bool skip_char(struct walk *walk, char c)
{
    skip_space(walk);
    if (peek(walk) != c)
        return false;
    walk->at++;
    return true;
}

static bool skip_string(struct walk *walk)
{
    if (!skip_char(walk, '"'))
        return false;
    while (walk->at < walk->text.len) {
        char c = walk->text.data[walk->at++];

        if (c == '"')
            return true;
        if (c == '\\')
            walk->at++;
    }
    return false;
}

/* An object or array; only the balance of brackets is looked at. */
static bool skip_container(struct walk *walk)
{
    size_t depth = 0;

    while (walk->at < walk->text.len) {
        char c = peek(walk);

        if (c == '"') {
            if (!skip_string(walk))
                return false;
            continue;
        }
        walk->at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return true;
    }
    return false;
}

static bool skip_scalar(struct walk *walk)
{
    size_t from = walk->at;

    while (walk->at < walk->text.len && !is_space(peek(walk)) && !strchr(",:]}[{\"", peek(walk)))
        walk->at++;
    return walk->at > from;
}

static bool skip_value(struct walk *walk, struct jsonrpc_slice *value)
{
    size_t from;
    bool ok;
    char c;

    skip_space(walk);
    from = walk->at;
    c = peek(walk);
    if (c == '"')
        ok = skip_string(walk);
    else if (c == '{' || c == '[')
        ok = skip_container(walk);
    else
        ok = skip_scalar(walk);
    if (ok)
        *value = (struct jsonrpc_slice){ walk->text.data + from, walk->at - from };
    return ok && walk->at <= walk->text.len;
}

/* Behind '{' or ','. */
static bool skip_member(struct walk *walk, struct jsonrpc_slice *name, struct jsonrpc_slice *value)
{
    return skip_value(walk, name) && name->data[0] == '"' && skip_char(walk, ':') &&
           skip_value(walk, value);
}

struct jsonrpc_slice jsonrpc_member_text(struct jsonrpc_slice object,
                                         const struct json_value *value, const char *name)
{
    struct walk walk = { .text = object };
    struct jsonrpc_slice member_name = { NULL, 0 };
    struct jsonrpc_slice text = { NULL, 0 };
    const struct json_value *member;

    if (!object.data || !skip_char(&walk, '{'))
        return text;
    /* Names may be written with escapes; so the parsed members count the way. */
    for (member = json_first(value); member; member = json_next(member)) {
        if (!skip_member(&walk, &member_name, &text))
            break;
        if (strcmp(json_name(member), name) == 0)
            return text;
        skip_char(&walk, ',');
    }
    return (struct jsonrpc_slice){ NULL, 0 };
}

bool jsonrpc_next_element(struct jsonrpc_slice array, size_t *at, struct jsonrpc_slice *element)
{
    struct walk walk = { .text = array, .at = *at };

    if (!skip_char(&walk, *at == 0 ? '[' : ',') || !skip_value(&walk, element))
        return false;
    *at = walk.at;
    return true;
}

bool jsonrpc_slice_equal(struct jsonrpc_slice a, struct jsonrpc_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Repair --------------------------------------------------------------------------------------- */

/* The value of "\uXXXX" at TEXT, or -1. */
static long escape_at(const char *text, size_t len)
{
    char digits[5] = { 0 };

    if (len < 6 || text[0] != '\\' || text[1] != 'u')
        return -1;
    memcpy(digits, text + 2, 4);
    if (strspn(digits, "0123456789abcdefABCDEF") != 4)
        return -1;
    return strtol(digits, NULL, 16);
}

/* Length of the escape at TEXT, which begins with a backslash; what the parser would refuse becomes
 * \ufffd. */
static size_t repair_escape(char *text, size_t len, bool *changed)
{
    long code = escape_at(text, len);
    bool high = code >= 0xd800 && code <= 0xdbff;
    long low = high ? escape_at(text + 6, len - 6) : -1;

    if (code < 0)
        return len < 2 ? len : 2;
    if (high && low >= 0xdc00 && low <= 0xdfff)
        return 12;
    if (code == 0 || (code >= 0xd800 && code <= 0xdfff)) {
        memcpy(text + 2, "fffd", 4);
        *changed = true;
    }
    return 6;
}

/* Replaces in place what no peer could store anyway. True when something was. */
static bool repair(char *text, size_t len)
{
    bool changed = false;

    for (size_t at = 0; at < len;) {
        size_t step = text[at] ? str_utf8_step(text + at, len - at, NULL) : 0;

        if (step == 0) {
            text[at++] = '?';
            changed = true;
        } else if (text[at] == '\\') {
            at += repair_escape(text + at, len - at, &changed);
        } else {
            at += step;
        }
    }
    return changed;
}

/* Messages ------------------------------------------------------------------------------------- */

/* Every double from 2^53 on is whole, and below that an integer holds it. */
static bool is_whole(double number)
{
    return number >= 0x1p53 || number <= -0x1p53 || number == (double)(int64_t)number;
}

bool jsonrpc_is_id(const struct json_value *value)
{
    double number = json_number(value, 0.5);

    return json_string(value) || (json_kind(value) == JSON_KIND_NUMBER && is_whole(number));
}

static bool is_id_text(struct jsonrpc_slice text)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored;

    return text.data && json_parse(&doc, text.data, text.len, JSONRPC_LINE_MAX, &ignored) == 0 &&
           jsonrpc_is_id(json_root(doc));
}

/* The id in an object that the parser refused for something else: a name given twice, too many
 * levels. Nothing when the text is no object from end to end. */
static struct jsonrpc_slice id_in_refused(struct jsonrpc_slice text)
{
    struct walk walk = { .text = text };
    struct jsonrpc_slice id = { NULL, 0 };
    struct jsonrpc_slice name;
    struct jsonrpc_slice value;

    if (!skip_char(&walk, '{'))
        return id;
    do {
        if (!skip_member(&walk, &name, &value))
            return (struct jsonrpc_slice){ NULL, 0 };
        if (name.len == 4 && memcmp(name.data, "\"id\"", 4) == 0)
            id = value;
    } while (skip_char(&walk, ','));
    if (!skip_char(&walk, '}') || walk.at != text.len || !is_id_text(id))
        return (struct jsonrpc_slice){ NULL, 0 };
    return id;
}

static int parse(struct jsonrpc_message *message, struct error *why)
{
    struct error again;

    if (json_parse(&message->doc, message->text.data, message->text.len, JSONRPC_LINE_MAX, why) ==
        0)
        return 0;
    message->repaired = malloc(message->text.len + 1);
    if (!message->repaired)
        return -1;
    memcpy(message->repaired, message->text.data, message->text.len);
    message->repaired[message->text.len] = '\0';
    if (!repair(message->repaired, message->text.len))
        return -1;
    message->text.data = message->repaired;
    return json_parse(&message->doc, message->text.data, message->text.len, JSONRPC_LINE_MAX,
                      &again);
}

static enum jsonrpc_verdict refuse(const struct jsonrpc_message *message, struct error *why,
                                   const char *what)
{
    error_set(why, ERR_INVALID, 0, "%s", what);
    return message->id.data ? JSONRPC_REFUSED : JSONRPC_SILENT;
}

static enum jsonrpc_verdict classify(struct jsonrpc_message *message, struct error *why)
{
    const struct json_value *root = json_root(message->doc);
    const struct json_value *id = json_get(root, "id");
    const struct json_value *method = json_get(root, "method");

    if (jsonrpc_is_id(id))
        message->id = jsonrpc_member_text(message->text, root, "id");
    if (!str_equal(json_string(json_get(root, "jsonrpc")), "2.0"))
        return refuse(message, why, "jsonrpc must be \"2.0\"");
    if (!method && (json_get(root, "result") || json_get(root, "error")))
        return JSONRPC_RESPONSE;
    if (!json_string(method))
        return refuse(message, why, "method must be a string");
    message->method = json_string(method);
    message->params = json_get(root, "params");
    if (!id)
        return JSONRPC_NOTIFICATION;
    return message->id.data ? JSONRPC_REQUEST
                            : refuse(message, why, "id must be a string or a whole number");
}

enum jsonrpc_verdict jsonrpc_read(struct jsonrpc_message *message, struct jsonrpc_slice line,
                                  struct error *why)
{
    *message = (struct jsonrpc_message){ .text = line };
    if (parse(message, why) < 0) {
        message->id = id_in_refused(message->text);
        return message->id.data ? JSONRPC_REFUSED : JSONRPC_SILENT;
    }
    switch (json_kind(json_root(message->doc))) {
    case JSON_KIND_OBJECT:
        return classify(message, why);
    case JSON_KIND_ARRAY:
        return JSONRPC_BATCH;
    case JSON_KIND_NULL:
    case JSON_KIND_BOOL:
    case JSON_KIND_NUMBER:
    case JSON_KIND_STRING:
        break;
    }
    return refuse(message, why, "a message must be an object");
}

void jsonrpc_finish(struct jsonrpc_message *message)
{
    json_free(message->doc);
    free(message->repaired);
    *message = (struct jsonrpc_message){ .doc = NULL };
}

/* Writing -------------------------------------------------------------------------------------- */

void jsonrpc_write_head(struct json_writer *writer, struct jsonrpc_slice id)
{
    json_write_object(writer);
    json_member_string(writer, "jsonrpc", "2.0");
    json_write_name(writer, "id");
    json_write_raw(writer, id.data, id.len);
}

void jsonrpc_write_error(struct json_writer *writer, struct jsonrpc_slice id, int code,
                         const char *message, const char *data)
{
    jsonrpc_write_head(writer, id);
    json_write_name(writer, "error");
    json_write_object(writer);
    json_write_name(writer, "code");
    json_write_i64(writer, code);
    json_member_string(writer, "message", message);
    if (data) {
        json_write_name(writer, "data");
        json_write_raw(writer, data, strlen(data));
    }
    json_write_object_end(writer);
    json_write_object_end(writer);
}

static void write_method(struct json_writer *writer, const char *method)
{
    json_member_string(writer, "method", method);
    json_write_name(writer, "params");
    json_write_object(writer);
}

void jsonrpc_write_notification(struct json_writer *writer, const char *method)
{
    json_write_object(writer);
    json_member_string(writer, "jsonrpc", "2.0");
    write_method(writer, method);
}

void jsonrpc_write_request(struct json_writer *writer, struct jsonrpc_slice id, const char *method)
{
    jsonrpc_write_head(writer, id);
    write_method(writer, method);
}
