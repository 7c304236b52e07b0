/**
 * Handlers of `/oauth/login` and `/oauth/callback`.
 *
 * `/oauth/login` checks the redirect URI, creates a login state and its cookie, and redirects to the
 * provider. `/oauth/callback` verifies the state and the issuer, exchanges the code, calls onUser(), stores
 * the login, and returns tokens.
 */
import { HTTPException } from '../base/errors.ts';
import { HttpResponse, RedirectResponse } from '../http/response.ts';
import { isRefusal, refusal } from './error-responses.ts';
import { isUsersAnswer } from './audit.ts';
import { calling } from './authorization.ts';
import { clientAddress } from './client-codes.ts';
import { OAuthError, accessDenied, invalidRequest } from './errors.ts';
import { repostPage } from './failure-page.ts';
import { clientOf, isLook, parametersOf } from './parameters.ts';
import { providerTokensOf } from './provider-tokens.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { ClientCodes } from './client-codes.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { OnUserContext, UserAnswer } from './plugin-options.ts';
import type { LinkEndpoints } from './link-endpoints.ts';
import { assertSession } from './login-state.ts';
import type { ClientLogin, ReturnedLogin } from './login-state.ts';
import type { UserInfo } from './provider/presets.ts';
import type { TokenUser } from './tokens/access.ts';

/** Parameters with which a provider sends the user back. */
interface AuthorizationAnswer {
  readonly state: string | undefined;
  readonly code: string | undefined;
  readonly error: string | undefined;
  readonly issuer: string | undefined;
  readonly postedUser: string | undefined;
}

const MAX_CALLBACK_BYTES = 65_536;

/** Errors of a login that the user cancelled: of RFC 6749 §4.1.2.1, and those of Apple and LinkedIn. */
const CANCELLED: ReadonlySet<string | undefined> = new Set([
  'access_denied',
  'user_cancelled_authorize',
  'user_cancelled_login',
]);

/**
 * Scopes that ask for the e-mail address: `email`, `user:email`, `user:read:email`, `user-read-email`, `users.email`, and
 * GitHub's `user`.
 */
const EMAIL_SCOPE = /\bemail\b|^user$/;

export class LoginEndpoints {
  readonly #deps: LoginEndpointDeps;

  constructor(deps: LoginEndpointDeps) {
    this.#deps = deps;
  }

  /** Handles `GET /oauth/login`. HEAD requests and prefetches by a browser start no login. */
  async login(req: HttpRequest, connected: ConnectedProvider): Promise<HttpResponse> {
    if (isLook(req)) return new HttpResponse(null, { status: 204 });
    return this.#deps.guard.audited(req, connected.provider.name, () => this.#begin(req, connected));
  }

