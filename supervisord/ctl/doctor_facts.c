/* doctor_facts.c: reads what doctor_checks.c judges. */
#include "ctl/doctor.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "common/versions.h"
#include "ctl/program.h"
#include "proto/launch.h"

#define OUTPUT_MAX (1u << 20)
#define WORDS_MAX 300 /* of a program's last line */
#define QUICK_MS 10000
#define AGENT_MS 60000 /* an agent's program may be large, and the disk slow */
#define DEFAULT_FREE_MIB 1024
#define NOBODY "65534"

/* Strings that live as long as the facts. */
static const char *keep(struct doctor_facts *facts, char *text)
{
    char **longer = realloc(facts->owned, (facts->owned_count + 1) * sizeof(*longer));

    if (longer == NULL)
        BUG("memory is out");
    facts->owned = longer;
    facts->owned[facts->owned_count++] = text;
    return text;
}

static const char *copy(struct doctor_facts *facts, const char *text)
{
    return text != NULL ? keep(facts, mem_strdup(text)) : NULL;
}

void doctor_facts_finish(struct doctor_facts *facts)
{
    for (size_t i = 0; i < facts->owned_count; i++)
        free(facts->owned[i]);
    free(facts->owned);
}

/* Programs
 * -------------------------------------------------------------------------------------------- */

