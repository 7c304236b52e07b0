/**
 * Many WebSockets of one process: 10,000 with a heartbeat, and slow readers, whose memory has a bound.
 *
 *   node --conditions=svc-source test/soak/websocket.ts         exits 1 when a bound is missed
 *
 *   SOAK_SECONDS       default 60; a quarter of it for each of the policies for slow readers
 *   SOAK_CONNECTIONS   default 10,000, or what the limit of open files allows
 *
 * The server is a process of its own. Asserted: every responding socket stays open over several heartbeats,
 * and every silent one is closed; 50 clients that read nothing while messages are sent hold no more memory
 * than their policy allows; reading clients lose nothing, in order; afterwards no socket is left.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeMaskedFrame } from '../../src/http/websocket/encode.ts';
import { FrameReader } from '../../src/http/websocket/frames.ts';
import { confirmed } from '../support/confirmed.ts';
import { cpuMs } from '../support/cpu-time.ts';
import {
  held,
  heldBy,
  mib,
  openFiles,
  openUpTo,
  SECONDS,
  serving,
  soak,
  SoakServer,
  together,
} from '../support/soak.ts';
import type { Socket } from 'node:net';
import type { Socket as WebSocketOfServer } from 'svc';

const HEARTBEAT_MS = 2_500;
const SLOW = 50;
const BUFFERED_BYTES = 262_144;
const OTHER_FILES = 200;
const KEY = Buffer.of(1, 2, 3, 4);
const COUNT = Math.min(Number(process.env['SOAK_CONNECTIONS'] ?? 10_000), openFiles() - OTHER_FILES);

type Answers = Readonly<Record<string, number>>;

async function serve(): Promise<void> {
  const { Svc, createLogger } = await import('svc');
  const app = new Svc({ logger: createLogger({ level: 'silent' }) });
  const sockets = new Set<WebSocketOfServer>();
  app.websocket('/beat', { allowMissingOrigin: true, heartbeatMs: HEARTBEAT_MS }).onOpen(() => undefined);
  for (const slowConsumer of ['disconnect', 'drop-oldest', 'wait'] as const) {
    app
      .websocket(`/${slowConsumer}`, {
        allowMissingOrigin: true,
        slowConsumer,
        maxBufferedBytes: BUFFERED_BYTES,
        heartbeatMs: false,
        idleTimeoutMs: 3_600_000,
        closeTimeoutMs: 500,
      })
      .onOpen((socket) => void sockets.add(socket))
      .onClose((socket) => void sockets.delete(socket));
  }
  const { port } = await app.run({ port: 0, handleSignals: false });
  let sending: string | undefined;
  let sent = 0;
  serving(port, (what) => {
    if (what === 'stop') sending = undefined;
    else if (what !== 'numbers') {
      sending = what;
      sent = 0;
      void send(what);
    }
    return numbers();
  });

  async function numbers(): Promise<Answers> {
    const metrics = new Map(app.metrics.snapshot().map(({ name, series }) => [name, series]));
    const value = (name: string): number =>
      metrics.get(name)?.reduce((sum, [, [first]]) => sum + first!, 0) ?? 0;
    const now = await held();
    return {
      open: value('svc_websockets'),
      dropped: value('svc_websocket_dropped_total'),
      sent,
      rss: now.rss,
      memory: heldBy(now) + process.memoryUsage().arrayBuffers,
      cpuMs: cpuMs(),
    };
  }

  /** Sends numbered messages of 40 KB, a different one to each socket, so that buffers are not shared. */
  async function send(policy: string): Promise<void> {
    const padding = '*'.repeat(40_000);
    while (sending === policy) {
      for (const socket of sockets) {
        try {
          socket.send(`${sent} ${padding}`);
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'E_WEBSOCKET_FULL');
        }
      }
      sent++;
      await sleep(5);
    }
  }
}

class Client {
  readonly socket: Socket;
  readonly got: number[] = [];
  isClosed = false;

  private constructor(socket: Socket, answersPings: boolean) {
    this.socket = socket;
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.isClosed = true;
    });
    const reader = new FrameReader(
      { isMasked: false, maxMessageBytes: 1_000_000 },
      {
        onText: (text) => void this.got.push(parseInt(text, 10)),
        onBinary: () => undefined,
        onPong: () => undefined,
        onViolation: (_code, reason) => assert.fail(reason),
        onPing: (payload) => {
          if (answersPings) socket.write(encodeMaskedFrame(10, payload, KEY));
        },
        onClose: () => void socket.end(encodeMaskedFrame(8, '', KEY)),
      },
    );
    socket.on('data', (chunk: Buffer) => reader.push(Buffer.from(chunk)));
  }

  static async open(port: number, path: string, answersPings = true): Promise<Client> {
    const socket = connect(port, '127.0.0.1');
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
    );
    const [head] = (await once(socket, 'data')) as [Buffer];
    const end = head.indexOf('\r\n\r\n') + 4;
    assert.match(head.toString('latin1'), /^HTTP\/1\.1 101/);
    const client = new Client(socket, answersPings);
    if (end < head.length) socket.unshift(head.subarray(end));
    return client;
  }
}

