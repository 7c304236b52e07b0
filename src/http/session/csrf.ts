/**
 * CSRF middleware: a request that changes state must prove that a page of this application sent it.
 *
 * Requests with a safe method or an exempt path pass. Any other request passes if it contains a token of its
 * session or visitor, and one of these conditions holds:
 *   - `Sec-Fetch-Site` is `same-origin` or `none`
 *   - `Sec-Fetch-Site` is absent, and `Origin` is absent or the application's own
 *   - `Origin` is one of `trustedOrigins`
 * All other requests get 403, and the logger svc_security writes one line.
 *
 * Syntax of a token, 87 characters. `kind` is `session` or `visitor`, and `id` is the id of the session or
 * visitor:
 *   base64url(32 random bytes) "." base64url(HMAC-SHA-256(key, kind ":" length(id) ":" id "." random part))
 *
 * A visitor without a session gets a random visitor id in a cookie when a token is first requested. So login
 * forms are protected, too.
 *
 * Each token has a new random part, so an attacker cannot guess a token from the sizes of compressed pages
 * (the BREACH attack).
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { Forbidden, SvcError } from '../../base/errors.ts';
import { hmacSha256 } from '../../crypto/keys.ts';
import { bool, didYouMean, given, isObject, readOptions } from '../../base/options.ts';
import { Exemptions, methodsOf } from '../middleware/exemptions.ts';
import { parseParameters } from '../headers.ts';
import { whenReady } from '../../base/promises.ts';
import { OneApplication } from '../pipeline.ts';
import { readTrustProxy } from '../request/proxy.ts';
import { foreignPage } from '../origins.ts';
import { SecurityLog } from '../security-log.ts';
import { CookieDefinition, MissingTls, keepPrivate } from './cookie.ts';
import { RequestSession, randomId } from './values.ts';
import { SessionMiddleware, ringOf } from './middleware.ts';
import { stateKey } from '../state.ts';
import type { Finding } from '../../base/findings.ts';
import type { Keyring } from '../../crypto/keys.ts';
import type {
  Awaitable,
  CompiledRoute,
  CompiledView,
  HttpRequest,
  Middleware,
  Next,
  SecurityRequirement,
  Services,
  StateKey,
} from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { OwnPages } from '../origins.ts';
import type { SessionCookieOptions } from './cookie.ts';

/** Options of {@link CSRFMiddleware}. An option that is `undefined` has its default. */
export interface CSRFOptions {
  /**
   * Path templates of requests that need no token, because the handler verifies the sender in another way. A
   * template exempts the route with the same template. A template that ends with `{p:path}` exempts every
   * route below that path.
   *
   * A template such as `/hooks/github` exempts this path, even if it belongs to the route `/hooks/{name}`.
   * `/{tenant}/hook` does not exempt the more specific route `/account/hook`. A route with `meta: { csrf:
   * false }` is exempt, too.
   */
  readonly exempt?: readonly string[] | undefined;
  /**
   * Other origins whose pages may send requests with a token: `['https://admin.example']`. List the
   * application's own origin only if a proxy changes `Host`.
   */
  readonly trustedOrigins?: readonly string[] | undefined;
  /**
   * Whether other hosts of the same site may send requests with a token. Default false, because such a host
   * may belong to another owner.
   */
  readonly allowSameSite?: boolean | undefined;
  /**
   * Whether requests with `Authorization: Bearer ...` and without cookies need no token, because browsers
   * never add this field by themselves. Default false.
   */
  readonly exemptBearer?: boolean | undefined;
  /**
   * Name and attributes of the cookie for visitors without a session. Default name `svc_csrf`, with the
   * prefix `__Host-` under the same conditions as the session cookie.
   */
  readonly cookie?: SessionCookieOptions | undefined;
}

/**
 * Name of the request header field that contains the token. The form field `_csrf_token` may contain it
 * instead.
 */
const TOKEN_HEADER = 'x-csrf-token';
const TOKEN_FIELD = '_csrf_token';

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);
const TOKEN = /^[\w-]{43}\.[\w-]{43}$/;
const TOKEN_CHARACTERS = 87;
const ID = /^[\w-]{43}$/;
/** Request header fields that decide whether a request passes, so the response lists them in `Vary`. */
const VARYING = ['Sec-Fetch-Site', 'Origin'] as const;

type Reason =
  'site' | 'origin' | 'token_absent' | 'token_twice' | 'token_malformed' | 'token_wrong' | 'visitor_unknown';

const CSRF: StateKey<RequestProtection> = stateKey('csrf');

