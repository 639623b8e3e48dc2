/* The backend that isolates nothing: the same promises but for walls. */
#include "unit/sandbox/rig.h"

#include "sandbox/init/protocol.h"

/* The uid that it runs under must reach init. */
static void copy_init(struct rig *rig)
{
    AUTO_FREE char *bytes = NULL;
    struct error err = ERROR_INIT;
    size_t len = 0;

    CHECK_EQ(fd_read_file(rig->init_path, 16 << 20, &bytes, &len, &err), 0);
    CHECK_EQ(chmod(tmp_dir(), 0755), 0);
    free(rig->init_path);
    rig->init_path = mem_strdup(tmp_file("init", bytes, len, 0755));
    CHECK_EQ(chmod(rig->init_path, 0755), 0);
    rig->options.init_path = rig->init_path;
}

static void none_init(struct rig *rig)
{
    rig_init(rig);
    copy_init(rig);
    rig->options.backend = "none";
    rig->options.allow_none = true;
    sandbox_spec_finish(&rig->spec);
    sandbox_spec_init(&rig->spec);
    rig->spec.id = mem_strdup("test");
    rig->spec.runtime_dir = mem_strdup(rig->runtime_dir);
    rig->spec.host_uid = rig_uid();
}

/* Makes room for another rig in the same test. */
static void clear_folders(void)
{
    tmp_remove_tree(tmp_path("home"));
    tmp_remove_tree(tmp_path("workspace"));
    unlink(tmp_path("init"));
}

static void none_start(struct rig *rig)
{
    none_init(rig);
    rig_try(rig);
    CHECK_STR(rig->error.text, "");
}

static void none_shell_start(struct rig *rig, struct rig_process *one, const char *script)
{
    const char *const argv[] = { "sh", "-c", script, NULL };

    rig_spawn(rig, one, argv, "/", SANDBOX_STDIN_NULL);
    CHECK_STR(one->error.text, "");
}

static void expect_refused(struct rig *rig, enum error_code code, const char *part)
{
    struct sandbox_callbacks callbacks = rig_callbacks(rig);
    struct error err = ERROR_INIT;

    CHECK_EQ(sandbox_start(&rig->sandbox, &rig->loop, &rig->options, &rig->spec, &callbacks, &err),
             -1);
    CHECK_EQ(err.code, code);
    CHECK_HAS(err.text, part);
    rig->sandbox = NULL;
    rig_close(rig);
    CHECK(rig_nothing_left());
    clear_folders();
}

TEST(it_is_refused_unless_somebody_allowed_it)
{
    struct rig rig;

    none_init(&rig);
    rig.options.allow_none = false;
    expect_refused(&rig, ERR_DENIED, "allowNone");
}

TEST(nothing_can_be_shown_elsewhere_than_where_it_is)
{
    struct rig rig;

    none_init(&rig);
    sandbox_spec_add_mount(&rig.spec, tmp_dir(), SANDBOX_WORKSPACE, SANDBOX_READ_WRITE);
    expect_refused(&rig, ERR_INVALID, SANDBOX_WORKSPACE);
    none_init(&rig);
    sandbox_spec_add_mount(&rig.spec, "/usr", "/usr", SANDBOX_READ_ONLY);
    expect_refused(&rig, ERR_INVALID, "/usr");
    none_init(&rig);
    sandbox_spec_add_file(&rig.spec, "/etc/x", "", 0, 0444);
    expect_refused(&rig, ERR_INVALID, "files");
}

TEST(it_claims_no_layer_and_fails_where_one_is_demanded)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(4096);

    none_start(&rig);
    CHECK_EQ(sandbox_layers(rig.sandbox), 0u);
    sandbox_describe(rig.sandbox, &out);
    CHECK_HAS(buf_text(&out), "nothing is isolated");
    rig_stop(&rig);
    clear_folders();

    none_init(&rig);
    rig.options.required = UINT32_C(1) << SANDBOX_LAYER_OWN_UID;
    rig_try(&rig);
    CHECK_EQ(rig.error.code, ERR_DENIED);
    CHECK_HAS(rig.error.text, "own-uid");
    rig_close(&rig);
    CHECK(rig_nothing_left());
}

TEST(programs_run_and_tell_their_exit_codes)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);
    AUTO_FREE char *uid = mem_printf("%u\n", rig_uid());

    none_start(&rig);
    none_shell_start(&rig, &one, "id -u; exit 7");
    rig_read(one.process.stdout_fd, &out, NULL);
    CHECK_STR(buf_text(&out), uid);
    rig_wait(&rig, &one);
    CHECK_EQ(one.status.code, 7);
    rig_close_streams(&one);
    rig_stop(&rig);
    CHECK(rig_nothing_left());
}

struct got_fd {
    int fd;
    bool told;
};

