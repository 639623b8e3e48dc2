// mcp-wire.mjs: holds every message of a server against the official JSON schema of its revision, and against what no schema
// says: each answer belongs to one request, progress rises and ends with the answer, no server asks what its client can't answer.
//
// The schemas come out of the official conformance suite, which carries them as object literals.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import Ajv from 'ajv';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import * as tasks from '@modelcontextprotocol/ext-tasks/core/v2';

const newestLegacy = '2025-11-25';
const modern = '2026-07-28';
const meta = 'io.modelcontextprotocol/';
const here = path.dirname(fileURLToPath(import.meta.url));
const modules = process.env.LAB_NODE_MODULES ?? path.join(here, '..', 'node_modules');

// The text of the object literal that begins at START.
function literal(source, start) {
    let depth = 0;
    let quote = null;
    for (let at = start; at < source.length; at++) {
        const char = source[at];
        if (quote) {
            if (char === '\\')
                at++;
            else if (char === quote)
                quote = null;
        } else if ('`"\''.includes(char)) {
            quote = char;
        } else if (char === '{') {
            depth++;
        } else if (char === '}' && --depth === 0) {
            return source.slice(start, at + 1);
        }
    }
    throw new Error('the schema has no end');
}

function revisionOf(definitions) {
    if (definitions.DiscoverRequest)
        return modern;
    if (definitions.GetTaskRequest)
        return '2025-11-25';
    return definitions.ElicitRequest ? '2025-06-18' : '2025-03-26';
}

