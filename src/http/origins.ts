/**
 * Origins that may read answers, or open a WebSocket: a list compared byte for byte, everybody, or a function.
 *
 * An origin is `scheme://host[:port]` as browsers send it (RFC 6454 §6.2): lower case, no default port, nothing behind it.
 * `null`, which every sandboxed frame sends, is never allowed.
 */
import { SvcError } from '../base/errors.ts';
import { systemClock } from '../base/clock.ts';
import { isThenable, within } from '../base/promises.ts';
import { shown } from '../base/options.ts';
import { TransportRequest } from './request/request.ts';
import type { Awaitable, HttpRequest } from './contracts.ts';

/** Whether an origin is allowed; asked with well-formed ones only. */
export type OriginTest = (origin: string, req: HttpRequest) => Awaitable<boolean>;
/** Origins as options take them. */
export type Origins = '*' | readonly string[] | OriginTest;

/** What a browser sends, and nothing else: no path, no user, no blank, no second origin behind a comma. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:[^\s/?#@*,\\"<>[\]]+|\[[0-9a-f:.]+\](?::\d+)?)$/;

/** An origin that no site has: its name is reserved (RFC 2606). */
export const UNKNOWN_ORIGIN = 'https://svc-check.invalid';

/** The origins that an option allows. */
export class AllowedOrigins {
  readonly #list: ReadonlySet<string> | undefined;
  readonly #test: OriginTest | undefined;
  #isAsynchronous = false;
  /** A stranger that an asynchronous function allows. */
  #settled: string | undefined;

  /** @throws SvcError `E_CORS`: an entry that no browser sends, so that it would never match */
  constructor(origins: Origins) {
    if (typeof origins === 'function') this.#test = origins;
    else if (origins !== '*') this.#list = readList(origins);
  }

  /** The list, if it is one. */
  get list(): ReadonlySet<string> | undefined {
    return this.#list;
  }

  /** Whether all are allowed, whatever they are. */
  get isAny(): boolean {
    return this.#list === undefined && this.#test === undefined;
  }

  /** Whether its function answers later. Known once a stranger was looked for. */
  get isAsynchronous(): boolean {
    return this.#isAsynchronous;
  }

  /**
   * An origin of no known site that the function allows: of reserved names (RFC 2606), alone, and around the names that its code and
   * `text` mention. Undefined for a list, and for a function that needs more of a request than its origin. What an asynchronous
   * function says is known behind {@link settle}.
   */
  strangerAmong(text = ''): string | undefined {
    const test = this.#test;
    if (test === undefined) return undefined;
    return this.#candidates(test, text).find((origin) => this.#isLetIn(test, origin)) ?? this.#settled;
  }

  /** Waits, up to `limitMs`, for what an asynchronous function says of strangers. Never rejects. */
  async settle(text: string, limitMs: number): Promise<void> {
    const test = this.#test;
    if (test === undefined || this.strangerAmong(text) !== undefined || !this.#isAsynchronous) return;
    const candidates = this.#candidates(test, text);
    const asked = candidates.map(async (origin) => (await test(origin, undefined as never)) === true); // as strangerAmong() does
    const settled = await within(systemClock, limitMs, Promise.allSettled(asked), () => undefined);
    if (settled === undefined) return;
    this.#settled = candidates.find((_, index) => {
      const answer = settled[index]!; // there is one for each
      return answer.status === 'fulfilled' && answer.value;
    });
  }

  #candidates(test: OriginTest, text: string): string[] {
    return strangersOf(`${Function.prototype.toString.call(test)}\n${text}`);
  }

  #isLetIn(test: OriginTest, origin: string): boolean {
    try {
      const isAllowed = test(origin, undefined as never); // a function that reads it throws
      if (!isThenable(isAllowed)) return isAllowed === true;
      this.#isAsynchronous = true;
      isAllowed.then(undefined, () => undefined); // settle() waits
      return false;
    } catch {
      return false;
    }
  }

  /** Whether `origin` is allowed. What is not well-formed is not, whoever decides. */
  allows(origin: string, req: HttpRequest): Awaitable<boolean> {
    if (this.#list !== undefined) return this.#list.has(origin);
    return this.#test === undefined || (ORIGIN.test(origin) && this.#test(origin, req));
  }

  /**
   * Whether a handshake may go on: browsers always send an origin with it, and nothing else guards a WebSocket against other
   * sites. `allowsAbsent` lets clients in that are no browsers. Default false.
   */
  admits(
    req: HttpRequest,
    options: { readonly allowsAbsent?: boolean | undefined } = {},
  ): Awaitable<boolean> {
    const origin = fieldOf(req, 'origin');
    return origin === undefined ? options.allowsAbsent === true : this.allows(origin, req);
  }
}

/** A field by lower-case name, several joined with commas; without building the view of all where it can be helped. */
export function fieldOf(req: HttpRequest, name: string): string | undefined {
  return req instanceof TransportRequest ? req.field(name) : req.headers[name];
}

/** Origins that only a test which is too weak allows: ends with the name, begins with it, or has it anywhere. */
function strangersOf(code: string): string[] {
  const names = code.replaceAll('\\', '').match(/[a-z\d-]+(?:\.[a-z\d-]+)*\.[a-z]{2,}/gi) ?? [];
  return [
    UNKNOWN_ORIGIN,
    ...names
      .map((name) => name.toLowerCase())
      .flatMap((name) => [
        `https://svc-check${name}`,
        `https://${name}.svc-check.invalid`,
        `https://${name.replaceAll('.', 'x')}.invalid`,
        `https://${name.replace('.', 'x')}`,
      ]),
  ];
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
  if (origin === '*') return '"*" stands alone, not in a list';
  if (origin === 'null') return '"null" is the origin of every sandboxed frame';
  if (origin.includes('*')) return `${named} has a wildcard, and origins are compared whole`;
  if (!ORIGIN.test(origin))
    return `${named} is no origin, which is scheme://host[:port] and nothing behind it`;
  if (!/^https?:/.test(origin)) return undefined; // those of apps, which no URL parser knows
  const url = URL.parse(origin);
  return url?.origin === origin
    ? undefined
    : `${named} is not what browsers send` + (url === null ? '' : `, which is "${url.origin}"`);
}

/*
 * Whether a page of this application sent a request, by fields that scripts cannot change: `Sec-Fetch-Site`, else `Origin`.
 * A client that sends neither field is not a browser, or an old one: its requests are not judged.
 */

/** Pages that count as the application's own. */
export interface OwnPages {
  /** Other origins, as browsers send them. */
  readonly trusted: ReadonlySet<string>;
  /** Whether hosts of the same site do. */
  readonly allowsSameSite: boolean;
  /** Whether trusted proxies say how a request came; else one without TLS may have had it in front of a proxy. */
  readonly knowsScheme: boolean;
}

/** Returns the field that names a page of another origin as the sender; undefined when no field does. */
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

/** Whether an origin is the application's own. A proxy may speak TLS for us: without word from a trusted one, a request without TLS may come from either page of its host. */
export function isOwnOrigin(origin: string, req: HttpRequest, knowsScheme: boolean): boolean {
  const scheme = origin.slice(0, origin.indexOf(':'));
  if (scheme !== req.scheme && (knowsScheme || scheme !== 'https')) return false;
  const own = `${scheme}://${req.host}`;
  return origin === own || URL.parse(own)?.origin === origin; // in capitals, or with the port that is the scheme's own
}
