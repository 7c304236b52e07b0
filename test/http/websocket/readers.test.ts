import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { describe, test } from 'node:test';
import { ManualClock } from 'svc/testing';
import { createLogger } from '../../../src/observability/log.ts';
import { Rooms } from '../../../src/http/websocket/rooms.ts';
import { WebSocketConnection } from '../../../src/http/websocket/websocket.ts';
import { OPCODE } from '../../../src/http/websocket/codes.ts';
import { FrameReader, SpareReaders } from '../../../src/http/websocket/frames.ts';
import { closing, everySplit, frame, read, readInTurn } from '../../support/ws-frames.ts';
import { turn } from '../../support/turn.ts';
import type { TransportRequest } from '../../../src/http/request/request.ts';
import type { SharedSocketDeps } from '../../../src/http/websocket/websocket.ts';
import type { FrameSink } from '../../../src/http/websocket/frames.ts';

const message = [
  { opcode: OPCODE.text, payload: 'first' },
  { opcode: OPCODE.ping, payload: 'are you there' },
  { opcode: OPCODE.text, isFinal: false, payload: 'one ' },
  { opcode: OPCODE.pong, payload: 'p' },
  { opcode: OPCODE.continuation, payload: 'text €' },
  { opcode: OPCODE.binary, payload: Uint8Array.of(1, 2, 3) },
];
const SILENT: FrameSink = {
  onText: ignore,
  onBinary: ignore,
  onPing: ignore,
  onPong: ignore,
  onClose: ignore,
  onViolation: ignore,
};

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

describe('SpareReaders', () => {
  for (const [what, last] of [
    ['messages and a close frame', { opcode: OPCODE.close, payload: closing(1000, 'bye') }],
    ['messages and a violation', { opcode: OPCODE.text, payload: 'x', rsv: 7 }],
  ] as const) {
    test(`SpareReaders lets two sockets read ${what}, however the bytes are split, as if each had its own reader`, () => {
      const readers = new SpareReaders(1_048_576);
      const bytes = Buffer.concat(
        [...message, last, { opcode: OPCODE.text, payload: 'behind the end' }].map(frame),
      );
      for (const [how, chunks] of everySplit(bytes)) {
        const alone = read(chunks);
        assert.equal(alone.length, 6);
        assert.deepEqual(readInTurn(chunks, readers), [alone, alone], how);
      }
    });
  }

  test('SpareReaders reuses a reader between messages, and no other reader', () => {
    const readers = new SpareReaders(1_048_576);
    const reader = readers.take(SILENT, false);
    assert.ok(reader instanceof FrameReader);
    assert.ok(reader.isAtRest);
    reader.push(frame({ opcode: OPCODE.text, isFinal: false, payload: 'a' }));
    assert.equal(reader.isAtRest, false, 'a message is open');
    reader.push(frame({ opcode: OPCODE.continuation, payload: 'b' }));
    assert.ok(reader.isAtRest);
    reader.push(frame({ opcode: OPCODE.text, payload: 'abc' }).subarray(0, 3));
    assert.equal(reader.isAtRest, false, 'a head is cut');
    reader.push(frame({ opcode: OPCODE.text, payload: 'abc' }).subarray(3));
    reader.stop();
    assert.equal(reader.isAtRest, false, 'it is stopped');
    reader.resume();
    readers.give(reader);
    assert.equal(readers.take(SILENT, false), reader);
    assert.notEqual(readers.take(SILENT, false), reader);
  });

  test('SpareReaders never reuses the reader of a closed socket', () => {
    const readers = new SpareReaders(1_048_576);
    const reader = readers.take(SILENT, false);
    reader.push(frame({ opcode: OPCODE.close, payload: closing(1000) }));
    assert.equal(reader.isAtRest, false);
  });
});

describe('WebSockets that share frame readers', () => {
  test('WebSockets that share frame readers have one each during a read, also when a reply arrives within a write', async () => {
    const received: unknown[] = [];
    const log = createLogger({ sink: () => undefined });
    const deps: SharedSocketDeps = {
      clock: new ManualClock(),
      log,
      rooms: new Rooms(log),
      readers: new SpareReaders(1_048_576),
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
        req: { logFields: () => ({}) } as unknown as TransportRequest,
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
});
