/* on_notice.c: notice.test. */
#include "control/pending.h"
#include "proto/msg_service.h"

static void on_tried(void *data, const struct control_notice_trial *trials, size_t count)
{
    struct pending *pending = data;
    AUTO_BUF struct buf body = BUF_INIT(64u << 10);
    struct json_writer writer;

    if (pending->request != NULL) {
        json_write_init(&writer, &body);
        json_write_object(&writer);
        json_write_name(&writer, "ways");
        json_write_array(&writer);
        for (size_t i = 0; i < count; i++) {
            const struct notice_trial_view view = { .way = trials[i].way,
                                                    .outcome = trials[i].outcome,
                                                    .why = trials[i].why,
                                                    .next = trials[i].next };

            notice_trial_view_write(&writer, &view);
        }
        json_write_array_end(&writer);
        json_write_object_end(&writer);
        request_reply(pending->request, &body);
    }
    free(pending);
}

void on_notice_test(struct request *request)
{
    static const struct json_field no_fields[] = { JSON_FIELD_LAST };
    struct control *control = request->control;
    struct error err = ERROR_INIT;
    struct pending *pending;
    int rc;

    if (request_read(request, no_fields, NULL) < 0)
        return;
    pending = NEW(struct pending);
    pending_init(pending, request);
    rc = control->try_notices != NULL
             ? control->try_notices(control->data, on_tried, pending, &err)
             : error_set(&err, ERR_UNAVAILABLE, 0, "no notices are given here");
    pending_begun(pending, rc, &err);
}
