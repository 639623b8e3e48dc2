// living.mjs: which sandboxes and agents of a lab live, told apart for good by pid and start time; chance that can be repeated;
// and what must not be left on the machine when all runs are over.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { alive, canConnect, finalStates, gone, killHard, pause, processIds, run, sandboxedProcessesOf, waitFor } from './lab.mjs';

const read = file => {
    try {
        return fs.readFileSync(file, 'latin1');
    } catch {
        return '';
    }
};

// Numbers from 0 to 1, the same for the same seed (mulberry32). SEED=… repeats what a failed test printed.
export function chance(t) {
    const seed = Number(process.env.SEED ?? Date.now() % 1000000);
    let state = seed;
    t.diagnostic(`SEED=${seed}`);
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
}

// "pid@start": a process, also when its pid is used again.
const nameOf = (pid, stat) => `${pid}@${stat.replace(/^.*\) /s, '').split(' ')[19]}`;
const argumentsOf = pid => read(`/proc/${pid}/cmdline`).split('\0');

// A child of init has its name, too, until it becomes what it was made for: only init is the first of its namespace.
export function initsOf(lab) {
    const found = [];
    for (const pid of processIds()) {
        if (argumentsOf(pid)[0] !== '/run/sandbox-init' || !/^NSpid:.*\t1$/m.test(read(`/proc/${pid}/status`)) || !alive(pid))
            continue;
        const stat = read(`/proc/${pid}/stat`);
        if (stat && read(`/proc/${pid}/mountinfo`).includes(lab.id))
            found.push({ pid, name: nameOf(pid, stat) });
    }
    return found;
}

// Those of runs: a checkpoint's sandbox, beside them, only reads.
export const runInitsOf = lab => initsOf(lab).filter(({ pid }) => argumentsOf(pid).includes('w/home/agent'));

const parentOf = pid => Number(/^PPid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);

// The programs that init has started: the agent, or whatever it is at.
export function programsOf(lab) {
    const inits = new Set(initsOf(lab).map(one => one.pid));
    return processIds().filter(pid => inits.has(parentOf(pid)) && alive(pid)).map(pid => ({ pid }));
}

// The agents' servers in those sandboxes. A child of theirs has the same name until it becomes what it was made for.
export function agentsOf(lab) {
    const found = [];
    for (const { pid } of programsOf(lab)) {
        const words = argumentsOf(pid);
        const stat = read(`/proc/${pid}/stat`);
        if (stat && /(^|\/)opencode$/.test(words[0]) && words[1] === 'serve')
            found.push({ pid, name: nameOf(pid, stat) });
    }
    return found;
}

// bubblewrap, which stands between the supervisor and each init.
export function toolsOf(lab) {
    return initsOf(lab).map(one => parentOf(one.pid))
        .filter(pid => pid > 1 && argumentsOf(pid)[0] === 'bwrap').map(pid => ({ pid }));
}

// Notes every sandbox and agent of the lab that it sees until stop() is called.
export function watch(lab) {
    const seen = { inits: new Set(), agents: new Set() };
    let over = false;
    const loop = (async () => {
        while (!over && fs.existsSync(lab.root)) {
            runInitsOf(lab).forEach(one => seen.inits.add(one.name));
            agentsOf(lab).forEach(one => seen.agents.add(one.name));
            await pause(40);
        }
    })();
    return { seen, stop: async () => { over = true; await loop; } };
}

// Starts the supervisor again. A client that waits may have been quicker: that is as good.
export async function restart(lab) {
    const child = await lab.startSupervisor({ wait: false });
    await waitFor('a supervisor answers again', () => canConnect({ path: lab.socket }));
    return child;
}

export async function killNow(pid) {
    process.kill(pid, 'SIGKILL');
    await waitFor('the supervisor is gone', () => gone(pid), 10000, 5);
}

// The log of a run: numbers without a gap, or the test fails.
export async function logOf(lab, runId) {
    const events = [];
    for (let after = 0; ;) {
        const page = await lab.ctlJson(['logs', runId, '--after', `${after}`]);
        events.push(...page.events);
        if (!page.hasMore)
            break;
        after = page.cursor;
    }
    assert.deepEqual(events.map(event => event.number), events.map((_, index) => index + 1), 'the numbers of the log have gaps or repeat');
    return events;
}

function* foldersBelow(folder, depth) {
    let entries = [];
    try {
        entries = fs.readdirSync(folder, { withFileTypes: true });
    } catch {
        return; // gone meanwhile
    }
    for (const entry of entries.filter(each => each.isDirectory())) {
        yield path.join(folder, entry.name);
        if (depth > 1)
            yield* foldersBelow(path.join(folder, entry.name), depth - 1);
    }
}

export function cgroupsOf(ids) {
    return [...foldersBelow('/sys/fs/cgroup', 8)].filter(folder => ids.some(id => path.basename(folder).includes(id)));
}

// What a machine that was switched off leaves: the state folder, and nothing that runs.
export async function powerOff(lab, runId) {
    for (const one of [...toolsOf(lab), ...initsOf(lab)])
        killHard(one.pid);
    await waitFor('all of it is dead', () => sandboxedProcessesOf(lab.id).length === 0, 10000);
    await run('find', [path.join(lab.state, 'run'), '-mindepth', '1', '-delete']);
    // A group is busy until the last of its dead is reaped.
    await waitFor('its control groups can be removed', async () => {
        await run('rmdir', cgroupsOf([runId]));
        return cgroupsOf([runId]).length === 0;
    }, 10000);
}

function leftovers(lab, ids) {
    const found = [];
    const folder = path.join(lab.state, 'run', 'sandboxes');
    if (fs.existsSync(folder))
        found.push(...fs.readdirSync(folder).map(name => `runtime folder ${name}`));
    for (const name of fs.readdirSync(path.join(lab.state, 'run')))
        if (!['supervisor.sock', 'supervisor.lock', 'sandboxes'].includes(name))
            found.push(`${name} in the runtime folder`);
    found.push(...initsOf(lab).map(one => `sandbox ${one.name}`));
    found.push(...cgroupsOf(ids).map(folder => `cgroup ${folder}`));
    for (const pid of processIds())
        if (read(`/proc/${pid}/mountinfo`).includes(lab.id))
            found.push(`mounts in process ${pid} ${argumentsOf(pid).join(' ')}`);
    return found;
}

// All runs are over: then nothing of a sandbox may be there any more.
export async function checkNothingLeft(lab) {
    const { runs } = await lab.ctlJson(['list', '--limit', '100']);
    assert.deepEqual(runs.filter(one => !finalStates.includes(one.status)), []);
    const ids = runs.flatMap(one => [one.runId, one.sessionId]);
    await waitFor('nothing of the sandboxes is left', () => leftovers(lab, ids).length === 0, 10000, 100)
        .catch(() => assert.deepEqual(leftovers(lab, ids), []));
}
