/* on_retention.c: retention.run. */
#include "control/pending.h"
#include "proto/msg_session.h"

struct choosing {
    struct pending pending;
    bool dry_run;
};

static void write_one(struct json_writer *writer, const struct retained *one)
{
    const struct retained_view view = {
        .sessionId = one->mirror ? NULL : one->id.text,
        .title = one->mirror ? NULL : one->title,
        .repository = one->mirror ? one->title : NULL,
        .updatedAt = one->used_ms,
        .bytes = one->bytes,
        .reason = one->by_age ? "age" : "disk",
        .removed = one->removed,
    };

    retained_view_write(writer, &view);
}

static void write_all(struct json_writer *writer, const struct retained *const *all, size_t count)
{
    static const char *const names[] = { "sessions", "mirrors" };

    for (size_t kind = 0; kind < ARRAY_LEN(names); kind++) {
        json_write_name(writer, names[kind]);
        json_write_array(writer);
        for (size_t i = 0; i < count; i++) {
            if (all[i]->mirror == (kind == 1))
                write_one(writer, all[i]);
        }
        json_write_array_end(writer);
    }
}

static void on_chosen(void *data, const struct retained *const *all, size_t count)
{
    struct choosing *choosing = data;
    struct request *request = choosing->pending.request;
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct json_writer writer;

    if (request != NULL) {
        json_write_init(&writer, &body);
        json_write_object(&writer);
        json_member_bool(&writer, "dryRun", choosing->dry_run);
        write_all(&writer, all, count);
        json_write_object_end(&writer);
        request_reply(request, &body);
    }
    free(choosing);
}

void on_retention_run(struct request *request)
{
    struct retention_params params = { 0 };
    struct error err = ERROR_INIT;
    struct choosing *choosing;
    int rc;

    if (request_read(request, retention_fields, &params) < 0)
        return;
    choosing = NEW(struct choosing);
    pending_init(&choosing->pending, request);
    choosing->dry_run = params.dryRun;
    rc = retention_run(request->control->runs, params.dryRun ? RETENTION_LOOK : RETENTION_REMOVE,
                       on_chosen, choosing, &err);
    pending_begun(&choosing->pending, rc, &err);
}
