// board.mjs: the board of the web pages over a store of 100,000 runs: how long the supervisor takes for a page of it, of any
// filter and at any depth, by the clock and in its own time on the processor. Prints JSON lines, and ends with 1 when a goal is missed.
//
// Environment (set by run.sh): BENCH_BIN, the folder of bench_store; SANDBOX_BIN, that of the programs. RUNS, ROUNDS change the size.
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { must, withLab } from '../system/lab.mjs';

const runs = Number(process.env.RUNS ?? 100000);
const rounds = Number(process.env.ROUNDS ?? 50);
let missed = 0;

const say = line => console.log(JSON.stringify(line));
const median = numbers => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
function goal(name, value, limit) {
    missed += value < limit ? 0 : 1;
    say({ goal: name, value: Math.round(value * 100) / 100, limit, met: value < limit });
}

function ask(url, options = {}, body = undefined) {
    return new Promise((resolve, reject) => {
        const request = http.request(url, options, response => {
            let text = '';
            response.setEncoding('utf8').on('data', part => { text += part; }).on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
        });
        request.on('error', reject);
        request.end(body);
    });
}

// A process's time on the processor in milliseconds, from nanoseconds.
const processorMs = pid => fs.readdirSync(`/proc/${pid}/task`).reduce((sum, task) => sum + Number(fs.readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]), 0) / 1e6;

say({ machine: { cpu: os.cpus()[0].model, processors: os.cpus().length, load: os.loadavg().map(one => Number(one.toFixed(2))) } });
// In memory, where each of so many commits costs no disk.
process.env.TMPDIR = '/dev/shm';
await withLab({ model: false, agent: false, supervisor: false }, async lab => {
    await must(path.join(process.env.BENCH_BIN ?? '', 'bench_store'), [path.join(lab.state, 'db'), String(runs)], { timeoutMs: 600000 });
    await lab.startSupervisor();
    const url = new URL((await lab.ctlJson(['web'])).url);
    const login = await ask(`${url.origin}/login`, { method: 'POST', headers: { origin: url.origin } }, JSON.stringify({ code: url.hash.slice(1) }));
    const headers = { cookie: login.headers['set-cookie'][0].split(';')[0] };
    const base = url.origin + JSON.parse(login.text).location;
    const pid = await lab.supervisorPid();
    // Half way down: the id of a run of that time begins with it.
    const digits = '0123456789abcdefghjkmnpqrstvwxyz';
    const newest = JSON.parse((await ask(`${base}api/runs?limit=1`, { headers })).text).runs[0].run.createdAt;
    const half = Array.from({ length: 10 }, (_, i) => digits[Math.floor((newest - runs * 500) / 32 ** (9 - i)) % 32]).join('');
    for (const [name, query] of [['all', ''], ['failed', '?status=failed-interrupted'], ['active, none', '?status=queued-started-running-waiting'], ['deep', `?before=run_${half}${'0'.repeat(16)}`]]) {
        const times = [];
        const before = processorMs(pid);
        let rows = 0;
        for (let round = 0; round < rounds; round++) {
            const started = performance.now();
            const answer = await ask(`${base}api/runs${query}`, { headers });
            times.push(performance.now() - started);
            rows = JSON.parse(answer.text).runs.length;
        }
        const spent = (processorMs(pid) - before) / rounds;
        say({ board: name, runs, rows, medianMs: median(times), processorMs: spent });
        goal(`board, ${name}: ms on the processor`, spent, 100);
        goal(`board, ${name}: ms by the clock`, median(times), 100);
    }
});
process.exit(missed ? 1 : 0);
