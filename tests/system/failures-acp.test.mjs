// How runs of the other agents end when their model fails: under the same codes and in the provider's words as OpenCode's, since it
// is the proxy that judges. Each failure with one of them; LONG=1 plays all with each, and a good run behind each, not only behind an
// agent's last. ROWS=… plays the rows whose name holds that, AT_ONCE=… so many runs at a time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agents, withAgents } from './acp-agents.mjs';
import { long } from './lab.mjs';
import { checkNothingLeft } from './living.mjs';

const json = (response, status, body) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
};
const sse = { 'content-type': 'text/event-stream' };
const named = value => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const data = value => `data: ${JSON.stringify(value)}\n\n`;

// How each provider says it: an error, and the frames of an answer with TEXT that ends for REASON.
const providers = {
    anthropic: {
        error: (status, type, message) => ({ type: 'error', error: { type, message } }),
        begin: text => named({ type: 'message_start', message: { id: 'msg_bad', type: 'message', role: 'assistant', content: [], model: 'm',
            stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1 } } }) +
            (text && named({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }) +
            named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
        end: (text, reason) => (text && named({ type: 'content_block_stop', index: 0 })) +
            named({ type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 7 } }) +
            named({ type: 'message_stop' }),
        reasons: { stop: 'end_turn', length: 'max_tokens' },
    },
    openai: {
        error: (status, type, message) => ({ error: { type, code: type, message, param: null } }),
        begin: text => named({ type: 'response.created', sequence_number: 0, response: { id: 'resp_bad', object: 'response', status: 'in_progress', output: [] } }) +
            (text && named({ type: 'response.output_item.added', sequence_number: 1, output_index: 0, item: { id: 'msg_bad', type: 'message', role: 'assistant', content: [] } }) +
            named({ type: 'response.output_text.delta', sequence_number: 2, item_id: 'msg_bad', output_index: 0, content_index: 0, delta: text })),
        end: (text, reason) => (text && named({ type: 'response.output_item.done', sequence_number: 3, output_index: 0, item: { id: 'msg_bad', type: 'message', role: 'assistant',
            status: 'completed', content: [{ type: 'output_text', text, annotations: [] }] } })) +
            named({ type: `response.${reason}`, sequence_number: 4, response: { id: 'resp_bad', object: 'response', status: reason, output: [],
                incomplete_details: reason === 'incomplete' ? { reason: 'max_output_tokens' } : null,
                usage: { input_tokens: 100, output_tokens: 7, total_tokens: 107 } } }),
        reasons: { stop: 'completed', length: 'incomplete' },
    },
    google: {
        error: (status, type, message) => ({ error: { code: status, status: type, message } }),
        begin: text => text && data({ candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] } }], usageMetadata: { promptTokenCount: 100, totalTokenCount: 101 } }),
        end: (text, reason) => data({ candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, finishReason: reason }],
            usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 7, totalTokenCount: 107 } }),
        reasons: { stop: 'STOP', length: 'MAX_TOKENS' },
    },
};

const failures = {
    KEY: (response, provider) => json(response, 401, provider.error(401, 'authentication_error', 'this key was revoked')),
    RATE: (response, provider) => json(response, 429, provider.error(429, 'rate_limit_error', 'you have asked too often')),
    BUSY: (response, provider) => json(response, 503, provider.error(503, 'overloaded_error', 'we are overloaded at the moment')),
    CUT: (response, provider) => {
        response.writeHead(200, sse);
        response.write(provider.begin('Only a part'), () => response.destroy());
    },
    LENGTH: (response, provider) => {
        response.writeHead(200, sse);
        response.end(provider.begin('It was cut') + provider.end('It was cut', provider.reasons.length));
    },
    EMPTY: (response, provider) => {
        response.writeHead(200, sse);
        response.end(provider.begin('') + provider.end('', provider.reasons.stop));
    },
    HANG: () => {},
};

const failed = (code, words, retryable) => ({ status: 'failed', code, words, retryable });
const incomplete = { status: 'completed', verdict: 'incomplete' };
const wants = {
    KEY: failed('model_auth', /this key was revoked/, false),
    RATE: failed('model_rate_limited', /you have asked too often/, true),
    BUSY: failed('model_overloaded', /we are overloaded at the moment/, true),
    CUT: failed('model_unreachable', /broke the connection/, true),
    LENGTH: { ...incomplete, finish: 'length' },
    EMPTY: incomplete,
    HANG: failed('model_unreachable', /took too long/, true),
};

// The newest word decides.
function fail(request, response, body) {
    const word = [...body.toString().matchAll(/AGENT-(?:FAIL-([A-Z]+)|AGAIN)/g)].at(-1)?.[1];
    if (!word)
        return false;
    const provider = request.url.includes('/messages') ? 'anthropic' : request.url.includes('/responses') ? 'openai' : 'google';
    failures[word](response, providers[provider]);
    return true;
}

function check(want, view) {
    const text = JSON.stringify(view);
    assert.equal(view.status, want.status, text);
    assert.equal(view.verdict, want.verdict ?? 'incomplete', text);
    assert.equal(view.result.success, want.success ?? false, text);
    assert.equal(view.result.error?.code, want.code, text);
    if (want.finish)
        assert.equal(view.evidence.finishReason, want.finish, text);
    if (want.code) {
        assert.match(view.result.error.message, want.words, text);
        assert.equal(view.result.error.retryable, want.retryable, text);
    }
}

const quick = { 'claude-code': ['KEY', 'LENGTH'], codex: ['RATE', 'EMPTY', 'HANG'], gemini: ['BUSY', 'LENGTH'], 'opencode-acp': ['CUT', 'LENGTH'] };
const rows = process.env.ROWS && new RegExp(process.env.ROWS);
const wordsOf = agent => (long ? Object.keys(failures) : quick[agent.name]).filter(word => !rows || rows.test(`${agent.name} ${word}`));

test('a model that fails has the same names with every agent, and the next run of the session works', { timeout: 1400000 }, t => withAgents({
    limits: { concurrentRuns: Number(process.env.AT_ONCE ?? 3), freeMemoryMiB: 0, memoryPressurePercent: 0 },
    model: { headSeconds: 5, silenceSeconds: 5, failuresInARow: 3, retryWaitSeconds: 60 },
    agents: { startSeconds: 300 },
}, async lab => {
    lab.upstream.answer = fail;
    const mcp = await lab.connect();
    const results = await Promise.allSettled(agents.map(async agent => {
        let session = { agent: agent.name };
        const play = async task => {
            const run = await mcp.tool('opencode_run_task', { task: `${task} please`, ...session });
            session = { sessionId: run.sessionId };
            return mcp.result(run.runId, { timeoutMs: 600000 });
        };
        const good = async name => {
            const view = await play('AGENT-AGAIN');
            assert.equal(view.status, 'completed', `after ${name}: ${JSON.stringify(view)}`);
            assert.equal(view.result.output, 'Going on in the same conversation.', name);
        };
        for (const word of wordsOf(agent)) {
            const name = `${agent.name} ${word}`;
            try {
                const view = await play(`AGENT-FAIL-${word}`);
                t.diagnostic(`${name}: ${view.status} ${view.result.error?.code ?? view.verdict}: ${view.result.error?.message ?? view.result.output}`);
                check(wants[word], view);
                if (long || word === wordsOf(agent).at(-1))
                    await good(name);
            } catch (error) {
                throw new Error(`${name}: ${error.message}`, { cause: error });
            }
        }
    }));
    assert.deepEqual(results.filter(one => one.status === 'rejected').map(one => one.reason.message), []);
    await checkNothingLeft(lab);
}));
