/* registry.c: the files belong to the host's user, the worst that they can do is open a host for
 * reading; what is no address is passed over. */
#include "proxy/registry.h"

#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/host.h"

#define ADDRESSES_MAX 32u

struct reader {
    void (*each)(void *data, const char *rule);
    void *data;
    unsigned count;
};

static void tell(struct reader *reader, const char *authority, size_t len, uint16_t default_port)
{
    const char *at = memrchr(authority, '@', len);
    struct host host;
    char text[HOST_TEXT_SIZE];

    if (at != NULL) {
        len -= (size_t)(at + 1 - authority);
        authority = at + 1;
    }
    if (reader->count == ADDRESSES_MAX || !host_parse(authority, len, default_port, &host))
        return;
    reader->count++;
    host_format(&host, text);
    AUTO_FREE
    char *rule = mem_printf("GET,HEAD %s", text);
    reader->each(reader->data, rule);
}

/* Every http or https address of TEXT, which ends with NUL. */
static void tell_addresses(struct reader *reader, const char *text)
{
    for (const char *at = strstr(text, "://"); at != NULL; at = strstr(at + 3, "://")) {
        size_t before = (size_t)(at - text);
        size_t len = strcspn(at + 3, "/?#,;'\" \t\r\n<>)]}|\\");

        /* A bracket ends an address, but not one of IPv6. */
        if (at[3] == '[')
            len = strcspn(at + 3, "/?#,;'\" \t\r\n<>)}|\\");
        if (before >= 5 && strncasecmp(at - 5, "https", 5) == 0)
            tell(reader, at + 3, len, 443);
        else if (before >= 4 && strncasecmp(at - 4, "http", 4) == 0)
            tell(reader, at + 3, len, 80);
    }
}

static bool speaks_of_registry(const char *line)
{
    return line[strspn(line, " \t")] != '#' &&
           (strstr(line, "registry") != NULL || strstr(line, "index") != NULL ||
            strstr(line, "\"dl\"") != NULL);
}

static bool is_bare_name(const char *line)
{
    return strchr(line, '.') != NULL && strpbrk(line, " \t:/@+=") == NULL;
}

static void read_line(struct reader *reader, enum registry_form form, char *line)
{
    switch (form) {
    case REGISTRY_PLAIN:
        if (is_bare_name(line))
            tell(reader, line, strlen(line), 443);
        else
            tell_addresses(reader, line);
        break;
    case REGISTRY_SETTING:
        if (speaks_of_registry(line))
            tell_addresses(reader, line);
        break;
    case REGISTRY_SOURCES:
        if (str_starts(line, "deb ") || str_starts(line, "URIs:"))
            tell_addresses(reader, line);
        break;
    case REGISTRY_FOLDER:
        if (strrchr(line, '-') != NULL) {
            *strrchr(line, '-') = '\0';
            if (is_bare_name(line))
                tell(reader, line, strlen(line), 443);
        }
        break;
    case REGISTRY_HELP:
        break;
    }
}

/* A help text is folded anywhere, so white space is skipped. */
static void read_help(struct reader *reader, const char *text)
{
    static const char mark[] = "(default";

    for (const char *at = strstr(text, mark); at != NULL; at = strstr(at + 1, mark)) {
        const char *start = at + sizeof(mark) - 1;
        size_t len;

        start += strspn(start, " \t\r\n:");
        len = strcspn(start, " \t\r\n)");
        AUTO_FREE
        char *word = mem_strndup(start, len);
        tell_addresses(reader, word);
    }
}

void registry_read(enum registry_form form, const char *text, size_t len,
                   void (*each)(void *data, const char *rule), void *data)
{
    struct reader reader = { each, data, 0 };
    AUTO_FREE
    char *copy = mem_strndup(text, len); /* up to a NUL */
    char *rest = copy;

    if (form == REGISTRY_HELP) {
        read_help(&reader, copy);
        return;
    }
    while (rest != NULL) {
        char *line = strsep(&rest, "\r\n");

        read_line(&reader, form, line);
    }
}

/* What says where: of a plain answer its lines in turn, of settings the one that ends in KEY. */
static const struct place {
    const char *tool;
    const char *key; /* NULL: the next line */
    const char *variable;
} places[] = {
    { "npm", NULL, "npm_config_registry" },
    { "pip3", "index-url", "PIP_INDEX_URL" },
    { "pip3", "extra-index-url", "PIP_EXTRA_INDEX_URL" },
    { "go", NULL, "GOPROXY" },
    { "go", NULL, "GOSUMDB" },
};

/* Printable, in one piece, and no key to anything. */
static bool may_be_told(const char *value)
{
    for (const char *at = value; *at != '\0'; at++)
        if (*at <= ' ' || *at >= 0x7f || *at == '@')
            return false;
    return value[0] != '\0' && strlen(value) < 2000;
}

/* "global.index-url='https://…'" of KEY: the value, cut out of LINE. */
static char *setting_value(char *line, const char *key)
{
    char *equals = strchr(line, '=');
    size_t len;

    if (equals == NULL)
        return NULL;
    *equals++ = '\0';
    if (!str_ends(line, key) || line[strlen(line) - strlen(key) - 1] != '.')
        return NULL;
    len = strlen(equals);
    if (len >= 2 && equals[0] == '\'' && equals[len - 1] == '\'') {
        equals[len - 1] = '\0';
        equals++;
    }
    return equals;
}

static void tell_variable(const char *name, const char *value,
                          void (*each)(void *data, const char *variable), void *data)
{
    bool address = value != NULL && (strstr(value, "://") != NULL || str_equal(name, "GOSUMDB"));

    if (!address || !may_be_told(value))
        return;
    AUTO_FREE
    char *variable = mem_printf("%s=%s", name, value);
    each(data, variable);
}

void registry_variables(const char *tool, const char *text, size_t len,
                        void (*each)(void *data, const char *variable), void *data)
{
    AUTO_FREE
    char *lines = mem_strndup(text, len);
    char *next = lines;

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        AUTO_FREE
        char *copy = places[i].key != NULL ? mem_strndup(text, len) : NULL;
        char *rest = copy;

        if (!str_equal(places[i].tool, tool))
            continue;
        if (places[i].key == NULL)
            tell_variable(places[i].variable, strsep(&next, "\r\n"), each, data);
        while (rest != NULL) {
            char *line = strsep(&rest, "\r\n");
            char *value = strlen(line) > strlen(places[i].key) + 1
                              ? setting_value(line, places[i].key)
                              : NULL;

            tell_variable(places[i].variable, value, each, data);
        }
    }
}
