// The supervisor dies or is replaced, and what it started goes on: the same sandbox, the same agent, the same run, told once.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { alive, binFolder, finalStates, long, pause, rangeTask, sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';
import { agentsOf, chance, checkNothingLeft, runInitsOf, killNow, logOf, powerOff, restart, watch } from './living.mjs';

const rounds = Number(process.env.ROUNDS ?? (long ? 50 : 6));
const withSandbox = ['clone', 'setup', 'agent', 'prompt', 'work', 'collect'];
const withAgent = ['prompt', 'work'];
const shell = { model: false, agent: false };

// What the agent said and did, without what differs from run to run.
const told = events => events.filter(event => ['text', 'tool'].includes(event.kind))
    .map(event => `${event.kind} ${event.data?.status ?? ''} ${event.text}`);

// The requests that carry the run's conversation.
const asked = (lab, from = 0) => lab.upstream.requests.slice(from).map(request => request.body)
    .filter(body => body.includes('range_sum fails') && !body.includes('title generator')).map(body => JSON.parse(body));
const promptsIn = request => request.messages.filter(message => message.role === 'user').flatMap(message => message.content)
    .filter(part => part.type === 'text' && part.text.includes('range_sum fails')).length;

async function begin(lab, repository) {
    const mcp = await lab.connect();
    const from = lab.upstream.requests.length;
    const watching = watch(lab);
    const { runId, sessionId } = await mcp.tool('opencode_run_task', { task: rangeTask, repository });
    return { mcp, from, watching, runId, sessionId };
}

// A client whose connection died with the supervisor is told so, once, and calls again.
async function patient(call) {
    try {
        return await call();
    } catch (error) {
        assert.match(error.message, /Call again/);
        return call();
    }
}

// Waits for the end and takes together what the run has become.
async function finish(lab, { mcp, from, watching, runId }) {
    const view = await patient(() => mcp.result(runId, { timeoutMs: 240000 }));
    await watching.stop();
    const events = await logOf(lab, runId);
    const { diff } = await lab.ctlJson(['diff', runId]);
    return { view, events, diff, seen: watching.seen, requests: asked(lab, from) };
}

// The run did what it would have done undisturbed.
function checkAsUndisturbed(end, undisturbed, inFlight) {
    assert.equal(end.view.status, 'completed', JSON.stringify(end.view));
    assert.equal(end.view.verdict, 'changed');
    assert.equal(end.view.evidence.commits, 1);
    assert.equal(end.view.evidence.branch, 'fix/range-sum');
    assert.equal(end.diff, undisturbed.diff);
    assert.deepEqual(told(end.events), told(undisturbed.events), 'each of the agent\'s words and deeds is told once');
    // A request that died with the supervisor is made again by the agent; the prompt is not.
    for (const request of end.requests)
        assert.equal(promptsIn(request), 1, 'the prompt was sent more than once');
    assert.ok(end.requests.length <= undisturbed.requests.length + inFlight, `${end.requests.length} requests`);
}

// Waits for a moment of the life that UNDISTURBED had: every other one is chosen by time, the others by what is told, as much
// happens in little time.
async function moment({ number, random, asking, runId, undisturbed, lifeMs }) {
    if (number % 2 === 0) {
        // Each part of the life gets its share.
        const delay = Math.round((number + random()) / rounds * lifeMs);
        await pause(delay);
        return `${delay} ms`;
    }
    const { events } = undisturbed;
    const index = Math.min(events.length - 2, Math.floor((number + random()) / rounds * (events.length - 1)));
    const delay = Math.round(random() * (events[index + 1].time - events[index].time));
    await waitFor(`event ${index + 1}`, async () =>
        (await asking.tool('opencode_get_log', { runId, after: index, limit: 1 })).events.length > 0, 240000, 2);
    await pause(delay);
    return `${delay} ms behind "${events[index].text.slice(0, 40)}"`;
}

test('killed at random moments, a run goes on in its sandbox', { timeout: 3600000 }, t => withLab({}, async lab => {
    const random = chance(t);
    const repository = await lab.repository();
    const startedAt = performance.now();
    const undisturbed = await finish(lab, await begin(lab, repository));
    const lifeMs = performance.now() - startedAt;
    assert.equal(undisturbed.seen.inits.size, 1);
    assert.equal(undisturbed.seen.agents.size, 1);
    assert.equal(undisturbed.requests.length, 6);

    for (let number = 0; number < rounds; number++) {
        const one = await begin(lab, repository);
        const pid = await lab.supervisorPid();
        // Every other round a client waits for the result meanwhile.
        const waiting = number % 2 ? one.mcp.call('opencode_get_result', { runId: one.runId, waitSeconds: 30 }) : null;
        const asking = await lab.connect();
        const when = await moment({ number, random, asking, runId: one.runId, undisturbed, lifeMs });
        const before = await asking.tool('opencode_get_result', { runId: one.runId });
        await killNow(pid);
        const init = runInitsOf(lab).map(each => each.name);
        await restart(lab);
        t.diagnostic(`${when}: ${before.status} ${before.phase ?? ''}`);
        if (waiting) {
            const reply = await waiting;
            const text = reply.content.map(part => part.text).join('\n');
            assert.ok(!reply.isError || /supervisor|connection/i.test(text), text);
        }
        const end = await finish(lab, one);
        checkAsUndisturbed(end, undisturbed, 1);
        if (withSandbox.includes(before.phase)) {
            assert.equal(init.length, 1, 'the sandbox outlives the supervisor');
            assert.deepEqual([...end.seen.inits], init, `in phase ${before.phase} the sandbox was replaced`);
        }
        if (withAgent.includes(before.phase))
            assert.equal(end.seen.agents.size, 1, `in phase ${before.phase} the agent was replaced`);
        await asking.close();
        await one.mcp.close();
    }
    await checkNothingLeft(lab);
}));

