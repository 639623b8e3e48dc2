// Completion in real shells: commands, options, and ids that only the supervisor knows.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { must, run, withLab } from './lab.mjs';

// What each shell offers for a line whose last word is being typed.
const shells = {
    bash: words => ['bash', ['--norc', '-c', `eval "$(sandboxctl completion bash)"; COMP_WORDS=(sandboxctl ${words}); COMP_CWORD=$((\${#COMP_WORDS[@]}-1))
        _sandboxctl sandboxctl; printf '%s\\n' "\${COMPREPLY[@]}"`]],
    zsh: words => ['zsh', ['-f', '-c', `compdef() { :; }; _describe() { printf '%s\\n' "\${(@)found%%:*}"; }; _files() { :; }
        eval "$(sandboxctl completion zsh)"; words=(sandboxctl ${words}); CURRENT=\${#words}; _sandboxctl`]],
    fish: words => ['fish', ['--no-config', '-c', `sandboxctl completion fish | source; complete -C "sandboxctl ${words.replaceAll('\'\'', '')}"`]],
};

test('shells complete commands, options and ids', { timeout: 120000 }, () => withLab({ model: false, agent: false }, async lab => {
    const { runId, sessionId } = await lab.startScript('echo hello', { title: 'says: "hello"' });
    await lab.ended(runId);
    for (const [shell, line] of Object.entries(shells)) {
        const offer = async words => {
            const env = lab.env({ PATH: `${path.dirname(lab.program('sandboxctl'))}:${process.env.PATH}` });
            const [program, args] = line(words);
            const { stdout, stderr, code } = await run(program, args, { env, cwd: lab.path('work') });
            assert.equal(stderr, '', `${shell}: ${words}`);
            assert.equal(code, 0, `${shell}: ${words}`);
            return stdout.split('\n').filter(Boolean).map(one => one.split('\t')[0]);
        };
        assert.deepEqual((await offer('canc')), ['cancel'], shell);
        assert.deepEqual((await offer('get \'\'')).sort(), ['last', runId], shell);
        assert.ok((await offer('run --session \'\'')).includes(sessionId), shell);
        assert.ok((await offer('run --agent \'\'')).includes('shell'), shell);
        assert.deepEqual(await offer('secret rm \'\''), ['ANTHROPIC_API_KEY'], shell);
        assert.deepEqual(await offer('list --status inter'), ['interrupted'], shell);
        assert.ok((await offer('logs --fo')).includes('--follow'), shell);
    }
    // Without a supervisor none is started, and nothing is printed into the line that is being typed.
    await lab.ctl(['stop']);
    await lab.supervisor.exited;
    const none = await lab.ctl(['complete', '--', 'get', '']);
    assert.deepEqual(none, { code: 0, stdout: 'last\tthe newest run\n', stderr: '' });
    assert.equal((await lab.ctl(['status'])).code, 3);
}));

test('a command that is not there is answered with those that are like it', { timeout: 60000 }, () => withLab({ model: false, agent: false, supervisor: false },
    async lab => {
        const { code, stderr } = await lab.ctl(['lgos']);
        assert.equal(code, 2);
        assert.match(stderr, /there is no command lgos; nearest: logs/);
        assert.doesNotMatch(await must(lab.program('sandboxctl'), ['--help'], { env: lab.env() }), /^ {2}complete /m);
    }));
