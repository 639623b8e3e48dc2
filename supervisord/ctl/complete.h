/* complete.h: what may stand at the end of a command line, for shells. Pure. */
#ifndef CTL_COMPLETE_H
#define CTL_COMPLETE_H

#include <stddef.h>

/* What only the supervisor knows. */
enum complete_ids {
    COMPLETE_NO_IDS = 0,
    COMPLETE_RUNS = 1,
    COMPLETE_SESSIONS = 2,
    COMPLETE_SECRETS = 4,
    COMPLETE_AGENTS = 16,
    COMPLETE_FILES = 8, /* names of files: the shell's own business */
};

/* Calls EACH with every word that may stand where the last of WORDS does and begins as that does;
 * HELP is one line or "". WORDS are those behind the program's name, at least one. Returns bits of
 * enum complete_ids for the rest. */
unsigned complete_words(const char *const *words, size_t count,
                        void (*each)(void *data, const char *word, const char *help), void *data);

/* The script for SHELL, or NULL when it is none of bash, zsh and fish. Static. */
const char *complete_script(const char *shell);

#endif
