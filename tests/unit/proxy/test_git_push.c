/* The gate of a push, fed with what clients send and what they might. */
#include "proxy/git_push.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "proxy/pktline.h"

#define ZERO "0000000000000000000000000000000000000000"
#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define CAPS " report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"
#define PACK "PACK\0\0\0\2 and so on"

static const char *const agent_refs[] = { "agent/..." };

struct bench {
    struct git_tips tips;
    struct http_request request;
    struct git_push_options options;
    unsigned pushed;
};

static void note_pushed(void *data)
{
    unsigned *pushed = data;

    (*pushed)++;
}

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){ .pushed = 0 };
    http_headers_init(&bench->request.headers);
    bench->options = (struct git_push_options){
        .rules = { .refs = agent_refs, .ref_count = 1, .branch = "" },
        .tips = &bench->tips,
        .place = "github/o/r",
        .on_pushed = note_pushed,
        .data = &bench->pushed,
    };
}

static void bench_finish(struct bench *bench)
{
    git_tips_finish(&bench->tips);
    http_headers_finish(&bench->request.headers);
}

/* LINES end with NULL; "%" stands for the NUL byte before the capabilities. */
static void write_lines(struct buf *out, const char *const *lines)
{
    for (; *lines != NULL; lines++) {
        AUTO_FREE
        char *line = mem_strdup(*lines);
        size_t len = strlen(line);
        char *mark;

        while ((mark = memchr(line, '%', len)) != NULL)
            *mark = '\0';
        pktline_write(out, line, len);
    }
    pktline_write_flush(out);
}

/* Feeds DATA cut at CUT and gives the gate's state at the end. */
static enum body_gate_state feed(struct body_gate *gate, const char *data, size_t len, size_t cut)
{
    if (cut > len)
        cut = len;
    if (cut > 0)
        body_gate_feed(gate, data, cut);
    if (gate->state == BODY_GATE_OPEN)
        return BODY_GATE_OPEN;
    if (len > cut)
        body_gate_feed(gate, data + cut, len - cut);
    return gate->state == BODY_GATE_OPEN ? gate->state : body_gate_end(gate);
}

static const char *verdict_of(struct bench *bench, const char *const *lines)
{
    const char *first = NULL;
    struct buf body;

    buf_init(&body, 1 << 20);
    write_lines(&body, lines);
    buf_append(&body, PACK, sizeof(PACK) - 1);
    for (size_t cut = 0; cut <= body.len; cut++) {
        struct body_gate *gate = git_push_gate_new(&bench->request, &bench->options);
        enum body_gate_state state = feed(gate, body.data, body.len, cut);
        const char *reason = state == BODY_GATE_OPEN ? "ok" : gate->refusal.reason;

        CHECK(state != BODY_GATE_READING);
        CHECK(first == NULL || str_equal(first, reason));
        first = reason;
        body_gate_free(gate);
    }
    buf_finish(&body);
    return first;
}

#define VERDICT(bench, ...) verdict_of(bench, (const char *const[]){ __VA_ARGS__, NULL })

TEST(verdicts_are_the_same_wherever_the_commands_are_cut)
{
    struct bench bench;

    bench_init(&bench);
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS), "ok");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS "\n"), "ok");
    CHECK_STR(VERDICT(&bench, "shallow " ID_B, ZERO " " ID_A " refs/heads/agent/x%" CAPS), "ok");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS " atomic",
                      ZERO " " ID_A " refs/heads/agent/y\n"),
              "ok");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/main%" CAPS), "push_ref_not_allowed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS,
                      ZERO " " ID_A " refs/heads/main"),
              "push_ref_not_allowed");
    bench_finish(&bench);
}

TEST(a_grant_for_one_ref_is_for_no_other)
{
    struct bench bench;

    bench_init(&bench);
    bench.options.rules.branch = "work";
    bench.options.rules.only = "refs/heads/agent/x";
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS), "ok");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/y%" CAPS), "push_ref_not_allowed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/work%" CAPS), "push_ref_not_allowed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS " atomic",
                      ZERO " " ID_A " refs/heads/agent/y\n"),
              "push_ref_not_allowed");
    bench.options.rules.only = "refs/heads/main";
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/main%" CAPS), "push_ref_not_allowed");
    bench.options.rules.only = "";
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS), "push_ref_not_allowed");
    bench_finish(&bench);
}

