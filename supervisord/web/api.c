/* api.c: what pages ask for, in the words of the socket's own replies. */
#include "web/internal.h"

#define BODY_MAX (16u << 20)
#define DIFF_SHOWN_MAX (1u << 20)
#define LIST_MAX 100

/* Runs
 * -------------------------------------------------------------------------------------------------------------
 */

/* Whether the agent shows pages of its own now. */
static bool has_agent_pages(struct web *web, const struct run_record *run)
{
    AUTO_BUF struct buf path = BUF_INIT(4096);
    struct error none = ERROR_INIT;

    return web->local && !run_ended(run) &&
           run_pages_path(web->runs, &run->session, &path, &none) == 0;
}

void api_write_run(struct json_writer *writer, struct web *web, const struct run_record *run)
{
    AUTO_BUF struct buf message = BUF_INIT(16u << 10);
    uint64_t now = clock_wall_ms(web->clock);
    struct view_context context;
    struct run_view view;

    view_context_fill(&context, web->runs, run, now, "");
    view_fill(&view, run, &context, &message);
    json_write_object(writer);
    json_member_u64(writer, "now", now);
    json_member_bool(writer, "ended", run_ended(run));
    json_member_bool(writer, "agentPages", has_agent_pages(web, run));
    json_member_string_opt(writer, "step", context.current_step);
    json_write_name(writer, "run");
    run_view_write(writer, &view, NULL, 0);
    json_write_object_end(writer);
}

/* What it asks, in short. */
static void write_question(struct json_writer *writer, const char *request)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    const char *words;

    if (request == NULL || json_parse(&doc, request, strlen(request), 1u << 20, &err) < 0)
        return;
    words = json_string(json_get(json_root(doc), "text"));
    if (words == NULL)
        return;
    view_excerpt(&text, words, 300);
    json_member_string(writer, "question", buf_text(&text));
}

/* Some agents tell nothing of it; then it is what the proxy has counted. */
static void write_use(struct json_writer *writer, const struct run_usage_record *usage,
                      const struct view_context *context)
{
    uint64_t tokens = usage->input_tokens + usage->output_tokens;
    uint64_t cost = usage->cost_microdollars;

    json_member_double(writer, "costUsd",
                       (double)(cost > 0 ? cost : usage->counted_microdollars) / 1e6);
    json_member_u64(writer, "tokens", tokens > 0 ? tokens : usage->counted_tokens);
    if (context->model_tokens > 0)
        json_member_double(writer, "tokensUsed",
                           (double)usage->counted_tokens / (double)context->model_tokens);
    if (context->model_microdollars > 0)
        json_member_double(writer, "moneyUsed",
                           (double)usage->counted_microdollars /
                               (double)context->model_microdollars);
}

void api_write_item(struct json_writer *writer, struct web *web, const struct run_record *run)
{
    struct view_context context;

    view_context_fill(&context, web->runs, run, clock_wall_ms(web->clock), "");
    json_write_object(writer);
    json_write_name(writer, "run");
    view_run_item(writer, run, &context);
    json_member_string_opt(writer, "agent", run->agent);
    json_member_string_opt(writer, "model", run->model);
    write_use(writer, &run->usage, &context);
    json_member_string_opt(writer, "step", context.current_step);
    write_question(writer, context.open_request);
    json_member_string_opt(writer, "error", run->error.message);
    if (run->evidence.known) {
        json_member_u64(writer, "filesChanged", run->evidence.files_changed);
        json_member_u64(writer, "insertions", run->evidence.insertions);
        json_member_u64(writer, "deletions", run->evidence.deletions);
    }
    json_write_object_end(writer);
}

void api_run(const struct call *call)
{
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct json_writer writer;

    json_write_init(&writer, &body);
    api_write_run(&writer, call->conn->web, call->run);
    web_respond_json(call->conn->http, 200, &body);
}

struct page {
    struct web *web;
    struct json_writer writer;
    size_t left;
    struct id cursor;
    uint64_t number;
    bool more;
};

static bool take_place(struct page *page)
{
    page->more = page->left == 0;
    page->left -= !page->more;
    return !page->more;
}

static bool write_item(void *data, const struct run_record *run)
{
    struct page *page = data;

    if (!take_place(page))
        return false;
    page->cursor = run->id;
    api_write_item(&page->writer, page->web, run);
    return true;
}

static size_t read_limit(const char *target)
{
    char text[8];
    uint64_t limit;

    if (query_value(target, "limit", text, sizeof(text)) && str_parse_u64(text, LIST_MAX, &limit) &&
        limit > 0)
        return (size_t)limit;
    return 50;
}

