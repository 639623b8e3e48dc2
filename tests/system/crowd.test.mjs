// Many starts at once, from several clients: none is lost, none comes twice, each can be asked for from the first moment.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { slowTool } from './fakes.mjs';
import { processesOf, waitFor, withLab } from './lab.mjs';

const count = 100;

test('a hundred starts at once are a hundred runs, listed once each', { timeout: 600000 }, () => withLab({ model: false, agent: false,
    config: () => ({ limits: { concurrentRuns: 4, queuedRuns: 200 } }) }, async lab => {
    const clients = [await lab.connect(), await lab.connect({ era: 'modern' }), await lab.connect(), await lab.connect({ era: 'modern' })];
    const started = await Promise.all(Array.from({ length: count }, async (_, number) => {
        const client = clients[number % clients.length];
        const answer = await client.tool('opencode_run_task', { task: `echo task ${number}\ntrue`, agent: 'shell' });
        // The next breath of another client.
        const view = await clients[(number + 1) % clients.length].tool('opencode_get_result', { runId: answer.runId });
        assert.equal(view.task, `echo task ${number}\ntrue`);
        assert.equal(view.title, `echo task ${number}`, 'the title is there at once, whatever becomes of the run');
        return answer;
    }));
    assert.equal(new Set(started.map(one => one.runId)).size, count);
    assert.equal(new Set(started.map(one => one.sessionId)).size, count);

    // Page by page, while more come: every run once, in one order.
    const pages = async (client, { limit = 7, before } = {}) => {
        const seen = [];
        for (let more = true; more;) {
            const page = await client.tool('opencode_list_runs', { limit, ...before && { before } });
            seen.push(...page.runs);
            ({ hasMore: more, cursor: before } = page);
        }
        return seen;
    };
    const [list] = await Promise.all([pages(clients[0]), clients[1].tool('opencode_run_task', { task: 'true', agent: 'shell' })]);
    const ids = list.map(one => one.runId);
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(started.every(one => ids.includes(one.runId)));
    assert.deepEqual(ids, [...ids].sort().reverse(), 'newest first');
    assert.deepEqual((await pages(clients[2])).map(one => one.runId).filter(id => started.some(one => one.runId === id)),
        ids.filter(id => started.some(one => one.runId === id)));
    const middle = list[50];
    assert.deepEqual((await pages(clients[3], { before: middle.createdAt, limit: 100 })).map(one => one.runId),
        list.filter(one => one.createdAt < middle.createdAt).map(one => one.runId));
    await assert.rejects(clients[3].tool('opencode_list_runs', { before: 0 }), /before/, 'a time that means nothing is not taken for none');

    for (const [number, { runId }] of started.entries()) {
        const view = await clients[number % clients.length].result(runId);
        assert.equal(view.status, 'completed', JSON.stringify(view));
        assert.equal(view.result.output.trim(), `task ${number}`);
    }
}));

// What makes sandboxes is asked for one, for the run's and for the agent's list of models, and never comes to an end.
test('a start waits neither for a sandbox nor for the names of models', { timeout: 300000 }, () => withLab({ model: false,
    config: lab => ({ sandbox: { bwrap: slowTool(lab) } }) }, async lab => {
    const client = await lab.connect();
    const models = ['anthropic/claude-sonnet-4-5', 'anthropic/claude-haiku-4-5', 'anthropic/no-such-model'];
    for (const model of models) {
        const started = await client.tool('opencode_run_task', { task: 'TASK-PLAIN please', model });
        // After twenty seconds it would have been given up.
        const view = await client.tool('opencode_get_result', { runId: started.runId });
        assert.ok(['queued', 'started'].includes(view.status), JSON.stringify(view));
    }
    const tools = () => processesOf(lab.id).filter(one => /^sleep 3600/.test(one.command));
    await waitFor('the tool was asked', () => tools().length > 0);
    assert.equal((await lab.ctlJson(['status'])).runs.failed, 0);
    for (const run of (await lab.ctlJson(['list'])).runs)
        await lab.ctlJson(['cancel', run.runId]);
}));
