// git in a sandbox against a server behind the proxy: git's own http-backend, which asks for the real credential. Clone, a push of
// 50 MB, and every push that the rules forbid, with what git then says, what the server has, and what the audit shows.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';
import { bare, Forge, refs } from './forge.mjs';
import { killHard, must, waitFor, withLab } from './lab.mjs';
import { killNow, restart } from './living.mjs';

const megabytes = 50;

// NAME: what git is asked; its words and its code go to files of the workspace.
const attempt = (name, command) => `{ ${command}; } >"$out/${name}.txt" 2>&1; echo "code $?" >>"$out/${name}.txt"\n`;

async function withForge(body, config = {}) {
    let forge;
    await withLab({ model: false, agent: false, supervisor: false }, async lab => {
        forge = new Forge(lab.path('forge'), lab.secret, ['owner/public']);
        fs.mkdirSync(forge.root);
        await forge.start();
        try {
            lab.writeConfig({ ...config, services: { github: { target: `http://127.0.0.1:${forge.port}`, ...config.services?.github } } });
            await lab.startSupervisor();
            await lab.setSecret();
            await lab.setSecret(lab.secret, 'GITHUB_TOKEN');
            await body(lab, forge);
        } finally {
            await forge.stop();
        }
    });
}

async function script(lab, options, text) {
    const { runId, sessionId } = await lab.startScript(`set -u; out=/workspace/said; mkdir -p "$out"; ${text}`, options);
    const view = await lab.ended(runId, 240000);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    const folder = path.join(lab.state, 'sessions', sessionId, 'workspace', 'said');
    const said = Object.fromEntries(fs.readdirSync(folder).map(name =>
        [name.replace(/\.txt$/, ''), fs.readFileSync(path.join(folder, name), 'utf8')]));
    const { records } = await lab.ctlJson(['call', 'audit.list', JSON.stringify({ runId, limit: 500 })]);
    return { runId, sessionId, view, said, audit: records };
}

