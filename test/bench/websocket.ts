/**
 * Cost of WebSockets: CPU of the server's process for a message, beside the package `ws` with bufferutil.
 * Clients are in a process of their own, every sample is a fresh server, the sides alternate, the median
 * counts. Both sides have loaded svc: the memory of large messages makes V8 look through all that is loaded,
 * 30 times a second, which is twice the cost of 1 MiB with this package (9 MB) beside ws alone (1 MB), and
 * says nothing of either codec.
 *
 *   64B        ping-pong of 64 bytes, 32 connections                                   ≥ 1.0 × as fast as ws
 *   64Bx16     the same with 16 on the way                                             ≥ 5
 *   4KiB       4 on the way                                                            ≥ 1.8
 *   1MiB       4 connections                                                           ≥ 0.9
 *   broadcast  200 bytes to 1,000 sockets, for each of them                            ≥ 0.95
 *   idle       memory of each of 10,000 open sockets, behind 1,000 that took the room that loading has left, in KiB   ≤ 7
 *   text, text4KiB …     texts, which both sides read as such: of 64 bytes; of 4 and 8 KiB, 4 on the way; of 64 KiB, 2; of 1 MiB    for comparison
 *   8KiB, 64KiB, zip     bytes between those above; texts of 4 KiB, compressed
 *
 *   npm run build && node test/bench/websocket.ts [--rounds=3 --only=64B,broadcast]        exits 1 when a bound is missed
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { scratch } from '../support/scratch.ts';
import { alternate, cpuMicros, median, printHead, printRow } from './harness.ts';
import type { ChildProcess } from 'node:child_process';
import type { AddressInfo, Socket } from 'node:net';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    only: { type: 'string' },
    child: { type: 'string' },
    scenario: { type: 'string' },
    port: { type: 'string' },
    scratch: { type: 'string' },
    connections: { type: 'string' },
  },
});

interface Step {
  readonly bytes: number;
  readonly window: number;
  readonly connections: number;
  /** Minimum speed as a multiple of ws; for `idle`, the maximum in KiB. */
  readonly bound?: number;
  readonly isText?: boolean;
  readonly isCompressed?: boolean;
}

const STEPS: Readonly<Record<string, Step>> = {
  '64B': { bytes: 64, window: 1, connections: 32, bound: 1 },
  '64Bx16': { bytes: 64, window: 16, connections: 32, bound: 5 },
  '4KiB': { bytes: 4_096, window: 4, connections: 32, bound: 1.8 },
  '1MiB': { bytes: 1_048_576, window: 1, connections: 4, bound: 0.9 },
  broadcast: { bytes: 200, window: 0, connections: 1_000, bound: 0.95 },
  idle: { bytes: 0, window: 0, connections: 10_000, bound: 7 },
  text: { bytes: 64, window: 1, connections: 32, isText: true },
  text4KiB: { bytes: 4_096, window: 4, connections: 32, isText: true },
  text8KiB: { bytes: 8_000, window: 4, connections: 32, isText: true },
  text64KiB: { bytes: 64_000, window: 2, connections: 16, isText: true },
  text1MiB: { bytes: 1_048_576, window: 1, connections: 4, isText: true },
  '8KiB': { bytes: 8_000, window: 4, connections: 32 },
  '64KiB': { bytes: 64_000, window: 2, connections: 16 },
  zip: { bytes: 4_096, window: 1, connections: 16, isText: true, isCompressed: true },
};
const RUN_MS = 1_500;
const BROADCASTS = 50;

/** Returns JSON with this number of bytes. */
function payloadOf({ bytes, isText = false }: Step): Buffer {
  if (!isText) return Buffer.alloc(bytes, 0xa5);
  const text = JSON.stringify(
    Array.from({ length: Math.ceil(bytes / 30) }, (_, id) => ({ id, name: `user ${(id * 7_919) % 1_000}` })),
  );
  return Buffer.from(text.slice(0, bytes));
}

