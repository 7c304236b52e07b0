/**
 * Row of the table of kinds (kinds.ts): schemas of other libraries with the interface Standard Schema.
 *
 * Such a schema validates and converts a value itself. This file converts its issues, and refuses a promise:
 * only the whole body of a request may be validated asynchronously. It also reads the JSON Schema of the schema.
 */
import { SvcError } from '../base/errors.ts';
import { isRecord, onePer } from '../base/options.ts';
import { handled, isThenable } from '../base/promises.ts';
import { anyOutput } from './kinds-scalar.ts';
import { FAIL } from './types.ts';
import { MAX_DEPTH, runCheck } from './validation-run.ts';
import type { FieldPlan, Rows } from './nodes.ts';
import type { Direction, Extra, StandardIssue, StandardSchema } from './types.ts';
import type { Check, Result, Run } from './validation-run.ts';

export const STANDARD: Rows<'standard'> = {
  standard: {
    read: ({ schema }, of) => {
      assertUsable(schema);
      if (isKnownAsync(schema)) throw asyncFault(schema);
      return { kind: 'standard', constraints: of.constraints, schema };
    },
    sample: () => ({}),
    takesEmpty: () => true,
    json: ({ schema }) => standardCheck(schema),
    texts: ({ schema }) => standardCheck(schema),
    output: ({ schema }) => standardOutput(schema),
    document: (node, of) => of.standard(node),
  },
};

export function assertUsable(schema: StandardSchema): void {
  const { version, validate } = schema['~standard'] as { version?: unknown; validate?: unknown };
  if (version !== 1 || typeof validate !== 'function')
    throw fault(schema, 'its member "~standard" lacks version 1 or the function validate()');
}

/** Returns the check of a foreign schema. It throws `E_SCHEMA_STANDARD` if the schema returns a promise. */
export function standardCheck(schema: StandardSchema): Check {
  return (value, run) => {
    const result = schema['~standard'].validate(value);
    if (!isThenable(result)) return valueOf(schema, result, run);
    void handled(Promise.resolve(result));
    throw asyncFault(schema);
  };
}

/** Validates a whole body. Returns a promise if the schema does. */
export function parseStandard(
  schema: StandardSchema,
  input: unknown,
  at: string | undefined,
): Result<unknown> | Promise<Result<unknown>> {
  const read = (result: unknown): Result<unknown> =>
    runCheck((_, run) => valueOf(schema, result, run), input, at);
  const result = schema['~standard'].validate(input);
  return isThenable(result) ? Promise.resolve(result).then(read) : read(result);
}

/** The validated value is written like a value of the type `any`: its schema does not say how. */
function standardOutput(schema: StandardSchema): Check {
  const check = standardCheck(schema);
  return (value, run) => {
    const valid = check(value, run);
    return valid === FAIL ? FAIL : valid === undefined ? undefined : anyOutput(valid, run);
  };
}

/** Whether a schema says that it always returns promises. `async` is the mark of valibot. */
function isKnownAsync(schema: StandardSchema): boolean {
  const { validate } = schema['~standard'];
  return (
    (schema as { readonly async?: unknown }).async === true || validate.constructor.name === 'AsyncFunction'
  );
}

function asyncFault(schema: StandardSchema): SvcError {
  return fault(schema, 'it validates asynchronously, and only the option "body" awaits a schema');
}

function fault(schema: StandardSchema, problem: string): SvcError {
  return new SvcError('E_SCHEMA_STANDARD', [String(schema['~standard'].vendor), problem]);
}

function valueOf(schema: StandardSchema, result: unknown, run: Run): unknown {
  if (typeof result === 'object' && result !== null) {
    const { issues, value } = result as { readonly issues?: unknown; readonly value?: unknown };
    if (Array.isArray(issues)) return noteIssues(issues as readonly StandardIssue[], run);
    if (issues === undefined && 'value' in result) return value;
  }
  throw fault(schema, 'its function validate() returned neither a value nor issues');
}

function noteIssues(issues: readonly StandardIssue[], run: Run): typeof FAIL {
  if (issues.length === 0) return run.fail('invalid', 'is not valid');
  for (const issue of issues) {
    if (run.isFull) break;
    run.failAt(pathOf(issue), codeOf(issue), messageOf(issue));
  }
  return FAIL;
}

