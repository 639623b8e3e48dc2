/* Caches that sandboxes share without sharing what they write. */
#include "unit/sandbox/rig.h"

#define TARGET "/var/cache/shared"

/* A cache of another user: what only its owner may read or change is the agent's to read, and to
 * change in its own layer. */
static void make_lower(void)
{
    AUTO_FREE char *lower = mem_strdup(tmp_subdir("lower"));
    AUTO_FREE char *below = mem_printf("%s/sub", lower);
    AUTO_FREE char *file = mem_printf("%s/kept", below);
    int fd;

    CHECK_EQ(chmod(lower, 0700), 0);
    CHECK_EQ(mkdir(below, 0700), 0);
    fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK_EQ(write(fd, "original\n", 9), 9);
    close(fd);
}

static void check_lower_unchanged(void)
{
    AUTO_FREE char *text = NULL;
    AUTO_FREE char *path = mem_strdup(tmp_path("lower/sub/kept"));
    struct error err = ERROR_INIT;
    DIR *dir = opendir(tmp_path("lower/sub"));
    unsigned count = 0;
    struct stat info;

    while (readdir(dir))
        count++;
    closedir(dir);
    CHECK_EQ(count, 3u);
    CHECK_EQ(fd_read_file(path, 4096, &text, NULL, &err), 0);
    CHECK_STR(text, "original\n");
    CHECK_EQ(stat(path, &info), 0);
    CHECK_EQ(info.st_uid, geteuid());
    CHECK_EQ(info.st_mode & 0777, 0600);
}

static void rig_with_cache(struct rig *rig, const char *upper, const char *work)
{
    AUTO_FREE char *lower = mem_strdup(tmp_path("lower"));

    rig_init(rig);
    sandbox_spec_add_overlay(&rig->spec, lower, upper, work, TARGET);
}

static bool can_overlay(struct rig *rig)
{
    AUTO_BUF struct buf out = BUF_INIT(65536);

    return rig_shell(rig, "grep -q ' " TARGET " .* - overlay ' /proc/self/mountinfo", &out) == 0;
}

