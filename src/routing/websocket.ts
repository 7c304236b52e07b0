/**
 * WebSocket routes: declared with a spec, compiled into a route with the response 101.
 *
 * Two forms:
 *   app.websocket('/chat/{room}', spec).onOpen(...).onMessage(...).onClose(...)
 *   app.websocket('/echo', async (socket) => { for await (const message of socket) socket.send(message); });
 *
 * Order of the steps:
 *   middleware -> handshake (400, 426), origin (403) -> dependencies and inputs as for any route (401, 403, 400) -> 101 -> handlers
 *
 * Dependencies of scope `handler` are cleaned up before the 101 is sent, those of scope `request` when the
 * socket has closed.
 */
import { BadRequest, HTTPException, SvcError } from '../base/errors.ts';
import { given, int, isBoolean, isObject, oneOf, readOptions } from '../base/options.ts';
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
import type { Dependency, InputOf } from './di.ts';
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
import type { Origins } from '../http/origins.ts';
import type { PathParams } from '../http/path.ts';
import type { HttpResponse } from '../http/response.ts';
import type { Rooms } from '../http/websocket/rooms.ts';
import type { WebSocketClose } from '../http/websocket/closing.ts';
import type { SocketListener } from '../http/websocket/handlers.ts';
import type { SharedSocketDeps, WebSocketConnection } from '../http/websocket/websocket.ts';
import type { WebSocketCompression } from '../http/websocket/handshake.ts';
import type { WebSocketMeter } from '../http/websocket/meter.ts';
import type { SlowConsumerPolicy } from '../http/websocket/sender.ts';
import type { Agreement, OpenSocket } from '../http/server/websockets.ts';
import type { OptionKind } from '../base/options.ts';
import type { Allowance, Dependencies, SharedSpec } from './spec.ts';

/**
 * Spec of a WebSocket route. Every key that is not an option is a dependency, with the name that the handlers
 * use.
 */
export interface WebSocketSpec extends SharedSpec {
  /** Type of the messages, which are JSON texts: a schema class, or a type such as `list(Item)`. Default: raw strings and bytes. */
  readonly message?: TypeSource | undefined;
  /**
   * Supported subprotocols. The first one of the client's list that is also in this list is used; if there is
   * none, the socket has no subprotocol.
   */
  readonly protocols?: readonly string[] | undefined;
  /**
   * Origins whose pages may open the socket, in addition to the application's own: a list, a function, or
   * `'*'` for all. Default: those that the CORSMiddleware allows with credentials.
   */
  readonly origins?: Origins | undefined;
  /** Accepts requests without an Origin, which come from clients that are not browsers. Default false. */
  readonly allowMissingOrigin?: boolean | undefined;
  /**
   * Maximum size of a message in bytes after inflation, 1 ... 1_073_741_824. Default 1_048_576. A larger
   * message closes the socket with 1009.
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * Maximum number of bytes that wait for a client that reads too slowly, 65_536 ... 1_073_741_824. Default
   * 1_048_576.
   */
  readonly maxBufferedBytes?: number | undefined;
  /**
   * Policy when the limit `maxBufferedBytes` is reached: `disconnect` closes the socket (1008), `drop-oldest`
   * drops the oldest messages, `wait` lets `send()` throw. Default `disconnect`.
   */
  readonly slowConsumer?: SlowConsumerPolicy | undefined;
  /**
   * Interval of pings to a silent client, 100 ... 3_600_000 ms; false: no pings. If no pong arrives before
   * the next ping, the connection is closed. Default 30_000.
   */
  readonly heartbeatMs?: number | false | undefined;
  /**
   * Time without a message after which the socket closes with 1000, 100 ... 86_400_000 ms; false: unlimited.
   * Default false.
   */
  readonly idleTimeoutMs?: number | false | undefined;
  /**
   * Time for a client to respond to a close frame, and for handlers to reply to messages that the client sent
   * before it closed, 10 ... 60_000 ms. Default 5_000.
   */
  readonly closeTimeoutMs?: number | undefined;
  /** Maximum number of rooms that one socket may join, 1 ... 100_000. Default 1_000. */
  readonly maxRooms?: number | undefined;
  /** Compresses messages if the client supports it (RFC 7692). Default false. */
  readonly compression?: boolean | WebSocketCompression | undefined;
  readonly allow?: readonly Allowance[] | undefined;
}

