#include "common/list.h"

#include "harness/test.h"

struct item {
    int number;
    struct list link; /* a test's list */
};

static int sum(struct list *head)
{
    int total = 0;

    LIST_EACH(head, link)
        total = total * 10 + LIST_ENTRY(link, struct item, link)->number;
    return total;
}

TEST(elements_keep_their_order)
{
    struct list head;
    struct item items[] = { { .number = 1 }, { .number = 2 }, { .number = 3 } };

    list_init(&head);
    CHECK(list_empty(&head));
    CHECK_EQ(sum(&head), 0);
    for (size_t i = 0; i < ARRAY_LEN(items); i++)
        list_append(&head, &items[i].link);
    CHECK(!list_empty(&head));
    CHECK_EQ(sum(&head), 123);
    list_remove(&items[1].link);
    CHECK_EQ(sum(&head), 13);
    list_remove(&items[1].link);
    CHECK_EQ(sum(&head), 13);
}

TEST(the_current_element_may_be_removed_in_the_loop)
{
    struct list head;
    struct item items[] = { { .number = 1 }, { .number = 2 }, { .number = 3 } };

    list_init(&head);
    for (size_t i = 0; i < ARRAY_LEN(items); i++)
        list_append(&head, &items[i].link);
    LIST_EACH(&head, link)
        list_remove(link);
    CHECK(list_empty(&head));
}
