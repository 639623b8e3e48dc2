/* board.js: all runs, newest first, live; and the rows of runs that other pages show too. */
import { age, ask, changeCount, count, cut, duration, el, everySecond, fill, follow, money, now, pill, put, runPath, setNow,
  shortRepository, text, titleOf, words } from './base.js';

const filters = [
  ['All', ''],
  ['Needs you', 'waiting'],
  ['Active', 'queued-started-running-waiting'],
  ['Completed', 'completed'],
  ['Failed', 'failed-interrupted'],
  ['Cancelled', 'cancelled'],
];
const SHOWN_MAX = 1000;

export const isOver = status => ['completed', 'failed', 'cancelled', 'interrupted'].includes(status);

const phases = {
  queue: 'waiting for a free place', sandbox: 'making the sandbox', clone: 'cloning the repository', setup: 'running the set-up command',
  agent: 'starting the agent', prompt: 'handing over the task', work: 'working', collect: 'collecting the changes', stop: 'stopping the sandbox',
};
export const phaseWords = phase => phases[phase] || phase || '';

/* What a row says of the run beside its name. */
function nowLine(item) {
  const run = item.run;
  if (run.status === 'waiting') return item.question || 'waits for an answer';
  if (run.status === 'failed' || run.status === 'interrupted') return item.error || words(run.verdict);
  if (isOver(run.status)) return run.verdict && run.verdict !== 'changed' ? words(run.verdict) : '';
  return run.phase === 'work' && item.step ? item.step : phaseWords(run.phase);
}

/* Worth a word once half of it is gone. */
function budgetUsed({ tokensUsed = 0, moneyUsed = 0 }) {
  const share = Math.max(tokensUsed, moneyUsed);
  return share >= 0.5 ? Math.round(share * 100) + '% of budget' : '';
}

function timeOf(run) {
  if (isOver(run.status)) return age(now() - (run.completedAt || run.createdAt));
  return duration(now() - (run.startedAt || run.createdAt));
}

/* One run as a row; ITEM is what the server says of it. */
export class Row {
  constructor(item, { withRepository = true } = {}) {
    this.withRepository = withRepository;
    this.time = el('span', { className: 'time' });
    this.body = el('div', { className: 'row-body' });
    this.state = el('div', { className: 'row-state' });
    this.numbers = el('div', { className: 'row-numbers' });
    this.node = el('li', { className: 'row' }, this.state, this.body, this.numbers);
    this.set(item);
  }

  get id() {
    return this.item.run.runId;
  }

  set(item) {
    const run = item.run;
    this.item = item;
    this.node.classList.toggle('needs', run.status === 'waiting');
    fill(this.state, run.status, () => pill(run.status));
    fill(this.body, [run.title, run.task, run.repository, item.model, nowLine(item)], () => this.makeBody());
    fill(this.numbers, [item.filesChanged, item.insertions, item.deletions, item.costUsd, budgetUsed(item)], () => this.makeNumbers());
    this.tick();
  }

  makeBody() {
    const run = this.item.run;
    const under = el('p', { className: 'under' });
    const parts = [this.withRepository && shortRepository(run.repository), this.item.model?.split('/').pop()].filter(Boolean);
    put(under, parts.join(' · '));
    const line = nowLine(this.item);
    const said = line && text('p', 'said', cut(line.replace(/\s+/g, ' '), 220));
    return [put(el('a', { className: 'title', href: runPath(run.runId) }), titleOf(run)), said, under];
  }

  makeNumbers() {
    const { filesChanged, insertions, deletions, costUsd } = this.item;
    return [filesChanged ? changeCount(insertions, deletions) : null, text('span', 'cost', money(costUsd || 0)), budgetUsed(this.item) && text('span', 'cost', budgetUsed(this.item)), this.time];
  }

  tick() {
    const said = timeOf(this.item.run);
    if (this.time.textContent !== said) this.time.textContent = said;
  }
}

/* Rows in a list, newest first: ids sort by time. */
export class Rows {
  constructor(options) {
    this.options = options;
    this.rows = new Map();
    this.node = el('ol', { className: 'rows' });
    everySecond(() => this.rows.forEach(row => isOver(row.item.run.status) || row.tick()));
    everySecond(() => this.rows.forEach(row => row.tick()), 30);
  }