/** Names that dependencies must not use. */
type ReservedSocketKey =
  keyof WebSocketSpec | 'params' | 'req' | 'signal' | 'state' | 'body' | 'form' | 'response' | 'status';

/** `S`, in which each key that is neither an option nor a dependency has an error text as its type. */
export type CheckedSocketSpec<S> = {
  readonly [K in keyof S]: K extends keyof WebSocketSpec
    ? WebSocketSpec[K]
    : K extends ReservedSocketKey
      ? `"${K & string}" is reserved: give the dependency another name`
      : S[K] extends Dependency<unknown>
        ? S[K]
        : `"${K & string}" is neither an option of a WebSocket nor Depends(…): put your own data into meta`;
};

type SocketInjected<S, Taken = never> = {
  readonly [K in Exclude<keyof S, ReservedSocketKey | Taken>]: S[K] extends Dependency<infer T> ? T : never;
};
type SocketInputs<S> = { readonly [K in keyof S & ('query' | 'headers' | 'cookies')]: InputOf<S[K]> };

/**
 * Context of the handlers: path parameters, the inputs and dependencies of the spec, and the dependencies of
 * its router.
 */
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
 * A WebSocket, for its handlers. `for await (const message of socket)` reads its messages, and ends with the
 * socket. If code leaves the loop, the socket stays open: the code may send, close the socket, or iterate
 * again.
 */
export interface Socket<M = string | Uint8Array> extends AsyncIterable<M> {
  /** The negotiated subprotocol; empty if there is none. */
  readonly protocol: string;
  /**
   * Whether messages can be sent: neither side has closed the socket. If the client closes it after sending
   * messages, `isOpen` stays true while handlers of those messages run, at most for `closeTimeoutMs`. Their
   * replies are sent before the close frame.
   */
  readonly isOpen: boolean;
  /** Number of sent bytes that the system has not accepted yet. */
  readonly bufferedAmount: number;
  /**
   * Sends a string as a text message, bytes as a binary one; bytes must not change afterwards. Returns false
   * if the message is dropped: the socket is closed, or closes because of this message. @throws SvcError
   * `E_WEBSOCKET_DATA`; `E_WEBSOCKET_FULL` with the policy `wait`, if the queue is full
   */
  send(data: string | Uint8Array): boolean;
  /**
   * Sends a value as JSON. Returns the result of {@link send}.
   * @throws SvcError `E_REPLY` for a value without a JSON form
   */
  sendJson(value: unknown): boolean;
  /** Resolves when more messages can be sent without filling the queue, or the socket has closed. */
  drain(): Promise<void>;
  /** Pings the peer. Resolves with the round-trip time in milliseconds, or undefined if the socket closed first. */
  ping(): Promise<number | undefined>;
  /** Closes after sent messages. Default code 1000; `reason` is cut to 123 bytes. @throws SvcError `E_WEBSOCKET_CLOSE` for a code that must not be sent */
  close(code?: number, reason?: string): void;
  /**
   * Joins a room. From now on, messages to the room are sent to this socket. @throws SvcError `E_ROOM` beyond
   * `maxRooms`
   */
  join(room: string): void;
  /** Leaves a room. A socket that is not in the room is unchanged. */
  leave(room: string): void;
  /** Sends to every member of a room except this socket, in every process. */
  broadcast(room: string, data: string | Uint8Array): void;
  /** Sends a value as JSON to every member of a room except this socket. */
  broadcastJson(room: string, value: unknown): void;
}

/**
 * Handles a socket from its opening to its end. When it returns, the socket closes with 1000; when it throws,
 * with 1008 for an exception meant for clients, else 1011.
 */
export type SocketHandler<C, M = string | Uint8Array> = (socket: Socket<M>, context: C) => Awaitable<unknown>;

/**
 * Handlers of socket events. Only one runs at a time: the next message waits until the previous handler has
 * settled.
 */
