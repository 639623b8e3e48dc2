/* mcp_lines.h: what sandbox-mcp says, for the targets that drive it: whole lines of valid JSON-RPC.
 */
#ifndef TESTS_FUZZ_MCP_LINES_H
#define TESTS_FUZZ_MCP_LINES_H

#include <stdlib.h>
#include <string.h>

#include "mcp-stdio/server.h"

static inline void require(bool condition)
{
    if (!condition)
        abort();
}

static inline void check_line(const char *line, size_t len)
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

/* Takes what there is. */
static inline void check_output(struct buf *out)
{
    while (out->len) {
        char *end = memchr(out->data, '\n', out->len);

        require(end != NULL);
        check_line(out->data, (size_t)(end - out->data));
        buf_consume(out, (size_t)(end - out->data) + 1);
    }
}

static inline void feed(struct server *server, const void *data, size_t len)
{
    char *to = server_input_reserve(server, len);

    require(to != NULL);
    memcpy(to, data, len);
    server_input_commit(server, len);
}

#endif
