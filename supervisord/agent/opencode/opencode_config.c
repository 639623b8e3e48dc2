#include "agent/opencode/opencode_config.h"

#include <string.h>

#include "agent/agent_environment.h"
#include "common/json_write.h"
#include "common/mem.h"
#include "common/nearest.h"
#include "common/str.h"

#define CONFIG_MAX (256 * 1024)
/* How long OpenCode waits for a provider's headers, and between two chunks, before it tries again:
 * a little longer than the proxy, which so sees every failure, and names it. */
#define PROVIDER_TIMEOUT_MS 300000
#define PROVIDER_MARGIN_MS 15000

/* Models -------------------------------------------------------------------------------------- */

int opencode_model_parse(struct opencode_model *model, const char *text, struct error *err)
{
    const char *slash = strchr(text, '/');

    if (slash == NULL || slash == text || slash[1] == '\0')
        return error_argument(err, "model",
                              "is provider/model, for example anthropic/claude-sonnet-4-5");
    if ((size_t)(slash - text) >= sizeof(model->provider))
        return error_argument(err, "model", "the provider's name is too long");
    memcpy(model->provider, text, (size_t)(slash - text));
    model->provider[slash - text] = '\0';
    model->name = slash + 1;
    return 0;
}

static const struct agent_provider *find_provider(const struct agent_options *options,
                                                  const char *name)
{
    for (size_t i = 0; i < options->provider_count; i++) {
        if (str_equal(options->providers[i].name, name))
            return &options->providers[i];
    }
    return NULL;
}

static int refuse_provider(const struct agent_options *options, const char *wanted,
                           struct error *err)
{
    AUTO_FREE
    const char **names = mem_new_zero(options->provider_count + 1, sizeof(*names));
    AUTO_BUF struct buf nearest = { 0 };

    buf_init(&nearest, 256);
    for (size_t i = 0; i < options->provider_count; i++)
        names[i] = options->providers[i].name;
    nearest_append(&nearest, names, options->provider_count, wanted);
    if (nearest.len == 0)
        return error_argument(err, "model", "no provider is configured");
    return error_argument(err, "model", "no provider %s here; there is %s", wanted,
                          buf_text(&nearest));
}

int opencode_check_model(const struct agent_options *options, const char *model, struct error *err)
{
    const struct agent_provider *provider;
    struct opencode_model parsed;
    AUTO_BUF struct buf nearest = { 0 };

    buf_init(&nearest, 256);
    if (opencode_model_parse(&parsed, model, err) < 0)
        return -1;
    provider = find_provider(options, parsed.provider);
    if (provider == NULL)
        return refuse_provider(options, parsed.provider, err);
    /* OpenCode has its own list for a provider that it has built in; for one of ours the
     * configuration is all it knows. */
    if (provider->npm[0] == '\0' || provider->model_count == 0)
        return 0;
    for (size_t i = 0; i < provider->model_count; i++) {
        if (str_equal(provider->models[i], parsed.name))
            return 0;
    }
    nearest_append(&nearest, provider->models, provider->model_count, parsed.name);
    return error_argument(err, "model", "%s has no model %s; there is %s", parsed.provider,
                          parsed.name, buf_text(&nearest));
}

/* For titles and the like. A provider without a row gets the main model, which is surely allowed.
 */
static const struct {
    const char *provider;
    const char *model;
} small_models[] = {
    { "anthropic", "claude-haiku-4-5" },
    { "openai", "gpt-5-mini" },
    { "google", "gemini-2.5-flash" },
    { "openrouter", "anthropic/claude-haiku-4.5" },
};

static const char *small_model(const struct opencode_model *model)
{
    for (size_t i = 0; i < ARRAY_LEN(small_models); i++) {
        if (str_equal(small_models[i].provider, model->provider))
            return small_models[i].model;
    }
    return model->name;
}

/* opencode.json ------------------------------------------------------------------------------- */

static uint64_t provider_timeout(uint64_t proxy_ms)
{
    return (proxy_ms > 0 ? proxy_ms : PROVIDER_TIMEOUT_MS) + PROVIDER_MARGIN_MS;
}

static void write_provider(struct json_writer *writer, const struct agent_provider *provider,
                           const struct agent_options *options)
{
    json_write_name(writer, provider->name);
    json_write_object(writer);
    if (provider->npm[0] != '\0') {
        json_member_string(writer, "npm", provider->npm);
        json_member_string(writer, "name", provider->name);
    }
    json_write_name(writer, "options");
    json_write_object(writer);
    json_member_string(writer, "baseURL", provider->base_url);
    json_member_string(writer, "apiKey", options->token);
    json_member_u64(writer, "headerTimeout", provider_timeout(options->model_head_ms));
    json_member_u64(writer, "chunkTimeout", provider_timeout(options->model_silence_ms));
    json_write_object_end(writer);
    if (provider->model_count > 0) {
        json_write_name(writer, "models");
        json_write_object(writer);
        for (size_t i = 0; i < provider->model_count; i++) {
            json_write_name(writer, provider->models[i]);
            json_write_object(writer);
            json_member_string(writer, "name", provider->models[i]);
            json_member_bool(writer, "tool_call", true);
            json_write_object_end(writer);
        }
        json_write_object_end(writer);
    }
    json_write_object_end(writer);
}

