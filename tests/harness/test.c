#include "harness/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFER_MAX 64
#define EXIT_SKIPPED 77 /* what ctest is told to take as "skipped" */

enum outcome { OUTCOME_PASSED = 1, OUTCOME_FAILED, OUTCOME_SKIPPED };

static struct {
    struct test_case *first;
    struct test_case **last;
    const struct test_case *current;
    const char *skip_reason;
    jmp_buf out; /* to the end of the current test */
    pthread_t thread;
    unsigned deferred;
    struct {
        void (*function)(void *data);
        void *data;
    } defer[DEFER_MAX];
} harness;

void test_register(struct test_case *test)
{
    if (!harness.last)
        harness.last = &harness.first;
    *harness.last = test;
    harness.last = &test->next;
}

void test_defer(void (*function)(void *data), void *data)
{
    if (harness.deferred == DEFER_MAX) {
        fputs("test_defer: too many\n", stderr);
        abort();
    }
    harness.defer[harness.deferred].function = function;
    harness.defer[harness.deferred++].data = data;
}

static _Noreturn void leave(enum outcome outcome)
{
    fflush(stdout);
    /* Another thread's stack can't be left by a jump. */
    if (!harness.current || !pthread_equal(harness.thread, pthread_self()))
        abort();
    longjmp(harness.out, (int)outcome);
}

void test_skip(const char *reason)
{
    harness.skip_reason = reason;
    leave(OUTCOME_SKIPPED);
}

void test_check(bool passed, const char *file, int line, const char *what)
{
    if (passed)
        return;
    printf("# %s:%d: failed: %s\n", file, line, what);
    leave(OUTCOME_FAILED);
}

struct test_value test_signed(long long value)
{
    return (struct test_value){ .kind = TEST_SIGNED, .i = value };
}

struct test_value test_unsigned(unsigned long long value)
{
    return (struct test_value){ .kind = TEST_UNSIGNED, .u = value };
}

struct test_value test_double(double value)
{
    return (struct test_value){ .kind = TEST_DOUBLE, .d = value };
}

struct test_value test_pointer(const void *value)
{
    return (struct test_value){ .kind = TEST_POINTER, .p = value };
}

static double as_double(struct test_value value)
{
    switch (value.kind) {
    case TEST_SIGNED:
        return (double)value.i;
    case TEST_UNSIGNED:
        return (double)value.u;
    case TEST_DOUBLE:
        return value.d;
    case TEST_POINTER:
        break;
    }
    return 0;
}

static bool values_equal(struct test_value a, struct test_value b)
{
    /* A number beside a pointer can only be a NULL. */
    if (a.kind == TEST_POINTER || b.kind == TEST_POINTER)
        return a.p == b.p && a.i == b.i && a.u == b.u;
    if (a.kind == TEST_DOUBLE || b.kind == TEST_DOUBLE)
        return as_double(a) == as_double(b);
    if (a.kind == b.kind)
        return a.i == b.i && a.u == b.u;
    if (a.kind == TEST_SIGNED)
        return a.i >= 0 && (unsigned long long)a.i == b.u;
    return b.i >= 0 && (unsigned long long)b.i == a.u;
}

static void print_value(struct test_value value)
{
    switch (value.kind) {
    case TEST_SIGNED:
        printf("%lld", value.i);
        break;
    case TEST_UNSIGNED:
        printf("%llu", value.u);
        break;
    case TEST_DOUBLE:
        printf("%.17g", value.d);
        break;
    case TEST_POINTER:
        printf("%p", value.p);
        break;
    }
}

void test_check_eq(struct test_value a, struct test_value b, const char *file, int line,
                   const char *what)
{
    if (values_equal(a, b))
        return;
    printf("# %s:%d: ", file, line);
    print_value(a);
    printf(" is not ");
    print_value(b);
    printf("\n");
    test_check(false, file, line, what);
}

/* On one line, so that a tab or a stray byte can be seen. */
static void print_quoted(const char *text)
{
    if (!text) {
        printf("NULL");
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            printf("\\x%02x", (unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

void test_check_str(const char *a, const char *b, const char *file, int line, const char *what)
{
    if (a == b || (a && b && strcmp(a, b) == 0))
        return;
    printf("# %s:%d: ", file, line);
    print_quoted(a);
    printf(" is not ");
    print_quoted(b);
    printf("\n");
    test_check(false, file, line, what);
}

void test_check_has(const char *text, const char *part, const char *file, int line,
                    const char *what)
{
    if (text && strstr(text, part))
        return;
    printf("# %s:%d: ", file, line);
    print_quoted(text);
    printf(" has no ");
    print_quoted(part);
    printf("\n");
    test_check(false, file, line, what);
}

void test_check_aborts(void (*function)(void *data), void *data, const char *file, int line,
                       const char *what)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        dup2(null, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        function(data);
        _exit(0);
    }
    test_check(pid > 0 && waitpid(pid, &status, 0) == pid, file, line, "fork");
    test_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, file, line, what);
}

static enum outcome run_body(const struct test_case *test)
{
    int jumped = setjmp(harness.out);

    if (jumped)
        return (enum outcome)jumped;
    test->run();
    return OUTCOME_PASSED;
}

static enum outcome run_test(const struct test_case *test)
{
    enum outcome outcome;

    harness.current = test;
    outcome = run_body(test);
    while (harness.deferred > 0) {
        unsigned i = --harness.deferred;

        harness.defer[i].function(harness.defer[i].data);
    }
    harness.current = NULL;
    return outcome;
}

static void print_outcome(enum outcome outcome, unsigned number, const char *name)
{
    printf("%s %u - ", outcome == OUTCOME_FAILED ? "not ok" : "ok", number);
    for (; *name; name++)
        putchar(*name == '_' ? ' ' : *name);
    if (outcome == OUTCOME_SKIPPED)
        printf(" # SKIP %s", harness.skip_reason);
    putchar('\n');
}

/* Arguments may be written with spaces, as names are printed. */
static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        for (char *c = argv[i]; *c; c++)
            if (*c == ' ')
                *c = '_';
        if (strstr(name, argv[i]))
            return true;
    }
    return argc <= 1;
}

int main(int argc, char **argv)
{
    unsigned counts[OUTCOME_SKIPPED + 1] = { 0 };
    unsigned number = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    harness.thread = pthread_self();
    for (const struct test_case *test = harness.first; test; test = test->next) {
        enum outcome outcome;

        if (!is_wanted(test->name, argc, argv))
            continue;
        outcome = run_test(test);
        counts[outcome]++;
        print_outcome(outcome, ++number, test->name);
    }
    if (counts[OUTCOME_SKIPPED])
        printf("# %u skipped\n", counts[OUTCOME_SKIPPED]);
    printf("%u passed, %u failed\n", counts[OUTCOME_PASSED], counts[OUTCOME_FAILED]);
    if (counts[OUTCOME_FAILED] || number == 0)
        return EXIT_FAILURE;
    return counts[OUTCOME_PASSED] ? EXIT_SUCCESS : EXIT_SKIPPED;
}
