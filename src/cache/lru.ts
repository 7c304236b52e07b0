/**
 * A Map in order of use, for bounded stores that evict the least recently used entry.
 *
 * The entries form a ring in order of use, so that every operation is O(1). With a plain Map whose keys are
 * deleted and added at each use, finding the oldest key would have to skip all deleted entries.
 */

interface Entry<V> {
  readonly key: string;
  value: V;
  newer: Entry<V>;
  older: Entry<V>;
}

/** Values by key, in order of use. */
export class LruMap<V> {
  readonly #entries = new Map<string, Entry<V>>();
  /**
   * Start and end of the ring: its `newer` neighbour is the oldest entry, its `older` neighbour the newest
   * one.
   */
  readonly #head = headOf<V>();

  get size(): number {
    return this.#entries.size;
  }

  /** The key that was used least recently; undefined without entries. */
  get oldest(): string | undefined {
    return this.size === 0 ? undefined : this.#head.newer.key;
  }

  /** Returns the value of a key, and makes the key the most recently used. */
  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    unlink(entry);
    this.#link(entry);
    return entry.value;
  }

  /** Returns the value of a key without marking the key as used. */
  peek(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Writes a value, and makes its key the most recently used. */
  set(key: string, value: V): void {
    let entry = this.#entries.get(key);
    if (entry === undefined) this.#entries.set(key, (entry = { ...this.#head, key, value }));
    else unlink(entry);
    entry.value = value;
    this.#link(entry);
  }

  /** Deletes a key. Returns its value. */
  delete(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    unlink(entry);
    return entry.value;
  }

  /** Returns all keys, in no particular order. Keys may be deleted during the iteration. */
  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  #link(entry: Entry<V>): void {
    entry.newer = this.#head;
    entry.older = this.#head.older;
    entry.older.newer = entry;
    this.#head.older = entry;
  }
}

function unlink<V>({ newer, older }: Entry<V>): void {
  newer.older = older;
  older.newer = newer;
}

function headOf<V>(): Entry<V> {
  const head = { key: '' } as Entry<V>;
  head.newer = head.older = head;
  return head;
}