/** Waits until every client has this message, for at most 30 seconds. */
async function untilAll(clients: readonly Client[], newest: number): Promise<void> {
  const endMs = performance.now() + 30_000;
  while (performance.now() < endMs && clients.some(({ got }) => got.at(-1) !== newest)) await sleep(50);
}

async function main(): Promise<readonly string[]> {
  const server = await SoakServer.start<Answers>(import.meta.filename);
  const { port } = server;
  const ask = (what: string): Promise<Answers> => server.ask(what);
  const leave = async (clients: readonly Client[]): Promise<void> => {
    for (const { socket } of clients) socket.destroy();
    while ((await ask('numbers'))['open']! > 0) await sleep(100);
  };
  /**
   * Asserts that every responding socket stays open, unless this process stalls for a heartbeat, and that
   * silent ones are closed.
   */
  const heartbeats = async (): Promise<readonly string[]> => {
    const silent = await together(100, () => Client.open(port, '/beat', false));
    const clients = await openUpTo<Client>(COUNT - silent.length, [], () => Client.open(port, '/beat'));
    const before = await ask('numbers');
    const waitMs = Math.max(4 * HEARTBEAT_MS, SECONDS * 250);
    await sleep(waitMs);
    const after = await ask('numbers');
    const lost = clients.filter(({ isClosed }) => isClosed).length;
    const kept = silent.filter(({ isClosed }) => !isClosed).length;
    console.log(
      `${clients.length} sockets with a heartbeat of ${HEARTBEAT_MS} ms: ${mib(after['rss']!)} resident, ${((after['cpuMs']! - before['cpuMs']!) / (waitMs / 1_000)).toFixed(0)} ms of CPU a second`,
    );
    await leave([...clients, ...silent]);
    return [
      ...(lost === 0 ? [] : [`${lost} sockets that answer were parted with`]),
      ...(kept === 0 ? [] : [`${kept} silent clients were not parted with`]),
      ...(after['open'] === clients.length - lost + kept
        ? []
        : [`the server counts ${after['open']} sockets`]),
    ];
  };
  try {
    assert.deepEqual(await confirmed(heartbeats), []);

    // ── slow readers ──
    for (const policy of ['disconnect', 'drop-oldest', 'wait']) {
      const readers = await together(5, () => Client.open(port, `/${policy}`));
      const slow = await together(SLOW, () => Client.open(port, `/${policy}`));
      for (const { socket } of slow) socket.pause();
      const start = await ask('numbers');
      await ask(policy);
      const endMs = performance.now() + SECONDS * 250;
      // a slow reader may hold its bound, what the stream has already taken, and one frame
      const bound = SLOW * (BUFFERED_BYTES + 2 * 65_536 + 65_536) + 16_777_216;
      let most = 0;
      let enough = false; // enough messages to exceed the bound; a busy machine sends them later
      while (performance.now() < endMs || (!enough && performance.now() < endMs + 30_000)) {
        await sleep(100);
        const now = await ask('numbers');
        most = Math.max(most, now['memory']! - start['memory']!);
        enough = SLOW * now['sent']! * 40_000 > 2 * bound;
      }
      const { sent, dropped, ...stopped } = await ask('stop');
      let open = stopped['open']!;
      for (let turn = 0; policy === 'disconnect' && open > readers.length && turn < 100; turn++) {
        await sleep(100); // wait for the close handshakes, up to their time limit
        open = (await ask('numbers'))['open']!;
      }
      console.log(
        `${policy}: ${sent} messages of 40 KB, ${dropped! - start['dropped']!} left out, at most ${mib(most)} more memory (bound ${mib(bound)}, unbounded ${mib(SLOW * sent! * 40_000)}), ${open} open`,
      );
      assert.ok(most < bound, `${policy}: ${mib(most)} more memory`);
      assert.ok(SLOW * sent! * 40_000 > 2 * bound, 'enough was sent to tell');
      if (policy === 'disconnect') assert.equal(open, readers.length, 'slow readers were parted with');
      else {
        assert.equal(open, readers.length + SLOW);
        assert.ok(dropped! > start['dropped']!);
      }
      await untilAll(readers, sent! - 1);
      const all = Array.from({ length: sent! }, (_, index) => index);
      for (const { got } of readers) assert.deepEqual(got, all, 'a client that reads loses nothing');
      if (policy === 'drop-oldest') {
        for (const { socket } of slow) socket.resume();
        await untilAll(slow, sent! - 1);
        for (const { got } of slow) {
          assert.equal(got.at(-1), sent! - 1, 'the newest came');
          const sorted = got.toSorted((left, right) => left - right);
          assert.deepEqual(got, sorted);
        }
      }
      await leave([...readers, ...slow]);
    }
  } finally {
    await server.kill();
  }
  return [];
}

await soak(main, serve);
