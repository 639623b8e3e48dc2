// awkward-repositories.mjs: repositories of the kinds that tools fail at, made from scratch in a few seconds. A case is
// { name, repository, branch?, base?, script?, refused?, warns?, pushes?, long? }: what a run is given, what it should find, and whether
// it is refused. Content is told to `git fast-import`, which makes thousands of files without a work folder.
import crypto from 'node:crypto';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { long, must } from './lab.mjs';

const big = long ? 200 : 20; // MiB of history
const many = long ? 100000 : 3000; // files

// FILES: name (a string or bytes) → text, bytes, { link }, { module: commit } or { run: text }.
export function* commit(branch, files, { parent, message = 'More', mark } = {}) {
    yield `commit ${branch}\n${mark ? `mark :${mark}\n` : ''}committer t <t@t.invalid> 1700000000 +0000\ndata ${Buffer.byteLength(message)}\n${message}\n`;
    if (parent)
        yield `from ${parent}\n`;
    for (const [name, content] of files instanceof Map ? files : Object.entries(files)) {
        const quoted = Buffer.from(name).toString('latin1').replace(/[\\"\n\x80-\xff]/g, c => `\\${c.charCodeAt(0).toString(8).padStart(3, '0')}`);
        if (content === null) {
            yield `D "${quoted}"\n`;
            continue;
        }
        const plain = typeof content === 'string' || Buffer.isBuffer(content);
        const { module, link, run } = plain ? {} : content;
        if (module) {
            yield `M 160000 ${module} "${quoted}"\n`;
            continue;
        }
        const data = Buffer.from(link ?? run ?? content);
        yield `M ${link ? '120000' : run ? '100755' : '100644'} inline "${quoted}"\ndata ${data.length}\n`;
        yield data;
        yield '\n';
    }
}

export async function bare(folder, parts, { branch = 'main', format = 'sha1' } = {}) {
    fs.mkdirSync(path.dirname(folder), { recursive: true });
    await must('git', ['init', '-q', '--bare', '-b', branch, `--object-format=${format}`, '--', folder]);
    await must('git', ['-C', folder, 'config', 'uploadpack.allowFilter', 'true']);
    await must('git', ['-C', folder, 'config', 'uploadpack.allowAnySHA1InWant', 'true']);
    const child = spawn('git', ['-C', folder, 'fast-import', '--quiet', '--force'], { stdio: ['pipe', 'inherit', 'inherit'] });
    const exited = once(child, 'exit');
    for (const part of parts)
        if (!child.stdin.write(part))
            await once(child.stdin, 'drain');
    child.stdin.end();
    const [code] = await exited;
    if (code !== 0)
        throw new Error(`git fast-import into ${folder} ended with ${code}`);
    return folder;
}

const git = (folder, ...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', ...args]);
const id = async (folder, ref) => (await git(folder, 'rev-parse', ref)).trim();
const main = 'refs/heads/main';
const readme = { README: 'hello\n' };

function* largeHistory() {
    for (let number = 0; number < big; number++)
        yield* commit(main, { 'data.bin': crypto.randomBytes(1 << 20 | 1), README: `${number}\n` }, { message: `Data ${number}` });
    yield* commit(main, { 'data.bin': null });
}

function* manyFiles() {
    const files = new Map();
    for (let number = 0; number < many; number++)
        files.set(`d${number % 100}/e${number % 7}/file-${number}.txt`, `${number}\n`);
    yield* commit(main, files);
}

// All cases, made below ROOT (the forge's) and LOCAL. URL gives a name's address at the forge.
export async function awkwardRepositories(root, local, url, forge) {
    const remote = (name, parts, options) => bare(path.join(root, 'owner', `${name}.git`), parts, options);
    const cases = [];
    const add = (name, one) => cases.push({ name, repository: url(`owner/${name}`), pushes: !one.local, ...one });
    const here = name => path.join(local, name);
    const checkout = async (name, parts, options) => {
        const folder = here(name);
        fs.mkdirSync(folder, { recursive: true });
        await bare(path.join(folder, '.git'), parts, options);
        await git(path.join(folder, '.git'), 'config', 'core.bare', 'false');
        return folder;
    };
    const localCase = (name, folder, one = {}) => add(name, { repository: folder, local: true, pushes: false, ...one });
    const made = [];
    const make = work => made.push(work());

    make(async () => {
        await remote('trunk', commit('refs/heads/trunk', readme), { branch: 'trunk' });
        add('trunk', { base: 'trunk', script: 'git rev-parse --verify -q trunk && cat README', says: /hello/ });
    });
    make(async () => {
        await remote('empty', []);
        add('empty', { base: 'main', warns: /was empty/ });
    });
    make(async () => {
        const folder = await remote('tagged', [...commit(main, readme), ...commit(main, { README: 'later\n' })]);
        await git(folder, 'tag', 'v1.0', 'main~1');
        await git(folder, 'tag', '-m', 'said', 'v1.1', 'main~1');
        add('tagged', { branch: 'v1.0', base: 'v1.0', script: 'cat README', says: /hello/ });
        add('tagged with words', { repository: url('owner/tagged'), branch: 'v1.1', base: 'v1.1', script: 'cat README', says: /hello/ });
        const first = await id(folder, 'main~1');
        add('commit as base', { repository: url('owner/tagged'), branch: first, base: first, script: 'cat README', says: /hello/ });
        add('no such branch', { repository: url('owner/tagged'), branch: 'nowhere', refused: /branch: it has no branch, tag or ref `nowhere`; it has: .*main/ });
        add('no such commit', { repository: url('owner/tagged'), branch: 'f'.repeat(40), refused: /branch: .*(not our ref|unadvertised)/ });
    });
    make(async () => {
        await remote('pulls', [...commit(main, readme), ...commit('refs/pull/7/head', { README: 'proposed\n' }, { parent: main })]);
        add('pulls', { branch: 'refs/pull/7/head', base: 'refs/pull/7/head', script: 'cat README', says: /proposed/ });
        add('pulls, said short', { repository: url('owner/pulls'), branch: 'pull/7/head', base: 'refs/pull/7/head', script: 'cat README', says: /proposed/ });
    });
    make(async () => {
        const inner = await remote('inner', commit(main, { 'inner.txt': 'innermost\n' }));
        const lib = await remote('lib', commit(main, { '.gitmodules': '[submodule "inner"]\n\tpath = inner\n\turl = ../inner.git\n',
            inner: { module: await id(inner, 'main') }, 'lib.txt': 'library\n' }));
        await remote('modules', commit(main, { '.gitmodules': '[submodule "lib"]\n\tpath = some lib\n\turl = ../lib.git\n' +
            '[submodule "gone"]\n\tpath = gone\n\turl = ../nowhere.git\n', 'some lib': { module: await id(lib, 'main') },
            gone: { module: await id(lib, 'main') } }));
        forge.publicNames.push('owner/lib', 'owner/inner');
        add('modules', { script: 'cat "some lib/lib.txt" "some lib/inner/inner.txt"', says: /library\ninnermost/, warns: /submodules could not be had: gone;/ });
        // Its commit moves, which is a change like any other.
        add('a submodule that moves', { repository: url('owner/modules'), warns: /gone/,
            script: 'cd "some lib" && git commit -q --allow-empty -m moved && cd .. && git commit -qam moves', evidence: { submodules: 1 } });
    });
    make(async () => {
        await remote('lfs', commit(main, { '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
            'a.bin': `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n` }));
        add('lfs', { warns: /1 file is kept in Git LFS/ });
    });
    make(async () => {
        await remote('history', largeHistory());
        // All commits are there, the data comes when it is wanted.
        add('history', { script: `git rev-list --count HEAD; du -sk .git | cut -f1 >/tmp/before; git show HEAD~1:data.bin | wc -c
            test "$(cat /tmp/before)" -lt ${big * 512} && echo small`, says: new RegExp(`^${big + 1}\\n${(1 << 20) + 1}\\nsmall`) });
    });
    make(async () => {
        await remote('many', manyFiles());
        add('many', { script: 'git ls-files | wc -l', says: new RegExp(`^${many}\n`) });
    });
    make(async () => {
        await remote('names', commit(main, new Map([[Buffer.from('not-utf8-\xff\xfe', 'latin1'), 'a\n'], ['esc\x1b[2J', 'b\n'],
            ['new\nline', 'c\n'], ['-rf', 'd\n'], ['--upload-pack=x', 'e\n'], ['"quoted"', 'f\n'], [' ', 'g\n'], ['ünï', 'h\n']])));
        add('names', { script: 'for f in *; do echo more >>"./$f"; done', diff: [/not-utf8-\\377\\376/, /esc\\033\[2J/, /new\\nline/, /b\/-rf/] });
    });
    make(async () => {
        await remote('twins', commit(main, { 'File.txt': 'upper\n', 'file.txt': 'lower\n', 'Folder/x': '1\n', 'folder/x': '2\n' }));
        add('twins', { script: 'cat File.txt file.txt Folder/x folder/x', says: /upper\nlower\n1\n2/ });
    });
    make(async () => {
        await remote('crlf', commit(main, { '.gitattributes': '* text=auto\n*.bat eol=crlf\n*.raw -text\n', 'a.bat': 'one\ntwo\n', 'b.txt': 'x\r\ny\r\n',
            'c.raw': 'x\r\n' }));
        // What is stored with the wrong ends of lines shows up as changed as soon as it is looked at; nothing else does.
        add('crlf', { script: 'printf "one\\r\\ntwo\\r\\n" | cmp - a.bat && git status --short', says: /^( M b\.txt\n)?$/ });
    });
    make(async () => {
        await remote('links', commit(main, { loop: { link: 'loop' }, a: { link: 'b' }, b: { link: 'a' }, out: { link: '/etc/passwd' }, up: { link: '../../../..' },
            'dir/here': { link: '.' }, target: 'x\n' }));
        add('links', { script: 'readlink loop out up; ln -s /etc/shadow more', says: /loop\n\/etc\/passwd/ });
    });
    make(async () => {
        const hook = '#!/bin/sh\ntouch /workspace/ran\n';
        await remote('hostile', commit(main, { '.gitattributes': '* filter=evil diff=evil merge=evil\n', '.gitmodules':
            '[submodule "evil"]\n\tpath = evil\n\turl = ext::sh -c touch% /workspace/ran\n' +
            '[submodule "../../evil"]\n\tpath = up\n\turl = --upload-pack=touch\n', evil: { module: '1'.repeat(40) },
            '.githooks/post-checkout': { run: hook }, 'hooks/post-checkout': { run: hook }, '.gitconfig': '[core]\n\tfsmonitor = touch /workspace/ran\n',
            '.lfsconfig': '[lfs]\n\turl = https://evil.invalid\n' }));
        // git itself does nothing in such a repository.
        await remote('commanding', commit(main, { '.gitmodules': '[submodule "a"]\n\tpath = a\n\turl = ../lib.git\n\tupdate = !touch /workspace/ran\n',
            a: { module: '1'.repeat(40) } }));
        add('commanding', { refused: /invalid value for 'submodule\.a\.update'/ });
        add('hostile', { script: 'test ! -e /workspace/ran && echo nothing ran', says: /nothing ran/, warns: /submodules could not be had/ });
    });
    make(async () => {
        await remote('huge', commit(main, { huge: Buffer.alloc((long ? 300 : 30) << 20), small: 'x\n' }));
        add('huge', { script: 'stat -c %s huge', says: new RegExp(`^${(long ? 300 : 30) << 20}\n`) });
    });
    make(async () => {
        const whole = await bare(path.join(root, 'work', 'whole'), [...commit(main, readme), ...commit(main, { README: '2\n' }), ...commit(main, { README: '3\n' })]);
        await must('git', ['clone', '-q', '--bare', '--depth', '2', `file://${whole}`, path.join(root, 'owner', 'shallow.git')]);
        add('shallow', { script: 'git rev-list --count HEAD', says: /^2\n/ });
        await must('git', ['clone', '-q', '--depth', '2', `file://${whole}`, here('shallow')]);
        localCase('shallow folder', here('shallow'), { script: 'git rev-list --count HEAD', says: /^2\n/ });
    });
    make(async () => {
        const folder = await remote('dumb', commit(main, readme));
        await git(folder, 'update-server-info');
        forge.plain.push('owner/dumb');
        add('dumb', { refused: /repository: .*/ });
    });
    make(async () => {
        await remote('renamed', commit(main, readme));
        forge.moved.set('owner/before', 'owner/renamed.git');
        add('before', { refused: /repository: .*301.*\(moved\)/ });
    });
    make(async () => {
        await remote('odd', [...commit(main, readme), ...commit('refs/heads/feat/ü#1,{x}', { README: 'odd\n' }), ...commit('refs/heads/HEAD-x', readme),
            ...commit('refs/heads/a.b-c@d+e', readme)]);
        add('odd', { branch: 'feat/ü#1,{x}', base: 'feat/ü#1,{x}', script: 'cat README', says: /odd/ });
    });
    make(async () => {
        const folder = await remote('same', commit(main, { README: 'branch\n' }));
        await bare(path.join(root, 'work', 'same'), []);
        await git(folder, 'branch', 'twice', 'main');
        const other = (await must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', 'commit-tree', 'main^{tree}', '-m', 'tag'])).trim();
        await git(folder, 'update-ref', 'refs/tags/twice', other);
        add('same', { branch: 'twice', base: 'twice', script: 'git log -1 --format=%s', says: /More/ });
    });
    make(async () => {
        await remote('unborn', [...commit('refs/heads/one', readme), ...commit('refs/heads/two', readme)], { branch: 'main' });
        add('unborn', { refused: /repository: its default branch .*has no commit; name one of its branches: one, two/ });
        add('unborn, another branch', { repository: url('owner/unborn'), branch: 'two', base: 'two' });
    });
    make(async () => {
        await remote('agent', [...commit('refs/heads/agent', readme)], { branch: 'agent' });
        // No branch below `agent/` can be there.
        add('agent', { base: 'agent', pushes: false, work: /^agent-/ });
    });
    make(async () => {
        const folder = await remote('detached', commit(main, readme));
        await git(folder, 'update-ref', '--no-deref', 'HEAD', await id(folder, 'main'));
        add('detached', {});
    });
    make(async () => {
        await remote('sha256', commit(main, readme), { format: 'sha256' });
        add('sha256', { script: 'git rev-parse HEAD | tr -d "\\n" | wc -c', says: /^64\n/ });
        localCase('sha256 folder', await checkout('sha256', commit(main, readme), { format: 'sha256' }));
    });
    make(async () => {
        const lender = await bare(path.join(root, 'work', 'lender'), commit(main, readme));
        await must('git', ['clone', '-q', '--bare', '--shared', lender, path.join(root, 'owner', 'borrowing.git')]);
        add('borrowing', {});
        await must('git', ['clone', '-q', '--shared', lender, here('borrowing')]);
        localCase('borrowing folder', here('borrowing'), { refused: /borrows objects/, atOnce: true });
    });
    make(async () => {
        const folder = await checkout('project', [...commit(main, readme), ...commit('refs/heads/side', { README: 'side\n' })]);
        await git(folder, 'worktree', 'add', '-q', here('linked'), 'side');
        localCase('linked worktree', here('linked'), { base: 'side', script: 'cat README', says: /side/ });
        localCase('folder of the repository itself', path.join(folder, '.git'));
        localCase('bare folder', await bare(here('bare.git'), commit(main, readme)));
        localCase('folder with spaces', await checkout('some name, ünï', commit(main, readme)));
        localCase('folder named like an option', await checkout('--upload-pack=touch x', commit(main, readme)));
        localCase('empty folder', fs.mkdirSync(here('nothing'), { recursive: true }) ?? here('nothing'), { refused: /is not a git repository/, atOnce: true });
    });
    make(async () => add('nowhere', { refused: /repository: .*not found/i }));
    await Promise.all(made);
    return cases.filter(one => long || !one.long);
}
