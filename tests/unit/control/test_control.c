/* The socket itself: a real listener, a real client on a thread, a fake of what is behind run/. */
#include "harness/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "control/control.h"
#include "fake/fake_run.c"
#include "harness/tmp.h"
#include "proto/client.h"
#include "proto/frame.h"

#define PATIENCE_MS 60000 /* hundreds of commits take long on a busy disk */

static struct lab {
    uv_loop_t loop;
    struct store *store;
    struct vault *vault;
    struct runs *runs;
    struct control *control;
    struct run_record run; /* one that is there from the start */
    uv_async_t poke;
    uv_async_t stop;
    atomic_int step;
    pthread_t thread;
    char failure[400];
    bool shutdown_asked;
    control_notices_tried_cb notices_tried; /* of the test under way; NULL: none */
    void *notices_trial;
    void (*on_poke)(int step);
    void (*body)(void);
} lab;

/* On the client's thread a failed check only leaves a note; the main thread fails the test. */
#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition) && lab.failure[0] == '\0')                                                \
            snprintf(lab.failure, sizeof(lab.failure), "line %d: %s", __LINE__, #condition);       \
    } while (0)

static void quiet(void *data, const char *line)
{
    (void)data;
    (void)line;
}

static void web_url(void *data, const char *run_id, struct buf *out)
{
    (void)data;
    buf_printf(out, "http://127.0.0.1:9/runs/%s?token=t", run_id);
}

static int try_notices(void *data, control_notices_tried_cb done, void *trial, struct error *err)
{
    (void)data;
    if (lab.notices_tried != NULL)
        return error_set(err, ERR_CONFLICT, 0, "one is under way");
    lab.notices_tried = done;
    lab.notices_trial = trial;
    uv_async_send(&lab.poke);
    return 0;
}

static void on_shutdown(void *data)
{
    (void)data;
    lab.shutdown_asked = true;
}

static void on_control_closed(void *data)
{
    (void)data;
    lab.control = NULL;
    fake_runs_free(lab.runs);
    uv_close((uv_handle_t *)&lab.poke, NULL);
    uv_close((uv_handle_t *)&lab.stop, NULL);
}

static void on_stop(uv_async_t *async)
{
    (void)async;
    if (lab.control != NULL)
        control_close(lab.control, on_control_closed, NULL);
}

static void on_poke(uv_async_t *async)
{
    (void)async;
    lab.on_poke(atomic_load(&lab.step));
}

/* Has the loop's thread do something to the runs. */
static void poke(int step)
{
    atomic_store(&lab.step, step);
    uv_async_send(&lab.poke);
}

static void *client_thread(void *data)
{
    (void)data;
    lab.body();
    uv_async_send(&lab.stop);
    return NULL;
}

static void lab_finish(void *data)
{
    (void)data;
    run_record_finish(&lab.run);
    store_close(lab.store);
    vault_close(lab.vault);
    log_set_sink(NULL, NULL);
}

static void make_run(void)
{
    struct run_request request = { .task = "make it", .repository = "", .title = "t" };
    struct error err = ERROR_INIT;

    run_record_init(&lab.run);
    CHECK_EQ(run_create(lab.runs, &request, &lab.run, &err), 0);
}

/* Runs BODY as a client beside the loop, until both are done. */
static void with_control(void (*body)(void))
{
    static const struct control_service services[] = {
        { "anthropic", "https://a.example", "A_KEY" }, { "open", "https://o", "" }
    };
    struct store_options store_options = { .directory = tmp_path("db"),
                                           .map_size_bytes = 1u << 24 };
    struct vault_options vault_options = { .state_dir = tmp_dir(), .clock = clock_system() };
    struct control_options options = { .socket_path = tmp_path("s.sock"),
                                       .state_dir = tmp_dir(),
                                       .version = "1.2.3",
                                       .max_requests = 4,
                                       .services = services,
                                       .service_count = 2,
                                       .web_url = web_url,
                                       .try_notices = try_notices,
                                       .on_shutdown = on_shutdown };
    struct error err = ERROR_INIT;

    log_set_sink(quiet, NULL);
    lab.failure[0] = '\0';
    lab.shutdown_asked = false;
    lab.body = body;
    CHECK_EQ(uv_loop_init(&lab.loop), 0);
    CHECK_EQ(store_open(&lab.store, &store_options, &err), 0);
    CHECK_EQ(vault_open(&lab.vault, &vault_options, &err), 0);
    lab.runs = fake_runs_new(&lab.loop, lab.store, clock_system());
    test_defer(lab_finish, NULL);
    make_run();
    uv_async_init(&lab.loop, &lab.poke, on_poke);
    uv_async_init(&lab.loop, &lab.stop, on_stop);
    options.listen_fd = fd_listen_unix(options.socket_path, SOCK_STREAM, 16, &err);
    CHECK(options.listen_fd >= 0);
    CHECK_EQ(control_start(&lab.control, &lab.loop, lab.runs, lab.store, lab.vault, clock_system(),
                           &options, &err),
             0);
    CHECK_EQ(pthread_create(&lab.thread, NULL, client_thread, NULL), 0);
    uv_run(&lab.loop, UV_RUN_DEFAULT);
    pthread_join(lab.thread, NULL);
    CHECK_EQ(uv_loop_close(&lab.loop), 0);
    CHECK_STR(lab.failure, "");
}

