#include "workspace/publish.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "workspace/git_script.h"

#define LINE_MAX_BYTES 300
#define NAME_MAX_BYTES 150 /* of a file; twenty of them are told */

/* Commands
 * ------------------------------------------------------------------------------------------- */

void publish_look(struct git_command *command, const char *folder)
{
    static const char script[] = GIT_SCRIPT_FUNCTION
        "cd -- \"$1\" || exit 2; "
        "head=$(g rev-parse --verify --quiet 'HEAD^{commit}') || exit 3; "
        "echo \"head $head\"; "
        "echo \"branch $(g symbolic-ref --quiet --short HEAD)\"; "
        "g status --porcelain=v1 --untracked-files=all --ignore-submodules=none | "
        "awk '{ if (++n <= 20) print \"changed \" substr($0, 4) } END { print \"dirty \" n + 0 }'";
    const char *const args[] = { folder, NULL };

    git_script(command, script, args);
}

void publish_commit(struct git_command *command, const char *folder, const char *message)
{
    static const char script[] =
        GIT_SCRIPT_FUNCTION "cd -- \"$1\" && g add --all --ignore-errors && "
                            "g commit --quiet --no-verify --cleanup=whitespace -m \"$2\"";
    const char *const args[] = { folder, message, NULL };

    git_script(command, script, args);
}

/* Outside of the repository, whose settings might send git elsewhere. */
void publish_remote(struct git_command *command, const char *url, const char *a, const char *b)
{
    static const char script[] =
        "cd / && url=$1 && shift && exec git ls-remote --symref -- \"$url\" HEAD \"$@\"";
    AUTO_FREE
    char *ref_a = mem_printf("refs/heads/%s", a);
    AUTO_FREE
    char *ref_b = mem_printf("refs/heads/%s", b);
    const char *const args[] = { url, a[0] != '\0' ? ref_a : ref_b,
                                 a[0] != '\0' && b[0] != '\0' ? ref_b : NULL, NULL };
    const char *const none[] = { url, NULL };

    git_script(command, script, a[0] != '\0' || b[0] != '\0' ? args : none);
}

void publish_compare(struct git_command *command, const char *folder, const char *url,
                     const char *base, const char *base_object, const char *head)
{
    static const char script[] = GIT_SCRIPT_FUNCTION
        "cd -- \"$1\" || exit 2; "
        "has() { g cat-file -e \"$1^{commit}\" 2>/dev/null; }; "
        "has \"$4\" || g fetch --quiet --no-tags --no-write-fetch-head --no-recurse-submodules "
        "--refmap= -- \"$2\" \"$3\" || exit 4; "
        "has \"$4\" || exit 5; "
        "echo \"commits $(g rev-list --count \"$4..$5\" --)\"; "
        "echo \"stat $(g diff --no-ext-diff --no-textconv --no-renames --shortstat "
        "--ignore-submodules=none --submodule=short \"$4...$5\" --)\"; "
        "g log --no-color --no-show-signature --no-notes --max-count=100 --format='subject %s' "
        "\"$4..$5\" --";
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", base);
    const char *const args[] = { folder, url, ref, base_object, head, NULL };

    git_script(command, script, args);
}

void publish_push(struct git_command *command, const char *folder, const char *url,
                  const char *head, const char *branch)
{
    static const char script[] = GIT_SCRIPT_FUNCTION
        "cd -- \"$1\" || exit 2; "
        "g push --porcelain --no-verify --no-follow-tags --recurse-submodules=no --no-signed -- "
        "\"$2\" \"$3\"";
    AUTO_FREE
    char *refspec = mem_printf("+%s:refs/heads/%s", head, branch);
    const char *const args[] = { folder, url, refspec, NULL };

    git_script(command, script, args);
}

/* Outputs
 * -------------------------------------------------------------------------------------------- */

/* The next line of the output, without its end; NULL behind the last. */
static const char *next_line(const struct buf *output, size_t *at, size_t *len)
{
    const char *line;
    const char *end;

    if (*at >= output->len)
        return NULL;
    line = output->data + *at;
    end = memchr(line, '\n', output->len - *at);
    *len = end != NULL ? (size_t)(end - line) : output->len - *at;
    *at += *len + 1;
    return line;
}

/* What stands behind "WORD " in the line, its length in *LEN; NULL when it begins otherwise. */
static const char *behind(const char *word, const char *line, size_t *len)
{
    size_t word_len = strlen(word);

    if (*len < word_len + 1 || memcmp(line, word, word_len) != 0 || line[word_len] != ' ')
        return NULL;
    *len -= word_len + 1;
    return line + word_len + 1;
}

static bool take_object(const char *text, size_t len, char to[65])
{
    AUTO_BUF struct buf line = BUF_INIT(128);

    if (len > 64)
        return false;
    buf_append(&line, text, len);
    git_parse_object(&line, to);
    return to[0] != '\0';
}

