#include "sandbox/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"

/* The other end is played by the test: an init that does what it must not do. */
struct stage {
    uv_loop_t loop;
    struct control_link *control;
    int peer;
    unsigned answers;
    struct error error; /* of the last answer */
    bool had_answer;
    pid_t sender;
    int kept; /* a descriptor that the answer brought */
    bool lost;
    unsigned answers_when_lost;
    bool closed;
};

static void on_lost(void *data, const struct error *err)
{
    struct stage *stage = data;

    CHECK(!stage->lost);
    CHECK(err->code == ERR_UNAVAILABLE);
    stage->lost = true;
    stage->answers_when_lost = stage->answers;
}

static void stage_start(struct stage *stage)
{
    struct control_callbacks callbacks = { on_lost, stage };
    struct error err = ERROR_INIT;
    int ends[2];

    signal(SIGPIPE, SIG_IGN);
    memset(stage, 0, sizeof(*stage));
    stage->kept = -1;
    CHECK_EQ(uv_loop_init(&stage->loop), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    stage->peer = ends[1];
    CHECK_EQ(control_link_start(&stage->control, &stage->loop, ends[0], &callbacks, &err), 0);
}

static void on_closed(void *data)
{
    struct stage *stage = data;

    stage->closed = true;
}

static void stage_end(struct stage *stage)
{
    control_link_close(stage->control, on_closed, stage);
    CHECK(!stage->closed);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    CHECK(stage->closed);
    CHECK_EQ(uv_loop_close(&stage->loop), 0);
    close(stage->peer);
    fd_close(&stage->kept);
}

static void on_answer(void *data, struct control_answer *answer, const struct error *err)
{
    struct stage *stage = data;

    stage->answers++;
    stage->had_answer = answer != NULL;
    stage->error = err ? *err : (struct error)ERROR_INIT;
    if (answer) {
        stage->sender = answer->sender;
        if (answer->reply.fds & 1)
            stage->kept = fd_steal(&answer->fds[0]);
    }
}

/* Asks, and gives what arrived at the other end. */
static struct init_request ask(struct stage *stage, enum init_verb verb)
{
    struct init_request request = { .verb = verb };
    struct init_request arrived;
    struct error err = ERROR_INIT;

    CHECK_EQ(control_link_ask(stage->control, &request, NULL, 0, on_answer, stage, &err), 0);
    CHECK_EQ(recv(stage->peer, &arrived, sizeof(arrived), 0), (ssize_t)sizeof(arrived));
    return arrived;
}

static struct init_reply reply_to(const struct init_request *request)
{
    return (struct init_reply){ .protocol = INIT_PROTOCOL_VERSION,
                                .verb = request->verb,
                                .tag = request->tag };
}

static void send_with_fds(struct stage *stage, const struct init_reply *reply, size_t count)
{
    int fds[8];
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < count; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(fd_send(stage->peer, reply, sizeof(*reply), fds, count, &err), 0);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

static void turn(struct stage *stage)
{
    uv_run(&stage->loop, UV_RUN_ONCE);
}

static unsigned open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

TEST(an_answer_names_its_sender_and_brings_its_descriptor)
{
    struct stage stage;
    struct init_request request;
    struct init_reply reply;

    stage_start(&stage);
    request = ask(&stage, INIT_LISTEN);
    CHECK_EQ(request.protocol, INIT_PROTOCOL_VERSION);
    CHECK_EQ(request.len, 0);
    reply = reply_to(&request);
    reply.fds = 1;
    send_with_fds(&stage, &reply, 1);
    CHECK_EQ(stage.answers, 0);
    turn(&stage);
    CHECK_EQ(stage.answers, 1);
    CHECK_EQ(stage.error.code, ERR_NONE);
    CHECK_EQ(stage.sender, getpid());
    CHECK(fcntl(stage.kept, F_GETFD) & FD_CLOEXEC);
    stage_end(&stage);
    CHECK(!stage.lost);
}

TEST(answers_come_in_any_order)
{
    struct stage stage;
    struct init_request first;
    struct init_request second;
    struct init_reply reply;

    stage_start(&stage);
    first = ask(&stage, INIT_WAIT);
    second = ask(&stage, INIT_STATUS);
    CHECK(first.tag != second.tag);
    reply = reply_to(&second);
    send_with_fds(&stage, &reply, 0);
    turn(&stage);
    CHECK_EQ(stage.answers, 1);
    reply = reply_to(&first);
    send_with_fds(&stage, &reply, 0);
    turn(&stage);
    CHECK_EQ(stage.answers, 2);
    stage_end(&stage);
}

enum { WRONG_TAG, WRONG_VERB, SHORT, LONG, SURPLUS_FDS, MISSING_FDS, WRONG_BITS, TWICE, WRONGS };

/* The reply may have been the right one in everything else. */
static void misbehave(struct stage *stage, int how, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);
    char big[sizeof(reply) + 100];

    memset(big, 0, sizeof(big));
    switch (how) {
    case WRONG_TAG:
        reply.tag += 7;
        break;
    case WRONG_VERB:
        reply.verb = INIT_SPAWN;
        break;
    case SHORT:
        CHECK(send(stage->peer, &reply, sizeof(reply) - 1, 0) > 0);
        return;
    case LONG:
        memcpy(big, &reply, sizeof(reply));
        CHECK(send(stage->peer, big, sizeof(big), 0) > 0);
        return;
    case SURPLUS_FDS:
        reply.fds = 1;
        send_with_fds(stage, &reply, 3);
        return;
    case MISSING_FDS:
        reply.fds = 7;
        send_with_fds(stage, &reply, 1);
        return;
    case WRONG_BITS:
        reply.fds = 9;
        send_with_fds(stage, &reply, 2);
        return;
    case TWICE:
        send_with_fds(stage, &reply, 0);
        break;
    default:
        break;
    }
    send_with_fds(stage, &reply, 0);
}

TEST(whoever_breaks_the_rules_is_cut_off_and_leaves_nothing_open)
{
    for (int how = 0; how < WRONGS; how++) {
        struct stage stage;
        struct init_request request;
        unsigned before = open_fds();

        stage_start(&stage);
        request = ask(&stage, INIT_STATUS);
        misbehave(&stage, how, &request);
        while (!stage.lost)
            turn(&stage);
        CHECK_EQ(stage.answers, 1);
        CHECK_EQ(stage.answers_when_lost, 1);
        CHECK_EQ(stage.error.code, how == TWICE ? ERR_NONE : ERR_UNAVAILABLE);
        struct init_request more = { .verb = INIT_STATUS };
        struct error err = ERROR_INIT;
        CHECK_EQ(control_link_ask(stage.control, &more, NULL, 0, on_answer, &stage, &err), -1);
        CHECK_EQ(err.code, ERR_UNAVAILABLE);
        stage_end(&stage);
        CHECK_EQ(open_fds(), before);
    }
}

TEST(more_descriptors_than_room_are_not_kept)
{
    struct stage stage;
    struct init_request request;
    struct init_reply reply;
    unsigned before = open_fds();

    stage_start(&stage);
    request = ask(&stage, INIT_SPAWN);
    reply = reply_to(&request);
    reply.fds = 7;
    send_with_fds(&stage, &reply, 8);
    turn(&stage);
    stage_end(&stage);
    CHECK_EQ(stage.answers, 1);
    CHECK_EQ(open_fds(), before);
}

TEST(another_version_is_told_as_such)
{
    struct stage stage;
    struct init_request request;
    struct init_reply reply;

    stage_start(&stage);
    request = ask(&stage, INIT_HELLO);
    reply = reply_to(&request);
    reply.protocol = 99;
    send_with_fds(&stage, &reply, 0);
    turn(&stage);
    CHECK_EQ(stage.answers, 1);
    CHECK_EQ(stage.error.code, ERR_UNAVAILABLE);
    CHECK_HAS(stage.error.text, "another version");
    stage_end(&stage);
}

TEST(a_refusal_is_explained_in_escaped_words)
{
    struct stage stage;
    struct init_request request;
    struct init_reply reply;

    stage_start(&stage);
    request = ask(&stage, INIT_SPAWN);
    reply = reply_to(&request);
    reply.error = ENOENT;
    memset(reply.text, '\033', sizeof(reply.text)); /* and not terminated */
    send_with_fds(&stage, &reply, 0);
    turn(&stage);
    CHECK_EQ(stage.error.code, ERR_NOT_FOUND);
    CHECK_HAS(stage.error.text, "\\x1b\\x1b");
    reply = reply_to(&request);
    request = ask(&stage, INIT_SPAWN);
    reply.tag = request.tag;
    reply.error = -5;
    send_with_fds(&stage, &reply, 0);
    turn(&stage);
    CHECK_EQ(stage.error.code, ERR_SYSTEM);
    stage_end(&stage);
}

TEST(questions_wait_while_the_other_side_does_not_read_but_not_without_bound)
{
    struct stage stage;
    struct error err = ERROR_INIT;
    char *body = mem_new_zero(1, 100000);
    unsigned sent = 0;
    unsigned arrived = 0;

    stage_start(&stage);
    for (;;) {
        struct init_request request = { .verb = INIT_SPAWN };

        if (control_link_ask(stage.control, &request, body, 100000, on_answer, &stage, &err) < 0)
            break;
        sent++;
    }
    CHECK_EQ(err.code, ERR_LIMIT);
    CHECK(sent > 5 && sent < 50);
    while (arrived < sent) {
        char *packet = mem_new_zero(1, 200000);

        CHECK_EQ(recv(stage.peer, packet, 200000, 0),
                 (ssize_t)(sizeof(struct init_request) + 100000));
        free(packet);
        arrived++;
        uv_run(&stage.loop, UV_RUN_NOWAIT);
    }
    stage_end(&stage);
    CHECK_EQ(stage.answers, sent);
    CHECK_EQ(stage.error.code, ERR_CANCELLED);
    free(body);
}

TEST(an_end_answers_every_question_before_it_is_told)
{
    struct stage stage;

    stage_start(&stage);
    ask(&stage, INIT_WAIT);
    ask(&stage, INIT_WAIT);
    shutdown(stage.peer, SHUT_RDWR);
    turn(&stage);
    CHECK(stage.lost);
    CHECK_EQ(stage.answers_when_lost, 2);
    CHECK(!stage.had_answer);
    stage_end(&stage);
}