test('pushes go where the rules allow it, and git says why where they do not', { timeout: 600000 }, () => withForge(async (lab, forge) => {
    const project = await bare(forge.root, 'owner/project', ['main', 'agent/foreign', 'agent/deleted']);
    const other = await bare(forge.root, 'owner/other');
    await bare(forge.root, 'owner/public');
    const before = await refs(project);

    const first = await script(lab, { repository: 'https://github.com/owner/project.git' },
        'cd /workspace/project\n' +
        'git config user.name a; git config user.email a@a.invalid\n' +
        `git checkout -q -b agent/one; head -c ${megabytes << 20} /dev/urandom >large; git add large; git commit -qm large\n` +
        attempt('allowed', 'git push origin agent/one') +
        'echo more >>README; git commit -qam more\n' +
        attempt('again', 'git push origin agent/one') +
        'git commit -q --amend -m amended\n' +
        attempt('forced', 'git push --force origin agent/one') +
        attempt('unchanged', 'git push origin agent/one') +
        attempt('main', 'git push origin HEAD:main') +
        attempt('forced-main', 'git push --force origin HEAD:main') +
        attempt('tag', 'git push origin HEAD:refs/tags/v1') +
        attempt('review', 'git push origin HEAD:refs/for/main') +
        attempt('capital', 'git push origin HEAD:refs/heads/Agent/one') +
        attempt('bare-prefix', 'git push origin HEAD:refs/heads/agent') +
        attempt('foreign', 'git push --force origin HEAD:refs/heads/agent/foreign') +
        attempt('delete-main', 'git push origin --delete main') +
        attempt('delete-foreign', 'git push origin --delete agent/deleted') +
        attempt('mixed', 'git push origin HEAD:refs/heads/agent/two HEAD:refs/heads/main') +
        attempt('atomic', 'git push --atomic origin HEAD:refs/heads/agent/two HEAD:refs/heads/main') +
        attempt('options', 'git push -o ci.skip origin HEAD:refs/heads/agent/three') +
        attempt('three', 'git push origin HEAD:refs/heads/agent/three') +
        attempt('delete-own', 'git push origin --delete agent/three') +
        attempt('alias', 'git push https://github.com/Owner/Project HEAD:refs/heads/agent/alias') +
        attempt('other', 'git push https://github.com/owner/other.git HEAD:refs/heads/agent/x') +
        attempt('private', 'git clone https://github.com/owner/other.git /tmp/other') +
        attempt('public', 'git clone https://github.com/owner/public.git /tmp/public') +
        attempt('lfs', 'curl -sS -X POST -H "authorization: $(git config --get-regexp "http.*extraheader" | sed "s/.*Authorization: //")" ' +
            '-d "{}" http://127.0.0.1:4999/proxy/github/owner/project.git/info/lfs/objects/batch || true'));
    const { said, audit } = first;

    for (const name of ['allowed', 'again', 'forced', 'three', 'delete-own', 'alias', 'public', 'unchanged'])
        assert.match(said[name], /code 0\n$/, `${name}: ${said[name]}`);
    const refused = { main: /main \(sandbox: not a ref that this run may push\)/, 'forced-main': /not a ref that this run may push/,
        tag: /v1 \(sandbox: not a ref/, review: /main \(sandbox: not a ref/, capital: /not a ref that this run may push/,
        'bare-prefix': /not a ref that this run may push/, foreign: /this session didn't push what it points to/,
        'delete-main': /main \(sandbox: not a ref that this run may push\)/,
        'delete-foreign': /only what this session pushed itself may be deleted/, mixed: /not pushed, since another ref/,
        atomic: /remote rejected/, options: /push options are not allowed/ };
    for (const [name, words] of Object.entries(refused)) {
        assert.match(said[name], /! \[remote rejected\]/, `${name}: ${said[name]}`);
        assert.match(said[name], words, name);
        assert.match(said[name], /remote: .*Refs that may be pushed: agent\/\.\.\./, name);
        assert.match(said[name], /code 1\n$/, name);
    }
    assert.match(said.other, /remote: this run may push to its session's own repositories only \(repository_not_allowed\)/);
    assert.doesNotMatch(said.other, /code 0\n$/);
    assert.doesNotMatch(said.private, /code 0\n$/, 'a private repository that is not the session\'s');

    // What the server has: what was there before, as it was, and the run's own branches.
    const after = await refs(project);
    for (const [ref, id] of Object.entries(before))
        assert.equal(after[ref], id, ref);
    assert.deepEqual(Object.keys(after).sort(),
        [...Object.keys(before), 'refs/heads/agent/one', 'refs/heads/agent/alias'].sort());
    assert.equal((await must('git', ['-C', project, 'log', '-1', '--format=%s', 'agent/one'])).trim(), 'amended');
    assert.equal((await must('git', ['-C', project, 'cat-file', '-s', 'agent/one:large'])).trim(), `${megabytes << 20}`);
    assert.deepEqual(Object.keys(await refs(other)), ['refs/heads/main']);
    // The credential went to the session's repository and to no other.
    for (const one of forge.requests)
        assert.equal(one.known, one.url.startsWith('/owner/project.git/'), JSON.stringify(one));

    const denied = audit.filter(one => one.verdict === 'deny');
    assert.ok(denied.some(one => one.reason === 'push_ref_not_allowed' && /^refs\/heads\/main [0-9a-f]{10}\.\.[0-9a-f]{10}/.test(one.detail)),
        JSON.stringify(denied));
    for (const reason of ['push_overwrite', 'push_delete', 'push_options', 'repository_not_allowed'])
        assert.ok(denied.some(one => one.reason === reason), reason);
    assert.ok(audit.some(one => one.verdict === 'allow' && /^refs\/heads\/agent\/one 0{10}\.\.[0-9a-f]{10}/.test(one.detail ?? '') &&
        one.requestBytes > megabytes << 20));
    assert.ok(first.view.evidence.refusedRequests >= denied.length, JSON.stringify(first.view.evidence));

    // A later run of the session goes on with the branch, also under a new supervisor; a new session does not.
    killHard(await lab.supervisorPid());
    await waitFor('the supervisor is gone', async () => !fs.existsSync(`/proc/${lab.supervisor.pid}`) || lab.supervisor.exitCode !== null ||
        lab.supervisor.signalCode !== null);
    await lab.startSupervisor();
    const more = 'cd /workspace/project; git config user.name a; git config user.email a@a.invalid; git fetch -q origin; ' +
        'git checkout -q -B agent/one origin/agent/one; echo later >>README; git commit -qam later\n' +
        attempt('later', 'git push origin agent/one');
    const second = await script(lab, { sessionId: first.sessionId }, more);
    assert.match(second.said.later, /code 0\n$/, second.said.later);
    const third = await script(lab, { repository: 'https://github.com/owner/project.git' }, more);
    assert.match(third.said.later, /\[remote rejected\].*this session didn't push what it points to/);
}));

// With "overwrite" nothing but the list of refs stands between a session and main. The name of its own branch is below none of the service's.
test('a copy of a session has a branch of its own, and no other', { timeout: 300000 }, () => withForge(async (lab, forge) => {
    const project = await bare(forge.root, 'owner/project', ['main', 'release']);
    const before = await refs(project);
    const ok = async (...args) => {
        const result = await lab.ctl(args);
        assert.equal(result.code, 0, `${args.join(' ')}: ${result.stderr}`);
        return result.stdout.trim();
    };
    const tries = (name, ref) => attempt(`${name}`, `git push origin HEAD:refs/heads/${ref}`);
    const all = 'cd /workspace/project; git symbolic-ref --short HEAD >"$out/branch.txt"; git status --short >"$out/status.txt"\n' +
        'echo more >>README; git commit -qam more\n' +
        tries('main', 'main') + tries('release', 'release') + tries('other', 'bots/none') + attempt('own', 'git push --force origin HEAD');
    const refused = said => {
        for (const name of ['main', 'release', 'other'])
            assert.match(said[name], /not a ref that this run may push/, `${name}: ${said[name]}`);
    };
    const branchOf = said => said.branch.trim();

    const first = await script(lab, { repository: 'https://github.com/owner/project.git', branch: 'release' },
        'cd /workspace/project; echo work >>README; git commit -qam work; echo loose >loose; git branch kept\n' + all);
    refused(first.said);
    assert.match(first.said.own, /code 0\n$/);
    const sessions = [first];
    for (const from of [[first.sessionId], [first.sessionId], [first.sessionId, '-c', '1']]) {
        const sessionId = await ok('session', 'fork', ...from);
        const fork = await script(lab, { sessionId }, all);
        refused(fork.said);
        assert.match(fork.said.own, /code 0\n$/, fork.said.own);
        assert.equal(branchOf(fork.said), `bots/${sessionId.slice(-6)}`);
        assert.match(fork.said.status, from.length === 1 ? /\?\? loose/ : /^$/);
        sessions.push(fork);
    }
    // A copy of a copy, whose agent was on a branch that it made.
    await script(lab, { sessionId: sessions[1].sessionId }, 'cd /workspace/project; git switch -qc mine');
    const again = await script(lab, { sessionId: await ok('session', 'fork', sessions[1].sessionId) }, all);
    refused(again.said);
    assert.match(again.said.own, /code 0\n$/, again.said.own);
    sessions.push(again);
    const names = sessions.map(each => branchOf(each.said));
    assert.equal(new Set(names).size, names.length, names.join(' '));
    const after = await refs(project);
    assert.deepEqual(Object.keys(after).sort(), [...Object.keys(before), ...names.map(name => `refs/heads/${name}`)].sort());
    for (const [ref, id] of Object.entries(before))
        assert.equal(after[ref], id, ref);

    // Where a branch has the name of the folder that theirs would be in.
    const flat = await bare(forge.root, 'owner/flat', ['main', 'bots']);
    const plain = await script(lab, { repository: 'https://github.com/owner/flat.git', branch: 'bots' }, all.replace('/project', '/flat'));
    const copy = await script(lab, { sessionId: await ok('session', 'fork', plain.sessionId) }, all.replace('/project', '/flat'));
    for (const each of [plain, copy])
        assert.equal(branchOf(each.said), `bots-${each.sessionId.slice(-6)}`);
    assert.match(copy.said.own, /code 0\n$/, copy.said.own);
    assert.deepEqual(Object.keys(await refs(flat)).sort(), [`refs/heads/${branchOf(copy.said)}`, 'refs/heads/bots', 'refs/heads/main'].sort());

    // Taken back to before its first run it has the same branch, and a stranger's backup brings none with it.
    await ok('session', 'restore', first.sessionId, '1');
    const back = await script(lab, { sessionId: first.sessionId }, all);
    refused(back.said);
    assert.match(back.said.own, /code 0\n$/, back.said.own);
    await lab.setSecret('a long enough passphrase', 'BACKUP_PASSPHRASE');
    for (const [file, options, code] of [['open', [], 1], ['sealed', ['--passphrase', 'BACKUP_PASSPHRASE'], 0]]) {
        const name = lab.path(file);
        await ok('backup', 'create', sessions[2].sessionId, name, ...options);
        await ok('session', 'rm', sessions[2].sessionId);
        await ok('backup', 'restore', name, ...options);
        const restored = await script(lab, { sessionId: sessions[2].sessionId }, all);
        refused(restored.said);
        assert.match(restored.said.own, new RegExp(`code ${code}\n$`), `${file}: ${restored.said.own}`);
        // What was open is sealed next: it stays without a branch.
        if (code === 1)
            sessions[2] = sessions[3];
    }
}, { workspace: { branch: 'bots/{id}' }, services: { github: { push: { overwrite: true } } } }));

test('who works on the branch it began with may push what the service lists', { timeout: 120000 }, () => withForge(async (lab, forge) => {
    const project = await bare(forge.root, 'owner/project', ['main']);
    const before = await refs(project);
    const work = 'cd /workspace/project; git symbolic-ref --short HEAD >"$out/branch.txt"; echo more >>README; git commit -qam more\n' +
        attempt('main', 'git push origin HEAD') + attempt('agent', 'git push --force origin HEAD:refs/heads/agent/one');
    let options = { repository: 'https://github.com/owner/project.git' };
    // Which branch it began with is known only since its first clone.
    for (let turn = 0; turn < 2; turn++) {
        const { said, sessionId } = await script(lab, options, work);
        assert.equal(said.branch, 'main\n');
        assert.match(said.main, /not a ref that this run may push/);
        assert.match(said.agent, /code 0\n$/);
        options = { sessionId };
    }
    assert.deepEqual(Object.keys(await refs(project)).sort(), ['refs/heads/agent/one', ...Object.keys(before)].sort());
}, { workspace: { branch: '' }, services: { github: { push: { overwrite: true } } } }));

// A web server on this machine, which no sandbox may reach but by a rule.
async function withHost(body) {
    const server = http.createServer((request, response) => response.end('reached\n')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
        await body(`127.0.0.1:${server.address().port}`);
    } finally {
        server.close();
        server.closeAllConnections();
    }
}

test('what is said of one repository holds for it by any spelling, and for no other', { timeout: 300000 }, () => withHost(host => withForge(async (lab, forge) => {
    lab.writeConfig({ services: { github: { target: forge.origin, push: { refs: ['agent/...', 'shared'] } } }, repositories: {
        'https://github.com/owner/open': { push: { refs: ['main', 'bots/...'], overwrite: true }, egress: [`${host} private`] },
        'https://github.com/owner/shut.git': { push: { refs: [] }, egress: [] },
    } });
    await killNow(await lab.supervisorPid());
    await restart(lab);
    const folders = {};
    for (const name of ['open', 'shut', 'plain'])
        folders[name] = await bare(forge.root, `owner/${name}`);
    const branches = ['main', 'shared', 'agent/x', 'bots/x'];
    const tries = (name, more = '') => `cd /workspace/${name}; git commit -q --allow-empty -m "$$ more"${more}\n` +
        branches.map(branch => attempt(branch.replace('/', '-'), `git push --force origin HEAD:refs/heads/${branch}`)).join('') +
        attempt('own', 'git push --force origin HEAD') + attempt('host', `curl -sS --noproxy '' --max-time 20 http://${host}/`);
    const passed = said => [...branches.map(branch => branch.replace('/', '-')), 'own', 'host'].filter(name => /code 0\n$/.test(said[name]) && (name !== 'host' || /^reached/.test(said[name])));
    const expected = { open: ['main', 'bots-x', 'own', 'host'], shut: [], plain: ['shared', 'agent-x', 'own'] };
    const results = {};
    for (const [name, spelling] of [['open', 'https://github.com/owner/open.git'], ['shut', 'https://github.com/owner/shut'], ['plain', 'https://github.com/owner/plain']]) {
        results[name] = await script(lab, { repository: spelling }, tries(name));
        assert.deepEqual(passed(results[name].said), expected[name], JSON.stringify(results[name].said));
    }
    assert.match(results.shut.said.main, /not a ref that this run may push/);
    assert.match(results.plain.said.host, /code [1-9]|host_not_allowed|not allowed/);

    // Other spellings of the same repository.
    const other = await script(lab, { repository: `${forge.origin}/owner/shut` }, tries('shut'));
    assert.deepEqual(passed(other.said), [], JSON.stringify(other.said));
    const open = await script(lab, { repository: `${forge.origin}/owner/open.git/` }, tries('open'));
    assert.deepEqual(passed(open.said), expected.open, JSON.stringify(open.said));
    // Two in one session: each is pushed to by its own rules, and the host is that of the one that is worked in.
    const both = await script(lab, { repository: 'https://github.com/owner/shut', sessionId: results.open.sessionId }, tries('shut'));
    assert.deepEqual(passed(both.said), [], JSON.stringify(both.said));
    const back = await script(lab, { repository: 'https://github.com/owner/open.git', sessionId: results.open.sessionId }, tries('open'));
    assert.deepEqual(passed(back.said), expected.open, JSON.stringify(back.said));
    const there = await script(lab, { sessionId: results.open.sessionId }, tries('shut'));
    assert.deepEqual(passed(there.said), ['host'], JSON.stringify(there.said));
    // And when the session's branch is published.
    const published = await lab.ctl(['pr', results.shut.sessionId]);
    assert.notEqual(published.code, 0);
    assert.match(published.stderr, /push\.refs of the repository allows no branch/);
    assert.deepEqual(Object.keys(await refs(folders.shut)), ['refs/heads/main']);
})));
