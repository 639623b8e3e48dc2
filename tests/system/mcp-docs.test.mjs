// docs/mcp-examples.md has a call of each tool in each era with its answer. The same calls are made here, and what the server answers
// must have the shape that the page shows. SANDBOX_WRITE_GOLDEN=1 writes the page anew.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bare, Forge } from './forge.mjs';
import { finalStates, sourceFolder, waitFor, withLab } from './lab.mjs';

const page = path.join(sourceFolder, 'docs/mcp-examples.md');
const eras = ['legacy', 'modern'];

// One conversation: every tool once, the first call of each is the example.
async function converse(lab, era, where, changed, published) {
    const client = await lab.connect({ era });
    const examples = new Map();
    let id = 0;
    const call = async (name, args) => {
        const params = { name, arguments: args };
        if (era === 'modern')
            params._meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
        const result = await client.request('tools/call', { name, arguments: args });
        const exchange = [{ jsonrpc: '2.0', id: ++id, method: 'tools/call', params }, { jsonrpc: '2.0', id, result }];
        assert.equal(result.isError, false, JSON.stringify(result));
        if (!examples.has(name))
            examples.set(name, exchange);
        return result.structuredContent;
    };
    const until = (runId, states) => waitFor(`the run is ${states}`, async () => {
        const { structuredContent: view } = await client.request('tools/call', { name: 'opencode_get_result', arguments: { runId, waitSeconds: 45 } });
        assert.ok(states.includes(view.status) || !finalStates.includes(view.status), JSON.stringify(view));
        return states.includes(view.status) && view;
    }, 240000);

    const { runId, sessionId } = await call('opencode_run_task', { task: 'TASK-QUESTION please', ...where });
    const { request } = await until(runId, ['waiting']);
    await call('opencode_answer', { runId, requestId: request.requestId, answer: 'MIT' });
    await until(runId, ['completed']);
    await call('opencode_get_result', { runId, waitSeconds: 45 });
    const next = await call('opencode_send_message', { sessionId, message: 'TASK-QUESTION once more' });
    assert.ok(!finalStates.includes(next.status));
    await call('opencode_cancel_run', { runId: next.runId });
    await call('opencode_list_runs', { limit: 1 });
    await call('opencode_get_diff', { runId: changed.runId, path: 'hello.txt' });
    await call('opencode_get_log', { runId: changed.runId, limit: 2 });
    await call('opencode_create_pr', { sessionId: published.sessionId });
    return [examples, sessionId];
}

// The form of a value: the names and kinds in it, whatever the lengths.
function shape(value) {
    if (Array.isArray(value))
        return value.length ? [shape(value[0])] : [];
    if (value && typeof value === 'object')
        return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shape(one)]));
    return typeof value;
}

// What may be absent from one time to the next: it depends on how far the run had come.
const passing = new Set(['steps', 'startedAt', 'phase', 'verdict', 'completedAt', 'deadlineAt', 'result', 'evidence', 'usage', 'data', 'isolation']);
function differences(shown, given, at = '') {
    if (Array.isArray(shown) && Array.isArray(given))
        return shown.length && given.length ? differences(shown[0], given[0], `${at}[]`) : [];
    if (typeof shown !== typeof given || Array.isArray(shown) !== Array.isArray(given))
        return [`${at}: ${JSON.stringify(shown)} is shown, ${JSON.stringify(given)} was answered`];
    if (typeof shown === 'string')
        return shown === given ? [] : [`${at}: a ${shown} is shown, a ${given} was answered`];
    return [...new Set([...Object.keys(shown), ...Object.keys(given)])].filter(name => !passing.has(name) || (name in shown && name in given))
        .flatMap(name => name in shown && name in given ? differences(shown[name], given[name], `${at}.${name}`)
            : [`${at}.${name}: ${name in shown ? 'is shown and was not answered' : 'was answered and is not shown'}`]);
}

// The same words for everybody's machine.
function plain(lab, value) {
    const ids = new Map();
    let text = JSON.stringify(value);
    for (const [id] of text.matchAll(/(?:run|ses)_[0-9a-z]{26}/g))
        if (!ids.has(id))
            ids.set(id, `${id.slice(0, 4)}01m8m5px9sxrrtn0g249zdyj8${ids.size}`);
    for (const [id, other] of ids)
        text = text.replaceAll(id, other);
    text = text.replaceAll(JSON.stringify(lab.repositories).slice(1, -1), '/home/me/src').replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:40123')
        .replace(/token=[\w.~-]+/g, 'token=…').replace(/(que|per)_[0-9A-Za-z]{8,}/g, '$1_f21e8a70');
    return JSON.parse(text, (name, one) => {
        if (Array.isArray(one) && ['steps', 'events', 'files'].includes(name))
            return one.slice(0, 2);
        return typeof one === 'string' && one.length > 300 ? `${one.slice(0, 260)}…` : one;
    });
}

