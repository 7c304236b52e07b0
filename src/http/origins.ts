/**
 * Checks whether pages of an origin may read responses or open a WebSocket. An application allows all
 * origins, the origins in a list, or origins that a function accepts.
 *
 * An origin is `scheme://host[:port]` as browsers send it (RFC 6454 §6.2): lower case, no default port, no
 * path. A list or function never allows the origin `null`, which every sandboxed frame sends.
 */
import { SvcError } from '../base/errors.ts';
import { systemClock } from '../base/clock.ts';
import { isThenable, within } from '../base/promises.ts';
import { shown } from '../base/options.ts';
import { fieldOf } from './response.ts';
import type { Awaitable, HttpRequest } from './contracts.ts';

/** Function that returns whether an origin is allowed. Called only with well-formed origins. */
export type OriginTest = (origin: string, req: HttpRequest) => Awaitable<boolean>;
/** Allowed origins, as an option declares them: `'*'` for all, a list, or a function. */
export type Origins = '*' | readonly string[] | OriginTest;

const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:[^\s/?#@*,\\"<>[\]]+|\[[0-9a-f:.]+\](?::\d+)?)$/;

/**
 * Origin that no site can have, because its host name is reserved (RFC 2606). A function that allows it
 * probably allows every site.
 */
export const UNKNOWN_ORIGIN = 'https://svc-check.invalid';

/** Decides which origins are allowed, for an option of the type {@link Origins}. */
export class AllowedOrigins {
  readonly #list: ReadonlySet<string> | undefined;
  readonly #test: OriginTest | undefined;
  #isAsynchronous = false;
  /** Result of settle(): an origin of another site that the function allows by mistake. */
  #settled: string | undefined;

  /** @throws SvcError `E_CORS` when a list entry is not an origin in the form that browsers send */
  constructor(origins: Origins) {
    if (typeof origins === 'function') this.#test = origins;
    else if (origins !== '*') this.#list = readList(origins);
  }

  /** The allowed origins; undefined if the option is `'*'` or a function. */
  get list(): ReadonlySet<string> | undefined {
    return this.#list;
  }

  /** Whether every origin is allowed. */
  get isAny(): boolean {
    return this.#list === undefined && this.#test === undefined;
  }

  /** Whether a function decides which origins are allowed. */
  get isFunction(): boolean {
    return this.#test !== undefined;
  }

  /** Whether the function that decides returns promises. Known only after a call of {@link strangerAmong}. */
  get isAsynchronous(): boolean {
    return this.#isAsynchronous;
  }

  /**
   * Returns an origin that the function allows by mistake, such as `https://example.com.svc-check.invalid`,
   * or undefined if none is found. Tries variants of the host names in `text` and in the source code of the
   * function. If the function is asynchronous, call {@link settle} first.
   */
  strangerAmong(text = ''): string | undefined {
    const test = this.#test;
    if (test === undefined) return undefined;
    return this.#candidates(test, text).find((origin) => this.#isLetIn(test, origin)) ?? this.#settled;
  }

  /**
   * Prepares {@link strangerAmong} if the function for origins is asynchronous: calls it with the variants,
   * and stores an origin that it allows. Waits at most `limitMs`. Never rejects.
   */
  async settle(text: string, limitMs: number): Promise<void> {
    const test = this.#test;
    this.#settled = this.strangerAmong(text);
    if (test === undefined || this.#settled !== undefined || !this.#isAsynchronous) return;
    const candidates = this.#candidates(test, text);
    // the function gets undefined as its request, because no request has arrived yet
    const asked = candidates.map(async (origin) => (await test(origin, undefined as never)) === true);
    const settled = await within(systemClock, limitMs, Promise.allSettled(asked), () => undefined);
    if (settled === undefined) return;
    this.#settled = candidates.find((_, index) => {
      const answer = settled[index]!; // defined: allSettled() returns one result for each candidate
      return answer.status === 'fulfilled' && answer.value;
    });
  }

  #candidates(test: OriginTest, text: string): string[] {
    return strangersOf(`${Function.prototype.toString.call(test)}\n${text}`);
  }

  #isLetIn(test: OriginTest, origin: string): boolean {
    try {
      // the request is undefined: a function that reads it throws, and this origin then counts as refused
      const isAllowed = test(origin, undefined as never);
      if (!isThenable(isAllowed)) return isAllowed === true;
      this.#isAsynchronous = true;
      // without this handler, a rejection would end the process
      isAllowed.then(undefined, () => undefined);
      return false;
    } catch {
      return false;
    }
  }

  /**
   * Returns whether `origin` is allowed. If a function decides, malformed origins are refused without calling
   * it.
   */
  allows(origin: string, req: HttpRequest): Awaitable<boolean> {
    if (this.#list !== undefined) return this.#list.has(origin);
    return this.#test === undefined || (ORIGIN.test(origin) && this.#test(origin, req));
  }

  /**
   * Returns whether the origin of a WebSocket handshake is allowed. With `allowsAbsent`, handshakes without
   * `Origin` are allowed, too: browsers always send this field, but other clients may omit it. Default false.
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
 * Returns origins of other sites that resemble host names in `code`, such as `https://svc-checkexample.com`
 * for `example.com`. A function that compares only the start or end of an origin allows one of them.
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
        // hosts of the same site are not tried, because the function may allow them intentionally
        .filter((host) => !host.endsWith(`.${siteOf(name)}`))
        .map((host) => `https://${host}`),
    ),
  ];
}

const MOST_NAMES = 5_000;

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
  // `URL` has no origin for other schemes, such as the schemes of mobile apps
  if (!/^https?:/.test(origin)) return undefined;
  const url = URL.parse(origin);
  return url?.origin === origin
    ? undefined
    : `${named} is not what browsers send` + (url === null ? '' : `, which is "${url.origin}"`);
}

/** Determines which pages count as pages of the application. */
export interface OwnPages {
  /** Other origins whose pages count as pages of the application, in the form of the field `Origin`. */
  readonly trusted: ReadonlySet<string>;
  /** Whether pages of other hosts of the same site count as pages of the application. */
  readonly allowsSameSite: boolean;
  /**
   * Whether trusted proxies report the scheme. If false, the client may use TLS to a proxy although the
   * request arrives without TLS.
   */
  readonly knowsScheme: boolean;
}

/**
 * Returns `site` if `Sec-Fetch-Site` shows that a foreign page sent the request, or `origin` if `Origin`
 * shows it. Returns undefined if the page belongs to the application. A request with neither field is
 * accepted, because it does not come from a current browser.
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
 * Whether `origin` has the scheme and host of the request. If `knowsScheme` is false, a request without TLS
 * may also have an https origin, because a proxy may terminate TLS.
 */
export function isOwnOrigin(origin: string, req: HttpRequest, knowsScheme: boolean): boolean {
  const scheme = origin.slice(0, origin.indexOf(':'));
  if (scheme !== req.scheme && (knowsScheme || scheme !== 'https')) return false;
  const own = `${scheme}://${req.host}`;
  // the second comparison accepts a Host field in capitals or with the default port
  return origin === own || URL.parse(own)?.origin === origin;
}
