#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "config/config_internal.h"
#include "harness/test.h"
#include "harness/tmp.h"

static void free_config(void *config)
{
    config_free(config);
}

/* The harness keeps every path that it makes until the test ends, and some tests load often. */
static struct paths test_paths(void)
{
    static char home[] = "/home/someone";
    static char file[256];

    snprintf(file, sizeof(file), "%s/config.json", tmp_dir());
    return (struct paths){ .home = home, .config_file = file };
}

/* Loads TEXT as the file (NULL: no file); the result is freed when the test ends. */
static struct config *load(const char *text, struct error *err)
{
    struct paths paths = test_paths();
    struct config *config = NULL;

    *err = (struct error)ERROR_INIT;
    unlink(paths.config_file);
    if (text != NULL)
        CHECK_EQ(fd_replace_file(paths.config_file, text, strlen(text), 0600, err), 0);
    int result = config_load(&config, &paths, err);
    CHECK_EQ(result == 0, config != NULL);
    if (config != NULL)
        test_defer(free_config, config);
    return config;
}

static struct config *load_ok(const char *text)
{
    struct error err;
    struct config *config = load(text, &err);

    CHECK_STR(err.text, "");
    CHECK(config != NULL);
    return config;
}

/* TEXT is refused, and the message holds WHERE (behind the file's name) and WHAT. */
static void check_error(const char *text, const char *where, const char *what)
{
    struct error err;
    struct config *config = load(text, &err);

    CHECK_EQ(config, NULL);
    CHECK_EQ((int)err.code, (int)ERR_INVALID);
    CHECK_HAS(err.text, "config.json");
    CHECK_HAS(err.text, where);
    CHECK_HAS(err.text, what);
}

static const struct config_service *service(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->service_count; i++) {
        if (strcmp(config->services[i].name, name) == 0)
            return &config->services[i];
    }
    CHECK_FAILED("no such service");
    return NULL;
}

static void check_defaults(const struct config *config)
{
    CHECK_STR(config->default_agent, "opencode");
    CHECK_STR(config->default_model, "anthropic/claude-sonnet-4-5");
    CHECK_EQ(config->default_timeout_minutes, 120);
    CHECK_EQ(config->concurrent_runs, 4);
    CHECK_EQ(config->memory_mib, 4096);
    CHECK_EQ(config->processes, 512);
    CHECK_EQ(config->disk_mib, 10240);
    CHECK_EQ(config->max_queued_runs, 1000);
    CHECK_EQ(config->local_repository_count, 0u);
    CHECK_STR(config->sandbox_bwrap, "bwrap");
    CHECK_STR(config->sandbox_init, "");
    CHECK_EQ(config->host_uid_base, 2100000000);
    CHECK_EQ(config->host_uid_count, 10000);
    CHECK_STR(config->agent_opencode, "");
    CHECK_EQ(config->agent_start_seconds, 60);
    CHECK_STR(config->permissions, "allow");
    CHECK_STR(config->questions, "ask");
    CHECK_EQ(config->answer_seconds, 3600);
    CHECK_STR(config->unanswered, "deny");
    CHECK_EQ(config->clone_minutes, 15);
    CHECK_STR(config->clone_filter, "blob:limit=1m");
    CHECK_STR(config->work_branch, "agent/{slug}-{id}");
    CHECK_EQ(config->stall_minutes, 30);
    CHECK_EQ(config->model_failures, 8);
    CHECK_EQ(config->model_retry_wait_seconds, 600);
    CHECK(config->web_enabled);
    CHECK_STR(config->web_listen, "127.0.0.1");
    CHECK_EQ(config->web_port, 0);
    CHECK_STR(config->web_remote_listen, "");
    CHECK_EQ(config->web_name_count, 0u);
    CHECK_STR(config->log_level, "info");
    CHECK_EQ(config->idle_exit_minutes, 0);
    CHECK(config->detect_registries);
    CHECK_EQ(config->egress_allow_count, 0u);
    CHECK_EQ(config->service_count, 9u);
}

TEST(missing_and_empty_files_give_the_defaults)
{
    check_defaults(load_ok(NULL));
    check_defaults(load_ok(""));
    check_defaults(load_ok(" \n\t"));
    check_defaults(load_ok("{}"));
    check_defaults(load_ok("// nothing\n{ /* yet */ }\n"));
}

