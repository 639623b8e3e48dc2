#include "sandbox/cgroup_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "io/handles.h"
#include "sandbox/cgroup_host.h"

#define TELL_EVERY_MS 500
/* Version 1 announces the want of memory before it kills. */
#define FIRST_LOOK_MS 50
#define RECENT_MS 3000

struct source {
    uv_poll_t poll;
    int fd;
    bool open;
};

struct cgroup_watch {
    uv_loop_t *loop;
    const struct cgroup *group;
    void (*on_hit)(void *data, enum cgroup_hit hit, uint64_t times);
    void *data;
    struct handles handles;
    uv_timer_t timer;
    struct source changes; /* inotify: files of counts */
    struct source memory;  /* eventfd: version 1 */
    uint64_t seen[CGROUP_HIT_COUNT];
    uint64_t killed_ms; /* when the count of kills was last seen to grow; 0 never */
    uint64_t quiet_until_ms;
    void (*done)(void *data);
    void *done_data;
};

static void on_timer(uv_timer_t *timer);

static void look_in(struct cgroup_watch *watch, uint64_t delay_ms)
{
    if (uv_is_active((uv_handle_t *)&watch->timer) &&
        uv_timer_get_due_in(&watch->timer) <= delay_ms)
        return;
    BUG_ON(uv_timer_start(&watch->timer, on_timer, delay_ms, 0) != 0);
}

/* Soon, but not so soon that hits are told too often. */
static void look_soon(struct cgroup_watch *watch)
{
    uint64_t now = uv_now(watch->loop);

    look_in(watch, watch->quiet_until_ms > now + FIRST_LOOK_MS ? watch->quiet_until_ms - now
                                                               : FIRST_LOOK_MS);
}

static uint64_t read_count(struct cgroup_watch *watch, enum cgroup_hit hit)
{
    uint64_t now = cgroup_hits(watch->group, hit);

    if (hit == CGROUP_HIT_MEMORY && now > watch->seen[hit])
        watch->killed_ms = uv_now(watch->loop) + 1; /* never 0 */
    return now;
}

static void leave_room(const struct cgroup_watch *watch, enum cgroup_hit hit)
{
    if (hit == CGROUP_HIT_PROCESSES)
        cgroup_leave_room(watch->group);
}

uint64_t cgroup_watch_look(struct cgroup_watch *watch, enum cgroup_hit hit)
{
    uint64_t times = read_count(watch, hit);

    if (times > 0)
        leave_room(watch, hit);
    return times;
}

static void on_timer(uv_timer_t *timer)
{
    struct cgroup_watch *watch = timer->data;
    bool grown = false;

    for (int hit = 0; hit < CGROUP_HIT_COUNT && !watch->handles.closing; hit++) {
        uint64_t now = read_count(watch, (enum cgroup_hit)hit);

        if (now <= watch->seen[hit])
            continue;
        grown = true;
        watch->seen[hit] = now;
        leave_room(watch, (enum cgroup_hit)hit);
        watch->on_hit(watch->data, (enum cgroup_hit)hit, now);
    }
    if (watch->handles.closing)
        return;
    if (grown) {
        watch->quiet_until_ms = uv_now(watch->loop) + TELL_EVERY_MS;
        look_in(watch, TELL_EVERY_MS);
    }
}

static void on_source(uv_poll_t *poll, int status, int events)
{
    struct cgroup_watch *watch = poll->data;
    struct source *source = CONTAINER_OF(poll, struct source, poll);
    char bytes[4096];
    ssize_t got;

    (void)events;
    do
        got = read(source->fd, bytes, sizeof(bytes));
    while (got > 0 || (got < 0 && errno == EINTR));
    if (status < 0 || errno != EAGAIN)
        uv_poll_stop(poll);
    look_soon(watch);
}

static void open_source(struct cgroup_watch *watch, struct source *source, int fd)
{
    source->fd = fd;
    if (fd < 0 || uv_poll_init(watch->loop, &source->poll, fd) != 0)
        return;
    handles_add(&watch->handles, (uv_handle_t *)&source->poll, watch);
    source->open = true;
    BUG_ON(uv_poll_start(&source->poll, UV_READABLE, on_source) != 0);
}

/* Version 1: a line of two descriptors in cgroup.event_control. */
static int make_eventfd(const char *file)
{
    AUTO_CLOSE int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    AUTO_CLOSE int watched = open(file, O_RDONLY | O_CLOEXEC);
    AUTO_FREE char *line = mem_printf("%d %d", event, watched);
    AUTO_FREE char *folder = mem_strdup(file);

    *strrchr(folder, '/') = '\0';
    if (event < 0 || watched < 0 || cgroup_write(folder, "cgroup.event_control", line) != 0)
        return -1;
    return fd_steal(&event);
}

static void open_sources(struct cgroup_watch *watch)
{
    AUTO_CLOSE int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    for (int hit = 0; hit < CGROUP_HIT_COUNT; hit++) {
        AUTO_FREE char *file = cgroup_events_file(watch->group, (enum cgroup_hit)hit);

        if (!file)
            continue;
        if (cgroup_events_by_eventfd(watch->group, (enum cgroup_hit)hit))
            open_source(watch, &watch->memory, make_eventfd(file));
        else if (changes >= 0)
            inotify_add_watch(changes, file, IN_MODIFY);
    }
    open_source(watch, &watch->changes, fd_steal(&changes));
}

static void on_closed(void *data)
{
    struct cgroup_watch *watch = data;
    void (*done)(void *) = watch->done;
    void *done_data = watch->done_data;

    fd_close(&watch->changes.fd);
    fd_close(&watch->memory.fd);
    free(watch);
    done(done_data);
}

void cgroup_watch_start(struct cgroup_watch **out, uv_loop_t *loop, const struct cgroup *group,
                        void (*on_hit)(void *data, enum cgroup_hit hit, uint64_t times), void *data)
{
    struct cgroup_watch *watch = NEW(struct cgroup_watch);

    watch->loop = loop;
    watch->group = group;
    watch->on_hit = on_hit;
    watch->data = data;
    watch->changes.fd = watch->memory.fd = -1;
    handles_init(&watch->handles, on_closed, watch);
    BUG_ON(uv_timer_init(loop, &watch->timer) != 0);
    handles_add(&watch->handles, (uv_handle_t *)&watch->timer, watch);
    open_sources(watch);
    look_in(watch, 0);
    *out = watch;
}

bool cgroup_watch_killed(struct cgroup_watch *watch)
{
    read_count(watch, CGROUP_HIT_MEMORY);
    return watch->killed_ms != 0 && uv_now(watch->loop) + 1 - watch->killed_ms <= RECENT_MS;
}

void cgroup_watch_close(struct cgroup_watch *watch, void (*done)(void *data), void *data)
{
    uv_handle_t *list[] = {
        (uv_handle_t *)&watch->timer,
        watch->changes.open ? (uv_handle_t *)&watch->changes.poll : NULL,
        watch->memory.open ? (uv_handle_t *)&watch->memory.poll : NULL,
    };

    watch->done = done;
    watch->done_data = data;
    handles_close_all(&watch->handles, watch->loop, list, ARRAY_LEN(list));
}
