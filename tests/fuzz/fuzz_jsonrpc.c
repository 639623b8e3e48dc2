// links: mcp_core
/* What a client writes, in pieces, to a server without a supervisor. Each line that comes out must
 * be whole, valid JSON-RPC. */
#include <stdint.h>

#include "common/log.h"
#include "tests/fuzz/mcp_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void drop_line(void *data, const char *line)
{
    (void)data;
    (void)line;
}

/* The first byte says how large the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server_options options = { .clock = clock_system() };
    struct server *server = server_new(&options);
    size_t piece = size ? data[0] % 64u * 16u + 1 : 1;

    log_set_sink(drop_line, NULL);
    for (size_t at = size ? 1 : 0; at < size; at += piece) {
        size_t len = size - at < piece ? size - at : piece;

        feed(server, data + at, len);
        check_output(server_output(server));
    }
    server_tick(server);
    server_free(server);
    return 0;
}
