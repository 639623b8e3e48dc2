/* probe.c: a run without a sandbox: its one client is here, at the other end of a pair of sockets.
 * What it asks for is judged, given the credential and recorded like everything else. */
#include "proxy/proxy_internal.h"

#include <sodium.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/str.h"
#include "io/stream.h"

#define PROBE_ID "probe"
#define TIMEOUT_MS 30000u

struct probe {
    struct run *run;
    struct stream *stream;
    uv_timer_t timer;
    unsigned open; /* stream, timer */
    bool noted;
    bool late;
    bool refused; /* by this proxy, or by what lies between it and the service */
    char reason[48];
    uint32_t status;
    proxy_probe_cb done;
    void *data;
};

struct meaning {
    const char *reason;
    enum proxy_probe_outcome outcome;
};

/* Of the reasons in records; others: PROXY_PROBE_FAILED. */
static const struct meaning meanings[] = {
    { "secret_missing", PROXY_PROBE_SECRET_MISSING },
    { "secret_unusable", PROXY_PROBE_SECRET_UNUSABLE },
    { "upstream_resolve", PROXY_PROBE_UNREACHABLE },
    { "upstream_connect", PROXY_PROBE_UNREACHABLE },
    { "upstream_proxy", PROXY_PROBE_UNREACHABLE },
    { "upstream_timeout", PROXY_PROBE_UNREACHABLE },
    { "upstream_cut", PROXY_PROBE_UNREACHABLE },
    { "address_not_allowed", PROXY_PROBE_UNREACHABLE },
    { "upstream_tls", PROXY_PROBE_TLS },
};

static const char *const outcome_names[] = {
    [PROXY_PROBE_WORKS] = "works",
    [PROXY_PROBE_SECRET_MISSING] = "secret_missing",
    [PROXY_PROBE_SECRET_UNUSABLE] = "secret_unusable",
    [PROXY_PROBE_KEY_REFUSED] = "key_refused",
    [PROXY_PROBE_UNREACHABLE] = "unreachable",
    [PROXY_PROBE_TLS] = "tls",
    [PROXY_PROBE_NO_PROBE] = "no_probe",
    [PROXY_PROBE_FAILED] = "failed",
};

const char *proxy_probe_name(enum proxy_probe_outcome outcome)
{
    return outcome_names[outcome];
}

static enum proxy_probe_outcome outcome_of(const struct probe *probe)
{
    if (probe->late)
        return PROXY_PROBE_UNREACHABLE;
    if (!probe->noted)
        return PROXY_PROBE_FAILED;
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (str_equal(meanings[i].reason, probe->reason))
            return meanings[i].outcome;
    if (probe->refused)
        return PROXY_PROBE_FAILED;
    if (probe->status == 401 || probe->status == 403)
        return PROXY_PROBE_KEY_REFUSED;
    return probe->status >= 200 && probe->status < 300 ? PROXY_PROBE_WORKS : PROXY_PROBE_FAILED;
}

void probe_note(struct probe *probe, const struct proxy_decision *decision)
{
    if (probe->noted)
        return;
    probe->noted = true;
    probe->refused = decision->verdict != AUDIT_ALLOW;
    probe->status = decision->status;
    str_copy(probe->reason, sizeof(probe->reason), decision->reason);
}

static void part_closed(struct probe *probe)
{
    struct run *run = probe->run;

    if (--probe->open > 0)
        return;
    free(probe);
    run_part_closed(run);
}

static void on_stream_closed(void *data)
{
    part_closed(data);
}

static void on_timer_closed(uv_handle_t *handle)
{
    part_closed(CONTAINER_OF(handle, struct probe, timer));
}

static void end(struct probe *probe)
{
    const struct proxy_probe_result result = { .outcome = outcome_of(probe),
                                               .status = probe->status,
                                               .reason = probe->noted ? probe->reason : "" };
    proxy_probe_cb done = probe->done;
    void *data = probe->data;
    struct run *run = probe->run;

    probe->run->probe = NULL;
    stream_close(probe->stream, on_stream_closed, probe);
    uv_close((uv_handle_t *)&probe->timer, on_timer_closed);
    done(data, &result);
    if (!run->revoked)
        proxy_revoke(run->proxy, run->id);
}

/* The record says all; the answer itself is of no interest. */
static void on_data(void *data, const char *bytes, size_t len)
{
    struct probe *probe = data;

    (void)bytes;
    (void)len;
    if (probe->noted)
        end(probe);
}

