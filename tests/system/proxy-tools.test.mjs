// Real programs in a real sandbox against stand-ins on this machine's loopback, through the proxy's tunnels: what the
// configuration allows works, everything else is refused with a reason. 127.0.0.2 plays the Internet, since programs go
// to localhost and 127.0.0.1 without a proxy.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import nodeTls from 'node:tls';
import { long, waitFor, withLab } from './lab.mjs';

const host = '127.0.0.2';
const name = 'stand-in.localhost'; // for programs that can't do addresses, or never send 127.0.0.0/8 to a proxy
const has = program => {
    try {
        execFileSync('sh', ['-c', `PATH=/usr/local/bin:/usr/bin:/bin command -v ${program}`], { stdio: 'ignore' });
        return true;
    } catch {
        return false;
    }
};

// A certificate authority of another company and a certificate for the stand-ins, with the openssl program.
function certificates(folder) {
    const openssl = (...args) => execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
    const key = name => ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];

    fs.mkdirSync(folder, { recursive: true });
    openssl('req', '-x509', ...key('ca'), '-out', 'ca.pem', '-days', '2', '-subj', '/CN=stand-in authority');
    openssl('req', ...key('leaf'), '-out', 'leaf.csr', '-subj', '/CN=stand-in');
    fs.writeFileSync(path.join(folder, 'ext'), `subjectAltName=IP:${host},DNS:${name}\nextendedKeyUsage=serverAuth\nkeyUsage=digitalSignature\n`);
    openssl('x509', '-req', '-in', 'leaf.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'ext', '-out', 'leaf.pem');
    return { key: fs.readFileSync(path.join(folder, 'leaf.key')), cert: fs.readFileSync(path.join(folder, 'leaf.pem')),
        file: path.join(folder, 'ca.pem') };
}

class StandIns {
    requests = [];
    #servers = [];

    // Answers with ANSWER(request, response), or says who asked for what.
    async listen(tls, answer, address = host) {
        const handle = (request, response) => {
            this.requests.push({ method: request.method, url: request.url, headers: request.headers });
            if (answer)
                answer(request, response);
            else
                response.end(`stand-in: ${request.method} ${request.url}\n`);
        };
        const server = tls ? https.createServer(tls, handle) : http.createServer(handle);
        server.listen(0, address);
        await once(server, 'listening');
        this.#servers.push(server);
        return server.address().port;
    }

    async stop() {
        for (const server of this.#servers) {
            server.close();
            server.closeAllConnections();
            await once(server, 'close');
        }
    }
}

// A lab with stand-ins: JUDGED (GET and HEAD below /pub), OPAQUE (anything), CLEAR (http, GET and HEAD), CLOSED (no rule),
// and those that ANSWERS names: {name: (request, response) => …}, each with the rule GET and HEAD. CHANGES(tls, ports, lab) add to the configuration.
async function withStandIns({ answers = {}, changes = () => ({}), rules = () => [], host: as = host }, body) {
    const standIns = new StandIns();
    try {
        await withLab({ model: false, agent: false, supervisor: false }, async lab => {
            const tls = certificates(lab.path('certificates'));
            const ports = {};
            for (const [one, answer] of Object.entries({ judged: null, opaque: null, clear: null, closed: null, ...answers }))
                ports[one] = await standIns.listen(one === 'clear' ? null : tls, answer, as === host ? host : '127.0.0.1');
            lab.writeConfig({ egress: { caFile: tls.file, detectRegistries: false, allow: [
                `GET,HEAD ${as}:${ports.judged}/pub/...`, `${as}:${ports.opaque}`, `GET,HEAD ${as}:${ports.clear}`,
                ...rules(ports)] }, ...changes(ports, lab) });
            await lab.startSupervisor();
            await lab.setSecret();
            await body(lab, standIns, ports);
        });
    } finally {
        await standIns.stop();
    }
}

async function script(lab, lines) {
    const { runId } = await lab.startScript(lines.join('\n'));
    const view = await lab.ended(runId);
    const { records } = await lab.ctlJson(['audit', runId]);
    return { runId, view, output: view.result?.output ?? '', records };
}

const java = url => `printf '%s' 'public class Get { public static void main(String[] a) throws Exception {
    System.out.print(new String(new java.net.URI(a[0]).toURL().openStream().readAllBytes())); } }' > /tmp/Get.java; java /tmp/Get.java ${url}`;

