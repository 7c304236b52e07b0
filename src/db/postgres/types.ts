/**
 * Converts column values of PostgreSQL to JavaScript values:
 *   - bool: boolean
 *   - int2, int4, oid, float4, float8: number
 *   - int8: number, or bigint beyond 2^53 - 1 (option int8)
 *   - numeric, money: string with all digits
 *   - timestamptz: Date, or text (option timestamps)
 *   - date, timestamp, time, interval: ISO text, because they have no time zone
 *   - json, jsonb: value parsed by JSON.parse()
 *   - bytea: Uint8Array
 *   - arrays of these types: nested lists; NULL is null
 *   - other types: text
 *
 * Each type is decoded from text. Some fixed-width types are also decoded from binary, which is faster and
 * gives the same value. For uuid and float4, text is faster.
 */
import { arrayFromText } from './arrays.ts';
import {
  dateOf,
  instantFromText,
  instantOf,
  timestampFromText,
  timestampOf,
  utcFromText,
  utcOf,
} from './dates.ts';
import { intervalFromText } from './intervals.ts';
import { TWO_32, latin1, utf8, wideFromText } from '../wire/bytes.ts';
import type { OwnTypes } from '../own-types.ts';
import type { Int8, Timestamps } from '../driver.ts';

/** Decodes a value from the bytes of a message, from `at` up to `end`. */
export type Decoder = (bytes: Buffer, at: number, end: number) => unknown;

export interface PostgresType {
  readonly name: string;
  /** Oid of the type. For a domain, the oid of its base type. */
  readonly oid: number;
  readonly fromText: (text: string) => unknown;
  readonly decodeText: Decoder;
  /** Decoder for the binary format. Undefined for a type that is read as text. */
  readonly decodeBinary: Decoder | undefined;
  readonly element: PostgresType | undefined;
  /** Delimiter between elements in an array of this type. */
  readonly delimiter: string;
  /** Encodes a list or an object as text, for a custom type. */
  readonly encode?: ((value: unknown) => unknown) | undefined;
}

/** Row of pg_type, for a type that is not built in. */
export interface FoundType {
  readonly oid: number;
  readonly name: string;
  /** Oid of the element type, for an array type. Otherwise 0. */
  readonly elementOid: number;
  /** Name of the element type, for an array type. */
  readonly elementName?: string | undefined;
  readonly delimiter: string;
  /** Oid of the base type, for a domain. Otherwise 0. */
  readonly baseOid: number;
}

/** Oids of types that need their own encoder or decoder. */
export const OID = {
  bool: 16,
  bytea: 17,
  int8: 20,
  int2: 21,
  int4: 23,
  oid: 26,
  json: 114,
  float4: 700,
  float8: 701,
  date: 1082,
  timestamp: 1114,
  timestamptz: 1184,
  numeric: 1700,
  jsonb: 3802,
} as const;

/**
 * Maximum number of cached types that are not built in. When the limit is exceeded, all of them are removed
 * from the cache.
 */
const MAX_FOUND = 10_000;

/** Types whose values are returned as text: name, oid, and oid of the array type. */
const TEXTS: readonly (readonly [string, number, number])[] = [
  ['char', 18, 1002],
  ['name', 19, 1003],
  ['text', 25, 1009],
  ['bpchar', 1042, 1014],
  ['varchar', 1043, 1015],
  ['numeric', OID.numeric, 1231],
  ['uuid', 2950, 2951],
  ['xml', 142, 143],
  ['time', 1083, 1183],
  ['timetz', 1266, 1270],
  ['money', 790, 791],
  ['inet', 869, 1041],
  ['cidr', 650, 651],
  ['macaddr', 829, 1040],
  ['macaddr8', 774, 775],
  ['bit', 1560, 1561],
  ['varbit', 1562, 1563],
  ['tsvector', 3614, 3643],
  ['tsquery', 3615, 3645],
  ['point', 600, 1017],
  ['lseg', 601, 1018],
  ['path', 602, 1019],
  ['polygon', 604, 1027],
  ['line', 628, 629],
  ['circle', 718, 719],
  ['int4range', 3904, 3905],
  ['numrange', 3906, 3907],
  ['tsrange', 3908, 3909],
  ['tstzrange', 3910, 3911],
  ['daterange', 3912, 3913],
  ['int8range', 3926, 3927],
  ['jsonpath', 4072, 4073],
  ['record', 2249, 2287],
  ['cstring', 2275, 1263],
  ['regclass', 2205, 2210],
  ['regtype', 2206, 2211],
  ['regproc', 24, 1008],
  ['tid', 27, 1010],
  ['xid', 28, 1011],
  ['cid', 29, 1012],
  ['int2vector', 22, 1006],
  ['oidvector', 30, 1013],
  ['xid8', 5069, 271],
  ['pg_lsn', 3220, 3221],
  ['void', 2278, 0],
  ['unknown', 705, 0],
  ['refcursor', 1790, 2201],
];

