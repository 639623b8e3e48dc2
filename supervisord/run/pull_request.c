#include "run/pull_request.h"

#include <stdio.h>
#include <string.h>

#include "common/str.h"
#include "forge/forge.h"
#include "proxy/errand.h"
#include "run/internal.h"
#include "run/pull_text.h"
#include "run/visit.h"
#include "workspace/publish.h"

#define LOOK_MS 120000
#define SILENCE_MS 120000 /* of a transfer */
#define TRANSFER_MS 1800000
#define API_MS 30000
#define RUNS_NAMED 10

enum pull_step {
    PULL_SANDBOX,
    PULL_LOOK,
    PULL_COMMIT,
    PULL_REMOTE,
    PULL_COMPARE,
    PULL_PUSH,
    PULL_VERIFY,
    PULL_FIND,
    PULL_OPEN,
    PULL_EDIT,
    PULL_CONFIRM,
};

static const char *const step_names[] = {
    [PULL_SANDBOX] = "sandbox", [PULL_LOOK] = "look",       [PULL_COMMIT] = "commit",
    [PULL_REMOTE] = "remote",   [PULL_COMPARE] = "compare", [PULL_PUSH] = "push",
    [PULL_VERIFY] = "verify",   [PULL_FIND] = "find",       [PULL_OPEN] = "open",
    [PULL_EDIT] = "edit",       [PULL_CONFIRM] = "confirm",
};

struct pull_op {
    struct runs *runs;
    struct list link;  /* runs::pulls */
    struct list waits; /* pull_request_wait::link */
    struct session_record session;
    struct run_record newest; /* run of the session, in whose name it is recorded */
    /* What was asked for. */
    char *title;
    char *body;
    char *wanted_base;
    char *page;
    bool draft;
    bool commit;
    /* Where it goes. */
    const char *service; /* of git; the options' */
    char *path;          /* there: "/owner/name.git" */
    char *repository;    /* "owner/name" */
    char *url;           /* inside */
    char *folder;
    const struct forge *forge; /* NULL: plain git */
    /* Under way. */
    enum pull_step step;
    struct visit *visit; /* until the remote was read back */
    struct command *command;
    struct errand *errand;
    bool committed; /* what was changed has been */
    bool searched_again;
    uint32_t page_number;
    /* Found out. */
    struct publish_look look;
    struct publish_changes changes;
    char base[256];
    char base_object[65];
    char branch[256];
    char remote_object[65]; /* before the push; "" the branch wasn't there */
    struct forge_pull pull;
    enum pull_request_outcome outcome;
    struct forge_problem problem; /* code NULL: none */
    char note[300];
};

struct pull_request_wait {
    struct list link; /* pull_op::waits */
    uv_timer_t timer;
    pull_request_cb done;
    void *data;
};

static void run_step(struct pull_op *op, enum pull_step step);

/* Waiting
 * --------------------------------------------------------------------------------------------- */

static void on_wait_closed(uv_handle_t *handle)
{
    free(CONTAINER_OF(handle, struct pull_request_wait, timer));
}

void pull_request_forget(struct pull_request_wait *wait)
{
    list_remove(&wait->link);
    uv_close((uv_handle_t *)&wait->timer, on_wait_closed);
}

static void fill_report(const struct pull_op *op, struct pull_request_report *report)
{
    *report = (struct pull_request_report){
        .outcome = op->outcome,
        .phase = step_names[op->step],
        .repository = op->session.places[op->session.place].repository,
        .forge = op->forge != NULL ? op->forge->name : "",
        .branch = op->branch,
        .base = op->base,
        .commit = op->step > PULL_VERIFY || op->outcome == PULL_REQUEST_PUSHED ? op->look.head : "",
        .commits = op->changes.commits,
        .files = op->changes.stat.files,
        .insertions = op->changes.stat.insertions,
        .deletions = op->changes.stat.deletions,
        .number = op->pull.number,
        .url = op->pull.url != NULL ? op->pull.url : "",
        .title = op->pull.title != NULL ? op->pull.title : "",
        .draft = op->pull.draft,
        .uncommitted = op->look.dirty,
        .uncommitted_names = buf_text(&op->look.changed),
        .note = op->note,
        .problem_code = op->problem.code != NULL ? op->problem.code : "",
        .problem_message = op->problem.message,
        .problem_hint = op->problem.hint,
        .problem_retryable = op->problem.retryable,
    };
}

