// quickstart-client.mjs SANDBOX_MCP REPOSITORY FILE: what an MCP client does, by hand and in the open: starts sandbox-mcp, hands over
// one task, writes the run's id to FILE, follows it, and prints the result and the web address. Exit status 0 when the run
// completed and changed something. With LAB_RECORD, a folder, what both say to each other is written down there.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';

const [program, repository, file] = process.argv.slice(2);
const task = 'The test of range_sum fails. Find out why, fix it and commit the change on a new branch.';

const recorder = process.env.LAB_RECORD
    ? [process.execPath, fileURLToPath(new URL('system/mcp-recorder.mjs', import.meta.url)), process.env.LAB_RECORD] : [];
const [command, ...args] = [...recorder, program];
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const waiting = new Map();
let ids = 0;
readline.createInterface({ input: child.stdout }).on('line', line => {
    const message = JSON.parse(line);
    const one = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error)
        one?.reject(new Error(message.error.message));
    else
        one?.resolve(message.result);
});
child.on('exit', code => {
    for (const one of waiting.values())
        one.reject(new Error(`sandbox-mcp ended with ${code}`));
});

function request(method, params) {
    return new Promise((resolve, reject) => {
        const id = ids++;
        waiting.set(id, { resolve, reject });
        child.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n');
    });
}

async function tool(name, args) {
    const result = await request('tools/call', { name, arguments: args });
    if (result.isError)
        throw new Error(result.content.map(part => part.text).join('\n'));
    return result.structuredContent;
}

// At a word's end.
function shortened(line, length) {
    const cut = line.slice(0, length).replace(/\s+\S*$/, '');
    return line.length <= length ? line : `${cut} …`;
}

function httpStatus(address) {
    return new Promise((resolve, reject) => {
        http.get(address, response => {
            response.resume();
            resolve(response.statusCode);
        }).on('error', reject);
    });
}

async function main() {
    await request('initialize', { protocolVersion: '2025-11-25', capabilities: {},
        clientInfo: { name: 'quickstart', version: '1' } });
    child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');

    const asked = performance.now();
    const started = await tool('opencode_run_task', { task, repository });
    console.log(`Task: ${task}`);
    console.log(`${started.runId} was acknowledged after ${Math.round(performance.now() - asked)} ms.`);
    console.log(`Watch it: ${started.webUiUrl}`);
    fs.writeFileSync(file, started.runId); // at once: who breaks off can cancel it

    const ended = ['completed', 'failed', 'cancelled', 'interrupted'];
    const steps = ['text', 'tool', 'question', 'permission', 'refused', 'retry', 'error'];
    let seen = 0;
    let where = '';
    let view;
    do {
        view = await tool('opencode_get_result', { runId: started.runId, waitSeconds: 1 });
        if (view.phase && !ended.includes(view.status) && view.phase !== where)
            console.log(`  ${where = view.phase}`);
        for (let more = true; more; ) {
            const log = await tool('opencode_get_log', { runId: started.runId, after: seen });
            for (const step of log.events.filter(one => steps.includes(one.kind) && one.text))
                console.log(`    ${shortened(step.text.split('\n')[0], 100)}`);
            more = log.hasMore && log.cursor > seen;
            seen = log.cursor;
        }
    } while (!ended.includes(view.status));
    console.log(`  ${view.status}`);

    console.log(`\nResult: ${view.result?.output ?? ''}`);
    if (view.result?.error)
        console.log(`Error: ${view.result.error.message}\n${view.result.error.hint ?? ''}`);
    if (view.verdict)
        console.log(`Verdict: ${view.verdict}${view.evidence?.branch ? `, on branch ${view.evidence.branch}` : ''}`);
    const status = await httpStatus(started.webUiUrl);
    console.log(`Web page: ${started.webUiUrl} (answers ${status})`);
    return view.status === 'completed' && view.verdict === 'changed' && status === 200;
}

try {
    process.exitCode = await main() ? 0 : 1;
    child.stdin.end();
} catch (error) {
    console.error(error.message);
    child.kill();
    process.exitCode = 1;
}
