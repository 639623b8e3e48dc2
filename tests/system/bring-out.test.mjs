// What a session made comes to where a person works: its branch, its changes on a tree that has changes of its own, its files. And what a
// stranger's commits and patches can't do there: write outside, run anything, or leave half of themselves.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { must, withLab } from './lab.mjs';

const git = (folder, ...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', '-c', 'safe.directory=*', ...args]);

// All there is in a folder, with modes and links: to see that nothing has changed.
function snapshot(folder) {
    const found = {};
    for (const name of fs.readdirSync(folder, { recursive: true }).sort()) {
        const file = path.join(folder, name);
        const info = fs.lstatSync(file);
        if (!/(^|\/)\.git(\/|$)/.test(name))
            found[name] = info.isSymbolicLink() ? `-> ${fs.readlinkSync(file)}` : info.isFile() ? `${info.mode} ${fs.readFileSync(file, 'latin1')}` : 'folder';
    }
    return found;
}

test('branch, changes and files come out', { timeout: 120000 }, () => withLab({ model: false, agent: false }, async lab => {
    const mine = lab.path('mine');
    fs.mkdirSync(path.join(mine, 'sub'), { recursive: true });
    await must('git', ['init', '-q', '-b', 'main', mine]);
    fs.writeFileSync(path.join(mine, 'a'), 'one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n');
    fs.writeFileSync(path.join(mine, 'sub/old'), 'to be renamed, and long enough for git to see it\n'.repeat(10));
    await git(mine, 'add', '-A');
    await git(mine, 'commit', '-qm', 'Start');
    const ctl = (...args) => lab.ctl(args, { cwd: mine });
    const good = async (...args) => {
        const result = await ctl(...args);
        assert.equal(result.code, 0, `${args.join(' ')}: ${result.stderr}`);
        return result.stdout;
    };
    const bad = async (words, ...args) => {
        const before = snapshot(mine);
        const refs = await git(mine, 'for-each-ref');
        const result = await ctl(...args);
        assert.notEqual(result.code, 0, `${args.join(' ')} did not fail: ${result.stdout}`);
        assert.match(result.stderr, words);
        assert.deepEqual(snapshot(mine), before, args.join(' '));
        assert.equal(await git(mine, 'for-each-ref'), refs);
    };
    const script = 'cd /workspace/mine; git config user.name a; git config user.email a@a.invalid; git checkout -q -b agent/work; ' +
        'sed -i 1s/one/ONE/ a; git mv sub/old sub/new; head -c 300000 /dev/urandom >binary; ln -s a link; git add -A; git commit -qm Work; git tag v9; ' +
        'echo later >later; echo ignored >x.o; echo "*.o" >.git/info/exclude; printf "\\033[2Jescape\\n" >escape; ' +
        'mkfifo pipe; ln -s /etc/passwd out; mkdir -p "odd/$(printf \'new\\nline\')"; echo deep >"odd/$(printf \'new\\nline\')/file"';
    const { runId, sessionId } = await lab.startScript(script, { repository: mine });
    const view = await lab.ended(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    const inside = path.join(lab.state, 'sessions', sessionId, 'workspace/mine');
    const head = (await git(inside, 'rev-parse', 'HEAD')).trim();

    // A branch, with a tree that has changes: they stay as they are, and nothing but the branch is new.
    fs.appendFileSync(path.join(mine, 'a'), 'mine\n');
    fs.writeFileSync(path.join(mine, 'untracked'), 'mine\n');
    const before = snapshot(mine);
    assert.match(await good('pull', runId), new RegExp(`^branch agent/work at ${head.slice(0, 12)}\nnot part of it: \\d+ files? changed but not committed`));
    assert.deepEqual(snapshot(mine), before);
    assert.equal((await git(mine, 'for-each-ref', '--format=%(refname) %(objectname)')).trim().split('\n')[0], `refs/heads/agent/work ${head}`);
    assert.equal((await git(mine, 'for-each-ref', 'refs/tags', 'refs/remotes')).trim(), '');
    assert.ok(!fs.existsSync(path.join(mine, '.git/FETCH_HEAD')));
    await bad(/there is a branch agent\/work here already; --branch agent\/work moves it forward/, 'pull', sessionId);
    for (const name of ['-x', 'a..b', 'x y', 'HEAD', 'refs/heads/../x'])
        await bad(/branch/, 'pull', sessionId, `--branch=${name}`);
    const known = JSON.parse(await good('pull', sessionId, '--branch', 'again', '--json'));
    assert.equal(known.commit, head, 'what is here already needs no bundle');
    assert.equal(known.branch, 'again');
    // A branch that the user names is moved, but only forward, and not below somebody's feet.
    const tip = async () => (await git(mine, 'rev-parse', 'again')).trim();
    await git(mine, 'branch', '-qf', 'again', `${head}~1`);
    await good('pull', sessionId, '--branch', 'again');
    assert.equal(await tip(), head);
    await git(mine, 'branch', '-qf', 'again', (await git(mine, 'commit-tree', '-m', 'mine', `${head}^{tree}`)).trim());
    await bad(/again.*already exists/, 'pull', sessionId, '--branch', 'again');
    await git(mine, 'branch', '-qD', 'again');

    // All changes on the files here, which have changes of their own elsewhere in the same file; git's own diff says what they are.
    const wanted = await git(mine, 'diff', '--binary', 'HEAD', 'agent/work');
    assert.match(await good('pull', sessionId, '--apply', '--path', 'sub'), /2 files changed/);
    await git(mine, 'checkout', '-q', 'sub');
    fs.rmSync(path.join(mine, 'sub/new'));
    await bad(/makes? a link that leads out of the repository/, 'pull', sessionId, '--apply');
    await lab.ended((await lab.startScript('cd /workspace/mine; rm out pipe', { sessionId })).runId);
    // The session's diff is all that changed since it began, a run's what that run did; both as git itself says it.
    const copy = lab.path('copy');
    await must('cp', ['-a', inside, copy]);
    await git(copy, 'add', '-A');
    const whole = await lab.ctlJson(['diff', sessionId]);
    assert.equal(whole.diff, await git(copy, 'diff', '--cached', '--binary', '--find-renames', whole.baseCommit));
    assert.deepEqual([whole.baseCommit, whole.headCommit, whole.runId], [(await git(mine, 'rev-parse', 'main')).trim(), head, undefined]);
    const status = Object.fromEntries(whole.files.map(one => [one.path, one.status]));
    assert.deepEqual([status.a, status['sub/new'], status.binary, status.link, status.later, status['sub/old']],
        ['modified', 'renamed', 'added', 'added', 'added', undefined]);
    const part = await lab.ctlJson(['diff', sessionId, '--path', 'sub']);
    assert.deepEqual(part.files.map(one => one.path), ['sub/new']);
    const cut = await lab.ctlJson(['diff', sessionId, '--max-bytes', '500']);
    assert.ok(cut.truncated && cut.diff.length < 700 && /\[diff truncated/.test(cut.diff));
    assert.ok((await lab.ctlJson(['diff', runId])).files.some(one => one.path === 'out'), 'a run\'s stays as it was');
    await good('pull', sessionId, '--apply');
    const now = snapshot(mine);
    assert.match(now.a, /ONE\ntwo[^]*nine\nmine\n$/);
    assert.equal(now['sub/old'], undefined);
    assert.ok(now['sub/new'] && now.binary.length > 290000 && now.link === '-> a' && now.later && now['odd/new\nline/file'] && now.untracked);
    assert.equal(now['x.o'], undefined, 'what the repository ignores stays');
    assert.equal(crypto.createHash('sha256').update(fs.readFileSync(path.join(mine, 'binary'))).digest('hex'),
        crypto.createHash('sha256').update(fs.readFileSync(path.join(inside, 'binary'))).digest('hex'));
    assert.ok(wanted.length > 1000);
    await bad(/nothing was changed, since the changes don't fit/, 'pull', sessionId, '--apply');
    await git(mine, 'checkout', '-q', '.');
    await git(mine, 'clean', '-qfd');
    fs.writeFileSync(path.join(mine, 'a'), 'quite different\n');
    await bad(/nothing was changed, since the changes don't fit: error: patch failed: a:1/, 'pull', sessionId, '--apply');
    await git(mine, 'checkout', '-q', '.');
    const outside = await lab.ctl(['pull', sessionId], { cwd: lab.root });
    assert.match(outside.stderr, /in no git work tree/);

    // Files: listed, read and saved, as they are, also with a run at work.
    const busy = await lab.startScript('echo busy >/workspace/mine/busy; sleep 600', { sessionId });
    const { files } = JSON.parse(await (async () => {
        for (;;) {
            const out = await good('files', sessionId, '--json');
            if (out.includes('"busy"'))
                return out;
        }
    })());
    const types = Object.fromEntries(files.map(one => [one.path, one.type]));
    assert.deepEqual([types.a, types.sub, types.link, types['sub/new'], types['odd/new\nline/file'], types['x.o']], ['file', 'folder', 'link', 'file', 'file', 'file']);
    assert.ok(!files.some(one => one.path.includes('.git')));
    assert.equal(files.find(one => one.path === 'binary').size, 300000);
    assert.deepEqual(JSON.parse(await good('files', runId, 'sub', '--json')).files.map(one => one.path).sort(), ['sub', 'sub/new']);
    const raw = await lab.ctl(['cat', sessionId, 'binary'], { encoding: 'buffer' });
    assert.ok(raw.stdout.equals(fs.readFileSync(path.join(inside, 'binary'))));
    assert.equal(await good('cat', sessionId, 'escape'), '\x1b[2Jescape\n');
    assert.equal(await good('cat', sessionId, 'a', '--max-bytes', '5'), 'ONE\nt');
    await bad(/no file whose bytes/, 'cat', sessionId, 'sub');
    await bad(/there is no such file/, 'cat', sessionId, 'nothing');
    for (const name of ['../x', '/etc/passwd', 'sub/../a', './a', 'a//b'])
        await bad(/PATH: must be relative/, 'cat', sessionId, name);
    const archive = lab.path('work.tar');
    assert.match(await good('export', sessionId, archive), /work\.tar/);
    const names = (await must('tar', ['-tf', archive])).split('\n');
    assert.ok(names.includes('./sub/new') && names.includes('./link') && !names.some(name => name.includes('.git')));
    await bad(/is there already, and nothing is overwritten/, 'export', sessionId, archive);
    const folder = lab.path('work');
    await good('export', runId, `${folder}/`);
    assert.ok(fs.readFileSync(path.join(folder, 'binary')).equals(fs.readFileSync(path.join(inside, 'binary'))));
    assert.equal(fs.readlinkSync(path.join(folder, 'link')), 'a');
    await bad(/not empty, and nothing is overwritten/, 'export', sessionId, folder);
    await bad(/more than 1000 bytes/, 'export', sessionId, lab.path('cut.tar'), '--max-bytes', '1000');
    assert.ok(!fs.existsSync(lab.path('cut.tar')));
    await lab.ctl(['cancel', busy.runId]);
    await lab.ended(busy.runId);

    // Who stops reading stops the program inside, and going away ends it; the session can be deleted right after.
    await lab.ended((await lab.startScript('truncate -s 3G /workspace/mine/huge', { sessionId })).runId);
    const socket = net.connect(path.join(lab.state, 'run/supervisor.sock'));
    await once(socket, 'connect');
    const frame = text => { const head2 = Buffer.alloc(5); head2.writeUInt32BE(text.length + 1); head2[4] = 0x4a; return Buffer.concat([head2, Buffer.from(text)]); };
    socket.write(frame(JSON.stringify({ id: 1, method: 'hello', params: { protocol: 1, role: 'test', version: 'x' } })));
    socket.write(frame(JSON.stringify({ id: 2, method: 'files.take', params: { sessionId, what: 'read', path: 'huge' } })));
    await once(socket, 'data');
    await once(socket, 'data');
    socket.pause();
    const { pid } = await lab.ctlJson(['status']);
    const rss = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
    const start = rss();
    for (let i = 0; i < 5; i++)
        await lab.ctlJson(['status']);
    assert.ok(rss() - start < 60000, `grew by ${rss() - start} KiB`);
    socket.destroy();
    await lab.ctlJson(['cat', sessionId, 'a', '--max-bytes', '1']).catch(() => {});
    for (;;) {
        const result = await lab.ctl(['rm', sessionId]);
        if (result.code === 0)
            break;
        assert.match(result.stderr, /being looked at/);
    }
}));

// A supervisor that isn't one: it sends what a hostile sandbox would like to.
async function withImpostor(lab, head, branch, bytes, body) {
    const state = lab.path(`impostor-${crypto.randomBytes(4).toString('hex')}`);
    fs.mkdirSync(path.join(state, 'run'), { recursive: true, mode: 0o700 });
    fs.chmodSync(state, 0o700);
    const frame = (kind, data) => { const start = Buffer.alloc(5); start.writeUInt32BE(data.length + 1); start[4] = kind; return Buffer.concat([start, Buffer.from(data)]); };
    const json = value => frame(0x4a, JSON.stringify(value));
    const server = net.createServer(socket => {
        let input = Buffer.alloc(0);
        socket.on('error', () => {});
        socket.on('data', piece => {
            input = Buffer.concat([input, piece]);
            while (input.length >= 5 && input.length >= 4 + input.readUInt32BE(0)) {
                const message = JSON.parse(input.subarray(5, 4 + input.readUInt32BE(0)));
                input = input.subarray(4 + input.readUInt32BE(0));
                if (message.method === 'hello') {
                    socket.write(json({ id: message.id, result: lab.hello }));
                    continue;
                }
                socket.write(json({ id: message.id, result: { sessionId: 'ses_x', directory: '', branch, headCommit: head, uncommitted: 0 } }));
                for (let at = 0; at < bytes.length; at += 60000) {
                    const some = bytes.subarray(at, at + 60000);
                    socket.write(json({ id: message.id, event: { bytes: some.length } }));
                    socket.write(frame(0x42, some));
                }
                socket.write(json({ id: message.id, end: { bytes: bytes.length, truncated: false } }));
            }
        });
    });
    server.listen(path.join(state, 'run/supervisor.sock'));
    await once(server, 'listening');
    fs.chmodSync(path.join(state, 'run/supervisor.sock'), 0o600);
    try {
        await body({ SANDBOX_MCP_STATE: state, SANDBOX_MCP_RUNTIME: path.join(state, 'run') });
    } finally {
        server.close();
    }
}

test('hostile commits and patches do no harm', { timeout: 120000 }, () => withLab({ model: false, agent: false }, async lab => {
    lab.hello = { protocol: 1, version: '0.1.0', pid: 1 };
    const mine = lab.path('mine');
    const trap = lab.path('trap');
    await must('git', ['init', '-q', '-b', 'main', mine]);
    fs.mkdirSync(trap);
    fs.writeFileSync(path.join(mine, 'a'), 'a\n');
    await git(mine, 'add', '-A');
    await git(mine, 'commit', '-qm', 'Start');
    fs.symlinkSync(trap, path.join(mine, 'way'));
    // Hooks and helpers of the user's own repository aren't for a stranger's commits either.
    for (const name of ['post-checkout', 'post-merge', 'reference-transaction', 'post-applypatch', 'post-index-change']) {
        fs.writeFileSync(path.join(mine, '.git/hooks', name), `#!/bin/sh\ntouch ${trap}/ran-${name}\n`, { mode: 0o755 });
    }
    const untouched = async (words, bytes, args, { head = '0'.repeat(40), branch = 'agent/x' } = {}) => {
        const before = snapshot(mine);
        const refs = await git(mine, 'for-each-ref');
        await withImpostor(lab, head, branch, Buffer.from(bytes), async env => {
            const result = await lab.ctl(['pull', 'ses_x', ...args], { cwd: mine, env: { ...process.env, ...env } });
            assert.notEqual(result.code, 0, `${words}: ${result.stdout}`);
            assert.match(result.stderr, words);
        });
        assert.deepEqual(snapshot(mine), before, String(words));
        assert.equal(await git(mine, 'for-each-ref'), refs);
        assert.deepEqual(fs.readdirSync(trap), []);
    };

    const file = (name, text = '+x') => `diff --git a/${name} b/${name}\nnew file mode 100644\n--- /dev/null\n+++ b/${name}\n@@ -0,0 +1 @@\n${text}\n`;
    const link = (name, target) => `diff --git a/${name} b/${name}\nnew file mode 120000\n--- /dev/null\n+++ b/${name}\n@@ -0,0 +1 @@\n+${target}\n\\ No newline at end of file\n`;
    const patches = [
        [/must not|as a patch/, file('../trap/out')], [/must not|as a patch/, file('/tmp/out')], [/must not|invalid path/, file('.git/hooks/post-commit')], [/must not|invalid path/, file('.GIT/config')],
        [/must not|invalid path/, file('sub/.git/config')], [/must not|invalid path/, file('git~1/config')], [/must not|beyond a symbolic link/, file('way/out')],
        [/leads out of the repository/, link('l', '/etc') + file('l/out')], [/leads out of the repository/, link('l', '../..')],
        [/beyond a symbolic link|don't fit/, link('l', 'sub') + file('l/out')],
        [/leads out of the repository/, `diff --git a/l b/l\nnew file mode 120000\nindex 0000000..1234567\nGIT binary patch\nliteral 4\nLc$\n\n`],
        [/submodule/, 'diff --git a/m b/m\nnew file mode 160000\nindex 0000000..1234567\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Subproject commit 1234567890123456789012345678901234567890\n'],
        [/as a patch/, 'no patch at all'], [/must not|as a patch/, `--- a/../trap/x\n+++ b/../trap/x\n@@ -0,0 +1 @@\n+x\n`], [/don't fit/, file('ok') + file('a')],
        [/must not|as a patch/, `diff --git a/a b/../trap/a\nsimilarity index 100%\nrename from a\nrename to ../trap/a\n`],
    ];
    for (const [words, patch] of patches)
        await untouched(words, patch, ['--apply']);

    // Bundles: none at all, other commits than were told of, objects that git must not take, names that are options.
    const evil = lab.path('evil');
    await must('git', ['clone', '-q', mine, evil]);
    const bundle = async (...what) => {
        await git(evil, 'bundle', 'create', '-q', lab.path('b'), ...what);
        return fs.readFileSync(lab.path('b'));
    };
    const tree = (await must('sh', ['-c', `cd "$0" && printf '100644 blob %s\\t.git' "$(echo x | git hash-object -w --stdin)" | git mktree`, evil])).trim();
    const commit = (await git(evil, 'commit-tree', '-m', 'evil', '-p', 'HEAD', tree)).trim();
    await git(evil, 'update-ref', 'HEAD', commit);
    await untouched(/git does not take the commits|hasDotgit|don't fit/, await bundle('HEAD'), [], { head: commit });
    await git(evil, 'update-ref', 'HEAD', 'HEAD~1');
    await git(evil, 'commit', '-q', '--allow-empty', '-m', 'fine');
    const fine = (await git(evil, 'rev-parse', 'HEAD')).trim();
    await untouched(/not the session's commit/, await bundle('HEAD'), [], { head: '1'.repeat(40) });
    await untouched(/not the session's commit/, await bundle('main'), [], { head: fine });
    await untouched(/don't fit/, 'no bundle', [], { head: fine });
    await untouched(/don't fit|not take/, (await bundle('HEAD')).subarray(0, -30), [], { head: fine });
    for (const branch of ['--upload-pack=touch x', '-x', '../../x', 'a b', 'HEAD', ''])
        await untouched(/branch/, await bundle('HEAD'), [], { head: fine, branch });
    const some = await git(evil, 'rev-parse', 'HEAD~1');
    await git(evil, 'checkout', '-q', '--orphan', 'alone');
    await git(evil, 'commit', '-qm', 'one');
    await git(evil, 'commit', '-q', '--allow-empty', '-m', 'two');
    await untouched(/don't fit/, await bundle('HEAD', '^HEAD~1'), [], { head: (await git(evil, 'rev-parse', 'HEAD')).trim() });
    assert.ok(some);
    // And one that is as it should be.
    await git(evil, 'checkout', '-q', 'main');
    await withImpostor(lab, fine, 'agent/fine', await bundle('HEAD'), async env => {
        const result = await lab.ctl(['pull', 'ses_x'], { cwd: mine, env: { ...process.env, ...env } });
        assert.equal(result.code, 0, result.stderr);
    });
    assert.equal((await git(mine, 'rev-parse', 'agent/fine')).trim(), fine);
    assert.deepEqual(fs.readdirSync(trap), []);
}));
