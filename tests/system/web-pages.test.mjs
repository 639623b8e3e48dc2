// The web pages as people use them: Chromium on a supervisor with real OpenCode, on a desk and on a phone.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { Browser, checkAccessible, phone, screenshot } from './browser.mjs';
import { must, waitFor, withLab } from './lab.mjs';

// A lab and a browser; what a page may not do fails the test.
const withPages = (options, body) => withLab(options, async lab => {
    const browser = new Browser();
    try {
        await browser.start(options.flags);
        await body(lab, browser);
        assert.deepEqual(browser.problems, []);
    } finally {
        await browser.stop();
    }
});

const baseOf = page => new URL(page.url()).origin + new URL(page.url()).pathname.split('/').slice(0, 3).join('/');
const pill = page => page.locator('.status .pill');

// The diff as the page shows it, every file opened and every line.
async function shownDiff(page) {
    await page.evaluate(() => document.querySelectorAll('.file').forEach(file => { file.open = true; }));
    await page.waitForFunction(() => [...document.querySelectorAll('.file .code')].every(code => code.childElementCount));
    return await page.evaluate(() => [...document.querySelectorAll('.file .l code')].map(code => code.textContent).join('\n')) + '\n';
}

test('a run of real OpenCode: watched, asked, answered, its changes', { timeout: 900000 }, () => withPages({ config: () => ({ agents: { startSeconds: 300 } }) }, async (lab, browser) => {
    const mcp = await lab.connect();
    const repository = await lab.repository();
    const page = await browser.signIn(lab, await browser.context());
    await page.getByText('No runs yet').waitFor();

    // It comes up on the board by itself, and asks.
    const asking = await mcp.tool('opencode_run_task', { task: 'TASK-QUESTION please', repository, title: 'Choose a licence' });
    const row = page.locator('.row', { hasText: 'Choose a licence' });
    await row.waitFor();
    await row.locator('.pill.waiting').waitFor({ timeout: 600000 });
    await page.getByRole('button', { name: 'Needs you 1' }).waitFor();
    assert.match(await row.textContent(), /Which licence should the file carry\?/);
    await checkAccessible(page, 'the board');
    await screenshot(page, 'board-desk');
    await page.getByRole('button', { name: 'Completed 0' }).click();
    await page.getByText('No run is in this state').waitFor();
    await page.getByRole('button', { name: 'Needs you 1' }).click();

    // On a phone, by the run's own link: answered there, and it goes on.
    const small = await browser.context({ ...phone, colorScheme: 'dark' });
    const hand = await small.newPage();
    await hand.goto(asking.webUiUrl);
    await hand.getByRole('heading', { name: 'The agent asks' }).waitFor();
    await checkAccessible(hand, 'a question on a phone');
    await screenshot(hand, 'question-phone-dark');
    assert.ok(await hand.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the phone');
    await hand.getByRole('button', { name: 'GPL', exact: true }).click();
    await pill(hand).getByText('completed').waitFor({ timeout: 120000 });
    assert.ok(lab.upstream.requests.some(request => /GPL/.test(request.body)), 'the model has heard it');
    assert.match(await hand.locator('.part.result').textContent(), /Thank you, going on/);
    await page.getByText('No run is in this state').waitFor();
    await page.getByRole('button', { name: 'Needs you 0' }).waitFor();
    assert.equal(await hand.locator('nav a').count(), 0, 'the link of a run leads nowhere else');

    // A follow-up from the page is a run in the same session.
    await page.goto(`${baseOf(page)}/runs/${asking.runId}`);
    await page.getByLabel('Follow up').fill('TASK-NOTE please');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('link', { name: 'a run of its own' }).click();
    await page.getByRole('button', { name: 'Cancel run' }).waitFor();
    await screenshot(page, 'run-desk-live');
    await pill(page).getByText('completed').waitFor({ timeout: 600000 });
    const runId = new URL(page.url()).pathname.split('/').at(-1);
    assert.equal((await lab.ctlJson(['get', runId])).sessionId, asking.sessionId);
    const tool = page.locator('.ev.tool', { hasText: 'bash' });
    await tool.locator('summary').click();
    await tool.locator('pre.output').waitFor();
    await page.locator('.ev.text', { hasText: 'The note is written.' }).waitFor();
    await page.getByRole('tab', { name: 'Changes' }).click();
    await page.locator('.file', { hasText: 'note.txt' }).waitFor();
    assert.equal(await shownDiff(page), (await lab.ctlJson(['diff', runId])).diff);
    await screenshot(page, 'run-desk');
    await checkAccessible(page, 'a run');

    // Its requests to the model, from the audit.
    await page.getByRole('tab', { name: 'Network' }).click();
    await page.locator('.audit tbody tr').first().waitFor();
    assert.match(await page.locator('.audit tbody').textContent(), /POST anthropic/);
    await page.goto(`${baseOf(page)}/audit`);
    await page.locator('.audit tbody tr').first().waitFor();
    await checkAccessible(page, 'the audit');
    await screenshot(page, 'audit-desk');
}));

test('permissions are given and refused by buttons, and the run goes on', { timeout: 900000 }, () => withPages({ config: () => ({ agents: { startSeconds: 300, permissions: 'ask' } }) }, async (lab, browser) => {
    const mcp = await lab.connect();
    const repository = await lab.repository();
    const first = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE please', repository, title: 'A note, if I may' });
    const page = await browser.signIn(lab, await browser.context(), [first.runId]);
    const card = page.locator('.ask');
    await card.getByRole('heading', { name: 'The agent asks for permission' }).waitFor({ timeout: 600000 });
    assert.match(await card.locator('.asked').textContent(), /echo note >>note\.txt/);
    assert.match(await page.title(), /^\(!\) waiting/);
    await checkAccessible(page, 'a permission');
    await screenshot(page, 'permission-desk');
    await card.getByRole('button', { name: 'Allow once' }).click();
    await pill(page).getByText('completed').waitFor({ timeout: 120000 });
    await page.locator('.ev.text', { hasText: 'The note is written.' }).waitFor();
    await page.getByRole('tab', { name: 'Changes' }).click();
    await page.locator('.file', { hasText: 'note.txt' }).waitFor();
    await page.locator('.ask').waitFor({ state: 'detached' });

    // Once is once. Refused, by the keyboard alone and on a phone, it goes on and the model hears why.
    const second = await mcp.tool('opencode_run_task', { task: 'TASK-NOTE again', repository, title: 'Another note' });
    const hand = await (await browser.context({ ...phone, colorScheme: 'dark' })).newPage();
    await hand.goto(second.webUiUrl);
    await hand.locator('.ask').waitFor({ timeout: 600000 });
    await screenshot(hand, 'permission-phone-dark');
    assert.ok(await hand.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the phone');
    await hand.getByLabel('Refuse, and say why').focus();
    await hand.keyboard.type('notes belong in the log');
    await hand.keyboard.press('Enter');
    await pill(hand).getByText('completed').waitFor({ timeout: 120000 });
    assert.ok(lab.upstream.requests.some(request => /notes belong in the log/.test(request.body)), 'the model has heard it');
    assert.equal((await lab.ctlJson(['diff', second.runId])).diff, '');
}));

const hostile = [
    "printf '<img src=x onerror=\"window.broken=1\"><script>window.broken=1</script> </pre></div>\\n'",
    "printf '\\033[31mred\\033[0m \\033]0;title\\007 \\342\\200\\256evil\\342\\200\\254 \\342\\201\\246x\\n'",
    "printf 'bad \\377\\376\\200 utf8\\n'",
    "head -c 300000 /dev/zero | tr '\\0' 'w'; echo",
    "printf '<b>x</b>\\tint a = 1; /* \\033[31m */ // \\342\\200\\256\\n' > '<img src=x onerror=window.broken=1>.js'",
    "printf '\"' > 'quo\"te.txt'; seq 3 > plain.txt; git mv src/range.c src/span.c 2>/dev/null; printf 'no end of line' > none.txt; printf '\\000\\001\\002' > data.bin",
].join('; ');

test('what comes out of a sandbox is text, and the diff is what git wrote', { timeout: 600000 }, () => withPages({ model: false, agent: false }, async (lab, browser) => {
    const repository = await lab.repository();
    const run = await lab.startScript(hostile, { repository, title: '<script>window.broken=1</script>' });
    const other = await lab.startScript('echo other >other.txt', { repository, title: 'Another session' });
    await lab.ended(run.runId);
    await lab.ended(other.runId);
    const context = await browser.context();
    const page = await browser.signIn(lab, context, [run.runId]);
    await pill(page).getByText('completed').waitFor();
    await page.locator('.ev', { hasText: '<script>window.broken=1</script>' }).waitFor();
    assert.match(await page.locator('.ev', { hasText: 'red' }).first().textContent(), /red.*U\+202Eevil.*U\+2066x/);
    await page.getByRole('tab', { name: 'Changes' }).click();
    const shown = await shownDiff(page);

    // The same bytes that git makes of these changes: applied to a clone, git shows them again.
    const clone = lab.path('work', 'clone');
    await must('git', ['clone', '-q', repository, clone]);
    const patch = await fetch(`${baseOf(page)}/api/runs/${run.runId}/patch`, { headers: { cookie: (await context.cookies()).map(one => `${one.name}=${one.value}`).join('; ') } });
    assert.match(patch.headers.get('content-disposition'), /^attachment/);
    const bytes = Buffer.from(await patch.arrayBuffer());
    fs.writeFileSync(lab.path('work', 'patch'), bytes);
    await must('git', ['-C', clone, 'apply', '--index', lab.path('work', 'patch')]);
    const again = await must('git', ['-C', clone, 'diff', '--cached', '--binary'], { encoding: 'latin1' });
    const withoutIds = text => text.replace(/^index .*$/gm, '');
    assert.equal(withoutIds(bytes.toString('latin1')), withoutIds(again), 'the patch is git\'s');
    const visible = text => text.replaceAll('\u001b', 'ESC').replaceAll('\u202e', 'U+202E');
    assert.equal(shown, visible(bytes.toString()), 'the page shows it all');
    assert.equal(await page.locator('.file .tc').count() > 0, true, 'comments have their colour');
    await checkAccessible(page, 'a diff');
    await screenshot(page, 'diff-desk');
    assert.deepEqual(await page.evaluate(() => [window.broken, document.querySelectorAll('img, iframe, object, b').length, document.scripts.length]), [undefined, 0, 1]);
    assert.deepEqual(browser.problems, [], 'not even the policy had to stop anything');

    // Two tabs on two sessions: each speaks to its own.
    const second = await context.newPage();
    await second.goto(`${baseOf(page)}/sessions/${other.sessionId}`);
    await page.goto(`${baseOf(page)}/sessions/${run.sessionId}`);
    for (const [tab, words] of [[page, 'echo first'], [second, 'echo second']]) {
        await tab.getByLabel('Follow up').fill(words);
        await tab.getByRole('button', { name: 'Send' }).click();
        await tab.getByRole('link', { name: 'a run of its own' }).waitFor();
        await tab.locator('.row', { hasText: words }).locator('.pill.completed').waitFor({ timeout: 60000 });
    }
    const tasks = async id => (await lab.ctlJson(['list', '--session', id])).runs.map(one => one.task);
    assert.equal((await tasks(run.sessionId))[0], 'echo first');
    assert.equal((await tasks(other.sessionId))[0], 'echo second');
    assert.equal(await second.locator('.row').count(), 2);

    // Deleting asks first, and both tabs hear of it.
    await second.getByRole('button', { name: 'Delete session' }).click();
    await second.getByRole('button', { name: 'Keep it' }).click();
    assert.equal((await tasks(other.sessionId)).length, 2);
    await page.goto(`${baseOf(page)}/`);
    await page.locator('.row', { hasText: 'Another session' }).waitFor();
    await checkAccessible(second, 'a session');
    await screenshot(second, 'session-desk', { fullPage: true });
    await second.getByRole('button', { name: 'Delete session' }).click();
    await second.getByRole('button', { name: 'Delete', exact: true }).click();
    await second.waitForURL(`${baseOf(page)}/`);
    await page.locator('.row', { hasText: 'Another session' }).waitFor({ state: 'detached' });
    await second.getByRole('button', { name: 'Sign out' }).click();
    await second.getByText('This browser is not signed in').waitFor();
}));

// Stands between browser and supervisor under another loopback address, and can be cut.
class Cut {
    sockets = new Set();
    async start(port) {
        this.server = net.createServer(socket => {
            if (this.off)
                return socket.destroy();
            const onward = net.connect(port, '127.0.0.1');
            for (const [one, to] of [[socket, onward], [onward, socket]]) {
                this.sockets.add(one);
                one.pipe(to);
                one.on('error', () => {}).on('close', () => { this.sockets.delete(one); to.destroy(); });
            }
        }).listen(port, '127.0.0.2');
        await once(this.server, 'listening');
    }
    set(off) {
        this.off = off;
        if (off)
            this.sockets.forEach(socket => socket.destroy());
    }
    stop() {
        this.set(true);
        this.server.close();
    }
}

test('a lost connection loses nothing and repeats nothing; five thousand events', { timeout: 600000 }, () => withPages({ model: false, agent: false,
    flags: ['--host-resolver-rules=MAP localhost 127.0.0.2'] }, async (lab, browser) => {
    const cut = new Cut();
    const run = await lab.startScript('echo begin; while [ ! -e /tmp/go ]; do sleep 0.1; done; seq 200; while [ ! -e /tmp/end ]; do sleep 0.1; done; seq 201 5000', { title: 'Count' });
    const context = await browser.context();
    const page = await context.newPage();
    const url = new URL(run.webUiUrl);
    await cut.start(Number(url.port));
    try {
        // What the page was given, in order.
        await page.addInitScript(() => {
            const make = window.EventSource;
            window.numbers = [];
            window.EventSource = class extends make {
                constructor(...words) {
                    super(...words);
                    this.addEventListener('message', event => window.numbers.push(JSON.parse(event.data).number));
                }
            };
        });
        url.hostname = 'localhost';
        await page.goto(url.href);
        await page.locator('.ev', { hasText: 'begin' }).waitFor();
        cut.set(true);
        await page.getByText('connection lost').waitFor();
        await lab.exec(run.runId, ['touch', '/tmp/go']);
        await waitFor('it counted', async () => (await lab.ctlJson(['get', run.runId])).cursor > 200, 60000, 100);
        cut.set(false);
        await page.locator('.ev.text', { hasText: /200$/ }).waitFor({ timeout: 60000 });
        await page.getByText('live', { exact: true }).waitFor();
        await lab.exec(run.runId, ['touch', '/tmp/end']);
        await pill(page).getByText('completed').waitFor({ timeout: 120000 });
        const numbers = await page.evaluate(() => window.numbers);
        const { cursor } = await lab.ctlJson(['get', run.runId]);
        assert.deepEqual(numbers, Array.from({ length: cursor }, (_, i) => i + 1), 'each once, in order');

        // Opened anew: what the processor has to do for it, which a busy machine doesn't change, stays below a second.
        const fresh = await context.newPage();
        const session = await context.newCDPSession(fresh);
        await session.send('Performance.enable', { timeDomain: 'threadTicks' });
        await fresh.goto(run.webUiUrl);
        await fresh.locator('.ev.text', { hasText: /5000$/ }).waitFor({ timeout: 60000 });
        const { metrics } = await session.send('Performance.getMetrics');
        const busy = metrics.find(one => one.name === 'TaskDuration').value;
        console.log(`# 5000 events: ${Math.round(busy * 1000)} ms of the page's thread`);
        assert.ok(busy < 1, `${busy} s`);
        assert.ok(await fresh.locator('.ev').count() < 1000, 'the older ones have no nodes');
        for (let i = 0; i < 20 && await fresh.getByRole('button', { name: /Show earlier events/ }).isVisible(); i++)
            await fresh.getByRole('button', { name: /Show earlier events/ }).click();
        await fresh.locator('.ev.text', { hasText: /begin/ }).scrollIntoViewIfNeeded();
        assert.ok(await fresh.locator('.ev').count() > 5000);
    } finally {
        cut.stop();
    }
}));
