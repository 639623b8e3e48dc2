// A session's branch becomes a pull request at stand-ins of GitHub, GitLab and Gitea, whose repositories lie behind git's own http-backend:
// what is opened, what the same call again and a follow-up do, what is refused, and what is left when anything breaks or dies on the way.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bare, Forge, refs } from './forge.mjs';
import { killHard, long, must, sandboxedProcessesOf, waitFor, withLab } from './lab.mjs';

const identity = 'cd /workspace/project; git config user.name a; git config user.email a@a.invalid; ';
const commit = (words, branch) => `${identity}${branch ? `git checkout -q -B ${branch}; ` : ''}echo x >>README; git commit -qam '${words}'\n`;

async function withForge(body) {
    let forge;
    await withLab({ model: false, agent: false, supervisor: false }, async lab => {
        forge = new Forge(lab.path('forge'), lab.secret);
        fs.mkdirSync(forge.root);
        await forge.start();
        try {
            lab.writeConfig({ services: { ...forge.services(),
                corp: { target: `${forge.origin}/corp`, inject: { header: 'authorization', value: 'Basic {CORP_TOKEN:basic:me}' } } } });
            await lab.startSupervisor();
            for (const name of ['ANTHROPIC_API_KEY', 'GITHUB_TOKEN', 'GITLAB_TOKEN', 'GITEA_TOKEN', 'CORP_TOKEN'])
                await lab.setSecret(lab.secret, name);
            await body(lab, forge);
        } finally {
            await forge.stop();
        }
    });
}

async function run(lab, script, options) {
    const { runId, sessionId } = await lab.startScript(script, options);
    const view = await lab.ended(runId);
    assert.equal(view.status, 'completed', JSON.stringify(view));
    return { runId, sessionId };
}

const call = (lab, sessionId, more = {}) => lab.ctl(['call', '--json', 'pr.create', JSON.stringify({ sessionId, ...more })]);
const pr = (lab, sessionId, more = {}) => lab.ctlJson(['call', 'pr.create', JSON.stringify({ sessionId, ...more })]);
const refused = async (lab, sessionId, words, more) => {
    const result = await call(lab, sessionId, more);
    assert.notEqual(result.code, 0, result.stdout);
    assert.match(result.stderr, words);
};
const github = name => `https://github.com/owner/${name}.git`;