const event = value => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const begun = event({ type: 'message_start', message: { id: 'msg_held', type: 'message', role: 'assistant', content: [], model: 'held',
    stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } }) +
    event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }) +
    event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'The sum' } });
const flights = { 'before its first byte': response => response, 'in the middle of its stream': response => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(begun);
} };
for (const [when, hold] of Object.entries(flights)) {
    test(`an answer of the model that dies with the supervisor ${when} is asked for again`, { timeout: 600000 }, () =>
        withLab({}, async lab => {
            let held = null;
            lab.upstream.answer = (request, response, body) => {
                if (held || !body.includes('"toolu_range_1"') || body.includes('title generator'))
                    return false;
                held = response;
                hold(response);
                return true;
            };
            const one = await begin(lab, await lab.repository());
            await waitFor('the agent waits for the model', () => held, 240000);
            const agents = agentsOf(lab).map(each => each.name);
            assert.equal(agents.length, 1);
            await killNow(await lab.supervisorPid());
            await waitFor('the connection to the model is gone', () => held.destroyed || held.socket?.destroyed, 10000);
            await restart(lab);
            const end = await finish(lab, one);
            assert.equal(end.view.status, 'completed', JSON.stringify(end.view));
            assert.equal(end.view.evidence.commits, 1);
            assert.deepEqual([...end.seen.agents], agents);
            assert.ok(end.requests.every(request => promptsIn(request) === 1));
            assert.equal(end.requests.length, 7, 'the one that died, and once more the same');
            assert.equal(end.view.usage.requests, (await lab.ctlJson(['audit', one.runId])).records.length);
            await checkNothingLeft(lab);
        }));
}

// Shell agents end while no supervisor runs --------------------------------------------------------------------------------

