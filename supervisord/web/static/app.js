/* app.js: shows one run. Everything that comes from the server is put in as text, and the number of nodes is bounded. */
'use strict';

(function () {
  const EVENTS_MAX = 400;
  const DIFF_LINES_MAX = 4000;
  const REFRESH_MS = 4000;

  const runId = location.pathname.split('/')[2] || '';
  const token = new URLSearchParams(location.search).get('token') || '';
  const api = '/api/runs/' + runId;
  let run = null;
  let clockOffset = 0;
  let dropped = 0;
  let source = null;
  let refreshing = false;
  let refreshAgain = false;

  function get(id) {
    return document.getElementById(id);
  }

  function text(id, value) {
    const node = get(id);
    const wanted = value || '';
    if (node.textContent !== wanted) node.textContent = wanted;
  }

  function show(id, visible) {
    get(id).hidden = !visible;
  }

  function duration(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return s + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' m ' + (s % 60) + ' s';
    return Math.floor(s / 3600) + ' h ' + (Math.floor(s / 60) % 60) + ' m';
  }

  function ask(path, options) {
    const all = Object.assign({ credentials: 'omit', cache: 'no-store', headers: { 'X-Token': token } }, options);
    return fetch(path, all);
  }

  /* Facts about the run ------------------------------------------------------------------------------------------ */

  const facts = [
    ['Repository', (r) => r.repository],
    ['Branch', (r) => r.branch],
    ['Agent', (r) => [r.agent, r.model].filter(Boolean).join(', ')],
    ['Run', (r) => r.runId],
    ['Session', (r) => r.sessionId],
    ['Created', (r) => new Date(r.createdAt).toLocaleString()],
    ['Model use', usage],
  ];

  function usage(r) {
    const u = r.usage;
    if (!u || (!u.inputTokens && !u.outputTokens)) return '';
    const cost = u.costUsd ? ', $' + u.costUsd.toFixed(4) : '';
    return u.inputTokens + ' tokens in, ' + u.outputTokens + ' out' + cost;
  }

  function showFacts() {
    const list = get('facts');
    const nodes = [];
    for (const [name, value] of facts) {
      const shown = value(run);
      if (!shown) continue;
      const dt = document.createElement('dt');
      const dd = document.createElement('dd');
      dt.textContent = name;
      dd.textContent = shown;
      nodes.push(dt, dd);
    }
    list.replaceChildren(...nodes);
  }

  const phases = {
    queue: 'waiting for a free place',
    sandbox: 'the sandbox is being made',
    clone: 'the repository is being cloned',
    agent: 'the agent is starting',
    prompt: 'the task is on its way to the agent',
    work: 'the agent is working',
    collect: 'the changes are being collected',
    stop: 'the sandbox is being stopped',
  };

  function whatNow() {
    if (run.ended) return run.verdict ? 'verdict: ' + run.verdict.replace(/_/g, ' ') : '';
    if (run.phase === 'work' && run.step) return run.step.slice(0, 300);
    return phases[run.phase] || run.phase;
  }

  function showElapsed() {
    if (!run) return;
    const from = run.startedAt || run.createdAt;
    const to = run.completedAt || Date.now() + clockOffset;
    text('elapsed', '· ' + duration(to - from));
  }

  function count(n, noun) {
    return n + ' ' + noun + (n === 1 ? '' : 's');
  }

  function changes(e) {
    if (!e) return '';
    let line = count(e.filesChanged, 'file') + ' changed (+' + e.insertions + ' −' + e.deletions + ')';
    if (e.untracked) line += ', ' + count(e.untracked, 'new file');
    if (e.commits) line += ', ' + count(e.commits, 'commit');
    if (e.branch) line += ' on ' + e.branch;
    if (e.refusedRequests) line += '; ' + count(e.refusedRequests, 'request') + ' refused';
    return line;
  }

  function showError() {
    const e = run.error;
    show('error', Boolean(e));
    if (!e) return;
    text('error-text', e.message || e.code);
    text('error-hint', e.hint ? 'What to do: ' + e.hint : '');
    show('error-hint', Boolean(e.hint));
    text('error-code', e.code + (e.phase ? ' in phase ' + e.phase : '') + (e.retryable ? ', trying again may help' : ''));
  }

  function showRequest() {
    const r = run.request;
    show('ask', Boolean(r));
    if (!r) return;
    text('ask-text', String(r.text || r.kind || ''));
    text('ask-command', 'sandboxctl answer ' + run.runId + ' ' + String(r.requestId || '') + ' ANSWER');
  }

  function showRun() {
    const title = run.title || run.task.split('\n')[0].slice(0, 120);
    const pill = get('status');
    clockOffset = run.now - Date.now();
    document.title = run.status + ': ' + title;
    text('title', title);
    text('status', run.status);
    pill.className = 'pill ' + run.status;
    text('now', whatNow());
    text('task', run.task);
    show('cancel', !run.ended);
    show('result', run.ended && Boolean(run.output || run.evidence));
    text('output', run.output);
    text('changes', changes(run.evidence));
    show('diff-card', run.ended && Boolean(run.evidence));
    showError();
    showRequest();
    showFacts();
    showElapsed();
  }

  function lost(message) {
    text('lost', message);
    show('lost', Boolean(message));
  }

  async function refresh() {
    if (refreshing) {
      refreshAgain = true;
      return;
    }
    refreshing = true;
    try {
      const answer = await ask(api);
      if (answer.status === 403) {
        lost('This link is not valid, or its run is gone.');
        text('status', 'unknown');
        stopEvents();
        return;
      }
      if (!answer.ok) throw new Error('status ' + answer.status);
      run = await answer.json();
      lost('');
      showRun();
    } catch (error) {
      lost('The supervisor does not answer. The page goes on when it is back.');
    } finally {
      refreshing = false;
      if (refreshAgain) {
        refreshAgain = false;
        refresh();
      }
    }
  }

  /* Events --------------------------------------------------------------------------------------------------------- */

  function span(className, value) {
    const node = document.createElement('span');
    node.className = className;
    node.textContent = value;
    return node;
  }

  function addEvent(event) {
    const list = get('events');
    const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
    const item = document.createElement('li');
    const time = document.createElement('time');
    item.className = 'k-' + (/^[a-z]+$/.test(event.kind) ? event.kind : 'log');
    time.textContent = new Date(event.time).toLocaleTimeString([], { hour12: false });
    item.append(time, span('kind', event.kind), span('text', String(event.text).slice(0, 4000)));
    list.append(item);
    while (list.childElementCount > EVENTS_MAX) {
      list.firstElementChild.remove();
      dropped++;
    }
    if (dropped) {
      text('dropped', dropped + ' earlier events are not shown; sandboxctl logs shows all.');
      show('dropped', true);
    }
    if (atEnd) list.scrollTop = list.scrollHeight;
  }

  function stopEvents() {
    if (source) source.close();
    source = null;
  }

  function startEvents() {
    source = new EventSource(api + '/events?after=0&token=' + encodeURIComponent(token));
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      addEvent(event);
      if (event.kind === 'state' || event.kind === 'question' || event.kind === 'permission') refresh();
    };
    source.addEventListener('end', () => {
      stopEvents();
      refresh();
    });
    source.onopen = () => refresh();
  }

  /* Diff ----------------------------------------------------------------------------------------------------------- */

  function lineClass(line) {
    if (line.startsWith('diff --git ')) return 'head';
    if (line.startsWith('@@')) return 'hunk';
    if (line.startsWith('+') && !line.startsWith('+++')) return 'add';
    if (line.startsWith('-') && !line.startsWith('---')) return 'del';
    return '';
  }

  async function showDiff() {
    const button = get('diff-show');
    const pre = get('diff');
    button.disabled = true;
    try {
      const answer = await ask(api + '/diff');
      if (!answer.ok) throw new Error('status ' + answer.status);
      const lines = (await answer.text()).replace(/\n$/, '').split('\n');
      const nodes = lines.slice(0, DIFF_LINES_MAX).map((line) => span(lineClass(line), line));
      if (lines.length > DIFF_LINES_MAX) {
        nodes.push(span('hunk', '… ' + (lines.length - DIFF_LINES_MAX) + ' more lines; sandboxctl diff shows all.'));
      }
      if (lines.length === 1 && lines[0] === '') nodes.splice(0, nodes.length, span('hunk', 'No changes.'));
      pre.replaceChildren(...nodes);
      pre.hidden = false;
      button.hidden = true;
    } catch (error) {
      button.disabled = false;
      button.textContent = 'Try again';
    }
  }

  /* Cancel --------------------------------------------------------------------------------------------------------- */

  let armed = 0;

  async function cancel() {
    const button = get('cancel');
    if (!armed) {
      button.textContent = 'Really cancel?';
      armed = setTimeout(() => {
        armed = 0;
        button.textContent = 'Cancel run';
      }, 4000);
      return;
    }
    clearTimeout(armed);
    armed = 0;
    button.disabled = true;
    button.textContent = 'Cancelling…';
    try {
      const answer = await ask(api + '/cancel', { method: 'POST' });
      if (!answer.ok) throw new Error('status ' + answer.status);
    } catch (error) {
      button.disabled = false;
      button.textContent = 'Cancel run';
      lost('The run could not be cancelled: ' + error.message);
    }
    refresh();
  }

  get('cancel').addEventListener('click', cancel);
  get('diff-show').addEventListener('click', showDiff);
  setInterval(showElapsed, 1000);
  setInterval(() => {
    if (run && !run.ended && document.visibilityState === 'visible') refresh();
  }, REFRESH_MS);
  refresh();
  startEvents();
})();
