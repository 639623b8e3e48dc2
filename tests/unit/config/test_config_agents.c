#include "config/config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "harness/tmp.h"

static void free_config(void *config)
{
    config_free(config);
}

static struct config *load(const char *text, struct error *err)
{
    static char home[] = "/home/someone";
    static char file[256];
    struct config *config = NULL;

    snprintf(file, sizeof(file), "%s/config.json", tmp_dir());
    const struct paths paths = { .home = home, .config_file = file };
    *err = (struct error)ERROR_INIT;
    CHECK_EQ(fd_replace_file(file, text, strlen(text), 0600, err), 0);
    if (config_load(&config, &paths, err) < 0)
        return NULL;
    test_defer(free_config, config);
    return config;
}

static const struct config_agent *find(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->agent_count; i++) {
        if (str_equal(config->agents[i].name, name))
            return &config->agents[i];
    }
    return NULL;
}

TEST(the_built_in_agents_are_complete)
{
    static const char *const names[] = { "claude-code", "codex", "gemini", "opencode-acp" };
    struct error err;
    const struct config *config = load("{}", &err);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct config_agent *agent = find(config, names[i]);

        CHECK(agent != NULL);
        CHECK(agent->builtin);
        CHECK(agent->program[0] != '\0' && agent->install[0] != '\0');
        CHECK(agent->package_count > 0);
        CHECK(agent->environment_count > 0);
        CHECK(agent->file_count > 0);
        CHECK_EQ(agent->permissions, 0);
    }
    CHECK_EQ(config->agent_count, ARRAY_LEN(names));
}

TEST(an_entry_replaces_members_of_a_built_in_agent_or_makes_a_new_one)
{
    struct error err;
    const struct config *config = load(
        "{ \"agents\": { \"startSeconds\": 9, \"opencode\": { \"path\": \"/opt/oc\" },\n"
        "  \"codex\": { \"permissions\": \"ask\", \"services\": [ \"openai\", \"corp\" ] },\n"
        "  \"mine\": { \"program\": \"/opt/mine\", \"arguments\": [ \"--acp\", \"{model}\" ],\n"
        "    \"environment\": [ \"KEY={token}\" ], \"packages\": [ \"@a/b\" ],\n"
        "    \"files\": { \"~/.mine/c.json\": \"{}\", \"/etc/mine/c\": \"\" },\n"
        "    \"model\": \"corp/m\", \"setModel\": \"{model}\", \"setMode\": \"code\",\n"
        "    \"before\": \"rm -f ~/.mine/lock\", \"permissions\": \"reject\",\n"
        "    \"install\": \"make install\" } } }\n",
        &err);

    CHECK_STR(err.text, "");
    CHECK_EQ(config->agent_start_seconds, 9);
    CHECK_STR(config->agent_opencode, "/opt/oc");
    const struct config_agent *codex = find(config, "codex");
    CHECK_EQ(codex->permissions, 1);
    CHECK_EQ(codex->service_count, 2);
    CHECK_STR(codex->services[1], "corp");
    CHECK_STR(codex->program, "codex-acp");
    CHECK(codex->file_count > 0);
    CHECK(!codex->builtin);
    const struct config_agent *mine = find(config, "mine");
    CHECK_STR(mine->program, "/opt/mine");
    CHECK_STR(mine->arguments[1], "{model}");
    CHECK_STR(mine->environment[0], "KEY={token}");
    CHECK_STR(mine->packages[0], "@a/b");
    CHECK_STR(mine->files[0].target, "~/.mine/c.json");
    CHECK_STR(mine->files[1].text, "");
    CHECK_STR(mine->model, "corp/m");
    CHECK_STR(mine->set_model, "{model}");
    CHECK_STR(mine->set_mode, "code");
    CHECK_STR(mine->before, "rm -f ~/.mine/lock");
    CHECK_STR(mine->install, "make install");
    CHECK_EQ(mine->permissions, 2);
}

