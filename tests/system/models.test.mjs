// Which model a run uses: its own, its session's, or the configured one; and a name that the agent doesn't know is told with those
// that were probably meant.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withLab } from './lab.mjs';
import { checkNothingLeft, killNow, restart } from './living.mjs';

const modelsAsked = lab => lab.upstream.requests.filter(request => !request.body.includes('title generator')).map(request => JSON.parse(request.body).model);

test('an unknown model is told with the nearest names, at first by the run, then at once', { timeout: 600000 }, () => withLab({}, async lab => {
    const client = await lab.connect();
    const wrong = { task: 'TASK-PLAIN please', model: 'anthropic/claude-sonet-4-5' };
    const began = performance.now();
    const { runId } = await client.tool('opencode_run_task', wrong);
    const tookMs = performance.now() - began;
    const view = await client.result(runId, { timeoutMs: 240000 });
    assert.equal(view.status, 'failed', JSON.stringify(view));
    assert.equal(view.result.error.code, 'model_unknown');
    assert.match(view.result.error.message, /claude-sonet-4-5 is not known.*anthropic\/claude-sonnet-4-5/);
    assert.equal(view.result.error.retryable, false);
    assert.deepEqual(modelsAsked(lab), [], 'the model was asked');
    assert.ok(tookMs < 2000, `${tookMs} ms`);

    const words = /model.*claude-sonet-4-5 is not known; the nearest are anthropic\/claude-sonnet-4-5, /;
    const refusedEverywhere = async asking => {
        const tool = await asking.call('opencode_run_task', wrong);
        assert.ok(tool.isError);
        assert.match(tool.content[0].text, words);
        const ctl = await lab.ctl(['run', '--no-repo', '--model', wrong.model, wrong.task]);
        assert.equal(ctl.code, 2, ctl.stderr);
        assert.match(ctl.stderr, words);
        const raw = await lab.ctl(['call', 'run.create', JSON.stringify(wrong)]);
        assert.equal(raw.code, 2);
        assert.match(raw.stderr, words);
    };
    await refusedEverywhere(client);
    // What was learned is kept.
    await killNow(await lab.supervisorPid());
    await restart(lab);
    await refusedEverywhere(await lab.connect());
    assert.equal((await lab.ctlJson(['list'])).runs.length, 1);
    for (const [model, more] of [['nobody/claude', /no provider nobody here; there is .*anthropic/], ['claude', /provider\/model/]]) {
        const ctl = await lab.ctl(['run', '--no-repo', '--model', model, wrong.task]);
        assert.equal(ctl.code, 2);
        assert.match(ctl.stderr, more);
    }
    await checkNothingLeft(lab);
}));

test('a session keeps its model until another is named', { timeout: 600000 }, () => withLab(
    { config: () => ({ defaults: { model: 'anthropic/claude-opus-4-5' } }) }, async lab => {
        const client = await lab.connect();
        const done = async ({ runId }, model) => {
            const from = lab.upstream.requests.length;
            const view = await client.result(runId, { timeoutMs: 240000 });
            assert.equal(view.status, 'completed', JSON.stringify(view));
            assert.equal(view.model, `anthropic/${model}`);
            assert.ok(from <= lab.upstream.requests.length);
            assert.equal(modelsAsked(lab).at(-1), model);
            return view;
        };
        const task = 'TASK-PLAIN please';
        // The configured one.
        await done(await client.tool('opencode_run_task', { task }), 'claude-opus-4-5');
        // Its own, and then the session's.
        const { sessionId } = await done(await client.tool('opencode_run_task', { task, model: 'anthropic/claude-haiku-4-5' }), 'claude-haiku-4-5');
        await done(await client.tool('opencode_run_task', { task, sessionId }), 'claude-haiku-4-5');
        await done(await client.tool('opencode_send_message', { sessionId, message: task }), 'claude-haiku-4-5');
        // Another one from here on.
        await done(await client.tool('opencode_run_task', { task, sessionId, model: 'anthropic/claude-sonnet-4-5' }), 'claude-sonnet-4-5');
        await done(await client.tool('opencode_send_message', { sessionId, message: task }), 'claude-sonnet-4-5');
        await checkNothingLeft(lab);
    }));
