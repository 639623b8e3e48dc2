/* sandbox-supervisord: the daemon. */
#include <curl/curl.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/manual.h"
#include "common/mem.h"
#include "common/str.h"
#include "supervisor.h"

static const struct manual manual = {
    .name = "sandbox-supervisord",
    .summary = "runs coding agents in sandboxes",
    .usage = "[--print-config]",
    .about =
        "Runs coding agents in sandboxes. Serves MCP servers (sandbox-mcp) and sandboxctl on a "
        "Unix socket below its state\n"
        "folder. Runs in the foreground; sandbox-mcp and sandboxctl start it by themselves "
        "when it is needed.",
    .options =
        (const struct manual_item[]){
            { "--print-config", "show every setting with its value and where it comes from" },
            { "--version", "show the version" },
            { "--help", "show this" },
            { NULL, NULL } },
    .environment =
        (const struct manual_item[]){
            { "SANDBOX_MCP_CONFIG", "the configuration's file" },
            { "SANDBOX_MCP_STATE, SANDBOX_MCP_RUNTIME, SANDBOX_MCP_DATA", "folders" },
            { NULL, NULL } },
    .see_also = "sandboxctl(1), sandbox-mcp(1)",
};

/* Keys live in this process: no core, no tracing, nothing readable for others. */
static void harden_process(void)
{
    /* No core: of 0 a program that the host pipes cores to takes no notice. It is the most that
     * sandboxes can have, too. */
    const struct rlimit none = { 1, 1 };
    struct rlimit files;

    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file size is then an error, not the end */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void print_help(struct buf *out)
{
    manual_help(out, &manual);
}

static void print_page(struct buf *out)
{
    manual_begin(out, &manual);
    manual_section(out, "settings");
    manual_text(out,
                "Of the configuration, a file of JSON that may hold comments; a name with a dot "
                "is a member of an object in it.");
    config_manual(out);
    manual_end(out, &manual);
}

static void print_version(struct buf *out)
{
    buf_append_str(out, "sandbox-supervisord " SANDBOX_VERSION "\n");
}

static const struct {
    const char *option;
    void (*print)(struct buf *out);
} shown[] = {
    { "--help", print_help },
    { "--version", print_version },
    { "--man", print_page }, /* for the build */
};

static bool show(const char *option)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);

    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        if (!str_equal(shown[i].option, option))
            continue;
        shown[i].print(&text);
        fputs(buf_text(&text), stdout);
        return true;
    }
    return false;
}

static int print_config(const struct config *config)
{
    AUTO_BUF struct buf out = BUF_INIT(1u << 20);

    config_print(config, &out);
    fputs(buf_text(&out), stdout);
    return 0;
}

static int serve(const struct paths *paths, const struct config *config)
{
    struct error err = ERROR_INIT;
    int level = log_level_parse(config->log_level);

    if (level >= 0)
        log_set_level((enum log_level)level);
    /* libcurl and its TLS library are set up by the first transfer: an idle daemon does without
     * their memory. */
    if (sodium_init() < 0) {
        fprintf(stderr, "sandbox-supervisord: libsodium can't be used here\n");
        return 1;
    }
    if (supervisor_run(paths, config, &err) == 0)
        return 0;
    fprintf(stderr, "sandbox-supervisord: %s\n", err.text);
    return err.code == ERR_CONFLICT ? 3 : 1;
}

int main(int argc, char **argv)
{
    struct paths paths;
    struct config *config = NULL;
    struct error err = ERROR_INIT;
    bool print = argc == 2 && str_equal(argv[1], "--print-config");
    int rc;

    if (argc == 2 && show(argv[1]))
        return 0;
    if (argc > 1 && !print) {
        fprintf(stderr, "sandbox-supervisord: unknown argument %s; --help shows what there is\n",
                argv[1]);
        return 2;
    }
    harden_process();
    if (paths_init(&paths, &err) < 0 || config_load(&config, &paths, &err) < 0) {
        fprintf(stderr, "sandbox-supervisord: %s\n", err.text);
        paths_finish(&paths);
        return 1;
    }
    rc = print ? print_config(config) : serve(&paths, config);
    config_free(config);
    paths_finish(&paths);
    curl_global_cleanup();
    return rc;
}
