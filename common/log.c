#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/str.h"

#define LINE_SIZE 2048

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};

static struct {
    enum log_level level;
    void (*sink)(void *data, const char *line);
    void *data;
} state = { LOG_LEVEL_INFO, NULL, NULL };

void log_set_level(enum log_level level)
{
    state.level = level;
}

void log_set_sink(void (*sink)(void *data, const char *line), void *data)
{
    state.sink = sink;
    state.data = data;
}

int log_level_parse(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++)
        if (str_equal(name, level_names[i]))
            return (int)i;
    return -1;
}

/* One write a line: threads and processes that share stderr don't mix within it. */
static void emit(const char *line, size_t len)
{
    if (state.sink)
        state.sink(state.data, line);
    else if (write(STDERR_FILENO, line, len) < 0)
        return; /* there is no other place to complain */
}

void log_write(enum log_level level, const char *object, const char *format, ...)
{
    int saved_errno = errno;
    char time[CLOCK_TEXT_SIZE];
    char line[LINE_SIZE];
    size_t room = sizeof(line) - 1; /* for the line end */
    size_t len;
    va_list args;

    if (level > state.level)
        return;
    clock_format(clock_wall_ms(clock_system()), time);
    snprintf(line, room, "%s %s %.64s ", time, level_names[level], object);
    len = strlen(line);
    va_start(args, format);
    vsnprintf(line + len, room - len, format, args);
    va_end(args);

    len = strlen(line);
    if (len == room - 1)
        len = str_utf8_cut(line, len);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[len] = '\n';
    line[len + 1] = '\0';
    emit(line, len + 1);
    errno = saved_errno;
}