static struct client *join_as(const char *role)
{
    struct client *client = NULL;
    struct error err = ERROR_INIT;

    WANT(client_connect(&client, tmp_path("s.sock"), role, PATIENCE_MS, &err) == 0);
    return client;
}

/* The reply as text, or "code: message"; ours to free. */
static char *call(struct client *client, const char *method, const char *body)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 24);
    struct client_message message;
    struct error err = ERROR_INIT;

    if (client == NULL)
        return mem_strdup("no client");
    if (client_call(client, method, body, PATIENCE_MS, &message, &err) < 0)
        return mem_printf("%s: %s", error_code_name(err.code), err.text);
    json_append(&text, message.envelope.body);
    client_message_finish(&message);
    return buf_steal(&text);
}

static bool answers(struct client *client, const char *method, const char *body, const char *part)
{
    AUTO_FREE
    char *text = call(client, method, body);

    if (strstr(text, part) != NULL)
        return true;
    snprintf(lab.failure, sizeof(lab.failure), "%s: \"%.200s\" has no \"%s\"", method, text, part);
    return false;
}

/* {"runId":"…" REST} */
static const char *about_run(const char *rest)
{
    static char body[400];

    snprintf(body, sizeof(body), "{\"runId\":\"%s\"%s}", lab.run.id.text, rest);
    return body;
}

/* Methods
 * ----------------------------------------------------------------------------------------------------------
 */

static void body_simple(void)
{
    struct client *client = join_as("ctl");

    WANT(answers(client, "system.status", "{}", "\"version\":\"1.2.3\""));
    WANT(answers(client, "system.status", NULL, "\"webUrl\":\"http://127.0.0.1:9\""));
    WANT(answers(client, "system.status", "{}", "\"queued\":1"));
    WANT(answers(client, "system.status", "{\"x\":1}", "invalid: "));
    WANT(answers(client, "system.machine", "{}", "\"program\":\"/p\""));
    WANT(answers(client, "system.machine", "{}",
                 "\"found\":false,\"problem\":\"not there\",\"install\":\"do\""));
    WANT(answers(client, "system.machine", "{\"x\":1}", "invalid: "));
    WANT(answers(client, "no.such", "{}", "no.such"));
    WANT(answers(client, "hello", "{\"protocol\":1,\"role\":\"ctl\",\"version\":\"1\"}",
                 "conflict: "));
    client_free(client);
    client = join_as("mcp");
    WANT(answers(client, "run.create", "{\"task\":\"do\"}", "\"status\":\"queued\""));
    WANT(!lab.runs->last_request.local_caller);
    WANT(answers(client, "run.create", "{\"task\":\"do\",\"repository\":\"nowhere\"}",
                 "invalid: repository"));
    WANT(answers(client, "run.create", "{\"task\":\"\"}", "invalid: task"));
    WANT(answers(client, "run.get", about_run(""), "\"message\":\"queued for "));
    WANT(answers(client, "run.get", "{\"runId\":\"run_00000000000000000000000000\"}",
                 "not_found: "));
    WANT(answers(client, "run.get", "{\"runId\":\"x\"}", "invalid: runId"));
    WANT(answers(client, "run.send", about_run(",\"message\":\"m\""), "\"action\":\"queued\""));
    WANT(answers(client, "run.send", "{\"message\":\"m\"}", "invalid: runId"));
    WANT(answers(client, "run.send", "{\"sessionId\":\"x\",\"message\":\"m\"}",
                 "invalid: sessionId"));
    WANT(answers(client, "run.answer", about_run(",\"requestId\":\"r\",\"answer\":\"yes\""),
                 "conflict: "));
    WANT(answers(client, "run.diff", about_run(""), "conflict: "));
    WANT(answers(client, "run.diff", "{}", "invalid: runId"));
    WANT(answers(client, "audit.list", "{}", "{\"records\":[],\"hasMore\":false,\"cursor\":0}"));
    WANT(answers(client, "session.list", "{\"limit\":1}", "\"hasMore\":true"));
    client_free(client);
    client = join_as("ctl");
    WANT(answers(client, "run.create", "{\"task\":\"do\"}", "webUiUrl"));
    WANT(lab.runs->last_request.local_caller);
    client_free(client);
}

