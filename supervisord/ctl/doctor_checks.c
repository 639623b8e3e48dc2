/* doctor_checks.c: one table: what is needed, what can be wrong with it, and what mends it. */
#include "ctl/doctor.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "common/str.h"
#include "common/versions.h"

#define SOCKET_PATH_MAX 107         /* bytes that a sun_path holds */
#define FREE_FILES_MIN 1000         /* fewer inodes are as good as none */
#define CLOCK_SLACK_MS (120 * 1000) /* a clock that is kept right moves less */

/* Words
 * -------------------------------------------------------------------------------------------- */

/* What stands in braces in the table. */
enum owner { OF_FACTS, OF_AGENT, OF_SERVICE };
static const struct value {
    const char *name;
    enum owner owner;
    bool number;
    size_t offset;
} values[] = {
    { "agent", OF_AGENT, false, offsetof(struct doctor_agent, name) },
    { "agentInstall", OF_AGENT, false, offsetof(struct doctor_agent, install) },
    { "agentProblem", OF_AGENT, false, offsetof(struct doctor_agent, problem) },
    { "agentProgram", OF_AGENT, false, offsetof(struct doctor_agent, program) },
    { "agentVersion", OF_AGENT, false, offsetof(struct doctor_agent, version) },
    { "bwrap", OF_FACTS, false, offsetof(struct doctor_facts, bwrap) },
    { "bwrapVersion", OF_FACTS, false, offsetof(struct doctor_facts, bwrap_version) },
    { "bwrapWanted", OF_FACTS, false, offsetof(struct doctor_facts, bwrap_wanted) },
    { "configFile", OF_FACTS, false, offsetof(struct doctor_facts, config_file) },
    { "configProblem", OF_FACTS, false, offsetof(struct doctor_facts, config_problem) },
    { "disk", OF_FACTS, false, offsetof(struct doctor_facts, disk) },
    { "freeMib", OF_FACTS, true, offsetof(struct doctor_facts, free_mib) },
    { "git", OF_FACTS, false, offsetof(struct doctor_facts, git) },
    { "layers", OF_FACTS, false, offsetof(struct doctor_facts, layers) },
    { "limits", OF_FACTS, false, offsetof(struct doctor_facts, limits) },
    { "pid", OF_FACTS, true, offsetof(struct doctor_facts, pid) },
    { "secret", OF_SERVICE, false, offsetof(struct doctor_service, secret) },
    { "service", OF_SERVICE, false, offsetof(struct doctor_service, name) },
    { "socket", OF_FACTS, false, offsetof(struct doctor_facts, socket.path) },
    { "state", OF_FACTS, false, offsetof(struct doctor_facts, state.path) },
    { "supervisorProblem", OF_FACTS, false, offsetof(struct doctor_facts, supervisor_problem) },
    { "supervisorVersion", OF_FACTS, false, offsetof(struct doctor_facts, supervisor_version) },
    { "supervisord", OF_FACTS, false, offsetof(struct doctor_facts, supervisord) },
    { "target", OF_SERVICE, false, offsetof(struct doctor_service, target) },
    { "trialWords", OF_FACTS, false, offsetof(struct doctor_facts, trial_words) },
    { "wantedMib", OF_FACTS, true, offsetof(struct doctor_facts, wanted_mib) },
};

/* Layers of sandboxes that a machine may lack, and what each needs. Those of control groups are the
 * check "limits". */
static const struct layer {
    const char *name;
    const char *needs;
    const char *mend;
} layers[] = {
    { "own-uid", "sandboxes have a uid of their own only under a supervisor that root starts", "" },
    { "landlock", "boot a kernel that has Landlock among its security modules",
      "cat /sys/kernel/security/lsm" },
    { "cgroup-namespace", "the kernel has no namespaces of control groups", "" },
};

static const struct layer *layer_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        if (str_equal(layers[i].name, name))
            return &layers[i];
    }
    return NULL;
}

