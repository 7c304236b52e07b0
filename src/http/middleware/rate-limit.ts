/**
 * Rate limits of requests: a default limit for each client, and other limits for some paths and routes. Every
 * response contains the state of the limit that applies.
 *
 * If several limits apply, the `rateLimit` of the route takes precedence, then the rule with the most
 * specific path, then the limit of the middleware.
 */
import { bool, didYouMean, given, readOptions, text, outOfRange } from '../../base/options.ts';
import { MemoryRateLimitStore } from '../../cache/stores.ts';
import { isMethods } from '../headers.ts';
import { methodsOf } from './exemptions.ts';
import { whenReady } from '../../base/promises.ts';
import { OneApplication } from '../pipeline.ts';
import { isServedByMany } from '../../base/config.ts';
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

/** A limit for requests to some paths, which replaces the middleware's own limit. */
export interface RateLimitPathRule {
  /**
   * Path template, as for a route: `/login`, `/files/{name}`, `/admin/{rest:path}`. If several rules match,
   * the most specific one applies.
   */
  readonly path: string;
  /** Methods to which the rule applies. Default: all. */
  readonly methods?: readonly string[] | undefined;
  /** Requests per client and minute, 1 ... 1_000_000. Default 120. */
  readonly perMinute?: number | undefined;
  /** Number of requests that may arrive at once, 1 ... 1_000_000. Default: `perMinute`. */
  readonly burst?: number | undefined;
  /** Returns the key by which a request is counted. Default: the client's address, for IPv6 its network. */
  readonly key?: RateLimitKey | undefined;
  /**
   * Name of the limit in response fields, metrics and logs. Default: methods and path, for example `POST
   * /login`.
   */
  readonly name?: string | undefined;
}

/** Options of {@link RateLimitMiddleware}. An option that is `undefined` has its default. */
export interface RateLimitOptions extends RateLimitStoreOptions {
  /** Requests per client and minute, 1 ... 1_000_000. Default 120. */
  readonly perMinute?: number | undefined;
  /** Number of requests that a client may send at once, 1 ... 1_000_000. Default: `perMinute`. */
  readonly burst?: number | undefined;
  /**
   * Returns the key by which a request is counted; must be synchronous. Without this option, or if the result
   * is undefined, the key is the client's address, for IPv6 its network. If clients can choose the key, they
   * can evade the limit: see `rules`.
   */
  readonly key?: RateLimitKey | undefined;
  /**
   * Name of the limit. Default `default`. If the application has a second RateLimitMiddleware, give it
   * another name.
   */
  readonly name?: string | undefined;
  /**
   * Limits for some paths, which replace this middleware's own limit. If a rule's `key` is data that the
   * client chooses, for example an unverified field, the client can evade the limit. Then add a second
   * middleware with another name and without `key`, which counts by address.
   */
  readonly rules?: readonly RateLimitPathRule[] | undefined;
  /**
   * Whether to send also `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (seconds since
   * the epoch). Default false.
   */
  readonly legacyHeaders?: boolean | undefined;
}

interface Rule {
  readonly template: ParsedTemplate;
  readonly methods: readonly string[] | undefined;
  readonly limit: Limit;
}

/** In the routing table of the rules, this stands for every method that no rule lists. */
const OTHER = '*';

/** Refuses requests with 429 if the client sends more than its limit allows. */
export class RateLimitMiddleware implements Middleware {
  readonly kind = 'rate-limit';
  readonly #application = new OneApplication();
  /** Name of the limit, from the option `name`. */
  readonly name: string;
  readonly #gate: Gate;
  readonly #isShared: boolean;
  /** All functions in the option `key`, both of the middleware and of its rules. @internal */
  readonly keys: readonly RateLimitKey[];
  readonly #limit: Limit;
  readonly #epochMs: (() => number) | undefined;
  readonly #rules: readonly Rule[];
  readonly #table = new RoutingTable<Limit>();
  readonly #methods: ReadonlySet<string>;
  /** Limit of each route with the option `rateLimit`; null: requests of the route are not limited. */
  readonly #ofRoutes = new WeakMap<CompiledRoute, Limit | null>();
  #nowMs: () => number = () => 0;

