/* progress.c: a program's progress as lines of the run's log. Programs redraw with carriage
 * returns; of such lines one in two seconds is told, and each that ends with a line feed. */
#include "run/internal.h"

#include "common/str.h"

#define LINE_MAX_BYTES 512
#define EVERY_MS 2000

void progress_init(struct progress *progress)
{
    buf_init(&progress->line, LINE_MAX_BYTES);
    progress->told_ms = 0;
}

void progress_finish(struct progress *progress)
{
    buf_finish(&progress->line);
}

static char *data_of(const struct run *run, const char *line)
{
    struct git_progress git;

    if (!git_parse_progress(line, &git))
        return mem_printf("{\"phase\":\"%s\"}", run_phase_of(&run->record));
    return mem_printf("{\"phase\":\"%s\",\"percent\":%u,\"done\":%llu,\"total\":%llu}",
                      run_phase_of(&run->record), git.percent, (unsigned long long)git.done,
                      (unsigned long long)git.total);
}

static void tell_line(struct run *run, struct progress *progress, bool final)
{
    uint64_t now = uv_now(run->runs->loop);
    AUTO_FREE
    char *data = data_of(run, buf_text(&progress->line));
    AUTO_BUF struct buf text = BUF_INIT(LINE_MAX_BYTES * 8);

    if (progress->line.len > 0 && (final || now - progress->told_ms >= EVERY_MS)) {
        str_append_escaped(&text, progress->line.data, progress->line.len, LINE_MAX_BYTES);
        events_note(run, RUN_NOTE_LOG, buf_text(&text), data);
        progress->told_ms = now;
    }
    buf_clear(&progress->line);
}

void progress_feed(struct run *run, struct progress *progress, const char *bytes, size_t len)
{
    run_touch(run);
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r')
            tell_line(run, progress, bytes[i] == '\n');
        else if (progress->line.len < LINE_MAX_BYTES)
            buf_append_char(&progress->line, bytes[i]);
    }
}
