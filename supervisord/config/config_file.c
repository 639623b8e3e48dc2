#include <stdio.h>
#include <string.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "config/config_internal.h"

enum { FILE_MAX_BYTES = 1 << 20, NAME_MAX_BYTES = 128 };

int config_at(struct error *err, const char *file, unsigned line)
{
    return line != 0 ? error_wrap(err, "%s:%u", file, line) : error_wrap(err, "%s", file);
}

struct file_reader {
    struct config *config;
    const struct paths *paths;
    const char *file;
};

/* The names that stand directly below PREFIX ("" or "limits."), each once. */
static void list_known(const char *prefix, struct buf *out)
{
    size_t prefix_len = strlen(prefix);
    const char *last = "";
    size_t last_len = 0;

    for (size_t i = 0; i < config_setting_count; i++) {
        const char *name = config_settings[i].name;

        if (!str_starts(name, prefix))
            continue;
        size_t len = strcspn(name + prefix_len, ".");
        if (len == last_len && strncmp(name + prefix_len, last, len) == 0)
            continue;
        last = name + prefix_len;
        last_len = len;
        buf_printf(out, "%s%.*s", out->len > 0 ? ", " : "", (int)len, last);
    }
    if (prefix_len == 0)
        buf_append_str(out, ", prices, repositories, services");
}

static int unknown(const struct file_reader *reader, const char *prefix,
                   const struct json_value *member, struct error *err)
{
    AUTO_BUF struct buf known = { 0 };
    AUTO_BUF struct buf name = { 0 };
    const char *text = json_name(member);

    buf_init(&known, 4096);
    buf_init(&name, 4096);
    list_known(prefix, &known);
    str_append_escaped(&name, text, strlen(text), 40);
    error_set(err, ERR_INVALID, 0, "unknown setting \"%s%s\"; known here: %s", prefix,
              buf_text(&name), buf_text(&known));
    return config_at(err, reader->file, json_line(member));
}

static const struct setting *find_setting(const char *name)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        if (str_equal(config_settings[i].name, name))
            return &config_settings[i];
    }
    return NULL;
}

static bool is_section(const char *prefix)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        if (str_starts(config_settings[i].name, prefix))
            return true;
    }
    return false;
}

/* NAME is where settings of the table begin. */
static bool is_own_section(const char *name)
{
    AUTO_FREE
    char *prefix = mem_printf("%s.", name);

    return is_section(prefix);
}

static int read_section(const struct file_reader *reader, const char *prefix,
                        const struct json_value *section, struct error *err);

static int read_member(const struct file_reader *reader, const char *prefix,
                       const struct json_value *member, struct error *err)
{
    char name[NAME_MAX_BYTES];
    char section[NAME_MAX_BYTES + 1];
    int len = snprintf(name, sizeof(name), "%s%s", prefix, json_name(member));

    /* A name with a dot would be another way to spell a path. */
    if (len < 0 || len >= (int)sizeof(name) || strchr(json_name(member), '.') != NULL ||
        json_name(member)[0] == '\0')
        return unknown(reader, prefix, member, err);
    const struct setting *setting = find_setting(name);
    if (setting != NULL) {
        config_set_origin(reader->config, setting, CONFIG_ORIGIN_FILE);
        if (config_set_json(reader->config, setting, member, reader->paths, err) == 0)
            return 0;
        error_wrap(err, "%s", name);
        return config_at(err, reader->file, json_line(member));
    }
    /* What is no setting there is an agent's name. */
    if (str_equal(prefix, "agents.") && !is_own_section(name))
        return config_agents_read(reader->config, member, reader->file, err);
    snprintf(section, sizeof(section), "%s.", name);
    if (!is_section(section))
        return unknown(reader, prefix, member, err);
    return read_section(reader, section, member, err);
}

/* As deep as the table's longest name, since a prefix that no setting has is refused. */
static int read_section(const struct file_reader *reader, const char *prefix,
                        const struct json_value *section, struct error *err)
{
    if (json_kind(section) != JSON_KIND_OBJECT) {
        error_set(err, ERR_INVALID, 0, "%.*s must be an object { … }", (int)strlen(prefix) - 1,
                  prefix);
        return config_at(err, reader->file, json_line(section));
    }
    for (const struct json_value *member = json_first(section); member != NULL;
         member = json_next(member)) {
        int result;

        if (prefix[0] == '\0' && str_equal(json_name(member), "services"))
            result = config_services_read(reader->config, member, reader->file, err);
        else if (prefix[0] == '\0' && str_equal(json_name(member), "prices"))
            result = config_prices_read(reader->config, member, reader->file, err);
        else if (prefix[0] == '\0' && str_equal(json_name(member), "repositories"))
            result = config_repositories_read(reader->config, member, reader->file, err);
        else
            result = read_member(reader, prefix, member, err);
        if (result < 0)
            return -1;
    }
    return 0;
}

static int read_text(const struct file_reader *reader, const char *text, size_t len,
                     struct error *err)
{
    AUTO_JSON struct json_doc *doc = NULL;

    if (str_blank(text) && strlen(text) == len)
        return 0;
    if (json_parse_commented(&doc, text, len, FILE_MAX_BYTES, err) < 0)
        return error_wrap(err, "%s", reader->file);
    if (json_kind(json_root(doc)) != JSON_KIND_OBJECT)
        return error_set(err, ERR_INVALID, 0, "%s: must be one object { … }", reader->file);
    return read_section(reader, "", json_root(doc), err);
}

int config_file_read(struct config *config, const struct paths *paths, struct error *err)
{
    struct file_reader reader = { config, paths, paths->config_file };
    AUTO_FREE
    char *text = NULL;
    struct error problem = ERROR_INIT;
    size_t len = 0;

    if (fd_read_file(paths->config_file, FILE_MAX_BYTES, &text, &len, &problem) == 0)
        return read_text(&reader, text, len, err);
    if (problem.code == ERR_NOT_FOUND)
        return 0;
    *err = problem;
    return error_wrap(err, "configuration");
}
