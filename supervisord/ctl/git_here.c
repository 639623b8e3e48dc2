#include "ctl/git_here.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/str.h"

#define ARGUMENTS_MAX 64

extern char **environ;

static void read_output(int fd, struct buf *out)
{
    char piece[16384];
    ssize_t got;

    do {
        got = read(fd, piece, sizeof(piece));
        if (got > 0 && out->len + (size_t)got <= out->max)
            buf_append(out, piece, (size_t)got);
    } while (got > 0 || (got < 0 && errno == EINTR));
}

int git_here_wait(int child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(const char *const *argv, int in, enum git_here_capture capture, struct buf *out,
               struct error *err)
{
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid;
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(err, ERR_SYSTEM, errno, "pipe");
    posix_spawn_file_actions_init(&actions);
    if (in > 0)
        posix_spawn_file_actions_adddup2(&actions, in, 0);
    else
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    if (capture == GIT_HERE_ALL)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    else
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(const void *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (rc == 0)
        read_output(ends[0], out);
    close(ends[0]);
    if (rc != 0)
        return error_set(err, ERR_UNAVAILABLE, rc, "%s is needed here and can't be started",
                         argv[0]);
    return git_here_wait(pid);
}

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
    return run(argv, where->input, capture, out, err);
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
