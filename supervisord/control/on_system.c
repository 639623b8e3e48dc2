/* on_system.c: hello, system.status, system.check, system.machine,
 * system.shutdown. */
#include <unistd.h>

#include "control/internal.h"
#include "proto/msg_run.h"
#include "proto/msg_system.h"
#include "proto/version.h"
#include "view/view.h"

void on_hello(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct hello_params params = { 0 };
    struct hello_result result = { .protocol = PROTO_VERSION,
                                   .pid = (uint64_t)getpid(),
                                   .version = request->control->version };
    struct error err = ERROR_INIT;
    struct json_writer writer;

    if (json_read(request->params, hello_params_fields, JSON_STRICT, &params, &err) < 0) {
        conn_refuse(request, &err);
        return;
    }
    if (params.protocol != PROTO_VERSION) {
        error_set(&err, ERR_CONFLICT, 0,
                  "the supervisor (%s) speaks protocol %d, this client (%s) speaks %u; restart the "
                  "older one",
                  request->control->version, PROTO_VERSION,
                  params.version != NULL ? params.version : "?", (unsigned)params.protocol);
        conn_refuse(request, &err);
        return;
    }
    conn_greeted(request, hello_roles[params.role], params.version != NULL ? params.version : "");
    json_write_init(&writer, &body);
    hello_result_write(&writer, &result);
    request_reply(request, &body);
}

/* The view's own address is what stands before a run's path. */
static void web_root(struct control *control, struct buf *out)
{
    AUTO_BUF struct buf url = BUF_INIT(4096);
    const char *end;

    control_web_url(control, "", &url);
    end = strstr(buf_text(&url), "/runs/");
    buf_append(out, buf_text(&url), end != NULL ? (size_t)(end - buf_text(&url)) : url.len);
}

void on_system_status(struct request *request)
{
    struct control *control = request->control;
    AUTO_BUF struct buf body = BUF_INIT(64u << 10);
    AUTO_BUF struct buf web = BUF_INIT(4096);
    uint64_t counts[RUN_STATUS_COUNT] = { 0 };
    struct error err = ERROR_INIT;
    struct json_writer writer;
    struct system_status status = {
        .version = control->version,
        .pid = (uint64_t)getpid(),
        .startedAt = control->started_wall_ms,
        .uptimeSeconds = (clock_mono_ms(control->clock) - control->started_mono_ms) / 1000,
        .socket = control->socket_path,
        .state = control->state_dir,
        .sandboxTool = control->sandbox_tool,
        .runs_by_status = counts,
        .connections = control_connections(control),
    };
    static const struct json_field no_fields[] = { JSON_FIELD_LAST };

    if (request_read(request, no_fields, &status) < 0)
        return;
    if (view_counts(control->store, counts, &err) < 0 ||
        store_session_count(control->store, &status.sessions, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    web_root(control, &web);
    status.webUrl = buf_text(&web);
    json_write_init(&writer, &body);
    system_status_write(&writer, &status);
    request_reply(request, &body);
}

/* Outlives its request when the client goes away first. */
struct check {
    struct request *request;
};

static void on_check_drop(struct request *request)
{
    struct check *check = request->state;

    check->request = NULL;
}

static void write_layers(struct json_writer *writer, const char *name, uint32_t layers)
{
    json_write_name(writer, name);
    json_write_array(writer);
    for (int layer = 0; layer < SANDBOX_LAYER_COUNT; layer++) {
        if (layers & UINT32_C(1) << layer)
            json_write_string(writer, sandbox_layer_name((enum sandbox_layer)layer));
    }
    json_write_array_end(writer);
}

static void on_checked(void *data, uint32_t layers, const struct error *err)
{
    struct check *check = data;
    AUTO_BUF struct buf body = BUF_INIT(16u << 10);
    struct json_writer writer;

    if (check->request != NULL && err != NULL) {
        request_fail(check->request, err);
    } else if (check->request != NULL) {
        json_write_init(&writer, &body);
        json_write_object(&writer);
        write_layers(&writer, "layers", layers);
        write_layers(&writer, "missing", ~layers);
        json_write_object_end(&writer);
        request_reply(check->request, &body);
    }
    free(check);
}

void on_system_check(struct request *request)
{
    static const struct json_field no_fields[] = { JSON_FIELD_LAST };
    struct error err = ERROR_INIT;
    struct check *check;

    if (request_read(request, no_fields, NULL) < 0)
        return;
    check = NEW(struct check);
    check->request = request;
    if (runs_try_sandbox(request->control->runs, on_checked, check, &err) < 0) {
        free(check);
        request_fail(request, &err);
        return;
    }
    request->state = check;
    request->drop = on_check_drop;
}

static void write_agent(void *data, const struct runs_agent *agent)
{
    const struct system_agent_view view = { .name = agent->name,
                                            .program = agent->program,
                                            .problem = agent->problem,
                                            .install = agent->install,
                                            .isDefault = agent->is_default };

    system_agent_view_write(data, &view);
}

void on_system_machine(struct request *request)
{
    static const struct json_field no_fields[] = { JSON_FIELD_LAST };
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    AUTO_BUF struct buf limits = BUF_INIT(4096);
    struct json_writer writer;

    if (request_read(request, no_fields, NULL) < 0)
        return;
    runs_describe_limits(request->control->runs, &limits);
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "limits", buf_text(&limits));
    json_write_name(&writer, "agents");
    json_write_array(&writer);
    runs_each_agent(request->control->runs, write_agent, &writer);
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    request_reply(request, &body);
}

void on_system_shutdown(struct request *request)
{
    struct control *control = request->control;
    static const struct json_field no_fields[] = { JSON_FIELD_LAST };

    if (request_read(request, no_fields, NULL) < 0)
        return;
    log_info("control", "a client asked for the end");
    request_reply(request, NULL);
    if (control->on_shutdown != NULL)
        control->on_shutdown(control->data);
}
