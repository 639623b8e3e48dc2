/* doctor.c: what works here, in plain words. */
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/print.h"

#define NO_BUBBLEWRAP "not found; install the package bubblewrap, or set sandbox.bwrap"

enum finding { FINDING_GOOD, FINDING_NOTE, FINDING_BAD };

static const char *const finding_names[] = { "ok", "note", "MISSING" };

struct report {
    struct buf text;
    struct buf json;
    struct json_writer writer;
    bool bad;
};

static void add(struct report *report, enum finding finding, const char *what, const char *detail)
{
    buf_printf(&report->text, "%-8s %-12s ", finding_names[finding], what);
    print_line(&report->text, detail, 2000);
    buf_append_char(&report->text, '\n');
    json_write_object(&report->writer);
    json_member_string(&report->writer, "check", what);
    json_member_bool(&report->writer, "ok", finding != FINDING_BAD);
    json_member_string(&report->writer, "detail", detail);
    json_write_object_end(&report->writer);
    if (finding == FINDING_BAD)
        report->bad = true;
}

static bool is_program(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

static char *find_program(const char *name)
{
    const char *path = getenv("PATH");

    if (strchr(name, '/') != NULL)
        return is_program(name) ? mem_strdup(name) : NULL;
    while (path != NULL && path[0] != '\0') {
        size_t len = strcspn(path, ":");
        AUTO_FREE
        char *candidate = mem_printf("%.*s/%s", (int)len, path, name);

        if (len > 0 && is_program(candidate))
            return STEAL(candidate);
        path += len + (path[len] == ':');
    }
    return NULL;
}

static void check_program(struct report *report, const char *what, const char *name,
                          const char *advice)
{
    AUTO_FREE
    char *path = find_program(name);

    if (path != NULL)
        add(report, FINDING_GOOD, what, path);
    else
        add(report, FINDING_BAD, what, advice);
}

static void check_agent(struct report *report, const struct session *session)
{
    AUTO_FREE
    char *own = mem_printf("%s/agents/opencode/bin/opencode", session->paths.data);
    AUTO_FREE
    char *path = is_program(own) ? mem_strdup(own) : find_program("opencode");

    if (path != NULL)
        add(report, FINDING_GOOD, "opencode", path);
    else
        add(report, FINDING_BAD, "opencode", "not found; docs/quickstart.sh installs it");
}

static void check_namespaces(struct report *report)
{
    if (access("/proc/self/ns/user", F_OK) == 0)
        add(report, FINDING_GOOD, "namespaces", "the kernel has user namespaces");
    else
        add(report, FINDING_BAD, "namespaces",
            "the kernel has no user namespaces; sandboxes need them");
}

static void check_services(struct report *report, struct session *session)
{
    struct client_message message;
    struct error err = ERROR_INIT;
    size_t ready = 0;

    if (session_call(session, "service.list", NULL, &message, &err) < 0) {
        add(report, FINDING_BAD, "services", err.text);
        return;
    }
    for (const struct json_value *at = json_first(json_get(message.envelope.body, "services"));
         at != NULL; at = json_next(at)) {
        const char *name = json_string(json_get(at, "name"));
        const char *secret = json_string(json_get(at, "secret"));
        bool present = json_bool(json_get(at, "secretPresent"), false);
        AUTO_FREE
        char *detail = NULL;

        ready += present;
        if (secret == NULL || secret[0] == '\0')
            detail = mem_printf("%s needs no secret", name != NULL ? name : "?");
        else if (present)
            detail = mem_printf("%s: %s is there", name != NULL ? name : "?", secret);
        else
            detail = mem_printf("%s: no %s; add it with: sandboxctl secret set %s",
                                name != NULL ? name : "?", secret, secret);
        add(report, present ? FINDING_GOOD : FINDING_NOTE, "service", detail);
    }
    client_message_finish(&message);
    if (ready == 0)
        add(report, FINDING_BAD, "secrets", "no service has its secret: agents can reach no model");
}

static void add_list(struct buf *out, const struct json_value *list)
{
    const char *separator = "";

    for (const struct json_value *at = json_first(list); at != NULL; at = json_next(at)) {
        const char *name = json_string(at);

        buf_printf(out, "%s%s", separator, name != NULL ? name : "?");
        separator = ", ";
    }
}

/* By starting one. */
static void check_sandbox(struct report *report, struct session *session)
{
    struct client_message message;
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf layers = BUF_INIT(4096);
    AUTO_BUF struct buf missing = BUF_INIT(4096);

    if (session_call(session, "system.check", NULL, &message, &err) < 0) {
        add(report, FINDING_BAD, "sandbox", err.text);
        return;
    }
    add_list(&layers, json_get(message.envelope.body, "layers"));
    add_list(&missing, json_get(message.envelope.body, "missing"));
    add(report, FINDING_GOOD, "sandbox", buf_text(&layers));
    if (missing.len > 0) {
        buf_append_str(&missing, ": not in force on this machine; docs/sandbox.md says what each "
                                 "needs");
        add(report, FINDING_NOTE, "layers", buf_text(&missing));
    }
    client_message_finish(&message);
}

/* Returns whether a supervisor answers. */
static bool check_supervisor(struct report *report, struct session *session)
{
    AUTO_FREE
    char *detail = NULL;
    struct client_message message;
    struct error err = ERROR_INIT;
    const char *version;
    const char *tool;

    if (session_connect(session, SESSION_DONT_START, &err) < 0) {
        check_program(report, "bubblewrap", "bwrap", NO_BUBBLEWRAP);
        add(report, FINDING_BAD, "supervisor", err.text);
        return false;
    }
    if (session_call(session, "system.status", NULL, &message, &err) < 0) {
        add(report, FINDING_BAD, "supervisor", err.text);
        return false;
    }
    tool = json_string(json_get(message.envelope.body, "sandboxTool"));
    check_program(report, "bubblewrap", tool != NULL ? tool : "bwrap", NO_BUBBLEWRAP);
    version = json_string(json_get(message.envelope.body, "version"));
    detail = mem_printf("version %s, pid %llu, serves %s", version != NULL ? version : "?",
                        (unsigned long long)json_u64(json_get(message.envelope.body, "pid"), 0),
                        session->paths.socket);
    add(report, FINDING_GOOD, "supervisor", detail);
    if (!str_equal(version, SANDBOX_VERSION))
        add(report, FINDING_NOTE, "version",
            "sandboxctl is version " SANDBOX_VERSION
            "; restart the supervisor to have both the same");
    client_message_finish(&message);
    return true;
}

int cmd_doctor(struct session *session, struct error *err)
{
    struct report report = { .bad = false };
    bool serves;

    (void)err;
    buf_init(&report.text, 1u << 20);
    buf_init(&report.json, 1u << 20);
    json_write_init(&report.writer, &report.json);
    json_write_object(&report.writer);
    json_write_name(&report.writer, "checks");
    json_write_array(&report.writer);
    add(&report, FINDING_GOOD, "state", session->paths.state);
    check_program(&report, "git", "git", "not found; install the package git");
    check_agent(&report, session);
    check_namespaces(&report);
    serves = check_supervisor(&report, session);
    if (serves) {
        check_sandbox(&report, session);
        check_services(&report, session);
    }
    json_write_array_end(&report.writer);
    json_member_bool(&report.writer, "ok", !report.bad);
    json_write_object_end(&report.writer);
    buf_append_char(&report.json, '\n');
    session_print(session->json ? &report.json : &report.text);
    buf_finish(&report.text);
    buf_finish(&report.json);
    if (!serves)
        return EXIT_NO_SUPERVISOR;
    return report.bad ? EXIT_FAILED : EXIT_DONE;
}
