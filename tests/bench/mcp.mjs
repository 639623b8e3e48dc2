// mcp.mjs: sandbox-mcp, with a real supervisor behind it, beside the official SDK's minimal server that says back what it is
// told: start, first calls, calls one after the other and 32 at a time, memory. In turns, on one processor, so that both meet
// the same machine. Prints JSON lines, and ends with 1 when a goal is missed.
//
// Environment (set by run.sh): BENCH_BIN, the folder of bench_mcp; SANDBOX_BIN, that of the programs. ROUNDS, CALLS change the size.
import { execFileSync } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, withLab } from '../system/lab.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const program = path.join(process.env.BENCH_BIN ?? '', 'bench_mcp');
const rounds = Number(process.env.ROUNDS ?? 9);
const calls = Number(process.env.CALLS ?? 4000);
let missed = 0;

const say = line => console.log(JSON.stringify(line));
const median = numbers => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
function goal(name, value, limit, met = value >= limit) {
    missed += met ? 0 : 1;
    say({ goal: name, value: Math.round(value * 100) / 100, limit, met });
}

const hello = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}';
const call = (name, args) => `{"jsonrpc":"2.0","id":@,"method":"tools/call","params":{"name":"${name}","arguments":${JSON.stringify(args)}}}`;

// Medians over the rounds, by server and kind.
async function measure(servers, count, inFlight) {
    const found = Object.fromEntries(Object.keys(servers).map(name => [name, []]));
    for (let round = 0; round < rounds; round++) {
        for (const [name, server] of Object.entries(servers)) {
            const result = await run(program, [String(count), String(inFlight), hello, server.call, ...server.command], { env: server.env });
            if (result.code !== 0)
                throw new Error(`${name}: ${result.code} ${result.stderr}`);
            found[name].push(JSON.parse(result.stdout));
        }
    }
    const medians = Object.fromEntries(Object.entries(found).map(([name, lines]) => [name, Object.fromEntries(Object.keys(lines[0])
        .map(key => [key, median(lines.map(line => line[key]))]))]));
    for (const [name, line] of Object.entries(medians))
        say({ server: name, inFlight, rounds, ...line });
    return medians;
}

say({ machine: { cpu: os.cpus()[0].model, processors: os.cpus().length, kernel: os.release(), node: process.version,
    load: os.loadavg().map(one => Number(one.toFixed(2))) } });
// Children inherit it.
execFileSync('taskset', ['-pc', '0', String(process.pid)], { stdio: 'ignore' });

await withLab({ model: false, agent: false }, async lab => {
    const { runId } = await lab.startScript('echo done');
    await lab.ended(runId);
    const servers = {
        'sandbox-mcp': { command: [lab.program('sandbox-mcp')], env: lab.env(), call: call('opencode_get_result', { runId }) },
        'sdk': { command: [process.execPath, path.join(here, 'mcp-peer.mjs')], env: lab.env(), call: call('say', { text: 'x'.repeat(100) }) },
    };
    const one = await measure(servers, calls, 1);
    const many = await measure(servers, calls, 32);
    const ours = one['sandbox-mcp'];
    goal('start to first answer, times faster', one.sdk.startUs / ours.startUs, 40);
    goal('start to first answer, ms', ours.startUs / 1000, 20, ours.startUs < 20000);
    goal('first 20 calls, times faster', one.sdk.first20Us / ours.first20Us, 5);
    goal('32 in flight, times the calls per second', many['sandbox-mcp'].callsPerSecond / many.sdk.callsPerSecond, 5);
    goal('p99.9 of a call, times better', one.sdk.p999Us / ours.p999Us, 10);
    goal('median of a call, times faster', one.sdk.medianUs / ours.medianUs, 1);
    goal('median of a call, ms', ours.medianUs / 1000, 1, ours.medianUs < 1000);
    goal('memory, part of', one.sdk.residentKb / ours.residentKb, 40);
    goal('memory, KiB', ours.residentKb, 4096, ours.residentKb < 4096);
});
process.exit(missed ? 1 : 0);
