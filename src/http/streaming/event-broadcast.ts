/**
 * One source of events for many clients: each event is encoded once, and the same bytes go to every
 * connection.
 *
 * Path of an event:
 *   send(event) -> text -> chunk -┬-> connection     a client with more than maxBufferedBytes unread is cut, and reconnects
 *                               +-> connection
 *                               \-> queue          if another layer needs chunks: compression, or no socket
 *
 * Events sent in one turn of the event loop form one chunk, which is written in the next tick.
 */
import { HTTPException } from '../../base/errors.ts';
import { int, readOptions } from '../../base/options.ts';
import { COMMENT, encodeEvent, eventBody, eventFields, readEventOptions } from './event-stream.ts';
import { Heartbeat } from './heartbeat.ts';
import { EndlessChunks, SharedChunk } from '../chunks.ts';
import { HttpResponse } from '../response.ts';
import { services } from '../state.ts';
import type { EventStreamOptions, ResolvedEventOptions, ServerSentEvent, Streamed } from './event-stream.ts';
import type { ChunkSink, ChunkStep } from '../chunks.ts';

/** Options of {@link EventBroadcast}. An option that is `undefined` has its default. */
export interface EventBroadcastOptions extends Pick<EventStreamOptions, 'heartbeatSeconds' | 'retryMs'> {
  /**
   * Maximum number of bytes that wait for one client, 1_024 ... 1_073_741_824. Default 1_048_576. A client
   * beyond it is disconnected.
   */
  readonly maxBufferedBytes?: number | undefined;
  /** Maximum number of clients at a time, 1 ... 1_000_000. Default 10_000; a further one gets 503. */
  readonly maxStreams?: number | undefined;
}

/** Maximum number of characters that wait for the next tick; beyond it they are written at once. */
const MOST_TOGETHER = 65_536;

/** Sends the same events to all connected clients. */
export class EventBroadcast {
  readonly #options: ResolvedEventOptions;
  readonly #maxBufferedBytes: number;
  readonly #maxStreams: number;
  readonly #listeners = new Set<Listener>();
  /** Text of events that were sent in this turn, and not written yet. */
  #pending = '';
  readonly #flush = (): void => {
    if (this.#pending === '') return;
    const chunk = new SharedChunk(this.#pending);
    this.#pending = '';
    for (const listener of this.#listeners) listener.push(chunk);
  };

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
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
   * Returns a response that sends every event from now on. The events `missed` are sent first: those that a
   * reconnecting client has not received, see `lastEventId()`. @throws SvcError `E_EVENT`, `E_REPLY`
   */
  stream(
    missed: Iterable<ServerSentEvent | string> = [],
    options: Pick<EventStreamOptions, 'headers'> = {},
  ): HttpResponse {
    const earlier = Array.from(missed, encodeEvent).join('');
    return new BroadcastResponse(options.headers, (request) => this.#listen(earlier, request));
  }

  /**
   * Sends an event to all clients; text becomes the data of an event. Returns the number of clients.
   * @throws SvcError `E_EVENT`, `E_REPLY`
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

  /** Ends every stream. Clients that connect later are served again. */
  close(): void {
    for (const listener of this.#listeners) listener.finish();
  }

  #listen(earlier: string, request: Streamed): Listener {
    if (this.#listeners.size >= this.#maxStreams)
      throw new HTTPException(503, 'There are too many streams', { headers: { 'Retry-After': '5' } });
    const { clock } = request.state.get(services);
    this.#flush(); // writes earlier events first, which the new client must not get
    const listener: Listener = new Listener(
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
    const copy = this.fill(new BroadcastResponse(this.#given, this.#listen));
    copy.status = this.status;
    return copy;
  }

  override settle(request: Streamed): HttpResponse {
    const answer = super.copy();
    answer.body = eventBody(this.#listen(request), request);
    return answer;
  }
}

const BEAT = new SharedChunk(COMMENT);
const DONE: ChunkStep = Object.freeze({ done: true, value: undefined });

/** One client. */
class Listener extends EndlessChunks {
  readonly #maxBufferedBytes: number;
  /** Writes the events of this turn to all clients. */
  readonly #catchUp: () => void;
  readonly #onEnd: () => void;
  #sink: ChunkSink | undefined;
  /** Text that was neither pulled nor written yet. */
  #queue: string;
  #waiting: ((step: ChunkStep) => void) | undefined;
  #isOver = false;
  #isQuiet = true;

  constructor(queue: string, maxBufferedBytes: number, catchUp: () => void, onEnd: () => void) {
    super();
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
    sink.destroy(); // disconnects the slow client: its waiting events would be outdated
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

  finish(): void {
    this.#catchUp();
    if (this.#isOver) return;
    this.#end();
    this.#sink?.end();
    this.#waiting?.(DONE);
    this.#waiting = undefined;
  }

  /**
   * Keeps text for a reader that pulls, such as compression. If the reader is too slow, its stream ends after
   * the events it got, and the client reconnects.
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
