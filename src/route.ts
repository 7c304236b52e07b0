/**
 * Routes as they are declared: on a `Router`, with data before the handler; and as one flat list when the application compiles.
 */
import { SvcError } from './errors.ts';
import { declaredHere } from './findings.ts';
import { closest, readOptions, given, text } from './options.ts';
import { fillTemplate, parseTemplate } from './http/path.ts';
import { isToken } from './http/headers.ts';
import type { Declared, Finding } from './findings.ts';
import type { Awaitable, HttpRequest, StateMap } from './http/contracts.ts';
import type { ParsedTemplate, PathParams, PathTemplate } from './http/path.ts';
import type { Reply } from './http/reply.ts';
import type { HttpResponse } from './http/response.ts';

/** What a route says about itself. */
export interface RouteSpec {
  /** The status of a reply that names none: 200 … 599. */
  readonly status?: number | undefined;
  /** What `urlFor` knows the route by. Unique in an application. */
  readonly name?: string | undefined;
  readonly summary?: string | undefined;
  readonly description?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly deprecated?: boolean | undefined;
  /** Yours: anything that middleware or rules want to know about the route, at `req.route.meta`. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined;
  /** `false`: an array `[body, status]` is a list, never a reply with a status. */
  readonly tuple?: boolean | undefined;
}

/** What a handler gets. */
export interface HandlerContext<P extends string> {
  /** The parameters of the path, typed by its template. */
  readonly params: PathParams<P>;
  readonly req: HttpRequest;
  /** Aborts when the client leaves early. */
  readonly signal: AbortSignal;
  readonly state: StateMap;
}

/** What a handler may return, or resolve with: see http/reply.ts. */
export type HandlerResult = unknown | Reply | HttpResponse;
/** Answers requests of one route. */
export type Handler<P extends string> = (context: HandlerContext<P>) => Awaitable<HandlerResult>;

/** What every router takes. */
export interface RouterOptions {
  /** Before every path of this router: `''`, or `/…` without a slash at the end. */
  readonly prefix?: string | undefined;
  /** Added to the tags of every route. */
  readonly tags?: readonly string[] | undefined;
}

/** A route as somebody wrote it down. */
export interface DeclaredRoute {
  readonly methods: readonly string[];
  readonly path: string;
  readonly spec: RouteSpec;
  readonly handler: (context: never) => unknown;
  readonly declared: Declared;
}

/** A declared route with the prefixes and tags of the routers around it. */
export interface FlatRoute extends DeclaredRoute {
  readonly template: ParsedTemplate;
  readonly tags: readonly string[];
}

interface Mount {
  readonly prefix: string;
  readonly router: Router;
  readonly declared: Declared;
}

/** Collects routes. An application is one; others are made for a part of it and included. */
export class Router {
  readonly #prefix: string;
  readonly #tags: readonly string[];
  readonly #routes: DeclaredRoute[] = [];
  readonly #mounts: Mount[] = [];
  #isFrozen = false;
  #named: Map<string, ParsedTemplate> | undefined;

  /** @throws SvcError `E_PATH_TEMPLATE` for a prefix that is none */
  constructor(options: RouterOptions = {}) {
    const { prefix, tags } = readOptions('Router', options, { prefix: text(''), tags: given<readonly string[]>('a list of strings', Array.isArray) });
    this.#prefix = checkedPrefix(prefix);
    this.#tags = [...tags ?? []];
  }

