// mcp-bridge.mjs: a stdio server behind Streamable HTTP, for suites that speak nothing else. Messages pass as they are; only ids
// and progress tokens are made unique where several requests share a process. Legacy: a process for each session, begun by
// initialize. Modern: one process for all.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { Wire } from './mcp-wire.mjs';

const meta = 'io.modelcontextprotocol/';
const versionOf = message => message.params?._meta?.[`${meta}protocolVersion`];
const nameOf = ({ method, params = {} }) => (/^(tools\/call|prompts\/get)$/.test(method) ? params.name
    : /^resources\/(read|subscribe|unsubscribe)$/.test(method) ? params.uri : /^tasks\/(get|update|cancel)$/.test(method) ? params.taskId : undefined);

// One process, spoken to in lines.
class Stdio {
    wire = new Wire();
    onMessage = () => {};

    constructor({ command, args, env, cwd }) {
        this.child = spawn(command, args, { env, cwd, stdio: ['pipe', 'pipe', 'inherit'] });
        this.exited = once(this.child, 'exit');
        this.child.stdin.on('error', () => {});
        let rest = '';
        this.child.stdout.setEncoding('utf8').on('data', text => {
            const lines = (rest + text).split('\n');
            rest = lines.pop();
            for (const line of lines) {
                this.wire.received(line);
                this.onMessage(JSON.parse(line));
            }
        });
    }

    send(message) {
        const line = JSON.stringify(message);
        this.wire.sent(line);
        this.child.stdin.write(line + '\n');
    }

    async close() {
        this.child.stdin.end();
        await this.exited;
    }
}

// An answer over HTTP: JSON when the response is all there is, an event stream once something comes before it.
class Exchange {
    #streaming = false;

    constructor(response, headers = {}) {
        this.response = response;
        this.headers = headers;
    }