const fetchers = [
    ['curl', url => `curl -sS --max-time 20 ${url}`],
    has('wget') && ['wget', url => `wget -q -O- --timeout=20 --tries=1 ${url}`],
    has('python3') && ['python', url => `python3 -c 'import urllib.request as u; print(u.urlopen("${url}", timeout=20).read().decode(), end="")'`],
    fs.existsSync('/usr/lib/python3/dist-packages/requests') && ['requests', url => `/usr/bin/python3 -c 'import requests
r = requests.get("${url}", timeout=20)
r.raise_for_status()
print(r.text, end="")'`],
    ['node', url => `/opt/node/node -e 'fetch("${url}").then(async r => { const t = await r.text(); if (!r.ok) throw new Error(t); process.stdout.write(t); })'`],
    has('javac') && ['java', java, name],
].filter(Boolean);

for (const [program, fetch, as = host] of fetchers)
    test(`${program} reaches what is allowed and nothing else`, { timeout: 300000 }, () => withStandIns({ host: as,
        changes: () => ({ sandbox: { readOnlyFolders: [`${path.dirname(process.execPath)}:/opt/node`] } }) },
    async (lab, standIns, ports) => {
        const allowed = [`https://${as}:${ports.judged}/pub/a`, `https://${as}:${ports.opaque}/any`, `http://${as}:${ports.clear}/plain`];
        const good = await script(lab, allowed.map(fetch));
        assert.equal(good.view.status, 'completed', JSON.stringify(good.view));
        assert.equal(good.output.match(/stand-in: GET/g)?.length, 3, good.output);
        assert.equal(good.view.evidence.refusedRequests, 0);
        const before = standIns.requests.length;
        for (const [url, reason] of [[`https://${as}:${ports.judged}/other`, 'request_not_allowed'],
            [`https://${as}:${ports.closed}/pub/a`, 'host_not_allowed'], [`https://other.invalid:${ports.judged}/pub/a`, 'host_not_allowed'],
            [`http://169.254.169.254/latest`, 'host_not_allowed']]) {
            const bad = await script(lab, [`${fetch(url)} && echo went through`]);
            assert.doesNotMatch(bad.output, /stand-in: /, url);
            assert.ok(bad.view.evidence.refusedRequests > 0, `${url}: ${JSON.stringify(bad.view)}`);
            assert.ok(bad.records.some(record => record.verdict === 'deny' && record.reason === reason), `${url}: ${JSON.stringify(bad.records)}`);
        }
        assert.equal(standIns.requests.length, before, 'something was reached that is refused');
    }));

test('a refusal says why, and that trying again is no use', { timeout: 300000 }, () => withStandIns({}, async (lab, standIns, ports) => {
    const { output } = await script(lab, [`curl -sS -X DELETE https://${host}:${ports.judged}/pub/a`]);
    const { error } = JSON.parse(output);
    assert.equal(error.code, 'request_not_allowed');
    assert.match(error.hint, /do not retry/);
    assert.equal(standIns.requests.length, 0);
}));

