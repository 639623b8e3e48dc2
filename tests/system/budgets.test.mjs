// What a run may use of its models: tokens and money, counted by the proxy from what the provider says. The model of this test asks for
// one command after the other and says that it has read a lot.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor, withLab } from './lab.mjs';

const models = lab => ({ anthropic: { target: `http://127.0.0.1:${lab.upstream.port}` },
    free: { target: `http://127.0.0.1:${lab.upstream.port}`, provider: { npm: '@ai-sdk/openai-compatible', models: ['m'] } } });
const settings = model => lab => ({ services: models(lab), model });

const frame = value => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

// Answers a request of a task with the next command, and with USAGE; titles are left to the scripted model.
function greedy(usage, command) {
    let number = 0;
    return (request, response, body) => {
        if (!body.includes('GREEDY') || body.includes('title generator'))
            return false;
        number++;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end(frame({ type: 'message_start', message: { id: 'msg_greedy', type: 'message', role: 'assistant', content: [], model: 'claude-sonnet-4-5',
            stop_reason: null, stop_sequence: null, usage: { output_tokens: 1, ...usage } } }) +
            frame({ type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: `toolu_greedy_${number}`, name: 'bash', input: {} } }) +
            frame({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: JSON.stringify({ command: command(number), description: 'On', timeout: 900000 }) } }) +
            frame({ type: 'content_block_stop', index: 0 }) +
            frame({ type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 1000 } }) + frame({ type: 'message_stop' }));
        return true;
    };
}
const echo = number => `echo ${number}`;

// The records of the run's answers to our requests.
const answers = async (lab, runId) => (await lab.ctlJson(['audit', runId])).records.filter(one => one.inputTokens > 100000);

async function checkExhausted(lab, mcp, run, words, reason) {
    const view = await mcp.result(run.runId, { timeoutMs: 600000 });
    const text = JSON.stringify(view);
    assert.equal(view.status, 'failed', text);
    assert.equal(view.result.error.code, 'budget_exhausted', text);
    assert.equal(view.result.error.retryable, false);
    assert.match(view.result.error.message, words);
    const { records } = await lab.ctlJson(['audit', run.runId]);
    assert.ok(records.some(one => one.reason === reason && one.status === 403 && one.verdict === 'deny'), JSON.stringify(records));
    return view;
}

test('a run ends when its tokens are used up, and the next one has its own', { timeout: 600000 }, () =>
    withLab({ config: settings({ tokensPerRun: 600000 }) }, async lab => {
        const mcp = await lab.connect();
        lab.upstream.answer = greedy({ input_tokens: 50000, cache_read_input_tokens: 150000 }, echo);
        const run = await mcp.tool('opencode_run_task', { task: 'GREEDY please' });
        const view = await checkExhausted(lab, mcp, run, /has used 40\d{4} tokens|has used 60\d{4} tokens/, 'model_tokens');
        assert.equal(view.usage.budget.tokenLimit, 600000);
        assert.ok(view.usage.budget.tokens > 400000, JSON.stringify(view.usage));
        assert.equal(view.usage.budget.limitUsd, undefined);
        const used = await answers(lab, run.runId);
        assert.ok(used.length >= 2, JSON.stringify(used));
        assert.equal(used[0].inputTokens, 200000);
        assert.equal(used[0].outputTokens, 1000);
        assert.match((await lab.ctl(['get', run.runId])).stdout, /^budget +\d+ of 600000 tokens$/m);
        // A follow-up is a run of its own.
        lab.upstream.answer = null;
        const next = await mcp.tool('opencode_run_task', { task: 'TASK-PLAIN please', sessionId: run.sessionId });
        assert.equal((await mcp.result(next.runId)).status, 'completed');
    }));

test('a run ends when its money is used up', { timeout: 600000 }, () => withLab({ config: settings({ centsPerRun: 200 }) }, async lab => {
    const mcp = await lab.connect();
    lab.upstream.answer = greedy({ input_tokens: 200000 }, echo);
    const run = await mcp.tool('opencode_run_task', { task: 'GREEDY please' });
    const view = await checkExhausted(lab, mcp, run, /has cost \$1\.\d{4}.*model\.centsPerRun \(\$2\.00\)/, 'model_cost');
    assert.ok(view.usage.budget.costUsd > 1.2 && view.usage.budget.costUsd < 2, JSON.stringify(view.usage));
    const [last] = await answers(lab, run.runId);
    assert.equal(last.costUsd, 0.615);

    // What has no price is not free.
    await assert.rejects(mcp.tool('opencode_run_task', { task: 'Anything', model: 'free/m' }), /model: `free\/m` has no price/);
    assert.equal((await lab.ctl(['run', '--model', 'free/m', 'Anything'])).code, 5);
}));

test('a new supervisor knows what was used', { timeout: 600000 }, () => withLab({ config: settings({ tokensPerRun: 250000 }) }, async lab => {
    const mcp = await lab.connect();
    lab.upstream.answer = greedy({ input_tokens: 200000 }, () => 'mkfifo /tmp/gate; read line </tmp/gate');
    const run = await mcp.tool('opencode_run_task', { task: 'GREEDY please' });
    await waitFor('its tool runs', async () => (await lab.exec(run.runId, ['test', '-p', '/tmp/gate'])).code === 0, 300000, 500);
    await waitFor('it is written down', async () => (await answers(lab, run.runId)).length === 1);
    await lab.killSupervisor();
    await mcp.kill();
    await lab.startSupervisor();
    const next = await lab.connect();
    await waitFor('the run is taken up', async () => (await lab.exec(run.runId, ['sh', '-c', 'echo go >/tmp/gate'])).code === 0, 120000, 500);
    await checkExhausted(lab, next, run, /has used 20\d{4} tokens/, 'model_tokens');
    assert.equal((await answers(lab, run.runId)).length, 1);
}));
