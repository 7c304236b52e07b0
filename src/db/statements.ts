/**
 * Caches whose keys are texts of statements. The least recently used entry is evicted.
 */
import { LruIndex } from '../cache/lru.ts';

/** Maximum length of a cached text in characters. Longer texts are usually generated and rarely run twice. */
const MAX_KEPT_CHARACTERS = 15 * 1024;

/** A cache of at most `capacity` values. Each key is the text of a statement. */
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

  /** Whether the cache accepts a value for this text. */
  keeps(text: string): boolean {
    return this.#capacity > 0 && text.length <= MAX_KEPT_CHARACTERS;
  }

  get(text: string): V | undefined {
    return this.#values[this.#index.touch(text)];
  }

  /** Returns the value of a text without marking it as used. */
  peek(text: string): V | undefined {
    return this.#values[this.#index.find(text)];
  }

  /**
   * Adds a value for a new text, if the cache accepts it. Returns the value that was evicted to make room.
   */
  add(text: string, value: V): V | undefined {
    if (!this.keeps(text)) return undefined;
    const leaving = this.#index.isFull ? this.#values[this.#index.oldest] : undefined;
    this.#values[this.#index.isFull ? this.#index.replaceOldest(text) : this.#index.add(text)] = value;
    return leaving;
  }

  delete(text: string): V | undefined {
    const slot = this.#index.find(text);
    if (slot === 0) return undefined;
    const value = this.#values[slot];
    this.#index.remove(slot);
    this.#values[slot] = undefined;
    return value;
  }

  clear(): void {
    for (const [text] of [...this.#index.entries()]) this.delete(text);
  }
}

/**
 * Prepared statements of one server connection. `H` is the type of a statement's name or number on the
 * server. The next request to the server also closes evicted statements.
 */
export class PreparedStatements<S, H extends string | number> extends TextCache<S> {
  readonly #handleOf: (statement: S) => H | undefined;
  #closing: H[] = [];

  /**
   * `handleOf` returns the name or number of a statement on the server, or undefined if the server has not
   * prepared it.
   */
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

  /** Removes all statements from the cache, after the server itself has dropped them. */
  reset(): void {
    this.clear();
    this.#closing = [];
  }

  /** Marks a statement to be closed by the next request, if the server has prepared it. */
  close(statement: S | undefined): S | undefined {
    const handle = statement === undefined ? undefined : this.#handleOf(statement);
    if (handle !== undefined) this.#closing.push(handle);
    return statement;
  }

  closeHandles(...handles: readonly H[]): void {
    this.#closing.push(...handles);
  }

  isClosing(statement: S): boolean {
    const handle = this.#handleOf(statement);
    return handle !== undefined && this.#closing.includes(handle);
  }

  /** Returns the names or numbers of the statements that the next request closes, and clears the list. */
  takeClosing(): readonly H[] {
    const handles = this.#closing;
    this.#closing = [];
    return handles;
  }
}
