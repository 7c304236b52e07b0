/**
 * The endpoints, step by step.
 *
 *   login     redirect URI allowed? -> state, cookie -> to the provider, with a PKCE challenge
 *   callback  state taken (once, in this browser) -> issuer -> code exchanged -> user read -> onUser -> login stored -> tokens
 *   token     refresh token -> rotated, or replayed to those who raced -> tokens
 *   revoke    refresh token -> its login ends
 */
import { HTTPException, TooManyRequests } from '../base/errors.ts';
import { MemoryRateLimitStore } from '../cache/stores.ts';
import { clientOf } from '../http/request/proxy.ts';
import { HttpResponse, JSONResponse, RedirectResponse } from '../http/response.ts';
import { foreignPage } from '../http/origins.ts';
import { SESSION } from '../http/state.ts';
import { isRefusal, refusal } from './answers.ts';
import { isUsersAnswer, outcomeOf } from './audit.ts';
import { OAuthError } from './errors.ts';
import { ProviderFailure } from './provider/client.ts';
import { currentUser } from './login-state.ts';
import { repostPage } from './failure-page.ts';
import { parseObject } from '../crypto/jwt-json.ts';
import { localPath } from '../http/path.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { AccessTokens, TokenUser, UserAnswer } from './tokens/access.ts';
import type { LoginStates, ReturnedLogin } from './login-state.ts';
import type { OAuthProvider, UserInfo } from './provider/presets.ts';
import type { RefreshToken, RefreshTokenCodec } from './tokens/refresh-codec.ts';
import type { LoginRow } from './tokens/store.ts';
import type { Clock } from '../base/clock.ts';
import type { OwnPages } from '../http/origins.ts';
import type { RateLimiter } from '../http/middleware/rate-limiter.ts';
import type { Audit } from './audit.ts';
import type { DPoP } from './tokens/dpop.ts';
import type { ProviderClient } from './provider/client.ts';
import type { RedirectAllowlist } from './redirects.ts';
import type { RefreshTokens } from './tokens/refresh.ts';
import type { TokenCookies } from './tokens/cookies.ts';
import type { MultiMap } from '../http/request/query.ts';

/** What the provider has sent the browser back with. */
interface AuthorizationAnswer {
  readonly code: string | undefined;
  readonly error: string | undefined;
  readonly issuer: string | undefined;
  readonly postedUser: string | undefined;
}

const MAX_USER_AGENT = 255;
const MAX_CALLBACK_BYTES = 65_536;
const MINUTE_MS = 60_000;

/** The four endpoints. */
export class Endpoints {
  readonly #deps: EndpointDeps;
  /** Of which refusals the audit trail has heard: one event a minute for each client and limit. */
  readonly #reported: MemoryRateLimitStore;

  constructor(deps: EndpointDeps) {
    this.#deps = deps;
    this.#reported = new MemoryRateLimitStore({ clock: deps.clock });
  }

  /** `GET /oauth/login?redirect_uri=...`. Nothing happens for HEAD and for prefetches. */
  async login(req: HttpRequest, connected: ConnectedProvider): Promise<HttpResponse> {
    if (isLook(req)) return new HttpResponse(null, { status: 204 });
    return this.#audited(req, connected.provider.name, () => this.#begin(req, connected));
  }

