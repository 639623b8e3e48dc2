#include "ctl/args.h"

#include "common/mem.h"
#include "common/str.h"
#include "ctl/usage.h"

enum value_kind { VALUE_NONE, VALUE_TEXT, VALUE_NUMBER };

static const struct option {
    const char *name;
    char letter; /* 0: none */
    enum value_kind kind;
    const char *value;
    const char *help;
} options[ARGS_OPTION_COUNT] = {
    [ARGS_AFTER] = { "after", 0, VALUE_NUMBER, "N", "only events with a greater number" },
    [ARGS_AGENT] = { "agent", 0, VALUE_TEXT, "NAME", "coding agent instead of the default one" },
    [ARGS_APPLY] = { "apply", 0, VALUE_NONE, NULL,
                     "put the changes on the files here, as a patch, instead" },
    [ARGS_BASE] = { "base", 0, VALUE_TEXT, "BRANCH", "branch to merge into" },
    [ARGS_BEFORE] = { "before", 0, VALUE_TEXT, "CURSOR",
                      "what is older: the cursor of the last answer" },
    [ARGS_BODY] = { "body", 0, VALUE_TEXT, "TEXT", "what it says, in Markdown" },
    [ARGS_BRANCH] = { "branch", 'b', VALUE_TEXT, "NAME",
                      "start from this branch; of pull: the branch to make here" },
    [ARGS_CHECKPOINT] = { "checkpoint", 'c', VALUE_NUMBER, "N", "as it was at this checkpoint" },
    [ARGS_COMMIT] = { "commit", 0, VALUE_NONE, NULL, "commit first what isn't committed" },
    [ARGS_DRY_RUN] = { "dry-run", 0, VALUE_NONE, NULL, "only say what would be done" },
    [ARGS_FOLLOW] = { "follow", 'f', VALUE_NONE, NULL,
                      "go on with what comes, until the run has ended" },
    [ARGS_HELP] = { "help", 'h', VALUE_NONE, NULL, "print this help" },
    [ARGS_INCLUDE_UNCOMMITTED] = { "include-uncommitted", 0, VALUE_NONE, NULL,
                                   "begin with the changes of the files here, too" },
    [ARGS_INCLUDE_UNTRACKED] = { "include-untracked", 0, VALUE_TEXT, "PATH",
                                 "and with untracked files at or below PATH, but ignored ones" },
    [ARGS_JSON] = { "json", 0, VALUE_NONE, NULL, "print JSON" },
    [ARGS_KEY] = { "key", 0, VALUE_TEXT, "KEY",
                   "idempotency key: what is asked again under it is done once" },
    [ARGS_LIMIT] = { "limit", 'n', VALUE_NUMBER, "N", "at most so many" },
    [ARGS_LIVE] = { "live", 0, VALUE_NONE, NULL,
                    "the pages that its agent itself shows while it is at work" },
    [ARGS_MAX_BYTES] = { "max-bytes", 0, VALUE_NUMBER, "N", "no more than so many bytes" },
    [ARGS_MODE] = { "mode", 0, VALUE_TEXT, "MODE",
                    "auto, steer (into the run at work) or queue (a run of its own)" },
    [ARGS_MODEL] = { "model", 'm', VALUE_TEXT, "NAME", "model as provider/name" },
    [ARGS_NO_REPO] = { "no-repo", 0, VALUE_NONE, NULL,
                       "start in an empty folder, also inside a git checkout" },
    [ARGS_PASSPHRASE] = { "passphrase", 0, VALUE_TEXT, "SECRET",
                          "name of the stored secret that seals the backup" },
    [ARGS_PATH] = { "path", 'p', VALUE_TEXT, "PATH", "only files at or below it" },
    [ARGS_READY] = { "ready", 0, VALUE_NONE, NULL, "ready for review, not a draft" },
    [ARGS_REPO] = { "repo", 'r', VALUE_TEXT, "URL|DIR",
                    "repository; default: the git checkout around the current folder" },
    [ARGS_SERVICE] = { "service", 0, VALUE_TEXT, "NAME",
                       "try this service's key with a harmless request" },
    [ARGS_SESSION] = { "session", 's', VALUE_TEXT, "SESSION", "this session, or that of a run" },
    [ARGS_STAT] = { "stat", 0, VALUE_NONE, NULL, "only the list of files" },
    [ARGS_STATUS] = { "status", 0, VALUE_TEXT, "STATUS",
                      "only runs that are queued, started, running, waiting, completed, failed, "
                      "cancelled "
                      "or interrupted" },
    [ARGS_TAIL] = { "tail", 0, VALUE_NUMBER, "N", "only the last N events, and what follows" },
    [ARGS_TIMEOUT] = { "timeout", 't', VALUE_NUMBER, "MINUTES", "stop the run after so long" },
    [ARGS_TITLE] = { "title", 0, VALUE_TEXT, "TITLE", "title" },
    [ARGS_TRACE] = { "trace", 0, VALUE_NONE, NULL,
                     "print the frames sent (>) and received (<) to stderr" },
    [ARGS_WAIT] = { "wait", 'w', VALUE_NONE, NULL, "wait for the end" },
};

static bool name_is(const char *name, const char *word, size_t len)
{
    return strlen(name) == len && memcmp(name, word, len) == 0;
}