static void write_providers(struct json_writer *writer, const struct agent_options *options)
{
    json_write_name(writer, "enabled_providers");
    json_write_array(writer);
    for (size_t i = 0; i < options->provider_count; i++)
        json_write_string(writer, options->providers[i].name);
    json_write_array_end(writer);
    json_write_name(writer, "provider");
    json_write_object(writer);
    for (size_t i = 0; i < options->provider_count; i++)
        write_provider(writer, &options->providers[i], options);
    json_write_object_end(writer);
}

static void write_model_members(struct json_writer *writer, const char *text,
                                const struct opencode_model *model)
{
    AUTO_FREE
    char *small = mem_printf("%s/%s", model->provider, small_model(model));

    json_member_string(writer, "model", text);
    json_member_string(writer, "small_model", small);
}

/* Later members win. The sandbox is the boundary, so as a rule everything is allowed; who asks for
 * it may decide on what changes or reaches something. */
static void write_permissions(struct json_writer *writer, const struct agent_options *options)
{
    static const char *const kinds[] = { "bash", "edit", "webfetch", "websearch",
                                         "external_directory" };
    static const char *const words[] = {
        [AGENT_ALLOW] = "allow", [AGENT_ASK] = "ask", [AGENT_DENY] = "deny"
    };

    json_write_name(writer, "permission");
    json_write_object(writer);
    json_member_string(writer, "*", "allow");
    for (size_t i = 0; options->permissions != AGENT_ALLOW && i < ARRAY_LEN(kinds); i++)
        json_member_string(writer, kinds[i], words[options->permissions]);
    if (options->questions == AGENT_DENY)
        json_member_string(writer, "question", "deny");
    json_write_object_end(writer);
}

int opencode_config_write(struct buf *out, const struct agent_options *options, struct error *err)
{
    AUTO_FREE
    char *rules = mem_printf("%s/AGENTS.md", options->directory);
    struct opencode_model model;
    struct json_writer writer;

    if (opencode_model_parse(&model, options->model, err) < 0)
        return -1;
    json_write_init(&writer, out);
    json_write_object(&writer);
    /* Without this member OpenCode would rewrite the file. */
    json_member_string(&writer, "$schema", "https://opencode.ai/config.json");
    json_member_bool(&writer, "autoupdate", false);
    json_member_string(&writer, "share", "disabled");
    write_model_members(&writer, options->model, &model);
    write_permissions(&writer, options);
    json_member_bool(&writer, "lsp", false);
    json_member_bool(&writer, "formatter", false);
    /* No shadow git repository: it can fill the disk or hang in large work trees, and we compare
     * trees ourselves. */
    json_member_bool(&writer, "snapshot", false);
    /* The repository's own configuration is off, and its rules with it; a relative path would not
     * be found. */
    json_write_name(&writer, "instructions");
    json_write_array(&writer);
    json_write_string(&writer, rules);
    json_write_array_end(&writer);
    write_providers(&writer, options);
    json_write_object_end(&writer);
    if (out->failed)
        return error_set(err, ERR_LIMIT, 0, "agent's configuration is too large");
    return 0;
}

/* The config folder must be read-only and hold a .gitignore: writable, OpenCode installs packages
 * into it; without the file, it tries to write one, and every request answers 500. */
static void add_config_dir(const struct agent_files *files, const char *dir,
                           const struct buf *config)
{
    AUTO_FREE
    char *config_path = mem_printf("%s/opencode.json", dir);
    AUTO_FREE
    char *ignore_path = mem_printf("%s/.gitignore", dir);
    static const char ignored[] =
        "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore\n";

    files->add_frozen_dir(files->data, dir);
    files->add_file(files->data, config_path, config->data, config->len);
    files->add_file(files->data, ignore_path, ignored, sizeof(ignored) - 1);
}

int opencode_prepare(const struct agent_options *options, const char *program,
                     const struct agent_files *files, struct error *err)
{
    AUTO_BUF struct buf config = { 0 };

    buf_init(&config, CONFIG_MAX);
    if (program == NULL)
        return error_set(err, ERR_NOT_FOUND, 0, "OpenCode's program was not looked for");
    if (opencode_check_model(options, options->model, err) < 0 ||
        opencode_config_write(&config, options, err) < 0)
        return -1;
    add_config_dir(files, OPENCODE_CONFIG_DIR, &config);
    /* The managed folder wins over everything that a repository or the home could bring: a second
     * belt. */
    add_config_dir(files, OPENCODE_MANAGED_DIR, &config);
    files->add_program(files->data, program, OPENCODE_PROGRAM);
    return 0;
}

/* Environment --------------------------------------------------------------------------------- */

char **opencode_environment_new(const struct agent_options *options, const char *password)
{
    AUTO_FREE char *server_password = mem_printf("OPENCODE_SERVER_PASSWORD=%s", password);
    const char *const own[] = {
        server_password,
        "SHELL=/bin/bash",
        ("XDG_CONFIG_HOME=" OPENCODE_CONFIG_HOME),
        OPENCODE_SWITCHES,
        "OPENCODE_DISABLE_SHARE=1",
        "OPENCODE_DISABLE_CLAUDE_CODE=1",
        "GIT_TERMINAL_PROMPT=0",
    };

    return agent_environment_new(options, own, ARRAY_LEN(own));
}
