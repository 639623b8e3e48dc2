// What a run is said to have changed is what git says, looked at from outside: of every kind of change there is, and of what the server has.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bare, commit } from './awkward-repositories.mjs';
import { Forge } from './forge.mjs';
import { must, withLab } from './lab.mjs';

const main = 'refs/heads/main';
const git = (folder, ...args) => must('git', ['-C', folder, '-c', 'safe.directory=*', ...args]);
const line = async (...args) => (await git(...args)).trim();
const text = (...words) => words.map(word => `${word} of a file that is long enough for git to know it again\n`.repeat(12)).join('');

async function withProject(body) {
    await withLab({ model: false, agent: false, supervisor: false }, async lab => {
        const forge = new Forge(lab.path('forge'), lab.secret, ['owner/lib']);
        fs.mkdirSync(forge.root);
        await forge.start();
        try {
            lab.writeConfig({ services: { github: { target: forge.origin } } });
            const lib = await bare(path.join(forge.root, 'owner', 'lib.git'), commit(main, { 'lib.txt': 'library\n' }));
            const project = await bare(path.join(forge.root, 'owner', 'project.git'), commit(main, {
                '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n', lib: { module: await line(lib, 'rev-parse', 'main') },
                '.gitignore': '*.log\n', README: 'one\ntwo\n', 'image.bin': Buffer.from([0, 1, 2, 3]), 'gone.bin': Buffer.from([0, 9]), 'old name.txt': text('old'), 'moved.txt': text('moved'),
                'moved.bin': Buffer.concat([Buffer.alloc(300), Buffer.from('x')]), tool: '#!/bin/sh\n', gone: 'x\n', link: { link: 'README' }, 'kept.log': 'kept\n', 'tab\tand "quote".txt': 'x\n' }));
            await lab.startSupervisor();
            await lab.setSecret();
            await lab.setSecret(lab.secret, 'GITHUB_TOKEN');
            await body(lab, forge, project);
        } finally {
            await forge.stop();
        }
    });
}