function loadSchemas() {
    const source = fs.readFileSync(path.join(modules, '@modelcontextprotocol/conformance/dist/index.js'), 'utf8');
    const begin = /\{\$schema:`(?:https:\/\/json-schema\.org\/draft\/2020-12\/schema|http:\/\/json-schema\.org\/draft-07\/schema#)`,(?:\$defs|definitions):\{Annotations:/g;
    const found = new Map();
    for (let match; (match = begin.exec(source));) {
        const schema = (0, eval)(`(${literal(source, match.index)})`);
        const part = schema.$defs ? '$defs' : 'definitions';
        const ajv = part === '$defs' ? new Ajv2020({ strict: false, allErrors: true }) : new Ajv({ strict: false, allErrors: true });
        addFormats(ajv);
        ajv.addFormat('byte', true);
        ajv.addFormat('uri-template', true);
        ajv.addSchema(schema, 'mcp');
        found.set(revisionOf(schema[part]), { ajv, part, names: new Set(Object.keys(schema[part])) });
    }
    if (found.size !== 4)
        throw new Error(`the conformance suite should carry four schemas, and has ${[...found.keys()]}`);
    found.set('2024-11-05', found.get('2025-03-26')); // what came later is optional there
    return found;
}
const schemas = loadSchemas();

// What is wrong with VALUE by the first of NAMES that the revision has; null when nothing is.
function judge(revision, names, value) {
    const { ajv, part, names: known } = schemas.get(revision);
    const name = names.find(one => known.has(one));
    if (!name)
        return `${revision} has none of ${names}`;
    const validate = ajv.getSchema(`mcp#/${part}/${name}`);
    return validate(value) ? null : `${revision} ${name}: ${ajv.errorsText(validate.errors).slice(0, 600)}`;
}

const results = {
    'initialize': ['InitializeResult'], 'server/discover': ['DiscoverResult'], 'ping': ['EmptyResult'],
    'tools/list': ['ListToolsResult'], 'resources/list': ['ListResourcesResult'],
    'resources/templates/list': ['ListResourceTemplatesResult'], 'resources/read': ['ReadResourceResult'],
    'resources/subscribe': ['EmptyResult'], 'resources/unsubscribe': ['EmptyResult'], 'prompts/list': ['ListPromptsResult'],
    'prompts/get': ['GetPromptResult'], 'completion/complete': ['CompleteResult'], 'tools/call': ['CallToolResult'],
    'subscriptions/listen': ['SubscriptionsListenResult'],
};
const legacyTasks = { 'tasks/get': ['GetTaskResult'], 'tasks/list': ['ListTasksResult'], 'tasks/cancel': ['CancelTaskResult'],
    'tasks/result': ['CallToolResult'] };
const modernTasks = { 'tasks/get': tasks.GetTaskResultV2Schema, 'tasks/update': tasks.UpdateTaskResultV2Schema,
    'tasks/cancel': tasks.CancelTaskResultV2Schema };

function judgeZod(schema, value, name) {
    const parsed = schema.safeParse(value);
    return parsed.success ? null : `${name}: ${parsed.error.message.slice(0, 600)}`;
}

// What a model is shown: about 8 KB in each form, unless it asked for more by an argument; text and data never one without the other.
const shownMax = 8600;
function judgeSize({ method, asked }, result) {
    if (method !== 'tools/call' || !Array.isArray(result.content))
        return null;
    const max = asked?.maxBytes > 6000 ? shownMax + 2 * asked.maxBytes : asked?.limit === 1 ? 130000 : shownMax;
    const text = result.content.map(one => one.text ?? '').join('');
    if (Buffer.byteLength(text) > max)
        return `a text of ${Buffer.byteLength(text)} bytes`;
    const data = Buffer.byteLength(JSON.stringify(result.structuredContent) ?? '');
    return data > max ? `structured content of ${data} bytes` : null;
}

function judgeResult(request, result) {
    const { method, revision } = request;
    const size = judgeSize(request, result);
    if (size)
        return size;
    if (revision === modern) {
        if (typeof result.resultType !== 'string')
            return 'a modern result has no resultType';
        if (!result._meta?.[`${meta}serverInfo`] && method !== 'subscriptions/listen')
            return 'a modern result has no serverInfo';
        if (modernTasks[method])
            return judgeZod(modernTasks[method], result, method);
        if (result.resultType === 'task')
            return method === 'tools/call' && request.capabilities?.extensions?.[`${meta}tasks`]
                ? judgeZod(tasks.CreateTaskResultV2Schema, result, 'task') : `a task that nobody asked for, by ${method}`;
        if (result.resultType === 'input_required')
            return request.capabilities?.elicitation ? judge(revision, ['InputRequiredResult'], result) : 'input_required without elicitation';
    } else if (result.resultType !== undefined) {
        return 'a legacy result has a resultType';
    } else if (legacyTasks[method]) {
        return judge(revision, legacyTasks[method], result);
    } else if (method === 'tools/call' && result.task) {
        return request.task ? judge(revision, ['CreateTaskResult'], result) : 'a task that nobody asked for';
    }
    return results[method] ? judge(revision, results[method], result) : `there is no method ${method} that could be answered`;
}

// One connection. `problems` fills as messages pass; JSON lines go in as they are.
export class Wire {
    #requests = new Map(); // in flight, by JSON of the id
    #finished = new Set();
    #asked = new Set(); // by the server, in flight
    #progress = new Map(); // token → last number, while its request is in flight
    #negotiated = null;
    #capabilities = {};
    #watched = false; // something was subscribed to
    #modernSeen = false;
    problems = [];
    count = 0;

    #fail(text, line) {
        this.problems.push(`${text}\n    ${String(line).slice(0, 500)}`);
    }

    sent(line) {
        let message;
        try {
            message = JSON.parse(line);
        } catch {
            return; // what a hostile client says is no message
        }
        for (const one of Array.isArray(message) ? message : [message])
            this.#sent(one);
    }

    #sent(message) {
        if (!message || typeof message !== 'object')
            return;
        if (message.method === undefined) {
            this.#asked.delete(JSON.stringify(message.id));
            return;
        }
        const params = message.params ?? {};
        if (message.id === undefined)
            return;
        const envelope = params._meta?.[`${meta}protocolVersion`] !== undefined;
        const key = JSON.stringify(message.id);
        const request = { method: message.method, revision: envelope ? modern : this.#negotiated ?? newestLegacy,
            capabilities: envelope ? params._meta[`${meta}clientCapabilities`] : this.#capabilities, task: params.task, asked: params.arguments,
            wanted: params.protocolVersion, given: params.capabilities, token: params._meta?.progressToken, key };
        this.#modernSeen ||= envelope;
        this.#watched ||= ['resources/subscribe', 'subscriptions/listen'].includes(message.method);
        this.#requests.set(key, [...this.#requests.get(key) ?? [], request]);
        if (request.token !== undefined)
            this.#progress.set(JSON.stringify(request.token), 0);
    }

    received(line) {
        this.count++;
        if (line.trim() === '' || line.endsWith('\r'))
            return this.#fail('a line that is blank or ends with a carriage return', line);
        if (Buffer.byteLength(line) > 10 << 20)
            return this.#fail('a line above 10 MiB', line);
        let message;
        let wellFormed = true;
        try {
            message = JSON.parse(line, (name, value) => {
                wellFormed &&= name.isWellFormed() && (typeof value !== 'string' || value.isWellFormed());
                return value;
            });
        } catch {
            return this.#fail('not JSON', line);
        }
        if (!wellFormed)
            this.#fail('half a surrogate pair', line);
        if (Array.isArray(message)) {
            if (this.#negotiated !== '2025-03-26' || message.length === 0)
                this.#fail('an array of messages in another revision than 2025-03-26, or an empty one', line);
            message.forEach(one => this.#received(one, line));
        } else {
            this.#received(message, line);
        }
    }

    #received(message, line) {
        const problem = message.method === undefined ? this.#response(message)
            : message.id === undefined ? this.#notification(message) : this.#request(message);
        if (problem)
            this.#fail(problem, line);
    }

    #response(message) {
        const key = JSON.stringify(message.id);
        const [request, ...rest] = this.#requests.get(key) ?? [];
        if (!request) // a request that was no valid one may still be told so
            return message.error?.code === -32600 ? null
                : this.#finished.has(key) ? `a second answer to ${key}` : `an answer to ${key}, which nobody asked`;
        if (rest.length)
            this.#requests.set(key, rest);
        else
            this.#requests.delete(key);
        this.#finished.add(key);
        if (request.token !== undefined)
            this.#progress.delete(JSON.stringify(request.token));
        if (message.error)
            return this.#error(message, request);
        if (request.method === 'initialize') {
            this.#negotiated = message.result?.protocolVersion;
            this.#capabilities = request.given ?? {};
            request.revision = this.#negotiated;
            if (!schemas.has(request.revision) || request.revision === modern)
                return `initialize negotiated ${request.revision}`;
        }
        return judge(request.revision, ['JSONRPCResultResponse', 'JSONRPCResponse'], message) ?? judgeResult(request, message.result);
    }

    #error(message, request) {
        const { code } = message.error;
        if (request.revision === modern && [-32002, -32042].includes(code))
            return `the code ${code} is forbidden there`;
        if (request.revision !== modern && code <= -32020 && code >= -32099)
            return `the code ${code} is a modern one`;
        return judge(request.revision, ['JSONRPCErrorResponse', 'JSONRPCError'], message);
    }

    #notification(message) {
        const params = message.params ?? {};
        const listen = params._meta?.[`${meta}subscriptionId`];
        const revision = listen !== undefined ? modern : this.#negotiated ?? (this.#modernSeen ? modern : newestLegacy);
        if (message.method === 'notifications/progress') {
            const token = JSON.stringify(params.progressToken);
            if (!this.#progress.has(token))
                return 'progress for a token that nobody waits with';
            if (!(params.progress > this.#progress.get(token)))
                return 'progress does not rise';
            this.#progress.set(token, params.progress);
        }
        if (listen !== undefined && this.#requests.get(JSON.stringify(listen))?.[0].method !== 'subscriptions/listen')
            return this.#finished.has(JSON.stringify(listen)) ? null : 'a subscription that nobody opened';
        if (message.method === 'notifications/resources/updated' && !this.#watched)
            return 'an update that nobody asked for';
        if (message.method === 'notifications/tasks') {
            const { _meta: ignored, ...task } = params;
            return judgeZod(tasks.TaskStatusNotificationV2Schema, message, 'tasks') ?? (task.taskId ? null : 'a task without id');
        }
        return judge(revision, ['ServerNotification'], message);
    }

    #request(message) {
        if (!this.#negotiated)
            return 'a request by the server without initialize';
        if (message.method === 'elicitation/create' && !this.#capabilities.elicitation)
            return 'a question to a client that takes none';
        if (message.method === 'elicitation/create' && (this.#negotiated < '2025-11-25') !== (message.params.mode === undefined))
            return 'a mode where the revision has none, or none where it has';
        const key = JSON.stringify(message.id);
        if (this.#asked.has(key))
            return 'the id of a question is in use';
        this.#asked.add(key);
        return judge(this.#negotiated, ['ServerRequest'], message);
    }
}

// What is wrong with a transcript that mcp-recorder.mjs wrote.
export function judgeTranscript(text) {
    const wire = new Wire();
    for (const line of text.split('\n').filter(Boolean)) {
        const [from, message] = JSON.parse(line);
        if (from === 'client')
            wire.sent(message);
        else
            wire.received(message);
    }
    return wire.problems;
}
