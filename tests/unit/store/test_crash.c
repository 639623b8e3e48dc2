/* kill -9 at any moment: what was acknowledged is there, what is there is whole. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/fd.h"
#include "unit/store/sample.h"

enum { ROUNDS = 12 };

/* Makes runs from FIRST on and reports each number after its acknowledgement. */
static _Noreturn void write_until_killed(const char *directory, uint64_t first, int report)
{
    struct error err = ERROR_INIT;
    struct store_options options = { directory, 0 };
    struct store *store;

    if (store_open(&store, &options, &err) < 0)
        _exit(1);
    for (uint64_t n = first;; n++) {
        if (sample_create(store, n, n, 0, &err) < 0 ||
            sample_append(store, n, 2, "two", &err) < 0 ||
            sample_append(store, n, 3, "three", &err) < 0 ||
            sample_set_state(store, n, 1, &err) < 0)
            _exit(2);
        if (write(report, &n, sizeof(n)) != sizeof(n))
            _exit(3);
    }
}

static uint64_t run_and_kill(const char *directory, uint64_t first, unsigned round)
{
    struct timespec delay = { 0, 1000000L * (1 + round * 7 % 40) };
    uint64_t newest = first;
    uint64_t n;
    int report[2];
    int status;

    CHECK_EQ(pipe(report), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(report[0]);
        write_until_killed(directory, first, report[1]);
    }
    close(report[1]);
    CHECK_EQ(read(report[0], &newest, sizeof(newest)), (ssize_t)sizeof(newest));
    nanosleep(&delay, NULL); /* any moment will do */
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    while (read(report[0], &n, sizeof(n)) == (ssize_t)sizeof(n))
        newest = n;
    close(report[0]);
    return newest;
}

static void check_run(struct store *store, uint64_t n)
{
    struct error err = ERROR_INIT;
    struct id id = sample_id(ID_KIND_RUN, n);
    struct sample_list list = { 0 };
    struct run_record run;

    run_record_init(&run);
    CHECK_OK(store_run_load(store, &id, &run, &err));
    CHECK_EQ(run.state, 1);
    CHECK_OK(store_event_each(store, &id, 0, 0, sample_add_event, &list, &err));
    CHECK_STR(list.text, "1:created 2:two 3:three");
    run_record_finish(&run);
}

TEST(nothing_acknowledged_is_lost_by_kill_9)
{
    uint64_t first = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct error err = ERROR_INIT;
        uint64_t newest = run_and_kill(tmp_path("db"), first, round);
        struct store *store = sample_open();
        uint64_t counts[2];

        for (uint64_t n = first; n <= newest; n++)
            check_run(store, n);
        CHECK_OK(store_run_counts(store, counts, 2, &err));
        CHECK_EQ(counts[0] + counts[1], sample_entries(store, STORE_RUNS));
        CHECK_EQ(sample_entries(store, STORE_RUN_STATES), sample_entries(store, STORE_RUNS));
        CHECK_EQ(sample_entries(store, STORE_EVENTS), sample_entries(store, STORE_EVENT_INDEX));
        CHECK(sample_entries(store, STORE_RUNS) >=
              newest + 1 - round); /* one unacknowledged a round */
        first = newest + 2;        /* the one behind it may be there */
        store_close(store);
    }
}
