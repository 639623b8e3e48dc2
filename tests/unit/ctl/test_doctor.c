#include "ctl/doctor.h"

#include "harness/test.h"
#include "harness/tmp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "common/str.h"

#define NOW_MS UINT64_C(4102444800000) /* 2100: no build is later */

static struct doctor_facts facts;

/* A machine with all that is needed, and a supervisor. */
static void well(void)
{
    facts = (struct doctor_facts){
        .config_file = "/c/config.json",
        .supervisord = "/b/sandbox-supervisord",
        .git = "/usr/bin/git",
        .bwrap_wanted = "bwrap",
        .bwrap = "/usr/bin/bwrap",
        .bwrap_version = "0.8.0",
        .has_userns = true,
        .trial = DOCTOR_TRIAL_WORKED,
        .trial_words = "",
        .layers = "pid-namespace, seccomp",
        .cgroup_version = 2,
        .limits = "memory by cgroup v2",
        .state = { .path = "/s", .there = true, .ours = true, .writable = true, .mode = 0700 },
        .socket = { .path = "/s/run/supervisor.sock",
                    .there = true,
                    .ours = true,
                    .is_socket = true,
                    .mode = 0600 },
        .disk = "/s",
        .free_mib = 5000,
        .wanted_mib = 1024,
        .free_files = UINT64_MAX,
        .disk_known = true,
        .now_ms = NOW_MS,
        .written_ms = NOW_MS - 1000,
        .started_ms = NOW_MS - 60000,
        .uptime_ms = 60000,
        .serves = true,
        .supervisor_version = SANDBOX_VERSION,
        .pid = 7,
        .agents = { { .name = "opencode",
                      .program = "/d/opencode",
                      .version = "1.18.33",
                      .is_default = true },
                    { .name = "codex", .problem = "not there", .install = "npm install codex" } },
        .agent_count = 2,
        .services = { { .name = "anthropic", .secret = "ANTHROPIC_API_KEY", .present = true } },
        .service_count = 1,
    };
}

static void alone(void)
{
    well();
    facts.serves = false;
    facts.supervisor_version = NULL;
    facts.layers = NULL;
    facts.limits = "";
    facts.started_ms = 0;
    facts.uptime_ms = 0;
    facts.service_count = 0;
}

/* The worst finding, as "check: reason > mend". */
struct worst {
    enum doctor_verdict verdict;
    size_t count; /* of that verdict */
    struct buf text;
};
static struct worst worst;

static void take(void *data, const struct doctor_finding *finding)
{
    (void)data;
    if (finding->verdict < worst.verdict)
        return;
    if (finding->verdict > worst.verdict) {
        worst.verdict = finding->verdict;
        worst.count = 0;
        buf_clear(&worst.text);
    }
    worst.count++;
    buf_printf(&worst.text, "%s: %s > %s\n", finding->check, finding->reason, finding->mend);
}

static void finish(void *data)
{
    (void)data;
    buf_finish(&worst.text);
}

static const char *judge(void)
{
    buf_finish(&worst.text);
    worst = (struct worst){ .verdict = DOCTOR_GOOD };
    buf_init(&worst.text, 1u << 16);
    test_defer(finish, NULL);
    doctor_judge(&facts, take, NULL);
    return buf_text(&worst.text);
}

TEST(a_machine_with_everything_has_nothing_broken)
{
    well();
    judge();
    CHECK_EQ((int)worst.verdict, DOCTOR_NOTE);
    CHECK_STR(buf_text(&worst.text), "agent: not there > npm install codex\n");
}

TEST(without_a_supervisor_what_only_it_knows_is_skipped)
{
    alone();
    judge();
    CHECK_EQ((int)worst.verdict, DOCTOR_SKIPPED);
    CHECK_HAS(buf_text(&worst.text), "limits: ");
    CHECK_HAS(buf_text(&worst.text), "secrets: ");
}

static void no_git(void)
{
    facts.git = NULL;
}

static void no_bwrap(void)
{
    facts.bwrap = facts.bwrap_version = NULL;
    facts.trial = DOCTOR_TRIAL_NONE;
}

static void other_bwrap(void)
{
    no_bwrap();
    facts.bwrap_wanted = "/opt/none/bwrap";
}

static void mute_bwrap(void)
{
    facts.bwrap_version = NULL;
}

static void old_bwrap(void)
{
    facts.bwrap_version = "0.4.1";
}

static void kernel_without_namespaces(void)
{
    facts.has_userns = false;
}

static const struct userns_switch apparmor = { "/p", "1", "AppArmor forbids",
                                               "sudo sysctl -w a=0" };

static void forbidden(void)
{
    facts.userns = &apparmor;
    facts.trial = DOCTOR_TRIAL_NONE;
}

