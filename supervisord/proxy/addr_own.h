/* addr_own.h: this machine's own addresses, public ones too: behind them are services that take the
 * proxy for a neighbour. */
#ifndef PROXY_ADDR_OWN_H
#define PROXY_ADDR_OWN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "proxy/addr_check.h"

/* Asks the kernel each time: addresses come and go. False for what EXCEPTION names. */
bool addr_is_own(const struct sockaddr *address, const struct addr_exception *exception);

#endif
