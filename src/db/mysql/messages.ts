/**
 * Decodes the packets of MySQL and MariaDB servers. Every length is checked against the end of the packet
 * before it is used.
 */
import { CAPABILITY } from './wire.ts';
import { ProtocolViolation } from '../errors.ts';
import { FieldReader, TWO_32 } from '../wire/bytes.ts';

/** Handshake V10, the server's first packet. */
export interface Greeting {
  /** The server's version, without the prefix `5.5.5-` of MariaDB before 11. */
  readonly version: string;
  readonly isMariaDb: boolean;
  readonly connectionId: number;
  /** 20 random bytes that the server has chosen for this connection. */
  readonly nonce: Buffer;
  readonly capabilities: number;
  /** Capability flags of MariaDB. 0 for MySQL. */
  readonly extended: number;
  /** Name of the authentication plugin. Empty if the server sends none. */
  readonly plugin: string;
}

interface Ok {
  readonly affectedRows: number;
  /** Last generated key, or 0 if there is none. Above 2^53 - 1 it is a bigint. */
  readonly lastInsertId: number | bigint;
  readonly status: number;
  readonly warnings: number;
  readonly info: Buffer;
}

export interface ErrorFields {
  readonly errno: number;
  /** SQLSTATE. Empty if the error comes before the login. */
  readonly sqlstate: string;
  readonly message: string;
}

export interface WireColumn {
  readonly name: string;
  /** Name of the table itself, and not its alias. Empty for a computed column. */
  readonly table: string;
  /** Schema of the table, which MySQL calls a database. */
  readonly schema: string;
  /** Name of the column in its table. Empty for a computed column. */
  readonly column: string;
  readonly type: number;
  readonly flags: number;
  /** Number of the character set. 63 stands for binary data. */
  readonly charset: number;
  /** Declared length in bytes. */
  readonly length: number;
  /** Number of digits after the decimal point, also in times. 31 and 39 mean that the number varies. */
  readonly decimals: number;
  /** Name of MariaDB's extended type: `uuid`, `inet6`, `json`, ... Empty for other types. */
  readonly extended: string;
}

/** Number of the character set that stands for binary data. */
export const BINARY_CHARSET = 63;
const PROTOCOL_10 = 10;
const NONCE_BYTES = 20;
const FIXED_FIELDS = 0x0c;

export class Fields extends FieldReader {
  uint16(): number {
    return this.source.readUInt16LE(this.take(2));
  }
  uint32(): number {
    return this.source.readUInt32LE(this.take(4));
  }
  bytes(count: number): Buffer {
    return this.source.subarray(this.take(count), this.at);
  }
  skip(count: number): void {
    this.take(count);
  }
  rest(): Buffer {
    return this.bytes(this.left);
  }

  length(): number {
    const value = this.integer();
    if (typeof value === 'bigint') throw new ProtocolViolation('the server sent a length above 2^53');
    return value;
  }

  /** Reads an integer of one to nine bytes. Its first byte determines the length. */
  integer(): number | bigint {
    const first = this.byte();
    if (first < 0xfb) return first;
    switch (first) {
      case 0xfc:
        return this.uint16();
      case 0xfd:
        return this.byte() + this.uint16() * 0x100;
      case 0xfe:
        return this.#wide();
      default:
        throw new ProtocolViolation(`the server sent a length with an invalid first byte, ${first}`);
    }
  }

  textLength(): string {
    return this.bytes(this.length()).toString();
  }

  /** Reads text that ends with a NUL or at the end of the packet. */
  textNul(): string {
    const found = this.source.subarray(this.at, this.end).indexOf(0);
    const text = this.bytes(found === -1 ? this.left : found).toString();
    if (found !== -1) this.at++;
    return text;
  }

  #wide(): number | bigint {
    const at = this.take(8);
    const value = this.source.readUInt32LE(at + 4) * TWO_32 + this.source.readUInt32LE(at);
    return Number.isSafeInteger(value) ? value : this.source.readBigUInt64LE(at);
  }
}

