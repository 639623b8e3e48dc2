/* graphql.c: a document is a list of definitions; what each may do is said by its first word. Only
 * strings, comments and brackets have to be understood to find the next one. */
#include "proxy/graphql.h"

#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"

#define BODY_MAX (256u << 10)
#define DEPTH_MAX 200u

struct scanner {
    const char *text;
    size_t len;
    size_t at;
};

static void skip_comment(struct scanner *scanner)
{
    while (scanner->at < scanner->len && scanner->text[scanner->at] != '\n' &&
           scanner->text[scanner->at] != '\r')
        scanner->at++;
}

/* A string or block string; false when it never ends. */
static bool skip_string(struct scanner *scanner)
{
    const char *text = scanner->text;
    bool block = scanner->len - scanner->at >= 3 && memcmp(text + scanner->at, "\"\"\"", 3) == 0;

    for (scanner->at += block ? 3 : 1; scanner->at < scanner->len; scanner->at++) {
        char c = text[scanner->at];
        size_t left = scanner->len - scanner->at;

        if (block && left >= 4 && memcmp(text + scanner->at, "\\\"\"\"", 4) == 0) {
            scanner->at += 3;
        } else if (block && left >= 3 && memcmp(text + scanner->at, "\"\"\"", 3) == 0) {
            scanner->at += 3;
            return true;
        } else if (!block && c == '\\') {
            scanner->at++;
        } else if (!block && (c == '\n' || c == '\r')) {
            return false;
        } else if (!block && c == '"') {
            scanner->at++;
            return true;
        }
    }
    return false;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A definition begins with "{", or with a word that says what it does. */
static bool may_begin(const struct scanner *scanner, size_t *word_len)
{
    const char *text = scanner->text + scanner->at;
    size_t len = 0;

    while (scanner->at + len < scanner->len && is_name(text[len]))
        len++;
    *word_len = len;
    if (len == 0)
        return text[0] == '{';
    return (len == 5 && memcmp(text, "query", 5) == 0) ||
           (len == 8 && memcmp(text, "fragment", 8) == 0);
}

bool graphql_only_asks(const char *text, size_t len)
{
    struct scanner scanner = { .text = text, .len = len };
    unsigned depth = 0;
    bool inside = false; /* of a definition */
    bool any = false;

    while (scanner.at < len) {
        char c = text[scanner.at];
        size_t word = 0;

        if (c == '#') {
            skip_comment(&scanner);
            continue;
        }
        if (strchr(" \t\r\n,", c) != NULL && c != '\0') {
            scanner.at++;
            continue;
        }
        if (!inside && !may_begin(&scanner, &word))
            return false;
        any = inside = true;
        if (c == '"') {
            if (!skip_string(&scanner))
                return false;
            continue;
        }
        scanner.at += word > 0 ? word : 1;
        if (c == '{' || c == '(' || c == '[') {
            if (++depth > DEPTH_MAX)
                return false;
        } else if (c == '}' || c == ')' || c == ']') {
            if (depth == 0)
                return false;
            /* A selection's last brace ends the definition. */
            inside = --depth > 0 || c != '}';
        }
    }
    return any && !inside;
}

static enum body_gate_state refuse(struct body_gate *gate)
{
    return body_gate_refuse(
        gate, 403, "graphql_not_allowed",
        "only queries are allowed: no mutation, no subscription, one at a time");
}

static enum body_gate_state look(struct body_gate *gate, bool ended)
{
    struct error err = ERROR_INIT;
    AUTO_JSON
    struct json_doc *json = NULL;
    const char *query;

    if (!ended)
        return BODY_GATE_READING;
    if (gate->held.len == 0 ||
        json_parse(&json, gate->held.data, gate->held.len, BODY_MAX, &err) < 0 ||
        json_kind(json_root(json)) != JSON_KIND_OBJECT)
        return refuse(gate); /* a list of requests as well */
    query = json_string(json_get(json_root(json), "query"));
    return query != NULL && graphql_only_asks(query, strlen(query)) ? BODY_GATE_OPEN : refuse(gate);
}

static void gate_free(struct body_gate *gate)
{
    free(gate);
}

static const struct body_gate_kind graphql_kind = {
    .held_max = BODY_MAX,
    .too_large = "graphql_not_allowed",
    .look = look,
    .free = gate_free,
};

struct body_gate *graphql_gate_new(const struct http_request *request)
{
    struct body_gate *gate = NEW(struct body_gate);
    const char *encoding = http_headers_get(&request->headers, "content-encoding");
    const char *type = http_headers_get(&request->headers, "content-type");

    body_gate_init(gate, &graphql_kind);
    if ((encoding != NULL && strcasecmp(encoding, "identity") != 0) || type == NULL ||
        strncasecmp(type, "application/json", 16) != 0)
        gate->state = refuse(gate);
    return gate;
}