test('one pull request of a branch, whatever is called how often', { timeout: 120000 }, () => withForge(async (lab, forge) => {
    const project = await bare(forge.root, 'hub/owner/project');
    const place = { repository: github('project') };
    const { sessionId, runId } = await run(lab, `${commit('First `change` of @somebody', 'agent/one')}echo more >>README; echo new >untracked`, place);
    const head = (await must('git', ['-C', path.join(lab.state, 'sessions', sessionId, 'workspace/project'), '-c', 'safe.directory=*', 'rev-parse', 'HEAD'])).trim();

    const first = await pr(lab, sessionId);
    assert.equal(first.status, 'opened', JSON.stringify(first));
    assert.deepEqual([first.branch, first.base, first.commit, first.number, first.draft, first.commits], ['agent/one', 'main', head, 7, true, 1]);
    assert.equal(first.url, 'https://github.com/owner/project/pull/7');
    // What isn't committed is named, and not part of it.
    assert.equal(first.uncommitted, 2);
    assert.deepEqual(first.uncommittedFiles.map(one => one.path), ['README', 'untracked']);
    assert.match(first.message, /Not part of it: 2 files are changed but not committed/);
    assert.equal((await refs(project))['refs/heads/agent/one'], head);
    const pulls = forge.of('hub/owner/project');
    assert.equal(pulls[0].title, 'First `change` of @somebody');
    assert.match(pulls[0].body, new RegExp(`- \`First 'change' of @somebody\`\n[^]*Runs of ${sessionId}:\n\n- ${runId}: [^]*\\(completed, changed\\)`));
    assert.match(pulls[0].body, new RegExp(`http://127.0.0.1:\\d+/runs/${runId}\n`));
    assert.doesNotMatch(pulls[0].body, /token=/);

    // The same again, alone and many at once: nothing changes, and nothing is written.
    const before = forge.api().length;
    for (const again of [await pr(lab, sessionId), ...await Promise.all([1, 2, 3, 4].map(() => pr(lab, sessionId)))])
        assert.deepEqual([again.status, again.number, again.commit], ['unchanged', 7, head]);
    assert.deepEqual(forge.api().slice(before).filter(one => one.method !== 'GET'), []);

    // A person edits it; a follow-up brings commits. The branch goes on, what the person wrote stays.
    pulls[0].title = 'A better title';
    pulls[0].body = `Please look at this.\r\n\r\n${pulls[0].body.replaceAll('\n', '\r\n')}\r\nReviewed by me.`;
    await run(lab, `${identity}git checkout -q README; ${commit('Second change')}`, { sessionId });
    const second = await pr(lab, sessionId);
    assert.deepEqual([second.status, second.number, second.commits], ['updated', 7, 2]);
    assert.equal(pulls.length, 1);
    assert.equal(pulls[0].title, 'A better title');
    assert.match(pulls[0].body, /^Please look at this\.\r\n[^]*2 commits[^]*`Second change`[^]*Reviewed by me\.$/);
    assert.equal((await refs(project))['refs/heads/agent/one'], second.commit);

    // What is asked for is changed: title, text, base; and what isn't committed is committed.
    await must('git', ['-C', project, 'branch', 'next', 'main']);
    const third = await pr(lab, sessionId, { title: 'Exactly this', body: 'My words.', base: 'next', commit: true });
    assert.deepEqual([third.status, third.title, third.base, third.uncommitted, third.commits], ['updated', 'Exactly this', 'next', 0, 3], JSON.stringify(third));
    assert.match(pulls[0].body, /^My words\.\n\n<!--[^]*3 commits/);
    assert.equal((await must('git', ['-C', project, 'log', '-1', '--format=%an %s', 'agent/one'])).trim(), 'a Exactly this');
    // Rewritten commits: only what the session itself pushed is overwritten.
    await run(lab, `${identity}git commit -q --amend -m Amended`, { sessionId });
    assert.equal((await pr(lab, sessionId)).status, 'updated');
    await must('sh', ['-c', 'cd "$0" && git clone -q . "$1" && cd "$1" && git checkout -q agent/one && git -c user.name=p -c user.email=p@p.invalid commit -q --allow-empty -m person && git push -q',
        project, lab.path('person')]);
    const person = (await refs(project))['refs/heads/agent/one'];
    await run(lab, `${identity}git commit -q --amend -m Again`, { sessionId });
    await refused(lab, sessionId, /push of agent\/one was refused: .*this session didn't push what it points to/);
    assert.equal((await refs(project))['refs/heads/agent/one'], person);

    // The session knows its pull request; ready is for a person to say at GitHub.
    const { sessions } = await lab.ctlJson(['sessions']);
    assert.deepEqual(sessions.find(one => one.sessionId === sessionId).pullRequest,
        { number: 7, url: first.url, branch: 'agent/one', base: 'next' });

    // It is recorded, in the name of the run; the credential went to the repository's own addresses.
    const { records } = await lab.ctlJson(['audit', '--limit', '200']);
    assert.ok(records.some(one => one.service === 'github-api' && one.method === 'POST' && one.path === '/repos/owner/project/pulls' &&
        one.detail === 'by the supervisor' && one.status === 201 && one.runId === runId), JSON.stringify(records.slice(0, 3)));
    assert.ok(records.some(one => one.verdict === 'allow' && /^refs\/heads\/agent\/one 0{10}\.\./.test(one.detail ?? '')));
    assert.ok(forge.api().every(one => one.known && one.agent === 'sandbox-mcp'));
    assert.equal((await lab.ctl(['pr', sessionId, '--base', 'nowhere'])).code, 2);
    for (const base of ['-x', 'a..b', 'x y'])
        await refused(lab, sessionId, /base/, { base });
}));

test('other forges, and what can\'t be published', { timeout: 120000 }, () => withForge(async (lab, forge) => {
    for (const name of ['hub/owner/project', 'lab/group/sub/project', 'tea/owner/project', 'corp/any/project'])
        await bare(forge.root, name);
    const [lines, gitlab, gitea, corp] = await Promise.all([
        run(lab, `${identity}echo x >>README`, { repository: github('project') }),
        run(lab, commit('A change', 'agent/umlaut'), { repository: `${forge.origin}/lab/group/sub/project.git` }),
        run(lab, commit('A change', 'topic'), { repository: `${forge.origin}/tea/owner/project.git` }),
        run(lab, commit('A change', 'main'), { repository: `${forge.origin}/corp/any/project.git` }),
    ]);

    const merge = await pr(lab, gitlab.sessionId, { draft: false });
    assert.deepEqual([merge.status, merge.forge, merge.draft, merge.number], ['opened', 'GitLab', false, 7], JSON.stringify(merge));
    assert.ok(forge.api().some(one => one.url.startsWith('/lab/api/v4/projects/group%2Fsub%2Fproject/merge_requests?state=opened')));
    assert.equal((await pr(lab, gitlab.sessionId)).status, 'unchanged');

    // HEAD's branch is none that may be pushed: it goes below agent/. Many others are open, and a fork has one of the same name.
    for (let i = 0; i < 45; i++)
        forge.of('tea/owner/project').push({ number: 1000 + i, title: 'x', body: '', head: i === 3 ? 'agent/topic' : `h${i}`, fork: 9, base: 'main', open: true });
    const tea = await pr(lab, gitea.sessionId);
    assert.deepEqual([tea.status, tea.branch, tea.draft, tea.title], ['opened', 'agent/topic', true, 'A change'], JSON.stringify(tea));
    assert.equal(forge.of('tea/owner/project').at(-1).title, 'WIP: A change');
    assert.equal((await pr(lab, gitea.sessionId)).number, tea.number);
    assert.equal((await pr(lab, gitea.sessionId, { draft: false })).draft, false);
    assert.equal(forge.of('tea/owner/project').at(-1).title, 'A change');

    // HEAD is on the base itself: a branch of the session's own. Plain git: the push, and it says so.
    const plain = await pr(lab, corp.sessionId);
    assert.equal(plain.status, 'pushed');
    assert.match(plain.branch, /^agent\/[0-9a-z]{8}$/);
    assert.match(plain.message, /is pushed\. Note: corp is plain git to this program/);
    assert.equal((await refs(path.join(forge.root, 'corp/any/project.git')))[`refs/heads/${plain.branch}`], plain.commit);

    // The tool of both eras tells the same, in text and structure, and bad arguments by name.
    for (const era of ['legacy', 'modern']) {
        const client = await lab.connect({ era });
        const told = await client.request('tools/call', { name: 'opencode_create_pr', arguments: { sessionId: gitlab.sessionId, draft: 'true', base: null, title: '' } });
        assert.deepEqual([told.structuredContent.status, told.structuredContent.url, told.isError ?? false], ['unchanged', merge.url, false], JSON.stringify(told));
        assert.match(told.content[0].text, new RegExp(`${merge.url} is up to date already[^]*number: 7\n[^]*commit: ${merge.commit}\n`));
        const wrong = await client.request('tools/call', { name: 'opencode_create_pr', arguments: { sessionId: 'x', draft: 'maybe' } });
        assert.ok(wrong.isError && /draft/.test(wrong.content[0].text));
        const { tools } = await client.request('tools/list');
        const tool = tools.find(one => one.name === 'opencode_create_pr');
        assert.deepEqual([tool.annotations.idempotentHint, tool.annotations.openWorldHint, tool.annotations.readOnlyHint, Boolean(tool.title)], [true, true, false, true]);
        await client.end?.();
    }

    // Nothing to publish; with commit there is.
    await refused(lab, lines.sessionId, /there is no commit that main has not; 1 changed file is not committed: call again with commit true/);
    assert.equal((await pr(lab, lines.sessionId, { commit: true })).status, 'opened');
    await run(lab, `${identity}git checkout -q --detach origin/main`, { sessionId: lines.sessionId });
    await refused(lab, lines.sessionId, /there is nothing to publish/);
    const empty = await run(lab, 'true');
    await refused(lab, empty.sessionId, /has no repository; sandboxctl export/);
    const local = await run(lab, 'true', { repository: path.join(forge.root, 'corp/any/project.git') });
    await refused(lab, local.sessionId, /at no git service.*sandboxctl pull/);
    await refused(lab, 'ses_01m8n3qv805t1rpcd6my96g1ft', /not found|no session|does not exist/i);
    const busy = await lab.startScript('sleep 600', { sessionId: lines.sessionId });
    await refused(lab, lines.sessionId, new RegExp(`run ${busy.runId} of the session has not ended`));
    await lab.ctl(['cancel', busy.runId]);
    await lab.ended(busy.runId);
}));

test('what a forge may answer, and what its token may lack', { timeout: 120000 }, () => withForge(async (lab, forge) => {
    const project = await bare(forge.root, 'hub/owner/project');
    const { sessionId } = await run(lab, commit('A change', 'agent/one'), { repository: github('project') });
    const problem = async (code, words) => {
        const view = await pr(lab, sessionId);
        assert.deepEqual([view.status, view.problem?.code], ['pushed', code], JSON.stringify(view));
        assert.match(JSON.stringify(view.problem), words);
        assert.equal((await refs(project))['refs/heads/agent/one'], view.commit, 'the push stays');
        assert.equal(forge.of('hub/owner/project').length, 0);
        assert.ok(!JSON.stringify(view).includes(lab.secret));
    };

    forge.rights = 'read';
    await problem('forge_no_permission', /lacks pull_requests:write.*Resource not accessible by personal access token.*pull_requests=write/);
    forge.rights = 'none';
    await problem('forge_no_permission', /status 404/);
    forge.rights = 'write';
    // All that answers may be: tests/unit/forge. Here: no redirect is followed, and the credential is told to nobody.
    forge.fault = (_, response) => response.writeHead(301, { location: `${forge.origin}/elsewhere` }).end();
    await problem('forge_redirect', /not followed/);
    forge.fault = (_, response) => response.writeHead(418).end(`{"message":"your token is ${lab.secret}\\u001b[2J"}`);
    await problem('forge_refused', /your token is \*+\\\\x1b\[2J/);
    forge.fault = (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Welcome</html>');
    await problem('forge_unreadable', /is not one of GitHub's API/);
    forge.fault = async (_, response) => {
        response.writeHead(200);
        const piece = Buffer.alloc(1 << 20, 0x20);
        while (!response.destroyed) // for ever, as far as the supervisor takes it
            await new Promise(resolve => response.write(piece, resolve));
        return true;
    };
    await problem('forge_unreadable', /more than 4194304 bytes/);
    forge.fault = (_, response) => { response.destroy(); return true; };
    await problem('forge_unreachable', /call again/);
    assert.ok(!forge.requests.some(one => one.url === '/elsewhere'), 'no redirect was followed');
    await lab.ctl(['secret', 'rm', 'GITHUB_TOKEN']);
    await refused(lab, sessionId, /GITHUB_TOKEN/);
    await lab.setSecret(lab.secret, 'GITHUB_TOKEN');

    // A repository without drafts; and one that was opened between the look and the call.
    forge.drafts = false;
    forge.fault = async ({ method }) => {
        if (method === 'POST' && !forge.of('hub/owner/project').length)
            await forge.open('hub/owner/project', { title: 'By a person', body: 'Mine.', head: 'agent/one', base: 'main', draft: false });
        return false;
    };
    const raced = await pr(lab, sessionId);
    assert.equal(forge.of('hub/owner/project').length, 1, JSON.stringify(forge.of('hub/owner/project')));
    assert.deepEqual([raced.status, raced.title], ['unchanged', 'By a person'], JSON.stringify(raced));
    assert.equal(forge.of('hub/owner/project')[0].body, 'Mine.', 'what a person wrote stays');
    forge.of('hub/owner/project')[0].open = false;
    const noDraft = await pr(lab, sessionId);
    assert.deepEqual([noDraft.status, noDraft.draft], ['opened', false]);
    assert.match(noDraft.note, /drafts are not to be had/);
}));

// In the last part no agent opens a pull request through the proxy, by REST or GraphQL, and the supervisor does.
test('the way out is for one ref, and not for what the agent left behind', { timeout: 120000 }, () => withForge(async (lab, forge) => {
    const project = await bare(forge.root, 'hub/owner/project');
    await bare(forge.root, 'hub/owner/other');
    // Settings and hooks of the repository that would run programs or lead git elsewhere. A helper that does run finds a token that is
    // good for one ref, and tries others with it.
    const trap = '/workspace/trap';
    const { sessionId } = await run(lab, `${commit('A change', 'agent/one')}
printf '#!/bin/sh\\ntouch ${trap}/$(basename "$0")\\n' >/workspace/hook; chmod +x /workspace/hook; mkdir ${trap}
for name in pre-push pre-commit post-commit reference-transaction; do cp /workspace/hook .git/hooks/$name; done
git config core.hooksPath .git/hooks; git config core.fsmonitor /workspace/hook; git config gpg.program /workspace/hook; git config log.showSignature true
git config push.followTags true; git tag -a -m t trapped; git config push.pushOption evil
git config url.http://127.0.0.1:4999/proxy/github/owner/other.git.pushInsteadOf http://127.0.0.1:4999/proxy/github/owner/project.git`,
    { repository: github('project') });
    await refused(lab, sessionId, /push of agent\/one was refused/);
    assert.deepEqual(Object.keys(await refs(path.join(forge.root, 'hub/owner/other.git'))), ['refs/heads/main']);
    await run(lab, 'cd /workspace/project; git config --remove-section url.http://127.0.0.1:4999/proxy/github/owner/other.git; rm -f /workspace/trap/*', { sessionId });
    const opened = await pr(lab, sessionId, { commit: true });
    assert.equal(opened.status, 'opened', JSON.stringify(opened));
    assert.deepEqual(Object.keys(await refs(project)).sort(), ['refs/heads/agent/one', 'refs/heads/main']);
    assert.deepEqual(fs.readdirSync(path.join(lab.state, 'sessions', sessionId, 'workspace/trap')), []);

    const before = forge.api().length;
    const ask = (place, body) => `curl -s -o /dev/null -w '%{http_code} ' -X POST -H "authorization: Bearer $(git config --get-regexp "http.*extraheader" | sed "s/.*Basic //" | base64 -d | cut -d: -f2)" -d '${body}' http://127.0.0.1:4999/proxy/github-api${place} >>/workspace/said; `;
    await run(lab, ask('/repos/owner/project/pulls', '{"title":"x","head":"agent/one","base":"main"}') + ask('/graphql', '{"query":"mutation{x}"}'), { sessionId });
    assert.equal(fs.readFileSync(path.join(lab.state, 'sessions', sessionId, 'workspace/said'), 'utf8'), '403 403 ');
    assert.equal(forge.api().length, before);
}));

test('killed at any step, the same call ends with one pull request', { timeout: 240000 }, () => withForge(async (lab, forge) => {
    const restart = async () => {
        killHard(await lab.supervisorPid());
        await waitFor('the supervisor is gone', async () => lab.supervisor.exitCode !== null || lab.supervisor.signalCode !== null);
        await lab.startSupervisor();
    };
    const reached = () => { let tell; const promise = new Promise(resolve => { tell = resolve; }); return { tell, promise }; };
    // Each holds the forge at a step, and says when it is reached.
    const steps = {
        'before the push': at => { forge.onPush = async when => when === 'before' && at.tell() === undefined && new Promise(() => {}); },
        'after the push': at => { forge.onPush = async when => when === 'after' && at.tell() === undefined && new Promise(() => {}); },
        'at the look': at => { forge.fault = () => { at.tell(); return true; }; },
        'before it is opened': at => { forge.fault = ({ method }) => method === 'POST' && at.tell() === undefined; },
        'after it was opened': at => { forge.fault = async ({ method, body }) => {
            if (method !== 'POST')
                return false;
            await forge.open('hub/owner/project', body);
            at.tell();
            return true;
        }; },
        'at the confirmation': at => { forge.fault = ({ method, place }) => method === 'GET' && /pulls\/\d+$/.test(place) && at.tell() === undefined; },
    };
    const project = await bare(forge.root, 'hub/owner/project');
    const { sessionId } = await run(lab, commit('Start', 'agent/0'), { repository: github('project') });
    let number = 0;
    for (const [name, hold] of Object.entries(steps)) {
        if (!long && !['after the push', 'after it was opened'].includes(name))
            continue;
        number++;
        await run(lab, commit(`Change ${number}`, `agent/${number}`), { sessionId });
        const at = reached();
        hold(at);
        const lost = call(lab, sessionId);
        await at.promise;
        await restart();
        await lost;
        forge.fault = () => false;
        forge.onPush = async () => {};
        const view = await pr(lab, sessionId);
        assert.ok(['opened', 'unchanged'].includes(view.status), `${name}: ${JSON.stringify(view)}`);
        const open = forge.of('hub/owner/project').filter(one => one.open);
        assert.deepEqual([open.length, open[0].head, view.number], [1, `agent/${number}`, open[0].number], name);
        assert.equal((await refs(project))[`refs/heads/agent/${number}`], view.commit, name);
        // And it goes on from there: more commits are pushed over what is there.
        if (name === 'after the push') {
            await run(lab, commit('And more'), { sessionId });
            assert.equal((await pr(lab, sessionId)).status, 'updated');
        }
        open[0].open = false;
    }
    // The sandbox itself is killed in the midst of the push.
    await run(lab, commit('Last', 'agent/last'), { sessionId });
    const at = reached();
    steps['before the push'](at);
    const failing = call(lab, sessionId);
    await at.promise;
    for (const pid of sandboxedProcessesOf(lab.id).map(one => one.pid))
        killHard(pid);
    const failed = await failing;
    assert.notEqual(failed.code, 0, failed.stdout);
    forge.onPush = async () => {};
    assert.equal((await pr(lab, sessionId)).status, 'opened');
}));
