/**
 * Opens the address of a server: a host and port, or a Unix socket.
 *
 * A socket file on which no process listens any more is removed. Any other file at this path leads to an
 * error. Node removes the socket file when the server closes.
 */
import { chmodSync, lstatSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { resolve as resolvePath } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { SvcError, errorCode } from '../../base/errors.ts';
import type { AddressInfo, Server } from 'node:net';

/** Address to listen on. A Unix socket replaces host and port. */
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
 * Address on which a server listens. For a Unix socket, `host` is the path, `port` is 0, and `url` is `unix:`
 * followed by the path.
 */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

export const USUAL_SOCKET_MODE = 0o660;
/** Maximum number of bytes in the path of a socket: the limit of macOS (Linux: 107). */
const MAX_PATH_BYTES = 103;
/**
 * Umask while a socket file is created: only the user of the process can connect, until the final permissions
 * are set.
 */
const CLOSED_UMASK = 0o177;

export async function listenOn(
  server: Server,
  { host = '127.0.0.1', port = 8000, socket, socketMode = USUAL_SOCKET_MODE }: ListenOptions,
  isSecure = false,
): Promise<ListenAddress> {
  // without this check, Node would throw its own error asynchronously, and no caller could catch it
  if (isNetDenied()) throw new SvcError('E_PERMISSION', ['--allow-net', '']);
  if (socket !== undefined) return listenOnSocket(server, resolvePath(socket), socketMode);
  if (host === '')
    throw new SvcError('E_LISTEN', [
      `"":${port}`,
      'the host is empty: name an address, or write 0.0.0.0 or :: to listen on every address of this machine',
    ]); // the usual cause of an empty host is a line `SVC_HOST=` without a value in an .env file
  await bind(server, { host, port }).catch((error: unknown) => {
    throw listenError(`${host}:${port}`, error as NodeJS.ErrnoException, LISTEN_PROBLEMS);
  });
  const address = server.address() as AddressInfo;
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return {
    host: address.address,
    port: address.port,
    url: `${isSecure ? 'https' : 'http'}://${shown}:${address.port}`,
  };
}

/** Opens a Unix socket. */
async function listenOnSocket(server: Server, path: string, mode: number): Promise<ListenAddress> {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw new SvcError('E_LISTEN', [
      path,
      `the path is longer than ${MAX_PATH_BYTES} bytes, the maximum for a Unix socket`,
    ]);
  try {
    await bindSocket(server, path).catch(async (error: unknown) => {
      if (errorCode(error) !== 'EADDRINUSE' || !(await isStale(path))) throw error;
      rmSync(path, { force: true });
      await bindSocket(server, path);
    });
    if (process.platform !== 'win32') chmodSync(path, mode); // a named pipe on Windows has no mode
  } catch (error) {
    if (server.listening) server.close();
    throw listenError(path, error as NodeJS.ErrnoException, SOCKET_PROBLEMS);
  }
  return { host: path, port: 0, url: `unix:${path}` };
}

/**
 * Creates the socket file so that other users cannot connect. In a worker thread they can connect until the
 * permissions are set, because a thread cannot change the umask.
 */
function bindSocket(server: Server, path: string): Promise<void> {
  const umask = isMainThread ? process.umask(CLOSED_UMASK) : undefined;
  try {
    return bind(server, { path });
  } finally {
    // listen() has created the file synchronously, so the umask can be restored
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

/** Whether no process listens on a socket file, for example because the process was killed. */
async function isStale(path: string): Promise<boolean> {
  if (!lstatSync(path).isSocket())
    throw new SvcError('E_LISTEN', [path, 'the path names an existing file that is not a Unix socket']);
  return new Promise((resolve) => {
    const client = connect(path, () => {
      client.destroy();
      resolve(false);
    });
    client.once('error', (error) => resolve(errorCode(error) === 'ECONNREFUSED'));
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

/**
 * Returns whether Node denies network access, because it runs with --permission and without --allow-net. On
 * Node 24, which has no --allow-net, the result is false.
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
  // for a Unix socket, Node reports EACCES for both causes
  EACCES: 'its folder does not exist, or this user may not write in it',
};
