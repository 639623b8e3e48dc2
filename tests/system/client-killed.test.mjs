// A client that is killed right after its run was acknowledged loses nothing: the run goes on, and a new client gets the result.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import readline from 'node:readline';
import { once } from 'node:events';
import { test } from 'node:test';
import { alive, descendantsOf, killHard, rangeTask, testsFolder, waitFor, withLab } from './lab.mjs';

test('sandbox-mcp is killed right after the acknowledgement', { timeout: 600000 }, () => withLab({}, async lab => {
    const repository = await lab.repository();
    const first = await lab.connect();
    const { runId } = await first.tool('opencode_run_task', { task: rangeTask, repository });
    await first.kill();

    const second = await lab.connect();
    const view = await second.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.verdict, 'changed');
    assert.match(view.result.output, /fix\/range-sum/);
    const list = await second.tool('opencode_list_runs', {});
    assert.equal(list.runs[0].runId, runId);
}));

// Clients kill their servers' whole families: the supervisor that sandbox-mcp started must not be among them.
test('a client that started the supervisor dies with all its descendants', { timeout: 600000 }, () =>
    withLab({ supervisor: false }, async lab => {
        // The key is stored first, by a supervisor that then ends.
        await lab.startSupervisor();
        await lab.setSecret();
        const stored = await lab.supervisorPid();
        await lab.ctl(['stop']);
        await waitFor('the first supervisor is gone', () => !alive(stored));

        const repository = await lab.repository();
        const client = spawn(process.execPath, [path.join(testsFolder, 'system/client-process.mjs'), rangeTask, repository,
            lab.recorded.command, ...lab.recorded.args], { env: lab.env(), cwd: lab.path('work'), stdio: ['ignore', 'pipe', 'inherit'], detached: true });
        const exited = once(client, 'exit');
        const [runId] = await once(readline.createInterface({ input: client.stdout }), 'line');
        assert.match(runId, /^run_/);
        for (const pid of [...descendantsOf(client.pid), client.pid])
            killHard(pid);
        killHard(-client.pid); // the group, with what has just been started in it
        await exited;

        const next = await lab.connect();
        const view = await next.result(runId);
        assert.equal(view.status, 'completed', JSON.stringify(view));
    }));
