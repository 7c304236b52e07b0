/** Constants in the source: the expression that a name or `config.key` stands for, and numbers. */
import { entryOf } from './nodes.ts';
import type { Node } from './nodes.ts';
import type { Binding, SourceModule, Spot } from './modules.ts';

/** Members of members, and constants of constants, are followed to this depth. */
const MAX_DEPTH = 3;

/** Returns the expression that {@link constantOf} finds, without its module. */
export function literal(node: Node | undefined, module: SourceModule): Node | undefined {
  return constantOf(node, module)?.node;
}

/**
 * Returns the value of a constant, or of `config.key`, with the module that contains it. Returns any other
 * expression unchanged. Undefined if a name is not a constant.
 */
export function constantOf(node: Node | undefined, module: SourceModule, depth = 0): Spot | undefined {
  if (node?.type === 'name') return valueOf(module.lookup(node.name, node));
  const unchanged = node && { node, module };
  if (node?.type !== 'member' || node.property === undefined || depth > MAX_DEPTH) return unchanged;
  const { object, property } = node;
  const binding = object.type === 'name' ? module.lookup(object.name, object) : undefined;
  if (binding?.kind === 'module') {
    const exported = binding.module.exported(property);
    return exported?.kind === 'declared' ? valueOf(exported) : unchanged;
  }
  if (binding?.kind !== 'declared' && object.type !== 'member') return unchanged;
  const owner = constantOf(object, module, depth + 1);
  // the object may be wrapped, as in `Object.freeze({ … })`
  const value = entryOf(owner?.node.type === 'call' ? owner.node.args[0] : owner?.node, property);
  if (owner === undefined || value === undefined || value.type === 'function') return unchanged;
  const found = { node: value, module: owner.module };
  return value.type === 'name' ? (constantOf(value, owner.module, depth + 1) ?? found) : found;
}

/** Returns the value with which a name is declared; a function or class is its own value. */
function valueOf(binding: Binding | undefined): Spot | undefined {
  if (binding?.kind !== 'declared') return undefined;
  const { node, module } = binding;
  if (node.type !== 'declarator') return { node, module };
  return node.target.type === 'name' && node.value !== undefined ? { node: node.value, module } : undefined;
}

/**
 * Returns the value of a number in the source, such as `100_000`, `10 * 60` or `Infinity`. With a module, constants such as
 * `30 * DAY` count, too.
 */
export function numberOf(node: Node | undefined, module?: SourceModule, depth = 0): number | undefined {
  switch (node?.type) {
    case 'value':
      return /^[\d_.e]+$/i.test(node.raw) ? Number(node.raw.replaceAll('_', '')) : undefined;
    case 'name': {
      if (node.name === 'Infinity') return Infinity;
      const constant = module === undefined || depth > MAX_DEPTH ? undefined : constantOf(node, module);
      return numberOf(constant?.node, constant?.module, depth + 1);
    }
    case 'binary': {
      const left = numberOf(node.left, module, depth);
      const right = numberOf(node.right, module, depth);
      return node.operator === '*' && left !== undefined && right !== undefined ? left * right : undefined;
    }
    default:
      return undefined;
  }
}
