/* notice.c: notices under way, each with one delivery a way, and their attempts. */
#include "notice/internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

static const uint32_t default_retry_ms[] = { 1000, 5000, 30000, 120000, 600000, 0 };

struct message {
    struct list link; /* notices::messages */
    struct notices *notices;
    struct notice notice;   /* strings are ours */
    struct list deliveries; /* delivery::link, those that are not over */
    unsigned open;          /* deliveries whose memory is there */
    /* Of a trial; NULL else. */
    notices_tried_cb tried;
    void *tried_data;
    struct notice_trial *trials; /* notice_way_count of them */
    size_t trial_count;
};

/* Strings of the two open structs, for copying and freeing. */
static char **notice_strings(struct notice *notice, size_t i)
{
    const char **all[] = { &notice->run_id, &notice->session_id, &notice->status,
                           &notice->title,  &notice->repository, &notice->verdict,
                           &notice->code,   &notice->text,       &notice->url };

    return i < ARRAY_LEN(all) ? (char **)(uintptr_t)all[i] : NULL;
}

static char **option_strings(struct notices_options *options, size_t i)
{
    const char **all[] = { &options->program, &options->webhook,     &options->webhook_secret,
                           &options->ntfy,    &options->ntfy_secret, &options->desktop,
                           &options->ca_file };

    return i < ARRAY_LEN(all) ? (char **)(uintptr_t)all[i] : NULL;
}

static bool program_is_on(const struct notices_options *options)
{
    return options->program[0] != '\0';
}

static bool webhook_is_on(const struct notices_options *options)
{
    return options->webhook[0] != '\0';
}

static bool ntfy_is_on(const struct notices_options *options)
{
    return options->ntfy[0] != '\0';
}

static bool desktop_is_on(const struct notices_options *options)
{
    return options->desktop[0] != '\0';
}

#define RUN_BY_HAND                                                                                \
    "run the program of notices.program by hand, with a line of JSON on its standard input, and "  \
    "see that it ends with 0 within a minute"
#define SHOW_BY_HAND                                                                               \
    "see that notify-send is installed (sudo apt install libnotify-bin) and that the supervisor "  \
    "was started in your desktop's session"
#define STORE_SECRET(setting)                                                                      \
    "look at the address, and store the secret that " setting " names: sandboxctl secret set NAME"
#define SEE_SERVER(setting)                                                                        \
    "see that this machine reaches the server that " setting                                       \
    " names and that it takes notices; with an authority of your own, set egress.caFile"

const struct way notice_ways[] = {
    { "program", program_is_on, program_start, program_stop, RUN_BY_HAND, RUN_BY_HAND },
    { "webhook", webhook_is_on, webhook_start, transfer_stop, SEE_SERVER("notices.webhook"),
      STORE_SECRET("notices.webhookSecret") },
    { "ntfy", ntfy_is_on, ntfy_start, transfer_stop, SEE_SERVER("notices.ntfy"),
      STORE_SECRET("notices.ntfyToken") },
    { "desktop", desktop_is_on, desktop_start, program_stop, SHOW_BY_HAND, SHOW_BY_HAND },
};
const size_t notice_way_count = ARRAY_LEN(notice_ways);

bool notices_wanted(const struct notices_options *options)
{
    for (size_t i = 0; i < notice_way_count; i++) {
        if (notice_ways[i].is_on(options))
            return true;
    }
    return false;
}

struct notices *delivery_notices(const struct delivery *delivery)
{
    return delivery->message->notices;
}

const struct notice *delivery_notice(const struct delivery *delivery)
{
    return &delivery->message->notice;
}

/* The end --------------------------------------------------------------------------------------
 */

void notices_part_closed(void *data)
{
    struct notices *notices = data;

    if (--notices->open > 0)
        return;
    for (size_t i = 0; option_strings(&notices->options, i) != NULL; i++)
        free(*option_strings(&notices->options, i));
    if (notices->done != NULL)
        notices->done(notices->done_data);
    free(notices);
}

