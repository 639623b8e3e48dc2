/* activity.js: the events of a run as a list. All are kept, as texts; only the newest have nodes, until earlier ones are asked for. */
import { clock, count, cut, duration, el, moment, put, text, withoutColours, words } from './base.js';
import { phaseWords } from './board.js';

const KEPT_MAX = 50000;
const SHOWN = 300;
const STEP = 600;
const SHOWN_MAX = 3000;
const TEXT_MAX = 20000;

const data = event => (event.data && typeof event.data === 'object' ? event.data : {});

function stamp(event) {
  return el('time', { dateTime: new Date(event.time).toISOString(), title: moment(event.time) }, clock(event.time));
}

function item(kind, event, ...children) {
  return el('li', { className: 'ev ' + kind }, stamp(event), el('div', { className: 'ev-body' }, ...children));
}

/* Scrolls by itself, so the keyboard must get there. */
function printed(value) {
  return put(el('pre', { className: 'output', tabIndex: 0 }), value);
}

/* A line that opens; what is below is made when it does. */
function folded(summary, make) {
  const node = el('details', {}, el('summary', {}, ...summary));
  node.addEventListener('toggle', () => {
    if (node.open && node.childElementCount === 1) node.append(...[].concat(make()));
  });
  return node;
}

function tool(event) {
  const { tool: name, title, status, exit, output, error, truncated, durationMs } = data(event);
  const failed = status === 'error' || (typeof exit === 'number' && exit !== 0);
  const [head, ...tail] = String(event.text).split(': ');
  const summary = [text('span', 'tool-name', name || head), text('span', 'tool-title', cut(String(title || tail.join(': ')).split('\n')[0], 240))];
  if (failed) summary.push(text('span', 'tag bad', typeof exit === 'number' ? 'exit ' + exit : 'failed'));
  if (durationMs >= 1000) summary.push(text('span', 'dim', duration(durationMs)));
  return item('tool' + (failed ? ' failed' : ''), event, folded(summary, () => {
    const said = [error, output].filter(Boolean).map(withoutColours).join('\n');
    const nodes = [];
    if (String(title || '').includes('\n')) nodes.push(printed(title));
    nodes.push(printed(cut(said || 'It said nothing.', TEXT_MAX)));
    if (truncated) nodes.push(el('p', { className: 'dim' }, 'Only a part of its output was kept.'));
    return nodes;
  }));
}

const long = value => cut(withoutColours(value), TEXT_MAX);

function said(event) {
  return item('text', event, text('div', 'prose', long(event.text)));
}

function thought(event) {
  const all = long(event.text);
  return item('reasoning', event, folded([el('span', { className: 'dim' }, 'Thought: '), text('span', 'dim', cut(all.split('\n')[0], 160))], () => text('div', 'prose dim', all)));
}

const callouts = { question: 'asks', permission: 'asks for permission', retry: 'model', refused: 'refused', error: 'error' };

function callout(event) {
  return item('callout ' + event.kind, event, text('span', 'tag', callouts[event.kind]), ' ', text('span', 'prose', long(event.text)));
}

function message(event) {
  const { state } = data(event);
  return state === 'sent' ? item('message', event, text('div', 'bubble', long(event.text))) : item('line', event, text('span', 'dim', event.text));
}

/* "collecting the changes"; how it ended in one word. */
function stateWords(event) {
  const { status, phase } = data(event);
  return status === 'waiting' ? 'waiting for an answer' : phaseWords(phase) || words(status || event.text);
}

function line(event) {
  if (event.kind === 'state') return item('line', event, text('span', 'state', stateWords(event)));
  return item('line', event, text('span', 'dim', cut(withoutColours(event.text), 400)));
}

/* What is told before the work begins, and lines of output, come in crowds. */
const isEarly = event => event.kind === 'state' && ['queued', 'started'].includes(data(event).status);
const inCrowd = event => event.kind === 'log' || isEarly(event);

function crowd(events) {
  const first = events[0];
  const name = isEarly(first) ? 'Getting ready' : count(events.length, 'line') + ' of output';
  const lineOf = event => (event.kind === 'state' ? stateWords(event) : withoutColours(event.text));
  const last = cut(lineOf(events.at(-1)).split('\n')[0], 160);
  if (events.length === 1 && first.text.length < 160) return item('log', first, text('span', 'dim', last));
  return item('log', first, folded([text('span', 'dim', name), text('span', 'dim', last)],
    () => printed(events.map(event => clock(event.time) + '  ' + lineOf(event)).join('\n'))));
}

const makers = { tool, text: said, reasoning: thought, question: callout, permission: callout, retry: callout, refused: callout, error: callout, message,
  state: line, todo: line };

/* One event that is not as it should be costs nothing but its own looks. */
function nodeOf(event) {
  try {
    return (makers[event.kind] || line)(event);
  } catch (error) {
    console.error(error);
    return item('line', event, text('span', 'dim', cut(event.text, 400)));
  }
}

