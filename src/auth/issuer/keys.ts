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
import type { KeySet } from '../../crypto/jwk.ts';
import type { Services } from '../../http/contracts.ts';
import type { Counter, Metrics } from '../../observability/metrics.ts';
import type { OutboundAnswer, OutboundCall, Target } from '../provider/outbound.ts';
import type { IssuerKeys, ResolvedIssuer } from './options.ts';

/** Time limit of each stage of a call in milliseconds. */
const STAGE_MS = 5_000;
/** Time limit of a whole fetch in milliseconds. Without it, a slow server could hold requests for a minute. */
const FETCH_MS = 10_000;
/** Minimum time between two fetches for tokens with an unknown key, in milliseconds. */
const UNKNOWN_KEY_MS = 10_000;
const DISCOVERED_MS = 3_600_000;

/** Fetches the keys of one issuer. */
export class FetchedKeys implements IssuerKeys {
  readonly #issuer: ResolvedIssuer;
  readonly #services: Services;
  readonly #outbound: Outbound;
  readonly #keys: KeySource;
  readonly #fetches: Counter;
  #located: { readonly target: Target; readonly untilMs: number } | undefined;
  #deadline: AbortController | undefined;
  #timer: Disposable | undefined;

  /** @throws SvcError `E_AUTH` for an invalid variable of a proxy */
  constructor(issuer: ResolvedIssuer, services: Services) {
    this.#issuer = issuer;
    this.#services = services;
    const { clock } = services;
    const proxies = Proxies.chosen(issuer.proxy);
    if (typeof proxies === 'string') mistaken('IssuerAuth()', `the variable ${proxies}`);
    this.#outbound = new Outbound({ clock, timeoutMs: STAGE_MS, ca: issuer.ca, proxies });
    this.#fetches = fetchesOf(services.metrics);
    this.#keys = new KeySource({
      outbound: { call: (call) => this.#measured(call) },
      clock,
      locate: () => this.#limited(),
      pinned: issuer.jwks?.keys,
      unknownKeyMs: UNKNOWN_KEY_MS,
    });
  }

  atHand(): KeySet | Promise<KeySet> {
    return this.#keys.atHand();
  }

  again(): Promise<KeySet> | undefined {
    return this.#keys.again();
  }

  renewed(): Promise<KeySet> | undefined {
    return this.#keys.renewed();
  }

  /** Cancels all calls that are running. */
  close(): void {
    this.#outbound.close();
  }

  /** Starts the time limit of a fetch, whose first step is to find the URL of the keys. */
  async #limited(): Promise<Target> {
    const deadline = (this.#deadline = new AbortController());
    this.#timer = this.#services.clock.after(FETCH_MS, () =>
      deadline.abort(new ProviderFault('provider_timeout', 'fetch')),
    );
    try {
      return await this.#locate();
    } catch (error) {
      this.#timer[Symbol.dispose]();
      throw this.#failed(error);
    }
  }

  async #locate(): Promise<Target> {
    const { jwksUri } = this.#issuer;
    if (jwksUri !== undefined) return this.#target(jwksUri);
    const nowMs = this.#services.clock.monotonicMs();
    if (this.#located !== undefined && nowMs < this.#located.untilMs) return this.#located.target;
    const document = await this.#discovered();
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
  async #discovered(): Promise<Readonly<Record<string, unknown>>> {
    const [openId, oauth] = discoveryUrls(this.#issuer.issuer);
    const answer = await this.#call({ method: 'GET', ...this.#target(openId) });
    if (answer.status < 400 || answer.status >= 500) return jsonObject('discovery', answer);
    return jsonObject('discovery', await this.#call({ method: 'GET', ...this.#target(oauth) }));
  }

  /** A URL with `http:` is one that `allowInsecure` names, so its address may be private. */
  #target(url: string): Target {
    return { url, isGuarded: !this.#issuer.allowPrivate && !url.startsWith('http:') };
  }

  /** Fetches the keys, and counts the result. */
  async #measured(call: OutboundCall): Promise<OutboundAnswer> {
    try {
      const answer = await this.#call(call);
      jsonObject('jwks', answer); // an answer that KeySource will refuse is a failure, too
      this.#fetches.add(1, this.#issuer.issuer, 'succeeded');
      return answer;
    } catch (error) {
      throw this.#failed(error);
    } finally {
      this.#timer?.[Symbol.dispose]();
    }
  }

  #call(call: OutboundCall): Promise<OutboundAnswer> {
    return this.#outbound.call({ ...call, signal: this.#deadline?.signal });
  }

  #failed(error: unknown): unknown {
    this.#fetches.add(1, this.#issuer.issuer, 'failed');
    this.#services.log.child('svc_auth').warn('issuer_keys_unavailable', {
      issuer: this.#issuer.issuer,
      reason: error instanceof ProviderFault ? error.reason : 'failed',
    });
    return error;
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

/** Counters of fetches, one for each application. They are cached: a metric can be declared only once. */
const counters = new WeakMap<Metrics, Counter>();

function fetchesOf(metrics: Metrics): Counter {
  const known =
    counters.get(metrics) ??
    metrics.counter('svc_auth_key_fetches_total', 'Fetches of the keys of token issuers by outcome', [
      'issuer',
      'outcome',
    ]);
  counters.set(metrics, known);
  return known;
}
