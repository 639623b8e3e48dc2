/* opencode_frames.h: the bytes of an event stream (text/event-stream) as frames. Pure, bounded, may
 * be split anywhere. Only the data lines count. */
#ifndef AGENT_OPENCODE_FRAMES_H
#define AGENT_OPENCODE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

#define OPENCODE_FRAME_MAX (8u * 1024 * 1024)

struct opencode_frames {
    struct buf line;
    struct buf frame;
    bool skipping; /* the rest of a line that is too long */
    bool lost;     /* something of this frame was skipped */
    bool after_cr;
};

/* TEXT (which the callee may change) is a frame's data; NULL: it was too long and is lost. False
 * ends the feeding. */
typedef bool (*opencode_frame_cb)(void *data, char *text, size_t len);

void opencode_frames_init(struct opencode_frames *frames);
void opencode_frames_finish(struct opencode_frames *frames);
/* Drops what is left of a frame. */
void opencode_frames_reset(struct opencode_frames *frames);
void opencode_frames_feed(struct opencode_frames *frames, const char *bytes, size_t len,
                          opencode_frame_cb on_frame, void *data);

#endif
