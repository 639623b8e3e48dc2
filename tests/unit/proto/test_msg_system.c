#include "proto/msg_system.h"

#include <string.h>

#include "common/json_write.h"
#include "proto/msg_run.h"
#include "proto/msg_service.h"
#include "proto/msg_session.h"
#include "tests/harness/test.h"

static int read_hello(const char *text, struct hello_params *params, struct error *err)
{
    AUTO_JSON struct json_doc *doc = NULL;

    CHECK_EQ(json_parse(&doc, text, strlen(text), 1000, err), 0);
    return json_read(json_root(doc), hello_params_fields, JSON_STRICT, params, err);
}

TEST(hello_names_protocol_and_role)
{
    struct hello_params params = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(read_hello("{\"protocol\":1,\"role\":\"ctl\"}", &params, &err), 0);
    CHECK_EQ(params.protocol, 1u);
    CHECK_STR(hello_roles[params.role], "ctl");
    CHECK_EQ(read_hello("{\"protocol\":1,\"role\":\"root\"}", &params, &err), -1);
    CHECK_STR(err.argument, "role");
    CHECK_EQ(read_hello("{\"role\":\"ctl\"}", &params, &err), -1);
    CHECK_STR(err.argument, "protocol");
}

TEST(status_counts_runs_by_state)
{
    uint64_t runs[RUN_STATUS_COUNT] = { [RUN_STATUS_RUNNING] = 2 };
    struct system_status status = { .version = "1",
                                    .pid = 7,
                                    .socket = "/s",
                                    .state = "/t",
                                    .webUrl = "",
                                    .runs_by_status = runs };
    AUTO_BUF struct buf buf = BUF_INIT(2000);
    struct json_writer writer;

    json_write_init(&writer, &buf);
    system_status_write(&writer, &status);
    CHECK_HAS(buf_text(&buf), "\"runs\":{\"queued\":0,\"started\":0,\"running\":2,");
    CHECK_HAS(buf_text(&buf), "\"pid\":7");
}

TEST(sessions_services_secrets_and_records_are_written)
{
    const struct session_place_view places[] = { { "", "", "" }, { "https://a/b", "main", "b" } };
    struct session_view session = { .sessionId = "ses_1",
                                    .createdAt = 1,
                                    .updatedAt = 2,
                                    .runs = 3,
                                    .places = places,
                                    .place_count = 2 };
    struct service_view service = { "anthropic", "https://a", "KEY", true };
    struct secret_view secret = { "KEY", "stored", 5 };
    struct audit_view record = { .number = 1, .time = 2, .verdict = "deny", .reason = "egress" };
    AUTO_BUF struct buf buf = BUF_INIT(2000);
    struct json_writer writer;

    json_write_init(&writer, &buf);
    json_write_array(&writer);
    session_view_write(&writer, &session);
    service_view_write(&writer, &service);
    secret_view_write(&writer, &secret);
    audit_view_write(&writer, &record);
    json_write_array_end(&writer);
    CHECK_STR(buf_text(&buf),
              "[{\"sessionId\":\"ses_1\",\"createdAt\":1,\"updatedAt\":2,\"runs\":3,\"held\":false,"
              "\"repositories\":[{\"repository\":\"https://a/b\",\"branch\":\"main\","
              "\"directory\":\"b\"}]},{\"name\":"
              "\"anthropic\",\"target\":\"https://"
              "a\",\"secret\":\"KEY\",\"secretPresent\":true},{\"name\":\"KEY\",\"source\":"
              "\"stored\",\"updatedAt\":5},{\"number\":1,\"time\":2,\"verdict\":\"deny\","
              "\"reason\":\"egress\",\"requestBytes\":0,\"responseBytes\":0,\"milliseconds\":0}]");
}
