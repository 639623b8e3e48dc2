#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "unit/sandbox/rig.h"

/* Tests whose name begins with "user" run a second time as an ordinary user when this program was
 * started by root: see the last test. */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Programs ------------------------------------------------------------------------------------- */

TEST(user_a_program_has_its_streams_and_tells_its_exit_code)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);
    AUTO_BUF struct buf errors = BUF_INIT(65536);
    const char *const argv[] = { "sh", "-c", "id -u; pwd; hostname; echo oops >&2; exit 7", NULL };

    rig_start(&rig);
    rig_spawn(&rig, &one, argv, SANDBOX_HOME, SANDBOX_STDIN_NULL);
    CHECK_STR(one.error.text, "");
    rig_read(one.process.stdout_fd, &out, NULL);
    rig_read(one.process.stderr_fd, &errors, NULL);
    rig_close_streams(&one);
    rig_wait(&rig, &one);
    CHECK_STR(buf_text(&out), "1000\n/home/agent\nsandbox\n");
    CHECK_STR(buf_text(&errors), "oops\n");
    CHECK_EQ(one.status.code, 7);
    CHECK_EQ(one.status.signal, 0);
    rig_stop(&rig);
    CHECK(rig_nothing_left());
}

TEST(an_input_ends_when_all_copies_of_it_are_closed)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);
    const char *const argv[] = { "cat", NULL };

    rig_start(&rig);
    rig_spawn(&rig, &one, argv, "/", SANDBOX_STDIN_PIPE);
    CHECK_STR(one.error.text, "");
    CHECK_EQ(write(one.process.stdin_fd, "to and fro\n", 11), 11);
    rig_read(one.process.stdout_fd, &out, "fro\n");
    fd_close(&one.process.stdin_fd);
    sandbox_end_input(rig.sandbox, one.process.id);
    rig_wait(&rig, &one);
    CHECK_EQ(one.status.code, 0);
    rig_close_streams(&one);
    rig_stop(&rig);
}

TEST(a_program_that_cannot_start_says_why)
{
    struct rig rig;
    struct rig_process one;
    const char *const missing[] = { "no-such-program", NULL };
    const char *const present[] = { "true", NULL };
    const char *const forbidden[] = { "/etc/passwd", NULL };

    rig_start(&rig);
    rig_spawn(&rig, &one, missing, "/", SANDBOX_STDIN_NULL);
    CHECK_EQ(one.error.code, ERR_NOT_FOUND);
    CHECK_HAS(one.error.text, "program");
    rig_spawn(&rig, &one, present, "/no/such/folder", SANDBOX_STDIN_NULL);
    CHECK_EQ(one.error.code, ERR_NOT_FOUND);
    CHECK_HAS(one.error.text, "folder");
    rig_spawn(&rig, &one, forbidden, "/", SANDBOX_STDIN_NULL);
    CHECK_EQ(one.error.code, ERR_DENIED);
    rig_stop(&rig);
}

TEST(too_long_a_command_is_refused_and_a_long_one_passes)
{
    struct rig rig;
    struct rig_process one;
    struct error err = ERROR_INIT;
    char *big = mem_new_zero(1, 200 * 1024);
    const char *const argv[] = { "true", big, NULL };
    struct sandbox_command command = { .argv = argv, .env = rig_env, .cwd = "/" };

    rig_start(&rig);
    memset(big, 'x', 200 * 1024 - 1);
    CHECK_EQ(sandbox_spawn(rig.sandbox, &command, rig_on_spawned, &one, &err), -1);
    CHECK_EQ(err.code, ERR_LIMIT);
    big[120 * 1024] = '\0';
    rig_spawn(&rig, &one, argv, "/", SANDBOX_STDIN_NULL);
    CHECK_STR(one.error.text, "");
    rig_wait(&rig, &one);
    CHECK_EQ(one.status.code, 0);
    rig_close_streams(&one);
    rig_stop(&rig);
    free(big);
}

TEST(a_signal_reaches_the_whole_group_of_a_program)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    rig_shell_start(&rig, &one, "sleep 1000 & echo up; wait");
    rig_read(one.process.stdout_fd, &out, "up");
    sandbox_signal(rig.sandbox, 4711, SIGTERM);
    sandbox_signal(rig.sandbox, one.process.id, SIGTERM);
    rig_wait(&rig, &one);
    CHECK_EQ(one.status.code, -1);
    CHECK_EQ(one.status.signal, SIGTERM);
    /* The stream ends only when sleep, which holds it too, is gone. */
    rig_read(one.process.stdout_fd, &out, NULL);
    rig_close_streams(&one);
    rig_wait(&rig, &one); /* it is kept */
    CHECK_EQ(one.status.signal, SIGTERM);
    sandbox_forget(rig.sandbox, one.process.id);
    rig_wait(&rig, &one);
    CHECK_EQ(one.error.code, ERR_NOT_FOUND);
    rig_stop(&rig);
}

