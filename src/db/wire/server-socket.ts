/**
 * Opens a socket to a database server within a time limit, and encrypts it. Throws ConnectionLost when a
 * later attempt may succeed, and SvcError `E_DB_CONNECT` for a permanent failure.
 *
 * TLS is negotiated in db/postgres/socket.ts and db/mysql/connect.ts.
 */
import { readFile } from 'node:fs/promises';
import { connect, isIP, type Socket } from 'node:net';
import {
  checkServerIdentity,
  connect as connectTls,
  type ConnectionOptions,
  type PeerCertificate,
  type TLSSocket,
} from 'node:tls';
import { SvcError, errorCode } from '../../base/errors.ts';
import { ConnectionLost, type DatabaseError } from '../errors.ts';
import { watchLimit } from '../limits.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';
import type { Logger } from '../../observability/log.ts';
import { isUnixHost, type ServerHost, type ServerTls } from './server-url.ts';

/**
 * Handler of received bytes. The handler must copy values that it keeps, because the socket reuses the
 * buffer.
 */
type OnBytes = (bytes: Buffer) => void;

/** Socket that is ready for the login. */
export interface ServerSocket {
  readonly socket: Socket;
  readonly incoming: Incoming;
  /** TLS socket, or undefined if the connection is not encrypted. */
  readonly tls: TLSSocket | undefined;
  /** IP address of the server. A cancellation must be sent to this address. */
  readonly address: ServerHost;
}

/** Address to which a socket connects: a Unix socket, or a host and a port. */
export interface Endpoint {
  readonly at: ServerHost;
  /** Path of a Unix socket. Undefined for a host and a port. */
  readonly path: string | undefined;
}

/** Maximum time for canceling a statement over a second connection, in milliseconds. */
export const CANCEL_MS = 4_000;
export const NO_TLS = 'the server does not offer TLS, but the sslmode of the address requires TLS';
export const EARLY_DATA =
  'the server sent data before encryption, which indicates an attacker between client and server';
const KEEP_ALIVE_MS = 30_000;
const READ_BYTES = 64 * 1024;
/**
 * Read buffer of all sockets. They can share it, because received bytes are handled before the next socket is
 * read.
 */
let readBuffer: Buffer | undefined;

