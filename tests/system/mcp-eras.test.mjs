// Every method in every revision, against a real run; each message is held against its schema by the lab.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finalStates, ToolError, waitFor, withLab } from './lab.mjs';

const tasksExtension = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
const hold = 'mkfifo /tmp/gate; read line < /tmp/gate';
const release = (lab, runId) => lab.exec(runId, ['sh', '-c', 'echo go > /tmp/gate']);

const code = async promise => promise.then(result => assert.fail(`no error but ${JSON.stringify(result)}`), error => error.code);

// What all eras have.
async function sweep(client, runId, sessionId) {
    const { tools } = await client.request('tools/list');
    assert.equal(tools.length, 9);
    const view = await client.tool('opencode_get_result', { runId, waitSeconds: 1 });
    assert.equal(view.status, 'completed');
    for (const [name, args] of [['opencode_list_runs', {}], ['opencode_get_log', { runId }], ['opencode_get_diff', { runId }], ['opencode_cancel_run', { runId }]])
        await client.tool(name, args);
    await assert.rejects(client.tool('opencode_get_result', { runId: 'nonsense' }), ToolError);
    assert.equal(await code(client.request('tools/call', { name: 'nope' })), -32602);
    assert.equal(await code(client.request('nope')), -32601);

    const { resources } = await client.request('resources/list');
    const uris = resources.map(one => one.uri);
    for (const kind of ['result', 'log', 'diff'])
        assert.ok(uris.includes(`run://${runId}/${kind}`), `${kind} is not among ${uris}`);
    const { resourceTemplates } = await client.request('resources/templates/list');
    assert.equal(resourceTemplates.length, 4);
    for (const uri of [...uris, `session://${sessionId}`, 'ui://sandbox-mcp/run.html']) {
        const { contents } = await client.request('resources/read', { uri });
        assert.equal(contents.length, 1);
        assert.equal(contents[0].uri, uri);
        assert.ok(typeof contents[0].text === 'string');
    }
    const missing = client.era === 'modern' ? -32602 : -32002;
    for (const uri of ['run://run_00000000000000000000000000/log', 'session://ses_00000000000000000000000000', 'file:///etc/passwd'])
        assert.equal(await code(client.request('resources/read', { uri })), missing, uri);

    const { prompts } = await client.request('prompts/list');
    for (const prompt of prompts) {
        const args = Object.fromEntries((prompt.arguments ?? []).map(one => [one.name, 'x']));
        const { messages } = await client.request('prompts/get', { name: prompt.name, arguments: args });
        assert.equal(messages[0].role, 'user');
    }
    if (client.revision !== '2024-11-05') {
        const complete = (uri, name, value) => client.request('completion/complete', { ref: { type: 'ref/resource', uri }, argument: { name, value } });
        assert.ok((await complete('run://{runId}/log', 'runId', runId.slice(0, 8))).completion.values.includes(runId));
        assert.ok((await complete('session://{sessionId}', 'sessionId', 'ses_')).completion.values.includes(sessionId));
        assert.deepEqual((await complete('run://{runId}/log', 'runId', 'x')).completion.values, []);
    }
}

test('every method in every revision', { timeout: 300000 }, () => withLab({ model: false, agent: false }, async lab => {
    const { runId, sessionId } = await lab.startScript('echo one; echo two');
    assert.equal((await lab.ended(runId)).status, 'completed');
    for (const revision of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
        const client = lab.mcp({ revision });
        const hello = await client.initialize();
        assert.equal(hello.protocolVersion, revision);
        assert.ok(hello.instructions);
        assert.deepEqual(await client.request('ping'), {});
        await sweep(client, runId, sessionId);
        if (revision === '2025-11-25') {
            assert.equal((await client.request('tasks/get', { taskId: runId })).status, 'completed');
            assert.ok((await client.request('tasks/list')).tasks.some(one => one.taskId === runId));
            assert.equal((await client.request('tasks/result', { taskId: runId })).structuredContent.runId, runId);
            assert.equal(await code(client.request('tasks/cancel', { taskId: runId })), -32602);
        } else {
            assert.equal(await code(client.request('tasks/get', { taskId: runId })), -32601);
        }
        assert.deepEqual(client.stray, []);
    }
    const client = lab.mcp({ era: 'modern' });
    assert.deepEqual((await client.initialize()).supportedVersions, ['2026-07-28']);
    await sweep(client, runId, sessionId);
    assert.equal(await code(client.request('tasks/get', { taskId: runId })), -32021);
    for (const gone of ['ping', 'initialize', 'logging/setLevel', 'resources/subscribe', 'tasks/list', 'tasks/result'])
        assert.equal(await code(client.request(gone)), -32601, gone);
    client.capabilities = tasksExtension;
    const task = await client.request('tasks/get', { taskId: runId });
    assert.equal(task.status, 'completed');
    assert.equal(task.result.isError, false);
}));