TEST(requests_are_answered_or_refused_with_the_argument_named)
{
    with_control(body_simple);
}

static void body_list(void)
{
    struct client *client = join_as("test");
    AUTO_FREE
    char *first = NULL;
    AUTO_FREE
    char *body = NULL;
    char *cursor;

    for (int i = 0; i < 4; i++)
        WANT(answers(client, "run.create", "{\"task\":\"do\"}", "run_"));
    first = call(client, "run.list", "{\"limit\":3}");
    WANT(strstr(first, "\"hasMore\":true") != NULL);
    cursor = strstr(first, "\"cursor\":\"");
    WANT(cursor != NULL);
    if (cursor != NULL) {
        body = mem_printf("{\"limit\":3,\"before\":\"%.30s\"}", cursor + 10);
        WANT(answers(client, "run.list", body, "\"hasMore\":false"));
        WANT(answers(client, "run.list", body, lab.run.id.text));
    }
    WANT(answers(client, "run.list", "{\"before\":\"1\"}",
                 "{\"runs\":[],\"hasMore\":false,\"cursor\":\"\"}"));
    WANT(answers(client, "run.list", "{\"before\":\"x\"}", "invalid: before"));
    WANT(answers(client, "run.list", "{\"status\":\"running\"}", "\"runs\":[]"));
    WANT(answers(client, "run.list", "{\"status\":\"queued\"}", "run_"));
    WANT(answers(client, "run.list", "{\"sessionId\":\"x\"}", "invalid: sessionId"));
    client_free(client);
}

TEST(lists_go_on_behind_their_cursor)
{
    with_control(body_list);
}

static void end_run(int step)
{
    if (step == 1)
        fake_event(lab.runs, &lab.run, RUN_WORKING, 4, "bash: make", "");
    if (step == 2)
        fake_event(lab.runs, &lab.run, RUN_WAITING, 0, "waiting: work", "");
    if (step == 3)
        fake_event(lab.runs, &lab.run, RUN_COMPLETED, 0, "completed", "");
}

static void body_wait(void)
{
    struct client *client = join_as("test");
    struct client_message message;
    struct error err = ERROR_INIT;

    lab.runs->request = "{\"requestId\":\"per_1\",\"kind\":\"permission\",\"text\":\"may I\"}";
    WANT(client_send(client, "run.get", about_run(",\"waitSeconds\":40"), NULL, 0, &err) != 0);
    poke(1);
    WANT(client_next(client, 200, &message, &err) == 0); /* work alone doesn't end the wait */
    poke(2);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
    WANT(str_equal(json_string(json_get(message.envelope.body, "status")), "waiting"));
    WANT(str_equal(json_string(json_path(message.envelope.body, "request.requestId")), "per_1"));
    WANT(json_count(json_get(message.envelope.body, "steps")) == 1);
    client_message_finish(&message);
    WANT(answers(client, "run.answer", about_run(",\"requestId\":\"per_1\",\"answer\":\"once\""),
                 "per_1"));
    WANT(str_equal(lab.runs->last_answer, "per_1=once"));
    WANT(client_send(client, "run.cancel", about_run(""), NULL, 0, &err) != 0);
    WANT(client_next(client, 200, &message, &err) == 0);
    poke(3);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
    WANT(str_equal(json_string(json_get(message.envelope.body, "status")), "completed"));
    client_message_finish(&message);
    WANT(answers(client, "run.get", about_run(",\"waitSeconds\":40"),
                 "\"result\":{\"success\":true"));
    client_free(client);
}

TEST(get_waits_for_a_question_and_cancel_for_the_end)
{
    lab.on_poke = end_run;
    with_control(body_wait);
}

