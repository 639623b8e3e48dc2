/* on_backup.c: backup.create and backup.restore. */
#include "backup/backup.h"
#include "control/pending.h"
#include "proto/msg_session.h"

static void on_brought_back(void *data, const struct id *session, const struct error *err)
{
    struct pending *pending = data;

    pending->session = *session;
    pending_over(pending, err);
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
    struct backup_place *place;
    struct pending *pending;
    int rc;

    if (request_read(request, backup_create_fields, &params) < 0)
        return;
    pending = pending_about(request, params.sessionId);
    if (pending == NULL)
        return;
    place = place_new(request, &params, &err);
    rc = place == NULL ? -1
                       : session_backup(request->control->runs, &pending->session, place,
                                        pending_over, pending, &err);
    pending_begun(pending, rc, &err);
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
    pending_init(pending, request);
    place = place_new(request, &params, &err);
    rc = place == NULL
             ? -1
             : session_bring_back(request->control->runs, place, on_brought_back, pending, &err);
    pending_begun(pending, rc, &err);
}
