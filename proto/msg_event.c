#include "proto/msg_event.h"

#include <string.h>

#include "common/mem.h"

const char *const event_kind_names[] = {
    [EVENT_KIND_STATE] = "state",       [EVENT_KIND_LOG] = "log",
    [EVENT_KIND_TEXT] = "text",         [EVENT_KIND_REASONING] = "reasoning",
    [EVENT_KIND_TOOL] = "tool",         [EVENT_KIND_TODO] = "todo",
    [EVENT_KIND_QUESTION] = "question", [EVENT_KIND_PERMISSION] = "permission",
    [EVENT_KIND_RETRY] = "retry",       [EVENT_KIND_USAGE] = "usage",
    [EVENT_KIND_REFUSED] = "refused",   [EVENT_KIND_ERROR] = "error",
    [EVENT_KIND_MESSAGE] = "message",   [EVENT_KIND_COUNT] = NULL,
};

void event_view_write(struct json_writer *writer, const struct event_view *view)
{
    BUG_ON(view->kind < 0 || view->kind >= EVENT_KIND_COUNT);
    json_write_object(writer);
    json_member_u64(writer, "number", view->number);
    json_member_u64(writer, "time", view->time);
    json_member_string(writer, "kind", event_kind_names[view->kind]);
    json_member_string(writer, "text", view->text);
    if (view->data && view->data[0]) {
        json_write_name(writer, "data");
        json_write_raw(writer, view->data, strlen(view->data));
    }
    json_write_object_end(writer);
}
