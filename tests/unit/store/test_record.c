#include "store/record.h"

#include <string.h>

#include "unit/store/sample.h"

static void fill_run(struct run_record *run)
{
    run_record_init(run);
    run->id = sample_id(ID_KIND_RUN, 7);
    run->session = sample_id(ID_KIND_SESSION, 8);
    run->state = 5;
    run->outcome = 3;
    char **strings[] = { &run->task,
                         &run->title,
                         &run->agent,
                         &run->model,
                         &run->repository,
                         &run->branch,
                         &run->verdict,
                         &run->output,
                         &run->idempotency_key,
                         &run->prompt_id,
                         &run->error.code,
                         &run->error.phase,
                         &run->error.message,
                         &run->error.hint,
                         &run->evidence.branch,
                         &run->evidence.base_commit,
                         &run->evidence.head_commit,
                         &run->evidence.finish_reason };
    for (unsigned i = 0; i < ARRAY_LEN(strings); i++) {
        AUTO_FREE
        char *text = mem_printf("text %u äöü\n", i);

        record_set(strings[i], text);
    }
    uint64_t *numbers[] = { &run->created_ms,
                            &run->started_ms,
                            &run->updated_ms,
                            &run->ended_ms,
                            &run->timeout_ms,
                            &run->deadline_ms,
                            &run->last_event,
                            &run->evidence.commits,
                            &run->evidence.files_changed,
                            &run->evidence.insertions,
                            &run->evidence.deletions,
                            &run->evidence.untracked,
                            &run->evidence.refused_requests,
                            &run->usage.input_tokens,
                            &run->usage.output_tokens,
                            &run->usage.cache_read_tokens,
                            &run->usage.cache_write_tokens,
                            &run->usage.requests,
                            &run->usage.cost_microdollars };
    for (unsigned i = 0; i < ARRAY_LEN(numbers); i++)
        *numbers[i] = UINT64_MAX >> (3 * i);
    memset(run->request_hash, 0xab, sizeof(run->request_hash));
    run->error.retryable = run->evidence.known = run->evidence.diff_truncated = true;
}

/* Everything that record.h lists, so that a field forgotten in the table is noticed. */
static void check_runs_equal(const struct run_record *a, const struct run_record *b)
{
    CHECK_STR(a->id.text, b->id.text);
    CHECK_STR(a->session.text, b->session.text);
    CHECK_EQ(a->state, b->state);
    CHECK_EQ(a->outcome, b->outcome);
    CHECK_STR(a->task, b->task);
    CHECK_STR(a->title, b->title);
    CHECK_STR(a->agent, b->agent);
    CHECK_STR(a->model, b->model);
    CHECK_STR(a->repository, b->repository);
    CHECK_STR(a->branch, b->branch);
    CHECK_STR(a->verdict, b->verdict);
    CHECK_STR(a->output, b->output);
    CHECK_EQ(a->created_ms, b->created_ms);
    CHECK_EQ(a->started_ms, b->started_ms);
    CHECK_EQ(a->updated_ms, b->updated_ms);
    CHECK_EQ(a->ended_ms, b->ended_ms);
    CHECK_EQ(a->timeout_ms, b->timeout_ms);
    CHECK_EQ(a->deadline_ms, b->deadline_ms);
    CHECK_EQ(a->last_event, b->last_event);
    CHECK_STR(a->idempotency_key, b->idempotency_key);
    CHECK_EQ(memcmp(a->request_hash, b->request_hash, sizeof(a->request_hash)), 0);
    CHECK_STR(a->prompt_id, b->prompt_id);
    CHECK_STR(a->error.code, b->error.code);
    CHECK_STR(a->error.phase, b->error.phase);
    CHECK_STR(a->error.message, b->error.message);
    CHECK_STR(a->error.hint, b->error.hint);
    CHECK_EQ(a->error.retryable, b->error.retryable);
    CHECK_EQ(a->evidence.known, b->evidence.known);
    CHECK_STR(a->evidence.branch, b->evidence.branch);
    CHECK_STR(a->evidence.base_commit, b->evidence.base_commit);
    CHECK_STR(a->evidence.head_commit, b->evidence.head_commit);
    CHECK_EQ(a->evidence.commits, b->evidence.commits);
    CHECK_EQ(a->evidence.files_changed, b->evidence.files_changed);
    CHECK_EQ(a->evidence.insertions, b->evidence.insertions);
    CHECK_EQ(a->evidence.deletions, b->evidence.deletions);
    CHECK_EQ(a->evidence.untracked, b->evidence.untracked);
    CHECK_EQ(a->evidence.refused_requests, b->evidence.refused_requests);
    CHECK_STR(a->evidence.finish_reason, b->evidence.finish_reason);
    CHECK_EQ(a->evidence.diff_truncated, b->evidence.diff_truncated);
    CHECK_EQ(memcmp(&a->usage, &b->usage, sizeof(a->usage)), 0);
}

