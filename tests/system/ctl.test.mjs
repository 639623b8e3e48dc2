// sandboxctl: every command, its exit codes, and that its JSON is what the MCP tools answer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alive, rangeTask, waitFor, withLab } from './lab.mjs';

test('the commands, from an empty installation to a finished run', { timeout: 600000 }, () => withLab({ secret: false }, async lab => {
    // Status.
    const status = await lab.ctlJson(['status']);
    assert.equal(status.pid, lab.supervisor.pid);
    assert.equal(status.socket, lab.socket);
    assert.ok(Number.isInteger(status.uptimeSeconds));
    assert.match(status.version, /^\d+\.\d+/);
    const plain = await lab.ctl(['status']);
    assert.equal(plain.code, 0);
    assert.ok(plain.stdout.includes(`${status.pid}`));

    // Secrets: the value comes by standard input only and is shown by nothing.
    assert.deepEqual((await lab.ctlJson(['secret', 'list'])).secrets, []);
    await lab.setSecret();
    const secrets = await lab.ctlJson(['secret', 'list']);
    assert.equal(secrets.secrets[0].name, 'ANTHROPIC_API_KEY');
    assert.equal(secrets.secrets[0].source, 'stored');
    assert.ok(!JSON.stringify(secrets).includes(lab.secret));
    assert.equal((await lab.ctl(['secret', 'set', 'lower case'], { input: 'x' })).code, 2 /* usage */);
    await lab.setSecret('short lived', 'OTHER_KEY');
    assert.equal((await lab.ctl(['secret', 'rm', 'OTHER_KEY'])).code, 0);
    assert.equal((await lab.ctl(['secret', 'rm', 'OTHER_KEY'])).code, 4);
    const services = (await lab.ctlJson(['services'])).services;
    assert.equal(services.find(one => one.name === 'anthropic').secretPresent, true);
    assert.equal(services.find(one => one.name === 'github').secretPresent, false);

    // A run, followed to its end.
    const repository = await lab.repository();
    const waited = await lab.ctl(['run', '--wait', '--repo', repository, '--title', 'The sum', rangeTask], { timeoutMs: 300000 });
    assert.equal(waited.code, 0, waited.stderr + waited.stdout);
    assert.match(waited.stdout, /fix\/range-sum/);
    const runId = /run_[0-9A-Za-z]{26}/.exec(waited.stdout)[0];

    // Each command's JSON is what the tool answers.
    const mcp = await lab.connect();
    assert.deepEqual(await lab.ctlJson(['get', runId]), await mcp.tool('opencode_get_result', { runId }));
    assert.deepEqual(await lab.ctlJson(['list']), await mcp.tool('opencode_list_runs', {}));
    const got = await lab.ctl(['get', runId]);
    assert.match(got.stdout, /completed/);
    assert.match((await lab.ctl(['list'])).stdout, /The sum/);
    assert.deepEqual(await lab.ctlJson(['get', 'last']), await lab.ctlJson(['get', runId]));

    const logs = await lab.ctlJson(['logs', runId]);
    assert.deepEqual(logs.events.map(event => event.number), logs.events.map((_, index) => index + 1));
    assert.match((await lab.ctl(['logs', runId])).stdout, /PASS range_sum|sh tests\/run\.sh/);
    const followed = await lab.ctl(['logs', '-f', runId]);
    assert.equal(followed.code, 0); // the run has ended, so following it ends too
    const diff = await lab.ctlJson(['diff', runId]);
    assert.equal((await lab.ctl(['diff', runId])).stdout.trim(), diff.diff.trim());
    const audit = await lab.ctlJson(['audit']);
    assert.ok(audit.records.length > 0);

    // In a checkout the repository is that one.
    const here = await lab.ctlJson(['run', '--wait', 'TASK-NOTE please'], { cwd: repository, timeoutMs: 300000 });
    assert.equal(here.status, 'completed', JSON.stringify(here));
    assert.equal(here.repository, repository);

    // A run in its middle: exec, logs -f, cancel.
    const held = await lab.ctlJson(['run', '--repo', repository, 'TASK-HOLD please']);
    await waitFor('the agent holds', async () => (await lab.exec(held.runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);
    const inside = await lab.exec(held.runId, ['sh', '-c', 'pwd; echo problem >&2; exit 7']);
    assert.equal(inside.stdout, '/workspace/sample_1\n'); // the repository's folder
    assert.equal(inside.stderr, 'problem\n');
    assert.equal(inside.code, 7);
    const follow = lab.ctl(['logs', '-f', held.runId], { timeoutMs: 300000 });
    assert.equal((await lab.ctl(['cancel', held.runId])).code, 0);
    assert.match((await follow).stdout, /cancelled/);
    assert.equal((await mcp.result(held.runId)).status, 'cancelled');
    assert.notEqual((await lab.exec(held.runId, ['true'])).code, 0);

    // Sessions, and that deleting one takes its runs along.
    const sessions = (await lab.ctlJson(['sessions'])).sessions;
    assert.equal(sessions.length, 3);
    const first = sessions.find(one => one.lastRunId === runId);
    assert.equal((await lab.ctl(['rm', first.sessionId])).code, 0);
    assert.equal((await lab.ctl(['get', runId])).code, 4);
    assert.equal((await lab.ctlJson(['sessions'])).sessions.length, 2);
    assert.deepEqual([...lab.files(lab.state)].filter(file => file.includes(first.sessionId)), []);

    // The raw socket.
    const raw = await lab.ctl(['call', 'run.list', '{"limit":1}']);
    assert.equal(JSON.parse(raw.stdout).runs.length, 1);
    assert.match((await lab.ctl(['--trace', 'call', 'system.status', '{}'])).stderr, /system\.status/);
    assert.notEqual((await lab.ctl(['call', 'no.such', '{}'])).code, 0);
    assert.notEqual((await lab.ctl(['call', 'run.list', '{"limit":1,"unknown":2}'])).code, 0);

    const doctor = await lab.ctl(['doctor']);
    assert.equal(doctor.code, 0, doctor.stdout + doctor.stderr);
    assert.match(doctor.stdout, /bubblewrap/i);
    assert.match(doctor.stdout, /opencode/i);
}));

test('exit codes', { timeout: 300000 }, () => withLab({ secret: false }, async lab => {
    const unknown = `run_${'0'.repeat(26)}`;
    assert.equal((await lab.ctl([])).code, 2);
    assert.equal((await lab.ctl(['dance'])).code, 2);
    assert.equal((await lab.ctl(['get'])).code, 2);
    assert.equal((await lab.ctl(['run'])).code, 2);
    assert.equal((await lab.ctl(['--help'])).code, 0);
    assert.equal((await lab.ctl(['get', unknown])).code, 4);
    assert.equal((await lab.ctl(['cancel', unknown])).code, 4);
    assert.equal((await lab.ctl(['logs', unknown])).code, 4);
    assert.equal((await lab.ctl(['answer', unknown, 'request', 'yes'])).code, 4);
    assert.equal((await lab.exec(unknown, ['true'])).code, 4);
    const refused = await lab.ctl(['run', '--wait', 'TASK-PLAIN please']); // there is no key
    assert.ok([1, 5].includes(refused.code), `${refused.code} ${refused.stderr}`);
    await lab.setSecret();
    const failed = await lab.ctl(['run', '--wait', 'TASK-BAD-REQUEST please']);
    assert.equal(failed.code, 1, failed.stdout + failed.stderr);
    await lab.ctl(['stop']);
    await waitFor('the supervisor is gone', () => !alive(lab.supervisor.pid));
    assert.equal((await lab.ctl(['status'])).code, 3);
}));
