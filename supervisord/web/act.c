/* act.c: what pages do: sign in and out, cancel, answer, send, delete. */
#include <sodium.h>

#include "web/internal.h"

#define TEXT_MAX 50000 /* code points, as for a task */

/* The body, read into TARGET; false when the call was answered. */
static bool read_body(const struct call *call, const struct json_field *fields, void *target)
{
    struct error err = ERROR_INIT;

    if (json_read(call->body, fields, JSON_STRICT, target, &err) == 0)
        return true;
    web_respond_failure(call->conn->http, &err);
    return false;
}

static void respond_word(const struct call *call, int status, const char *name)
{
    AUTO_BUF struct buf body = BUF_INIT(256);

    buf_printf(&body, "{\"%s\":true}", name);
    web_respond_json(call->conn->http, status, &body);
}

/* Signing in and out
 * ------------------------------------------------------------------------------------------------
 */

struct login_params {
    const char *code;
    const char *token;
};

static const struct json_field login_fields[] = {
    JSON_STRING_FIELD(struct login_params, code, JSON_OPTIONAL, 1, 100, NULL),
    JSON_STRING_FIELD(struct login_params, token, JSON_OPTIONAL, 1, 1000, NULL),
    JSON_FIELD_LAST,
};

/* Under an agent's name a browser is signed in to that agent's pages. */
static const char *scope_of(const struct call *call)
{
    return call->session != NULL ? call->session->text : "";
}

static void respond_signed_in(const struct call *call, const char *path)
{
    struct web *web = call->conn->web;
    const char *scope = scope_of(call);
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct error err = ERROR_INIT;
    struct http_headers headers;
    struct json_writer writer;
    char text[WEB_TOKEN_SIZE];
    char *cookie;

    if (login_begin(web->login, scope, text, &err) < 0) {
        web_respond_failure(call->conn->http, &err);
        return;
    }
    cookie = mem_printf("%s=%s; Path=%s/; Max-Age=%llu; HttpOnly; SameSite=Strict", web->cookie,
                        text, scope[0] == '\0' ? web->prefix : "",
                        (unsigned long long)login_lasts_ms(scope) / 1000);
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "location", path);
    json_write_object_end(&writer);
    http_headers_init(&headers);
    web_headers(&headers, "application/json");
    http_headers_add(&headers, "Set-Cookie", cookie);
    http_conn_respond(call->conn->http, 200, &headers, buf_text(&body), body.len);
    http_headers_finish(&headers);
    sodium_memzero(text, sizeof(text));
    sodium_memzero(cookie, strlen(cookie));
    free(cookie);
    log_info("web", "a browser was signed in");
}

/* The path that the code or the token leads to; NULL when it is wrong. */
static char *check_login(struct web *web, const char *scope, const struct login_params *params)
{
    bool right;

    if (params->code != NULL)
        return login_take_code(web->login, scope, params->code);
    /* Nobody is to type it under another name than ours. */
    if (params->token == NULL || web->token_matches == NULL || scope[0] != '\0')
        return NULL;
    right = web->token_matches(web->token_data, params->token);
    login_tried(web->login, right);
    return right ? mem_printf("%s/", web->prefix) : NULL;
}

void act_login(const struct call *call)
{
    struct web *web = call->conn->web;
    struct login_params params = { .code = NULL };
    AUTO_FREE
    char *path = NULL;

    if (!read_body(call, login_fields, &params))
        return;
    if (params.code == NULL && !login_may_try(web->login)) {
        web_respond_error(call->conn->http, 429, "too_early",
                          "a wrong token was just tried; try again in three seconds");
        return;
    }
    path = check_login(web, scope_of(call), &params);
    if (path == NULL) {
        log_warn("web", "a browser showed a wrong or used link or token");
        web_respond_error(call->conn->http, 403, "denied",
                          "this link was used already, or is older than five minutes; sandboxctl "
                          "web makes a new one");
        return;
    }
    respond_signed_in(call, path);
}

void act_logout(const struct call *call)
{
    login_end(call->conn->web->login, "", call->conn->cookie);
    log_info("web", "a browser was signed out");
    respond_word(call, 200, "signedOut");
}

