/** Constants in the source: the expression that a name or `config.key` stands for, and numbers. */
import { entryOf } from './nodes.ts';
import type { Node } from './nodes.ts';
import type { Binding, SourceModule, Spot } from './modules.ts';

/**
 * Returns the value of a constant, or any other expression unchanged. Undefined if a name is not a constant.
 */
export function literal(node: Node, module: SourceModule): Node | undefined {
  return constantOf(node, module)?.node;
}

/**
 * Returns the value of a constant, or of `config.key`, with the module that contains it. Returns any other
 * expression unchanged. Undefined if a name is not a constant.
 */
export function constantOf(node: Node, module: SourceModule, depth = 0): Spot | undefined {
  if (node.type === 'name') {
    const binding = module.lookup(node.name, node);
    return binding?.kind === 'declared' ? constantOfBinding(binding) : undefined;
  }
  if (node.type !== 'member' || node.property === undefined || depth > 3) return { node, module };
  const around = node.object.type === 'name' ? module.lookup(node.object.name, node.object) : undefined;
  if (around?.kind === 'module') {
    const exported = around.module.exported(node.property);
    return exported?.kind === 'declared' ? constantOfBinding(exported) : { node, module };
  }
  if (around?.kind !== 'declared' && node.object.type !== 'member') return { node, module };
  const object = constantOf(node.object, module, depth + 1);
  // the object may be wrapped, as in `Object.freeze({ … })`
  const inner = object?.node.type === 'call' ? object.node.args[0] : object?.node;
  const value = entryOf(inner, node.property);
  return value === undefined || value.type === 'function' || object === undefined
    ? { node, module }
    : value.type === 'name'
      ? (constantOf(value, object.module, depth + 1) ?? { node: value, module: object.module })
      : { node: value, module: object.module };
}

function constantOfBinding({ node, module }: Extract<Binding, { kind: 'declared' }>): Spot | undefined {
  if (node.type !== 'declarator') return { node, module };
  return node.target.type === 'name' && node.value !== undefined ? { node: node.value, module } : undefined;
}

/**
 * Returns the value of a number in the source, such as `100_000`, `10 * 60` or `Infinity`. With a module, constants such as
 * `30 * DAY` count, too.
 */
export function numberOf(node: Node | undefined, module?: SourceModule, depth = 0): number | undefined {
  if (node?.type === 'value')
    return /^[\d_.e]+$/i.test(node.raw) ? Number(node.raw.replaceAll('_', '')) : undefined;
  if (node?.type === 'name' && node.name === 'Infinity') return Infinity;
  if (node?.type === 'name' && module !== undefined && depth < 4) {
    const constant = constantOf(node, module);
    return numberOf(constant?.node, constant?.module, depth + 1);
  }
  if (node?.type !== 'binary' || node.operator !== '*') return undefined;
  const [left, right] = [node.left, node.right].map((side) => numberOf(side, module, depth));
  return left === undefined || right === undefined ? undefined : left * right;
}
