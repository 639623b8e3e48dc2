/* Runs from creation to their end, with a store on disk, the real proxy and the shell agent; only
 * the sandbox is made up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/str.h"
#include "fake/fake_sandbox.c"
#include "harness/test.h"
#include "harness/tmp.h"
#include "proxy/proxy.h"
#include "run/run.h"
#include "store/store.h"
#include "store/store_internal.h"
#include "vault/vault.h"

#define HEAD_LINE "0123456789abcdef0123456789abcdef01234567\n"

struct rig {
    uv_loop_t loop;
    struct store *store;
    struct vault *vault;
    struct proxy *proxy;
    struct runs *runs;
    uint32_t concurrent;
    uint32_t free_memory_mib;
    uint32_t output_mib;
    unsigned ended;
    unsigned wanted;
    bool late;
};

static const struct fake_answer usual[] = {
    { "rev-parse", HEAD_LINE, 0, NULL, 0, false },
    { "symbolic-ref", "main\n", 0, NULL, 0, false },
    { "rev-list", "2\n", 0, NULL, 0, false },
    { "write-tree", HEAD_LINE, 0, NULL, 0, false },
    { "--pathspec-from-file", "0\n", 0, NULL, 0, false },
    { "--shortstat", " 1 file changed, 3 insertions(+), 1 deletion(-)\n", 0, NULL, 0, false },
    { "--binary", "diff --git a/a.c b/a.c\n", 0, NULL, 0, false },
    { "/proc/[0-9]*", "node  server.js \n\n\033[1mbold\n", 0, NULL, 0, false },
    { "sh -c hang", "", 0, NULL, 0, true },
    { "sh -c fail", "", 0, "it broke\n", 3, false },
    { "sh -c", "hello\n", 0, NULL, 0, false },
};

static void on_decision(void *data, const struct proxy_decision *decision)
{
    (void)data;
    (void)decision;
}

static void open_rig(struct rig *rig)
{
    struct error err = ERROR_INIT;
    struct store_options store = { .directory = tmp_path("db") };
    struct vault_options vault = { .state_dir = tmp_dir(), .clock = clock_system() };
    struct proxy_options proxy = { .on_decision = on_decision };
    struct runs_options options = {
        .state_dir = tmp_dir(),
        .runtime_dir = tmp_path("run"),
        .data_dir = tmp_path("data"),
        .default_agent = "shell",
        .default_model = "none/none",
        .default_timeout_minutes = 10,
        .concurrent_runs = rig->concurrent != 0 ? rig->concurrent : 4,
        .max_queued_runs = 100,
        .clone_minutes = 1,
        .clone_filter = "none",
        .work_branch = "agent/{slug}-{id}",
        .git_name = "a",
        .git_email = "a@a.invalid",
        .stall_minutes = 1,
        .agent_start_seconds = 5,
        .answer_seconds = 60,
        .agent_opencode = "",
        .host_uid_base = 2100000000,
        .host_uid_count = 100,
        .sandbox = { .backend = "bwrap", .bwrap = "bwrap", .init_path = "/nowhere" },
        .limits = { .memory_bytes = 64 << 20, .processes = 40 },
        .machine = { .free_memory_mib = rig->free_memory_mib },
        .output_mib = rig->output_mib,
        .disk_mib = 1 << 20,
    };

    CHECK_EQ(uv_loop_init(&rig->loop), 0);
    CHECK_EQ(store_open(&rig->store, &store, &err), 0);
    CHECK_EQ(vault_open(&rig->vault, &vault, &err), 0);
    CHECK_EQ(proxy_start(&rig->proxy, &rig->loop, rig->vault, clock_system(), &proxy, &err), 0);
    CHECK_EQ(
        runs_start(&rig->runs, &rig->loop, rig->store, rig->proxy, clock_system(), &options, &err),
        0);
}

static void start(struct rig *rig, const struct fake_answer *answers, size_t count)
{
    memset(rig, 0, sizeof(*rig));
    memset(&fake_sandbox, 0, sizeof(fake_sandbox));
    fake_sandbox.answers = answers;
    fake_sandbox.count = count;
    open_rig(rig);
}

static void proxy_down(void *data)
{
    (void)data;
}

static void runs_down(void *data)
{
    struct rig *rig = data;

    proxy_close(rig->proxy, proxy_down, rig);
}

/* The loop must come to its end with nothing left. */
static void close_rig(struct rig *rig)
{
    runs_close(rig->runs, runs_down, rig);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&rig->loop), 0);
    store_close(rig->store);
    vault_close(rig->vault);
}

