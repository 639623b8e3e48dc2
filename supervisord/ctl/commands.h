/* commands.h: what sandboxctl can do: one row a command. */
#ifndef CTL_COMMANDS_H
#define CTL_COMMANDS_H

#include "ctl/session.h"

struct ctl_command {
    const char *name;
    const char *words; /* as shown behind the name in its usage line */
    const char *help;  /* one line; NULL: it is not shown */
    const char *more;  /* further lines for --help, or NULL */
    struct args_rules rules;
    enum session_start start;
    enum { CONNECT_FIRST, CONNECT_ITSELF } connect;
    /* Returns the exit code. ERR, when it is set, is printed by the caller, which takes the exit
     * code from it then. */
    int (*run)(struct session *session, struct error *err);
};

const struct ctl_command *command_find(const char *name); /* NULL: unknown */
const struct ctl_command *command_at(size_t number);      /* in order; NULL behind the last */
/* Appends the names that are most like NAME, with commas. */
void commands_append_nearest(struct buf *out, const char *name);
void commands_print_help(FILE *out);
void command_print_help(const struct ctl_command *command, FILE *out);
/* Parses the words behind the command's name, connects, runs it. */
int command_run(const struct ctl_command *command, struct session *session, int argc,
                char *const *argv);

/* cmd_run.c */
int cmd_run(struct session *session, struct error *err);
int cmd_get(struct session *session, struct error *err);
int cmd_list(struct session *session, struct error *err);
int cmd_logs(struct session *session, struct error *err);
int cmd_diff(struct session *session, struct error *err);
int cmd_cancel(struct session *session, struct error *err);
int cmd_send(struct session *session, struct error *err);
int cmd_answer(struct session *session, struct error *err);
int cmd_exec(struct session *session, struct error *err);

/* cmd_admin.c */
int cmd_status(struct session *session, struct error *err);
int cmd_secret(struct session *session, struct error *err);
int cmd_services(struct session *session, struct error *err);
int cmd_audit(struct session *session, struct error *err);
int cmd_call(struct session *session, struct error *err);
int cmd_stop(struct session *session, struct error *err);

/* cmd_complete.c */
int cmd_completion(struct session *session, struct error *err);
int cmd_complete(struct session *session, struct error *err);

/* cmd_service.c */
int cmd_service(struct session *session, struct error *err);
/* cmd_session.c */
int cmd_sessions(struct session *session, struct error *err);
int cmd_session(struct session *session, struct error *err);
int cmd_rm(struct session *session, struct error *err);
int cmd_backup(struct session *session, struct error *err);
int cmd_retention(struct session *session, struct error *err);

/* cmd_out.c */
int cmd_pr(struct session *session, struct error *err);
int cmd_pull(struct session *session, struct error *err);
int cmd_export(struct session *session, struct error *err);
int cmd_files(struct session *session, struct error *err);
int cmd_cat(struct session *session, struct error *err);

/* cmd_notice.c */
int cmd_notice(struct session *session, struct error *err);

/* cmd_web.c */
int cmd_web(struct session *session, struct error *err);

/* doctor.c */
int cmd_doctor(struct session *session, struct error *err);

#endif
