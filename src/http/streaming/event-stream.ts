/**
 * Server-sent events: reads a source as fast as the client reads its events, and sends comments in between to
 * keep the connection alive.
 *
 * Path of the events:
 *   source - next() - encodeEvent() -\
 *                       heartbeat ---┴-> chunk -> the client               a stopping server ends the stream between two events
 */
import { ignore } from '../../base/promises.ts';
import { int, readOptions, shown, optionalInt } from '../../base/options.ts';
import { Heartbeat } from './heartbeat.ts';
import { EndlessChunks, inContext, isPending, iterate } from '../chunks.ts';
import { checkedSource, HttpResponse, toJson } from '../response.ts';
import { services } from '../state.ts';
import { SvcError } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { HttpRequest } from '../contracts.ts';
import type { Beating } from './heartbeat.ts';
import type { Chunk, ChunkIterator, ChunkStep, Chunks } from '../chunks.ts';
import type { Answered, ResponseOptions } from '../response.ts';

/** Sources of events: iterables, async iterables and web streams. A string is an event with this data. */
export type Events = Iterable<ServerSentEvent | string> | AsyncIterable<ServerSentEvent | string>;

/** A source that can send last events when the server stops, and then ends. @internal */
export abstract class FiniteEvents {
  /** Called when the server stops, possibly more than once. */
  abstract finish(): void;
}

/** Options of an event stream. */
export interface EventStreamOptions extends Omit<ResponseOptions, 'mediaType' | 'status'> {
  /** Seconds without an event after which a comment is sent, 1 ... 3_600. Default 15. */
  readonly heartbeatSeconds?: number | undefined;
  /**
   * Delay in milliseconds before the client reconnects, 0 ... 2^31-1. Default: chosen by the client, some
   * seconds in browsers.
   */
  readonly retryMs?: number | undefined;
}

/** Checked options of an event stream. @internal */
export interface ResolvedEventOptions {
  readonly heartbeatMs: number;
  /** Text sent first, so that the client knows that it is connected. */
  readonly prelude: string;
}

/**
 * Checks the options, and fills in defaults.
 * @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` @internal
 */
export function readEventOptions(
  owner: string,
  options: Pick<EventStreamOptions, 'heartbeatSeconds' | 'retryMs'>,
): ResolvedEventOptions {
  const { heartbeatSeconds, retryMs } = readOptions(owner, options, {
    heartbeatSeconds: int(15, 1, 3_600),
    retryMs: optionalInt(0, 2_147_483_647),
  });
  return {
    heartbeatMs: heartbeatSeconds * 1_000,
    prelude: retryMs === undefined ? COMMENT : `${retryOf(retryMs)}\n`,
  };
}

/**
 * Fields that keep proxies from storing the stream, from compressing it (which would delay events), and nginx
 * from buffering it.
 */
const FIELDS = { 'Cache-Control': 'no-store, no-transform', 'X-Accel-Buffering': 'no' };

/** Options of a response that sends events. @internal */
export function eventFields(headers: Readonly<Record<string, string>> | undefined): ResponseOptions {
  return { headers: { ...FIELDS, ...headers }, mediaType: 'text/event-stream' };
}

/**
 * Sends server-sent events (`text/event-stream`) for `EventSource`, one at a time as fast as the client
 * reads. The source is ended when the client leaves, even while an event is awaited. If the source fails, the
 * connection is closed, and clients reconnect.
 */
export class EventStreamResponse extends HttpResponse {
  readonly #source: Events;
  readonly #options: EventStreamOptions;
  readonly #resolved: ResolvedEventOptions;

  /**
   * @throws SvcError `E_STREAM` for a source that cannot be iterated, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
   */
  constructor(source: Events | ReadableStream<ServerSentEvent | string>, options: EventStreamOptions = {}) {
    const { headers, ...terms } = options;
    super(null, eventFields(headers));
    // the cast is safe: each item is checked when it is pulled
    this.#source = checkedSource(source) as Events;
    this.#options = { ...options };
    this.#resolved = readEventOptions('EventStreamResponse', terms);
  }

