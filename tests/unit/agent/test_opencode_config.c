#include "agent/agent_environment.h"
#include "agent/opencode/opencode_config.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/opencode/opencode_locate.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "harness/tmp.h"

static const char *const own_models[] = { "m-large", "m-small" };
static const struct agent_provider providers[] = {
    { "anthropic", "", "http://127.0.0.1:4999/proxy/anthropic/v1", NULL, 0 },
    { "corp-llm", "@ai-sdk/openai-compatible", "http://127.0.0.1:4999/proxy/corp-llm", own_models,
      2 },
};

static struct agent_options options_with(const char *model)
{
    return (struct agent_options){ .id = "run_1",
                                   .token = "tok",
                                   .model = model,
                                   .directory = "/workspace",
                                   .home = "/home/agent",
                                   .conversation = "",
                                   .title = "",
                                   .providers = providers,
                                   .provider_count = 2 };
}

TEST(the_configuration_is_what_opencode_reads)
{
    struct agent_options options = options_with("anthropic/claude-sonnet-4-5");
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf out = { 0 };

    options.model_head_ms = 20000;
    buf_init(&out, 8192);
    CHECK_EQ(opencode_config_write(&out, &options, &err), 0);
    CHECK_STR(buf_text(&out),
              "{\"$schema\":\"https://opencode.ai/"
              "config.json\",\"autoupdate\":false,\"share\":\"disabled\",\"model\":\"anthropic/"
              "claude-sonnet-4-5\","
              "\"small_model\":\"anthropic/"
              "claude-haiku-4-5\",\"permission\":{\"*\":\"allow\"},\"lsp\":"
              "false,\"formatter\":false,"
              "\"snapshot\":false,\"instructions\":[\"/workspace/"
              "AGENTS.md\"],\"enabled_providers\":[\"anthropic\",\"corp-llm\"],"
              "\"provider\":{\"anthropic\":{\"options\":{\"baseURL\":\"http://127.0.0.1:4999/proxy/"
              "anthropic/v1\",\"apiKey\":\"tok\","
              "\"headerTimeout\":35000,\"chunkTimeout\":315000}},"
              "\"corp-llm\":{\"npm\":\"@ai-sdk/"
              "openai-compatible\",\"name\":\"corp-llm\",\"options\":{\"baseURL\":\"http://"
              "127.0.0.1:4999/proxy/corp-llm\","
              "\"apiKey\":\"tok\",\"headerTimeout\":35000,\"chunkTimeout\":315000},\"models\":{\"m-"
              "large\":{\"name\":\"m-large\",\"tool_call\":"
              "true},\"m-small\":{\"name\":\"m-small\",\"tool_call\":true}}}}}");
}

TEST(a_provider_without_a_small_model_uses_the_main_one)
{
    struct agent_options options = options_with("corp-llm/m-large");
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf out = { 0 };

    buf_init(&out, 8192);
    CHECK_EQ(opencode_config_write(&out, &options, &err), 0);
    CHECK_HAS(buf_text(&out), "\"small_model\":\"corp-llm/m-large\"");
}

