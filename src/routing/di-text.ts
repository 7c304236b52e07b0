/**
 * Text inputs, compiled: how the members of a query, of headers or of cookies are found and validated.
 */
import { fieldsOf, isSchemaClass, planOf } from '../schema/schema.ts';
import type { InputShape, TextInputs } from './di.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { Result, SchemaPlan } from '../schema/schema.ts';

/** One source of text inputs of a route or dependency. */
export class TextInputPlan {
  /** The member of the context. */
  readonly key: keyof TextInputs;
  readonly from: 'query' | 'header' | 'cookie';
  readonly plan: SchemaPlan;
  /** Field names by the names of the schema: `userAgent` is `user-agent`. */
  readonly #fieldNames: ReadonlyMap<string, string>;
  readonly #lists: ReadonlySet<string>;

  constructor(key: keyof TextInputs, from: TextInputPlan['from'], plan: SchemaPlan) {
    this.key = key;
    this.from = from;
    this.plan = plan;
    this.#fieldNames = new Map(
      plan.fields.map(({ name, wireName }) => [
        wireName,
        from === 'header' ? fieldNameOf(name, wireName) : wireName,
      ]),
    );
    this.#lists = new Set(plan.fields.filter((field) => field.isList).map((field) => field.wireName));
  }

  /** What the client calls a member: the name of the header, or the member's own. */
  nameOf(wireName: string): string {
    return this.#fieldNames.get(wireName) ?? wireName;
  }

  /** Validates what the request has. */
  read(req: HttpRequest): Result<unknown> {
    if (this.from === 'query') return this.plan.parseText(req.query, 'query');
    if (this.from === 'cookie') return this.plan.parseText(req.cookies, 'cookie');
    const result = this.plan.parseText(
      {
        getAll: (name) => {
          const value = req.headers[this.nameOf(name)];
          return value === undefined ? [] : this.#lists.has(name) ? itemsOf(value) : [value];
        },
        keys: () => this.#fieldNames.keys(),
      },
      'header',
    );
    if (result.ok) return result;
    return {
      ok: false,
      issues: result.issues.map((issue) => ({
        ...issue,
        loc: issue.loc.map((step, index) => (index === 1 ? this.nameOf(String(step)) : step)),
      })),
    };
  }
}

/** The field that a member reads: its alias as it stands, else `userAgent` as `user-agent`. */
function fieldNameOf(name: string, wireName: string): string {
  return (
    name === wireName ? name.replace(/([a-z0-9])([A-Z])/g, '$1-$2').replaceAll('_', '-') : wireName
  ).toLowerCase();
}

/** The items of a comma list; empty ones are none (RFC 9110 §5.6.1.2). */
function itemsOf(value: string): string[] {
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

const SOURCES = [
  ['query', 'query'],
  ['headers', 'header'],
  ['cookies', 'cookie'],
] as const;

/** The text inputs that a spec asks for, compiled. */
export function readTextInputs(spec: Readonly<Record<string, unknown>>): TextInputPlan[] {
  return SOURCES.flatMap(([key, from]) => {
    const shape = spec[key];
    return shape === undefined ? [] : [new TextInputPlan(key, from, planOfShape(shape as InputShape, key))]; // the spec's type says what it is
  });
}

/** A schema class's plan, or that of the fields of an object. */
export function planOfShape(shape: InputShape, owner: string): SchemaPlan {
  return isSchemaClass(shape) ? planOf(shape) : fieldsOf(shape, owner);
}