  /** `GET /oauth/callback?code=...&state=...`, and POST for providers that answer with a form. */
  async callback(req: HttpRequest, connected: ConnectedProvider): Promise<HttpResponse> {
    if (isLook(req)) return new HttpResponse(null, { status: 204 });
    return this.#audited(req, connected.provider.name, async () => {
      await this.#take('callback', req);
      const form = req.method === 'POST' ? await req.form({ maxBytes: MAX_CALLBACK_BYTES }) : undefined;
      const parameter = parametersOf(form ?? req.query);
      const state = parameter('state');
      if (
        form !== undefined &&
        state !== undefined &&
        !this.#deps.states.isKnown(req, state) &&
        !form.has('reposted')
      )
        return repostPage(form);
      return this.#finish(req, connected, parameter, state, form?.get('user'));
    });
  }

  /** `POST /oauth/token` with a refresh token, as a form or as JSON; in cookie mode the cookie will do. */
  token(req: HttpRequest): Promise<HttpResponse> {
    return this.#watched(req, async () => {
      const arrivedAt = this.#arrivedAt(req);
      const parameter = await bodyParameters(req);
      const grantType = parameter('grant_type');
      if (grantType !== undefined && grantType !== 'refresh_token')
        throw new OAuthError('unsupported_grant_type');
      const scopes = parameter('scope')
        ?.split(' ')
        .filter((scope) => scope !== '');
      const { token } = await this.#presented(req, parameter('refresh_token'));
      if (token === undefined) throw this.#refuse(req, 'forged');
      await this.#take('token', req, token.id);
      const keyThumbprint = (await this.#deps.dpop?.keyOf(req, token.id)) ?? null;
      const refreshed = await this.#deps.refreshTokens.refresh(token, {
        arrivedAt,
        scopes,
        keyThumbprint,
        req,
      });
      const { login, refreshToken } = refreshed;
      return this.#answer(
        req,
        login,
        refreshToken,
        { sub: login.sub, scopes: refreshed.scopes, claims: refreshed.claims },
        refreshed.issuedAt,
      );
    });
  }

  /**
   * `POST /oauth/revoke` with a refresh token (RFC 7009): 200, whether there was anything to revoke or not. In cookie mode a page
   * of this origin may have lost its refresh token, and still wants to be rid of the rest.
   */
  revoke(req: HttpRequest): Promise<HttpResponse> {
    return this.#watched(req, async () => {
      const parameter = await bodyParameters(req);
      const given = parameter('token') ?? parameter('refresh_token');
      const response = new HttpResponse(null, { status: 200 });
      if (given === undefined && this.#isOwnPageWithoutToken(req)) return this.#forget(req, response);
      const { token, isCookie } = await this.#presented(req, given);
      if (token !== undefined) {
        await this.#take('revoke', req, token.id); // a limit of its own: whoever has an old token cannot keep its owner from logging out
        await this.#deps.refreshTokens.revoke(token, req);
      }
      return isCookie ? this.#forget(req, response) : response; // it came out of them
    });
  }

  /** For a route of the application: ends the login of the refresh cookie, then as `/oauth/revoke`. Answers whether there was one to end. */
  logout(req: HttpRequest, response: HttpResponse): Promise<boolean> {
    return this.#watched(req, async () => {
      const { cookies, codec, refreshTokens } = this.#deps;
      const text = cookies?.refreshTokenOf(req);
      const token = text === undefined ? undefined : codec.parse(text);
      const isEnded = token !== undefined && (await refreshTokens.revoke(token, req));
      this.#forget(req, response);
      return isEnded;
    });
  }

  async #begin(req: HttpRequest, { provider, client }: ConnectedProvider): Promise<HttpResponse> {
    await this.#take('login', req);
    const parameter = parametersOf(req.query);
    const redirectUri = this.#redirectUri(req, provider.name);
    const returnTo = this.#deps.cookies === undefined ? null : returnToOf(parameter);
    const extra = extraOf(parameter);
    const scopes = scopesOf(parameter('scope'), provider.scopes);
    const begun = await this.#deps.states.begin(req, { provider: provider.name, redirectUri, returnTo });
    const url = await this.#calling(() =>
      client.authorizationUrl({
        redirectUri,
        state: begun.state,
        challenge: begun.challenge,
        nonce: provider.scopes.includes('openid') ? begun.nonce : undefined,
        extra,
        scopes,
      }),
    );
    const response = new RedirectResponse(url, { status: 302 });
    begun.remember(response);
    this.#deps.audit.loginStarted(req, provider.name);
    return response;
  }

  async #finish(
    req: HttpRequest,
    connected: ConnectedProvider,
    parameter: Parameters,
    state: string | undefined,
    postedUser: string | undefined,
  ): Promise<HttpResponse> {
    const { states } = this.#deps;
    const answer = {
      code: parameter('code'),
      error: parameter('error', MAX_CALLBACK_BYTES),
      issuer: parameter('iss'),
      postedUser,
    };
    if (state === undefined) throw new OAuthError('invalid_state', { reason: 'missing' });
    if (answer.code === undefined && answer.error === undefined)
      throw new OAuthError('invalid_request', {
        description: 'There is neither code nor error',
        reason: 'neither_code_nor_error',
      });
    const returned = await states.take(req, state, connected.provider.name);
    let response: HttpResponse;
    try {
      response = await this.#admit(req, connected, returned, answer);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#failed(req, connected.provider.name, error);
      response = refusal(error, req);
    }
    states.forget(req, state, response);
    return response;
  }

  /** The state has been taken: whatever happens now, it will not come back. */
  async #admit(
    req: HttpRequest,
    { provider, client }: ConnectedProvider,
    { row, verifier }: ReturnedLogin,
    answer: AuthorizationAnswer,
  ): Promise<HttpResponse> {
    const { refreshTokens, audit, keepsAddress, keepSession, afterLogin } = this.#deps;
    await this.#calling(() => client.checkIssuer(answer.issuer));
    if (answer.error !== undefined)
      throw new OAuthError(isUsersAnswer(answer.error) ? answer.error : 'provider_error', {
        reason: answer.error,
      });
    const { info } = await this.#calling(() =>
      client.identify({
        code: answer.code!,
        redirectUri: row.redirectUri,
        verifier,
        nonce: provider.scopes.includes('openid') ? row.nonce : undefined,
        postedUser: answer.postedUser,
        signal: req.signal, // no error, so there is a code
      }),
    );
    const user = await this.#userOf(provider.name, info);
    const { refreshToken, login, issuedAt } = await refreshTokens.issue({
      ...user,
      provider: provider.name,
      subject: info.subject,
      startedAt: row.createdAt,
      userAgent: req.headers['user-agent']?.slice(0, MAX_USER_AGENT) ?? null,
      ip: keepsAddress ? req.ip : null,
      keyThumbprint: null,
    });
    if (req.state.has(SESSION)) {
      req.session.regenerate({ keep: keepSession });
      req.session.set(currentUser, login.sub);
    }
    audit.loginSucceeded(req, login);
    return this.#answer(req, login, refreshToken, user, issuedAt, row.returnTo ?? afterLogin);
  }

  /** The tokens: as JSON, or in cookies, with a redirect after a login. */
  #answer(
    req: HttpRequest,
    login: LoginRow,
    refreshToken: string,
    user: TokenUser,
    issuedAt: number,
    to?: string,
  ): HttpResponse {
    const { access, cookies, clock } = this.#deps;
    const accessToken = access.make(user, login.id, issuedAt, login.keyThumbprint);
    const common = { expires_in: access.ttlSeconds, scope: user.scopes.join(' ') };
    if (cookies === undefined)
      return new JSONResponse({
        access_token: accessToken,
        token_type: login.keyThumbprint === null ? 'Bearer' : 'DPoP',
        refresh_token: refreshToken,
        ...common,
      });
    const response =
      to === undefined
        ? new JSONResponse({ token_type: 'Cookie', ...common })
        : new RedirectResponse(to, { status: 303 });
    cookies.set(req, response, { accessToken, refreshToken, login, nowMicros: clock.nowMicros() });
    return response;
  }

  /** The refresh token of a request; without `token` when it is none. @throws OAuthError `invalid_request` when there is nothing */
  async #presented(
    req: HttpRequest,
    given: string | undefined,
  ): Promise<{ readonly token: RefreshToken | undefined; readonly isCookie: boolean }> {
    const { cookies, codec } = this.#deps;
    const text = given ?? cookies?.refreshTokenOf(req);
    if (text === undefined)
      throw new OAuthError('invalid_request', {
        description:
          cookies === undefined
            ? 'The refresh token is missing'
            : 'The refresh token is missing: neither the body nor a cookie has one',
      });
    const isCookie = given === undefined;
    if (cookies !== undefined) this.#assertOwnPage(req, isCookie);
    const token = codec.parse(text);
    if (token === undefined) await this.#take('forged', req);
    return { token, isCookie };
  }

  /**
   * In cookie mode no page of another site may make a browser refresh or revoke: not with the cookie, which goes along by itself,
   * and not with a token of its own, which would log somebody in as somebody else.
   */
  #assertOwnPage(req: HttpRequest, isCookie: boolean): void {
    const problem = this.#pageProblem(req, isCookie);
    if (problem === undefined) return;
    this.#deps.audit.foreignPage(req, problem);
    throw new OAuthError('invalid_request', {
      status: 403,
      description: 'The request does not come from a page of this origin',
      reason: problem,
    });
  }

  /** Cookies count only where something says that the page is ours. */
  #pageProblem(req: HttpRequest, isCookie: boolean): 'site' | 'origin' | 'unknown' | undefined {
    const { origin, 'sec-fetch-site': site } = req.headers;
    return (
      foreignPage(req, this.#deps.ownPages) ??
      (isCookie && origin === undefined && site === undefined ? 'unknown' : undefined)
    );
  }

  #isOwnPageWithoutToken(req: HttpRequest): boolean {
    const { cookies } = this.#deps;
    return (
      cookies !== undefined &&
      cookies.refreshTokenOf(req) === undefined &&
      this.#pageProblem(req, true) === undefined
    );
  }

  /** Takes tokens and session out of the browser. */
  #forget(req: HttpRequest, response: HttpResponse): HttpResponse {
    this.#deps.cookies?.clear(req, response);
    if (req.state.has(SESSION)) req.session.destroy();
    return response;
  }

  #redirectUri(req: HttpRequest, provider: string): string {
    const given = req.query.getAll('redirect_uri');
    const chosen =
      given.length > 1 || given[0] === ''
        ? undefined
        : this.#deps.allowlistOf(provider).choose(given[0], req.host);
    if (chosen === undefined) throw new OAuthError('invalid_redirect_uri');
    return chosen;
  }

  /** What `onUser` says. @throws OAuthError `access_denied`; SvcError `E_OAUTH_USER`; whatever it throws */
  async #userOf(provider: string, info: UserInfo): Promise<TokenUser> {
    let answer: UserAnswer;
    try {
      answer = await this.#deps.onUser(provider, info);
    } catch (error) {
      if (error instanceof HTTPException && error.status < 500)
        throw new OAuthError('access_denied', { status: 403, reason: 'on_user', cause: error });
      throw error;
    }
    if (answer === undefined || answer === null)
      throw new OAuthError('access_denied', { status: 403, reason: 'on_user' });
    return this.#deps.access.userOf(answer);
  }

  /** A call to the provider: what goes wrong there has a code of ours. */
  async #calling<T>(call: () => Awaitable<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error;
      const headers = error.code === 'temporarily_unavailable' ? { 'Retry-After': '1' } : undefined;
      throw new OAuthError(error.code, { reason: error.reason, cause: error, headers });
    }
  }

  /** A step of a login: if it fails, the trail has it. */
  async #audited(
    req: HttpRequest,
    provider: string,
    run: () => Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    try {
      return await run();
    } catch (error) {
      this.#failed(req, provider, error);
      throw error;
    }
  }

  #failed(req: HttpRequest, provider: string, error: unknown): void {
    this.#noteStore(req, error);
    if (!(error instanceof TooManyRequests))
      this.#deps.audit.loginFailed(
        req,
        provider,
        outcomeOf(error),
        error instanceof OAuthError ? (error.reason ?? error.code) : 'error',
      );
  }

  /** A step of another request. */
  async #watched<T>(req: HttpRequest, run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      this.#noteStore(req, error);
      throw error;
    }
  }

  /** A database that fails is the operator's business, whatever it was asked for. */
  #noteStore(req: HttpRequest, error: unknown): void {
    if (error instanceof OAuthError && error.reason === 'store')
      this.#deps.audit.storeFailed(req, error.cause);
  }

  /** Counts a request. @throws TooManyRequests */
  async #take(limit: keyof EndpointLimits, req: HttpRequest, loginId?: string): Promise<void> {
    try {
      await this.#deps.limits[limit]?.take(req, loginId);
    } catch (error) {
      const isFirst = this.#reported.take(`${limit} ${loginId ?? clientOf(req.ip, 64)}`, {
        limit: 1,
        periodMs: MINUTE_MS,
      }).isAllowed;
      if (isFirst) this.#deps.audit.rateLimited(req, limit, loginId);
      throw error;
    }
  }

  #refuse(req: HttpRequest, reason: string): OAuthError {
    this.#deps.audit.refreshRefused(req, reason);
    return new OAuthError('invalid_grant', { reason });
  }

  /** When the head of the request was read, in microseconds since the epoch. */
  #arrivedAt(req: HttpRequest): number {
    const { clock } = this.#deps;
    return clock.nowMicros() - Math.round((clock.monotonicMs() - req.startedMs) * 1_000);
  }
}

