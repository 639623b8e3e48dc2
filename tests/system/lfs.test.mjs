// Git LFS in a sandbox, with the real git-lfs where it is installed: the server's answer names places in its storage with a token of their own.
// The sandbox sees neither, and what it is given is for one object and one use only.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bare, Forge } from './forge.mjs';
import { withLab } from './lab.mjs';

const storageToken = 'storage-token-of-the-server';
const hash = bytes => crypto.createHash('sha256').update(bytes).digest('hex');
const hasLfs = (() => {
    try {
        execFileSync('git', ['lfs', 'version'], { stdio: 'ignore' });
        return true;
    } catch {
        return false;
    }
})();

// A server of large files beside the forge: batches want the real credential, the storage its own token.
class Storage {
    objects = new Map();
    asked = [];
    transfer = 'basic';
    href = oid => `${this.forge.origin}/storage/${oid}`;

    constructor(forge) {
        this.forge = forge;
        forge.other = (request, response, url) => this.#serve(request, response, url);
    }

    #action = oid => ({ href: this.href(oid), header: { Authorization: `Bearer ${storageToken}`, 'X-Signed': 'yes' }, expires_in: 600 });

    #object(operation, { oid, size }) {
        if (operation === 'download')
            return this.objects.has(oid) ? { oid, size, actions: { download: this.#action(oid) }, secret: storageToken }
                : { oid, size, error: { code: 404, message: `no such object, says ${this.forge.password}` } };
        return { oid, size, actions: { upload: this.#action(oid), verify: { ...this.#action(oid), href: `${this.href(oid)}/verify` } } };
    }

    #serve(request, response, url) {
        const batch = url.pathname.endsWith('/info/lfs/objects/batch');
        if (!batch && !url.pathname.startsWith('/storage/'))
            return false;
        const pieces = [];
        request.on('data', piece => pieces.push(piece));
        request.on('end', () => {
            const body = Buffer.concat(pieces);
            const given = request.headers.authorization ?? '';
            this.asked.push({ method: request.method, path: url.pathname, authorization: given, signed: request.headers['x-signed'] });
            const good = batch ? Buffer.from(given.replace(/^Basic /, ''), 'base64').toString().endsWith(`:${this.forge.password}`)
                : given === `Bearer ${storageToken}` && request.headers['x-signed'] === 'yes';
            if (!good)
                return response.writeHead(401).end();
            if (batch) {
                const { operation, objects } = JSON.parse(body);
                response.writeHead(200, { 'content-type': 'application/vnd.git-lfs+json' });
                return response.end(JSON.stringify({ transfer: this.transfer, objects: objects.map(one => this.#object(operation, one)), token: storageToken }));
            }
            const oid = url.pathname.split('/')[2];
            if (request.method === 'PUT') {
                assert.equal(hash(body), oid);
                this.objects.set(oid, body);
            }
            return request.method === 'GET' ? response.end(this.objects.get(oid)) : response.end();
        });
        return true;
    }
}

const attempt = (name, command) => `{ ${command}; } >"$out/${name}.txt" 2>&1; echo "code $?" >>"$out/${name}.txt"\n`;
const credential = '"authorization: $(git config --get-regexp "http.*extraheader" | sed "s/.*Authorization: //")"';
const batchAt = (repository, operation, oid, size = 5) => `curl -sS -X POST -H ${credential} -H "content-type: application/vnd.git-lfs+json" ` +
    `-d '{"operation":"${operation}","transfers":["basic"],"objects":[{"oid":"${oid}","size":${size}}]}' ` +
    `http://127.0.0.1:4999/proxy/github/${repository}/info/lfs/objects/batch`;
const field = name => `grep -o '"href":"[^"]*"' "$out/${name}.txt" | head -1 | cut -d '"' -f 4`;

async function withStorage(body) {
    let forge;
    await withLab({ model: false, agent: false, supervisor: false }, async lab => {
        forge = new Forge(lab.path('forge'), lab.secret, ['owner/public']);
        fs.mkdirSync(forge.root);
        await forge.start();
        try {
            const storage = new Storage(forge);
            await bare(forge.root, 'owner/project', ['main']);
            await bare(forge.root, 'owner/other', ['main']);
            lab.writeConfig({ services: { github: { target: forge.origin } } });
            await lab.startSupervisor();
            await lab.setSecret();
            await lab.setSecret(lab.secret, 'GITHUB_TOKEN');
            await body(lab, storage);
        } finally {
            await forge.stop();
        }
    });
}

async function script(lab, text) {
    const { runId, sessionId } = await lab.startScript(`set -u; out=/workspace/said; mkdir -p "$out"; cd /workspace/project; ${text}`,
        { repository: 'https://github.com/owner/project.git' });
    const view = await lab.ended(runId, 240000);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    const folder = path.join(lab.state, 'sessions', sessionId, 'workspace', 'said');
    const said = Object.fromEntries(fs.readdirSync(folder).map(name => [name.replace(/\.txt$/, ''), fs.readFileSync(path.join(folder, name), 'utf8')]));
    for (const [name, words] of Object.entries(said))
        assert.ok(!words.includes(storageToken) && !words.includes(lab.secret), `${name} shows what it must not: ${words}`);
    return { said, audit: (await lab.ctlJson(['call', 'audit.list', JSON.stringify({ runId, limit: 500 })])).records };
}

test('what is given to a sandbox is for one object and one use', { timeout: 300000 }, () => withStorage(async (lab, storage) => {
    const bytes = Buffer.from('hello');
    const oid = hash(bytes);
    const missing = hash('missing');
    const { said, audit } = await script(lab,
        attempt('upload', batchAt('owner/project.git', 'upload', oid)) +
        `place=$(${field('upload')})\n` +
        attempt('place', 'echo "$place"') +
        attempt('wrong-size', `curl -sS -w " %{http_code}" -X PUT -H ${credential} -d hello-and-more "$place"`) +
        attempt('wrong-method', `curl -sS -w " %{http_code}" -H ${credential} "$place"`) +
        attempt('no-token', 'curl -sS -w " %{http_code}" -X PUT -d hello "$place"') +
        attempt('put', `curl -sS -w " %{http_code}" -X PUT -H ${credential} -d hello "$place"`) +
        attempt('download', batchAt('owner/project.git', 'download', oid)) +
        attempt('get', `curl -sS -w " %{http_code}" -H ${credential} "$(${field('download')})"`) +
        attempt('guess', `curl -sS -w " %{http_code}" -H ${credential} "\${place%/*}/AAAAAAAAAAAAAAAAAAAAAA"`) +
        attempt('missing', batchAt('owner/project.git', 'download', missing)) +
        attempt('other', batchAt('owner/other.git', 'upload', oid)) +
        attempt('unclear', batchAt('owner/project.git', 'delete', oid)) +
        attempt('locks', `curl -sS -w " %{http_code}" -H ${credential} http://127.0.0.1:4999/proxy/github/owner/project.git/info/lfs/locks`));
    assert.match(said.place, /^http:\/\/127\.0\.0\.1:4999\/proxy\/github\/owner\/project(\.git)?\/info\/lfs\/transfer\/[\w-]{22}$/m, said.upload);
    assert.match(said.upload, /"verify":\{"href"/);
    assert.match(said['wrong-size'], /lfs_not_allowed.* 403/s);
    assert.match(said['wrong-method'], /lfs_not_allowed.* 403/s);
    assert.match(said['no-token'], / 401/);
    assert.match(said.put, /^ 200/);
    assert.match(said.get, /^hello 200/);
    assert.match(said.guess, /lfs_place_unknown.* 404/s);
    assert.match(said.missing, /"error":\{"code":404,"message":"no such object, says \*+"\}/);
    assert.match(said.other, /repository_not_allowed/);
    assert.match(said.unclear, /lfs_not_allowed/);
    assert.match(said.locks, /lfs_not_allowed.* 403/s);
    assert.deepEqual(storage.asked.filter(one => one.path.startsWith('/storage/')).map(one => one.method), ['PUT', 'GET']);
    assert.ok(audit.some(one => one.method === 'PUT' && one.verdict === 'allow' && one.detail === `object ${oid.slice(0, 16)} at 127.0.0.1`), JSON.stringify(audit));
}));

test('places that are not safe to go to are not gone to', { timeout: 300000 }, () => withStorage(async (lab, storage) => {
    const oid = hash('hello');
    const hrefs = ['http://storage.invalid/x', 'file:///etc/passwd', 'https://user@storage.invalid/x', 'https://127.1/x', 'https://x.invalid/a#b'];
    for (const href of hrefs) {
        storage.href = () => href;
        storage.objects.set(oid, Buffer.from('hello'));
        const { said } = await script(lab, attempt('batch', batchAt('owner/project.git', 'download', oid)));
        assert.match(said.batch, /"code":"lfs_answer"/, `${href}: ${said.batch}`);
        if (href === hrefs[0]) {
            // One with TLS may be asked for, but not where nobody outside could go.
            storage.href = () => `https://127.0.0.1:${lab.upstream?.port ?? 443}/x`;
            const there = await script(lab, attempt('batch', batchAt('owner/project.git', 'download', oid)) +
                attempt('get', `curl -sS -w " %{http_code}" -H ${credential} "$(${field('batch')})"`));
            assert.match(there.said.get, /address_not_allowed.* 403/s);
        }
    }
    storage.href = one => `${storage.forge.origin}/storage/${one}`;
    storage.transfer = 'ssh';
    const { said } = await script(lab, attempt('batch', batchAt('owner/project.git', 'download', oid)));
    assert.match(said.batch, /"code":"lfs_answer"/);
}));

test('git-lfs pushes and fetches', { timeout: 300000, skip: !hasLfs && 'git-lfs is not installed' }, () => withStorage(async (lab, storage) => {
    const { said } = await script(lab,
        'git config user.name a; git config user.email a@a.invalid\n' +
        attempt('track', 'git checkout -q -b agent/large && git lfs install --local && git lfs track "*.bin"') +
        'head -c 3000000 /dev/urandom >a.bin; git add .; git commit -qm large\n' +
        attempt('push', 'git push origin agent/large') +
        attempt('clone', 'git -c filter.lfs.smudge="git-lfs smudge -- %f" -c filter.lfs.process="git-lfs filter-process" -c filter.lfs.required=true ' +
            'clone -q -b agent/large https://github.com/owner/project.git /tmp/again && cmp a.bin /tmp/again/a.bin && head -1 .gitattributes'));
    assert.match(said.push, /code 0\n$/, said.push);
    assert.match(said.clone, /code 0\n$/, said.clone);
    assert.deepEqual([...storage.objects.values()].map(one => one.length), [3000000]);
}));
