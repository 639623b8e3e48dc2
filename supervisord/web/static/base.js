/* base.js: what all pages share. Whatever comes from the server is put in as text, never as markup. */

/* Where we are: below the prefix of a browser that is signed in, or at one run by its link. */
function findPlace() {
  const parts = location.pathname.split('/').filter(Boolean);
  if (parts[0] === 'w') return { base: '/w/' + parts[1], rest: parts.slice(2), token: '' };
  return { base: '', rest: parts, token: new URLSearchParams(location.search).get('token') || '' };
}
export const where = findPlace();

export const runPath = id => where.base + '/runs/' + id + (where.token ? '?token=' + where.token : '');
export const sessionPath = id => where.base + '/sessions/' + id;

/* Nodes ---------------------------------------------------------------------------------------------------------- */

export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key in node && key !== 'list') node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter(child => child !== undefined && child !== null && child !== ''));
  return node;
}

/* Characters that hide, turn round or steer what stands beside them are shown by their number. */
const odd = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;
const oddSplit = new RegExp('(' + odd.source + ')', 'g');

export function put(node, text) {
  text = String(text ?? '');
  if (!odd.test(text)) {
    node.append(text);
    return node;
  }
  for (const part of text.split(oddSplit)) {
    if (part === '') continue;
    if (odd.test(part)) {
      const number = part.charCodeAt(0);
      const name = number === 27 ? 'ESC' : number === 13 ? 'CR' : 'U+' + number.toString(16).toUpperCase().padStart(4, '0');
      node.append(el('span', { className: 'odd', title: 'a character that is not shown' }, name));
    } else {
      node.append(part);
    }
  }
  return node;
}

export function text(name, className, value) {
  return put(el(name, { className }), value);
}

/* Colours and cursor movements of terminals say nothing here. */
export function withoutColours(value) {
  return String(value).replace(/\u001b\[[0-9;?]{0,40}[A-Za-z]/g, '').replace(/\r\n/g, '\n');
}

export function cut(value, most) {
  const all = String(value ?? '');
  return all.length <= most ? all : all.slice(0, most) + ' …';
}

/* Changes a node's children only when what they say has changed, so that focus and selection stay. */
export function fill(node, key, make) {
  const said = JSON.stringify(key);
  if (node.dataset.said === said) return;
  node.dataset.said = said;
  node.replaceChildren(...[].concat(make()).filter(Boolean));
}

/* Words ---------------------------------------------------------------------------------------------------------- */

export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' m ' + (s < 600 ? (s % 60) + ' s' : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + (Math.floor(s / 60) % 60) + ' m';
  return Math.floor(s / 86400) + ' d';
}

export function age(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 45) return 'just now';
  if (s < 3600) return Math.max(1, Math.round(s / 60)) + ' min';
  if (s < 86400) return Math.round(s / 3600) + ' h';
  return Math.round(s / 86400) + ' d';
}

export const count = (n, noun) => n + ' ' + noun + (n === 1 ? '' : 's');
export const money = usd => (usd >= 0.005 ? '$' + usd.toFixed(2) : usd > 0 ? '<$0.01' : '');
export const tokens = n => (n >= 1e6 ? (n / 1e6).toFixed(1) + 'M' : n >= 1e3 ? Math.round(n / 1e3) + 'k' : String(n));
export const size = n => (n >= 1048576 ? (n / 1048576).toFixed(1) + ' MiB' : n >= 1024 ? Math.round(n / 1024) + ' KiB' : n + ' B');
export const clock = ms => new Date(ms).toLocaleTimeString([], { hour12: false });
export const moment = ms => new Date(ms).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
/* A time of today by the clock alone, any other with its day. */
export const when = ms => (new Date(ms).toDateString() === new Date().toDateString() ? clock(ms) : moment(ms));
export const words = value => String(value || '').replace(/_/g, ' ');

/* "https://host/team/calc.git" and "/home/me/src/calc" are both "calc" to whoever looks at many. */
export function shortRepository(address) {
  const parts = String(address || '').replace(/\.git$/, '').replace(/\/+$/, '').split('/');
  return parts.at(-1) || '';
}

export function titleOf(run) {
  return run.title || String(run.task || '').split('\n')[0].slice(0, 160) || run.runId;
}

export function pill(status) {
  const known = /^[a-z]+$/.test(status) ? status : 'unknown';
  return el('span', { className: 'pill ' + known }, el('span', { className: 'dot', ariaHidden: 'true' }), known);
}

export function changeCount(insertions, deletions) {
  return el('span', { className: 'count' }, el('span', { className: 'plus' }, '+' + insertions), ' ',
    el('span', { className: 'minus' }, '−' + deletions));
}

/* The server ----------------------------------------------------------------------------------------------------- */

let offset = 0; /* of the server's clock */
export const now = () => Date.now() + offset;
export function setNow(serverMs) {
  if (serverMs) offset = serverMs - Date.now();
}

