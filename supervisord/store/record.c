#include "store/record.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* One table a record drives init, finish, copy, encode and decode. A tag is never used again for
 * another meaning, and a new field gets a tag above all others: fields are written in the order of
 * rising tags. */
enum field_kind {
    FIELD_STRING,  /* char *: the bytes without NUL */
    FIELD_U32,     /* little-endian, no leading zero bytes, so 0 to 4 */
    FIELD_U64,     /* the same, 0 to 8 */
    FIELD_BOOL,    /* one byte, 1; absent for false */
    FIELD_RUN,     /* struct id: its text */
    FIELD_SESSION, /* struct id: its text */
    FIELD_HASH,    /* uint8_t[32] */
};

struct field {
    uint8_t tag; /* 1..255, rising; 0 ends a record */
    enum field_kind kind;
    size_t offset;
};

struct layout {
    const char *name;
    const struct field *fields;
    size_t count;
};

enum { VERSION = 1, HASH_SIZE = 32, ID_LEN = ID_SIZE - 1 };

#define TYPED(type, member, ctype) _Generic(((type *)0)->member, ctype : offsetof(type, member))
#define STRING(tag, type, member)                                                                  \
    {                                                                                              \
        tag, FIELD_STRING, TYPED(type, member, char *)                                             \
    }
#define U32(tag, type, member)                                                                     \
    {                                                                                              \
        tag, FIELD_U32, TYPED(type, member, uint32_t)                                              \
    }
#define U64(tag, type, member)                                                                     \
    {                                                                                              \
        tag, FIELD_U64, TYPED(type, member, uint64_t)                                              \
    }
#define BOOL(tag, type, member)                                                                    \
    {                                                                                              \
        tag, FIELD_BOOL, TYPED(type, member, bool)                                                 \
    }
#define RUN(tag, type, member)                                                                     \
    {                                                                                              \
        tag, FIELD_RUN, TYPED(type, member, struct id)                                             \
    }
#define SESSION(tag, type, member)                                                                 \
    {                                                                                              \
        tag, FIELD_SESSION, TYPED(type, member, struct id)                                         \
    }

static const struct field run_fields[] = {
    RUN(1, struct run_record, id),
    SESSION(2, struct run_record, session),
    U32(3, struct run_record, state),
    U32(4, struct run_record, outcome),
    STRING(5, struct run_record, task),
    STRING(6, struct run_record, title),
    STRING(7, struct run_record, agent),
    STRING(8, struct run_record, model),
    STRING(9, struct run_record, repository),
    STRING(10, struct run_record, branch),
    STRING(11, struct run_record, verdict),
    STRING(12, struct run_record, output),
    U64(13, struct run_record, created_ms),
    U64(14, struct run_record, started_ms),
    U64(15, struct run_record, updated_ms),
    U64(16, struct run_record, ended_ms),
    U64(17, struct run_record, timeout_ms),
    U64(18, struct run_record, deadline_ms),
    U64(19, struct run_record, last_event),
    STRING(20, struct run_record, idempotency_key),
    { 21, FIELD_HASH, offsetof(struct run_record, request_hash) },
    STRING(22, struct run_record, prompt_id),
    STRING(23, struct run_record, error.code),
    STRING(24, struct run_record, error.phase),
    STRING(25, struct run_record, error.message),
    STRING(26, struct run_record, error.hint),
    BOOL(27, struct run_record, error.retryable),
    BOOL(28, struct run_record, evidence.known),
    STRING(29, struct run_record, evidence.branch),
    STRING(30, struct run_record, evidence.base_commit),
    STRING(31, struct run_record, evidence.head_commit),
    U64(32, struct run_record, evidence.commits),
    U64(33, struct run_record, evidence.files_changed),
    U64(34, struct run_record, evidence.insertions),
    U64(35, struct run_record, evidence.deletions),
    U64(36, struct run_record, evidence.untracked),
    U64(37, struct run_record, evidence.refused_requests),
    STRING(38, struct run_record, evidence.finish_reason),
    BOOL(39, struct run_record, evidence.diff_truncated),
    U64(40, struct run_record, usage.input_tokens),
    U64(41, struct run_record, usage.output_tokens),
    U64(42, struct run_record, usage.cache_read_tokens),
    U64(43, struct run_record, usage.cache_write_tokens),
    U64(44, struct run_record, usage.requests),
    U64(45, struct run_record, usage.cost_microdollars),
    { 46, FIELD_HASH, offsetof(struct run_record, token_hash) },
    U32(47, struct run_record, agent_process),
    STRING(48, struct run_record, isolation),
    U64(49, struct run_record, error.retry_at_ms),
    U64(50, struct run_record, usage.failed_requests),
    STRING(51, struct run_record, evidence.left_running),
    U32(60, struct run_record, place),
    STRING(61, struct run_record, evidence.warnings),
    STRING(62, struct run_record, evidence.remote_state),
    STRING(63, struct run_record, evidence.remote_commit),
    U64(64, struct run_record, evidence.binary_files),
    U64(65, struct run_record, evidence.renames),
    U64(66, struct run_record, evidence.submodules),
    U64(80, struct run_record, usage.counted_tokens),
    U64(81, struct run_record, usage.counted_microdollars),
    STRING(83, struct run_record, evidence.start_tree),
    U64(90, struct run_record, notice_due),
};

