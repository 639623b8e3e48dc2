/* notice.h: tells people that a run has ended or waits for an answer: a program of theirs, a
 * webhook, a topic of an ntfy server, a desktop notice. All are off until they are configured.
 *
 * Each notice goes to every way that is on. A way that fails is tried again after 1, 5, 30, 120 and
 * 600 seconds and then given up, with a line in the log. Nothing here is durable: whoever hands
 * notices over keeps what is not yet told, and hears when it is. */
#ifndef NOTICE_NOTICE_H
#define NOTICE_NOTICE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/error.h"
#include "vault/vault.h"

struct notices;

#define NOTICES_MAX 32 /* under way at once */

struct notice {
    const char *run_id;
    const char *session_id;
    uint64_t number; /* of the event that it tells of; with the run's id it is the notice's own */
    const char *status; /* "completed", "failed", "cancelled", "interrupted", "waiting", "test" */
    const char *title;
    const char *repository; /* "" none */
    const char *verdict;    /* "" while it waits */
    const char *code;       /* of the error, "" none */
    const char *text;       /* the question, the error's message or the last answer */
    const char *url;        /* of the run's page, "" none; opens this run to whoever has it */
    uint64_t time_ms;       /* wall clock */
};

struct notices_options {
    const char *program;        /* "" none */
    const char *webhook;        /* address, "" none */
    const char *webhook_secret; /* name of the secret that signs, "" unsigned */
    const char *ntfy;           /* address of a topic, "" none */
    const char *ntfy_secret;    /* name of its access token, "" none */
    const char *desktop;        /* program that shows a desktop notice, "" none */
    const char *ca_file;        /* "" the system's certificates */
    uint32_t program_seconds;   /* a program has so long */
    const uint32_t *retry_ms;   /* ends with 0; NULL: as above */
    /* All ways have the notice, or have been given up. From the loop. */
    void (*on_told)(void *data, const char *run_id, uint64_t number);
    void *data;
};

/* Whether any way is on. */
bool notices_wanted(const struct notices_options *options);

/* LOOP, VAULT and CLOCK are borrowed for the life of the object, strings are copied. */
int notices_start(struct notices **out, uv_loop_t *loop, struct vault *vault,
                  const struct clock *clock, const struct notices_options *options,
                  struct error *err);
/* What is under way is dropped without a word. DONE from the loop. */
void notices_close(struct notices *notices, void (*done)(void *data), void *data);

/* Whether notices_send would take another one, and whether it has one of RUN_ID. */
bool notices_has_room(const struct notices *notices);
bool notices_has(const struct notices *notices, const char *run_id);
/* NOTICE is copied. ERR_LIMIT without room, ERR_CONFLICT while another one of the run is under way.
 */
int notices_send(struct notices *notices, const struct notice *notice, struct error *err);

/* What came of trying one way. */
enum notice_outcome {
    NOTICE_TOLD,
    NOTICE_FAILED, /* may succeed later */
    NOTICE_REFUSED /* as it is configured it never will */
};
struct notice_trial {
    const char *way; /* "program", "webhook", "ntfy", "desktop" */
    enum notice_outcome outcome;
    const char *why;  /* "" told */
    const char *next; /* what a person can do, "" told */
};
typedef void (*notices_tried_cb)(void *data, const struct notice_trial *trials, size_t count);
/* Sends NOTICE by every way that is on, once. TRIED follows from the loop, once, with what came of
 * each; when the notices close meanwhile, with those that were over. Errors as above. */
int notices_try(struct notices *notices, const struct notice *notice, notices_tried_cb tried,
                void *data, struct error *err);

#endif
