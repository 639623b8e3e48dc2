/* bring_back.c: a session out of a backup. A backup is what somebody hands over: every record is
 * judged, and files only get names of ours, in a folder that is unpacked in a sandbox later. The
 * session's record says that it is not whole until all of it is there. */
#include "backup/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/str.h"
#include "run/internal.h"

#define BATCH_BYTES (2u << 20)
#define RECORD_MAX (16u << 20)
#define ENTRIES_MAX 4096
#define FILE_MAX (UINT64_C(16) << 30)

struct entry {
    struct archive_entry head;
    char *data;
};

struct bringing {
    struct runs *runs;
    struct session_task *task;
    struct session_record session;
    struct workspace_layout layout;
    bool begun; /* the session's record is in the store */
    uint32_t newest;
    struct backup_place *place;
    struct archive_reader *reader; /* the thread's, as is what follows, while it works */
    bool fetched;
    bool ended;
    struct entry *entries;
    size_t count;
    struct error error;
    uv_work_t work;
    void (*done)(void *data, const struct id *session, const struct error *err);
    void *data;
};

static void forget_entries(struct bringing *bringing)
{
    for (size_t i = 0; i < bringing->count; i++)
        free(STEAL(bringing->entries[i].data));
    bringing->count = 0;
}

static void bringing_free(struct bringing *bringing)
{
    bringing->runs->backing_up = false;
    forget_entries(bringing);
    free(bringing->entries);
    archive_reader_free(bringing->reader);
    backup_place_free(bringing->place);
    session_task_end(bringing->task);
    session_record_finish(&bringing->session);
    workspace_layout_finish(&bringing->layout);
    free(bringing);
}

static void on_removed(void *data, const struct error *err)
{
    (void)data;
    (void)err; /* session.c has logged it */
}

static void finish(struct bringing *bringing)
{
    void (*done)(void *, const struct id *, const struct error *) = bringing->done;
    struct runs *runs = bringing->runs;
    void *data = bringing->data;
    struct error err = bringing->error;
    struct id id = bringing->session.id;
    bool remove = bringing->begun && err.code != ERR_NONE && !runs->closing;
    struct error ignored = ERROR_INIT;

    log_info("backup", "%s %s", id.text, err.code == ERR_NONE ? "is brought back" : err.text);
    bringing_free(bringing);
    if (remove && session_delete(runs, &id, on_removed, NULL, &ignored) < 0)
        log_warn(id.text, "left for the next start: %s", ignored.text);
    done(data, &id, err.code != ERR_NONE ? &err : NULL);
}

/* The thread ---------------------------------------------------------------------------------- */

/* "NUMBER/list.zst" and the like: what checkpoint.c calls its files. */
static bool split_name(const char *name, char number[12], const char **file)
{
    static const char *const files[] = { "list.zst",     "list.gz",       "files.tar.zst",
                                         "files.tar.gz", "state.tar.zst", "state.tar.gz" };
    size_t len = strspn(name, "0123456789");

    if (len == 0 || len > 9 || name[0] == '0' || name[len] != '/')
        return false;
    memcpy(number, name, len);
    number[len] = '\0';
    *file = name + len + 1;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (str_equal(files[i], *file))
            return true;
    }
    return false;
}

static int copy_out(struct bringing *bringing, int fd, uint64_t len, struct error *err)
{
    char part[32768];

    while (len > 0) {
        size_t size = len < sizeof(part) ? (size_t)len : sizeof(part);

        if (archive_read(bringing->reader, part, size, err) < 0 ||
            fd_write_all(fd, part, size, err) < 0)
            return -1;
        len -= size;
    }
    return 0;
}

