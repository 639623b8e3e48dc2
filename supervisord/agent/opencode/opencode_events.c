#include "agent/opencode/opencode_events.h"

#include <ctype.h>
#include <string.h>

#include "agent/opencode/opencode_frames.h"
#include "agent/agent_json.h"
#include "agent/opencode/opencode_part.h"
#include "agent/opencode/opencode_seen.h"
#include "common/buf.h"
#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"

#define SESSIONS_MAX 256
#define REQUESTS_MAX 64
#define QUESTIONS_MAX 16
#define USAGES_MAX 8192
#define DATA_MAX (64u * 1024)

struct session {
    char id[OPENCODE_ID_SIZE];
    bool retrying;
};

struct request {
    char id[OPENCODE_ID_SIZE];
    size_t questions;
    bool is_question;
};

struct message_usage {
    uint64_t message; /* hash of its id */
    struct agent_usage usage;
};

struct opencode_events {
    struct opencode_events_callbacks callbacks;
    bool stopped;
    struct opencode_frames frames;
    /* ours first, then descendants */
    struct session sessions[SESSIONS_MAX];
    size_t session_count;
    char prompt[OPENCODE_ID_SIZE];
    uint64_t begun_ms; /* when it was sent, wall clock */
    char title[256];
    struct request requests[REQUESTS_MAX];
    size_t request_count;
    struct opencode_seen seen;
    struct message_usage *usages;
    size_t usage_count;
    size_t usage_cap;
    struct agent_usage usage;
};

static bool first_time(struct opencode_events *events, const char *what, const char *id)
{
    return opencode_seen_add(&events->seen, opencode_seen_hash(what, id));
}

static bool was_seen(const struct opencode_events *events, const char *what, const char *id)
{
    return opencode_seen_has(&events->seen, opencode_seen_hash(what, id));
}

/* Telling ------------------------------------------------------------------------------------- */

static void tell(struct opencode_events *events, const struct agent_event *event)
{
    if (!events->stopped)
        events->callbacks.on_event(events->callbacks.data, event);
}

static void tell_kind(struct opencode_events *events, enum agent_event_kind kind, const char *text)
{
    struct agent_event event = { .kind = kind, .text = text };

    tell(events, &event);
}

static void note(struct opencode_events *events, const struct opencode_note *what)
{
    if (!events->stopped)
        events->callbacks.on_note(events->callbacks.data, what);
}

static void note_kind(struct opencode_events *events, enum opencode_note_kind kind)
{
    struct opencode_note what = { .kind = kind };

    note(events, &what);
}

bool opencode_id_usable(const char *id)
{
    size_t len = id != NULL ? strlen(id) : 0;

    if (len == 0 || len >= OPENCODE_ID_SIZE)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)id[i]) && id[i] != '_' && id[i] != '-')
            return false;
    }
    return true;
}

/* Sessions ------------------------------------------------------------------------------------ */

static struct session *find_session(struct opencode_events *events, const char *id)
{
    for (size_t i = 0; i < events->session_count; i++) {
        if (str_equal(events->sessions[i].id, id))
            return &events->sessions[i];
    }
    return NULL;
}

static bool is_ours(const struct opencode_events *events, const struct session *session)
{
    return session == &events->sessions[0];
}

static void add_session(struct opencode_events *events, const char *id)
{
    if (!opencode_id_usable(id) || events->session_count == SESSIONS_MAX ||
        find_session(events, id) != NULL)
        return;
    events->sessions[events->session_count] = (struct session){ .retrying = false };
    str_copy(events->sessions[events->session_count++].id, OPENCODE_ID_SIZE, id);
}

static void learn_child(struct opencode_events *events, const struct json_value *info)
{
    if (events->session_count > 0 &&
        find_session(events, agent_json_text(json_get(info, "parentID"))) != NULL)
        add_session(events, agent_json_text(json_get(info, "id")));
}

