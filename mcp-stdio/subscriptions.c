#include "mcp-stdio/subscriptions.h"

#include <stdlib.h>
#include <string.h>

#include "common/list.h"
#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/call.h"
#include "mcp-stdio/resources.h"
#include "mcp-stdio/task.h"
#include "mcp-stdio/tasks.h"
#include "proto/msg_event.h"
#include "proto/msg_run.h"

#define OPEN_MAX 1024
#define PAUSE_MS 1000 /* between two notifications about one thing */
#define RETRY_MS 2000

struct subscription {
    struct list link;        /* subscriptions::open */
    struct jsonrpc_slice id; /* ours; NULL data: the legacy one, which has none */
    struct list watches;     /* watch::link */
};

struct subscriptions {
    struct server *server;
    struct subscription legacy;
    struct list open;
    size_t count;
};

enum watch_step {
    WATCH_LOOKING,   /* how the run stands, and from where to follow */
    WATCH_FOLLOWING, /* or the run has ended, and nothing comes any more */
    WATCH_TELLING,   /* how the run stands, for a task's notification */
};

/* The state of a background call. */
struct watch {
    struct list link;
    struct subscription *owner;
    struct call *call;
    char *uri; /* NULL: the run is watched as a task */
    struct resource resource;
    enum watch_step step;
    bool known;      /* the run was looked at before */
    bool changed;    /* and has changed since it was told */
    bool retrying;   /* due_ms is the next try */
    bool heard;      /* an event came since it is followed */
    uint64_t cursor; /* of the newest event that was seen */
    uint64_t told_ms;
};

static struct watch *watch_of(struct list *link)
{
    return LIST_ENTRY(link, struct watch, link);
}

static struct subscription *subscription_of(struct list *link)
{
    return LIST_ENTRY(link, struct subscription, link);
}

/* Notifications -------------------------------------------------------------------------------- */

static void write_subscription_id(struct json_writer *writer, const struct subscription *owner)
{
    if (!owner->id.data)
        return;
    json_write_name(writer, "_meta");
    json_write_object(writer);
    json_write_name(writer, ERA_META "subscriptionId");
    json_write_raw(writer, owner->id.data, owner->id.len);
    json_write_object_end(writer);
}

static void tell_resource(struct watch *watch)
{
    struct server *server = call_server(watch->call);
    struct json_writer writer;

    server_notify_begin(server, &writer, "notifications/resources/updated");
    write_subscription_id(&writer, watch->owner);
    json_member_string(&writer, "uri", watch->uri);
    server_notify_end(server, &writer);
}

static void tell_task(struct watch *watch, const struct json_value *view)
{
    struct server *server = call_server(watch->call);
    struct json_writer writer;

    if (watch->owner->id.data) {
        server_notify_begin(server, &writer, "notifications/tasks");
        write_subscription_id(&writer, watch->owner);
        task_write_detailed(&writer, view);
    } else {
        server_notify_begin(server, &writer, "notifications/tasks/status");
        task_write(&writer, view, &era_legacy, task_status_of(view));
    }
    server_notify_end(server, &writer);
}

/* A task's notification holds how it stands, which is asked first. */
static void tell(struct watch *watch)
{
    watch->changed = false;
    watch->told_ms = call_now_ms(watch->call);
    if (watch->uri) {
        tell_resource(watch);
        return;
    }
    watch->step = WATCH_TELLING;
    call_ask_run(watch->call, METHOD_RUN_GET, watch->resource.id);
}

/* At once, or when the pause after the last time is over. */
static void tell_soon(struct watch *watch)
{
    uint64_t now = call_now_ms(watch->call);
    uint64_t at = watch->told_ms ? watch->told_ms + PAUSE_MS : now;

    watch->changed = true;
    watch->call->due_ms = at > now ? at : now;
}

/* Watching ------------------------------------------------------------------------------------- */

static bool is_ended(const struct json_value *view)
{
    return task_is_final(task_status_of(view));
}

/* What changed while the session was not followed isn't known, so it is told that something may
 * have. */
static void follow_session(struct watch *watch)
{
    watch->step = WATCH_FOLLOWING;
    watch->heard = false;
    call_follow_session(watch->call, watch->resource.id);
    if (watch->known)
        tell_soon(watch);
    watch->known = true;
}

static void on_begin(struct call *call)
{
    struct watch *watch = call->state;

    watch->call = call; /* it may begin before calls_start returns */
    watch->retrying = false;
    if (watch->resource.kind == RESOURCE_SESSION) {
        follow_session(watch);
        return;
    }
    watch->step = WATCH_LOOKING;
    call_ask_run(call, METHOD_RUN_GET, watch->resource.id);
}

static void follow(struct watch *watch, const struct json_value *view)
{
    watch->step = WATCH_FOLLOWING;
    watch->heard = false;
    if (!is_ended(view))
        call_follow(watch->call, watch->resource.id, watch->cursor);
}

