/* main.c: arguments, descriptors, the poll loop, the exit. The process holds nothing that would be
 * missed: clients start it only to look at it, start it twice, and kill it at any moment. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/manual.h"
#include "mcp-stdio/backend.h"
#include "mcp-stdio/output.h"
#include "mcp-stdio/server.h"
#include "proto/launch.h"

#define LOG "mcp"
#define READ_SIZE (64u << 10)
#define LAST_ANSWERS_MS 50 /* clients that close our input wait for the exit, and kill soon */

static const struct manual manual = {
    .name = "sandbox-mcp",
    .summary = "MCP server that hands coding tasks to agents in sandboxes",
    .usage = "[serve]",
    .about =
        "An MCP server on standard input and output, with which an assistant hands long coding\n"
        "tasks to OpenCode and other agents in sandboxes. MCP clients start it; it starts "
        "sandbox-supervisord "
        "when\nthat does not run yet.",
    .options = (const struct manual_item[]){ { "--help", "show this" },
                                             { "--version", "show the version" },
                                             { NULL, NULL } },
    .environment =
        (const struct manual_item[]){
            { "SANDBOX_MCP_CONFIG", "the configuration's file" },
            { "SANDBOX_MCP_STATE, SANDBOX_MCP_RUNTIME, SANDBOX_MCP_DATA", "folders" },
            { "SANDBOX_MCP_SUPERVISORD", "which supervisor is started" },
            { NULL, NULL } },
    .see_also = "sandboxctl(1), sandbox-supervisord(1)",
};

static const struct backend_options backend_options = {
    .launch = launch_supervisor,
    .start_ms = 10000,
    .hello_ms = 5000,
};

/* There is nothing to tidy up, so the exit needs no turn of the loop. */
static void on_stop_signal(int number)
{
    (void)number;
    _exit(0);
}

static void set_signals(void)
{
    static const int stop[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_stop_signal };

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(stop) / sizeof(stop[0]); i++)
        sigaction(stop[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

/* A descriptor that becomes readable when the parent ends; -1 when there is none to watch. */
static int watch_parent(void)
{
    pid_t parent = getppid();
    int fd = parent > 1 ? pidfd_open(parent, 0) : -1;

    /* It may have ended, and its number gone to another, before the descriptor was open. */
    if (fd >= 0 && getppid() != parent)
        fd_close(&fd);
    return fd;
}

/* The loop ------------------------------------------------------------------------------------- */

enum { POLL_INPUT, POLL_OUTPUT, POLL_SUPERVISOR, POLL_PARENT, POLL_COUNT };

struct loop {
    struct server *server;
    struct output output;
    int parent_fd;
    bool input_ended;
    uint64_t end_ms; /* when the input has ended: answers in flight are waited for until here */
};

static uint64_t now_ms(void)
{
    return clock_mono_ms(clock_system());
}

static void prepare(struct loop *loop, struct pollfd polls[POLL_COUNT])
{
    bool full = server_is_full(loop->server);

    for (int i = 0; i < POLL_COUNT; i++)
        polls[i] = (struct pollfd){ .fd = -1 };
    if (!full && !loop->input_ended)
        polls[POLL_INPUT] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
    if (server_output(loop->server)->len)
        polls[POLL_OUTPUT] = (struct pollfd){ .fd = loop->output.fd, .events = POLLOUT };
    if (!full)
        server_poll(loop->server, &polls[POLL_SUPERVISOR]);
    polls[POLL_PARENT] = (struct pollfd){ .fd = loop->parent_fd, .events = POLLIN };
}

static int timeout_ms(const struct loop *loop)
{
    uint64_t deadline_ms = server_deadline_ms(loop->server);
    uint64_t now = now_ms();

    if (loop->input_ended && loop->end_ms < deadline_ms)
        deadline_ms = loop->end_ms;
    if (deadline_ms == UINT64_MAX)
        return -1;
    return deadline_ms <= now ? 0 : deadline_ms - now > 60000 ? 60000 : (int)(deadline_ms - now);
}

static void read_input(struct loop *loop)
{
    char *to = server_input_reserve(loop->server, READ_SIZE);
    ssize_t got = to ? read(STDIN_FILENO, to, READ_SIZE) : 0;

    if (got > 0) {
        server_input_commit(loop->server, (size_t)got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        loop->input_ended = true;
        loop->end_ms = now_ms() + LAST_ANSWERS_MS;
    }
}

static bool is_over(const struct loop *loop)
{
    if (!loop->input_ended)
        return false;
    return now_ms() >= loop->end_ms ||
           (!server_is_busy(loop->server) && !server_output(loop->server)->len);
}

/* -1 when the client is gone. The supervisor comes first: a call that arrives in the same turn must
 * not be sent to one that has just ended. */
static int turn(struct loop *loop, struct error *err)
{
    struct pollfd polls[POLL_COUNT];

    prepare(loop, polls);
    if (poll(polls, POLL_COUNT, timeout_ms(loop)) < 0 && errno != EINTR)
        return error_set(err, ERR_SYSTEM, errno, "poll");
    if (polls[POLL_PARENT].revents)
        return error_set(err, ERR_CANCELLED, 0, "the process that started this one has ended");
    if (polls[POLL_SUPERVISOR].revents)
        server_supervisor_ready(loop->server);
    if (polls[POLL_INPUT].revents)
        read_input(loop);
    server_tick(loop->server);
    return output_flush(&loop->output, server_output(loop->server), err);
}

static void run_loop(struct loop *loop)
{
    struct error err = ERROR_INIT;

    while (!is_over(loop)) {
        if (turn(loop, &err) < 0) {
            log_info(LOG, "%s", err.text);
            return;
        }
    }
}

static int serve(void)
{
    struct server_options options = { .clock = clock_system(), .backend = &backend_options };
    struct loop loop = { .parent_fd = -1 };
    struct error err = ERROR_INIT;

    set_signals();
    if (output_take(&loop.output, &err) < 0) {
        log_error(LOG, "%s", err.text);
        return 1;
    }
    loop.parent_fd = watch_parent();
    loop.server = server_new(&options);
    run_loop(&loop);
    server_free(loop.server);
    return 0;
}

static int show(void (*print)(struct buf *out))
{
    AUTO_BUF struct buf text = BUF_INIT(64u << 10);

    print(&text);
    return fputs(buf_text(&text), stdout) < 0 || fflush(stdout) < 0 ? 1 : 0;
}

static void print_help(struct buf *out)
{
    manual_help(out, &manual);
}

static void print_page(struct buf *out)
{
    manual_begin(out, &manual);
    manual_end(out, &manual);
}

static void print_version(struct buf *out)
{
    buf_append_str(out, "sandbox-mcp " SANDBOX_VERSION "\n");
}

static const struct {
    const char *option;
    void (*print)(struct buf *out);
} shown[] = {
    { "--help", print_help },
    { "-h", print_help },
    { "--version", print_version },
    { "--man", print_page }, /* for the build */
};

int main(int argc, char **argv)
{
    int at = argc > 1 && strcmp(argv[1], "serve") == 0 ? 2 : 1;

    if (argc <= at)
        return serve();
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        if (strcmp(argv[at], shown[i].option) == 0)
            return show(shown[i].print);
    }
    fprintf(stderr, "sandbox-mcp: unknown argument %s; --help shows what there is\n", argv[at]);
    return 2;
}
