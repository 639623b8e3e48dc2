/* sandbox-init asked by hand, over a connection beside the supervisor's. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "sandbox/init/protocol.h"
#include "unit/sandbox/rig.h"

struct wire {
    int fd;
    uint64_t tag;
};

struct answer {
    struct init_reply reply;
    int fds[3];
    size_t fd_count;
};

static void wire_open(struct wire *wire, const struct rig *rig)
{
    AUTO_FREE char *path = mem_printf("%s/ctl.sock", rig->runtime_dir);
    struct error err = ERROR_INIT;
    int size = 400 * 1024;

    wire->tag = 0;
    wire->fd = fd_connect_unix(path, SOCK_SEQPACKET, &err);
    CHECK(wire->fd >= 0);
    CHECK_EQ(setsockopt(wire->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
}

static void wire_send(struct wire *wire, struct init_request *request, const void *data, size_t len)
{
    char *packet = mem_new_zero(1, sizeof(*request) + len);

    request->protocol = INIT_PROTOCOL_VERSION;
    request->tag = ++wire->tag;
    request->len = (uint32_t)len;
    memcpy(packet, request, sizeof(*request));
    if (len)
        memcpy(packet + sizeof(*request), data, len);
    CHECK_EQ(send(wire->fd, packet, sizeof(*request) + len, MSG_NOSIGNAL),
             (ssize_t)(sizeof(*request) + len));
    free(packet);
}

static void take_fds(struct msghdr *message, struct answer *answer)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);

    if (!header)
        return;
    CHECK_EQ(header->cmsg_type, SCM_RIGHTS);
    answer->fd_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    CHECK(answer->fd_count <= 3);
    memcpy(answer->fds, CMSG_DATA(header), answer->fd_count * sizeof(int));
}

/* False when init has hung up. */
static bool wire_receive(struct wire *wire, struct answer *answer)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } room;
    struct iovec bytes = { &answer->reply, sizeof(answer->reply) };
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof(room)
    };
    struct pollfd state = { .fd = wire->fd, .events = POLLIN };
    ssize_t got;

    memset(answer, 0, sizeof(*answer));
    memset(&room, 0, sizeof(room));
    if (poll(&state, 1, 30000) != 1)
        CHECK_FAILED("init answers in time");
    got = recvmsg(wire->fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return false;
    CHECK_EQ(got, (ssize_t)sizeof(answer->reply));
    CHECK_EQ(answer->reply.protocol, INIT_PROTOCOL_VERSION);
    take_fds(&message, answer);
    return true;
}

static void wire_ask(struct wire *wire, struct init_request request, struct answer *answer)
{
    wire_send(wire, &request, NULL, 0);
    CHECK(wire_receive(wire, answer));
    CHECK_EQ(answer->reply.tag, wire->tag);
    CHECK_EQ(answer->reply.verb, request.verb);
}

/* The errno of a request that brings nothing. */
static int wire_error(struct wire *wire, struct init_request request)
{
    struct answer answer;

    wire_ask(wire, request, &answer);
    CHECK_EQ(answer.fd_count, 0u);
    return answer.reply.error;
}

static void answer_close(struct answer *answer)
{
    for (size_t i = 0; i < answer->fd_count; i++)
        close(answer->fds[i]);
}

/* A shell command of its own; its streams are dropped. Returns its id, or 0 with *ERROR. */
static uint32_t wire_shell(struct wire *wire, const char *script, int *error)
{
    struct init_request request = { .verb = INIT_SPAWN, .argc = 3, .envc = 1 };
    AUTO_BUF struct buf body = BUF_INIT(65536);
    struct answer answer;

    buf_append(&body, "/\0sh\0-c", 8);
    buf_append(&body, script, strlen(script) + 1);
    buf_append(&body, "PATH=/usr/bin:/bin", 19);
    wire_send(wire, &request, body.data, body.len);
    CHECK(wire_receive(wire, &answer));
    answer_close(&answer);
    *error = answer.reply.error;
    return answer.reply.error ? 0 : answer.reply.process;
}

static struct init_request about(enum init_verb verb, uint32_t process)
{
    return (struct init_request){ .verb = verb, .process = process };
}

static bool still_serves(struct rig *rig)
{
    struct answer answer;
    struct wire wire;

    wire_open(&wire, rig);
    wire_ask(&wire, (struct init_request){ .verb = INIT_STATUS }, &answer);
    close(wire.fd);
    return answer.reply.error == 0;
}