  clear() {
    this.rows.clear();
    this.node.replaceChildren();
  }

  set(item) {
    const id = item.run.runId;
    const known = this.rows.get(id);
    if (known) {
      known.set(item);
      return;
    }
    const row = new Row(item, this.options);
    row.node.dataset.id = id;
    this.rows.set(id, row);
    let before = this.node.firstElementChild;
    while (before && before.dataset.id > id) before = before.nextElementSibling;
    this.node.insertBefore(row.node, before);
    if (this.rows.size > SHOWN_MAX) this.remove(this.node.lastElementChild.dataset.id);
  }

  remove(id) {
    this.rows.get(id)?.node.remove();
    this.rows.delete(id);
  }

  removeSession(sessionId) {
    for (const row of [...this.rows.values()])
      if (row.item.run.sessionId === sessionId) this.remove(row.id);
  }
}

/* How many a filter would show. */
function countOf(counts, states) {
  return (states ? states.split('-') : Object.keys(counts)).reduce((sum, state) => sum + (counts[state] || 0), 0);
}

export async function showBoard(view) {
  const rows = new Rows();
  const chips = el('div', { className: 'chips', role: 'group', ariaLabel: 'Which runs' });
  const more = el('button', { type: 'button', hidden: true }, 'Show earlier runs');
  const empty = el('p', { className: 'empty', hidden: true });
  let states = filters.some(([, value]) => value === location.hash.slice(1)) ? location.hash.slice(1) : '';
  let cursor = '';
  let counting = 0;
  let asked = 0;

  document.title = 'Board · sandbox-mcp';
  view.replaceChildren(el('h1', { className: 'hidden' }, 'Runs'), chips, empty, rows.node, el('div', { className: 'actions more' }, more));

  function showCounts(counts) {
    const waiting = counts.waiting || 0;
    document.title = (waiting ? '(' + waiting + ') ' : '') + 'Board · sandbox-mcp';
    fill(chips, [counts, states], () => filters.map(([label, value]) => el('button', { type: 'button', ariaPressed: String(value === states),
      className: value === 'waiting' && waiting ? 'chip needs' : 'chip', onclick: () => choose(value) }, label + ' ',
      el('span', { className: 'n' }, String(countOf(counts, value))))));
    empty.hidden = rows.rows.size > 0;
    empty.textContent = countOf(counts, '') ? 'No run is in this state.' : 'No runs yet. Give your assistant a task, or: sandboxctl run "…"';
  }

  /* After changes that the list does not see as a whole. */
  function countSoon() {
    if (counting) return;
    counting = setTimeout(async () => {
      counting = 0;
      await ask('/api/runs?limit=1').then(reply => showCounts(reply.counts)).catch(() => {});
    }, 400);
  }

  async function load(before) {
    const ticket = ++asked;
    const reply = await ask('/api/runs?limit=50' + (states ? '&status=' + states : '') + (before ? '&before=' + before : ''));
    if (ticket !== asked) return reply;
    setNow(reply.now);
    if (!before) rows.clear();
    reply.runs.forEach(item => rows.set(item));
    cursor = reply.cursor;
    more.hidden = !reply.hasMore;
    showCounts(reply.counts);
    return reply;
  }

  async function choose(value) {
    states = value;
    history.replaceState(null, '', value ? '#' + value : location.pathname);
    await load('');
    chips.querySelector('[aria-pressed="true"]')?.focus();
  }

  function changed(item) {
    const status = item.run.status;
    const known = rows.rows.get(item.run.runId);
    const was = known?.item.run.status;
    if (states && !states.split('-').includes(status)) rows.remove(item.run.runId);
    else if (known || !cursor || item.run.runId > cursor || more.hidden) rows.set(item);
    if (was !== status) countSoon();
  }

  more.addEventListener('click', () => load(cursor));
  const first = await load('');
  follow('/api/feed', first.feed, {
    run: changed,
    gone: ({ sessionId }) => { rows.removeSession(sessionId); countSoon(); },
    reset: () => load(''),
  });
}
