// The next day: the sandbox is gone, the machine was switched off over night, and a session goes on with its conversation and its
// files, committed or not.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { must, sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, killNow, logOf, powerOff, restart } from './living.mjs';

const conversation = lab => JSON.parse(lab.upstream.requests.map(request => request.body)
    .filter(body => body.includes('TASK-') && !body.includes('title generator')).at(-1)).messages;
const partsOf = messages => messages.flatMap(message => typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content)
    .map(part => ({ ...part, cache_control: undefined }));
const said = (messages, words) => partsOf(messages).filter(part => part.type === 'text' && part.text.includes(words)).length;

function workspaceOf(lab, sessionId) {
    const folder = path.join(lab.state, 'sessions', sessionId, 'workspace');
    return path.join(folder, fs.readdirSync(folder)[0]);
}
const gitIn = async (folder, ...args) => (await must('git', ['-c', `safe.directory=${folder}`, '-C', folder, ...args])).trim();

test('a session goes on the next day', { timeout: 600000 }, () => withLab({}, async lab => {
    const evening = await lab.connect();
    const first = await evening.tool('opencode_run_task', { task: 'TASK-NOTE in the evening', repository: await lab.repository() });
    assert.equal((await evening.result(first.runId)).status, 'completed');
    const folder = workspaceOf(lab, first.sessionId);
    const before = { head: await gitIn(folder, 'rev-parse', 'HEAD'), status: await gitIn(folder, 'status', '--porcelain') };
    assert.equal(before.status, '?? note.txt');
    const diff = (await evening.tool('opencode_get_diff', { runId: first.runId })).diff;
    await evening.close();

    // Night: nothing of it runs, and what doesn't outlive a reboot is gone.
    assert.deepEqual(sandboxedProcessesOf(lab.id), []);
    await killNow(await lab.supervisorPid());
    await powerOff(lab, first.runId);
    assert.deepEqual(fs.readdirSync(path.join(lab.state, 'run')), []);

    // A new conversation with an assistant that remembers nothing.
    await restart(lab);
    const morning = await lab.connect({ era: 'modern' });
    const { runs } = await morning.tool('opencode_list_runs');
    assert.deepEqual(runs.map(run => [run.runId, run.status, run.verdict]), [[first.runId, 'completed', 'changed']]);
    assert.equal((await morning.tool('opencode_get_diff', { sessionId: runs[0].sessionId })).diff, diff);
    assert.equal(await gitIn(folder, 'status', '--porcelain'), before.status);

    const next = await morning.tool('opencode_run_task', { task: 'TASK-PLAIN in the morning', sessionId: runs[0].sessionId });
    const end = await morning.result(next.runId);
    assert.equal(end.status, 'completed', JSON.stringify(end));
    assert.equal(end.model, 'anthropic/claude-sonnet-4-5');
    const messages = conversation(lab);
    assert.equal(said(messages, 'TASK-NOTE in the evening'), 1, 'the conversation is lost');
    assert.equal(said(messages, 'The note is written.'), 1);
    assert.ok(partsOf(messages).some(part => part.type === 'tool_use' && part.input.command === 'echo note >>note.txt'));
    assert.equal(said(messages, 'TASK-PLAIN in the morning'), 1);
    assert.equal(await gitIn(folder, 'rev-parse', 'HEAD'), before.head);
    assert.equal(await gitIn(folder, 'status', '--porcelain'), before.status);
    assert.equal(fs.readFileSync(path.join(folder, 'note.txt'), 'utf8'), 'note\n', 'the task of the evening was done again');
    await checkNothingLeft(lab);
}));

test('a session whose run the night ended goes on, too', { timeout: 600000 }, () => withLab({}, async lab => {
    const evening = await lab.connect();
    const first = await evening.tool('opencode_run_task', { task: 'TASK-HOLD in the evening', repository: await lab.repository() });
    await waitFor('the agent holds', async () => (await lab.exec(first.runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);
    // One message that it has not read yet, and a run that waits behind it.
    await evening.tool('opencode_send_message', { runId: first.runId, message: 'a word in between' });
    const behind = await evening.tool('opencode_send_message', { runId: first.runId, message: 'TASK-PLAIN from the queue', mode: 'queue' });
    await evening.close();
    await killNow(await lab.supervisorPid());
    await powerOff(lab, first.runId);

    await restart(lab);
    const morning = await lab.connect();
    const ended = await morning.result(first.runId, { timeoutMs: 30000 });
    assert.equal(ended.status, 'interrupted', JSON.stringify(ended));
    // What waited was accepted, so it is done now, in the same conversation.
    const end = await morning.result(behind.runId);
    assert.equal(end.status, 'completed', JSON.stringify(end));
    const messages = conversation(lab);
    assert.equal(said(messages, 'TASK-HOLD in the evening'), 1, 'the conversation is lost');
    // Whether it had come as far as the agent's memory nobody can say, so the log says that it was not read, and it isn't sent again.
    assert.ok(said(messages, 'a word in between') <= 1);
    const log = (await logOf(lab, first.runId)).filter(event => event.kind === 'message');
    assert.deepEqual(log.map(event => event.data.state), ['sent', 'unread']);
    assert.match(log[1].text, /interrupted/);
    assert.equal(said(messages, 'TASK-PLAIN from the queue'), 1);
    const tool = partsOf(messages).find(part => part.type === 'tool_result' && part.tool_use_id === 'toolu_hold_1');
    assert.match(JSON.stringify(tool.content), /interrupted/i);
    const folder = workspaceOf(lab, first.sessionId);
    assert.equal(await gitIn(folder, 'status', '--porcelain'), '?? held.txt');
    await checkNothingLeft(lab);
}));