test('doctor tries a service and says what is wrong with it', { timeout: 300000 }, () => {
    const good = `key-${crypto.randomBytes(16).toString('hex')}`;
    const answer = (request, response) => response.writeHead(request.headers['x-key'] === good ? 200 : 401).end('{}');
    return withStandIns({ host: name, answers: { model: answer }, changes: ports => {
        const service = (target, more) => ({ target, inject: { header: 'x-key', value: '{LAB_KEY}' }, probe: '/list', ...more });
        return { services: { 'lab-good': service(`https://${name}:${ports.model}`), 'lab-down': service('https://127.0.0.1:1'),
            'lab-named': service(`https://localhost:${ports.model}`), 'lab-mute': service(`https://${name}:${ports.model}`, { probe: '' }) } };
    } }, async (lab, standIns) => {
        const doctor = async which => {
            const { code, stdout, stderr } = await lab.ctl(['doctor', '--service', which]);
            return `${code} ${stdout}${stderr}`;
        };
        assert.match(await doctor('lab-good'), /^1 MISSING .*no key is stored\n *> sandboxctl secret set LAB_KEY\n/);
        assert.equal(standIns.requests.length, 0);
        await lab.setSecret('not-the-key', 'LAB_KEY');
        assert.match(await doctor('lab-good'), /^1 MISSING .*refuses the key.*status 401/);
        await lab.setSecret(good, 'LAB_KEY');
        assert.match(await doctor('lab-good'), /^0 ok .*works/);
        assert.match(await doctor('lab-down'), /^1 MISSING .*can't be reached.*upstream_connect/);
        assert.match(await doctor('lab-named'), /^1 MISSING .*certificate is not trusted/);
        assert.match(await doctor('lab-mute'), /^0 note .*probe/);
        assert.match(await doctor('nobody'), /^4 .*no service nobody/);
        assert.deepEqual(standIns.requests.map(one => one.url), ['/list', '/list']);
        const { records } = await lab.ctlJson(['audit']);
        assert.equal(records.filter(record => record.service === 'lab-good').length, 2);
        assert.ok(!JSON.stringify(records).includes(good));
    });
});

test('a service is reached through a company\'s proxy', { timeout: 300000 }, async () => {
    const asked = [];
    const requests = [];
    const login = 'someone:pass word';
    const service = http.createServer((request, response) => {
        requests.push(request.headers);
        response.end('{}');
    });
    const parent = http.createServer();
    parent.on('connect', (request, socket, early) => {
        asked.push(request.url);
        if (request.headers['proxy-authorization'] !== `Basic ${Buffer.from(login).toString('base64')}`) {
            socket.end('HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n');
            return;
        }
        const there = net.connect(service.address().port, '127.0.0.1', () => {
            socket.write('HTTP/1.1 200 OK\r\n\r\n');
            there.write(early);
            socket.pipe(there).pipe(socket);
        });
        there.on('error', () => socket.destroy());
        socket.on('error', () => there.destroy());
    });
    for (const server of [service, parent])
        await once(server.listen(0, '127.0.0.1'), 'listening');
    try {
        await withLab({ model: false, agent: false, supervisor: false }, async lab => {
            lab.writeConfig({ egress: { proxy: `http://127.0.0.1:${parent.address().port}`, proxySecret: 'CORP', noProxy: ['near.invalid'],
                detectRegistries: false },
            services: Object.fromEntries(['far', 'near'].map(one =>
                [`lab-${one}`, { target: `http://${one}.invalid`, plainHttp: true, inject: { header: 'x-key', value: '{LAB_KEY}' }, probe: '/list' }])) });
            await lab.startSupervisor();
            await lab.setSecret('the-key', 'LAB_KEY');
            const doctor = async which => {
                const { code, stdout, stderr } = await lab.ctl(['doctor', '--service', `lab-${which}`]);
                return `${code} ${stdout}${stderr}`;
            };
            assert.match(await doctor('far'), /^1 MISSING .*can't be reached.*upstream_proxy/);
            await lab.setSecret(login, 'CORP');
            assert.match(await doctor('far'), /^0 ok .*works/);
            assert.match(await doctor('near'), /^1 MISSING .*can't be reached.*upstream_resolve/);
            assert.deepEqual(asked, ['far.invalid:80', 'far.invalid:80']);
            assert.deepEqual(requests.map(headers => [headers['x-key'], headers['proxy-authorization']]), [['the-key', undefined]]);
        });
    } finally {
        for (const server of [service, parent]) {
            server.close();
            server.closeAllConnections();
        }
    }
});

// A registry with one package, as npm asks for it.
function npmRegistry(folder) {
    const files = path.join(folder, 'package');
    fs.mkdirSync(files, { recursive: true });
    fs.writeFileSync(path.join(files, 'package.json'), JSON.stringify({ name: '@lab/sample', version: '1.0.0', main: 'index.js' }));
    fs.writeFileSync(path.join(files, 'index.js'), 'module.exports = "sample is here";\n');
    execFileSync('tar', ['-czf', 'sample.tgz', 'package'], { cwd: folder });
    const tarball = fs.readFileSync(path.join(folder, 'sample.tgz'));
    return (request, response) => {
        if (request.method !== 'GET') {
            response.writeHead(201).end('{}');
        } else if (request.url === '/@lab%2fsample' || request.url === '/@lab%2Fsample') {
            response.writeHead(200, { 'content-type': 'application/json' });
            response.end(JSON.stringify({ name: '@lab/sample', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': {
                name: '@lab/sample', version: '1.0.0', dist: { tarball: `https://${request.headers.host}/@lab/sample/-/sample-1.0.0.tgz`,
                    shasum: crypto.createHash('sha1').update(tarball).digest('hex') } } } }));
        } else if (request.url.endsWith('.tgz')) {
            response.end(tarball);
        } else {
            response.writeHead(404).end('{}');
        }
    };
}

test('npm installs from a registry and cannot publish to it', { timeout: 300000, skip: !has('npm') && 'no npm' }, () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lab-npm-'));
    return withStandIns({ answers: { npm: npmRegistry(folder) }, host: name, rules: ports => [`GET,HEAD ${name}:${ports.npm}`] }, async (lab, standIns, ports) => {
        const registry = `export NO_PROXY= no_proxy= npm_config_registry=https://${name}:${ports.npm}/ npm_config_update_notifier=false; cd "$HOME" && mkdir -p p && cd p`;
        const good = await script(lab, [registry, 'npm init -y >/dev/null', 'npm install --no-audit --no-fund @lab/sample 2>&1',
            "node -p 'require(\"@lab/sample\")'"]);
        assert.match(good.output, /sample is here/);
        const bad = await script(lab, [registry, 'npm init -y >/dev/null', 'npm config set "//${npm_config_registry#https://}:_authToken" x',
            'npm publish --access public 2>&1; echo "code $?"']);
        assert.match(bad.output, /code [1-9]/);
        assert.ok(bad.records.some(record => record.method === 'PUT' && record.reason === 'request_not_allowed'), JSON.stringify(bad.records) + bad.output);
        assert.ok(standIns.requests.every(one => one.method === 'GET'), JSON.stringify(standIns.requests));
    }).finally(() => fs.rmSync(folder, { recursive: true }));
});

