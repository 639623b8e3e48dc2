// client-process.mjs TASK REPOSITORY SERVER [ARGUMENT…]: an MCP client of its own process, to be killed. Prints the run's id, then stays.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [task, repository, command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'killed-client', version: '1' });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' }));
const result = await client.callTool({ name: 'opencode_run_task', arguments: { task, repository } });
console.log(result.structuredContent?.runId ?? JSON.stringify(result));
setInterval(() => {}, 1000);
