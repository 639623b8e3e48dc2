#include "mcp-stdio/server.h"

#include "common/log.h"
#include "tests/unit/mcp-stdio/lab.h"

static void drop_line(void *data, const char *line)
{
    (void)data;
    (void)line;
}

/* What the server says about malformed input goes nowhere here. */
static void start(void)
{
    log_set_sink(drop_line, NULL);
    lab_start_alone();
}

#define INITIALIZE(revision)                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"" revision "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}"
#define MODERN(id, method, params)                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" params MODERN_META \
    "}}"

TEST(initialize_answers_with_the_revision_that_was_asked_for)
{
    static const char *const lines[] = { INITIALIZE("2024-11-05"), INITIALIZE("2025-03-26"),
                                         INITIALIZE("2025-06-18"), INITIALIZE("2025-11-25") };
    static const char *const revisions[] = { "2024-11-05", "2025-03-26", "2025-06-18",
                                             "2025-11-25" };

    start();
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(lab_code(lines[i]), 0);
        CHECK_STR(json_string(lab_get("result.protocolVersion")), revisions[i]);
        CHECK_STR(json_string(lab_get("result.serverInfo.name")), "sandbox-mcp");
        CHECK_HAS(json_string(lab_get("result.instructions")), "waitSeconds 45");
        CHECK_HAS(json_string(lab_get("result.instructions")), "opencode_answer");
        CHECK(lab_get("result.capabilities.tools") != NULL);
        CHECK(!lab_get("result.resultType"));
        CHECK(json_bool(lab_get("result.capabilities.resources.subscribe"), false));
        CHECK(lab_get("result.capabilities.prompts") != NULL);
        CHECK_EQ(lab_get("result.capabilities.completions") != NULL, i >= 1);
        CHECK_EQ(lab_get("result.capabilities.tasks.requests.tools.call") != NULL, i >= 3);
    }
}

TEST(initialize_with_an_unknown_revision_gets_the_newest_legacy_one)
{
    start();
    CHECK_EQ(lab_code(INITIALIZE("2026-07-28")), 0);
    CHECK_STR(json_string(lab_get("result.protocolVersion")), "2025-11-25");
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}"),
             -32602);
}

TEST(ping_and_lists_work_before_initialize)
{
    start();
    lab_say("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}");
    CHECK_STR(lab_line(), "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}");
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), 0);
    CHECK_EQ(json_count(lab_get("result.tools")), 9);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}"), -32601);
}

TEST(discover_is_a_complete_modern_result)
{
    start();
    CHECK_EQ(lab_code(MODERN("\"server-discover-probe-1\"", "server/discover", "")), 0);
    CHECK_HAS(buf_text(&lab.line), "\"id\":\"server-discover-probe-1\"");
    CHECK_STR(json_string(lab_get("result.resultType")), "complete");
    CHECK_STR(json_string(json_first(lab_get("result.supportedVersions"))), "2026-07-28");
    CHECK_STR(json_string(lab_get("result.cacheScope")), "public");
    CHECK(json_u64(lab_get("result.ttlMs"), 0) > 0);
    CHECK(lab_get("result.capabilities.tools") != NULL);
    CHECK_STR(json_string(json_path(
                  json_get(lab_get("result._meta"), "io.modelcontextprotocol/serverInfo"), "name")),
              "sandbox-mcp");
}

TEST(both_eras_alternate)
{
    start();
    CHECK_EQ(lab_code(MODERN("1", "tools/list", "")), 0);
    CHECK_STR(json_string(lab_get("result.resultType")), "complete");
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}"), -32602);
    CHECK_EQ(lab_code(INITIALIZE("2025-06-18")), 0);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}"), 0);
    CHECK(!lab_get("result.resultType"));
    CHECK_EQ(lab_code(MODERN("3", "tools/list", "")), 0);
    CHECK_STR(json_string(lab_get("result.cacheScope")), "public");
}

TEST(what_is_gone_is_not_found_in_the_modern_era)
{
    start();
    CHECK_EQ(lab_code(MODERN("1", "ping", "")), -32601);
    CHECK_EQ(lab_code(MODERN("1", "initialize", "")), -32601);
    CHECK_EQ(lab_code(MODERN("1", "resources/subscribe", "")), -32601);
    CHECK_EQ(lab_code(MODERN("1", "logging/setLevel", "")), -32601);
    CHECK_EQ(lab_code(MODERN("1", "tasks/list", "")), -32601);
    CHECK_EQ(lab_code(MODERN("1", "tasks/result", "")), -32601);
}