// A wheel made by hand: a zip with three files.
function wheelIndex(folder) {
    const wheel = path.join(folder, 'lab_sample-1.0-py3-none-any.whl');
    execFileSync('python3', ['-c', `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("lab_sample.py", "words = 'the wheel turns'\\n")
    z.writestr("lab_sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: lab-sample\\nVersion: 1.0\\n")
    z.writestr("lab_sample-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: lab\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr("lab_sample-1.0.dist-info/RECORD", "")`, wheel]);
    return (request, response) => {
        if (request.url.startsWith('/simple/lab-sample/'))
            response.writeHead(200, { 'content-type': 'text/html' }).end(`<!DOCTYPE html><a href="/files/${path.basename(wheel)}">${path.basename(wheel)}</a>`);
        else if (request.url.startsWith('/files/'))
            response.end(fs.readFileSync(wheel));
        else
            response.writeHead(404).end();
    };
}

test('pip installs from an index', { timeout: 300000, skip: !has('pip3') && 'no pip' }, () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lab-pip-'));
    return withStandIns({ answers: { index: wheelIndex(folder) }, rules: ports => [`GET,HEAD ${host}:${ports.index}`] }, async (lab, standIns, ports) => {
        const { output } = await script(lab, [`pip3 install --disable-pip-version-check --no-cache-dir --target "$HOME/lib" --index-url https://${host}:${ports.index}/simple lab-sample 2>&1`,
            `PYTHONPATH="$HOME/lib" python3 -c 'import lab_sample; print(lab_sample.words)'`]);
        assert.match(output, /the wheel turns/);
    }).finally(() => fs.rmSync(folder, { recursive: true }));
});

// A sparse registry with one crate, made by hand.
function crateRegistry(folder) {
    const root = path.join(folder, 'lab-sample-1.0.0');
    fs.mkdirSync(path.join(root, 'src'), { recursive: true });
    fs.writeFileSync(path.join(root, 'Cargo.toml'), '[package]\nname = "lab-sample"\nversion = "1.0.0"\nedition = "2021"\n');
    fs.writeFileSync(path.join(root, 'src/lib.rs'), 'pub fn words() -> &\'static str { "the crate is open" }\n');
    execFileSync('tar', ['czf', 'sample.crate', 'lab-sample-1.0.0'], { cwd: folder });
    const crate = fs.readFileSync(path.join(folder, 'sample.crate'));
    const line = { name: 'lab-sample', vers: '1.0.0', deps: [], cksum: crypto.createHash('sha256').update(crate).digest('hex'), features: {}, yanked: false };
    return (request, response) => {
        const here = `https://${request.headers.host}`;
        const answers = { '/index/config.json': JSON.stringify({ dl: `${here}/crates/{crate}-{version}.crate`, api: here }),
            '/index/la/b-/lab-sample': JSON.stringify(line) + '\n', '/crates/lab-sample-1.0.0.crate': crate };
        if (request.method === 'GET' && answers[request.url])
            response.end(answers[request.url]);
        else
            response.writeHead(404).end();
    };
}

// Sparse registries came with 1.68.
const newCargo = () => Number(/^cargo 1\.(\d+)/.exec(execFileSync('cargo', ['--version'], { encoding: 'utf8', env: { PATH: '/usr/local/bin:/usr/bin:/bin' } }))?.[1]) >= 68;

