// The official clients of the extensions: tasks of both eras, and the view of MCP Apps with the host's own bridge.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import vm from 'node:vm';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';
import { AppBridge, getToolUiResourceUri } from '@modelcontextprotocol/ext-apps/app-bridge';
import { waitFor, withLab } from './lab.mjs';

const bare = { model: false, agent: false };
const tasksExtension = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
const info = { name: 'lab', version: '1' };
const hold = 'mkfifo /tmp/gate; read line < /tmp/gate';
const shell = (task, more = {}) => ({ agent: 'shell', task, ...more });

async function connected(lab, mode, body, capabilities = {}) {
    const client = new Client(info, { capabilities, ...mode && { versionNegotiation: { mode } } });
    await client.connect(new StdioClientTransport({ ...lab.recorded, env: lab.env(), cwd: lab.path('work') }));
    try {
        return await body(client);
    } finally {
        await client.close();
    }
}

// The way past the client's own codec, which knows no tasks: lines of a process of its own.
function rawDispatch(mcp) {
    return ({ method, params }) => mcp.request(method, params).then(result => ({ kind: 'result', result }),
        error => ({ kind: 'error', error: { code: error.code, message: error.message, data: error.data } }));
}

async function withModernSession(lab, options, body) {
    const capabilities = { elicitation: { form: {} }, ...tasksExtension };
    const mcp = await lab.connect({ era: 'modern', capabilities });
    await connected(lab, { pin: '2026-07-28' }, async client => {
        const session = createTaskSessionFromClient(client, { endpointId: 'lab', rawDispatch: rawDispatch(mcp),
            v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo: info, clientCapabilities: capabilities }, ...options });
        try {
            await body(session);
        } finally {
            await session.close();
        }
    }, capabilities);
}

test('ext-tasks, modern: a task is polled to its end, fails, and is cancelled', { timeout: 120000 }, () => withLab(bare, lab =>
    withModernSession(lab, {}, async session => {
        const execution = await session.callTool('opencode_run_task', shell('echo from the task', { wait: true }));
        assert.equal(execution.kind, 'task');
        const { outcome } = await execution.settle();
        assert.equal(outcome.status, 'completed');
        assert.equal(resultFromTaskOutcome(outcome).structuredContent.result.output.trim(), 'from the task');

        const failing = await (await session.callTool('opencode_run_task', shell('exit 3', { wait: true }))).settle();
        assert.equal(failing.outcome.status, 'completed');
        assert.equal(failing.outcome.result.isError, true);

        const long = await session.callTool('opencode_run_task', shell(hold, { wait: true }));
        await long.cancel();
        assert.equal((await long.settle()).outcome.status, 'cancelled');

        const plain = await session.callTool('opencode_list_runs', {});
        assert.equal(plain.kind, 'immediate');
    })));

test('ext-tasks, modern: the agent\'s question is answered by an update', { timeout: 300000 }, () => withLab({}, async lab => {
    const asked = [];
    await withModernSession(lab, { onInputRequest: async request => {
        asked.push(request);
        return { action: 'accept', content: { answer: 'GPL' } };
    } }, async session => {
        const execution = await session.callTool('opencode_run_task', { task: 'TASK-QUESTION please', repository: await lab.repository(), wait: true });
        const { outcome } = await execution.settle();
        assert.equal(outcome.status, 'completed', JSON.stringify(outcome));
        assert.equal(resultFromTaskOutcome(outcome).structuredContent.result.output, 'Thank you, going on.');
    });
    assert.ok(asked.length >= 1);
    assert.ok(lab.upstream.requests.some(one => one.body.includes('GPL') && one.body.includes('tool_result')));
}));

test('ext-tasks, legacy: a task is polled to its end', { timeout: 120000 }, () => withLab(bare, lab => connected(lab, undefined, async client => {
    const tools = (await client.listTools()).tools;
    const session = createTaskSessionFromClient(client, { endpointId: 'lab', tools: { currentTool: name => {
        const tool = tools.find(one => one.name === name);
        return tool && { name, inputSchema: tool.inputSchema, execution: tool.execution, taskSupport: tool.execution?.taskSupport };
    } } });
    const execution = await session.callTool('opencode_run_task', shell('echo from the task'), { task: { preference: 'require' } });
    assert.equal(execution.kind, 'task');
    const { outcome } = await execution.settle();
    assert.equal(outcome.status, 'completed', JSON.stringify(outcome));
    await session.close();
})));

