/**
 * Security headers: restrictions that browsers enforce, on every response, including errors.
 *
 * The fields are built once. For a response, the missing fields are added; fields that it already has are
 * kept. Fields that concern only documents are added only to documents.
 */
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { bool, closest, given, int, isRecord, oneOf, readOptions, shown } from '../../base/options.ts';
import { isFieldValue } from '../headers.ts';
import { HttpResponse, JSON_TYPE } from '../response.ts';
import { readTrustProxy } from '../request/proxy.ts';
import type { OptionKind } from '../../base/options.ts';
import type { Finding } from '../../base/findings.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, MiddlewareKind, Next } from '../contracts.ts';

/** Value of `Strict-Transport-Security`: the time for which browsers must use TLS (RFC 6797). */
export interface StrictTransportSecurity {
  /** Duration in seconds, 0 ... 315_360_000; 0 revokes the rule. Default 31_536_000, a year. */
  readonly maxAgeSeconds?: number | undefined;
  /** Applies the rule to all subdomains. Default true. */
  readonly includeSubDomains?: boolean | undefined;
  /**
   * Allows browsers to include the domain in their built-in list. It requires `includeSubDomains`, and
   * `maxAgeSeconds` of at least a year. Default false, because removal from that list takes months.
   */
  readonly preload?: boolean | undefined;
}

/** Which headers to send; `false` omits one. An option that is `undefined` has its default. */
export interface SecurityHeadersOptions {
  /**
   * Directives that extend or replace the default ones, or the whole policy as text. Default `default-src
   * 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'`.
   */
  readonly contentSecurityPolicy?: Directives | string | false | undefined;
  /**
   * `Strict-Transport-Security`. Sent over https, and in production always, because a proxy that `trustProxy`
   * does not name may terminate TLS. Browsers ignore the field if they use no TLS (RFC 6797 §8.1).
   */
  readonly strictTransportSecurity?: StrictTransportSecurity | false | undefined;
  /** `X-Frame-Options`, for browsers without `frame-ancestors`; documents only. Default `DENY`. */
  readonly frameOptions?: 'DENY' | 'SAMEORIGIN' | false | undefined;
  /**
   * `Referrer-Policy`. Default `strict-origin-when-cross-origin`. With `no-referrer` browsers send forms with
   * `Origin: null`, which checks of the origin refuse.
   */
  readonly referrerPolicy?: ReferrerPolicy | false | undefined;
  /** `Cross-Origin-Opener-Policy`; documents only. Default `same-origin`. */
  readonly crossOriginOpenerPolicy?:
    'same-origin' | 'same-origin-allow-popups' | 'noopener-allow-popups' | 'unsafe-none' | false | undefined;
  /**
   * `Cross-Origin-Resource-Policy`: sites that may embed the response without CORS. Default `same-origin`.
   */
  readonly crossOriginResourcePolicy?: 'same-origin' | 'same-site' | 'cross-origin' | false | undefined;
  /**
   * `Cross-Origin-Embedder-Policy`; documents only. Default: not sent, because then everything that a page
   * embeds must be sent with matching fields.
   */
  readonly crossOriginEmbedderPolicy?: 'require-corp' | 'credentialless' | 'unsafe-none' | false | undefined;
  /** `Permissions-Policy`; documents only. Default: no camera, microphone, location, payment, screen, USB. */
  readonly permissionsPolicy?: string | false | undefined;
  /** `X-Content-Type-Options: nosniff`. Default true. */
  readonly contentTypeOptions?: boolean | undefined;
}

/** How much of its address a page sends in `Referer`. */
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
/** Kinds of middleware that send responses to browsers themselves, so they must be inside this one. */
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

/** Nonces of requests for which cspNonce() was called. */
const nonces = new WeakMap<HttpRequest, string>();

/**
 * Returns the nonce of this request's policy: 128 random bits in base64, new for each request. The call adds
 * it to `script-src` and `style-src` of the response, so that scripts and styles with it run: `<script
 * nonce="...">`.
 */
export function cspNonce(req: HttpRequest): string {
  let nonce = nonces.get(req);
  if (nonce === undefined) nonces.set(req, (nonce = randomBytes(16).toString('base64')));
  return nonce;
}

/** Adds security headers to every response. Fields that a response already has stay unchanged. */
export class SecurityHeadersMiddleware implements Middleware {
  readonly kind = 'security-headers';
  readonly #policy: ContentSecurityPolicy | undefined;
  /** Fields to add. The first index is 1 for documents, the second is 1 over https. */
  readonly #fields: readonly (readonly (readonly string[])[])[];
  /**
   * Whether the application has set `strictTransportSecurity`. If so, `svc check` verifies that there is TLS.
   */
  readonly #asksForTls: boolean;
  #isProduction = false;

