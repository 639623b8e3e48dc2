/* signals.h: signals as loop events: TERM and INT stop, HUP reloads. */
#ifndef SUPERVISORD_SIGNALS_H
#define SUPERVISORD_SIGNALS_H

#include <uv.h>

#include "common/error.h"
#include "io/handles.h"

struct signals {
    struct handles handles;
    uv_loop_t *loop;
    uv_signal_t term;
    uv_signal_t interrupt;
    uv_signal_t hangup;
    void (*on_stop)(void *data);
    void (*on_reload)(void *data);
    void (*on_closed)(void *data);
    void *data;
};

int signals_start(struct signals *signals, uv_loop_t *loop, void (*on_stop)(void *data),
                  void (*on_reload)(void *data), void *data, struct error *err);
void signals_close(struct signals *signals, void (*done)(void *data));

#endif
