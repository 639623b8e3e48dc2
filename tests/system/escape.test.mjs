// A hostile agent tries to get out: by files, network, processes, the kernel, and by using things up. Once under a supervisor
// that root started, once under an ordinary user's. The list is in escape-probes.mjs.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { alive, descendantsOf, must, probeProgram, readIfThere, run, sandboxedProcessesOf, statusNumber, waitFor, withLab } from './lab.mjs';
import { groups, judge, parseResults, probeScript } from './escape-probes.mjs';

const root = process.getuid() === 0;
// A user that owns nothing here.
const ordinaryUid = 65533;
const modes = root ? [['started by root', {}], ['of an ordinary user', { uid: ordinaryUid }]] : [['of an ordinary user', {}]];
const hold = 'while [ ! -e /tmp/release ]; do sleep 0.1; done';

async function listen(address, mode) {
    const server = net.createServer(socket => { server.visits++; socket.destroy(); });
    server.visits = 0;
    server.listen(address);
    await once(server, 'listening');
    if (mode)
        fs.chmodSync(address.path, mode);
    server.unref();
    return server;
}

// What lies around on a host.
async function setCanaries(lab) {
    const file = lab.path('work', 'canary.txt');
    fs.writeFileSync(file, 'canary', { mode: 0o644 });
    const socket = lab.path('work', 'docker.sock');
    const abstract = `${lab.id}-canary`;
    const servers = [await listen({ path: socket }, 0o777), await listen({ path: `\0${abstract}` }), await listen({ port: 0, host: '127.0.0.1' })];
    const port = servers[2].address().port;
    lab.give(file, socket);
    // They can be reached, by whom nothing holds back.
    for (const args of [['unix', socket], ['abstract', abstract], ['tcp4', '127.0.0.1', `${port}`]])
        assert.equal((await run(probeProgram(), args, lab.identity)).stdout, 'allowed\n', args[0]);
    await waitFor('the canaries were visited', () => servers.every(server => server.visits === 1));
    return { variables: { CANARY_FILE: file, CANARY_SOCKET: socket, CANARY_ABSTRACT: abstract, CANARY_PORT: port },
        visits: () => servers.map(server => server.visits), close: () => servers.forEach(server => server.close()) };
}

async function probeRepository(lab, script) {
    const folder = path.join(lab.repositories, 'probe');
    fs.mkdirSync(folder);
    fs.copyFileSync(probeProgram(), path.join(folder, 'probe'));
    fs.writeFileSync(path.join(folder, 'probes.sh'), script);
    await must('git', ['-C', folder, 'init', '-q', '-b', 'main']);
    await must('git', ['-C', folder, 'add', '-A']);
    await must('git', ['-C', folder, '-c', 'user.name=lab', '-c', 'user.email=lab@localhost', 'commit', '-q', '-m', 'probe']);
    return folder;
}

const inSandbox = (lab, runId, file) => waitFor(`${file} in the sandbox`,
    async () => (await lab.exec(runId, ['test', '-e', file])).code === 0, 240000, 200);

// A second run, alive all the time.
async function startNeighbour(lab) {
    const other = await lab.startScript(`echo neighbour >/workspace/neighbour; touch /tmp/ready; ${hold}`);
    await inSandbox(lab, other.runId, '/tmp/ready');
    const folders = { OTHER_RUNTIME: path.join(lab.state, 'run/sandboxes', other.sessionId),
        OTHER_WORKSPACE: path.join(lab.state, 'sessions', other.sessionId, 'workspace') };
    assert.ok(fs.existsSync(path.join(folders.OTHER_RUNTIME, 'ctl.sock')), 'the control socket lies elsewhere');
    assert.ok(fs.existsSync(folders.OTHER_WORKSPACE));
    return { ...other, folders };
}

