/* on_files.c: files.take. */
#include "control/internal.h"
#include "proto/msg_out.h"
#include "run/take.h"

#define TAKE_MAX_DEFAULT (UINT64_C(4) << 30)

_Static_assert((int)TAKE_LIST == (int)FILES_LIST && (int)TAKE_FILE == (int)FILES_READ &&
                   (int)TAKE_TAR == (int)FILES_ARCHIVE && (int)TAKE_BUNDLE == (int)FILES_BUNDLE &&
                   (int)TAKE_PATCH == (int)FILES_PATCH && TAKE_HAVE_MAX == FILES_HAVE_MAX,
               "one set of things to take");

struct taking {
    struct request *request;
    struct take *take;
    bool begun;
    uint64_t bytes;
};

static void on_drop(struct request *request)
{
    struct taking *taking = request->state;

    take_cancel(taking->take);
    free(taking);
}

static void on_drain(struct request *request)
{
    struct taking *taking = request->state;

    take_resume(taking->take);
}

static void on_begin(void *data, const struct take_source *source)
{
    struct taking *taking = data;
    AUTO_BUF struct buf body = BUF_INIT(64u << 10);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "sessionId", source->session);
    json_member_string(&writer, "directory", source->directory);
    json_member_string_opt(&writer, "repository", source->repository);
    json_member_string_opt(&writer, "branch", source->branch);
    json_member_string_opt(&writer, "headCommit", source->head);
    json_member_string_opt(&writer, "baseCommit", source->base);
    json_member_u64(&writer, "uncommitted", source->uncommitted);
    json_write_object_end(&writer);
    taking->begun = true;
    request_reply_open(taking->request, &body);
}

static void on_bytes(void *data, const char *bytes, size_t len)
{
    struct taking *taking = data;
    bool room = true;

    taking->bytes += len;
    while (len > 0) {
        size_t piece = len < FRAME_BLOB_MAX ? len : FRAME_BLOB_MAX;

        room = request_event_blob(taking->request, bytes, piece);
        bytes += piece;
        len -= piece;
    }
    if (!room)
        take_pause(taking->take);
}

static void write_end(const struct taking *taking, bool truncated, const struct error *err,
                      struct buf *body)
{
    struct json_writer writer;

    json_write_init(&writer, body);
    json_write_object(&writer);
    if (err != NULL) {
        json_write_name(&writer, "error");
        json_write_object(&writer);
        json_member_string(&writer, "code", error_code_name(err->code));
        json_member_string(&writer, "message", err->text);
        json_write_object_end(&writer);
    } else {
        json_member_u64(&writer, "bytes", taking->bytes);
        json_member_bool(&writer, "truncated", truncated);
    }
    json_write_object_end(&writer);
}

static void on_end(void *data, bool truncated, const struct error *err)
{
    struct taking *taking = data;
    AUTO_BUF struct buf body = BUF_INIT(4096);

    if (err != NULL && !taking->begun) {
        request_fail(taking->request, err);
    } else {
        write_end(taking, truncated, err, &body);
        request_end(taking->request, &body);
    }
    free(taking);
}

/* HAVE has room for TAKE_HAVE_MAX; its strings are borrowed from the request. */
static int read_have(const struct json_value *value, const char *have[], size_t *count,
                     struct error *err)
{
    *count = 0;
    if (value == NULL)
        return 0;
    if (json_kind(value) != JSON_KIND_ARRAY || json_count(value) > TAKE_HAVE_MAX)
        return error_argument(err, "have", "an array of at most %u names of commits",
                              TAKE_HAVE_MAX);
    for (const struct json_value *item = json_first(value); item != NULL; item = json_next(item)) {
        have[*count] = json_string(item);
        if (have[(*count)++] == NULL)
            return error_argument(err, "have", "an array of names of commits");
    }
    return 0;
}

void on_files_take(struct request *request)
{
    const struct take_callbacks callbacks = {
        .on_begin = on_begin, .on_bytes = on_bytes, .on_end = on_end, .data = NEW(struct taking)
    };
    struct files_take_params params = { .maxBytes = TAKE_MAX_DEFAULT };
    struct taking *taking = callbacks.data;
    const char *have[TAKE_HAVE_MAX + 1];
    struct take_options options = { .have = have };
    struct error err = ERROR_INIT;
    struct run_record run;
    struct id session;

    if (request_read(request, files_take_fields, &params) < 0) {
        free(taking);
        return;
    }
    taking->request = request;
    options.what = (enum take_what)params.what;
    options.path = params.path != NULL ? params.path : "";
    options.max_bytes = params.maxBytes;
    run_record_init(&run);
    if (session_by_text(request->control, params.runId, params.sessionId, &run, &session, &err) ==
        0) {
        options.session = &session;
        options.run = run.id.text[0] != '\0' ? &run.id : NULL;
        if (read_have(params.have, have, &options.have_count, &err) == 0)
            take_start(&taking->take, request->control->runs, &options, &callbacks, &err);
    }
    run_record_finish(&run);
    if (err.code != ERR_NONE) {
        free(taking);
        request_fail(request, &err);
        return;
    }
    request->state = taking;
    request->drop = on_drop;
    request->drain = on_drain;
}
