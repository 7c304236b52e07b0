/**
 * Tokens of the identity provider. `onUser` receives them. With the option `storeProviderTokens`, they are
 * also stored, encrypted, for calls to the provider's API.
 *
 * Only one process at a time refreshes the tokens of a user, because some providers end a login if its
 * refresh token is used twice. If a new login stores newer tokens during the refresh, these tokens are kept.
 */
import { hash, randomBytes } from 'node:crypto';
import { OAuthError } from './errors.ts';
import { pass } from '../base/clock.ts';
import { ProtectedValues } from '../http/session/cookie.ts';
import { ProviderFault } from './provider/failure.ts';
import { askStore } from './single-use.ts';
import type { Clock } from '../base/clock.ts';
import type { Awaitable, RecordStore } from '../cache/stores.ts';
import type { Keyring } from '../crypto/keys.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { TokenAnswer } from './provider/token-answer.ts';

/** Tokens from the provider's token response. They are secret: keep them out of logs and browsers. */
export interface ProviderTokens {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  /** The verified id_token, as the provider sent it. */
  readonly idToken?: string | undefined;
  /**
   * Scopes of the access token: the scopes in the token response or, without them, the requested scopes (RFC
   * 6749 §5.1).
   */
  readonly scopes: readonly string[];
  /** Time at which the access token expires; undefined if the token response has none. */
  readonly expiresAt?: Date | undefined;
}

/**
 * A provider's access token, or the reason why there is none (`kind`). `absent`: none is stored, or it cannot
 * be decrypted. `expired`: it has expired, and there is no refresh token. `revoked`: the provider has refused
 * the refresh token. In each case the user has to log in again.
 */
export type ProviderTokenAnswer =
  | {
      readonly kind: 'token';
      readonly accessToken: string;
      readonly idToken?: string | undefined;
      readonly scopes: readonly string[];
      readonly expiresAt?: Date | undefined;
    }
  | { readonly kind: 'absent' | 'expired' | 'revoked' };

/** Options of {@link OAuthPlugin.providerToken}. */
export interface ProviderTokenOptions {
  /**
   * Minimum remaining lifetime in seconds, 0 ... 3_600. A token that expires sooner is refreshed. Default 60.
   */
  readonly minValiditySeconds?: number | undefined;
}

/** Decrypted content of a stored record. */
interface StoredTokens {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  readonly idToken?: string | undefined;
  readonly scopes: readonly string[];
  readonly expiresAtMs?: number | undefined;
  readonly isRevoked?: boolean | undefined;
}

/** Lifetime of a record after its last write, in milliseconds: one year. */
const TTL_MS = 31_536_000_000;
/**
 * A lock ends this many milliseconds after the longest possible call to the provider. Then another process
 * can take the lock.
 */
const LOCK_MARGIN_MS = 5_000;
const POLL_MS = 50;
const MAX_CHARACTERS = 100_000;
/**
 * Error codes for a refresh token that the provider no longer accepts: one of RFC 6749 §5.2, and one of
 * GitHub.
 */
const REVOKED: ReadonlySet<string> = new Set(['invalid_grant', 'bad_refresh_token']);

export function providerTokensOf(
  answer: TokenAnswer,
  asked: readonly string[],
  nowMs: number,
): ProviderTokens {
  const { accessToken, refreshToken, idToken, scope, expiresInSeconds } = answer;
  return {
    accessToken,
    refreshToken,
    idToken,
    // GitHub separates scopes by commas instead of spaces
    scopes: scope === undefined ? [...asked] : scope.split(/[ ,]+/).filter((each) => each !== ''),
    expiresAt: expiresInSeconds === undefined ? undefined : new Date(nowMs + expiresInSeconds * 1_000),
  };
}

interface StoredTokensDeps {
  readonly records: () => RecordStore;
  readonly keys: Keyring;
  readonly clock: Clock;
  readonly connected: ReadonlyMap<string, ConnectedProvider>;
}

/** Stores the tokens of identity providers, and refreshes an access token that is about to expire. */
export class StoredProviderTokens {
  readonly #deps: StoredTokensDeps;
  readonly #sealed: ProtectedValues;

  constructor(deps: StoredTokensDeps) {
    this.#deps = deps;
    this.#sealed = new ProtectedValues(deps.keys, 'svc-oauth-provider-token', 'sealed', MAX_CHARACTERS);
  }

