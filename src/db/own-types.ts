/**
 * Custom database types. Functions of the application convert their values:
 *   const db = await openDatabase(url, { types: { vector: { parse: JSON.parse, encode: JSON.stringify } } });
 *   await db.execute('insert into item (embedding) values (?)', [typed('vector', [1, 2, 3])]);
 */
import { SvcError } from '../base/errors.ts';
import { closest, given, isFunction, isRecord, readOptions } from '../base/options.ts';
import { DataError } from './errors.ts';
import { isMySql } from './dialects.ts';
import { Typed, bytesOf, type Bytes, type Parameter, type Params } from './values.ts';
import type { Dialect } from './driver.ts';

/** Functions that convert the values of a custom type. */
export interface OwnType {
  /**
   * Converts a value from the database. Values of a type unknown to this library are text in PostgreSQL, and
   * text or bytes in MySQL and MariaDB. Not called for NULL. When it throws, the statement rejects with a
   * DataError.
   */
  readonly parse?: ((value: never) => unknown) | undefined;
  /** Converts a value to text or bytes for the database. */
  readonly encode?: ((value: never) => string | Bytes) | undefined;
}

/** Custom types by their lower-case names. */
export type OwnTypes = ReadonlyMap<string, CheckedType>;

/** A validated {@link OwnType}. */
export interface CheckedType {
  readonly parse: ((value: unknown) => unknown) | undefined;
  readonly encode: ((value: unknown) => unknown) | undefined;
}

/** Types that the option `types` must not contain, because this library itself needs to read them. */
const KEPT: Readonly<Record<'postgres' | 'mysql', ReadonlySet<string>>> = {
  postgres: new Set(
    'bool int2 int4 int8 oid text varchar bpchar char name bytea void unknown regclass regtype'.split(' '),
  ),
  mysql: new Set(
    'tinyint smallint mediumint int bigint varchar char tinytext text mediumtext longtext varbinary binary tinyblob blob mediumblob longblob null'.split(
      ' ',
    ),
  ),
};

/**
 * Checks the option `types`. Returns undefined when it contains no types.
 *
 * @throws SvcError `E_DB_OPTION` for a type that this library itself needs to read, or one without parse and
 *   encode; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for other mistakes
 */
export function readOwnTypes(
  types: Readonly<Record<string, OwnType>>,
  dialect: Dialect,
): OwnTypes | undefined {
  const kept = dialect === 'sqlite' ? undefined : KEPT[isMySql(dialect) ? 'mysql' : 'postgres'];
  const read = new Map<string, CheckedType>();
  for (const [given, type] of Object.entries(types)) {
    const name = given.toLowerCase();
    if (kept?.has(name) === true)
      throw new SvcError('E_DB_OPTION', [
        `"types.${given}" must be removed, because svc itself reads values of the type "${given}"`,
      ]);
    read.set(name, readType(name, type));
  }
  return read.size === 0 ? undefined : read;
}

function readType(name: string, type: OwnType): CheckedType {
  const owner = `the type "${name}"`;
  if (!isRecord(type))
    throw new SvcError('E_DB_OPTION', [`"types.${name}" must be an object with "parse", "encode" or both`]);
  const { parse, encode } = readOptions(owner, type, {
    parse: given<(value: unknown) => unknown>('a function', isFunction),
    encode: given<(value: unknown) => unknown>('a function', isFunction),
  });
  if (parse === undefined && encode === undefined)
    throw new SvcError('E_DB_OPTION', [
      `"types.${name}" must have the function "parse", the function "encode" or both`,
    ]);
  return { parse: parse === undefined ? undefined : parsing(name, parse), encode };
}

function parsing(name: string, parse: (value: unknown) => unknown): (value: unknown) => unknown {
  return (value) => {
    try {
      return parse(value);
    } catch (cause) {
      throw new DataError(`the function "parse" of the type "${name}" threw an error for a value`, { cause });
    }
  };
}

/** Maximum nesting of lists in which values of typed() are encoded: PostgreSQL's limit for arrays. */
const MAX_LEVELS = 6;

/**
 * Encodes the values that {@link typed} has marked, also inside lists. Returns `params` itself when it contains no such value.
 */
export function encodeTyped(params: Params, types: OwnTypes, row?: number): Params {
  // the caller's list may be something else in spite of the types: the driver refuses it
  if (!Array.isArray(params) || !hasTyped(params, 0)) return params;
  return params.map((value, index) =>
    encodedIn(value, types, `parameter ${index + 1}${row === undefined ? '' : ` of row ${row}`}`),
  );
}

function hasTyped(list: readonly Parameter[], level: number): boolean {
  for (const value of list)
    if (value instanceof Typed || (Array.isArray(value) && level < MAX_LEVELS && hasTyped(value, level + 1)))
      return true;
  return false;
}

function encodedIn(value: Parameter, types: OwnTypes, place: string, level: number = 0): Parameter {
  if (Array.isArray(value) && level < MAX_LEVELS)
    return (value as readonly Parameter[]).map((each) => encodedIn(each, types, place, level + 1));
  if (!(value instanceof Typed)) return value;
  const encode = types.get(value.type.toLowerCase())?.encode;
  if (encode !== undefined) return value.value === null ? null : encodedBy(encode, value, place);
  const best = closest(value.type, types.keys());
  const hint = best === undefined ? '' : `: did you mean "${best}"?`;
  throw new SvcError('E_DB_PARAMETER', [
    place,
    `the option "types" has no function "encode" for the type "${value.type}"${hint}`,
  ]);
}

export function* encodeRows(rows: Iterable<Params>, types: OwnTypes): Generator<Params, void, undefined> {
  let row = 0;
  for (const params of rows) yield encodeTyped(params, types, ++row);
}

function encodedBy(encode: (value: unknown) => unknown, { type, value }: Typed, place: string): Parameter {
  let encoded: unknown;
  try {
    encoded = encode(value);
  } catch (cause) {
    throw new SvcError(
      'E_DB_PARAMETER',
      [place, `the function "encode" of the type "${type}" threw an error`],
      { cause },
    );
  }
  if (typeof encoded === 'string') return encoded;
  const bytes = bytesOf(encoded);
  if (bytes !== undefined) return bytes;
  throw new SvcError('E_DB_PARAMETER', [
    place,
    `the function "encode" of the type "${type}" must return text or bytes`,
  ]);
}
