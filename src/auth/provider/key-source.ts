/**
 * Fetches and caches the keys of a provider (RFC 7517).
 *
 * The keys of a provider are cached for ten minutes. If no key fits a token, they are fetched again, at most
 * once a minute. While fetches fail, the cached keys are used for up to a day.
 */
import { readKeySet } from '../../crypto/jwk.ts';
import { ProviderFault } from './failure.ts';
import { jsonObject } from './outbound.ts';
import type { Clock } from '../../base/clock.ts';
import type { KeySet } from '../../crypto/jwk.ts';
import type { Outbound, Target } from './outbound.ts';

const TTL_MS = 600_000;
const UNKNOWN_KEY_MS = 60_000;
/**
 * Time in milliseconds for which cached keys are used while the provider is unreachable. It is limited,
 * because the provider may have withdrawn a key.
 */
const STALE_MS = 86_400_000;
/** Pause in milliseconds after a failed fetch. Without it, each login would wait for another failed fetch. */
const RETRY_MS = 60_000;
/** Fetches and caches the keys of one provider. */
export class KeySource {
  readonly #outbound: Pick<Outbound, 'call'>;
  readonly #clock: Clock;
  readonly #pinned: KeySet | undefined;
  #set: KeySet | undefined;
  #fetchedMs = -Infinity;
  #unknownMs = -Infinity;
  #failedMs = -Infinity;
  #flight: Promise<KeySet> | undefined;

  /** `pinned` are the keys in the options. If they are given, no keys are fetched. */
  constructor(outbound: Pick<Outbound, 'call'>, clock: Clock, pinned: readonly unknown[] | undefined) {
    this.#outbound = outbound;
    this.#clock = clock;
    this.#pinned = pinned === undefined ? undefined : readKeySet(pinned);
  }

  /**
   * Returns the keys. Fetches them if they are older than ten minutes. If the fetch fails, returns cached
   * keys that are at most a day old.
   *
   * @throws ProviderFault if the fetch fails, and the cached keys are older than a day or absent
   */
  current(target: Target | undefined): KeySet | Promise<KeySet> {
    if (this.#pinned !== undefined) return this.#pinned;
    const nowMs = this.#clock.monotonicMs();
    const known = nowMs < this.#fetchedMs + STALE_MS ? this.#set : undefined;
    if (known === undefined) return this.#fetch(target);
    if (nowMs < this.#fetchedMs + TTL_MS || nowMs < this.#failedMs + RETRY_MS) return known;
    return this.#fetch(target).catch((error: unknown) => {
      if (!(error instanceof ProviderFault)) throw error;
      this.#failedMs = this.#clock.monotonicMs();
      return known;
    });
  }

  /**
   * Fetches the keys again, because none of them fits a token. Returns undefined within a minute after the
   * last such fetch.
   *
   * @throws ProviderFault
   */
  again(target: Target | undefined): Promise<KeySet> | undefined {
    if (this.#pinned !== undefined) return undefined;
    const nowMs = this.#clock.monotonicMs();
    if (this.#flight !== undefined) return this.#flight;
    if (nowMs < this.#unknownMs + UNKNOWN_KEY_MS) return undefined;
    this.#unknownMs = nowMs;
    return this.#fetch(target);
  }

  /**
   * Fetches the keys again after a wrong signature, because a new key may have the id of an old one. Returns
   * undefined within a minute after the last fetch.
   */
  renewed(target: Target | undefined): Promise<KeySet> | undefined {
    return this.#clock.monotonicMs() < this.#fetchedMs + UNKNOWN_KEY_MS ? undefined : this.again(target);
  }

  #fetch(target: Target | undefined): Promise<KeySet> {
    this.#flight ??= this.#read(target).finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }

  async #read(target: Target | undefined): Promise<KeySet> {
    if (target === undefined) throw new ProviderFault('provider_error', 'jwks_unknown');
    const { keys } = jsonObject('jwks', await this.#outbound.call({ method: 'GET', ...target }));
    if (!Array.isArray(keys)) throw new ProviderFault('provider_error', 'jwks_without_keys');
    this.#set = readKeySet(keys);
    this.#fetchedMs = this.#clock.monotonicMs();
    return this.#set;
  }
}
