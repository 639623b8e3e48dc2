// The supervisor or the sandbox dies in the midst of a clone: no half clone is ever taken for a whole one.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bare, commit } from './awkward-repositories.mjs';
import { Forge } from './forge.mjs';
import { killHard, must, waitFor, withLab } from './lab.mjs';
import { initsOf, killNow, restart } from './living.mjs';

const address = 'https://github.com/owner/project';
const look = 'git log --format=%s | tr "\\n" " "; cat README lib/lib.txt; wc -c <large; git status --short; git fsck 2>&1 | grep -v notice; git for-each-ref --format="%(refname)" refs/remotes; ls -A ..';
const whole = 'Two One two\nlibrary\n2097152\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/main\nrefs/remotes/origin/side\nproject';

// The requests of a clone, in their order; it dies while the server keeps the one waiting.
const moments = { 'it asks what there is': [1], 'it fetches what the work begins with': [4], 'it checks out what it has to fetch for it': [7],
    'it fetches the rest': [9], 'it asks for a submodule': [11, '/owner/lib'], 'it fetches a submodule': [12, '/owner/lib'] };

async function finish(lab, { runId }) {
    const view = await lab.ended(runId);
    return { view, output: view.result?.output?.trim() };
}

test('no half clone is taken for a whole one', { timeout: 600000 }, t => withLab({ model: false, agent: false, supervisor: false }, async lab => {
    const forge = new Forge(lab.path('forge'), lab.secret, ['owner/lib']);
    fs.mkdirSync(forge.root);
    await forge.start();
    try {
        lab.writeConfig({ services: { github: { target: `http://127.0.0.1:${forge.port}` } } });
        const lib = await bare(path.join(forge.root, 'owner', 'lib.git'), commit('refs/heads/main', { 'lib.txt': 'library\n' }));
        const module = (await must('git', ['-C', lib, 'rev-parse', 'main'])).trim();
        const modules = { '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n', lib: { module } };
        await bare(path.join(forge.root, 'owner', 'project.git'), [...commit('refs/heads/main', { README: 'one\n' }, { message: 'One' }),
            ...commit('refs/heads/main', { README: 'two\n', large: crypto.randomBytes(2 << 20), ...modules }, { message: 'Two' }), ...commit('refs/heads/side', { README: 'side\n' }, { parent: 'refs/heads/main' })]);
        await lab.startSupervisor();
        await lab.setSecret();
        await lab.setSecret(lab.secret, 'GITHUB_TOKEN');
        const undisturbed = await finish(lab, await lab.startScript(look, { repository: address }));
        assert.equal(undisturbed.output, whole, JSON.stringify(undisturbed.view));
        const count = forge.requests.length;
        assert.ok(count >= Math.max(...Object.values(moments).flat().filter(Number)), `a clone is ${count} requests`);

        for (const victim of ['supervisor', 'sandbox'])
            for (const [when, [number, place = '/owner/project']] of Object.entries(moments))
                await t.test(`the ${victim} dies while ${when}`, async () => {
                    let seen = 0;
                    let release;
                    const gate = new Promise(resolve => { release = resolve; });
                    let held = false;
                    forge.before = request => {
                        if (++seen !== number)
                            return undefined;
                        held = request.url.startsWith(place);
                        return gate;
                    };
                    const run = await lab.startScript(look, { repository: address });
                    await waitFor('the server keeps it waiting', () => held, 60000);
                    if (victim === 'supervisor') {
                        await killNow(await lab.supervisorPid());
                        forge.before = () => {};
                        release();
                        await restart(lab);
                        const { view, output } = await finish(lab, run);
                        assert.equal(output, whole, JSON.stringify(view));
                        return;
                    }
                    for (const init of initsOf(lab))
                        killHard(init.pid);
                    forge.before = () => {};
                    release();
                    const { view } = await finish(lab, run);
                    assert.equal(view.status, 'failed', JSON.stringify(view));
                    assert.equal(view.result.error.retryable, true);
                    const again = await finish(lab, await lab.startScript(look, { sessionId: run.sessionId }));
                    assert.equal(again.output, whole, JSON.stringify(again.view));
                });
    } finally {
        await forge.stop();
    }
}));