static void answer(struct pull_request_wait *wait, const struct pull_request_report *report,
                   const struct error *err)
{
    pull_request_cb done = wait->done;
    void *data = wait->data;

    pull_request_forget(wait);
    done(data, report, err);
}

static void on_wait_over(uv_timer_t *timer)
{
    struct pull_request_wait *wait = CONTAINER_OF(timer, struct pull_request_wait, timer);
    const struct pull_op *op = timer->data;
    struct pull_request_report report;

    fill_report(op, &report);
    report.outcome = PULL_REQUEST_WORKING;
    answer(wait, &report, NULL);
}

static struct pull_request_wait *join(struct pull_op *op, pull_request_cb done, void *data)
{
    struct pull_request_wait *wait = NEW(struct pull_request_wait);

    wait->done = done;
    wait->data = data;
    list_append(&op->waits, &wait->link);
    uv_timer_init(op->runs->loop, &wait->timer);
    wait->timer.data = op;
    uv_timer_start(&wait->timer, on_wait_over, PULL_REQUEST_WAIT_MS, 0);
    return wait;
}

/* The end
 * --------------------------------------------------------------------------------------------- */

static void op_free(struct pull_op *op)
{
    if (op->command != NULL)
        command_cancel(op->command);
    if (op->errand != NULL)
        errand_cancel(op->errand);
    if (op->visit != NULL)
        visit_close(op->visit);
    list_remove(&op->link);
    session_record_finish(&op->session);
    run_record_finish(&op->newest);
    publish_look_finish(&op->look);
    publish_changes_finish(&op->changes);
    forge_pull_finish(&op->pull);
    free(op->title);
    free(op->body);
    free(op->wanted_base);
    free(op->page);
    free(op->path);
    free(op->repository);
    free(op->url);
    free(op->folder);
    free(op);
}

/* Who waits is told; a callback may forget other waits, and begin anew: nothing is found any more.
 */
static void finish(struct pull_op *op, const struct error *err)
{
    struct pull_request_report report;

    fill_report(op, &report);
    list_remove(&op->link);
    while (!list_empty(&op->waits))
        answer(LIST_ENTRY(op->waits.next, struct pull_request_wait, link),
               err == NULL ? &report : NULL, err);
    op_free(op);
}

static void fail(struct pull_op *op, const struct error *err)
{
    log_info(op->newest.id.text, "not published, in step %s: %s", step_names[op->step], err->text);
    finish(op, err);
}

static void fail_with(struct pull_op *op, enum error_code code, const char *text)
{
    struct error err = ERROR_INIT;

    error_set(&err, code, 0, "%s", text);
    fail(op, &err);
}

static void note_pull(struct session_record *session, const void *data)
{
    const struct pull_op *op = data;

    record_set(&session->pull_url, op->pull.url);
    session->pull_number = op->pull.number;
    record_set(&session->pull_repository, op->session.places[op->session.place].repository);
    record_set(&session->pull_branch, op->pull.head);
    record_set(&session->pull_base, op->pull.base);
}

static void succeed(struct pull_op *op, enum pull_request_outcome outcome)
{
    struct error err = ERROR_INIT;

    op->outcome = outcome;
    if (op->pull.number != 0 && session_change(op->runs, &op->session.id, note_pull, op, &err) < 0)
        log_warn(op->newest.id.text, "its %s can't be noted: %s", op->forge->thing, err.text);
    log_info(op->newest.id.text, "published %.12s as %s%s%s%s%s", op->look.head, op->branch,
             op->pull.number != 0 ? ", " : "", op->pull.number != 0 ? op->pull.url : "",
             op->problem.code != NULL ? "; " : "",
             op->problem.code != NULL ? op->problem.message : "");
    finish(op, NULL);
}

/* The branch is there; that is kept, and the rest is told. */
static void done_without(struct pull_op *op, const struct forge_problem *problem)
{
    op->problem = *problem;
    forge_pull_finish(&op->pull);
    succeed(op, PULL_REQUEST_PUSHED);
}

