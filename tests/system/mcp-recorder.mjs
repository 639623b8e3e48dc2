// mcp-recorder.mjs FOLDER PROGRAM: stands between a client and PROGRAM, passes on bytes, signals and the exit, and writes each
// line of both directions to a file in FOLDER.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const [folder, program, ...args] = process.argv.slice(2);
const file = fs.openSync(path.join(folder, `mcp-${process.pid}-${Date.now()}.jsonl`), 'a');
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });

function record(from) {
    let rest = '';
    return bytes => {
        const lines = (rest + bytes.toString('latin1')).split('\n');
        rest = lines.pop();
        for (const line of lines)
            fs.writeSync(file, JSON.stringify([from, Buffer.from(line, 'latin1').toString()]) + '\n');
    };
}
const fromClient = record('client');
const fromServer = record('server');

process.stdin.on('data', bytes => { fromClient(bytes); child.stdin.write(bytes); });
process.stdin.on('end', () => child.stdin.end());
child.stdin.on('error', () => {});
child.stdout.on('data', bytes => { fromServer(bytes); process.stdout.write(bytes); });
process.stdout.on('error', () => child.kill('SIGTERM'));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => child.kill(signal));
child.on('close', (code, signal) => {
    process.exitCode = code ?? 1;
    if (signal)
        process.kill(process.pid, 'SIGKILL');
    process.stdin.destroy();
});
