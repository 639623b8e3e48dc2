/* cmd_session.c: the commands about sessions. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/print.h"
#include "ctl/target.h"

#define TEXT_MAX (64u << 20)
#define LONG_MS (60 * 60 * 1000) /* large workspaces are copied */

typedef void print_function(struct buf *out, const struct json_value *reply);

static int call_and_print(struct session *session, const char *method, const struct buf *body,
                          print_function *print, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
    struct client_message message;

    if (body->failed)
        return error_set(err, ERR_LIMIT, 0, "the request is too large");
    if (client_call(session->client, method, buf_text(body), LONG_MS, &message, err) < 0)
        return -1;
    if (session->json) {
        session_print_json(message.envelope.body);
    } else {
        print(&text, message.envelope.body);
        session_print(&text);
    }
    client_message_finish(&message);
    return EXIT_DONE;
}

static void begin(struct json_writer *writer, struct buf *body)
{
    json_write_init(writer, body);
    json_write_object(writer);
}

static void print_sessions_now(struct buf *out, const struct json_value *list)
{
    print_sessions(out, list, clock_wall_ms(clock_system()));
}

int cmd_sessions(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    begin(&writer, &body);
    json_member_string_opt(&writer, "before", args->text[ARGS_BEFORE]);
    if (args->has[ARGS_LIMIT])
        json_member_u64(&writer, "limit", args->number[ARGS_LIMIT]);
    json_write_object_end(&writer);
    return call_and_print(session, "session.list", &body, print_sessions_now, err);
}

static void print_renamed(struct buf *out, const struct json_value *reply)
{
    (void)reply;
    buf_append_str(out, "renamed\n");
}

static void print_held(struct buf *out, const struct json_value *reply)
{
    (void)reply;
    buf_append_str(out, "on hold: nothing deletes it\n");
}

static void print_released(struct buf *out, const struct json_value *reply)
{
    (void)reply;
    buf_append_str(out, "released\n");
}

static void print_restored(struct buf *out, const struct json_value *reply)
{
    const char *id = json_string(json_get(reply, "sessionId"));

    buf_append_str(out, "restored; what was there before is its newest checkpoint: sandboxctl "
                        "session get ");
    print_line(out, id != NULL ? id : "", 100);
    buf_append_char(out, '\n');
}

static void print_deleted(struct buf *out, const struct json_value *reply)
{
    (void)reply;
    buf_append_str(out, "deleted\n");
}

static void print_id(struct buf *out, const struct json_value *reply)
{
    const char *id = json_string(json_get(reply, "sessionId"));

    print_line(out, id != NULL ? id : "", 100);
    buf_append_char(out, '\n');
}

static void print_checkpoint(struct buf *out, const struct json_value *reply)
{
    buf_printf(out, "checkpoint %llu\n",
               (unsigned long long)json_u64(json_get(reply, "checkpoint"), 0));
}

static void print_session_now(struct buf *out, const struct json_value *reply)
{
    print_session(out, reply, clock_wall_ms(clock_system()));
}

enum third { NOTHING, TITLE, CHECKPOINT, OPTIONS };

static const struct verb {
    const char *name;
    const char *method;
    enum third third;
    const char *hold; /* value of the member hold, or NULL */
    print_function *print;
} verbs[] = {
    { "get", "session.get", NOTHING, NULL, print_session_now },
    { "rename", "session.rename", TITLE, NULL, print_renamed },
    { "checkpoint", "session.checkpoint", NOTHING, NULL, print_checkpoint },
    { "restore", "session.restore", CHECKPOINT, NULL, print_restored },
    { "fork", "session.fork", OPTIONS, NULL, print_id },
    { "hold", "session.hold", NOTHING, "true", print_held },
    { "release", "session.hold", NOTHING, "false", print_released },
    { "rm", "session.delete", NOTHING, NULL, print_deleted },
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (str_equal(verbs[i].name, name))
            return &verbs[i];
    }
    return NULL;
}

static int write_third(struct json_writer *writer, const struct verb *verb, const struct args *args,
                       struct error *err)
{
    uint64_t number = 0;

    if ((args->has[ARGS_CHECKPOINT] || args->has[ARGS_TITLE]) && verb->third != OPTIONS)
        return error_set(err, ERR_INVALID, 0, "--checkpoint and --title are for fork");
    if (verb->third == CHECKPOINT && !str_parse_u64(args->words[2], UINT32_MAX, &number))
        return error_set(err, ERR_INVALID, 0, "a checkpoint is a number: sandboxctl session get");
    if (verb->third == TITLE)
        json_member_string(writer, "title", args->words[2]);
    if (verb->third == OPTIONS)
        json_member_string_opt(writer, "title", args->text[ARGS_TITLE]);
    if (verb->third == OPTIONS && args->has[ARGS_CHECKPOINT])
        number = args->number[ARGS_CHECKPOINT];
    json_member_u64_opt(writer, "checkpoint", number);
    return 0;
}

int cmd_session(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    const struct verb *verb = find_verb(args->words[0]);
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    AUTO_BUF struct buf id = BUF_INIT(256);
    struct json_writer writer;

    BUG_ON(verb == NULL); /* the usage line has the same ones */
    if ((str_equal(verb->method, "session.delete")
             ? target_session_only(args->words[1], &id, err)
             : target_session(session, args->words[1], &id, err)) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string(&writer, "sessionId", buf_text(&id));
    if (write_third(&writer, verb, args, err) < 0)
        return -1;
    if (verb->hold != NULL)
        json_member_bool(&writer, "hold", str_equal(verb->hold, "true"));
    json_write_object_end(&writer);
    return call_and_print(session, verb->method, &body, verb->print, err);
}

int cmd_rm(struct session *session, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    AUTO_BUF struct buf id = BUF_INIT(256);
    struct json_writer writer;

    if (target_session_only(session->args.words[0], &id, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string(&writer, "sessionId", buf_text(&id));
    json_write_object_end(&writer);
    return call_and_print(session, "session.delete", &body, print_deleted, err);
}

static void print_retained_now(struct buf *out, const struct json_value *reply)
{
    print_retained(out, reply, clock_wall_ms(clock_system()));
}

int cmd_retention(struct session *session, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    begin(&writer, &body);
    json_member_bool(&writer, "dryRun", session->args.has[ARGS_DRY_RUN]);
    json_write_object_end(&writer);
    return call_and_print(session, "retention.run", &body, print_retained_now, err);
}

/* A file is named as seen from here. */
static int write_place(struct json_writer *writer, const char *word, struct error *err)
{
    char here[PATH_MAX];

    if (str_starts(word, "s3:")) {
        json_member_string(writer, "key", word + 3);
        return 0;
    }
    if (word[0] == '/') {
        json_member_string(writer, "file", word);
        return 0;
    }
    if (getcwd(here, sizeof(here)) == NULL)
        return error_set(err, ERR_SYSTEM, errno, "the current folder");
    AUTO_FREE
    char *path = mem_printf("%s/%s", here, word);
    json_member_string(writer, "file", path);
    return 0;
}

int cmd_backup(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    bool create = str_equal(args->words[0], "create");
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    struct json_writer writer;

    if (create && target_session(session, args->words[1], &id, err) < 0)
        return -1;
    begin(&writer, &body);
    json_member_string_opt(&writer, "sessionId", buf_text(&id));
    if (write_place(&writer, args->words[args->word_count - 1], err) < 0)
        return -1;
    json_member_string_opt(&writer, "passphrase", args->text[ARGS_PASSPHRASE]);
    json_write_object_end(&writer);
    return call_and_print(session, create ? "backup.create" : "backup.restore", &body, print_id,
                          err);
}
