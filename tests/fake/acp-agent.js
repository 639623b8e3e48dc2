// An agent that speaks the Agent Client Protocol and does what a word in its prompt says. Node starts it in the repository: so this file
// lies there as acp.js.
const send = message => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const update = (kind, more) => send({ method: 'session/update', params: { sessionId: 's-1', update: { sessionUpdate: kind, ...more } } });
const say = text => update('agent_message_chunk', { content: { type: 'text', text } });

const prompts = {
    // Nothing is heard of it any more, as if its answer had been read by somebody else.
    'FAKE-SILENT': () => {
        say('at work');
        update('tool_call', { toolCallId: 't-1', kind: 'read', title: 'Read', status: 'pending' });
    },
    'FAKE-ASKS': () => send({ id: 'ask-1', method: 'session/request_permission', params: { sessionId: 's-1',
        toolCall: { toolCallId: 't-1', kind: 'execute', title: 'make' }, options: [
            { optionId: 'yes', kind: 'allow_once' }, { optionId: 'no', kind: 'reject_once' }] } }),
};

const methods = {
    initialize: () => ({ protocolVersion: 1, agentCapabilities: { loadSession: true } }),
    'session/new': () => ({ sessionId: 's-1' }),
    'session/load': () => null,
    'session/prompt': ({ prompt }) => {
        const word = Object.keys(prompts).find(one => prompt[0].text.includes(one));
        if (word) {
            prompts[word]();
            return undefined;
        }
        say('well done');
        return { stopReason: 'end_turn' };
    },
};

let rest = '';
process.stdin.setEncoding('utf8').on('data', text => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    for (const line of lines.filter(each => each.trim())) {
        const { id, method, params } = JSON.parse(line);
        const result = methods[method]?.(params);
        if (id !== undefined && result !== undefined)
            send({ id, result });
    }
});
