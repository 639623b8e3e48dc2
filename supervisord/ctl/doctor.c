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

/* What came of trying a service, and what to do about it. {} is its secret's name. */
static const struct outcome {
    const char *name;
    enum finding finding;
    const char *words;
} outcomes[] = {
    { "works", FINDING_GOOD, "works: the service took the key" },
    { "secret_missing", FINDING_BAD, "no key is stored; add it with: sandboxctl secret set {}" },
    { "secret_unusable", FINDING_BAD,
      "the stored key can't be sent: it holds characters that no header may; store it again with: "
      "sandboxctl secret set {}" },
    { "key_refused", FINDING_BAD,
      "the service refuses the key; store a good one with: sandboxctl secret set {}" },
    { "unreachable", FINDING_BAD,
      "the service can't be reached from here; look at its target and at this machine's network" },
    { "tls", FINDING_BAD,
      "the service's certificate is not trusted; with an authority of your own, set "
      "egress.caFile" },
    { "no_probe", FINDING_NOTE,
      "nothing harmless is known that it could be asked; set services.NAME.probe to a path that "
      "needs the key" },
    { "failed", FINDING_BAD,
      "its answer tells nothing of the key; look at its target, and at services.NAME.probe" },
};

static void add_outcome(struct report *report, const struct json_value *body)
{
    const char *name = json_string(json_get(body, "name"));
    const char *target = json_string(json_get(body, "target"));
    const char *secret = json_string(json_get(body, "secret"));
    const char *reason = json_string(json_get(body, "reason"));
    const char *outcome = json_string(json_get(body, "outcome"));
    uint64_t status = json_u64(json_get(body, "status"), 0);
    AUTO_BUF struct buf detail = BUF_INIT(4096);

    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        const char *words = outcomes[i].words;
        const char *mark = strstr(words, "{}");

        if (!str_equal(outcomes[i].name, outcome))
            continue;
        buf_printf(&detail, "%s (%s): %.*s%s", name, target,
                   (int)(mark != NULL ? mark - words : (ptrdiff_t)strlen(words)), words,
                   mark != NULL ? secret : "");
        if (status > 0 || (reason != NULL && reason[0] != '\0'))
            buf_printf(&detail, " (status %llu, %s)", (unsigned long long)status,
                       reason != NULL ? reason : "");
        add(report, outcomes[i].finding, "service", buf_text(&detail));
        return;
    }
    add(report, FINDING_BAD, "service", "the supervisor's answer is not known here");
}

static int check_service(struct report *report, struct session *session, const char *name,
                         struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct client_message message;
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "name", name);
    json_write_object_end(&writer);
    if (session_call(session, "service.check", &body, &message, err) < 0)
        return -1;
    add_outcome(report, message.envelope.body);
    client_message_finish(&message);
    return 0;
}

static void begin_report(struct report *report)
{
    buf_init(&report->text, 1u << 20);
    buf_init(&report->json, 1u << 20);
    json_write_init(&report->writer, &report->json);
    json_write_object(&report->writer);
    json_write_name(&report->writer, "checks");
    json_write_array(&report->writer);
}

static void print_report(struct report *report, const struct session *session)
{
    json_write_array_end(&report->writer);
    json_member_bool(&report->writer, "ok", !report->bad);
    json_write_object_end(&report->writer);
    buf_append_char(&report->json, '\n');
    session_print(session->json ? &report->json : &report->text);
    buf_finish(&report->text);
    buf_finish(&report->json);
}

/* doctor --service NAME */
static int doctor_service(struct session *session, const char *name, struct error *err)
{
    struct report report = { .bad = false };

    if (session_connect(session, SESSION_START, err) < 0)
        return -1;
    begin_report(&report);
    if (check_service(&report, session, name, err) < 0) {
        buf_finish(&report.text);
        buf_finish(&report.json);
        return -1;
    }
    print_report(&report, session);
    return report.bad ? EXIT_FAILED : EXIT_DONE;
}

int cmd_doctor(struct session *session, struct error *err)
{
    struct report report = { .bad = false };
    bool serves;

    if (session->args.has[ARGS_SERVICE])
        return doctor_service(session, session->args.text[ARGS_SERVICE], err);
    begin_report(&report);
    add(&report, FINDING_GOOD, "state", session->paths.state);
    check_program(&report, "git", "git", "not found; install the package git");
    check_agent(&report, session);
    check_namespaces(&report);
    serves = check_supervisor(&report, session);
    if (serves) {
        check_sandbox(&report, session);
        check_services(&report, session);
    }
    print_report(&report, session);
    if (!serves)
        return EXIT_NO_SUPERVISOR;
    return report.bad ? EXIT_FAILED : EXIT_DONE;
}
