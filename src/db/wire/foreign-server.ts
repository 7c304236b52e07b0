/**
 * Servers of other kinds, by the first bytes that they send: an address may have the wrong port.
 */

/** `length:3 sequence:1 version:1`, and the version or an error. */
const MYSQL_GREETING_BYTES = 5;
const MYSQL_VERSION = 10;
const MYSQL_ERROR = 0xff;

const TEXTS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^HTTP\/\d/, 'an HTTP server'],
  [/^[-+](?:ERR|NOAUTH|NOPERM|DENIED|PONG|OK|LOADING)\b/, 'a server of Redis or Valkey'],
  [/^SSH-/, 'an SSH server'],
  [/^220[ -]/, 'a mail or FTP server'],
];

/** The servers that we are clients of. */
export type ServerKind = 'PostgreSQL' | 'MySQL' | 'Redis';

/** Which server begins so, if it is known and not one of `ours`. Servers of PostgreSQL wait until they are spoken to. */
export function foreignServer(bytes: Uint8Array, ours: ServerKind): string | undefined {
  if (
    ours !== 'MySQL' &&
    bytes.length >= MYSQL_GREETING_BYTES &&
    bytes[2] === 0 &&
    bytes[3] === 0 &&
    (bytes[4] === MYSQL_VERSION || bytes[4] === MYSQL_ERROR)
  )
    return 'a server of MySQL or MariaDB';
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 16)).toString('latin1');
  const name = TEXTS.find(([pattern]) => pattern.test(text))?.[1];
  return name?.includes(ours) === true ? undefined : name;
}
