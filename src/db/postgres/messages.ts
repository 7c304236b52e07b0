/**
 * PostgreSQL protocol 3: decodes the server's messages (chapter 55.7 of its manual). No sockets, no timers;
 * conversation.ts has them.
 *
 *   message = type:1  length:4 (includes itself, not the type)  body
 *
 * Every count and length is checked against the end of the message before it is used or memory is allocated.
 */
import { ProtocolViolation } from '../errors.ts';
import { FieldReader, FrameReader } from '../wire/bytes.ts';

/** Messages of the server, by their first byte. */
export const SERVER = {
  authentication: 0x52,
  backendKeyData: 0x4b,
  bindComplete: 0x32,
  closeComplete: 0x33,
  commandComplete: 0x43,
  copyData: 0x64,
  copyDone: 0x63,
  copyIn: 0x47,
  copyOut: 0x48,
  dataRow: 0x44,
  emptyQuery: 0x49,
  error: 0x45,
  negotiateVersion: 0x76,
  noData: 0x6e,
  notice: 0x4e,
  notification: 0x41,
  parameterDescription: 0x74,
  parameterStatus: 0x53,
  parseComplete: 0x31,
  portalSuspended: 0x73,
  readyForQuery: 0x5a,
  rowDescription: 0x54,
} as const;

/** Maximum length of a message. */
export const MAX_MESSAGE_BYTES: number = 1024 ** 3;

const HEADER_BYTES = 5;
const LENGTH_BYTES = 4;

/** Request codes of the authentication message. */
export type Authentication =
  | { readonly kind: 'ok' | 'cleartext' }
  | { readonly kind: 'md5'; readonly salt: Buffer }
  | { readonly kind: 'sasl'; readonly mechanisms: readonly string[] }
  | { readonly kind: 'sasl-continue' | 'sasl-final'; readonly data: string }
  | { readonly kind: 'unsupported'; readonly what: string };

/** A column of a result, from RowDescription. */
export interface WireColumn {
  readonly name: string;
  /** OID of the column's table, else 0. */
  readonly tableOid: number;
  readonly typeOid: number;
  /** The type modifier, such as a length; -1 without one. */
  readonly typeModifier: number;
}

/** Fields of ErrorResponse and NoticeResponse (55.8), by their letters. */
export interface ErrorFields {
  /** Severity, never translated: ERROR, FATAL, PANIC, WARNING, NOTICE, ... */
  readonly severity: string;
  readonly sqlstate: string;
  readonly message: string;
  /** Detail. It may contain values, so it is never shown. */
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  /** Call context: function and statement. It may contain values, too. */
  readonly where: string | undefined;
  /** Position in characters of the statement, from 1. */
  readonly position: number | undefined;
  readonly schema: string | undefined;
  readonly table: string | undefined;
  readonly column: string | undefined;
  readonly type: string | undefined;
  readonly constraint: string | undefined;
  readonly routine: string | undefined;
}

const UNSUPPORTED: Readonly<Record<number, string>> = {
  2: 'Kerberos V5',
  6: 'SCM credentials',
  7: 'GSSAPI',
  8: 'GSSAPI',
  9: 'SSPI',
};
/** Maximum length of a key in protocol 3.2. */
const MAX_KEY_BYTES = 256;
const SALT_BYTES = 4;

/**
 * Handler of a message: its type, and the start and end of its body in `bytes`. The reader reuses the bytes,
 * so copy values that must stay.
 */
export type OnMessage = (type: number, bytes: Buffer, at: number, end: number) => void;

/** Splits a byte stream into messages. */
export class MessageReader extends FrameReader {
  /** Handles each message. */
  onMessage: OnMessage;

  constructor(onMessage: OnMessage) {
    super(HEADER_BYTES);
    this.onMessage = onMessage;
  }

  protected totalOf(bytes: Buffer, at: number): number {
    const length = bytes.readInt32BE(at + 1);
    if (length < LENGTH_BYTES)
      throw new ProtocolViolation(
        `the server sent a message length of ${length}, which is below the minimum`,
      );
    if (length > this.maxBytes)
      throw new ProtocolViolation(
        `the server sent a message of ${length} bytes; the limit is ${this.maxBytes}`,
      );
    return length + 1;
  }

  protected onFrame(bytes: Buffer, at: number, end: number): void {
    this.onMessage(bytes[at]!, bytes, at + HEADER_BYTES, end);
  }
}

/** Reads the fields of one body. */
export class BodyReader extends FieldReader {
  int16(): number {
    return this.source.readInt16BE(this.take(2));
  }
  uint16(): number {
    return this.source.readUInt16BE(this.take(2));
  }
  int32(): number {
    return this.source.readInt32BE(this.take(4));
  }
  uint32(): number {
    return this.source.readUInt32BE(this.take(4));
  }

  /** Reads text up to a NUL. */
  text(): string {
    const end = this.source.indexOf(0, this.at);
    if (end === -1 || end >= this.end)
      throw new ProtocolViolation('the server sent text without a NUL at its end');
    const text = this.source.toString('utf8', this.at, end);
    this.at = end + 1;
    return text;
  }

  /** Reads bytes as a copy. */
  copy(count: number): Buffer {
    const at = this.take(count);
    return Buffer.from(this.source.subarray(at, at + count));
  }

  /** Reads a count of items, each of which has a minimum size in bytes. */
  count(leastBytes: number): number {
    const count = this.uint16();
    if (count * leastBytes > this.left)
      throw new ProtocolViolation('the server sent a count of values that the message cannot hold');
    return count;
  }

