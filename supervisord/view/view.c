#include "view/view.h"

#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"
#include "proto/frame.h"
#include "proto/msg_event.h"
#include "proto/msg_service.h"
#include "proto/msg_session.h"

#define STEP_TEXT_MAX 300    /* code points */
#define STEP_DATA_MAX 2048   /* bytes */
#define MESSAGE_PART_MAX 300 /* code points */

#define ASK_AGAIN "Call opencode_get_result again with waitSeconds 45."

void view_duration(struct buf *out, uint64_t milliseconds)
{
    uint64_t seconds = milliseconds / 1000;

    if (milliseconds < 1000)
        buf_printf(out, "%llu ms", (unsigned long long)milliseconds);
    else if (seconds < 60)
        buf_printf(out, "%llu s", (unsigned long long)seconds);
    else if (seconds < 3600)
        buf_printf(out, "%llu m %llu s", (unsigned long long)(seconds / 60),
                   (unsigned long long)(seconds % 60));
    else
        buf_printf(out, "%llu h %llu m", (unsigned long long)(seconds / 3600),
                   (unsigned long long)(seconds / 60 % 60));
}

void view_excerpt(struct buf *out, const char *text, size_t code_points)
{
    size_t len = strlen(text);
    size_t at = 0;

    for (; at < len && code_points > 0; code_points--) {
        size_t step = str_utf8_step(text + at, len - at, NULL);

        at += step != 0 ? step : 1;
    }
    buf_append(out, text, at);
    if (at < len)
        buf_append_str(out, "…");
}

static uint64_t since(uint64_t from_ms, uint64_t to_ms)
{
    return from_ms != 0 && to_ms > from_ms ? to_ms - from_ms : 0;
}

static uint64_t time_taken(const struct run_record *run)
{
    return since(run->started_ms != 0 ? run->started_ms : run->created_ms, run->ended_ms);
}

static void describe_phase(struct buf *out, const char *phase)
{
    static const struct {
        const char *phase;
        const char *text;
    } texts[] = {
        { "sandbox", "the sandbox is being made" },
        { "clone", "the repository is being cloned" },
        { "agent", "the agent is starting" },
        { "prompt", "the task is on its way to the agent" },
        { "collect", "the agent is done, its changes are being collected" },
        { "stop", "the sandbox is being stopped" },
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (str_equal(phase, texts[i].phase)) {
            buf_append_str(out, texts[i].text);
            return;
        }
    }
    buf_printf(out, "phase %s", phase);
}

static void say_queued(struct buf *out, const struct run_record *run,
                       const struct view_context *context)
{
    buf_append_str(out, "queued for ");
    view_duration(out, since(run->created_ms, context->now_ms));
    buf_append_str(out,
                   ", waiting for a free place or for an earlier run of its session. " ASK_AGAIN);
}

static void say_started(struct buf *out, const struct run_record *run,
                        const struct view_context *context)
{
    buf_append_str(out, "started ");
    view_duration(out, since(run->started_ms, context->now_ms));
    buf_append_str(out, " ago, now: ");
    describe_phase(out, run_phase_of(run));
    buf_append_str(out, ". " ASK_AGAIN);
}

static void say_running(struct buf *out, const struct run_record *run,
                        const struct view_context *context)
{
    const char *phase = run_phase_of(run);

    buf_append_str(out, "running for ");
    view_duration(out, since(run->started_ms, context->now_ms));
    buf_append_str(out, ", now: ");
    if (!str_equal(phase, "work"))
        describe_phase(out, phase);
    else if (context->current_step != NULL)
        view_excerpt(out, context->current_step, MESSAGE_PART_MAX);
    else
        buf_append_str(out, "the agent is working");
    buf_append_str(out, ". " ASK_AGAIN);
}

static void say_waiting(struct buf *out, const struct run_record *run,
                        const struct view_context *context)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    const char *request = context->open_request;
    const char *kind;
    const char *text;
    const char *id;

    if (request == NULL || json_parse(&doc, request, strlen(request), FRAME_JSON_MAX, &err) < 0) {
        buf_printf(out,
                   "waiting for an answer; the newest events hold the question. Answer with "
                   "opencode_answer, or a person with: sandboxctl answer %s REQUEST ANSWER",
                   run->id.text);
        return;
    }
    kind = json_string(json_get(json_root(doc), "kind"));
    text = json_string(json_get(json_root(doc), "text"));
    id = json_string(json_get(json_root(doc), "requestId"));
    buf_printf(out, "waiting for an answer to a %s",
               str_equal(kind, "permission") ? "permission request" : "question");
    if (text != NULL) {
        buf_append_str(out, ": ");
        view_excerpt(out, text, MESSAGE_PART_MAX);
    }
    buf_printf(out,
               ". Answer with opencode_answer, or a person with: sandboxctl answer %s %s "
               "ANSWER",
               run->id.text, id != NULL ? id : "REQUEST");
}

