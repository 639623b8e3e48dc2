/* backup.c: a session into one file. Records are read on the loop, a bounded part at a time, and
 * written by a thread, which also adds the files of a checkpoint that is made for it. */
#include "backup/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/json_write.h"
#include "run/internal.h"

#define BATCH_BYTES (2u << 20) /* after which a part is written */
#define BATCH_MAX (40u << 20)  /* one record more always fits */
#define RUNS_MAX 100000

enum step { STEP_HEAD, STEP_RUNS, STEP_FILES };

struct backup {
    struct runs *runs;
    struct session_task *task;
    struct session_record session;
    struct workspace_layout layout;
    struct backup_place *place;
    uint32_t number;
    char *chain;
    struct id *ids; /* of runs that have ended, newest first */
    size_t id_count;
    size_t at;      /* the run at hand */
    bool in_events; /* it is written but for its events, */
    uint64_t after; /* up to this one */
    enum step step;
    struct buf batch;
    struct archive_writer *writer; /* the thread's, as are the next two, while it works */
    uv_work_t work;
    struct error error;
    session_cb done;
    void *data;
};

static void backup_free(struct backup *backup)
{
    backup->runs->backing_up = false;
    archive_writer_free(backup->writer);
    backup_place_free(backup->place);
    session_task_end(backup->task);
    session_record_finish(&backup->session);
    workspace_layout_finish(&backup->layout);
    buf_finish(&backup->batch);
    free(backup->chain);
    free(backup->ids);
    free(backup);
}

static void finish(struct backup *backup)
{
    session_cb done = backup->done;
    void *data = backup->data;
    struct error err = backup->error;

    log_info(backup->session.id.text, "%s",
             err.code == ERR_NONE ? "backed up" : backup->error.text);
    backup_free(backup);
    done(data, err.code != ERR_NONE ? &err : NULL);
}

/* The thread ---------------------------------------------------------------------------------- */

static int add_file(struct backup *backup, const char *name, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s/%s", backup->layout.checkpoints, name);
    AUTO_CLOSE
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? 1 : error_set(err, ERR_SYSTEM, errno, "open %s", name);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, ERR_SYSTEM, 0, "%s is no file", name);
    return archive_write_file(backup->writer, name, fd, (uint64_t)st.st_size, err);
}

/* Whichever of the two forms of compression it has. */
static int add_either(struct backup *backup, unsigned number, const char *what, struct error *err)
{
    static const char *const endings[] = { "zst", "gz" };

    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        AUTO_FREE
        char *name = mem_printf("%u/%s.%s", number, what, endings[i]);
        int rc = add_file(backup, name, err);

        if (rc <= 0)
            return rc;
    }
    return error_set(err, ERR_SYSTEM, 0, "checkpoint %u has lost its %s", number, what);
}

static int add_files(struct backup *backup, struct error *err)
{
    static const char *const parts[] = { "list", "files.tar", "state.tar" };

    for (const char *at = backup->chain; *at != '\0';) {
        char *end;
        unsigned number = (unsigned)strtoul(at, &end, 10);

        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
            if (add_either(backup, number, parts[i], err) < 0)
                return -1;
        }
        at = *end == ' ' ? end + 1 : end;
    }
    return 0;
}

static void write_part(uv_work_t *work)
{
    struct backup *backup = work->data;
    struct error *err = &backup->error;
    const struct backup_place *place = backup->place;

    if (backup->writer == NULL &&
        archive_create(&backup->writer, place->path, place->passphrase, err) < 0)
        return;
    if (backup->batch.len > 0 &&
        archive_write(backup->writer, backup->batch.data, backup->batch.len, err) < 0)
        return;
    if (backup->step == STEP_FILES && add_files(backup, err) == 0 &&
        archive_finish(backup->writer, err) == 0)
        backup_place_send(place, err);
}

/* The loop ------------------------------------------------------------------------------------ */

static void go_on(struct backup *backup);

static void after_part(uv_work_t *work, int status)
{
    struct backup *backup = work->data;
    struct runs *runs = backup->runs;

    if (status < 0 || runs->closing)
        error_set(&backup->error, ERR_CANCELLED, 0, "the backup was called off");
    if (backup->error.code != ERR_NONE || backup->step == STEP_FILES)
        finish(backup);
    else
        go_on(backup);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

static void append_manifest(struct backup *backup)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    struct json_writer writer;

    json_write_init(&writer, &text);
    json_write_object(&writer);
    json_member_u64(&writer, "version", 1);
    json_member_string(&writer, "sessionId", backup->session.id.text);
    json_member_string(&writer, "title", backup->session.title);
    json_member_u64(&writer, "createdAt", clock_wall_ms(backup->runs->clock));
    json_member_u64(&writer, "checkpoint", backup->number);
    json_member_u64(&writer, "runs", backup->id_count);
    json_write_object_end(&writer);
    archive_append(&backup->batch, ARCHIVE_MANIFEST, "", buf_text(&text), text.len);
}

static void append_checkpoint(struct backup *backup, uint32_t number)
{
    AUTO_BUF struct buf bytes = BUF_INIT(BATCH_BYTES);
    AUTO_FREE
    char *name = mem_printf("%u", (unsigned)number);
    struct checkpoint_record record;

    checkpoint_record_init(&record);
    if (store_checkpoint_load(backup->runs->store, &backup->session.id, number, &record,
                              &backup->error) == 0) {
        checkpoint_record_encode(&record, &bytes);
        archive_append(&backup->batch, ARCHIVE_CHECKPOINT, name, bytes.data, bytes.len);
    }
    checkpoint_record_finish(&record);
}

