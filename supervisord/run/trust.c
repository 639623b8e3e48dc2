/* trust.c: how a sandbox's programs find the proxy and trust it: variables that tools know, and the
 * certificates where they look for them. */
#include "run/internal.h"

#include <string.h>

#include "common/str.h"

#define FOLDER "/etc/sandbox-ca"
#define BUNDLE FOLDER "/bundle.pem"
#define TEXT_OF(number) #number
#define PORT_TEXT(number) TEXT_OF(number)
#define PROXY "http://127.0.0.1:" PORT_TEXT(RUN_PROXY_PORT)
#define NO_PROXY "localhost,127.0.0.1,::1"
#define JAVA_PROXY(scheme)                                                                         \
    "-D" scheme ".proxyHost=127.0.0.1 -D" scheme ".proxyPort=" PORT_TEXT(RUN_PROXY_PORT)

static const char *const variables[] = {
    "HTTP_PROXY=" PROXY,
    "HTTPS_PROXY=" PROXY,
    "http_proxy=" PROXY,
    "https_proxy=" PROXY,
    "NO_PROXY=" NO_PROXY,
    "no_proxy=" NO_PROXY,
    /* Node's own fetch looks at the variables above only then. */
    "NODE_USE_ENV_PROXY=1",
    "SSL_CERT_FILE=" BUNDLE,
    "CURL_CA_BUNDLE=" BUNDLE,
    "GIT_SSL_CAINFO=" BUNDLE,
    "REQUESTS_CA_BUNDLE=" BUNDLE,
    "PIP_CERT=" BUNDLE,
    "CARGO_HTTP_CAINFO=" BUNDLE,
    "AWS_CA_BUNDLE=" BUNDLE,
    "DENO_CERT=" BUNDLE,
    "NODE_EXTRA_CA_CERTS=" FOLDER "/ca.pem",
    "JAVA_TOOL_OPTIONS=" JAVA_PROXY("http") " " JAVA_PROXY(
        "https") " -Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1]"
                 " -Djavax.net.ssl.trustStore=" FOLDER
                 "/cacerts.jks -Djavax.net.ssl.trustStoreType=JKS",
};

static size_t name_len(const char *variable)
{
    return strcspn(variable, "=");
}

/* The operator's own word goes before ours. */
static bool is_set(const struct runs_options *options, const char *variable)
{
    for (size_t i = 0; i < options->environment_count; i++) {
        size_t len = name_len(options->environment[i]);

        if (len == name_len(variable) && strncmp(options->environment[i], variable, len) == 0)
            return true;
    }
    return false;
}

void trust_find(struct runs *runs)
{
    if (!runs->trust_found && runs->options.find_trust != NULL)
        runs->options.find_trust(runs->options.find_trust_data, &runs->trust);
    runs->trust_found = true;
}

/* A run that has been stopped meanwhile is in another state. */
void runs_trust_found(struct runs *runs)
{
    runs->trust.pending = false;
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->awaits_trust && run->record.state == RUN_SANDBOX)
            step_start_sandbox(run);
        else
            run->awaits_trust = false;
    }
}

static const char *registry_variable(const struct run *run, size_t index)
{
    const struct run_trust *trust = &run->runs->trust;
    const char *variable;

    for (size_t i = 0; trust->variable != NULL; i++) {
        variable = trust->variable(trust->variable_data, i);
        if (variable == NULL)
            break;
        if (!is_set(&run->runs->options, variable) && index-- == 0)
            return variable;
    }
    return NULL;
}

const char *trust_variable(const struct run *run, size_t index)
{
    const struct runs_options *options = &run->runs->options;

    if (run->runs->trust.folder == NULL)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        if (is_set(options, variables[i]))
            continue;
        if (index-- == 0)
            return variables[i];
    }
    return registry_variable(run, index);
}

void trust_add(const struct run *run, struct sandbox_spec *spec)
{
    const struct run_trust *trust = &run->runs->trust;

    if (trust->folder == NULL)
        return;
    AUTO_FREE
    char *bundle = mem_printf("%s/bundle.pem", trust->folder);
    AUTO_FREE
    char *java = mem_printf("%s/cacerts.jks", trust->folder);
    sandbox_spec_add_mount(spec, trust->folder, FOLDER, SANDBOX_READ_ONLY);
    if (trust->system_file != NULL)
        sandbox_spec_add_mount(spec, bundle, trust->system_file, SANDBOX_READ_ONLY);
    if (trust->java_file != NULL)
        sandbox_spec_add_mount(spec, java, trust->java_file, SANDBOX_READ_ONLY);
}