  /** @internal */
  override copy(): EventStreamResponse {
    const copy = this.fill(new EventStreamResponse(this.#source, this.#options));
    copy.status = this.status;
    return copy;
  }

  /** @internal */
  override settle(request: Streamed): HttpResponse {
    const answer = super.copy();
    const source = iterate(this.#source as Chunks);
    answer.body = eventBody(
      new EventChunks(
        source instanceof FiniteEvents ? source : inContext(source),
        this.#resolved,
        request.state.get(services).clock,
      ),
      request,
    );
    return answer;
  }
}

/** The part of a request that its event stream uses. @internal */
export type Streamed = Answered & Pick<HttpRequest, 'state'>;

/**
 * Creates the body of an event stream. Ends its source with the request if the body was never read. @internal
 */
export function eventBody(
  chunks: EndlessChunks & AsyncIterable<Chunk>,
  request: Streamed,
): EndlessChunks & AsyncIterable<Chunk> {
  request.afterwards?.(async () => chunks.drop());
  return chunks;
}

const DONE: ChunkStep = Object.freeze({ done: true, value: undefined });

/** Events pulled from a source, and heartbeats while it has none. */
class EventChunks extends EndlessChunks implements Beating {
  readonly #source: ChunkIterator;
  readonly #leave: () => void;
  #prelude: string | undefined;
  /** Resolvers of the promise of the reader that waits for the next chunk. */
  #waiting: PromiseWithResolvers<ChunkStep> | undefined;
  #isPulling = false;
  /** Step of the source that arrived after the reader had got a heartbeat. */
  #kept: Promise<ChunkStep> | undefined;
  #isOver = false;

  constructor(source: ChunkIterator, { prelude, heartbeatMs }: ResolvedEventOptions, clock: Clock) {
    super();
    this.#source = source;
    this.#prelude = prelude;
    this.#leave = Heartbeat.join(clock, heartbeatMs, this);
  }

  next(): ChunkStep | Promise<ChunkStep> {
    if (this.#prelude !== undefined) {
      const value = this.#prelude;
      this.#prelude = undefined;
      return { done: false, value };
    }
    const kept = this.#kept;
    this.#kept = undefined;
    if (kept !== undefined) return kept;
    if (this.#isOver) return DONE;
    const { promise } = (this.#waiting = Promise.withResolvers<ChunkStep>());
    if (!this.#isPulling) this.#pull();
    return promise;
  }

  beat(): void {
    this.#waiting?.resolve({ done: false, value: COMMENT });
    this.#waiting = undefined;
  }

  return(): unknown {
    if (this.#isOver) return undefined;
    this.#over();
    this.#waiting?.resolve(DONE);
    this.#waiting = undefined;
    return this.#source.return?.();
  }

  finish(): void {
    if (this.#source instanceof FiniteEvents) return this.#source.finish();
    // not awaited: the response is complete, even if the source does not end
    Promise.try(() => this.return()).catch(ignore);
  }

  #pull(): void {
    this.#isPulling = true;
    try {
      const step = this.#source.next();
      if (isPending(step))
        step.then(
          (settled) => this.#take(settled),
          (error: unknown) => this.#give(Promise.reject(error)),
        );
      else this.#take(step);
    } catch (error) {
      this.#give(Promise.reject(error));
    }
  }

  #take(step: ChunkStep): void {
    this.#isPulling = false;
    if (step.done === true) {
      this.#over();
      return this.#give(DONE);
    }
    try {
      this.#give({ done: false, value: encodeEvent(step.value) });
    } catch (error) {
      this.#give(Promise.reject(error));
    }
  }

  /** Passes a step to the waiting reader, or keeps it for the next one. */
  #give(step: ChunkStep | Promise<ChunkStep>): void {
    if (this.#waiting !== undefined) this.#waiting.resolve(step);
    else if (!this.#isOver) {
      this.#kept = Promise.resolve(step);
      this.#kept.catch(ignore); // the next pull reports a rejection
    } else if (step instanceof Promise) step.catch(ignore); // the stream has ended, so a rejection is ignored
    this.#waiting = undefined;
  }

  #over(): void {
    this.#isOver = true;
    this.#leave();
  }
}

/*
 * Format of server-sent events (WHATWG HTML §9.2.5): encodes event objects as lines of `text/event-stream`.
 *
 * Example:
 *   { event: 'price', id: '7', data: { tea: 3 } }  ->  event: price ␊ id: 7 ␊ data: {"tea":3} ␊ ␊
 *
 * Data with several lines becomes several `data:` fields, which browsers join. Event types and ids with a
 * line break are refused, because they would become other fields or events. Ids with NUL are refused, because
 * browsers ignore them.
 */

/** An event, with at least one of its members. A member that is `undefined` is not sent. */
export interface ServerSentEvent {
  /** Event type, which selects the listeners; browsers use `message` by default. One line. */
  readonly event?: string | undefined;
  /**
   * Id that a reconnecting client sends back: see `lastEventId()`. One line without NUL; an empty one resets
   * the id.
   */
  readonly id?: string | undefined;
  /** Reconnection delay in milliseconds: an integer 0 ... 2^31-1. */
  readonly retryMs?: number | undefined;
  /** Data: a string, or any other value, which is sent as JSON. Browsers ignore an event without data. */
  readonly data?: unknown;
}

/** A comment line, which browsers ignore: it keeps proxies from closing the connection as idle. */
export const COMMENT = ':\n\n';

/**
 * Encodes an event; a string becomes the data of an event.
 * @throws SvcError `E_EVENT`, `E_REPLY` for data without JSON
 */
export function encodeEvent(given: unknown): string {
  if (typeof given === 'string') return `${dataOf(given)}\n`;
  if (typeof given !== 'object' || given === null)
    throw new SvcError('E_EVENT', [`${shown(given)} is not an event`]);
  const { event, id, retryMs, data } = given as ServerSentEvent;
  let text = '';
  if (event !== undefined) text += `event: ${oneLine('event', event)}\n`;
  if (id !== undefined) text += `id: ${oneLine('id', id)}\n`;
  if (retryMs !== undefined) text += retryOf(retryMs);
  if (data !== undefined) text += dataOf(typeof data === 'string' ? data : toJson(data));
  if (text === '') throw new SvcError('E_EVENT', ['it has none of event, id, retryMs and data']);
  return `${text}\n`;
}

/** Encodes the field `retry`. @throws SvcError `E_EVENT` */
function retryOf(ms: unknown): string {
  if (!Number.isInteger(ms) || (ms as number) < 0 || (ms as number) > 2_147_483_647)
    throw new SvcError('E_EVENT', [`its retryMs is ${shown(ms)}, an integer 0 … 2147483647 is needed`]);
  return `retry: ${String(ms)}\n`;
}

function dataOf(text: string): string {
  if (!text.includes('\n') && !text.includes('\r')) return `data: ${text}\n`;
  return text
    .split(/\r\n|\r|\n/)
    .map((line) => `data: ${line}\n`)
    .join('');
}

function oneLine(name: string, value: unknown): string {
  if (typeof value !== 'string')
    throw new SvcError('E_EVENT', [`its ${name} is ${shown(value)}, a string is needed`]);
  if (/[\r\n\0]/.test(value)) throw new SvcError('E_EVENT', [`its ${name} has a line break or NUL`]);
  return value;
}

/**
 * Id of the last event that a reconnecting client received (field `Last-Event-ID`); undefined for a new
 * client. Clients can send any id: look it up, do not trust it.
 */
export function lastEventId(req: {
  readonly headers: Readonly<Record<string, string | undefined>>;
}): string | undefined {
  const value = req.headers['last-event-id'];
  if (value === undefined || value === '') return undefined;
  // node:http decodes fields as Latin-1, but browsers send UTF-8
  return /[\x80-\xff]/.test(value) ? Buffer.from(value, 'latin1').toString() : value;
}