test('cargo builds with a crate of a registry and cannot publish to it', { timeout: 300000, skip: !(has('cargo') && has('rustc') && newCargo()) && 'no cargo' }, () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lab-cargo-'));
    return withStandIns({ answers: { crates: crateRegistry(folder) }, host: name, rules: ports => [`GET,HEAD ${name}:${ports.crates}`] }, async (lab, standIns, ports) => {
        const begin = [`export NO_PROXY= no_proxy= CARGO_REGISTRIES_LAB_INDEX=sparse+https://${name}:${ports.crates}/index/ CARGO_REGISTRIES_LAB_TOKEN=x`,
            'mkdir -p "$HOME/c/src" && cd "$HOME/c"',
            'printf \'[package]\nname = "c"\nversion = "0.1.0"\nedition = "2021"\ndescription = "x"\nlicense = "MIT"\n[dependencies]\nlab-sample = { version = "1", registry = "lab" }\n\' >Cargo.toml',
            'echo \'fn main() { println!("{}", lab_sample::words()); }\' >src/main.rs'];
        const good = await script(lab, [...begin, 'cargo run -q 2>&1']);
        assert.match(good.output, /the crate is open/, JSON.stringify(good.records));
        const bad = await script(lab, [...begin, 'cargo publish --registry lab --allow-dirty --no-verify 2>&1; echo "code $?"']);
        assert.match(bad.output, /code [1-9]/);
        assert.ok(bad.records.some(record => record.method === 'PUT' && record.reason === 'request_not_allowed'), JSON.stringify(bad.records) + bad.output);
        assert.ok(standIns.requests.every(one => one.method === 'GET'), JSON.stringify(standIns.requests));
    }).finally(() => fs.rmSync(folder, { recursive: true }));
});

// Go's programs never send loopback to a proxy, by whatever name, unless NO_PROXY is empty.
test('go asks its module proxy', { timeout: 300000, skip: !has('go') && 'no go' }, () => {
    const answer = (request, response) => {
        const [, version, kind] = /^\/lab\.example\/sample\/@v\/(v[0-9.]*[0-9])\.(info|mod)$/.exec(request.url) ?? [];
        if (request.url === '/lab.example/sample/@v/list')
            response.end('v1.0.0\nv1.2.0\n');
        else if (kind)
            response.end(kind === 'mod' ? 'module lab.example/sample\n' : JSON.stringify({ Version: version, Time: '2020-01-01T00:00:00Z' }));
        else
            response.writeHead(404).end();
    };
    return withStandIns({ host: name, answers: { modules: answer }, rules: ports => [`GET,HEAD ${name}:${ports.modules}`] }, async (lab, standIns, ports) => {
        const { output, view } = await script(lab, [`export NO_PROXY= no_proxy= GOPROXY=https://${name}:${ports.modules} GOSUMDB=off GOFLAGS=-mod=mod GOTOOLCHAIN=local`,
            'mkdir -p "$HOME/m" && cd "$HOME/m" && go mod init lab.example/m 2>/dev/null', 'go list -m -versions lab.example/sample 2>&1']);
        assert.match(output, /^lab.example\/sample v1.0.0 v1.2.0$/m, JSON.stringify(view));
    });
});

test('gh asks a forge with a token that it never sees', { timeout: 300000, skip: !has('gh') && 'no gh' }, () => {
    const key = `forge-${crypto.randomBytes(16).toString('hex')}`;
    const answer = (request, response) => response.writeHead(request.headers.authorization === `token ${key}` ? 200 : 401,
        { 'content-type': 'application/json' }).end('{"login":"lab"}');
    return withStandIns({ host: name, answers: { forge: answer }, changes: ports => ({ services: { forge: { target: `https://${name}:${ports.forge}`,
        inject: { header: 'authorization', value: 'token {FORGE_TOKEN}' }, allow: ['GET /user'] } } }) }, async (lab, standIns, ports) => {
        await lab.setSecret(key, 'FORGE_TOKEN');
        const { output, records } = await script(lab, ['export NO_PROXY= no_proxy= GH_CONFIG_DIR=/tmp/gh GH_NO_UPDATE_NOTIFIER=1',
            `export GH_ENTERPRISE_TOKEN=$(sed -n 's/.*extraheader = .*basic //Ip' /etc/gitconfig | tr -d '"' | head -1 | base64 -d | cut -d: -f2)`,
            `gh api https://${name}:${ports.forge}/user 2>&1; echo "code $?"`, `gh api -X DELETE https://${name}:${ports.forge}/user 2>&1; echo "code $?"`]);
        assert.match(output, /"login": ?"lab"[^]*code 0[^]*code 1/, JSON.stringify(records));
        assert.ok(records.some(record => record.service === 'forge' && record.method === 'DELETE' && record.reason === 'request_not_allowed'), JSON.stringify(records));
        assert.deepEqual(standIns.requests.map(one => one.method), ['GET']);
        assert.doesNotMatch(output, new RegExp(key));
    });
});

