#include "agent/acp/acp_permission.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent_json.h"
#include "common/mem.h"
#include "common/str.h"

#define ID_MAX 256
#define TITLE_MAX 1200
#define OPTIONS_MAX 32

enum acp_option {
    OPTION_ALLOW_ONCE,
    OPTION_ALLOW_ALWAYS,
    OPTION_REJECT_ONCE,
    OPTION_REJECT_ALWAYS
};

static const char *const option_kinds[] = { "allow_once", "allow_always", "reject_once",
                                            "reject_always" };

/* What may be answered, and the kinds that mean it, the best first. */
static const struct answer {
    const char *word;
    enum acp_option kinds[2];
} answers[] = {
    { "once", { OPTION_ALLOW_ONCE, OPTION_ALLOW_ALWAYS } },
    { "always", { OPTION_ALLOW_ALWAYS, OPTION_ALLOW_ONCE } },
    { "reject", { OPTION_REJECT_ONCE, OPTION_REJECT_ALWAYS } },
};

static void read_options(struct acp_permission *permission, const struct json_value *options)
{
    size_t count = 0;

    for (const struct json_value *option = json_first(options);
         option != NULL && count < OPTIONS_MAX; option = json_next(option), count++) {
        const char *kind = agent_json_text(json_get(option, "kind"));
        const char *id = agent_json_text(json_get(option, "optionId"));

        for (size_t i = 0; i < ARRAY_LEN(option_kinds); i++) {
            if (str_equal(option_kinds[i], kind) && permission->options[i] == NULL &&
                id[0] != '\0' && strlen(id) <= ID_MAX)
                permission->options[i] = mem_strdup(id);
        }
    }
}

static char *make_text(const struct json_value *call)
{
    const char *kind = agent_json_text(json_get(call, "kind"));
    const char *title = agent_json_text(json_get(call, "title"));
    AUTO_BUF struct buf text = BUF_INIT(4096);

    if (title[0] == '\0')
        title = agent_json_text(json_path(call, "rawInput.command"));
    buf_append(&text, kind[0] != '\0' ? kind : "tool",
               strnlen(kind[0] != '\0' ? kind : "tool", 64));
    buf_append_str(&text, ": ");
    buf_append(&text, title,
               strlen(title) <= TITLE_MAX ? strlen(title) : str_utf8_cut(title, TITLE_MAX));
    return mem_strdup(buf_text(&text));
}

static char *make_data(const struct acp_permission *permission)
{
    AUTO_BUF struct buf data = BUF_INIT(4096);
    struct json_writer writer;

    json_write_init(&writer, &data);
    json_write_object(&writer);
    json_write_name(&writer, "options");
    json_write_array(&writer);
    if (permission->options[OPTION_ALLOW_ONCE] != NULL)
        json_write_string(&writer, "once");
    if (permission->options[OPTION_ALLOW_ALWAYS] != NULL)
        json_write_string(&writer, "always");
    json_write_string(&writer, "reject");
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    return mem_strdup(buf_text(&data));
}

struct acp_permission *acp_permission_new(const struct acp_message *message, unsigned number)
{
    AUTO_BUF struct buf id = BUF_INIT(ID_MAX);
    struct acp_permission *permission;

    json_append(&id, message->id);
    if (id.failed || json_kind(message->body) != JSON_KIND_OBJECT)
        return NULL;
    permission = NEW(struct acp_permission);
    (void)snprintf(permission->request_id, sizeof(permission->request_id), "perm_%u", number);
    permission->id_json = mem_strdup(buf_text(&id));
    read_options(permission, json_get(message->body, "options"));
    permission->text = make_text(json_get(message->body, "toolCall"));
    permission->data = make_data(permission);
    return permission;
}

void acp_permission_free(struct acp_permission *permission)
{
    if (permission == NULL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(permission->options); i++)
        free(permission->options[i]);
    free(permission->id_json);
    free(permission->text);
    free(permission->data);
    free(permission);
}

bool acp_permission_choose(const struct acp_permission *permission, const char *answer,
                           const char **option)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        size_t len = strlen(answers[i].word);
        bool reject = answers[i].kinds[0] == OPTION_REJECT_ONCE;

        if (strncmp(answer, answers[i].word, len) != 0 ||
            (answer[len] != '\0' && !(reject && answer[len] == ':')))
            continue;
        *option = permission->options[answers[i].kinds[0]];
        if (*option == NULL)
            *option = permission->options[answers[i].kinds[1]];
        return *option != NULL || reject;
    }
    return false;
}

void acp_permission_reply(struct buf *out, const struct acp_permission *permission,
                          const char *option)
{
    struct json_writer writer;

    acp_result_begin(&writer, out, permission->id_json);
    json_write_object(&writer);
    json_write_name(&writer, "outcome");
    json_write_object(&writer);
    json_member_string(&writer, "outcome", option != NULL ? "selected" : "cancelled");
    if (option != NULL)
        json_member_string(&writer, "optionId", option);
    json_write_object_end(&writer);
    json_write_object_end(&writer);
    acp_line_end(&writer, out);
}
