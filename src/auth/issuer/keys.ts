/**
 * Keys of one authorization server: finds them by discovery, and fetches them when they are needed.
 *
 * Discovery reads `{issuer}/.well-known/openid-configuration` (OpenID Connect Discovery §4), and if there is
 * none, `/.well-known/oauth-authorization-server{path}` (RFC 8414 §3). The document must name exactly this
 * issuer (RFC 8414 §3.3).
 *
 * A fetch takes at most ten seconds. While the server fails, the known keys stay in use. All addresses must be
 * public, unless the options allow others (server-side request forgery).
 */
import { mistaken } from '../auth.ts';
import { Proxies, issueOfUrl } from '../provider/addresses.ts';
import { ProviderFault } from '../provider/failure.ts';
import { KeySource } from '../provider/key-source.ts';
import { Outbound, jsonObject } from '../provider/outbound.ts';
import { sharedCounter } from '../../observability/metrics.ts';
import type { Services } from '../../http/contracts.ts';
import type { Counter } from '../../observability/metrics.ts';
import type { OutboundAnswer, Target } from '../provider/outbound.ts';
import type { ResolvedIssuer } from './options.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';

/** Time limit of each stage of a call in milliseconds. */
const STAGE_MS = 5_000;
/** Time limit of a whole fetch in milliseconds. Without it, a slow server could hold requests for a minute. */
const FETCH_MS = 10_000;
/** Minimum time between two fetches for tokens with an unknown key, in milliseconds. */
const UNKNOWN_KEY_MS = 10_000;
const DISCOVERED_MS = 3_600_000;

export class IssuerKeys {
  readonly source: KeySource;
  readonly #issuer: ResolvedIssuer;
  readonly #services: Services;
  readonly #outbound: Outbound;
  readonly #fetches: Counter;
  #located: { readonly target: Target; readonly untilMs: number } | undefined;
  /** Whether the last fetch succeeded; if not, whether earlier keys are still used. */
  #state: 'fetched' | 'kept' | 'unknown' = 'fetched';
  #isClosed = false;

  /** @throws SvcError `E_AUTH` for an invalid variable of a proxy */
  constructor(issuer: ResolvedIssuer, services: Services) {
    this.#issuer = issuer;
    this.#services = services;
    const { clock } = services;
    const proxies = Proxies.chosen(issuer.proxy);
    if (typeof proxies === 'string') mistaken('IssuerAuth()', `the variable ${proxies}`);
    this.#outbound = new Outbound({ clock, timeoutMs: STAGE_MS, ca: issuer.ca, proxies });
    this.#fetches = sharedCounter(
      services.metrics,
      'svc_auth_key_fetches_total',
      'Fetches of the keys of token issuers by outcome',
      ['issuer', 'outcome'],
    );
    this.source = new KeySource({
      clock,
      fetch: () => this.#fetch(),
      onFetched: (error) => this.#note(error),
      pinned: issuer.jwks?.keys,
      unknownKeyMs: UNKNOWN_KEY_MS,
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#outbound.close();
  }

  /** Finds the URL of the keys, and requests them. One time limit applies to both. */
  async #fetch(): Promise<OutboundAnswer> {
    const deadline = new AbortController();
    const timer = this.#services.clock.after(FETCH_MS, () =>
      deadline.abort(new ProviderFault('provider_timeout', 'fetch')),
    );
    try {
      return await this.#get(await this.#locate(deadline.signal), deadline.signal);
    } finally {
      timer[Symbol.dispose]();
    }
  }

  async #locate(signal: AbortSignal): Promise<Target> {
    const { jwksUri } = this.#issuer;
    if (jwksUri !== undefined) return this.#target(jwksUri);
    const nowMs = this.#services.clock.monotonicMs();
    if (this.#located !== undefined && nowMs < this.#located.untilMs) return this.#located.target;
    const document = await this.#discovered(signal);
    const { issuer, jwks_uri: url } = document;
    if (issuer !== this.#issuer.issuer) throw new ProviderFault('provider_error', 'discovery_other_issuer');
    // issueOfUrl() refuses values of any type except string
    if (issueOfUrl(url as string, this.#issuer.allowInsecure) !== undefined)
      throw new ProviderFault('provider_error', 'discovery_jwks_uri');
    const target = this.#target(url as string);
    this.#located = { target, untilMs: nowMs + DISCOVERED_MS };
    return target;
  }

  /** Returns the first of the issuer's two discovery documents that exists. */
  async #discovered(signal: AbortSignal): Promise<JsonObject> {
    const [openId, oauth] = discoveryUrls(this.#issuer.issuer);
    const answer = await this.#get(this.#target(openId), signal);
    if (answer.status < 400 || answer.status >= 500) return jsonObject('discovery', answer);
    return jsonObject('discovery', await this.#get(this.#target(oauth), signal));
  }

  /** A URL with `http:` is one that `allowInsecure` names, so its address may be private. */
  #target(url: string): Target {
    return { url, isGuarded: !this.#issuer.allowPrivate && !url.startsWith('http:') };
  }

  #get(target: Target, signal: AbortSignal): Promise<OutboundAnswer> {
    return this.#outbound.call({ method: 'GET', ...target, signal });
  }

  /** Counts a fetch. Writes a line only if the state has changed. */
  #note(error: unknown): void {
    if (this.#isClosed) return;
    // the URL of the keys may have changed
    if (error !== undefined) this.#located = undefined;
    const { issuer } = this.#issuer;
    this.#fetches.add(1, issuer, error === undefined ? 'succeeded' : 'failed');
    const state = error === undefined ? 'fetched' : this.source.known === undefined ? 'unknown' : 'kept';
    if (state === this.#state) return;
    this.#state = state;
    const log = this.#services.log.child('svc_auth');
    if (error === undefined) log.info('issuer_keys_available', { issuer });
    else
      log.warn('issuer_keys_unavailable', {
        issuer,
        reason: error instanceof ProviderFault ? error.reason : 'failed',
        requests: state === 'unknown' ? 'refused' : 'verified by the known keys',
      });
  }
}

/** Returns the URLs of an issuer's discovery documents: of OpenID Connect, and of RFC 8414. */
function discoveryUrls(issuer: string): readonly [openId: string, oauth: string] {
  const base = issuer.replace(/\/$/, '');
  const { origin, pathname } = new URL(base);
  return [
    `${base}/.well-known/openid-configuration`,
    `${origin}/.well-known/oauth-authorization-server${pathname === '/' ? '' : pathname}`,
  ];
}