export function readGreeting(bytes: Buffer, at: number, end: number): Greeting {
  const fields = new Fields(bytes, at, end);
  const protocol = fields.byte();
  if (protocol !== PROTOCOL_10)
    throw new ProtocolViolation(`the server uses protocol version ${protocol}, but version 10 is required`);
  const announced = fields.textNul();
  const connectionId = fields.uint32();
  const firstPart = fields.bytes(8);
  fields.skip(1);
  const low = fields.uint16();
  if (fields.left === 0)
    throw new ProtocolViolation('the server sent the greeting of a version older than MySQL 4.1');
  fields.skip(1 + 2); // skip the character set and the status
  const capabilities = (low | (fields.uint16() << 16)) >>> 0;
  const nonceLength = fields.byte();
  fields.skip(6);
  const extended = fields.uint32(); // capability flags of MariaDB; MySQL sends zeros
  const secondPart = fields.bytes(Math.min(fields.left, Math.max(13, nonceLength - 8)));
  const plugin = (capabilities & CAPABILITY.pluginAuth) === 0 ? '' : fields.textNul();
  const isMariaDb = /mariadb/i.test(announced) || (capabilities & CAPABILITY.longPassword) === 0;
  return {
    version: announced.replace(/^5\.5\.5-(?=.*mariadb)/i, ''),
    isMariaDb,
    connectionId,
    capabilities,
    plugin,
    nonce: Buffer.concat([firstPart, secondPart]).subarray(0, NONCE_BYTES),
    extended: isMariaDb && (capabilities & CAPABILITY.longPassword) === 0 ? extended : 0,
  };
}

/** Parses an OK packet. The packet that ends the rows of a result has the same form. */
export function readOk(bytes: Buffer, at: number, end: number): Ok {
  const fields = new Fields(bytes, at + 1, end);
  const affectedRows = fields.length();
  const lastInsertId = fields.integer();
  return {
    affectedRows,
    lastInsertId,
    status: fields.uint16(),
    warnings: fields.uint16(),
    info: fields.rest(),
  };
}

export function readEof(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly warnings: number; readonly status: number } {
  const fields = new Fields(bytes, at + 1, end);
  return { warnings: fields.uint16(), status: fields.uint16() };
}

export function readError(bytes: Buffer, at: number, end: number): ErrorFields {
  const fields = new Fields(bytes, at + 1, end);
  const errno = fields.uint16();
  const rest = fields.rest();
  return rest[0] === 0x23 && rest.length >= 6
    ? { errno, sqlstate: rest.toString('latin1', 1, 6), message: rest.toString('utf8', 6) }
    : { errno, sqlstate: '', message: rest.toString() };
}

/**
 * Parses a column description. If `isExtended` is true, the description also contains the name of MariaDB's
 * extended type.
 */
export function readColumn(bytes: Buffer, at: number, end: number, isExtended: boolean): WireColumn {
  const fields = new Fields(bytes, at, end);
  fields.skip(fields.length()); // skip the catalog
  const schema = fields.textLength();
  fields.skip(fields.length()); // skip the alias of the table
  const table = fields.textLength();
  const name = fields.textLength();
  const column = fields.textLength();
  const extended = isExtended ? readExtended(fields) : '';
  if (fields.length() !== FIXED_FIELDS)
    throw new ProtocolViolation('the server sent a column description with unknown fields');
  return {
    schema,
    table,
    name,
    column,
    extended,
    charset: fields.uint16(),
    length: fields.uint32(),
    type: fields.byte(),
    flags: fields.uint16(),
    decimals: fields.byte(),
  };
}

/** Returns the name of MariaDB's extended type. The data consists of pairs of a kind byte and a name. */
function readExtended(fields: Fields): string {
  const packed = fields.bytes(fields.length());
  const pairs = new Fields(packed, 0, packed.length);
  let name = '';
  while (pairs.left > 0) {
    pairs.skip(1);
    name = pairs.textLength();
  }
  return name;
}

/** Parses the reply to COM_STMT_PREPARE. */
export function readPrepared(
  bytes: Buffer,
  at: number,
  end: number,
): { readonly id: number; readonly columns: number; readonly parameters: number } {
  const fields = new Fields(bytes, at + 1, end);
  return { id: fields.uint32(), columns: fields.uint16(), parameters: fields.uint16() };
}