TEST(more_programs_than_places_one_after_the_other)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);
    const char *const argv[] = { "true", NULL };
    struct rig_process one;

    rig_start(&rig);
    for (int i = 0; i < 300; i++) { /* none of them is waited for */
        rig_spawn(&rig, &one, argv, "/", SANDBOX_STDIN_NULL);
        if (one.error.code == ERR_LIMIT)
            i--; /* the oldest have not ended yet */
        rig_close_streams(&one);
    }
    CHECK_EQ(rig_shell(&rig, "echo fine", &out), 0);
    CHECK_STR(buf_text(&out), "fine\n");
    rig_stop(&rig);
}

/* Sockets -------------------------------------------------------------------------------------- */

struct got_fd {
    int fd;
    bool told;
    struct error error;
};

static void on_fd(void *data, int fd, const struct error *err)
{
    struct got_fd *got = data;

    got->told = true;
    got->fd = fd;
    if (err)
        got->error = *err;
}

static int get_listener(struct rig *rig, uint16_t port)
{
    struct got_fd got = { .fd = -1 };
    struct error err = ERROR_INIT;

    CHECK_EQ(sandbox_listen(rig->sandbox, port, on_fd, &got, &err), 0);
    RIG_UNTIL(rig, got.told);
    CHECK_STR(got.error.text, "");
    CHECK(got.fd >= 0);
    CHECK(fcntl(got.fd, F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(got.fd, F_GETFD) & FD_CLOEXEC);
    return got.fd;
}

static int await_client(int listener)
{
    struct pollfd state = { .fd = listener, .events = POLLIN };

    CHECK_EQ(poll(&state, 1, 20000), 1);
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

TEST(user_what_listens_inside_is_accepted_outside)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);
    char line[6];
    int listener;
    int again;
    int client;

    rig_start(&rig);
    listener = get_listener(&rig, 3128);
    again = get_listener(&rig, 3128);
    close(listener);
    rig_shell_start(&rig, &one,
                    "exec 3<>/dev/tcp/127.0.0.1/3128; echo hello >&3; read x <&3; echo \"got $x\"");
    client = await_client(again);
    CHECK_EQ(recv(client, line, 6, MSG_WAITALL), 6);
    CHECK(memcmp(line, "hello\n", 6) == 0);
    CHECK_EQ(write(client, "you\n", 4), 4);
    rig_read(one.process.stdout_fd, &out, NULL);
    CHECK_STR(buf_text(&out), "got you\n");
    rig_wait(&rig, &one);
    close(client);
    close(again);
    rig_close_streams(&one);
    rig_stop(&rig);
}

TEST(user_a_connection_reaches_a_port_inside)
{
    struct rig rig;
    struct got_fd got = { .fd = -1 };
    struct error err = ERROR_INIT;
    char byte;
    int listener;
    int client;

    rig_start(&rig);
    CHECK_EQ(sandbox_connect(rig.sandbox, 4096, on_fd, &got, &err), 0);
    RIG_UNTIL(&rig, got.told);
    CHECK_EQ(got.fd, -1);
    CHECK_EQ(got.error.code, ERR_UNAVAILABLE); /* nobody listens */

    got = (struct got_fd){ .fd = -1 };
    listener = get_listener(&rig, 4096);
    CHECK_EQ(sandbox_connect(rig.sandbox, 4096, on_fd, &got, &err), 0);
    RIG_UNTIL(&rig, got.told);
    CHECK_STR(got.error.text, "");
    client = await_client(listener);
    CHECK_EQ(write(client, "!", 1), 1);
    CHECK_EQ(poll(&(struct pollfd){ .fd = got.fd, .events = POLLIN }, 1, 5000), 1);
    CHECK_EQ(read(got.fd, &byte, 1), 1);
    close(client);
    close(listener);
    close(got.fd);
    rig_stop(&rig);
}

/* Isolation ------------------------------------------------------------------------------------ */

TEST(user_nothing_of_the_host_is_seen_and_nothing_is_writable_but_its_own)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);
    const char *canary = tmp_file("canary", "canary", 6, 0666);
    AUTO_FREE char *script = NULL;

    rig_start(&rig);
    script = mem_printf(
        "bad() { echo \"BAD: $*\"; }\n"
        "test -e '%s' && bad canary\n"
        "ls '%s' >/dev/null 2>&1 && bad parent\n"
        "test -e '%s' && bad runtime folder\n"
        "ls /root >/dev/null 2>&1 && bad root\n"
        "test \"$(ls /home)\" = agent || bad homes\n"
        "for f in /etc/shadow /var/lib /sys/kernel /dev/vda /dev/mem /dev/kmsg "
        "/run/user /etc/ssh; do\n"
        "  test -e $f && bad $f; done\n"
        "for f in /x /etc/x /usr/x /usr/bin/x /dev/x /home/x /run/x /run/sandbox-init; do\n"
        "  (echo x >$f) 2>/dev/null && bad wrote $f; done\n"
        "rm -f /run/sandbox-init 2>/dev/null; test -e /run/sandbox-init || bad removed init\n"
        "for f in /workspace/x /home/agent/x /tmp/x /var/tmp/y /dev/shm/x; do\n"
        "  echo x >$f || bad not writable $f; done\n"
        "test -r /etc/passwd && test \"$(id -un)\" = agent || bad no name\n"
        "find / -xdev -name '*.sock' 2>/dev/null | grep -q . && bad sockets\n"
        "true\n",
        canary, tmp_dir(), rig.runtime_dir);
    CHECK_EQ(rig_shell(&rig, script, &out), 0);
    CHECK_STR(buf_text(&out), "");
    rig_stop(&rig);
}

