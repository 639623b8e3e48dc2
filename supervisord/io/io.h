/* io.h: the face of io: everything that other folders use of the loop. */
#ifndef IO_IO_H
#define IO_IO_H

#include "io/child.h"
#include "io/curl_loop.h"
#include "io/handles.h"
#include "io/listener.h"
#include "io/stream.h"

#endif
