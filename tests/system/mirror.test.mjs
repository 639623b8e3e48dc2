// A large repository is fetched once, and copied from then on: by who may read it, of what is there now, and of nothing that a session
// has put there.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bare, commit } from './awkward-repositories.mjs';
import { Forge } from './forge.mjs';
import { killHard, must, waitFor, withLab } from './lab.mjs';
import { initsOf, killNow, restart } from './living.mjs';

const main = 'refs/heads/main';
const address = 'https://github.com/owner/large';

function* history() {
    for (let number = 0; number < 8; number++)
        yield* commit(main, { [`data-${number}`]: crypto.randomBytes(512 << 10), README: `${number}\n` });
}

async function withLarge(body) {
    await withLab({ model: false, agent: false, supervisor: false }, async lab => {
        const forge = new Forge(lab.path('forge'), lab.secret);
        fs.mkdirSync(forge.root);
        await forge.start();
        try {
            lab.writeConfig({ services: { github: { target: `http://127.0.0.1:${forge.port}` } }, workspace: { mirrorMiB: 2 } });
            const folder = await bare(path.join(forge.root, 'owner', 'large.git'), history());
            await lab.startSupervisor();
            await lab.setSecret();
            await lab.setSecret(lab.secret, 'GITHUB_TOKEN');
            await body(lab, forge, folder);
        } finally {
            await forge.stop();
        }
    });
}

async function work(lab, script, options = {}) {
    const { runId, sessionId } = await lab.startScript(script, { repository: address, ...options });
    const view = await lab.ended(runId);
    const { records } = await lab.ctlJson(['call', 'audit.list', JSON.stringify({ runId, limit: 500 })]);
    return { view, runId, sessionId, output: view.result?.output?.trim(), fetched: records.reduce((sum, one) => sum + one.responseBytes, 0) };
}

const mirrorsOf = lab => {
    const folder = path.join(lab.state, 'mirrors');
    return fs.existsSync(folder) ? fs.readdirSync(folder).map(name => path.join(folder, name)) : [];
};
const whole = lab => waitFor('the mirror is whole', () => mirrorsOf(lab).some(folder => fs.existsSync(path.join(folder, 'whole'))), 60000);
const settled = lab => waitFor('its sandbox is gone', () => !fs.readdirSync(path.join(lab.state, 'run', 'sandboxes')).some(name => name.startsWith('mirror-')), 60000);
const look = 'cat README; git log --format=%H | wc -l; git fsck --no-dangling 2>&1 | grep -v notice; git status --short';

test('the second session copies what the first one fetched, and fetches what is new', { timeout: 300000 }, () => withLarge(async (lab, forge, folder) => {
    const first = await work(lab, look);
    assert.equal(first.output, '7\n8', JSON.stringify(first.view));
    assert.ok(first.fetched > 4 << 20, `${first.fetched}`);
    await whole(lab);
    await settled(lab);
    await bare(folder, commit(main, { README: 'new\n' }, { parent: `${main}^0` }));
    const second = await work(lab, look);
    assert.equal(second.output, 'new\n9', JSON.stringify(second.view));
    assert.ok(second.fetched < 64 << 10, `${second.fetched} bytes were fetched again`);
    assert.equal(second.view.evidence.warnings, undefined);

    // Nobody reads from it whom the server doesn't let.
    forge.password = 'another';
    const third = await work(lab, look);
    assert.equal(third.view.result.error.code, 'clone_failed', JSON.stringify(third.view));
}));

