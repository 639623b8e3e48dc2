#include "agent/opencode/opencode_verdict.h"

#include <string.h>

#include "agent/agent_json.h"
#include "common/failure.h"
#include "common/mem.h"
#include "common/str.h"

#define OUTPUT_MAX (256 * 1024)

void opencode_failure_set(struct opencode_failure *failure, const char *code, const char *message)
{
    const struct failure_kind *kind = failure_find(code);

    if (kind == NULL)
        BUG("failure code without a row");
    failure->code = kind->code;
    failure->hint = kind->hint;
    failure->retryable = kind->retryable;
    failure->aborted = false;
    str_copy(failure->message, sizeof(failure->message), message);
}

/* Errors -------------------------------------------------------------------------------------- */

/* OpenCode's own errors, by name and by what the message holds; NULL: any, "" always. Words come
 * before the status, because providers say "out of credit" under several of them. */
static const struct {
    const char *name;
    const char *words;
    const char *code;
} own_errors[] = {
    { "ContextOverflowError", "", "context_overflow" },
    { "ContentFilterError", "", "content_refused" },
    { "ProviderAuthError", "", "model_auth" },
    { NULL, "Model not found", "model_unknown" },
    { NULL, "Agent not found", "agent_unsupported" },
    { NULL, "All fibers interrupted", "agent_crashed" },
};

static const char *find_own(const char *name, const char *message)
{
    for (size_t i = 0; i < ARRAY_LEN(own_errors); i++) {
        if (own_errors[i].name != NULL && !str_equal(own_errors[i].name, name))
            continue;
        if (strstr(message, own_errors[i].words) != NULL)
            return own_errors[i].code;
    }
    return NULL;
}

static const char *find_code(const char *name, const char *message, const char *body,
                             uint64_t status)
{
    const char *code = find_own(name, message);

    if (code == NULL)
        code = failure_of_words(message);
    if (code == NULL)
        code = failure_of_words(body);
    if (code == NULL)
        code = failure_of_status(status);
    if (code == NULL && status < 500)
        code = failure_of_symptom(message);
    if (code == NULL && status < 500)
        code = failure_of_symptom(body);
    return code;
}

static const char *text_or_empty(const struct json_value *value)
{
    const char *text = json_string(value);

    return text != NULL ? text : "";
}

/* The first line of what a person should read: an error in mid-stream arrives as the provider's
 * JSON, one of OpenCode's own as a text with a stack behind it. */
static void copy_words(char *to, size_t size, const char *message)
{
    AUTO_FREE
    char *copy = mem_strdup(message);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;
    const char *inner = NULL;

    if (message[0] == '{' &&
        agent_json_parse(&doc, copy, strlen(copy), strlen(copy), &ignored) == 0) {
        inner = json_string(json_path(json_root(doc), "error.message"));
        if (inner == NULL)
            inner = json_string(json_get(json_root(doc), "message"));
    }
    if (inner == NULL) {
        char *stack = strstr(copy, "\n    at ");

        if (stack != NULL)
            *stack = '\0';
        inner = copy;
    }
    str_copy(to, size, inner);
    for (char *c = to; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    }
}

void opencode_failure_read(struct opencode_failure *failure, const struct json_value *error)
{
    const struct json_value *data = json_get(error, "data");
    const char *name = text_or_empty(json_get(error, "name"));
    const char *message = text_or_empty(json_get(data, "message"));
    const char *body = text_or_empty(json_get(data, "responseBody"));
    uint64_t status = json_u64(json_get(data, "statusCode"), 0);
    const char *code = find_code(name, message, body, status);
    char words[sizeof(failure->message)];

    *failure = (struct opencode_failure){ .code = "", .hint = "" };
    if (json_kind(error) != JSON_KIND_OBJECT)
        return;
    copy_words(words, sizeof(words), message[0] != '\0' ? message : name);
    if (str_equal(name, "MessageAbortedError")) {
        failure->aborted = true;
        str_copy(failure->message, sizeof(failure->message), words);
        return;
    }
    opencode_failure_set(failure, code != NULL ? code : "model_error", words);
    if (code == NULL && status >= 400 && status < 500)
        failure->retryable = false;
}

/* The verdict --------------------------------------------------------------------------------- */

