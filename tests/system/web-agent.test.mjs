// An agent's own pages, under a name of their own: what a browser sees of them, that nothing of ours is theirs, and what a sandbox
// may answer to get there.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';
import { Browser, screenshot } from './browser.mjs';
import { fakeOpencode, hostilePagesRepository } from './fakes.mjs';
import { statusNumber, waitFor, withLab } from './lab.mjs';
import { ask, own, raw } from './web-client.mjs';

const liveLink = async (lab, id) => new URL((await waitFor('its agent has pages', async () => {
    const answer = await lab.ctl(['web', '--live', '--json', id]);
    return answer.code === 0 && JSON.parse(answer.stdout);
}, 300000, 200)).url);

// A browser that was signed in to a run's agent: {port, host, cookie, headers}, headers being what a page there sends.
async function signIn(lab, runId) {
    const url = await liveLink(lab, runId);
    const port = Number(url.port);
    const body = JSON.stringify({ code: url.hash.slice(1) });
    const at = { host: url.host, origin: url.origin, 'content-type': 'application/json' };
    assert.equal((await ask(port, '/login', { method: 'POST', headers: own(port), body })).status, 403, 'not on our own pages');
    const answer = await ask(port, '/login', { method: 'POST', headers: at, body });
    assert.equal(answer.status, 200, answer.text);
    const [cookie, ...rules] = answer.headers['set-cookie'][0].split('; ');
    assert.deepEqual(rules.sort(), ['HttpOnly', 'Max-Age=43200', 'Path=/', 'SameSite=Strict'], 'for this host only');
    assert.equal((await ask(port, '/login', { method: 'POST', headers: at, body })).status, 403, 'once');
    return { port, host: url.host, origin: url.origin, cookie, page: JSON.parse(answer.text).location, headers: { host: url.host, cookie } };
}

async function boardOf(lab) {
    const url = new URL((await lab.ctlJson(['web'])).url);
    const port = Number(url.port);
    const answer = await ask(port, '/login', { method: 'POST', headers: own(port), body: JSON.stringify({ code: url.hash.slice(1) }) });
    return { prefix: JSON.parse(answer.text).location.replace(/\/$/, ''), cookie: answer.headers['set-cookie'][0].split('; ')[0] };
}

const settings = { model: false, agent: false, config: () => ({ agents: { startSeconds: 60, ...fakeOpencode } }) };

async function startFake(lab, mcp, name) {
    const repository = await hostilePagesRepository(lab, name);
    return mcp.tool('opencode_run_task', { task: 'FAKE-SILENT', repository });
}

