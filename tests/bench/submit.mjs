// submit.mjs: how long opencode_run_task takes, through sandbox-mcp and the supervisor, until the run is on disk and its id is there: while
// sandboxes can be made, while the tool that makes them never comes to an end, and where there is none. Prints JSON lines, and ends with 1
// when a goal is missed.
//
// Environment (set by run.sh): SANDBOX_BIN, the folder of the programs. CALLS changes the size.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const calls = Number(process.env.CALLS ?? 200);
const goalMs = 200; // of the slowest
let missed = 0;

const say = line => console.log(JSON.stringify(line));
const at = (sorted, part) => Number(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))].toFixed(2));

function installation(bwrap) {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-submit-'));
    fs.chmodSync(root, 0o711);
    const tool = path.join(root, 'slow-bwrap');
    fs.writeFileSync(tool, '#!/bin/sh\nexec sleep 3600\n', { mode: 0o755 });
    const config = path.join(root, 'config.json');
    fs.writeFileSync(config, JSON.stringify({ limits: { queuedRuns: calls + 100 }, egress: { detectRegistries: false },
        ...bwrap === 'works' ? {} : { sandbox: { bwrap: bwrap === 'hangs' ? tool : path.join(root, 'nothing') } } }));
    return { root, env: { PATH: process.env.PATH, HOME: root, SANDBOX_MCP_CONFIG: config, SANDBOX_MCP_STATE: path.join(root, 'state'),
        SANDBOX_MCP_DATA: path.join(root, 'data') } };
}

class Client {
    waiting = new Map();
    nextId = 0;

    constructor(env) {
        this.child = spawn(path.join(process.env.SANDBOX_BIN, 'sandbox-mcp'), [], { env, stdio: ['pipe', 'pipe', 'inherit'] });
        readline.createInterface({ input: this.child.stdout }).on('line', line => {
            const { id, result, error } = JSON.parse(line);
            const { resolve, reject } = this.waiting.get(id) ?? {};
            this.waiting.delete(id);
            error ? reject?.(new Error(error.message)) : resolve?.(result);
        });
    }

    request(method, params) {
        const id = this.nextId++;
        this.child.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n');
        return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    }

    async close() {
        this.child.stdin.end();
        await once(this.child, 'exit');
    }
}

async function ctl(env, args, input = '') {
    const child = spawn(path.join(process.env.SANDBOX_BIN, 'sandboxctl'), args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => {}); // who wants no input may be through before it comes
    child.stdin.end(input);
    let text = '';
    child.stdout.on('data', part => { text += part; });
    const [code] = await once(child, 'close');
    return { code, text };
}

say({ machine: { cpu: os.cpus()[0].model, processors: os.cpus().length, kernel: os.release(), load: os.loadavg().map(one => Number(one.toFixed(2))) } });

for (const bwrap of ['works', 'hangs', 'is not there']) {
    const { root, env } = installation(bwrap);
    const client = new Client(env);
    await client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } });
    // A key that nobody uses. The supervisor is there then: what its start takes isn't what is measured.
    await ctl(env, ['secret', 'set', 'ANTHROPIC_API_KEY'], 'none\n');
    const times = [];
    let refused = 0;
    for (let number = 0; number < calls; number++) {
        const started = performance.now();
        const result = await client.request('tools/call', { name: 'opencode_run_task', arguments: { task: 'true', agent: 'shell' } });
        times.push(performance.now() - started);
        if (result.isError && refused++ === 0)
            console.error(result.content[0].text);
    }
    times.sort((a, b) => a - b);
    const slowest = at(times, 1);
    say({ name: 'submit, milliseconds', bwrap, calls, refused, median: at(times, 0.5), p99: at(times, 0.99), slowest });
    missed += slowest < goalMs && refused === 0 ? 0 : 1;
    say({ goal: `the slowest submit while bubblewrap ${bwrap}, ms`, value: slowest, limit: goalMs, met: slowest < goalMs && refused === 0 });
    const { runs } = JSON.parse((await ctl(env, ['list', '--json', '--limit', '100'])).text);
    for (let left = runs; left.length > 0;) {
        for (const run of left)
            await ctl(env, ['cancel', run.runId]);
        left = JSON.parse((await ctl(env, ['call', 'run.list', '{"status":"queued","limit":100}'])).text).runs;
    }
    await client.close();
    await ctl(env, ['stop']);
    fs.rmSync(root, { recursive: true, force: true });
}
process.exit(missed ? 1 : 0);