/* The first place has the tags from before there were more. */
#define PLACE_OF(base, type, number)                                                               \
    STRING(base, type, places[number].repository),                                                 \
        STRING((base) + 1, type, places[number].branch),                                           \
        STRING((base) + 2, type, places[number].directory),                                        \
        STRING((base) + 3, type, places[number].base_commit),                                      \
        BOOL((base) + 4, type, places[number].cloned),                                             \
        BOOL((base) + 5, type, places[number].set_up),                                             \
        STRING((base) + 6, type, places[number].agent),                                            \
        STRING((base) + 7, type, places[number].agent_session)
#define PLACE(base, number) PLACE_OF(base, struct session_record, number)

static const struct field session_fields[] = {
    SESSION(1, struct session_record, id),
    STRING(2, struct session_record, title),
    STRING(3, struct session_record, places[0].repository),
    STRING(4, struct session_record, places[0].branch),
    STRING(5, struct session_record, places[0].directory),
    STRING(6, struct session_record, places[0].base_commit),
    STRING(7, struct session_record, places[0].agent),
    STRING(8, struct session_record, places[0].agent_session),
    U32(9, struct session_record, host_uid),
    BOOL(10, struct session_record, places[0].cloned),
    U64(11, struct session_record, created_ms),
    U64(12, struct session_record, updated_ms),
    U64(13, struct session_record, run_count),
    RUN(14, struct session_record, last_run),
    BOOL(15, struct session_record, places[0].set_up),
    U32(16, struct session_record, place_count),
    U32(17, struct session_record, place),
    STRING(18, struct session_record, pushed),
    STRING(60, struct session_record, places[0].work_branch),
    STRING(61, struct session_record, places[1].work_branch),
    STRING(62, struct session_record, places[2].work_branch),
    STRING(63, struct session_record, places[3].work_branch),
    STRING(64, struct session_record, places[4].work_branch),
    STRING(65, struct session_record, places[5].work_branch),
    STRING(66, struct session_record, places[6].work_branch),
    STRING(67, struct session_record, places[7].work_branch),
    STRING(70, struct session_record, pull_url),
    U64(71, struct session_record, pull_number),
    STRING(72, struct session_record, pull_repository),
    STRING(73, struct session_record, pull_branch),
    STRING(74, struct session_record, pull_base),
    BOOL(80, struct session_record, held),
    BOOL(81, struct session_record, making),
    U32(82, struct session_record, restoring),
    SESSION(83, struct session_record, forked_from),
    U32(84, struct session_record, forked_number),
    U64(85, struct session_record, disk_bytes),
    U64(86, struct session_record, checkpoint_bytes),
    PLACE(100, 1),
    PLACE(108, 2),
    PLACE(116, 3),
    PLACE(124, 4),
    PLACE(132, 5),
    PLACE(140, 6),
    PLACE(148, 7),
    STRING(160, struct session_record, places[0].tree),
    STRING(161, struct session_record, places[1].tree),
    STRING(162, struct session_record, places[2].tree),
    STRING(163, struct session_record, places[3].tree),
    STRING(164, struct session_record, places[4].tree),
    STRING(165, struct session_record, places[5].tree),
    STRING(166, struct session_record, places[6].tree),
    STRING(167, struct session_record, places[7].tree),
};
_Static_assert(SESSION_PLACES_MAX == 8, "each place has its tags");

/* Without number: it is part of the key. */
static const struct field checkpoint_fields[] = {
    U32(1, struct checkpoint_record, chain),    U32(2, struct checkpoint_record, reason),
    U64(3, struct checkpoint_record, time_ms),  RUN(4, struct checkpoint_record, run),
    U64(5, struct checkpoint_record, bytes),    U64(6, struct checkpoint_record, entries),
    U64(7, struct checkpoint_record, left_out), U32(8, struct checkpoint_record, place_count),
    U32(9, struct checkpoint_record, place),    PLACE_OF(100, struct checkpoint_record, 0),
    PLACE_OF(108, struct checkpoint_record, 1), PLACE_OF(116, struct checkpoint_record, 2),
    PLACE_OF(124, struct checkpoint_record, 3), PLACE_OF(132, struct checkpoint_record, 4),
    PLACE_OF(140, struct checkpoint_record, 5), PLACE_OF(148, struct checkpoint_record, 6),
    PLACE_OF(156, struct checkpoint_record, 7),
};

