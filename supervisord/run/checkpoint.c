/* checkpoint.c: a session's files and conversation, kept as they are at one moment. They are
 * written in a sandbox of their own, which sees the session read-only; a checkpoint counts when its
 * record is in the store, and what else lies in their folder is removed by the next one. */
#include "run/internal.h"

#include <string.h>

#include "workspace/checkpoint.h"

#define MAKE_MS 600000
#define UNPACK_MS 1800000
#define CHAIN_MAX 32
#define SMALL_BYTES (UINT64_C(4) << 20)
#define KNOWN_MAX 1024
#define MIB (UINT64_C(1) << 20)

struct known {
    uint32_t number;
    uint32_t chain;
    uint64_t bytes;
};

/* The session's checkpoints, oldest first. */
struct overview {
    struct known items[KNOWN_MAX];
    size_t count;
};

struct checkpoint {
    struct runs *runs;
    struct session_task *task; /* NULL: the caller's */
    struct session_record session;
    struct workspace_layout layout;
    struct id run;
    enum checkpoint_reason reason;
    bool keep_all;
    uint32_t newest;
    uint32_t number;
    uint32_t parent;
    uint32_t chain;
    struct chore *chore;
    checkpoint_cb done;
    void *data;
};

/* What there is ------------------------------------------------------------------------------- */

static bool add_known(void *data, const struct checkpoint_record *record)
{
    struct overview *all = data;

    /* A configuration may have allowed more: the oldest are forgotten, and so removed. */
    if (all->count == KNOWN_MAX)
        memmove(all->items, all->items + 1, --all->count * sizeof(all->items[0]));
    all->items[all->count++] = (struct known){ record->number, record->chain, record->bytes };
    return true;
}

static struct overview *overview_new(struct runs *runs, const struct id *session, struct error *err)
{
    struct overview *all = NEW(struct overview);

    if (store_checkpoint_each(runs->store, session, 0, add_known, all, err) == 0)
        return all;
    free(all);
    return NULL;
}

uint32_t checkpoint_newest(struct runs *runs, const struct id *session)
{
    struct error err = ERROR_INIT;
    struct overview *all = overview_new(runs, session, &err);
    uint32_t number;

    if (all == NULL) {
        log_warn(session->text, "its checkpoints can't be read: %s", err.text);
        return 0;
    }
    number = all->count > 0 ? all->items[all->count - 1].number : 0;
    free(all);
    return number;
}

bool checkpoint_wanted(const struct runs *runs, const struct session_record *session)
{
    return runs->options.checkpoint_mib > 0 && places_any_cloned(session);
}

void checkpoint_take_places(struct session_record *session,
                            const struct checkpoint_record *checkpoint)
{
    for (size_t i = 0; i < SESSION_PLACES_MAX; i++) {
        struct session_place *to = &session->places[i];
        const struct session_place *from = &checkpoint->places[i];

        record_set(&to->repository, from->repository);
        record_set(&to->branch, from->branch);
        record_set(&to->directory, from->directory);
        record_set(&to->base_commit, from->base_commit);
        record_set(&to->tree, "");
        record_set(&to->agent, from->agent);
        record_set(&to->agent_session, from->agent_session);
        to->cloned = from->cloned;
        to->set_up = from->set_up;
    }
    session->place_count = checkpoint->place_count;
    session->place = checkpoint->place;
}

static void give_places(struct checkpoint_record *checkpoint, const struct session_record *session)
{
    for (size_t i = 0; i < SESSION_PLACES_MAX; i++) {
        struct session_place *to = &checkpoint->places[i];
        const struct session_place *from = &session->places[i];

        record_set(&to->repository, from->repository);
        record_set(&to->branch, from->branch);
        record_set(&to->directory, from->directory);
        record_set(&to->base_commit, from->base_commit);
        record_set(&to->agent, from->agent);
        record_set(&to->agent_session, from->agent_session);
        to->cloned = from->cloned;
        to->set_up = from->set_up;
    }
    checkpoint->place_count = session->place_count;
    checkpoint->place = session->place;
}

/* Which of them the next one adds to; 0: it holds all files itself, when adding has come to take
 * more than that would. */