static void on_fd(void *data, int fd, const struct error *err)
{
    struct got_fd *got = data;

    got->told = true;
    got->fd = fd;
    if (err)
        CHECK_STR(err->text, "");
}

TEST(ports_are_those_of_the_machine)
{
    struct rig rig;
    struct got_fd listener = { -1, false };
    struct got_fd client = { -1, false };
    struct error err = ERROR_INIT;
    uint16_t port = (uint16_t)(20000 + getpid() % 10000);

    none_start(&rig);
    CHECK_EQ(sandbox_listen(rig.sandbox, port, on_fd, &listener, &err), 0);
    RIG_UNTIL(&rig, listener.told);
    CHECK_EQ(sandbox_connect(rig.sandbox, port, on_fd, &client, &err), 0);
    RIG_UNTIL(&rig, client.told);
    CHECK(listener.fd >= 0 && client.fd >= 0);
    close(listener.fd);
    close(client.fd);
    rig_stop(&rig);
}

/* The kernel ends nobody here when init dies. */
static const char hiding[] = "for i in 1 2 3; do setsid sleep 1000 & done\n"
                             "(trap '' TERM HUP INT; setsid setsid sleep 1000) >/dev/null 2>&1 &\n"
                             "echo up; wait";

TEST(a_stop_ends_what_outlives_init)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    none_start(&rig);
    none_shell_start(&rig, &one, hiding);
    rig_read(one.process.stdout_fd, &out, "up");
    CHECK(rig_leftovers() > 4);
    sandbox_stop(rig.sandbox);
    RIG_UNTIL(&rig, rig.ended);
    CHECK_EQ(rig.end.kind, SANDBOX_END_STOPPED);
    CHECK(rig_nothing_left());
    rig_close_streams(&one);
    rig_close(&rig);
}

TEST(a_deadline_ends_its_programs_and_nobody_elses)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    none_start(&rig);
    none_shell_start(&rig, &one, hiding);
    rig_read(one.process.stdout_fd, &out, "up");
    sandbox_set_deadline(rig.sandbox, 50);
    RIG_UNTIL(&rig, rig.ended);
    CHECK_EQ(rig.end.exit_code, INIT_EXIT_DEADLINE);
    CHECK(rig_nothing_left());
    rig_close_streams(&one);
    rig_close(&rig);
}

TEST(signals_do_not_end_init)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    none_start(&rig);
    none_shell_start(&rig, &one,
                     "for s in TERM HUP INT QUIT USR1 USR2 ALRM; do kill -$s $PPID; done; echo up");
    rig_read(one.process.stdout_fd, &out, "up");
    rig_wait(&rig, &one);
    CHECK_EQ(one.status.code, 0);
    rig_close_streams(&one);
    rig_stop(&rig);
}

static void die_with_a_program(void)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    alarm(60);
    none_start(&rig);
    none_shell_start(&rig, &one, hiding);
    rig_read(one.process.stdout_fd, &out, "up");
    kill(getpid(), SIGKILL);
}

static void leave_one_behind(void)
{
    pid_t pid;

    fflush(NULL);
    tmp_dir();
    pid = fork();
    if (pid == 0)
        die_with_a_program();
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK(rig_leftovers() > 4);
    clear_folders();
}

TEST(the_next_supervisor_adopts_it_if_that_is_still_allowed)
{
    struct rig rig;
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;

    leave_one_behind();
    none_init(&rig);
    callbacks = rig_callbacks(&rig);
    CHECK_EQ(sandbox_adopt(&rig.sandbox, &rig.loop, &rig.options, "test", rig.runtime_dir,
                           &callbacks, &err),
             0);
    RIG_UNTIL(&rig, rig.told_ready);
    CHECK_STR(rig.error.text, "");
    CHECK_EQ(sandbox_layers(rig.sandbox), 0u);
    rig_stop(&rig);
    CHECK(rig_nothing_left());
}

TEST(one_that_is_not_allowed_any_more_is_not_taken_for_a_sandbox)
{
    struct rig rig;
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;

    leave_one_behind();
    none_init(&rig);
    rig.options.allow_none = false;
    callbacks = rig_callbacks(&rig);
    CHECK_EQ(sandbox_adopt(&rig.sandbox, &rig.loop, &rig.options, "test", rig.runtime_dir,
                           &callbacks, &err),
             0);
    RIG_UNTIL(&rig, rig.told_ready);
    CHECK_EQ(rig.error.code, ERR_UNAVAILABLE);
    rig_close(&rig);
    CHECK(rig_nothing_left());
}

TEST(what_a_dead_supervisor_left_is_ended)
{
    struct error err = ERROR_INIT;

    leave_one_behind();
    CHECK_EQ(sandbox_kill_leftover(tmp_path("runtime"), 5000, &err), 0);
    CHECK(rig_nothing_left());
}