static unsigned count_fds(const struct rig *rig)
{
    AUTO_FREE char *path = mem_printf("/proc/%d/fd", (int)sandbox_init_pid(rig->sandbox));
    DIR *dir = opendir(path);
    unsigned count = 0;

    if (!dir)
        test_skip("only root sees init's descriptors");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Verbs ---------------------------------------------------------------------------------------- */

TEST(every_verb_is_answered_as_meant)
{
    struct rig rig;
    struct wire wire;
    struct answer answer;
    int error;
    uint32_t id;

    rig_start(&rig);
    wire_open(&wire, &rig);
    wire_ask(&wire, (struct init_request){ .verb = INIT_HELLO }, &answer);
    CHECK_EQ(answer.reply.error, 0);
    CHECK_EQ(answer.reply.running, 0u);
    CHECK_EQ(answer.reply.landlock != 0,
             (sandbox_layers(rig.sandbox) & UINT32_C(1) << SANDBOX_LAYER_LANDLOCK) != 0);

    wire_ask(&wire, (struct init_request){ .verb = INIT_LISTEN, .number = 5000 }, &answer);
    CHECK_EQ(answer.fd_count, 1u);
    answer_close(&answer);
    wire_ask(&wire, (struct init_request){ .verb = INIT_CONNECT, .number = 5000 }, &answer);
    CHECK_EQ(answer.fd_count, 1u);
    answer_close(&answer);
    CHECK_EQ(wire_error(&wire, (struct init_request){ .verb = INIT_CONNECT, .number = 5001 }),
             ECONNREFUSED);

    id = wire_shell(&wire, "exec sleep 1000", &error);
    CHECK(id > 0);
    wire_ask(&wire, (struct init_request){ .verb = INIT_STATUS }, &answer);
    CHECK_EQ(answer.reply.running, 1u);
    wire_ask(&wire, about(INIT_ATTACH, id), &answer);
    CHECK_EQ(answer.reply.fds, 6u);
    CHECK_EQ(answer.fd_count, 2u);
    answer_close(&answer);
    CHECK_EQ(wire_error(&wire, about(INIT_END_INPUT, id)), 0);
    CHECK_EQ(wire_error(&wire, about(INIT_FORGET, id)), EBUSY);
    CHECK_EQ(
        wire_error(&wire,
                   (struct init_request){ .verb = INIT_SIGNAL, .process = id, .number = SIGKILL }),
        0);
    wire_ask(&wire, about(INIT_WAIT, id), &answer);
    CHECK_EQ(answer.reply.signal, SIGKILL);
    CHECK_EQ(wire_error(&wire, about(INIT_FORGET, id)), 0);
    CHECK_EQ(wire_error(&wire, (struct init_request){ .verb = INIT_DEADLINE, .time_ms = 3600000 }),
             0);
    CHECK_EQ(wire_error(&wire, (struct init_request){ .verb = INIT_KILL_ALL }), 0);
    close(wire.fd);
    rig_stop(&rig);
}

TEST(what_is_not_known_is_told_as_such)
{
    static const enum init_verb verbs[] = { INIT_ATTACH, INIT_WAIT, INIT_FORGET, INIT_SIGNAL,
                                            INIT_END_INPUT };
    struct rig rig;
    struct wire wire;
    int error;

    rig_start(&rig);
    wire_open(&wire, &rig);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        CHECK_EQ(wire_error(&wire, about(verbs[i], 0)), ESRCH);
        CHECK_EQ(wire_error(&wire, about(verbs[i], 77)), ESRCH);
        CHECK_EQ(wire_error(&wire, about(verbs[i], UINT32_MAX)), ESRCH);
    }
    CHECK_EQ(wire_error(&wire, (struct init_request){ .verb = 0 }), ENOSYS);
    CHECK_EQ(wire_error(&wire, (struct init_request){ .verb = UINT32_MAX }), ENOSYS);
    CHECK_EQ(
        wire_error(&wire, (struct init_request){ .verb = INIT_SIGNAL,
                                                 .process = wire_shell(&wire, "sleep 9", &error),
                                                 .number = 4711 }),
        EINVAL);
    close(wire.fd);
    rig_stop(&rig);
}

TEST(a_status_is_kept_until_it_is_fetched_and_forgotten)
{
    struct rig rig;
    struct wire wire;
    struct answer answer;
    int error;
    uint32_t id;

    rig_start(&rig);
    wire_open(&wire, &rig);
    id = wire_shell(&wire, "exit 42", &error);
    for (int i = 0; i < 3; i++) {
        wire_ask(&wire, about(INIT_WAIT, id), &answer);
        CHECK_EQ(answer.reply.code, 42);
        close(wire.fd); /* a supervisor that dies between hearing and forgetting */
        wire_open(&wire, &rig);
    }
    CHECK_EQ(wire_error(&wire, about(INIT_FORGET, id)), 0);
    CHECK_EQ(wire_error(&wire, about(INIT_WAIT, id)), ESRCH);
    close(wire.fd);
    rig_stop(&rig);
}

