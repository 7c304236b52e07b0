/**
 * A socket to PostgreSQL, encrypted as was asked for (55.2.10 of its manual).
 *
 *   TCP or unix socket ─ disable ──────────────────────────────────────→ plain
 *                      ├ SSLRequest → S → TLS 1.2 or newer             → encrypted; N: refused, but with `prefer`
 *                      └ direct: TLS at once, ALPN "postgresql"        → encrypted
 *
 * After SSLRequest exactly one byte may be there: more was put in by somebody before TLS (CVE-2021-23222), and is not read.
 */
import { readFile } from 'node:fs/promises';
import { connect, isIP, type Socket } from 'node:net';
import { checkServerIdentity, connect as connectTls, type ConnectionOptions, type PeerCertificate, type TLSSocket } from 'node:tls';
import { SvcError } from '../errors.ts';
import { ConnectionLost, type DatabaseError } from './db-errors.ts';
import { watchLimit } from './limits.ts';
import { MessageWriter } from './postgres-writer.ts';
import type { Clock } from '../clock.ts';
import type { Limit } from './driver.ts';
import type { PostgresHost, PostgresTls } from './postgres-options.ts';

/** A socket that is ready for the start-up message. */
export interface PostgresSocket {
  readonly socket: Socket;
  /** Undefined without TLS. */
  readonly tls: TLSSocket | undefined;
  /** The address that the name stood for: the same server is to be asked to cancel. */
  readonly address: PostgresHost;
}

const ALPN = 'postgresql';
const YES = 0x53;
const NO = 0x4e;
const ERROR = 0x45;
const KEEP_ALIVE_MS = 30_000;