TEST(every_setting_is_read_from_the_file)
{
    struct config *config = load_ok(
        "{ // all of them\n"
        "  \"defaults\": { \"agent\": \"shell\", \"model\": \"openai/gpt\", \"timeoutMinutes\": "
        "10080 },\n"
        "  \"limits\": { \"concurrentRuns\": 256, \"queuedRuns\": 1, \"memoryMiB\": 256, "
        "\"processes\": 16,\n"
        "              \"diskMiB\": 64, \"tmpMiB\": 1, \"openFiles\": 64, \"cpuWeight\": 1,\n"
        "              \"outputMiB\": 2, \"freeMemoryMiB\": 0, \"freeDiskMiB\": 3,\n"
        "              \"memoryPressurePercent\": 0 },\n"
        "  \"localRepositories\": [ \"~/src/\", \"~\", \"/srv/git\" ],\n"
        "  \"sandbox\": { \"bwrap\": \"~/bin/bwrap\", \"init\": \"/opt/init\", \"hostUidBase\": "
        "70000,\n"
        "               \"hostUidCount\": 5, \"backend\": \"none\", \"allowNone\": true,\n"
        "               \"require\": [ \"seccomp\" ], \"environment\": [ \"CI=1\", \"A_b=\" ],\n"
        "               \"readOnlyFolders\": [ \"/opt/sdk\", \"~/tools/:/opt/tools\" ],\n"
        "               \"caches\": [ \"npm\", \"cargo=~/.cargo\" ] },\n"
        "  \"setup\": { \"minutes\": 4, \"allow\": [ \"npm ci\" ] },\n"
        "  \"agents\": { \"opencode\": { \"path\": \"/opt/opencode\" }, \"startSeconds\": 5,\n"
        "    \"permissions\": \"deny\", \"questions\": \"deny\", \"answerSeconds\": 16,\n"
        "    \"unanswered\": \"stop\" },\n"
        "  \"checkpoints\": { \"seconds\": 7, \"maxMiB\": 8, \"count\": 9 },\n"
        "  \"backup\": { \"endpoint\": \"https://s3.example\", \"region\": \"r\", \"bucket\": "
        "\"b\",\n"
        "    \"accessKey\": \"A\", \"secretKey\": \"S\" },\n"
        "  \"retention\": { \"days\": 10, \"maxDiskMiB\": 11, \"mirrorDays\": 12 },\n"
        "  \"workspace\": { \"cloneMinutes\": 2, \"filter\": \"none\", \"mirrorMiB\": 7, "
        "\"branch\": \"{id}\",\n"
        "                 \"gitName\": \"A\", \"gitEmail\": \"a@b\" },\n"
        "  \"run\": { \"stallMinutes\": 3 },\n"
        "  \"model\": { \"headSeconds\": 11, \"silenceSeconds\": 12, \"failuresInARow\": 13,\n"
        "             \"retryWaitSeconds\": 14, \"requestsPerRun\": 15,\n"
        "             \"retries\": 4, \"tokensPerRun\": 4000000000, \"centsPerRun\": 16 },\n"
        "  \"notices\": { \"program\": \"/opt/tell\", \"webhook\": \"https://a.example/x\",\n"
        "    \"webhookSecret\": \"HOOK\", \"ntfy\": \"http://b.example/t\", \"ntfyToken\": "
        "\"TOKEN\",\n"
        "    \"desktop\": true, \"events\": [ \"ended\" ] },\n"
        "  \"web\": { \"enabled\": false, \"listen\": \"::1\", \"port\": 8080,\n"
        "           \"remoteListen\": \"192.0.2.1\", \"names\": [ \"box.lan\" ] },\n"
        "  \"log\": { \"level\": \"debug\" }, \"idleExitMinutes\": 9,\n"
        "  \"egress\": { \"allow\": [ \"*.Corp.example:443\", \"[2001:db8::1]:80\", "
        "\"10.0.0.1:22\" ],\n"
        "              \"detectRegistries\": false, \"caFile\": \"/etc/corp.pem\",\n"
        "              \"proxy\": \"http://Proxy.Corp.example:3128\", \"proxySecret\": \"LOGIN\",\n"
        "              \"noProxy\": [ \"*.Local\", \"git.corp.example:22\", \"[fd00::1]\", "
        "\"10.0.0.1\" "
        "] },\n"
        "}\n");

    CHECK_STR(config->default_agent, "shell");
    CHECK_STR(config->default_model, "openai/gpt");
    CHECK_EQ(config->default_timeout_minutes, 10080);
    CHECK_EQ(config->concurrent_runs, 256);
    CHECK_EQ(config->max_queued_runs, 1);
    CHECK_EQ(config->memory_mib, 256);
    CHECK_EQ(config->processes, 16);
    CHECK_EQ(config->disk_mib, 64);
    CHECK_EQ(config->tmp_mib, 1);
    CHECK_EQ(config->open_files, 64);
    CHECK_EQ(config->cpu_weight, 1);
    CHECK_EQ(config->output_mib, 2);
    CHECK_EQ(config->free_memory_mib, 0);
    CHECK_EQ(config->free_disk_mib, 3);
    CHECK_EQ(config->memory_pressure_percent, 0);
    CHECK_STR(config->sandbox_backend, "none");
    CHECK(config->sandbox_allow_none);
    CHECK_STR(config->sandbox_require[0], "seccomp");
    CHECK_STR(config->sandbox_environment[1], "A_b=");
    CHECK_STR(config->sandbox_folders[0], "/opt/sdk:/opt/sdk");
    CHECK_STR(config->sandbox_folders[1], "/home/someone/tools:/opt/tools");
    CHECK_STR(config->sandbox_caches[0], "npm");
    CHECK_STR(config->sandbox_caches[1], "cargo=/home/someone/.cargo");
    CHECK_EQ(config->setup_minutes, 4);
    CHECK_EQ(config->checkpoint_seconds, 7);
    CHECK_EQ(config->checkpoint_mib, 8);
    CHECK_EQ(config->checkpoint_count, 9);
    CHECK_STR(config->backup_endpoint, "https://s3.example");
    CHECK_STR(config->backup_bucket, "b");
    CHECK_STR(config->backup_secret_key, "S");
    CHECK_EQ(config->retention_days, 10);
    CHECK_EQ(config->retention_mib, 11);
    CHECK_EQ(config->retention_mirror_days, 12);
    CHECK_STR(config->setup_allow[0], "npm ci");
    CHECK_EQ(config->local_repository_count, 3u);
    CHECK_STR(config->local_repositories[0], "/home/someone/src");
    CHECK_STR(config->local_repositories[1], "/home/someone");
    CHECK_STR(config->local_repositories[2], "/srv/git");
    CHECK_STR(config->sandbox_bwrap, "/home/someone/bin/bwrap");
    CHECK_STR(config->sandbox_init, "/opt/init");
    CHECK_EQ(config->host_uid_base, 70000);
    CHECK_EQ(config->host_uid_count, 5);
    CHECK_STR(config->agent_opencode, "/opt/opencode");
    CHECK_EQ(config->agent_start_seconds, 5);
    CHECK_STR(config->permissions, "deny");
    CHECK_STR(config->questions, "deny");
    CHECK_EQ(config->answer_seconds, 16);
    CHECK_STR(config->unanswered, "stop");
    CHECK_EQ(config->clone_minutes, 2);
    CHECK_STR(config->clone_filter, "none");
    CHECK_STR(config->work_branch, "{id}");
    CHECK_EQ(config->mirror_mib, 7);
    CHECK_STR(config->git_name, "A");
    CHECK_STR(config->git_email, "a@b");
    CHECK_EQ(config->stall_minutes, 3);
    CHECK_EQ(config->model_head_seconds, 11);
    CHECK_EQ(config->model_silence_seconds, 12);
    CHECK_EQ(config->model_failures, 13);
    CHECK_EQ(config->model_retry_wait_seconds, 14);
    CHECK_EQ(config->model_requests, 15);
    CHECK_EQ(config->model_retries, 4);
    CHECK_EQ(config->model_tokens, 4000000000);
    CHECK_EQ(config->model_cents, 16);
    CHECK_STR(config->notices_program, "/opt/tell");
    CHECK_STR(config->notices_webhook, "https://a.example/x");
    CHECK_STR(config->notices_webhook_secret, "HOOK");
    CHECK_STR(config->notices_ntfy, "http://b.example/t");
    CHECK_STR(config->notices_ntfy_token, "TOKEN");
    CHECK(config->notices_desktop);
    CHECK_STR(config->notices_events[0], "ended");
    CHECK(!config->web_enabled);
    CHECK_STR(config->web_listen, "::1");
    CHECK_EQ(config->web_port, 8080);
    CHECK_STR(config->web_remote_listen, "192.0.2.1");
    CHECK_STR(config->web_names[0], "box.lan");
    CHECK_STR(config->log_level, "debug");
    CHECK_EQ(config->idle_exit_minutes, 9);
    CHECK_EQ(config->egress_allow_count, 3u);
    CHECK_STR(config->egress_allow[0], "*.corp.example:443");
    CHECK(!config->detect_registries);
    CHECK_STR(config->egress_proxy, "http://proxy.corp.example:3128");
    CHECK_STR(config->egress_proxy_secret, "LOGIN");
    CHECK_EQ(config->egress_no_proxy_count, 4u);
    CHECK_STR(config->egress_no_proxy[0], "*.local");
    CHECK_STR(config->egress_no_proxy[2], "[fd00::1]");
    for (size_t i = 0; i < config_setting_count; i++)
        CHECK_EQ((int)config->origins[i], (int)CONFIG_ORIGIN_FILE);
}