for (const [mode, options] of modes) {
    test(`no way out of a sandbox ${mode}`, { timeout: 600000 }, t => withLab({ ...options, model: false, agent: false }, async lab => {
        const canaries = await setCanaries(lab);
        const other = await startNeighbour(lab);
        const script = probeScript({ ...canaries.variables, ...other.folders, HOST_PID: await lab.supervisorPid(), STATE: lab.state,
            PROBE: '/workspace/probe/probe' }, '/tmp/done');
        const repository = await probeRepository(lab, script);
        const { runId } = await lab.startScript(`bash probes.sh; ${hold}`, { repository });

        await inSandbox(lab, runId, '/tmp/done');
        const results = parseResults((await lab.exec(runId, ['cat', '/tmp/done'])).stdout);
        let number = 0;
        for (const [group, rows] of Object.entries(groups))
            await t.test(group, async group => {
                for (const row of rows) {
                    const result = results.get(number++);
                    await group.test(row[0], () => {
                        assert.ok(result, 'it was not tried');
                        const problem = judge(row, result);
                        assert.equal(problem, '', `${row[1]}: ${problem}`);
                    });
                }
            });
        assert.equal(results.size, number);
        assert.deepEqual(canaries.visits(), [1, 1, 1]);

        // Whoever it was that was hit, it was not the supervisor, nor the neighbour.
        assert.ok(await lab.statusMs() < 2000);
        assert.equal((await lab.exec(other.runId, ['cat', '/workspace/neighbour'])).stdout, 'neighbour\n');
        for (const one of [runId, other.runId])
            await lab.exec(one, ['touch', '/tmp/release']);
        for (const one of [runId, other.runId])
            assert.equal((await lab.ended(one)).status, 'completed');
        canaries.close();
    }));
}

test('a run whose processes are all stopped can still be cancelled', { timeout: 120000 }, () => withLab({ model: false, agent: false }, async lab => {
    const { runId } = await lab.startScript('sleep 600 & kill -STOP -1; sleep 600');
    await waitFor('something in the sandbox is stopped', () => sandboxedProcessesOf(lab.id)
        .some(one => /^State:\s+T/m.test(readIfThere(`/proc/${one.pid}/status`))), 60000);
    await lab.ctl(['cancel', runId]);
    assert.equal((await lab.ended(runId)).status, 'cancelled');
    await waitFor('nothing of it is left', () => sandboxedProcessesOf(lab.id).length === 0, 15000);
}));

// What a process of the same user may not do to the supervisor; and may do to others, or the test proves nothing.
const intrusions = ['memory', 'ptrace', 'vm-read', 'pidfd-getfd', 'environment', 'descriptors', 'root'];

test("the supervisor's memory is closed to its own user's programs", { timeout: 120000 }, () =>
    withLab({ ...root ? { uid: ordinaryUid } : {}, model: false, agent: false, supervisor: false }, async lab => {
        await lab.startSupervisor({ env: { ANTHROPIC_API_KEY: lab.secret } });
        const { secrets } = await lab.ctlJson(['secret', 'list']);
        assert.deepEqual(secrets.map(one => [one.name, one.source]), [['ANTHROPIC_API_KEY', 'environment']]);
        const pid = `${await lab.supervisorPid()}`;
        for (const one of intrusions) {
            const { stdout } = await run(probeProgram(), [one, pid], lab.identity);
            assert.match(stdout, /^denied (EACCES|EPERM)\n$/, one);
        }
        const own = spawn('sleep', ['60'], { ...lab.identity, stdio: 'ignore' });
        await once(own, 'spawn');
        // That event comes when exec closes the descriptors, and until it is through the process is as closed as the supervisor.
        await waitFor('the process is sleep', () => readIfThere(`/proc/${own.pid}/cmdline`).startsWith('sleep'));
        assert.equal((await run(probeProgram(), ['environment', `${own.pid}`], lab.identity)).stdout, 'allowed\n');
        own.kill('SIGKILL');
        await once(own, 'exit');

        // One byte: for a program that takes dumps the kernel ignores 0 and goes by 1 (core(5)).
        assert.match(fs.readFileSync(`/proc/${pid}/limits`, 'utf8'), /^Max core file size\s+[01]\s+[01]\s/m);
        assert.ok(!fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(lab.secret));
        if (root)
            assert.ok(!fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(lab.secret), 'the environment still holds the key');
        // Nor does what it starts get the key.
        const { runId } = await lab.startScript(`touch /tmp/ready; ${hold}`);
        await inSandbox(lab, runId, '/tmp/ready');
        for (const one of root ? [...descendantsOf(Number(pid)), ...sandboxedProcessesOf(lab.id).map(each => each.pid)] : [])
            assert.ok(!readIfThere(`/proc/${one}/environ`).includes(lab.secret), `process ${one}`);
        await lab.exec(runId, ['touch', '/tmp/release']);
        await lab.ended(runId);
    }));

