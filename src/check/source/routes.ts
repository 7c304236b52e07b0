/**
 * Finds the functions that receive input from outside: handlers of routes, WebSockets and tools, middleware
 * and dependencies. Also finds declared inputs that are harmless: a number, or a word from a fixed list,
 * cannot carry code.
 */
import { entryOf, pathOf } from '../reader/nodes.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { Binding, Project, SourceModule } from '../reader/modules.ts';

/** The call that declares a route, such as `app.get('/notes', …)`. */
export interface RouteCall {
  readonly call: Call;
  readonly module: SourceModule;
  /** Whether a middleware validates the request before the handler runs. */
  readonly isValidated?: boolean;
}

/** The kind of value that a parameter receives: a request, or a message of a client. */
export interface Role {
  readonly kind: 'request' | 'outside';
  readonly route?: RouteCall | undefined;
}

const METHODS =
  /^(?:get|post|put|patch|delete|del|head|options|all|route|websocket|ws|tool|prompt|resource)$/;
/**
 * Names of HTTP clients. Their methods have the same names as the methods that declare routes:
 * `axios.get(…)`.
 */
const CLIENTS =
  /(?:^|\.)(?:https?|axios|request|got|superagent|needle|undici|fetcher|\w*[cC]lient|\w*agent)$/;
const WITH_REQUEST_FIRST = /^(?:use|provide|Depends|requireIf|onOpen|preHandler|onRequest|addHook|cached)$/;

/** Functions of a project that receive a request, with the roles of their parameters. */
export class Handlers {
  readonly #roles = new Map<Fn, readonly (Role | undefined)[]>();
  readonly #methods = new Map<string, Fn[]>();
  readonly #homes = new Map<Fn, SourceModule>();

  constructor(
    project: Project,
    calls: ReadonlyMap<SourceModule, readonly Call[]>,
    functions: ReadonlyMap<SourceModule, readonly Fn[]>,
  ) {
    for (const [module, all] of functions)
      for (const fn of all) {
        this.#homes.set(fn, module);
        if (fn.name !== undefined && fn.parent?.type === 'entry') {
          const same = this.#methods.get(fn.name);
          if (same === undefined) this.#methods.set(fn.name, [fn]);
          else same.push(fn);
        }
      }
    for (const module of project.modules)
      for (const call of calls.get(module) ?? []) this.#mark(call, module);
  }

  /** Returns the role of each parameter of a handler; an empty list for any other function. */
  rolesOf(fn: Fn): readonly (Role | undefined)[] {
    return this.#roles.get(fn) ?? [];
  }

  /** Whether a function is a handler, so it receives a request or a message of a client. */
  isHandler(fn: Fn): boolean {
    return this.#roles.has(fn);
  }

  /** All handlers. */
  get all(): Iterable<Fn> {
    return this.#roles.keys();
  }

  /** Returns the module that contains a function. */
  homeOf(fn: Fn): SourceModule {
    return this.#homes.get(fn)!; // the constructor adds every function of the project
  }

  /**
   * Returns the function that an expression refers to: a declaration, an import, or a method whose name is
   * unique in the project.
   */
  resolve(node: Node, module: SourceModule): Fn | undefined {
    if (node.type === 'function') return node;
    if (node.type === 'call') {
      // `users.list.bind(users)` refers to the method `list`
      return node.callee.type === 'member' && node.callee.property === 'bind'
        ? this.resolve(node.callee.object, module)
        : undefined;
    }
    if (node.type === 'name') {
      const binding = module.lookup(node.name, node);
      if (binding?.kind !== 'declared') return undefined;
      const found = binding.node.type === 'declarator' ? binding.node.value : binding.node;
      if (found === undefined || found === node) return undefined;
      if (found.type === 'function')
        return binding.node.type === 'declarator' && binding.node.target.type !== 'name' ? undefined : found;
      return found.type === 'call' && binding.node.type === 'declarator'
        ? this.#wrapped(found, binding.module)
        : undefined;
    }
    if (node.type !== 'member' || node.property === undefined) return undefined;
    if (node.object.type === 'name') {
      const binding = module.lookup(node.object.name, node);
      if (binding?.kind === 'external') return undefined;
      if (binding?.kind === 'module') {
        const exported = binding.module.exported(node.property);
        const found = exported?.kind === 'declared' ? exported.node : undefined;
        return found?.type === 'function'
          ? found
          : found?.type === 'declarator' && found.value?.type === 'function'
            ? found.value
            : undefined;
      }
    }
    const same = this.#methods.get(node.property);
    return same?.length === 1 && !COMMON_METHODS.test(node.property) ? same[0] : undefined;
  }

