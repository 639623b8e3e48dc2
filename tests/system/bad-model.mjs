// bad-model.mjs: a model server that fails, in every way that one can. The word FAIL-… of the newest user message says how;
// anything else is left to the scripted model. `badModel()` gives a function for lab.upstream.answer.

const frame = value => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const begin = (model, index = 0) => frame({ type: 'message_start', message: { id: 'msg_bad', type: 'message', role: 'assistant', content: [], model,
    stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1 } } }) +
    frame({ type: 'content_block_start', index, content_block: { type: 'text', text: '' } });
const text = (words, index = 0) => frame({ type: 'content_block_delta', index, delta: { type: 'text_delta', text: words } });
const end = (reason, index = 0) => frame({ type: 'content_block_stop', index }) +
    frame({ type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 7 } }) + frame({ type: 'message_stop' });
const tool = (id, name, input) => frame({ type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id, name, input: {} } }) +
    frame({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: JSON.stringify(input) } });

const sse = { 'content-type': 'text/event-stream' };

// What a request that is met by the failure gets. `call` has the model, and the request's number in its task, from 1.
const status = (code, type, message, headers = {}) => response => {
    response.writeHead(code, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ type: 'error', error: { type, message }, request_id: 'req_bad' }));
};
const stream = (...frames) => (response, call) => {
    response.writeHead(200, sse);
    response.end(begin(call.model) + frames.join(''));
};
const partly = then => (response, call) => {
    response.writeHead(200, sse);
    response.write(begin(call.model) + text('Only a part'), () => then(response));
};
// A tool call, then, once its result is there, the words DONE.
const useTool = (name, input) => (response, call) => {
    response.writeHead(200, sse);
    if (call.afterTool) {
        response.end(begin(call.model) + text('DONE') + end('end_turn'));
        return;
    }
    response.end(frame({ type: 'message_start', message: { id: 'msg_bad', type: 'message', role: 'assistant', content: [], model: call.model,
        stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1 } } }) +
        tool(`toolu_bad_${call.key.toLowerCase()}_${call.number}`, name, input) + end('tool_use'));
};
const bash = (command, timeout) => useTool('bash', { command, description: 'Try', ...timeout && { timeout } });

