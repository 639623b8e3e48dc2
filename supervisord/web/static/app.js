/* app.js: finds out which page this is and hands over. Each page is a document of its own: tabs share nothing but the sign-in. */
import { ask, el, put, where } from './base.js';
import { showBoard } from './board.js';
import { showRun } from './run.js';
import { showSession, showSessions } from './session.js';
import { showAudit } from './audit.js';

const pages = [
  ['Board', '/', 'board'],
  ['Sessions', '/sessions', 'sessions'],
  ['Audit', '/audit', 'audit'],
];

function current() {
  const [first = '', second] = where.rest;
  if (first === 'runs' && second) return ['run', view => showRun(view, second)];
  if (first === 'sessions' && second) return ['sessions', view => showSession(view, second)];
  if (first === 'sessions') return ['sessions', showSessions];
  if (first === 'audit') return ['audit', showAudit];
  return ['board', showBoard];
}

const known = 'sandbox-mcp-base'; /* signin.js finds the way from it */

async function signOut() {
  await ask('/api/logout', { method: 'POST', body: {} });
  localStorage.removeItem(known);
  location.replace('/');
}

function showNav(name) {
  const nav = document.getElementById('nav');
  nav.append(el('span', { className: 'brand' }, 'sandbox-mcp'));
  if (where.token) return;
  document.body.append(el('footer', {}, el('button', { type: 'button', className: 'small quiet', onclick: signOut }, 'Sign out')));
  for (const [label, path, own] of pages)
    nav.append(el('a', { href: where.base + path, ...(own === name ? { ariaCurrent: 'page' } : {}) }, label));
}

/* Letters as in other programs of this kind: / to the filter or the message, g and a letter to a page. */
function watchKeys() {
  let went = 0;
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select')) return;
    if (event.key === 'g') {
      went = Date.now();
    } else if (Date.now() - went < 1500 && !where.token && { b: 1, s: 1, a: 1 }[event.key]) {
      location.href = where.base + { b: '/', s: '/sessions', a: '/audit' }[event.key];
    } else if (event.key === '/' && document.getElementById('message')) {
      event.preventDefault();
      document.getElementById('message').focus();
    }
  });
}

if (where.base) localStorage.setItem(known, where.base);
const [name, show] = current();
const view = document.getElementById('view');
showNav(name);
watchKeys();
try {
  await show(view);
} catch (error) {
  const message = el('p', { className: 'card bad', role: 'alert' });
  put(message, error.message);
  view.replaceChildren(message);
}
