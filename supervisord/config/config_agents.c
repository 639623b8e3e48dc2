/* config_agents.c: agents that are described by configuration: the built-in rows, and what the file
 * adds or overrides below "agents". */
#include <stdlib.h>
#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"
#include "config/config_internal.h"

enum {
    AGENTS_MAX = 64,
    LIST_MAX = 32,
    FILES_MAX = 8,
    FOLDERS_MAX = 3,
    TEXT_MAX = 4096,
    FILE_TEXT_MAX = 64 << 10
};

/* The built-in ones --------------------------------------------------------------------------- */

struct builtin {
    const char *name;
    const char *program;
    const char *packages[4];
    const char *arguments[8];
    const char *environment[16];
    const char *files[3][2]; /* target, text */
    const char *services[4];
    const char *model;
    const char *before;
    const char *install;
};

/* The repository's own settings of an agent are code that could move the base URL. So each agent
 * is told its settings where they win: by the environment, or in a folder of managed settings. */
static const struct builtin builtins[] = {
    {
        .name = "claude-code",
        .program = "claude-agent-acp",
        .packages = { "@agentclientprotocol/claude-agent-acp", "@zed-industries/claude-agent-acp" },
        .environment = { "ANTHROPIC_BASE_URL={serviceUrl}", "ANTHROPIC_API_KEY={token}",
                         "ANTHROPIC_MODEL={model}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
                         "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
                         "DISABLE_ERROR_REPORTING=1" },
        .files = { { "/etc/claude-code/managed-settings.json",
                     "{\"env\":{\"ANTHROPIC_BASE_URL\":\"{serviceUrl}\","
                     "\"ANTHROPIC_API_KEY\":\"{token}\"}}\n" } },
        .services = { "anthropic" },
        .model = "anthropic/claude-sonnet-4-5",
        .install = "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    {
        .name = "codex",
        .program = "codex-acp",
        .packages = { "@agentclientprotocol/codex-acp", "@zed-industries/codex-acp" },
        /* Its own sandbox can't be made inside ours. Older versions go by the file alone. */
        .environment = { "OPENAI_API_KEY={token}", "INITIAL_AGENT_MODE=agent-full-access" },
        .files = { { "~/.codex/config.toml", "model = \"{model}\"\n"
                                             "model_provider = \"sandbox\"\n"
                                             "approval_policy = \"never\"\n"
                                             "sandbox_mode = \"danger-full-access\"\n"
                                             "check_for_update_on_startup = false\n"
                                             "[model_providers.sandbox]\n"
                                             "name = \"sandbox\"\n"
                                             "base_url = \"{baseUrl}\"\n"
                                             "env_key = \"OPENAI_API_KEY\"\n"
                                             "wire_api = \"responses\"\n"
                                             "[analytics]\n"
                                             "enabled = false\n" } },
        .services = { "openai" },
        .model = "openai/gpt-5.4",
        .install = "npm install -g @agentclientprotocol/codex-acp",
    },
    {
        .name = "gemini",
        .program = "gemini",
        .packages = { "@google/gemini-cli" },
        .arguments = { "--acp", "--skip-trust", "-m", "{model}" },
        .environment = { "GEMINI_API_KEY={token}", "GOOGLE_GEMINI_BASE_URL={serviceUrl}",
                         "GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_TELEMETRY_ENABLED=false" },
        .files = { { "~/.gemini/settings.json",
                     "{\"security\":{\"auth\":{\"selectedType\":\"gemini-api-key\"}},"
                     "\"privacy\":{\"usageStatisticsEnabled\":false},"
                     "\"telemetry\":{\"enabled\":false},"
                     "\"general\":{\"enableAutoUpdate\":false,\"disableAutoUpdate\":true,"
                     "\"disableUpdateNag\":true}}\n" } },
        .services = { "google" },
        .model = "google/gemini-2.5-pro",
        /* It names a conversation's file by the minute and begins it anew when the same one is
         * loaded within that minute: an older name keeps what is there. */
        .before = "for file in \"$HOME\"/.gemini/tmp/*/chats/session-20*.jsonl; do "
                  "to=${file%/*}/session-1970-01-01T00-00-${file##*-}; "
                  "[ ! -e \"$file\" ] || [ -e \"$to\" ] || mv \"$file\" \"$to\"; done",
        .install = "npm install -g @google/gemini-cli",
    },
    {
        .name = "opencode-acp",
        .program = "opencode",
        .packages = { "opencode-ai" },
        .arguments = { "acp" },
        .environment = { "XDG_CONFIG_HOME=/run/agent-config", "OPENCODE_DISABLE_PROJECT_CONFIG=1",
                         "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
                         "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
                         "OPENCODE_DISABLE_SHARE=1", "OPENCODE_DISABLE_CLAUDE_CODE=1" },
        .files = { { "/run/agent-config/opencode/opencode.json", "{opencodeConfig}" },
                   { "/run/agent-config/opencode/.gitignore", "*\n" },
                   { "/etc/opencode/opencode.json", "{opencodeConfig}" } },
        .install = "npm install -g opencode-ai, or sh docs/quickstart.sh",
    },
};