async function parent(): Promise<number> {
  const folder = scratch(
    {
      skip: (reason: string) => {
        throw new Error(reason);
      },
    } as never,
    'websocket',
    { ws: '~8.23.0', bufferutil: '~4.1.0' },
  )!; // skip() throws, so the folder is defined
  const rounds = Number(values.rounds ?? 3);
  let isMissed = false;
  const title = `CPU of the server, ${process.version}, median of ${rounds} fresh processes each`;
  printHead(title, 'ws µs', 'svc µs', 'times as fast', 'bound');
  for (const name of values.only?.split(',') ?? Object.keys(STEPS)) {
    const { bound } = STEPS[name]!;
    const samples = await alternate(['ws', 'svc'], rounds, (side) => measure(side, name, folder));
    const [ws, svc] = [median(samples.ws), median(samples.svc)];
    isMissed ||= bound !== undefined && (name === 'idle' ? svc > bound : ws / svc < bound);
    const needed = bound === undefined ? '' : name === 'idle' ? `≤ ${bound} KiB` : `≥ ${bound}`;
    printRow(name, ws.toFixed(2), svc.toFixed(2), (ws / svc).toFixed(2), needed);
  }
  return isMissed ? 1 : 0;
}

/** Returns the microseconds of CPU for a message, or KiB for a socket. */
async function measure(side: 'ws' | 'svc', scenario: string, folder: string): Promise<number> {
  const start = (child: string, ...args: string[]): ChildProcess =>
    fork(
      import.meta.filename,
      [`--child=${child}`, `--scenario=${scenario}`, `--scratch=${folder}`, ...args],
      { execArgv: ['--expose-gc'] },
    );
  const server = start(side);
  const [port] = (await once(server, 'message')) as [number];
  const first = scenario === 'idle' ? start('clients', `--port=${port}`, '--connections=1000') : undefined;
  if (first !== undefined) await once(first, 'message');
  const base = first === undefined ? 0 : await ask(server, 'memory');
  const clients = start('clients', `--port=${port}`);
  try {
    await once(clients, 'message');
    if (scenario === 'idle')
      return ((await ask(server, 'memory')) - base) / STEPS[scenario]!.connections / 1_024;
    if (scenario === 'broadcast') {
      await ask(server, 'broadcast');
      return (await ask(server, 'broadcast')) / (BROADCASTS * STEPS[scenario]!.connections);
    }
    await ask(clients, 'run'); // warm up
    const before = await ask(server, 'cpu');
    const messages = await ask(clients, 'run');
    return ((await ask(server, 'cpu')) - before) / messages;
  } finally {
    first?.kill('SIGKILL');
    clients.kill('SIGKILL');
    server.kill('SIGKILL');
  }
}

async function ask(child: ChildProcess, what: string): Promise<number> {
  child.send(what);
  const [answer] = (await once(child, 'message')) as [number];
  return answer;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const memory = (): number => {
  for (let round = 0; round < 4; round++) globalThis.gc!();
  return process.memoryUsage().rss;
};

/** Handles the requests of the parent process. */
function serve(port: number, broadcast: () => void): void {
  process.on('message', (what) => void answer(what as string).then((value) => process.send!(value)));
  process.send!(port);
  async function answer(what: string): Promise<number> {
    if (what === 'cpu') return cpuMicros();
    if (what === 'memory') {
      await pause(500);
      return memory();
    }
    const before = process.cpuUsage();
    for (let count = 0; count < BROADCASTS; count++) {
      broadcast();
      await pause(10);
    }
    return cpuMicros(before);
  }
}

async function ws(step: Step): Promise<void> {
  (globalThis as { loaded?: unknown }).loaded = await import(
    new URL('../../dist/index.js', import.meta.url).href
  ); // loaded, so that both sides have the same code in memory
  interface Peer {
    on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): void;
    send(data: Buffer | string, options: { binary: boolean }): void;
  }
  interface Peers {
    readonly clients: Iterable<Peer>;
    on(event: 'connection', listener: (peer: Peer) => void): void;
  }
  const require = createRequire(join(values.scratch!, 'package.json'));
  const { WebSocketServer } = require('ws') as { WebSocketServer: new (options: object) => Peers };
  require('bufferutil');
  const server = createServer().listen(0, '127.0.0.1', 4_096);
  await once(server, 'listening');
  const peers = new WebSocketServer({
    server,
    maxPayload: 4_194_304,
    perMessageDeflate:
      step.isCompressed === true
        ? { serverNoContextTakeover: true, clientNoContextTakeover: true, zlibDeflateOptions: { level: 3 } }
        : false,
  });
  peers.on('connection', (peer) =>
    peer.on('message', (data, binary) => peer.send(binary ? data : data.toString(), { binary })),
  );
  const payload = payloadOf(step);
  serve((server.address() as AddressInfo).port, () => {
    for (const peer of peers.clients) peer.send(payload, { binary: true });
  });
}