/* "failed-interrupted": the names of statuses with - between them. */
static int read_states(const char *target, uint64_t *states, struct error *err)
{
    char text[128];
    const char *at = text;

    if (!query_value(target, "status", text, sizeof(text)) || text[0] == '\0')
        return 0;
    for (;;) {
        size_t len = strcspn(at, "-");
        int status = 0;

        while (run_status_names[status] != NULL && (strlen(run_status_names[status]) != len ||
                                                    memcmp(run_status_names[status], at, len) != 0))
            status++;
        if (run_status_names[status] == NULL)
            return error_argument(err, "status", "not known");
        *states |= view_states_of_status(status);
        if (at[len] == '\0')
            return 0;
        at += len + 1;
    }
}

static int read_filter(const struct call *call, struct store_run_filter *filter, struct id *session,
                       struct id *before, struct error *err)
{
    char text[ID_SIZE];

    if (read_states(call->target, &filter->states, err) < 0)
        return -1;
    if (query_value(call->target, "session", text, sizeof(text))) {
        if (!id_parse(ID_KIND_SESSION, text, session))
            return error_argument(err, "session", "not a session's id");
        filter->session = session;
    }
    if (query_value(call->target, "before", text, sizeof(text))) {
        if (!id_parse(ID_KIND_RUN, text, before))
            return error_argument(err, "before", "not a run's id");
        filter->before = before;
    }
    return 0;
}

static int write_runs(struct page *page, struct store_run_filter *filter, struct error *err)
{
    filter->limit = page->left + 1;
    json_write_name(&page->writer, "runs");
    json_write_array(&page->writer);
    if (store_run_each(page->web->store, filter, write_item, page, err) < 0)
        return -1;
    json_write_array_end(&page->writer);
    json_member_bool(&page->writer, "hasMore", page->more);
    json_member_string(&page->writer, "cursor", page->cursor.text);
    return 0;
}

static void write_counts(struct json_writer *writer, const uint64_t counts[RUN_STATUS_COUNT])
{
    json_write_name(writer, "counts");
    json_write_object(writer);
    for (int status = 0; status < RUN_STATUS_COUNT; status++)
        json_member_u64(writer, run_status_names[status], counts[status]);
    json_write_object_end(writer);
}

/* {"runs","hasMore","cursor","counts","feed","now"}: the board, and where its stream goes on. */
void api_runs(const struct call *call)
{
    struct web *web = call->conn->web;
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct page page = { .web = web, .left = read_limit(call->target) };
    struct store_run_filter filter = { .limit = 0 };
    uint64_t counts[RUN_STATUS_COUNT] = { 0 };
    char feed[FEED_CURSOR_SIZE];
    struct error err = ERROR_INIT;
    struct id session;
    struct id before;

    json_write_init(&page.writer, &body);
    json_write_object(&page.writer);
    if (read_filter(call, &filter, &session, &before, &err) < 0 ||
        view_counts(web->store, counts, &err) < 0 || write_runs(&page, &filter, &err) < 0) {
        web_respond_failure(call->conn->http, &err);
        return;
    }
    write_counts(&page.writer, counts);
    feed_cursor(&web->feed, web->feed.number, feed);
    json_member_string(&page.writer, "feed", feed);
    json_member_u64(&page.writer, "now", clock_wall_ms(web->clock));
    json_write_object_end(&page.writer);
    web_respond_json(call->conn->http, 200, &body);
}

/* Diffs
 * -------------------------------------------------------------------------------------------------------------
 */

/* The diff of the run, or of the session's newest run that has ended, which goes to NEWEST. NULL
 * when the call was answered. */
static const struct run_record *load_diff(const struct call *call, struct run_record *newest,
                                          struct buf *diff)
{
    struct store *store = call->conn->web->store;
    const struct run_record *run = call->run != NULL ? call->run : newest;
    struct error err = ERROR_INIT;

    if ((call->run == NULL && view_newest_ended(store, call->session, newest, &err) < 0) ||
        view_diff_load(store, run, diff, &err) < 0) {
        web_respond_failure(call->conn->http, &err);
        return NULL;
    }
    return run;
}

void api_diff(const struct call *call)
{
    AUTO_BUF struct buf diff = BUF_INIT(STORE_DIFF_MAX);
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    const struct run_record *run;
    struct run_record newest;

    run_record_init(&newest);
    run = load_diff(call, &newest, &diff);
    if (run != NULL) {
        view_diff(&body, run, &diff, NULL, DIFF_SHOWN_MAX);
        web_respond_json(call->conn->http, 200, &body);
    }
    run_record_finish(&newest);
}