/* Memory --------------------------------------------------------------------------------------- */

static void finish_files(struct config_agent *agent)
{
    for (size_t i = 0; i < agent->file_count; i++) {
        free(agent->files[i].target);
        free(agent->files[i].text);
    }
    free(agent->files);
    agent->files = NULL;
    agent->file_count = 0;
}

void config_agents_finish(struct config *config)
{
    for (size_t i = 0; i < config->agent_count; i++) {
        struct config_agent *agent = &config->agents[i];

        free(agent->name);
        free(agent->program);
        free(agent->model);
        free(agent->set_model);
        free(agent->set_mode);
        free(agent->before);
        free(agent->install);
        config_list_free(agent->packages, agent->package_count);
        config_list_free(agent->arguments, agent->argument_count);
        config_list_free(agent->environment, agent->environment_count);
        config_list_free(agent->services, agent->service_count);
        finish_files(agent);
    }
    free(config->agents);
    config->agents = NULL;
    config->agent_count = 0;
}

static struct config_agent *agent_add(struct config *config, const char *name)
{
    struct config_agent *agent = &config->agents[config->agent_count++];

    agent->name = mem_strdup(name);
    agent->program = mem_strdup("");
    agent->model = mem_strdup("");
    agent->set_model = mem_strdup("");
    agent->set_mode = mem_strdup("");
    agent->before = mem_strdup("");
    agent->install = mem_strdup("");
    return agent;
}

static struct config_agent *agent_find(struct config *config, const char *name)
{
    for (size_t i = 0; i < config->agent_count; i++) {
        if (str_equal(config->agents[i].name, name))
            return &config->agents[i];
    }
    return NULL;
}

static void copy_list(char ***to, size_t *to_count, const char *const *from, size_t max)
{
    *to = mem_new_zero(max, sizeof(**to));
    for (size_t i = 0; i < max && from[i] != NULL; i++)
        (*to)[(*to_count)++] = mem_strdup(from[i]);
}

void config_agents_init(struct config *config)
{
    config->agents = mem_new_zero(ARRAY_LEN(builtins) + AGENTS_MAX, sizeof(*config->agents));
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++) {
        const struct builtin *from = &builtins[i];
        struct config_agent *agent = agent_add(config, from->name);

        config_replace(&agent->program, mem_strdup(from->program));
        config_replace(&agent->model, mem_strdup(from->model != NULL ? from->model : ""));
        config_replace(&agent->before, mem_strdup(from->before != NULL ? from->before : ""));
        config_replace(&agent->install, mem_strdup(from->install));
        copy_list(&agent->packages, &agent->package_count, from->packages,
                  ARRAY_LEN(from->packages));
        copy_list(&agent->arguments, &agent->argument_count, from->arguments,
                  ARRAY_LEN(from->arguments));
        copy_list(&agent->environment, &agent->environment_count, from->environment,
                  ARRAY_LEN(from->environment));
        copy_list(&agent->services, &agent->service_count, from->services,
                  ARRAY_LEN(from->services));
        agent->files = mem_new_zero(ARRAY_LEN(from->files), sizeof(*agent->files));
        for (size_t j = 0; j < ARRAY_LEN(from->files) && from->files[j][0] != NULL; j++) {
            agent->files[j].target = mem_strdup(from->files[j][0]);
            agent->files[j].text = mem_strdup(from->files[j][1]);
            agent->file_count++;
        }
        agent->builtin = true;
    }
}

