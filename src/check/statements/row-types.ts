/**
 * Types of the option `as`, read from the sources. Declarations such as `Field(nullable(str), { maxLength: 80 })` are
 * evaluated with the functions of this package. Nothing of the application runs.
 */
import * as schema from '../../schema/schema.ts';
import { isSchemaClass } from '../../schema/types.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { ClassNode, Node, NodeOf } from '../reader/nodes.ts';
import type { SchemaClass } from '../../schema/types.ts';

/** Names of the module `svc` with which schemas are declared. */
const NAMES: Readonly<Record<string, unknown>> = schema;
const GLOBALS: Readonly<Record<string, unknown>> = { String, Number, Boolean, Date, undefined, Infinity };
const DERIVING = /^(?:pick|omit|partial|extend|standard)$/;
const MAX_DEPTH = 20;

/** Thrown for an expression that is not known without running the application. */
class Unknown extends Error {}

const classes = new WeakMap<ClassNode, SchemaClass>();

/** Returns the type of the option `as`: a schema class or another type. Undefined if it is not known. */
export function rowType({ node, module }: Spot): unknown {
  try {
    return evaluate(node, module, 0);
  } catch {
    return undefined; // an unknown expression, or a declaration that the schema refuses: SVC107 reports it
  }
}

/** Returns the name under which the sources know a class. */
export function nameOfType({ node, module }: Spot): string {
  return module.source.slice(node.start, node.end).replace(/\s+/g, ' ');
}

function evaluate(node: Node, module: SourceModule, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new Unknown();
  const inner = (part: Node): unknown => evaluate(part, module, depth + 1);
  switch (node.type) {
    case 'name':
      return named(node, module, depth);
    case 'text':
      return node.value;
    case 'value':
      return node.raw === 'null' ? null : JSON.parse(node.raw.replaceAll('_', ''));
    case 'template':
      if (node.values.length > 0 || node.tag !== undefined) throw new Unknown();
      return node.texts[0];
    case 'pattern':
      return new RegExp(node.source, node.flags);
    case 'unary':
      if (node.operator !== '-' || node.value === undefined) throw new Unknown();
      return -Number(inner(node.value));
    case 'list':
      return node.items.flatMap((item) =>
        item.type === 'spread' ? (inner(item.value) as unknown[]) : [inner(item)],
      );
    case 'object':
      return objectOf(node, module, depth);
    case 'call':
      return called(node, module, depth);
    case 'class':
      return classOf(node, module, depth);
    case 'function': {
      const [only] = node.body;
      if (!node.isExpression || only === undefined) throw new Unknown();
      return () => inner(only);
    }
    default:
      throw new Unknown();
  }
}

function named(node: NodeOf<'name'>, module: SourceModule, depth: number): unknown {
  const binding = module.lookup(node.name, node);
  if (binding === undefined && Object.hasOwn(GLOBALS, node.name)) return GLOBALS[node.name];
  if (
    binding?.kind === 'external' &&
    /^svc(?:\/|$)/.test(binding.from) &&
    Object.hasOwn(NAMES, binding.imported)
  )
    return NAMES[binding.imported];
  if (binding?.kind !== 'declared') throw new Unknown();
  const { node: declared, module: home } = binding;
  if (declared.type === 'class') return classOf(declared, home, depth + 1);
  if (declared.type !== 'declarator' || declared.target.type !== 'name' || declared.value === undefined)
    throw new Unknown();
  return evaluate(declared.value, home, depth + 1);
}

function objectOf(node: NodeOf<'object'>, module: SourceModule, depth: number): object {
  const made: Record<string, unknown> = {};
  for (const entry of node.entries) {
    if (entry.type === 'spread') Object.assign(made, evaluate(entry.value, module, depth + 1));
    else if (entry.key === undefined || entry.value === undefined || entry.key === '__proto__')
      throw new Unknown();
    else made[entry.key] = evaluate(entry.value, module, depth + 1);
  }
  return made;
}

function called(node: NodeOf<'call'>, module: SourceModule, depth: number): unknown {
  const args = node.args.map((arg) => evaluate(arg, module, depth + 1));
  const { callee } = node;
  if (callee.type === 'member' && DERIVING.test(callee.property ?? '')) {
    const owner = evaluate(callee.object, module, depth + 1);
    if (!isSchemaClass(owner)) throw new Unknown();
    // the method is one of those that derive a class from another one
    return (owner as unknown as Record<string, (...args: unknown[]) => unknown>)[callee.property!]!(...args);
  }
  const fn = evaluate(callee, module, depth + 1);
  if (typeof fn !== 'function' || isSchemaClass(fn) || !Object.values(NAMES).includes(fn))
    throw new Unknown();
  return (fn as (...args: unknown[]) => unknown)(...args);
}

function classOf(node: ClassNode, module: SourceModule, depth: number): SchemaClass {
  const known = classes.get(node);
  if (known !== undefined) return known;
  const base = node.base === undefined ? undefined : evaluate(node.base, module, depth + 1);
  if (!isSchemaClass(base)) throw new Unknown();
  const shape: Record<string, unknown> = {};
  for (const member of node.members) {
    if (
      member.type !== 'entry' ||
      member.isStatic ||
      member.value === undefined ||
      member.value.type === 'function'
    )
      continue;
    if (member.key === undefined) throw new Unknown();
    shape[member.key] = fieldOf(member.value, module, depth);
  }
  const made = (base as unknown as typeof schema.Schema).extend(shape) as unknown as SchemaClass;
  classes.set(node, made);
  return made;
}

/** Returns a field. A field that is not known accepts everything, and may be absent. */
function fieldOf(node: Node, module: SourceModule, depth: number): unknown {
  try {
    return evaluate(node, module, depth + 1);
  } catch {
    return schema.Field(schema.any, { optional: true });
  }
}
