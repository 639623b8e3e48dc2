/* leftovers.c: programs that outlive the agent's answer. They end with the sandbox, so whoever
 * relies on them (a server that "was started", a build that "runs") must hear of it. */
#include "run/internal.h"

#include <string.h>

#include "common/str.h"

#define LIST_MS 20000
#define LIST_BYTES 65536
#define LEFT_MAX 20
#define COMMAND_MAX 200

/* Each process but the first, the agent's own program ($1, or those below it) and this shell: its
 * command line on a line of its own. Nothing is started where nothing is left. */
static const char script[] =
    "left=\n"
    "for p in /proc/[0-9]*; do\n"
    "  pid=${p#/proc/}\n"
    "  [ $pid = 1 ] || [ $pid = $$ ] || [ $p/exe -ef \"$1\" ] && continue\n"
    "  if [ -d \"$1\" ]; then\n"
    "    case $(readlink $p/exe) in \"$1\"/*) continue ;; esac\n"
    "  fi\n"
    "  left=\"$left $pid\"\n"
    "done\n"
    "for pid in $left; do\n"
    "  tr '\\0\\n' '  ' 2>/dev/null </proc/$pid/cmdline && echo\n"
    "done 2>/dev/null\n";

int leftovers_start(struct run *run, void (*done)(void *data, const struct command_result *result,
                                                  const struct error *err))
{
    const char *own =
        run->driver != NULL && run->driver->program != NULL ? run->driver->program : "-";
    const char *const argv[] = { "/bin/sh", "-c", script, "sh", own, NULL };
    struct command_options options = { .argv = argv,
                                       .env = git_environment(),
                                       .cwd = "/",
                                       .max_output_bytes = LIST_BYTES,
                                       .timeout_ms = LIST_MS,
                                       .on_done = done,
                                       .data = run };
    struct error err = ERROR_INIT;

    return command_start(&run->command, run->runs->loop, run->sandbox, &options, &err);
}

static void append_line(struct buf *out, const char *line, size_t len)
{
    size_t cut = len > COMMAND_MAX ? COMMAND_MAX : len;

    while (cut > 0 && line[cut - 1] == ' ')
        cut--;
    if (out->len > 0)
        buf_append_char(out, '\n');
    str_append_escaped(out, line, cut, COMMAND_MAX);
}

void leftovers_take(struct run *run, const struct command_result *result)
{
    const char *at = buf_text(result->out);
    AUTO_BUF struct buf left = BUF_INIT(64u << 10);
    size_t count = 0;

    while (*at != '\0' && count < LEFT_MAX) {
        size_t len = strcspn(at, "\n");

        if (len > 0 && strspn(at, " ") < len) {
            append_line(&left, at, len);
            count++;
        }
        at += len + (at[len] == '\n');
    }
    record_set(&run->record.evidence.left_running, left.failed ? "" : buf_text(&left));
}