static void trouble_from(struct pull_op *op, const struct error *err)
{
    struct forge_problem problem = { .code = "forge_unreachable", .retryable = true };

    if (err->code == ERR_NOT_FOUND)
        problem = (struct forge_problem){ .code = "forge_no_token" };
    else if (err->code == ERR_LIMIT)
        problem = (struct forge_problem){ .code = "forge_unreadable" };
    str_copy(problem.message, sizeof(problem.message), err->text);
    str_copy(problem.hint, sizeof(problem.hint),
             err->code == ERR_NOT_FOUND ? "store a token that may open one, then call again"
                                        : "call again; what was pushed stays");
    done_without(op, &problem);
}

/* The API
 * --------------------------------------------------------------------------------------------- */

static void on_answer(void *data, const struct errand_answer *answer, const struct error *err);

static void ask(struct pull_op *op, enum pull_step step, struct forge_request *request)
{
    const struct forge *forge = op->forge;
    const struct errand_options options = {
        .run_id = op->newest.id.text,
        .service = forge->service,
        .prefix = forge->prefix,
        .header = forge->header,
        .before = forge->before,
        .method = request->method,
        .path = buf_text(&request->path),
        .body = request->body.len > 0 ? request->body.data : NULL,
        .body_len = request->body.len,
        .answer_max = FORGE_ANSWER_MAX,
        .timeout_ms = API_MS,
        .kept = forge_permission_headers,
        .kept_count = forge_permission_header_count,
    };
    struct error err = ERROR_INIT;
    int rc;

    op->step = step;
    rc = request->path.failed || request->body.failed
             ? error_set(&err, ERR_LIMIT, 0, "the request to %s would be too large", forge->name)
             : errand_start(&op->errand, op->runs->proxy, &options, on_answer, op, &err);
    forge_request_finish(request);
    if (rc < 0)
        trouble_from(op, &err);
}

static bool add_run(void *data, const struct run_record *run)
{
    pull_text_add_run(data, run, run_state_name((enum run_state)run->state));
    return true;
}

static void gather_facts(struct pull_op *op, struct pull_text_facts *facts, struct buf *runs)
{
    const struct store_run_filter filter = { .session = &op->session.id, .limit = RUNS_NAMED };
    struct error err = ERROR_INIT;

    if (store_run_each(op->runs->store, &filter, add_run, runs, &err) < 0)
        log_warn(op->session.id.text, "its runs can't be listed: %s", err.text);
    *facts = (struct pull_text_facts){
        .changes = &op->changes, .session = &op->session, .page = op->page, .runs = runs
    };
}

static void ask_find(struct pull_op *op, uint32_t page)
{
    struct forge_request request;

    op->page_number = page;
    forge_list(op->forge, op->repository, op->branch, page, &request);
    ask(op, PULL_FIND, &request);
}

static void ask_confirm(struct pull_op *op)
{
    struct forge_request request;

    forge_get(op->forge, op->repository, op->pull.number, &request);
    ask(op, PULL_CONFIRM, &request);
}

static void ask_open(struct pull_op *op, bool draft)
{
    AUTO_BUF struct buf title = BUF_INIT(4096);
    AUTO_BUF struct buf body = BUF_INIT(FORGE_TEXT_MAX);
    AUTO_BUF struct buf runs = BUF_INIT(64u << 10);
    struct pull_text_facts facts;
    struct forge_request request;

    gather_facts(op, &facts, &runs);
    pull_text_title(&title, op->title, &facts);
    pull_text_body(&body, op->body, &facts);
    const struct forge_change change = { .head = op->branch,
                                         .base = op->base,
                                         .title = buf_text(&title),
                                         .body = body.failed ? op->body : buf_text(&body),
                                         .sets_draft = true,
                                         .draft = draft };
    forge_create(op->forge, op->repository, &change, &request);
    ask(op, PULL_OPEN, &request);
}

