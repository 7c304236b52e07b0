// Reloads the notes when the server says that they have changed, in another window or through the API.
const path = document.querySelector('[data-live]')?.dataset.live;
let refreshed = Promise.resolve();
let isLeaving = false;
// a form may lead to another page, for example the login
addEventListener('submit', () => (isLeaving = true));

function connect() {
  const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + path);
  // one reload after the other, so that the latest result stays
  const onChange = () => (refreshed = refreshed.then(refresh, refresh));
  socket.addEventListener('message', onChange);
  socket.addEventListener('open', onChange); // the notes may have changed while there was no connection
  socket.addEventListener('close', () => setTimeout(connect, 1_000 + 4_000 * Math.random()));
}

async function refresh() {
  const response = await fetch('/' + location.search);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const notes = page.querySelector('#notes');
  if (notes !== null) document.querySelector('#notes').replaceWith(notes);
  else if (!isLeaving) location.href = '/'; // no notes: the user has logged out in another window
}

if (path !== undefined) connect();
