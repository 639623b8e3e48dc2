#include "workspace/git_command.h"

#include <stdarg.h>
#include <stdlib.h>

#include "common/mem.h"

void git_command_finish(struct git_command *command)
{
    for (size_t i = 0; i < command->argc; i++)
        free(command->argv[i]);
    git_command_init(command);
}

void git_command_init(struct git_command *command)
{
    *command = (struct git_command){ .argc = 0 };
}

static void add_all(struct git_command *command, va_list ap)
{
    const char *arg;

    while ((arg = va_arg(ap, const char *)) != NULL) {
        BUG_ON(command->argc + 1 >= GIT_ARGV_MAX);
        command->argv[command->argc++] = mem_strdup(arg);
    }
    command->argv[command->argc] = NULL;
}

void git_command_add(struct git_command *command, ...)
{
    va_list ap;

    va_start(ap, command);
    add_all(command, ap);
    va_end(ap);
}

void git_command_add_git(struct git_command *command, const char *folder)
{
    git_command_add(command, "git", "-C", folder, "-c", "core.hooksPath=/dev/null", "-c",
                    "core.fsmonitor=false", "-c", "core.quotePath=true", "-c",
                    "diff.external=", "-c", "gc.auto=0", NULL);
}

void git_command_begin(struct git_command *command, const char *folder)
{
    git_command_init(command);
    git_command_add_git(command, folder);
}

void git_command_script(struct git_command *command, const char *script, ...)
{
    va_list ap;

    git_command_init(command);
    git_command_add(command, "sh", "-c", script, "sh", NULL);
    va_start(ap, script);
    add_all(command, ap);
    va_end(ap);
}
