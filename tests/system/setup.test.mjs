// What the operator's configuration puts into sandboxes: a repository's set-up command, variables, folders of the machine.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { finalStates, must, waitFor, withLab } from './lab.mjs';

const shell = { model: false, agent: false };

async function start(lab, args) {
    const { runId, sessionId } = await lab.ctlJson(['run', '--agent', 'shell', ...args]);
    const view = await waitFor('the run ends', async () => {
        const now = await lab.ctlJson(['get', runId]);
        return finalStates.includes(now.status) && now;
    }, 60000, 50);
    return { runId, sessionId, view, log: (await lab.ctlJson(['logs', runId])).events };
}

// A repository with FILES, committed.
async function repositoryWith(lab, name, files) {
    const folder = await lab.repository(name);
    for (const [file, text] of Object.entries(files))
        fs.writeFileSync(path.join(folder, file), text);
    await must('git', ['-C', folder, 'add', '-A']);
    await must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', 'commit', '-qm', 'more']);
    return folder;
}

const setupEnd = log => log.find(event => event.data?.phase === 'setup' && 'exitCode' in event.data);

test('the configured command runs once in a session, before the agent', { timeout: 300000 }, () => withLab({ ...shell,
    config: lab => ({
        repositories: { [lab.path('repositories', 'prepared')]: { setup: 'echo "installing $FLAVOUR"; echo done >> "$HOME/setup.txt"' } },
        sandbox: { environment: ['FLAVOUR=vanilla'] },
    }) }, async lab => {
    const first = await start(lab, ['--repo', await lab.repository('prepared'), 'cat ~/setup.txt; echo "and $FLAVOUR"']);
    assert.equal(first.view.status, 'completed', JSON.stringify(first.view));
    assert.match(first.view.result.output, /done\nand vanilla/);
    assert.ok(first.log.some(event => event.text === 'installing vanilla' && event.data?.phase === 'setup'), JSON.stringify(first.log));
    assert.equal(setupEnd(first.log).data.exitCode, 0);
    const second = await start(lab, ['--session', first.sessionId, 'wc -l < ~/setup.txt']);
    assert.equal(second.view.result.output.trim(), '1');
    assert.equal(setupEnd(second.log), undefined);
}));

test('a command that fails ends the run with its code, and is tried again by the next run', { timeout: 300000 }, () => withLab({
    ...shell, config: () => ({ repositories: { '/*': { setup: 'echo no luck >&2; test -e "$HOME/luck" || exit 7' } } }) },
async lab => {
    const first = await start(lab, ['--repo', await lab.repository(), 'true']);
    assert.equal(first.view.status, 'failed');
    assert.equal(first.view.result.error.code, 'setup_failed');
    assert.equal(first.view.result.error.phase, 'setup');
    assert.match(first.view.result.error.message, /code 7/);
    assert.equal(setupEnd(first.log).data.exitCode, 7);
    assert.ok(first.log.some(event => event.text === 'no luck'));
    fs.writeFileSync(lab.path('state', 'sessions', first.sessionId, 'home', 'luck'), '');
    const second = await start(lab, ['--session', first.sessionId, 'echo went on']);
    assert.equal(second.view.status, 'completed', JSON.stringify(second.view));
}));

test('a file in the repository can only ask for what is allowed', { timeout: 300000 }, () => withLab({ ...shell,
    config: () => ({ setup: { allow: ['echo allowed > "$HOME/asked"'] } }) }, async lab => {
    const good = await start(lab, ['--repo', await repositoryWith(lab, 'asks nicely',
        { '.sandbox-mcp.json': JSON.stringify({ setup: 'echo allowed > "$HOME/asked"', other: 1 }) }), 'cat ~/asked']);
    assert.equal(good.view.status, 'completed', JSON.stringify(good.view));
    assert.equal(good.view.result.output.trim(), 'allowed');
    for (const text of [JSON.stringify({ setup: 'echo wild > "$HOME/asked"' }), 'not json', '{"setup":7}', `{"setup":"${'x'.repeat(20000)}"}`]) {
        const bad = await start(lab, ['--repo', await repositoryWith(lab, undefined, { '.sandbox-mcp.json': text }),
            'test ! -e ~/asked && echo nothing ran']);
        assert.equal(bad.view.status, 'completed', JSON.stringify(bad.view));
        if (text.includes('wild'))
            assert.ok(bad.log.some(event => /setup\.allow/.test(event.text)), JSON.stringify(bad.log));
    }
}));

test('folders of the machine can be read inside and not written', { timeout: 300000 }, () => withLab({ ...shell,
    config: lab => ({ sandbox: { readOnlyFolders: [`${lab.path('sdk')}:/opt/sdk`] } }) }, async lab => {
    fs.mkdirSync(lab.path('sdk'), { recursive: true });
    fs.writeFileSync(lab.path('sdk', 'tool.txt'), 'from the machine\n');
    const { view } = await start(lab, ['cat /opt/sdk/tool.txt; touch /opt/sdk/x 2>/dev/null || echo read-only']);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    assert.match(view.result.output, /from the machine\nread-only/);
}));

test('a cache is shared to read, and what a session adds stays its own', { timeout: 300000 }, () => withLab({ ...shell,
    config: lab => ({ sandbox: { caches: [`npm=${lab.path('npm')}`, 'npm'] } }) }, async lab => {
    fs.mkdirSync(lab.path('npm', '_cacache'), { recursive: true, mode: 0o755 });
    fs.chmodSync(lab.path('npm'), 0o755);
    fs.writeFileSync(lab.path('npm', '_cacache', 'package'), 'clean\n', { mode: 0o644 });
    const first = await start(lab, ['cat "$npm_config_cache/_cacache/package"; echo poison > "$npm_config_cache/_cacache/package"; ' +
        'echo new > "$npm_config_cache/added"; cat "$npm_config_cache/_cacache/package" "$npm_config_cache/added"']);
    assert.equal(first.view.status, 'completed', JSON.stringify(first.view));
    assert.match(first.view.result.output, /^clean\n(poison\nnew|.*denied.*)/);
    assert.equal(fs.readFileSync(lab.path('npm', '_cacache', 'package'), 'utf8'), 'clean\n');
    assert.deepEqual(fs.readdirSync(lab.path('npm')), ['_cacache']);
    const second = await start(lab, ['cat "$npm_config_cache/_cacache/package"; test ! -e "$npm_config_cache/added" && echo apart']);
    assert.match(second.view.result.output, /^clean\napart/);
    const third = await start(lab, ['--session', first.sessionId, 'cat "$npm_config_cache/added"']);
    assert.match(third.view.result.output, /^new/);
    assert.equal((await lab.ctl(['rm', first.sessionId])).code, 0);
    assert.ok(!fs.existsSync(lab.path('state', 'sessions', first.sessionId)), 'the session is gone with its caches');
}));

test('a cache folder that is not there is said to be', { timeout: 300000 }, () => withLab({ ...shell,
    config: lab => ({ sandbox: { caches: [`npm=${lab.path('nowhere')}`] } }) }, async lab => {
    const { view } = await start(lab, ['true']);
    assert.deepEqual([view.status, view.result.error.code, view.result.error.phase], ['failed', 'sandbox_failed', 'sandbox']);
    assert.match(view.result.error.message, /the cache folder .*nowhere is not there; make it, or take npm out of sandbox\.caches/);
    assert.doesNotMatch(view.result.error.hint, /agent/);
}));