static const struct field event_fields[] = {
    U64(1, struct event_record, time_ms), U32(2, struct event_record, kind),
    STRING(3, struct event_record, text), STRING(4, struct event_record, data),
    STRING(5, struct event_record, key),
};

static const struct field audit_fields[] = {
    U64(1, struct audit_record, time_ms),         RUN(2, struct audit_record, run),
    STRING(3, struct audit_record, service),      STRING(4, struct audit_record, method),
    STRING(5, struct audit_record, host),         STRING(6, struct audit_record, path),
    U32(7, struct audit_record, verdict),         STRING(8, struct audit_record, reason),
    U32(9, struct audit_record, status),          U64(10, struct audit_record, request_bytes),
    U64(11, struct audit_record, response_bytes), U64(12, struct audit_record, milliseconds),
    U64(13, struct audit_record, input_tokens),   U64(14, struct audit_record, output_tokens),
    STRING(15, struct audit_record, detail),      U64(16, struct audit_record, microdollars),
};

static const struct layout run_layout = { "run", run_fields, ARRAY_LEN(run_fields) };
static const struct layout session_layout = { "session", session_fields,
                                              ARRAY_LEN(session_fields) };
static const struct layout checkpoint_layout = { "checkpoint", checkpoint_fields,
                                                 ARRAY_LEN(checkpoint_fields) };
static const struct layout event_layout = { "event", event_fields, ARRAY_LEN(event_fields) };
static const struct layout audit_layout = { "audit", audit_fields, ARRAY_LEN(audit_fields) };

static void *member(void *record, const struct field *field)
{
    return (char *)record + field->offset;
}

static const void *member_const(const void *record, const struct field *field)
{
    return (const char *)record + field->offset;
}

void record_set(char **field, const char *text)
{
    char *copy = mem_strdup(text != NULL ? text : "");

    free(*field);
    *field = copy;
}

static void strings_init(const struct layout *layout, void *record)
{
    for (size_t i = 0; i < layout->count; i++) {
        if (layout->fields[i].kind == FIELD_STRING)
            *(char **)member(record, &layout->fields[i]) = mem_strdup("");
    }
}

static void strings_finish(const struct layout *layout, void *record)
{
    for (size_t i = 0; i < layout->count; i++) {
        if (layout->fields[i].kind == FIELD_STRING) {
            char **text = member(record, &layout->fields[i]);

            free(*text);
            *text = NULL;
        }
    }
}

/* TO is a byte copy of another record, so its strings still are the other's. */
static void strings_copy(const struct layout *layout, void *to)
{
    for (size_t i = 0; i < layout->count; i++) {
        if (layout->fields[i].kind == FIELD_STRING) {
            char **text = member(to, &layout->fields[i]);

            *text = mem_strdup(*text != NULL ? *text : "");
        }
    }
}

/* Encoding ------------------------------------------------------------------------------------ */

static void put_head(struct buf *out, uint8_t tag, size_t len)
{
    uint8_t head[11];
    size_t at = 0;

    head[at++] = tag;
    while (len >= 0x80) {
        head[at++] = (uint8_t)(len | 0x80);
        len >>= 7;
    }
    head[at++] = (uint8_t)len;
    buf_append(out, head, at);
}

static void put_bytes(struct buf *out, uint8_t tag, const void *data, size_t len)
{
    if (len == 0)
        return;
    put_head(out, tag, len);
    buf_append(out, data, len);
}

static void put_number(struct buf *out, uint8_t tag, uint64_t value)
{
    uint8_t bytes[8];
    size_t len = 0;

    for (; value != 0; value >>= 8)
        bytes[len++] = (uint8_t)value;
    put_bytes(out, tag, bytes, len);
}

static void put_string(struct buf *out, uint8_t tag, const char *text)
{
    if (text != NULL)
        put_bytes(out, tag, text, strlen(text));
}

static void put_hash(struct buf *out, uint8_t tag, const uint8_t *hash)
{
    static const uint8_t none[HASH_SIZE];

    if (memcmp(hash, none, HASH_SIZE) != 0)
        put_bytes(out, tag, hash, HASH_SIZE);
}