static void on_session(struct opencode_events *events, const struct json_value *properties)
{
    const struct json_value *info = json_get(properties, "info");
    const struct session *session = find_session(events, agent_json_text(json_get(info, "id")));
    const char *title = agent_json_text(json_get(info, "title"));
    char cut[sizeof(events->title)];

    if (session == NULL) {
        learn_child(events, info);
        return;
    }
    str_copy(cut, sizeof(cut), title);
    if (!is_ours(events, session) || cut[0] == '\0' || str_starts(cut, "New session - ") ||
        str_equal(cut, events->title))
        return;
    str_copy(events->title, sizeof(events->title), cut);
    tell_kind(events, AGENT_EVENT_TITLE, events->title);
}

static void tell_retry(struct opencode_events *events, const struct json_value *status)
{
    AUTO_BUF struct buf data = { 0 };
    struct json_writer writer;
    const char *message = agent_json_text(json_get(status, "message"));
    char cut[512];
    struct agent_event event = { .kind = AGENT_EVENT_RETRY, .text = cut };

    str_copy(cut, sizeof(cut), message);
    buf_init(&data, DATA_MAX);
    json_write_init(&writer, &data);
    json_write_object(&writer);
    json_member_u64(&writer, "attempt", json_u64(json_get(status, "attempt"), 0));
    json_member_string(&writer, "message", cut);
    json_member_u64(&writer, "next", json_u64(json_get(status, "next"), 0));
    json_write_object_end(&writer);
    event.data = buf_text(&data);
    tell(events, &event);
}

static void on_busy(struct opencode_events *events, struct session *session)
{
    bool retried = session->retrying;

    session->retrying = false;
    tell_kind(events, retried ? AGENT_EVENT_RUNNING : AGENT_EVENT_ALIVE, "");
    if (is_ours(events, session))
        note_kind(events, OPENCODE_NOTE_BUSY);
}

static void on_retry(struct opencode_events *events, struct session *session,
                     const struct json_value *status)
{
    struct opencode_note what = {
        .kind = OPENCODE_NOTE_RETRY,
        .text = agent_json_text(json_get(status, "message")),
        .number = json_u64(json_get(status, "next"), 0),
    };

    session->retrying = true;
    tell_retry(events, status);
    if (is_ours(events, session))
        note(events, &what);
}

static void on_idle(struct opencode_events *events, struct session *session)
{
    session->retrying = false;
    note_kind(events, is_ours(events, session) ? OPENCODE_NOTE_IDLE : OPENCODE_NOTE_CHILD_IDLE);
}

static void on_status(struct opencode_events *events, const struct json_value *properties)
{
    struct session *session =
        find_session(events, agent_json_text(json_get(properties, "sessionID")));
    const struct json_value *status = json_get(properties, "status");
    const char *type = agent_json_text(json_get(status, "type"));

    if (session == NULL)
        return;
    if (str_equal(type, "busy"))
        on_busy(events, session);
    else if (str_equal(type, "retry"))
        on_retry(events, session, status);
    else if (str_equal(type, "idle"))
        on_idle(events, session);
}

static void on_session_error(struct opencode_events *events, const struct json_value *properties)
{
    const char *id = json_string(json_get(properties, "sessionID"));
    struct opencode_note what = { .kind = OPENCODE_NOTE_ERROR,
                                  .error = json_get(properties, "error") };

    /* An error without a session is the server's: it concerns us too. */
    if (events->session_count > 0 && (id == NULL || str_equal(id, events->sessions[0].id)))
        note(events, &what);
}

/* Messages ------------------------------------------------------------------------------------ */

static uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void add_usage(struct agent_usage *sum, const struct agent_usage *usage)
{
    sum->input_tokens = add_capped(sum->input_tokens, usage->input_tokens);
    sum->output_tokens = add_capped(sum->output_tokens, usage->output_tokens);
    sum->cache_read_tokens = add_capped(sum->cache_read_tokens, usage->cache_read_tokens);
    sum->cache_write_tokens = add_capped(sum->cache_write_tokens, usage->cache_write_tokens);
    sum->cost_microdollars = add_capped(sum->cost_microdollars, usage->cost_microdollars);
}

static struct agent_usage read_usage(const struct json_value *info)
{
    const struct json_value *tokens = json_get(info, "tokens");
    double cost = json_number(json_get(info, "cost"), 0);
    struct agent_usage usage = {
        .input_tokens = json_u64(json_get(tokens, "input"), 0),
        .output_tokens = json_u64(json_get(tokens, "output"), 0),
        .cache_read_tokens = json_u64(json_path(tokens, "cache.read"), 0),
        .cache_write_tokens = json_u64(json_path(tokens, "cache.write"), 0),
    };