  /**
   * @throws SvcError `E_PATH_TEMPLATE` for a rule whose path has wrong syntax; `E_OPTION_UNKNOWN`,
   *   `E_OPTION_RANGE` for other invalid options
   */
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
    // Without the options `name` and `key`, the key in the store is the client's address without a prefix.
    // This saves one string for each request. Keys of other limits contain a space, so they never equal an
    // address.
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
    return whenReady(result, (ready) => pass(limit, ready, next));
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
          'each process counts requests separately: with n processes, a client may send n times as many requests as the limit allows',
        remedy:
          'Use a store that all processes share: new RateLimitMiddleware({ store: new RecordRateLimitStore(new DatabaseRecordStore(plugin)) }), where plugin is the DatabasePlugin, or with Redis new RedisRateLimitStore(redis)',
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
        message: `two instances of RateLimitMiddleware have the name "${this.name}", so response fields, metrics and a shared store mix up the two limits`,
        remedy: "Give one of the two instances another name: new RateLimitMiddleware({ name: 'account', … })",
      };
    }
    yield* this.#unmatched(subject, routes);
  }

  *#unmatched(subject: string, routes: readonly CompiledRoute[]): Generator<Omit<Finding, 'place'>> {
    for (const { template: parsed, methods, limit } of this.#rules) {
      const { template } = parsed;
      const fits = ({ method }: CompiledRoute): boolean => methods?.includes(method) ?? true;
      const matched = routes.filter((route) => mayMatch(template, route.template));
      if (matched.some(fits)) continue;
      const found = { rule: 'SVC121', severity: 'warning', subject } as const;
      if (matched.length > 0)
        yield {
          ...found,
          message: `the rate limit rule "${limit.name}" has no effect: its path matches only routes with ${methodsOf(matched)}`,
          remedy: 'Add the method of a route to the option "methods" of the rule, or remove the rule',
        };
      else
        yield {
          ...found,
          message:
            `the rate limit rule "${limit.name}" matches no route` +
            didYouMean(template, new Set(routes.filter(fits).map((route) => route.template))),
          remedy: 'Change the path of the rule so that it matches a route, or remove the rule',
        };
    }
  }

  *#misplaced(
    subject: string,
    { middleware, siblings = middleware }: CompiledView,
  ): Generator<Omit<Finding, 'place'>> {
    const outer = siblings
      .slice(0, siblings.indexOf(this))
      .find(({ kind }) => kind === 'idempotency' || (kind === 'session' && this.keys.length === 0));
    if (outer !== undefined) {
      yield {
        rule: 'SVC121',
        severity: 'warning',
        subject,
        message: `the middleware "${outer.kind}" runs before RateLimitMiddleware, and so works even for requests that RateLimitMiddleware refuses`,
        remedy: `Register RateLimitMiddleware before ${outer.constructor.name}`,
      };
    }
    if (this.keys.some(namesForwarded)) {
      yield {
        rule: 'SVC210',
        severity: 'error',
        subject,
        message:
          'the rate limit counts requests by a header field that every client can set: a client evades the limit by changing the field',
        remedy:
          'Set trustProxy to the addresses of your proxies, and remove the option "key", so that requests are counted by the address of the client (req.ip)',
      };
    }
  }

  /**
   * Returns the number of requests that a client may send to a route per minute; Infinity without a limit.
   * @internal
   */
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

  /** Only the first of several RateLimitMiddleware applies the option `rateLimit` of routes. */
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
      methods: given<readonly string[]>('a list of methods in capitals', isMethods),
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
      throw outOfRange('RateLimitMiddleware rules', option, requirement, name);
    };
    const names = new Set([this.name]);
    const add = (method: string, { template, limit }: Rule): void => {
      if (this.#table.add(method, template, limit) !== undefined)
        refuse('path', 'must differ from the paths of all other rules for the same method', limit);
    };
    for (const rule of this.#rules) {
      if (names.has(rule.limit.name))
        refuse('name', 'must differ from the names of all other rate limits', rule.limit);
      names.add(rule.limit.name);
      for (const method of rule.methods ?? []) add(method, rule);
    }
    for (const rule of this.#rules.filter(({ methods }) => methods === undefined)) {
      // add() keeps existing entries, so rules with `methods` take precedence: they were added before
      for (const method of this.#methods) this.#table.add(method, rule.template, rule.limit);
      add(OTHER, rule);
    }
    this.#table.freeze();
  }
}

function pass(limit: Limit, result: RateLimitResult | undefined, next: Next): Awaitable<HttpResponse> {
  if (result === undefined) return next(); // the store has failed, and `onStoreError` is `allow`
  if (!result.isAllowed) throw limit.refusal(result);
  const response = next();
  return response instanceof HttpResponse
    ? label(limit, result, response)
    : response.then((ready) => label(limit, result, ready));
}

function label(limit: Limit, result: RateLimitResult, response: HttpResponse): HttpResponse {
  limit.addFields(response.headers.flat, result);
  return response;
}

/**
 * Returns the default name of a limit, and the prefix of its keys in the store. The prefix contains a colon,
 * which the option `name` must not contain, so it differs from the prefix of every named limit.
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

/** Whether some path may match both templates. Compares segment by segment; a parameter matches any text. */
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
 * Whether the source code of a key function names a field such as `X-Forwarded-For`, which clients can forge.
 */
export function namesForwarded(key: RateLimitKey): boolean {
  return /x-forwarded-for|x-real-ip|true-client-ip|x-client-ip|['"`]forwarded['"`]/i.test(
    Function.prototype.toString.call(key),
  );
}