const MAX_MESSAGE_LENGTH = 500;

function messageOf(issue: Partial<StandardIssue> | undefined): string {
  const message = typeof issue?.message === 'string' ? issue.message : 'is not valid';
  return message.length <= MAX_MESSAGE_LENGTH
    ? message.toWellFormed()
    : `${message.slice(0, MAX_MESSAGE_LENGTH).toWellFormed()}…`;
}

/** Returns the code of an issue. The standard has no codes, but zod and arktype give one. */
function codeOf(issue: unknown): string {
  const code = (issue as { readonly code?: unknown } | undefined)?.code;
  return typeof code === 'string' && /^[\w.-]{1,64}$/.test(code) ? code : 'invalid';
}

function pathOf(issue: Partial<StandardIssue> | undefined): readonly (string | number)[] {
  const path: unknown = issue?.path;
  if (!Array.isArray(path)) return [];
  return path.slice(0, MAX_DEPTH).map((step: unknown) => {
    const key = typeof step === 'object' && step !== null ? (step as { readonly key?: unknown }).key : step;
    return typeof key === 'number' ? key : String(key);
  });
}

/** Dialect of the documents that this framework writes. */
export const TARGET = 'draft-2020-12';

type Documents = { readonly [D in Direction]: Readonly<Record<string, unknown>> | undefined };
const documentsOf = onePer((schema: StandardSchema): Documents => ({
  input: documentIn(schema, 'input'),
  output: documentIn(schema, 'output'),
}));

/**
 * Returns the JSON Schema of a foreign schema: always the same object for a schema and a direction. Returns
 * undefined if the schema has none, for example because of a type that JSON does not have.
 */
export function standardDocument(schema: StandardSchema, direction: Direction): Documents[Direction] {
  return documentsOf(schema)[direction];
}

function documentIn(schema: StandardSchema, direction: Direction): Documents[Direction] {
  try {
    const document: unknown = schema['~standard'].jsonSchema?.[direction]({ target: TARGET });
    return isRecord(document) ? document : undefined;
  } catch {
    return undefined; // the specification lets the methods throw for types without JSON Schema
  }
}

/** Returns the part of a document at a JSON Pointer such as `#/$defs/User` (RFC 6901 §6). */
export function partAt(document: unknown, pointer: string): unknown {
  let part = document;
  for (const step of pointer.split('/').slice(1)) {
    const name = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
    part =
      typeof part === 'object' && part !== null && Object.hasOwn(part, name)
        ? (part as Readonly<Record<string, unknown>>)[name]
        : undefined;
  }
  return part;
}

/** Returns the object that a document describes: its root, or the definition to which the root refers. */
function rootOf(document: Documents[Direction]): Readonly<Record<string, unknown>> {
  let root: unknown = document;
  for (let step = 0; step < MAX_DEPTH && isRecord(root) && typeof root['$ref'] === 'string'; step++)
    root = partAt(document, root['$ref']);
  return isRecord(root) ? root : {};
}

/** Returns the schemas of the members of the objects that a document describes, by name. */
export function documentMembers(document: Documents[Direction]): Readonly<Record<string, unknown>> {
  const { properties } = rootOf(document);
  return isRecord(properties) ? properties : {};
}

/** Returns the members of the input of a foreign schema as fields. There are none without JSON Schema. */
export function standardFields(schema: StandardSchema): {
  readonly extra: Extra;
  readonly fields: readonly FieldPlan[];
} {
  const document = standardDocument(schema, 'input');
  const { required, additionalProperties } = rootOf(document);
  const fields = Object.entries(documentMembers(document)).map(([name, part]): FieldPlan => {
    const isRequired = Array.isArray(required) && required.includes(name);
    return {
      name,
      wireName: name,
      node: { kind: 'standard', constraints: {}, schema, member: name },
      isRequired,
      isOptional: !isRequired,
      isOptionalInOutput: !isRequired,
      hasDefault: false,
      default: undefined,
      isSecret: false,
      isReadOnly: false,
      isList: isRecord(part) && part['type'] === 'array',
      about: {},
    };
  });
  const isOpen = additionalProperties !== undefined && additionalProperties !== false;
  return { fields, extra: isOpen ? 'allow' : additionalProperties === false ? 'forbid' : 'ignore' };
}
