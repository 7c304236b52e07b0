/**
 * Account linking: a logged-in user adds an identity at another provider, or removes one.
 *
 * The requests of account linking:
 * - POST /oauth/{provider}/link encrypts the user's id and login in the login cookie, and sends the browser to
 *   the provider.
 * - The callback calls onLink(sub, provider, info), if the login still lives. It starts no login, and issues
 *   no tokens.
 * - POST /oauth/{provider}/unlink calls onUnlink(sub, provider, subject), deletes the tokens of that
 *   identity, and ends other logins by it.
 *
 * A request with cookies must come from a page of this origin, so that an attacker cannot link his own
 * identity to the user's account. The login that the session or access token names is read from the store in
 * each request: it must live, belong to the user, and be younger than `freshSeconds`.
 */
import { HTTPException } from '../base/errors.ts';
import { HttpResponse, JSONResponse, RedirectResponse } from '../http/response.ts';
import { OAuthError, accessDenied } from './errors.ts';
import { wantsHtml } from './failure-page.ts';
import { clientAddress } from './client-codes.ts';
import { bodyParameters, linkClientOf, returnToOf, subjectOf } from './parameters.ts';
import { sessionLoginOf } from './login-state.ts';
import { assertOwnPage } from './guard.ts';
import { identitiesOf } from './provider-tokens.ts';
import type { Claims } from '../crypto/jwt.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { OnLink, OnUserContext } from './plugin-options.ts';
import type { BegunLogin, LinkingUser } from './login-state.ts';
import type { LoginRow } from './tokens/store.ts';
import type { UserInfo } from './provider/presets.ts';

export class LinkEndpoints {
  readonly #deps: EndpointDeps;
  readonly #onLink: OnLink;

  constructor(deps: EndpointDeps, onLink: OnLink) {
    this.#deps = deps;
    this.#onLink = onLink;
  }

  /**
   * Handles `POST /oauth/{provider}/link`. Browsers are sent to the provider's page. Other clients get the
   * address of that page as `authorization_url`.
   */
  async link(
    req: HttpRequest,
    connected: ConnectedProvider,
    claims: Claims | undefined,
  ): Promise<HttpResponse> {
    const { guard, authorizations, audit, options } = this.#deps;
    return guard.watched(req, async () => {
      const link = await this.#proven(req, connected, claims);
      const parameter = await bodyParameters(req);
      const given = parameter('redirect_uri');
      const { url, begun } = await authorizations.begin(req, connected, parameter, {
        redirectUris: given === undefined ? [] : [given],
        keyThumbprint: null,
        client: linkClientOf(parameter, options.nativeRedirects),
        link,
      });
      const response = wantsHtml(req)
        ? new RedirectResponse(url, { status: 303 })
        : new JSONResponse({ authorization_url: url });
      begun.remember(response);
      audit.info('link_started', req, { provider: connected.provider.name, sub: link.sub });
      return response;
    });
  }

