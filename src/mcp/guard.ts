/**
 * Who may speak to an MCP endpoint from a browser, and by which name: the protection against other sites, and against names that
 * are made to point here (DNS rebinding). A layer around the endpoint alone.
 *
 *   Host     one of `hosts`; those of TrustedHostMiddleware where there is one; else localhost and the loopback addresses
 *   Origin   none, its own, or one of `origins`; outside production also pages of this machine where the host is this machine
 *
 * Anything else is 403. With each 401, and with the challenge of a 403 for want of a scope, it tells clients where the endpoint's
 * authorization is described (RFC 9728 §5.1; 2025-11-25, authorization).
 */
import { INVALID_REQUEST, NEWEST, RpcError, failure } from './messages.ts';
import { AllowedOrigins } from '../http/origins.ts';
import { readTrustProxy } from '../http/request/proxy.ts';
import { JSONResponse } from '../http/response.ts';
import { isOwnOrigin } from '../http/same-origin.ts';
import { SecurityLog } from '../http/security-log.ts';
import { hostnameOf } from '../http/middleware/trusted-host.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, Next } from '../http/contracts.ts';
import type { Origins } from '../http/origins.ts';
import type { HttpResponse } from '../http/response.ts';

/** What it lets in. */
export interface GuardOptions {
  readonly hosts: readonly string[] | undefined;
  readonly origins: Origins;
  /** Where the authorization of the endpoint is described: a path of this application. */
  readonly metadataPath: string | undefined;
}

const LOCAL: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/** The layer around an MCP endpoint. */
export class McpGuard implements Middleware {
  readonly #hosts: ReadonlySet<string> | undefined;
  readonly #origins: AllowedOrigins;
  readonly #metadataPath: string | undefined;
  #hasTrustedHosts = false;
  /** Whether trusted proxies say how a request came. */
  #knowsScheme = false;
  #isProduction = true;
  #log: SecurityLog | undefined;

  /** @throws SvcError `E_CORS` for an origin that no browser sends */
  constructor({ hosts, origins, metadataPath }: GuardOptions) {
    this.#hosts = hosts === undefined ? undefined : new Set(hosts.map((host) => host.toLowerCase()));
    this.#origins = new AllowedOrigins(origins);
    this.#metadataPath = metadataPath;
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
        'This endpoint does not answer for the host that the request names: name it with mountMcp(path, { hosts })',
      );
    const { origin } = req.headers;
    if (origin !== undefined && !(await this.#allows(origin, name, req)))
      return this.#refuse(req, 'origin', 'Pages of this origin may not speak to this endpoint');
    const response = await next();
    if ((response.status === 401 || response.status === 403) && this.#metadataPath !== undefined)
      describe(response, `${req.scheme}://${req.host}${this.#metadataPath}`);
    return response;
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
    return new JSONResponse(failure(undefined, new RpcError(INVALID_REQUEST, problem), NEWEST), {
      status: 403,
    });
  }
}

/** What stands before the first bearer challenge, and that challenge with its parameters, up to where that of another scheme begins (RFC 9110 §11.6.1). Each character has one way to be read: with two, a list of twenty took as many steps as 2²⁰. */
const BEARER =
  /^((?:(?:[^",]|"(?:[^"\\]|\\.)*")*,)*?[ \t]*)(bearer(?![^\s,])((?: +|, *)[^\s=,]+ *= *(?:"(?:[^"\\]|\\.)*"|[^\s",]+))*)/i;

/** Adds the place to the challenge for a bearer token. A 401 without one gets it: a guard of one's own may challenge for nothing, or for another scheme alone. */
function describe(response: HttpResponse, url: string): void {
  const header = response.headers.get('www-authenticate') ?? '';
  const place = `resource_metadata="${url}"`;
  const [, before, challenge, parameter] = BEARER.exec(header) ?? [];
  if (before !== undefined && challenge !== undefined) {
    if (/[ ,]resource_metadata *=/i.test(challenge)) return; // a parameter stands there once (RFC 9110 §11.2)
    response.headers.set(
      'WWW-Authenticate',
      `${before}${challenge}${parameter === undefined ? '' : ','} ${place}${header.slice(before.length + challenge.length)}`,
    );
  } else if (response.status === 401)
    response.headers.set('WWW-Authenticate', `Bearer ${place}${header === '' ? '' : `, ${header}`}`);
}
