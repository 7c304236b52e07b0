/**
 * Cost of WebSockets: CPU of the server's process for a message, as a multiple of the package `ws` with
 * bufferutil. Clients run in another process. Both sides have loaded svc, because large messages make V8 look
 * through all that is loaded.
 *
 * Event streams are compared with `res.write(text)` of node:http, by event and client.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ROOT, answering, argumentsOf, ask, cpuMicros, started } from './harness.ts';
import type { Bench, Row, Worker } from './harness.ts';
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

const values = argumentsOf('side', 'scenario', 'port', 'peers', 'connections');

interface Step {
  readonly bytes: number;
  readonly window: number;
  readonly connections: number;
  /** Maximum cost as a multiple of ws or node:http; for `idle`, the maximum in KiB. */
  readonly bound?: number;
  readonly isText?: boolean;
  /** Whether the clients read event streams. */
  readonly isStream?: boolean;
}

const STEPS: Readonly<Record<string, Step>> = {
  '64 bytes, ping-pong': { bytes: 64, window: 1, connections: 32, bound: 1 },
  '64 bytes, 16 in flight': { bytes: 64, window: 16, connections: 32, bound: 0.2 },
  '4 KiB, 4 in flight': { bytes: 4_096, window: 4, connections: 32, bound: 0.67 },
  '1 MiB': { bytes: 1_048_576, window: 1, connections: 4, bound: 1.11 },
  'text of 64 bytes': { bytes: 64, window: 1, connections: 32, isText: true },
  'text of 4 KiB': { bytes: 4_096, window: 4, connections: 32, isText: true },
  'text of 64 kB': { bytes: 64_000, window: 2, connections: 16, isText: true },
  'broadcast to 1,000': { bytes: 200, window: 0, connections: 1_000, bound: 1.11 },
  'each of 10,000 idle ones': { bytes: 0, window: 0, connections: 10_000, bound: 7 },
  'event to 1,000 streams': { bytes: 200, window: 0, connections: 1_000, bound: 1.05, isStream: true },
};
const RUN_MS = 300;
const BROADCASTS = 20;
const KEY = Buffer.of(1, 2, 3, 4);
const UPGRADE =
  'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n';

/** Returns JSON with this number of bytes. */
function payloadOf({ bytes, isText = false }: Step): Buffer {
  if (!isText) return Buffer.alloc(bytes, 0xa5);
  const item = (id: number): object => ({ id, name: `user ${(id * 7_919) % 1_000}` });
  const text = JSON.stringify(Array.from({ length: Math.ceil(bytes / 30) }, (_, id) => item(id)));
  return Buffer.from(text.slice(0, bytes));
}

function rows(peers: string | undefined): readonly Row[] {
  return Object.entries(STEPS).flatMap(([scenario, step]): Row[] => {
    const { bound, isStream } = step;
    const name = isStream ? scenario : `WebSocket: ${scenario}`;
    if (step.bytes === 0) {
      const start: Row['start'] = async (side, root) => ({ slice: () => idle(root, { side, scenario, peers }), stop: () => undefined }); // prettier-ignore
      return [{ name, unit: 'KiB', bound, slices: 1, others: peers ? ['ws'] : [], start }];
    }
    const base = isStream ? 'bare' : 'ws';
    const start: Row['start'] = (side, root) => messaging(root, { side, scenario, peers });
    return base === 'ws' && peers === undefined ? [] : [{ name, unit: 'µs', base, bound, slices: 8, start }];
  });
}

export const bench: Bench = { packages: { ws: '~8.23.0', bufferutil: '~4.1.0' }, rows };

type Given = Readonly<Record<'side' | 'scenario' | 'peers', string | undefined>>;
const fileIn = (root: string): string => join(root, 'test/bench/websocket.ts');

/** Starts a server and its clients. A slice costs microseconds of the server's CPU for a message. */
async function messaging(root: string, given: Given): Promise<Worker> {
  const { child: server, first: port } = await started(fileIn(root), given);
  const { child: clients } = await started(fileIn(ROOT), { ...given, side: 'clients', port });
  const { window, connections } = STEPS[given.scenario!]!;
  const slice = async (): Promise<number> => {
    if (window === 0) return (await ask(server, 'broadcast')) / (BROADCASTS * connections);
    const before = await ask(server, 'cpu');
    const messages = await ask(clients, 'run');
    return ((await ask(server, 'cpu')) - before) / messages;
  };
  for (let round = 0; round < 3; round++) await slice(); // warm up
  const stop = (): void => [server, clients].forEach((child) => child.kill('SIGKILL'));
  return { slice, stop };
}