/* Connections ---------------------------------------------------------------------------------- */

TEST(two_supervisors_at_once_get_their_own_answers)
{
    struct rig rig;
    struct wire one;
    struct wire two;
    struct answer answer;
    struct init_request wait;
    int error;
    uint32_t id;

    rig_start(&rig);
    wire_open(&one, &rig);
    wire_open(&two, &rig);
    id = wire_shell(&one, "exec sleep 1000", &error);
    wait = about(INIT_WAIT, id);
    two.tag = 1000;
    wire_send(&one, &wait, NULL, 0);
    wire_send(&two, &wait, NULL, 0);
    CHECK_EQ(wire_error(&two, (struct init_request){ .verb = INIT_STATUS }), 0);
    sandbox_signal(rig.sandbox, id, SIGTERM);
    CHECK(wire_receive(&one, &answer));
    CHECK_EQ(answer.reply.tag, one.tag);
    CHECK_EQ(answer.reply.signal, SIGTERM);
    CHECK(wire_receive(&two, &answer));
    CHECK_EQ(answer.reply.tag, 1001u);
    CHECK_EQ(answer.reply.signal, SIGTERM);
    close(one.fd);
    close(two.fd);
    rig_stop(&rig);
}

TEST(streams_can_be_had_again_after_a_reconnect)
{
    struct rig rig;
    struct wire wire;
    struct answer answer;
    char line[4];
    int error;
    uint32_t id;

    rig_start(&rig);
    wire_open(&wire, &rig);
    id = wire_shell(&wire, "trap 'echo yes' TERM; echo up; while :; do sleep 1000 & wait; done",
                    &error);
    close(wire.fd);
    wire_open(&wire, &rig);
    wire_ask(&wire, about(INIT_ATTACH, id), &answer);
    CHECK_EQ(answer.fd_count, 2u);
    CHECK_EQ(read(answer.fds[0], line, 3), 3);
    CHECK_EQ(memcmp(line, "up\n", 3), 0);
    CHECK_EQ(
        wire_error(&wire,
                   (struct init_request){ .verb = INIT_SIGNAL, .process = id, .number = SIGTERM }),
        0);
    CHECK_EQ(read(answer.fds[0], line, 4), 4);
    CHECK_EQ(memcmp(line, "yes\n", 4), 0);
    answer_close(&answer);
    close(wire.fd);
    rig_stop(&rig);
}

/* The newest supervisor is the one that counts, so the oldest connection makes room. */
TEST(more_connections_than_places_end_the_oldest)
{
    struct rig rig;
    struct wire wires[12];
    struct answer answer;
    struct init_request request = { .verb = INIT_STATUS };

    rig_start(&rig);
    for (size_t i = 0; i < ARRAY_LEN(wires); i++) {
        wire_open(&wires[i], &rig);
        CHECK_EQ(wire_error(&wires[i], request), 0);
    }
    CHECK(!wire_receive(&wires[0], &answer));
    CHECK_EQ(wire_error(&wires[ARRAY_LEN(wires) - 1], request), 0);
    for (size_t i = 0; i < ARRAY_LEN(wires); i++)
        close(wires[i].fd);
    rig.ended = false;
    /* The rig's own connection was the oldest of all: to it the sandbox is lost. */
    RIG_UNTIL(&rig, rig.ended);
    CHECK_EQ(rig.end.kind, SANDBOX_END_LOST);
    rig_close(&rig);
}

TEST(a_flood_of_descriptors_stays_nowhere)
{
    struct rig rig;
    struct wire wire;
    struct answer answer;
    struct error err = ERROR_INIT;
    struct init_request request = { .protocol = INIT_PROTOCOL_VERSION, .verb = INIT_STATUS };
    unsigned before;
    int fds[FD_PASS_MAX];

    rig_start(&rig);
    wire_open(&wire, &rig);
    CHECK_EQ(wire_error(&wire, request), 0);
    before = count_fds(&rig);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (uint64_t round = 1; round <= 50; round++) {
        request.tag = 5000 + round;
        CHECK_EQ(fd_send(wire.fd, &request, sizeof(request), fds, ARRAY_LEN(fds), &err), 0);
        CHECK(wire_receive(&wire, &answer));
    }
    CHECK_EQ(count_fds(&rig), before);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
    close(wire.fd);
    rig_stop(&rig);
}

