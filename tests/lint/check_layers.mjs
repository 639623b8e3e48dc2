// check_layers.mjs [ROOT]: every #include stays within layers.txt.
// check_layers.mjs --self-test: proves that it fails on includes that are not allowed.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesOf, folders, isC, lineAt, report, rules, stripped } from './source.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const libraries = /^(uv\.h|uv\/|curl\/|lmdb\.h|sodium|seccomp\.h|llhttp\.h|cjson\/|cJSON\.h|openssl\/)/;

// The part of the tree that a file belongs to: common, supervisord/run, supervisord/sandbox/init; or "roof".
function partOf(file) {
    const names = path.dirname(file).split('/');
    if (names[0] !== 'supervisord')
        return names[0];
    if (names.length === 1)
        return 'roof';
    return names[1] === 'sandbox' && names[2] === 'init' ? 'supervisord/sandbox/init' : `supervisord/${names[1]}`;
}

function readRules(file) {
    const allowed = new Set();
    const faces = new Set();
    for (const { number, words } of rules(file)) {
        if (words.length !== 2)
            throw new Error(`${file}:${number}: two words are wanted`);
        if (words[0] === 'face')
            faces.add(words[1]);
        else
            allowed.add(words.join(' '));
    }
    return { allowed, faces };
}

// The file of the tree that NAME means in an #include of FILE, or undefined.
function resolve(root, file, name) {
    for (const candidate of [path.join(path.dirname(file), name), name, path.join('supervisord', name)])
        if (fs.existsSync(path.join(root, candidate)))
            return path.normalize(candidate);
    return undefined;
}

function isFace(target, part, faces) {
    if (part === 'common' || part === 'proto' || faces.has(target))
        return true;
    return path.basename(target, '.h') === path.basename(path.dirname(target)) && path.dirname(target) === part;
}

export function check(root, { allowed, faces }) {
    const problems = [];
    for (const file of filesOf(root, folders, isC)) {
        const text = stripped(fs.readFileSync(path.join(root, file), 'utf8'), true);
        const part = partOf(file);
        for (const match of text.matchAll(/^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>|(\w+))/gm)) {
            const [, quoted, system, macro] = match;
            const complain = what => problems.push(`${file}:${lineAt(text, match.index)}: ${what}`);
            if (macro) {
                complain('an #include by macro cannot be checked');
                continue;
            }
            const name = quoted ?? system;
            const target = quoted || folders.some(folder => name.startsWith(`${folder}/`)) ? resolve(root, file, name) : undefined;
            if (!target) {
                if (quoted)
                    complain(`"${name}" is not in the tree`);
                else if (libraries.test(name) && part !== 'roof' && ![part, file].some(who => allowed.has(`${who} <${name}>`)))
                    complain(`${part} may not use <${name}>`);
                continue;
            }
            const other = partOf(target);
            if (other === part)
                continue;
            if (part !== 'roof' && ![part, file].some(who => allowed.has(`${who} ${other}`)))
                complain(`${part} may not include ${other} ("${name}")`);
            else if (!isFace(target, other, faces))
                complain(`"${name}" is not a face of ${other}`);
        }
    }
    return problems;
}

function selfTest(root) {
    const table = readRules(path.join(here, 'layers.txt'));
    assert.deepEqual(check(root, table), []);
    const copy = fs.mkdtempSync(path.join(os.tmpdir(), 'layers-'));
    try {
        for (const folder of folders)
            fs.cpSync(path.join(root, folder), path.join(copy, folder), { recursive: true });
        assert.deepEqual(check(copy, table), []);
        const breaks = [
            ['common/probe.c', '#include "proto/frame.h"'],
            ['common/probe.c', '#include <uv.h>'],
            ['proto/probe.c', '#include "run/run.h"'],
            ['mcp-stdio/probe.c', '#include "supervisord/run/run.h"'],
            ['mcp-stdio/probe.c', '#include "../supervisord/store/store.h"'],
            ['supervisord/ctl/probe.c', '#include "control/control.h"'],
            ['supervisord/config/probe.c', '#include "io/io.h"'],
            ['supervisord/io/probe.c', '#include "run/run.h"'],
            ['supervisord/store/probe.c', '#include "vault/vault.h"'],
            ['supervisord/agent/probe.c', '#include "sandbox/sandbox.h"'],
            ['supervisord/agent/opencode/probe.c', '#  include "proxy/proxy.h"'],
            ['supervisord/proxy/probe.c', '#include "store/store.h"'],
            ['supervisord/run/probe.c', '#include "control/control.h"'],
            ['supervisord/run/probe.c', '#include "vault/vault.h"'],
            ['supervisord/run/probe.c', '#include "config/config.h"'],
            ['supervisord/run/probe.c', '#include <lmdb.h>'],
            ['supervisord/web/probe.c', '#include "proto/frame.h"'],
            ['supervisord/sandbox/init/probe.c', '#include "common/error.h"'],
            ['supervisord/control/probe.c', '#include "run/internal.h"', ['supervisord/run/internal.h']],
        ];
        for (const [file, line, needs = []] of breaks) {
            for (const need of needs)
                if (!fs.existsSync(path.join(copy, need)))
                    fs.writeFileSync(path.join(copy, need), '');
            fs.writeFileSync(path.join(copy, file), '/* a comment */\n' + line + '\n');
            const problems = check(copy, table);
            assert.equal(problems.length, 1, `${file} with ${line}: ${JSON.stringify(problems)}`);
            assert.ok(problems[0].startsWith(`${file}:2: `), problems[0]);
            fs.rmSync(path.join(copy, file));
        }
        // In a comment or a text it is no include.
        fs.writeFileSync(path.join(copy, 'common/probe.c'), '/*\n#include "run/run.h"\n*/\nstatic const char text[] = "#include <uv.h>";\n');
        assert.deepEqual(check(copy, table), []);
        console.log(`${breaks.length} forbidden includes were found`);
    } finally {
        fs.rmSync(copy, { recursive: true });
    }
}

const root = path.join(here, '../..');
if (process.argv[2] === '--self-test')
    selfTest(root);
else
    report(check(process.argv[2] ?? root, readRules(path.join(here, 'layers.txt'))));
