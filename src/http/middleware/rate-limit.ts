/**
 * Rate limits of requests: a default limit for each client, and other limits for some paths and routes. Every
 * response reports its limit.
 *
 * The `rateLimit` of a route comes first, then the rule with the most specific path, then the limit of the
 * middleware.
 */
import { SvcError } from '../../base/errors.ts';
import { bool, closest, given, readOptions, text } from '../../base/options.ts';
import { MemoryRateLimitStore } from '../../cache/stores.ts';
import { isToken } from '../headers.ts';
import { isThenable } from '../../base/promises.ts';
import { OneApplication } from '../pipeline.ts';
import { isServedByMany } from './exemptions.ts';
import { parseTemplate } from '../path.ts';
import { BURST, Gate, KEY, Limit, PER_MINUTE, STORE_OPTIONS, checkedName } from './rate-limiter.ts';
import { HttpResponse } from '../response.ts';
import { RoutingTable } from '../router.ts';
import type { Finding } from '../../base/findings.ts';
import type { RateLimitResult } from '../../cache/stores.ts';
import type {
  Awaitable,
  CompiledRoute,
  CompiledView,
  HttpRequest,
  Middleware,
  Next,
  RateLimitKey,
} from '../contracts.ts';
import type { ParsedTemplate } from '../path.ts';
import type { RateLimitStoreOptions } from './rate-limiter.ts';

/** A limit for some paths, which replaces the middleware's limit there. */
export interface RateLimitPathRule {
  /**
   * Path template, as for a route: `/login`, `/files/{name}`, `/admin/{rest:path}`. If several rules match,
   * the most specific one applies.
   */
  readonly path: string;
  /** Methods to which the rule applies. Default: all. */
  readonly methods?: readonly string[] | undefined;
  readonly perMinute?: number | undefined;
  readonly burst?: number | undefined;
  readonly key?: RateLimitKey | undefined;
  /** Name of the limit in fields, metrics and logs. Default: the rule's methods and path. */
  readonly name?: string | undefined;
}

/** Options of {@link RateLimitMiddleware}. An option that is `undefined` has its default. */
export interface RateLimitOptions extends RateLimitStoreOptions {
  /** Requests per client and minute, 1 ... 1_000_000. Default 120. */
  readonly perMinute?: number | undefined;
  /** Number of requests that may come at once, 1 ... 1_000_000. Default: `perMinute`. */
  readonly burst?: number | undefined;
  /**
   * Returns the key by which a request is counted; must be synchronous. If the option is not set, or the
   * result is undefined, the key is the client's address, for IPv6 its network. If clients can choose the
   * key, they can evade the limit: see `rules`.
   */
  readonly key?: RateLimitKey | undefined;
  /** Name of the limit. Default `default`. A second middleware with another key needs another name. */
  readonly name?: string | undefined;
  /**
   * Limits for some paths, which replace this middleware's limit there. If clients can choose a rule's `key`,
   * for example in a field that is not verified, they can evade the limit. Then add a second middleware with
   * another name and no key, which counts by address.
   */
  readonly rules?: readonly RateLimitPathRule[] | undefined;
  /** Also sends `X-RateLimit-Limit`, `-Remaining` and `-Reset` (seconds of the epoch). Default false. */
  readonly legacyHeaders?: boolean | undefined;
}

interface Rule {
  readonly template: ParsedTemplate;
  readonly methods: readonly string[] | undefined;
  readonly limit: Limit;
}

/** Stands in the table for all methods that no rule names. */
const OTHER = '*';

