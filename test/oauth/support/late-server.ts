/**
 * A server whose address is known before its handler. A provider needs the address of the application, and
 * the application that of the provider.
 */
import { once } from 'node:events';
import http from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A node:http request handler. */
export type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** A server on a free port of 127.0.0.1 until it is disposed. Requests wait until there is a handler. */
export class LateServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #listener = Promise.withResolvers<Listener>();

  private constructor() {
    this.#server = http.createServer(
      (request, response) => void this.#listener.promise.then((listener) => listener(request, response)),
    );
  }

  static async start(): Promise<LateServer> {
    const late = new LateServer();
    late.#server.listen(0, '127.0.0.1');
    await once(late.#server, 'listening');
    return late;
  }

  /** Address of the server, without a slash at its end. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Sets the handler. It gets the waiting requests first. */
  answerWith(listener: Listener): void {
    this.#listener.resolve(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}
