// Something of a run is killed at a random moment: the supervisor, init, the agent, bubblewrap, or two of them. What was
// acknowledged is known for good, every state is final, true and reached soon, and nothing is left on the machine.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { finalStates, killHard, long, pause, waitFor, withLab } from './lab.mjs';
import { chance, checkNothingLeft, initsOf, killNow, logOf, programsOf, restart, toolsOf } from './living.mjs';

const rounds = Number(process.env.ROUNDS ?? (long ? 200 : 25));
const soonMs = 5000;
const batchMax = 8; // lines that are read and not yet on disk; on a busy machine they gather

// Who is killed, in this order (the agent may still be git, which makes the workspace), and how a run that was hit may end beside the end that its script has.
const victims = [
    { name: 'supervisor', supervisor: true },
    { name: 'init', of: initsOf, ends: /sandbox|interrupt/i },
    { name: 'agent', of: programsOf, ends: /signal 9|sandbox|git/i },
    { name: 'bubblewrap', of: toolsOf, ends: /sandbox|bwrap|bubblewrap/i },
    { name: 'supervisor and init', supervisor: true, of: initsOf, ends: /sandbox|interrupt/i },
    { name: 'supervisor and agent', supervisor: true, of: programsOf, ends: /signal 9|sandbox|git|interrupt/i },
    { name: 'supervisor and bubblewrap', supervisor: true, of: toolsOf, ends: /sandbox|bwrap|bubblewrap|interrupt/i },
];

// A run to be asked for, with the end that it has when nobody kills it.
function makeOrder(random) {
    const count = 1 + Math.floor(random() * 60);
    const code = random() < 0.7 ? 0 : 3;
    const script = `i=1; while [ $i -le ${count} ]; do echo "line $i"; sleep 0.02; i=$((i + 1)); done; exit ${code}`;
    return { count, code, script };
}

// Kills one of the processes that FIND sees; false when there was none.
function hit(lab, find, random) {
    const found = find(lab);
    if (!found.length)
        return false;
    killHard(found[Math.floor(random() * found.length)].pid);
    return true;
}

async function endOf(lab, runId, limitMs) {
    return waitFor(`run ${runId} ends`, async () => {
        const view = await lab.ctlJson(['get', runId]);
        return finalStates.includes(view.status) && view;
    }, limitMs, 100);
}

// What was said is a beginning of what would have been said, nothing of it twice. What the supervisor had taken from the pipe
// but not yet committed dies with it: one batch of lines, and no more.
function checkSaid(victim, order, said) {
    const numbers = said.map(text => Number(/^line (\d+)$/.exec(text)?.[1]));
    const what = `${victim.name}: ${JSON.stringify(said)}`;
    assert.ok(numbers.every((each, index) => each > (numbers[index - 1] ?? 0) && each <= order.count), what);
    const gaps = numbers.filter((each, index) => each !== (numbers[index - 1] ?? 0) + 1).length;
    const lost = (numbers.at(-1) ?? 0) - said.length;
    assert.ok(victim.supervisor ? gaps <= 1 && lost <= batchMax : lost === 0, what);
}

function endedAsScripted(victim, order, view, said) {
    if (order.count - said.length > (victim.supervisor ? batchMax : 0))
        return false;
    return order.code === 0 ? view.status === 'completed' :
        view.status === 'failed' && view.result.error.message.includes(`exited with code ${order.code}`);
}

// Returns whether the kill changed the run's end.
async function checkRun(lab, order, runId, victim, wasHit) {
    const view = await endOf(lab, runId, soonMs + 30000);
    const said = (await logOf(lab, runId)).filter(event => event.kind === 'text').map(event => event.text);
    checkSaid(victim, order, said);
    if (endedAsScripted(victim, order, view, said))
        return { view, changed: false };
    // Between the order to start the command and the record of its process a supervisor leaves none that could tell
    // whether it was started; it is not started twice.
    if (victim.supervisor && view.status === 'interrupted' && /not known whether/.test(view.result.error.message))
        return { view, changed: false, unknown: true };
    const what = `${victim.name}, ${JSON.stringify(order)}: ${JSON.stringify(view)}`;
    assert.ok(wasHit && victim.ends, `nobody touched it: ${what}`);
    assert.ok(['failed', 'interrupted'].includes(view.status), what);
    assert.equal(view.result.success, false, what);
    assert.match(view.result.error.message, victim.ends, what);
    return { view, changed: true };
}

