/* registries.c: one child process a question, all at once, with an end to their time and output;
 * then a few files. A tool that isn't there has no registry. */
#include "registries.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/child.h"
#include "io/stream.h"
#include "proxy/registry.h"

#define TIME_MS 20000u
#define OUTPUT_MAX (256u << 10)
#define FOLDERS_MAX 16u

extern char **environ;

static const struct question {
    enum registry_form form;
    const char *argv[5];
} questions[] = {
    { REGISTRY_PLAIN, { "npm", "config", "get", "registry", NULL } },
    { REGISTRY_SETTING, { "pip3", "config", "list", NULL } },
    { REGISTRY_HELP, { "pip3", "help", "install", NULL } },
    { REGISTRY_PLAIN, { "go", "env", "GOPROXY", "GOSUMDB", NULL } },
};

struct asked {
    struct registries *registries;
    enum registry_form form;
    struct child *child;
    struct stream *stream;
    struct buf out;
};

struct registries {
    struct asked asked[ARRAY_LEN(questions)];
    uv_timer_t timer;
    unsigned open; /* children, streams, the timer */
    bool closing;
    void (*on_rule)(void *data, const char *rule);
    void *data;
};

static void part_closed(void *data)
{
    struct registries *registries = data;

    if (--registries->open > 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(registries->asked); i++)
        buf_finish(&registries->asked[i].out);
    free(registries);
}

static void on_timer_closed(uv_handle_t *handle)
{
    part_closed(CONTAINER_OF(handle, struct registries, timer));
}

static void tell(void *data, const char *rule)
{
    struct registries *registries = data;

    if (!registries->closing)
        registries->on_rule(registries->data, rule);
}

/* Processes ------------------------------------------------------------------------------------
 */

static void let_go(struct asked *asked)
{
    struct child *child = STEAL(asked->child);
    struct stream *stream = STEAL(asked->stream);

    if (child != NULL) {
        child_kill_group(child, SIGKILL);
        child_close(child, part_closed, asked->registries);
    }
    if (stream != NULL)
        stream_close(stream, part_closed, asked->registries);
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct asked *asked = data;

    buf_append(&asked->out, bytes, len);
    if (asked->out.failed)
        let_go(asked);
}

static void on_end(void *data, const struct error *err)
{
    struct asked *asked = data;

    if (err == NULL)
        registry_read(asked->form, buf_text(&asked->out), asked->out.len, tell, asked->registries);
    let_go(asked);
}

static void on_exit_code(void *data, int code, int signal)
{
    (void)data;
    (void)code;
    (void)signal; /* what it said counts, and the end of that follows */
}

/* HOME, PATH and what the tools themselves look at; nothing of ours or of other programs. */
static const char **environment_of_tools(void)
{
    static const char *const names[] = {
        "HOME=",    "PATH=",    "XDG_CONFIG_HOME=", "npm_config_", "NPM_CONFIG_", "PIP_",
        "GOPROXY=", "GOSUMDB=", "GOENV=",           "GOFLAGS=",    "GOPATH=",     "PYENV_"
    };
    size_t count = 0;
    const char **kept;

    while (environ[count] != NULL)
        count++;
    kept = mem_new_zero(count + 1, sizeof(*kept));
    count = 0;
    for (char **item = environ; *item != NULL; item++)
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (str_starts(*item, names[i]))
                kept[count++] = *item;
    return kept;
}

static int start_child(struct asked *asked, uv_loop_t *loop, const struct question *question,
                       int write_fd, struct error *err)
{
    const char **env = environment_of_tools();
    const struct child_fd fds[] = { { write_fd, 1 } };
    const struct child_options options = {
        .program = question->argv[0], .argv = question->argv, .env = env, .fds = fds, .fd_count = 1
    };
    int rc = child_start(&asked->child, loop, &options, on_exit_code, asked, err);

    free(env);
    if (rc == 0)
        asked->registries->open++;
    else
        asked->child = NULL;
    return rc;
}