    usage.output_tokens =
        add_capped(usage.output_tokens, json_u64(json_get(tokens, "reasoning"), 0));
    if (cost > 0 && cost < 1e9)
        usage.cost_microdollars = (uint64_t)(cost * 1e6 + 0.5);
    return usage;
}

static struct message_usage *usage_slot(struct opencode_events *events, uint64_t message)
{
    for (size_t i = events->usage_count; i > 0; i--) {
        if (events->usages[i - 1].message == message)
            return &events->usages[i - 1];
    }
    if (events->usage_count == USAGES_MAX)
        return NULL;
    if (events->usage_count == events->usage_cap) {
        size_t cap = events->usage_cap > 0 ? events->usage_cap * 2 : 16;
        struct message_usage *usages = mem_new_zero(cap, sizeof(*usages));

        if (events->usage_count > 0)
            memcpy(usages, events->usages, events->usage_count * sizeof(*usages));
        free(events->usages);
        events->usages = usages;
        events->usage_cap = cap;
    }
    events->usages[events->usage_count] = (struct message_usage){ .message = message };
    return &events->usages[events->usage_count++];
}

/* A message's usage arrives with its finish, and again with later updates: the sum is made anew
 * from the newest of each message. */
static void count_usage(struct opencode_events *events, const struct json_value *info)
{
    struct message_usage *slot;
    struct agent_usage usage = read_usage(info);
    struct agent_usage sum = { 0 };
    struct agent_event event = { .kind = AGENT_EVENT_USAGE };

    if (memcmp(&usage, &sum, sizeof(usage)) == 0)
        return;
    slot = usage_slot(events, opencode_seen_hash("", agent_json_text(json_get(info, "id"))));
    if (slot == NULL || memcmp(&slot->usage, &usage, sizeof(usage)) == 0)
        return;
    slot->usage = usage;
    for (size_t i = 0; i < events->usage_count; i++)
        add_usage(&sum, &events->usages[i].usage);
    events->usage = event.usage = sum;
    tell(events, &event);
}

static void on_assistant(struct opencode_events *events, const struct session *session,
                         const struct json_value *info)
{
    const char *finish = agent_json_text(json_get(info, "finish"));
    struct opencode_note what = { .kind = OPENCODE_NOTE_FINISH, .text = finish };
    struct opencode_note answering = { .kind = OPENCODE_NOTE_ANSWERING,
                                       .text = agent_json_text(json_get(info, "parentID")) };
    bool ended = json_u64(json_path(info, "time.completed"), 0) > 0;

    tell_kind(events, AGENT_EVENT_ALIVE, "");
    if (events->prompt[0] == '\0')
        return;
    count_usage(events, info);
    if (is_ours(events, session) &&
        first_time(events, "answer ", agent_json_text(json_get(info, "id"))))
        note(events, &answering);
    if (is_ours(events, session) && ended && finish[0] != '\0' &&
        first_time(events, "finish ", agent_json_text(json_get(info, "id"))))
        note(events, &what);
}

static void on_message(struct opencode_events *events, const struct json_value *info)
{
    const struct session *session =
        find_session(events, agent_json_text(json_get(info, "sessionID")));
    const char *role = agent_json_text(json_get(info, "role"));
    const char *id = agent_json_text(json_get(info, "id"));

    if (session == NULL)
        return;
    if (str_equal(role, "assistant")) {
        on_assistant(events, session, info);
        return;
    }
    first_time(events, "user ", id);
    if (events->prompt[0] != '\0' && str_equal(id, events->prompt))
        note_kind(events, OPENCODE_NOTE_TAKEN);
}

/* Parts --------------------------------------------------------------------------------------- */