static void on_end(void *data, const struct error *err)
{
    (void)err;
    end(data);
}

static void on_timeout(uv_timer_t *timer)
{
    struct probe *probe = CONTAINER_OF(timer, struct probe, timer);

    /* A record that came with the last bytes counts. */
    probe->late = !probe->noted;
    end(probe);
}

/* The run's token where clients of the service put it. */
static void write_request(const struct service *service, const char *token, struct buf *out)
{
    AUTO_FREE
    char *pair = mem_printf("probe:%s", token);
    char basic[128];

    sodium_bin2base64(basic, sizeof(basic), (const unsigned char *)pair, strlen(pair),
                      sodium_base64_VARIANT_ORIGINAL);
    buf_printf(out, "GET /proxy/%s%s", service->name, service->probe);
    if (service->inject == INJECT_QUERY)
        buf_printf(out, "%s%s=%s", strchr(service->probe, '?') != NULL ? "&" : "?",
                   service->inject_query, token);
    buf_append_str(out, " HTTP/1.1\r\nHost: probe\r\nUser-Agent: sandbox-mcp\r\nConnection: "
                        "close\r\n");
    switch (service->inject) {
    case INJECT_NONE:
        buf_printf(out, "Authorization: Bearer %s\r\n", token);
        break;
    case INJECT_VALUE:
        buf_printf(out, "%s: %s%s%s\r\n", service->inject_header, service->inject_before, token,
                   service->inject_after);
        break;
    case INJECT_BASIC:
        buf_printf(out, "%s: Basic %s\r\n", service->inject_header, basic);
        break;
    case INJECT_QUERY:
        break;
    }
    buf_append_str(out, "\r\n");
}

static int start(struct run *run, const struct service *service, const char *token,
                 proxy_probe_cb done, void *data, struct error *err)
{
    struct probe *probe = NEW(struct probe);
    struct stream_callbacks callbacks = { .on_data = on_data, .on_end = on_end, .data = probe };
    AUTO_BUF struct buf request = BUF_INIT(64u << 10);
    int fds[2];

    *probe = (struct probe){ .run = run, .done = done, .data = data };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0) {
        free(probe);
        return error_set(err, ERR_SYSTEM, errno, "probe");
    }
    if (stream_start(&probe->stream, run->proxy->loop, fds[0], &callbacks, err) < 0) {
        close(fds[1]);
        free(probe);
        return -1;
    }
    uv_timer_init(run->proxy->loop, &probe->timer);
    uv_timer_start(&probe->timer, on_timeout, TIMEOUT_MS, 0);
    probe->open = 2;
    run->probe = probe;
    run_part_opened(run);
    client_conn_start(run, fds[1]);
    write_request(service, token, &request);
    stream_write(probe->stream, request.data, request.len);
    return 0;
}

/* True when nothing needs to be asked. */
static bool known_already(const struct proxy *proxy, const struct service *service,
                          struct proxy_probe_result *result)
{
    *result = (struct proxy_probe_result){ .reason = "" };
    if (service->secret[0] != '\0' && !vault_has(proxy->vault, service->secret))
        result->outcome = PROXY_PROBE_SECRET_MISSING;
    else if (service->probe[0] == '\0')
        result->outcome = PROXY_PROBE_NO_PROBE;
    else
        return false;
    return true;
}

int proxy_probe(struct proxy *proxy, const char *name, proxy_probe_cb done, void *data,
                struct error *err)
{
    const struct service *service = services_find(&proxy->services, name, strlen(name));
    const struct proxy_grant grant = { .run_id = PROBE_ID, .services = &name, .service_count = 1 };
    struct proxy_probe_result result;
    uint8_t hash[PROXY_TOKEN_HASH_SIZE];
    char token[PROXY_TOKEN_SIZE];
    struct run *run;
    int status = -1;

    if (service == NULL)
        return error_set(err, ERR_NOT_FOUND, 0, "no service %.64s is configured", name);
    if (known_already(proxy, service, &result)) {
        done(data, &result);
        return 0;
    }
    if (proxy_grant_run(proxy, &grant, token, hash, err) < 0)
        return err->code == ERR_CONFLICT
                   ? error_set(err, ERR_CONFLICT, 0, "another service is being tried")
                   : -1;
    run = proxy_run(proxy, PROBE_ID);
    run->grant.probes = true;
    status = start(run, service, token, done, data, err);
    sodium_memzero(token, sizeof(token));
    if (status < 0)
        proxy_revoke(proxy, PROBE_ID);
    return status;
}
