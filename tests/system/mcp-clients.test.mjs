// The official clients, each in every mode it has, take a run from start to result, list it, and cancel another one.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { finalStates, nodeModules, run, waitFor, withLab } from './lab.mjs';

// CALL(name, arguments) answers {isError, content, structuredContent} as that client sees it.
async function runLife(lab, call, repository) {
    const started = await call('opencode_run_task', { task: 'TASK-NOTE please', repository, title: 'A note' });
    assert.ok(!started.isError, JSON.stringify(started));
    const { runId } = started.structuredContent;
    // Text and structure tell the same: some clients show only one of them.
    assert.ok(started.content.some(part => part.text.includes(runId)));
    const view = await waitFor('the run has ended', async () => {
        const result = await call('opencode_get_result', { runId, waitSeconds: 5 });
        assert.ok(!result.isError, JSON.stringify(result));
        return finalStates.includes(result.structuredContent.status) && result;
    }, 120000);
    assert.equal(view.structuredContent.status, 'completed', JSON.stringify(view));
    assert.equal(view.structuredContent.result.output, 'The note is written.');
    assert.ok(view.content.some(part => part.text.includes('The note is written.')));

    const list = await call('opencode_list_runs', { limit: 5 });
    assert.equal(list.structuredContent.runs[0].runId, runId);
    assert.equal(list.structuredContent.runs[0].title, 'A note');

    const second = await call('opencode_run_task', { task: 'TASK-HOLD please', repository });
    const cancelled = await call('opencode_cancel_run', { runId: second.structuredContent.runId });
    assert.ok(!cancelled.isError, JSON.stringify(cancelled));
    const end = await waitFor('the run is cancelled', async () => {
        const result = await call('opencode_get_result', { runId: second.structuredContent.runId, waitSeconds: 5 });
        return finalStates.includes(result.structuredContent.status) && result.structuredContent;
    }, 120000);
    assert.equal(end.status, 'cancelled');

    const wrong = await call('opencode_get_result', { runId: 'nonsense' });
    assert.equal(wrong.isError, true);
    assert.match(wrong.content[0].text, /runId/);
}

function checkTools(tools) {
    const names = tools.map(tool => tool.name);
    for (const name of ['opencode_run_task', 'opencode_get_result', 'opencode_list_runs', 'opencode_cancel_run'])
        assert.ok(names.includes(name), `${name} is missing`);
    for (const tool of tools) {
        assert.ok(tool.title && tool.description && tool.annotations && tool.outputSchema, tool.name);
        assert.equal(tool.inputSchema.type, 'object');
    }
}

test('TypeScript SDK v1', { timeout: 300000 }, () => withLab({}, async lab => {
    const client = new ClientV1({ name: 'lab', version: '1' });
    await client.connect(new StdioV1({ ...lab.recorded, env: lab.env(), cwd: lab.path('work') }));
    try {
        assert.equal(client.getServerVersion().name, 'sandbox-mcp');
        assert.ok(client.getInstructions());
        checkTools((await client.listTools()).tools);
        await client.ping();
        await runLife(lab, (name, args) => client.callTool({ name, arguments: args }), await lab.repository());
    } finally {
        await client.close();
    }
}));

const modes = { default: undefined, auto: { mode: 'auto' }, 'pinned to 2026-07-28': { mode: { pin: '2026-07-28' } } };
for (const [name, versionNegotiation] of Object.entries(modes)) {
    test(`TypeScript SDK v2, ${name}`, { timeout: 300000 }, () => withLab({}, async lab => {
        const client = new ClientV2({ name: 'lab', version: '1' }, versionNegotiation ? { versionNegotiation } : {});
        await client.connect(new StdioV2({ ...lab.recorded, env: lab.env(), cwd: lab.path('work') }));
        try {
            checkTools((await client.listTools()).tools);
            await runLife(lab, (tool, args) => client.callTool({ name: tool, arguments: args }), await lab.repository());
        } finally {
            await client.close();
        }
    }));
}

for (const era of ['legacy', 'modern']) {
    test(`Inspector CLI, ${era}`, { timeout: 300000 }, () => withLab({}, async lab => {
        const inspector = path.join(nodeModules, '@modelcontextprotocol/inspector/clients/launcher/build/index.js');
        const config = lab.path('config', 'inspector.json');
        fs.writeFileSync(config, JSON.stringify({ mcpServers: { sandbox: { type: 'stdio', ...lab.recorded,
            env: lab.env(), protocolEra: era } } }));
        const inspect = (...args) => run(process.execPath, [inspector, '--cli', '--config', config, '--server', 'sandbox', '--format', 'json',
            ...args], { env: { PATH: process.env.PATH, HOME: lab.path('home'), MCP_INSPECTOR_SECRET_STORE: 'memory', SANDBOX_LAB: lab.id },
            cwd: lab.path('work') });
        const listed = await inspect('--method', 'tools/list', '--strict');
        assert.equal(listed.code, 0, listed.stderr + listed.stdout);
        checkTools(find(JSON.parse(listed.stdout), 'tools'));
        for (const [method, member, ...more] of [['resources/list', 'resources'], ['resources/templates/list', 'resourceTemplates'], ['prompts/list', 'prompts'],
            ['prompts/get', 'messages', '--prompt-name', 'delegate', '--prompt-args', 'task=x'], ['resources/read', 'contents', '--uri', 'ui://sandbox-mcp/run.html']]) {
            const result = await inspect('--method', method, ...more);
            assert.equal(result.code, 0, `${method}: ${result.stderr}${result.stdout}`);
            assert.ok(Array.isArray(find(JSON.parse(result.stdout), member)), method);
        }
        const apps = await inspect('--method', 'tools/list', '--app-info');
        assert.equal(apps.code, 0, apps.stderr + apps.stdout);
        await runLife(lab, async (name, args) => {
            const result = await inspect('--method', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args));
            assert.ok([0, 5].includes(result.code), `${result.code}: ${result.stderr}${result.stdout}`);
            const answer = JSON.parse(result.stdout);
            return { isError: result.code === 5, content: find(answer, 'content'), structuredContent: find(answer, 'structuredContent') };
        }, await lab.repository());
    }));
}

// The member called NAME, wherever the inspector puts it.
function find(value, name) {
    if (value === null || typeof value !== 'object')
        return undefined;
    if (name in value)
        return value[name];
    for (const one of Object.values(value)) {
        const found = find(one, name);
        if (found !== undefined)
            return found;
    }
    return undefined;
}
