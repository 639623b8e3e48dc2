#include "mcp-stdio/memo.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define ENTRIES 4
#define ENTRY_MAX (48u << 10) /* bytes of a reply and what it came to */

struct entry {
    struct memo_key key; /* its text is ours */
    struct jsonrpc_slice members;
};

struct memo {
    struct entry entries[ENTRIES];
    size_t next; /* to be replaced */
};

struct memo *memo_new(void)
{
    return NEW(struct memo);
}

static void forget(struct entry *entry)
{
    free((char *)(uintptr_t)entry->key.reply.data);
    free((char *)(uintptr_t)entry->members.data);
    *entry = (struct entry){ .members = { NULL, 0 } };
}

void memo_free(struct memo *memo)
{
    if (!memo)
        return;
    for (size_t i = 0; i < ENTRIES; i++)
        forget(&memo->entries[i]);
    free(memo);
}

static bool is_same(const struct memo_key *a, const struct memo_key *b)
{
    return a->tool == b->tool && a->text_max == b->text_max &&
           jsonrpc_slice_equal(a->reply, b->reply);
}

struct jsonrpc_slice memo_find(const struct memo *memo, const struct memo_key *key)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (memo->entries[i].members.data && is_same(&memo->entries[i].key, key))
            return memo->entries[i].members;
    return (struct jsonrpc_slice){ NULL, 0 };
}

static struct jsonrpc_slice copy(struct jsonrpc_slice text)
{
    return (struct jsonrpc_slice){ mem_strndup(text.data, text.len), text.len };
}

void memo_keep(struct memo *memo, const struct memo_key *key, struct jsonrpc_slice members)
{
    struct entry *entry = &memo->entries[memo->next];

    if (members.len == 0 || key->reply.len + members.len > ENTRY_MAX)
        return;
    memo->next = (memo->next + 1) % ENTRIES;
    forget(entry);
    entry->key = *key;
    entry->key.reply = copy(key->reply);
    entry->members = copy(members);
}
