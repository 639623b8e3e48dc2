/* internal.h: what the files of notice/ share. Nobody else includes it. */
#ifndef NOTICE_INTERNAL_H
#define NOTICE_INTERNAL_H

#include "common/buf.h"
#include "common/list.h"
#include "io/curl_loop.h"
#include "notice/notice.h"

/* text.c: what is sent. Pure.
 * ------------------------------------------------------------------------------------------------
 */

#define NOTICE_BODY_MAX (16u << 10) /* bytes */
#define NOTICE_TEXT_MAX 2000u       /* bytes of a notice's text that are sent */
#define NOTICE_LINE_MAX 120u        /* bytes of a title that are sent */

/* {"event":"run.completed","runId":…}: for programs and webhooks. */
void notice_json(const struct notice *notice, struct buf *out);
/* "run.completed" or "run.waiting". */
void notice_event(const struct notice *notice, struct buf *out);
/* The notice's own name, the same each time it is sent: "run_…-42". */
void notice_id(const struct notice *notice, struct buf *out);
/* "Completed: Fix the tests", one printable line. */
void notice_title(const struct notice *notice, struct buf *out);
/* A few lines for people. */
void notice_text(const struct notice *notice, struct buf *out);
/* Only ASCII that a header's value may have. */
void notice_header(const char *text, struct buf *out);
/* "v1,BASE64" over "ID.SECONDS.BODY" by HMAC-SHA-256, as the Standard Webhooks specification has
 * it. A key that begins with "whsec_" is base64 behind it, any other one is taken as it is. -1 when
 * that base64 is wrong. */
int notice_sign(const char *key, size_t key_len, const char *id, uint64_t seconds,
                const struct buf *body, struct buf *out);

/* Deliveries: one notice on one way.
 * ------------------------------------------------------------------------------------------------
 */

struct delivery {
    struct list link; /* message::deliveries */
    struct message *message;
    const struct way *way;
    unsigned attempt;
    uv_timer_t timer; /* the next attempt, or the end of a program's time */
    struct child *child;
    struct curl_job *job;
    CURL *easy;
    struct curl_slist *headers;
    struct buf body;
};

/* Starts an attempt, whose outcome is told by delivery_done; -1 when it can't even begin. STOP ends
 * one without a word. FAILED and REFUSED say what a person can do then. */
struct way {
    const char *name;
    bool (*is_on)(const struct notices_options *options);
    int (*start)(struct delivery *delivery, struct error *err);
    void (*stop)(struct delivery *delivery);
    const char *failed;
    const char *refused;
};

extern const struct way notice_ways[];
extern const size_t notice_way_count;

enum delivery_result {
    DELIVERY_TOLD,
    DELIVERY_FAILED, /* it is tried again */
    DELIVERY_REFUSED /* trying again is no use */
};
void delivery_done(struct delivery *delivery, enum delivery_result result, const char *why);

struct notices *delivery_notices(const struct delivery *delivery);
const struct notice *delivery_notice(const struct delivery *delivery);

struct notices {
    uv_loop_t *loop;
    struct vault *vault;
    const struct clock *clock;
    struct notices_options options; /* strings are ours */
    struct curl_loop *curl;         /* NULL until something is to be sent by it */
    struct list messages;           /* message::link */
    unsigned count;
    unsigned open; /* timers, children and curl, while they close, and one for itself */
    bool closing;
    void (*done)(void *data);
    void *done_data;
};

/* A part that closes counts while it does: open++ before, and this when it is closed. */
void notices_part_closed(void *notices);

/* web.c */
int webhook_start(struct delivery *delivery, struct error *err);
int ntfy_start(struct delivery *delivery, struct error *err);
void transfer_stop(struct delivery *delivery);
int transfer_add_header(struct delivery *delivery, const char *line, struct error *err);
/* credential.c: NAME "" is none. */
int credential_add_bearer(struct delivery *delivery, const char *name, struct error *err);
/* Appends the signature of the delivery's body to OUT, or nothing when none is wanted. */
int credential_sign(struct delivery *delivery, const char *id, uint64_t seconds, struct buf *out,
                    struct error *err);
/* program.c */
int program_start(struct delivery *delivery, struct error *err);
int desktop_start(struct delivery *delivery, struct error *err);
void program_stop(struct delivery *delivery);

#endif
