#include "sandbox/bwrap/bwrap_args.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "common/str.h"
#include "sandbox/init/protocol.h"

#define TMP_BYTES_DEFAULT (UINT64_C(1) << 30)
#define SHM_BYTES (UINT64_C(256) << 20)
#define RUN_BYTES (UINT64_C(16) << 20)
#define FROZEN_BYTES (UINT64_C(16) << 20)

/* What programs need of the host's /etc, and nothing that tells about this host or its users. */
static const char *const etc_pieces[] = {
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "login.defs",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls",
    "profile",
    "protocols",
    "python3",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
};

static const char passwd[] = "root:x:0:0:root:/:/usr/sbin/nologin\n"
                             "agent:x:1000:1000:agent:" SANDBOX_HOME ":/bin/bash\n"
                             "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";
static const char hosts[] = "127.0.0.1 localhost sandbox\n::1 localhost\n";
static const char nsswitch[] =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\n"
    "protocols: files\nservices: files\n";
static const char machine_id[] = "5a4d0b6e0000400080000073616e6462\n";

static const struct bwrap_file own_files[] = {
    { "/etc/hostname", "sandbox\n", 8, 0444 },
    { "/etc/passwd", passwd, sizeof(passwd) - 1, 0444 },
    { "/etc/group", group, sizeof(group) - 1, 0444 },
    { "/etc/hosts", hosts, sizeof(hosts) - 1, 0444 },
    { "/etc/nsswitch.conf", nsswitch, sizeof(nsswitch) - 1, 0444 },
    { "/etc/resolv.conf", "", 0, 0444 },
    { "/etc/machine-id", machine_id, sizeof(machine_id) - 1, 0444 },
};

static bool spec_has_file(const struct sandbox_spec *spec, const char *target)
{
    for (size_t i = 0; i < spec->file_count; i++) {
        if (str_equal(spec->files[i].target, target))
            return true;
    }
    return false;
}

size_t bwrap_files(const struct sandbox_spec *spec, struct bwrap_file out[BWRAP_FILES_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(own_files); i++) {
        if (!spec_has_file(spec, own_files[i].target))
            out[count++] = own_files[i];
    }
    for (size_t i = 0; i < spec->file_count; i++) {
        const struct sandbox_file *file = &spec->files[i];

        out[count++] = (struct bwrap_file){ file->target, file->data, file->len, file->mode };
    }
    return count;
}

/* Arguments
 * ---------------------------------------------------------------------------------------------------------
 */

static void add(struct bwrap_args *args, const char *text)
{
    BUG_ON(args->count == BWRAP_ARGS_MAX);
    args->argv[args->count++] = mem_strdup(text);
    args->argv[args->count] = NULL;
}

static void add_number(struct bwrap_args *args, uint64_t number)
{
    AUTO_FREE char *text = mem_printf("%" PRIu64, number);

    add(args, text);
}

static void add2(struct bwrap_args *args, const char *option, const char *value)
{
    add(args, option);
    add(args, value);
}

static void add3(struct bwrap_args *args, const char *option, const char *from, const char *to)
{
    add2(args, option, from);
    add(args, to);
}

static void add_tmpfs(struct bwrap_args *args, uint64_t bytes, const char *mode, const char *target)
{
    add(args, "--size");
    add_number(args, bytes);
    add2(args, "--perms", mode);
    add2(args, "--tmpfs", target);
}

static void add_namespaces(struct bwrap_args *args, const struct sandbox_spec *spec)
{
    static const char *const options[] = {
        "--unshare-user",   "--unshare-pid", "--unshare-net",
        "--unshare-ipc",    "--unshare-uts", "--unshare-cgroup-try",
        "--disable-userns", "--as-pid-1",    "--new-session",
    };

    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        add(args, options[i]);
    add2(args, "--cap-drop", "ALL");
    add2(args, "--uid", "1000");
    add2(args, "--gid", "1000");
    add2(args, "--hostname", spec->hostname ? spec->hostname : "sandbox");
    add(args, "--json-status-fd");
    add_number(args, BWRAP_FD_STATUS);
    add(args, "--seccomp");
    add_number(args, BWRAP_FD_SECCOMP);
}