test('no session changes what another one copies', { timeout: 300000 }, () => withLarge(async lab => {
    await work(lab, 'true');
    await whole(lab);
    await settled(lab);
    const files = () => [...lab.files(path.join(lab.state, 'mirrors'))].map(file => `${file} ${crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex')}`);
    const before = files();
    assert.ok(before.length > 3);
    const bad = await work(lab, `m=/mnt/mirror; ls $m/r.git >/dev/null && echo there
        for file in $m/r.git/packed-refs $m/r.git/objects/pack/*; do echo bad >"$file"; rm -f "$file"; chmod 777 "$file"; mv "$file" /tmp/; ln -f "$file" mine; done 2>/dev/null
        touch $m/new $m/r.git/objects/pack/new.idx 2>/dev/null; git --git-dir=$m/r.git update-ref refs/remotes/origin/main HEAD~1 2>/dev/null
        mount -o remount,rw $m 2>/dev/null; for file in .git/objects/pack/*; do chmod 644 "$file"; echo bad >"$file"; done; true`);
    assert.equal(bad.output, 'there', JSON.stringify(bad.view));
    assert.deepEqual(files(), before);
    assert.equal((await work(lab, look)).output, '7\n8');
    // A session that has its repository sees no mirror any more.
    assert.equal((await work(lab, 'test -e /mnt/mirror || echo none', { sessionId: bad.sessionId, repository: undefined })).output ?? 'none', 'none');
}));

test('a mirror that is not known to be whole does not count, and one that is broken costs nothing', { timeout: 300000 }, () => withLarge(async lab => {
    const first = await lab.startScript('mkfifo /tmp/gate; read line </tmp/gate', { repository: address });
    await waitFor('it works', async () => (await lab.exec(first.runId, ['test', '-p', '/tmp/gate'])).code === 0);
    await killNow(await lab.supervisorPid());
    for (const mirror of mirrorsOf(lab))
        fs.rmSync(path.join(mirror, 'whole'), { force: true });
    await restart(lab);
    await waitFor('the run is taken up', async () => (await lab.exec(first.runId, ['sh', '-c', 'echo go >/tmp/gate'])).code === 0, 30000, 200);
    await lab.ended(first.runId);
    // What is there is not taken, and made anew.
    const second = await work(lab, look);
    assert.equal(second.output, '7\n8', JSON.stringify(second.view));
    assert.ok(second.fetched > 4 << 20);
    await whole(lab);
    await settled(lab);
    const packs = path.join(mirrorsOf(lab)[0], 'repository', 'r.git', 'objects', 'pack');
    for (const name of fs.readdirSync(packs).filter(each => each.endsWith('.pack')))
        fs.rmSync(path.join(packs, name));
    const after = await work(lab, look);
    assert.equal(after.output, '7\n8', JSON.stringify(after.view));
    assert.ok(after.fetched > 4 << 20);
}));