TEST(what_is_not_advertised_is_not_found)
{
    start();
    CHECK_EQ(lab_code(INITIALIZE("2025-11-25")), 0);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/update\"}"), -32601);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/"
                      "setLevel\",\"params\":{\"level\":\"info\"}}"),
             -32601);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\\ny\"}"), -32601);
    CHECK_STR(json_string(lab_get("error.message")), "Method not found: x\\x0ay");
}

#define META(rest)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{" rest "}}}"
#define P "\"io.modelcontextprotocol/"

TEST(a_wrong_envelope_is_refused_in_order)
{
    start();
    CHECK_EQ(lab_code(META(P "protocolVersion\":5")), -32602);
    CHECK_EQ(lab_code(META(P "protocolVersion\":\"2099-01-01\"," P "clientCapabilities\":{}")),
             -32022);
    CHECK_STR(json_string(json_first(lab_get("error.data.supported"))), "2026-07-28");
    CHECK_STR(json_string(lab_get("error.data.requested")), "2099-01-01");
    CHECK_EQ(lab_code(META(P "protocolVersion\":\"2026-07-28\"")), -32602);
    CHECK_HAS(json_string(lab_get("error.message")), "clientCapabilities");
    CHECK_EQ(lab_code(META(P "protocolVersion\":\"2026-07-28\"," P "clientCapabilities\":[]")),
             -32602);
    CHECK_EQ(lab_code(META(P "protocolVersion\":\"2026-07-28\"," P "clientCapabilities\":{}")), 0);
    CHECK_EQ(lab_code(META(P "protocolVersion\":\"2026-07-28\"," P "clientCapabilities\":{}," P
                             "clientInfo\":{\"name\":\"x\"}")),
             -32602);
    CHECK_EQ(lab_code(META(P "protocolVersion\":\"2026-07-28\"," P "clientCapabilities\":{}," P
                             "logLevel\":\"loud\"")),
             -32602);
    CHECK_EQ(lab_code(META(P "protocolVersion\":\"2026-07-28\"," P "clientCapabilities\":{}," P
                             "logLevel\":\"error\"")),
             0);
}

#define UNKNOWN_CANCEL                                                                             \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","                                 \
    "\"params\":{\"requestId\":77}}"

TEST(malformed_input_is_met_with_silence)
{
    static const char *const lines[] = {
        "hello",
        "5",
        "null",
        "{",
        "[]",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
        UNKNOWN_CANCEL,
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}",
        "\xff\xfe",
        "",
    };

    start();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (lab_code(lines[i]) != 1)
            CHECK_FAILED(lines[i]);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r"), 0);
}

TEST(a_malformed_request_with_an_id_is_answered)
{
    start();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"ping\"}"), -32600);
    CHECK_STR(json_string(lab_get("id")), "x");
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":[]}"), -32600);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":[1]}"), -32602);
}

TEST(batches_exist_in_one_revision_only)
{
    start();
    CHECK_EQ(lab_code(INITIALIZE("2025-06-18")), 0);
    CHECK_EQ(lab_code("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]"), 1);
    CHECK_EQ(lab_code(INITIALIZE("2025-03-26")), 0);
    lab_say(
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":"
        "\"notifications/initialized\"},5,{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"nope\"}]");
    CHECK_STR(lab_line(),
              "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":\"b\","
              "\"error\":{\"code\":-32601,\"message\":\"Method not found: nope\"}}]");
    CHECK_EQ(lab_code("[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]"), 1);
    CHECK_EQ(lab_code("[]"), 1);
    CHECK_EQ(lab_code("[[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]]"), 1);
}

TEST(a_batch_waits_for_its_calls)
{
    lab_start();
    CHECK_EQ(lab_code(INITIALIZE("2025-03-26")), 0);
    lab_say("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
            "call\",\"params\":{\"name\":\"opencode_list_runs\"}},{\"jsonrpc\":\"2.0\",\"id\":2,"
            "\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/"
            "call\",\"params\":{\"name\":\"opencode_list_runs\"}}]");
    CHECK(lab_silent());
    lab_meet();
    peer_reply(&lab.peer, lab.peer.request.id, "{\"runs\":[],\"hasMore\":false}");
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_silent());
    lab_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
            "cancelled\",\"params\":{\"requestId\":3}}");
    CHECK(lab_next());
    CHECK_EQ(json_count(json_root(lab.doc)), 2);
}

