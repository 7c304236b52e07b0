/**
 * Encodes messages for PostgreSQL, protocol 3, in one reused buffer. Example:
 *   writer.query('select 1'); socket.write(writer.take())
 *
 * A method of the writer throws if a count or length is too large for the message. Then the caller removes
 * the partial message with rewind().
 */
import { ProtocolViolation } from '../errors.ts';
import { ByteWriter } from '../wire/bytes.ts';

/** Types of the client's messages. The type is the first byte of a message. */
const CLIENT = {
  bind: 0x42,
  close: 0x43,
  copyData: 0x64,
  copyDone: 0x63,
  copyFail: 0x66,
  describe: 0x44,
  execute: 0x45,
  flush: 0x48,
  parse: 0x50,
  password: 0x70,
  query: 0x51,
  sync: 0x53,
  terminate: 0x58,
} as const;

/** Protocol versions. Version 3.2 has longer cancellation keys. */
export const PROTOCOL_3_0 = 196_608;
export const PROTOCOL_3_2 = 196_610;

const SSL_REQUEST = 80_877_103;
const CANCEL_REQUEST = 80_877_102;
/** Maximum number of values in one statement. The Bind message has a 16-bit field for this number. */
const MAX_PARAMETERS = 65_535;
const MAX_INT32 = 2 ** 31 - 1;
/** Initial size of the buffer in bytes. It grows for longer messages. */
const FIRST_BYTES = 2 * 1024;

/** Object of a Describe or Close message: a prepared statement, or a portal (a cursor). */
type Target = 'statement' | 'portal';

export class MessageWriter extends ByteWriter {
  #lengthAt = 0;
  #formatsAt = 0;

  constructor() {
    super(FIRST_BYTES);
  }

  sslRequest(): void {
    this.#beginUntyped();
    this.#int32(SSL_REQUEST);
    this.#end();
  }

  cancelRequest(processId: number, key: Uint8Array): void {
    this.#beginUntyped();
    this.#int32(CANCEL_REQUEST);
    this.#int32(processId);
    this.raw(key);
    this.#end();
  }

  startUp(version: number, parameters: Readonly<Record<string, string>>): void {
    this.#beginUntyped();
    this.#int32(version);
    for (const [name, value] of Object.entries(parameters)) {
      this.textNul(name);
      this.textNul(value);
    }
    this.byte(0);
    this.#end();
  }

  /** Writes a PasswordMessage: a clear-text password, or the reply of the md5 method. */
  password(text: string): void {
    this.#begin(CLIENT.password);
    this.textNul(text);
    this.#end();
  }

  saslInitial(mechanism: string, data: string): void {
    this.#begin(CLIENT.password);
    this.textNul(mechanism);
    this.valueText(data);
    this.#end();
  }

  saslResponse(data: string): void {
    this.#begin(CLIENT.password);
    this.text(data);
    this.#end();
  }

  query(sql: string): void {
    this.#begin(CLIENT.query);
    this.textNul(sql);
    this.#end();
  }

  parse(statement: string, sql: string): void {
    this.#begin(CLIENT.parse);
    this.textNul(statement);
    this.textNul(sql);
    this.#int16(0); // number of parameter types: with 0, the server infers the types
    this.#end();
  }

  describe(target: Target, name: string): void {
    this.#named(CLIENT.describe, target, name);
  }
  close(target: Target, name: string): void {
    this.#named(CLIENT.close, target, name);
  }

  /**
   * Begins a Bind. Write the values with the `value…` methods, then call {@link endBind}. A value is text,
   * unless {@link binary} marks it.
   */
  beginBind(portal: string, statement: string, values: number): void {
    if (values > MAX_PARAMETERS)
      throw new ProtocolViolation(`the statement has ${values} values; the limit is ${MAX_PARAMETERS}`);
    this.#begin(CLIENT.bind);
    this.textNul(portal);
    this.textNul(statement);
    this.#int16(values);
    this.ensure(2 * values + 2);
    this.#formatsAt = this.at;
    this.bytes.fill(0, this.at, (this.at += 2 * values));
    this.#int16(values);
  }

  /** Marks a value as binary. `index` counts from 0. */
  binary(index: number): void {
    this.bytes[this.#formatsAt + 2 * index + 1] = 1;
  }

  /**
   * Ends a Bind. `formats` has an Int16 for each result column: 0 for text, 1 for binary. If it is empty, all
   * columns are text.
   */
  endBind(formats: Uint8Array): void {
    this.#int16(formats.length / 2);
    this.raw(formats);
    this.#end();
  }

  valueNull(): void {
    this.#int32(-1);
  }

  valueText(text: string): void {
    const at = this.at;
    this.ensure(4);
    this.at += 4;
    this.text(text);
    this.bytes.writeInt32BE(this.at - at - 4, at);
  }

  valueBytes(value: Uint8Array): void {
    this.#int32(value.length);
    this.raw(value);
  }

  valueByte(value: number): void {
    this.#int32(1);
    this.byte(value);
  }

  valueInt16(value: number): void {
    this.#int32(2);
    this.ensure(2);
    this.at = this.bytes.writeInt16BE(value, this.at);
  }

  valueInt32(value: number): void {
    this.#int32(4);
    this.#int32(value);
  }

  /** Writes a 64-bit integer in two's complement, from two halves. */
  valueInt64(high: number, low: number): void {
    this.#int32(8);
    this.#int32(high);
    this.ensure(4);
    this.at = this.bytes.writeUInt32BE(low, this.at);
  }

  valueFloat64(value: number): void {
    this.#int32(8);
    this.ensure(8);
    this.at = this.bytes.writeDoubleBE(value, this.at);
  }

  /** Writes an Execute. If `maxRows` is 0, the server sends all rows. */
  execute(portal: string, maxRows: number): void {
    this.#begin(CLIENT.execute);
    this.textNul(portal);
    this.#int32(maxRows);
    this.#end();
  }

  sync(): void {
    this.#empty(CLIENT.sync);
  }
  flush(): void {
    this.#empty(CLIENT.flush);
  }
  terminate(): void {
    this.#empty(CLIENT.terminate);
  }
  copyDone(): void {
    this.#empty(CLIENT.copyDone);
  }

  copyFail(reason: string): void {
    this.#begin(CLIENT.copyFail);
    this.textNul(reason);
    this.#end();
  }

  copyData(data: Uint8Array): void {
    this.#begin(CLIENT.copyData);
    this.raw(data);
    this.#end();
  }

  #named(type: number, target: Target, name: string): void {
    this.#begin(type);
    this.byte(target === 'statement' ? 0x53 : 0x50);
    this.textNul(name);
    this.#end();
  }

  #empty(type: number): void {
    this.#begin(type);
    this.#end();
  }

  #begin(type: number): void {
    this.byte(type);
    this.#beginUntyped();
  }

  #beginUntyped(): void {
    this.#lengthAt = this.at;
    this.ensure(4);
    this.at += 4;
  }

  #end(): void {
    const length = this.at - this.#lengthAt;
    if (length > MAX_INT32)
      throw new ProtocolViolation(`the message to send has ${length} bytes; the limit is ${MAX_INT32}`);
    this.bytes.writeInt32BE(length, this.#lengthAt);
  }

  #int16(value: number): void {
    this.ensure(2);
    this.at = this.bytes.writeUInt16BE(value, this.at);
  }

  #int32(value: number): void {
    this.ensure(4);
    this.at = this.bytes.writeInt32BE(value, this.at);
  }
}
