// docs/quickstart.sh as a newcomer runs it: from another directory, in a home whose name has a space, without a key; and again.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';
import { binFolder, Lab, alive, run, sourceFolder, waitFor } from './lab.mjs';

const status = address => new Promise((resolve, reject) => {
    http.get(address, response => { response.resume(); resolve(response.statusCode); }).on('error', reject);
});

test('quickstart without a key, twice', { timeout: 600000 }, async () => {
    const lab = new Lab({ bin: 'release' });
    const home = lab.path('home', 'a home');
    fs.mkdirSync(home);
    // The first run builds into the lab, the second finds that build.
    const env = { ...process.env, HOME: home, LANG: 'C.UTF-8', SANDBOX_LAB: lab.id, SANDBOX_BUILD: lab.path('work', 'build folder'),
        LAB_RECORD: lab.path('logs') };
    // What the machine needs to reach its package sources (proxies, certificates) stays; what is the user's goes.
    for (const name of Object.keys(env))
        if (/^(XDG_|SANDBOX_MCP_|ANTHROPIC_)/.test(name))
            delete env[name];
    // npm's settings and cache are the machine's, not this home's.
    for (const [name, file] of [['NPM_CONFIG_USERCONFIG', '.npmrc'], ['NPM_CONFIG_CACHE', '.npm']])
        env[name] ??= `${process.env.HOME}/${file}`;
    assert.ok(binFolder('release'));
    const state = `${home}/.local/state/sandbox-mcp-demo/state`;
    const ctl = args => run(`${env.SANDBOX_BUILD}/bin/sandboxctl`, args, { env: { ...env, SANDBOX_MCP_STATE: state } });
    let problems;
    try {
        let first;
        for (const round of ['first', 'second']) {
            const start = Date.now();
            const result = await run('sh', [`${sourceFolder}/docs/quickstart.sh`], { env, cwd: lab.path('work'), timeoutMs: 400000 });
            const seconds = (Date.now() - start) / 1000;
            console.log(`${round} run: ${seconds.toFixed(1)} s`);
            assert.equal(result.code, 0, result.stdout + result.stderr);
            assert.match(result.stdout, /^No ANTHROPIC_API_KEY is set, so a scripted stand-in plays the model; everything else is real\.$/m);
            assert.match(result.stdout, /FAIL range_sum/);
            assert.match(result.stdout, /^Result: .*fix\/range-sum/m);
            assert.match(result.stdout, /^\+.*number <= last;/m);
            assert.match(result.stdout, /"mcpServers"/);
            assert.match(result.stdout, /claude mcp add/);
            assert.match(result.stdout, /cmake --install '/);
            // The agent's steps in their order, and a command that looks at this demo, whose home has a space.
            const [before, after] = [/I will run the test first/, /It passes\. I will commit/].map(one => result.stdout.search(one));
            assert.ok(before > 0 && before < after, result.stdout);
            const look = /^ +(SANDBOX_MCP_CONFIG=.* get last)$/m.exec(result.stdout)[1];
            assert.match((await run('sh', ['-c', look], { env, cwd: lab.path('work') })).stdout, /verdict changed/);
            assert.ok(fs.readdirSync(lab.path('logs')).some(name => /^mcp-.*\.jsonl$/.test(name)), 'the client was not recorded');
            const address = /^Web page: (http:\S+)/m.exec(result.stdout)[1];
            assert.equal(await status(address), 200); // it still answers when the script has ended
            first ??= seconds;
            if (round === 'second')
                assert.ok(seconds < Math.max(first, 30), `${seconds} s after ${first} s`);
        }
        // Of two at once the second one is refused, and one that is broken off cancels its run.
        const script = spawn('sh', [`${sourceFolder}/docs/quickstart.sh`], { env, cwd: lab.path('work'), detached: true });
        let said = '';
        for (const stream of [script.stdout, script.stderr])
            stream.setEncoding('utf8').on('data', text => { said += text; });
        const ended = once(script, 'exit');
        await waitFor('its run is there', () => /was acknowledged/.test(said) || script.exitCode !== null, 300000);
        const second = await run('sh', [`${sourceFolder}/docs/quickstart.sh`], { env, cwd: lab.path('work'), timeoutMs: 400000 });
        if (!/^Result:/m.test(said)) {
            assert.equal(second.code, 1);
            assert.match(second.stderr, /A quickstart is at work already/);
        }
        process.kill(-script.pid, 'SIGINT');
        await ended;
        if (!/^Result:/m.test(said)) {
            const runId = /run_[0-9a-z]+/.exec(said)[0];
            await waitFor('the run was cancelled', async () => JSON.parse((await ctl(['get', '--json', runId])).stdout).status === 'cancelled', 60000);
        }
        // The user's own configuration and state were not touched.
        assert.ok(!fs.existsSync(`${home}/.config/sandbox-mcp`));
        assert.ok(!fs.existsSync(`${home}/.local/state/sandbox-mcp`));
    } finally {
        const { stdout } = await ctl(['status', '--json']);
        if (stdout) {
            const { pid } = JSON.parse(stdout);
            await ctl(['stop']);
            await waitFor('the demo supervisor has ended', () => !alive(pid), 10000);
        }
        problems = await lab.stop();
        lab.remove();
    }
    assert.deepEqual(problems, []);
});
