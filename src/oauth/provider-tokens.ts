/**
 * Tokens of the identity provider. `onUser` receives them. With the option `storeProviderTokens`, they are
 * also stored, encrypted, for calls to the provider's API.
 *
 * A record holds the tokens of all identities that one user has at one provider. Each change replaces the
 * record only if no other process has changed it in the meantime, so that two links at once lose no identity.
 *
 * Only one process at a time refreshes the tokens of a user, because some providers end a login if its
 * refresh token is used twice. If a new login stores newer tokens during the refresh, these tokens are kept.
 */
import { hash, randomBytes } from 'node:crypto';
import { OAuthError } from './errors.ts';
import { pass } from '../base/clock.ts';
import { parseObject } from '../crypto/jwt-json.ts';
import { ProtectedValues } from '../crypto/protected-values.ts';
import { ProviderFault } from '../auth/provider/failure.ts';
import { askStore } from './single-use.ts';
import type { Clock } from '../base/clock.ts';
import type { Awaitable, RecordStore } from '../cache/stores.ts';
import type { Keyring } from '../crypto/keys.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { TokenAnswer } from './provider/token-answer.ts';
import type { LoginStore } from './tokens/store.ts';

/** An identity of a user at a provider. */
export interface Identity {
  readonly provider: string;
  /** Id of the user at the provider. */
  readonly subject: string;
}

/** Tokens from the provider's token response. They are secret: keep them out of logs and browsers. */
export interface ProviderTokens {
  /** Access token of the provider. */
  readonly accessToken: string;
  /** Refresh token of the provider, if it issued one. */
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
  | ({ readonly kind: 'token' } & Omit<ProviderTokens, 'refreshToken'>)
  | { readonly kind: 'absent' | 'expired' | 'revoked' };

/** Options of {@link OAuthPlugin.providerToken}. */
export interface ProviderTokenOptions {
  /** Id of the user at the provider. Required if the user has several identities there. */
  readonly subject?: string | undefined;
  /**
   * Minimum remaining lifetime in seconds, 0 ... 3_600. A token that expires sooner is refreshed. Default 60.
   */
  readonly minValiditySeconds?: number | undefined;
}

interface StoredTokens extends Omit<ProviderTokens, 'expiresAt'> {
  /** Id at the provider. Null in a record of an earlier build, which held one identity. */
  readonly subject: string | null;
  readonly expiresAtMs?: number | undefined;
  readonly isRevoked?: boolean | undefined;
}

/** Lifetime of a record after its last write, in milliseconds: one year. */
const TTL_MS = 31_536_000_000;
/** A lock ends this many milliseconds after the longest possible call, for other processes. */
const LOCK_MARGIN_MS = 5_000;
const POLL_MS = 50;
const MAX_CHARACTERS = 1_000_000;
/** Maximum number of identities in a record. The tokens of the identity that was changed first are dropped. */
const MAX_IDENTITIES = 20;
/** Maximum number of attempts to change a record. Each failed attempt means that another one succeeded. */
const MAX_ATTEMPTS = 100;
/** Codes for a refresh token that is no longer accepted: of RFC 6749 §5.2, and of GitHub. */
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
  readonly records: RecordStore;
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

