// What reaches the web pages from elsewhere: other names and other sites, used links, others' tokens and cookies, paths that
// mean something else, heads without end, readers that don't read, more pages than anyone opens.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';
import { run, statusNumber, waitFor, withLab } from './lab.mjs';
import { ask, own, raw } from './web-client.mjs';

// A browser that was signed in: {port, prefix, cookie}.
async function signIn(lab) {
    const url = new URL((await lab.ctlJson(['web'])).url);
    const port = Number(url.port);
    const answer = await ask(port, '/login', { method: 'POST', headers: own(port), body: JSON.stringify({ code: url.hash.slice(1) }) });
    assert.equal(answer.status, 200, answer.text);
    const [cookie, ...rules] = answer.headers['set-cookie'][0].split('; ');
    const prefix = JSON.parse(answer.text).location.replace(/\/$/, '');
    assert.deepEqual(rules.filter(rule => !rule.startsWith('Max-Age=')).sort(), ['HttpOnly', `Path=${prefix}/`, 'SameSite=Strict']);
    return { port, prefix, cookie, code: url.hash.slice(1), headers: { cookie } };
}

test('who may see and do what', { timeout: 600000 }, () => withLab({ model: false, agent: false }, async lab => {
    const one = await lab.startScript('echo MARKER-ONE');
    const two = await lab.startScript('echo MARKER-TWO');
    await lab.ended(one.runId);
    await lab.ended(two.runId);
    const { port, prefix, cookie, code, headers } = await signIn(lab);
    const api = `${prefix}/api/runs/${one.runId}`;
    const link = new URL(one.webUiUrl);
    const token = link.searchParams.get('token');

    const board = await ask(port, `${prefix}/api/runs`, { headers });
    assert.equal(board.status, 200);
    assert.deepEqual(JSON.parse(board.text).runs.map(item => item.run.runId), [two.runId, one.runId]);
    assert.ok(!board.text.includes('token='), 'links of runs are nothing that a board needs');

    // Links: none, a wrong one, the used one, and one for the assistant.
    for (const body of ['{}', '{"code":""}', `{"code":"${'A'.repeat(43)}"}`, `{"code":"${code}"}`, '{"token":"guess"}', 'no json', ''])
        assert.ok([400, 403].includes((await ask(port, '/login', { method: 'POST', headers: own(port), body })).status), body);
    const shut = await lab.ctl(['call', 'web.link', JSON.stringify({ runId: 'run_00000000000000000000000000' })]);
    assert.equal(shut.code, 4, shut.stderr);

    // Cookies: none, another's, twice, elsewhere.
    for (const wrong of ['', cookie.slice(0, -1) + (cookie.endsWith('A') ? 'B' : 'A'), `${cookie}; ${cookie}`, cookie.replace(/-\d+=/, '-1=')])
        assert.equal((await ask(port, api, { headers: { cookie: wrong } })).status, 403, wrong);
    assert.equal((await ask(port, `/api/runs/${one.runId}`, { headers })).status, 403);
    assert.equal((await ask(port, `/w/${'A'.repeat(16)}/api/runs`, { headers })).status, 404);

    // A run's link opens that run, and nothing that is not its own.
    assert.equal((await ask(port, `/api/runs/${one.runId}?token=${token}`)).status, 200);
    for (const path of [`/api/runs/${two.runId}`, `${prefix}/api/runs`, `${prefix}/api/runs/${one.runId}`, `/api/runs`, `/api/audit`, `/api/sessions/${one.sessionId}`])
        assert.ok((await ask(port, `${path}?token=${token}`)).status >= 403, path);
    const refused = await ask(port, `/api/runs/${two.runId}/cancel`, { method: 'POST', headers: { ...own(port), 'x-token': token }, body: '{}' });
    assert.equal(refused.status, 403);

    // Other names, and other sites' pages.
    for (const host of ['evil.example', `evil.example:${port}`, `127.0.0.1.evil.example:${port}`, '127.0.0.1', `[::2]:${port}`, `10.0.0.1:${port}`])
        for (const path of ['/', '/login', `${prefix}/`, api, '/static/app.js'])
            assert.equal((await ask(port, path, { headers: { ...headers, host } })).status, 421, `${host} ${path}`);
    for (const foreign of [{ origin: 'http://evil.example' }, { origin: 'null' }, {}, { origin: `http://127.0.0.1:${port + 1}` }, { ...own(port), 'sec-fetch-site': 'same-site' }]) {
        for (const path of [`${api}/cancel`, `${api}/send`, `${prefix}/api/sessions/${one.sessionId}/delete`, `${prefix}/api/logout`, '/login'])
            assert.equal((await ask(port, path, { method: 'POST', headers: { ...headers, ...foreign }, body: '{"message":"x"}' })).status, 403, JSON.stringify(foreign) + path);
    }
    for (const site of ['cross-site', 'same-site'])
        assert.equal((await ask(port, `${prefix}/api/runs`, { headers: { ...headers, 'sec-fetch-site': site } })).status, 403);
    const { runs } = await lab.ctlJson(['list']);
    assert.equal(runs.length, 2, 'nothing was done');

    // Paths that would mean something else after decoding.
    for (const path of ['/../web.key', '/static/../web.key', '/static/%2e%2e/web.key', '/static//etc/passwd', `${prefix}/../api/runs`, `${prefix}//api/runs`,
        `${prefix}/api/runs/${one.runId}/../${two.runId}`, `${prefix}/api/runs/${one.runId}%2fdiff`, `${prefix}/api/runs/${one.runId.toUpperCase()}`, `${prefix}/api/runs/run_`,
        `${prefix}/api/runs/${one.runId}/diff/`, `/w/../${prefix}/api/runs`, `${prefix}%2fapi/runs`, `http://127.0.0.1:${port}${prefix}/api/runs`, `//${prefix}/api/runs`, '*']) {
        const answer = await raw(port, `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`);
        assert.match(answer, /^HTTP\/1\.1 4\d\d /, path);
        assert.ok(!answer.includes('MARKER'), path);
    }
    assert.match(await raw(port, `GET ${prefix}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nCookie: ${cookie}\r\nX-Long: ${'x'.repeat(10 << 20)}\r\n\r\n`), /^(HTTP\/1\.1 431 |$)/);
    const large = await ask(port, `${api}/send`, { method: 'POST', headers: { ...headers, ...own(port) }, body: JSON.stringify({ message: 'x'.repeat(600000) }) }).catch(error => error);
    assert.ok(large.status === 413 || large.code === 'EPIPE' || large.code === 'ECONNRESET', JSON.stringify(large));
    for (const body of ['{"message":""}', '{"message":1}', '{}', '[]', '{"message":"a","mode":"loud"}', '{"message":"\\ud800"}', `{"message":"${'x'.repeat(50001)}"}`])
        assert.equal((await ask(port, `${api}/send`, { method: 'POST', headers: { ...headers, ...own(port) }, body })).status, 400, body.slice(0, 60));

    // A browser is started with the name of a private file, since arguments are for all to see.
    const bin = lab.path('work', 'bin');
    fs.mkdirSync(bin);
    fs.writeFileSync(`${bin}/xdg-open`, `#!/bin/sh\nprintf %s "$1" >'${lab.path('work', 'opened')}'\n`, { mode: 0o755 });
    const terminal = await run('script', ['-qec', `'${lab.program('sandboxctl')}' web ${one.runId}`, '/dev/null'], { env: lab.env({ PATH: `${bin}:${process.env.PATH}`, DISPLAY: ':9' }), cwd: lab.path('work') });
    assert.equal(terminal.code, 0, terminal.stdout + terminal.stderr);
    assert.match(terminal.stdout, /opened in your browser/);
    const opened = fs.readFileSync(lab.path('work', 'opened'), 'utf8');
    assert.ok(!opened.includes('#') && opened.startsWith(lab.state), opened);
    assert.equal(fs.statSync(opened).mode & 0o777, 0o600);
    const [, address] = /http-equiv=refresh content="0;url=([^"]+)"/.exec(fs.readFileSync(opened, 'utf8'));
    assert.ok(terminal.stdout.includes(address));
    const landed = await ask(port, '/login', { method: 'POST', headers: own(port), body: JSON.stringify({ code: new URL(address).hash.slice(1) }) });
    assert.equal(JSON.parse(landed.text).location, `${prefix}/runs/${one.runId}`);

    // Signed out is signed out; another browser stays.
    const other = await signIn(lab);
    assert.equal((await ask(port, `${prefix}/api/logout`, { method: 'POST', headers: { ...headers, ...own(port) } })).status, 200);
    assert.equal((await ask(port, `${prefix}/api/runs`, { headers })).status, 403);
    assert.equal((await ask(port, `${prefix}/api/runs`, { headers: other.headers })).status, 200);
    // A session goes on over a restart, and is nowhere in the clear.
    await lab.ctl(['stop']);
    await lab.supervisor.exited;
    await lab.startSupervisor();
    assert.equal((await ask(port, `${prefix}/api/runs`, { headers: other.headers })).status, 200);
    const secrets = [other.cookie.split('=')[1], other.code];
    for (const file of lab.files())
        assert.ok(!secrets.some(secret => fs.readFileSync(file).includes(secret)), file);
}));