test('another user of the machine gets nothing of a supervisor', { timeout: 120000, skip: !root && 'needs root, to be several users' },
    () => withLab({ uid: ordinaryUid, model: false, agent: false }, async lab => {
        const stranger = { uid: ordinaryUid - 1, gid: ordinaryUid - 1 };
        // What holds is the supervisor's own folders, not the lab's.
        fs.chmodSync(lab.root, 0o755);
        fs.chmodSync(lab.state, 0o755);
        assert.equal((await run(probeProgram(), ['unix', lab.socket], lab.identity)).stdout, 'allowed\n');
        assert.equal((await run(probeProgram(), ['unix', lab.socket], stranger)).stdout, 'denied EACCES\n');
        const { runId, sessionId } = await lab.startScript(`touch /tmp/ready; ${hold}`);
        await inSandbox(lab, runId, '/tmp/ready');
        for (const folder of ['run', 'run/sandboxes', `sessions/${sessionId}`, `sessions/${sessionId}/workspace`, 'vault', 'db', 'vault.key', 'web.key'])
            assert.notEqual((await run('cat', [path.join(lab.state, folder)], stranger)).stderr.match(/Permission denied/), null, folder);
        await lab.exec(runId, ['touch', '/tmp/release']);
        await lab.ended(runId);
    }));

// Its own; what it has mapped of its database is the kernel's, which drops it when memory is short, and grows as fast as the disk.
const ownKiB = pid => statusNumber(pid, 'RssAnon') + statusNumber(pid, 'RssShmem');
const descriptors = pid => fs.readdirSync(`/proc/${pid}/fd`).length;

// Measured without sanitizers: their allocator keeps what was freed.
test('floods from inside cost the supervisor neither memory nor descriptors', { timeout: 300000, skip: !root && 'needs root, to look at the supervisor' },
    () => withLab({ model: false, agent: false, bin: 'release', config: () => ({ limits: { outputMiB: 1 << 16 } }) }, async lab => {
        const pid = await lab.supervisorPid();
        const before = { memory: ownKiB(pid), descriptors: descriptors(pid) };
        const repository = await probeRepository(lab, '');
        const { runId } = await lab.startScript(`
            timeout 5 yes 'a line that an agent writes'
            timeout 5 bash -c 'cat /dev/zero >/dev/tcp/127.0.0.1/4999'
            ./probe connections 4999 1000 /tmp/ready &
            ${hold}
            kill $!`, { repository });
        let slowest = 0;
        let peak = 0;
        await waitFor('the floods are over', async () => {
            slowest = Math.max(slowest, await lab.statusMs());
            peak = Math.max(peak, ownKiB(pid));
            return (await lab.exec(runId, ['test', '-e', '/tmp/ready'])).code === 0;
        }, 120000, 200);
        const during = descriptors(pid);
        assert.ok(alive(pid));
        assert.ok(slowest < 2000, `status took ${slowest} ms`);
        assert.ok(peak - before.memory < 16384, `${peak - before.memory} KiB more than ${before.memory}`);
        assert.ok(during - before.descriptors < 300, `${during} descriptors`);
        await lab.exec(runId, ['touch', '/tmp/release']);
        assert.equal((await lab.ended(runId)).status, 'completed');
    }));
