// How the agent itself can fail, at its start and in its own protocol, in ways that the real one can't be made to: the fakes of fakes.mjs
// in its place, in the real sandbox. Behind each row a good run of the same session.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fakeAcp, fakeAcpRepository, fakeOpencode, fakeOpencodeRepository } from './fakes.mjs';
import { waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, killNow, logOf, restart } from './living.mjs';

const failed = (code, phase, words, retryable) => ({ status: 'failed', code, phase, words, retryable });
const answerWith = answer => async (lab, run) => {
    const open = await waitFor('it asks', async () => (await lab.ctlJson(['get', run.runId])).request, 120000, 500);
    assert.equal((await lab.ctl(['answer', run.runId, open.requestId, answer])).code, 0);
};

const rows = [
    { name: 'never gets ready', modes: ['never'], want: failed('agent_not_ready', 'agent', /not ready in time/, true) },
    { name: 'exits at once', modes: ['exits'], want: failed('agent_crashed', 'agent', /code 3.*no wish to start/, true) },
    { name: 'is of another version', modes: ['version 2'], want: failed('agent_unsupported', 'agent', /2\.0\.1 is not supported/, false) },
    { name: 'never takes the prompt up', prompt: 'FAKE-IGNORED', want: failed('not_started', 'prompt', /did not take the prompt up/, true) },
    { name: 'loses its event stream for good', prompt: 'FAKE-STREAM-LOST', want: failed('agent_stalled', 'work', /event stream was lost|no sign of life/, true) },
    { name: 'falls silent', prompt: 'FAKE-SILENT', want: failed('agent_stalled', 'work', /no sign of life/, true) },
    { name: 'loses its event stream and has it again', prompt: 'FAKE-STREAM-DROPS', want: { status: 'completed', output: 'said while nobody listened' } },
    { name: 'has a request rejected', prompt: 'FAKE-PERMISSION', during: answerWith('reject'), want: { status: 'completed', verdict: 'incomplete' } },
    { name: 'has a request rejected with words', prompt: 'FAKE-PERMISSION', during: answerWith('reject: use git'),
        want: { status: 'completed', output: 'went on, told: use git' } },
    { name: 'has a conversation from the future', before: 'FAKE-FUTURE', want: failed('not_started', 'prompt', /clock is \d+ s behind/, true), last: true },
];

function check(row, view) {
    const text = JSON.stringify(view);
    assert.equal(view.status, row.want.status, text);
    if (row.want.verdict)
        assert.equal(view.verdict, row.want.verdict, text);
    if (row.want.output)
        assert.equal(view.result.output, row.want.output, text);
    assert.equal(view.result.error?.code, row.want.code, text);
    if (row.want.code) {
        const { error } = view.result;
        assert.match(error.message, row.want.words, text);
        assert.equal(error.phase, row.want.phase, text);
        assert.equal(error.retryable, row.want.retryable, text);
    }
}

const settings = {
    agents: { startSeconds: 20, ...fakeOpencode },
    limits: { concurrentRuns: 4, freeMemoryMiB: 0, memoryPressurePercent: 0 },
    run: { stallMinutes: 1 },
};

describe('how an agent can fail', { concurrency: true, timeout: 900000 }, () => {

test('an agent that fails has its name, and the next run of its session works', { timeout: 900000 },
    () => withLab({ model: false, agent: false, config: () => settings }, async lab => {
        const mcp = await lab.connect();
        const results = await Promise.allSettled(rows.map(async (row, index) => {
            const repository = await fakeOpencodeRepository(lab, `fake-${index}`, row.modes);
            let session = {};
            const play = async task => {
                const run = await mcp.tool('opencode_run_task', { task, repository, ...session });
                session = { sessionId: run.sessionId };
                await (task === row.prompt && row.during?.(lab, run));
                return mcp.result(run.runId, { timeoutMs: 400000 });
            };
            try {
                if (row.before)
                    assert.equal((await play(row.before)).status, 'completed');
                check(row, await play(row.prompt ?? 'do something'));
                // A conversation from the future takes no prompt until that has come.
                const next = row.last ? null : await play('do it well');
                if (next)
                    assert.equal(next.result.output, 'well done', JSON.stringify(next));
            } catch (error) {
                throw new Error(`${row.name}: ${error.message}`, { cause: error });
            }
        }));
        assert.deepEqual(results.filter(one => one.status === 'rejected').map(one => one.reason.message), []);
        await checkNothingLeft(lab);
    }));

// What an agent of the other protocol has said can't be asked for again. So an answer that died with a supervisor looks like this.
test('an agent of which nothing is heard after a restart is not said to hang', { timeout: 300000 }, () => withLab({ model: false, agent: false,
    config: () => ({ ...settings, agents: fakeAcp }) }, async lab => {
    const repository = await fakeAcpRepository(lab, 'fake');
    const { runId, sessionId } = await lab.ctlJson(['run', '--agent', 'mine', '--repo', repository, 'FAKE-SILENT']);
    await waitFor('it is at work', async () => (await lab.ctlJson(['logs', runId])).events.some(event => event.text === 'at work'), 60000);
    await killNow(await lab.supervisorPid());
    await restart(lab);
    const view = await lab.ended(runId);
    assert.equal(view.status, 'interrupted', JSON.stringify(view));
    assert.equal(view.result.error.code, 'interrupted');
    assert.match(view.result.error.message, /said nothing since a new supervisor.*may have been lost/);
    assert.equal(view.result.error.retryable, true);
    assert.match(view.result.output, /at work/);
    await logOf(lab, runId);
    const next = await lab.ctlJson(['send', sessionId, 'do it well']);
    assert.equal((await lab.ended(next.runId)).result.output, 'well done');
    await checkNothingLeft(lab);
}));

});
