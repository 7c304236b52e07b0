/**
 * Functions of a project, as the evaluation meets them: handlers of routes, WebSockets and tools, middleware
 * and dependencies; functions that requests reach; and the function to which an expression refers.
 */
import { constantOf, literal } from '../reader/constants.ts';
import { entryOf, functionAround } from '../reader/nodes.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';

/** The call that declares a route, such as `app.get('/notes', …)`. */
export interface RouteCall {
  readonly call: Call;
  readonly module: SourceModule;
}

/** Functions of a project. Empty until an evaluation has run. */
export class Functions {
  readonly #homes = new Map<Fn, SourceModule>();
  readonly #handlers = new Map<Fn, RouteCall | undefined>();
  readonly #routes = new Set<Call>();
  readonly #reached = new Map<Fn, Fn>();
  readonly #named = new Map<Node, Fn>();

  /** Adds a function of the project. */
  add(fn: Fn, module: SourceModule): void {
    this.#homes.set(fn, module);
  }

  /** Adds a function that receives a request or a message of a client. */
  addHandler(fn: Fn, route: RouteCall | undefined): void {
    if (!this.#handlers.has(fn)) this.#handlers.set(fn, route);
    if (route !== undefined) this.#routes.add(route.call);
  }

  /** Notes the function to which an expression refers. */
  note(node: Node, fn: Fn): void {
    if (!this.#named.has(node)) this.#named.set(node, fn);
  }

  /** Notes that a request reaches a function through a handler. */
  reach(fn: Fn, handler: Fn): void {
    if (!this.#reached.has(fn)) this.#reached.set(fn, handler);
  }

  /** All functions of the project, with their modules. */
  get all(): Iterable<readonly [Fn, SourceModule]> {
    return this.#homes;
  }

  /** Whether a function is a handler, so it receives a request or a message of a client. */
  isHandler(fn: Fn): boolean {
    return this.#handlers.has(fn);
  }

  /** Returns the route of a handler. */
  routeOf(fn: Fn): RouteCall | undefined {
    return this.#handlers.get(fn);
  }

  /** Whether a call declares a route, a tool, or the handlers of a WebSocket. */
  isRoute(call: Call): boolean {
    return this.#routes.has(call);
  }

  /** Returns the module that contains a function. */
  homeOf(fn: Fn): SourceModule {
    return this.#homes.get(fn)!; // add() was called for every function of the project
  }

  /** Returns the function to which an expression refers: itself, a declaration, an import, or a method. */
  resolve(node: Node | undefined, module: SourceModule): Fn | undefined {
    if (node === undefined || node.type === 'function') return node;
    const known = this.#named.get(node);
    if (known !== undefined || node.type !== 'name') return known;
    const found = literal(node, module);
    return found?.type === 'function' ? found : undefined;
  }

  /** Returns the handler through which requests reach a function; undefined if no request reaches it. */
  reachedFrom(fn: Fn | undefined): Fn | undefined {
    for (let at = fn; at !== undefined; at = functionAround(at)) {
      const found = this.#reached.get(at);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/**
 * Returns the object with the options of a route, or of `provide()`. The call contains the object or names a constant
 * that holds it.
 */
export function specOf({ call, module }: RouteCall): Node | undefined {
  return call.args.map((arg) => literal(arg, module)).find((arg) => arg?.type === 'object');
}

/** Whether the declaration of a route says that every client may call it. */
export function isPublicRoute(route: RouteCall | undefined): boolean {
  return route !== undefined && entryOf(specOf(route), 'public') !== undefined;
}

/** Whether a route declares its body, so that the handler receives only declared fields. */
export function hasDeclaredBody(route: RouteCall | undefined): boolean {
  if (route === undefined) return false;
  return ['body', 'form', 'args'].some((part) => {
    const given = entryOf(specOf(route), part);
    if (given === undefined) return false;
    const { node, module } = constantOf(given, route.module) ?? { node: given, module: route.module };
    return !/^(?:any|record)\b/.test(module.source.slice(node.start, node.end));
  });
}