const lines = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}`);
const counting = (from, to) => `i=${from}; while [ $i -le ${to} ]; do echo "line $i"; i=$((i + 1)); done`;
const ends = [
    { name: 'ends well', last: 'exit 0', wanted: 'completed' },
    { name: 'fails', last: 'exit 3', wanted: 'failed', error: /exited with code 3/ },
    { name: 'is killed', last: 'kill -TERM $$', wanted: 'failed', error: /signal 15/ },
    // More than a pipe holds: it waits for the next supervisor and loses nothing.
    { name: 'says more than a pipe holds', count: 20000, last: 'exit 0', wanted: 'completed', waits: true },
];

test('what ends while no supervisor runs is known afterwards', { timeout: 600000 }, () => withLab(shell, async lab => {
    const session = one => path.join(lab.state, 'sessions', one.sessionId, 'workspace');
    const all = [];
    for (const one of ends) {
        const script = `mkfifo go; echo ready; read word <go; ${counting(1, one.count ?? 200)}; ${one.last}`;
        all.push({ ...one, ...await lab.ctlJson(['run', '--agent', 'shell', script]) });
    }
    for (const one of all)
        await waitFor('it is ready', async () => told(await logOf(lab, one.runId)).length > 0, 60000, 100);
    const inits = runInitsOf(lab).map(each => each.name).sort();
    assert.equal(inits.length, ends.length);
    const before = sandboxedProcessesOf(lab.id).length;

    await killNow(await lab.supervisorPid());
    for (const one of all) {
        // The agent may have put anything there, but this test is its author.
        const fifo = [...[session(one)].flatMap(folder => [path.join(folder, 'go'),
            ...fs.readdirSync(folder).map(name => path.join(folder, name, 'go'))])].find(file => fs.existsSync(file));
        fs.writeFileSync(fifo, 'go\n');
    }
    const waiting = ends.filter(one => one.waits).length;
    await waitFor('the commands end', () => sandboxedProcessesOf(lab.id).length === before - (ends.length - waiting), 30000);
    await pause(long ? 20000 : 2000); // nothing may happen in this time
    assert.deepEqual(runInitsOf(lab).map(each => each.name).sort(), inits);

    await restart(lab);
    for (const one of all) {
        const view = await waitFor('the run ends', async () => {
            const now = await lab.ctlJson(['get', one.runId]);
            return finalStates.includes(now.status) && now;
        }, 60000, 50);
        const count = one.count ?? 200;
        assert.equal(view.status, one.wanted, `${one.name}: ${JSON.stringify(view)}`);
        if (one.error)
            assert.match(view.result.error.message, one.error);
        assert.ok(view.result.output.trimEnd().endsWith(lines(count - 99, count).join('\n')), `${one.name}: ${view.result.output.slice(-300)}`);
        const text = (await logOf(lab, one.runId)).filter(each => each.kind === 'text').map(each => each.text);
        assert.deepEqual(text, ['ready', ...lines(1, count)], one.name);
    }
    await checkNothingLeft(lab);
}));

// One after the other ------------------------------------------------------------------------------------------------------

async function startHolding(lab) {
    const mcp = await lab.connect();
    const started = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD please', repository: await lab.repository() });
    await waitFor('the agent holds', async () => (await lab.exec(started.runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);
    return { mcp, ...started };
}
const living = lab => [...runInitsOf(lab), ...agentsOf(lab)].map(one => one.name);

test('another version takes over from one that was stopped', { timeout: 600000 }, () => withLab({}, async lab => {
    const { mcp, runId } = await startHolding(lab);
    const before = living(lab);
    assert.equal(before.length, 2);
    const pid = await lab.supervisorPid();
    process.kill(pid, 'SIGTERM');
    await waitFor('the supervisor ends when asked to', () => !alive(pid), 15000);
    assert.deepEqual(living(lab), before);

    lab.bin = binFolder('release');
    await restart(lab);
    await waitFor('the run is taken up', async () => (await lab.exec(runId, ['touch', '/tmp/release'])).code === 0, 30000, 100);
    assert.deepEqual(living(lab), before);
    const view = await patient(() => mcp.result(runId));
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.evidence.untracked, 1);
    await logOf(lab, runId);
    await checkNothingLeft(lab);
}));

test('killed several times in one run', { timeout: 600000 }, () => withLab({}, async lab => {
    const { mcp, runId } = await startHolding(lab);
    const before = living(lab);
    for (let count = 0; count < 4; count++) {
        await killNow(await lab.supervisorPid());
        // The last time the run has been taken up again; the others may catch it in the midst of that.
        await restart(lab);
    }
    await waitFor('the run is taken up', async () => (await lab.exec(runId, ['touch', '/tmp/release'])).code === 0, 30000, 100);
    assert.deepEqual(living(lab), before);
    const view = await patient(() => mcp.result(runId));
    assert.equal(view.status, 'completed', JSON.stringify(view));
    const words = told(await logOf(lab, runId));
    assert.equal(new Set(words).size, words.length, `something is told twice: ${words.join('; ')}`);
}));

test('a question is answered after the supervisor was killed', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-QUESTION please', repository: await lab.repository() });
    const open = await mcp.result(runId, { done: view => view.status === 'waiting' });
    const before = living(lab);
    await killNow(await lab.supervisorPid());
    await restart(lab);
    const again = await patient(() => mcp.result(runId, { done: view => view.status === 'waiting' && view.request, timeoutMs: 30000 }));
    assert.equal(again.request.requestId, open.request.requestId);
    assert.match(JSON.stringify(again), /Which licence/);
    await waitFor('the answer is taken', async () => (await lab.ctl(['answer', runId, open.request.requestId, 'MIT'])).code === 0, 30000, 200);
    const view = await patient(() => mcp.result(runId));
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.deepEqual(living(lab).filter(name => !before.includes(name)), []);
    assert.match(lab.upstream.requests.at(-1).body, /MIT/);
}));

test('a run is cancelled after the supervisor was killed', { timeout: 600000 }, () => withLab({}, async lab => {
    const { mcp, runId } = await startHolding(lab);
    await killNow(await lab.supervisorPid());
    await restart(lab);
    // At once: it may not even be taken up yet.
    await patient(() => mcp.tool('opencode_cancel_run', { runId }));
    const view = await patient(() => mcp.result(runId, { timeoutMs: 60000 }));
    assert.equal(view.status, 'cancelled', JSON.stringify(view));
    assert.match((await lab.ctlJson(['diff', runId])).diff, /held\.txt/);
    await checkNothingLeft(lab);
}));

test('after a reboot a run is interrupted, and its session goes on with its files', { timeout: 600000 }, () => withLab({}, async lab => {
    const { mcp, runId, sessionId } = await startHolding(lab);
    await mcp.close();
    await killNow(await lab.supervisorPid());
    await powerOff(lab, runId);
    await restart(lab);
    const next = await lab.connect();
    const view = await next.result(runId, { timeoutMs: 30000 });
    assert.equal(view.status, 'interrupted', JSON.stringify(view));
    assert.equal(view.result.error.code, 'interrupted');
    assert.match(view.result.error.hint, /continue|session/);
    await logOf(lab, runId);

    const follow = await next.tool('opencode_run_task', { task: 'TASK-NOTE please', sessionId });
    const end = await next.result(follow.runId);
    assert.equal(end.status, 'completed', JSON.stringify(end));
    const files = [...lab.files(path.join(lab.state, 'sessions', sessionId))];
    assert.ok(files.some(file => file.endsWith('/held.txt')), 'the work is gone');
    assert.ok(files.some(file => file.endsWith('/note.txt')));
    await checkNothingLeft(lab);
}));