/* Rules of single values ----------------------------------------------------------------------- */

static bool valid_text(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return false;
    }
    return true;
}

static bool valid_program(const char *text)
{
    if (strchr(text, '/') == NULL)
        return text[0] != '\0' && text[0] != '-' && valid_text(text) && strchr(text, ' ') == NULL;
    return text[0] == '/' && valid_text(text) && strstr(text, "/../") == NULL;
}

static bool valid_variable(const char *text)
{
    const char *equals = strchr(text, '=');

    return equals != NULL &&
           config_only(text, (size_t)(equals - text),
                       CONFIG_UPPER CONFIG_LOWER CONFIG_DIGITS "_") &&
           (text[0] < '0' || text[0] > '9') && valid_text(text);
}

static bool valid_package(const char *text)
{
    return config_only(text, strlen(text), CONFIG_LOWER CONFIG_UPPER CONFIG_DIGITS "@/-._~") &&
           strstr(text, "..") == NULL && text[0] != '/';
}

static bool valid_service(const char *text)
{
    return config_only(text, strlen(text), CONFIG_LOWER CONFIG_DIGITS "-_");
}

/* In the agent's home, or in a folder of its own below /etc or /run/agent-config: those are made
 * for it. */
static bool valid_target(const char *target)
{
    static const char *const folders[] = { "/etc/", "/run/agent-config/" };
    size_t len = strlen(target);

    if (!valid_text(target) || len == 0 || len > 256 || target[len - 1] == '/' ||
        strstr(target, "/../") != NULL || strstr(target, "//") != NULL || str_ends(target, "/..") ||
        str_starts(target, "/run/agent-config/acp/"))
        return false;
    if (str_starts(target, "~/"))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        if (str_starts(target, folders[i]) && strchr(target + strlen(folders[i]), '/') != NULL)
            return true;
    }
    return false;
}

/* Reading -------------------------------------------------------------------------------------- */

/* Where we are in the file, for messages. */
struct place {
    const char *file;
    const char *agent;
};

static int wrong(const struct place *place, const struct json_value *at, const char *name,
                 const char *must, struct error *err)
{
    error_set(err, ERR_INVALID, 0, "agents.%s%s%s: must be %s", place->agent,
              name[0] != '\0' ? "." : "", name, must);
    return config_at(err, place->file, json_line(at));
}

enum member_kind { MEMBER_TEXT, MEMBER_LIST };

/* One row a member. */
static const struct member {
    const char *name;
    enum member_kind kind;
    size_t offset;
    size_t count_offset;
    bool (*valid)(const char *text);
    const char *must;
} members[] = {
    { "program", MEMBER_TEXT, offsetof(struct config_agent, program), 0, valid_program,
      "a program's name or absolute path" },
    { "model", MEMBER_TEXT, offsetof(struct config_agent, model), 0, valid_text,
      "a model such as provider/model, or empty" },
    { "setModel", MEMBER_TEXT, offsetof(struct config_agent, set_model), 0, valid_text,
      "the template of a model id, such as \"{model}\", or empty" },
    { "setMode", MEMBER_TEXT, offsetof(struct config_agent, set_mode), 0, valid_text,
      "the id of one of the agent's modes, or empty" },
    { "before", MEMBER_TEXT, offsetof(struct config_agent, before), 0, valid_text,
      "one line of shell, which runs in the sandbox before the agent" },
    { "install", MEMBER_TEXT, offsetof(struct config_agent, install), 0, valid_text,
      "one line that says how to install it" },
    { "packages", MEMBER_LIST, offsetof(struct config_agent, packages),
      offsetof(struct config_agent, package_count), valid_package,
      "a list of at most 32 names of npm packages" },
    { "arguments", MEMBER_LIST, offsetof(struct config_agent, arguments),
      offsetof(struct config_agent, argument_count), valid_text,
      "a list of at most 32 texts without control characters" },
    { "environment", MEMBER_LIST, offsetof(struct config_agent, environment),
      offsetof(struct config_agent, environment_count), valid_variable,
      "a list of at most 32 texts NAME=value" },
    { "services", MEMBER_LIST, offsetof(struct config_agent, services),
      offsetof(struct config_agent, service_count), valid_service,
      "a list of at most 32 names of services" },
};

