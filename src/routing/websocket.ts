/**
 * WebSocket routes: a spec declares them, and the compilation turns them into routes that respond with 101.
 *
 * Two ways to declare a WebSocket route:
 *   app.websocket('/chat/{room}', spec).onOpen(...).onMessage(...).onClose(...)
 *   app.websocket('/echo', async (socket) => { for await (const message of socket) socket.send(message); });
 *
 * Order of the steps of a WebSocket handshake, with the statuses by which they refuse a request:
 *   1. run the middleware
 *   2. check the handshake (400, 426) and the origin (403)
 *   3. resolve dependencies and validate inputs, as for any route (401, 403, 400)
 *   4. respond with 101, and call the handlers
 *
 * Dependencies of a WebSocket route are cleaned up at different times: with scope `handler` before the 101 is
 * sent, with scope `request` when the WebSocket has closed.
 */
import { BadRequest, HTTPException, SvcError } from '../base/errors.ts';
import { LazyModule } from '../base/promises.ts';
import { bool, given, int, isBoolean, isObject, oneOf, readOptions } from '../base/options.ts';
import { inSpan } from '../observability/tracer.ts';
import { ValidationError, compileType } from '../schema/schema.ts';
import { isToken } from '../http/headers.ts';
import {
  OriginGuard,
  negotiateDeflate,
  readCompression,
  readHandshake,
} from '../http/websocket/handshake.ts';
import { apart, readDependencies, SHARED_SPEC } from './spec.ts';
import { SwitchingProtocols } from '../http/server/websockets.ts';
import type { CheckedSpec, Dependency, InputOf } from './di.ts';
import type { Infer, TypeSource } from '../schema/schema.ts';
import type {
  Awaitable,
  CompiledView,
  Context,
  HttpRequest,
  Middleware,
  Next,
  Services,
} from '../http/contracts.ts';
import type { SpanStart, Tracer } from '../observability/tracer.ts';
import type { Origins } from '../http/origins.ts';
import type { PathParams } from '../http/path.ts';
import type { HttpResponse } from '../http/response.ts';
import type { Rooms } from '../http/websocket/rooms.ts';
import type { WebSocketClose } from '../http/websocket/closing.ts';
import type { SocketListener } from '../http/websocket/handlers.ts';
import type { SharedSocketDeps } from '../http/websocket/handlers.ts';
import type { WebSocketConnection } from '../http/websocket/websocket.ts';
import type { WebSocketCompression } from '../http/websocket/handshake.ts';
import type { WebSocketMeter } from '../http/websocket/meter.ts';
import type { SlowConsumerPolicy } from '../http/websocket/sender.ts';
import type { Agreement, OpenSocket } from '../http/server/websockets.ts';
import type { OptionKind } from '../base/options.ts';
import type { Allowance, Dependencies, SharedSpec } from './spec.ts';

/**
 * Spec of a WebSocket route. Every key that is not an option is a dependency, which the handlers receive
 * under this name.
 */
export interface WebSocketSpec extends SharedSpec {
  /** Whether clients should stop using the route. */
  readonly deprecated?: boolean | undefined;
  /**
   * Type of the messages of clients, which must be JSON: a schema class, or a type such as `list(Item)`.
   * Default: strings and bytes without validation.
   */
  readonly message?: TypeSource | undefined;
  /**
   * Subprotocols that the route supports. The first one in the client's list that the route supports is used.
   * Without a match, the WebSocket has no subprotocol.
   */
  readonly protocols?: readonly string[] | undefined;
  /**
   * Origins whose pages may open the WebSocket, besides the application's own origin: a list, a function, or
   * `'*'` for all. Default: the origins that CORSMiddleware allows with credentials.
   */
  readonly origins?: Origins | undefined;
  /** Accepts handshakes without an Origin field, which do not come from browsers. Default false. */
  readonly allowMissingOrigin?: boolean | undefined;
  /**
   * Maximum size of a message in bytes, after decompression, 1 ... 1_073_741_824. Default 1_048_576. A larger
   * message closes the WebSocket with 1009.
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * Maximum number of bytes that may wait for a client which reads too slowly, 65_536 ... 1_073_741_824.
   * Default 1_048_576.
   */
  readonly maxBufferedBytes?: number | undefined;
  /**
   * Behaviour when `maxBufferedBytes` is reached. `disconnect` closes the WebSocket with 1008, `drop-oldest`
   * drops the oldest messages, and `wait` makes `send()` throw. Default `disconnect`.
   */
  readonly slowConsumer?: SlowConsumerPolicy | undefined;
  /**
   * Time without data from the client after which a ping is sent, 100 ... 3_600_000 ms; false means no pings.
   * If the pong does not arrive within the same time, the connection is closed. Default 30_000.
   */
  readonly heartbeatMs?: number | false | undefined;
  /**
   * Time without a message from the client after which the WebSocket closes with 1000, 100 ... 86_400_000 ms;
   * false means unlimited. Default false.
   */
  readonly idleTimeoutMs?: number | false | undefined;
  /**
   * Time in which the client must answer a close frame, 10 ... 60_000 ms. Handlers also have this time to
   * reply to messages that arrived before the client closed. Default 5_000.
   */
  readonly closeTimeoutMs?: number | undefined;
  /** Maximum number of rooms that a WebSocket may join, 1 ... 100_000. Default 1_000. */
  readonly maxRooms?: number | undefined;
  /** Compresses messages if the client supports it (RFC 7692). Default false. */
  readonly compression?: boolean | WebSocketCompression | undefined;
  /** Findings of `svc check` that are intended on this route. */
  readonly allow?: readonly Allowance[] | undefined;
}

