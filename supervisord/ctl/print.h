/* print.h: what people see. All text that comes from the daemon may hold an agent's bytes, so it is
 * escaped on its way to a terminal. */
#ifndef CTL_PRINT_H
#define CTL_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/json.h"

/* Appends one escaped line of at most MAX_BYTES. */
void print_line(struct buf *out, const char *text, size_t max_bytes);
/* Appends text of several lines: each is escaped, tabs and line ends stay; lines behind the first
 * begin with INDENT. */
void print_text(struct buf *out, const char *text, const char *indent);
/* "850 ms", "12 s", "3 m 12 s", "2 h 5 m", "3 d 4 h". */
void print_duration(struct buf *out, uint64_t milliseconds);
void print_time_of_day(struct buf *out, uint64_t wall_ms); /* local, hh:mm:ss */

/* Columns as wide as their widest cell, two spaces between, no trailing space. */
#define TABLE_COLUMNS_MAX 10
struct table {
    size_t columns;
    size_t rows;
    size_t cap;
    char **cells;     /* rows * columns, escaped, ours */
    size_t max_width; /* of one cell, in code points; 0: 60 */
};
void table_init(struct table *table, size_t columns, const char *const *heads);
void table_add(struct table *table, const char *const *cells);
void table_print(const struct table *table, struct buf *out);
void table_finish(struct table *table);

/* Views: the daemon's JSON as text. NOW_MS is the wall clock. */
void print_run(struct buf *out, const struct json_value *run, uint64_t now_ms);
/* The part that matters at the end: outcome, answer, changes, error with hint. */
void print_result(struct buf *out, const struct json_value *run);
/* How REQUEST, one that is open in RUN_ID, is answered, on one line with its choices. */
void print_how_to_answer(struct buf *out, const char *run_id, const struct json_value *request);
/* What is asked now, if anything is, and how it is answered. */
void print_request(struct buf *out, const struct json_value *run, uint64_t now_ms);
void print_runs(struct buf *out, const struct json_value *list, uint64_t now_ms);
void print_event(struct buf *out, const struct json_value *event);
void print_session(struct buf *out, const struct json_value *session, uint64_t now_ms);
void print_retained(struct buf *out, const struct json_value *reply, uint64_t now_ms);
void print_sessions(struct buf *out, const struct json_value *list, uint64_t now_ms);
void print_services(struct buf *out, const struct json_value *list);
void print_secrets(struct buf *out, const struct json_value *list, uint64_t now_ms);
void print_audit(struct buf *out, const struct json_value *list);
void print_audit_record(struct buf *out, const struct json_value *record); /* one line */
void print_status(struct buf *out, const struct json_value *status);
void print_diff_files(struct buf *out, const struct json_value *diff);

#endif
