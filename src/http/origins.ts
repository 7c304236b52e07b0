/**
 * Origins that may read responses or open a WebSocket: a list that is compared byte for byte, all origins, or
 * a function.
 *
 * An origin is `scheme://host[:port]` as browsers send it (RFC 6454 §6.2): lower case, no default port, no
 * path. `null`, which every sandboxed frame sends, is never allowed.
 */
import { SvcError } from '../base/errors.ts';
import { systemClock } from '../base/clock.ts';
import { isThenable, within } from '../base/promises.ts';
import { shown } from '../base/options.ts';
import { TransportRequest } from './request/request.ts';
import type { Awaitable, HttpRequest } from './contracts.ts';

/** Returns whether an origin is allowed; called only with well-formed origins. */
export type OriginTest = (origin: string, req: HttpRequest) => Awaitable<boolean>;
/** Value of an option for allowed origins: `'*'` for all, a list, or a function. */
export type Origins = '*' | readonly string[] | OriginTest;

const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:[^\s/?#@*,\\"<>[\]]+|\[[0-9a-f:.]+\](?::\d+)?)$/;

/**
 * An origin that no site has, because its name is reserved (RFC 2606). A test that allows it allows any site.
 */
export const UNKNOWN_ORIGIN = 'https://svc-check.invalid';

/** The origins that an option allows. */
export class AllowedOrigins {
  readonly #list: ReadonlySet<string> | undefined;
  readonly #test: OriginTest | undefined;
  #isAsynchronous = false;
  /** An unknown origin that the function allows. settle() sets it. */
  #settled: string | undefined;

  /** @throws SvcError `E_CORS` for an entry that no browser sends, because it would never match */
  constructor(origins: Origins) {
    if (typeof origins === 'function') this.#test = origins;
    else if (origins !== '*') this.#list = readList(origins);
  }

  /** The list of origins; undefined for `'*'` and functions. */
  get list(): ReadonlySet<string> | undefined {
    return this.#list;
  }

  /** Whether every origin is allowed. */
  get isAny(): boolean {
    return this.#list === undefined && this.#test === undefined;
  }

  /** Whether a function decides. */
  get isFunction(): boolean {
    return this.#test !== undefined;
  }

  /** Whether the function returns promises. Known after {@link strangerAmong} was called. */
  get isAsynchronous(): boolean {
    return this.#isAsynchronous;
  }

  /**
   * Returns an unknown origin that the function allows by mistake; undefined if none is found. Tries an
   * origin with a reserved name (RFC 2606), and variants of the host names in the function's code and in
   * `text`. Always undefined for a list, and for a function that reads the request. For an asynchronous
   * function, call {@link settle} first.
   */
  strangerAmong(text = ''): string | undefined {
    const test = this.#test;
    if (test === undefined) return undefined;
    return this.#candidates(test, text).find((origin) => this.#isLetIn(test, origin)) ?? this.#settled;
  }

  /**
   * Calls an asynchronous function with unknown origins, and waits for the results for at most `limitMs`.
   * Never rejects.
   */
  async settle(text: string, limitMs: number): Promise<void> {
    const test = this.#test;
    this.#settled = this.strangerAmong(text);
    if (test === undefined || this.#settled !== undefined || !this.#isAsynchronous) return;
    const candidates = this.#candidates(test, text);
    // the function gets no request, as in strangerAmong()
    const asked = candidates.map(async (origin) => (await test(origin, undefined as never)) === true);
    const settled = await within(systemClock, limitMs, Promise.allSettled(asked), () => undefined);
    if (settled === undefined) return;
    this.#settled = candidates.find((_, index) => {
      const answer = settled[index]!; // allSettled() has a result for each candidate
      return answer.status === 'fulfilled' && answer.value;
    });
  }

  #candidates(test: OriginTest, text: string): string[] {
    return strangersOf(`${Function.prototype.toString.call(test)}\n${text}`);
  }

  #isLetIn(test: OriginTest, origin: string): boolean {
    try {
      // the request is undefined: a function that reads it throws, and is not checked
      const isAllowed = test(origin, undefined as never);
      if (!isThenable(isAllowed)) return isAllowed === true;
      this.#isAsynchronous = true;
      // settle() awaits the results later; until then a rejection must not end the process
      isAllowed.then(undefined, () => undefined);
      return false;
    } catch {
      return false;
    }
  }

  /** Whether `origin` is allowed. A malformed one is always refused. */
  allows(origin: string, req: HttpRequest): Awaitable<boolean> {
    if (this.#list !== undefined) return this.#list.has(origin);
    return this.#test === undefined || (ORIGIN.test(origin) && this.#test(origin, req));
  }

  /**
   * Whether a WebSocket handshake is allowed. Browsers always send an origin with it, and only this check
   * protects a WebSocket from other sites. `allowsAbsent` accepts requests without an origin, which clients
   * other than browsers send. Default false.
   */
  admits(
    req: HttpRequest,
    options: { readonly allowsAbsent?: boolean | undefined } = {},
  ): Awaitable<boolean> {
    const origin = fieldOf(req, 'origin');
    return origin === undefined ? options.allowsAbsent === true : this.allows(origin, req);
  }
}

