/* mem.h: memory and invariants. Small fixed allocations abort when memory is out; anything whose
 * size a peer chooses is bounded first and goes through buf.h. */
#ifndef COMMON_MEM_H
#define COMMON_MEM_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Zeroed memory; aborts when there is none. Freed with free(). */
void *mem_new_zero(size_t count, size_t size);
/* The same, not zeroed, for what is filled at once. */
void *mem_new(size_t size);
#define NEW(type) ((type *)mem_new_zero(1, sizeof(type)))

/* Copies; abort when memory is out. mem_strdup(NULL) is NULL. */
char *mem_strdup(const char *text);
char *mem_strndup(const char *text, size_t len);
/* A formatted string on the heap; aborts when memory is out. */
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

void mem_free_cleanup(void *pointer_to_pointer);
#define AUTO_FREE __attribute__((cleanup(mem_free_cleanup)))

/* Takes the pointer out of a variable that would otherwise be freed at the end of its scope. */
static inline void *mem_steal(void *pointer_to_pointer)
{
    void *value;

    memcpy(&value, pointer_to_pointer,
           sizeof(value)); /* any pointer's type, whatever aliasing rules say */
    memset(pointer_to_pointer, 0, sizeof(value));
    return value;
}
#define STEAL(variable) ((__typeof__(variable))mem_steal(&(variable)))

/* A promise of our own code is broken: prints where and aborts. Never on a peer's input. */
_Noreturn void mem_bug(const char *file, int line, const char *what);
#define BUG(what) mem_bug(__FILE__, __LINE__, (what))
#define BUG_ON(condition)                                                                          \
    do {                                                                                           \
        if (condition)                                                                             \
            BUG(#condition);                                                                       \
    } while (0)

#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

#endif
