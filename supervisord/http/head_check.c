/* head_check.c: our own judge over raw heads. Stricter than RFC 9112 wherever two parsers are known
 * to read the same bytes differently; what it refuses, nobody legitimate sends. */
#include "http/http_internal.h"

#include <strings.h>

#include "common/mem.h"

#define METHOD_MAX 32
#define HOST_MAX 300
#define LENGTH_DIGITS_MAX 19

int http_refuse(struct error *err, int status, const char *code, const char *text)
{
    error_argument(err, code, "%s", text);
    err->sys = status;
    return -1;
}

enum { CHAR_TOKEN = 1, CHAR_VALUE = 2 };

#define T (CHAR_TOKEN | CHAR_VALUE)
#define V CHAR_VALUE
/* RFC 9110: token characters; what a field's value may have, obs-text too. */
static const uint8_t classes[256] = {
    ['\t'] = V,          [' '] = V,         ['!'] = T,         ['"'] = V,
    ['#' ... '\''] = T,  ['(' ... ')'] = V, ['*' ... '+'] = T, [','] = V,
    ['-' ... '.'] = T,   ['/'] = V,         ['0' ... '9'] = T, [':' ... '@'] = V,
    ['A' ... 'Z'] = T,   ['[' ... ']'] = V, ['^' ... '`'] = T, ['a' ... 'z'] = T,
    ['{'] = V,           ['|'] = T,         ['}'] = V,         ['~'] = T,
    [0x80 ... 0xff] = V,
};
#undef T
#undef V

static bool is_value_char(unsigned char c)
{
    return (classes[c] & CHAR_VALUE) != 0;
}

/* Without a way out of the loop, which is what is usual. */
static bool all_are(const char *text, size_t len, uint8_t class)
{
    uint8_t common = class;

    for (size_t i = 0; i < len; i++)
        common &= classes[(unsigned char)text[i]];
    return common != 0;
}

bool http_token_valid(const char *text, size_t len)
{
    return len > 0 && all_are(text, len, CHAR_TOKEN);
}

bool http_value_valid(const char *text, size_t len)
{
    return all_are(text, len, CHAR_VALUE);
}

static bool span_is(struct http_span span, const char *text)
{
    /* Most names differ in their first letter. */
    return span.len == strlen(text) && span.len > 0 && ((span.at[0] ^ text[0]) & ~0x20) == 0 &&
           strncasecmp(span.at, text, span.len) == 0;
}

static struct http_span span_trim(struct http_span span)
{
    while (span.len > 0 && (span.at[0] == ' ' || span.at[0] == '\t')) {
        span.at++;
        span.len--;
    }
    while (span.len > 0 && (span.at[span.len - 1] == ' ' || span.at[span.len - 1] == '\t'))
        span.len--;
    return span;
}

/* Lines
 * --------------------------------------------------------------------------------------------------------
 */

int http_scan(struct http_scan *scan, const char *data, size_t len, size_t *head_len,
              struct error *err)
{
    size_t limit = len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX;

    for (; scan->at < len; scan->at++) {
        unsigned char c;

        while (!scan->after_cr && scan->at < limit && is_value_char((unsigned char)data[scan->at]))
            scan->at++;
        if (scan->at == len)
            break;
        c = (unsigned char)data[scan->at];
        if (scan->at >= HTTP_HEAD_MAX)
            return http_refuse(err, 431, "head_too_large", "the head is too large");
        if (scan->after_cr) {
            size_t line_len = scan->at - 1 - scan->line_start;
            bool leading = scan->line_start == 0;

            if (c != '\n')
                return http_refuse(err, 400, "bare_cr", "a CR without LF");
            scan->after_cr = false;
            scan->line_start = scan->at + 1;
            /* One empty line in front of the request line is to be ignored (RFC 9112 2.2). */
            if (line_len == 0 && !leading) {
                *head_len = ++scan->at;
                return 1;
            }
        } else if (c == '\r') {
            scan->after_cr = true;
        } else if (c == '\n') {
            return http_refuse(err, 400, "bare_lf", "a line that ends in LF only");
        } else if (!is_value_char(c)) {
            return http_refuse(err, 400, "control_character", "a control character in the head");
        }
    }
    if (scan->line_start <= 2 && len - scan->line_start > HTTP_TARGET_MAX + METHOD_MAX + 16)
        return http_refuse(err, 414, "target_too_long", "the request target is too long");
    return 0;
}

