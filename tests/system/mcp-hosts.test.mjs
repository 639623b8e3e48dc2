// The hosts that people use, as far as they start without an account: each is given a scripted model, which starts a run
// through the host's own MCP client, looks for it in the list, and is told what came back. A host that is not installed is
// left out (SANDBOX_CODEX: the program of Codex, which is too large to be installed for this; SANDBOX_CLAUDE: another Claude Code).
// Codex takes part in any case in the form that editors start, which reads the same configuration and has the same MCP client.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { canConnect, freePort, nodeModules, run, waitFor, withLab } from './lab.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const inModules = (...names) => path.join(nodeModules, ...names);
const json = (...names) => value => {
    const file = path.join(...names);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
    return file;
};

const codex = process.env.SANDBOX_CODEX ?? inModules('@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex');
const toml = values => Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join('');

// Its tools have a namespace, of which the scripted model knows nothing.
const codexTools = { prefix: '', change: text => text.replaceAll('"type":"function_call",', '"type":"function_call","namespace":"mcp__sandbox",') };
function configureCodex({ server, home, base }) {
    json(home, '.codex/config.toml')(toml({ model: 'lab', model_provider: 'lab', approval_policy: 'never' }) +
        `[model_providers.lab]\n${toml({ name: 'lab', base_url: `${base}/v1`, wire_api: 'responses' })}` +
        `[mcp_servers.sandbox]\n${toml({ command: server.command, args: server.args })}[mcp_servers.sandbox.env]\n${toml(server.env)}`);
}

