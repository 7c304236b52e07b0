/** Handlers of WebSockets, and what else a WebSocket gets from its route and its server. */
import { isThenable } from '../../base/promises.ts';
import type { Awaitable } from '../contracts.ts';
import type { WebSocketClose } from './closing.ts';
import type { MessageDecoder } from './inbox.ts';
import type { ContextRunner } from '../../base/promises.ts';
import type { Logger } from '../../observability/log.ts';
import type { TransportRequest } from '../request/request.ts';
import type { DeflateAgreement } from './handshake.ts';
import type { LivenessOptions } from './liveness.ts';
import type { Rooms } from './rooms.ts';
import type { SenderOptions } from './sender.ts';

/** Handlers of the WebSockets of a route. For each socket, only one handler runs at a time. */
export interface SocketListener<Socket> extends MessageDecoder {
  /** Called when the socket opens, before any message. */
  readonly onOpen: (socket: Socket) => Awaitable<unknown>;
  /** Called with each message. Undefined if the application reads messages by iterating the socket. */
  readonly onMessage?: ((socket: Socket, message: unknown) => Awaitable<unknown>) | undefined;
  /** Called when the socket has closed, after all messages. */
  readonly onClose: (socket: Socket, close: WebSocketClose) => Awaitable<unknown>;
  /**
   * Called with an error of another handler, or of {@link decode}. The socket then stays open. Without this
   * handler, every error closes the socket.
   */
  readonly onError?: ((socket: Socket, error: unknown) => Awaitable<unknown>) | undefined;
}

/** Options and services that all sockets of a route share. */
export interface SharedSocketDeps<Socket> extends SenderOptions, LivenessOptions {
  readonly log: Logger;
  readonly rooms: Rooms;
  readonly listener: SocketListener<Socket>;
  readonly maxMessageBytes: number;
  /** Maximum time in milliseconds until the client responds to a close frame. */
  readonly closeTimeoutMs: number;
  readonly maxRooms: number;
  /** Called with an error that the onError handler did not handle. */
  readonly onUnhandled: (error: unknown, req: TransportRequest) => void;
}

/** Values that differ between the sockets of a route. */
export interface SocketDeps<Socket> {
  readonly protocol: string;
  readonly deflate: DeflateAgreement | undefined;
  /** Value that handlers get in addition to the socket, such as parameters of the path. */
  readonly context: unknown;
  /** Calls a function in the AsyncLocalStorage context of the handshake, where middleware may set values. */
  readonly enter: ContextRunner;
  readonly req: TransportRequest;
  readonly host: SocketHost<Socket>;
}

export interface SocketHost<Socket> {
  /** Called when no more messages are sent or received. The onClose handler may still run. */
  onClosed(socket: Socket): void;
  /** Called when the stream has closed and all handlers have settled. `failure`: the error, if any. */
  onOver(socket: Socket, failure: unknown): void;
}

/** Calls `done` or `failed` after the handler, or when the promise that it returns settles. */
export function callHandler(
  handler: () => Awaitable<unknown>,
  done: () => void,
  failed: (error: unknown) => void,
): void {
  try {
    const running = handler();
    if (isThenable(running)) running.then(done, failed);
    else done();
  } catch (error) {
    failed(error);
  }
}
