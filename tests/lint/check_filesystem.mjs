// check_filesystem.mjs [ROOT]: functions with effects on files exist outside the sandbox only where filesystem.txt says why.
// check_filesystem.mjs --self-test: proves that it fails on others.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesOf, isC, lineAt, report, stripped } from './source.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const parts = ['run', 'workspace', 'control', 'web', 'proxy', 'agent', 'forge'].map(name => `supervisord/${name}`);
const calls = ['open', 'openat', 'openat2', 'open64', 'creat', 'fopen', 'freopen', 'opendir', 'mkdir', 'mkdirat', 'mkdtemp', 'mkstemp', 'mkostemp', 'unlink',
    'unlinkat', 'remove', 'rename', 'renameat', 'renameat2', 'symlink', 'symlinkat', 'link', 'linkat', 'chmod', 'fchmodat', 'chown', 'lchown',
    'fchownat', 'rmdir', 'mknod', 'mknodat', 'mkfifo', 'truncate', 'nftw', 'ftw', 'chdir', 'mount', 'umount2', 'execve', 'execv', 'execvp', 'execvpe', 'execl',
    'execlp', 'execle', 'fexecve', 'execveat', 'posix_spawn', 'posix_spawnp', 'fork', 'vfork', 'system', 'popen', 'uv_spawn',
    'uv_fs_\\w+', 'fd_open\\w*'];
// `open` as a member or a variable is not a call of the C library; a call stands free.
const pattern = new RegExp(`(?<![\\w.>])(${calls.join('|')})\\s*\\(`, 'g');

function readRules(file) {
    const allowed = new Map();
    for (const [index, line] of fs.readFileSync(file, 'utf8').split('\n').entries()) {
        if (!line.trim() || line.startsWith('#'))
            continue;
        const [, name, list, reason] = /^(\S+)\s+(\S+)\s+(.{10,})$/.exec(line) ?? [];
        if (!reason)
            throw new Error(`${file}:${index + 1}: FILE CALL[,CALL…] reason`);
        for (const call of list.split(','))
            allowed.set(`${name} ${call}`, index + 1);
    }
    return allowed;
}

export function check(root, allowed) {
    const problems = [];
    const used = new Set();
    for (const file of filesOf(root, parts, isC)) {
        const text = stripped(fs.readFileSync(path.join(root, file), 'utf8'));
        for (const match of text.matchAll(pattern)) {
            // A function's own definition or declaration: a type stands before the name, on the same line.
            const before = text.slice(text.lastIndexOf('\n', match.index) + 1, match.index);
            if (/^(static\s+)?(const\s+)?(int|void|bool|char|struct\s+\w+)\s*\**\s*$/.test(before))
                continue;
            const key = `${file} ${match[1]}`;
            if (allowed.has(key))
                used.add(key);
            else
                problems.push(`${file}:${lineAt(text, match.index)}: ${match[1]}() outside the sandbox; see tests/lint/filesystem.txt`);
        }
    }
    for (const [key, line] of allowed)
        if (!used.has(key))
            problems.push(`tests/lint/filesystem.txt:${line}: nothing needs "${key}" any more`);
    return problems;
}

const root = path.join(here, '../..');
const table = readRules(path.join(here, 'filesystem.txt'));
if (process.argv[2] === '--self-test') {
    const copy = fs.mkdtempSync(path.join(os.tmpdir(), 'filesystem-'));
    try {
        for (const part of parts)
            fs.cpSync(path.join(root, part), path.join(copy, part), { recursive: true });
        assert.deepEqual(check(copy, table), []);
        for (const line of ['    return unlink(path);', '    fd = openat(dir, name, O_CREAT, 0600);', '    execvp(argv[0], argv);', '    if (mkdir (path, 0700) < 0)',
            '    uv_fs_unlink(loop, &request, path, NULL);']) {
            fs.writeFileSync(path.join(copy, 'supervisord/run/probe.c'), `static void probe(void)\n{\n${line}\n}\n`);
            assert.equal(check(copy, table).length, 1, line);
        }
        fs.writeFileSync(path.join(copy, 'supervisord/run/probe.c'), '/* unlink(path) */\nstatic const char text[] = "open(x)";\n');
        assert.deepEqual(check(copy, table), []);
        fs.rmSync(path.join(copy, 'supervisord/run/probe.c'));
        assert.equal(check(copy, new Map([...table, ['supervisord/run/none.c open', 1]])).length, 1);
    } finally {
        fs.rmSync(copy, { recursive: true });
    }
} else {
    report(check(process.argv[2] ?? root, table));
}