static void body_wait_time(void)
{
    struct client *client = join_as("test");
    struct client_message message;
    struct error err = ERROR_INIT;

    WANT(answers(client, "run.get", about_run(",\"waitSeconds\":1"), "\"status\":\"queued\""));
    /* A client that goes away, or cancels, leaves nothing behind. */
    WANT(client_send(client, "run.get", about_run(",\"waitSeconds\":40"), NULL, 0, &err) == 3);
    WANT(client_cancel(client, 3, &err) == 0);
    WANT(client_send(client, "run.get", about_run(",\"waitSeconds\":40"), NULL, 0, &err) != 0);
    WANT(answers(client, "system.status", "{}", "\"connections\":1"));
    WANT(client_next(client, 100, &message, &err) == 0);
    client_free(client);
}

TEST(waiting_has_an_end_and_can_be_cancelled)
{
    with_control(body_wait_time);
}

static void body_stopping(void)
{
    struct client *client = join_as("test");
    struct client_message message;
    struct error err = ERROR_INIT;

    WANT(client_send(client, "run.get", about_run(",\"waitSeconds\":40"), NULL, 0, &err) != 0);
    WANT(client_send(client, "system.shutdown", "{}", NULL, 0, &err) != 0);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
    WANT(message.envelope.kind == ENVELOPE_REPLY);
    client_message_finish(&message);
    uv_async_send(&lab.stop);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
    WANT(message.envelope.kind == ENVELOPE_ERROR && message.envelope.error.code == ERR_UNAVAILABLE);
    client_message_finish(&message);
    WANT(client_next(client, 5000, &message, &err) == -1);
    WANT(lab.shutdown_asked);
    client_free(client);
}

TEST(closing_answers_those_who_wait)
{
    with_control(body_stopping);
}

static void body_events(void)
{
    struct client *client = join_as("test");
    struct client_message message;
    struct error err = ERROR_INIT;
    uint64_t id;

    WANT(answers(client, "run.events", about_run(""),
                 "\"text\":\"queued: queue\"}],\"cursor\":1,\"hasMore\":false"));
    id =
        client_send(client, "run.events", about_run(",\"after\":1,\"follow\":true"), NULL, 0, &err);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1 &&
         message.envelope.kind == ENVELOPE_REPLY);
    client_message_finish(&message);
    poke(1);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1 &&
         message.envelope.kind == ENVELOPE_EVENT);
    WANT(message.envelope.id == id);
    WANT(json_u64(json_get(message.envelope.body, "number"), 0) == 2);
    client_message_finish(&message);
    poke(3);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1 &&
         message.envelope.kind == ENVELOPE_EVENT);
    client_message_finish(&message);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1 &&
         message.envelope.kind == ENVELOPE_END);
    WANT(str_equal(json_string(json_get(message.envelope.body, "status")), "completed"));
    client_message_finish(&message);
    WANT(answers(client, "run.events", about_run(",\"after\":1,\"limit\":1"),
                 "\"cursor\":2,\"hasMore\":true"));
    client_free(client);
}

TEST(events_are_listed_and_followed_to_the_end)
{
    lab.on_poke = end_run;
    with_control(body_events);
}

static void flood(int step)
{
    char text[8000];

    (void)step;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 500; i++)
        fake_event(lab.runs, &lab.run, RUN_WORKING, 1, text, "");
    fake_event(lab.runs, &lab.run, RUN_COMPLETED, 0, "completed", "");
}

static void body_slow(void)
{
    struct client *client = join_as("test");
    struct client *other = join_as("test");
    struct client_message message;
    struct error err = ERROR_INIT;
    uint64_t expected = 1;
    bool over = false;

    WANT(client_send(client, "run.events", about_run(",\"follow\":true"), NULL, 0, &err) != 0);
    poke(1);
    /* Until the run is over on the other connection nothing is read on this one. */
    WANT(answers(other, "run.get", about_run(",\"waitSeconds\":30"), "\"status\":\"completed\""));
    while (!over && lab.failure[0] == '\0') {
        WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
        if (message.envelope.kind == ENVELOPE_EVENT)
            WANT(json_u64(json_get(message.envelope.body, "number"), 0) == expected++);
        over = message.envelope.kind == ENVELOPE_END;
        client_message_finish(&message);
    }
    WANT(expected == 503);
    client_free(client);
    client_free(other);
}

TEST(a_slow_reader_gets_every_event_later)
{
    lab.on_poke = flood;
    with_control(body_slow);
}