static void say_changes(struct buf *out, const struct run_evidence_record *evidence)
{
    if (!evidence->known)
        return;
    if (evidence->files_changed == 0 && evidence->untracked == 0 && evidence->commits == 0) {
        buf_append_str(out, "; no file was changed");
        return;
    }
    buf_printf(out, "; %llu file%s changed (+%llu -%llu)",
               (unsigned long long)evidence->files_changed, evidence->files_changed == 1 ? "" : "s",
               (unsigned long long)evidence->insertions, (unsigned long long)evidence->deletions);
    if (evidence->untracked != 0)
        buf_printf(out, ", %llu new", (unsigned long long)evidence->untracked);
    if (evidence->commits != 0)
        buf_printf(out, ", %llu commit%s", (unsigned long long)evidence->commits,
                   evidence->commits == 1 ? "" : "s");
    if (evidence->branch[0] != '\0')
        buf_printf(out, " on %s", evidence->branch);
}

static bool has_diff(const struct run_record *run)
{
    return run->evidence.known && (run->evidence.files_changed != 0 ||
                                   run->evidence.untracked != 0 || run->evidence.commits != 0);
}

static void say_completed(struct buf *out, const struct run_record *run)
{
    buf_append_str(out, "completed in ");
    view_duration(out, time_taken(run));
    say_changes(out, &run->evidence);
    if (str_equal(run->verdict, "incomplete"))
        buf_append_str(
            out, ". The answer is empty or was cut off: check what was done before relying on it");
    if (run->evidence.left_running[0] != '\0')
        buf_append_str(out, ". Programs that it had left running were ended with the sandbox");
    if (has_diff(run))
        buf_append_str(out, ". opencode_get_diff shows the changes");
    buf_printf(out, ". A run with sessionId %s goes on from here.", run->session.text);
}

static void append_sentence(struct buf *out, const char *text)
{
    view_excerpt(out, text, MESSAGE_PART_MAX);
    if (!str_ends(text, ".") && !str_ends(text, "!") && !str_ends(text, "?"))
        buf_append_str(out, ".");
}

static void say_failed(struct buf *out, const struct run_record *run)
{
    const struct run_error_record *error = &run->error;

    buf_append_str(out, "failed");
    if (error->phase[0] != '\0')
        buf_printf(out, " in phase %s", error->phase);
    buf_append_str(out, " after ");
    view_duration(out, time_taken(run));
    buf_append_str(out, ": ");
    append_sentence(out, error->message[0] != '\0' ? error->message
                         : error->code[0] != '\0'  ? error->code
                                                   : "unknown");
    if (error->hint[0] != '\0') {
        buf_append_str(out, " Hint: ");
        append_sentence(out, error->hint);
    }
    if (error->retryable)
        buf_append_str(out, " The same task may succeed when it is tried again.");
    if (has_diff(run))
        buf_append_str(out, " Its partial changes are kept: opencode_get_diff.");
}

static void say_cancelled(struct buf *out, const struct run_record *run)
{
    if (run->started_ms == 0) {
        buf_append_str(out, "cancelled while it was queued: nothing of it was begun.");
        return;
    }
    buf_append_str(out, "cancelled after ");
    view_duration(out, time_taken(run));
    if (run->prompt_id[0] == '\0')
        buf_append_str(out, ", before the agent had its task: nothing was done");
    else if (run->evidence.known)
        say_changes(out, &run->evidence);
    else
        buf_append_str(out, "; what it changed could not be established");
    buf_printf(out,
               ". Nothing of it runs any more, and nothing was undone: its files are kept, a run "
               "with sessionId %s goes on from there.",
               run->session.text);
}

static void say_interrupted(struct buf *out, const struct run_record *run)
{
    buf_append_str(out, "interrupted: ");
    append_sentence(out, run->error.message[0] != '\0'
                             ? run->error.message
                             : "the supervisor was restarted and the run could not go on");
    buf_printf(out, " Its work is kept; start a follow-up run with sessionId %s.",
               run->session.text);
}

