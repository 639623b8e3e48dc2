// What a run may leave behind, against everything that the supervisor does with it: evidence, diff, the next run of the session,
// a restart, removal. Whatever it is: nothing of it runs outside a sandbox, nothing of the host gets into what is shown, the
// supervisor answers all the time, and what it says is true.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { long, must, withLab } from './lab.mjs';

const canary = 'canary-of-the-host';

// Commands for the places where git would run one.
const commands = ran => `
    printf '#!/bin/sh\\ntouch ${ran}\\nexec cat\\n' >.git/ran.sh; chmod +x .git/ran.sh
    ran="$PWD/.git/ran.sh"`;

// Each: a name, a script (sh, in the work folder of a session made from a repository), and what is true afterwards if it is not the
// usual: the verdict, how the next run of the session ends, and what the diff must show.
const cases = ({ ran, outside, other }) => [
    ['links that lead out', `
        ln -s /etc/shadow report.txt; ln -s / root-link; ln -s ../../../../.. up; ln -s ${outside} outside
        ln -sf /etc/shadow src/range.c; ln -s ${outside}/kept.txt kept.txt; ln -s loop loop`],
    ['a tracked folder that became a link', `rm -rf src; ln -s ${outside} src; ln -s /etc tests-link`],
    ['hard links', 'ln src/range.c hard.c; ln /usr/bin/env env 2>/dev/null; ln /etc/passwd passwd 2>/dev/null; true'],
    ['pipes and sockets in the place of files', `
        rm src/range.c; mkfifo src/range.c result.json; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "socket", Listen => 1)'`, { verdict: ['unknown'] }],
    // git waits for what will never be written, until its time is over.
    ...long ? [['a pipe in the place of .gitignore', 'mkfifo .gitignore; echo changed >>src/range.c', { verdict: ['unknown'] }],
        ['a pipe in the place of HEAD', 'rm .git/HEAD; mkfifo .git/HEAD', { verdict: ['unknown'] }]] : [],
    ['names that look like options, or like nothing', `
        touch -- -rf --help '--upload-pack=touch ran' "$(printf 'new\\nline')" "$(printf 'esc\\033[2Jape')" "$(printf 'not-utf8-\\377\\376')" '"quote"' '\\' ' '`],
    ['folders without permissions', `
        mkdir -p locked/in/side read/only; echo a >locked/in/side/file; echo a >read/only/file; chmod 000 locked/in/side/file locked/in locked
        chmod 555 read/only read; mkdir ~/locked; chmod 000 ~/locked`],
    ['settings of git that run commands', `${commands(ran)}
        for name in core.fsmonitor core.sshCommand core.pager core.editor core.askPass core.gitProxy diff.external diff.all.textconv diff.all.command \\
            filter.all.clean filter.all.smudge filter.all.process merge.all.driver credential.helper gpg.program sequence.editor \\
            uploadpack.packObjectsHook receive.procReceiveRefs; do git config $name "$ran"; done
        git config --unset filter.all.process; git config alias.diff "!$ran"; git config alias.add "!$ran"; git config core.hooksPath .git/hooks
        echo '* filter=all diff=all merge=all' >.gitattributes; echo changed >>src/range.c`],
    ['hooks', `${commands(ran)}
        for hook in applypatch-msg pre-commit post-commit post-checkout post-index-change post-merge pre-push reference-transaction fsmonitor-watchman \\
            pre-auto-gc update post-update pre-receive post-receive; do cp "$ran" .git/hooks/$hook; done; echo changed >>src/range.c`],
    ['a work folder that git believes elsewhere', `git config core.worktree ${outside}; echo changed >>src/range.c`, { verdict: ['changed', 'unknown', 'no_change'] }],
    ['a .git that names another repository', `rm -rf .git; echo 'gitdir: ${other}/.git' >.git`, { verdict: ['unknown'] }],
    ['a .git that is a link to another session', `rm -rf .git; ln -s ${other}/.git .git`, { verdict: ['unknown'] }],
    ['objects borrowed from another session', `echo ${other}/.git/objects >.git/objects/info/alternates; echo changed >>src/range.c`],
    ['submodules with commands for addresses', `
        printf '[submodule "a"]\\n\\tpath = a\\n\\turl = ext::touch ${ran}\\n\\tupdate = !touch ${ran}\\n' >.gitmodules
        git config submodule.a.url 'ext::touch ${ran}'; git config submodule.a.update '!touch ${ran}'
        git init -q a; git -C a commit -q --allow-empty -m a; git add -A; git commit -q -m submodule; printf '#!/bin/sh\\ntouch ${ran}\\n' >a/.git/hooks/post-checkout`],
    ['files that say they are not to be looked at', `
        git update-index --assume-unchanged src/range.h; git update-index --skip-worktree src/range.c; echo changed >>src/range.c; echo changed >>src/range.h`,
    { diff: /^\+changed/m }],
    ['a repository inside that has no commit', 'git init -q inner; echo a >inner/a; echo changed >>src/range.c', { diff: /^\+changed/m }],
    ['locks left behind', 'echo changed >>src/range.c; touch .git/index.lock .git/HEAD.lock .git/config.lock; mkdir -p .git/refs/heads/x.lock'],
    ['a .git that is broken', 'rm -rf .git/objects; echo nonsense >.git/HEAD', { verdict: ['unknown'] }],
    ['a .git with a broken configuration', 'echo "[[[" >.git/config', { verdict: ['unknown'] }],
    ['no .git', 'rm -rf .git', { verdict: ['unknown'] }],
    ['a work folder that became a link', `cd ..; rm -rf "$OLDPWD"; ln -s ${outside} "$(basename "$OLDPWD")"`, { verdict: ['unknown'], next: ['failed'] }],
    ['a work folder that became a link to the root', `cd ..; rm -rf "$OLDPWD"; ln -s / "$(basename "$OLDPWD")"`, { verdict: ['unknown'], next: ['completed', 'failed'] }],
    ['no work folder', 'cd ..; rm -rf "$OLDPWD"', { verdict: ['unknown'], next: ['failed'] }],
    ['a base commit that was replaced', `
        echo changed >>src/range.c; git commit -q -a -m changed; git replace -f HEAD~1 HEAD`, { diff: /^\+changed/m }],
    ['a home of links', `
        rm -rf ~/.[a-z]* ~/*; for name in .gitconfig .bashrc .profile .ssh .config .cache .local; do ln -s ${outside} ~/$name; done; echo changed >>src/range.c`],
    ['a file of eight tebibytes without content', 'truncate -s 8T sparse || truncate -s 1T sparse; truncate -s 8T ~/sparse || true', { verdict: ['unknown'] }],
    ['a change beside such a file', 'truncate -s 1T sparse; echo changed >>src/range.c', { diff: /^\+changed/m }],
    ['three thousand folders in each other', `
        perl -e 'for (1 .. 3000) { my $name = "d" x 200; mkdir $name or die; chdir $name or die }' && cp -r src copy`],
];

