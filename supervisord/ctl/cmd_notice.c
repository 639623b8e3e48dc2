/* cmd_notice.c: notices, tried. */
#include "common/str.h"
#include "ctl/commands.h"
#include "ctl/print.h"

#define TRIAL_MS 100000 /* a program of the user's has a minute */
#define LINE_MAX_BYTES 2000

static bool was_told(const struct json_value *way)
{
    return str_equal(json_string(json_get(way, "outcome")), "told");
}

static void append(struct buf *out, const struct json_value *way, const char *name)
{
    const char *text = json_string(json_get(way, name));

    print_line(out, text != NULL ? text : "", LINE_MAX_BYTES);
}

static void print_way(struct buf *out, const struct json_value *way)
{
    AUTO_BUF struct buf name = BUF_INIT(1024);

    append(&name, way, "way");
    buf_printf(out, "%-8s %s", was_told(way) ? "told" : "FAILED", buf_text(&name));
    if (!was_told(way)) {
        buf_append_str(out, ": ");
        append(out, way, "why");
        buf_append_str(out, "\n         > ");
        append(out, way, "next");
    }
    buf_append_char(out, '\n');
}

/* The exit code: one way that failed is enough. */
static int print_ways(const struct session *session, const struct json_value *reply)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);
    int code = EXIT_DONE;

    for (const struct json_value *at = json_first(json_get(reply, "ways")); at != NULL;
         at = json_next(at)) {
        print_way(&text, at);
        if (!was_told(at))
            code = EXIT_FAILED;
    }
    if (session->json)
        session_print_json(reply);
    else
        session_print(&text);
    return code;
}

int cmd_notice(struct session *session, struct error *err)
{
    struct client_message message;
    int code;

    if (!str_equal(session->args.words[0], "test"))
        return error_set(err, ERR_INVALID, 0, "usage: sandboxctl notice test");
    if (client_call(session->client, "notice.test", NULL, TRIAL_MS, &message, err) < 0)
        return -1;
    code = print_ways(session, message.envelope.body);
    client_message_finish(&message);
    return code;
}
