/* bench_store.c: bench_store FOLDER COUNT: fills a new store with COUNT runs that have ended, five
 * to a session, with an event each. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/str.h"
#include "run/run_state.h"
#include "store/store.h"

#define RUNS_OF_SESSION 5

struct maker {
    struct store *store;
    struct id_source runs;
    struct id_source sessions;
    struct session_record session;
    uint64_t now_ms;
};

static void begin_session(struct maker *maker)
{
    session_record_finish(&maker->session);
    session_record_init(&maker->session);
    id_make(&maker->sessions, ID_KIND_SESSION, maker->now_ms, &maker->session.id);
    maker->session.created_ms = maker->now_ms;
    maker->session.place_count = 1;
    record_set(&maker->session.title, "A session of many");
}

static void fill_run(struct maker *maker, uint64_t number, struct run_record *run)
{
    static const uint32_t states[] = { RUN_COMPLETED, RUN_COMPLETED, RUN_COMPLETED, RUN_FAILED,
                                       RUN_CANCELLED };
    AUTO_FREE
    char *title = mem_printf("Task number %llu", (unsigned long long)number);

    id_make(&maker->runs, ID_KIND_RUN, maker->now_ms, &run->id);
    run->session = maker->session.id;
    run->state = states[number % ARRAY_LEN(states)];
    run->created_ms = run->started_ms = maker->now_ms;
    run->ended_ms = maker->now_ms + 60000;
    run->last_event = 1;
    run->usage.cost_microdollars = 120000;
    run->usage.input_tokens = 40000;
    run->evidence.known = true;
    run->evidence.files_changed = number % 9;
    record_set(&run->title, title);
    record_set(&run->task, "Find out why the test fails, mend it and commit the change.");
    record_set(&run->model, "anthropic/claude-sonnet-4-5");
    record_set(&run->repository, "https://github.com/team/calc.git");
    record_set(&run->verdict, "changed");
    record_set(&run->output, "The test fails because of the last number. It is mended now.");
}

static int make_run(struct maker *maker, uint64_t number, struct error *err)
{
    struct event_record event;
    struct run_record run;
    int rc;

    if (number % RUNS_OF_SESSION == 0)
        begin_session(maker);
    maker->now_ms += 1000;
    run_record_init(&run);
    event_record_init(&event);
    fill_run(maker, number, &run);
    event.number = 1;
    event.time_ms = maker->now_ms;
    record_set(&event.text, "queued: queue");
    maker->session.updated_ms = maker->now_ms;
    maker->session.run_count++;
    maker->session.last_run = run.id;
    rc = store_run_create(maker->store, &run, &maker->session, &event, err);
    event_record_finish(&event);
    run_record_finish(&run);
    return rc;
}

int main(int argc, char **argv)
{
    struct maker maker = { .now_ms = 1700000000000 };
    struct store_options options = { .directory = argc > 1 ? argv[1] : "" };
    struct error err = ERROR_INIT;
    uint64_t count = 0;
    int rc;

    if (argc != 3 || !str_parse_u64(argv[2], 100000000, &count)) {
        fputs("usage: bench_store FOLDER COUNT\n", stderr);
        return 2;
    }
    session_record_init(&maker.session);
    rc = store_open(&maker.store, &options, &err);
    for (uint64_t i = 0; i < count && rc == 0; i++)
        rc = make_run(&maker, i, &err);
    store_close(maker.store);
    session_record_finish(&maker.session);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    return rc < 0;
}
