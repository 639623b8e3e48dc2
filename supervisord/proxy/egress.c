/* egress.c: rules are read once; a request is compared with each. */
#include "proxy/egress.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "http/http.h"
#include "proxy/url_path.h"

static bool methods_valid(const char *text)
{
    for (;;) {
        size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

        if (len == 0 || len > 20)
            return false;
        if (text[len] == '\0')
            return true;
        if (text[len] != ',')
            return false;
        text += len + 1;
    }
}

static bool parse_path(struct egress_rule *rule, const char *path)
{
    size_t len = strlen(path);

    rule->path_below = str_ends(path, "/...");
    if (rule->path_below)
        len -= 3;
    rule->path = mem_strndup(path, len);
    return url_path_plain(rule->path, len);
}

/* A star for a whole top-level domain would be a star for everything. */
static bool suffix_wide_enough(const struct host *host)
{
    return strchr(host->name, '.') != NULL || strcmp(host->name, "localhost") == 0;
}

static bool parse_host(struct egress_rule *rule, const char *text, size_t len)
{
    rule->below = len > 2 && text[0] == '*' && text[1] == '.';
    if (rule->below)
        text += 2, len -= 2;
    if (!host_parse(text, len, 0, &rule->host))
        return false;
    addr_exception_parse(rule->host.name, &rule->exception);
    return !rule->below || (!rule->host.literal && suffix_wide_enough(&rule->host));
}

static bool parse_rule(struct egress_rule *rule, const char *text)
{
    static const char private[] = " private";
    const char *space = strchr(text, ' ');
    size_t len = strlen(text);
    bool is_private = len > sizeof(private) && str_ends(text, private);

    if (is_private)
        len -= sizeof(private) - 1;
    AUTO_FREE
    char *where = mem_strndup(text, len);
    char *host = where;
    if (space != NULL && (size_t)(space - text) < len) {
        where[space - text] = '\0';
        host = where + (space - text) + 1;
        rule->methods = mem_strdup(where);
        if (!methods_valid(rule->methods))
            return false;
    }
    size_t host_len = strcspn(host, "/");
    if (!parse_host(rule, host, host_len))
        return false;
    rule->exception.private = is_private;
    return host[host_len] == '\0' || parse_path(rule, host + host_len);
}

static void rule_finish(struct egress_rule *rule)
{
    free(rule->text);
    free(rule->methods);
    free(rule->path);
}

static bool has_rule(const struct egress *egress, const char *text)
{
    for (size_t i = 0; i < egress->count; i++)
        if (strcmp(egress->rules[i].text, text) == 0)
            return true;
    return false;
}

int egress_add(struct egress *egress, const char *text, struct error *err)
{
    struct egress_rule rule = { .text = mem_strdup(text) };
    struct egress_rule *rules;

    if (has_rule(egress, text)) {
        rule_finish(&rule);
        return 0;
    }
    if (!parse_rule(&rule, text)) {
        rule_finish(&rule);
        return error_argument(err, "egress",
                              "\"%.100s\" is no rule; a rule is HOST:PORT, with methods before it "
                              "and a path behind it where wanted",
                              text);
    }
    rules = mem_new_zero(egress->count + 1, sizeof(*rules));
    if (egress->count > 0)
        memcpy(rules, egress->rules, egress->count * sizeof(*rules));
    free(egress->rules);
    egress->rules = rules;
    egress->rules[egress->count++] = rule;
    return 0;
}

int egress_init(struct egress *egress, const char *const *rules, size_t count, struct error *err)
{
    *egress = (struct egress){ 0 };
    for (size_t i = 0; i < count; i++) {
        if (egress_add(egress, rules[i], err) == 0)
            continue;
        egress_finish(egress);
        return -1;
    }
    return 0;
}

void egress_finish(struct egress *egress)
{
    for (size_t i = 0; i < egress->count; i++)
        rule_finish(&egress->rules[i]);
    free(egress->rules);
    *egress = (struct egress){ 0 };
}

static bool host_matches(const struct egress_rule *rule, const struct host *host)
{
    if (rule->host.port != host->port)
        return false;
    return rule->below ? host_below(host, &rule->host) : strcmp(rule->host.name, host->name) == 0;
}

static bool method_matches(const struct egress_rule *rule, const char *method)
{
    const char *at = rule->methods;

    if (at == NULL)
        return true;
    for (;;) {
        size_t len = strcspn(at, ",");

        if (len == strlen(method) && strncmp(at, method, len) == 0)
            return true;
        if (at[len] == '\0')
            return false;
        at += len + 1;
    }
}

static bool path_matches(const struct egress_rule *rule, const char *path)
{
    if (rule->path == NULL)
        return true;
    if (path == NULL)
        return false;
    return rule->path_below ? str_starts(path, rule->path) : strcmp(path, rule->path) == 0;
}

enum egress_reach egress_reach(const struct egress *egress, const struct host *host)
{
    enum egress_reach reach = EGRESS_CLOSED;

    for (size_t i = 0; i < egress->count; i++) {
        const struct egress_rule *rule = &egress->rules[i];

        if (!host_matches(rule, host))
            continue;
        if (rule->methods == NULL && rule->path == NULL)
            return EGRESS_OPAQUE;
        reach = EGRESS_JUDGED;
    }
    return reach;
}

const struct egress_rule *egress_find(const struct egress *egress, const struct host *host,
                                      const char *method, const char *path)
{
    for (size_t i = 0; i < egress->count; i++) {
        const struct egress_rule *rule = &egress->rules[i];

        if (host_matches(rule, host) && method_matches(rule, method) && path_matches(rule, path))
            return rule;
    }
    return NULL;
}
