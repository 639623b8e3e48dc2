// A session moves to another machine: into a file or into storage that speaks S3, away here, back there, and its conversation and files
// go on. A backup that somebody tampered with brings nothing.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';
import { freePort, gone, killHard, must, nodeModules, waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, initsOf, killNow, restart } from './living.mjs';

const require = createRequire(path.join(nodeModules, 'any.js'));
const shell = { model: false, agent: false };
const workspace = (lab, sessionId) => path.join(lab.state, 'sessions', sessionId, 'workspace');
const backup = (lab, ...args) => lab.ctl(['backup', ...args]);

async function ok(lab, ...args) {
    const result = await backup(lab, ...args);
    assert.equal(result.code, 0, `backup ${args.join(' ')}: ${result.stderr}`);
    return result.stdout.trim();
}

async function work(lab, script, options) {
    const { runId, sessionId } = await lab.startScript(script, options);
    const view = await lab.ended(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    return { runId, sessionId, output: view.result.output.trim() };
}

// The signature of version 4 that a request must carry, by what was signed.
function signatureOf(request, secret) {
    const [, date, region, signed] = /Credential=[^/]+\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=/.exec(request.headers.authorization) ?? [];
    const hmac = (key, text) => crypto.createHmac('sha256', key).update(text).digest();
    const hash = text => crypto.createHash('sha256').update(text).digest('hex');
    const headers = (signed ?? '').split(';').map(name => `${name}:${request.headers[name]}\n`).join('');
    const canonical = [request.method, request.url, '', headers, signed, request.headers['x-amz-content-sha256']].join('\n');
    const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], `${date}/${region}/s3/aws4_request`, hash(canonical)].join('\n');
    return hmac([date, region, 's3', 'aws4_request'].reduce(hmac, `AWS4${secret}`), text).toString('hex');
}

// The stand-in believes any signature of this kind, so what stands before it checks them.
async function storage(lab) {
    const S3rver = require('s3rver');
    const port = await freePort();
    fs.mkdirSync(path.join(lab.root, 's3'), { recursive: true });
    const server = new S3rver({ port, address: '127.0.0.1', silent: true, directory: path.join(lab.root, 's3'),
        configureBuckets: [{ name: 'backups' }] });
    await server.run();
    const front = http.createServer((request, response) => {
        if (!request.headers.authorization?.endsWith(`Signature=${signatureOf(request, 'S3RVER')}`)) {
            response.writeHead(403).end('SignatureDoesNotMatch');
            return;
        }
        request.pipe(http.request({ host: '127.0.0.1', port, method: request.method, path: request.url, headers: request.headers }, reply => {
            response.writeHead(reply.statusCode, reply.headers);
            reply.pipe(response);
        }));
    }).listen(0, '127.0.0.1');
    await once(front, 'listening');
    return { endpoint: `http://127.0.0.1:${front.address().port}`, close: async () => { front.close(); front.closeAllConnections(); await server.close(); } };
}

test('conversation and files go on elsewhere', { timeout: 600000 }, () => withLab({}, async here => {
    const repository = await here.repository();
    const mcp = await here.connect();
    const first = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE before the move', repository });
    assert.equal((await mcp.result(first.runId)).status, 'completed');
    const { sessionId } = first;
    const { diff } = await mcp.tool('opencode_get_diff', { runId: first.runId });
    const log = (await here.ctlJson(['logs', first.runId, '-n', '1000'])).events;
    await here.setSecret('a long passphrase', 'BACKUP_PASSPHRASE');
    const file = path.join(here.root, 'work', 'session.backup');
    assert.equal(await ok(here, 'create', sessionId, 'session.backup', '--passphrase', 'BACKUP_PASSPHRASE'), sessionId);
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    assert.ok(!fs.readFileSync(file).includes('TASK-NOTE'));
    assert.equal((await here.ctl(['rm', sessionId])).code, 0);

    await withLab({}, async there => {
        const unnamed = await backup(there, 'restore', file);
        assert.equal(unnamed.code, 5, unnamed.stderr);
        assert.match(unnamed.stderr, /passphrase/);
        await there.setSecret('another passphrase', 'BACKUP_PASSPHRASE');
        const other = await backup(there, 'restore', file, '--passphrase', 'BACKUP_PASSPHRASE');
        assert.match(other.stderr, /another passphrase/);
        await there.setSecret('a long passphrase', 'BACKUP_PASSPHRASE');
        assert.equal(await ok(there, 'restore', file, '--passphrase', 'BACKUP_PASSPHRASE'), sessionId);

        // Records as they were, and the work goes on where it stood.
        const client = await there.connect();
        const { runs } = await client.tool('opencode_list_runs');
        assert.deepEqual(runs.map(run => [run.runId, run.status, run.verdict]), [[first.runId, 'completed', 'changed']]);
        assert.equal((await client.tool('opencode_get_diff', { runId: first.runId })).diff, diff);
        assert.deepEqual((await there.ctlJson(['logs', first.runId, '-n', '1000'])).events, log);
        const next = await client.tool('opencode_run_task', { task: 'TASK-PLAIN after the move', sessionId });
        const end = await client.result(next.runId);
        assert.equal(end.status, 'completed', JSON.stringify(end));
        const asked = there.upstream.requests.filter(each => each.body.includes('TASK-PLAIN') && each.body.includes('"tools"'));
        assert.ok(asked.length > 0 && asked.every(each => each.body.includes('TASK-NOTE before the move')), 'the conversation is lost');
        const folder = path.join(workspace(there, sessionId), fs.readdirSync(workspace(there, sessionId))[0]);
        assert.equal(fs.readFileSync(path.join(folder, 'note.txt'), 'utf8'), 'note\n');
        assert.equal((await backup(there, 'restore', file, '--passphrase', 'BACKUP_PASSPHRASE')).code, 5, 'it is there already');
        await checkNothingLeft(there);
    });
}));

