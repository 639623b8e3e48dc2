// forge.mjs: a forge on loopback: bare repositories behind git's own http-backend, which ask for the real credential, and pull requests
// with the interfaces of GitHub, GitLab and Gitea as far as they are used, with their own words for what goes wrong.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { must } from './lab.mjs';

// Below ROOT lie the repositories; those whose names begin as one in PUBLIC does are readable by all.
export class Forge {
    requests = [];
    // Where a repository is now, by its old name; those that are served as files, as a web server without git does.
    moved = new Map();
    plain = [];
    // Pull requests by repository; what an API does in place of its own answer: fault(kind, request, response) is true when it has.
    pulls = new Map();
    fault = () => false;
    // What the token may: 'none', 'read' or 'write' pull requests. Whether drafts are to be had.
    rights = 'write';
    drafts = true;
    // Called between the steps of a request to git: 'before' and 'after' a push was taken.
    onPush = async () => {};

    constructor(root, password, publicNames = []) {
        this.root = root;
        this.password = password;
        this.publicNames = publicNames;
    }

    async start() {
        this.server = http.createServer((request, response) => this.#serve(request, response));
        this.server.listen(0, '127.0.0.1');
        await once(this.server, 'listening');
        this.port = this.server.address().port;
        this.origin = `http://127.0.0.1:${this.port}`;
    }

    async stop() {
        this.server.close();
        this.server.closeAllConnections();
        await once(this.server, 'close');
    }

    // Services for a lab's configuration, with their repositories below folders of their own. GitHub's API is a service of its own, the
    // others' lie below the address of their repositories.
    services() {
        return { github: { target: `${this.origin}/hub` }, 'github-api': { target: `${this.origin}/hub/.api` }, gitlab: { target: `${this.origin}/lab` },
            gitea: { target: `${this.origin}/tea` } };
    }

    // (request, response, url) => true when it has answered in place of the forge.
    other = () => false;

    // May keep a request waiting, for as long as the promise that it gives back.
    before = () => {};

    async #serve(request, response) {
        await this.before(request);
        if (response.destroyed || request.socket.destroyed)
            return;
        const url = new URL(request.url, 'http://forge.invalid');
        if (this.other(request, response, url))
            return;
        for (const [kind, prefix, handler] of apis) {
            const at = url.pathname.indexOf(prefix);
            if (at >= 0)
                return this.#api(kind, handler, url.pathname.slice(1, at + 1), url.pathname.slice(at + prefix.length), url, request, response);
        }
        return this.#git(url, request, response);
    }

