// acp-agents.mjs: the agents that speak the Agent Client Protocol, installed as a user has them, and a lab in which all of their
// providers are the scripted model with one secret.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { nodeModules, rangeTask, withLab } from './lab.mjs';

function modules(lab, { name }) {
    fs.mkdirSync(lab.path('data/agents', name), { recursive: true });
    fs.symlinkSync(nodeModules, lab.path('data/agents', name, 'node_modules'));
}

function program(lab, name, command, file) {
    const binary = path.join(nodeModules, file);
    assert.ok(fs.existsSync(binary), `${binary} is missing: run sh tests/run.sh, which installs it`);
    fs.mkdirSync(lab.path('data/agents', name, 'bin'), { recursive: true });
    fs.symlinkSync(binary, lab.path('data/agents', name, 'bin', command));
}

// install: where an installation has it, below the data folder; key: the header that carries its provider's key;
// models: the one that it has where the default is another provider's, and one that a run names.
export const agents = [
    { name: 'claude-code', task: 'AGENT-CLAUDE', again: 'AGENT-AGAIN', service: 'anthropic', key: 'x-api-key', install: modules },
    { name: 'codex', task: 'AGENT-CODEX', again: 'AGENT-AGAIN', service: 'openai', key: 'authorization', models: ['gpt-5.4', 'gpt-5-mini'], install: lab =>
        program(lab, 'codex', 'codex-acp', '@zed-industries/codex-acp-linux-x64/bin/codex-acp') },
    { name: 'gemini', task: 'AGENT-GEMINI', again: 'AGENT-AGAIN', service: 'google', key: 'x-goog-api-key', install: modules },
    { name: 'opencode-acp', task: rangeTask, again: 'AGENT-AGAIN', service: 'anthropic', key: 'x-api-key', install: () => {} },
];

const config = (lab, changes) => ({
    services: Object.fromEntries(['anthropic', 'openai', 'google'].map(name => [name, { target: `http://127.0.0.1:${lab.upstream.port}` }])),
    ...changes });
// The node that runs the tests is the one that the agents get: it is on PATH here as it is on a user's machine.
export const env = { PATH: `${path.dirname(process.execPath)}:${process.env.PATH}` };

export const withAgents = (changes, body) => withLab({ config: lab => config(lab, changes), env }, async lab => {
    for (const one of agents)
        one.install(lab, one);
    for (const name of ['OPENAI_API_KEY', 'GOOGLE_API_KEY'])
        await lab.setSecret(lab.secret, name);
    await body(lab);
});