test('other machines are served with a token only', { timeout: 300000 }, () => withLab({ model: false, agent: false, secret: false,
    config: () => ({ web: { remoteListen: '127.0.0.1', names: ['box.lan'] } }) }, async lab => {
    const said = async () => lab.log('supervisor');
    assert.match(await said(), /the pages stay on this machine: web\.remoteListen wants the secret WEB_TOKEN/);
    const port = Number(new URL((await lab.ctlJson(['web'])).url).port);
    assert.equal((await ask(port, '/', { headers: { host: `box.lan:${port}` } })).status, 421);
    const token = 'a token of more than twenty characters';
    assert.equal((await lab.ctl(['secret', 'set', 'WEB_TOKEN'], { input: token })).code, 0);
    await lab.ctl(['stop']);
    await lab.supervisor.exited;
    await lab.startSupervisor();
    assert.match(await said(), /may be reached from other machines, in the clear/);
    assert.equal((await ask(port, '/', { headers: { host: `box.lan:${port}` } })).status, 200);
    assert.equal((await ask(port, '/', { headers: { host: `192.0.2.7:${port}` } })).status, 200);
    assert.equal((await ask(port, '/', { headers: { host: `evil.example:${port}` } })).status, 421);
    const login = (body, host = `box.lan:${port}`, origin = `http://${host}`) => ask(port, '/login', { method: 'POST', headers: { host, origin }, body: JSON.stringify({ token: body }) });
    assert.equal((await login(token, `box.lan:${port}`, 'http://evil.example')).status, 403);
    assert.equal((await login(token, `box.lan:${port}`, `http://192.0.2.7:${port}`)).status, 403);
    const right = await login(token);
    assert.equal(right.status, 200, right.text);
    const { location } = JSON.parse(right.text);
    assert.equal((await ask(port, `${location}api/runs`, { headers: { host: `box.lan:${port}`, cookie: right.headers['set-cookie'][0].split(';')[0] } })).status, 200);
    assert.equal((await login(`${token}x`)).status, 403);
    assert.equal((await login(token)).status, 429);
    assert.ok((await lab.ctlJson(['status'])).webUrl.startsWith('http://box.lan:'));
}));