TEST(unknown_keys_name_file_line_and_what_is_known)
{
    check_error("{\n\n \"limit\": {} }",
                "config.json:3: ", "unknown setting \"limit\"; known here: defaults, limits");
    check_error(
        "{ \"limits\": {\n \"memory\": 1 } }", "config.json:2: ",
        "unknown setting \"limits.memory\"; known here: concurrentRuns, queuedRuns, memoryMiB");
    check_error("{ \"agents\": { \"opencode\": {\n\n\"paths\": 1 } } }",
                "config.json:3: ", "unknown setting \"agents.opencode.paths\"; known here: path");
    check_error("{ \"limits.memoryMiB\": 512 }", "config.json:1: ", "unknown setting");
    check_error("{ \"\": 512 }", "config.json:1: ", "unknown setting");
    check_error("{ \"a\\u001b[31m\": 512 }", "config.json:1: ", "\"a\\x1b[31m\"");
    check_error("{ \"Defaults\": {} }", ":1: ", "unknown setting");
}

TEST(bad_values_name_file_line_key_and_what_is_allowed)
{
    check_error("{ \"limits\": {\n \"memoryMiB\": 255 } }",
                "config.json:2: limits.memoryMiB: ", "must be a whole number from 256 to 1048576");
    check_error("{ \"limits\": { \"memoryMiB\": \"512\" } }",
                ":1: limits.memoryMiB: ", "whole number");
    check_error("{ \"limits\": { \"memoryMiB\": 512.5 } }",
                ":1: limits.memoryMiB: ", "whole number");
    check_error("{ \"limits\": { \"memoryMiB\": -1 } }", ":1: limits.memoryMiB: ", "whole number");
    check_error("{ \"limits\": { \"memoryMiB\": 4294967552 } }",
                ":1: limits.memoryMiB: ", "whole number");
    check_error("{ \"limits\": { \"memoryMiB\": null } }",
                ":1: limits.memoryMiB: ", "whole number");
    check_error("{ \"limits\": 5 }", "config.json:1: ", "limits must be an object");
    check_error("{ \"web\": { \"enabled\": 1 } }", ":1: web.enabled: ", "true or false");
    check_error("{ \"web\": { \"listen\": \"0.0.0.0\" } }", ":1: web.listen: ", "loopback");
    check_error("{ \"web\": { \"remoteListen\": \"box.lan\" } }", ":1: web.remoteListen: ", "IP");
    check_error("{ \"web\": { \"names\": [ \"box:80\" ] } }", ":1: web.names", "without a port");
    check_error("{ \"web\": { \"listen\": \"localhost\" } }", ":1: web.listen: ", "loopback");
    check_error("{ \"log\": { \"level\": \"loud\" } }",
                ":1: log.level: ", "error, warn, info or debug");
    check_error("{ \"defaults\": { \"agent\": \"\" } }",
                ":1: defaults.agent: ", "name of an agent");
    check_error("{ \"defaults\": { \"model\": \"a b\" } }",
                ":1: defaults.model: ", "without spaces");
    check_error("{ \"defaults\": { \"model\": \"sonnet\" } }",
                ":1: defaults.model: ", "provider/model");
    check_error("{ \"defaults\": { \"agent\": \"nope\" } }", "defaults.agent is \"nope\"",
                "the agents are opencode, shell, ");
    check_error("{ \"sandbox\": { \"bwrap\": \"bin/bwrap\" } }",
                ":1: sandbox.bwrap: ", "absolute path");
    check_error("{ \"sandbox\": { \"init\": \"init\" } }", ":1: sandbox.init: ", "absolute path");
    check_error("{ \"localRepositories\": \"~/src\" }", ":1: localRepositories: ", "list of texts");
    check_error("{ \"localRepositories\": [ \"/a\", 5 ] }",
                ":1: localRepositories: ", "list of texts");
    check_error("{ \"localRepositories\": [ \"/a\", \"b\" ] }",
                ":1: localRepositories: entry 2: ", "absolute");
    check_error("{ \"localRepositories\": [ \"/a/../b\" ] }",
                ":1: localRepositories: entry 1: ", "..");
    static const char *const bad_rules[] = {
        "*.example:1",          "GET, HEAD a.example:1", "get a.example:1",
        "GET a.example",        "a.example:1/..",        "a.example:1/a//b",
        "a.example:1/%2e",      "a.example:1 public",    "a.example:1/x y",
        "GET  a.example:1",     "GET,a.example:1",       "a.example:1 private private",
        "https://a.example:1/",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad_rules); i++) {
        AUTO_FREE
        char *text = mem_printf("{ \"egress\": { \"allow\": [ \"%s\" ] } }", bad_rules[i]);
        check_error(text, ":1: egress.allow: ", "HOST:PORT");
    }
    check_error("{ \"egress\": { \"allow\": [ \"a.example\" ] } }",
                ":1: egress.allow: ", "HOST:PORT");
    check_error("{ \"egress\": { \"allow\": [ \"a.example:0\" ] } }",
                ":1: egress.allow: ", "HOST:PORT");
    check_error("{ \"egress\": { \"allow\": [ \"a.*.example:1\" ] } }",
                ":1: egress.allow: ", "HOST:PORT");
    check_error("{ \"egress\": { \"allow\": [ \"*:443\" ] } }", ":1: egress.allow: ", "HOST:PORT");
    check_error("{ \"egress\": { \"allow\": [ \"a..b:443\" ] } }",
                ":1: egress.allow: ", "HOST:PORT");
    static const char *const bad_proxies[] = {
        "proxy.example:3128",
        "https://proxy.example:3128",
        "http://proxy.example",
        "http://me:pw@proxy.example:3128",
        "http://proxy.example:3128/",
        "http://*.example:3128",
        "http://proxy.example:0",
        "socks5://proxy.example:1080",
        "http://a b:1",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad_proxies); i++) {
        AUTO_FREE
        char *text = mem_printf("{ \"egress\": {\n \"proxy\": \"%s\" } }", bad_proxies[i]);
        check_error(text, ":2: egress.proxy: ", "http://HOST:PORT");
    }
    static const char *const bad_hosts[] = { "",
                                             "*",
                                             "*.",
                                             ".corp",
                                             "a.example:0",
                                             "a.example/x",
                                             "10.0.0.0/8",
                                             "http://a.example",
                                             "::1",
                                             "*.*.corp" };
    for (size_t i = 0; i < ARRAY_LEN(bad_hosts); i++) {
        AUTO_FREE
        char *text = mem_printf("{ \"egress\": { \"noProxy\": [ \"%s\" ] } }", bad_hosts[i]);
        check_error(text, ":1: egress.noProxy: entry 1: ", "a host or");
    }
    check_error("{ \"egress\": { \"proxySecret\": \"me:pw\" } }",
                ":1: egress.proxySecret: ", "name of a secret");
    check_error("[]", "config.json", "one object");
    check_error("{ \"web\": \n{ \"port\" 1 } }", "config.json", "line 2");
    check_error("{ \"web\": {}, \"web\": {} }", "config.json", "");
}