void api_patch(const struct call *call)
{
    AUTO_BUF struct buf diff = BUF_INIT(STORE_DIFF_MAX);
    const struct run_record *run;
    struct http_headers headers;
    struct run_record newest;

    run_record_init(&newest);
    run = load_diff(call, &newest, &diff);
    if (run != NULL) {
        AUTO_FREE
        char *place = mem_printf("attachment; filename=\"%s.patch\"", run->id.text);

        http_headers_init(&headers);
        web_headers(&headers, "text/plain; charset=utf-8");
        http_headers_add(&headers, "Content-Disposition", place);
        http_conn_respond(call->conn->http, 200, &headers, buf_text(&diff), diff.len);
        http_headers_finish(&headers);
    }
    run_record_finish(&newest);
}

/* Audit
 * -------------------------------------------------------------------------------------------------------------
 */

static bool write_audit(void *data, const struct audit_record *audit)
{
    struct page *page = data;

    if (!take_place(page))
        return false;
    page->number = audit->number;
    view_audit(&page->writer, audit);
    return true;
}

/* {"records","hasMore","cursor"}: of the run, or of all. */
void api_audit(const struct call *call)
{
    struct web *web = call->conn->web;
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct page page = { .web = web, .left = read_limit(call->target) };
    struct error err = ERROR_INIT;
    uint64_t before = 0;
    char text[24];

    if (query_value(call->target, "before", text, sizeof(text)) &&
        !str_parse_u64(text, UINT64_C(1) << 53, &before)) {
        error_argument(&err, "before", "not a number");
        web_respond_failure(call->conn->http, &err);
        return;
    }
    json_write_init(&page.writer, &body);
    json_write_object(&page.writer);
    json_write_name(&page.writer, "records");
    json_write_array(&page.writer);
    if (store_audit_each(web->store, call->run != NULL ? &call->run->id : NULL, before,
                         page.left + 1, write_audit, &page, &err) < 0) {
        web_respond_failure(call->conn->http, &err);
        return;
    }
    json_write_array_end(&page.writer);
    json_member_bool(&page.writer, "hasMore", page.more);
    json_member_u64(&page.writer, "cursor", page.number);
    json_write_object_end(&page.writer);
    web_respond_json(call->conn->http, 200, &body);
}

/* Sessions
 * ----------------------------------------------------------------------------------------------------------
 */

static bool write_session(void *data, const struct session_record *session)
{
    struct page *page = data;

    if (!take_place(page))
        return false;
    page->cursor = session->id;
    view_session(&page->writer, page->web->runs, session);
    return true;
}

void api_sessions(const struct call *call)
{
    struct web *web = call->conn->web;
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct page page = { .web = web, .left = read_limit(call->target) };
    struct error err = ERROR_INIT;
    char text[ID_SIZE];
    struct id before;
    bool has_before = query_value(call->target, "before", text, sizeof(text)) &&
                      id_parse(ID_KIND_SESSION, text, &before);

    json_write_init(&page.writer, &body);
    json_write_object(&page.writer);
    json_write_name(&page.writer, "sessions");
    json_write_array(&page.writer);
    if (store_session_each(web->store, has_before ? &before : NULL, page.left + 1, write_session,
                           &page, &err) < 0) {
        web_respond_failure(call->conn->http, &err);
        return;
    }
    json_write_array_end(&page.writer);
    json_member_bool(&page.writer, "hasMore", page.more);
    json_member_string(&page.writer, "cursor", page.cursor.text);
    json_write_object_end(&page.writer);
    web_respond_json(call->conn->http, 200, &body);
}

/* {"session":{…},"runs","hasMore","cursor","feed"} */
void api_session(const struct call *call)
{
    struct web *web = call->conn->web;
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct page page = { .web = web, .left = LIST_MAX };
    struct store_run_filter filter = { .session = call->session };
    struct session_record session;
    char feed[FEED_CURSOR_SIZE];
    struct error err = ERROR_INIT;

    json_write_init(&page.writer, &body);
    json_write_object(&page.writer);
    session_record_init(&session);
    if (store_session_load(web->store, call->session, &session, &err) == 0) {
        json_write_name(&page.writer, "session");
        view_session(&page.writer, web->runs, &session);
        if (write_runs(&page, &filter, &err) == 0) {
            feed_cursor(&web->feed, web->feed.number, feed);
            json_member_string(&page.writer, "feed", feed);
            json_member_u64(&page.writer, "now", clock_wall_ms(web->clock));
            json_write_object_end(&page.writer);
        }
    }
    session_record_finish(&session);
    if (err.code != ERR_NONE)
        web_respond_failure(call->conn->http, &err);
    else
        web_respond_json(call->conn->http, 200, &body);
}