  /** @throws SvcError `E_CSP`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  constructor(options: SecurityHeadersOptions = {}) {
    const read = readOptions('SecurityHeadersMiddleware', options, {
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
    });
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

  /** Content security policy without a nonce, or undefined. @internal */
  get policy(): string | undefined {
    return this.#policy?.text;
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const response = next();
    return response instanceof HttpResponse
      ? this.#protect(req, response)
      : response.then((settled) => this.#protect(req, settled));
  }

  *compile(view: CompiledView): Iterable<Omit<Finding, 'place'>> {
    const { env, middleware } = view;
    this.#isProduction = env === 'production';
    if (
      this.#isProduction &&
      this.#asksForTls &&
      view.config('tlsCert') === undefined &&
      readTrustProxy(view.config('trustProxy')) === undefined
    ) {
      yield {
        rule: 'SVC211',
        severity: 'warning',
        subject: 'middleware security-headers',
        message:
          'the middleware sends HSTS, so browsers require TLS, but neither a certificate nor a proxy with TLS is configured',
        remedy:
          'Declare the proxy with trustProxy, set SVC_TLS_CERT and SVC_TLS_KEY, or remove strictTransportSecurity',
      };
    }
    if (this.#isProduction && this.#policy === undefined) {
      yield {
        rule: 'SVC211',
        severity: 'warning',
        subject: 'middleware security-headers',
        message:
          'the middleware sends no content security policy, so a script that an attacker gets into a page may do anything',
        remedy: 'Remove contentSecurityPolicy: false; the default policy suits an API',
      };
    }
    const around = middleware.slice(0, middleware.indexOf(this)).filter((layer) => INSIDE.has(layer.kind));
    const misplaced = around.find((layer) => layer.kind !== 'trusted-host') ?? around[0];
    if (misplaced === undefined) return;
    yield {
      // TrustedHostMiddleware outside is only a warning: it refuses requests for other hosts, so every page
      // of this application has the fields.
      rule: 'SVC121',
      severity: misplaced.kind === 'trusted-host' ? 'warning' : 'error',
      subject: 'middleware security-headers',
      message: `the middleware "${misplaced.kind}" runs before this one, so its own responses have no security headers`,
      remedy: `Register SecurityHeadersMiddleware before ${misplaced.constructor.name}`,
    };
  }

  #protect(req: HttpRequest, response: HttpResponse): HttpResponse {
    const { flat } = response.headers;
    let fields =
      this.#fields[isDocument(response) ? 1 : 0]![this.#isProduction || req.scheme === 'https' ? 1 : 0]!;
    const nonce = nonces.get(req);
    if (nonce !== undefined && this.#policy !== undefined)
      // index 1, because the policy is the first field
      fields = fields.with(1, this.#policy.withNonce(nonce));
    for (let index = 0; index < flat.length; index += 2)
      if (HEADER_NAMES.test(flat[index]!)) return complete(response, fields);
    for (let index = 0; index < fields.length; index++) flat.push(fields[index]!);
    return response;
  }
}

/** Whether a browser would display the response as a page. */
function isDocument({ headers }: HttpResponse): boolean {
  const { flat } = headers;
  const type = flat[0] === 'Content-Type' ? flat[1]! : headers.get('content-type');
  return type !== JSON_TYPE && type !== undefined && DOCUMENT.test(type);
}

const DOCUMENT = /^\s*(?:text\/html|application\/xhtml\+xml)/i;

/** Names of the fields that this middleware adds or removes. */
const HEADER_NAMES =
  /^(?:content-security-policy|x-content-type-options|referrer-policy|cross-origin-(?:resource|opener|embedder)-policy|x-frame-options|permissions-policy|strict-transport-security|x-powered-by)$/i;

/**
 * Adds missing fields. Removes `X-Powered-By`, which may come from an upstream server and reveals its
 * software.
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
    throw new SvcError('E_OPTION_RANGE', [
      owner,
      'preload',
      'needs includeSubDomains and a maxAgeSeconds of a year or more',
      shown(maxAgeSeconds),
    ]);
  return `max-age=${maxAgeSeconds}${includeSubDomains ? '; includeSubDomains' : ''}${preload ? '; preload' : ''}`;
}

/** Returns the reader of an option that is one of the words (by default the first) or false. */
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
 * Content-Security-Policy (CSP Level 3): builds the field value from an object of directives or text, and
 * checks it when the middleware is constructed.
 *
 * Example:
 *   { scriptSrc: ["'self'", 'https://cdn.example'] } -> default-src 'self'; ...; script-src 'self' https://cdn.example
 *
 * Browsers ignore unknown directives and keywords, so a misspelt one would restrict nothing. Therefore it is
 * an error here.
 */

/** The sources of a directive: one text, or a list of texts. `false` omits the directive. */
export type Sources = string | readonly string[] | false | undefined;

/** Directives by camelCase name. Missing ones have the values of {@link DEFAULT_DIRECTIVES}. */
export type Directives = {
  readonly [N in DirectiveName]?:
    Sources | (N extends 'upgradeInsecureRequests' | 'sandbox' ? boolean : never);
};

/** A directive's name in camelCase. */
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
/** Directives whose values are not sources. The check of sources skips them. */
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
 * Default policy: everything from this site only, no plug-ins, no embedding, no other base address, forms
 * only to this site.
 */
const DEFAULT_DIRECTIVES: Directives = Object.freeze({
  defaultSrc: "'self'",
  baseUri: "'none'",
  formAction: "'self'",
  frameAncestors: "'none'",
  objectSrc: "'none'",
});

/** A checked policy, ready to send. */
export class ContentSecurityPolicy {
  /** The policy as field value, without a nonce. */
  readonly text: string;
  /** The text of the policy, split where a nonce is inserted. */
  readonly #parts: readonly string[];

  /** @throws SvcError `E_CSP` */
  constructor(given: Directives | string) {
    const directives = typeof given === 'string' ? parse(given) : read(given);
    this.text = write(directives);
    // adds the nonce only to directives that exist, because a new directive would be a new restriction.
    // `scriptSrcElem` and `styleSrcElem` override the others for elements
    for (const name of ['scriptSrc', 'styleSrc', 'scriptSrcElem', 'styleSrcElem'] as const) {
      const sources =
        directives.get(name) ?? (name.endsWith('Src') ? directives.get('defaultSrc') : undefined);
      if (sources !== undefined)
        directives.set(name, [...sources.filter((source) => source !== "'none'"), NONCE]);
    }
    this.#parts = write(directives).split(NONCE);
  }

  /** The policy with a nonce: scripts and styles that carry the nonce may run. */
  withNonce(nonce: string): string {
    return this.#parts.join(`'nonce-${nonce}'`);
  }
}

/** Placeholder of the nonce; no source can contain it. */
const NONCE = '\0';

function read(given: Readonly<Record<string, unknown>>): Map<DirectiveName, readonly string[]> {
  const directives = new Map<DirectiveName, readonly string[]>();
  const named = Object.entries(given).filter(([, value]) => value !== undefined);
  for (const [name, value] of Object.entries({ ...DEFAULT_DIRECTIVES, ...Object.fromEntries(named) }) as [
    string,
    unknown,
  ][]) {
    // checked, because at run time the object may have any key
    if (!(DIRECTIVE_NAMES as readonly string[]).includes(name)) throw unknown(name, DIRECTIVE_NAMES);
    if (value === false) continue;
    const known = name as DirectiveName; // the cast is safe: includes() has checked the name
    const isText = (item: unknown): item is string => typeof item === 'string';
    const items: readonly unknown[] =
      value === true && BARE.has(name) ? [] : Array.isArray(value) ? value : [value];
    const wrong = items.find((item) => !isText(item));
    if (wrong !== undefined)
      throw new SvcError('E_CSP', [wireName(known), `needs texts as its sources, found ${shown(wrong)}`]);
    directives.set(
      known,
      checked(
        known,
        items
          .filter(isText)
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
        'is a directive that occurs twice, but browsers use only the first',
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
  const near = closest(name, names);
  return new SvcError('E_CSP', [
    name,
    'is not a directive of Content-Security-Policy' + (near === undefined ? '' : `: did you mean "${near}"?`),
  ]);
}

/** Checks the sources of a directive. Throws if browsers would misread one. */
function checked(name: DirectiveName, sources: readonly string[]): readonly string[] {
  const refuse = (problem: string): never => {
    throw new SvcError('E_CSP', [wireName(name), problem]);
  };
  if (sources.length === 0 && !BARE.has(name)) refuse('needs a source: use "\'none\'" to allow nothing');
  for (const source of sources) {
    if (!/^[\x21-\x7e]+$/.test(source) || /[;,]/.test(source))
      refuse(`has the source ${JSON.stringify(source)}, whose characters are not all allowed in a policy`);
    if (FREE.has(name)) continue;
    const bare = source.replace(/^'|'$/g, '');
    const isKeyword = KEYWORDS.includes(bare.toLowerCase()) || /^(?:nonce|sha256|sha384|sha512)-/i.test(bare);
    if (isKeyword && source !== `'${bare}'`)
      refuse(`has the source ${source}, which is a host unless it is quoted: "'${bare}'"`);
    if (!isKeyword && source.includes("'")) {
      const near = closest(bare, KEYWORDS);
      refuse(
        `has the source ${source}, which is not a keyword` +
          (near === undefined ? '' : `: did you mean "'${near}'"?`),
      );
    }
    if (bare.toLowerCase() === 'none' && sources.length > 1)
      refuse("has the source 'none', which must be the only one");
  }
  return sources;
}

function write(directives: ReadonlyMap<DirectiveName, readonly string[]>): string {
  return [...directives].map(([name, sources]) => [wireName(name), ...sources].join(' ')).join('; ');
}

function wireName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
