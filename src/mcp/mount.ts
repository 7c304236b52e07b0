/**
 * `app.mountMcp()`: the routes of an MCP endpoint over HTTP, and the guard in front of them. http.ts,
 * imported with the first message, handles the messages.
 *
 * The guard protects against cross-site requests and DNS rebinding. It responds with 403 unless the Host and
 * Origin fields of a request are allowed:
 *   - Host must be one of `hosts` (McpMountOptions describes the default). Outside production, localhost is
 *     allowed, too.
 *   - Origin must be absent, the endpoint's own, or one of `origins`. Outside production, a page on localhost
 *     may use an endpoint on localhost.
 *
 * Responses with 401, and with 403 for a missing scope, link to the protected resource metadata of the
 * endpoint (RFC 9728 §5.1; MCP 2025-11-25, authorization).
 */
import { LazyModule } from '../base/promises.ts';
import { credentialsOf } from './calls.ts';
import { serverOptions } from './server.ts';
import {
  bool,
  given,
  int,
  isFunction,
  isObject,
  isRecord,
  isTextList,
  readOptions,
  outOfRange,
} from '../base/options.ts';
import { Field, list, Schema, str } from '../schema/schema.ts';
import { viewOfDependency } from '../routing/di.ts';
import { isToken } from '../http/headers.ts';
import { AllowedOrigins, isOwnOrigin } from '../http/origins.ts';
import { failure, invalidRequest, NEWEST } from './messages.ts';
import { clientOf, readTrustProxy } from '../http/request/proxy.ts';
import { JSONResponse } from '../http/response.ts';
import { SecurityLog } from '../http/security-log.ts';
import { hostnameOf } from '../http/middleware/trusted-host.ts';
import type { McpServerOptions } from './server.ts';
import type { McpApplication } from './calls.ts';
import type { EndpointDeps, McpEndpoint } from './http.ts';
import type { Dependencies } from '../routing/spec.ts';
import type {
  Awaitable,
  CompiledView,
  Context,
  HttpRequest,
  Middleware,
  Next,
  RouteRateLimit,
} from '../http/contracts.ts';
import type { Origins } from '../http/origins.ts';
import type { HttpResponse } from '../http/response.ts';

const endpoints = new LazyModule(() => import('./http.ts'));

/** Options of an MCP endpoint. An option that is `undefined` has its default. */
export interface McpMountOptions extends Omit<McpServerOptions, 'resources'> {
  /**
   * Guards of the endpoint, such as `{ me: Depends(BearerAuth()) }`. Without guards, every client may list
   * the tools. Each tool call must also pass the guards of its route.
   */
  readonly deps?: Dependencies | undefined;
  /**
   * Host names that the endpoint accepts, without ports. Default: the hosts of TrustedHostMiddleware; without
   * that middleware, `localhost` and the loopback addresses.
   */
  readonly hosts?: readonly string[] | undefined;
  /** Origins of web pages that may use the endpoint, in addition to its own origin. Default: none. */
  readonly origins?: Origins | undefined;
  /**
   * Further header fields that each tool call copies from the MCP request, such as `['x-tenant']`.
   * Credentials, language, trace context and the fields that the tool's route reads are always copied.
   */
  readonly headers?: readonly string[] | undefined;
  /**
   * Whether clients can read the resources `svc://routes` and `svc://openapi.json`. Default: true if
   * `/openapi.json` is served.
   */
  readonly resources?: boolean | undefined;
  /**
   * Whether clients with a protocol version before 2026-07-28 get sessions. Without sessions, each request is
   * independent. Several processes share sessions only with the setting `authSecret`. Default true.
   */
  readonly sessions?: boolean | undefined;
  /** Lifetime of a session in seconds, 60 ... 2_592_000. Default 86_400. */
  readonly sessionSeconds?: number | undefined;
  /**
   * Returns the owner of an MCP session. Only requests with the same owner can use the session. If the owner
   * is '', every client that has the session id can use it. Default: `iss` and `sub` of the claims that a
   * guard in `deps` returns, or else all credentials that the guards read.
   *
   * At most 250 requests from one client, and 250 requests to one client, may be unanswered. The returned
   * owner identifies a client; without this option, the subject of the claims does. Without an owner or
   * subject, the address identifies the client.
   */
  readonly principal?: ((context: Context) => string) | undefined;
  /**
   * Serves the metadata document of RFC 9728, by which clients find the authorization server and log in.
   * Responses with 401, and with 403 for a missing scope, link to this document. Requires a guard in `deps` that
   * checks tokens, such as IssuerAuth().
   */
  readonly authorization?: McpAuthorization | undefined;
  /**
   * Rate limit of the endpoint. It replaces the limit of RateLimitMiddleware. A tool call also counts toward
   * the limit of its route.
   */
  readonly rateLimit?: RouteRateLimit | false | undefined;
  /** Maximum length of a message in bytes, 1_000 ... 1_000_000_000. Default 10_000_000. */
  readonly maxBodyBytes?: number | undefined;
}