test('both eras alternate in one process, and a batch is one answer', { timeout: 120000 }, () => withLab({ model: false, agent: false }, async lab => {
    const client = lab.mcp({ era: 'modern' });
    await client.request('tools/list');
    client.era = 'legacy';
    assert.equal(await code(client.request('tools/list')), -32602);
    client.revision = '2025-03-26';
    await client.initialize();
    await client.request('tools/list');
    client.era = 'modern';
    await client.tool('opencode_list_runs');
    assert.equal((await client.request('server/discover')).resultType, 'complete');
    client.era = 'legacy';
    const call = (id, method, params = {}) => ({ jsonrpc: '2.0', id, method, params });
    client.writeLine(JSON.stringify([call('a', 'tools/call', { name: 'opencode_list_runs' }), { jsonrpc: '2.0', method: 'notifications/initialized' },
        call('b', 'ping'), call('c', 'nope')]));
    const answers = await waitFor('the answers to the batch', () => client.stray.length === 3 && client.stray);
    assert.deepEqual(answers.map(one => one.id).sort(), ['a', 'b', 'c']);
}));

for (const era of ['legacy', 'modern']) {
    test(`a wait tells progress, and a cancel ends the wait and never the run, ${era}`, { timeout: 120000 }, () => withLab({ model: false, agent: false },
        async lab => {
            const client = await lab.connect({ era });
            const { runId } = await client.tool('opencode_run_task', { agent: 'shell', task: hold });
            const wait = client.request('tools/call', { name: 'opencode_get_result', arguments: { runId, waitSeconds: 45 }, _meta: { progressToken: 0 } }, 'w');
            wait.catch(() => {});
            const progress = () => client.stray.filter(one => one.method === 'notifications/progress');
            await waitFor('progress', () => progress().length >= 2);
            assert.match(progress()[0].params.message, /waited/);
            client.notify('notifications/cancelled', { requestId: 'w', reason: 'enough' });
            const before = progress().length;
            assert.ok(!finalStates.includes((await client.tool('opencode_get_result', { runId })).status));
            assert.ok(progress().length <= before + 1);
            client.notify('notifications/cancelled', { requestId: 'w' }); // as some clients do for what was answered
            client.notify('notifications/cancelled', { requestId: 0 });
            await waitFor('the gate is there', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
            await release(lab, runId);
            assert.equal((await client.result(runId)).status, 'completed');
        }));
}

test('legacy: updates of a resource that was subscribed to, also from the next supervisor', { timeout: 120000 }, () => withLab({ model: false, agent: false },
    async lab => {
        const client = await lab.connect();
        const { runId, sessionId } = await client.tool('opencode_run_task', { agent: 'shell', task: `${hold}; echo more` });
        await waitFor('the gate is there', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
        const updates = uri => client.stray.filter(one => one.method === 'notifications/resources/updated' && one.params.uri === uri).length;
        const session = `session://${sessionId}`;
        for (const uri of [...['log', 'diff', 'result'].map(kind => `run://${runId}/${kind}`), session])
            await client.request('resources/subscribe', { uri });
        await client.tool('opencode_run_task', { agent: 'shell', task: 'echo later', sessionId });
        await waitFor('the new run of the session is told', () => updates(session));
        await client.request('resources/unsubscribe', { uri: `run://${runId}/result` });
        assert.equal(await code(client.request('resources/subscribe', { uri: 'x:y' })), -32002);
        await lab.killSupervisor();
        await lab.startSupervisor();
        await waitFor('the run was taken up', async () => (await client.tool('opencode_get_result', { runId })).status === 'running');
        const before = updates(session);
        await release(lab, runId);
        await waitFor('the diff is told', () => updates(`run://${runId}/diff`));
        assert.ok(updates(`run://${runId}/log`) >= 1);
        assert.equal(updates(`run://${runId}/result`), 0);
        await waitFor('the session is told', () => updates(session) > before);
        await waitFor('it has nothing to do', async () => (await client.tool('opencode_list_runs', { sessionId })).runs.every(one => one.status === 'completed'));
        const last = updates(session);
        await lab.ctl(['rm', sessionId]);
        await waitFor('its deletion is told', () => updates(session) > last);
    }));

test('modern: a subscription tells of resources and tasks, and ends with its cancel', { timeout: 120000 }, () => withLab({ model: false, agent: false },
    async lab => {
        const client = await lab.connect({ era: 'modern', capabilities: tasksExtension });
        const task = await client.request('tools/call', { name: 'opencode_run_task', arguments: { agent: 'shell', task: hold, wait: true } });
        assert.equal(task.resultType, 'task');
        const runId = task.taskId;
        await waitFor('the gate is there', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
        const uri = `run://${runId}/result`;
        client.request('subscriptions/listen', { notifications: { resourceSubscriptions: [uri, 'x:y'], taskIds: [runId], toolsListChanged: true } }, 'listen:1')
            .catch(() => {});
        const said = method => client.stray.filter(one => one.method === method);
        const acknowledged = await waitFor('the acknowledgement', () => said('notifications/subscriptions/acknowledged')[0]);
        assert.deepEqual(acknowledged.params.notifications, { resourceSubscriptions: [uri], taskIds: [runId] });
        await release(lab, runId);
        const end = await waitFor('the end of the task', () => said('notifications/tasks').find(one => one.params.status === 'completed'));
        assert.equal(end.params.result.structuredContent.runId, runId);
        assert.ok(said('notifications/resources/updated').length);
        client.notify('notifications/cancelled', { requestId: 'listen:1' });
        await client.tool('opencode_list_runs');
    }));

test('legacy: a task from call to result, and a cancelled one', { timeout: 120000 }, () => withLab({ model: false, agent: false }, async lab => {
    const client = await lab.connect();
    const create = async script => (await client.request('tools/call', { name: 'opencode_run_task', arguments: { agent: 'shell', task: script }, task: {} })).task;
    const good = await create('echo fine');
    assert.equal((await client.request('tasks/get', { taskId: good.taskId })).taskId, good.taskId);
    const result = await client.request('tasks/result', { taskId: good.taskId });
    assert.equal(result.structuredContent.result.output.trim(), 'fine');
    assert.equal(result._meta['io.modelcontextprotocol/related-task'].taskId, good.taskId);
    const bad = await create('exit 3');
    assert.equal((await client.request('tasks/result', { taskId: bad.taskId })).isError, true);
    assert.equal((await client.request('tasks/get', { taskId: bad.taskId })).status, 'failed');
    const long = await create(hold);
    const waiting = client.request('tasks/result', { taskId: long.taskId });
    assert.equal((await client.request('tasks/cancel', { taskId: long.taskId })).status, 'cancelled');
    assert.equal((await waiting).isError, true);
    assert.equal(await code(client.request('tools/call', { name: 'opencode_list_runs', arguments: {}, task: {} })), -32601);
}));

for (const era of ['legacy', 'modern']) {
    test(`the user answers what the agent asks, ${era}`, { timeout: 300000 }, () => withLab({}, async lab => {
        const asked = [];
        const answer = { action: 'accept', content: { answer: 'GPL' } };
        const client = await lab.connect({ era, capabilities: { elicitation: { form: {} } }, asked: message => { asked.push(message.params); return answer; } });
        const { runId } = await client.tool('opencode_run_task', { task: 'TASK-QUESTION please', repository: await lab.repository() });
        const args = { name: 'opencode_get_result', arguments: { runId, waitSeconds: 45 } };
        // The agent may take longer to start than one call waits.
        const view = await waitFor('the end of the run', async () => {
            let result = await client.request('tools/call', args);
            while (result.resultType === 'input_required') {
                asked.push(...Object.values(result.inputRequests).map(one => one.params));
                const inputResponses = Object.fromEntries(Object.keys(result.inputRequests).map(key => [key, answer]));
                result = await client.request('tools/call', { ...args, inputResponses });
            }
            return finalStates.includes(result.structuredContent.status) && result.structuredContent;
        }, 240000);
        assert.equal(asked.length, 1, JSON.stringify(view));
        assert.match(asked[0].message, /Which licence/);
        assert.deepEqual(asked[0].requestedSchema.properties.answer.enum, ['MIT', 'GPL']);
        assert.equal(view.status, 'completed', JSON.stringify(view));
        assert.equal(view.result.output, 'Thank you, going on.');
        if (era === 'legacy') { // as a task: its client comes for what it needs with tasks/result, and is told how it stands
            const { task } = await client.request('tools/call', { name: 'opencode_run_task', arguments: { task: 'TASK-QUESTION please' }, task: {} });
            const { structuredContent, _meta } = await client.request('tasks/result', { taskId: task.taskId });
            assert.equal(asked.length, 2);
            assert.equal(asked[1]._meta['io.modelcontextprotocol/related-task'].taskId, task.taskId);
            assert.equal(structuredContent.result.output, 'Thank you, going on.');
            assert.equal(_meta['io.modelcontextprotocol/related-task'].taskId, task.taskId);
            await waitFor('the end of the task is told', () => client.stray.some(one => one.method === 'notifications/tasks/status' &&
                one.params.taskId === task.taskId && one.params.status === 'completed'));
        }
        assert.ok(lab.upstream.requests.some(one => one.body.includes('GPL') && one.body.includes('tool_result')));
    }));
}
