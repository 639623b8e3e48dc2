#include "ctl/wording.h"

#include <ctype.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

static const struct wording {
    const char *theirs;
    const char *ours;
    /* PLAIN is a word of English, too: it is meant only at the beginning, with a colon, and between
     * backticks. */
    enum { EVERYWHERE, PLAIN } where;
} wordings[] = {
    { "runId", "RUN", EVERYWHERE },
    { "sessionId", "SESSION", EVERYWHERE },
    { "requestId", "REQUEST", EVERYWHERE },
    { "timeoutMinutes", "--timeout", EVERYWHERE },
    { "idempotencyKey", "--key", EVERYWHERE },
    { "maxBytes", "--max-bytes", EVERYWHERE },
    { "opencode_get_result", "sandboxctl get", EVERYWHERE },
    { "opencode_get_diff", "sandboxctl diff", EVERYWHERE },
    { "opencode_get_log", "sandboxctl logs", EVERYWHERE },
    { "opencode_list_runs", "sandboxctl list", EVERYWHERE },
    { "opencode_run_task", "sandboxctl run", EVERYWHERE },
    { "opencode_send_message", "sandboxctl send", EVERYWHERE },
    { "opencode_answer", "sandboxctl answer", EVERYWHERE },
    { "opencode_cancel_run", "sandboxctl cancel", EVERYWHERE },
    { "opencode_create_pr", "sandboxctl pr", EVERYWHERE },
    { "service.list names them", "sandboxctl services names them", EVERYWHERE },
    { "with mode queue", "with --mode queue", EVERYWHERE },
    { "after", "--after", PLAIN },
    { "agent", "--agent", PLAIN },
    { "answer", "ANSWER", PLAIN },
    { "base", "--base", PLAIN },
    { "before", "--before", PLAIN },
    { "body", "--body", PLAIN },
    { "branch", "--branch", PLAIN },
    { "checkpoint", "CHECKPOINT", PLAIN },
    { "file", "FILE", PLAIN },
    { "key", "s3:KEY", PLAIN },
    { "limit", "--limit", PLAIN },
    { "message", "MESSAGE", PLAIN },
    { "mode", "--mode", PLAIN },
    { "model", "--model", PLAIN },
    { "name", "NAME", PLAIN },
    { "passphrase", "--passphrase", PLAIN },
    { "path", "PATH", PLAIN },
    { "repository", "--repo", PLAIN },
    { "status", "--status", PLAIN },
    { "task", "TASK", PLAIN },
    { "title", "TITLE", PLAIN },
};

static bool in_word(char c)
{
    return isalnum((unsigned char)c) != 0 || c == '_';
}

/* Whether the row's words stand at AT, as whole words. */
static bool stands_at(const struct wording *row, const char *text, const char *at)
{
    size_t len = strlen(row->theirs);
    bool quoted;

    if (!str_starts(at, row->theirs) || in_word(at[len]) || (at > text && in_word(at[-1])))
        return false;
    quoted = at > text && at[-1] == '`' && at[len] == '`';
    return row->where == EVERYWHERE || quoted || (at == text && at[len] == ':');
}

static const struct wording *find(const char *text, const char *at)
{
    for (size_t i = 0; i < ARRAY_LEN(wordings); i++) {
        if (stands_at(&wordings[i], text, at))
            return &wordings[i];
    }
    return NULL;
}

void wording_append(struct buf *out, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        bool quote = *at == '`';
        const struct wording *row = find(text, at + quote);

        if (row == NULL) {
            buf_append_char(out, *at++);
            continue;
        }
        at += quote + strlen(row->theirs);
        quote = quote && *at == '`';
        at += quote;
        buf_append_str(out, row->ours);
    }
}

void wording_translate(struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);

    wording_append(&text, err->text);
    str_copy(err->text, sizeof(err->text), buf_text(&text));
}
