#include "ctl/print.h"

#include <time.h>

#include "common/mem.h"
#include "common/str.h"
#include "ctl/wording.h"

#define LINE_MAX_BYTES 100000
#define EVENT_TEXT_MAX (16u << 20)
#define OUTCOME_MAX 200 /* bytes */

static const char *text_of(const struct json_value *object, const char *name)
{
    const char *text = json_string(json_get(object, name));

    return text != NULL ? text : "";
}

static uint64_t number_of(const struct json_value *object, const char *name)
{
    return json_u64(json_get(object, name), 0);
}

void print_line(struct buf *out, const char *text, size_t max_bytes)
{
    str_append_escaped(out, text, strlen(text), max_bytes);
}

/* One line without its end; tabs stay. */
static void append_line(struct buf *out, const char *text, size_t len)
{
    while (len > 0) {
        const char *tab = memchr(text, '\t', len);
        size_t part = tab != NULL ? (size_t)(tab - text) : len;

        str_append_escaped(out, text, part, LINE_MAX_BYTES);
        if (tab == NULL)
            return;
        buf_append_char(out, '\t');
        text += part + 1;
        len -= part + 1;
    }
}

void print_text(struct buf *out, const char *text, const char *indent)
{
    size_t len = strlen(text);

    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end != NULL ? (size_t)(end - text) : len;
        size_t shown = line > 0 && text[line - 1] == '\r' ? line - 1 : line;

        append_line(out, text, shown);
        buf_append_char(out, '\n');
        text += line + (end != NULL);
        len -= line + (end != NULL);
        if (len > 0)
            buf_append_str(out, indent);
    }
}

void print_duration(struct buf *out, uint64_t milliseconds)
{
    unsigned long long s = milliseconds / 1000;

    if (s == 0)
        buf_printf(out, "%llu ms", (unsigned long long)milliseconds);
    else if (s < 60)
        buf_printf(out, "%llu s", s);
    else if (s < 3600)
        buf_printf(out, "%llu m %llu s", s / 60, s % 60);
    else if (s < 86400)
        buf_printf(out, "%llu h %llu m", s / 3600, s / 60 % 60);
    else
        buf_printf(out, "%llu d %llu h", s / 86400, s / 3600 % 24);
}

static void local_time(uint64_t wall_ms, struct tm *tm)
{
    time_t seconds = (time_t)(wall_ms / 1000);

    memset(tm, 0, sizeof(*tm));
    localtime_r(&seconds, tm);
}

void print_time_of_day(struct buf *out, uint64_t wall_ms)
{
    struct tm tm;
    char text[16];

    local_time(wall_ms, &tm);
    strftime(text, sizeof(text), "%H:%M:%S", &tm);
    buf_append_str(out, text);
}

static void append_date(struct buf *out, uint64_t wall_ms)
{
    struct tm tm;
    char text[16];

    local_time(wall_ms, &tm);
    strftime(text, sizeof(text), "%m-%d ", &tm);
    buf_append_str(out, text);
    print_time_of_day(out, wall_ms);
}

/* Tables
 * -----------------------------------------------------------------------------------------------------------
 */

#define STEPS_MAX 20
#define CELL_MAX 60 /* code points */

static char *make_cell(const char *text, size_t max)
{
    AUTO_BUF struct buf cell = BUF_INIT(8192);
    size_t at = 0;

    str_append_escaped(&cell, text, strlen(text), 4096);
    for (size_t points = 0; at < cell.len; points++) {
        size_t step = str_utf8_step(cell.data + at, cell.len - at, NULL);

        if (points + 1 == max && at + (step != 0 ? step : 1) < cell.len)
            return mem_printf("%.*s…", (int)at, cell.data);
        at += step != 0 ? step : 1;
    }
    return mem_strdup(buf_text(&cell));
}

void table_init(struct table *table, size_t columns, const char *const *heads)
{
    BUG_ON(columns == 0 || columns > TABLE_COLUMNS_MAX);
    memset(table, 0, sizeof(*table));
    table->columns = columns;
    table->max_width = CELL_MAX;
    table_add(table, heads);
}

