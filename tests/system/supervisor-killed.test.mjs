// The supervisor is killed (-9). What was acknowledged is still known after a restart, and its state is true.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { finalStates, long, pause, rangeTask, sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';

// What a run may truthfully say after its supervisor died at any moment, once it has ended.
function checkEnd(view) {
    if (view.status === 'completed') {
        assert.equal(view.verdict, 'changed');
        assert.equal(view.evidence.commits, 1);
        return;
    }
    assert.ok(['interrupted', 'failed'].includes(view.status), view.status);
    assert.equal(view.result.success, false);
    assert.ok(view.result.error?.message, JSON.stringify(view));
}

test('killed between the acknowledgement and the start of the sandbox', { timeout: 600000 }, () => withLab({}, async lab => {
    const repository = await lab.repository();
    const pid = await lab.supervisorPid();
    const mcp = await lab.connect();
    const { runId, sessionId } = await mcp.tool('opencode_run_task', { task: rangeTask, repository });
    process.kill(pid, 'SIGKILL');
    await lab.supervisor.exited;
    await mcp.kill();

    await lab.startSupervisor();
    const list = await lab.ctlJson(['list']);
    const listed = list.runs.find(one => one.runId === runId);
    assert.ok(listed, 'the acknowledged run is listed');
    assert.equal(listed.sessionId, sessionId);
    const next = await lab.connect();
    const view = await next.result(runId);
    // Nothing of the agent had happened yet, so the run is done again from the start.
    assert.equal(view.status, 'completed', JSON.stringify(view));
    checkEnd(view);
    assert.equal(view.task, rangeTask);
}));

test('killed in the middle of a run', { timeout: 600000 }, () => withLab({}, async lab => {
    const repository = await lab.repository();
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD please', repository });
    await waitFor('the agent holds', async () => (await lab.exec(runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);
    assert.equal((await mcp.tool('opencode_get_result', { runId })).status, 'running');
    const before = await lab.ctlJson(['logs', runId]);
    await lab.killSupervisor();
    await mcp.kill();

    await lab.startSupervisor();
    const next = await lab.connect();
    const listed = (await next.tool('opencode_list_runs', {})).runs.find(one => one.runId === runId);
    assert.ok(listed, 'the run is listed');
    // It goes on in its sandbox, as if nothing had been.
    const view = await waitFor('the run settles', async () => {
        const now = await next.tool('opencode_get_result', { runId });
        if (finalStates.includes(now.status))
            return now;
        await lab.exec(runId, ['touch', '/tmp/release']);
        return null;
    }, 240000, 500);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.evidence.untracked, 1);
    // Its log holds what was said before.
    const after = await lab.ctlJson(['logs', runId]);
    assert.ok(after.events.length >= before.events.length - 5 && after.events.length > 0);
    await waitFor('nothing of it is left running', () => sandboxedProcessesOf(lab.id).length === 0, 15000);
}));

// At many moments of a run's life, from the acknowledgement to the end.
test('killed at any moment', { timeout: 900000 }, () => withLab({}, async lab => {
    const repository = await lab.repository();
    const delays = long ? [...Array(30).keys()].map(number => number * 250) : [50, 400, 1500, 3500];
    for (const delay of delays) {
        const pid = await lab.supervisorPid();
        const mcp = await lab.connect();
        const { runId } = await mcp.tool('opencode_run_task', { task: rangeTask, repository });
        await pause(delay); // the moment is the point of this test
        process.kill(pid, 'SIGKILL');
        await lab.supervisor.exited;
        await mcp.kill();
        await lab.startSupervisor();
        const next = await lab.connect();
        checkEnd(await next.result(runId));
        await next.close();
    }
    await waitFor('nothing is left running', () => sandboxedProcessesOf(lab.id).length === 0, 15000);
}));

test('a supervisor that finds another one running ends, and says so', () => withLab({ model: false, agent: false }, async lab => {
    const second = await lab.startSupervisor({ wait: false });
    const [code] = await second.exited;
    assert.notEqual(code, 0);
    assert.match(lab.log('supervisor'), /running|already|another/i);
    assert.equal((await lab.ctl(['status'])).code, 0);
}));