async function work(lab, script, options) {
    const { runId, sessionId } = await lab.startScript(script, options);
    const view = await lab.ended(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    return { runId, sessionId, evidence: view.evidence };
}

// The same facts by the machine's own git, on a copy of the files. START: the tree of the files that the run began with.
async function facts(lab, sessionId, baseCommit, start) {
    const copy = lab.path(`copy-${Date.now()}`);
    await must('cp', ['-a', path.join(lab.state, 'sessions', sessionId, 'workspace/project'), copy]);
    const headCommit = await line(copy, 'rev-parse', 'HEAD');
    const commits = Number(await line(copy, 'rev-list', '--count', `${baseCommit}..HEAD`));
    const branch = await line(copy, 'symbolic-ref', '--short', 'HEAD');
    const untracked = (await git(copy, 'ls-files', '--others', '--exclude-standard', '-z')).split('\0').length - 1;
    await git(copy, 'add', '--all');
    const diff = (...args) => git(copy, 'diff', '--cached', '--find-renames', ...args, start);
    const raw = (await diff('--raw', '-z')).split('\0').filter(each => each.startsWith(':')).map(each => each.split(' '));
    const number = (words, name) => Number(new RegExp(`(\\d+) ${name}`).exec(words)?.[1] ?? 0);
    const short = await git(copy, 'diff', '--cached', '--no-renames', '--shortstat', start);
    const tree = await line(copy, 'write-tree');
    const names = (await diff('--name-status', '-z')).split('\0').slice(0, -1);
    const statuses = {};
    while (names.length > 0) {
        const status = names.shift()[0];
        if (status === 'R')
            names.shift();
        statuses[names.shift()] = { A: 'added', M: 'modified', D: 'deleted', R: 'renamed', T: 'modified' }[status];
    }
    return { evidence: { branch, baseCommit, headCommit, commits, untracked,
        filesChanged: number(short, 'file'), insertions: number(short, 'insertion'), deletions: number(short, 'deletion'),
        binaryFiles: (await diff('--numstat', '-z')).split('\0').filter(each => each.startsWith('-\t-\t')).length || undefined,
        renames: raw.filter(each => each[4].startsWith('R')).length || undefined,
        submodules: raw.filter(each => [each[0], each[1]].some(mode => mode.endsWith('160000'))).length || undefined },
    patch: await diff('--binary', '--submodule=short'), statuses, tree };
}

async function compare(lab, { runId, sessionId, evidence }, start = evidence.baseCommit) {
    const expected = await facts(lab, sessionId, evidence.baseCommit, start);
    assert.deepEqual(Object.fromEntries(Object.keys(expected.evidence).map(name => [name, evidence[name]])), expected.evidence);
    const { diff, files } = await lab.ctlJson(['diff', runId, '--max-bytes', '1000000']);
    assert.equal(diff, expected.patch);
    assert.deepEqual(Object.fromEntries(files.map(one => [one.path, one.status])), expected.statuses);
    return expected;
}

test('a run\'s evidence is what git says', { timeout: 180000 }, () => withProject(async (lab, forge, project) => {
    const committed = 'printf "\\0\\7new" >image.bin; printf "\\0\\1" >new.bin; git rm -q gone gone.bin; git mv "old name.txt" "new name.txt"; echo more >>"new name.txt"; ' +
        'git mv moved.bin "moved elsewhere.bin"; mkdir -p deep/er; git mv moved.txt deep/er/; chmod +x tool; rm link; echo now a file >link; echo three >>README; echo kept >>kept.log; ' +
        '(cd lib && git commit -q --allow-empty -m moved); git add -A; git commit -qm one';
    const loose = 'echo second >second; git add second; git commit -qm two; mv second third; echo x >"$(printf "new\\nline \\303\\274")"; mkdir "a folder"; printf "\\0x" >"a folder/loose.bin"; ' +
        'echo ignored >x.log; rm "tab\tand \\"quote\\".txt"; ln -s nowhere dangling; echo staged >staged; git add staged; echo unstaged >>staged';
    const first = await work(lab, `cd /workspace/project; ${committed}; git push -q origin HEAD; ${loose}`, { repository: 'https://github.com/owner/project' });
    const expected = await compare(lab, first);
    // All that was meant to be there was.
    const { evidence } = expected;
    assert.ok(evidence.binaryFiles >= 5 && evidence.renames >= 3 && evidence.submodules === 1 && evidence.untracked === 4 && evidence.commits === 2, JSON.stringify(evidence));
    const remote = branch => line(project, 'rev-parse', `refs/heads/${branch}`);
    assert.equal(first.evidence.remoteState, 'other', 'the second commit was not pushed');
    assert.equal(first.evidence.remoteCommit, await remote(evidence.branch));

    // The session as a whole, from its beginning on, and each run from its own.
    const whole = await lab.ctlJson(['diff', first.sessionId, '--max-bytes', '1000000']);
    assert.equal(whole.diff, expected.patch);
    const second = await work(lab, 'cd /workspace/project; git add -A; git commit -qm three; git push -q origin HEAD; git mv README READ-ME; (cd lib && git commit -q --allow-empty -m again)', { sessionId: first.sessionId });
    assert.equal(second.evidence.baseCommit, first.evidence.headCommit);
    await compare(lab, second, expected.tree);
    assert.equal(second.evidence.remoteState, 'same');
    assert.equal(second.evidence.remoteCommit, second.evidence.headCommit);
    assert.equal(await remote(evidence.branch), second.evidence.headCommit);

    // What others do at the server.
    const state = async () => {
        const { evidence: told } = await work(lab, 'true', { sessionId: first.sessionId });
        return [told.remoteState, told.remoteCommit];
    };
    await git(project, 'update-ref', `refs/heads/${evidence.branch}`, 'main');
    assert.deepEqual(await state(), ['other', await remote('main')]);
    await git(project, 'update-ref', '-d', `refs/heads/${evidence.branch}`);
    assert.deepEqual(await state(), ['absent', undefined]);
    forge.password = 'another';
    assert.deepEqual(await state(), ['unknown', undefined]);
}));

test('what an earlier run left uncommitted is not the next one\'s', { timeout: 180000 }, () => withLab({ model: false, agent: false }, async lab => {
    const repository = await bare(path.join(lab.repositories, 'plain.git'), commit(main, { README: 'one\n' }));
    let sessionId;
    const judge = async (script, verdict, file) => {
        const run = await lab.startScript(script, sessionId ? { sessionId } : { repository });
        sessionId = run.sessionId;
        const result = await lab.ended(run.runId);
        assert.equal(result.verdict, verdict, script);
        const { diff } = await lab.ctlJson(['diff', run.runId]);
        if (file)
            assert.match(diff, new RegExp(`^\\+${file}$`, 'm'));
        return { ...result.evidence, diff };
    };
    await judge('echo first >f', 'changed', 'first');
    assert.equal((await judge('true', 'no_change')).diff, '');
    const second = await judge('echo second >>f; echo other >g', 'changed', 'second');
    assert.deepEqual([second.filesChanged, second.insertions, second.commits], [2, 2, 0]);
    // To commit what was there is a change, though the files are the same.
    const third = await judge('git add -A && git -c user.name=a -c user.email=a@b commit -q -m all', 'changed');
    assert.deepEqual([third.filesChanged, third.commits, third.diff], [0, 1, '']);
    // When the repository is cleaned up meanwhile, the commit is what is left to compare with.
    await judge('echo third >>f', 'changed', 'third');
    const last = await judge('echo fourth >>f; git prune --expire=now', 'changed', 'fourth');
    assert.match(last.diff, /^\+third$/m);
}));
