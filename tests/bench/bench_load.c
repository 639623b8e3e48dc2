/* bench_load.c: a client of HTTP/1.1 on loopback that does nothing but measure. One JSON line.
 *
 *   bench_load PORT HEADER PATH requests CONNECTIONS COUNT   each asks again when it is answered
 *   bench_load PORT HEADER PATH events CONNECTIONS COUNT     COUNT events of each; "t=NANOSECONDS;"
 *   bench_load PORT HEADER PATH hold CONNECTIONS 0           opens streams, waits for one event of
 *                                                            each, then for the end of its input
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/str.h"

#define READ_SIZE (256u << 10)
#define HEAD_MAX 8192u
#define TAIL 64u

struct connection {
    int fd;
    char head[HEAD_MAX];
    size_t head_len;
    bool in_body;
    int64_t left; /* of the body; -1: chunked */
    char tail[TAIL + 1];
    size_t tail_len;
    uint64_t asked_ns;
    uint64_t events;
};

static struct {
    uint16_t port;
    const char *request;
    bool streams;
    uint64_t wanted;
    uint64_t started;
    uint64_t done;
    uint64_t bytes;
    uint64_t *samples;
    uint64_t sample_count;
    int epoll;
} load;

static char buffer[READ_SIZE];

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_load: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void sample(uint64_t value)
{
    if (load.sample_count < load.wanted)
        load.samples[load.sample_count++] = value;
}

static void ask(struct connection *connection)
{
    size_t len = strlen(load.request);

    connection->asked_ns = now_ns();
    connection->head_len = connection->tail_len = 0;
    connection->in_body = false;
    load.started++;
    if (write(connection->fd, load.request, len) != (ssize_t)len)
        die("write");
}

static void open_connection(struct connection *connection)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(load.port) };
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
    int one = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 ||
        connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        die("connect");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    epoll_ctl(load.epoll, EPOLL_CTL_ADD, connection->fd, &event);
    ask(connection);
}

static void finish(struct connection *connection)
{
    sample(now_ns() - connection->asked_ns);
    load.done++;
    if (load.started < load.wanted)
        ask(connection);
}

/* Stamps of events, also ones that were cut. */
static void read_stamps(struct connection *connection, const char *data, size_t len)
{
    uint64_t now = now_ns();

    for (size_t i = 0; i < len; i++) {
        char c = data[i];

        if (c != ';') {
            if (c == 't')
                connection->tail_len = 0;
            if (connection->tail_len < TAIL)
                connection->tail[connection->tail_len++] = c;
            continue;
        }
        connection->tail[connection->tail_len] = '\0';
        uint64_t stamp;
        if (str_starts(connection->tail, "t=") &&
            str_parse_u64(connection->tail + 2, UINT64_MAX, &stamp)) {
            sample(now - stamp);
            connection->events++;
            load.done++;
        }
        connection->tail_len = 0;
    }
}

static void read_body(struct connection *connection, const char *data, size_t len)
{
    load.bytes += len;
    if (load.streams) {
        read_stamps(connection, data, len);
        return;
    }
    if (connection->left >= 0) {
        connection->left -= (int64_t)len;
        if (connection->left <= 0)
            finish(connection);
        return;
    }
    /* Chunked: the last five bytes tell. */
    size_t keep = len < 5 ? len : 5;
    if (keep == 5)
        connection->tail_len = 0;
    while (connection->tail_len + keep > 5) {
        memmove(connection->tail, connection->tail + 1, --connection->tail_len);
    }
    memcpy(connection->tail + connection->tail_len, data + len - keep, keep);
    connection->tail_len += keep;
    if (connection->tail_len == 5 && memcmp(connection->tail, "0\r\n\r\n", 5) == 0)
        finish(connection);
}

static void read_head(struct connection *connection, const char *data, size_t len)
{
    size_t before = connection->head_len;
    const char *end;
    const char *length;

    if (len > HEAD_MAX - 1 - before)
        len = HEAD_MAX - 1 - before;
    memcpy(connection->head + before, data, len);
    connection->head[connection->head_len = before + len] = '\0';
    end = strstr(connection->head, "\r\n\r\n");
    if (end == NULL)
        return;
    if (strncmp(connection->head, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "bench_load: %.300s\n", connection->head);
        _exit(1);
    }
    length = strcasestr(connection->head, "\r\ncontent-length:");
    connection->left = length != NULL && length < end ? strtoll(length + 17, NULL, 10) : -1;
    connection->in_body = true;
}

static void on_readable(struct connection *connection)
{
    ssize_t len = read(connection->fd, buffer, sizeof(buffer));
    size_t at = 0;

    if (len <= 0)
        die("the connection ended");
    if (!connection->in_body) {
        size_t before = connection->head_len;

        read_head(connection, buffer, (size_t)len);
        if (!connection->in_body)
            return;
        at = (size_t)(strstr(connection->head, "\r\n\r\n") + 4 - connection->head) - before;
    }
    if (at < (size_t)len)
        read_body(connection, buffer + at, (size_t)len - at);
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static double at_us(double part)
{
    uint64_t index = (uint64_t)((double)load.sample_count * part);

    if (load.sample_count == 0)
        return 0;
    if (index >= load.sample_count)
        index = load.sample_count - 1;
    return (double)load.samples[index] / 1000.0;
}

static void wait_for_input_end(void)
{
    char byte;

    printf("{\"held\":true}\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
}

int main(int argc, char **argv)
{
    uint64_t port;
    uint64_t connections;
    uint64_t count;

    if (argc != 7 || !str_parse_u64(argv[1], 65535, &port) ||
        !str_parse_u64(argv[5], 5000, &connections) || !str_parse_u64(argv[6], 1u << 24, &count)) {
        fputs("usage: bench_load PORT HEADER PATH requests|events|hold CONNECTIONS COUNT\n",
              stderr);
        return 2;
    }
    bool hold = strcmp(argv[4], "hold") == 0;
    load.port = (uint16_t)port;
    load.streams = strcmp(argv[4], "requests") != 0;
    load.wanted = hold ? connections : load.streams ? count * connections : count;
    load.request = mem_printf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", argv[3], argv[2]);
    load.samples = mem_new_zero(load.wanted + 1, sizeof(*load.samples));
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct connection *all = mem_new_zero(connections, sizeof(*all));
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < connections; i++)
        open_connection(&all[i]);
    while (load.done < load.wanted) {
        struct epoll_event events[64];
        int ready = epoll_wait(load.epoll, events, 64, 60000);

        if (ready <= 0)
            die("nothing came for a minute");
        for (int i = 0; i < ready; i++)
            on_readable(events[i].data.ptr);
    }
    uint64_t took = now_ns() - start;
    if (hold) {
        wait_for_input_end();
        return 0;
    }
    qsort(load.samples, load.sample_count, sizeof(*load.samples), compare);
    printf("{\"count\":%llu,\"bytes\":%llu,\"seconds\":%.6f,\"p50Us\":%.1f,\"p99Us\":%.1f}\n",
           (unsigned long long)load.done, (unsigned long long)load.bytes, (double)took / 1e9,
           at_us(0.5), at_us(0.99));
    return 0;
}
