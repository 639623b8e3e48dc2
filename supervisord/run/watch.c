/* watch.c: notices that nothing goes on any more. Signs of life are events of the agent, bytes
 * between the proxy and a model, and, since a build may be silent for long, time of the processor:
 * of that a sample is taken inside the sandbox when half of the patience is used up, and another at
 * its end. */
#include "run/internal.h"

#include <unistd.h>

#include "common/failure.h"
#include "run/cpu_sample.h"

#define SAMPLE_MAX (256u << 10)
#define SAMPLE_MS 10000
/* An agent that waits takes a little time, too, and on a busy machine one that works gets not much
 * more: that a program works is believed from one part in fifty on. */
#define WORK_PART 50

static void on_watch(uv_timer_t *timer);

static uint64_t patience(const struct run *run)
{
    return (uint64_t)run->runs->options.stall_minutes * 60000;
}

static uint64_t silence(const struct run *run)
{
    return clock_mono_ms(run->runs->clock) - run->active_mono_ms;
}

static bool at_work(const struct run *run)
{
    return run->record.state == RUN_PROMPT || run->record.state == RUN_WORKING;
}

static void stalled(struct run *run)
{
    const struct failure_kind *kind = failure_find("agent_stalled");
    AUTO_FREE
    char *message = mem_printf("no sign of life from the agent or its model for %u minute%s",
                               run->runs->options.stall_minutes,
                               run->runs->options.stall_minutes == 1 ? "" : "s");

    /* Nobody knows whether it hangs or has ended long ago. */
    if (run->unheard && run->driver->resumes_blind) {
        recover_lost(run, "its agent has said nothing since a new supervisor took the run up: its "
                          "answer may have been lost with the one before");
        return;
    }
    run->driver->abort(run->agent);
    run_fail(run, kind->code, message, kind->hint, kind->retryable);
}

static bool has_worked(const struct run *run, uint64_t cpu_ms)
{
    const struct run_watch *watch = &run->watched;
    uint64_t passed = clock_mono_ms(run->runs->clock) - watch->sample_mono_ms;

    return watch->sampled && cpu_ms > watch->cpu_ms &&
           (cpu_ms - watch->cpu_ms) * WORK_PART >= passed;
}

static void judge(struct run *run, bool known, uint64_t cpu_ms)
{
    struct run_watch *watch = &run->watched;
    bool late = silence(run) >= patience(run);

    if (!at_work(run))
        return;
    if (known && has_worked(run, cpu_ms)) {
        log_info(run->record.id.text, "silent, but its programs work");
        run_touch(run);
        late = false;
    } else if (late) {
        stalled(run);
        return;
    }
    watch->sampled = known;
    watch->cpu_ms = cpu_ms;
    watch->sample_mono_ms = clock_mono_ms(run->runs->clock);
    watch_start(run);
}

static void on_sample(void *data, const struct command_result *result, const struct error *err)
{
    struct run *run = data;
    bool known = err == NULL && !result->timed_out;

    run->watched.command = NULL;
    judge(run, known,
          known ? cpu_sample_read(buf_text(result->out), (uint64_t)sysconf(_SC_CLK_TCK)) : 0);
}

static void take_sample(struct run *run)
{
    static const char *const argv[] = { "/bin/sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null",
                                        NULL };
    struct command_options options = { .argv = argv,
                                       .env = git_environment(),
                                       .cwd = "/",
                                       .max_output_bytes = SAMPLE_MAX,
                                       .timeout_ms = SAMPLE_MS,
                                       .on_done = on_sample,
                                       .data = run };
    struct error err = ERROR_INIT;

    if (run->watched.command != NULL)
        return;
    if (run->sandbox == NULL || run->sandbox_over ||
        command_start(&run->watched.command, run->runs->loop, run->sandbox, &options, &err) < 0) {
        run->watched.command = NULL;
        judge(run, false, 0);
    }
}

/* How long until there is something to look at: at half of the patience, then at its end. */
static uint64_t next_look(const struct run *run)
{
    uint64_t limit = patience(run);
    uint64_t silent = silence(run);

    if (silent < limit / 2)
        return limit / 2 - silent;
    return silent < limit ? limit - silent : limit / 2;
}

static void on_watch(uv_timer_t *timer)
{
    struct run *run = timer->data;

    if (run->record.state == RUN_WAITING) { /* its silence is ours, until the answer */
        uv_timer_start(&run->watch, on_watch, patience(run) / 2, 0);
        return;
    }
    if (!at_work(run))
        return;
    if (silence(run) < patience(run) / 2)
        watch_start(run);
    else
        take_sample(run);
}

void watch_start(struct run *run)
{
    if (run->runs->options.stall_minutes > 0)
        uv_timer_start(&run->watch, on_watch, next_look(run), 0);
}

void watch_end(struct run *run)
{
    if (run->watched.command != NULL)
        command_cancel(STEAL(run->watched.command));
    uv_timer_stop(&run->watch);
}
