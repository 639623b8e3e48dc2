#include "proxy/git_push.h"

#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/pktline.h"

struct git_push {
    struct body_gate gate;
    struct git_push_options options;
    char *place;
    char *only;     /* of the rules, which may change meanwhile */
    size_t read_at; /* the packets before it are whole */
    bool empty;     /* no command, only the flush with which git asks whether it may push */
    struct git_push_head head;
    struct git_report report;
};

static struct git_push *push_of(struct body_gate *gate)
{
    return CONTAINER_OF(gate, struct git_push, gate);
}

static const char *tip_of(void *data, const char *ref)
{
    const struct git_push *push = data;

    return git_tips_get(push->options.tips, push->place, ref);
}

static enum body_gate_state refuse_all(struct git_push *push, const char *reason)
{
    static const struct {
        const char *reason;
        int status;
    } statuses[] = { { "push_malformed", 400 }, { "push_too_large", 413 } };
    int status = 403;

    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (str_equal(statuses[i].reason, reason))
            status = statuses[i].status;
    return body_gate_refuse(&push->gate, status, reason, git_refusal_message(reason));
}

/* In git's own words where the client asked to be told. */
static enum body_gate_state refuse_commands(struct git_push *push)
{
    struct body_refusal *refusal = &push->gate.refusal;

    refuse_all(push, git_push_reason(&push->head));
    if (push->head.report) {
        refusal->status = 200;
        refusal->type = "application/x-git-receive-pack-result";
        git_push_refuse(&push->head, &push->options.rules, &refusal->body);
    }
    return BODY_GATE_SHUT;
}

/* HEAD_LEN: the commands and the flush behind them. */
static enum body_gate_state judge(struct git_push *push, size_t head_len)
{
    const char *reason = git_push_head_parse(push->gate.held.data, head_len, &push->head);

    if (reason != NULL)
        return refuse_all(push, reason);
    if (push->head.count == 0) {
        push->empty = true;
        return BODY_GATE_READING;
    }
    if (!git_push_judge(&push->head, &push->options.rules, tip_of, push))
        return refuse_commands(push);
    git_report_init(&push->report, &push->head);
    push->gate.reads_answer = push->head.report;
    return BODY_GATE_OPEN;
}

static enum body_gate_state look(struct body_gate *gate, bool ended)
{
    struct git_push *push = push_of(gate);

    for (;;) {
        struct pktline line;

        if (push->empty && gate->held.len > push->read_at)
            return refuse_all(push, "push_malformed"); /* a pack that belongs to no command */
        if (push->empty)
            return ended ? BODY_GATE_OPEN : BODY_GATE_READING;
        if (gate->held.len == push->read_at)
            return ended ? refuse_all(push, "push_malformed") : BODY_GATE_READING;
        line = pktline_read(gate->held.data + push->read_at, gate->held.len - push->read_at);
        push->read_at += line.size;
        if (push->read_at > GIT_COMMANDS_BYTES)
            return refuse_all(push, "push_too_large");
        if (line.kind == PKTLINE_BAD || (line.kind == PKTLINE_MORE && ended))
            return refuse_all(push, "push_malformed");
        if (line.kind == PKTLINE_MORE)
            return BODY_GATE_READING;
        if (line.kind == PKTLINE_FLUSH) {
            enum body_gate_state state = judge(push, push->read_at);

            if (state != BODY_GATE_READING)
                return state;
        }
    }
}

static void on_answer(struct body_gate *gate, const char *data, size_t len)
{
    git_report_feed(&push_of(gate)->report, data, len);
}

static void remember(struct git_push *push)
{
    bool pushed = false;

    for (size_t i = 0; i < push->head.count; i++) {
        const struct git_command *command = &push->head.commands[i];

        if (!command->accepted)
            continue;
        git_tips_set(push->options.tips, push->place, command->ref, command->new_id);
        pushed = true;
    }
    if (pushed && push->options.on_pushed != NULL)
        push->options.on_pushed(push->options.data);
}

static void push_free(struct body_gate *gate)
{
    struct git_push *push = push_of(gate);

    remember(push);
    git_report_finish(&push->report);
    git_push_head_finish(&push->head);
    free(push->place);
    free(push->only);
    free(push);
}

static const struct body_gate_kind git_push_kind = {
    .held_max = GIT_COMMANDS_BYTES,
    .too_large = "push_too_large",
    .look = look,
    .on_answer = on_answer,
    .free = push_free,
};

struct body_gate *git_push_gate_new(const struct http_request *request,
                                    const struct git_push_options *options)
{
    struct git_push *push = NEW(struct git_push);
    const char *encoding = http_headers_get(&request->headers, "content-encoding");

    body_gate_init(&push->gate, &git_push_kind);
    push->options = *options;
    push->place = mem_strdup(options->place);
    push->options.rules.only = push->only = mem_strdup(options->rules.only);
    /* Git never compresses a push, but servers would unpack it. */
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
        push->gate.state = body_gate_refuse(&push->gate, 415, "push_encoding",
                                            git_refusal_message("push_encoding"));
    return &push->gate;
}

void git_push_describe(struct body_gate *gate, struct buf *out)
{
    const struct git_push *push = push_of(gate);

    for (size_t i = 0; i < push->head.count; i++)
        buf_printf(out, "%s%s %.10s..%.10s", i > 0 ? ", " : "", push->head.commands[i].ref,
                   push->head.commands[i].old_id, push->head.commands[i].new_id);
}
