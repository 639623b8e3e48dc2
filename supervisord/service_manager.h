/* service_manager.h: what the daemon and systemd say to each other when it was started as a unit:
 * the listening socket that comes as a descriptor (sd_listen_fds(3)) and the notices of readiness
 * (sd_notify(3)). Without systemd all of it does nothing. */
#ifndef SUPERVISORD_SERVICE_MANAGER_H
#define SUPERVISORD_SERVICE_MANAGER_H

#include "common/error.h"

/* *FD is the socket that this process was given, now closed on exec, or -1 when it was given none.
 * It must be a listening stream socket bound to PATH, else ERR_INVALID. The variables that told of
 * it are removed. */
int service_manager_socket(const char *path, int *fd, struct error *err);
/* One message, "READY=1" or "STOPPING=1". Does not wait; what can't be sent is lost. */
void service_manager_tell(const char *message);

#endif
