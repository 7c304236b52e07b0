/**
 * Finds out which software answers at an address. A server that sends nothing may be waiting for a client of
 * another protocol.
 *
 * To recognize a server, this module sends it two requests without secrets, on separate connections.
 * PostgreSQL answers an SSLRequest with S or N. Redis and Valkey answer PING with PONG or an error, and an
 * HTTP server with status 400.
 *
 * foreignServer() needs no request: it recognizes a server by the first bytes that arrive.
 */
import { connect, type Socket } from 'node:net';
import { asBuffer } from '../../base/bytes.ts';
import { SvcError } from '../../base/errors.ts';
import { defined } from '../../base/options.ts';
import { shownEndpoint, type Endpoint } from './server-socket.ts';
import type { Clock } from '../../base/clock.ts';

/** Milliseconds to wait for data from the server before the two requests are sent. */
const SILENT_MS = 1_000;
const ANSWER_MS = 2_000;
const QUESTIONS: readonly Buffer[] = [Buffer.from('0000000804d2162f', 'hex'), Buffer.from('PING\r\n\r\n')];
const YES = 0x53;
const NO = 0x4e;

/**
 * Calls `refuse` if the server sends nothing for a second and is of another kind than `ours`. Dispose of the
 * result when the server has sent data.
 */
export function probeWhenSilent(
  endpoint: Endpoint,
  ours: ServerKind,
  clock: Clock,
  refuse: (error: SvcError) => void,
): Disposable {
  let isOver = false;
  const timer = clock.after(SILENT_MS, () => {
    void askServer(endpoint, ours, clock).then((kind) => {
      if (kind !== undefined && !isOver) refuse(foreignRefusal(shownEndpoint(endpoint), kind, ours));
    });
  });
  return {
    [Symbol.dispose]: () => {
      isOver = true;
      timer[Symbol.dispose]();
    },
  };
}

/** Returns the kind of the server at an address. Returns undefined when the kind is `ours` or unknown. */
export async function askServer(
  endpoint: Endpoint,
  ours: ServerKind,
  clock: Clock,
): Promise<string | undefined> {
  const asked = QUESTIONS.map(async (question) => {
    const kind = await ask(endpoint, question, ours, clock);
    if (kind === undefined) throw new Error('the server sent no reply that shows which kind of server it is');
    return kind;
  });
  try {
    return await Promise.any(asked);
  } catch {
    return undefined;
  }
}

function ask(
  { at: { host, port }, path }: Endpoint,
  question: Buffer,
  ours: ServerKind,
  clock: Clock,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket: Socket = connect(path === undefined ? { host, port } : { path });
    const timer = clock.after(ANSWER_MS, () => end(undefined));
    const end = (kind: string | undefined): void => {
      timer[Symbol.dispose]();
      socket.destroy();
      resolve(kind);
    };
    socket.on('error', () => end(undefined));
    socket.once('close', () => end(undefined));
    socket.once('connect', () => socket.write(question));
    socket.once('data', (bytes: Buffer) => end(kindOf(bytes, ours)));
  });
}

function kindOf(bytes: Buffer, ours: ServerKind): string | undefined {
  const kind = foreignServer(bytes, ours);
  if (kind !== undefined || ours === 'PostgreSQL') return kind;
  return bytes.length === 1 && (bytes[0] === YES || bytes[0] === NO) ? 'a server of PostgreSQL' : undefined;
}

/**
 * A MySQL greeting begins with the length (3 bytes), a sequence number and the protocol version. An error
 * packet has 0xff instead of the version.
 */
const MYSQL_VERSION = 10;
const MYSQL_ERROR = 0xff;

const TEXTS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^HTTP\/\d/, 'an HTTP server'],
  [/^[-+](?:ERR|NOAUTH|NOPERM|DENIED|PONG|OK|LOADING)\b/, 'a server of Redis or Valkey'],
  [/^SSH-/, 'an SSH server'],
  [/^220[ -]/, 'a mail or FTP server'],
];

type ServerKind = 'PostgreSQL' | 'MySQL' | 'Redis';

const NAMES: Readonly<Record<ServerKind, string>> = {
  PostgreSQL: 'a PostgreSQL server',
  MySQL: 'a MySQL or MariaDB server',
  Redis: 'a Redis server',
};

/** Returns the error for an address at which a server of another kind than `ours` answers. */
export function foreignRefusal(shown: string, kind: string, ours: ServerKind, cause?: unknown): SvcError {
  return new SvcError(
    'E_DB_CONNECT',
    [shown, `the server is ${kind}, not ${NAMES[ours]}`],
    defined({ cause }),
  );
}

/**
 * Returns the kind of a server by the first bytes that it sends. Returns undefined if the kind is unknown or
 * `ours`. Cannot recognize PostgreSQL, which waits for the first bytes of its client.
 */
export function foreignServer(bytes: Uint8Array, ours: ServerKind): string | undefined {
  if (
    ours !== 'MySQL' &&
    bytes[2] === 0 &&
    bytes[3] === 0 &&
    (bytes[4] === MYSQL_VERSION || bytes[4] === MYSQL_ERROR)
  )
    return 'a server of MySQL or MariaDB';
  const text = asBuffer(bytes).toString('latin1', 0, 16);
  const name = TEXTS.find(([pattern]) => pattern.test(text))?.[1];
  return name?.includes(ours) === true ? undefined : name;
}
