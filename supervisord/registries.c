/* registries.c: what was found is kept in a file, and asked for again when that is a day old: one
 * child process a question, all at once, with an end to their time and output;
 * then a few files. A tool that isn't there has no registry. */
#include "registries.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/child.h"
#include "io/stream.h"
#include "proxy/registry.h"

#define TIME_MS 10000u /* the first sandbox waits so long */
#define OUTPUT_MAX (256u << 10)
#define FOLDERS_MAX 16u
#define VARIABLES_MAX 16u
#define AGE_MS (24ull * 3600 * 1000)
#define CACHE_HEAD "registries 1 "

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
    const char *tool;
    bool over;
    struct child *child;
    struct stream *stream;
    struct buf out;
};

struct registries {
    struct asked asked[ARRAY_LEN(questions)];
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_work_t work; /* writes what was found */
    char *home;
    char *file;
    struct buf found; /* the file's text, while the tools are asked */
    char *variables[VARIABLES_MAX];
    size_t variable_count;
    unsigned open;    /* children, streams, the timer, the work */
    unsigned waiting; /* answers that are still to come */
    bool needed;
    bool kept; /* what was found before, perhaps long ago, is known */
    bool awaited;
    bool closing;
    struct registries_callbacks callbacks;
};

static void part_closed(void *data)
{
    struct registries *registries = data;

    if (--registries->open > 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(registries->asked); i++)
        buf_finish(&registries->asked[i].out);
    for (size_t i = 0; i < registries->variable_count; i++)
        free(registries->variables[i]);
    buf_finish(&registries->found);
    free(registries->file);
    free(registries->home);
    free(registries);
}

static void on_timer_closed(uv_handle_t *handle)
{
    part_closed(CONTAINER_OF(handle, struct registries, timer));
}

static void tell(void *data, const char *rule)
{
    struct registries *registries = data;

    if (registries->closing)
        return;
    buf_printf(&registries->found, "%s\n", rule);
    registries->callbacks.on_rule(registries->callbacks.data, rule);
}

/* What was told once stays: sandboxes may have it already. */
static void add_variable(struct registries *registries, const char *variable)
{
    size_t len = strcspn(variable, "=") + 1;

    for (size_t i = 0; i < registries->variable_count; i++)
        if (strncmp(registries->variables[i], variable, len) == 0)
            return;
    if (registries->variable_count < VARIABLES_MAX)
        registries->variables[registries->variable_count++] = mem_strdup(variable);
}

static void tell_variable(void *data, const char *variable)
{
    struct registries *registries = data;

    if (registries->closing)
        return;
    buf_printf(&registries->found, "variable %s\n", variable);
    add_variable(registries, variable);
}

const char *registries_variable(void *data, size_t index)
{
    const struct registries *registries = data;

    return index < registries->variable_count ? registries->variables[index] : NULL;
}

/* What was found ------------------------------------------------------------------------------
 */

static void write_found(uv_work_t *work)
{
    struct registries *registries = CONTAINER_OF(work, struct registries, work);
    struct error err = ERROR_INIT;

    if (fd_replace_file(registries->file, registries->found.data, registries->found.len, 0600,
                        &err) < 0)
        log_warn("registries", "%s", err.text);
}

static void on_written(uv_work_t *work, int status)
{
    (void)status;
    part_closed(CONTAINER_OF(work, struct registries, work));
}

static void answered(struct asked *asked)
{
    struct registries *registries = asked->registries;

    if (asked->over)
        return;
    asked->over = true;
    if (--registries->waiting > 0 || registries->closing)
        return;
    uv_timer_stop(&registries->timer);
    if (registries->awaited)
        registries->callbacks.on_known(registries->callbacks.data);
    registries->awaited = false;
    if (registries->found.failed)
        return;
    registries->open++;
    if (uv_queue_work(registries->loop, &registries->work, write_found, on_written) != 0)
        registries->open--;
}

/* True when there is no need to ask again. */
static bool read_found(struct registries *registries)
{
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *text = NULL;
    size_t len;
    uint64_t then;
    uint64_t now = clock_wall_ms(clock_system());

    if (fd_read_file(registries->file, OUTPUT_MAX, &text, &len, &err) < 0)
        return false;
    char *rest = text;
    char *line = strsep(&rest, "\n");
    if (!str_starts(line, CACHE_HEAD) ||
        !str_parse_u64(line + strlen(CACHE_HEAD), UINT64_MAX, &then))
        return false;
    registries->kept = true;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (str_starts(line, "variable "))
            add_variable(registries, line + strlen("variable "));
        else if (line[0] != '\0')
            registries->callbacks.on_rule(registries->callbacks.data, line);
    }
    return then <= now && now - then < AGE_MS;
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
    answered(asked);
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

    if (err == NULL) {
        registry_read(asked->form, buf_text(&asked->out), asked->out.len, tell, asked->registries);
        registry_variables(asked->tool, buf_text(&asked->out), asked->out.len, tell_variable,
                           asked->registries);
    }
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
    asked->tool = question->argv[0];
    buf_init(&asked->out, OUTPUT_MAX);
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        answered(asked);
        return;
    }
    if (start_child(asked, loop, question, fds[1], &err) < 0) {
        if (err.code != ERR_NOT_FOUND)
            log_warn("registries", "%s: %s", question->argv[0], err.text);
        close(fds[0]);
        answered(asked);
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

static void ask_all(struct registries *registries)
{
    buf_printf(&registries->found, CACHE_HEAD "%llu\n",
               (unsigned long long)clock_wall_ms(clock_system()));
    uv_timer_start(&registries->timer, on_timeout, TIME_MS, 0);
    /* Files first: the last answer ends the list. */
    read_apt(registries);
    read_cargo(registries, registries->home);
    registries->waiting = ARRAY_LEN(questions);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        registries->asked[i].registries = registries;
        ask(&registries->asked[i], registries->loop, &questions[i]);
    }
}

struct registries *registries_new(uv_loop_t *loop, const char *home, const char *state_dir,
                                  const struct registries_callbacks *callbacks)
{
    struct registries *registries = NEW(struct registries);

    registries->loop = loop;
    registries->home = mem_strdup(home);
    registries->file = mem_printf("%s/registries", state_dir);
    registries->callbacks = *callbacks;
    buf_init(&registries->found, OUTPUT_MAX);
    uv_timer_init(loop, &registries->timer);
    uv_unref((uv_handle_t *)&registries->timer);
    registries->open = 1;
    return registries;
}

bool registries_need(struct registries *registries)
{
    if (registries->needed || registries->closing)
        return true;
    registries->needed = true;
    if (!read_found(registries))
        ask_all(registries);
    registries->awaited = registries->waiting > 0 && !registries->kept;
    return !registries->awaited;
}

void registries_close(struct registries *registries)
{
    if (registries == NULL || registries->closing)
        return;
    registries->closing = true;
    for (size_t i = 0; i < ARRAY_LEN(registries->asked); i++)
        if (registries->asked[i].registries != NULL)
            let_go(&registries->asked[i]);
    uv_close((uv_handle_t *)&registries->timer, on_timer_closed);
}