interface Callbacks<C, M> {
  open?: (socket: Socket<M>, context: C) => Awaitable<unknown>;
  message?: (socket: Socket<M>, message: M, context: C) => Awaitable<unknown>;
  close?: (socket: Socket<M>, close: WebSocketClose, context: C) => Awaitable<unknown>;
  error?: (socket: Socket<M>, error: unknown, context: C) => Awaitable<unknown>;
}

/** Collects the handlers of a WebSocket route. `C`: type of their context, `M`: type of a message. */
export class WebSocketRouter<C = Context, M = string | Uint8Array> {
  // the type of this member does not contain C, so that a router with another context type is assignable
  readonly #callbacks: Callbacks<never, M> = {};
  readonly #subject: string;
  #isFrozen = false;

  /** @internal */
  constructor(subject: string) {
    this.#subject = subject;
  }

  /** Sets the handler that is called before the first message. */
  onOpen(fn: NonNullable<Callbacks<C, M>['open']>): this {
    return this.#set('open', fn);
  }

  /**
   * Sets the handler that is called for each message, in order: the next call waits until the previous one
   * has settled.
   */
  onMessage(fn: NonNullable<Callbacks<C, M>['message']>): this {
    return this.#set('message', fn);
  }

  /** Sets the handler that is called once, after the last message. Code 1006 means a lost connection. */
  onClose(fn: NonNullable<Callbacks<C, M>['close']>): this {
    return this.#set('close', fn);
  }

  /**
   * Sets the handler for exceptions of the other handlers, and for messages that do not match
   * (`ValidationError`); the socket stays open. Without this handler the socket closes: with 1007 for such
   * messages, 1008 for exceptions meant for clients, else 1011.
   */
  onError(fn: NonNullable<Callbacks<C, M>['error']>): this {
    return this.#set('error', fn);
  }

  /** Returns the handlers. After that, no more can be added. @internal */
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
        'is an event that already has a handler',
      ]);
    this.#callbacks[key] = fn as Callbacks<never, M>[K];
    return this;
  }
}

/** State that all sockets of an application share. */
export interface SocketHub {
  readonly rooms: Rooms;
  readonly meter: WebSocketMeter;
}

const time = (fallback: number, most: number): OptionKind<number | false> => ({
  fallback: fallback === 0 ? false : fallback,
  needs: `false or an integer 100 … ${most}`,
  accepts: (value) => value === false || int(100, 100, most).accepts(value),
});

