/**
 * Tokens of the identity provider: handed to `onUser`, and with `storeProviderTokens` kept for calls to the provider's API.
 *
 *   stored    one record for each subject and provider, sealed (AES-256-GCM) with a key derived from the secret
 *   refresh   one process holds a lock while it asks, for providers that rotate refresh tokens and punish a second use;
 *             the others wait, then read what it has written
 *
 * A login that comes meanwhile writes newer tokens: a refresh replaces only what it has read.
 */
import { hash, randomBytes } from 'node:crypto';
import { OAuthError } from './errors.ts';
import { pass } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { ProtectedValues } from '../http/session/cookie.ts';
import { ProviderFault } from './provider/failure.ts';
import type { Clock } from '../base/clock.ts';
import type { Awaitable, RecordStore } from '../cache/stores.ts';
import type { Keyring } from '../crypto/keys.ts';
import type { ConnectedProvider } from './provider/connected.ts';
import type { TokenAnswer } from './provider/token-answer.ts';

/** Tokens that the provider has handed out with a login. Secrets: not for logs, and not for browsers. */
export interface ProviderTokens {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  /** The id_token, verified, as the provider has written it. */
  readonly idToken?: string | undefined;
  /** Scopes of the access token; where the provider does not say, those that were asked for (RFC 6749 §5.1). */
  readonly scopes: readonly string[];
  /** When the access token ends; undefined where the provider does not say. */
  readonly expiresAt?: Date | undefined;
}

/** A provider's access token, or why there is none: `absent` (never stored, or its key has left), `expired` (and there is no refresh token), `revoked` (the provider refuses the refresh token). After each of these the user logs in again. */
export type ProviderTokenAnswer =
  | {
      readonly kind: 'token';
      readonly accessToken: string;
      readonly idToken?: string | undefined;
      readonly scopes: readonly string[];
      readonly expiresAt?: Date | undefined;
    }
  | { readonly kind: 'absent' | 'expired' | 'revoked' };

/** How much longer a token has to be valid. */
export interface ProviderTokenOptions {
  /** In seconds, 0 ... 3_600. A token that ends sooner is refreshed. Default 60. */
  readonly minValiditySeconds?: number | undefined;
}

/** The tokens in one record. */
interface StoredTokens {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  readonly idToken?: string | undefined;
  readonly scopes: readonly string[];
  readonly expiresAtMs?: number | undefined;
  readonly isRevoked?: boolean | undefined;
}

/** A record that was not renewed for a year is over. */
const TTL_MS = 31_536_000_000;
/** A lock lasts so much longer than a call to the provider can take; whose process has died is waited out. */
const LOCK_MARGIN_MS = 5_000;
const POLL_MS = 50;
const MAX_CHARACTERS = 100_000;
/** Errors of a provider for a refresh token that it takes no more: RFC 6749 §5.2, and GitHub. */
const REVOKED: ReadonlySet<string> = new Set(['invalid_grant', 'bad_refresh_token']);

/** Tokens out of an answer of the provider. */
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
    scopes: scope === undefined ? [...asked] : scope.split(/[ ,]+/).filter((each) => each !== ''), // GitHub writes commas
    expiresAt: expiresInSeconds === undefined ? undefined : new Date(nowMs + expiresInSeconds * 1_000),
  };
}

/** Keeps tokens, and gives them out fresh. */
export class StoredProviderTokens {
  readonly #records: () => RecordStore;
  readonly #sealed: ProtectedValues;
  readonly #clock: Clock;
  readonly #providerOf: (name: string) => ConnectedProvider | undefined;

  constructor(deps: {
    readonly records: () => RecordStore;
    readonly keys: Keyring;
    readonly clock: Clock;
    readonly providerOf: (name: string) => ConnectedProvider | undefined;
  }) {
    this.#records = deps.records;
    this.#sealed = new ProtectedValues(deps.keys, 'svc-oauth-provider-token', 'sealed', MAX_CHARACTERS);
    this.#clock = deps.clock;
    this.#providerOf = deps.providerOf;
  }

