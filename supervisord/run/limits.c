/* limits.c: what a run's limits did to it: notes it in the log, and names the limit in the error of
 * a run that failed by it. */
#include "run/internal.h"

#include <inttypes.h>

#include "common/str.h"

#define MIB (UINT64_C(1) << 20)
/* What a stored event takes beside its text: a flood of empty lines is a flood as well. */
#define EVENT_BYTES 128
#define GROWTH_MIN MIB /* who grew less has not filled the disk */

struct limit_words {
    const char *name;
    const char *code;
    const char *setting;
    const char *what;
};

static const struct limit_words words[RUN_LIMITS] = {
    [SANDBOX_LIMIT_MEMORY] = { "memory", "out_of_memory", "limits.memoryMiB",
                               "the kernel ended a process of the sandbox for want of memory" },
    [SANDBOX_LIMIT_PROCESSES] = { "processes", "too_many_processes", "limits.processes",
                                  "the sandbox could not start further processes" },
};

static uint64_t setting_of(const struct run *run, enum sandbox_limit limit)
{
    const struct sandbox_limits *limits = &run->runs->options.limits;

    return limit == SANDBOX_LIMIT_MEMORY ? limits->memory_bytes / MIB : limits->processes;
}

/* Memory and processes ------------------------------------------------------------------------- */

void limits_on_hit(void *data, enum sandbox_limit limit, uint64_t times)
{
    struct run *run = data;
    const struct limit_words *word = &words[limit];
    AUTO_FREE
    char *text =
        mem_printf("%s: %s is %" PRIu64, word->what, word->setting, setting_of(run, limit));
    AUTO_FREE
    char *note = mem_printf("{\"limit\":\"%s\",\"times\":%" PRIu64 "}", word->name, times);

    if (times <= run->limit_times[limit])
        return;
    run->limit_times[limit] = times;
    events_note_limit(run, text, note);
}

/* The kernel's word may come a little later than the failure that it explains, and of some limits
 * it says nothing unless it is asked. */
void limits_look(struct run *run)
{
    if (run->sandbox == NULL)
        return;
    for (int limit = 0; limit < RUN_LIMITS; limit++)
        limits_on_hit(run, (enum sandbox_limit)limit,
                      sandbox_limit_times(run->sandbox, (enum sandbox_limit)limit));
}

/* Failures that the death of a process, or one that could not be started, may be behind. */
static bool may_be_limit(const char *code)
{
    static const char *const codes[] = { "agent_crashed",  "agent_error",    "agent_not_ready",
                                         "command_failed", "sandbox_failed", "setup_failed",
                                         "clone_failed",   "agent_stalled",  "out_of_memory" };

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        if (str_equal(code, codes[i]))
            return true;
    }
    return false;
}

bool limits_explain(struct run *run, const char *code, const char *message)
{
    if (!may_be_limit(code))
        return false;
    limits_look(run);
    for (int limit = 0; limit < RUN_LIMITS; limit++) {
        const struct limit_words *word = &words[limit];
        AUTO_FREE
        char *text = NULL;
        AUTO_FREE
        char *hint = NULL;

        if (run->limit_times[limit] == 0)
            continue;
        text = mem_printf("%s; %s, %s is %" PRIu64, message, word->what, word->setting,
                          setting_of(run, (enum sandbox_limit)limit));
        hint = mem_printf("raise %s in the configuration, or let the task use less", word->setting);
        run_note_error(run, word->code, text, hint, true);
        return true;
    }
    return false;
}

/* Disk ----------------------------------------------------------------------------------------- */

static void end_work(struct run *run, const char *code, const char *message, const char *hint)
{
    if (run->record.outcome != RUN_OUTCOME_NONE)
        return;
    if (run->agent != NULL && !run->agent_closing && !run->agent_done)
        run->driver->abort(run->agent);
    run_fail(run, code, message, hint, true);
}

static void on_over(void *data, uint64_t bytes)
{
    struct run *run = data;
    AUTO_FREE
    char *message =
        mem_printf("the session's files take %" PRIu64 " MiB, limits.diskMiB is %" PRIu32,
                   bytes / MIB, run->runs->options.disk_mib);

    end_work(run, "disk_full", message,
             "remove files of the session with a new run, or raise limits.diskMiB");
}

static bool grew_most(const struct run *run)
{
    uint64_t growth = usage_watch_growth(run->usage);

    LIST_EACH(&run->runs->live, link) {
        const struct run *other = LIST_ENTRY(link, struct run, link);

        if (other != run && other->usage != NULL && usage_watch_growth(other->usage) > growth)
            return false;
    }
    return growth >= GROWTH_MIN;
}

static void on_low(void *data, uint64_t free_bytes)
{
    struct run *run = data;
    AUTO_FREE
    char *message = NULL;

    if (!grew_most(run))
        return;
    message = mem_printf("the state folder's disk has %" PRIu64
                         " MiB left, limits.freeDiskMiB is %" PRIu32
                         ", and this run's files grew most, by %" PRIu64 " MiB",
                         free_bytes / MIB, run->runs->options.machine.free_disk_mib,
                         usage_watch_growth(run->usage) / MIB);
    end_work(run, "disk_full", message, "free disk space: sandboxctl rm removes a session");
}

void limits_watch(struct run *run)
{
    const struct runs_options *options = &run->runs->options;
    const struct usage_watch_options watch = {
        .folder = run->layout.session,
        .limit_bytes = options->disk_mib * MIB,
        .free_floor_bytes = options->machine.free_disk_mib * MIB,
        .on_over = on_over,
        .on_low = on_low,
        .data = run,
    };

    if (run->usage == NULL && (watch.limit_bytes != 0 || watch.free_floor_bytes != 0))
        usage_watch_start(&run->usage, run->runs->loop, &watch);
}

void limits_end(struct run *run)
{
    AUTO_FREE
    char *text = NULL;

    if (run->usage != NULL)
        usage_watch_close(STEAL(run->usage));
    if (run->dropped_events == 0)
        return;
    text = mem_printf("%" PRIu64 " events of output were dropped", run->dropped_events);
    run->dropped_events = 0;
    run->output_bytes = 0;
    events_note_limit(run, text, NULL);
}

/* Output --------------------------------------------------------------------------------------- */

bool limits_take_output(struct run *run, size_t len)
{
    uint64_t limit = run->runs->options.output_mib * MIB;
    AUTO_FREE
    char *text = NULL;

    if (limit == 0)
        return true;
    if (run->output_over) {
        run->dropped_events++;
        return false;
    }
    run->output_bytes += len + EVENT_BYTES;
    if (run->output_bytes <= limit)
        return true;
    text = mem_printf("the run has written more than limits.outputMiB, %" PRIu32
                      " MiB: what follows is dropped",
                      run->runs->options.output_mib);
    events_note_limit(run, text, "{\"limit\":\"output\"}");
    run->output_over = true;
    run->dropped_events++;
    events_tick_soon(run->runs, 0); /* it is ended from there, not from inside its agent's call */
    return false;
}

void limits_tick(struct runs *runs)
{
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);
        AUTO_FREE
        char *message = NULL;

        if (!run->output_over || run->output_told)
            continue;
        run->output_told = true;
        message = mem_printf("the run wrote more output than limits.outputMiB, %" PRIu32 " MiB",
                             runs->options.output_mib);
        end_work(run, "output_limit", message,
                 "let the task write to a file, or raise limits.outputMiB");
    }
}
