/**
 * DevProvider: an OpenID provider for development and tests, where users log in without a password. It
 * refuses to run in production. It supports the code flow with PKCE S256, `iss` in responses, single-use
 * codes, id_token, user info, discovery, JWK set and logout.
 *
 * The endpoints of DevProvider are GET /.well-known/openid-configuration, GET /jwks, GET and POST /authorize,
 * POST /token, GET and POST /userinfo, GET and POST /logout.
 *
 * DevProvider runs on its own server at 127.0.0.1, as routes of an application, or without a network through
 * `handle()`.
 */
import { hash, randomBytes } from 'node:crypto';
import { http } from '../../base/node-http.ts';
import { systemClock } from '../../base/clock.ts';
import { SvcError } from '../../base/errors.ts';
import { remember } from '../../base/options.ts';
import { isSameSecret } from '../../crypto/keys.ts';
import {
  authorizationError,
  badPage,
  claimsOf,
  json,
  metadataOf,
  pageHeaders,
  pickerPage,
  tokenError,
  isRegistered,
  logoutAnswer,
  unregistered,
} from './protocol.ts';
import { DevKeys } from './keys.ts';
import { readDevOptions } from './options.ts';
import { inProcess, pathsBelow, serve, serveOn } from './serving.ts';
import { OAuthProvider, markForDevelopment } from '../provider/options.ts';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Router } from '../../routing/route.ts';
import type { Grant, DevRequest, DevResponse, DevUser } from './protocol.ts';
import type { Awaitable } from '../../http/contracts.ts';
import type { DevProviderOptions, ReadDevOptions } from './options.ts';
import type { Handle } from './serving.ts';
import type { OAuthProviderOptions } from '../provider/options.ts';

export { type DevProviderOptions } from './options.ts';
export { type DevRequest, type DevResponse, type DevUser } from './protocol.ts';

const CODE_TTL_MS = 60_000;
const TOKEN_TTL_SECONDS = 3_600;
/** Maximum number of codes, and of access tokens. */
const MAX_GRANTS = 1_000;

/** An OpenID provider for development and tests. */
export class DevProvider {
  readonly clientId: string;
  readonly clientSecret: string;
  readonly #options: ReadDevOptions;
  #issuer: string | undefined;
  #mountedAt: string | undefined;
  #host: { readonly clock?: Clock } | undefined;
  #keys: Promise<DevKeys> | undefined;
  #server: Server | undefined;
  readonly #handling: Handle = (request) => this.handle(request);
  readonly #codes = new Map<string, Grant>();
  readonly #tokens = new Map<string, Grant>();

  /**
   * @throws SvcError `E_DEV_PROVIDER` in production, `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` for an invalid
   * option
   */
  constructor(options: DevProviderOptions) {
    const read = readDevOptions(options);
    this.#options = read;
    this.clientId = read.clientId;
    this.clientSecret = read.clientSecret;
    this.#issuer = read.issuer;
  }

