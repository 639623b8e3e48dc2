// check_format.mjs [ROOT]: the C files look as .clang-format says. Skipped (77) without clang-format 14, whose output is the measure.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesOf, folders, isC } from './source.mjs';

const root = process.argv[2] ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const program = ['clang-format-14', 'clang-format'].find(name => / version 14\./.test(spawnSync(name, ['--version'], { encoding: 'utf8' }).stdout ?? ''));
if (!program) {
    console.log('clang-format 14 is not here');
    process.exit(77);
}
const files = filesOf(root, [...folders, 'tests/harness', 'tests/unit', 'tests/fuzz', 'tests/fake', 'tests/fault', 'tests/bench'], isC);
const wrong = files.filter(file => spawnSync(program, ['--dry-run', '-Werror', file], { cwd: root }).status !== 0);
for (const file of wrong)
    console.error(`${file}: run clang-format -i on it`);
process.exitCode = wrong.length ? 1 : 0;