// git http-backend behind TLS that takes one token only.
function gitServer(folder, token, seen) {
    const expected = `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`;
    const backend = execFileSync('git', ['--exec-path'], { encoding: 'utf8' }).trim() + '/git-http-backend';
    execFileSync('git', ['init', '-q', '--bare', '-b', 'main', path.join(folder, 'owner/repo.git')]);
    execFileSync('git', ['-C', path.join(folder, 'owner/repo.git'), 'config', 'http.receivepack', 'true']);
    return (request, response) => {
        seen.push(request.headers.authorization ?? '');
        if (request.headers.authorization !== expected) {
            response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
            return;
        }
        const url = new URL(request.url, 'https://x');
        const child = spawn(backend, [], { env: { PATH: process.env.PATH, GIT_PROJECT_ROOT: folder, GIT_HTTP_EXPORT_ALL: '1', PATH_INFO: url.pathname,
            QUERY_STRING: url.search.slice(1), REQUEST_METHOD: request.method, CONTENT_TYPE: request.headers['content-type'] ?? '',
            HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '', GIT_PROTOCOL: request.headers['git-protocol'] ?? '', REMOTE_USER: 'lab',
            ...(request.headers['content-length'] ? { CONTENT_LENGTH: request.headers['content-length'] } : {}) } });
        let head = Buffer.alloc(0);
        let begun = false;
        request.pipe(child.stdin);
        child.stdin.on('error', () => {});
        child.stdout.on('data', part => {
            if (begun) {
                response.write(part);
                return;
            }
            head = Buffer.concat([head, part]);
            const end = head.indexOf('\r\n\r\n');
            if (end < 0)
                return;
            const lines = head.subarray(0, end).toString().split('\r\n').map(line => line.split(': '));
            const status = Number(lines.find(([name]) => name === 'Status')?.[1].slice(0, 3) ?? 200);
            response.writeHead(status, Object.fromEntries(lines.filter(([name]) => name !== 'Status')));
            response.write(head.subarray(end + 4));
            begun = true;
        });
        child.stdout.on('end', () => response.end());
    };
}

test('git clones from and pushes to https addresses with a token that it never sees', { timeout: 600000 }, () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lab-git-'));
    const token = `forge-${crypto.randomBytes(16).toString('hex')}`;
    const seen = [];
    const megabytes = long ? 50 : 5;
    return withStandIns({ answers: { forge: gitServer(folder, token, seen) }, changes: ports => ({ services: { forge: {
        target: `https://${host}:${ports.forge}`, inject: { header: 'authorization', value: 'Basic {FORGE_TOKEN:basic:x-access-token}' },
        repositories: ['owner/repo'], push: { refs: ['main'] } } } }) },
    async (lab, standIns, ports) => {
        await lab.setSecret(token, 'FORGE_TOKEN');
        const remote = `https://${host}:${ports.forge}/owner/repo.git`;
        const identity = 'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a.invalid GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a.invalid';
        const pushed = await script(lab, ['set -e', identity, `git clone -q ${remote} r 2>/dev/null`, 'cd r', 'git checkout -q -b main',
            `head -c ${megabytes << 20} /dev/urandom > big`, 'git add big', 'git commit -qm big', 'git push -q origin main', 'sha256sum < big']);
        assert.equal(pushed.view.status, 'completed', JSON.stringify(pushed.view));
        // The same through a tunnel, without the rewriting of addresses that sandboxes have by themselves.
        const tunnel = 'export GIT_CONFIG_NOSYSTEM=1; credential=$(sed -n "s/.*extraheader = //Ip" /etc/gitconfig | tr -d \'"\' | head -1)';
        const pulled = await script(lab, ['set -e', tunnel, `git -c "http.extraHeader=$credential" clone -q ${remote} again`, 'sha256sum < again/big']);
        assert.equal(pulled.output, pushed.output, JSON.stringify(pulled.view));
        assert.ok(pulled.records.some(record => record.method === 'CONNECT'), JSON.stringify(pulled.records));
        const refused = await script(lab, ['set -e', tunnel, identity, `git -c "http.extraHeader=$credential" clone -q ${remote} again`, 'cd again',
            'git -c "http.extraHeader=$credential" push origin main:other 2>&1 || echo "code $?"']);
        assert.match(refused.output, /main -> other \(sandbox: not a ref that this run may push\)[^]*code 1/, JSON.stringify(refused.view));
        assert.ok(refused.records.some(record => record.reason === 'push_ref_not_allowed'), JSON.stringify(refused.records));
        const bare = await script(lab, ['export GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0', `git clone -q ${remote} third; echo "code $?"`]);
        assert.match(bare.output, /code 128/);
        assert.ok(seen.every(one => one.includes(Buffer.from(`x-access-token:${token}`).toString('base64'))), 'a request went out without the credential');
        assert.deepEqual([...lab.files()].filter(file => fs.readFileSync(file).includes(token)), []);
    }).finally(() => fs.rmSync(folder, { recursive: true }));
});

