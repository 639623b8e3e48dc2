/* bench_mcp CALLS IN_FLIGHT HELLO CALL PROGRAM [ARGUMENT…]: starts a stdio MCP server and measures
 * it: the time from the fork to the first answer, the first 20 calls, then CALLS calls with up to
 * IN_FLIGHT at a time, and its memory. HELLO is the line that it answers first; CALL a request, in
 * which @ stands for the id. Prints one JSON line; times in microseconds.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES (1u << 20)
#define FIRST_CALLS 20

struct peer {
    pid_t pid;
    FILE *to;
    FILE *from;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_mcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void start(struct peer *peer, char **argv)
{
    int to[2];
    int from[2];

    if (pipe(to) < 0 || pipe(from) < 0)
        fail("pipe");
    peer->pid = fork();
    if (peer->pid < 0)
        fail("fork");
    if (peer->pid == 0) {
        if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0)
            _exit(126);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    peer->to = fdopen(to[1], "w");
    peer->from = fdopen(from[0], "r");
    if (!peer->to || !peer->from)
        fail("fdopen");
}

static void say(struct peer *peer, const char *line)
{
    if (fputs(line, peer->to) < 0 || fputc('\n', peer->to) < 0)
        fail("write");
}

/* CALL with its id. */
static void say_call(struct peer *peer, const char *call, unsigned id)
{
    const char *place = strchr(call, '@');

    if (!place || fprintf(peer->to, "%.*s%u%s\n", (int)(place - call), call, id, place + 1) < 0)
        fail("write");
}

/* Answers may come in any order; the id's place in the line is the server's choice. */
static unsigned hear(struct peer *peer, char *line)
{
    const char *id;

    fflush(peer->to);
    if (!fgets(line, LINE_MAX_BYTES, peer->from))
        fail("the server ended");
    if (strstr(line, "\"error\":{") || strstr(line, "\"isError\":true")) {
        fprintf(stderr, "bench_mcp: %.300s\n", line);
        exit(1);
    }
    /* Of several members of that name the message's own is the first or the last. */
    id = strncmp(line, "{\"result\"", 9) == 0 ? strrchr(line, ':') : strstr(line, "\"id\":");
    return id ? (unsigned)strtoul(*id == ':' ? id + 1 : id + 5, NULL, 10) : 0;
}

static int by_size(const void *a, const void *b)
{
    double first = *(const double *)a;
    double second = *(const double *)b;

    return (first > second) - (first < second);
}

/* At its highest: what a machine has to have for it. */
static long resident_kb(pid_t pid)
{
    char path[64];
    char line[256];
    long kb = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    if (!file)
        fail(path);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    fclose(file);
    return kb;
}

/* Fills TOOK with the time of each call, and returns how long all of them took. */
static double measure(struct peer *peer, const char *call, unsigned count, unsigned in_flight,
                      double *took, char *line)
{
    double *begun = calloc(count, sizeof(*begun));
    double started = now_us();
    unsigned sent = 0;

    if (!begun)
        fail("memory");
    for (unsigned heard = 0; heard < count; heard++) {
        unsigned id;

        while (sent < count && sent - heard < in_flight) {
            begun[sent] = now_us();
            say_call(peer, call, 1000 + sent++);
        }
        id = hear(peer, line) - 1000;
        if (id >= count)
            fail("an answer to nothing");
        took[id] = now_us() - begun[id];
    }
    free(begun);
    return now_us() - started;
}

static double part(const double *sorted, unsigned count, double fraction)
{
    unsigned at = (unsigned)((double)count * fraction);

    return sorted[at < count ? at : count - 1];
}

int main(int argc, char **argv)
{
    char *line = malloc(LINE_MAX_BYTES);
    double first[FIRST_CALLS];
    double first_us;
    double start_us;
    double total_us;
    double *took;
    unsigned count;
    struct peer peer;
    long kb;

    if (argc < 6 || !line) {
        fprintf(stderr, "usage: bench_mcp CALLS IN_FLIGHT HELLO CALL PROGRAM [ARGUMENT…]\n");
        return 2;
    }
    count = (unsigned)strtoul(argv[1], NULL, 10);
    took = calloc(count ? count : 1, sizeof(*took));
    if (!took)
        fail("memory");
    signal(SIGPIPE, SIG_IGN);
    start_us = now_us();
    start(&peer, argv + 5);
    say(&peer, argv[3]);
    hear(&peer, line);
    start_us = now_us() - start_us;
    say(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    first_us = measure(&peer, argv[4], FIRST_CALLS, 1, first, line);
    total_us =
        count ? measure(&peer, argv[4], count, (unsigned)strtoul(argv[2], NULL, 10), took, line)
              : 1;
    kb = resident_kb(peer.pid);
    fclose(peer.to);
    while (waitpid(peer.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    qsort(took, count, sizeof(*took), by_size);
    printf("{\"startUs\":%.1f,\"first20Us\":%.1f,\"calls\":%u,\"medianUs\":%.1f,\"p999Us\":%.1f,"
           "\"callsPerSecond\":%.0f,\"residentKb\":%ld}\n",
           start_us, first_us, count, count ? part(took, count, 0.5) : 0,
           count ? part(took, count, 0.999) : 0, (double)count * 1e6 / total_us, kb);
    free(took);
    free(line);
    return 0;
}
