/* run.js: one run: what it does, what it asks, what it changed, what it reached. */
import { ask, changeCount, clock, composer, confirmed, count, cut, duration, during, el, everySecond, fill, follow, moment, money, now, pill, put,
  sayLink, sendTo, sessionPath, setNow, shortRepository, text, titleOf, tokens, where, withoutColours, words, addressOf } from './base.js';
import { Activity } from './activity.js';
import { auditTable } from './audit.js';
import { phaseWords } from './board.js';
import { showDiff } from './diff.js';

/* Questions ------------------------------------------------------------------------------------------------------ */

const permissionWords = { once: 'Allow once', always: 'Always allow', reject: 'Refuse' };

function optionButtons(options, answer, named) {
  return el('div', { className: 'actions answers' }, ...options.map((option, index) =>
    put(el('button', { type: 'button', className: index === 0 && option in named ? 'primary' : option === 'reject' ? 'danger' : '', onclick: event => answer(option, event.currentTarget) }), named[option] || option)));
}

function freeForm(label, button, answer) {
  const input = el('input', { type: 'text', id: 'own-answer', maxLength: 20000, autocomplete: 'off' });
  const form = el('form', { className: 'own' }, el('label', { htmlFor: 'own-answer' }, label), input, el('button', { type: 'submit' }, button));
  form.addEventListener('submit', event => {
    event.preventDefault();
    if (input.value.trim()) answer(input.value.trim(), form.querySelector('button'));
  });
  return form;
}

/* Several questions are answered together, a line each. */
function manyForm(questions, answer) {
  const form = el('form', { className: 'many' });
  questions.forEach((question, index) => {
    const name = 'question-' + index;
    const field = el('fieldset', {}, text('legend', 'prose', question.question));
    (Array.isArray(question.options) ? question.options.map(String) : []).forEach((option, at) => {
      const id = name + '-' + at;
      field.append(el('div', {}, el('input', { type: 'radio', name, id, value: option }), put(el('label', { htmlFor: id }), option)));
    });
    field.append(el('label', { htmlFor: name + '-own' }, 'Or in your words'), el('input', { type: 'text', id: name + '-own', autocomplete: 'off' }));
    form.append(field);
  });
  form.append(el('div', { className: 'actions' }, el('button', { type: 'submit', className: 'primary' }, 'Answer')));
  form.addEventListener('submit', event => {
    event.preventDefault();
    const lines = questions.map((question, index) => document.getElementById('question-' + index + '-own').value.trim() ||
      form.querySelector('[name="question-' + index + '"]:checked')?.value || '');
    if (lines.every(Boolean)) answer(lines.map(one => one.replace(/\s+/g, ' ')).join('\n'), form.querySelector('button'));
  });
  return form;
}

function questionCard(request, answer, say) {
  const options = Array.isArray(request.options) ? request.options.map(String) : [];
  const questions = Array.isArray(request.questions) ? request.questions : [];
  const permission = request.kind === 'permission';
  const title = permission ? 'The agent asks for permission' : 'The agent asks';
  const nodes = [el('h2', {}, title)];
  if (questions.length > 1) {
    nodes.push(manyForm(questions, answer));
  } else {
    nodes.push(permission ? text('pre', 'asked', request.text) : text('div', 'prose asked', request.text));
    if (options.length) nodes.push(optionButtons(options, answer, permission ? permissionWords : {}));
    nodes.push(permission ? freeForm('Refuse, and say why', 'Refuse', (why, button) => answer('reject: ' + why, button)) : freeForm('Or in your words', 'Answer', answer));
  }
  if (request.answerBy) nodes.push(el('p', { className: 'dim' }, 'It waits for an answer until ' + clock(request.answerBy) + '.'));
  nodes.push(say);
  return nodes;
}

/* Facts ---------------------------------------------------------------------------------------------------------- */

function facts(list) {
  const node = el('dl');
  for (const [name, value] of list)
    if (value) node.append(el('dt', {}, name), value instanceof Node ? el('dd', {}, value) : text('dd', '', value));
  return node;
}