static void refused_by_a_container(void)
{
    facts.trial = DOCTOR_TRIAL_FAILED;
    facts.trial_words = "bwrap: setting up uid map: Permission denied";
}

static void strange_trial(void)
{
    facts.trial = DOCTOR_TRIAL_FAILED;
    facts.trial_words = "bwrap was not done after 20 seconds";
}

static void strange_state(void)
{
    facts.state.ours = false;
}

static void open_state(void)
{
    facts.state.mode = 0777;
}

static void shut_state(void)
{
    facts.state.writable = false;
}

static void full_disk(void)
{
    facts.free_mib = 3;
}

static void no_inodes(void)
{
    facts.free_files = 0;
}

static void old_clock(void)
{
    facts.now_ms = facts.written_ms = 1000;
    facts.started_ms = 0;
}

static void bad_config(void)
{
    facts.config_problem = "line 3: no such setting";
}

static void no_supervisord(void)
{
    facts.supervisord = NULL;
}

static void strange_supervisor(void)
{
    facts.supervisor_problem = "speaks protocol 9";
}

static void no_socket(void)
{
    facts.socket.is_socket = false;
}

static void strange_socket(void)
{
    facts.socket.ours = false;
}

static void open_socket(void)
{
    facts.socket.mode = 0666;
}

static void no_opencode(void)
{
    facts.agents[0] = (struct doctor_agent){ .name = "opencode",
                                             .problem = "OpenCode is not installed",
                                             .is_default = true };
}

static void old_opencode(void)
{
    facts.agents[0].version = "0.9.1";
}

static void later_opencode(void)
{
    facts.agents[0].version = "2.0.0";
}

static void dead_opencode(void)
{
    facts.agents[0].version = NULL;
}

static void no_default_agent(void)
{
    facts.agents[0].is_default = false;
    facts.agents[1].is_default = true;
}

static void no_secret(void)
{
    facts.services[0].present = false;
}

static const struct row {
    void (*breaks)(void);
    const char *check;
    const char *reason;
    const char *mend;
} rows[] = {
    { no_git, "git: ", "not found", "sudo apt install git" },
    { no_bwrap, "bubblewrap: ", "bwrap is not found", "sudo apt install bubblewrap" },
    { other_bwrap, "bubblewrap: ", "/opt/none/bwrap, which sandbox.bwrap names", "/c/config.json" },
    { mute_bwrap, "bubblewrap: ", "does not say its version", "sudo apt install" },
    { old_bwrap, "bubblewrap: ", "0.4.1, and 0.8.0 or later", "--only-upgrade bubblewrap" },
    { kernel_without_namespaces, "namespaces: ", "CONFIG_USER_NS", "" },
    { forbidden, "namespaces: ", "AppArmor forbids", "sudo sysctl -w a=0" },
    { refused_by_a_container, "namespaces: ", "uid map", "seccomp=unconfined" },
    { strange_trial, "sandbox: ", "not done after 20 seconds", "reinstall bubblewrap" },
    { strange_state, "state: ", "belongs to another user", "sudo chown -R \"$(id -un)\" /s" },
    { open_state, "state: ", "others may write", "chmod go-w /s" },
    { shut_state, "state: ", "can't be written", "chmod u+rwx /s" },
    { full_disk, "disk: ", "3 MiB are free at /s, and runs wait below 1024", "sandboxctl rm" },
    { no_inodes, "disk: ", "no room for more files", "sandboxctl rm" },
    { old_clock, "clock: ", "before " SANDBOX_YEAR, "timedatectl" },
    { bad_config, "config: ", "line 3", "/c/config.json" },
    { no_supervisord, "supervisor: ", "no program sandbox-supervisord", "cmake --install" },
    { strange_supervisor, "supervisor: ", "protocol 9", "sandboxctl stop" },
    { no_socket, "socket: ", "is no socket", "rm /s/run/supervisor.sock" },
    { strange_socket, "socket: ", "belongs to another user", "sudo rm /s/run/supervisor.sock" },
    { open_socket, "socket: ", "others may use", "chmod 600 /s/run/supervisor.sock" },
    { no_opencode, "agent: ", "not installed", "npm install -g opencode-ai@1" },
    { old_opencode, "agent: ", "version 0.9.1, and 1.x works", "npm install -g opencode-ai@1" },
    { later_opencode, "agent: ", "version 2.0.0", "npm install -g opencode-ai@1" },
    { dead_opencode, "agent: ", "does not say its version", "npm install -g opencode-ai@1" },
    { no_default_agent, "agent: ", "not there", "npm install codex" },
    { no_secret, "secrets: ", "can reach no model", "sandboxctl secret set" },
};