test('registries are found by asking the tools of this machine, once, and are for reading', { timeout: 300000 }, async () => {
    const standIns = new StandIns();
    try {
        await withLab({ model: false, agent: false, supervisor: false }, async lab => {
            const tls = certificates(lab.path('certificates'));
            const [npm, pip, closed] = [await standIns.listen(tls), await standIns.listen(tls), await standIns.listen(tls)];
            const asked = lab.path('asked');
            // npm is slow, and the first sandbox is to know its answer all the same.
            const gate = lab.path('npm-may-answer');
            execFileSync('mkfifo', [gate]);
            const tools = { npm: `[ -p ${gate} ] && cat ${gate} >/dev/null; echo https://${host}:${npm}/npm/`, pip3: `[ "$1" = help ] || echo "global.index-url='https://${host}:${pip}/simple'"`,
                go: 'echo https://user:word@go.example; echo sum.example' };
            fs.mkdirSync(lab.path('tools'));
            for (const [tool, text] of Object.entries(tools))
                fs.writeFileSync(lab.path('tools', tool), `#!/bin/sh\necho ${tool} >>${asked}\n${text}\n`, { mode: 0o755 });
            const env = { PATH: `${lab.path('tools')}:${process.env.PATH}` };
            const file = lab.path('state', 'registries');
            lab.writeConfig({ egress: { caFile: tls.file }, log: { level: 'debug' } });
            await lab.startSupervisor({ env });
            await lab.setSecret();
            await lab.ctlJson(['status']);
            assert.ok(!fs.existsSync(asked), 'tools were asked before there was a sandbox');
            const first = await lab.startScript('env');
            await waitFor('npm is asked', () => fs.existsSync(asked) && fs.readFileSync(asked, 'utf8').includes('npm'));
            assert.equal((await lab.ctlJson(['get', first.runId])).phase, 'sandbox');
            fs.writeFileSync(gate, '');
            fs.rmSync(gate);
            assert.match((await lab.ended(first.runId)).result.output, new RegExp(`^npm_config_registry=https://${host}:${npm}/npm/$`, 'm'));
            await waitFor('what was found is kept', () => fs.existsSync(file));
            assert.deepEqual(fs.readFileSync(asked, 'utf8').trim().split('\n').sort(), ['go', 'npm', 'pip3', 'pip3']);
            const { output, records } = await script(lab, [npm, pip, closed].flatMap(port => [
                `curl -sS https://${host}:${port}/a || true`, `curl -sS -X PUT -d x https://${host}:${port}/a || true`]));
            assert.equal(output.match(/stand-in: GET/g)?.length, 2, output);
            assert.doesNotMatch(output, /stand-in: PUT/);
            assert.deepEqual(records.filter(record => record.verdict === 'deny').map(record => record.reason).sort(),
                ['host_not_allowed', 'host_not_allowed', 'request_not_allowed', 'request_not_allowed']);

            // The next supervisor knows it without asking, and tools inside are set to what those outside are.
            await lab.killSupervisor();
            await lab.startSupervisor({ env });
            const told = await script(lab, ['env', `curl -sS https://${host}:${npm}/a`]);
            assert.match(told.output, new RegExp(`^npm_config_registry=https://${host}:${npm}/npm/$`, 'm'));
            assert.match(told.output, new RegExp(`^PIP_INDEX_URL=https://${host}:${pip}/simple$`, 'm'));
            assert.match(told.output, /^GOSUMDB=sum.example$/m);
            assert.match(told.output, /stand-in: GET/);
            assert.doesNotMatch(told.output + fs.readFileSync(file, 'utf8'), /user:word/);
            assert.equal(fs.readFileSync(asked, 'utf8').trim().split('\n').length, 4);

            // A day later it is asked again.
            await lab.killSupervisor();
            fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(/^(registries 1 )\d+/, `$1${Date.now() - 25 * 3600 * 1000}`));
            await lab.startSupervisor({ env });
            await script(lab, ['true']);
            await waitFor('tools are asked again', () => fs.readFileSync(asked, 'utf8').trim().split('\n').length === 8);
        });
    } finally {
        await standIns.stop();
    }
});

