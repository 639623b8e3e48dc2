/* diff.js: a unified diff as files, hunks and coloured lines. Files are laid out when they are opened. */
import { changeCount, count, el, put, text } from './base.js';
import { languageOf, putCode } from './highlight.js';

const OPEN_LINES = 3000; /* so many lines are open at first */
const STEP_LINES = 1500; /* so many lines of one file at once */
const LONG_LINE = 4000;

/* The text's files: {lines}, as git wrote them. */
function split(diff) {
  const files = [];
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    if (line.startsWith('diff --git ') || files.length === 0) files.push([]);
    files.at(-1).push(line);
  }
  return files;
}

function lineNode(line, language, at) {
  const first = line[0];
  const kind = first === '+' ? 'add' : first === '-' ? 'del' : first === '\\' ? 'note' : '';
  const old = kind === 'add' || kind === 'note' ? '' : String(at.old++);
  const fresh = kind === 'del' || kind === 'note' ? '' : String(at.fresh++);
  const code = el('code', {});
  if (kind === 'note') {
    put(code, line);
  } else {
    code.append(el('span', { className: 'm' }, first || ''));
    putCode(code, line.slice(1, LONG_LINE), language);
    if (line.length > LONG_LINE) code.append(el('span', { className: 'cut' }, ' … ' + (line.length - LONG_LINE) + ' more characters'));
  }
  return el('div', { className: 'l ' + kind }, el('span', { className: 'no', ariaHidden: 'true' }, old), el('span', { className: 'no', ariaHidden: 'true' }, fresh), code);
}

/* Lays LINES out in NODE from index FROM on, a step at a time. */
function layOut(node, lines, language) {
  const at = { old: 0, fresh: 0, inHunk: false };
  let from = 0;
  const step = () => {
    const nodes = [];
    for (const end = Math.min(lines.length, from + STEP_LINES); from < end; from++) {
      const line = lines[from];
      const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
      if (hunk) {
        Object.assign(at, { old: Number(hunk[1]), fresh: Number(hunk[2]), inHunk: true });
        nodes.push(el('div', { className: 'l hunk' }, text('code', '', line)));
      } else if (!at.inHunk) {
        nodes.push(el('div', { className: 'l meta' }, text('code', '', line)));
      } else {
        nodes.push(lineNode(line, language, at));
      }
    }
    node.append(...nodes);
    if (from === lines.length) return;
    const more = el('button', { type: 'button', className: 'small', onclick: () => { more.remove(); step(); } },
      'Show ' + Math.min(STEP_LINES, lines.length - from) + ' more lines of ' + (lines.length - from));
    node.append(more);
  };
  step();
}

function fileNode(file, lines, id, open) {
  const body = el('div', { className: 'code', tabIndex: 0, role: 'region', ariaLabel: 'Changes in ' + file.path });
  const node = el('details', { className: 'file', id }, el('summary', {}, put(el('span', { className: 'path' }), file.path), ' ',
    file.status && file.status !== 'modified' ? el('span', { className: 'tag' }, file.status) : '', changeCount(file.insertions, file.deletions)), body);
  node.addEventListener('toggle', () => {
    if (node.open && !body.childElementCount) layOut(body, lines, languageOf(file.path));
  });
  node.open = open;
  if (open) layOut(body, lines, languageOf(file.path));
  return node;
}

/* REPLY: {files,diff,truncated}. PATCH: where the whole is had as a file. */
export function showDiff(view, reply, patch) {
  const parts = reply.diff.trim() ? split(reply.diff) : [];
  const list = el('ol', { className: 'files' });
  let lines = 0;

  if (!reply.files.length && !parts.length) {
    view.replaceChildren(el('p', { className: 'empty' }, 'Nothing was changed.'));
    return;
  }
  const nodes = reply.files.map((file, index) => {
    const own = parts[index] || [];
    const open = lines < OPEN_LINES && own.length < STEP_LINES;
    lines += own.length;
    const id = 'file-' + index;
    list.append(el('li', {}, put(el('a', { href: '#' + id, onclick: () => { document.getElementById(id).open = true; } }), file.path), changeCount(file.insertions, file.deletions)));
    return fileNode(file, own, id, open);
  });
  const sum = reply.files.reduce((all, file) => [all[0] + file.insertions, all[1] + file.deletions], [0, 0]);
  view.replaceChildren(
    el('div', { className: 'head tight' }, el('p', {}, count(reply.files.length, 'file') + ' changed ', changeCount(...sum)),
      el('a', { className: 'button', href: patch, download: '' }, 'Download patch')),
    reply.files.length > 1 ? el('details', { className: 'toc', open: reply.files.length <= 30 }, el('summary', {}, 'Files'), list) : '',
    reply.truncated ? el('p', { className: 'card note' }, 'This is the first part of a large diff. The patch has more of it.') : '',
    ...nodes);
}
