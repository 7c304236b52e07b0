/** Reads the calls that declare routes, and constants in their options. */
import { entryOf, pathOf } from '../reader/nodes.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { Binding, SourceModule } from '../reader/modules.ts';
import type { RouteCall } from '../values/functions.ts';

const METHODS =
  /^(?:get|post|put|patch|delete|del|head|options|all|route|websocket|ws|tool|prompt|resource)$/;
/**
 * Names of HTTP clients. Their methods have the same names as the methods that declare routes:
 * `axios.get(…)`.
 */
const CLIENTS =
  /(?:^|\.)(?:https?|axios|request|got|superagent|needle|undici|fetcher|\w*[cC]lient|\w*agent)$/;
function isPath(node: Node | undefined, name: string): boolean {
  if (name === 'tool' || name === 'prompt') return node?.type === 'text';
  if (node?.type === 'object') return entryOf(node, 'handler') !== undefined;
  if (node?.type === 'list') return node.items.length > 0 && node.items.every((item) => isPath(item, name));
  if (node?.type === 'binary') return isPath(node.left, name) || isPath(node.right, name);
  if (node?.type === 'text') return node.value.startsWith('/') || node.value === '*' || node.value === '';
  return node?.type === 'template' || node?.type === 'pattern';
}

/**
 * Returns the object with the options of a route. The route call contains the object or names a constant that
 * holds it.
 */
export function specOf({ call, module }: RouteCall): Node | undefined {
  return call.args
    .slice(1)
    .map((arg) => literal(arg, module))
    .find((arg) => arg?.type === 'object');
}

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
export function constantOf(
  node: Node,
  module: SourceModule,
  depth = 0,
): { readonly node: Node; readonly module: SourceModule } | undefined {
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

function constantOfBinding({
  node,
  module,
}: Extract<Binding, { kind: 'declared' }>):
  { readonly node: Node; readonly module: SourceModule } | undefined {
  if (node.type !== 'declarator') return { node, module };
  return node.target.type === 'name' && node.value !== undefined ? { node: node.value, module } : undefined;
}

/** Returns the value of a number in the source, such as `100_000`, `10 * 60` or `Infinity`. */
export function numberOf(node: Node | undefined): number | undefined {
  if (node?.type === 'value')
    return /^[\d_.e]+$/i.test(node.raw) ? Number(node.raw.replaceAll('_', '')) : undefined;
  if (node?.type === 'name' && node.name === 'Infinity') return Infinity;
  if (node?.type !== 'binary' || node.operator !== '*') return undefined;
  const [left, right] = [numberOf(node.left), numberOf(node.right)];
  return left === undefined || right === undefined ? undefined : left * right;
}

/**
 * Names of options that contain the schema of a body, in middleware that validates bodies or in a Fastify
 * route.
 */
const SCHEMA_KEYS = ['body', 'requestBody', 'bodySchema', 'schema'];

/** Whether a route declares its body, so that the handler receives only declared fields. */
export function hasDeclaredBody(route: RouteCall | undefined): boolean {
  if (route === undefined) return false;
  const options = route.call.args.flatMap((arg) => (arg.type === 'call' ? arg.args : []));
  if (options.some((each) => SCHEMA_KEYS.some((key) => entryOf(each, key) !== undefined))) return true;
  if (entryOf(specOf(route), 'schema') !== undefined) return true;
  return ['body', 'form', 'args'].some((part) => {
    const type = typeOfInput(route, part);
    return (
      type !== undefined &&
      !/^(?:any|record)\b/.test(type.module.source.slice(type.node.start, type.node.end))
    );
  });
}

function typeOfInput(route: RouteCall, part: string): { node: Node; module: SourceModule } | undefined {
  const given = entryOf(specOf(route), part);
  if (given === undefined) return undefined;
  const { module } = route;
  if (given.type !== 'name') return { node: given, module };
  const binding = module.lookup(given.name, given);
  if (binding?.kind !== 'declared') return { node: given, module };
  const node = binding.node.type === 'declarator' ? (binding.node.value ?? given) : binding.node;
  return { node, module: binding.module };
}

/** Whether a call declares a route: `app.get('/notes', …)`. */
export function isRouteCall(call: Call): boolean {
  return declaresRoute(call) && pathOf(call.callee) !== undefined;
}

/** Whether a call declares a route, also on the result of another call: `express.Router().get('/notes', …)`. */
function declaresRoute({ callee, args }: Call): boolean {
  return (
    callee.type === 'member' &&
    callee.property !== undefined &&
    METHODS.test(callee.property) &&
    isPath(args[0], callee.property) &&
    !CLIENTS.test(pathOf(callee.object) ?? '')
  );
}
