// What a client says to a session and to a run that asks: messages become runs in order, answers reach the agent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor, withLab } from './lab.mjs';
import { killNow, restart } from './living.mjs';

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

test('a message with a key becomes one run, whoever repeats it, at once and later', { timeout: 300000 }, () => withLab({ model: false, agent: false },
    async lab => {
        const body = { message: 'echo said >> ~/order; cat ~/order', mode: 'auto', idempotencyKey: 'say "it" once' };
        const client = await lab.connect();
        const first = await client.tool('opencode_run_task', { agent: 'shell', task: hold });
        const { runId, sessionId } = first;
        await waitFor('it works', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
        const ways = [
            () => client.tool('opencode_send_message', { ...body, runId }),
            () => lab.ctlJson(['send', '--key', body.idempotencyKey, sessionId, body.message]),
            () => lab.ctlJson(['call', 'run.send', JSON.stringify({ ...body, sessionId })]),
        ];
        const answers = await Promise.all([...ways, ...ways, ...ways].map(ask => ask()));
        assert.deepEqual([...new Set(answers.map(answer => `${answer.action} ${answer.runId}`))], [`queued ${answers[0].runId}`]);
        for (const changed of [{ message: 'true' }, { mode: 'queue' }]) {
            const refused = await client.call('opencode_send_message', { ...body, runId, ...changed });
            assert.ok(refused.isError);
            assert.match(refused.content[0].text, /idempotencyKey.*say "it" once.*different request.*run_/);
        }
        // There is one set of keys.
        assert.equal((await lab.ctl(['run', '--no-repo', '--agent', 'shell', '--key', body.idempotencyKey, body.message])).code, 5);

        await killNow(await lab.supervisorPid());
        await restart(lab);
        for (const ask of ways.slice(1))
            assert.equal((await ask()).runId, answers[0].runId);
        await waitFor('it goes on', async () => (await lab.exec(runId, ['sh', '-c', 'echo go > /tmp/gate'])).code === 0, 60000);
        assert.equal((await lab.ended(answers[0].runId)).result.output.trim(), 'said');
        const later = await ways[1]();
        assert.deepEqual([later.action, later.runId, later.status], ['follow_up', answers[0].runId, 'completed']);
        assert.equal((await lab.ctlJson(['list'])).runs.length, 2);

        // The key goes with its session.
        assert.equal((await lab.ctl(['rm', sessionId])).code, 0);
        const anew = await lab.ctlJson(['run', '--no-repo', '--agent', 'shell', '--key', body.idempotencyKey, 'echo anew']);
        assert.equal((await lab.ended(anew.runId)).status, 'completed');
    }));
