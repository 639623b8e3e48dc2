/* probe NAME [ARGUMENT...]: tries one thing and prints "allowed", "denied ERRNO" or "killed
 * SIGNAL". The exit status is 0 when it was allowed. `probe --list` names them all. */
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct probe *const tables[] = { kernel_probes, network_probes, process_probes,
                                              limit_probes };
#define TABLE_COUNT (sizeof(tables) / sizeof(tables[0]))

int probe_error(long result)
{
    return result < 0 ? errno : 0;
}

int probe_number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < -1000000 || value > 1000000) {
        fprintf(stderr, "probe: %s is not a number\n", text);
        exit(2);
    }
    return (int)value;
}

static const struct probe *find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        for (const struct probe *probe = tables[i]; probe->name != NULL; probe++) {
            if (strcmp(probe->name, name) == 0)
                return probe;
        }
    }
    return NULL;
}

static void list(void)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        for (const struct probe *probe = tables[i]; probe->name != NULL; probe++)
            puts(probe->name);
    }
}

/* A filter may answer with a signal, so the probe is a child and its verdict comes through a pipe.
 */
static int try(const struct probe *probe, char **arguments)
{
    int channel[2];
    int verdict = 0;
    int status = 0;
    pid_t child;

    if (pipe(channel) < 0 || (child = fork()) < 0) {
        perror("probe: start");
        return 2;
    }
    if (child == 0) {
        int result = probe->run(arguments);

        _exit(write(channel[1], &result, sizeof(result)) == sizeof(result) ? 0 : 2);
    }
    close(channel[1]);
    if (read(channel[0], &verdict, sizeof(verdict)) != sizeof(verdict))
        verdict = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (verdict == 0) {
        puts("allowed");
        return 0;
    }
    if (verdict > 0)
        printf("denied %s\n", strerrorname_np(verdict));
    else if (WIFSIGNALED(status))
        printf("killed SIG%s\n", sigabbrev_np(WTERMSIG(status)));
    else
        printf("no verdict\n");
    return verdict > 0 || WIFSIGNALED(status) ? 1 : 2;
}

int main(int argc, char **argv)
{
    const struct probe *probe = argc > 1 ? find(argv[1]) : NULL;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list();
        return 0;
    }
    if (probe == NULL || argc - 2 < probe->needs) {
        fprintf(stderr, "usage: probe NAME [ARGUMENT...] | --list\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    return try(probe, argv + 2);
}
