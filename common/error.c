#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "common/str.h"

static const char *const names[] = {
    [ERR_NONE] = "none",
    [ERR_INVALID] = "invalid",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_DENIED] = "denied",
    [ERR_CONFLICT] = "conflict",
    [ERR_LIMIT] = "limit",
    [ERR_TIMEOUT] = "timeout",
    [ERR_CANCELLED] = "cancelled",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_SYSTEM] = "system",
    [ERR_BUG] = "bug",
};

/* Room for text that is longer than what is kept, so that the cut is made once, at the end. */
#define SCRATCH_SIZE 1024

static void keep_text(struct error *err, const char *text)
{
    str_copy(err->text, sizeof(err->text), text);
    for (char *c = err->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
}

/* Puts HEAD, ": " and TAIL together; TAIL may be NULL. The arguments may point into ERR. */
static void join_text(struct error *err, const char *head, const char *tail)
{
    char joined[2 * SCRATCH_SIZE];

    snprintf(joined, sizeof(joined), "%s%s%s", head, tail ? ": " : "", tail ? tail : "");
    keep_text(err, joined);
}

int error_set(struct error *err, enum error_code code, int sys, const char *format, ...)
{
    char text[SCRATCH_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    err->code = code;
    err->sys = code == ERR_SYSTEM ? sys : 0;
    err->argument[0] = '\0';
    join_text(err, text, sys ? strerrordesc_np(sys) : NULL);
    return -1;
}

int error_argument(struct error *err, const char *argument, const char *format, ...)
{
    AUTO_BUF struct buf escaped = BUF_INIT(sizeof(err->argument) + 8);
    char text[SCRATCH_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    str_append_escaped(&escaped, argument, strlen(argument), sizeof(err->argument) - 4);
    err->code = ERR_INVALID;
    err->sys = 0;
    str_copy(err->argument, sizeof(err->argument), buf_text(&escaped));
    join_text(err, err->argument, text);
    return -1;
}

int error_wrap(struct error *err, const char *format, ...)
{
    char text[SCRATCH_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    join_text(err, text, err->text);
    return -1;
}

const char *error_code_name(enum error_code code)
{
    return (size_t)code < ARRAY_LEN(names) ? names[code] : names[ERR_BUG];
}

enum error_code error_code_parse(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_equal(name, names[i]))
            return (enum error_code)i;
    return ERR_BUG;
}
