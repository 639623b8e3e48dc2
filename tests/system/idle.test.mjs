// What it costs when nothing happens: no wake-up, little memory; and how soon sandbox-mcp answers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkAsleep, long, median, run, statusNumber, withLab } from './lab.mjs';

const seconds = long ? 30 : 5;

async function checkSleeping(t, pid) {
    await checkAsleep(pid, seconds);
    const traced = await run('timeout', ['-s', 'INT', `${seconds}`, 'strace', '-f', '-p', `${pid}`], { timeoutMs: seconds * 1000 + 10000 });
    if (/Operation not permitted|not found|No such file/.test(traced.stderr)) {
        t.diagnostic('strace may not attach here');
        return;
    }
    // strace's own words stand behind the call that did not return.
    const calls = traced.stderr.split('\n').map(line => line.replace(/strace: .*$/, '<detached')).filter(line => /\w\(|resumed/.test(line));
    // One line for each thread, of the call that it sleeps in and that never returned.
    for (const line of calls)
        assert.match(line, /epoll_p?wait|futex/, `woke up: ${traced.stderr}`);
    assert.ok(calls.some(line => /epoll_p?wait/.test(line)), traced.stderr);
    assert.ok(calls.every(line => !/ = /.test(line) || / <detached/.test(line)), `woke up: ${traced.stderr}`);
}

test('an idle supervisor sleeps and is small', { timeout: 600000 }, t => withLab({ bin: 'release', secret: false, config: () => ({ retention: { mirrorDays: 0 } }) }, async lab => {
    const pid = lab.supervisor.pid;
    await checkSleeping(t, pid);
    const resident = statusNumber(pid, 'VmRSS');
    t.diagnostic(`resident when new: ${resident} kB`);
    assert.ok(resident < 10240, `${resident} kB`);

    // The same after a run, with a client connected.
    await lab.setSecret();
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE please', repository: await lab.repository() });
    assert.equal((await mcp.result(runId)).status, 'completed');
    await checkSleeping(t, pid);
    const after = statusNumber(pid, 'VmRSS');
    t.diagnostic(`resident after a run: ${after} kB`);
    assert.ok(after < 16384, `${after} kB`);
}));

test('sandbox-mcp answers at once', { timeout: 300000 }, t => withLab({ bin: 'release', model: true, secret: false }, async lab => {
    for (const era of ['legacy', 'modern']) {
        const times = [];
        const pids = [];
        for (let count = 0; count < 21; count++) {
            const client = lab.mcp({ era });
            await client.initialize();
            times.push(performance.now() - client.startedAt);
            pids.push(statusNumber(client.child.pid, 'VmRSS'));
            await client.close();
        }
        t.diagnostic(`first answer, ${era}: median ${median(times).toFixed(1)} ms, resident ${median(pids)} kB`);
        // Other work on the machine only adds to a time, so the best one is the program's own.
        assert.ok(Math.min(...times) < 20, `${times}`);
    }
}));

test('sandbox-mcp answers at once when no supervisor runs', { timeout: 300000 }, t =>
    withLab({ bin: 'release', supervisor: false }, async lab => {
        const client = lab.mcp();
        await client.initialize();
        const time = performance.now() - client.startedAt;
        t.diagnostic(`first answer without a supervisor: ${time.toFixed(1)} ms`);
        assert.ok(time < 100);
        await client.request('tools/list');
        await client.close();
    }));