export const failures = {
    400: status(400, 'invalid_request_error', 'messages: bad field'),
    401: status(401, 'authentication_error', 'invalid x-api-key'),
    402: status(402, 'billing_error', 'the account is out of credit'),
    403: status(403, 'permission_error', 'this key may not use the model'),
    404: status(404, 'not_found_error', 'model: no such model'),
    CONTEXT: status(400, 'invalid_request_error', 'prompt is too long: 250000 tokens > 200000 maximum'),
    413: status(413, 'request_too_large', 'Request exceeds the maximum size'),
    429: status(429, 'rate_limit_error', 'This request would exceed your rate limit'),
    '429-SOON': status(429, 'rate_limit_error', 'This request would exceed your rate limit', { 'retry-after': '1' }),
    '429-LATE': status(429, 'rate_limit_error', 'You have hit your limit, it resets in an hour', { 'retry-after': '3600' }),
    500: status(500, 'api_error', 'Internal server error'),
    502: response => {
        response.writeHead(502, { 'content-type': 'text/html' });
        response.end('<html><head><title>502 Bad Gateway</title></head><body>Bad Gateway, says the edge</body></html>');
    },
    503: status(503, 'api_error', 'upstream unavailable'),
    529: status(529, 'overloaded_error', 'Overloaded'),
    'BEFORE-HEAD': response => response.destroy(),
    RESET: partly(response => response.destroy()),
    'SSE-OVERLOADED': partly(response => response.end(frame({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded in the middle' } }))),
    'SSE-API': partly(response => response.end(frame({ type: 'error', error: { type: 'api_error', message: 'Broken in the middle' } }))),
    'BAD-JSON': (response, call) => {
        response.writeHead(200, sse);
        response.end(begin(call.model) + 'event: content_block_delta\ndata: {"type":"content_blo\n\n' + end('end_turn'));
    },
    'JSON-ERROR-200': response => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ type: 'error', error: { type: 'api_error', message: 'an error that says it is none' } }));
    },
    'NO-HEAD': () => {},
    SILENCE: partly(() => {}),
    'NO-REASON': partly(response => response.end()),
    'NULL-REASON': stream(text('It ends'), end(null)),
    'MAX-TOKENS': stream(text('It was cut'), end('max_tokens')),
    REFUSAL: stream(text('I will not'), end('refusal')),
    EMPTY: stream(end('end_turn')),
    HOLDS: bash('(sleep 300) & echo started', 4000),
    LEAVES: bash('setsid sleep 987 >/dev/null 2>&1 </dev/null & setsid sleep 986 >/dev/null 2>&1 </dev/null & echo started'),
    SLEEPS: bash('sleep 900', 900000),
    GATE: bash('mkfifo /tmp/gate; read line </tmp/gate', 900000),
    // Silent for longer than a minute, but at work: an eighth of a processor or so.
    COMPUTES: bash('end=$(($(date +%s) + 80)); while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done; sleep 1; done; ' +
        'echo computed', 900000),
    TITLE: stream(text('The title failed, the answer did not'), end('end_turn')),
    LOOP: (response, call) => {
        const name = `toolu_bad_loop_${call.number}`;
        response.writeHead(200, sse);
        response.end(frame({ type: 'message_start', message: { id: 'msg_bad', type: 'message', role: 'assistant', content: [], model: call.model,
            stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1 } } }) +
            tool(name, 'bash', { command: `echo ${call.number}`, description: 'Again' }) + end('tool_use'));
    },
    SUBAGENT: useTool('task', { description: 'Help', prompt: 'FAIL-SILENCE please', subagent_type: 'general' }),
};

const wordsOf = content => typeof content === 'string' ? content : (content ?? []).map(part => part.text ?? '').join('\n');

// { key, times, afterTool, title, model } of a request: FAIL-KEY:TIMES#NAME in the newest user message that names a task.
function read(body) {
    let request;
    try {
        request = JSON.parse(body);
    } catch {
        return null;
    }
    const users = (request.messages ?? []).filter(one => one.role === 'user');
    const names = users.flatMap(one => wordsOf(one.content).match(/\b(?:FAIL|TASK)-[A-Z0-9-]+(?::\d+)?(?:#\w+)?/g) ?? []);
    const [, key, times, name] = /^FAIL-([A-Z0-9-]+)(?::(\d+))?(?:#(\w+))?$/.exec(names.at(-1) ?? '') ?? [];
    const last = request.messages?.at(-1)?.content;
    return { key, name: `FAIL-${key}${name ? `#${name}` : ''}`, times: times ? Number(times) : Infinity, model: request.model,
        title: JSON.stringify(request.system ?? '').includes('title generator'),
        // A call that an earlier run left open has its result beside the new task.
        afterTool: Array.isArray(last) && last.some(part => part.type === 'tool_result') && !/\b(FAIL|TASK)-/.test(wordsOf(last)) };
}

// SEEN counts the requests of each task, by FAIL-KEY#NAME.
export function badModel({ seen = new Map() } = {}) {
    return (request, response, body) => {
        const call = read(body);
        if (!call)
            return false;
        if (call.title) {
            if (call.key !== 'TITLE')
                return false;
            failures[500](response);
            return true;
        }
        if (!call.key || !failures[call.key])
            return false;
        call.number = (seen.get(call.name) ?? 0) + 1;
        seen.set(call.name, call.number);
        if (call.number > call.times) {
            response.writeHead(200, sse);
            response.end(begin(call.model) + text('RECOVERED') + end('end_turn'));
            return true;
        }
        failures[call.key](response, call);
        return true;
    };
}
