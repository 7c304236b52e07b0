/**
 * Caches by the text of a statement: the texts used last are kept.
 */
import { LruIndex } from '../cache/lru.ts';

/** Texts longer than this are not kept: they are generated, and rarely twice the same. */
const MAX_KEPT_CHARACTERS = 15 * 1024;
const NONE: readonly never[] = [];

/** At most `capacity` values by the text of a statement. */
export class TextCache<V> {
  readonly #capacity: number;
  readonly #index: LruIndex;
  readonly #values: (V | undefined)[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
    this.#index = new LruIndex(Math.max(1, capacity));
  }

  get size(): number {
    return this.#index.size;
  }

  /** Whether a value for this text would be kept. */
  keeps(text: string): boolean {
    return this.#capacity > 0 && text.length <= MAX_KEPT_CHARACTERS;
  }

  /** The value of a text, as the one used last. */
  get(text: string): V | undefined {
    return this.#values[this.#index.touch(text)];
  }

  /** The value of a text. Not a use. */
  peek(text: string): V | undefined {
    return this.#values[this.#index.find(text)];
  }

  /** Keeps a value for a text that has none, if it may. Returns the value that had to leave for it. */
  add(text: string, value: V): V | undefined {
    if (!this.keeps(text)) return undefined;
    const leaving = this.#index.isFull ? this.#values[this.#index.oldest] : undefined;
    this.#values[this.#index.isFull ? this.#index.replaceOldest(text) : this.#index.add(text)] = value;
    return leaving;
  }

  /** Forgets a text. Returns its value. */
  delete(text: string): V | undefined {
    const slot = this.#index.find(text);
    if (slot === 0) return undefined;
    const value = this.#values[slot];
    this.#index.remove(slot);
    this.#values[slot] = undefined;
    return value;
  }

  /** Forgets all. */
  clear(): void {
    for (const [text] of [...this.#index.entries()]) this.delete(text);
  }
}

/**
 * Prepared statements of one connection to a server, which knows them by handles of the type `H`. One that leaves is closed, together
 * with the next request.
 */
export class PreparedStatements<S, H extends string | number> extends TextCache<S> {
  readonly #handleOf: (statement: S) => H | undefined;
  /** Statements to be closed. */
  #closing: H[] = [];

  /** `handleOf`: undefined while the server does not know the statement. */
  constructor(capacity: number, handleOf: (statement: S) => H | undefined) {
    super(capacity);
    this.#handleOf = handleOf;
  }

  override add(text: string, statement: S): S | undefined {
    return this.close(super.add(text, statement));
  }

  override delete(text: string): S | undefined {
    return this.close(super.delete(text));
  }

  /** Forgets all, as the server has. */
  reset(): void {
    this.clear();
    this.#closing = [];
  }

  /** Closes a statement with the next request, if the server knows it. */
  close(statement: S | undefined): S | undefined {
    const handle = statement === undefined ? undefined : this.#handleOf(statement);
    if (handle !== undefined) this.#closing.push(handle);
    return statement;
  }

  /** Closes statements by their handles with the next request. */
  closeHandles(...handles: readonly H[]): void {
    this.#closing.push(...handles);
  }

  /** Whether a statement is closed with the next request. */
  isClosing(statement: S): boolean {
    const handle = this.#handleOf(statement);
    return handle !== undefined && this.#closing.includes(handle);
  }

  /** Handles to be closed with the request that is written next. */
  takeClosing(): readonly H[] {
    if (this.#closing.length === 0) return NONE;
    const handles = this.#closing;
    this.#closing = [];
    return handles;
  }
}