static enum args_option find_letter(char letter)
{
    for (int i = 0; i < ARGS_OPTION_COUNT; i++) {
        if (letter != '\0' && options[i].letter == letter)
            return (enum args_option)i;
    }
    return ARGS_OPTION_COUNT;
}

enum args_option args_find_option(const char *word)
{
    for (int i = 0; i < ARGS_OPTION_COUNT; i++) {
        if (word[1] == '-' && name_is(options[i].name, word + 2, strcspn(word + 2, "=")))
            return (enum args_option)i;
        if (word[1] != '-' && word[2] == '\0' && find_letter(word[1]) == (enum args_option)i)
            return (enum args_option)i;
    }
    return ARGS_OPTION_COUNT;
}

struct args_option_info args_option_info(enum args_option option)
{
    const struct option *row = &options[option];

    return (struct args_option_info){ row->name, row->letter,
                                      row->kind == VALUE_NONE ? NULL : row->value, row->help };
}

static int set_value(struct args *args, enum args_option option, const char *value,
                     struct error *err)
{
    args->text[option] = value;
    if (options[option].kind == VALUE_NUMBER &&
        !str_parse_u64(value, UINT64_C(1) << 53, &args->number[option]))
        return error_set(err, ERR_INVALID, 0, "--%s wants a number, not \"%s\"",
                         options[option].name, value);
    return 0;
}

static int check_allowed(enum args_option option, const char *word, uint64_t allowed,
                         struct error *err)
{
    if (option == ARGS_OPTION_COUNT)
        return error_set(err, ERR_INVALID, 0, "there is no option %.100s", word);
    return (allowed & ARGS_BIT(option)) == 0
               ? error_set(err, ERR_INVALID, 0, "--%s has no meaning here", options[option].name)
               : 0;
}

/* Returns how many words were used: VALUE stands in the same word, or is NULL. */
static int take_value(struct args *args, enum args_option option, const char *value, int left,
                      char *const *argv, struct error *err)
{
    if (value != NULL)
        return set_value(args, option, value, err) < 0 ? -1 : 1;
    if (left < 2)
        return error_set(err, ERR_INVALID, 0, "--%s wants a value", options[option].name);
    return set_value(args, option, argv[1], err) < 0 ? -1 : 2;
}

/* "-w", "-fn" "5", "-n5": the first letter that takes a value takes the rest of the word, or the
 * next word. */
static int take_letters(struct args *args, int left, char *const *argv, uint64_t allowed,
                        struct error *err)
{
    for (const char *at = argv[0] + 1; *at != '\0'; at++) {
        enum args_option option = find_letter(*at);

        if (check_allowed(option, argv[0], allowed, err) < 0)
            return -1;
        args->has[option] = true;
        if (options[option].kind != VALUE_NONE)
            return take_value(args, option, at[1] != '\0' ? at + 1 : NULL, left, argv, err);
    }
    return 1;
}

/* Returns how many words were used. */
static int take_option(struct args *args, int left, char *const *argv, uint64_t allowed,
                       struct error *err)
{
    const char *equals = strchr(argv[0], '=');
    enum args_option option;

    if (argv[0][1] != '-')
        return take_letters(args, left, argv, allowed, err);
    option = args_find_option(argv[0]);
    if (check_allowed(option, argv[0], allowed, err) < 0)
        return -1;
    args->has[option] = true;
    if (options[option].kind != VALUE_NONE)
        return take_value(args, option, equals != NULL ? equals + 1 : NULL, left, argv, err);
    return equals != NULL
               ? error_set(err, ERR_INVALID, 0, "--%s takes no value", options[option].name)
               : 1;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0'; /* "-" alone means standard input */
}

int args_parse(struct args *args, int argc, char *const *argv, const struct args_rules *rules,
               const char *usage, struct error *err)
{
    bool raw = false;

    free(args->words);
    args->words = mem_new_zero((size_t)argc + 1, sizeof(*args->words));
    args->word_count = 0;
    for (int i = 0; i < argc;) {
        int used = 1;

        if (!raw && str_equal(argv[i], "--")) {
            raw = true;
        } else if (!raw && is_option(argv[i])) {
            used = take_option(args, argc - i, argv + i, rules->allowed, err);
            if (used < 0)
                return -1;
        } else {
            args->words[args->word_count++] = argv[i];
            if (rules->raw_after != 0 && args->word_count > rules->raw_after)
                raw = true;
        }
        i += used;
    }
    if (args->has[ARGS_HELP])
        return 0;
    if (args->word_count > rules->max_words)
        return error_set(err, ERR_INVALID, 0, "too many words from \"%.100s\" on",
                         args->words[rules->max_words]);
    if (usage_check(usage, args->words, args->word_count, err) < 0)
        return -1;
    return args->word_count < rules->min_words
               ? error_set(err, ERR_INVALID, 0, "something is missing")
               : 0;
}

void args_finish(struct args *args)
{
    free(args->words);
    args->words = NULL;
    args->word_count = 0;
}

void args_print_options(FILE *out, uint64_t allowed)
{
    for (int i = 0; i < ARGS_OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        char left[48];

        if ((allowed & ARGS_BIT(i)) == 0)
            continue;
        snprintf(left, sizeof(left), "%c%c%s--%s%s%s", option->letter ? '-' : ' ',
                 option->letter ? option->letter : ' ', option->letter ? ", " : "  ", option->name,
                 option->value ? " " : "", option->value ? option->value : "");
        fprintf(out, "  %-24s %s\n", left, option->help);
    }
}