    stream() {
        if (!this.#streaming)
            this.response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...this.headers }).flushHeaders();
        this.#streaming = true;
    }

    notify(message) {
        this.stream();
        this.response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
    }

    finish(message, status = 200) {
        if (this.#streaming)
            return this.response.end(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
        this.response.writeHead(status, { 'content-type': 'application/json', ...this.headers }).end(JSON.stringify(message));
    }
}

class Session {
    open = new Map(); // id → exchange
    unasked = null; // the GET stream
    waiting = []; // what came while there was none

    constructor(server, id) {
        this.stdio = new Stdio(server);
        this.id = id;
        this.stdio.onMessage = message => {
            const exchange = message.method === undefined && this.open.get(JSON.stringify(message.id));
            if (exchange) {
                this.open.delete(JSON.stringify(message.id));
                exchange.finish(message);
            } else if (message.method === 'notifications/progress' || message.id !== undefined) {
                [...this.open.values()].pop()?.notify(message);
            } else if (this.unasked) {
                this.unasked.notify(message);
            } else {
                this.waiting.push(message);
            }
        };
    }
}

function statusOf(message) {
    const code = message.error?.code;
    if ([-32020, -32021, -32022].includes(code) || (code === -32602 && /_meta/.test(message.error.message)))
        return 400;
    return code === -32601 ? 404 : 200;
}

// TRANSLATE may change what a request asks for (and may take its time), where a suite asks for things of its own by name.
export class Bridge {
    #sessions = new Map();
    #modern = null;
    #open = new Map(); // our id → { exchange, id, token }
    #lastId = 0;
    #closed = [];

    constructor(server, translate = message => message) {
        this.server = server;
        this.translate = translate;
    }

    async start() {
        this.http = http.createServer((request, response) => {
            this.#handle(request, response).catch(error => response.writeHead(500).end(error.stack));
        });
        this.http.listen(0, '127.0.0.1');
        await once(this.http, 'listening');
        this.url = `http://127.0.0.1:${this.http.address().port}/mcp`;
    }

    async #handle(request, response) {
        const local = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;
        const origin = request.headers.origin;
        if (!local.test(request.headers.host ?? '') || (origin && !local.test(new URL(origin).host)))
            return response.writeHead(403).end();
        const session = this.#sessions.get(request.headers['mcp-session-id']);
        if (request.method === 'DELETE' && session) {
            this.#sessions.delete(session.id);
            this.#closed.push(session.stdio);
            await session.stdio.close();
            return response.writeHead(200).end();
        }
        if (request.method === 'GET' && session) {
            session.unasked = new Exchange(response);
            session.unasked.stream();
            response.on('close', () => { session.unasked = null; });
            return session.waiting.splice(0).forEach(message => session.unasked.notify(message));
        }
        if (request.method !== 'POST')
            return response.writeHead(request.headers['mcp-session-id'] ? 404 : 405).end();
        const parts = [];
        for await (const part of request)
            parts.push(part);
        let message;
        try {
            message = JSON.parse(Buffer.concat(parts));
        } catch {
            return response.writeHead(400).end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32700, message: 'Parse error' } }));
        }
        if (versionOf(message) !== undefined || request.headers['mcp-protocol-version'] === '2026-07-28')
            return this.#onModern(request, response, message);
        return this.#onLegacy(request, response, message, session);
    }

    async #onLegacy(request, response, message, session) {
        if (message.method === 'initialize') {
            session = new Session(this.server, randomUUID());
            this.#sessions.set(session.id, session);
        } else if (!session) {
            return response.writeHead(request.headers['mcp-session-id'] ? 404 : 400).end();
        }
        if (message.id !== undefined && message.method !== undefined)
            session.open.set(JSON.stringify(message.id), new Exchange(response, { 'mcp-session-id': session.id }));
        else
            response.writeHead(202).end();
        return session.stdio.send(await this.translate(message));
    }

    #refuse(response, message, text) {
        new Exchange(response).finish({ jsonrpc: '2.0', id: message.id, error: { code: -32020, message: text } }, 400);
    }

    async #onModern(request, response, message) {
        const { headers } = request;
        if (message.id !== undefined && message.method !== undefined) {
            const version = versionOf(message);
            if (headers['mcp-protocol-version'] === undefined || (version !== undefined && headers['mcp-protocol-version'] !== version))
                return this.#refuse(response, message, 'MCP-Protocol-Version is not that of the body');
            if (headers['mcp-method'] !== message.method)
                return this.#refuse(response, message, 'Mcp-Method is not that of the body');
            if (nameOf(message) !== undefined && decodeName(headers['mcp-name']) !== nameOf(message))
                return this.#refuse(response, message, 'Mcp-Name is not that of the body');
        }
        this.#modern ??= this.#startModern();
        if (message.id === undefined || message.method === undefined) {
            response.writeHead(202).end();
            const found = [...this.#open].find(([, one]) => one.id === message.params?.requestId);
            if (message.method === 'notifications/cancelled' && found)
                this.#modern.send({ ...message, params: { ...message.params, requestId: found[0] } });
            return undefined;
        }
        const id = `bridge-${++this.#lastId}`;
        const token = message.params?._meta?.progressToken;
        const params = token === undefined ? message.params : { ...message.params, _meta: { ...message.params._meta, progressToken: id } };
        const exchange = new Exchange(response);
        this.#open.set(id, { exchange, id: message.id, token });
        response.on('close', () => {
            if (this.#open.delete(id))
                this.#modern.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, _meta: message.params._meta } });
        });
        return this.#modern.send(await this.translate({ ...message, id, params }));
    }

    #startModern() {
        const stdio = new Stdio(this.server);
        stdio.onMessage = message => {
            const listen = message.params?._meta?.[`${meta}subscriptionId`];
            const id = message.method === undefined ? message.id : message.params?.progressToken ?? listen;
            const one = this.#open.get(id);
            if (!one)
                return;
            if (message.method === undefined) {
                this.#open.delete(id);
                one.exchange.finish({ ...message, id: one.id }, statusOf(message));
            } else if (listen !== undefined) {
                one.exchange.notify({ ...message, params: { ...message.params, _meta: { ...message.params._meta, [`${meta}subscriptionId`]: one.id } } });
            } else {
                one.exchange.notify({ ...message, params: { ...message.params, progressToken: one.token } });
            }
        };
        // As every client does first. From then on the process knows what a request without an envelope lacks.
        stdio.send({ jsonrpc: '2.0', id: 'bridge-0', method: 'server/discover', params: { _meta: { [`${meta}protocolVersion`]: '2026-07-28',
            [`${meta}clientCapabilities`]: {} } } });
        return stdio;
    }

    // What was wrong with any message of any process.
    async stop() {
        this.http.close();
        this.http.closeAllConnections();
        const all = [...this.#closed, ...[...this.#sessions.values()].map(one => one.stdio), ...this.#modern ? [this.#modern] : []];
        await Promise.all(all.map(one => one.close()));
        return all.flatMap(one => one.wire.problems);
    }
}

// Names that are no plain header value come as =?base64?…?=.
function decodeName(value) {
    const encoded = /^=\?base64\?(.*)\?=$/.exec(value ?? '');
    return encoded ? Buffer.from(encoded[1], 'base64').toString() : value;
}