TEST(host_uids_stay_within_what_is_valid)
{
    struct error err;

    CHECK_EQ(load("{ \"sandbox\": { \"hostUidBase\": 2147352575, \"hostUidCount\": 2 } }", &err),
             NULL);
    CHECK_HAS(err.text, "sandbox.hostUidBase + sandbox.hostUidCount");
    load_ok("{ \"sandbox\": { \"hostUidBase\": 2147352575, \"hostUidCount\": 1 } }");
    check_error("{ \"sandbox\": { \"hostUidBase\": 1000 } }",
                ":1: sandbox.hostUidBase: ", "from 65536");
}

TEST(a_file_that_cannot_be_read_is_an_error)
{
    struct paths paths = test_paths();
    struct error err = ERROR_INIT;
    struct config *config;

    tmp_subdir("config.json");
    CHECK_EQ(config_load(&config, &paths, &err), -1);
    CHECK_HAS(err.text, "config.json");
}

static void unset(void *name)
{
    unsetenv(name);
}

static void set(const char *name, const char *value)
{
    static char names[8][64];
    static size_t count;
    char *kept = names[count++ % 8];

    snprintf(kept, 64, "%s", name);
    setenv(name, value, 1);
    test_defer(unset, kept);
}

TEST(the_environment_wins_over_the_file)
{
    set("SANDBOX_MCP_LIMITS_MEMORY_MIB", "1024");
    set("SANDBOX_MCP_WEB_ENABLED", "false");
    set("SANDBOX_MCP_LOG_LEVEL", "");
    set("SANDBOX_MCP_DEFAULTS_MODEL", "x/y");
    set("SANDBOX_MCP_LOCAL_REPOSITORIES", "/a::~/b");
    struct config *config =
        load_ok("{ \"limits\": { \"memoryMiB\": 512 }, \"log\": { \"level\": \"warn\" } }");

    CHECK_EQ(config->memory_mib, 1024);
    CHECK(!config->web_enabled);
    CHECK_STR(config->log_level, "warn");
    CHECK_STR(config->default_model, "x/y");
    CHECK_EQ(config->local_repository_count, 2u);
    CHECK_STR(config->local_repositories[1], "/home/someone/b");
}