TEST(refs_outside_the_prefix_are_refused_whatever_they_are_called)
{
    static const struct {
        const char *ref;
        const char *reason;
    } cases[] = {
        { "refs/heads/main", "push_ref_not_allowed" },
        { "refs/tags/v1", "push_ref_not_allowed" },
        { "refs/tags/agent/x", "push_ref_not_allowed" },
        { "refs/pull/1/head", "push_ref_not_allowed" },
        { "refs/for/main", "push_ref_not_allowed" },
        { "refs/for/agent/x", "push_ref_not_allowed" },
        { "refs/notes/x", "push_ref_not_allowed" },
        { "refs/heads/Agent/x", "push_ref_not_allowed" },
        { "refs/heads/AGENT/x", "push_ref_not_allowed" },
        { "refs/heads/agent", "push_ref_not_allowed" },
        { "refs/heads/agentx/y", "push_ref_not_allowed" },
        { "refs/remotes/origin/agent/x", "push_ref_not_allowed" },
        { "refs/heads/agent/", "push_ref_name" },
        { "HEAD", "push_ref_name" },
        { "Refs/heads/agent/x", "push_ref_name" },
        { "refs/heads/agent/../main", "push_ref_name" },
        { "refs/heads/agent/x.lock", "push_ref_name" },
        { "refs/heads/agent//x", "push_ref_name" },
        { "refs/heads/agent/x y", "push_ref_name" },
        { "refs/heads/agent/\xc3\xa4", "push_ref_name" },
        { "refs/heads/agent/x\\y", "push_ref_name" },
        { "refs/heads/agent/x\ny", "push_malformed" },
        { "refs/heads/agent/x\x1b[2J", "push_malformed" },
        { "", "push_malformed" },
    };
    struct bench bench;

    bench_init(&bench);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_FREE
        char *line = mem_printf(ZERO " " ID_A " %s%%" CAPS, cases[i].ref);

        CHECK_STR(VERDICT(&bench, line), cases[i].reason);
    }
    bench_finish(&bench);
}

TEST(only_what_the_session_pushed_is_overwritten_or_deleted)
{
    struct bench bench;

    bench_init(&bench);
    CHECK_STR(VERDICT(&bench, ID_A " " ID_B " refs/heads/agent/x%" CAPS), "push_overwrite");
    CHECK_STR(VERDICT(&bench, ID_A " " ZERO " refs/heads/agent/x%" CAPS), "push_delete");
    CHECK_STR(VERDICT(&bench, ZERO " " ZERO " refs/heads/agent/x%" CAPS), "push_delete");
    git_tips_set(&bench.tips, "github/o/r", "refs/heads/agent/x", ID_A);
    CHECK_STR(VERDICT(&bench, ID_A " " ID_B " refs/heads/agent/x%" CAPS), "ok");
    CHECK_STR(VERDICT(&bench, ID_A " " ZERO " refs/heads/agent/x%" CAPS), "ok");
    CHECK_STR(VERDICT(&bench, ID_B " " ID_A " refs/heads/agent/x%" CAPS), "push_overwrite");
    CHECK_STR(VERDICT(&bench, ID_A " " ID_B " refs/heads/agent/y%" CAPS), "push_overwrite");
    bench.options.place = "github/o/other";
    CHECK_STR(VERDICT(&bench, ID_A " " ID_B " refs/heads/agent/x%" CAPS), "push_overwrite");
    bench.options.rules.overwrite = true;
    CHECK_STR(VERDICT(&bench, ID_A " " ID_B " refs/heads/agent/x%" CAPS), "ok");
    CHECK_STR(VERDICT(&bench, ID_A " " ID_B " refs/heads/main%" CAPS), "push_ref_not_allowed");
    bench_finish(&bench);
}

TEST(the_sessions_branch_may_be_made_but_not_changed)
{
    struct bench bench;

    bench_init(&bench);
    bench.options.rules.branch = "feature/x";
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/feature/x%" CAPS), "ok");
    CHECK_STR(VERDICT(&bench, ID_A " " ID_B " refs/heads/feature/x%" CAPS), "push_overwrite");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/feature/xy%" CAPS),
              "push_ref_not_allowed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/tags/feature/x%" CAPS), "push_ref_not_allowed");
    bench_finish(&bench);
}

