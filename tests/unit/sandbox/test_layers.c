/* What is in force in real sandboxes, and what Landlock leaves to programs. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "unit/sandbox/rig.h"

#define BIT(layer) (UINT32_C(1) << (layer))

static long landlock_abi(void)
{
    return syscall(444 /* landlock_create_ruleset */, NULL, 0ul, 1u /* its version */);
}

static void need_landlock(void)
{
    if (landlock_abi() < 2)
        test_skip("this kernel has no Landlock that sandboxes use");
}

TEST(a_sandbox_tells_its_layers_while_it_lives)
{
    struct rig rig;
    uint32_t layers;

    rig_start(&rig);
    layers = sandbox_layers(rig.sandbox);
    CHECK(layers & BIT(SANDBOX_LAYER_NETWORK_NAMESPACE));
    CHECK(layers & BIT(SANDBOX_LAYER_SECCOMP));
    CHECK(layers & BIT(SANDBOX_LAYER_NO_CAPABILITIES));
    CHECK_EQ((layers & BIT(SANDBOX_LAYER_OWN_UID)) != 0, geteuid() == 0);
    CHECK_EQ((layers & BIT(SANDBOX_LAYER_LANDLOCK)) != 0, landlock_abi() >= 2);
    sandbox_stop(rig.sandbox);
    RIG_UNTIL(&rig, rig.ended);
    CHECK_EQ(sandbox_layers(rig.sandbox), 0u);
    rig_close(&rig);
}

TEST(what_is_demanded_and_there_changes_nothing)
{
    struct rig rig;

    rig_init(&rig);
    rig.options.required = BIT(SANDBOX_LAYER_SECCOMP) | BIT(SANDBOX_LAYER_PID_NAMESPACE);
    rig_try(&rig);
    CHECK_STR(rig.error.text, "");
    rig_stop(&rig);
}

/* Without a limit in the description there is none for memory. */
TEST(a_sandbox_that_lacks_a_demanded_layer_is_refused_by_name_and_gone)
{
    struct rig rig;

    rig_init(&rig);
    rig.options.required = BIT(SANDBOX_LAYER_SECCOMP) | BIT(SANDBOX_LAYER_MEMORY_LIMIT);
    rig_try(&rig);
    CHECK_EQ(rig.error.code, ERR_DENIED);
    CHECK_HAS(rig.error.text, "memory-limit");
    CHECK(strstr(rig.error.text, "seccomp") == NULL);
    CHECK_EQ(sandbox_layers(rig.sandbox), 0u);
    CHECK(rig_nothing_left());
    CHECK_EQ(sandbox_runtime_remove(rig.runtime_dir, &rig.error), 0);
    rig_close(&rig);
}

/* The next supervisor may demand more than the one that started it. */
TEST(an_adopted_sandbox_that_lacks_a_demanded_layer_is_ended)
{
    struct rig rig;
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;
    pid_t pid;

    fflush(NULL);
    tmp_dir();
    pid = fork();
    if (pid == 0) {
        struct rig dying;

        alarm(60);
        rig_start(&dying);
        kill(getpid(), SIGKILL);
    }
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    tmp_remove_tree(tmp_path("home"));
    tmp_remove_tree(tmp_path("workspace"));
    rig_init(&rig);
    rig.options.required = BIT(SANDBOX_LAYER_MEMORY_LIMIT);
    callbacks = rig_callbacks(&rig);
    CHECK_EQ(sandbox_adopt(&rig.sandbox, &rig.loop, &rig.options, "test", rig.runtime_dir,
                           &callbacks, &err),
             0);
    RIG_UNTIL(&rig, rig.told_ready);
    CHECK_EQ(rig.error.code, ERR_DENIED);
    CHECK(rig_nothing_left());
    rig_close(&rig);
}

/* Landlock ------------------------------------------------------------------------------------- */

/* The mounts would allow it: a process's own files in /proc belong to it. */
TEST(landlock_keeps_programs_from_writing_to_proc)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    need_landlock();
    rig_start(&rig);
    CHECK_EQ(rig_shell(&rig,
                       "for f in comm oom_score_adj coredump_filter; do\n"
                       "  test -w /proc/self/$f || echo BAD mode of $f\n"
                       "  v=$(cat /proc/self/$f); (echo $v >/proc/self/$f) 2>/dev/null && "
                       "echo BAD wrote $f; done\n"
                       "cat /proc/self/comm /proc/sys/kernel/ostype\n",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "cat\nLinux\n");
    rig_stop(&rig);
}

