#include "config/config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_write.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "config/config_internal.h"

enum { LIST_MAX = 1000 };

bool config_only(const char *text, size_t len, const char *bytes)
{
    return len > 0 && strspn(text, bytes) >= len;
}

void config_replace(char **field, char *with)
{
    free(*field);
    *field = with;
}

/* Checks of texts ----------------------------------------------------------------------------- */

static bool has_control(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return true;
    }
    return false;
}

static int check_plain(char **value, const struct paths *paths)
{
    (void)paths;
    return has_control(*value) || strchr(*value, ' ') != NULL ? -1 : 0;
}

static int check_model(char **value, const struct paths *paths)
{
    const char *slash = strchr(*value, '/');

    return slash == NULL || slash == *value || slash[1] == '\0' ? -1 : check_plain(value, paths);
}

static int check_agent(char **value, const struct paths *paths)
{
    (void)paths;
    return (*value)[strspn(*value, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0' ? -1 : 0;
}

/* Absolute, or below ~; without "..", and without a slash at the end. */
static int check_path(char **value, const struct paths *paths)
{
    if (str_equal(*value, "~") || str_starts(*value, "~/"))
        config_replace(value, mem_printf("%s%s", paths->home, *value + 1));
    if ((*value)[0] != '/' || has_control(*value))
        return -1;
    if (strstr(*value, "/../") != NULL || str_ends(*value, "/.."))
        return -1;
    for (size_t len = strlen(*value); len > 1 && (*value)[len - 1] == '/'; len--)
        (*value)[len - 1] = '\0';
    return 0;
}

static int check_program(char **value, const struct paths *paths)
{
    if ((*value)[0] == '\0')
        return 0;
    if (strchr(*value, '/') == NULL)
        return check_plain(value, paths);
    return check_path(value, paths);
}

static int check_program_path(char **value, const struct paths *paths)
{
    return (*value)[0] == '\0' ? 0 : check_path(value, paths);
}

static bool is_name(const char *text, size_t len)
{
    if (len == 0 || (text[0] >= '0' && text[0] <= '9'))
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return true;
}

static int check_environment(char **value, const struct paths *paths)
{
    const char *equals = strchr(*value, '=');

    (void)paths;
    return equals != NULL && is_name(*value, (size_t)(equals - *value)) && !has_control(*value)
               ? 0
               : -1;
}

/* One path that is the same on both sides, or two. */
static int check_folder(char **value, const struct paths *paths)
{
    const char *colon = strchr(*value, ':');
    AUTO_FREE
    char *host = colon != NULL ? mem_strndup(*value, (size_t)(colon - *value)) : mem_strdup(*value);
    AUTO_FREE
    char *inside = mem_strdup(colon != NULL ? colon + 1 : host);

    if (check_path(&host, paths) < 0 || inside[0] == '~' || check_path(&inside, paths) < 0)
        return -1;
    config_replace(value, mem_printf("%s:%s", host, inside));
    return 0;
}

static int check_cache(char **value, const struct paths *paths)
{
    static const char *const names[] = { "npm", "pip", "cargo", "go" };
    size_t len = strcspn(*value, "=");
    AUTO_FREE
    char *path = (*value)[len] == '=' ? mem_strdup(*value + len + 1) : NULL;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strlen(names[i]) != len || strncmp(names[i], *value, len) != 0)
            continue;
        if (path != NULL && check_path(&path, paths) < 0)
            return -1;
        if (path != NULL)
            config_replace(value, mem_printf("%s=%s", names[i], path));
        return 0;
    }
    return -1;
}

static int check_endpoint(char **value, const struct paths *paths)
{
    static const char *const forms[] = { "https://", "http://127.0.0.1", "http://localhost",
                                         "http://[::1]" };
    const char *host = strstr(*value, "//");

    (void)paths;
    if ((*value)[0] == '\0')
        return 0;
    for (size_t i = 0; host != NULL && i < ARRAY_LEN(forms); i++) {
        size_t len = strlen(forms[i]);
        bool ends = i == 0 || strchr(":", (*value)[len]) != NULL;

        if (strncmp(*value, forms[i], len) == 0 && ends && strpbrk(host + 2, "/@?# ") == NULL)
            return has_control(*value) ? -1 : 0;
    }
    return -1;
}

static int check_bucket(char **value, const struct paths *paths)
{
    (void)paths;
    return strspn(*value, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(*value) ? 0 : -1;
}

static int check_secret_name(char **value, const struct paths *paths)
{
    (void)paths;
    return (*value)[0] >= 'A' && (*value)[0] <= 'Z' &&
                   strspn(*value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(*value)
               ? 0
               : -1;
}

static int check_command(char **value, const struct paths *paths)
{
    (void)paths;
    return has_control(*value) ? -1 : 0;
}

/* The web pages are for this machine only. */
static bool filter_size_valid(const char *text)
{
    size_t digits = strspn(text, CONFIG_DIGITS);

    return digits > 0 && digits < 10 &&
           (text[digits] == '\0' ||
            (strchr("kmg", text[digits]) != NULL && text[digits + 1] == '\0'));
}

bool config_filter_valid(const char *text)
{
    return str_equal(text, "none") || str_equal(text, "blob:none") ||
           (str_starts(text, "blob:limit=") && filter_size_valid(text + strlen("blob:limit="))) ||
           (str_starts(text, "tree:") && filter_size_valid(text + strlen("tree:")));
}

static int check_filter(char **value, const struct paths *paths)
{
    (void)paths;
    return config_filter_valid(*value) ? 0 : -1;
}

bool config_branch_valid(const char *text)
{
    size_t len = strlen(text);

    if (len == 0)
        return true;
    return len <= 100 && strstr(text, "{id}") != NULL &&
           config_only(text, len, CONFIG_LOWER CONFIG_UPPER CONFIG_DIGITS "-_./{}") &&
           strchr("-./", text[0]) == NULL && strchr("./", text[len - 1]) == NULL &&
           strstr(text, "..") == NULL && strstr(text, "//") == NULL && strstr(text, "/.") == NULL &&
           strstr(text, ".lock") == NULL;
}

static int check_branch(char **value, const struct paths *paths)
{
    (void)paths;
    return config_branch_valid(*value) ? 0 : -1;
}

/* One line that git takes as a name or an address between angle brackets. */
static int check_person(char **value, const struct paths *paths)
{
    (void)paths;
    for (const char *p = *value; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '<' || *p == '>')
            return -1;
    }
    return (*value)[strspn(*value, " .,:;\"'\\")] != '\0' ? 0 : -1;
}

static int check_loopback(char **value, const struct paths *paths)
{
    unsigned char address[16];

    (void)paths;
    if (inet_pton(AF_INET, *value, address) == 1)
        return address[0] == 127 ? 0 : -1;
    return str_equal(*value, "::1") ? 0 : -1;
}

/* An address of this machine that others reach; "" none. */
static int check_ip(char **value, const struct paths *paths)
{
    unsigned char address[16];

    (void)paths;
    return (*value)[0] == '\0' || inet_pton(AF_INET, *value, address) == 1 ||
                   inet_pton(AF_INET6, *value, address) == 1
               ? 0
               : -1;
}

static int check_host_name(char **value, const struct paths *paths)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";

    (void)paths;
    return (*value)[strspn(*value, allowed)] == '\0' && strlen(*value) < 254 ? 0 : -1;
}

