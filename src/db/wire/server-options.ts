/**
 * How a database server is reached and proved, whichever protocol it speaks: read out of its address by server-url.ts.
 */
import { isIP } from 'node:net';

/** How far a connection is encrypted and its server proved (libpq's words). `allow` is left out: it is never worth having. */
export type SslMode = 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full';

/** What kind of server is wanted (libpq's words). */
export type TargetSession = 'any' | 'read-write' | 'read-only' | 'primary' | 'standby' | 'prefer-standby';

/** One server. */
export interface ServerHost {
  /** A name or an address; or, beginning with a slash, where a unix socket is. */
  readonly host: string;
  readonly port: number;
}

/** How connections are encrypted. */
export interface ServerTls {
  readonly mode: SslMode;
  /** Paths of PEM files: who may sign the server's certificate; ours, and its key. `system` for the authorities of Node. */
  readonly rootCertificate: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** The passphrase of the key. */
  readonly keyPassword: string | undefined;
  /** Whether the name is sent in the clear for the server to choose a certificate by (SNI). */
  readonly sendsServerName: boolean;
  readonly leastVersion: 'TLSv1.2' | 'TLSv1.3';
}

/** Whether a host is this machine: no network is between, where somebody could listen. */
export function isLocalHost(host: string): boolean {
  return (
    isUnixHost(host) ||
    host === 'localhost' ||
    host === '::1' ||
    (isIP(host) === 4 && host.startsWith('127.'))
  );
}

/** Whether it is a unix socket. */
export function isUnixHost(host: string): boolean {
  return host.startsWith('/');
}
