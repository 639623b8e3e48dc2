// lab.mjs: a whole installation for one test: private folders and ports, a scripted model behind a server that notes what it
// was sent, the real supervisor, MCP clients and sample repositories. A lab ends everything it started and fails when
// something is left over: a process, a mount, a sanitizer's report, or the secret in a file.
//
// Environment (set by ctest): SANDBOX_BIN, the folder of the programs under test; SANDBOX_RELEASE_BIN, the same built
// without sanitizers, for measurements; SANDBOX_PROBE, the program of tests/probe; LAB_OUTPUT, where the files of a failed lab go.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { judgeTranscript, Wire } from './mcp-wire.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
export const testsFolder = path.dirname(here);
export const sourceFolder = path.dirname(testsFolder);
export const nodeModules = process.env.LAB_NODE_MODULES ?? path.join(testsFolder, 'node_modules');
export const long = Boolean(process.env.LONG);

// The words that the scripted model knows (tests/model/fixtures).
export const rangeTask = 'The test of range_sum fails. Find out why, fix it and commit the change on a new branch.';
export const finalStates = ['completed', 'failed', 'cancelled', 'interrupted'];

export function binFolder(kind = 'test') {
    const folder = (kind === 'release' && process.env.SANDBOX_RELEASE_BIN) || process.env.SANDBOX_BIN;
    assert.ok(folder, 'SANDBOX_BIN is not set: run the tests through ctest, or set it to build/bin');
    return path.resolve(folder);
}

// The program that plays the hostile agent (tests/probe).
export function probeProgram() {
    const file = process.env.SANDBOX_PROBE ?? path.resolve(binFolder(), '../tests/bin/probe');
    assert.ok(fs.existsSync(file), `${file} is missing: build the target probe, or set SANDBOX_PROBE`);
    return file;
}

export const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

// Asks CONDITION until it answers something true, and returns that.
export async function waitFor(what, condition, timeoutMs = 30000, everyMs = 25) {
    const end = Date.now() + timeoutMs;
    for (;;) {
        const value = await condition();
        if (value)
            return value;
        if (Date.now() > end)
            assert.fail(`waited ${timeoutMs} ms in vain: ${what}`);
        await pause(everyMs);
    }
}

export function median(numbers) {
    const sorted = [...numbers].sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
}

export function alive(pid) {
    try {
        return !/^State:\s+[ZX]/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
        return false;
    }
}

// Its first thread may be gone while another still holds its descriptors, the listening socket among them.
export function gone(pid) {
    try {
        return fs.readdirSync(`/proc/${pid}/task`).every(thread => !alive(thread));
    } catch {
        return true;
    }
}

// What a file says; nothing when it, or the process it tells of, is gone by now.
export const readIfThere = file => {
    try {
        return fs.readFileSync(file, 'latin1');
    } catch {
        return '';
    }
};
const link = file => {
    try {
        return fs.readlinkSync(file);
    } catch {
        return '';
    }
};

