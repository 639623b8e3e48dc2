// links: supervisor_store
/* Whatever bytes a record has on disk: decoding fails with ERR_BUG or gives a record whose encoding
 * decodes to the same again. The first byte of the input chooses the kind of record. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "store/record.h"

#define OUTPUT_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int decode(const void *data, size_t len, struct buf *out, unsigned kind, struct error *err)
{
    union {
        struct run_record run;
        struct session_record session;
        struct event_record event;
        struct audit_record audit;
        struct checkpoint_record checkpoint;
    } record;
    int result = 0;

    switch (kind) {
    case 0:
        run_record_init(&record.run);
        result = run_record_decode(data, len, &record.run, err);
        run_record_encode(&record.run, out);
        run_record_finish(&record.run);
        break;
    case 1:
        session_record_init(&record.session);
        result = session_record_decode(data, len, &record.session, err);
        session_record_encode(&record.session, out);
        session_record_finish(&record.session);
        break;
    case 2:
        event_record_init(&record.event);
        result = event_record_decode(data, len, &record.event, err);
        event_record_encode(&record.event, out);
        event_record_finish(&record.event);
        break;
    case 4:
        checkpoint_record_init(&record.checkpoint);
        record.checkpoint.number = UINT32_MAX;
        result = checkpoint_record_decode(data, len, &record.checkpoint, err);
        checkpoint_record_encode(&record.checkpoint, out);
        checkpoint_record_finish(&record.checkpoint);
        break;
    default:
        audit_record_init(&record.audit);
        result = audit_record_decode(data, len, &record.audit, err);
        audit_record_encode(&record.audit, out);
        audit_record_finish(&record.audit);
        break;
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf first = { 0 };
    AUTO_BUF struct buf second = { 0 };

    if (size == 0)
        return 0;
    buf_init(&first, OUTPUT_MAX);
    buf_init(&second, OUTPUT_MAX);
    unsigned kind = data[0] & 7;
    if (decode(data + 1, size - 1, &first, kind, &err) < 0) {
        BUG_ON(err.code != ERR_BUG);
        return 0;
    }
    BUG_ON(decode(first.data, first.len, &second, kind, &err) < 0);
    BUG_ON(first.len != second.len || memcmp(first.data, second.data, first.len) != 0);
    return 0;
}