// The server keeps the request waiting that would bring the mirror its first objects.
test('a mirror that dies while it is made does not count, whoever died', { timeout: 300000 }, t => withLarge(async (lab, forge) => {
    const mirrorInits = () => initsOf(lab).filter(({ pid }) => fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8').includes(' /mirror '));
    const objects = () => [...lab.files(path.join(lab.state, 'mirrors'))].filter(file => file.endsWith('.pack'));
    for (const victim of ['supervisor', 'sandbox'])
        await t.test(victim, async () => {
            let release;
            let held = false;
            const gate = new Promise(resolve => { release = resolve; });
            forge.before = request => {
                if (held || request.method !== 'POST' || mirrorInits().length === 0)
                    return undefined;
                held = true;
                return gate;
            };
            await work(lab, 'true');
            await waitFor('the server keeps the mirror waiting', () => held, 60000);
            if (victim === 'supervisor')
                await killNow(await lab.supervisorPid());
            else
                killHard(mirrorInits()[0].pid);
            forge.before = () => {};
            release();
            if (victim === 'supervisor')
                await restart(lab);
            await settled(lab);
            assert.deepEqual(mirrorsOf(lab).filter(folder => fs.existsSync(path.join(folder, 'whole'))), []);
            const next = await work(lab, look);
            assert.equal(next.output, '7\n8', JSON.stringify(next.view));
            assert.ok(next.fetched > 4 << 20, 'nothing of the half one was copied');
            await whole(lab);
            await settled(lab);
            assert.ok(objects().length > 0);
            const copied = await work(lab, look);
            assert.equal(copied.output, '7\n8', JSON.stringify(copied.view));
            assert.ok(copied.fetched < 64 << 10, `${copied.fetched}`);
            fs.rmSync(path.join(lab.state, 'mirrors'), { recursive: true });
        });
}));

const old = (folder, days) => {
    const then = Date.now() / 1000 - days * 86400;
    fs.utimesSync(path.join(folder, 'whole'), then, then);
};

test('what came in many pieces becomes one, and what nobody needs goes', { timeout: 300000 }, () => withLarge(async (lab, forge, folder) => {
    await work(lab, 'true');
    await whole(lab);
    await settled(lab);
    const [mirror] = mirrorsOf(lab);
    const r = path.join(mirror, 'repository/r.git');
    const packs = () => fs.readdirSync(path.join(r, 'objects/pack')).filter(name => name.endsWith('.pack'));
    const owner = fs.statSync(r);
    for (let number = 0; number < 20; number++)
        await must('sh', ['-c', `cd "$0" && echo ${number} | git -c safe.directory='*' hash-object -w --stdin | git -c safe.directory='*' pack-objects -q objects/pack/pack`, r]);
    await must('find', [r, '-exec', 'chown', `${owner.uid}:${owner.gid}`, '{}', '+']);
    assert.ok(packs().length > 20);
    await bare(folder, commit(main, { README: 'new\n' }, { parent: `${main}^0` }));
    old(mirror, 2);
    await work(lab, 'true');
    await waitFor('it is up to date', () => Date.now() - fs.statSync(path.join(mirror, 'whole')).mtimeMs < 86400000, 60000);
    await settled(lab);
    assert.ok(packs().length <= 2, packs().join(' '));
    const copied = await work(lab, look);
    assert.equal(copied.output, 'new\n9', JSON.stringify(copied.view));
    assert.ok(copied.fetched < 64 << 10, `${copied.fetched}`);

    // By age: not while somebody is about to copy it. What is not ours stays.
    const foreign = path.join(lab.state, 'mirrors', 'notes');
    fs.mkdirSync(foreign);
    const retention = (...args) => lab.ctlJson(['retention', ...args]);
    assert.deepEqual((await retention('--dry-run')).mirrors, []);
    old(mirror, 40);
    let release;
    const gate = new Promise(resolve => { release = resolve; });
    let held = false;
    forge.before = () => { held = true; return gate; };
    const { runId } = await lab.startScript('true', { repository: address });
    await waitFor('it asks the server', () => held, 60000);
    assert.deepEqual((await retention('--dry-run')).mirrors, []);
    assert.deepEqual((await retention()).mirrors, []);
    // The clone brings an old one up to date, so that one counts as used.
    forge.before = () => {};
    release();
    assert.equal((await lab.ended(runId)).status, 'completed');
    await waitFor('it is up to date', () => Date.now() - fs.statSync(path.join(mirror, 'whole')).mtimeMs < 86400000, 60000);
    await settled(lab);
    assert.deepEqual((await retention()).mirrors, []);
    old(mirror, 40);
    const dry = await retention('--dry-run');
    assert.deepEqual(dry.mirrors.map(each => [each.repository, each.reason, each.removed]), [[address, 'age', false]]);
    assert.deepEqual(dry.sessions, []);
    assert.ok(dry.mirrors[0].bytes > 4 << 20);
    assert.match((await lab.ctl(['retention', '--dry-run'])).stdout, /\(mirror\).*age +would go +https:\/\/github\.com\/owner\/large/);
    assert.ok(fs.existsSync(path.join(mirror, 'whole')));
    assert.deepEqual((await retention()).mirrors, dry.mirrors.map(each => ({ ...each, removed: true })));
    assert.ok(!fs.existsSync(mirror) && fs.existsSync(foreign));
    assert.equal((await work(lab, look)).output, 'new\n9');
    await whole(lab);
    await settled(lab);

    // By disk: before any session.
    lab.writeConfig({ services: { github: { target: forge.origin } }, workspace: { mirrorMiB: 2 }, retention: { maxDiskMiB: 1 } });
    await killNow(await lab.supervisorPid());
    await restart(lab);
    const disk = await retention('--dry-run');
    assert.deepEqual(disk.mirrors.map(each => [each.repository, each.reason]), [[address, 'disk']]);
    fs.rmSync(path.join(mirrorsOf(lab).find(each => each !== foreign), 'whole'));
    assert.deepEqual((await retention()).mirrors.map(each => [each.repository, each.removed]), [[undefined, true]], 'one that is not whole as well');
    assert.deepEqual(mirrorsOf(lab), [foreign]);
}));
