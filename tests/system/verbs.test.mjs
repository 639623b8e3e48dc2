// Saying something to an agent: into the turn that is under way (steer), behind it (queue), or after it (follow up). Each message
// reaches the model once and in its order, whoever dies meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finalStates, waitFor, withLab } from './lab.mjs';
import { agentsOf, checkNothingLeft, killNow, logOf, restart } from './living.mjs';

const words = number => `message ${number} of TASK-PLAIN`;
const numbersIn = text => [...text.matchAll(/message (\d+) of TASK-PLAIN/g)].map(found => Number(found[1]));
const upTo = count => Array.from({ length: count }, (_, index) => index);

// The requests of the conversation, as the model saw them, and what users said in one.
const asked = lab => lab.upstream.requests.map(request => request.body).filter(body => body.includes('TASK-') && !body.includes('title generator'))
    .map(body => JSON.parse(body));
const saidIn = request => request.messages.filter(message => message.role === 'user').flatMap(message => message.content)
    .filter(part => part.type === 'text').map(part => part.text);

async function holding(lab) {
    const client = await lab.connect();
    const run = await client.tool('opencode_run_task', { task: 'TASK-HOLD please', repository: await lab.repository() });
    await waitFor('the agent holds', async () => (await lab.exec(run.runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);
    return { client, ...run };
}
const release = (lab, runId) => lab.exec(runId, ['touch', '/tmp/release']);

const messagesOf = async (lab, runId) => (await logOf(lab, runId)).filter(event => event.kind === 'message');
const inState = (events, state) => events.filter(event => event.data.state === state);

// Each was shown to the model in its own part, once and in order, and the log says so.
async function checkRead(lab, runId, count) {
    const last = asked(lab).at(-1);
    const parts = saidIn(last).filter(text => numbersIn(text).length > 0);
    assert.deepEqual(parts, upTo(count).map(words), 'as the model saw them');
    const events = await messagesOf(lab, runId);
    assert.deepEqual(inState(events, 'sent').map(event => event.text), upTo(count).map(words));
    const ids = inState(events, 'sent').map(event => event.data.messageId);
    assert.equal(new Set(ids).size, count);
    assert.deepEqual(inState(events, 'read').map(event => event.data.messageId), ids);
    assert.deepEqual(inState(events, 'unread'), []);
}

test('twenty messages of two clients reach the agent at work, once and in order', { timeout: 600000 }, () => withLab({}, async lab => {
    const { client, runId, sessionId } = await holding(lab);
    const other = await lab.connect({ era: 'modern' });
    for (const number of upTo(20)) {
        const target = number % 3 ? { sessionId } : { runId };
        const answer = await (number % 2 ? other : client).tool('opencode_send_message', { ...target, message: words(number) });
        assert.equal(answer.action, 'steered', JSON.stringify(answer));
        assert.equal(answer.runId, runId);
        assert.match(answer.message, /next step/);
    }
    // Nothing of it disturbs the tool that runs, and nothing is shown before it ends.
    assert.equal(asked(lab).length, 1);
    await release(lab, runId);
    const view = await client.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.match(view.result.output, /plain answer/);
    await checkRead(lab, runId, 20);
    const { runs } = await client.tool('opencode_list_runs', { sessionId });
    assert.equal(runs.length, 1, 'none became a run of its own');
    await checkNothingLeft(lab);
}));

test('messages at once from two clients keep each client\'s order', { timeout: 600000 }, () => withLab({}, async lab => {
    const { client, runId } = await holding(lab);
    const clients = [client, await lab.connect()];
    await Promise.all(clients.map(async (one, which) => {
        for (const number of upTo(10))
            assert.equal((await one.tool('opencode_send_message', { runId, message: words(which * 100 + number) })).action, 'steered');
    }));
    await release(lab, runId);
    assert.equal((await client.result(runId)).status, 'completed');
    const seen = saidIn(asked(lab).at(-1)).flatMap(numbersIn);
    assert.equal(seen.length, 20, `${seen}`);
    for (const which of [0, 1])
        assert.deepEqual(seen.filter(number => Math.floor(number / 100) === which), upTo(10).map(number => which * 100 + number));
}));

// What is refused while the agent is being taken up again is said again.
const insist = (client, args) => waitFor('the message is taken', async () => {
    const result = await client.call('opencode_send_message', { ...args, mode: 'steer' });
    const text = result.content.map(part => part.text).join('\n');
    if (!result.isError)
        return result.structuredContent;
    assert.match(text, /at work|at this moment|Call again|reached/, text);
    return null;
}, 60000, 100);

test('a supervisor that is killed in the middle loses and repeats no message', { timeout: 600000 }, () => withLab({}, async lab => {
    const { client, runId } = await holding(lab);
    for (const number of upTo(5))
        await client.tool('opencode_send_message', { runId, message: words(number) });
    // These are on their way to an agent that doesn't move, and nobody knows whether they arrive.
    const [agent] = agentsOf(lab);
    const keyed = number => ({ runId, message: words(number), mode: 'steer', idempotencyKey: `key ${number}` });
    process.kill(agent.pid, 'SIGSTOP');
    try {
        for (const number of [5, 6, 7])
            assert.equal((await client.tool('opencode_send_message', keyed(number))).action, 'steered');
        await killNow(await lab.supervisorPid());
    } finally {
        process.kill(agent.pid, 'SIGCONT');
    }
    await restart(lab);
    const next = await lab.connect();
    // Who got no answer says it again, under its key, even before the agent is taken up; another message has no right to the key.
    for (const number of [7, 6, 5, 7]) {
        const again = await next.tool('opencode_send_message', keyed(number));
        assert.deepEqual([again.action, again.runId], ['steered', runId]);
    }
    const other = await next.call('opencode_send_message', { ...keyed(5), message: words(6) });
    assert.match(other.content[0].text, /idempotencyKey.*key 5.*different request/);
    assert.equal((await lab.ctl(['send', '--key', 'key 5', '--mode', 'queue', runId, words(5)])).code, 5);
    for (const number of [8, 9])
        assert.equal((await insist(next, { runId, message: words(number) })).action, 'steered');
    await killNow(await lab.supervisorPid());
    await restart(lab);
    const last = await lab.connect();
    for (const number of [10, 11])
        await insist(last, { runId, message: words(number) });
    // All of them are in the conversation before the tool ends.
    await waitFor('the run is taken up', async () => (await release(lab, runId)).code === 0, 30000, 100);
    const view = await last.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    await checkRead(lab, runId, 12);
    assert.equal((await last.tool('opencode_send_message', keyed(5))).status, 'completed');
    assert.equal((await lab.ctlJson(['list'])).runs.length, 1);
    await checkNothingLeft(lab);
}));

// An answer of the model that is only begun until the test ends it.
const frame = value => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const begin = response => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(frame({ type: 'message_start', message: { id: 'msg_late', type: 'message', role: 'assistant', content: [], model: 'late',
        stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } }) +
        frame({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }) +
        frame({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Nearly done.' } }));
};
const end = response => response.end(frame({ type: 'content_block_stop', index: 0 }) +
    frame({ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 5 } }) +
    frame({ type: 'message_stop' }));

test('a message that comes with the last answer is answered in the same run', { timeout: 600000 }, () => withLab({}, async lab => {
    let held = null;
    lab.upstream.answer = (request, response, body) => {
        if (held || !body.includes('TASK-LATE') || body.includes('title generator'))
            return false;
        held = response;
        begin(response);
        return true;
    };
    const client = await lab.connect();
    const { runId } = await client.tool('opencode_run_task', { task: 'TASK-LATE please' });
    await waitFor('the last answer has begun', () => held, 240000);
    await waitFor('it works', async () => (await client.tool('opencode_get_result', { runId })).status === 'running', 60000);
    assert.equal((await client.tool('opencode_send_message', { runId, message: words(0) })).action, 'steered');
    end(held);
    const view = await client.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.match(view.result.output, /plain answer/);
    await checkRead(lab, runId, 1);
}));

test('what is left unread when a run is cancelled is said to be so', { timeout: 600000 }, () => withLab({}, async lab => {
    const { client, runId, sessionId } = await holding(lab);
    await client.tool('opencode_send_message', { runId, message: words(0) });
    const queued = await client.tool('opencode_send_message', { runId, message: words(1), mode: 'queue' });
    assert.equal(queued.action, 'queued');
    // Behind what waits, so that it doesn't come before it.
    const behind = await client.tool('opencode_send_message', { runId, message: words(2) });
    assert.equal(behind.action, 'queued');
    // But who insists gets in.
    assert.equal((await client.tool('opencode_send_message', { runId, message: words(3), mode: 'steer' })).action, 'steered');
    await client.tool('opencode_cancel_run', { runId: queued.runId });
    await client.tool('opencode_cancel_run', { runId });
    assert.equal((await client.result(runId)).status, 'cancelled');
    const events = await messagesOf(lab, runId);
    assert.deepEqual(inState(events, 'unread').map(event => event.data.messageId), inState(events, 'sent').map(event => event.data.messageId));
    assert.equal((await client.result(queued.runId)).status, 'cancelled');
    assert.equal((await client.result(behind.runId)).status, 'completed');
    // The queue is empty, the session idle.
    const after = await client.tool('opencode_send_message', { sessionId, message: words(4) });
    assert.equal(after.action, 'follow_up');
    assert.equal((await client.result(after.runId)).status, 'completed');
    await checkNothingLeft(lab);
}));

test('every way of saying it tells the same, and says what can\'t be done', { timeout: 300000 }, () => withLab({ model: false, agent: false },
    async lab => {
        const client = await lab.connect();
        const run = await client.tool('opencode_run_task', { agent: 'shell', task: 'mkfifo /tmp/gate; read line < /tmp/gate' });
        await waitFor('it works', async () => (await lab.exec(run.runId, ['test', '-p', '/tmp/gate'])).code === 0);
        const tried = await client.call('opencode_send_message', { runId: run.runId, message: 'true', mode: 'steer' });
        assert.ok(tried.isError);
        assert.match(tried.content[0].text, /shell reads nothing while it works.*mode queue/);
        const ctl = await lab.ctl(['send', '--mode', 'steer', run.runId, 'true']);
        assert.equal(ctl.code, 5, ctl.stderr);
        assert.match(ctl.stderr, /shell reads nothing/);
        const raw = await lab.ctl(['call', 'run.send', JSON.stringify({ runId: run.runId, message: 'true', mode: 'steer' })]);
        assert.equal(raw.code, 5);
        // Left to itself, it becomes a run.
        const one = await lab.ctlJson(['send', run.runId, 'echo one']);
        assert.equal(one.action, 'queued');
        const two = await lab.ctlJson(['call', 'run.send', JSON.stringify({ sessionId: run.sessionId, message: 'echo two', mode: 'auto' })]);
        assert.equal(two.action, 'queued');
        assert.match((await lab.ctl(['send', run.sessionId, 'echo three'])).stdout, /^queued behind/);
        for (const mode of ['now', '', 7, null]) {
            const wrong = await lab.ctl(['call', 'run.send', JSON.stringify({ runId: run.runId, message: 'true', mode })]);
            assert.equal(wrong.code, 2, `${mode}: ${wrong.stdout}${wrong.stderr}`);
            assert.match(wrong.stderr, /mode/);
        }
        await lab.exec(run.runId, ['sh', '-c', 'echo go > /tmp/gate']);
        assert.match((await client.result(two.runId)).result.output, /two/);
        await waitFor('the queue is empty', async () => (await lab.ctlJson(['list'])).runs.every(each => finalStates.includes(each.status)), 60000);
        const idle = await client.call('opencode_send_message', { sessionId: run.sessionId, message: 'true', mode: 'steer' });
        assert.match(idle.content[0].text, /No run of the session is at work/);
    }));