// One member of result a line, so that a page can be read.
function pretty(message) {
    if (!message.result)
        return JSON.stringify(message);
    const { result, ...head } = message;
    const members = Object.entries(result).map(([name, value]) => `  ${JSON.stringify(name)}: ${JSON.stringify(value)}`);
    return `${JSON.stringify(head).slice(0, -1)},"result":{\n${members.join(',\n')} }}`;
}

function write(found) {
    const names = [...found.legacy.keys()];
    const parts = names.flatMap(name => [`## ${name}`, '', ...eras.flatMap(era => [`${era === 'legacy' ? 'Legacy' : 'Modern'}:`, '', '```json',
        ...found[era].get(name).map(pretty), '```', ''])]);
    fs.writeFileSync(page, ['# Every tool in both eras', '',
        'Each call and its answer as they are on the wire, broken into lines here; long texts are cut with `…`. [mcp.md](mcp.md) says what they mean.',
        'A legacy client has said `initialize` once before; a modern one needs nothing. Recorded, and checked, by `tests/system/mcp-docs.test.mjs`.',
        '', ...parts].join('\n').trimEnd() + '\n');
}

function read() {
    const found = { legacy: new Map(), modern: new Map() };
    for (const [, era, block] of fs.readFileSync(page, 'utf8').matchAll(/^(Legacy|Modern):\n\n```json\n([\s\S]*?)\n```$/gm)) {
        const [request, ...answer] = block.split('\n');
        const exchange = [JSON.parse(request), JSON.parse(answer.join('\n'))];
        found[era.toLowerCase()].set(exchange[0].params.name, exchange);
    }
    return found;
}

async function withForge(body) {
    let forge;
    await withLab({ supervisor: false }, async lab => {
        forge = new Forge(lab.path('forge'), lab.secret);
        fs.mkdirSync(forge.root);
        await forge.start();
        try {
            lab.writeConfig({ services: { ...forge.services(), anthropic: { target: `http://127.0.0.1:${lab.upstream.port}` } }, agents: { startSeconds: 300 } });
            await lab.startSupervisor();
            for (const name of ['ANTHROPIC_API_KEY', 'GITHUB_TOKEN'])
                await lab.setSecret(lab.secret, name);
            await bare(forge.root, 'hub/me/notes');
            await body(lab);
        } finally {
            await forge.stop();
        }
    });
}

test('the page of examples shows what the server answers', { timeout: 600000 }, () => withForge(async lab => {
    const tools = (await (await lab.connect()).request('tools/list')).tools.map(one => one.name).sort();
    const repository = await lab.repository('notes');
    const changed = await lab.startScript('echo hello > hello.txt', { repository });
    await lab.ended(changed.runId);
    const published = await lab.startScript('git checkout -q -B agent/hello && echo hello > hello.txt && git add hello.txt && git commit -qm "Say hello"',
        { repository: 'https://github.com/me/notes', title: 'Say hello' });
    assert.equal((await lab.ended(published.runId)).status, 'completed');
    const [legacy, sessionId] = await converse(lab, 'legacy', { repository }, changed, published);
    const [modern] = await converse(lab, 'modern', { sessionId }, changed, published); // there the agent is at hand already
    const given = { legacy, modern };
    if (process.env.SANDBOX_WRITE_GOLDEN)
        write(Object.fromEntries(eras.map(era => [era, new Map([...given[era]].map(([name, one]) => [name, plain(lab, one)]))])));
    const shown = read();
    for (const era of eras) {
        assert.deepEqual([...shown[era].keys()].sort(), tools, `the ${era} examples`);
        for (const [name, [request, answer]] of shown[era]) {
            const [, other] = given[era].get(name);
            assert.deepEqual(differences(shape(answer), shape(other)), [], `${name}, ${era}`);
            assert.equal('_meta' in request.params, era === 'modern');
        }
    }
    // An agent that is not known is refused with the names of those that are, and the text for a model has all of them.
    const mcp = await lab.connect();
    const { content: [{ text }] } = await mcp.request('tools/call', { name: 'opencode_run_task', arguments: { task: 'x', agent: 'nonsense' } });
    const known = /known are: ([^.]*)/.exec(text)?.[1].split(', ');
    assert.ok(known?.length >= 6, text);
    const { description } = (await mcp.request('tools/list')).tools.find(one => one.name === 'opencode_run_task').inputSchema.properties.agent;
    for (const name of known)
        assert.ok(description.includes(name), `${name} is not in: ${description}`);
}));