/* The value written is the value read, so that a hole would change nothing. */
TEST(user_the_kernel_is_out_of_reach)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    CHECK_EQ(rig_shell(&rig,
                       "bad() { echo \"BAD: $*\"; }\n"
                       "for f in core_pattern panic; do v=$(cat /proc/sys/kernel/$f)\n"
                       "  (echo \"$v\" >/proc/sys/kernel/$f) 2>/dev/null && bad wrote $f; done\n"
                       "unshare -U true 2>/dev/null && bad user namespace\n"
                       "unshare -n true 2>/dev/null && bad network namespace\n"
                       "mount -t tmpfs x /tmp 2>/dev/null && bad mount\n"
                       "(: </dev/tty) 2>/dev/null && bad terminal\n"
                       "grep -q '^Seccomp:.2' /proc/self/status || bad seccomp\n"
                       "grep -q '^NoNewPrivs:.1' /proc/self/status || bad nnp\n"
                       "for c in CapInh CapPrm CapEff CapBnd CapAmb; do\n"
                       "  grep -q \"^$c:.0000000000000000\" /proc/self/status || bad $c; done\n"
                       "test \"$(grep -c : /proc/net/dev)\" = 1 || bad interfaces\n"
                       "(exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null && bad network\n"
                       "(exec 3<>/dev/udp/10.0.0.1/53) 2>/dev/null && bad datagrams\n"
                       "true\n",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "");
    rig_stop(&rig);
}

#ifdef __x86_64__
/* Calls by number, with the error that they must give. */
TEST(user_refused_calls_fail_as_meant)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    CHECK_EQ(
        rig_shell(
            &rig,
            "exec perl -e '\n"
            "sub call { my ($name, $want, $number, @rest) = @_; $! = 0;\n"
            "  my $rc = syscall($number, @rest); my $got = $! + 0;\n"
            "  print \"BAD $name: $rc, $got\\n\" unless $rc == -1 && $got == $want; }\n"
            /* A terminal of its own: without one the kernel refuses by itself. */
            "$SIG{HUP} = \"IGNORE\"; my $x = \"x\" x 512; my $n = pack(\"i\", 0);\n"
            "open(my $master, \"+<\", \"/dev/ptmx\") or print \"BAD ptmx\\n\";\n"
            "ioctl($master, 0x40045431, $n); ioctl($master, 0x80045430, $n);\n"
            "open(my $tty, \"+<\", \"/dev/pts/\" . unpack(\"i\", $n)) or print \"BAD pts\\n\";\n"
            "call(\"TIOCSTI\", 1, 16, fileno($tty), 0x5412, $x);\n"
            "call(\"TIOCSTI, upper half set\", 1, 16, fileno($tty), 0x100005412, $x);\n"
            "call(\"TIOCLINUX\", 1, 16, fileno($tty), 0x541c, $x);\n"
            "call(\"vsock\", 97, 41, 40, 1, 0);\n"
            "call(\"vsock, upper half set\", 97, 41, 0x100000028, 1, 0);\n"
            "call(\"inet, upper half set\", 97, 41, 0x100000002, 3, 1);\n"
            "call(\"packet\", 97, 41, 17, 3, 0);\n"
            "call(\"alg\", 97, 41, 38, 5, 0);\n"
            "call(\"raw\", 1, 41, 2, 3, 6);\n"
            "call(\"raw6, with flags\", 1, 41, 10, 3 | 0x80000, 17);\n"
            "call(\"netlink uevent\", 1, 41, 16, 3, 15);\n"
            "call(\"netlink audit\", 1, 41, 16, 3, 9);\n"
            "call(\"sctp\", 93, 41, 2, 1, 132);\n"
            "call(\"sctp, without a name\", 1, 41, 10, 5, 0);\n"
            "call(\"mptcp\", 93, 41, 2, 1, 262);\n"
            "call(\"ping\", 1, 41, 2, 2, 1);\n"
            "call(\"raw of an own protocol\", 1, 41, 2, 3, 255);\n"
            "call(\"dccp\", 1, 41, 2, 6, 0);\n"
            "call(\"packet of old\", 1, 41, 2, 10, 0);\n"
            "call(\"udp, upper half set\", 93, 41, 2, 2, 0x100000011);\n"
            "call(\"a pair of tipc\", 97, 53, 30, 1, 0, $x);\n"
            "call(\"line discipline\", 1, 16, fileno($tty), 0x5423, $n);\n"
            "call(\"prlimit on init\", 1, 302, 1, 7, $x, 0);\n"
            "for my $kind ([2, 1, 6], [2, 2, 17], [10, 1 | 0x80800, 0], [10, 2, 17], [1, 5, 0], "
            "[16, 3, 0]) {\n"
            "  print \"BAD socket @$kind\\n\" if syscall(41, @$kind) < 0; }\n"
            "call(\"clone of a user namespace\", 1, 56, 0x10000011, 0, 0, 0, 0);\n"
            "call(\"clone, upper half set\", 1, 56, 0x110000011, 0, 0, 0, 0);\n"
            "call(\"clone3\", 38, 435, $x, 88);\n"
            "call(\"ptrace\", 1, 101, 16, 1, 0, 0);\n"
            "call(\"process_vm_readv\", 1, 310, 1, $x, 1, $x, 1, 0);\n"
            "call(\"keyctl\", 1, 250, 0, -3, 0);\n"
            "call(\"io_uring_setup\", 1, 425, 8, $x);\n"
            "call(\"bpf\", 1, 321, 0, $x, 64);\n"
            "call(\"userfaultfd\", 1, 323, 0);\n"
            "call(\"personality\", 1, 135, 0x40000);\n"
            "call(\"open_tree_attr\", 38, 467, -100, $x, 0, $x, 0);\n"
            "call(\"a call of the future\", 38, 480, 0);\n"
            "'",
            &out),
        0);
    CHECK_STR(buf_text(&out), "");
    rig_stop(&rig);
}
#endif

