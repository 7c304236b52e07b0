/**
 * Adds security headers to every response, including errors. They make browsers restrict the abilities of a
 * page.
 *
 * A response gets only the fields that it does not have yet. Some fields are added only to documents, that
 * is, HTML pages.
 */
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import {
  bool,
  closest,
  defined,
  didYouMean,
  given,
  int,
  isRecord,
  oneOf,
  readOptions,
  shown,
  outOfRange,
} from '../../base/options.ts';
import { whenReady } from '../../base/promises.ts';
import { isFieldValue } from '../headers.ts';
import { JSON_TYPE, type HttpResponse } from '../response.ts';
import { readTrustProxy } from '../request/proxy.ts';
import type { OptionKind } from '../../base/options.ts';
import type { Finding } from '../../base/findings.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, MiddlewareKind, Next } from '../contracts.ts';

/** Options of `Strict-Transport-Security`, which requires browsers to use TLS (RFC 6797). */
export interface StrictTransportSecurity {
  /**
   * Time in seconds for which browsers require TLS, 0 ... 315_360_000; 0 revokes the requirement. Default
   * 31_536_000, a year.
   */
  readonly maxAgeSeconds?: number | undefined;
  /** Whether browsers require TLS for all subdomains, too. Default true. */
  readonly includeSubDomains?: boolean | undefined;
  /**
   * Allows browsers to include the domain in their built-in list of domains that require TLS. Needs
   * `includeSubDomains`, and `maxAgeSeconds` of at least a year. Default false, because removal from that
   * list takes months.
   */
  readonly preload?: boolean | undefined;
}

/** Values of the security headers; `false` omits a header. An option that is `undefined` has its default. */
export interface SecurityHeadersOptions {
  /**
   * The content security policy as text, or directives that extend or replace the default ones. Default
   * `default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'`.
   */
  readonly contentSecurityPolicy?: Directives | string | false | undefined;
  /**
   * `Strict-Transport-Security`. In production, the field is always sent, because TLS may end at a proxy that
   * `trustProxy` does not name. Elsewhere, it is sent only over https. Browsers ignore the field on
   * connections without TLS (RFC 6797 §8.1).
   */
  readonly strictTransportSecurity?: StrictTransportSecurity | false | undefined;
  /**
   * `X-Frame-Options`, for browsers that do not support `frame-ancestors`; only in documents. Default `DENY`.
   */
  readonly frameOptions?: 'DENY' | 'SAMEORIGIN' | false | undefined;
  /**
   * `Referrer-Policy`. Default `strict-origin-when-cross-origin`. With `no-referrer` browsers send forms with
   * `Origin: null`, which the CSRF check refuses.
   */
  readonly referrerPolicy?: ReferrerPolicy | false | undefined;
  /** `Cross-Origin-Opener-Policy`; only in documents. Default `same-origin`. */
  readonly crossOriginOpenerPolicy?:
    'same-origin' | 'same-origin-allow-popups' | 'noopener-allow-popups' | 'unsafe-none' | false | undefined;
  /**
   * `Cross-Origin-Resource-Policy`: sites that may embed the response without CORS. Default `same-origin`.
   */
  readonly crossOriginResourcePolicy?: 'same-origin' | 'same-site' | 'cross-origin' | false | undefined;
  /**
   * `Cross-Origin-Embedder-Policy`; only in documents. Not sent by default, because `require-corp` blocks
   * resources of other sites that are sent without CORS or `Cross-Origin-Resource-Policy`.
   */
  readonly crossOriginEmbedderPolicy?: 'require-corp' | 'credentialless' | 'unsafe-none' | false | undefined;
  /**
   * `Permissions-Policy`; only in documents. Default: pages may not use camera, microphone, location,
   * payment, screen or USB.
   */
  readonly permissionsPolicy?: string | false | undefined;
  /** Whether to send `X-Content-Type-Options: nosniff`. Default true. */
  readonly contentTypeOptions?: boolean | undefined;
}

/** Value of `Referrer-Policy`: how much of its address a page reveals in `Referer`. */
export type ReferrerPolicy = (typeof REFERRER_POLICIES)[number];
const REFERRER_POLICIES = [
  'strict-origin-when-cross-origin',
  'no-referrer',
  'same-origin',
  'strict-origin',
  'origin',
  'origin-when-cross-origin',
  'no-referrer-when-downgrade',
  'unsafe-url',
] as const;

