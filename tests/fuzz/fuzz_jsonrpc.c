// links: mcp_core
/* What a client writes, in pieces, to a server without a supervisor. Each line that comes out must
 * be whole, valid JSON-RPC. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "mcp-stdio/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void drop_line(void *data, const char *line)
{
    (void)data;
    (void)line;
}

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_line(const char *line, size_t len)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    const struct json_value *root;

    require(json_parse(&doc, line, len, 16u << 20, &err) == 0);
    root = json_root(doc);
    require(json_kind(root) == JSON_KIND_OBJECT || json_kind(root) == JSON_KIND_ARRAY);
    if (json_kind(root) == JSON_KIND_OBJECT)
        require(json_get(root, "method") || jsonrpc_is_id(json_get(root, "id")));
}

static void check_output(struct buf *out)
{
    while (out->len) {
        char *end = memchr(out->data, '\n', out->len);

        require(end != NULL);
        check_line(out->data, (size_t)(end - out->data));
        buf_consume(out, (size_t)(end - out->data) + 1);
    }
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
        char *to = server_input_reserve(server, len);

        require(to != NULL);
        memcpy(to, data + at, len);
        server_input_commit(server, len);
        check_output(server_output(server));
    }
    server_tick(server);
    server_free(server);
    return 0;
}