/* Audit records, of the lab's run when OF_RUN, and the word that there are more. */
static void decide(size_t count, bool of_run)
{
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *path = mem_printf("/%0*d", 1000, 0);

    for (size_t i = 0; i < count; i++) {
        struct audit_record audit;

        audit_record_init(&audit);
        if (of_run)
            audit.run = lab.run.id;
        record_set(&audit.path, path);
        WANT(store_audit_append(lab.store, &audit, &err) == 0);
        audit_record_finish(&audit);
    }
    control_audited(lab.control);
}

enum { DECIDE_ONE = 1, DECIDE_OTHER, DECIDE_MANY, END_RUN };
#define MANY 4000 /* of a kilobyte: far more than what may wait for a client */

static void audit_steps(int step)
{
    if (step == END_RUN)
        fake_event(lab.runs, &lab.run, RUN_COMPLETED, 0, "completed", "");
    else
        decide(step == DECIDE_MANY ? MANY : 1, step != DECIDE_OTHER);
}

/* The number of the next event; 0: it is something else. */
static uint64_t next_number(struct client *client, enum envelope_kind *kind)
{
    struct client_message message;
    struct error err = ERROR_INIT;
    uint64_t number;

    if (client_next(client, PATIENCE_MS, &message, &err) != 1) {
        WANT(false);
        return 0;
    }
    *kind = message.envelope.kind;
    number = json_u64(json_get(message.envelope.body, "number"), 0);
    client_message_finish(&message);
    return number;
}

static void body_audit_follow(void)
{
    struct client *all = join_as("test");
    struct client *one = join_as("test");
    enum envelope_kind kind;
    struct error err = ERROR_INIT;

    WANT(answers(all, "audit.list", "{\"after\":1}", "invalid: after"));
    WANT(answers(all, "audit.list", "{\"follow\":true,\"before\":1}", "invalid: before"));
    WANT(answers(all, "audit.list",
                 "{\"follow\":true,\"runId\":\"run_00000000000000000000000000\"}", "not_found"));
    poke(DECIDE_ONE);
    WANT(client_send(all, "audit.list", "{\"follow\":true}", NULL, 0, &err) != 0);
    WANT(client_send(one, "audit.list", about_run(",\"follow\":true,\"after\":1"), NULL, 0, &err) !=
         0);
    WANT(next_number(all, &kind) == 0 && kind == ENVELOPE_REPLY);
    WANT(next_number(one, &kind) == 0 && kind == ENVELOPE_REPLY);
    WANT(next_number(all, &kind) == 1);
    poke(DECIDE_OTHER);
    WANT(next_number(all, &kind) == 2);
    poke(DECIDE_ONE);
    WANT(next_number(all, &kind) == 3);
    WANT(next_number(one, &kind) == 3);
    poke(END_RUN);
    WANT(next_number(one, &kind) == 0 && kind == ENVELOPE_END);
    poke(DECIDE_OTHER); /* the run's end is not the others' */
    WANT(next_number(all, &kind) == 4);
    client_free(one);
    client_free(all);
}

TEST(decisions_are_followed_of_all_runs_and_of_one_to_its_end)
{
    lab.on_poke = audit_steps;
    with_control(body_audit_follow);
}

static void body_audit_slow(void)
{
    struct client *slow = join_as("test");
    struct client *other = join_as("test");
    struct error err = ERROR_INIT;
    enum envelope_kind kind;
    AUTO_FREE
    char *last = mem_printf("\"number\":%d", MANY);

    WANT(client_send(slow, "audit.list", "{\"follow\":true}", NULL, 0, &err) != 0);
    WANT(next_number(slow, &kind) == 0 && kind == ENVELOPE_REPLY);
    poke(DECIDE_MANY);
    /* Nothing is read here until all are there. */
    WANT(answers(other, "audit.list", "{\"limit\":1}", last));
    for (uint64_t expected = 1; expected <= MANY && lab.failure[0] == '\0'; expected++)
        WANT(next_number(slow, &kind) == expected);
    client_free(slow);
    client_free(other);
}

TEST(a_slow_follower_is_told_every_decision_later)
{
    lab.on_poke = audit_steps;
    with_control(body_audit_slow);
}

enum { NOTICES_TRIED = 1, NOTICES_HELD };

/* NOTICES_HELD leaves the test under way. */
static void notice_steps(int step)
{
    static const struct control_notice_trial trials[] = { { "ntfy", "told", "", "" },
                                                          { "webhook", "refused", "no", "look" } };

    if (step != NOTICES_HELD && lab.notices_tried != NULL) {
        lab.notices_tried(lab.notices_trial, trials, ARRAY_LEN(trials));
        lab.notices_tried = NULL;
    }
}