TEST(each_broken_thing_is_named_with_what_mends_it)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        well();
        rows[i].breaks();
        judge();
        CHECK_EQ((int)worst.verdict, DOCTOR_BROKEN);
        CHECK_HAS(buf_text(&worst.text), rows[i].check);
        CHECK_HAS(buf_text(&worst.text), rows[i].reason);
        CHECK_HAS(buf_text(&worst.text), rows[i].mend);
    }
}

TEST(what_needs_no_supervisor_is_found_without_one)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].breaks == no_secret)
            continue;
        alone();
        rows[i].breaks();
        judge();
        CHECK_EQ((int)worst.verdict, DOCTOR_BROKEN);
        CHECK_HAS(buf_text(&worst.text), rows[i].reason);
    }
}

TEST(a_profile_may_allow_what_the_switch_forbids)
{
    well();
    facts.userns = &apparmor;
    CHECK_EQ(strstr(judge(), "AppArmor") == NULL, true);
    CHECK_EQ((int)worst.verdict, DOCTOR_NOTE);
}

TEST(a_clock_that_moved_is_noted)
{
    well();
    facts.written_ms = NOW_MS + 3600000;
    CHECK_HAS(judge(), "clock: the clock went back");
    well();
    facts.uptime_ms = 3600000;
    CHECK_HAS(judge(), "clock: the clock has jumped");
}

TEST(layers_that_a_machine_lacks_are_noted_and_limits_only_once)
{
    well();
    facts.missing[0] = "own-uid";
    facts.missing[1] = "memory-limit";
    facts.missing[2] = "some-new-layer";
    facts.missing_count = 3;
    facts.limits = "no control groups are mounted here";
    judge();
    CHECK_EQ((int)worst.verdict, DOCTOR_NOTE);
    CHECK_EQ(worst.count, 4u); /* with the agent that isn't there */
    CHECK_HAS(buf_text(&worst.text), "layer: own-uid does not hold here: sandboxes have a uid");
    CHECK_HAS(buf_text(&worst.text), "limits: memory and processes of a sandbox are not limited: "
                                     "no control groups are mounted here > sandboxctl service");
    CHECK_HAS(buf_text(&worst.text), "some-new-layer does not hold here: docs/sandbox.md");
}

TEST(a_long_socket_path_and_another_version_are_noted)
{
    char path[200];

    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    well();
    facts.socket.path = path;
    facts.supervisor_version = "0.0.1";
    judge();
    CHECK_EQ((int)worst.verdict, DOCTOR_NOTE);
    CHECK_HAS(buf_text(&worst.text), "SANDBOX_MCP_RUNTIME");
    CHECK_HAS(buf_text(&worst.text), "version 0.0.1 runs");
}

/* Readers
 * -------------------------------------------------------------------------------------------- */

TEST(the_machine_is_read_below_a_root)
{
    static const char mounts[] = "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    facts = (struct doctor_facts){ .pid = 0 };
    doctor_facts_machine(&facts, tmp_dir());
    CHECK(!facts.has_userns);
    CHECK_EQ(facts.cgroup_version, 0u);
    tmp_subdir("proc");
    tmp_subdir("proc/self");
    tmp_subdir("proc/self/ns");
    tmp_file("proc/self/ns/user", "", 0, 0600);
    tmp_file("proc/self/mountinfo", mounts, strlen(mounts), 0600);
    tmp_subdir("proc/sys");
    tmp_subdir("proc/sys/user");
    tmp_file("proc/sys/user/max_user_namespaces", "0\n", 2, 0600);
    doctor_facts_machine(&facts, tmp_dir());
    CHECK(facts.has_userns);
    CHECK_EQ(facts.cgroup_version, 2u);
    CHECK(facts.userns != NULL);
}

TEST(a_place_is_read_as_it_is)
{
    struct doctor_place place;
    const char *file = tmp_file("file", "x", 1, 0600);

    CHECK_EQ(chmod(file, 0622), 0);
    doctor_place_read(&place, file);
    CHECK(place.there);
    CHECK(place.ours);
    CHECK(!place.is_socket);
    CHECK_EQ((unsigned)place.mode, 0622u);
    doctor_place_read(&place, tmp_path("nothing"));
    CHECK(!place.there);
}

static void check_setting(const char *text, const char *name, const char *value)
{
    AUTO_FREE
    char *found = doctor_setting(text, name);

    CHECK_STR(found, value);
}

TEST(settings_are_read_as_the_supervisor_prints_them)
{
    static const char text[] = "# file: /c\n"
                               "sandbox.bwrap = \"a \\\" # b\"  # file: program\n"
                               "limits.freeDiskMiB = 12  # default: x (0 to 9)\n"
                               "broken = \"no end";

    check_setting(text, "sandbox.bwrap", "\"a \\\" # b\"");
    check_setting(text, "limits.freeDiskMiB", "12");
    check_setting(text, "freeDiskMiB", NULL);
    check_setting(text, "broken", "\"no end");
    check_setting("", "x", NULL);
}
