#include "sandbox/bwrap/bwrap.h"

#include <ctype.h>

#include "common/buf.h"
#include "common/mem.h"
#include "common/str.h"
#include "common/userns.h"

/* What forbids user namespaces, and the way out. */
static void append_advice(struct buf *out)
{
    const struct userns_switch *forbidden = userns_forbidden("");

    if (forbidden != NULL)
        buf_printf(out, "%s: %s", forbidden->reason, forbidden->mend);
    else
        buf_append_str(out,
                       "this machine forbids user namespaces (sysctl "
                       "kernel.unprivileged_userns_clone, "
                       "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces; "
                       "or a container's seccomp profile)");
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
    AUTO_BUF struct buf advice = BUF_INIT(1024);

    last_line(stderr_text, &line);
    if (userns_blamed(stderr_text)) {
        append_advice(&advice);
        return error_set(err, ERR_UNAVAILABLE, 0, "%s (%s)", buf_text(&advice), buf_text(&line));
    }
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
