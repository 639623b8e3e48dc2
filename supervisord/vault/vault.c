#include "vault/vault.h"

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

#include "common/fd.h"
#include "common/list.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/paths.h"
#include "common/str.h"
#include "vault/vault_internal.h"

#define LOOK_MS 1000 /* an opened file is looked at again after this */

/* Which content of a file was opened: any change of the file changes one of these. */
struct stamp {
    ino_t inode;
    off_t size;
    struct timespec modified;
    struct timespec changed;
};

/* A secret in memory: taken from the environment, or the opened content of a file that still has
 * that stamp. */
struct entry {
    struct list link; /* vault::environment or vault::opened */
    char *name;
    struct secret *secret;
    uint64_t updated_ms;
    struct stamp stamp; /* opened ones only, as the next */
    uint64_t looked_ms; /* steady time at which the file was looked at */
};

struct vault {
    char *directory;
    const struct clock *clock;
    struct secret *key;
    struct list environment; /* entry::link */
    struct list opened;      /* entry::link */
};

bool vault_name_valid(const char *name)
{
    return str_is_secret_name(name);
}

static int check_name(const char *name, struct error *err)
{
    if (vault_name_valid(name))
        return 0;
    return error_argument(
        err, "name", "must be 1 to 64 capital letters, digits and underscores, a letter first");
}

static int not_found(const char *name, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, 0, "no secret %s", name);
}

static char *file_of(const struct vault *vault, const char *name)
{
    return mem_printf("%s/%s", vault->directory, name);
}

/* In memory ----------------------------------------------------------------------------------- */