static int check_policy(char **value, const struct paths *paths)
{
    (void)paths;
    return str_equal(*value, "allow") || str_equal(*value, "ask") || str_equal(*value, "deny") ? 0
                                                                                               : -1;
}

static int check_questions(char **value, const struct paths *paths)
{
    (void)paths;
    return str_equal(*value, "ask") || str_equal(*value, "deny") ? 0 : -1;
}

static int check_unanswered(char **value, const struct paths *paths)
{
    (void)paths;
    return str_equal(*value, "deny") || str_equal(*value, "stop") ? 0 : -1;
}

static int check_notice_event(char **value, const struct paths *paths)
{
    (void)paths;
    return str_equal(*value, "ended") || str_equal(*value, "waiting") ? 0 : -1;
}

static int check_secret(char **value, const struct paths *paths)
{
    (void)paths;
    return ((*value)[0] >= 'A' && (*value)[0] <= 'Z' &&
            config_only(*value, strlen(*value), CONFIG_UPPER CONFIG_DIGITS "_")) ||
                   (*value)[0] == '\0'
               ? 0
               : -1;
}

/* Nobody's name or password is in it: those would be seen in logs and by --print-config. */
static int check_address(char **value, const struct paths *paths)
{
    const char *host = strstr(*value, "://");
    size_t host_len;

    (void)paths;
    if ((*value)[0] == '\0')
        return 0;
    if ((!str_starts(*value, "https://") && !str_starts(*value, "http://")) || has_control(*value))
        return -1;
    host_len = strcspn(host + 3, "/?#");
    if (host_len == 0 || memchr(host + 3, '@', host_len) != NULL || strchr(*value, ' ') != NULL)
        return -1;
    return 0;
}

static int check_log_level(char **value, const struct paths *paths)
{
    (void)paths;
    return log_level_parse(*value) < 0 ? -1 : 0;
}

static bool valid_host_name(const char *host, size_t len)
{
    if (len == 0 || len > 253 || host[0] == '.' || host[0] == '-' || host[len - 1] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = host[i];

        if (c == '.' && host[i + 1] == '.')
            return false;
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-'))
            return false;
    }
    return true;
}

static void lower(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
    }
}

/* HOST:PORT, *.HOST:PORT or [IPv6]:PORT. */
static bool valid_reach(const char *text)
{
    unsigned char address[16];
    const char *colon = strrchr(text, ':');
    const char *host = text;
    uint64_t port;
    size_t len;

    if (colon == NULL || !str_parse_u64(colon + 1, 65535, &port) || port == 0)
        return false;
    len = (size_t)(colon - host);
    if (host[0] == '[') {
        if (len < 4 || host[len - 1] != ']')
            return false;
        AUTO_FREE
        char *inside = mem_strndup(host + 1, len - 2);
        return inet_pton(AF_INET6, inside, address) == 1;
    }
    if (str_starts(host, "*.")) {
        host += 2;
        len -= 2;
        /* A star for a whole top-level domain would be a star for everything. */
        if (memchr(host, '.', len) == NULL && !(len == 9 && strncmp(host, "localhost", 9) == 0))
            return false;
    }
    return valid_host_name(host, len);
}

static bool valid_methods(const char *text, size_t len)
{
    size_t run = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == ',' && run > 0)
            run = 0;
        else if (text[i] >= 'A' && text[i] <= 'Z' && run < 20)
            run++;
        else
            return false;
    }
    return run > 0;
}

/* What the proxy will find plain as well: no escapes, no empty or dot segments; "..." at the end.
 */
static bool valid_rule_path(const char *path)
{
    size_t len = strlen(path);

    if (str_ends(path, "/..."))
        len -= 3;
    for (size_t i = 0; i < len; i++) {
        char c = path[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr("-_~/.@+", c) != NULL))
            return false;
        if (c == '/' && i + 1 < len && (path[i + 1] == '/' || path[i + 1] == '.'))
            return false;
    }
    return true;
}