/** Refuses requests of clients that send too many, with 429. */
export class RateLimitMiddleware implements Middleware {
  readonly kind = 'rate-limit';
  readonly #application = new OneApplication();
  /** Name of the limit. */
  readonly name: string;
  readonly #gate: Gate;
  readonly #isShared: boolean;
  /** All key functions: of the middleware and of its rules. @internal */
  readonly keys: readonly RateLimitKey[];
  readonly #limit: Limit;
  readonly #epochMs: (() => number) | undefined;
  readonly #rules: readonly Rule[];
  readonly #table = new RoutingTable<Limit>();
  readonly #methods: ReadonlySet<string>;
  /** Limit of each route that declares one; null: the route is unlimited. */
  readonly #ofRoutes = new WeakMap<CompiledRoute, Limit | null>();
  #nowMs: () => number = () => 0;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_PATH_TEMPLATE` */
  constructor(options: RateLimitOptions = {}) {
    const { perMinute, burst, key, name, rules, legacyHeaders, ...store } = readOptions(
      'RateLimitMiddleware',
      options,
      {
        perMinute: PER_MINUTE,
        burst: BURST,
        key: KEY,
        name: text('default'),
        rules: given<readonly RateLimitPathRule[]>('a list of { path, perMinute }', Array.isArray),
        legacyHeaders: bool(false),
        ...STORE_OPTIONS,
      },
    );
    this.name = checkedName('RateLimitMiddleware', name);
    this.#isShared = store.store !== undefined && !(store.store instanceof MemoryRateLimitStore);
    this.keys = [key, ...(rules ?? []).map((rule) => rule.key)].filter((each) => typeof each === 'function');
    this.#gate = new Gate(store);
    this.#epochMs = legacyHeaders ? () => this.#nowMs() : undefined;
    // the default limit has an empty prefix, so no string is made for each request. Its keys are addresses,
    // which contain no space; the keys of all other limits do
    this.#limit = new Limit({
      name: this.name,
      perMinute,
      burst,
      key,
      epochMs: this.#epochMs,
      prefix: key === undefined && name === 'default' ? '' : undefined,
    });
    this.#rules = (rules ?? []).map((rule, index) => this.#readRule(rule, index));
    this.#methods = new Set(
      this.#rules
        .flatMap(({ methods }) => methods ?? [])
        .flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
    );
    this.#fillTable();
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const limit = this.#limitFor(req);
    if (limit === null) return next();
    const result = this.#gate.take(limit, req, limit.keyOf(req), 1);
    return isThenable(result)
      ? result.then((settled) => pass(limit, settled, next))
      : pass(limit, result, next);
  }

  *compile(view: CompiledView): Iterable<Omit<Finding, 'place'>> {
    const { services, routes, middleware } = view;
    const stranger = this.#application.claim('middleware rate-limit', view);
    if (stranger !== undefined) return yield stranger;
    this.#gate.attach(services);
    this.#nowMs = () => services.clock.nowMs();
    const others = middleware.filter((layer) => layer.kind === 'rate-limit');
    for (const route of routes) this.#enter(route, others[0] === this);
    const subject = 'middleware rate-limit';
    if (!this.#isShared && isServedByMany(view)) {
      yield {
        rule: 'SVC403',
        severity: 'warning',
        subject,
        message:
          'each process counts separately, so clients may send as many times the limit as there are workers',
        remedy:
          'Use a store that all processes share: new RateLimitMiddleware({ store: new RedisRateLimitStore(redis) })',
      };
    }
    yield* this.#misplaced(subject, view);
    const twin = others
      .slice(0, others.indexOf(this))
      .find((layer) => layer instanceof RateLimitMiddleware && layer.name === this.name);
    if (twin !== undefined) {
      yield {
        rule: 'SVC121',
        severity: 'error',
        subject,
        message: `another RateLimitMiddleware, which runs before this one, also has the name "${this.name}"`,
        remedy:
          "Give one of the two middlewares another name: new RateLimitMiddleware({ name: 'account', … })",
      };
    }
    for (const {
      template: { template },
      methods,
      limit,
    } of this.#rules) {
      if (
        routes.some(
          (route) => (methods?.includes(route.method) ?? true) && mayMatch(template, route.template),
        )
      )
        continue;
      const near = closest(template, new Set(routes.map((route) => route.template)));
      yield {
        rule: 'SVC121',
        severity: 'warning',
        subject,
        message:
          `the rule "${limit.name}" matches no route` +
          (near === undefined || near === template ? '' : `: did you mean "${near}"?`),
        remedy: 'Use the path template and the methods of a route in the rule',
      };
    }
  }

  /**
   * Returns the problems that `svc check` reports: outer middleware that works even for refused requests, and
   * keys that clients can forge.
   */
  *#misplaced(subject: string, { middleware }: CompiledView): Generator<Omit<Finding, 'place'>> {
    const outer = middleware
      .slice(0, middleware.indexOf(this))
      .find(({ kind }) => kind === 'idempotency' || (kind === 'session' && this.keys.length === 0));
    if (outer !== undefined) {
      yield {
        rule: 'SVC121',
        severity: 'warning',
        subject,
        message: `the middleware "${outer.kind}" runs before this one, also for requests that are then refused`,
        remedy: `Register RateLimitMiddleware before ${outer.constructor.name}`,
      };
    }
    if (this.keys.some(namesForwarded)) {
      yield {
        rule: 'SVC210',
        severity: 'error',
        subject,
        message:
          'the key of the limit is a header field that every client can set: a client that changes it evades the limit',
        remedy:
          'Set trustProxy to your proxies, and remove the key: req.ip is then the address of the client',
      };
    }
  }

  /** Returns how many requests a minute a client may send to a route; Infinity without a limit. @internal */
  perMinuteOf(route: CompiledRoute): number {
    const path = route.template.replace(/\{[^}]*\}/g, '1');
    const limit = this.#limitFor({ route, method: route.method, path });
    return limit === null ? Infinity : Math.round((limit.rule.limit / limit.rule.periodMs) * 60_000);
  }

  #limitFor(req: Pick<HttpRequest, 'route' | 'method' | 'path'>): Limit | null {
    const { route } = req;
    if (route?.rateLimit !== undefined) {
      const own = this.#ofRoutes.get(route);
      if (own !== undefined) return own;
    }
    if (this.#rules.length === 0) return this.#limit;
    const match = this.#table.match(this.#methods.has(req.method) ? req.method : OTHER, req.path);
    return match.kind === 'found' ? match.endpoint : this.#limit;
  }

  /**
   * Stores the limit of a route. If there are several instances of this middleware, only the outermost
   * applies limits of routes.
   */
  #enter(route: CompiledRoute, isFirst: boolean): void {
    const { method, template, rateLimit } = route;
    if (rateLimit === false) this.#ofRoutes.set(route, null);
    else if (rateLimit !== undefined && isFirst)
      this.#ofRoutes.set(
        route,
        new Limit({ ...rateLimit, ...namedBy([method], template), epochMs: this.#epochMs }),
      );
  }

  #readRule(rule: RateLimitPathRule, index: number): Rule {
    const owner = `RateLimitMiddleware rules[${index}]`;
    const { path, methods, perMinute, burst, key, name } = readOptions(owner, rule, {
      path: text(''),
      methods: given<readonly string[]>(
        'a list of methods in capitals',
        (value) =>
          Array.isArray(value) &&
          value.length > 0 &&
          value.every(
            (method) => typeof method === 'string' && isToken(method) && method === method.toUpperCase(),
          ),
      ),
      perMinute: PER_MINUTE,
      burst: BURST,
      key: KEY,
      name: text(),
    });
    const named = name === undefined ? namedBy(methods ?? [], path) : { name: checkedName(owner, name) };
    return {
      template: parseTemplate(path),
      methods,
      limit: new Limit({ ...named, perMinute, burst, key, epochMs: this.#epochMs }),
    };
  }

  #fillTable(): void {
    const refuse = (option: string, requirement: string, { name }: Limit): never => {
      throw new SvcError('E_OPTION_RANGE', ['RateLimitMiddleware rules', option, requirement, name]);
    };
    const names = new Set([this.name]);
    const add = (method: string, { template, limit }: Rule): void => {
      if (this.#table.add(method, template, limit) !== undefined)
        refuse('path', 'must differ from the paths of other rules for the same method', limit);
    };
    for (const rule of this.#rules) {
      if (names.has(rule.limit.name)) refuse('name', 'must be different for each rule', rule.limit);
      names.add(rule.limit.name);
      for (const method of rule.methods ?? []) add(method, rule);
    }
    for (const rule of this.#rules.filter(({ methods }) => methods === undefined)) {
      // if a rule names the method, add() keeps that rule
      for (const method of this.#methods) this.#table.add(method, rule.template, rule.limit);
      add(OTHER, rule);
    }
    this.#table.freeze();
  }
}

function pass(limit: Limit, result: RateLimitResult | undefined, next: Next): Awaitable<HttpResponse> {
  if (result === undefined) return next(); // undefined: the store has failed, and `onStoreError` is `allow`
  if (!result.isAllowed) throw limit.refusal(result);
  const response = next();
  return response instanceof HttpResponse
    ? label(limit, result, response)
    : response.then((settled) => label(limit, result, settled));
}

function label(limit: Limit, result: RateLimitResult, response: HttpResponse): HttpResponse {
  limit.addFields(response.headers.flat, result);
  return response;
}

/**
 * Name and bucket prefix of a limit whose options set no name. The prefix contains a colon, which no
 * configured name contains, so its buckets differ from those of named limits.
 */
function namedBy(
  methods: readonly string[],
  template: string,
): { readonly name: string; readonly prefix: string } {
  const name = [
    ...(methods.length === 0 ? [] : [methods.join(',')]),
    encodeURI(template).replaceAll('%7B', '{').replaceAll('%7D', '}'),
  ].join(' ');
  return { name, prefix: `${methods.join(',')}:${encodeURIComponent(template)} ` };
}

/** Whether requests for a route can match the path of a rule, segment by segment; a parameter matches anything. */
function mayMatch(rule: string, route: string): boolean {
  const theirs = route.split('/');
  const ours = rule.split('/');
  for (const [index, segment] of ours.entries()) {
    const their = theirs[index];
    if (/:path\}$/.test(segment)) return their !== undefined;
    if (their === undefined) return false;
    if (/:path\}$/.test(their)) return true;
    if (segment !== their && !segment.startsWith('{') && !their.startsWith('{')) return false;
  }
  return ours.length === theirs.length;
}

/**
 * Whether the code of a key function names a field in which proxies write addresses. Clients can send such a
 * field, too.
 */
export function namesForwarded(key: RateLimitKey): boolean {
  return /x-forwarded-for|x-real-ip|true-client-ip|x-client-ip|['"`]forwarded['"`]/i.test(
    Function.prototype.toString.call(key),
  );
}