  /**
   * Stores the tokens of a login. If they do not include a refresh token, keeps the stored one, because some
   * providers send it only once.
   */
  async keep(sub: string, provider: string, tokens: ProviderTokens): Promise<void> {
    const key = keyOf(sub, provider);
    const known = tokens.refreshToken === undefined ? (await this.#read(key))?.tokens : undefined;
    const { expiresAt, ...rest } = tokens;
    const refreshToken = tokens.refreshToken ?? (known?.isRevoked === true ? undefined : known?.refreshToken);
    await this.#write(key, { ...rest, refreshToken, expiresAtMs: expiresAt?.getTime() });
  }

  /** Deletes the tokens of a user at a provider. Returns whether there were any. */
  forget(sub: string, provider: string): Promise<boolean> {
    return this.#ask((records) => records.delete(keyOf(sub, provider)));
  }

  /**
   * Returns the id_token of the last login, even if it has expired. The provider's logout page accepts it as
   * a hint.
   */
  async idTokenOf(sub: string, provider: string): Promise<string | undefined> {
    return (await this.#read(keyOf(sub, provider)))?.tokens.idToken;
  }

  /**
   * Returns an access token that stays valid for `minValiditySeconds`, and refreshes it if necessary.
   *
   * @throws OAuthError `provider_error` or `provider_timeout` when the provider fails,
   * `temporarily_unavailable` when the record store fails
   */
  async get(sub: string, provider: string, minValiditySeconds: number): Promise<ProviderTokenAnswer> {
    const connected = this.#deps.connected.get(provider);
    if (connected === undefined) return { kind: 'absent' };
    const key = keyOf(sub, provider);
    const lock = `${key} lock`;
    const owner = randomBytes(16).toString('base64url');
    const lockMs = connected.client.longestCallMs + LOCK_MARGIN_MS;
    const endMs = this.#deps.clock.monotonicMs() + lockMs;
    for (;;) {
      const found = await this.#read(key);
      const answer = this.#judge(found?.tokens, minValiditySeconds);
      if (answer !== undefined) return answer;
      if (await this.#ask((records) => records.add(lock, owner, lockMs))) {
        try {
          // read the tokens again, because the previous owner of the lock may have stored new ones
          const again = await this.#read(key);
          const settled = this.#judge(again?.tokens, minValiditySeconds);
          if (settled !== undefined) return settled;
          // `again` is defined, because #judge() returns a result if no tokens are stored
          const refreshed = await this.#refresh(connected, key, again!);
          if (refreshed !== undefined) return refreshed;
        } finally {
          if ((await this.#ask(async (records) => (await records.get(lock)) === owner)) === true)
            await this.#ask((records) => records.delete(lock));
        }
        continue;
      }
      if (this.#deps.clock.monotonicMs() >= endMs)
        throw new OAuthError('temporarily_unavailable', {
          reason: 'provider_token_lock',
          headers: { 'Retry-After': '1' },
        });
      await pass(this.#deps.clock, POLL_MS);
    }
  }

  /** Returns the result for get(); undefined if the token must be refreshed first. */
  #judge(tokens: StoredTokens | undefined, minValiditySeconds: number): ProviderTokenAnswer | undefined {
    if (tokens === undefined) return { kind: 'absent' };
    if (tokens.isRevoked === true) return { kind: 'revoked' };
    const { expiresAtMs } = tokens;
    if (expiresAtMs === undefined || expiresAtMs - this.#deps.clock.nowMs() > minValiditySeconds * 1_000)
      return answerOf(tokens);
    if (tokens.refreshToken !== undefined) return undefined;
    return expiresAtMs > this.#deps.clock.nowMs() ? answerOf(tokens) : { kind: 'expired' };
  }

  /**
   * Refreshes the tokens of a record. Returns undefined if a login has replaced the record in the meantime.
   */
  async #refresh(
    { client }: ConnectedProvider,
    key: string,
    { text, tokens }: { readonly text: string; readonly tokens: StoredTokens },
  ): Promise<ProviderTokenAnswer | undefined> {
    let next: StoredTokens;
    try {
      // `refreshToken` is defined, because #judge() returns a result if there is no refresh token
      const answer = await client.refresh(tokens.refreshToken!);
      const { expiresAt, ...rest } = providerTokensOf(answer, tokens.scopes, this.#deps.clock.nowMs());
      next = {
        ...rest,
        refreshToken: rest.refreshToken ?? tokens.refreshToken,
        idToken: rest.idToken ?? tokens.idToken,
        expiresAtMs: expiresAt?.getTime(),
      };
    } catch (error) {
      if (!(error instanceof ProviderFault)) throw error;
      if (!REVOKED.has(error.providerCode ?? ''))
        throw new OAuthError(error.code, { reason: error.reason, cause: error });
      next = { accessToken: '', scopes: tokens.scopes, isRevoked: true };
    }
    const isWritten = await this.#ask((records) => records.replace(key, text, this.#seal(key, next), TTL_MS));
    if (!isWritten) return undefined;
    return next.isRevoked === true ? { kind: 'revoked' } : answerOf(next);
  }

  async #read(key: string): Promise<{ readonly text: string; readonly tokens: StoredTokens } | undefined> {
    const text = await this.#ask((records) => records.get(key));
    if (text === undefined) return undefined;
    const read = this.#sealed.read(key, text, this.#deps.clock.nowMs() / 1_000);
    // the record is authentic, so #seal() wrote this JSON
    return read.kind === 'valid' ? { text, tokens: JSON.parse(read.payload) as StoredTokens } : undefined;
  }

  #write(key: string, tokens: StoredTokens): Promise<void> {
    return this.#ask((records) => records.set(key, this.#seal(key, tokens), TTL_MS));
  }

  #seal(key: string, tokens: StoredTokens): string {
    const issuedSeconds = Math.floor(this.#deps.clock.nowMs() / 1_000);
    return this.#sealed.write(key, JSON.stringify(tokens), {
      issuedSeconds,
      expiresSeconds: issuedSeconds + TTL_MS / 1_000,
    });
  }

  #ask<T>(ask: (records: RecordStore) => Awaitable<T>): Promise<T> {
    return askStore(() => ask(this.#deps.records()));
  }
}

function answerOf({ accessToken, idToken, scopes, expiresAtMs }: StoredTokens): ProviderTokenAnswer {
  return {
    kind: 'token',
    accessToken,
    idToken,
    scopes,
    expiresAt: expiresAtMs === undefined ? undefined : new Date(expiresAtMs),
  };
}

/**
 * Returns the key of a record. The hashed text contains the length of `sub`, so that each pair of user and
 * provider has its own key.
 */
function keyOf(sub: string, provider: string): string {
  return hash('sha256', `${sub.length}:${sub}${provider}`, 'hex');
}