TEST(a_subscription_is_acknowledged_and_stays_open)
{
    start();
    lab_say(MODERN("\"listen:0\"", "subscriptions/listen",
                   "\"notifications\":{\"toolsListChanged\":true},"));
    CHECK_STR(lab_line(), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/"
                          "acknowledged\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/"
                          "subscriptionId\":\"listen:0\"},\"notifications\":{}}}");
    lab_say(MODERN("1", "subscriptions/listen", "\"notifications\":{},"));
    CHECK_HAS(lab_line(), "subscriptionId\":1}");
    CHECK(!server_is_busy(lab.server));
    lab_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
            "cancelled\",\"params\":{\"requestId\":\"listen:0\"," MODERN_META "}}");
    CHECK(lab_silent());
    CHECK_EQ(lab_code(MODERN("2", "subscriptions/listen", "")), -32602);
}

TEST(open_subscriptions_are_limited)
{
    AUTO_BUF struct buf line = BUF_INIT(1000);
    int refused = 0;

    start();
    for (int i = 0; i < 1030; i++) {
        buf_clear(&line);
        buf_printf(&line,
                   "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"subscriptions/"
                   "listen\",\"params\":{\"notifications\":{},%s}}",
                   i, MODERN_META);
        if (lab_code(buf_text(&line)) == -32603)
            refused++;
    }
    CHECK_EQ(refused, 6);
}

TEST(a_list_has_one_page)
{
    start();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                      "list\",\"params\":{\"cursor\":\"2\"}}"),
             -32602);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                      "list\",\"params\":{\"_meta\":{\"progressToken\":0}}}"),
             0);
    CHECK(!lab_get("result.nextCursor"));
}

TEST(schemas_are_such_as_every_client_takes)
{
    start();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), 0);
    for (const struct json_value *tool = json_first(lab_get("result.tools")); tool;
         tool = json_next(tool)) {
        CHECK(strlen(json_string(json_get(tool, "name"))) <= 24);
        CHECK(strlen(json_string(json_get(tool, "description"))) < 1000);
        CHECK_STR(json_string(json_path(tool, "inputSchema.type")), "object");
        CHECK_STR(json_string(json_path(tool, "outputSchema.type")), "object");
        CHECK(!json_bool(json_path(tool, "annotations.destructiveHint"), true));
        CHECK_EQ(json_bool(json_path(tool, "annotations.openWorldHint"), true),
                 strcmp(json_string(json_get(tool, "name")), "opencode_create_pr") == 0);
        for (const struct json_value *p = json_first(json_path(tool, "inputSchema.properties")); p;
             p = json_next(p))
            CHECK(json_string(json_get(p, "type")) && json_string(json_get(p, "description")));
        for (const struct json_value *p = json_first(json_path(tool, "outputSchema.properties")); p;
             p = json_next(p))
            CHECK(json_string(json_get(p, "type")) != NULL);
    }
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0)
            return true;
    }
    return false;
}

TEST(what_reads_is_marked_so_and_what_acts_is_not)
{
    static const char *const acting[] = { "opencode_run_task",     "opencode_cancel_run",
                                          "opencode_send_message", "opencode_answer",
                                          "opencode_create_pr",    NULL };
    static const char *const once[] = { "opencode_run_task", "opencode_send_message",
                                        "opencode_answer", NULL };

    start();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), 0);
    for (const struct json_value *tool = json_first(lab_get("result.tools")); tool;
         tool = json_next(tool)) {
        const char *name = json_string(json_get(tool, "name"));
        bool acts = is_one_of(name, acting);

        CHECK_EQ(json_bool(json_path(tool, "annotations.readOnlyHint"), acts), !acts);
        CHECK_EQ(json_bool(json_path(tool, "annotations.idempotentHint"), false),
                 !is_one_of(name, once));
    }
}

TEST(an_unknown_tool_and_a_missing_name_are_protocol_errors)
{
    start();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                      "call\",\"params\":{\"name\":\"nope\",\"arguments\":{}}}"),
             -32602);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}}"),
             -32602);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}"), -32602);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                      "call\",\"params\":{\"name\":\"opencode_list_runs\",\"arguments\":[]}}"),
             -32602);
}

TEST(without_a_supervisor_a_call_says_so)
{
    start();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                      "call\",\"params\":{\"name\":\"opencode_list_runs\"}}"),
             0);
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "supervisor");
    CHECK(!lab_get("result.structuredContent"));
}
