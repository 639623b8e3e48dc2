/* args.h: the words of a command line, taken apart by one table of options. Pure. */
#ifndef CTL_ARGS_H
#define CTL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"

enum args_option {
    ARGS_AFTER,
    ARGS_AGENT,
    ARGS_APPLY,
    ARGS_BASE,
    ARGS_BEFORE,
    ARGS_BODY,
    ARGS_BRANCH,
    ARGS_CHECKPOINT,
    ARGS_COMMIT,
    ARGS_DRY_RUN,
    ARGS_FOLLOW,
    ARGS_HELP,
    ARGS_INCLUDE_UNCOMMITTED,
    ARGS_INCLUDE_UNTRACKED,
    ARGS_JSON,
    ARGS_KEY,
    ARGS_LIMIT,
    ARGS_LIVE,
    ARGS_MAX_BYTES,
    ARGS_MODE,
    ARGS_MODEL,
    ARGS_NO_REPO,
    ARGS_PASSPHRASE,
    ARGS_PATH,
    ARGS_READY,
    ARGS_REPO,
    ARGS_SERVICE,
    ARGS_SESSION,
    ARGS_STAT,
    ARGS_STATUS,
    ARGS_TAIL,
    ARGS_TIMEOUT,
    ARGS_TITLE,
    ARGS_TRACE,
    ARGS_WAIT,
    ARGS_OPTION_COUNT
};

#define ARGS_BIT(option) (UINT64_C(1) << (option))
_Static_assert(ARGS_OPTION_COUNT <= 64, "a bit for each option");

struct args {
    bool has[ARGS_OPTION_COUNT];
    const char *text[ARGS_OPTION_COUNT]; /* borrowed from argv; NULL unless given */
    uint64_t number[ARGS_OPTION_COUNT];
    const char **words; /* heap array, strings borrowed; ends with NULL */
    size_t word_count;
};

struct args_rules {
    uint64_t allowed; /* ARGS_BIT of each option */
    size_t min_words;
    size_t max_words;
    size_t raw_after; /* once so many words were read, the rest is taken as it is; 0: never */
};

/* ARGV[0] is the first word to look at. What stands in ARGS already (options before the command) is
 * kept. USAGE names the words, see usage.h. ERR_INVALID in plain words. */
int args_parse(struct args *args, int argc, char *const *argv, const struct args_rules *rules,
               const char *usage, struct error *err);
void args_finish(struct args *args);

/* One line an option, as --help shows it. */
void args_print_options(FILE *out, uint64_t allowed);

/* For completion and manual pages. */
struct args_option_info {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* what its value is called, NULL: it takes none */
    const char *help;
};
struct args_option_info args_option_info(enum args_option option);
/* "--name", "--name=value" or "-x"; ARGS_OPTION_COUNT: there is none such. */
enum args_option args_find_option(const char *word);

#endif
