// Reloads the notes when the server says that they have changed, in another window or through the API.
const path = document.querySelector('[data-live]')?.dataset.live;
let refreshed = Promise.resolve();
let isLeaving = false;
addEventListener('submit', () => (isLeaving = true)); // a form may lead to another page

function connect() {
  const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + path);
  const onChange = () => (refreshed = refreshed.then(refresh, refresh)); // in order: the latest stays
  // notes may change while there is no connection, and the connection closes when the login ends
  for (const event of ['message', 'open', 'close']) socket.addEventListener(event, onChange);
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