test('who may see an agent\'s own pages, and what they may do', { timeout: 600000 }, () => withLab(settings, async lab => {
    const mcp = await lab.connect();
    const one = await startFake(lab, mcp, 'one');
    const two = await startFake(lab, mcp, 'two');
    const first = await signIn(lab, one.runId);
    const second = await signIn(lab, two.runId);
    const board = await boardOf(lab);
    const { port, host, origin, headers } = first;
    assert.notEqual(first.host, second.host);
    assert.match(first.page, /^\/L3dvcmtzcGFjZS9[\w-]+\/session\/ses_fake$/);

    // What reaches the agent is the request, and our word that it may; nothing of the browser's.
    const noise = { origin, referer: `${origin}/x`, 'user-agent': 'Browser/1', 'x-forwarded-for': '10.0.0.1', 'accept-language': 'de', authorization: 'Basic AAAA', 'x-opencode-directory': '/workspace' };
    const seen = await ask(port, '/echo/x?directory=%2Fa', { headers: { ...headers, ...noise, 'sec-fetch-site': 'same-origin' } });
    assert.equal(seen.status, 200, seen.text);
    const heard = JSON.parse(seen.text);
    assert.equal(heard.url, '/echo/x?directory=%2Fa');
    const names = heard.headers.filter((_, i) => i % 2 === 0).map(name => name.toLowerCase()).sort();
    assert.deepEqual(names, ['authorization', 'connection', 'host', 'x-opencode-directory']);
    const password = heard.headers[heard.headers.indexOf('Authorization') + 1];
    assert.match(password, /^Basic [\w+/]{40,}=*$/);
    for (const [path, more] of [['/raw/cookie', {}], ['/raw/password', {}], ['/echo', { method: 'HEAD' }], ['/login', {}]])
        assert.ok(!JSON.stringify(await ask(port, path, { headers, ...more })).includes(password.slice(6)), path);
    const posted = await ask(port, '/echo/post', { method: 'POST', headers: { ...headers, origin, 'content-type': 'application/json' }, body: '{"a":1}' });
    assert.equal(JSON.parse(posted.text).text, '{"a":1}');
    const chunked = await ask(port, '/echo/chunks', { method: 'PUT', headers: { ...headers, origin, 'transfer-encoding': 'chunked' }, body: 'in pieces' });
    assert.equal(JSON.parse(chunked.text).text, 'in pieces');

    // Nobody without the cookie of this very session.
    for (const wrong of ['', second.cookie, board.cookie, `${first.cookie}; ${first.cookie}`, first.cookie.slice(0, -1) + (first.cookie.endsWith('A') ? 'B' : 'A')]) {
        const answer = await ask(port, '/echo', { headers: { host, cookie: wrong } });
        assert.equal(answer.status, 403, wrong);
        assert.equal(JSON.parse(answer.text).error.code, 'denied');
        assert.match((await ask(port, '/echo', { headers: { host, cookie: wrong, accept: 'text/html' } })).text, /not signed in/);
    }
    assert.equal((await ask(port, '/echo', { headers: { ...headers, host: second.host } })).status, 403);
    assert.equal((await ask(port, `${board.prefix}/api/runs`, { headers: { cookie: first.cookie } })).status, 403, 'and it opens nothing of ours');

    // No name that is like it.
    const [label, zone] = [host.split('.')[0], host.slice(host.indexOf('.'))];
    for (const like of [`x.${host}`, `${label}x${zone}`, `${label.slice(0, -1)}${label.endsWith('0') ? '1' : '0'}${zone}`, `${label.slice(0, 26)}${zone}`, `${label}.localhost:1`, `${label}.localhost`,
        `${label}.localhost.:${port}`, `${label}.localhost.example:${port}`, `${label}.example:${port}`, `${label.toUpperCase()}${zone}`, `localhost.${port}`, `ses_${label}${zone}`])
        assert.equal((await ask(port, '/echo', { headers: { ...headers, host: like } })).status, 421, like);

    // No page but its own: neither reads nor does.
    const body = '{}';
    for (const from of [{ origin: second.origin }, { origin: `http://127.0.0.1:${port}` }, { origin: 'null' }, { origin: `https://${host}` }, { origin: `${origin}x` }, { origin, 'sec-fetch-site': 'cross-site' },
        { origin, 'sec-fetch-site': 'same-site' }, {}])
        assert.equal((await ask(port, '/echo', { method: 'POST', headers: { ...headers, ...from }, body })).status, 403, JSON.stringify(from));
    for (const from of [{ 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }, { origin: second.origin }, { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'cors' }])
        assert.equal((await ask(port, '/echo', { headers: { ...headers, ...from } })).status, 403, JSON.stringify(from));
    assert.equal((await ask(port, '/echo', { headers: { ...headers, 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' } })).status, 200, 'typed');
    for (const file of ['/echo', '/login', '/static/base.js'])
        assert.equal((await ask(port, file, { headers: { ...headers, 'service-worker': 'script' } })).status, 403, file);
    for (const method of ['OPTIONS', 'TRACE', 'PROPFIND'])
        assert.equal((await ask(port, '/echo', { method, headers })).status, 405, method);

    // Its pages get nothing of ours, whatever the browser sends along with what they ask for.
    const api = `${board.prefix}/api/runs/${one.runId}`;
    for (const site of ['cross-site', 'same-site'])
        assert.equal((await ask(port, api, { headers: { cookie: board.cookie, origin, 'sec-fetch-site': site } })).status, 403);
    assert.equal((await ask(port, `${api}/cancel`, { method: 'POST', headers: { cookie: board.cookie, origin, 'content-type': 'application/json' }, body })).status, 403);
    const ours = await ask(port, api, { headers: { cookie: board.cookie } });
    assert.equal(JSON.parse(ours.text).agentPages, true);
    assert.equal(ours.headers['access-control-allow-origin'], undefined);

    // Paths are the agent's, byte for byte, except the few that are ours.
    for (const path of ['//elsewhere', '/%2e%2e/login', '/../login', '/login/../echo', '/login?x', '/static/%2e%2e/x', `${board.prefix}/api/runs`, '/api/runs', '/?auth_token=AAAA', '/\\x'.replace('\\', '%5c')])
        assert.equal(JSON.parse((await ask(port, path, { headers })).text).url ?? path, path);
    for (const target of ['http://127.0.0.1:1/', '*', `http://${host}/echo`])
        assert.match(await raw(port, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${first.cookie}\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 4\d\d /, target);
    assert.match(await raw(port, `CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${first.cookie}\r\n\r\n`), /^HTTP\/1\.1 405 /);
    const smuggled = await raw(port, `POST /echo HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\nCookie: ${first.cookie}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /`);
    assert.match(smuggled, /^HTTP\/1\.1 400 /);

    // Our page leads there, and a run's link alone doesn't.
    const way = await ask(port, `${board.prefix}/runs/${one.runId}/agent`, { headers: { cookie: board.cookie } });
    assert.equal(way.status, 303);
    assert.match(way.headers.location, new RegExp(`^http://${host}/login#[\\w-]{43}$`));
    const token = new URL(one.webUiUrl).searchParams.get('token');
    assert.equal((await ask(port, `/runs/${one.runId}/agent?token=${token}`)).status, 404);
    const assistant = await mcp.tool('opencode_get_result', { runId: one.runId });
    assert.equal(new URL(assistant.webUiUrl).hostname, '127.0.0.1', 'an assistant is given our own page');
    for (const params of [{ live: true }, { live: true, runId: 'run_00000000000000000000000000' }])
        assert.notEqual((await lab.ctl(['call', 'web.link', JSON.stringify(params)])).code, 0);
}));

test('what a sandbox answers stays within its pages', { timeout: 600000 }, () => withLab(settings, async lab => {
    const mcp = await lab.connect();
    const one = await startFake(lab, mcp, 'one');
    const { port, host, origin, headers } = await signIn(lab, one.runId);
    const other = await signIn(lab, (await startFake(lab, mcp, 'two')).runId);
    const pid = await lab.supervisorPid();

    const plain = await ask(port, '/raw/cookie', { headers });
    assert.deepEqual([plain.status, plain.text], [200, 'ok']);
    for (const name of ['set-cookie', 'access-control-allow-origin', 'access-control-allow-credentials', 'refresh', 'clear-site-data', 'link', 'service-worker-allowed', 'alt-svc'])
        assert.equal(plain.headers[name], undefined, name);
    assert.equal(plain.headers['x-frame-options'], 'DENY');
    assert.match(plain.headers['content-security-policy'], /default-src 'self';.*connect-src 'self' ws:.*frame-ancestors 'none'; sandbox /);
    assert.ok(!/\*|https?:/.test(plain.headers['content-security-policy']));
    assert.equal((await ask(port, '/raw/here', { headers })).headers.location, '/echo/here');
    for (const name of ['away', 'away-too', 'away-back', 'away-twice', 'nowhere', 'password', 'huge', 'lengths', 'both', 'bare', 'split', 'garbage', 'upgrade', 'flood']) {
        const answer = await ask(port, `/raw/${name}`, { headers });
        assert.equal(answer.status, 502, name);
        assert.ok(!JSON.stringify(answer.headers).includes('elsewhere') && !('www-authenticate' in answer.headers), name);
        assert.equal(JSON.parse(answer.text).error.code, 'agent_answer', name);
    }
    for (const name of ['chunks', 'short'])
        await assert.rejects(ask(port, `/raw/${name}`, { headers }), name);
    assert.equal((await ask(port, '/raw/more', { headers })).text, 'ok', 'what follows is nobody\'s');

    // Events come one by one, and end with their reader.
    const listen = path => new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port, path, headers, agent: false }, resolve).on('error', reject));
    const stream = await listen('/drip');
    let text = '';
    stream.setEncoding('utf8').on('data', part => { text += part; }).on('error', () => {});
    await waitFor('the first event', () => text === 'data: first\n\n', 20000, 20);
    assert.equal((await ask(port, '/drop', { headers })).text, '"dropped"');
    await waitFor('the second', () => text.endsWith('data: second\n\n'), 20000, 20);
    stream.destroy();
    assert.equal((await ask(port, '/told-gone', { headers })).text, '"gone"', 'the agent hears that nobody listens');

    // A WebSocket is bytes both ways; from another page there is none.
    const shake = more => `GET /socket HTTP/1.1\r\nHost: ${host}\r\nCookie: ${headers.cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
        `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n${more}\r\n`;
    const socket = net.connect(port, '127.0.0.1', () => socket.write(shake(`Origin: ${origin}\r\n`)));
    let said = '';
    socket.setEncoding('latin1').on('data', part => { said += part; });
    const socketClosed = new Promise(resolve => socket.on('close', resolve));
    await waitFor('it is open', () => /\r\n\r\n.*\]/s.test(said), 20000, 20);
    assert.match(said, /^HTTP\/1\.1 101 .*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/s);
    assert.ok(!/Set-Cookie|permessage|Origin|Cookie/i.test(said), said);
    socket.write('louder');
    await waitFor('it answers', () => said.endsWith('LOUDER'), 20000, 20);
    socket.end();
    await socketClosed;
    assert.ok(said.endsWith('bye'), said);
    for (const more of [`Origin: http://127.0.0.1:${port}\r\n`, 'Origin: null\r\n', `Origin: ${origin}\r\nSec-Fetch-Site: cross-site\r\n`])
        assert.match(await raw(port, shake(`${more}Connection: close\r\n`)), /^HTTP\/1\.1 403 /, more);

    // Readers that don't read and agents that don't either hold little.
    const before = statusNumber(pid, 'VmRSS');
    const stuck = [];
    for (let i = 0; i < 20; i++) {
        const socket = net.connect(port, '127.0.0.1').on('error', () => {});
        stuck.push(socket);
        if (i % 2) {
            socket.write(`GET /flood HTTP/1.1\r\nHost: ${host}\r\nCookie: ${headers.cookie}\r\n\r\n`);
            socket.once('data', () => socket.pause());
        } else {
            socket.write(`POST /stuffed HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\nCookie: ${headers.cookie}\r\nContent-Length: 300000000\r\n\r\n`);
            const part = Buffer.alloc(1 << 20, 'y');
            const more = () => { while (socket.write(part)) socket.sent = (socket.sent ?? 0) + 1; };
            socket.on('drain', more);
            more();
        }
    }
    assert.equal(JSON.parse((await ask(port, '/echo/still', { headers })).text).url, '/echo/still');
    const whole = await listen('/flood');
    let bytes = 0;
    for await (const part of whole)
        bytes += part.length;
    assert.equal(bytes, 200 << 20, 'a reader that reads gets it all');
    const grown = statusNumber(pid, 'VmRSS') - before;
    console.log(`# 20 that are stuck and 200 MB: ${grown} kB`);
    assert.ok(grown < 60 << 10, `${grown} kB`);
    stuck.forEach(socket => socket.destroy());

    // There is an end to how many.
    const held = [];
    for (let i = 0; i < 140; i++) {
        const answer = await listen('/drip');
        answer.on('error', () => {}).resume();
        if (answer.statusCode === 503)
            break;
        held.push(answer);
    }
    // The ten that the agent takes nothing of may still be there.
    assert.ok(held.length >= 54 && held.length <= 64, `${held.length}`);
    assert.equal((await ask(port, '/echo', { headers: other.headers })).status, 200, 'another session has its own');
    held.forEach(answer => answer.destroy());
    await waitFor('more are taken again', async () => (await ask(port, '/echo', { headers })).status === 200, 20000, 100);
    // Also at once: then some are turned away, and the agent's driver isn't.
    await Promise.all(Array.from({ length: 100 }, () => ask(port, '/echo', { headers }).then(answer => assert.ok([200, 503].includes(answer.status), answer.text))));
    assert.equal((await lab.ctlJson(['get', one.runId])).status, 'running');

    // The run's end is theirs, and says so.
    const last = await listen('/drip');
    const cut = new Promise(resolve => last.on('error', resolve).on('close', resolve).resume());
    assert.equal((await lab.ctl(['cancel', one.runId])).code, 0);
    await cut;
    assert.equal(last.complete, false, 'a stream that was cut doesn\'t look whole');
    await lab.ended(one.runId);
    const over = await ask(port, '/echo', { headers: { ...headers, accept: 'text/html' } });
    assert.equal(over.status, 503);
    assert.match(over.text, new RegExp(`Not live.*href="http://127\\.0\\.0\\.1:${port}/#${one.sessionId}"`, 's'));
    assert.equal(JSON.parse((await ask(port, '/echo', { headers })).text).error.code, 'not_live');
    const gone = await lab.ctl(['web', '--live', one.runId]);
    assert.notEqual(gone.code, 0);
    assert.match(gone.stderr, /no agent that has pages of its own is at work/);
}));

test('OpenCode\'s own pages of a live run', { timeout: 900000 }, () => withLab({ config: () => ({ agents: { startSeconds: 300 } }) }, async lab => {
    const browser = new Browser();
    try {
        await browser.start();
        const mcp = await lab.connect();
        const run = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD please', repository: await lab.repository(), title: 'Held for a look' });
        const context = await browser.context();
        const board = await browser.signIn(lab, context, [run.runId]);
        const open = board.getByRole('link', { name: 'Open in OpenCode' });
        await open.waitFor({ timeout: 300000 });
        // OpenCode's page may miss what comes between its first look and its first event.
        await board.locator('.ev.text', { hasText: 'I will change a file and wait.' }).waitFor({ timeout: 300000 });
        const [page] = await Promise.all([context.waitForEvent('page'), open.click()]);
        await page.waitForURL(/\/session\/ses_/);
        assert.match(new URL(page.url()).hostname, /^[0-9a-z]{26}-[0-9a-f]{16}\.localhost$/);
        await page.getByText('I will change a file and wait.').waitFor({ timeout: 120000 });
        await screenshot(page, 'opencode-live');

        assert.deepEqual(browser.problems, [], 'its rules are in the way of nothing that the page does');

        // Whatever runs there reaches neither us nor anyone else, and sees no cookie.
        const tries = await page.evaluate(async addresses => {
            const reach = url => fetch(url, { credentials: 'include', mode: 'no-cors' }).then(answer => answer.type, () => 'refused');
            const opened = window.open('about:blank');
            const frame = document.createElement('iframe');
            frame.src = addresses[0];
            document.body.append(frame);
            return { reached: await Promise.all(addresses.map(reach)), cookie: document.cookie.includes('sandbox'), opened: opened === null,
                worker: (await Promise.all(['/assets/x.js', '/static/base.js'].map(file => navigator.serviceWorker.register(file, { type: 'module', updateViaCache: 'all' })
                    .then(() => 'registered', () => 'refused')))).join(), opener: window.opener === null };
        }, [`${new URL(board.url()).origin}/api/runs`, 'http://127.0.0.1:1/', 'http://localhost/']);
        assert.deepEqual(tries, { reached: ['refused', 'refused', 'refused'], cookie: false, opened: true, worker: 'refused,refused', opener: true });
        browser.problems.length = 0; // the browser has said what it refused
        const listens = page.waitForResponse(answer => answer.url().endsWith('/global/event'), { timeout: 120000 });
        await page.reload();
        await page.getByText('I will change a file and wait.').waitFor({ timeout: 120000 });
        await listens;

        // Its terminal has a connection.
        const heard = await page.evaluate(async () => {
            const directory = '?directory=/workspace/sample_1';
            const made = await fetch(`/pty${directory}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ command: '/bin/sh' }) });
            const { id } = await made.json();
            const socket = new WebSocket(`ws://${location.host}/pty/${id}/connect${directory}`);
            return new Promise((resolve, reject) => {
                let text = '';
                socket.onopen = () => socket.send('echo terminal-$((40 + 2))\r');
                socket.onerror = () => reject(new Error(`no connection ${made.status}`));
                socket.onmessage = async ({ data }) => {
                    text += typeof data === 'string' ? data : await new Response(data).text();
                    if (text.includes('terminal-42'))
                        resolve('terminal-42');
                };
                setTimeout(() => reject(new Error(text)), 60000);
            });
        });
        assert.equal(heard, 'terminal-42');

        // It is live: what is said to the agent comes by itself.
        // Its own look at the conversation may be older than an event that came meanwhile, and win: so more than one is said.
        let number = 0;
        await waitFor('a word shows up', async () => {
            number++;
            assert.equal((await lab.ctl(['send', run.runId, `TASK-HOLD and word ${number} in between`])).code, 0);
            return page.getByText(`and word ${number} in between`).first().waitFor({ timeout: 10000 }).then(() => true, () => false);
        }, 120000, 100);
        await lab.exec(run.runId, ['touch', '/tmp/release']);
        await lab.ended(run.runId, 300000);
        await open.waitFor({ state: 'hidden' });
        await page.reload();
        await page.getByRole('heading', { name: 'Not live' }).waitFor();
        await screenshot(page, 'opencode-over');
        await page.getByRole('link', { name: 'Open the session\'s page' }).click();
        await page.getByRole('heading', { name: 'Held for a look' }).waitFor();
        assert.equal(new URL(page.url()).hostname, '127.0.0.1');
        assert.deepEqual(browser.problems.filter(one => !/ERR_CONNECTION_RESET|Failed to fetch|network error/i.test(one)), []);
    } finally {
        await browser.stop();
    }
}));
