/**
 * Values that can be used only once: login states, DPoP proofs, one-time codes, logout tokens. A state or
 * proof is stored only when it is used, so starting a login writes no row. The record store decides which of
 * several processes is first.
 */
import { OAuthError } from './errors.ts';
import { SvcError } from '../base/errors.ts';
import type { Awaitable, RecordStore } from '../cache/stores.ts';

/** Kinds of values. Values of different kinds never collide. */
type SingleUseKind = 'state' | 'proof' | 'code' | 'logout';

/** Stores values by their hashes. */
export class SingleUse {
  readonly #records: () => RecordStore;

  /** `records` is a function, because the database opens only when the application starts. */
  constructor(records: () => RecordStore) {
    this.#records = records;
  }

  /**
   * Marks a value as used for `ttlMs`. Of several calls for one value, one returns true.
   *
   * @throws OAuthError `temporarily_unavailable`
   */
  use(kind: SingleUseKind, hash: string, ttlMs: number): Promise<boolean> {
    return this.#ask((records) => records.add(`${kind} ${hash}`, '', ttlMs));
  }

  /** Returns whether a value was used. @throws OAuthError `temporarily_unavailable` */
  isUsed(kind: SingleUseKind, hash: string): Promise<boolean> {
    return this.#ask(async (records) => (await records.get(`${kind} ${hash}`)) !== undefined);
  }

  /** Stores a text under the hash of a value for `ttlMs`. @throws OAuthError `temporarily_unavailable` */
  keep(kind: SingleUseKind, hash: string, text: string, ttlMs: number): Promise<void> {
    return this.#ask((records) => records.set(`${kind} ${hash}`, text, ttlMs));
  }

  /**
   * Returns the stored text; undefined if it has expired or never existed.
   * @throws OAuthError `temporarily_unavailable`
   */
  kept(kind: SingleUseKind, hash: string): Promise<string | undefined> {
    return this.#ask((records) => records.get(`${kind} ${hash}`));
  }

  /**
   * Replaces a stored text if it equals `before`. Of several calls with the same `before`, one returns true.
   *
   * @throws OAuthError `temporarily_unavailable`
   */
  change(kind: SingleUseKind, hash: string, before: string, text: string, ttlMs: number): Promise<boolean> {
    return this.#ask((records) => records.replace(`${kind} ${hash}`, before, text, ttlMs));
  }

  #ask<T>(ask: (records: RecordStore) => Awaitable<T>): Promise<T> {
    return askStore(() => ask(this.#records()));
  }
}

/** Calls a store. @throws OAuthError `temporarily_unavailable` if it fails */
export async function askStore<T>(ask: () => Awaitable<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    // the application has made a mistake: a retry by the client does not help
    if (error instanceof SvcError && error.code === 'E_DB_NESTED') throw error;
    throw new OAuthError('temporarily_unavailable', {
      cause: error,
      reason: 'store',
      headers: { 'Retry-After': '1' },
    });
  }
}
