/* program.c: ways that are a program of the user's: theirs, which gets the notice as JSON on its
 * standard input, and the one that shows a desktop notice. */
#include "notice/internal.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/child.h"

#define ENVIRONMENT_MAX 16

extern char **environ;

static void on_child_closed(void *data)
{
    notices_part_closed(data);
}

void program_stop(struct delivery *delivery)
{
    struct notices *notices = delivery_notices(delivery);

    if (delivery->child == NULL)
        return;
    child_kill_group(delivery->child, SIGKILL);
    notices->open++;
    child_close(STEAL(delivery->child), on_child_closed, notices);
}

static void on_exit_code(void *data, int code, int signal)
{
    struct delivery *delivery = data;
    AUTO_BUF struct buf said = BUF_INIT(1024);
    AUTO_FREE
    char *why = NULL;
    const char *last = child_stderr(delivery->child);
    size_t len = strlen(last);

    while (len > 0 && last[len - 1] == '\n')
        len--;
    str_append_escaped(&said, last, len, 200);
    why = signal != 0 ? mem_printf("it was ended by signal %d", signal)
                      : mem_printf("it ended with code %d%s%s", code, said.len > 0 ? ": " : "",
                                   buf_text(&said));
    /* What it left behind in its group goes with it. */
    program_stop(delivery);
    delivery_done(delivery, code == 0 && signal == 0 ? DELIVERY_TOLD : DELIVERY_FAILED, why);
}

static void on_time_over(uv_timer_t *timer)
{
    struct delivery *delivery = timer->data;

    program_stop(delivery);
    delivery_done(delivery, DELIVERY_FAILED, "it took too long");
}

/* What programs of a person's session need, and nothing that could hold a credential. */
static void choose_environment(const char *to[ENVIRONMENT_MAX + 1])
{
    static const char *const names[] = { "HOME=",           "PATH=",
                                         "USER=",           "LANG=",
                                         "LC_ALL=",         "DBUS_SESSION_BUS_ADDRESS=",
                                         "DISPLAY=",        "WAYLAND_DISPLAY=",
                                         "XDG_RUNTIME_DIR=" };
    size_t count = 0;

    for (char **item = environ; *item != NULL && count < ENVIRONMENT_MAX; item++) {
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            if (str_starts(*item, names[i])) {
                to[count++] = *item;
                break;
            }
        }
    }
    to[count] = NULL;
}

static int run_program(struct delivery *delivery, const char *const *argv, int input,
                       struct error *err)
{
    const char *environment[ENVIRONMENT_MAX + 1];
    struct notices *notices = delivery_notices(delivery);
    struct child_fd fds[] = { { input, 0 } };
    struct child_options options = { .program = argv[0],
                                     .argv = argv,
                                     .env = environment,
                                     .fds = fds,
                                     .fd_count = ARRAY_LEN(fds),
                                     .capture_stderr = 1 };

    choose_environment(environment);
    if (child_start(&delivery->child, notices->loop, &options, on_exit_code, delivery, err) < 0)
        return -1;
    uv_timer_start(&delivery->timer, on_time_over,
                   (uint64_t)notices->options.program_seconds * 1000, 0);
    return 0;
}

int program_start(struct delivery *delivery, struct error *err)
{
    const char *argv[] = { delivery_notices(delivery)->options.program, NULL };
    AUTO_CLOSE
    int input = memfd_create("notice", MFD_CLOEXEC);

    if (input < 0)
        return error_set(err, ERR_SYSTEM, 0, "no memory file for a notice");
    buf_clear(&delivery->body);
    notice_json(delivery_notice(delivery), &delivery->body);
    buf_append_char(&delivery->body, '\n');
    if (fd_write_all(input, delivery->body.data, delivery->body.len, err) < 0)
        return -1;
    lseek(input, 0, SEEK_SET);
    return run_program(delivery, argv, input, err);
}

int desktop_start(struct delivery *delivery, struct error *err)
{
    const struct notice *notice = delivery_notice(delivery);
    AUTO_BUF struct buf title = BUF_INIT(1024);
    AUTO_BUF struct buf text = BUF_INIT(8192);
    const char *argv[] = { delivery_notices(delivery)->options.desktop,
                           "--app-name=sandbox-mcp",
                           str_equal(notice->status, "waiting") ? "--urgency=critical"
                                                                : "--urgency=normal",
                           "--",
                           NULL,
                           NULL,
                           NULL };

    notice_title(notice, &title);
    notice_text(notice, &text);
    argv[4] = buf_text(&title);
    argv[5] = buf_text(&text);
    return run_program(delivery, argv, -1, err);
}
