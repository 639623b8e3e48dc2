// The official conformance suite, through a bridge that passes messages as they are. The suite asks for tools, prompts and
// resources of its own by name; where ours do what those are to show, the name is changed on the way, the answer never.
// Every scenario passes or is listed below with the reason why it can't apply, and docs/mcp.md lists the same ones.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { nodeModules, run, sourceFolder, waitFor, withLab } from './lab.mjs';
import { Bridge } from './mcp-bridge.mjs';

// What can't pass, by scenario, and why.
const noImages = 'no tool, prompt or resource returns images, audio or other binary data';
const noRequests = 'the server asks its client for nothing but forms';
const ownKeys = 'the suite wants a key of its own; ours is the id of the agent\'s request';
const tooSlow = 'the suite waits five seconds for a task\'s question, and an agent takes longer to start (mcp-eras.test.mjs does it)';
const fixture = 'needs a tool that was made for the suite';
const cannotApply = {
    'logging-set-level': 'logging is deprecated and not advertised; the server logs to standard error',
    'tools-call-with-logging': 'logging is deprecated and not advertised; the server logs to standard error',
    'tools-call-image': noImages, 'tools-call-audio': noImages, 'tools-call-mixed-content': noImages,
    'tools-call-embedded-resource': noImages, 'resources-read-binary': noImages, 'prompts-get-with-image': noImages,
    'prompts-get-embedded-resource': noImages,
    'tools-call-sampling': noRequests, 'input-required-result-basic-sampling': noRequests,
    'input-required-result-basic-list-roots': noRequests, 'input-required-result-multiple-input-requests': noRequests,
    'input-required-result-capability-check': noRequests,
    'tools-call-elicitation': fixture, 'elicitation-sep1034-defaults': fixture, 'elicitation-sep1330-enums': fixture,
    'json-schema-2020-12': fixture, 'tasks-mrtr-composition': fixture,
    'input-required-result-basic-elicitation': ownKeys, 'input-required-result-ignore-extra-params': ownKeys,
    'tasks-mrtr-input': tooSlow,
    'input-required-result-request-state': 'no requestState is sent: the agent\'s request and the run are named by what the client sends anyway',
    'input-required-result-multi-round': 'no requestState is sent: the agent\'s request and the run are named by what the client sends anyway',
    'input-required-result-tampered-state': 'no requestState is sent: the agent\'s request and the run are named by what the client sends anyway',
    'input-required-result-non-tool-request': 'prompts and resources never ask',
    'http-custom-header-server-validation': 'concerns HTTP only',
    'tasks-required-task-error': 'no tool needs tasks: without them a run is started and its id returned',
};
// Single checks of scenarios that pass otherwise.
const cannotApplyChecks = {
    'sep-2575-server-rejects-undeclared-capability': fixture, 'sep-2575-missing-capability-http-400': fixture,
    'sep-2575-http-server-no-independent-requests-on-stream': fixture, 'sep-2575-server-no-log-without-loglevel': fixture,
    'sep-2663-tasks-get-status-failed': 'an agent\'s failure is a completed task with isError; the protocol\'s failed never comes up',
    'tasks-headers-tolerate-mcp-method-on-tools-call': 'wants the words of a tool that was made for the suite',
    'tasks-result-type-complete-on-non-task-responses': tooSlow,
};

function translator(tools, uris) {
    return async message => {
        const { method, params } = message;
        const change = changes => ({ ...message, params: { ...params, ...changes } });
        if (method === 'tools/call' && tools[params.name])
            return change(await tools[params.name]());
        if (method === 'prompts/get' && params.name === 'test_simple_prompt')
            return change({ name: 'check_runs' });
        if (method === 'prompts/get' && params.name === 'test_prompt_with_arguments')
            return change({ name: 'review_diff', arguments: { runId: params.arguments.arg1, focus: params.arguments.arg2 } });
        if (method === 'completion/complete' && params.ref?.name === 'test_prompt_with_arguments')
            return change({ ref: { type: 'ref/prompt', name: 'review_diff' }, argument: { ...params.argument, name: 'runId' } });
        return uris[params?.uri] ? change({ uri: uris[params.uri] }) : message;
    };
}