static int read_text(struct config_agent *agent, const struct member *member,
                     const struct place *place, const struct json_value *value, struct error *err)
{
    char **field = (char **)(void *)((char *)agent + member->offset);
    const char *text = json_string(value);

    if (text == NULL || strlen(text) > TEXT_MAX || !member->valid(text))
        return wrong(place, value, member->name, member->must, err);
    config_replace(field, mem_strdup(text));
    return 0;
}

static int read_list(struct config_agent *agent, const struct member *member,
                     const struct place *place, const struct json_value *value, struct error *err)
{
    char ***field = (char ***)(void *)((char *)agent + member->offset);
    size_t *count = (size_t *)(void *)((char *)agent + member->count_offset);
    size_t len = json_count(value);
    char **list;
    size_t at = 0;

    if (json_kind(value) != JSON_KIND_ARRAY || len > LIST_MAX)
        return wrong(place, value, member->name, member->must, err);
    list = mem_new_zero(len + 1, sizeof(*list));
    for (const struct json_value *item = json_first(value); item != NULL; item = json_next(item)) {
        const char *text = json_string(item);

        if (text == NULL || strlen(text) > TEXT_MAX || !member->valid(text)) {
            config_list_free(list, at);
            return wrong(place, item, member->name, member->must, err);
        }
        list[at++] = mem_strdup(text);
    }
    config_list_free(*field, *count);
    *field = list;
    *count = len;
    return 0;
}

static size_t folder_len(const char *target)
{
    return (size_t)(strrchr(target, '/') - target);
}

/* Folders of read-only files: each is one more mount. */
static size_t count_folders(const struct config_agent *agent)
{
    size_t count = 0;

    for (size_t i = 0; i < agent->file_count; i++) {
        const char *target = agent->files[i].target;
        size_t len = folder_len(target);
        bool seen = str_starts(target, "~/");

        for (size_t j = 0; j < i && !seen; j++)
            seen = folder_len(agent->files[j].target) == len &&
                   strncmp(agent->files[j].target, target, len) == 0;
        count += !seen;
    }
    return count;
}

static int read_files(struct config_agent *agent, const struct place *place,
                      const struct json_value *value, struct error *err)
{
    if (json_kind(value) != JSON_KIND_OBJECT || json_count(value) > FILES_MAX)
        return wrong(place, value, "files", "an object of at most 8 paths, each with its text",
                     err);
    finish_files(agent);
    agent->files = mem_new_zero(FILES_MAX, sizeof(*agent->files));
    for (const struct json_value *file = json_first(value); file != NULL; file = json_next(file)) {
        const char *text = json_string(file);

        if (!valid_target(json_name(file)))
            return wrong(place, file, "files",
                         "named by paths below ~/, /etc/FOLDER/ or /run/agent-config/FOLDER/", err);
        if (text == NULL || strlen(text) > FILE_TEXT_MAX)
            return wrong(place, file, "files", "texts of at most 64 KiB", err);
        agent->files[agent->file_count].target = mem_strdup(json_name(file));
        agent->files[agent->file_count++].text = mem_strdup(text);
        if (count_folders(agent) > FOLDERS_MAX)
            return wrong(place, file, "files", "in at most 3 folders beside the home", err);
    }
    return 0;
}

static const char *const permission_names[] = { "allow", "ask", "reject" };

static int read_permissions(struct config_agent *agent, const struct place *place,
                            const struct json_value *value, struct error *err)
{
    for (unsigned i = 0; i < ARRAY_LEN(permission_names); i++) {
        if (str_equal(json_string(value), permission_names[i])) {
            agent->permissions = i;
            return 0;
        }
    }
    return wrong(place, value, "permissions", "allow, ask or reject", err);
}

