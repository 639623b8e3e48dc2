/* What names lead to: private and odd addresses, answers that change, servers that don't answer. */
#include "unit/proxy/catalogue.h"
#include "unit/proxy/internet.h"

#define PUBLIC INTERNET_PUBLIC
#define SEEK(name)                                                                                 \
    "GET http://" name ":%P/ HTTP/1.1\r\nHost: " name ":%P\r\nProxy-Authorization: Basic "         \
    "%C\r\n\r\n"
#define TUNNEL(name)                                                                               \
    "CONNECT " name ":%P HTTP/1.1\r\nHost: " name ":%P\r\nProxy-Authorization: Basic %C\r\n\r\n"
#define ONE(name_, ...)                                                                            \
    {                                                                                              \
        .name = (name_), .addresses = { { __VA_ARGS__ } }                                          \
    }

static struct internet_name names[] = {
    ONE("good.test", PUBLIC),
    ONE("private.test", "10.0.0.1"),
    ONE("mixed.test", "192.168.0.1", PUBLIC),
    ONE("metadata.google.internal", "169.254.169.254"),
    ONE("alibaba.test", "100.100.100.200"),
    ONE("ec2.test", "fd00:ec2::254"),
    ONE("loop.test", "127.0.0.1"),
    ONE("loop6.test", "::1"),
    ONE("zero.test", "0.0.0.0"),
    ONE("zero6.test", "::"),
    ONE("mapped.test", "::ffff:169.254.169.254"),
    ONE("nat64.test", "64:ff9b::a9fe:a9fe"),
    ONE("6to4.test", "2002:7f00:1::"),
    ONE("compatible.test", "::127.0.0.1"),
    ONE("linklocal.test", "fe80::1"),
    ONE("shared.test", "100.64.0.1"),
    ONE("bench.test", "198.18.0.1"),
    ONE("multicast.test", "224.0.0.1"),
    ONE("reserved.test", "240.0.0.1"),
    ONE("broadcast.test", "255.255.255.255"),
    ONE("unique.test", "fc00::1"),
    ONE("multicast6.test", "ff02::1"),
    ONE("documentation.test", "2001:db8::1"),
    { .name = "many.test", .addresses = { { "10.0.0.1" } }, .copies = 100 },
    { .name = "none.test", .error = EAI_NONAME },
    { .name = "failing.test", .error = EAI_AGAIN },
    { .name = "rebinding.test", .addresses = { { PUBLIC }, { "10.0.0.1" } } },
    { .name = "silent.test", .addresses = { { PUBLIC } }, .silent = true },
};

