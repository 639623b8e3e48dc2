/* audit.js: what the proxy let through and refused. */
import { ask, count, cut, duration, el, moment, put, runPath, size, text, when, words } from './base.js';

// What the supervisor asked by itself, for the doctor or a pull request, belongs to no run.
const runOf = one => one.runId ? el('a', { href: runPath(one.runId), title: one.runId }, 'run …' + one.runId.slice(-5)) : text('span', 'dim', 'none');

function record(one, { withRun }) {
  const where = put(el('td', { className: 'what' }), one.method + ' ');
  put(where.appendChild(el('span', { className: 'mono' })), cut((one.service ? one.service + ' ' : '') + (one.host || '') + (one.path || ''), 300));
  if (one.reason && one.verdict !== 'allow') where.append(text('span', 'reason', words(one.reason)));
  if (one.detail) where.append(text('span', 'dim', one.detail));
  return el('tr', { className: one.verdict === 'allow' ? '' : 'refused' },
    el('td', {}, el('time', { title: moment(one.time), dateTime: new Date(one.time).toISOString() }, when(one.time))),
    el('td', {}, el('span', { className: 'verdict ' + (one.verdict === 'allow' ? 'ok' : 'no') }, { allow: 'allowed', deny: 'refused', error: 'failed' }[one.verdict] || '')),
    where,
    text('td', 'num', one.status || ''),
    el('td', { className: 'num' }, size((one.requestBytes || 0) + (one.responseBytes || 0))),
    el('td', { className: 'num' }, one.milliseconds >= 1000 ? duration(one.milliseconds) : one.milliseconds + ' ms'),
    withRun ? el('td', {}, runOf(one)) : null);
}

/* A table that is read page by page; PATH answers {records,hasMore,cursor}. */
export function auditTable(path, { withRun = true } = {}) {
  const body = el('tbody');
  const more = el('button', { type: 'button', hidden: true }, 'Show earlier requests');
  const empty = el('p', { className: 'empty', role: 'status', hidden: true });
  const heads = ['Time', 'Verdict', 'Request', 'Status', 'Bytes', 'Took', ...(withRun ? ['Run'] : [])];
  const only = el('input', { type: 'checkbox', id: 'only' });
  const table = el('table', { className: 'audit' }, el('thead', {}, el('tr', {}, ...heads.map(head => el('th', { scope: 'col', className: ['Status', 'Bytes', 'Took'].includes(head) ? 'num' : '' }, head)))), body);
  const node = el('div', {}, el('p', { className: 'tools' }, only, el('label', { htmlFor: 'only' }, 'Only what was refused or failed')), empty,
    el('div', { className: 'wide', tabIndex: 0, role: 'region', ariaLabel: 'Requests' }, table), el('div', { className: 'actions more' }, more));
  let cursor = 0;

  async function load() {
    const reply = await ask(path + '?limit=100' + (cursor ? '&before=' + cursor : ''));
    body.append(...reply.records.map(one => record(one, { withRun })));
    cursor = reply.cursor;
    more.hidden = !reply.hasMore;
    sayEmpty();
  }

  function sayEmpty() {
    const refused = body.querySelectorAll('.refused').length;
    empty.hidden = only.checked ? refused > 0 : body.childElementCount > 0;
    empty.textContent = !body.childElementCount ? 'No request has gone through the proxy.'
      : 'None of the ' + count(body.childElementCount, 'request') + ' shown here was refused or has failed.';
  }

  only.addEventListener('change', () => {
    table.classList.toggle('only-refused', only.checked);
    sayEmpty();
  });
  more.addEventListener('click', load);
  return { node, load, async again() { cursor = 0; body.replaceChildren(); await load(); } };
}

export async function showAudit(view) {
  const table = auditTable('/api/audit');
  document.title = 'Audit · sandbox-mcp';
  view.replaceChildren(el('h1', {}, 'Audit'), el('p', { className: 'dim lead' }, 'Every request of a sandbox that went to the proxy, newest first.'), table.node);
  await table.load();
}
