// The recorder that sits on every whole-program test finds what it should: a message for each of its rules, right and wrong.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Wire } from './mcp-wire.mjs';

const p = 'io.modelcontextprotocol/';
const envelope = (capabilities = {}) => ({ [`${p}protocolVersion`]: '2026-07-28', [`${p}clientCapabilities`]: capabilities });
const server = { [`${p}serverInfo`]: { name: 's', version: '1' } };

function wire(...messages) {
    const one = new Wire();
    for (const [from, message] of messages)
        one[from === '>' ? 'sent' : 'received'](typeof message === 'string' ? message : JSON.stringify({ jsonrpc: '2.0', ...message }));
    return one.problems;
}
const shake = (revision, capabilities = {}) => [['>', { id: 'i', method: 'initialize', params: { protocolVersion: revision, capabilities } }],
    ['<', { id: 'i', result: { protocolVersion: revision, capabilities: {}, serverInfo: { name: 's', version: '1' } } }]];
const call = (id, params = {}) => ['>', { id, method: 'tools/call', params: { name: 't', ...params } }];
const content = [{ type: 'text', text: 'x' }];

const right = {
    'a legacy call': [...shake('2025-06-18'), call(1), ['<', { id: 1, result: { content, structuredContent: {} } }]],
    'a modern call': [call(1, { _meta: envelope() }), ['<', { id: 1, result: { resultType: 'complete', content, _meta: server } }]],
    'a long text that was asked for': [...shake('2025-06-18'), call(1, { arguments: { maxBytes: 20000 } }),
        ['<', { id: 1, result: { content: [{ type: 'text', text: 'x'.repeat(20000) }], structuredContent: {} } }]],
    'a batch': [...shake('2025-03-26'), ['>', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]'], ['<', '[{"jsonrpc":"2.0","id":1,"result":{}}]']],
    'progress': [...shake('2025-11-25'), call(1, { _meta: { progressToken: 0 } }),
        ['<', { method: 'notifications/progress', params: { progressToken: 0, progress: 1 } }], ['<', { id: 1, result: { content } }]],
    'a question': [...shake('2025-11-25', { elicitation: {} }), ['<', { id: 's', method: 'elicitation/create', params: { mode: 'form', message: 'm',
        requestedSchema: { type: 'object', properties: { a: { type: 'string' } } } } }]],
    'input that is required': [call(1, { _meta: envelope({ elicitation: {} }) }), ['<', { id: 1, result: { resultType: 'input_required',
        inputRequests: { q: { method: 'elicitation/create', params: { mode: 'form', message: 'm',
            requestedSchema: { type: 'object', properties: { a: { type: 'string' } } } } } }, _meta: server } }]],
    'a legacy task': [...shake('2025-11-25'), call(1, { task: {} }), ['<', { id: 1, result: { task: { taskId: 't', status: 'working',
        createdAt: '2026-11-29T12:00:00Z', lastUpdatedAt: '2026-11-29T12:00:00Z', ttl: null } } }]],
};

const wrong = {
    'not JSON': ['<', 'hello'],
    'a blank line': ['<', ''],
    'half a pair': [...shake('2025-06-18'), call(1), ['<', '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\\ud800"}]}}']],
    'a number for a text': [...shake('2025-06-18'), call(1), ['<', { id: 1, result: { content: [{ type: 'text', text: 5 }] } }]],
    'an answer nobody asked': ['<', { id: 1, result: {} }],
    'a second answer': [...shake('2025-06-18'), call(1), ['<', { id: 1, result: { content } }], ['<', { id: 1, result: { content } }]],
    'an id of null': [...shake('2025-06-18'), call(1), ['<', { id: null, error: { code: -32700, message: 'm' } }]],
    'a null cursor': [...shake('2025-11-25'), ['>', { id: 1, method: 'tools/list' }], ['<', { id: 1, result: { tools: [], nextCursor: null } }]],
    'no resultType': [call(1, { _meta: envelope() }), ['<', { id: 1, result: { content, _meta: server } }]],
    'a resultType in a legacy result': [...shake('2025-11-25'), call(1), ['<', { id: 1, result: { content, resultType: 'complete' } }]],
    'no cache hints': [['>', { id: 1, method: 'tools/list', params: { _meta: envelope() } }],
        ['<', { id: 1, result: { resultType: 'complete', tools: [], _meta: server } }]],
    'a forbidden code': [['>', { id: 1, method: 'resources/read', params: { uri: 'x:', _meta: envelope() } }],
        ['<', { id: 1, error: { code: -32002, message: 'm' } }]],
    'a batch elsewhere': [...shake('2025-06-18'), ['>', { id: 1, method: 'ping' }], ['<', '[{"jsonrpc":"2.0","id":1,"result":{}}]']],
    'progress after the answer': [...shake('2025-11-25'), call(1, { _meta: { progressToken: 0 } }), ['<', { id: 1, result: { content } }],
        ['<', { method: 'notifications/progress', params: { progressToken: 0, progress: 1 } }]],
    'progress that stands': [...shake('2025-11-25'), call(1, { _meta: { progressToken: 0 } }),
        ['<', { method: 'notifications/progress', params: { progressToken: 0, progress: 1 } }],
        ['<', { method: 'notifications/progress', params: { progressToken: 0, progress: 1 } }]],
    'a question to a client without elicitation': [...shake('2025-11-25'), ['<', { id: 's', method: 'elicitation/create', params: { mode: 'form',
        message: 'm', requestedSchema: { type: 'object', properties: {} } } }]],
    'a mode in 2025-06-18': [...shake('2025-06-18', { elicitation: {} }), ['<', { id: 's', method: 'elicitation/create', params: { mode: 'form',
        message: 'm', requestedSchema: { type: 'object', properties: {} } } }]],
    'a task that nobody asked for': [call(1, { _meta: envelope() }), ['<', { id: 1, result: { resultType: 'task', taskId: 't', status: 'working',
        createdAt: '2026-11-29T12:00:00Z', lastUpdatedAt: '2026-11-29T12:00:00Z', ttlMs: null, _meta: server } }]],
    'an update that nobody asked for': [...shake('2025-11-25'), ['<', { method: 'notifications/resources/updated', params: { uri: 'run://x' } }]],
    'a text of more than about 8 KB': [...shake('2025-06-18'), call(1), ['<', { id: 1, result: { content: [{ type: 'text', text: 'x'.repeat(9000) }] } }]],
    'data of more than about 8 KB': [...shake('2025-06-18'), call(1), ['<', { id: 1, result: { content, structuredContent: { x: 'x'.repeat(9000) } } }]],
    'an unknown notification': [...shake('2025-11-25'), ['<', { method: 'notifications/nonsense', params: {} }]],
};

const messages = list => (Array.isArray(list[0]) ? list : [list]);
for (const [name, list] of Object.entries(right))
    test(`right: ${name}`, () => assert.deepEqual(wire(...messages(list)), []));
for (const [name, list] of Object.entries(wrong))
    test(`wrong: ${name}`, () => assert.equal(wire(...messages(list)).length, 1, wire(...messages(list)).join('\n')));
