/**
 * Fetches and caches the keys of a provider (RFC 7517).
 *
 * The keys of a provider are cached for ten minutes. If no key fits a token, they are fetched again, by default
 * at most once a minute. While fetches fail, the cached keys are used for up to a day.
 */
import { readKeySet } from '../../crypto/jwk.ts';
import { ProviderFault } from './failure.ts';
import { jsonObject } from './outbound.ts';
import type { Clock } from '../../base/clock.ts';
import type { KeySet } from '../../crypto/jwk.ts';
import type { OutboundAnswer } from './outbound.ts';

const TTL_MS = 600_000;
const UNKNOWN_KEY_MS = 60_000;
/**
 * Time in milliseconds for which cached keys are used while the provider is unreachable. It is limited,
 * because the provider may have withdrawn a key.
 */
const STALE_MS = 86_400_000;
/** Pause in milliseconds after a failed fetch. Without it, each login would wait for another failed fetch. */
const RETRY_MS = 60_000;
/** Pause in milliseconds after a failed fetch while no keys are known. */
const FIRST_RETRY_MS = 5_000;

interface KeySourceDeps {
  /** Requests the key set. */
  readonly fetch: () => Promise<OutboundAnswer>;
  /** Called after each fetch, with its error if it has failed. */
  readonly onFetched?: (error?: unknown) => void;
  readonly clock: Clock;
  /** Keys in the options. If they are given, no keys are fetched. */
  readonly pinned?: readonly unknown[] | undefined;
  /** Minimum time between two fetches for tokens that no key fits, in milliseconds. Default 60_000. */
  readonly unknownKeyMs?: number;
}

export class KeySource {
  readonly #deps: KeySourceDeps;
  readonly #pinned: KeySet | undefined;
  readonly #unknownKeyMs: number;
  #set: KeySet | undefined;
  #fetchedMs = -Infinity;
  #unknownMs = -Infinity;
  #failedMs = -Infinity;
  #flight: Promise<KeySet> | undefined;

  constructor(deps: KeySourceDeps) {
    this.#deps = deps;
    this.#pinned = deps.pinned === undefined ? undefined : readKeySet(deps.pinned);
    this.#unknownKeyMs = deps.unknownKeyMs ?? UNKNOWN_KEY_MS;
  }

  /** The cached keys; undefined if they are absent, or older than a day. */
  get known(): KeySet | undefined {
    return this.#deps.clock.monotonicMs() < this.#fetchedMs + STALE_MS ? this.#set : undefined;
  }

  /**
   * Returns the keys. Fetches them if they are older than ten minutes. If the fetch fails, returns cached
   * keys that are at most a day old.
   */
  current(): KeySet | Promise<KeySet> {
    if (this.#pinned !== undefined) return this.#pinned;
    const known = this.known;
    if (known === undefined) return this.#fetch();
    if (!this.#isOutdated()) return known;
    return this.#fetch().catch((error: unknown) => {
      if (!(error instanceof ProviderFault)) throw error;
      this.#failedMs = this.#deps.clock.monotonicMs();
      return known;
    });
  }

  /**
   * Returns the keys without a wait: keys that are older than ten minutes are used while newer ones are
   * fetched. Only while no keys are known, returns a promise. After a failed fetch, such a promise rejects at
   * once for five seconds.
   */
  atHand(): KeySet | Promise<KeySet> {
    if (this.#pinned !== undefined) return this.#pinned;
    const known = this.known;
    if (known === undefined) {
      if (this.#deps.clock.monotonicMs() < this.#failedMs + FIRST_RETRY_MS)
        return Promise.reject(new ProviderFault('temporarily_unavailable', 'keys_unknown'));
      return this.#noted();
    }
    if (this.#isOutdated()) this.#noted().catch(() => undefined); // the known keys stay in use, and onFetched() logs the error
    return known;
  }

  /** Whether it is time to fetch the known keys again. */
  #isOutdated(): boolean {
    const nowMs = this.#deps.clock.monotonicMs();
    return nowMs >= this.#fetchedMs + TTL_MS && nowMs >= this.#failedMs + RETRY_MS;
  }

  /** Fetches the keys, and notes the time of a failure. */
  #noted(): Promise<KeySet> {
    return this.#fetch().catch((error: unknown) => {
      this.#failedMs = this.#deps.clock.monotonicMs();
      throw error;
    });
  }

  /**
   * Fetches the keys again, because none of them fits a token. Returns undefined within a minute after the
   * last such fetch.
   *
   * @throws ProviderFault
   */
  again(): Promise<KeySet> | undefined {
    if (this.#pinned !== undefined) return undefined;
    const nowMs = this.#deps.clock.monotonicMs();
    if (this.#flight !== undefined) return this.#flight;
    if (nowMs < this.#unknownMs + this.#unknownKeyMs) return undefined;
    this.#unknownMs = nowMs;
    return this.#fetch();
  }

  /**
   * Fetches the keys again after a wrong signature, because a new key may have the id of an old one. Returns
   * undefined within a minute after the last fetch.
   */
  renewed(): Promise<KeySet> | undefined {
    return this.#deps.clock.monotonicMs() < this.#fetchedMs + UNKNOWN_KEY_MS ? undefined : this.again();
  }

  #fetch(): Promise<KeySet> {
    this.#flight ??= this.#read().finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }

  async #read(): Promise<KeySet> {
    const { fetch, onFetched, clock } = this.#deps;
    try {
      const { keys } = jsonObject('jwks', await fetch());
      if (!Array.isArray(keys)) throw new ProviderFault('provider_error', 'jwks_without_keys');
      this.#set = readKeySet(keys);
      this.#fetchedMs = clock.monotonicMs();
    } catch (error) {
      onFetched?.(error);
      throw error;
    }
    onFetched?.();
    return this.#set;
  }
}