static void finish(struct rig *rig)
{
    close_rig(rig);
    CHECK_EQ(fake_sandbox.live, 0u);
}

static int create(struct rig *rig, const char *task, const char *session, struct run_record *run,
                  struct error *err)
{
    struct run_request request = { .task = task,
                                   .repository = "",
                                   .branch = "",
                                   .session_id = session,
                                   .model = "",
                                   .title = "",
                                   .agent = "",
                                   .idempotency_key = "",
                                   .timeout_minutes = 0 };

    run_record_init(run);
    *err = (struct error)ERROR_INIT;
    return run_create(rig->runs, &request, run, err);
}

static void on_event(void *data, const struct event_record *event)
{
    (void)data;
    (void)event;
}

static void on_ended(void *data, const struct run_record *run)
{
    struct rig *rig = data;

    (void)run;
    if (++rig->ended == rig->wanted)
        uv_stop(&rig->loop);
}

static void on_late(uv_timer_t *timer)
{
    struct rig *rig = timer->data;

    rig->late = true;
    uv_stop(&rig->loop);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle);
}

/* Runs the loop until RUN has ended; its final record is in *RUN then. */
static void wait_for_end(struct rig *rig, struct run_record *run)
{
    const struct run_subscriber subscriber = { .on_event = on_event,
                                               .on_ended = on_ended,
                                               .data = rig };
    struct run_subscription *subscription;
    struct error err = ERROR_INIT;
    uv_timer_t *timer = NEW(uv_timer_t);

    rig->ended = 0;
    rig->wanted = 1;
    CHECK_EQ(run_subscribe(&subscription, rig->runs, &run->id, 0, &subscriber, &err), 0);
    uv_timer_init(&rig->loop, timer);
    timer->data = rig;
    uv_timer_start(timer, on_late, 30000, 0);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)timer, on_timer_closed);
    CHECK(!rig->late);
    CHECK_EQ(run_load(rig->runs, &run->id, run, &err), 0);
}

static void turn_until(struct rig *rig, const struct run_record *run, enum run_state state)
{
    struct run_record now;
    struct error err = ERROR_INIT;

    for (int i = 0; i < 100000; i++) {
        bool there;

        run_record_init(&now);
        CHECK_EQ(run_load(rig->runs, &run->id, &now, &err), 0);
        there = now.state == (uint32_t)state;
        run_record_finish(&now);
        if (there)
            return;
        uv_run(&rig->loop, UV_RUN_ONCE);
    }
    CHECK_FAILED("the run never got there");
}

TEST(a_run_completes_and_its_evidence_is_established)
{
    struct run_record run;
    struct error err;
    struct rig rig;
    struct buf diff;

    start(&rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(&rig, "echo hello", "", &run, &err), 0);
    CHECK_EQ(run.state, (uint32_t)RUN_QUEUED);
    CHECK_STR(run.title, "echo hello");
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_COMPLETED);
    CHECK_STR(run.verdict, "changed");
    CHECK_EQ(run.evidence.known, true);
    CHECK_EQ(run.evidence.commits, (uint64_t)2);
    CHECK_EQ(run.evidence.insertions, (uint64_t)3);
    CHECK_STR(run.evidence.branch, "main");
    CHECK_HAS(run.output, "hello");
    CHECK_STR(run.evidence.left_running, "node  server.js\n\\x1b[1mbold");
    CHECK(run.ended_ms >= run.started_ms && run.started_ms >= run.created_ms);
    buf_init(&diff, 1u << 20);
    CHECK_EQ(store_diff_load(rig.store, &run.id, &diff, &err), 0);
    CHECK_HAS(buf_text(&diff), "diff --git");
    buf_finish(&diff);
    run_record_finish(&run);
    finish(&rig);
}

