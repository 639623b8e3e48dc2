#include "workspace/workspace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"

struct place {
    struct workspace_layout layout;
    char *sessions;
    struct error err;
};

static void start(struct place *place)
{
    *place = (struct place){ .err = ERROR_INIT };
    place->sessions = mem_printf("%s/sessions", tmp_dir());
    CHECK_EQ(mkdir(place->sessions, 0700), 0);
    workspace_layout_init(&place->layout, tmp_dir(), "ses_test");
}

static void finish(struct place *place)
{
    workspace_layout_finish(&place->layout);
    free(place->sessions);
}

TEST(folders_are_private_and_making_them_again_changes_nothing)
{
    struct place place;
    struct stat st;

    start(&place);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(workspace_make(&place.layout, getuid(), &place.err), 0);
        CHECK_EQ(stat(place.layout.workspace, &st), 0);
        CHECK_EQ((int)(st.st_mode & 07777), 0700);
        CHECK_EQ(stat(place.layout.home, &st), 0);
        CHECK_EQ((int)(st.st_mode & 07777), 0700);
    }
    finish(&place);
}

TEST(a_link_in_the_place_of_a_workspace_is_refused)
{
    struct place place;

    start(&place);
    CHECK_EQ(mkdir(place.layout.session, 0700), 0);
    CHECK_EQ(symlink("/", place.layout.workspace), 0);
    CHECK_EQ(workspace_make(&place.layout, getuid(), &place.err), -1);
    CHECK_HAS(place.err.text, place.layout.workspace);
    finish(&place);
}

TEST(empty_folders_are_removed_and_one_that_is_not_empty_is_named)
{
    struct place place;
    char *file;

    start(&place);
    CHECK_EQ(workspace_make(&place.layout, getuid(), &place.err), 0);
    file = mem_printf("%s/left", place.layout.home);
    CHECK_EQ(mknod(file, S_IFREG | 0600, 0), 0);
    CHECK_EQ(workspace_remove_empty(&place.layout, &place.err), -1);
    CHECK_HAS(place.err.text, place.layout.home);
    CHECK_EQ(unlink(file), 0);
    /* Once more, with the workspace gone already. */
    CHECK_EQ(workspace_remove_empty(&place.layout, &place.err), 0);
    CHECK_EQ(access(place.layout.session, F_OK), -1);
    free(file);
    finish(&place);
}

TEST(a_mirror_counts_for_the_address_and_filter_that_its_mark_names)
{
    struct workspace_mirror mirror;
    struct error err = ERROR_INIT;
    struct stat st;

    workspace_mirror_init(&mirror, tmp_dir(), "https://github.com/a/b", geteuid());
    CHECK_EQ((int)workspace_mirror_age(&mirror, "https://github.com/a/b", ""),
             WORKSPACE_MIRROR_NONE);
    CHECK(stat(mirror.parent, &st) < 0);
    CHECK_EQ(workspace_mirror_make(&mirror, &err), 0);
    CHECK_EQ(workspace_mirror_make(&mirror, &err), 0);
    CHECK_EQ((int)workspace_mirror_age(&mirror, "https://github.com/a/b", ""),
             WORKSPACE_MIRROR_NONE);
    CHECK_EQ(workspace_mirror_mark(&mirror, "https://github.com/a/b", "", &err), 0);
    CHECK_EQ((int)workspace_mirror_age(&mirror, "https://github.com/a/b", ""),
             WORKSPACE_MIRROR_YOUNG);
    /* Another one of the same name, and the same one with less in it. */
    CHECK_EQ((int)workspace_mirror_age(&mirror, "https://github.com/a/c", ""),
             WORKSPACE_MIRROR_NONE);
    CHECK_EQ((int)workspace_mirror_age(&mirror, "https://github.com/a/b", "blob:none"),
             WORKSPACE_MIRROR_NONE);
    CHECK_EQ(workspace_mirror_unmark(&mirror, &err), 0);
    CHECK_EQ(workspace_mirror_unmark(&mirror, &err), 0);
    CHECK_EQ((int)workspace_mirror_age(&mirror, "https://github.com/a/b", ""),
             WORKSPACE_MIRROR_NONE);
    workspace_mirror_finish(&mirror);
}