/**
 * The value of a request field by lower-case name; repeated values are joined with commas. Avoids parsing all
 * fields if possible.
 */
export function fieldOf(req: HttpRequest, name: string): string | undefined {
  return req instanceof TransportRequest ? req.field(name) : req.headers[name];
}

/**
 * Returns origins of other sites that a weak test may allow. They end with a host name in `code`, begin with
 * it, or are similar to it.
 */
function strangersOf(code: string): string[] {
  const found =
    code
      .toLowerCase()
      .replaceAll('\\', '')
      .match(/[a-z\d][a-z\d-]*(?:\.[a-z\d-]+)*\.[a-z]{2,}/g) ?? [];
  const names = new Set(found.flatMap((name) => [name, siteOf(name)]));
  return [
    UNKNOWN_ORIGIN,
    ...[...names].slice(0, MOST_NAMES).flatMap((name) =>
      [
        `svc-check${name}`,
        `${name}.svc-check.invalid`,
        `${name.replaceAll('.', 'x')}.invalid`,
        name.replace('.', 'x'),
      ]
        // without hosts of the same site, which the function may allow
        .filter((host) => !host.endsWith(`.${siteOf(name)}`))
        .map((host) => `https://${host}`),
    ),
  ];
}

const MOST_NAMES = 5_000;

/** Returns the last two labels of a host name. */
function siteOf(name: string): string {
  return name.split('.').slice(-2).join('.');
}

function readList(origins: readonly string[]): ReadonlySet<string> {
  for (const origin of origins) {
    const problem =
      typeof origin !== 'string' ? `an origin is text, found ${shown(origin)}` : issueOf(origin);
    if (problem !== undefined) throw new SvcError('E_CORS', [problem]);
  }
  return new Set(origins);
}

function issueOf(origin: string): string | undefined {
  const named = JSON.stringify(origin);
  if (origin === '*') return '"*" must not be an entry of a list';
  if (origin === 'null') return '"null" is the origin of every sandboxed frame, so it must not be allowed';
  if (origin.includes('*')) return `${named} has a wildcard, but whole origins are compared`;
  if (!ORIGIN.test(origin))
    return `${named} is not an origin: write scheme://host[:port] and nothing after it`;
  // `URL` computes no origin for other schemes, such as those of apps
  if (!/^https?:/.test(origin)) return undefined;
  const url = URL.parse(origin);
  return url?.origin === origin
    ? undefined
    : `${named} is not what browsers send` + (url === null ? '' : `, which is "${url.origin}"`);
}

/*
 * Whether a page of this application sent a request. Decides by fields that scripts cannot change:
 * `Sec-Fetch-Site`, else `Origin`. A request with neither field is accepted: its client is not a browser, or
 * is a very old one.
 */

/** Which pages count as the application's own. */
export interface OwnPages {
  /** Additional origins, as browsers send them. */
  readonly trusted: ReadonlySet<string>;
  /** Whether pages of other hosts of the same site count. */
  readonly allowsSameSite: boolean;
  /**
   * Whether trusted proxies report the scheme. If not, the client of a request without TLS may have used TLS
   * up to a proxy.
   */
  readonly knowsScheme: boolean;
}

/**
 * Returns which field shows that a page of another origin has sent the request: `site` or `origin`. Undefined
 * if neither does.
 */
export function foreignPage(
  req: HttpRequest,
  { trusted, allowsSameSite, knowsScheme }: OwnPages,
): 'site' | 'origin' | undefined {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (origin !== undefined && trusted.has(origin)) return undefined;
  if (site !== undefined)
    return site === 'same-origin' || site === 'none' || (site === 'same-site' && allowsSameSite)
      ? undefined
      : 'site';
  return origin === undefined || isOwnOrigin(origin, req, knowsScheme) ? undefined : 'origin';
}

/**
 * Whether an origin is the application's own. If no trusted proxy reports the scheme, the https origin of the
 * host is accepted for a request without TLS as well.
 */
export function isOwnOrigin(origin: string, req: HttpRequest, knowsScheme: boolean): boolean {
  const scheme = origin.slice(0, origin.indexOf(':'));
  if (scheme !== req.scheme && (knowsScheme || scheme !== 'https')) return false;
  const own = `${scheme}://${req.host}`;
  // the second comparison is for a host in capitals, or with the default port
  return origin === own || URL.parse(own)?.origin === origin;
}