    async #git(url, request, response) {
        const given = Buffer.from(request.headers.authorization?.replace(/^Basic /, '') ?? '', 'base64').toString();
        const known = given.slice(given.indexOf(':') + 1) === this.password;
        const reads = !request.url.includes('receive-pack');
        const isPublic = this.publicNames.some(name => url.pathname.startsWith(`/${name}`));
        this.requests.push({ method: request.method, url: request.url, known, anonymous: !request.headers.authorization });
        if (!known && !(isPublic && reads && !request.headers.authorization)) {
            response.writeHead(401, { 'www-authenticate': 'Basic realm="forge"' }).end();
            return;
        }
        const [, owner, name] = url.pathname.split('/');
        const to = this.moved.get(`${owner}/${name}`);
        if (to) {
            response.writeHead(301, { location: request.url.replace(`${owner}/${name}`, to) }).end();
            return;
        }
        if (this.plain.includes(`${owner}/${name}`)) {
            const file = path.join(this.root, url.pathname);
            fs.existsSync(file) && fs.statSync(file).isFile() ? response.end(fs.readFileSync(file)) : response.writeHead(404).end();
            return;
        }
        const pushes = request.method === 'POST' && !reads;
        if (pushes && request.headers['content-length'] !== '4')
            await this.onPush('before', response);
        if (response.destroyed)
            return;
        const env = { PATH: process.env.PATH, GIT_PROJECT_ROOT: this.root, GIT_HTTP_EXPORT_ALL: '1', REMOTE_USER: 'agent',
            REMOTE_ADDR: '127.0.0.1', REQUEST_METHOD: request.method, PATH_INFO: decodeURIComponent(url.pathname),
            QUERY_STRING: url.search.slice(1), CONTENT_TYPE: request.headers['content-type'] ?? '',
            GIT_CONFIG_COUNT: '2', GIT_CONFIG_KEY_0: 'safe.directory', GIT_CONFIG_VALUE_0: '*',
            GIT_CONFIG_KEY_1: 'receive.advertisePushOptions', GIT_CONFIG_VALUE_1: 'true' };
        for (const name of ['content-length', 'content-encoding', 'git-protocol'])
            if (request.headers[name])
                env[name === 'content-length' ? 'CONTENT_LENGTH' : `HTTP_${name.toUpperCase().replaceAll('-', '_')}`] = request.headers[name];
        const backend = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
        backend.stdin.on('error', () => {});
        request.pipe(backend.stdin);
        let head = Buffer.alloc(0);
        const onHead = async piece => {
            head = Buffer.concat([head, piece]);
            const end = head.indexOf('\r\n\r\n');
            if (end < 0)
                return;
            backend.stdout.off('data', onHead);
            backend.stdout.pause();
            if (pushes && request.headers['content-length'] !== '4')
                await this.onPush('after', response);
            if (response.destroyed)
                return;
            let status = 200;
            const headers = [];
            for (const line of head.subarray(0, end).toString('latin1').split('\r\n')) {
                const [name, value] = [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()];
                if (name.toLowerCase() === 'status')
                    status = Number.parseInt(value, 10);
                else
                    headers.push(name, value);
            }
            response.writeHead(status, headers);
            response.write(head.subarray(end + 4));
            backend.stdout.pipe(response);
        };
        backend.stdout.on('data', onHead);
        response.on('close', () => backend.kill());
    }

    async #api(kind, handler, where, place, url, request, response) {
        const pieces = [];
        for await (const piece of request)
            pieces.push(piece);
        const text = Buffer.concat(pieces).toString();
        const call = { kind, method: request.method, where, place, query: Object.fromEntries(url.searchParams), body: text ? JSON.parse(text) : null,
            authorization: request.headers.authorization, agent: request.headers['user-agent'] };
        this.requests.push({ ...call, url: request.url, api: true, known: this.#knows(call) });
        if (await this.fault(call, response))
            return;
        const [status, answer, headers] = this.#knows(call) ? await handler(this, call) : [401, { message: 'Bad credentials' }];
        response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(answer));
    }

    #knows({ kind, authorization }) {
        return authorization === `${kind === 'gitea' ? 'token' : 'Bearer'} ${this.password}`;
    }

    of(repository) {
        if (!this.pulls.has(repository))
            this.pulls.set(repository, []);
        return this.pulls.get(repository);
    }

    api() {
        return this.requests.filter(one => one.api);
    }

    async hasBranch(repository, branch) {
        return `refs/heads/${branch}` in await refs(path.join(this.root, `${repository}.git`));
    }

    // The same for all of them: an entry of the list, and what stands in the way.
    async open(repository, { title, body, head, base, draft }) {
        const list = this.of(repository);
        if (list.some(one => one.open && one.head === head && one.base === base && !one.fork))
            return 'exists';
        if (!await this.hasBranch(repository, head))
            return 'no head';
        if (!await this.hasBranch(repository, base))
            return 'no base';
        const pull = { number: list.length + 7, title, body, head, base, draft, open: true };
        list.push(pull);
        return pull;
    }
}

const githubView = (forge, repository, pull) => ({ number: pull.number, html_url: `https://github.com/${repository}/pull/${pull.number}`, state: pull.open ? 'open' : 'closed',
    title: pull.title, body: pull.body, draft: pull.draft, head: { ref: pull.head, sha: '0'.repeat(40), repo: { id: 5 } }, base: { ref: pull.base, repo: { id: 5 } } });

async function github(forge, { method, where, place, query, body }) {
    const [, repository, number] = /^\/repos\/([^/]+\/[^/]+)\/pulls(?:\/(\d+))?$/.exec(place) ?? [];
    const wanted = { 'x-accepted-github-permissions': 'pull_requests=write' };
    if (!repository || forge.rights === 'none')
        return [404, { message: 'Not Found', status: '404' }];
    const list = forge.of(where + repository);
    const pull = list.find(one => one.number === Number(number));
    if (method === 'GET' && !number)
        return [200, list.filter(one => one.open && `${repository.split('/')[0]}:${one.head}` === query.head).map(one => githubView(forge, repository, one))];
    if (method === 'GET')
        return pull ? [200, githubView(forge, repository, pull)] : [404, { message: 'Not Found' }];
    if (forge.rights !== 'write')
        return [403, { message: 'Resource not accessible by personal access token', status: '403' }, wanted];
    if (method === 'POST') {
        if (body.draft && !forge.drafts)
            return [422, { message: 'Draft pull requests are not supported in this repository.' }];
        const made = await forge.open(where + repository, body);
        if (made === 'exists')
            return [422, { message: 'Validation Failed', errors: [{ resource: 'PullRequest', message: `A pull request already exists for owner:${body.head}.` }] }];
        if (typeof made === 'string')
            return [422, { message: 'Validation Failed', errors: [{ resource: 'PullRequest', field: made.slice(3), code: 'invalid' }] }];
        return [201, githubView(forge, repository, made)];
    }
    if (method === 'PATCH' && pull) {
        Object.assign(pull, Object.fromEntries(['title', 'body', 'base'].filter(name => name in body).map(name => [name, body[name]])));
        return [200, githubView(forge, repository, pull)];
    }
    return [404, { message: 'Not Found' }];
}