#ifdef __x86_64__
/* By the numbers of another architecture the filter would be passed, so whoever tries is killed. */
TEST(calls_of_other_architectures_end_their_caller)
{
    static const char *const calls[] = {
        "exec perl -e 'syscall(0x40000000 + 39); print \"BAD\"'",
        "command -v gcc >/dev/null || kill -SYS $$\n"
        "printf 'int main(void){int r;__asm__ volatile(\"int $0x80\":\"=a\"(r):\"a\"(20));"
        "return 0;}' >c.c\ngcc -o c c.c && exec ./c",
    };
    struct rig rig;

    rig_start(&rig);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        AUTO_BUF struct buf out = BUF_INIT(65536);
        struct rig_process one;

        rig_shell_start(&rig, &one, calls[i]);
        rig_read(one.process.stdout_fd, &out, NULL);
        rig_close_streams(&one);
        rig_wait(&rig, &one);
        CHECK_STR(buf_text(&out), "");
        CHECK_EQ(one.status.signal, SIGSYS);
    }
    rig_stop(&rig);
}
#endif

TEST(user_the_hosts_own_affairs_in_proc_are_covered)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    CHECK_EQ(rig_shell(&rig,
                       "for f in cmdline interrupts kallsyms kcore key-users keys modules "
                       "timer_list vmallocinfo; do\n"
                       "  test -e /proc/$f || continue\n"
                       "  test -z \"$(head -c 100 /proc/$f 2>/dev/null | tr -d '\\0')\" || "
                       "echo BAD $f; done\n"
                       "for f in cpuinfo meminfo loadavg stat uptime version self/cmdline; do\n"
                       "  test -n \"$(head -c 100 /proc/$f | tr '\\0' x)\" || echo BAD $f; done\n",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "");
    rig_stop(&rig);
}

/* What the supervisor has open could be reached through init, and its terminal be written to. */
TEST(init_has_nothing_of_the_supervisors_open)
{
    struct rig rig;
    struct dirent *entry;
    DIR *dir;

    if (geteuid() != 0)
        test_skip("only root sees init's descriptors");
    rig_start(&rig);
    AUTO_FREE char *path = mem_printf("/proc/%d/fd", (int)sandbox_init_pid(rig.sandbox));
    dir = opendir(path);
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        char target[4096] = "";

        if (entry->d_name[0] == '.' ||
            readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) < 0)
            continue;
        if (!str_equal(target, "/dev/null") && !str_starts(target, "socket:[") &&
            !str_equal(target, "anon_inode:[signalfd]") &&
            !str_equal(target, "anon_inode:[timerfd]") && !str_ends(target, "/runtime/lock"))
            CHECK_STR(target, "nothing else");
    }
    closedir(dir);
    rig_stop(&rig);
}

