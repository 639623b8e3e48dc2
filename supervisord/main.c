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
#include "common/str.h"
#include "supervisor.h"

static const char usage[] =
    "usage: sandbox-supervisord [--print-config]\n"
    "\n"
    "Runs coding agents in sandboxes. Serves MCP servers (sandbox-mcp) and sandboxctl on a Unix "
    "socket below its state\n"
    "folder. Runs in the foreground; sandbox-mcp and sandboxctl start it by themselves when it is "
    "needed.\n"
    "\n"
    "  --print-config   show every setting with its value and where it comes from\n"
    "  --version        show the version\n"
    "  --help           show this\n"
    "\n"
    "Places: SANDBOX_MCP_CONFIG (file), SANDBOX_MCP_STATE, SANDBOX_MCP_RUNTIME, SANDBOX_MCP_DATA "
    "(folders).\n";

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

static int print_config(const struct config *config)
{
    struct buf out;

    buf_init(&out, 1u << 20);
    config_print(config, &out);
    fputs(buf_text(&out), stdout);
    buf_finish(&out);
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

    if (argc == 2 && str_equal(argv[1], "--help")) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc == 2 && str_equal(argv[1], "--version")) {
        printf("sandbox-supervisord %s\n", SANDBOX_VERSION);
        return 0;
    }
    if (argc > 1 && !print) {
        fputs(usage, stderr);
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
