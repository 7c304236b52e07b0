/**
 * Live updates of a new project: the WebSockets of one person, the page that opens one, and the test of the WebSockets.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** `src/live.ts`. */
export const LIVE: Template = () => `/**
 * Who looks at their notes at this moment: WebSockets, by person. A socket is let in by a session, and counts as long as its login.
 *
 *   a note is written → its answer goes out → a background task sends it to the room of its owner → every window shows it
 */
import { hash } from 'node:crypto';
import type { Clock, RoomSender, Socket } from 'svc';
import type { Note } from './notes.ts';

/** How often it is asked whether a login has ended elsewhere: in another process, or by its time. */
const CHECK_MS = 30_000;
/** RFC 6455 §7.4.1: a policy is in the way. */
const POLICY = 1008;

export class Live {
  readonly #rooms: RoomSender;
  readonly #clock: Clock;
  readonly #sockets = new Map<string, Set<Socket<unknown>>>();

  constructor(rooms: RoomSender, clock: Clock) {
    this.#rooms = rooms;
    this.#clock = clock;
  }

  /** Lets a socket hear of the notes of a person, until it closes, or \`isLoggedIn\` says no. Never rejects. */
  async follow(owner: string, socket: Socket<unknown>, signal: AbortSignal, isLoggedIn: () => Promise<boolean>): Promise<void> {
    const own = this.#sockets.get(owner) ?? new Set();
    this.#sockets.set(owner, own.add(socket));
    socket.join(roomOf(owner));
    try {
      while (await this.#clock.sleep(CHECK_MS, signal).then(isLoggedIn));
      socket.close(POLICY, 'logged out');
    } catch {
      socket.close(1011, 'try again'); // nobody could be asked; or it has closed, which is what ends the sleep
    } finally {
      own.delete(socket);
      if (own.size === 0) this.#sockets.delete(owner);
    }
  }

  /** Tells every window of a person. */
  tell(owner: string, note: Note): void {
    this.#rooms.broadcastJson(roomOf(owner), { note });
  }

  /** Ends the sockets that a person has in this process. */
  end(owner: string): void {
    for (const socket of this.#sockets.get(owner) ?? []) socket.close(POLICY, 'logged out');
  }
}

function roomOf(owner: string): string {
  return \`notes-\${hash('sha256', owner)}\`; // names of rooms have an end
}
`;

/** `src/live-page.ts`. */
export const LIVE_PAGE: Template = () => `/**
 * The page that shows notes as they are written, in whatever window or program: its script speaks with the WebSocket.
 */
import { documentOf, html } from './page.ts';
import type { HTMLResponse, HttpRequest } from 'svc';
import type { Person } from './people.ts';

/** When the connection is lost, it comes back: after half a second, then ever more slowly. Texts of people are set as text. */
const SCRIPT = \`
const [form, list, state, problem] = ['form', 'ol', '[role=status]', '[role=alert]'].map((selector) => document.querySelector(selector));
let socket;
let pauseMs = 500;

function connect() {
  socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/live/notes');
  socket.addEventListener('open', () => { pauseMs = 500; show('Connected'); });
  socket.addEventListener('message', ({ data }) => {
    const { note, problem: text = '' } = JSON.parse(data);
    problem.textContent = text;
    if (note !== undefined) add(note);
  });
  socket.addEventListener('close', ({ code }) => {
    if (code === 1008) { location.href = '/'; return; }
    show('Not connected: trying again');
    setTimeout(connect, pauseMs);
    pauseMs = Math.min(2 * pauseMs, 30_000);
  });
}

function show(text) {
  state.textContent = text;
  form.querySelector('button').disabled = socket.readyState !== WebSocket.OPEN;
}

function add({ text, createdAt }) {
  const [item, paragraph, time] = ['li', 'p', 'time'].map((name) => document.createElement(name));
  paragraph.textContent = text;
  time.textContent = new Date(createdAt).toLocaleTimeString();
  time.className = 'soft';
  item.append(paragraph, time);
  list.prepend(item);
  while (list.children.length > 100) list.lastChild.remove();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  socket.send(JSON.stringify({ text: form.elements.text.value.trim() }));
  form.reset();
});
connect();
\`;

export function livePage(req: HttpRequest, title: string, { name }: Person): HTMLResponse {
  return documentOf(req, \`\${title}, live\`, html\`<header>
<h1>\${title}, live</h1>
<p>Open this page in several windows: what \${name} writes in any of them, or by a program, is in all of them at once.</p>
</header>
<p role="status">Connecting</p>
<form>
<label for="text">New note</label>
<div class="row">
<input id="text" name="text" aria-describedby="problem" required maxlength="500" autocomplete="off">
<button disabled>Send</button>
</div>
<p id="problem" role="alert"></p>
</form>
<section>
<div class="bar"><h2>Since you came</h2></div>
<ol></ol>
</section>
<footer><p><a href="/">All notes</a></p></footer>\`, 200, SCRIPT);
}
`;

/** `test/live.test.ts`. */
export const LIVE_TEST: Template = () => `/**
 * How long sockets are let in, by a clock that stands still.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from 'svc/testing';
import { Live } from '../src/live.ts';
import type { RoomSender, Socket } from 'svc';

/** As much of a socket as it takes, and what became of it. */
function socketOf(): { readonly socket: Socket<unknown>; readonly ending: AbortController; readonly closes: unknown[] } {
  const ending = new AbortController();
  const closes: unknown[] = [];
  const socket = { join: () => undefined, close(...how: unknown[]) { closes.push(how); ending.abort(); } };
  return { socket: socket as unknown as Socket<unknown>, ending, closes };
}

const ROOMS: RoomSender = { broadcast: () => undefined, broadcastJson: () => undefined, count: () => 0 };

test('a socket is closed half a minute after its login has ended elsewhere', async () => {
  const clock = new ManualClock(0);
  const { socket, ending, closes } = socketOf();
  let isLoggedIn = true;
  const followed = new Live(ROOMS, clock).follow('dev:ada', socket, ending.signal, async () => isLoggedIn);
  await clock.advance(30_000);
  assert.deepEqual(closes, []);
  isLoggedIn = false;
  await clock.advance(30_000);
  await followed;
  assert.deepEqual(closes, [[1008, 'logged out']]);
});

test('a socket is closed when nobody can be asked, so that its page comes back', async () => {
  const clock = new ManualClock(0);
  const { socket, ending, closes } = socketOf();
  const followed = new Live(ROOMS, clock).follow('dev:ada', socket, ending.signal, () => Promise.reject(new Error('no database')));
  await clock.advance(30_000);
  await followed;
  assert.deepEqual(closes, [[1011, 'try again']]);
});

test('a socket that has closed is forgotten, and those that are left are ended by name', async () => {
  const live = new Live(ROOMS, new ManualClock(0));
  const [gone, left, other] = [socketOf(), socketOf(), socketOf()];
  const follow = (owner: string, { socket, ending }: typeof gone): Promise<void> => live.follow(owner, socket, ending.signal, async () => true);
  const followed = [follow('dev:ada', gone), follow('dev:ada', left), follow('dev:alan', other)];
  gone.ending.abort();
  await followed[0];
  live.end('dev:ada');
  await followed[1];
  assert.deepEqual([left.closes[0], other.closes], [[1008, 'logged out'], []]);
  live.end('dev:alan');
  await followed[2];
});
`;
