/* list.h: an intrusive circular list. A link says in its comment which list it is on, as in
 * registry::runs. */
#ifndef COMMON_LIST_H
#define COMMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "mem.h"

struct list {
    struct list *prev;
    struct list *next;
};

static inline void list_init(struct list *list)
{
    list->prev = list->next = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

/* Adds LINK at the end of the list whose head is HEAD. */
static inline void list_append(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* Takes LINK off whatever list it is on; harmless on a link that is on none but was initialised. */
static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

#define LIST_ENTRY(link, type, member) CONTAINER_OF(link, type, member)

/* The current element may be removed inside the loop; no other may. */
#define LIST_EACH(head, link)                                                                      \
    for (struct list *link = (head)->next, *link##_next = link->next; link != (head);              \
         link = link##_next, link##_next = link->next)

#endif
