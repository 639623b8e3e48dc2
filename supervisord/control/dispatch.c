/* dispatch.c: which function serves which method. */
#include "control/internal.h"

static void (*const handlers[METHOD_COUNT])(struct request *request) = {
    [METHOD_HELLO] = on_hello,
    [METHOD_RUN_CREATE] = on_run_create,
    [METHOD_RUN_GET] = on_run_get,
    [METHOD_RUN_LIST] = on_run_list,
    [METHOD_RUN_CANCEL] = on_run_cancel,
    [METHOD_RUN_SEND] = on_run_send,
    [METHOD_RUN_ANSWER] = on_run_answer,
    [METHOD_RUN_EVENTS] = on_run_events,
    [METHOD_RUN_DIFF] = on_run_diff,
    [METHOD_RUN_EXEC] = on_run_exec,
    [METHOD_SESSION_LIST] = on_session_list,
    [METHOD_SESSION_GET] = on_session_get,
    [METHOD_SESSION_RENAME] = on_session_rename,
    [METHOD_SESSION_HOLD] = on_session_hold,
    [METHOD_SESSION_CHECKPOINT] = on_session_checkpoint,
    [METHOD_SESSION_RESTORE] = on_session_restore,
    [METHOD_SESSION_FORK] = on_session_fork,
    [METHOD_SESSION_DELETE] = on_session_delete,
    [METHOD_SESSION_WATCH] = on_session_watch,
    [METHOD_BACKUP_CREATE] = on_backup_create,
    [METHOD_BACKUP_RESTORE] = on_backup_restore,
    [METHOD_RETENTION_RUN] = on_retention_run,
    [METHOD_PR_CREATE] = on_pr_create,
    [METHOD_FILES_TAKE] = on_files_take,
    [METHOD_SECRET_SET] = on_secret_set,
    [METHOD_SECRET_LIST] = on_secret_list,
    [METHOD_SECRET_DELETE] = on_secret_delete,
    [METHOD_SERVICE_LIST] = on_service_list,
    [METHOD_SERVICE_CHECK] = on_service_check,
    [METHOD_AUDIT_LIST] = on_audit_list,
    [METHOD_NOTICE_TEST] = on_notice_test,
    [METHOD_WEB_LINK] = on_web_link,
    [METHOD_SYSTEM_STATUS] = on_system_status,
    [METHOD_SYSTEM_CHECK] = on_system_check,
    [METHOD_SYSTEM_MACHINE] = on_system_machine,
    [METHOD_SYSTEM_SHUTDOWN] = on_system_shutdown,
};

void dispatch(struct request *request)
{
    handlers[request->method](request);
}