/** Finds or creates the user of an identity. */
export type OnUser = (provider: string, info: UserInfo) => Awaitable<UserAnswer>;

/** A provider and the client that talks to it. */
export interface ConnectedProvider {
  readonly provider: OAuthProvider;
  /** A new one each time the application starts. */
  client: ProviderClient;
}

/** Who may come how often. */
export interface EndpointLimits {
  readonly login: RateLimiter | undefined;
  readonly callback: RateLimiter | undefined;
  /** By login. */
  readonly token: RateLimiter | undefined;
  /** By login. */
  readonly revoke: RateLimiter | undefined;
  /** By address, for what is no token of ours. */
  readonly forged: RateLimiter | undefined;
}

/** What the endpoints work with. */
interface EndpointDeps {
  readonly states: LoginStates;
  readonly allowlistOf: (provider: string) => RedirectAllowlist;
  readonly refreshTokens: RefreshTokens;
  readonly codec: RefreshTokenCodec;
  readonly access: AccessTokens;
  readonly onUser: OnUser;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly limits: EndpointLimits;
  /** Unless the option is `off`. */
  readonly dpop: DPoP | undefined;
  /** Whose pages may have a browser send the refresh cookie. */
  readonly ownPages: OwnPages;
  /** In cookie mode. */
  readonly cookies: TokenCookies | undefined;
  readonly afterLogin: string;
  /** Values of the session before the login that outlive it. */
  readonly keepSession: readonly string[];
  readonly keepsAddress: boolean;
}

