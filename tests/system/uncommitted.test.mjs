// A run begins with the files as a person has them, committed or not: what goes in is what lies there, nothing of the person's repository
// changes by it, the run's changes are the agent's alone, and they fit on the same files.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { must, withLab } from './lab.mjs';

const shell = { model: false, agent: false };
const git = (folder, ...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', '-c', 'safe.directory=*', ...args]);

// All there is in a folder but git's own, with modes and links.
function picture(folder) {
    const found = {};
    for (const name of fs.readdirSync(folder, { recursive: true }).sort()) {
        const file = path.join(folder, name);
        const info = fs.lstatSync(file);
        if (!/(^|\/)\.git(\/|$)/.test(name) && !info.isDirectory())
            found[name] = info.isSymbolicLink() ? `-> ${fs.readlinkSync(file)}` : `${info.mode & 0o100 ? 'x' : '-'} ${fs.readFileSync(file, 'latin1')}`;
    }
    return found;
}

// What a person has of a repository beside the files.
const belongings = async folder => ({
    index: fs.readFileSync((await git(folder, 'rev-parse', '--path-format=absolute', '--git-path', 'index')).trim(), 'latin1'),
    refs: await git(folder, 'for-each-ref'), head: await git(folder, 'rev-parse', '--symbolic-full-name', 'HEAD'), stash: await git(folder, 'stash', 'list'),
    files: picture(folder), others: fs.readdirSync(path.join(folder, '.git')).filter(name => name !== 'objects'),
});

const write = (folder, files) => {
    for (const [name, text] of Object.entries(files)) {
        fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
        fs.writeFileSync(path.join(folder, name), text);
    }
};

async function repository(lab, name) {
    const folder = lab.path(name);
    await must('git', ['init', '-q', '-b', 'main', folder]);
    write(folder, { 'staged': 'one\n', 'unstaged': 'one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n', 'twice': 'one\n', 'gone': 'x\n', 'gone-staged': 'x\n', 'old-name': 'to be renamed\n'.repeat(9),
        'tool': '#!/bin/sh\n', 'becomes-link': 'x\n', 'binary': Buffer.from([0, 1, 2, 255]), 'deep/er/file': 'x\n', 'kept': 'x\n', '.gitignore': '*.log\n' });
    await git(folder, 'add', '-A');
    await git(folder, 'commit', '-qm', 'Start');
    return folder;
}

async function change(folder) {
    write(folder, { 'staged': 'one\nstaged\n', 'twice': 'one\nstaged\n', 'new-staged': 'new\n', 'odd "name\n': 'x\n' });
    fs.rmSync(path.join(folder, 'gone-staged'));
    await git(folder, 'mv', 'old-name', 'new-name');
    await git(folder, 'add', 'staged', 'twice', 'new-staged', 'gone-staged', 'odd "name\n');
    write(folder, { 'twice': 'one\nstaged\nand again\n', 'binary': Buffer.from([0, 9, 9, 255, 10, 0]), 'deep/er/file': 'x\ny\n', 'meant': 'to be added\n' });
    fs.appendFileSync(path.join(folder, 'unstaged'), 'mine\n');
    await git(folder, 'add', '--intent-to-add', 'meant');
    fs.rmSync(path.join(folder, 'gone'));
    fs.chmodSync(path.join(folder, 'tool'), 0o755);
    fs.rmSync(path.join(folder, 'becomes-link'));
    fs.symlinkSync('kept', path.join(folder, 'becomes-link'));
    write(folder, { 'new/text': 'untracked\n', 'new/binary': Buffer.from([0, 7]), 'new/build.log': 'ignored\n', 'loose': 'untracked\n', 'x.log': 'ignored\n' });
    fs.symlinkSync('../kept', path.join(folder, 'new/link'));
    fs.writeFileSync(path.join(folder, 'new/run'), '#!/bin/sh\n', { mode: 0o755 });
}

const untracked = name => /^(new\/|loose$|.*\.log$)/.test(name);
const only = (all, wanted) => Object.fromEntries(Object.entries(all).filter(([name]) => wanted(name)));
const workspace = (lab, sessionId, name) => path.join(lab.state, 'sessions', sessionId, 'workspace', name);

async function run(lab, folder, script, ...options) {
    const result = await lab.ctl(['run', '--json', '--agent', 'shell', ...options, script], { cwd: folder });
    assert.equal(result.code, 0, result.stderr);
    const { runId, sessionId } = JSON.parse(result.stdout);
    const view = await lab.ended(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    return { runId, sessionId, view };
}

test('a run begins with what is not committed, and its changes fit on the same files', { timeout: 120000 }, () => withLab(shell, async lab => {
    const mine = await repository(lab, 'mine');
    const head = (await git(mine, 'rev-parse', 'HEAD')).trim();
    for (const name of ['pre-commit', 'post-index-change', 'reference-transaction', 'post-checkout'])
        fs.writeFileSync(path.join(mine, '.git/hooks', name), `#!/bin/sh\ntouch ${lab.path('hook-ran')}\n`, { mode: 0o755 });
    await change(mine);
    fs.rmSync(lab.path('hook-ran'), { force: true });
    lab.give(mine);
    const before = await belongings(mine);

    const script = 'git status --porcelain >/tmp/status; cat /tmp/status; git log --format=%s; ' +
        'sed -i 1s/one/ONE/ unstaged; echo agent >>twice; printf "\\0\\1agent" >binary; rm deep/er/file; echo agent >added; git add -A; git commit -qm work; echo later >later';
    const first = await run(lab, mine, script, '--include-uncommitted');
    assert.equal(first.view.result.output.trim(), 'Uncommitted changes\nStart', 'nothing is uncommitted there');
    assert.deepEqual(await belongings(mine), before);
    assert.ok(!fs.existsSync(lab.path('hook-ran')));
    const diff = await lab.ctlJson(['diff', first.runId]);
    assert.deepEqual(diff.files.map(one => `${one.status} ${one.path}`).sort(),
        ['added added', 'added later', 'deleted deep/er/file', 'modified binary', 'modified twice', 'modified unstaged']);
    assert.equal(first.view.evidence.commits, 1);
    assert.equal(first.view.branch, diff.baseCommit, 'it began with that commit');

    // What went in is what lies here; taken back to its beginning the session has nothing else.
    const restored = await lab.ctl(['session', 'restore', first.sessionId, '1']);
    assert.equal(restored.code, 0, restored.stderr);
    assert.deepEqual(picture(workspace(lab, first.sessionId, 'mine')), only(before.files, name => !untracked(name)));
    const again = await lab.ctl(['session', 'restore', first.sessionId, '2']);
    assert.equal(again.code, 0, again.stderr);

    // git may forget the commit here: the session has it.
    await git(mine, 'gc', '-q', '--prune=now');
    lab.give(mine);
    const index = await git(mine, 'diff', '--cached', '--raw');
    const applied = await lab.ctl(['pull', first.runId, '--apply'], { cwd: mine });
    assert.equal(applied.code, 0, applied.stderr);
    const wanted = { ...before.files, added: '- agent\n', later: '- later\n', binary: '- \0\x01agent', twice: '- one\nstaged\nand again\nagent\n',
        unstaged: before.files.unstaged.replace('one', 'ONE') };
    delete wanted['deep/er/file'];
    assert.deepEqual(picture(mine), wanted);
    assert.equal(await git(mine, 'diff', '--cached', '--raw'), index, 'what was staged is');

    // As a branch it has the uncommitted changes below the agent's own.
    const pulled = await lab.ctl(['pull', first.runId, '--branch', 'theirs'], { cwd: mine });
    assert.equal(pulled.code, 0, pulled.stderr);
    assert.equal((await git(mine, 'log', '--format=%s', 'theirs')).trim(), 'work\nUncommitted changes\nStart');
    assert.equal((await git(mine, 'rev-parse', 'theirs~2')).trim(), head);
}));

test('untracked files come along when they are named, and ignored ones never', { timeout: 120000 }, () => withLab(shell, async lab => {
    const mine = await repository(lab, 'mine');
    await change(mine);
    lab.give(mine);
    const before = await belongings(mine);
    const seen = sessionId => picture(workspace(lab, sessionId, 'mine'));
    const ignored = name => /\.log$/.test(name);

    const part = await run(lab, mine, 'true', '--include-untracked', 'new');
    assert.deepEqual(seen(part.sessionId), only(before.files, name => name !== 'loose' && !ignored(name)));
    assert.equal(part.view.verdict, 'no_change', JSON.stringify(part.view));
    const all = await run(lab, mine, 'echo agent >>loose', '--include-untracked=.', '--include-uncommitted');
    assert.deepEqual({ ...seen(all.sessionId), loose: before.files.loose }, only(before.files, name => !ignored(name)));
    // Seen from where one is, and with the repository named from elsewhere.
    const deep = await run(lab, path.join(mine, 'new'), 'true', '--include-untracked', 'text');
    assert.deepEqual(Object.keys(seen(deep.sessionId)).filter(untracked), ['new/text']);
    const named = await run(lab, lab.root, 'true', '--repo', mine, '--include-untracked', 'loose');
    assert.deepEqual(Object.keys(seen(named.sessionId)).filter(untracked), ['loose']);
    assert.deepEqual(await belongings(mine), before);

    const applied = await lab.ctl(['pull', all.runId, '--apply'], { cwd: mine });
    assert.equal(applied.code, 0, applied.stderr);
    assert.deepEqual(picture(mine), { ...before.files, loose: '- untracked\nagent\n' });

    // What is said, what stays out, and the same request again.
    const plain = await lab.ctl(['run', '--agent', 'shell', 'true'], { cwd: mine });
    assert.match(plain.stderr, /^\d+ changed files here are not committed and stay out \(--include-uncommitted takes them along\)$/m);
    const said = await lab.ctl(['run', '--agent', 'shell', '--key', 'k', '--include-uncommitted', 'true'], { cwd: mine });
    assert.match(said.stderr, /your uncommitted changes come along, as commit [0-9a-f]{12}\n5 untracked files stay out/);
    const repeated = await lab.ctl(['run', '--agent', 'shell', '--key', 'k', '--include-uncommitted', 'true'], { cwd: mine });
    assert.equal(repeated.stdout, said.stdout);
    await lab.ended(said.stdout.trim());
    await git(mine, 'add', '-A');
    await git(mine, 'commit', '-qm', 'all');
    lab.give(mine);
    const clean = await lab.ctl(['run', '--agent', 'shell', '--include-uncommitted', 'true'], { cwd: mine });
    assert.match(clean.stderr, /nothing is uncommitted here/);
    assert.equal((await lab.ended(clean.stdout.trim())).evidence.baseCommit, (await git(mine, 'rev-parse', 'HEAD')).trim());
}));

test('worktrees, sparse ones, and what is refused', { timeout: 120000 }, () => withLab(shell, async lab => {
    const mine = await repository(lab, 'mine');
    const linked = lab.path('linked');
    await git(mine, 'worktree', 'add', '-q', '-b', 'other', linked);
    await git(linked, 'sparse-checkout', 'set', '--no-cone', '/unstaged', '/kept');
    fs.appendFileSync(path.join(linked, 'unstaged'), 'linked\n');
    write(mine, { staged: 'of the main one\n' });
    lab.give(mine);
    lab.give(linked);
    const { sessionId } = await run(lab, linked, 'true', '--include-uncommitted');
    const files = picture(workspace(lab, sessionId, 'linked'));
    assert.match(files.unstaged, /eight\nlinked\n$/);
    assert.equal(files.staged, '- one\n');
    assert.ok(files['deep/er/file'], 'what is left out here on purpose is not deleted');

    const bad = async (folder, code, words, ...args) => {
        const before = folder === lab.root ? null : await belongings(folder);
        const result = await lab.ctl(['run', '--agent', 'shell', ...args, 'true'], { cwd: folder });
        assert.equal(result.code, code, `${args.join(' ')}: ${result.stderr}${result.stdout}`);
        assert.match(result.stderr, words);
        if (before)
            assert.deepEqual(await belongings(folder), before);
    };
    await bad(mine, 2, /neither --session nor --branch/, '--include-uncommitted', '--branch', 'main');
    await bad(mine, 2, /neither --session nor --branch/, '--include-uncommitted', '--session', sessionId);
    await bad(mine, 2, /wants a git work tree on this machine/, '--include-uncommitted', '--no-repo');
    await bad(mine, 2, /wants a git work tree on this machine/, '--include-untracked', '.', '--repo', 'https://github.com/a/b');
    await bad(lab.root, 2, /wants a git work tree on this machine/, '--include-uncommitted');
    write(mine, { 'x.log': 'x\n' });
    await bad(mine, 2, /--include-untracked: .*ignored/, '--include-untracked', 'x.log');
    await bad(mine, 2, /--include-untracked: .*(did not match|nothing)/, '--include-untracked', 'nowhere');
    await bad(mine, 2, /--include-untracked: .*outside repository/, '--include-untracked', '/etc/hostname');
    await bad(mine, 2, /--include-untracked: .*did not match/, '--include-untracked', '--all');
    const empty = lab.path('empty');
    await must('git', ['init', '-q', empty]);
    fs.writeFileSync(path.join(empty, 'a'), 'a');
    lab.give(empty);
    const none = await lab.ctl(['run', '--agent', 'shell', '--include-untracked', '.', 'true'], { cwd: empty });
    assert.match(none.stderr, /commit something first/);
    await git(mine, 'commit', '-qam', 'mine');
    await git(linked, 'commit', '-qam', 'linked');
    write(mine, { unstaged: 'clash\n' });
    await git(mine, 'commit', '-qam', 'clash');
    await git(mine, 'merge', '-q', 'other').catch(() => {});
    lab.give(mine);
    await bad(mine, 5, /a merge has conflicts here/, '--include-uncommitted');
    // A folder of git's without files has none that could come along.
    const bare = lab.path('bare.git');
    await must('git', ['clone', '-q', '--bare', mine, bare]);
    lab.give(bare);
    const result = await lab.ctl(['run', '--agent', 'shell', '--include-uncommitted', '--repo', bare, 'true'], { cwd: lab.root });
    assert.match(result.stderr, /only a git work tree on this machine has uncommitted files/);
}));
