/* forge_answer.c: what forges answer, which may be anything. */
#include "forge/forge.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"

#define URL_MAX 2000
#define NAME_MAX_BYTES 500
#define WORDS_MAX 200

void forge_pull_finish(struct forge_pull *pull)
{
    free(pull->url);
    free(pull->title);
    free(pull->body);
    free(pull->head);
    free(pull->base);
    *pull = (struct forge_pull){ 0 };
}

/* Problems
 * ------------------------------------------------------------------------------------------- */

static const struct trouble_info {
    const char *code;
    bool retryable;
} troubles[] = {
    [FORGE_UNREADABLE] = { "forge_unreadable", false },
    [FORGE_REDIRECT] = { "forge_redirect", false },
    [FORGE_BAD_TOKEN] = { "forge_bad_token", false },
    [FORGE_NO_PERMISSION] = { "forge_no_permission", false },
    [FORGE_EXISTS] = { "forge_exists", true },
    [FORGE_NO_DRAFT] = { "forge_no_draft", false },
    [FORGE_REFUSED] = { "forge_refused", false },
    [FORGE_BUSY] = { "forge_busy", true },
};

/* The forge's own words behind MESSAGE, escaped and cut. */
static int problem_set(struct forge_problem *problem, enum forge_trouble trouble,
                       const char *message, const char *words, const char *hint)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);

    buf_append_str(&text, message);
    if (words[0] != '\0') {
        buf_append_str(&text, ": ");
        str_append_escaped(&text, words, strlen(words), WORDS_MAX);
    }
    *problem = (struct forge_problem){ .trouble = trouble,
                                       .code = troubles[trouble].code,
                                       .retryable = troubles[trouble].retryable };
    str_copy(problem->message, sizeof(problem->message), buf_text(&text));
    str_copy(problem->hint, sizeof(problem->hint), hint);
    return -1;
}

static void add_words(struct buf *out, const struct json_value *value)
{
    const char *text = json_string(value);

    if (text == NULL || text[0] == '\0')
        return;
    if (out->len > 0)
        buf_append_str(out, "; ");
    buf_printf(out, "%.*s",
               (int)str_utf8_cut(text, strlen(text) < WORDS_MAX ? strlen(text) : WORDS_MAX), text);
}

/* {"message":"…","errors":[{"message":"…"}]}, {"message":["…"]}, {"error":"…","error_description"}
 */
static void read_words(const struct json_value *root, struct buf *out)
{
    const struct json_value *message = json_get(root, "message");
    unsigned count = 0;

    add_words(out, message);
    add_words(out, json_get(root, "error"));
    add_words(out, json_get(root, "error_description"));
    for (const struct json_value *one = json_kind(message) == JSON_KIND_ARRAY ? json_first(message)
                                                                              : NULL;
         one != NULL && count < 4; one = json_next(one), count++)
        add_words(out, one);
    for (const struct json_value *one = json_first(json_get(root, "errors"));
         one != NULL && count < 4; one = json_next(one), count++) {
        add_words(out, one);
        add_words(out, json_get(one, "message"));
    }
}

static bool says(const struct buf *words, const char *text)
{
    return strcasestr(buf_text(words), text) != NULL;
}

static int explain_permission(const struct forge *forge, const struct forge_answer *answer,
                              const struct buf *words, struct forge_problem *problem)
{
    char hint[300];
    char message[200];

    if (says(words, "rate limit"))
        return problem_set(problem, FORGE_BUSY, "the forge takes no more requests for now",
                           buf_text(words), "call again later");
    snprintf(message, sizeof(message), "the stored token lacks %s at %s (status %d)",
             forge->permission, forge->name, answer->status);
    snprintf(hint, sizeof(hint),
             "give the token this permission for the repository%s%s%s, store it again, then call "
             "again: what was pushed stays",
             answer->permissions[0] != '\0' ? " (the forge names " : "", answer->permissions,
             answer->permissions[0] != '\0' ? ")" : "");
    return problem_set(problem, FORGE_NO_PERMISSION, message, buf_text(words), hint);
}

static int explain_refusal(const struct forge *forge, int status, const struct buf *words,
                           struct forge_problem *problem)
{
    char message[200];

    if (says(words, "already exist") || status == 409)
        return problem_set(problem, FORGE_EXISTS, "the branch has one already", buf_text(words),
                           "call again");
    if (says(words, "draft"))
        return problem_set(problem, FORGE_NO_DRAFT, "drafts are not to be had for this repository",
                           buf_text(words), "call again with draft false");
    snprintf(message, sizeof(message), "%s refuses the %s (status %d)", forge->name, forge->thing,
             status);
    return problem_set(problem, FORGE_REFUSED, message, buf_text(words),
                       "correct what it names, then call again");
}

/* STATUS is no success. */
static int explain(const struct forge *forge, const struct forge_answer *answer,
                   const struct json_value *root, struct forge_problem *problem)
{
    AUTO_BUF struct buf words = BUF_INIT(4096);
    int status = answer->status;
    char message[200];

    read_words(root, &words);
    if (status >= 300 && status < 400) {
        snprintf(message, sizeof(message), "%s sends elsewhere (status %d), which is not followed",
                 forge->name, status);
        return problem_set(problem, FORGE_REDIRECT, message, "",
                           "has the repository been renamed? Use its present address in a new "
                           "session; or the service's target is not that of the API");
    }
    if (status == 401) {
        snprintf(message, sizeof(message), "%s does not know the stored token", forge->name);
        return problem_set(problem, FORGE_BAD_TOKEN, message, buf_text(&words),
                           "it may have run out: store a new one with sandboxctl secret set, then "
                           "call again");
    }
    if (status == 403 || status == 404)
        return explain_permission(forge, answer, &words, problem);
    if (status == 429 || status >= 500) {
        snprintf(message, sizeof(message), "%s can't serve this now (status %d)", forge->name,
                 status);
        return problem_set(problem, FORGE_BUSY, message, buf_text(&words), "call again later");
    }
    return explain_refusal(forge, status, &words, problem);
}

