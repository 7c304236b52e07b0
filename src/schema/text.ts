/**
 * Compiles types (nodes, see nodes.ts) to functions that validate text sources: query, headers, cookies and
 * forms. Text is converted to the type of its field. The values of a repeated name become a list. The result
 * is validated as in compile.ts.
 *
 * Empty text counts as absent for an optional member that is not a string: `?page=` means no page.
 */
import type { FileLike, Literal } from './types.ts';
import { innerOf } from './nodes.ts';
import type { ObjectPlan, TypeNode } from './nodes.ts';
import { anyCheck, countCheck, literalMessage, choiceCheck } from './validation-run.ts';
import { FAIL } from './types.ts';
import type { Check } from './validation-run.ts';
import {
  absence,
  deferred,
  jsonCheck,
  listCheck,
  noteRules,
  oncePerPlan,
  unknownMembers,
} from './compile.ts';
import type { Input } from './compile.ts';

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

const INTEGER = /^-?(?:0|[1-9]\d{0,15})$/;
const DECIMAL = /^-?(?:0|[1-9]\d{0,308})(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;

function compileText(plan: ObjectPlan): Check {
  const { fields } = plan;
  const checks = fields.map((field) => textFieldCheck(field.node));
  const absent = fields.map(absence);
  const unknown = plan.extra === 'ignore' ? undefined : unknownMembers(plan);
  return (input, run) => {
    const source = input as TextInput; // the cast is safe: the caller of runCheck() passes only text sources
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
    const extras = unknown?.(isMap ? recordOf(source) : source, run);
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

function recordOf(source: TextMap): Input {
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
  switch (node.kind) {
    case 'str':
    case 'any':
      return true;
    case 'literal':
      return node.values.includes('');
    case 'list':
    case 'nullable':
    case 'choice':
    case 'lazy':
      return innerOf(node).some(takesEmpty);
    default:
      return false;
  }
}

/** Returns the function that validates the text of a field. A list may have several texts. */
function textFieldCheck(node: TypeNode): Check {
  if (node.kind === 'lazy') return deferred(() => textFieldCheck(node.resolve()));
  if (node.kind === 'any') return (raw, run) => anyCheck(raw, run);
  if (node.kind === 'list') {
    const check = listCheck(textItemCheck(node.item), node);
    if (node.constraints.separator === undefined)
      return (raw, run) => check(Array.isArray(raw) ? raw : [raw], run);
    return (raw, run) => check([raw].flat().flatMap(separated), run);
  }
  const isEmptyNull = node.kind === 'nullable' && !takesEmpty(node);
  const check =
    node.kind === 'nullable' && node.inner.kind === 'list'
      ? textFieldCheck(node.inner)
      : onceOnly(textItemCheck(node));
  return isEmptyNull ? (raw, run) => (raw === '' ? null : check(raw, run)) : check;
}

/** Splits a text at its commas. Empty text has no items, and a file is one item. */
function separated(raw: unknown): unknown[] {
  return typeof raw !== 'string' ? [raw] : raw === '' ? [] : raw.split(',');
}

function onceOnly(check: Check): Check {
  return (raw, run) => {
    if (!Array.isArray(raw)) return check(raw, run);
    return raw.length === 1 ? check(raw[0], run) : run.fail('repeated', 'must be given only once');
  };
}

/** Returns the function that converts a text to its type, and then validates the value. */
function textItemCheck(node: TypeNode): Check {
  switch (node.kind) {
    case 'int':
      return converted(node, (text) => (INTEGER.test(text) ? Number(text) : undefined), 'must be an integer');
    case 'float':
      return converted(
        node,
        (text) => (DECIMAL.test(text) ? Number(text) : undefined),
        'must be a finite number',
      );
    case 'bool':
      return (raw, run) => boolOf(raw, run.isForm) ?? run.fail('type', 'must be true or false');
    case 'literal':
      return textLiteralCheck(node.values);
    case 'nullable':
      return textItemCheck(node.inner);
    case 'lazy':
      return deferred(() => textItemCheck(node.resolve()));
    case 'choice':
      return choiceCheck(node.members.map(textItemCheck));
    case 'file':
      return fileCheck(node);
    case 'list':
    case 'tuple':
    case 'record':
    case 'object':
    case 'union':
      return (_, run) => run.fail('type', 'has a type that cannot be sent as text');
    default:
      return jsonCheck(node);
  }
}

function converted(node: TypeNode, read: (text: string) => number | undefined, message: string): Check {
  const check = jsonCheck(node);
  return (raw, run) => {
    const value = typeof raw === 'string' ? read(raw) : undefined;
    return value === undefined ? run.fail('type', message) : check(value, run);
  };
}

function boolOf(raw: unknown, isForm: boolean): boolean | undefined {
  if (raw === 'true' || raw === '1' || (isForm && raw === 'on')) return true;
  return raw === 'false' || raw === '0' ? false : undefined;
}

function textLiteralCheck(values: readonly Literal[]): Check {
  const byText = new Map<unknown, Literal>();
  for (const value of values) if (!byText.has(String(value))) byText.set(String(value), value);
  const message = literalMessage(values);
  return (raw, run) => {
    const value = byText.get(raw);
    return value === undefined ? run.fail('enum', message) : value;
  };
}

function fileCheck(node: TypeNode): Check {
  const count = countCheck(node.constraints, 'byte');
  const { contentTypes } = node.constraints;
  return (raw, run) => {
    if (!run.isForm || typeof raw !== 'object' || raw === null)
      return run.fail('type', 'must be a file, sent as multipart/form-data');
    const { size, contentType } = raw as FileLike; // the cast is safe: objects in a form source are files
    if (contentTypes !== undefined && !isOfType(contentType, contentTypes))
      return run.fail('content_type', `must have the media type ${contentTypes.join(' or ')}`);
    return count(size, run) ?? raw;
  };
}

/** Whether the media type that the client declared, without its parameters, is one of the accepted types. */
function isOfType(declared: string, types: readonly string[]): boolean {
  const type = declared.split(';', 1)[0]!.trim().toLowerCase();
  return types.includes(type) || types.includes(`${type.split('/', 1)[0]!}/*`);
}

/**
 * Returns the maximum size of a file in this field in bytes: Infinity without a limit, undefined if the field
 * accepts no file.
 */
export function fileLimit(node: TypeNode): number | undefined {
  switch (node.kind) {
    case 'file':
      return node.constraints.maxLength ?? Infinity;
    case 'list':
    case 'nullable':
    case 'lazy':
      return fileLimit(innerOf(node)[0]!);
    default:
      return undefined;
  }
}

/**
 * Returns the reason why a text source cannot hold a type, or undefined if it can. Called when routes are
 * compiled.
 */
export function textIssue(node: TypeNode, isForm: boolean): string | undefined {
  switch (node.kind) {
    case 'object':
    case 'record':
    case 'union':
      return 'an object cannot be sent as text';
    case 'tuple':
      return 'a tuple cannot be sent as text';
    case 'choice':
      return node.members
        .map((member) =>
          itemKind(member) === 'list' || itemKind(member) === 'file'
            ? 'a list or file among other types cannot be sent as text'
            : textIssue(member, isForm),
        )
        .find((issue) => issue !== undefined);
    case 'file':
      return isForm ? undefined : 'a file can only be sent in a form';
    case 'list':
      return itemKind(node.item) === 'list'
        ? 'a list of lists cannot be sent as text'
        : textIssue(node.item, isForm);
    case 'nullable':
    case 'lazy':
      return textIssue(innerOf(node)[0]!, isForm);
    default:
      return undefined;
  }
}

function itemKind(node: TypeNode): TypeNode['kind'] {
  return node.kind === 'nullable' || node.kind === 'lazy' ? itemKind(innerOf(node)[0]!) : node.kind;
}
