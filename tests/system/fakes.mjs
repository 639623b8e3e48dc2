// fakes.mjs: programs of our own in the place of real ones, for what those can't be made to do. An agent is a script that node runs in
// the real sandbox, out of the run's repository.
import fs from 'node:fs';
import path from 'node:path';
import { must, testsFolder } from './lab.mjs';

async function repositoryOf(lab, name, files) {
    const folder = path.join(lab.repositories, name);
    fs.mkdirSync(folder);
    for (const [file, text] of Object.entries(files))
        fs.writeFileSync(path.join(folder, file), text);
    const git = ['-c', 'user.name=lab', '-c', 'user.email=lab@example.invalid', '-C', folder];
    await must('git', ['init', '-q', '-b', 'main', folder]);
    await must('git', [...git, 'add', '-A']);
    await must('git', [...git, 'commit', '-q', '-m', 'A fake']);
    return folder;
}

const fake = name => fs.readFileSync(path.join(testsFolder, 'fake', name));

// For runs of the agent `opencode` where this is configured. MODES: how each process of a session behaves at its start.
export const fakeOpencode = { opencode: { path: process.execPath } };
export const fakeOpencodeRepository = (lab, name, modes = [], more = {}) =>
    repositoryOf(lab, name, { 'serve.js': fake('opencode-serve.js'), 'mode.json': JSON.stringify({ modes }), ...more });
// The same, whose server also has the pages of tests/fake/hostile-pages.js.
export const hostilePagesRepository = (lab, name) => fakeOpencodeRepository(lab, name, [], { 'pages.js': fake('hostile-pages.js') });

// For runs of the agent `mine`.
export const fakeAcp = { mine: { program: process.execPath, arguments: ['acp.js'], services: [] } };
export const fakeAcpRepository = (lab, name) => repositoryOf(lab, name, { 'acp.js': fake('acp-agent.js') });

// A program that takes its time, in place of bubblewrap. The session's own user has to get there.
export function slowTool(lab) {
    const file = lab.path('work', 'slow-bwrap');
    fs.writeFileSync(file, '#!/bin/sh\nexec sleep 3600\n', { mode: 0o755 });
    fs.chmodSync(lab.root, 0o711);
    fs.chmodSync(lab.path('work'), 0o711);
    return file;
}