/** Returns KiB of each open socket, after 1,000 that took the room that loading has left. */
async function idle(root: string, given: Given): Promise<number> {
  const { child: server, first: port } = await started(fileIn(root), given);
  const children = [server];
  const connect = async (connections: number): Promise<void> => {
    children.push((await started(fileIn(ROOT), { ...given, side: 'clients', port, connections })).child);
  };
  try {
    await connect(1_000);
    const before = await ask(server, 'memory');
    const { connections } = STEPS[given.scenario!]!;
    await connect(connections);
    return ((await ask(server, 'memory')) - before) / connections / 1_024;
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
}

function serve(port: number, broadcast: () => void): void {
  answering(port, async (what) => {
    if (what === 'cpu') return cpuMicros();
    if (what === 'memory') {
      await sleep(500);
      for (let round = 0; round < 4; round++) globalThis.gc!();
      return process.memoryUsage().rss;
    }
    const before = process.cpuUsage();
    for (let count = 0; count < BROADCASTS; count++) {
      broadcast();
      await sleep(10);
    }
    return cpuMicros(before);
  });
}

async function ws(step: Step): Promise<void> {
  (globalThis as { loaded?: unknown }).loaded = await import('svc'); // both sides have this code in memory
  interface Peer {
    on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): void;
    send(data: Buffer | string, options: { binary: boolean }): void;
  }
  interface Peers {
    readonly clients: Iterable<Peer>;
    on(event: 'connection', listener: (peer: Peer) => void): void;
  }
  const require = createRequire(join(values.peers!, 'package.json'));
  const { WebSocketServer } = require('ws') as { WebSocketServer: new (options: object) => Peers };
  require('bufferutil');
  const server = createServer().listen(0, '127.0.0.1', 4_096);
  await once(server, 'listening');
  const peers = new WebSocketServer({ server, maxPayload: 4_194_304, perMessageDeflate: false });
  peers.on('connection', (peer) =>
    peer.on('message', (data, binary) => peer.send(binary ? data : data.toString(), { binary })),
  );
  const payload = payloadOf(step);
  serve((server.address() as AddressInfo).port, () => {
    for (const peer of peers.clients) peer.send(payload, { binary: true });
  });
}

async function svc(step: Step): Promise<void> {
  const { EventBroadcast, Svc, createLogger } = await import('svc');
  const app = new Svc({ logger: createLogger({ level: 'error' }) });
  const events = new EventBroadcast();
  app.get('/events', () => events.stream());
  app
    .websocket('/', { allowMissingOrigin: true, maxMessageBytes: 4_194_304, maxBufferedBytes: 8_388_608 })
    .onOpen((socket) => {
      if (step.window === 0 && step.bytes > 0) socket.join('all');
    })
    .onMessage((socket, message) => socket.send(message));
  const { port } = await app.run({ port: 0, handleSignals: false });
  const payload = payloadOf(step);
  const text = payload.toString('latin1');
  serve(port, () => (step.isStream ? events.send(text) : app.rooms.broadcast('all', payload)));
}

/** Sends events by node:http. */
async function bare(step: Step): Promise<void> {
  const open: ServerResponse[] = [];
  const server = createServer((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders();
    open.push(res);
  }).listen(0, '127.0.0.1', 4_096);
  await once(server, 'listening');
  const text = `data: ${payloadOf(step).toString('latin1')}\n\n`;
  serve((server.address() as AddressInfo).port, () => {
    for (const res of open) res.write(text);
  });
}

/** Minimal clients: send one frame again and again, and count the bytes of the responses. */
async function clients(port: number, step: Step): Promise<void> {
  const { encodeFrame, encodeMaskedFrame } = (await import(
    new URL('../../dist/http/websocket/encode.js', import.meta.url).href
  )) as typeof import('../../src/http/websocket/encode.ts');
  const opcode = step.isText === true ? 1 : 2;
  const frame = encodeMaskedFrame(opcode, payloadOf(step), KEY);
  const frames = Buffer.concat(Array.from({ length: Math.max(1, step.window) }, () => frame));
  const answerBytes = encodeFrame(opcode, payloadOf(step)).length;
  let messages = 0;
  let isOver = true;
  const sockets: Socket[] = [];
  for (let index = 0; index < Number(values.connections ?? step.connections); index++) {
    const socket = await open(port, step);
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      const count = Math.floor((bytes += chunk.length) / answerBytes);
      bytes -= count * answerBytes;
      messages += count;
      if (!isOver && count > 0) socket.write(frames.subarray(0, count * frame.length));
    });
    sockets.push(socket);
    if (step.connections > 5_000 && index % 100 === 0) await sleep(1);
  }
  answering(0, async () => {
    [messages, isOver] = [0, false];
    for (const socket of sockets) socket.write(frames);
    await sleep(RUN_MS);
    isOver = true;
    await sleep(300); // wait for messages that are on their way
    return messages;
  });
}

async function open(port: number, { isStream }: Step): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.write(isStream ? 'GET /events HTTP/1.1\r\nHost: a\r\n\r\n' : UPGRADE);
  const [head] = (await once(socket, 'data')) as [Buffer];
  if (!head.toString('latin1').startsWith(`HTTP/1.1 ${isStream ? 200 : 101}`))
    throw new Error(head.toString('latin1'));
  return socket;
}

if (import.meta.main) {
  const step = STEPS[values.scenario!]!;
  if (values.side === 'clients') await clients(Number(values.port), step);
  else await { ws, svc, bare }[values.side as 'ws' | 'svc' | 'bare'](step);
}
