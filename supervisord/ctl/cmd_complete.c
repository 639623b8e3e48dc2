/* cmd_complete.c: completion for shells: a script, and what that asks at each key. */
#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/complete.h"
#include "ctl/print.h"

#define TEXT_MAX (1u << 20)

int cmd_completion(struct session *session, struct error *err)
{
    const char *script = complete_script(session->args.words[0]);

    if (script == NULL)
        return error_set(err, ERR_INVALID, 0, "completion bash, completion zsh or completion fish");
    fputs(script, stdout);
    return EXIT_DONE;
}

static void add(void *data, const char *word, const char *help)
{
    struct buf *out = data;

    print_line(out, word, 200);
    if (help[0] != '\0') {
        buf_append_char(out, '\t');
        print_line(out, help, 200);
    }
    buf_append_char(out, '\n');
}

/* What one list of the supervisor has to offer. */
static const struct source {
    enum complete_ids ids;
    const char *method;
    const char *list;
    const char *word;
    const char *help;
} sources[] = {
    { COMPLETE_RUNS, "run.list", "runs", "runId", "title" },
    { COMPLETE_SESSIONS, "session.list", "sessions", "sessionId", "title" },
    { COMPLETE_SECRETS, "secret.list", "secrets", "name", "source" },
    { COMPLETE_AGENTS, "system.machine", "agents", "name", "" },
};

static void add_list(struct session *session, const struct source *source, const char *begun,
                     struct buf *out)
{
    struct client_message message;
    struct error err = ERROR_INIT;

    if (session_call(session, source->method, NULL, &message, &err) < 0)
        return;
    for (const struct json_value *at = json_first(json_get(message.envelope.body, source->list));
         at != NULL; at = json_next(at)) {
        const char *word = json_string(json_get(at, source->word));
        const char *help = json_string(json_get(at, source->help));

        if (word != NULL && str_starts(word, begun))
            add(out, word, help != NULL ? help : "");
    }
    client_message_finish(&message);
}

/* Quiet whatever happens: a message would land in the line that is being typed. */
int cmd_complete(struct session *session, struct error *err)
{
    AUTO_BUF struct buf out = BUF_INIT(TEXT_MAX);
    struct error none = ERROR_INIT;
    const struct args *args = &session->args;
    unsigned ids;

    (void)err;
    if (args->word_count == 0)
        return EXIT_DONE;
    ids = complete_words(args->words, args->word_count, add, &out);
    if ((ids & (COMPLETE_RUNS | COMPLETE_SESSIONS | COMPLETE_SECRETS | COMPLETE_AGENTS)) != 0 &&
        session_connect(session, SESSION_DONT_START, &none) == 0) {
        for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
            if ((ids & sources[i].ids) != 0)
                add_list(session, &sources[i], args->words[args->word_count - 1], &out);
        }
    }
    session_print(&out);
    return EXIT_DONE;
}
