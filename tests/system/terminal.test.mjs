// sandboxctl in a real terminal: progress that repaints and fits, Ctrl-C that leaves the run alone, and nothing that an agent says can touch the screen.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { must, waitFor, withLab } from './lab.mjs';

class Terminal {
    constructor(lab, { width = 100, env = {} } = {}) {
        this.server = ['-S', lab.path('work', 'tmux'), '-f', '/dev/null'];
        this.options = { env: { ...lab.env(env), TERM: 'xterm-256color' }, cwd: lab.path('work') };
        this.width = width;
    }

    tmux(...args) {
        return must('tmux', [...this.server, ...args], this.options);
    }

    start() {
        return this.tmux('new-session', '-d', '-x', `${this.width}`, '-y', '40', 'sh');
    }

    type(...keys) {
        return this.tmux('send-keys', ...keys);
    }

    async lines() {
        return (await this.tmux('capture-pane', '-p')).split('\n');
    }

    async shows(pattern, what = `${pattern}`) {
        let lines;
        await waitFor(what, async () => {
            lines = await this.lines();
            return lines.some(line => pattern.test(line));
        });
        return lines;
    }

    close() {
        return this.tmux('kill-server').catch(() => {});
    }
}

async function withTerminal(lab, options, body) {
    const terminal = new Terminal(lab, options);
    await terminal.start();
    try {
        await body(terminal);
    } finally {
        await terminal.close();
    }
}

const quiet = { model: false, agent: false };
const hold = 'mkfifo /tmp/gate; read line < /tmp/gate';

test('progress repaints one line that fits; Ctrl-C leaves the run at work', { timeout: 120000 }, () => withLab(quiet, lab => withTerminal(lab, {}, async terminal => {
    const ctl = lab.program('sandboxctl');
    await terminal.type(`clear; ${ctl} run --agent shell --no-repo --wait '${hold}'`, 'Enter');
    const status = /^running: work, (\d+) s/;
    await terminal.shows(status);
    const first = Number(status.exec((await terminal.lines()).find(line => status.test(line)))[1]);
    await waitFor('it is painted anew', async () => {
        const painted = (await terminal.lines()).filter(line => status.test(line));
        assert.ok(painted.length <= 1, 'one line only');
        return painted.length === 1 && Number(status.exec(painted[0])[1]) > first;
    });
    // A narrow window: the line is cut, not wrapped, and so painted over. Terminals tell programs of their size a little later than they
    // wrap what they show: what was painted in between may stay.
    await terminal.tmux('resize-window', '-x', '18', '-y', '40');
    const cut = /^running: work, (\d+)/;
    const seen = new Set();
    await waitFor('it is painted anew, three times', async () => {
        const painted = (await terminal.lines()).filter(line => cut.test(line));
        assert.ok(painted.length <= 2, painted.join('\n'));
        seen.add(cut.exec(painted.at(-1))?.[1]);
        return seen.size > 3;
    });
    await terminal.tmux('resize-window', '-x', '100', '-y', '40');
    await terminal.shows(status);
    await terminal.type('C-c');
    const lines = await terminal.shows(/sandboxctl (get|logs)/, 'how to come back');
    const [, runId] = /(run_\w{26})/.exec(lines.join('\n'));
    const view = await lab.ctlJson(['get', runId]);
    assert.equal(view.status, 'running');
    await lab.exec(runId, ['sh', '-c', 'echo go > /tmp/gate']);
    assert.equal((await lab.ended(runId)).status, 'completed');
    // Its output is a terminal's no more: plain lines, and nothing at all beside JSON.
    const piped = await lab.ctl(['run', '--agent', 'shell', '--no-repo', '--wait', 'echo hello']);
    assert.doesNotMatch(piped.stderr, /[\r\x1b]/);
    assert.match(piped.stderr, /running: work/);
    const json = await lab.ctl(['run', '--json', '--agent', 'shell', '--no-repo', '--wait', 'echo hello']);
    assert.equal(json.stderr, '');
    assert.equal(JSON.parse(json.stdout).status, 'completed');
})));

test('what an agent says is shown as text', { timeout: 120000 }, () => withLab(quiet, lab => withTerminal(lab, { width: 120 }, async terminal => {
    const ctl = lab.program('sandboxctl');
    const hostile = String.raw`printf '\033]0;owned\007\033[2J\033[?1049h\033[31mred\342\200\256txt.exe \377\376 \302\233 \010\010end\n'; head -c 200000 /dev/zero | tr '\0' x; echo; echo last line`;
    const { runId } = await lab.startScript(hostile, { title: '\u001b]0;owned\u0007\u202etitle' });
    await lab.ended(runId);
    const title = await terminal.tmux('display-message', '-p', '#{pane_title}');
    for (const command of [`get ${runId} | tail -n 20`, `get ${runId} >/dev/tty`, `logs ${runId} >/dev/tty`, 'list', 'sessions', `audit ${runId}`]) {
        await terminal.type(`clear; ${ctl} ${command}; echo do''ne`, 'Enter');
        await terminal.shows(/^done/, command);
        assert.equal(await terminal.tmux('display-message', '-p', '#{pane_title} #{alternate_on}'), `${title.trim()} 0\n`, command);
        assert.doesNotMatch((await terminal.lines()).join('\n'), /[\u202a-\u202e\u2066-\u2069]/, command);
    }
    // Tables fit: each run is one line.
    await terminal.type(`clear; ${ctl} list; echo fit''ted`, 'Enter');
    const lines = await terminal.shows(/^fitted/);
    assert.equal(lines.filter(Boolean).findIndex(line => line.startsWith('fitted')), 2, lines.join('\n'));
})));

test('a diff goes through the pager, with colour where it is wanted', { timeout: 120000 }, () => withLab(quiet, lab => withTerminal(lab, {}, async terminal => {
    const repository = await lab.repository();
    const { runId } = await lab.startScript('printf -- "-- not a head\\n" > new.txt; git add new.txt', { repository });
    await lab.ended(runId);
    const paged = async env => {
        const file = lab.path('work', 'paged');
        fs.rmSync(file, { force: true });
        await terminal.type(`clear; ${env} PAGER='cat > ${file}' ${lab.program('sandboxctl')} diff ${runId}; echo do''ne`, 'Enter');
        await terminal.shows(/^done/);
        return fs.readFileSync(file, 'utf8');
    };
    const plain = (await lab.ctl(['diff', runId])).stdout;
    assert.match(plain, /^\+-- not a head$/m);
    const colored = await paged('');
    assert.match(colored, /^\x1b\[32m\+-- not a head\x1b\[m$/m);
    assert.match(colored, /^\x1b\[36m@@ /m);
    assert.equal(colored.replace(/\x1b\[\d*m/g, ''), plain);
    assert.equal(await paged('NO_COLOR=1'), plain);
    assert.equal(await paged('TERM=dumb'), plain);
})));