/** Members of the metadata document of an MCP endpoint (RFC 9728 §2). */
export interface McpAuthorization {
  /** Authorization servers that issue the tokens. Default: the issuers of IssuerAuth() in `deps`. */
  readonly servers?: readonly string[] | undefined;
  /** Scopes that clients may request. */
  readonly scopes?: readonly string[] | undefined;
  /**
   * URL of the endpoint, as its clients know it. They name it when they request a token (RFC 8707), and the
   * issuer puts it into `aud`. Default: the URL of the request.
   */
  readonly resource?: string | undefined;
}

/** @internal */
interface McpRoute {
  readonly methods: readonly string[];
  readonly path: string;
  readonly spec: object;
  readonly handler: (context: Context) => Awaitable<unknown>;
}

/**
 * Returns the routes of the endpoint.
 *
 * @throws SvcError `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` for an invalid option, `E_CORS` for an invalid origin
 * @internal
 */
export function mcpRoutes(app: McpApplication, path: string, options: McpMountOptions): readonly McpRoute[] {
  const read = readMountOptions(options);
  const { deps = {}, hosts, origins = [], authorization } = read;
  const described = authorization === undefined ? undefined : readAuthorization(authorization, deps);
  const metadataPath =
    described === undefined ? undefined : `/.well-known/oauth-protected-resource${path === '/' ? '' : path}`;
  const guard = new McpGuard({ hosts, origins, metadataPath, resource: described?.resource });
  const shared = { mcp: false, use: [guard], timeoutMs: false };
  const endpoint = endpointRoute(app, path, read, shared);
  return described === undefined || metadataPath === undefined
    ? [endpoint]
    : [endpoint, metadataRoute(metadataPath, path, described, shared)];
}

type ReadMountOptions = ReturnType<typeof readMountOptions>;

function readMountOptions(options: McpMountOptions) {
  return readOptions('mountMcp()', options, {
    ...serverOptions(),
    resources: bool(),
    deps: given<Dependencies>('an object of Depends(…)', isObject),
    hosts: given<readonly string[]>('a list of names', isTextList),
    origins: given<Origins>(
      '"*", a list of origins or a function',
      (value) => value === '*' || isTextList(value) || typeof value === 'function',
    ),
    headers: given<readonly string[]>(
      'a list of field names',
      (value) => isTextList(value) && value.every(isToken),
    ),
    sessions: bool(true),
    sessionSeconds: int(86_400, 60, 2_592_000),
    principal: given<NonNullable<McpMountOptions['principal']>>('a function', isFunction),
    authorization: given<McpAuthorization>('{ servers, scopes, resource }', isObject),
    rateLimit: given<RouteRateLimit | false>(
      'false or { perMinute, burst, key }',
      (value) => value === false || isObject(value),
    ),
    maxBodyBytes: int(10_000_000, 1_000, 1_000_000_000),
  });
}

function endpointDepsOf(read: ReadMountOptions): EndpointDeps {
  const { instructions, pageSize, maxResultBytes, resources } = read;
  const { deps, headers, sessions, sessionSeconds, principal, authorization, maxBodyBytes } = read;
  const names = Object.keys(deps ?? {});
  return {
    dispatching: (provided) => ({
      instructions,
      pageSize,
      maxResultBytes,
      resources: resources ?? provided.config.get('enableDocs', provided.env !== 'production'),
      cacheScope: names.length > 0 ? 'private' : 'public',
      services: provided,
    }),
    headers: (headers ?? []).map((name) => name.toLowerCase()),
    asksForTokens: authorization !== undefined,
    hasSessions: sessions,
    sessionSeconds,
    maxBodyBytes,
    principal: principal ?? ((context) => usualPrincipal(context, names)),
    client: (context) =>
      (principal === undefined ? subjectOf(context, names) : principal(context)) || clientOf(context.req.ip),
  };
}

function endpointRoute(app: McpApplication, path: string, read: ReadMountOptions, shared: object): McpRoute {
  const { deps, maxBodyBytes, rateLimit } = read;
  const endpointDeps = endpointDepsOf(read);
  endpoints.want();
  let endpoint: McpEndpoint | undefined;
  const load = async (): Promise<McpEndpoint> =>
    (endpoint ??= new (await endpoints.load()).McpEndpoint(app, endpointDeps));
  return {
    methods: ['POST', 'GET', 'DELETE'],
    path,
    handler: async (context) => (await load()).answer(context),
    spec: {
      ...shared,
      ...deps,
      maxBodyBytes,
      ...(rateLimit === undefined ? {} : { rateLimit }),
      summary: 'MCP endpoint: JSON-RPC messages of the Model Context Protocol',
      tags: ['mcp'],
      ...(Object.keys(deps ?? {}).length === 0
        ? { public: 'The tools are guarded as their routes are' }
        : {}),
      meta: { csrf: false, loadShedding: false, idempotency: false },
    },
  };
}