test('two hundred pages, slow ones among them, cost little', { timeout: 600000 }, () => withLab({ bin: 'release', model: false, agent: false }, async lab => {
    const { port, prefix, headers } = await signIn(lab);
    const pid = await lab.supervisorPid();
    const long = await lab.startScript('while [ ! -e /tmp/go ]; do sleep 0.1; done; seq 4000 | sed "s/$/ $(printf "%0900d" 0)/"');
    await waitFor('it works', async () => (await lab.ctlJson(['get', long.runId])).status === 'running', 60000, 200);
    const before = statusNumber(pid, 'VmRSS');
    const open = (path, reads) => new Promise((resolve, reject) => {
        const socket = net.connect(port, '127.0.0.1', () => socket.write(`GET ${prefix}${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nCookie: ${headers.cookie}\r\n\r\n`));
        socket.text = '';
        socket.setEncoding('latin1');
        socket.once('data', part => {
            socket.text = part;
            if (!reads)
                socket.pause();
            resolve(socket);
        });
        socket.on('data', part => { socket.text = (socket.text + part).slice(-20000); });
        socket.on('error', reject);
    });
    const sockets = [];
    for (let i = 0; i < 200; i++)
        sockets.push(await open(i % 2 ? '/api/feed' : `/api/runs/${long.runId}/events`, i % 10 !== 0));
    // And clients that never end their heads.
    const idle = Array.from({ length: 50 }, () => net.connect(port, '127.0.0.1').on('error', () => {}));
    idle.forEach(socket => socket.write('GET / HT'));
    await lab.exec(long.runId, ['touch', '/tmp/go']);
    await lab.ended(long.runId);
    await waitFor('every page that reads knows the end', () => sockets.every((socket, i) => i % 10 === 0 || /completed/.test(socket.text)), 120000, 100);
    assert.equal((await ask(port, `${prefix}/api/runs`, { headers })).status, 200);
    const grown = statusNumber(pid, 'VmRSS') - before;
    console.log(`# 200 pages: ${grown} kB`);
    // Kept for the twenty that don't read it would be 80 MB.
    assert.ok(grown < 40 << 10, `200 pages of a run that wrote 4 MB took ${grown} kB`);
    // There is an end to it.
    const live = sockets.filter(socket => !socket.closed).length;
    const more = [];
    for (let i = 0; i < 260 - Math.floor(live / 2) && !more.some(socket => / 503 /.test(socket.text)); i++)
        more.push(await open('/api/feed', true));
    assert.ok(more.some(socket => / 503 /.test(socket.text)), `${live} and ${more.length} more were open`);
    [...sockets, ...idle, ...more].forEach(socket => socket.destroy());
    await waitFor('places are free again', async () => {
        const socket = await open('/api/feed', true);
        socket.destroy();
        return / 200 /.test(socket.text);
    }, 20000, 100);
}));