/* What the open one lacks; nothing asked for, and nothing new: it stays as it is. */
static void ask_edit(struct pull_op *op)
{
    AUTO_BUF struct buf body = BUF_INIT(2 * FORGE_TEXT_MAX);
    AUTO_BUF struct buf runs = BUF_INIT(64u << 10);
    AUTO_BUF struct buf title = BUF_INIT(4096);
    struct pull_text_facts facts;
    struct forge_request request;
    struct forge_change change = { .base = NULL };
    bool ready = op->pull.draft && !op->draft;

    gather_facts(op, &facts, &runs);
    if (op->wanted_base[0] != '\0' && !str_equal(op->wanted_base, op->pull.base))
        change.base = op->wanted_base;
    if (op->title[0] != '\0')
        pull_text_title(&title, op->title, &facts);
    if (op->title[0] != '\0' && !str_equal(buf_text(&title), op->pull.title))
        change.title = buf_text(&title);
    if (pull_text_renew(&body, op->pull.body, op->body, &facts))
        change.body = buf_text(&body);
    if (ready && op->forge->draft_by_edit)
        change.title = change.title != NULL ? change.title : op->pull.title;
    else if (ready)
        snprintf(op->note, sizeof(op->note),
                 "it is still a draft: %s lets only a person make it ready for review",
                 op->forge->name);
    change.draft = op->pull.draft && !ready;
    if (change.base == NULL && change.title == NULL && change.body == NULL) {
        succeed(op, str_equal(op->remote_object, op->look.head) ? PULL_REQUEST_UNCHANGED
                                                                : PULL_REQUEST_UPDATED);
        return;
    }
    forge_edit(op->forge, op->repository, op->pull.number, &change, &request);
    ask(op, PULL_EDIT, &request);
}

static void take_list(struct pull_op *op, const struct forge_answer *answer)
{
    struct forge_problem problem;
    bool more;

    if (forge_read_list(op->forge, answer, op->branch, &op->pull, &more, &problem) < 0)
        done_without(op, &problem);
    else if (op->pull.number != 0)
        ask_edit(op);
    else if (more && op->page_number < FORGE_PAGES_MAX)
        ask_find(op, op->page_number + 1);
    else
        ask_open(op, op->draft);
}

static void take_opened(struct pull_op *op, const struct forge_answer *answer)
{
    struct forge_problem problem;

    forge_pull_finish(&op->pull);
    if (forge_read_pull(op->forge, answer, &op->pull, &problem) == 0) {
        op->outcome = PULL_REQUEST_OPENED;
        ask_confirm(op);
    } else if (problem.trouble == FORGE_EXISTS && !op->searched_again) {
        /* Opened since it was looked for. */
        op->searched_again = true;
        ask_find(op, 1);
    } else if (problem.trouble == FORGE_NO_DRAFT && op->draft && op->note[0] == '\0') {
        str_copy(op->note, sizeof(op->note), problem.message);
        ask_open(op, false);
    } else {
        done_without(op, &problem);
    }
}

static void take_edited(struct pull_op *op, const struct forge_answer *answer)
{
    struct forge_problem problem;

    forge_pull_finish(&op->pull);
    if (forge_read_pull(op->forge, answer, &op->pull, &problem) < 0) {
        done_without(op, &problem);
        return;
    }
    op->outcome = PULL_REQUEST_UPDATED;
    ask_confirm(op);
}

/* What is told is what the forge has, not what it said that it would do. */
static void take_confirmed(struct pull_op *op, const struct forge_answer *answer)
{
    struct forge_problem problem = { .code = "forge_unconfirmed", .retryable = true };

    forge_pull_finish(&op->pull);
    if (forge_read_pull(op->forge, answer, &op->pull, &problem) == 0 && op->pull.open &&
        str_equal(op->pull.head, op->branch)) {
        succeed(op, op->outcome);
        return;
    }
    if (op->pull.number != 0)
        str_copy(problem.message, sizeof(problem.message),
                 "what the forge now shows is closed, or of another branch");
    done_without(op, &problem);
}

static void on_answer(void *data, const struct errand_answer *got, const struct error *err)
{
    struct pull_op *op = data;

    op->errand = NULL;
    if (err != NULL) {
        trouble_from(op, err);
        return;
    }
    const struct forge_answer answer = { got->status, got->body, got->len, got->kept };

    switch (op->step) {
    case PULL_FIND:
        take_list(op, &answer);
        break;
    case PULL_OPEN:
        take_opened(op, &answer);
        break;
    case PULL_EDIT:
        take_edited(op, &answer);
        break;
    case PULL_CONFIRM:
        take_confirmed(op, &answer);
        break;
    case PULL_SANDBOX:
    case PULL_LOOK:
    case PULL_COMMIT:
    case PULL_REMOTE:
    case PULL_COMPARE:
    case PULL_PUSH:
    case PULL_VERIFY:
        BUG("no step of the API");
    }
}

