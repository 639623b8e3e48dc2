#include "sandbox/bwrap/host_look.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

/* Which of the old top folders are links into /usr, as merged systems have them. */
static void look_at_root(struct bwrap_plan *plan)
{
    static const char *const names[] = { "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct bwrap_root_link one = { .name = names[i] };
        struct stat info;
        ssize_t len;

        if (lstat(names[i], &info) < 0)
            continue;
        len = S_ISLNK(info.st_mode) ? readlink(names[i], one.link, sizeof(one.link) - 1) : 0;
        if (len >= 0 && (S_ISLNK(info.st_mode) || S_ISDIR(info.st_mode)))
            plan->root_links[plan->root_link_count++] = one;
    }
}

/* Files of /proc that tell about the host and not about the sandbox: how it was booted, other
 * users' keys, where the kernel lies. */
static void look_at_proc(struct bwrap_plan *plan)
{
    static const char *const names[] = {
        "/proc/cmdline",    "/proc/interrupts",    "/proc/kallsyms",    "/proc/kcore",
        "/proc/key-users",  "/proc/keys",          "/proc/modules",     "/proc/sched_debug",
        "/proc/timer_list", "/proc/sysrq-trigger", "/proc/vmallocinfo",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct stat info;

        if (stat(names[i], &info) == 0 && S_ISREG(info.st_mode))
            plan->masks[plan->mask_count++] = names[i];
    }
}

void bwrap_look_at_host(struct bwrap_plan *plan)
{
    look_at_root(plan);
    look_at_proc(plan);
}
