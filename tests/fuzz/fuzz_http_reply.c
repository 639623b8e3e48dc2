// links: supervisor_http
/* An upstream's bytes: however they are cut into pieces, the same is read, and nothing behind the
 * answer's end is taken for a part of it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "http/http.h"

#define BODY_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct buf body;
    int status;
    size_t used;
    int result;
    bool done;
    bool kept;
};

static void on_head(void *data, const struct http_response_head *head)
{
    struct seen *seen = data;

    BUG_ON(seen->status != 0 || head->status < 200);
    seen->status = head->status;
}

static void on_body(void *data, const char *bytes, size_t len)
{
    struct seen *seen = data;

    BUG_ON(seen->status == 0 || len == 0);
    buf_append(&seen->body, bytes, len);
}

static void read_all(struct seen *seen, const char *method, const char *data, size_t size,
                     size_t step)
{
    struct error err = ERROR_INIT;
    struct http_reply reply;

    *seen = (struct seen){ .body = BUF_INIT(BODY_MAX) };
    http_reply_init(&reply, method);
    reply.on_head = on_head;
    reply.on_body = on_body;
    reply.data = seen;
    while (seen->used < size && seen->result == 0 && !reply.done) {
        size_t used = 0;
        size_t piece = size - seen->used < step ? size - seen->used : step;

        seen->result = http_reply_feed(&reply, data + seen->used, piece, &used, &err);
        BUG_ON(used > piece);
        seen->used += used;
    }
    seen->done = reply.done;
    seen->kept = reply.kept;
    http_reply_finish(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *method = size > 0 && data[0] == 'h' ? "HEAD" : "GET";
    struct seen whole;
    struct seen cut;

    if (size > 0 && data[0] == 'h')
        text++, size--;
    read_all(&whole, method, text, size, size + 1);
    read_all(&cut, method, text, size, 1);
    /* In one piece the error may be found before the answer that is in front of it is complete. */
    BUG_ON(whole.result != cut.result || whole.status != cut.status || whole.done != cut.done);
    BUG_ON(whole.body.len != cut.body.len ||
           (whole.body.len > 0 && memcmp(whole.body.data, cut.body.data, whole.body.len) != 0));
    BUG_ON(whole.result == 0 && (whole.used != cut.used || whole.kept != cut.kept));
    buf_finish(&whole.body);
    buf_finish(&cut.body);
    return 0;
}
