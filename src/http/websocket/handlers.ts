/** Handlers of WebSockets: their interface, and a function that calls a handler. */
import { errorAfter } from '../../base/errors.ts';
import { isThenable } from '../../base/promises.ts';
import type { Awaitable } from '../contracts.ts';
import type { WebSocketClose } from './closing.ts';
import type { MessageDecoder } from './inbox.ts';

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

/**
 * Calls a handler, and then `done`, or `failed` with the error. If the handler returns a promise, this second
 * call is made when the promise settles.
 */
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

/** Calls an onError handler for `error`. If it fails, `failed` gets its error, with `error` as the cause. */
export function callErrorHandler(
  handler: () => Awaitable<unknown>,
  error: unknown,
  done: () => void,
  failed: (error: unknown) => void,
): void {
  callHandler(handler, done, (failure) => failed(errorAfter(failure, error)));
}