static struct entry *entry_find(const struct list *head, const char *name)
{
    LIST_EACH(head, link) {
        struct entry *entry = LIST_ENTRY(link, struct entry, link);

        if (strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

static void entry_free(struct entry *entry)
{
    if (entry == NULL)
        return;
    list_remove(&entry->link);
    secret_unref(entry->secret);
    free(entry->name);
    free(entry);
}

/* Takes the reference. */
static struct entry *entry_new(struct list *head, const char *name, struct secret *secret)
{
    struct entry *entry = NEW(struct entry);

    entry->name = mem_strdup(name);
    entry->secret = secret;
    list_append(head, &entry->link);
    return entry;
}

static void entries_free(struct list *head)
{
    LIST_EACH(head, link)
        entry_free(LIST_ENTRY(link, struct entry, link));
}

/* Length without one trailing line end, or -1 when the value could not be a header's. */
static int check_value(const char *value, size_t *len, struct error *err)
{
    size_t end = *len;

    if (end > 0 && value[end - 1] == '\n')
        end--;
    if (end > 0 && end < *len && value[end - 1] == '\r')
        end--;
    if (end == 0)
        return error_argument(err, "value", "is empty");
    if (end > SECRET_MAX)
        return error_argument(err, "value", "is longer than %u bytes", SECRET_MAX);
    for (size_t i = 0; i < end; i++) {
        if (value[i] == '\0' || value[i] == '\r' || value[i] == '\n')
            return error_argument(err, "value",
                                  "holds a line end or NUL inside, so no header can carry it");
    }
    *len = end;
    return 0;
}

/* Open and close ------------------------------------------------------------------------------ */

void vault_close(struct vault *vault)
{
    if (vault == NULL)
        return;
    entries_free(&vault->environment);
    entries_free(&vault->opened);
    secret_unref(vault->key);
    free(vault->directory);
    free(vault);
}

int vault_open(struct vault **out, const struct vault_options *options, struct error *err)
{
    struct vault *vault = NEW(struct vault);

    vault->directory = mem_printf("%s/vault", options->state_dir);
    vault->clock = options->clock;
    list_init(&vault->environment);
    list_init(&vault->opened);
    if (sodium_init() < 0)
        error_set(err, ERR_SYSTEM, 0, "libsodium can't be initialised");
    else if (paths_make_private(vault->directory, err) == 0)
        vault->key = master_key_load(options->state_dir, err);
    if (vault->key == NULL) {
        vault_close(vault);
        return error_wrap(err, "vault");
    }
    *out = vault;
    return 0;
}

/* On disk ------------------------------------------------------------------------------------- */

static bool file_stamp(const char *path, struct stamp *stamp)
{
    struct stat status;

    if (lstat(path, &status) < 0)
        return false;
    *stamp = (struct stamp){ status.st_ino, status.st_size, status.st_mtim, status.st_ctim };
    return true;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool stamp_equal(const struct stamp *a, const struct stamp *b)
{
    return a->inode == b->inode && a->size == b->size && same_time(&a->modified, &b->modified) &&
           same_time(&a->changed, &b->changed);
}

int vault_put(struct vault *vault, const char *name, const void *value, size_t len, bool *replaced,
              struct error *err)
{
    AUTO_BUF struct buf sealed = { 0 };

    if (check_name(name, err) < 0 || check_value(value, &len, err) < 0)
        return -1;
    AUTO_FREE
    char *path = file_of(vault, name);
    bool before = vault_has(vault, name);
    buf_init(&sealed, SEAL_MAX);
    seal(vault->key, name, clock_wall_ms(vault->clock), value, len, &sealed);
    if (sealed.failed)
        return error_set(err, ERR_LIMIT, 0, "secret %s: no memory", name);
    if (fd_replace_file(path, sealed.data, sealed.len, 0600, err) < 0)
        return error_wrap(err, "secret %s", name);
    entry_free(entry_find(&vault->opened, name));
    if (replaced != NULL)
        *replaced = before;
    return 0;
}

/* The program's own ---------------------------------------------------------------------------- */

int vault_own_put(struct vault *vault, const char *name, const void *value, size_t len,
                  struct error *err)
{
    AUTO_BUF struct buf sealed = BUF_INIT(SEAL_MAX);
    AUTO_FREE
    char *path = mem_printf("%s.%s", vault->directory, name);

    seal(vault->key, name, clock_wall_ms(vault->clock), value, len, &sealed);
    if (sealed.failed)
        return error_set(err, ERR_LIMIT, 0, "%s: no memory", path);
    return fd_replace_file(path, sealed.data, sealed.len, 0600, err);
}

struct secret *vault_own_get(struct vault *vault, const char *name, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s.%s", vault->directory, name);
    AUTO_FREE
    char *data = NULL;
    struct secret *secret;
    size_t len;

    if (fd_read_file(path, SEAL_MAX, &data, &len, err) < 0) {
        if (err->sys == ENOENT)
            err->code = ERR_NOT_FOUND;
        return NULL;
    }
    secret = unseal(vault->key, name, data, len, err);
    if (secret == NULL)
        error_wrap(err, "%s", path);
    return secret;
}

/* --------------------------------------------------------------------------------------------- */

static int remove_file(struct vault *vault, const char *path, struct error *err)
{
    AUTO_CLOSE
    int fd = open(vault->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || unlink(path) < 0 || fsync(fd) < 0)
        return error_set(err, ERR_SYSTEM, errno, "remove %s", path);
    return 0;
}

int vault_delete(struct vault *vault, const char *name, struct error *err)
{
    struct stamp stamp;

    if (check_name(name, err) < 0)
        return -1;
    AUTO_FREE
    char *path = file_of(vault, name);
    struct entry *taken = entry_find(&vault->environment, name);
    bool stored = file_stamp(path, &stamp);
    if (!stored && taken == NULL)
        return not_found(name, err);
    if (stored && remove_file(vault, path, err) < 0)
        return -1;
    entry_free(taken);
    entry_free(entry_find(&vault->opened, name));
    return 0;
}

void vault_take_environment(struct vault *vault, const char *name)
{
    char *value = vault_name_valid(name) ? getenv(name) : NULL;
    struct secret *secret = NULL;
    struct error err;

    if (value == NULL)
        return;
    size_t whole = strlen(value);
    size_t len = whole;
    if (check_value(value, &len, &err) < 0)
        log_warn("vault", "environment variable %s left out: %s", name, err.text);
    else if ((secret = secret_new(value, len)) == NULL)
        log_warn("vault", "environment variable %s left out: no locked memory", name);
    sodium_memzero(value, whole); /* also what /proc/self/environ shows */
    unsetenv(name);
    if (secret == NULL)
        return;
    entry_free(entry_find(&vault->environment, name));
    entry_new(&vault->environment, name, secret)->updated_ms = clock_wall_ms(vault->clock);
}

/* ENTRY: what is known of the file, or NULL. NULL without an error when there is no such file. */
static struct secret *open_stored(struct vault *vault, const char *name, struct entry *entry,
                                  bool *exists, struct error *err)
{
    AUTO_FREE
    char *path = file_of(vault, name);
    AUTO_FREE
    char *data = NULL;
    struct stamp stamp;
    size_t len;

    *exists = file_stamp(path, &stamp);
    if (*exists && entry != NULL && stamp_equal(&entry->stamp, &stamp)) {
        entry->looked_ms = clock_mono_ms(vault->clock);
        return secret_ref(entry->secret);
    }
    entry_free(entry);
    if (!*exists || fd_read_file(path, SEAL_MAX, &data, &len, err) < 0)
        return NULL;
    struct secret *secret = unseal(vault->key, name, data, len, err);
    if (secret != NULL) {
        entry = entry_new(&vault->opened, name, secret_ref(secret));
        entry->stamp = stamp;
        entry->looked_ms = clock_mono_ms(vault->clock);
    }
    return secret;
}

struct secret *vault_get(struct vault *vault, const char *name, struct error *err)
{
    bool exists;

    if (check_name(name, err) < 0)
        return NULL;
    struct entry *opened = entry_find(&vault->opened, name);
    if (opened != NULL && clock_mono_ms(vault->clock) - opened->looked_ms < LOOK_MS)
        return secret_ref(opened->secret);
    struct secret *secret = open_stored(vault, name, opened, &exists, err);
    if (secret != NULL)
        return secret;
    if (exists) {
        error_wrap(err, "secret %s", name);
        return NULL;
    }
    struct entry *taken = entry_find(&vault->environment, name);
    if (taken != NULL)
        return secret_ref(taken->secret);
    not_found(name, err);
    return NULL;
}

struct secret *vault_copy(struct vault *vault, const char *name, struct error *err)
{
    struct secret *secret = vault_get(vault, name, err);
    struct secret *copy;
    const char *bytes;
    size_t len;

    if (secret == NULL) {
        error_wrap(err, "secret %s", name);
        return NULL;
    }
    bytes = secret_open(secret, &len);
    copy = secret_new(bytes, len);
    secret_shut(secret);
    secret_unref(secret);
    if (copy == NULL)
        error_set(err, ERR_LIMIT, 0, "no locked memory is left");
    return copy;
}

bool vault_has(struct vault *vault, const char *name)
{
    struct stamp stamp;

    if (!vault_name_valid(name))
        return false;
    AUTO_FREE
    char *path = file_of(vault, name);
    return file_stamp(path, &stamp) || entry_find(&vault->environment, name) != NULL;
}

/* Listing ------------------------------------------------------------------------------------- */

struct listing {
    struct vault_entry *entries;
    size_t count;
    size_t cap;
};

static void listing_add(struct listing *listing, const char *name, const char *source,
                        uint64_t updated_ms)
{
    if (listing->count == listing->cap) {
        size_t cap = listing->cap != 0 ? listing->cap * 2 : 16;
        struct vault_entry *entries = mem_new_zero(cap, sizeof(*entries));

        if (listing->count > 0)
            memcpy(entries, listing->entries, listing->count * sizeof(*entries));
        free(listing->entries);
        listing->entries = entries;
        listing->cap = cap;
    }
    listing->entries[listing->count++] =
        (struct vault_entry){ mem_strdup(name), source, updated_ms };
}

static uint64_t stored_time(const struct vault *vault, const char *name)
{
    AUTO_FREE
    char *path = file_of(vault, name);
    AUTO_FREE
    char *data = NULL;
    struct error err;
    size_t len;

    if (fd_read_file(path, SEAL_MAX, &data, &len, &err) < 0)
        return 0;
    return seal_time(data, len);
}

static void list_stored(const struct vault *vault, struct listing *listing)
{
    DIR *dir = opendir(vault->directory);

    if (dir == NULL) {
        log_warn("vault", "can't read %s", vault->directory);
        return;
    }
    for (struct dirent *found = readdir(dir); found != NULL; found = readdir(dir)) {
        if (vault_name_valid(found->d_name))
            listing_add(listing, found->d_name, "stored", stored_time(vault, found->d_name));
    }
    closedir(dir);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct vault_entry *)a)->name, ((const struct vault_entry *)b)->name);
}

void vault_each(struct vault *vault, void (*each)(void *data, const struct vault_entry *entry),
                void *data)
{
    struct listing listing = { 0 };

    list_stored(vault, &listing);
    LIST_EACH(&vault->environment, link) {
        struct entry *entry = LIST_ENTRY(link, struct entry, link);
        AUTO_FREE
        char *path = file_of(vault, entry->name);
        struct stamp stamp;

        if (!file_stamp(path, &stamp))
            listing_add(&listing, entry->name, "environment", entry->updated_ms);
    }
    if (listing.count > 0)
        qsort(listing.entries, listing.count, sizeof(*listing.entries), compare_names);
    for (size_t i = 0; i < listing.count; i++)
        each(data, &listing.entries[i]);
    for (size_t i = 0; i < listing.count; i++) {
        union {
            const char *borrowed;
            char *owned;
        } name = { .borrowed = listing.entries[i].name };

        free(name.owned);
    }
    free(listing.entries);
}
