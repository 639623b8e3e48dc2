// Runs that ask a person: what they show meanwhile, every way to answer, and that none waits for ever.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { finalStates, waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, killNow, logOf, restart } from './living.mjs';

const asking = { config: () => ({ agents: { permissions: 'ask' } }) };
const impatient = more => ({ config: () => ({ agents: { permissions: 'ask', answerSeconds: 2, ...more } }) });

const modelSaw = (lab, words) => lab.upstream.requests.some(request => words.test(request.body));
const filesOf = (lab, sessionId) => [...lab.files(path.join(lab.state, 'sessions', sessionId))].map(file => path.basename(file));

async function start(lab, task) {
    const client = await lab.connect();
    const run = await client.tool('opencode_run_task', { task: `${task} please`, repository: await lab.repository() });
    return { client, ...run };
}

async function waiting(lab, task) {
    const run = await start(lab, task);
    const view = await run.client.result(run.runId, { done: one => one.status === 'waiting' || finalStates.includes(one.status) });
    assert.equal(view.status, 'waiting', JSON.stringify(view));
    return { ...run, view, request: view.request };
}

const ways = {
    'opencode_answer': (lab, { client, runId, request }, answer) =>
        client.tool('opencode_answer', { runId, requestId: request.requestId, answer }),
    'sandboxctl answer': (lab, { runId }, answer) => lab.ctlJson(['answer', runId, answer]),
    'the socket': (lab, { runId, request }, answer) =>
        lab.ctlJson(['call', 'run.answer', JSON.stringify({ runId, requestId: request.requestId, answer })]),
};

test('permission is asked for, shown and given, in every way', { timeout: 900000 }, () => withLab(asking, async lab => {
    for (const [name, give] of Object.entries(ways)) {
        const before = Date.now();
        const run = await waiting(lab, 'TASK-NOTE');
        const { request, view } = run;
        assert.equal(request.kind, 'permission');
        assert.match(request.text, /bash: echo note >>note\.txt/);
        assert.deepEqual(request.options, ['once', 'always', 'reject']);
        assert.ok(request.askedAt >= before - 1000 && request.askedAt <= Date.now(), `${request.askedAt}`);
        assert.equal(request.answerBy, request.askedAt + 3600000);
        assert.match(view.message, /permission request.*opencode_answer/s);
        const { runs } = await run.client.tool('opencode_list_runs', { status: 'waiting' });
        assert.deepEqual(runs.map(one => [one.runId, one.waitingSince]), [[run.runId, request.askedAt]]);
        assert.ok(!filesOf(lab, run.sessionId).includes('note.txt'), 'it was done before it was allowed');
        const told = await give(lab, run, 'once');
        assert.equal(told.requestId, request.requestId, name);
        const end = await run.client.result(run.runId);
        assert.equal(end.status, 'completed', JSON.stringify(end));
        assert.ok(filesOf(lab, run.sessionId).includes('note.txt'));
        assert.ok((await logOf(lab, run.runId)).some(event => event.kind === 'permission' && event.data.requestId === request.requestId));
    }
    await checkNothingLeft(lab);
}));

test('a question is asked and answered, in every way', { timeout: 900000 }, () => withLab({}, async lab => {
    for (const [name, give] of Object.entries(ways)) {
        const run = await waiting(lab, 'TASK-QUESTION');
        assert.equal(run.request.kind, 'question');
        assert.equal(run.request.text, 'Which licence should the file carry?');
        assert.deepEqual(run.request.options, ['MIT', 'GPL']);
        const answer = name === 'the socket' ? 'neither: "ours"\nas agreed' : 'GPL';
        await give(lab, run, answer);
        const end = await run.client.result(run.runId);
        assert.equal(end.status, 'completed', JSON.stringify(end));
        assert.ok(modelSaw(lab, name === 'the socket' ? /ours.{1,8}as agreed/ : /GPL/), name);
    }
}));

