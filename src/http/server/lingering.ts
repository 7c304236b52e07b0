/**
 * Requests that have had their answer before they were whole: the rest of each is read for a while and thrown away, and then cut
 * off. A connection that is closed with bytes unread is reset, and the reset may overtake the answer (RFC 9112 §9.6).
 *
 *   answer sent -> rest of the body -> next request, or the end where the answer was the last of its connection
 */
import { connectionOf } from './connection.ts';
import { Deadlines } from '../deadlines.ts';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Connection } from './connection.ts';
import type { ReceivedMessage } from './fast-path/incoming.ts';

/** For how long the rest of a body that nobody wants is read, so that its sender gets to see the answer. */
const LINGER_MS = 5_000;

/** Those of one server. */
export class Lingering {
  readonly #deadlines: Deadlines;
  readonly #onOver: () => void;
  /** How many there are. */
  count = 0;

  /** `onOver` is called when one is over. */
  constructor(clock: Clock, onOver: () => void) {
    this.#deadlines = new Deadlines(LINGER_MS, clock);
    this.#onOver = onOver;
  }

  /** Its answer has been sent, and node:http has not heard of that yet: it would end the connection, if it is to end, at once. */
  begin(incoming: ReceivedMessage): void {
    const { socket } = incoming;
    const connection = connectionOf(socket);
    if (connection.closeSoon === undefined) watch(socket, connection);
    const wait = this.#deadlines.add(() => socket.destroy());
    connection.lingering = incoming;
    this.count++;
    incoming.on('close', () => {
      wait.end();
      if (connection.lingering === incoming) connection.lingering = undefined;
      this.count--;
      this.#onOver();
      if (connection.endsWithLingering && !socket.destroyed) socket.destroySoon();
    });
    incoming.letGo();
  }
}

/** Once for a connection: how it ends from now on, and that what lingers on it ends with it. */
function watch(socket: Socket, connection: Connection): void {
  connection.closeSoon = (socket.destroySoon as (() => void) | undefined) ?? socket.end; // streams that others hand to a server may have none
  socket.destroySoon = destroySoon;
  socket.on('close', loseRest);
}

/** What node:http calls behind the last answer. */
function destroySoon(this: Socket): void {
  const connection = connectionOf(this);
  if (connection.lingering === undefined) return connection.closeSoon!.call(this); // watch() has set it
  connection.endsWithLingering = true;
  this.end();
}

/** node:http does so for requests without an answer only: whoever still reads would wait for ever. */
function loseRest(this: Socket): void {
  connectionOf(this).lingering?.destroy();
}
