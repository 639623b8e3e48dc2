// The manual pages that the build makes: what the programs print of themselves, which every reader of such pages takes without a word.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { binFolder, must, run } from './lab.mjs';

const folder = path.resolve(binFolder(), '../man');
const names = ['sandboxctl', 'sandbox-mcp', 'sandbox-supervisord'];
const page = name => path.join(folder, `${name}.1`);
const has = program => (process.env.PATH ?? '').split(':').some(one => fs.existsSync(path.join(one, program)));

// As a reader sees it, on one line.
async function rendered(name) {
    const text = await must('groff', ['-man', '-Tutf8', '-P-cbou', page(name)], { env: { ...process.env, GROFF_NO_SGR: '1' } });
    return text.replace(/.\x08/g, '').replace(/‐\n\s+/g, '').replace(/\s+/g, ' ').replaceAll('−', '-').replaceAll('‐', '-');
}

for (const name of names) {
    test(`${name}.1 is what the program prints`, async () => {
        assert.equal(fs.readFileSync(page(name), 'utf8'), await must(path.join(binFolder(), name), ['--man']));
    });

    test(`${name}.1 is read without a complaint`, async context => {
        const linters = [['mandoc', '-T', 'lint', '-W', 'warning'], ['groff', '-man', '-ww', '-z'], ['man', '--warnings=w', '-l', '-P', 'true']]
            .filter(([program]) => has(program));
        if (!linters.length)
            return context.skip('there is neither mandoc nor groff nor man');
        for (const [program, ...args] of linters) {
            const result = await run(program, [...args, page(name)], { env: { ...process.env, LC_ALL: 'C.UTF-8', MANPAGER: 'true', HOME: os.tmpdir() } });
            assert.equal(result.code, 0, `${program}: ${result.stderr}`);
            assert.equal(result.stderr, '', program);
            if (program === 'mandoc')
                assert.equal(result.stdout, '');
        }
    });
}

test('what --help shows is in the pages', { skip: !has('groff') && 'there is no groff' }, async () => {
    for (const name of names) {
        const text = await rendered(name);
        const help = await must(path.join(binFolder(), name), ['--help']);
        const terms = [...help.matchAll(/^ {2}(\S+) +(\S.*)$/gm)];
        assert.ok(terms.length > 2, help);
        for (const [, term, words] of terms) {
            assert.ok(text.includes(term), `${name}: ${term}`);
            assert.ok(text.includes(words.replace(/\s+/g, ' ')), `${name}: ${words}`);
        }
    }
    const text = await rendered('sandboxctl');
    const { stdout } = await run(path.join(binFolder(), 'sandboxctl'), ['--help']);
    for (const [, command] of stdout.matchAll(/^ {2}(\S+) /gm)) {
        const own = await must(path.join(binFolder(), 'sandboxctl'), [command, '--help']);
        for (const [, option] of own.matchAll(/^ {2}.{4}(--\S+)/gm))
            assert.ok(text.includes(option), `${command} ${option}`);
    }
    const settings = await must(path.join(binFolder(), 'sandbox-supervisord'), ['--print-config'], { env: { PATH: process.env.PATH, HOME: os.tmpdir() } });
    const supervisor = await rendered('sandbox-supervisord');
    for (const [, setting] of settings.matchAll(/^([a-z]\w*\.\w+) = [^{].* # (?:default|file|environment \w+): /gm))
        assert.ok(supervisor.includes(setting), setting);
});