TEST(bad_entries_name_file_line_and_member)
{
    static const struct {
        const char *agents;
        const char *line;
        const char *says;
    } rows[] = {
        { "\"mine\": {}", "config.json:2: ", "agents.mine.program: must be given" },
        { "\"mine\": 1", "config.json:2: ", "agents.mine: must be an object" },
        { "\"Mine\": {}", "config.json:2: ", "must be named with lower-case letters" },
        { "\"-m\": {}", "config.json:2: ", "must be named with lower-case letters" },
        { "\"shell\": {}", "config.json:2: ", "a driver has this name" },
        { "\"acp\": {}", "config.json:2: ", "a driver has this name" },
        { "\"codex\": {\n\"programs\": \"x\" }", "config.json:3: ", "nothing else" },
        { "\"codex\": {\n\n\"program\": \"../x\" }",
          "config.json:4: ", "agents.codex.program: must be a program's name or absolute path" },
        { "\"codex\": { \"program\": \"-x\" }", "config.json:2: ", "agents.codex.program" },
        { "\"codex\": { \"program\": 5 }", "config.json:2: ", "agents.codex.program" },
        { "\"codex\": { \"arguments\": \"x\" }", "config.json:2: ", "agents.codex.arguments" },
        { "\"codex\": { \"arguments\": [ \"a\\nb\" ] }",
          "config.json:2: ", "without control characters" },
        { "\"codex\": { \"environment\": [ \"A\" ] }", "config.json:2: ", "NAME=value" },
        { "\"codex\": { \"environment\": [ \"A B=1\" ] }", "config.json:2: ", "NAME=value" },
        { "\"codex\": { \"environment\": [ \"1A=1\" ] }", "config.json:2: ", "NAME=value" },
        { "\"codex\": { \"packages\": [ \"../x\" ] }", "config.json:2: ", "npm packages" },
        { "\"codex\": { \"packages\": [ \"/x\" ] }", "config.json:2: ", "npm packages" },
        { "\"codex\": { \"services\": [ \"Big\" ] }", "config.json:2: ", "names of services" },
        { "\"codex\": { \"permissions\": \"maybe\" }", "config.json:2: ", "allow, ask or reject" },
        { "\"codex\": { \"files\": [] }", "config.json:2: ", "agents.codex.files" },
        { "\"codex\": { \"files\": { \"/etc/passwd\": \"\" } }",
          "config.json:2: ", "named by paths below" },
        { "\"codex\": { \"files\": { \"/usr/bin/x\": \"\" } }",
          "config.json:2: ", "named by paths below" },
        { "\"codex\": { \"files\": { \"~/../x\": \"\" } }",
          "config.json:2: ", "named by paths below" },
        { "\"codex\": { \"files\": { \"/run/agent-config/acp/start\": \"\" } }",
          "config.json:2: ", "named by paths below" },
        { "\"codex\": { \"files\": { \"\": \"\" } }", "config.json:2: ", "named by paths below" },
        { "\"codex\": { \"files\": { \"/etc/a/x\": \"\", \"/etc/b/x\": \"\", \"~/a\": \"\",\n"
          "\"/etc/a/y\": \"\", \"/etc/c/x\": \"\",\n\"/etc/d/x\": \"\" } }",
          "config.json:4: ", "at most 3 folders" },
        { "\"codex\": { \"files\": { \"~/a\": 1 } }", "config.json:2: ", "64 KiB" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE
        char *text = mem_printf("{ \"agents\": {\n%s\n} }", rows[i].agents);
        struct error err;

        CHECK(load(text, &err) == NULL);
        CHECK_HAS(err.text, rows[i].line);
        CHECK_HAS(err.text, rows[i].says);
    }
}

TEST(agents_are_printed_as_they_are_written)
{
    struct error err;
    const struct config *config = load(
        "{ \"agents\": { \"mine\": { \"program\": \"m\", \"arguments\": [ \"-x\" ] } } }", &err);
    AUTO_BUF struct buf out = BUF_INIT(1 << 20);

    config_print(config, &out);
    CHECK_HAS(buf_text(&out), "agents.mine = {\"program\":\"m\",\"arguments\":[\"-x\"],"
                              "\"permissions\":\"allow\"}  # file\n");
    CHECK_HAS(buf_text(&out), "agents.codex = {\"program\":\"codex-acp\",");
}
