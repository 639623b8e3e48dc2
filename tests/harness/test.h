/* test.h: what every unit test includes. A test file is a list of
 *
 *   TEST(a_sentence_about_what_is_so)
 *   {
 *       CHECK_EQ(add(2, 2), 4);
 *   }
 *
 * and nothing else: main() is in the harness. A failed check prints where and what, and ends its
 * test; the next one runs. The program takes parts of names as arguments and then runs only those
 * tests. */
#ifndef TESTS_HARNESS_TEST_H
#define TESTS_HARNESS_TEST_H

#include <stdbool.h>
#include <stddef.h>

/* A type and a value, as CHECK_EQ takes them apart. */
struct test_value {
    enum { TEST_SIGNED, TEST_UNSIGNED, TEST_DOUBLE, TEST_POINTER } kind;
    long long i;
    unsigned long long u;
    double d;
    const void *p;
};

struct test_value test_signed(long long value);
struct test_value test_unsigned(unsigned long long value);
struct test_value test_double(double value);
struct test_value test_pointer(const void *value);

/* clang-format off */
/* Numbers are compared by value, so that 5 equals 5u but -1 does not equal 4294967295u; pointers by
 * address. */
#define TEST_VALUE(x)                                                                              \
    _Generic((x), bool: test_unsigned, char: test_signed, signed char: test_signed,                \
             short: test_signed, int: test_signed, long: test_signed, long long: test_signed,      \
             unsigned char: test_unsigned, unsigned short: test_unsigned, unsigned: test_unsigned, \
             unsigned long: test_unsigned, unsigned long long: test_unsigned, float: test_double,  \
             double: test_double, default: test_pointer)(x)
/* clang-format on */

#define CHECK(condition) test_check((condition) != 0, __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) test_check_eq(TEST_VALUE(a), TEST_VALUE(b), __FILE__, __LINE__, #a " == " #b)
/* Strings; NULL equals only NULL. */
#define CHECK_STR(a, b) test_check_str((a), (b), __FILE__, __LINE__, #a " == " #b)
/* TEXT contains PART. */
#define CHECK_HAS(text, part)                                                                      \
    test_check_has((text), (part), __FILE__, __LINE__, #text " has " #part)
/* FUNCTION(DATA) ends in abort(), as BUG() does. It runs in a child, whose stderr is dropped. */
#define CHECK_ABORTS(function, data)                                                               \
    test_check_aborts((function), (data), __FILE__, __LINE__, #function " aborts")
#define CHECK_FAILED(what) test_check(false, __FILE__, __LINE__, (what))

/* Ends the test without a verdict, because this machine lacks what it needs. */
_Noreturn void test_skip(const char *reason);

void test_check(bool passed, const char *file, int line, const char *what);
void test_check_eq(struct test_value a, struct test_value b, const char *file, int line,
                   const char *what);
void test_check_str(const char *a, const char *b, const char *file, int line, const char *what);
void test_check_has(const char *text, const char *part, const char *file, int line,
                    const char *what);
void test_check_aborts(void (*function)(void *data), void *data, const char *file, int line,
                       const char *what);

/* FUNCTION runs after the test that asked for it, also when a check failed; the last one asked for
 * runs first. */
void test_defer(void (*function)(void *data), void *data);

struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
};
void test_register(struct test_case *test);

#define TEST(sentence)                                                                             \
    static void test_##sentence(void);                                                             \
    __attribute__((constructor)) static void register_##sentence(void)                             \
    {                                                                                              \
        static struct test_case test = { #sentence, test_##sentence, NULL };                       \
        test_register(&test);                                                                      \
    }                                                                                              \
    static void test_##sentence(void)

#endif
