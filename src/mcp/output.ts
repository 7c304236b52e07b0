/**
 * What a tool gives back, as JSON Schema and as a value: the `response` of a route, in the form that a version has for it.
 *
 *   response: User          User                 everywhere since 2025-06-18
 *   response: list(User)    { result: [...] }      2025-06-18 ... 2025-11-25, where it is an object in any case
 *                           [...]                  since 2026-07-28
 */
import { JsonSchemas } from '../schema/json-schema.ts';
import { isObject } from './messages.ts';
import { FieldType, compileType } from '../schema/schema.ts';
import type { JsonSchema } from '../schema/json-schema.ts';
import type { Dialect } from './messages.ts';
import type { RouteSpec } from '../routing/spec.ts';
import type { TypeSource } from '../schema/schema.ts';

/** The result of one tool. */
export class OutputPlan {
  /** Undefined where the route does not say what it replies with. */
  readonly #schema: JsonSchema | undefined;
  readonly #wrapped: JsonSchema | undefined;

  constructor(subject: string, response: RouteSpec['response']) {
    const sources = successes(response);
    if (sources.length === 0) return;
    const schemas = new JsonSchemas({ prefix: PREFIX });
    const variants = sources.map((source) =>
      schemas.type(compileType(source, `the response of ${subject}`).node, 'output'),
    );
    const { schema, definitions } = inlined(
      variants.length === 1 ? variants[0]! : { anyOf: variants },
      schemas.components(),
    );
    const isAlwaysObject =
      schema['type'] === 'object' ||
      (variants.length > 1 &&
        variants.every((variant) => inlined(variant, schemas.components()).schema['type'] === 'object'));
    const $defs = Object.keys(definitions).length === 0 ? {} : { $defs: definitions };
    this.#schema = isAlwaysObject ? { type: 'object', ...schema, ...$defs } : { ...schema, ...$defs };
    if (!isAlwaysObject)
      this.#wrapped = {
        type: 'object',
        properties: { result: schema },
        required: ['result'],
        additionalProperties: false,
        ...$defs,
      };
  }

  /** Undefined where there is none, or the version has no room for it. */
  schema(dialect: Dialect): JsonSchema | undefined {
    if (!dialect.hasStructure) return undefined;
    return dialect.hasAnyStructure ? this.#schema : (this.#wrapped ?? this.#schema);
  }

  /** A reply as `structuredContent`, or undefined where it has no place. */
  structure(value: unknown, dialect: Dialect): unknown {
    if (!dialect.hasStructure) return undefined;
    if (dialect.hasAnyStructure) return value;
    if (this.#wrapped !== undefined) return { result: value };
    return isObject(value) ? value : undefined;
  }
}

const PREFIX = '#/$defs/';

/** Of replies that are no error. */
function successes(response: RouteSpec['response']): readonly TypeSource[] {
  if (response === undefined) return [];
  if (typeof response === 'function' || response instanceof FieldType) return [response];
  return Object.entries(response)
    .filter(([status]) => Number(status) < 300)
    .map(([, source]) => source as TypeSource); // by status, as the spec has it
}

/** The schema without a reference at its root: clients look for `type` there. What nothing refers to any more is left out. */
function inlined(
  schema: JsonSchema,
  definitions: Readonly<Record<string, JsonSchema>>,
): { readonly schema: JsonSchema; readonly definitions: Readonly<Record<string, JsonSchema>> } {
  const { $ref, ...beside } = schema;
  if (typeof $ref !== 'string') return { schema, definitions };
  const name = $ref.slice(PREFIX.length);
  const root = { ...definitions[name], ...beside };
  const others = Object.entries(definitions).filter(([other]) => other !== name);
  const isNeeded = JSON.stringify([root, others]).includes(JSON.stringify($ref));
  return { schema: root, definitions: isNeeded ? definitions : Object.fromEntries(others) };
}
