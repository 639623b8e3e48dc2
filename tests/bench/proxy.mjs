// proxy.mjs: what a request costs through the credential proxy, beside nginx and mitmproxy in the same run: all put a key into the
// request and speak TLS to the same upstream. Each number is the median over interleaved rounds; goals are ratios to nginx. Prints
// JSON lines, and ends with 1 when a goal is missed.
//
// Environment (set by run.sh): BENCH_BIN, the folder of bench_proxy and bench_load. ROUNDS, REQUESTS, STREAMS change the size.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { freePort } from '../system/lab.mjs';

const bin = process.env.BENCH_BIN ?? '';
const rounds = Number(process.env.ROUNDS ?? 7);
const requests = Number(process.env.REQUESTS ?? 2000);
const streams = Number(process.env.STREAMS ?? 200);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bench-proxy-'));
const file = name => path.join(folder, name);
const key = 'sk-bench-0123456789abcdefghijklmnopqrstuvwxyz';
const children = [];
let missed = 0;

const say = line => console.log(JSON.stringify(line));
const sum = numbers => numbers.reduce((a, b) => a + b, 0);
const median = numbers => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const round = number => Number(number.toPrecision(4));

// An upstream of events, in a process of its own: each says when it was written.
if (process.argv[2] === 'events') {
    const [port, cert, certKey] = process.argv.slice(3);
    https.createServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(certKey), ALPNProtocols: ['http/1.1'] }, (request, response) => {
        const url = new URL(request.url, 'https://localhost');
        let left = Number(url.searchParams.get('n'));
        const every = Number(url.searchParams.get('ms'));
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.socket.setNoDelay(true);
        const send = () => {
            response.write(`data: t=${process.hrtime.bigint()};${'x'.repeat(150)}\n\n`);
            if (--left > 0)
                timer = setTimeout(send, every);
        };
        let timer = setTimeout(send, 1);
        response.on('close', () => clearTimeout(timer));
    }).listen(Number(port), '127.0.0.1');
    await new Promise(() => {});
}

function have(program) {
    try {
        execFileSync('sh', ['-c', `command -v ${program}`]);
        return true;
    } catch {
        return false;
    }
}

// CPU: which processor it is kept on, so that what is measured has one to itself.
function start(cpu, program, args, options = {}) {
    const child = spawn('taskset', ['-c', String(cpu), program, ...args], { stdio: ['pipe', 'pipe', 'inherit'], cwd: folder, ...options });
    children.push(child);
    return child;
}

async function listening(port) {
    for (let i = 0; i < 600; i++) {
        const open = await new Promise(resolve => {
            const socket = net.connect({ port, host: '127.0.0.1' });
            socket.once('connect', () => { socket.destroy(); resolve(true); });
            socket.once('error', () => resolve(false));
        });
        if (open)
            return;
        await new Promise(resolve => setTimeout(resolve, 50));
    }
    throw new Error(`nothing listens on port ${port}`);
}

// The process and its children; times are exact, in nanoseconds of processor.
function tree(pid) {
    const all = [pid];
    for (const one of fs.readdirSync('/proc').filter(name => /^\d+$/.test(name)).map(Number)) {
        try {
            if (Number(/\) \S (\d+)/.exec(fs.readFileSync(`/proc/${one}/stat`, 'utf8'))[1]) === pid)
                all.push(...tree(one));
        } catch { /* it is gone */ }
    }
    return all;
}
const cpuNs = pid => sum(tree(pid).flatMap(one => fs.readdirSync(`/proc/${one}/task`).map(task =>
    Number(fs.readFileSync(`/proc/${one}/task/${task}/schedstat`, 'utf8').split(' ')[0]))));
