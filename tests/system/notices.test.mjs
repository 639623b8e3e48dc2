// Notices: people are told once that a run has ended or asks, in every way that is configured, also over the supervisor's death.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';
import { waitFor, withLab } from './lab.mjs';

// A server that keeps what is posted; ANSWER(request) is a status, or undefined for silence.
async function receiver() {
    const self = { got: [], answer: () => 200 };
    const server = http.createServer((request, response) => {
        const chunks = [];
        request.on('data', chunk => chunks.push(chunk));
        request.on('end', () => {
            const one = { method: request.method, path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() };
            self.got.push(one);
            const status = self.answer(one);
            if (status)
                response.writeHead(status).end('heard');
        });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    self.url = `http://127.0.0.1:${server.address().port}`;
    self.at = path => self.got.filter(one => one.path === path);
    self.close = () => {
        server.closeAllConnections();
        server.close();
    };
    return self;
}

const key = crypto.randomBytes(24);

// By the specification's own words: v1, over id.timestamp.content.
function checkSignature({ headers, body }) {
    const signed = crypto.createHmac('sha256', key).update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`).digest('base64');
    assert.equal(headers['webhook-signature'], `v1,${signed}`);
    assert.ok(Math.abs(Date.now() / 1000 - Number(headers['webhook-timestamp'])) < 300);
}

const settings = (server, lab, more = {}) => ({ notices: { webhook: `${server.url}/hook`, webhookSecret: 'HOOK_SECRET', ...more } });

async function withReceiver(config, body, options = {}) {
    const server = await receiver();
    try {
        await withLab({ model: false, agent: false, ...options, config: lab => config(server, lab) }, async lab => {
            await lab.setSecret(`whsec_${key.toString('base64')}`, 'HOOK_SECRET');
            await body(lab, server);
        });
    } finally {
        server.close();
    }
}

test('a run that has ended is told of in every way', { timeout: 120000 }, () => withReceiver((server, lab) => {
    fs.writeFileSync(lab.path('work', 'hook'), `#!/bin/sh\ncat >> ${lab.path('work', 'told')}\nenv > ${lab.path('work', 'environment')}\n`, { mode: 0o755 });
    return settings(server, lab, { program: lab.path('work', 'hook'), ntfy: `${server.url}/topic`, ntfyToken: 'NTFY_TOKEN' });
}, async (lab, server) => {
    await lab.setSecret(lab.secret, 'NTFY_TOKEN');
    const { runId, sessionId } = await lab.startScript('echo all is well', { title: 'Ünïcode "title"' });
    await lab.ended(runId);
    await waitFor('all are told', () => server.got.length === 2 && fs.existsSync(lab.path('work', 'environment')));
    const [hook] = server.at('/hook');
    checkSignature(hook);
    const notice = JSON.parse(hook.body);
    assert.equal(notice.event, 'run.completed');
    assert.equal(notice.id, hook.headers['webhook-id']);
    assert.equal(notice.runId, runId);
    assert.equal(notice.sessionId, sessionId);
    assert.equal(notice.title, 'Ünïcode "title"');
    assert.match(notice.text, /all is well/);
    assert.match(notice.webUiUrl, /^http:\/\/127\.0\.0\.1:\d+\//);
    const [topic] = server.at('/topic');
    assert.equal(topic.headers.authorization, `Bearer ${lab.secret}`);
    assert.equal(topic.headers.title, 'Completed: ?n?code "title"');
    assert.match(topic.body, /all is well/);
    assert.deepEqual(JSON.parse(fs.readFileSync(lab.path('work', 'told'), 'utf8')), notice);
    assert.doesNotMatch(fs.readFileSync(lab.path('work', 'environment'), 'utf8'), /SANDBOX|SECRET|TOKEN|KEY/);
    await waitFor('it is on record', () => (lab.log('supervisor').match(/notice by \w+: completed told/g) ?? []).length === 3);
}));

test('a failed run says why; a hook that fails is tried again; one that refuses is not', { timeout: 120000 }, () => withReceiver(
    (server, lab) => settings(server, lab, { ntfy: `${server.url}/nobody` }), async (lab, server) => {
        server.answer = ({ path }) => path === '/nobody' ? 404 : server.at('/hook').length < 2 ? 503 : 200;
        const { runId } = await lab.startScript('exit 3');
        await lab.ended(runId);
        await waitFor('it was tried again', () => server.at('/hook').length === 2);
        const [first, second] = server.at('/hook');
        assert.equal(first.body, second.body);
        assert.equal(first.headers['webhook-id'], second.headers['webhook-id']);
        checkSignature(second);
        const notice = JSON.parse(first.body);
        assert.equal(notice.event, 'run.failed');
        assert.ok(notice.code && notice.text, first.body);
        await waitFor('the log says so', () => /notice by ntfy given up: the answer is HTTP status 404/.test(lab.log('supervisor')));
        assert.equal(server.at('/nobody').length, 1);
    }));

test('a notice outlives the supervisor, and is not given twice', { timeout: 120000 }, () => withReceiver(settings, async (lab, server) => {
    server.answer = () => undefined;
    const { runId } = await lab.startScript('echo done');
    await lab.ended(runId);
    await waitFor('it is being told', () => server.got.length === 1);
    await lab.killSupervisor();
    server.answer = () => 200;
    await lab.startSupervisor();
    await waitFor('it is told again', () => server.got.length === 2);
    assert.equal(server.got[0].headers['webhook-id'], server.got[1].headers['webhook-id']);
    await waitFor('that is on record', () => /notice by webhook: completed told/.test(lab.log('supervisor')));
    // Told is told: the next supervisor tells of the next run only.
    await lab.killSupervisor();
    await lab.startSupervisor();
    const next = await lab.startScript('echo next');
    await lab.ended(next.runId);
    await waitFor('the next is told', () => server.got.length > 2);
    assert.equal(JSON.parse(server.got[2].body).runId, next.runId);
}));

test('a crowd of runs is told of one by one, and only what was asked for', { timeout: 120000 }, () => withReceiver(
    (server, lab) => ({ ...settings(server, lab, { events: ['ended'] }), limits: { concurrentRuns: 16 } }), async (lab, server) => {
        const runs = [];
        for (let number = 0; number < 48; number++)
            runs.push((await lab.startScript('true')).runId);
        await Promise.all(runs.map(runId => lab.ended(runId)));
        await waitFor('all are told', () => server.got.length >= runs.length, 60000);
        assert.deepEqual(server.got.map(one => JSON.parse(one.body).runId).sort(), runs.sort());
    }));

test('a run that asks is told of at once', { timeout: 120000 }, () => withReceiver(
    (server, lab) => ({ ...settings(server, lab), services: { anthropic: { target: `http://127.0.0.1:${lab.upstream.port}` } },
        agents: { permissions: 'ask' } }), async (lab, server) => {
        await lab.setSecret();
        const repository = await lab.repository();
        const { runId } = await lab.ctlJson(['run', '--repo', repository, 'The test of range_sum fails. Find out why, fix it and commit the change on a new branch.']);
        await waitFor('it is told', () => server.got.length === 1, 60000);
        const notice = JSON.parse(server.got[0].body);
        assert.equal(notice.event, 'run.waiting');
        assert.equal(notice.runId, runId);
        assert.ok(notice.text, 'what it asks');
        await lab.ctl(['cancel', runId]);
        await lab.ended(runId);
        await waitFor('its end is told', () => server.got.length === 2);
        assert.equal(JSON.parse(server.got[1].body).event, 'run.cancelled');
    }, { model: true, agent: true }));

const tryAll = async lab => {
    const result = await lab.ctl(['notice', 'test', '--json']);
    assert.ok(result.stdout, result.stderr);
    return { code: result.code, ...JSON.parse(result.stdout) };
};

test('a test notice goes out by every way, and each says what came of it', { timeout: 120000 }, () => withReceiver((server, lab) => {
    fs.writeFileSync(lab.path('work', 'hook'), `#!/bin/sh\ncat >> ${lab.path('work', 'told')}\n`, { mode: 0o755 });
    return settings(server, lab, { program: lab.path('work', 'hook'), ntfy: `${server.url}/topic`, ntfyToken: 'NTFY_TOKEN' });
}, async (lab, server) => {
    // A secret that isn't there is the way's own trouble, not the others'.
    const first = await tryAll(lab);
    assert.equal(first.code, 1);
    assert.deepEqual(first.ways.map(one => [one.way, one.outcome]).sort(), [['ntfy', 'refused'], ['program', 'told'], ['webhook', 'told']]);
    const { why, next } = first.ways.find(one => one.way === 'ntfy');
    assert.match(why, /NTFY_TOKEN/);
    assert.match(next, /sandboxctl secret set/);

    await lab.setSecret(lab.secret, 'NTFY_TOKEN');
    const second = await tryAll(lab);
    assert.equal(second.code, 0);
    assert.deepEqual(second.ways.map(one => one.outcome), ['told', 'told', 'told']);
    const hook = server.at('/hook').at(-1);
    checkSignature(hook);
    const notice = JSON.parse(hook.body);
    assert.equal(notice.event, 'run.test');
    assert.equal(notice.id, hook.headers['webhook-id']);
    assert.equal(server.at('/topic')[0].headers.title, 'Test: notices of sandbox-mcp arrive here');
    assert.ok(fs.readFileSync(lab.path('work', 'told'), 'utf8').includes(hook.body));
    const people = await lab.ctl(['notice', 'test']);
    assert.match(people.stdout, /^told +webhook$/m);
}));

test('a test notice that is not taken says why, and is not tried again', { timeout: 120000 }, () => withReceiver((server, lab) => {
    fs.writeFileSync(lab.path('work', 'hook'), '#!/bin/sh\necho "no such printer" >&2\nexit 4\n', { mode: 0o755 });
    return settings(server, lab, { program: lab.path('work', 'hook'), ntfy: 'http://127.0.0.1:1/topic' });
}, async (lab, server) => {
    server.answer = () => 403;
    const { code, ways } = await tryAll(lab);
    const by = name => ways.find(one => one.way === name);
    assert.equal(code, 1);
    assert.equal(by('webhook').outcome, 'refused');
    assert.match(by('webhook').why, /status 403/);
    assert.match(by('webhook').next, /notices\.webhookSecret/);
    assert.equal(by('ntfy').outcome, 'failed');
    assert.match(by('ntfy').next, /notices\.ntfy/);
    assert.equal(by('program').outcome, 'failed');
    assert.match(by('program').why, /code 4: no such printer/);
    assert.match(by('program').next, /by hand/);
    const people = await lab.ctl(['notice', 'test']);
    assert.equal(people.code, 1);
    assert.match(people.stdout, /^FAILED +program: .*no such printer\n +> run the program/m);
    assert.equal(server.got.length, 2, 'once each time');
}));

test('a test notice while nothing is configured, while one is under way, and while the supervisor stops', { timeout: 120000 }, () => withReceiver(settings, async (lab, server) => {
    server.answer = () => undefined;
    const waiting = lab.ctl(['notice', 'test']);
    await waitFor('it is being sent', () => server.got.length === 1);
    const second = await lab.ctl(['notice', 'test']);
    assert.equal(second.code, 5, second.stderr);
    assert.match(second.stderr, /under way/);
    await lab.ctl(['stop']);
    assert.notEqual((await waiting).code, 0);
    lab.writeConfig({});
    const none = await lab.ctl(['notice', 'test']);
    assert.equal(none.code, 5, none.stderr);
    assert.match(none.stderr, /no way of giving notice is configured; set notices\.webhook/);
    assert.equal((await lab.ctl(['notice', 'tell'])).code, 2);
}));