function layers(isolation) {
  const names = isolation.split(', ');
  return el('details', {}, el('summary', {}, count(names.length, 'layer')), text('span', 'dim', names.join(', ')));
}

const budgetWords = budget => budget && [budget.tokenLimit && tokens(budget.tokens) + ' of ' + tokens(budget.tokenLimit) + ' tokens',
  budget.limitUsd && (money(budget.costUsd) || '$0') + ' of ' + money(budget.limitUsd)].filter(Boolean).join(' · ');

function usageWords(usage) {
  if (!usage?.requests) return '';
  const cached = usage.cacheReadTokens ? ', ' + tokens(usage.cacheReadTokens) + ' from cache' : '';
  return [money(usage.costUsd), tokens(usage.inputTokens) + ' in' + cached + ', ' + tokens(usage.outputTokens) + ' out', count(usage.requests, 'request') +
    (usage.failedRequests ? ' (' + usage.failedRequests + ' failed)' : '')].filter(Boolean).join(' · ');
}

function evidenceNodes(run) {
  const e = run.evidence;
  if (!e) return [];
  const list = [['Verdict', words(run.verdict)]];
  if (e.known) {
    list.push(['Changes', !e.filesChanged && !e.untracked ? 'none' : el('span', {}, count(e.filesChanged, 'file') + ' ', changeCount(e.insertions, e.deletions), e.untracked ? ', ' + e.untracked + ' new' : '')]);
    list.push(['Commits', e.commits ? e.commits + (e.branch ? ' on ' + e.branch : '') : 'none']);
    list.push(['Head', e.headCommit ? e.headCommit.slice(0, 12) : '']);
  } else {
    list.push(['Changes', 'could not be established']);
  }
  list.push(['Model ended', e.finishReason && words(e.finishReason)]);
  list.push(['Refused', e.refusedRequests ? count(e.refusedRequests, 'request') : '']);
  list.push(['Left running', e.leftRunning?.join('\n')]);
  return [el('h2', {}, 'Evidence'), facts(list)];
}

const todoMarks = { completed: '✓', in_progress: '▸', cancelled: '–' };

function todoNodes(todos) {
  const done = todos.filter(todo => todo.status === 'completed').length;
  return [el('h2', {}, 'Plan ', el('span', { className: 'dim' }, done + ' of ' + todos.length)), el('ul', { className: 'todos' }, ...todos.map(todo =>
    el('li', { className: /^[a-z_]+$/.test(todo.status) ? todo.status : '' }, el('span', { className: 'mark', ariaHidden: 'true' }, todoMarks[todo.status] || '·'),
      el('span', { className: 'hidden' }, words(todo.status) + ': '), text('span', '', cut(todo.content, 400)))))];
}

/* Tabs ----------------------------------------------------------------------------------------------------------- */

function tabs(list) {
  const bar = el('div', { className: 'tabs', role: 'tablist', ariaLabel: 'About this run' });
  const panels = el('div');
  const choose = index => {
    [...bar.children].forEach((tab, at) => {
      tab.ariaSelected = String(at === index);
      tab.tabIndex = at === index ? 0 : -1;
      panels.children[at].hidden = at !== index;
    });
    list[index].open?.();
  };
  list.forEach((tab, index) => {
    const id = 'tab-' + index;
    const button = el('button', { type: 'button', role: 'tab', id, onclick: () => choose(index) }, tab.name, tab.badge || '');
    button.setAttribute('aria-controls', 'panel-' + index);
    bar.append(button);
    panels.append(el('section', { role: 'tabpanel', id: 'panel-' + index, 'aria-labelledby': id }, tab.node));
  });
  bar.addEventListener('keydown', event => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const at = ([...bar.children].indexOf(document.activeElement) + move + list.length) % list.length;
    choose(at);
    bar.children[at].focus();
  });
  choose(0);
  return { bar, panels, choose };
}

