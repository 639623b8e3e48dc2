// Repositories of every awkward kind: a run gets in, changes something, and pushes it; or it is told why not, and no half clone stays.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { awkwardRepositories } from './awkward-repositories.mjs';
import { Forge } from './forge.mjs';
import { must, withLab } from './lab.mjs';

const together = 4;

async function work(lab, forge, one) {
    const task = `set -e\n${one.script ?? 'true'}\necho edited >edited-by-the-run.txt; git add -A; git commit -qm edited\n` +
        (one.pushes ? 'git push -q 2>&1\n' : '');
    const params = JSON.stringify({ task, agent: 'shell', title: `Try ${one.name}`, repository: one.repository, ...one.branch && { branch: one.branch } });
    const created = await lab.ctl(['call', 'run.create', params]);
    if (one.atOnce) {
        assert.notEqual(created.code, 0);
        assert.match(created.stderr, one.refused);
        return;
    }
    assert.equal(created.code, 0, created.stderr);
    const { runId, sessionId } = JSON.parse(created.stdout);
    const view = await lab.ended(runId, 240000);
    const folder = path.join(lab.state, 'sessions', sessionId, 'workspace');
    if (one.refused) {
        assert.equal(view.status, 'failed', JSON.stringify(view));
        assert.equal(view.result.error.code, 'clone_failed');
        assert.match(view.result.error.message, one.refused);
        assert.ok(view.result.error.hint, 'it says what to do');
        assert.deepEqual(fs.existsSync(folder) ? fs.readdirSync(folder) : [], [], 'nothing half-made is left');
        return;
    }
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.equal(view.verdict, 'changed', JSON.stringify(view));
    const { evidence } = view;
    assert.match(evidence.branch, one.work ?? /^agent\/try-[a-z0-9-]+-[0-9a-z]{6}$/);
    if (one.base)
        assert.equal((await lab.ctlJson(['sessions'])).sessions.find(each => each.sessionId === sessionId).repositories[0].branch, one.base);
    if (one.says)
        assert.match(view.result.output, one.says);
    const warnings = (evidence.warnings ?? []).join('\n');
    one.warns ? assert.match(warnings, one.warns) : assert.equal(warnings, '');
    const { diff } = await lab.ctlJson(['diff', runId]);
    assert.match(diff, /\+\+\+ b\/edited-by-the-run\.txt/);
    for (const words of one.diff ?? [])
        assert.match(diff, words);
    for (const [name, value] of Object.entries(one.evidence ?? {}))
        assert.equal(evidence[name], value, name);
    if (one.pushes) {
        assert.equal(evidence.remoteState, 'same');
        assert.equal(evidence.remoteCommit, evidence.headCommit);
        const bare = path.join(forge.root, `${one.repository.replace(/^https:\/\/github\.com\//, '')}.git`);
        assert.equal((await must('git', ['-C', bare, 'rev-parse', `refs/heads/${evidence.branch}`])).trim(), evidence.headCommit, 'the branch is truly there');
    }
}

// Nothing is made for them: no session, no sandbox, and no connection to whatever they name.
const addresses = lab => ['--upload-pack=touch x', '-x', 'ext::sh -c touch% x', 'fd::17', 'https://user:secret@github.com/owner/trunk',
    'https://github.com@127.0.0.1/owner/trunk', 'https://github.com/owner/../trunk', 'https://github.com/owner/%2e%2e/trunk', 'https://github.com/owner/trunk\n',
    'https://github.com/owner/trunk\r\nHost: x', 'https://gіthub.com/owner/trunk', 'https://github。com/owner/trunk', 'https://github.com/owner/\u202etrunk',
    'https://elsewhere.invalid/owner/trunk', 'git@github.com:owner/trunk', 'http://169.254.169.254/latest', 'owner/trunk', '../trunk', `${lab.repositories}/../state`,
    'https://github.com/owner/trunk?x', 'https://github.com/owner/trunk#x', 'https://github.com\\@127.0.0.1/owner/trunk'];
const refs = ['-x', '--upload-pack=x', 'a b', 'main:refs/heads/x', 'a..b', 'x\ny', '@{1}', 'refs/heads/*', 'a\u001b[2J', 'main^{/x}', 'x.lock'];

async function attack(lab, forge) {
    const before = forge.requests.length;
    const mcp = await lab.connect();
    for (const repository of [...addresses(lab), `file://${lab.path('work')}`, '/etc', '/proc/self/cwd', `${lab.repositories}/linked-out`]) {
        await assert.rejects(() => mcp.tool('opencode_run_task', { task: 'x', repository, agent: 'shell' }), /repository/, repository);
        if (addresses(lab).includes(repository)) {
            const result = await lab.ctl(['call', 'run.create', JSON.stringify({ task: 'x', agent: 'shell', repository })]);
            assert.notEqual(result.code, 0, repository);
            assert.match(result.stderr, /repository/);
            assert.doesNotMatch(result.stderr, /\x1b|\u202e/);
        }
    }
    for (const branch of refs)
        await assert.rejects(() => mcp.tool('opencode_run_task', { task: 'x', repository: 'https://github.com/owner/trunk', branch, agent: 'shell' }), /branch/, branch);
    assert.equal((await lab.ctlJson(['list'])).runs.length, 0);
    assert.ok(!fs.existsSync(path.join(lab.state, 'sessions')) || fs.readdirSync(path.join(lab.state, 'sessions')).length === 0);
    assert.equal(forge.requests.length, before);
}

test('repositories of awkward kinds', { timeout: 1200000 }, t => withLab({ model: false, agent: false, supervisor: false }, async lab => {
    const forge = new Forge(lab.path('forge'), lab.secret);
    fs.mkdirSync(forge.root);
    await forge.start();
    try {
        lab.writeConfig({ services: { github: { target: `http://127.0.0.1:${forge.port}` } }, limits: { concurrentRuns: together } });
        const cases = await awkwardRepositories(forge.root, lab.repositories, name => `https://github.com/${name}`, forge);
        assert.ok(cases.length >= 25, `${cases.length} cases`);
        await lab.startSupervisor();
        await lab.setSecret();
        await lab.setSecret(lab.secret, 'GITHUB_TOKEN');
        await t.test('addresses and names that could do harm', async () => {
            fs.symlinkSync(lab.path('work'), path.join(lab.repositories, 'linked-out'));
            await attack(lab, forge);
        });
        const wanted = process.env.ONLY ? cases.filter(one => one.name.includes(process.env.ONLY)) : cases;
        const waiting = [...wanted];
        const worker = async () => {
            for (let one = waiting.shift(); one; one = waiting.shift())
                await t.test(one.name, () => work(lab, forge, one));
        };
        await Promise.all(Array.from({ length: together }, worker));
    } finally {
        await forge.stop();
    }
}));
