// Several repositories in one session: each keeps its place, its branch and what was left in it; a run works in the one it names.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { must, waitFor, withLab } from './lab.mjs';
import { killNow, powerOff, restart } from './living.mjs';

const shell = { model: false, agent: false };
const hold = 'mkfifo /tmp/gate; read line < /tmp/gate';

// OWNER/NAME with one commit that says so, and a branch `next`.
async function owned(lab, owner, name, branch = 'main') {
    const folder = path.join(lab.repositories, owner, name);
    fs.mkdirSync(folder, { recursive: true });
    const git = (...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', ...args]);
    await git('init', '-q', '-b', branch);
    fs.writeFileSync(path.join(folder, 'whose.txt'), `${owner}\n`);
    await git('add', '-A');
    await git('commit', '-qm', `of ${owner}`);
    await git('branch', 'next');
    lab.give(path.join(lab.repositories, owner), folder);
    return folder;
}

async function work(lab, script, options) {
    const { runId, sessionId } = await lab.startScript(script, options);
    const view = await lab.ended(runId);
    return { view, runId, sessionId, output: view.result?.output?.trim() };
}

// The branch that it began with; what it works on is a branch of its own.
const where = 'pwd; cat whose.txt; git for-each-ref --format="%(refname:short)" refs/heads | grep -v ^agent/';

test('a run lands in the repository that it names, and two of one name lie side by side', { timeout: 300000 }, () => withLab(shell, async lab => {
    const one = await owned(lab, 'one', 'app');
    const two = await owned(lab, 'two', 'app', 'master');
    const first = await work(lab, `${where}; echo mine > draft.txt`, { repository: one });
    assert.equal(first.output, '/workspace/app\none\nmain', JSON.stringify(first.view));
    const { sessionId } = first;
    // The default branch is the remote's.
    const second = await work(lab, `${where}; echo other > other.txt`, { sessionId, repository: two });
    assert.equal(second.output, '/workspace/app-2\ntwo\nmaster', JSON.stringify(second.view));
    assert.equal(second.view.repository, two);
    assert.equal(second.view.evidence.untracked, 1);
    assert.equal((await work(lab, where, { sessionId })).output, '/workspace/app-2\ntwo\nmaster', 'without a name: where the last one worked');
    const back = await work(lab, `${where}; cat draft.txt; echo more >more.txt`, { sessionId, repository: `${one}/` });
    assert.equal(back.output, '/workspace/app\none\nmain\nmine', 'back in the first, with what lay there');
    const diff = await lab.ctl(['diff', back.runId]);
    assert.match(diff.stdout, /more\.txt/);
    assert.doesNotMatch(diff.stdout, /other\.txt|draft\.txt/, 'what was there already is not this run\'s, here or there');
    const { sessions } = await lab.ctlJson(['sessions']);
    assert.equal(sessions.find(each => each.sessionId === sessionId).repository, one);
}));

test('a session that began without a repository stays with the one it got', { timeout: 300000 }, () => withLab(shell, async lab => {
    const repository = await owned(lab, 'one', 'app');
    const { sessionId } = await work(lab, 'echo kept > notes.txt');
    const second = await work(lab, where, { sessionId, repository, branch: 'next' });
    assert.equal(second.output, '/workspace/app\none\nnext', JSON.stringify(second.view));
    assert.equal((await work(lab, `${where}; cat ../notes.txt`, { sessionId })).output, '/workspace/app\none\nnext\nkept');
}));

test('another branch of a repository that is there already is refused, not ignored', { timeout: 300000 }, () => withLab(shell, async lab => {
    const repository = await owned(lab, 'one', 'app');
    const { sessionId } = await work(lab, where, { repository });
    const refused = await lab.ctl(['call', 'run.create', JSON.stringify({ task: 'true', agent: 'shell', sessionId, repository, branch: 'next' })]);
    assert.equal(refused.code, 5, refused.stderr);
    assert.match(refused.stderr, /branch.*works on branch `main`/);
    assert.equal((await work(lab, where, { sessionId, repository, branch: 'main' })).output, '/workspace/app\none\nmain');
}));

test('a repository that could not be had leaves the session usable', { timeout: 300000 }, () => withLab(shell, async lab => {
    const one = await owned(lab, 'one', 'app');
    const two = await owned(lab, 'two', 'tool');
    const { sessionId } = await work(lab, `${where}; mkdir ../tool; echo precious > ../tool/file`, { repository: one });
    const wrong = await work(lab, where, { sessionId, repository: two, branch: 'nowhere' });
    assert.equal(wrong.view.result.error.code, 'clone_failed', JSON.stringify(wrong.view));
    assert.equal((await work(lab, where, { sessionId })).output, '/workspace/app\none\nmain', 'the next run is where work was possible');
    const taken = await work(lab, where, { sessionId, repository: two, branch: 'next' });
    assert.equal(taken.view.result.error.code, 'clone_failed', JSON.stringify(taken.view));
    assert.match(taken.view.result.error.message, /something else at tool/);
    const kept = await work(lab, 'cat ../tool/file; ls -A ..; mv ../tool ../mine', { sessionId });
    assert.equal(kept.output, 'precious\napp\ntool', 'nothing of it was lost, and nothing half-made is left');
    assert.equal((await work(lab, where, { sessionId, repository: two, branch: 'next' })).output, '/workspace/tool\ntwo\nnext');
}));

test('queued runs work each in its own repository', { timeout: 300000 }, () => withLab(shell, async lab => {
    const one = await owned(lab, 'one', 'app');
    const two = await owned(lab, 'two', 'app');
    const first = await lab.startScript(hold, { repository: one });
    const { sessionId } = first;
    await waitFor('it works', async () => (await lab.exec(first.runId, ['test', '-p', '/tmp/gate'])).code === 0);
    const there = await lab.startScript(where, { sessionId, repository: two });
    const stays = await lab.startScript(where, { sessionId });
    const back = await lab.startScript(where, { sessionId, repository: one });
    await lab.exec(first.runId, ['sh', '-c', 'echo go > /tmp/gate']);
    const outputs = [];
    for (const { runId } of [there, stays, back])
        outputs.push((await lab.ended(runId)).result.output.trim().split('\n')[0]);
    assert.deepEqual(outputs, ['/workspace/app-2', '/workspace/app-2', '/workspace/app']);
    const { sessions } = await lab.ctlJson(['sessions']);
    assert.equal(sessions.find(each => each.sessionId === sessionId).runs, 4, 'no run is forgotten in the count');
}));

test('after the machine was switched off all of them are there', { timeout: 300000 }, () => withLab(shell, async lab => {
    const one = await owned(lab, 'one', 'app');
    const two = await owned(lab, 'two', 'app');
    const first = await work(lab, 'echo of one > draft.txt', { repository: one });
    const second = await work(lab, 'echo of two > draft.txt', { sessionId: first.sessionId, repository: two });
    await killNow(await lab.supervisorPid());
    await powerOff(lab, second.runId);
    await restart(lab);
    const look = await work(lab, `${where}; cat draft.txt ../app/draft.txt ../app/whose.txt`, { sessionId: first.sessionId });
    assert.equal(look.output, '/workspace/app-2\ntwo\nmain\nof two\nof one\none', JSON.stringify(look.view));
    const back = await work(lab, where, { sessionId: first.sessionId, repository: one });
    assert.equal(back.output, '/workspace/app\none\nmain');
}));

test('a session has room for eight repositories', { timeout: 300000 }, () => withLab(shell, async lab => {
    const first = await work(lab, 'pwd', { repository: await owned(lab, 'owner-0', 'app') });
    for (let number = 1; number < 8; number++) {
        const next = await work(lab, 'pwd', { sessionId: first.sessionId, repository: await owned(lab, `owner-${number}`, 'app') });
        assert.equal(next.output, `/workspace/app-${number + 1}`, JSON.stringify(next.view));
    }
    const refused = await lab.ctl(['call', 'run.create', JSON.stringify({ task: 'true', agent: 'shell', sessionId: first.sessionId,
        repository: await owned(lab, 'owner-8', 'app') })]);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /has 8 repositories already/);
}));

