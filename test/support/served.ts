/**
 * Serves an application on a socket, and sends requests that are written out.
 */
import { HttpServer } from '../../src/http/server/server.ts';
import { RawClient } from './raw-http.ts';
import type { Svc } from '../../src/index.ts';
import type { RawAnswer } from './raw-http.ts';

/** An application that listens until it is disposed of. */
export interface Served extends AsyncDisposable {
  readonly port: number;
  /**
   * Sends a request on a new connection and returns the response. `request`: everything after the field
   * `Host`.
   */
  ask(method: string, path: string, request?: string): Promise<RawAnswer>;
}

/** Starts the application on a free port. */
export async function served(app: Svc): Promise<Served> {
  await app.startup();
  const server = new HttpServer(app.application());
  const { port } = await server.listen({ port: 0 });
  return {
    port,
    async ask(method, path, request = '\r\n') {
      await using client = await RawClient.open(port);
      return await client.send(`${method} ${path} HTTP/1.1\r\nHost: a.example\r\n${request}`).answer(method);
    },
    async [Symbol.asyncDispose]() {
      await server.close(0);
      await app.shutdown();
    },
  };
}
