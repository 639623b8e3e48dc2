#include "ctl/git_here.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "ctl/program.h"

#define ARGUMENTS_MAX 64

static void add(const char **argv, size_t *count, const char *word)
{
    BUG_ON(*count + 1 >= ARGUMENTS_MAX);
    argv[(*count)++] = word;
    argv[*count] = NULL;
}

int git_here(const struct git_here *where, const char *const *args, enum git_here_capture capture,
             struct buf *out, struct error *err)
{
    static const char *const settings[] = {
        "core.hooksPath=/dev/null",   "core.fsmonitor=false",
        "core.splitIndex=false",      "gc.auto=0",
        "maintenance.auto=false",     "fetch.fsckObjects=true",
        "transfer.fsckObjects=true",  "protocol.allow=never",
        "protocol.file.allow=always", "fetch.recurseSubmodules=no",
        "submodule.recurse=false",    "fetch.writeCommitGraph=false",
        "receive.fsckObjects=true",
    };
    const char *argv[ARGUMENTS_MAX];
    size_t count = 0;

    if (where->environment != NULL)
        add(argv, &count, "env");
    for (size_t i = 0; where->environment != NULL && where->environment[i] != NULL; i++)
        add(argv, &count, where->environment[i]);
    add(argv, &count, "git");
    add(argv, &count, "-C");
    add(argv, &count, where->folder != NULL ? where->folder : ".");
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        add(argv, &count, "-c");
        add(argv, &count, settings[i]);
    }
    for (; *args != NULL; args++)
        add(argv, &count, *args);
    return program_run(
        &(struct program){ .argv = argv,
                           .in = where->input > 0 ? where->input : -1,
                           .capture = capture == GIT_HERE_ALL ? PROGRAM_ALL : PROGRAM_OUT },
        out, err);
}

int git_here_failed(enum error_code code, const char *what, const struct buf *out,
                    struct error *err)
{
    AUTO_BUF struct buf words = BUF_INIT(1024);
    const char *text = buf_text(out);

    str_append_escaped(&words, text, strcspn(text, "\n"), 200);
    return error_set(err, code, 0, "%s: %s", what, buf_text(&words));
}

void git_here_cut_line(struct buf *text)
{
    if (text->len > 0) {
        text->len = strcspn(buf_text(text), "\n");
        text->data[text->len] = '\0';
    }
}

char *git_here_scratch(void)
{
    const char *folder = getenv("TMPDIR");

    return mem_printf("%s/sandbox-mcp-XXXXXX",
                      folder != NULL && folder[0] == '/' ? folder : "/tmp");
}