/** Types of one database. All connections share one instance. */
export class PostgresTypes {
  readonly #known = new Map<number, PostgresType>();
  readonly #own: OwnTypes | undefined;
  readonly #builtIn: number;
  /**
   * Number of schema changes that the connections have noticed. When the number increases, prepared
   * statements of other connections may be outdated.
   */
  changes = 0;

  constructor(int8: Int8, timestamps: Timestamps = 'date', own?: OwnTypes) {
    this.#own = own;
    for (const [type, arrayOid] of builtIns(int8, timestamps)) this.#add(this.#owned(type), arrayOid);
    this.#builtIn = this.#known.size;
  }

  /** Returns the type with an oid. Returns undefined if the database must be asked for the type first. */
  get(oid: number): PostgresType | undefined {
    return this.#known.get(oid);
  }

  #add(type: PostgresType, arrayOid: number): void {
    this.#known.set(type.oid, type);
    if (arrayOid !== 0) this.#known.set(arrayOid, arrayOf(arrayOid, `${type.name}[]`, type));
  }

  learn(found: readonly FoundType[]): void {
    if (this.#known.size - this.#builtIn + found.length > MAX_FOUND) this.#forget();
    for (const { oid, name, delimiter, baseOid } of found.filter(({ elementOid }) => elementOid === 0)) {
      this.#known.set(
        oid,
        // a domain is decoded and encoded like its base type
        this.#known.get(baseOid) ?? this.#owned(textual(name, oid, asIs, undefined, utf8, delimiter)),
      );
    }
    for (const { oid, name, elementOid, elementName = '' } of found.filter((type) => type.elementOid !== 0)) {
      const element = this.#known.get(elementOid) ?? this.#owned(textual(elementName, elementOid, asIs));
      this.#known.set(oid, arrayOf(oid, name, element));
    }
  }

  /** Adds the parser and encoder that the application has set for the type, if there are any. */
  #owned(type: PostgresType): PostgresType {
    const own = this.#own?.get(type.name);
    if (own === undefined) return type;
    const { parse } = own;
    if (parse === undefined) return { ...type, encode: own.encode };
    const { fromText, decodeText, decodeBinary } = type;
    return {
      ...type,
      encode: own.encode,
      fromText: (text) => parse(fromText(text)),
      decodeText: (bytes, at, end) => parse(decodeText(bytes, at, end)),
      decodeBinary: decodeBinary && ((bytes, at, end) => parse(decodeBinary(bytes, at, end))),
    };
  }

  #forget(): void {
    for (const oid of [...this.#known.keys()].slice(this.#builtIn)) this.#known.delete(oid);
  }
}

const asIs = (text: string): string => text;

