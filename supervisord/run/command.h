/* command.h: one program inside a sandbox, its output captured within bounds, its end awaited. */
#ifndef RUN_COMMAND_H
#define RUN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/error.h"
#include "sandbox/sandbox.h"

struct command;

struct command_result {
    int code; /* exit status, -1 when a signal ended it */
    int signal;
    bool timed_out;
    bool truncated; /* more came than was kept; the program was ended then if the options say so */
    const struct buf *out; /* stdout, at most max_output_bytes */
    const char *err_tail;  /* the last part of stderr, at most 4 KiB */
};

struct command_options {
    const char *const *argv;
    const char *const *env;
    const char *cwd;
    size_t max_output_bytes; /* of stdout; 0: nothing is kept */
    bool end_when_full;
    uint64_t timeout_ms; /* 0: none */
    uint64_t silence_ms; /* 0: none; no output for so long counts as a timeout */
    /* Output as it comes; may be NULL. */
    void (*on_output)(void *data, bool is_stderr, const char *bytes, size_t len);
    /* Once, unless cancelled. ERR: it could not be started or the sandbox ended. The command is
     * freed after it. */
    void (*on_done)(void *data, const struct command_result *result, const struct error *err);
    void *data;
};

int command_start(struct command **out, uv_loop_t *loop, struct sandbox *sandbox,
                  const struct command_options *options, struct error *err);
/* No more stdout is read, and so the program waits, until it is resumed. Also from on_output. */
void command_pause(struct command *command);
void command_resume(struct command *command);
/* Kills it; no callback runs any more. The handle is gone. */
void command_cancel(struct command *command);

#endif
