/**
 * An index of keys in order of use, for a cache that evicts the least recently used entry. Each key has a
 * slot number, by which the cache finds the value.
 *
 * A Map finds the slot of a key. The slots form a doubly linked list in order of use, so every operation is
 * O(1). The links are numbers in a typed array, because a list of objects would take twice the time.
 */

const HEAD = 0;
const FIRST_SLOTS = 64;

/** Holds at most `capacity` keys. Slots have the numbers 1 ... capacity; 0 means no slot. */
export class LruIndex {
  readonly #capacity: number;
  readonly #slots = new Map<string, number>();
  readonly #keys: string[] = [''];
  /** Next and previous slot of each slot. The two numbers are side by side, for faster access. */
  #links: Int32Array = new Int32Array(2 * FIRST_SLOTS);
  /** First free slot, or 0 if there is none. Each free slot links to the next free slot. */
  #free = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#slots.size;
  }

  get isFull(): boolean {
    return this.#slots.size >= this.#capacity;
  }

  /** Returns the least recently used slot, or 0 if the index is empty. */
  get oldest(): number {
    return this.#links[HEAD + 1]!;
  }

  /** Returns the slot of a key, or 0 for an unknown key. Does not mark the key as used. */
  find(key: string): number {
    return this.#slots.get(key) ?? 0;
  }

  /** Returns the slot of a key, or 0 for an unknown key. Marks the key as the most recently used. */
  touch(key: string): number {
    const slot = this.#slots.get(key);
    if (slot === undefined) return 0;
    this.use(slot);
    return slot;
  }

  /** Marks a slot as the most recently used. */
  use(slot: number): void {
    if (this.#links[HEAD] === slot) return;
    this.#unlink(slot);
    this.#linkFirst(slot);
  }

  /** Adds a new key as the most recently used. The index must not be full. */
  add(key: string): number {
    let slot = this.#free;
    if (slot !== 0) {
      this.#free = this.#links[slot << 1]!;
      this.#keys[slot] = key;
    } else {
      slot = this.#keys.push(key) - 1;
      if (2 * slot >= this.#links.length) this.#grow();
    }
    this.#slots.set(key, slot);
    this.#linkFirst(slot);
    return slot;
  }

  remove(slot: number): void {
    this.#slots.delete(this.#keys[slot]!);
    this.#keys[slot] = '';
    this.#unlink(slot);
    this.#links[slot << 1] = this.#free;
    this.#free = slot;
  }

  /**
   * Replaces the least recently used key by a new key, which gets its slot number. Returns this slot. The
   * index must not be empty.
   */
  replaceOldest(key: string): number {
    const slot = this.#links[HEAD + 1]!;
    this.#slots.delete(this.#keys[slot]!);
    this.#keys[slot] = key;
    this.#slots.set(key, slot);
    this.use(slot);
    return slot;
  }

  /** Returns keys and slots in no particular order. The caller may remove entries during the iteration. */
  entries(): IterableIterator<[key: string, slot: number]> {
    return this.#slots.entries();
  }

  #unlink(slot: number): void {
    const links = this.#links;
    const next = links[slot << 1]!;
    const previous = links[(slot << 1) | 1]!;
    links[previous << 1] = next;
    links[(next << 1) | 1] = previous;
  }

  #linkFirst(slot: number): void {
    const links = this.#links;
    const first = links[HEAD]!;
    links[slot << 1] = first;
    links[(slot << 1) | 1] = HEAD;
    links[(first << 1) | 1] = slot;
    links[HEAD] = slot;
  }

  #grow(): void {
    const links = new Int32Array(2 * this.#links.length);
    links.set(this.#links);
    this.#links = links;
  }
}