/* "[METHOD[,METHOD…] ]HOST:PORT[/path[/...]][ private]" */
int config_egress_rule(char **value)
{
    const char *space = strchr(*value, ' ');
    bool methods = space != NULL && valid_methods(*value, (size_t)(space - *value));
    const char *host = methods ? space + 1 : *value;
    size_t len = strcspn(host, " ");
    AUTO_FREE
    char *reach = mem_strndup(host, strcspn(host, "/ "));
    AUTO_FREE
    char *path = mem_strndup(host + strlen(reach), len - strlen(reach));

    lower(reach);
    if ((host[len] != '\0' && !str_equal(host + len, " private")) || !valid_reach(reach) ||
        !valid_rule_path(path))
        return -1;
    config_replace(value, mem_printf("%.*s%s%s%s", methods ? (int)(host - *value) : 0, *value,
                                     reach, path, host + len));
    return 0;
}

static int check_egress(char **value, const struct paths *paths)
{
    (void)paths;
    return config_egress_rule(value);
}

/* A password would be seen in logs and by --print-config. */
static int check_proxy(char **value, const struct paths *paths)
{
    static const char scheme[] = "http://";
    char *host = *value + sizeof(scheme) - 1;

    (void)paths;
    if ((*value)[0] == '\0')
        return 0;
    if (!str_starts(*value, scheme))
        return -1;
    lower(host);
    return host[0] != '*' && valid_reach(host) ? 0 : -1;
}

/* As a reach, but for any port where none is named, and below any domain. */
static int check_no_proxy(char **value, const struct paths *paths)
{
    const char *host = str_starts(*value, "*.") ? *value + 2 : *value;
    const char *last = strrchr(host, ':');
    bool has_port = last != NULL && strchr(last, ']') == NULL;
    AUTO_FREE
    char *reach = mem_printf("%s%s", host, has_port ? "" : ":1");

    (void)paths;
    lower(reach);
    lower(*value);
    return host[0] != '*' && valid_reach(reach) ? 0 : -1;
}

/* The table ----------------------------------------------------------------------------------- */

#define TYPED(member, ctype)                                                                       \
    _Generic(((struct config *)0)->member, ctype : offsetof(struct config, member))
#define TEXT_ROW(name, member, min, max, otherwise, check, allowed, env, help)                     \
    {                                                                                              \
        name, SETTING_STRING, TYPED(member, char *), 0, min, max, 0, otherwise, check, allowed,    \
            env, help                                                                              \
    }
#define U32_ROW(name, member, min, max, otherwise, env, help)                                      \
    {                                                                                              \
        name, SETTING_U32, TYPED(member, uint32_t), 0, min, max, otherwise, NULL, NULL, NULL, env, \
            help                                                                                   \
    }
#define BOOL_ROW(name, member, otherwise, env, help)                                               \
    {                                                                                              \
        name, SETTING_BOOL, TYPED(member, bool), 0, 0, 1, otherwise, NULL, NULL, NULL, env, help   \
    }
#define LIST_ROW(name, member, count, check, allowed, env, help)                                   \
    {                                                                                              \
        name, SETTING_LIST, TYPED(member, char **), TYPED(count, size_t), 1, 4096, 0, NULL, check, \
            allowed, env, help                                                                     \
    }

/* host uids: above what useradd (to 60000), systemd (61184 to 65519), /etc/subuid (100000 to
 * 600100000), containers (524288 to 1879048191) and directory services (to 2000200000) give out,
 * and below systemd's foreign range at 2147352576 and the 2^31 from where some programs take uids
 * for negative. */
enum { HOST_UID_MIN = 65536, HOST_UID_DEFAULT = 2100000000, HOST_UID_END = 2147352576 };

static const char absolute_path[] = "an absolute path, or one that begins with ~/, without \"..\"";

static const char web_address[] = "an address with https:// or http://, without a name or password";
static const char secret_name[] = "the name of a secret: capital letters, digits and _";