static void end_trial(struct message *message)
{
    message->tried(message->tried_data, message->trials, message->trial_count);
    for (size_t i = 0; i < message->trial_count; i++)
        free((char *)(uintptr_t)message->trials[i].why);
    free(message->trials);
}

static void message_end(struct message *message)
{
    struct notices *notices = message->notices;
    AUTO_FREE
    char *run_id = mem_strdup(message->notice.run_id);
    uint64_t number = message->notice.number;

    bool was_trial = message->tried != NULL;

    list_remove(&message->link);
    notices->count--;
    if (was_trial)
        end_trial(message);
    for (size_t i = 0; notice_strings(&message->notice, i) != NULL; i++)
        free(*notice_strings(&message->notice, i));
    free(message);
    if (!notices->closing && !was_trial)
        notices->options.on_told(notices->options.data, run_id, number);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct delivery *delivery = handle->data;
    struct message *message = delivery->message;
    struct notices *notices = message->notices;

    buf_finish(&delivery->body);
    free(delivery);
    if (--message->open == 0)
        message_end(message);
    notices_part_closed(notices);
}

/* Its memory goes with its timer, and the message's with its last delivery. */
static void delivery_end(struct delivery *delivery)
{
    list_remove(&delivery->link);
    uv_close((uv_handle_t *)&delivery->timer, on_timer_closed);
}

/* Attempts ------------------------------------------------------------------------------------- */

static void attempt(struct delivery *delivery)
{
    struct error err = ERROR_INIT;

    if (delivery->way->start(delivery, &err) < 0)
        delivery_done(delivery,
                      err.code == ERR_INVALID || err.code == ERR_NOT_FOUND ? DELIVERY_REFUSED
                                                                           : DELIVERY_FAILED,
                      err.text);
}

static void on_retry(uv_timer_t *timer)
{
    attempt(timer->data);
}

/* A trial is tried once, and what came of it is for whoever asked. */
static void note_trial(struct delivery *delivery, enum delivery_result result, const char *why)
{
    struct message *message = delivery->message;
    const struct way *way = delivery->way;
    struct notice_trial *trial = &message->trials[message->trial_count++];

    *trial = (struct notice_trial){ .way = way->name, .outcome = NOTICE_TOLD, .next = "" };
    trial->why = mem_strdup(result == DELIVERY_TOLD ? "" : why);
    if (result == DELIVERY_FAILED) {
        trial->outcome = NOTICE_FAILED;
        trial->next = way->failed;
    } else if (result == DELIVERY_REFUSED) {
        trial->outcome = NOTICE_REFUSED;
        trial->next = way->refused;
    }
    delivery_end(delivery);
}

void delivery_done(struct delivery *delivery, enum delivery_result result, const char *why)
{
    struct notices *notices = delivery_notices(delivery);
    const char *run_id = delivery->message->notice.run_id;
    uint32_t wait_ms = notices->options.retry_ms[delivery->attempt];

    uv_timer_stop(&delivery->timer);
    if (delivery->message->tried != NULL) {
        note_trial(delivery, result, why);
        return;
    }
    if (result == DELIVERY_FAILED && wait_ms != 0) {
        delivery->attempt++;
        log_info(run_id, "notice by %s: %s; again in %u ms", delivery->way->name, why, wait_ms);
        uv_timer_start(&delivery->timer, on_retry, wait_ms, 0);
        return;
    }
    if (result == DELIVERY_TOLD)
        log_info(run_id, "notice by %s: %s told", delivery->way->name,
                 delivery->message->notice.status);
    else
        log_warn(run_id, "notice by %s given up: %s", delivery->way->name, why);
    delivery_end(delivery);
}

