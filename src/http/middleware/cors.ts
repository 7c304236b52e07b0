/**
 * Cross-origin resource sharing (Fetch Standard §3.3): decides which other sites may call the application by
 * script and read its responses.
 *
 * An OPTIONS request with `Origin` and `Access-Control-Request-Method` is a preflight. CORSMiddleware
 * responds to it, and no handler runs. Responses to all other requests get the `Access-Control-*` fields for
 * their `Origin`.
 *
 * A CORSMiddleware in the option `use` of a route applies only to that route and its preflights. Preflights
 * match no route, so src/routing/compile-unmatched.ts passes them to the middleware.
 *
 * CORSMiddleware replaces `Access-Control-*` fields that a handler has set.
 */
import { SvcError } from '../../base/errors.ts';
import { bool, given, int, readOptions } from '../../base/options.ts';
import { isToken } from '../headers.ts';
import { AllowedOrigins, UNKNOWN_ORIGIN } from '../origins.ts';
import { isThenable, whenReady } from '../../base/promises.ts';
import { HttpResponse, Prepared, fieldOf } from '../response.ts';
import type { Env } from '../../base/config.ts';
import type { Finding } from '../../base/findings.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, MiddlewareKind, Next } from '../contracts.ts';
import type { Origins } from '../origins.ts';

/** Options of {@link CORSMiddleware}. An option that is `undefined` has its default. */
export interface CORSOptions {
  /**
   * Allowed origins: a list of complete origins (`https://app.example`), `'*'` for every site, or a function.
   * Default: none.
   */
  readonly origins?: Origins | undefined;
  /**
   * Allowed methods. Default GET, HEAD, POST, PUT, PATCH, DELETE. `'*'` is allowed only without credentials.
   */
  readonly methods?: '*' | readonly string[] | undefined;
  /**
   * Request fields that scripts may set. Default Authorization, Content-Type, X-CSRF-Token, X-Request-Id.
   * `'*'` is allowed only without credentials.
   */
  readonly headers?: '*' | readonly string[] | undefined;
  /**
   * Response fields that scripts may read, in addition to the fields that browsers always allow. Default:
   * none.
   */
  readonly exposeHeaders?: readonly string[] | undefined;
  /** Allows requests with credentials such as cookies. Default false; not allowed with `origins: '*'`. */
  readonly credentials?: boolean | undefined;
  /** Time in seconds for which browsers cache a preflight, 0 ... 86_400. Default 600. */
  readonly maxAgeSeconds?: number | undefined;
  /** Allows public sites to call this server in a private network. Default false. */
  readonly privateNetwork?: boolean | undefined;
}

