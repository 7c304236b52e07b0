/**
 * A WebSocket over a real socket, byte by byte. Reads what a server sends as messages or as bytes.
 */
import assert from 'node:assert/strict';
import { Svc, createLogger } from 'svc';
import { MessageInflater } from '../../src/http/websocket/deflate.ts';
import { FrameReader } from '../../src/http/websocket/frames.ts';
import { RawClient } from './raw-http.ts';
import { closing, frame } from './ws-frames.ts';
import type { TestContext } from 'node:test';

export interface Line {
  readonly event: string;
  readonly [key: string]: unknown;
}

/** Returns an application, and the lines of its log so far. */
export function loggedApp(): { readonly app: Svc; readonly lines: () => Line[] } {
  const lines: string[] = [];
  const app = new Svc({
    logger: createLogger({ level: 'debug', format: 'json', sink: (line) => void lines.push(line) }),
  });
  return { app, lines: () => lines.map((line) => JSON.parse(line) as Line) };
}

/** Runs the application until the test is over. Returns its port. */
export async function portOf(t: TestContext, app: Svc): Promise<number> {
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  t.after(() => server.close());
  return server.port;
}

/** Opens a WebSocket at `path`, and offers the extensions `extensions`. */
export async function openRaw(
  t: TestContext,
  port: number,
  path: string,
  extensions?: string,
): Promise<RawClient> {
  const raw = await RawClient.open(port);
  t.after(() => raw[Symbol.asyncDispose]());
  const offer = extensions === undefined ? '' : `Sec-WebSocket-Extensions: ${extensions}\r\n`;
  raw.send(
    `GET ${path} HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: http://a.example\r\n${offer}\r\n`,
  );
  assert.equal((await raw.answer()).status, 101);
  return raw;
}

/** Returns text messages and a close frame as one chunk. */
export function packet(messages: readonly string[], code?: number, reason = ''): Buffer {
  return Buffer.concat([
    ...messages.map((payload) => frame({ payload })),
    ...(code === undefined ? [] : [frame({ opcode: 8, payload: closing(code, reason) })]),
  ]);
}

/** Parses the bytes of a server: its messages, and the close code with its reason. */
export function messagesOf(bytes: Buffer): string[] {
  const messages: string[] = [];
  const inflater = new MessageInflater(15, true);
  new FrameReader(
    { isMasked: false, maxMessageBytes: 2 ** 30, inflate: (data, most) => inflater.inflate(data, most) },
    {
      onText: (text) => void messages.push(text),
      onBinary: (data) => void messages.push(`${data.length} bytes`),
      onPing: () => undefined,
      onPong: () => undefined,
      onClose: (code, reason) => void messages.push(`CLOSE ${code} ${reason}`.trimEnd()),
      onViolation: (code, reason) => void messages.push(`VIOLATION ${code} ${reason}`),
    },
  ).push(Buffer.from(bytes));
  return messages;
}