void opencode_verdict_init(struct opencode_verdict *verdict)
{
    *verdict =
        (struct opencode_verdict){ .kind = OPENCODE_VERDICT_MISSING, .end = AGENT_END_FAILED };
    verdict->failure.code = verdict->failure.hint = "";
    buf_init(&verdict->output, OUTPUT_MAX);
}

void opencode_verdict_finish(struct opencode_verdict *verdict)
{
    buf_finish(&verdict->output);
}

static void append_text(struct buf *output, const char *text)
{
    size_t len = strlen(text);
    size_t room = output->max - output->len;

    if (str_blank(text))
        return;
    if (output->len > 0 && room > 2) {
        buf_append(output, "\n\n", 2);
        room -= 2;
    }
    buf_append(output, text, len <= room ? len : str_utf8_cut(text, room));
}

static void read_parts(struct opencode_verdict *verdict, const struct json_value *parts)
{
    for (const struct json_value *part = json_first(parts); part != NULL; part = json_next(part)) {
        const char *type = text_or_empty(json_get(part, "type"));
        const char *status = text_or_empty(json_path(part, "state.status"));

        if (str_equal(type, "text") && !json_bool(json_get(part, "synthetic"), false) &&
            !json_bool(json_get(part, "ignored"), false))
            append_text(&verdict->output, text_or_empty(json_get(part, "text")));
        if (str_equal(type, "tool") &&
            (str_equal(status, "running") || str_equal(status, "pending")))
            verdict->tool_running = true;
    }
}

static const struct json_value *newest_answer(struct opencode_verdict *verdict,
                                              const struct json_value *messages,
                                              const char *prompt_id)
{
    const struct json_value *newest = NULL;
    bool behind = false;

    for (const struct json_value *message = json_first(messages); message != NULL;
         message = json_next(message)) {
        const struct json_value *info = json_get(message, "info");
        const char *role = text_or_empty(json_get(info, "role"));

        if (str_equal(role, "user") && str_equal(text_or_empty(json_get(info, "id")), prompt_id))
            behind = true;
        else if (str_equal(role, "assistant") &&
                 (behind || str_equal(text_or_empty(json_get(info, "parentID")), prompt_id)))
            newest = message;
        if (newest != NULL)
            behind = true;
    }
    if (behind)
        verdict->kind = OPENCODE_VERDICT_SILENT;
    return newest;
}

static void judge_finish(struct opencode_verdict *verdict, const struct json_value *info)
{
    if (str_equal(verdict->finish, "stop")) {
        bool whole = verdict->output.len > 0 && !json_bool(json_get(info, "summary"), false);

        verdict->end = whole ? AGENT_END_DONE : AGENT_END_INCOMPLETE;
    } else if (str_equal(verdict->finish, "length") || str_equal(verdict->finish, "tool-calls")) {
        verdict->end = AGENT_END_INCOMPLETE;
    } else if (str_equal(verdict->finish, "content-filter")) {
        verdict->end = AGENT_END_FAILED;
        opencode_failure_set(&verdict->failure, "content_refused",
                             "the provider's content filter stopped the answer");
    } else {
        verdict->end = AGENT_END_FAILED;
        opencode_failure_set(&verdict->failure, "model_error",
                             "the model's answer ended without saying why");
    }
}

void opencode_verdict_read(struct opencode_verdict *verdict, const struct json_value *messages,
                           const char *prompt_id)
{
    const struct json_value *answer = newest_answer(verdict, messages, prompt_id);
    const struct json_value *info = json_get(answer, "info");
    const struct json_value *error = json_get(info, "error");

    if (answer == NULL)
        return;
    read_parts(verdict, json_get(answer, "parts"));
    str_copy(verdict->finish, sizeof(verdict->finish), text_or_empty(json_get(info, "finish")));
    if (json_kind(error) == JSON_KIND_OBJECT) {
        verdict->kind = OPENCODE_VERDICT_ENDED;
        opencode_failure_read(&verdict->failure, error);
        verdict->end = verdict->failure.aborted ? AGENT_END_ABORTED : AGENT_END_FAILED;
        return;
    }
    if (json_u64(json_path(info, "time.completed"), 0) == 0) {
        verdict->kind = OPENCODE_VERDICT_OPEN;
        return;
    }
    verdict->kind = OPENCODE_VERDICT_ENDED;
    judge_finish(verdict, info);
}
