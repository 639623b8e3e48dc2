#include "sandbox/bwrap/bwrap_args.h"

#include <stdarg.h>

#include "common/mem.h"
#include "common/str.h"

#define INSIDE_INIT "/run/sandbox-init"

const struct bwrap_default_file bwrap_default_files[] = {
    { "/etc/passwd",
      "root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n"
      "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n" },
    { "/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n" },
    { "/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n" },
    { "/etc/hostname", "sandbox\n" },
    { "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n" },
    { "/etc/resolv.conf", "" },
    { "/etc/machine-id", "00000000000000000000000000000000\n" },
    { NULL, NULL },
};

/* Parts of the host's /etc that hold no secrets and that compilers, interpreters and TLS libraries
 * look for. */
static const char *const host_etc[] = {
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "ca-certificates.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "timezone",
    "mime.types",
    "magic",
    "login.defs",
    "bash.bashrc",
    "profile",
    "java-17-openjdk",
    "python3",
    "perl",
    "gss",
};

bool bwrap_default_wanted(const struct sandbox_spec *spec, const char *target)
{
    for (size_t i = 0; i < spec->file_count; i++) {
        if (str_equal(spec->files[i].target, target))
            return false;
    }
    return true;
}

static void add(struct bwrap_args *args, ...)
{
    va_list ap;
    const char *arg;

    va_start(ap, args);
    while ((arg = va_arg(ap, const char *)) != NULL) {
        BUG_ON(args->argc + 1 >= BWRAP_ARGS_MAX);
        args->argv[args->argc++] = mem_strdup(arg);
    }
    va_end(ap);
}

static void add_number(struct bwrap_args *args, const char *option, int number, const char *target)
{
    AUTO_FREE char *text = mem_printf("%d", number);

    add(args, option, text, target, NULL);
}

static void add_tmpfs(struct bwrap_args *args, const char *target, uint64_t bytes,
                      const char *perms)
{
    AUTO_FREE char *size = mem_printf("%llu", (unsigned long long)bytes);

    add(args, "--size", size, "--perms", perms, "--tmpfs", target, NULL);
}

static void add_system(struct bwrap_args *args)
{
    add(args, "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin",
        "/sbin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--perms",
        "0755", "--dir", "/etc", "--perms", "0755", "--dir", "/etc/ssl", NULL);
    for (size_t i = 0; i < ARRAY_LEN(host_etc); i++) {
        AUTO_FREE char *path = mem_printf("/etc/%s", host_etc[i]);

        add(args, "--ro-bind-try", path, path, NULL);
    }
}

static void add_file(struct bwrap_args *args, int number, uint32_t mode, const char *target)
{
    AUTO_FREE char *perms = mem_printf("%04o", mode);

    add(args, "--perms", perms, NULL);
    add_number(args, "--ro-bind-data", number, target);
}

static bool in_frozen_dir(const struct sandbox_spec *spec, const char *target)
{
    for (size_t i = 0; i < spec->frozen_dir_count; i++) {
        if (str_starts(target, spec->frozen_dirs[i]))
            return true;
    }
    return false;
}

static void add_files(struct bwrap_args *args, const struct sandbox_spec *spec,
                      const struct bwrap_numbers *numbers, bool frozen)
{
    for (size_t i = 0; i < spec->file_count; i++) {
        if (in_frozen_dir(spec, spec->files[i].target) == frozen)
            add_file(args, numbers->files[i], spec->files[i].mode, spec->files[i].target);
    }
}

static void add_bind(struct bwrap_args *args, enum sandbox_access access, int number,
                     const char *path, const char *target)
{
    bool writable = access == SANDBOX_READ_WRITE;

    if (path != NULL)
        add(args, writable ? "--bind" : "--ro-bind", path, target, NULL);
    else
        add_number(args, writable ? "--bind-fd" : "--ro-bind-fd", number, target);
}

static void add_mounts(struct bwrap_args *args, const struct sandbox_spec *spec,
                       const struct bwrap_numbers *numbers, const char (*staged)[16])
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct sandbox_mount *mount = &spec->mounts[i];

        add_bind(args, mount->access, numbers->mounts[i], staged != NULL ? staged[i] : NULL,
                 mount->target);
    }
}

void bwrap_args_build(struct bwrap_args *args, const char *program, const struct sandbox_spec *spec,
                      const struct bwrap_numbers *numbers, const char (*staged)[16])
{
    AUTO_FREE char *processes = mem_printf("%u", spec->limits.processes);
    AUTO_FREE char *open_files = mem_printf("%u", spec->limits.open_files);
    AUTO_FREE char *file_size =
        mem_printf("%llu", (unsigned long long)spec->limits.file_size_bytes);

    *args = (struct bwrap_args){ .argc = 0 };
    add(args, program, "--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1",
        "--new-session", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname",
        spec->hostname, NULL);
    add_system(args);
    for (size_t i = 0; bwrap_default_files[i].target != NULL; i++) {
        if (bwrap_default_wanted(spec, bwrap_default_files[i].target))
            add_file(args, numbers->defaults[i], 0444, bwrap_default_files[i].target);
    }
    add(args, "--proc", "/proc", "--dev", "/dev", NULL);
    add_tmpfs(args, "/dev/shm", 256u << 20, "1777");
    add(args, "--remount-ro", "/dev", NULL);
    add_tmpfs(args, "/tmp", spec->limits.tmp_bytes != 0 ? spec->limits.tmp_bytes : 1u << 30,
              "1777");
    add_tmpfs(args, "/run", 16u << 20, "0755");
    add(args, "--perms", "0755", "--dir", "/home", "--perms", "0755", "--dir", "/var", "--symlink",
        "../tmp", "/var/tmp", NULL);
    add_bind(args, SANDBOX_READ_ONLY, numbers->init,
             staged != NULL ? staged[spec->mount_count] : NULL, INSIDE_INIT);
    add_mounts(args, spec, numbers, staged);
    add_files(args, spec, numbers, false);
    for (size_t i = 0; i < spec->frozen_dir_count; i++)
        add_tmpfs(args, spec->frozen_dirs[i], 4u << 20, "0755");
    add_files(args, spec, numbers, true);
    for (size_t i = 0; i < spec->frozen_dir_count; i++)
        add(args, "--remount-ro", spec->frozen_dirs[i], NULL);
    add(args, "--remount-ro", "/", "--chdir", "/", "--clearenv", NULL);
    {
        AUTO_FREE char *seccomp = mem_printf("%d", numbers->seccomp);

        add(args, "--seccomp", seccomp, NULL);
    }
    add(args, "--", INSIDE_INIT, processes, open_files, file_size, NULL);
}

void bwrap_args_finish(struct bwrap_args *args)
{
    for (size_t i = 0; i < args->argc; i++)
        free(args->argv[i]);
    *args = (struct bwrap_args){ .argc = 0 };
}
