#include "agent/acp/acp_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/acp/acp_locate.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "harness/tmp.h"

static const struct agent_provider providers[] = {
    { "anthropic", "", "http://127.0.0.1:4999/proxy/anthropic/v1", NULL, 0 },
    { "openai", "", "http://127.0.0.1:4999/proxy/openai/v1", NULL, 0 },
};
static const char *const services[] = { "openai" };
static const char *const arguments[] = { "-m", "{model}", "it's" };
static const char *const environment[] = { "KEY={token}", "URL={serviceUrl}", "EMPTY=" };
static const struct agent_profile_file files[] = {
    { "~/.tester/config", "url = {baseUrl} {provider} {unknown} {\n" },
    { "/etc/tester/one", "{home}" },
    { "/etc/tester/two", "{directory}" },
};

static struct agent_profile make_profile(void)
{
    return (struct agent_profile){ .name = "tester",
                                   .driver = "acp",
                                   .program = "tester-acp",
                                   .arguments = arguments,
                                   .argument_count = ARRAY_LEN(arguments),
                                   .environment = environment,
                                   .environment_count = ARRAY_LEN(environment),
                                   .files = files,
                                   .file_count = ARRAY_LEN(files),
                                   .services = services,
                                   .service_count = 1,
                                   .before = "echo before",
                                   .model = "",
                                   .set_model = "",
                                   .set_mode = "",
                                   .install = "npm install -g tester-acp" };
}

static struct agent_options make_options(const struct agent_profile *profile, const char *model)
{
    return (struct agent_options){ .id = "run_1",
                                   .token = "tok",
                                   .model = model,
                                   .directory = "/workspace/a'b",
                                   .home = "/home/agent",
                                   .conversation = "",
                                   .title = "",
                                   .providers = providers,
                                   .provider_count = ARRAY_LEN(providers),
                                   .profile = profile };
}

static void log_file(void *data, const char *target, const char *text, size_t len)
{
    buf_printf(data, "file %s\n%.*s\n", target, (int)len, text);
}

static void log_dir(void *data, const char *target)
{
    buf_printf(data, "frozen %s\n", target);
}

static void log_program(void *data, const char *source, const char *target)
{
    buf_printf(data, "program %s at %s\n", source, target);
}

TEST(a_profile_becomes_files_and_a_script)
{
    const struct agent_profile profile = make_profile();
    const struct agent_options options = make_options(&profile, "openai/gpt-5.4");
    AUTO_BUF struct buf log = BUF_INIT(100000);
    const struct agent_files sink = { &log, log_file, log_dir, log_program };
    struct error err = ERROR_INIT;

    CHECK_EQ(acp_prepare(&options,
                         "/host/node_modules\n/opt/agent/node_modules\n"
                         "/opt/agent/node_modules/t/t.js\n/host/bin/node",
                         &sink, &err),
             0);
    CHECK_STR(
        buf_text(&log),
        "frozen /run/agent-config/acp\n"
        "file /run/agent-config/acp/file-0\n"
        "url = http://127.0.0.1:4999/proxy/openai/v1 openai {unknown} {\n\n"
        "frozen /etc/tester\n"
        "file /etc/tester/one\n/home/agent\n"
        "file /etc/tester/two\n/workspace/a'b\n"
        "file /run/agent-config/acp/start\n"
        "#!/bin/sh\nset -e\n"
        "export KEY='tok'\n"
        "export URL='http://127.0.0.1:4999/proxy/openai'\n"
        "export EMPTY=''\n"
        "mkdir -p '/home/agent/.tester'\n"
        "rm -rf '/home/agent/.tester/config'\n"
        "cat '/run/agent-config/acp/file-0' >'/home/agent/.tester/config'\n"
        "echo before\n"
        "exec '/opt/agent/node' '/opt/agent/node_modules/t/t.js' '-m' 'gpt-5.4' 'it'\\''s'\n\n"
        "program /host/node_modules at /opt/agent/node_modules\n"
        "program /host/bin/node at /opt/agent/node\n");
}