TEST(bad_variables_are_errors_that_name_them)
{
    struct error err;

    set("SANDBOX_MCP_WEB_PORT", "65536");
    CHECK_EQ(load(NULL, &err), NULL);
    CHECK_STR(err.text,
              "environment variable SANDBOX_MCP_WEB_PORT: must be a whole number from 0 to 65535");
    set("SANDBOX_MCP_WEB_PORT", " 80");
    CHECK_EQ(load(NULL, &err), NULL);
    set("SANDBOX_MCP_WEB_PORT", "80");
    set("SANDBOX_MCP_WEB_ENABLED", "yes");
    CHECK_EQ(load(NULL, &err), NULL);
    CHECK_HAS(err.text, "SANDBOX_MCP_WEB_ENABLED");
    set("SANDBOX_MCP_WEB_ENABLED", "1");
    set("SANDBOX_MCP_LOCAL_REPOSITORIES", "/a:b");
    CHECK_EQ(load(NULL, &err), NULL);
    CHECK_HAS(err.text, "SANDBOX_MCP_LOCAL_REPOSITORIES: entry 2");
}

TEST(the_table_is_printed_with_values_and_origins)
{
    set("SANDBOX_MCP_WEB_PORT", "8080");
    struct config *config =
        load_ok("{ \"limits\": { \"processes\": 100 }, \"localRepositories\": [ \"/a\" ],\n"
                "  \"services\": { \"x\": { \"target\": \"https://x.example/\" } } }");
    AUTO_BUF struct buf out = { 0 };

    buf_init(&out, 1 << 16);
    config_print(config, &out);
    const char *text = buf_text(&out);
    CHECK_HAS(text, "\nlimits.processes = 100  # file: processes and threads");
    CHECK_HAS(text, "\nlimits.memoryMiB = 4096  # default: ");
    CHECK_HAS(text, "\nweb.port = 8080  # environment SANDBOX_MCP_WEB_PORT: ");
    CHECK_HAS(text, "\nlocalRepositories = [\"/a\"]  # file: ");
    CHECK_HAS(text, "\nweb.enabled = true  # default: ");
    CHECK_HAS(text, "\ndefaults.agent = \"opencode\"  # default: ");
    CHECK_HAS(text, "\nservices.x = {\"target\":\"https://x.example\"}  # file\n");
    CHECK_HAS(text,
              "\nservices.anthropic = "
              "{\"target\":\"https://api.anthropic.com\",\"inject\":{\"header\":\"x-api-key\","
              "\"value\":\"{ANTHROPIC_API_KEY}\"}");
    for (size_t i = 0; i < config_setting_count; i++)
        CHECK_HAS(text, config_settings[i].name);
}

/* Services ------------------------------------------------------------------------------------ */

TEST(built_in_services_are_complete)
{
    struct config *config = load_ok(NULL);

    CHECK_STR(service(config, "anthropic")->target, "https://api.anthropic.com");
    CHECK_STR(service(config, "anthropic")->inject_header, "x-api-key");
    CHECK_STR(service(config, "anthropic")->secret, "ANTHROPIC_API_KEY");
    CHECK_STR(service(config, "anthropic")->provider_npm, "@ai-sdk/anthropic");
    CHECK_STR(service(config, "anthropic")->provider_path, "/v1");
    CHECK_STR(service(config, "openai")->inject_value, "Bearer {OPENAI_API_KEY}");
    CHECK_STR(service(config, "google")->provider_path, "/v1beta");
    CHECK_STR(service(config, "openrouter")->provider_path, "/api/v1");
    CHECK_STR(service(config, "github")->inject_value, "Basic {GITHUB_TOKEN:basic:x-access-token}");
    CHECK_STR(service(config, "github")->secret, "GITHUB_TOKEN");
    CHECK_STR(service(config, "github")->provider_npm, "");
    CHECK_STR(service(config, "gitlab")->secret, "GITLAB_TOKEN");
    CHECK(service(config, "gitlab")->builtin);
}