struct lines {
    const char *at;
    const char *end;
};

/* The next line without its CR LF; false behind the last. DATA has passed http_scan, so each line
 * has its end. */
static bool next_line(struct lines *lines, struct http_span *line)
{
    const char *lf = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));

    if (lf == NULL)
        return false;
    *line = (struct http_span){ lines->at, (size_t)(lf - 1 - lines->at) };
    lines->at = lf + 1;
    return line->len > 0;
}

static int split_header(struct http_span line, struct http_span *name, struct http_span *value,
                        struct error *err)
{
    const char *colon;

    if (line.at[0] == ' ' || line.at[0] == '\t')
        return http_refuse(err, 400, "folded_header", "a header line that starts with white space");
    colon = memchr(line.at, ':', line.len);
    if (colon == NULL)
        return http_refuse(err, 400, "header_without_colon", "a header line without a colon");
    *name = (struct http_span){ line.at, (size_t)(colon - line.at) };
    if (!http_token_valid(name->at, name->len))
        return http_refuse(err, 400, "bad_header_name", "a header name that is no token");
    *value = span_trim((struct http_span){ colon + 1, line.len - name->len - 1 });
    return 0;
}

/* Values
 * --------------------------------------------------------------------------------------------------------
 */

static int read_length(struct http_span value, uint64_t *out, struct error *err)
{
    uint64_t length = 0;

    if (value.len == 0 || value.len > LENGTH_DIGITS_MAX)
        return http_refuse(err, 400, "bad_content_length", "Content-Length is not a number");
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return http_refuse(err, 400, "bad_content_length", "Content-Length is not a number");
        length = length * 10 + (uint64_t)(value.at[i] - '0'); /* 19 digits always fit */
    }
    if (length > INT64_MAX)
        return http_refuse(err, 400, "bad_content_length", "Content-Length is too large");
    *out = length;
    return 0;
}

