#include "agent/acp/acp_verdict.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent_json.h"
#include "common/buf.h"
#include "common/mem.h"
#include "common/str.h"

#define WORDS_MAX (16u << 10)
#define AUTH_REQUIRED (-32000) /* the protocol's own code */

/* Errors -------------------------------------------------------------------------------------- */

/* Agents pass on what the provider said in words of many forms; the first row that is found in them
 * counts. What says more stands before what says less. */
static const struct words {
    const char *words;
    const char *code;
} words[] = {
    { "credit balance is too low", "model_billing" },
    { "insufficient_quota", "model_billing" },
    { "budget_exhausted", "model_billing" },
    { "ContextOverflowError", "context_overflow" },
    { "prompt is too long", "context_overflow" },
    { "context_length_exceeded", "context_overflow" },
    { "context window", "context_overflow" },
    { "rate_limit", "model_rate_limited" },
    { "rate limit", "model_rate_limited" },
    { "RESOURCE_EXHAUSTED", "model_rate_limited" },
    { "429", "model_rate_limited" },
    { "overloaded", "model_overloaded" },
    { "529", "model_overloaded" },
    { "authentication", "model_auth" },
    { "Unauthorized", "model_auth" },
    { "x-api-key", "model_auth" },
    { "API key", "model_auth" },
    { "api_key", "model_auth" },
    { "PERMISSION_DENIED", "model_auth" },
    { "/login", "model_auth" },
    { "401", "model_auth" },
    { "403", "model_auth" },
    { "Model not found", "model_unknown" },
    { "model not found", "model_unknown" },
    { "not_found_error", "model_unknown" },
    { "404", "model_unknown" },
    { "ECONNREFUSED", "model_unreachable" },
    { "ECONNRESET", "model_unreachable" },
    { "fetch failed", "model_unreachable" },
    { "Connection error", "model_unreachable" },
    { "connection refused", "model_unreachable" },
    { "Cannot connect", "model_unreachable" },
    { "timed out", "model_unreachable" },
};

static const char *code_of(const struct json_value *error, const char *said)
{
    if (json_number(json_get(error, "code"), 0) == AUTH_REQUIRED)
        return "model_auth";
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strstr(said, words[i].words) != NULL)
            return words[i].code;
    }
    return "model_error";
}

/* The message on one line; the details where the message is only the protocol's "Internal error".
 */
static void append_words(struct buf *out, const struct json_value *error)
{
    static const char *const members[] = { "message", "details", "error" };
    const struct json_value *data = json_get(error, "data");
    const char *message = agent_json_text(json_get(error, "message"));
    const char *detail = agent_json_text(data);

    for (size_t i = 0; i < ARRAY_LEN(members) && detail[0] == '\0'; i++)
        detail = agent_json_text(json_get(data, members[i]));
    str_append_escaped(out, message, strlen(message), 400);
    if (detail[0] == '\0' || strstr(message, detail) != NULL)
        return;
    if (out->len > 0)
        buf_append_str(out, ": ");
    str_append_escaped(out, detail, strlen(detail), 400);
}

void acp_failure_read(struct opencode_failure *failure, const struct json_value *error)
{
    AUTO_BUF struct buf said = BUF_INIT(WORDS_MAX);
    AUTO_BUF struct buf all = BUF_INIT(WORDS_MAX);
    const char *name = agent_json_text(json_path(error, "data.errorName"));

    append_words(&said, error);
    if (said.len == 0)
        buf_append_str(&said, "the agent gave no reason");
    buf_printf(&all, "%s %.100s", buf_text(&said), name);
    opencode_failure_set(failure, code_of(error, buf_text(&all)), buf_text(&said));
}

/* Ends ---------------------------------------------------------------------------------------- */

static const struct stop {
    const char *reason; /* the protocol's */
    enum agent_end_kind kind;
    const char *finish; /* ours */
} stops[] = {
    { "end_turn", AGENT_END_DONE, "stop" },
    { "max_tokens", AGENT_END_INCOMPLETE, "length" },
    { "max_turn_requests", AGENT_END_INCOMPLETE, "max_turn_requests" },
    { "refusal", AGENT_END_FAILED, "refusal" },
    { "cancelled", AGENT_END_ABORTED, "" },
};

static void set_failure(struct agent_end *end, const struct opencode_failure *failure)
{
    end->kind = AGENT_END_FAILED;
    end->error_code = failure->code;
    end->message = failure->message;
    end->hint = failure->hint;
    end->retryable = failure->retryable;
}

static void read_usage(struct agent_end *end, const struct json_value *result)
{
    const struct json_value *usage = json_get(result, "usage");
    const struct json_value *quota = json_path(result, "_meta.quota.token_count");

    if (json_kind(usage) == JSON_KIND_OBJECT) {
        end->usage_known = true;
        end->usage.input_tokens = json_u64(json_get(usage, "inputTokens"), 0);
        end->usage.output_tokens = json_u64(json_get(usage, "outputTokens"), 0);
        end->usage.cache_read_tokens = json_u64(json_get(usage, "cachedReadTokens"), 0);
        end->usage.cache_write_tokens = json_u64(json_get(usage, "cachedWriteTokens"), 0);
    } else if (json_kind(quota) == JSON_KIND_OBJECT) {
        end->usage_known = true;
        end->usage.input_tokens = json_u64(json_get(quota, "input_tokens"), 0);
        end->usage.output_tokens = json_u64(json_get(quota, "output_tokens"), 0);
    }
}

void acp_result_read(struct agent_end *end, struct opencode_failure *failure,
                     const struct json_value *result, const char *output)
{
    const char *reason = agent_json_text(json_get(result, "stopReason"));
    const struct stop *stop = NULL;

    for (size_t i = 0; i < ARRAY_LEN(stops) && stop == NULL; i++) {
        if (str_equal(stops[i].reason, reason))
            stop = &stops[i];
    }
    read_usage(end, result);
    /* A reason of a later version: an answer, but not one to call whole. */
    end->kind = stop != NULL ? stop->kind : AGENT_END_INCOMPLETE;
    end->finish_reason = stop != NULL ? stop->finish : "";
    if (end->kind == AGENT_END_DONE && str_blank(output))
        end->kind = AGENT_END_INCOMPLETE;
    if (end->kind != AGENT_END_FAILED)
        return;
    opencode_failure_set(failure, "content_refused", "the model refused to go on");
    set_failure(end, failure);
}

/* Some agents call an answer that reached its greatest length an error of theirs, after they have
 * told it. */
static bool is_cut(const char *said)
{
    static const char *const cuts[] = { "output token maximum", "max_output_tokens" };

    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        if (strstr(said, cuts[i]) != NULL)
            return true;
    }
    return false;
}

void acp_error_read(struct agent_end *end, struct opencode_failure *failure,
                    const struct json_value *error)
{
    acp_failure_read(failure, error);
    end->finish_reason = "";
    set_failure(end, failure);
    if (!str_equal(failure->code, "model_error") || !is_cut(failure->message))
        return;
    end->kind = AGENT_END_INCOMPLETE;
    end->finish_reason = "length";
}
