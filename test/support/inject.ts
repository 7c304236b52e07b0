/**
 * Requests through in-memory streams into a real http.Server: no kernel, no client, only JavaScript and the parser.
 */
import { Duplex } from 'node:stream';
import { Server } from 'node:http';

/** The server that `run` listens with: the package names none. */
export async function serverOf(run: () => Promise<unknown>): Promise<Server> {
  const { listen } = Server.prototype;
  let server: Server | undefined;
  Server.prototype.listen = function (this: Server, ...args: never[]) {
    server = this;
    return Reflect.apply(listen, this, args) as Server;
  } as typeof listen;
  await run();
  Server.prototype.listen = listen;
  return server!;
}

/** A connection without a kernel below it. */
class FakeSocket extends Duplex {
  bytes = 0;
  first = '';
  was = 0;
  readonly remoteAddress = '127.0.0.1';

  constructor() {
    super({ allowHalfOpen: true });
  }

  override _read(): void {
    /* pushed into from outside */
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
const WARM_MS = 600;
const SLICES = 6;
const SLICE_MS = 100;

/**
 * CPU nanoseconds per request, of which `together` are begun before the first is answered: the best of several slices. `isFresh`:
 * each on a connection of its own, for answers that end theirs.
 */
export async function inject(
  server: Server,
  request: Buffer,
  status: number,
  { together = SOCKETS, isFresh = false }: { readonly together?: number; readonly isFresh?: boolean } = {},
): Promise<number> {
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
  let answered = 0;
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
    for (let turns = 0; turns < 200 && count < together; turns++) {
      await turn();
      count = 0;
      for (const socket of sockets) if (socket.bytes > socket.was) count++;
    }
    if (count < together) throw new Error('no answer');
    answered += together;
  };
  await step();
  await turn();
  if (!sockets[0]!.first.startsWith(`HTTP/1.1 ${status} `))
    throw new Error(`wrong answer: ${sockets[0]!.first.slice(0, 300)}`);
  for (const until = performance.now() + WARM_MS; performance.now() < until;) await step();
  let best = Infinity;
  for (let slice = 0; slice < SLICES; slice++) {
    answered = 0;
    const before = process.cpuUsage();
    for (const until = performance.now() + SLICE_MS; performance.now() < until;) await step();
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, ((user + system) * 1_000) / answered);
  }
  return best;
}
