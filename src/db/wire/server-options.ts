/**
 * How a database server is reached and authenticated, independent of the protocol. server-url.ts reads it
 * from an address.
 */
import { isIP } from 'node:net';

/**
 * Encryption and verification modes (libpq's names). `allow` is left out, because it may send in clear text
 * what it could encrypt.
 */
export type SslMode = 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full';

/** The wanted kind of server (libpq's names). */
export type TargetSession = 'any' | 'read-write' | 'read-only' | 'primary' | 'standby' | 'prefer-standby';

/** One server. */
export interface ServerHost {
  /** A name or an IP address; or the path of a unix socket, which begins with a slash. */
  readonly host: string;
  readonly port: number;
}

/** TLS options of connections. */
export interface ServerTls {
  readonly mode: SslMode;
  /**
   * Paths of PEM files: the authority of the server's certificate, the client's certificate, and its key.
   * `system` selects the authorities of Node.js.
   */
  readonly rootCertificate: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** The passphrase of the key. */
  readonly keyPassword: string | undefined;
  /** Whether the host name is sent in clear text, so that the server can choose a certificate (SNI). */
  readonly sendsServerName: boolean;
  readonly leastVersion: 'TLSv1.2' | 'TLSv1.3';
}

/** Returns whether a host is this machine, so that no network is involved. */
export function isLocalHost(host: string): boolean {
  return (
    isUnixHost(host) ||
    host === 'localhost' ||
    host === '::1' ||
    (isIP(host) === 4 && host.startsWith('127.'))
  );
}

/** Returns whether a host is a unix socket. */
export function isUnixHost(host: string): boolean {
  return host.startsWith('/');
}
