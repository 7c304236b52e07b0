/**
 * Prepared statements of one connection to MySQL or MariaDB, kept by their text. The least recently used one is closed, together with
 * the next request: a server has room for 16,382 of all its connections.
 */
import { LruIndex } from '../../cache/lru.ts';
import type { Kinds } from './types.ts';
import type { RowPlan } from './rows.ts';

/** Texts longer than this are not kept: they are generated, and rarely twice the same. */
export const MAX_KEPT_CHARACTERS: number = 15 * 1024;

/** A statement that the server has. */
export interface KnownStatement {
  /** For the server; undefined for one that cannot be prepared, and is run as text. */
  readonly id: number | undefined;
  /** How its rows were read the last time. */
  plan: RowPlan | undefined;
  /** Of its parameters, where the server makes values fit them. */
  readonly kinds: Kinds | undefined;
}

/** See above. */
export class MySqlStatements {
  readonly #capacity: number;
  readonly #index: LruIndex;
  readonly #kept: (KnownStatement | undefined)[] = [];
  /** Statements to be closed. */
  #closing: number[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
    this.#index = new LruIndex(Math.max(1, capacity));
  }

  get size(): number {
    return this.#index.size;
  }

  get(text: string): KnownStatement | undefined {
    const slot = this.#index.touch(text);
    return slot === 0 ? undefined : this.#kept[slot];
  }

  /** Whether a statement of this text will be kept. */
  keeps(text: string): boolean {
    return this.#capacity > 0 && text.length <= MAX_KEPT_CHARACTERS;
  }

  /** Keeps one, for which there is none yet. */
  add(text: string, statement: KnownStatement): void {
    if (this.#index.isFull) this.close(this.#kept[this.#index.oldest]!); // it is the one that leaves
    this.#kept[this.#index.isFull ? this.#index.replaceOldest(text) : this.#index.add(text)] = statement;
  }

  /** Forgets one that is no good. */
  drop(text: string): void {
    const slot = this.#index.find(text);
    if (slot === 0) return;
    this.close(this.#kept[slot]!); // every slot in the index has one
    this.#index.remove(slot);
    this.#kept[slot] = undefined;
  }

  /** Forgets all. `isGone`: the server has forgotten them too. */
  clear(isGone: boolean): void {
    for (const [text] of [...this.#index.entries()]) this.drop(text);
    if (isGone) this.#closing = [];
  }

  /** Closes one with the next request. */
  close({ id }: Pick<KnownStatement, 'id'>): void {
    if (id !== undefined) this.#closing.push(id);
  }

  /** Whether it is closed with what is written next. */
  isClosing({ id }: Pick<KnownStatement, 'id'>): boolean {
    return id !== undefined && this.#closing.includes(id);
  }

  /** Statements to be closed with what is written next. */
  takeClosing(): readonly number[] {
    if (this.#closing.length === 0) return NONE;
    const ids = this.#closing;
    this.#closing = [];
    return ids;
  }
}

const NONE: readonly number[] = [];
