#include "ctl/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/print.h"

extern char **environ;

size_t terminal_width(int fd)
{
    struct winsize size = { 0 };

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 80;
}

bool terminal_has_color(int fd)
{
    const char *without = getenv("NO_COLOR");
    const char *kind = getenv("TERM");

    return isatty(fd) == 1 && (without == NULL || without[0] == '\0') && kind != NULL &&
           !str_equal(kind, "dumb");
}

/* The bytes of a line's first WIDTH code points, or all of it. */
static size_t fitting(const char *line, size_t len, size_t width)
{
    size_t at = 0;

    while (at < len && width-- > 0) {
        size_t step = str_utf8_step(line + at, len - at, NULL);

        at += step != 0 ? step : 1;
    }
    return at;
}

void terminal_fit(struct buf *text, size_t width)
{
    struct buf cut;

    buf_init(&cut, text->max);
    for (size_t at = 0; at < text->len;) {
        const char *line = text->data + at;
        const char *end = memchr(line, '\n', text->len - at);
        size_t len = end != NULL ? (size_t)(end - line) : text->len - at;

        if (fitting(line, len, width) < len) {
            buf_append(&cut, line, fitting(line, len, width - 1));
            buf_append_str(&cut, "…");
        } else {
            buf_append(&cut, line, len);
        }
        if (end != NULL)
            buf_append_char(&cut, '\n');
        at += len + (end != NULL);
    }
    buf_finish(text);
    *text = cut;
}

/* Colour ----------------------------------------------------------------------------------------
 */

static const struct {
    const char *begin;
    const char *color;
} diff_colors[] = {
    { "diff ", "\033[1m" }, { "index ", "\033[1m" }, { "--- ", "\033[1m" }, { "+++ ", "\033[1m" },
    { "@@", "\033[36m" },   { "+", "\033[32m" },     { "-", "\033[31m" },
};

static const char *color_of(const char *line, bool in_hunk)
{
    /* Between hunks "--- a" is a head; in one it may be a line "-- a" that was taken away. */
    for (size_t i = in_hunk ? 4 : 0; i < ARRAY_LEN(diff_colors); i++) {
        if (str_starts(line, diff_colors[i].begin))
            return diff_colors[i].color;
    }
    return NULL;
}

void terminal_color_diff(struct buf *out, const char *text)
{
    bool in_hunk = false;

    while (text[0] != '\0') {
        size_t len = strcspn(text, "\n");
        AUTO_FREE
        char *line = mem_strndup(text, len);

        if (str_starts(line, "diff "))
            in_hunk = false;
        const char *color = color_of(line, in_hunk);
        if (str_starts(line, "@@"))
            in_hunk = true;
        if (color != NULL)
            buf_append_str(out, color);
        print_text(out, line, "");
        if (out->len > 0 && out->data[out->len - 1] == '\n')
            out->len--;
        if (color != NULL)
            buf_append_str(out, "\033[m");
        buf_append_char(out, '\n');
        text += len + (text[len] == '\n');
    }
}

/* A pager ---------------------------------------------------------------------------------------
 */

/* The user's words, which a shell takes apart as for git and man. */
static pid_t start_pager(const char *words, int input)
{
    char *argv[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)words,
                     NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;

    /* Leave at once when it fits, keep colours, leave the text on the screen; as git has it. */
    setenv("LESS", "FRX", 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void feed(int fd, const struct buf *text)
{
    struct error err = ERROR_INIT;

    if (fd_write_all(fd, text->data, text->len, &err) < 0)
        return; /* the person has left it before the end */
}

void terminal_page(const struct buf *text)
{
    const char *own = getenv("SANDBOX_MCP_PAGER");
    const char *words = own != NULL ? own : getenv("PAGER");
    int status;
    int fds[2];
    pid_t pid;

    fflush(stdout);
    if (words == NULL)
        words = "less";
    if (words[0] == '\0' || str_equal(words, "cat") || pipe2(fds, O_CLOEXEC) != 0) {
        fwrite(text->data, 1, text->len, stdout);
        return;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* it is the pager's */
    pid = start_pager(words, fds[0]);
    fd_close(&fds[0]);
    if (pid > 0)
        feed(fds[1], text);
    fd_close(&fds[1]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
        fwrite(text->data, 1, text->len, stdout);
}
