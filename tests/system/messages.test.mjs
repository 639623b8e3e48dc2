// What a client says to a session and to a run that asks: messages become runs in order, answers reach the agent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor, withLab } from './lab.mjs';

const hold = 'mkfifo /tmp/gate; read line < /tmp/gate';

test('messages become runs of the session, in the order in which they came', { timeout: 300000 }, () => withLab({ model: false, agent: false },
    async lab => {
        const one = await lab.connect();
        const other = await lab.connect({ era: 'modern' });
        const first = await one.tool('opencode_run_task', { agent: 'shell', task: `echo first >> ~/order; ${hold}` });
        await waitFor('it works', async () => (await lab.exec(first.runId, ['test', '-p', '/tmp/gate'])).code === 0);
        const said = [];
        for (let number = 0; number < 6; number++) {
            const client = number % 2 ? other : one;
            const target = number % 3 ? { sessionId: first.sessionId } : { runId: first.runId };
            const answer = await client.tool('opencode_send_message', { ...target, message: `echo message ${number} >> ~/order; cat ~/order` });
            assert.equal(answer.action, 'queued', JSON.stringify(answer));
            assert.equal(answer.sessionId, first.sessionId);
            said.push(answer.runId);
        }
        // A queued one can be taken back.
        await one.tool('opencode_cancel_run', { runId: said[4] });
        await lab.exec(first.runId, ['sh', '-c', 'echo go > /tmp/gate']);
        const last = await other.result(said[5]);
        assert.equal(last.status, 'completed', JSON.stringify(last));
        assert.deepEqual(last.result.output.trim().split('\n'), ['first', ...[0, 1, 2, 3, 5].map(number => `message ${number}`)]);
        assert.equal((await one.result(said[4])).status, 'cancelled');
        const after = await one.tool('opencode_send_message', { sessionId: first.sessionId, message: 'wc -l < ~/order' });
        assert.equal(after.action, 'follow_up');
        assert.equal((await one.result(after.runId)).result.output.trim(), '6');
    }));
