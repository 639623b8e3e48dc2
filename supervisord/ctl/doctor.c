/* doctor.c: what works here and what doesn't, in plain words, each with the command that mends it.
 */
#include "ctl/doctor.h"

#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/print.h"

#define LINE_MAX_BYTES 2000

static const struct {
    const char *label; /* for people */
    const char *name;  /* in JSON */
} verdicts[] = {
    [DOCTOR_GOOD] = { "ok", "good" },
    [DOCTOR_NOTE] = { "note", "note" },
    [DOCTOR_SKIPPED] = { "-", "skipped" },
    [DOCTOR_BROKEN] = { "MISSING", "broken" },
};

struct report {
    struct buf text;
    struct buf json;
    struct json_writer writer;
    bool broken;
};

static void report_begin(struct report *report)
{
    report->broken = false;
    buf_init(&report->text, 1u << 20);
    buf_init(&report->json, 1u << 20);
    json_write_init(&report->writer, &report->json);
    json_write_object(&report->writer);
    json_write_name(&report->writer, "checks");
    json_write_array(&report->writer);
}

static void print_finding(struct buf *out, const struct doctor_finding *finding)
{
    buf_printf(out, "%-8s %-12s ", verdicts[finding->verdict].label, finding->check);
    print_line(out, finding->reason, LINE_MAX_BYTES);
    buf_append_char(out, '\n');
    if (finding->mend[0] == '\0')
        return;
    buf_printf(out, "%-8s %-12s   > ", "", "");
    print_line(out, finding->mend, LINE_MAX_BYTES);
    buf_append_char(out, '\n');
}

static void report_add(void *data, const struct doctor_finding *finding)
{
    struct report *report = data;
    struct json_writer *writer = &report->writer;

    print_finding(&report->text, finding);
    json_write_object(writer);
    json_member_string(writer, "check", finding->check);
    json_member_bool(writer, "ok", finding->verdict != DOCTOR_BROKEN);
    json_member_string(writer, "verdict", verdicts[finding->verdict].name);
    json_member_string(writer, "detail", finding->reason);
    json_member_string_opt(writer, "mend", finding->mend);
    json_write_object_end(writer);
    report->broken |= finding->verdict == DOCTOR_BROKEN;
}

static void report_end(struct report *report, const struct session *session)
{
    json_write_array_end(&report->writer);
    json_member_bool(&report->writer, "ok", !report->broken);
    json_write_object_end(&report->writer);
    buf_append_char(&report->json, '\n');
    session_print(session->json ? &report->json : &report->text);
    buf_finish(&report->text);
    buf_finish(&report->json);
}

/* One service
 * -------------------------------------------------------------------------------------------- */

/* What came of trying a service. */
static const struct outcome {
    const char *name;
    enum doctor_verdict verdict;
    const char *reason;
    const char *mend;
} outcomes[] = {
    { "works", DOCTOR_GOOD, "works: the service took the key", "" },
    { "secret_missing", DOCTOR_BROKEN, "no key is stored", "sandboxctl secret set {secret}" },
    { "secret_unusable", DOCTOR_BROKEN,
      "the stored key can't be sent: it holds characters that no header may; store it again",
      "sandboxctl secret set {secret}" },
    { "key_refused", DOCTOR_BROKEN, "the service refuses the key; store a good one",
      "sandboxctl secret set {secret}" },
    { "unreachable", DOCTOR_BROKEN,
      "the service can't be reached from here; look at its target and at this machine's network",
      "curl -v {target}" },
    { "tls", DOCTOR_BROKEN,
      "the service's certificate is not trusted; with an authority of your own, set egress.caFile",
      "$EDITOR {configFile}" },
    { "no_probe", DOCTOR_NOTE,
      "nothing harmless is known that it could be asked; set services.{service}.probe to a path "
      "that needs the key",
      "$EDITOR {configFile}" },
    { "failed", DOCTOR_BROKEN,
      "its answer tells nothing of the key; look at its target, and at services.{service}.probe",
      "sandboxctl services" },
};

static const struct outcome *outcome_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        if (str_equal(outcomes[i].name, name))
            return &outcomes[i];
    }
    return NULL;
}

static const char *text_of(const struct json_value *body, const char *name)
{
    const char *text = json_string(json_get(body, name));

    return text != NULL ? text : "";
}

static int report_outcome(struct report *report, const struct session *session,
                          const struct json_value *body, struct error *err)
{
    const struct outcome *outcome = outcome_find(json_string(json_get(body, "outcome")));
    const char *why = text_of(body, "reason");
    uint64_t status = json_u64(json_get(body, "status"), 0);
    struct doctor_facts facts = { .config_file = session->paths.config_file,
                                  .services = { { .name = text_of(body, "name"),
                                                  .target = text_of(body, "target"),
                                                  .secret = text_of(body, "secret") } },
                                  .service_count = 1 };
    AUTO_BUF struct buf reason = BUF_INIT(8192);
    AUTO_BUF struct buf mend = BUF_INIT(8192);

    if (outcome == NULL)
        return error_set(err, ERR_INVALID, 0, "the supervisor's answer is not known here");
    doctor_fill(&reason, "{service} ({target}): ", &facts, 0);
    doctor_fill(&reason, outcome->reason, &facts, 0);
    if (status > 0 || why[0] != '\0')
        buf_printf(&reason, " (status %llu, %s)", (unsigned long long)status, why);
    doctor_fill(&mend, outcome->mend, &facts, 0);
    report_add(report, &(struct doctor_finding){ "service", outcome->verdict, buf_text(&reason),
                                                 buf_text(&mend) });
    return 0;
}

/* doctor --service NAME */
static int doctor_service(struct session *session, const char *name, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct client_message message;
    struct json_writer writer;
    struct report report;
    int rc;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "name", name);
    json_write_object_end(&writer);
    if (session_connect(session, SESSION_START, err) < 0 ||
        session_call(session, "service.check", &body, &message, err) < 0)
        return -1;
    report_begin(&report);
    rc = report_outcome(&report, session, message.envelope.body, err);
    report_end(&report, session);
    client_message_finish(&message);
    if (rc < 0)
        return -1;
    return report.broken ? EXIT_FAILED : EXIT_DONE;
}

int cmd_doctor(struct session *session, struct error *err)
{
    struct doctor_facts facts;
    struct report report;
    bool serves;

    if (session->args.has[ARGS_SERVICE])
        return doctor_service(session, session->args.text[ARGS_SERVICE], err);
    doctor_facts_read(&facts, session, "");
    report_begin(&report);
    doctor_judge(&facts, report_add, &report);
    report_end(&report, session);
    serves = facts.serves;
    doctor_facts_finish(&facts);
    if (report.broken)
        return EXIT_FAILED;
    return serves ? EXIT_DONE : EXIT_NO_SUPERVISOR;
}
