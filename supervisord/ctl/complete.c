#include "ctl/complete.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/usage.h"

struct completion {
    const char *begun; /* the word that is completed */
    void (*each)(void *data, const char *word, const char *help);
    void *data;
};

static void offer(const struct completion *completion, const char *word, const char *help)
{
    if (str_starts(word, completion->begun))
        completion->each(completion->data, word, help);
}

static void offer_all(const struct completion *completion, const char *const *words)
{
    for (; *words != NULL; words++)
        offer(completion, *words, "");
}

static void offer_commands(const struct completion *completion)
{
    const struct ctl_command *command;

    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        if (command->help != NULL)
            offer(completion, command->name, command->help);
    }
}

static void offer_options(const struct completion *completion, const struct ctl_command *command)
{
    for (int i = 0; i < ARGS_OPTION_COUNT; i++) {
        struct args_option_info info = args_option_info((enum args_option)i);
        AUTO_FREE
        char *word = mem_printf("--%s", info.name);

        if ((command->rules.allowed & ARGS_BIT(i)) != 0)
            offer(completion, word, info.help);
    }
}

/* Options whose values are known words or ids; the others take free text. */
static const struct option_values {
    enum args_option option;
    const char *words[9]; /* ends with NULL */
    unsigned ids;
} option_values[] = {
    { ARGS_STATUS,
      { "queued", "started", "running", "waiting", "completed", "failed", "cancelled",
        "interrupted", NULL },
      COMPLETE_NO_IDS },
    { ARGS_MODE, { "auto", "steer", "queue", NULL }, COMPLETE_NO_IDS },
    { ARGS_SESSION, { NULL }, COMPLETE_SESSIONS },
    { ARGS_AGENT, { NULL }, COMPLETE_AGENTS },
    { ARGS_INCLUDE_UNTRACKED, { NULL }, COMPLETE_FILES },
    { ARGS_REPO, { NULL }, COMPLETE_FILES },
};

static unsigned offer_values(const struct completion *completion, enum args_option option)
{
    for (size_t i = 0; i < ARRAY_LEN(option_values); i++) {
        if (option_values[i].option == option) {
            offer_all(completion, option_values[i].words);
            return option_values[i].ids;
        }
    }
    return COMPLETE_NO_IDS;
}

/* One of a usage line's words: "RUN|SESSION", "[PATH]", "install". */
static unsigned offer_word(const struct completion *completion, const char *word, size_t len)
{
    AUTO_FREE
    char *plain = mem_strndup(word, len);
    unsigned ids = COMPLETE_NO_IDS;

    if (strstr(plain, "RUN") != NULL) {
        offer(completion, "last", "the newest run");
        ids |= COMPLETE_RUNS;
    }
    if (strstr(plain, "SESSION") != NULL)
        ids |= COMPLETE_SESSIONS;
    if (strstr(plain, "FILE") != NULL || strstr(plain, "DIR") != NULL)
        ids |= COMPLETE_FILES;
    if (str_equal(plain, "NAME"))
        ids |= COMPLETE_SECRETS;
    return ids;
}

static void offer_verbs(const struct completion *completion, const char *usage)
{
    for (const char *at = usage; at != NULL; at = usage_next_verb(at)) {
        AUTO_FREE
        char *verb = mem_strndup(at, strcspn(at, " "));

        offer(completion, verb, "");
    }
}

/* The word at NUMBER of what a usage line says, options aside. */
static unsigned offer_place(const struct completion *completion, const char *usage, size_t number)
{
    size_t len;
    const char *word = usage_word(usage, number, &len);

    return word != NULL ? offer_word(completion, word, len) : COMPLETE_NO_IDS;
}

static unsigned offer_argument(const struct completion *completion,
                               const struct ctl_command *command, const char *const *plain,
                               size_t count)
{
    const char *usage = command->words;

    if (!usage_has_verbs(usage))
        return offer_place(completion, usage, count);
    if (count == 0) {
        offer_verbs(completion, usage);
        return COMPLETE_NO_IDS;
    }
    usage = usage_of_verb(usage, plain[0]);
    return usage != NULL ? offer_place(completion, usage, count) : COMPLETE_NO_IDS;
}

/* Options with their values taken out; *VALUE_OF is the option whose value the last word is. */
static const char **plain_words(const char *const *words, size_t count, size_t *plain_count,
                                enum args_option *value_of)
{
    const char **plain = mem_new_zero(count + 1, sizeof(*plain));

    *plain_count = 0;
    *value_of = ARGS_OPTION_COUNT;
    for (size_t i = 0; i + 1 < count; i++) {
        enum args_option option = words[i][0] == '-' && words[i][1] != '\0'
                                      ? args_find_option(words[i])
                                      : ARGS_OPTION_COUNT;

        if (words[i][0] != '-' || words[i][1] == '\0')
            plain[(*plain_count)++] = words[i];
        else if (option != ARGS_OPTION_COUNT && args_option_info(option).value != NULL &&
                 strchr(words[i], '=') == NULL) {
            if (i + 2 == count)
                *value_of = option;
            i++;
        }
    }
    return plain;
}

unsigned complete_words(const char *const *words, size_t count,
                        void (*each)(void *data, const char *word, const char *help), void *data)
{
    struct completion completion = { words[count - 1], each, data };
    enum args_option value_of;
    size_t plain_count;
    AUTO_FREE
    const char **plain = plain_words(words, count, &plain_count, &value_of);
    const struct ctl_command *command = plain_count > 0 ? command_find(plain[0]) : NULL;

    if (value_of != ARGS_OPTION_COUNT)
        return offer_values(&completion, value_of);
    if (plain_count == 0) {
        offer_commands(&completion);
        return COMPLETE_NO_IDS;
    }
    if (command == NULL)
        return COMPLETE_NO_IDS;
    if (completion.begun[0] == '-') {
        offer_options(&completion, command);
        return COMPLETE_NO_IDS;
    }
    return offer_argument(&completion, command, plain + 1, plain_count - 1);
}

/* Scripts --------------------------------------------------------------------------------------
 */

static const char bash_script[] =
    "_sandboxctl() {\n"
    "    local line\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        COMPREPLY+=(\"${line%%$'\\t'*}\")\n"
    "    done < <(\"$1\" complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -o default -F _sandboxctl sandboxctl\n";

static const char zsh_script[] =
    "_sandboxctl() {\n"
    "    local -a found\n"
    "    local line\n"
    "    while IFS= read -r line; do\n"
    "        line=\"${line//:/\\\\:}\"\n"
    "        found+=(\"${line/$'\\t'/:}\")\n"
    "    done < <(\"${words[1]}\" complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
    "    (( ${#found} )) && _describe 'sandboxctl' found || _files\n"
    "}\n"
    "compdef _sandboxctl sandboxctl\n";

static const char fish_script[] =
    "complete -c sandboxctl -a '(set -l words (commandline -opc); "
    "sandboxctl complete -- $words[2..-1] (commandline -ct) 2>/dev/null)'\n";

const char *complete_script(const char *shell)
{
    if (str_equal(shell, "bash"))
        return bash_script;
    if (str_equal(shell, "zsh"))
        return zsh_script;
    return str_equal(shell, "fish") ? fish_script : NULL;
}