static void put_field(struct buf *out, const struct field *field, const void *value)
{
    switch (field->kind) {
    case FIELD_STRING:
        put_string(out, field->tag, *(char *const *)value);
        break;
    case FIELD_U32:
        put_number(out, field->tag, *(const uint32_t *)value);
        break;
    case FIELD_U64:
        put_number(out, field->tag, *(const uint64_t *)value);
        break;
    case FIELD_BOOL:
        put_number(out, field->tag, *(const bool *)value ? 1 : 0);
        break;
    case FIELD_RUN:
    case FIELD_SESSION:
        put_string(out, field->tag, ((const struct id *)value)->text);
        break;
    case FIELD_HASH:
        put_hash(out, field->tag, value);
        break;
    }
}

static void encode(const struct layout *layout, const void *record, struct buf *out)
{
    buf_append_char(out, VERSION);
    for (size_t i = 0; i < layout->count; i++)
        put_field(out, &layout->fields[i], member_const(record, &layout->fields[i]));
    buf_append_char(out, 0);
}

/* Decoding ------------------------------------------------------------------------------------ */

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

static bool take_length(struct reader *reader, size_t *len)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift <= 28; shift += 7) {
        if (reader->at == reader->end)
            return false;
        uint8_t byte = *reader->at++;

        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *len = (size_t)value;
            return value <= (uint64_t)(reader->end - reader->at);
        }
    }
    return false;
}

static bool get_number(const uint8_t *data, size_t len, size_t size, uint64_t *out)
{
    uint64_t value = 0;

    if (len == 0 || len > size || data[len - 1] == 0)
        return false;
    for (size_t i = len; i > 0; i--)
        value = value << 8 | data[i - 1];
    *out = value;
    return true;
}

static bool get_id(enum id_kind kind, const uint8_t *data, size_t len, struct id *out)
{
    char text[ID_SIZE];

    if (len != ID_LEN || memchr(data, 0, len) != NULL)
        return false;
    memcpy(text, data, len);
    text[len] = '\0';
    return id_parse(kind, text, out);
}

static bool get_string(const uint8_t *data, size_t len, char **out)
{
    if (len == 0 || memchr(data, 0, len) != NULL)
        return false;
    free(*out);
    *out = mem_strndup((const char *)data, len);
    return true;
}

static bool get_field(const struct field *field, const uint8_t *data, size_t len, void *value)
{
    uint64_t number;

    switch (field->kind) {
    case FIELD_STRING:
        return get_string(data, len, value);
    case FIELD_U32:
        if (!get_number(data, len, sizeof(uint32_t), &number))
            return false;
        *(uint32_t *)value = (uint32_t)number;
        return true;
    case FIELD_U64:
        return get_number(data, len, sizeof(uint64_t), value);
    case FIELD_BOOL:
        if (len != 1 || data[0] != 1)
            return false;
        *(bool *)value = true;
        return true;
    case FIELD_RUN:
        return get_id(ID_KIND_RUN, data, len, value);
    case FIELD_SESSION:
        return get_id(ID_KIND_SESSION, data, len, value);
    case FIELD_HASH:
        if (len != HASH_SIZE)
            return false;
        memcpy(value, data, len);
        return true;
    }
    return false;
}

/* Tags rise strictly, so one pass over the table finds each; a tag that is not in it belongs to a
 * newer program. */
static bool decode_fields(const struct layout *layout, struct reader *reader, void *record)
{
    size_t next = 0;
    unsigned last_tag = 0;

    while (reader->at < reader->end) {
        uint8_t tag = *reader->at++;
        size_t len;

        if (tag == 0)
            return reader->at == reader->end;
        if (tag <= last_tag || !take_length(reader, &len))
            return false;
        last_tag = tag;
        while (next < layout->count && layout->fields[next].tag < tag)
            next++;
        if (next < layout->count && layout->fields[next].tag == tag) {
            const struct field *field = &layout->fields[next];

            if (!get_field(field, reader->at, len, member(record, field)))
                return false;
        }
        reader->at += len;
    }
    return false;
}

/* RECORD was just initialised. */
static int decode(const struct layout *layout, const void *data, size_t len, void *record,
                  struct error *err)
{
    struct reader reader = { data, (const uint8_t *)data + len };

    if (len == 0)
        return error_set(err, ERR_BUG, 0, "damaged %s record: it is empty", layout->name);
    if (*reader.at != VERSION)
        return error_set(err, ERR_BUG, 0, "damaged %s record: version %u is unknown", layout->name,
                         (unsigned)*reader.at);
    reader.at++;
    if (!decode_fields(layout, &reader, record))
        return error_set(err, ERR_BUG, 0, "damaged %s record: wrong at byte %zu of %zu",
                         layout->name, (size_t)(reader.at - (const uint8_t *)data), len);
    return 0;
}

