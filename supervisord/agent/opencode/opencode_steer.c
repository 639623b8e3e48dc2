/* opencode_steer.c: messages for a prompt that is under way. OpenCode stores a message that comes
 * while it works, and shows it to the model with its next request: it is read when an answer is
 * made under it or under a later one. One that comes when the last answer is being made begins a
 * further answer in the same turn. Were it to come between the end of the turn and OpenCode's
 * noticing so, nobody would look at it: then the turn is begun again under the message's own id,
 * without a word more. */
#include <string.h>

#include "agent/opencode/opencode_internal.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define MESSAGES_MAX 64
#define LOOKS_MAX 3         /* at what should be there, or be read, at any moment */
#define FAILED_LOOKS_MAX 20 /* without an answer */

static void go_on_later(struct opencode *opencode);

static void remove_first(struct opencode_steers *steers)
{
    free(steers->list[0].text);
    memmove(&steers->list[0], &steers->list[1], --steers->count * sizeof(steers->list[0]));
}

/* The oldest one is done with. */
static void tell(struct opencode *opencode, const char *unread)
{
    char id[OPENCODE_ID_SIZE];

    str_copy(id, sizeof(id), opencode->steers.list[0].id);
    remove_first(&opencode->steers);
    opencode->steers.looks = 0;
    opencode->steers.nudged = false;
    opencode->callbacks.on_steered(opencode->callbacks.data, id, unread);
}

static void add(struct opencode *opencode, const struct agent_message *message,
                enum opencode_steer_state state)
{
    struct opencode_steers *steers = &opencode->steers;
    struct opencode_message *to;

    if (steers->list == NULL)
        steers->list = mem_new_zero(MESSAGES_MAX, sizeof(*steers->list));
    to = &steers->list[steers->count++];
    *to = (struct opencode_message){ .text = mem_strdup(message->text), .state = state };
    str_copy(to->id, sizeof(to->id), message->id);
}

void opencode_steer_forget(struct opencode *opencode)
{
    struct opencode_steers *steers = &opencode->steers;

    while (steers->count > 0)
        remove_first(steers);
    free(STEAL(steers->list));
    steers->looks = 0;
    steers->nudged = false;
}

void opencode_steer_end(struct opencode *opencode, const char *why)
{
    opencode_drop(&opencode->steers.request);
    uv_timer_stop(&opencode->steers.timer);
    while (!opencode->closing && opencode->steers.count > 0)
        tell(opencode, why);
}

/* Sending ------------------------------------------------------------------------------------- */

static struct opencode_message *first_unsent(struct opencode_steers *steers)
{
    for (size_t i = 0; i < steers->count; i++) {
        if (steers->list[i].state != STEER_SENT)
            return &steers->list[i];
    }
    return NULL;
}

/* The one whose request ended, or NULL: it has been read meanwhile. */
static struct opencode_message *under_way(struct opencode_steers *steers,
                                          enum opencode_steer_state state)
{
    struct opencode_message *message = first_unsent(steers);

    return message != NULL && message->state == state ? message : NULL;
}

/* A message that is not the oldest one can't be refused alone: its predecessors are sent, so they
 * are told of when they are read. */
static void refuse(struct opencode *opencode, struct opencode_message *message, const char *why)
{
    struct opencode_message refused = *message;
    struct opencode_steers *steers = &opencode->steers;
    size_t index = (size_t)(message - steers->list);

    memmove(message, message + 1, (--steers->count - index) * sizeof(*message));
    opencode->callbacks.on_steered(opencode->callbacks.data, refused.id, why);
    free(refused.text);
}

static void on_posted(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct opencode_message *message = under_way(&opencode->steers, STEER_SENDING);
    struct error err = ERROR_INIT;

    opencode->steers.request = NULL;
    if (message == NULL) {
        opencode_steer_go_on(opencode);
    } else if (response->err != NULL) {
        log_warn(opencode->id, "message: %s", response->err->text);
        message->state = STEER_UNSURE;
        go_on_later(opencode);
    } else if (opencode_expect_ok(response, "OpenCode refused the message", &err) < 0) {
        refuse(opencode, message, err.text);
        if (!opencode->closing)
            opencode_steer_go_on(opencode);
    } else {
        message->state = STEER_SENT;
        opencode_steer_go_on(opencode);
    }
}

static void post(struct opencode *opencode, const char *id, const char *text,
                 opencode_response_cb done)
{
    AUTO_FREE
    char *path = mem_printf("/session/%s/prompt_async", opencode->conversation);
    AUTO_BUF struct buf body = { 0 };
    const struct opencode_response too_long = { .status = 413, .err = NULL };

    if (opencode_write_prompt(opencode, id, text, &body) < 0)
        done(opencode, &too_long);
    else
        opencode_ask(opencode, &opencode->steers.request, "POST", path, buf_text(&body), done);
}