/**
 * Refuses requests that change state if pages of other sites have made a browser send them. Register it after
 * SessionMiddleware.
 */
export class CSRFMiddleware implements Middleware {
  readonly kind = 'csrf';
  readonly #exempt: Exemptions;
  readonly #application = new OneApplication();
  #own: OwnPages;
  readonly #exemptsBearer: boolean;
  readonly #cookie: CookieDefinition;
  #secrets: readonly string[] | undefined;
  #ring!: Keyring;
  #services!: Services;
  #audit!: SecurityLog;
  #missingTls!: MissingTls;

  /**
   * @throws SvcError `E_PATH_TEMPLATE` for an `exempt` template with wrong syntax, `E_COOKIE` for an invalid
   *   `cookie`; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for other invalid options
   */
  constructor(options: CSRFOptions = {}) {
    const owner = 'CSRFMiddleware';
    const {
      exempt = [],
      trustedOrigins = [],
      allowSameSite,
      exemptBearer,
      cookie,
    } = readOptions(owner, options, {
      exempt: given<readonly string[]>('a list of path templates', Array.isArray),
      trustedOrigins: given<readonly string[]>(
        'a list of origins as browsers send them, such as "https://admin.example"',
        isOrigins,
      ),
      allowSameSite: bool(false),
      exemptBearer: bool(false),
      cookie: given<SessionCookieOptions>('an object', isObject),
    });
    this.#exempt = new Exemptions(exempt);
    this.#own = { trusted: new Set(trustedOrigins), allowsSameSite: allowSameSite, knowsScheme: false };
    this.#exemptsBearer = exemptBearer;
    this.#cookie = new CookieDefinition(`${owner} cookie`, 'svc_csrf', cookie);
  }

  /**
   * Names of settings that must contain a secret. This is `authSecret` if the application has a session
   * middleware of its own, not SessionMiddleware. Otherwise undefined.
   */
  get secrets(): readonly string[] | undefined {
    return this.#secrets;
  }

  *compile(view: CompiledView): Generator<Omit<Finding, 'place'>> {
    const subject = 'middleware csrf';
    const stranger = this.#application.claim(subject, view);
    if (stranger !== undefined) return yield stranger;
    const session = view.middleware
      .slice(0, view.middleware.indexOf(this))
      .find((layer) => layer.kind === 'session');
    if (session === undefined) {
      const isBehind = view.middleware.some((layer) => layer.kind === 'session');
      yield {
        rule: 'SVC121',
        severity: 'error',
        subject,
        message: isBehind
          ? 'the session middleware is registered after the CSRF middleware, but each CSRF token must belong to a session'
          : 'no session middleware is registered, but each CSRF token must belong to a session',
        remedy:
          'Register the session middleware first: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
      };
    }
    yield* this.#unusedExemptions(subject, view.routes);
    yield* this.#cookie.findings(subject, view.env);
    const isOurs = session instanceof SessionMiddleware;
    this.#secrets = session === undefined || isOurs ? undefined : ['authSecret'];
    const ring = isOurs ? session.ring : ringOf(view);
    if (ring === undefined) return; // no secret is set, which `svc check` reports by rule SVC205
    this.#ring = ring.derive('svc csrf');
    this.#services = view.services;
    this.#audit = SecurityLog.of(view.services);
    this.#missingTls ??= new MissingTls(this.#audit);
    this.#own = { ...this.#own, knowsScheme: readTrustProxy(view.config('trustProxy')) !== undefined };
  }

