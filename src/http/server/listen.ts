/**
 * Where a server listens: a host and port, or the path of a Unix socket.
 *
 *   path   a socket file that no process listens on is removed, any other file is refused -> bind -> mode -> listening
 *
 * Node removes the file when the server stops listening.
 */
import { chmodSync, lstatSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { resolve as resolvePath } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { SvcError } from '../../base/errors.ts';
import type { AddressInfo, Server } from 'node:net';

/** A place to listen at. */
export interface ListenOptions {
  /** Default `127.0.0.1`. */
  readonly host?: string | undefined;
  /** 0 ... 65535; 0 takes a free one. Default 8000. */
  readonly port?: number | undefined;
  /** The path of a Unix socket, in place of host and port. */
  readonly socket?: string | undefined;
  /** The permissions of the socket's file, 0 ... 0o777. Default 0o660: the user and the group of the process. */
  readonly socketMode?: number | undefined;
}

/** Where a server listens. Of a Unix socket `host` is the path, `port` is 0, and `url` is `unix:` with the path. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

/** The permissions of a socket's file, unless others are asked for. */
export const USUAL_SOCKET_MODE = 0o660;
/** The most bytes of a socket's path: what macOS takes, and 4 fewer than Linux takes. */
const MAX_PATH_BYTES = 103;
/** The umask while a socket is bound: its file is the user's alone until it has its mode. */
const CLOSED_UMASK = 0o177;

/** Listens. Resolves with the address. @throws SvcError `E_LISTEN`, `E_PERMISSION` */
export async function listenOn(
  server: Server,
  { host = '127.0.0.1', port = 8000, socket, socketMode = USUAL_SOCKET_MODE }: ListenOptions,
  isSecure = false,
): Promise<ListenAddress> {
  if (isNetDenied()) throw new SvcError('E_PERMISSION', ['--allow-net', '']); // Node throws that where nothing can catch it
  if (socket !== undefined) return listenOnSocket(server, resolvePath(socket), socketMode);
  if (host === '')
    throw new SvcError('E_LISTEN', [
      `"":${port}`,
      'an empty host would mean every address of this machine: write 0.0.0.0 or :: for that',
    ]); // often SVC_HOST= in an .env file
  await bind(server, { host, port }).catch((error: unknown) => {
    throw listenError(`${host}:${port}`, error as NodeJS.ErrnoException, LISTEN_PROBLEMS);
  });
  const address = server.address() as AddressInfo; // a host and port were asked for, not a path
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return {
    host: address.address,
    port: address.port,
    url: `${isSecure ? 'https' : 'http'}://${shown}:${address.port}`,
  };
}

/** @throws SvcError `E_LISTEN` */
async function listenOnSocket(server: Server, path: string, mode: number): Promise<ListenAddress> {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw new SvcError('E_LISTEN', [path, `the path of a Unix socket has at most ${MAX_PATH_BYTES} bytes`]);
  try {
    await bindSocket(server, path).catch(async (error: unknown) => {
      if (codeOf(error) !== 'EADDRINUSE' || !(await isStale(path))) throw error;
      rmSync(path, { force: true });
      await bindSocket(server, path);
    });
    if (process.platform !== 'win32') chmodSync(path, mode); // a named pipe of Windows has no mode
  } catch (error) {
    if (server.listening) server.close();
    throw listenError(path, error as NodeJS.ErrnoException, SOCKET_PROBLEMS); // node:net and node:fs throw those, and isStale() an SvcError
  }
  return { host: path, port: 0, url: `unix:${path}` };
}

/** Binds while no other user may open the file. A worker thread cannot set the umask: there the umask of the process holds until the mode is set. */
function bindSocket(server: Server, path: string): Promise<void> {
  const umask = isMainThread ? process.umask(CLOSED_UMASK) : undefined;
  try {
    return bind(server, { path });
  } finally {
    if (umask !== undefined) process.umask(umask); // node:net has bound by now
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

/** Whether the file is a socket that no process listens on: one that was left by a process that was killed. @throws SvcError `E_LISTEN` for another file */
async function isStale(path: string): Promise<boolean> {
  if (!lstatSync(path).isSocket())
    throw new SvcError('E_LISTEN', [path, 'the path is an existing file that is not a socket']);
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

/** Whether Node was started with --permission and without --allow-net, which Node 24 does not know. */
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
  EACCES: 'its folder does not exist, or this user may not write in it', // Node says the same of both
};
