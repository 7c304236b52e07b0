/**
 * Client of one identity provider. It builds the authorization URL, exchanges the code for tokens, verifies
 * the id_token, and reads user info and e-mail addresses.
 *
 * If the provider fails, methods throw a ProviderFault. Discovery of the endpoints runs in the background, so
 * an application can start while its provider is unreachable. If discovery fails, the next login repeats it.
 */
import { isRecord, onePer } from '../../base/options.ts';
import { whenReady } from '../../base/promises.ts';
import { Discovery } from './discovery.ts';
import { isExpectedIssuer, verifyIdToken, verifyLogoutToken } from './id-token.ts';
import { authorizationUrlOf } from './authorization-url.ts';
import { Outbound, jsonObject, jsonValue, tracedCall } from '../../auth/provider/outbound.ts';
import { ProviderFault } from '../../auth/provider/failure.ts';
import { formEncoded, readTokenAnswer } from './token-answer.ts';
import { KeySource } from '../../auth/provider/key-source.ts';
import { inProcessOf, settingsOf } from './options.ts';
import { TENANT } from './option-types.ts';
import { joinClaims, postedName, textOr, userInfoOf } from './user-info.ts';
import type { Logger } from '../../observability/log.ts';
import type { Histogram, Metrics } from '../../observability/metrics.ts';
import type { Tracer } from '../../observability/tracer.ts';
import type { Awaitable } from '../../cache/stores.ts';
import type { AuthorizationRequest } from './authorization-url.ts';
import type { Endpoints } from './discovery.ts';
import type { IdTokenClaims, LogoutClaims, LogoutRules } from './id-token.ts';
import type { OutboundAnswer, OutboundCall, OutboundDeps, Target } from '../../auth/provider/outbound.ts';
import type { InProcess, OAuthProvider, ResolvedProviderOptions } from './options.ts';
import type { TokenAnswer } from './token-answer.ts';
import type { CheckedClaim, MappedUser, UserInfo } from './user-info.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';

/**
 * Argument of identify(): parameters of the callback, and values of the login that the callback completes.
 */
interface Identification {
  readonly code: string;
  /** The redirect URI of the authorization request. */
  readonly redirectUri: string;
  readonly verifier: string;
  readonly nonce: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Form field `user` of the callback. It is used only with the option `acceptsPostedName`. */
  readonly postedUser?: string | undefined;
  /** `max_age` of the authorization request. A `max_age` in the option `authorizeParams` takes precedence. */
  readonly maxAgeSeconds?: number | undefined;
}

export interface Identified {
  readonly info: UserInfo;
  readonly tokens: TokenAnswer;
  /** Session id at the provider: the claim `sid` of the id_token. */
  readonly sid: string | null;
  /** Members of `info` that are null because their form was wrong. */
  readonly refused: readonly CheckedClaim[];
  /** Status with which the e-mail endpoint refused the access token; undefined if it did not refuse. */
  readonly emailsStatus: 403 | 404 | undefined;
}

interface LogoutParameters {
  readonly idToken: string | undefined;
  /** Address to which the provider redirects the browser. */
  readonly to: string | undefined;
  readonly state: string | undefined;
}

interface ProviderClientDeps extends Pick<OutboundDeps, 'clock' | 'resolve' | 'proxies'> {
  readonly log: Logger;
  /** Receives the histogram `svc_oauth_provider_seconds{provider,call}`. */
  readonly metrics?: Metrics | undefined;
  /** Makes a span for each call. Default: none. */
  readonly tracer?: Tracer | undefined;
}

/** Maximum length of the session id `sid` in an id_token. */
const MAX_SID = 255;

export class ProviderClient {
  readonly #options: ResolvedProviderOptions;
  readonly #deps: ProviderClientDeps;
  /** Whether this application serves the provider, at the origin of the callback. */
  readonly #isServedHere: boolean;
  readonly #outbound: InProcess;
  readonly #discovery: Discovery;
  readonly #keys: KeySource;
  readonly #seconds: Histogram | undefined;