const PERMISSIONS = 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()';
const YEAR_SECONDS = 31_536_000;
const CSP = 'Content-Security-Policy';
/** They send responses themselves, which need the security headers, so they must come later. */
const INSIDE: ReadonlySet<MiddlewareKind | undefined> = new Set([
  'trusted-host',
  'cors',
  'rate-limit',
  'concurrency-limit',
  'session',
  'csrf',
  'timeout',
  'idempotency',
]);

const nonces = new WeakMap<HttpRequest, string>();

/**
 * Returns the nonce of this request: 128 random bits in base64. The call also adds the nonce to `script-src`
 * and `style-src` of the response's policy. Browsers then run scripts and apply styles with this nonce:
 * `<script nonce="...">`.
 */
export function cspNonce(req: HttpRequest): string {
  let nonce = nonces.get(req);
  if (nonce === undefined) nonces.set(req, (nonce = randomBytes(16).toString('base64')));
  return nonce;
}

const OPTIONS = {
  contentSecurityPolicy: given<Directives | string | false>(
    'directives, a policy as text, or false',
    (value) => value === false || typeof value === 'string' || isRecord(value),
  ),
  strictTransportSecurity: given<StrictTransportSecurity | false>(
    '{ maxAgeSeconds, includeSubDomains, preload } or false',
    (value) => value === false || isRecord(value),
  ),
  frameOptions: choice(['DENY', 'SAMEORIGIN']),
  referrerPolicy: choice(REFERRER_POLICIES),
  crossOriginOpenerPolicy: choice([
    'same-origin',
    'same-origin-allow-popups',
    'noopener-allow-popups',
    'unsafe-none',
  ]),
  crossOriginResourcePolicy: choice(['same-origin', 'same-site', 'cross-origin']),
  crossOriginEmbedderPolicy: choice(['require-corp', 'credentialless', 'unsafe-none'], false),
  permissionsPolicy: given<string | false>(
    'a policy as text, or false',
    (value) => value === false || (typeof value === 'string' && value !== '' && isFieldValue(value)),
  ),
  contentTypeOptions: bool(true),
};

/** Adds security headers to every response. Fields that a response already has stay unchanged. */
export class SecurityHeadersMiddleware implements Middleware {
  readonly kind = 'security-headers';
  readonly #policy: ContentSecurityPolicy | undefined;
  /**
   * Header fields to add. The first index is 1 for HTML pages, else 0. The second index is 1 if
   * `Strict-Transport-Security` is sent, else 0.
   */
  readonly #fields: readonly (readonly (readonly string[])[])[];
  /** If true, `svc check` reports a server without TLS. */
  readonly #asksForTls: boolean;
  #isProduction = false;