/* git
 * -------------------------------------------------------------------------------------------------
 */

/* By what is left of a session's name when the time is taken off. */
static const char *short_name(const struct pull_op *op)
{
    return op->session.id.text + strlen(op->session.id.text) - 8;
}

static struct proxy_push pull_push(const struct pull_op *op)
{
    return places_push(op->runs, op->session.places[op->session.place].repository);
}

/* HEAD's branch, if it is one to push; else one of the session's own. */
static int choose_branch(struct pull_op *op, struct error *err)
{
    AUTO_BUF struct buf name = BUF_INIT(sizeof(op->branch) - 1);
    const char *wanted = op->look.branch;
    const struct proxy_push push = pull_push(op);

    if (wanted[0] == '\0' || str_equal(wanted, op->base))
        wanted = short_name(op);
    if (!proxy_push_branch(op->runs->proxy, op->service, &push, wanted, &name) || name.failed)
        return error_set(err, ERR_DENIED, 0,
                         push.refs != NULL
                             ? "push.refs of the repository allows no branch that could be pushed"
                             : "services.%s.push.refs allows no branch that could be pushed",
                         op->service);
    str_copy(op->branch, sizeof(op->branch), buf_text(&name));
    return 0;
}

static void take_look(struct pull_op *op, const struct command_result *result)
{
    struct error err = ERROR_INIT;

    publish_look_finish(&op->look);
    if (result->code != 0 || !publish_read_look(result->out, &op->look))
        fail_with(op, ERR_CONFLICT,
                  result->code == 3 ? "the session's repository has no commit"
                                    : "the session's repository can't be read by git: was it "
                                      "damaged or moved?");
    else if (op->look.dirty > 0 && op->commit && !op->committed)
        run_step(op, PULL_COMMIT);
    else if (op->wanted_base[0] != '\0' &&
             (str_copy(op->base, sizeof(op->base), op->wanted_base), choose_branch(op, &err) < 0))
        fail(op, &err);
    else
        run_step(op, PULL_REMOTE);
}

/* Only HEAD was asked for; the branches that it makes known are asked for next. */
static void take_default(struct pull_op *op, const struct command_result *result)
{
    struct error err = ERROR_INIT;

    if (!publish_read_default(result->out, op->base))
        error_argument(&err, "base", "name a branch: the remote has no default branch");
    else
        choose_branch(op, &err);
    if (err.code != ERR_NONE)
        fail(op, &err);
    else
        run_step(op, PULL_REMOTE);
}

static void take_remote(struct pull_op *op, const struct command_result *result)
{
    struct error err = ERROR_INIT;
    const char *reason;
    const char *hint;
    AUTO_BUF struct buf words = BUF_INIT(2048);

    if (result->code != 0) {
        publish_read_refusal(result->out, result->err_tail, &words);
        git_clone_diagnose(result->err_tail, false, &reason, &hint);
        error_set(&err, ERR_UNAVAILABLE, 0, "the remote can't be read: %.150s; %s",
                  buf_text(&words), hint);
        fail(op, &err);
        return;
    }
    if (op->branch[0] == '\0') {
        take_default(op, result);
        return;
    }
    if (!publish_read_branch(result->out, op->base, op->base_object)) {
        error_argument(&err, "base", "the remote has no branch %s", op->base);
        fail(op, &err);
        return;
    }
    publish_read_branch(result->out, op->branch, op->remote_object);
    run_step(op, PULL_COMPARE);
}

static void refuse_empty(struct pull_op *op)
{
    struct error err = ERROR_INIT;

    if (op->look.dirty > 0)
        error_set(
            &err, ERR_CONFLICT, 0,
            "there is no commit that %s has not; %llu changed file%s not committed: call again "
            "with commit true to have that done",
            op->base, (unsigned long long)op->look.dirty, op->look.dirty == 1 ? " is" : "s are");
    else
        error_set(&err, ERR_CONFLICT, 0,
                  "there is nothing to publish: the session's branch has no commit that %s has not",
                  op->base);
    fail(op, &err);
}

