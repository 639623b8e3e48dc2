// Sessions as a person keeps them: checkpoints, copies, the way back, names and disk use. What is kept is compared file by file.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { must, waitFor, withLab } from './lab.mjs';
import { checkNothingLeft, killNow, restart } from './living.mjs';

const shell = { model: false, agent: false };

const home = (lab, sessionId) => path.join(lab.state, 'sessions', sessionId, 'home');
const workspace = (lab, sessionId) => path.join(lab.state, 'sessions', sessionId, 'workspace');
const look = (lab, sessionId) => lab.ctlJson(['session', 'get', sessionId]);
const session = (lab, ...args) => lab.ctl(['session', ...args]);

async function ok(lab, ...args) {
    const result = await session(lab, ...args);
    assert.equal(result.code, 0, `session ${args.join(' ')}: ${result.stderr}`);
    return result.stdout.trim();
}

async function work(lab, script, options) {
    const { runId, sessionId } = await lab.startScript(script, options);
    const view = await lab.ended(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    return { runId, sessionId, output: view.result.output.trim() };
}

// Every name below FOLDER with what it is and holds.
export function picture(folder) {
    const found = {};
    const walk = at => {
        for (const entry of fs.readdirSync(path.join(folder, at), { withFileTypes: true })) {
            const name = path.join(at, entry.name);
            const file = path.join(folder, name);
            const mode = (fs.lstatSync(file).mode & 0o777).toString(8);
            if (entry.isDirectory()) {
                found[name] = `folder ${mode}`;
                walk(name);
            } else if (entry.isSymbolicLink()) {
                found[name] = `link ${fs.readlinkSync(file)}`;
            } else {
                found[name] = entry.isFile() ? `file ${mode} ${crypto.createHash('sha1').update(fs.readFileSync(file)).digest('base64')}` : 'special';
            }
        }
    };
    walk('');
    return found;
}

// The supervisor's own look at a run's work adds objects to a repository, maybe after the checkpoint was made.
function same(folder, expected, but = /.git\/objects\//) {
    const actual = picture(folder);
    const names = [...new Set([...Object.keys(actual), ...Object.keys(expected)])].filter(name => !but.test(name));
    assert.deepEqual(names.filter(name => actual[name] !== expected[name]).map(name => [name, actual[name], expected[name]]), []);
}

const everything = `
    git config user.name t; git config user.email t@t.invalid
    echo committed > one.txt; git add one.txt; git commit -qm one
    echo staged > two.txt; git add two.txt
    echo loose > three.txt; echo changed >> whose.txt
    printf 'ignored/\\n*.log\\n' > .gitignore; mkdir ignored; echo i > ignored/i; echo l > a.log; echo kept > kept.log; git add -f kept.log
    mkdir -p deep/er; ln -s ../nowhere deep/link; mkfifo pipe; echo x > "$(printf 'a\\nb')"; printf y > -rf; chmod 500 deep/er
    echo of the home > ~/note`;

async function repository(lab, name = 'app') {
    const folder = path.join(lab.repositories, name);
    fs.mkdirSync(folder);
    const git = (...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', ...args]);
    await git('init', '-q', '-b', 'main');
    fs.writeFileSync(path.join(folder, 'whose.txt'), 'ours\n');
    await git('add', '-A');
    await git('commit', '-qm', 'first');
    lab.give(folder);
    return folder;
}

test('a session is kept at each turn, taken back and forked', { timeout: 120000 }, () => withLab(shell, async lab => {
    const { sessionId } = await work(lab, everything, { repository: await repository(lab) });
    const after = picture(workspace(lab, sessionId));
    let view = await look(lab, sessionId);
    assert.deepEqual(view.checkpoints.map(each => [each.checkpoint, each.reason]), [[1, 'start'], [2, 'turn']]);
    assert.equal(view.state, 'idle');
    assert.ok(view.fileBytes > 0 && view.checkpointBytes > 0, JSON.stringify(view));

    const index = path.join(workspace(lab, sessionId), 'app/.git/index');
    const before = fs.statSync(index, { bigint: true }).mtimeNs;
    const second = await work(lab, 'rm three.txt; rm -rf deep; echo file > deep; git reset -q --hard; rm -rf .git/refs; echo more > ignored/more; echo 2 > ~/note', { sessionId });
    assert.equal(second.sessionId, sessionId);
    const wrecked = picture(workspace(lab, sessionId));
    assert.notEqual(fs.statSync(index, { bigint: true }).mtimeNs, before);

    // Ignored files are in no checkpoint: they stay what they are.
    const expected = { ...after, 'app/ignored/more': wrecked['app/ignored/more'] };
    assert.match(await ok(lab, 'restore', sessionId, '2'), /^restored; what was there before is its newest checkpoint/);
    same(workspace(lab, sessionId), expected);
    await must('git', ['-c', 'safe.directory=*', '-C', path.join(workspace(lab, sessionId), 'app'), 'fsck', '--full']);
    assert.equal(fs.readFileSync(path.join(home(lab, sessionId), 'note'), 'utf8'), 'of the home\n');
    view = await look(lab, sessionId);
    // One of what was there before, unless nothing had changed since the last one.
    assert.deepEqual(view.checkpoints.slice(0, 3).map(each => each.reason), ['start', 'turn', 'turn']);

    // What was undone can be had again, and the first one has nothing of the agent.
    await ok(lab, 'restore', sessionId, '3');
    same(workspace(lab, sessionId), wrecked);
    await ok(lab, 'restore', sessionId, '1');
    assert.deepEqual(Object.keys(picture(workspace(lab, sessionId))).filter(name => !name.startsWith('app/.git/') && !name.startsWith('app/ignored')),
        ['app', 'app/.git', 'app/a.log', 'app/whose.txt']);

    const fork = await ok(lab, 'fork', sessionId, '-c', '2', '--title', 'another try');
    const plain = Object.fromEntries(Object.entries(after).filter(([name]) => !/^app\/(ignored|a\.log)/.test(name)));
    // All but the branch that it is on.
    same(workspace(lab, fork), plain, /.git\/(objects\/|HEAD$|refs\/heads\/agent\/|logs\/)/);
    assert.equal(fs.readFileSync(path.join(workspace(lab, fork), 'app/.git/HEAD'), 'utf8'), `ref: refs/heads/agent/another-try-${fork.slice(-6)}\n`);
    assert.equal((await work(lab, 'git status --short; git log --format=%s; cat ~/note', { sessionId: fork })).output,
        'A  kept.log\nA  two.txt\n M whose.txt\n?? -rf\n?? .gitignore\n?? "a\\nb"\n?? deep/\n?? three.txt\none\nfirst\nof the home');
    view = await look(lab, fork);
    assert.equal(view.title, 'another try');
    assert.equal(view.forkedFrom, sessionId);
    assert.equal(view.forkedCheckpoint, 2);
    // The two have nothing in common any more.
    await ok(lab, 'rm', sessionId);
    assert.equal((await work(lab, 'cat two.txt', { sessionId: fork })).output, 'staged');
    assert.ok(!fs.existsSync(path.join(lab.state, 'checkpoints', sessionId)));
    await checkNothingLeft(lab);
}));

test('names, holds, and what is refused', { timeout: 120000 }, () => withLab(shell, async lab => {
    const { sessionId } = await work(lab, 'echo 1 > one', { repository: await repository(lab) });
    await ok(lab, 'rename', sessionId, 'a better name');
    await ok(lab, 'hold', sessionId);
    let view = await look(lab, sessionId);
    assert.equal(view.title, 'a better name');
    assert.equal(view.held, true);
    assert.match((await session(lab, 'get', sessionId)).stdout, /a better name[^]*on hold +yes[^]*CHECKPOINT/);
    const kept = await lab.ctl(['rm', sessionId]);
    assert.equal(kept.code, 5);
    assert.match(kept.stderr, /is on hold; release it first/);
    await ok(lab, 'release', sessionId);
    assert.equal((await look(lab, sessionId)).held, false);
    for (const [args, code, words] of [
        [['restore', sessionId, '99'], 4, /no checkpoint 99/], [['fork', sessionId, '-c', '99'], 4, /no checkpoint 99/],
        [['get', 'ses_00000000000000000000000000'], 4, /no session/], [['rename', sessionId, '  '], 2, /TITLE/], [['restore', sessionId], 2, /usage/],
        [['restore', sessionId, 'x'], 2, /number/], [['nonsense', sessionId], 2, /no "nonsense"/], [['hold', sessionId, 'more'], 2, /usage/]]) {
        const result = await session(lab, ...args);
        assert.equal(result.code, code, `${args}: ${result.stderr}`);
        assert.match(result.stderr, words);
    }

    // While a run works its files can be copied, but not taken back.
    const live = await lab.startScript('echo 2 > two; mkfifo /tmp/gate; read line < /tmp/gate; echo 3 > three', { sessionId });
    await waitFor('it works', async () => (await lab.exec(live.runId, ['test', '-p', '/tmp/gate'])).code === 0);
    const refused = await session(lab, 'restore', sessionId, '1');
    assert.equal(refused.code, 5);
    assert.match(refused.stderr, /has a run that hasn't ended/);
    await ok(lab, 'rename', sessionId, 'named meanwhile');
    const fork = await ok(lab, 'fork', sessionId);
    assert.equal(fs.readFileSync(path.join(workspace(lab, fork), 'app/two'), 'utf8'), '2\n');
    await lab.exec(live.runId, ['sh', '-c', 'echo go > /tmp/gate']);
    assert.equal((await lab.ended(live.runId)).status, 'completed');
    view = await look(lab, sessionId);
    assert.equal(view.title, 'named meanwhile', 'the run has not written its old copy over it');
    assert.deepEqual(view.checkpoints.map(each => each.reason), ['start', 'turn', 'asked', 'turn']);
    assert.ok(!fs.existsSync(path.join(workspace(lab, fork), 'app/three')));
}));

test('work is kept now and then, and old chains go', { timeout: 120000 }, () => withLab({ ...shell,
    config: () => ({ checkpoints: { seconds: 1, maxMiB: 8, count: 3 } }) }, async lab => {
    const hostile = `git config core.fsmonitor 'touch /tmp/ran'; git config filter.f.clean 'touch /tmp/ran; cat'; echo '* filter=f' > .gitattributes
        mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch ~/ran' > .git/hooks/post-index-change; chmod +x .git/hooks/*
        head -c 700000 /dev/urandom > random; ls -l --time-style=full-iso .git/index .git/HEAD > ~/before`;
    const live = await lab.startScript(`${hostile}; echo first; mkfifo /tmp/gate; read line < /tmp/gate; echo second; read line < /tmp/gate
        ls -l --time-style=full-iso .git/index .git/HEAD | diff - ~/before && test ! -e ~/ran && test ! -e /tmp/ran && echo untouched`,
    { repository: await repository(lab) });
    await waitFor('it works', async () => (await lab.exec(live.runId, ['test', '-p', '/tmp/gate'])).code === 0);
    const { sessionId } = live;
    const count = async () => (await look(lab, sessionId)).checkpoints.filter(each => each.reason === 'interval').length;
    await waitFor('a first one by the clock', async () => await count() === 1);
    await lab.exec(live.runId, ['sh', '-c', 'head -c 700000 /dev/urandom > random2; echo go > /tmp/gate']);
    await waitFor('another, since something happened', async () => await count() >= 2);
    await lab.exec(live.runId, ['sh', '-c', 'echo go > /tmp/gate']);
    const view = await lab.ended(live.runId);
    assert.equal(view.result.output.trim().split('\n').at(-1), 'untouched', JSON.stringify(view));

    for (let turn = 0; turn < 3; turn++)
        await work(lab, 'head -c 600000 /dev/urandom > random', { sessionId });
    const { checkpoints } = await look(lab, sessionId);
    assert.ok(checkpoints.length <= 4, JSON.stringify(checkpoints));
    assert.ok(checkpoints.reduce((sum, each) => sum + each.bytes, 0) <= 9 << 20, JSON.stringify(checkpoints));
    const before = picture(workspace(lab, sessionId));
    const kept = checkpoints.at(-1).checkpoint;
    await work(lab, 'rm -rf * .git', { sessionId });
    await ok(lab, 'restore', sessionId, String(kept));
    same(workspace(lab, sessionId), before);
    // The folders hold no more than the list says, but for what the next one removes.
    const folders = fs.readdirSync(path.join(lab.state, 'checkpoints', sessionId));
    assert.ok(folders.every(name => /^\d+$/.test(name)), folders.join(' '));
    // Too large for any: the run ends all the same, and says so.
    const large = await work(lab, 'head -c 9000000 /dev/urandom > large', { sessionId });
    const { events } = await lab.ctlJson(['logs', large.runId, '-n', '1000']);
    assert.ok(events.some(event => /no checkpoint.*checkpoints.maxMiB/.test(event.text)), JSON.stringify(events));
}));

test('retention removes what its dry run says, and nothing else', { timeout: 120000 }, () => withLab(shell, async lab => {
    const repositoryFolder = await repository(lab);
    const ids = [];
    for (let number = 0; number < 4; number++)
        ids.push((await work(lab, `head -c ${number === 1 ? 3000000 : 100000} /dev/urandom > data`, { repository: repositoryFolder })).sessionId);
    const [held, large, old, newest] = ids;
    await ok(lab, 'hold', held);
    // What is no session of ours, beside them.
    const foreign = [path.join(lab.state, 'sessions', 'notes'), path.join(lab.state, 'sessions', 'ses_00000000000000000000000000'), path.join(lab.state, 'elsewhere')];
    for (const folder of foreign) {
        fs.mkdirSync(folder);
        fs.writeFileSync(path.join(folder, 'precious'), 'x');
    }
    const retention = (...args) => lab.ctlJson(['retention', ...args]);
    assert.deepEqual((await retention()).sessions, [], 'nothing goes unless it is configured');

    // A busy one counts, but stays, though it was used longest ago.
    lab.writeConfig({ retention: { maxDiskMiB: 4 } });
    const live = await lab.startScript('mkfifo /tmp/gate; read line < /tmp/gate', { sessionId: old });
    await waitFor('it works', async () => (await lab.exec(live.runId, ['test', '-p', '/tmp/gate'])).code === 0);
    await killNow(await lab.supervisorPid());
    await restart(lab);
    await waitFor('the run is taken up again', async () => (await lab.exec(live.runId, ['true'])).code === 0);
    const dry = await retention('--dry-run');
    assert.deepEqual(dry.sessions.map(each => [each.sessionId, each.reason, each.removed]), [[large, 'disk', false]]);
    assert.deepEqual((await lab.ctlJson(['sessions'])).sessions.map(each => each.sessionId).sort(), [...ids].sort(), 'a dry run changes nothing');
    assert.match((await lab.ctl(['retention', '--dry-run'])).stdout, new RegExp(`${large}.*disk +would go`));
    const real = await retention();
    assert.deepEqual(real.sessions, dry.sessions.map(each => ({ ...each, removed: true })));
    assert.deepEqual((await lab.ctlJson(['sessions'])).sessions.map(each => each.sessionId).sort(), [held, old, newest].sort());
    assert.ok(!fs.existsSync(path.join(lab.state, 'sessions', large)) && !fs.existsSync(path.join(lab.state, 'checkpoints', large)));
    for (const folder of foreign)
        assert.equal(fs.readFileSync(path.join(folder, 'precious'), 'utf8'), 'x');
    await lab.exec(live.runId, ['sh', '-c', 'echo go > /tmp/gate']);
    assert.equal((await lab.ended(live.runId)).status, 'completed');
}));
