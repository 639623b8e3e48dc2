/* branch.c: names of branches: those that runs ask for, and the sessions' own. */
#include "workspace/workspace.h"

#include <ctype.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define SLUG_MAX 40
#define ID_LEN 6

int branch_check(const char *branch, struct error *err)
{
    size_t len = strlen(branch);

    if (len == 0)
        return 0;
    if (branch[0] == '-')
        return error_argument(err, "branch", "may not begin with a dash");
    if (len > 255)
        return error_argument(err, "branch", "is longer than 255 bytes");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)branch[i];

        if (c <= 0x20 || c == 0x7f || strchr("~^:?*[\\", c) != NULL)
            return error_argument(
                err, "branch",
                "is no valid name: spaces, control characters and ~^:?*[\\ can't be used");
    }
    if (branch[0] == '/' || branch[len - 1] == '/' || branch[len - 1] == '.' ||
        strstr(branch, "..") != NULL || strstr(branch, "//") != NULL ||
        strstr(branch, "@{") != NULL || strstr(branch, "/.") != NULL || branch[0] == '.' ||
        str_ends(branch, ".lock") || strstr(branch, ".lock/") != NULL || str_equal(branch, "@"))
        return error_argument(err, "branch", "is no valid name (git check-ref-format)");
    return 0;
}

bool branch_is_commit(const char *branch)
{
    size_t len = strspn(branch, "0123456789abcdef");

    return (len == 40 || len == 64) && branch[len] == '\0';
}

/* Letters and digits of ASCII in lower case, a dash for whatever is between them. */
static char *slug_of(const char *title)
{
    char slug[SLUG_MAX + 1];
    size_t len = 0;

    for (const char *p = title; *p != '\0' && len < SLUG_MAX; p++) {
        if (isalnum((unsigned char)*p) && (unsigned char)*p < 0x80)
            slug[len++] = (char)tolower((unsigned char)*p);
        else if (len > 0 && slug[len - 1] != '-')
            slug[len++] = '-';
    }
    /* Not in the midst of a word. */
    if (len == SLUG_MAX && memchr(slug + SLUG_MAX / 2, '-', SLUG_MAX / 2) != NULL) {
        while (slug[len - 1] != '-')
            len--;
    }
    while (len > 0 && slug[len - 1] == '-')
        len--;
    return len > 0 ? mem_strndup(slug, len) : mem_strdup("work");
}

char *branch_from_template(const char *template, const char *title, const char *session)
{
    AUTO_FREE
    char *slug = slug_of(title);
    size_t id_len = strlen(session);
    const char *id = session + (id_len > ID_LEN ? id_len - ID_LEN : 0);
    AUTO_BUF struct buf name = BUF_INIT(4096);

    for (const char *p = template; *p != '\0';) {
        if (str_starts(p, "{slug}")) {
            buf_append_str(&name, slug);
            p += strlen("{slug}");
        } else if (str_starts(p, "{id}")) {
            buf_append_str(&name, id);
            p += strlen("{id}");
        } else {
            buf_append_char(&name, *p++);
        }
    }
    return mem_strdup(buf_text(&name));
}

char *branch_flat(const char *branch)
{
    char *flat = mem_strdup(branch);

    for (char *p = flat; *p != '\0'; p++)
        *p = *p == '/' ? '-' : *p;
    return flat;
}

int branch_template_check(const char *template, struct error *err)
{
    AUTO_FREE
    char *longest = branch_from_template(template, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                         "ses_aaaaaaaaaaaaaaaaaaaaaaaaaa");

    return branch_check(longest, err);
}