static uint32_t choose_parent(const struct overview *all, uint64_t max_bytes, uint32_t *chain)
{
    const struct known *newest = all->count > 0 ? &all->items[all->count - 1] : NULL;
    uint64_t whole = 0;
    uint64_t added = 0;
    size_t length = 0;

    *chain = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].chain != newest->chain)
            continue;
        length++;
        if (all->items[i].number == newest->chain)
            whole = all->items[i].bytes;
        else
            added += all->items[i].bytes;
    }
    if (newest == NULL || length >= CHAIN_MAX || whole + added > max_bytes / 2 ||
        (added > whole && added > SMALL_BYTES))
        return 0;
    *chain = newest->chain;
    return newest->number;
}

static char *numbers_of(const struct overview *all)
{
    AUTO_BUF struct buf text = BUF_INIT(KNOWN_MAX * 11);

    for (size_t i = 0; i < all->count; i++)
        buf_printf(&text, "%s%u", i > 0 ? " " : "", (unsigned)all->items[i].number);
    return mem_strdup(buf_text(&text));
}

/* From which number on they stay: whole chains go, the oldest first, until the rest is few and
 * small enough; never the newest one's own. */
static uint32_t keep_from(const struct runs *runs, const struct overview *all)
{
    const struct known *newest = &all->items[all->count - 1];
    uint64_t bytes = 0;
    size_t first = 0;

    for (size_t i = 0; i < all->count; i++)
        bytes += all->items[i].bytes;
    while (all->items[first].chain != newest->chain &&
           (bytes > runs->options.checkpoint_mib * MIB ||
            all->count - first > runs->options.checkpoint_count)) {
        uint32_t chain = all->items[first].chain;

        for (; all->items[first].chain == chain; first++)
            bytes -= all->items[first].bytes;
    }
    return all->items[first].number;
}

/* Making one ---------------------------------------------------------------------------------- */

static void checkpoint_free(struct checkpoint *checkpoint)
{
    session_task_end(checkpoint->task);
    session_record_finish(&checkpoint->session);
    workspace_layout_finish(&checkpoint->layout);
    free(checkpoint);
}

static void set_checkpoint_bytes(struct session_record *session, const void *data)
{
    const uint64_t *bytes = data;

    session->checkpoint_bytes = *bytes;
}

static void note_size(struct checkpoint *checkpoint, const struct overview *all, uint32_t from)
{
    struct error err = ERROR_INIT;
    uint64_t bytes = 0;

    for (size_t i = 0; i < all->count; i++)
        bytes += all->items[i].number >= from ? all->items[i].bytes : 0;
    if (session_change(checkpoint->runs, &checkpoint->session.id, set_checkpoint_bytes, &bytes,
                       &err) < 0)
        log_warn(checkpoint->session.id.text, "%s", err.text);
}

static int record_it(struct checkpoint *checkpoint, const struct checkpoint_made *made,
                     struct error *err)
{
    struct runs *runs = checkpoint->runs;
    struct overview *all = overview_new(runs, &checkpoint->session.id, err);
    struct checkpoint_record record;
    uint32_t from;
    int rc;

    if (all == NULL)
        return -1;
    checkpoint_record_init(&record);
    record.number = checkpoint->number;
    record.chain = checkpoint->chain;
    record.reason = checkpoint->reason;
    record.time_ms = clock_wall_ms(runs->clock);
    record.run = checkpoint->run;
    record.bytes = made->bytes;
    record.entries = made->entries;
    record.left_out = made->large + made->unreadable;
    give_places(&record, &checkpoint->session);
    add_known(all, &record);
    from = checkpoint->keep_all || session_task_reads(runs, &checkpoint->session.id)
               ? 0
               : keep_from(runs, all);
    rc = store_checkpoint_add(runs->store, &checkpoint->session.id, &record, from, err);
    checkpoint_record_finish(&record);
    if (rc == 0)
        note_size(checkpoint, all, from);
    free(all);
    return rc;
}

static int take(struct checkpoint *checkpoint, const struct command_result *result,
                struct error *err)
{
    struct checkpoint_made made;

