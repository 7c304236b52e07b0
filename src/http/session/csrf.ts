/**
 * CSRF middleware: a state-changing request must prove that a page of this application sent it.
 *
 * How a request is decided:
 *   safe method, exempt path -----------------------------------------------------------> passes
 *   Sec-Fetch-Site: same-origin, none -\
 *   none, but Origin: our own          +-> token of this session, or of this visitor? --> passes
 *   neither (no browser)               /
 *   trusted Origin, whatever the site -/        everything else: 403, and one line of the logger svc_security
 *
 * The token:
 *   token = random "." HMAC-SHA-256(key, kind ":" length(id) ":" id "." random)     both base64url, 87 characters
 *
 * The id is that of the session. A visitor without a session gets a random id in a cookie when a token is
 * first requested, so login forms are protected, too. Each token has a new random part, so the size of
 * compressed pages reveals nothing about a token.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { Forbidden, SvcError } from '../../base/errors.ts';
import { hmacSha256 } from '../../crypto/keys.ts';
import { bool, closest, given, isObject, readOptions } from '../../base/options.ts';
import { Exemptions } from '../middleware/exemptions.ts';
import { parseParameters } from '../headers.ts';
import { isThenable } from '../../base/promises.ts';
import { OneApplication } from '../pipeline.ts';
import { readTrustProxy } from '../request/proxy.ts';
import { foreignPage } from '../origins.ts';
import { SecurityLog } from '../security-log.ts';
import { KeptCookie, MissingTls, keepPrivate } from './cookie.ts';
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
  Services,
  StateKey,
} from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { OwnPages } from '../origins.ts';
import type { SessionCookieOptions } from './cookie.ts';

/** Options of the check. An option that is `undefined` has its default. */
export interface CSRFOptions {
  /**
   * Path templates of requests that are not checked, because another check proves who has sent them. A
   * template exempts the route with that template, the path that is equal to it, and with `{p:path}` at its
   * end every route below. `/{tenant}/hook` does not exempt the route `/account/hook`. A route exempts itself
   * by `meta: { csrf: false }`.
   */
  readonly exempt?: readonly string[] | undefined;
  /**
   * Other origins whose pages may send requests with a token: `['https://admin.example']`. The application's
   * own origin need not be listed, unless a proxy changes `Host`.
   */
  readonly trustedOrigins?: readonly string[] | undefined;
  /**
   * Accepts requests from other hosts of the same site. Default false: such a host may belong to another
   * owner.
   */
  readonly allowSameSite?: boolean | undefined;
  /**
   * Accepts requests that have `Authorization: Bearer ...` and no cookie, because browsers never add this
   * field by themselves. Default false.
   */
  readonly exemptBearer?: boolean | undefined;
  /**
   * Cookie of visitors without a session. Default name `svc_csrf`; it gets the prefix `__Host-` like the
   * cookie of the session.
   */
  readonly cookie?: SessionCookieOptions | undefined;
}

/** Request header field, and form field, with the token. */
const TOKEN_HEADER = 'x-csrf-token';
const TOKEN_FIELD = '_csrf_token';

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);
const TOKEN = /^[\w-]{43}\.[\w-]{43}$/;
const TOKEN_CHARACTERS = 87;
const ID = /^[\w-]{43}$/;
/** Request fields that decide about a checked request, so its response names them in `Vary`. */
const VARYING = ['Sec-Fetch-Site', 'Origin'] as const;

type Reason =
  'site' | 'origin' | 'token_absent' | 'token_twice' | 'token_malformed' | 'token_wrong' | 'visitor_unknown';

const CSRF: StateKey<RequestProtection> = stateKey('csrf');

/**
 * Refuses state-changing requests that pages of other sites have made a browser send. Use it inside the
 * session middleware.
 */
