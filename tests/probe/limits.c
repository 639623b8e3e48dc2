/* limits.c: using up what there is, within bounds of its own. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Children that wait end with their parent, whatever becomes of it. */
static int try_fork(char **arguments)
{
    int wanted = probe_number(arguments[0]);
    int result = 0;

    setpgid(0, 0);
    for (int i = 0; i < wanted && result == 0; i++) {
        pid_t child = fork();

        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
            _exit(0);
        }
        result = probe_error(child);
    }
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    while (wait(NULL) > 0)
        ;
    return result;
}

static int try_files(char **arguments)
{
    int wanted = probe_number(arguments[0]);

    for (int i = 0; i < wanted; i++) {
        if (open("/dev/null", O_RDONLY) < 0)
            return errno;
    }
    return 0;
}

static int try_memory(char **arguments)
{
    const size_t mebibyte = 1u << 20;
    int wanted = probe_number(arguments[0]);

    for (int i = 0; i < wanted; i++) {
        void *block = mmap(NULL, mebibyte, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (block == MAP_FAILED)
            return errno;
        memset(block, 1, mebibyte);
    }
    return 0;
}

static void *idle(void *data)
{
    return data;
}

static int try_threads(char **arguments)
{
    pthread_t threads[256];
    int wanted = probe_number(arguments[0]);
    int started = 0;
    int error = 0;

    while (started < wanted && started < 256 && error == 0) {
        error = pthread_create(&threads[started], NULL, idle, NULL);
        if (error == 0)
            started++;
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return error;
}

const struct probe limit_probes[] = {
    { "fork", try_fork, 1 },       { "files", try_files, 1 }, { "fill-memory", try_memory, 1 },
    { "threads", try_threads, 1 }, { NULL, NULL, 0 },
};