/* Only a name that is plain, and one of git's. */
static bool take_branch(const char *text, size_t len, char to[256])
{
    struct error err = ERROR_INIT;

    to[0] = '\0';
    if (len == 0 || len > 200)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
            return false;
    memcpy(to, text, len);
    to[len] = '\0';
    if (branch_check(to, &err) < 0)
        to[0] = '\0';
    return to[0] != '\0';
}

static void add_line(struct buf *out, const char *text, size_t len, size_t max)
{
    str_append_escaped(out, text, len, max);
    buf_append_char(out, '\n');
}

static uint64_t take_count(const char *text, size_t len)
{
    AUTO_BUF struct buf line = BUF_INIT(64);

    buf_append(&line, text, len < 20 ? len : 20);
    return git_parse_count(&line);
}

bool publish_read_look(const struct buf *output, struct publish_look *out)
{
    const char *line;
    size_t at = 0;
    size_t len;

    *out = (struct publish_look){ .dirty = 0 };
    buf_init(&out->changed, 64u << 10);
    while ((line = next_line(output, &at, &len)) != NULL) {
        const char *text;
        size_t rest;

        if (rest = len, (text = behind("head", line, &rest)) != NULL && out->head[0] == '\0')
            take_object(text, rest, out->head);
        else if (rest = len, (text = behind("branch", line, &rest)) != NULL)
            take_branch(text, rest, out->branch);
        else if (rest = len, (text = behind("changed", line, &rest)) != NULL)
            add_line(&out->changed, text, rest, NAME_MAX_BYTES);
        else if (rest = len, (text = behind("dirty", line, &rest)) != NULL)
            out->dirty = take_count(text, rest);
    }
    return out->head[0] != '\0' && !out->changed.failed;
}

void publish_look_finish(struct publish_look *look)
{
    buf_finish(&look->changed);
}

bool publish_read_default(const struct buf *output, char branch[256])
{
    static const char start[] = "ref: refs/heads/";
    static const char end[] = "\tHEAD";
    const char *line;
    size_t at = 0;
    size_t len;

    branch[0] = '\0';
    while ((line = next_line(output, &at, &len)) != NULL) {
        size_t fixed = sizeof(start) - 1 + sizeof(end) - 1;

        if (len > fixed && memcmp(line, start, sizeof(start) - 1) == 0 &&
            memcmp(line + len - (sizeof(end) - 1), end, sizeof(end) - 1) == 0)
            return take_branch(line + sizeof(start) - 1, len - fixed, branch);
    }
    return false;
}

bool publish_read_branch(const struct buf *output, const char *branch, char object[65])
{
    AUTO_FREE
    char *end = mem_printf("\trefs/heads/%s", branch);
    const char *line;
    size_t at = 0;
    size_t len;

    object[0] = '\0';
    while ((line = next_line(output, &at, &len)) != NULL) {
        size_t end_len = strlen(end);

        if (len > end_len && memcmp(line + len - end_len, end, end_len) == 0)
            return take_object(line, len - end_len, object);
    }
    return false;
}

bool publish_read_changes(const struct buf *output, struct publish_changes *out)
{
    const char *line;
    size_t at = 0;
    size_t len;
    size_t subjects = 0;
    bool counted = false;

    *out = (struct publish_changes){ .commits = 0 };
    buf_init(&out->subjects, 128u << 10);
    while ((line = next_line(output, &at, &len)) != NULL) {
        const char *text;
        size_t rest;

        if (rest = len, (text = behind("commits", line, &rest)) != NULL && !counted) {
            out->commits = take_count(text, rest);
            counted = true;
        } else if (rest = len, (text = behind("stat", line, &rest)) != NULL) {
            AUTO_BUF struct buf stat = BUF_INIT(512);

            buf_append(&stat, text, rest < 500 ? rest : 500);
            git_parse_shortstat(&stat, &out->stat);
        } else if (rest = len, (text = behind("subject", line, &rest)) != NULL &&
                                   subjects++ < PUBLISH_SUBJECTS_MAX) {
            add_line(&out->subjects, text, rest, LINE_MAX_BYTES);
        }
    }
    return counted && !out->subjects.failed;
}

void publish_changes_finish(struct publish_changes *changes)
{
    buf_finish(&changes->subjects);
}

/* The line of TEXT that begins with START, or NULL. */
static const char *line_with(const char *text, const char *start)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (str_starts(line, start))
            return line;
    }
    return NULL;
}

void publish_read_refusal(const struct buf *output, const char *stderr_text, struct buf *out)
{
    static const char *const starts[] = { "remote: ", "fatal: ", "error: " };
    const char *line = line_with(buf_text(output), "!");
    const char *reason = line != NULL ? memchr(line, '[', strcspn(line, "\n")) : NULL;

    if (reason != NULL)
        str_append_escaped(out, reason, strcspn(reason, "\n"), LINE_MAX_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(starts) && out->len == 0; i++) {
        line = line_with(stderr_text, starts[i]);
        if (line != NULL)
            str_append_escaped(out, line, strcspn(line, "\n"), LINE_MAX_BYTES);
    }
    if (out->len == 0)
        str_append_escaped(out, stderr_text, strcspn(stderr_text, "\n"), LINE_MAX_BYTES);
}