export async function ask(path, { method = 'GET', body } = {}) {
  const headers = where.token ? { 'X-Token': where.token } : {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(where.base + path, { method, headers, cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body), credentials: where.token ? 'omit' : 'same-origin' });
  } catch {
    throw new Error('The supervisor does not answer.');
  }
  const reply = await answer.json().catch(() => ({}));
  if (!answer.ok)
    throw Object.assign(new Error(reply.error?.message || 'The supervisor said ' + answer.status + '.'), { status: answer.status });
  return reply;
}

export function addressOf(path, more = {}) {
  const query = new URLSearchParams(more);
  if (where.token) query.set('token', where.token);
  const said = query.toString();
  return where.base + path + (said ? '?' + said : '');
}

/* Says whether what is seen is live. */
export function sayLink(state) {
  const link = document.getElementById('link');
  const said = { live: 'live', lost: 'connection lost, trying again', rest: 'paused', out: 'signed out: load the page anew', over: '' }[state];
  link.className = 'link ' + state;
  if (link.textContent !== said) link.textContent = said;
}

const HIDDEN_MS = 15000;
const AGAIN_MS = 2000;

/* A stream of events that goes on behind the last one after every loss. A page that nobody sees gives its connection back,
 * since a browser has few of them for one server. HANDLERS: by the event's name; "message" for those without. */
export function follow(path, after, handlers) {
  let source = null;
  let last = after;
  let over = false;
  let hiding = 0;
  let again = 0;

  function close() {
    source?.close();
    source = null;
    clearTimeout(again);
  }

  /* The server answered, but not with a stream: perhaps since this browser was signed out. */
  async function openAgain() {
    const signedOut = await ask(path.startsWith('/api/runs/') ? path.replace(/\/events$/, '') : '/api/runs?limit=1')
      .then(() => false, error => error.status === 403);
    if (!signedOut) {
      open();
      return;
    }
    over = true;
    sayLink('out');
  }

  function open() {
    if (over || source) return;
    source = new EventSource(addressOf(path, { after: last }));
    source.onopen = () => sayLink('live');
    source.onerror = () => {
      sayLink('lost');
      if (source?.readyState !== EventSource.CLOSED) return;
      close();
      again = setTimeout(openAgain, AGAIN_MS);
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, event => {
        if (event.lastEventId) last = event.lastEventId;
        handle(JSON.parse(event.data), event.lastEventId);
      });
    }
  }

  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.visibilityState === 'visible') open();
    else hiding = setTimeout(() => { close(); sayLink('rest'); }, HIDDEN_MS);
  });
  window.addEventListener('online', () => { close(); open(); });
  open();
  return {
    stop() {
      over = true;
      close();
      sayLink('over');
    },
  };
}

/* Small things --------------------------------------------------------------------------------------------------- */

/* Calls back every so often while the page is seen. */
export function everySecond(call, seconds = 1) {
  setInterval(() => { if (document.visibilityState === 'visible') call(); }, seconds * 1000);
}

/* A question that must be said yes to. */
export function confirmed(question, detail, yes) {
  return new Promise(resolve => {
    const dialog = el('dialog', { ariaLabel: question });
    const answer = value => { dialog.close(); dialog.remove(); resolve(value); };
    const no = el('button', { type: 'button', onclick: () => answer(false) }, 'Keep it');
    dialog.append(text('h2', '', question), text('p', 'dim', detail), el('div', { className: 'actions' }, no,
      el('button', { type: 'button', className: 'danger', onclick: () => answer(true) }, yes)));
    dialog.addEventListener('cancel', () => answer(false));
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

/* Runs WORK with BUTTON off; what fails is said in SAY. */
export async function during(button, say, work) {
  button.disabled = true;
  say.textContent = '';
  try {
    return await work();
  } catch (error) {
    put(say, error.message);
    return undefined;
  } finally {
    button.disabled = false;
  }
}

/* A box for a message to the agent. SEND gets the text and may throw. */
export function composer({ label, hint, button, send }) {
  const say = el('p', { className: 'say', role: 'status' });
  const area = el('textarea', { id: 'message', rows: 2, maxLength: 50000, placeholder: hint });
  const go = el('button', { type: 'submit', className: 'primary' }, button);
  const title = el('label', { htmlFor: 'message' }, label);
  const form = el('form', { className: 'composer' }, title, area, go, say);

  form.addEventListener('submit', event => {
    event.preventDefault();
    const message = area.value.trim();
    if (!message || go.disabled) return;
    during(go, say, async () => {
      const node = await send(message);
      area.value = '';
      say.replaceChildren(node || 'Sent.');
    });
  });
  area.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return { form, set(newLabel, newButton, newHint) {
    if (title.textContent !== newLabel) title.textContent = newLabel;
    if (go.textContent !== newButton) go.textContent = newButton;
    if (area.placeholder !== newHint) area.placeholder = newHint;
  } };
}

export async function sendTo(path, message) {
  const reply = await ask(path, { method: 'POST', body: { message } });
  const said = { steered: 'The agent reads it at its next step.', queued: 'Queued as ', follow_up: 'Started ' }[reply.action];
  if (reply.action === 'steered') return el('span', {}, said);
  return el('span', {}, said, el('a', { href: reply.path }, 'a run of its own'), '.');
}