static int read_member(struct config_agent *agent, const struct place *place,
                       const struct json_value *value, struct error *err)
{
    const char *name = json_name(value);

    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        if (!str_equal(members[i].name, name))
            continue;
        return members[i].kind == MEMBER_TEXT ? read_text(agent, &members[i], place, value, err)
                                              : read_list(agent, &members[i], place, value, err);
    }
    if (str_equal(name, "files"))
        return read_files(agent, place, value, err);
    if (str_equal(name, "permissions"))
        return read_permissions(agent, place, value, err);
    return wrong(place, value, "",
                 "an object of program, packages, arguments, environment, files, services, model, "
                 "setModel, setMode, before, permissions and install, nothing else",
                 err);
}

int config_agents_read(struct config *config, const struct json_value *entry, const char *file,
                       struct error *err)
{
    const char *name = json_name(entry);
    AUTO_BUF struct buf shown = BUF_INIT(256);
    struct config_agent *agent = agent_find(config, name);

    str_append_escaped(&shown, name, strlen(name), 64);
    struct place place = { file, buf_text(&shown) };
    if (strlen(name) > 64 || !config_only(name, strlen(name), CONFIG_LOWER CONFIG_DIGITS "-") ||
        name[0] == '-')
        return wrong(&place, entry, "", "named with lower-case letters, digits and dashes", err);
    if (json_kind(entry) != JSON_KIND_OBJECT)
        return wrong(&place, entry, "", "an object { … }", err);
    if (str_equal(name, "shell") || str_equal(name, "acp"))
        return wrong(&place, entry, "", "named otherwise: a driver has this name", err);
    if (agent == NULL && config->agent_count == ARRAY_LEN(builtins) + AGENTS_MAX)
        return wrong(&place, entry, "", "one of at most 64 agents", err);
    if (agent == NULL)
        agent = agent_add(config, name);
    agent->builtin = false;
    for (const struct json_value *value = json_first(entry); value != NULL;
         value = json_next(value)) {
        if (read_member(agent, &place, value, err) < 0)
            return -1;
    }
    if (agent->program[0] == '\0')
        return wrong(&place, entry, "program", "given: a program's name or absolute path", err);
    return 0;
}

/* Print ---------------------------------------------------------------------------------------- */

static void print_list(struct json_writer *writer, const char *name, char *const *list,
                       size_t count)
{
    if (count == 0)
        return;
    json_write_name(writer, name);
    json_write_array(writer);
    for (size_t i = 0; i < count; i++)
        json_write_string(writer, list[i]);
    json_write_array_end(writer);
}

static void print_agent(struct json_writer *writer, const struct config_agent *agent)
{
    json_write_object(writer);
    json_member_string(writer, "program", agent->program);
    print_list(writer, "packages", agent->packages, agent->package_count);
    print_list(writer, "arguments", agent->arguments, agent->argument_count);
    print_list(writer, "environment", agent->environment, agent->environment_count);
    if (agent->file_count > 0) {
        json_write_name(writer, "files");
        json_write_object(writer);
        for (size_t i = 0; i < agent->file_count; i++)
            json_member_string(writer, agent->files[i].target, agent->files[i].text);
        json_write_object_end(writer);
    }
    print_list(writer, "services", agent->services, agent->service_count);
    json_member_string_opt(writer, "model", agent->model);
    json_member_string_opt(writer, "setModel", agent->set_model);
    json_member_string_opt(writer, "setMode", agent->set_mode);
    json_member_string_opt(writer, "before", agent->before);
    json_member_string(writer, "permissions", permission_names[agent->permissions]);
    json_member_string_opt(writer, "install", agent->install);
    json_write_object_end(writer);
}

void config_agents_print(const struct config *config, struct buf *out)
{
    for (size_t i = 0; i < config->agent_count; i++) {
        const struct config_agent *agent = &config->agents[i];
        struct json_writer writer;

        buf_printf(out, "agents.%s = ", agent->name);
        json_write_init(&writer, out);
        print_agent(&writer, agent);
        buf_printf(out, "  # %s\n", agent->builtin ? "default: built in" : "file");
    }
}