/* With rules of its own the judge for forges would be left out. */
TEST(the_git_hosts_api_is_left_to_the_judge_of_forges)
{
    const struct config_service *api = service(load_ok(NULL), "github-api");

    CHECK(api->builtin);
    CHECK_STR(api->secret, "GITHUB_TOKEN");
    CHECK_STR(api->inject_value, "Bearer {GITHUB_TOKEN}");
    CHECK_EQ(api->allow_count, 0u);
}

TEST(a_credential_may_go_into_the_query)
{
    struct config *config =
        load_ok("{ \"services\": { \"maps\": { \"target\": \"https://m.example\", \"inject\": {\n"
                "\"query\": \"key\", \"value\": \"{MAPS_KEY}\" } } } }");

    CHECK_STR(service(config, "maps")->inject_query, "key");
    CHECK_STR(service(config, "maps")->inject_header, "");
    CHECK_STR(service(config, "maps")->secret, "MAPS_KEY");
}

TEST(a_target_is_all_that_some_services_need)
{
    struct config *config = load_ok(
        "{ \"services\": { \"gitea\": { \"target\": \"https://git.corp.example\", \"private\": "
        "true },\n"
        "\"azure-openai\": { \"target\": \"https://it.openai.example\" } } }");

    CHECK_EQ(config->service_count, 11u);
    CHECK_STR(service(config, "gitea")->secret, "GITEA_TOKEN");
    CHECK(service(config, "gitea")->private);
    CHECK_STR(service(config, "azure-openai")->inject_header, "api-key");
    CHECK_STR(service(config, "azure-openai")->probe, "/openai/models?api-version=2024-10-21");
    CHECK_STR(service(config, "github-uploads")->target, "https://uploads.github.com");
    CHECK_STR(service(config, "gitlab-api")->inject_header, "private-token");
    CHECK_STR(service(config, "anthropic")->probe, "/v1/models");
    CHECK_STR(service(config, "azure-openai")->provider_npm, "@ai-sdk/azure");
}

TEST(an_entry_replaces_fields_of_a_built_in_service_or_makes_a_new_one)
{
    struct config *config = load_ok(
        "{ \"services\": {\n"
        "  \"anthropic\": { \"target\": \"HTTP://127.0.0.1:4010/base/\" },\n"
        "  \"openai\": { \"inject\": { \"value\": \"Bearer {MY_KEY}\" } },\n"
        "  \"google\": { \"inject\": null },\n"
        "  \"corp-llm\": { \"target\": \"https://LLM.corp.example/v1\",\n"
        "    \"inject\": { \"header\": \"Authorization\", \"value\": \"Bearer {CORP_KEY}\" },\n"
        "    \"allow\": [ \"POST /chat/completions\", \"GET /models/...\", \"GET /v*\", \"GET "
        "/...\" ],\n"
        "    \"provider\": { \"npm\": \"@ai-sdk/openai-compatible\", \"path\": \"/v2\", "
        "\"models\": [ \"m-large\" ] } } } }");
    const struct config_service *corp = service(config, "corp-llm");

    CHECK_EQ(config->service_count, 10u);
    CHECK_STR(service(config, "anthropic")->target, "http://127.0.0.1:4010/base");
    CHECK_STR(service(config, "anthropic")->secret, "ANTHROPIC_API_KEY");
    CHECK(!service(config, "anthropic")->builtin);
    CHECK_STR(service(config, "openai")->secret, "MY_KEY");
    CHECK_STR(service(config, "openai")->inject_header, "authorization");
    CHECK_STR(service(config, "google")->inject_header, "");
    CHECK_STR(service(config, "google")->secret, "");
    CHECK_STR(corp->target, "https://llm.corp.example/v1");
    CHECK_STR(corp->inject_header, "authorization");
    CHECK_STR(corp->secret, "CORP_KEY");
    CHECK_EQ(corp->allow_count, 4u);
    CHECK_STR(corp->allow[1], "GET /models/...");
    CHECK_STR(corp->provider_npm, "@ai-sdk/openai-compatible");
    CHECK_STR(corp->provider_path, "/v2");
    CHECK_EQ(corp->provider_model_count, 1u);
    CHECK_STR(corp->provider_models[0], "m-large");
    CHECK(!corp->builtin);
}

static void check_service_error(const char *members, const char *where, const char *what)
{
    AUTO_FREE
    char *text = mem_printf("{ \"services\": {\n\"x\": {\n%s } } }", members);

    check_error(text, where, what);
}

static void check_target(const char *target, const char *what)
{
    AUTO_FREE
    char *members = mem_printf("\"target\": \"%s\"", target);
    AUTO_FREE
    char *text = mem_printf("{ \"services\": { \"x\": { %s } } }", members);

    if (what != NULL)
        check_service_error(members, "config.json:3: services.x.target: ", what);
    else
        load_ok(text);
}

