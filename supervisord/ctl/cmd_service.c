/* cmd_service.c: the supervisor as a unit of the user's systemd, which starts it when somebody
 * connects. */
#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/program.h"
#include "proto/launch.h"

#define UNIT_MAX 65536
#define STOP_MS 20000

extern char **environ;

enum unit { UNIT_SOCKET, UNIT_SERVICE, UNIT_COUNT };
static const char *const unit_names[UNIT_COUNT] = { "sandbox-mcp.socket", "sandbox-mcp.service" };

/* Units ----------------------------------------------------------------------------------------
 */

/* In quotes, as systemd.syntax(7) and systemd.unit(5) read them. */
static void append_quoted(struct buf *out, const char *text)
{
    buf_append_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            buf_append_char(out, '\\');
        if (*text == '%' || *text == '$')
            buf_append_char(out, *text);
        buf_append_char(out, *text);
    }
    buf_append_char(out, '"');
}

/* A path that is a setting's whole value: only specifiers mean something in it. */
static void append_path(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '%')
            buf_append_char(out, '%');
        buf_append_char(out, *text);
    }
}

static void write_socket_unit(const struct session *session, struct buf *out)
{
    buf_append_str(out, "[Unit]\n"
                        "Description=Socket of the sandbox-mcp supervisor\n"
                        "\n"
                        "[Socket]\n"
                        "ListenStream=");
    append_path(out, session->paths.socket);
    buf_append_str(out, "\n"
                        "SocketMode=0600\n"
                        "DirectoryMode=0700\n"
                        "\n"
                        "[Install]\n"
                        "WantedBy=sockets.target\n");
}

/* The places that differ from the default here have to be the same there. */
static void write_environment(struct buf *out)
{
    for (char **item = environ; *item != NULL; item++) {
        if (str_starts(*item, "SANDBOX_MCP_") || str_starts(*item, "XDG_CONFIG_HOME=") ||
            str_starts(*item, "XDG_STATE_HOME=") || str_starts(*item, "XDG_DATA_HOME=") ||
            str_starts(*item, "PATH=")) {
            AUTO_BUF struct buf value = BUF_INIT(UNIT_MAX);

            append_quoted(&value, *item);
            buf_printf(out, "Environment=%s\n", buf_text(&value));
        }
    }
}

static void write_service_unit(const char *program, struct buf *out)
{
    buf_append_str(out, "[Unit]\n"
                        "Description=Coding agents in sandboxes\n"
                        "Requires=sandbox-mcp.socket\n"
                        "After=sandbox-mcp.socket\n"
                        "\n"
                        "[Service]\n"
                        "Type=notify\n"
                        "ExecStart=");
    append_quoted(out, program);
    buf_append_str(out, "\n"
                        "ExecReload=kill -HUP $MAINPID\n"
                        "Restart=on-failure\n"
                        "# Another supervisor has the state folder: starting again is no use.\n"
                        "RestartPreventExitStatus=3\n"
                        "# Sandboxes outlive the supervisor, and the next one takes them up.\n"
                        "KillMode=process\n"
                        "# The part of the cgroup tree in which sandboxes are limited.\n"
                        "Delegate=yes\n");
    write_environment(out);
    buf_append_str(out, "\n"
                        "[Install]\n"
                        "WantedBy=default.target\n");
}

static char *units_folder(const struct session *session)
{
    const char *config = getenv("XDG_CONFIG_HOME");

    return config != NULL && config[0] == '/'
               ? mem_printf("%s/systemd/user", config)
               : mem_printf("%s/.config/systemd/user", session->paths.home);
}

static char *unit_path(const struct session *session, enum unit unit)
{
    AUTO_FREE
    char *folder = units_folder(session);

    return mem_printf("%s/%s", folder, unit_names[unit]);
}

/* The supervisor beside this program. */
static char *find_supervisor(struct error *err)
{
    AUTO_FREE
    char *name = launch_program();
    char *path = program_find(name);

    if (path != NULL && path[0] == '/')
        return path;
    free(path); /* a unit needs a whole path */
    error_set(err, ERR_NOT_FOUND, 0, "there is no program %.200s", name);
    return NULL;
}

static int make_folders(const char *folder, struct error *err)
{
    AUTO_FREE
    char *path = mem_strdup(folder);

    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return error_set(err, ERR_SYSTEM, errno, "make the folder %.200s", path);
        if (slash == NULL)
            break;
        *slash = '/';
    }
    return 0;
}

static int write_units(const struct session *session, const char *program, struct error *err)
{
    AUTO_FREE
    char *folder = units_folder(session);

    if (make_folders(folder, err) < 0)
        return -1;
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        AUTO_FREE
        char *path = unit_path(session, (enum unit)unit);
        AUTO_BUF struct buf text = BUF_INIT(UNIT_MAX);

        if (unit == UNIT_SOCKET)
            write_socket_unit(session, &text);
        else
            write_service_unit(program, &text);
        if (text.failed)
            return error_set(err, ERR_LIMIT, 0, "the environment is too large for a unit");
        if (fd_replace_file(path, text.data, text.len, 0644, err) < 0)
            return -1;
    }
    return 0;
}

/* systemctl -------------------------------------------------------------------------------------
 */