/*
 * Parameters of the OAuth endpoints: each at most once (RFC 6749 §3.1, §3.2), and bounded.
 */

const MAX_LENGTH = 4_096;
const MAX_BODY_BYTES = 16_384;

/** Reads one parameter; empty counts as absent (RFC 6749 §3.1). One longer than `maxLength`, by default 4,096, is refused. */
type Parameters = (name: string, maxLength?: number) => string | undefined;

/** Parameters of a query or form. @throws OAuthError `invalid_request` for one that is there twice, or too long */
function parametersOf(from: MultiMap): Parameters {
  return (name, maxLength = MAX_LENGTH) => {
    const values = from.getAll(name);
    if (values.length > 1)
      throw new OAuthError('invalid_request', {
        description: `The parameter ${name} is there more than once`,
      });
    const [value] = values;
    if (value !== undefined && value.length > maxLength)
      throw new OAuthError('invalid_request', { description: `The parameter ${name} is too long` });
    return value === '' ? undefined : value;
  };
}

/** Parameters of a body, which is a form or a JSON object of texts; none without a body. @throws HTTPException 400, 413, 415 */
async function bodyParameters(req: HttpRequest): Promise<Parameters> {
  const type = req.headers['content-type'];
  const options = { maxBytes: MAX_BODY_BYTES };
  if (type === undefined && (await req.body(options)).length === 0) return () => undefined;
  if (type === undefined || !/^application\/(?:[\w.+-]*\+)?json\s*(?:;|$)/i.test(type))
    return parametersOf(await req.form(options));
  await req.json(options); // which says what is wrong with one that is no JSON
  const body = parseObject(await req.text(options));
  if (body === undefined)
    throw new OAuthError('invalid_request', {
      description: 'The body is a JSON object that has no member twice',
    });
  return (name) => {
    const value: unknown = Object.hasOwn(body, name) ? body[name] : undefined;
    if (value === undefined || value === null || value === '') return undefined;
    if (typeof value !== 'string' || value.length > MAX_LENGTH)
      throw new OAuthError('invalid_request', {
        description: `The parameter ${name} is a string of at most ${MAX_LENGTH} characters`,
      });
    return value;
  };
}

