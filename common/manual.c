#include "common/manual.h"

#include <ctype.h>
#include <string.h>

#include "common/mem.h"

#define HELP_COLUMN 16

/* --help
 * ------------------------------------------------------------------------------------------------
 */

static void help_items(struct buf *out, const struct manual_item *items)
{
    for (; items->term != NULL; items++)
        buf_printf(out, "  %-*s %s\n", HELP_COLUMN, items->term, items->words);
}

void manual_help(struct buf *out, const struct manual *manual)
{
    buf_printf(out, "usage: %s%s%s\n\n%s\n\n", manual->name, manual->usage[0] != '\0' ? " " : "",
               manual->usage, manual->about);
    help_items(out, manual->options);
    buf_append_str(out, "\nEnvironment:\n");
    help_items(out, manual->environment);
}

/* Pages
 * -------------------------------------------------------------------------------------------------
 */

/* Characters that roff takes for something else. */
static const struct {
    char character;
    const char *written;
} escapes[] = {
    { '\\', "\\e" },  { '-', "\\-" },    { '~', "\\(ti" }, { '^', "\\(ha" },
    { '`', "\\(ga" }, { '\'', "\\(aq" }, { '"', "\\(dq" },
};

static void append_char(struct buf *out, char c)
{
    for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
        if (escapes[i].character == c) {
            buf_append_str(out, escapes[i].written);
            return;
        }
    }
    buf_append_char(out, c);
}

/* One line, which is no request whatever it begins with. */
static void append_line(struct buf *out, const char *text, size_t len)
{
    if (len > 0 && text[0] == '.')
        buf_append_str(out, "\\&");
    for (size_t i = 0; i < len; i++)
        append_char(out, text[i]);
}

static bool is_shaped(const char *line)
{
    return line[0] == ' ';
}

void manual_text(struct buf *out, const char *text)
{
    bool shaped = false;

    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        if (is_shaped(text) != shaped) {
            shaped = !shaped;
            buf_append_str(out, shaped ? ".nf\n" : ".fi\n");
        }
        if (len > 0) {
            append_line(out, text, len);
            buf_append_char(out, '\n');
        } else {
            buf_append_str(out, ".PP\n");
        }
        text += len + (text[len] == '\n');
    }
    if (shaped)
        buf_append_str(out, ".fi\n");
}

void manual_section(struct buf *out, const char *title)
{
    buf_append_str(out, ".SH ");
    for (; *title != '\0'; title++)
        append_char(out, (char)toupper((unsigned char)*title));
    buf_append_char(out, '\n');
}

void manual_item(struct buf *out, const char *term, const char *words)
{
    buf_append_str(out, ".TP\n\\fB");
    append_line(out, term, strlen(term));
    buf_append_str(out, "\\fR\n");
    manual_text(out, words);
}

void manual_more(struct buf *out, const char *text)
{
    buf_append_str(out, ".IP\n");
    manual_text(out, text);
}

static void append_items(struct buf *out, const char *title, const struct manual_item *items)
{
    manual_section(out, title);
    for (; items->term != NULL; items++)
        manual_item(out, items->term, items->words);
}

void manual_begin(struct buf *out, const struct manual *manual)
{
    buf_append_str(out, ".\\\" Printed by the program itself: --man\n.TH ");
    for (const char *c = manual->name; *c != '\0'; c++)
        append_char(out, (char)toupper((unsigned char)*c));
    buf_printf(out, " 1 \"%s\" \"sandbox-mcp %s\" \"User Commands\"\n", SANDBOX_DATE,
               SANDBOX_VERSION);
    manual_section(out, "name");
    append_line(out, manual->name, strlen(manual->name));
    buf_append_str(out, " \\- ");
    append_line(out, manual->summary, strlen(manual->summary));
    buf_append_char(out, '\n');
    manual_section(out, "synopsis");
    buf_append_str(out, "\\fB");
    append_line(out, manual->name, strlen(manual->name));
    buf_append_str(out, "\\fR ");
    append_line(out, manual->usage, strlen(manual->usage));
    buf_append_char(out, '\n');
    manual_section(out, "description");
    manual_text(out, manual->about);
    append_items(out, "options", manual->options);
}

void manual_end(struct buf *out, const struct manual *manual)
{
    append_items(out, "environment", manual->environment);
    manual_section(out, "see also");
    manual_text(out, manual->see_also);
}