    if (result->timed_out)
        return error_set(err, ERR_TIMEOUT, 0, "it takes longer than %d minutes", MAKE_MS / 60000);
    if (result->code != 0)
        return error_set(err, ERR_SYSTEM, 0,
                         "its files could not be kept (%.160s); checkpoints.maxMiB is %u",
                         result->err_tail, (unsigned)checkpoint->runs->options.checkpoint_mib);
    if (checkpoint_made_parse(result->out, &made, err) < 0)
        return -1;
    if (made.same) {
        checkpoint->number = checkpoint->newest;
        return 0;
    }
    if (made.torn)
        log_info(checkpoint->session.id.text, "checkpoint %u: its conversation was being written",
                 (unsigned)checkpoint->number);
    return record_it(checkpoint, &made, err);
}

static void on_made(void *data, const struct command_result *result, const struct error *err)
{
    struct checkpoint *checkpoint = data;
    struct error local = ERROR_INIT;
    checkpoint_cb done = checkpoint->done;
    void *done_data = checkpoint->data;
    uint32_t number;

    if (err != NULL)
        local = *err;
    else
        take(checkpoint, result, &local);
    number = local.code == ERR_NONE ? checkpoint->number : checkpoint->newest;
    if (local.code != ERR_NONE)
        error_wrap(&local, "no checkpoint");
    checkpoint_free(checkpoint);
    done(done_data, number, local.code != ERR_NONE ? &local : NULL);
}

static int begin(struct checkpoint *checkpoint, struct error *err)
{
    struct runs *runs = checkpoint->runs;
    struct overview *all = overview_new(runs, &checkpoint->session.id, err);
    AUTO_FREE
    char *keep = NULL;
    AUTO_FREE
    char *name = mem_printf("%s-c", checkpoint->session.id.text);
    struct checkpoint_make make = { .max_bytes = runs->options.checkpoint_mib * MIB };
    struct git_command command;

    if (all == NULL)
        return -1;
    keep = numbers_of(all);
    checkpoint->newest = all->count > 0 ? all->items[all->count - 1].number : 0;
    checkpoint->parent = choose_parent(all, make.max_bytes, &checkpoint->chain);
    checkpoint->number = checkpoint->newest + 1;
    if (checkpoint->parent == 0)
        checkpoint->chain = checkpoint->number;
    free(all);
    make.number = checkpoint->number;
    make.parent = checkpoint->parent;
    make.keep = keep;
    if (workspace_make(&checkpoint->layout, checkpoint->session.host_uid, err) < 0)
        return -1;
    checkpoint_make_command(&command, &make);
    const struct chore_options options = {
        .name = name,
        .host_uid = checkpoint->session.host_uid,
        .mounts = { { checkpoint->layout.workspace, SANDBOX_WORKSPACE, SANDBOX_READ_ONLY },
                    { checkpoint->layout.home, SANDBOX_HOME, SANDBOX_READ_ONLY },
                    { checkpoint->layout.checkpoints, CHECKPOINT_FOLDER, SANDBOX_READ_WRITE } },
        .command = &command,
        .timeout_ms = MAKE_MS,
        .on_done = on_made,
        .data = checkpoint,
    };
    return chore_start(&checkpoint->chore, runs, &options, err);
}

int checkpoint_start(struct runs *runs, const struct checkpoint_request *request, struct error *err)
{
    struct checkpoint *checkpoint;
    struct session_task *task = NULL;

    if (!checkpoint_wanted(runs, request->session))
        return error_set(err, ERR_CONFLICT, 0,
                         runs->options.checkpoint_mib == 0
                             ? "checkpoints are switched off: checkpoints.maxMiB is 0"
                             : "session %s has no files yet",
                         request->session->id.text);
    if (!request->within &&
        session_task_begin(&task, runs, &request->session->id, SESSION_TASK_CHECKPOINT,
                           "having a checkpoint made", err) < 0)
        return -1;
    checkpoint = NEW(struct checkpoint);
    checkpoint->runs = runs;
    checkpoint->task = task;
    session_record_copy(&checkpoint->session, request->session);
    workspace_layout_init(&checkpoint->layout, runs->options.state_dir, request->session->id.text);
    if (request->run != NULL)
        checkpoint->run = *request->run;
    checkpoint->reason = request->reason;
    checkpoint->keep_all = request->keep_all;
    checkpoint->done = request->done;
    checkpoint->data = request->data;
    if (begin(checkpoint, err) == 0)
        return 0;
    checkpoint_free(checkpoint);
    return -1;
}

