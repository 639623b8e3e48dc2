/* bench_proxy.c: the credential proxy by itself, on a port of loopback, for measurements beside
 * other proxies: bench_proxy STATE-FOLDER PORT CA-FILE NAME=TARGET… It prints the run's token and
 * ends when its input does. */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "common/mem.h"
#include "common/str.h"
#include "io/listener.h"
#include "proxy/proxy.h"
#include "vault/vault.h"

#define SECRET "sk-bench-0123456789abcdefghijklmnopqrstuvwxyz"
#define SERVICES_MAX 8

static void on_decision(void *data, const struct proxy_decision *decision)
{
    uint64_t *decisions = data;

    (void)decision;
    (*decisions)++;
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    char byte;

    (void)status;
    (void)events;
    if (fread(&byte, 1, 1, stdin) == 0)
        uv_stop(poll->loop);
}

static int fail(const struct error *err)
{
    fprintf(stderr, "bench_proxy: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct proxy_service services[SERVICES_MAX] = { 0 };
    struct proxy_options options = { .services = services, .connections_per_run = 4096 };
    struct vault_options vault_options = { .clock = clock_system() };
    struct proxy_grant grant = { .run_id = "bench" };
    uint8_t hash[PROXY_TOKEN_HASH_SIZE];
    char token[PROXY_TOKEN_SIZE];
    uint64_t decisions = 0;
    struct error err = ERROR_INIT;
    struct vault *vault;
    struct proxy *proxy;
    uv_loop_t loop;
    uv_poll_t input;
    uint16_t port;
    uint64_t number;

    if (argc < 5 || argc - 4 > SERVICES_MAX || !str_parse_u64(argv[2], 65535, &number)) {
        fputs("usage: bench_proxy STATE-FOLDER PORT CA-FILE NAME=TARGET…\n", stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    uv_loop_init(&loop);
    for (int i = 4; i < argc; i++) {
        char *equals = strchr(argv[i], '=');

        BUG_ON(equals == NULL);
        *equals = '\0';
        services[options.service_count++] = (struct proxy_service){
            .name = argv[i],
            .target = equals + 1,
            .inject_header = "authorization",
            .inject_value = "Bearer {BENCH_KEY}",
        };
    }
    vault_options.state_dir = argv[1];
    options.ca_file = argv[3];
    options.on_decision = on_decision;
    options.data = &decisions;
    if (vault_open(&vault, &vault_options, &err) < 0 ||
        vault_put(vault, "BENCH_KEY", SECRET, strlen(SECRET), NULL, &err) < 0 ||
        proxy_start(&proxy, &loop, vault, clock_system(), &options, &err) < 0 ||
        proxy_grant_run(proxy, &grant, token, hash, &err) < 0)
        return fail(&err);
    int fd = listener_tcp_socket("127.0.0.1", (uint16_t)number, &port, &err);
    if (fd < 0 || proxy_attach(proxy, "bench", fd, &err) < 0)
        return fail(&err);
    printf("%s\n", token);
    fflush(stdout);
    uv_poll_init(&loop, &input, 0);
    uv_poll_start(&input, UV_READABLE, on_input);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&input, NULL);
    proxy_close(proxy, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    vault_close(vault);
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}