static const struct attack seeking[] = {
    ATTACK("C9", ATTACK_PLAIN, SEEK("good.test"), "ok", 200, .reached = 1),
    ATTACK("C7", ATTACK_PLAIN, SEEK("private.test"), "address_not_allowed", 403),
    ATTACK("C7", ATTACK_PLAIN, TUNNEL("private.test"), "address_not_allowed", 403),
    ATTACK("C7", ATTACK_PLAIN, SEEK("mixed.test"), "address_not_allowed", 403),
    ATTACK("C2", ATTACK_PLAIN, SEEK("metadata.google.internal"), "address_not_allowed", 403),
    ATTACK("C2", ATTACK_PLAIN, TUNNEL("metadata.google.internal"), "address_not_allowed", 403),
    ATTACK("C2", ATTACK_PLAIN, SEEK("alibaba.test"), "address_not_allowed", 403),
    ATTACK("C2", ATTACK_PLAIN, SEEK("ec2.test"), "address_not_allowed", 403),
    ATTACK("C3", ATTACK_PLAIN, SEEK("loop.test"), "address_not_allowed", 403),
    ATTACK("C3", ATTACK_PLAIN, TUNNEL("loop.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, SEEK("loop6.test"), "address_not_allowed", 403),
    ATTACK("C3", ATTACK_PLAIN, SEEK("zero.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, SEEK("zero6.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, SEEK("mapped.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, TUNNEL("mapped.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, SEEK("nat64.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, SEEK("6to4.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, SEEK("compatible.test"), "address_not_allowed", 403),
    ATTACK("C4", ATTACK_PLAIN, SEEK("linklocal.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("shared.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("bench.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("multicast.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("reserved.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("broadcast.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("unique.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("multicast6.test"), "address_not_allowed", 403),
    ATTACK("C5", ATTACK_PLAIN, SEEK("documentation.test"), "address_not_allowed", 403),
    ATTACK("C11", ATTACK_PLAIN, SEEK("many.test"), "address_not_allowed", 403),
    ATTACK("C11", ATTACK_PLAIN, SEEK("none.test"), "upstream_resolve", 502),
    ATTACK("C11", ATTACK_PLAIN, TUNNEL("none.test"), "upstream_resolve", 502),
    ATTACK("C11", ATTACK_PLAIN, SEEK("failing.test"), "upstream_resolve", 502),
    ATTACK("C12", ATTACK_PLAIN, SEEK("a-word-of-the-secret.strangers.test"), "host_not_allowed",
           403),
    ATTACK("C12", ATTACK_PLAIN, TUNNEL("a-word-of-the-secret.strangers.test"), "host_not_allowed",
           403),
    ATTACK("C17", ATTACK_PLAIN, SEEK("good.test") SEEK("private.test"), "address_not_allowed", 403,
           .reached = 1, .records = 2),
};

static void allow_names(struct rig *rig)
{
    internet.names = names;
    internet.count = ARRAY_LEN(names);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE
        char *rule = mem_printf("%s:%u", names[i].name, rig->upstream_port);
        struct error err = ERROR_INIT;

        CHECK_EQ(proxy_allow(rig->proxy, rule, &err), 0);
        names[i].asked = 0;
    }
    internet.strangers = internet.escaped = 0;
}

TEST(a_name_leads_to_public_addresses_or_nowhere)
{
    catalogue_run_with(allow_names, seeking, ARRAY_LEN(seeking), NULL);
    CHECK_EQ(internet.strangers, 0); /* nobody was asked for a name that may not be reached */
    CHECK_EQ(internet.escaped, 0);   /* and no connection was tried to what may not be reached */
}

TEST(an_answer_that_changes_is_judged_again)
{
    struct rig *rig = rig_start(NULL);

    allow_names(rig);
    for (unsigned i = 0; i < 3; i++) {
        AUTO_FREE
        char *request = rig_fill(rig, SEEK("rebinding.test"));
        AUTO_FREE
        char *answer = rig_ask(rig, request);

        if (i == 0)
            CHECK_HAS(answer, "HTTP/1.1 200 ");
        else
            CHECK_HAS(answer, "address_not_allowed");
        /* Each run asks for itself. */
        proxy_revoke(rig->proxy, "run_1");
        catalogue_new_run(rig);
    }
    CHECK_EQ(rig->requests, 1);
    CHECK_EQ(internet_find("rebinding.test")->asked, 3);
    CHECK_EQ(internet.escaped, 0);
    rig_stop(rig);
}

/* What waits for a name waits alone. */
TEST(a_silent_name_server_holds_up_nobody_else)
{
    struct proxy_options options = { .upstream_connect_ms = 200 };
    struct rig *rig = rig_start(&options);
    struct rig_client *client;

    allow_names(rig);
    client = rig_connect(rig);
    rig_say_filled(rig, client, SEEK("silent.test"));
    AUTO_FREE
    char *other = rig_ask(rig, "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: "
                               "%T\r\n\r\n");
    CHECK_HAS(other, "HTTP/1.1 200 ");
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "\r\n\r\n") != NULL);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 504 ");
    CHECK_STR(rig_last(rig)->reason, "upstream_timeout");
    CHECK_EQ(internet_find("silent.test")->asked, 0);
    rig_hang_up(client);
    internet_speak();
    rig_stop(rig);
}