/* Runs
 * -------------------------------------------------------------------------------------------------------------
 */

void act_cancel(const struct call *call)
{
    struct error err = ERROR_INIT;

    if (run_cancel(call->conn->web->runs, &call->run->id, &err) < 0) {
        web_respond_failure(call->conn->http, &err);
        return;
    }
    log_info(call->run->id.text, "cancelled from the page");
    respond_word(call, 202, "cancelling");
}

struct answer_params {
    const char *requestId;
    const char *answer;
};

static const struct json_field answer_fields[] = {
    JSON_STRING_FIELD(struct answer_params, requestId, JSON_REQUIRED, 1, 200, NULL),
    JSON_STRING_FIELD(struct answer_params, answer, JSON_REQUIRED, 1, TEXT_MAX, NULL),
    JSON_FIELD_LAST,
};

void act_answer(const struct call *call)
{
    struct answer_params params = { .answer = NULL };
    struct error err = ERROR_INIT;

    if (!read_body(call, answer_fields, &params))
        return;
    if (run_answer(call->conn->web->runs, &call->run->id, params.requestId, params.answer, &err) <
        0) {
        web_respond_failure(call->conn->http, &err);
        return;
    }
    log_info(call->run->id.text, "answered from the page");
    respond_word(call, 200, "answered");
}

struct send_params {
    const char *message;
    int mode;
};

static const struct json_field send_fields[] = {
    JSON_STRING_FIELD(struct send_params, message, JSON_REQUIRED, 1, TEXT_MAX, NULL),
    JSON_ENUM_FIELD(struct send_params, mode, JSON_OPTIONAL, run_message_mode_names, NULL),
    JSON_FIELD_LAST,
};

/* {"action","runId","path"}: what became of the message, and the page of its run. */
void act_send(const struct call *call)
{
    struct send_params params = { .mode = RUN_MESSAGE_AUTO };
    struct run_message message = { .session =
                                       call->run != NULL ? &call->run->session : call->session,
                                   .idempotency_key = "" };
    AUTO_BUF struct buf body = BUF_INIT(4096);
    AUTO_BUF struct buf path = BUF_INIT(1024);
    struct error err = ERROR_INIT;
    enum run_send_action action;
    struct json_writer writer;
    struct run_record run;

    if (!read_body(call, send_fields, &params))
        return;
    message.text = params.message;
    message.mode = (enum run_send_mode)params.mode;
    run_record_init(&run);
    if (run_send(call->conn->web->runs, &message, &action, &run, &err) < 0) {
        web_respond_failure(call->conn->http, &err);
    } else {
        web_append_run_path(call, run.id.text, &path);
        json_write_init(&writer, &body);
        json_write_object(&writer);
        json_member_string(&writer, "action", run_message_action_names[action]);
        json_member_string(&writer, "runId", run.id.text);
        json_member_string(&writer, "path", buf_text(&path));
        json_write_object_end(&writer);
        web_respond_json(call->conn->http, 200, &body);
    }
    run_record_finish(&run);
}

/* Sessions
 * ---------------------------------------------------------------------------------------------------------
 */

/* Outlives its connection when the browser goes away first. */
struct deletion {
    struct web_conn *conn;
};

void act_conn_gone(struct web_conn *conn)
{
    if (conn->deletion != NULL)
        conn->deletion->conn = NULL;
    conn->deletion = NULL;
}

static void on_deleted(void *data, const struct error *err)
{
    struct deletion *deletion = data;
    struct web_conn *conn = deletion->conn;
    struct call call = { .conn = conn };

    free(deletion);
    if (conn == NULL)
        return;
    conn->deletion = NULL;
    if (err != NULL)
        web_respond_failure(conn->http, err);
    else
        respond_word(&call, 200, "deleted");
}

void act_delete(const struct call *call)
{
    struct deletion *deletion = NEW(struct deletion);
    struct error err = ERROR_INIT;

    deletion->conn = call->conn;
    if (session_delete(call->conn->web->runs, call->session, on_deleted, deletion, &err) < 0) {
        free(deletion);
        web_respond_failure(call->conn->http, &err);
        return;
    }
    call->conn->deletion = deletion;
    log_info(call->session->text, "is deleted from the page");
}
