/* tool_pr.c: opencode_create_pr. */
#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/content.h"
#include "mcp-stdio/tools.h"
#include "proto/msg_out.h"

#define WAIT_SECONDS 46 /* a little longer than the supervisor lets anybody wait */

int tool_pr_read(const struct json_value *arguments, struct tool_request *out, struct error *err)
{
    struct pull_create_params params = { .draft = true };
    struct json_writer writer;

    if (json_read(arguments, pull_create_fields, JSON_LENIENT, &params, err) < 0)
        return -1;
    out->wait_seconds = WAIT_SECONDS;
    json_write_init(&writer, &out->body);
    json_write_object(&writer);
    json_member_string(&writer, "sessionId", params.sessionId);
    json_member_string_opt(&writer, "title", params.title);
    json_member_string_opt(&writer, "body", params.body);
    json_member_bool(&writer, "draft", params.draft);
    json_member_string_opt(&writer, "base", params.base);
    json_member_bool(&writer, "commit", params.commit);
    json_write_object_end(&writer);
    return out->body.failed ? error_set(err, ERR_LIMIT, 0, "the arguments are too large") : 0;
}

static const char *text_of(const struct json_value *object, const char *name)
{
    const char *text = json_string(json_get(object, name));

    return text ? text : "";
}

static unsigned long long number_of(const struct json_value *object, const char *name)
{
    return (unsigned long long)json_u64(json_get(object, name), 0);
}

static void say(struct buf *out, const char *label, const char *value)
{
    if (!value[0])
        return;
    buf_printf(out, "%s: ", label);
    content_append_cut(out, value, 1000);
    buf_append_char(out, '\n');
}

static void say_problem(struct buf *out, const struct json_value *problem)
{
    if (!problem)
        return;
    buf_printf(out, "problem: %s: ", text_of(problem, "code"));
    content_append_cut(out, text_of(problem, "message"), 600);
    buf_append_char(out, '\n');
    say(out, "hint", text_of(problem, "hint"));
    buf_printf(out, "retryable: %s\n",
               json_bool(json_get(problem, "retryable"), false) ? "yes" : "no");
}

static void say_uncommitted(struct buf *out, const struct json_value *reply, size_t max)
{
    if (!number_of(reply, "uncommitted"))
        return;
    buf_printf(out, "not committed, and not part of it: %llu\n", number_of(reply, "uncommitted"));
    for (const struct json_value *one = json_first(json_get(reply, "uncommittedFiles"));
         one && out->len + 300 < max; one = json_next(one)) {
        buf_append_str(out, "  ");
        content_append_cut(out, text_of(one, "path"), 200);
        buf_append_char(out, '\n');
    }
}

void tool_pr_render(const struct json_value *reply, size_t max, struct buf *out)
{
    if (text_of(reply, "message")[0]) {
        content_append_cut(out, text_of(reply, "message"), 2000);
        buf_append_char(out, '\n');
    }
    say(out, "status", text_of(reply, "status"));
    say(out, "url", text_of(reply, "url"));
    if (number_of(reply, "number"))
        buf_printf(out, "number: %llu%s\n", number_of(reply, "number"),
                   json_bool(json_get(reply, "draft"), false) ? " (a draft)" : "");
    say(out, "title", text_of(reply, "title"));
    say_problem(out, json_get(reply, "problem"));
    say(out, "phase", text_of(reply, "phase"));
    say(out, "note", text_of(reply, "note"));
    say(out, "repository", text_of(reply, "repository"));
    say(out, "forge", text_of(reply, "forge"));
    say(out, "branch", text_of(reply, "branch"));
    say(out, "base", text_of(reply, "base"));
    say(out, "commit", text_of(reply, "commit"));
    if (number_of(reply, "commits"))
        buf_printf(out, "commits: %llu, files: %llu (+%llu -%llu)\n", number_of(reply, "commits"),
                   number_of(reply, "filesChanged"), number_of(reply, "insertions"),
                   number_of(reply, "deletions"));
    say(out, "sessionId", text_of(reply, "sessionId"));
    say_uncommitted(out, reply, max);
}
