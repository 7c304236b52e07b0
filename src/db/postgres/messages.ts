/**
 * PostgreSQL protocol 3: the server's messages (chapter 55.7 of its manual). Opens no socket, sets no timer; conversation.ts does.
 *
 *   message = type:1  length:4 (counts itself, not the type)  body
 *
 * Every count and length in a body is checked against its end before it is used, and before memory is taken for it.
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
  copyBoth: 0x57,
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

/** The longest message that a server can send. */
export const MAX_MESSAGE_BYTES: number = 1024 ** 3;

const HEADER_BYTES = 5;
const LENGTH_BYTES = 4;

/** What has the server's authentication message. */
export type Authentication =
  | { readonly kind: 'ok' | 'cleartext' }
  | { readonly kind: 'md5'; readonly salt: Buffer }
  | { readonly kind: 'sasl'; readonly mechanisms: readonly string[] }
  | { readonly kind: 'sasl-continue' | 'sasl-final'; readonly data: string }
  | { readonly kind: 'unsupported'; readonly what: string };

/** A column of a result, as RowDescription has it. */
export interface WireColumn {
  readonly name: string;
  /** Of the table it comes from, else 0. */
  readonly tableOid: number;
  readonly typeOid: number;
  /** What the type was declared with, as a length; -1 without. */
  readonly typeModifier: number;
}

/** The fields of ErrorResponse and NoticeResponse (55.8) that we know, by their letters. */
export interface ErrorFields {
  /** Not translated: ERROR, FATAL, PANIC, WARNING, NOTICE, ... */
  readonly severity: string;
  readonly sqlstate: string;
  readonly message: string;
  /** May hold values: never shown. */
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  /** Where in a function it happened, and in which statement: may hold values, too. */
  readonly where: string | undefined;
  /** In characters of the statement, from 1. */
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
/** A key of protocol 3.2 may have so many bytes. */
const MAX_KEY_BYTES = 256;
const SALT_BYTES = 4;

/** Where a message is: its type, and where its body begins and ends in `bytes`, which are the reader's: copy what is to stay. */
export type OnMessage = (type: number, bytes: Buffer, at: number, end: number) => void;

/** Cuts a stream of bytes into messages. */
export class MessageReader extends FrameReader {
  /** Gets each message. */
  onMessage: OnMessage;

  constructor(onMessage: OnMessage) {
    super(HEADER_BYTES);
    this.onMessage = onMessage;
  }

  protected totalOf(bytes: Buffer, at: number): number {
    const length = bytes.readInt32BE(at + 1);
    if (length < LENGTH_BYTES)
      throw new ProtocolViolation(`a message of ${length} bytes, which is less than its length takes`);
    if (length > this.maxBytes)
      throw new ProtocolViolation(`a message of ${length} bytes, where ${this.maxBytes} are the most`);
    return length + 1;
  }

  protected onFrame(bytes: Buffer, at: number, end: number): void {
    this.onMessage(bytes[at]!, bytes, at + HEADER_BYTES, end);
  }
}

/** Reads a body from its begin to its end. */
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

  /** Text up to a NUL. */
  text(): string {
    const end = this.source.indexOf(0, this.at);
    if (end === -1 || end >= this.end) throw new ProtocolViolation('text without an end');
    const text = this.source.toString('utf8', this.at, end);
    this.at = end + 1;
    return text;
  }

  /** A copy. */
  copy(count: number): Buffer {
    const at = this.take(count);
    return Buffer.from(this.source.subarray(at, at + count));
  }

  /** A count of things that take at least so many bytes each. */
  count(leastBytes: number): number {
    const count = this.uint16();
    if (count * leastBytes > this.left) throw new ProtocolViolation('a count of more than the message holds');
    return count;
  }

  /** @throws ProtocolViolation when something is left */
  done(): void {
    if (this.left !== 0) throw new ProtocolViolation(`${this.left} bytes too many in a message`);
  }
}

/** `R`: what is asked for. */
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

/** `K`: what a CancelRequest must show. */
export function readBackendKey(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly processId: number; readonly key: Buffer } {
  const body = new BodyReader(bytes, at, end);
  const processId = body.int32();
  if (body.left < 4 || body.left > MAX_KEY_BYTES) throw new ProtocolViolation(`a key of ${body.left} bytes`);
  return { processId, key: body.copy(body.left) };
}

/** `v`: the newest minor version the server has, and what parameters it does not know. */
export function readNegotiation(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly version: number; readonly unknown: readonly string[] } {
  const body = new BodyReader(bytes, at, end);
  const version = body.int32();
  const count = body.uint32();
  if (count > body.left) throw new ProtocolViolation('a count of more than the message holds');
  return finished(body, { version, unknown: Array.from({ length: count }, () => body.text()) });
}

/** `S`: a setting and its value. */
export function readParameterStatus(
  bytes: Buffer,
  at: number,
  end: number,
): readonly [name: string, value: string] {
  const body = new BodyReader(bytes, at, end);
  return finished(body, [body.text(), body.text()] as const);
}

/** `Z`: `I` idle, `T` in a transaction, `E` in one that has failed. */
export function readStatus(bytes: Buffer, at: number, end: number): 'I' | 'T' | 'E' {
  const status = end - at === 1 ? String.fromCharCode(bytes[at]!) : '';
  if (status !== 'I' && status !== 'T' && status !== 'E')
    throw new ProtocolViolation('a transaction status that there is not');
  return status;
}

/** `E` and `N`. A field that is there twice counts once. */
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

/** `T`. Formats are left out: we say ourselves which are to come. */
export function readRowDescription(bytes: Buffer, at: number, end: number): WireColumn[] {
  const body = new BodyReader(bytes, at, end);
  const count = body.count(19);
  const columns = new Array<WireColumn>(count);
  for (let index = 0; index < count; index++) columns[index] = readColumn(body);
  return finished(body, columns);
}

/** `t`: the types of the parameters. */
export function readParameterDescription(bytes: Buffer, at: number, end: number): number[] {
  const body = new BodyReader(bytes, at, end);
  const oids = new Array<number>(body.count(4));
  for (let index = 0; index < oids.length; index++) oids[index] = body.uint32();
  return finished(body, oids);
}

/** `C`: what was done: `INSERT 0 3`, `SELECT 10`, `ROLLBACK`. */
export function readCommandTag(bytes: Buffer, at: number, end: number): string {
  if (bytes.indexOf(0, at) !== end - 1) throw new ProtocolViolation('text without an end');
  return bytes.toString('latin1', at, end - 1);
}

/** `A`: of whom, on which channel, what. */
export function readNotification(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly processId: number; readonly channel: string; readonly payload: string } {
  const body = new BodyReader(bytes, at, end);
  return finished(body, { processId: body.int32(), channel: body.text(), payload: body.text() });
}

function readColumn(body: BodyReader): WireColumn {
  const name = body.text();
  const tableOid = body.uint32();
  body.int16(); // the number of the column in its table
  const typeOid = body.uint32();
  body.int16(); // the size of the type
  const typeModifier = body.int32();
  body.int16(); // the format
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