  /**
   * Completes a login. Handles `GET /oauth/callback?code=...&state=...`, and POST for providers that respond
   * with a form.
   */
  async callback(req: HttpRequest, connected: ConnectedProvider): Promise<HttpResponse> {
    if (isLook(req)) return new HttpResponse(null, { status: 204 });
    return this.#deps.guard.audited(req, connected.provider.name, async () => {
      await this.#deps.guard.take('callback', req);
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
      return this.#finish(req, connected, {
        state,
        code: parameter('code'),
        error: parameter('error', MAX_CALLBACK_BYTES),
        issuer: parameter('iss'),
        postedUser: form?.get('user'),
      });
    });
  }

  async #begin(req: HttpRequest, connected: ConnectedProvider): Promise<HttpResponse> {
    const { guard, authorizations, audit, options } = this.#deps;
    await guard.take('login', req);
    const parameter = parametersOf(req.query);
    const { url, begun } = await authorizations.begin(req, connected, parameter, {
      redirectUris: req.query.getAll('redirect_uri'),
      keyThumbprint: this.#keyThumbprintOf(parameter('dpop_jkt')),
      client: clientOf(parameter, options.nativeRedirects),
      link: null,
    });
    const response = new RedirectResponse(url, { status: 302 });
    begun.remember(response);
    audit.loginStarted(req, connected.provider.name);
    return response;
  }

  async #finish(
    req: HttpRequest,
    connected: ConnectedProvider,
    answer: AuthorizationAnswer,
  ): Promise<HttpResponse> {
    const { states } = this.#deps;
    const { state } = answer;
    if (state === undefined) throw new OAuthError('invalid_state', { reason: 'missing' });
    if (answer.code === undefined && answer.error === undefined)
      throw invalidRequest('The request must have the parameter code or the parameter error', {
        reason: 'neither_code_nor_error',
      });
    assertSession(req);
    const returned = await states.take(req, state, connected.provider.name);
    let response: HttpResponse;
    try {
      response = await this.#admit(req, connected, returned, answer);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#deps.guard.failed(req, connected.provider.name, error);
      const { client } = returned.login;
      response = client === null ? refusal(error, req) : this.#toClient(client, error);
    }
    states.forget(req, state, response);
    return response;
  }

  async #admit(
    req: HttpRequest,
    { provider, client }: ConnectedProvider,
    { login: begun, startedAt, verifier, nonce }: ReturnedLogin,
    answer: AuthorizationAnswer,
  ): Promise<HttpResponse> {
    const { logins, responses, options, clock, providerTokens, links, codes } = this.#deps;
    await calling(() => client.checkIssuer(answer.issuer));
    if (CANCELLED.has(answer.error)) throw accessDenied('access_denied');
    if (answer.error !== undefined)
      throw new OAuthError(isUsersAnswer(answer.error) ? answer.error : 'provider_error', {
        reason: answer.error,
      });
    const identified = await calling(() =>
      client.identify({
        code: answer.code!,
        redirectUri: begun.redirectUri,
        verifier,
        nonce: provider.scopes.includes('openid') ? nonce : undefined,
        postedUser: answer.postedUser,
        signal: req.signal,
      }),
    );
    const { info, refused } = identified;
    const scopes = begun.scopes ?? provider.scopes;
    if (refused.length > 0) this.#deps.audit.claimsRefused(req, provider.name, refused);
    if (scopes.some((scope) => EMAIL_SCOPE.test(scope)))
      this.#deps.audit.emailAsked(req, provider.name, identified);
    const tokens = providerTokensOf(identified.tokens, scopes, clock.nowMs());
    const { link } = begun;
    if (link !== null) {
      if (links === undefined) throw new OAuthError('invalid_state', { reason: 'linking_is_off' });
      return links.finish(req, provider.name, { ...begun, link }, info, { tokens, req });
    }
    const user = await this.#userOf(provider.name, info, { tokens, req });
    await providerTokens?.keep(user.sub, provider.name, info.subject, tokens);
    const how = {
      provider: provider.name,
      subject: info.subject,
      providerSid: identified.sid,
      startedAt,
      keyThumbprint: begun.keyThumbprint,
    };
    if (begun.client !== null)
      return new RedirectResponse(await codes.issue(req, user, how, begun.client), { status: 303 });
    const pair = await logins.start(req, user, how);
    return responses.of(req, pair, begun.returnTo ?? options.afterLogin);
  }

  #toClient(client: ClientLogin, error: HTTPException): HttpResponse {
    const code = error instanceof OAuthError ? error.code : 'server_error';
    return new RedirectResponse(clientAddress(client, { error: code }, this.#deps.options), { status: 303 });
  }

  /**
   * Checks the parameter `dpop_jkt`, the thumbprint of a DPoP key (RFC 9449 §10). All tokens of the login are
   * bound to this key.
   */
  #keyThumbprintOf(given: string | undefined): string | null {
    if (given === undefined) return null;
    if (this.#deps.dpop === undefined || !/^[\w-]{43}$/.test(given))
      throw invalidRequest(
        'dpop_jkt must be the SHA-256 thumbprint of a key, and is accepted only if DPoP is enabled',
      );
    return given;
  }

  /**
   * Calls `onUser`, and returns the user to whom tokens are issued.
   *
   * @throws OAuthError `access_denied` when `onUser` refuses the login; SvcError `E_OAUTH_USER` when its
   * result is not valid; any other error of `onUser`
   */
  async #userOf(provider: string, info: UserInfo, context: OnUserContext): Promise<TokenUser> {
    let answer: UserAnswer;
    try {
      // `onUser` is defined, because OAuthPlugin requires it if there is a provider
      answer = await this.#deps.options.onUser!(provider, info, context);
    } catch (error) {
      if (error instanceof HTTPException && error.status < 500)
        throw accessDenied('on_user', { description: error.detail, cause: error });
      throw error;
    }
    if (answer === undefined || answer === null) throw accessDenied('on_user');
    return this.#deps.access.userOf(answer);
  }
}

interface LoginEndpointDeps extends EndpointDeps {
  readonly codes: ClientCodes;
  readonly links: LinkEndpoints | undefined;
}
