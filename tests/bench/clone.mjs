// clone.mjs: the first clone of a repository with 200 MB of history from a git server behind the proxy, beside those of later sessions,
// which copy from the mirror. Prints JSON lines, and ends with 1 when a goal is missed.
//
// Environment (set by run.sh): SANDBOX_BIN, the folder of the programs. MEGABYTES, ROUNDS change the size.
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { bare, commit } from '../system/awkward-repositories.mjs';
import { Forge } from '../system/forge.mjs';
import { median, waitFor, withLab } from '../system/lab.mjs';

const megabytes = Number(process.env.MEGABYTES ?? 200);
const rounds = Number(process.env.ROUNDS ?? 5);
const branch = 'refs/heads/main';
const say = line => console.log(JSON.stringify(line));

function* history() {
    for (let number = 0; number < megabytes * 2; number++)
        yield* commit(branch, { [`data-${number % 20}`]: crypto.randomBytes(512 << 10), README: `${number}\n` });
}

async function clone(lab) {
    const { runId } = await lab.startScript('true', { repository: 'https://github.com/owner/large' });
    const view = await lab.ended(runId, 600000);
    if (view.status !== 'completed')
        throw new Error(JSON.stringify(view));
    const { events } = await lab.ctlJson(['logs', runId]);
    const at = phase => events.find(event => event.kind === 'state' && event.data?.phase === phase).time;
    return at('setup') - at('clone');
}

say({ machine: { cpu: os.cpus()[0].model, processors: os.cpus().length, kernel: os.release(), node: process.version,
    load: os.loadavg().map(one => Number(one.toFixed(2))) } });
let missed = 0;
await withLab({ model: false, agent: false, supervisor: false }, async lab => {
    const forge = new Forge(lab.path('forge'), lab.secret);
    fs.mkdirSync(forge.root);
    await forge.start();
    try {
        lab.writeConfig({ services: { github: { target: `http://127.0.0.1:${forge.port}` } } });
        await bare(path.join(forge.root, 'owner', 'large.git'), history());
        await lab.startSupervisor();
        await lab.setSecret();
        await lab.setSecret(lab.secret, 'GITHUB_TOKEN');
        const first = await clone(lab);
        const folder = path.join(lab.state, 'mirrors');
        await waitFor('the mirror is whole', () => fs.existsSync(folder) && fs.readdirSync(folder).some(name => fs.existsSync(path.join(folder, name, 'whole'))), 600000);
        const later = [];
        for (let round = 0; round < rounds; round++)
            later.push(await clone(lab));
        const ratio = first / median(later);
        say({ megabytes, firstMs: first, laterMs: later });
        missed += ratio >= 5 ? 0 : 1;
        say({ goal: 'cloning again is five times faster', value: Math.round(ratio * 100) / 100, limit: 5, met: ratio >= 5 });
    } finally {
        await forge.stop();
    }
});
process.exit(missed ? 1 : 0);