static void add_system(struct bwrap_args *args, const struct sandbox_spec *spec,
                       const struct bwrap_plan *plan)
{
    add3(args, "--ro-bind", "/usr", "/usr");
    for (size_t i = 0; i < plan->root_link_count; i++) {
        const struct bwrap_root_link *one = &plan->root_links[i];

        if (one->link[0])
            add3(args, "--symlink", one->link, one->name);
        else
            add3(args, "--ro-bind", one->name, one->name);
    }
    add2(args, "--dir", "/etc");
    add2(args, "--dir", "/var");
    add3(args, "--symlink", "../tmp", "/var/tmp");
    for (size_t i = 0; i < ARRAY_LEN(etc_pieces); i++) {
        AUTO_FREE char *path = mem_printf("/etc/%s", etc_pieces[i]);

        add3(args, "--ro-bind-try", path, path);
    }
    add2(args, "--proc", "/proc");
    for (size_t i = 0; i < plan->mask_count; i++) /* a device where there are no devices */
        add3(args, "--ro-bind", "/dev/null", plan->masks[i]);
    add2(args, "--dev", "/dev");
    add_tmpfs(args, SHM_BYTES, "1777", "/dev/shm");
    add2(args, "--remount-ro", "/dev");
    add_tmpfs(args, spec->limits.tmp_bytes ? spec->limits.tmp_bytes : TMP_BYTES_DEFAULT, "1777",
              "/tmp");
    add_tmpfs(args, RUN_BYTES, "0755", "/run");
    add3(args, "--ro-bind", plan->init_source, BWRAP_INIT_TARGET);
}

/* TARGET is FOLDER or lies below it. */
static bool is_within(const char *target, const char *folder)
{
    size_t len = strlen(folder);

    return str_starts(target, folder) && (target[len] == '\0' || target[len] == '/');
}

static int refuse_place(const char *target, const char *folder, struct error *err)
{
    return error_set(err, ERR_INVALID, 0, "%s lies in %s, which the agent can write", target,
                     folder);
}

/* Of the mounts those before MOUNTS_BEFORE count, of the overlays those before OVERLAYS_BEFORE. */
static int check_target(const struct sandbox_spec *spec, const char *target, size_t mounts_before,
                        size_t overlays_before, struct error *err)
{
    if (target[0] != '/' || target[1] == '\0' || strstr(target, "/../") || str_ends(target, "/.."))
        return error_set(err, ERR_INVALID, 0, "%s is no place in a sandbox", target);
    for (size_t i = 0; i < mounts_before; i++) {
        const struct sandbox_mount *mount = &spec->mounts[i];

        if (mount->access == SANDBOX_READ_WRITE && is_within(target, mount->target))
            return refuse_place(target, mount->target, err);
    }
    for (size_t i = 0; i < overlays_before; i++) {
        if (is_within(target, spec->overlays[i].target))
            return refuse_place(target, spec->overlays[i].target, err);
    }
    return 0;
}

static int add_mounts(struct bwrap_args *args, const struct sandbox_spec *spec,
                      const struct bwrap_plan *plan, struct error *err)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct sandbox_mount *mount = &spec->mounts[i];

        if (check_target(spec, mount->target, i, 0, err) < 0)
            return -1;
        add3(args, mount->access == SANDBOX_READ_WRITE ? "--bind" : "--ro-bind", plan->sources[i],
             mount->target);
    }
    for (size_t i = 0; i < spec->overlay_count; i++) {
        const char *target = spec->overlays[i].target;

        if (check_target(spec, target, spec->mount_count, i, err) < 0)
            return -1;
        if (plan->lowers[i])
            add3(args, "--ro-bind", plan->lowers[i], target);
        add3(args, plan->lowers[i] ? "--bind-try" : "--bind", plan->overlays[i], target);
    }
    return 0;
}

