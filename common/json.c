#include "common/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"

/* cJSON 1.7.15 builds the tree, but lets much pass that must not: a repeated name (the first wins),
 * \u0000 (cuts the string), 1e999, text behind the value, bad UTF-8, control characters in strings.
 * It also reads no more than the first 63 characters of a number. So a scan of our own goes first,
 * and cJSON sees only what the scan has passed. */

#define NUMBER_LEN_MAX 63
#define SAFE_INTEGER (UINT64_C(1) << 53)

/* A node whose valueint holds its line; cJSON itself uses the ten lowest bits of its types. */
#define NODE_HAS_LINE (1 << 20)

struct json_doc {
    cJSON *root;
};

static const cJSON *node_of(const struct json_value *value)
{
    return (const cJSON *)(const void *)value;
}

static const struct json_value *value_of(const cJSON *node)
{
    return (const struct json_value *)(const void *)node;
}

static int node_type(const cJSON *node)
{
    return node ? node->type & 0xff : cJSON_NULL;
}

static bool is_container(const cJSON *node)
{
    return node_type(node) == cJSON_Array || node_type(node) == cJSON_Object;
}

/* Places in the text --------------------------------------------------------------------------- */

enum place { PLACE_BYTE, PLACE_LINE };

/* Offsets of all members and elements in the text's order, kept only where lines are wanted. */
struct marks {
    uint32_t *offsets;
    size_t count;
    size_t cap;
};

struct scan {
    const char *text;
    const char *original; /* TEXT before comments were blanked; columns are counted in it */
    size_t len;
    size_t at;
    enum place place;
    struct marks *marks; /* NULL: none are wanted */
    unsigned depth;
    char open[JSON_DEPTH_MAX]; /* '{' or '[' */
    struct error *err;
};

