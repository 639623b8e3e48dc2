// A supervisor that clients start by themselves: right behind one that stops, and one that can't start.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withLab } from './lab.mjs';

const bare = { model: false, agent: false, supervisor: false };
// What a client waits for a supervisor that does not come.
const patience = 20000;

test('who calls right behind a stop gets the next supervisor', { timeout: 300000 }, () => withLab({ ...bare, bin: 'release' }, async lab => {
    for (let i = 0; i < 20; i++) {
        const list = await lab.ctl(['list']);
        assert.equal(list.code, 0, list.stderr);
        assert.equal((await lab.ctl(['stop'])).code, 0);
    }
    assert.doesNotMatch(lab.log('supervisor'), /another supervisor/);
}));

test('many clients at once start one supervisor', { timeout: 300000 }, () => withLab(bare, async lab => {
    const lists = await Promise.all(Array.from({ length: 8 }, () => lab.ctl(['list'])));
    assert.deepEqual(lists.map(one => one.code), lists.map(() => 0), lists.map(one => one.stderr).join(''));
    const { pid } = await lab.ctlJson(['status']);
    assert.equal(lab.log('supervisor').match(/ supervisor version /g).length, 1);
    assert.match(lab.log('supervisor'), new RegExp(`pid ${pid},`));
}));

test('a configuration that is refused is told at once, with its words', { timeout: 300000 }, () => withLab({ ...bare, config: () => ({ bogus: 1 }) }, async lab => {
    const begun = Date.now();
    const list = await lab.ctl(['list']);
    assert.equal(list.code, 3);
    assert.match(list.stderr, /the supervisor can't start \(see .*supervisord\.log\): .*unknown setting "bogus"/);
    const client = await lab.connect();
    const { isError, content } = await client.request('tools/call', { name: 'opencode_list_runs', arguments: {} });
    assert.equal(isError, true);
    assert.match(content[0].text, /can't start .*unknown setting "bogus"/);
    assert.ok(Date.now() - begun < patience, `${Date.now() - begun} ms`);
    lab.writeConfig();
    assert.equal((await client.request('tools/call', { name: 'opencode_list_runs', arguments: {} })).isError ?? false, false);
}));