// Asks the supervisor how it is until it is told to stop.
function watch(lab) {
    const watched = { slowestMs: 0, over: false };
    const loop = async () => {
        while (!watched.over) {
            watched.slowestMs = Math.max(watched.slowestMs, await lab.statusMs());
            await new Promise(resolve => setTimeout(resolve, 100));
        }
    };
    const ended = loop();
    watched.stop = async () => {
        watched.over = true;
        await ended;
        assert.ok(watched.slowestMs < 1000, `the supervisor took ${watched.slowestMs} ms to answer`);
    };
    return watched;
}

async function checkShown(lab, runId, shadow) {
    const diff = await lab.ctl(['diff', '--json', runId]);
    assert.ok(diff.code === 0 || JSON.parse(diff.stdout || '{}').error || diff.stderr, 'a diff, or a reason');
    const logs = await lab.ctl(['logs', '--json', runId]);
    assert.equal(logs.code, 0, logs.stderr);
    for (const text of [diff.stdout, diff.stderr, logs.stdout]) {
        assert.ok(!text.includes(canary), 'something of the host is shown');
        assert.ok(!shadow || !text.includes(shadow), 'the password file is shown');
        assert.doesNotMatch(text, /\x1b/, 'an escape sequence is shown');
    }
}

async function remove(lab, sessionId) {
    const result = await lab.ctl(['rm', sessionId], { timeoutMs: 600000 });
    assert.equal(result.code, 0, `${result.stderr}${result.stdout}`);
    const folder = path.join(lab.state, 'sessions', sessionId);
    assert.ok(!fs.existsSync(folder), `left of ${folder}: ${fs.existsSync(folder) && (await must('find', [folder, '-maxdepth', '3'])).slice(0, 500)}`);
}

