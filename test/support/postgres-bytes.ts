/**
 * Creates messages of a PostgreSQL server, for tests of the client's codec and for fake servers that
 * misbehave.
 */

/** Returns a message with its type and length. */
export function message(type: string, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type, 'latin1'), int32(body.length + 4), body]);
}

export function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value & 0xffff);
  return bytes;
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** Returns text that ends with a NUL. */
export function text(value: string): Buffer {
  return Buffer.from(`${value}\0`);
}

export const authentication = (code: number, ...parts: readonly Uint8Array[]): Buffer =>
  message('R', int32(code), ...parts);
export const authenticationSasl = (...mechanisms: readonly string[]): Buffer =>
  authentication(10, ...mechanisms.map(text), text(''));
export const backendKey = (processId: number, key: Uint8Array): Buffer => message('K', int32(processId), key);
export const parameterStatus = (name: string, value: string): Buffer => message('S', text(name), text(value));
export const ready = (status: string = 'I'): Buffer => message('Z', Buffer.from(status));
export const commandComplete = (tag: string): Buffer => message('C', text(tag));

/** Returns an `E` or `N` message with fields by their letters. */
export function failure(fields: Readonly<Record<string, string>>, type: string = 'E'): Buffer {
  return message(
    type,
    ...Object.entries(fields).map(([letter, value]) => text(letter + value)),
    Buffer.alloc(1),
  );
}

/** Returns a RowDescription. Each column has the table 0 and, by default, the type text. */
export function rowDescription(
  ...columns: readonly (readonly [name: string, typeOid?: number, tableOid?: number])[]
): Buffer {
  return message(
    'T',
    int16(columns.length),
    ...columns.flatMap(([name, typeOid = 25, tableOid = 0]) => [
      text(name),
      int32(tableOid),
      int16(0),
      int32(typeOid),
      int16(-1),
      int32(-1),
      int16(0),
    ]),
  );
}

/** Returns a DataRow with values as text; null is NULL. */
export function dataRow(...values: readonly (string | Uint8Array | null)[]): Buffer {
  return message(
    'D',
    int16(values.length),
    ...values.flatMap((value) =>
      value === null ? [int32(-1)] : [int32(Buffer.byteLength(value)), Buffer.from(value as string)],
    ),
  );
}
