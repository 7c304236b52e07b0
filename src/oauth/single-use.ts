/**
 * Values that count once: login states that have come back, DPoP proofs, one-time codes. Only used values are recorded, so a
 * login that is merely begun costs no row. The record store decides which of several processes was first.
 */
import { OAuthError } from './errors.ts';
import { SvcError } from '../base/errors.ts';
import type { Awaitable, RecordStore } from '../cache/stores.ts';

/** Kinds of values. Values of two kinds never meet. */
type SingleUseKind = 'state' | 'proof' | 'code' | 'logout';

/** Records which values were used, by their hashes. */
export class SingleUse {
  readonly #records: () => RecordStore;

  /** `records` is called each time: a database is opened only when the application starts. */
  constructor(records: () => RecordStore) {
    this.#records = records;
  }

  /** Uses a value up, and remembers it for `ttlMs`. Of several calls for one value, one returns true. @throws OAuthError `temporarily_unavailable` */
  use(kind: SingleUseKind, hash: string, ttlMs: number): Promise<boolean> {
    return this.#ask((records) => records.add(`${kind} ${hash}`, '', ttlMs));
  }

  /** Returns whether a value was used. @throws OAuthError `temporarily_unavailable` */
  isUsed(kind: SingleUseKind, hash: string): Promise<boolean> {
    return this.#ask(async (records) => (await records.get(`${kind} ${hash}`)) !== undefined);
  }

  /** Keeps a text under the hash of a value for `ttlMs`. @throws OAuthError `temporarily_unavailable` */
  keep(kind: SingleUseKind, hash: string, text: string, ttlMs: number): Promise<void> {
    return this.#ask((records) => records.set(`${kind} ${hash}`, text, ttlMs));
  }

  /** The text that is kept; undefined when there is none any more. @throws OAuthError `temporarily_unavailable` */
  kept(kind: SingleUseKind, hash: string): Promise<string | undefined> {
    return this.#ask((records) => records.get(`${kind} ${hash}`));
  }

  /** Replaces a text that is kept: of several calls that have read the same, one returns true. @throws OAuthError `temporarily_unavailable` */
  change(kind: SingleUseKind, hash: string, before: string, text: string, ttlMs: number): Promise<boolean> {
    return this.#ask((records) => records.replace(`${kind} ${hash}`, before, text, ttlMs));
  }

  async #ask<T>(ask: (records: RecordStore) => Awaitable<T>): Promise<T> {
    try {
      return await ask(this.#records());
    } catch (error) {
      if (error instanceof SvcError && error.code === 'E_DB_NESTED') throw error; // a mistake of the application, which no client can wait out
      throw new OAuthError('temporarily_unavailable', {
        cause: error,
        reason: 'store',
        headers: { 'Retry-After': '1' },
      });
    }
  }
}