const struct setting config_settings[] = {
    TEXT_ROW("defaults.agent", default_agent, 1, 64, "opencode", check_agent,
             "the name of an agent: lower-case letters, digits and dashes",
             "SANDBOX_MCP_DEFAULTS_AGENT", "agent of a run that names none"),
    TEXT_ROW("defaults.model", default_model, 1, 200, "anthropic/claude-sonnet-4-5", check_model,
             "a model as provider/model, without spaces", "SANDBOX_MCP_DEFAULTS_MODEL",
             "model of a run that names none"),
    U32_ROW("defaults.timeoutMinutes", default_timeout_minutes, 1, 10080, 120,
            "SANDBOX_MCP_DEFAULTS_TIMEOUT_MINUTES", "time limit of a run that names none"),
    U32_ROW("limits.concurrentRuns", concurrent_runs, 1, 256, 4,
            "SANDBOX_MCP_LIMITS_CONCURRENT_RUNS",
            "runs that work at the same time; more wait in the queue"),
    U32_ROW("limits.queuedRuns", max_queued_runs, 1, 100000, 1000, "SANDBOX_MCP_LIMITS_QUEUED_RUNS",
            "runs that may wait; more are refused"),
    U32_ROW("limits.memoryMiB", memory_mib, 256, 1 << 20, 4096, "SANDBOX_MCP_LIMITS_MEMORY_MIB",
            "memory of one sandbox, /tmp and other files in memory included"),
    U32_ROW("limits.processes", processes, 16, 65536, 512, "SANDBOX_MCP_LIMITS_PROCESSES",
            "processes and threads of one sandbox"),
    U32_ROW("limits.diskMiB", disk_mib, 64, 1 << 24, 10240, "SANDBOX_MCP_LIMITS_DISK_MIB",
            "disk space of one session's workspace and home"),
    U32_ROW("limits.tmpMiB", tmp_mib, 1, 1 << 20, 1024, "SANDBOX_MCP_LIMITS_TMP_MIB",
            "size of a sandbox's /tmp, which lies in memory"),
    U32_ROW("limits.openFiles", open_files, 64, 1 << 20, 4096, "SANDBOX_MCP_LIMITS_OPEN_FILES",
            "open files of one process in a sandbox"),
    U32_ROW("limits.cpuWeight", cpu_weight, 1, 10000, 100, "SANDBOX_MCP_LIMITS_CPU_WEIGHT",
            "share of the processors that a sandbox gets when they are short; other work has 100"),
    U32_ROW("limits.outputMiB", output_mib, 1, 1 << 20, 256, "SANDBOX_MCP_LIMITS_OUTPUT_MIB",
            "what one run may write to its log"),
    U32_ROW("limits.freeMemoryMiB", free_memory_mib, 0, 1 << 24, 512,
            "SANDBOX_MCP_LIMITS_FREE_MEMORY_MIB",
            "runs wait in the queue while the machine has less memory than this to spare"),
    U32_ROW("limits.freeDiskMiB", free_disk_mib, 0, 1 << 24, 1024,
            "SANDBOX_MCP_LIMITS_FREE_DISK_MIB",
            "runs wait in the queue while the state folder's disk has less free space than this"),
    U32_ROW("limits.memoryPressurePercent", memory_pressure_percent, 0, 100, 20,
            "SANDBOX_MCP_LIMITS_MEMORY_PRESSURE_PERCENT",
            "runs wait in the queue while programs wait for memory for more of the time than this "
            "(/proc/pressure/memory, some, 10 s); 0: not looked at"),
    LIST_ROW("localRepositories", local_repositories, local_repository_count, check_path,
             absolute_path, "SANDBOX_MCP_LOCAL_REPOSITORIES",
             "folders whose repositories a run may clone by path; in the environment separated by "
             "colons"),
    TEXT_ROW("sandbox.backend", sandbox_backend, 1, 16, "bwrap", check_agent,
             "the name of a sandbox backend: bwrap or none", "SANDBOX_MCP_SANDBOX_BACKEND",
             "what makes sandboxes"),
    BOOL_ROW("sandbox.allowNone", sandbox_allow_none, 0, "SANDBOX_MCP_SANDBOX_ALLOW_NONE",
             "whether the backend none may be used, which isolates nothing"),
    LIST_ROW("sandbox.require", sandbox_require, sandbox_require_count, check_agent,
             "the names of layers: lower-case letters, digits and dashes", NULL,
             "layers without which a sandbox is refused; sandboxctl doctor lists those in force"),
    LIST_ROW("sandbox.environment", sandbox_environment, sandbox_environment_count,
             check_environment, "NAME=value", NULL,
             "variables that agents and set-up commands get; no place for secrets"),
    LIST_ROW("sandbox.readOnlyFolders", sandbox_folders, sandbox_folder_count, check_folder,
             "an absolute path, or HOST-PATH:PATH-INSIDE", NULL,
             "more folders of this machine that sandboxes may read"),
    LIST_ROW("sandbox.caches", sandbox_caches, sandbox_cache_count, check_cache,
             "npm, pip, cargo or go, or one of them followed by =PATH", NULL,
             "download caches of this machine's user that sandboxes may read; what a session adds "
             "stays its own"),
    TEXT_ROW("sandbox.bwrap", sandbox_bwrap, 1, 4096, "bwrap", check_program,
             "a program's name or absolute path", "SANDBOX_MCP_SANDBOX_BWRAP",
             "the bubblewrap program; a name without a slash is looked up on PATH"),
    TEXT_ROW("sandbox.init", sandbox_init, 0, 4096, "", check_program_path, absolute_path,
             "SANDBOX_MCP_SANDBOX_INIT",
             "process 1 of sandboxes; empty: sandbox-init beside the daemon's program"),
    U32_ROW("sandbox.hostUidBase", host_uid_base, HOST_UID_MIN, HOST_UID_END - 1, HOST_UID_DEFAULT,
            "SANDBOX_MCP_SANDBOX_HOST_UID_BASE",
            "first of the host uids that sessions get, one each, when the daemon runs as root; "
            "nobody else may use them"),
    U32_ROW("sandbox.hostUidCount", host_uid_count, 1, 1000000, 10000,
            "SANDBOX_MCP_SANDBOX_HOST_UID_COUNT",
            "number of those uids, and so of sessions that can be kept then"),
    TEXT_ROW("agents.opencode.path", agent_opencode, 0, 4096, "", check_program_path, absolute_path,
             "SANDBOX_MCP_AGENTS_OPENCODE_PATH",
             "the OpenCode program; empty: the installed one in the data folder, then PATH"),
    U32_ROW("agents.startSeconds", agent_start_seconds, 1, 3600, 60,
            "SANDBOX_MCP_AGENTS_START_SECONDS", "time an agent may take to answer after its start"),
    TEXT_ROW("agents.permissions", permissions, 1, 8, "allow", check_policy, "allow, ask or deny",
             "SANDBOX_MCP_AGENTS_PERMISSIONS",
             "whether agents may run commands, change files and reach the network in their "
             "sandbox, have to ask a person, or may not"),
    TEXT_ROW("agents.questions", questions, 1, 8, "ask", check_questions, "ask or deny",
             "SANDBOX_MCP_AGENTS_QUESTIONS", "whether agents may ask a person something"),
    U32_ROW("agents.answerSeconds", answer_seconds, 1, 604800, 3600,
            "SANDBOX_MCP_AGENTS_ANSWER_SECONDS",
            "time a run waits for the answer to what its agent asks"),
    TEXT_ROW("agents.unanswered", unanswered, 1, 8, "deny", check_unanswered, "deny or stop",
             "SANDBOX_MCP_AGENTS_UNANSWERED",
             "what becomes of a request that nobody answers: deny lets the agent go on without, "
             "stop ends the run"),
    U32_ROW("workspace.cloneMinutes", clone_minutes, 1, 1440, 15,
            "SANDBOX_MCP_WORKSPACE_CLONE_MINUTES",
            "a clone is given up when it makes no progress for so long"),
    TEXT_ROW("workspace.filter", clone_filter, 1, 40, "blob:limit=1m", check_filter,
             "none, blob:none, blob:limit=SIZE or tree:DEPTH", "SANDBOX_MCP_WORKSPACE_FILTER",
             "what a clone leaves out until it is needed (git clone --filter); the history of "
             "commits is always whole"),
    U32_ROW("workspace.mirrorMiB", mirror_mib, 0, 1 << 20, 32, "SANDBOX_MCP_WORKSPACE_MIRROR_MIB",
            "repositories that take so much are kept once in the state folder, for new sessions to "
            "copy from; 0: none are"),
    TEXT_ROW("workspace.branch", work_branch, 0, 100, "agent/{slug}-{id}", check_branch,
             "a branch name with {id} in it, and perhaps {slug}, or empty",
             "SANDBOX_MCP_WORKSPACE_BRANCH",
             "name of the branch that a session works on; empty: the branch it begins with, which "
             "may be pushed only if push.refs lists it"),
    TEXT_ROW("workspace.gitName", git_name, 1, 100, "Sandbox agent", check_person,
             "one line without angle brackets", "SANDBOX_MCP_WORKSPACE_GIT_NAME",
             "name in the commits of agents"),
    TEXT_ROW("workspace.gitEmail", git_email, 1, 100, "agent@sandbox.invalid", check_person,
             "one line without angle brackets", "SANDBOX_MCP_WORKSPACE_GIT_EMAIL",
             "mail address in the commits of agents"),
    U32_ROW("setup.minutes", setup_minutes, 1, 1440, 30, "SANDBOX_MCP_SETUP_MINUTES",
            "time a repository's set-up command may take"),
    LIST_ROW("setup.allow", setup_allow, setup_allow_count, check_command,
             "a command line without line breaks", NULL,
             "set-up commands that a repository's own file .sandbox-mcp.json may ask for"),
    U32_ROW("run.stallMinutes", stall_minutes, 1, 1440, 30, "SANDBOX_MCP_RUN_STALL_MINUTES",
            "time without any sign of progress after which a run counts as stalled"),
    U32_ROW("checkpoints.seconds", checkpoint_seconds, 0, 86400, 300,
            "SANDBOX_MCP_CHECKPOINTS_SECONDS",
            "time after which a checkpoint is made of what a run that works has done; 0: only at "
            "its turns"),
    U32_ROW("checkpoints.maxMiB", checkpoint_mib, 0, 1 << 24, 2048,
            "SANDBOX_MCP_CHECKPOINTS_MAX_MIB",
            "disk space of one session's checkpoints, beyond which the oldest go; 0: none are "
            "made"),
    U32_ROW("checkpoints.count", checkpoint_count, 1, 1000, 100, "SANDBOX_MCP_CHECKPOINTS_COUNT",
            "checkpoints of one session, beyond which the oldest go"),
    U32_ROW("retention.days", retention_days, 0, 36500, 0, "SANDBOX_MCP_RETENTION_DAYS",
            "sessions that were not used for so long are deleted, unless they are on hold; 0: "
            "never"),
    U32_ROW("retention.mirrorDays", retention_mirror_days, 0, 36500, 30,
            "SANDBOX_MCP_RETENTION_MIRROR_DAYS",
            "mirrors of repositories that no session began with for so long are deleted; 0: never"),
    U32_ROW("retention.maxDiskMiB", retention_mib, 0, 1 << 28, 0,
            "SANDBOX_MCP_RETENTION_MAX_DISK_MIB",
            "while all sessions and mirrors take more disk than this, those used longest ago are "
            "deleted, mirrors first, sessions unless they are on hold; 0: never"),
    TEXT_ROW("backup.endpoint", backup_endpoint, 0, 1024, "", check_endpoint,
             "an https address without a path; http only for this machine",
             "SANDBOX_MCP_BACKUP_ENDPOINT", "storage for backups, which speaks S3"),
    TEXT_ROW("backup.region", backup_region, 1, 64, "us-east-1", check_plain, "a region's name",
             "SANDBOX_MCP_BACKUP_REGION", "region of that storage"),
    TEXT_ROW("backup.bucket", backup_bucket, 0, 63, "", check_bucket,
             "a bucket's name: lower-case letters, digits, dots and dashes",
             "SANDBOX_MCP_BACKUP_BUCKET", "bucket of that storage"),
    TEXT_ROW("backup.accessKey", backup_access_key, 1, 64, "BACKUP_ACCESS_KEY", check_secret_name,
             "the name of a secret", "SANDBOX_MCP_BACKUP_ACCESS_KEY_NAME",
             "name of the secret that holds that storage's access key"),
    TEXT_ROW("backup.secretKey", backup_secret_key, 1, 64, "BACKUP_SECRET_KEY", check_secret_name,
             "the name of a secret", "SANDBOX_MCP_BACKUP_SECRET_KEY_NAME",
             "name of the secret that holds that storage's secret key"),
    U32_ROW("model.headSeconds", model_head_seconds, 1, 3600, 300, "SANDBOX_MCP_MODEL_HEAD_SECONDS",
            "time a model may take until its answer begins"),
    U32_ROW("model.silenceSeconds", model_silence_seconds, 1, 3600, 300,
            "SANDBOX_MCP_MODEL_SILENCE_SECONDS",
            "time a model may be silent in the midst of its answer"),
    U32_ROW("model.failuresInARow", model_failures, 1, 1000, 8,
            "SANDBOX_MCP_MODEL_FAILURES_IN_A_ROW",
            "a run ends when so many of its model requests have failed in a row; agents give up by "
            "themselves, too, OpenCode after 6"),
    U32_ROW(
        "model.retryWaitSeconds", model_retry_wait_seconds, 1, 86400, 600,
        "SANDBOX_MCP_MODEL_RETRY_WAIT_SECONDS",
        "a run ends when its model has failed for so long, or wants to be left alone for longer"),
    U32_ROW("model.retries", model_retries, 0, 10, 3, "SANDBOX_MCP_MODEL_RETRIES",
            "how often the proxy asks a model that is busy (429, 529) again for runs of the agent "
            "shell; other agents do so by themselves"),
    U32_ROW("model.requestsPerRun", model_requests, 0, 10000000, 5000,
            "SANDBOX_MCP_MODEL_REQUESTS_PER_RUN", "model requests of one run; 0: no limit"),
    U32_ROW("model.tokensPerRun", model_tokens, 0, 4000000000, 0,
            "SANDBOX_MCP_MODEL_TOKENS_PER_RUN",
            "tokens that the models of one run may read and write, those from a cache too; 0: no "
            "limit"),
    U32_ROW("model.centsPerRun", model_cents, 0, 10000000, 0, "SANDBOX_MCP_MODEL_CENTS_PER_RUN",
            "US cents that the models of one run may cost, by the table of prices; 0: no limit"),
    BOOL_ROW("web.enabled", web_enabled, 1, "SANDBOX_MCP_WEB_ENABLED",
             "whether there are web pages"),
    TEXT_ROW("web.listen", web_listen, 1, 64, "127.0.0.1", check_loopback,
             "a loopback address: 127.0.0.1 (or another in 127.0.0.0/8) or ::1",
             "SANDBOX_MCP_WEB_LISTEN", "address of the web pages"),
    U32_ROW("web.port", web_port, 0, 65535, 0, "SANDBOX_MCP_WEB_PORT",
            "port of the web pages; 0: any free one"),
    TEXT_ROW("web.remoteListen", web_remote_listen, 0, 64, "", check_ip, "an IP address",
             "SANDBOX_MCP_WEB_REMOTE_LISTEN",
             "address at which other machines reach the web pages, in the clear; wants the secret "
             "WEB_TOKEN; empty: they don't"),
    LIST_ROW("web.names", web_names, web_name_count, check_host_name,
             "a host name in lower case without a port", "SANDBOX_MCP_WEB_NAMES",
             "names by which other machines ask for the web pages"),
    TEXT_ROW("notices.program", notices_program, 0, 4096, "", check_program_path, absolute_path,
             "SANDBOX_MCP_NOTICES_PROGRAM",
             "a program that is given each notice, as JSON on its standard input"),
    TEXT_ROW("notices.webhook", notices_webhook, 0, 2048, "", check_address, web_address,
             "SANDBOX_MCP_NOTICES_WEBHOOK", "where each notice is posted, as JSON"),
    TEXT_ROW("notices.webhookSecret", notices_webhook_secret, 0, 64, "", check_secret, secret_name,
             "SANDBOX_MCP_NOTICES_WEBHOOK_SECRET",
             "the secret that signs what is posted (Standard Webhooks); empty: unsigned"),
    TEXT_ROW("notices.ntfy", notices_ntfy, 0, 2048, "", check_address, web_address,
             "SANDBOX_MCP_NOTICES_NTFY",
             "a topic of an ntfy server, as in https://ntfy.example/my-topic"),
    TEXT_ROW("notices.ntfyToken", notices_ntfy_token, 0, 64, "", check_secret, secret_name,
             "SANDBOX_MCP_NOTICES_NTFY_TOKEN",
             "the secret that holds that server's access token; empty: none is needed"),
    BOOL_ROW("notices.desktop", notices_desktop, 0, "SANDBOX_MCP_NOTICES_DESKTOP",
             "whether notices are shown on this machine's desktop, by notify-send"),
    LIST_ROW("notices.events", notices_events, notices_event_count, check_notice_event,
             "ended or waiting", "SANDBOX_MCP_NOTICES_EVENTS",
             "of what notice is given: a run that has ended, one that waits for an answer; empty: "
             "of both"),
    TEXT_ROW("log.level", log_level, 1, 16, "info", check_log_level, "error, warn, info or debug",
             "SANDBOX_MCP_LOG_LEVEL", "least important lines that are logged"),
    U32_ROW("idleExitMinutes", idle_exit_minutes, 0, 10080, 0, "SANDBOX_MCP_IDLE_EXIT_MINUTES",
            "the daemon ends after so long without connections and live runs; 0: never"),
    LIST_ROW(
        "egress.allow", egress_allow, egress_allow_count, check_egress,
        "HOST:PORT with a port from 1 to 65535, where HOST may begin with \"*.\"; methods may "
        "stand before it and a path right behind it, as in \"GET,HEAD files.example:443/pub/...\"; "
        "\"private\" at the end lets it have a private address",
        NULL, "hosts that sandboxes may reach through the proxy"),
    BOOL_ROW("egress.detectRegistries", detect_registries, 1,
             "SANDBOX_MCP_EGRESS_DETECT_REGISTRIES",
             "whether sandboxes may read from the package registries that this machine's tools are "
             "set to"),
    TEXT_ROW("egress.caFile", ca_file, 0, 4096, "", check_program_path, "an absolute path",
             "SANDBOX_MCP_CA_FILE",
             "certificates that the proxy and sandboxes trust beside the system's"),
    TEXT_ROW("egress.proxy", egress_proxy, 0, 512, "", check_proxy,
             "http://HOST:PORT, without a path and without a name or password (see "
             "egress.proxySecret)",
             "SANDBOX_MCP_EGRESS_PROXY",
             "a proxy on the way to the world, asked by CONNECT; empty: none is"),
    LIST_ROW("egress.noProxy", egress_no_proxy, egress_no_proxy_count, check_no_proxy,
             "a host or \"*.\" and a domain, with a port where only that one is meant",
             "SANDBOX_MCP_EGRESS_NO_PROXY",
             "hosts that are reached without egress.proxy; this machine always is"),
    TEXT_ROW("egress.proxySecret", egress_proxy_secret, 0, 64, "", check_secret, secret_name,
             "SANDBOX_MCP_EGRESS_PROXY_SECRET",
             "the secret that holds \"user:password\" for egress.proxy; empty: none is needed"),
};
const size_t config_setting_count = ARRAY_LEN(config_settings);
_Static_assert(ARRAY_LEN(config_settings) <= CONFIG_SETTINGS_MAX,
               "room for the origin of each setting");

