/**
 * Numbered pages with a total count, for small tables. For each page, the database reads all earlier rows and
 * counts all rows. A row that is inserted between two requests shifts other rows to the next page. For lists
 * that grow, use keyset.ts.
 *
 *   const tags = new OffsetPages({ orderBy: { name: 'asc' } });
 *   app.get('/tags', { db: Depends(db), query: tags.query, response: tags.response(Tag) }, async ({ db, query, req }) => {
 *     const page = await tags.fetch(db, sql`select name from tag`, { query, req }, { as: Tag });
 *     return reply(page, 200, page.headers);
 *   });
 */
import { given, int, isObject, readOptions } from '../../base/options.ts';
import { Field, Schema, int as integer, list } from '../../schema/schema.ts';
import { sql, type Sql } from '../sql.ts';
import { fromSource, orderBy, orderColumns } from './order.ts';
import { limitsOf, type RowOptions } from '../rows.ts';
import { linkHeaders, pageSchemas } from './page.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { SchemaClass } from '../../schema/schema.ts';
import type { Row } from '../driver.ts';
import type { QueryOptions } from '../limits.ts';
import type { Session } from '../session.ts';
import type { OrderColumn, PageOrder } from './order.ts';

/** Options of numbered pages. */
export interface OffsetPagesOptions {
  /**
   * Sort columns, the most important first. The last column must be a unique key, because otherwise pages may
   * overlap.
   */
  readonly orderBy: PageOrder;
  /** Number of rows per page if the query of a request has no `size`, 1 ... 10_000. Default 20. */
  readonly size?: number | undefined;
  /** Maximum number of rows per page, 1 ... 10_000. Default 100. */
  readonly maxSize?: number | undefined;
  /** Highest page number that a client may ask for, 1 ... 1_000_000. Default 1_000. */
  readonly maxPage?: number | undefined;
}

/**
 * Query parameters of a page, for the option `query` of a route. Spread the object to combine it with other
 * parameters.
 */
export interface OffsetQuery {
  readonly page: number;
  readonly size: number;
}

interface OffsetRequest {
  readonly query: OffsetQuery;
  readonly req?: HttpRequest | undefined;
}

/** Response body of a page. */
export interface OffsetPageBody<T> {
  readonly items: readonly T[];
  readonly page: number;
  readonly size: number;
  readonly total: number;
}

/** A page of rows, with its number and the total number of rows. */
export class OffsetPage<T> implements OffsetPageBody<T> {
  readonly items: readonly T[];
  /** Page number, counted from 1. */
  readonly page: number;
  readonly size: number;
  /** Number of rows on all pages. */
  readonly total: number;
  readonly #req: HttpRequest | undefined;

  /** @internal */
  constructor(body: OffsetPageBody<T>, req: HttpRequest | undefined) {
    this.items = body.items;
    this.page = body.page;
    this.size = body.size;
    this.total = body.total;
    this.#req = req;
  }

  /**
   * Response header `Link` with the relations `first`, `prev`, `next` and `last` (RFC 8288). Its URLs are
   * relative to the URL of the request.
   */
  get headers(): Readonly<Record<string, string>> {
    const last = Math.max(1, Math.ceil(this.total / this.size));
    const to = (page: number): { page: string } | undefined =>
      page < 1 || page > last ? undefined : { page: String(page) };
    return linkHeaders(this.#req, {
      first: to(1),
      prev: to(Math.min(this.page - 1, last)),
      next: to(this.page + 1),
      last: to(last),
    });
  }
}

const schemaOf = pageSchemas(
  'NumberedPage',
  (Item) =>
    class extends Schema {
      items = Field(list(Item));
      page = Field(integer, { description: 'Number of the page, from 1' });
      size = Field(integer, { description: 'Number of entries per page' });
      total = Field(integer, { description: 'Number of entries on all pages' });
    } as unknown as SchemaClass,
);

/** Reads a list in numbered pages. The opening comment of db/pages/offset.ts has an example. */
export class OffsetPages {
  readonly #columns: readonly OrderColumn[];
  readonly #size: number;
  readonly #maxSize: number;
  readonly #maxPage: number;

  /**
   * @throws SvcError `E_DB_PAGE` for an invalid sort order, `E_DB_IDENTIFIER` for an invalid column name,
   *   `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for other invalid options
   */
  constructor(options: OffsetPagesOptions) {
    const read = readOptions('OffsetPages', options, {
      orderBy: given<PageOrder>('an object of columns and directions', isObject),
      size: int(20, 1, 10_000),
      maxSize: int(100, 1, 10_000),
      maxPage: int(1_000, 1, 1_000_000),
    });
    this.#columns = orderColumns(read.orderBy ?? {});
    this.#size = Math.min(read.size, read.maxSize);
    this.#maxSize = read.maxSize;
    this.#maxPage = read.maxPage;
  }

  /** Query parameters for the option `query` of a route. */
  get query(): OffsetQuery {
    return {
      page: Field(1, { ge: 1, le: this.#maxPage, description: 'Number of the page, from 1' }),
      size: Field(this.#size, { ge: 1, le: this.#maxSize, description: 'Number of entries per page' }),
    };
  }

  /** Returns the schema of a page, for the option `response` of a route. */
  response<T extends object>(Item: SchemaClass<T>): SchemaClass<OffsetPageBody<T>> {
    return schemaOf(Item) as SchemaClass<OffsetPageBody<T>>;
  }

  /**
   * Reads one page of the rows of `query`, a `select` without a limit, and counts all its rows. A page after
   * the last page has no items. If the total must match the items, pass a transaction with
   * `isolation: 'repeatable read'` as `session`.
   */
  fetch(
    session: Session,
    query: Sql,
    request: OffsetRequest,
    options?: QueryOptions,
  ): Promise<OffsetPage<Row>>;
  fetch<T extends object>(
    session: Session,
    query: Sql,
    request: OffsetRequest,
    options: RowOptions<T>,
  ): Promise<OffsetPage<T>>;
  async fetch(
    session: Session,
    query: Sql,
    request: OffsetRequest,
    options: QueryOptions | RowOptions = {},
  ): Promise<OffsetPage<object>> {
    const page = Math.min(request.query.page, this.#maxPage);
    const size = Math.min(request.query.size, this.#maxSize);
    const source = fromSource(query);
    const total = Number(await session.scalar(sql`select count(*) ${source}`, limitsOf(options)));
    const offset = (page - 1) * size;
    const items =
      offset >= total
        ? []
        : await session.fetchAll(
            sql`select * ${source} ${orderBy(this.#columns, true)} limit ${size} offset ${offset}`,
            options as RowOptions,
          );
    return new OffsetPage({ items, page, size, total }, request.req);
  }
}
