/**
 * A proxy in front of a server that can stop to pass on bytes without closing connections, like a cut cable
 * or a firewall that has lost its state.
 */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Scope } from './run.ts';

/** A proxy that can be silenced. */
export interface SilencedProxy {
  /** Address of the server, with host and port of the proxy. */
  readonly url: string;
  /** Drops all bytes from both sides, on existing and new connections. */
  silence(): void;
  /** Ends the silenced connections, and passes bytes on for new ones. */
  restore(): void;
}

/** Starts a proxy in front of the server that an address names. */
export async function silencedProxy(scope: Scope, serverUrl: string): Promise<SilencedProxy> {
  const { hostname, port } = new URL(serverUrl);
  const sockets = new Set<Socket>();
  let isSilent = false;
  const pass = (from: Socket, to: Socket): void => {
    sockets.add(from);
    from.on('data', (bytes) => {
      if (!isSilent) to.write(bytes);
    });
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
    from.on('error', () => to.destroy());
  };
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname.replace(/^\[|\]$/g, ''));
    pass(client, server);
    pass(server, client);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const cut = (): void => {
    for (const socket of [...sockets]) socket.destroy();
  };
  scope.after(() => {
    cut();
    proxy.close();
  });
  return {
    url: serverUrl.replace(`${hostname}:${port}`, `127.0.0.1:${(proxy.address() as AddressInfo).port}`),
    silence() {
      isSilent = true;
    },
    restore() {
      isSilent = false;
      cut();
    },
  };
}
