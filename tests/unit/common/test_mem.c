#include "common/mem.h"

#include <stdint.h>
#include <string.h>

#include "harness/test.h"

TEST(new_memory_is_zero)
{
    AUTO_FREE int *numbers = mem_new_zero(100, sizeof(*numbers));
    AUTO_FREE char *nothing = mem_new_zero(0, 10);

    for (int i = 0; i < 100; i++)
        CHECK_EQ(numbers[i], 0);
    CHECK(nothing != NULL);
}

static void ask_for_too_much(void *data)
{
    /* Not a constant, or the compiler would see that it can't be. */
    free(mem_new_zero(*(size_t *)data, 16));
}

TEST(a_size_that_overflows_aborts)
{
    size_t count = SIZE_MAX / 4;

    CHECK_ABORTS(ask_for_too_much, &count);
}

TEST(copies_are_copies)
{
    AUTO_FREE char *whole = mem_strdup("abc");
    AUTO_FREE char *part = mem_strndup("abcdef", 4);
    AUTO_FREE char *shorter = mem_strndup("ab", 10);
    AUTO_FREE char *printed = mem_printf("%s-%d", "x", 5);

    CHECK_STR(whole, "abc");
    CHECK_STR(part, "abcd");
    CHECK_STR(shorter, "ab");
    CHECK_STR(printed, "x-5");
    CHECK(mem_strdup(NULL) == NULL);
}

TEST(a_stolen_pointer_is_gone_from_its_variable)
{
    AUTO_FREE char *text = mem_strdup("abc");
    AUTO_FREE char *taken = STEAL(text);

    CHECK(text == NULL);
    CHECK_STR(taken, "abc");
}

static void break_a_promise(void *data)
{
    BUG_ON(data == NULL);
}

TEST(a_bug_aborts)
{
    int something;

    CHECK_ABORTS(break_a_promise, NULL);
    break_a_promise(&something);
}

struct outer {
    int before;
    int inner;
};

TEST(a_container_is_found_from_its_member)
{
    struct outer outer = { 1, 2 };

    CHECK_EQ(CONTAINER_OF(&outer.inner, struct outer, inner), &outer);
}
