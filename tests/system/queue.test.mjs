// Many runs at once: the queue keeps its order and its limit, costs next to nothing, and a repeated request is the same run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkAsleep, finalStates, statusNumber, waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, killNow, restart } from './living.mjs';

const count = 20;
const limit = 4;

// The most that lived at the same time, by when each began and ended.
function mostAtOnce(runs) {
    const edges = runs.flatMap(run => [[run.startedAt, 1], [run.completedAt, -1]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let now = 0;
    return Math.max(...edges.map(([, change]) => now += change));
}

test('twenty runs of an agent, four at a time, in order and in little memory', { timeout: 1200000 }, t => withLab(
    { bin: 'release', config: () => ({ limits: { concurrentRuns: limit, freeMemoryMiB: 0, memoryPressurePercent: 0 },
        agents: { startSeconds: 600 }, retention: { mirrorDays: 0 } }) }, async lab => { // or it looks for old mirrors a minute after the start
        const clients = [await lab.connect(), await lab.connect({ era: 'modern' })];
        const repository = await lab.repository();
        const started = [];
        for (let number = 0; number < count; number++)
            started.push(await clients[number % 2].tool('opencode_run_task', { task: `TASK-NOTE number ${number}`, repository }));
        const pid = await lab.supervisorPid();
        const sizes = [];
        const live = await waitFor('all have ended', async () => {
            sizes.push(statusNumber(pid, 'VmRSS'));
            const status = await lab.ctlJson(['status']);
            const { queued, started: preparing, running, waiting, completed } = status.runs;
            assert.ok(preparing + running + waiting <= limit, JSON.stringify(status.runs));
            assert.equal(queued + preparing + running + waiting + completed, count, JSON.stringify(status.runs));
            return completed === count && status;
        }, 900000, 250);
        assert.equal(live.runs.completed, count);
        const { runs } = await lab.ctlJson(['list', '--limit', '100']);
        const inOrder = [...runs].reverse();
        assert.deepEqual(inOrder.map(run => run.runId), started.map(run => run.runId));
        const begins = inOrder.map(run => run.startedAt);
        assert.deepEqual(begins, [...begins].sort((a, b) => a - b), 'one overtook another in the queue');
        assert.equal(mostAtOnce(inOrder), limit);
        for (const run of inOrder) {
            assert.equal(run.success, true, JSON.stringify(run));
            assert.equal(run.verdict, 'changed');
        }
        // Each worked on its own: the model was asked twice for each, and once for a title.
        for (let number = 0; number < count; number++) {
            const asked = lab.upstream.requests.filter(request => new RegExp(`TASK-NOTE number ${number}\\b`).test(request.body) &&
                !request.body.includes('title generator'));
            assert.equal(asked.length, 2, `run ${number}: ${asked.length} requests`);
        }
        t.diagnostic(`resident at most ${Math.max(...sizes)} kB`);
        assert.ok(Math.max(...sizes) < 20480, `${Math.max(...sizes)} kB`);
        await checkNothingLeft(lab);
        await checkAsleep(pid, 5);
    }));

const quick = { model: false, agent: false };

test('a key makes one run of many requests, whoever asks, at once and later', { timeout: 600000 }, () => withLab(quick, async lab => {
    const key = 'order 66, "once"';
    const task = 'mkfifo /tmp/gate; read line < /tmp/gate; echo done';
    const body = { task, agent: 'shell', title: 'only one', idempotencyKey: key };
    const clients = await Promise.all([0, 1, 2, 3].map(number => lab.connect({ era: number % 2 ? 'modern' : 'legacy' })));
    const ways = {
        mcp: number => clients[number % 4].tool('opencode_run_task', body),
        ctl: () => lab.ctlJson(['run', '--no-repo', '--agent', 'shell', '--title', 'only one', '--key', key, task]),
        socket: () => lab.ctlJson(['call', 'run.create', JSON.stringify(body)]),
    };
    const together = await Promise.all(Array.from({ length: 12 }, (_, number) => Object.values(ways)[number % 3](number)));
    const ids = new Set(together.map(run => run.runId));
    assert.equal(ids.size, 1, JSON.stringify([...ids]));
    const [runId] = ids;
    const once = async () => assert.equal((await lab.ctlJson(['list'])).runs.filter(run => run.title === 'only one').length, 1);
    await once();

    // Another request under the key: refused by its name, everywhere, and nothing is made.
    const differently = { task: `${task}; true`, model: 'other/model', branch: undefined, timeoutMinutes: 7, title: 'only two' };
    for (const [name, value] of Object.entries(differently).filter(([, value]) => value !== undefined)) {
        const result = await clients[0].call('opencode_run_task', { ...body, [name]: value });
        assert.ok(result.isError, name);
        assert.match(result.content[0].text, /idempotencyKey.*order 66, "once".*different request.*run_/, name);
        const raw = await lab.ctl(['call', 'run.create', JSON.stringify({ ...body, [name]: value })]);
        assert.equal(raw.code, 5, name);
        assert.match(raw.stderr, /order 66/);
    }
    const refused = await lab.ctl(['run', '--no-repo', '--agent', 'shell', '--title', 'only three', '--key', key, task]);
    assert.equal(refused.code, 5);
    assert.match(refused.stderr, /order 66, "once".*different request/);
    assert.equal((await lab.ctlJson(['list'])).runs.length, 1);

    // The key outlives the supervisor, and the run.
    await killNow(await lab.supervisorPid());
    await restart(lab);
    for (const ask of [ways.ctl, ways.socket])
        assert.equal((await ask()).runId, runId);
    await waitFor('it works', async () => (await lab.exec(runId, ['sh', '-c', 'echo go > /tmp/gate'])).code === 0, 60000);
    assert.equal((await lab.ended(runId)).status, 'completed');
    const again = await (await lab.connect()).tool('opencode_run_task', body);
    assert.equal(again.runId, runId);
    assert.equal(again.status, 'completed');
    await once();
    // Without a key each request is a run.
    const { idempotencyKey: _, ...without } = { ...body, task: 'true' };
    const two = await Promise.all([0, 1].map(() => clients[0].tool('opencode_run_task', without).catch(() => lab.ctlJson(['call', 'run.create', JSON.stringify(without)]))));
    assert.notEqual(two[0].runId, two[1].runId);
    for (const one of two)
        assert.ok(finalStates.includes((await lab.ended(one.runId)).status));
}));
