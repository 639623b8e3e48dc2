/* era.h: what differs between the two eras of the protocol. Each message says by itself which era
 * it belongs to, and both may alternate in one process.
 *
 * modern: 2026-07-28. Every request carries version and capabilities in params._meta; there is no
 * handshake. legacy: 2024-11-05 to 2025-11-25. `initialize` negotiates once for what follows. */
#ifndef MCP_STDIO_ERA_H
#define MCP_STDIO_ERA_H

#include "common/json_write.h"
#include "mcp-stdio/jsonrpc.h"

#define ERA_META "io.modelcontextprotocol/"
#define ERA_MODERN_REVISION "2026-07-28"
#define ERA_NEWEST_LEGACY "2025-11-25"

struct server;
struct request;

enum client_capability {
    CLIENT_ELICITS = 1, /* shows its user a form */
    CLIENT_TASKS = 2,   /* the modern extension */
};

/* Of capabilities as a client declares them. */
unsigned era_capabilities(const struct json_value *capabilities);

/* Who may keep a result, and how long. */
enum cache_scope {
    CACHE_EVERYONE, /* it is the same for everyone, until the program is replaced */
    CACHE_NOBODY,   /* it may change at any moment */
};

struct era_method {
    const char *name; /* NULL ends the table */
    void (*handle)(struct server *server, const struct request *request);
};

struct era {
    const char *name;
    const struct era_method *methods;
    int not_found; /* the error's code for a resource that is not there */
    /* Members that every result of the era begins and ends with. */
    void (*write_first)(struct json_writer *writer, const char *type);
    void (*write_last)(struct json_writer *writer);
    /* Members of lists and of resources' contents. */
    void (*write_cache)(struct json_writer *writer, enum cache_scope scope);
};

extern const struct era era_modern;
extern const struct era era_legacy;

/* True when MESSAGE says that it is modern. Nothing else decides. */
bool era_modern_claims(const struct jsonrpc_message *message);
/* Checks what a modern request says about itself, and takes over the client's capabilities; refuses
 * it and returns -1 when that is wrong. */
int era_modern_check(struct server *server, struct request *request);

/* What both eras say about this program: members name, title, version, and the instructions for a
 * model. */
void era_write_server_info(struct json_writer *writer, const char *name);
extern const char era_instructions[];
/* NAME as an empty object: a capability without settings. */
void era_write_empty(struct json_writer *writer, const char *name);
/* The capabilities of every revision: tools, resources that can be watched, prompts. */
void era_write_families(struct json_writer *writer);

#endif