test('killed anywhere at any moment, no acknowledged run is lost and nothing is left', { timeout: 3600000 }, t =>
    withLab({ model: false, agent: false }, async lab => {
        const random = chance(t);
        const known = new Map();
        const changes = {};
        let unknown = 0;
        for (let number = 0; number < rounds; number++) {
            const victim = victims[Math.floor(random() * victims.length)];
            const orders = Array.from({ length: 1 + Math.floor(random() * 3) }, () => makeOrder(random));
            const pid = await lab.supervisorPid();
            const mcp = await lab.connect();
            const asked = Promise.allSettled(orders.map(order => mcp.tool('opencode_run_task', { task: order.script, agent: 'shell' })));
            await pause(random() * 1200); // the moment is the point of this test
            if (victim.supervisor)
                await killNow(pid);
            const wasHit = victim.of ? hit(lab, victim.of, random) : false;
            if (victim.supervisor)
                await restart(lab);
            const since = Date.now();
            const answers = await asked;
            await mcp.kill();
            for (const answer of answers.filter(one => one.status === 'rejected'))
                assert.ok(victim.supervisor && /supervisor|connection/i.test(answer.reason.message), answer.reason.message);

            const acknowledged = answers.flatMap((answer, index) => answer.status === 'fulfilled' ?
                [{ runId: answer.value.runId, order: orders[index] }] : []);
            const ends = await Promise.all(acknowledged.map(one => checkRun(lab, one.order, one.runId, victim, wasHit)));
            const changed = ends.filter(end => end.changed);
            assert.ok(changed.length <= 1, `one was hit, ${changed.length} ended otherwise: ${JSON.stringify(changed)}`);
            for (const { view } of changed)
                assert.ok(view.completedAt - since < soonMs, `${victim.name}: the end was told ${view.completedAt - since} ms later`);
            unknown += ends.filter(end => end.unknown).length;
            acknowledged.forEach((one, index) => known.set(one.runId, ends[index].view.status));
            changes[victim.name] = (changes[victim.name] ?? 0) + changed.length;
        }
        t.diagnostic(`${known.size} runs, ended otherwise: ${JSON.stringify(changes)}, unknown whether begun: ${unknown}`);
        assert.ok(unknown <= 1 + rounds / 10);
        assert.ok(known.size >= rounds / 2, 'hardly any run was acknowledged');

        // All of them are known, as what they were told to be.
        for (const [runId, status] of known)
            assert.equal((await lab.ctlJson(['get', runId])).status, status);
        await waitFor('the ones that nobody was told of end as well', async () =>
            (await lab.ctlJson(['list', '--limit', '100'])).runs.every(one => finalStates.includes(one.status)), 30000, 200);
        await checkNothingLeft(lab);
    }));

// The supervisor is killed in the midst of making a sandbox: as soon as FILE is seen below the folder of all sandboxes, of all
// sessions or of the agent's work.
const points = {
    'the session has a folder': { below: 'sessions' },
    'the session has a workspace': { below: 'sessions', file: 'workspace' },
    'the sandbox has a runtime folder': { below: 'run/sandboxes' },
    'the lock is there': { below: 'run/sandboxes', file: 'lock' },
    'the control socket is there': { below: 'run/sandboxes', file: 'ctl.sock' },
    'bubblewrap has told of init': { below: 'run/sandboxes', file: 'status', filled: true },
    'the clone has begun': { below: 'sessions', file: 'workspace/sample/.git' },
    'the clone has its branch': { below: 'sessions', file: 'workspace/sample/.git/HEAD' },
    'the clone has its files': { below: 'sessions', file: 'workspace/sample/src/range.c' },
};

// Looks without a pause: events of the file system would come later than the moment itself.
async function seen(lab, { below, file = '', filled }, known) {
    const folder = path.join(lab.state, below);
    const end = Date.now() + 20000;
    while (Date.now() < end) {
        const names = fs.existsSync(folder) ? fs.readdirSync(folder).filter(name => !known.has(name)) : [];
        const found = names.map(name => fs.statSync(path.join(folder, name, file), { throwIfNoEntry: false })).find(Boolean);
        if (found && (!filled || found.size > 0))
            return true;
        await new Promise(setImmediate);
    }
    return false;
}

test('killed at each step of the making of a sandbox, the run is done once', { timeout: 1200000 }, t =>
    withLab({ model: false, agent: false }, async lab => {
        const repository = await lab.repository('sample');
        for (const [name, point] of Object.entries(points)) {
            const folder = path.join(lab.state, point.below);
            const known = new Set(fs.existsSync(folder) ? fs.readdirSync(folder) : []);
            const pid = await lab.supervisorPid();
            const mcp = await lab.connect();
            const asked = mcp.tool('opencode_run_task', { agent: 'shell', repository,
                task: 'echo once >>done.txt; wc -l <done.txt; git status --short' });
            assert.ok(await seen(lab, point, known), name);
            await killNow(pid);
            const [answer] = await Promise.allSettled([asked]);
            await restart(lab);
            await mcp.kill();
            if (answer.status === 'rejected') {
                t.diagnostic(`${name}: nobody was told of the run`);
                continue;
            }
            const view = await endOf(lab, answer.value.runId, 60000);
            assert.equal(view.status, 'completed', `${name}: ${JSON.stringify(view)}`);
            assert.equal(view.result.output.trim(), '1\n?? done.txt', name);
            assert.equal(view.verdict, 'changed', `${name}: ${JSON.stringify(view.evidence)}`);
            assert.equal(view.evidence.untracked, 1, name);
            await logOf(lab, answer.value.runId);
        }
        await waitFor('the ones that nobody was told of end as well', async () =>
            (await lab.ctlJson(['list', '--limit', '100'])).runs.every(one => finalStates.includes(one.status)), 60000, 200);
        await checkNothingLeft(lab);
    }));