  /**
   * Whether requests to a route need a token if they have exactly these credentials. Without `credentials`: whether any
   * request to the route may need one.
   * @internal
   */
  covers(route: CompiledRoute, credentials?: readonly SecurityRequirement[]): boolean {
    if (SAFE_METHODS.has(route.method) || this.#exempt.hasAll(route)) return false;
    if (!this.#exemptsBearer) return true;
    const isCertain = ({ isOptional }: SecurityRequirement): boolean =>
      credentials !== undefined || isOptional !== true;
    const sent = credentials ?? route.security;
    return !sent.some((one) => one.scheme === 'bearer' && isCertain(one)) || sent.some(isCookie);
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const protection = new RequestProtection(req, {
      ring: this.#ring,
      cookie: this.#cookie,
      services: this.#services,
      missingTls: this.#missingTls,
    });
    req.state.set(CSRF, protection);
    if (SAFE_METHODS.has(req.method) || this.#isExempt(req)) return this.#pass(protection, next, false);
    const reason = foreignPage(req, this.#own) ?? (protection.hasVisitor ? undefined : 'visitor_unknown');
    if (reason !== undefined) throw this.#refusal(req, reason);
    return this.#checked(req, protection, next);
  }

  async #checked(req: HttpRequest, protection: RequestProtection, next: Next): Promise<HttpResponse> {
    const token = await tokenOf(req);
    const reason = token.kind === 'found' ? protection.issueOf(token.text) : token.reason;
    if (reason !== undefined) throw this.#refusal(req, reason);
    return this.#pass(protection, next, true);
  }

  #pass(protection: RequestProtection, next: Next, isChecked: boolean): Awaitable<HttpResponse> {
    const finish = (response: HttpResponse): HttpResponse => {
      if (isChecked) response.headers.vary(...VARYING);
      protection.finish(response);
      return response;
    };
    const response = next();
    return whenReady(response, finish);
  }

  *#unusedExemptions(subject: string, routes: readonly CompiledRoute[]): Generator<Omit<Finding, 'place'>> {
    const isSafe = ({ method }: CompiledRoute): boolean => SAFE_METHODS.has(method);
    const checked = routes.filter((route) => !isSafe(route));
    for (const template of this.#exempt.enter(checked)) {
      const exemption = new Exemptions([template]);
      const methods = methodsOf(
        routes.filter((route) => isSafe(route) && exemption.enter([route]).length === 0),
      );
      const found = { rule: 'SVC121', severity: 'warning', subject } as const;
      if (methods !== '')
        yield {
          ...found,
          message: `the path template "${template}" in the option "exempt" has no effect: it matches only routes with ${methods}, and CSRFMiddleware checks no such requests`,
          remedy:
            'Remove the template. If it means a route with a method such as POST, use the path template of that route',
        };
      else
        yield {
          ...found,
          message:
            `the path template "${template}" in the option "exempt" matches no route` +
            didYouMean(template, new Set(checked.map((route) => route.template))),
          remedy:
            'Use the path template of a route, or end the template in {rest:path} to exempt all routes below a path',
        };
    }
  }

  #isExempt(req: HttpRequest): boolean {
    if (this.#exempt.has(req)) return true;
    return (
      this.#exemptsBearer &&
      req.headers['cookie'] === undefined &&
      /^Bearer /i.test(req.headers['authorization'] ?? '')
    );
  }

  #refusal(req: HttpRequest, reason: Reason): Forbidden {
    this.#audit.refused('malicious_csrf', req, { reason });
    return new Forbidden(
      reason === 'site' || reason === 'origin'
        ? 'The request was sent by a page of another origin'
        : 'The request has no valid CSRF token to prove that a page of this application sent the request',
      { code: 'csrf_failed', headers: { Vary: VARYING.join(', '), 'Cache-Control': 'no-store' } },
    );
  }
}

function isCookie({ scheme, credential }: SecurityRequirement): boolean {
  return (credential?.in ?? (scheme === 'session' ? 'cookie' : 'header')) === 'cookie';
}

/**
 * Returns a CSRF token for the client of this request. Pages send the token back in the header field
 * `X-CSRF-Token`, or in the form field `_csrf_token`. In a multipart form, this field must come before the
 * first file.
 *
 * Each call returns a new token. All tokens stay valid until the session id changes. So call this function
 * after `session.regenerate()`, and after the first `session.set()`.
 *
 * Shared caches do not store the response. Its `Cache-Control` is `no-store` by default.
 *
 * @throws SvcError `E_CSRF_ABSENT` without CSRF middleware, `E_SESSION_SENT` after the handler has returned
 *   its response
 */
export function csrfToken(req: HttpRequest): string {
  if (!req.state.has(CSRF)) throw new SvcError('E_CSRF_ABSENT', []);
  return req.state.get(CSRF).token();
}

/** Returns a token like {@link csrfToken}, but undefined without CSRF middleware. @internal */
export function csrfTokenIfAny(req: HttpRequest): string | undefined {
  return req.state.has(CSRF) ? req.state.get(CSRF).token() : undefined;
}

/** Returns HTML for a form: a hidden input with a new CSRF token. @throws SvcError like {@link csrfToken} */
export function csrfField(req: HttpRequest): string {
  // the token needs no escaping, because it is base64url
  return `<input type="hidden" name="${TOKEN_FIELD}" value="${csrfToken(req)}">`;
}

interface ProtectionDeps {
  readonly ring: Keyring;
  readonly cookie: CookieDefinition;
  readonly services: Services;
  readonly missingTls: MissingTls;
}