static void body_notices(void)
{
    struct client *client = join_as("test");
    struct client *other = join_as("test");
    struct error err = ERROR_INIT;

    WANT(answers(client, "notice.test", "{\"x\":1}", "invalid: "));
    atomic_store(&lab.step, NOTICES_TRIED);
    WANT(answers(client, "notice.test", "{}",
                 "{\"ways\":[{\"way\":\"ntfy\",\"outcome\":\"told\"},{\"way\":\"webhook\","
                 "\"outcome\":\"refused\",\"why\":\"no\",\"next\":\"look\"}]}"));
    /* A client that goes away while one is under way is not missed. */
    atomic_store(&lab.step, NOTICES_HELD);
    WANT(client_send(client, "notice.test", "{}", NULL, 0, &err) != 0);
    WANT(answers(client, "system.status", "{}", "1.2.3"));
    WANT(answers(other, "notice.test", "{}", "conflict: "));
    client_free(client);
    WANT(answers(other, "system.status", "{}", "1.2.3"));
    poke(NOTICES_TRIED);
    WANT(answers(other, "system.status", "{}", "1.2.3"));
    client_free(other);
}

TEST(a_test_notice_is_answered_when_it_is_over)
{
    lab.notices_tried = NULL;
    lab.on_poke = notice_steps;
    with_control(body_notices);
}

static void exec_steps(int step)
{
    struct run_exec *exec = lab.runs->exec;
    struct run_exec_callbacks callbacks = exec->callbacks;

    if (step == 1) {
        callbacks.on_output(callbacks.data, false, "h\xc3", 2);
        callbacks.on_output(callbacks.data, false, "\xb6\n", 2);
        callbacks.on_output(callbacks.data, true, "\xff", 1);
    } else {
        free(exec);
        callbacks.on_exit(callbacks.data, 3, 0, NULL);
    }
}

static void body_exec(void)
{
    struct client *client = join_as("test");
    struct client_message message;
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf out = BUF_INIT(1000);
    bool over = false;

    WANT(answers(client, "run.exec", about_run(",\"argv\":[]"), "invalid: argv"));
    WANT(answers(client, "run.exec", about_run(",\"argv\":[1]"), "invalid: argv"));
    WANT(answers(client, "run.exec", about_run(",\"argv\":[\"refused\"]"), "conflict: "));
    WANT(answers(client, "run.exec", about_run(",\"argv\":[\"ls\"]"), "\"started\":true"));
    poke(1);
    while (out.len < 5 && lab.failure[0] == '\0') {
        WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
        if (str_equal(json_string(json_get(message.envelope.body, "stream")), "stdout"))
            buf_append_str(&out, json_string(json_get(message.envelope.body, "data")));
        else
            buf_append_char(&out, '!');
        client_message_finish(&message);
    }
    WANT(str_equal(buf_text(&out), "h\xc3\xb6\n!"));
    poke(2);
    while (!over && lab.failure[0] == '\0') {
        WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
        over = message.envelope.kind == ENVELOPE_END;
        if (over)
            WANT(json_u64(json_get(message.envelope.body, "exitCode"), 0) == 3);
        client_message_finish(&message);
    }
    /* Left running: closing the connection ends it. */
    WANT(answers(client, "run.exec", about_run(",\"argv\":[\"ls\"]"), "\"started\":true"));
    client_free(client);
}

TEST(exec_streams_whole_characters_and_the_exit_code)
{
    lab.on_poke = exec_steps;
    with_control(body_exec);
}

static void body_secret(void)
{
    static const char value[] = "sk-marker-0123456789";
    struct client *client = join_as("ctl");
    struct client_message message;
    struct error err = ERROR_INIT;

    WANT(answers(client, "service.list", "{}", "\"secret\":\"A_KEY\",\"secretPresent\":false"));
    WANT(client_call_blob(client, "secret.set", "{\"name\":\"A_KEY\"}", value, strlen(value), 5000,
                          &message, &err) == 0);
    WANT(!json_bool(json_get(message.envelope.body, "replaced"), true));
    client_message_finish(&message);
    WANT(answers(client, "service.list", "{}", "\"secretPresent\":true"));
    WANT(answers(client, "secret.list", "{}", "\"name\":\"A_KEY\",\"source\":\"stored\""));
    WANT(client_call_blob(client, "secret.set", "{\"name\":\"a key\"}", value, strlen(value), 5000,
                          &message, &err) == -1);
    WANT(err.code == ERR_INVALID && str_equal(err.argument, "name"));
    WANT(answers(client, "secret.delete", "{\"name\":\"A_KEY\"}", "A_KEY"));
    WANT(answers(client, "secret.delete", "{\"name\":\"A_KEY\"}", "not_found"));
    client_free(client);
}