/** Returns the route of the metadata document (RFC 9728). `endpoint` is the path of the endpoint. */
function metadataRoute(
  path: string,
  endpoint: string,
  { resource, servers, scopes = [] }: ReadAuthorization,
  shared: object,
): McpRoute {
  return {
    methods: ['GET'],
    path,
    spec: {
      ...shared,
      public: 'Clients read it before they have a token',
      summary: 'Protected resource metadata of the MCP endpoint (RFC 9728)',
      tags: ['mcp'],
      response: ResourceMetadata,
    },
    handler: ({ req }) => ({
      resource: resource ?? `${req.scheme}://${req.host}${endpoint}`,
      authorization_servers: servers,
      bearer_methods_supported: ['header'],
      ...(scopes.length === 0 ? {} : { scopes_supported: scopes }), // empty lists must be omitted (RFC 9728 §3.2)
    }),
  };
}

type ReadAuthorization = McpAuthorization & { readonly servers: readonly string[] };

/**
 * Validates the option `authorization`. Requires a guard, because clients log in only after a response with
 * 401.
 */
function readAuthorization(authorization: McpAuthorization, deps: Dependencies): ReadAuthorization {
  const owner = 'mountMcp() authorization';
  const read = readOptions(owner, authorization, {
    servers: given<readonly string[]>(
      'a list of issuers, as absolute URLs',
      (value) => isTextList(value) && value.every((issuer) => URL.canParse(issuer)),
    ),
    scopes: given<readonly string[]>('a list of words', isTextList),
    resource: given<string>(
      'the URL of the endpoint, without a fragment',
      (value) => typeof value === 'string' && /^https?:\/\/[^#\s]+$/.test(value) && URL.canParse(value),
    ),
  });
  if (Object.keys(deps).length === 0)
    throw outOfRange(
      'mountMcp()',
      'deps',
      'must contain a guard that checks access tokens, such as { me: Depends(IssuerAuth({ issuer, audience })) }',
      'none',
    );
  const servers = read.servers ?? issuersOf(deps);
  if (servers.length === 0)
    throw outOfRange(
      owner,
      'servers',
      'must contain the absolute URL of at least one issuer of access tokens, unless IssuerAuth() is in deps',
      'none',
    );
  return { ...read, servers };
}

function issuersOf(deps: Dependencies): readonly string[] {
  const issuers = Object.values(deps).flatMap((dependency) =>
    viewOfDependency(dependency).security.flatMap((requirement) => requirement.issuers ?? []),
  );
  return [...new Set(issuers)];
}

/** The metadata document of RFC 9728 §2. */
class ResourceMetadata extends Schema {
  resource = Field(str);
  authorization_servers = Field(list(str));
  bearer_methods_supported = Field(list(str));
  scopes_supported = Field(list(str), { optional: true });
}

/**
 * Returns the default owner of a session: the subject of a guard's claims, or else the credentials of the
 * request, or else ''.
 */
function usualPrincipal(context: Context, names: readonly string[]): string {
  const subject = subjectOf(context, names);
  if (subject !== undefined) return subject;
  const { req } = context;
  const all = [req.headers['authorization'], ...credentialsOf(req, req.route?.security ?? [])];
  return all.every((credential) => credential === undefined) ? '' : JSON.stringify(all);
}

/**
 * Returns the subject of the claims that a guard has returned, together with their issuer: two issuers may give
 * one subject to different users.
 */
function subjectOf(context: Context, names: readonly string[]): string | undefined {
  const { sub, iss } = claimsOf(context, names) ?? {};
  return sub === undefined ? undefined : `sub ${typeof iss === 'string' ? `${iss} ` : ''}${String(sub)}`;
}

/** Returns the claims that a guard has returned: the first value with a subject. */
function claimsOf(context: Context, names: readonly string[]): Readonly<Record<string, unknown>> | undefined {
  for (const name of names) {
    const value = (context as unknown as Readonly<Record<string, unknown>>)[name];
    if (isRecord(value) && typeof value['sub'] === 'string') return value;
  }
  return undefined;
}

interface GuardOptions {
  readonly hosts: readonly string[] | undefined;
  readonly origins: Origins;
  /** Path of the protected resource metadata; undefined without the option `authorization`. */
  readonly metadataPath: string | undefined;
  /** URL of the endpoint in the option `authorization`. */
  readonly resource?: string | undefined;
}

const LOCAL: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Middleware in front of an MCP endpoint. It checks the fields Host and Origin. */
export class McpGuard implements Middleware {
  readonly #hosts: ReadonlySet<string> | undefined;
  readonly #origins: AllowedOrigins;
  readonly #metadataPath: string | undefined;
  readonly #resource: string | undefined;
  #hasTrustedHosts = false;
  /** Whether the setting `trustProxy` is set, so that the scheme of a request is known. */
  #knowsScheme = false;
  #isProduction = true;
  #log: SecurityLog | undefined;

  constructor({ hosts, origins, metadataPath, resource }: GuardOptions) {
    this.#hosts = hosts === undefined ? undefined : new Set(hosts.map((host) => host.toLowerCase()));
    this.#origins = new AllowedOrigins(origins);
    this.#metadataPath = metadataPath;
    this.#resource = resource;
  }

  compile(view: CompiledView): Iterable<never> {
    const { env, middleware, services } = view;
    this.#knowsScheme = readTrustProxy(view.config('trustProxy')) !== undefined;
    this.#isProduction = env === 'production';
    this.#hasTrustedHosts = middleware.some(({ kind }) => kind === 'trusted-host');
    this.#log = SecurityLog.of(services);
    return [];
  }

  async handle(req: HttpRequest, next: Next): Promise<HttpResponse> {
    const name = hostnameOf(req.host);
    if (name === undefined || !this.#answersFor(name))
      return this.#refuse(
        req,
        'host',
        'This endpoint does not accept the host in the Host field: add it with mountMcp(path, { hosts })',
      );
    const { origin } = req.headers;
    if (origin !== undefined && !(await this.#allows(origin, name, req)))
      return this.#refuse(
        req,
        'origin',
        'Web pages of this origin may not use this endpoint: allow the origin with mountMcp(path, { origins })',
      );
    const response = await next();
    if ((response.status === 401 || response.status === 403) && this.#metadataPath !== undefined)
      describe(response, `${this.#originOf(req)}${this.#metadataPath}`);
    return response;
  }

  /** Returns the origin of the endpoint, as its clients know it. */
  #originOf(req: HttpRequest): string {
    return this.#resource === undefined ? `${req.scheme}://${req.host}` : new URL(this.#resource).origin;
  }

  #answersFor(name: string): boolean {
    if (this.#hosts !== undefined) return this.#hosts.has(name) || (!this.#isProduction && LOCAL.has(name));
    return this.#hasTrustedHosts || LOCAL.has(name);
  }

  #allows(origin: string, name: string, req: HttpRequest): Awaitable<boolean> {
    if (isOwnOrigin(origin, req, this.#knowsScheme)) return true;
    if (!this.#isProduction && LOCAL.has(name) && LOCAL.has(URL.parse(origin)?.hostname ?? '')) return true;
    return this.#origins.allows(origin, req);
  }

  #refuse(req: HttpRequest, what: 'host' | 'origin', problem: string): HttpResponse {
    this.#log?.refused('mcp_refused', req, { reason: what });
    return new JSONResponse(failure(undefined, invalidRequest(problem), NEWEST), { status: 403 });
  }
}

/**
 * Matches the first bearer challenge in a WWW-Authenticate field, and the text before it (RFC 9110 §11.6.1).
 * Matching takes linear time.
 */
const BEARER =
  /^((?:(?:[^",]|"(?:[^"\\]|\\.)*")*,)*?[ \t]*)(bearer(?![^\s,])((?: +|, *)[^\s=,]+ *= *(?:"(?:[^"\\]|\\.)*"|[^\s",]+))*)/i;

/**
 * Adds the URL of the protected resource metadata to the bearer challenge. A 401 without a bearer challenge
 * gets one.
 */
function describe(response: HttpResponse, url: string): void {
  const header = response.headers.get('www-authenticate') ?? '';
  const place = `resource_metadata="${url}"`;
  const [, before, challenge, parameter] = BEARER.exec(header) ?? [];
  if (before !== undefined && challenge !== undefined) {
    // a parameter must not occur twice (RFC 9110 §11.2)
    if (/[ ,]resource_metadata *=/i.test(challenge)) return;
    response.headers.set(
      'WWW-Authenticate',
      `${before}${challenge}${parameter === undefined ? '' : ','} ${place}${header.slice(before.length + challenge.length)}`,
    );
  } else if (response.status === 401)
    response.headers.set('WWW-Authenticate', `Bearer ${place}${header === '' ? '' : `, ${header}`}`);
}