static void take_changes(struct pull_op *op, const struct command_result *result)
{
    AUTO_BUF struct buf words = BUF_INIT(2048);

    publish_changes_finish(&op->changes);
    if (result->code != 0 || !publish_read_changes(result->out, &op->changes)) {
        publish_read_refusal(result->out, result->err_tail, &words);
        AUTO_FREE char *text =
            mem_printf("the branch can't be compared with %s: %.150s", op->base, buf_text(&words));
        fail_with(op, ERR_UNAVAILABLE, text);
    } else if (op->changes.commits == 0) {
        refuse_empty(op);
    } else if (str_equal(op->remote_object, op->look.head)) {
        run_step(op, PULL_VERIFY);
    } else {
        run_step(op, PULL_PUSH);
    }
}

static void take_push(struct pull_op *op, const struct command_result *result)
{
    AUTO_BUF struct buf words = BUF_INIT(2048);
    struct error err = ERROR_INIT;

    if (result->code == 0) {
        run_step(op, PULL_VERIFY);
        return;
    }
    publish_read_refusal(result->out, result->err_tail, &words);
    if (strstr(buf_text(&words), "403") != NULL || strstr(buf_text(&words), "401") != NULL)
        error_set(
            &err, ERR_DENIED, 0,
            "the push of %s was refused: %.120s; the stored token must be allowed to write the "
            "repository's contents (contents:write)",
            op->branch, buf_text(&words));
    else
        error_set(&err, ERR_DENIED, 0, "the push of %s was refused: %.200s", op->branch,
                  buf_text(&words));
    fail(op, &err);
}

/* Whoever pushed it: the session has what the remote has, so it overwrites nobody's work there. */
static void note_pushed(struct session_record *session, const void *data)
{
    const struct pull_op *op = data;
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", op->branch);
    AUTO_BUF struct buf pushed = BUF_INIT(256u << 10);

    proxy_pushed_add(session->pushed, op->service, op->path, ref, op->look.head, &pushed);
    if (!pushed.failed)
        record_set(&session->pushed, buf_text(&pushed));
}

static void take_verify(struct pull_op *op, const struct command_result *result)
{
    struct error err = ERROR_INIT;
    char object[65];

    if (result->code != 0 || !publish_read_branch(result->out, op->branch, object) ||
        !str_equal(object, op->look.head)) {
        error_set(&err, ERR_UNAVAILABLE, 0,
                  "the push of %s was accepted, but the remote doesn't show it; call again",
                  op->branch);
        fail(op, &err);
        return;
    }
    if (session_change(op->runs, &op->session.id, note_pushed, op, &err) < 0)
        log_warn(op->newest.id.text, "what was pushed can't be stored: %s", err.text);
    visit_close(STEAL(op->visit));
    if (op->forge == NULL) {
        snprintf(op->note, sizeof(op->note),
                 "%s is plain git to this program: open the pull request there by hand",
                 op->service);
        succeed(op, PULL_REQUEST_PUSHED);
        return;
    }
    ask_find(op, 1);
}

static void on_command(void *data, const struct command_result *result, const struct error *err)
{
    struct pull_op *op = data;

    op->command = NULL;
    if (err != NULL) {
        fail(op, err);
        return;
    }
    if (result->timed_out || result->truncated) {
        fail_with(op, result->timed_out ? ERR_TIMEOUT : ERR_LIMIT,
                  result->timed_out ? "git made no progress in time; call again"
                                    : "git says more than can be read");
        return;
    }
    switch (op->step) {
    case PULL_LOOK:
        take_look(op, result);
        break;
    case PULL_COMMIT:
        op->committed = true;
        if (result->code == 0)
            run_step(op, PULL_LOOK);
        else
            fail_with(op, ERR_CONFLICT, "what was changed can't be committed by git");
        break;
    case PULL_REMOTE:
        take_remote(op, result);
        break;
    case PULL_COMPARE:
        take_changes(op, result);
        break;
    case PULL_PUSH:
        take_push(op, result);
        break;
    case PULL_VERIFY:
        take_verify(op, result);
        break;
    case PULL_SANDBOX:
    case PULL_FIND:
    case PULL_OPEN:
    case PULL_EDIT:
    case PULL_CONFIRM:
        BUG("no step of git's");
    }
}

