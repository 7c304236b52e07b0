import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import test from 'node:test';
import { ManualClock } from 'svc/testing';
import { createLogger } from '../../../src/observability/log.ts';
import { Rooms } from '../../../src/http/websocket/rooms.ts';
import { WebSocketConnection } from '../../../src/http/websocket/websocket.ts';
import { frame } from '../../support/ws-frames.ts';
import { turn } from '../../support/turn.ts';
import type { TransportRequest } from '../../../src/http/request/request.ts';
import type { SharedSocketDeps } from '../../../src/http/websocket/handlers.ts';

function ignore(): void {
  /* unused */
}

/** A stream in memory whose peer may respond within a write. */
class Answered extends Duplex {
  readonly written: Buffer[] = [];
  answer: Buffer | undefined;

  override _read(): void {
    /* push() brings it */
  }

  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    this.written.push(Buffer.from(chunk));
    const { answer } = this;
    this.answer = undefined;
    if (answer !== undefined) this.push(answer);
    callback();
  }
}

test('if frames of two WebSockets arrive in alternating parts, each WebSocket receives only its own messages', async () => {
  const received: unknown[] = [];
  const log = createLogger({ sink: () => undefined });
  const deps: SharedSocketDeps<WebSocketConnection> = {
    clock: new ManualClock(),
    log,
    rooms: new Rooms(log),
    maxMessageBytes: 1_048_576,
    maxBufferedBytes: 1_048_576,
    slowConsumer: 'disconnect',
    compression: undefined,
    meter: undefined,
    heartbeatMs: 0,
    idleTimeoutMs: 0,
    closeTimeoutMs: 1_000,
    maxRooms: 1,
    onUnhandled: (error) => assert.fail(error as Error),
    listener: {
      decode: (data) => data,
      onOpen: ignore,
      onClose: ignore,
      onMessage: (socket, message) => {
        received.push([socket.context, message]);
        if (message === 'ask') socket.send('asked');
      },
    },
  };
  const [asking, one, other] = ['asking', 'one', 'other'].map((context) => {
    const stream = new Answered();
    new WebSocketConnection(stream, deps, {
      enter: (fn, ...args) => fn(...args),
      protocol: '',
      deflate: undefined,
      context,
      req: {
        logFields: () => ({}),
        holder: () => ({ budget: undefined, heldBytes: 0, holderIndex: 0, client: '' }),
      } as unknown as TransportRequest,
      host: { onClosed: ignore, onOver: ignore },
    }).start(Buffer.alloc(0));
    return stream;
  }) as [Answered, Answered, Answered];
  await turn(); // incoming data is passed on at once from here on
  asking.answer = frame({ payload: 'answer' });
  asking.push(frame({ payload: 'ask' }));
  const [first, second] = [frame({ payload: 'of one' }), frame({ payload: 'of the other' })];
  for (const [stream, bytes] of [
    [one, first.subarray(0, 7)],
    [other, second.subarray(0, 8)],
    [one, first.subarray(7)],
    [other, second.subarray(8)],
  ] as const) {
    stream.push(bytes);
    await turn();
  }
  assert.deepEqual(received, [
    ['asking', 'ask'],
    ['asking', 'answer'],
    ['one', 'of one'],
    ['other', 'of the other'],
  ]);
  assert.deepEqual(
    [asking, one, other].map(({ written }) => Buffer.concat(written).toString('latin1')),
    ['\x81\x05asked', '', ''],
  );
});
