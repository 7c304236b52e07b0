/**
 * WebSockets with independent clients: Node's own, Chromium, and the package `ws`; both directions, with and without
 * compression.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Svc, createLogger } from 'svc';
import { Chromium, chromiumProgram, needsChromium } from '../../support/chromium.ts';
import { scratch } from '../../support/scratch.ts';
import type { RunningServer } from 'svc';
import type { TestContext } from 'node:test';

const chromium = chromiumProgram() === undefined ? undefined : await Chromium.start({ after });

async function serve(t: TestContext): Promise<{ readonly server: RunningServer; readonly url: string }> {
  const app = new Svc({ logger: createLogger({ level: 'silent' }) });
  app.get('/', () => 'a page');
  const options = { maxMessageBytes: 20_000_000, maxBufferedBytes: 40_000_000 } as const;
  app
    .websocket('/own', { ...options, protocols: ['b'] })
    .onMessage((socket, message) =>
      message === 'bye' ? socket.close(4000, 'as you like') : socket.send(message),
    );
  for (const [path, compression] of [
    ['/plain', false],
    ['/zip', true],
    ['/window', { contextTakeover: true, thresholdBytes: 1, windowBits: 10 }],
    ['/context', { contextTakeover: true, thresholdBytes: 1, level: 9 }],
  ] as const) {
    app
      .websocket(path, { ...options, compression, allowMissingOrigin: true, protocols: ['b'] })
      .onMessage((socket, message) =>
        message === 'bye' ? socket.close(4000, 'as you like') : socket.send(message),
      );
  }
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  t.after(() => server.close());
  return { server, url: server.url.replace('http', 'ws') };
}

const TEXTS = [
  '',
  'a',
  'Grüße 😀',
  '*'.repeat(125),
  '*'.repeat(126),
  '€'.repeat(30_000),
  'a'.repeat(70_000),
  JSON.stringify(Array.from({ length: 20_000 }, (_, id) => ({ id, name: `name ${id}` }))),
];
const PATHS = ['/plain', '/zip', '/window', '/context'];

for (const path of PATHS) {
  test(`the WebSocket client of Node.js exchanges messages with the server (route ${path})`, async (t) => {
    const { url } = await serve(t);
    const socket = new WebSocket(`${url}${path}`, ['a', 'b']);
    socket.binaryType = 'arraybuffer';
    await once(socket, 'open');
    assert.equal(socket.protocol, 'b');
    assert.equal(socket.extensions.includes('permessage-deflate'), path !== '/plain');
    for (const text of TEXTS) {
      socket.send(text);
      assert.equal(((await once(socket, 'message')) as [{ data: unknown }])[0].data, text);
      socket.send(Buffer.from(text));
      assert.deepEqual(
        Buffer.from(((await once(socket, 'message')) as [{ data: ArrayBuffer }])[0].data),
        Buffer.from(text),
      );
    }
    socket.send('bye');
    const [{ code, reason, wasClean }] = (await once(socket, 'close')) as [CloseEvent];
    assert.deepEqual([code, reason, wasClean], [4000, 'as you like', true]);
  });
}

interface WsClient {
  readonly protocol: string;
  readonly extensions: string;
  on(event: string, listener: (...args: never[]) => void): WsClient;
  once(event: string, listener: (...args: never[]) => void): WsClient;
  send(data: string | Uint8Array, options?: { fin?: boolean; binary?: boolean; compress?: boolean }): void;
  ping(data: string): void;
  close(code?: number, reason?: string): void;
}
type WsClass = new (url: string, protocols: readonly string[], options: object) => WsClient;

for (const path of PATHS)
  for (const [how, perMessageDeflate] of [
    ['without compression', false],
    ['with compression', true],
    ['without context takeover', { clientNoContextTakeover: true, serverNoContextTakeover: true }],
    ['with small windows', { serverMaxWindowBits: 9, clientMaxWindowBits: 9 }],
  ] as const) {
    test(`the client of the package ws exchanges messages with the server (route ${path}, ${how})`, async (t) => {
      const folder = scratch(t, 'websocket', { ws: '~8.23.0', bufferutil: '~4.1.0' });
      if (folder === undefined) return;
      const WebSocketOfWs = createRequire(join(folder, 'package.json'))('ws') as WsClass;
      const { url } = await serve(t);
      const socket = new WebSocketOfWs(`${url}${path}`, ['a', 'b'], {
        perMessageDeflate:
          typeof perMessageDeflate === 'object' ? { threshold: 0, ...perMessageDeflate } : perMessageDeflate,
        maxPayload: 30_000_000,
      });
      await once(socket as never, 'open');
      assert.equal(
        socket.extensions.includes('permessage-deflate'),
        path !== '/plain' && perMessageDeflate !== false,
      );
      for (const text of TEXTS) {
        socket.send(text);
        assert.equal(String((await once(socket as never, 'message'))[0]), text);
        const half = Math.floor(text.length / 2);
        if (text.includes('😀')) continue; // cut in the middle it is no text
        socket.send(text.slice(0, half), { fin: false });
        socket.ping('between');
        socket.send(text.slice(half), { fin: true });
        assert.equal(String((await once(socket as never, 'message'))[0]), text);
      }
      const random = Buffer.from(Array.from({ length: 50_000 }, (_, index) => (index * index) % 251));
      socket.send(random);
      assert.deepEqual((await once(socket as never, 'message'))[0], random);
      const pong = once(socket as never, 'pong');
      socket.ping('are you there');
      assert.equal(String((await pong)[0]), 'are you there');
      socket.send('bye');
      const [code, reason] = (await once(socket as never, 'close')) as [number, Buffer];
      assert.deepEqual([code, String(reason)], [4000, 'as you like']);
    });
  }

for (const [path, hasCompression] of [
  ['/own', false],
  ['/zip', true],
  ['/window', true],
  ['/context', true],
] as const) {
  test(`a page in Chromium exchanges messages with a WebSocket of its own origin (route ${path})`, async (t) => {
    if (!needsChromium(t)) return;
    const { server } = await serve(t);
    const page = await chromium!.visitor();
    await page.open(server.url);
    const result = await page.run<unknown[]>(`new Promise((resolve, reject) => {
      const texts = ['', 'a', 'Grüße 😀', '*'.repeat(126), '€'.repeat(30000), 'a'.repeat(70000)];
      const socket = new WebSocket(location.origin.replace('http', 'ws') + '${path}', ['a', 'b']);
      socket.binaryType = 'arraybuffer';
      let turn = 0, good = 0;
      const next = () => { const text = texts[turn >> 1]; if (text === undefined) socket.send('bye'); else socket.send(turn % 2 === 0 ? text : new TextEncoder().encode(text)); };
      socket.onopen = next;
      socket.onmessage = ({ data }) => { const text = texts[turn >> 1]; if ((typeof data === 'string' ? data : new TextDecoder().decode(data)) === text && (typeof data === 'string') === (turn % 2 === 0)) good++; turn++; next(); };
      socket.onclose = ({ code, reason, wasClean }) => resolve([good, socket.protocol, socket.extensions.includes('permessage-deflate'), code, reason, wasClean]);
    })`);
    assert.deepEqual(result, [12, 'b', hasCompression, 4000, 'as you like', true]);
  });
}

test('if a page in Chromium has another origin, its WebSocket is refused', async (t) => {
  if (!needsChromium(t)) return;
  const [{ url }, other] = [await serve(t), await serve(t)];
  const page = await chromium!.visitor();
  await page.open(other.server.url);
  const opened = await page.run<boolean>(
    `new Promise((resolve) => { const socket = new WebSocket('${url}/own'); socket.onopen = () => resolve(true); socket.onclose = () => resolve(false); })`,
  );
  assert.equal(opened, false);
});
