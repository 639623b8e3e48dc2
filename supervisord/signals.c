#include "signals.h"

#include <signal.h>

#include "common/mem.h"

static void on_signal(uv_signal_t *handle, int number)
{
    struct signals *signals = handle->data;

    if (number == SIGHUP)
        signals->on_reload(signals->data);
    else
        signals->on_stop(signals->data);
}

static void on_closed(void *data)
{
    struct signals *signals = data;

    if (signals->on_closed != NULL)
        signals->on_closed(signals->data);
}

int signals_start(struct signals *signals, uv_loop_t *loop, void (*on_stop)(void *data),
                  void (*on_reload)(void *data), void *data, struct error *err)
{
    const struct {
        uv_signal_t *handle;
        int number;
    } wanted[] = { { &signals->term, SIGTERM },
                   { &signals->interrupt, SIGINT },
                   { &signals->hangup, SIGHUP } };

    *signals =
        (struct signals){ .loop = loop, .on_stop = on_stop, .on_reload = on_reload, .data = data };
    handles_init(&signals->handles, on_closed, signals);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        int rc = uv_signal_init(loop, wanted[i].handle);

        if (rc == 0) {
            handles_add(&signals->handles, (uv_handle_t *)wanted[i].handle, signals);
            rc = uv_signal_start(wanted[i].handle, on_signal, wanted[i].number);
        }
        if (rc < 0)
            return error_set(err, ERR_SYSTEM, -rc, "watch signal %d", wanted[i].number);
    }
    return 0;
}

void signals_close(struct signals *signals, void (*done)(void *data))
{
    uv_handle_t *handles[] = { (uv_handle_t *)&signals->term, (uv_handle_t *)&signals->interrupt,
                               (uv_handle_t *)&signals->hangup };

    signals->on_closed = done;
    handles_close_all(&signals->handles, signals->loop, handles, ARRAY_LEN(handles));
}
