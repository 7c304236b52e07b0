/**
 * Account linking: a logged-in user adds an identity at another provider, or removes one.
 *
 * The requests of account linking:
 * - POST /oauth/{provider}/link encrypts the user's id in the login cookie, and sends the browser to the
 *   provider.
 * - The callback calls onLink(sub, provider, info), if the same user is still logged in. It starts no login,
 *   and issues no tokens.
 * - POST /oauth/{provider}/unlink calls onUnlink(sub, provider), deletes the provider's tokens, and ends
 *   other logins by that provider.
 *
 * A request with cookies must come from a page of this origin, so that an attacker cannot link his own
 * identity to the user's account.
 */
import { HTTPException } from '../base/errors.ts';
import { HttpResponse, JSONResponse, RedirectResponse } from '../http/response.ts';
import { SESSION } from '../http/state.ts';
import { OAuthError } from './errors.ts';
import { wantsHtml } from './failure-page.ts';
import { returnToOf, bodyParameters } from './parameters.ts';
import { currentUser } from './login-state.ts';
import { assertOwnPage } from './guard.ts';
import { isLive } from './tokens/store.ts';
import type { Claims } from '../crypto/jwt.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { OnLink, OnUserContext } from './plugin-options.ts';
import type { BegunLogin, LinkingUser } from './login-state.ts';
import type { UserInfo } from './provider/presets.ts';

/** Handlers that link and unlink identities at providers. */
export class LinkEndpoints {
  readonly #deps: EndpointDeps;
  readonly #onLink: OnLink;

  constructor(deps: EndpointDeps, onLink: OnLink) {
    this.#deps = deps;
    this.#onLink = onLink;
  }

  /**
   * Handles `POST /oauth/{provider}/link`. Browsers are redirected to the provider's page. Other clients get
   * the address of that page as `authorization_url`.
   */
  async link(
    req: HttpRequest,
    connected: ConnectedProvider,
    claims: Claims | undefined,
  ): Promise<HttpResponse> {
    const { guard, authorizations, audit } = this.#deps;
    return guard.watched(req, async () => {
      const link = this.#userOf(req, claims);
      await guard.take('login', req);
      const parameter = await bodyParameters(req);
      const given = parameter('redirect_uri');
      const { url, begun } = await authorizations.begin(req, connected, parameter, {
        redirectUris: given === undefined ? [] : [given],
        keyThumbprint: null,
        client: null,
        link,
      });
      const response = wantsHtml(req)
        ? new RedirectResponse(url, { status: 303 })
        : new JSONResponse({ authorization_url: url });
      begun.remember(response);
      audit.linkStarted(req, connected.provider.name, link.sub);
      return response;
    });
  }

  /**
   * Completes the link of an account, when the provider redirects to the callback.
   *
   * @throws OAuthError `access_denied` when the user is not logged in any more, `account_taken` when `onLink`
   * refuses
   */
  async finish(
    req: HttpRequest,
    provider: string,
    begun: BegunLogin & { readonly link: LinkingUser },
    startedAt: number,
    info: UserInfo,
    context: OnUserContext,
  ): Promise<HttpResponse> {
    const { audit, providerTokens, options } = this.#deps;
    const { sub } = begun.link;
    await this.#assertStillThere(req, begun.link, startedAt);
    if (!(await isAgreed(() => this.#onLink(sub, provider, info, context))))
      throw new OAuthError('account_taken', { reason: 'on_link' });
    await providerTokens?.keep(sub, provider, context.tokens);
    audit.accountLinked(req, provider, sub);
    return options.mode === 'cookie'
      ? new RedirectResponse(begun.returnTo ?? options.afterLogin, { status: 303 })
      : new JSONResponse({ linked: provider });
  }

  /**
   * Handles `POST /oauth/{provider}/unlink`. Responds with 204, or redirects browsers to `return_to` or
   * `afterLogin`.
   */
  async unlink(
    req: HttpRequest,
    { provider: { name } }: ConnectedProvider,
    claims: Claims | undefined,
  ): Promise<HttpResponse> {
    const { guard, store, clock, audit, providerTokens, options } = this.#deps;
    return guard.watched(req, async () => {
      const { sub, loginId } = this.#userOf(req, claims);
      await guard.take('login', req);
      const returnTo = returnToOf(await bodyParameters(req));
      // `onUnlink` is defined, because without it this route does not exist
      if (!(await isAgreed(() => options.onUnlink!(sub, name)))) throw new OAuthError('last_login_method');
      await providerTokens?.forget(sub, name);
      const now = clock.nowMicros();
      // end the user's other logins by this provider, because the removed identity may belong to another
      // person
      for (const row of await store.listLogins(sub, now))
        if (row.provider === name && row.id !== loginId) await store.revokeOf(sub, row.id, now);
      audit.accountUnlinked(req, name, sub);
      return options.mode === 'cookie' && wantsHtml(req)
        ? new RedirectResponse(returnTo ?? options.afterLogin, { status: 303 })
        : new HttpResponse(null, { status: 204 });
    });
  }

  /**
   * Returns the user to whom the access token belongs. Without a token, returns the user of the session.
   *
   * @throws OAuthError `login_required` 401 without a user, `invalid_request` 403 for a page of another
   * origin
   */
  #userOf(req: HttpRequest, claims: Claims | undefined): LinkingUser {
    const { ownPages, audit } = this.#deps;
    assertOwnPage(req, ownPages, req.headers['authorization'] === undefined, audit);
    const session = req.state.has(SESSION) ? req.session.get(currentUser) : undefined;
    const sub = claims?.sub ?? session;
    if (sub === undefined)
      throw new OAuthError('login_required', {
        status: 401,
        description: 'Log in first: an access token or a session is needed',
        headers: { 'WWW-Authenticate': 'Bearer' },
      });
    const loginId = claims?.['sid'];
    return { sub, loginId: typeof loginId === 'string' ? loginId : null };
  }

  /**
   * Checks that the user is still logged in, and that no other user has logged in in this browser.
   *
   * @throws OAuthError `access_denied` when the user has logged out, or another user has logged in
   */
  async #assertStillThere(req: HttpRequest, { sub, loginId }: LinkingUser, startedAt: number): Promise<void> {
    const { store, clock, options } = this.#deps;
    const row = loginId === null ? undefined : await store.findLogin(loginId);
    const isOver = loginId !== null && (row?.sub !== sub || !isLive(row, clock.nowMicros()));
    const session = req.state.has(SESSION) ? req.session.get(currentUser) : undefined;
    const isOther = loginId === null ? session !== sub : session !== undefined && session !== sub;
    if (isOver || isOther || (await store.validAfter(sub)) + options.clockSkewMs * 1_000 >= startedAt)
      throw new OAuthError('access_denied', { status: 403, reason: 'link_logged_out' });
  }
}

/**
 * Calls a hook of the application. Returns false if the hook returns false, or throws an exception with a 4xx
 * status.
 */
async function isAgreed(ask: () => Awaitable<boolean | void>): Promise<boolean> {
  try {
    return (await ask()) !== false;
  } catch (error) {
    if (error instanceof HTTPException && error.status < 500) return false;
    throw error;
  }
}
