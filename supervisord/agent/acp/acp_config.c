#include "agent/acp/acp_config.h"

#include <string.h>

#include "agent/acp/acp_locate.h"
#include "agent/opencode/opencode_config.h"
#include "agent/agent_environment.h"
#include "common/mem.h"
#include "common/str.h"

#define SCRIPT_MAX (256u << 10)
#define FILE_MAX (256u << 10)
#define VALUE_MAX (16u << 10)
#define DIRS_MAX 4
/* A model's name goes into files of many formats. */
#define MODEL_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@+-[]"

/* Models --------------------------------------------------------------------------------------- */

static const struct agent_provider *find_provider(const struct agent_options *options,
                                                  const char *name)
{
    for (size_t i = 0; i < options->provider_count; i++) {
        if (str_equal(options->providers[i].name, name))
            return &options->providers[i];
    }
    return NULL;
}

static bool may_use(const struct agent_profile *profile, const char *provider)
{
    for (size_t i = 0; i < profile->service_count; i++) {
        if (str_equal(profile->services[i], provider))
            return true;
    }
    return profile->service_count == 0;
}

static int refuse_service(const struct agent_profile *profile, const char *provider,
                          struct error *err)
{
    AUTO_BUF struct buf names = BUF_INIT(4096);

    for (size_t i = 0; i < profile->service_count; i++)
        buf_printf(&names, "%s%s/…", i > 0 ? ", " : "", profile->services[i]);
    return error_argument(err, "model", "the agent %s can't use %.64s; it works with %s",
                          profile->name, provider, buf_text(&names));
}

int acp_check_model(const struct agent_options *options, const char *model, struct error *err)
{
    struct opencode_model parsed;

    if (opencode_model_parse(&parsed, model, err) < 0)
        return -1;
    if (model[strspn(model, MODEL_BYTES)] != '\0')
        return error_argument(err, "model", "holds a character that no model's name has");
    if (options->profile != NULL && !may_use(options->profile, parsed.provider))
        return refuse_service(options->profile, parsed.provider, err);
    return opencode_check_model(options, model, err);
}

/* Templates ------------------------------------------------------------------------------------ */

struct values {
    const struct agent_options *options;
    struct opencode_model model;
    const char *base_url;
};

static int add_token(struct buf *out, const struct values *values, struct error *err)
{
    (void)err;
    buf_append_str(out, values->options->token);
    return 0;
}

static int add_model(struct buf *out, const struct values *values, struct error *err)
{
    (void)err;
    buf_append_str(out, values->model.name);
    return 0;
}

static int add_provider(struct buf *out, const struct values *values, struct error *err)
{
    (void)err;
    buf_append_str(out, values->model.provider);
    return 0;
}

static int add_base_url(struct buf *out, const struct values *values, struct error *err)
{
    (void)err;
    buf_append_str(out, values->base_url);
    return 0;
}

/* Without the path that the provider's own API has in front. */
static int add_service_url(struct buf *out, const struct values *values, struct error *err)
{
    AUTO_FREE
    char *part = mem_printf("/proxy/%s", values->model.provider);
    const char *at = strstr(values->base_url, part);

    (void)err;
    if (at == NULL)
        buf_append_str(out, values->base_url);
    else
        buf_append(out, values->base_url, (size_t)(at - values->base_url) + strlen(part));
    return 0;
}

static int add_home(struct buf *out, const struct values *values, struct error *err)
{
    (void)err;
    buf_append_str(out, values->options->home);
    return 0;
}

static int add_directory(struct buf *out, const struct values *values, struct error *err)
{
    (void)err;
    buf_append_str(out, values->options->directory);
    return 0;
}

static int add_opencode_config(struct buf *out, const struct values *values, struct error *err)
{
    AUTO_BUF struct buf config = BUF_INIT(FILE_MAX);

    if (opencode_config_write(&config, values->options, err) < 0)
        return -1;
    buf_append(out, config.data, config.len);
    return 0;
}

