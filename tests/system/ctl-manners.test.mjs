// sandboxctl's manners: what it says when something is missing or misnamed, and that it keeps nothing back in silence.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withLab } from './lab.mjs';

const bare = { model: false, agent: false };

test('what is missing or not known is named, also in JSON', { timeout: 120000 }, () => withLab({ ...bare, supervisor: false }, async lab => {
    const cases = [
        [['run'], /^sandboxctl: TASK\|- is missing\nusage: sandboxctl run \[OPTIONS\] TASK/],
        [['export', 'last'], /FILE\|DIR\/\|- is missing/],
        [['session', 'get'], /SESSION is missing\nusage: sandboxctl session \[OPTIONS\] get SESSION\n$/],
        [['secret', 'set'], /NAME is missing/],
        [['list', 'x'], /usage: sandboxctl list \[OPTIONS\]\n$/],
        [['list', '-nx'], /--limit wants a number/],
        [['nonsense'], /no command nonsense; sandboxctl --help/],
    ];
    for (const [args, says] of cases) {
        const { code, stderr } = await lab.ctl(args);
        assert.equal(code, 2, args.join(' '));
        assert.match(stderr, says);
    }
    for (const args of [['--json'], ['--json', 'nonsense'], ['run', '--json']]) {
        const { code, stdout } = await lab.ctl(args);
        assert.equal(code, 2);
        assert.equal(JSON.parse(stdout).error.code, 'invalid', args.join(' '));
    }
    assert.equal((await lab.ctl(['help', 'run'])).stdout, (await lab.ctl(['run', '--help'])).stdout);
}));

test('a log is told as a whole, or its last part', { timeout: 300000 }, () => withLab(bare, async lab => {
    const { runId } = await lab.startScript('i=0; while [ $i -lt 1200 ]; do i=$((i + 1)); echo "line $i"; done');
    await lab.ended(runId);
    const { events, hasMore, cursor } = await lab.ctlJson(['logs', runId]);
    assert.ok(events.length > 1000, `${events.length} events`);
    assert.deepEqual(events.map(event => event.number), events.map((_, index) => index + 1));
    assert.equal(hasMore, false);
    assert.equal(cursor, events.length);
    assert.deepEqual((await lab.ctlJson(['logs', '--tail', '7', runId])).events, events.slice(-7));
    assert.deepEqual((await lab.ctlJson(['logs', '-n3', runId])).events, events.slice(0, 3));
    assert.equal((await lab.ctlJson(['logs', '-n3', runId])).hasMore, true);
    const last = (await lab.ctl(['logs', '-f', '--json', '--tail', '2', runId])).stdout.trim().split('\n').map(line => JSON.parse(line));
    assert.deepEqual(last, events.slice(-2));
}));

test('what is said is said in the words of the command line', { timeout: 300000 }, () => withLab(bare, async lab => {
    const { runId, sessionId } = await lab.startScript('until [ -e end ]; do sleep 0.05; done');
    const { stdout } = await lab.ctl(['session', 'get', 'last']);
    assert.ok(stdout.includes(sessionId));
    assert.deepEqual((await lab.ctlJson(['list', '-s', runId])).runs.map(run => run.runId), [runId]);
    const cases = [
        [['get', sessionId], new RegExp(`${sessionId} is a session, and a run is wanted: sandboxctl list --session ${sessionId}`)],
        [['files', 'nope'], /"nope" is no run's or session's id/],
        [['session', 'get', 'nope'], /"nope" is no session's id/],
        [['rm', runId], /is no session's id, and a session is deleted with all its runs/],
        [['run', '--no-repo', '-t', '0', 'x'], /^sandboxctl: --timeout: must be a whole number from/],
        [['list', '-n', '0'], /^sandboxctl: --limit: /],
        [['list', '--status', 'nope'], /^sandboxctl: --status: must be one of/],
    ];
    for (const [args, says] of cases) {
        const { code, stderr } = await lab.ctl(args);
        assert.equal(code, 2, args.join(' '));
        assert.match(stderr, says);
    }
    assert.match((await lab.ctl(['diff', runId])).stderr, new RegExp(`has not ended.*What is changed by now is told for SESSION ${sessionId}`));
    assert.match((await lab.ctl(['secret', 'set', 'bad name'], { input: '' })).stderr, /a secret's name is/);
    const absent = await lab.ctl(['exec', runId, 'no-such-command']);
    assert.equal(absent.code, 127);
    assert.match(absent.stderr, /^sandboxctl: no-such-command: .*No such file/);
    await lab.exec(runId, ['touch', 'end']);
    await lab.ended(runId);
}));
