/**
 * Server-sent events: reads a source of events as fast as the client reads them. If the source yields no
 * event for some time, a comment is sent to keep the connection open. When the server stops, the stream ends
 * between two events.
 */
import { ignore } from '../../base/promises.ts';
import { int, readOptions, shown, optionalInt } from '../../base/options.ts';
import { Heartbeat } from './heartbeat.ts';
import { EndlessChunks, OwnedSource, isPending, iterate, SharedChunk } from '../chunks.ts';
import { checkedSource, HttpResponse, toJson } from '../response.ts';
import { endWithLogin, services } from '../state.ts';
import { SvcError, Unauthorized, unavailable } from '../../base/errors.ts';
import type { Awaitable, HttpRequest } from '../contracts.ts';
import type { Beating } from './heartbeat.ts';
import type { Chunk, ChunkIterator, ChunkStep, Chunks, ChunkSink } from '../chunks.ts';
import type { Answered, ResponseOptions } from '../response.ts';

/** Source of events: an iterable or async iterable. A string is an event that has only data. */
export type Events = Iterable<ServerSentEvent | string> | AsyncIterable<ServerSentEvent | string>;

/**
 * A source of events that is not interrupted when the server stops: it may yield more events, and then ends
 * by itself.
 * @internal
 */
export abstract class FiniteEvents {
  /** Called when the server stops, possibly more than once. */
  abstract finish(): void;
}

/** Options of {@link EventStreamResponse}. */
export interface EventStreamOptions extends Omit<ResponseOptions, 'mediaType' | 'status'> {
  /** Time in seconds without an event after which a comment is sent, 1 ... 3_600. Default 15. */
  readonly heartbeatSeconds?: number | undefined;
  /**
   * Time in milliseconds after which a client reconnects, 0 ... 2^31-1. By default the client chooses it:
   * some seconds in browsers.
   */
  readonly retryMs?: number | undefined;
}

interface ResolvedEventOptions {
  readonly heartbeatMs: number;
  /** Text at the start of the stream, which shows the client that it is connected. */
  readonly prelude: string;
}