TEST(targets_are_plain_https_urls)
{
    check_target("https://a.example:8443/v1/x", NULL);
    check_target("https://[2001:db8::1]:443", NULL);
    check_target("http://localhost:1", NULL);
    check_target("http://127.9.9.9:1", NULL);
    check_target("http://[::1]:1", NULL);
    static const char *const wrong[] = {
        "",
        "a.example",
        "ftp://a.example",
        "https://",
        "https:///path",
        "https://user@a.example",
        "https://user:pass@a.example",
        "https://a.example?x=1",
        "https://a.example/?x=1",
        "https://a.example/#f",
        "https://a.example#f",
        "https://a.example:0",
        "https://a.example:65536",
        "https://a.example:",
        "https://a.example:x",
        "https://a b.example",
        "https://a_b.example",
        "https://a..example",
        "https://a.example/../b",
        "https://a.example//b",
        "https://a.example/./b",
        "https://a.example/%2e%2e/b",
        "https://a.example/a\\\\b",
        "https://a.example/\\r\\n",
        "https://[::1",
        "https://[zz]",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        check_target(wrong[i], "URL");
}

TEST(plain_http_beyond_loopback_needs_a_word)
{
    check_target("http://llm.lan:8080", "must be https");
    check_target("http://127.0.0.1.evil.example", "must be https");
    struct config *config = load_ok(
        "{ \"services\": { \"x\": { \"target\": \"http://llm.lan\", \"plainHttp\": true } } }");
    CHECK(service(config, "x")->plain_http);
}

static void check_template(const char *template, const char *what)
{
    AUTO_FREE
    char *members = mem_printf(
        "\"target\": \"https://a\",\n\"inject\": { \"header\": \"x\", \"value\": \"%s\" }",
        template);
    AUTO_FREE
    char *text = mem_printf("{ \"services\": { \"x\": { %s } } }", members);

    if (what != NULL)
        check_service_error(members, "config.json:4: services.x.inject.value: ", what);
    else
        load_ok(text);
}

TEST(templates_hold_exactly_one_secret)
{
    check_template("{A}", NULL);
    check_template("token {A_2} x", NULL);
    check_template("Basic {A:basic:some user}", NULL);
    static const char *const wrong[] = {
        "",           "plain",     "{}",      "{a}",           "{2A}",  "{A}{B}",
        "{A",         "A}",        "}A{",     "{{A}}",         "{A} {", "{A} }",
        "{A:basic:}", "{A:basic}", "{A:x:y}", "{A:basic:a:b}", "{ A }",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        check_template(wrong[i], "exactly one {NAME}");
    check_template("{A}\\r\\nx: y", "printable");
    check_template("{A} ü", "printable");
}

TEST(other_members_of_services_are_checked)
{
    check_service_error("\"inject\": {}", ":3: services.x.inject: ", "header or query, and value");
    check_service_error("\"allow\": []", ":3: services.x.allow: ", "at least one entry");
    check_service_error("\"provider\": 5", ":3: services.x.provider: ", "object");
    check_service_error("\"provider\": { \"npm\": \"a b\" }",
                        ":3: services.x.provider.npm: ", "npm");
    check_service_error("\"provider\": { \"path\": \"v1\" }",
                        ":3: services.x.provider.path: ", "path");
    check_service_error("\"provider\": { \"path\": \"/v1/\" }",
                        ":3: services.x.provider.path: ", "slash");
    check_service_error("\"provider\": { \"name\": 1 }",
                        ":3: services.x.provider: ", "known here: npm, path, models");
    check_service_error("\"plainHttp\": 1", ":3: services.x.plainHttp: ", "true or false");
    check_service_error("\"token\": 1",
                        ":3: services.x: ", "unknown setting \"token\"; known here: target");
    check_service_error("", ":2: services.x.target: ", "must be given");
    check_error("{ \"services\": [] }", ":1: services", "object");
    check_error("{ \"services\": { \"X\": {} } }", ":1: services.X: ", "lower-case");
    check_error("{ \"services\": { \"a/b\": {} } }", ":1: services.a/b: ", "lower-case");
    check_error("{ \"services\": { \"a\": 5 } }", ":1: services.a: ", "object");
    static const char *const rules[] = { "GET",      "get /x",      "GET x",     "GET /x y",
                                         "GET /x?y", "GET /x/../y", "GET /x*y",  "GET /x*...",
                                         " /x",      "GET  /x",     "GET /x//y", "GET /.../x" };
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        AUTO_FREE
        char *members =
            mem_printf("\"target\": \"https://a\", \"allow\": [ \"GET /\",\n\"%s\" ]", rules[i]);

        check_service_error(members,
                            "config.json:4: services.x.allow: ", "must be \"METHOD /path\"");
    }
    static const char *const headers[] = {
        "", "a b", "a:", "host", "Transfer-Encoding", "content-length"
    };
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        AUTO_FREE
        char *members =
            mem_printf("\"inject\": { \"header\": \"%s\", \"value\": \"{A}\" }", headers[i]);

        check_service_error(members, ":3: services.x.inject.header: ", "must");
    }
}

static const struct config_price *find_price(const struct config *config, const char *model)
{
    for (size_t i = 0; i < config->price_count; i++)
        if (strcmp(config->prices[i].model, model) == 0)
            return &config->prices[i];
    return NULL;
}

