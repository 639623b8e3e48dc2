#include "vault/secret.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

static const char *stolen;

static sigjmp_buf back;

static void on_fault(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static bool readable(const char *at)
{
    struct sigaction catch = { .sa_handler = on_fault };
    struct sigaction old;
    volatile bool result = false;

    sigaction(SIGSEGV, &catch, &old);
    if (sigsetjmp(back, 1) == 0) {
        volatile char byte = *(const volatile char *)at;

        (void)byte;
        result = true;
    }
    sigaction(SIGSEGV, &old, NULL);
    return result;
}

TEST(bytes_are_readable_between_open_and_shut_only_and_opens_nest)
{
    size_t len;
    struct secret *secret = secret_new("value", 5);

    stolen = secret_open(secret, &len);
    CHECK_EQ(len, 5u);
    CHECK_EQ(memcmp(stolen, "value", 5), 0);
    CHECK_EQ(secret_open(secret, &len), stolen);
    secret_shut(secret);
    CHECK(readable(stolen));
    secret_shut(secret);
    CHECK(!readable(stolen));
    secret_open(secret, &len);
    CHECK(readable(stolen));
    secret_shut(secret);
    secret_unref(secret);
}

TEST(the_last_reference_frees)
{
    size_t len;
    struct secret *secret = secret_new("value", 5);

    CHECK_EQ(secret_ref(secret), secret);
    secret_unref(secret);
    CHECK_EQ(memcmp(secret_open(secret, &len), "value", 5), 0);
    secret_shut(secret);
    secret_unref(secret);
    secret_unref(NULL);
}

static void shut_too_often(void *data)
{
    secret_shut(data);
}

static void free_while_open(void *data)
{
    size_t len;

    secret_open(data, &len);
    secret_unref(data);
}

static void make_empty(void *data)
{
    secret_new(data, 0);
}

TEST(broken_promises_of_the_caller_abort)
{
    struct secret *secret = secret_new("value", 5);

    CHECK_ABORTS(shut_too_often, secret);
    CHECK_ABORTS(free_while_open, secret);
    CHECK_ABORTS(make_empty, secret);
    secret_unref(secret);
}
