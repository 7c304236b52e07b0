/**
 * Where a server listens: on a host and port, or on a Unix socket.
 *
 * If there is a socket file at the path on which no process listens, it is removed first; any other file is
 * an error. Node removes the file when the server stops listening.
 */
import { chmodSync, lstatSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { resolve as resolvePath } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { SvcError } from '../../base/errors.ts';
import type { AddressInfo, Server } from 'node:net';

/** Where a server listens. */
export interface ListenOptions {
  /** Host name or address. Default `127.0.0.1`. */
  readonly host?: string | undefined;
  /** Port, 0 ... 65535; 0 chooses a free one. Default 8000. */
  readonly port?: number | undefined;
  /** Path of a Unix socket, instead of host and port. */
  readonly socket?: string | undefined;
  /**
   * Permissions of the socket file, 0 ... 0o777. Default 0o660: user and group of the process may connect.
   */
  readonly socketMode?: number | undefined;
}

/**
 * Address at which a server listens. For a Unix socket, `host` is the path, `port` is 0, and `url` is `unix:`
 * with the path.
 */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

/** Default permissions of a socket file. */
export const USUAL_SOCKET_MODE = 0o660;
/** Maximum length of a socket's path in bytes. It is the limit of macOS; that of Linux is 107. */
const MAX_PATH_BYTES = 103;
/**
 * File mode mask while a socket is bound. Until its permissions are set, only the user of the process may
 * connect.
 */
const CLOSED_UMASK = 0o177;

/** Starts to listen. Resolves with the address. @throws SvcError `E_LISTEN`, `E_PERMISSION` */
export async function listenOn(
  server: Server,
  { host = '127.0.0.1', port = 8000, socket, socketMode = USUAL_SOCKET_MODE }: ListenOptions,
  isSecure = false,
): Promise<ListenAddress> {
  // Node would throw this error asynchronously, where it cannot be caught
  if (isNetDenied()) throw new SvcError('E_PERMISSION', ['--allow-net', '']);
  if (socket !== undefined) return listenOnSocket(server, resolvePath(socket), socketMode);
  if (host === '')
    throw new SvcError('E_LISTEN', [
      `"":${port}`,
      'an empty host would mean every address of this machine: write 0.0.0.0 or :: for that',
    ]); // often the cause is a line `SVC_HOST=` without value in an .env file
  await bind(server, { host, port }).catch((error: unknown) => {
    throw listenError(`${host}:${port}`, error as NodeJS.ErrnoException, LISTEN_PROBLEMS);
  });
  // the cast is safe: for a host and port, address() returns an object
  const address = server.address() as AddressInfo;
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return {
    host: address.address,
    port: address.port,
    url: `${isSecure ? 'https' : 'http'}://${shown}:${address.port}`,
  };
}

/** Starts to listen on a Unix socket. @throws SvcError `E_LISTEN` */
async function listenOnSocket(server: Server, path: string, mode: number): Promise<ListenAddress> {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw new SvcError('E_LISTEN', [path, `the path of a Unix socket has at most ${MAX_PATH_BYTES} bytes`]);
  try {
    await bindSocket(server, path).catch(async (error: unknown) => {
      if (codeOf(error) !== 'EADDRINUSE' || !(await isStale(path))) throw error;
      rmSync(path, { force: true });
      await bindSocket(server, path);
    });
    if (process.platform !== 'win32') chmodSync(path, mode); // a named pipe of Windows has no permissions
  } catch (error) {
    if (server.listening) server.close();
    // listenError() converts errors of node:net and node:fs; the error of isStale() stays as it is
    throw listenError(path, error as NodeJS.ErrnoException, SOCKET_PROBLEMS);
  }
  return { host: path, port: 0, url: `unix:${path}` };
}

/**
 * Binds a socket, so that no other user can open its file. In a worker thread this protection is absent until
 * the permissions are set, because the umask cannot be set there.
 */
function bindSocket(server: Server, path: string): Promise<void> {
  const umask = isMainThread ? process.umask(CLOSED_UMASK) : undefined;
  try {
    return bind(server, { path });
  } finally {
    // the socket is bound by now, because node:net binds it synchronously
    if (umask !== undefined) process.umask(umask);
  }
}

function bind(server: Server, options: { host: string; port: number } | { path: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/**
 * Whether the file is a socket on which no process listens, as a killed process leaves it.
 * @throws SvcError `E_LISTEN` for another file
 */
async function isStale(path: string): Promise<boolean> {
  if (!lstatSync(path).isSocket())
    throw new SvcError('E_LISTEN', [path, 'the path leads to a file that is not a socket']);
  return new Promise((resolve) => {
    const client = connect(path, () => {
      client.destroy();
      resolve(false);
    });
    client.once('error', (error) => resolve(codeOf(error) === 'ECONNREFUSED'));
  });
}

function listenError(
  address: string,
  error: NodeJS.ErrnoException,
  problems: Readonly<Record<string, string>>,
): SvcError {
  if (error instanceof SvcError) return error;
  return new SvcError('E_LISTEN', [address, problems[error.code ?? ''] ?? error.message], { cause: error });
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

/**
 * Whether Node denies network access, because it was started with --permission and without --allow-net.
 * Always false on Node 24, which has no option --allow-net.
 */
function isNetDenied(): boolean {
  return (
    (process.permission as typeof process.permission | undefined)?.has('net') === false &&
    process.allowedNodeEnvironmentFlags.has('--allow-net')
  );
}

const LISTEN_PROBLEMS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the address is in use',
  EACCES: 'the port needs privileges',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'the host is unknown',
};

const SOCKET_PROBLEMS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens there',
  // for a socket, Node reports the same code for both causes
  EACCES: 'its folder does not exist, or this user may not write in it',
};