// How each is told of the server and the model: PREFIX before the tools' names, FILE that must be there, ARGS and ENV.
const hosts = {
    'Claude Code': {
        prefix: 'mcp__sandbox__', file: process.env.SANDBOX_CLAUDE ?? inModules('@anthropic-ai/claude-agent-sdk/cli.js'),
        start: ({ server, home, base, task }) => ({
            args: ['-p', task, '--strict-mcp-config', '--allowedTools', 'mcp__sandbox__opencode_run_task,mcp__sandbox__opencode_list_runs',
                '--mcp-config', json(home, 'mcp.json')({ mcpServers: { sandbox: server } })],
            env: { ANTHROPIC_BASE_URL: base, ANTHROPIC_API_KEY: 'none', ENABLE_TOOL_SEARCH: 'false', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
        }),
    },
    'OpenCode': {
        prefix: 'sandbox_', file: inModules('opencode-linux-x64/bin/opencode'),
        start: ({ server, cwd, base, task }) => {
            json(cwd, 'opencode.json')({ model: 'lab/model', share: 'disabled', autoupdate: false,
                provider: { lab: { npm: '@ai-sdk/openai-compatible', options: { baseURL: `${base}/v1`, apiKey: 'none' }, models: { model: {} } } },
                mcp: { sandbox: { type: 'local', command: [server.command, ...server.args], environment: server.env } } });
            return { args: ['run', task], env: {} };
        },
    },
    'Gemini CLI': {
        prefix: 'mcp_sandbox_', file: inModules('@google/gemini-cli/bundle/gemini.js'),
        start: ({ server, home, base, task }) => {
            json(home, '.gemini/settings.json')({ mcpServers: { sandbox: server }, security: { auth: { selectedType: 'gemini-api-key' } } });
            return { args: ['-m', 'gemini-2.5-flash', '-p', task, '--approval-mode', 'yolo'],
                env: { GEMINI_API_KEY: 'none', GEMINI_CLI_TRUST_WORKSPACE: 'true', GOOGLE_GEMINI_BASE_URL: base } };
        },
    },
    'Codex': {
        ...codexTools, file: codex,
        start: options => {
            configureCodex(options);
            return { args: ['exec', '--skip-git-repo-check', options.task], env: {} };
        },
    },
    'Codex in an editor': {
        ...codexTools, file: path.join(here, 'acp-host.mjs'),
        start: options => {
            configureCodex(options);
            return { args: [options.task, inModules('@zed-industries/codex-acp-linux-x64/bin/codex-acp')], env: {} };
        },
    },
};

// The scripted model, behind a face that notes what it is sent and may change its answers.
async function startModel(lab, fixtures, change) {
    const port = await freePort();
    const file = json(lab.path('work'), 'model/host.json')({ fixtures });
    const model = spawn(process.execPath, [inModules('@copilotkit/aimock/dist/cli.js'), '-p', `${port}`, '-f', file, '--log-level', 'warn'],
        { env: { PATH: process.env.PATH, SANDBOX_LAB: lab.id }, stdio: 'ignore' });
    const exited = once(model, 'exit');
    await waitFor('the scripted model listens', () => canConnect({ port, host: '127.0.0.1' }));
    const bodies = [];
    const face = http.createServer(async (request, response) => {
        const parts = [];
        for await (const part of request)
            parts.push(part);
        bodies.push(Buffer.concat(parts).toString());
        const onward = http.request({ host: '127.0.0.1', port, method: request.method, path: request.url, headers: request.headers }, reply => {
            const { 'content-length': ignored, ...headers } = reply.headers;
            response.writeHead(reply.statusCode, headers);
            reply.setEncoding('utf8').on('data', text => response.write(change ? change(text) : text)).on('end', () => response.end());
        });
        onward.on('error', () => response.destroy());
        onward.end(Buffer.concat(parts));
    });
    face.listen(0, '127.0.0.1');
    await once(face, 'listening');
    const stop = async () => {
        face.close();
        face.closeAllConnections();
        model.kill();
        await exited;
    };
    return { base: `http://127.0.0.1:${face.address().port}`, bodies, stop };
}

for (const [name, host] of Object.entries(hosts)) {
    test(name, { timeout: 240000, skip: !fs.existsSync(host.file) && 'not installed' }, () => withLab({ model: false, agent: false }, async lab => {
        const say = (when, toolCalls) => ({ match: { userMessage: 'HOST-TASK', ...when }, response: { content: 'Going on.', toolCalls } });
        const model = await startModel(lab, [
            say({ hasToolResult: false }, [{ id: 'call_host_1', name: `${host.prefix}opencode_run_task`, arguments: { task: 'echo by a host', agent: 'shell', title: 'By a host' } }]),
            say({ toolCallId: 'call_host_1' }, [{ id: 'call_host_2', name: `${host.prefix}opencode_list_runs`, arguments: { limit: 5 } }]),
            { match: { userMessage: 'HOST-TASK', toolCallId: 'call_host_2' }, response: { content: 'HOST-DONE' } },
        ], host.change);
        try {
            const cwd = lab.path('work', 'host');
            fs.mkdirSync(cwd);
            fs.mkdirSync(lab.path('work', 'tmp'));
            const server = { ...lab.recorded, env: lab.env() };
            const { args, env } = host.start({ server, cwd, home: lab.path('home'), base: model.base, task: 'HOST-TASK please' });
            const isScript = /\.m?js$/.test(host.file);
            const result = await run(isScript ? process.execPath : host.file, isScript ? [host.file, ...args] : args, { cwd, timeoutMs: 200000,
                env: { PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`, HOME: lab.path('home'), TMPDIR: lab.path('work', 'tmp'), SANDBOX_LAB: lab.id, ...env } });
            const shown = `${result.code}: ${result.stdout.slice(-2000)}${result.stderr.slice(-2000)}`;
            assert.match(result.stdout, /HOST-DONE/, shown);
            const { runs } = await lab.ctlJson(['list']);
            assert.equal(runs.length, 1, shown);
            assert.equal(runs[0].title, 'By a host');
            // The instructions reach the model, and what the tools said.
            assert.ok(model.bodies.some(body => body.includes('waitSeconds 45')), 'the model was not told how to work with the tools');
            assert.ok(model.bodies.filter(body => body.includes(runs[0].runId)).length >= 2, 'the model did not hear the run\'s id twice');
            assert.equal((await lab.ended(runs[0].runId)).status, 'completed');
        } finally {
            await model.stop();
        }
    }));
}