int session_checkpoint(struct runs *runs, const struct id *id,
                       void (*done)(void *data, uint32_t number, const struct error *err),
                       void *data, struct error *err)
{
    struct session_record session;
    struct checkpoint_request request = {
        .session = &session, .reason = CHECKPOINT_ASKED, .done = done, .data = data
    };
    int rc;

    session_record_init(&session);
    rc = store_session_load(runs->store, id, &session, err);
    if (rc == 0 && (session.making || session.restoring != 0))
        rc = session_task_check_run(runs, &session, err);
    if (rc == 0)
        rc = checkpoint_start(runs, &request, err);
    session_record_finish(&session);
    return rc;
}

/* Bringing one back --------------------------------------------------------------------------- */

struct unpacking {
    struct workspace_layout from;
    struct workspace_layout to;
    struct chore *chore;
    session_cb done;
    void *data;
};

static void unpacking_free(struct unpacking *unpacking)
{
    workspace_layout_finish(&unpacking->from);
    workspace_layout_finish(&unpacking->to);
    free(unpacking);
}

static void on_unpacked(void *data, const struct command_result *result, const struct error *err)
{
    struct unpacking *unpacking = data;
    session_cb done = unpacking->done;
    void *done_data = unpacking->data;
    struct error local = ERROR_INIT;

    unpacking_free(unpacking);
    if (err != NULL)
        local = *err;
    else if (result->timed_out)
        error_set(&local, ERR_TIMEOUT, 0, "it takes longer than %d minutes", UNPACK_MS / 60000);
    else if (result->code != 0)
        error_set(&local, ERR_SYSTEM, 0, "its files could not be brought back (%.160s)",
                  result->err_tail);
    done(done_data, local.code != ERR_NONE ? &local : NULL);
}

char *checkpoint_chain(struct runs *runs, const struct id *session, uint32_t number,
                       struct error *err)
{
    struct overview *all = overview_new(runs, session, err);
    AUTO_BUF struct buf text = BUF_INIT(KNOWN_MAX * 11);
    uint32_t chain = 0;

    if (all == NULL)
        return NULL;
    for (size_t i = 0; i < all->count; i++)
        chain = all->items[i].number == number ? all->items[i].chain : chain;
    for (size_t i = 0; chain != 0 && i < all->count; i++) {
        if (all->items[i].chain == chain && all->items[i].number <= number)
            buf_printf(&text, "%s%u", text.len > 0 ? " " : "", (unsigned)all->items[i].number);
    }
    free(all);
    if (text.len > 0)
        return mem_strdup(buf_text(&text));
    error_set(err, ERR_NOT_FOUND, 0, "session %s has no checkpoint %u", session->text,
              (unsigned)number);
    return NULL;
}

int checkpoint_unpack(struct runs *runs, const struct session_record *session,
                      const struct id *from, uint32_t number, session_cb done, void *data,
                      struct error *err)
{
    AUTO_FREE
    char *chain = checkpoint_chain(runs, from, number, err);
    AUTO_FREE
    char *name = mem_printf("%s-c", session->id.text);
    struct unpacking *unpacking;
    struct git_command command;
    int rc;

    if (chain == NULL)
        return -1;
    unpacking = NEW(struct unpacking);
    workspace_layout_init(&unpacking->from, runs->options.state_dir, from->text);
    workspace_layout_init(&unpacking->to, runs->options.state_dir, session->id.text);
    unpacking->done = done;
    unpacking->data = data;
    checkpoint_restore_command(&command, chain);
    const struct chore_options options = {
        .name = name,
        .host_uid = session->host_uid,
        .mounts = { { unpacking->to.workspace, SANDBOX_WORKSPACE, SANDBOX_READ_WRITE },
                    { unpacking->to.home, SANDBOX_HOME, SANDBOX_READ_WRITE },
                    { unpacking->from.checkpoints, CHECKPOINT_FOLDER, SANDBOX_READ_ONLY } },
        .command = &command,
        .timeout_ms = UNPACK_MS,
        .on_done = on_unpacked,
        .data = unpacking,
    };
    rc = workspace_make(&unpacking->to, session->host_uid, err);
    if (rc == 0)
        rc = chore_start(&unpacking->chore, runs, &options, err);
    else
        git_command_finish(&command);
    if (rc < 0)
        unpacking_free(unpacking);
    return rc;
}
