// The supervisor, or the sandbox of the work itself, is killed while a session is kept, copied or taken back: nothing half is taken
// for whole, what was not kept is still there, and what was kept comes back.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { killHard, must, waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, initsOf, killNow, restart } from './living.mjs';

const shell = { model: false, agent: false };
const workspace = (lab, sessionId) => path.join(lab.state, 'sessions', sessionId, 'workspace');
const look = (lab, sessionId) => lab.ctlJson(['session', 'get', sessionId]);

async function work(lab, script, options) {
    const { runId, sessionId } = await lab.startScript(script, options);
    const view = await lab.ended(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    return { runId, sessionId };
}

// Names, sizes and marks of the files that the tests make.
function marks(lab, sessionId) {
    const folder = path.join(workspace(lab, sessionId), 'app');
    return fs.readdirSync(folder).filter(name => !name.startsWith('.')).sort().map(name => {
        const file = path.join(folder, name);
        return fs.statSync(file).size > 1000 ? `${name} ${fs.statSync(file).size}` : `${name} ${fs.readFileSync(file, 'utf8').trim()}`;
    });
}

// The sandbox of what is done with a session, once its command is at work there.
const choreOf = async lab => waitFor('its sandbox is at work', () => initsOf(lab).find(({ pid }) => {
    try {
        return fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8').includes(' /checkpoints ') &&
            fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim() !== '';
    } catch {
        return false;
    }
}), 30000, 2);

async function repository(lab) {
    const folder = path.join(lab.repositories, 'app');
    fs.mkdirSync(folder);
    const git = (...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', ...args]);
    await git('init', '-q', '-b', 'main');
    fs.writeFileSync(path.join(folder, 'first'), 'first\n');
    await git('add', '-A');
    await git('commit', '-qm', 'first');
    lab.give(folder);
    return folder;
}

test('killed in the midst of it', { timeout: 600000 }, () => withLab(shell, async lab => {
    const { sessionId } = await work(lab, 'echo one > mark; head -c 20000000 /dev/urandom > large', { repository: await repository(lab) });
    const one = marks(lab, sessionId);
    const kept = (await look(lab, sessionId)).checkpoints.at(-1).checkpoint;
    await work(lab, 'echo two > mark; echo loose > loose', { sessionId });
    const two = marks(lab, sessionId);
    const numbers = async () => (await look(lab, sessionId)).checkpoints.map(each => each.checkpoint);
    const before = await numbers();
    const kill = async () => {
        await killNow(await lab.supervisorPid());
        await restart(lab);
    };
    const idle = () => waitFor('it is idle', async () => (await look(lab, sessionId)).state === 'idle', 60000, 100);

    // A checkpoint: by the supervisor's death, and by its sandbox's.
    for (const end of [kill, async () => killHard((await choreOf(lab)).pid)]) {
        await work(lab, 'head -c 20000000 /dev/urandom > large', { sessionId });
        const known = await numbers();
        const asked = lab.ctl(['session', 'checkpoint', sessionId]);
        await choreOf(lab);
        await end();
        assert.notEqual((await asked).code, 0);
        assert.deepEqual(await numbers(), known, 'a half one counts for nothing');
        assert.deepEqual(marks(lab, sessionId), two);
    }

    // The way back: done again by the next supervisor, or refused to all runs until it is done again.
    const first = lab.ctl(['session', 'restore', sessionId, String(kept)]);
    await waitFor('it has begun', async () => (await look(lab, sessionId)).checkpoints.at(-1).reason === 'beforeRestore', 60000, 5);
    await choreOf(lab);
    await kill();
    assert.notEqual((await first).code, 0);
    await idle();
    assert.deepEqual(marks(lab, sessionId), one);
    const back = lab.ctl(['session', 'restore', sessionId, String(before.at(-1))]);
    await waitFor('it has begun', async () => (await look(lab, sessionId)).checkpoints.filter(each => each.reason === 'beforeRestore').length === 2, 60000, 5);
    killHard((await choreOf(lab)).pid);
    const failed = await back;
    assert.equal(failed.code, 1, failed.stderr);
    assert.match(failed.stderr, /half taken back to checkpoint \d+; do it again/);
    assert.equal((await look(lab, sessionId)).state, 'half taken back');
    const refused = await lab.ctl(['call', 'run.create', JSON.stringify({ task: 'true', agent: 'shell', sessionId })]);
    assert.equal(refused.code, 5);
    assert.match(refused.stderr, /session restore/);
    assert.equal((await lab.ctl(['session', 'restore', sessionId, String(before.at(-1))])).code, 0);
    assert.deepEqual(marks(lab, sessionId), two);

    // A copy: away with what there is of it.
    for (const end of [kill, async () => killHard((await choreOf(lab)).pid)]) {
        const fork = lab.ctl(['session', 'fork', sessionId, '-c', String(kept)]);
        await choreOf(lab);
        await end();
        assert.notEqual((await fork).code, 0);
        await waitFor('nothing is left of the copy', async () => (await lab.ctlJson(['sessions'])).sessions.length === 1 &&
            fs.readdirSync(path.join(lab.state, 'sessions')).length === 1, 60000, 100);
    }
    // A run whose last checkpoint dies with the supervisor ends all the same, with another one.
    const { runId } = await lab.startScript('echo three > mark; head -c 20000000 /dev/urandom > large', { sessionId });
    await choreOf(lab);
    await kill();
    assert.ok(['completed', 'interrupted'].includes((await lab.ended(runId)).status));
    const three = marks(lab, sessionId);
    assert.ok(three.includes('mark three'));
    await work(lab, 'rm -rf * .git', { sessionId });
    const { checkpoints } = await look(lab, sessionId);
    await lab.ctlJson(['session', 'restore', sessionId, String(checkpoints.at(-2).checkpoint)]);
    assert.deepEqual(marks(lab, sessionId), three);
    await checkNothingLeft(lab);
}));