static void on_reply(struct call *call, const struct json_value *reply)
{
    struct watch *watch = call->state;
    uint64_t cursor = json_u64(json_get(reply, "cursor"), 0);

    if (watch->step == WATCH_TELLING) {
        watch->step = WATCH_FOLLOWING;
        tell_task(watch, reply);
        if (is_ended(reply) && !watch->owner->id.data)
            call_end(call); /* nobody unsubscribes from it */
        return;
    }
    if (watch->step != WATCH_LOOKING)
        return;
    /* Who waits for the end of a task that has ended already is told so. */
    if (watch->known ? cursor > watch->cursor : !watch->uri && is_ended(reply))
        tell_soon(watch);
    watch->known = true;
    watch->cursor = cursor;
    follow(watch, reply);
}

static void retry(struct watch *watch)
{
    watch->retrying = true;
    watch->call->due_ms = call_now_ms(watch->call) + RETRY_MS;
}

static void on_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    (void)err;
    if (fate == CALL_IMPOSSIBLE || fate == CALL_REFUSED)
        call_end(call);
    else
        retry(call->state);
}

/* What the event changes of what is watched. */
static bool concerns(const struct watch *watch, const struct json_value *event)
{
    bool state =
        str_equal(json_string(json_get(event, "kind")), event_kind_names[EVENT_KIND_STATE]);

    if (watch->resource.kind == RESOURCE_SESSION)
        return true;
    if (!watch->uri)
        return state;
    if (watch->resource.kind == RESOURCE_DIFF)
        return state && is_ended(json_get(event, "data"));
    return true;
}

static void on_event(struct call *call, const struct json_value *event)
{
    struct watch *watch = call->state;

    if (event) {
        watch->heard = true;
        watch->cursor = json_u64(json_get(event, "number"), watch->cursor); /* a run's */
        if (concerns(watch, event))
            tell_soon(watch);
    } else if (watch->resource.kind == RESOURCE_SESSION) { /* deleted, or there never was one */
        if (watch->heard)
            tell_resource(watch);
        call_end(call);
    } else if (watch->heard) { /* the run has ended, as a look will show */
        watch->step = WATCH_LOOKING;
        call_ask_run(call, METHOD_RUN_GET, watch->resource.id);
    } else {
        retry(watch);
    }
}

static void on_due(struct call *call)
{
    struct watch *watch = call->state;

    if (watch->retrying)
        call_again(call);
    else if (watch->changed && watch->step == WATCH_FOLLOWING)
        tell(watch);
    else if (watch->changed)
        call->due_ms = call_now_ms(call) + PAUSE_MS;
}

static void free_watch(void *data)
{
    struct watch *watch = data;

    list_remove(&watch->link);
    free(watch->uri);
    free(watch);
}

static const struct call_form form = {
    .begin = on_begin,
    .reply = on_reply,
    .fail = on_fail,
    .event = on_event,
    .due = on_due,
    .free_state = free_watch,
};

/* False when so much is watched already. */
static bool watch_start(struct subscriptions *subscriptions, struct subscription *owner,
                        const struct resource *resource, const char *uri)
{
    struct watch *watch = NEW(struct watch);
    struct call *call;

    watch->owner = owner;
    watch->resource = *resource;
    watch->uri = mem_strdup(uri);
    list_append(&owner->watches, &watch->link);
    call = calls_start(server_calls(subscriptions->server), NULL, &form, watch);
    if (!call)
        return false;
    watch->call = call;
    return true;
}

static void end_watches(struct subscription *subscription)
{
    LIST_EACH(&subscription->watches, link)
        call_end(watch_of(link)->call);
}

/* Life ----------------------------------------------------------------------------------------- */

struct subscriptions *subscriptions_new(struct server *server)
{
    struct subscriptions *subscriptions = NEW(struct subscriptions);

    subscriptions->server = server;
    list_init(&subscriptions->open);
    list_init(&subscriptions->legacy.watches);
    return subscriptions;
}

static void close_one(struct subscriptions *subscriptions, struct subscription *subscription)
{
    end_watches(subscription);
    list_remove(&subscription->link);
    free((char *)(uintptr_t)subscription->id.data);
    free(subscription);
    subscriptions->count--;
}

void subscriptions_free(struct subscriptions *subscriptions)
{
    LIST_EACH(&subscriptions->open, link)
        close_one(subscriptions, subscription_of(link));
    end_watches(&subscriptions->legacy);
    free(subscriptions);
}

void subscriptions_close(struct subscriptions *subscriptions, struct jsonrpc_slice id)
{
    LIST_EACH(&subscriptions->open, link)
        if (jsonrpc_slice_equal(subscription_of(link)->id, id))
            close_one(subscriptions, subscription_of(link));
}

/* Legacy --------------------------------------------------------------------------------------- */

