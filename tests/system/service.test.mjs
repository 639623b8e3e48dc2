// The supervisor as a unit of systemd: the socket comes as a descriptor, readiness is told, and the units are what systemd takes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { canConnect, gone, must, run, waitFor, withLab } from './lab.mjs';

const quiet = { model: false, agent: false, secret: false, supervisor: false };

async function withProcess(program, args, options, body) {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    const exited = once(child, 'exit');
    child.said = '';
    for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', text => (child.said += text));
    try {
        await body(child, exited);
    } finally {
        if (child.exitCode === null && child.signalCode === null)
            child.kill('SIGTERM');
        await exited;
    }
}

test('a socket that is there before the supervisor starts it, and readiness is told', { timeout: 120000 }, () => withLab(quiet, async lab => {
    const notify = lab.path('work', 'notify');
    fs.mkdirSync(path.dirname(lab.socket), { recursive: true, mode: 0o700 });
    await withProcess('socat', ['-u', `UNIX-RECV:${notify}`, 'STDOUT'], {}, async listener => {
        await waitFor('the manager listens', () => fs.existsSync(notify));
        const args = ['-l', lab.socket, '-E', `NOTIFY_SOCKET=${notify}`, ...Object.keys(lab.env()).flatMap(name => ['-E', name]),
            lab.program('sandbox-supervisord')];
        await withProcess('systemd-socket-activate', args, { env: lab.env() }, async (child, exited) => {
            await waitFor('the socket is there', () => fs.existsSync(lab.socket));
            assert.doesNotMatch(listener.said, /READY/, 'nobody has connected yet');
            // The first to connect is answered by the supervisor that it starts.
            const status = await lab.ctlJson(['status']);
            assert.equal(status.pid, child.pid);
            await waitFor('it is ready', () => /READY=1/.test(listener.said));
            assert.doesNotMatch(fs.readFileSync(`/proc/${status.pid}/status`, 'utf8'), /^State:\s+Z/m);
            child.kill('SIGTERM');
            await exited;
            assert.equal(child.exitCode, 0, child.said);
            await waitFor('its end is told', () => /STOPPING=1/.test(listener.said));
            assert.ok(fs.existsSync(lab.socket), 'the socket is the manager\'s');
        });
    });
}));

test('another socket than the one that clients look for is refused', { timeout: 120000 }, () => withLab(quiet, async lab => {
    const other = lab.path('work', 'other.sock');
    const args = ['-l', other, ...Object.keys(lab.env()).flatMap(name => ['-E', name]), lab.program('sandbox-supervisord')];
    await withProcess('systemd-socket-activate', args, { env: lab.env() }, async (child, exited) => {
        await waitFor('the socket is there', () => canConnect({ path: other }));
        await exited;
        assert.equal(child.exitCode, 1);
        assert.match(child.said, /the unit listens on .*other\.sock, but clients look for .*supervisor\.sock/);
    });
}));

test('units are installed, taken by systemd, and removed; a running supervisor gives way', { timeout: 120000 }, () => withLab(
    { ...quiet, supervisor: true }, async lab => {
        // A systemctl of our own: it keeps what it is told.
        const bin = lab.path('work', 'bin');
        const calls = lab.path('work', 'calls');
        fs.mkdirSync(bin);
        fs.writeFileSync(path.join(bin, 'systemctl'), `#!/bin/sh\necho "$@" >>${calls}\n`, { mode: 0o755 });
        const env = { PATH: `${bin}:${process.env.PATH}`, XDG_CONFIG_HOME: lab.path('config 100%') };
        const units = path.join(env.XDG_CONFIG_HOME, 'systemd/user');
        const pid = await lab.supervisorPid();
        const installed = await lab.ctlJson(['service', 'install'], { env });
        assert.deepEqual(installed, { installed: true, active: true, socketUnit: path.join(units, 'sandbox-mcp.socket'),
            serviceUnit: path.join(units, 'sandbox-mcp.service') });
        assert.ok(gone(pid), 'the old one keeps the database');
        assert.deepEqual(fs.readFileSync(calls, 'utf8').trim().split('\n'),
            ['--user daemon-reload', '--user enable --now sandbox-mcp.socket sandbox-mcp.service']);
        const service = fs.readFileSync(installed.serviceUnit, 'utf8');
        assert.match(service, /KillMode=process/);
        assert.match(service, /Type=notify/);
        assert.ok(service.includes(`Environment="XDG_CONFIG_HOME=${lab.path('config 100%%')}"`), service);
        assert.ok(fs.readFileSync(installed.socketUnit, 'utf8').includes(`ListenStream=${lab.socket}\n`));
        const checked = await run('systemd-analyze', ['verify', '--user', '--man=no', installed.socketUnit, installed.serviceUnit],
            { env: { ...lab.env(), XDG_RUNTIME_DIR: lab.path('work') } });
        assert.equal(checked.code, 0, checked.stderr);
        assert.doesNotMatch(checked.stderr, /sandbox-mcp/, checked.stderr);
        assert.equal((await lab.ctl(['service', 'status'], { env })).code, 0);
        assert.equal((await lab.ctlJson(['service', 'uninstall'], { env })).installed, false);
        assert.deepEqual(await lab.ctl(['service', 'uninstall'], { env }), { code: 0, stdout: 'The supervisor is no service: nothing is installed.\n', stderr: '' });
        assert.deepEqual(fs.readdirSync(units), []);
        assert.equal((await lab.ctl(['service', 'status'], { env })).code, 1);
        // Where systemd can't be reached the person is told what to do, and nothing is stopped.
        fs.writeFileSync(path.join(bin, 'systemctl'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
        await lab.startSupervisor();
        const alone = await lab.ctl(['service', 'install'], { env });
        assert.equal(alone.code, 1);
        assert.match(alone.stdout, /systemctl --user enable --now/);
        assert.ok(await lab.supervisorPid());
    }));

test('the words of the command are checked', { timeout: 60000 }, () => withLab(quiet, async lab => {
    assert.equal((await lab.ctl(['service', 'restart'])).code, 2);
    assert.match((await must(lab.program('sandboxctl'), ['service', '--help'], { env: lab.env() })), /^usage: sandboxctl service install\n +sandboxctl service status\n +sandboxctl service uninstall\n/);
}));
