/* on_backup.c: backup.create and backup.restore. */
#include "backup/backup.h"
#include "control/internal.h"
#include "proto/msg_session.h"

/* Outlives its request when the client goes away first. */
struct pending {
    struct request *request;
    struct id session;
};

static void on_drop(struct request *request)
{
    struct pending *pending = request->state;

    pending->request = NULL;
}

static void on_over(void *data, const struct error *err)
{
    struct pending *pending = data;
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    if (pending->request != NULL && err != NULL) {
        request_fail(pending->request, err);
    } else if (pending->request != NULL) {
        json_write_init(&writer, &body);
        json_write_object(&writer);
        json_member_string(&writer, "sessionId", pending->session.text);
        json_write_object_end(&writer);
        request_reply(pending->request, &body);
    }
    free(pending);
}

static void on_brought_back(void *data, const struct id *session, const struct error *err)
{
    struct pending *pending = data;

    pending->session = *session;
    on_over(pending, err);
}

static void begun(struct pending *pending, int rc, const struct error *err)
{
    struct request *request = pending->request;

    if (rc < 0) {
        free(pending);
        request_fail(request, err);
        return;
    }
    request->state = pending;
    request->drop = on_drop;
}

static int fill_storage(struct control *control, const char *key, struct backup_place *place,
                        struct error *err)
{
    const struct control_storage *storage = &control->storage;

    if (!s3_key_valid(key))
        return error_argument(err, "key", "is a path of letters, digits, dots, dashes and slashes");
    if (storage->endpoint[0] == '\0' || storage->bucket[0] == '\0')
        return error_set(err, ERR_CONFLICT, 0,
                         "no storage is configured: set backup.endpoint and backup.bucket");
    place->key = mem_strdup(key);
    place->endpoint = mem_strdup(storage->endpoint);
    place->region = mem_strdup(storage->region);
    place->bucket = mem_strdup(storage->bucket);
    place->access_key = vault_copy(control->vault, storage->access_key, err);
    if (place->access_key != NULL)
        place->secret_key = vault_copy(control->vault, storage->secret_key, err);
    if (place->secret_key == NULL)
        return -1;
    /* Of an earlier one, whose supervisor died; there is one at a time. */
    place->path = mem_printf("%s/backup.tmp", control->state_dir);
    place->remove_path = true;
    return 0;
}

static int fill_place(struct request *request, const struct backup_params *params,
                      struct backup_place *place, struct error *err)
{
    struct control *control = request->control;

    if (!request->is_local_person)
        return error_set(err, ERR_DENIED, 0,
                         "only sandboxctl may make backups and bring them back");
    if ((params->file != NULL) == (params->key != NULL))
        return error_argument(err, "file", "give either file or key");
    if (params->file != NULL && params->file[0] != '/')
        return error_argument(err, "file", "must be an absolute path");
    if (params->passphrase != NULL) {
        if (!vault_name_valid(params->passphrase))
            return error_argument(err, "passphrase", "is the name of a stored secret");
        place->passphrase = vault_copy(control->vault, params->passphrase, err);
        if (place->passphrase == NULL)
            return -1;
    }
    if (params->file == NULL)
        return fill_storage(control, params->key, place, err);
    place->path = mem_strdup(params->file);
    return 0;
}

static struct backup_place *place_new(struct request *request, const struct backup_params *params,
                                      struct error *err)
{
    struct backup_place *place = NEW(struct backup_place);

    if (fill_place(request, params, place, err) == 0) {
        if (!runs_backup_at_work(request->control->runs))
            backup_place_clear(place);
        return place;
    }
    backup_place_free(place);
    return NULL;
}

void on_backup_create(struct request *request)
{
    struct backup_params params = { 0 };
    struct error err = ERROR_INIT;
    struct backup_place *place = NULL;
    struct pending *pending;
    int rc;

    if (request_read(request, backup_create_fields, &params) < 0)
        return;
    pending = NEW(struct pending);
    pending->request = request;
    rc = session_id_parse(params.sessionId, &pending->session, &err);
    if (rc == 0)
        place = place_new(request, &params, &err);
    rc = place == NULL ? -1
                       : session_backup(request->control->runs, &pending->session, place, on_over,
                                        pending, &err);
    begun(pending, rc, &err);
}

void on_backup_restore(struct request *request)
{
    struct backup_params params = { 0 };
    struct error err = ERROR_INIT;
    struct backup_place *place;
    struct pending *pending;
    int rc;

    if (request_read(request, backup_restore_fields, &params) < 0)
        return;
    pending = NEW(struct pending);
    pending->request = request;
    place = place_new(request, &params, &err);
    rc = place == NULL
             ? -1
             : session_bring_back(request->control->runs, place, on_brought_back, pending, &err);
    begun(pending, rc, &err);
}
