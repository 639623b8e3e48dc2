/* telling.h: hands runs that people are to be told of to the notices, as many as these take, and
 * lets the runs know when that is done. What is due is kept by the runs, on disk. */
#ifndef SUPERVISORD_TELLING_H
#define SUPERVISORD_TELLING_H

#include <uv.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/error.h"
#include "config/config.h"
#include "notice/notice.h"
#include "run/run.h"
#include "vault/vault.h"

struct telling;

/* The states of enum run_notice that CONFIG wants to hear of; 0: no notices are given. */
uint32_t telling_wanted(const struct config *config);

/* *OUT is NULL when no notices are wanted. CONFIG, VAULT and CLOCK are borrowed. */
int telling_start(struct telling **out, uv_loop_t *loop, struct vault *vault,
                  const struct clock *clock, const struct config *config, struct error *err);
/* Begins with what was due before. RUNS is borrowed until telling_close; WEB_URL appends the
 * address of a run's page. */
void telling_serve(struct telling *telling, struct runs *runs,
                   void (*web_url)(void *data, const char *run_id, struct buf *out), void *data);
/* Something is due. NULL is fine, and so is one that doesn't serve yet. */
void telling_due(struct telling *telling);
/* Sends a notice that is about no run by every way, once; as notices_try. ERR_CONFLICT when no way
 * is configured (TELLING NULL). */
int telling_try(struct telling *telling, notices_tried_cb tried, void *data, struct error *err);
void telling_close(struct telling *telling, void (*done)(void *data), void *data);

#endif
