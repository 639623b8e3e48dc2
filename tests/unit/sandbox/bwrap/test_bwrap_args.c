#include "sandbox/bwrap/bwrap_args.h"

#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "harness/test.h"

static void make_spec(struct sandbox_spec *spec)
{
    sandbox_spec_init(spec);
    spec->hostname = mem_strdup("box");
    spec->limits = (struct sandbox_limits){
        .processes = 100, .open_files = 200, .file_size_bytes = 300, .tmp_bytes = 400
    };
    sandbox_spec_add_mount(spec, "/host/work", "/workspace", SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(spec, "/host/agent", "/opt/agent", SANDBOX_READ_ONLY);
    sandbox_spec_add_frozen_dir(spec, "/run/config");
    sandbox_spec_add_file(spec, "/run/config/a", "x", 1, 0444);
}

static struct bwrap_plan plan = {
    .root_links = { { "/bin", "usr/bin" }, { "/lib", "" } },
    .root_link_count = 2,
    .masks = { "/proc/keys" },
    .mask_count = 1,
    .init_source = (char[]){ "/stage/0" },
    .overlays = { "/stage/overlay" },
    .sources = { (char[]){ "/stage/1" }, (char[]){ "/stage/2" }, (char[]){ "/stage/3" } },
};

/* All arguments in one line. */
static void spell(const struct sandbox_spec *spec, struct buf *out)
{
    struct bwrap_args args;
    struct error err = ERROR_INIT;

    if (bwrap_args_make(&args, spec, &plan, &err) < 0)
        CHECK_STR(err.text, "");
    for (size_t i = 0; i < args.count; i++)
        buf_printf(out, "%s ", args.argv[i]);
    CHECK(args.argv[args.count] == NULL);
    bwrap_args_finish(&args);
}

static size_t place_of(const struct buf *text, const char *part)
{
    const char *at = strstr(buf_text(text), part);

    CHECK_HAS(buf_text(text), part);
    return (size_t)(at - buf_text(text));
}

TEST(the_isolating_options_are_always_there)
{
    static const char *const parts[] = {
        "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts "
        "--unshare-cgroup-try --disable-userns --as-pid-1 --new-session --cap-drop ALL "
        "--uid 1000 --gid 1000 --hostname box ",
        " --seccomp 6 ",
        " --remount-ro / ",
        " --remount-ro /dev ",
        " --clearenv ",
        " --ro-bind /usr /usr --symlink usr/bin /bin --ro-bind /lib /lib ",
        " --size 400 --perms 1777 --tmpfs /tmp ",
        " --ro-bind /stage/0 /run/sandbox-init ",
        " --proc /proc --ro-bind /dev/null /proc/keys ",
        " -- /run/sandbox-init 100 200 300 r/usr r/etc r/proc r/run r/lib d/dev w/tmp w/dev/shm ",
        " w/dev/shm w/workspace r/opt/agent r/run/config r/run/config/a ",
    };
    struct sandbox_spec spec;
    AUTO_BUF struct buf text = BUF_INIT(65536);

    make_spec(&spec);
    spell(&spec, &text);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        CHECK_HAS(buf_text(&text), parts[i]);
    CHECK(strstr(buf_text(&text), "die-with-parent") == NULL);
    CHECK(strstr(buf_text(&text), "share-net ") ==
          strstr(buf_text(&text), "--unshare-net ") + strlen("--un"));
    sandbox_spec_finish(&spec);
}

TEST(mounts_and_files_come_in_an_order_that_works)
{
    struct sandbox_spec spec;
    AUTO_BUF struct buf text = BUF_INIT(65536);
    size_t frozen;
    size_t file;

    make_spec(&spec);
    spell(&spec, &text);
    CHECK_HAS(buf_text(&text), " --bind /stage/1 /workspace --ro-bind /stage/2 /opt/agent ");
    frozen = place_of(&text, " --tmpfs /run/config ");
    file = place_of(&text, " /run/config/a ");
    CHECK(place_of(&text, " --tmpfs /run ") < frozen);
    CHECK(frozen < file);
    CHECK(file < place_of(&text, " --remount-ro /run/config "));
    CHECK(file < place_of(&text, " --remount-ro / "));
    sandbox_spec_finish(&spec);
}

TEST(a_file_of_the_spec_replaces_ours)
{
    struct sandbox_spec spec;
    struct bwrap_file files[BWRAP_FILES_MAX];
    size_t before;
    size_t count;
    unsigned found = 0;

    make_spec(&spec);
    before = bwrap_files(&spec, files);
    sandbox_spec_add_file(&spec, "/etc/hosts", "mine", 4, 0400);
    count = bwrap_files(&spec, files);
    CHECK_EQ(count, before);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(files[i].target, "/etc/hosts") != 0)
            continue;
        found++;
        CHECK_STR(files[i].data, "mine");
        CHECK_EQ(files[i].mode, 0400);
    }
    CHECK_EQ(found, 1);
    sandbox_spec_finish(&spec);
}

