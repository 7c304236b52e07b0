/**
 * Trusted hosts: accepts only requests whose `Host` field names a host of the application. After this check,
 * it is safe to use `req.host` in mails, redirects and cache keys.
 *
 * The port in `Host` is ignored. A request for another host gets 421 (RFC 9110 §15.5.20); a missing or
 * malformed `Host` gets 400 (RFC 9112 §3.2).
 */
import { domainToASCII } from 'node:url';
import { BadRequest, HTTPException, SvcError } from '../../base/errors.ts';
import { given, readOptions, shown } from '../../base/options.ts';
import { formatAddress, isIPv4, parseAddress } from '../request/proxy.ts';
import { SecurityLog } from '../security-log.ts';
import type { Finding } from '../../base/findings.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, MiddlewareKind, Next } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';

/** Options of {@link TrustedHostMiddleware}. */
export interface TrustedHostOptions {
  /**
   * Names and addresses of the accepted hosts, without scheme and port. `example.com` accepts only this name;
   * `.example.com` also accepts all subdomains. IPv6 addresses may have brackets. Write international names
   * as they are sent: `xn--bcher-kva.example`. Outside production `localhost` and the loopback addresses are
   * accepted, too.
   */
  readonly hosts: readonly string[];
}

const LOCAL: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];
/** Syntax of `Host`: a name or `[address]`, then the port, which may be empty (RFC 3986 §3.2.3). */
const AUTHORITY = /^(?:([a-z0-9_.-]+)|\[([0-9a-f:.]+)\])(?::(\d{0,5}))?$/i;
/**
 * Syntax of a host name: labels of 1 ... 63 characters (RFC 1035 §2.3.4). `_` is accepted, because some host
 * names contain it, although the RFC does not allow it.
 */
const NAME = /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
const MAX_NAME = 253;
/** Maximum length of `Host` in characters: the longest host name, a final dot, a colon and a port. */
const MAX_AUTHORITY = 260;
const MAX_PORT = 65_535;
/** Their data or responses depend on the host, so they must be registered after this one. */
const INSIDE: ReadonlySet<MiddlewareKind | undefined> = new Set(['session', 'csrf', 'idempotency']);

/**
 * Refuses requests for hosts that the option `hosts` does not name. Routes with `meta: { trustedHost: false
 * }`, such as `/healthz` and `/readyz`, accept any host.
 */
export class TrustedHostMiddleware implements Middleware {
  readonly kind = 'trusted-host';
  readonly #own: ReadonlySet<string>;
  readonly #suffixes: readonly string[];
  #exact: ReadonlySet<string>;
  #log: SecurityLog | undefined;

  /**
   * @throws SvcError `E_TRUSTED_HOST` for an invalid host name, or an empty list; `E_OPTION_UNKNOWN`,
   *   `E_OPTION_RANGE` for other invalid options
   */
  constructor(options: TrustedHostOptions) {
    const { hosts } = readOptions('TrustedHostMiddleware', options, {
      hosts: given<readonly string[]>('a list of names', Array.isArray),
    });
    if (hosts === undefined || hosts.length === 0)
      throw new SvcError('E_TRUSTED_HOST', [
        'the option "hosts" is empty, so every request would be refused',
      ]);
    const names = hosts.map(readName);
    this.#suffixes = names.filter((name) => name.startsWith('.'));
    this.#own = this.#exact = new Set(names.map((name) => (name.startsWith('.') ? name.slice(1) : name)));
  }

  /** The first name in the option `hosts`, without a leading dot. @internal */
  get usualHost(): string {
    return this.#own.values().next().value!; // defined: the constructor requires at least one host
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const { host } = req;
    // fast path: most requests have a `Host` that is equal to one of the names
    if (this.#exact.has(host) || req.route?.meta['trustedHost'] === false) return next();
    const name = hostnameOf(host);
    if (name === undefined)
      throw this.#refusal(
        req,
        new BadRequest('The request has no valid Host field', { code: 'host_malformed' }),
      );
    if (this.#exact.has(name) || this.#suffixes.some((suffix) => name.endsWith(suffix))) return next();
    throw this.#refusal(
      req,
      new HTTPException(421, 'This server does not serve the host that the Host field names', {
        code: 'host_unknown',
      }),
    );
  }

  *compile({ middleware, env, services }: CompiledView): Iterable<Omit<Finding, 'place'>> {
    this.#exact = env === 'production' ? this.#own : new Set([...this.#own, ...LOCAL]);
    this.#log = SecurityLog.of(services);
    const outer = middleware.slice(0, middleware.indexOf(this)).find((layer) => INSIDE.has(layer.kind));
    if (outer === undefined) return;
    yield {
      rule: 'SVC121',
      severity: 'warning',
      subject: 'middleware trusted-host',
      message: `the middleware "${outer.kind}" runs before TrustedHostMiddleware, and so processes requests whose host is not checked yet`,
      remedy: `Register TrustedHostMiddleware before ${outer.constructor.name}`,
    };
  }

  #refusal(req: HttpRequest, error: HTTPException): HTTPException {
    this.#log?.refused('host_refused', req, { host: req.host.slice(0, MAX_AUTHORITY) });
    return error;
  }
}

/**
 * Returns the canonical host name of a `Host` field: lower case, without port and final dot; IPv6 addresses
 * in brackets. Returns undefined for an invalid field, for example with a user name, percent escapes or
 * letters beyond ASCII.
 */
export function hostnameOf(authority: string): string | undefined {
  if (authority.length > MAX_AUTHORITY) return undefined;
  const match = AUTHORITY.exec(authority);
  if (match === null || Number(match[3] ?? 0) > MAX_PORT) return undefined;
  return match[2] === undefined ? nameOf(match[1]!) : addressOf(match[2]);
}

function nameOf(text: string): string | undefined {
  const name = text.toLowerCase().replace(/\.$/, '');
  return name.length <= MAX_NAME && NAME.test(name) ? name : undefined;
}

function addressOf(text: string): string | undefined {
  const address = text.includes(':') ? parseAddress(text) : undefined;
  if (address === undefined) return undefined;
  return isIPv4(address) ? formatAddress(address) : `[${formatAddress(address)}]`;
}

/** Returns an entry of the option `hosts` in canonical form. */
function readName(entry: unknown): string {
  if (typeof entry !== 'string')
    throw new SvcError('E_TRUSTED_HOST', [
      `each name in the option "hosts" must be text, found ${shown(entry)}`,
    ]);
  const isAddress = entry.includes('::') || entry.split(':').length > 2;
  const name = isAddress ? addressOf(entry.replace(/^\[|\]$/g, '')) : nameOf(entry.replace(/^\./, ''));
  if (name === undefined) throw new SvcError('E_TRUSTED_HOST', [issueOf(entry)]);
  return !isAddress && entry.startsWith('.') ? `.${name}` : name;
}

function issueOf(entry: string): string {
  const named = JSON.stringify(entry);
  if (entry.includes('*'))
    return entry.startsWith('*.')
      ? `${named} must be written as ${JSON.stringify(entry.slice(1))}`
      : `${named} is not a host name; to accept every host, remove the middleware`;
  if (entry.includes('://')) return `${named} has a scheme, but hosts are compared without it`;
  if (/:\d*$/.test(entry)) return `${named} has a port, but hosts are compared without it`;
  const ascii = /[^\0-\x7f]/.test(entry) ? domainToASCII(entry.replace(/^\./, '')) : '';
  return ascii === ''
    ? `${named} is not a host name`
    : `${named} must be written as "${entry.startsWith('.') ? '.' : ''}${ascii}"`;
}
