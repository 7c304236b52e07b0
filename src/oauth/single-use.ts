/**
 * Values that can be used only once: login states, DPoP proofs, one-time codes, logout tokens. If several
 * processes use a value at the same time, the record store decides which of them is first.
 */
import { OAuthError } from './errors.ts';
import { throwMistake } from '../base/errors.ts';
import type { Awaitable, RecordStore } from '../cache/stores.ts';

type SingleUseKind = 'state' | 'proof' | 'code' | 'logout';

/** Remembers used values by their hashes. While the record store fails, throws `temporarily_unavailable`. */
export class SingleUse {
  readonly #records: RecordStore;

  constructor(records: RecordStore) {
    this.#records = records;
  }

  /** Marks a value as used for `ttlMs`. If several calls use one value, only one of them returns true. */
  use(kind: SingleUseKind, hash: string, ttlMs: number): Promise<boolean> {
    return this.#ask((records) => records.add(`${kind} ${hash}`, '', ttlMs));
  }

  isUsed(kind: SingleUseKind, hash: string): Promise<boolean> {
    return this.#ask(async (records) => (await records.get(`${kind} ${hash}`)) !== undefined);
  }

  /** Stores a text under the hash of a value for `ttlMs`. */
  keep(kind: SingleUseKind, hash: string, text: string, ttlMs: number): Promise<void> {
    return this.#ask((records) => records.set(`${kind} ${hash}`, text, ttlMs));
  }

  /** Returns the text that keep() stored; undefined if it has expired or never existed. */
  kept(kind: SingleUseKind, hash: string): Promise<string | undefined> {
    return this.#ask((records) => records.get(`${kind} ${hash}`));
  }

  /**
   * Replaces a stored text if it equals `before`. If several calls have the same `before`, only one of them
   * returns true.
   */
  change(kind: SingleUseKind, hash: string, before: string, text: string, ttlMs: number): Promise<boolean> {
    return this.#ask((records) => records.replace(`${kind} ${hash}`, before, text, ttlMs));
  }

  #ask<T>(ask: (records: RecordStore) => Awaitable<T>): Promise<T> {
    return askStore(() => ask(this.#records));
  }
}

export async function askStore<T>(ask: () => Awaitable<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    throwMistake(error); // a retry by the client would fail again
    throw new OAuthError('temporarily_unavailable', { cause: error, reason: 'store' });
  }
}
