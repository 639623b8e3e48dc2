#include "ctl/live.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/print.h"
#include "ctl/terminal.h"

#define REPAINT_MS 1000
#define STEP_MAX 400 /* bytes */

struct live {
    struct session *session;
    const char *run_id;
    enum live_mode mode;
    uint64_t cursor;
    uint64_t request;
    uint64_t started_ms; /* time of the first event seen */
    int signals;
    bool terminal;    /* a status line is shown */
    size_t painted;   /* code points of the line that is shown */
    struct buf state; /* "running: work" */
    struct buf step;
    uint64_t tokens;
    double cost_usd;
};

bool live_shows(const char *kind)
{
    static const char *const shown[] = { "state", "text",    "tool",  "question", "permission",
                                         "retry", "refused", "error", "message" };

    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        if (str_equal(shown[i], kind))
            return true;
    }
    return false;
}

/* The status line
 * -----------------------------------------------------------------------------------------------
 */

/* A window that has become narrower has wrapped the line: its rows go together. */
static void unpaint(struct live *live)
{
    size_t width = terminal_width(STDERR_FILENO);

    if (live->painted > width)
        fprintf(stderr, "\033[%zuA\r\033[J", (live->painted - 1) / width);
    else if (live->painted > 0)
        fputs("\r\033[K", stderr);
    live->painted = 0;
}

static void paint(struct live *live)
{
    AUTO_BUF struct buf line = BUF_INIT(8192);
    uint64_t now = clock_wall_ms(clock_system());
    size_t width = terminal_width(STDERR_FILENO) - 1;
    size_t at = 0;

    if (!live->terminal)
        return;
    unpaint(live);
    buf_append_str(&line, live->state.len != 0 ? buf_text(&live->state) : "waiting");
    if (live->started_ms != 0 && now > live->started_ms) {
        buf_append_str(&line, ", ");
        print_duration(&line, now - live->started_ms);
    }
    if (live->tokens != 0)
        buf_printf(&line, ", %llu tokens", (unsigned long long)live->tokens);
    if (live->cost_usd > 0)
        buf_printf(&line, ", $%.2f", live->cost_usd);
    if (live->step.len != 0)
        buf_printf(&line, "  %s", buf_text(&live->step));
    while (at < line.len && width-- > 0) {
        size_t step = str_utf8_step(line.data + at, line.len - at, NULL);

        at += step != 0 ? step : 1;
    }
    AUTO_FREE
    char *shown = mem_strndup(buf_text(&line), at);
    fputs(shown, stderr);
    fflush(stderr);
    live->painted = str_utf8_length(shown);
}

/* Events
 * ----------------------------------------------------------------------------------------------------------
 */

static bool asks(const char *kind)
{
    return str_equal(kind, "question") || str_equal(kind, "permission");
}

/* What the agent asks is shown by all but the silent: it waits for whoever looks on. */
static void show_event(struct live *live, const struct json_value *event)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);
    const char *kind = json_string(json_get(event, "kind"));

    if (live->mode == LIVE_SILENT || kind == NULL ||
        !(live->mode == LIVE_EVENTS ? live_shows(kind) : asks(kind)))
        return;
    unpaint(live);
    print_event(&text, event);
    if (asks(kind)) {
        buf_append_str(&text, "         to answer: ");
        print_how_to_answer(&text, live->run_id, json_get(event, "data"));
        buf_append_char(&text, '\n');
    }
    fwrite(buf_text(&text), 1, text.len, stderr);
}

static void take_usage(struct live *live, const struct json_value *data)
{
    live->tokens =
        json_u64(json_get(data, "inputTokens"), 0) + json_u64(json_get(data, "outputTokens"), 0);
    live->cost_usd = json_number(json_get(data, "costUsd"), 0);
}

static void take_event(struct live *live, const struct json_value *event)
{
    const char *kind = json_string(json_get(event, "kind"));
    const char *text = json_string(json_get(event, "text"));

    live->cursor = json_u64(json_get(event, "number"), live->cursor);
    if (live->started_ms == 0)
        live->started_ms = json_u64(json_get(event, "time"), 0);
    if (str_equal(kind, "usage"))
        take_usage(live, json_get(event, "data"));
    if (kind != NULL && text != NULL) {
        struct buf *to = str_equal(kind, "state")  ? &live->state
                         : str_equal(kind, "tool") ? &live->step
                                                   : NULL;

        if (to != NULL) {
            buf_clear(to);
            print_line(to, text, STEP_MAX);
        }
    }
    show_event(live, event);
}