/* What has no place of its own in the facts; NULL: it is no such name. */
static const char *derived(const struct doctor_facts *facts, size_t index, const char *name)
{
    const struct layer *layer =
        index < facts->missing_count ? layer_find(facts->missing[index]) : NULL;
    const char *const found[][2] = {
        { "bwrapWorks", version_known("bubblewrap")->words },
        { "opencodeWorks", version_known("opencode")->words },
        { "usernsReason", facts->userns != NULL ? facts->userns->reason : "" },
        { "usernsMend", facts->userns != NULL ? facts->userns->mend : "" },
        { "layer", index < facts->missing_count ? facts->missing[index] : "" },
        { "layerNeeds", layer != NULL ? layer->needs : "docs/sandbox.md says what it needs" },
        { "layerMend", layer != NULL ? layer->mend : "" },
        { "version", SANDBOX_VERSION },
        { "year", SANDBOX_YEAR },
    };

    for (size_t i = 0; i < ARRAY_LEN(found); i++) {
        if (str_equal(found[i][0], name))
            return found[i][1];
    }
    return NULL;
}

static const void *owner_of(const struct doctor_facts *facts, enum owner owner, size_t index)
{
    switch (owner) {
    case OF_AGENT:
        return &facts->agents[index];
    case OF_SERVICE:
        return &facts->services[index];
    case OF_FACTS:
        break;
    }
    return facts;
}