TEST(a_secret_goes_in_by_a_blob_and_never_comes_out)
{
    with_control(body_secret);
}

static const char *about_session(void)
{
    static char body[200];

    snprintf(body, sizeof(body), "{\"sessionId\":\"%s\"}", lab.run.session.text);
    return body;
}

static void body_delete(void)
{
    struct client *client = join_as("ctl");

    WANT(answers(client, "session.delete", about_session(), lab.run.session.text));
    WANT(answers(client, "session.delete", about_session(), "not_found"));
    WANT(answers(client, "run.get", about_run(""), "not_found"));
    client_free(client);
}

TEST(a_session_can_be_deleted)
{
    with_control(body_delete);
}

static void want_next(struct client *client, enum envelope_kind kind, const char *name,
                      const char *value)
{
    struct client_message message;
    struct error err = ERROR_INIT;
    const struct json_value *member;

    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
    member = json_get(message.envelope.body, name);
    WANT(message.envelope.kind == kind);
    WANT(value != NULL ? str_equal(json_string(member), value) : member == NULL);
    client_message_finish(&message);
}

static void body_watch(void)
{
    struct client *client = join_as("test");
    struct client *other = join_as("ctl");
    const char *session = lab.run.session.text;
    struct error err = ERROR_INIT;

    WANT(answers(other, "session.watch", "{\"sessionId\":\"ses_1\"}", "invalid"));
    WANT(client_send(client, "session.watch", about_session(), NULL, 0, &err) != 0);
    want_next(client, ENVELOPE_REPLY, "sessionId", session);
    poke(1); /* five hundred changes of one run */
    want_next(client, ENVELOPE_EVENT, "runId", lab.run.id.text);
    WANT(answers(other, "session.delete", about_session(), session));
    want_next(client, ENVELOPE_EVENT, "runId", NULL);
    want_next(client, ENVELOPE_END, "runId", NULL);
    WANT(answers(client, "session.watch", about_session(), "not_found"));
    client_free(client);
    client_free(other);
}

TEST(a_watched_session_tells_of_its_runs_until_it_is_deleted)
{
    lab.on_poke = flood;
    with_control(body_watch);
}

static void body_watch_given_up(void)
{
    struct client *client = join_as("test");
    struct error err = ERROR_INIT;

    WANT(client_send(client, "session.watch", about_session(), NULL, 0, &err) != 0);
    want_next(client, ENVELOPE_REPLY, "sessionId", lab.run.session.text);
    client_free(client);
    poke(1);
    client = join_as("test");
    WANT(answers(client, "session.list", "{}", lab.run.session.text));
    client_free(client);
}

TEST(a_watch_ends_with_its_client)
{
    lab.on_poke = flood;
    with_control(body_watch_given_up);
}

static void store_diff(int step)
{
    struct error err = ERROR_INIT;
    static const char diff[] =
        "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

    end_run(3);
    (void)step;
    store_diff_put(lab.store, &lab.run.id, diff, strlen(diff), &err);
}

static void body_diff(void)
{
    struct client *client = join_as("ctl");
    char body[200];

    poke(1);
    WANT(answers(client, "run.get", about_run(",\"waitSeconds\":10"), "completed"));
    WANT(answers(
        client, "run.diff", about_run(""),
        "\"insertions\":1,\"deletions\":1,\"status\":\"modified\"}],\"diff\":\"diff --git"));
    WANT(answers(client, "run.diff", about_run(",\"maxBytes\":25"), "\"truncated\":true"));
    snprintf(body, sizeof(body), "{\"sessionId\":\"%s\"}", lab.run.session.text);
    WANT(answers(client, "run.diff", body, "unavailable: no sandbox here"));
    client_free(client);
}

TEST(a_diff_is_had_by_run_and_asked_for_by_session)
{
    lab.on_poke = store_diff;
    with_control(body_diff);
}

/* Peers who break the rules
 * --------------------------------------------------------------------------------------- */