  /**
   * Returns the function that a call wraps, as in `const run = wrap(async () => …)`. Undefined unless exactly
   * one argument is a function.
   */
  #wrapped(call: Call, module: SourceModule): Fn | undefined {
    const fns = call.args.filter((arg) => arg.type === 'function');
    return fns.length === 1 && module !== undefined ? fns[0] : undefined;
  }

  #mark(call: Call, module: SourceModule): void {
    const { callee, args } = call;
    const name =
      callee.type === 'name' ? callee.name : callee.type === 'member' ? callee.property : undefined;
    if (name === undefined) return;
    const isRoute = declaresRoute(call);
    const route: RouteCall = { call, module };
    let isValidated = false;
    args.forEach((arg, index) => {
      const fns = arg.type === 'list' ? arg.items : [arg];
      for (const each of fns) {
        if (isRoute && index > 0) isValidated ||= validatesRequest(each);
        const fn = each.type === 'function' || index > 0 || !isRoute ? this.resolve(each, module) : undefined;
        if (fn === undefined || this.#roles.has(fn)) continue;
        const roles = rolesFor(
          name,
          fn,
          isRoute ? { ...route, isValidated } : undefined,
          callee.type === 'member',
        );
        if (roles !== undefined) this.#roles.set(fn, roles);
      }
    });
    if (isRoute) this.#markHandlerOf(args, route);
  }

  /** Marks the function `handler` of `fastify.route({ url, handler })` as a handler. */
  #markHandlerOf(args: readonly Node[], route: RouteCall): void {
    for (const arg of args) {
      const handler = entryOf(arg, 'handler');
      const fn = handler === undefined ? undefined : this.resolve(handler, route.module);
      if (fn !== undefined && !this.#roles.has(fn))
        this.#roles.set(fn, rolesFor('get', fn, route, true) ?? []);
    }
  }
}

/**
 * Names of methods that are common in JavaScript and in packages, so they do not identify a method of the
 * project.
 */
const COMMON_METHODS =
  /^(?:constructor|get|set|has|add|delete|clear|push|pop|map|filter|find|forEach|some|every|join|slice|concat|then|catch|finally|toString|toJSON|valueOf|call|apply|bind|next|return|throw|on|once|off|emit|end|write|close|open|send|json|text|log|info|warn|error|debug|test|exec|match|replace|split|trim|includes|keys|values|entries|handle|run|query|execute)$/;

function isPath(node: Node | undefined, name: string): boolean {
  if (name === 'tool' || name === 'prompt') return node?.type === 'text';
  if (node?.type === 'object') return entryOf(node, 'handler') !== undefined;
  if (node?.type === 'list') return node.items.length > 0 && node.items.every((item) => isPath(item, name));
  if (node?.type === 'binary') return isPath(node.left, name) || isPath(node.right, name);
  if (node?.type === 'text') return node.value.startsWith('/') || node.value === '*' || node.value === '';
  return node?.type === 'template' || node?.type === 'pattern';
}

function rolesFor(
  name: string,
  fn: Fn,
  route: RouteCall | undefined,
  isMethod: boolean,
): readonly (Role | undefined)[] | undefined {
  const request: Role = { kind: 'request', route };
  if (route !== undefined) {
    if (fn.params.length === 4) return [undefined, request]; // an error handler: (error, req, res, next)
    if (/^(?:websocket|ws)$/.test(name) && fn.params[0]?.type === 'name') return [undefined, request];
    return [request];
  }
  if (name === 'exceptionHandler') return [undefined, request];
  if (name === 'onMessage') return [undefined, { kind: 'outside' }, request];
  if (name === 'onOpen' || name === 'onClose') return [undefined, request];
  if (!WITH_REQUEST_FIRST.test(name) || (name === 'cached' && isMethod)) return undefined;
  return name === 'use' && fn.params.length === 4
    ? [undefined, request]
    : name === 'cached'
      ? undefined
      : [request];
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

/** Whether an argument of a route is a middleware that validates the request: `validate(schema)`. */
function validatesRequest(node: Node): boolean {
  if (node.type === 'function' || node.type === 'object') return false;
  const named = node.type === 'call' ? node.callee : node;
  return /validat(?:e(?!d)|or|ion)|schema|celebrate|saniti[sz]|normali[sz]e|check(?:Param|Body|Query|Path)/i.test(
    pathOf(named) ?? '',
  );
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
