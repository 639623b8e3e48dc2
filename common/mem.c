#include "common/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Noreturn void out_of_memory(void)
{
    fputs("out of memory\n", stderr);
    abort();
}

void *mem_new_zero(size_t count, size_t size)
{
    size_t bytes;
    void *memory;

    BUG_ON(__builtin_mul_overflow(count, size, &bytes));
    memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        out_of_memory();
    return memory;
}

void *mem_new(size_t size)
{
    void *memory = malloc(size ? size : 1);

    if (!memory)
        out_of_memory();
    return memory;
}

char *mem_strdup(const char *text)
{
    return text ? mem_strndup(text, strlen(text)) : NULL;
}

char *mem_strndup(const char *text, size_t len)
{
    size_t used = text ? strnlen(text, len) : 0;
    char *copy = malloc(used + 1);

    if (!copy)
        out_of_memory();
    if (used)
        memcpy(copy, text, used);
    copy[used] = '\0';
    return copy;
}

char *mem_printf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int len;

    va_start(args, format);
    len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        out_of_memory();
    return text;
}

void mem_free_cleanup(void *pointer_to_pointer)
{
    free(mem_steal(pointer_to_pointer));
}

void mem_bug(const char *file, int line, const char *what)
{
    fprintf(stderr, "bug: %s:%d: %s\n", file, line, what);
    abort();
}