/** Returns `host:port`, or the path of a Unix socket. */
export function shownEndpoint({ at: { host, port }, path }: Endpoint): string {
  return path ?? (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
}

/** Bytes that a socket receives. They are buffered until a handler is set. */
export class Incoming {
  #listener: OnBytes | undefined;
  #early: Buffer[] = [];

  /** Returns the next received bytes, and buffers later bytes. */
  next(): Promise<Buffer> {
    return new Promise((resolve) => {
      const early = this.#early.shift();
      if (early !== undefined) return resolve(early);
      this.#listener = (bytes) => {
        this.#listener = undefined;
        resolve(Buffer.from(bytes));
      };
    });
  }

  /** Sets the handler of all further bytes, and passes the buffered bytes to it. */
  listen(listener: OnBytes): void {
    this.#listener = listener;
    for (const bytes of this.#early.splice(0)) listener(bytes);
  }

  /** Passes received bytes to the handler, or buffers them. */
  readonly take = (bytes: Buffer): void => {
    if (this.#listener !== undefined) this.#listener(bytes);
    else this.#early.push(Buffer.from(bytes));
  };
}

/**
 * Calls `open` with a connected attempt, and with the TLS options if the connection may be encrypted. After an
 * error, closes the socket. `name` is the host name that the certificate must contain.
 */
export async function opened<T>(
  endpoint: Endpoint,
  { tls, clock }: { readonly tls: ServerTls; readonly clock: Clock },
  limit: Limit,
  name: string,
  open: (opening: Opening, options: ConnectionOptions | undefined) => Promise<T>,
): Promise<T> {
  const isPlain = endpoint.path !== undefined || tls.mode === 'disable';
  const options = isPlain ? undefined : await tlsOptions(tls, name, shownEndpoint(endpoint));
  const opening = new Opening(endpoint, limit, clock, isPlain);
  try {
    await opening.until('connect');
    return await open(opening, options);
  } catch (error) {
    opening.abandon();
    throw error;
  }
}

/** Warns if a connection over the network is not encrypted, which `sslmode=prefer` allows. */
export function warnOfPlain(
  { tls, log }: { readonly tls: ServerTls; readonly log?: Logger | undefined },
  link: ServerSocket,
  { host }: ServerHost,
): void {
  if (tls.mode === 'prefer' && link.tls === undefined && !isUnixHost(host))
    log?.warn('database_not_encrypted', {
      host,
      remedy:
        'Encrypt the connection with sslmode=verify-full in the address, or accept it without encryption by sslmode=disable',
    });
}

/** One attempt to open a socket that is ready for the login. */
export class Opening {
  readonly incoming: Incoming = new Incoming();
  #socket: Socket;
  readonly #endpoint: Endpoint;
  readonly #failed: PromiseWithResolvers<never> = Promise.withResolvers();
  readonly #watched: Disposable | undefined;
  readonly #onError = (cause: Error): void => this.#failed.reject(this.#failure(cause));
  readonly #onClose = (): void =>
    this.#failed.reject(new ConnectionLost(`${this.shown} closed the connection before the login`));
  readonly #isPlain: boolean;
  #isEncrypting = false;

  /**
   * `isPlain` is true if the connection will not be encrypted. Then all bytes go to `incoming` from the
   * start.
   */
  constructor(endpoint: Endpoint, limit: Limit, clock: Clock, isPlain: boolean = false) {
    const {
      at: { host, port },
      path,
    } = endpoint;
    const reading = isPlain ? { onread: intoOneBuffer(this.incoming) } : {};
    this.#endpoint = endpoint;
    this.#isPlain = isPlain;
    this.#socket = connect(
      path !== undefined
        ? { path, ...reading }
        : { host, port, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS, noDelay: true, ...reading },
    );
    // prevents an unhandled rejection; #or() passes the error to its caller
    this.#failed.promise.catch(() => undefined);
    this.#listen(this.#socket);
    this.#watched = watchLimit(limit, clock, (error: DatabaseError) => this.#failed.reject(error));
  }

  get socket(): Socket {
    return this.#socket;
  }
  get shown(): string {
    return shownEndpoint(this.#endpoint);
  }

  /** IP address of the server. Available once the socket is connected. */
  get address(): ServerHost {
    const { at, path } = this.#endpoint;
    return path !== undefined || this.#socket.remoteAddress === undefined
      ? at
      : { host: this.#socket.remoteAddress, port: at.port };
  }

  until(event: 'connect' | 'secureConnect'): Promise<unknown> {
    return this.#or(new Promise((resolve) => this.#socket.once(event, resolve)));
  }

  /** Returns the next received bytes. Then pauses the socket, because later bytes may belong to TLS. */
  bytes(): Promise<Buffer> {
    if (this.#isPlain) return this.#or(this.incoming.next());
    return this.#or(
      new Promise<Buffer>((resolve) => {
        this.#socket.once('data', (chunk: Buffer) => {
          this.#socket.pause();
          resolve(chunk);
        });
        this.#socket.resume();
      }),
    );
  }

  async encrypt(options: ConnectionOptions): Promise<TLSSocket> {
    const plain = this.#socket;
    this.#isEncrypting = true;
    const secure = connectTls({ ...options, socket: plain });
    this.#socket = secure;
    this.#listen(secure);
    await this.until('secureConnect');
    return secure;
  }

  fail(error: Error): void {
    this.#failed.reject(error);
  }

  refusal(problem: string, cause?: unknown): SvcError<'E_DB_CONNECT'> {
    return new SvcError('E_DB_CONNECT', [this.shown, problem], { cause });
  }

  /** Passes all further bytes to `incoming`, and returns `incoming`. */
  streamed(): Incoming {
    if (!this.#isPlain) this.#socket.on('data', this.incoming.take);
    return this.incoming;
  }

  /** Ends the attempt, and returns the socket, which is ready for the login. */
  finished(tls?: TLSSocket): ServerSocket {
    const { address } = this;
    this.detach();
    return { socket: this.#socket, incoming: this.streamed(), tls, address };
  }

  /** Removes the listeners of this attempt from the socket. */
  detach(): void {
    this.#watched?.[Symbol.dispose]();
    this.#socket.off('error', this.#onError);
    this.#socket.off('close', this.#onClose);
  }

  abandon(): void {
    this.#watched?.[Symbol.dispose]();
    this.#socket.destroy();
  }

  #listen(socket: Socket): void {
    socket.on('error', this.#onError);
    socket.once('close', this.#onClose);
  }

  #or<T>(promise: Promise<T>): Promise<T> {
    return Promise.race([promise, this.#failed.promise]);
  }

  #failure(cause: Error): Error {
    const code = errorCode(cause) ?? cause.message;
    if (this.#isEncrypting && !/^E(?:CONN|PIPE|TIMEDOUT|HOST|NET)/.test(code))
      return this.refusal(`the TLS connection to the server failed (${code})`, cause);
    return new ConnectionLost(`${this.shown} cannot be reached (${code})`, { sqlstate: '08001', cause });
  }
}

/**
 * Returns socket options with which all sockets read into one buffer. This saves a third of the time of a
 * short reply.
 */
function intoOneBuffer(incoming: Incoming): {
  readonly buffer: Buffer;
  readonly callback: (count: number, buffer: Uint8Array) => boolean;
} {
  const buffer = (readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES));
  return {
    buffer,
    callback: (count) => {
      incoming.take(buffer.subarray(0, count));
      return true; // the return value true makes the socket continue to read
    },
  };
}

/** Returns whether the server's certificate must come from a trusted authority, by the rules of libpq. */
export function checksChain({ mode, rootCertificate }: ServerTls): boolean {
  return (
    mode === 'verify-ca' || mode === 'verify-full' || (mode === 'require' && rootCertificate !== undefined)
  );
}

/**
 * Reads the certificate files, and returns the TLS options for Node.js. `name` is the host name that the
 * certificate must contain.
 *
 * @throws SvcError `E_DB_CONNECT` when a file cannot be read
 */
export async function tlsOptions(tls: ServerTls, name: string, shown: string): Promise<ConnectionOptions> {
  const { mode, rootCertificate, keyPassword } = tls;
  const [ca, cert, key] = await Promise.all([
    rootCertificate === 'system' ? undefined : fileOf(rootCertificate, shown),
    fileOf(tls.certificate, shown),
    fileOf(tls.key, shown),
  ]);
  return {
    minVersion: tls.leastVersion,
    rejectUnauthorized: checksChain(tls),
    ...(tls.sendsServerName && isIP(name) === 0 && { servername: name }),
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(keyPassword !== undefined && { passphrase: keyPassword }),
    checkServerIdentity: (_: string, certificate: PeerCertificate) =>
      mode === 'verify-full' ? checkServerIdentity(name, certificate) : undefined,
  };
}

/** Reads a file that a parameter of the address names, for example `sslrootcert`. */
export async function fileOf(path: string | undefined, shown: string): Promise<Buffer | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readFile(path);
  } catch (cause) {
    throw new SvcError('E_DB_CONNECT', [shown, `the file "${path}" cannot be read (${errorCode(cause)})`], {
      cause,
    });
  }
}
