/* task.h: how a run reads as a task of the protocol: its status, its members and its result. Pure.
 */
#ifndef MCP_STDIO_TASK_H
#define MCP_STDIO_TASK_H

#include <stdbool.h>

#include "common/json.h"
#include "common/json_write.h"
#include "mcp-stdio/era.h"

enum task_status { TASK_WORKING, TASK_INPUT_REQUIRED, TASK_COMPLETED, TASK_FAILED, TASK_CANCELLED };

/* VIEW is a run's, whole or as in a list. */
enum task_status task_status_of(const struct json_value *view);
bool task_is_final(enum task_status status);
/* Members of a task with STATUS; the names of two of them differ between the eras. */
void task_write(struct json_writer *writer, const struct json_value *view, const struct era *era,
                enum task_status status);
/* Members of the result that the call would have had, had it waited. */
void task_write_result(struct json_writer *writer, const struct json_value *view);
/* Members of a modern task, with what its status brings along. */
void task_write_detailed(struct json_writer *writer, const struct json_value *view);

#endif
