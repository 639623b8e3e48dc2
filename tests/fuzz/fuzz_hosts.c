// links: supervisor_proxy
/* Hosts, rules for hosts, and what tools say of their registries: what is read has one form, and a
 * rule allows its own host. Input: text. */
#include <stdint.h>
#include <string.h>

#include "common/mem.h"
#include "proxy/egress.h"
#include "proxy/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const char *text, size_t len)
{
    struct host host;
    struct host again;
    char form[HOST_TEXT_SIZE];

    if (!host_parse(text, len, 443, &host))
        return;
    host_format(&host, form);
    BUG_ON(!host_parse(form, strlen(form), 0, &again) || !host_equal(&host, &again) ||
           host.literal != again.literal);
    BUG_ON(host.name[0] == '\0' || host.port == 0);
    BUG_ON(host.name[strspn(host.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:")] != '\0');
    BUG_ON(!host.literal && strchr(host.name, ':') != NULL);
    BUG_ON(host.name[strspn(host.name, "0123456789.")] == '\0' && !host.literal);
}

static void check_rule(const char *rule)
{
    struct egress egress;
    struct error err = ERROR_INIT;

    if (egress_init(&egress, &rule, 1, &err) < 0)
        return;
    const struct egress_rule *read = &egress.rules[0];
    bool found = egress_reach(&egress, &read->host) != EGRESS_CLOSED;
    BUG_ON(found == read->below);
    if (!read->below && read->methods == NULL && read->path == NULL)
        BUG_ON(egress_find(&egress, &read->host, "PUT", "/any") == NULL);
    if (read->methods != NULL)
        BUG_ON(egress_find(&egress, &read->host, "get", "/") != NULL);
    egress_finish(&egress);
}

static void check_registry_rule(void *data, const char *rule)
{
    unsigned *count = data;
    struct egress egress;
    struct error err = ERROR_INIT;

    BUG_ON(++*count > 32);
    BUG_ON(egress_init(&egress, &rule, 1, &err) < 0);
    BUG_ON(egress.rules[0].methods == NULL || strcmp(egress.rules[0].methods, "GET,HEAD") != 0);
    egress_finish(&egress);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE
    char *text = mem_strndup((const char *)data, size);

    check_host((const char *)data, size);
    check_rule(text);
    for (int form = REGISTRY_PLAIN; form <= REGISTRY_FOLDER; form++) {
        unsigned count = 0;

        registry_read((enum registry_form)form, (const char *)data, size, check_registry_rule,
                      &count);
    }
    return 0;
}