const root = process.getuid() === 0;
// A user that owns nothing here.
const modes = root ? [['started by root', {}], ['of an ordinary user', { uid: 65533 }]] : [['of an ordinary user', {}]];

const shadowLine = () => root ? fs.readFileSync('/etc/shadow', 'utf8').split('\n')[0] : '';

// A limit that lets sparse files be made: what is tried is looking at them.
const huge = () => ({ limits: { diskMiB: 1 << 24 } });

for (const [mode, options] of modes)
    test(`what a run leaves behind harms nobody, under a supervisor ${mode}`, { timeout: 900000 }, t => withLab({ ...options, model: false, agent: false, config: huge }, lab => leaveBehind(t, lab)));

async function leaveBehind(t, lab) {
    const outside = lab.path('work', 'outside');
    fs.mkdirSync(outside, { mode: 0o777 });
    fs.writeFileSync(path.join(outside, 'kept.txt'), canary);
    for (const [name, mode] of [['', 0o777], ['kept.txt', 0o666]])
        fs.chmodSync(path.join(outside, name), mode);
    const ran = lab.path('work', 'outside', 'ran');
    const repository = await lab.repository('sample');
    const first = await lab.startScript('echo changed >>src/range.c', { repository });
    assert.equal((await lab.ended(first.runId)).verdict, 'changed');
    const other = path.join(lab.state, 'sessions', first.sessionId, 'workspace', 'sample');
    assert.ok(fs.existsSync(other));
    const shadow = shadowLine();
    const sessions = [];

    for (const [name, script, { verdict = ['changed'], next = ['completed'], diff } = {}] of cases({ ran, outside, other }))
        await t.test(name, async inner => {
            const watched = watch(lab);
            inner.after(() => { watched.over = true; });
            const { runId, sessionId } = await lab.startScript(script, { repository });
            sessions.push([name, sessionId]);
            const view = await lab.ended(runId, 300000);
            assert.equal(view.status, 'completed', JSON.stringify(view.result));
            assert.ok(verdict.includes(view.verdict), `verdict ${view.verdict}: ${JSON.stringify(view.evidence)}`);
            await checkShown(lab, runId, shadow);
            if (diff)
                assert.match((await lab.ctlJson(['diff', runId])).diff, diff);

            const again = await lab.startScript('echo again', { sessionId });
            const second = await lab.ended(again.runId, 300000);
            assert.ok(next.includes(second.status), `the next run ${second.status}: ${JSON.stringify(second.result)}`);
            if (second.status === 'failed')
                assert.ok(second.result.error.message && second.result.error.hint !== '', JSON.stringify(second.result));
            await checkShown(lab, again.runId, shadow);
            await watched.stop();
            assert.deepEqual(fs.readdirSync(outside), ['kept.txt']);
        });

    await t.test('the supervisor starts again', async () => {
        await lab.killSupervisor();
        await lab.startSupervisor();
    });
    for (const [name, sessionId] of sessions)
        await t.test(`removed: ${name}`, async () => {
            const watched = watch(lab);
            await remove(lab, sessionId);
            await watched.stop();
        });
    assert.deepEqual(fs.readdirSync(outside), ['kept.txt']);
    assert.equal(fs.readFileSync(path.join(outside, 'kept.txt'), 'utf8'), canary);
    assert.ok(fs.existsSync(path.join(other, 'src/range.c')), 'the other session was touched');
    await remove(lab, first.sessionId);
}

const manyFiles = long ? 1000000 : 200000;

test(`a session with ${manyFiles} files is looked at and removed`, { timeout: 900000 }, () => withLab({ model: false, agent: false }, async lab => {
    const watched = watch(lab);
    const { runId, sessionId } = await lab.startScript(`
        perl -e 'mkdir "many"; for (1 .. ${manyFiles}) { open(my $file, ">", "many/$_") or die; }'`, { repository: await lab.repository() });
    const view = await lab.ended(runId, 600000);
    assert.equal(view.status, 'completed', JSON.stringify(view.result));
    // A slow machine may not be through in time; then it says so. Numbers are never half the truth.
    assert.ok(['changed', 'unknown'].includes(view.verdict), JSON.stringify(view));
    if (view.verdict === 'changed')
        assert.deepEqual([view.evidence.filesChanged, view.evidence.untracked], [manyFiles, manyFiles]);
    await checkShown(lab, runId, '');
    await remove(lab, sessionId);
    await watched.stop();
}));