test('each repository has its own conversation, which goes on', { timeout: 300000 }, () => withLab({}, async lab => {
    const one = await owned(lab, 'one', 'app');
    const two = await owned(lab, 'two', 'app');
    const mcp = await lab.connect();
    const first = await mcp.tool('opencode_run_task', { task: 'TASK-NOTHING: look around', repository: one });
    assert.equal((await mcp.result(first.runId)).status, 'completed');
    const { sessionId } = first;
    const turn = async (task, repository) => {
        const before = lab.upstream.requests.length;
        const { runId } = await mcp.tool('opencode_run_task', { task, sessionId, repository });
        const view = await mcp.result(runId);
        assert.equal(view.status, 'completed', JSON.stringify(view));
        assert.equal(view.verdict, 'changed');
        const asked = lab.upstream.requests.slice(before).filter(each => each.body.includes('"tools"'));
        assert.ok(asked.length > 0);
        return asked.every(each => each.body.includes('TASK-NOTHING'));
    };
    assert.equal(await turn('TASK-NOTE: leave a note', two), false, 'what was said of the first is not said of the second');
    assert.equal(await turn('TASK-NOTE: leave a note here too', one), true, 'back in the first, what was said there is known');
    const look = await work(lab, 'ls ../app ../app-2', { sessionId });
    assert.equal(look.output, '../app:\nnote.txt\nwhose.txt\n\n../app-2:\nnote.txt\nwhose.txt');
}));