void view_message(struct buf *out, const struct run_record *run, const struct view_context *context)
{
    switch ((enum run_status)run_status_of(run)) {
    case RUN_STATUS_QUEUED:
        say_queued(out, run, context);
        break;
    case RUN_STATUS_STARTED:
        say_started(out, run, context);
        break;
    case RUN_STATUS_RUNNING:
        say_running(out, run, context);
        break;
    case RUN_STATUS_WAITING:
        say_waiting(out, run, context);
        break;
    case RUN_STATUS_COMPLETED:
        say_completed(out, run);
        break;
    case RUN_STATUS_FAILED:
        say_failed(out, run);
        break;
    case RUN_STATUS_CANCELLED:
        say_cancelled(out, run);
        break;
    case RUN_STATUS_INTERRUPTED:
        say_interrupted(out, run);
        break;
    case RUN_STATUS_COUNT:
        BUG("run status");
    }
}

void view_created_message(struct buf *out, const struct run_record *run,
                          const struct view_context *context)
{
    if (run_status_of(run) != RUN_STATUS_QUEUED && run_status_of(run) != RUN_STATUS_STARTED) {
        /* An idempotency key brought an earlier run back. */
        view_message(out, run, context);
        return;
    }
    buf_printf(out,
               "The run was accepted and goes on by itself. Call opencode_get_result with runId %s "
               "and waitSeconds 45 "
               "until it has ended.",
               run->id.text);
}

void view_steered_message(struct buf *out, const struct run_record *run)
{
    buf_printf(out,
               "The agent of run %s reads the message at its next step, without being "
               "interrupted; opencode_get_log shows when it has. Call opencode_get_result with "
               "that runId and waitSeconds 45 until it has ended.",
               run->id.text);
}

static void fill_error(struct run_error_view *view, const struct run_error_record *error)
{
    if (error->code[0] == '\0')
        return;
    view->code = error->code;
    view->phase = error->phase;
    view->message = error->message;
    view->hint = error->hint;
    view->retryable = error->retryable;
    view->retryAt = error->retry_at_ms;
}

static void fill_evidence(struct run_evidence_view *view,
                          const struct run_evidence_record *evidence)
{
    view->branch = evidence->branch;
    view->baseCommit = evidence->base_commit;
    view->headCommit = evidence->head_commit;
    view->commits = evidence->commits;
    view->filesChanged = evidence->files_changed;
    view->insertions = evidence->insertions;
    view->deletions = evidence->deletions;
    view->untracked = evidence->untracked;
    view->binaryFiles = evidence->binary_files;
    view->renames = evidence->renames;
    view->submodules = evidence->submodules;
    view->remoteState = evidence->remote_state;
    view->remoteCommit = evidence->remote_commit;
    view->warnings = evidence->warnings;
    view->refusedRequests = evidence->refused_requests;
    view->finishReason = evidence->finish_reason;
    view->leftRunning = evidence->left_running;
    view->diffTruncated = evidence->diff_truncated;
    view->known = evidence->known;
}

static void fill_usage(struct run_usage_view *view, const struct run_usage_record *usage,
                       const struct view_context *context)
{
    view->inputTokens = usage->input_tokens;
    view->outputTokens = usage->output_tokens;
    view->cacheReadTokens = usage->cache_read_tokens;
    view->cacheWriteTokens = usage->cache_write_tokens;
    view->requests = usage->requests;
    view->failedRequests = usage->failed_requests;
    view->costUsd = (double)usage->cost_microdollars / 1e6;
    view->countedTokens = usage->counted_tokens;
    view->tokenLimit = context->model_tokens;
    view->countedUsd = (double)usage->counted_microdollars / 1e6;
    view->limitUsd = (double)context->model_microdollars / 1e6;
}

void view_fill(struct run_view *view, const struct run_record *run,
               const struct view_context *context, struct buf *message)
{
    view_message(message, run, context);
    *view = (struct run_view){
        .runId = run->id.text,
        .sessionId = run->session.text,
        .status = run_status_of(run),
        .phase = run_phase_of(run),
        .task = run->task,
        .title = run->title,
        .agent = run->agent,
        .model = run->model,
        .repository = run->repository,
        .branch = run->branch,
        .createdAt = run->created_ms,
        .startedAt = run->started_ms,
        .completedAt = run->ended_ms,
        .deadlineAt = run->deadline_ms,
        .webUiUrl = context->web_url,
        .message = buf_text(message),
        .request = context->open_request,
        .retrying = context->retrying,
        .verdict = run->verdict,
        .output = run->output,
        .isolation = run->isolation,
        .waitingSince = context->waiting_since_ms,
        .cursor = run->last_event,
    };
    fill_error(&view->error, &run->error);
    fill_evidence(&view->evidence, &run->evidence);
    fill_usage(&view->usage, &run->usage, context);
}