  get<const P extends string>(path: PathTemplate<P>, handler: Handler<P>): this;
  get<const P extends string>(path: PathTemplate<P>, spec: RouteSpec, handler: Handler<P>): this;
  get(path: string, ...rest: never[]): this { return this.#declare(['GET'], path, rest); }

  post<const P extends string>(path: PathTemplate<P>, handler: Handler<P>): this;
  post<const P extends string>(path: PathTemplate<P>, spec: RouteSpec, handler: Handler<P>): this;
  post(path: string, ...rest: never[]): this { return this.#declare(['POST'], path, rest); }

  put<const P extends string>(path: PathTemplate<P>, handler: Handler<P>): this;
  put<const P extends string>(path: PathTemplate<P>, spec: RouteSpec, handler: Handler<P>): this;
  put(path: string, ...rest: never[]): this { return this.#declare(['PUT'], path, rest); }

  patch<const P extends string>(path: PathTemplate<P>, handler: Handler<P>): this;
  patch<const P extends string>(path: PathTemplate<P>, spec: RouteSpec, handler: Handler<P>): this;
  patch(path: string, ...rest: never[]): this { return this.#declare(['PATCH'], path, rest); }

  delete<const P extends string>(path: PathTemplate<P>, handler: Handler<P>): this;
  delete<const P extends string>(path: PathTemplate<P>, spec: RouteSpec, handler: Handler<P>): this;
  delete(path: string, ...rest: never[]): this { return this.#declare(['DELETE'], path, rest); }

  /** A route of any methods, each in capitals. */
  route<const P extends string>(path: PathTemplate<P>, methods: readonly string[], handler: Handler<P>): this;
  route<const P extends string>(path: PathTemplate<P>, methods: readonly string[], spec: RouteSpec, handler: Handler<P>): this;
  route(path: string, methods: readonly string[], ...rest: never[]): this { return this.#declare(methods, path, rest); }

  /** Makes the routes of another router, present and future, routes of this one, below `prefix`. */
  includeRouter(router: Router, prefix = ''): this {
    this.mustNotBeFrozen('include a router');
    this.#mounts.push({ prefix: checkedPrefix(prefix), router, declared: declaredHere() });
    return this;
  }

  /**
   * The path of a named route of this router or one below it, parameters encoded. On the application it is the whole path.
   *
   * @throws SvcError `E_URL_NAME` with the nearest name, `E_URL_PARAM`
   */
  urlFor(name: string, params: Readonly<Record<string, unknown>> = {}): string {
    const found = this.#findNamed(name);
    if (found === undefined) throw new SvcError('E_URL_NAME', [name, closest(name, this.#templates().keys())]);
    return fillTemplate(name, found, params);
  }

  /** The template of a named route, remembered once nothing can be added any more. */
  #findNamed(name: string): ParsedTemplate | undefined {
    if (!this.#isFrozen) return this.#templates().get(name);
    return (this.#named ??= this.#templates()).get(name);
  }

  #templates(): Map<string, ParsedTemplate> {
    return new Map(this.flatten(() => undefined).flatMap((route) => route.spec.name === undefined ? [] : [[route.spec.name, route.template] as const]));
  }

  /** Every route with its whole path, in order of declaration; what does not fit together is reported. @internal */
  flatten(report: (finding: Finding) => void, above = '', tags: readonly string[] = [], within: readonly Router[] = []): FlatRoute[] {
    const prefix = above + this.#prefix;
    const allTags = [...tags, ...this.#tags];
    const flat: FlatRoute[] = [];
    for (const route of this.#routes) {
      const template = readWhole(prefix + route.path, route, report);
      if (template !== undefined) flat.push({ ...route, template, tags: [...allTags, ...route.spec.tags ?? []] });
    }
    for (const mount of this.#mounts) {
      if (mount.router === this || within.includes(mount.router)) {
        report({
          rule: 'SVC106', severity: 'error', subject: `includeRouter(${mount.prefix || "''"})`, place: mount.declared.place,
          message: 'a router is included in itself', remedy: 'Include each router below routers that do not lead back to it',
        });
      } else flat.push(...mount.router.flatten(report, prefix + mount.prefix, allTags, [...within, this]));
    }
    return flat;
  }

  /** Ends registration, here and in every included router. @internal */
  freeze(): void {
    if (this.#isFrozen) return;
    this.#isFrozen = true;
    for (const mount of this.#mounts) mount.router.freeze();
  }

  #declare(methods: readonly string[], path: string, rest: readonly unknown[]): this {
    this.mustNotBeFrozen(`register ${methods.join(', ')} ${path}`);
    for (const method of methods) if (typeof method !== 'string' || !isToken(method) || method !== method.toUpperCase()) throw new SvcError('E_ROUTE_METHOD', [method]);
    const [spec, handler] = rest.length > 1 ? rest : [{}, rest[0]];
    if (typeof handler !== 'function') throw new SvcError('E_ROUTE_HANDLER', [`${methods.join(', ')} ${path}`]);
    if (path !== '') parseTemplate(path);
    this.#routes.push({ methods: [...methods], path, spec: readSpec(spec as object), handler: handler as DeclaredRoute['handler'], declared: declaredHere() });
    return this;
  }

  /** @throws SvcError `E_APP_FROZEN` once compiled @internal */
  protected mustNotBeFrozen(what: string): void {
    if (this.#isFrozen) throw new SvcError('E_APP_FROZEN', [what]);
  }
}

function readSpec(spec: object): RouteSpec {
  return readOptions('a route', spec, {
    status: given<number>('an integer 200 … 599', (value) => Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599),
    name: text(), summary: text(), description: text(), tags: given<readonly string[]>('a list of strings', Array.isArray),
    deprecated: given<boolean>('true or false', (value) => typeof value === 'boolean'), tuple: given<boolean>('true or false', (value) => typeof value === 'boolean'),
    meta: given<Readonly<Record<string, unknown>>>('an object', (value) => typeof value === 'object' && value !== null),
  });
}

/** A prefix and a path read together: a parameter that both have is a mistake between two declarations. */
function readWhole(path: string, route: DeclaredRoute, report: (finding: Finding) => void): ParsedTemplate | undefined {
  try {
    return parseTemplate(path);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    report({
      rule: 'SVC106', severity: 'error', subject: `${route.methods.join(', ')} ${path}`, message: error.message,
      remedy: error.remedy, place: route.declared.place,
    });
    return undefined;
  }
}

function checkedPrefix(prefix: string): string {
  if (prefix === '') return prefix;
  if (typeof prefix === 'string' && prefix.endsWith('/')) throw new SvcError('E_PATH_TEMPLATE', [prefix, 'a prefix does not end with "/"']);
  parseTemplate(prefix);
  return prefix;
}
