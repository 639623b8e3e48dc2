#include "common/versions.h"

#include <ctype.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/str.h"

static const struct known_version table[] = {
    { "bubblewrap", 0, 8, true, "0.8.0 or later" }, /* the first that has --disable-userns */
    { "opencode", 1, 0, false, "1.x" },             /* whose HTTP interface the driver speaks */
};

const struct known_version *version_known(const char *program)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (str_equal(table[i].program, program))
            return &table[i];
    }
    return NULL;
}

/* The number that *AT begins with; *AT goes behind it and its dot. */
static bool take_number(const char **at, unsigned long *number)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return false;
    *number = strtoul(*at, &end, 10);
    *at = *end == '.' ? end + 1 : end;
    return true;
}

bool version_works(const struct known_version *known, const char *text)
{
    unsigned long major;
    unsigned long minor;

    if (!take_number(&text, &major) || !take_number(&text, &minor))
        return false;
    if (major != known->major)
        return known->later && major > known->major;
    return minor >= known->minor;
}

const char *version_in(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        const char *rest = at;
        unsigned long ignored;

        if (at > text && (isdigit((unsigned char)at[-1]) || at[-1] == '.'))
            continue;
        if (take_number(&rest, &ignored) && rest[-1] == '.' && isdigit((unsigned char)*rest))
            return at;
    }
    return NULL;
}