static void delivery_new(struct message *message, const struct way *way)
{
    struct delivery *delivery = NEW(struct delivery);

    delivery->message = message;
    delivery->way = way;
    buf_init(&delivery->body, NOTICE_BODY_MAX);
    uv_timer_init(message->notices->loop, &delivery->timer);
    delivery->timer.data = delivery;
    message->notices->open++;
    message->open++;
    list_append(&message->deliveries, &delivery->link);
    /* From the loop, so that nobody is called back from inside notices_send. */
    uv_timer_start(&delivery->timer, on_retry, 0, 0);
}

static struct message *message_new(struct notices *notices, const struct notice *notice,
                                   struct error *err)
{
    struct message *message;

    if (!notices_has_room(notices)) {
        error_set(err, ERR_LIMIT, 0, "%u notices are under way", notices->count);
        return NULL;
    }
    if (notices_has(notices, notice->run_id)) {
        error_set(err, ERR_CONFLICT, 0, "a notice of %s is under way", notice->run_id);
        return NULL;
    }
    message = NEW(struct message);
    message->notices = notices;
    message->notice = *notice;
    for (size_t i = 0; notice_strings(&message->notice, i) != NULL; i++) {
        char **text = notice_strings(&message->notice, i);

        *text = mem_strndup(*text, str_utf8_cut(*text, strnlen(*text, NOTICE_TEXT_MAX * 2)));
    }
    list_init(&message->deliveries);
    list_append(&notices->messages, &message->link);
    notices->count++;
    for (size_t i = 0; i < notice_way_count; i++) {
        if (notice_ways[i].is_on(&notices->options))
            delivery_new(message, &notice_ways[i]);
    }
    return message;
}

int notices_send(struct notices *notices, const struct notice *notice, struct error *err)
{
    return message_new(notices, notice, err) != NULL ? 0 : -1;
}

int notices_try(struct notices *notices, const struct notice *notice, notices_tried_cb tried,
                void *data, struct error *err)
{
    struct message *message = message_new(notices, notice, err);

    if (message == NULL)
        return -1;
    message->tried = tried;
    message->tried_data = data;
    message->trials = mem_new_zero(notice_way_count, sizeof(*message->trials));
    return 0;
}

bool notices_has_room(const struct notices *notices)
{
    return !notices->closing && notices->count < NOTICES_MAX;
}

bool notices_has(const struct notices *notices, const char *run_id)
{
    LIST_EACH(&notices->messages, link) {
        if (str_equal(LIST_ENTRY(link, struct message, link)->notice.run_id, run_id))
            return true;
    }
    return false;
}

/* Life ----------------------------------------------------------------------------------------- */

int notices_start(struct notices **out, uv_loop_t *loop, struct vault *vault,
                  const struct clock *clock, const struct notices_options *options,
                  struct error *err)
{
    struct notices *notices;

    if (!notices_wanted(options))
        return error_set(err, ERR_INVALID, 0, "no way of giving notice is on");
    notices = NEW(struct notices);
    notices->loop = loop;
    notices->vault = vault;
    notices->clock = clock;
    notices->options = *options;
    for (size_t i = 0; option_strings(&notices->options, i) != NULL; i++) {
        char **text = option_strings(&notices->options, i);

        *text = mem_strdup(*text);
    }
    if (notices->options.retry_ms == NULL)
        notices->options.retry_ms = default_retry_ms;
    list_init(&notices->messages);
    notices->open = 1;
    *out = notices;
    return 0;
}

static void stop_all(struct notices *notices)
{
    LIST_EACH(&notices->messages, message_link) {
        struct message *message = LIST_ENTRY(message_link, struct message, link);

        LIST_EACH(&message->deliveries, link) {
            struct delivery *delivery = LIST_ENTRY(link, struct delivery, link);

            delivery->way->stop(delivery);
            delivery_end(delivery);
        }
    }
}

void notices_close(struct notices *notices, void (*done)(void *data), void *data)
{
    notices->closing = true;
    notices->done = done;
    notices->done_data = data;
    stop_all(notices);
    if (notices->curl != NULL) {
        notices->open++;
        curl_loop_close(STEAL(notices->curl), notices_part_closed, notices);
    }
    notices_part_closed(notices);
}