static int unreadable(const struct forge *forge, const char *why, struct forge_problem *problem)
{
    char message[200];

    snprintf(message, sizeof(message), "the answer is not one of %s's API", forge->name);
    return problem_set(problem, FORGE_UNREADABLE, message, why,
                       "does the service's target lead to the API? See sandboxctl services");
}

/* The document of an answer that is a success; else PROBLEM. */
static int open_answer(const struct forge *forge, const struct forge_answer *answer,
                       struct json_doc **doc, struct forge_problem *problem)
{
    struct error err = ERROR_INIT;
    bool good = answer->status >= 200 && answer->status < 300;
    int rc = json_parse(doc, answer->body, answer->len, FORGE_ANSWER_MAX, &err);

    if (rc < 0)
        *doc = NULL;
    if (!good)
        return explain(forge, answer, rc == 0 ? json_root(*doc) : NULL, problem);
    return rc < 0 ? unreadable(forge, err.text, problem) : 0;
}

/* Pulls
 * -----------------------------------------------------------------------------------------------
 */

/* Text of at most MAX bytes without control characters, or NULL. */
static const char *name_at(const struct json_value *value, const char *path, size_t max)
{
    const char *text = json_string(json_path(value, path));

    if (text == NULL || text[0] == '\0' || strlen(text) > max)
        return NULL;
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return NULL;
    return text;
}

static bool is_url(const char *text)
{
    if (text == NULL || (!str_starts(text, "https://") && !str_starts(text, "http://")))
        return false;
    return text[strcspn(text, " \"'<>\\`")] == '\0' && str_is_utf8(text, strlen(text));
}

static void read_title(const struct forge *forge, const struct json_value *value,
                       struct forge_pull *out)
{
    const char *title = json_string(json_get(value, "title"));
    const char *prefix = forge->draft_prefix;

    out->draft = json_bool(json_get(value, "draft"), false);
    if (title == NULL)
        title = "";
    if (prefix != NULL && strncasecmp(title, prefix, strlen(prefix)) == 0) {
        out->draft = true;
        title += strlen(prefix);
    }
    out->title =
        mem_strndup(title, str_utf8_cut(title, strlen(title) < 1000 ? strlen(title) : 1000));
}

/* False when VALUE is none. */
static bool read_pull(const struct forge *forge, const struct json_value *value,
                      struct forge_pull *out)
{
    const char *url = name_at(value, forge->url, URL_MAX);
    const char *head = name_at(value, forge->head, NAME_MAX_BYTES);
    const char *base = name_at(value, forge->base, NAME_MAX_BYTES);
    const char *body = json_string(json_path(value, forge->body));

    *out = (struct forge_pull){ .number = json_u64(json_path(value, forge->number), 0) };
    if (out->number == 0 || !is_url(url) || head == NULL || base == NULL) {
        out->number = 0;
        return false;
    }
    read_title(forge, value, out);
    out->url = mem_strdup(url);
    out->head = mem_strdup(head);
    out->base = mem_strdup(base);
    out->body = mem_strdup(body != NULL ? body : "");
    out->open = str_equal(json_string(json_get(value, "state")), forge->open);
    return true;
}

/* Not a fork's branch of the same name. */
static bool is_own(const struct forge *forge, const struct json_value *value)
{
    uint64_t head = json_u64(json_path(value, forge->head_repository), 0);
    uint64_t base = json_u64(json_path(value, forge->base_repository), 0);

    return head == 0 || base == 0 || head == base;
}

int forge_read_list(const struct forge *forge, const struct forge_answer *answer, const char *head,
                    struct forge_pull *out, bool *more, struct forge_problem *problem)
{
    AUTO_JSON struct json_doc *doc = NULL;
    const struct json_value *root;

    *out = (struct forge_pull){ 0 };
    *more = false;
    if (open_answer(forge, answer, &doc, problem) < 0)
        return -1;
    root = json_root(doc);
    if (json_kind(root) != JSON_KIND_ARRAY)
        return unreadable(forge, "no list", problem);
    *more = json_count(root) >= forge->page_size;
    for (const struct json_value *one = json_first(root); one != NULL; one = json_next(one)) {
        if (!read_pull(forge, one, out))
            return unreadable(forge, "an entry of the list can't be read", problem);
        if (out->open && str_equal(out->head, head) && is_own(forge, one))
            return 0;
        forge_pull_finish(out);
    }
    return 0;
}

int forge_read_pull(const struct forge *forge, const struct forge_answer *answer,
                    struct forge_pull *out, struct forge_problem *problem)
{
    AUTO_JSON struct json_doc *doc = NULL;

    *out = (struct forge_pull){ 0 };
    if (open_answer(forge, answer, &doc, problem) < 0)
        return -1;
    return read_pull(forge, json_root(doc), out)
               ? 0
               : unreadable(forge, "members are missing", problem);
}
