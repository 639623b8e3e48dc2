// Every way in which a run can fail has its name: through the whole of it, with the real agent, one row for each. A row says what
// happens to the run, and how it must end: in which state, under which code, in whose words, and that the next run of the same session
// works. The model is the one of bad-model.mjs. LONG=1 puts a good run behind each row as well; ROWS=… plays the groups
// with a row whose name holds that; AT_ONCE=… so many runs at a time, where the machine is busy.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { badModel } from './bad-model.mjs';
import { finalStates, long, readIfThere, waitFor, withLab } from './lab.mjs';
import { agentsOf, checkNothingLeft } from './living.mjs';

const settings = lab => ({
    services: {
        anthropic: { target: `http://127.0.0.1:${lab.upstream.port}` },
        // Nobody listens there.
        dead: { target: 'http://127.0.0.1:1', provider: { npm: '@ai-sdk/openai-compatible', models: ['m'] } },
    },
    limits: { concurrentRuns: Number(process.env.AT_ONCE ?? 6), freeMemoryMiB: 0, memoryPressurePercent: 0 },
    agents: { startSeconds: 300 },
    model: { headSeconds: 5, silenceSeconds: 5, failuresInARow: 3, retryWaitSeconds: 60, requestsPerRun: 20 },
});
const impatient = lab => ({ ...settings(lab), run: { stallMinutes: 1 } });

// The host's pid of the agent of a run whose first request has reached the model.
async function agentOf(lab, run, asked) {
    await waitFor('the model is asked', asked, 300000, 100);
    const agents = agentsOf(lab).filter(({ pid }) => readIfThere(`/proc/${pid}/mountinfo`).includes(run.sessionId));
    assert.equal(agents.length, 1, `the agents of ${run.sessionId}: ${JSON.stringify(agents)}`);
    return agents[0].pid;
}

const failed = (code, words, more = {}) => ({ status: 'failed', code, words, verdict: 'incomplete', phase: 'work', ...more });
const again = { retryable: true };
const done = output => ({ status: 'completed', success: true, output });
const cut = finish => ({ status: 'completed', verdict: 'incomplete', success: false, finish });

