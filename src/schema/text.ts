/**
 * Compiles the functions that validate text sources: query, headers, cookies and forms. Text is converted to
 * the type of its field. The values of a repeated name become a list. The result is validated like JSON.
 *
 * Empty text counts as absent for an optional member that is not a string: `?page=` means no page.
 */
import { absence, noteRules, oncePerPlan, unknownMembers } from './kinds-object.ts';
import { COMPILERS, innerOf, kindNamed } from './kinds.ts';
import { within } from './nodes.ts';
import { FAIL } from './types.ts';
import type { Input } from './kinds-object.ts';
import type { ObjectPlan, TypeNode } from './nodes.ts';
import type { FileLike } from './types.ts';
import type { Check } from './validation-run.ts';

/**
 * Values of a text source by name: a plain record, or an object with `getAll()` and `keys()`, and `files()`
 * for forms.
 */
export type TextInput =
  Readonly<Record<string, string | FileLike | readonly (string | FileLike)[] | undefined>> | TextMap;
/** A text source whose names may be repeated. */
interface TextMap {
  getAll(name: string): readonly string[];
  keys(): Iterable<string>;
  files?(name: string): readonly FileLike[];
}

/**
 * Returns the function that validates a text source, such as a query. The function is compiled once for each
 * schema.
 */
export const textCheck: (plan: ObjectPlan) => Check = oncePerPlan(compileText);

function compileText(plan: ObjectPlan): Check {
  const { fields } = plan;
  const checks = fields.map((field) => textFieldCheck(field.node));
  const absent = fields.map(absence);
  const unknown = plan.extra === 'ignore' ? undefined : unknownMembers(plan);
  return (input, run) => {
    const source = input as TextInput;
    const isMap = isTextMap(source);
    let mark = run.count,
      isGood = true;
    const values: unknown[] = [];
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i]!;
      const raw = field.isReadOnly
        ? undefined
        : isMap
          ? fromMap(source, field.wireName)
          : Object.hasOwn(source, field.wireName)
            ? source[field.wireName]
            : undefined;
      const out =
        raw === undefined || (!field.isRequired && isBlank(raw, field.node))
          ? absent[i]!(run)
          : checks[i]!(raw, run);
      if (out === FAIL) {
        mark = run.place(mark, field.wireName);
        isGood = false;
      }
      values.push(out);
    }
    const extras = unknown?.(recordOf(source), run);
    return isGood && extras !== FAIL ? noteRules(plan, plan.build(values, input, extras), run) : FAIL;
  };
}

function isTextMap(source: TextInput): source is TextMap {
  return typeof (source as Partial<TextMap>).getAll === 'function';
}

function fromMap(
  source: TextMap,
  name: string,
): string | FileLike | readonly (string | FileLike)[] | undefined {
  const texts = source.getAll(name),
    files = source.files?.(name);
  const all = files === undefined || files.length === 0 ? texts : [...texts, ...files];
  return all.length > 1 ? all : all[0];
}

/** Returns all values of a text source by name: a text, or a list of the values of a repeated name. */
export function recordOf(source: TextInput): Input {
  if (!isTextMap(source)) return source;
  const found: [string, unknown][] = [];
  for (const name of new Set(source.keys())) {
    const raw = fromMap(source, name);
    found.push([name, typeof raw === 'object' && !Array.isArray(raw) ? undefined : raw]);
  }
  return Object.fromEntries(found); // fromEntries() makes an own member, even of the name __proto__
}

/** Whether empty text counts as absent: true unless the type accepts empty text. */
function isBlank(raw: unknown, node: TypeNode): boolean {
  return raw === '' && !takesEmpty(node);
}

function takesEmpty(node: TypeNode): boolean {
  return kindNamed(node.kind).takesEmpty?.(node) ?? innerOf(node).some(takesEmpty);
}

function textFieldCheck(given: TypeNode): Check {
  const { node, isNullable } = within(given);
  const check = kindNamed(node.kind).texts?.(node, COMPILERS.text) ?? onceOnly(COMPILERS.text.check(node));
  return isNullable && !takesEmpty(node) ? (raw, run) => (raw === '' ? null : check(raw, run)) : check;
}

function onceOnly(check: Check): Check {
  return (raw, run) => {
    if (!Array.isArray(raw)) return check(raw, run);
    return raw.length === 1 ? check(raw[0], run) : run.fail('repeated', 'must be given only once');
  };
}

/**
 * Returns the maximum size of a file in this field in bytes: Infinity without a limit, undefined if the field
 * accepts no file.
 */
export function fileLimit(given: TypeNode): number | undefined {
  const { node } = within(given);
  if (node.kind === 'list') return fileLimit(node.item);
  return node.kind === 'file' ? (node.constraints.maxLength ?? Infinity) : undefined;
}

/**
 * Returns the reason why a text source cannot hold a type, or undefined if it can. Called when routes are
 * compiled.
 */
export function textIssue(node: TypeNode, isForm: boolean): string | undefined {
  return (
    kindNamed(node.kind).textIssue?.(node, isForm) ??
    innerOf(node)
      .map((inner) => textIssue(inner, isForm))
      .find((issue) => issue !== undefined)
  );
}