// A certificate of the stand-ins' own authority, with EXTENSIONS.
function otherLeaf(folder, extensions, subject) {
    const openssl = (...args) => execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
    openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'other.key', '-out', 'other.csr', '-subj', `/CN=${subject}`);
    fs.writeFileSync(path.join(folder, 'other-ext'), extensions);
    openssl('x509', '-req', '-in', 'other.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'other-ext', '-out', 'other.pem');
    return { key: fs.readFileSync(path.join(folder, 'other.key')), cert: fs.readFileSync(path.join(folder, 'other.pem')) };
}

test('a service that is not as it should be gets no credential', { timeout: 120000 }, async () => {
    const servers = [];
    let seen = '';
    const listen = async (tls, greeting) => {
        const server = nodeTls.createServer(tls, socket => {
            socket.on('error', () => {});
            socket.on('data', bytes => { seen += bytes.toString('latin1'); });
            if (greeting)
                socket.write(greeting);
        });
        server.on('tlsClientError', () => {});
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        servers.push(server);
        return server.address().port;
    };
    try {
        await withLab({ model: false, agent: false, supervisor: false }, async lab => {
            const folder = lab.path('certificates');
            const good = certificates(folder);
            const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
            const ports = {
                // The control: the same certificate, and nothing wrong but that it doesn't answer in HTTP.
                'only-h2-words': await listen(good, settings),
                'only-tls-1-0': await listen({ ...good, minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }),
                'only-tls-1-1': await listen({ ...good, minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }),
                'only-h2': await listen({ ...good, ALPNProtocols: ['h2'] }),
                'for-clients': await listen(otherLeaf(folder, `subjectAltName=DNS:${name}\nextendedKeyUsage=clientAuth\n`, name)),
                'without-names': await listen(otherLeaf(folder, 'extendedKeyUsage=serverAuth\n', name)),
            };
            lab.writeConfig({ egress: { caFile: good.file, detectRegistries: false }, services: Object.fromEntries(Object.entries(ports).map(([one, port]) =>
                [one, { target: `https://${name}:${port}`, inject: { header: 'x-api-key', value: '{ANTHROPIC_API_KEY}' }, probe: '/x' }])) });
            await lab.startSupervisor();
            await lab.setSecret();
            for (const one of Object.keys(ports)) {
                seen = '';
                const said = await lab.ctlJson(['call', 'service.check', JSON.stringify({ name: one })]);
                if (one === 'only-h2-words') {
                    assert.equal(said.reason, 'upstream_bad_response', JSON.stringify(said));
                    continue;
                }
                assert.equal(said.outcome, 'tls', JSON.stringify(said));
                assert.equal(said.reason, 'upstream_tls', one);
                assert.equal(seen, '', one);
            }
        });
    } finally {
        for (const server of servers)
            server.close();
    }
});

test('settings of a proxy in the supervisor\'s environment play no part', { timeout: 120000 }, async () => {
    let asked = 0;
    const trap = net.createServer(socket => { asked++; socket.destroy(); });
    trap.listen(0, '127.0.0.1');
    await once(trap, 'listening');
    try {
        await withStandIns({ changes: ports => ({ services: { there: { target: `https://${name}:${ports.opaque}`, probe: '/x',
            inject: { header: 'x-api-key', value: '{ANTHROPIC_API_KEY}' } } } }), rules: () => [], host: name }, async (lab, standIns, ports) => {
            const proxy = `http://127.0.0.1:${trap.address().port}`;
            await lab.killSupervisor();
            await lab.startSupervisor({ env: { http_proxy: proxy, https_proxy: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, all_proxy: proxy, NO_PROXY: '', no_proxy: '' } });
            assert.equal((await lab.ctlJson(['call', 'service.check', '{"name":"there"}'])).outcome, 'works');
            const { output } = await script(lab, [`curl -sS --noproxy "" -x "$HTTPS_PROXY" https://${name}:${ports.judged}/pub/a`,
                `curl -sS --noproxy "" -x "$HTTP_PROXY" http://${name}:${ports.clear}/a`]);
            assert.equal(output.match(/stand-in: GET/g)?.length, 2, output);
            assert.equal(asked, 0, 'the environment\'s proxy was asked');
        });
    } finally {
        trap.close();
    }
});