TEST(a_run_with_every_field_comes_back_as_it_was)
{
    struct error err = ERROR_INIT;
    struct run_record run;
    struct run_record back;
    AUTO_BUF struct buf bytes = { 0 };

    buf_init(&bytes, 1 << 16);
    fill_run(&run);
    run_record_init(&back);
    run_record_encode(&run, &bytes);
    CHECK_OK(run_record_decode(bytes.data, bytes.len, &back, &err));
    check_runs_equal(&run, &back);
    CHECK_EQ(back.usage.cost_microdollars, UINT64_MAX >> 54);
    run_record_finish(&run);
    run_record_finish(&back);
}

TEST(an_empty_run_comes_back_empty_into_a_struct_that_was_full)
{
    struct error err = ERROR_INIT;
    struct run_record run;
    struct run_record back;
    AUTO_BUF struct buf bytes = { 0 };

    buf_init(&bytes, 1 << 16);
    run_record_init(&run);
    fill_run(&back);
    run_record_encode(&run, &bytes);
    CHECK_EQ(bytes.len, 2u);
    CHECK_OK(run_record_decode(bytes.data, bytes.len, &back, &err));
    check_runs_equal(&run, &back);
    run_record_finish(&run);
    run_record_finish(&back);
}

TEST(a_copy_of_a_run_is_equal_and_independent)
{
    struct run_record run;
    struct run_record copy;

    fill_run(&run);
    run_record_copy(&copy, &run);
    check_runs_equal(&run, &copy);
    CHECK(run.error.hint != copy.error.hint);
    run_record_finish(&run);
    CHECK_STR(copy.task, "text 0 äöü\n");
    run_record_finish(&copy);
}

static void fill_session(struct session_record *session)
{
    session_record_init(session);
    session->id = sample_id(ID_KIND_SESSION, 3);
    record_set(&session->title, "title");
    record_set(&session->places[0].repository, "https://forge.example/a.git");
    record_set(&session->places[0].branch, "main");
    record_set(&session->places[0].directory, "calc");
    record_set(&session->places[0].base_commit, "abc");
    record_set(&session->places[0].agent, "opencode");
    record_set(&session->places[0].agent_session, "ses_x");
    session->host_uid = 4000000000u;
    session->places[0].cloned = true;
    session->created_ms = 1;
    session->updated_ms = 1ull << 40;
    session->run_count = 255;
    session->last_run = sample_id(ID_KIND_RUN, 9);
}

TEST(a_session_with_every_field_comes_back_as_it_was)
{
    struct error err = ERROR_INIT;
    struct session_record session;
    struct session_record back;
    AUTO_BUF struct buf bytes = { 0 };

    buf_init(&bytes, 1 << 16);
    fill_session(&session);
    session_record_init(&back);
    session_record_encode(&session, &bytes);
    CHECK_OK(session_record_decode(bytes.data, bytes.len, &back, &err));
    CHECK_STR(back.id.text, session.id.text);
    CHECK_STR(back.title, "title");
    CHECK_STR(back.places[0].repository, session.places[0].repository);
    CHECK_STR(back.places[0].branch, "main");
    CHECK_STR(back.places[0].directory, "calc");
    CHECK_STR(back.places[0].base_commit, "abc");
    CHECK_STR(back.places[0].agent, "opencode");
    CHECK_STR(back.places[0].agent_session, "ses_x");
    CHECK_EQ(back.host_uid, 4000000000u);
    CHECK(back.places[0].cloned);
    CHECK_EQ(back.created_ms, 1);
    CHECK_EQ(back.updated_ms, 1ull << 40);
    CHECK_EQ(back.run_count, 255);
    CHECK_STR(back.last_run.text, session.last_run.text);
    session_record_finish(&back);
    session_record_copy(&back, &session);
    session_record_finish(&session);
    CHECK_STR(back.places[0].agent_session, "ses_x");
    session_record_finish(&back);
}