static void on_part(struct opencode_events *events, const struct json_value *part)
{
    const struct session *session =
        find_session(events, agent_json_text(json_get(part, "sessionID")));
    const char *id = agent_json_text(json_get(part, "id"));
    AUTO_BUF struct buf text = { 0 };
    AUTO_BUF struct buf data = { 0 };
    struct agent_event event = { .kind = AGENT_EVENT_ALIVE, .text = "" };

    if (session == NULL || was_seen(events, "user ", agent_json_text(json_get(part, "messageID"))))
        return;
    buf_init(&text, OPENCODE_PART_TEXT_MAX);
    buf_init(&data, OPENCODE_PART_DATA_MAX);
    event.kind = opencode_part_read(part, !is_ours(events, session), &text, &data);
    if (event.kind == AGENT_EVENT_TOOL_START
            ? !first_time(events, "start ", id)
            : event.kind != AGENT_EVENT_ALIVE && !first_time(events, "part ", id))
        event.kind = AGENT_EVENT_ALIVE;
    if (event.kind != AGENT_EVENT_ALIVE) {
        event.text = buf_text(&text);
        event.data = data.len > 0 && !data.failed ? buf_text(&data) : NULL;
        event.key = event.kind != AGENT_EVENT_TOOL_START ? id : NULL;
    }
    tell(events, &event);
}

static void on_delta(struct opencode_events *events, const struct json_value *properties)
{
    if (find_session(events, agent_json_text(json_get(properties, "sessionID"))) != NULL)
        tell_kind(events, AGENT_EVENT_ALIVE, "");
}

/* Todos --------------------------------------------------------------------------------------- */

static void write_todo(struct json_writer *writer, const struct json_value *todo)
{
    char content[400];

    str_copy(content, sizeof(content), agent_json_text(json_get(todo, "content")));
    json_write_object(writer);
    json_member_string(writer, "content", content);
    json_member_string(writer, "status", agent_json_text(json_get(todo, "status")));
    json_member_string(writer, "priority", agent_json_text(json_get(todo, "priority")));
    json_write_object_end(writer);
}

static void on_todo(struct opencode_events *events, const struct json_value *properties)
{
    const struct session *session =
        find_session(events, agent_json_text(json_get(properties, "sessionID")));
    AUTO_BUF struct buf data = BUF_INIT(DATA_MAX);
    char text[AGENT_TODOS_TEXT];

    if (session == NULL || !is_ours(events, session))
        return;
    if (agent_todos_write(json_get(properties, "todos"), write_todo, &data, text))
        tell(events, &(struct agent_event){
                         .kind = AGENT_EVENT_TODO, .text = text, .data = buf_text(&data) });
}

/* Requests ------------------------------------------------------------------------------------ */

static struct request *find_request(struct opencode_events *events, const char *id)
{
    for (size_t i = 0; i < events->request_count; i++) {
        if (str_equal(events->requests[i].id, id))
            return &events->requests[i];
    }
    return NULL;
}

/* False when it is known, or not of our sessions, or one too many. */
static bool add_request(struct opencode_events *events, const struct json_value *request,
                        bool is_question)
{
    const char *id = agent_json_text(json_get(request, "id"));
    struct request *slot;
    size_t questions = json_count(json_get(request, "questions"));

    if (find_session(events, agent_json_text(json_get(request, "sessionID"))) == NULL ||
        !opencode_id_usable(id))
        return false;
    if (events->request_count == REQUESTS_MAX || (is_question && questions == 0))
        return false;
    /* OpenCode goes on listing a request whose prompt was aborted. */
    if (!first_time(events, "asked ", id))
        return false;
    slot = &events->requests[events->request_count++];
    *slot =
        (struct request){ .is_question = is_question, .questions = is_question ? questions : 1 };
    if (slot->questions > QUESTIONS_MAX)
        slot->questions = QUESTIONS_MAX;
    str_copy(slot->id, sizeof(slot->id), id);
    return true;
}

static void remove_request(struct opencode_events *events, struct request *request)
{
    struct agent_event event = { .kind = AGENT_EVENT_ANSWERED, .text = "" };
    char id[OPENCODE_ID_SIZE];

    str_copy(id, sizeof(id), request->id);
    *request = events->requests[--events->request_count];
    event.request_id = id;
    tell(events, &event);
}

