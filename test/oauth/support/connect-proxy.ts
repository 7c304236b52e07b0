/**
 * Proxy that opens tunnels by CONNECT. It connects every name to 127.0.0.1, so that tests need no DNS.
 */
import { once } from 'node:events';
import http from 'node:http';
import { connect } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

/** A received CONNECT request. */
interface SeenTunnel {
  readonly target: string;
  readonly authorization: string | undefined;
}

/** A proxy on a free port of 127.0.0.1 until it is disposed. */
export class ConnectProxy {
  readonly tunnels: SeenTunnel[] = [];
  readonly sockets: Set<Socket> = new Set();
  /** Number of requests that were not CONNECT. */
  others = 0;
  /** Text that replaces the response to a CONNECT request. Empty: no response. */
  answer: string | undefined;
  readonly #server: http.Server = http.createServer((_request, response) => {
    this.others++;
    response.writeHead(400).end();
  });

  static async start(): Promise<ConnectProxy> {
    const proxy = new ConnectProxy();
    const server = proxy.#server;
    server.on('connection', (socket: Socket) => proxy.#watch(socket));
    server.on('connect', ({ url = '', headers }, client: Socket, head: Buffer) => {
      proxy.tunnels.push({ target: url, authorization: headers['proxy-authorization'] });
      if (proxy.answer !== undefined) {
        client.on('end', () => client.destroy()).resume(); // a socket that is not read does not notice its end
        client.write(proxy.answer);
        return;
      }
      const target = proxy.#watch(connect(Number(url.slice(url.lastIndexOf(':') + 1)), '127.0.0.1'));
      target.once('connect', () => {
        client.write('HTTP/1.1 200 Connection established\r\n\r\n');
        target.write(head);
        client.pipe(target).pipe(client);
      });
      client.on('close', () => target.destroy());
      target.on('close', () => client.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resolves when this number of CONNECT requests has arrived. */
  async asked(count: number): Promise<void> {
    while (this.tunnels.length < count) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Resolves when no socket of a client or a target is open. */
  async left(): Promise<void> {
    while (this.sockets.size > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #watch(socket: Socket): Socket {
    this.sockets.add(socket);
    return socket.on('error', () => undefined).on('close', () => this.sockets.delete(socket));
  }
}