const pssKb = pid => sum(tree(pid).map(one => Number(/^Pss:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${one}/smaps_rollup`, 'utf8'))[1])));

const load = (proxy, target, mode, connections, count) => start(0, path.join(bin, 'bench_load'),
    [String(proxy.port), proxy.header, proxy.paths[target.name] + target.path, mode, String(connections), String(count)]);

async function measure(proxy, target, mode, connections, count) {
    const before = cpuNs(proxy.pid);
    const child = load(proxy, target, mode, connections, count);
    const lines = [];
    child.stdout.on('data', data => lines.push(data));
    const [code] = await once(child, 'close');
    if (code !== 0)
        throw new Error(`${proxy.name}: bench_load ended with ${code}`);
    const result = JSON.parse(Buffer.concat(lines).toString());
    return { ...result, cpuNs: cpuNs(proxy.pid) - before };
}

function goal(name, value, limit, atLeast = false) {
    const met = atLeast ? value >= limit : value <= limit;
    missed += met ? 0 : 1;
    say({ goal: name, ratio: round(value), limit, met });
}

function writeFiles() {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=localhost',
        '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', file('key.pem'), '-out', file('cert.pem')], { stdio: 'ignore' });
    fs.mkdirSync(file('www'));
    fs.writeFileSync(file('www/small.json'), JSON.stringify({ text: 'x'.repeat(1000) }));
    fs.writeFileSync(file('www/large.bin'), Buffer.alloc(64 << 20, 7));
    fs.mkdirSync(file('state'), { mode: 0o700 });
}

function nginxConfig(name, body) {
    const user = process.getuid() === 0 ? 'user root;' : '';
    fs.writeFileSync(file(`${name}.conf`), `${user} worker_processes 1; daemon off; pid ${file(`${name}.pid`)}; error_log stderr crit;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 10000000; client_body_temp_path ${file('body')}; proxy_temp_path ${file('proxy')};
fastcgi_temp_path ${file('f')}; uwsgi_temp_path ${file('u')}; scgi_temp_path ${file('s')};
${body} }\n`);
    return ['-c', file(`${name}.conf`), '-e', 'stderr'];
}

async function startAll() {
    const [files, events, own, nginx, mitm] = [await freePort(), await freePort(), await freePort(), await freePort(), await freePort()];
    const proxies = [];
    start(0, 'nginx', nginxConfig('upstream', `server { listen 127.0.0.1:${files} ssl backlog=4096; ssl_certificate ${file('cert.pem')};
        ssl_certificate_key ${file('key.pem')}; ssl_protocols TLSv1.3; root ${file('www')}; sendfile on; }`));
    start(0, process.execPath, [process.argv[1], 'events', String(events), file('cert.pem'), file('key.pem')]);
    await listening(files);
    await listening(events);

    const ours = start(1, path.join(bin, 'bench_proxy'), [file('state'), String(own), file('cert.pem'), `files=https://localhost:${files}`,
        `events=https://localhost:${events}`]);
    const [token] = await once(readline.createInterface({ input: ours.stdout }), 'line');
    proxies.push({ name: 'sandbox-mcp', port: own, pid: ours.pid, header: `authorization: Bearer ${token}`,
        paths: { files: '/proxy/files', events: '/proxy/events' } });

    const upstream = (name, port) => `upstream ${name} { server 127.0.0.1:${port}; keepalive 64; keepalive_requests 10000000; }`;
    const place = name => `location /${name}/ { proxy_pass https://${name}/; proxy_http_version 1.1; proxy_set_header Connection "";
        proxy_set_header Authorization "Bearer ${key}"; proxy_ssl_verify on; proxy_ssl_trusted_certificate ${file('cert.pem')};
        proxy_ssl_protocols TLSv1.3; proxy_ssl_name localhost; proxy_ssl_server_name on; proxy_max_temp_file_size 0; proxy_buffering ${name === 'events' ? 'off' : 'on'}; }`;
    const peer = start(1, 'nginx', nginxConfig('peer', `${upstream('files', files)} ${upstream('events', events)}
        server { listen 127.0.0.1:${nginx} backlog=4096; ${place('files')} ${place('events')} }`));
    proxies.push({ name: 'nginx', port: nginx, pid: peer.pid, header: 'accept: */*', paths: { files: '/files', events: '/events' } });
    await listening(nginx);

    if (have('mitmdump')) {
        const slow = start(1, 'mitmdump', ['-q', '--mode', `reverse:https://localhost:${files}`, '--listen-host', '127.0.0.1', '--listen-port', String(mitm),
            '--modify-headers', `/~q/authorization/Bearer ${key}`, '--set', `ssl_verify_upstream_trusted_ca=${file('cert.pem')}`,
            '--set', `confdir=${file('mitm')}`, '--set', 'stream_large_bodies=1m']);
        proxies.push({ name: 'mitmproxy', port: mitm, pid: slow.pid, header: 'accept: */*', paths: { files: '' }, slow: true });
        await listening(mitm);
    }
    return proxies;
}

const small = { name: 'files', path: '/small.json' };
const large = { name: 'files', path: '/large.bin' };