test('into storage and back, and what is tampered with brings nothing', { timeout: 300000 }, () => withLab({ ...shell, supervisor: false }, async lab => {
    const s3 = await storage(lab);
    try {
        lab.writeConfig({ backup: { endpoint: s3.endpoint, bucket: 'backups' } });
        await lab.startSupervisor({});
        await lab.setSecret();
        const repository = path.join(lab.repositories, 'app');
        fs.mkdirSync(repository);
        await must('git', ['init', '-q', '-b', 'main', repository]);
        await must('git', ['-C', repository, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', 'commit', '-q', '--allow-empty', '-m', 'first']);
        lab.give(repository);
        const { sessionId } = await work(lab, 'echo one > one; head -c 300000 /dev/urandom > random', { repository });
        await work(lab, 'echo two > two', { sessionId });
        const random = fs.readFileSync(path.join(workspace(lab, sessionId), 'app/random'));

        const early = await backup(lab, 'create', sessionId, 's3:moves/one');
        assert.match(early.stderr, /secret BACKUP_ACCESS_KEY/);
        await lab.setSecret('S3RVER', 'BACKUP_ACCESS_KEY');
        await lab.setSecret('wrong', 'BACKUP_SECRET_KEY');
        const denied = await backup(lab, 'create', sessionId, 's3:moves/one');
        assert.equal(denied.code, 5, denied.stderr);
        assert.match(denied.stderr, /refuses the keys/);
        await lab.setSecret('S3RVER', 'BACKUP_SECRET_KEY');
        await ok(lab, 'create', sessionId, 's3:moves/one');
        assert.equal((await backup(lab, 'restore', 's3:moves/none')).code, 4);
        assert.equal((await backup(lab, 'restore', 's3:../x')).code, 2);
        assert.ok(!fs.existsSync(path.join(lab.state, 'backup.tmp')));

        // Into a file, which is never replaced, and never half there.
        const file = path.join(lab.root, 'work', 'plain');
        await ok(lab, 'create', sessionId, file);
        const again = await backup(lab, 'create', sessionId, file);
        assert.equal(again.code, 5, again.stderr);
        assert.match(again.stderr, /there already/);
        assert.deepEqual(fs.readdirSync(path.dirname(file)).filter(name => name.startsWith('plain')), ['plain']);
        assert.equal((await lab.ctl(['call', 'backup.create', JSON.stringify({ sessionId, file: 'relative' })])).code, 2);
        assert.equal((await lab.ctl(['rm', sessionId])).code, 0);

        const whole = fs.readFileSync(file);
        const damaged = { cut: whole.subarray(0, whole.length - 100), longer: Buffer.concat([whole, Buffer.from('x')]), empty: Buffer.alloc(0),
            flipped: Buffer.from(whole).fill(whole[200] ^ 1, 200, 201), late: Buffer.from(whole).fill(whole[whole.length - 50] ^ 1, whole.length - 50, whole.length - 49) };
        for (const [name, bytes] of Object.entries(damaged)) {
            fs.writeFileSync(path.join(lab.root, 'work', name), bytes);
            const result = await backup(lab, 'restore', name);
            assert.equal(result.code, 2, `${name}: ${result.stderr}`);
            await waitFor('nothing of it is left', async () => (await lab.ctlJson(['sessions'])).sessions.length === 0 &&
                fs.readdirSync(path.join(lab.state, 'sessions')).length === 0, 30000, 100);
        }

        // The supervisor dies while it is brought back: nothing half stays, and it can be done again.
        const dying = backup(lab, 'restore', 's3:moves/one');
        await waitFor('it has begun', async () => (await lab.ctlJson(['sessions'])).sessions.length === 1, 30000, 2);
        await killNow(await lab.supervisorPid());
        await dying;
        await restart(lab);
        await waitFor('nothing of it is left, or it was whole', async () => {
            const { sessions } = await lab.ctlJson(['sessions']);
            return sessions.length === 0 || sessions[0].state === 'idle';
        }, 60000, 100);
        if ((await lab.ctlJson(['sessions'])).sessions.length === 0)
            assert.equal(await ok(lab, 'restore', 's3:moves/one'), sessionId);
        assert.deepEqual(fs.readFileSync(path.join(workspace(lab, sessionId), 'app/random')), random);
        assert.equal((await work(lab, 'cat one two; git status --short', { sessionId })).output, 'one\ntwo\n?? one\n?? random\n?? two');
        assert.equal((await lab.ctlJson(['list'])).runs.length, 3);
        await checkNothingLeft(lab);
    } finally {
        await s3.close();
    }
}));

// A name that is there is a whole backup's; a session that is there is whole.
test('killed in the midst of it', { timeout: 300000 }, () => withLab(shell, async lab => {
    const repository = path.join(lab.repositories, 'app');
    fs.mkdirSync(repository);
    await must('git', ['init', '-q', '-b', 'main', repository]);
    await must('git', ['-C', repository, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', 'commit', '-q', '--allow-empty', '-m', 'first']);
    lab.give(repository);
    const { sessionId } = await work(lab, 'echo one > one; head -c 60000000 /dev/urandom > random', { repository });
    const inside = () => fs.readFileSync(path.join(workspace(lab, sessionId), 'app/random'));
    const random = inside();
    const folder = path.join(lab.root, 'work');
    const file = path.join(folder, 'session.backup');
    const names = fs.readdirSync(folder);
    const start = async () => { await killNow(await lab.supervisorPid()); await restart(lab); };

    // Made: stopped while it writes, so that it can't be quicker than its death.
    const written = pid => fs.readdirSync(`/proc/${pid}/fd`).some(fd => {
        try {
            return fs.readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(`${folder}/`) && fs.statSync(`/proc/${pid}/fd/${fd}`).size > 1 << 20;
        } catch {
            return false;
        }
    });
    const making = backup(lab, 'create', sessionId, 'session.backup');
    const pid = await lab.supervisorPid();
    await waitFor('it is being written', () => written(pid), 60000, 1);
    process.kill(pid, 'SIGSTOP');
    assert.ok(written(pid) && !fs.existsSync(file), 'it was quicker');
    killHard(pid);
    await waitFor('the supervisor is gone', () => gone(pid), 10000, 5);
    assert.notEqual((await making).code, 0);
    await restart(lab);
    assert.deepEqual(fs.readdirSync(folder), names, 'nothing is left of it');
    assert.ok(inside().equals(random));
    await ok(lab, 'create', sessionId, 'session.backup');

    // Brought back: while its files come out of the backup, and while they are unpacked; by the supervisor's death and the sandbox's.
    assert.equal((await lab.ctl(['rm', sessionId])).code, 0);
    const empty = () => waitFor('nothing of it is left', async () => (await lab.ctlJson(['sessions'])).sessions.length === 0 &&
        ['sessions', 'checkpoints'].every(name => fs.readdirSync(path.join(lab.state, name)).length === 0), 60000, 50);
    const parts = path.join(lab.state, 'checkpoints', sessionId);
    const comes = () => waitFor('its files come', () => fs.existsSync(parts) && fs.readdirSync(parts).length > 0, 60000, 1);
    const unpacks = () => waitFor('they are unpacked', () => initsOf(lab)[0], 60000, 1);
    for (const [when, end] of [[comes, start], [unpacks, start], [unpacks, async () => killHard((await unpacks()).pid)]]) {
        const restoring = backup(lab, 'restore', 'session.backup');
        await when();
        await end();
        assert.notEqual((await restoring).code, 0);
        await empty();
    }
    await ok(lab, 'restore', 'session.backup');
    assert.ok(inside().equals(random));
    assert.equal((await work(lab, 'cat one', { sessionId })).output, 'one');
    await checkNothingLeft(lab);
}));
