/**
 * WebSockets of the server on streams in memory, whose peers are tests.
 */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { ManualClock } from 'svc/testing';
import { createLogger } from '../../src/observability/log.ts';
import { Rooms } from '../../src/http/websocket/rooms.ts';
import { WebSocketConnection } from '../../src/http/websocket/websocket.ts';
import type { TransportRequest } from '../../src/http/request/request.ts';
import type { SharedSocketDeps } from '../../src/http/websocket/handlers.ts';

/** A stream in memory whose peer may respond within a write. */
export class Answered extends Duplex {
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

/** Dependencies of WebSockets that call `onMessage`, without limits of time. */
export function socketDeps(
  onMessage: (socket: WebSocketConnection, message: unknown) => unknown,
  changes: Partial<SharedSocketDeps<WebSocketConnection>> = {},
): SharedSocketDeps<WebSocketConnection> {
  const log = createLogger({ sink: () => undefined });
  return {
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
    listener: { decode: (data) => data, onOpen: ignore, onClose: ignore, onMessage },
    ...changes,
  };
}

/** Opens a WebSocket on a new stream. Returns the stream. */
export function openOnStream(deps: SharedSocketDeps<WebSocketConnection>, context?: unknown): Answered {
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
}

function ignore(): void {
  /* unused */
}