  /**
   * @throws SvcError `E_CSP` for a policy that browsers would misread; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
   *   for other invalid options
   */
  constructor(options: SecurityHeadersOptions = {}) {
    const read = readOptions('SecurityHeadersMiddleware', options, OPTIONS);
    const {
      contentSecurityPolicy = {},
      strictTransportSecurity = {},
      permissionsPolicy = PERMISSIONS,
    } = read;
    this.#asksForTls = typeof read.strictTransportSecurity === 'object';
    this.#policy =
      contentSecurityPolicy === false ? undefined : new ContentSecurityPolicy(contentSecurityPolicy);
    const everywhere = fieldsOf([
      [CSP, this.#policy?.text ?? false],
      ['X-Content-Type-Options', read.contentTypeOptions && 'nosniff'],
      ['Referrer-Policy', read.referrerPolicy],
      ['Cross-Origin-Resource-Policy', read.crossOriginResourcePolicy],
    ]);
    const inDocuments = fieldsOf([
      ['X-Frame-Options', read.frameOptions],
      ['Cross-Origin-Opener-Policy', read.crossOriginOpenerPolicy],
      ['Cross-Origin-Embedder-Policy', read.crossOriginEmbedderPolicy],
      ['Permissions-Policy', permissionsPolicy],
    ]);
    const overTls = fieldsOf([
      [
        'Strict-Transport-Security',
        strictTransportSecurity !== false && transportSecurity(strictTransportSecurity),
      ],
    ]);
    this.#fields = [everywhere, [...everywhere, ...inDocuments]].map((fields) => [
      fields,
      [...fields, ...overTls],
    ]);
  }

  /** The content security policy, without a nonce. Undefined if it is switched off. @internal */
  get policy(): string | undefined {
    return this.#policy?.text;
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    return whenReady(next(), (response) => this.#protect(req, response));
  }

  *compile(view: CompiledView): Iterable<Omit<Finding, 'place'>> {
    const { env, middleware } = view;
    const subject = 'middleware security-headers';
    const sent = { rule: 'SVC211', severity: 'warning', subject } as const;
    this.#isProduction = env === 'production';
    if (
      this.#isProduction &&
      this.#asksForTls &&
      view.config('tlsCert') === undefined &&
      readTrustProxy(view.config('trustProxy')) === undefined
    ) {
      yield {
        ...sent,
        message:
          'SecurityHeadersMiddleware sends Strict-Transport-Security, so browsers require TLS, but neither a certificate nor a proxy with TLS is configured',
        remedy:
          'Name the proxy in trustProxy, set SVC_TLS_CERT and SVC_TLS_KEY, or remove strictTransportSecurity',
      };
    }
    if (this.#isProduction && this.#policy === undefined) {
      yield {
        ...sent,
        message:
          'SecurityHeadersMiddleware sends no Content-Security-Policy, so browsers run any script that an attacker inserts into a page',
        remedy: 'Remove contentSecurityPolicy: false to send the default policy, or set your own policy',
      };
    }
    const around = middleware.slice(0, middleware.indexOf(this)).filter((layer) => INSIDE.has(layer.kind));
    const misplaced = around.find((layer) => layer.kind !== 'trusted-host') ?? around[0];
    if (misplaced === undefined) return;
    yield {
      // TrustedHostMiddleware only leads to a warning: it responds to requests for other hosts, and browsers
      // do not show these responses as pages of this application
      rule: 'SVC121',
      severity: misplaced.kind === 'trusted-host' ? 'warning' : 'error',
      subject,
      message: `the middleware "${misplaced.kind}" runs before SecurityHeadersMiddleware, so responses from "${misplaced.kind}" have no security headers`,
      remedy: `Register SecurityHeadersMiddleware before ${misplaced.constructor.name}`,
    };
  }

  #protect(req: HttpRequest, response: HttpResponse): HttpResponse {
    const { flat } = response.headers;
    let fields =
      this.#fields[isDocument(response) ? 1 : 0]![this.#isProduction || req.scheme === 'https' ? 1 : 0]!;
    const nonce = nonces.get(req);
    if (nonce !== undefined && this.#policy !== undefined)
      // `fields` begins with the name and the value of the policy, so its value has index 1
      fields = fields.with(1, this.#policy.withNonce(nonce));
    for (let index = 0; index < flat.length; index += 2)
      if (HEADER_NAMES.test(flat[index]!)) return complete(response, fields);
    for (let index = 0; index < fields.length; index++) flat.push(fields[index]!);
    return response;
  }
}

/** Whether a browser displays the response as a page. */
function isDocument({ headers }: HttpResponse): boolean {
  const { flat } = headers;
  const type = flat[0] === 'Content-Type' ? flat[1]! : headers.get('content-type');
  return type !== JSON_TYPE && type !== undefined && DOCUMENT.test(type);
}

const DOCUMENT = /^\s*(?:text\/html|application\/xhtml\+xml)/i;

const HEADER_NAMES =
  /^(?:content-security-policy|x-content-type-options|referrer-policy|cross-origin-(?:resource|opener|embedder)-policy|x-frame-options|permissions-policy|strict-transport-security|x-powered-by)$/i;

/**
 * Adds the fields that the response does not have. Removes `X-Powered-By`, which may come from an upstream
 * server and reveals its software.
 */
function complete(response: HttpResponse, fields: readonly string[]): HttpResponse {
  const { headers } = response;
  headers.delete('X-Powered-By');
  for (let index = 0; index < fields.length; index += 2)
    if (!headers.has(fields[index]!)) headers.append(fields[index]!, fields[index + 1]!);
  return response;
}

function transportSecurity(options: StrictTransportSecurity): string {
  const owner = 'SecurityHeadersMiddleware strictTransportSecurity';
  const { maxAgeSeconds, includeSubDomains, preload } = readOptions(owner, options, {
    maxAgeSeconds: int(YEAR_SECONDS, 0, 10 * YEAR_SECONDS),
    includeSubDomains: bool(true),
    preload: bool(false),
  });
  if (preload && (maxAgeSeconds < YEAR_SECONDS || !includeSubDomains))
    throw outOfRange(
      owner,
      'preload',
      'requires includeSubDomains: true, and maxAgeSeconds of at least 31536000 (one year)',
      shown(maxAgeSeconds),
    );
  return `max-age=${maxAgeSeconds}${includeSubDomains ? '; includeSubDomains' : ''}${preload ? '; preload' : ''}`;
}

function choice<const T extends string>(
  words: readonly T[],
  fallback: T | false = words[0]!,
): OptionKind<T | false> {
  return {
    fallback,
    needs: `${oneOf(words, words[0]!).needs}, or false`,
    accepts: (value) => value === false || (words as readonly unknown[]).includes(value),
  };
}

function fieldsOf(pairs: readonly (readonly [name: string, value: string | false])[]): string[] {
  return pairs.flatMap(([name, value]) => (value === false ? [] : [name, value]));
}

/*
 * Directives as an object, and as the value of Content-Security-Policy (CSP Level 3):
 *   { scriptSrc: ["'self'", 'https://cdn.example'] } -> default-src 'self'; ...; script-src 'self' https://cdn.example
 * A misspelt directive is an error here, because browsers would ignore it.
 */

/** The sources of a directive: text, or a list of texts. `false` omits the directive. */
export type Sources = string | readonly string[] | false | undefined;

/** The directives of a policy, by camelCase name. Missing directives have their default values. */
export type Directives = {
  readonly [N in DirectiveName]?:
    Sources | (N extends 'upgradeInsecureRequests' | 'sandbox' ? boolean : never);
};

/** Name of a directive in camelCase, for example `scriptSrc`. */
export type DirectiveName = (typeof DIRECTIVE_NAMES)[number];

const DIRECTIVE_NAMES = [
  'defaultSrc',
  'scriptSrc',
  'scriptSrcElem',
  'scriptSrcAttr',
  'styleSrc',
  'styleSrcElem',
  'styleSrcAttr',
  'imgSrc',
  'fontSrc',
  'connectSrc',
  'mediaSrc',
  'objectSrc',
  'frameSrc',
  'childSrc',
  'workerSrc',
  'manifestSrc',
  'baseUri',
  'formAction',
  'frameAncestors',
  'sandbox',
  'upgradeInsecureRequests',
  'requireTrustedTypesFor',
  'trustedTypes',
  'reportUri',
  'reportTo',
] as const;
const WIRE_NAMES: ReadonlyMap<string, DirectiveName> = new Map(
  DIRECTIVE_NAMES.map((name) => [wireName(name), name]),
);
/** Directives whose values are not sources, so keywords and quotation marks in them are not checked. */
const FREE: ReadonlySet<string> = new Set([
  'sandbox',
  'trustedTypes',
  'reportUri',
  'reportTo',
  'upgradeInsecureRequests',
]);
/** Directives that may have no value. */
const BARE: ReadonlySet<string> = new Set(['sandbox', 'upgradeInsecureRequests', 'trustedTypes']);
const KEYWORDS = [
  'self',
  'none',
  'unsafe-inline',
  'unsafe-eval',
  'unsafe-hashes',
  'strict-dynamic',
  'report-sample',
  'wasm-unsafe-eval',
  'inline-speculation-rules',
  'script',
  'trusted-types-eval',
  'report-sha256',
  'report-sha384',
  'report-sha512',
];

/**
 * Default policy: a page loads content only from its own site, without plug-ins. No site may embed the page
 * in a frame. Forms are sent only to the page's own site.
 */
const DEFAULT_DIRECTIVES: Directives = Object.freeze({
  defaultSrc: "'self'",
  baseUri: "'none'",
  formAction: "'self'",
  frameAncestors: "'none'",
  objectSrc: "'none'",
});

export class ContentSecurityPolicy {
  /** The policy as the value of the header field, without a nonce. */
  readonly text: string;
  /** The policy, split at each place where the nonce is inserted. */
  readonly #parts: readonly string[];

  constructor(given: Directives | string) {
    const directives = typeof given === 'string' ? parse(given) : read(given);
    this.text = write(directives);
    // The nonce is added only to directives that already apply, because a new directive with only the nonce
    // would forbid all other sources. If `scriptSrcElem` and `styleSrcElem` exist, browsers use them for
    // `<script>` and `<style>`.
    for (const name of ['scriptSrc', 'styleSrc', 'scriptSrcElem', 'styleSrcElem'] as const) {
      const sources =
        directives.get(name) ?? (name.endsWith('Src') ? directives.get('defaultSrc') : undefined);
      if (sources !== undefined)
        directives.set(name, [...sources.filter((source) => source !== "'none'"), NONCE]);
    }
    this.#parts = write(directives).split(NONCE);
  }

  /** Returns the policy with a nonce. Browsers run scripts and apply styles that have this nonce. */
  withNonce(nonce: string): string {
    return this.#parts.join(`'nonce-${nonce}'`);
  }
}

/** Placeholder for the nonce. No source can contain this character. */
const NONCE = '\0';

function read(given: Readonly<Record<string, unknown>>): Map<DirectiveName, readonly string[]> {
  const directives = new Map<DirectiveName, readonly string[]>();
  for (const [name, value] of Object.entries<unknown>({ ...DEFAULT_DIRECTIVES, ...defined(given) })) {
    // a caller without type checks may pass any key
    if (!(DIRECTIVE_NAMES as readonly string[]).includes(name)) throw unknown(name, DIRECTIVE_NAMES);
    if (value === false) continue;
    const known = name as DirectiveName;
    const items: readonly unknown[] = value === true && BARE.has(name) ? [] : [value].flat();
    const wrong = items.find((item) => typeof item !== 'string');
    if (wrong !== undefined)
      throw new SvcError('E_CSP', [
        wireName(known),
        `has the value ${shown(wrong)}, but each value must be text`,
      ]);
    directives.set(
      known,
      checked(
        known,
        items
          .filter((item) => typeof item === 'string')
          .flatMap((item) => item.trim().split(/[ \t]+/))
          .filter((item) => item !== ''),
      ),
    );
  }
  return directives;
}

function parse(text: string): Map<DirectiveName, readonly string[]> {
  const directives = new Map<DirectiveName, readonly string[]>();
  for (const part of text.split(';')) {
    const [word, ...sources] = part.trim().split(/[ \t]+/);
    if (word === undefined || word === '') continue;
    const name = WIRE_NAMES.get(word.toLowerCase());
    if (name === undefined) throw unknown(word, [...WIRE_NAMES.keys()]);
    if (directives.has(name))
      throw new SvcError('E_CSP', [
        word,
        'occurs twice, but browsers use only the first directive of a name',
      ]);
    directives.set(name, checked(name, sources));
  }
  if (directives.size === 0)
    throw new SvcError('E_CSP', [
      '(none)',
      'is an empty policy, which protects nothing: to send no policy, write contentSecurityPolicy: false',
    ]);
  return directives;
}

function unknown(name: string, names: readonly string[]): SvcError {
  return new SvcError('E_CSP', [name, `is not the name of a directive${didYouMean(name, names)}`]);
}

/** Returns the sources of a directive. Throws if browsers would misread one. */
function checked(name: DirectiveName, sources: readonly string[]): readonly string[] {
  const refuse = (problem: string): never => {
    throw new SvcError('E_CSP', [wireName(name), problem]);
  };
  if (sources.length === 0 && !BARE.has(name)) refuse('needs a source: use "\'none\'" to allow nothing');
  for (const source of sources) {
    if (!/^[\x21-\x7e]+$/.test(source) || /[;,]/.test(source))
      refuse(
        `has the source ${JSON.stringify(source)}, which contains a character that is not allowed: use printable ASCII characters without ";" and ","`,
      );
    if (FREE.has(name)) continue;
    const bare = source.replace(/^'|'$/g, '');
    const isKeyword = KEYWORDS.includes(bare.toLowerCase()) || /^(?:nonce|sha256|sha384|sha512)-/i.test(bare);
    if (isKeyword && source !== `'${bare}'`)
      refuse(
        `has the source ${source}, which browsers read as a host name; the keyword needs quotation marks: "'${bare}'"`,
      );
    if (!isKeyword && source.includes("'")) {
      const near = closest(bare, KEYWORDS);
      refuse(
        `has the source ${source}, which is in quotation marks, but is not a keyword` +
          (near === undefined ? '' : `: did you mean "'${near}'"?`),
      );
    }
    if (bare.toLowerCase() === 'none' && sources.length > 1)
      refuse("has the source 'none', which must be the only source of a directive");
  }
  return sources;
}

function write(directives: ReadonlyMap<DirectiveName, readonly string[]>): string {
  return [...directives].map(([name, sources]) => [wireName(name), ...sources].join(' ')).join('; ');
}

function wireName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