TEST(user_a_cache_is_read_by_all_and_written_by_each_for_itself)
{
    AUTO_FREE char *upper = mem_strdup(rig_folder("upper"));
    AUTO_FREE char *work = mem_strdup(rig_folder("work"));
    AUTO_FREE char *upper2 = mem_strdup(rig_folder("upper2"));
    AUTO_FREE char *work2 = mem_strdup(rig_folder("work2"));
    AUTO_BUF struct buf out = BUF_INIT(65536);
    struct rig rig;

    make_lower();
    rig_with_cache(&rig, upper, work);
    rig_try(&rig);
    CHECK_STR(rig.error.text, "");
    if (!can_overlay(&rig)) { /* the next test is about that */
        rig_stop(&rig);
        return;
    }
    CHECK_EQ(rig_shell(&rig,
                       "cd " TARGET " && cat sub/kept && echo changed >sub/kept && echo x >sub/new "
                       "&& echo y >top && mkdir made && mv sub/new made/moved && cat sub/kept && "
                       "ls made",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "original\nchanged\nmoved\n");
    rig_stop(&rig);
    check_lower_unchanged();
    CHECK_EQ(access(tmp_path("upper/top"), F_OK), 0);

    tmp_remove_tree(tmp_path("home"));
    tmp_remove_tree(tmp_path("workspace"));
    buf_clear(&out);
    rig_with_cache(&rig, upper2, work2);
    rig_try(&rig);
    CHECK_STR(rig.error.text, "");
    CHECK_EQ(rig_shell(&rig, "cd " TARGET " && cat sub/kept && ls && rm -r sub && ls", &out), 0);
    CHECK_STR(buf_text(&out), "original\nsub\n");
    rig_stop(&rig);
    check_lower_unchanged();

    /* The first one's layer is found again. */
    tmp_remove_tree(tmp_path("home"));
    tmp_remove_tree(tmp_path("workspace"));
    buf_clear(&out);
    rig_with_cache(&rig, upper, work);
    rig_try(&rig);
    CHECK_EQ(rig_shell(&rig, "cat " TARGET "/sub/kept", &out), 0);
    CHECK_STR(buf_text(&out), "changed\n");
    rig_stop(&rig);
    CHECK(rig_nothing_left());
}

/* Layers on two file systems are no overlay, as on a kernel that has none. */
TEST(user_without_an_overlay_the_cache_can_be_read)
{
    AUTO_FREE char *upper = mem_strdup(rig_folder("upper"));
    AUTO_BUF struct buf out = BUF_INIT(65536);
    char elsewhere[] = "/dev/shm/sandbox-work-XXXXXX";
    struct rig rig;

    make_lower();
    CHECK_EQ(chmod(tmp_path("lower"), 0755), 0);
    CHECK_EQ(chmod(tmp_path("lower/sub"), 0755), 0);
    CHECK_EQ(chmod(tmp_path("lower/sub/kept"), 0644), 0);
    CHECK(mkdtemp(elsewhere) != NULL); /* another file system than upper's */
    if (geteuid() == 0)
        CHECK_EQ(chown(elsewhere, rig_uid(), rig_uid()), 0);
    rig_with_cache(&rig, upper, elsewhere);
    rig_try(&rig);
    CHECK_STR(rig.error.text, "");
    CHECK_EQ(rig_shell(&rig,
                       "cat " TARGET "/sub/kept; (echo x >" TARGET "/x) 2>/dev/null && echo BAD; "
                       "(echo x >" TARGET "/sub/kept) 2>/dev/null && echo BAD; true",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "original\n");
    rig_stop(&rig);
    tmp_remove_tree(elsewhere);
}

static void expect_refused(const char *upper, const char *work)
{
    struct rig rig;
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;

    rig_with_cache(&rig, upper, work);
    callbacks = rig_callbacks(&rig);
    CHECK_EQ(sandbox_start(&rig.sandbox, &rig.loop, &rig.options, &rig.spec, &callbacks, &err), -1);
    CHECK_EQ(err.code, ERR_DENIED);
    rig.sandbox = NULL;
    rig_close(&rig);
    tmp_remove_tree(tmp_path("home"));
    tmp_remove_tree(tmp_path("workspace"));
}

TEST(user_layers_that_are_links_or_somebody_elses_are_refused)
{
    AUTO_FREE char *upper = mem_strdup(rig_folder("upper"));
    AUTO_FREE char *work = mem_strdup(rig_folder("work"));
    AUTO_FREE char *link = mem_strdup(tmp_path("link"));

    make_lower();
    CHECK_EQ(symlink(upper, link), 0);
    expect_refused(link, work);
    expect_refused(upper, link);
    expect_refused("/usr", work);
    expect_refused(upper, "/dev/null");
}

TEST(nothing_is_placed_in_a_cache_nor_a_cache_where_the_agent_can_write)
{
    static const char *const targets[] = { SANDBOX_HOME "/.npm", SANDBOX_WORKSPACE };
    AUTO_FREE char *upper = mem_strdup(rig_folder("upper"));
    AUTO_FREE char *work = mem_strdup(rig_folder("work"));

    make_lower();
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct rig rig;
        struct sandbox_callbacks callbacks;
        struct error err = ERROR_INIT;

        rig_init(&rig);
        sandbox_spec_add_overlay(&rig.spec, tmp_path("lower"), upper, work, targets[i]);
        callbacks = rig_callbacks(&rig);
        CHECK_EQ(sandbox_start(&rig.sandbox, &rig.loop, &rig.options, &rig.spec, &callbacks, &err),
                 -1);
        CHECK_EQ(err.code, ERR_INVALID);
        rig.sandbox = NULL;
        rig_close(&rig);
        tmp_remove_tree(tmp_path("home"));
        tmp_remove_tree(tmp_path("workspace"));
    }
}

TEST(what_an_ordinary_user_can_do)
{
    rig_run_as_user();
}
