#include "telling.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define PROGRAM_SECONDS 60

struct telling {
    struct notices *notices;
    struct runs *runs;
    void (*web_url)(void *data, const char *run_id, struct buf *out);
    void *web_data;
    void (*done)(void *data);
    void *done_data;
};

static struct notices_options make_options(const struct config *config)
{
    return (struct notices_options){ .program = config->notices_program,
                                     .webhook = config->notices_webhook,
                                     .webhook_secret = config->notices_webhook_secret,
                                     .ntfy = config->notices_ntfy,
                                     .ntfy_secret = config->notices_ntfy_token,
                                     .desktop = config->notices_desktop ? "notify-send" : "",
                                     .ca_file = config->ca_file,
                                     .program_seconds = PROGRAM_SECONDS };
}

uint32_t telling_wanted(const struct config *config)
{
    struct notices_options options = make_options(config);
    uint32_t wanted = 0;

    if (!notices_wanted(&options))
        return 0;
    for (size_t i = 0; i < config->notices_event_count; i++)
        wanted |=
            str_equal(config->notices_events[i], "ended") ? RUN_NOTICE_ENDED : RUN_NOTICE_WAITING;
    return config->notices_event_count == 0 ? RUN_NOTICE_ENDED | RUN_NOTICE_WAITING : wanted;
}

static const char *status_of(const struct run_record *run)
{
    /* By value those of the socket's protocol. */
    static const char *const names[] = { "",          "",       "",          "waiting",
                                         "completed", "failed", "cancelled", "interrupted" };
    int status = run_status_of(run);

    return status >= 0 && (size_t)status < ARRAY_LEN(names) ? names[status] : "";
}

static void told(struct telling *telling, const struct id *run, uint64_t number)
{
    struct error err = ERROR_INIT;

    if (runs_notice_told(telling->runs, run, number, &err) < 0)
        log_warn(run->text, "its notice may come again: %s", err.text);
}

/* What is asked, from {"requestId","kind","text",…}. */
static char *question_of(struct runs *runs, const struct id *run)
{
    const char *request = run_open_request(runs, run);
    struct error err = ERROR_INIT;
    AUTO_JSON struct json_doc *doc = NULL;
    const char *text = NULL;

    if (request != NULL && json_parse(&doc, request, strlen(request), 1u << 20, &err) == 0)
        text = json_string(json_get(json_root(doc), "text"));
    return mem_strdup(text != NULL ? text : "");
}

static void send_one(struct telling *telling, const struct run_record *run)
{
    AUTO_BUF struct buf url = BUF_INIT(4096);
    AUTO_FREE
    char *question = question_of(telling->runs, &run->id);
    struct error err = ERROR_INIT;
    struct notice notice = { .run_id = run->id.text,
                             .session_id = run->session.text,
                             .number = run->notice_due,
                             .status = status_of(run),
                             .title = run->title[0] != '\0' ? run->title : run->task,
                             .repository = run->repository,
                             .verdict = run->verdict,
                             .code = run->error.code,
                             .text = question[0] != '\0'             ? question
                                     : run->error.message[0] != '\0' ? run->error.message
                                                                     : run->output,
                             .url = "",
                             .time_ms = run->updated_ms };

    telling->web_url(telling->web_data, run->id.text, &url);
    if (url.len > 0)
        notice.url = buf_text(&url);
    if (notices_send(telling->notices, &notice, &err) < 0)
        log_warn(run->id.text, "its notice waits: %s", err.text);
}

static void consider(struct telling *telling, const struct id *id)
{
    struct run_record run;
    struct error err = ERROR_INIT;

    run_record_init(&run);
    if (run_load(telling->runs, id, &run, &err) < 0)
        log_warn(id->text, "its notice waits: %s", err.text);
    else if (status_of(&run)[0] == '\0')
        told(telling, id, run.notice_due); /* answered before anyone was told that it asks */
    else
        send_one(telling, &run);
    run_record_finish(&run);
}

void telling_due(struct telling *telling)
{
    struct id due[NOTICES_MAX + 1];
    struct error err = ERROR_INIT;
    size_t count;

    if (telling == NULL || telling->runs == NULL || !notices_has_room(telling->notices))
        return;
    if (runs_notices_due(telling->runs, due, ARRAY_LEN(due), &count, &err) < 0) {
        log_warn("notices", "%s", err.text);
        return;
    }
    for (size_t i = 0; i < count && notices_has_room(telling->notices); i++) {
        if (!notices_has(telling->notices, due[i].text))
            consider(telling, &due[i]);
    }
}

static void on_told(void *data, const char *run_id, uint64_t number)
{
    struct telling *telling = data;
    struct id id;

    if (id_parse(ID_KIND_RUN, run_id, &id))
        told(telling, &id, number);
    telling_due(telling);
}

int telling_start(struct telling **out, uv_loop_t *loop, struct vault *vault,
                  const struct clock *clock, const struct config *config, struct error *err)
{
    struct notices_options options = make_options(config);
    struct telling *telling;

    *out = NULL;
    if (!notices_wanted(&options))
        return 0;
    telling = NEW(struct telling);
    options.on_told = on_told;
    options.data = telling;
    if (notices_start(&telling->notices, loop, vault, clock, &options, err) < 0) {
        free(telling);
        return -1;
    }
    *out = telling;
    return 0;
}

void telling_serve(struct telling *telling, struct runs *runs,
                   void (*web_url)(void *data, const char *run_id, struct buf *out), void *data)
{
    if (telling == NULL)
        return;
    telling->runs = runs;
    telling->web_url = web_url;
    telling->web_data = data;
    telling_due(telling);
}

int telling_try(struct telling *telling, notices_tried_cb tried, void *data, struct error *err)
{
    uint64_t now_ms = clock_wall_ms(clock_system());
    const struct notice notice = { .run_id = "test",
                                   .session_id = "",
                                   .number = now_ms,
                                   .status = "test",
                                   .title = "notices of sandbox-mcp arrive here",
                                   .repository = "",
                                   .verdict = "",
                                   .code = "",
                                   .text = "Sent by sandboxctl notice test. It is about no run.",
                                   .url = "",
                                   .time_ms = now_ms };

    if (telling == NULL)
        return error_set(err, ERR_CONFLICT, 0,
                         "no way of giving notice is configured; set notices.webhook, "
                         "notices.ntfy, notices.desktop or notices.program and restart the "
                         "supervisor");
    return notices_try(telling->notices, &notice, tried, data, err);
}

static void on_notices_closed(void *data)
{
    struct telling *telling = data;
    void (*done)(void *data) = telling->done;
    void *done_data = telling->done_data;

    free(telling);
    done(done_data);
}

void telling_close(struct telling *telling, void (*done)(void *data), void *data)
{
    telling->runs = NULL;
    telling->done = done;
    telling->done_data = data;
    notices_close(telling->notices, on_notices_closed, telling);
}