static int add_files(struct bwrap_args *args, const struct sandbox_spec *spec, struct error *err)
{
    struct bwrap_file files[BWRAP_FILES_MAX];
    size_t count = bwrap_files(spec, files);

    for (size_t i = 0; i < spec->frozen_dir_count; i++) {
        if (check_target(spec, spec->frozen_dirs[i], spec->mount_count, spec->overlay_count, err) <
            0)
            return -1;
        add_tmpfs(args, FROZEN_BYTES, "0755", spec->frozen_dirs[i]);
    }
    for (size_t i = 0; i < count; i++) {
        AUTO_FREE char *mode = mem_printf("%04o", (unsigned)files[i].mode & 0777u);

        if (check_target(spec, files[i].target, spec->mount_count, spec->overlay_count, err) < 0)
            return -1;
        add2(args, "--perms", mode);
        add(args, "--file");
        add_number(args, BWRAP_FD_FILES + i);
        add(args, files[i].target);
    }
    for (size_t i = 0; i < spec->frozen_dir_count; i++)
        add2(args, "--remount-ro", spec->frozen_dirs[i]);
    return 0;
}

/* Places for Landlock
 * ---------------------------------------------------------------------------------------------------
 */

static void add_place(struct bwrap_args *args, enum init_place kind, const char *path)
{
    AUTO_FREE char *text = mem_printf("%c%s", kind, path);

    add(args, text);
}

/* Nothing may write to /proc, whose settings belong to the host; what a program writes there about
 * itself it can do without. */
static void add_system_places(struct bwrap_args *args, const struct bwrap_plan *plan)
{
    static const char *const readable[] = { "/usr", "/etc", "/proc", "/run" };
    static const char *const writable[] = { "/tmp", "/dev/shm" };

    for (size_t i = 0; i < ARRAY_LEN(readable); i++)
        add_place(args, INIT_PLACE_READ, readable[i]);
    for (size_t i = 0; i < plan->root_link_count; i++) {
        if (!plan->root_links[i].link[0])
            add_place(args, INIT_PLACE_READ, plan->root_links[i].name);
    }
    add_place(args, INIT_PLACE_DEVICES, "/dev");
    for (size_t i = 0; i < ARRAY_LEN(writable); i++)
        add_place(args, INIT_PLACE_WRITE, writable[i]);
}

/* The same again as the mounts say, so that a mount which came out writable by mistake isn't. */
static void add_places(struct bwrap_args *args, const struct sandbox_spec *spec,
                       const struct bwrap_plan *plan)
{
    add_system_places(args, plan);
    for (size_t i = 0; i < spec->mount_count; i++)
        add_place(args,
                  spec->mounts[i].access == SANDBOX_READ_WRITE ? INIT_PLACE_WRITE : INIT_PLACE_READ,
                  spec->mounts[i].target);
    for (size_t i = 0; i < spec->overlay_count; i++)
        add_place(args, INIT_PLACE_WRITE, spec->overlays[i].target);
    for (size_t i = 0; i < spec->frozen_dir_count; i++)
        add_place(args, INIT_PLACE_READ, spec->frozen_dirs[i]);
    for (size_t i = 0; i < spec->file_count; i++)
        add_place(args, INIT_PLACE_READ, spec->files[i].target);
}

static void add_command(struct bwrap_args *args, const struct sandbox_spec *spec,
                        const struct bwrap_plan *plan)
{
    add2(args, "--remount-ro", "/run");
    add2(args, "--remount-ro", "/");
    add2(args, "--chdir", "/");
    add(args, "--clearenv");
    add2(args, "--", BWRAP_INIT_TARGET);
    add_number(args, spec->limits.processes);
    add_number(args, spec->limits.open_files);
    add_number(args, spec->limits.file_size_bytes);
    add_places(args, spec, plan);
}

int bwrap_args_make(struct bwrap_args *args, const struct sandbox_spec *spec,
                    const struct bwrap_plan *plan, struct error *err)
{
    args->count = 0;
    add(args, "bwrap");
    add_namespaces(args, spec);
    add_system(args, spec, plan);
    if (add_mounts(args, spec, plan, err) < 0 || add_files(args, spec, err) < 0) {
        bwrap_args_finish(args);
        return -1;
    }
    add_command(args, spec, plan);
    return 0;
}

void bwrap_args_finish(struct bwrap_args *args)
{
    for (size_t i = 0; i < args->count; i++)
        free(args->argv[i]);
    args->count = 0;
    args->argv[0] = NULL;
}
