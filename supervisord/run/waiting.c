/* waiting.c: what the agent asks, until it is answered. Several requests may be open at once, as
 * those of subagents; the oldest is shown. None waits for ever: when nobody has answered in time it
 * is refused, or the run is stopped, as the configuration says. */
#include "run/internal.h"

#include <string.h>

#include "common/json_write.h"
#include "common/str.h"

#define REQUEST_MAX (512u << 10)
#define TAKEN_MS 30000 /* in which an answer that was sent is taken, or was not */

struct open_request {
    struct list link; /* run::requests */
    char *id;
    char *json;
    enum run_note kind;
    uint64_t asked_ms;    /* wall clock, also before a restart */
    uint64_t answered_ms; /* an answer was sent; 0: none */
    bool refused;         /* for want of an answer */
};

static void on_answer_late(uv_timer_t *timer);

static struct open_request *oldest(const struct run *run)
{
    return list_empty(&run->requests) ? NULL
                                      : LIST_ENTRY(run->requests.next, struct open_request, link);
}

static struct open_request *find(struct run *run, const char *id)
{
    LIST_EACH(&run->requests, link) {
        struct open_request *request = LIST_ENTRY(link, struct open_request, link);

        if (str_equal(request->id, id))
            return request;
    }
    return NULL;
}

static void forget(struct open_request *request)
{
    list_remove(&request->link);
    free(request->id);
    free(request->json);
    free(request);
}

void waiting_init(struct run *run)
{
    list_init(&run->requests);
    uv_timer_init(run->runs->loop, &run->answer);
    handles_add(&run->handles, (uv_handle_t *)&run->answer, run);
}

void waiting_forget_all(struct run *run)
{
    while (!list_empty(&run->requests))
        forget(oldest(run));
    if (!uv_is_closing((uv_handle_t *)&run->answer))
        uv_timer_stop(&run->answer);
}

bool waiting_any(const struct run *run)
{
    return oldest(run) != NULL;
}

const char *waiting_oldest(const struct run *run)
{
    const struct open_request *request = oldest(run);

    return request != NULL ? request->json : NULL;
}

uint64_t waiting_since_ms(const struct run *run)
{
    const struct open_request *request = oldest(run);

    return request != NULL ? request->asked_ms : 0;
}

static uint64_t patience_ms(const struct run *run)
{
    return (uint64_t)run->runs->options.answer_seconds * 1000;
}

/* Asking -------------------------------------------------------------------------------------- */

/* As run views and events show it: what the driver's data holds comes last. */
static char *make_json(const struct run *run, const struct agent_event *event,
                       const struct open_request *request)
{
    AUTO_BUF struct buf out = BUF_INIT(REQUEST_MAX);
    struct json_writer writer;

    json_write_init(&writer, &out);
    json_write_object(&writer);
    json_member_string(&writer, "requestId", event->request_id);
    json_member_string(&writer, "kind",
                       request->kind == RUN_NOTE_QUESTION ? "question" : "permission");
    json_member_string(&writer, "text", event->text);
    json_member_u64(&writer, "askedAt", request->asked_ms);
    json_member_u64(&writer, "answerBy", request->asked_ms + patience_ms(run));
    if (event->data != NULL && !str_equal(event->data, "{}"))
        buf_printf(&out, ",%s", event->data + 1); /* its end is ours */
    else
        json_write_object_end(&writer);
    return out.failed ? mem_strdup("{}") : buf_steal(&out);
}

/* The oldest one decides; behind its time it is looked at every so often until it is gone. */
static void arm(struct run *run)
{
    const struct open_request *request = oldest(run);
    uint64_t now = clock_wall_ms(run->runs->clock);
    uint64_t at;

    if (request == NULL) {
        uv_timer_stop(&run->answer);
        return;
    }
    at = request->refused ? now + TAKEN_MS : request->asked_ms + patience_ms(run);
    /* A clock that jumped must not make it longer than it was meant to be. */
    if (at > now + patience_ms(run) && !request->refused)
        at = now + patience_ms(run);
    uv_timer_start(&run->answer, on_answer_late, at > now ? at - now : 0, 0);
}

