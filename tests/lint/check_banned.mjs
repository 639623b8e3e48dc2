// check_banned.mjs [ROOT]: what the compiler does not refuse. banned.h makes most forbidden calls compile errors; this looks at files
// that are built without it, at notes that were left behind, and at who may touch what.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesOf, folders, isC, lineAt, report, stripped } from './source.mjs';

const root = process.argv[2] ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const problems = [];
// Waits that end at once: for a child that was killed or never came to be, or in a thread of its own.
const allowedToWait = new Set(['supervisord/io/child.c waitpid', 'supervisord/sandbox/bwrap/overlay.c waitpid',
    'supervisord/ctl/cmd_service.c waitpid', 'supervisord/ctl/terminal.c waitpid']);
const guards = new Map();
const read = file => fs.readFileSync(path.join(root, file), 'utf8');

// The names in banned.h, so that there is one list.
const banned = [...read('common/banned.h').matchAll(/^#pragma GCC poison (.+)$/gm)].flatMap(match => match[1].trim().split(/\s+/));
if (banned.length < 10)
    problems.push('common/banned.h: its list of names was not found');
if (!/-include \$\{PROJECT_SOURCE_DIR\}\/common\/banned\.h/.test(read('CMakeLists.txt')))
    problems.push('CMakeLists.txt: banned.h is not included in front of every file');

function find(file, text, pattern, what) {
    for (const match of text.matchAll(pattern)) {
        const complaint = what(match);
        if (complaint)
            problems.push(`${file}:${lineAt(text, match.index)}: ${complaint}`);
    }
}

for (const file of filesOf(root, folders, isC)) {
    const whole = read(file);
    const code = stripped(whole);
    if (file !== 'common/banned.h')
        find(file, code, new RegExp(`\\b(${banned.join('|')})\\s*\\(`, 'g'), match => `${match[1]}() is banned`);
    // The daemon is one loop in one thread: nothing in it waits.
    if (/^supervisord\/(?!ctl\/|sandbox\/init\/)/.test(file))
        find(file, code, /(?<![\w.>])(sleep|usleep|nanosleep|wait|waitpid)\s*\(([^;]*);/g, match =>
            /WNOHANG/.test(match[2]) || allowedToWait.has(`${file} ${match[1]}`) ? null : `${match[1]}() blocks the loop`);
    if (!/^common\/json/.test(file))
        find(file, code, /\bcJSON_?\w*/g, match => `${match[0]}: cJSON is touched by common/json*.c only`);
    if (!/^supervisord\/(vault|backup|proxy\/(inject|scrub)|notice\/credential)/.test(file))
        find(file, code, /\bsecret_open\s*\(/g,
            () => 'a secret is opened by supervisord/proxy/inject.c and notice/credential.c only, and what is looked for in answers by scrub.c, and what seals or signs a backup in backup/');
    // Beside apply.c, only the making of a new record gives it its first state.
    if (!/^supervisord\/run\/(apply|request)\.c$/.test(file))
        find(file, code, /->state\s*=\s*RUN_/g, () => "a run's state is written by run/apply.c only");
    find(file, whole, /\b(TODO|FIXME|XXX|HACK)\b/g, match => `${match[1]} was left behind`);
    find(file, whole, /[ \t]+$/gm, () => 'white space at the end of a line');
    if (!whole.endsWith('\n'))
        problems.push(`${file}: no line end at the end`);
    if (file.endsWith('.h')) {
        const guard = /^#ifndef (\w+)\n#define (\w+)$/m.exec(whole);
        const name = path.basename(file).replace(/[.-]/g, '_').toUpperCase();
        if (!guard || guard[1] !== guard[2] || !guard[1].endsWith(name) || guard[1].startsWith('_'))
            problems.push(`${file}: the guard should end in ${name}`);
        else if (guards.has(guard[1]))
            problems.push(`${file}: has the same guard as ${guards.get(guard[1])}`);
        else
            guards.set(guard[1], file);
    }
}
report(problems);
