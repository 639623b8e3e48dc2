#include "proxy/graphql.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

TEST(queries_and_fragments_only_ask)
{
    static const char *const good[] = {
        "{ viewer { login } }",
        "query { a }",
        "query Q($n: Int = 3, $o: In = {mutation: 1}) @x(y: {z: 1}) { a { b } }",
        "{ a(mutation: \"mutation {\") }",
        "# mutation { a }\nquery Q { a }\nfragment F on T { mutation }",
        "{ a(b: \"\"\"mutation \\\"\"\" { \"\"\") }",
        "query mutation { a }",
        "{a}{b}",
    };
    static const char *const bad[] = {
        "",
        "   ",
        "# query\n",
        "mutation { a }",
        "mutation{a}",
        "Mutation { a }",
        "subscription { a }",
        "query Q { a } mutation M { b }",
        "{ a } # x\n mutation M { b }",
        "{ a } # x\r mutation M { b }",
        "{ a },mutation M { b }",
        "{ a } \"text\" mutation M { b }",
        "\"\"\"query\"\"\" mutation M { b }",
        "querymutation { a }",
        "{ a(b: \"x) }",
        "{ a(b: \"\"\"x) }",
        "{ a(b: \"x\\\\\") } mutation { b }",
        "{ a",
        "{ a }}",
        "} mutation { a",
        "query Q",
        "\xef\xbb\xbfmutation { a }",
        "schema { mutation: M }",
        "extend type Q { a: B }",
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!graphql_only_asks(good[i], strlen(good[i])))
            CHECK_FAILED(good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (graphql_only_asks(bad[i], strlen(bad[i])))
            CHECK_FAILED(bad[i]);
}

static enum body_gate_state verdict(const char *type, const char *body)
{
    struct http_request request = { .minor = 1 };
    struct body_gate *gate;
    enum body_gate_state state;

    http_headers_init(&request.headers);
    if (type != NULL)
        http_headers_add(&request.headers, "content-type", type);
    gate = graphql_gate_new(&request);
    for (size_t i = 0; body[i] != '\0'; i++)
        CHECK(body_gate_feed(gate, body + i, 1) != BODY_GATE_OPEN);
    state = body_gate_end(gate);
    CHECK((state == BODY_GATE_OPEN) == (gate->refusal.reason == NULL));
    body_gate_free(gate);
    http_headers_finish(&request.headers);
    return state;
}

TEST(the_gate_opens_for_one_readable_query)
{
    static const char json[] = "application/json; charset=utf-8";

    CHECK_EQ(verdict(json, "{\"query\":\"{ a }\",\"variables\":{\"x\":\"mutation\"}}"),
             BODY_GATE_OPEN);
    CHECK_EQ(verdict(json, "{\"query\":\"mutation { a }\"}"), BODY_GATE_SHUT);
    CHECK_EQ(verdict(json, "{\"query\":\"\\u006dutation { a }\"}"), BODY_GATE_SHUT);
    CHECK_EQ(verdict(json, "{\"query\":\"{ a }\",\"query\":\"mutation { a }\"}"), BODY_GATE_SHUT);
    CHECK_EQ(verdict(json, "[{\"query\":\"{ a }\"},{\"query\":\"mutation { a }\"}]"),
             BODY_GATE_SHUT);
    CHECK_EQ(verdict(json, "{\"extensions\":{\"persistedQuery\":{}}}"), BODY_GATE_SHUT);
    CHECK_EQ(verdict(json, "{\"query\":[\"{ a }\"]}"), BODY_GATE_SHUT);
    CHECK_EQ(verdict(json, ""), BODY_GATE_SHUT);
    CHECK_EQ(verdict("application/graphql", "{ a }"), BODY_GATE_SHUT);
    CHECK_EQ(verdict(NULL, "{\"query\":\"{ a }\"}"), BODY_GATE_SHUT);
}