TEST(forms_that_hide_commands_are_refused)
{
    struct bench bench;

    bench_init(&bench);
    CHECK_STR(VERDICT(&bench, "push-cert%" CAPS, "certificate version 0.1\n"), "push_certificate");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x% report-status push-cert=abc"),
              "push_certificate");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS " push-options"),
              "push_options");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS,
                      ZERO " " ID_B " refs/heads/agent/x"),
              "push_duplicate");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS,
                      ZERO " " ID_B " refs/heads/agent/X"),
              "push_duplicate");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x"), "push_malformed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS "%atomic"),
              "push_malformed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS,
                      ZERO " " ID_A " refs/heads/agent/y%" CAPS),
              "push_malformed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A " refs/heads/agent/x%" CAPS, "shallow " ID_A),
              "push_malformed");
    CHECK_STR(VERDICT(&bench, ZERO "  " ID_A " refs/heads/agent/x%" CAPS), "push_malformed");
    CHECK_STR(VERDICT(&bench, ZERO "0 " ID_A " refs/heads/agent/x%" CAPS), "push_malformed");
    CHECK_STR(VERDICT(&bench,
                      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA " ID_A " refs/heads/agent/x%" CAPS),
              "push_malformed");
    CHECK_STR(VERDICT(&bench, ZERO " " ID_A ID_A " refs/heads/agent/x%" CAPS), "push_malformed");
    CHECK_STR(VERDICT(&bench, "\n"), "push_malformed");
    /* No command, but a pack. */
    CHECK_STR(VERDICT(&bench, "shallow " ID_A), "push_malformed");
    bench_finish(&bench);
}

static const char *raw_verdict(struct bench *bench, const char *body, size_t len)
{
    struct body_gate *gate = git_push_gate_new(&bench->request, &bench->options);
    enum body_gate_state state = feed(gate, body, len, len / 2);
    const char *reason = state == BODY_GATE_OPEN ? "ok" : gate->refusal.reason;

    body_gate_free(gate);
    return reason;
}

TEST(the_probe_of_an_empty_push_passes)
{
    struct bench bench;

    bench_init(&bench);
    CHECK_STR(raw_verdict(&bench, "0000", 4), "ok");
    CHECK_STR(raw_verdict(&bench, "00000000", 8), "push_malformed");
    CHECK_STR(raw_verdict(&bench, "0000PACK", 8), "push_malformed");
    CHECK_STR(raw_verdict(&bench, "", 0), "push_malformed");
    CHECK_STR(raw_verdict(&bench, "000", 3), "push_malformed");
    CHECK_STR(raw_verdict(&bench, "0001", 4), "push_malformed");
    CHECK_STR(raw_verdict(&bench, "\x1f\x8b\x08\x00zip", 7), "push_malformed");
    bench_finish(&bench);
}

TEST(the_list_of_commands_is_bounded)
{
    struct bench bench;
    struct buf body;

    bench_init(&bench);
    buf_init(&body, 8 << 20);
    for (unsigned i = 0; i < 1000; i++) {
        AUTO_FREE
        char *line =
            mem_printf(ZERO " " ID_A " refs/heads/agent/%u%c" CAPS, i, i == 0 ? '%' : '\n');
        char *mark = strchr(line, i == 0 ? '%' : '\n');
        size_t len = i == 0 ? strlen(line) : (size_t)(mark - line);

        if (i == 0)
            *mark = '\0';
        pktline_write(&body, line, len);
    }
    pktline_write_flush(&body);
    CHECK_STR(raw_verdict(&bench, body.data, body.len), "ok");
    body.len -= 4;
    pktline_write(&body, ZERO " " ID_A " refs/heads/agent/last", 104);
    pktline_write_flush(&body);
    CHECK_STR(raw_verdict(&bench, body.data, body.len), "push_too_large");
    body.len -= 4;
    /* Never ended. */
    CHECK_STR(raw_verdict(&bench, body.data, body.len), "push_malformed");
    while (body.len < 2u << 20)
        pktline_write(&body, ZERO " " ID_A " refs/heads/agent/more", 104);
    CHECK_STR(raw_verdict(&bench, body.data, body.len), "push_too_large");
    buf_finish(&body);
    bench_finish(&bench);
}

TEST(a_compressed_push_is_refused_unread)
{
    struct bench bench;
    struct body_gate *gate;

    bench_init(&bench);
    http_headers_add(&bench.request.headers, "Content-Encoding", "gzip");
    gate = git_push_gate_new(&bench.request, &bench.options);
    CHECK_EQ(body_gate_feed(gate, "0000", 4), BODY_GATE_SHUT);
    CHECK_EQ(body_gate_end(gate), BODY_GATE_SHUT);
    CHECK_STR(gate->refusal.reason, "push_encoding");
    CHECK_EQ(gate->refusal.status, 415);
    body_gate_free(gate);
    bench_finish(&bench);
}