  /** Stores tokens. Keeps the stored refresh token if there is none, as some providers send it once. */
  async keep(sub: string, provider: string, subject: string, tokens: ProviderTokens): Promise<void> {
    const { expiresAt, ...rest } = tokens;
    await this.#change(keyOf(sub, provider), (stored) => {
      const identities = named(stored, subject, tokens.idToken);
      const known = identities.find((each) => each.subject === subject);
      const refreshToken =
        tokens.refreshToken ?? (known?.isRevoked === true ? undefined : known?.refreshToken);
      const next = { ...rest, subject, refreshToken, expiresAtMs: expiresAt?.getTime() };
      return [...identities.filter((each) => each !== known), next].slice(-MAX_IDENTITIES);
    });
  }

  /** Deletes the tokens of an identity. Returns whether there were any. */
  forget(sub: string, provider: string, subject: string | undefined): Promise<boolean> {
    return this.#change(keyOf(sub, provider), (identities) => {
      const found = chosen(identities, subject);
      return found && identities.filter((each) => each !== found);
    });
  }

  /** Returns the ids that a user has at a provider, as far as tokens of them are stored. */
  async subjectsOf(sub: string, provider: string): Promise<readonly string[]> {
    const { identities } = await this.#read(keyOf(sub, provider));
    return identities.flatMap(({ subject }) => subject ?? []);
  }

  /** Returns the last id_token of an identity, even an expired one, as a hint for the logout. */
  async idTokenOf(sub: string, provider: string, subject: string): Promise<string | undefined> {
    return chosen((await this.#read(keyOf(sub, provider))).identities, subject)?.idToken;
  }

  /** Returns an access token that stays valid for `minValiditySeconds`, and refreshes it if necessary. */
  async get(
    sub: string,
    provider: string,
    subject: string | undefined,
    minValiditySeconds: number,
  ): Promise<ProviderTokenAnswer> {
    const connected = this.#deps.connected.get(provider);
    if (connected === undefined) return { kind: 'absent' };
    const key = keyOf(sub, provider);
    const owner = randomBytes(16).toString('base64url');
    const lockMs = connected.client.longestCallMs + LOCK_MARGIN_MS;
    const endMs = this.#deps.clock.monotonicMs() + lockMs;
    const find = async (): Promise<StoredTokens | undefined> =>
      chosen((await this.#read(key)).identities, subject);
    for (;;) {
      const found = await find();
      const answer = this.#judge(found, minValiditySeconds);
      if (answer !== undefined) return answer;
      const lock = lockOf(key, found?.subject);
      if (await this.#ask((records) => records.add(lock, owner, lockMs))) {
        try {
          // read the tokens again, because the previous owner of the lock may have stored new ones
          const again = await find();
          const judged = this.#judge(again, minValiditySeconds);
          if (judged !== undefined) return judged;
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
        throw new OAuthError('temporarily_unavailable', { reason: 'provider_token_lock' });
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
   * Refreshes the tokens of an identity. Returns undefined if a login has replaced them in the meantime.
   */
  async #refresh(
    { client }: ConnectedProvider,
    key: string,
    tokens: StoredTokens,
  ): Promise<ProviderTokenAnswer | undefined> {
    let next: StoredTokens;
    try {
      // `refreshToken` is defined, because #judge() returns a result if there is no refresh token
      const answer = await client.refresh(tokens.refreshToken!);
      const { expiresAt, ...rest } = providerTokensOf(answer, tokens.scopes, this.#deps.clock.nowMs());
      next = {
        ...rest,
        subject: tokens.subject,
        refreshToken: rest.refreshToken ?? tokens.refreshToken,
        idToken: rest.idToken ?? tokens.idToken,
        expiresAtMs: expiresAt?.getTime(),
      };
    } catch (error) {
      if (!(error instanceof ProviderFault)) throw error;
      if (!REVOKED.has(error.providerCode ?? ''))
        throw new OAuthError(error.code, { reason: error.reason, cause: error });
      next = { subject: tokens.subject, accessToken: '', scopes: tokens.scopes, isRevoked: true };
    }
    const isWritten = await this.#change(key, (identities) => {
      const index = identities.findIndex((each) => isSame(each, tokens));
      return index < 0 ? undefined : identities.with(index, next);
    });
    if (!isWritten) return undefined;
    return next.isRevoked === true ? { kind: 'revoked' } : answerOf(next);
  }

  /** Reads a record. `text` is undefined if there is none. Without the key of a record, it has no identities. */
  async #read(
    key: string,
  ): Promise<{ readonly text: string | undefined; readonly identities: readonly StoredTokens[] }> {
    const text = await this.#ask((records) => records.get(key));
    if (text === undefined) return { text, identities: [] };
    const read = this.#sealed.read(key, text, this.#deps.clock.nowMs() / 1_000);
    return { text, identities: read.kind === 'valid' ? identitiesIn(read.payload) : [] };
  }

  /**
   * Changes the identities of a record. If another process changes the record at the same time, `change` is
   * called again with its identities. If `change` returns undefined, the record stays as it is. Returns
   * whether the record was changed.
   */
  async #change(
    key: string,
    change: (identities: readonly StoredTokens[]) => readonly StoredTokens[] | undefined,
  ): Promise<boolean> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { text, identities } = await this.#read(key);
      const next = change(identities);
      if (next === undefined) return false;
      const sealed = this.#seal(key, next);
      // a lifetime of 0 deletes the record
      const ttlMs = next.length === 0 ? 0 : TTL_MS;
      const isWritten = await this.#ask((records) =>
        text === undefined ? records.add(key, sealed, ttlMs) : records.replace(key, text, sealed, ttlMs),
      );
      if (isWritten) return true;
    }
    throw new OAuthError('temporarily_unavailable', { reason: 'provider_token_conflict' });
  }

  #seal(key: string, identities: readonly StoredTokens[]): string {
    const issuedSeconds = Math.floor(this.#deps.clock.nowMs() / 1_000);
    return this.#sealed.write(key, JSON.stringify({ identities }), {
      issuedSeconds,
      expiresSeconds: issuedSeconds + TTL_MS / 1_000,
    });
  }

  #ask<T>(ask: (records: RecordStore) => Awaitable<T>): Promise<T> {
    return askStore(() => ask(this.#deps.records));
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

/** Returns the identities in a decrypted record. A record of an earlier build is one identity without a name. */
function identitiesIn(payload: string): readonly StoredTokens[] {
  // the record is authentic, so #seal() wrote this JSON
  const value = JSON.parse(payload) as { readonly identities?: readonly StoredTokens[] } & StoredTokens;
  return value.identities ?? [{ ...value, subject: null }];
}

/**
 * Returns the identity with an id, or the only identity if `subject` is undefined. An identity without a name
 * is the only one of its record. It has every id, unless its id_token names another one.
 */
function chosen(identities: readonly StoredTokens[], subject: string | undefined): StoredTokens | undefined {
  if (subject === undefined) {
    if (identities.length > 1) throw new OAuthError('subject_required');
    return identities[0];
  }
  return identities.find((each) => (each.subject ?? subjectIn(each.idToken) ?? subject) === subject);
}

/**
 * Gives a name to the identity of a record of an earlier build, when an identity with a name arrives. It is
 * dropped if it cannot be known whose tokens these are, so that no identity gets tokens of another.
 *
 * The id_tokens tell: the same `sub` in both means the same identity. The subject of the new identity shows
 * whether subjects at this provider are the claim `sub`; then the old id_token contains the old subject.
 */
function named(
  identities: readonly StoredTokens[],
  subject: string,
  idToken: string | undefined,
): readonly StoredTokens[] {
  return identities.flatMap((each) => {
    if (each.subject !== null) return each;
    const [before, now] = [subjectIn(each.idToken), subjectIn(idToken)];
    if (before === undefined) return [];
    if (before === now || before === subject) return { ...each, subject };
    return now === subject ? { ...each, subject: before } : [];
  });
}

/** Returns the claim `sub` of an id_token. The token was verified before it was stored. */
function subjectIn(idToken: string | undefined): string | undefined {
  const payload = idToken?.split('.')[1];
  const sub =
    payload === undefined ? undefined : parseObject(Buffer.from(payload, 'base64url').toString())?.['sub'];
  return typeof sub === 'string' ? sub : undefined;
}

function isSame(left: StoredTokens, right: StoredTokens): boolean {
  return (
    left.subject === right.subject &&
    left.accessToken === right.accessToken &&
    left.refreshToken === right.refreshToken
  );
}

/** Returns the key of a record. The length of `sub` keeps pairs apart. */
function keyOf(sub: string, provider: string): string {
  return hash('sha256', `${sub.length}:${sub}${provider}`, 'hex');
}

/** Returns the key of the lock with which the tokens of an identity are refreshed. */
function lockOf(key: string, subject: string | null | undefined): string {
  return `${key} lock${subject === null || subject === undefined ? '' : ` ${hash('sha256', subject, 'hex')}`}`;
}

interface IdentitiesDeps {
  readonly store: LoginStore;
  readonly clock: Clock;
  readonly providerTokens: StoredProviderTokens | undefined;
  readonly connected: ReadonlyMap<string, ConnectedProvider>;
}

/**
 * Returns the identities of a user that the plugin knows: those with stored tokens, and those with a login
 * that lives. The complete list is the application's.
 */
export async function identitiesOf(
  { store, clock, providerTokens, connected }: IdentitiesDeps,
  sub: string,
): Promise<Identity[]> {
  const logins = await store.listLogins(sub, clock.nowMicros());
  const found = await Promise.all(
    [...connected.keys()].map(async (provider) => {
      const stored = (await providerTokens?.subjectsOf(sub, provider)) ?? [];
      const used = logins.filter((row) => row.provider === provider).map(({ subject }) => subject);
      return [...new Set([...stored, ...used])].map((subject) => ({ provider, subject }));
    }),
  );
  return found.flat();
}
