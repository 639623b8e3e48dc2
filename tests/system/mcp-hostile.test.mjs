// What no well-behaved client does: malformed input, floods, sudden ends; and supervisors that are not as they should be.
// The process lives, answers what can be answered, and says nothing invalid.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { alive, canConnect, finalStates, median, waitFor, withLab } from './lab.mjs';
import { Wire } from './mcp-wire.mjs';

const bare = { model: false, agent: false };
const meta = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}';

// sandbox-mcp as a client sees it: bytes and lines.
class Raw {
    lines = [];
    wire = new Wire();
    #rest = '';

    constructor(lab, { kind = 'test', env = {} } = {}) {
        const folder = (kind === 'release' && process.env.SANDBOX_RELEASE_BIN) || lab.bin;
        this.child = spawn(path.join(folder, 'sandbox-mcp'), [], { env: lab.env(env), cwd: lab.path('work'), stdio: ['pipe', 'pipe', 'ignore'] });
        this.exited = once(this.child, 'exit');
        this.child.stdin.on('error', () => {});
        this.child.stdout.setEncoding('utf8').on('data', text => {
            const lines = (this.#rest + text).split('\n');
            this.#rest = lines.pop();
            for (const line of lines) {
                this.wire.received(line);
                this.lines.push(line);
            }
        });
    }

    write(text) {
        for (const line of (typeof text === 'string' ? text : text.toString('utf8')).split('\n'))
            this.wire.sent(line.replace(/^\ufeff/, ''));
        this.child.stdin.write(text);
    }

    // Everything that was said before the answer to a ping that comes behind it.
    async heard() {
        const id = `ping-${this.lines.length}-${Math.random()}`;
        this.write(`{"jsonrpc":"2.0","id":"${id}","method":"ping"}\n`);
        const end = await waitFor('the answer to a ping', () => this.lines.findIndex(line => line.includes(id)) + 1);
        return this.lines.splice(0, end).slice(0, -1);
    }

    async end() {
        this.child.stdin.end();
        const [code] = await this.exited;
        assert.equal(code, 0);
        assert.equal(this.#rest, '', 'half a line was left');
        assert.deepEqual(this.wire.problems, []);
    }
}

const request = (id, method = 'ping', params = '') => `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{${params}}}`;
const list = (id, args) => request(id, 'tools/call', `"name":"opencode_list_runs","arguments":${args}`);
const silence = [];
const invalid = id => [new RegExp(`^\\{"jsonrpc":"2.0","id":${id},"error":\\{"code":-32600,`)];
const result = id => [new RegExp(`^\\{"jsonrpc":"2.0","id":${id},"result":`)];
const params = id => [new RegExp(`^\\{"jsonrpc":"2.0","id":${id},"error":\\{"code":-32602,`)];

const table = {
    'not JSON': ['hello', silence],
    'a scalar': ['5', silence],
    'a string': ['"ping"', silence],
    'null': ['null', silence],
    'an unfinished object': ['{"jsonrpc":"2.0","id":1,"method":"ping"', silence],
    'something behind the object': ['{"jsonrpc":"2.0","id":1,"method":"ping"} x', silence],
    'an empty array': ['[]', silence],
    'an array where none was negotiated': [`[${request(1)}]`, silence],
    'bytes that are no UTF-8': [Buffer.from([0xff, 0xfe, 0x80]), silence],
    'a blank line': ['   ', silence],
    'an id of null': [request('null'), silence],
    'a fractional id': [request('1.5'), silence],
    'a boolean id': [request('true'), silence],
    'an object as id': [request('{}'), silence],
    'no jsonrpc': ['{"id":1,"method":"ping"}', invalid(1)],
    'another jsonrpc': ['{"jsonrpc":"1.0","id":"a","method":"ping"}', invalid('"a"')],
    'a method that is no string': ['{"jsonrpc":"2.0","id":2,"method":7}', invalid(2)],
    'no method': ['{"jsonrpc":"2.0","id":3}', invalid(3)],
    'params that are an array': ['{"jsonrpc":"2.0","id":4,"method":"ping","params":[1]}', params(4)],
    'an unknown notification': ['{"jsonrpc":"2.0","method":"notifications/nonsense"}', silence],
    'a cancel of nothing': ['{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}', silence],
    'a cancel without id': ['{"jsonrpc":"2.0","method":"notifications/cancelled"}', silence],
    'a response that nobody waits for': ['{"jsonrpc":"2.0","id":8,"result":{}}', silence],
    'an error that nobody waits for': ['{"jsonrpc":"2.0","id":"question-1","error":{"code":1,"message":"m"}}', silence],
    'deep nesting': [`{"jsonrpc":"2.0","id":5,"method":"ping","params":{"a":${'['.repeat(5000)}${']'.repeat(5000)}}}`, invalid(5)],
    'the same name twice': ['{"jsonrpc":"2.0","id":1,"method":"ping","method":"initialize"}', invalid(1)],
    'a carriage return at the end': [`${request(6)}\r`, result(6)],
    'an id of 0': [request('0'), result('0')],
    'an empty string as id': [request('""'), result('""')],
    'an id of 2^53': [request('9007199254740992'), result('9007199254740992')],
    'an id above 2^53': [request('9007199254740993'), result('9007199254740993')],
    'a negative id': [request('-1'), result('-1')],
    'an id with escapes': [request('"\\u0041\\n"'), result('"\\\\u0041\\\\n"')],
    'unknown members': ['{"x":1,"jsonrpc":"2.0","method":"ping","id":7,"y":null}', result(7)],
    'half a surrogate pair in an argument': [list(10, '{"sessionId":"\\ud800"}'), result(10)],
    'a NUL in an argument': [list(11, '{"sessionId":"a\\u0000b"}'), result(11)],
    'a name that is nearly right': [list(32, '{"session_id":"ses_x"}'), [/"id":32,.*sessionId: is how the argument is called, not `session_id`.*"isError":true/]],
    'nulls and unknown arguments': [list(12, '{"status":null,"limit":null,"before":"","wait_for_previous":true}'), result(12)],
    'numbers as text': [list(13, '{"limit":"5"}'), result(13)],
    'arguments as text': [list(14, '"{\\"limit\\":5}"'), result(14)],
    'no arguments': [request(15, 'tools/call', '"name":"opencode_list_runs"'), result(15)],
    'arguments that are an array': [list(16, '[]'), params(16)],
    'a tool that is no string': [request(17, 'tools/call', '"name":5'), params(17)],
    'a modern version that is no string': [request(18, 'tools/list', '"_meta":{"io.modelcontextprotocol/protocolVersion":5}'), params(18)],
    'a modern method without the rest of its envelope': [request(19, 'tools/list', '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'), params(19)],
    'an unknown version': [request(20, 'tools/list', meta.replace('2026-07-28', '2099-01-01')), [/"code":-32022,.*"supported":\["2026-07-28"\],"requested":"2099-01-01"/]],
};

test('malformed input', { timeout: 120000 }, () => withLab(bare, async lab => {
    const raw = new Raw(lab);
    raw.write(`${request('"i"', 'initialize', '"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}')}\n`);
    await raw.heard();
    for (const [name, [line, expected]] of Object.entries(table)) {
        raw.write(Buffer.concat([Buffer.from(line), Buffer.from('\n')]));
        // Calls are answered when the supervisor was asked, behind the ping's.
        if (expected.length)
            await waitFor(`${name}: an answer`, () => raw.lines.length);
        const heard = await raw.heard();
        assert.equal(heard.length, expected.length, `${name}: ${heard}`);
        expected.forEach((pattern, i) => assert.match(heard[i], pattern, name));
    }
    await raw.end();
}));

test('a byte order mark costs no more than its line', { timeout: 60000 }, () => withLab({ ...bare, supervisor: false }, async lab => {
    const raw = new Raw(lab);
    raw.write(`\ufeff${request(1)}\n`);
    assert.ok((await raw.heard()).length <= 1);
    await raw.end();
}));

test('lines in pieces, long lines, and a thousand at once', { timeout: 240000 }, () => withLab(bare, async lab => {
    const raw = new Raw(lab);
    for (const byte of Buffer.from(`${request(1)}\n`)) {
        raw.child.stdin.write(Buffer.from([byte]));
        await new Promise(setImmediate);
    }
    raw.wire.sent(request(1));
    assert.equal((await raw.heard()).length, 1);

    raw.write(`${request(2, 'ping', `"x":"${'x'.repeat(15 << 20)}"`)}\n`);
    await waitFor('the long line is answered', () => raw.lines.length, 60000);
    raw.lines.length = 0;
    raw.write(`{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":"${'x'.repeat(17 << 20)}"}}\n`);
    raw.wire = new Wire(); // what is discarded is owed no answer
    assert.deepEqual(await raw.heard(), []);

    const many = Array.from({ length: 1000 }, (_, i) => (i % 2 ? request(i) : list(i, '{"limit":1}')));
    raw.write(many.join('\n') + '\n');
    await waitFor('a thousand answers', () => raw.lines.length >= 1000, 60000);
    const answers = raw.lines.splice(0).map(line => JSON.parse(line));
    assert.deepEqual(answers.map(one => one.id).sort((a, b) => a - b), many.map((_, i) => i));
    assert.ok(answers.every(one => one.result && !one.result.isError), JSON.stringify(answers.find(one => one.result?.isError)));

    raw.write(`${list('"same"', '{}')}\n${list('"same"', '{}')}\n`);
    await waitFor('both of one id are answered', () => raw.lines.length === 2);
    await raw.end();
}));

test('a client that reads nothing is waited for, and then hears everything', { timeout: 120000 }, () => withLab(bare, async lab => {
    const raw = new Raw(lab);
    raw.child.stdout.pause();
    for (let i = 0; i < 3000; i++)
        raw.write(`${request(i, 'tools/list')}\n`);
    assert.ok(alive(raw.child.pid));
    raw.child.stdout.resume();
    await waitFor('all answers', () => raw.lines.length === 3000, 60000);
    await raw.end();
}));

const bin = 'release';
test('every end is quick, and ends no run', { timeout: 120000 }, () => withLab({ ...bare, bin }, async lab => {
    const client = await lab.connect();
    const { runId } = await client.tool('opencode_run_task', { agent: 'shell', task: 'mkfifo /tmp/gate; read line < /tmp/gate' });
    const ends = {
        'end of input': raw => raw.child.stdin.end(),
        SIGINT: raw => raw.child.kill('SIGINT'),
        SIGTERM: raw => raw.child.kill('SIGTERM'),
        SIGHUP: raw => raw.child.kill('SIGHUP'),
        'nobody reads': raw => { raw.child.stdout.destroy(); raw.write(`${request(9)}\n`); },
    };
    for (const [name, end] of Object.entries(ends)) {
        const took = [];
        for (let round = 0; round < 5; round++) {
            const raw = new Raw(lab, { kind: bin });
            raw.write(`${request(1)}\n${request(2, 'tools/call', `"name":"opencode_get_result","arguments":{"runId":"${runId}","waitSeconds":45}`)}\n`);
            await waitFor('it serves', () => raw.lines.length, 10000, 2);
            const started = performance.now();
            end(raw);
            const [code] = await raw.exited;
            took.push(performance.now() - started);
            assert.equal(code, 0, name);
        }
        assert.ok(median(took) < 80, `${name}: ${took.map(Math.round)} ms`);
    }
    assert.ok(!finalStates.includes((await client.tool('opencode_get_result', { runId })).status));
}));

test('two of one client and twenty of others see the same runs, whoever is killed', { timeout: 120000 }, () => withLab(bare, async lab => {
    const two = [await lab.connect(), await lab.connect({ era: 'modern' })];
    const { runId } = await two[0].tool('opencode_run_task', { agent: 'shell', task: 'echo seen' });
    const wait = two[1].call('opencode_get_result', { runId, waitSeconds: 30 });
    await two[0].kill();
    assert.equal((await wait).structuredContent.status, 'completed');
    const twenty = await Promise.all(Array.from({ length: 20 }, (_, i) => lab.connect({ era: i % 2 ? 'modern' : 'legacy' })));
    const started = await Promise.all(twenty.slice(0, 5).map(client => client.tool('opencode_run_task', { agent: 'shell', task: 'echo more' })));
    const lists = await Promise.all(twenty.map(client => client.tool('opencode_list_runs', { limit: 50 })));
    const ids = lists.map(one => one.runs.map(each => each.runId).join());
    assert.deepEqual(new Set(ids).size, 1);
    assert.ok(started.every(one => ids[0].includes(one.runId)));
}));

const text = answer => answer.content.map(part => part.text).join('\n');

test('a supervisor that can not be started is said', { timeout: 120000 }, () => withLab({ ...bare, supervisor: false }, async lab => {
    const client = await lab.connect({ env: { SANDBOX_MCP_SUPERVISORD: '/bin/false' } });
    assert.deepEqual((await client.request('resources/list')).resources, []);
    assert.equal(await canConnect({ path: lab.socket }), false, 'a list started a supervisor');
    const answer = await client.call('opencode_list_runs');
    assert.equal(answer.isError, true);
    assert.match(text(answer), /supervisor.*(doctor|supervisord\.log)/s);
    assert.deepEqual(await client.request('ping'), {});
}));

test('a supervisor that hangs is given up, and the next call works', { timeout: 120000 }, () => withLab(bare, async lab => {
    const client = await lab.connect();
    await client.tool('opencode_list_runs');
    const pid = await lab.supervisorPid();
    process.kill(pid, 'SIGSTOP');
    try {
        const answer = await client.call('opencode_list_runs');
        assert.equal(answer.isError, true);
        assert.match(text(answer), /did not answer.*Call again/s);
    } finally {
        process.kill(pid, 'SIGCONT');
    }
    await client.tool('opencode_list_runs');
}));

test('a supervisor that is restarted in mid-call is said, and the next call works', { timeout: 120000 }, () => withLab(bare, async lab => {
    const client = await lab.connect({ era: 'modern' });
    const { runId } = await client.tool('opencode_run_task', { agent: 'shell', task: 'mkfifo /tmp/gate; read line < /tmp/gate' });
    await waitFor('the gate is there', async () => (await lab.exec(runId, ['test', '-p', '/tmp/gate'])).code === 0);
    const wait = client.call('opencode_get_result', { runId, waitSeconds: 45 });
    await client.request('server/discover');
    await lab.killSupervisor();
    const answer = await wait;
    assert.equal(answer.isError, true);
    assert.match(text(answer), /Runs are kept and go on\. Call again\./);
    assert.equal((await client.tool('opencode_get_result', { runId })).runId, runId);
}));

// Hears hello and answers as the daemon of another time would.
function otherVersion(socket) {
    const frame = message => {
        const body = Buffer.from(JSON.stringify(message));
        const head = Buffer.alloc(5);
        head.writeUInt32BE(body.length + 1);
        head.write('J', 4);
        return Buffer.concat([head, body]);
    };
    const server = net.createServer(connection => {
        connection.on('error', () => {});
        connection.once('data', () => connection.end(frame({ id: 1, error: { code: 'conflict', message: 'this supervisor speaks protocol 999, the client 1' } })));
    });
    fs.mkdirSync(path.dirname(socket), { recursive: true });
    return new Promise(resolve => server.listen(socket, () => resolve(server)));
}

test('a supervisor of another version is said, with what to do', { timeout: 120000 }, () => withLab({ ...bare, supervisor: false }, async lab => {
    const server = await otherVersion(lab.socket);
    const client = await lab.connect();
    const answer = await client.call('opencode_list_runs');
    assert.equal(answer.isError, true);
    assert.match(text(answer), /protocol 999.*stop the supervisor/s);
    await new Promise(resolve => server.close(resolve));
    await lab.startSupervisor();
    await client.tool('opencode_list_runs');
}));