test('TypeScript SDK v1: a task as a stream', { timeout: 120000 }, () => withLab(bare, async lab => {
    const client = new ClientV1(info, { capabilities: {} });
    await client.connect(new StdioV1({ ...lab.recorded, env: lab.env(), cwd: lab.path('work') }));
    await client.listTools();
    const kinds = [];
    let result;
    for await (const message of client.experimental.tasks.callToolStream({ name: 'opencode_run_task', arguments: shell('echo streamed') },
        undefined, { task: { ttl: 60000 } })) {
        kinds.push(message.type);
        result = message.result ?? result;
        assert.notEqual(message.type, 'error', message.error?.message);
    }
    assert.equal(kinds[0], 'taskCreated');
    assert.equal(result.structuredContent.result.output.trim(), 'streamed');
    await client.close();
}));

// A page as far as the view needs one.
class Element {
    children = [];
    attributes = {};
    listeners = {};
    hidden = false;
    scrollWidth = 1;
    scrollHeight = 1;
    #text = '';

    get textContent() {
        return this.#text + this.children.map(one => one.textContent).join('\n');
    }

    set textContent(text) {
        this.children = [];
        this.#text = String(text);
    }

    appendChild(child) {
        this.children.push(child);
    }

    setAttribute(name, value) {
        this.attributes[name] = value;
    }

    addEventListener(name, listener) {
        this.listeners[name] = listener;
    }
}

// Runs the page's script between a bridge's transport and elements that can be looked at.
function open(html) {
    const elements = Object.fromEntries([...html.matchAll(/ id="(\w+)"/g)].map(([, id]) => [id, new Element()]));
    const listeners = [];
    const transport = { start: async () => {}, close: async () => {}, send: async message => listeners.forEach(listener =>
        listener({ data: structuredClone(message), source: parent })) };
    const parent = { postMessage: message => queueMicrotask(() => transport.onmessage?.(structuredClone(message))) };
    const window = { parent, addEventListener: (name, listener) => name === 'message' && listeners.push(listener) };
    const document = { getElementById: id => elements[id] ?? assert.fail(`the page has no ${id}`), createElement: () => new Element(),
        documentElement: new Element() };
    const script = /<script>([\s\S]*)<\/script>/.exec(html)[1];
    return { elements, transport, run: () => vm.runInNewContext(script, { window, document, setTimeout, clearTimeout, queueMicrotask, Error }) };
}

test('MCP Apps: the view shows a run as it goes on, and ends when it is taken down', { timeout: 120000 }, () => withLab(bare, lab =>
    connected(lab, { pin: '2026-07-28' }, async client => {
        const tool = (await client.listTools()).tools.find(one => one.name === 'opencode_run_task');
        const uri = getToolUiResourceUri(tool);
        const { contents: [page] } = await client.readResource({ uri });
        assert.equal(page.mimeType, 'text/html;profile=mcp-app');
        assert.ok(!/https?:|src=|href=/.test(page.text), 'the page loads something');
        const view = open(page.text);
        const bridge = new AppBridge(client, info, { serverTools: {}, serverResources: {} }, { hostContext: {} });
        const ready = new Promise(resolve => { bridge.oninitialized = resolve; });
        await bridge.connect(view.transport);
        view.run();
        await ready;
        const args = shell(`${hold}; echo shown`);
        await bridge.sendToolInput({ arguments: args });
        const result = await client.callTool({ name: 'opencode_run_task', arguments: args });
        await bridge.sendToolResult(result);
        const status = () => view.elements.status.textContent;
        await waitFor('the view shows that it runs', () => status() === 'running');
        assert.equal(view.elements.cancel.hidden, false);
        const { runId } = result.structuredContent;
        await waitFor('the gate is there', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
        await lab.exec(runId, ['sh', '-c', 'echo go > /tmp/gate']);
        await waitFor('the view shows the end', () => status() === 'completed');
        assert.match(view.elements.output.textContent, /shown/);
        assert.equal(view.elements.cancel.hidden, true);
        await bridge.teardownResource({});
        await bridge.close();
    })));
