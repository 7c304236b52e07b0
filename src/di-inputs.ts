/**
 * The inputs of a route or dependency beside the path and the body: query, headers and cookies.
 */
import { TextInputPlan } from './di-text.ts';
import { fieldsOf, isSchemaClass, planOf } from './schema.ts';
import type { InputShape } from './di.ts';
import type { SchemaPlan } from './schema.ts';

const SOURCES = [['query', 'query'], ['headers', 'header'], ['cookies', 'cookie']] as const;

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
