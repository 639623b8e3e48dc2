#include "workspace/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "workspace/usage_watch.h"

static struct usage walk(const char *folder)
{
    struct usage usage;
    struct error err = ERROR_INIT;

    if (usage_walk(folder, NULL, &usage, &err) < 0)
        CHECK_STR(err.text, "");
    return usage;
}

static void fill(const char *path, size_t size)
{
    char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    memset(block, 'x', sizeof(block));
    CHECK(fd >= 0);
    for (size_t done = 0; done < size; done += sizeof(block))
        CHECK_EQ(write(fd, block, sizeof(block)), (ssize_t)sizeof(block));
    close(fd);
}

TEST(a_tree_is_counted_with_its_folders_and_odd_files)
{
    const char *top = tmp_subdir("top");
    uint64_t before = walk(top).bytes;
    struct usage usage;
    int fd;

    fill(tmp_path("top/file"), 1 << 20);
    CHECK_EQ(link(tmp_path("top/file"), tmp_path("top/again")), 0);
    CHECK_EQ(symlink("..", tmp_path("top/up")), 0);
    CHECK_EQ(symlink("loop", tmp_path("top/loop")), 0);
    CHECK_EQ(symlink("/", tmp_path("top/root")), 0);
    CHECK_EQ(mkfifo(tmp_path("top/fifo"), 0600), 0);
    fd = open(tmp_path("top/sparse"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(ftruncate(fd, (off_t)8 << 40) == 0 || errno == EFBIG);
    close(fd);
    tmp_subdir("top/closed");
    fill(tmp_path("top/closed/file"), 4096);
    chmod(tmp_path("top/closed"), 0);
    usage = walk(top);
    chmod(tmp_path("top/closed"), 0700);
    CHECK(usage.bytes >= before + (1 << 20));
    CHECK(usage.bytes < before + (1 << 20) + 256 * 1024);
    CHECK_EQ(usage.complete, geteuid() == 0);
    CHECK(usage.inodes >= 9);
}

TEST(a_link_in_the_place_of_the_folder_is_refused)
{
    struct usage usage;
    struct error err = ERROR_INIT;

    CHECK_EQ(symlink("/", tmp_path("link")), 0);
    CHECK_EQ(usage_walk(tmp_path("link"), NULL, &usage, &err), -1);
    CHECK_EQ(usage_walk(tmp_path("missing"), NULL, &usage, &err), -1);
}

/* Made and removed by descriptor: the path is longer than the system takes. */
static void deep_name(char name[201])
{
    memset(name, 'd', 200);
    name[200] = '\0';
}

static int go_down(const char *top, int depth)
{
    char name[201];
    int fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);

    deep_name(name);
    for (int i = 0; i < depth; i++) {
        int next;

        CHECK_EQ(mkdirat(fd, name, 0700), 0);
        next = openat(fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        CHECK(next >= 0);
        close(fd);
        fd = next;
    }
    return fd;
}

static void climb_up(int fd, int depth)
{
    char name[201];

    deep_name(name);
    for (int i = 0; i < depth; i++) {
        int above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

        CHECK(above >= 0);
        CHECK_EQ(unlinkat(above, name, AT_REMOVEDIR), 0);
        close(fd);
        fd = above;
    }
    close(fd);
}

TEST(a_tree_3000_deep_is_counted)
{
    const char *top = tmp_subdir("top");
    int fd = go_down(top, 3000);
    struct usage usage;

    fill(tmp_path("top/last"), 64 << 10);
    usage = walk(top);
    climb_up(fd, 3000);
    CHECK(usage.complete);
    CHECK_EQ(usage.inodes, 3002);
    CHECK(usage.bytes >= 64 << 10);
}

TEST(many_files_are_counted_each_once)
{
    const char *top = tmp_subdir("top");
    struct usage usage;

    for (int folder = 0; folder < 20; folder++) {
        AUTO_FREE char *name = mem_printf("top/%d", folder);

        tmp_subdir(name);
        for (int file = 0; file < 1000; file++) {
            AUTO_FREE char *path = mem_printf("%s/%d/%d", top, folder, file);
            int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

            CHECK(fd >= 0);
            close(fd);
        }
    }
    usage = walk(top);
    CHECK(usage.complete);
    CHECK_EQ(usage.inodes, 20021);
}

TEST(a_walk_can_be_cancelled)
{
    atomic_bool cancel = true;
    struct usage usage;
    struct error err = ERROR_INIT;

    CHECK_EQ(usage_walk(tmp_dir(), &cancel, &usage, &err), 0);
    CHECK(!usage.complete);
}

struct mover {
    char *from;
    char *to;
    atomic_bool stop;
};

static void *move_about(void *data)
{
    struct mover *mover = data;

    while (!atomic_load(&mover->stop)) {
        rename(mover->from, mover->to);
        rename(mover->to, mover->from);
    }
    return NULL;
}

TEST(a_tree_that_moves_while_it_is_counted_ends_the_count_in_order)
{
    const char *top = tmp_subdir("top");
    struct mover mover = { .from = mem_strdup(tmp_path("top/a/x")),
                           .to = mem_strdup(tmp_path("top/b/x")) };
    pthread_t thread;

    tmp_subdir("top/a");
    tmp_subdir("top/b");
    tmp_subdir("top/a/x");
    for (int i = 0; i < 200; i++) {
        AUTO_FREE char *path = mem_printf("%s/%d", mover.from, i);

        CHECK_EQ(mkdir(path, 0700), 0);
    }
    CHECK_EQ(pthread_create(&thread, NULL, move_about, &mover), 0);
    for (int i = 0; i < 200; i++)
        CHECK(walk(top).inodes <= 204 * 2);
    atomic_store(&mover.stop, true);
    pthread_join(thread, NULL);
    free(mover.from);
    free(mover.to);
}

/* The watch ------------------------------------------------------------------------------------ */

struct told {
    uint64_t over;
    uint64_t low;
};

static void on_over(void *data, uint64_t bytes)
{
    struct told *told = data;

    told->over = bytes;
}

static void on_low(void *data, uint64_t free_bytes)
{
    struct told *told = data;

    told->low = free_bytes;
}

TEST(a_watch_tells_when_the_limit_is_passed)
{
    struct told told = { 0 };
    struct usage_watch_options options = { .folder = tmp_subdir("top"),
                                           .limit_bytes = 1 << 20,
                                           .every_ms = 5,
                                           .on_over = on_over,
                                           .on_low = on_low,
                                           .data = &told };
    struct usage_watch *watch;
    uv_loop_t loop;

    uv_loop_init(&loop);
    usage_watch_start(&watch, &loop, &options);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ(told.over, 0);
    fill(tmp_path("top/file"), 2 << 20);
    while (told.over == 0)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK(told.over >= 2 << 20);
    CHECK_EQ(told.low, 0);
    CHECK(usage_watch_growth(watch) >= 2 << 20);
    usage_watch_close(watch);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(a_session_that_was_over_the_limit_has_room_to_be_cleaned_up)
{
    struct told told = { 0 };
    struct usage_watch_options options = { .folder = tmp_subdir("top"),
                                           .limit_bytes = 1 << 20,
                                           .every_ms = 5,
                                           .on_over = on_over,
                                           .on_low = on_low,
                                           .data = &told };
    struct usage_watch *watch;
    uv_loop_t loop;

    fill(tmp_path("top/old"), 2 << 20);
    uv_loop_init(&loop);
    usage_watch_start(&watch, &loop, &options);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ(told.over, 0);
    fill(tmp_path("top/new"), 66 << 20);
    while (told.over == 0)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK(told.over >= 68 << 20);
    usage_watch_close(watch);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(a_watch_tells_when_the_disk_gets_full)
{
    struct told told = { 0 };
    struct usage_watch_options options = { .folder = tmp_dir(),
                                           .free_floor_bytes = UINT64_MAX,
                                           .every_ms = 5,
                                           .on_over = on_over,
                                           .on_low = on_low,
                                           .data = &told };
    struct usage_watch *watch;
    uv_loop_t loop;

    uv_loop_init(&loop);
    usage_watch_start(&watch, &loop, &options);
    while (told.low == 0)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ(told.over, 0);
    usage_watch_close(watch);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
}
