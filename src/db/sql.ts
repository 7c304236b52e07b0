/**
 * Statements written as templates: what stands in `${...}` is bound, never written into the text. Fragments compose.
 *
 *   const mine = sql`owner = ${user}`;
 *   db.fetchAll(sql`select * from ${sql.identifier('notes')} where ${mine} and id in (${sql.join(ids)})`)
 */
import { SvcError } from '../base/errors.ts';
import { quotedName } from './dialects.ts';
import type { Dialect } from './driver.ts';
import type { Parameter } from './values.ts';

type Part = string | { readonly names: readonly string[] };

/** A statement, or a piece of one, with its values. Made by {@link sql}. */
export class Sql {
  /** Texts and quoted names, in order; each value of `params` is a `?` in a text. */
  readonly #parts: readonly Part[];
  readonly params: readonly Parameter[];

  /** @internal */
  constructor(parts: readonly Part[], params: readonly Parameter[]) {
    this.#parts = parts;
    this.params = params;
  }

  /** The text as the dialect has it, with a `?` for every value. */
  text(dialect: Dialect): string {
    return this.#parts.length === 1 && typeof this.#parts[0] === 'string'
      ? this.#parts[0]
      : this.#parts
          .map((part) =>
            typeof part === 'string' ? part : part.names.map((name) => quotedName(dialect, name)).join('.'),
          )
          .join('');
  }

  /** @internal */
  get parts(): readonly Part[] {
    return this.#parts;
  }
}

/** What may stand in a template: a value, or a piece of SQL. */
type Piece = Parameter | Sql;

/** The text of a template that has no pieces in it, by its literal: joined once, however often it runs. */
const TEXTS = new WeakMap<TemplateStringsArray, string>();

function template(strings: TemplateStringsArray, ...values: readonly Piece[]): Sql {
  if (!values.some((value) => value instanceof Sql)) {
    let text = TEXTS.get(strings);
    if (text === undefined) TEXTS.set(strings, (text = strings.join('?')));
    return new Sql([text], values as readonly Parameter[]); // none of them is a piece
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
  for (const part of value.parts) parts.push(part); // as arguments of one push() the values of a long list are more than the stack has room for
  for (const param of value.params) params.push(param);
}

function identifier(...names: readonly string[]): Sql {
  for (const name of names) quotedName('sqlite', name); // refused here, where the mistake is, not where the statement runs
  if (names.length === 0) throw new SvcError('E_DB_IDENTIFIER', ['no name']);
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

/** The template tag, and the two ways to write what is no value. */
interface SqlTag {
  (strings: TemplateStringsArray, ...values: readonly Piece[]): Sql;
  /** A table or column name, quoted; several are joined by dots. @throws SvcError `E_DB_IDENTIFIER` */
  identifier(...names: readonly string[]): Sql;
  /** Values or pieces with something between them, by default a comma. @throws SvcError `E_DB_JOIN` when there is none */
  join(values: Iterable<Piece>, separator?: Sql): Sql;
}

/** Writes SQL whose values are bound: see the top of this file. */
export const sql: SqlTag = Object.freeze(Object.assign(template, { identifier, join }));