/* The last line that says something, escaped. */
static char *last_words(const struct buf *text)
{
    AUTO_BUF struct buf out = BUF_INIT(WORDS_MAX * 8);
    const char *end = buf_text(text) + text->len;
    const char *begin;

    while (end > buf_text(text) && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    for (begin = end; begin > buf_text(text) && begin[-1] != '\n'; begin--)
        ;
    str_append_escaped(&out, begin, (size_t)(end - begin), WORDS_MAX);
    return mem_strdup(buf_text(&out));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    remove(path);
    return 0;
}

/* What PROGRAM --version says, in a home of its own that is gone afterwards: asking must leave
 * nothing behind. */
static const char *ask_version(struct doctor_facts *facts, const char *program, int timeout_ms)
{
    const char *tmp = getenv("TMPDIR");
    const char *path = getenv("PATH");
    AUTO_FREE
    char *home = mem_printf("%s/sandboxctl-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    struct error ignored = ERROR_INIT;
    const char *number = NULL;

    if (mkdtemp(home) == NULL)
        return NULL;
    AUTO_FREE
    char *home_variable = mem_printf("HOME=%s", home);
    AUTO_FREE
    char *path_variable = mem_printf("PATH=%s", path != NULL ? path : "/usr/bin:/bin");
    const char *const argv[] = { program, "--version", NULL };
    const char *const env[] = { home_variable, path_variable, NULL };
    const struct program asked = {
        .argv = argv, .env = env, .in = -1, .capture = PROGRAM_OUT, .timeout_ms = timeout_ms
    };

    if (program_run(&asked, &out, &ignored) == 0)
        number = version_in(buf_text(&out));
    nftw(home, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return number != NULL ? keep(facts, mem_strndup(number, strcspn(number, " \r\n\t"))) : NULL;
}

static void read_bwrap(struct doctor_facts *facts)
{
    char *path = program_find(facts->bwrap_wanted);

    if (path == NULL)
        return;
    facts->bwrap = keep(facts, path);
    facts->bwrap_version = ask_version(facts, path, QUICK_MS);
}

/* A sandbox of our own, with as little as there can be in it. bubblewrap never runs as root. */
static void try_bwrap(struct doctor_facts *facts)
{
    const char *const argv[] = {
        "setpriv",
        "--reuid=" NOBODY,
        "--regid=" NOBODY,
        "--clear-groups",
        "--",
        facts->bwrap,
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--disable-userns",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--",
        "true",
        NULL,
    };
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    struct error err = ERROR_INIT;
    int code;

    if (facts->bwrap_version == NULL)
        return;
    code = program_run(&(struct program){ .argv = argv + (geteuid() == 0 ? 0 : 5),
                                          .in = -1,
                                          .capture = PROGRAM_ALL,
                                          .timeout_ms = QUICK_MS },
                       &out, &err);
    if (code < 0 && err.code != ERR_TIMEOUT)
        return;
    if (code != 0 && str_starts(buf_text(&out), "setpriv: "))
        return; /* our uid can't be dropped here: that says nothing of bubblewrap */
    facts->trial = code == 0 ? DOCTOR_TRIAL_WORKED : DOCTOR_TRIAL_FAILED;
    facts->trial_words = code < 0 ? copy(facts, err.text) : keep(facts, last_words(&out));
}

/* The machine
 * -------------------------------------------------------------------------------------------- */

static unsigned read_cgroup_version(const char *root)
{
    AUTO_FREE char *path = mem_printf("%s/proc/self/mountinfo", root);
    AUTO_FREE char *text = NULL;
    struct error ignored = ERROR_INIT;

    if (fd_read_file(path, OUTPUT_MAX, &text, NULL, &ignored) < 0 || text == NULL)
        return 0;
    if (strstr(text, " - cgroup ") != NULL)
        return 1;
    return strstr(text, " - cgroup2 ") != NULL ? 2 : 0;
}

void doctor_facts_machine(struct doctor_facts *facts, const char *root)
{
    AUTO_FREE char *namespace = mem_printf("%s/proc/self/ns/user", root);

    facts->has_userns = access(namespace, F_OK) == 0;
    facts->userns = userns_forbidden(root);
    facts->cgroup_version = read_cgroup_version(root);
}

void doctor_place_read(struct doctor_place *place, const char *path)
{
    struct stat info;

    *place = (struct doctor_place){ .path = path };
    if (lstat(path, &info) != 0)
        return;
    place->there = true;
    place->ours = info.st_uid == geteuid();
    place->is_socket = S_ISSOCK(info.st_mode);
    place->mode = info.st_mode & 07777;
    place->writable = access(path, W_OK | X_OK) == 0;
}

/* The state folder's disk, or that of the nearest folder above it that is there. */
static void read_disk(struct doctor_facts *facts, const char *state)
{
    char *folder = mem_strdup(state);
    struct statvfs disk;
    char *slash;

    while (access(folder, F_OK) != 0 && (slash = strrchr(folder, '/')) != NULL && slash != folder)
        *slash = '\0';
    facts->disk = keep(facts, folder);
    facts->disk_known = statvfs(folder, &disk) == 0;
    if (!facts->disk_known)
        return;
    facts->free_mib = (uint64_t)disk.f_bavail * disk.f_frsize >> 20;
    facts->free_files = disk.f_files != 0 ? (uint64_t)disk.f_favail : UINT64_MAX;
}

static void read_written(struct doctor_facts *facts, const char *state)
{
    AUTO_FREE
    char *path = mem_printf("%s/db/data.mdb", state);
    struct stat info;

    if (stat(path, &info) == 0 && info.st_mtime > 0)
        facts->written_ms = (uint64_t)info.st_mtime * 1000;
}

/* The configuration
 * -------------------------------------------------------------------------------------------- */

char *doctor_setting(const char *text, const char *name)
{
    size_t len = strlen(name);
    const char *value = NULL;
    const char *end;

    for (const char *line = text; line != NULL && value == NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && str_starts(line + len, " = "))
            value = line + len + strlen(" = ");
    }
    if (value == NULL)
        return NULL;
    end = value + strcspn(value, " \n");
    if (*value == '"') {
        for (end = value + 1; *end != '"' && *end != '\n' && *end != '\0'; end++)
            end += *end == '\\' && end[1] != '\0';
        end += *end == '"';
    }
    return mem_strndup(value, (size_t)(end - value));
}

/* "" and what is no string are as good as absent. */
static const char *string_setting(struct doctor_facts *facts, const char *text, const char *name)
{
    AUTO_FREE
    char *value = doctor_setting(text, name);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;

    if (value == NULL || json_parse(&doc, value, strlen(value), OUTPUT_MAX, &ignored) < 0)
        return NULL;
    const char *string = json_string(json_root(doc));

    return string != NULL && string[0] != '\0' ? copy(facts, string) : NULL;
}

struct settings {
    const char *opencode; /* its path; NULL: not set */
    const char *default_agent;
};

static void take_settings(struct doctor_facts *facts, const char *text, struct settings *settings)
{
    AUTO_FREE
    char *wanted = doctor_setting(text, "limits.freeDiskMiB");
    const char *bwrap = string_setting(facts, text, "sandbox.bwrap");

    if (bwrap != NULL)
        facts->bwrap_wanted = bwrap;
    if (wanted != NULL)
        str_parse_u64(wanted, UINT32_MAX, &facts->wanted_mib);
    settings->opencode = string_setting(facts, text, "agents.opencode.path");
    settings->default_agent = string_setting(facts, text, "defaults.agent");
}

/* By the supervisor's own words, which a configuration that it would refuse fails. */
static void read_config(struct doctor_facts *facts, struct settings *settings)
{
    AUTO_FREE
    char *name = launch_program();
    char *path = program_find(name);
    const char *const argv[] = { path, "--print-config", NULL };
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    struct error err = ERROR_INIT;
    int code;

    if (path == NULL)
        return;
    facts->supervisord = keep(facts, path);
    code = program_run(
        &(struct program){ .argv = argv, .in = -1, .capture = PROGRAM_ALL, .timeout_ms = QUICK_MS },
        &out, &err);
    if (code == 0)
        take_settings(facts, buf_text(&out), settings);
    else
        facts->config_problem = code < 0 ? copy(facts, err.text) : keep(facts, last_words(&out));
}

/* The supervisor
 * -------------------------------------------------------------------------------------------- */

static void read_status(struct doctor_facts *facts, const struct json_value *status)
{
    const char *tool = json_string(json_get(status, "sandboxTool"));
    const char *version = json_string(json_get(status, "version"));

    if (tool != NULL)
        facts->bwrap_wanted = copy(facts, tool);
    facts->supervisor_version = copy(facts, version != NULL ? version : "?");
    facts->pid = json_u64(json_get(status, "pid"), 0);
    facts->started_ms = json_u64(json_get(status, "startedAt"), 0);
    facts->uptime_ms = json_u64(json_get(status, "uptimeSeconds"), 0) * 1000;
}

static void read_machine(struct doctor_facts *facts, const struct json_value *machine)
{
    const char *limits = json_string(json_get(machine, "limits"));

    facts->limits = copy(facts, limits != NULL ? limits : "");
    for (const struct json_value *at = json_first(json_get(machine, "agents"));
         at != NULL && facts->agent_count < DOCTOR_LIST_MAX; at = json_next(at)) {
        const char *name = json_string(json_get(at, "name"));

        facts->agents[facts->agent_count++] = (struct doctor_agent){
            .name = copy(facts, name != NULL ? name : "?"),
            .program = copy(facts, json_string(json_get(at, "program"))),
            .problem = copy(facts, json_string(json_get(at, "problem"))),
            .install = copy(facts, json_string(json_get(at, "install"))),
            .is_default = json_bool(json_get(at, "default"), false),
        };
    }
}

static void read_services(struct doctor_facts *facts, const struct json_value *list)
{
    for (const struct json_value *at = json_first(json_get(list, "services"));
         at != NULL && facts->service_count < DOCTOR_LIST_MAX; at = json_next(at)) {
        const char *name = json_string(json_get(at, "name"));
        const char *secret = json_string(json_get(at, "secret"));

        facts->services[facts->service_count++] = (struct doctor_service){
            .name = copy(facts, name != NULL ? name : "?"),
            .secret = copy(facts, secret != NULL ? secret : ""),
            .present = json_bool(json_get(at, "secretPresent"), false),
        };
    }
}

static void read_trial(struct doctor_facts *facts, const struct json_value *reply)
{
    AUTO_BUF struct buf layers = BUF_INIT(4096);

    for (const struct json_value *at = json_first(json_get(reply, "layers")); at != NULL;
         at = json_next(at)) {
        const char *name = json_string(at);

        buf_printf(&layers, "%s%s", layers.len > 0 ? ", " : "", name != NULL ? name : "?");
    }
    for (const struct json_value *at = json_first(json_get(reply, "missing"));
         at != NULL && facts->missing_count < DOCTOR_LIST_MAX; at = json_next(at)) {
        const char *name = json_string(at);

        facts->missing[facts->missing_count++] = copy(facts, name != NULL ? name : "?");
    }
    facts->layers = copy(facts, buf_text(&layers));
    facts->trial = DOCTOR_TRIAL_WORKED;
}

static void fail_trial(struct doctor_facts *facts, const struct error *err)
{
    facts->trial = DOCTOR_TRIAL_FAILED;
    facts->trial_words = copy(facts, err->text);
}

static void fail_supervisor(struct doctor_facts *facts, const struct error *err)
{
    facts->supervisor_problem = copy(facts, err->text);
}

/* What it is asked, in this order: where the answer goes, and what becomes of a refusal. */
static const struct question {
    const char *method;
    void (*take)(struct doctor_facts *facts, const struct json_value *reply);
    void (*refused)(struct doctor_facts *facts, const struct error *err);
} questions[] = {
    { "system.status", read_status, fail_supervisor },
    { "system.machine", read_machine, fail_supervisor },
    { "service.list", read_services, fail_supervisor },
    { "system.check", read_trial, fail_trial },
};

static void ask_supervisor(struct doctor_facts *facts, struct session *session)
{
    struct error err = ERROR_INIT;

    if (session_connect(session, SESSION_DONT_START, &err) < 0) {
        if (err.code != ERR_UNAVAILABLE)
            fail_supervisor(facts, &err);
        return;
    }
    facts->serves = true;
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        struct client_message message;
        struct error refused = ERROR_INIT;

        if (session_call(session, questions[i].method, NULL, &message, &refused) < 0) {
            questions[i].refused(facts, &refused);
            continue;
        }
        questions[i].take(facts, message.envelope.body);
        client_message_finish(&message);
    }
}

/* Without a supervisor only one agent is known, and its program is looked for as an installation
 * has it. */
static void find_opencode(struct doctor_facts *facts, const struct session *session,
                          const struct settings *settings)
{
    AUTO_FREE
    char *own = mem_printf("%s/agents/opencode/bin/opencode", session->paths.data);
    const char *name = settings->opencode != NULL ? settings->opencode : own;
    char *path = program_find(name);
    const char *problem = "OpenCode is not installed";

    if (path == NULL && settings->opencode == NULL)
        path = program_find("opencode");
    if (path == NULL && settings->opencode != NULL)
        problem = keep(facts, mem_printf("no OpenCode program at %s, as agents.opencode.path "
                                         "names it",
                                         settings->opencode));
    facts->agents[facts->agent_count++] = (struct doctor_agent){
        .name = "opencode",
        .program = path != NULL ? keep(facts, path) : NULL,
        .problem = path != NULL ? NULL : problem,
        .is_default =
            settings->default_agent == NULL || str_equal(settings->default_agent, "opencode"),
    };
}

static void ask_agents(struct doctor_facts *facts)
{
    for (size_t i = 0; i < facts->agent_count; i++) {
        struct doctor_agent *agent = &facts->agents[i];

        if (agent->program != NULL && version_known(agent->name) != NULL)
            agent->version = ask_version(facts, agent->program, AGENT_MS);
    }
}

void doctor_facts_read(struct doctor_facts *facts, struct session *session, const char *root)
{
    const struct paths *paths = &session->paths;
    struct settings settings = { .opencode = NULL };
    char *git = program_find("git");

    *facts = (struct doctor_facts){ .config_file = paths->config_file,
                                    .bwrap_wanted = "bwrap",
                                    .limits = "",
                                    .trial_words = "",
                                    .wanted_mib = DEFAULT_FREE_MIB,
                                    .free_files = UINT64_MAX,
                                    .now_ms = clock_wall_ms(clock_system()) };
    facts->git = git != NULL ? keep(facts, git) : NULL;
    doctor_facts_machine(facts, root);
    doctor_place_read(&facts->state, paths->state);
    doctor_place_read(&facts->socket, paths->socket);
    read_disk(facts, paths->state);
    read_written(facts, paths->state);
    read_config(facts, &settings);
    ask_supervisor(facts, session);
    read_bwrap(facts);
    if (!facts->serves)
        try_bwrap(facts);
    if (facts->agent_count == 0)
        find_opencode(facts, session, &settings);
    ask_agents(facts);
}