// Every check of the suite for REVISION: {scenario, id, status, errorMessage}.
async function checks(lab, bridge, revision) {
    const output = lab.path('work', revision);
    const suite = path.join(nodeModules, '@modelcontextprotocol/conformance/dist/index.js');
    const result = await run(process.execPath, [suite, 'server', '--url', bridge.url, '--requirements', revision, '--timeout', '25000', '-o', output],
        { timeoutMs: 400000, cwd: lab.path('work') });
    assert.match(result.stdout, /=== SUMMARY ===/, result.stderr);
    return fs.readdirSync(output).flatMap(name => JSON.parse(fs.readFileSync(path.join(output, name, 'checks.json'), 'utf8'))
        .map(one => ({ ...one, scenario: name.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*/, '') })));
}

test('conformance', { timeout: 600000 }, () => withLab({ config: () => ({ limits: { concurrentRuns: 30 } }) }, async lab => {
    const { runId } = await lab.startScript('echo 123');
    await lab.ended(runId);
    const asking = await lab.ctlJson(['call', 'run.create', JSON.stringify({ task: 'TASK-QUESTION please', repository: await lab.repository() })]);
    await waitFor('the agent asks', async () => (await lab.ctlJson(['get', asking.runId])).status === 'waiting', 120000);

    const tool = (name, args) => async () => ({ name, arguments: args });
    const task = script => tool('opencode_run_task', { agent: 'shell', task: script, wait: true });
    const tools = {
        test_simple_text: tool('opencode_list_runs', {}),
        test_error_handling: tool('opencode_get_result', { runId: 'nonsense' }),
        // A new run gives three lines: as it begins, as it works, and five seconds later.
        test_tool_with_progress: async () => ({ name: 'opencode_get_result', arguments: { waitSeconds: 7,
            runId: (await lab.startScript('sleep 8')).runId } }),
        greet: tool('opencode_get_log', { runId }),
        slow_compute: task('sleep 2; echo done'),
        failing_job: task('exit 3'),
        test_input_required_result_elicitation: tool('opencode_get_result', { runId: asking.runId, waitSeconds: 1 }),
    };
    const uris = { 'test://static-text': `run://${runId}/result`, 'test://watched-resource': `run://${runId}/log`,
        'test://template/123/data': `run://${runId}/log` };
    const bridge = new Bridge({ command: lab.program('sandbox-mcp'), args: [], env: lab.env(), cwd: lab.path('work') }, translator(tools, uris));
    await bridge.start();
    const failed = new Set();
    const passed = new Set();
    const unexpected = [];
    try {
        for (const revision of ['2025-11-25', '2026-07-28']) {
            for (const one of await checks(lab, bridge, revision)) {
                if (!['FAILURE', 'WARNING'].includes(one.status)) {
                    passed.add(one.scenario);
                    continue;
                }
                failed.add(one.scenario).add(one.id);
                if (!cannotApply[one.scenario] && !cannotApplyChecks[one.id])
                    unexpected.push(`${revision} ${one.scenario} ${one.id}: ${one.errorMessage}`);
            }
        }
    } finally {
        assert.deepEqual(await bridge.stop(), []);
    }
    assert.deepEqual(unexpected, []);
    assert.ok(passed.size > 30, `only ${[...passed]}`);
    const listed = [...Object.keys(cannotApply), ...Object.keys(cannotApplyChecks)];
    assert.deepEqual(listed.filter(name => !failed.has(name)), [], 'these pass: take them out of the list');
    const page = fs.readFileSync(path.join(sourceFolder, 'docs/mcp.md'), 'utf8');
    assert.deepEqual(listed.filter(name => !page.includes(`\`${name}\``)), [], 'docs/mcp.md does not say why these can\'t apply');
}));
