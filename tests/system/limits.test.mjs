// What a run may use of the machine: each bomb is held, is named in the run's error, and harms neither a neighbour nor what is
// left of the machine afterwards.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { alive, finalStates, pause, sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, logOf } from './living.mjs';

const shell = { model: false, agent: false };
const limits = { memoryMiB: 256, processes: 64, diskMiB: 64, tmpMiB: 32, openFiles: 128, outputMiB: 2, freeDiskMiB: 0, freeMemoryMiB: 0 };
const lab = limited => ({ ...shell, config: () => ({ limits: { ...limits, ...limited } }) });

const begin = async (lab, script) => (await lab.ctlJson(['run', '--agent', 'shell', script])).runId;
const ended = (lab, runId) => waitFor(`${runId} ends`, async () => {
    const view = await lab.ctlJson(['get', runId]);
    return finalStates.includes(view.status) && view;
}, 120000, 100);

// Runs SCRIPT beside a neighbour that must not notice.
async function attack(lab, script) {
    const neighbour = await begin(lab, 'for i in 1 2 3 4 5 6; do sleep 0.5; head -c 1000000 /dev/zero > file; (true); done; echo unharmed');
    const view = await ended(lab, await begin(lab, script));
    const other = await ended(lab, neighbour);
    assert.equal(other.status, 'completed', JSON.stringify(other));
    assert.match(other.result.output, /unharmed/);
    await checkNothingLeft(lab);
    return { view, events: await logOf(lab, view.runId) };
}

// Where the machine has no control groups for us, memory is not limited and counted hits are unknown.
const grouped = lab => /by cgroup/.test(lab.log('supervisor'));

test('bombs are held and named', { timeout: 600000 }, t => withLab(lab(), async lab => {
    await t.test('of processes', async t => {
        const { view, events } = await attack(lab, 'for i in $(seq 500); do sleep 600 & done; wait');
        assert.equal(view.status, 'failed');
        if (!grouped(lab))
            return t.diagnostic('no control groups: a fork that fails is not counted');
        assert.equal(view.result?.error?.code, 'too_many_processes', JSON.stringify(view));
        assert.match(view.result.error.message, /limits\.processes is 64/);
        assert.ok(events.some(event => event.data?.limit === 'processes' && event.data.times > 0));
    });
    await t.test('of memory', { skip: !grouped(lab) && 'no control groups' }, async () => {
        const { view, events } = await attack(lab, 'head -c 900m /dev/zero | tail -c 800m >/dev/null');
        assert.equal(view.status, 'failed');
        assert.equal(view.result?.error?.code, 'out_of_memory', JSON.stringify(view));
        assert.match(view.result.error.message, /limits\.memoryMiB is 256/);
        assert.ok(events.some(event => event.data?.limit === 'memory' && event.data.times > 0));
    });
    await t.test('of memory, in a run that goes on without it', { skip: !grouped(lab) && 'no control groups' }, async () => {
        const { view, events } = await attack(lab, 'head -c 900m /dev/zero | tail -c 800m >/dev/null; sleep 3; echo went on');
        assert.equal(view.status, 'completed', JSON.stringify(view));
        assert.ok(events.some(event => event.data?.limit === 'memory'));
    });
    for (const folder of ['.', '$HOME'])
        await t.test(`of files in ${folder}`, async () => {
            const { view } = await attack(lab,
                `cd ${folder}; i=0; while [ $i -lt 100 ]; do i=$((i+1)); head -c 4000000 /dev/zero > f$i; sleep 0.1; done; sleep 60; rm -f f*`);
            assert.equal(view.status, 'failed');
            assert.equal(view.result?.error?.code, 'disk_full', JSON.stringify(view));
            assert.match(view.result.error.message, /limits\.diskMiB is 64/);
        });
    await t.test('of one large file', async () => {
        const { view } = await attack(lab, 'head -c 200000000 /dev/zero > big; ls -l big; exit 3');
        assert.equal(view.status, 'failed');
        const size = fs.statSync(`${lab.state}/sessions/${view.sessionId}/workspace/big`).size;
        assert.ok(size <= 64 << 20, `${size} bytes`);
    });
    await t.test('of /tmp', async () => {
        const { view } = await attack(lab, 'head -c 100m /dev/zero > /tmp/x && echo written; du -m /tmp/x; ! grep -q x /nothing');
        assert.doesNotMatch(view.result?.output ?? '', /written/);
    });
    await t.test('of descriptors', async () => {
        const { view } = await attack(lab, 'bash -c \'for i in $(seq 1000); do exec {fd}</dev/null || { echo "held at $i"; exit 0; }; done; exit 9\'');
        assert.notEqual(view.result?.error?.message?.includes('code 9'), true, JSON.stringify(view));
    });
    await t.test('of what is left running', async () => {
        const { view } = await attack(lab, 'for i in 1 2 3; do nohup setsid sleep 1000 >/dev/null 2>&1 & done; echo done');
        assert.equal(view.status, 'completed', JSON.stringify(view));
        await waitFor('nothing runs on', () => sandboxedProcessesOf(lab.id).length === 0, 10000);
    });
    await t.test('of signals', async () => {
        const { view } = await attack(lab, 'sleep 100 & kill -STOP -1; kill -CONT -1; echo through');
        assert.equal(view.status, 'completed', JSON.stringify(view));
    });
}));

test('a flood of output ends its run, and the supervisor stays small', { timeout: 300000 }, () => withLab({ ...lab(), bin: 'release' }, async lab => {
    const memory = pid => Number(/^RssAnon:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
    const pid = await lab.supervisorPid();
    const before = memory(pid);
    let most = 0;
    let over = false;
    const watching = (async () => {
        while (!over) {
            if (alive(pid))
                most = Math.max(most, memory(pid));
            await pause(20);
        }
    })();
    const { view, events } = await attack(lab, 'yes');
    over = true;
    await watching;
    assert.equal(view.status, 'failed');
    assert.equal(view.result?.error?.code, 'output_limit', JSON.stringify(view));
    assert.match(view.result.error.message, /limits\.outputMiB, 2 MiB/);
    assert.equal(events.filter(event => event.data?.limit === 'output').length, 1);
    // Its own memory: the store's pages are a file's.
    assert.ok(most - before < 64 << 10, `from ${before} to ${most} KiB`);
}));

test('a run waits while the machine is short, says for what, and can be cancelled', { timeout: 300000 }, () =>
    withLab(lab({ freeMemoryMiB: 1 << 24 }), async lab => {
        const runId = await begin(lab, 'true');
        await waitFor('it says why it waits', async () => (await logOf(lab, runId)).some(event => /limits\.freeMemoryMiB is 16777216/.test(event.text)));
        assert.equal((await lab.ctlJson(['get', runId])).status, 'queued');
        await lab.ctl(['cancel', runId]);
        assert.equal((await ended(lab, runId)).status, 'cancelled');
    }));
