// links: sandbox_proto
/* Bytes as they come over the socket: frames, and in those of kind JSON an envelope. What was read
 * must be written so that it reads the same. */
#include "proto/frame.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/str.h"
#include "proto/envelope.h"
#include "proto/methods.h"
#include "proto/msg_run.h"
#include "proto/msg_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static int append_again(struct buf *out, const struct envelope *envelope, const char *body,
                        struct error *err)
{
    switch (envelope->kind) {
    case ENVELOPE_REQUEST:
        return envelope_append_request(out, envelope->id, envelope->method, body, err);
    case ENVELOPE_REPLY:
        return envelope_append_reply(out, envelope->id, body, err);
    case ENVELOPE_ERROR:
        return envelope_append_error(out, envelope->id, &envelope->error, err);
    case ENVELOPE_EVENT:
        return envelope_append_event(out, envelope->id, body, err);
    case ENVELOPE_END:
        return envelope_append_end(out, envelope->id, body, err);
    case ENVELOPE_CANCEL:
        break;
    }
    return envelope_append_cancel(out, envelope->id, err);
}

static void check_round_trip(const struct envelope *envelope)
{
    AUTO_BUF struct buf body = BUF_INIT(FRAME_JSON_MAX);
    AUTO_BUF struct buf out = BUF_INIT(2 * FRAME_JSON_MAX);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    struct envelope again;
    struct frame frame;

    if (envelope->body)
        json_append(&body, envelope->body);
    if (append_again(&out, envelope, envelope->body ? buf_text(&body) : NULL, &err) < 0)
        return;
    require(frame_parse(out.data, out.len, &frame, &err) == (long)out.len);
    require(json_parse(&doc, frame.data, frame.len, FRAME_JSON_MAX, &err) == 0);
    require(envelope_read(doc, &again, &err) == 0);
    require(again.kind == envelope->kind && again.id == envelope->id);
    require(str_equal(again.method, envelope->method));
}

/* What the daemon reads params with. */
static void read_params(const struct envelope *envelope)
{
    struct error err = ERROR_INIT;
    struct run_create_params create = { .task = NULL };
    struct run_list_params list = { .status = RUN_STATUS_COUNT };
    struct hello_params hello = { 0 };

    if (envelope->kind != ENVELOPE_REQUEST || !envelope->body)
        return;
    method_find(envelope->method);
    json_read(envelope->body, run_create_fields, JSON_STRICT, &create, &err);
    json_read(envelope->body, run_list_fields, JSON_STRICT, &list, &err);
    json_read(envelope->body, hello_params_fields, JSON_STRICT, &hello, &err);
}

/* What a peek takes for a reply whose body can be read is one, to whoever reads all of it. Only its
 * depth may then be one too much. */
static void check_peek(const struct frame *frame)
{
    AUTO_JSON struct json_doc *part = NULL;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    struct envelope envelope;
    const char *body;
    uint64_t id;
    size_t len;

    if (!envelope_peek_reply(frame->data, frame->len, &id, &body, &len))
        return;
    require(body > frame->data && body + len == frame->data + frame->len - 1);
    if (json_parse(&part, body, len, FRAME_JSON_MAX, &err) < 0)
        return;
    if (json_parse(&doc, frame->data, frame->len, FRAME_JSON_MAX, &err) < 0) {
        require(err.code == ERR_LIMIT);
        return;
    }
    require(envelope_read(doc, &envelope, &err) == 0);
    require(envelope.kind == ENVELOPE_REPLY && envelope.id == id);
}

static void check_json(const struct frame *frame)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    struct envelope envelope;

    if (json_parse(&doc, frame->data, frame->len, FRAME_JSON_MAX, &err) < 0 ||
        envelope_read(doc, &envelope, &err) < 0)
        return;
    read_params(&envelope);
    check_round_trip(&envelope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data;
    struct error err = ERROR_INIT;
    struct frame frame;
    long used;

    while ((used = frame_parse(at, size, &frame, &err)) > 0) {
        require((size_t)used <= size && used == FRAME_HEAD_SIZE + (long)frame.len);
        if (frame.kind == FRAME_KIND_JSON) {
            check_peek(&frame);
            check_json(&frame);
        }
        at += used;
        size -= (size_t)used;
    }
    return 0;
}
