#include "io/handles.h"

#include "common/mem.h"

void handles_init(struct handles *handles, void (*closed)(void *data), void *data)
{
    *handles = (struct handles){ .closed = closed, .data = data };
}

void handles_add(struct handles *handles, uv_handle_t *handle, void *owner)
{
    handle->data = owner;
    handles->open++;
}

/* The last thing done with the group: its owner may be gone afterwards. */
static void tell_closed(struct handles *handles)
{
    if (handles->closed)
        handles->closed(handles->data);
}

static void on_closed(uv_handle_t *handle)
{
    struct handles *handles = handle->data;

    BUG_ON(handles->open == 0);
    if (--handles->open == 0 && handles->closing)
        tell_closed(handles);
}

void handles_close_one(struct handles *handles, uv_handle_t *handle)
{
    if (uv_is_closing(handle))
        return;
    handle->data =
        handles; /* a closing handle has no callback left that would look for its owner */
    uv_close(handle, on_closed);
}

/* A group without an open handle still answers from the loop, so a handle of its own takes it
 * there. */
struct farewell {
    uv_idle_t idle;
    struct handles *handles;
};

static void on_farewell(uv_handle_t *handle)
{
    struct farewell *farewell = handle->data;
    struct handles *handles = farewell->handles;

    free(farewell);
    tell_closed(handles);
}

void handles_close_all(struct handles *handles, uv_loop_t *loop, uv_handle_t *const *list,
                       size_t count)
{
    struct farewell *farewell;

    if (handles->closing)
        return;
    handles->closing = true;
    for (size_t i = 0; i < count; i++) {
        if (list[i])
            handles_close_one(handles, list[i]);
    }
    if (handles->open > 0)
        return;
    farewell = NEW(struct farewell);
    farewell->handles = handles;
    BUG_ON(uv_idle_init(loop, &farewell->idle) != 0);
    farewell->idle.data = farewell;
    uv_close((uv_handle_t *)&farewell->idle, on_farewell);
}
