/**
 * Sends requests through in-memory streams into a real http.Server: no kernel and no client, only JavaScript
 * and the parser.
 */
import { Duplex } from 'node:stream';
import type { Server } from 'node:http';

/** A connection without a socket of the kernel. */
class FakeSocket extends Duplex {
  bytes = 0;
  first = '';
  was = 0;
  readonly remoteAddress = '127.0.0.1';

  constructor() {
    super({ allowHalfOpen: true });
  }

  override _read(): void {
    /* the test pushes the data */
  }

  #take(chunk: Buffer): void {
    if (this.first.length < 1_000) this.first += chunk.toString('latin1');
    this.bytes += chunk.length;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#take(chunk);
    done();
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    for (const { chunk } of chunks) this.#take(chunk);
    done();
  }

  setTimeout(): this {
    return this;
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

const SOCKETS = 64;
/** Longest time for the responses to all requests that are sent together. */
const PATIENCE_MS = 5_000;

/**
 * Returns a function that sends requests for a number of milliseconds, and resolves to the CPU nanoseconds per
 * request. `together`: number of requests that are sent before the first response. `isFresh`: each request has
 * its own connection, for responses that close theirs.
 */
export async function injector(
  server: Server,
  request: Buffer,
  status: number,
  { together = SOCKETS, isFresh = false }: { readonly together?: number; readonly isFresh?: boolean } = {},
): Promise<(ms: number) => Promise<number>> {
  const turn = (): Promise<void> =>
    new Promise((resolve) => {
      setImmediate(resolve);
    });
  const connect = (): FakeSocket[] =>
    Array.from({ length: together }, () => {
      const socket = new FakeSocket();
      server.emit('connection', socket);
      return socket.resume();
    });
  let sockets = connect();
  await turn();
  const step = async (): Promise<void> => {
    if (isFresh) {
      for (const socket of sockets) socket.destroy();
      sockets = connect();
    }
    for (const socket of sockets) {
      socket.was = socket.bytes;
      socket.push(request);
    }
    let count = 0;
    for (const untilMs = performance.now() + PATIENCE_MS; count < together && performance.now() < untilMs;) {
      await turn();
      count = 0;
      for (const socket of sockets) if (socket.bytes > socket.was) count++;
    }
    if (count < together) throw new Error('no answer');
  };
  await step();
  await turn();
  if (!sockets[0]!.first.startsWith(`HTTP/1.1 ${status} `))
    throw new Error(`wrong answer: ${sockets[0]!.first.slice(0, 300)}`);
  return async (ms) => {
    // the server closes connections that were idle for long, while other sides worked
    if (sockets.some(({ destroyed }) => destroyed)) sockets = connect();
    let answered = 0;
    const before = process.cpuUsage();
    for (const until = performance.now() + ms; performance.now() < until; answered += together) await step();
    const { user, system } = process.cpuUsage(before);
    return ((user + system) * 1_000) / answered;
  };
}
