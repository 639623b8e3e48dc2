#include "workspace/usage_watch.h"

#include <sys/statvfs.h>

#include "common/mem.h"

#define EVERY_MS 2000
/* What a session that was over the limit before may still take, so that a run can clean it up. */
#define ROOM_BYTES (UINT64_C(64) << 20)
#define REST_FACTOR 10 /* a walk is followed by this many times its own length of rest */

struct usage_watch {
    uv_loop_t *loop;
    struct usage_watch_options options;
    char *folder;
    uv_timer_t timer;
    uv_work_t work;
    atomic_bool cancel;
    bool walking;
    bool timer_closed;
    bool closing;
    bool known; /* a walk has ended */
    struct usage usage;
    struct usage next; /* the thread's, while walking */
    bool failed;       /* the thread's */
    uint64_t first_bytes;
    uint64_t disk_used; /* of the whole file system, when the last walk began */
    uint64_t began_ms;
    uint64_t rest_until_ms;
};

static void free_if_over(struct usage_watch *watch)
{
    if (!watch->timer_closed || watch->walking)
        return;
    free(watch->folder);
    free(watch);
}

static bool look_at_disk(const struct usage_watch *watch, uint64_t *used, uint64_t *left)
{
    struct statvfs disk;

    if (statvfs(watch->folder, &disk) < 0)
        return false;
    *used = (uint64_t)(disk.f_blocks - disk.f_bfree) * disk.f_frsize;
    *left = (uint64_t)disk.f_bavail * disk.f_frsize;
    return true;
}

static uint64_t limit_of(const struct usage_watch *watch)
{
    uint64_t limit = watch->options.limit_bytes;

    return limit && watch->first_bytes >= limit ? watch->first_bytes + ROOM_BYTES : limit;
}

static void judge(struct usage_watch *watch)
{
    uint64_t used;
    uint64_t left;

    if (limit_of(watch) && watch->usage.bytes > limit_of(watch)) {
        watch->options.on_over(watch->options.data, watch->usage.bytes);
        return; /* it may be closed */
    }
    if (look_at_disk(watch, &used, &left) && left < watch->options.free_floor_bytes)
        watch->options.on_low(watch->options.data, left);
}

static void walk(uv_work_t *work)
{
    struct usage_watch *watch = work->data;
    struct error err = ERROR_INIT;

    watch->failed = usage_walk(watch->folder, &watch->cancel, &watch->next, &err) < 0;
}

static void after_walk(uv_work_t *work, int status)
{
    struct usage_watch *watch = work->data;
    uint64_t now = uv_now(watch->loop);

    watch->walking = false;
    if (watch->closing) {
        free_if_over(watch);
        return;
    }
    watch->rest_until_ms = now + REST_FACTOR * (now - watch->began_ms);
    if (status < 0 || watch->failed)
        return;
    watch->usage = watch->next;
    if (!watch->known)
        watch->first_bytes = watch->usage.bytes;
    watch->known = true;
    judge(watch);
}

static bool wants_walk(const struct usage_watch *watch, uint64_t used, uint64_t left)
{
    uint64_t growth = used > watch->disk_used ? used - watch->disk_used : 0;
    uint64_t limit = limit_of(watch);

    if (watch->walking || uv_now(watch->loop) < watch->rest_until_ms)
        return false;
    if (!watch->known || left < watch->options.free_floor_bytes)
        return true;
    return limit && (growth > limit || watch->usage.bytes > limit - growth);
}

static void on_timer(uv_timer_t *timer)
{
    struct usage_watch *watch = timer->data;
    uint64_t used;
    uint64_t left;

    if (!look_at_disk(watch, &used, &left) || !wants_walk(watch, used, left))
        return;
    watch->work.data = watch;
    watch->began_ms = uv_now(watch->loop);
    watch->disk_used = used;
    watch->walking = uv_queue_work(watch->loop, &watch->work, walk, after_walk) == 0;
}

void usage_watch_start(struct usage_watch **out, uv_loop_t *loop,
                       const struct usage_watch_options *options)
{
    struct usage_watch *watch = NEW(struct usage_watch);
    uint32_t every_ms = options->every_ms ? options->every_ms : EVERY_MS;

    watch->loop = loop;
    watch->options = *options;
    watch->folder = mem_strdup(options->folder);
    watch->options.folder = watch->folder;
    atomic_init(&watch->cancel, false);
    BUG_ON(uv_timer_init(loop, &watch->timer) != 0);
    watch->timer.data = watch;
    BUG_ON(uv_timer_start(&watch->timer, on_timer, 0, every_ms) != 0);
    *out = watch;
}

uint64_t usage_watch_growth(const struct usage_watch *watch)
{
    return watch->usage.bytes > watch->first_bytes ? watch->usage.bytes - watch->first_bytes : 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct usage_watch *watch = handle->data;

    watch->timer_closed = true;
    free_if_over(watch);
}

void usage_watch_close(struct usage_watch *watch)
{
    watch->closing = true;
    atomic_store(&watch->cancel, true);
    if (watch->walking)
        uv_cancel((uv_req_t *)&watch->work);
    uv_close((uv_handle_t *)&watch->timer, on_timer_closed);
}
