// Each wrong input gets an error that names the argument, before or during the run, and nothing is left behind.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { once } from 'node:events';
import { test } from 'node:test';
import { sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';

const task = 'TASK-NOTE please';

// What of a run is on disk: folders below the state folder that bear a session's or run's name.
function traces(lab) {
    const found = [];
    const walk = folder => {
        for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
            if (/^(run|ses)_/.test(entry.name))
                found.push(path.join(folder, entry.name));
            else if (entry.isDirectory())
                walk(path.join(folder, entry.name));
        }
    };
    walk(lab.state);
    return found;
}

test('arguments that can never be right are refused at once', { timeout: 600000 }, () => withLab({}, async lab => {
    const repository = await lab.repository();
    const outside = lab.path('work', 'outside');
    fs.renameSync(await lab.repository('outside'), outside);
    const mcp = await lab.connect();
    const unknownSession = `ses_${'0'.repeat(26)}`;
    const cases = [
        ['task', {}],
        ['task', { task: '' }],
        ['task', { task: ' \t\n  ' }],
        ['task', { task: 'x'.repeat(50001) }],
        ['task', { task: 'é'.repeat(50001) }],
        ['task', { task: 42 }],
        ['task', { task: ['x'] }],
        ['repository', { task, repository: path.join(lab.repositories, 'missing') }],
        ['repository', { task, repository: 'relative/folder' }],
        ['repository', { task, repository: outside }],
        ['repository', { task, repository: '--upload-pack=touch x' }],
        ['repository', { task, repository: '-x' }],
        ['repository', { task, repository: 'https://user:password@git.invalid/a/b.git' }],
        ['repository', { task, repository: 'https://user@git.invalid/a/b.git' }],
        ['repository', { task, repository: 'ext::sh -c touch% x' }],
        ['repository', { task, repository: 'ftp://git.invalid/a' }],
        ['repository', { task, repository: 'https://' }],
        ['repository', { task, repository: `${repository}\nx` }],
        ['branch', { task, repository, branch: '-x' }],
        ['branch', { task, repository, branch: '--upload-pack=x' }],
        ['branch', { task, repository, branch: 'a..b' }],
        ['branch', { task, repository, branch: 'a b' }],
        ['branch', { task, repository, branch: 'a~1' }],
        ['branch', { task, repository, branch: 'x'.repeat(2000) }],
        ['sessionId', { task, sessionId: unknownSession }],
        ['sessionId', { task, sessionId: 'nonsense' }],
        ['sessionId', { task, sessionId: '../../etc' }],
        ['model', { task, model: 'nobody/any' }],
        ['model', { task, model: 'no-slash' }],
        ['agent', { task, agent: 'no-such-agent' }],
        ['timeoutMinutes', { task, timeoutMinutes: -1 }],
        ['timeoutMinutes', { task, timeoutMinutes: 'soon' }],
        ['timeoutMinutes', { task, timeoutMinutes: 1.5 }],
        ['timeoutMinutes', { task, timeoutMinutes: 1e9 }],
    ];
    for (const [argument, args] of cases) {
        const shown = JSON.stringify(args).slice(0, 120);
        const result = await mcp.call('opencode_run_task', args);
        assert.equal(result.isError, true, `${shown} was taken: ${JSON.stringify(result.structuredContent)}`);
        const text = result.content.map(part => part.text).join('\n');
        assert.ok(text.includes(argument), `${shown}: "${text}" does not name ${argument}`);
        assert.ok(text.length < 1000, `${shown}: the answer has ${text.length} characters`);
        assert.ok(!text.includes('password'), 'the answer repeats a password');
    }
    const other = [
        ['runId', 'opencode_get_result', {}],
        ['runId', 'opencode_get_result', { runId: 'nonsense' }],
        ['runId', 'opencode_get_result', { runId: `run_${'0'.repeat(26)}` }],
        ['runId', 'opencode_cancel_run', { runId: `run_${'0'.repeat(26)}` }],
        ['status', 'opencode_list_runs', { status: 'dancing' }],
        ['limit', 'opencode_list_runs', { limit: 0 }],
        ['limit', 'opencode_list_runs', { limit: 101 }],
        ['limit', 'opencode_list_runs', { limit: 'many' }],
        ['before', 'opencode_list_runs', { before: 'yesterday' }],
        ['sessionId', 'opencode_list_runs', { sessionId: 'nonsense' }],
    ];
    for (const [argument, name, args] of other) {
        const result = await mcp.call(name, args);
        assert.equal(result.isError, true, `${name} ${JSON.stringify(args)} was taken`);
        assert.ok(result.content[0].text.includes(argument), `${name} ${JSON.stringify(args)}: ${result.content[0].text}`);
    }
    await assert.rejects(mcp.call('no_such_tool'), error => error.code === -32602);

    // Nothing came of any of them.
    assert.deepEqual((await lab.ctlJson(['list'])).runs, []);
    assert.deepEqual((await lab.ctlJson(['sessions'])).sessions, []);
    assert.deepEqual(traces(lab), []);
    assert.equal(lab.upstream.requests.length, 0);
    assert.deepEqual(sandboxedProcessesOf(lab.id), []);
}));

