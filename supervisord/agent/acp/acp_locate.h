/* acp_locate.h: finds an agent's program on the host, by its profile: an installed one in the data
 * folder, on PATH, or a package in npm's global folder. */
#ifndef AGENT_ACP_ACP_LOCATE_H
#define AGENT_ACP_ACP_LOCATE_H

#include "agent/agent_profile.h"
#include "common/error.h"

#define ACP_PROGRAM_DIR "/opt/agent"
#define ACP_INTERPRETER (ACP_PROGRAM_DIR "/node")

/* What has to be mounted, and what is started. Heap strings. */
struct acp_found {
    char *source;      /* on the host: one file, a package, or a folder of packages */
    char *target;      /* where that lies inside */
    char *program;     /* inside */
    char *interpreter; /* on the host; "": the program runs by itself */
};

void acp_found_finish(struct acp_found *found);
/* As one text, which is what locate gives and prepare gets. */
char *acp_found_format(const struct acp_found *found);
int acp_found_parse(struct acp_found *found, const char *text, struct error *err);

/* agent_driver.locate */
int acp_locate(const struct agent_profile *profile, const char *configured, const char *data_dir,
               char **path, struct error *err);

#endif
