// A server that says of itself that it is OpenCode, and fails as that can't be made to fail. Node in OpenCode's place is started as
// `PROGRAM serve --hostname … --port …`, in the repository: so this file lies there as serve.js, beside mode.json, {"starts":[MODE…]}:
// how each process of a session behaves at its start, good ones behind the last. What happens to a prompt is a word in it.
const fs = require('fs');
const http = require('http');
const path = require('path');

const home = process.env.HOME;
const countFile = path.join(home, 'starts');
const starts = fs.existsSync(countFile) ? Number(fs.readFileSync(countFile, 'utf8')) : 0;
fs.writeFileSync(countFile, String(starts + 1));
const { modes = [] } = JSON.parse(fs.readFileSync(path.join(__dirname, 'mode.json'), 'utf8'));
const mode = modes[starts] ?? 'good';
const futureFile = path.join(home, 'future');

if (mode === 'exits') {
    console.error('fatal: the fake has no wish to start');
    process.exit(3);
}

const session = 'ses_fake';
let stream = null;
let refuseStream = false;
let busy = false;
let messages = [];
const send = (type, properties) => stream?.write(`data: ${JSON.stringify({ id: 'evt_1', type, properties: { sessionID: session, ...properties } })}\n\n`);
const status = type => send('session.status', { status: { type } });

function begin(id) {
    busy = true;
    const info = { id, role: 'user', sessionID: session, time: { created: Date.now() } };
    messages.push({ info, parts: [] });
    send('message.updated', { info });
    status('busy');
}

function finish(id, words, reason = 'stop') {
    const answer = `${id}a`;
    const info = { id: answer, parentID: id, role: 'assistant', sessionID: session, finish: reason, cost: 0,
        tokens: { input: 1, output: 1, reasoning: 0, cache: { read: 0, write: 0 } }, time: { created: Date.now(), completed: Date.now() } };
    const parts = words ? [{ id: `${answer}p`, type: 'text', sessionID: session, messageID: answer, text: words, time: { start: 1, end: 2 } }] : [];
    messages.push({ info, parts });
    parts.forEach(part => send('message.part.updated', { part }));
    send('message.updated', { info });
    busy = false;
    status('idle');
    send('session.idle', {});
}

// What was said before still arrives.
function loseStream() {
    const lost = stream;
    stream = null;
    lost.write('\n', () => lost.destroy());
}

let asked = null;
const prompts = {
    'FAKE-IGNORED': () => {},
    'FAKE-STREAM-LOST': id => {
        begin(id);
        refuseStream = true;
        loseStream();
    },
    'FAKE-STREAM-DROPS': id => {
        begin(id);
        loseStream();
        finish(id, 'said while nobody listened');
    },
    'FAKE-FUTURE': id => {
        begin(id);
        fs.writeFileSync(futureFile, '');
        finish(id, 'from now on the clock is behind');
    },
    'FAKE-PERMISSION': id => {
        begin(id);
        asked = { id: 'per_fake', sessionID: session, permission: 'bash', patterns: ['rm'], metadata: { command: 'rm -rf /' }, always: [] };
        asked.message = id;
        send('permission.asked', asked);
    },
    'FAKE-SILENT': id => begin(id),
};

function answerPermission({ reply, message }) {
    const { message: id } = asked;
    send('permission.replied', { requestID: asked.id, reply });
    asked = null;
    if (reply !== 'reject')
        finish(id, 'allowed');
    else if (message)
        finish(id, `went on, told: ${message}`);
    else
        finish(id, '', 'tool-calls');
}

function route(request, body) {
    const { pathname } = new URL(request.url, 'http://fake');
    if (pathname === '/global/health')
        return { healthy: true, version: mode === 'version 2' ? '2.0.1' : '1.18.33' };
    if (pathname === '/project/current')
        return { id: 'fake', vcs: 'git' };
    if (pathname === '/session' || pathname === `/session/${session}`)
        return { id: session };
    if (pathname === '/session/status')
        return busy ? { [session]: { type: 'busy' } } : {};
    if (pathname.endsWith('/message')) {
        if (fs.existsSync(futureFile) && !messages.length)
            return [{ info: { id: 'msg_0', role: 'user', sessionID: session, time: { created: Date.now() + 3600000 } }, parts: [] }];
        return messages;
    }
    if (pathname.endsWith('/children') || pathname === '/question')
        return [];
    if (pathname === '/permission')
        return asked ? [asked] : [];
    if (pathname.startsWith('/permission/')) {
        answerPermission(JSON.parse(body));
        return true;
    }
    if (pathname.endsWith('/abort')) {
        busy = false;
        setImmediate(() => { status('idle'); send('session.idle', {}); });
        return true;
    }
    return null;
}

// Pages of its own beside it: what they take is theirs.
const pagesFile = path.join(__dirname, 'pages.js');
const pages = fs.existsSync(pagesFile) ? require(pagesFile) : () => false;

const server = http.createServer((request, response) => {
    if (pages(request, response))
        return;
    const parts = [];
    request.on('data', part => parts.push(part));
    request.on('end', () => {
        const body = Buffer.concat(parts).toString();
        if (request.url.startsWith('/event')) {
            if (refuseStream) {
                request.socket.destroy();
                return;
            }
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            stream = response;
            stream.write('data: {"id":"evt_0","type":"server.connected","properties":{}}\n\n');
            return;
        }
        if (request.url.includes('/prompt_async')) {
            response.writeHead(204).end();
            const { messageID, parts: [{ text }] } = JSON.parse(body);
            const word = /FAKE-[A-Z-]+/.exec(text)?.[0];
            (prompts[word] ?? (id => { begin(id); finish(id, 'well done'); }))(messageID);
            return;
        }
        const answer = JSON.stringify(route(request, body));
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(answer) });
        response.end(answer);
    });
});
if (pages.upgrade)
    server.on('upgrade', pages.upgrade);
setInterval(() => stream?.write('data: {"type":"server.heartbeat","properties":{}}\n\n'), 10000);
if (mode !== 'never')
    server.listen(4096, '127.0.0.1', () => console.log('opencode server listening on http://127.0.0.1:4096'));
