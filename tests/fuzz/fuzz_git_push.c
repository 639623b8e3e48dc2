// links: supervisor_proxy
/* The commands of a push: whatever the bytes and wherever they are cut, the verdict is the same,
 * and what passes names only valid refs below agent/. The rest of the input is the server's answer.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/git_push.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const refs[] = { "agent/..." };

struct outcome {
    enum body_gate_state state;
    char reason[32];
    char pushed[4096];
};

/* SPLIT says where the input is cut; 0: not at all. */
static void run(const char *data, size_t len, size_t answer_at, size_t split, struct outcome *out)
{
    struct git_tips tips = { .count = 0 };
    struct http_request request = { .minor = 1 };
    struct buf text;
    const struct git_push_options options = {
        .rules = { .refs = refs, .ref_count = 1, .branch = "" },
        .tips = &tips,
        .place = "github/o/r"
    };
    size_t at = 0;
    size_t piece = split > 0 ? split : len + 1;

    http_headers_init(&request.headers);
    git_tips_set(&tips, "github/o/r", "refs/heads/agent/old",
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    struct body_gate *gate = git_push_gate_new(&request, &options);
    for (; at < answer_at && gate->state == BODY_GATE_READING; at += piece)
        body_gate_feed(gate, data + at, answer_at - at < piece ? answer_at - at : piece);
    out->state = gate->state == BODY_GATE_READING ? body_gate_end(gate) : gate->state;
    BUG_ON(out->state == BODY_GATE_READING);
    BUG_ON((out->state == BODY_GATE_SHUT) != (gate->refusal.reason != NULL));
    str_copy(out->reason, sizeof(out->reason),
             gate->refusal.reason != NULL ? gate->refusal.reason : "ok");
    for (at = answer_at; at < len && out->state == BODY_GATE_OPEN && gate->reads_answer;
         at += piece)
        gate->kind->on_answer(gate, data + at, len - at < piece ? len - at : piece);
    body_gate_free(gate);
    for (size_t i = 0; i < tips.count; i++)
        BUG_ON(!git_ref_valid(tips.items[i].ref, strlen(tips.items[i].ref)) ||
               !str_starts(tips.items[i].ref, "refs/heads/agent/"));
    buf_init(&text, 1u << 20);
    git_tips_format(&tips, &text);
    str_copy(out->pushed, sizeof(out->pushed), buf_text(&text));
    buf_finish(&text);
    git_tips_finish(&tips);
    http_headers_finish(&request.headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole;
    struct outcome cut;

    if (size < 2)
        return 0;
    /* Two bytes say where the answer begins and how the input is cut. */
    size_t len = size - 2;
    size_t answer_at = len - (size_t)data[0] * 2 % (len + 1);
    const char *text = (const char *)data + 2;
    run(text, len, answer_at, 0, &whole);
    run(text, len, answer_at, 1u + data[1], &cut);
    BUG_ON(whole.state != cut.state || strcmp(whole.reason, cut.reason) != 0);
    BUG_ON(strcmp(whole.pushed, cut.pushed) != 0);
    return 0;
}
