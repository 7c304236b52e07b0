/**
 * TLS: a node:https server whose certificate can be replaced while it runs. This file is only imported if TLS
 * is used.
 *
 * SIGHUP reads the certificate and key again. If they are not usable, an error is logged, and the old ones
 * stay in use. Open connections keep their certificate.
 *
 * The keys of session tickets are replaced twice a day, and with each new certificate. So a stolen key
 * decrypts only few sessions (RFC 8446 §8.1, RFC 5077 §5.5).
 */
import { X509Certificate, constants, createPrivateKey, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import tls from 'node:tls';
import { SvcError, errorCode } from '../../base/errors.ts';
import { pemText } from '../../crypto/keys.ts';
import type { RequestListener, Server, ServerOptions } from 'node:http';
import type { Server as SecureServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { ServerTlsOptions } from './options.ts';

const TICKET_KEYS_MS = 12 * 3_600_000;
const TICKET_KEY_BYTES = 48;
/**
 * Allowed cipher suites: all suites of TLS 1.3, and the suites of TLS 1.2 with forward secrecy and
 * authenticated encryption (RFC 9325 §4.2).
 */
const CIPHERS = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  ...['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].flatMap((cipher) => [
    `ECDHE-ECDSA-${cipher}`,
    `ECDHE-RSA-${cipher}`,
  ]),
].join(':');
/** If a certificate expires within this time in milliseconds, a warning is logged. */
const SOON_MS = 14 * 24 * 3_600_000;

interface Credentials {
  readonly cert: string;
  readonly key: string;
  readonly ca?: string;
  readonly passphrase?: string;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  readonly ciphers: string;
}

/** TLS of one server: reads certificate and key, and creates the node:https server. */
export class SecureTransport {
  readonly #options: ServerTlsOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  #credentials: Credentials;
  #server: SecureServer | undefined;
  /** All TCP connections, including those in the TLS handshake, which node:http does not know. */
  readonly #sockets = new Set<Socket>();

  constructor(options: ServerTlsOptions, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#credentials = this.#load();
  }

  /** Creates the node:https server. Must be called only once. */
  createServer(options: ServerOptions, listener: RequestListener): Server {
    const server = (this.#server = createServer(
      {
        ...options,
        ...this.#credentials,
        handshakeTimeout: options.headersTimeout, // node:tls allows two minutes by default
        ALPNProtocols: ['http/1.1', 'http/1.0'], // other protocols are refused (RFC 7301 §3.2)
        requestCert: this.#options.ca !== undefined,
        rejectUnauthorized: true,
      },
      listener,
    ));
    let timer = this.#clock.after(TICKET_KEYS_MS, () => renew());
    const renew = (): void => {
      server.setTicketKeys(randomBytes(TICKET_KEY_BYTES));
      timer = this.#clock.after(TICKET_KEYS_MS, renew);
    };
    const sockets = this.#sockets;
    function onClose(this: Socket): void {
      sockets.delete(this);
    }
    server.on('connection', (socket: Socket) => sockets.add(socket.on('close', onClose)));
    server.on('close', () => timer[Symbol.dispose]());
    return server;
  }

  /** Closes all connections at once. */
  closeAllConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  reload(): void {
    try {
      this.#credentials = this.#load();
      this.#server?.setSecureContext(this.#credentials);
      this.#log.info('tls_reloaded', { valid_to: new X509Certificate(this.#credentials.cert).validTo });
    } catch (error) {
      this.#log.error('tls_reload_failed', error);
    }
  }

  #load(): Credentials {
    const credentials = readCredentials(this.#options);
    for (const problem of lifeOf(credentials, this.#clock.nowMs()))
      this.#log.warn('tls_certificate', { problem });
    return credentials;
  }
}

function readCredentials({ cert, key, ca, passphrase, minVersion }: ServerTlsOptions): Credentials {
  const credentials: Credentials = {
    cert: readPem(cert, 'certificate'),
    key: readPem(key, 'key'),
    minVersion,
    // a list that differs from Node's default was set with Node's option --tls-cipher-list, and stays in use
    ciphers: tls.DEFAULT_CIPHERS === constants.defaultCoreCipherList ? CIPHERS : tls.DEFAULT_CIPHERS,
    ...(ca === undefined ? {} : { ca: readPem(ca, 'authorities') }),
    ...(passphrase === undefined ? {} : { passphrase }),
  };
  let isPair: boolean;
  try {
    // the key is checked explicitly, because node:tls treats an empty key as a missing key
    isPair = new X509Certificate(credentials.cert).checkPrivateKey(createPrivateKey(credentials));
    if (isPair) tls.createSecureContext(credentials);
  } catch (error) {
    throw new SvcError('E_TLS', [reasonOf(error)], { cause: error });
  }
  if (!isPair) throw new SvcError('E_TLS', ['the key does not belong to the certificate']);
  return credentials;
}

/** Returns PEM text: `source` itself, or the content of the file at this path. */
function readPem(source: string, what: string): string {
  if (source.includes('-----BEGIN ')) return pemText(source);
  try {
    return pemText(readFileSync(source, 'utf8'));
  } catch (error) {
    throw new SvcError(
      'E_TLS',
      [`the ${what} cannot be read: ${errorCode(error) ?? 'the path does not lead to a file'}`],
      { cause: error },
    );
  }
}

/** Returns the reason for an OpenSSL error. The text contains nothing from the PEM files. */
function reasonOf(error: unknown): string {
  const { code = '' } = error as { code?: string };
  if (/PASSPHRASE|PASSWORD|BAD_DECRYPT|INTERRUPTED/i.test(code))
    return 'the key is encrypted, and the passphrase is wrong';
  return `the certificate or the key is not usable PEM (${code})`;
}

/** Returns a warning if a certificate has expired, expires soon, or is not valid yet. */
function lifeOf({ cert }: Credentials, nowMs: number): string[] {
  const { validFrom, validTo } = new X509Certificate(cert);
  if (Date.parse(validTo) <= nowMs) return [`the certificate expired on ${validTo}`];
  if (Date.parse(validFrom) > nowMs) return [`the certificate is not valid before ${validFrom}`];
  return Date.parse(validTo) - nowMs < SOON_MS ? [`the certificate expires on ${validTo}`] : [];
}

/** Returns the problems of a certificate and its key for `svc check`, one sentence each. */
export function examinePair(options: ServerTlsOptions, nowMs: number): string[] {
  try {
    return lifeOf(readCredentials(options), nowMs);
  } catch (error) {
    return [error instanceof SvcError ? error.message : String(error)];
  }
}