/** `host:port`, or the path of the socket. */
export function shownHost({ host, port }: PostgresHost): string {
  if (isUnix(host)) return socketPath({ host, port });
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether nobody else can listen to what is sent there. */
export function isLocal({ host }: PostgresHost): boolean {
  return isUnix(host) || host === 'localhost' || host === '::1' || isIP(host) === 4 && host.startsWith('127.');
}

/**
 * Connects. `name` is the host that a certificate must be for, where `at` is its address already.
 *
 * @throws ConnectionLost when nobody answers; SvcError `E_DB_CONNECT` for what no other attempt changes; what the limit says
 */
export async function openSocket(at: PostgresHost, tls: PostgresTls, limit: Limit, clock: Clock, name: string = at.host): Promise<PostgresSocket> {
  const options = isUnix(at.host) || tls.mode === 'disable' ? undefined : await tlsOptions(tls, name, shownHost(at));
  const socket = isUnix(at.host) ? connect(socketPath(at)) : connect({ host: at.host, port: at.port, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS, noDelay: true });
  const opening = new Opening(socket, at, limit, clock);
  try {
    await opening.until('connect');
    const address = isUnix(at.host) || socket.remoteAddress === undefined ? at : { host: socket.remoteAddress, port: at.port };
    if (options === undefined) return opening.finished({ socket, tls: undefined, address });
    if (tls.negotiation === 'postgres' && !await opening.asksForTls(tls.mode === 'prefer')) return opening.finished({ socket, tls: undefined, address });
    const secure = await opening.encrypt(options);
    if (tls.negotiation === 'direct' && secure.alpnProtocol !== ALPN) throw opening.refusal('it did not negotiate the protocol "postgresql" (ALPN), which direct TLS needs: PostgreSQL 17 or newer is needed');
    return opening.finished({ socket: secure, tls: secure, address });
  } catch (error) {
    opening.abandon();
    throw error;
  }
}

/** One attempt, until the socket is handed over. */
class Opening {
  #socket: Socket;
  readonly #at: PostgresHost;
  readonly #failed: PromiseWithResolvers<never> = Promise.withResolvers();
  readonly #watched: Disposable | undefined;
  readonly #onError = (cause: Error): void => this.#failed.reject(this.#failure(cause));
  readonly #onClose = (): void => this.#failed.reject(new ConnectionLost(`${shownHost(this.#at)} closed the connection before the log-in`, { sqlstate: '08006' }));
  #isEncrypting = false;

  constructor(socket: Socket, at: PostgresHost, limit: Limit, clock: Clock) {
    this.#socket = socket;
    this.#at = at;
    this.#failed.promise.catch(() => undefined); // whoever waits is told
    this.#listen(socket);
    this.#watched = watchLimit(limit, clock, (error: DatabaseError) => this.#failed.reject(error));
  }

  until(event: 'connect' | 'secureConnect'): Promise<unknown> {
    return this.#or(new Promise((resolve) => this.#socket.once(event, resolve)));
  }

  /** Whether the server agrees. @throws when it does not and must */
  async asksForTls(mayBePlain: boolean): Promise<boolean> {
    const writer = new MessageWriter();
    writer.sslRequest();
    this.#socket.write(writer.take());
    const answer = await this.#or(new Promise<Buffer>((resolve) => this.#socket.once('data', (chunk: Buffer) => {
      this.#socket.pause(); // what comes next is for TLS
      resolve(chunk);
    })));
    if (answer.length !== 1) throw this.refusal('it sent more than its answer before encryption, as somebody does who is in between');
    if (answer[0] === YES) return true;
    if (answer[0] === ERROR) throw this.refusal('it does not know of TLS (its answer is not shown: nobody has proved whose it is)');
    if (answer[0] !== NO) throw this.refusal('its answer is none of PostgreSQL');
    if (!mayBePlain) throw this.refusal('it does not offer TLS, and the address asks for it (sslmode)');
    this.#socket.resume();
    return false;
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

  refusal(problem: string, cause?: unknown): SvcError<'E_DB_CONNECT'> {
    return new SvcError('E_DB_CONNECT', [shownHost(this.#at), problem], { cause });
  }

  finished(result: PostgresSocket): PostgresSocket {
    this.#watched?.[Symbol.dispose]();
    this.#socket.off('error', this.#onError);
    this.#socket.off('close', this.#onClose);
    return result;
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
    const code = (cause as NodeJS.ErrnoException).code ?? cause.message;
    if (this.#isEncrypting && !/^E(?:CONN|PIPE|TIMEDOUT|HOST|NET)/.test(code)) return this.refusal(`its TLS is not accepted (${code})`, cause);
    return new ConnectionLost(`${shownHost(this.#at)} cannot be reached (${code})`, { sqlstate: '08001', cause });
  }
}

async function tlsOptions(tls: PostgresTls, name: string, shown: string): Promise<ConnectionOptions> {
  const { mode, rootCertificate, keyPassword } = tls;
  const checksChain = mode === 'verify-ca' || mode === 'verify-full' || mode === 'require' && rootCertificate !== undefined; // as libpq has it
  const [ca, cert, key] = await Promise.all([rootCertificate === 'system' ? undefined : fileOf(rootCertificate, shown), fileOf(tls.certificate, shown), fileOf(tls.key, shown)]);
  return {
    minVersion: tls.leastVersion, rejectUnauthorized: checksChain, ...tls.negotiation === 'direct' && { ALPNProtocols: [ALPN] },
    ...tls.sendsServerName && isIP(name) === 0 && { servername: name },
    ...ca !== undefined && { ca }, ...cert !== undefined && { cert }, ...key !== undefined && { key }, ...keyPassword !== undefined && { passphrase: keyPassword },
    checkServerIdentity: (_: string, certificate: PeerCertificate) => mode === 'verify-full' ? checkServerIdentity(name, certificate) : undefined,
  };
}

async function fileOf(path: string | undefined, shown: string): Promise<Buffer | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readFile(path);
  } catch (cause) {
    throw new SvcError('E_DB_CONNECT', [shown, `the file "${path}" cannot be read (${(cause as NodeJS.ErrnoException).code})`], { cause });
  }
}

function isUnix(host: string): boolean { return host.startsWith('/'); }

function socketPath({ host, port }: PostgresHost): string { return `${host}/.s.PGSQL.${port}`; }