/* The folder was made for this and belongs to nobody who runs. */
static int take_file(struct bringing *bringing, const struct archive_entry *entry,
                     struct error *err)
{
    uid_t uid = bringing->session.host_uid;
    AUTO_CLOSE
    int top = open(bringing->layout.checkpoints, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE
    int folder = -1;
    AUTO_CLOSE
    int fd = -1;
    char number[12];
    const char *file;

    if (!split_name(entry->name, number, &file) || entry->len > FILE_MAX)
        return error_set(err, ERR_INVALID, 0, "the backup has a file that is none of a checkpoint");
    if (top < 0 || (mkdirat(top, number, 0755) < 0 && errno != EEXIST))
        return error_set(err, ERR_SYSTEM, errno, "make a folder for checkpoint %s", number);
    folder = openat(top, number, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        fd = openat(folder, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fchown(folder, uid, uid) < 0 || fchown(fd, uid, uid) < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a file of checkpoint %s", number);
    return copy_out(bringing, fd, entry->len, err) < 0 || fsync(fd) < 0 ? -1 : 0;
}

static int take_record(struct bringing *bringing, const struct archive_entry *entry,
                       struct error *err)
{
    struct entry *to = &bringing->entries[bringing->count];

    if (entry->len > RECORD_MAX)
        return error_set(err, ERR_INVALID, 0, "the backup has a record that is too large");
    to->head = *entry;
    to->data = mem_new_zero((size_t)entry->len + 1, 1);
    bringing->count++;
    return archive_read(bringing->reader, to->data, (size_t)entry->len, err);
}

/* Files come behind the session's record, for which the loop makes their folder. */
static int read_entries(struct bringing *bringing, struct error *err)
{
    struct archive_entry entry;
    size_t bytes = 0;
    int rc = 1;

    while (bytes < BATCH_BYTES && bringing->count < ENTRIES_MAX) {
        rc = archive_next(bringing->reader, &entry, err);
        if (rc <= 0)
            break;
        if (entry.kind == ARCHIVE_FILE && !bringing->begun)
            return error_set(err, ERR_INVALID, 0, "the backup has files before its session");
        if (entry.kind == ARCHIVE_FILE ? take_file(bringing, &entry, err) < 0
                                       : take_record(bringing, &entry, err) < 0)
            return -1;
        bytes += entry.kind == ARCHIVE_FILE ? 0 : (size_t)entry.len;
        if (entry.kind == ARCHIVE_SESSION)
            break;
    }
    bringing->ended = rc == 0;
    return rc < 0 ? -1 : 0;
}

static void read_part(uv_work_t *work)
{
    struct bringing *bringing = work->data;
    const struct backup_place *place = bringing->place;
    struct error *err = &bringing->error;

    if (!bringing->fetched && backup_place_fetch(place, err) < 0)
        return;
    bringing->fetched = true;
    if (bringing->reader == NULL &&
        archive_open(&bringing->reader, place->path, place->passphrase, err) < 0)
        return;
    if (read_entries(bringing, err) < 0 && err->code == ERR_NONE)
        error_set(err, ERR_SYSTEM, errno, "write the backup's files");
}

/* The loop ------------------------------------------------------------------------------------ */

static int wrong(struct error *err, const char *what)
{
    return error_set(err, ERR_INVALID, 0, "the backup is not in order: %s", what);
}

/* What was not cloned would be, by an address that nobody has judged here: it is forgotten. */
static bool clean_places(struct session_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *folder = places[i].directory;

        if (folder[0] == '/' || strstr(folder, "..") != NULL || strlen(folder) > 200)
            return false;
        if (places[i].cloned)
            continue;
        record_set(&places[i].repository, "");
        record_set(&places[i].branch, "");
    }
    return true;
}

/* What it may push and overwrite elsewhere is believed only of a sealed backup. */
static void disclaim(struct session_record *session)
{
    record_set(&session->pushed, "");
    for (size_t i = 0; i < SESSION_PLACES_MAX; i++)
        record_set(&session->places[i].work_branch, "");
}

static int apply_session(struct bringing *bringing, const struct entry *entry, struct error *err)
{
    struct runs *runs = bringing->runs;
    struct session_record *session = &bringing->session;
    struct session_record known;
    struct error none = ERROR_INIT;
    struct id id;
    int rc;

    if (bringing->begun ||
        session_record_decode(entry->data, (size_t)entry->head.len, session, err) < 0)
        return wrong(err, "its session");
    if (!id_parse(ID_KIND_SESSION, session->id.text, &id) ||
        !clean_places(session->places, session->place_count))
        return wrong(err, "its session's places");
    session_record_init(&known);
    rc = store_session_load(runs->store, &session->id, &known, &none);
    session_record_finish(&known);
    if (rc == 0)
        return error_set(err, ERR_CONFLICT, 0, "session %s is here already", session->id.text);
    session->making = true;
    session->restoring = 0;
    session->run_count = 0;
    session->last_run = (struct id){ "" };
    if (!archive_is_sealed(bringing->reader))
        disclaim(session);
    workspace_layout_init(&bringing->layout, runs->options.state_dir, session->id.text);
    if (session_uid(runs, &session->host_uid, err) < 0 ||
        session_task_begin(&bringing->task, runs, &session->id, SESSION_TASK_CHANGE,
                           "being brought back", err) < 0 ||
        store_session_update(runs->store, session, err) < 0)
        return -1;
    bringing->begun = true;
    return workspace_make(&bringing->layout, session->host_uid, err);
}

static int apply_checkpoint(struct bringing *bringing, const struct entry *entry, struct error *err)
{
    struct checkpoint_record record;
    uint64_t number = 0;
    int rc;

    if (!str_parse_u64(entry->head.name, 999999999, &number) || number <= bringing->newest)
        return wrong(err, "a checkpoint");
    checkpoint_record_init(&record);
    record.number = (uint32_t)number;
    rc = checkpoint_record_decode(entry->data, (size_t)entry->head.len, &record, err);
    if (rc == 0 && !clean_places(record.places, record.place_count))
        rc = wrong(err, "a checkpoint's places");
    if (rc == 0)
        rc = store_checkpoint_add(bringing->runs->store, &bringing->session.id, &record, 0, err);
    checkpoint_record_finish(&record);
    bringing->newest = (uint32_t)number;
    return rc;
}

static int apply_run(struct bringing *bringing, const struct entry *entry, struct error *err)
{
    struct session_record *session = &bringing->session;
    struct run_record run;
    int rc;

    run_record_init(&run);
    rc = run_record_decode(entry->data, (size_t)entry->head.len, &run, err);
    if (rc < 0 || !run_ended(&run) || run.state >= RUN_STATE_COUNT ||
        !str_equal(run.session.text, session->id.text) || run.place >= session->place_count ||
        run.id.text[0] == '\0') {
        rc = wrong(err, "a run");
    } else {
        /* Newest first. */
        if (session->run_count++ == 0)
            session->last_run = run.id;
        record_set(&run.idempotency_key, "");
        rc = store_run_create(bringing->runs->store, &run, session, NULL, err);
    }
    run_record_finish(&run);
    return rc;
}

/* A run of another session must not be written to. */
static int check_owner(struct bringing *bringing, const struct id *id, struct error *err)
{
    struct run_record run;
    int rc;

    run_record_init(&run);
    rc = store_run_load(bringing->runs->store, id, &run, err);
    if (rc == 0 && !str_equal(run.session.text, bringing->session.id.text))
        rc = wrong(err, "something of another session's run");
    run_record_finish(&run);
    return rc;
}

static int apply_diff(struct bringing *bringing, const struct entry *entry, struct error *err)
{
    struct id id;

    if (!id_parse(ID_KIND_RUN, entry->head.name, &id) || check_owner(bringing, &id, err) < 0)
        return wrong(err, "a diff");
    return store_diff_put(bringing->runs->store, &id, entry->data, (size_t)entry->head.len, err);
}

static int apply_event(struct bringing *bringing, const struct entry *entry, struct error *err)
{
    const char *space = strchr(entry->head.name, ' ');
    AUTO_FREE
    char *run =
        mem_strndup(entry->head.name, space != NULL ? (size_t)(space - entry->head.name) : 0);
    struct store *store = bringing->runs->store;
    struct event_record event;
    uint64_t number = 0;
    struct id id;
    int rc;

    if (space == NULL || !id_parse(ID_KIND_RUN, run, &id) ||
        !str_parse_u64(space + 1, UINT64_C(1) << 53, &number) ||
        check_owner(bringing, &id, err) < 0 || number <= store_event_last(store, &id))
        return wrong(err, "an event");
    event_record_init(&event);
    event.number = number;
    rc = event_record_decode(entry->data, (size_t)entry->head.len, &event, err);
    if (rc == 0)
        rc = store_event_append(store, &id, &event, err);
    event_record_finish(&event);
    return rc;
}

static int apply(struct bringing *bringing, const struct entry *entry, struct error *err)
{
    if (entry->head.kind == ARCHIVE_MANIFEST)
        return 0; /* for people and later versions: the records say it all */
    if (entry->head.kind == ARCHIVE_SESSION)
        return apply_session(bringing, entry, err);
    if (!bringing->begun)
        return wrong(err, "it doesn't begin with a session");
    switch (entry->head.kind) {
    case ARCHIVE_CHECKPOINT:
        return apply_checkpoint(bringing, entry, err);
    case ARCHIVE_RUN:
        return apply_run(bringing, entry, err);
    case ARCHIVE_DIFF:
        return apply_diff(bringing, entry, err);
    case ARCHIVE_EVENT:
        return apply_event(bringing, entry, err);
    case ARCHIVE_MANIFEST:
    case ARCHIVE_SESSION:
    case ARCHIVE_FILE:
        break;
    }
    return 0;
}

static void set_whole(struct session_record *session, const void *data)
{
    (void)data;
    session->making = false;
}

static void on_unpacked(void *data, const struct error *err)
{
    struct bringing *bringing = data;

    if (err != NULL)
        bringing->error = *err;
    else
        session_change(bringing->runs, &bringing->session.id, set_whole, NULL, &bringing->error);
    finish(bringing);
}

static void go_on(struct bringing *bringing);

static void after_part(uv_work_t *work, int status)
{
    struct bringing *bringing = work->data;
    struct runs *runs = bringing->runs;
    struct error *err = &bringing->error;

    if (status < 0 || runs->closing)
        error_set(err, ERR_CANCELLED, 0, "it was called off");
    for (size_t i = 0; i < bringing->count && err->code == ERR_NONE; i++)
        apply(bringing, &bringing->entries[i], err);
    forget_entries(bringing);
    if (err->code == ERR_NONE && store_has_batch(runs->store))
        store_flush(runs->store, err);
    if (err->code != ERR_NONE)
        finish(bringing);
    else
        go_on(bringing);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

static void go_on(struct bringing *bringing)
{
    struct runs *runs = bringing->runs;
    struct error *err = &bringing->error;

    if (bringing->ended && bringing->newest == 0)
        wrong(err, "it has no checkpoint");
    else if (bringing->ended) {
        if (checkpoint_unpack(runs, &bringing->session, &bringing->session.id, bringing->newest,
                              on_unpacked, bringing, err) == 0)
            return;
    } else if (uv_queue_work(runs->loop, &bringing->work, read_part, after_part) == 0) {
        runs->open_runs++;
        return;
    } else
        error_set(err, ERR_SYSTEM, 0, "no thread to read it");
    finish(bringing);
}

int session_bring_back(struct runs *runs, struct backup_place *place,
                       void (*done)(void *data, const struct id *session, const struct error *err),
                       void *data, struct error *err)
{
    struct bringing *bringing;

    if (runs->backing_up) {
        backup_place_free(place);
        return error_set(err, ERR_CONFLICT, 0, "another backup is being made or brought back");
    }
    bringing = NEW(struct bringing);
    bringing->runs = runs;
    bringing->place = place;
    bringing->done = done;
    bringing->data = data;
    bringing->work.data = bringing;
    bringing->entries = mem_new_zero(ENTRIES_MAX, sizeof(*bringing->entries));
    session_record_init(&bringing->session);
    if (uv_queue_work(runs->loop, &bringing->work, read_part, after_part) != 0) {
        bringing_free(bringing);
        return error_set(err, ERR_SYSTEM, 0, "no thread to read it");
    }
    runs->backing_up = true;
    runs->open_runs++;
    return 0;
}
