/** Hand-written schemas with the interface Standard Schema, for tests without a library. */
import type { StandardIssue, StandardProps, StandardResult, StandardSchema } from '../../src/index.ts';

/** Returns a schema that validates with `validate`, which returns a value, or an object with issues. */
export function standard<T>(
  validate: (value: unknown) => StandardResult<T> | Promise<StandardResult<T>>,
  jsonSchema?: StandardProps['jsonSchema'],
): StandardSchema<T, T> {
  return { '~standard': { version: 1, vendor: 'hand', validate, ...(jsonSchema && { jsonSchema }) } };
}

/** Returns the functions for JSON Schema of a schema whose input and output have one form. */
export function described(
  schema: Readonly<Record<string, unknown>>,
): NonNullable<StandardProps['jsonSchema']> {
  return { input: () => schema, output: () => schema };
}

/** Reads `{ name: text, count?: number or its text }`. */
export function readItem(value: unknown): StandardResult<{ name: string; count: number }> {
  const { name, count = 1 } = (value ?? {}) as { readonly name?: unknown; readonly count?: unknown };
  const issues: StandardIssue[] = [];
  if (typeof name !== 'string') issues.push({ message: 'Expected text', path: ['name'] });
  if (Number.isNaN(Number(count))) issues.push({ message: 'Expected a number', path: [{ key: 'count' }] });
  return issues.length > 0 ? { issues } : { value: { name: name as string, count: Number(count) } };
}

/** JSON Schema of {@link readItem}. */
export const ITEM = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { name: { type: 'string', maxLength: 9 }, count: { type: 'number', default: 1 } },
  required: ['name'],
} as const;