/* True when the daemon ends the connection after these bytes (and perhaps an answer). */
static bool ends_after(const void *bytes, size_t len)
{
    struct error err = ERROR_INIT;
    struct timeval timeout = { .tv_sec = 5 };
    AUTO_CLOSE
    int fd = fd_connect_unix(tmp_path("s.sock"), SOCK_STREAM, &err);
    char part[4096];
    ssize_t got;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    if (fd < 0 || fd_write_all(fd, bytes, len, &err) < 0)
        return false;
    while ((got = read(fd, part, sizeof(part))) > 0) {
    }
    return got == 0;
}

static bool json_ends(const char *first, const char *second)
{
    AUTO_BUF struct buf bytes = BUF_INIT(1u << 20);
    struct error err = ERROR_INIT;

    frame_append(&bytes, FRAME_KIND_JSON, first, strlen(first), &err);
    if (second != NULL)
        frame_append(&bytes, FRAME_KIND_JSON, second, strlen(second), &err);
    return ends_after(bytes.data, bytes.len);
}

#define HELLO                                                                                      \
    "{\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":1,\"role\":\"test\",\"version\":"     \
    "\"1\"}}"

static void body_rules(void)
{
    struct client *client = join_as("test");

    WANT(ends_after("\0\0\0\0", 4 + 1));
    WANT(ends_after("\xff\xff\xff\xffJ", 5));
    WANT(ends_after("\0\0\0\2X{", 6));
    WANT(json_ends("{", NULL));
    WANT(json_ends("{\"id\":1,\"method\":\"run.list\"}", NULL));
    WANT(json_ends("{\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":99,\"role\":\"test\","
                   "\"version\":\"1\"}}",
                   NULL));
    WANT(json_ends(HELLO, "{\"id\":2,\"result\":{}}"));
    WANT(json_ends(HELLO, "{\"id\":2,\"method\":\"run.list\",\"more\":1}"));
    WANT(json_ends(HELLO, HELLO));
    WANT(answers(client, "system.status", "{}", "1.2.3")); /* the others never notice */
    client_free(client);
}

TEST(whoever_breaks_the_rules_loses_the_connection)
{
    with_control(body_rules);
}

static void body_split(void)
{
    AUTO_BUF struct buf bytes = BUF_INIT(4096);
    struct error err = ERROR_INIT;
    AUTO_CLOSE
    int fd = fd_connect_unix(tmp_path("s.sock"), SOCK_STREAM, &err);
    static const char set[] = "{\"id\":2,\"method\":\"secret.set\",\"params\":{\"name\":\"S\"}}";
    static const char status[] = "{\"id\":3,\"method\":\"system.status\"}";
    char got[4096] = "";
    size_t len = 0;

    frame_append(&bytes, FRAME_KIND_JSON, HELLO, strlen(HELLO), &err);
    frame_append(&bytes, FRAME_KIND_JSON, set, strlen(set), &err);
    frame_append(&bytes, FRAME_KIND_BLOB, "value", 5, &err);
    frame_append(&bytes, FRAME_KIND_JSON, status, strlen(status), &err);
    for (size_t i = 0; i < bytes.len; i++) {
        WANT(send(fd, bytes.data + i, 1, 0) == 1);
        if (i % 7 == 0)
            usleep(200);
    }
    while (len < sizeof(got) - 1) {
        ssize_t part = read(fd, got + len, sizeof(got) - 1 - len);

        if (part <= 0)
            break;
        len += (size_t)part;
        if (memmem(got, len, "uptimeSeconds", 13) != NULL)
            break;
    }
    WANT(memmem(got, len, "\"replaced\":false", 16) != NULL);
    WANT(memmem(got, len, "uptimeSeconds", 13) != NULL);
}

TEST(frames_may_come_byte_by_byte)
{
    with_control(body_split);
}

static void body_limit(void)
{
    struct client *client = join_as("test");
    struct client_message message;
    struct error err = ERROR_INIT;

    for (int i = 0; i < 5; i++)
        WANT(client_send(client, "run.get", about_run(",\"waitSeconds\":40"), NULL, 0, &err) != 0);
    WANT(client_next(client, PATIENCE_MS, &message, &err) == 1);
    WANT(message.envelope.kind == ENVELOPE_ERROR && message.envelope.error.code == ERR_LIMIT);
    client_message_finish(&message);
    client_free(client);
}

TEST(too_many_requests_in_flight_are_refused)
{
    with_control(body_limit);
}
