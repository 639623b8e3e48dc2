// A run is cancelled wherever it stands: it ends, soon, nothing of it runs on, what it did is kept, and its answer says so.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fakeOpencode, fakeOpencodeRepository, slowTool } from './fakes.mjs';
import { finalStates, sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';
import { agentsOf, checkNothingLeft, logOf, toolsOf } from './living.mjs';

const quick = { model: false, agent: false };

// Cancels the run in PHASE and looks at what is left. Twice, since who is in doubt asks again.
async function cancelIn(lab, runId, phase, { status = 'cancelled', words = /before the agent had its task/, withinMs = 30000 } = {}) {
    await waitFor(`it is in phase ${phase}`, async () => {
        const view = await lab.ctlJson(['get', runId]);
        assert.ok(!finalStates.includes(view.status), JSON.stringify(view));
        return view.phase === phase;
    }, 60000);
    const started = Date.now();
    await lab.ctlJson(['cancel', runId]);
    await lab.ctlJson(['cancel', runId]);
    const view = await lab.ended(runId, withinMs);
    assert.ok(Date.now() - started < withinMs, `it took ${Date.now() - started} ms`);
    assert.equal(view.status, status, JSON.stringify(view));
    assert.match(view.message, words);
    assert.deepEqual((await logOf(lab, runId)).filter(event => event.kind === 'state').map(event => event.data.status).filter(each => finalStates.includes(each)),
        [status], 'it ended more than once');
    await waitFor('nothing of it runs', () => sandboxedProcessesOf(lab.id).length === 0, 60000);
    return view;
}

const start = async (lab, args) => (await lab.ctlJson(['run', '--no-repo', '--agent', 'shell', ...args])).runId;
const gate = 'mkfifo /tmp/gate; read line < /tmp/gate';

test('in the queue', { timeout: 300000 }, () => withLab({ ...quick, config: () => ({ limits: { concurrentRuns: 1 } }) }, async lab => {
    const first = await start(lab, [gate]);
    const second = await start(lab, ['true']);
    await waitFor('the first works', async () => (await lab.exec(first, ['test', '-p', '/tmp/gate'])).code === 0);
    const view = await lab.ctlJson(['cancel', second]);
    assert.equal(view.status, 'cancelled');
    assert.match(view.message, /queued: nothing of it was begun/);
    assert.equal((await lab.ctlJson(['get', first])).status, 'running');
    await lab.ctl(['cancel', first]);
    await lab.ended(first);
    await checkNothingLeft(lab);
}));

test('while its sandbox is made', { timeout: 300000 }, () => withLab({ ...quick, config: lab => ({ sandbox: { bwrap: slowTool(lab) } }) },
    async lab => cancelIn(lab, await start(lab, ['true']), 'sandbox')));

test('while its repository is cloned', { timeout: 300000 }, () => withLab({ agent: false,
    config: lab => ({ services: { github: { target: `http://127.0.0.1:${lab.upstream.port}` } } }) }, async lab => {
    let asked = 0;
    lab.upstream.answer = request => { // and never answers
        asked += request.url.includes('/me/range');
        return true;
    };
    await lab.setSecret('ghp_' + 'x'.repeat(36), 'GITHUB_TOKEN');
    const { runId } = await lab.ctlJson(['run', '--agent', 'shell', '--repo', 'https://github.com/me/range', 'true']);
    await waitFor('git asks', () => asked > 0, 60000);
    await cancelIn(lab, runId, 'clone');
    await checkNothingLeft(lab);
}));

test('while it is set up', { timeout: 300000 }, () => withLab({ ...quick, config: () => ({ repositories: { '/*': { setup: 'sleep 3600' } } }) }, async lab => {
    const { runId, sessionId } = await lab.ctlJson(['run', '--agent', 'shell', '--repo', await lab.repository(), 'true']);
    await cancelIn(lab, runId, 'setup');
    const folder = path.join(lab.state, 'sessions', sessionId, 'workspace');
    assert.ok(fs.readdirSync(folder).length > 0, 'the clone is kept');
    await checkNothingLeft(lab);
}));

test('while its agent starts', { timeout: 300000 }, () => withLab({}, async lab => {
    const { runId } = await lab.ctlJson(['run', '--no-repo', 'TASK-PLAIN please']);
    const [agent] = await waitFor('its process is there', () => agentsOf(lab).length > 0 && agentsOf(lab), 60000, 2);
    process.kill(agent.pid, 'SIGSTOP'); // it takes a second to be ready, and now it never is
    await cancelIn(lab, runId, 'agent');
    await checkNothingLeft(lab);
}));

// The real one takes a prompt up within a moment: this one never does.
test('while its prompt is sent', { timeout: 300000 }, () => withLab({ ...quick, config: () => ({ agents: fakeOpencode }) }, async lab => {
    const { runId, sessionId } = await lab.ctlJson(['run', '--repo', await fakeOpencodeRepository(lab, 'fake'), 'FAKE-IGNORED']);
    const view = await cancelIn(lab, runId, 'prompt', { words: /cancelled after/ });
    assert.equal(view.verdict, 'incomplete');
    const next = await lab.ctlJson(['send', sessionId, 'do it well']);
    assert.equal((await lab.ended(next.runId)).result.output, 'well done');
    await checkNothingLeft(lab);
}));

test('while its agent works', { timeout: 300000 }, () => withLab(quick, async lab => {
    const { runId } = await lab.ctlJson(['run', '--agent', 'shell', '--repo', await lab.repository(), `echo begun > begun.txt; (sleep 3600 &); ${gate}`]);
    await waitFor('it works', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
    const view = await cancelIn(lab, runId, 'work', { words: /1 file changed.*nothing was undone/s });
    assert.equal(view.verdict, 'incomplete');
    assert.match((await lab.ctlJson(['diff', runId])).diff, /\+begun/);
    const next = await lab.ctlJson(['send', runId, 'cat begun.txt']);
    assert.equal((await lab.ended(next.runId)).result.output.trim(), 'begun');
    await checkNothingLeft(lab);
}));

test('an agent that doesn\'t listen is ended all the same', { timeout: 300000 }, () => withLab(quick, async lab => {
    const runId = await start(lab, [`trap '' TERM INT HUP; mkfifo /tmp/gate; while :; do read line < /tmp/gate; done`]);
    await waitFor('it works', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
    await cancelIn(lab, runId, 'work', { words: /cancelled after/ });
    await checkNothingLeft(lab);
}));

// Its outcome is decided by then, and stands; what is looked at has its own limit of time.
test('while its changes are collected', { timeout: 300000 }, () => withLab(quick, async lab => {
    const { runId } = await lab.ctlJson(['run', '--agent', 'shell', '--repo', await lab.repository(), 'rm .git/HEAD; mkfifo .git/HEAD; echo through']);
    await cancelIn(lab, runId, 'collect', { status: 'completed', words: /completed in/, withinMs: 120000 });
    await checkNothingLeft(lab);
}));

// Here, too. Its sandbox can't end as long as the tool that made it doesn't move, until that is given up.
test('while its sandbox is ended', { timeout: 300000 }, () => withLab(quick, async lab => {
    const runId = await start(lab, [`${gate}; echo through`]);
    await waitFor('it works', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
    const [tool] = toolsOf(lab);
    process.kill(tool.pid, 'SIGSTOP');
    await lab.exec(runId, ['sh', '-c', 'echo go > /tmp/gate']);
    const view = await cancelIn(lab, runId, 'stop', { status: 'completed', words: /completed in/ });
    assert.equal(view.result.output.trim(), 'through');
    await checkNothingLeft(lab);
}));