static void on_looked(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct opencode_message *message = under_way(&opencode->steers, STEER_UNSURE);

    opencode->steers.request = NULL;
    if (message == NULL) {
        opencode_steer_go_on(opencode);
        return;
    }
    message->looks++;
    if (response->err == NULL && response->status == 200) {
        message->state = STEER_SENT;
        opencode_steer_go_on(opencode);
    } else if (response->err == NULL && response->status == 404 && message->looks > LOOKS_MAX) {
        /* What an earlier supervisor wrote has had time enough to arrive. */
        message->state = STEER_WAITING;
        opencode_steer_go_on(opencode);
    } else if (message->looks > FAILED_LOOKS_MAX) {
        refuse(opencode, message, "nobody knows whether the agent got it");
        if (!opencode->closing)
            opencode_steer_go_on(opencode);
    } else {
        go_on_later(opencode);
    }
}

static void look_for(struct opencode *opencode, const struct opencode_message *message)
{
    AUTO_FREE
    char *path = mem_printf("/session/%s/message/%s", opencode->conversation, message->id);

    opencode_ask(opencode, &opencode->steers.request, "GET", path, NULL, on_looked);
}

void opencode_steer_go_on(struct opencode *opencode)
{
    struct opencode_message *message = first_unsent(&opencode->steers);

    if (message == NULL || opencode->steers.request != NULL || opencode->resuming ||
        opencode->phase != OPENCODE_READY || opencode->prompt.stop != STOP_NO ||
        uv_is_active((uv_handle_t *)&opencode->steers.timer))
        return;
    if (message->state == STEER_UNSURE) {
        look_for(opencode, message);
        return;
    }
    message->state = STEER_SENDING;
    post(opencode, message->id, message->text, on_posted);
}

static void on_timer(uv_timer_t *timer)
{
    opencode_steer_go_on(timer->data);
}

static void go_on_later(struct opencode *opencode)
{
    uv_timer_start(&opencode->steers.timer, on_timer, opencode->timing.again, 0);
}

int opencode_steer_id(struct agent *agent, char id[AGENT_MESSAGE_ID_SIZE], struct error *err)
{
    struct opencode *opencode = opencode_of(agent);

    if (opencode->prompt.state < PROMPT_SENT || !opencode->prompt.taken || opencode->resuming)
        return error_set(err, ERR_CONFLICT, 0, "the agent has no prompt under way at this moment");
    if (opencode->prompt.stop != STOP_NO || opencode->phase != OPENCODE_READY)
        return error_set(err, ERR_CONFLICT, 0, "the agent is being stopped");
    if (opencode->steers.count == MESSAGES_MAX)
        return error_set(err, ERR_LIMIT, 0, "%d messages wait to be read already", MESSAGES_MAX);
    opencode_make_message_id(opencode, id);
    return 0;
}

void opencode_steer(struct agent *agent, const struct agent_message *message)
{
    struct opencode *opencode = opencode_of(agent);

    add(opencode, message, STEER_WAITING);
    /* Not from inside this call, since it may be refused at once. */
    if (!uv_is_active((uv_handle_t *)&opencode->steers.timer))
        uv_timer_start(&opencode->steers.timer, on_timer, 0, 0);
}

void opencode_steer_resume(struct opencode *opencode, const struct agent_resume *resume)
{
    for (size_t i = 0; i < resume->message_count && i < MESSAGES_MAX; i++) {
        if (opencode_id_usable(resume->messages[i].id))
            add(opencode, &resume->messages[i], STEER_UNSURE);
    }
}

/* Reading ------------------------------------------------------------------------------------- */

void opencode_steer_answering(struct opencode *opencode, const char *message_id)
{
    const struct opencode_steers *steers = &opencode->steers;

    /* Ids sort by time. One that was never sent can't have been read. */
    while (!opencode->closing && steers->count > 0 && steers->list[0].state != STEER_WAITING &&
           strcmp(steers->list[0].id, message_id) <= 0)
        tell(opencode, NULL);
}

static void on_nudged(void *data, const struct opencode_response *response)
{
    struct opencode *opencode = data;
    struct error err = ERROR_INIT;

    opencode->steers.request = NULL;
    if (opencode_expect_ok(response, "go on with a message", &err) < 0)
        log_warn(opencode->id, "%s", err.text);
    opencode_steer_go_on(opencode);
}

bool opencode_steer_holds(struct opencode *opencode)
{
    struct opencode_steers *steers = &opencode->steers;

    if (steers->count == 0 || opencode->prompt.stop != STOP_NO)
        return false;
    if (first_unsent(steers) == NULL && steers->request == NULL && ++steers->looks > LOOKS_MAX) {
        if (steers->nudged) {
            opencode_steer_end(opencode, "the agent ended its turn without reading it");
            return false;
        }
        steers->nudged = true;
        steers->looks = 0;
        post(opencode, steers->list[steers->count - 1].id, NULL, on_nudged);
    }
    opencode_look_after(opencode, opencode->timing.again);
    return true;
}