/** Definitions of the options of a WebSocket route: default and valid values, by name. */
const SPEC: Readonly<Record<keyof WebSocketSpec, OptionKind<unknown>>> = {
  ...SHARED_SPEC,
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

/** Checked options of a WebSocket route. */
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

/** A declared WebSocket route. @internal */
export class DeclaredSocket {
  readonly subject: string;
  readonly options: SocketOptions;
  readonly deps: Dependencies;
  readonly router: WebSocketRouter<never, never>;
  readonly guard: HandshakeGuard;
  readonly #handler: SocketHandler<never, never> | undefined;

  /** @throws SvcError `E_ROUTE_SPEC`, `E_ROUTE_HANDLER`, `E_OPTION_RANGE`, `E_CORS` */
  constructor(path: string, rest: readonly unknown[]) {
    this.subject = `WEBSOCKET ${path}`;
    const handler = typeof rest.at(-1) === 'function' ? rest.at(-1) : undefined;
    const [spec = {}] = handler === undefined ? rest : rest.slice(0, -1);
    if (!isObject(spec)) throw new SvcError('E_ROUTE_HANDLER', [this.subject]);
    const [options, given] = apart(spec, SPEC);
    // the cast is safe: the definitions in SPEC have the types of the options
    this.options = readOptions(this.subject, options, SPEC) as SocketOptions;
    this.deps = readDependencies(this.subject, given, RESERVED, 'an option of a WebSocket', SPEC);
    this.router = new WebSocketRouter(this.subject);
    this.#handler = handler as SocketHandler<never, never> | undefined;
    this.guard = new HandshakeGuard(this.subject, this.options);
  }

  /** The handlers that were added. Once they have been read, no more can be added. */
  get handlers(): readonly ((...args: never[]) => unknown)[] {
    return [this.#handler ?? [], Object.values(this.router.take())].flat();
  }

  /** Creates the opener of the route's sockets for one application. */
  compile(hub: SocketHub, services: Services, onUnhandled: SharedSocketDeps['onUnhandled']): SocketOpener {
    return new SocketOpener(this.guard, {
      ...this.options,
      heartbeatMs: this.options.heartbeatMs || 0,
      idleTimeoutMs: this.options.idleTimeoutMs || 0,
      compression: this.guard.compression,
      listener: this.#listener(),
      clock: services.clock,
      log: services.log,
      rooms: hub.rooms,
      meter: hub.meter,
      onUnhandled,
    });
  }

  #listener(): SocketListener<WebSocketConnection> {
    const decode = decoder(this.options.message, this.subject);
    const handler = this.#handler as
      // the cast is safe: the overloads of websocket() allow only this type
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
    // the cast is safe: onOpen() and the other methods allow only these types
    const { open, message, close, error } = this.router.take() as Callbacks<unknown, unknown>;
    return {
      decode,
      onOpen: (socket) => open?.(socket, socket.context),
      onMessage: message === undefined ? undefined : (socket, data) => message(socket, data, socket.context),
      onClose: (socket, how) => close?.(socket, how, socket.context),
      onError: error === undefined ? undefined : (socket, thrown) => error(socket, thrown, socket.context),
    };
  }
}

/**
 * Opens the sockets of one route. `load()` imports the code for open sockets, which applications without
 * WebSockets do not need. @internal
 */
export class SocketOpener {
  readonly #guard: HandshakeGuard;
  readonly #deps: SharedSocketDeps;
  #open: OpenSocket | undefined;

  constructor(guard: HandshakeGuard, deps: SharedSocketDeps) {
    this.#guard = guard;
    this.#deps = deps;
  }

  /** Imports the code for open sockets. Called at each start, before the first handshake. */
  async load(): Promise<void> {
    if (this.#open !== undefined) return;
    const { WebSocketConnection } = await import('../http/websocket/websocket.ts');
    this.#open = (stream, deps) => new WebSocketConnection(stream, this.#deps, deps);
  }

  /** Returns a 101 response, which opens the socket when it is sent. */
  accept(context: Context): HttpResponse {
    return new SwitchingProtocols(this.#guard.takeAgreement(context.req), this.#open!, context);
  }
}

/**
 * Middleware of a WebSocket route. It checks the handshake before the dependencies of the route are resolved,
 * so that an ordinary request does not resolve them.
 */
class HandshakeGuard implements Middleware {
  readonly compression: SharedSocketDeps['compression'];
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

  /** Returns a promise only if it must wait, because promises of many simultaneous handshakes cost memory. */
  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const handshake = readHandshake(req);
    const deflate =
      this.compression === undefined ? undefined : negotiateDeflate(handshake.extensions, this.compression);
    if (deflate === 'malformed')
      throw new BadRequest('Sec-WebSocket-Extensions must be a list of extensions');
    const admission = this.origin.assertAdmitted(req);
    this.#agreements.set(req, {
      handshake,
      deflate,
      protocol: handshake.protocols.find((offered) => this.#protocols.has(offered)) ?? '',
    });
    return admission === undefined ? next() : admission.then(next);
  }

  /** Returns the agreement that handle() has negotiated, and forgets it. */
  takeAgreement(req: HttpRequest): Agreement {
    // defined: handle() has stored an agreement for every request that it passes on
    const agreement = this.#agreements.get(req)!;
    this.#agreements.delete(req); // deleted, because an open socket keeps its request, and so the entry, in memory
    return agreement;
  }
}

/**
 * Creates the decoder of messages. If it throws, the socket closes with 1003 or 1007, unless onError handles
 * the exception.
 */
function decoder(message: TypeSource | undefined, subject: string): (data: string | Buffer) => unknown {
  if (message === undefined) return (data) => data;
  const type = compileType(message, `the messages of ${subject}`);
  return (data) => {
    if (typeof data !== 'string') throw new HTTPException(415, 'A message must be a JSON text');
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
