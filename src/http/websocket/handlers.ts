/**
 * Handlers of WebSockets: their contract, and the call of one.
 */
import { isThenable } from '../../base/promises.ts';
import type { Awaitable } from '../contracts.ts';
import type { WebSocketClose } from './closing.ts';
import type { MessageDecoder } from './inbox.ts';

/** Handlers of the sockets of a route. For each socket one of them runs at a time. */
export interface SocketListener<Socket> extends MessageDecoder {
  /** Called before any message. */
  readonly onOpen: (socket: Socket) => Awaitable<unknown>;
  /** Undefined where code iterates the messages. */
  readonly onMessage?: ((socket: Socket, message: unknown) => Awaitable<unknown>) | undefined;
  /** Called after the last message. */
  readonly onClose: (socket: Socket, close: WebSocketClose) => Awaitable<unknown>;
  /** Called with an error of another handler or of {@link decode}. The socket stays open. Undefined: each error closes the socket. */
  readonly onError?: ((socket: Socket, error: unknown) => Awaitable<unknown>) | undefined;
}

/** Calls a handler, then `done`, or `failed` with its error. A handler without a promise is done within the call. */
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