TEST(an_overlay_is_bound_from_where_it_was_mounted)
{
    struct sandbox_spec spec;
    AUTO_BUF struct buf text = BUF_INIT(65536);

    make_spec(&spec);
    sandbox_spec_add_overlay(&spec, "/lower", "/upper", "/work", "/var/cache/x");
    spell(&spec, &text);
    CHECK_HAS(buf_text(&text), " --bind /stage/overlay /var/cache/x ");
    CHECK_HAS(buf_text(&text), " w/var/cache/x ");
    buf_clear(&text);
    plan.lowers[0] = "/lower";
    spell(&spec, &text);
    plan.lowers[0] = NULL;
    CHECK_HAS(buf_text(&text),
              " --ro-bind /lower /var/cache/x --bind-try /stage/overlay /var/cache/x ");
    sandbox_spec_finish(&spec);
}

static void expect_refused(struct sandbox_spec *spec)
{
    struct bwrap_args args;
    struct error err = ERROR_INIT;

    CHECK_EQ(bwrap_args_make(&args, spec, &plan, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    sandbox_spec_finish(spec);
}

/* The agent could have put a link there, in an earlier life of its session. */
TEST(nothing_is_placed_below_a_folder_that_the_agent_can_write)
{
    struct sandbox_spec spec;

    make_spec(&spec);
    sandbox_spec_add_file(&spec, "/workspace/.config/a", "", 0, 0444);
    expect_refused(&spec);
    make_spec(&spec);
    sandbox_spec_add_frozen_dir(&spec, "/workspace");
    expect_refused(&spec);
    make_spec(&spec);
    sandbox_spec_add_mount(&spec, "/host/x", "/workspace/x", SANDBOX_READ_ONLY);
    expect_refused(&spec);
    make_spec(&spec);
    sandbox_spec_add_overlay(&spec, "/l", "/u", "/w", "/workspace/.cache");
    expect_refused(&spec);
    make_spec(&spec);
    sandbox_spec_add_overlay(&spec, "/l", "/u", "/w", "/cache");
    sandbox_spec_add_file(&spec, "/cache/x", "", 0, 0444);
    expect_refused(&spec);
    make_spec(&spec);
    sandbox_spec_add_overlay(&spec, "/l", "/u", "/w", "/cache");
    sandbox_spec_add_overlay(&spec, "/l", "/u2", "/w2", "/cache/x");
    expect_refused(&spec);
    make_spec(&spec);
    sandbox_spec_add_file(&spec, "/workspacex", "", 0, 0444); /* that's another */
    AUTO_BUF struct buf text = BUF_INIT(65536);
    spell(&spec, &text);
    sandbox_spec_finish(&spec);
}

TEST(places_that_are_none_are_refused)
{
    static const char *const places[] = { "relative", "/", "/etc/../usr/x", "/etc/.." };
    struct sandbox_spec spec;

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        make_spec(&spec);
        sandbox_spec_add_file(&spec, places[i], "", 0, 0444);
        expect_refused(&spec);
    }
}

TEST(the_largest_spec_fits)
{
    struct sandbox_spec spec;
    struct bwrap_file files[BWRAP_FILES_MAX];

    sandbox_spec_init(&spec);
    for (size_t i = 0; i < SANDBOX_MOUNTS_MAX; i++) {
        AUTO_FREE char *target = mem_printf("/m%zu", i);

        sandbox_spec_add_mount(&spec, "/x", target, SANDBOX_READ_ONLY);
    }
    for (size_t i = 0; i < SANDBOX_FILES_MAX; i++) {
        AUTO_FREE char *target = mem_printf("/f%zu", i);

        sandbox_spec_add_file(&spec, target, "", 0, 0444);
    }
    for (size_t i = 0; i < SANDBOX_OVERLAYS_MAX; i++) {
        AUTO_FREE char *target = mem_printf("/o%zu", i);

        sandbox_spec_add_overlay(&spec, "/l", "/u", "/w", target);
    }
    for (size_t i = 0; i < ARRAY_LEN(spec.frozen_dirs); i++) {
        AUTO_FREE char *target = mem_printf("/d%zu", i);

        sandbox_spec_add_frozen_dir(&spec, target);
    }
    struct bwrap_plan full = { .init_source = (char[]){ "/i" } };
    struct bwrap_args args;
    struct error err = ERROR_INIT;
    char source[] = "/s";
    for (size_t i = 0; i < SANDBOX_MOUNTS_MAX; i++)
        full.sources[i] = source;
    for (size_t i = 0; i < SANDBOX_OVERLAYS_MAX; i++)
        full.overlays[i] = full.lowers[i] = source;
    for (; full.mask_count < BWRAP_MASKS_MAX; full.mask_count++)
        full.masks[full.mask_count] = "/proc/x";
    for (; full.root_link_count < BWRAP_ROOT_LINKS_MAX; full.root_link_count++)
        full.root_links[full.root_link_count].name = "/lib";
    CHECK(bwrap_files(&spec, files) <= BWRAP_FILES_MAX);
    CHECK_EQ(bwrap_args_make(&args, &spec, &full, &err), 0);
    bwrap_args_finish(&args);
    sandbox_spec_finish(&spec);
}
