// acp-host.mjs TASK PROGRAM [ARGUMENT…]: drives an agent that speaks the Agent Client Protocol through one prompt, as an editor does, allows
// what it asks, and prints what it says.
import { spawn } from 'node:child_process';
import readline from 'node:readline';

const [task, program, ...args] = process.argv.slice(2);
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const waiting = new Map();
const send = message => child.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
let ids = 0;

function request(method, params) {
    return new Promise((resolve, reject) => {
        const id = ids++;
        waiting.set(id, { resolve, reject });
        send({ id, method, params });
    });
}

function answer({ id, method, params }) {
    if (method !== 'session/request_permission')
        return send({ id, error: { code: -32601, message: 'not here' } });
    const option = params.options.find(one => one.kind.startsWith('allow')) ?? params.options[0];
    return send({ id, result: { outcome: { outcome: 'selected', optionId: option.optionId } } });
}

readline.createInterface({ input: child.stdout }).on('line', line => {
    const message = JSON.parse(line);
    if (message.method && message.id !== undefined) {
        answer(message);
    } else if (message.method) {
        const update = message.params?.update;
        if (update?.sessionUpdate === 'agent_message_chunk')
            process.stdout.write(update.content.text ?? '');
    } else {
        const one = waiting.get(message.id);
        waiting.delete(message.id);
        if (message.error)
            one?.reject(new Error(JSON.stringify(message.error)));
        else
            one?.resolve(message.result);
    }
});
child.on('exit', code => {
    for (const one of waiting.values())
        one.reject(new Error(`the agent ended with ${code}`));
});

try {
    await request('initialize', { protocolVersion: 1, clientCapabilities: {} });
    const { sessionId } = await request('session/new', { cwd: process.cwd(), mcpServers: [] });
    await request('session/prompt', { sessionId, prompt: [{ type: 'text', text: task }] });
} catch (error) {
    console.error(error.message);
    process.exitCode = 1;
}
child.stdin.end();
child.kill(); // the end of its input is not enough for each