static const struct name {
    const char *name;
    int (*add)(struct buf *out, const struct values *values, struct error *err);
} names[] = {
    { "{token}", add_token },
    { "{model}", add_model },
    { "{provider}", add_provider },
    { "{baseUrl}", add_base_url },
    { "{serviceUrl}", add_service_url },
    { "{home}", add_home },
    { "{directory}", add_directory },
    { "{opencodeConfig}", add_opencode_config },
};

static const struct name *name_at(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_starts(text, names[i].name))
            return &names[i];
    }
    return NULL;
}

static int read_values(struct values *values, const struct agent_options *options,
                       struct error *err)
{
    const struct agent_provider *provider;

    values->options = options;
    if (opencode_model_parse(&values->model, options->model, err) < 0)
        return -1;
    provider = find_provider(options, values->model.provider);
    values->base_url = provider != NULL ? provider->base_url : "";
    return 0;
}

int acp_expand(struct buf *out, const struct agent_options *options, const char *template,
               struct error *err)
{
    struct values values;

    if (read_values(&values, options, err) < 0)
        return -1;
    while (*template != '\0') {
        size_t len = strcspn(template, "{");
        const struct name *name;

        buf_append(out, template, len);
        template += len;
        name = name_at(template);
        if (name != NULL && name->add(out, &values, err) < 0)
            return -1;
        if (name == NULL && *template != '\0')
            buf_append_char(out, *template);
        template += name != NULL ? strlen(name->name) : (*template != '\0');
    }
    if (out->failed)
        return error_set(err, ERR_LIMIT, 0, "agents.%s: a text is too long",
                         options->profile->name);
    return 0;
}

/* The start script ----------------------------------------------------------------------------- */

/* In single quotes, where a shell knows no other special character. */
static void add_quoted(struct buf *script, const char *text)
{
    buf_append_char(script, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            buf_append_str(script, "'\\''");
        else
            buf_append_char(script, *text);
    }
    buf_append_char(script, '\'');
}

static int add_expanded(struct buf *script, const struct agent_options *options,
                        const char *template, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(VALUE_MAX);

    if (acp_expand(&text, options, template, err) < 0)
        return -1;
    add_quoted(script, buf_text(&text));
    return 0;
}

static int add_variables(struct buf *script, const struct agent_options *options, struct error *err)
{
    const struct agent_profile *profile = options->profile;

    for (size_t i = 0; i < profile->environment_count; i++) {
        size_t len = strcspn(profile->environment[i], "=");

        buf_printf(script, "export %.*s=", (int)len, profile->environment[i]);
        if (add_expanded(script, options,
                         profile->environment[i] + len + (profile->environment[i][len] == '='),
                         err) < 0)
            return -1;
        buf_append_char(script, '\n');
    }
    return 0;
}

/* A file of the home is laid there anew at each start: the agent may have changed it, and whatever
 * lies there now is not written through. */
static void add_home_file(struct buf *script, const char *source, const char *target)
{
    const char *slash = strrchr(target, '/');
    AUTO_FREE
    char *dir = mem_strndup(target, (size_t)(slash - target));

    buf_append_str(script, "mkdir -p ");
    add_quoted(script, dir);
    buf_append_str(script, "\nrm -rf ");
    add_quoted(script, target);
    buf_append_str(script, "\ncat ");
    add_quoted(script, source);
    buf_append_str(script, " >");
    add_quoted(script, target);
    buf_append_char(script, '\n');
}

struct dirs {
    char *list[DIRS_MAX];
    size_t count;
};

/* The folder of a read-only file, frozen once. */
static int add_dir_of(struct dirs *dirs, const struct agent_files *files, const char *target,
                      struct error *err)
{
    AUTO_FREE
    char *dir = mem_strndup(target, (size_t)(strrchr(target, '/') - target));

