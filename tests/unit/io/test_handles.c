#include "io/handles.h"

#include "common/mem.h"
#include "harness/test.h"

struct owner {
    uv_loop_t loop;
    struct handles handles;
    uv_timer_t timer;
    uv_idle_t idle;
    unsigned closed;
};

static void on_closed(void *data)
{
    struct owner *owner = data;

    owner->closed++;
}

static void owner_init(struct owner *owner)
{
    *owner = (struct owner){ .closed = 0 };
    CHECK_EQ(uv_loop_init(&owner->loop), 0);
    handles_init(&owner->handles, on_closed, owner);
}

static void add_both(struct owner *owner)
{
    uv_timer_init(&owner->loop, &owner->timer);
    handles_add(&owner->handles, (uv_handle_t *)&owner->timer, owner);
    uv_idle_init(&owner->loop, &owner->idle);
    handles_add(&owner->handles, (uv_handle_t *)&owner->idle, owner);
    CHECK(owner->timer.data == owner);
}

static void close_and_check(struct owner *owner)
{
    uv_handle_t *list[] = { (uv_handle_t *)&owner->timer, NULL, (uv_handle_t *)&owner->idle };

    handles_close_all(&owner->handles, &owner->loop, list, ARRAY_LEN(list));
    handles_close_all(&owner->handles, &owner->loop, list, ARRAY_LEN(list));
    CHECK_EQ(owner->closed, 0);
    uv_run(&owner->loop, UV_RUN_DEFAULT);
    CHECK_EQ(owner->closed, 1);
    CHECK_EQ(uv_loop_close(&owner->loop), 0);
}

TEST(the_last_handle_closed_tells_the_owner_once)
{
    struct owner owner;

    owner_init(&owner);
    add_both(&owner);
    close_and_check(&owner);
}

TEST(one_that_is_closing_already_is_counted_once)
{
    struct owner owner;

    owner_init(&owner);
    add_both(&owner);
    handles_close_one(&owner.handles, (uv_handle_t *)&owner.idle);
    handles_close_one(&owner.handles, (uv_handle_t *)&owner.idle);
    close_and_check(&owner);
}

TEST(closing_the_last_one_early_does_not_end_the_owner)
{
    struct owner owner;

    owner_init(&owner);
    add_both(&owner);
    handles_close_one(&owner.handles, (uv_handle_t *)&owner.idle);
    handles_close_one(&owner.handles, (uv_handle_t *)&owner.timer);
    uv_run(&owner.loop, UV_RUN_DEFAULT);
    CHECK_EQ(owner.closed, 0);
    handles_close_all(&owner.handles, &owner.loop, NULL, 0);
    uv_run(&owner.loop, UV_RUN_DEFAULT);
    CHECK_EQ(owner.closed, 1);
    CHECK_EQ(uv_loop_close(&owner.loop), 0);
}

TEST(an_owner_without_handles_is_told_from_the_loop_too)
{
    struct owner owner;

    owner_init(&owner);
    handles_close_all(&owner.handles, &owner.loop, NULL, 0);
    CHECK_EQ(owner.closed, 0);
    uv_run(&owner.loop, UV_RUN_DEFAULT);
    CHECK_EQ(owner.closed, 1);
    CHECK_EQ(uv_loop_close(&owner.loop), 0);
}
