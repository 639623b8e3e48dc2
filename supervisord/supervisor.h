/* supervisor.h: the roof: makes every part in order, hands each what it needs, and takes them down
 * in reverse. */
#ifndef SUPERVISORD_SUPERVISOR_H
#define SUPERVISORD_SUPERVISOR_H

#include "common/error.h"
#include "common/paths.h"
#include "config/config.h"

/* Runs until it is told to stop. ERR_CONFLICT when another supervisor serves this state folder. */
int supervisor_run(const struct paths *paths, const struct config *config, struct error *err);

#endif