  /**
   * Issuer URL of this provider.
   *
   * @throws SvcError `E_DEV_PROVIDER` if the option `issuer` is not set, and neither start() nor mount() has
   *   been called
   */
  get url(): string {
    if (this.#issuer === undefined)
      throw new SvcError('E_DEV_PROVIDER', ['the provider has no URL before start() or mount() is called']);
    return this.#issuer;
  }

  /** Starts a server on 127.0.0.1. Rejects if the port is already in use. */
  async start(): Promise<void> {
    const server = http.createServer((request, response) => void serve(request, response, this.#handling));
    await new Promise<void>((resolve, reject) =>
      server.once('error', reject).listen(this.#options.port, '127.0.0.1', resolve),
    );
    this.#server = server;
    this.#issuer ??= `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await this.#ready();
  }

  /** Stops the server, closes open connections, and deletes codes and tokens. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#codes.clear();
    this.#tokens.clear();
    if (server === undefined) return;
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  }

  /**
   * Returns this provider for `OAuthPlugin`. `options` override the options that DevProvider sets, such as
   * `name`, and add others, such as `authorizeParams`. After mount(), the application calls the provider without
   * a network connection. In production, `svc check` reports this provider.
   *
   * @throws SvcError `E_DEV_PROVIDER` if the option `issuer` is not set, and neither start() nor mount() has
   *   been called; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` or `E_OAUTH_PROVIDER` for an invalid option
   */
  provider(options: Partial<OAuthProviderOptions> = {}): OAuthProvider {
    const { clientId, clientSecret, url: issuer } = this;
    return markForDevelopment(
      new OAuthProvider({
        name: this.#options.name,
        clientId,
        clientSecret,
        issuer,
        allowInsecure: true,
        idTokenAlgorithms: ['RS256', 'ES256'],
        ...(this.#mountedAt === undefined ? {} : pathsBelow(issuer, this.#mountedAt)),
        ...options,
      }),
      this.#mountedAt === undefined ? undefined : inProcess(issuer, this.#handling),
    );
  }

  /**
   * Adds the routes of this provider to an application, below `path`. Returns the provider for `OAuthPlugin`;
   * afterwards, {@link provider} returns it with options of its own. The application calls the provider without
   * a network connection.
   *
   * Browsers open the provider at the origin of the application, and paths in `redirectUris` are relative to
   * this origin. Without the option `issuer`, the issuer is `http://localhost` followed by the path.
   *
   * @throws SvcError `E_PATH_TEMPLATE` for an invalid path
   */
  mount(router: Router & { readonly clock?: Clock }, path: string = '/_dev/provider'): OAuthProvider {
    this.#issuer ??= `http://localhost${path}`;
    this.#mountedAt = path;
    this.#host = router;
    serveOn(router, path, this.#handling);
    return this.provider();
  }

  /**
   * For tests: opens an authorization URL of this provider as a browser does, and chooses the user `sub`;
   * `undefined` cancels the login. Returns the URL of the application's callback.
   *
   * @throws Error when the provider responds with an error page
   */
  async pick(authorizationUrl: string, sub: string | undefined): Promise<string> {
    const body = new URLSearchParams(new URL(authorizationUrl).search);
    if (sub === undefined) body.set('deny', '1');
    else body.set('user', sub);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const { status, headers: answered } = await this.handle({
      method: 'POST',
      path: '/authorize',
      query: '',
      headers,
      body: body.toString(),
      origin: new URL(authorizationUrl).origin,
    });
    const { location } = answered;
    if (location === undefined)
      throw new Error(`DevProvider refuses this authorization request with the status ${status}`);
    return location;
  }

  /** Handles a request. First set the option `issuer`, or call start() or mount(). */
  async handle(request: DevRequest): Promise<DevResponse> {
    const isForm =
      request.headers['content-type']?.split(';', 1)[0]!.trim().toLowerCase() ===
      'application/x-www-form-urlencoded';
    const form = new URLSearchParams(request.method === 'POST' && isForm ? request.body : '');
    const isPost = request.method === 'POST';
    const given = isPost ? form : new URLSearchParams(request.query);
    const { origin } = request;
    const { authorization } = request.headers;
    const authorize = (): DevResponse => this.#authorize(given, isPost, origin);
    const logout = (): Promise<DevResponse> => this.#logout(given, isPost, origin);
    const userinfo = (): DevResponse => this.#userinfo(authorization);
    const routes: Readonly<Record<string, Partial<Record<string, () => Awaitable<DevResponse>>>>> = {
      '/.well-known/openid-configuration': { GET: () => this.#metadata(origin) },
      '/jwks': { GET: async () => json(200, (await this.#ready()).jwks) },
      '/authorize': { GET: authorize, POST: authorize },
      '/token': { POST: () => this.#token(form, authorization) },
      '/userinfo': { GET: userinfo, POST: userinfo },
      '/logout': { GET: logout, POST: logout },
    };
    const handlers = Object.hasOwn(routes, request.path) ? routes[request.path]! : undefined;
    if (handlers === undefined) return json(404, { error: 'not_found' });
    const handler = handlers[request.method === 'HEAD' ? 'GET' : request.method];
    if (handler !== undefined) return handler();
    const allow = Object.keys(handlers).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method));
    return json(405, { error: 'invalid_request' }, { allow: allow.join(', ') });
  }

  #metadata(origin: string | undefined): DevResponse {
    const url = origin === undefined ? this.url : origin + (this.#mountedAt ?? '');
    return json(200, metadataOf(this.url, this.#options.idTokenAlgorithm, url));
  }

  #ready(): Promise<DevKeys> {
    return (this.#keys ??= DevKeys.make());
  }

  /**
   * Handles an authorization request. For an unknown client or redirect URI, the response is an error page.
   * Other errors are sent to the redirect URI (RFC 6749 §4.1.1). Only a posted form selects a user, so a link
   * cannot log a user in.
   */
  #authorize(given: URLSearchParams, isForm: boolean, origin: string | undefined): DevResponse {
    const one = (name: string): string | undefined =>
      given.getAll(name).length === 1 ? given.get(name)! : undefined;
    const redirectUri = one('redirect_uri');
    if (one('client_id') !== this.clientId)
      return badPage('The client_id is unknown, or occurs more than once.');
    if (redirectUri === undefined || !isRegistered(this.#options.redirectUris, redirectUri, origin))
      return badPage(unregistered('redirect_uri', redirectUri, this.#options.redirectUris));
    const state = one('state');
    const back = (answer: Readonly<Record<string, string>>): DevResponse =>
      this.#redirect(redirectUri, { ...answer, ...(state === undefined ? {} : { state }) });
    const error = authorizationError(given, one);
    if (error !== undefined) return back({ error });
    if (isForm && given.has('deny')) return back({ error: 'access_denied' });
    const user = isForm ? this.#options.users.find(({ sub }) => sub === one('user')) : undefined;
    if (user !== undefined) return back({ code: this.#grant(user, redirectUri, one) });
    // prompt=none always fails, because this provider has no sessions
    if (one('prompt')?.split(' ').includes('none') === true) return back({ error: 'login_required' });
    const asked = Object.fromEntries([...given].filter(([name]) => name !== 'user' && name !== 'deny'));
    return {
      status: 200,
      headers: pageHeaders([new URL(redirectUri).origin]),
      body: pickerPage('authorize', asked, this.#options.users),
    };
  }

  async #logout(given: URLSearchParams, isForm: boolean, origin: string | undefined): Promise<DevResponse> {
    const keys = await this.#ready();
    return logoutAnswer(given, isForm, {
      clientId: this.clientId,
      issuer: this.url,
      claimsOf: (token) => keys.verify(token),
      registered: this.#options.postLogoutRedirectUris,
      origin,
    });
  }

  #redirect(redirectUri: string, answer: Readonly<Record<string, string>>): DevResponse {
    const query = new URLSearchParams({ ...answer, iss: this.url });
    return {
      status: 303,
      headers: {
        location: `${redirectUri}${redirectUri.includes('?') ? '&' : '?'}${query}`,
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
      },
      body: '',
    };
  }

  /** Read at each use, because a test client gives the application its clock after mount(). */
  get #clock(): Clock {
    return this.#options.clock ?? this.#host?.clock ?? systemClock;
  }

  #grant(user: DevUser, redirectUri: string, one: (name: string) => string | undefined): string {
    const nowMs = this.#clock.nowMs();
    const code = randomBytes(32).toString('base64url');
    remember(this.#codes, MAX_GRANTS, code, {
      user,
      redirectUri,
      nonce: one('nonce'),
      scopes: (one('scope') ?? '').split(' ').filter((scope) => scope !== ''),
      challenge: one('code_challenge')!, // authorizationError() has checked that there is a code_challenge
      authTime: Math.floor(nowMs / 1000),
      expiresMs: nowMs + CODE_TTL_MS,
      accessToken: undefined,
    });
    return code;
  }

  async #token(form: URLSearchParams, authorization: string | undefined): Promise<DevResponse> {
    if (new Set(form.keys()).size < form.size) return tokenError('invalid_request');
    const client = this.#client(form, authorization);
    if (client !== undefined) return client;
    if (!form.has('grant_type') || (!form.has('code') && form.get('grant_type') === 'authorization_code'))
      return tokenError('invalid_request');
    if (form.get('grant_type') !== 'authorization_code') return tokenError('unsupported_grant_type');
    const grant = this.#codes.get(form.get('code')!);
    if (grant?.accessToken !== undefined) this.#tokens.delete(grant.accessToken);
    if (grant === undefined || grant.accessToken !== undefined || grant.expiresMs <= this.#clock.nowMs())
      return tokenError('invalid_grant');
    const verifier = form.get('code_verifier') ?? '';
    // marks the code as used, even if one of the next checks fails
    grant.accessToken = randomBytes(32).toString('base64url');
    const isProven =
      /^[\w.~-]{43,128}$/.test(verifier) && hash('sha256', verifier, 'base64url') === grant.challenge; // PKCE, RFC 7636 §4.6
    if (!isProven || form.get('redirect_uri') !== grant.redirectUri) return tokenError('invalid_grant');
    remember(this.#tokens, MAX_GRANTS, grant.accessToken, {
      ...grant,
      expiresMs: this.#clock.nowMs() + TOKEN_TTL_SECONDS * 1000,
    });
    const idToken = grant.scopes.includes('openid')
      ? { id_token: await this.#idToken(grant, grant.accessToken) }
      : {};
    return json(
      200,
      {
        access_token: grant.accessToken,
        token_type: 'Bearer',
        expires_in: TOKEN_TTL_SECONDS,
        scope: grant.scopes.join(' '),
        ...idToken,
      },
      { 'cache-control': 'no-store', pragma: 'no-cache' },
    );
  }

  /** Authenticates the client by `Authorization` or by the form (RFC 6749 §2.3.1). */
  #client(form: URLSearchParams, authorization: string | undefined): DevResponse | undefined {
    const basic = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization ?? '')?.[1];
    if (authorization !== undefined && form.has('client_secret')) return tokenError('invalid_request');
    const decoded =
      basic === undefined
        ? undefined
        : Buffer.from(basic, 'base64')
            .toString()
            .split(':', 2)
            .map((part) => new URLSearchParams(`x=${part}`).get('x'));
    const [id, secret] =
      authorization === undefined ? [form.get('client_id'), form.get('client_secret')] : (decoded ?? []);
    if (
      id === this.clientId &&
      isSameSecret(secret ?? '', this.clientSecret) &&
      (form.get('client_id') ?? id) === id
    )
      return undefined;
    return tokenError(
      'invalid_client',
      401,
      authorization === undefined ? {} : { 'www-authenticate': 'Basic realm="DevProvider"' },
    );
  }

  async #idToken({ user, nonce, scopes, authTime }: Grant, accessToken: string): Promise<string> {
    const iat = Math.floor(this.#clock.nowMs() / 1000);
    const atHash = hash('sha256', accessToken, 'buffer').subarray(0, 16).toString('base64url');
    const claims = {
      auth_time: authTime,
      ...claimsOf(user, scopes),
      iss: this.url,
      aud: this.clientId,
      iat,
      exp: iat + TOKEN_TTL_SECONDS,
      ...(nonce === undefined ? {} : { nonce }),
      at_hash: atHash,
    };
    return (await this.#ready()).sign(claims, this.#options.idTokenAlgorithm);
  }

  #userinfo(authorization: string | undefined): DevResponse {
    const token = /^bearer +([\w.~+/=-]+)$/i.exec(authorization ?? '')?.[1];
    const grant = token === undefined ? undefined : this.#tokens.get(token);
    if (grant === undefined || grant.expiresMs <= this.#clock.nowMs()) {
      return json(
        401,
        { error: 'invalid_token' },
        { 'www-authenticate': token === undefined ? 'Bearer' : 'Bearer error="invalid_token"' },
      );
    }
    return json(200, claimsOf(grant.user, grant.scopes), { 'cache-control': 'no-store' });
  }
}