const gitlabView = (repository, pull) => ({ id: 900 + pull.number, iid: pull.number, web_url: `https://gitlab.com/${repository}/-/merge_requests/${pull.number}`,
    state: pull.open ? 'opened' : 'closed', title: pull.title, description: pull.body, draft: /^Draft: /.test(pull.title), source_branch: pull.head,
    target_branch: pull.base, source_project_id: 3, target_project_id: 3 });

async function gitlab(forge, { method, where, place, query, body }) {
    const [, escaped, number] = /^\/projects\/([^/]+)\/merge_requests(?:\/(\d+))?$/.exec(place) ?? [];
    if (!escaped || forge.rights === 'none')
        return [404, { message: '404 Project Not Found' }];
    const repository = decodeURIComponent(escaped);
    const list = forge.of(where + repository);
    const pull = list.find(one => one.number === Number(number));
    if (method === 'GET' && !number)
        return [200, list.filter(one => one.open && one.head === query.source_branch && query.state === 'opened').map(one => gitlabView(repository, one))];
    if (method === 'GET')
        return pull ? [200, gitlabView(repository, pull)] : [404, { message: '404 Not found' }];
    if (forge.rights !== 'write')
        return [403, { error: 'insufficient_scope', error_description: 'The request requires higher privileges than provided by the access token.', scope: 'api' }];
    if (method === 'POST') {
        const made = await forge.open(where + repository, { title: body.title, body: body.description, head: body.source_branch, base: body.target_branch });
        if (made === 'exists')
            return [409, { message: ['Another open merge request already exists for this source branch: !7'] }];
        return typeof made === 'string' ? [400, { message: { [made]: ['is invalid'] } }] : [201, gitlabView(repository, made)];
    }
    if (method === 'PUT' && pull) {
        const names = { title: 'title', description: 'body', target_branch: 'base' };
        Object.assign(pull, Object.fromEntries(Object.entries(body).filter(([name]) => names[name]).map(([name, value]) => [names[name], value])));
        return [200, gitlabView(repository, pull)];
    }
    return [404, { message: '404 Not found' }];
}

const giteaView = (repository, pull) => ({ id: 40 + pull.number, number: pull.number, html_url: `https://tea.example/${repository}/pulls/${pull.number}`,
    state: pull.open ? 'open' : 'closed', title: pull.title, body: pull.body, head: { label: pull.head, ref: pull.head, sha: '', repo: { id: pull.fork ?? 2 } },
    base: { ref: pull.base, repo: { id: 2 } } });

async function gitea(forge, { method, where, place, query, body }) {
    const [, repository, number] = /^\/repos\/([^/]+\/[^/]+)\/pulls(?:\/(\d+))?$/.exec(place) ?? [];
    if (!repository || forge.rights === 'none')
        return [404, { message: 'GetRepository' }];
    const list = forge.of(where + repository);
    const pull = list.find(one => one.number === Number(number));
    if (method === 'GET' && !number) {
        const [page, limit] = [Number(query.page), Number(query.limit)];
        return [200, list.filter(one => one.open).slice((page - 1) * limit, page * limit).map(one => giteaView(repository, one))];
    }
    if (method === 'GET')
        return pull ? [200, giteaView(repository, pull)] : [404, { message: 'not found' }];
    if (forge.rights !== 'write')
        return [403, { message: 'token does not have at least one of required scope(s): [write:repository]' }];
    if (method === 'POST') {
        const made = await forge.open(where + repository, body);
        if (made === 'exists')
            return [409, { message: 'pull request already exists for these targets' }];
        return typeof made === 'string' ? [404, { message: made }] : [201, giteaView(repository, made)];
    }
    if (method === 'PATCH' && pull) {
        Object.assign(pull, Object.fromEntries(['title', 'body', 'base'].filter(name => name in body).map(name => [name, body[name]])));
        return [201, giteaView(repository, pull)];
    }
    return [404, { message: 'not found' }];
}

const apis = [['gitlab', '/api/v4', gitlab], ['gitea', '/api/v1', gitea], ['github', '/.api', github]];

const git = (folder, ...args) => must('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', ...args]);

export async function bare(root, name, branches = ['main']) {
    const work = path.join(root, 'work', name);
    const folder = path.join(root, `${name}.git`);
    fs.mkdirSync(work, { recursive: true });
    await must('git', ['init', '-q', '-b', 'main', work]);
    fs.writeFileSync(path.join(work, 'README'), `${name}\n`);
    await git(work, 'add', '-A');
    await git(work, 'commit', '-qm', 'Start');
    for (const branch of branches.filter(one => one !== 'main'))
        await git(work, 'branch', branch);
    await must('git', ['clone', '-q', '--bare', work, folder]);
    return folder;
}

export const refs = folder => new Promise((resolve, reject) => execFile('git', ['-C', folder, 'for-each-ref', '--format=%(refname) %(objectname)'],
    (error, out) => error ? reject(error) : resolve(Object.fromEntries(out.trim().split('\n').filter(Boolean).map(line => line.split(' '))))));