/* Following
 * ---------------------------------------------------------------------------------------------------------
 */

static int subscribe(struct live *live, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", live->run_id);
    json_member_u64(&writer, "after", live->cursor);
    json_member_bool(&writer, "follow", true);
    json_write_object_end(&writer);
    live->request = client_send(live->session->client, "run.events", buf_text(&body), NULL, 0, err);
    return live->request != 0 ? 0 : -1;
}

/* 1: the run has ended; 0: go on. */
static int take_messages(struct live *live, struct error *err)
{
    for (;;) {
        struct client_message message;
        int rc = client_next(live->session->client, 0, &message, err);
        enum envelope_kind kind;

        if (rc <= 0)
            return rc;
        kind = message.envelope.kind;
        if (message.envelope.id != live->request)
            kind = ENVELOPE_REPLY; /* not ours: nothing to do */
        else if (kind == ENVELOPE_EVENT)
            take_event(live, message.envelope.body);
        else if (kind == ENVELOPE_ERROR)
            *err = message.envelope.error;
        client_message_finish(&message);
        if (kind == ENVELOPE_ERROR)
            return -1;
        if (kind == ENVELOPE_END)
            return 1;
    }
}

enum woken { WOKEN_CLIENT, WOKEN_SIGNAL, WOKEN_TIME };

/* Takes the signal up, or it would end us when it is unblocked. */
static bool signal_came(const struct live *live)
{
    struct signalfd_siginfo info;

    return read(live->signals, &info, sizeof(info)) == (ssize_t)sizeof(info);
}

static enum woken wait_for_something(struct live *live)
{
    struct pollfd fds[] = { { .fd = client_fd(live->session->client), .events = POLLIN },
                            { .fd = live->signals, .events = POLLIN } };

    if (poll(fds, ARRAY_LEN(fds), live->terminal ? REPAINT_MS : -1) <= 0)
        return WOKEN_TIME;
    return signal_came(live) ? WOKEN_SIGNAL : WOKEN_CLIENT;
}

/* The supervisor may have been restarted: the run goes on, and so do we. */
static int reconnect(struct live *live, struct error *err)
{
    struct error fresh = ERROR_INIT;

    if (err->code != ERR_UNAVAILABLE)
        return -1;
    unpaint(live);
    if (live->mode != LIVE_SILENT)
        fputs("the connection was lost; connecting again\n", stderr);
    session_disconnect(live->session);
    if (session_connect(live->session, SESSION_START, err) < 0)
        return -1;
    *err = fresh;
    return subscribe(live, err);
}

static int follow(struct live *live, enum live_end *end, struct error *err)
{
    if (subscribe(live, err) < 0)
        return -1;
    for (;;) {
        int rc = take_messages(live, err);

        if (rc < 0 && reconnect(live, err) < 0)
            return -1;
        if (rc > 0) {
            *end = LIVE_ENDED;
            return 0;
        }
        paint(live);
        if (wait_for_something(live) == WOKEN_SIGNAL) {
            *end = LIVE_LEFT;
            return 0;
        }
    }
}

int live_follow(struct session *session, const char *run_id, uint64_t after, enum live_mode mode,
                enum live_end *end, struct error *err)
{
    struct live live = { .session = session, .run_id = run_id, .mode = mode, .cursor = after };
    sigset_t caught;
    sigset_t before;
    int rc;

    sigemptyset(&caught);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGTERM);
    sigprocmask(SIG_BLOCK, &caught, &before);
    live.signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    live.terminal = mode != LIVE_SILENT && session->err_terminal;
    buf_init(&live.state, 2048);
    buf_init(&live.step, 2048);
    rc = follow(&live, end, err);
    unpaint(&live);
    buf_finish(&live.state);
    buf_finish(&live.step);
    fd_close(&live.signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}
