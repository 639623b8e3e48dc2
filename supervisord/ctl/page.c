#include "ctl/page.h"

#include <stdio.h>

#include "common/manual.h"
#include "common/mem.h"
#include "ctl/commands.h"

/* Those that stand before a command, too. */
static const enum args_option before_command[] = { ARGS_HELP, ARGS_JSON, ARGS_TRACE };

#define TERM_MAX 64

static void option_term(enum args_option option, char term[TERM_MAX])
{
    struct args_option_info info = args_option_info(option);

    snprintf(term, TERM_MAX, "%s%.1s%s--%s%s%s", info.letter != '\0' ? "-" : "", &info.letter,
             info.letter != '\0' ? ", " : "", info.name, info.value != NULL ? " " : "",
             info.value != NULL ? info.value : "");
}

static void write_option(struct buf *out, enum args_option option)
{
    char term[TERM_MAX];

    option_term(option, term);
    manual_item(out, term, args_option_info(option).help);
}

static bool is_before_command(enum args_option option)
{
    for (size_t i = 0; i < ARRAY_LEN(before_command); i++) {
        if (before_command[i] == option)
            return true;
    }
    return false;
}

/* Which options the command takes; what they mean stands once, behind the commands. */
static void write_takes(struct buf *out, const struct ctl_command *command)
{
    AUTO_BUF struct buf takes = BUF_INIT(4096);

    for (int i = 0; i < ARGS_OPTION_COUNT; i++) {
        char term[TERM_MAX];

        if ((command->rules.allowed & ARGS_BIT(i)) == 0 || is_before_command((enum args_option)i))
            continue;
        option_term((enum args_option)i, term);
        buf_printf(&takes, "%s%s", takes.len > 0 ? "; " : "Options: ", term);
    }
    if (takes.len > 0)
        manual_more(out, buf_text(&takes));
}

static void write_command(struct buf *out, const struct ctl_command *command)
{
    AUTO_FREE
    char *term =
        mem_printf("%s%s%s", command->name, command->words[0] != '\0' ? " " : "", command->words);

    manual_item(out, term, command->help);
    if (command->more != NULL)
        manual_more(out, command->more);
    write_takes(out, command);
}

static void write_exit_codes(struct buf *out)
{
    manual_section(out, "exit status");
    for (int code = 0; code < EXIT_CODE_COUNT; code++) {
        char term[8];

        snprintf(term, sizeof(term), "%d", code);
        manual_item(out, term, exit_code_words[code]);
    }
}

void page_print(struct buf *out)
{
    static const struct manual_item options[] = { { "--version", "print the version" },
                                                  { NULL, NULL } };
    static const struct manual_item environment[] = {
        { "SANDBOX_MCP_CONFIG", "the configuration's file" },
        { "SANDBOX_MCP_STATE, SANDBOX_MCP_RUNTIME, SANDBOX_MCP_DATA", "folders" },
        { "SANDBOX_MCP_SUPERVISORD", "which supervisor is started" },
        { "SANDBOX_MCP_PAGER, PAGER", "what long output is shown with on a terminal" },
        { "NO_COLOR", "no colours when it is set" },
        { NULL, NULL }
    };
    static const struct manual manual = {
        .name = "sandboxctl",
        .summary = "give tasks to coding agents in sandboxes, and look after them",
        .usage = "[--json] [--trace] COMMAND ...",
        .about = "The supervisor's command line. Most commands start the supervisor when it does "
                 "not run.",
        .options = options,
        .environment = environment,
        .see_also = "sandbox-mcp(1), sandbox-supervisord(1)",
    };

    manual_begin(out, &manual);
    for (size_t i = 0; i < ARRAY_LEN(before_command); i++)
        write_option(out, before_command[i]);
    manual_section(out, "commands");
    for (size_t i = 0; command_at(i) != NULL; i++) {
        if (command_at(i)->help != NULL)
            write_command(out, command_at(i));
    }
    manual_section(out, "options of commands");
    for (int i = 0; i < ARGS_OPTION_COUNT; i++) {
        if (!is_before_command((enum args_option)i))
            write_option(out, (enum args_option)i);
    }
    write_exit_codes(out);
    manual_end(out, &manual);
}
