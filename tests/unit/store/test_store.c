#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/store/sample.h"

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

TEST(the_folder_and_its_files_are_private)
{
    struct store *store = sample_open();
    struct stat status;
    static const char *const files[] = { "db/data.mdb", "db/lock.mdb", "db/lock" };

    CHECK_EQ(stat(tmp_path("db"), &status), 0);
    CHECK_EQ(status.st_mode & 07777u, 0700u);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CHECK_EQ(stat(tmp_path(files[i]), &status), 0);
        CHECK_EQ(status.st_mode & 0777u, 0600u);
    }
    store_close(store);
    store_close(NULL);
}

TEST(no_program_we_start_inherits_a_file_of_the_store)
{
    struct store *store = sample_open();
    struct dirent *found;
    DIR *dir = opendir("/proc/self/fd");
    size_t files = 0;

    while ((found = readdir(dir)) != NULL) {
        char target[256] = "";

        if (readlinkat(dirfd(dir), found->d_name, target, sizeof(target) - 1) < 0 ||
            strncmp(target, tmp_dir(), strlen(tmp_dir())) != 0)
            continue;
        files++;
        CHECK_EQ(fcntl((int)strtol(found->d_name, NULL, 10), F_GETFD), FD_CLOEXEC);
    }
    closedir(dir);
    CHECK(files >= 4);
    store_close(store);
}

TEST(a_second_opening_is_a_conflict_that_names_the_process)
{
    struct error err = ERROR_INIT;
    struct store_options options = { tmp_path("db"), 0 };
    struct store *store = sample_open();
    struct store *second = NULL;
    char pid[32];

    snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    CHECK_CODE(store_open(&second, &options, &err), ERR_CONFLICT);
    CHECK_HAS(err.text, pid);
    store_close(store);
    CHECK_OK(store_open(&second, &options, &err));
    store_close(second);
}

/* Writes straight into the meta sub-database. */
static void set_schema(uint32_t schema, size_t size)
{
    struct store *store = sample_open();
    uint8_t number[4];
    MDB_txn *txn;
    MDB_val key = store_val("schema", 6);
    MDB_val value = store_val(number, size);

    store_put_u32(number, schema);
    CHECK_EQ(mdb_txn_begin(store->env, NULL, 0, &txn), 0);
    CHECK_EQ(mdb_put(txn, store->dbi[STORE_META], &key, &value, 0), 0);
    CHECK_EQ(mdb_txn_commit(txn), 0);
    store_close(store);
}

TEST(a_newer_schema_is_refused_and_left_alone)
{
    struct error err = ERROR_INIT;
    struct store_options options = { tmp_path("db"), 0 };
    struct store *store = NULL;

    set_schema(store_schema_version() + 1, 4);
    CHECK_CODE(store_open(&store, &options, &err), ERR_INVALID);
    CHECK_HAS(err.text, "newer version");
    CHECK_CODE(store_open(&store, &options, &err), ERR_INVALID);
}

TEST(a_damaged_schema_number_is_an_error)
{
    struct error err = ERROR_INIT;
    struct store_options options = { tmp_path("db"), 0 };
    struct store *store = NULL;

    set_schema(1, 3);
    CHECK_CODE(store_open(&store, &options, &err), ERR_SYSTEM);
}

TEST(a_file_that_is_no_database_is_refused)
{
    struct error err = ERROR_INIT;
    struct store_options options = { tmp_path("db"), 0 };
    struct store *store = NULL;
    char junk[8192];

    memset(junk, 'j', sizeof(junk));
    tmp_subdir("db");
    tmp_file("db/data.mdb", junk, sizeof(junk), 0600);
    CHECK_CODE(store_open(&store, &options, &err), ERR_INVALID);
    CHECK_HAS(err.text, "no database");
}

TEST(a_small_map_grows_and_everything_is_there)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open_sized(128 << 10);
    AUTO_FREE
    char *diff = mem_new_zero(1, 3 << 20);
    AUTO_BUF struct buf back = { 0 };
    struct id id = sample_id(ID_KIND_RUN, 7);
    struct sample_list list = { 0 };

    buf_init(&back, 4 << 20);
    for (uint64_t n = 0; n < 50; n++) {
        CHECK_OK(sample_create(store, n, n, 0, &err));
        for (uint64_t number = 2; number < 40; number++)
            CHECK_OK(sample_append(store, n, number, "some text that takes room in the map", &err));
    }
    CHECK_OK(store_diff_put(store, &id, diff, 3 << 20, &err));
    CHECK(store->map_size_bytes >= 4 << 20);
    CHECK(!store_has_batch(store));
    store_close(store);
    store = sample_open_sized(128 << 10); /* less than there is */
    CHECK_OK(store_event_each(store, &id, 0, 0, sample_add_event, &list, &err));
    CHECK_EQ(list.count, 39u);
    CHECK_OK(store_diff_load(store, &id, &back, &err));
    CHECK_EQ(back.len, (size_t)3 << 20);
    CHECK_OK(sample_create(store, 50, 50, 0, &err));
    CHECK_EQ(sample_entries(store, STORE_RUNS), 51u);
    store_close(store);
}

/* Runs FUNCTION in a child, which reports failed checks by its exit status. */
static int in_child(void (*function)(const char *directory), const char *directory)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        function(directory);
        _exit(0);
    }
    CHECK(pid > 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define CHILD_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, err.text);                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void open_with_little_address_space(const char *directory)
{
    struct error err = ERROR_INIT;
    struct store_options options = { directory, 0 };
    struct rlimit limit = { 2ull << 30, 2ull << 30 };
    struct store *store;

    setrlimit(RLIMIT_AS, &limit);
    CHILD_CHECK(store_open(&store, &options, &err) == 0);
    CHILD_CHECK(store->map_size_bytes < 2ull << 30);
    CHILD_CHECK(sample_create(store, 1, 1, 0, &err) == 0);
    store_close(store);
}