/* Setting ------------------------------------------------------------------------------------- */

static void *value_of(struct config *config, const struct setting *setting)
{
    return (char *)config + setting->offset;
}

static const void *value_of_const(const struct config *config, const struct setting *setting)
{
    return (const char *)config + setting->offset;
}

static size_t list_count(const struct config *config, const struct setting *setting)
{
    return *(const size_t *)(const void *)((const char *)config + setting->count_offset);
}

void config_list_free(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

static void set_list(struct config *config, const struct setting *setting, char **list,
                     size_t count)
{
    char ***slot = value_of(config, setting);
    size_t *count_slot = (size_t *)(void *)((char *)config + setting->count_offset);

    config_list_free(*slot, *count_slot);
    *slot = list;
    *count_slot = count;
}

void config_set_origin(struct config *config, const struct setting *setting,
                       enum config_origin origin)
{
    config->origins[setting - config_settings] = origin;
}

/* A checked copy, or NULL. */
static char *checked_text(const struct setting *setting, const char *text,
                          const struct paths *paths, struct error *err)
{
    size_t len = strlen(text);
    AUTO_FREE
    char *value = mem_strdup(text);

    if (len < setting->min || len > setting->max || setting->check(&value, paths) < 0) {
        error_set(err, ERR_INVALID, 0, "must be %s", setting->allowed);
        return NULL;
    }
    return STEAL(value);
}

static int set_text(struct config *config, const struct setting *setting, const char *text,
                    const struct paths *paths, struct error *err)
{
    char *value = checked_text(setting, text, paths, err);

    if (value == NULL)
        return -1;
    config_replace(value_of(config, setting), value);
    return 0;
}

static int wrong_number(const struct setting *setting, struct error *err)
{
    return error_set(err, ERR_INVALID, 0, "must be a whole number from %llu to %llu",
                     (unsigned long long)setting->min, (unsigned long long)setting->max);
}

static int set_number(struct config *config, const struct setting *setting, uint64_t number,
                      struct error *err)
{
    if (number < setting->min || number > setting->max)
        return wrong_number(setting, err);
    *(uint32_t *)value_of(config, setting) = (uint32_t)number;
    return 0;
}

static int set_json_list(struct config *config, const struct setting *setting,
                         const struct json_value *value, const struct paths *paths,
                         struct error *err)
{
    size_t count = 0;

    if (json_kind(value) != JSON_KIND_ARRAY)
        return error_set(err, ERR_INVALID, 0, "must be a list of texts");
    if (json_count(value) > LIST_MAX)
        return error_set(err, ERR_INVALID, 0, "must have at most %d entries", LIST_MAX);
    char **list = mem_new_zero(json_count(value) + 1, sizeof(*list));
    for (const struct json_value *item = json_first(value); item != NULL; item = json_next(item)) {
        const char *text = json_string(item);

        if (text == NULL)
            error_set(err, ERR_INVALID, 0, "must be a list of texts");
        else
            list[count] = checked_text(setting, text, paths, err);
        if (list[count] == NULL) {
            config_list_free(list, count);
            return text == NULL ? -1 : error_wrap(err, "entry %zu", count + 1);
        }
        count++;
    }
    set_list(config, setting, list, count);
    return 0;
}

int config_set_json(struct config *config, const struct setting *setting,
                    const struct json_value *value, const struct paths *paths, struct error *err)
{
    switch (setting->kind) {
    case SETTING_STRING:
        if (json_kind(value) != JSON_KIND_STRING)
            return error_set(err, ERR_INVALID, 0, "must be a text: %s", setting->allowed);
        return set_text(config, setting, json_string(value), paths, err);
    case SETTING_U32:
        if (json_kind(value) != JSON_KIND_NUMBER)
            return wrong_number(setting, err);
        return set_number(config, setting, json_u64(value, UINT64_MAX), err);
    case SETTING_BOOL:
        if (json_kind(value) != JSON_KIND_BOOL)
            return error_set(err, ERR_INVALID, 0, "must be true or false");
        *(bool *)value_of(config, setting) = json_bool(value, false);
        return 0;
    case SETTING_LIST:
        return set_json_list(config, setting, value, paths, err);
    }
    return 0;
}

/* Empty parts are passed over, as in PATH-like variables of other programs. */
static int set_text_list(struct config *config, const struct setting *setting, const char *text,
                         const struct paths *paths, struct error *err)
{
    size_t count = 0;
    char **list = mem_new_zero(strlen(text) + 1, sizeof(*list));

    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, ":");

        if (len > 0) {
            AUTO_FREE
            char *part = mem_strndup(at, len);

            list[count] = checked_text(setting, part, paths, err);
            if (list[count] == NULL) {
                config_list_free(list, count);
                return error_wrap(err, "entry %zu", count + 1);
            }
            count++;
        }
        at += len + (at[len] == ':');
    }
    set_list(config, setting, list, count);
    return 0;
}