  /** @throws ProtocolViolation when unread bytes remain */
  done(): void {
    if (this.left !== 0)
      throw new ProtocolViolation(`the server sent ${this.left} extra bytes at the end of a message`);
  }
}

/** Parses `R`: the requested authentication. */
export function readAuthentication(bytes: Buffer, at: number, end: number): Authentication {
  const body = new BodyReader(bytes, at, end);
  const code = body.int32();
  switch (code) {
    case 0:
      return finished(body, { kind: 'ok' });
    case 3:
      return finished(body, { kind: 'cleartext' });
    case 5:
      return finished(body, { kind: 'md5', salt: body.copy(SALT_BYTES) });
    case 10:
      return finished(body, { kind: 'sasl', mechanisms: namesOf(body) });
    case 11:
      return { kind: 'sasl-continue', data: body.copy(body.left).toString() };
    case 12:
      return { kind: 'sasl-final', data: body.copy(body.left).toString() };
    default:
      return { kind: 'unsupported', what: UNSUPPORTED[code] ?? `method ${code}` };
  }
}

/** Parses `K`: process id and key for a CancelRequest. */
export function readBackendKey(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly processId: number; readonly key: Buffer } {
  const body = new BodyReader(bytes, at, end);
  const processId = body.int32();
  if (body.left < 4 || body.left > MAX_KEY_BYTES)
    throw new ProtocolViolation(`the server sent an invalid key length of ${body.left} bytes`);
  return { processId, key: body.copy(body.left) };
}

/** Parses `v`: the newest minor version of the server, and the parameters it does not know. */
export function readNegotiation(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly version: number; readonly unknown: readonly string[] } {
  const body = new BodyReader(bytes, at, end);
  const version = body.int32();
  const count = body.uint32();
  if (count > body.left)
    throw new ProtocolViolation('the server sent a count of values that the message cannot hold');
  return finished(body, { version, unknown: Array.from({ length: count }, () => body.text()) });
}

/** Parses `S`: a setting and its value. */
export function readParameterStatus(
  bytes: Buffer,
  at: number,
  end: number,
): readonly [name: string, value: string] {
  const body = new BodyReader(bytes, at, end);
  return finished(body, [body.text(), body.text()] as const);
}

/** Parses `Z`: `I` idle, `T` in a transaction, `E` in a failed one. */
export function readStatus(bytes: Buffer, at: number, end: number): 'I' | 'T' | 'E' {
  const status = end - at === 1 ? String.fromCharCode(bytes[at]!) : '';
  if (status !== 'I' && status !== 'T' && status !== 'E')
    throw new ProtocolViolation('the server sent an unknown transaction status');
  return status;
}

/** Parses `E` and `N`. The last of repeated fields counts. */
export function readErrorFields(bytes: Buffer, at: number, end: number): ErrorFields {
  const body = new BodyReader(bytes, at, end);
  const fields = new Map<number, string>();
  for (let letter = body.byte(); letter !== 0; letter = body.byte()) fields.set(letter, body.text());
  const field = (letter: string): string | undefined => fields.get(letter.charCodeAt(0));
  const position = Number(field('P'));
  return {
    severity: field('V') ?? field('S') ?? 'ERROR',
    sqlstate: field('C') ?? 'XX000',
    message: field('M') ?? '',
    detail: field('D'),
    hint: field('H'),
    where: field('W'),
    position: Number.isSafeInteger(position) && position > 0 ? position : undefined,
    schema: field('s'),
    table: field('t'),
    column: field('c'),
    type: field('d'),
    constraint: field('n'),
    routine: field('R'),
  };
}

/** Parses `T`. Column formats are ignored, because the client chooses them. */
export function readRowDescription(bytes: Buffer, at: number, end: number): WireColumn[] {
  const body = new BodyReader(bytes, at, end);
  const count = body.count(19);
  const columns = new Array<WireColumn>(count);
  for (let index = 0; index < count; index++) columns[index] = readColumn(body);
  return finished(body, columns);
}

/** Parses `t`: the types of the parameters. */
export function readParameterDescription(bytes: Buffer, at: number, end: number): number[] {
  const body = new BodyReader(bytes, at, end);
  const oids = new Array<number>(body.count(4));
  for (let index = 0; index < oids.length; index++) oids[index] = body.uint32();
  return finished(body, oids);
}

/** Parses `C`, the command tag: `INSERT 0 3`, `SELECT 10`, `ROLLBACK`. */
export function readCommandTag(bytes: Buffer, at: number, end: number): string {
  if (bytes.indexOf(0, at) !== end - 1)
    throw new ProtocolViolation('the server sent text without a NUL at its end');
  return bytes.toString('latin1', at, end - 1);
}

/** A notification: process id of the sender, channel and payload. */
export interface Notification {
  readonly processId: number;
  readonly channel: string;
  readonly payload: string;
}

/** Parses `A`. */
export function readNotification(bytes: Buffer, at: number, end: number): Notification {
  const body = new BodyReader(bytes, at, end);
  return finished(body, { processId: body.int32(), channel: body.text(), payload: body.text() });
}

function readColumn(body: BodyReader): WireColumn {
  const name = body.text();
  const tableOid = body.uint32();
  body.int16(); // skip the number of the column in its table
  const typeOid = body.uint32();
  body.int16(); // skip the size of the type
  const typeModifier = body.int32();
  body.int16(); // skip the format
  return { name, tableOid, typeOid, typeModifier };
}

function namesOf(body: BodyReader): string[] {
  const names: string[] = [];
  for (let name = body.text(); name !== ''; name = body.text()) names.push(name);
  return names;
}

function finished<T>(body: BodyReader, value: T): T {
  body.done();
  return value;
}