/* From now on that one ref may be pushed. */
static void allow_push(struct pull_op *op)
{
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", op->branch);

    proxy_limit_push(op->runs->proxy, op->newest.id.text, ref);
}

static void build(struct pull_op *op, struct git_command *command)
{
    AUTO_BUF struct buf message = BUF_INIT(4096);
    const struct pull_text_facts facts = { .changes = &op->changes, .session = &op->session };

    switch (op->step) {
    case PULL_LOOK:
        publish_look(command, op->folder);
        break;
    case PULL_COMMIT:
        pull_text_title(&message, op->title, &facts);
        publish_commit(command, op->folder, buf_text(&message));
        break;
    case PULL_REMOTE:
        publish_remote(command, op->url, op->base, op->branch);
        break;
    case PULL_COMPARE:
        publish_compare(command, op->folder, op->url, op->base, op->base_object, op->look.head);
        break;
    case PULL_PUSH:
        allow_push(op);
        publish_push(command, op->folder, op->url, op->look.head, op->branch);
        break;
    case PULL_VERIFY:
        publish_remote(command, op->url, op->branch, "");
        break;
    case PULL_SANDBOX:
    case PULL_FIND:
    case PULL_OPEN:
    case PULL_EDIT:
    case PULL_CONFIRM:
        BUG("no step of git's");
    }
}

static void run_step(struct pull_op *op, enum pull_step step)
{
    bool transfers = step >= PULL_REMOTE;
    struct git_command command;
    struct error err = ERROR_INIT;
    int rc;

    op->step = step;
    build(op, &command);
    const struct command_options options = {
        .argv = (const char *const *)command.argv,
        .env = git_environment(),
        .cwd = SANDBOX_WORKSPACE,
        .max_output_bytes = PUBLISH_OUTPUT_MAX,
        .end_when_full = true,
        .timeout_ms = transfers ? TRANSFER_MS : LOOK_MS,
        .silence_ms = transfers && step != PULL_PUSH ? SILENCE_MS : 0,
        .on_done = on_command,
        .data = op,
    };
    rc = command_start(&op->command, op->runs->loop, visit_sandbox(op->visit), &options, &err);
    git_command_finish(&command);
    if (rc < 0)
        fail(op, &err);
}

static void on_ready(void *data, const struct error *err)
{
    struct pull_op *op = data;

    if (err != NULL)
        fail(op, err);
    else
        run_step(op, PULL_LOOK);
}

/* Beginning
 * ------------------------------------------------------------------------------------------- */

static int load(struct pull_op *op, struct error *err)
{
    const struct run *live;

    if (store_session_load(op->runs->store, &op->session.id, &op->session, err) < 0)
        return -1;
    live = registry_find_session(op->runs, &op->session.id, false);
    if (live != NULL)
        return error_set(err, ERR_CONFLICT, 0,
                         "run %s of the session has not ended: wait for it, or cancel it",
                         live->record.id.text);
    return store_run_load(op->runs->store, &op->session.last_run, &op->newest, err);
}

/* Where the session's work belongs. */
static int find_remote(struct pull_op *op, struct error *err)
{
    const struct session_place *place = &op->session.places[op->session.place];
    const char *path = git_place_at_service(&op->runs->options, place->repository, &op->service);
    size_t len = path != NULL ? strlen(path) : 0;

    if (place->repository[0] == '\0')
        return error_set(err, ERR_CONFLICT, 0,
                         "the session has no repository; sandboxctl export %s brings its files out",
                         op->session.id.text);
    if (path == NULL || !place->cloned)
        return error_set(err, ERR_CONFLICT, 0,
                         path != NULL
                             ? "the session's repository was never cloned as a whole"
                             : "the session's repository is at no git service, so there is "
                               "nowhere to push to; sandboxctl pull brings the branch here");
    while (len > 0 && path[len - 1] == '/')
        len--;
    op->path = mem_strndup(path, len);
    if (len > 4 && strncmp(op->path + len - 4, ".git", 4) == 0)
        len -= 4;
    op->repository = mem_strndup(op->path + 1, len - 1);
    op->url = mem_printf("http://127.0.0.1:%d/proxy/%s%s", RUN_PROXY_PORT, op->service, op->path);
    op->folder = place_directory(place);
    op->forge = forge_find(op->service);
    return op->forge != NULL ? forge_check_repository(op->forge, op->repository, err) : 0;
}

