/* cmd_web.c: sandboxctl web. */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/target.h"

extern char **environ;

static bool has_display(void)
{
    const char *const names[] = { "WAYLAND_DISPLAY", "DISPLAY" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL && value[0] != '\0')
            return true;
    }
    return false;
}

/* An argument is seen by every user of the machine, and the address lets in whoever has it: so the
 * browser is given a private file that leads there. URL holds nothing that HTML would read. */
static int write_page(const char *path, const char *url, struct error *err)
{
    AUTO_BUF struct buf page = BUF_INIT(8192);

    buf_printf(&page,
               "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>"
               "<meta http-equiv=refresh content=\"0;url=%s\"><title>sandbox-mcp</title>"
               "<a href=\"%s\">Open the web pages</a>\n",
               url, url);
    return fd_replace_file(path, buf_text(&page), page.len, 0600, err);
}

/* False when no browser was started. */
static bool open_browser(struct session *session, const char *url)
{
    AUTO_FREE
    char *path = mem_printf("%s/web-open.html", session->paths.runtime);
    char program[] = "xdg-open";
    char *argv[] = { program, path, NULL };
    struct error err = ERROR_INIT;
    int status = -1;
    pid_t pid;

    return write_page(path, url, &err) == 0 &&
           posix_spawnp(&pid, program, NULL, NULL, argv, environ) == 0 &&
           waitpid(pid, &status, 0) == pid && status == 0;
}

static int write_params(struct session *session, struct buf *body, struct error *err)
{
    AUTO_BUF struct buf id = BUF_INIT(256);
    struct json_writer writer;
    const char *word = session->args.word_count > 0 ? session->args.words[0] : NULL;

    json_write_init(&writer, body);
    json_write_object(&writer);
    if (word != NULL && target_either(session, word, &id, err) < 0)
        return -1;
    json_member_string_opt(&writer, target_member(buf_text(&id)), buf_text(&id));
    if (session->args.has[ARGS_LIVE])
        json_member_bool(&writer, "live", true);
    json_write_object_end(&writer);
    return 0;
}

int cmd_web(struct session *session, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct client_message message;
    const char *url;
    bool opened;

    if (write_params(session, &body, err) < 0 ||
        session_call(session, "web.link", &body, &message, err) < 0)
        return -1;
    url = json_string(json_get(message.envelope.body, "url"));
    if (session->json) {
        session_print_json(message.envelope.body);
    } else if (url != NULL) {
        opened = session->out_terminal && has_display() && open_browser(session, url);
        printf("%s\n", url);
        fprintf(stderr, opened ? "opened in your browser; the address works once\n"
                               : "open it within five minutes; it works once\n");
    }
    client_message_finish(&message);
    return EXIT_DONE;
}
