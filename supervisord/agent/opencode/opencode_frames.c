#include "agent/opencode/opencode_frames.h"

#include <string.h>

void opencode_frames_init(struct opencode_frames *frames)
{
    *frames = (struct opencode_frames){ .skipping = false };
    buf_init(&frames->line, OPENCODE_FRAME_MAX);
    buf_init(&frames->frame, OPENCODE_FRAME_MAX);
}

void opencode_frames_finish(struct opencode_frames *frames)
{
    buf_finish(&frames->line);
    buf_finish(&frames->frame);
}

void opencode_frames_reset(struct opencode_frames *frames)
{
    frames->skipping = frames->lost = frames->after_cr = false;
    buf_clear(&frames->line);
    buf_clear(&frames->frame);
}

static bool end_frame(struct opencode_frames *frames, opencode_frame_cb on_frame, void *data)
{
    bool go_on = true;

    if (frames->lost)
        go_on = on_frame(data, NULL, 0);
    else if (frames->frame.len > 0)
        go_on = on_frame(data, frames->frame.data, frames->frame.len);
    frames->lost = false;
    buf_clear(&frames->frame);
    return go_on;
}

static void add_data_line(struct opencode_frames *frames)
{
    const char *line = buf_text(&frames->line);
    size_t skip = strlen("data:");

    if (strncmp(line, "data:", skip) != 0)
        return;
    skip += line[skip] == ' ';
    if (frames->frame.len > 0)
        buf_append_char(&frames->frame, '\n');
    buf_append(&frames->frame, line + skip, frames->line.len - skip);
    frames->lost = frames->lost || frames->frame.failed;
}

static bool end_line(struct opencode_frames *frames, opencode_frame_cb on_frame, void *data)
{
    if (frames->skipping) {
        frames->skipping = false;
        frames->lost = true;
        return true;
    }
    if (frames->line.len == 0)
        return end_frame(frames, on_frame, data);
    add_data_line(frames);
    buf_clear(&frames->line);
    return true;
}

static void add_to_line(struct opencode_frames *frames, const char *bytes, size_t len)
{
    if (frames->skipping || len == 0)
        return;
    buf_append(&frames->line, bytes, len);
    if (frames->line.failed) {
        frames->skipping = true;
        buf_clear(&frames->line);
    }
}

/* A line ends with CR, LF or both. */
void opencode_frames_feed(struct opencode_frames *frames, const char *bytes, size_t len,
                          opencode_frame_cb on_frame, void *data)
{
    size_t at = 0;

    while (at < len) {
        size_t begin = at;
        bool ends;

        while (at < len && bytes[at] != '\n' && bytes[at] != '\r')
            at++;
        add_to_line(frames, bytes + begin, at - begin);
        if (at > begin)
            frames->after_cr = false;
        if (at == len)
            return;
        ends = bytes[at] == '\r' || !frames->after_cr;
        frames->after_cr = bytes[at++] == '\r';
        if (ends && !end_line(frames, on_frame, data))
            return;
    }
}