/* Which events a choice shows; usage tells nothing to people. */
const choices = [
  ['All', () => true],
  ['Conversation', kind => ['text', 'message', 'question', 'permission', 'error', 'state'].includes(kind)],
  ['Tools', kind => ['tool', 'error', 'refused'].includes(kind)],
];

export class Activity {
  constructor() {
    this.events = [];
    this.waiting = [];
    this.from = 0;      /* index of the first event that has a node */
    this.dropped = 0;
    this.wanted = choices[0][1];
    this.earlier = el('button', { type: 'button', className: 'small', hidden: true, onclick: () => this.showEarlier() });
    this.live = false;
    this.list = el('ol', { className: 'events' });
    this.latest = el('button', { type: 'button', className: 'latest', hidden: true, onclick: () => this.toEnd() }, 'Latest ↓');
    this.chips = el('div', { className: 'chips', role: 'group', ariaLabel: 'Which events' }, ...choices.map(([label, wanted], index) =>
      el('button', { type: 'button', className: 'chip', ariaPressed: String(index === 0), onclick: event => this.choose(wanted, event.target) }, label)));
    this.node = el('div', {}, this.chips, this.earlier, el('div', { role: 'log', ariaLabel: 'Events' }, this.list), this.latest);
    this.following = false; /* once a person is at the end, it stays in sight */
    this.tail = null;       /* the crowd that the list ends with */
    addEventListener('scroll', () => {
      this.following = scrollY > 0 && this.atEnd();
      if (this.following) this.latest.hidden = true;
    }, { passive: true });
  }

  atEnd() {
    return innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
  }

  toEnd() {
    scrollTo({ top: document.documentElement.scrollHeight });
    this.latest.hidden = true;
  }

  choose(wanted, chip) {
    this.wanted = wanted;
    for (const other of this.chips.children) other.ariaPressed = String(other === chip);
    this.list.replaceChildren();
    this.from = Math.max(0, this.events.length - SHOWN);
    this.show(this.events.slice(this.from), nodes => this.list.append(...nodes));
    this.sayEarlier();
  }

  /* Nodes for EVENTS, lines of output together. */
  show(events, place) {
    const nodes = [];
    const ends = this.tail && this.tail.node === this.list.lastElementChild && events[0] === this.next && this.tail;
    let group = ends && events.length && inCrowd(events[0]) ? [...ends.events] : [];
    if (group.length) ends.node.remove();
    this.tail = null;
    const flush = last => {
      if (group.length) nodes.push(crowd(group));
      if (last && group.length) this.tail = { node: nodes.at(-1), events: group };
      group = [];
    };
    for (const event of events) {
      if (event.kind === 'usage' || !this.wanted(event.kind)) continue;
      if (inCrowd(event)) {
        group.push(event);
        continue;
      }
      flush();
      nodes.push(nodeOf(event));
    }
    flush(true);
    place(nodes);
  }

  add(event) {
    this.waiting.push(event);
    if (this.waiting.length === 1) (document.hidden ? setTimeout : requestAnimationFrame)(() => this.addWaiting());
  }

  addWaiting() {
    const fresh = this.waiting;
    const follows = this.following;
    this.waiting = [];
    for (const event of fresh) this.events.push(event);
    if (this.events.length > KEPT_MAX) {
      const gone = this.events.length - KEPT_MAX;
      this.events.splice(0, gone);
      this.dropped += gone;
      this.from = Math.max(0, this.from - gone);
    }
    const start = Math.max(this.events.length - fresh.length, this.events.length - SHOWN);
    if (start > this.events.length - fresh.length) {
      /* More came at once than is shown: what was there before makes room. */
      this.list.replaceChildren();
      this.from = start;
    }
    this.next = this.events[start]; /* goes on where the list ends */
    this.show(this.events.slice(start), nodes => this.list.append(...nodes));
    if (this.list.childElementCount > SHOWN_MAX && follows) {
      this.list.replaceChildren();
      this.from = this.events.length - SHOWN;
      this.show(this.events.slice(this.from), nodes => this.list.append(...nodes));
    }
    this.sayEarlier();
    if (follows) this.toEnd();
    else this.latest.hidden = !this.live || this.atEnd();
  }

  sayEarlier() {
    this.earlier.hidden = this.from === 0 && !this.dropped;
    this.earlier.disabled = this.from === 0;
    this.earlier.textContent = this.from ? 'Show earlier events (' + this.from + ')' : count(this.dropped, 'earlier event') + ': sandboxctl logs shows them';
  }

  showEarlier() {
    const from = Math.max(0, this.from - STEP);
    const height = document.documentElement.scrollHeight;
    this.show(this.events.slice(from, this.from), nodes => this.list.prepend(...nodes));
    this.from = from;
    this.sayEarlier();
    scrollBy(0, document.documentElement.scrollHeight - height);
  }
}
