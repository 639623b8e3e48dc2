/* session.js: sessions; and one with its runs, its changes since it began, and its end. */
import { age, ask, composer, confirmed, count, during, el, follow, moment, now, put, sendTo, sessionPath, setNow, shortRepository, text, where } from './base.js';
import { Rows, isOver } from './board.js';
import { showDiff } from './diff.js';

export async function showSessions(view) {
  const list = el('ol', { className: 'rows' });
  const more = el('button', { type: 'button', hidden: true }, 'Show earlier sessions');
  const empty = el('p', { className: 'empty', hidden: true }, 'No sessions yet.');
  let cursor = '';

  function row(session) {
    const places = session.repositories.map(place => shortRepository(place.repository)).join(', ');
    return el('li', { className: 'row' }, el('div', { className: 'row-body' },
      put(el('a', { className: 'title', href: sessionPath(session.sessionId) }), session.title || places || session.sessionId),
      text('p', 'under', [places || 'no repository', session.branch, count(session.runs, 'run')].filter(Boolean).join(' · '))),
    el('div', { className: 'row-numbers' }, el('span', { className: 'time', title: moment(session.updatedAt) }, age(now() - session.updatedAt))));
  }

  async function load() {
    const reply = await ask('/api/sessions?limit=50' + (cursor ? '&before=' + cursor : ''));
    list.append(...reply.sessions.map(row));
    cursor = reply.cursor;
    more.hidden = !reply.hasMore;
    empty.hidden = list.childElementCount > 0;
  }

  document.title = 'Sessions · sandbox-mcp';
  more.addEventListener('click', load);
  view.replaceChildren(el('h1', {}, 'Sessions'), el('p', { className: 'dim lead' }, 'A workspace and a conversation each, which their runs share. The newest first.'), empty, list, el('div', { className: 'actions more' }, more));
  await load();
}

export async function showSession(view, id) {
  const rows = new Rows({ withRepository: false });
  const say = el('p', { className: 'say', role: 'status' });
  const changes = el('div');
  const remove = el('button', { type: 'button', className: 'danger quiet' }, 'Delete session');
  const box = composer({ label: 'Follow up', button: 'Send', hint: 'The next thing to do in this session',
    send: message => sendTo('/api/sessions/' + id + '/send', message) });

  async function load() {
    const reply = await ask('/api/sessions/' + id);
    setNow(reply.now);
    reply.runs.forEach(item => rows.set(item));
    return reply;
  }

  async function loadChanges() {
    try {
      showDiff(changes, await ask('/api/sessions/' + id + '/diff'), where.base + '/api/sessions/' + id + '/patch');
    } catch (error) {
      changes.replaceChildren(text('p', 'empty', error.status === 404 ? 'No run of it has ended yet.' : error.message));
    }
  }

  const first = await load();
  const session = first.session;
  const title = session.title || shortRepository(session.repository) || 'Session';
  document.title = title + ' · sandbox-mcp';
  view.replaceChildren(
    el('div', { className: 'head' }, text('h1', '', title), el('div', { className: 'actions' }, say, remove)),
    text('p', 'dim lead', [session.repository || 'no repository', session.branch, 'began ' + moment(session.createdAt)].filter(Boolean).join(' · ')),
    box.form,
    el('h2', {}, 'Runs'), rows.node,
    el('h2', {}, 'Changed since it began'), changes);
  await loadChanges();

  remove.addEventListener('click', async () => {
    if (!await confirmed('Delete this session?', 'Its workspace, runs, events and diffs are gone then; what was pushed and the audit stay.', 'Delete'))
      return;
    const done = await during(remove, say, () => ask('/api/sessions/' + id + '/delete', { method: 'POST', body: {} }));
    if (done) location.replace(where.base + '/');
  });
  follow('/api/feed', first.feed, {
    run: item => {
      if (item.run.sessionId !== id) return;
      const was = rows.rows.get(item.run.runId)?.item.run.status;
      rows.set(item);
      if (isOver(item.run.status) && was !== item.run.status) loadChanges();
    },
    gone: ({ sessionId }) => {
      if (sessionId === id) view.replaceChildren(el('p', { className: 'card' }, 'This session was deleted.'));
    },
    reset: load,
  });
}
