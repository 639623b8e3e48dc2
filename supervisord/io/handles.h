/* handles.h: counted closing of handles that an object embeds. The object is freed by the last
 * close callback, nowhere else. */
#ifndef IO_HANDLES_H
#define IO_HANDLES_H

#include <stdbool.h>
#include <uv.h>

struct handles {
    unsigned open;
    bool closing;
    void (*closed)(void *data); /* runs once, from the loop, when the last handle is closed */
    void *data;
};

void handles_init(struct handles *handles, void (*closed)(void *data), void *data);
/* Call right after a successful uv_*_init: counts it and sets handle->data to OWNER. */
void handles_add(struct handles *handles, uv_handle_t *handle, void *owner);
/* Closes one handle of the group early (a poll or process handle that is done). Its close callback
 * counts it down. From here on handle->data belongs to the group. */
void handles_close_one(struct handles *handles, uv_handle_t *handle);
/* Closes all given handles (NULL entries and handles already closing are skipped). If none was
 * open, `closed` runs from the next loop turn through the caller's LOOP. Only the first call does
 * anything. */
void handles_close_all(struct handles *handles, uv_loop_t *loop, uv_handle_t *const *list,
                       size_t count);

#endif
