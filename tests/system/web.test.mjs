// The page of a run: reachable by its link only, and it shows what happens while it happens.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { waitFor, withLab } from './lab.mjs';

function get(address, { headers = {}, method = 'GET', body } = {}) {
    return new Promise((resolve, reject) => {
        const request = http.request(address, { method, headers, setHost: !('host' in headers) }, response => {
            let text = '';
            response.setEncoding('utf8').on('data', part => { text += part; });
            response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
        });
        request.on('error', reject);
        request.end(body);
    });
}

// Collects the events of a stream until ENOUGH says so, or it ends.
function events(address, { headers = {}, enough = () => false } = {}) {
    return new Promise((resolve, reject) => {
        const found = [];
        const request = http.get(address, { headers }, response => {
            if (response.statusCode !== 200)
                return reject(new Error(`status ${response.statusCode}`));
            let rest = '';
            const finish = () => { resolve(found); request.destroy(); };
            response.setEncoding('utf8').on('data', part => {
                const blocks = (rest + part).split('\n\n');
                rest = blocks.pop();
                for (const block of blocks) {
                    const event = {};
                    for (const line of block.split('\n')) {
                        const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
                        if (name)
                            event[name] = name === 'data' ? (event.data ?? '') + value : value;
                    }
                    if (event.data && !event.event) // those with a name tell how the run stands
                        found.push(event);
                }
                if (enough(found))
                    finish();
            });
            response.on('end', finish);
            response.on('error', () => {});
        });
        request.on('error', error => found.length || reject(error));
    });
}

test('page, guard and live events', { timeout: 600000 }, () => withLab({}, async lab => {
    const mcp = await lab.connect();
    const { runId, webUiUrl } = await mcp.tool('opencode_run_task', { task: 'TASK-HOLD <b>please</b>', repository: await lab.repository() });
    const url = new URL(webUiUrl);

    const page = await get(webUiUrl);
    assert.equal(page.status, 200);
    assert.match(page.headers['content-type'], /^text\/html/);
    assert.match(page.headers['content-security-policy'], /default-src/);
    assert.match(page.headers['cache-control'], /no-store/);
    assert.equal(page.headers['referrer-policy'], 'no-referrer');
    assert.ok(!page.text.includes('<b>please</b>'));

    // The page's script gets what it shows from /api/runs/…, with the same token.
    const token = url.searchParams.get('token') ?? url.hash.replace(/^#(token=)?/, '');
    assert.ok(token.length >= 16, webUiUrl);
    const stream = new URL(webUiUrl);
    stream.hash = '';
    stream.pathname = `/api${stream.pathname}/events`;
    stream.searchParams.set('token', token);

    // Events arrive while the run goes on, and come again from any number on.
    const early = await events(stream, { enough: found => found.some(event => /HOLDING|held\.txt|Wait to be released|change a file/.test(event.data)) });
    assert.ok(early.length > 2);
    assert.ok(early.every(event => event.id));
    const end = events(stream);
    await waitFor('the agent holds', async () => (await lab.exec(runId, ['test', '-e', 'held.txt'])).code === 0, 240000, 200);
    await lab.exec(runId, ['touch', '/tmp/release']);
    const all = await end;
    assert.match(JSON.stringify(all), /completed/);
    assert.ok(all.length > early.length);
    const again = await events(stream, { headers: { 'last-event-id': all[2].id } });
    assert.deepEqual(again.map(event => event.id), all.slice(3).map(event => event.id));
    assert.equal((await mcp.result(runId)).status, 'completed');

    // Everything else is refused: another Host (a name that an attacker points at loopback), no or a wrong token, another run's token.
    const host = url.host;
    for (const wrong of ['evil.example', `evil.example:${url.port}`, '127.0.0.1.evil.example', ''])
        assert.ok((await get(webUiUrl, { headers: { host: wrong } })).status >= 400, `Host: ${wrong}`);
    assert.equal((await get(webUiUrl, { headers: { host: `localhost:${url.port}` } })).status, 200);
    const without = new URL(stream);
    without.searchParams.delete('token');
    assert.ok([401, 403, 404].includes((await get(without)).status));
    const changed = new URL(stream);
    changed.searchParams.set('token', token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A'));
    assert.ok([401, 403, 404].includes((await get(changed)).status));
    const other = await mcp.tool('opencode_run_task', { task: 'TASK-PLAIN please' });
    const crossed = new URL(stream);
    crossed.pathname = crossed.pathname.replace(runId, other.runId);
    assert.notEqual(crossed.pathname, stream.pathname);
    assert.ok([401, 403, 404].includes((await get(crossed)).status));
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
        assert.ok((await get(webUiUrl, { method, headers: { origin: 'http://evil.example' } })).status >= 400, method);
    for (const path of ['/', '/../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd', `//${host}/`, '/runs', '/api'])
        assert.ok((await get(`http://${host}${path}`)).status >= 400 || !(await get(`http://${host}${path}`)).text.includes(runId), path);
    await mcp.result(other.runId);

    // After a restart the same link works, and the run's whole story is there.
    await lab.ctl(['stop']);
    await lab.supervisor.exited;
    await lab.startSupervisor();
    assert.equal((await get(webUiUrl)).status, 200);
    assert.deepEqual((await events(stream)).map(event => event.id), all.map(event => event.id));
}));

test('the web view can be switched off', () => withLab({ model: true, agent: false, config: () => ({ web: { enabled: false } }) }, async lab => {
    assert.equal((await lab.ctlJson(['status'])).webUrl ?? '', '');
}));