TEST(user_init_cannot_be_looked_into_and_hands_nothing_down)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    CHECK_EQ(
        rig_shell(
            &rig,
            "bad() { echo \"BAD: $*\"; }\n"
            "cat /proc/1/environ 2>/dev/null && bad environ\n"
            "ls /proc/1/fd >/dev/null 2>&1 && bad fds\n"
            "(: </proc/1/mem) 2>/dev/null && bad mem\n"
            "ls /proc/1/root/ >/dev/null 2>&1 && bad root\n"
            "for s in KILL STOP TERM HUP USR1 34; do kill -$s 1; done\n"
            "test \"$(cd /proc/self/fd; echo *)\" = '0 1 2 3' || bad fds $(ls -l /proc/self/fd)\n"
            "test \"$(env | grep -v '^_=\\|^PWD=\\|^SHLVL=' | sort | tr '\\n' ' ')\" = "
            "'GIVEN=yes HOME=/home/agent PATH=/usr/local/bin:/usr/bin:/bin ' || bad env $(env)\n"
            "test \"$(ulimit -c)\" = 0 || bad core\n"
            "test \"$(ulimit -Hn)\" = 256 || bad files $(ulimit -Hn)\n"
            "test \"$(ulimit -Hu)\" = 300 || bad processes $(ulimit -Hu)\n"
            "grep -q '^SigBlk:.0*$' /proc/self/status || bad blocked\n"
            "grep -q '^SigIgn:.0*$' /proc/self/status || bad ignored\n"
            "true\n",
            &out),
        0);
    CHECK_STR(buf_text(&out), "");
    rig_stop(&rig);
}

TEST(files_folders_and_sizes_are_as_the_description_says)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_init(&rig);
    rig.spec.limits.tmp_bytes = 1 << 20;
    rig.spec.limits.file_size_bytes = 4 << 20;
    sandbox_spec_add_file(&rig.spec, "/etc/gitconfig", "[user]\n", 7, 0444);
    sandbox_spec_add_file(&rig.spec, "/etc/hosts", "own\n", 4, 0444);
    sandbox_spec_add_frozen_dir(&rig.spec, "/run/agent-config/tool");
    sandbox_spec_add_file(&rig.spec, "/run/agent-config/tool/a.json", "{}", 2, 0444);
    sandbox_spec_add_mount(&rig.spec, tmp_file("program", "#!/bin/sh\necho ran\n", 18, 0755),
                           "/opt/program", SANDBOX_READ_ONLY);
    CHECK_EQ(chmod(tmp_path("program"), 0755), 0);
    rig_try(&rig);
    CHECK_STR(rig.error.text, "");
    CHECK_EQ(rig_shell(&rig,
                       "cat /etc/gitconfig /etc/hosts /run/agent-config/tool/a.json; echo\n"
                       "(echo x >/run/agent-config/tool/b) 2>/dev/null && echo BAD frozen\n"
                       "mv /run/agent-config/tool /tmp/ 2>/dev/null && echo BAD moved\n"
                       "dd if=/dev/zero of=/tmp/big bs=64k count=64 2>/dev/null && echo BAD tmp\n"
                       "(dd if=/dev/zero of=/workspace/big bs=1M count=8; test $? = 0 && echo BAD "
                       "size) 2>/dev/null\n"
                       "/opt/program; (echo x >>/opt/program) 2>/dev/null && echo BAD program\n"
                       "true\n",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "[user]\nown\n{}\nran\n");
    rig_stop(&rig);
}

TEST(what_is_in_force_is_described)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(4096);
    AUTO_FREE char *uid = mem_printf("uid %u on the host", rig_uid());

    rig_start(&rig);
    sandbox_describe(rig.sandbox, &out);
    CHECK_HAS(buf_text(&out), "user-namespace, pid-namespace, network-namespace, ipc-namespace");
    CHECK_HAS(buf_text(&out), "seccomp");
    CHECK_HAS(buf_text(&out), "no-capabilities");
    CHECK_HAS(buf_text(&out), uid);
    rig_stop(&rig);
}

/* The end -------------------------------------------------------------------------------------- */

TEST(user_a_stop_ends_a_hundred_programs_and_daemons)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    rig_shell_start(&rig, &one,
                    "for i in $(seq 100); do sleep 1000 & done\n"
                    "(trap '' TERM HUP INT; setsid setsid sleep 1000) >/dev/null 2>&1 &\n"
                    "(setsid nohup sh -c 'while :; do sleep 1; done' >/dev/null 2>&1 &)\n"
                    "echo up; wait");
    rig_read(one.process.stdout_fd, &out, "up");
    CHECK(rig_leftovers() > 100);
    rig_close_streams(&one);
    sandbox_stop(rig.sandbox);
    RIG_UNTIL(&rig, rig.ended);
    CHECK_EQ(rig_leftovers(), 0);
    CHECK_EQ(rig.end.kind, SANDBOX_END_STOPPED);
    CHECK_EQ(sandbox_runtime_remove(rig.runtime_dir, &rig.error), 0);
    rig_close(&rig);
}

