/**
 * Fetches the keys of a provider (RFC 7517), and selects the keys that may verify an id_token.
 *
 * The keys of a provider are cached for ten minutes. If no key fits a token, they are fetched again, at most
 * once a minute. While fetches fail, the cached keys are used for up to a day.
 */
import { createPublicKey } from 'node:crypto';
import { isRecord } from '../../base/options.ts';
import { ProviderFault } from './failure.ts';
import { jsonObject, withoutNulls } from './outbound.ts';
import type { JsonWebKey, KeyObject } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Target } from './discovery.ts';
import type { Outbound } from './outbound.ts';
import type { IdTokenAlgorithm } from './options.ts';

const TTL_MS = 600_000;
const UNKNOWN_KEY_MS = 60_000;
/**
 * Time in milliseconds for which cached keys are used while the provider is unreachable. It is limited,
 * because the provider may have withdrawn a key.
 */
const STALE_MS = 86_400_000;
/** Pause in milliseconds after a failed fetch. Without it, each login would wait for another failed fetch. */
const RETRY_MS = 60_000;
/** Maximum number of keys that are read from a key set. */
const MAX_KEYS = 64;
const MIN_RSA_BITS = 2_048;
/** Maximum size of an RSA key in bits. Verification with a larger key takes milliseconds. */
const MAX_RSA_BITS = 8_192;

/** A public key that verifies signatures. */
export interface VerificationKey {
  readonly key: KeyObject;
  readonly keyId: string | undefined;
  readonly algorithms: readonly IdTokenAlgorithm[];
  /**
   * Issuer whose tokens the key may sign. In a key set for many tenants, it is the member `issuer` of the
   * key.
   */
  readonly issuer: string | undefined;
}

/** A parsed JWK set. */
export interface KeySet {
  readonly keys: readonly VerificationKey[];
  /** Key ids that occur more than once in the set. */
  readonly repeated: ReadonlySet<string>;
}

/** Parses the keys of a JWK set. Entries that cannot verify signatures are skipped (RFC 7517 §5). */
export function readKeySet(entries: readonly unknown[]): KeySet {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  const keys: VerificationKey[] = [];
  for (const entry of entries.slice(0, MAX_KEYS)) {
    if (!isRecord(entry)) continue;
    const { kid } = entry;
    if (typeof kid === 'string') (seen.has(kid) ? repeated : seen).add(kid);
    const key = readKey(withoutNulls(entry));
    if (key !== undefined) keys.push(key);
  }
  return { keys, repeated };
}

/**
 * Returns the keys that may have signed a token with this key id and algorithm. Without a key id, returns
 * all keys for the algorithm. Returns `ambiguous` if several keys have this id.
 */
export function chooseKeys(
  set: KeySet,
  keyId: string | undefined,
  algorithm: IdTokenAlgorithm,
): readonly VerificationKey[] | 'ambiguous' {
  if (keyId !== undefined && set.repeated.has(keyId)) return 'ambiguous';
  return set.keys.filter(
    (each) => (keyId === undefined || each.keyId === keyId) && each.algorithms.includes(algorithm),
  );
}

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

/**
 * Converts a JWK to a key. Returns undefined if the JWK is invalid, too weak, of an unknown type, or not for
 * signatures.
 */
function readKey(jwk: Readonly<Record<string, unknown>>): VerificationKey | undefined {
  if (jwk['use'] !== undefined && jwk['use'] !== 'sig') return undefined;
  if (jwk['key_ops'] !== undefined && !(Array.isArray(jwk['key_ops']) && jwk['key_ops'].includes('verify')))
    return undefined;
  const kind = kindOf(jwk);
  if (kind === undefined) return undefined;
  const algorithms =
    jwk['alg'] === undefined ? kind.algorithms : kind.algorithms.filter((each) => each === jwk['alg']);
  const key = algorithms.length === 0 ? undefined : publicKey(jwk, kind.members);
  if (key === undefined || !isStrong(key)) return undefined;
  return {
    key,
    keyId: typeof jwk['kid'] === 'string' ? jwk['kid'] : undefined,
    algorithms,
    issuer: typeof jwk['issuer'] === 'string' ? jwk['issuer'] : undefined,
  };
}

/** Signature algorithm of each curve (RFC 7518 §3.4). */
const CURVES: ReadonlyMap<unknown, IdTokenAlgorithm> = new Map([
  ['P-256', 'ES256'],
  ['P-384', 'ES384'],
  ['P-521', 'ES512'],
]);

function kindOf(
  jwk: Readonly<Record<string, unknown>>,
): { readonly algorithms: readonly IdTokenAlgorithm[]; readonly members: readonly string[] } | undefined {
  switch (jwk['kty']) {
    case 'RSA':
      return { algorithms: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'], members: ['n', 'e'] };
    case 'EC': {
      const algorithm = CURVES.get(jwk['crv']);
      return algorithm === undefined ? undefined : { algorithms: [algorithm], members: ['crv', 'x', 'y'] };
    }
    case 'OKP':
      return jwk['crv'] === 'Ed25519' ? { algorithms: ['EdDSA'], members: ['crv', 'x'] } : undefined;
    default:
      return undefined;
  }
}

/**
 * Returns the public key of a JWK, or undefined if the JWK is invalid. Ignores private members, which a key
 * set may contain by mistake.
 */
function publicKey(
  jwk: Readonly<Record<string, unknown>>,
  members: readonly string[],
): KeyObject | undefined {
  const picked: Record<string, unknown> = { kty: jwk['kty'] };
  for (const name of members) picked[name] = jwk[name];
  try {
    return createPublicKey({ key: picked as JsonWebKey, format: 'jwk' });
  } catch {
    return undefined;
  }
}

function isStrong({ asymmetricKeyType, asymmetricKeyDetails: details }: KeyObject): boolean {
  if (asymmetricKeyType !== 'rsa') return true;
  const bits = details?.modulusLength ?? 0;
  const exponent = details?.publicExponent ?? 0n;
  return (
    bits >= MIN_RSA_BITS &&
    bits <= MAX_RSA_BITS &&
    exponent >= 3n &&
    exponent % 2n === 1n &&
    exponent < 2n ** 64n
  );
}