bool view_is_step(const struct event_record *event)
{
    switch (event->kind) {
    case EVENT_KIND_TEXT:
    case EVENT_KIND_TOOL:
    case EVENT_KIND_QUESTION:
    case EVENT_KIND_PERMISSION:
    case EVENT_KIND_RETRY:
    case EVENT_KIND_REFUSED:
    case EVENT_KIND_ERROR:
    case EVENT_KIND_MESSAGE:
        return true;
    default: /* a number from the store: a newer program may have written others */
        return false;
    }
}

static int known_kind(uint32_t kind)
{
    return kind < EVENT_KIND_COUNT ? (int)kind : EVENT_KIND_LOG;
}

void view_step(struct buf *out, const struct event_record *event)
{
    AUTO_BUF struct buf text = BUF_INIT(8192);
    bool asks = event->kind == EVENT_KIND_QUESTION || event->kind == EVENT_KIND_PERMISSION;
    bool with_data = asks && event->data[0] != '\0' && strlen(event->data) <= STEP_DATA_MAX;
    struct event_view view = { .number = event->number,
                               .time = event->time_ms,
                               .kind = known_kind(event->kind),
                               .data = with_data ? event->data : NULL };
    struct json_writer writer;

    view_excerpt(&text, event->text, STEP_TEXT_MAX);
    view.text = buf_text(&text);
    json_write_init(&writer, out);
    event_view_write(&writer, &view);
}

void view_event(struct json_writer *writer, const struct event_record *event)
{
    struct event_view view = { .number = event->number,
                               .time = event->time_ms,
                               .kind = known_kind(event->kind),
                               .text = event->text,
                               .data = event->data[0] != '\0' ? event->data : NULL };

    event_view_write(writer, &view);
}

void view_audit(struct json_writer *writer, const struct audit_record *audit)
{
    static const char *const verdicts[] = { "allow", "deny", "error" };
    struct audit_view view = {
        .number = audit->number,
        .time = audit->time_ms,
        .runId = audit->run.text,
        .service = audit->service,
        .method = audit->method,
        .host = audit->host,
        .path = audit->path,
        .detail = audit->detail,
        .verdict = audit->verdict < ARRAY_LEN(verdicts) ? verdicts[audit->verdict] : "error",
        .reason = audit->reason,
        .status = audit->status,
        .requestBytes = audit->request_bytes,
        .responseBytes = audit->response_bytes,
        .milliseconds = audit->milliseconds,
        .inputTokens = audit->input_tokens,
        .outputTokens = audit->output_tokens,
        .costUsd = (double)audit->microdollars / 1e6,
    };

    audit_view_write(writer, &view);
}

void view_session_members(struct json_writer *writer, struct runs *runs,
                          const struct session_record *session)
{
    struct session_place_view places[SESSION_PLACES_MAX];
    const struct session_place *place = &session->places[session->place];
    struct session_view view = {
        .sessionId = session->id.text,
        .title = session->title,
        .repository = place->repository,
        .branch = place->branch,
        .createdAt = session->created_ms,
        .updatedAt = session->updated_ms,
        .runs = session->run_count,
        .lastRunId = session->last_run.text,
        .state = session_state(runs, session),
        .held = session->held,
        .forkedFrom = session->forked_from.text,
        .forkedCheckpoint = session->forked_number,
        .fileBytes = session->disk_bytes,
        .checkpointBytes = session->checkpoint_bytes,
        .places = places,
        .place_count = session->place_count,
        .pullUrl = session->pull_url,
        .pullNumber = session->pull_number,
        .pullBranch = session->pull_branch,
        .pullBase = session->pull_base,
    };

    for (size_t i = 0; i < session->place_count; i++)
        places[i] =
            (struct session_place_view){ session->places[i].repository, session->places[i].branch,
                                         session->places[i].directory };
    session_view_members(writer, &view);
}

void view_session(struct json_writer *writer, struct runs *runs,
                  const struct session_record *session)
{
    json_write_object(writer);
    view_session_members(writer, runs, session);
    json_write_object_end(writer);
}
