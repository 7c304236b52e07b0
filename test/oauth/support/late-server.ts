/**
 * A server whose address is known before what it answers with: a provider has to know the application's address, and the
 * application the provider's.
 */
import { once } from 'node:events';
import http from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Answers requests, as node:http has them. */
export type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Runs on a free port of 127.0.0.1 until it is disposed. Requests wait until there is somebody to answer them. */
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

  /** Without a slash at the end. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** From now on requests are answered, those that have waited first. */
  answerWith(listener: Listener): void {
    this.#listener.resolve(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}