const LOOPBACK = /^http:\/\/(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/;
const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
const HEADERS: readonly string[] = ['Authorization', 'Content-Type', 'X-CSRF-Token', 'X-Request-Id'];
/** Kinds of middleware that refuse requests which the scripts of a site may well send. */
const REFUSING: ReadonlySet<MiddlewareKind | undefined> = new Set(['rate-limit', 'concurrency-limit']);
/** They send responses themselves, which need the `Access-Control-*` fields, so they must come later. */
const INSIDE: ReadonlySet<MiddlewareKind | undefined> = new Set([
  'rate-limit',
  'concurrency-limit',
  'session',
  'csrf',
  'timeout',
  'idempotency',
]);

/** Responds to preflights, and adds the `Access-Control-*` fields to all other responses. */
export class CORSMiddleware implements Middleware {
  readonly kind = 'cors';
  /** The allowed origins. They apply to WebSocket handshakes, too. */
  readonly allowed: AllowedOrigins;
  /** Whether the option `credentials` is true. */
  get allowsCredentials(): boolean {
    return this.#options.credentials;
  }
  readonly #options: { readonly credentials: boolean; readonly privateNetwork: boolean };
  /** Header fields of responses to requests without an allowed origin. */
  readonly #anonymous: readonly string[];
  /** `Access-Control-*` fields for an allowed origin, except `Access-Control-Allow-Origin`. */
  readonly #rest: readonly string[];
  readonly #byOrigin = new Map<string, readonly string[]>();
  readonly #methods: ReadonlySet<string> | undefined;
  readonly #headers: ReadonlySet<string> | undefined;
  readonly #preflight: readonly string[];
  readonly #preflightVary: string;

  /**
   * @throws SvcError `E_CORS` for an origin that is not valid, or `*` with credentials; `E_OPTION_UNKNOWN`,
   *   `E_OPTION_RANGE` for other invalid options
   */
  constructor(options: CORSOptions = {}) {
    const { origins, methods, headers, exposeHeaders, credentials, maxAgeSeconds, privateNetwork } =
      readCORSOptions(options);
    this.allowed = new AllowedOrigins(origins);
    this.#options = { credentials, privateNetwork };
    const { isAny, list } = this.allowed;
    this.#rest = [
      ...(credentials ? ['Access-Control-Allow-Credentials', 'true'] : []),
      ...(exposeHeaders.length > 0 ? ['Access-Control-Expose-Headers', exposeHeaders.join(', ')] : []),
    ];
    this.#anonymous = isAny ? ['Access-Control-Allow-Origin', '*', ...this.#rest] : ['Vary', 'Origin'];
    for (const origin of list ?? []) this.#byOrigin.set(origin, this.#fieldsOf(origin));
    this.#methods = methods === '*' ? undefined : new Set(methods);
    this.#headers = headers === '*' ? undefined : new Set(headers.map((name) => name.toLowerCase()));
    this.#preflight = [
      'Access-Control-Allow-Methods',
      methods === '*' ? '*' : methods.join(', '),
      // `*` does not include Authorization (Fetch Standard §3.3.3)
      'Access-Control-Allow-Headers',
      headers === '*' ? '*, Authorization' : headers.join(', '),
      'Access-Control-Max-Age',
      String(maxAgeSeconds),
    ];
    this.#preflightVary = [
      ...(isAny ? [] : ['Origin']),
      'Access-Control-Request-Method',
      'Access-Control-Request-Headers',
      ...(privateNetwork ? ['Access-Control-Request-Private-Network'] : []),
    ].join(', ');
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const origin = fieldOf(req, 'origin');
    if (req.method === 'OPTIONS' && origin !== undefined) {
      const method = fieldOf(req, 'access-control-request-method');
      if (method !== undefined) return this.#answer(req, origin, method);
    }
    const fields = origin === undefined ? this.#anonymous : this.#fieldsFor(origin, req);
    return whenReady(fields, (ready) => whenReady(next(), (response) => add(response, ready)));
  }

  *compile({ middleware, siblings = middleware, env }: CompiledView): Iterable<Omit<Finding, 'place'>> {
    yield* this.#unsafeOrigins(env);
    const mine = { rule: 'SVC121', severity: 'error', subject: 'middleware cors' } as const;
    const outer = middleware.slice(0, middleware.indexOf(this));
    const misplaced = siblings.slice(0, siblings.indexOf(this)).find((layer) => INSIDE.has(layer.kind));
    if (misplaced !== undefined) {
      yield {
        ...mine,
        message: `the middleware "${misplaced.kind}" runs before CORSMiddleware, so responses from "${misplaced.kind}" lack Access-Control-Allow-Origin, and scripts of other sites cannot read those responses`,
        remedy: `Register CORSMiddleware before ${misplaced.constructor.name}`,
      };
    }
    const refusing = misplaced === undefined ? outer.find(({ kind }) => REFUSING.has(kind)) : undefined;
    if (refusing !== undefined)
      yield {
        ...mine,
        severity: 'warning',
        message: `the middleware "${refusing.kind}" around the route runs before CORSMiddleware, so scripts of other sites cannot read its refusals`,
        remedy: `Register CORSMiddleware at the application or router, before ${refusing.constructor.name}`,
      };
    if (outer.some((layer) => layer.kind === 'cors'))
      yield {
        ...mine,
        message:
          'CORSMiddleware is registered twice, but a response can have the Access-Control-* fields of only one instance',
        remedy: 'Register one CORSMiddleware that lists all allowed origins',
      };
    if (this.allowed.list?.size === 0) {
      yield {
        ...mine,
        severity: 'warning',
        message: 'the option "origins" is an empty list, so scripts of other sites cannot read any response',
        remedy: `Name the sites whose scripts may read responses: new CORSMiddleware({ origins: ['https://app.example'] })`,
      };
    }
  }

  *#unsafeOrigins(env: Env): Generator<Omit<Finding, 'place'>> {
    const mine = {
      rule: 'SVC206',
      severity: 'error',
      subject: 'middleware cors',
      remedy: "Name each allowed site by an origin with https: origins: ['https://app.example']",
    } as const;
    const { list } = this.allowed;
    for (const origin of env === 'production' ? (list ?? []) : []) {
      if (origin.startsWith('http:') && !LOOPBACK.test(origin))
        yield {
          ...mine,
          message: this.#options.credentials
            ? `the allowed origin ${origin} has no TLS, so an attacker on the network can send requests with the cookies of visitors`
            : `the allowed origin ${origin} has no TLS, so an attacker on the network can read responses of this application`,
          severity: this.#options.credentials ? 'error' : 'warning',
        };
    }
    if (this.#options.credentials && list === undefined && this.#allowsAnyOrigin())
      yield {
        ...mine,
        message:
          'the function in the option "origins" allowed an invented origin, so every site can probably send requests with the cookies of visitors',
      };
  }

  /**
   * Whether the function in the option `origins` allows every site. Calls it with an origin that no site can
   * have (RFC 2606). If the function reads the request, it throws because there is none, and the result is
   * false.
   */
  #allowsAnyOrigin(): boolean {
    try {
      const isAllowed = this.allowed.allows(UNKNOWN_ORIGIN, undefined as never);
      // without this handler, a rejection of the promise would end the process
      if (isThenable(isAllowed)) isAllowed.then(undefined, () => undefined);
      return isAllowed === true;
    } catch {
      return false;
    }
  }

  #fieldsOf(origin: string): readonly string[] {
    return ['Access-Control-Allow-Origin', origin, ...this.#rest, 'Vary', 'Origin'];
  }

  #fieldsFor(origin: string, req: HttpRequest): Awaitable<readonly string[]> {
    const { list, isAny } = this.allowed;
    if (isAny) return this.#anonymous;
    if (list !== undefined) return this.#byOrigin.get(origin) ?? this.#anonymous;
    const fields = (isAllowed: boolean): readonly string[] =>
      isAllowed ? this.#fieldsOf(origin) : this.#anonymous;
    const isAllowed = this.allowed.allows(origin, req);
    return whenReady(isAllowed, fields);
  }

  #answer(req: HttpRequest, origin: string, method: string): Awaitable<HttpResponse> {
    const isAllowed = this.allowed.allows(origin, req);
    const answer = (isOriginAllowed: boolean): HttpResponse =>
      new HttpResponse(
        null,
        new Prepared(
          204,
          isOriginAllowed ? this.#permission(req, origin, method) : ['Vary', this.#preflightVary],
        ),
      );
    return whenReady(isAllowed, answer);
  }

  /**
   * Returns the header fields of the response to a preflight. `Access-Control-Allow-Origin` is sent even if
   * the method or a header field is refused, so that the browser's error names the method or field.
   */
  #permission(req: HttpRequest, origin: string, method: string): string[] {
    const fields = ['Access-Control-Allow-Origin', this.allowed.isAny ? '*' : origin];
    if (this.#options.credentials) fields.push('Access-Control-Allow-Credentials', 'true');
    if (this.#permits(method, fieldOf(req, 'access-control-request-headers'))) {
      fields.push(...this.#preflight);
      if (this.#options.privateNetwork && fieldOf(req, 'access-control-request-private-network') === 'true')
        fields.push('Access-Control-Allow-Private-Network', 'true');
    }
    fields.push('Vary', this.#preflightVary);
    return fields;
  }

  #permits(method: string, names: string | undefined): boolean {
    if (this.#methods?.has(method) === false) return false;
    const allowed = this.#headers;
    return (
      allowed === undefined ||
      names === undefined ||
      names.split(',').every((name) => allowed.has(name.trim().toLowerCase()) || name.trim() === '')
    );
  }
}

type Read = { readonly [Name in keyof CORSOptions]-?: Exclude<CORSOptions[Name], undefined> };

/** Returns the options with their defaults. */
function readCORSOptions(options: CORSOptions): Read {
  const read = readOptions('CORSMiddleware', options, {
    origins: given<Origins>(
      `'*', a list of origins or a function`,
      (value) => value === '*' || typeof value === 'function' || Array.isArray(value),
    ),
    methods: given<'*' | readonly string[]>(
      `'*' or a list of methods`,
      (value) => value === '*' || isTokens(value),
    ),
    headers: given<'*' | readonly string[]>(
      `'*' or a list of field names`,
      (value) => value === '*' || isTokens(value),
    ),
    exposeHeaders: given<readonly string[]>('a list of field names', isTokens),
    credentials: bool(false),
    maxAgeSeconds: int(600, 0, 86_400),
    privateNetwork: bool(false),
  });
  const { origins = [], methods = METHODS, headers = HEADERS, exposeHeaders = [], ...rest } = read;
  for (const [name, value] of Object.entries({ origins, methods, headers }))
    if (rest.credentials && value === '*')
      throw new SvcError('E_CORS', [
        `the option "${name}" must not be '*' if the option "credentials" is true, because browsers refuse this combination`,
      ]);
  return { origins, methods, headers, exposeHeaders, ...rest };
}

function isTokens(value: unknown): boolean {
  return (
    Array.isArray(value) && value.every((item) => typeof item === 'string' && item !== '*' && isToken(item))
  );
}

/**
 * Header fields that a handler may have set, too. Their values are replaced (`Vary`: merged), so that the
 * response has no field twice.
 */
const TAKEN = /^(?:vary|access-control-(?:allow-origin|allow-credentials|expose-headers))$/i;

function add(response: HttpResponse, fields: readonly string[]): HttpResponse {
  const { flat } = response.headers;
  for (let index = 0; index < flat.length; index += 2)
    if (TAKEN.test(flat[index]!)) return merge(response, fields);
  for (let index = 0; index < fields.length; index++) flat.push(fields[index]!);
  return response;
}

function merge(response: HttpResponse, fields: readonly string[]): HttpResponse {
  response.headers.delete('Access-Control-Allow-Origin');
  response.headers.delete('Access-Control-Allow-Credentials');
  for (let index = 0; index < fields.length; index += 2) {
    if (fields[index] === 'Vary') response.headers.vary(fields[index + 1]!);
    else response.headers.set(fields[index]!, fields[index + 1]!);
  }
  return response;
}