  async finish(
    req: HttpRequest,
    provider: string,
    begun: BegunLogin & { readonly link: LinkingUser },
    info: UserInfo,
    context: OnUserContext,
  ): Promise<HttpResponse> {
    const { audit, providerTokens, options } = this.#deps;
    const { sub } = begun.link;
    await this.#assertStillThere(req, begun.link);
    if (!(await isAgreed(() => this.#onLink(sub, provider, info, context))))
      throw new OAuthError('account_taken', { reason: 'on_link' });
    await providerTokens?.keep(sub, provider, info.subject, context.tokens);
    audit.info('account_linked', req, { provider, subject: info.subject, sub });
    if (begun.client !== null)
      return new RedirectResponse(clientAddress(begun.client, { linked: provider }, options), {
        status: 303,
      });
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
    connected: ConnectedProvider,
    claims: Claims | undefined,
  ): Promise<HttpResponse> {
    const { guard, store, ends, clock, audit, providerTokens, options } = this.#deps;
    const { name } = connected.provider;
    return guard.watched(req, async () => {
      const { sub, loginId } = await this.#proven(req, connected, claims);
      const parameter = await bodyParameters(req);
      const returnTo = returnToOf(parameter);
      const subject = subjectOf(parameter) ?? (await this.#onlySubject(sub, name));
      // `onUnlink` is defined, because without it this route does not exist
      const isUnlinked = await isAgreed(() => options.onUnlink!(sub, name, subject));
      const now = clock.nowMicros();
      // End the user's other logins by this identity, because it may belong to another person. Also after a
      // refusal: if the store fails here, the repeated request finds that the identity is gone.
      for (const row of await store.listLogins(sub, now))
        if (row.provider === name && row.id !== loginId && (subject ?? row.subject) === row.subject)
          await ends.revokeOf(sub, row.id, now);
      if (!isUnlinked) throw new OAuthError('last_login_method');
      await providerTokens?.forget(sub, name, subject);
      audit.info('account_unlinked', req, { provider: name, subject, sub });
      return options.mode === 'cookie' && wantsHtml(req)
        ? new RedirectResponse(returnTo ?? options.afterLogin, { status: 303 })
        : new HttpResponse(null, { status: 204 });
    });
  }

  /** Returns the user of a request, whose login lives and is fresh. */
  async #proven(
    req: HttpRequest,
    { provider }: ConnectedProvider,
    claims: Claims | undefined,
  ): Promise<LinkingUser> {
    const { guard, audit } = this.#deps;
    try {
      const user = this.#userOf(req, claims);
      await guard.take('login', req);
      await this.#assertFresh(user);
      return user;
    } catch (error) {
      if (error instanceof OAuthError && error.code === 'login_required')
        audit.warn('link_refused', req, error.reason ?? error.code, provider.name);
      throw error;
    }
  }

  async #onlySubject(sub: string, provider: string): Promise<string | undefined> {
    const identities = await identitiesOf(this.#deps, sub);
    const [only, ...others] = identities.filter((each) => each.provider === provider);
    if (others.length > 0) throw new OAuthError('subject_required');
    return only?.subject;
  }

  /** Returns the user and the login that the access token names. Without a token, those of the session. */
  #userOf(req: HttpRequest, claims: Claims | undefined): LinkingUser {
    const { ownPages, audit } = this.#deps;
    assertOwnPage(req, ownPages, req.headers['authorization'] === undefined, audit);
    const session = sessionLoginOf(req);
    const { sub, loginId } =
      claims === undefined ? (session ?? {}) : { sub: claims.sub, loginId: claims['sid'] };
    if (sub === undefined)
      throw loginRequired('Log in first: an access token or a session is needed', 'no_user');
    if (typeof loginId !== 'string')
      throw loginRequired(
        'Log in, and use the access token of that login: this one has no login',
        'no_login',
      );
    if (session !== undefined && session.sub !== sub)
      throw loginRequired('Log in again: session and access token belong to different users', 'other_user');
    return { sub, loginId, hasSession: session !== undefined };
  }

  async #assertFresh({ sub, loginId }: LinkingUser): Promise<void> {
    const { clock, options } = this.#deps;
    const row = await this.#loginOf(sub, loginId);
    if (row === undefined) throw loginRequired('The login has ended: log in again', 'login_ended');
    const { freshSeconds } = options;
    if (freshSeconds !== false && clock.nowMicros() >= row.authenticatedAt + freshSeconds * 1_000_000)
      throw loginRequired('The login is too old for this change: log in again', 'login_not_fresh');
  }

  /** Returns the login if it lives and belongs to the user. Asks the store each time. */
  async #loginOf(sub: string, id: string): Promise<LoginRow | undefined> {
    const { store, clock } = this.#deps;
    const [row] = await store.liveLogins([id], clock.nowMicros());
    return row?.sub === sub ? row : undefined;
  }

  /** Checks that the user is still logged in, and that no other user has logged in in this browser. */
  async #assertStillThere(req: HttpRequest, { sub, loginId, hasSession }: LinkingUser): Promise<void> {
    const session = sessionLoginOf(req);
    const isOther = session === undefined ? hasSession : session.sub !== sub;
    if (isOther || (await this.#loginOf(sub, loginId)) === undefined) throw accessDenied('link_logged_out');
  }
}

function loginRequired(description: string, reason: string): OAuthError {
  return new OAuthError('login_required', {
    status: 401,
    description,
    reason,
    headers: { 'WWW-Authenticate': 'Bearer' },
  });
}

/** Calls a hook. Returns false if it returns false, or throws an exception with a 4xx status. */
async function isAgreed(ask: () => Awaitable<boolean | void>): Promise<boolean> {
  try {
    return (await ask()) !== false;
  } catch (error) {
    if (error instanceof HTTPException && error.status < 500) return false;
    throw error;
  }
}