/* The four records ---------------------------------------------------------------------------- */

void run_record_init(struct run_record *run)
{
    *run = (struct run_record){ 0 };
    strings_init(&run_layout, run);
}

void run_record_finish(struct run_record *run)
{
    strings_finish(&run_layout, run);
}

void run_record_copy(struct run_record *to, const struct run_record *from)
{
    *to = *from;
    strings_copy(&run_layout, to);
}

void session_record_init(struct session_record *session)
{
    *session = (struct session_record){ .place_count = 1 };
    strings_init(&session_layout, session);
}

void session_record_finish(struct session_record *session)
{
    strings_finish(&session_layout, session);
}

void session_record_copy(struct session_record *to, const struct session_record *from)
{
    *to = *from;
    strings_copy(&session_layout, to);
}

void checkpoint_record_init(struct checkpoint_record *checkpoint)
{
    *checkpoint = (struct checkpoint_record){ .place_count = 1 };
    strings_init(&checkpoint_layout, checkpoint);
}

void checkpoint_record_finish(struct checkpoint_record *checkpoint)
{
    strings_finish(&checkpoint_layout, checkpoint);
}

void checkpoint_record_copy(struct checkpoint_record *to, const struct checkpoint_record *from)
{
    *to = *from;
    strings_copy(&checkpoint_layout, to);
}

void event_record_init(struct event_record *event)
{
    *event = (struct event_record){ 0 };
    strings_init(&event_layout, event);
}

void event_record_finish(struct event_record *event)
{
    strings_finish(&event_layout, event);
}

void audit_record_init(struct audit_record *audit)
{
    *audit = (struct audit_record){ 0 };
    strings_init(&audit_layout, audit);
}

void audit_record_finish(struct audit_record *audit)
{
    strings_finish(&audit_layout, audit);
}

void run_record_encode(const struct run_record *run, struct buf *out)
{
    encode(&run_layout, run, out);
}

int run_record_decode(const void *data, size_t len, struct run_record *run, struct error *err)
{
    run_record_finish(run);
    run_record_init(run);
    return decode(&run_layout, data, len, run, err);
}

void session_record_encode(const struct session_record *session, struct buf *out)
{
    encode(&session_layout, session, out);
}

int session_record_decode(const void *data, size_t len, struct session_record *session,
                          struct error *err)
{
    session_record_finish(session);
    session_record_init(session);
    if (decode(&session_layout, data, len, session, err) < 0)
        return -1;
    if (session->place_count == 0 || session->place_count > SESSION_PLACES_MAX ||
        session->place >= session->place_count)
        return error_set(err, ERR_BUG, 0, "damaged session record: place %u of %u",
                         (unsigned)session->place, (unsigned)session->place_count);
    return 0;
}

void checkpoint_record_encode(const struct checkpoint_record *checkpoint, struct buf *out)
{
    encode(&checkpoint_layout, checkpoint, out);
}

int checkpoint_record_decode(const void *data, size_t len, struct checkpoint_record *checkpoint,
                             struct error *err)
{
    uint32_t number = checkpoint->number;

    checkpoint_record_finish(checkpoint);
    checkpoint_record_init(checkpoint);
    checkpoint->number = number;
    if (decode(&checkpoint_layout, data, len, checkpoint, err) < 0)
        return -1;
    if (checkpoint->place_count == 0 || checkpoint->place_count > SESSION_PLACES_MAX ||
        checkpoint->place >= checkpoint->place_count || checkpoint->chain > number)
        return error_set(err, ERR_BUG, 0, "damaged checkpoint record: place %u of %u, chain %u",
                         (unsigned)checkpoint->place, (unsigned)checkpoint->place_count,
                         (unsigned)checkpoint->chain);
    return 0;
}

void event_record_encode(const struct event_record *event, struct buf *out)
{
    encode(&event_layout, event, out);
}

int event_record_decode(const void *data, size_t len, struct event_record *event, struct error *err)
{
    uint64_t number = event->number;

    event_record_finish(event);
    event_record_init(event);
    event->number = number;
    return decode(&event_layout, data, len, event, err);
}

void audit_record_encode(const struct audit_record *audit, struct buf *out)
{
    encode(&audit_layout, audit, out);
}

int audit_record_decode(const void *data, size_t len, struct audit_record *audit, struct error *err)
{
    uint64_t number = audit->number;

    audit_record_finish(audit);
    audit_record_init(audit);
    audit->number = number;
    return decode(&audit_layout, data, len, audit, err);
}