TEST(a_model_that_the_agent_can_not_use_is_refused)
{
    static const struct {
        const char *model;
        const char *says;
    } rows[] = {
        { "anthropic/claude", "the agent tester can't use anthropic; it works with openai/…" },
        { "openai", "provider/model" },
        { "openai/x\"y", "holds a character that no model's name has" },
        { "openai/x\ny", "holds a character that no model's name has" },
        { "openai/x y", "holds a character that no model's name has" },
    };
    const struct agent_profile profile = make_profile();
    const struct agent_options options = make_options(&profile, "");
    struct error err = ERROR_INIT;

    CHECK_EQ(acp_check_model(&options, "openai/gpt-5.4", &err), 0);
    CHECK_EQ(acp_check_model(&options, "openai/org/model:free[1m]", &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct error refused = ERROR_INIT;

        CHECK_EQ(acp_check_model(&options, rows[i].model, &refused), -1);
        CHECK_STR(refused.argument, "model");
        CHECK_HAS(refused.text, rows[i].says);
    }
}

TEST(a_profile_without_services_takes_any_provider)
{
    struct agent_profile profile = make_profile();
    const struct agent_options options = make_options(&profile, "");
    struct error err = ERROR_INIT;

    profile.service_count = 0;
    CHECK_EQ(acp_check_model(&options, "anthropic/claude", &err), 0);
    CHECK_EQ(acp_check_model(&options, "nowhere/m", &err), -1);
}

/* Finding -------------------------------------------------------------------------------------- */

static const char *const packages[] = { "@scope/tester" };

static void write_file(const char *name, const char *text)
{
    tmp_file(name, text, strlen(text), 0755);
}

static void make_dirs(const char *path)
{
    AUTO_FREE
    char *copy = mem_strdup(path);

    for (char *at = strchr(copy, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(tmp_path(copy), 0700);
        *at = '/';
    }
    (void)mkdir(tmp_path(copy), 0700);
}

static void set_path(const char *name)
{
    setenv("PATH", tmp_path(name), 1);
}

static void restore_path(void *data)
{
    setenv("PATH", data, 1);
    free(data);
}

static void make_package(const char *modules, const char *manifest)
{
    AUTO_FREE
    char *dir = mem_printf("%s/@scope/tester/dist", modules);
    AUTO_FREE
    char *json = mem_printf("%s/@scope/tester/package.json", modules);
    AUTO_FREE
    char *script = mem_printf("%s/@scope/tester/dist/index.js", modules);

    make_dirs(dir);
    write_file(json, manifest);
    write_file(script, "#!/usr/bin/env node\n1\n");
}

static char *find(struct error *err)
{
    struct agent_profile profile = make_profile();
    char *found = NULL;

    profile.packages = packages;
    profile.package_count = 1;
    if (acp_locate(&profile, "", tmp_path("data"), &found, err) < 0)
        return NULL;
    return found;
}

/* PART of what was found, with the test's folder taken off. */
static void check_found(const char *source, const char *program, bool node)
{
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *text = find(&err);
    AUTO_FREE
    char *wanted = realpath(tmp_path(source), NULL);
    struct acp_found found;

    CHECK(text != NULL);
    CHECK_EQ(acp_found_parse(&found, text, &err), 0);
    CHECK_STR(found.source, wanted);
    CHECK_STR(found.program, program);
    CHECK_EQ(found.interpreter[0] != '\0', node);
    acp_found_finish(&found);
}

static void begin(void)
{
    test_defer(restore_path, mem_strdup(getenv("PATH")));
    tmp_subdir("bin");
    tmp_subdir("data");
    write_file("bin/node", "\177ELF node");
    set_path("bin");
}

TEST(a_program_that_is_not_there_is_missed_with_the_way_to_get_it)
{
    struct error err = ERROR_INIT;

    begin();
    CHECK(find(&err) == NULL);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    CHECK_HAS(err.text, "the agent tester is not installed");
    CHECK_HAS(err.text, "npm install -g tester-acp");
}

TEST(a_program_of_the_data_folder_comes_first)
{
    begin();
    make_dirs("data/agents/tester/bin");
    write_file("data/agents/tester/bin/tester-acp", "\177ELF one");
    write_file("bin/tester-acp", "\177ELF two");
    check_found("data/agents/tester/bin/tester-acp", "/opt/agent/tester-acp", false);
}

TEST(a_program_on_path_may_be_a_link_into_a_package)
{
    begin();
    make_package("lib/node_modules", "{\"name\":\"@scope/tester\"}");
    CHECK_EQ(symlink("../lib/node_modules/@scope/tester/dist/index.js", tmp_path("bin/tester-acp")),
             0);
    check_found("lib/node_modules/@scope/tester",
                "/opt/agent/node_modules/@scope/tester/dist/index.js", true);
}

TEST(a_package_whose_dependencies_lie_beside_it_brings_them_along)
{
    begin();
    make_package("data/agents/tester/node_modules",
                 "{\"bin\":{\"tester-acp\":\"dist/index.js\"},\"dependencies\":{\"a\":\"1\"}}");
    check_found("data/agents/tester/node_modules",
                "/opt/agent/node_modules/@scope/tester/dist/index.js", true);
}

TEST(a_package_with_dependencies_of_its_own_comes_alone)
{
    begin();
    make_package("lib/node_modules", "{\"bin\":\"dist/index.js\",\"dependencies\":{\"a\":\"1\"}}");
    make_dirs("lib/node_modules/@scope/tester/node_modules");
    check_found("lib/node_modules/@scope/tester",
                "/opt/agent/node_modules/@scope/tester/dist/index.js", true);
}

TEST(a_script_needs_node)
{
    struct error err = ERROR_INIT;

    begin();
    CHECK_EQ(unlink(tmp_path("bin/node")), 0);
    make_package("lib/node_modules", "{\"bin\":\"dist/index.js\"}");
    CHECK(find(&err) == NULL);
    CHECK_HAS(err.text, "needs Node.js");
}
