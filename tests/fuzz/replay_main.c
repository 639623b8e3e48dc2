/* replay_main.c: main() of fuzz targets that are built without libFuzzer. It runs the target over
 * every file given, and every file in the folders given, then over FUZZ_RUNS (2000) mutations of
 * them. The same build and the same corpus make the same mutations; FUZZ_SEED makes others. The
 * input at which the target dies is left in crash-<target>. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX (1 << 20)
#define GROWTH_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Only there when a sanitizer is. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

struct input {
    char *path;
    uint8_t *data;
    size_t size;
};

static struct {
    struct input *items;
    size_t count;
} corpus;

static struct {
    const uint8_t *data;
    size_t size;
    char crash_file[256];
} current;

static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return below ? (random_state * UINT64_C(2685821657736338717) >> 11) % below : 0;
}

static void keep_current(void)
{
    int fd = open(current.crash_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0 && write(fd, current.data, current.size) == (ssize_t)current.size)
        close(fd);
}

static void on_signal(int number)
{
    keep_current();
    signal(number, SIG_DFL);
    raise(number);
}

static void run(const uint8_t *data, size_t size)
{
    /* A copy of exactly this size, so that a read past its end is noticed. */
    uint8_t *copy = malloc(size ? size : 1);

    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    current.data = copy;
    current.size = size;
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void add_file(const char *path)
{
    FILE *file = fopen(path, "re");
    struct input input = { .path = strdup(path), .data = malloc(INPUT_MAX) };

    if (!file || !input.path || !input.data) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    input.size = fread(input.data, 1, INPUT_MAX, file);
    fclose(file);
    corpus.items = realloc(corpus.items, (corpus.count + 1) * sizeof(*corpus.items));
    if (!corpus.items)
        abort();
    corpus.items[corpus.count++] = input;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In the order of names, or the mutations would depend on the file system. */
static void add_path(const char *path)
{
    struct dirent **entries;
    struct stat info;
    int count;

    if (stat(path, &info) < 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    if (!S_ISDIR(info.st_mode)) {
        add_file(path);
        return;
    }
    count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < count; i++) {
        char *below;

        if (asprintf(&below, "%s/%s", path, entries[i]->d_name) < 0)
            abort();
        add_path(below);
        free(below);
        free(entries[i]);
    }
    free(entries);
}

/* Bytes that parsers like to trip over. */
static uint8_t odd_byte(void)
{
    static const uint8_t odd[] = { 0x00, 0x01, 0x7f, 0x80, 0xc0, 0xed, 0xff, '\n', '\r', ' ', '"',
                                   '\\', '/',  '{',  '}',  '[',  ']',  ':',  ',',  '-',  '.', '0',
                                   '9',  'e',  'u',  '%',  ';',  '=',  '<',  '>',  '&',  '\t' };

    return next_random(2) ? odd[next_random(sizeof(odd))] : (uint8_t)next_random(256);
}

static size_t remove_span(uint8_t *data, size_t size)
{
    size_t from = next_random(size);
    size_t len = 1 + next_random(size - from < 64 ? size - from : 64);

    memmove(data + from, data + from + len, size - from - len);
    return size - len;
}

/* Copies a span from another input, or from this one, into this one. */
static size_t insert_span(uint8_t *data, size_t size, size_t room)
{
    const struct input *other = &corpus.items[next_random(corpus.count)];
    size_t from = next_random(other->size);
    size_t len = 1 + next_random(64);
    size_t to = next_random(size + 1);

    if (len > other->size - from)
        len = other->size - from;
    if (len > room - size)
        return size;
    memmove(data + to + len, data + to, size - to);
    memcpy(data + to, other->data + from, len);
    return size + len;
}

static size_t mutate(uint8_t *data, size_t size, size_t room)
{
    size_t at = next_random(size);

    if (size == 0)
        return insert_span(data, size, room);
    switch (next_random(6)) {
    case 0:
        data[at] ^= (uint8_t)(1u << next_random(8));
        return size;
    case 1:
        data[at] = odd_byte();
        return size;
    case 2:
        return remove_span(data, size);
    case 3:
        return next_random(4) ? size : at; /* cut off */
    case 4:
        if (size == room)
            return size;
        memmove(data + at + 1, data + at, size - at);
        data[at] = odd_byte();
        return size + 1;
    default:
        return insert_span(data, size, room);
    }
}

static void run_mutation(size_t number)
{
    const struct input *origin = &corpus.items[number % corpus.count];
    size_t room = origin->size + GROWTH_MAX;
    size_t size = origin->size;
    uint64_t steps = 1 + next_random(8);
    uint8_t *data = malloc(room);

    if (!data)
        abort();
    memcpy(data, origin->data, size);
    while (steps-- > 0)
        size = mutate(data, size, room);
    run(data, size);
    free(data);
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

static void prepare(const char *program)
{
    const char *slash = strrchr(program, '/');

    snprintf(current.crash_file, sizeof(current.crash_file), "crash-%s",
             slash ? slash + 1 : program);
    random_state = number_from("FUZZ_SEED", 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    signal(SIGABRT, on_signal);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(keep_current);
    } else {
        signal(SIGSEGV, on_signal);
        signal(SIGBUS, on_signal);
        signal(SIGFPE, on_signal);
        signal(SIGILL, on_signal);
    }
}

int main(int argc, char **argv)
{
    uint64_t runs = number_from("FUZZ_RUNS", getenv("LONG") ? 50000 : 2000);

    prepare(argv[0]);
    for (int i = 1; i < argc; i++)
        add_path(argv[i]);
    if (corpus.count == 0) {
        fprintf(stderr, "usage: %s FILE-OR-FOLDER…\n", argv[0]);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < corpus.count; i++)
        run(corpus.items[i].data, corpus.items[i].size);
    for (uint64_t i = 0; i < runs; i++)
        run_mutation((size_t)i);
    printf("%zu inputs, %llu mutations\n", corpus.count, (unsigned long long)runs);
    for (size_t i = 0; i < corpus.count; i++) {
        free(corpus.items[i].path);
        free(corpus.items[i].data);
    }
    free(corpus.items);
    return EXIT_SUCCESS;
}