int config_set_text(struct config *config, const struct setting *setting, const char *text,
                    const struct paths *paths, struct error *err)
{
    uint64_t number;

    switch (setting->kind) {
    case SETTING_STRING:
        return set_text(config, setting, text, paths, err);
    case SETTING_U32:
        if (!str_parse_u64(text, UINT32_MAX, &number))
            return wrong_number(setting, err);
        return set_number(config, setting, number, err);
    case SETTING_BOOL:
        if (!str_equal(text, "true") && !str_equal(text, "false") && !str_equal(text, "1") &&
            !str_equal(text, "0"))
            return error_set(err, ERR_INVALID, 0, "must be true or false");
        *(bool *)value_of(config, setting) = str_equal(text, "true") || str_equal(text, "1");
        return 0;
    case SETTING_LIST:
        return set_text_list(config, setting, text, paths, err);
    }
    return 0;
}

/* Load ---------------------------------------------------------------------------------------- */

static void set_defaults(struct config *config)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        const struct setting *setting = &config_settings[i];
        void *value = value_of(config, setting);

        if (setting->kind == SETTING_STRING)
            *(char **)value = mem_strdup(setting->text);
        else if (setting->kind == SETTING_U32)
            *(uint32_t *)value = (uint32_t)setting->number;
        else if (setting->kind == SETTING_BOOL)
            *(bool *)value = setting->number != 0;
    }
}