TEST(an_init_that_is_killed_is_a_loss_and_open_questions_are_answered_first)
{
    struct rig rig;
    struct rig_process one;
    struct rig_process late = { .spawned = false };
    struct error err = ERROR_INIT;
    const char *const argv[] = { "true", NULL };
    struct sandbox_command command = { .argv = argv, .env = rig_env, .cwd = "/" };

    rig_start(&rig);
    rig_shell_start(&rig, &one, "sleep 1000");
    CHECK_EQ(sandbox_wait(rig.sandbox, one.process.id, rig_on_exited, &one, &err), 0);
    CHECK_EQ(kill((pid_t)sandbox_init_pid(rig.sandbox), SIGKILL), 0);
    RIG_UNTIL(&rig, rig.ended);
    CHECK(one.exited);
    CHECK_EQ(one.error.code, ERR_UNAVAILABLE);
    CHECK_EQ(rig.end.kind, SANDBOX_END_LOST);
    CHECK_EQ(sandbox_spawn(rig.sandbox, &command, rig_on_spawned, &late, &err), -1);
    CHECK_EQ(err.code, ERR_UNAVAILABLE);
    CHECK(rig_nothing_left());
    rig_close_streams(&one);
    rig_close(&rig);
}

TEST(open_questions_are_cancelled_by_a_close_but_not_from_inside_it)
{
    struct rig rig;
    struct rig_process one;
    struct error err = ERROR_INIT;

    rig_start(&rig);
    rig_shell_start(&rig, &one, "sleep 1000");
    CHECK_EQ(sandbox_wait(rig.sandbox, one.process.id, rig_on_exited, &one, &err), 0);
    sandbox_close(rig.sandbox, rig_on_closed, &rig);
    CHECK(!one.exited);
    RIG_UNTIL(&rig, rig.closed);
    CHECK(one.exited);
    CHECK_EQ(one.error.code, ERR_CANCELLED);
    CHECK(!rig.ended);
    rig.sandbox = NULL;
    rig_close_streams(&one);
    CHECK_EQ(sandbox_runtime_remove(rig.runtime_dir, &err), -1); /* it lives on */
    CHECK_EQ(err.code, ERR_CONFLICT);
    CHECK(rig_leftovers() > 0);
    CHECK_EQ(sandbox_kill_leftover(rig.runtime_dir, 5000, &err), 0);
    CHECK(rig_nothing_left());
    rig_close(&rig);
}

TEST(a_stop_while_it_starts_cancels_the_start)
{
    struct rig rig;
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;

    rig_init(&rig);
    callbacks = rig_callbacks(&rig);
    CHECK_EQ(sandbox_start(&rig.sandbox, &rig.loop, &rig.options, &rig.spec, &callbacks, &err), 0);
    sandbox_stop(rig.sandbox);
    CHECK(!rig.told_ready);
    RIG_UNTIL(&rig, rig.told_ready);
    CHECK_EQ(rig.error.code, ERR_CANCELLED);
    CHECK(rig_nothing_left());
    rig_close(&rig);
    CHECK(!rig.ended);
}

TEST(a_close_while_it_starts_leaves_nothing)
{
    struct rig rig;
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;
    AUTO_FREE char *dir = NULL;

    for (unsigned wait_ms = 0; wait_ms < 20; wait_ms += 3) {
        rig_init(&rig);
        callbacks = rig_callbacks(&rig);
        CHECK_EQ(sandbox_start(&rig.sandbox, &rig.loop, &rig.options, &rig.spec, &callbacks, &err),
                 0);
        poll(NULL, 0, (int)wait_ms); /* the tool comes to different points */
        free(dir);
        dir = mem_strdup(rig.runtime_dir);
        rig_close(&rig);
        CHECK(!rig.told_ready);
        CHECK_EQ(sandbox_kill_leftover(dir, 5000, &err), 0);
        CHECK(rig_nothing_left());
        CHECK_EQ(sandbox_runtime_remove(dir, &err), 0);
        tmp_remove_tree(tmp_path("workspace"));
        tmp_remove_tree(tmp_path("home"));
    }
}

/* Starts that fail ----------------------------------------------------------------------------- */

static void fake_tool(struct rig *rig, const char *script)
{
    AUTO_FREE char *text = mem_printf("#!/bin/sh\n%s\n", script);
    const char *path = tmp_file("bwrap", text, strlen(text), 0755);

    /* The sandbox's uid must be able to run it. */
    CHECK_EQ(chmod(tmp_dir(), 0711), 0);
    CHECK_EQ(chmod(path, 0755), 0);
    rig->options.bwrap = path;
}

TEST(a_missing_tool_is_told_with_what_to_install)
{
    struct rig rig;

    rig_init(&rig);
    rig.options.bwrap = "no-such-bwrap";
    rig_try(&rig);
    CHECK_EQ(rig.error.code, ERR_UNAVAILABLE);
    CHECK_STR(rig.error.text, "bubblewrap (bwrap) is not installed: apt install bubblewrap");
    rig_close(&rig);
}

TEST(user_a_tool_that_hangs_is_ended_in_time_with_all_that_it_started)
{
    struct rig rig;
    uint64_t begun;

    rig_init(&rig);
    fake_tool(&rig,
              "echo waiting >&2; setsid sleep 1000 & setsid setsid sleep 1000 & exec sleep 1000");
    rig.options.start_timeout_ms = 300;
    begun = now_ms();
    rig_try(&rig);
    CHECK_EQ(rig.error.code, ERR_TIMEOUT);
    CHECK_HAS(rig.error.text, "300 ms: waiting");
    CHECK(now_ms() - begun < 5000);
    CHECK(rig_nothing_left());
    rig_close(&rig);
}