/* Requests that lie ---------------------------------------------------------------------------- */

TEST(packets_of_a_wrong_length_end_their_connection_only)
{
    struct rig rig;
    struct init_request request = { .protocol = INIT_PROTOCOL_VERSION,
                                    .verb = INIT_STATUS,
                                    .tag = 1 };
    char *big = mem_new_zero(1, sizeof(request) + INIT_DATA_MAX + 2);
    const size_t lengths[] = { 1, sizeof(request) - 1, sizeof(request) + 1,
                               sizeof(request) + INIT_DATA_MAX + 2 };

    rig_start(&rig);
    memcpy(big, &request, sizeof(request));
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct wire wire;
        struct answer answer;

        wire_open(&wire, &rig);
        CHECK_EQ(send(wire.fd, big, lengths[i], MSG_NOSIGNAL), (ssize_t)lengths[i]);
        CHECK(!wire_receive(&wire, &answer));
        close(wire.fd);
    }
    CHECK(still_serves(&rig));
    free(big);
    rig_stop(&rig);
}

TEST(another_version_is_told_and_does_nothing)
{
    struct rig rig;
    struct wire wire;
    struct answer answer;
    struct init_request request = { .protocol = INIT_PROTOCOL_VERSION + 1,
                                    .verb = INIT_KILL_ALL,
                                    .tag = 5 };

    rig_start(&rig);
    wire_open(&wire, &rig);
    CHECK(send(wire.fd, &request, sizeof(request), MSG_NOSIGNAL) > 0);
    CHECK(wire_receive(&wire, &answer));
    CHECK_EQ(answer.reply.error, EPROTONOSUPPORT);
    CHECK_EQ(answer.reply.tag, 5u);
    close(wire.fd);
    rig_stop(&rig);
}

static int spawn_error(struct wire *wire, uint32_t argc, uint32_t envc, const char *body,
                       size_t len)
{
    struct init_request request = { .verb = INIT_SPAWN, .argc = argc, .envc = envc };
    struct answer answer;

    wire_send(wire, &request, body, len);
    CHECK(wire_receive(wire, &answer));
    answer_close(&answer);
    return answer.reply.error;
}

TEST(malformed_commands_start_nothing)
{
    struct rig rig;
    struct wire wire;
    struct answer answer;

    rig_start(&rig);
    wire_open(&wire, &rig);
    CHECK_EQ(spawn_error(&wire, 1, 0, "/\0true", 6), EINVAL);    /* no end */
    CHECK_EQ(spawn_error(&wire, 2, 0, "/\0true", 7), EINVAL);    /* too few */
    CHECK_EQ(spawn_error(&wire, 1, 0, "/\0true\0x", 9), EINVAL); /* too many */
    CHECK_EQ(spawn_error(&wire, 0, 1, "/\0A=b", 6), EINVAL);     /* no program */
    CHECK_EQ(spawn_error(&wire, UINT32_MAX, 0, "/\0true", 7), EINVAL);
    CHECK_EQ(spawn_error(&wire, 1, UINT32_MAX, "/\0true", 7), EINVAL);
    CHECK_EQ(spawn_error(&wire, 1, 0, NULL, 0), EINVAL);
    CHECK_EQ(spawn_error(&wire, 1, 0, "/\0", 3), ENOENT);    /* a program without name */
    CHECK_EQ(spawn_error(&wire, 1, 0, "\0true", 6), ENOENT); /* a folder without name */
    wire_ask(&wire, (struct init_request){ .verb = INIT_STATUS }, &answer);
    CHECK_EQ(answer.reply.running, 0u);
    close(wire.fd);
    rig_stop(&rig);
}

/* Processes ------------------------------------------------------------------------------------ */

TEST(thousands_of_orphans_leave_no_zombie)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    CHECK_EQ(rig_shell(&rig,
                       "for i in $(seq 2000); do (: &) ; done\n"
                       "for i in $(seq 1000); do\n"
                       "  n=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z')\n"
                       "  test $n = 0 && echo none && exit; done; echo $n left\n",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "none\n");
    rig_stop(&rig);
}

