/**
 * Keyset pagination: each page begins after the last row of the previous page. Rows that are inserted or
 * deleted between two requests do not shift pages, and every page is as fast as the first.
 *
 *   const notes = new KeysetPages({ orderBy: { created_at: 'desc', id: 'asc' } });
 *   app.get('/notes', { db: Depends(db), query: notes.query, response: notes.response(Note) }, async ({ db, query, req }) => {
 *     const page = await notes.fetch(db, sql`select id, title, created_at from note`, { query, req }, { as: Note });
 *     return reply(page, 200, page.headers);
 *   });
 *
 * A cursor is a position in a list, written as text for clients. Its signature prevents clients from making
 * cursors of their own.
 *
 * A cursor has the form `payload.mac`. The payload is a JSON array in base64url. The array contains `next` or
 * `previous`, and then the values of the sort columns. The mac is an HMAC-SHA-256 of the sort order and the
 * payload.
 *
 * A cursor is signed but not encrypted, so clients can read the values in it. It is valid only for lists with
 * its sort order.
 */
import { timingSafeEqual } from 'node:crypto';
import { SvcError, BadRequest } from '../../base/errors.ts';
import { given, int, isObject, readOptions, shown } from '../../base/options.ts';
import { Field, Schema, list, nullable, str } from '../../schema/schema.ts';
import { setOwn } from '../../base/options.ts';
import { sql, type Sql } from '../sql.ts';
import { beyond, fromSource, orderBy, orderColumns, sourceColumn } from './order.ts';
import { RowDecoder, limitsOf, type RowOptions } from '../rows.ts';
import { hasSchema, type Session } from '../session.ts';
import { linkHeaders, pageSchemas } from './page.ts';
import { Keyring, authSecrets, hmacSha256, type Secrets } from '../../crypto/keys.ts';
import { services } from '../../http/state.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { SchemaClass } from '../../schema/schema.ts';
import type { Row } from '../driver.ts';
import type { QueryOptions } from '../limits.ts';
import type { OrderColumn, PageOrder, Position } from './order.ts';

/** Options of keyset pagination. */
export interface KeysetPagesOptions {
  /**
   * Sort columns, the most important first. Together, their values must identify one row. A column that may
   * be NULL needs a direction with `nulls last`.
   */
  readonly orderBy: PageOrder;
  /** Number of rows per page if the query of a request has no `size`, 1 ... 10_000. Default 20. */
  readonly size?: number | undefined;
  /** Maximum number of rows per page, 1 ... 10_000. Default 100. */
  readonly maxSize?: number | undefined;
  /**
   * Secrets that sign cursors. The first secret signs and verifies cursors, and the others only verify them.
   * Default: the application's `authSecret`.
   */
  readonly secret?: Secrets | undefined;
}

/**
 * Query parameters of a page, for the option `query` of a route. Spread the object to combine it with other
 * parameters.
 */
export interface KeysetQuery {
  readonly size: number;
  readonly cursor: string | undefined;
}

interface KeysetRequest {
  readonly query: KeysetQuery;
  readonly req?: HttpRequest | undefined;
}

/** Response body of a page. */
export interface KeysetPageBody<T> {
  readonly items: readonly T[];
  readonly next: string | null;
  readonly previous: string | null;
}

/** A page of rows, with the cursors of the next and the previous page. */
export class KeysetPage<T> implements KeysetPageBody<T> {
  readonly items: readonly T[];
  /** Cursor of the next page, or null on the last page. */
  readonly next: string | null;
  /** Cursor of the previous page, or null on the first page. */
  readonly previous: string | null;
  readonly #req: HttpRequest | undefined;

  /** @internal */
  constructor(
    items: readonly T[],
    next: string | null,
    previous: string | null,
    req: HttpRequest | undefined,
  ) {
    this.items = items;
    this.next = next;
    this.previous = previous;
    this.#req = req;
  }

  /**
   * Response header `Link` with the relations `first`, `prev` and `next` (RFC 8288). Its URLs are relative to
   * the URL of the request.
   */
  get headers(): Readonly<Record<string, string>> {
    const to = (cursor: string | null): { cursor: string } | undefined =>
      cursor === null ? undefined : { cursor };
    return linkHeaders(this.#req, { first: {}, prev: to(this.previous), next: to(this.next) });
  }
}

/**
 * Name prefix of columns that fetch() adds to a query. These columns contain the sort values as text. As a
 * Date, a timestamp would lose its microseconds.
 */
const EXACT = 'svc_key_';

const schemaOf = pageSchemas(
  'Page',
  (Item) =>
    class extends Schema {
      items = Field(list(Item));
      next = Field(nullable(str), { description: 'Cursor of the next page' });
      previous = Field(nullable(str), { description: 'Cursor of the previous page' });
    } as unknown as SchemaClass,
);

/** Reads a list in pages with cursors. The opening comment of db/pages/keyset.ts has an example. */
export class KeysetPages {
  readonly #columns: readonly OrderColumn[];
  /** Text of the sort order. It is signed with each cursor, so a cursor is valid only for this sort order. */
  readonly #signature: string;
  readonly #secret: Secrets | undefined;
  readonly #size: number;
  readonly #maxSize: number;