static bool port_valid(const char *text, size_t len)
{
    uint32_t port = 0;

    if (len == 0 || len > 5 || text[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    return port <= 65535;
}

static bool is_host_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '.' || c == '_';
}

/* Length of the host part in "host", "host:port", "[v6]:port"; 0 when it isn't one. */
static size_t host_length(struct http_span text)
{
    size_t len = 0;

    if (text.len > 0 && text.at[0] == '[') {
        for (len = 1; len < text.len && text.at[len] != ']'; len++)
            if (strchr("0123456789abcdefABCDEF:.", text.at[len]) == NULL)
                return 0;
        return len > 2 && len < text.len ? len + 1 : 0;
    }
    while (len < text.len && is_host_char(text.at[len]))
        len++;
    return len;
}

enum port_need { PORT_OPTIONAL, PORT_REQUIRED };

static bool authority_valid(struct http_span text, enum port_need need)
{
    size_t host_len = host_length(text);

    if (host_len == 0 || text.len > HOST_MAX)
        return false;
    if (host_len == text.len)
        return need == PORT_OPTIONAL;
    return text.at[host_len] == ':' && port_valid(text.at + host_len + 1, text.len - host_len - 1);
}

/* "a" and "a:80" are the same authority for http. */
static struct http_span without_default_port(struct http_span authority)
{
    if (authority.len > 3 && memcmp(authority.at + authority.len - 3, ":80", 3) == 0)
        authority.len -= 3;
    return authority;
}

static bool same_authority(struct http_span a, struct http_span b)
{
    a = without_default_port(a);
    b = without_default_port(b);
    return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

/* Request line
 * ---------------------------------------------------------------------------------------------------
 */

static int check_target_chars(struct http_span target, struct error *err)
{
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.at[i];

        if (c <= 0x20 || c >= 0x7f)
            return http_refuse(err, 400, "bad_target",
                               "a byte in the target that must be percent-encoded");
        if (c == '#' || c == '\\' || c == '"' || c == '<' || c == '>')
            return http_refuse(err, 400, "bad_target", "a character that a target must not hold");
        if (c != '%')
            continue;
        if (target.len - i < 3 || memchr("0123456789abcdefABCDEF", target.at[i + 1], 22) == NULL ||
            memchr("0123456789abcdefABCDEF", target.at[i + 2], 22) == NULL)
            return http_refuse(err, 400, "bad_percent",
                               "a percent sign without two hexadecimal digits");
    }
    return 0;
}

static int read_version(struct http_span text, int *minor, struct error *err)
{
    if (text.len == 8 && memcmp(text.at, "HTTP/1.", 7) == 0 &&
        (text.at[7] == '0' || text.at[7] == '1')) {
        *minor = text.at[7] - '0';
        return 0;
    }
    if (text.len == 8 && memcmp(text.at, "HTTP/", 5) == 0 && text.at[5] >= '0' &&
        text.at[5] <= '9' && text.at[6] == '.' && text.at[7] >= '0' && text.at[7] <= '9')
        return http_refuse(err, 505, "bad_version", "only HTTP/1.0 and HTTP/1.1 are spoken here");
    return http_refuse(err, 400, "bad_version", "the request line has no valid version");
}

static struct http_span absolute_authority(struct http_span target)
{
    struct http_span authority = { target.at + 7, target.len - 7 };

    for (size_t i = 0; i < authority.len; i++)
        if (authority.at[i] == '/' || authority.at[i] == '?') {
            authority.len = i;
            break;
        }
    return authority;
}

static int read_target(struct http_head *head, struct error *err)
{
    struct http_span target = head->target;

    if (span_is(head->method, "CONNECT")) {
        head->target_kind = HTTP_TARGET_AUTHORITY;
        if (!authority_valid(target, PORT_REQUIRED))
            return http_refuse(err, 400, "bad_target", "CONNECT needs host:port");
        return 0;
    }
    if (target.at[0] == '/') {
        head->target_kind = HTTP_TARGET_ORIGIN;
        return 0;
    }
    if (target.len == 1 && target.at[0] == '*' && span_is(head->method, "OPTIONS")) {
        head->target_kind = HTTP_TARGET_ASTERISK;
        return 0;
    }
    if (target.len > 7 && strncasecmp(target.at, "http://", 7) == 0) {
        head->target_kind = HTTP_TARGET_ABSOLUTE;
        if (!authority_valid(absolute_authority(target), PORT_OPTIONAL))
            return http_refuse(err, 400, "bad_target", "the target's host is not valid");
        return 0;
    }
    return http_refuse(err, 400, "bad_target", "the target has none of the allowed forms");
}

static int read_request_line(struct http_span line, struct http_head *head, struct error *err)
{
    const char *space = memchr(line.at, ' ', line.len);
    const char *end = line.at + line.len;
    const char *second;

    if (space == NULL)
        return http_refuse(err, 400, "bad_request_line", "the request line has no target");
    head->method = (struct http_span){ line.at, (size_t)(space - line.at) };
    if (head->method.len == 0 || head->method.len > METHOD_MAX)
        return http_refuse(err, 400, "bad_method", "the method is not valid");
    for (size_t i = 0; i < head->method.len; i++)
        if ((head->method.at[i] < 'A' || head->method.at[i] > 'Z') && head->method.at[i] != '-')
            return http_refuse(err, 400, "bad_method", "the method is not valid");
    second = memchr(space + 1, ' ', (size_t)(end - space - 1));
    if (second == NULL)
        return http_refuse(err, 400, "bad_request_line", "the request line has no version");
    head->target = (struct http_span){ space + 1, (size_t)(second - space - 1) };
    if (head->target.len > HTTP_TARGET_MAX)
        return http_refuse(err, 414, "target_too_long", "the request target is too long");
    if (head->target.len == 0)
        return http_refuse(err, 400, "bad_request_line", "the request line has no target");
    if (read_version((struct http_span){ second + 1, (size_t)(end - second - 1) }, &head->minor,
                     err) < 0 ||
        check_target_chars(head->target, err) < 0)
        return -1;
    return read_target(head, err);
}

/* Header lines
 * ---------------------------------------------------------------------------------------------------
 */

/* Names that decide over framing, routing or credentials: they may neither be nominated by
 * Connection nor be imitated with an underscore, which some servers read as a hyphen. */
static const char *const critical_names[] = {
    "host",          "content-length", "transfer-encoding",
    "authorization", "x-api-key",      "x-goog-api-key",
    "api-key",       "cookie",         "proxy-authorization",
    "expect",
};
static const char *const hyphen_names[] = { "connection", "upgrade",    "te",
                                            "trailer",    "keep-alive", "proxy-connection" };

static bool is_critical(struct http_span name)
{
    for (size_t i = 0; i < ARRAY_LEN(critical_names); i++)
        if (span_is(name, critical_names[i]))
            return true;
    return false;
}

static bool has_underscore_twin(struct http_span name)
{
    char plain[32];
    struct http_span hyphens = { plain, name.len };

    if (memchr(name.at, '_', name.len) == NULL || name.len >= sizeof(plain))
        return false;
    for (size_t i = 0; i < name.len; i++)
        plain[i] = name.at[i] == '_' ? '-' : name.at[i];
    for (size_t i = 0; i < ARRAY_LEN(hyphen_names); i++)
        if (span_is(hyphens, hyphen_names[i]))
            return true;
    return is_critical(hyphens);
}

static int read_connection(struct http_span value, struct http_head *head, struct error *err)
{
    while (value.len > 0) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma != NULL ? (size_t)(comma - value.at) : value.len;
        struct http_span token = span_trim((struct http_span){ value.at, len });

        if (token.len > 0 && !http_token_valid(token.at, token.len))
            return http_refuse(err, 400, "bad_connection", "Connection is not a list of tokens");
        if (is_critical(token))
            return http_refuse(err, 400, "bad_connection",
                               "Connection names a header that it must not name");
        if (span_is(token, "close"))
            head->keep_alive = false;
        len += comma != NULL ? 1 : 0;
        value.at += len;
        value.len -= len;
    }
    return 0;
}