TEST(a_session_keeps_all_its_places_and_none_that_it_does_not_have)
{
    struct error err = ERROR_INIT;
    struct session_record session;
    struct session_record back;
    AUTO_BUF struct buf bytes = { 0 };

    buf_init(&bytes, 1 << 16);
    fill_session(&session);
    for (uint32_t i = 1; i < SESSION_PLACES_MAX; i++) {
        AUTO_FREE char *name = mem_printf("app-%u", (unsigned)i + 1);

        record_set(&session.places[i].directory, name);
        session.places[i].set_up = true;
    }
    session.place_count = SESSION_PLACES_MAX;
    session.place = 7;
    session_record_init(&back);
    session_record_encode(&session, &bytes);
    CHECK_OK(session_record_decode(bytes.data, bytes.len, &back, &err));
    CHECK_EQ(back.place_count, SESSION_PLACES_MAX);
    CHECK_EQ(back.place, 7);
    CHECK_STR(back.places[1].directory, "app-2");
    CHECK_STR(back.places[7].directory, "app-8");
    CHECK(back.places[7].set_up && !back.places[7].cloned);
    CHECK_STR(back.places[0].directory, "calc");

    session.place_count = 7; /* the place is none of them */
    buf_clear(&bytes);
    session_record_encode(&session, &bytes);
    CHECK_EQ(session_record_decode(bytes.data, bytes.len, &back, &err), -1);
    CHECK_HAS(err.text, "place 7 of 7");
    session.place_count = SESSION_PLACES_MAX + 1;
    buf_clear(&bytes);
    session_record_encode(&session, &bytes);
    CHECK_EQ(session_record_decode(bytes.data, bytes.len, &back, &err), -1);
    session_record_finish(&session);
    session_record_finish(&back);
}

TEST(events_and_audit_records_come_back_without_their_number)
{
    struct error err = ERROR_INIT;
    struct event_record event;
    struct audit_record audit;
    AUTO_BUF struct buf bytes = { 0 };

    buf_init(&bytes, 1 << 16);
    sample_event(&event, 9, "said");
    record_set(&event.data, "{\"a\":1}");
    event_record_encode(&event, &bytes);
    event.number = 77;
    record_set(&event.text, "other");
    CHECK_OK(event_record_decode(bytes.data, bytes.len, &event, &err));
    CHECK_EQ(event.number, 77);
    CHECK_EQ(event.time_ms, 5009);
    CHECK_EQ(event.kind, 3);
    CHECK_STR(event.text, "said");
    CHECK_STR(event.data, "{\"a\":1}");
    event_record_finish(&event);

    buf_clear(&bytes);
    audit_record_init(&audit);
    audit.number = 5;
    audit.time_ms = 6;
    audit.run = sample_id(ID_KIND_RUN, 1);
    record_set(&audit.service, "anthropic");
    record_set(&audit.method, "POST");
    record_set(&audit.host, "api.example");
    record_set(&audit.path, "/v1/messages");
    record_set(&audit.reason, "allowed");
    audit.verdict = 2;
    audit.status = 200;
    audit.request_bytes = 1;
    audit.response_bytes = 2;
    audit.milliseconds = 3;
    audit.input_tokens = 4;
    audit.output_tokens = 5;
    audit_record_encode(&audit, &bytes);
    audit_record_finish(&audit);
    audit_record_init(&audit);
    CHECK_OK(audit_record_decode(bytes.data, bytes.len, &audit, &err));
    CHECK_EQ(audit.number, 0);
    CHECK_EQ(audit.time_ms, 6);
    CHECK_EQ(sample_number(&audit.run), 1);
    CHECK_STR(audit.service, "anthropic");
    CHECK_STR(audit.method, "POST");
    CHECK_STR(audit.host, "api.example");
    CHECK_STR(audit.path, "/v1/messages");
    CHECK_STR(audit.reason, "allowed");
    CHECK_EQ(audit.verdict, 2);
    CHECK_EQ(audit.status, 200);
    CHECK_EQ(audit.request_bytes + 10 * audit.response_bytes + 100 * audit.milliseconds, 321);
    CHECK_EQ(audit.input_tokens + 10 * audit.output_tokens, 54);
    audit_record_finish(&audit);
}