TEST(little_address_space_means_a_smaller_map)
{
    if (SANITIZED)
        test_skip("sanitizers take all the address space");
    CHECK_EQ(in_child(open_with_little_address_space, tmp_path("db")), 0);
}

/* A limit on the file's size stands in for a disk: later writes work again when it is lifted. */
static void fill_up(const char *directory)
{
    struct error err = ERROR_INIT;
    struct store_options options = { directory, 0 };
    struct rlimit limit;
    struct store *store;
    uint64_t n = 0;
    uint64_t counts[1];

    signal(SIGXFSZ, SIG_IGN);
    CHILD_CHECK(store_open(&store, &options, &err) == 0);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &limit);
    while (n < 100000 && sample_create(store, n, n, 0, &err) == 0)
        n++;
    CHILD_CHECK(n > 100 && n < 100000);
    CHILD_CHECK(err.code == ERR_LIMIT && strstr(err.text, "disk full") != NULL);
    CHILD_CHECK(store_run_counts(store, counts, 1, &err) == 0 && counts[0] == n);
    CHILD_CHECK(sample_create(store, n, n, 0, &err) < 0 && err.code == ERR_LIMIT);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (uint64_t more = 0; more < 500; more++, n++)
        CHILD_CHECK(sample_create(store, n, n, 0, &err) == 0);
    CHILD_CHECK(store_run_counts(store, counts, 1, &err) == 0 && counts[0] == n);
    store_close(store);
}

TEST(a_file_that_may_not_grow_is_a_limit_and_not_the_end)
{
    CHECK_EQ(in_child(fill_up, tmp_path("db")), 0);
}

enum { NO_MOUNT = 77 };

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done;
}

static bool become_root_of_a_namespace(void)
{
    AUTO_FREE
    char *uid_map = mem_printf("0 %u 1", (unsigned)geteuid());
    AUTO_FREE
    char *gid_map = mem_printf("0 %u 1", (unsigned)getegid());

    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/uid_map", uid_map) &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", gid_map);
}

/* Files in a small tmpfs: the ballast takes the rest of the room, and its removal gives it back. */
static void fill_real_disk(const char *directory)
{
    struct error err = ERROR_INIT;
    char path[4096];
    char block[4096] = { 0 };
    struct store *store;
    uint64_t n = 0;
    uint64_t counts[1];

    if (!become_root_of_a_namespace() || mount("none", directory, "tmpfs", 0, "size=4m") < 0)
        _exit(NO_MOUNT);
    snprintf(path, sizeof(path), "%s/db", directory);
    struct store_options options = { path, 0 };
    CHILD_CHECK(store_open(&store, &options, &err) == 0);
    while (n < 50 && sample_create(store, n, n, 0, &err) == 0)
        n++;
    CHILD_CHECK(n == 50);
    snprintf(path, sizeof(path), "%s/ballast", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    while (n < 100000 && sample_create(store, n, n, 0, &err) == 0)
        n++;
    CHILD_CHECK(err.code == ERR_LIMIT && strstr(err.text, "disk full") != NULL);
    AUTO_FREE
    char *text = mem_new_zero(1, (1 << 20) + 1); /* more than free pages inside the file */
    memset(text, 't', 1 << 20);
    CHILD_CHECK(sample_append(store, 1, 2, text, &err) == 0);
    CHILD_CHECK(store_flush(store, &err) < 0 && err.code == ERR_LIMIT);
    CHILD_CHECK(store_run_counts(store, counts, 1, &err) == 0 && counts[0] == n);
    CHILD_CHECK(ftruncate(fd, 0) == 0);
    CHILD_CHECK(store_flush(store, &err) == 0);
    CHILD_CHECK(sample_create(store, n, n, 0, &err) == 0);
    store_close(store);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    /* Reading works on a full disk, and so does opening. */
    snprintf(path, sizeof(path), "%s/db", directory);
    CHILD_CHECK(store_open(&store, &options, &err) == 0);
    CHILD_CHECK(store_run_counts(store, counts, 1, &err) == 0 && counts[0] == n + 1);
    store_close(store);
    /* A new database finds no room. */
    snprintf(path, sizeof(path), "%s/none", directory);
    CHILD_CHECK(store_open(&store, &options, &err) < 0 &&
                (err.code == ERR_LIMIT || err.sys == ENOSPC));
    close(fd);
}

TEST(a_full_disk_is_a_limit_and_service_returns_with_room)
{
    int status = in_child(fill_real_disk, tmp_subdir("disk"));

    if (status == NO_MOUNT)
        test_skip("no mounts here");
    CHECK_EQ(status, 0);
}

/* What LMDB does after it failed to write a meta page. */
TEST(an_environment_that_gave_up_is_opened_anew)
{
    struct error err = ERROR_INIT;
    struct store *store = sample_open();

    CHECK_OK(sample_create(store, 1, 1, 0, &err));
    CHECK_OK(sample_append(store, 1, 2, "two", &err));
    mdb_txn_abort(store->reader);
    store->reader = NULL;
    mdb_env_close(store->env);
    store->env = NULL;
    CHECK_EQ(sample_entries(store, STORE_RUNS), 1u);
    CHECK_OK(sample_create(store, 2, 1, 0, &err));
    CHECK_EQ(sample_entries(store, STORE_EVENTS), 3u);
    store_close(store);
}