  /** Keeps the tokens of a login. Without a new refresh token the one at hand stays: some providers send it once. */
  async keep(sub: string, provider: string, tokens: ProviderTokens): Promise<void> {
    const key = keyOf(sub, provider);
    const known = tokens.refreshToken === undefined ? (await this.#read(key))?.tokens : undefined;
    const { expiresAt, ...rest } = tokens;
    const refreshToken = tokens.refreshToken ?? (known?.isRevoked === true ? undefined : known?.refreshToken);
    await this.#write(key, { ...rest, refreshToken, expiresAtMs: expiresAt?.getTime() });
  }

  /** Forgets the tokens of a subject at a provider. Returns whether there were any. */
  forget(sub: string, provider: string): Promise<boolean> {
    return this.#ask((records) => records.delete(keyOf(sub, provider)));
  }

  /** The id_token of the last login, which may be over: a hint for the provider. */
  async idTokenOf(sub: string, provider: string): Promise<string | undefined> {
    return (await this.#read(keyOf(sub, provider)))?.tokens.idToken;
  }

  /** A token that is valid for a while, refreshed if need be. @throws OAuthError `provider_error`, `provider_timeout`, `temporarily_unavailable` */
  async get(sub: string, provider: string, minValiditySeconds: number): Promise<ProviderTokenAnswer> {
    const connected = this.#providerOf(provider);
    if (connected === undefined) return { kind: 'absent' };
    const key = keyOf(sub, provider);
    const lock = `${key} lock`;
    const owner = randomBytes(16).toString('base64url');
    const lockMs = connected.client.longestCallMs + LOCK_MARGIN_MS;
    const endMs = this.#clock.monotonicMs() + lockMs;
    for (;;) {
      const found = await this.#read(key);
      const answer = this.#judge(found?.tokens, minValiditySeconds);
      if (answer !== undefined) return answer;
      if (await this.#ask((records) => records.add(lock, owner, lockMs))) {
        try {
          // the process that had the lock before may have written since
          const again = await this.#read(key);
          const settled = this.#judge(again?.tokens, minValiditySeconds);
          if (settled !== undefined) return settled;
          const refreshed = await this.#refresh(connected, key, again!); // #judge() has settled what is absent
          if (refreshed !== undefined) return refreshed;
        } finally {
          if ((await this.#ask(async (records) => (await records.get(lock)) === owner)) === true)
            await this.#ask((records) => records.delete(lock));
        }
        continue;
      }
      if (this.#clock.monotonicMs() >= endMs) throw unavailable('provider_token_lock');
      await pass(this.#clock, POLL_MS);
    }
  }

  /** The answer as far as it needs no refresh. */
  #judge(tokens: StoredTokens | undefined, minValiditySeconds: number): ProviderTokenAnswer | undefined {
    if (tokens === undefined) return { kind: 'absent' };
    if (tokens.isRevoked === true) return { kind: 'revoked' };
    const { expiresAtMs } = tokens;
    if (expiresAtMs === undefined || expiresAtMs - this.#clock.nowMs() > minValiditySeconds * 1_000)
      return answerOf(tokens);
    if (tokens.refreshToken !== undefined) return undefined;
    return expiresAtMs > this.#clock.nowMs() ? answerOf(tokens) : { kind: 'expired' };
  }

  /** Undefined when a login has written other tokens meanwhile. */
  async #refresh(
    { client }: ConnectedProvider,
    key: string,
    { text, tokens }: { readonly text: string; readonly tokens: StoredTokens },
  ): Promise<ProviderTokenAnswer | undefined> {
    let next: StoredTokens;
    try {
      const answer = await client.refresh(tokens.refreshToken!); // #judge() has seen that there is one
      const { expiresAt, ...rest } = providerTokensOf(answer, tokens.scopes, this.#clock.nowMs());
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
    const read = this.#sealed.read(key, text, this.#clock.nowMs() / 1_000);
    return read.kind === 'valid'
      ? { text, tokens: JSON.parse(read.payload) as StoredTokens } // written by #seal(), and authentic
      : undefined;
  }

  #write(key: string, tokens: StoredTokens): Promise<void> {
    return this.#ask((records) => records.set(key, this.#seal(key, tokens), TTL_MS));
  }

  #seal(key: string, tokens: StoredTokens): string {
    const issuedSeconds = Math.floor(this.#clock.nowMs() / 1_000);
    return this.#sealed.write(key, JSON.stringify(tokens), {
      issuedSeconds,
      expiresSeconds: issuedSeconds + TTL_MS / 1_000,
    });
  }

  async #ask<T>(ask: (records: RecordStore) => Awaitable<T>): Promise<T> {
    try {
      return await ask(this.#records());
    } catch (error) {
      if (error instanceof SvcError && error.code === 'E_DB_NESTED') throw error; // a mistake of the application, which no client can wait out
      throw unavailable('store', error);
    }
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

/** Subjects are long, and may be spelt like two: the length tells where one ends. */
function keyOf(sub: string, provider: string): string {
  return hash('sha256', `${sub.length}:${sub}${provider}`, 'hex');
}

function unavailable(reason: string, cause?: unknown): OAuthError {
  return new OAuthError('temporarily_unavailable', { reason, cause, headers: { 'Retry-After': '1' } });
}
