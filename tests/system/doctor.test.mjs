// What sandboxctl doctor says of a machine on which one thing is broken: its cause, and a command that mends it. With a supervisor and
// without one.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { run, withLab } from './lab.mjs';

const isRoot = process.getuid() === 0;
const bare = { model: false, agent: true, supervisor: false };

// Programs found on PATH, by names of ours or as they are; nothing else is.
function programs(lab, ...names) {
    const folder = lab.path('work', 'bin');
    fs.mkdirSync(folder, { recursive: true });
    for (const name of names) {
        const found = process.env.PATH.split(':').map(one => path.join(one, name)).find(one => fs.existsSync(one));
        if (found && !fs.existsSync(path.join(folder, name)))
            fs.symlinkSync(fs.realpathSync(found), path.join(folder, name));
    }
    fs.chmodSync(lab.root, 0o755); // bubblewrap is tried under another uid
    fs.chmodSync(lab.path('work'), 0o755);
    fs.chmodSync(folder, 0o755);
    return folder;
}

function script(folder, name, text) {
    fs.rmSync(path.join(folder, name), { force: true });
    fs.writeFileSync(path.join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return path.join(folder, name);
}

// As bubblewrap says it when the kernel refuses it a user namespace.
const refused = 'case "$1" in --version) echo "bubblewrap 0.8.0";; *) echo "bwrap: setting up uid map: Permission denied" >&2; exit 1;; esac';

async function doctor(lab, options = {}) {
    const { prefix = [], ...rest } = options;
    const argv = [...prefix, lab.program('sandboxctl'), 'doctor', '--json'];
    const result = await run(argv[0], argv.slice(1), { cwd: lab.path('work'), ...lab.identity, ...rest, env: lab.env(rest.env) });
    assert.ok(result.stdout, `no report: ${result.code} ${result.stderr}`);
    return { ...result, ...JSON.parse(result.stdout) };
}

const of = (report, check) => report.checks.filter(one => one.check === check);

// CHECK alone is broken, in these words, and this mends it.
function assertBroken(report, check, words, mend, code = 1) {
    const broken = report.checks.filter(one => one.verdict === 'broken');
    const found = broken.find(one => one.check === check && words.test(one.detail));
    assert.ok(found, `${check} is not broken by ${words}: ${JSON.stringify(report.checks, null, 1)}`);
    assert.match(found.mend ?? '', mend);
    assert.equal(report.code, code);
    assert.equal(report.ok, false);
    return broken;
}

test('a machine with everything', { timeout: 300000 }, () => withLab({}, async lab => {
    const report = await doctor(lab);
    assert.equal(report.code, 0, JSON.stringify(report.checks, null, 1));
    assert.equal(report.ok, true);
    assert.match(of(report, 'bubblewrap')[0].detail, /version \d+\.\d+/);
    assert.match(of(report, 'agent')[0].detail, /opencode.*version 1\./);
    assert.match(of(report, 'sandbox')[0].detail, /pid-namespace/);
    assert.ok(of(report, 'agent').some(one => one.verdict === 'note' && /claude/.test(one.detail + one.mend)), 'agents of the configuration');
    assert.ok(of(report, 'service').some(one => /ANTHROPIC_API_KEY is there/.test(one.detail)));
    const people = await lab.ctl(['doctor']);
    assert.match(people.stdout, /^ok +bubblewrap/m);
    assert.match(people.stdout, /^ +> sandboxctl secret set OPENAI_API_KEY/m);
    // Asking an agent for its version left nothing in anybody's home.
    assert.deepEqual(fs.readdirSync(lab.path('home')), []);
}));

test('without a supervisor what needs none is looked at', { timeout: 300000 }, () => withLab(bare, async lab => {
    const report = await doctor(lab);
    assert.equal(report.code, 3, JSON.stringify(report.checks, null, 1));
    assert.match(of(report, 'bubblewrap')[0].detail, /version/);
    assert.match(of(report, 'agent')[0].detail, /version 1\./);
    assert.equal(of(report, 'sandbox')[0].verdict, 'good', 'bubblewrap is tried all the same');
    assert.equal(of(report, 'secrets')[0].verdict, 'skipped');
    assert.ok(!fs.existsSync(lab.socket), 'none was started');
}));

for (const [words, file, says] of [
    ['no bubblewrap', null, [/bwrap is not found/, /^sudo apt install bubblewrap$/]],
    ['an old bubblewrap', 'echo bubblewrap 0.4.1', [/0\.4\.1, and 0\.8\.0 or later/, /--only-upgrade bubblewrap/]],
    ['a bubblewrap that hangs', 'exec sleep 600', [/does not say its version/, /reinstall bubblewrap/]],
]) {
    test(`${words} on PATH`, { timeout: 300000 }, () => withLab(bare, async lab => {
        const folder = programs(lab, 'git', 'setpriv', 'true', 'sh', 'sleep');
        if (file)
            script(folder, 'bwrap', file);
        assertBroken(await doctor(lab, { env: { PATH: folder } }), 'bubblewrap', ...says);
    }));
}

test('a bubblewrap that the configuration names and that is not there', { timeout: 300000 }, () => withLab({ model: false,
    config: lab => ({ sandbox: { bwrap: lab.path('work', 'none') } }) }, async lab => {
    assertBroken(await doctor(lab), 'bubblewrap', /sandbox\.bwrap names/, /config\.json/);
}));

for (const supervisor of [true, false]) {
    test(`the kernel refuses bubblewrap ${supervisor ? 'a supervisor\'s' : 'a'} namespace`, { timeout: 300000 }, () => withLab({ ...bare, supervisor,
        config: lab => ({ sandbox: { bwrap: script(programs(lab), 'refused', refused) } }) }, async lab => {
        const broken = assertBroken(await doctor(lab), 'namespaces', /uid map: Permission denied/, /seccomp=unconfined/);
        assert.ok(broken.some(one => one.check === 'sandbox'), 'no sandbox');
    }));
}

test('user namespaces are used up', { timeout: 300000 }, async context => {
    const inside = ['unshare', '-U', '-r', 'sh', '-c', 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', 'sh'];
    if ((await run(inside[0], [...inside.slice(1), 'true'])).code !== 0)
        return context.skip('no user namespace can be made here');
    return withLab(bare, async lab => {
        assertBroken(await doctor(lab, { prefix: inside }), 'namespaces', /no user namespaces are allowed/, /^sudo sysctl -w user\.max_user_namespaces=\d+$/);
    });
});

for (const [name, value, words, mend] of [
    ['apparmor_restrict_unprivileged_userns', 1, /AppArmor/, /sysctl -w kernel\.apparmor_restrict_unprivileged_userns=0$/],
    ['unprivileged_userns_clone', 0, /switched off/, /sysctl -w kernel\.unprivileged_userns_clone=1$/],
]) {
    test(`user namespaces are forbidden by ${name}`, { timeout: 300000, skip: !isRoot && 'only root can put a switch there' }, () => withLab(bare, async lab => {
        const folder = programs(lab, 'git', 'setpriv', 'true', 'sh', 'cat');
        script(folder, 'bwrap', refused);
        const prefix = ['unshare', '-m', 'sh', '-c', 'mount -t tmpfs none /proc/sys/kernel && echo "$1" >"/proc/sys/kernel/$2" && shift 2 && PATH=$LAB_PATH exec "$@"',
            'sh', `${value}`, name];
        assertBroken(await doctor(lab, { prefix, env: { LAB_PATH: folder } }), 'namespaces', words, mend);
    }));
}

for (const supervisor of [true, false])
    test(`no OpenCode, ${supervisor ? 'with' : 'without'} a supervisor`, { timeout: 300000 }, () => withLab({ model: false, agent: false, supervisor }, async lab => {
        assertBroken(await doctor(lab), 'agent', /OpenCode is not installed/, /^npm install -g opencode-ai@1$/);
    }));

test('an OpenCode that the configuration names and that is not there', { timeout: 300000 }, () => withLab({ ...bare,
    config: lab => ({ agents: { opencode: { path: lab.path('work', 'none') } } }) }, async lab => {
    assertBroken(await doctor(lab), 'agent', /no OpenCode program at .*none, as agents\.opencode\.path/, /npm install/);
}));

test('an OpenCode of a version that is not known to work', { timeout: 300000 }, () => withLab({ ...bare, agent: false }, async lab => {
    const folder = lab.path('data', 'agents', 'opencode', 'bin');
    fs.mkdirSync(folder, { recursive: true });
    for (const [version, words] of [['0.15.2', /version 0\.15\.2, and 1\.x works/], ['2.0.0', /version 2\.0\.0/]]) {
        script(folder, 'opencode', `echo ${version}`);
        assertBroken(await doctor(lab), 'agent', words, /npm install -g opencode-ai@1/);
    }
    script(folder, 'opencode', 'exit 1');
    assertBroken(await doctor(lab), 'agent', /does not say its version/, /npm install/);
}));

test('a program that is no OpenCode, under a supervisor', { timeout: 300000 }, () => withLab({ model: false, agent: false }, async lab => {
    const folder = lab.path('data', 'agents', 'opencode', 'bin');
    fs.mkdirSync(folder, { recursive: true });
    fs.copyFileSync('/bin/echo', path.join(folder, 'opencode')); // its --version is its own
    assertBroken(await doctor(lab), 'agent', /is version \d+\.\d+, and 1\.x works|does not say/, /npm install/);
}));

test('a key that the service refuses', { timeout: 300000 }, () => withLab({ secret: false }, async lab => {
    assertBroken(await doctor(lab), 'secrets', /no service has its secret/, /^sandboxctl secret set /);
    const tried = async () => {
        const { code, stdout, stderr } = await lab.ctl(['doctor', '--json', '--service', 'anthropic']);
        assert.ok(stdout, stderr);
        return { code, ...JSON.parse(stdout) };
    };
    assertBroken(await tried(), 'service', /no key is stored/, /^sandboxctl secret set ANTHROPIC_API_KEY$/);
    await lab.setSecret('not-the-key');
    assertBroken(await tried(), 'service', /refuses the key.*401/, /^sandboxctl secret set ANTHROPIC_API_KEY$/);
    lab.upstream.answer = (request, response) => {
        response.writeHead(request.headers['x-api-key'] === lab.secret ? 200 : 401, { 'content-type': 'application/json' }).end('{"data":[]}');
        return true;
    };
    await lab.setSecret();
    assert.equal((await tried()).code, 0);
}));

test('a full disk', { timeout: 300000, skip: !isRoot && 'only root can mount a small disk' }, () => withLab(bare, async lab => {
    const prefix = ['unshare', '-m', 'sh', '-c', 'mount -t tmpfs -o size=3m,mode=700 none "$1" && shift && exec "$@"', 'sh', lab.state];
    assertBroken(await doctor(lab, { prefix }), 'disk', /^3 MiB are free .*limits\.freeDiskMiB/, /sandboxctl rm/);
    const inodes = ['unshare', '-m', 'sh', '-c', 'mount -t tmpfs -o size=2g,nr_inodes=20,mode=700 none "$1" && shift && exec "$@"', 'sh', lab.state];
    assertBroken(await doctor(lab, { prefix: inodes }), 'disk', /no room for more files/, /sandboxctl rm/);
}));

test('a configuration that the supervisor would refuse', { timeout: 300000 }, () => withLab(bare, async lab => {
    fs.writeFileSync(lab.configFile, '{ "sandbox": { "bwarp": "x" } }');
    assertBroken(await doctor(lab), 'config', /bwarp/, /config\.json/);
}));

test('a state folder and a socket that are open to others, or in the way', { timeout: 300000 }, () => withLab(bare, async lab => {
    fs.chmodSync(lab.state, 0o777);
    assertBroken(await doctor(lab), 'state', /others may write/, /^chmod go-w /);
    fs.chmodSync(lab.state, 0o700);
    fs.mkdirSync(path.dirname(lab.socket));
    fs.writeFileSync(lab.socket, '');
    assertBroken(await doctor(lab), 'socket', /is no socket/, /^rm .*supervisor\.sock$/);
    fs.rmSync(lab.socket);
    const long = await doctor(lab, { env: { SANDBOX_MCP_RUNTIME: lab.path('run'.padEnd(120, 'x')) } });
    assert.match(of(long, 'socket')[0].mend, /SANDBOX_MCP_RUNTIME=/);
    if (isRoot) {
        fs.chownSync(lab.state, 12345, 12345);
        assertBroken(await doctor(lab), 'state', /belongs to another user/, /^sudo chown -R /);
        fs.chownSync(lab.state, 0, 0);
    }
}));

test('a clock that went back', { timeout: 300000 }, () => withLab({ model: false }, async lab => {
    const later = Date.now() / 1000 + 86400;
    fs.utimesSync(path.join(lab.state, 'db', 'data.mdb'), later, later);
    const report = await doctor(lab);
    assert.match(of(report, 'clock')[0].detail, /went back/);
    assert.match(of(report, 'clock')[0].mend, /timedatectl/);
}));