/* Its exit code, or -1 when it can't be run. What it prints goes to stderr. */
static int systemctl(const char *const *words)
{
    char *argv[8] = { (char *)(uintptr_t) "systemctl", (char *)(uintptr_t) "--user" };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int rc;

    for (size_t i = 0; words[i] != NULL && i < 5; i++)
        argv[i + 2] = (char *)(uintptr_t)words[i];
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    rc = posix_spawnp(&pid, "systemctl", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return rc == 0 ? program_wait(pid) : -1;
}

static bool systemctl_does(const char *a, const char *b, const char *c, const char *d)
{
    const char *words[] = { a, b, c, d, NULL };

    return systemctl(words) == 0;
}

/* The commands --------------------------------------------------------------------------------- */

static int tell(const struct session *session, bool installed, bool active, const char *text)
{
    AUTO_BUF struct buf out = BUF_INIT(UNIT_MAX);
    AUTO_FREE
    char *socket_path = unit_path(session, UNIT_SOCKET);
    AUTO_FREE
    char *service_path = unit_path(session, UNIT_SERVICE);
    struct json_writer writer;

    if (session->json) {
        json_write_init(&writer, &out);
        json_write_object(&writer);
        json_member_bool(&writer, "installed", installed);
        json_member_bool(&writer, "active", active);
        json_member_string(&writer, "socketUnit", socket_path);
        json_member_string(&writer, "serviceUnit", service_path);
        json_write_object_end(&writer);
        buf_append_char(&out, '\n');
    } else {
        buf_append_str(&out, text);
    }
    session_print(&out);
    return EXIT_DONE;
}

static int call(struct session *session, const char *method, uint64_t *pid, struct error *err)
{
    struct client_message message;

    if (session_call(session, method, NULL, &message, err) < 0)
        return -1;
    if (pid != NULL)
        *pid = json_u64(json_get(message.envelope.body, "pid"), 0);
    client_message_finish(&message);
    return 0;
}

/* systemd takes the socket's place over: a supervisor that was started by hand would keep the
 * database, and nobody would reach it. */
static int stop_running(struct session *session, struct error *err)
{
    struct error absent = ERROR_INIT;
    AUTO_CLOSE
    int process = -1;
    uint64_t pid;
    struct pollfd end;

    if (session_connect(session, SESSION_DONT_START, &absent) < 0) {
        if (absent.code == ERR_UNAVAILABLE)
            return 0;
        *err = absent;
        return -1;
    }
    if (call(session, "system.status", &pid, err) < 0)
        return -1;
    process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (call(session, "system.shutdown", NULL, err) < 0)
        return -1;
    session_disconnect(session);
    end = (struct pollfd){ .fd = process, .events = POLLIN };
    if (process >= 0 && poll(&end, 1, STOP_MS) != 1)
        return error_set(err, ERR_TIMEOUT, 0, "the supervisor, process %llu, does not stop",
                         (unsigned long long)pid);
    return 0;
}

static int install(struct session *session, struct error *err)
{
    AUTO_FREE
    char *program = find_supervisor(err);

    if (program == NULL || write_units(session, program, err) < 0)
        return -1;
    if (!systemctl_does("daemon-reload", NULL, NULL, NULL)) {
        tell(session, true, false,
             "The units are written, but your systemd can't be reached from here. In a session of "
             "yours:\n"
             "  systemctl --user daemon-reload\n"
             "  sandboxctl stop\n"
             "  systemctl --user enable --now sandbox-mcp.socket sandbox-mcp.service\n");
        return EXIT_FAILED;
    }
    if (stop_running(session, err) < 0)
        return -1;
    if (!systemctl_does("enable", "--now", unit_names[UNIT_SOCKET], unit_names[UNIT_SERVICE]))
        return error_set(
            err, ERR_UNAVAILABLE, 0,
            "systemctl could not start it; journalctl --user -u sandbox-mcp tells why");
    return tell(session, true, true,
                "The supervisor is a service of yours now. It starts when you log in, or when "
                "somebody connects.\n"
                "To have it also while you are not logged in: loginctl enable-linger\n");
}

static bool installed_units(const struct session *session)
{
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        AUTO_FREE
        char *path = unit_path(session, (enum unit)unit);

        if (access(path, F_OK) != 0)
            return false;
    }
    return true;
}

static int show_status(struct session *session)
{
    bool installed = installed_units(session);
    bool active =
        installed && systemctl_does("is-active", "--quiet", unit_names[UNIT_SOCKET], NULL);

    tell(session, installed, active,
         active      ? "The supervisor is a service of yours, and its socket is open.\n"
         : installed ? "The units are there, but the socket is not open: "
                       "systemctl --user start sandbox-mcp.socket\n"
                     : "The supervisor is no service. sandboxctl service install makes it one.\n");
    return active ? EXIT_DONE : EXIT_FAILED;
}

static int uninstall(struct session *session, struct error *err)
{
    if (!installed_units(session))
        return tell(session, false, false, "The supervisor is no service: nothing is installed.\n");
    systemctl_does("disable", "--now", unit_names[UNIT_SOCKET], unit_names[UNIT_SERVICE]);
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        AUTO_FREE
        char *path = unit_path(session, (enum unit)unit);

        if (unlink(path) < 0 && errno != ENOENT)
            return error_set(err, ERR_SYSTEM, errno, "remove %.200s", path);
    }
    systemctl_does("daemon-reload", NULL, NULL, NULL);
    return tell(
        session, false, false,
        "The units are gone. Runs and sandboxes are as they were, and the supervisor starts "
        "when it is needed.\n");
}

int cmd_service(struct session *session, struct error *err)
{
    const char *verb = session->args.words[0];

    if (str_equal(verb, "install"))
        return install(session, err);
    if (str_equal(verb, "status"))
        return show_status(session);
    if (str_equal(verb, "uninstall"))
        return uninstall(session, err);
    return error_set(err, ERR_INVALID, 0, "service install, service status or service uninstall");
}