static void ask(struct asked *asked, uv_loop_t *loop, const struct question *question)
{
    struct stream_callbacks callbacks = { .on_data = on_data, .on_end = on_end, .data = asked };
    struct error err = ERROR_INIT;
    int fds[2];

    asked->form = question->form;
    buf_init(&asked->out, OUTPUT_MAX);
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    if (start_child(asked, loop, question, fds[1], &err) < 0) {
        if (err.code != ERR_NOT_FOUND)
            log_warn("registries", "%s: %s", question->argv[0], err.text);
        close(fds[0]);
    } else if (stream_start(&asked->stream, loop, fds[0], &callbacks, &err) < 0) {
        asked->stream = NULL;
        let_go(asked);
    } else {
        asked->registries->open++;
    }
    close(fds[1]);
}

static void on_timeout(uv_timer_t *timer)
{
    struct registries *registries = CONTAINER_OF(timer, struct registries, timer);

    for (size_t i = 0; i < ARRAY_LEN(registries->asked); i++)
        let_go(&registries->asked[i]);
}

/* Files ----------------------------------------------------------------------------------------
 */

/* Whether there is one. */
static bool read_file(struct registries *registries, enum registry_form form, const char *path)
{
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *text = NULL;
    size_t len;

    if (fd_read_file(path, OUTPUT_MAX, &text, &len, &err) < 0)
        return false;
    registry_read(form, text, len, tell, registries);
    return true;
}

static void read_apt(struct registries *registries)
{
    static const char folder[] = "/etc/apt/sources.list.d";
    DIR *dir = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;

    read_file(registries, REGISTRY_SOURCES, "/etc/apt/sources.list");
    while (dir != NULL && (entry = readdir(dir)) != NULL && count < FOLDERS_MAX) {
        AUTO_FREE
        char *path = mem_printf("%s/%s", folder, entry->d_name);

        if (!str_ends(path, ".list") && !str_ends(path, ".sources"))
            continue;
        count++;
        read_file(registries, REGISTRY_SOURCES, path);
    }
    if (dir != NULL)
        closedir(dir);
}

/* Cargo can't be asked. Its cache tells which registries it has used: a folder each, and in it
 * where the packages are. */
static void read_cargo(struct registries *registries, const char *home)
{
    const char *cargo_home = getenv("CARGO_HOME");
    AUTO_FREE
    char *base = cargo_home != NULL && cargo_home[0] == '/' ? mem_strdup(cargo_home)
                                                            : mem_printf("%s/.cargo", home);
    AUTO_FREE
    char *settings = mem_printf("%s/config.toml", base);
    AUTO_FREE
    char *index = mem_printf("%s/registry/index", base);
    DIR *dir = opendir(index);
    struct dirent *entry;
    unsigned count = 0;

    read_file(registries, REGISTRY_SETTING, settings);
    while (dir != NULL && (entry = readdir(dir)) != NULL && count < FOLDERS_MAX) {
        AUTO_FREE
        char *path = mem_printf("%s/%s/config.json", index, entry->d_name);

        if (entry->d_name[0] == '.')
            continue;
        count++;
        /* Without that file it is an index in git, whose host has much else. */
        if (read_file(registries, REGISTRY_SETTING, path))
            registry_read(REGISTRY_FOLDER, entry->d_name, strlen(entry->d_name), tell, registries);
    }
    if (dir != NULL)
        closedir(dir);
}

struct registries *registries_start(uv_loop_t *loop, const char *home,
                                    void (*on_rule)(void *data, const char *rule), void *data)
{
    struct registries *registries = NEW(struct registries);

    registries->on_rule = on_rule;
    registries->data = data;
    uv_timer_init(loop, &registries->timer);
    uv_timer_start(&registries->timer, on_timeout, TIME_MS, 0);
    uv_unref((uv_handle_t *)&registries->timer);
    registries->open = 1;
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        registries->asked[i].registries = registries;
        ask(&registries->asked[i], loop, &questions[i]);
    }
    read_apt(registries);
    read_cargo(registries, home);
    return registries;
}

void registries_close(struct registries *registries)
{
    if (registries == NULL || registries->closing)
        return;
    registries->closing = true;
    for (size_t i = 0; i < ARRAY_LEN(registries->asked); i++)
        let_go(&registries->asked[i]);
    uv_close((uv_handle_t *)&registries->timer, on_timer_closed);
}