/* A variable that is set but empty counts as not set. */
static int read_environment(struct config *config, const struct paths *paths, struct error *err)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        const struct setting *setting = &config_settings[i];
        const char *text = setting->env != NULL ? getenv(setting->env) : NULL;

        if (text == NULL || text[0] == '\0')
            continue;
        if (config_set_text(config, setting, text, paths, err) < 0)
            return error_wrap(err, "environment variable %s", setting->env);
        config_set_origin(config, setting, CONFIG_ORIGIN_ENVIRONMENT);
    }
    return 0;
}

/* Says where the value at OFFSET comes from. */
static int wrap_origin(const struct config *config, size_t offset, struct error *err)
{
    const struct setting *setting = config_settings;

    while (setting->offset != offset)
        setting++;
    if (config->origins[setting - config_settings] == CONFIG_ORIGIN_ENVIRONMENT)
        return error_wrap(err, "environment variable %s", setting->env);
    return config_at(err, config->file, 0);
}

/* Rows of agents may stand behind the default. */
static int check_default_agent(const struct config *config, struct error *err)
{
    static const char *const own[] = { "opencode", "shell" };
    AUTO_BUF struct buf names = BUF_INIT(256);
    bool known = false;

    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        known |= str_equal(config->default_agent, own[i]);
        buf_printf(&names, "%s%s", i > 0 ? ", " : "", own[i]);
    }
    for (size_t i = 0; i < config->agent_count; i++) {
        known |= str_equal(config->default_agent, config->agents[i].name);
        buf_printf(&names, ", %s", config->agents[i].name);
    }
    if (known)
        return 0;
    error_set(err, ERR_INVALID, 0, "defaults.agent is \"%s\", but the agents are %s",
              config->default_agent, buf_text(&names));
    return wrap_origin(config, offsetof(struct config, default_agent), err);
}

