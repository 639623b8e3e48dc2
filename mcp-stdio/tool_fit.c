/* tool_fit.c: replies about runs cut to what fits into one answer. What is left out is marked, and
 * the mark says how to get at it. */
#include <string.h>

#include "common/str.h"
#include "mcp-stdio/tools.h"

#define LINE_MAX 400      /* bytes of what is a line or a word in most runs, and of the task */
#define MESSAGE_MAX 1500  /* of a sentence or a question */
#define OUTPUT_MIN 1000   /* of the agent's answer, whatever else there is */
#define FILES_MAX 2000    /* of the list of a diff's files */
#define DIFF_MIN 1000     /* of a diff */
#define EVENT_MAX 2000    /* of one event among others */
#define DATA_TEXT_MAX 400 /* of a text in its data */
#define NESTED_MAX 1500   /* of an object or array inside */
#define REPLY_MAX (8u << 20)
#define LABELS 500   /* of what the readable text has beside the values */
#define MARK_MAX 400 /* of the words that say what is left out */

/* Strings -------------------------------------------------------------------------------------- */

/* Bytes of C in a JSON string. */
static size_t cost_of(unsigned char c)
{
    if (c == '"' || c == '\\' || (c < 0x20 && strchr("\b\f\n\r\t", c) && c))
        return 2;
    return c < 0x20 || c == 0x7f ? 6 : 1;
}

static size_t cost(const char *text, size_t len)
{
    size_t sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += cost_of((unsigned char)text[i]);
    return sum;
}

/* Length of the longest beginning of TEXT that takes ROOM bytes in JSON. */
static size_t head_of(const char *text, size_t len, size_t room)
{
    size_t at = 0;

    for (; at < len && cost_of((unsigned char)text[at]) <= room; at++)
        room -= cost_of((unsigned char)text[at]);
    return at < len ? str_utf8_cut(text, at) : len;
}