  constructor(provider: OAuthProvider, deps: ProviderClientDeps) {
    this.#options = settingsOf(provider);
    this.#deps = deps;
    this.#seconds = deps.metrics === undefined ? undefined : secondsOf(deps.metrics);
    const { timeoutMs, ca, jwks } = this.#options;
    const inProcess = inProcessOf(provider);
    this.#isServedHere = inProcess !== undefined;
    const { clock, resolve, proxies } = deps;
    this.#outbound = inProcess ?? new Outbound({ clock, timeoutMs, ca, resolve, proxies });
    const measured = {
      call: (call: OutboundCall): Promise<OutboundAnswer> =>
        this.#call(call.url === this.#options.discoveryUrl ? 'discovery' : 'jwks', call),
    };
    this.#discovery = new Discovery(this.#options, measured, deps.clock);
    this.#keys = new KeySource({
      clock: deps.clock,
      fetch: async () => {
        const { keys } = await this.#discovery.endpoints();
        if (keys === undefined) throw new ProviderFault('provider_error', 'jwks_unknown');
        return measured.call({ method: 'GET', ...keys });
      },
      pinned: jwks?.keys,
    });
  }

  /** Maximum milliseconds of a call: `timeoutMs` for queue, connect, TLS, first byte and body. */
  get longestCallMs(): number {
    return 5 * this.#options.timeoutMs;
  }

  /** Starts discovery in the background. If the provider is unreachable, logs a warning. */
  async start(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    void this.#discover();
  }

  async #discover(): Promise<void> {
    try {
      await this.#discovery.endpoints();
    } catch (error) {
      this.#deps.log.warn('provider_unreachable', {
        provider: this.#options.name,
        reason: error instanceof ProviderFault ? error.reason : 'failed',
      });
    }
  }

  /**
   * Returns the URL that starts a login.
   *
   * @throws ProviderFault when discovery fails
   */
  authorizationUrl(input: AuthorizationRequest): Awaitable<string> {
    return whenReady(this.#discovery.endpoints(), ({ authorizeUrl }) =>
      authorizationUrlOf(authorizeUrl, this.#options, this.#isServedHere, input),
    );
  }

  /**
   * Checks the parameter `iss` of an authorization response: it must be the issuer of this provider (RFC 9207
   * §2.4). Without a configured issuer, every response passes.
   */
  async checkIssuer(iss: string | undefined): Promise<void> {
    const { issuer, tenants } = this.#options;
    if (issuer === undefined) return;
    if (iss === undefined) {
      if ((await this.#discovery.endpoints()).sendsIssuer)
        throw new ProviderFault('issuer_mismatch', 'iss_missing');
    } else {
      const [before = '', after = ''] = issuer.split(TENANT);
      if (!isExpectedIssuer(iss, iss.slice(before.length, iss.length - after.length), { issuer, tenants }))
        throw new ProviderFault('issuer_mismatch', 'iss_differs');
    }
  }

  /**
   * Exchanges the code, verifies the id_token, and reads the user info. If `signal` aborts, rejects with its
   * reason.
   *
   * @throws ProviderFault
   */
  async identify(input: Identification): Promise<Identified> {
    const endpoints = await this.#discovery.endpoints();
    const tokens = readTokenAnswer(await this.#exchange(endpoints, input), this.#options);
    const claims = this.#options.usesOpenId ? await this.#verify(tokens, input) : undefined;
    input.signal?.throwIfAborted();
    const raw = await this.#read(endpoints.userinfo, tokens, claims, input.signal);
    const { user, emailsStatus } = await this.#withEmail(
      this.#map(raw, input.postedUser),
      tokens,
      input.signal,
    );
    const refused: CheckedClaim[] = [];
    const info = userInfoOf(user, raw, (claim) => refused.push(claim));
    const given = claims?.['sid'];
    const sid = typeof given === 'string' && given !== '' && given.length <= MAX_SID ? given : null;
    return { info, tokens, sid, refused, emailsStatus };
  }

  /** Verifies a logout token (OpenID Connect Back-Channel Logout 1.0 §2.6). */
  async verifyLogout(token: string): Promise<LogoutClaims> {
    await this.#discovery.endpoints();
    return verifyLogoutToken(token, this.#tokenRules(), this.#keys);
  }

  /**
   * Returns the URL of the provider's logout page (OpenID Connect RP-Initiated Logout 1.0 §2); undefined if
   * the provider has none. `origin` is the origin of this application.
   */
  async logoutUrl(origin: string, { idToken, to, state }: LogoutParameters): Promise<string | undefined> {
    const { endSessionUrl } = await this.#discovery.endpoints();
    if (endSessionUrl === undefined) return undefined;
    const url = new URL(this.#isServedHere ? new URL(endSessionUrl).pathname : endSessionUrl, origin);
    const { clientId, postLogoutName } = this.#options;
    const parameters = { client_id: clientId, id_token_hint: idToken, [postLogoutName]: to, state };
    for (const [name, value] of Object.entries(parameters))
      if (value !== undefined) url.searchParams.set(name, value);
    return url.href;
  }

  /** Cancels all calls that are running. Every later call fails with `temporarily_unavailable`. */
  close(): void {
    this.#outbound.close();
  }

  /**
   * Exchanges a refresh token for new tokens (RFC 6749 §6).
   *
   * @throws ProviderFault when the provider refuses the token; `providerCode` is the provider's error code
   */
  async refresh(refreshToken: string): Promise<TokenAnswer> {
    const form = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: refreshToken });
    return readTokenAnswer(
      await this.#askToken(await this.#discovery.endpoints(), form, undefined),
      this.#options,
    );
  }

  #exchange(
    endpoints: Endpoints,
    { code, redirectUri, verifier, signal }: Identification,
  ): Promise<OutboundAnswer> {
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: redirectUri,
      ...(this.#options.usesPkce ? { code_verifier: verifier } : {}),
    });
    return this.#askToken(endpoints, form, signal);
  }

  /** Sends a token request with one method of client authentication (RFC 6749 §2.3.1). */
  #askToken(
    { token, clientAuth }: Endpoints,
    form: URLSearchParams,
    signal: AbortSignal | undefined,
  ): Promise<OutboundAnswer> {
    const { clientId, clientIdName } = this.#options;
    const clientSecret = this.#clientSecret();
    const headers: Record<string, string> = { 'content-type': 'application/x-www-form-urlencoded' };
    if (clientAuth === 'basic')
      headers['authorization'] =
        `Basic ${Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64')}`;
    else form.set(clientIdName, clientId);
    if (clientAuth === 'post') form.set('client_secret', clientSecret);
    if (clientAuth === 'private_key_jwt') {
      // `assertions` is defined: OAuthProvider requires a key for `private_key_jwt`
      const assertion = this.#options.assertions!(clientId, token.url, this.#nowSeconds());
      for (const [name, value] of Object.entries(assertion)) form.set(name, value);
    }
    return this.#call('token', { method: 'POST', ...token, headers, body: form.toString(), signal });
  }

  #clientSecret(): string {
    const { clientSecret = '' } = this.#options;
    if (typeof clientSecret === 'string') return clientSecret;
    try {
      return clientSecret(this.#nowSeconds());
    } catch (error) {
      throw new ProviderFault('provider_error', 'client_secret', { cause: error });
    }
  }

  #verify(
    { idToken, accessToken }: TokenAnswer,
    { nonce, maxAgeSeconds }: Identification,
  ): Promise<IdTokenClaims> {
    if (idToken === undefined) throw new ProviderFault('provider_error', 'id_token_missing');
    const rules = {
      ...this.#tokenRules(),
      nonce: this.#options.usesNonce ? nonce : null,
      accessToken,
      maxAgeSeconds: this.#options.maxAgeSeconds ?? maxAgeSeconds,
    };
    return verifyIdToken(idToken, rules, this.#keys);
  }

  #tokenRules(): LogoutRules {
    const { issuer, tenants, clientId, idTokenAlgorithms, clientSecret, leewaySeconds } = this.#options;
    return {
      issuer: issuer!, // `issuer` is defined: OAuthProvider requires it for OpenID Connect
      tenants,
      clientId,
      algorithms: idTokenAlgorithms,
      // for HS256, OAuthProvider requires a secret that is a string
      secret: typeof clientSecret === 'string' ? clientSecret : undefined,
      leewaySeconds,
      nowSeconds: this.#nowSeconds(),
    };
  }

  #nowSeconds(): number {
    return Math.floor(this.#deps.clock.nowMs() / 1_000);
  }

  /**
   * Reads the user info, and adds it to the claims of the id_token. Both must have the same `sub` (OpenID
   * Connect Core §5.3.2).
   */
  async #read(
    userinfo: Target | undefined,
    { accessToken }: TokenAnswer,
    claims: IdTokenClaims | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Record<string, unknown>> {
    if (userinfo === undefined) return { ...claims };
    const answer = jsonObject(
      'userinfo',
      await this.#call('userinfo', { method: 'GET', ...userinfo, headers: bearer(accessToken), signal }),
    );
    if (claims === undefined) return answer;
    if (answer['sub'] !== claims.sub) throw new ProviderFault('provider_error', 'userinfo_sub');
    return joinClaims(claims, answer);
  }

  #map(raw: JsonObject, postedUser: string | undefined): MappedUser | undefined {
    const { mapUser, acceptsPostedName } = this.#options;
    try {
      const user = mapUser(raw);
      return acceptsPostedName && user !== undefined
        ? { ...user, name: textOr(user.name, postedName(postedUser)) }
        : user;
    } catch (error) {
      throw new ProviderFault('provider_error', 'user_mapping', { cause: error });
    }
  }

  /**
   * Reads the user's primary address from the e-mail endpoint. If this address is not verified, or the
   * response is 403 or 404, the user's e-mail counts as not verified.
   */
  async #withEmail(
    user: MappedUser | undefined,
    { accessToken }: TokenAnswer,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly user: MappedUser | undefined } & Partial<Pick<Identified, 'emailsStatus'>>> {
    const { emailsUrl } = this.#options;
    if (emailsUrl === undefined || user?.subject === undefined) return { user };
    const answer = await this.#call('emails', {
      method: 'GET',
      url: emailsUrl,
      headers: bearer(accessToken),
      signal,
    });
    const { status } = answer;
    if (status === 403 || status === 404)
      return { user: { ...user, emailVerified: false }, emailsStatus: status };
    const list = jsonValue('emails', answer);
    if (!Array.isArray(list)) throw new ProviderFault('provider_error', 'emails_not_list');
    const primary = list.find(
      (each): each is { readonly email: string } =>
        isRecord(each) &&
        each['primary'] === true &&
        each['verified'] === true &&
        typeof each['email'] === 'string',
    );
    return {
      user:
        primary === undefined
          ? { ...user, emailVerified: false }
          : { ...user, email: primary.email, emailVerified: true },
    };
  }

  async #call(what: string, call: OutboundCall): Promise<OutboundAnswer> {
    const { clock, log, tracer } = this.#deps;
    const { name: provider } = this.#options;
    const startMs = clock.monotonicMs();
    try {
      const answer = await (tracer === undefined
        ? this.#outbound.call(call)
        : tracedCall(tracer, call, (traced) => this.#outbound.call(traced)));
      log.debug('provider_call', { provider, call: what, status: answer.status });
      return answer;
    } catch (error) {
      throw error instanceof ProviderFault
        ? new ProviderFault(error.code, `${what}_${error.reason}`, { cause: error.cause })
        : error;
    } finally {
      this.#seconds?.observe((clock.monotonicMs() - startMs) / 1000, provider, what);
    }
  }
}

function bearer(accessToken: string): Readonly<Record<string, string>> {
  return { authorization: `Bearer ${accessToken}` };
}

export interface ConnectedProvider {
  readonly provider: OAuthProvider;
  /** Replaced when the application starts again, because a shutdown closes the client. */
  client: ProviderClient;
}

/** Histogram of the durations of calls. A metric can be declared only once. */
const secondsOf = onePer((metrics: Metrics) =>
  metrics.histogram(
    'svc_oauth_provider_seconds',
    'Duration of calls to identity providers',
    BUCKETS_SECONDS,
    ['provider', 'call'],
  ),
);

const BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