TEST(prices_of_the_file_come_beside_the_built_in_ones)
{
    AUTO_BUF struct buf printed = BUF_INIT(1u << 20);
    struct config *config =
        load_ok("{ \"prices\": {\n"
                "  \"corp/m:large\": { \"input\": 2.5, \"output\": 10, \"cacheRead\": 0 },\n"
                "  \"anthropic/claude-haiku-4-5*\": { \"input\": 9, \"output\": 9 } } }");
    const struct config_price *price = find_price(config, "corp/m:large");

    CHECK(price != NULL && !price->builtin);
    CHECK_EQ(price->input, 2500000u);
    CHECK_EQ(price->output, 10000000u);
    CHECK_EQ(price->cache_read, 0u);
    CHECK_EQ(price->cache_write, 2500000u); /* as other input */
    CHECK_EQ(find_price(config, "anthropic/claude-haiku-4-5*")->cache_read, 9000000u);
    CHECK(find_price(config, "anthropic/claude-sonnet-4-5*")->builtin);
    config_print(config, &printed);
    CHECK_HAS(buf_text(&printed), "prices.\"corp/m:large\" = {\"input\":2.5,");
}

TEST(wrong_prices_are_named)
{
    static const char *const rows[] = {
        "\"m\": { \"input\": 1, \"output\": 1 }",
        "\"a/\": { \"input\": 1, \"output\": 1 }",
        "\"a/*x\": { \"input\": 1, \"output\": 1 }",
        "\"A/x\": { \"input\": 1, \"output\": 1 }",
        "\"a/x\": { \"input\": 1 }",
        "\"a/x\": { \"input\": -1, \"output\": 1 }",
        "\"a/x\": { \"input\": 1001, \"output\": 1 }",
        "\"a/x\": { \"input\": \"1\", \"output\": 1 }",
        "\"a/x\": { \"input\": 1, \"output\": 1, \"more\": 1 }",
        "\"a/x\": 7",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE
        char *text = mem_printf("{ \"prices\": {\n%s } }", rows[i]);

        check_error(text, ":2: prices.", "must be");
    }
    check_error("{ \"prices\": [] }", ":1: prices must be", "object");
}

TEST(what_is_said_of_a_repository_is_read)
{
    struct config *config =
        load_ok("{ \"repositories\": { \"https://github.com/a/*\": { \"setup\": \"make\",\n"
                "  \"setupMinutes\": 3, \"filter\": \"blob:none\", \"model\": \"a/b\",\n"
                "  \"branch\": \"\", \"services\": [ \"github\" ],\n"
                "  \"egress\": [ \"GET Files.example:443/x/...\" ],\n"
                "  \"push\": { \"refs\": [], \"overwrite\": false } }, \"/b\": {} } }");

    CHECK_EQ(config->repository_count, (size_t)2);
    CHECK_STR(config->repositories[0].filter, "blob:none");
    CHECK_STR(config->repositories[0].model, "a/b");
    CHECK_STR(config->repositories[0].work_branch, "");
    CHECK_EQ(config->repositories[0].service_count, (size_t)1);
    CHECK_STR(config->repositories[0].services[0], "github");
    CHECK_EQ(config->repositories[0].egress_count, (size_t)1);
    CHECK_STR(config->repositories[0].egress[0], "GET files.example:443/x/...");
    CHECK(config->repositories[0].push_refs != NULL);
    CHECK_EQ(config->repositories[0].push_ref_count, (size_t)0);
    CHECK_EQ(config->repositories[0].push_overwrite, CONFIG_CHOICE_NO);
    CHECK(config->repositories[1].egress == NULL && config->repositories[1].push_refs == NULL);
    CHECK_EQ(config->repositories[1].push_overwrite, CONFIG_CHOICE_NONE);
    AUTO_BUF struct buf text = BUF_INIT(64u << 10);
    config_print(config, &text);
    CHECK_HAS(buf_text(&text), "\"egress\":[\"GET files.example:443/x/...\"],"
                               "\"push\":{\"refs\":[],\"overwrite\":false}}");
    CHECK_HAS(buf_text(&text), "repositories.\"/b\" = {\"setup\":\"\"}");
}

TEST(what_is_wrongly_said_of_a_repository_is_named)
{
    static const char *const rows[][2] = {
        { "\"filter\": \"--upload-pack=x\"", "filter" },
        { "\"filter\": \"blob:limit=\"", "filter" },
        { "\"filter\": \"sparse:oid=x\"", "filter" },
        { "\"branch\": \"agent/x\"", "branch" },
        { "\"branch\": \"-{id}\"", "branch" },
        { "\"branch\": \"a..{id}\"", "branch" },
        { "\"branch\": \"a.lock/{id}\"", "branch" },
        { "\"branch\": 7", "branch" },
        { "\"model\": \"x\"", "model" },
        { "\"services\": \"github\"", "services" },
        { "\"services\": [ 1 ]", "services" },
        { "\"egress\": \"a.example:443\"", "egress" },
        { "\"egress\": [ \"a.example\" ]", "egress" },
        { "\"egress\": [ \"*.:443\" ]", "egress" },
        { "\"push\": [ \"main\" ]", "push" },
        { "\"push\": { \"refs\": [ \"-x\" ] }", "push.refs" },
        { "\"push\": { \"refs\": [ \"\" ] }", "push.refs" },
        { "\"push\": { \"refs\": [ \"a..b\" ] }", "push.refs" },
        { "\"push\": { \"overwrite\": \"yes\" }", "push.overwrite" },
        { "\"push\": { \"force\": true }", "push" },
        { "\"token\": \"x\"", "nothing else" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE
        char *text = mem_printf("{ \"repositories\": { \"/a\": { %s } } }", rows[i][0]);
        struct error err;

        CHECK(load(text, &err) == NULL);
        CHECK_HAS(err.text, rows[i][1]);
    }
}