static bool can_be_watched(const char *uri, struct resource *resource)
{
    return resource_parse(uri, resource) && resource->kind != RESOURCE_VIEW;
}

static struct watch *find_watch(struct subscription *subscription, const char *uri)
{
    LIST_EACH(&subscription->watches, link)
        if (str_equal(watch_of(link)->uri, uri))
            return watch_of(link);
    return NULL;
}

void subscriptions_watch_task(struct server *server, const char *run_id)
{
    struct subscriptions *subscriptions = server_subscriptions(server);
    struct resource resource = { .kind = RESOURCE_RESULT };

    str_copy(resource.id, sizeof(resource.id), run_id);
    watch_start(subscriptions, &subscriptions->legacy, &resource, NULL);
}

void subscriptions_on_subscribe(struct server *server, const struct request *request)
{
    struct subscriptions *subscriptions = server_subscriptions(server);
    const char *uri = json_string(request_param(request, "uri"));
    struct resource resource;

    if (!uri)
        server_refuse_params(server, request, "params.uri must be a string");
    else if (!resource_parse(uri, &resource))
        resources_refuse(server, &request->target, uri);
    else if (can_be_watched(uri, &resource) && !find_watch(&subscriptions->legacy, uri) &&
             !watch_start(subscriptions, &subscriptions->legacy, &resource, uri))
        server_refuse(server, &request->target, JSONRPC_INTERNAL_ERROR,
                      "too much is subscribed to, or there is no supervisor", NULL);
    else
        server_acknowledge(server, &request->target);
}

void subscriptions_on_unsubscribe(struct server *server, const struct request *request)
{
    const char *uri = json_string(request_param(request, "uri"));
    struct watch *watch = uri ? find_watch(&server_subscriptions(server)->legacy, uri) : NULL;

    if (!uri) {
        server_refuse_params(server, request, "params.uri must be a string");
        return;
    }
    if (watch)
        call_end(watch->call);
    server_acknowledge(server, &request->target);
}

/* Modern --------------------------------------------------------------------------------------- */

static struct subscription *open_one(struct subscriptions *subscriptions, struct jsonrpc_slice id)
{
    struct subscription *subscription = NEW(struct subscription);

    subscription->id.data = mem_strndup(id.data, id.len);
    subscription->id.len = id.len;
    list_init(&subscription->watches);
    list_append(&subscriptions->open, &subscription->link);
    subscriptions->count++;
    return subscription;
}

/* Starts what is asked for and can be honoured, and writes it as member NAME. */
static void accept(struct subscriptions *subscriptions, struct subscription *subscription,
                   struct json_writer *writer, const struct json_value *filter, const char *name)
{
    const struct json_value *wanted = json_get(filter, name);
    bool tasks = strcmp(name, "taskIds") == 0;

    if (json_kind(wanted) != JSON_KIND_ARRAY)
        return;
    json_write_name(writer, name);
    json_write_array(writer);
    for (const struct json_value *one = json_first(wanted); one; one = json_next(one)) {
        const char *text = json_string(one);
        struct resource resource = { .kind = RESOURCE_RESULT };

        if (!text || !(tasks ? tasks_is_id(text) : can_be_watched(text, &resource)))
            continue;
        if (tasks)
            str_copy(resource.id, sizeof(resource.id), text);
        if (watch_start(subscriptions, subscription, &resource, tasks ? NULL : text))
            json_write_string(writer, text);
    }
    json_write_array_end(writer);
}

/* Clients open a subscription right after discovery and wait for this, also where nothing can be
 * honoured. */
static void acknowledge(struct subscriptions *subscriptions, struct subscription *subscription,
                        const struct json_value *filter)
{
    struct json_writer writer;

    server_notify_begin(subscriptions->server, &writer, "notifications/subscriptions/acknowledged");
    write_subscription_id(&writer, subscription);
    json_write_name(&writer, "notifications");
    json_write_object(&writer);
    accept(subscriptions, subscription, &writer, filter, "resourceSubscriptions");
    accept(subscriptions, subscription, &writer, filter, "taskIds");
    json_write_object_end(&writer);
    server_notify_end(subscriptions->server, &writer);
}

void subscriptions_on_listen(struct server *server, const struct request *request)
{
    struct subscriptions *subscriptions = server_subscriptions(server);
    const struct json_value *filter = request_param(request, "notifications");

    if (json_kind(filter) != JSON_KIND_OBJECT)
        server_refuse_params(server, request, "params.notifications must be an object");
    else if (json_get(filter, "taskIds") && tasks_refuse_undeclared(server, request) < 0)
        return;
    else if (subscriptions->count >= OPEN_MAX)
        server_refuse(server, &request->target, JSONRPC_INTERNAL_ERROR,
                      "too many subscriptions are open", NULL);
    else
        acknowledge(subscriptions, open_one(subscriptions, request->target.id), filter);
}
