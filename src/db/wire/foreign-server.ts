/**
 * Recognises other kinds of servers by their first bytes, because an address may have the wrong port.
 */

/** A MySQL greeting: `length:3 sequence:1 version:1`, then the version or an error. */
const MYSQL_GREETING_BYTES = 5;
const MYSQL_VERSION = 10;
const MYSQL_ERROR = 0xff;

const TEXTS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^HTTP\/\d/, 'an HTTP server'],
  [/^[-+](?:ERR|NOAUTH|NOPERM|DENIED|PONG|OK|LOADING)\b/, 'a server of Redis or Valkey'],
  [/^SSH-/, 'an SSH server'],
  [/^220[ -]/, 'a mail or FTP server'],
];

/** The kinds of servers that this package has clients for. */
export type ServerKind = 'PostgreSQL' | 'MySQL' | 'Redis';

/**
 * Returns the kind of a server that sends these bytes, if it is known and not one of `ours`. PostgreSQL
 * servers send nothing first.
 */
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