/** Names that dependencies of a WebSocket route cannot have. */
type ReservedSocketKey =
  keyof WebSocketSpec | 'params' | 'req' | 'signal' | 'state' | 'body' | 'form' | 'response' | 'status';

/** Type of an argument that is the spec `S` of a WebSocket route. */
export type CheckedSocketSpec<S> = CheckedSpec<
  S,
  WebSocketSpec,
  ReservedSocketKey,
  'an option of a WebSocket nor Depends(…): put your own data into meta'
>;

type SocketInjected<S, Taken = never> = {
  readonly [K in Exclude<keyof S, ReservedSocketKey | Taken>]: S[K] extends Dependency<infer T> ? T : never;
};
type SocketInputs<S> = { readonly [K in keyof S & ('query' | 'headers' | 'cookies')]: InputOf<S[K]> };

/** Context of the handlers: path parameters, inputs, and the dependencies of the route and its routers. */
export type SocketContext<P extends string, S = object, D = object> = Context & {
  readonly params: PathParams<P>;
} & SocketInputs<S> &
  SocketInjected<S> &
  SocketInjected<D, keyof S>;

/** Type of a message: the type in the option `message`, or else strings and bytes. */
export type MessageOf<S> = S extends { readonly message: infer T extends TypeSource }
  ? Infer<T>
  : string | Uint8Array;

/**
 * A WebSocket, as its handlers use it. `for await (const message of socket)` iterates over its messages, and
 * ends when the WebSocket closes. After the loop is left, the WebSocket stays open, and can be iterated
 * again.
 */
export interface Socket<M = string | Uint8Array> extends AsyncIterable<M> {
  /** Chosen subprotocol; empty if there is none. */
  readonly protocol: string;
  /**
   * Whether messages can be sent. After a close by the client, it stays true while handlers of earlier
   * messages still run, at most for `closeTimeoutMs`. Their replies are sent before the close frame.
   */
  readonly isOpen: boolean;
  /** Number of bytes of sent messages that the operating system has not accepted yet. */
  readonly bufferedAmount: number;
  /**
   * Sends a string as a text message, or bytes as a binary message. The bytes must not be changed afterwards.
   * Returns false if the message is dropped: the WebSocket is closed, or this message makes it close.
   * @throws SvcError `E_WEBSOCKET_DATA` when the data is neither a string nor bytes; `E_WEBSOCKET_FULL` when
   * `maxBufferedBytes` is reached, and `slowConsumer` is `wait`
   */
  send(data: string | Uint8Array): boolean;
  /**
   * Sends a value as JSON. Returns the result of {@link send}.
   * @throws SvcError `E_REPLY` when the value has no JSON form
   */
  sendJson(value: unknown): boolean;
  /** Resolves when the buffer of unsent messages has room again, or the WebSocket has closed. */
  drain(): Promise<void>;
  /**
   * Sends a ping. Resolves with the time until the pong in milliseconds, or with undefined if the WebSocket
   * closes first.
   */
  ping(): Promise<number | undefined>;
  /**
   * Closes the WebSocket after all sent messages. Default code 1000; `reason` is shortened to 123 bytes.
   * @throws SvcError `E_WEBSOCKET_CLOSE` when a close frame cannot have this code
   */
  close(code?: number, reason?: string): void;
  /**
   * Joins a room, so that this WebSocket receives messages to the room.
   * @throws SvcError `E_ROOM` when the WebSocket is already in `maxRooms` rooms, or the name is invalid
   */
  join(room: string): void;
  /** Leaves a room. Does nothing if the WebSocket is not in it. */
  leave(room: string): void;
  /** Sends a message to all other WebSockets in a room, in all processes. */
  broadcast(room: string, data: string | Uint8Array): void;
  /** Sends a value as JSON to all other WebSockets in a room, in all processes. */
  broadcastJson(room: string, value: unknown): void;
}