TEST(a_full_table_refuses_and_has_room_again)
{
    struct rig rig;
    struct wire wire;
    uint32_t ids[INIT_PROCESSES_MAX];
    struct answer answer;
    int error;

    rig_init(&rig);
    rig.spec.limits.processes = 1000;
    rig_try(&rig);
    CHECK_STR(rig.error.text, "");
    wire_open(&wire, &rig);
    for (size_t i = 0; i < INIT_PROCESSES_MAX; i++) {
        ids[i] = wire_shell(&wire, "exec sleep 1000", &error);
        CHECK(ids[i] > 0);
    }
    CHECK_EQ(wire_shell(&wire, "exit 0", &error), 0u);
    CHECK_EQ(error, EAGAIN);
    CHECK_EQ(wire_error(&wire, (struct init_request){ .verb = INIT_KILL_ALL }), 0);
    for (size_t i = 0; i < INIT_PROCESSES_MAX; i++) {
        wire_ask(&wire, about(INIT_WAIT, ids[i]), &answer);
        CHECK_EQ(answer.reply.signal, SIGKILL);
    }
    CHECK(wire_shell(&wire, "exit 0", &error) > 0); /* in the place of the oldest that ended */
    CHECK_EQ(wire_error(&wire, about(INIT_WAIT, ids[0])), ESRCH);
    close(wire.fd);
    rig_stop(&rig);
}

/* The deadline --------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void await_deadline(struct rig *rig)
{
    RIG_UNTIL(rig, rig->ended);
    CHECK_EQ(rig->end.kind, SANDBOX_END_LOST);
    CHECK_EQ(rig->end.exit_code, INIT_EXIT_DEADLINE);
    CHECK(rig_nothing_left());
    rig_close(rig);
}

TEST(a_deadline_ends_everything_and_the_last_one_counts)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    rig_shell_start(&rig, &one, "for i in 1 2 3; do setsid sleep 1000 & done; echo up; wait");
    rig_read(one.process.stdout_fd, &out, "up");
    sandbox_set_deadline(rig.sandbox, 3600000);
    sandbox_set_deadline(rig.sandbox, UINT64_MAX);
    sandbox_set_deadline(rig.sandbox, 100);
    await_deadline(&rig);
    rig_close_streams(&one);
}

TEST(a_deadline_that_is_taken_back_does_not_come)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    sandbox_set_deadline(rig.sandbox, 200);
    sandbox_set_deadline(rig.sandbox, 0);
    CHECK_EQ(rig_shell(&rig, "sleep 0.4; echo lives", &out), 0);
    CHECK_STR(buf_text(&out), "lives\n");
    rig_stop(&rig);
}

/* Nobody connects any more, nobody is greeted: the time passes without a supervisor. */
TEST(a_deadline_comes_without_a_supervisor)
{
    struct rig rig;
    struct error err = ERROR_INIT;

    rig_start(&rig);
    sandbox_set_deadline(rig.sandbox, 300);
    rig_close(&rig);
    for (int i = 0; i < 1000 && rig_leftovers() > 0; i++)
        poll(NULL, 0, 10);
    CHECK_EQ(rig_leftovers(), 0u);
    CHECK_EQ(sandbox_runtime_remove(tmp_path("runtime"), &err), 0);
}

TEST(an_agent_that_stops_everything_stops_no_deadline)
{
    struct rig rig;
    struct rig_process stopper;
    struct wire wire;
    struct init_request spawn = { .verb = INIT_SPAWN, .argc = 1 };
    AUTO_BUF struct buf out = BUF_INIT(65536);
    int64_t begin;

    rig_start(&rig);
    wire_open(&wire, &rig);
    rig_shell_start(&rig, &stopper,
                    "exec perl -e '$| = 1; print \"up\\n\"; kill STOP => 1, -1 while 1'");
    rig_read(stopper.process.stdout_fd, &out, "up");
    begin = now_ms();
    sandbox_set_deadline(rig.sandbox, 1000);
    /* Children that are stopped before their program runs hold up whoever waits for them. */
    for (int i = 0; i < 20; i++)
        wire_send(&wire, &spawn, "/\0true", 7);
    await_deadline(&rig);
    CHECK(now_ms() - begin < 10000);
    rig_close_streams(&stopper);
    close(wire.fd);
}

TEST(an_agent_cannot_take_inits_means)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    CHECK_EQ(rig_shell(&rig,
                       "prlimit --pid 1 --nofile=4:4 2>/dev/null && echo BAD nofile\n"
                       "prlimit --pid 1 --cpu=1:1 2>/dev/null && echo BAD cpu\n"
                       "prlimit --pid 1 --nofile >/dev/null || echo BAD read\n"
                       "ulimit -n 100 || echo BAD own\n"
                       "kill -STOP 1; kill -KILL 1; true",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "");
    CHECK(still_serves(&rig));
    rig_stop(&rig);
}
