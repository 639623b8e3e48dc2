#include "sandbox/bwrap/bwrap.h"

#include <ctype.h>
#include <stdbool.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"

/* Switches that forbid user namespaces to ordinary users, and how each is turned. */
static const struct {
    const char *path;
    const char *forbids; /* its content then */
    const char *advice;
} switches[] = {
    { "/proc/sys/kernel/unprivileged_userns_clone", "0",
      "user namespaces are switched off: sudo sysctl -w kernel.unprivileged_userns_clone=1" },
    { "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
      "AppArmor forbids user namespaces: sudo sysctl -w "
      "kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an "
      "AppArmor profile with 'userns'" },
    { "/proc/sys/user/max_user_namespaces", "0",
      "no user namespaces are allowed: sudo sysctl -w user.max_user_namespaces=15000" },
};

static const char *const signs[] = { "namespace",   "uid map",     "gid map",
                                     "RTM_NEWADDR", "RTM_NEWLINK", "setgroups" };

static bool is_about_namespaces(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        if (strstr(text, signs[i]))
            return true;
    }
    return false;
}

static const char *advice(void)
{
    for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
        struct error ignored = ERROR_INIT;
        AUTO_FREE char *content = NULL;

        if (fd_read_file(switches[i].path, 64, &content, NULL, &ignored) == 0 &&
            content[0] == switches[i].forbids[0] && !isdigit((unsigned char)content[1]))
            return switches[i].advice;
    }
    return "this machine forbids user namespaces (sysctl kernel.unprivileged_userns_clone, "
           "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces; or a "
           "container's seccomp profile)";
}

enum { SIGNALLED = 128 };

/* The last line that isn't blank. */
static void last_line(const char *text, struct buf *out)
{
    size_t end = strlen(text);
    size_t begin;

    while (end > 0 && isspace((unsigned char)text[end - 1]))
        end--;
    for (begin = end; begin > 0 && text[begin - 1] != '\n'; begin--)
        ;
    str_append_escaped(out, text + begin, end - begin, 160);
}

int bwrap_explain(const char *stderr_text, int code, int signal, struct error *err)
{
    AUTO_BUF struct buf line = BUF_INIT(1024);

    last_line(stderr_text, &line);
    if (is_about_namespaces(stderr_text))
        return error_set(err, ERR_UNAVAILABLE, 0, "%s (%s)", advice(), buf_text(&line));
    if (line.len)
        return error_set(err, ERR_UNAVAILABLE, 0, "bubblewrap could not make the sandbox: %s",
                         buf_text(&line));
    if (signal)
        return error_set(err, ERR_UNAVAILABLE, 0, "bubblewrap was ended by signal %d", signal);
    /* As a shell says it of what it ran. */
    if (code > SIGNALLED)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "the sandbox's first process was ended by signal %d while it started",
                         code - SIGNALLED);
    return error_set(err, ERR_UNAVAILABLE, 0, "bubblewrap ended with code %d and said nothing",
                     code);
}