/* What the session was when the checkpoint was made. */
static void fill_head(struct backup *backup)
{
    AUTO_BUF struct buf bytes = BUF_INIT(BATCH_BYTES);
    struct session_record *session = &backup->session;

    session->run_count = backup->id_count;
    session->last_run = backup->id_count > 0 ? backup->ids[0] : (struct id){ "" };
    session_record_encode(session, &bytes);
    append_manifest(backup);
    archive_append(&backup->batch, ARCHIVE_SESSION, "", bytes.data, bytes.len);
    for (const char *at = backup->chain; *at != '\0';) {
        char *end;

        append_checkpoint(backup, (uint32_t)strtoul(at, &end, 10));
        at = *end == ' ' ? end + 1 : end;
    }
    backup->step = STEP_RUNS;
}

static bool append_event(void *data, const struct event_record *event)
{
    struct backup *backup = data;
    AUTO_BUF struct buf bytes = BUF_INIT(BATCH_MAX);
    AUTO_FREE
    char *name =
        mem_printf("%s %llu", backup->ids[backup->at].text, (unsigned long long)event->number);

    event_record_encode(event, &bytes);
    archive_append(&backup->batch, ARCHIVE_EVENT, name, bytes.data, bytes.len);
    backup->after = event->number;
    return backup->batch.len < BATCH_BYTES;
}

static void append_run(struct backup *backup)
{
    struct store *store = backup->runs->store;
    const struct id *id = &backup->ids[backup->at];
    AUTO_BUF struct buf bytes = BUF_INIT(BATCH_MAX);
    AUTO_BUF struct buf diff = BUF_INIT(STORE_DIFF_MAX);
    struct error none = ERROR_INIT;
    struct run_record run;

    run_record_init(&run);
    if (store_run_load(store, id, &run, &backup->error) == 0) {
        run_record_encode(&run, &bytes);
        archive_append(&backup->batch, ARCHIVE_RUN, "", bytes.data, bytes.len);
        if (store_diff_load(store, id, &diff, &none) == 0)
            archive_append(&backup->batch, ARCHIVE_DIFF, id->text, diff.data, diff.len);
    }
    run_record_finish(&run);
    backup->in_events = true;
    backup->after = 0;
}

static void fill_runs(struct backup *backup)
{
    while (backup->at < backup->id_count && backup->batch.len < BATCH_BYTES &&
           backup->error.code == ERR_NONE) {
        if (!backup->in_events)
            append_run(backup);
        if (store_event_each(backup->runs->store, &backup->ids[backup->at], backup->after, 0,
                             append_event, backup, &backup->error) < 0)
            return;
        if (backup->batch.len >= BATCH_BYTES)
            return; /* there may be more of it */
        backup->in_events = false;
        backup->at++;
    }
    if (backup->at == backup->id_count)
        backup->step = STEP_FILES;
}

static void go_on(struct backup *backup)
{
    struct runs *runs = backup->runs;

    buf_clear(&backup->batch);
    if (backup->step == STEP_HEAD)
        fill_head(backup);
    else
        fill_runs(backup);
    if (backup->batch.failed)
        error_set(&backup->error, ERR_LIMIT, 0, "a record of the session is too large");
    /* From then on it is the thread's. */
    if (backup->error.code == ERR_NONE &&
        uv_queue_work(runs->loop, &backup->work, write_part, after_part) == 0) {
        runs->open_runs++;
        return;
    }
    if (backup->error.code == ERR_NONE)
        error_set(&backup->error, ERR_SYSTEM, 0, "no thread for the backup");
    finish(backup);
}

static bool add_id(void *data, const struct run_record *run)
{
    struct backup *backup = data;

    if (run_ended(run))
        backup->ids[backup->id_count++] = run->id;
    return backup->id_count < RUNS_MAX;
}

static int list_runs(struct backup *backup, struct error *err)
{
    const struct store_run_filter filter = { .session = &backup->session.id };

    backup->ids = mem_new_zero(RUNS_MAX, sizeof(*backup->ids));
    return store_run_each(backup->runs->store, &filter, add_id, backup, err);
}

static void on_checkpoint(void *data, uint32_t number, const struct error *err)
{
    struct backup *backup = data;

    backup->number = number;
    if (err != NULL)
        backup->error = *err;
    else if (store_session_load(backup->runs->store, &backup->session.id, &backup->session,
                                &backup->error) == 0 &&
             list_runs(backup, &backup->error) == 0)
        backup->chain = checkpoint_chain(backup->runs, &backup->session.id, number, &backup->error);
    if (backup->error.code != ERR_NONE)
        finish(backup);
    else
        go_on(backup);
}

bool runs_backup_at_work(const struct runs *runs)
{
    return runs->backing_up;
}

int session_backup(struct runs *runs, const struct id *id, struct backup_place *place,
                   session_cb done, void *data, struct error *err)
{
    struct backup *backup;
    struct checkpoint_request request = { .reason = CHECKPOINT_ASKED, .done = on_checkpoint };

    if (runs->backing_up) {
        backup_place_free(place);
        return error_set(err, ERR_CONFLICT, 0, "another backup is being made or brought back");
    }
    backup = NEW(struct backup);
    runs->backing_up = true;
    backup->runs = runs;
    backup->place = place;
    backup->done = done;
    backup->data = data;
    backup->work.data = backup;
    buf_init(&backup->batch, BATCH_MAX);
    session_record_init(&backup->session);
    workspace_layout_init(&backup->layout, runs->options.state_dir, id->text);
    request.session = &backup->session;
    request.data = backup;
    if (store_session_load(runs->store, id, &backup->session, err) == 0 &&
        session_task_check_run(runs, &backup->session, err) == 0 &&
        session_task_begin(&backup->task, runs, id, SESSION_TASK_READ, "being backed up", err) ==
            0 &&
        checkpoint_start(runs, &request, err) == 0)
        return 0;
    backup_free(backup);
    return -1;
}