function builtIns(int8: Int8, timestamps: Timestamps): (readonly [PostgresType, arrayOid: number])[] {
  const isText = timestamps === 'string';
  return [
    [
      textual(
        'bool',
        OID.bool,
        (text) => text === 't',
        (bytes, at) => bytes[at] === 1,
        latin1,
      ),
      1000,
    ],
    [textual('int2', OID.int2, Number, (bytes, at) => bytes.readInt16BE(at), latin1), 1005],
    [textual('int4', OID.int4, Number, (bytes, at) => bytes.readInt32BE(at), latin1), 1007],
    [textual('oid', OID.oid, Number, (bytes, at) => bytes.readUInt32BE(at), latin1), 1028],
    [textual('int8', OID.int8, WIDE_TEXT[int8], WIDE[int8], latin1), 1016],
    [textual('float4', OID.float4, Number, undefined, latin1), 1021],
    [textual('float8', OID.float8, Number, (bytes, at) => bytes.readDoubleBE(at), latin1), 1022],
    [
      textual(
        'bytea',
        OID.bytea,
        byteaFromText,
        (bytes, at, end) => new Uint8Array(bytes.subarray(at, end)),
        latin1,
      ),
      1001,
    ],
    [textual('date', OID.date, asIs, (bytes, at) => dateOf(bytes.readInt32BE(at)), latin1), 1182],
    [
      textual(
        'timestamp',
        OID.timestamp,
        timestampFromText,
        (bytes, at) => timestampOf(bytes.readInt32BE(at), bytes.readUInt32BE(at + 4)),
        latin1,
      ),
      1115,
    ],
    [
      textual(
        'timestamptz',
        OID.timestamptz,
        isText ? utcFromText : instantFromText,
        isText
          ? (bytes, at) => utcOf(bytes.readInt32BE(at), bytes.readUInt32BE(at + 4))
          : (bytes, at) => instantOf(bytes.readInt32BE(at), bytes.readUInt32BE(at + 4)),
        latin1,
      ),
      1185,
    ],
    [textual('interval', 1186, intervalFromText, undefined, latin1), 1187],
    [textual('json', OID.json, JSON.parse), 199],
    [textual('jsonb', OID.jsonb, JSON.parse), 3807],
    [textual('box', 603, asIs, undefined, utf8, ';'), 1020],
    ...TEXTS.map(([name, oid, arrayOid]) => [textual(name, oid, asIs), arrayOid] as const),
  ];
}

/** Length in bytes of binary values with a fixed width. A value with another length is invalid. */
const WIDTHS: Readonly<Record<number, number>> = {
  [OID.bool]: 1,
  [OID.int2]: 2,
  [OID.int4]: 4,
  [OID.oid]: 4,
  [OID.int8]: 8,
  [OID.float8]: 8,
  [OID.date]: 4,
  [OID.timestamp]: 8,
  [OID.timestamptz]: 8,
};

/**
 * Returns the length that a binary value of a type must have. Returns undefined if every length is allowed.
 */
export function widthOf(oid: number): number | undefined {
  return WIDTHS[oid];
}

function textual(
  name: string,
  oid: number,
  fromText: (text: string) => unknown,
  decodeBinary?: Decoder,
  slice: (bytes: Buffer, at: number, end: number) => string = utf8,
  delimiter: string = ',',
): PostgresType {
  const decodeText: Decoder = fromText === asIs ? slice : (bytes, at, end) => fromText(slice(bytes, at, end));
  return { name, oid, fromText, decodeText, decodeBinary, element: undefined, delimiter };
}

function arrayOf(oid: number, name: string, element: PostgresType): PostgresType {
  const { fromText: read, delimiter } = element;
  const fromText = (text: string): unknown => arrayFromText(text, read, delimiter);
  return {
    name,
    oid,
    fromText,
    decodeText: (bytes, at, end) => fromText(utf8(bytes, at, end)),
    decodeBinary: undefined,
    element,
    delimiter: ',',
  };
}

const WIDE: Readonly<Record<Int8, Decoder>> = {
  auto: (bytes, at) => {
    const value = bytes.readInt32BE(at) * TWO_32 + bytes.readUInt32BE(at + 4);
    return Number.isSafeInteger(value) ? value : bytes.readBigInt64BE(at);
  },
  bigint: (bytes, at) => bytes.readBigInt64BE(at),
  string: (bytes, at) => String(bytes.readBigInt64BE(at)),
};

const WIDE_TEXT: Readonly<Record<Int8, (text: string) => unknown>> = {
  auto: wideFromText,
  bigint: BigInt,
  string: asIs,
};

/**
 * Parses the text of a bytea, which is `\x` and hexadecimal digits. If the server's `bytea_output` is
 * `escape`, the text has characters and octal escapes such as `\012`.
 */
function byteaFromText(text: string): Uint8Array {
  if (text.startsWith('\\x')) return new Uint8Array(Buffer.from(text.slice(2), 'hex'));
  return new Uint8Array(
    Buffer.from(
      text.replace(/\\(\\|[0-7]{3})/g, (_, escaped: string) =>
        escaped === '\\' ? '\\' : String.fromCharCode(Number.parseInt(escaped, 8)),
      ),
      'latin1',
    ),
  );
}
