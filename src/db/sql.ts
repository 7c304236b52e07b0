/**
 * SQL templates: each `${...}` becomes a bound value and never becomes part of the text. Templates can
 * contain other templates:
 *   const mine = sql`owner = ${user}`;
 *   db.fetchAll(sql`select * from ${sql.identifier('notes')} where ${mine} and id in (${sql.join(ids)})`)
 */
import { SvcError } from '../base/errors.ts';
import { quotedName } from './dialects.ts';
import { Bound, type Parameter } from './values.ts';
import type { Dialect } from './driver.ts';

type Part = string | { readonly names: readonly string[] };

/** A statement, or a fragment of a statement, with its values. Made by {@link sql}. */
export class Sql extends Bound {
  /** Texts and names, in the order of the statement. Each `?` in a text stands for one value of `params`. */
  readonly #parts: readonly Part[];
  readonly params: readonly Parameter[];

  /** @internal */
  constructor(parts: readonly Part[], params: readonly Parameter[]) {
    super();
    this.#parts = parts;
    this.params = params;
  }

  /** Returns the text for a dialect, with a `?` for every value. */
  text(dialect: Dialect): string {
    return this.#parts.length === 1 && typeof this.#parts[0] === 'string'
      ? this.#parts[0]
      : this.#parts
          .map((part) =>
            typeof part === 'string' ? part : part.names.map((name) => quotedName(dialect, name)).join('.'),
          )
          .join('');
  }

  protected get maker(): string {
    return 'sql';
  }

  /** @internal */
  get parts(): readonly Part[] {
    return this.#parts;
  }
}

type Piece = Parameter | Sql;

/** Cache of the texts of templates that contain only values and no other templates. */
const TEXTS = new WeakMap<TemplateStringsArray, string>();

function template(strings: TemplateStringsArray, ...values: readonly Piece[]): Sql {
  if (!values.some((value) => value instanceof Sql)) {
    let text = TEXTS.get(strings);
    if (text === undefined) TEXTS.set(strings, (text = strings.join('?')));
    return new Sql([text], values as readonly Parameter[]);
  }
  const parts: Part[] = [strings[0]!];
  const params: Parameter[] = [];
  values.forEach((value, index) => {
    append(parts, params, value);
    parts.push(strings[index + 1]!);
  });
  return new Sql(parts, params);
}

function append(parts: Part[], params: Parameter[], value: Piece): void {
  if (!(value instanceof Sql)) {
    parts.push('?');
    params.push(value);
    return;
  }
  // loops, because spreading a long list into push() overflows the stack
  for (const part of value.parts) parts.push(part);
  for (const param of value.params) params.push(param);
}

function identifier(...names: readonly string[]): Sql {
  // check the names now, so that the error's stack leads to the template
  for (const name of names) quotedName('sqlite', name);
  if (names.length === 0)
    throw new SvcError('E_DB_IDENTIFIER', ['sql.identifier() needs at least one name, found none']);
  return new Sql([{ names }], []);
}

function join(values: Iterable<Piece>, separator: Sql = COMMA): Sql {
  const parts: Part[] = [];
  const params: Parameter[] = [];
  let isFirst = true;
  for (const value of values) {
    if (!isFirst) append(parts, params, separator);
    append(parts, params, value);
    isFirst = false;
  }
  if (isFirst) throw new SvcError('E_DB_JOIN', []);
  return new Sql(parts, params);
}

const COMMA = new Sql([', '], []);

/** Template tag for SQL, with functions for names and lists. */
interface SqlTag {
  (strings: TemplateStringsArray, ...values: readonly Piece[]): Sql;
  /**
   * Returns a quoted table or column name. Several names are joined by dots: `"main"."users"`.
   *
   * @throws SvcError `E_DB_IDENTIFIER` for a name that is empty, longer than 63 bytes, or contains NUL
   */
  identifier(...names: readonly string[]): Sql;
  /**
   * Joins values or fragments of SQL by a separator. The default separator is a comma.
   *
   * @throws SvcError `E_DB_JOIN` when there are no values
   */
  join(values: Iterable<Piece>, separator?: Sql): Sql;
}

/** Template tag for SQL statements with bound values. The opening comment of db/sql.ts has examples. */
export const sql: SqlTag = Object.freeze(Object.assign(template, { identifier, join }));
