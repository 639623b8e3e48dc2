#include "proxy/model_watch.h"

#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"

#define START_MAX (8u << 10)
#define LINE_MAX_BYTES (4u << 10)

void model_watch_init(struct model_watch *watch, int status, bool stream)
{
    *watch = (struct model_watch){ .stream = stream && status == 200,
                                   .failed_status = status >= 400,
                                   .error = status >= 400 };
    sse_end_init(&watch->end);
    buf_init(&watch->start, START_MAX);
    buf_init(&watch->line, LINE_MAX_BYTES);
}

void model_watch_finish(struct model_watch *watch)
{
    buf_finish(&watch->start);
    buf_finish(&watch->line);
}

/* One line of printable text, cut. */
static void set_words(struct model_watch *watch, const char *text, size_t len)
{
    size_t out = 0;

    if (len >= sizeof(watch->words))
        len = str_utf8_cut(text, sizeof(watch->words) - 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c < ' ' || c == 0x7f)
            c = ' ';
        if (c != ' ' || (out > 0 && watch->words[out - 1] != ' '))
            watch->words[out++] = (char)c;
    }
    if (out > 0 && watch->words[out - 1] == ' ')
        out--;
    watch->words[out] = '\0';
}

/* {"error":{"message"}}, {"error":"text"}, {"message"}, and Google's list of one of them. */
static const char *find_words(const struct json_value *root)
{
    const struct json_value *object = json_kind(root) == JSON_KIND_ARRAY ? json_first(root) : root;
    const struct json_value *error = json_get(object, "error");
    const char *words = json_string(json_get(error, "message"));

    if (words == NULL)
        words = json_string(error);
    return words != NULL ? words : json_string(json_get(object, "message"));
}

static bool has_error(const struct json_value *root)
{
    const char *type = json_string(json_get(root, "type"));

    return json_kind(json_get(root, "error")) == JSON_KIND_OBJECT ||
           str_equal(type, "response.failed") || str_equal(type, "error");
}

/* A name, and nothing that a person would have to be protected from. */
static bool str_is_ascii_word(const char *text)
{
    return text[strspn(
               text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] == '\0';
}

/* The words of an error in JSON. False: it is none. */
static bool read_json(struct model_watch *watch, const char *text, size_t len, bool surely_error)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;
    const char *words;

    if (json_parse(&doc, text, len, len, &ignored) < 0)
        return false;
    if (!surely_error && !has_error(json_root(doc)))
        return false;
    words = json_string(json_path(json_root(doc), "error.type"));
    if (words != NULL && str_is_ascii_word(words))
        str_copy(watch->type, sizeof(watch->type), words);
    words = find_words(json_root(doc));
    if (words == NULL)
        words = json_string(json_path(json_root(doc), "response.error.message"));
    if (words != NULL)
        set_words(watch, words, strlen(words));
    return true;
}

/* A page for people: its text without the tags. */
static void read_page(struct model_watch *watch, const char *text, size_t len)
{
    AUTO_BUF struct buf plain;
    bool inside = false;

    buf_init(&plain, START_MAX);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '<' || text[i] == '>') {
            inside = text[i] == '<';
            buf_append_char(&plain, ' ');
        } else if (!inside && text[i] != '\0') {
            buf_append_char(&plain, text[i]);
        }
    }
    if (str_is_utf8(plain.data, plain.len))
        set_words(watch, buf_text(&plain), plain.len);
}

static void end_line(struct model_watch *watch)
{
    const char *text = buf_text(&watch->line);

    if (!watch->line_too_long && str_starts(text, "data:") && strstr(text, "\"error\"") != NULL) {
        text += strlen("data:");
        watch->error |= read_json(watch, text, strlen(text), false);
    }
    buf_clear(&watch->line);
    watch->line_too_long = false;
}

static void feed_lines(struct model_watch *watch, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t piece = end != NULL ? (size_t)(end - bytes) : len;

        if (watch->line.len + piece >= LINE_MAX_BYTES)
            watch->line_too_long = true;
        else
            buf_append(&watch->line, bytes, piece);
        if (end == NULL)
            return;
        end_line(watch);
        bytes += piece + 1;
        len -= piece + 1;
    }
}

void model_watch_feed(struct model_watch *watch, const char *bytes, size_t len)
{
    if (watch->stream) {
        sse_end_feed(&watch->end, bytes, len);
        feed_lines(watch, bytes, len);
        return;
    }
    if (len > START_MAX - watch->start.len)
        len = START_MAX - watch->start.len;
    buf_append(&watch->start, bytes, len);
}

void model_watch_end(struct model_watch *watch)
{
    const char *text = buf_text(&watch->start);
    size_t len = watch->start.len;

    if (watch->stream) {
        end_line(watch);
        return;
    }
    if (len == 0)
        return;
    if (read_json(watch, text, len, watch->failed_status)) {
        watch->error = true;
        return;
    }
    if (watch->failed_status)
        read_page(watch, text, len);
}