  /**
   * @throws SvcError `E_DB_PAGE` for an invalid sort order, `E_DB_IDENTIFIER` for an invalid column name,
   *   `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for other invalid options
   */
  constructor(options: KeysetPagesOptions) {
    const read = readOptions('KeysetPages', options, {
      orderBy: given<PageOrder>('an object of columns and directions', isObject),
      size: int(20, 1, 10_000),
      maxSize: int(100, 1, 10_000),
      secret: given<Secrets>(),
    });
    this.#columns = orderColumns(read.orderBy ?? {});
    this.#signature = JSON.stringify(this.#columns);
    this.#secret = read.secret;
    this.#size = Math.min(read.size, read.maxSize);
    this.#maxSize = read.maxSize;
  }

  /** Query parameters for the option `query` of a route. */
  get query(): KeysetQuery {
    return {
      size: Field(this.#size, { ge: 1, le: this.#maxSize, description: 'Number of entries per page' }),
      cursor: Field(str, {
        optional: true,
        maxLength: MAX_CURSOR_CHARACTERS,
        description: 'Cursor of the page: the value of "next" or "previous" from another page',
      }),
    };
  }

  /** Returns the schema of a page, for the option `response` of a route. */
  response<T extends object>(Item: SchemaClass<T>): SchemaClass<KeysetPageBody<T>> {
    return schemaOf(Item) as SchemaClass<KeysetPageBody<T>>;
  }

  /**
   * Reads one page of the rows of `query`. The query is a `select` without a limit, and returns the sort
   * columns.
   *
   * @throws BadRequest for a cursor that was not made for this list; SvcError `E_DB_PAGE` for rows with equal
   *   sort columns, and for NULL or unsupported values in them; `E_SECRET_ABSENT` without a secret
   */
  fetch(
    session: Session,
    query: Sql,
    request: KeysetRequest,
    options?: QueryOptions,
  ): Promise<KeysetPage<Row>>;
  fetch<T extends object>(
    session: Session,
    query: Sql,
    request: KeysetRequest,
    options: RowOptions<T>,
  ): Promise<KeysetPage<T>>;
  async fetch(
    session: Session,
    query: Sql,
    request: KeysetRequest,
    options: QueryOptions | RowOptions = {},
  ): Promise<KeysetPage<object>> {
    const { req } = request;
    const keys = cursorKeys(this.#secret, req);
    const given = request.query.cursor;
    const cursor = given === undefined ? undefined : readCursor(keys, this.#signature, given);
    const isForward = cursor?.isForward ?? true;
    const size = Math.min(request.query.size, this.#maxSize);
    const rows = await session.fetchAll(this.#statement(session, query, cursor, size + 1), limitsOf(options));
    const hasMore = rows.length > size;
    const positions = rows.map((row) => this.#positionOf(row));
    if (cursor !== undefined && rows.length > 0 && isEqual(positions[0]!, cursor.position))
      throw new SvcError('E_DB_PAGE', [
        'a row occurs on two pages, probably because MySQL rounds the values of a FLOAT column: sort by a column of another type',
      ]);
    if (hasMore && isEqual(positions[size - 1]!, positions[size]!)) {
      const names = this.#columns.map(({ name }) => `"${name}"`).join(', ');
      throw new SvcError('E_DB_PAGE', [
        `two rows have equal values in the sort columns ${names}: add a unique column to "orderBy"`,
      ]);
    }
    const shown = positions.slice(0, size);
    if (!isForward) shown.reverse();
    const write = (position: Position | undefined, forward: boolean): string | null =>
      position === undefined ? null : writeCursor(keys, this.#signature, { isForward: forward, position });
    const items = rows.slice(0, size).map((row) => withoutKeys(row, this.#columns.length));
    if (!isForward) items.reverse();
    return new KeysetPage(
      hasSchema(options)
        ? new RowDecoder(options as RowOptions, session.dialect, session.conversion.snakeCase).all(items)
        : items,
      hasMore || !isForward ? write(shown.at(-1), true) : null,
      (isForward ? cursor !== undefined : hasMore) ? write(shown[0], false) : null,
      req,
    );
  }

  #statement(session: Session, query: Sql, cursor: Cursor | undefined, limit: number): Sql {
    const isForward = cursor?.isForward ?? true;
    const where =
      cursor === undefined ? sql`` : sql`where ${beyond(this.#columns, cursor.position, isForward)}`;
    const type = session.dialect === 'postgres' ? sql`text` : sql`char`;
    const exact =
      session.dialect === 'sqlite'
        ? [] // SQLite has no timestamp type, so no exact text is needed
        : this.#columns.map(
            ({ name }, index) =>
              sql`, cast(${sourceColumn(name)} as ${type}) as ${sql.identifier(`${EXACT}${index}`)}`,
          );
    return sql`select ${sql.identifier('svc_page')}.*${exact.length === 0 ? sql`` : sql.join(exact, sql``)}
${fromSource(query)} ${where} ${orderBy(this.#columns, isForward)} limit ${limit}`;
  }

  #positionOf(row: Row): Position {
    return this.#columns.map(({ name, mayBeNull }, index) => {
      // use the text of a timestamp, because a Date has no microseconds
      const value = row[name] instanceof Date ? row[`${EXACT}${index}`] : row[name];
      if (value === undefined)
        throw new SvcError('E_DB_PAGE', [
          `the rows have no column "${name}": select every column that "orderBy" names`,
        ]);
      if (value === null && !mayBeNull)
        throw new SvcError('E_DB_PAGE', [
          `the column "${name}" is NULL in a row: write "asc nulls last" or "desc nulls last" for a column that may be NULL`,
        ]);
      if (!isKeyValue(value))
        throw new SvcError('E_DB_PAGE', [
          `the sort column "${name}" contains ${shown(value)}, but a cursor can contain only text, bytes, true, false and finite numbers`,
        ]);
      return value;
    });
  }
}

function isKeyValue(value: unknown): value is Position[number] {
  if (value === null || value instanceof Uint8Array) return true;
  return typeof value === 'number'
    ? Number.isFinite(value)
    : /^(?:string|bigint|boolean)$/.test(typeof value);
}

function isEqual(left: Position, right: Position): boolean {
  return left.every((value, index) => {
    const other = right[index];
    return value instanceof Uint8Array && other instanceof Uint8Array
      ? Buffer.compare(value, other) === 0
      : value === other;
  });
}

function withoutKeys(row: Row, count: number): Row {
  const own: Row = {};
  const keys = new Set(Array.from({ length: count }, (_, index) => `${EXACT}${index}`));
  for (const [name, value] of Object.entries(row)) if (!keys.has(name)) setOwn(own, name, value);
  return own;
}

/**
 * Maximum length of a cursor in characters. A cursor is part of a URL, and servers limit the length of URLs.
 */
const MAX_CURSOR_CHARACTERS = 1_024;
const LABEL = 'svc page cursor';

interface Cursor {
  readonly isForward: boolean;
  readonly position: Position;
}

/** Returns the signing keys, derived from `secret`, or else from the `authSecret` of the application. */
function cursorKeys(secret: Secrets | undefined, req: HttpRequest | undefined): Keyring {
  const config = req?.state.get(services).config;
  const secrets = secret ?? (config === undefined ? undefined : authSecrets(config));
  if (secrets === undefined)
    throw new SvcError('E_SECRET_ABSENT', [
      'fetch() was called without the option "req", and KeysetPages was created without the option "secret"',
    ]);
  return Keyring.of(secrets).derive(LABEL);
}

function writeCursor(keys: Keyring, order: string, { isForward, position }: Cursor): string {
  const values = position.map((value) => {
    if (typeof value === 'bigint') return { bigint: String(value) };
    return value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('base64') } : value;
  });
  const payload = Buffer.from(JSON.stringify([isForward ? 'next' : 'previous', ...values])).toString(
    'base64url',
  );
  const cursor = `${payload}.${hmacSha256(keys.current.key, `${order}\n${payload}`)}`;
  if (cursor.length > MAX_CURSOR_CHARACTERS)
    throw new SvcError('E_DB_PAGE', [
      `the cursor of a row would have ${cursor.length} characters, but the limit is ${MAX_CURSOR_CHARACTERS}: sort by columns with shorter values`,
    ]);
  return cursor;
}

function readCursor(keys: Keyring, order: string, text: string): Cursor {
  const [payload = '', mac = ''] = text.split('.', 2);
  const given = Buffer.from(mac);
  const isOurs = keys.keys.some(({ key }) => {
    const expected = Buffer.from(hmacSha256(key, `${order}\n${payload}`));
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!isOurs || text !== `${payload}.${mac}`)
    throw new BadRequest('The input has 1 problem', {
      issues: [
        {
          loc: ['query', 'cursor'],
          code: 'cursor',
          message: 'must be a cursor from another page of the list',
        },
      ],
    });
  const [way, ...values] = JSON.parse(Buffer.from(payload, 'base64url').toString()) as readonly [
    string,
    ...Written[],
  ];
  return { isForward: way === 'next', position: values.map(valueOf) };
}

type Written = string | number | boolean | null | { readonly bigint: string } | { readonly bytes: string };

function valueOf(written: Written): Position[number] {
  if (typeof written !== 'object' || written === null) return written;
  return 'bigint' in written ? BigInt(written.bigint) : new Uint8Array(Buffer.from(written.bytes, 'base64'));
}