struct heard {
    unsigned times;
    char last[ID_SIZE];
};

static void on_changed(void *data, const struct id *session, const struct id *run)
{
    struct heard *heard = data;

    CHECK(id_parse(ID_KIND_SESSION, session->text, NULL));
    heard->times++;
    str_copy(heard->last, sizeof(heard->last), run != NULL ? run->text : session->text);
}

TEST(a_watcher_hears_of_each_change_until_it_looks_away)
{
    struct heard heard = { 0 };
    struct runs_watcher watcher = { .changed = on_changed, .data = &heard };
    struct run_record run;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    runs_watch(rig.runs, &watcher);
    CHECK_EQ(create(&rig, "echo hello", "", &run, &err), 0);
    CHECK_EQ(heard.times, 1u);
    CHECK_STR(heard.last, run.id.text);
    wait_for_end(&rig, &run);
    CHECK(heard.times > 5);
    CHECK_STR(heard.last, run.id.text);
    CHECK_EQ(session_rename(rig.runs, &run.session, "another", &err), 0);
    CHECK_STR(heard.last, run.session.text);
    runs_unwatch(&watcher);
    heard.times = 0;
    run_record_finish(&run);
    CHECK_EQ(create(&rig, "echo again", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(heard.times, 0u);
    run_record_finish(&run);
    finish(&rig);
}

TEST(files_that_are_not_looked_at_leave_the_verdict_open)
{
    static const struct fake_answer answers[] = {
        { "rev-parse", HEAD_LINE, 0, NULL, 0, false },
        { "rev-list", "0\n", 0, NULL, 0, false },
        { "write-tree", HEAD_LINE, 0, NULL, 0, false },
        { "--pathspec-from-file", "1\n", 0, NULL, 0, false },
        { "ls-files", "a\0b\0", 4, NULL, 0, false },
    };
    struct run_record run;
    struct error err;
    struct rig rig;

    start(&rig, answers, ARRAY_LEN(answers));
    CHECK_EQ(create(&rig, "truncate -s 8T sparse", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_COMPLETED);
    CHECK_STR(run.verdict, "unknown");
    CHECK_EQ(run.evidence.known, true);
    CHECK_EQ(run.evidence.diff_truncated, true);
    CHECK_EQ(run.evidence.untracked, (uint64_t)2);
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_failing_agent_fails_the_run_and_the_reason_is_kept)
{
    struct run_record run;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(&rig, "fail", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_FAILED);
    CHECK_STR(run.error.code, "command_failed");
    CHECK_STR(run.error.phase, "work");
    CHECK_STR(run.verdict, "incomplete");
    run_record_finish(&run);
    finish(&rig);
}

static const struct proxy_model_news overloaded = { .status = 529,
                                                    .reason = "status",
                                                    .words = "Overloaded",
                                                    .type = "overloaded_error",
                                                    .failures = 2 };

/* A run at work, whose model has failed twice in a row. */
static void start_with_a_failing_model(struct rig *rig, struct run_record *run,
                                       struct proxy_model_news *news)
{
    struct error err;

    start(rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(rig, "hang", "", run, &err), 0);
    turn_until(rig, run, RUN_WORKING);
    *news = overloaded;
    news->run_id = run->id.text;
    runs_proxy_model(rig->runs, news);
    CHECK_HAS(run_retrying(rig->runs, &run->id), "\"failures\":2,\"status\":529");
    CHECK_HAS(run_current_step(rig->runs, &run->id), "529 Overloaded");
}

TEST(a_model_that_fails_too_often_ends_the_run_in_its_words)
{
    struct proxy_model_news news;
    struct run_record run;
    struct rig rig;

    start_with_a_failing_model(&rig, &run, &news);
    news.failures = 3;
    news.retry_at_ms = UINT64_C(1795995600000);
    news.exhausted = "model_wait";
    runs_proxy_model(rig.runs, &news);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_FAILED);
    CHECK_STR(run.error.code, "model_overloaded");
    CHECK_STR(run.error.phase, "work");
    CHECK_HAS(run.error.message, "Overloaded (3 requests in a row failed)");
    CHECK_HAS(run.error.message, "2026-11-29T23:40:00");
    CHECK_EQ(run.error.retry_at_ms, UINT64_C(1795995600000));
    CHECK_EQ(run.error.retryable, true);
    CHECK_EQ(run.usage.failed_requests, (uint64_t)2);
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_request_that_the_provider_finds_wrong_is_not_worth_another_try)
{
    struct proxy_model_news news;
    struct run_record run;
    struct rig rig;

    start_with_a_failing_model(&rig, &run, &news);
    news.status = 400;
    news.words = "bad field";
    news.type = "invalid_request_error";
    news.exhausted = "model_failures";
    runs_proxy_model(rig.runs, &news);
    wait_for_end(&rig, &run);
    CHECK_STR(run.error.code, "model_error");
    CHECK_EQ(run.error.retryable, false);
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_model_that_answers_again_lets_the_run_go_on)
{
    struct proxy_model_news news;
    struct proxy_decision refused = { .service = "",
                                      .method = "POST",
                                      .host = "",
                                      .path = "",
                                      .verdict = AUDIT_DENY,
                                      .reason = "model_requests" };
    struct run_record run;
    struct rig rig;

    start_with_a_failing_model(&rig, &run, &news);
    news =
        (struct proxy_model_news){ .run_id = run.id.text, .good = true, .words = "", .type = "" };
    runs_proxy_model(rig.runs, &news);
    CHECK(run_retrying(rig.runs, &run.id) == NULL);
    refused.run_id = run.id.text;
    runs_proxy_decision(rig.runs, &refused);
    wait_for_end(&rig, &run);
    CHECK_STR(run.error.code, "budget_exhausted");
    CHECK_EQ(run.error.retryable, false);
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_failure_by_a_limit_names_the_setting)
{
    struct run_record run;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    fake_sandbox.limit_times[SANDBOX_LIMIT_PROCESSES] = 3;
    CHECK_EQ(create(&rig, "fail", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_FAILED);
    CHECK_STR(run.error.code, "too_many_processes");
    CHECK_HAS(run.error.message, "exited with code 3");
    CHECK_HAS(run.error.message, "limits.processes is 40");
    run_record_finish(&run);
    fake_sandbox.limit_times[SANDBOX_LIMIT_MEMORY] = 1;
    CHECK_EQ(create(&rig, "fail", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_STR(run.error.code, "out_of_memory");
    CHECK_HAS(run.error.hint, "limits.memoryMiB");
    run_record_finish(&run);
    CHECK_EQ(create(&rig, "echo hello", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_COMPLETED);
    CHECK_STR(run.error.code, "");
    run_record_finish(&run);
    finish(&rig);
}

static bool count_events(void *data, const struct event_record *event)
{
    unsigned *count = data;

    *count += strstr(event->text, "limits.freeMemoryMiB is") != NULL;
    return true;
}

TEST(a_run_waits_for_the_machine_says_so_once_and_can_be_cancelled)
{
    struct run_record run;
    struct error err;
    struct rig rig;
    unsigned told = 0;

    memset(&rig, 0, sizeof(rig));
    memset(&fake_sandbox, 0, sizeof(fake_sandbox));
    rig.free_memory_mib = UINT32_MAX;
    open_rig(&rig);
    CHECK_EQ(create(&rig, "echo hello", "", &run, &err), 0);
    for (int i = 0; i < 3; i++)
        uv_run(&rig.loop, UV_RUN_ONCE);
    turn_until(&rig, &run, RUN_QUEUED);
    CHECK_EQ(run_cancel(rig.runs, &run.id, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_CANCELLED);
    CHECK_EQ(store_event_each(rig.store, &run.id, 0, 100, count_events, &told, &err), 0);
    CHECK_EQ(told, 1);
    CHECK_EQ(fake_sandbox.started, 0u);
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_run_that_writes_too_much_is_ended)
{
    static char lines[32768];
    const struct fake_answer flood[] = {
        { "rev-parse", HEAD_LINE, 0, NULL, 0, false },
        { "sh -c flood", lines, sizeof(lines), NULL, 0, true },
    };
    struct run_record run;
    struct error err;
    struct rig rig;

    memset(lines, '\n', sizeof(lines));
    memset(&rig, 0, sizeof(rig));
    memset(&fake_sandbox, 0, sizeof(fake_sandbox));
    fake_sandbox.answers = flood;
    fake_sandbox.count = ARRAY_LEN(flood);
    rig.output_mib = 1;
    open_rig(&rig);
    CHECK_EQ(create(&rig, "flood", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_FAILED);
    CHECK_STR(run.error.code, "output_limit");
    CHECK_HAS(run.error.message, "limits.outputMiB");
    CHECK(run.last_event < 10000);
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_sandbox_that_cannot_start_fails_the_run_in_words)
{
    struct run_record run;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    fake_sandbox.ready_fails = true;
    CHECK_EQ(create(&rig, "x", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_FAILED);
    CHECK_STR(run.error.code, "sandbox_failed");
    CHECK_STR(run.error.phase, "sandbox");
    CHECK_HAS(run.error.message, "bubblewrap");
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_failed_clone_names_the_argument_and_leaves_no_folder)
{
    static const struct fake_answer answers[] = {
        { "init --quiet", "", 0, "fatal: No space left on device\n", 128, false },
    };
    struct run_record run;
    struct error err;
    struct rig rig;
    struct stat st;

    start(&rig, answers, ARRAY_LEN(answers));
    CHECK_EQ(create(&rig, "x", "", &run, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_FAILED);
    CHECK_STR(run.error.code, "disk_full");
    CHECK_STR(run.error.phase, "clone");
    AUTO_FREE char *folder = mem_printf("sessions/%s", run.session.text);
    CHECK(lstat(tmp_path(folder), &st) < 0);
    run_record_finish(&run);
    finish(&rig);
}

/* Each row holds the run in one state for as long as it is not cancelled. */
TEST(cancel_ends_a_run_in_every_state)
{
    static const struct fake_answer clone_hangs[] = { { "find /workspace", "", 0, NULL, 0, true } };
    static const struct {
        enum run_state state;
        const struct fake_answer *answers;
        size_t count;
    } rows[] = {
        { RUN_QUEUED, usual, ARRAY_LEN(usual) },
        { RUN_SANDBOX, usual, ARRAY_LEN(usual) },
        { RUN_CLONE, clone_hangs, ARRAY_LEN(clone_hangs) },
        { RUN_WORKING, usual, ARRAY_LEN(usual) },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct run_record run;
        struct error err;
        struct rig rig;

        start(&rig, rows[i].answers, rows[i].count);
        fake_sandbox.never_ready = rows[i].state == RUN_SANDBOX;
        CHECK_EQ(create(&rig, "hang", "", &run, &err), 0);
        turn_until(&rig, &run, rows[i].state);
        CHECK_EQ(run_cancel(rig.runs, &run.id, &err), 0);
        wait_for_end(&rig, &run);
        CHECK_EQ(run.state, (uint32_t)RUN_CANCELLED);
        CHECK_EQ(run_cancel(rig.runs, &run.id, &err), 0);
        run_record_finish(&run);
        finish(&rig);
    }
}

TEST(a_sandbox_that_dies_fails_the_run_and_memory_is_named)
{
    struct run_record run;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(&rig, "hang", "", &run, &err), 0);
    turn_until(&rig, &run, RUN_WORKING);
    fake_sandbox_lose(true);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_FAILED);
    CHECK(str_equal(run.error.code, "out_of_memory") || str_equal(run.error.code, "agent_crashed"));
    run_record_finish(&run);
    finish(&rig);
}

TEST(a_session_runs_one_at_a_time_in_order)
{
    struct run_record first, second;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(&rig, "hang", "", &first, &err), 0);
    turn_until(&rig, &first, RUN_WORKING);
    CHECK_EQ(create(&rig, "echo two", first.session.text, &second, &err), 0);
    CHECK_STR(second.session.text, first.session.text);
    for (int i = 0; i < 20; i++)
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    CHECK_EQ(run_load(rig.runs, &second.id, &second, &err), 0);
    CHECK_EQ(second.state, (uint32_t)RUN_QUEUED);
    CHECK_EQ(run_cancel(rig.runs, &first.id, &err), 0);
    wait_for_end(&rig, &second);
    CHECK_EQ(second.state, (uint32_t)RUN_COMPLETED);
    run_record_finish(&first);
    run_record_finish(&second);
    finish(&rig);
}

TEST(the_limit_on_live_runs_holds_and_the_queue_moves_on)
{
    struct run_record runs[6];
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    for (size_t i = 0; i < ARRAY_LEN(runs); i++)
        CHECK_EQ(create(&rig, i < 4 ? "hang" : "echo", "", &runs[i], &err), 0);
    turn_until(&rig, &runs[3], RUN_WORKING);
    CHECK_EQ(fake_sandbox.live, 4u);
    CHECK_EQ(run_load(rig.runs, &runs[4].id, &runs[4], &err), 0);
    CHECK_EQ(runs[4].state, (uint32_t)RUN_QUEUED);
    CHECK_EQ(run_cancel(rig.runs, &runs[0].id, &err), 0);
    wait_for_end(&rig, &runs[5]);
    CHECK_EQ(runs[5].state, (uint32_t)RUN_COMPLETED);
    for (size_t i = 1; i < 4; i++)
        CHECK_EQ(run_cancel(rig.runs, &runs[i].id, &err), 0);
    wait_for_end(&rig, &runs[3]);
    for (size_t i = 0; i < ARRAY_LEN(runs); i++)
        run_record_finish(&runs[i]);
    finish(&rig);
}

TEST(an_idempotency_key_gives_the_same_run_or_a_conflict)
{
    struct run_request request = { .task = "echo",
                                   .repository = "",
                                   .branch = "",
                                   .session_id = "",
                                   .model = "",
                                   .title = "",
                                   .agent = "",
                                   .idempotency_key = "key-1" };
    struct run_record first, again;
    struct error err = ERROR_INIT;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    run_record_init(&first);
    run_record_init(&again);
    CHECK_EQ(run_create(rig.runs, &request, &first, &err), 0);
    CHECK_EQ(run_create(rig.runs, &request, &again, &err), 0);
    CHECK_STR(first.id.text, again.id.text);
    request.task = "something else";
    CHECK_EQ(run_create(rig.runs, &request, &again, &err), -1);
    CHECK_EQ((int)err.code, ERR_CONFLICT);
    CHECK_STR(err.argument, "idempotencyKey");
    wait_for_end(&rig, &first);
    run_record_finish(&first);
    run_record_finish(&again);
    finish(&rig);
}

TEST(bad_requests_name_their_argument_and_leave_nothing)
{
    static const struct {
        const char *argument;
        struct run_request request;
    } cases[] = {
        { "task", { .task = " \n\t " } },
        { "repository", { .task = "x", .repository = "-x" } },
        { "repository", { .task = "x", .repository = "https://a:b@github.com/o/r" } },
        { "branch", { .task = "x", .branch = "--upload-pack=x" } },
        { "branch", { .task = "x", .branch = "main" } },
        { "sessionId", { .task = "x", .session_id = "ses_nonsense" } },
        { "sessionId", { .task = "x", .session_id = "ses_01m8m2712p2zwdfead9bqppct4" } },
        { "agent", { .task = "x", .agent = "nobody" } },
        { "model", { .task = "x", .agent = "opencode", .model = "nobody/nothing" } },
    };
    struct rig rig;
    uint64_t counts[RUN_STATE_COUNT];
    uint64_t sessions;
    struct error err;

    start(&rig, usual, ARRAY_LEN(usual));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run_request request = cases[i].request;
        const char **texts[] = { &request.task,       &request.repository,     &request.branch,
                                 &request.session_id, &request.model,          &request.title,
                                 &request.agent,      &request.idempotency_key };
        struct run_record run;

        for (size_t k = 0; k < ARRAY_LEN(texts); k++)
            *texts[k] = *texts[k] != NULL ? *texts[k] : "";
        run_record_init(&run);
        err = (struct error)ERROR_INIT;
        CHECK_EQ(run_create(rig.runs, &request, &run, &err), -1);
        CHECK_STR(err.argument, cases[i].argument);
        run_record_finish(&run);
    }
    CHECK_EQ(store_run_counts(rig.store, counts, RUN_STATE_COUNT, &err), 0);
    for (size_t i = 0; i < RUN_STATE_COUNT; i++)
        CHECK_EQ(counts[i], (uint64_t)0);
    CHECK_EQ(store_session_count(rig.store, &sessions, &err), 0);
    CHECK_EQ(sessions, (uint64_t)0);
    finish(&rig);
}

/* A supervisor that goes away leaves the record as it was; the next one must tell the truth. */
static void note_decision(struct rig *rig, const struct id *run, uint32_t verdict)
{
    struct audit_record audit;
    struct error err = ERROR_INIT;

    audit_record_init(&audit);
    audit.run = *run;
    audit.verdict = verdict;
    CHECK_EQ(store_audit_append(rig->store, &audit, &err), 0);
    audit_record_finish(&audit);
}

/* The trail is written sooner than the record that counts. */
TEST(a_restart_counts_a_runs_requests_by_the_audit_trail)
{
    struct run_record run;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(&rig, "hang", "", &run, &err), 0);
    turn_until(&rig, &run, RUN_WORKING);
    CHECK_EQ(run.usage.requests, 0u);
    note_decision(&rig, &run.id, AUDIT_ALLOW);
    note_decision(&rig, &run.id, AUDIT_ALLOW);
    note_decision(&rig, &run.id, AUDIT_DENY);
    note_decision(&rig, &run.id, AUDIT_ERROR);
    close_rig(&rig);
    fake_sandbox.live = 0;
    open_rig(&rig);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.usage.requests, 2u);
    CHECK_EQ(run.evidence.refused_requests, 1u);
    run_record_finish(&run);
    finish(&rig);
}

TEST(after_a_restart_early_runs_are_done_again_and_late_ones_are_interrupted)
{
    struct run_record early, late;
    struct error err;
    struct rig rig;

    start(&rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(&rig, "hang", "", &late, &err), 0);
    turn_until(&rig, &late, RUN_WORKING);
    fake_sandbox.never_ready = true;
    CHECK_EQ(create(&rig, "echo again", "", &early, &err), 0);
    turn_until(&rig, &early, RUN_SANDBOX);
    close_rig(&rig);
    fake_sandbox.never_ready = false;
    fake_sandbox.live = 0;
    open_rig(&rig);
    CHECK_EQ(fake_sandbox.leftovers_killed, 2u);
    wait_for_end(&rig, &early);
    CHECK_EQ(early.state, (uint32_t)RUN_COMPLETED);
    CHECK_EQ(run_load(rig.runs, &late.id, &late, &err), 0);
    CHECK_EQ(late.state, (uint32_t)RUN_INTERRUPTED);
    CHECK_STR(late.error.code, "interrupted");
    run_record_finish(&early);
    run_record_finish(&late);
    finish(&rig);
}

static int refuse_commit(void *data)
{
    unsigned *left = data;

    if (*left == 0)
        return 0;
    (*left)--;
    return 28; /* ENOSPC */
}

TEST(a_disk_that_is_full_for_a_while_delays_a_run_but_loses_nothing)
{
    struct run_record run;
    struct error err;
    struct rig rig;
    unsigned refusals = 2;

    start(&rig, usual, ARRAY_LEN(usual));
    CHECK_EQ(create(&rig, "hang", "", &run, &err), 0);
    turn_until(&rig, &run, RUN_WORKING);
    store_set_fault(rig.store, refuse_commit, &refusals);
    CHECK_EQ(run_cancel(rig.runs, &run.id, &err), 0);
    wait_for_end(&rig, &run);
    CHECK_EQ(run.state, (uint32_t)RUN_CANCELLED);
    CHECK_EQ(refusals, 0u);
    run_record_finish(&run);
    finish(&rig);
}
