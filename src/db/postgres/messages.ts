/**
 * Decodes the messages of a PostgreSQL server, protocol 3 (PostgreSQL manual §55.7). A message has a type (1
 * byte), a length (4 bytes, which count themselves but not the type) and a body.
 *
 * Every count and length is checked against the end of the message before it is used.
 */
import { ProtocolViolation } from '../errors.ts';
import { FieldReader, FrameReader } from '../wire/bytes.ts';

/** Types of the server's messages. The type is the first byte of a message. */
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

/** Maximum length of a message from the server, in bytes. */
export const MAX_MESSAGE_BYTES: number = 1024 ** 3;

const HEADER_BYTES = 5;
const LENGTH_BYTES = 4;

/** Content of an authentication message: the requested method, data for this method, or `ok`. */
export type Authentication =
  | { readonly kind: 'ok' | 'cleartext' }
  | { readonly kind: 'md5'; readonly salt: Buffer }
  | { readonly kind: 'sasl'; readonly mechanisms: readonly string[] }
  | { readonly kind: 'sasl-continue' | 'sasl-final'; readonly data: string }
  | { readonly kind: 'unsupported'; readonly what: string };

/** Column of a result, from RowDescription. */
export interface WireColumn {
  readonly name: string;
  /** OID of the column's table, or 0 if the column does not belong to a table. */
  readonly tableOid: number;
  /** Number of the column in its table, or 0. */
  readonly attribute: number;
  readonly typeOid: number;
  /** Type modifier, for example a length. -1 if there is none. */
  readonly typeModifier: number;
}

/** Fields of ErrorResponse and NoticeResponse (PostgreSQL manual §55.8). */
export interface ErrorFields {
  /** Severity: ERROR, FATAL, PANIC, WARNING, NOTICE, ... It is never translated. */
  readonly severity: string;
  readonly sqlstate: string;
  readonly message: string;
  /** Detail of the error. It may contain values, so it is never shown. */
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  /**
   * Call stack of the error inside PostgreSQL: functions and statements. It may contain values, so it is
   * never shown.
   */
  readonly where: string | undefined;
  /** Position in the statement, in characters counted from 1. */
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
/** Maximum length of a cancellation key in protocol 3.2, in bytes. */
const MAX_KEY_BYTES = 256;
const SALT_BYTES = 4;

/**
 * Handler of a message. It gets the type of the message, and the start and end of the body in `bytes`. The
 * reader overwrites `bytes` later, so the handler must copy the values that it keeps.
 */
export type OnMessage = (type: number, bytes: Buffer, at: number, end: number) => void;

export class MessageReader extends FrameReader {
  onMessage: OnMessage;

  constructor(onMessage: OnMessage) {
    super(HEADER_BYTES);
    this.onMessage = onMessage;
  }

  protected totalOf(bytes: Buffer, at: number): number {
    const length = bytes.readInt32BE(at + 1);
    if (length < LENGTH_BYTES)
      throw new ProtocolViolation(
        `the server sent a message length of ${length}, which is below the minimum of ${LENGTH_BYTES}`,
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

  /** Reads text that ends with a NUL. */
  text(): string {
    const end = this.source.indexOf(0, this.at);
    if (end === -1 || end >= this.end)
      throw new ProtocolViolation('the server sent text without a NUL at its end');
    const text = this.source.toString('utf8', this.at, end);
    this.at = end + 1;
    return text;
  }

  copy(count: number): Buffer {
    const at = this.take(count);
    return Buffer.from(this.source.subarray(at, at + count));
  }

  /**
   * Reads the number of items that follow. Each item has `leastBytes` bytes or more. Throws if the message is
   * too short for all of them.
   */
  count(leastBytes: number): number {
    const count = this.uint16();
    if (count * leastBytes > this.left)
      throw new ProtocolViolation('the server announced more values than the message contains');
    return count;
  }

  /** Throws when bytes of the body are left. */
  done(): void {
    if (this.left !== 0)
      throw new ProtocolViolation(`the server sent ${this.left} extra bytes at the end of a message`);
  }
}

/** Parses an authentication message (`R`). */
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

/** Parses BackendKeyData (`K`): the process id and the key for a CancelRequest. */
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

/**
 * Parses NegotiateProtocolVersion (`v`): the newest minor version of the server, and the parameters that the
 * server does not know.
 */
export function readNegotiation(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly version: number; readonly unknown: readonly string[] } {
  const body = new BodyReader(bytes, at, end);
  const version = body.int32();
  const count = body.uint32();
  if (count > body.left)
    throw new ProtocolViolation('the server announced more values than the message contains');
  return finished(body, { version, unknown: Array.from({ length: count }, () => body.text()) });
}

/** Parses ParameterStatus (`S`): the name and the value of a setting. */
export function readParameterStatus(
  bytes: Buffer,
  at: number,
  end: number,
): readonly [name: string, value: string] {
  const body = new BodyReader(bytes, at, end);
  return finished(body, [body.text(), body.text()] as const);
}

/** Parses ReadyForQuery (`Z`): `I` for idle, `T` inside a transaction, `E` inside a failed transaction. */
export function readStatus(bytes: Buffer, at: number, end: number): 'I' | 'T' | 'E' {
  const status = end - at === 1 ? String.fromCharCode(bytes[at]!) : '';
  if (status !== 'I' && status !== 'T' && status !== 'E')
    throw new ProtocolViolation('the server sent an unknown transaction status');
  return status;
}

/** Parses ErrorResponse (`E`) or NoticeResponse (`N`). If a field is repeated, the last one counts. */
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

/** Parses RowDescription (`T`). Ignores the formats of columns, because the client chooses them. */
export function readRowDescription(bytes: Buffer, at: number, end: number): WireColumn[] {
  const body = new BodyReader(bytes, at, end);
  const count = body.count(19);
  const columns = new Array<WireColumn>(count);
  for (let index = 0; index < count; index++) columns[index] = readColumn(body);
  return finished(body, columns);
}

/** Parses ParameterDescription (`t`): the oids of the parameters' types. */
export function readParameterDescription(bytes: Buffer, at: number, end: number): number[] {
  const body = new BodyReader(bytes, at, end);
  const oids = new Array<number>(body.count(4));
  for (let index = 0; index < oids.length; index++) oids[index] = body.uint32();
  return finished(body, oids);
}

/** Parses CommandComplete (`C`). Returns its command tag, for example `INSERT 0 3` or `ROLLBACK`. */
export function readCommandTag(bytes: Buffer, at: number, end: number): string {
  if (bytes.indexOf(0, at) !== end - 1)
    throw new ProtocolViolation('the server sent text without a NUL at its end');
  return bytes.toString('latin1', at, end - 1);
}

/** Notification that was sent by NOTIFY. `processId` is the id of the sender's server process. */
export interface Notification {
  readonly processId: number;
  readonly channel: string;
  readonly payload: string;
}

/** Parses NotificationResponse (`A`). */
export function readNotification(bytes: Buffer, at: number, end: number): Notification {
  const body = new BodyReader(bytes, at, end);
  return finished(body, { processId: body.int32(), channel: body.text(), payload: body.text() });
}

function readColumn(body: BodyReader): WireColumn {
  const name = body.text();
  const tableOid = body.uint32();
  const attribute = body.int16();
  const typeOid = body.uint32();
  body.int16(); // skip the size of the type
  const typeModifier = body.int32();
  body.int16(); // skip the format of the column
  return { name, tableOid, attribute, typeOid, typeModifier };
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