static void append_value(struct buf *out, const struct doctor_facts *facts, size_t index,
                         const char *name)
{
    const char *text = derived(facts, index, name);

    for (size_t i = 0; text == NULL && i < ARRAY_LEN(values); i++) {
        const struct value *value = &values[i];
        const char *at = (const char *)owner_of(facts, value->owner, index) + value->offset;

        if (!str_equal(value->name, name))
            continue;
        if (value->number) {
            buf_printf(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
            return;
        }
        text = *(const char *const *)(const void *)at;
        text = text != NULL ? text : "";
    }
    if (text == NULL)
        BUG(name);
    buf_append_str(out, text);
}

void doctor_fill(struct buf *out, const char *template, const struct doctor_facts *facts,
                 size_t index)
{
    while (*template != '\0') {
        size_t len = strcspn(template, "{");

        buf_append(out, template, len);
        template += len;
        if (*template == '{') {
            AUTO_FREE
            char *name = mem_strndup(template + 1, strcspn(template + 1, "}"));

            append_value(out, facts, index, name);
            template += strlen(name) + 2;
        }
    }
}

/* Causes
 * -------------------------------------------------------------------------------------------- */

static bool no_supervisord(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->supervisord == NULL;
}

static bool bad_config(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->config_problem != NULL;
}

static bool no_git(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->git == NULL;
}

static bool wrong_bwrap_path(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->bwrap == NULL && strchr(facts->bwrap_wanted, '/') != NULL;
}

static bool no_bwrap(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->bwrap == NULL;
}

static bool mute_bwrap(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->bwrap_version == NULL;
}

static bool old_bwrap(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !version_works(version_known("bubblewrap"), facts->bwrap_version);
}

static bool kernel_without(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !facts->has_userns;
}

/* A profile may allow them to bubblewrap all the same. */
static bool forbidden(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->userns != NULL && facts->trial != DOCTOR_TRIAL_WORKED;
}

static bool trial_failed(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->trial == DOCTOR_TRIAL_FAILED;
}

static bool blamed(const struct doctor_facts *facts, size_t i)
{
    return trial_failed(facts, i) && userns_blamed(facts->trial_words);
}

static bool no_trial(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->trial == DOCTOR_TRIAL_NONE;
}

static bool no_supervisor(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !facts->serves;
}

static bool lacks(const struct doctor_facts *facts, const char *layer)
{
    for (size_t i = 0; i < facts->missing_count; i++) {
        if (str_equal(facts->missing[i], layer))
            return true;
    }
    return false;
}

static bool no_limits(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return lacks(facts, "memory-limit") || lacks(facts, "process-limit") ||
           (facts->trial != DOCTOR_TRIAL_WORKED && str_starts(facts->limits, "no "));
}

static bool cgroup_v1(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->cgroup_version == 1;
}

static bool cgroup_v2(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->cgroup_version == 2;
}

static bool is_limit(const struct doctor_facts *facts, size_t i)
{
    return str_ends(facts->missing[i], "-limit") || str_equal(facts->missing[i], "cpu-weight");
}

static bool no_state(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !facts->state.there;
}

static bool strange_state(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !facts->state.ours;
}

static bool open_state(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return (facts->state.mode & 0022) != 0;
}

static bool shut_state(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !facts->state.writable;
}

static bool no_socket(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->socket.there && !facts->socket.is_socket;
}

static bool strange_socket(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->socket.there && !facts->socket.ours;
}

static bool open_socket(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->socket.there && (facts->socket.mode & 0077) != 0;
}

static bool long_socket(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return strlen(facts->socket.path) > SOCKET_PATH_MAX;
}

static bool unknown_disk(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !facts->disk_known;
}

static bool full_disk(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->free_mib < facts->wanted_mib || facts->free_mib == 0;
}

static bool no_inodes(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->free_files < FREE_FILES_MIN;
}

static bool clock_is_old(const struct doctor_facts *facts, size_t i)
{
    time_t now = (time_t)(facts->now_ms / 1000);
    struct tm date;
    uint64_t built = 0;

    (void)i;
    return str_parse_u64(SANDBOX_YEAR, 9999, &built) && gmtime_r(&now, &date) != NULL &&
           (uint64_t)date.tm_year + 1900 < built;
}

static bool clock_went_back(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->written_ms > facts->now_ms + CLOCK_SLACK_MS;
}

static bool clock_jumped(const struct doctor_facts *facts, size_t i)
{
    uint64_t expected = facts->started_ms + facts->uptime_ms;
    uint64_t off = expected > facts->now_ms ? expected - facts->now_ms : facts->now_ms - expected;

    (void)i;
    return facts->started_ms != 0 && off > CLOCK_SLACK_MS;
}

static bool supervisor_fails(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return facts->supervisor_problem != NULL;
}

static bool other_version(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    return !str_equal(facts->supervisor_version, SANDBOX_VERSION);
}

static const struct known_version *known_agent(const struct doctor_facts *facts, size_t i)
{
    return facts->agents[i].program != NULL ? version_known(facts->agents[i].name) : NULL;
}

static bool agent_is_opencode(const struct doctor_facts *facts, size_t i)
{
    return str_equal(facts->agents[i].name, "opencode");
}

static bool agent_missing(const struct doctor_facts *facts, size_t i)
{
    return facts->agents[i].problem != NULL;
}

static bool default_missing(const struct doctor_facts *facts, size_t i)
{
    return agent_missing(facts, i) && facts->agents[i].is_default;
}

static bool default_opencode_missing(const struct doctor_facts *facts, size_t i)
{
    return default_missing(facts, i) && agent_is_opencode(facts, i);
}

static bool agent_mute(const struct doctor_facts *facts, size_t i)
{
    return known_agent(facts, i) != NULL && facts->agents[i].version == NULL;
}

static bool agent_unknown(const struct doctor_facts *facts, size_t i)
{
    const struct known_version *known = known_agent(facts, i);

    return known != NULL && !version_works(known, facts->agents[i].version);
}

static bool default_unknown(const struct doctor_facts *facts, size_t i)
{
    return agent_unknown(facts, i) && facts->agents[i].is_default;
}

static bool agent_of_version(const struct doctor_facts *facts, size_t i)
{
    return facts->agents[i].version != NULL;
}

static bool agent_of_program(const struct doctor_facts *facts, size_t i)
{
    return facts->agents[i].program != NULL;
}

static bool service_is_open(const struct doctor_facts *facts, size_t i)
{
    return facts->services[i].secret[0] == '\0';
}

static bool no_secret(const struct doctor_facts *facts, size_t i)
{
    return !facts->services[i].present;
}

static bool no_service_is_ready(const struct doctor_facts *facts, size_t i)
{
    (void)i;
    for (size_t at = 0; at < facts->service_count; at++) {
        if (service_is_open(facts, at) || !no_secret(facts, at))
            return false;
    }
    return true;
}

static size_t count_agents(const struct doctor_facts *facts)
{
    return facts->agent_count;
}

static size_t count_services(const struct doctor_facts *facts)
{
    return facts->service_count;
}

static size_t count_missing(const struct doctor_facts *facts)
{
    return facts->missing_count;
}

/* The table
 * -------------------------------------------------------------------------------------------- */

#define EDIT_CONFIG "$EDITOR {configFile}"
#define INSTALL_OPENCODE "npm install -g opencode-ai@1"
#define SET_CLOCK "sudo timedatectl set-ntp true"
#define ASK_A_SUPERVISOR "sandboxctl services && sandboxctl doctor"
#define CAUSES_MAX 9

/* The first cause that holds is the finding; one without a function always does. REASON NULL: there
 * is nothing to say. */
struct cause {
    bool (*holds)(const struct doctor_facts *facts, size_t index);
    enum doctor_verdict verdict;
    const char *reason;
    const char *mend;
};

static const struct check {
    const char *name;
    size_t (*count)(
        const struct doctor_facts *facts); /* of what is judged one by one; NULL: one thing */
    struct cause causes[CAUSES_MAX];
} checks[] = {
    { "state",
      NULL,
      { { no_state, DOCTOR_GOOD, "{state}, which the supervisor will make", "" },
        { strange_state, DOCTOR_BROKEN, "{state} belongs to another user",
          "sudo chown -R \"$(id -un)\" {state}" },
        { open_state, DOCTOR_BROKEN, "others may write to {state}", "chmod go-w {state}" },
        { shut_state, DOCTOR_BROKEN, "{state} can't be written", "chmod u+rwx {state}" },
        { NULL, DOCTOR_GOOD, "{state}", "" } } },
    { "disk",
      NULL,
      { { unknown_disk, DOCTOR_NOTE, "the room at {disk} can't be found out", "" },
        { full_disk, DOCTOR_BROKEN,
          "{freeMib} MiB are free at {disk}, and runs wait below {wantedMib} MiB "
          "(limits.freeDiskMiB); delete sessions that are done with",
          "sandboxctl sessions && sandboxctl rm SESSION" },
        { no_inodes, DOCTOR_BROKEN,
          "{disk} has no room for more files; delete sessions that are done with",
          "sandboxctl sessions && sandboxctl rm SESSION" },
        { NULL, DOCTOR_GOOD, "{freeMib} MiB are free at {disk}", "" } } },
    { "clock",
      NULL,
      { { clock_is_old, DOCTOR_BROKEN,
          "the clock shows a year before {year}, when this program was built: certificates are "
          "refused",
          SET_CLOCK },
        { clock_went_back, DOCTOR_NOTE,
          "the clock went back: the database was written later than now, and lists will be out of "
          "order",
          SET_CLOCK },
        { clock_jumped, DOCTOR_NOTE,
          "the clock has jumped since the supervisor started; times of runs before that are off",
          SET_CLOCK },
        { NULL, DOCTOR_GOOD, "plausible", "" } } },
    { "config",
      NULL,
      { { no_supervisord, DOCTOR_SKIPPED, "no sandbox-supervisord is there to read it", "" },
        { bad_config, DOCTOR_BROKEN, "{configProblem}", EDIT_CONFIG },
        { NULL, DOCTOR_GOOD, "{configFile}", "" } } },
    { "git",
      NULL,
      { { no_git, DOCTOR_BROKEN, "git is not found", "sudo apt install git" },
        { NULL, DOCTOR_GOOD, "{git}", "" } } },
    { "bubblewrap",
      NULL,
      { { wrong_bwrap_path, DOCTOR_BROKEN,
          "{bwrapWanted}, which sandbox.bwrap names, is no program: take the setting out, and "
          "have bubblewrap installed",
          "sudo apt install bubblewrap && " EDIT_CONFIG },
        { no_bwrap, DOCTOR_BROKEN, "{bwrapWanted} is not found", "sudo apt install bubblewrap" },
        { mute_bwrap, DOCTOR_BROKEN,
          "{bwrap} does not say its version, so it is not bubblewrap or does not run",
          "sudo apt install --reinstall bubblewrap" },
        { old_bwrap, DOCTOR_BROKEN, "{bwrap} is version {bwrapVersion}, and {bwrapWorks} is needed",
          "sudo apt update && sudo apt install --only-upgrade bubblewrap" },
        { NULL, DOCTOR_GOOD, "{bwrap}, version {bwrapVersion}", "" } } },
    { "namespaces",
      NULL,
      { { kernel_without, DOCTOR_BROKEN,
          "the kernel has no user namespaces; boot one that was built with CONFIG_USER_NS", "" },
        { forbidden, DOCTOR_BROKEN, "{usernsReason}", "{usernsMend}" },
        { blamed, DOCTOR_BROKEN,
          "user namespaces can't be made, though no switch of this machine forbids them; a "
          "container must be started so that they can: {trialWords}",
          "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
          "--security-opt systempaths=unconfined IMAGE" },
        { NULL, DOCTOR_GOOD, "nothing forbids user namespaces", "" } } },
    { "supervisor",
      NULL,
      { { no_supervisord, DOCTOR_BROKEN,
          "there is no program sandbox-supervisord beside sandboxctl or on PATH",
          "cmake --install build" },
        { supervisor_fails, DOCTOR_BROKEN, "{supervisorProblem}", "sandboxctl stop" },
        { no_supervisor, DOCTOR_NOTE,
          "none runs, so what only it knows was not looked at; any command starts it",
          ASK_A_SUPERVISOR },
        { other_version, DOCTOR_NOTE,
          "version {supervisorVersion} runs and sandboxctl is {version}; the next command starts "
          "the new one",
          "sandboxctl stop" },
        { NULL, DOCTOR_GOOD, "version {supervisorVersion}, pid {pid}", "" } } },
    { "socket",
      NULL,
      { { no_socket, DOCTOR_BROKEN, "{socket} is in the way: it is no socket", "rm {socket}" },
        { strange_socket, DOCTOR_BROKEN, "{socket} belongs to another user",
          "sudo rm {socket} && sandboxctl services" },
        { open_socket, DOCTOR_BROKEN, "others may use {socket}", "chmod 600 {socket}" },
        { long_socket, DOCTOR_NOTE,
          "{socket} is longer than 107 bytes, which systemd and most other programs can't reach",
          "export SANDBOX_MCP_RUNTIME=\"/run/user/$(id -u)/sandbox-mcp\"" },
        { NULL, DOCTOR_GOOD, "{socket}", "" } } },
    { "sandbox",
      NULL,
      { { no_trial, DOCTOR_SKIPPED, "none could be tried", "" },
        { blamed, DOCTOR_BROKEN, "no sandbox can be made; see namespaces", "" },
        { trial_failed, DOCTOR_BROKEN, "no sandbox can be made: {trialWords}",
          "sudo apt install --reinstall bubblewrap" },
        { no_supervisor, DOCTOR_GOOD, "bubblewrap makes one; the layers are known to a supervisor",
          "" },
        { NULL, DOCTOR_GOOD, "{layers}", "" } } },
    { "limits",
      NULL,
      { { no_supervisor, DOCTOR_SKIPPED,
          "which limits control groups give is known to a supervisor", ASK_A_SUPERVISOR },
        { no_limits, DOCTOR_NOTE, "memory and processes of a sandbox are not limited: {limits}",
          "sandboxctl service install" },
        { cgroup_v2, DOCTOR_GOOD, "{limits}", "" },
        { cgroup_v1, DOCTOR_GOOD, "{limits}; version 1 does not tell of refused processes", "" },
        { NULL, DOCTOR_GOOD, "{limits}", "" } } },
    { "layer",
      count_missing,
      { { is_limit, DOCTOR_NOTE, NULL, NULL },
        { NULL, DOCTOR_NOTE, "{layer} does not hold here: {layerNeeds}", "{layerMend}" } } },
    { "agent",
      count_agents,
      { { default_opencode_missing, DOCTOR_BROKEN, "{agentProblem}", INSTALL_OPENCODE },
        { default_missing, DOCTOR_BROKEN, "{agentProblem}", "{agentInstall}" },
        { agent_missing, DOCTOR_NOTE, "{agentProblem}", "{agentInstall}" },
        { agent_mute, DOCTOR_BROKEN, "{agentProgram} does not say its version: it doesn't run",
          INSTALL_OPENCODE },
        { default_unknown, DOCTOR_BROKEN,
          "{agentProgram} is version {agentVersion}, and {opencodeWorks} works", INSTALL_OPENCODE },
        { agent_unknown, DOCTOR_NOTE,
          "{agentProgram} is version {agentVersion}, and {opencodeWorks} works", INSTALL_OPENCODE },
        { agent_of_version, DOCTOR_GOOD, "{agent}: {agentProgram}, version {agentVersion}", "" },
        { agent_of_program, DOCTOR_GOOD, "{agent}: {agentProgram}", "" },
        { NULL, DOCTOR_GOOD, "{agent} can be started", "" } } },
    { "service",
      count_services,
      { { service_is_open, DOCTOR_GOOD, "{service} needs no secret", "" },
        { no_secret, DOCTOR_NOTE, "{service}: there is no {secret}",
          "sandboxctl secret set {secret}" },
        { NULL, DOCTOR_GOOD,
          "{service}: {secret} is there; whether it is good says: sandboxctl doctor --service "
          "{service}",
          "" } } },
    { "secrets",
      NULL,
      { { no_supervisor, DOCTOR_SKIPPED, "which are stored is known to a supervisor",
          ASK_A_SUPERVISOR },
        { no_service_is_ready, DOCTOR_BROKEN,
          "no service has its secret: agents can reach no model",
          "sandboxctl secret set ANTHROPIC_API_KEY" },
        { NULL, DOCTOR_GOOD, NULL, NULL } } },
};

static void find(const struct check *check, const struct doctor_facts *facts, size_t index,
                 struct doctor_finding *finding, struct buf texts[2])
{
    const struct cause *cause = check->causes;

    while (cause->holds != NULL && !cause->holds(facts, index))
        cause++;
    *finding = (struct doctor_finding){ .check = check->name, .verdict = cause->verdict };
    if (cause->reason == NULL)
        return;
    doctor_fill(&texts[0], cause->reason, facts, index);
    doctor_fill(&texts[1], cause->mend, facts, index);
    finding->reason = buf_text(&texts[0]);
    finding->mend = buf_text(&texts[1]);
}

void doctor_judge(const struct doctor_facts *facts,
                  void (*each)(void *data, const struct doctor_finding *finding), void *data)
{
    for (size_t at = 0; at < ARRAY_LEN(checks); at++) {
        size_t count = checks[at].count != NULL ? checks[at].count(facts) : 1;

        for (size_t i = 0; i < count; i++) {
            struct buf texts[2] = { BUF_INIT(16384), BUF_INIT(16384) };
            struct doctor_finding finding;

            find(&checks[at], facts, i, &finding, texts);
            if (finding.reason != NULL)
                each(data, &finding);
            buf_finish(&texts[0]);
            buf_finish(&texts[1]);
        }
    }
}