static void line_and_column(const struct scan *scan, size_t offset, unsigned *line,
                            unsigned *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset && i < scan->len; i++) {
        if (scan->original[i] == '\n') {
            ++*line;
            *column = 1;
        } else if ((scan->original[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

static int refuse_at(const struct scan *scan, size_t offset, enum error_code code, const char *what)
{
    unsigned line;
    unsigned column;

    if (scan->place == PLACE_BYTE)
        return error_set(scan->err, code, 0, "JSON at byte %zu: %s", offset, what);
    line_and_column(scan, offset, &line, &column);
    return error_set(scan->err, code, 0, "line %u, column %u: %s", line, column, what);
}

static int refuse(const struct scan *scan, const char *what)
{
    return refuse_at(scan, scan->at, ERR_INVALID,
                     scan->at < scan->len ? what : "the text ends in the middle");
}

static int add_mark(struct scan *scan, size_t offset)
{
    struct marks *marks = scan->marks;

    if (!marks)
        return 0;
    if (marks->count == marks->cap) {
        size_t cap = marks->cap ? marks->cap * 2 : 64;
        uint32_t *offsets = realloc(marks->offsets, cap * sizeof(*offsets));

        if (!offsets)
            return error_set(scan->err, ERR_LIMIT, 0, "no memory for JSON");
        marks->offsets = offsets;
        marks->cap = cap;
    }
    marks->offsets[marks->count++] = (uint32_t)offset;
    return 0;
}

/* The scan ------------------------------------------------------------------------------------- */

static char peek(const struct scan *scan)
{
    return scan->at < scan->len ? scan->text[scan->at] : '\0';
}

static void skip_space(struct scan *scan)
{
    for (; scan->at < scan->len; scan->at++) {
        char c = scan->text[scan->at];

        if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            return;
    }
}

static int scan_hex4(struct scan *scan, unsigned *out)
{
    unsigned value = 0;

    for (int i = 0; i < 4; i++, scan->at++) {
        int digit = str_hex_value(peek(scan));

        if (digit < 0)
            return refuse(scan, "\\u needs four hexadecimal digits");
        value = value << 4 | (unsigned)digit;
    }
    *out = value;
    return 0;
}

/* Behind "\u". A high surrogate must be followed by a low one; neither stands alone. */
static int scan_unicode_escape(struct scan *scan)
{
    unsigned high = 0;
    unsigned low = 0;

    if (scan_hex4(scan, &high) < 0)
        return -1;
    if (high == 0)
        return refuse(scan, "\\u0000 is not accepted");
    if (high < 0xd800 || high > 0xdfff)
        return 0;
    if (high < 0xdc00 && scan->len - scan->at >= 2 && scan->text[scan->at] == '\\' &&
        scan->text[scan->at + 1] == 'u') {
        scan->at += 2;
        if (scan_hex4(scan, &low) < 0)
            return -1;
    }
    if (low < 0xdc00 || low > 0xdfff)
        return refuse(scan, "half of a surrogate pair");
    return 0;
}

static int scan_escape(struct scan *scan)
{
    char c = peek(scan);

    if (c == '\0' || !strchr("\"\\/bfnrtu", c))
        return refuse(scan, "unknown escape in a string");
    scan->at++;
    return c == 'u' ? scan_unicode_escape(scan) : 0;
}

static int scan_string(struct scan *scan)
{
    scan->at++;
    while (scan->at < scan->len) {
        char c = scan->text[scan->at];

        if ((unsigned char)c < 0x20)
            return refuse(scan, "control character in a string; escape it");
        scan->at++;
        if (c == '"')
            return 0;
        if (c == '\\' && scan_escape(scan) < 0)
            return -1;
    }
    return refuse(scan, "");
}

static int scan_digits(struct scan *scan)
{
    size_t from = scan->at;

    while (peek(scan) >= '0' && peek(scan) <= '9')
        scan->at++;
    return scan->at > from ? 0 : refuse(scan, "a digit must follow here");
}

static int check_finite(struct scan *scan, size_t from)
{
    char copy[NUMBER_LEN_MAX + 1];
    size_t len = scan->at - from;

    if (len > NUMBER_LEN_MAX)
        return refuse_at(scan, from, ERR_LIMIT, "number of more than 63 characters");
    memcpy(copy, scan->text + from, len);
    copy[len] = '\0';
    if (!isfinite(strtod(copy, NULL)))
        return refuse_at(scan, from, ERR_INVALID, "number is too large");
    return 0;
}

static int scan_number(struct scan *scan)
{
    size_t from = scan->at;

    if (peek(scan) == '-')
        scan->at++;
    if (peek(scan) == '0')
        scan->at++;
    else if (scan_digits(scan) < 0)
        return -1;
    if (peek(scan) == '.') {
        scan->at++;
        if (scan_digits(scan) < 0)
            return -1;
    }
    if (peek(scan) == 'e' || peek(scan) == 'E') {
        scan->at++;
        if (peek(scan) == '+' || peek(scan) == '-')
            scan->at++;
        if (scan_digits(scan) < 0)
            return -1;
    }
    return check_finite(scan, from);
}

static int scan_word(struct scan *scan)
{
    static const char *const words[] = { "true", "false", "null" };

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t len = strlen(words[i]);

        if (scan->len - scan->at >= len && memcmp(scan->text + scan->at, words[i], len) == 0) {
            scan->at += len;
            return 0;
        }
    }
    return refuse(scan, "no value begins like this");
}

static int scan_open(struct scan *scan)
{
    if (scan->depth == JSON_DEPTH_MAX)
        return refuse_at(scan, scan->at, ERR_LIMIT, "nested too deeply");
    scan->open[scan->depth++] = scan->text[scan->at++];
    return 0;
}

static int scan_scalar(struct scan *scan)
{
    char c = peek(scan);

    if (c == '"')
        return scan_string(scan);
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(scan);
    return scan_word(scan);
}

/* A member's name and colon; what follows is its value. */
static int scan_name(struct scan *scan)
{
    if (peek(scan) != '"')
        return refuse(scan, "a member's name in double quotes must stand here");
    if (add_mark(scan, scan->at) < 0 || scan_string(scan) < 0)
        return -1;
    skip_space(scan);
    if (peek(scan) != ':')
        return refuse(scan, "\":\" must follow a member's name");
    scan->at++;
    skip_space(scan);
    return 0;
}

static bool in_object(const struct scan *scan)
{
    return scan->depth > 0 && scan->open[scan->depth - 1] == '{';
}

/* Closes what ends here. Then the document is complete (depth 0), or the next element is due. */
static int scan_after_value(struct scan *scan)
{
    for (;;) {
        skip_space(scan);
        if (scan->depth == 0)
            return 0;
        if (peek(scan) == ',') {
            scan->at++;
            return 0;
        }
        if (peek(scan) != (in_object(scan) ? '}' : ']'))
            return refuse(scan, in_object(scan) ? "\",\" or \"}\" must follow a member"
                                                : "\",\" or \"]\" must follow an element");
        scan->depth--;
        scan->at++;
    }
}

/* One value, with its name if it has one. A container is only begun: *OPENED says so. */
static int scan_value(struct scan *scan, bool *opened)
{
    skip_space(scan);
    if (scan->at == scan->len && scan->depth == 0)
        return refuse_at(scan, scan->at, ERR_INVALID, "there is no value");
    if (in_object(scan)) {
        if (scan_name(scan) < 0)
            return -1;
    } else if (add_mark(scan, scan->at) < 0) {
        return -1;
    }
    *opened = peek(scan) == '{' || peek(scan) == '[';
    return *opened ? scan_open(scan) : scan_scalar(scan);
}

static bool close_if_empty(struct scan *scan)
{
    skip_space(scan);
    if (peek(scan) != (in_object(scan) ? '}' : ']'))
        return false;
    scan->depth--;
    scan->at++;
    return true;
}

static int scan_document(struct scan *scan)
{
    bool opened = false;

    do {
        if (scan_value(scan, &opened) < 0)
            return -1;
        if (opened && !close_if_empty(scan))
            continue;
        if (scan_after_value(scan) < 0)
            return -1;
    } while (scan->depth > 0);
    if (scan->at < scan->len)
        return refuse(scan, "something follows the value");
    return 0;
}

static int check_bytes(const struct scan *scan)
{
    for (size_t at = 0; at < scan->len;) {
        unsigned char c = (unsigned char)scan->text[at];
        size_t step = c < 0x80 ? c != 0 : str_utf8_step(scan->text + at, scan->len - at, NULL);

        if (step == 0)
            return refuse_at(scan, at, ERR_INVALID,
                             scan->text[at] ? "not valid UTF-8" : "NUL byte");
        at += step;
    }
    return 0;
}

/* The tree ------------------------------------------------------------------------------------- */

/* Walks a tree in the order of its text without recursion. */
struct walk {
    const cJSON *node;
    unsigned depth;
    const cJSON *parents[JSON_DEPTH_MAX];
};

/* Goes down if there is something below, else to the next one. CLOSED is called for each container
 * left; may be NULL. */
static bool walk_next(struct walk *walk, void (*closed)(void *data, const cJSON *node), void *data)
{
    if (is_container(walk->node)) {
        if (walk->node->child) {
            walk->parents[walk->depth++] = walk->node;
            walk->node = walk->node->child;
            return true;
        }
        if (closed)
            closed(data, walk->node);
    }
    while (walk->depth > 0 && !walk->node->next) {
        walk->node = walk->parents[--walk->depth];
        if (closed)
            closed(data, walk->node);
    }
    if (walk->depth == 0)
        return false;
    walk->node = walk->node->next;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const cJSON *const *left = a;
    const cJSON *const *right = b;

    return strcmp((*left)->string, (*right)->string);
}

static int refuse_repeated(const struct scan *scan, const cJSON *member)
{
    AUTO_BUF struct buf text = BUF_INIT(256);

    buf_append_str(&text, "member \"");
    str_append_escaped(&text, member->string, strlen(member->string), 64);
    buf_append_str(&text, "\" appears twice");
    if (member->type & NODE_HAS_LINE)
        return refuse_at(scan, (size_t)member->valueint, ERR_INVALID, buf_text(&text));
    return error_set(scan->err, ERR_INVALID, 0, "JSON: %s", buf_text(&text));
}

/* The later one of two equal neighbours in the text is the one to name. */
static const cJSON *later(const cJSON *a, const cJSON *b)
{
    return a->valueint > b->valueint ? a : b;
}

/* Few members are compared one by one; many are sorted, or a hostile object costs the square. */
static int check_members(const struct scan *scan, const cJSON *object)
{
    size_t count = json_count(value_of(object));
    const cJSON **members;
    int rc = 0;

    if (count <= 16) {
        for (const cJSON *a = object->child; a; a = a->next)
            for (const cJSON *b = a->next; b; b = b->next)
                if (a->string[0] == b->string[0] && strcmp(a->string, b->string) == 0)
                    return refuse_repeated(scan, b);
        return 0;
    }
    members = calloc(count, sizeof(*members));
    if (!members)
        return error_set(scan->err, ERR_LIMIT, 0, "no memory for JSON");
    count = 0;
    for (const cJSON *member = object->child; member; member = member->next)
        members[count++] = member;
    qsort(members, count, sizeof(*members), compare_names);
    for (size_t i = 1; i < count && rc == 0; i++)
        if (strcmp(members[i - 1]->string, members[i]->string) == 0)
            rc = refuse_repeated(scan, later(members[i - 1], members[i]));
    free(members);
    return rc;
}

static int check_repeated(const struct scan *scan, const cJSON *root)
{
    struct walk walk = { .node = root };

    do {
        if (node_type(walk.node) == cJSON_Object && check_members(scan, walk.node) < 0)
            return -1;
    } while (walk_next(&walk, NULL, NULL));
    return 0;
}

/* Our own documents' nodes are ours to write to. */
static cJSON *writable(const cJSON *node)
{
    return (cJSON *)(uintptr_t)node;
}

/* The tree has the same order as the marks. */
static void set_offsets(const struct marks *marks, const cJSON *root)
{
    struct walk walk = { .node = root };
    size_t i = 0;

    do {
        cJSON *node = writable(walk.node);

        node->type |= NODE_HAS_LINE;
        node->valueint = (int)marks->offsets[i++];
    } while (i < marks->count && walk_next(&walk, NULL, NULL));
}

static void offsets_to_lines(const struct scan *scan, const cJSON *root)
{
    struct walk walk = { .node = root };
    size_t at = 0;
    int line = 1;

    do {
        cJSON *node = writable(walk.node);

        for (; at < (size_t)node->valueint; at++)
            line += scan->text[at] == '\n';
        node->valueint = line;
    } while (walk_next(&walk, NULL, NULL));
}

static int build(struct json_doc **out, const struct scan *scan)
{
    cJSON *root = cJSON_ParseWithLength(scan->text, scan->len);

    /* The scan has passed it, so it can only be memory. */
    if (!root)
        return error_set(scan->err, ERR_LIMIT, 0, "no memory for JSON");
    if (scan->marks)
        set_offsets(scan->marks, root);
    if (check_repeated(scan, root) < 0) {
        cJSON_Delete(root);
        return -1;
    }
    if (scan->marks)
        offsets_to_lines(scan, root);
    *out = NEW(struct json_doc);
    (*out)->root = root;
    return 0;
}

static int check_size(size_t len, size_t max_bytes, struct error *err)
{
    if (len > max_bytes || len > INT32_MAX)
        return error_set(err, ERR_LIMIT, 0, "JSON of %zu bytes; at most %zu are accepted", len,
                         max_bytes);
    return 0;
}

int json_parse(struct json_doc **out, const char *text, size_t len, size_t max_bytes,
               struct error *err)
{
    struct scan scan = { .text = text, .len = len, .place = PLACE_BYTE, .err = err };

    if (check_size(len, max_bytes, err) < 0 || check_bytes(&scan) < 0 || scan_document(&scan) < 0)
        return -1;
    return build(out, &scan);
}

/* Comments ------------------------------------------------------------------------------------- */

/* Blanks comments and commas before a closing bracket; everything else stays where it was, for the
 * sake of places. */
struct stripper {
    char *text;
    size_t len;
    size_t at;
    size_t last_at; /* the last byte that is not space or comment */
    char last;
    char before_last;
};

static void blank(struct stripper *strip, size_t end)
{
    for (; strip->at < end; strip->at++)
        if (strip->text[strip->at] != '\n')
            strip->text[strip->at] = ' ';
}

/* False when a block comment doesn't end. */
static bool strip_comment(struct stripper *strip)
{
    const char *from = strip->text + strip->at;
    size_t left = strip->len - strip->at;
    const char *end;

    if (from[1] == '/') {
        end = memchr(from, '\n', left);
        blank(strip, end ? (size_t)(end - strip->text) : strip->len);
        return true;
    }
    end = left > 2 ? memmem(from + 2, left - 2, "*/", 2) : NULL;
    if (!end)
        return false;
    blank(strip, (size_t)(end - strip->text) + 2);
    return true;
}

static void note(struct stripper *strip, char c)
{
    strip->before_last = strip->last;
    strip->last = c;
    strip->last_at = strip->at;
}

/* A string is passed over up to its closing quote; one that isn't closed on its line is left for
 * the scan to refuse. */
static void pass_string(struct stripper *strip)
{
    note(strip, '"');
    strip->at++;
    while (strip->at < strip->len && strip->text[strip->at] != '\n') {
        char c = strip->text[strip->at++];

        if (c == '"')
            return;
        if (c == '\\' && strip->at < strip->len && strip->text[strip->at] != '\n')
            strip->at++;
    }
}

static void pass_byte(struct stripper *strip)
{
    char c = strip->text[strip->at];

    if ((c == '}' || c == ']') && strip->last == ',' && strip->before_last &&
        !strchr("[{,:", strip->before_last))
        strip->text[strip->last_at] = ' ';
    if (!strchr(" \t\r\n", c))
        note(strip, c);
    strip->at++;
}

static int strip_comments(struct stripper *strip, const struct scan *scan)
{
    while (strip->at < strip->len) {
        char c = strip->text[strip->at];
        char next = strip->at + 1 < strip->len ? strip->text[strip->at + 1] : '\0';

        if (c == '"')
            pass_string(strip);
        else if (c != '/' || (next != '/' && next != '*'))
            pass_byte(strip);
        else if (!strip_comment(strip))
            return refuse_at(scan, strip->at, ERR_INVALID, "comment without an end");
    }
    return 0;
}

int json_parse_commented(struct json_doc **out, const char *text, size_t len, size_t max_bytes,
                         struct error *err)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    AUTO_FREE char *copy = NULL;
    struct marks marks = { NULL, 0, 0 };
    struct scan scan = {
        .original = text, .len = len, .place = PLACE_LINE, .marks = &marks, .err = err
    };
    struct stripper strip = { .len = len };
    int rc;

    if (check_size(len, max_bytes, err) < 0)
        return -1;
    copy = malloc(len + 1);
    if (!copy)
        return error_set(err, ERR_LIMIT, 0, "no memory for JSON");
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    scan.text = strip.text = copy;
    if (len >= 3 && memcmp(copy, byte_order_mark, 3) == 0)
        memset(copy, ' ', 3);
    if (check_bytes(&scan) < 0 || strip_comments(&strip, &scan) < 0)
        return -1;
    rc = scan_document(&scan);
    if (rc == 0)
        rc = build(out, &scan);
    free(marks.offsets);
    return rc;
}

void json_free(struct json_doc *doc)
{
    if (!doc)
        return;
    cJSON_Delete(doc->root);
    free(doc);
}

void json_free_cleanup(struct json_doc **doc)
{
    json_free(*doc);
}

/* Accessors ------------------------------------------------------------------------------------ */

const struct json_value *json_root(const struct json_doc *doc)
{
    return doc ? value_of(doc->root) : NULL;
}

enum json_kind json_kind(const struct json_value *value)
{
    switch (node_type(node_of(value))) {
    case cJSON_False:
    case cJSON_True:
        return JSON_KIND_BOOL;
    case cJSON_Number:
        return JSON_KIND_NUMBER;
    case cJSON_String:
        return JSON_KIND_STRING;
    case cJSON_Array:
        return JSON_KIND_ARRAY;
    case cJSON_Object:
        return JSON_KIND_OBJECT;
    default:
        return JSON_KIND_NULL;
    }
}

static const struct json_value *get_len(const struct json_value *object, const char *name,
                                        size_t len)
{
    if (json_kind(object) != JSON_KIND_OBJECT)
        return NULL;
    for (const cJSON *member = node_of(object)->child; member; member = member->next)
        if ((len == 0 || member->string[0] == name[0]) && strncmp(member->string, name, len) == 0 &&
            member->string[len] == '\0')
            return value_of(member);
    return NULL;
}

const struct json_value *json_get(const struct json_value *object, const char *name)
{
    return get_len(object, name, strlen(name));
}

const struct json_value *json_path(const struct json_value *object, const char *path)
{
    for (;;) {
        size_t len = strcspn(path, ".");

        object = get_len(object, path, len);
        if (!object || !path[len])
            return object;
        path += len + 1;
    }
}

const char *json_string(const struct json_value *value)
{
    return json_kind(value) == JSON_KIND_STRING ? node_of(value)->valuestring : NULL;
}

bool json_bool(const struct json_value *value, bool otherwise)
{
    return json_kind(value) == JSON_KIND_BOOL ? node_type(node_of(value)) == cJSON_True : otherwise;
}

double json_number(const struct json_value *value, double otherwise)
{
    return json_kind(value) == JSON_KIND_NUMBER ? node_of(value)->valuedouble : otherwise;
}

uint64_t json_u64(const struct json_value *value, uint64_t otherwise)
{
    double number = json_number(value, -1);

    if (!(number >= 0 && number <= (double)SAFE_INTEGER) || number != (double)(uint64_t)number)
        return otherwise;
    return (uint64_t)number;
}

size_t json_count(const struct json_value *array_or_object)
{
    size_t count = 0;

    for (const struct json_value *v = json_first(array_or_object); v; v = json_next(v))
        count++;
    return count;
}

const struct json_value *json_first(const struct json_value *array_or_object)
{
    const cJSON *node = node_of(array_or_object);

    return is_container(node) ? value_of(node->child) : NULL;
}

const struct json_value *json_next(const struct json_value *element)
{
    return element ? value_of(node_of(element)->next) : NULL;
}

const char *json_name(const struct json_value *member)
{
    return member ? node_of(member)->string : NULL;
}

unsigned json_line(const struct json_value *value)
{
    const cJSON *node = node_of(value);

    return node && node->type & NODE_HAS_LINE ? (unsigned)node->valueint : 0;
}

static void append_closing(void *data, const cJSON *node)
{
    struct json_writer *writer = data;

    if (node_type(node) == cJSON_Object)
        json_write_object_end(writer);
    else
        json_write_array_end(writer);
}

static void append_opening(struct json_writer *writer, const struct json_value *value)
{
    switch (json_kind(value)) {
    case JSON_KIND_NULL:
        json_write_null(writer);
        break;
    case JSON_KIND_BOOL:
        json_write_bool(writer, json_bool(value, false));
        break;
    case JSON_KIND_NUMBER:
        json_write_double(writer, json_number(value, 0));
        break;
    case JSON_KIND_STRING:
        json_write_string(writer, json_string(value));
        break;
    case JSON_KIND_ARRAY:
        json_write_array(writer);
        break;
    case JSON_KIND_OBJECT:
        json_write_object(writer);
        break;
    }
}

void json_append(struct buf *buf, const struct json_value *value)
{
    struct json_writer writer;
    struct walk walk = { .node = node_of(value) };

    json_write_init(&writer, buf);
    do {
        if (walk.depth > 0 && node_type(walk.parents[walk.depth - 1]) == cJSON_Object)
            json_write_name(&writer, walk.node->string);
        append_opening(&writer, value_of(walk.node));
    } while (walk_next(&walk, append_closing, &writer));
}

/* Field tables --------------------------------------------------------------------------------- */

static int refuse_string_length(const struct json_field *field, size_t len, struct error *err)
{
    unsigned long long min = field->min;
    unsigned long long max = field->max;

    if (len == 0 && min == 1)
        return error_argument(err, field->name, "must not be empty");
    if (min == max)
        return error_argument(err, field->name, "must have exactly %llu characters; it has %zu",
                              min, len);
    if (min == 0)
        return error_argument(err, field->name, "must have at most %llu characters; it has %zu",
                              max, len);
    return error_argument(err, field->name, "must have %llu to %llu characters; it has %zu", min,
                          max, len);
}

static int read_string(const struct json_value *value, const struct json_field *field, void *to,
                       struct error *err)
{
    const char *text = json_string(value);
    size_t len;

    if (!text)
        return error_argument(err, field->name, "must be a string");
    len = str_utf8_length(text);
    if (len < field->min || len > field->max)
        return refuse_string_length(field, len, err);
    *(const char **)to = text;
    return 0;
}

static int read_bool(const struct json_value *value, const struct json_field *field,
                     enum json_mode mode, void *to, struct error *err)
{
    const char *text = mode == JSON_LENIENT ? json_string(value) : NULL;
    bool is_true = str_equal(text, "true");

    if (json_kind(value) != JSON_KIND_BOOL && !is_true && !str_equal(text, "false"))
        return error_argument(err, field->name, "must be true or false");
    *(bool *)to = json_bool(value, is_true);
    return 0;
}

/* Numbers are doubles, so 5.0 can't be told from 5, and both are whole, as in JSON Schema. */
static int read_whole(const struct json_value *value, const struct json_field *field,
                      enum json_mode mode, uint64_t *out, struct error *err)
{
    const char *text = mode == JSON_LENIENT ? json_string(value) : NULL;
    uint64_t number = json_u64(value, UINT64_MAX);

    if (text && !str_parse_u64(text, SAFE_INTEGER, &number))
        number = UINT64_MAX;
    if (number == UINT64_MAX || number < field->min || number > field->max)
        return error_argument(err, field->name, "must be a whole number from %llu to %llu",
                              (unsigned long long)field->min, (unsigned long long)field->max);
    *out = number;
    return 0;
}

static int read_enum(const struct json_value *value, const struct json_field *field, void *to,
                     struct error *err)
{
    const char *text = json_string(value);
    AUTO_BUF struct buf allowed = BUF_INIT(sizeof(err->text));

    for (int i = 0; text && field->names[i]; i++)
        if (strcmp(text, field->names[i]) == 0) {
            *(int *)to = i;
            return 0;
        }
    for (int i = 0; field->names[i]; i++)
        buf_printf(&allowed, "%s\"%s\"", i ? ", " : "", field->names[i]);
    return error_argument(err, field->name, "must be one of %s", buf_text(&allowed));
}

static int read_field(const struct json_value *value, const struct json_field *field,
                      enum json_mode mode, void *target, struct error *err)
{
    void *to = (char *)target + field->offset;
    uint64_t number = 0;

    switch (field->kind) {
    case JSON_FIELD_STRING:
        return read_string(value, field, to, err);
    case JSON_FIELD_BOOL:
        return read_bool(value, field, mode, to, err);
    case JSON_FIELD_U32:
        BUG_ON(field->max > UINT32_MAX);
        if (read_whole(value, field, mode, &number, err) < 0)
            return -1;
        *(uint32_t *)to = (uint32_t)number;
        return 0;
    case JSON_FIELD_U64:
        return read_whole(value, field, mode, to, err);
    case JSON_FIELD_ENUM:
        return read_enum(value, field, to, err);
    case JSON_FIELD_VALUE:
        *(const struct json_value **)to = value;
        return 0;
    case JSON_FIELD_END:
        break;
    }
    BUG("unknown kind of field");
}

/* What models write when they mean "I don't use this argument". */
static bool means_absent(const struct json_value *value, const struct json_field *field,
                         enum json_mode mode)
{
    const char *text = json_string(value);

    if (!value)
        return true;
    if (mode != JSON_LENIENT)
        return false;
    if (json_kind(value) == JSON_KIND_NULL)
        return true;
    return field->need == JSON_OPTIONAL && (str_equal(text, "") || str_equal(text, "null"));
}

static const struct json_field *find_field(const struct json_field *fields, const char *name)
{
    for (; fields->kind != JSON_FIELD_END; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

static int refuse_unknown(const struct json_value *value, const struct json_field *fields,
                          struct error *err)
{
    for (const struct json_value *m = json_first(value); m; m = json_next(m)) {
        AUTO_BUF struct buf known = BUF_INIT(sizeof(err->text));

        if (find_field(fields, json_name(m)))
            continue;
        for (const struct json_field *field = fields; field->kind != JSON_FIELD_END; field++)
            buf_printf(&known, "%s%s", field == fields ? "; known are " : ", ", field->name);
        return error_argument(err, json_name(m), "is not known here%s", buf_text(&known));
    }
    return 0;
}

int json_read(const struct json_value *value, const struct json_field *fields, enum json_mode mode,
              void *target, struct error *err)
{
    bool nothing = mode == JSON_LENIENT && json_kind(value) == JSON_KIND_NULL;

    if (!nothing && json_kind(value) != JSON_KIND_OBJECT)
        return error_set(err, ERR_INVALID, 0, "must be an object");
    if (mode == JSON_STRICT && refuse_unknown(value, fields, err) < 0)
        return -1;
    for (const struct json_field *field = fields; field->kind != JSON_FIELD_END; field++) {
        const struct json_value *member = json_get(value, field->name);

        if (means_absent(member, field, mode)) {
            if (field->need == JSON_REQUIRED)
                return error_argument(err, field->name, "is required");
        } else if (read_field(member, field, mode, target, err) < 0) {
            return -1;
        }
    }
    return 0;
}
