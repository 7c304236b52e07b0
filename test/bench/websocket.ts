/**
 * Cost of WebSockets: CPU of the server's process for a message, beside the package `ws` with bufferutil.
 * Clients run in another process, every sample is a fresh server, the sides alternate, and the median counts.
 * Both sides have loaded svc, because large messages make V8 look through all that is loaded.
 *
 *   64B, 64Bx16   ping-pong of 64 bytes, 32 connections; with 16 in flight
 *   4KiB, 1MiB    4 in flight; 4 connections
 *   broadcast     200 bytes to 1,000 sockets, for each of them
 *   idle          KiB of each of 10,000 open sockets, after 1,000 that took the room that loading has left
 *   text …        texts, which both sides read as such, for comparison
 *
 *   npm run build && node test/bench/websocket.ts [--rounds=3 --only=64B,broadcast]        exits 1 when a bound is missed
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  alternate,
  answering,
  argumentsOf,
  ask,
  cpuMicros,
  installed,
  median,
  printHead,
  printRow,
  started,
} from './harness.ts';
import type { AddressInfo, Socket } from 'node:net';

const values = argumentsOf('rounds', 'only', 'child', 'scenario', 'port', 'scratch', 'connections');

interface Step {
  readonly bytes: number;
  readonly window: number;
  readonly connections: number;
  /** Minimum speed as a multiple of ws; for `idle`, the maximum in KiB. */
  readonly bound?: number;
  readonly isText?: boolean;
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
};
const RUN_MS = 1_500;
const BROADCASTS = 50;
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

async function parent(): Promise<void> {
  const folder = installed('websocket', { ws: '~8.23.0', bufferutil: '~4.1.0' });
  if (folder === undefined) return;
  const rounds = Number(values.rounds ?? 3);
  const title = `CPU of the server, median of ${rounds} fresh processes each`;
  printHead(title, 'ws µs', 'svc µs', 'times as fast', 'bound');
  for (const name of values.only?.split(',') ?? Object.keys(STEPS)) {
    const { bound } = STEPS[name]!;
    const samples = await alternate(['ws', 'svc'], rounds, (side) => measure(side, name, folder));
    const [base, own] = [median(samples.ws), median(samples.svc)];
    const isMissed = bound !== undefined && (name === 'idle' ? own > bound : base / own < bound);
    if (isMissed) process.exitCode = 1;
    const needed = bound === undefined ? '' : name === 'idle' ? `≤ ${bound} KiB` : `≥ ${bound}`;
    printRow(name, base.toFixed(2), own.toFixed(2), (base / own).toFixed(2), needed);
  }
}

/** Returns the microseconds of CPU for a message, or KiB for a socket. */
async function measure(side: 'ws' | 'svc', scenario: string, folder: string): Promise<number> {
  const start = (child: string, ...args: string[]): ReturnType<typeof started> =>
    started(import.meta.filename, [
      `--child=${child}`,
      `--scenario=${scenario}`,
      `--scratch=${folder}`,
      ...args,
    ]);
  const { connections } = STEPS[scenario]!;
  const { child: server, first: port } = await start(side);
  const children = [server];
  const connected = async (...args: string[]): Promise<(typeof children)[0]> => {
    const { child } = await start('clients', `--port=${port}`, ...args);
    children.push(child);
    return child;
  };
  try {
    if (scenario === 'idle') {
      await connected('--connections=1000');
      const before = await ask(server, 'memory');
      await connected();
      return ((await ask(server, 'memory')) - before) / connections / 1_024;
    }
    const clients = await connected();
    if (scenario === 'broadcast') {
      await ask(server, 'broadcast');
      return (await ask(server, 'broadcast')) / (BROADCASTS * connections);
    }
    await ask(clients, 'run'); // warm up
    const before = await ask(server, 'cpu');
    const messages = await ask(clients, 'run');
    return ((await ask(server, 'cpu')) - before) / messages;
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
  const require = createRequire(join(values.scratch!, 'package.json'));
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
  const { Svc, createLogger } = await import('svc');
  const app = new Svc({ logger: createLogger({ level: 'error' }) });
  app
    .websocket('/', { allowMissingOrigin: true, maxMessageBytes: 4_194_304, maxBufferedBytes: 8_388_608 })
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
    const socket = await open(port);
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

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.write(UPGRADE);
  const [head] = (await once(socket, 'data')) as [Buffer];
  if (!head.toString('latin1').startsWith('HTTP/1.1 101')) throw new Error(head.toString('latin1'));
  return socket;
}

if (values.child === undefined) await parent();
else {
  const step = STEPS[values.scenario!]!;
  if (values.child === 'clients') await clients(Number(values.port), step);
  else await (values.child === 'ws' ? ws : svc)(step);
}
