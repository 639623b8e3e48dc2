// The audit as it happens: sandboxctl audit --follow tells each decision of the proxy when it is made, ends with its run, and costs a
// supervisor nothing while nothing is decided.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { checkAsleep, finalStates, statusNumber, waitFor, withLab } from './lab.mjs';

const bare = { model: false, agent: false };

// What a follower has printed so far, line by line.
function follow(lab, ...args) {
    const child = spawn(lab.program('sandboxctl'), ['audit', ...args, '--follow'], { env: lab.env(), cwd: lab.path('work'), ...lab.identity });
    const follower = { child, text: '', stderr: '', exited: once(child, 'exit') };
    child.stdout.setEncoding('utf8').on('data', text => { follower.text += text; });
    child.stderr.setEncoding('utf8').on('data', text => { follower.stderr += text; });
    follower.lines = () => follower.text.split('\n').slice(0, -1);
    return follower;
}

// A run that asks for a path of its own whenever it is told to, and ends when it is.
async function asker(lab) {
    const { runId } = await lab.startScript(`while [ ! -e end ]; do for one in ask-*; do
        [ -e "$one" ] && { curl -s -o /dev/null "http://refused.invalid/$one"; rm "$one"; }; done; sleep 0.05; done`);
    await waitFor('the run is at work', async () => (await lab.exec(runId, ['true'])).code === 0);
    return { runId, ask: async name => assert.equal((await lab.exec(runId, ['touch', `ask-${name}`])).code, 0),
        end: async () => assert.equal((await lab.exec(runId, ['touch', 'end'])).code, 0) };
}

test('decisions are told as they are made', { timeout: 300000 }, () => withLab(bare, async lab => {
    const one = await asker(lab);
    await one.ask('before');
    await waitFor('the first is on record', async () => JSON.stringify(await lab.ctlJson(['audit'])).includes('ask-before'));
    const all = follow(lab, '--json');
    const people = follow(lab, one.runId);
    await waitFor('what was before is told', () => all.text.includes('ask-before') && people.text.includes('ask-before'));
    await one.ask('while');
    await waitFor('what comes is told', () => all.text.includes('ask-while') && people.text.includes('ask-while'));

    const records = all.lines().map(line => JSON.parse(line));
    assert.deepEqual(records.map(record => record.number), records.map((_, index) => records[0].number + index), 'in order, none twice');
    assert.ok(records.every(record => record.runId === one.runId && record.verdict === 'deny'), all.text);
    assert.match(people.lines().at(-1), new RegExp(`${one.runId} +deny .*refused\\.invalid/ask-while`));

    await one.end();
    await lab.ended(one.runId);
    const [code] = await people.exited;
    assert.equal(code, 0, `a run's follower ends with it: ${people.stderr}`);

    // Ctrl-C leaves.
    all.child.kill('SIGINT');
    const [, signal] = await all.exited;
    assert.equal(signal, 'SIGINT');
    assert.equal(all.child.stderr.read(), null);
    await waitFor('its connection is gone', async () => (await lab.ctlJson(['status'])).connections === 1);
}));

test('a run that has ended is told as a whole', { timeout: 300000 }, () => withLab(bare, async lab => {
    const one = await asker(lab);
    for (let number = 0; number < 15; number++)
        await one.ask(`n${number}`);
    await waitFor('all are on record', async () => (await lab.ctlJson(['audit'])).records.length >= 15);
    await one.end();
    await lab.ended(one.runId);
    for (const [args, count] of [[['--json'], 10], [['--json', '--limit', '3'], 3], [['--json', '-n', '100'], 15]]) {
        const told = follow(lab, one.runId, ...args);
        assert.equal((await told.exited)[0], 0, told.stderr);
        assert.equal(told.lines().length, count, told.text);
    }
    assert.equal((await lab.ctl(['audit', '-f', '--before', '3'])).code, 2);
    assert.equal((await lab.ctl(['audit', '-f', `run_${'0'.repeat(26)}`])).code, 4);
}));

test('a follower costs nothing while nothing is decided', { timeout: 300000 }, () => withLab({ ...bare, bin: 'release' }, async lab => {
    const all = follow(lab);
    await waitFor('it is connected', async () => (await lab.ctlJson(['status'])).connections === 2);
    await checkAsleep(await lab.supervisorPid(), 3);
    all.child.kill('SIGINT');
    await all.exited;
}));

// Frames of the socket: four bytes of length, a kind, JSON.
const frame = body => {
    const text = Buffer.from(`J${JSON.stringify(body)}`);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(text.length);
    return Buffer.concat([head, text]);
};

test('a follower that does not read makes the supervisor no larger', { timeout: 600000 }, () => withLab({ ...bare, bin: 'release' }, async lab => {
    const socket = net.connect(lab.socket);
    await once(socket, 'connect');
    socket.pause();
    socket.write(Buffer.concat([frame({ id: 1, method: 'hello', params: { protocol: 1, role: 'test' } }),
        frame({ id: 2, method: 'audit.list', params: { follow: true } })]));
    const pid = await lab.supervisorPid();
    const before = statusNumber(pid, 'RssAnon');
    const long = 'x'.repeat(1500);
    const { runId } = await lab.startScript(`n=0; while [ $n -lt 40 ]; do n=$((n+1)); for one in 1 2 3 4 5; do
        echo "url = http://refused.invalid/$n-$one-[1-20]-${long}"; echo "output = /dev/null"; done >urls; curl -s -K urls; done; true`);
    const view = await lab.ended(runId, 300000);
    assert.ok(finalStates.includes(view.status));
    const [last] = (await lab.ctlJson(['audit', '--limit', '1'])).records;
    const newest = last.number;
    assert.ok(newest >= 4000, `${newest} records`);
    // What may wait for a client is 256 KiB; the rest is what curl's requests cost.
    const grown = statusNumber(pid, 'RssAnon') - before;
    console.log(`${newest} records of ${JSON.stringify(last).length} bytes: ${grown} kB more`);
    assert.ok(grown < newest * JSON.stringify(last).length / 1024 / 2, `${grown} kB more`);
    let count = 0;
    let rest = Buffer.alloc(0);
    socket.on('data', part => {
        rest = Buffer.concat([rest, part]);
        while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE()) {
            const message = JSON.parse(rest.subarray(5, 4 + rest.readUInt32BE()));
            if (message.event)
                assert.equal(message.event.number, ++count, 'in order, without a gap');
            rest = rest.subarray(4 + rest.readUInt32BE());
        }
    });
    socket.resume();
    await waitFor('all is told in the end', () => count === newest, 60000);
    socket.destroy();
}));