test('what means well is understood', { timeout: 600000 }, () => withLab({ bin: 'test',
    config: lab => ({ sandbox: { bwrap: lab.path('work', 'none') } }) }, async lab => {
    const mcp = await lab.connect();
    // Absent in every way, numbers as text, the longest task there may be, names that nobody knows.
    for (const args of [
        { task, repository: null, branch: null, sessionId: null, model: null, title: null, timeoutMinutes: null },
        { task, repository: '', branch: '', sessionId: '', model: '', title: '', agent: '' },
        { task, timeoutMinutes: '30' },
        { task, timeoutMinutes: 30.0 },
        { task: 'é'.repeat(50000) },
        { task, wait_for_previous: true },
    ]) {
        const started = await mcp.tool('opencode_run_task', args);
        assert.match(started.runId, /^run_/);
        assert.equal((await mcp.result(started.runId)).status, 'failed'); // there is no sandbox here
    }
    assert.equal((await mcp.tool('opencode_list_runs', { limit: '2', status: '', sessionId: null })).runs.length, 2);
    const page = await mcp.tool('opencode_list_runs', { limit: 4 });
    assert.equal(page.hasMore, true);
    const rest = await mcp.tool('opencode_list_runs', { limit: 4, before: page.cursor });
    assert.equal(rest.runs.length, 2);
    assert.equal(rest.hasMore, false);
    assert.equal(new Set([...page.runs, ...rest.runs].map(one => one.runId)).size, 6);
}));

test('what only the run can find out is told by the run', { timeout: 600000 }, () => {
    // A git service that wants credentials for everything; the configuration says that GitHub is there.
    const server = http.createServer((request, response) => {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="private"' }).end();
    });
    return withLab({}, async lab => {
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        const folder = lab.path('repositories', 'plain folder');
        fs.mkdirSync(folder);
        fs.writeFileSync(path.join(folder, 'file'), 'x');
        const repository = await lab.repository();

        lab.writeConfig({ services: { anthropic: { target: `http://127.0.0.1:${lab.upstream.port}` },
            github: { target: `http://127.0.0.1:${server.address().port}` } } });
        await lab.ctl(['stop']);
        await lab.supervisor.exited;
        await lab.startSupervisor();

        const mcp = await lab.connect();
        const cases = [
            ['not a git repository', { repository: folder }, /repository|git/i],
            ['no such branch', { repository, branch: 'no-such-branch' }, /branch.*no-such-branch|no-such-branch.*branch/i],
            ['private, without a credential', { repository: 'https://github.com/owner/private.git' }, /GITHUB_TOKEN/],
        ];
        for (const [name, args, wanted] of cases) {
            const result = await mcp.call('opencode_run_task', { task, ...args });
            let text = result.content.map(part => part.text).join('\n');
            if (!result.isError) {
                const view = await mcp.result(result.structuredContent.runId);
                assert.equal(view.status, 'failed', `${name}: ${JSON.stringify(view)}`);
                const error = view.result.error;
                assert.equal(error.code, 'clone_failed', `${name}: ${JSON.stringify(error)}`);
                text = `${error.message} ${error.hint}`;
                // The session goes as well: nothing of a clone that failed is left.
                await lab.ctl(['rm', view.sessionId]);
            }
            assert.match(text, wanted, name);
            assert.ok(/repository|branch/.test(text), `${name}: "${text}" names no argument`);
        }
        // The agent has the list of its provider's models; it says so before it asks for anything.
        const unknown = await mcp.tool('opencode_run_task', { task, repository, model: 'anthropic/no-such-model' });
        const view = await mcp.result(unknown.runId);
        assert.equal(view.status, 'failed', JSON.stringify(view));
        assert.equal(view.result.error.code, 'model_unknown', JSON.stringify(view.result.error));
        assert.match(`${view.result.error.message} ${view.result.error.hint}`, /model/i);
        await lab.ctl(['rm', view.sessionId]);
        assert.equal(lab.upstream.requests.length, 0, 'the model was asked');
        await waitFor('nothing is left running', () => sandboxedProcessesOf(lab.id).length === 0, 15000);
        assert.deepEqual(traces(lab), []);
    }).finally(() => server.close());
});