// What is measured: name, target, mode, connections, count, and what is made of a result.
const cases = [
    { name: 'alone', target: small, mode: 'requests', connections: 1, count: requests,
        make: one => ({ p50Us: one.p50Us, p99Us: one.p99Us, cpuUs: one.cpuNs / 1e3 / one.count }) },
    { name: 'crowd', target: small, mode: 'requests', connections: 64, count: requests * 5,
        make: one => ({ perSecond: one.count / one.seconds, p50Us: one.p50Us, cpuUs: one.cpuNs / 1e3 / one.count }) },
    { name: 'large', target: large, mode: 'requests', connections: 1, count: 4,
        make: one => ({ mbPerSecond: one.bytes / one.seconds / 1e6, cpuSPerGb: one.cpuNs / one.bytes }) },
    { name: 'stream', target: { name: 'events', path: '/sse?n=200&ms=5' }, mode: 'events', connections: 1, count: 200,
        make: one => ({ delayP50Us: one.p50Us, delayP99Us: one.p99Us, cpuUs: one.cpuNs / 1e3 / one.count }) },
    { name: 'streams', target: { name: 'events', path: '/sse?n=50&ms=20' }, mode: 'events', connections: 50, count: 50,
        make: one => ({ delayP50Us: one.p50Us, delayP99Us: one.p99Us, cpuUs: one.cpuNs / 1e3 / one.count }) },
];

async function idleKb(proxy) {
    const before = pssKb(proxy.pid);
    const child = load(proxy, { name: 'events', path: '/sse?n=1&ms=1' }, 'hold', streams, 0);
    await once(readline.createInterface({ input: child.stdout }), 'line');
    const after = pssKb(proxy.pid);
    child.stdin.end();
    await once(child, 'close');
    return (after - before) / streams;
}

async function main() {
    writeFiles();
    const proxies = await startAll();
    const results = {};
    say({ machine: { cpu: os.cpus()[0].model, processors: os.cpus().length, kernel: os.release(), load: os.loadavg().map(round) },
        rounds, requests, streams, peers: { nginx: execFileSync('sh', ['-c', 'nginx -v 2>&1'], { encoding: 'utf8' }).trim() } });
    for (const one of cases) {
        const samples = Object.fromEntries(proxies.map(proxy => [proxy.name, []]));
        for (let i = 0; i <= rounds; i++) {
            for (const proxy of proxies.filter(each => each.paths[one.target.name] !== undefined && !(each.slow && i > 3))) {
                const result = await measure(proxy, one.target, one.mode, one.connections, proxy.slow ? Math.ceil(one.count / 10) : one.count);
                if (i > 0) // the first round warms up
                    samples[proxy.name].push(one.make(result));
            }
        }
        for (const proxy of proxies.filter(each => samples[each.name].length > 0)) {
            const all = samples[proxy.name];
            const middle = Object.fromEntries(Object.keys(all[0]).map(name => [name, round(median(all.map(each => each[name])))]));
            (results[one.name] ??= {})[proxy.name] = middle;
            say({ case: one.name, proxy: proxy.name, ...middle });
        }
    }
    results.idle = {};
    for (const proxy of proxies.filter(each => each.paths.events !== undefined)) {
        results.idle[proxy.name] = { kbPerStream: round(await idleKb(proxy)) };
        say({ case: 'idle', proxy: proxy.name, ...results.idle[proxy.name] });
    }
    say({ loadAtEnd: os.loadavg().map(round) });
    const ratio = (name, what, peer = 'nginx') => results[name]['sandbox-mcp'][what] / results[name][peer][what];
    goal('median latency alone, against nginx', ratio('alone', 'p50Us'), 1.15);
    goal('CPU per request alone', ratio('alone', 'cpuUs'), 1.25);
    goal('CPU per request, 64 in flight', ratio('crowd', 'cpuUs'), 1.5);
    goal('requests per second, 64 in flight', ratio('crowd', 'perSecond'), 0.75, true);
    goal('64 MiB, MB per second', ratio('large', 'mbPerSecond'), 0.9, true);
    goal('delay of an event, one stream', ratio('stream', 'delayP50Us'), 1.3);
    goal('memory per idle stream', ratio('idle', 'kbPerStream'), 2);
    if (results.crowd.mitmproxy)
        goal('requests per second, against mitmproxy', ratio('crowd', 'perSecond', 'mitmproxy'), 20, true);
}

try {
    await main();
} finally {
    for (const child of children)
        child.kill('SIGTERM');
    fs.rmSync(folder, { recursive: true, force: true });
}
process.exitCode = missed > 0 ? 1 : 0;
process.exit();