export class CSRFMiddleware implements Middleware {
  readonly kind = 'csrf';
  readonly #exempt: Exemptions;
  readonly #application = new OneApplication();
  #own: OwnPages;
  readonly #exemptsBearer: boolean;
  readonly #cookie: KeptCookie;
  #secrets: readonly string[] | undefined;
  /** Set when the application is compiled. */
  #ring!: Keyring;
  #services!: Services;
  #audit!: SecurityLog;
  #missingTls!: MissingTls;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_PATH_TEMPLATE`, `E_COOKIE` */
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
    this.#cookie = new KeptCookie(`${owner} cookie`, 'svc_csrf', cookie);
  }

  /**
   * Names of required secrets. Undefined if the framework's session middleware provides the keys; otherwise
   * the application's secret is required.
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
          ? 'the session middleware is registered after the CSRF middleware, which has no session to bind a token to'
          : 'no session middleware is registered before the CSRF middleware, which has no session to bind a token to',
        remedy:
          'Register the session first: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
      };
    }
    yield* this.#unusedExemptions(subject, view.routes);
    yield* this.#cookie.findings(subject, view.env);
    const isOurs = session instanceof SessionMiddleware;
    this.#secrets = session === undefined || isOurs ? undefined : ['authSecret'];
    const ring = isOurs ? session.ring : ringOf(view);
    if (ring === undefined) return; // the secret is missing, which rule SVC205 reports
    this.#ring = ring.derive('svc csrf');
    this.#services = view.services;
    this.#audit = SecurityLog.of(view.services);
    this.#missingTls ??= new MissingTls(this.#audit);
    this.#own = { ...this.#own, knowsScheme: readTrustProxy(view.config('trustProxy')) !== undefined };
  }

  /** Whether requests of a route need a token. @internal */
  covers(route: CompiledRoute): boolean {
    if (SAFE_METHODS.has(route.method) || this.#exempt.hasAll(route)) return false;
    return !(this.#exemptsBearer && route.security.some(({ scheme }) => scheme === 'bearer'));
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
    return isThenable(response) ? response.then(finish) : finish(response);
  }

  *#unusedExemptions(subject: string, routes: readonly CompiledRoute[]): Generator<Omit<Finding, 'place'>> {
    for (const template of this.#exempt.enter(routes.filter(({ method }) => !SAFE_METHODS.has(method)))) {
      const near = closest(template, new Set(routes.map((route) => route.template)));
      yield {
        rule: 'SVC121',
        severity: 'warning',
        subject,
        message:
          `the exempt path "${template}" matches no route that is checked` +
          (near === undefined || near === template ? '' : `: did you mean "${near}"?`),
        remedy: 'Use the path template of the route, or end it in {rest:path} for all routes below',
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
    return new Forbidden('The request does not prove that a page of this application has sent it', {
      code: 'csrf_failed',
      headers: { Vary: VARYING.join(', '), 'Cache-Control': 'no-store' },
    });
  }
}

/**
 * Returns a CSRF token for the visitor of this request. Pages send it back in the field `X-CSRF-Token`, or as
 * the form field `_csrf_token`; in a multipart form, that field must come before the first file. Each call
 * returns a new token; all are valid as long as the session id is the same. So call this function after
 * changes of the session: `regenerate()`, or the first `set()`. The response stays out of shared caches; its
 * `Cache-Control` is `no-store` by default.
 *
 * @throws SvcError `E_CSRF_ABSENT` without CSRF middleware, `E_SESSION_SENT` after the response left the
 * handler
 */
export function csrfToken(req: HttpRequest): string {
  if (!req.state.has(CSRF)) throw new SvcError('E_CSRF_ABSENT', []);
  return req.state.get(CSRF).token();
}

/** Returns what {@link csrfToken} returns; undefined without CSRF middleware. @internal */
export function csrfTokenIfAny(req: HttpRequest): string | undefined {
  return req.state.has(CSRF) ? req.state.get(CSRF).token() : undefined;
}

/** Returns a hidden input with the token, as HTML for a form. @throws SvcError of {@link csrfToken} */
export function csrfField(req: HttpRequest): string {
  // the token needs no escaping, because it is base64url
  return `<input type="hidden" name="${TOKEN_FIELD}" value="${csrfToken(req)}">`;
}

/** Dependencies of the CSRF protection of an application. */
interface ProtectionDeps {
  readonly ring: Keyring;
  readonly cookie: KeptCookie;
  readonly services: Services;
  readonly missingTls: MissingTls;
}

/** CSRF tokens of one request. */
class RequestProtection {
  readonly #req: HttpRequest;
  readonly #deps: ProtectionDeps;
  /** The visitor id that this request has made. Undefined if the client has sent one, or none was needed. */
  #mintedId: string | undefined;
  #isAsked = false;
  #isFinished = false;

  constructor(req: HttpRequest, deps: ProtectionDeps) {
    this.#req = req;
    this.#deps = deps;
  }

  /** Whether the client has sent a session or a visitor id. Without one, no token can be valid. */
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

  /** Returns why a token is invalid; undefined if it is valid. */
  issueOf(token: string): Reason | undefined {
    if (token.length !== TOKEN_CHARACTERS || !TOKEN.test(token)) return 'token_malformed';
    const { session } = this.#req;
    const visitorId = this.#visitorId();
    // `visitorId` is defined: the caller has checked `hasVisitor`
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
    if (this.#mintedId !== undefined) this.#giveId(response, this.#mintedId);
    response.headers.vary('Cookie');
    keepPrivate(response.headers, 'no-store');
  }

  #giveId(response: HttpResponse, id: string): void {
    const { cookie, services, missingTls } = this.#deps;
    const on = cookie.on(this.#req, services.env);
    cookie.set(response, on, id);
    missingTls.notice(this.#req, on); // if the browser drops the cookie, its forms are refused
  }

  #visitorId(): string | undefined {
    const { cookie, services } = this.#deps;
    const id = this.#req.cookies[cookie.on(this.#req, services.env).name];
    return id !== undefined && ID.test(id) ? id : undefined;
  }
}

/**
 * Subject of a token. Its prefix makes the tokens of sessions and visitors different. A visitor knows the
 * visitor id, and must not be able to use its token for a session.
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
 * The token of a request, from the header field or the form field; if both are sent, they must be equal. The
 * query is not read, because a token there would appear in logs and browser histories.
 *
 * A multipart body is read only up to its first file, at most 64 KiB, so no file is received before the
 * check. The handler can still read or stream the whole body. If the header field has a token, the multipart
 * body is not read.
 */
async function tokenOf(req: HttpRequest): Promise<FoundToken> {
  const header = req.headers[TOKEN_HEADER];
  const { value: type } = parseParameters(req.headers['content-type'] ?? '');
  let fields: readonly string[] = [];
  if (type === 'application/x-www-form-urlencoded')
    fields = (await req.form()).getAll(TOKEN_FIELD); // the handler can read the form again
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
