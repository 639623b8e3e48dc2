/* What lies between requests: runs, secrets that change, and upstreams that can't prove who they
 * are. */
#include "unit/proxy/catalogue.h"

#define ASK "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n"
#define DAY_MS (24ull * 3600 * 1000)

static void settle(struct rig *rig)
{
    for (int i = 0; i < 50; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
}

/* E4, E8 */
TEST(a_run_begins_with_connections_of_its_own_and_ends_with_its_token)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *first = rig_ask(rig, ASK);
    AUTO_FREE
    char *old = mem_printf("GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %s\r\n\r\n",
                           rig->token);

    CHECK_HAS(first, "HTTP/1.1 200 ");
    CHECK_EQ(rig->upstream_count, 1);
    proxy_revoke(rig->proxy, "run_1");
    settle(rig);
    CHECK(rig->upstreams[0]->ended); /* the pool went with its run */
    catalogue_new_run(rig);
    AUTO_FREE
    char *stale = rig_ask(rig, old);
    CHECK_HAS(stale, "\"code\":\"bad_token\"");
    AUTO_FREE
    char *second = rig_ask(rig, ASK);
    CHECK_HAS(second, "HTTP/1.1 200 ");
    CHECK_EQ(rig->upstream_count, 2);
    rig_stop(rig);
}

/* E7 */
TEST(a_secret_that_changes_is_used_by_the_next_request_of_an_open_connection)
{
    static const char other[] = "sk-canary-other-9876543210-SECRET";
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_connect(rig);
    struct error err = ERROR_INIT;

    rig_say_filled(rig, client, ASK);
    RIG_UNTIL(rig, rig->decision_count == 1);
    CHECK_HAS(buf_text(&rig->seen), "x-api-key: " RIG_SECRET "\r\n");
    buf_clear(&rig->seen);
    CHECK_EQ(vault_put(rig->vault, "MODEL_KEY", other, strlen(other), NULL, &err), 0);
    rig_say_filled(rig, client, ASK);
    RIG_UNTIL(rig, rig->decision_count == 2);
    CHECK_HAS(buf_text(&rig->seen), other);
    CHECK(strstr(buf_text(&rig->seen), RIG_SECRET) == NULL);
    CHECK_EQ(vault_delete(rig->vault, "MODEL_KEY", &err), 0);
    rig_say_filled(rig, client, ASK);
    RIG_UNTIL(rig, rig->decision_count == 3);
    CHECK_STR(rig_last(rig)->reason, "secret_missing");
    CHECK_EQ(rig->requests, 2);
    rig_hang_up(client);
    rig_stop(rig);
}

static int64_t shift_ms; /* of the upstream's clock */

static uint64_t shifted_wall(const struct clock *clock)
{
    (void)clock;
    return clock_wall_ms(clock_system()) + (uint64_t)shift_ms;
}

static uint64_t shifted_mono(const struct clock *clock)
{
    (void)clock;
    return clock_mono_ms(clock_system());
}

static const struct clock shifted = { shifted_wall, shifted_mono };

/* The upstream's certificates are made by OTHER from now on. */
static void impersonate(struct rig *rig, struct vault *other)
{
    struct error err = ERROR_INIT;

    ca_close(rig->tls_ca);
    CHECK_EQ(ca_open(&rig->tls_ca, other, &shifted, &err), 0);
}

static void require_no_trust(struct rig *rig)
{
    unsigned before = rig->decision_count;
    AUTO_FREE
    char *named = rig_ask(rig, "GET /proxy/secure/x HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer "
                               "%T\r\n\r\n");

    CHECK_HAS(named, "HTTP/1.1 502 ");
    CHECK_STR(rig_last(rig)->reason, "upstream_tls");
    AUTO_FREE
    char *socket = rig_ask(rig, "GET /proxy/secure/x HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer "
                                "%T\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                                "Sec-WebSocket-Version: 13\r\n"
                                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    CHECK_HAS(socket, "HTTP/1.1 502 ");
    CHECK_STR(rig_last(rig)->reason, "upstream_tls");
    CHECK_EQ(rig->decision_count, before + 2);
    CHECK_EQ(rig->requests, 0);
    CHECK_EQ(rig->seen.len, 0); /* not one byte of a head */
}

/* H1 */
TEST(who_cannot_prove_its_name_sees_no_request)
{
    struct rig *rig = rig_start(NULL);

    shift_ms = -(int64_t)(30 * DAY_MS); /* its certificate has expired */
    impersonate(rig, rig->tls_vault);
    require_no_trust(rig);
    shift_ms = (int64_t)(60 * DAY_MS); /* or isn't good yet */
    impersonate(rig, rig->tls_vault);
    require_no_trust(rig);
    shift_ms = 0;
    rig->tls_name = "other.test"; /* or is for another */
    impersonate(rig, rig->tls_vault);
    require_no_trust(rig);
    rig->tls_name = "localhost"; /* or is from the authority that is for sandboxes only */
    impersonate(rig, rig->vault);
    require_no_trust(rig);
    rig_stop(rig);
}
