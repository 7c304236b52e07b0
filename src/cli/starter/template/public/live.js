// Loads the notes again whenever the server says that they have changed: in another window, or by a program.
const path = document.querySelector('[data-live]')?.dataset.live;
let pauseMs = 500;
let refreshed = Promise.resolve();

function connect() {
  const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + path);
  const onChange = () => (refreshed = refreshed.then(refresh, refresh)); // one after another, so that the latest stays
  socket.addEventListener('message', onChange);
  socket.addEventListener('open', () => {
    pauseMs = 500;
    onChange(); // the notes may have changed before
  });
  socket.addEventListener('close', () => {
    setTimeout(connect, pauseMs);
    pauseMs = Math.min(2 * pauseMs, 30_000);
  });
}

async function refresh() {
  const response = await fetch('/' + location.search);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const notes = page.querySelector('#notes');
  if (notes === null)
    location.href = '/'; // logged out
  else document.querySelector('#notes').replaceWith(notes);
}

if (path !== undefined) connect();