TEST(a_record_cut_at_any_byte_is_damaged)
{
    struct error err = ERROR_INIT;
    struct run_record run;
    struct session_record session;
    AUTO_BUF struct buf bytes = { 0 };
    AUTO_BUF struct buf other = { 0 };

    buf_init(&bytes, 1 << 16);
    buf_init(&other, 1 << 16);
    fill_run(&run);
    fill_session(&session);
    run_record_encode(&run, &bytes);
    session_record_encode(&session, &other);
    for (size_t len = 0; len < bytes.len; len++) {
        /* Memory of just that size lets a sanitizer see a read behind it. */
        AUTO_FREE
        char *cut = mem_new_zero(1, len + (len == 0));

        memcpy(cut, bytes.data, len);
        CHECK_CODE(run_record_decode(cut, len, &run, &err), ERR_BUG);
        CHECK_HAS(err.text, "damaged run record");
    }
    for (size_t len = 0; len < other.len; len++)
        CHECK_CODE(session_record_decode(other.data, len, &session, &err), ERR_BUG);
    run_record_finish(&run);
    session_record_finish(&session);
}

TEST(any_changed_byte_decodes_or_fails_but_never_crashes)
{
    struct error err = ERROR_INIT;
    struct run_record run;
    AUTO_BUF struct buf bytes = { 0 };

    buf_init(&bytes, 1 << 16);
    fill_run(&run);
    run_record_encode(&run, &bytes);
    for (size_t at = 0; at < bytes.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes.data[at] = (char)(bytes.data[at] ^ 1 << bit);
            if (run_record_decode(bytes.data, bytes.len, &run, &err) < 0)
                CHECK_EQ((int)err.code, (int)ERR_BUG);
            bytes.data[at] = (char)(bytes.data[at] ^ 1 << bit);
        }
    }
    run_record_finish(&run);
}

static int decode_event(const char *bytes, size_t len, struct error *err)
{
    struct event_record event;

    event_record_init(&event);
    int result = event_record_decode(bytes, len, &event, err);
    if (result == 0)
        result = strcmp(event.text, "hi") == 0 ? 0 : -2;
    event_record_finish(&event);
    return result;
}
#define DECODE(text) decode_event(text, sizeof(text) - 1, &err)

TEST(fields_of_a_newer_program_are_skipped_and_malformed_ones_refused)
{
    struct error err = ERROR_INIT;

    CHECK_OK(DECODE("\1\3\2hi\0"));
    CHECK_OK(DECODE("\1\3\2hi\x77\3\0\0\0\xff\1x\0"));
    CHECK_CODE(DECODE("\2\3\2hi\0"), ERR_BUG);                     /* version */
    CHECK_CODE(DECODE("\1\3\2hi\3\2hi\0"), ERR_BUG);               /* repeated */
    CHECK_CODE(DECODE("\1\4\1x\3\2hi\0"), ERR_BUG);                /* order */
    CHECK_CODE(DECODE("\1\3\2hi\0x"), ERR_BUG);                    /* behind the end */
    CHECK_CODE(DECODE("\1\3\3h\0i\0"), ERR_BUG);                   /* NUL inside */
    CHECK_CODE(DECODE("\1\3\0\0"), ERR_BUG);                       /* an empty text isn't written */
    CHECK_CODE(DECODE("\1\2\5\1\1\1\1\1\3\2hi\0"), ERR_BUG);       /* 5 bytes for 32 bits */
    CHECK_CODE(DECODE("\1\2\2\1\0\3\2hi\0"), ERR_BUG);             /* leading zero */
    CHECK_CODE(DECODE("\1\3\xff\xff\xff\xff\x7fhi\0"), ERR_BUG);   /* length beyond 32 bits */
    CHECK_CODE(DECODE("\1\3\x80\x80\x80\x80\x80\1hi\0"), ERR_BUG); /* endless length */
}

TEST(record_set_replaces_and_takes_null_for_empty)
{
    char *text = NULL;

    record_set(&text, "one");
    record_set(&text, text);
    CHECK_STR(text, "one");
    record_set(&text, NULL);
    CHECK_STR(text, "");
    free(text);
}
