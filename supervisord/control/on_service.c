/* on_service.c: secrets and services. A secret's value comes as a blob and goes straight to the
 * vault. */
#include "common/str.h"
#include "control/internal.h"
#include "proto/msg_service.h"
#include "view/view.h"

static int check_name(const char *name, struct error *err)
{
    if (vault_name_valid(name))
        return 0;
    return error_argument(
        err, "name",
        "a secret's name is an upper-case letter, then upper-case letters, digits and _");
}

void on_secret_set(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct secret_name_params params = { 0 };
    struct error err = ERROR_INIT;
    struct json_writer writer;
    bool replaced = false;

    if (request_read(request, secret_name_fields, &params) < 0)
        return;
    if (check_name(params.name, &err) < 0 ||
        vault_put(request->control->vault, params.name, request->blob, request->blob_len, &replaced,
                  &err) < 0) {
        request_fail(request, &err);
        return;
    }
    log_info("control", "secret %s %s", params.name, replaced ? "replaced" : "stored");
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "name", params.name);
    json_member_bool(&writer, "replaced", replaced);
    json_write_object_end(&writer);
    request_reply(request, &body);
}

static void write_secret(void *data, const struct vault_entry *entry)
{
    struct secret_view view = { .name = entry->name,
                                .source = entry->source,
                                .updatedAt = entry->updated_ms };

    secret_view_write(data, &view);
}

static const struct json_field no_fields[] = { JSON_FIELD_LAST };

void on_secret_list(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct json_writer writer;

    if (request_read(request, no_fields, NULL) < 0)
        return;
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_write_name(&writer, "secrets");
    json_write_array(&writer);
    vault_each(request->control->vault, write_secret, &writer);
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    request_reply(request, &body);
}

void on_secret_delete(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct secret_name_params params = { 0 };
    struct error err = ERROR_INIT;
    struct json_writer writer;

    if (request_read(request, secret_name_fields, &params) < 0)
        return;
    if (check_name(params.name, &err) < 0 ||
        vault_delete(request->control->vault, params.name, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    log_info("control", "secret %s deleted", params.name);
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "name", params.name);
    json_write_object_end(&writer);
    request_reply(request, &body);
}

void on_service_list(struct request *request)
{
    struct control *control = request->control;
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct json_writer writer;

    if (request_read(request, no_fields, NULL) < 0)
        return;
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_write_name(&writer, "services");
    json_write_array(&writer);
    for (size_t i = 0; i < control->service_count; i++) {
        const struct known_service *service = &control->services[i];
        struct service_view view = {
            .name = service->name,
            .target = service->target,
            .secret = service->secret,
            .secretPresent =
                service->secret[0] == '\0' || vault_has(control->vault, service->secret),
        };

        service_view_write(&writer, &view);
    }
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    request_reply(request, &body);
}

/* Outlives its request when the client goes away first. */
struct service_check {
    struct request *request;
    const struct known_service *service;
};

static void on_check_drop(struct request *request)
{
    struct service_check *check = request->state;

    check->request = NULL;
}

static void on_checked(void *data, const struct control_service_check *result)
{
    struct service_check *check = data;
    AUTO_BUF struct buf body = BUF_INIT(16u << 10);
    struct json_writer writer;

    if (check->request != NULL) {
        const struct service_check_view view = { .name = check->service->name,
                                                 .target = check->service->target,
                                                 .secret = check->service->secret,
                                                 .outcome = result->outcome,
                                                 .status = result->status,
                                                 .reason = result->reason };

        json_write_init(&writer, &body);
        service_check_view_write(&writer, &view);
        request_reply(check->request, &body);
    }
    free(check);
}

static const struct known_service *find_service(const struct control *control, const char *name)
{
    for (size_t i = 0; i < control->service_count; i++)
        if (str_equal(control->services[i].name, name))
            return &control->services[i];
    return NULL;
}

void on_service_check(struct request *request)
{
    struct control *control = request->control;
    struct service_check_params params = { 0 };
    struct error err = ERROR_INIT;
    struct service_check *check;

    if (request_read(request, service_check_fields, &params) < 0)
        return;
    const struct known_service *service = find_service(control, params.name);
    if (service == NULL) {
        error_set(&err, ERR_NOT_FOUND, 0, "no service %.64s is configured; service.list names them",
                  params.name);
        request_fail(request, &err);
        return;
    }
    if (control->check_service == NULL) {
        error_set(&err, ERR_UNAVAILABLE, 0, "services can't be tried here");
        request_fail(request, &err);
        return;
    }
    check = NEW(struct service_check);
    *check = (struct service_check){ request, service };
    request->state = check;
    request->drop = on_check_drop;
    if (control->check_service(control->data, service->name, on_checked, check, &err) == 0)
        return;
    request->drop = NULL;
    free(check);
    request_fail(request, &err);
}