TEST(a_machine_that_forbids_sandboxes_is_told_with_what_to_enable)
{
    struct rig rig;

    rig_init(&rig);
    fake_tool(&rig, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1");
    rig_try(&rig);
    CHECK_EQ(rig.error.code, ERR_UNAVAILABLE);
    CHECK_HAS(rig.error.text, "sysctl");
    CHECK_HAS(rig.error.text, "setting up uid map");
    rig_close(&rig);
}

TEST(what_the_tool_says_is_passed_on_escaped)
{
    struct rig rig;

    rig_init(&rig);
    fake_tool(&rig, "printf 'first\\nbwrap: \\033[31mred\\n' >&2; exit 3");
    rig_try(&rig);
    CHECK_EQ(rig.error.code, ERR_UNAVAILABLE);
    CHECK_HAS(rig.error.text, "bwrap: \\x1b[31mred");
    rig_close(&rig);
    CHECK(rig_nothing_left());
}

TEST(a_tool_of_another_kind_that_says_nothing)
{
    struct rig rig;

    rig_init(&rig);
    rig.options.bwrap = "true";
    rig_try(&rig);
    CHECK_EQ(rig.error.code, ERR_UNAVAILABLE);
    CHECK_HAS(rig.error.text, "code 0");
    rig_close(&rig);
}

static void expect_refusal(struct rig *rig, enum error_code code)
{
    struct sandbox_callbacks callbacks = rig_callbacks(rig);
    struct error err = ERROR_INIT;

    CHECK_EQ(sandbox_start(&rig->sandbox, &rig->loop, &rig->options, &rig->spec, &callbacks, &err),
             -1);
    CHECK_EQ(err.code, code);
    rig->sandbox = NULL;
    CHECK(!rig->told_ready);
    rig_close(rig);
    CHECK(rig_nothing_left());
}

TEST(the_hosts_uid_0_is_refused)
{
    struct rig rig;

    rig_init(&rig);
    rig.spec.host_uid = 0;
    expect_refusal(&rig, ERR_DENIED);
}

TEST(user_only_root_may_ask_for_another_uid)
{
    struct rig rig;

    if (geteuid() == 0)
        test_skip("root may");
    rig_init(&rig);
    rig.spec.host_uid = geteuid() + 1;
    expect_refusal(&rig, ERR_DENIED);
}

TEST(a_source_that_is_missing_is_refused)
{
    struct rig rig;

    rig_init(&rig);
    sandbox_spec_add_mount(&rig.spec, tmp_path("missing"), "/opt/x", SANDBOX_READ_ONLY);
    expect_refusal(&rig, ERR_SYSTEM);
}

TEST(a_writable_source_that_is_a_link_is_refused)
{
    struct rig rig;

    rig_init(&rig);
    CHECK_EQ(symlink("/", tmp_path("link")), 0);
    sandbox_spec_add_mount(&rig.spec, tmp_path("link"), "/mnt", SANDBOX_READ_WRITE);
    expect_refusal(&rig, ERR_INVALID);
}

TEST(a_runtime_folder_holds_one_sandbox)
{
    struct rig rig;
    struct sandbox *second = NULL;
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;

    rig_start(&rig);
    callbacks = rig_callbacks(&rig);
    CHECK_EQ(sandbox_start(&second, &rig.loop, &rig.options, &rig.spec, &callbacks, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    rig_stop(&rig);
}

/* A supervisor that dies ----------------------------------------------------------------------- */

/* Runs in a process of its own, which starts a sandbox and a program in it, tells the program's id
 * through FD, and is killed. */
static void be_a_supervisor_that_dies(int fd, const char *script)
{
    struct rig rig;
    struct rig_process one;

    alarm(60);
    rig_start(&rig);
    rig_shell_start(&rig, &one, script);
    if (write(fd, &one.process.id, sizeof(uint32_t)) == (ssize_t)sizeof(uint32_t))
        kill(getpid(), SIGKILL);
    _exit(1);
}

static uint32_t supervise_and_die(const char *script)
{
    uint32_t id = 0;
    int ends[2];
    int status;
    pid_t pid;

    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    tmp_dir(); /* it is the parent's and stays */
    pid = fork();
    if (pid == 0)
        be_a_supervisor_that_dies(ends[1], script);
    close(ends[1]);
    CHECK_EQ(read(ends[0], &id, sizeof(id)), (ssize_t)sizeof(id));
    close(ends[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    return id;
}

static void rig_adopt(struct rig *rig)
{
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;

    tmp_remove_tree(tmp_path("home"));
    CHECK_EQ(rename(tmp_path("workspace"), tmp_path("kept")), 0);
    rig_init(rig);
    callbacks = rig_callbacks(rig);
    if (sandbox_adopt(&rig->sandbox, &rig->loop, &rig->options, "test", rig->runtime_dir,
                      &callbacks, &err) < 0)
        CHECK_STR(err.text, "");
    RIG_UNTIL(rig, rig->told_ready);
    CHECK_STR(rig->error.text, "");
}

TEST(user_a_sandbox_outlives_its_supervisor_and_obeys_the_next)
{
    struct rig rig;
    struct rig_process one = { .process = { 0, -1, -1, -1 } };
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf out = BUF_INIT(1 << 20);
    AUTO_FREE char *go = NULL;
    int fd;
    uint32_t id = supervise_and_die("while [ ! -e go ]; do echo tick; sleep 0.02; done\n"
                                    "echo over; exit 5");

    poll(NULL, 0, 100); /* it goes on without a reader */
    rig_adopt(&rig);
    CHECK_EQ(sandbox_attach(rig.sandbox, id, rig_on_spawned, &one, &err), 0);
    RIG_UNTIL(&rig, one.spawned);
    CHECK_STR(one.error.text, "");
    CHECK_EQ(one.process.id, id);
    rig_read(one.process.stdout_fd, &out, "tick");
    go = mem_printf("%s/go", tmp_path("kept"));
    fd = open(go, O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0);
    close(fd);
    rig_read(one.process.stdout_fd, &out, NULL);
    CHECK_HAS(buf_text(&out), "over");
    rig_wait(&rig, &one);
    CHECK_STR(one.error.text, "");
    CHECK_EQ(one.status.code, 5);
    rig_close_streams(&one);
    rig_stop(&rig);
    CHECK(rig_nothing_left());
}

TEST(user_an_exit_status_waits_for_the_next_supervisor)
{
    struct rig rig;
    struct rig_process one = { .process = { supervise_and_die("echo last words; exit 9"), -1, -1,
                                            -1 } };
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf out = BUF_INIT(65536);
    uint32_t id = one.process.id;

    rig_adopt(&rig);
    CHECK_EQ(sandbox_attach(rig.sandbox, id, rig_on_spawned, &one, &err), 0);
    RIG_UNTIL(&rig, one.spawned);
    rig_read(one.process.stdout_fd, &out, NULL);
    CHECK_STR(buf_text(&out), "last words\n");
    rig_wait(&rig, &one);
    CHECK_EQ(one.status.code, 9);
    one.spawned = false;
    rig_close_streams(&one);
    sandbox_forget(rig.sandbox, id);
    CHECK_EQ(sandbox_attach(rig.sandbox, id, rig_on_spawned, &one, &err), 0);
    RIG_UNTIL(&rig, one.spawned);
    CHECK_EQ(one.error.code, ERR_NOT_FOUND);
    rig_stop(&rig);
}

TEST(user_a_leftover_is_killed_without_a_loop)
{
    struct rig rig;
    struct error err = ERROR_INIT;
    struct sandbox_callbacks callbacks;

    supervise_and_die("for i in $(seq 20); do setsid sleep 1000 & done; wait");
    CHECK(rig_leftovers() > 0);
    CHECK_EQ(sandbox_kill_leftover(tmp_path("runtime"), 5000, &err), 0);
    CHECK(rig_nothing_left());
    CHECK_EQ(sandbox_kill_leftover(tmp_path("runtime"), 5000, &err), 0);
    CHECK_EQ(sandbox_kill_leftover(tmp_path("nowhere"), 5000, &err), 0);
    tmp_remove_tree(tmp_path("home"));
    tmp_remove_tree(tmp_path("workspace"));
    rig_init(&rig);
    callbacks = rig_callbacks(&rig);
    CHECK_EQ(sandbox_adopt(&rig.sandbox, &rig.loop, &rig.options, "test", rig.runtime_dir,
                           &callbacks, &err),
             -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    rig.sandbox = NULL;
    CHECK_EQ(sandbox_runtime_remove(rig.runtime_dir, &err), 0);
    CHECK(access(rig.runtime_dir, F_OK) < 0);
    rig_close(&rig);
}

TEST(user_a_leftover_whose_init_does_not_answer_is_killed)
{
    struct error err = ERROR_INIT;
    int status;
    pid_t pid;

    fflush(NULL);
    tmp_dir();
    pid = fork();
    if (pid == 0) { /* a supervisor that dies while its tool hangs */
        struct rig rig;
        struct sandbox_callbacks callbacks;

        alarm(60);
        rig_init(&rig);
        callbacks = rig_callbacks(&rig);
        fake_tool(&rig, "setsid sleep 1000 & exec sleep 1000");
        sandbox_start(&rig.sandbox, &rig.loop, &rig.options, &rig.spec, &callbacks, &err);
        kill(getpid(), SIGKILL);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(rig_leftovers() > 0);
    CHECK_EQ(sandbox_kill_leftover(tmp_path("runtime"), 5000, &err), 0);
    CHECK(rig_nothing_left());
}

/* The same again ------------------------------------------------------------------------------- */

TEST(what_an_ordinary_user_can_do)
{
    rig_run_as_user();
}