TEST(landlock_leaves_programs_everything_in_their_own_folders)
{
    struct rig rig;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    need_landlock();
    rig_start(&rig);
    CHECK_EQ(rig_shell(&rig,
                       "set -e\n"
                       "for d in /workspace /home/agent /tmp /dev/shm; do cd $d\n"
                       "  mkdir -p a/b c; echo x >a/b/f; mv a/b/f c/f; mv a/b c/b; ln c/f a/g\n"
                       "  ln -s c/f s; cat s; mkfifo p; : >c/f; truncate -s 5 a/g; rm -r a c s p\n"
                       "done\n"
                       "cd /workspace; printf '#!/bin/sh\\necho run\\n' >r; chmod +x r; ./r\n"
                       "echo out >/dev/stdout; echo gone >/dev/null\n"
                       "head -c 4 /dev/urandom | wc -c\n"
                       "ls / >/dev/null; cat </dev/fd/0\n",
                       &out),
             0);
    CHECK_STR(buf_text(&out), "x\nx\nx\nx\nrun\nout\n4\n");
    rig_stop(&rig);
}

TEST(landlock_does_not_break_tools)
{
    static const char *const scripts[] = {
        "gcc: printf 'int main(void){return 3;}' >m.c; gcc -o m m.c; ./m; test $? = 3",
        "make: printf 'all:\\n\\t@echo made\\n' >Makefile; test \"$(make)\" = made",
        "git: git init -q g && cd g && git config user.email a@b && git config user.name a && "
        "echo x >f && git add f && git commit -qm x && git gc -q && "
        "git clone -q . ../h && test -f ../h/f",
        "python3: python3 -c 'import subprocess, tempfile, os, pty, multiprocessing, socket\n"
        "m, s = pty.openpty(); os.write(s, b\"x\"); assert os.read(m, 1) == b\"x\"\n"
        "assert subprocess.check_output([\"true\"]) == b\"\"\n"
        "multiprocessing.Lock()\n"
        "a = socket.socket(socket.AF_UNIX); a.bind(\"\\0name\"); a.listen(1)\n"
        "b = socket.socket(socket.AF_UNIX); b.connect(\"\\0name\")\n"
        "c = socket.socket(socket.AF_UNIX); c.bind(\"/tmp/s\")\n"
        "t = socket.socket(); t.bind((\"127.0.0.1\", 0)); t.listen(1)\n"
        "socket.create_connection(t.getsockname())'",
        "node: node -e 'require(\"fs\").writeFileSync(\"n\", \"x\"); "
        "require(\"child_process\").execFileSync(\"true\")'",
        "npm: mkdir -p npm/pkg && cd npm/pkg && npm init -y >/dev/null && cd .. && npm init -y "
        ">/dev/null && npm install --offline --no-audit --no-fund ./pkg && test -e "
        "node_modules/pkg/package.json && npm pack ./pkg && tar xzf pkg-1.0.0.tgz",
        "script: test \"$(script -qec 'stty -a >/dev/null && echo tty' /dev/null | tr -d '\\r')\" "
        "= tty",
        "perl: perl -e 'fork or exit; wait; kill 0, $$ or die'",
    };
    struct rig rig;

    need_landlock();
    rig_start(&rig);
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        const char *colon = strchr(scripts[i], ':');
        AUTO_BUF struct buf out = BUF_INIT(65536);
        AUTO_FREE char *script = mem_printf("command -v %.*s >/dev/null || exit 0\n%s",
                                            (int)(colon - scripts[i]), scripts[i], colon + 1);
        int code = rig_shell(&rig, script, &out);

        if (code != 0)
            CHECK_STR(buf_text(&out), scripts[i]);
    }
    rig_stop(&rig);
}

/* All programs of one sandbox are one another's equals, however they were started. */
TEST(a_program_may_signal_one_that_was_started_beside_it)
{
    struct rig rig;
    struct rig_process one;
    AUTO_BUF struct buf out = BUF_INIT(65536);

    rig_start(&rig);
    rig_shell_start(&rig, &one, "echo $$; exec sleep 1000");
    rig_read(one.process.stdout_fd, &out, "\n");
    AUTO_FREE char *script = mem_printf("kill -TERM %s", buf_text(&out));
    buf_clear(&out);
    CHECK_EQ(rig_shell(&rig, script, &out), 0);
    CHECK_STR(buf_text(&out), "");
    rig_wait(&rig, &one);
    CHECK_EQ(one.status.signal, SIGTERM);
    rig_close_streams(&one);
    rig_stop(&rig);
}