struct seen {
    bool host;
    bool length;
    bool encoding;
    bool expect;
};

static int read_framing(struct http_span name, struct http_span value, struct http_head *head,
                        struct seen *seen, struct error *err)
{
    if (span_is(name, "content-length")) {
        if (seen->length)
            return http_refuse(err, 400, "duplicate_content_length",
                               "more than one Content-Length");
        seen->length = true;
        head->body_kind = HTTP_BODY_LENGTH;
        return read_length(value, &head->content_length, err);
    }
    if (span_is(name, "transfer-encoding")) {
        if (seen->encoding)
            return http_refuse(err, 400, "duplicate_transfer_encoding",
                               "more than one Transfer-Encoding");
        seen->encoding = true;
        head->body_kind = HTTP_BODY_CHUNKED;
        if (!span_is(value, "chunked"))
            return http_refuse(err, 501, "bad_transfer_encoding",
                               "the only transfer coding here is chunked");
    }
    return 0;
}

static int read_header(struct http_span name, struct http_span value, struct http_head *head,
                       struct seen *seen, struct error *err)
{
    if (has_underscore_twin(name))
        return http_refuse(err, 400, "bad_header_name",
                           "a header name with an underscore in place of a hyphen");
    if (span_is(name, "host")) {
        if (seen->host)
            return http_refuse(err, 400, "duplicate_host", "more than one Host");
        seen->host = true;
        head->host = value;
        if (!authority_valid(value, PORT_OPTIONAL))
            return http_refuse(err, 400, "bad_host", "Host is not valid");
        return 0;
    }
    if (span_is(name, "expect")) {
        if (seen->expect || !span_is(value, "100-continue"))
            return http_refuse(err, 417, "bad_expect", "the only expectation here is 100-continue");
        seen->expect = true;
        return 0;
    }
    if (span_is(name, "connection"))
        return read_connection(value, head, err);
    return read_framing(name, value, head, seen, err);
}

/* What only the whole head can tell. */
static int check_whole(struct http_head *head, const struct seen *seen, struct error *err)
{
    /* Old clients ask for a tunnel in HTTP/1.0, which knows no Host. */
    head->host_implied =
        !seen->host && head->minor == 0 && head->target_kind == HTTP_TARGET_AUTHORITY;
    if (head->host_implied)
        head->host = head->target;
    else if (!seen->host)
        return http_refuse(err, 400, "no_host", "Host is missing");
    if (seen->length && seen->encoding)
        return http_refuse(err, 400, "length_and_encoding",
                           "both Content-Length and Transfer-Encoding");
    if (seen->encoding && head->minor == 0)
        return http_refuse(err, 400, "encoding_on_http10", "Transfer-Encoding in HTTP/1.0");
    if (head->target_kind == HTTP_TARGET_ABSOLUTE &&
        !same_authority(absolute_authority(head->target), head->host))
        return http_refuse(err, 400, "host_mismatch", "the target's host differs from Host");
    if (head->target_kind == HTTP_TARGET_AUTHORITY && head->body_kind != HTTP_BODY_NONE)
        return http_refuse(err, 400, "connect_with_body", "CONNECT with a body");
    head->expect_continue = seen->expect && head->minor == 1 && head->body_kind != HTTP_BODY_NONE;
    return 0;
}

