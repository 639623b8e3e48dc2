#include "io/dial.h"

#include <string.h>

#include "common/fd.h"
#include "common/str.h"
#include "loop.h"

struct told {
    bool done;
    int fd;
    struct error err;
};

static void on_done(void *data, int fd, const struct error *err)
{
    struct told *told = data;

    told->done = true;
    told->fd = fd;
    if (err != NULL)
        told->err = *err;
}

static bool allow_all(void *data, const struct sockaddr *address)
{
    (void)data;
    (void)address;
    return true;
}

TEST(a_refused_connection_is_called_that)
{
    struct loop loop;
    struct dial *dial;
    struct told told = { .err = ERROR_INIT };
    struct dial_options options = { .name = "127.0.0.1",
                                    .timeout_ms = 10000,
                                    .allow = allow_all,
                                    .on_done = on_done,
                                    .data = &told };
    struct error err = ERROR_INIT;
    int fd = listener_tcp_socket("127.0.0.1", 0, &options.port, &err);

    CHECK(fd >= 0);
    close(fd); /* nobody listens there now */
    loop_start(&loop);
    CHECK_EQ(dial_start(&dial, &loop.loop, &options, &err), 0);
    LOOP_UNTIL(&loop, told.done);
    CHECK_EQ(told.fd, -1);
    CHECK_HAS(told.err.text, "Connection refused");
    loop_stop(&loop);
}