/**
 * Handler that is called once for each WebSocket. When it returns, the WebSocket closes with 1000. When it
 * throws an HTTPException with a status below 500, the WebSocket closes with 1007 for status 400, 1003 for
 * 415, and 1008 for others. Any other error closes it with 1011.
 */
export type SocketHandler<C, M = string | Uint8Array> = (socket: Socket<M>, context: C) => Awaitable<unknown>;

/** A message waits until the handler of the previous event has settled. */
interface Callbacks<C, M> {
  open?: (socket: Socket<M>, context: C) => Awaitable<unknown>;
  message?: (socket: Socket<M>, message: M, context: C) => Awaitable<unknown>;
  close?: (socket: Socket<M>, close: WebSocketClose, context: C) => Awaitable<unknown>;
  error?: (socket: Socket<M>, error: unknown, context: C) => Awaitable<unknown>;
}

/**
 * Collects the handlers of a WebSocket route. `C` is the type of their context, `M` the type of a message.
 */
export class WebSocketRouter<C = Context, M = string | Uint8Array> {
  // The type of this member does not contain C, so that a router is assignable to a router with another
  // context type.
  readonly #callbacks: Callbacks<never, M> = {};
  readonly #subject: string;
  #isFrozen = false;

  /** @internal */
  constructor(subject: string) {
    this.#subject = subject;
  }

  /** Sets the handler that is called when the WebSocket has opened, before the first message. */
  onOpen(fn: NonNullable<Callbacks<C, M>['open']>): this {
    return this.#set('open', fn);
  }

  /**
   * Sets the handler for messages. It is called for one message after another, and never twice at the same
   * time.
   */
  onMessage(fn: NonNullable<Callbacks<C, M>['message']>): this {
    return this.#set('message', fn);
  }

  /**
   * Sets the handler that is called once, after the last message. The close code 1006 means that the
   * connection was lost.
   */
  onClose(fn: NonNullable<Callbacks<C, M>['close']>): this {
    return this.#set('close', fn);
  }

  /**
   * Sets the handler for errors of the other handlers, and for messages that do not match their type
   * (`ValidationError`). The WebSocket stays open. Without this handler, it closes with the code that
   * {@link SocketHandler} describes.
   */
  onError(fn: NonNullable<Callbacks<C, M>['error']>): this {
    return this.#set('error', fn);
  }

  /** Returns the handlers. Afterwards, no handler can be added. @internal */
  take(): Callbacks<never, M> {
    this.#isFrozen = true;
    return this.#callbacks;
  }