/* Where the longest end of TEXT begins that takes ROOM bytes. */
static size_t tail_of(const char *text, size_t len, size_t room)
{
    size_t at = len;

    for (; at > 0 && cost_of((unsigned char)text[at - 1]) <= room; at--)
        room -= cost_of((unsigned char)text[at - 1]);
    while (at < len && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

/* The beginning of TEXT, two thirds of ROOM, and its end. HOW tells how to get all of it. */
static void write_middle_cut(struct json_writer *writer, const char *text, size_t room,
                             const char *how)
{
    size_t len = strlen(text);
    AUTO_BUF struct buf cut = BUF_INIT(len + MARK_MAX + 64);
    size_t head;
    size_t tail;

    if (cost(text, len) <= room) {
        json_write_bytes(writer, text, len);
        return;
    }
    head = head_of(text, len, room / 3 * 2);
    tail = tail_of(text, len, room / 3);
    buf_append(&cut, text, head);
    buf_printf(&cut, "\n[… %zu of %zu bytes are left out here. %s …]\n", tail - head, len, how);
    buf_append(&cut, text + tail, len - tail);
    json_write_bytes(writer, buf_text(&cut), cut.len);
}

static void write_end_cut(struct json_writer *writer, const char *text, size_t room)
{
    size_t len = strlen(text);
    size_t head = head_of(text, len, room);
    AUTO_BUF struct buf cut = BUF_INIT(head + 64);

    if (head == len) {
        json_write_bytes(writer, text, len);
        return;
    }
    buf_append(&cut, text, head);
    buf_printf(&cut, "[… %zu of %zu bytes]", head, len);
    json_write_bytes(writer, buf_text(&cut), cut.len);
}

/* Values --------------------------------------------------------------------------------------- */

static size_t size_of(const struct json_value *value)
{
    AUTO_BUF struct buf text = BUF_INIT(REPLY_MAX);

    json_append(&text, value);
    return text.failed ? REPLY_MAX : text.len;
}

static const char *text_of(const struct json_value *object, const char *name)
{
    const char *text = json_string(json_get(object, name));

    return text ? text : "";
}

/* MEMBER with its name; a text is cut at ROOM bytes, and what is nested and large left out. */
static void write_member(struct json_writer *writer, const struct json_value *member, size_t room)
{
    const char *text = json_string(member);

    if (!text && size_of(member) > NESTED_MAX)
        return;
    json_write_name(writer, json_name(member));
    if (text)
        write_end_cut(writer, text, room);
    else
        json_write_value(writer, member);
}

/* The same for all members of an object; anything else is written as it is. */
static void write_object(struct json_writer *writer, const struct json_value *object, size_t room)
{
    if (json_kind(object) != JSON_KIND_OBJECT) {
        json_write_value(writer, object);
        return;
    }
    json_write_object(writer);
    for (const struct json_value *member = json_first(object); member; member = json_next(member))
        write_member(writer, member, room);
    json_write_object_end(writer);
}

/* A run ---------------------------------------------------------------------------------------- */

static void say_how(struct buf *out, const struct json_value *run)
{
    const struct json_value *step = json_first(json_get(run, "steps"));
    uint64_t newest;

    while (step && !str_equal(text_of(step, "kind"), "text"))
        step = json_next(step);
    newest = json_u64(json_get(step, "number"), 0);
    buf_printf(out, "The whole: resource run://%s/result, or `sandboxctl get %s`",
               text_of(run, "runId"), text_of(run, "runId"));
    if (newest > 0)
        buf_printf(out, "; opencode_get_log with after %llu and limit 1 has its last part whole",
                   (unsigned long long)newest - 1);
}

static void write_result(struct json_writer *writer, const struct json_value *run, size_t room)
{
    AUTO_BUF struct buf how = BUF_INIT(MARK_MAX);

    say_how(&how, run);
    json_write_object(writer);
    for (const struct json_value *member = json_first(json_get(run, "result")); member;
         member = json_next(member)) {
        json_write_name(writer, json_name(member));
        if (str_equal(json_name(member), "output") && json_string(member))
            write_middle_cut(writer, json_string(member), room, buf_text(&how));
        else
            write_object(writer, member, MESSAGE_MAX);
    }
    json_write_object_end(writer);
}

static void write_run_member(struct json_writer *writer, const struct json_value *run,
                             const struct json_value *member, size_t output_room)
{
    const char *name = json_name(member);

    if (str_equal(name, "result") && json_kind(member) == JSON_KIND_OBJECT) {
        json_write_name(writer, name);
        write_result(writer, run, output_room);
    } else if (str_equal(name, "steps")) {
        if (json_get(run, "result")) /* what was done counts more than how */
            return;
        json_write_name(writer, name);
        json_write_value(writer, member);
    } else if (json_kind(member) == JSON_KIND_OBJECT) {
        json_write_name(writer, name);
        write_object(writer, member, MESSAGE_MAX);
    } else {
        write_member(writer, member, str_equal(name, "message") ? MESSAGE_MAX : LINE_MAX);
    }
}

static void write_run(struct buf *out, const struct json_value *run, size_t output_room)
{
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    for (const struct json_value *member = json_first(run); member; member = json_next(member))
        write_run_member(&writer, run, member, output_room);
    json_write_object_end(&writer);
}

/* The agent's answer gets what everything else leaves. */
void tool_run_result_fit(const struct json_value *reply, size_t max, struct buf *out)
{
    AUTO_BUF struct buf rest = BUF_INIT(REPLY_MAX);

    write_run(&rest, reply, 0);
    write_run(out, reply,
              max > rest.len + LABELS + OUTPUT_MIN ? max - rest.len - LABELS : OUTPUT_MIN);
}

/* Lists ---------------------------------------------------------------------------------------- */

/* Whole runs, one at least. */
void tool_run_list_fit(const struct json_value *reply, size_t max, struct buf *out)
{
    bool more = json_bool(json_get(reply, "hasMore"), false);
    const char *cursor = text_of(reply, "cursor");
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    json_write_name(&writer, "runs");
    json_write_array(&writer);
    for (const struct json_value *run = json_first(json_get(reply, "runs")); run;
         run = json_next(run)) {
        write_object(&writer, run, LINE_MAX);
        if (json_next(run) && out->len + size_of(json_next(run)) > max) {
            cursor = text_of(run, "runId");
            more = true;
            break;
        }
    }
    json_write_array_end(&writer);
    json_member_bool(&writer, "hasMore", more);
    json_member_string_opt(&writer, "cursor", cursor);
    json_write_object_end(&writer);
}

static void write_long_event(struct json_writer *writer, const struct json_value *event)
{
    uint64_t number = json_u64(json_get(event, "number"), 0);
    AUTO_BUF struct buf how = BUF_INIT(MARK_MAX);

    json_write_object(writer);
    for (const struct json_value *member = json_first(event); member; member = json_next(member)) {
        json_write_name(writer, json_name(member));
        if (json_string(member))
            write_end_cut(writer, json_string(member), EVENT_MAX / 2);
        else
            write_object(writer, member, DATA_TEXT_MAX);
    }
    if (number > 0) {
        buf_printf(&how, "call again with after %llu and limit 1 for the whole event",
                   (unsigned long long)number - 1);
        json_member_string(writer, "cut", buf_text(&how));
    }
    json_write_object_end(writer);
}

/* Events in order, one at least. Where only one was asked for it is what is wanted, and gets all of
 * the room. */
void tool_run_log_fit(const struct json_value *reply, size_t max, struct buf *out)
{
    const struct json_value *events = json_get(reply, "events");
    size_t event_max = json_count(events) == 1 && max > 2 * EVENT_MAX ? max : EVENT_MAX;
    uint64_t cursor = json_u64(json_get(reply, "cursor"), 0);
    bool more = json_bool(json_get(reply, "hasMore"), false);
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    json_write_name(&writer, "events");
    json_write_array(&writer);
    for (const struct json_value *event = json_first(events); event; event = json_next(event)) {
        size_t before = out->len;

        if (size_of(event) <= event_max)
            json_write_value(&writer, event);
        else
            write_long_event(&writer, event);
        if (json_next(event) && out->len + (out->len - before) > max) {
            cursor = json_u64(json_get(event, "number"), cursor);
            more = true;
            break;
        }
    }
    json_write_array_end(&writer);
    json_member_u64(&writer, "cursor", cursor);
    json_member_bool(&writer, "hasMore", more);
    json_write_object_end(&writer);
}

/* A diff --------------------------------------------------------------------------------------- */

static void write_files(struct json_writer *writer, const struct json_value *files)
{
    size_t from = writer->buf->len;
    size_t left = json_count(files);

    json_write_name(writer, "files");
    json_write_array(writer);
    for (const struct json_value *file = json_first(files); file; file = json_next(file), left--) {
        if (writer->buf->len - from > FILES_MAX)
            break;
        write_object(writer, file, LINE_MAX);
    }
    json_write_array_end(writer);
    json_member_u64_opt(writer, "filesLeftOut", left);
}

/* Length of the whole lines at the beginning of DIFF that take ROOM bytes. */
static size_t lines_of(const char *diff, size_t room)
{
    size_t len = head_of(diff, strlen(diff), room);
    size_t at = len;

    if (!diff[len])
        return len;
    while (at > 0 && diff[at - 1] != '\n')
        at--;
    return at > 0 ? at : len;
}

static void write_diff(struct buf *out, const struct json_value *reply, size_t room)
{
    const char *diff = text_of(reply, "diff");
    size_t shown = lines_of(diff, room);
    bool cut = json_bool(json_get(reply, "truncated"), false) || diff[shown];
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    for (const struct json_value *member = json_first(reply); member; member = json_next(member)) {
        if (str_equal(json_name(member), "files")) {
            write_files(&writer, member);
        } else if (str_equal(json_name(member), "diff")) {
            json_write_name(&writer, "diff");
            json_write_bytes(&writer, diff, shown);
        } else if (str_equal(json_name(member), "truncated")) {
            json_member_bool(&writer, "truncated", cut);
        } else {
            write_member(&writer, member, LINE_MAX);
        }
    }
    json_write_object_end(&writer);
}

/* The diff gets what everything else leaves. */
void tool_run_diff_fit(const struct json_value *reply, size_t max, struct buf *out)
{
    AUTO_BUF struct buf rest = BUF_INIT(REPLY_MAX);

    write_diff(&rest, reply, 0);
    write_diff(out, reply, max > rest.len + DIFF_MIN ? max - rest.len : DIFF_MIN);
}