/*
 * What a request to log in may ask for.
 */

const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);

/** Browsers that guess which link comes next must not begin or finish a login, nor must whoever only asks for the head. */
function isLook(req: HttpRequest): boolean {
  return (
    req.method === 'HEAD' ||
    /\bprefetch\b|\bpreview\b/i.test(
      `${req.headers['sec-purpose'] ?? ''} ${req.headers['purpose'] ?? ''} ${req.headers['x-moz'] ?? ''}`,
    )
  );
}

/** Where the browser goes afterwards. @throws OAuthError `invalid_request` for what is no path of this application */
function returnToOf(parameter: Parameters): string | null {
  const given = parameter('return_to');
  if (given === undefined) return null;
  const path = localPath(given);
  if (path === undefined)
    throw new OAuthError('invalid_request', { description: 'return_to is a path of this application' });
  return path;
}

/** What a login may pass on to the provider; everything else is not. */
function extraOf(parameter: Parameters): Readonly<Record<string, string>> {
  const extra: Record<string, string> = {};
  const [hint, prompt] = [parameter('login_hint'), parameter('prompt')];
  if (hint !== undefined) {
    if (!/^[^\p{Cc}]{1,200}$/u.test(hint))
      throw new OAuthError('invalid_request', {
        description: 'login_hint is a text of at most 200 characters',
      });
    extra['login_hint'] = hint;
  }
  if (prompt !== undefined) {
    if (!PROMPTS.has(prompt))
      throw new OAuthError('invalid_request', { description: `prompt is one of ${[...PROMPTS].join(', ')}` });
    extra['prompt'] = prompt;
  }
  return extra;
}

/** Fewer scopes than the provider is configured with, never others; `openid` stays, since an id_token is expected. */
function scopesOf(asked: string | undefined, configured: readonly string[]): readonly string[] | undefined {
  if (asked === undefined) return undefined;
  const scopes = asked.split(' ').filter((scope) => scope !== '');
  if (!scopes.every((scope) => configured.includes(scope)))
    throw new OAuthError('invalid_scope', {
      description: 'The scope asked for exceeds what this provider is configured with',
    });
  return configured.includes('openid') && !scopes.includes('openid') ? ['openid', ...scopes] : scopes;
}
