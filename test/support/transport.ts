/**
 * A request without a transport, whose bytes the test pushes.
 */
import { USUAL_IDENTITY } from '../../src/http/request-id.ts';
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { TransportRequest } from '../../src/http/request/request.ts';
import { AppState } from '../../src/http/state.ts';
import type { Incoming, Outgoing, RequestDefaults } from '../../src/http/request/request.ts';

/** The receiving side. Push chunks, then `null`; or destroy it. */
export class FakeIncoming extends Readable implements Incoming {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly socket: Incoming['socket'];
  complete = false;

  constructor(method: string, url: string, rawHeaders: readonly string[], socket: Incoming['socket']) {
    super();
    this.method = method;
    this.url = url;
    this.rawHeaders = rawHeaders;
    this.socket = socket;
  }

  override _read(): void {
    /* nothing to do: the test pushes the chunks */
  }

  /** Pushes each chunk in its own turn of the event loop, then the end. */
  async pushAll(chunks: readonly (string | Uint8Array)[]): Promise<void> {
    for (const chunk of chunks) {
      this.push(chunk);
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.complete = true;
    this.push(null);
  }
}

/** The sending side. */
export class FakeOutgoing extends EventEmitter implements Outgoing {
  writableFinished = false;
  destroyed = false;

  close(isFinished: boolean): void {
    this.writableFinished = isFinished;
    this.destroyed = true;
    this.emit('close');
  }
}

/** Parts of a test request. */
export interface RequestInput {
  readonly method?: string;
  readonly url?: string;
  /** Names and values alternately. */
  readonly headers?: readonly string[];
  readonly socket?: Incoming['socket'];
  /** Body that is pushed at once. Without it, the body stays open. */
  readonly body?: string | Uint8Array;
  readonly defaults?: Partial<RequestDefaults>;
}

/** Returns a request and its two sides. */
export function fakeRequest(input: RequestInput = {}): {
  req: TransportRequest;
  incoming: FakeIncoming;
  outgoing: FakeOutgoing;
} {
  const {
    method = 'GET',
    url = '/',
    headers = [],
    socket = { remoteAddress: '10.0.0.1' },
    body,
    defaults,
  } = input;
  const incoming = new FakeIncoming(method, url, headers, socket);
  if (body !== undefined) {
    incoming.push(body);
    incoming.push(null);
    incoming.complete = true;
  }
  const outgoing = new FakeOutgoing();
  return {
    req: new TransportRequest(incoming, outgoing, {
      state: new AppState(),
      maxBodyBytes: Infinity,
      identity: USUAL_IDENTITY,
      ...defaults,
    }),
    incoming,
    outgoing,
  };
}