// Each group is one session, and each row the next run of the one before: it has to bring the model the conversation so far. Behind the last
// is a good run, if it wasn't one itself. FAIL is the word for the model; WITH are more arguments, DURING what is done to the run.
// Where a minute without a sign of life is too long:
const silent = [
    [
        { fail: 'SLEEPS', name: 'a silent agent', want: failed('agent_stalled', /no sign of life .* for 1 minute/, again), atLeastMs: 60000 },
        { fail: 'COMPUTES', name: 'a program that is silent but works', want: done(/DONE/), atLeastMs: 75000 },
    ],
    [{ fail: 'SLEEPS', name: 'an agent that is stopped in its tracks', want: failed('agent_stalled', /no sign of life/, again), atLeastMs: 60000,
        during: async (lab, run, asked) => process.kill(await agentOf(lab, run, asked), 'SIGSTOP') }],
];
const groups = [
    [
        { fail: 'SUBAGENT', name: 'a subagent whose model is silent', want: failed('model_unreachable', /took too long/, again) },
        { fail: 'NO-HEAD', want: failed('model_unreachable', /took too long/, again) },
        { fail: 'SILENCE', want: failed('model_unreachable', /took too long/, again) },
        // The agent's own limit of four seconds for the command ends it.
        { fail: 'HOLDS', name: 'a child that holds the output of a finished command', want: done(/DONE/) },
    ],
    [
        { fail: '400', want: failed('model_error', /^messages: bad field/) },
        { fail: '401', want: failed('model_auth', /^invalid x-api-key/) },
        { fail: '402', want: failed('model_billing', /^the account is out of credit/) },
        { fail: '403', want: failed('model_auth', /^this key may not use the model/) },
        { fail: '404', want: failed('model_unknown', /^model: no such model/) },
        { fail: 'LEAVES', name: 'programs that outlive the answer', want: { ...done(/DONE/), left: ['sleep 986', 'sleep 987'], message: /left running/ } },
    ],
    [
        { fail: '429', want: failed('model_rate_limited', /^This request would exceed your rate limit/, again) },
        { fail: '429-SOON', want: failed('model_rate_limited', /^This request would exceed your rate limit/, again) },
        { fail: '429-LATE', want: failed('model_rate_limited', /^You have hit your limit.* asked again at 20\d\d-/, { ...again, retryInMs: 3600000 }) },
        { fail: '529', want: failed('model_overloaded', /^Overloaded/, again) },
        { fail: '500:2', name: 'a model that recovers in time', want: { ...done(/^RECOVERED$/), failures: 2 } },
    ],
    [
        { fail: '500', want: failed('model_error', /^Internal server error \(3 requests in a row failed\)/, { ...again, shown: /Internal server error/ }) },
        { fail: '502', want: failed('model_unreachable', /^502 Bad Gateway Bad Gateway, says the edge/, again) },
        { fail: '503', want: failed('model_overloaded', /^upstream unavailable/, again) },
        { fail: 'BEFORE-HEAD', want: failed('model_unreachable', /broke the connection/, again) },
        { fail: 'RESET', want: failed('model_unreachable', /broke the connection/, again) },
        // An answer that is cut off must not look like one that ended: the agent would ask again at once, for ever.
        { fail: 'RESET:2', name: 'a model that breaks off twice', want: { ...done(/^RECOVERED$/), failures: 2 } },
    ],
    [
        { fail: 'NO-REASON', name: 'a clean end without a reason', want: failed('model_unreachable', /broke off/, again) },
        { fail: 'SSE-OVERLOADED', want: failed('model_overloaded', /^Overloaded in the middle/, again) },
        { fail: 'SSE-API', want: failed('model_error', /^Broken in the middle/, again) },
        { fail: 'BAD-JSON', want: failed('model_error', /^JSON parsing failed/, again) },
        { fail: 'JSON-ERROR-200', want: failed('model_error', /^an error that says it is none/, again) },
        { fail: 'NULL-REASON', want: failed('model_error', /cut off without a reason/, again) },
        { fail: 'LOOP', name: 'an agent without an end', want: failed('budget_exhausted', /20 model requests.*model\.requestsPerRun/), requests: 20 },
    ],
    [
        { fail: 'TITLE', name: 'a title that can\'t be had', want: done(/the answer did not/) },
        { fail: 'MAX-TOKENS', want: { ...cut('length'), output: /^It was cut$/ } },
        { fail: 'EMPTY', want: cut('stop') },
        { fail: 'REFUSAL', want: failed('content_refused', /content filter/, { finish: 'content-filter' }) },
        { task: 'TASK-QUESTION please', name: 'a question that is rejected', want: cut('tool-calls'),
            during: async (lab, run) => {
                const open = await waitFor('it asks', async () => (await lab.ctlJson(['get', run.runId])).request, 300000, 1000);
                assert.equal((await lab.ctl(['answer', run.runId, open.requestId, 'reject'])).code, 0);
            } },
        { fail: 'SLEEPS', name: 'an agent that is killed', want: failed('agent_crashed', /signal 9/, again),
            during: async (lab, run, asked) => process.kill(await agentOf(lab, run, asked), 'SIGKILL') },
    ],
    // What doesn't fit is made smaller, so the conversation isn't what it was.
    [{ fail: '413', want: failed('context_overflow', /^Request exceeds the maximum size/) }],
    [{ fail: 'CONTEXT', want: failed('context_overflow', /^prompt is too long/) }],
    [
        { task: 'Say something', name: 'a provider that is not there', with: { model: 'dead/m' }, want: failed('model_unreachable', /can't be reached/, again) },
        { task: 'Say something', name: 'a model that the provider has not', with: { model: 'anthropic/no-such-model' }, want: failed('model_unknown', /Model not found/),
            orRefused: /model: anthropic\/no-such-model is not known; the nearest are/ },
    ],
];

const rows = process.env.ROWS && new RegExp(process.env.ROWS, 'i');
const nameOf = row => row.name ?? row.fail.toLowerCase().replaceAll('-', ' ');

function check(row, view, started) {
    const { want } = row;
    const text = JSON.stringify(view);
    assert.equal(view.status, want.status, text);
    if (want.verdict)
        assert.equal(view.verdict, want.verdict, text);
    assert.equal(view.result.success, want.success ?? false, text);
    assert.equal(view.result.error?.code, want.code, text);
    if (want.code) {
        const { error } = view.result;
        assert.match(error.message, want.words);
        assert.equal(error.phase, want.phase, text);
        assert.equal(error.retryable, want.retryable ?? false, text);
        assert.ok(error.hint, text);
        assert.doesNotMatch(error.message, /[\x00-\x1f]/);
    }
    if (want.retryInMs) {
        const inMs = view.result.error.retryAt - started;
        assert.ok(inMs > want.retryInMs - 5000 && inMs < want.retryInMs + 120000, `retryAt is ${inMs} ms after the start`);
    }
    if (want.output)
        assert.match(view.result.output, want.output);
    if (want.finish)
        assert.equal(view.evidence.finishReason, want.finish, text);
    if (want.left)
        assert.deepEqual([...view.evidence.leftRunning].sort(), want.left);
    else if (want.status === 'completed')
        assert.equal(view.evidence.leftRunning, undefined, text);
    if (want.failures)
        assert.equal(view.usage.failedRequests, want.failures, text);
    if (want.message)
        assert.match(view.message, want.message);
    if (row.requests)
        assert.ok(view.usage.requests >= row.requests && view.usage.requests <= row.requests + 2, text);
}

// Asks until it has ended, and notes what the view says of retries on the way.
async function follow(mcp, runId, shown) {
    const view = await mcp.result(runId, { timeoutMs: 600000, done: one => {
        if (one.retrying)
            shown.push(one);
        return finalStates.includes(one.status);
    } });
    return view;
}

async function good(mcp, sessionId, after) {
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-PLAIN please', sessionId, model: 'anthropic/claude-sonnet-4-5' });
    const view = await mcp.result(runId, { timeoutMs: 600000 });
    assert.equal(view.status, 'completed', `after ${after}: ${JSON.stringify(view)}`);
    assert.equal(view.result.output, 'A plain answer without any tool.', after);
}

async function play(lab, mcp, row, session, index, seen) {
    const shown = [];
    const started = Date.now();
    const word = `${row.fail}#r${index}`;
    let run;
    try {
        run = await mcp.tool('opencode_run_task', { task: row.task ?? `FAIL-${word} please`, ...row.with, ...session });
    } catch (error) {
        // From when on it is known what the agent knows, the run isn't begun at all.
        if (!row.orRefused?.test(error.message))
            throw error;
        return { ...session, took: 0 };
    }
    await row.during?.(lab, run, () => seen.has(`FAIL-${word}`));
    const view = await follow(mcp, run.runId, shown);
    check(row, view, started);
    const took = view.completedAt - view.startedAt;
    assert.ok(took >= (row.atLeastMs ?? 0), `ended after ${took} ms`);
    if (row.want.shown) {
        assert.ok(shown.length > 0, 'the view never said that it is retrying');
        assert.match(shown[0].retrying.message, row.want.shown);
        assert.ok(shown[0].retrying.failures >= 1 && shown[0].retrying.status >= 400, JSON.stringify(shown[0].retrying));
        assert.match(shown[0].message, row.want.shown);
        const log = await lab.ctlJson(['logs', run.runId]);
        assert.ok(log.events.some(event => event.kind === 'retry' && row.want.shown.test(event.text)), JSON.stringify(log));
    }
    return { sessionId: run.sessionId, took };
}

// The run's prompt reached the model, and with it what was said BEFORE in the session. Returns what the next one has to bring.
function checkAsked(lab, word, before) {
    const asked = lab.upstream.requests.filter(({ body }) => body.includes(`${word} please`) && !body.includes('title generator'));
    assert.ok(asked.length > 0, `${word} did not reach the model`);
    if (before)
        assert.ok(asked.some(({ body }) => body.includes(`${before} please`)), `${word} came without ${before}`);
    return word;
}

// Plays GROUPS side by side; their good runs share SEEN, what the model was asked.
async function playAll(t, lab, mcp, groups) {
    const seen = new Map();
    const chosen = groups.filter(group => !rows || group.some(row => rows.test(nameOf(row))));
    let index = 0;
    lab.upstream.answer = badModel({ seen });
    const results = await Promise.allSettled(chosen.map(async group => {
        let session = {};
        let before = null;
        for (const row of group) {
            const number = index++;
            let took;
            try {
                ({ took, ...session } = await play(lab, mcp, row, session, number, seen));
            } catch (error) {
                throw new Error(`${nameOf(row)}: ${error.message}`, { cause: error });
            }
            t.diagnostic(`${nameOf(row)}: ${(took / 1000).toFixed(1)} s`);
            if (row.fail)
                before = checkAsked(lab, `FAIL-${row.fail}#r${number}`, before);
            if (long || (row === group.at(-1) && !row.want.success))
                await good(mcp, session.sessionId, nameOf(row));
        }
    }));
    assert.deepEqual(results.filter(one => one.status === 'rejected').map(one => one.reason.message), []);
}

describe('every failure has its name, and the next run of its session works', { concurrency: true, timeout: 1400000 }, () => {

test('where nothing goes on', t => withLab({ config: impatient }, async lab => {
    await playAll(t, lab, await lab.connect(), silent);
    await checkNothingLeft(lab);
}));

test('where the model or the agent fails', t => withLab({ config: settings }, async lab => {
    const mcp = await lab.connect();
    await playAll(t, lab, mcp, groups);
    if (rows && !rows.test('a key that goes away'))
        return;
    // The key goes away while the run is at work.
    const run = await mcp.tool('opencode_run_task', { task: 'FAIL-GATE please' });
    await waitFor('its tool runs', async () => (await lab.exec(run.runId, ['test', '-p', '/tmp/gate'])).code === 0, 300000, 1000);
    assert.equal((await lab.ctl(['secret', 'rm', 'ANTHROPIC_API_KEY'])).code, 0);
    await lab.exec(run.runId, ['sh', '-c', 'echo go >/tmp/gate']);
    check({ want: failed('model_auth', /not in the vault/) }, await mcp.result(run.runId), 0);
    await lab.setSecret();
    await good(mcp, run.sessionId, 'a key that went away');
    await checkNothingLeft(lab);
}));

// What is wrong in the request itself is said at once, by the argument's name, and nothing begins.
test('what can\'t be begun is refused at once', () => withLab({ config: settings }, async lab => {
    const mcp = await lab.connect();
    for (const [args, words] of [
        [{ model: 'nobody/m' }, /model: no provider nobody here; there is .*anthropic/],
        [{ model: 'dead/n' }, /model: dead has no model n; there is m/],
        [{ agent: 'nobody' }, /agent/],
    ]) {
        const refused = await mcp.call('opencode_run_task', { task: 'TASK-PLAIN please', ...args });
        assert.equal(refused.isError, true, JSON.stringify(refused));
        assert.match(refused.content[0].text, words);
    }
    assert.equal((await mcp.tool('opencode_list_runs', {})).runs.length, 0);
    assert.equal(lab.upstream.requests.length, 0);
}));

});
