#include "workspace/git_script.h"

#include "common/mem.h"

void git_script(struct git_command *command, const char *script, const char *const *args)
{
    *command = (struct git_command){ .argc = 0 };
    command->argv[command->argc++] = mem_strdup("sh");
    command->argv[command->argc++] = mem_strdup("-c");
    command->argv[command->argc++] = mem_strdup(script);
    command->argv[command->argc++] = mem_strdup("sh");
    for (; *args != NULL; args++) {
        BUG_ON(command->argc + 1 >= GIT_ARGV_MAX);
        command->argv[command->argc++] = mem_strdup(*args);
    }
    command->argv[command->argc] = NULL;
}