test('killed while the command is started, it is never started twice', { timeout: 1200000 }, t =>
    withLab({ model: false, agent: false }, async lab => {
        const ends = {};
        for (let number = 0; number < (long ? 40 : 8); number++) {
            const known = new Set(fs.existsSync(path.join(lab.state, 'sessions')) ? fs.readdirSync(path.join(lab.state, 'sessions')) : []);
            const pid = await lab.supervisorPid();
            const mcp = await lab.connect();
            const { runId, sessionId } = await mcp.tool('opencode_run_task', { agent: 'shell', repository: await lab.repository(`sample ${number}`),
                task: 'echo once >>begun.txt' });
            const file = `workspace/sample_${number}/begun.txt`;
            assert.ok(await seen(lab, { below: 'sessions', file }, known));
            await killNow(pid);
            await restart(lab);
            await mcp.close();
            const view = await endOf(lab, runId, 60000);
            ends[view.status] = (ends[view.status] ?? 0) + 1;
            if (view.status !== 'completed') {
                assert.equal(view.status, 'interrupted', JSON.stringify(view));
                assert.match(view.result.error.message, /not known whether/);
            }
            assert.equal(fs.readFileSync(path.join(lab.state, 'sessions', sessionId, file), 'utf8'), 'once\n');
        }
        t.diagnostic(JSON.stringify(ends));
        await checkNothingLeft(lab);
    }));

// A sandbox that lives but can't be taken up again is not left to itself.
const spoils = {
    'its init is stopped': lab => process.kill(initsOf(lab)[0].pid, 'SIGSTOP'),
    'its control socket is gone': (lab, folder) => fs.unlinkSync(path.join(folder, 'ctl.sock')),
};
for (const [name, spoil] of Object.entries(spoils)) {
    test(`a sandbox that can't be taken up is ended: ${name}`, { timeout: 300000 }, () =>
        withLab({ model: false, agent: false }, async lab => {
            const mcp = await lab.connect();
            const { runId, sessionId } = await mcp.tool('opencode_run_task', { agent: 'shell', task: 'echo ready; exec sleep 600' });
            await waitFor('it is at work', async () => (await logOf(lab, runId)).some(event => event.text === 'ready'), 60000, 50);
            await mcp.close();
            await killNow(await lab.supervisorPid());
            await spoil(lab, path.join(lab.state, 'run', 'sandboxes', sessionId));
            await restart(lab);
            const view = await endOf(lab, runId, 60000);
            assert.equal(view.status, 'interrupted', JSON.stringify(view));
            assert.ok(view.result.error.message && view.result.error.hint, JSON.stringify(view));
            await checkNothingLeft(lab);
        }));
}

// The sandbox that removes a session's files belongs to no run.
test('killed while a session is removed, it can be removed again', { timeout: 300000 }, () =>
    withLab({ model: false, agent: false }, async lab => {
        const mcp = await lab.connect();
        const many = 'mkdir many && cd many && seq 5000 | xargs touch';
        const { runId, sessionId } = await mcp.tool('opencode_run_task', { agent: 'shell', task: many });
        assert.equal((await endOf(lab, runId, 60000)).status, 'completed');
        await mcp.close();
        const pid = await lab.supervisorPid();
        const removal = lab.ctl(['rm', sessionId]);
        assert.ok(await seen(lab, points['bubblewrap has told of init'], new Set()));
        await waitFor('its sandbox works', () => initsOf(lab).length === 1, 10000, 1);
        await killNow(pid);
        assert.notEqual((await removal).code, 0, 'the removal can\'t have been reported as done');
        await restart(lab);
        await checkNothingLeft(lab);
        const again = await lab.ctl(['rm', sessionId]);
        assert.equal(again.code, 0, again.stderr);
        assert.ok(!fs.existsSync(path.join(lab.state, 'sessions', sessionId)));
        assert.deepEqual((await lab.ctlJson(['sessions'])).sessions ?? [], []);
        await checkNothingLeft(lab);
    }));

// A run that is acknowledged while its session goes would go with it.
test('a session that is being removed takes no new run', { timeout: 300000 }, () =>
    withLab({ model: false, agent: false }, async lab => {
        const mcp = await lab.connect();
        const { runId, sessionId } = await mcp.tool('opencode_run_task', { agent: 'shell', task: 'mkdir many && cd many && seq 5000 | xargs touch' });
        assert.equal((await endOf(lab, runId, 60000)).status, 'completed');
        const removal = lab.ctl(['rm', sessionId]);
        await waitFor('its sandbox works', () => initsOf(lab).length === 1, 10000, 1);
        const more = await mcp.call('opencode_run_task', { agent: 'shell', task: 'true', sessionId });
        const again = await lab.ctl(['rm', sessionId]);
        assert.equal((await removal).code, 0);
        assert.equal(more.isError, true, JSON.stringify(more));
        assert.match(more.content[0].text, /being deleted|not known/);
        assert.match(again.stderr, /being deleted|not known/);
        await checkNothingLeft(lab);
    }));
