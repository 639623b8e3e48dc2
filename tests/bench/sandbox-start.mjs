// sandbox-start.mjs: what a sandbox costs: the time from asking for it until its init has answered, beside bare bubblewrap in
// the same run; the memory of the helpers beside an agent; a hundred idle sandboxes at once. Prints JSON lines, and ends
// with 1 when a goal is missed.
//
// Environment (set by run.sh): BENCH_BIN, the folder of bench_sandbox_start. ROUNDS, SANDBOXES, SECONDS change the size.
import { spawn, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const program = path.join(process.env.BENCH_BIN ?? '', 'bench_sandbox_start');
const rounds = Number(process.env.ROUNDS ?? 100);
const sandboxes = Number(process.env.SANDBOXES ?? 100);
const seconds = Number(process.env.SECONDS ?? 5);
const goals = { startRatio: 1.3, helpersKb: 1024, idleTicks: 0 };
let missed = 0;

const say = line => console.log(JSON.stringify(line));
const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
function summary(numbers) {
    const sorted = [...numbers].sort((a, b) => a - b);
    return { best: sorted[0], median: at(sorted, 0.5), p95: at(sorted, 0.95), count: sorted.length };
}
function goal(name, value, limit) {
    const met = value <= limit;
    missed += met ? 0 : 1;
    say({ goal: name, value, limit, met });
}

// The lines of the program, one after the other; its input ends when the caller is through with it.
function start(mode, count) {
    const child = spawn(program, [mode, String(count)], { stdio: ['pipe', 'pipe', 'inherit'] });
    return { child, exited: once(child, 'exit'), lines: readline.createInterface({ input: child.stdout }) };
}
async function end({ child, exited }) {
    child.stdin.end();
    const [code, signal] = await exited;
    if (code !== 0)
        throw new Error(`${program} ended with ${signal ?? code}`);
}

const kb = (pid, file, name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/${file}`, 'utf8'))[1]);
const parentOf = pid => kb(pid, 'status', 'PPid');
const ticks = pid => fs.readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /, '').split(' ').slice(11, 13).reduce((a, b) => a + Number(b), 0);
const switches = pid => kb(pid, 'status', 'voluntary_ctxt_switches') + kb(pid, 'status', 'nonvoluntary_ctxt_switches');
// What the kernel itself holds for them: namespaces, mounts, stacks, page tables.
const kernelKb = () => sum(['Slab', 'KernelStack', 'PageTables', 'Percpu'].map(name =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync('/proc/meminfo', 'utf8'))?.[1] ?? 0)));
const sum = numbers => numbers.reduce((a, b) => a + b, 0);

say({ machine: { cpu: os.cpus()[0].model, processors: os.cpus().length, memoryMb: Math.round(os.totalmem() / 2 ** 20), kernel: os.release(),
    load: os.loadavg().map(one => Number(one.toFixed(2))), bwrap: execFileSync('bwrap', ['--version'], { encoding: 'utf8' }).trim(),
    root: process.getuid() === 0 } });

{
    const run = start('turns', rounds);
    const all = [];
    for await (const line of run.lines)
        all.push(JSON.parse(line));
    await end(run);
    // The first turns fill caches for all three.
    const turns = all.slice(Math.min(3, all.length - 1));
    const ours = summary(turns.map(one => one.startUs));
    const bare = summary(turns.map(one => one.bareAnswerUs));
    say({ name: 'start, microseconds', ours, bareBwrapUntilItsPayloadAnswers: bare, bareBwrapWithTrue: summary(turns.map(one => one.bareTrueUs)),
        stop: summary(turns.map(one => one.stopUs)), medianOfRatios: Number(summary(turns.map(one => one.startUs / one.bareAnswerUs)).median.toFixed(3)) });
    goal('start, ratio of medians to bare bubblewrap', Number((ours.median / bare.median).toFixed(3)), goals.startRatio);
}

{
    const kernelBefore = kernelKb();
    const run = start('hold', sandboxes);
    const held = [];
    let alone = 0;
    for await (const line of run.lines) {
        const one = JSON.parse(line);
        if ('holding' in one)
            break;
        held.push(one);
        alone = alone || kb(run.child.pid, 'status', 'VmRSS');
    }
    const helpers = held.flatMap(one => {
        // Between us and init stands bubblewrap: one process, or two where it needs one more.
        const found = [one.initPid];
        for (let pid = parentOf(one.initPid); pid > 1 && pid !== run.child.pid; pid = parentOf(pid))
            found.push(pid);
        return found;
    });
    const pss = pid => kb(pid, 'smaps_rollup', 'Pss');
    const all = [run.child.pid, ...helpers];
    const before = sum(all.map(ticks));
    const wakeUpsBefore = sum(all.map(switches));
    await new Promise(resolve => setTimeout(resolve, seconds * 1000)); // the passing of time is what is measured
    const used = sum(all.map(ticks)) - before;
    const wakeUps = sum(all.map(switches)) - wakeUpsBefore;
    const memory = held.map(one => pss(one.initPid));
    const tools = helpers.filter(pid => !held.some(one => one.initPid === pid)).map(pss);
    say({ name: `${sandboxes} idle sandboxes`, startUs: summary(held.map(one => one.startUs)), lastStartUs: held.at(-1).startUs,
        processes: helpers.length, supervisorRssKbWithOne: alone, supervisorRssKb: kb(run.child.pid, 'status', 'VmRSS'),
        pssKb: { init: summary(memory), bwrap: summary(tools), all: sum(memory) + sum(tools) }, kernelKbPerSandbox: Math.round((kernelKb() - kernelBefore) / sandboxes),
        cpuTicks: used, wakeUps, seconds });
    goal('memory beside the agent, kB per sandbox (PSS of bubblewrap and init)', Math.round((sum(memory) + sum(tools)) / sandboxes), goals.helpersKb);
    goal(`processor ticks of all in ${seconds} idle seconds`, used, goals.idleTicks);
    await end(run);
}
{
    // The first one's program pages are in nobody else's count yet; all that come later share them.
    const run = start('hold', 1);
    const { value } = await run.lines[Symbol.asyncIterator]().next();
    const one = JSON.parse(value);
    const split = pid => ({ own: kb(pid, 'smaps_rollup', 'Pss_Anon'), ofFiles: kb(pid, 'smaps_rollup', 'Pss_File') });
    say({ name: 'one sandbox alone', pssKb: { init: split(one.initPid), bwrap: split(parentOf(one.initPid)) } });
    await end(run);
}
process.exit(missed ? 1 : 0);