/** Creates and verifies the CSRF tokens of one request. */
class RequestProtection {
  readonly #req: HttpRequest;
  readonly #deps: ProtectionDeps;
  /** Visitor id that this request has created. Undefined if the client has sent one, or needs none. */
  #mintedId: string | undefined;
  #isAsked = false;
  #isFinished = false;

  constructor(req: HttpRequest, deps: ProtectionDeps) {
    this.#req = req;
    this.#deps = deps;
  }

  /** If false, no token of this request can be valid. */
  get hasVisitor(): boolean {
    return !this.#req.session.isNew || this.#visitorId() !== undefined;
  }

  token(): string {
    if (this.#isFinished) throw new SvcError('E_SESSION_SENT', ['CSRF tokens']);
    this.#isAsked = true;
    const { session } = this.#req;
    const isKept = session instanceof RequestSession ? session.isKept : !session.isNew;
    const subject = isKept
      ? ofSession(session.id)
      : ofVisitor(this.#visitorId() ?? (this.#mintedId ??= randomId()));
    const random = randomBytes(32).toString('base64url');
    return `${random}.${mac(this.#deps.ring.current, subject, random)}`;
  }

  issueOf(token: string): Reason | undefined {
    if (token.length !== TOKEN_CHARACTERS || !TOKEN.test(token)) return 'token_malformed';
    const { session } = this.#req;
    const visitorId = this.#visitorId();
    // `visitorId` is defined: without a session, the caller has checked `hasVisitor`
    const subject = session.isNew ? ofVisitor(visitorId!) : ofSession(session.id);
    const given = Buffer.from(token.slice(44));
    const isKnown = this.#deps.ring.keys.some((key) =>
      timingSafeEqual(Buffer.from(mac(key, subject, token.slice(0, 43))), given),
    );
    return isKnown ? undefined : 'token_wrong';
  }

  finish(response: HttpResponse): void {
    this.#isFinished = true;
    if (!this.#isAsked) return;
    if (this.#mintedId !== undefined) {
      const { cookie, services, missingTls } = this.#deps;
      const on = cookie.on(this.#req, services.env);
      cookie.set(response, on, this.#mintedId);
      missingTls.notice(this.#req, on); // warns that browsers may ignore the cookie
    }
    response.headers.vary('Cookie');
    keepPrivate(response.headers, 'no-store');
  }

  #visitorId(): string | undefined {
    const { cookie, services } = this.#deps;
    const id = this.#req.cookies[cookie.on(this.#req, services.env).name];
    return id !== undefined && ID.test(id) ? id : undefined;
  }
}

/**
 * Returns the text that identifies a session in a token. Visitor ids get another prefix: a visitor may choose
 * any id, and a token for this id must not be valid for a session.
 */
function ofSession(id: string): string {
  return `session:${id.length}:${id}`;
}
function ofVisitor(id: string): string {
  return `visitor:${id.length}:${id}`;
}

function mac({ key }: Keyring['current'], subject: string, random: string): string {
  return hmacSha256(key, `${subject}.${random}`);
}

type FoundToken =
  { readonly kind: 'found'; readonly text: string } | { readonly kind: 'none'; readonly reason: Reason };

/**
 * Returns the token of a request, from the header field or the form field. If both are sent, they must be
 * equal. The query is not read, because URLs appear in logs and browser histories.
 *
 * A multipart body is read only up to its first file, and at most 64 KiB, so no file is received before the
 * check. The handler can still read or stream the whole body. If the header field contains a token, the
 * multipart body is not read.
 */
async function tokenOf(req: HttpRequest): Promise<FoundToken> {
  const header = req.headers[TOKEN_HEADER];
  const { value: type } = parseParameters(req.headers['content-type'] ?? '');
  let fields: readonly string[] = [];
  if (type === 'application/x-www-form-urlencoded')
    fields = (await req.form()).getAll(TOKEN_FIELD); // the handler can call form() again
  else if (type === 'multipart/form-data' && header === undefined)
    fields = (await req.leadingFields()).getAll(TOKEN_FIELD);
  const tokens = header === undefined ? fields : [header, ...fields];
  const [text] = tokens;
  if (text === undefined) return { kind: 'none', reason: 'token_absent' };
  return fields.length > 1 || tokens.some((token) => token !== text)
    ? { kind: 'none', reason: 'token_twice' }
    : { kind: 'found', text };
}

function isOrigins(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.every(
      (origin) =>
        typeof origin === 'string' && /^https?:/.test(origin) && URL.parse(origin)?.origin === origin,
    )
  );
}
