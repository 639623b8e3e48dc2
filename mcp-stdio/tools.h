/* tools.h: the tools that a model sees, one row each: words for the model, parameters, the
 * supervisor's method, and how a reply reads. A new tool is a new row and two functions. */
#ifndef MCP_STDIO_TOOLS_H
#define MCP_STDIO_TOOLS_H

#include <stdint.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"
#include "mcp-stdio/server.h"
#include "proto/methods.h"

/* What a tool's arguments came to. */
struct tool_request {
    struct buf body;       /* params for the supervisor */
    char run_id[72];       /* of the run that is waited for */
    uint32_t wait_seconds; /* the supervisor may take so long by request */
    size_t text_max;       /* bytes of readable text in the answer */
};

void tool_request_finish(struct tool_request *request);

/* What a tool takes part in beside plain calls. */
enum tool_feature {
    TOOL_BECOMES_TASK = 1,
    TOOL_HAS_VIEW = 2, /* MCP Apps */
};

enum tool_hint {
    TOOL_READ_ONLY = 1,
    TOOL_IDEMPOTENT = 2,
    TOOL_DESTRUCTIVE = 4,
    TOOL_OPEN_WORLD = 8,
};

/* A member of a tool's structured content, for its output schema. */
struct tool_output {
    const char *name; /* NULL ends the table */
    const char *type; /* of JSON Schema; the elements of an array are objects */
    enum json_need need;
    const char *help;
};

struct tool {
    const char *name;
    const char *title;
    const char *description;
    unsigned hints;
    unsigned features;
    const struct json_field *params; /* for the schema */
    const struct tool_output *output;
    enum method method;
    /* Checks ARGUMENTS, which are the client's, and fills OUT; ERR names the argument that is
     * wrong. */
    int (*read)(const struct json_value *arguments, struct tool_request *out, struct error *err);
    /* The facts of REPLY as readable lines, at most about MAX bytes, what matters most first. */
    void (*render)(const struct json_value *reply, size_t max, struct buf *out);
    /* Writes the beginning of REPLY, about MAX bytes of it, as a reply of its own that tells how to
     * get at the rest. NULL: replies are never long. */
    void (*fit)(const struct json_value *reply, size_t max, struct buf *out);
};

/* NULL for an unknown name. */
const struct tool *tools_find(const char *name);

/* tools/list and tools/call of both eras. */
void tools_on_list(struct server *server, const struct request *request);
void tools_on_call(struct server *server, const struct request *request);

/* tool_run.c: tools about runs ----------------------------------------------------------------- */

extern const struct json_field tool_run_log_fields[];

int tool_run_task_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err);
int tool_run_result_read(const struct json_value *arguments, struct tool_request *out,
                         struct error *err);
int tool_run_list_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err);
int tool_run_cancel_read(const struct json_value *arguments, struct tool_request *out,
                         struct error *err);
int tool_run_send_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err);
int tool_run_answer_read(const struct json_value *arguments, struct tool_request *out,
                         struct error *err);
int tool_run_diff_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err);
int tool_run_log_read(const struct json_value *arguments, struct tool_request *out,
                      struct error *err);

/* tool_pr.c */
int tool_pr_read(const struct json_value *arguments, struct tool_request *out, struct error *err);
void tool_pr_render(const struct json_value *reply, size_t max, struct buf *out);

void tool_run_task_render(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_result_render(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_list_render(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_send_render(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_answer_render(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_diff_render(const struct json_value *reply, size_t max, struct buf *out);
/* One line: time, kind, text. */
void tool_run_say_event(struct buf *out, const struct json_value *event);
void tool_run_log_render(const struct json_value *reply, size_t max, struct buf *out);

/* tool_fit.c: the same replies, cut ------------------------------------------------------------ */

void tool_run_result_fit(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_list_fit(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_diff_fit(const struct json_value *reply, size_t max, struct buf *out);
void tool_run_log_fit(const struct json_value *reply, size_t max, struct buf *out);

#endif
