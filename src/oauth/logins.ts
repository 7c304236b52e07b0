/**
 * Starts a login after a user was identified: stores the login, renews the session and issues tokens.
 *
 * After a login at a provider, the callback calls onUser(), and then start(). An application that identifies
 * a user itself, for example by password, calls `issue()` of OAuthPlugin.
 */
import { SESSION } from '../http/state.ts';
import { text, given, isObject, readOptions } from '../base/options.ts';
import { assertSession, currentLogin, currentUser, sessionLoginOf } from './login-state.ts';
import { HttpResponse } from '../http/response.ts';
import { outOfRange } from '../base/options.ts';
import type { Clock } from '../base/clock.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { Audit } from './audit.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { IssuedPair, TokenBody, TokenResponses } from './token-responses.ts';
import type { AccessTokens, TokenUser } from './tokens/access.ts';
import type { DPoP } from './tokens/dpop.ts';
import type { LoginOrigin, RefreshTokens } from './tokens/refresh.ts';

/** Options of a login that the application starts itself. */
export interface IssueOptions {
  /**
   * The request in which the user was identified. If `SessionMiddleware` is in use, its session is renewed.
   * If the request has a DPoP proof, the tokens are bound to the key of the proof.
   */
  readonly req: HttpRequest;
  /** Response on which the cookies are set. Required in cookie mode, and allowed only there. */
  readonly response?: HttpResponse | undefined;
  /** Scopes of the access tokens. Default: the option `scopes` of the plugin. */
  readonly scopes?: readonly string[] | undefined;
  /** Additional claims of the access tokens, for example `roles`. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Name of the login method, for `listSessions()` and the log: `[a-z][a-z0-9-]*`, at most 32 characters.
   * Default `local`.
   */
  readonly method?: string | undefined;
}

/** A login that the application started. */
export interface IssuedLogin {
  /** Id of the login. It is the claim `sid` of the access token, and `id` in `listSessions()`. */
  readonly loginId: string;
  /** Response body for the client, like that of `/oauth/token`. In cookie mode it contains no tokens. */
  readonly body: TokenBody;
}

const METHOD = /^[a-z][a-z0-9-]{0,31}$/;
const MAX_USER_AGENT = 255;

export interface LoginsDeps {
  readonly refreshTokens: RefreshTokens;
  readonly access: AccessTokens;
  readonly responses: TokenResponses;
  readonly audit: Audit;
  readonly clock: Clock;
  /** Undefined if the option `dpop` is `off`. */
  readonly dpop: DPoP | undefined;
  readonly options: ReadOptions;
  /** Providers by name. The application's own login methods must have other names. */
  readonly connected: ReadonlyMap<string, ConnectedProvider>;
}

export class Logins {
  readonly #deps: LoginsDeps;

  constructor(deps: LoginsDeps) {
    this.#deps = deps;
  }

  /**
   * Stores a login, and renews the session of the request.
   *
   * @throws OAuthError `access_denied` when the user's logins were revoked after `startedAt`
   */
  async start(req: HttpRequest, user: TokenUser, how: LoginOrigin): Promise<IssuedPair> {
    const { audit, options } = this.#deps;
    assertSession(req);
    const { refreshToken, login, issuedAt } = await this.#store(req, user, how);
    if (req.state.has(SESSION)) {
      // another user must not get the values of the one before, such as a cart or rights
      const isOther = ![undefined, login.sub].includes(req.session.get(currentUser));
      req.session.regenerate({ keep: isOther ? [] : options.keepSession });
      req.session.set(currentUser, login.sub);
      req.session.set(currentLogin, { id: login.id, at: Math.floor(login.authenticatedAt / 1_000) });
    }
    audit.loginSucceeded(req, login);
    return { login, refreshToken, user, issuedAt };
  }

  /** Stores a login that activate() completes within `ttlMs`. Returns its id. */
  async prepare(req: HttpRequest, user: TokenUser, how: LoginOrigin, ttlMs: number): Promise<string> {
    return (await this.#store(req, user, how, ttlMs * 1_000)).login.id;
  }

  /**
   * Completes a login of prepare(), once. Returns the reason if that is not possible.
   *
   * @throws OAuthError `access_denied` when the login has ended meanwhile
   */
  async activate(
    req: HttpRequest,
    id: string,
    keyThumbprint: string | null,
  ): Promise<IssuedPair | 'code_sent_twice' | 'other_key'> {
    const issued = await this.#deps.refreshTokens.activate(id, keyThumbprint);
    if (typeof issued === 'string') return issued;
    this.#deps.audit.loginSucceeded(req, issued.login);
    return { ...issued, user: issued.login };
  }

  #store(
    req: HttpRequest,
    user: TokenUser,
    how: LoginOrigin,
    activeWithin?: number,
  ): ReturnType<RefreshTokens['issue']> {
    return this.#deps.refreshTokens.issue({
      ...user,
      ...how,
      activeWithin,
      userAgent: req.headers['user-agent']?.slice(0, MAX_USER_AGENT) ?? null,
      ip: this.#deps.options.keepAddress ? req.ip : null,
    });
  }

  /**
   * Destroys the session of a request, and ends the login that it names. Otherwise a copy of the session
   * cookie would stay valid. Returns whether a login has ended.
   */
  async endSession(req: HttpRequest): Promise<boolean> {
    const named = sessionLoginOf(req);
    const isEnded =
      named !== undefined && (await this.#deps.refreshTokens.revoke({ id: named.loginId }, req));
    if (req.state.has(SESSION)) req.session.destroy();
    return isEnded;
  }

  /**
   * Starts a login for a user that the application has identified.
   *
   * @throws SvcError `E_OPTION_RANGE` for an invalid option, `E_OAUTH_USER` for an invalid user; OAuthError
   * `invalid_dpop_proof` for an invalid proof, `temporarily_unavailable` when the database fails
   */
  async issue(sub: string, options: IssueOptions): Promise<IssuedLogin> {
    const { access, clock, dpop, responses, connected } = this.#deps;
    const isCookieMode = this.#deps.options.mode === 'cookie';
    const owner = 'OAuthPlugin.issue()';
    const { req, response, scopes, claims, method } = readOptions(owner, options, {
      req: given<HttpRequest>('the request', isObject),
      response: given<HttpResponse>('a response', (value) => value instanceof HttpResponse),
      scopes: given<readonly string[]>('a list of scopes', Array.isArray),
      claims: given<Readonly<Record<string, unknown>>>('an object', isObject),
      method: text('local'),
    });
    if (req === undefined) throw outOfRange(owner, 'req', 'must be the HTTP request', 'none');
    if (!METHOD.test(method) || connected.has(method))
      throw outOfRange(
        owner,
        'method',
        'must be a name such as "magic-link" that is not the name of a provider',
        method,
      );
    if ((response !== undefined) !== isCookieMode)
      throw isCookieMode
        ? outOfRange(owner, 'response', 'must be a response in cookie mode', 'none')
        : outOfRange(owner, 'response', 'must be omitted except in cookie mode', 'a response');
    const startedAt = clock.nowMicros();
    const user = access.userOf({ sub, scopes, claims });
    const keyThumbprint = (await dpop?.keyOf(req, '')) ?? null;
    const pair = await this.start(req, user, { provider: method, subject: sub, startedAt, keyThumbprint });
    return { loginId: pair.login.id, body: responses.body(req, pair, response) };
  }
}
