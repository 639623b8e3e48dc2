// check_hosts.mjs [ROOT]: nothing in the tree names a package registry's host, a folder of somebody's machine, or where a lock file's
// packages came from. Tools find registries by their own settings.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesOf, lineAt, report } from './source.mjs';

const root = process.argv[2] ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const patterns = [
    [/\b(?:https?:)?\/\/[\w.-]*(?:registry|npmjs|pypi|crates|debian|rubygems|mirror)[\w.-]*\.[a-z]{2,}/gi, 'the host of a package registry'],
    [/\bregistry\.(?!invalid|example)[\w-]+\.[a-z]{2,}/gi, 'the host of a package registry'],
    [/(?<![\w.~$}/-])\/(?:w[o]rk|r[o]ot)\//g, "a folder of somebody's machine"],
    [/"resolved"\s*:/g, 'where a package came from'],
];
let files;
try {
    files = execFileSync('git', ['-C', root, 'ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
        .split('\n').filter(Boolean);
} catch {
    files = filesOf(root, ['.'], () => true).filter(file => !/^(build|\.git\/)/.test(file));
}
const problems = [];
for (const file of files) {
    if (!fs.existsSync(path.join(root, file)) || /(^|\/)corpus\//.test(file) || /check_hosts\.mjs$/.test(file))
        continue;
    const text = fs.readFileSync(path.join(root, file), 'utf8');
    for (const [pattern, what] of patterns)
        for (const match of text.matchAll(pattern))
            problems.push(`${file}:${lineAt(text, match.index)}: ${what}: ${match[0].slice(0, 60)}`);
}
report(problems);
