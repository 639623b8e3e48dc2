// Many starts at once, from several clients: none is lost, none comes twice, each can be asked for from the first moment.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withLab } from './lab.mjs';

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
    const pages = async client => {
        const seen = [];
        for (let before, more = true; more;) {
            const page = await client.tool('opencode_list_runs', { limit: 7, ...before && { before } });
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
    assert.deepEqual((await clients[3].tool('opencode_list_runs', { before: middle.createdAt, limit: 100 })).runs.map(one => one.runId),
        list.filter(one => one.createdAt < middle.createdAt).map(one => one.runId));
    await assert.rejects(clients[3].tool('opencode_list_runs', { before: 0 }), /before/, 'a time that means nothing is not taken for none');

    for (const [number, { runId }] of started.entries()) {
        const view = await clients[number % clients.length].result(runId);
        assert.equal(view.status, 'completed', JSON.stringify(view));
        assert.equal(view.result.output.trim(), `task ${number}`);
    }
}));