async function svc(step: Step): Promise<void> {
  const { Svc, createLogger } = (await import(
    new URL('../../dist/index.js', import.meta.url).href
  )) as typeof import('svc');
  const app = new Svc({ logger: createLogger({ level: 'error' }) });
  app
    .websocket('/', {
      allowMissingOrigin: true,
      maxMessageBytes: 4_194_304,
      maxBufferedBytes: 8_388_608,
      compression: step.isCompressed === true,
    })
    .onOpen((socket) => {
      if (step.window === 0 && step.bytes > 0) socket.join('all');
    })
    .onMessage((socket, message) => socket.send(message));
  const { port } = await app.run({ port: 0, handleSignals: false });
  const payload = payloadOf(step);
  serve(port, () => app.rooms.broadcast('all', payload));
}

/** Minimal clients: send one frame again and again, and count the bytes of the responses. */
async function clients(port: number, step: Step): Promise<void> {
  const payload = payloadOf(step);
  const key = Buffer.of(1, 2, 3, 4);
  const { encodeFrame, encodeMaskedFrame } = (await import(
    new URL('../../dist/http/websocket/encode.js', import.meta.url).href
  )) as typeof import('../../src/http/websocket/encode.ts');
  const { deflateMessage } = (await import(
    new URL('../../dist/http/websocket/deflate.js', import.meta.url).href
  )) as typeof import('../../src/http/websocket/deflate.ts');
  const isCompressed = step.isCompressed === true;
  const body = isCompressed ? deflateMessage(payload, 15, 3) : payload;
  const opcode = step.isText === true ? 1 : 2;
  const frames = Buffer.concat(
    Array.from({ length: Math.max(1, step.window) }, () =>
      encodeMaskedFrame(opcode, body, key, isCompressed),
    ),
  );
  const sentBytes = frames.length / Math.max(1, step.window);
  const sockets: Counter[] = [];
  for (let index = 0; index < Number(values.connections ?? step.connections); index++) {
    sockets.push(await open(port, isCompressed));
    if (step.connections > 5_000 && index % 100 === 0) await pause(1);
  }
  let answerBytes = encodeFrame(opcode, body, isCompressed).length;
  if (isCompressed) answerBytes = await sizeOfAnswer(sockets[0]!.socket, frames.subarray(0, sentBytes));
  process.on('message', () => {
    let messages = 0;
    let isOver = false;
    for (const counter of sockets) {
      counter.onBytes = () => {
        const count = Math.floor(counter.bytes / answerBytes);
        counter.bytes -= count * answerBytes;
        messages += count;
        if (!isOver && count > 0) counter.socket.write(frames.subarray(0, count * sentBytes));
      };
      counter.socket.write(frames);
    }
    setTimeout(() => {
      isOver = true;
      setTimeout(() => process.send!(messages), 300); // wait for messages that are on their way
    }, RUN_MS);
  });
  process.send!('ready');
}

/** Bytes that have arrived, and the function to call for them. */
interface Counter {
  readonly socket: Socket;
  bytes: number;
  onBytes: () => void;
}

function open(port: number, isCompressed: boolean): Promise<Counter> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1').on('error', reject);
    const counter: Counter = { socket, bytes: 0, onBytes: () => undefined };
    socket.write(
      `GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n${isCompressed ? 'Sec-WebSocket-Extensions: permessage-deflate\r\n' : ''}\r\n`,
    );
    socket.once('data', (head: Buffer) => {
      if (!head.toString('latin1').startsWith('HTTP/1.1 101'))
        return reject(new Error(head.toString('latin1')));
      socket.on('data', (chunk: Buffer) => {
        counter.bytes += chunk.length;
        counter.onBytes();
      });
      resolve(counter);
    });
  });
}

async function sizeOfAnswer(socket: Socket, frame: Buffer): Promise<number> {
  socket.write(frame);
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  return chunk.length;
}

if (values.child === undefined) process.exitCode = await parent();
else {
  const step = STEPS[values.scenario!]!;
  if (values.child === 'clients') await clients(Number(values.port), step);
  else await (values.child === 'ws' ? ws : svc)(step);
}