static void on_asked(struct opencode_events *events, const struct json_value *request,
                     bool is_question)
{
    AUTO_BUF struct buf text = { 0 };
    AUTO_BUF struct buf data = { 0 };
    struct agent_event event = {
        .kind = is_question ? AGENT_EVENT_QUESTION : AGENT_EVENT_PERMISSION,
        .request_id = json_string(json_get(request, "id")),
    };

    if (!add_request(events, request, is_question))
        return;
    buf_init(&text, OPENCODE_PART_TEXT_MAX);
    buf_init(&data, OPENCODE_PART_DATA_MAX);
    if (is_question)
        opencode_question_read(request, &text, &data);
    else
        opencode_permission_read(request, &text, &data);
    event.text = buf_text(&text);
    event.data = data.failed ? NULL : buf_text(&data);
    event.key = event.request_id;
    tell(events, &event);
}

static void on_permission_asked(struct opencode_events *events, const struct json_value *properties)
{
    on_asked(events, properties, false);
}

static void on_question_asked(struct opencode_events *events, const struct json_value *properties)
{
    on_asked(events, properties, true);
}

static void on_answered(struct opencode_events *events, const struct json_value *properties)
{
    struct request *request =
        find_request(events, agent_json_text(json_get(properties, "requestID")));

    if (request != NULL)
        remove_request(events, request);
}

/* One event ----------------------------------------------------------------------------------- */

static void on_connected(struct opencode_events *events, const struct json_value *properties)
{
    (void)properties;
    note_kind(events, OPENCODE_NOTE_CONNECTED);
}

static void on_message_updated(struct opencode_events *events, const struct json_value *properties)
{
    on_message(events, json_get(properties, "info"));
}

static void on_part_updated(struct opencode_events *events, const struct json_value *properties)
{
    on_part(events, json_get(properties, "part"));
}

/* Other types are ignored: there are many, and more with each release. */
static const struct {
    const char *type;
    void (*handle)(struct opencode_events *events, const struct json_value *properties);
} types[] = {
    { "message.part.delta", on_delta },        { "message.part.updated", on_part_updated },
    { "message.updated", on_message_updated }, { "permission.asked", on_permission_asked },
    { "permission.replied", on_answered },     { "question.asked", on_question_asked },
    { "question.rejected", on_answered },      { "question.replied", on_answered },
    { "server.connected", on_connected },      { "session.created", on_session },
    { "session.error", on_session_error },     { "session.status", on_status },
    { "session.updated", on_session },         { "todo.updated", on_todo },
};

static void on_type(struct opencode_events *events, const struct json_value *root)
{
    const char *type;

    /* The stream of all directories wraps each event. */
    if (json_get(root, "payload") != NULL)
        root = json_get(root, "payload");
    type = agent_json_text(json_get(root, "type"));
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_equal(types[i].type, type)) {
            types[i].handle(events, json_get(root, "properties"));
            return;
        }
    }
}

static bool on_frame(void *data, char *text, size_t len)
{
    struct opencode_events *events = data;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;

    if (text == NULL || agent_json_parse(&doc, text, len, OPENCODE_FRAME_MAX, &ignored) < 0)
        note_kind(events, OPENCODE_NOTE_LOST);
    else
        on_type(events, json_root(doc));
    return !events->stopped;
}

void opencode_events_feed(struct opencode_events *events, const char *bytes, size_t len)
{
    opencode_frames_feed(&events->frames, bytes, len, on_frame, events);
}

void opencode_events_reconnected(struct opencode_events *events)
{
    opencode_frames_reset(&events->frames);
}

/* State by REST ------------------------------------------------------------------------------- */

void opencode_events_read_children(struct opencode_events *events,
                                   const struct json_value *sessions)
{
    for (const struct json_value *info = json_first(sessions); info != NULL; info = json_next(info))
        learn_child(events, info);
}

/* A subagent's session may be older than our prompt and go on in it. */
static bool is_since(const struct opencode_events *events, const struct json_value *info)
{
    return json_u64(json_path(info, "time.created"), 0) >= events->begun_ms;
}

static bool has_prompt(const struct opencode_events *events, const struct json_value *messages)
{
    for (const struct json_value *message = json_first(messages); message != NULL;
         message = json_next(message)) {
        if (str_equal(json_string(json_path(message, "info.id")), events->prompt))
            return true;
    }
    return false;
}