  #set<K extends keyof Callbacks<never, M>>(key: K, fn: NonNullable<Callbacks<C, M>[K]>): this {
    if (this.#isFrozen) throw new SvcError('E_APP_FROZEN', [`handlers of ${this.#subject}`]);
    if (typeof fn !== 'function') throw new SvcError('E_ROUTE_HANDLER', [this.#subject]);
    if (this.#callbacks[key] !== undefined)
      throw new SvcError('E_ROUTE_SPEC', [
        this.#subject,
        `on${key[0]!.toUpperCase()}${key.slice(1)}`,
        'already has a handler: a WebSocket route has one handler for each event',
      ]);
    this.#callbacks[key] = fn as Callbacks<never, M>[K];
    return this;
  }
}

/** Rooms and metrics that all WebSockets of an application share. */
export interface SocketHub {
  readonly rooms: Rooms;
  readonly meter: WebSocketMeter;
}

const time = (fallback: number, most: number): OptionKind<number | false> => ({
  fallback: fallback === 0 ? false : fallback,
  needs: `false or an integer 100 … ${most}`,
  accepts: (value) => value === false || int(100, 100, most).accepts(value),
});

const SPEC: Readonly<Record<keyof WebSocketSpec, OptionKind<unknown>>> = {
  ...SHARED_SPEC,
  deprecated: bool(),
  message: given<TypeSource>(),
  protocols: given<readonly string[]>(
    'a list of tokens',
    (value) => Array.isArray(value) && value.every((item) => typeof item === 'string' && isToken(item)),
  ),
  origins: given<Origins>(
    `'*', a list of origins or a function`,
    (value) => value === '*' || typeof value === 'function' || Array.isArray(value),
  ),
  allowMissingOrigin: { fallback: false, needs: 'true or false', accepts: isBoolean },
  maxMessageBytes: int(1_048_576, 1, 2 ** 30),
  maxBufferedBytes: int(1_048_576, 65_536, 2 ** 30),
  slowConsumer: oneOf<SlowConsumerPolicy>(['disconnect', 'drop-oldest', 'wait'], 'disconnect'),
  heartbeatMs: time(30_000, 3_600_000),
  idleTimeoutMs: time(0, 86_400_000),
  closeTimeoutMs: int(5_000, 10, 60_000),
  maxRooms: int(1_000, 1, 100_000),
  compression: given<boolean | WebSocketCompression>(
    'true, false or { level, thresholdBytes, contextTakeover, windowBits }',
    (value) => isBoolean(value) || isObject(value),
  ),
  allow: given<readonly Allowance[]>('a list of { rule, reason }', Array.isArray),
};

interface SocketOptions extends WebSocketSpec {
  readonly allowMissingOrigin: boolean;
  readonly maxMessageBytes: number;
  readonly maxBufferedBytes: number;
  readonly slowConsumer: SlowConsumerPolicy;
  readonly heartbeatMs: number | false;
  readonly idleTimeoutMs: number | false;
  readonly closeTimeoutMs: number;
  readonly maxRooms: number;
}

const RESERVED: ReadonlySet<string> = new Set<ReservedSocketKey>([
  'params',
  'req',
  'signal',
  'state',
  'body',
  'form',
  'response',
  'status',
]);

/** A WebSocket route as the program has declared it. @internal */
export class DeclaredSocket {
  readonly subject: string;
  readonly options: SocketOptions;
  readonly deps: Dependencies;
  readonly router: WebSocketRouter<never, never>;
  readonly guard: HandshakeGuard;
  readonly #handler: SocketHandler<never, never> | undefined;

  constructor(path: string, rest: readonly unknown[]) {
    this.subject = `WEBSOCKET ${path}`;
    const handler = typeof rest.at(-1) === 'function' ? rest.at(-1) : undefined;
    const [spec = {}] = handler === undefined ? rest : rest.slice(0, -1);
    if (!isObject(spec)) throw new SvcError('E_ROUTE_HANDLER', [this.subject]);
    const [options, given] = apart(spec, SPEC);
    this.options = readOptions(this.subject, options, SPEC) as SocketOptions;
    this.deps = readDependencies(this.subject, given, RESERVED, 'an option of a WebSocket', SPEC);
    this.router = new WebSocketRouter(this.subject);
    this.#handler = handler as SocketHandler<never, never> | undefined;
    this.guard = new HandshakeGuard(this.subject, this.options);
  }

  /** All handlers of the route. After the first read of this property, no handler can be added. */
  get handlers(): readonly ((...args: never[]) => unknown)[] {
    return [this.#handler ?? [], Object.values(this.router.take())].flat();
  }

  /**
   * Returns the handler of this route, whose template is `path`, for one application. The handler returns the
   * 101 response. The WebSocket opens when this response is sent.
   */
  compile(
    path: string,
    hub: SocketHub,
    services: Services,
    onUnhandled: SharedSocketDeps<WebSocketConnection>['onUnhandled'],
  ): (context: Context) => HttpResponse {
    const deps: SharedSocketDeps<WebSocketConnection> = {
      ...this.options,
      heartbeatMs: this.options.heartbeatMs || 0,
      idleTimeoutMs: this.options.idleTimeoutMs || 0,
      compression: this.guard.compression,
      listener: this.#listener(path, services.tracer),
      clock: services.clock,
      log: services.log,
      rooms: hub.rooms,
      meter: hub.meter,
      onUnhandled,
    };
    openSockets.want();
    // `loaded` is defined, because the start of the application loads the module
    const open: OpenSocket = (stream, own) => new openSockets.loaded!.WebSocketConnection(stream, deps, own);
    return (context) => new SwitchingProtocols(this.guard.takeAgreement(context.req), open, context);
  }

  #listener(path: string, tracer: Tracer | undefined): SocketListener<WebSocketConnection> {
    const decode = decoder(this.options.message, this.subject);
    const handler = this.#handler as
      ((socket: WebSocketConnection, context: unknown) => Awaitable<unknown>) | undefined;
    if (handler !== undefined) {
      return {
        decode,
        onClose: () => undefined,
        onOpen: async (socket) => {
          await handler(socket, socket.context);
          socket.close();
        },
      };
    }
    const { open, message, close, error } = this.router.take() as Callbacks<unknown, unknown>;
    return {
      decode,
      onOpen: (socket) => open?.(socket, socket.context),
      onMessage: message === undefined ? undefined : messageHandler(message, path, tracer),
      onClose: (socket, how) => close?.(socket, how, socket.context),
      onError: error === undefined ? undefined : (socket, thrown) => error(socket, thrown, socket.context),
    };
  }
}

/** Returns a function that calls the handler of messages: with a tracer, each time in a span. */
function messageHandler(
  handler: NonNullable<Callbacks<unknown, unknown>['message']>,
  path: string,
  tracer: Tracer | undefined,
): NonNullable<SocketListener<WebSocketConnection>['onMessage']> {
  if (tracer === undefined) return (socket, data) => handler(socket, data, socket.context);
  const start: SpanStart = { kind: 'consumer', attributes: { 'http.route': path } };
  return (socket, data) =>
    inSpan(tracer, `message ${path}`, start, () => handler(socket, data, socket.context));
}

/** Code for open WebSockets, which applications without WebSockets do not need. */
const openSockets = new LazyModule(() => import('../http/websocket/websocket.ts'));

/**
 * Middleware of a WebSocket route. It checks the handshake first, so that the dependencies of the route are
 * not resolved for an ordinary request.
 */
class HandshakeGuard implements Middleware {
  readonly compression: SharedSocketDeps<WebSocketConnection>['compression'];
  readonly origin: OriginGuard;
  readonly #protocols: ReadonlySet<string>;
  readonly #agreements = new WeakMap<HttpRequest, Agreement>();

  constructor(
    subject: string,
    { protocols, origins, allowMissingOrigin, compression = false }: SocketOptions,
  ) {
    this.#protocols = new Set(protocols);
    this.origin = new OriginGuard(origins, allowMissingOrigin);
    this.compression =
      compression === false
        ? undefined
        : readCompression(`compression of ${subject}`, compression === true ? {} : compression);
  }

  *compile(view: CompiledView): Generator<never> {
    this.origin.compile(view);
  }

  /** Returns a promise only if it has to wait: promises would cost memory during many handshakes. */
  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const handshake = readHandshake(req);
    const deflate =
      this.compression === undefined ? undefined : negotiateDeflate(handshake.extensions, this.compression);
    if (deflate === 'malformed')
      throw new BadRequest('The header field Sec-WebSocket-Extensions must be a list of extensions');
    const admission = this.origin.assertAdmitted(req);
    this.#agreements.set(req, {
      handshake,
      deflate,
      protocol: handshake.protocols.find((offered) => this.#protocols.has(offered)) ?? '',
    });
    return admission === undefined ? next() : admission.then(next);
  }

  /** Removes and returns the subprotocol and the compression that handle() has agreed with the client. */
  takeAgreement(req: HttpRequest): Agreement {
    // `agreement` is defined, because handle() stores an agreement before it calls next()
    const agreement = this.#agreements.get(req)!;
    this.#agreements.delete(req); // without this, the agreement would stay in memory as long as the WebSocket
    return agreement;
  }
}

/** If it throws, the WebSocket closes with 1003 or 1007, unless onError() handles the error. */
function decoder(message: TypeSource | undefined, subject: string): (data: string | Buffer) => unknown {
  if (message === undefined) return (data) => data;
  const type = compileType(message, `the messages of ${subject}`);
  return (data) => {
    if (typeof data !== 'string')
      throw new HTTPException(415, 'A message must be JSON in a text frame, not in a binary frame');
    const result = type.parseJson(parseJson(data), 'message', !data.includes('\\u'));
    if (!result.ok) throw new ValidationError(result.issues);
    return result.value;
  };
}

function parseJson(data: string): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    throw new BadRequest('The message is not valid JSON', { code: 'json' });
  }
}