TEST(refusals_are_in_gits_own_words)
{
    const char *const lines[] = { ZERO " " ID_A " refs/heads/agent/x%" CAPS,
                                  ZERO " " ID_B " refs/heads/main", NULL };
    struct bench bench;
    struct body_gate *gate;
    struct buf body;
    struct buf report;
    size_t at = 0;

    bench_init(&bench);
    buf_init(&body, 1 << 16);
    buf_init(&report, 1 << 16);
    write_lines(&body, lines);
    gate = git_push_gate_new(&bench.request, &bench.options);
    CHECK_EQ(body_gate_feed(gate, body.data, body.len), BODY_GATE_SHUT);
    CHECK_EQ(gate->refusal.status, 200);
    CHECK_STR(gate->refusal.type, "application/x-git-receive-pack-result");
    for (;;) {
        struct pktline line =
            pktline_read(gate->refusal.body.data + at, gate->refusal.body.len - at);

        at += line.size;
        if (line.kind != PKTLINE_DATA) {
            CHECK_EQ(line.kind, PKTLINE_FLUSH);
            break;
        }
        if (line.data[0] == 1)
            buf_append(&report, line.data + 1, line.len - 1);
    }
    CHECK_EQ(at, gate->refusal.body.len);
    CHECK_STR(buf_text(&report),
              "000eunpack ok\n"
              "0059ng refs/heads/agent/x sandbox: not pushed, since another ref of this push is "
              "refused\n"
              "0041ng refs/heads/main sandbox: not a ref that this run may push\n0000");
    body_gate_free(gate);

    /* Without side band the report stands alone, and without report-status there is none. */
    buf_clear(&body);
    write_lines(&body,
                (const char *const[]){ ZERO " " ID_B " refs/heads/main% report-status", NULL });
    gate = git_push_gate_new(&bench.request, &bench.options);
    CHECK_EQ(body_gate_feed(gate, body.data, body.len), BODY_GATE_SHUT);
    CHECK_STR(buf_text(&gate->refusal.body),
              "000eunpack ok\n0041ng refs/heads/main sandbox: not a ref that this run may "
              "push\n0000");
    body_gate_free(gate);
    buf_clear(&body);
    write_lines(&body, (const char *const[]){ ZERO " " ID_B " refs/heads/main% quiet", NULL });
    gate = git_push_gate_new(&bench.request, &bench.options);
    CHECK_EQ(body_gate_feed(gate, body.data, body.len), BODY_GATE_SHUT);
    CHECK_EQ(gate->refusal.status, 403);
    CHECK(gate->refusal.type == NULL);
    body_gate_free(gate);
    buf_finish(&body);
    buf_finish(&report);
    bench_finish(&bench);
}

/* The server's answer with LINES in its first side band, cut at CUT. */
static void answer(struct bench *bench, const char *lines, size_t cut)
{
    struct body_gate *gate = git_push_gate_new(&bench->request, &bench->options);
    struct buf body;
    struct buf reply;

    buf_init(&body, 1 << 16);
    buf_init(&reply, 1 << 16);
    write_lines(&body, (const char *const[]){ ZERO " " ID_A " refs/heads/agent/x%" CAPS,
                                              ZERO " " ID_B " refs/heads/agent/y", NULL });
    CHECK_EQ(body_gate_feed(gate, body.data, body.len), BODY_GATE_OPEN);
    pktline_write_band(&reply, 2, "remote: hello\n", 14);
    pktline_write_band(&reply, 1, lines, strlen(lines));
    pktline_write_flush(&reply);
    CHECK(gate->reads_answer);
    gate->kind->on_answer(gate, reply.data, cut < reply.len ? cut : reply.len);
    if (cut < reply.len)
        gate->kind->on_answer(gate, reply.data + cut, reply.len - cut);
    body_gate_free(gate);
    buf_finish(&body);
    buf_finish(&reply);
}

TEST(only_what_the_server_took_is_remembered)
{
    for (size_t cut = 0; cut < 130; cut++) {
        struct bench bench;

        bench_init(&bench);
        answer(&bench,
               "000eunpack ok\n001aok refs/heads/agent/x\n002bng refs/heads/agent/y already "
               "there\n0000",
               cut);
        CHECK_STR(git_tips_get(&bench.tips, "github/o/r", "refs/heads/agent/x"), ID_A);
        CHECK(git_tips_get(&bench.tips, "github/o/r", "refs/heads/agent/y") == NULL);
        CHECK_EQ(bench.pushed, 1);
        bench_finish(&bench);
    }
}

TEST(an_answer_that_makes_no_sense_is_not_believed)
{
    static const char *const answers[] = { "zzzz", "0000001aok refs/heads/agent/x\n",
                                           "001aok refs/heads/agent/z\n0000",
                                           "001Aok refs/heads/agent/x\n0000" };

    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct bench bench;

        bench_init(&bench);
        answer(&bench, answers[i], 5);
        CHECK_EQ(bench.tips.count, 0);
        CHECK_EQ(bench.pushed, 0);
        bench_finish(&bench);
    }
}
