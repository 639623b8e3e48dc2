/* steer.c: messages that the run's agent reads while it works. Each is on disk, under the agent's
 * own id for it, before it is sent; what became of it is a second event. A later supervisor asks
 * the agent for those without one. */
#include "run/internal.h"

#include <string.h>

#include "common/json_write.h"
#include "common/str.h"

#define READ "read "
#define UNREAD "unread "

static char *make_data(const char *id, const char *state)
{
    AUTO_BUF struct buf data = BUF_INIT(1024);
    struct json_writer writer;

    json_write_init(&writer, &data);
    json_write_object(&writer);
    json_member_string(&writer, "messageId", id);
    json_member_string(&writer, "state", state);
    json_write_object_end(&writer);
    return buf_steal(&data);
}

const char *steer_settled_id(const char *key)
{
    if (str_starts(key, READ))
        return key + strlen(READ);
    return str_starts(key, UNREAD) ? key + strlen(UNREAD) : NULL;
}

void steer_on_read(void *data, const char *message_id, const char *unread)
{
    struct run *run = data;
    AUTO_FREE
    char *about = make_data(message_id, unread == NULL ? "read" : "unread");
    AUTO_FREE
    char *key = mem_printf("%s%s", unread == NULL ? READ : UNREAD, message_id);
    AUTO_FREE
    char *text = unread == NULL ? mem_strdup("the agent has read the message")
                                : mem_printf("the message was not read: %s", unread);

    if (!told_has(run->told, key))
        events_note_as(run, RUN_NOTE_MESSAGE, text, about, key);
}

void steer_lost(struct run *run)
{
    const struct agent_message *messages;
    size_t count;

    if (run->told == NULL)
        run->told = told_load(run->runs->store, &run->record.id);
    messages = told_messages(run->told, &count);
    for (size_t i = 0; i < count; i++)
        steer_on_read(run, messages[i].id,
                      "the run was interrupted; say it again if the agent doesn't know of it");
}

static int check(const struct run *run, struct error *err)
{
    if (run->record.state != RUN_WORKING && run->record.state != RUN_WAITING)
        return error_set(err, ERR_CONFLICT, 0,
                         "no run of the session is at work at this moment; with mode queue the "
                         "message becomes a run of its own");
    if (run->driver->steer == NULL)
        return error_set(err, ERR_CONFLICT, 0,
                         "the agent %s reads nothing while it works; with mode queue the message "
                         "becomes a run of its own",
                         run->driver->name);
    if (run->agent == NULL || run->agent_closing || run->agent_done || run->adopting)
        return error_set(err, ERR_CONFLICT, 0, "the agent can't be reached at this moment");
    return 0;
}

int steer_send(struct run *run, const char *text, const struct message_key *key, struct error *err)
{
    char id[AGENT_MESSAGE_ID_SIZE];
    struct agent_message message = { .id = id, .text = text };
    AUTO_FREE
    char *data = NULL;

    if (check(run, err) < 0 || run->driver->steer_id(run->agent, id, err) < 0)
        return -1;
    data = make_data(id, "sent");
    if (events_note_message(run, text, data, id, key, err) < 0)
        return -1;
    log_info(run->record.id.text, "message %s for its agent", id);
    run->driver->steer(run->agent, &message);
    return 0;
}
