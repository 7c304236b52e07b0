/**
 * Fake servers of MySQL and MariaDB, and their packets.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { COMMAND } from '../../src/db/mysql/wire.ts';
import type { TestContext } from 'node:test';

/** All capability flags except TLS and session tracking. */
export const CAPABILITIES: number = 0xffff_f7ff & ~0x80_0000;
export const TLS_CAPABILITY = 0x800;
/** Capability flag that MySQL servers set, and MariaDB servers do not. */
export const LONG_PASSWORD = 0x1;
export const NONCE = 'abcdefghijklmnopqrst';
/** An OK packet with only the status flag autocommit. */
export const OK: Buffer = Buffer.from([0, 0, 0, 2, 0, 0, 0]);
/** An OK packet inside of a transaction. */
export const IN_TRANSACTION: Buffer = Buffer.from([0, 0, 0, 3, 0, 0, 0]);

/** Returns a packet with its length and sequence number. */
export function packet(sequence: number, ...parts: readonly (Uint8Array | string)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  return Buffer.concat([
    Buffer.from([body.length & 0xff, (body.length >> 8) & 0xff, body.length >> 16, sequence]),
    body,
  ]);
}

/** Returns the first packet of a server. */
export function greeting(
  capabilities: number = CAPABILITIES,
  plugin: string = 'mysql_native_password',
  version: string = '8.0.0-fake',
): Buffer {
  const flags = Buffer.alloc(4);
  flags.writeUInt32LE(capabilities >>> 0);
  return packet(
    0,
    Buffer.of(10),
    `${version}\0`,
    Buffer.from([1, 0, 0, 0]),
    `${NONCE.slice(0, 8)}\0`,
    flags.subarray(0, 2),
    Buffer.from([45, 2, 0]),
    flags.subarray(2),
    Buffer.of(21),
    Buffer.alloc(10),
    `${NONCE.slice(8)}\0`,
    `${plugin}\0`,
  );
}

/** Returns the description of a BIGINT column. */
export const column = (name: string): Buffer =>
  Buffer.concat([
    ...['def', '', '', '', name, ''].map((text) => Buffer.from([text.length, ...Buffer.from(text)])),
    Buffer.from([0x0c, 63, 0, 20, 0, 0, 0, 8, 0, 0, 0]),
  ]);
/** EOF packet, which ends columns and rows. */
export const END: Buffer = Buffer.from([0xfe, 0, 0, 2, 0, 0, 0]);
/** Response to the first query after the login: the server's packet limit. */
export const MOST: Buffer = Buffer.concat([
  packet(1, Buffer.of(1)),
  packet(2, column('@@max_allowed_packet')),
  packet(3, Buffer.from([7]), '9000000'),
  packet(4, END),
]);
/** Returns the response to COM_STMT_PREPARE: statement 1 without rows, and with this number of parameters. */
export function prepared(parameters: number = 0): Buffer {
  return Buffer.concat([
    packet(1, Buffer.of(0, 1, 0, 0, 0, 0, 0, parameters & 0xff, parameters >> 8, 0, 0, 0)),
    ...Array.from({ length: parameters }, (_, index) => packet((2 + index) & 0xff, column('?'))),
  ]);
}

/** Returns the body of each packet in a chunk of the client. */
export function packetsIn(chunk: Buffer): Buffer[] {
  const bodies: Buffer[] = [];
  for (let at = 0; at < chunk.length; at += 4 + chunk.readUIntLE(at, 3))
    bodies.push(chunk.subarray(at + 4, at + 4 + chunk.readUIntLE(at, 3)));
  return bodies;
}

/** Starts a server that sends a greeting and replies with the result of `answer`. Returns the received bytes, too. */
export async function fakeMySql(
  t: TestContext,
  first: Buffer,
  answer: (received: Buffer, count: number, socket: Socket) => Buffer | undefined,
): Promise<{ readonly url: string; readonly received: Buffer[] }> {
  const received: Buffer[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.write(first);
    let count = 0;
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk);
      const said = answer(chunk, count++, socket);
      if (said !== undefined) socket.write(said);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `mysql://app:hunter2@127.0.0.1:${(server.address() as AddressInfo).port}/shop`, received };
}

/** Whether a server replies to the request with this body. */
export function needsReply([command]: Uint8Array): boolean {
  return command !== COMMAND.quit && command !== COMMAND.stmtClose && command !== COMMAND.stmtSendLongData;
}

interface AcceptingOptions {
  /** Packet with which the login begins. */
  readonly first?: Buffer;
  /** Status after a ROLLBACK; with autocommit by default. */
  readonly afterRollback?: Buffer;
  /** Returns the reply to a request for a prepared statement with this text. */
  readonly prepare?: (text: string) => Buffer;
  /** Returns an error for the next run of a prepared statement; undefined if it succeeds. */
  readonly execute?: () => Buffer | undefined;
}

/** Starts a server that accepts each login and each statement, and collects the texts of queries. */
export async function acceptingMySql(
  t: TestContext,
  {
    first = greeting(),
    afterRollback = OK,
    prepare = (text) => prepared(text.split('?').length - 1),
    execute = () => undefined,
  }: AcceptingOptions = {},
): Promise<{ readonly url: string; readonly texts: string[]; readonly received: readonly Buffer[] }> {
  const texts: string[] = [];
  let status = OK;
  let pending = Buffer.alloc(0);
  const reply = (body: Buffer): Buffer => {
    const isStatement = body[0] === COMMAND.query || body[0] === COMMAND.stmtPrepare;
    const text = isStatement ? body.toString('utf8', 1) : '';
    if (text.includes('max_allowed_packet')) return MOST;
    if (body[0] === COMMAND.stmtPrepare) return prepare(text);
    const error = body[0] === COMMAND.stmtExecute ? execute() : undefined;
    if (error !== undefined) return error;
    if (body[0] === COMMAND.query) texts.push(text);
    if (text.startsWith('start transaction')) status = IN_TRANSACTION;
    else if (text === 'rollback') status = afterRollback;
    else if (text === 'commit' || text === 'set autocommit = 1') status = OK;
    return packet(1, status);
  };
  const { url, received } = await fakeMySql(t, first, (bytes, count) => {
    if (count === 0) return packet(2, OK);
    pending = Buffer.concat([pending, bytes]);
    let end = 0;
    for (let next = 0; next <= pending.length; next += 4 + pending.readUIntLE(next, 3)) {
      end = next;
      if (pending.length - next < 4) break;
    }
    const whole = packetsIn(pending.subarray(0, end));
    pending = pending.subarray(end);
    return Buffer.concat(whole.filter(needsReply).map(reply));
  });
  return { url, texts, received };
}