test('a refusal with a reason reaches the agent, one without ends its turn', { timeout: 600000 }, () => withLab(asking, async lab => {
    const run = await waiting(lab, 'TASK-NOTE');
    // Whoever comes to wait is told what is asked, and how it is answered.
    const comer = lab.ctl(['get', '--wait', run.runId], { timeoutMs: 300000 });
    await waitFor('somebody follows', async () => (await lab.ctlJson(['status'])).connections >= 3);
    await ways.opencode_answer(lab, run, 'reject: write it down elsewhere');
    const end = await run.client.result(run.runId);
    const { stderr } = await comer;
    assert.match(stderr, /asks +bash: echo note/);
    assert.ok(stderr.includes(`sandboxctl answer ${run.runId} ${run.request.requestId} ANSWER  (once, always, reject)`), stderr);
    // The log says what was answered, and doesn't show what was refused as done.
    const log = (await lab.ctl(['logs', run.runId])).stdout;
    assert.match(log, /was answered: reject: write it down elsewhere/);
    assert.match(log, /tool +bash: echo note >>note\.txt +\[failed: .*write it down elsewhere/);
    assert.equal(end.status, 'completed', JSON.stringify(end));
    assert.ok(modelSaw(lab, /write it down elsewhere/));
    assert.ok(!filesOf(lab, run.sessionId).includes('note.txt'));

    const other = await waiting(lab, 'TASK-NOTE');
    await ways.opencode_answer(lab, other, 'reject');
    const stopped = await other.client.result(other.runId);
    assert.equal(stopped.verdict, 'incomplete', JSON.stringify(stopped));
    assert.equal(stopped.result.success, false);
}));

test('wrong answers are refused, and of two at once one is taken', { timeout: 600000 }, () => withLab(asking, async lab => {
    const run = await waiting(lab, 'TASK-NOTE');
    const { runId, request } = run;
    const refused = async (args, words) => {
        const result = await run.client.call('opencode_answer', args);
        assert.ok(result.isError, JSON.stringify(result));
        assert.match(result.content[0].text, words);
    };
    await refused({ runId, requestId: 'per_unknown', answer: 'once' }, /per_unknown.*not known/);
    await refused({ runId, requestId: request.requestId, answer: 'perhaps' }, /once, always, reject/);
    await refused({ runId, requestId: request.requestId, answer: '' }, /answer/);
    assert.equal((await lab.ctl(['answer', runId, 'perhaps'])).code, 2);
    const other = await lab.connect();
    const both = await Promise.all([run.client, other].map(client =>
        client.call('opencode_answer', { runId, requestId: request.requestId, answer: 'once' })));
    assert.equal(both.filter(result => result.isError).length, 1, JSON.stringify(both));
    assert.match(both.find(result => result.isError).content[0].text, /a moment ago|asks nothing/);
    assert.equal((await run.client.result(runId)).status, 'completed');
    await refused({ runId, requestId: request.requestId, answer: 'once' }, /asks nothing/);
    assert.equal((await lab.ctl(['answer', runId, 'once'])).code, 5);
}));

test('a subagent\'s request is the run\'s', { timeout: 600000 }, () => withLab(asking, async lab => {
    const run = await waiting(lab, 'TASK-DELEGATE');
    assert.match(run.request.text, /echo below/);
    await ways.opencode_answer(lab, run, 'once');
    const end = await run.client.result(run.runId);
    assert.equal(end.status, 'completed', JSON.stringify(end));
    assert.ok(filesOf(lab, run.sessionId).includes('below.txt'));
}));

test('what nobody answers is refused in time, and the agent goes on', { timeout: 600000 }, () => withLab(impatient(), async lab => {
    for (const task of ['TASK-NOTE', 'TASK-QUESTION', 'TASK-DELEGATE']) {
        const from = lab.upstream.requests.length;
        const { client, runId, sessionId } = await start(lab, task);
        const view = await client.result(runId, { timeoutMs: 120000 });
        assert.equal(view.status, 'completed', `${task}: ${JSON.stringify(view)}`);
        assert.ok(lab.upstream.requests.slice(from).some(request => /nobody answered within 2 seconds/.test(request.body)), task);
        const log = await logOf(lab, runId);
        assert.ok(log.some(event => event.kind === 'log' && /nobody answered within 2 seconds/.test(event.text)), task);
        const asked = log.find(event => ['question', 'permission'].includes(event.kind));
        assert.ok(log.find(event => /nobody answered/.test(event.text)).time - asked.time >= 1990);
        assert.ok(!filesOf(lab, sessionId).some(name => ['note.txt', 'below.txt'].includes(name)));
    }
    await checkNothingLeft(lab);
}));

test('or the run is stopped, where that is the rule', { timeout: 600000 }, () => withLab(impatient({ unanswered: 'stop' }), async lab => {
    const { client, runId, sessionId } = await start(lab, 'TASK-QUESTION');
    const view = await client.result(runId, { timeoutMs: 120000 });
    assert.equal(view.status, 'failed', JSON.stringify(view));
    assert.equal(view.result.error.code, 'unanswered');
    assert.match(view.result.error.message, /nobody answered within 2 seconds/);
    assert.match(view.result.error.hint, /answerSeconds/);
    // The session is there for the next one.
    const next = await client.tool('opencode_send_message', { sessionId, message: 'TASK-PLAIN please' });
    assert.equal((await client.result(next.runId)).status, 'completed');
    await checkNothingLeft(lab);
}));

test('what is denied by rule is not asked', { timeout: 600000 }, () => withLab({ config: () => ({ agents: { permissions: 'deny', questions: 'deny' } }) },
    async lab => {
        for (const task of ['TASK-NOTE', 'TASK-QUESTION']) {
            const { client, runId, sessionId } = await start(lab, task);
            const view = await client.result(runId, { timeoutMs: 120000 });
            assert.ok(finalStates.includes(view.status), JSON.stringify(view));
            const log = await logOf(lab, runId);
            assert.ok(!log.some(event => ['question', 'permission'].includes(event.kind)), task);
            assert.ok(!log.some(event => event.data?.status === 'waiting'), task);
            assert.ok(!filesOf(lab, sessionId).includes('note.txt'));
        }
    }));

test('a run that waits is cancelled like any other', { timeout: 600000 }, () => withLab(asking, async lab => {
    const run = await waiting(lab, 'TASK-NOTE');
    const view = await run.client.tool('opencode_cancel_run', { runId: run.runId });
    assert.ok(['cancelled', 'running'].includes(view.status), JSON.stringify(view));
    const end = await run.client.result(run.runId, { timeoutMs: 30000 });
    assert.equal(end.status, 'cancelled');
    assert.equal(end.request, undefined);
    await checkNothingLeft(lab);
    const next = await run.client.tool('opencode_send_message', { sessionId: run.sessionId, message: 'TASK-PLAIN please' });
    assert.equal((await run.client.result(next.runId)).status, 'completed');
}));

test('the time to answer goes on when the supervisor is killed', { timeout: 600000 }, () => withLab(
    { config: () => ({ agents: { permissions: 'ask', answerSeconds: 12 } }) }, async lab => {
        const run = await waiting(lab, 'TASK-NOTE');
        await killNow(await lab.supervisorPid());
        await restart(lab);
        const client = await lab.connect();
        const again = await waitFor('it asks again', async () => {
            const view = await client.tool('opencode_get_result', { runId: run.runId });
            return view.status !== 'waiting' || view.request ? view : null;
        }, 30000, 50);
        assert.equal(again.request?.askedAt, run.request.askedAt, JSON.stringify(again));
        assert.equal(again.request.answerBy, run.request.answerBy);
        const end = await client.result(run.runId, { timeoutMs: 60000 });
        assert.equal(end.status, 'completed', JSON.stringify(end));
        const log = await logOf(lab, run.runId);
        const refused = log.find(event => /nobody answered within 12 seconds/.test(event.text));
        assert.ok(refused.time - run.request.askedAt < 20000, 'the time began anew');
        assert.equal(log.filter(event => event.kind === 'permission').length, 1);
    }));
