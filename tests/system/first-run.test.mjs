// The main job, then the proof: the task was done, the model server saw the real key, the sandbox never did, and the agent had no
// network but the proxy.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { must, rangeTask, readIfThere, run, sandboxedProcessesOf, spellings, waitFor, withLab } from './lab.mjs';

test('a task given by a client is done by OpenCode in a sandbox', { timeout: 600000 }, () => withLab({}, async lab => {
    const repository = await lab.repository();
    const mcp = await lab.connect();
    const started = await mcp.tool('opencode_run_task', { task: rangeTask, repository });
    assert.match(started.runId, /^run_[0-9A-Za-z]{26}$/);
    assert.match(started.sessionId, /^ses_/);
    assert.ok(['queued', 'started'].includes(started.status), started.status);
    assert.match(started.webUiUrl, /^http:\/\/127\.0\.0\.1:\d+\//);

    const view = await mcp.result(started.runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.task, rangeTask);
    assert.equal(view.verdict, 'changed');
    assert.equal(view.result.success, true);
    assert.match(view.result.output, /committed on the branch fix\/range-sum/);
    assert.equal(view.evidence.commits, 1);
    assert.equal(view.evidence.filesChanged, 1);
    assert.equal(view.evidence.branch, 'fix/range-sum');
    assert.ok(view.createdAt <= view.startedAt && view.startedAt <= view.completedAt);

    const diff = await lab.ctlJson(['diff', started.runId]);
    assert.match(diff.diff, /^-.*number < last;/m);
    assert.match(diff.diff, /^\+.*number <= last;/m);
    assert.equal(diff.files[0].path, 'src/range.c');

    // The diff applies to the user's repository, and then its test passes. The repository itself was not touched.
    assert.equal((await must('git', ['-C', repository, 'status', '--porcelain'])), '');
    assert.equal((await must('git', ['-C', repository, 'branch', '--format=%(refname:short)'])).trim(), 'main');
    assert.notEqual((await run('sh', ['tests/run.sh'], { cwd: repository })).code, 0);
    await must('git', ['-C', repository, 'apply', '-'], { input: diff.diff });
    assert.match(await must('sh', ['tests/run.sh'], { cwd: repository }), /PASS range_sum/);

    // The model server was asked with the real key, every time, and never with anything else.
    const keys = new Set(lab.upstream.requests.map(request => request.headers['x-api-key']));
    assert.deepEqual([...keys], [lab.secret]);
    assert.ok(lab.upstream.requests.length >= 6);
    assert.ok(lab.upstream.requests.every(request => !request.body.includes(lab.secret)));

    // The test ran inside, before and after the fix.
    const log = await lab.ctlJson(['logs', started.runId]);
    const text = JSON.stringify(log);
    assert.match(text, /FAIL range_sum/);
    assert.match(text, /PASS range_sum/);
    const audit = await lab.ctlJson(['audit', started.runId]);
    assert.ok(audit.records.some(record => record.service === 'anthropic' && record.verdict === 'allow' && record.status === 200));
    assert.ok(!JSON.stringify(audit).includes(lab.secret));
}));

// Looks for PATTERN in everything that can be read inside the sandbox. The pattern is written so that it does not match itself.
const search = `
pattern=$1
{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; } 2>/dev/null | tr '\\0' '\\n' | grep -a -c -e "$pattern" | sed 's/^/processes /'
find / \\( -path /proc -o -path /sys -o -path /dev -o -path /usr \\) -prune -o -type f -print0 2>/dev/null |
    xargs -0 grep -l -a -e "$pattern" 2>/dev/null | sed 's/^/file /'
echo searched`;
const pattern = word => `${word.slice(0, -1)}[${word.slice(-1)}]`;

// A runtime reserves tens of gigabytes and touches few of them: only pages that are there are read.
function memoryHolds(pid, forms) {
    const open = name => {
        try {
            return fs.openSync(`/proc/${pid}/${name}`, 'r');
        } catch (error) {
            if (!['ENOENT', 'ESRCH'].includes(error.code))
                throw error;
            return -1; // it ended meanwhile
        }
    };
    const memory = open('mem');
    const pagemap = open('pagemap');
    const pageSize = 4096;
    const pages = 4096;
    const entries = Buffer.alloc(8 * pages);
    const bytes = Buffer.alloc(pages * pageSize);
    const runHolds = (at, count) => {
        try {
            const got = fs.readSync(memory, bytes, 0, count * pageSize, at);
            return forms.some(form => bytes.subarray(0, got).includes(form));
        } catch {
            return false; // gone meanwhile
        }
    };
    const rangeHolds = (from, to) => {
        for (let at = from; at < to; at += pages * pageSize) {
            const count = Math.min(pages, (to - at) / pageSize);
            const got = fs.readSync(pagemap, entries, 0, 8 * count, at / pageSize * 8) / 8;
            for (let start = 0; start < got; ) {
                let end = start;
                while (end < got && entries[8 * end + 7] & 0xc0)
                    end++;
                if (end > start && runHolds(at + start * pageSize, end - start))
                    return true;
                start = end + 1;
            }
        }
        return false;
    };
    try {
        let mapping = null;
        for (const line of readIfThere(`/proc/${pid}/smaps`).split('\n')) {
            const head = /^([0-9a-f]+)-([0-9a-f]+) (\S+)/.exec(line);
            if (head)
                mapping = head[3].startsWith('rw') ? [parseInt(head[1], 16), parseInt(head[2], 16)] : null;
            else if (mapping && /^Rss:\s+[1-9]/.test(line) && rangeHolds(...mapping))
                return true;
        }
        return false;
    } finally {
        for (const one of [memory, pagemap].filter(each => each >= 0))
            fs.closeSync(one);
    }
}

test('the sandbox never sees the key, nor any network', { timeout: 600000 }, () => withLab({}, async lab => {
    const canary = net.createServer().listen(0, '127.0.0.1');
    await once(canary, 'listening');
    const abstract = net.createServer().listen(`\0${lab.id}-canary`);
    await once(abstract, 'listening');
    canary.unref();
    abstract.unref();
    let visits = 0;
    canary.on('connection', socket => { visits++; socket.destroy(); });

    const repository = await lab.repository();
    const mcp = await lab.connect();
    const { runId } = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD please', repository });
    await waitFor('the agent holds', async () => (await lab.exec(runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);

    // Environment, processes and every file, searched from inside; first with a word that must be found.
    const control = `control-word-${lab.id}`;
    await lab.exec(runId, ['sh', '-c', 'printf %s "$1" >/tmp/control', 'sh', control]);
    const found = (await lab.exec(runId, ['sh', '-c', search, 'sh', pattern(control)])).stdout;
    assert.match(found, /^file \/tmp\/control$/m);
    const secret = await lab.exec(runId, ['sh', '-c', search, 'sh', pattern(lab.secret)]);
    assert.equal(secret.code, 0, secret.stderr);
    assert.equal(secret.stdout, 'processes 0\nsearched\n');

    // The memory of everything that runs in the sandbox, and the session's folders, seen from outside.
    const inside = sandboxedProcessesOf(lab.id);
    assert.ok(inside.some(one => /opencode/.test(one.command)), JSON.stringify(inside));
    if (process.getuid() === 0) {
        // The token that the agent has in its place is found by the same search.
        assert.ok(inside.some(one => memoryHolds(one.pid, spellings('sbx_').slice(0, 1))), 'the search finds nothing at all');
        for (const one of inside)
            assert.equal(memoryHolds(one.pid, spellings(lab.secret)), false, `the memory of ${one.command}`);
    }
    assert.deepEqual(lab.filesWithSecret(), []);

    // Not the host's root user, whatever it looks like inside.
    let looked = 0;
    for (const one of inside) {
        const status = readIfThere(`/proc/${one.pid}/status`);
        if (status === '' || /^State:\s+[ZX]/m.test(status))
            continue; // it ended meanwhile
        looked++;
        assert.doesNotMatch(status, /^Uid:.*\b0\b/m, one.command);
        assert.match(status, /^CapEff:\s+0+$/m, one.command);
        assert.match(status, /^CapBnd:\s+0+$/m, one.command);
        assert.match(status, /^NoNewPrivs:\s+1$/m, one.command);
        assert.match(status, /^Seccomp:\s+2$/m, one.command);
    }
    assert.ok(looked > 0);

    // No network: one interface, no route, nothing of the host's loopback, no socket of the host.
    const network = (await lab.exec(runId, ['sh', '-c', `
        echo interfaces: $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ')
        echo routes: $(tail -n +2 /proc/net/route | wc -l)
        timeout 3 bash -c 'exec 3<>/dev/tcp/127.0.0.1/${canary.address().port}' 2>/dev/null && echo reached
        grep -c canary /proc/net/unix
        find / -xdev -type s 2>/dev/null | head
        true`])).stdout;
    assert.equal(network, 'interfaces: lo\nroutes: 0\n0\n');
    assert.equal(visits, 0);

    // The token that the sandbox holds in place of the key is worth nothing anywhere else, and does not open other services.
    const refusal = (await lab.exec(runId, ['sh', '-c', `curl -s -m 10 -o /dev/null -w '%{http_code}' \
        -H 'x-api-key: wrong' http://127.0.0.1:4999/proxy/anthropic/v1/messages -d '{}' 2>/dev/null || echo none`])).stdout;
    assert.match(refusal, /^(401|403|none)/);

    await lab.exec(runId, ['touch', '/tmp/release']);
    const view = await mcp.result(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.evidence.untracked, 1);
    // After the run nothing of it is left running.
    await waitFor('the sandbox is gone', () => sandboxedProcessesOf(lab.id).length === 0, 15000);
    canary.close();
    abstract.close();
}));

// A program that crashes inside, and the supervisor itself, with as much of a core as their limits allow.
test('a crash leaves no core with the key in it', { timeout: 300000 }, () => withLab({ model: false, agent: false }, async lab => {
    const { runId } = await lab.startScript('ulimit -c unlimited 2>/dev/null; cd "$HOME"; sh -c \'kill -ABRT $$\'; echo "code $?"; ulimit -c; ls core* 2>/dev/null; true');
    const { result } = await lab.ended(runId);
    assert.match(result.output, /code 134/);
    const pid = await lab.supervisorPid();
    const before = new Set(lab.files());
    process.kill(pid, 'SIGABRT');
    await waitFor('the supervisor is gone', () => !fs.existsSync(`/proc/${pid}`) || /^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')));
    const after = [...lab.files()].filter(file => !before.has(file));
    assert.deepEqual(after.filter(file => /(^|\/)core/.test(file)), []);
    assert.deepEqual(lab.filesWithSecret(), []);
    await lab.startSupervisor();
}));