/** @internal */
function readEventOptions(
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
 * Header fields for proxies, for example nginx. Proxies must not store, compress or buffer an event stream,
 * because that would delay events.
 */
const FIELDS = { 'Cache-Control': 'no-store, no-transform', 'X-Accel-Buffering': 'no' };

/** Returns the options of a response that sends server-sent events. @internal */
function eventFields(headers: Readonly<Record<string, string>> | undefined): ResponseOptions {
  return { headers: { ...FIELDS, ...headers }, mediaType: 'text/event-stream' };
}

/**
 * Sends server-sent events (`text/event-stream`), for example to an `EventSource`. Reads one event at a time
 * from the source, as fast as the client reads. If the client disconnects, the source is ended, even while it
 * is waiting for an event. If the source fails, the connection is closed, and clients reconnect.
 */
export class EventStreamResponse extends HttpResponse {
  readonly #source: Events;
  readonly #options: EventStreamOptions;
  readonly #resolved: ResolvedEventOptions;

  /**
   * @throws SvcError `E_STREAM` for a source that cannot be iterated; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
   *   for other invalid options
   */
  constructor(source: Events | ReadableStream<ServerSentEvent | string>, options: EventStreamOptions = {}) {
    const { headers, ...terms } = options;
    super(null, eventFields(headers));
    this.#source = checkedSource(source) as Events;
    this.#options = { ...options };
    this.#resolved = readEventOptions('EventStreamResponse', terms);
  }

  /** @internal */
  override copy(): EventStreamResponse {
    return this.fill(new EventStreamResponse(this.#source, this.#options));
  }

  /** @internal */
  override settle(request: Streamed): HttpResponse {
    const answer = super.copy();
    const source = iterate(this.#source as Chunks);
    answer.body = eventBody(
      new EventChunks(
        source instanceof FiniteEvents ? source : new OwnedSource(source),
        this.#resolved,
        request,
      ),
      request,
    );
    return answer;
  }
}

/** The part of a request that an event stream needs. @internal */
type Streamed = Answered & Pick<HttpRequest, 'state'> & { interrupt?(reason: Error): void };

/**
 * Returns `chunks`. They end with the login of the request. If nothing has read them, their source is ended
 * after the request. Clean-ups of the request wait until the source has ended.
 * @internal
 */
function eventBody(
  chunks: EndlessChunks & AsyncIterable<Chunk>,
  request: Streamed,
): EndlessChunks & AsyncIterable<Chunk> {
  request.afterwards?.(async (outcome) => chunks.drop(outcome), true);
  endWithLogin(request, () => chunks.finish(new Unauthorized('The login has ended')));
  return chunks;
}

const DONE: ChunkStep = Object.freeze({ done: true, value: undefined });

/** Yields the encoded events of a source, and comments while the source has no event. */
class EventChunks extends EndlessChunks implements Beating {
  readonly #source: OwnedSource | (ChunkIterator & FiniteEvents);
  readonly #request: Streamed;
  readonly #leave: () => void;
  #prelude: string | undefined;
  /** Pending result of next(); undefined if no call of next() is pending. */
  #waiting: PromiseWithResolvers<ChunkStep> | undefined;
  #isPulling = false;
  /**
   * Event that the source yielded while no call of next() was pending, because the last call has already
   * returned a comment.
   */
  #kept: Promise<ChunkStep> | undefined;
  #isOver = false;

  constructor(
    source: OwnedSource | (ChunkIterator & FiniteEvents),
    { prelude, heartbeatMs }: ResolvedEventOptions,
    request: Streamed,
  ) {
    super();
    this.#source = source;
    this.#prelude = prelude;
    this.#request = request;
    this.#leave = Heartbeat.join(request.state.get(services).clock, heartbeatMs, this);
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

  finish(reason: Error): Awaitable<void> {
    if (this.#source instanceof FiniteEvents) return this.#source.finish();
    this.return();
    this.#request.interrupt?.(reason); // return() only takes effect when the source stops waiting
    return this.#source.ended();
  }

  override drop(outcome?: unknown): Awaitable<void> {
    void super.drop(outcome);
    return this.#source instanceof FiniteEvents ? undefined : this.#source.ended();
  }

  #pull(): void {
    this.#isPulling = true;
    try {
      const step = this.#source.next();
      if (isPending(step))
        step.then(
          (ready) => this.#take(ready),
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

  /** Passes a chunk to the waiting caller of next(), or keeps it for the next call. */
  #give(step: ChunkStep | Promise<ChunkStep>): void {
    if (this.#waiting !== undefined) this.#waiting.resolve(step);
    else if (!this.#isOver) {
      this.#kept = Promise.resolve(step);
      this.#kept.catch(ignore); // a rejection is reported by the next call of next()
    } else if (step instanceof Promise) step.catch(ignore); // the stream has ended, so errors are ignored
    this.#waiting = undefined;
  }

  #over(): void {
    this.#isOver = true;
    this.#leave();
  }
}

/*
 * A server-sent event as an object, and as lines of `text/event-stream` (WHATWG HTML §9.2.5):
 *   { event: 'price', id: '7', data: { tea: 3 } }  ->  event: price ␊ id: 7 ␊ data: {"tea":3} ␊ ␊
 *
 * Event data with several lines becomes several `data:` fields, which browsers join. An event type or id must
 * not contain a line break, because the text after it would be another field or event. An id must not contain
 * NUL, because browsers ignore such ids.
 */

/** A server-sent event. It needs at least one member. A member that is `undefined` is not sent. */
export interface ServerSentEvent {
  /**
   * Event type, which determines the listeners that get the event. It must be one line. Without a type,
   * browsers use `message`.
   */
  readonly event?: string | undefined;
  /**
   * Id that a client sends back when it reconnects: see `lastEventId()`. It must be one line without NUL. An
   * empty id makes the client forget the last id.
   */
  readonly id?: string | undefined;
  /** Time after which the client reconnects, in milliseconds: an integer 0 ... 2^31-1. */
  readonly retryMs?: number | undefined;
  /**
   * Data of the event: a string, or another value, which is sent as JSON. Browsers ignore an event without
   * data.
   */
  readonly data?: unknown;
}

/** A comment, which browsers ignore. It keeps proxies from closing the connection as idle. */
const COMMENT = ':\n\n';

/** Encodes an event as lines of `text/event-stream`. A string is an event that has only data. */
export function encodeEvent(given: unknown): string {
  if (typeof given === 'string') return `${dataOf(given)}\n`;
  if (typeof given !== 'object' || given === null)
    throw new SvcError('E_EVENT', [
      `${shown(given)} is not an event: send a string, or an object with event, id, retryMs or data`,
    ]);
  const { event, id, retryMs, data } = given as ServerSentEvent;
  let text = '';
  if (event !== undefined) text += `event: ${oneLine('event', event)}\n`;
  if (id !== undefined) text += `id: ${oneLine('id', id)}\n`;
  if (retryMs !== undefined) text += retryOf(retryMs);
  if (data !== undefined) text += dataOf(typeof data === 'string' ? data : toJson(data));
  if (text === '')
    throw new SvcError('E_EVENT', ['the event is empty: set at least one of event, id, retryMs and data']);
  return `${text}\n`;
}

/** Encodes the field `retry`. */
function retryOf(ms: unknown): string {
  if (!Number.isInteger(ms) || (ms as number) < 0 || (ms as number) > 2_147_483_647)
    throw new SvcError('E_EVENT', [
      `the member "retryMs" must be an integer from 0 to 2147483647, found ${shown(ms)}`,
    ]);
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
    throw new SvcError('E_EVENT', [`the member "${name}" must be a string, found ${shown(value)}`]);
  if (/[\r\n\0]/.test(value))
    throw new SvcError('E_EVENT', [`the member "${name}" must not contain a line break or NUL`]);
  return value;
}

/**
 * Returns the id of the last event that a reconnecting client received (header field `Last-Event-ID`).
 * Undefined for a new client. Do not trust the id, because clients can send any text.
 */
export function lastEventId(req: {
  readonly headers: Readonly<Record<string, string | undefined>>;
}): string | undefined {
  const value = req.headers['last-event-id'];
  if (value === undefined || value === '') return undefined;
  // node:http decodes header fields as Latin-1, but browsers send this field in UTF-8
  return /[\x80-\xff]/.test(value) ? Buffer.from(value, 'latin1').toString() : value;
}

/** Options of {@link EventBroadcast}. An option that is `undefined` has its default. */
export interface EventBroadcastOptions extends Pick<EventStreamOptions, 'heartbeatSeconds' | 'retryMs'> {
  /**
   * Maximum number of unsent bytes for one client, 1_024 ... 1_073_741_824. Default 1_048_576. A client with
   * more unsent bytes is disconnected.
   */
  readonly maxBufferedBytes?: number | undefined;
  /** Maximum number of connected clients, 1 ... 1_000_000. Default 10_000; further clients get 503. */
  readonly maxStreams?: number | undefined;
}

/** If more than this number of characters wait for the next tick, they are written immediately. */
const MOST_TOGETHER = 65_536;

/**
 * Sends the same events to all connected clients. Each event is encoded once, and the same bytes are written
 * to every connection. Events that are sent in one turn of the event loop are joined to one chunk, which is
 * written in the next tick.
 *
 * If more than `maxBufferedBytes` are unsent because a client reads too slowly, its connection is closed, and
 * the client reconnects.
 */
export class EventBroadcast {
  readonly #options: ResolvedEventOptions;
  readonly #maxBufferedBytes: number;
  readonly #maxStreams: number;
  readonly #listeners = new Set<Listener>();
  /** Number of calls of close(). */
  #closings = 0;
  /** Text of the events that wait for the next tick. */
  #pending = '';
  readonly #flush = (): void => {
    if (this.#pending === '') return;
    const chunk = new SharedChunk(this.#pending);
    this.#pending = '';
    for (const listener of this.#listeners) listener.push(chunk);
  };

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for a value out of range */
  constructor(options: EventBroadcastOptions = {}) {
    const { heartbeatSeconds, retryMs, ...bounds } = options;
    const { maxBufferedBytes, maxStreams } = readOptions('EventBroadcast', bounds, {
      maxBufferedBytes: int(1_048_576, 1_024, 1_073_741_824),
      maxStreams: int(10_000, 1, 1_000_000),
    });
    this.#options = readEventOptions('EventBroadcast', { heartbeatSeconds, retryMs });
    this.#maxBufferedBytes = maxBufferedBytes;
    this.#maxStreams = maxStreams;
  }

  /** Number of connected clients. */
  get size(): number {
    return this.#listeners.size;
  }

  /**
   * Returns a response that sends `missed`, and then all later events to a client. `missed` are the events
   * that a reconnecting client has not received; see `lastEventId()`.
   */
  stream(
    missed: Iterable<ServerSentEvent | string> = [],
    options: Pick<EventStreamOptions, 'headers'> = {},
  ): HttpResponse {
    const earlier = Array.from(missed, encodeEvent).join('');
    let closings: number | undefined = this.#closings;
    return new BroadcastResponse(options.headers, (request) => {
      const listener = this.#listen(earlier, request);
      if (closings !== undefined && closings !== this.#closings) listener.finish();
      closings = undefined; // when the program returns the response again, the client is a later one
      return listener;
    });
  }

  /**
   * Sends an event to all clients. A string is an event that has only data. Returns the number of clients.
   * @throws SvcError `E_EVENT` for an invalid event, `E_REPLY` for data that has no JSON form
   */
  send(event: ServerSentEvent | string): number {
    const text = encodeEvent(event);
    const { size } = this.#listeners;
    if (size === 0) return 0;
    if (this.#pending === '') process.nextTick(this.#flush);
    this.#pending += text;
    if (this.#pending.length > MOST_TOGETHER) this.#flush();
    return size;
  }

  /**
   * Ends the streams of all clients, also those of responses that are not sent yet. The clients may connect
   * again.
   */
  close(): void {
    this.#closings++;
    for (const listener of this.#listeners) listener.finish();
  }

  #listen(earlier: string, request: Streamed): Listener {
    if (this.#listeners.size >= this.#maxStreams)
      throw unavailable('There are too many event streams; connect again later', 5);
    const { clock } = request.state.get(services);
    this.#flush(); // writes waiting events now, because the new client must not get them
    const listener: Listener = new Listener(
      request,
      this.#options.prelude + earlier,
      this.#maxBufferedBytes,
      this.#flush,
      () => {
        this.#listeners.delete(listener);
        leave();
      },
    );
    const leave = Heartbeat.join(clock, this.#options.heartbeatMs, listener);
    this.#listeners.add(listener);
    return listener;
  }
}

class BroadcastResponse extends HttpResponse {
  readonly #given: Readonly<Record<string, string>> | undefined;
  readonly #listen: (request: Streamed) => Listener;

  constructor(
    headers: Readonly<Record<string, string>> | undefined,
    listen: (request: Streamed) => Listener,
  ) {
    super(null, eventFields(headers));
    this.#given = headers;
    this.#listen = listen;
  }

  override copy(): BroadcastResponse {
    return this.fill(new BroadcastResponse(this.#given, this.#listen));
  }

  override settle(request: Streamed): HttpResponse {
    const answer = super.copy();
    answer.body = eventBody(this.#listen(request), request);
    return answer;
  }
}

const BEAT = new SharedChunk(COMMENT);

/** The event stream of one client. */
class Listener extends EndlessChunks {
  readonly #maxBufferedBytes: number;
  /** Writes waiting events to the streams of all clients at once, without waiting for the next tick. */
  readonly #catchUp: () => void;
  readonly #onEnd: () => void;
  readonly #request: Streamed;
  #sink: ChunkSink | undefined;
  /** Text that waits until attach() writes it to the client, or next() returns it. */
  #queue: string;
  #waiting: ((step: ChunkStep) => void) | undefined;
  #isOver = false;
  #isQuiet = true;

  constructor(
    request: Streamed,
    queue: string,
    maxBufferedBytes: number,
    catchUp: () => void,
    onEnd: () => void,
  ) {
    super();
    this.#request = request;
    this.#queue = queue;
    this.#maxBufferedBytes = maxBufferedBytes;
    this.#catchUp = catchUp;
    this.#onEnd = onEnd;
  }

  override attach(sink: ChunkSink): boolean {
    this.#sink = sink;
    sink.write(this.#queue);
    this.#queue = '';
    if (this.#isOver) sink.end();
    return true;
  }

  push(chunk: SharedChunk): void {
    this.#isQuiet = false;
    const sink = this.#sink;
    if (sink === undefined) return this.#keep(chunk.text);
    if (sink.writeShared(chunk) || sink.writableLength <= this.#maxBufferedBytes) return;
    this.#end();
    // the client reads too slowly, and would get the events too late
    sink.destroy();
  }

  beat(): void {
    this.#catchUp();
    if (this.#isQuiet) this.push(BEAT);
    this.#isQuiet = true;
  }

  next(): ChunkStep | Promise<ChunkStep> {
    if (this.#queue !== '') {
      const value = this.#queue;
      this.#queue = '';
      return { done: false, value };
    }
    if (this.#isOver) return DONE;
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  return(): void {
    this.#queue = '';
    this.finish();
  }

  finish(reason?: Error): void {
    this.#catchUp();
    if (this.#isOver) return;
    this.#end();
    this.#sink?.end();
    this.#waiting?.(DONE);
    this.#waiting = undefined;
    if (reason !== undefined) this.#request.interrupt?.(reason);
  }

  /**
   * Passes text to middleware that reads the stream, such as compression, or keeps it for the next read. If
   * the middleware reads too slowly, the stream ends, and the client reconnects.
   */
  #keep(text: string): void {
    if (this.#waiting !== undefined) {
      this.#waiting({ done: false, value: text });
      this.#waiting = undefined;
    } else if (this.#queue.length + text.length <= this.#maxBufferedBytes) this.#queue += text;
    else this.return();
  }

  #end(): void {
    this.#isOver = true;
    this.#onEnd();
  }
}