/* Finds the only head in DATA and steps over one leading empty line. */
static int open_head(const char *data, size_t len, struct lines *lines, struct error *err)
{
    struct http_scan scan = { 0 };
    size_t head_len = 0;
    int found = http_scan(&scan, data, len, &head_len, err);

    if (found < 0)
        return -1;
    if (found == 0 || head_len != len)
        return http_refuse(err, 400, "incomplete_head", "the head has no end");
    *lines = (struct lines){ data, data + len };
    if (len >= 2 && data[0] == '\r')
        lines->at += 2;
    return 0;
}

int http_head_read(const char *data, size_t len, struct http_head *head, struct error *err)
{
    struct seen seen = { 0 };
    struct lines lines;
    struct http_span line;

    memset(head, 0, sizeof(*head));
    if (open_head(data, len, &lines, err) < 0)
        return -1;
    if (!next_line(&lines, &line))
        return http_refuse(err, 400, "bad_request_line",
                           "an empty line where the request line should be");
    if (read_request_line(line, head, err) < 0)
        return -1;
    head->keep_alive = head->minor == 1;
    while (next_line(&lines, &line)) {
        struct http_span name;
        struct http_span value;

        if (++head->header_count > HTTP_HEADERS_MAX)
            return http_refuse(err, 431, "too_many_headers", "too many header lines");
        if (split_header(line, &name, &value, err) < 0 ||
            read_header(name, value, head, &seen, err) < 0)
            return -1;
    }
    return check_whole(head, &seen, err);
}

int http_head_check(const char *data, size_t len, struct error *err)
{
    struct http_head head;

    return http_head_read(data, len, &head, err);
}

/* Response heads
 * -------------------------------------------------------------------------------------------------
 */

static int read_status_line(struct http_span line, struct http_response_head *head,
                            struct error *err)
{
    int status = 0;

    if (line.len < 12 || memcmp(line.at, "HTTP/1.", 7) != 0 ||
        (line.at[7] != '0' && line.at[7] != '1') || line.at[8] != ' ')
        return http_refuse(err, 502, "bad_status_line", "the status line is not valid");
    for (size_t i = 9; i < 12; i++) {
        if (line.at[i] < '0' || line.at[i] > '9')
            return http_refuse(err, 502, "bad_status_line", "the status line is not valid");
        status = status * 10 + (line.at[i] - '0');
    }
    /* A missing space before an empty reason is common and harmless. */
    if (status < 100 || (line.len > 12 && line.at[12] != ' '))
        return http_refuse(err, 502, "bad_status_line", "the status line is not valid");
    head->status = status;
    return 0;
}

static int read_response_header(struct http_span name, struct http_span value,
                                struct http_response_head *head, struct seen *seen,
                                struct error *err)
{
    struct http_head framing = { 0 };

    if (read_framing(name, value, &framing, seen, err) < 0)
        return -1;
    if (span_is(name, "content-length"))
        head->content_length = (int64_t)framing.content_length;
    if (span_is(name, "transfer-encoding"))
        head->chunked = true;
    AUTO_FREE
    char *name_text = mem_strndup(name.at, name.len);
    AUTO_FREE
    char *value_text = mem_strndup(value.at, value.len);
    http_headers_add(&head->headers, name_text, value_text);
    return 0;
}

int http_response_check(const char *data, size_t len, struct http_response_head *head,
                        struct error *err)
{
    struct seen seen = { 0 };
    struct lines lines;
    struct http_span line;
    size_t count = 0;

    head->content_length = -1;
    if (open_head(data, len, &lines, err) < 0)
        return -1;
    if (lines.at != data || !next_line(&lines, &line))
        return http_refuse(err, 502, "bad_status_line",
                           "an empty line where the status line should be");
    if (read_status_line(line, head, err) < 0)
        return -1;
    while (next_line(&lines, &line)) {
        struct http_span name;
        struct http_span value;

        if (++count > HTTP_HEADERS_MAX)
            return http_refuse(err, 502, "too_many_headers", "too many header lines");
        if (split_header(line, &name, &value, err) < 0 ||
            read_response_header(name, value, head, &seen, err) < 0)
            return -1;
    }
    if (seen.length && seen.encoding)
        return http_refuse(err, 502, "length_and_encoding",
                           "both Content-Length and Transfer-Encoding");
    return 0;
}

void http_response_head_finish(struct http_response_head *head)
{
    http_headers_finish(&head->headers);
}