static int check_together(const struct config *config, struct error *err)
{
    uint64_t end = (uint64_t)config->host_uid_base + config->host_uid_count;

    if (end > HOST_UID_END)
        return error_set(
            err, ERR_INVALID, 0,
            "sandbox.hostUidBase + sandbox.hostUidCount is %llu but must be at most %d",
            (unsigned long long)end, HOST_UID_END);
    return check_default_agent(config, err);
}

int config_load(struct config **out, const struct paths *paths, struct error *err)
{
    struct config *config = NEW(struct config);

    config->file = mem_strdup(paths->config_file);
    set_defaults(config);
    config_services_init(config);
    config_agents_init(config);
    config_prices_init(config);
    if (config_file_read(config, paths, err) < 0 || read_environment(config, paths, err) < 0 ||
        check_together(config, err) < 0) {
        config_free(config);
        return -1;
    }
    *out = config;
    return 0;
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < config_setting_count; i++) {
        const struct setting *setting = &config_settings[i];

        if (setting->kind == SETTING_STRING)
            config_replace(value_of(config, setting), NULL);
        else if (setting->kind == SETTING_LIST)
            set_list(config, setting, NULL, 0);
    }
    config_services_finish(config);
    config_agents_finish(config);
    config_repositories_finish(config);
    config_prices_finish(config);
    free(config->file);
    free(config);
}

/* Print --------------------------------------------------------------------------------------- */

static void print_value(const struct config *config, const struct setting *setting, struct buf *out)
{
    const void *value = value_of_const(config, setting);
    struct json_writer writer;

    json_write_init(&writer, out);
    switch (setting->kind) {
    case SETTING_STRING:
        json_write_string(&writer, *(char *const *)value);
        break;
    case SETTING_U32:
        json_write_u64(&writer, *(const uint32_t *)value);
        break;
    case SETTING_BOOL:
        json_write_bool(&writer, *(const bool *)value);
        break;
    case SETTING_LIST:
        json_write_array(&writer);
        for (size_t i = 0; i < list_count(config, setting); i++)
            json_write_string(&writer, (*(char **const *)value)[i]);
        json_write_array_end(&writer);
        break;
    }
}

static void print_origin(const struct config *config, const struct setting *setting,
                         struct buf *out)
{
    switch (config->origins[setting - config_settings]) {
    case CONFIG_ORIGIN_DEFAULT:
        buf_append_str(out, "default");
        break;
    case CONFIG_ORIGIN_FILE:
        buf_append_str(out, "file");
        break;
    case CONFIG_ORIGIN_ENVIRONMENT:
        buf_printf(out, "environment %s", setting->env);
        break;
    }
}

void config_print(const struct config *config, struct buf *out)
{
    buf_printf(out, "# file: %s\n", config->file);
    for (size_t i = 0; i < config_setting_count; i++) {
        const struct setting *setting = &config_settings[i];

        buf_printf(out, "%s = ", setting->name);
        print_value(config, setting, out);
        buf_append_str(out, "  # ");
        print_origin(config, setting, out);
        buf_printf(out, ": %s", setting->help);
        if (setting->kind == SETTING_U32)
            buf_printf(out, " (%llu to %llu)", (unsigned long long)setting->min,
                       (unsigned long long)setting->max);
        buf_append_char(out, '\n');
    }
    config_agents_print(config, out);
    config_prices_print(config, out);
    config_repositories_print(config, out);
    config_services_print(config, out);
}
