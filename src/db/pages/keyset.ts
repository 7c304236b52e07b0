/**
 * Keyset pagination: each page begins behind the last row of the one before, whatever is inserted or deleted meanwhile, and costs as
 * little as the first.
 *
 *   const notes = new KeysetPages({ orderBy: { created_at: 'desc', id: 'asc' } });
 *
 *   app.get('/notes', { db: Depends(db), query: notes.query, response: notes.response(Note) }, async ({ db, query, req }) => {
 *     const page = await notes.fetch(db, sql`select id, title, created_at from note`, { query, req }, { as: Note });
 *     return reply(page, 200, page.headers);
 *   });
 */
import { SvcError } from '../../base/errors.ts';
import { given, int, isObject, readOptions, shown } from '../../base/options.ts';
import { Field, Schema, list, nullable, str } from '../../schema/schema.ts';
import { setColumn } from '../values.ts';
import { sql, type Sql } from '../sql.ts';
import { MAX_CURSOR_CHARACTERS, cursorKeys, readCursor, writeCursor } from './cursor.ts';
import { beyond, fromSource, orderBy, orderColumns, sourceColumn } from './order.ts';
import { RowDecoder, hasSchema, limitsOf, type RowOptions } from '../rows.ts';
import { linkHeaders, pageSchemas } from './page.ts';
import type { Secrets } from '../../crypto/keys.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { SchemaClass } from '../../schema/schema.ts';
import type { Row } from '../driver.ts';
import type { QueryOptions } from '../limits.ts';
import type { Session } from '../session.ts';
import type { Cursor } from './cursor.ts';
import type { OrderColumn, PageOrder, Position } from './order.ts';

/** How a list is cut into pages. */
export interface KeysetPagesOptions {
  /** Columns of the rows by importance. Together they are unique; each is never NULL, unless it has `nulls last`. */
  readonly orderBy: PageOrder;
  /** Rows of a page where the client says nothing, 1 ... 10_000. Default 20. */
  readonly size?: number | undefined;
  /** Rows of a page at most, 1 ... 10_000. Default 100. */
  readonly maxSize?: number | undefined;
  /** Signs cursors; of several the first signs, and the others are still accepted. Default: the secrets of the application, `authSecret`. */
  readonly secret?: Secrets | undefined;
}

/** Parameters of the address, for `query` of a route. Spread them where a route has others, too. */
export interface KeysetQuery {
  readonly size: number;
  readonly cursor: string | undefined;
}

/** The page that a client asks for. */
interface KeysetRequest {
  readonly query: KeysetQuery;
  readonly req?: HttpRequest | undefined;
}

/** A page as a response has it. */
export interface KeysetPageBody<T> {
  readonly items: readonly T[];
  readonly next: string | null;
  readonly previous: string | null;
}

/** Rows, and the cursors of the pages behind and before them. */
export class KeysetPage<T> implements KeysetPageBody<T> {
  readonly items: readonly T[];
  /** The cursor of the next page, or null on the last one. */
  readonly next: string | null;
  /** The cursor of the page before, or null on the first one. */
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

  /** `Link` with the relations `first`, `prev` and `next` (RFC 8288), relative to the address of the request. */
  get headers(): Readonly<Record<string, string>> {
    const to = (cursor: string | null): { cursor: string } | undefined =>
      cursor === null ? undefined : { cursor };
    return linkHeaders(this.#req, { first: {}, prev: to(this.previous), next: to(this.next) });
  }
}

/** The name of the column with the exact text of a key. */
const EXACT = 'svc_key_';

const schemaOf = pageSchemas(
  'Page',
  (Item) =>
    class extends Schema {
      items = Field(list(Item));
      next = Field(nullable(str), { description: 'Cursor of the next page' });
      previous = Field(nullable(str), { description: 'Cursor of the page before' });
    } as unknown as SchemaClass,
);

/** A list that is read in pages. See the top of this file. */
export class KeysetPages {
  readonly #columns: readonly OrderColumn[];
  /** Names the order: a cursor is valid for lists of one order only. */
  readonly #signature: string;
  readonly #secret: Secrets | undefined;
  readonly #size: number;
  readonly #maxSize: number;

  /** @throws SvcError `E_DB_PAGE`, `E_DB_IDENTIFIER`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
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

  /** Fields for `query` of a route. */
  get query(): KeysetQuery {
    return {
      size: Field(this.#size, { ge: 1, le: this.#maxSize, description: 'Entries of a page' }),
      cursor: Field(str, {
        optional: true,
        maxLength: MAX_CURSOR_CHARACTERS,
        description: 'Position that an earlier page has given, as next or previous',
      }),
    };
  }

  /** The schema of a page, for `response` of a route. */
  response<T extends object>(Item: SchemaClass<T>): SchemaClass<KeysetPageBody<T>> {
    return schemaOf(Item) as SchemaClass<KeysetPageBody<T>>;
  }

  /**
   * Reads one page of the rows of a `select` without a limit. The columns of the order are among its columns.
   *
   * @throws BadRequest for a cursor that was not made for this list; SvcError `E_DB_PAGE` for NULL in a column of the order, for
   * an order that is not unique, and for values that a cursor cannot have; `E_SECRET_ABSENT`
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
    if (hasMore && isEqual(positions[size - 1]!, positions[size]!))
      throw new SvcError('E_DB_PAGE', [`two rows have equal values in ${this.#names()}`]);
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
        ? [] // it has no instants of its own
        : this.#columns.map(
            ({ name }, index) =>
              sql`, cast(${sourceColumn(name)} as ${type}) as ${sql.identifier(`${EXACT}${index}`)}`,
          );
    return sql`select ${sql.identifier('svc_page')}.*${exact.length === 0 ? sql`` : sql.join(exact, sql``)}
${fromSource(query)} ${where} ${orderBy(this.#columns, isForward)} limit ${limit}`;
  }

  #positionOf(row: Row): Position {
    return this.#columns.map(({ name, mayBeNull }, index) => {
      const value = row[name] instanceof Date ? row[`${EXACT}${index}`] : row[name]; // a Date has no microseconds
      if (value === undefined) throw new SvcError('E_DB_PAGE', [`the rows have no column "${name}"`]);
      if (value === null && !mayBeNull)
        throw new SvcError('E_DB_PAGE', [
          `the column "${name}" is NULL in a row: write "asc nulls last" or "desc nulls last" for one that may be`,
        ]);
      if (!isKeyValue(value))
        throw new SvcError('E_DB_PAGE', [
          `the column "${name}" has ${shown(value)}, which no cursor can have`,
        ]);
      return value;
    });
  }

  #names(): string {
    return this.#columns.map(({ name }) => `"${name}"`).join(', ');
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

/** The row as the statement gave it. */
function withoutKeys(row: Row, count: number): Row {
  const own: Row = {};
  const keys = new Set(Array.from({ length: count }, (_, index) => `${EXACT}${index}`));
  for (const [name, value] of Object.entries(row)) if (!keys.has(name)) setColumn(own, name, value);
  return own;
}
