/* signin.js: turns a one-time code (behind # in the address) or the token into this browser's cookie. */
const say = document.getElementById('say');
const again = 'sandbox-mcp-again';
const known = 'sandbox-mcp-base'; /* where the pages of a browser that was signed in lie */

async function signIn(body) {
  say.textContent = 'Signing in…';
  try {
    const answer = await fetch('/login', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    const reply = await answer.json();
    if (answer.ok) location.replace(reply.location);
    else say.textContent = 'Not signed in: ' + reply.error.message + '.';
  } catch {
    say.textContent = 'The supervisor does not answer. Is it running?';
  }
}

const code = location.hash.slice(1);
if (location.pathname === '/login' && code) {
  history.replaceState(null, '', '/login');
  signIn({ code });
} else if (location.pathname === '/' && /^(run|ses)_[0-9a-z]{26}$/.test(code) && localStorage.getItem(known)) {
  location.replace(localStorage.getItem(known) + (code.startsWith('run_') ? '/runs/' : '/sessions/') + code);
} else if (location.pathname.startsWith('/w/') && !sessionStorage.getItem(again)) {
  /* A link on another site brings no cookie along; asked for from here, the same page does. */
  sessionStorage.setItem(again, '1');
  location.replace(location.href);
} else {
  sessionStorage.removeItem(again);
}

document.getElementById('form')?.addEventListener('submit', event => {
  event.preventDefault();
  signIn({ token: document.getElementById('token').value });
});
