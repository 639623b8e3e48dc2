// Without a working bubblewrap a run is still acknowledged at once, and then says what is wrong and what to install.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { finalStates, median, processesOf, waitFor, withLab } from './lab.mjs';

function script(lab, name, text) {
    const file = lab.path('work', name);
    fs.writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return file;
}

// The sandbox tool is run under another uid when the supervisor is root: the way to it must be open.
const open = lab => {
    for (const folder of [lab.root, lab.path('work')])
        fs.chmodSync(folder, 0o755);
};

const cases = [
    { name: 'missing', make: lab => lab.path('work', 'no-such-bwrap'), hint: /bubblewrap/ },
    { name: 'hanging', make: lab => script(lab, 'hanging-bwrap', 'exec sleep 600'), hint: /./ },
    { name: 'failing', make: lab => script(lab, 'failing-bwrap', 'echo "bwrap: setting up uid map: Permission denied" >&2; exit 1'),
        hint: /uid map|user namespace/i },
];

for (const { name, make, hint } of cases) {
    test(`bubblewrap is ${name}`, { timeout: 600000 }, () => withLab({ bin: 'release', model: true,
        config: lab => { open(lab); return { sandbox: { bwrap: make(lab) } }; } }, async lab => {
        const repository = await lab.repository();
        const mcp = await lab.connect();
        const times = [];
        const runs = [];
        for (let count = 0; count < 5; count++) {
            const start = performance.now();
            runs.push(await mcp.tool('opencode_run_task', { task: 'TASK-NOTE please', repository }));
            times.push(performance.now() - start);
        }
        console.log(`bubblewrap ${name}: acknowledged after ${times.map(time => time.toFixed(1)).join(', ')} ms`);
        assert.ok(median(times) < 200, `acknowledged after ${times} ms`);

        for (const { runId } of runs) {
            const view = await mcp.result(runId);
            assert.equal(view.status, 'failed', JSON.stringify(view));
            const error = view.result.error;
            assert.equal(error.phase, 'sandbox', JSON.stringify(error));
            assert.match(`${error.message} ${error.hint}`, hint);
            assert.match(`${error.hint}`, /install|enable|apt|sysctl|doctor/i);
        }
        // The tools answer as quickly with the failed runs there.
        const list = await mcp.tool('opencode_list_runs', { status: 'failed' });
        assert.equal(list.runs.length, 5);
        await waitFor('no fake bubblewrap is left running',
            () => !processesOf(lab.id).some(one => /bwrap|sleep 600/.test(one.command)), 10000);
    }));
}

test('doctor says what is missing', () => withLab({ model: true,
    config: lab => ({ sandbox: { bwrap: lab.path('work', 'no-such-bwrap') } }) }, async lab => {
    const result = await lab.ctl(['doctor']);
    assert.match(result.stdout + result.stderr, /bubblewrap/);
    assert.notEqual(result.code, 0);
}));

// A run that waits behind one whose sandbox hangs can be cancelled, and so can that one.
test('a run can be cancelled while bubblewrap hangs', { timeout: 300000 }, () => withLab({ bin: 'release',
    config: lab => { open(lab); return { sandbox: { bwrap: script(lab, 'hanging-bwrap', 'exec sleep 600') }, limits: { concurrentRuns: 1 } }; } },
async lab => {
    const mcp = await lab.connect();
    const first = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE one' });
    const second = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE two' });
    for (const { runId } of [second, first]) {
        await mcp.tool('opencode_cancel_run', { runId });
        const view = await mcp.result(runId, { timeoutMs: 15000 });
        assert.ok(finalStates.includes(view.status));
        assert.equal(view.status, 'cancelled');
    }
}));