/* Nothing but the one repository there. Which ref is to be pushed is known only after a look: until
 * then there is none. */
static int start(struct pull_op *op, struct error *err)
{
    const struct proxy_repository repository = {
        .service = op->service, .path = op->path, .branch = "", .push = pull_push(op)
    };
    const struct proxy_grant grant = { .run_id = op->newest.id.text,
                                       .services = &op->service,
                                       .service_count = 1,
                                       .repositories = &repository,
                                       .repository_count = 1,
                                       .pushed = op->session.pushed,
                                       .only_ref = "",
                                       .no_hosts = true };
    const struct visit_options options = { .session = &op->session,
                                           .access = SANDBOX_READ_WRITE,
                                           .grant = &grant,
                                           .on_ready = on_ready,
                                           .data = op };

    return visit_start(&op->visit, op->runs, &options, err);
}

static struct pull_op *find_op(struct runs *runs, const struct id *session)
{
    LIST_EACH(&runs->pulls, link) {
        struct pull_op *op = LIST_ENTRY(link, struct pull_op, link);

        if (str_equal(op->session.id.text, session->text))
            return op;
    }
    return NULL;
}

static bool same_request(const struct pull_op *op, const struct pull_request_options *options)
{
    return str_equal(op->title, options->title) && str_equal(op->body, options->body) &&
           str_equal(op->wanted_base, options->base) && op->draft == options->draft &&
           op->commit == options->commit;
}

static struct pull_op *op_new(struct runs *runs, const struct pull_request_options *options)
{
    struct pull_op *op = NEW(struct pull_op);

    op->runs = runs;
    list_init(&op->waits);
    list_append(&runs->pulls, &op->link);
    session_record_init(&op->session);
    op->session.id = *options->session;
    run_record_init(&op->newest);
    op->title = mem_strdup(options->title);
    op->body = mem_strdup(options->body);
    op->wanted_base = mem_strdup(options->base);
    op->page = mem_strdup(options->page);
    op->draft = options->draft;
    op->commit = options->commit;
    return op;
}

int pull_request_open(struct pull_request_wait **out, struct runs *runs,
                      const struct pull_request_options *options, pull_request_cb done_cb,
                      void *data, struct error *err)
{
    struct pull_op *op = find_op(runs, options->session);

    if (op != NULL && !same_request(op, options))
        return error_set(err, ERR_CONFLICT, 0,
                         "session %s is being published already, with other arguments; call again "
                         "in a moment",
                         options->session->text);
    if (op == NULL) {
        struct error ignored = ERROR_INIT;

        if (options->base[0] != '\0' && branch_check(options->base, &ignored) < 0)
            return error_argument(err, "base", "is no name of a branch that git takes");
        op = op_new(runs, options);
        if (load(op, err) < 0 || find_remote(op, err) < 0 || start(op, err) < 0) {
            op_free(op);
            return -1;
        }
    }
    *out = join(op, done_cb, data);
    return 0;
}

void pull_request_close_all(struct runs *runs)
{
    LIST_EACH(&runs->pulls, link) {
        struct pull_op *op = LIST_ENTRY(link, struct pull_op, link);

        while (!list_empty(&op->waits))
            pull_request_forget(LIST_ENTRY(op->waits.next, struct pull_request_wait, link));
        op_free(op);
    }
}

static void set_pushed(struct session_record *session, const void *data)
{
    record_set(&session->pushed, data);
}

void pull_request_pushed(struct runs *runs, const char *run_id, const char *pushed)
{
    LIST_EACH(&runs->pulls, link) {
        struct pull_op *op = LIST_ENTRY(link, struct pull_op, link);
        struct error err = ERROR_INIT;

        if (!str_equal(op->newest.id.text, run_id))
            continue;
        if (session_change(runs, &op->session.id, set_pushed, pushed, &err) < 0)
            log_warn(run_id, "what was pushed can't be stored: %s", err.text);
        return;
    }
}