/* An agent's own pages are shown under names that stand for the machine on which the browser runs. */
const shownHere = !where.token && ['127.0.0.1', 'localhost', '[::1]'].includes(location.hostname);

/* The page ------------------------------------------------------------------------------------------------------- */

export async function showRun(view, id) {
  const path = '/api/runs/' + id;
  const activity = new Activity();
  const changes = el('div', {}, el('p', { className: 'empty' }, 'The changes are collected when the run ends.'));
  const network = auditTable(path + '/audit', { withRun: false });
  const badge = el('span', { className: 'badge' });
  const answerSay = el('p', { className: 'say', role: 'status' });
  const actionSay = el('p', { className: 'say', role: 'status' });
  const parts = Object.fromEntries(['where', 'title', 'state', 'question', 'error', 'result', 'todos', 'facts', 'evidence', 'task'].map(name => [name, el('div', { className: 'part ' + name })]));
  const nowLine = el('span', { className: 'now' });
  const elapsed = el('span', { className: 'num' });
  const own = el('a', { className: 'button', target: '_blank', rel: 'noopener', hidden: true, href: where.base + '/runs/' + id + '/agent' }, 'Open in OpenCode');
  const cancel = el('button', { type: 'button', className: 'danger quiet', hidden: true }, 'Cancel run');
  const box = composer({ label: 'Say something to the agent', button: 'Send', hint: '', send: message => sendTo(path + '/send', message) });
  const tab = tabs([
    { name: 'Activity', node: activity.node },
    { name: 'Changes', node: changes, badge },
    { name: 'Network', node: network.node, open: () => network.again() },
  ]);
  let run = null;
  let stream = null;
  let diffShown = false;

  parts.question.setAttribute('role', 'region');
  parts.question.setAttribute('aria-live', 'polite');
  parts.question.setAttribute('aria-label', 'Question');
  view.replaceChildren(parts.where, el('div', { className: 'head' }, parts.title, el('div', { className: 'actions' }, actionSay, own, cancel)),
    el('p', { className: 'status' }, parts.state, nowLine, elapsed), parts.question, parts.error,
    el('div', { className: 'columns' }, el('div', { className: 'main' }, parts.result, box.form, tab.bar, tab.panels),
      el('aside', { ariaLabel: 'About the run' }, parts.todos, parts.evidence, parts.facts, parts.task)));

  async function answer(value, button) {
    const requestId = run.request?.requestId;
    if (await during(button, answerSay, () => ask(path + '/answer', { method: 'POST', body: { requestId, answer: value } })))
      parts.question.replaceChildren(el('p', { className: 'card', role: 'status' }, 'Answered. The run goes on.'));
  }

  cancel.addEventListener('click', async () => {
    if (await confirmed('Cancel this run?', 'Its sandbox ends. What it changed is kept.', 'Cancel run'))
      await during(cancel, actionSay, () => ask(path + '/cancel', { method: 'POST', body: {} }));
  });

  async function loadChanges() {
    if (diffShown) return;
    diffShown = true;
    try {
      showDiff(changes, await ask(path + '/diff'), addressOf(path + '/patch'));
    } catch (error) {
      diffShown = false;
      changes.replaceChildren(text('p', 'empty', error.message));
    }
  }

  function showQuestion(request) {
    fill(parts.question, request?.requestId || '', () => {
      if (!request) return [];
      answerSay.textContent = '';
      return el('section', { className: 'card ask' }, ...questionCard(request, answer, answerSay));
    });
  }

  function showError(error) {
    fill(parts.error, error || '', () => error && el('section', { className: 'card bad' }, el('h2', {}, 'What went wrong'), text('p', 'prose', error.message || error.code),
      error.hint ? text('p', 'prose hint', error.hint) : '', text('p', 'dim', words(error.code) + (error.phase ? ' in phase ' + error.phase : '') +
        (error.retryable ? ' · trying again may help' : ''))));
  }

  function showTime() {
    if (!run) return;
    const to = run.completedAt || now();
    const said = '· ' + duration(to - (run.startedAt || run.createdAt));
    if (elapsed.textContent !== said) elapsed.textContent = said;
  }

  function whatNow(reply) {
    if (reply.ended) return 'ended ' + moment(run.completedAt || run.createdAt);
    if (run.retrying) return 'the model failed ' + count(run.retrying.failures || 1, 'time') + ', trying again: ' + cut(run.retrying.message, 200);
    if (run.status === 'waiting') return 'waits for your answer';
    return run.phase === 'work' && reply.step ? reply.step : phaseWords(run.phase);
  }

  function show(reply) {
    run = reply.run;
    setNow(reply.now);
    document.title = (run.status === 'waiting' ? '(!) ' : '') + run.status + ' · ' + titleOf(run);
    fill(parts.where, run.sessionId, () => el('p', { className: 'crumbs' }, where.token ? '' : el('a', { href: where.base + '/' }, 'Board'), where.token ? '' : ' / ',
      where.token ? text('span', '', 'Session') : el('a', { href: sessionPath(run.sessionId) }, 'Session'), ' / ', text('span', 'mono', run.runId)));
    fill(parts.title, titleOf(run), () => text('h1', '', titleOf(run)));
    fill(parts.state, run.status, () => pill(run.status));
    fill(nowLine, whatNow(reply), () => text('span', '', cut(withoutColours(whatNow(reply)).replace(/\s+/g, ' '), 300)));
    showTime();
    cancel.hidden = reply.ended;
    own.hidden = !reply.agentPages || !shownHere;
    activity.live = !reply.ended;
    showQuestion(reply.ended ? null : run.request);
    showError(run.result?.error);
    fill(parts.result, [run.result?.output], () => run.result?.output && el('section', { className: 'card' }, el('h2', {}, 'Answer'), text('div', 'prose answer', withoutColours(run.result.output))));
    fill(parts.evidence, [run.evidence, run.verdict], () => evidenceNodes(run));
    fill(parts.facts, [run.repository, run.branch, run.model, run.agent, run.usage, run.isolation, run.deadlineAt], () => [el('h2', {}, 'Facts'), facts([
      ['Repository', run.repository && el('span', { title: run.repository }, put(el('span'), shortRepository(run.repository)))], ['Branch', run.branch], ['Model', run.model], ['Agent', run.agent],
      ['Used', usageWords(run.usage)], ['Budget', budgetWords(run.usage?.budget)], ['Created', moment(run.createdAt)], ['Deadline', run.deadlineAt && moment(run.deadlineAt)], ['Isolation', run.isolation && layers(run.isolation)]])]);
    fill(parts.task, run.task, () => el('details', { className: 'task-box', open: run.task.length < 600 }, el('summary', {}, 'Task'), text('div', 'prose', run.task)));
    if (reply.ended) box.set('Follow up', 'Send', 'The next thing to do in this session');
    else box.set('Say something to the agent', 'Send', 'It reads this at its next step');
    if (reply.ended) {
      fill(badge, run.evidence?.filesChanged || 0, () => (run.evidence?.filesChanged ? el('span', {}, String(run.evidence.filesChanged)) : []));
      loadChanges();
    }
  }

  function onEvent(event, number) {
    activity.add(event);
    if (event.kind === 'todo' && Array.isArray(event.data?.todos)) fill(parts.todos, event.data.todos, () => todoNodes(event.data.todos));
    void number;
  }

  try {
    show(await ask(path));
  } catch (error) {
    view.replaceChildren(el('p', { className: 'card bad', role: 'alert' }, error.status === 403 || error.status === 404 ? 'This link is not valid, or its run is gone.' : error.message));
    return;
  }
  everySecond(showTime);
  stream = follow(path + '/events', '0', {
    message: onEvent,
    run: show,
    end: () => { stream.stop(); sayLink('over'); },
  });
}
