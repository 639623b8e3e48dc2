#include "common/userns.h"

#include <ctype.h>

#include "common/fd.h"
#include "common/mem.h"

static const struct userns_switch switches[] = {
    { "/proc/sys/kernel/unprivileged_userns_clone", "0", "user namespaces are switched off",
      "sudo sysctl -w kernel.unprivileged_userns_clone=1" },
    { "/proc/sys/user/max_user_namespaces", "0", "no user namespaces are allowed",
      "sudo sysctl -w user.max_user_namespaces=15000" },
    /* The last, since a profile for bubblewrap may lift it. */
    { "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
      "AppArmor forbids user namespaces to programs without a profile that has 'userns'",
      "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" },
};

static bool says(const char *root, const struct userns_switch *one)
{
    struct error ignored = ERROR_INIT;
    AUTO_FREE char *path = mem_printf("%s%s", root, one->path);
    AUTO_FREE char *content = NULL;

    return fd_read_file(path, 64, &content, NULL, &ignored) == 0 && content[0] == one->forbids[0] &&
           !isdigit((unsigned char)content[1]);
}

const struct userns_switch *userns_forbidden(const char *root)
{
    for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
        if (says(root, &switches[i]))
            return &switches[i];
    }
    return NULL;
}

bool userns_blamed(const char *words)
{
    static const char *const signs[] = { "namespace",   "uid map",     "gid map",
                                         "RTM_NEWADDR", "RTM_NEWLINK", "setgroups" };

    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        if (strstr(words, signs[i]))
            return true;
    }
    return false;
}
