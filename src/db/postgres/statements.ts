/**
 * Prepared statements of one PostgreSQL connection, kept by their text. A text that is seen for the first time runs unnamed: most
 * that are made of pieces never come again. The least recently used one is closed, together with the next statement.
 */
import { LruIndex } from '../../cache/lru.ts';
import type { Column } from '../driver.ts';
import type { RowPlan } from './rows.ts';

/** Texts longer than this are not kept: they are generated, and rarely twice the same. */
const MAX_KEPT_CHARACTERS = 15 * 1024;

/** A statement that was seen. */
export interface KnownStatement {
  /** For the server; empty while it has none there. */
  name: string;
  /** What it wants and gives, once that is known of the named statement. */
  oids: readonly number[] | undefined;
  /** Of rows in binary; undefined when it gives none. */
  plan: RowPlan | undefined;
  /** Whether `oids` and `plan` hold. */
  isDescribed: boolean;
  /** With the names of their tables and types, once somebody has asked. */
  columns: readonly Column[] | undefined;
}

/** See above. */
export class PostgresStatements {
  readonly #capacity: number;
  readonly #prefix: string;
  readonly #index: LruIndex;
  readonly #kept: (KnownStatement | undefined)[] = [];
  /** Names of statements to be closed. */
  #closing: string[] = [];
  #count = 0;

  /** `prefix`: unlike that of any other connection, for the sake of poolers that mix them. */
  constructor(capacity: number, prefix: string) {
    this.#capacity = capacity;
    this.#prefix = prefix;
    this.#index = new LruIndex(Math.max(1, capacity));
  }

  get size(): number {
    return this.#index.size;
  }

  /** What is known of a text, which is remembered from now on; undefined for those that are not kept. */
  get(text: string): KnownStatement | undefined {
    const slot = this.#index.find(text);
    if (slot !== 0) {
      this.#index.use(slot);
      return this.#kept[slot]!; // every slot in the index has one
    }
    if (this.#capacity === 0 || text.length > MAX_KEPT_CHARACTERS) return undefined;
    const statement: KnownStatement = {
      name: '',
      oids: undefined,
      plan: undefined,
      isDescribed: false,
      columns: undefined,
    };
    if (this.#index.isFull) this.#close(this.#kept[this.#index.oldest]);
    this.#kept[this.#index.isFull ? this.#index.replaceOldest(text) : this.#index.add(text)] = statement;
    return undefined;
  }

  /** The one of a text that is prepared, and known to want and give what it does: a use of it. */
  described(text: string): KnownStatement | undefined {
    const slot = this.#index.find(text);
    const statement = this.#kept[slot];
    if (statement?.isDescribed !== true) return undefined;
    this.#index.use(slot);
    return statement;
  }

  /** The one that get() has made. */
  seen(text: string): KnownStatement | undefined {
    return this.#kept[this.#index.find(text)];
  }

  nextName(): string {
    return `${this.#prefix}${++this.#count}`;
  }

  /** Forgets one, whose plan is no good. */
  drop(text: string): void {
    const slot = this.#index.find(text);
    if (slot === 0) return;
    this.#close(this.#kept[slot]);
    this.#index.remove(slot);
    this.#kept[slot] = undefined;
  }

  /** Forgets all. `isGone`: the server has forgotten them too. */
  clear(isGone: boolean): void {
    for (const [, slot] of this.#index.entries()) {
      if (!isGone) this.#close(this.#kept[slot]);
      this.#index.remove(slot);
      this.#kept[slot] = undefined;
    }
    if (isGone) this.#closing = [];
  }

  /** Names to be closed with the next statement. */
  takeClosing(): readonly string[] {
    if (this.#closing.length === 0) return NONE;
    const names = this.#closing;
    this.#closing = [];
    return names;
  }

  /** Gives back what takeClosing() has given, where it could not be written. */
  putBack(names: readonly string[]): void {
    this.#closing.push(...names);
  }

  #close(statement: KnownStatement | undefined): void {
    if (statement !== undefined && statement.name !== '') this.#closing.push(statement.name);
  }
}

const NONE: readonly string[] = [];
