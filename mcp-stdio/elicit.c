#include "mcp-stdio/elicit.h"

#include <stdio.h>
#include <string.h>

#include "common/str.h"
#include "proto/msg_run.h"

#define QUESTIONS_MAX 16
#define TEXT_MAX 4000
#define NAME_SIZE 16

static const struct json_value *request_of(const struct json_value *view)
{
    return json_get(view, "request");
}

bool elicit_wanted(const struct json_value *view)
{
    return str_equal(json_string(json_get(view, "status")), run_status_names[RUN_STATUS_WAITING]) &&
           json_string(json_get(request_of(view), "requestId")) != NULL;
}

/* The form ------------------------------------------------------------------------------------- */

/* "answer" when there is one question, else "answer1" and so on. */
static void name_field(char name[NAME_SIZE], const char *word, size_t number)
{
    if (number == 0)
        snprintf(name, NAME_SIZE, "%s", word);
    else
        snprintf(name, NAME_SIZE, "%s%u", word, (unsigned)number);
}

static bool has_options(const struct json_value *question)
{
    return json_count(json_get(question, "options")) > 0;
}

static void write_string_field(struct json_writer *writer, const char *name, const char *title,
                               const struct json_value *options)
{
    json_write_name(writer, name);
    json_write_object(writer);
    json_member_string(writer, "type", "string");
    json_member_string_opt(writer, "title", title);
    if (options) {
        json_write_name(writer, "enum");
        json_write_array(writer);
        for (const struct json_value *option = json_first(options); option;
             option = json_next(option))
            json_write_string(writer, json_string(option));
        json_write_array_end(writer);
    }
    json_write_object_end(writer);
}

/* A choice, and beside it room for something else where the agent takes that. */
static void write_question(struct json_writer *writer, const struct json_value *question,
                           const char *title, size_t number)
{
    bool free_text = !str_equal(json_string(json_get(question, "kind")), "permission");
    char name[NAME_SIZE];

    name_field(name, "answer", number);
    write_string_field(writer, name, title,
                       has_options(question) ? json_get(question, "options") : NULL);
    if (!has_options(question) || !free_text)
        return;
    name_field(name, "other", number);
    write_string_field(writer, name, "Or something else", NULL);
}

static void write_properties(struct json_writer *writer, const struct json_value *request)
{
    const struct json_value *questions = json_get(request, "questions");
    size_t number = 0;

    if (json_count(questions) < 2) {
        write_question(writer, request, "Answer", 0);
        return;
    }
    for (const struct json_value *question = json_first(questions);
         question && number < QUESTIONS_MAX; question = json_next(question))
        write_question(writer, question, json_string(json_get(question, "question")), ++number);
}

/* With a choice and free text beside each other neither can be required. */
static void write_required(struct json_writer *writer, const struct json_value *request)
{
    bool permission = str_equal(json_string(json_get(request, "kind")), "permission");

    if (json_count(json_get(request, "questions")) >= 2 || (has_options(request) && !permission))
        return;
    json_write_name(writer, "required");
    json_write_array(writer);
    json_write_string(writer, "answer");
    json_write_array_end(writer);
}

static void write_message(struct json_writer *writer, const struct json_value *view)
{
    AUTO_BUF struct buf text = BUF_INIT(2 * TEXT_MAX);
    const struct json_value *request = request_of(view);
    const char *title = json_string(json_get(view, "title"));
    const char *words = json_string(json_get(request, "text"));
    size_t len = words ? strlen(words) : 0;

    buf_append_str(&text, "The coding agent");
    if (title)
        buf_printf(&text, " of “%.200s”", title);
    buf_append_str(&text, str_equal(json_string(json_get(request, "kind")), "permission")
                              ? " asks for permission"
                              : " asks");
    if (len) {
        buf_append_str(&text, ": ");
        buf_append(&text, words, len <= TEXT_MAX ? len : str_utf8_cut(words, TEXT_MAX));
    }
    json_member_string(writer, "message", buf_text(&text));
}

void elicit_write(struct json_writer *writer, const struct json_value *view, const char *revision)
{
    const struct json_value *request = request_of(view);

    if (strcmp(revision, "2025-11-25") >= 0)
        json_member_string(writer, "mode", "form");
    write_message(writer, view);
    json_write_name(writer, "requestedSchema");
    json_write_object(writer);
    json_member_string(writer, "type", "object");
    json_write_name(writer, "properties");
    json_write_object(writer);
    write_properties(writer, request);
    json_write_object_end(writer);
    write_required(writer, request);
    json_write_object_end(writer);
}

void elicit_write_input(struct json_writer *writer, const struct json_value *view,
                        const char *revision)
{
    json_write_name(writer, json_string(json_get(request_of(view), "requestId")));
    json_write_object(writer);
    json_member_string(writer, "method", "elicitation/create");
    json_write_name(writer, "params");
    json_write_object(writer);
    elicit_write(writer, view, revision);
    json_write_object_end(writer);
    json_write_object_end(writer);
}

/* The answer ----------------------------------------------------------------------------------- */

/* Free text is meant more than a choice. */
static const char *field_of(const struct json_value *content, size_t number)
{
    char name[NAME_SIZE];
    const char *text;

    name_field(name, "other", number);
    text = json_string(json_get(content, name));
    if (text && !str_blank(text))
        return text;
    name_field(name, "answer", number);
    text = json_string(json_get(content, name));
    return text && !str_blank(text) ? text : NULL;
}

static void append_line(struct buf *answer, const char *text)
{
    for (; *text; text++)
        buf_append_char(answer, *text == '\n' || *text == '\r' ? ' ' : *text);
}

bool elicit_read(const struct json_value *result, struct buf *answer)
{
    const struct json_value *content = json_get(result, "content");
    const char *only = field_of(content, 0);
    size_t given = 0;

    if (!str_equal(json_string(json_get(result, "action")), "accept"))
        return false;
    if (only) {
        append_line(answer, only);
        return true;
    }
    for (size_t number = 1; number <= QUESTIONS_MAX; number++) {
        const char *text = field_of(content, number);

        if (!text)
            break;
        if (given++)
            buf_append_char(answer, '\n');
        append_line(answer, text);
    }
    return given > 0;
}
