#include "common/failure.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

static const struct failure_kind kinds[] = {
    { "model_auth", false, "the provider refuses the key, or there is none",
      "check the provider's key: sandboxctl secret set, then sandboxctl doctor" },
    { "model_unknown", false, "the provider does not know the model",
      "choose a model that the provider offers" },
    { "model_billing", false, "the provider wants payment",
      "the provider wants payment: look at the account, or use another provider" },
    { "model_rate_limited", true, "the provider's limit is reached; `retryAt` says until when",
      "wait, or use another model or provider" },
    { "model_overloaded", true, "the provider is busy", "the provider is busy: try again later" },
    { "model_unreachable", true, "no answer comes, or none that is whole",
      "check that the provider's address can be reached from this machine" },
    { "model_error", true, "the provider answers with another error",
      "see the run's log for what the provider answered" },
    { "context_overflow", false, "the conversation is too long for the model",
      "give a smaller task or start a new session" },
    { "content_refused", false, "the provider's content filter stopped the answer",
      "the provider's content filter stopped the answer: reword the task" },
    { "budget_exhausted", false, "the run has used up its model requests, tokens or money",
      "raise the limit that the message names in the configuration, or give a smaller task" },
    { "model_unpriced", false, "the run's money is limited, and its model has no price",
      "give the model a price under `prices` in the configuration, or set model.centsPerRun to 0" },
    { "agent_not_found", false, "the agent's program is not on this machine",
      "install the agent; sandboxctl doctor shows where it is looked for" },
    { "agent_unknown", false, "no agent of that name is supported",
      "use an agent that is supported" },
    { "agent_unsupported", false, "the agent's version is not supported",
      "install a supported version of the agent" },
    { "agent_not_ready", true, "the agent did not get ready in time",
      "the run's log has the agent's own words: sandboxctl logs" },
    { "agent_crashed", true, "the agent's process ended in the midst of the work",
      "see the run's log for the agent's last lines" },
    { "agent_stalled", true, "no sign of life for too long, or the agent does not answer",
      "continue the session with a new run" },
    { "unanswered", true, "the agent asked something, and nobody answered in time",
      "go on in the session with a new run that says what to do, or raise agents.answerSeconds" },
    { "agent_error", true, "the agent stopped without a reason that has a name",
      "see the run's log" },
    { "not_started", true, "the agent did not take the task up",
      "the agent did not take the task up: start it in a new session" },
    { "command_failed", false, "the driver `shell`: the command ended with another code than 0",
      "see the run's log for what the command wrote" },
    { "sandbox_failed", true, "the sandbox could not be made, or ended by itself",
      "sandboxctl doctor checks what sandboxes need here" },
    { "clone_failed", true, "the repository could not be fetched", "see the run's log" },
    { "setup_failed", true, "the repository's set-up command failed", "see the run's log" },
    { "timeout", true, "the run's time is over",
      "give a larger timeoutMinutes, or continue the session with a new run" },
    { "out_of_memory", true, "the kernel ended a process of the sandbox for want of memory",
      "raise limits.memoryMiB in the configuration" },
    { "too_many_processes", true, "the sandbox could not start further processes",
      "raise limits.processes in the configuration" },
    { "disk_full", true, "the session's files, or the disk, are full",
      "free disk space: sandboxctl rm removes a session" },
    { "output_limit", true, "the run wrote too much to its log",
      "let the task write to a file, or raise limits.outputMiB" },
    { "interrupted", true, "the sandbox was lost together with its supervisor",
      "continue the session with a new run" },
};

const struct failure_kind *failure_at(size_t index)
{
    return index < ARRAY_LEN(kinds) ? &kinds[index] : NULL;
}

const struct failure_kind *failure_find(const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (str_equal(kinds[i].code, code))
            return &kinds[i];
    }
    return NULL;
}

void failure_print(struct buf *out)
{
    buf_append_str(out, "| code | when | again? | hint |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        buf_printf(out, "| `%s` | %s | %s | %s |\n", kinds[i].code, kinds[i].meaning,
                   kinds[i].retryable ? "yes" : "no", kinds[i].hint);
}

/* What providers answer ------------------------------------------------------------------------ */

struct by_words {
    const char *words;
    const char *code;
};

static const struct by_words words_first[] = {
    { "credit balance is too low", "model_billing" },
    { "insufficient_quota", "model_billing" },
    { "prompt is too long", "context_overflow" },
    { "\"code\":\"model_requests\"", "budget_exhausted" },
    { "\"code\":\"model_tokens\"", "budget_exhausted" },
    { "\"code\":\"model_cost\"", "budget_exhausted" },
    { "\"code\":\"model_price_unknown\"", "model_unpriced" },
    { "\"code\":\"secret_missing\"", "model_auth" },
    { "\"code\":\"upstream_", "model_unreachable" },
};

static const struct by_words symptoms[] = {
    { "overloaded_error", "model_overloaded" },
    { "rate_limit_error", "model_rate_limited" },
    { "authentication_error", "model_auth" },
    { "Cannot connect to API", "model_unreachable" },
    { "Unable to connect", "model_unreachable" },
    { "Connection reset", "model_unreachable" },
    { "socket connection was closed", "model_unreachable" },
    { "timed out", "model_unreachable" },
};

static const struct {
    uint64_t status;
    const char *code;
} statuses[] = {
    { 401, "model_auth" },        { 403, "model_auth" },       { 404, "model_unknown" },
    { 402, "model_billing" },     { 413, "context_overflow" }, { 429, "model_rate_limited" },
    { 502, "model_unreachable" }, { 503, "model_overloaded" }, { 504, "model_unreachable" },
    { 529, "model_overloaded" },
};

static const char *find_words(const struct by_words *rows, size_t count, const char *words)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(words, rows[i].words) != NULL)
            return rows[i].code;
    }
    return NULL;
}

const char *failure_of_words(const char *words)
{
    return find_words(words_first, ARRAY_LEN(words_first), words);
}

const char *failure_of_symptom(const char *words)
{
    return find_words(symptoms, ARRAY_LEN(symptoms), words);
}

const char *failure_of_status(uint64_t status)
{
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        if (statuses[i].status == status)
            return statuses[i].code;
    }
    return NULL;
}