    for (size_t i = 0; i < dirs->count; i++) {
        if (str_equal(dirs->list[i], dir))
            return 0;
    }
    if (dirs->count == DIRS_MAX)
        return error_set(err, ERR_LIMIT, 0, "an agent's files lie in more than %d folders",
                         DIRS_MAX - 1);
    files->add_frozen_dir(files->data, dir);
    dirs->list[dirs->count++] = STEAL(dir);
    return 0;
}

static int add_file(struct buf *script, struct dirs *dirs, const struct agent_options *options,
                    size_t index, const struct agent_files *files, struct error *err)
{
    const struct agent_profile_file *file = &options->profile->files[index];
    AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
    AUTO_FREE
    char *staged = mem_printf(ACP_CONFIG_DIR "/file-%zu", index);
    AUTO_FREE
    char *home = NULL;

    if (acp_expand(&text, options, file->text, err) < 0)
        return -1;
    if (!str_starts(file->target, "~/")) {
        if (add_dir_of(dirs, files, file->target, err) < 0)
            return -1;
        files->add_file(files->data, file->target, text.len > 0 ? text.data : "", text.len);
        return 0;
    }
    files->add_file(files->data, staged, text.len > 0 ? text.data : "", text.len);
    home = mem_printf("%s%s", options->home, file->target + 1);
    add_home_file(script, staged, home);
    return 0;
}

static int add_command(struct buf *script, const struct agent_options *options,
                       const struct acp_found *found, struct error *err)
{
    buf_append_str(script, "exec ");
    if (found->interpreter[0] != '\0') {
        add_quoted(script, ACP_INTERPRETER);
        buf_append_char(script, ' ');
    }
    add_quoted(script, found->program);
    for (size_t i = 0; i < options->profile->argument_count; i++) {
        buf_append_char(script, ' ');
        if (add_expanded(script, options, options->profile->arguments[i], err) < 0)
            return -1;
    }
    buf_append_char(script, '\n');
    return 0;
}

static int write_script(struct buf *script, struct dirs *dirs, const struct agent_options *options,
                        const struct acp_found *found, const struct agent_files *files,
                        struct error *err)
{
    buf_append_str(script, "#!/bin/sh\nset -e\n");
    if (add_dir_of(dirs, files, ACP_START_SCRIPT, err) < 0 ||
        add_variables(script, options, err) < 0)
        return -1;
    for (size_t i = 0; i < options->profile->file_count; i++) {
        if (add_file(script, dirs, options, i, files, err) < 0)
            return -1;
    }
    buf_printf(script, "%s\n", options->profile->before);
    if (add_command(script, options, found, err) < 0)
        return -1;
    if (script->failed)
        return error_set(err, ERR_LIMIT, 0, "agents.%s: it is too long", options->profile->name);
    files->add_file(files->data, ACP_START_SCRIPT, script->data, script->len);
    return 0;
}

int acp_prepare(const struct agent_options *options, const char *program,
                const struct agent_files *files, struct error *err)
{
    AUTO_BUF struct buf script = BUF_INIT(SCRIPT_MAX);
    struct acp_found found;
    struct dirs dirs = { .count = 0 };
    int rc;

    if (options->profile == NULL)
        return error_set(err, ERR_INVALID, 0, "this agent is described by no profile");
    if (acp_found_parse(&found, program != NULL ? program : "", err) < 0)
        return -1;
    rc = acp_check_model(options, options->model, err);
    if (rc == 0)
        rc = write_script(&script, &dirs, options, &found, files, err);
    if (rc == 0)
        files->add_program(files->data, found.source, found.target);
    if (rc == 0 && found.interpreter[0] != '\0')
        files->add_program(files->data, found.interpreter, ACP_INTERPRETER);
    for (size_t i = 0; i < dirs.count; i++)
        free(dirs.list[i]);
    acp_found_finish(&found);
    return rc;
}

/* Environment ---------------------------------------------------------------------------------- */

char **acp_environment_new(const struct agent_options *options)
{
    static const char *const own[] = { "SHELL=/bin/bash", "GIT_TERMINAL_PROMPT=0" };

    return agent_environment_new(options, own, ARRAY_LEN(own));
}