void waiting_on_asked(struct run *run, const struct agent_event *event, enum run_note kind)
{
    struct open_request *request = find(run, event->request_id);
    bool told = event->key != NULL && told_has(run->told, event->key);

    if (request == NULL) {
        uint64_t before = told ? told_asked_ms(run->told, event->key) : 0;

        request = NEW(struct open_request);
        request->id = mem_strdup(event->request_id);
        request->kind = kind;
        request->asked_ms = before != 0 ? before : clock_wall_ms(run->runs->clock);
        list_append(&run->requests, &request->link);
    } else {
        free(request->json);
    }
    request->json = make_json(run, event, request);
    if (!told)
        events_note_as(run, kind, event->text, request->json, event->key);
    arm(run);
    if (run->record.state != RUN_WAITING)
        run_apply(run, RUN_EV_ASKED);
}

void waiting_on_answered(struct run *run, const char *request_id)
{
    struct open_request *request = find(run, request_id);

    if (request == NULL)
        return;
    forget(request);
    arm(run);
    if (oldest(run) == NULL)
        run_apply(run, RUN_EV_ANSWERED);
}

/* Answering ----------------------------------------------------------------------------------- */

static void note_answer(struct run *run, const struct open_request *request, const char *answer)
{
    AUTO_FREE
    char *note = mem_printf("request %s was answered: %s", request->id, answer);

    events_note(run, RUN_NOTE_LOG, note, NULL);
}

int waiting_answer(struct run *run, const char *request_id, const char *answer, struct error *err)
{
    struct open_request *request = find(run, request_id);
    uint64_t now = clock_wall_ms(run->runs->clock);

    if (run->record.state != RUN_WAITING || oldest(run) == NULL)
        return error_set(err, ERR_CONFLICT, 0, "run %s asks nothing now", run->record.id.text);
    if (request == NULL) {
        error_argument(err, "requestId", "request `%s` is not known", request_id);
        err->code = ERR_NOT_FOUND;
        return -1;
    }
    if (request->answered_ms != 0 && now - request->answered_ms < TAKEN_MS)
        return error_set(err, ERR_CONFLICT, 0, "request %s was answered a moment ago", request_id);
    if (run->driver->answer(run->agent, request_id, answer, err) < 0)
        return -1;
    request->answered_ms = now;
    note_answer(run, request, answer);
    return 0;
}

static void stop_unanswered(struct run *run)
{
    AUTO_FREE
    char *message = mem_printf("the agent asked something, and nobody answered within %u seconds",
                               run->runs->options.answer_seconds);

    run->driver->abort(run->agent);
    run_fail(run, "unanswered", message,
             "go on in the session with a new run that says what to do, or raise "
             "agents.answerSeconds",
             true);
}

/* It goes on without: a permission is refused, a question left to the agent. */
static int refuse(struct run *run, struct open_request *request, struct error *err)
{
    AUTO_FREE
    char *text = mem_printf(
        "%snobody answered within %u seconds: %s",
        request->kind == RUN_NOTE_QUESTION ? "" : "reject: ", run->runs->options.answer_seconds,
        request->kind == RUN_NOTE_QUESTION ? "decide it yourself, and say how in your answer"
                                           : "go on without it, and say so in your answer");

    if (run->driver->answer(run->agent, request->id, text, err) < 0)
        return -1;
    request->refused = true;
    request->answered_ms = clock_wall_ms(run->runs->clock);
    note_answer(run, request, text);
    return 0;
}

static void on_answer_late(uv_timer_t *timer)
{
    struct run *run = timer->data;
    struct open_request *request = oldest(run);
    struct error err = ERROR_INIT;

    if (request == NULL || run->record.state != RUN_WAITING || run->agent == NULL)
        return;
    if (clock_wall_ms(run->runs->clock) < request->asked_ms + patience_ms(run)) {
        arm(run);
        return;
    }
    if (request->refused || run->runs->options.stop_unanswered || refuse(run, request, &err) < 0) {
        if (err.code != ERR_NONE)
            log_warn(run->record.id.text, "request %s can't be refused: %s", request->id, err.text);
        stop_unanswered(run);
        return;
    }
    /* Others get their turn. */
    list_remove(&request->link);
    list_append(&run->requests, &request->link);
    arm(run);
}