void table_add(struct table *table, const char *const *cells)
{
    if (table->rows == table->cap) {
        size_t cap = table->cap != 0 ? table->cap * 2 : 16;
        char **grown = mem_new_zero(cap * table->columns, sizeof(*grown));

        if (table->rows != 0)
            memcpy(grown, table->cells, table->rows * table->columns * sizeof(*grown));
        free(table->cells);
        table->cells = grown;
        table->cap = cap;
    }
    for (size_t i = 0; i < table->columns; i++)
        table->cells[table->rows * table->columns + i] =
            make_cell(cells[i] != NULL ? cells[i] : "", table->max_width);
    table->rows++;
}

void table_print(const struct table *table, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = { 0 };

    for (size_t i = 0; i < table->rows * table->columns; i++) {
        size_t width = str_utf8_length(table->cells[i]);

        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
    for (size_t row = 0; row < table->rows; row++) {
        size_t owed = 0; /* spaces that only come when more text follows */

        for (size_t i = 0; i < table->columns; i++) {
            const char *cell = table->cells[row * table->columns + i];

            if (cell[0] != '\0') {
                buf_printf(out, "%*s%s", (int)owed, "", cell);
                owed = 0;
            }
            owed += widths[i] - str_utf8_length(cell) + 2;
        }
        buf_append_char(out, '\n');
    }
}

void table_finish(struct table *table)
{
    for (size_t i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
    memset(table, 0, sizeof(*table));
}

/* Views
 * ------------------------------------------------------------------------------------------------------------
 */

static void field(struct buf *out, const char *name, const char *value)
{
    if (value[0] == '\0')
        return;
    buf_printf(out, "%-12s", name);
    print_text(out, value, "            ");
}

static void append_age(struct buf *out, uint64_t then_ms, uint64_t now_ms)
{
    if (then_ms == 0)
        return;
    print_duration(out, now_ms > then_ms ? now_ms - then_ms : 0);
    buf_append_str(out, " ago");
}

static void print_count(struct buf *out, uint64_t count, const char *noun)
{
    buf_printf(out, "%llu %s%s", (unsigned long long)count, noun, count == 1 ? "" : "s");
}

static void print_warnings(struct buf *out, const struct json_value *evidence)
{
    for (const struct json_value *one = json_first(json_get(evidence, "warnings")); one != NULL;
         one = json_next(one)) {
        const char *text = json_string(one);

        buf_printf(out, "%-12s", "warning");
        print_line(out, text != NULL ? text : "", 1000);
        buf_append_char(out, '\n');
    }
}

static void print_changes(struct buf *out, const struct json_value *evidence)
{
    static const char *const remote[][2] = {
        { "same", ", pushed" },
        { "other", ", the remote has another commit there" },
        { "absent", ", not at the remote" },
    };

    if (!json_bool(json_get(evidence, "known"), false))
        return;
    buf_printf(out, "%-12s", "changes");
    print_count(out, number_of(evidence, "filesChanged"), "file");
    buf_printf(out, " (+%llu -%llu), ", (unsigned long long)number_of(evidence, "insertions"),
               (unsigned long long)number_of(evidence, "deletions"));
    print_count(out, number_of(evidence, "commits"), "commit");
    if (number_of(evidence, "untracked") != 0) {
        buf_append_str(out, ", ");
        print_count(out, number_of(evidence, "untracked"), "new file");
    }
    if (text_of(evidence, "branch")[0] != '\0') {
        buf_append_str(out, " on ");
        print_line(out, text_of(evidence, "branch"), 200);
    }
    for (size_t i = 0; i < ARRAY_LEN(remote); i++) {
        if (str_equal(remote[i][0], text_of(evidence, "remoteState")))
            buf_append_str(out, remote[i][1]);
    }
    buf_append_char(out, '\n');
}

static void print_budget(struct buf *out, const struct json_value *budget)
{
    double limit = json_number(json_get(budget, "limitUsd"), 0);

    if (number_of(budget, "tokenLimit") > 0)
        buf_printf(out, "%-12s%llu of %llu tokens\n", "budget",
                   (unsigned long long)number_of(budget, "tokens"),
                   (unsigned long long)number_of(budget, "tokenLimit"));
    if (limit > 0)
        buf_printf(out, "%-12s$%.4f of $%.2f\n", "budget",
                   json_number(json_get(budget, "costUsd"), 0), limit);
}

static void print_usage(struct buf *out, const struct json_value *usage)
{
    double cost = json_number(json_get(usage, "costUsd"), 0);

    if (number_of(usage, "inputTokens") == 0 && number_of(usage, "outputTokens") == 0)
        return;
    buf_printf(out, "%-12s%llu requests, %llu tokens in, %llu out", "model use",
               (unsigned long long)number_of(usage, "requests"),
               (unsigned long long)number_of(usage, "inputTokens"),
               (unsigned long long)number_of(usage, "outputTokens"));
    if (cost > 0)
        buf_printf(out, ", $%.4f", cost);
    buf_append_char(out, '\n');
}

static void print_error(struct buf *out, const struct json_value *error)
{
    AUTO_BUF struct buf message = BUF_INIT(1u << 20);
    AUTO_BUF struct buf hint = BUF_INIT(1u << 20);

    if (json_kind(error) != JSON_KIND_OBJECT)
        return;
    buf_printf(out, "%-12s", "error");
    print_line(out, text_of(error, "code"), 100);
    if (text_of(error, "phase")[0] != '\0') {
        buf_append_str(out, " in phase ");
        print_line(out, text_of(error, "phase"), 100);
    }
    buf_append_str(out, ": ");
    wording_append(&message, text_of(error, "message"));
    wording_append(&hint, text_of(error, "hint"));
    print_text(out, message.len > 0 ? buf_text(&message) : "no message", "            ");
    field(out, "hint", buf_text(&hint));
}

void print_result(struct buf *out, const struct json_value *run)
{
    const struct json_value *result = json_get(run, "result");
    const char *output = text_of(result, "output");

    print_error(out, json_get(result, "error"));
    print_changes(out, json_get(run, "evidence"));
    print_warnings(out, json_get(run, "evidence"));
    print_usage(out, json_get(run, "usage"));
    print_budget(out, json_get(json_get(run, "usage"), "budget"));
    if (output[0] != '\0') {
        buf_append_char(out, '\n');
        print_text(out, output, "");
    }
}

void print_how_to_answer(struct buf *out, const char *run_id, const struct json_value *request)
{
    const char *before = "  (";

    buf_append_str(out, "sandboxctl answer ");
    print_line(out, run_id, 100);
    if (text_of(request, "requestId")[0] != '\0')
        buf_append_char(out, ' ');
    print_line(out, text_of(request, "requestId"), 100);
    buf_append_str(out, " ANSWER");
    for (const struct json_value *at = json_first(json_get(request, "options")); at != NULL;
         at = json_next(at)) {
        const char *choice = json_string(at);

        buf_append_str(out, before);
        print_line(out, choice != NULL ? choice : "", 200);
        before = ", ";
    }
    if (before[0] == ',')
        buf_append_char(out, ')');
}

void print_request(struct buf *out, const struct json_value *run, uint64_t now_ms)
{
    const struct json_value *request = json_get(run, "request");
    uint64_t until = number_of(request, "answerBy");
    AUTO_BUF struct buf asked = BUF_INIT(100);

    if (json_kind(request) != JSON_KIND_OBJECT)
        return;
    field(out, "asks", text_of(request, "text"));
    append_age(&asked, number_of(request, "askedAt"), now_ms);
    if (until > now_ms) {
        buf_append_str(&asked, ", waits for another ");
        print_duration(&asked, until - now_ms);
    }
    field(out, "asked", buf_text(&asked));
    buf_printf(out, "%-12s", "answer");
    print_how_to_answer(out, text_of(run, "runId"), request);
    buf_append_char(out, '\n');
}

/* They come newest first; on a terminal the newest is read last. */
static void print_steps(struct buf *out, const struct json_value *steps)
{
    const struct json_value *ordered[STEPS_MAX];
    size_t count = 0;

    for (const struct json_value *step = json_first(steps); step != NULL && count < STEPS_MAX;
         step = json_next(step))
        ordered[count++] = step;
    if (count > 0)
        buf_append_char(out, '\n');
    while (count > 0)
        print_event(out, ordered[--count]);
}

static bool is_over(const struct json_value *run)
{
    return json_kind(json_get(run, "result")) == JSON_KIND_OBJECT;
}

static void print_status_of_run(struct buf *out, const struct json_value *run, uint64_t now_ms)
{
    uint64_t from = number_of(run, "startedAt");
    uint64_t to = number_of(run, "completedAt");

    buf_printf(out, "%-12s", "status");
    print_line(out, text_of(run, "status"), 40);
    if (!is_over(run)) {
        buf_append_str(out, ", phase ");
        print_line(out, text_of(run, "phase"), 40);
        to = now_ms;
    } else if (text_of(run, "verdict")[0] != '\0') {
        buf_append_str(out, ", verdict ");
        print_line(out, text_of(run, "verdict"), 40);
    }
    if (from != 0 && to > from) {
        buf_append_str(out, ", ");
        print_duration(out, to - from);
    }
    buf_append_char(out, '\n');
}

void print_run(struct buf *out, const struct json_value *run, uint64_t now_ms)
{
    AUTO_BUF struct buf created = BUF_INIT(100);

    append_age(&created, number_of(run, "createdAt"), now_ms);
    field(out, "run", text_of(run, "runId"));
    field(out, "session", text_of(run, "sessionId"));
    field(out, "title", text_of(run, "title"));
    print_status_of_run(out, run, now_ms);
    field(out, "created", buf_text(&created));
    field(out, "repository", text_of(run, "repository"));
    field(out, "branch", text_of(run, "branch"));
    field(out, "model", text_of(run, "model"));
    field(out, "web", text_of(run, "webUiUrl"));
    print_request(out, run, now_ms);
    if (is_over(run))
        print_result(out, run);
    else
        print_steps(out, json_get(run, "steps"));
}

/* "project" of "https://host/me/project": enough to know it again in a table. */
static const char *last_part(const char *repository)
{
    const char *slash = strrchr(repository, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : repository;
}

void print_runs(struct buf *out, const struct json_value *list, uint64_t now_ms)
{
    static const char *const heads[] = {
        "RUN", "STATUS", "CREATED", "TOOK", "REPOSITORY", "TITLE"
    };
    struct table table;

    if (json_count(json_get(list, "runs")) == 0) {
        buf_append_str(out, "no runs\n");
        return;
    }
    table_init(&table, ARRAY_LEN(heads), heads);
    for (const struct json_value *run = json_first(json_get(list, "runs")); run != NULL;
         run = json_next(run)) {
        AUTO_BUF struct buf age = BUF_INIT(100);
        AUTO_BUF struct buf took = BUF_INIT(100);
        AUTO_BUF struct buf status = BUF_INIT(200);
        uint64_t waits = number_of(run, "waitingSince");
        uint64_t started = number_of(run, "startedAt");
        uint64_t end = number_of(run, "completedAt") != 0 ? number_of(run, "completedAt") : now_ms;
        const char *title =
            text_of(run, "title")[0] != '\0' ? text_of(run, "title") : text_of(run, "task");

        append_age(&age, number_of(run, "createdAt"), now_ms);
        buf_append_str(&status, text_of(run, "status"));
        if (waits != 0 && now_ms > waits) {
            buf_append_char(&status, ' ');
            print_duration(&status, now_ms - waits);
        }
        if (started != 0 && end >= started)
            print_duration(&took, end - started);
        const char *cells[] = { text_of(run, "runId"),
                                buf_text(&status),
                                buf_text(&age),
                                buf_text(&took),
                                last_part(text_of(run, "repository")),
                                title };
        table_add(&table, cells);
    }
    table_print(&table, out);
    table_finish(&table);
    if (json_bool(json_get(list, "hasMore"), false)) {
        buf_append_str(out, "more: --before ");
        print_line(out, text_of(list, "cursor"), 100);
        buf_append_char(out, '\n');
    }
}

/* A tool that failed must not read like one that worked. */
static void print_outcome(struct buf *out, const struct json_value *data)
{
    bool failed = str_equal(text_of(data, "status"), "error");
    const char *error = text_of(data, "error");

    if (number_of(data, "exit") != 0)
        buf_printf(out, "  [exit %llu]", (unsigned long long)number_of(data, "exit"));
    else if (failed)
        buf_append_str(out, error[0] != '\0' ? "  [failed: " : "  [failed]");
    if (!failed || number_of(data, "exit") != 0 || error[0] == '\0')
        return;
    str_append_escaped(out, error, strcspn(error, "\n"), OUTCOME_MAX);
    buf_append_char(out, ']');
}

void print_event(struct buf *out, const struct json_value *event)
{
    AUTO_BUF struct buf text = BUF_INIT(EVENT_TEXT_MAX);

    buf_append_str(&text, text_of(event, "text"));
    print_outcome(&text, json_get(event, "data"));
    print_time_of_day(out, number_of(event, "time"));
    buf_append_char(out, ' ');
    print_line(out, text_of(event, "kind"), 20);
    for (size_t pad = strlen(text_of(event, "kind")); pad < 11; pad++)
        buf_append_char(out, ' ');
    if (text.len == 0)
        buf_append_char(out, '\n');
    print_text(out, buf_text(&text), "                    ");
}

static void append_bytes(struct buf *out, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double size = (double)bytes;
    size_t unit = 0;

    for (; size >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
        size /= 1024;
    buf_printf(out, unit == 0 || size >= 100 ? "%.0f %s" : "%.1f %s", size, units[unit]);
}

static void print_checkpoints(struct buf *out, const struct json_value *session, uint64_t now_ms)
{
    static const char *const heads[] = { "CHECKPOINT", "MADE", "WHY", "SIZE", "FILES", "RUN" };
    struct table table;

    if (json_count(json_get(session, "checkpoints")) == 0)
        return;
    table_init(&table, ARRAY_LEN(heads), heads);
    for (const struct json_value *at = json_first(json_get(session, "checkpoints")); at != NULL;
         at = json_next(at)) {
        AUTO_BUF struct buf age = BUF_INIT(100);
        AUTO_BUF struct buf size = BUF_INIT(100);
        char number[24];
        char files[24];

        append_age(&age, number_of(at, "time"), now_ms);
        append_bytes(&size, number_of(at, "bytes"));
        snprintf(number, sizeof(number), "%llu", (unsigned long long)number_of(at, "checkpoint"));
        snprintf(files, sizeof(files), "%llu", (unsigned long long)number_of(at, "files"));
        const char *cells[] = { number,          buf_text(&age), text_of(at, "reason"),
                                buf_text(&size), files,          text_of(at, "runId") };
        table_add(&table, cells);
    }
    table_print(&table, out);
    table_finish(&table);
}

void print_session(struct buf *out, const struct json_value *session, uint64_t now_ms)
{
    AUTO_BUF struct buf text = BUF_INIT(200);

    field(out, "session", text_of(session, "sessionId"));
    field(out, "title", text_of(session, "title"));
    field(out, "repository", text_of(session, "repository"));
    field(out, "branch", text_of(session, "branch"));
    append_age(&text, number_of(session, "updatedAt"), now_ms);
    field(out, "used", buf_text(&text));
    field(out, "state", text_of(session, "state"));
    field(out, "on hold", json_bool(json_get(session, "held"), false) ? "yes" : "");
    field(out, "fork of", text_of(session, "forkedFrom"));
    buf_clear(&text);
    append_bytes(&text, number_of(session, "fileBytes"));
    buf_append_str(&text, ", checkpoints ");
    append_bytes(&text, number_of(session, "checkpointBytes"));
    field(out, "disk", buf_text(&text));
    print_checkpoints(out, session, now_ms);
}

static void add_retained(struct table *table, const struct json_value *one, bool dry_run,
                         uint64_t now_ms)
{
    AUTO_BUF struct buf age = BUF_INIT(100);
    AUTO_BUF struct buf size = BUF_INIT(100);
    bool mirror = json_get(one, "sessionId") == NULL;
    bool removed = json_bool(json_get(one, "removed"), false);

    append_age(&age, number_of(one, "updatedAt"), now_ms);
    append_bytes(&size, number_of(one, "bytes"));
    const char *cells[] = { mirror ? "(mirror)" : text_of(one, "sessionId"),
                            buf_text(&age),
                            buf_text(&size),
                            text_of(one, "reason"),
                            dry_run   ? "would go"
                            : removed ? "yes"
                                      : "no",
                            text_of(one, mirror ? "repository" : "title") };
    table_add(table, cells);
}

void print_retained(struct buf *out, const struct json_value *reply, uint64_t now_ms)
{
    static const char *const heads[] = { "SESSION", "USED", "SIZE", "FOR ITS", "GONE", "TITLE" };
    static const char *const lists[] = { "sessions", "mirrors" };
    bool dry_run = json_bool(json_get(reply, "dryRun"), false);
    struct table table;

    if (json_count(json_get(reply, "sessions")) + json_count(json_get(reply, "mirrors")) == 0) {
        buf_append_str(out, "nothing to delete\n");
        return;
    }
    table_init(&table, ARRAY_LEN(heads), heads);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (const struct json_value *at = json_first(json_get(reply, lists[i])); at != NULL;
             at = json_next(at))
            add_retained(&table, at, dry_run, now_ms);
    }
    table_print(&table, out);
    table_finish(&table);
}

void print_sessions(struct buf *out, const struct json_value *list, uint64_t now_ms)
{
    static const char *const heads[] = { "SESSION", "RUNS", "USED", "DISK", "REPOSITORY", "TITLE" };
    struct table table;

    if (json_count(json_get(list, "sessions")) == 0) {
        buf_append_str(out, "no sessions\n");
        return;
    }
    table_init(&table, ARRAY_LEN(heads), heads);
    for (const struct json_value *at = json_first(json_get(list, "sessions")); at != NULL;
         at = json_next(at)) {
        AUTO_BUF struct buf age = BUF_INIT(100);
        AUTO_BUF struct buf disk = BUF_INIT(100);
        char runs[24];

        append_age(&age, number_of(at, "updatedAt"), now_ms);
        snprintf(runs, sizeof(runs), "%llu", (unsigned long long)number_of(at, "runs"));
        append_bytes(&disk, number_of(at, "fileBytes") + number_of(at, "checkpointBytes"));
        const char *cells[] = { text_of(at, "sessionId"),
                                runs,
                                buf_text(&age),
                                buf_text(&disk),
                                text_of(at, "repository"),
                                text_of(at, "title") };
        table_add(&table, cells);
    }
    table_print(&table, out);
    table_finish(&table);
    if (json_bool(json_get(list, "hasMore"), false)) {
        buf_append_str(out, "more: --before ");
        print_line(out, text_of(list, "cursor"), 100);
        buf_append_char(out, '\n');
    }
}

void print_services(struct buf *out, const struct json_value *list)
{
    static const char *const heads[] = { "SERVICE", "TARGET", "SECRET", "" };
    struct table table;

    table_init(&table, ARRAY_LEN(heads), heads);
    for (const struct json_value *at = json_first(json_get(list, "services")); at != NULL;
         at = json_next(at)) {
        const char *secret = text_of(at, "secret");
        const char *state = secret[0] == '\0'                                 ? ""
                            : json_bool(json_get(at, "secretPresent"), false) ? "present"
                                                                              : "missing";
        const char *cells[] = { text_of(at, "name"), text_of(at, "target"),
                                secret[0] != '\0' ? secret : "none needed", state };

        table_add(&table, cells);
    }
    table_print(&table, out);
    table_finish(&table);
}

void print_secrets(struct buf *out, const struct json_value *list, uint64_t now_ms)
{
    static const char *const heads[] = { "NAME", "SOURCE", "CHANGED" };
    struct table table;

    if (json_count(json_get(list, "secrets")) == 0) {
        buf_append_str(out, "no secrets; add one with: sandboxctl secret set NAME\n");
        return;
    }
    table_init(&table, ARRAY_LEN(heads), heads);
    for (const struct json_value *at = json_first(json_get(list, "secrets")); at != NULL;
         at = json_next(at)) {
        AUTO_BUF struct buf age = BUF_INIT(100);

        append_age(&age, number_of(at, "updatedAt"), now_ms);
        const char *cells[] = { text_of(at, "name"), text_of(at, "source"), buf_text(&age) };
        table_add(&table, cells);
    }
    table_print(&table, out);
    table_finish(&table);
}

/* A record's cells: of a table, or of a line among lines that are not known yet. */
#define AUDIT_COLUMNS 9
struct audit_cells {
    struct buf time;
    char status[24];
    char took[24];
    char tokens[24];
    char *request;
    const char *all[AUDIT_COLUMNS];
};

static void audit_cells_init(struct audit_cells *cells, const struct json_value *record)
{
    buf_init(&cells->time, 100);
    append_date(&cells->time, number_of(record, "time"));
    snprintf(cells->status, sizeof(cells->status), "%llu",
             (unsigned long long)number_of(record, "status"));
    snprintf(cells->took, sizeof(cells->took), "%llu",
             (unsigned long long)number_of(record, "milliseconds"));
    cells->tokens[0] = '\0';
    if (json_get(record, "inputTokens") != NULL || json_get(record, "outputTokens") != NULL)
        snprintf(cells->tokens, sizeof(cells->tokens), "%llu",
                 (unsigned long long)(number_of(record, "inputTokens") +
                                      number_of(record, "outputTokens")));
    cells->request = mem_printf(
        "%s %s%s%s%s", text_of(record, "method"), text_of(record, "host"), text_of(record, "path"),
        json_get(record, "detail") != NULL ? ": " : "", text_of(record, "detail"));
    const char *const all[AUDIT_COLUMNS] = { buf_text(&cells->time),
                                             text_of(record, "runId"),
                                             text_of(record, "verdict"),
                                             text_of(record, "reason"),
                                             text_of(record, "service"),
                                             cells->status,
                                             cells->took,
                                             cells->tokens,
                                             cells->request };

    memcpy(cells->all, all, sizeof(all));
}

static void audit_cells_finish(struct audit_cells *cells)
{
    buf_finish(&cells->time);
    free(cells->request);
}

void print_audit(struct buf *out, const struct json_value *list)
{
    static const char *const heads[AUDIT_COLUMNS] = { "TIME",   "RUN",     "VERDICT",
                                                      "REASON", "SERVICE", "STATUS",
                                                      "MS",     "TOKENS",  "REQUEST" };
    struct table table;

    if (json_count(json_get(list, "records")) == 0) {
        buf_append_str(out, "no records\n");
        return;
    }
    table_init(&table, AUDIT_COLUMNS, heads);
    for (const struct json_value *at = json_first(json_get(list, "records")); at != NULL;
         at = json_next(at)) {
        struct audit_cells cells;

        audit_cells_init(&cells, at);
        table_add(&table, cells.all);
        audit_cells_finish(&cells);
    }
    table_print(&table, out);
    table_finish(&table);
    if (json_bool(json_get(list, "hasMore"), false))
        buf_printf(out, "more: --before %llu\n", (unsigned long long)number_of(list, "cursor"));
}

void print_audit_record(struct buf *out, const struct json_value *record)
{
    /* As wide as what usually stands there. */
    static const int widths[AUDIT_COLUMNS] = { 16, 30, 7, 20, 10, 3, 6, 7, 0 };
    struct audit_cells cells;

    audit_cells_init(&cells, record);
    for (size_t i = 0; i < AUDIT_COLUMNS; i++) {
        AUTO_BUF struct buf cell = BUF_INIT(8192);

        print_line(&cell, cells.all[i], 2000);
        buf_printf(out, "%s%-*s", i > 0 ? "  " : "", widths[i], buf_text(&cell));
    }
    buf_append_char(out, '\n');
    audit_cells_finish(&cells);
}

static void print_counts(struct buf *out, const struct json_value *runs)
{
    const char *comma = "";

    for (const struct json_value *count = json_first(runs); count != NULL;
         count = json_next(count)) {
        if (json_u64(count, 0) == 0)
            continue;
        buf_printf(out, "%s%llu ", comma, (unsigned long long)json_u64(count, 0));
        print_line(out, json_name(count), 40);
        comma = ", ";
    }
    buf_append_str(out, comma[0] == '\0' ? "none\n" : "\n");
}

void print_status(struct buf *out, const struct json_value *status)
{
    buf_printf(out, "%-12s", "supervisor");
    print_line(out, text_of(status, "version"), 100);
    buf_printf(out, ", pid %llu, up ", (unsigned long long)number_of(status, "pid"));
    print_duration(out, number_of(status, "uptimeSeconds") * 1000);
    buf_append_char(out, '\n');
    field(out, "socket", text_of(status, "socket"));
    field(out, "state", text_of(status, "state"));
    field(out, "web", text_of(status, "webUrl"));
    buf_printf(out, "%-12s", "runs");
    print_counts(out, json_get(status, "runs"));
    buf_printf(out, "%-12s%llu\n", "sessions", (unsigned long long)number_of(status, "sessions"));
    buf_printf(out, "%-12s%llu\n", "connections",
               (unsigned long long)number_of(status, "connections"));
}

void print_diff_files(struct buf *out, const struct json_value *diff)
{
    static const char *const heads[] = { "STATUS", "ADDED", "REMOVED", "FILE" };
    struct table table;

    if (json_count(json_get(diff, "files")) == 0) {
        buf_append_str(out, "no changes\n");
        return;
    }
    table_init(&table, ARRAY_LEN(heads), heads);
    table.max_width = 200;
    for (const struct json_value *at = json_first(json_get(diff, "files")); at != NULL;
         at = json_next(at)) {
        char added[24];
        char removed[24];

        snprintf(added, sizeof(added), "+%llu", (unsigned long long)number_of(at, "insertions"));
        snprintf(removed, sizeof(removed), "-%llu", (unsigned long long)number_of(at, "deletions"));
        const char *cells[] = { text_of(at, "status"), added, removed, text_of(at, "path") };
        table_add(&table, cells);
    }
    table_print(&table, out);
    table_finish(&table);
}
