#include "run/pull_text.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "forge/forge.h"

#define BEGIN_MARK "<!-- sandbox-mcp:begin -->"
#define END_MARK "<!-- sandbox-mcp:end -->"
#define SUBJECTS_SHOWN 40
#define RUNS_MAX_BYTES 6000

/* Text of the agent's as code: it names nobody and closes no issue there. */
static void append_code(struct buf *out, const char *text, size_t len)
{
    buf_append_char(out, '`');
    for (size_t i = 0; i < len; i++)
        buf_append_char(out, text[i] == '`' ? '\'' : text[i]);
    buf_append_char(out, '`');
}

static void append_cut(struct buf *out, const char *text, size_t max)
{
    size_t line = strcspn(text, "\r\n");
    size_t shown = line <= max ? line : str_utf8_cut(text, max);

    str_append_escaped(out, text, shown, 4 * max);
    if (text[shown] != '\0')
        buf_append_str(out, "…");
}

void pull_text_add_run(struct buf *runs, const struct run_record *run, const char *state)
{
    AUTO_BUF struct buf title = BUF_INIT(2048);

    if (runs->len > RUNS_MAX_BYTES)
        return;
    append_cut(&title, run->title[0] != '\0' ? run->title : run->task, 120);
    buf_printf(runs, "- %s: ", run->id.text);
    append_code(runs, buf_text(&title), title.len);
    buf_printf(runs, " (%s%s%s)\n", state, run->verdict[0] != '\0' ? ", " : "", run->verdict);
}

void pull_text_title(struct buf *out, const char *given, const struct pull_text_facts *facts)
{
    const char *subjects = buf_text(&facts->changes->subjects);
    AUTO_FREE
    char *subject = mem_strndup(subjects, strcspn(subjects, "\n"));

    if (given[0] != '\0')
        append_cut(out, given, FORGE_TITLE_MAX);
    else if (facts->changes->commits == 1 && subject[0] != '\0')
        append_cut(out, subject, FORGE_TITLE_MAX);
    else if (facts->session->title[0] != '\0')
        append_cut(out, facts->session->title, FORGE_TITLE_MAX);
    else
        buf_printf(out, "Work of %s", facts->session->id.text);
}

static void append_subjects(struct buf *out, const struct publish_changes *changes)
{
    const char *line = buf_text(&changes->subjects);
    uint64_t shown = 0;

    for (; *line != '\0' && shown < SUBJECTS_SHOWN; shown++) {
        size_t len = strcspn(line, "\n");

        buf_append_str(out, "- ");
        append_code(out, line, len);
        buf_append_char(out, '\n');
        line += len + (line[len] == '\n');
    }
    if (changes->commits > shown)
        buf_printf(out, "- and %llu more\n", (unsigned long long)(changes->commits - shown));
}

static void append_section(struct buf *out, const struct pull_text_facts *facts)
{
    const struct publish_changes *changes = facts->changes;

    buf_printf(
        out,
        BEGIN_MARK "\n%llu commit%s, %llu file%s changed (+%llu -%llu), by a coding agent in "
                   "a sandbox.\n\n",
        (unsigned long long)changes->commits, changes->commits == 1 ? "" : "s",
        (unsigned long long)changes->stat.files, changes->stat.files == 1 ? "" : "s",
        (unsigned long long)changes->stat.insertions, (unsigned long long)changes->stat.deletions);
    append_subjects(out, changes);
    if (facts->runs->len > 0)
        buf_printf(out, "\nRuns of %s:\n\n%s", facts->session->id.text, buf_text(facts->runs));
    if (facts->page[0] != '\0')
        buf_printf(out, "\nWhere it was made: %s\n", facts->page);
    buf_append_str(out, END_MARK);
}

void pull_text_body(struct buf *out, const char *given, const struct pull_text_facts *facts)
{
    if (given[0] != '\0')
        buf_printf(out, "%s\n\n", given);
    append_section(out, facts);
}

/* Forges change the ends of lines, and take away space at the end. */
static bool same_text(const char *a, const char *b)
{
    for (;;) {
        while (*a == '\r')
            a++;
        while (*b == '\r')
            b++;
        if (*a != *b || *a == '\0')
            return str_blank(a) && str_blank(b);
        a++;
        b++;
    }
}

bool pull_text_renew(struct buf *out, const char *old, const char *given,
                     const struct pull_text_facts *facts)
{
    const char *begin = strstr(old, BEGIN_MARK);
    const char *end = begin != NULL ? strstr(begin, END_MARK) : NULL;

    if (end == NULL && given[0] == '\0')
        return false;
    if (end == NULL || given[0] != '\0') {
        pull_text_body(out, given, facts);
    } else {
        buf_append(out, old, (size_t)(begin - old));
        append_section(out, facts);
    }
    if (end != NULL)
        buf_append_str(out, end + strlen(END_MARK));
    return !out->failed && !same_text(buf_text(out), old);
}