/* What stands before our prompt was told when it happened. A list that doesn't reach back to it has
 * only what came after. */
void opencode_events_read_messages(struct opencode_events *events,
                                   const struct json_value *messages)
{
    bool listed = has_prompt(events, messages);
    bool behind = false;

    for (const struct json_value *message = json_first(messages);
         message != NULL && !events->stopped; message = json_next(message)) {
        const struct json_value *info = json_get(message, "info");
        const struct session *session =
            find_session(events, agent_json_text(json_get(info, "sessionID")));

        if (session == NULL)
            continue;
        if (str_equal(agent_json_text(json_get(info, "id")), events->prompt) ||
            str_equal(agent_json_text(json_get(info, "parentID")), events->prompt))
            behind = true;
        if (events->prompt[0] == '\0' ||
            !(is_ours(events, session) && listed ? behind : is_since(events, info)))
            continue;
        on_message(events, info);
        for (const struct json_value *part = json_first(json_get(message, "parts")); part != NULL;
             part = json_next(part))
            on_part(events, part);
    }
}

static bool is_listed(const struct json_value *requests, const char *id)
{
    for (const struct json_value *request = json_first(requests); request != NULL;
         request = json_next(request)) {
        if (str_equal(json_string(json_get(request, "id")), id))
            return true;
    }
    return false;
}

static void read_requests(struct opencode_events *events, const struct json_value *requests,
                          bool is_question)
{
    for (size_t i = events->request_count; i > 0; i--) {
        struct request *request = &events->requests[i - 1];

        if (request->is_question == is_question && !is_listed(requests, request->id))
            remove_request(events, request);
    }
    for (const struct json_value *request = json_first(requests); request != NULL;
         request = json_next(request))
        on_asked(events, request, is_question);
}

void opencode_events_read_permissions(struct opencode_events *events,
                                      const struct json_value *requests)
{
    read_requests(events, requests, false);
}

void opencode_events_read_questions(struct opencode_events *events,
                                    const struct json_value *requests)
{
    read_requests(events, requests, true);
}

/* Looking ------------------------------------------------------------------------------------- */

bool opencode_events_child_busy(const struct opencode_events *events,
                                const struct json_value *statuses)
{
    for (size_t i = 1; i < events->session_count; i++) {
        const char *type =
            agent_json_text(json_get(json_get(statuses, events->sessions[i].id), "type"));

        if (type[0] != '\0' && !str_equal(type, "idle"))
            return true;
    }
    return false;
}

const char *opencode_events_child(const struct opencode_events *events, size_t index)
{
    return index + 1 < events->session_count ? events->sessions[index + 1].id : NULL;
}

size_t opencode_events_open_request(const struct opencode_events *events, const char *request_id)
{
    for (size_t i = 0; i < events->request_count; i++) {
        if (str_equal(events->requests[i].id, request_id))
            return events->requests[i].questions;
    }
    return 0;
}

struct agent_usage opencode_events_usage(const struct opencode_events *events)
{
    return events->usage;
}

/* Life ---------------------------------------------------------------------------------------- */

struct opencode_events *opencode_events_new(const struct opencode_events_callbacks *callbacks)
{
    struct opencode_events *events = NEW(struct opencode_events);

    events->callbacks = *callbacks;
    opencode_frames_init(&events->frames);
    return events;
}

void opencode_events_free(struct opencode_events *events)
{
    opencode_frames_finish(&events->frames);
    opencode_seen_finish(&events->seen);
    free(events->usages);
    free(events);
}

void opencode_events_stop(struct opencode_events *events)
{
    events->stopped = true;
}

void opencode_events_follow(struct opencode_events *events, const char *session)
{
    events->session_count = 0;
    events->request_count = 0;
    add_session(events, session);
}

void opencode_events_begin(struct opencode_events *events, const char *message_id, uint64_t wall_ms)
{
    events->begun_ms = wall_ms;
    str_copy(events->prompt, sizeof(events->prompt), message_id);
    events->usage_count = 0;
    events->usage = (struct agent_usage){ 0 };
    events->request_count = 0;
}