TEST(a_model_must_name_a_provider_that_is_there)
{
    struct agent_options options = options_with("anthropic/x");
    struct error err = ERROR_INIT;

    CHECK_EQ(opencode_check_model(&options, "anthropic/anything", &err), 0);
    CHECK_EQ(opencode_check_model(&options, "corp-llm/m-small", &err), 0);
    CHECK_EQ(opencode_check_model(&options, "antropic/claude", &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK_STR(err.argument, "model");
    CHECK_STR(err.text, "model: no provider antropic here; there is anthropic, corp-llm");
    CHECK_EQ(opencode_check_model(&options, "corp-llm/m-smal", &err), -1);
    CHECK_STR(err.text, "model: corp-llm has no model m-smal; there is m-small, m-large");
    CHECK_EQ(opencode_check_model(&options, "claude", &err), -1);
    CHECK_HAS(err.text, "is provider/model");
}

struct placed {
    struct buf log;
};

static void place_file(void *data, const char *target, const char *text, size_t len)
{
    (void)text;
    CHECK(len > 0);
    buf_printf(&((struct placed *)data)->log, "file %s\n", target);
}

static void place_frozen(void *data, const char *target)
{
    buf_printf(&((struct placed *)data)->log, "frozen %s\n", target);
}

static void place_program(void *data, const char *source, const char *target)
{
    buf_printf(&((struct placed *)data)->log, "program %s %s\n", source, target);
}

TEST(the_sandbox_gets_two_frozen_folders_and_the_program)
{
    struct agent_options options = options_with("anthropic/x");
    struct placed placed;
    struct agent_files files = { &placed, place_file, place_frozen, place_program };
    struct error err = ERROR_INIT;

    buf_init(&placed.log, 4096);
    CHECK_EQ(opencode_prepare(&options, "/usr/bin/oc", &files, &err), 0);
    CHECK_STR(buf_text(&placed.log),
              "frozen /run/agent-config/opencode\nfile /run/agent-config/opencode/opencode.json\n"
              "file /run/agent-config/opencode/.gitignore\nfrozen /etc/opencode\nfile "
              "/etc/opencode/opencode.json\n"
              "file /etc/opencode/.gitignore\nprogram /usr/bin/oc /opt/opencode\n");
    buf_finish(&placed.log);
    CHECK_EQ(opencode_prepare(&options, NULL, &files, &err), -1);
}

TEST(the_environment_is_whole_and_takes_more)
{
    static const char *const more[] = { "HTTPS_PROXY=http://127.0.0.1:4999", NULL };
    struct agent_options options = options_with("anthropic/x");
    AUTO_BUF struct buf all = { 0 };
    char **environment;

    buf_init(&all, 8192);
    options.env = more;
    environment = opencode_environment_new(&options, "secret");
    for (size_t i = 0; environment[i] != NULL; i++)
        buf_printf(&all, "%s\n", environment[i]);
    agent_environment_free(environment);
    CHECK_HAS(buf_text(&all), "HOME=/home/agent\n");
    CHECK_HAS(buf_text(&all), "OPENCODE_SERVER_PASSWORD=secret\n");
    CHECK_HAS(buf_text(&all), "XDG_CONFIG_HOME=/run/agent-config\n");
    CHECK_HAS(buf_text(&all), "OPENCODE_DISABLE_PROJECT_CONFIG=1\n");
    CHECK_HAS(buf_text(&all), "HTTPS_PROXY=http://127.0.0.1:4999\n");
}

/* Locate -------------------------------------------------------------------------------------- */

static void restore_path(void *old)
{
    (void)setenv("PATH", old, 1);
    free(old);
}

TEST(the_program_is_found_as_configured_in_our_data_or_in_path)
{
    struct error err = ERROR_INIT;
    char *path = NULL;
    const char *data_dir = tmp_subdir("data");

    tmp_subdir("data/agents");
    tmp_subdir("data/agents/opencode");
    tmp_subdir("data/agents/opencode/bin");
    tmp_subdir("path");
    test_defer(restore_path, mem_strdup(getenv("PATH")));
    (void)setenv("PATH", tmp_path("path"), 1);

    CHECK_EQ(opencode_locate("", data_dir, &path, &err), -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    CHECK_STR(err.text,
              "OpenCode is not installed: npm install -g opencode-ai, or sh docs/quickstart.sh");

    tmp_file("path/opencode", "\177ELFx", 5, 0755);
    CHECK_EQ(opencode_locate("", data_dir, &path, &err), 0);
    CHECK(str_ends(path, "/path/opencode"));
    free(STEAL(path));

    CHECK_EQ(symlink(tmp_file("real", "\177ELFx", 5, 0755),
                     tmp_path("data/agents/opencode/bin/opencode")),
             0);
    CHECK_EQ(opencode_locate("", data_dir, &path, &err), 0);
    CHECK(str_ends(path, "/real"));
    free(STEAL(path));

    CHECK_EQ(opencode_locate(tmp_path("nowhere"), data_dir, &path, &err), -1);
    CHECK_HAS(err.text, "as configured");
    CHECK_EQ(opencode_locate(tmp_path("real"), data_dir, &path, &err), 0);
    free(STEAL(path));
}

TEST(behind_npms_script_the_platforms_program_is_found)
{
    struct error err = ERROR_INIT;
    char *path = NULL;

    tmp_subdir("lib");
    tmp_subdir("lib/node_modules");
    tmp_subdir("lib/node_modules/opencode-ai");
    tmp_subdir("lib/node_modules/opencode-ai/bin");
    tmp_file("lib/node_modules/opencode-ai/bin/opencode", "#!/usr/bin/env node\n", 20, 0755);
    CHECK_EQ(opencode_locate(tmp_path("lib/node_modules/opencode-ai/bin/opencode"), tmp_dir(),
                             &path, &err),
             -1);
    for (size_t i = 0; i < 2; i++) {
        static const char *const names[] = { "opencode-linux-x64", "opencode-linux-arm64" };
        AUTO_FREE
        char *package = mem_printf("lib/node_modules/%s", names[i]);
        AUTO_FREE
        char *bin = mem_printf("%s/bin", package);
        AUTO_FREE
        char *program = mem_printf("%s/opencode", bin);

        tmp_subdir(package);
        tmp_subdir(bin);
        tmp_file(program, "\177ELFx", 5, 0755);
    }
    CHECK_EQ(opencode_locate(tmp_path("lib/node_modules/opencode-ai/bin/opencode"), tmp_dir(),
                             &path, &err),
             0);
    CHECK(str_ends(path, "/bin/opencode"));
    CHECK(strstr(path, "/node_modules/opencode-linux-") != NULL);
    free(path);
}
