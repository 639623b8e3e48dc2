// What a session changed comes to files that have changed meanwhile: where git can merge both, both are there; where it can't, nothing is
// touched, and it says what is in the way.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { must, withLab } from './lab.mjs';

const git = (folder, ...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', '-c', 'safe.directory=*', ...args]);
const lines = words => words.join('\n') + '\n';
const numbers = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];
const write = (folder, name, words) => fs.writeFileSync(path.join(folder, name), lines(words));
const read = (folder, name) => fs.readFileSync(path.join(folder, name), 'latin1');
const swap = changes => numbers.map(word => changes[word] ?? word);

// All there is, git's own files too but the index's times.
function picture(folder) {
    const found = {};
    for (const name of fs.readdirSync(folder, { recursive: true }).sort()) {
        const file = path.join(folder, name);
        const info = fs.lstatSync(file);
        if (!info.isDirectory())
            found[name] = info.isSymbolicLink() ? `-> ${fs.readlinkSync(file)}` : `${info.mode} ${fs.readFileSync(file, 'latin1')}`;
    }
    return found;
}

test('changes are merged, or nothing is touched', { timeout: 180000 }, () => withLab({ model: false, agent: false }, async lab => {
    const first = lab.path('first');
    await must('git', ['init', '-q', '-b', 'main', first]);
    for (const name of ['a', 'b', 'old', 'same'])
        write(first, name, numbers);
    fs.writeFileSync(path.join(first, 'binary'), Buffer.from([0, 1, 2]));
    await git(first, 'add', '-A');
    await git(first, 'commit', '-qm', 'Start');
    lab.give(first);
    const { runId } = await lab.startScript('sed -i s/five/FIVE/ a old; sed -i s/two/TWO/ b; echo same >>same; git add -A; git commit -qm work; printf "\\0agent" >binary; echo new >new', { repository: first });
    assert.equal((await lab.ended(runId)).status, 'completed');

    const tmp = lab.path('tmp');
    fs.mkdirSync(tmp);
    lab.give(tmp);
    let count = 0;
    const fresh = async () => {
        const folder = lab.path(`mine-${++count}`);
        await must('cp', ['-a', first, folder]);
        return folder;
    };
    const pull = (folder, ...args) => lab.ctl(['pull', runId, '--apply', ...args], { cwd: folder, env: { TMPDIR: tmp } });
    const merges = async (folder, ...args) => {
        const before = fs.readFileSync(path.join(folder, '.git/index'));
        const kept = { refs: await git(folder, 'for-each-ref'), objects: fs.readdirSync(path.join(folder, '.git/objects'), { recursive: true }).length };
        const result = await pull(folder, ...args);
        assert.equal(result.code, 0, result.stderr);
        assert.ok(fs.readFileSync(path.join(folder, '.git/index')).equals(before), 'what is staged is');
        assert.deepEqual({ refs: await git(folder, 'for-each-ref'), objects: fs.readdirSync(path.join(folder, '.git/objects'), { recursive: true }).length }, kept);
        return result.stdout;
    };
    const refuses = async (folder, words, ...args) => {
        const before = picture(folder);
        const result = await pull(folder, ...args);
        assert.equal(result.code, 5, `${result.stdout}${result.stderr}`);
        assert.match(result.stderr, words);
        assert.deepEqual(picture(folder), before);
    };

    // What is changed here stands near what is changed there: no patch fits, and a merge does. Committed, staged, and neither.
    let mine = await fresh();
    write(mine, 'a', swap({ three: 'THREE' }));
    await git(mine, 'commit', '-qam', 'mine');
    write(mine, 'a', swap({ three: 'THREE', seven: 'SEVEN' }));
    await git(mine, 'add', 'a');
    write(mine, 'a', [...swap({ three: 'THREE', seven: 'SEVEN' }), 'loose']);
    write(mine, 'untracked', ['mine']);
    const said = await merges(mine);
    assert.equal(said, '6 files changed, merged with what has changed here\n');
    assert.equal(read(mine, 'a'), lines([...swap({ three: 'THREE', five: 'FIVE', seven: 'SEVEN' }), 'loose']));
    assert.equal(read(mine, 'b'), lines(swap({ two: 'TWO' })));
    assert.deepEqual([read(mine, 'binary'), read(mine, 'new'), read(mine, 'untracked')], ['\0agent', 'new\n', 'mine\n']);

    // Where a file lies elsewhere now, its changes go there.
    mine = await fresh();
    await git(mine, 'mv', 'old', 'moved');
    await git(mine, 'commit', '-qm', 'moved');
    await merges(mine);
    assert.equal(read(mine, 'moved'), lines(swap({ five: 'FIVE' })));
    assert.ok(!fs.existsSync(path.join(mine, 'old')));

    // Parts that are here already count for nothing; when all is, there is nothing to do.
    mine = await fresh();
    write(mine, 'same', [...numbers, 'same']);
    assert.match(await merges(mine, '--json'), /^\{"files":5,"merged":true\}\n$/);
    assert.equal(read(mine, 'same'), lines([...numbers, 'same']));
    await git(mine, 'add', '-A');
    assert.match(await merges(mine), /^0 files changed, merged/);
    assert.match(await merges(mine, '--path', 'a'), /^0 files changed, merged/);

    // Both changed the same.
    mine = await fresh();
    write(mine, 'a', swap({ five: 'my five' }));
    fs.writeFileSync(path.join(mine, 'binary'), Buffer.from([0, 9]));
    write(mine, 'staged', ['mine']);
    await git(mine, 'add', 'staged');
    await refuses(mine, /nothing was changed, since the changes don't fit: .*both sides changed a, binary/);
    await refuses(mine, /both sides changed a\n/, '--path', 'a');
    assert.equal((await pull(mine, '--path', 'b')).stdout, '1 files changed\n', 'what fits can be had');
    // An untracked file that is in the way, a file that is gone here, and a merge that is under way.
    mine = await fresh();
    write(mine, 'a', swap({ three: 'THREE' }));
    write(mine, 'new', ['mine']);
    await refuses(mine, /nothing was changed, since the changes don't fit: .*new: already exists/);
    mine = await fresh();
    fs.rmSync(path.join(mine, 'a'));
    await refuses(mine, /both sides changed a/);
    mine = await fresh();
    await git(mine, 'checkout', '-qb', 'side');
    write(mine, 'a', swap({ five: 'side' }));
    await git(mine, 'commit', '-qam', 'side');
    await git(mine, 'checkout', '-q', 'main');
    write(mine, 'a', swap({ five: 'main' }));
    await git(mine, 'commit', '-qam', 'main');
    await git(mine, 'merge', '-q', 'side').catch(() => {});
    await refuses(mine, /nothing was changed, since the changes don't fit/);

    // A repository that hasn't what the session began with, and one with a driver for merges, which is for nobody else's commits.
    const other = lab.path('other');
    await must('git', ['init', '-q', '-b', 'main', other]);
    write(other, 'a', swap({ three: 'THREE' }));
    await git(other, 'add', '-A');
    await git(other, 'commit', '-qm', 'Other');
    await refuses(other, /nothing was changed, since the changes don't fit/, '--path', 'a');
    mine = await fresh();
    fs.writeFileSync(path.join(mine, '.gitattributes'), '* merge=mine\n');
    await git(mine, 'config', 'merge.mine.driver', `touch ${lab.path('driver-ran')}; false`);
    write(mine, 'a', swap({ three: 'THREE' }));
    await merges(mine);
    assert.equal(read(mine, 'a'), lines(swap({ three: 'THREE', five: 'FIVE' })));
    assert.ok(!fs.existsSync(lab.path('driver-ran')));
    assert.deepEqual(fs.readdirSync(tmp), [], 'nothing stays behind');
}));