// A number of the process's status: "VmRSS", in kB, and the like.
export const statusNumber = (pid, name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
const wakeUps = pid => fs.readdirSync(`/proc/${pid}/task`).reduce((sum, task) =>
    sum + Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8'))[1]), 0);

// Once whatever was going on has come to rest, the process sleeps all through SECONDS.
export async function checkAsleep(pid, seconds) {
    await waitFor('it has come to rest', async () => {
        const before = wakeUps(pid);
        await pause(500);
        return wakeUps(pid) === before;
    }, 20000);
    const before = wakeUps(pid);
    await pause(seconds * 1000); // the passing of time is the point
    assert.equal(wakeUps(pid) - before, 0, `woke up ${wakeUps(pid) - before} times in ${seconds} s with nothing to do`);
}

export function processIds() {
    return fs.readdirSync('/proc').filter(name => /^\d+$/.test(name)).map(Number);
}

// Every process that has to do with the lab called ID: by its environment, arguments, folders or mounts. The last finds what
// runs inside a sandbox, whose environment knows nothing of us: its workspace is a mount from the lab's folder.
export function processesOf(id) {
    const found = [];
    for (const pid of processIds()) {
        if (pid === process.pid || !alive(pid))
            continue;
        const traces = [readIfThere(`/proc/${pid}/environ`), readIfThere(`/proc/${pid}/cmdline`), readIfThere(`/proc/${pid}/mountinfo`),
            link(`/proc/${pid}/cwd`), link(`/proc/${pid}/exe`)];
        if (traces.some(text => text.includes(id)))
            found.push({ pid, command: readIfThere(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim() ||
                readIfThere(`/proc/${pid}/comm`).trim() });
    }
    return found;
}

// Those of them that live in another pid namespace than we do.
export function sandboxedProcessesOf(id) {
    const ours = link('/proc/self/ns/pid');
    return processesOf(id).filter(one => {
        const theirs = link(`/proc/${one.pid}/ns/pid`);
        return theirs && theirs !== ours;
    });
}

export function descendantsOf(pid) {
    const children = new Map();
    for (const one of processIds()) {
        const parent = Number(/\) \S (\d+)/.exec(readIfThere(`/proc/${one}/stat`))?.[1] ?? 0);
        children.set(parent, [...(children.get(parent) ?? []), one]);
    }
    const found = [];
    const walk = parent => {
        for (const child of children.get(parent) ?? []) {
            found.push(child);
            walk(child);
        }
    };
    walk(pid);
    return found;
}

export function killHard(pid) {
    try {
        process.kill(pid, 'SIGKILL');
    } catch (error) {
        if (error.code !== 'ESRCH')
            throw error;
    }
}

export function run(program, args, { input, timeoutMs = 120000, ...options } = {}) {
    return new Promise(resolve => {
        const child = execFile(program, args, { timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 256 << 20, ...options },
            (error, stdout, stderr) => resolve({ code: error ? error.code ?? error.signal ?? -1 : 0, stdout, stderr }));
        child.stdin.on('error', () => {});
        child.stdin.end(input ?? '');
    });
}

export async function must(program, args, options) {
    const result = await run(program, args, options);
    assert.equal(result.code, 0, `${program} ${args.join(' ')}: ${result.stderr}${result.stdout}`);
    return result.stdout;
}

export async function freePort() {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    await once(server, 'close');
    return port;
}

// A model server's face: notes each request, then passes it on to the scripted model, or lets ANSWER deal with it.
class Upstream {
    requests = [];
    answer = null; // (request, response, body) => true when it was answered

    async start(modelPort) {
        this.server = http.createServer((request, response) => {
            const parts = [];
            request.on('data', part => parts.push(part));
            request.on('error', () => {});
            request.on('end', () => {
                const body = Buffer.concat(parts);
                this.requests.push({ time: Date.now(), method: request.method, url: request.url, headers: request.headers,
                    raw: request.rawHeaders, body: body.toString() });
                if (this.answer?.(request, response, body))
                    return;
                const onward = http.request({ host: '127.0.0.1', port: modelPort, method: request.method, path: request.url,
                    headers: request.headers }, reply => {
                    response.writeHead(reply.statusCode, reply.rawHeaders);
                    reply.pipe(response);
                });
                onward.on('error', () => response.destroy());
                response.on('close', () => onward.destroy());
                onward.end(body);
            });
        });
        this.server.listen(0, '127.0.0.1');
        await once(this.server, 'listening');
        this.port = this.server.address().port;
    }

    async stop() {
        if (!this.server)
            return;
        this.server.close();
        this.server.closeAllConnections();
        await once(this.server, 'close');
    }
}

export class ToolError extends Error {}

// One sandbox-mcp process, spoken to in plain JSON lines: what a client of either era does, and no more. CAPABILITIES are the
// client's; ASKED answers what the server asks.
export class Mcp {
    #waiting = new Map();
    #rest = '';
    #nextId = 0;
    stray = []; // lines that answer nothing
    stderr = '';
    wire = new Wire();

    constructor(program, { env, cwd, era = 'legacy', revision = '2025-11-25', capabilities = {}, asked, identity = {} }) {
        this.era = era;
        this.revision = revision;
        this.capabilities = capabilities;
        this.asked = asked;
        this.startedAt = performance.now();
        this.child = spawn(program, [], { env, cwd, stdio: ['pipe', 'pipe', 'pipe'], ...identity });
        this.exited = once(this.child, 'exit');
        this.child.stdin.on('error', () => {});
        this.child.stderr.on('data', text => { this.stderr += text; });
        this.child.stdout.setEncoding('utf8').on('data', text => this.#onData(text));
        this.exited.then(([code, signal]) => {
            for (const one of this.#waiting.values())
                one.reject(new Error(`sandbox-mcp ended (${code ?? signal}): ${this.stderr}`));
            this.#waiting.clear();
        });
    }

    #onData(text) {
        const lines = (this.#rest + text).split('\n');
        this.#rest = lines.pop();
        for (const line of lines) {
            this.wire.received(line);
            this.#onMessage(JSON.parse(line));
        }
    }

    #onMessage(message) {
        if (Array.isArray(message)) {
            message.forEach(one => this.#onMessage(one));
        } else if (message.method && message.id !== undefined && this.asked) {
            Promise.resolve(this.asked(message)).then(result => result && this.write({ jsonrpc: '2.0', id: message.id, result }));
        } else {
            const waiting = this.#waiting.get(message.id);
            if (!waiting || message.method) {
                this.stray.push(message);
                return;
            }
            this.#waiting.delete(message.id);
            if (message.error)
                waiting.reject(Object.assign(new Error(message.error.message), { code: message.error.code, data: message.error.data }));
            else
                waiting.resolve(message.result);
        }
    }

    write(message) {
        this.writeLine(JSON.stringify(message));
    }

    writeLine(line) {
        this.wire.sent(line);
        this.child.stdin.write(line + '\n');
    }

    get envelope() {
        return { 'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientInfo': { name: 'lab', version: '1' },
            'io.modelcontextprotocol/clientCapabilities': this.capabilities };
    }

    notify(method, params = {}) {
        if (this.era === 'modern')
            params = { ...params, _meta: { ...params._meta, ...this.envelope } };
        this.write({ jsonrpc: '2.0', method, params });
    }

    request(method, params = {}, id = this.#nextId++) {
        if (this.era === 'modern')
            params = { ...params, _meta: { ...params._meta, ...this.envelope } };
        return new Promise((resolve, reject) => {
            this.#waiting.set(id, { resolve, reject });
            this.write({ jsonrpc: '2.0', id, method, params });
        });
    }

    async initialize() {
        if (this.era === 'modern')
            return this.request('server/discover');
        const result = await this.request('initialize', { protocolVersion: this.revision, capabilities: this.capabilities,
            clientInfo: { name: 'lab', version: '1' } });
        this.write({ jsonrpc: '2.0', method: 'notifications/initialized' });
        return result;
    }

    // The whole result of a tool, an error as well.
    call(name, args = {}) {
        return this.request('tools/call', { name, arguments: args });
    }

    // The structured content of a tool; throws what the tool says when it fails.
    async tool(name, args = {}) {
        const result = await this.call(name, args);
        const text = result.content.map(part => part.text).join('\n');
        if (result.isError)
            throw new ToolError(text);
        assert.ok(result.structuredContent, `${name} gave no structured content: ${text}`);
        return result.structuredContent;
    }

    // Polls like an assistant does until the run has ended (or DONE says so).
    async result(runId, { done = one => finalStates.includes(one.status), timeoutMs = 300000 } = {}) {
        const end = Date.now() + timeoutMs;
        for (;;) {
            const view = await this.tool('opencode_get_result', { runId, waitSeconds: 2 });
            if (done(view))
                return view;
            if (Date.now() > end)
                assert.fail(`run ${runId} did not get there in ${timeoutMs} ms: ${JSON.stringify(view)}`);
        }
    }

    async close() {
        if (this.child.exitCode !== null || this.child.signalCode !== null)
            return;
        this.child.stdin.end();
        const timer = setTimeout(() => this.child.kill('SIGKILL'), 5000);
        const [code, signal] = await this.exited;
        clearTimeout(timer);
        assert.equal(signal ?? code, 0, `sandbox-mcp should end by itself, with 0, when its input ends: ${this.stderr}`);
    }

    async kill() {
        this.child.kill('SIGKILL');
        await this.exited;
    }
}

export class Lab {
    #clients = [];
    #children = [];
    #number = 0;

    // UID: whose supervisor it is, when another than ours.
    constructor({ bin = 'test', uid } = {}) {
        this.id = `sandbox-lab-${crypto.randomBytes(5).toString('hex')}`;
        this.root = path.join(fs.realpathSync(os.tmpdir()), this.id);
        fs.mkdirSync(this.root, { mode: 0o700 });
        this.bin = binFolder(bin);
        for (const name of ['home', 'state', 'data', 'config', 'repositories', 'logs', 'work'])
            fs.mkdirSync(path.join(this.root, name), { mode: 0o700 });
        this.identity = uid === undefined ? {} : { uid, gid: uid };
        this.give(this.root, ...fs.readdirSync(this.root).map(name => path.join(this.root, name)));
        this.state = path.join(this.root, 'state');
        this.socket = path.join(this.state, 'run', 'supervisor.sock');
        this.configFile = path.join(this.root, 'config', 'config.json');
        this.repositories = path.join(this.root, 'repositories');
        // What the tests look for everywhere. Told to the product through the standard input of `sandboxctl secret set` only.
        this.secret = `sk-ant-marker-${crypto.randomBytes(16).toString('hex')}`;
        this.upstream = new Upstream();
    }

    path(...names) {
        return path.join(this.root, ...names);
    }

    program(name) {
        return path.join(this.bin, name);
    }

    // Makes files the supervisor's user's own.
    give(...files) {
        if (this.identity.uid !== undefined)
            for (const file of files)
                fs.chownSync(file, this.identity.uid, this.identity.gid);
    }

    env(extra = {}) {
        return { PATH: process.env.PATH, HOME: this.path('home'), LANG: 'C.UTF-8', SANDBOX_LAB: this.id,
            SANDBOX_MCP_CONFIG: this.configFile, SANDBOX_MCP_STATE: this.state, SANDBOX_MCP_DATA: this.path('data'),
            ASAN_OPTIONS: `log_path=${this.path('logs', 'sanitizer')}`,
            UBSAN_OPTIONS: `print_stacktrace=1:log_path=${this.path('logs', 'sanitizer')}`, ...extra };
    }

    #spawn(program, args, name, options) {
        const log = fs.openSync(this.path('logs', `${name}.log`), 'a');
        const child = spawn(program, args, { stdio: ['ignore', log, log], ...options });
        fs.closeSync(log);
        child.exited = once(child, 'exit');
        this.#children.push(child);
        return child;
    }

    async startModel() {
        const port = await freePort();
        this.model = this.#spawn(process.execPath, [path.join(nodeModules, '@copilotkit/aimock/dist/cli.js'), '-p', `${port}`,
            '-f', path.join(testsFolder, 'model/fixtures'), '--validate-on-load', '--log-level', 'warn'], 'model',
            { env: { PATH: process.env.PATH, SANDBOX_LAB: this.id, AIMOCK_API_KEYS: this.secret } });
        await waitFor('the scripted model listens', () => canConnect({ port, host: '127.0.0.1' }));
        await this.upstream.start(port);
    }

    // The agent where an installation has it, under the data folder.
    installAgent() {
        const cpu = os.arch() === 'arm64' ? 'arm64' : 'x64';
        const binary = path.join(nodeModules, `opencode-linux-${cpu}/bin/opencode`);
        assert.ok(fs.existsSync(binary), `${binary} is missing: run npm ci in tests/`);
        fs.mkdirSync(this.path('data/agents/opencode/bin'), { recursive: true });
        fs.symlinkSync(binary, this.path('data/agents/opencode/bin/opencode'));
    }

    writeConfig(changes = {}) {
        // Without a model nothing listens there.
        const config = { services: { anthropic: { target: `http://127.0.0.1:${this.upstream.port ?? 1}` } },
            localRepositories: [this.repositories], egress: { detectRegistries: false }, ...changes,
            agents: { startSeconds: 300, ...changes.agents } }; // where the machine is busy
        fs.writeFileSync(this.configFile, JSON.stringify(config, null, 2) + '\n', { mode: 0o600 });
        this.give(this.configFile);
    }

    async startSupervisor({ env = {}, wait = true } = {}) {
        const child = this.#spawn(this.program('sandbox-supervisord'), [], 'supervisor', { env: this.env(env), cwd: this.path('work'), ...this.identity });
        this.supervisor = child;
        if (wait)
            await waitFor('the supervisor answers', async () => {
                if (child.exitCode !== null || child.signalCode !== null)
                    assert.fail(`the supervisor ended: ${this.log('supervisor')}`);
                return canConnect({ path: this.socket });
            });
        return child;
    }

    log(name) {
        return readIfThere(this.path('logs', `${name}.log`)) + (name === 'supervisor' ? readIfThere(path.join(this.state, 'supervisord.log')) : '');
    }

    async supervisorPid() {
        return (await this.ctlJson(['status'])).pid;
    }

    async killSupervisor() {
        const pid = await this.supervisorPid();
        killHard(pid);
        await waitFor('the supervisor is gone', () => gone(pid));
    }

    ctl(args, { env = {}, ...options } = {}) {
        return run(this.program('sandboxctl'), args, { env: this.env(env), cwd: this.path('work'), ...this.identity, ...options });
    }

    async ctlJson(args, options) {
        const result = await this.ctl([args[0], '--json', ...args.slice(1)], options);
        assert.equal(result.code, 0, `sandboxctl ${args.join(' ')} ended with ${result.code}: ${result.stderr}${result.stdout}`);
        return JSON.parse(result.stdout);
    }

    async setSecret(value = this.secret, name = 'ANTHROPIC_API_KEY') {
        const result = await this.ctl(['secret', 'set', name], { input: value + '\n' });
        assert.equal(result.code, 0, `secret set: ${result.stderr}`);
    }

    // A run of the driver `shell`: SCRIPT is what happens in the sandbox.
    async startScript(script, options = {}) {
        const params = { task: script, agent: 'shell', ...options };
        return this.ctlJson(['call', 'run.create', JSON.stringify(params)]);
    }

    // Its view when it has ended.
    async ended(runId, timeoutMs = 120000) {
        const end = Date.now() + timeoutMs;
        for (;;) {
            const view = await this.ctlJson(['call', 'run.get', JSON.stringify({ runId, waitSeconds: 10 })]);
            if (finalStates.includes(view.status))
                return view;
            if (Date.now() > end)
                assert.fail(`run ${runId} has not ended after ${timeoutMs} ms: ${JSON.stringify(view)}`);
        }
    }

    // How long it takes to ask the supervisor how it is.
    async statusMs() {
        const started = performance.now();
        await this.ctlJson(['status']);
        return performance.now() - started;
    }

    // A command in the sandbox of a live run.
    exec(runId, argv, options) {
        return this.ctl(['exec', runId, '--', ...argv], options);
    }

    // How a foreign client starts sandbox-mcp, so that what they say to each other is held against the schemas.
    get recorded() {
        return { command: process.execPath, args: [path.join(here, 'mcp-recorder.mjs'), this.path('logs'), this.program('sandbox-mcp')] };
    }

    mcp(options = {}) {
        const client = new Mcp(this.program('sandbox-mcp'), { ...options, env: this.env(options.env), cwd: this.path('work'),
            identity: this.identity });
        this.#clients.push(client);
        return client;
    }

    async connect(options) {
        const client = this.mcp(options);
        await client.initialize();
        return client;
    }

    async repository(name = `sample ${++this.#number}`) {
        const folder = path.join(this.repositories, name);
        await must('sh', [path.join(testsFolder, 'sample/make.sh'), folder]);
        return folder;
    }

    // Ends what is still going on, the way a user would.
    async #endRuns() {
        if (!await canConnect({ path: this.socket }))
            return;
        const { runs } = await this.ctlJson(['list', '--limit', '100']);
        for (const one of runs.filter(each => !finalStates.includes(each.status)))
            await this.ctl(['cancel', one.runId]);
        await waitFor('the cancelled runs have ended', async () => {
            const now = await this.ctlJson(['list', '--limit', '100']);
            return now.runs.every(each => finalStates.includes(each.status));
        });
    }

    async #endSupervisor() {
        if (!await canConnect({ path: this.socket }))
            return;
        const pid = await this.supervisorPid();
        await this.ctl(['stop']);
        await waitFor('the supervisor ends when asked to', () => gone(pid), 15000);
    }

    // Files below the lab's folder, read as they are, symbolic links not followed. A name that is no UTF-8 comes as a Buffer.
    *files(folder = this.root) {
        for (const entry of fs.readdirSync(folder, { withFileTypes: true, encoding: 'buffer' })) {
            const bytes = Buffer.concat([Buffer.from(folder), Buffer.from('/'), entry.name]);
            const file = Buffer.from(bytes.toString()).equals(bytes) ? bytes.toString() : bytes;
            if (entry.isDirectory())
                yield* this.files(file);
            else if (entry.isFile())
                yield file;
        }
    }

    // Files that hold the secret, however it is written. Nothing but the test itself may ever know it.
    filesWithSecret() {
        const forms = spellings(this.secret);
        return [...this.files()].filter(file => {
            const bytes = fs.readFileSync(file);
            return forms.some(form => bytes.includes(form));
        });
    }

    async stop() {
        const problems = [];
        const attempt = async (what, action) => {
            try {
                await action();
            } catch (error) {
                problems.push(`${what}: ${error.message}`);
            }
        };

        for (const client of this.#clients)
            await attempt('close client', () => client.close());
        await attempt('end runs', () => this.#endRuns());
        await attempt('end supervisor', () => this.#endSupervisor());
        if (this.model) {
            this.model.kill('SIGTERM');
            await this.model.exited;
        }
        await attempt('stop upstream', () => this.upstream.stop());
        for (const child of this.#children)
            if (child.exitCode === null && child.signalCode === null && !alive(child.pid))
                await child.exited;

        await attempt('leftover processes', async () => {
            // The kernel takes a moment to end a namespace.
            await waitFor('all processes are gone', () => processesOf(this.id).length === 0, 5000).catch(() => {
                const left = processesOf(this.id);
                for (const one of left)
                    killHard(one.pid);
                assert.fail(left.map(one => `${one.pid} ${one.command}`).join('; '));
            });
        });
        await attempt('leftover mounts', () => assert.ok(!readIfThere('/proc/self/mountinfo').includes(this.id)));
        await attempt('sanitizer', () => {
            const reports = fs.readdirSync(this.path('logs')).filter(name => name.startsWith('sanitizer'));
            assert.deepEqual(reports.map(name => readIfThere(this.path('logs', name)).slice(0, 3000)), []);
        });
        await attempt('messages', () => {
            const transcripts = fs.readdirSync(this.path('logs')).filter(name => /^mcp-.*\.jsonl$/.test(name));
            assert.deepEqual([...this.#clients.flatMap(client => client.wire.problems),
                ...transcripts.flatMap(name => judgeTranscript(fs.readFileSync(this.path('logs', name), 'utf8')))], []);
        });
        await attempt('secret in a file', () => assert.deepEqual(this.filesWithSecret(), []));
        return problems;
    }

    keep() {
        const output = process.env.LAB_OUTPUT;
        const tail = this.log('supervisor').split('\n').slice(-40).join('\n');
        console.error(`--- supervisor of ${this.id}\n${tail}\n---`);
        if (!output)
            return;
        fs.mkdirSync(output, { recursive: true });
        fs.cpSync(this.path('logs'), path.join(output, this.id), { recursive: true });
        const own = path.join(this.state, 'supervisord.log');
        if (fs.existsSync(own))
            fs.copyFileSync(own, path.join(output, this.id, 'supervisord.log'));
    }

    remove() {
        fs.rmSync(this.root, { recursive: true, force: true });
    }
}

export function canConnect(address) {
    return new Promise(resolve => {
        const socket = net.connect(address);
        socket.once('connect', () => { socket.destroy(); resolve(true); });
        socket.once('error', () => resolve(false));
    });
}

// TEXT as it stands, in base64 at every alignment (what of it holds no bits of its neighbours), and in hex; each as bytes.
export function spellings(text) {
    const plain = Buffer.from(text);
    const base64 = before => Buffer.concat([Buffer.alloc(before), plain]).toString('base64')
        .slice(Math.ceil(before * 8 / 6), Math.floor((before + plain.length) * 8 / 6));
    const aligned = [0, 1, 2].map(base64);
    const hex = plain.toString('hex');
    return [text, ...aligned, ...aligned.map(one => one.replaceAll('+', '-').replaceAll('/', '_')), hex, hex.toUpperCase()]
        .map(one => Buffer.from(one));
}

// Runs BODY in a lab of its own. Options: bin ("test", "release"), config (changes), uid (another user's supervisor), model, agent, secret, supervisor: false to leave
// that part out.
export async function withLab(options, body) {
    const lab = new Lab(options);
    let failure;
    try {
        if (options.model !== false)
            await lab.startModel();
        if (options.agent !== false)
            lab.installAgent();
        lab.writeConfig(options.config?.(lab) ?? {});
        if (options.supervisor !== false)
            await lab.startSupervisor(options);
        if (options.supervisor !== false && options.secret !== false)
            await lab.setSecret();
        await body(lab);
    } catch (error) {
        failure = error;
    }
    const problems = await lab.stop();
    if (failure || problems.length)
        lab.keep();
    lab.remove();
    if (failure) {
        if (problems.length)
            console.error(`and then: ${problems.join('\n')}`);
        throw failure;
    }
    assert.deepEqual(problems, [], 'the lab did not end cleanly');
}
