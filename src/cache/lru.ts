/**
 * A Map in order of use. All bounded stores that evict the least recently used entry use it.
 *
 * The entries form a ring in order of use, so that every operation is O(1). A plain Map that deletes and adds
 * a key at each use has to skip its deleted entries to find the oldest one.
 */

/** An entry, with its neighbours in order of use. */
interface Entry<V> {
  readonly key: string;
  value: V;
  newer: Entry<V>;
  older: Entry<V>;
}

/** Values by key, in order of use. */
export class LruMap<V> {
  readonly #entries = new Map<string, Entry<V>>();
  /** Head of the ring, between the newest entry and the oldest one. */
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

  /** Returns the value of a key. Does not count as a use. */
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

  /** Returns the keys in no particular order. Keys may be deleted during the iteration. */
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

/** Returns the head of an empty ring. It has no value. */
function headOf<V>(): Entry<V> {
  const head = { key: '' } as Entry<V>;
  head.newer = head.older = head;
  return head;
}
