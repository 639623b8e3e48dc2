// Other turns that a run can take: cancelled, queued, followed up, asking, failing for a reason that it tells.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rangeTask, sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';

const holds = (lab, runId) => waitFor('the agent holds',
    async () => (await lab.exec(runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);

test('a run is cancelled in the middle: nothing runs on, its work is kept', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD please', repository: await lab.repository() });
    await holds(lab, runId);
    await mcp.tool('opencode_cancel_run', { runId });
    const view = await mcp.result(runId, { timeoutMs: 30000 });
    assert.equal(view.status, 'cancelled');
    await waitFor('nothing of it is left running', () => sandboxedProcessesOf(lab.id).length === 0, 15000);
    assert.match((await lab.ctlJson(['diff', runId])).diff, /held\.txt/);
    // Once more is no error, and changes nothing.
    await mcp.tool('opencode_cancel_run', { runId });
    assert.equal((await mcp.result(runId)).status, 'cancelled');
}));

test('runs past the limit wait their turn', { timeout: 600000 }, () =>
    withLab({ config: () => ({ limits: { concurrentRuns: 1 } }) }, async lab => {
        const repository = await lab.repository();
        const mcp = await lab.connect();
        const first = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD please', repository });
        const second = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE please', repository });
        const third = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE more', repository });
        await holds(lab, first.runId);
        assert.equal((await mcp.tool('opencode_get_result', { runId: second.runId })).status, 'queued');
        await mcp.tool('opencode_cancel_run', { runId: third.runId });
        assert.equal((await mcp.result(third.runId)).status, 'cancelled');
        await lab.exec(first.runId, ['touch', '/tmp/release']);
        assert.equal((await mcp.result(first.runId)).status, 'completed');
        assert.equal((await mcp.result(second.runId)).status, 'completed');
    }));

test('a session goes on where its last run ended', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const first = await mcp.tool('opencode_run_task', { task: rangeTask, repository: await lab.repository() });
    assert.equal((await mcp.result(first.runId)).verdict, 'changed');
    const second = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE please', sessionId: first.sessionId });
    assert.equal(second.sessionId, first.sessionId);
    const view = await mcp.result(second.runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.evidence.branch, 'fix/range-sum');
    // Each run's diff is its own.
    const diff = (await lab.ctlJson(['diff', second.runId])).diff;
    assert.match(diff, /note\.txt/);
    assert.doesNotMatch(diff, /range\.c/);
    // The conversation went on as well: the model was sent the first task again.
    const last = lab.upstream.requests.findLast(request => /TASK-NOTE/.test(request.body));
    assert.match(last.body, /range_sum fails/);
    const list = await mcp.tool('opencode_list_runs', { sessionId: first.sessionId });
    assert.deepEqual(list.runs.map(one => one.runId), [second.runId, first.runId]);
}));

test('a run without a repository', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-PLAIN please' });
    const view = await mcp.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.result.output, 'A plain answer without any tool.');
    assert.equal(view.verdict, 'no_change');
}));

test('a run that changes nothing says so', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-NOTHING please', repository: await lab.repository() });
    const view = await mcp.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.verdict, 'no_change');
    assert.equal(view.evidence.commits, 0);
}));

test('the same request with the same key is the same run', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const request = { task: 'TASK-PLAIN please', idempotencyKey: 'key-1' };
    const [first, second] = await Promise.all([mcp.tool('opencode_run_task', request), mcp.tool('opencode_run_task', request)]);
    assert.equal(first.runId, second.runId);
    await assert.rejects(mcp.tool('opencode_run_task', { ...request, task: 'TASK-PLAIN other' }), /idempotencyKey/);
    assert.equal((await mcp.result(first.runId)).status, 'completed');
    assert.equal((await mcp.tool('opencode_run_task', request)).runId, first.runId);
}));

test('a question waits for its answer, from a person or a client', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const repository = await lab.repository();
    for (const who of ['person', 'client']) {
        const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-QUESTION please', repository });
        const open = await mcp.result(runId, { done: view => view.status === 'waiting', timeoutMs: 300000 });
        assert.match(JSON.stringify(open), /Which licence/);
        if (who === 'person') {
            const answered = await lab.ctl(['answer', runId, open.request.requestId, 'MIT']);
            assert.equal(answered.code, 0, answered.stderr);
        } else {
            const wrong = await mcp.call('opencode_answer', { runId, requestId: 'que_other', answer: 'MIT' });
            assert.equal(wrong.isError, true, JSON.stringify(wrong));
            await mcp.tool('opencode_answer', { runId, requestId: open.request.requestId, answer: 'MIT' });
        }
        const view = await mcp.result(runId);
        assert.equal(view.status, 'completed', JSON.stringify(view));
        assert.match(lab.upstream.requests.at(-1).body, /MIT/);
    }
}));

const failures = [
    ['the model refuses the key', { task: 'TASK-REFUSED please' }, 'model_auth'],
    ['the model refuses the request', { task: 'TASK-BAD-REQUEST please' }, 'model_error'],
];
for (const [name, args, code] of failures) {
    test(`a run fails with a reason: ${name}`, { timeout: 600000 }, () => withLab({}, async lab => {
        const mcp = await lab.connect();
        const { runId } = await mcp.tool('opencode_run_task', args);
        const view = await mcp.result(runId);
        assert.equal(view.status, 'failed', JSON.stringify(view));
        const error = view.result.error;
        assert.equal(error.code, code);
        assert.ok(error.message && error.hint, JSON.stringify(error));
        assert.equal(view.result.success, false);
        assert.ok(!JSON.stringify(view).includes(lab.secret));
    }));
}

test('a run without a key is refused, and the answer says what to do', { timeout: 600000 }, () => withLab({ secret: false }, async lab => {
    const mcp = await lab.connect();
    // Known before the run begins, so it is told at once.
    const started = await mcp.call('opencode_run_task', { task: 'TASK-PLAIN please' });
    assert.equal(started.isError, true);
    const { text } = started.content[0];
    assert.match(text, /ANTHROPIC_API_KEY/);
    assert.match(text, /sandboxctl secret set/);
    assert.equal(lab.upstream.requests.length, 0);
}));

// An answer that is cut off must not look like one that ended: the agent would ask again at once, for ever.
test('a model that breaks off in the middle of its answer is asked again, with measure', { timeout: 600000 }, () => withLab({}, async lab => {
    let cuts = 0;
    lab.upstream.answer = (request, response, body) => {
        if (cuts === 2 || !body.includes('TASK-PLAIN') || body.includes('title generator'))
            return false;
        cuts++;
        const event = value => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(event({ type: 'message_start', message: { id: 'msg_cut', type: 'message', role: 'assistant', content: [], model: 'cut',
            stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } }) +
            event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }) +
            event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Only a part' } }),
        () => response.destroy());
        return true;
    };
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-PLAIN please' });
    const view = await mcp.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.result.output, 'A plain answer without any tool.');
    assert.equal(cuts, 2);
    assert.ok(lab.upstream.requests.length < 10, `${lab.upstream.requests.length} requests`);
}));

test('a run that takes too long ends as failed, with its work', { timeout: 600000, skip: !process.env.LONG && 'LONG=1 runs it' },
    () => withLab({}, async lab => {
        const mcp = await lab.connect();
        const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD please', repository: await lab.repository(), timeoutMinutes: 1 });
        const view = await mcp.result(runId);
        assert.equal(view.status, 'failed');
        assert.equal(view.result.error.code, 'timeout');
        assert.match((await lab.ctlJson(['diff', runId])).diff, /held\.txt/);
    }));
