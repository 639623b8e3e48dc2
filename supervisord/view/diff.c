#include "view/diff.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define NAME_MAX_BYTES 8192

struct section {
    const char *text;
    size_t len;
    struct buf old_name; /* "" when the file is new */
    struct buf new_name; /* "" when it is gone */
    const char *status;
    uint64_t insertions;
    uint64_t deletions;
};

static void section_init(struct section *section)
{
    memset(section, 0, sizeof(*section));
    buf_init(&section->old_name, NAME_MAX_BYTES);
    buf_init(&section->new_name, NAME_MAX_BYTES);
    section->status = "modified";
}

static void section_finish(struct section *section)
{
    buf_finish(&section->old_name);
    buf_finish(&section->new_name);
}

static size_t line_len(const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len);

    return end != NULL ? (size_t)(end - text) : len;
}

static bool has_prefix(const char *line, size_t len, const char *prefix)
{
    size_t prefix_len = strlen(prefix);

    return len >= prefix_len && memcmp(line, prefix, prefix_len) == 0;
}

/* Names
 * ------------------------------------------------------------------------------------------------------------
 */

static char unescape(char c)
{
    static const char from[] = "abfnrtv";
    static const char to[] = "\a\b\f\n\r\t\v";
    const char *at = c != '\0' ? strchr(from, c) : NULL;

    return at != NULL ? to[at - from] : c; /* quote and backslash stand for themselves */
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* A name in git's quoting: "a\303\266\t", or as it is. Returns the bytes used, quotes included. */
static size_t unquote(const char *text, size_t len, struct buf *out)
{
    size_t at = 1;

    if (len == 0 || text[0] != '"') {
        buf_append(out, text, len);
        return len;
    }
    while (at < len && text[at] != '"') {
        if (text[at] != '\\' || at + 1 >= len) {
            buf_append_char(out, text[at++]);
        } else if (at + 3 < len && is_octal(text[at + 1]) && is_octal(text[at + 2]) &&
                   is_octal(text[at + 3])) {
            buf_append_char(out, (char)(((text[at + 1] - '0') << 6 | (text[at + 2] - '0') << 3 |
                                         (text[at + 3] - '0')) &
                                        0xff));
            at += 4;
        } else {
            buf_append_char(out, unescape(text[at + 1]));
            at += 2;
        }
    }
    return at < len ? at + 1 : len;
}

/* "a/name" or "b/name", perhaps quoted, perhaps with a tab behind it; "/dev/null" is no name. */
static void set_name(struct buf *name, const char *text, size_t len, const char *prefix)
{
    AUTO_BUF struct buf whole = BUF_INIT(NAME_MAX_BYTES);

    if (len > 0 && text[0] != '"' && memchr(text, '\t', len) != NULL)
        len = (size_t)((const char *)memchr(text, '\t', len) - text);
    unquote(text, len, &whole);
    buf_clear(name);
    if (str_equal(buf_text(&whole), "/dev/null"))
        return;
    if (has_prefix(buf_text(&whole), whole.len, prefix))
        buf_append(name, whole.data + strlen(prefix), whole.len - strlen(prefix));
    else
        buf_append(name, buf_text(&whole), whole.len);
}

/* "a/X b/X": without other lines (binary files, modes) both names are the same, which tells where
 * the first one ends. */
static void names_from_head(struct section *section, const char *text, size_t len)
{
    AUTO_BUF struct buf first = BUF_INIT(NAME_MAX_BYTES);
    size_t half;

    if (len > 0 && text[0] == '"') {
        half = unquote(text, len, &first);
        set_name(&section->old_name, text, half, "a/");
        if (half + 1 < len)
            set_name(&section->new_name, text + half + 1, len - half - 1, "b/");
        return;
    }
    half = (len - 1) / 2;
    if (len < 3 || text[half] != ' ')
        return;
    set_name(&section->old_name, text, half, "a/");
    set_name(&section->new_name, text + half + 1, len - half - 1, "b/");
}

/* Lines
 * ------------------------------------------------------------------------------------------------------------
 */

static const char diff_head[] = "diff --git ";

static void read_head_line(struct section *section, const char *line, size_t len)
{
    if (has_prefix(line, len, "--- "))
        set_name(&section->old_name, line + 4, len - 4, "a/");
    else if (has_prefix(line, len, "+++ "))
        set_name(&section->new_name, line + 4, len - 4, "b/");
    else if (has_prefix(line, len, "rename from "))
        set_name(&section->old_name, line + 12, len - 12, "");
    else if (has_prefix(line, len, "rename to "))
        set_name(&section->new_name, line + 10, len - 10, "");
    else if (has_prefix(line, len, "new file mode "))
        section->status = "added";
    else if (has_prefix(line, len, "deleted file mode "))
        section->status = "deleted";
    if (has_prefix(line, len, "rename from "))
        section->status = "renamed";
}

static void read_section(struct section *section)
{
    size_t at = line_len(section->text, section->len) + 1;
    bool in_hunk = false;

    names_from_head(section, section->text + strlen(diff_head), at - 1 - strlen(diff_head));
    while (at < section->len) {
        const char *line = section->text + at;
        size_t len = line_len(line, section->len - at);

        if (has_prefix(line, len, "@@ "))
            in_hunk = true;
        else if (!in_hunk)
            read_head_line(section, line, len);
        else if (line[0] == '+')
            section->insertions++;
        else if (line[0] == '-')
            section->deletions++;
        at += len + 1;
    }
}

/* Up to the next section; a line of content never begins like a section's head. */
static size_t section_len(const char *text, size_t len)
{
    size_t at = 0;

    do {
        at += line_len(text + at, len - at) + 1;
    } while (at < len && !has_prefix(text + at, len - at, diff_head));
    return at < len ? at : len;
}

/* TEXT begins with one, or with something else, which has no names. */
static void begin_section(struct section *section, const char *text, size_t len)
{
    section_init(section);
    section->text = text;
    section->len = section_len(text, len);
    if (has_prefix(text, section->len, diff_head))
        read_section(section);
}

/* A file that becomes a link, or the other way round, is removed and added: one file, all the same.
 */
static void absorb_other_half(struct section *section, size_t len)
{
    struct section next;

    if (!str_equal(section->status, "deleted") || section->len >= len)
        return;
    begin_section(&next, section->text + section->len, len - section->len);
    if (str_equal(next.status, "added") &&
        str_equal(buf_text(&section->old_name), buf_text(&next.new_name))) {
        section->status = "modified";
        section->len += next.len;
        section->insertions += next.insertions;
        section->deletions += next.deletions;
    }
    section_finish(&next);
}

static bool is_below(const char *name, const char *path, size_t path_len)
{
    return strncmp(name, path, path_len) == 0 && (name[path_len] == '\0' || name[path_len] == '/');
}

static bool is_wanted(const struct section *section, const char *path)
{
    size_t len;

    while (path != NULL && str_starts(path, "./"))
        path += 2;
    if (path == NULL || path[0] == '\0' || str_equal(path, "."))
        return true;
    len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return is_below(buf_text(&section->old_name), path, len) ||
           is_below(buf_text(&section->new_name), path, len);
}

static void write_file(struct json_writer *files, const struct section *section)
{
    const struct buf *name = section->new_name.len != 0 ? &section->new_name : &section->old_name;

    json_write_object(files);
    json_write_name(files, "path");
    json_write_bytes(files, buf_text(name), name->len);
    json_member_u64(files, "insertions", section->insertions);
    json_member_u64(files, "deletions", section->deletions);
    json_member_string(files, "status", section->status);
    json_write_object_end(files);
}

struct progress {
    size_t wanted_bytes;
    size_t taken_bytes;
    size_t files;
};

static void take_text(struct progress *progress, const struct section *section, size_t max,
                      struct buf *out)
{
    size_t room = max - progress->taken_bytes;
    size_t take = section->len;

    if (progress->wanted_bytes > progress->taken_bytes)
        take = 0; /* cut before: nothing may follow the gap */
    else if (take > room) {
        for (take = room; take > 0 && section->text[take - 1] != '\n';)
            take--;
    }
    buf_append(out, section->text, take);
    progress->wanted_bytes += section->len;
    progress->taken_bytes += take;
}

bool diff_write(const char *text, size_t len, const struct diff_options *options, struct buf *out,
                struct json_writer *files)
{
    struct progress progress = { 0 };
    bool cut;

    json_write_array(files);
    while (len > 0) {
        struct section section;

        begin_section(&section, text, len);
        absorb_other_half(&section, len);
        if (has_prefix(text, section.len, diff_head) && is_wanted(&section, options->path)) {
            if (progress.files++ < DIFF_FILES_MAX)
                write_file(files, &section);
            take_text(&progress, &section, options->max_bytes, out);
        }
        section_finish(&section);
        text += section.len;
        len -= section.len;
    }
    json_write_array_end(files);
    cut = progress.taken_bytes < progress.wanted_bytes;
    if (cut)
        buf_printf(out,
                   "[diff truncated: %zu of %zu bytes are shown; ask for one path, or for more "
                   "with maxBytes]\n",
                   progress.taken_bytes, progress.wanted_bytes);
    else if (options->was_cut)
        buf_append_str(out, "[diff truncated: the changes were too large to be kept as a whole]\n");
    return cut || options->was_cut || progress.files > DIFF_FILES_MAX;
}
