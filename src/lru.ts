/**
 * Keys in order of use, each with a slot number: the index under every bounded store that forgets the least recently used.
 *
 *   Map: key → slot        next/previous: a ring of slots through slot 0        whoever uses it keeps values by slot
 *
 * Every operation is O(1). Links are numbers in typed arrays, grown by doubling: a Map that is deleted from and added to in
 * order of use walks its own tombstones, and list nodes cost twice as much (shared/bench/cookie-cache.mjs).
 */

const HEAD = 0;
const FIRST_SLOTS = 64;

/** At most `capacity` keys. Slots are 1 … capacity; 0 means none. */
export class LruIndex {
  readonly #capacity: number;
  readonly #slots = new Map<string, number>();
  readonly #keys: string[] = [''];
  #next: Int32Array = new Int32Array(FIRST_SLOTS);
  #previous: Int32Array = new Int32Array(FIRST_SLOTS);
  /** Freed slots, linked by `#next`. */
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

  /** The least recently used slot, or 0. */
  get oldest(): number {
    return this.#previous[HEAD]!;
  }

  /** The slot of a key, or 0. Not a use. */
  find(key: string): number {
    return this.#slots.get(key) ?? 0;
  }

  /** Makes a slot the most recently used. */
  use(slot: number): void {
    if (this.#next[HEAD] === slot) return;
    this.#unlink(slot);
    this.#linkFirst(slot);
  }

  /** A slot for a key that has none, as the most recently used. The index must not be full. */
  add(key: string): number {
    let slot = this.#free;
    if (slot !== 0) {
      this.#free = this.#next[slot]!;
      this.#keys[slot] = key;
    } else {
      slot = this.#keys.push(key) - 1;
      if (slot >= this.#next.length) this.#grow();
    }
    this.#slots.set(key, slot);
    this.#linkFirst(slot);
    return slot;
  }

  /** Gives a slot up. */
  remove(slot: number): void {
    this.#slots.delete(this.#keys[slot]!);
    this.#keys[slot] = '';
    this.#unlink(slot);
    this.#next[slot] = this.#free;
    this.#free = slot;
  }

  /** Gives the slot of the least recently used key to another, as the most recently used. The index must not be empty. */
  replaceOldest(key: string): number {
    const slot = this.#previous[HEAD]!;
    this.#slots.delete(this.#keys[slot]!);
    this.#keys[slot] = key;
    this.#slots.set(key, slot);
    this.use(slot);
    return slot;
  }

  /** Keys and slots in no particular order; what is yielded may be removed meanwhile. */
  entries(): IterableIterator<[key: string, slot: number]> {
    return this.#slots.entries();
  }

  #unlink(slot: number): void {
    const next = this.#next[slot]!;
    const previous = this.#previous[slot]!;
    this.#next[previous] = next;
    this.#previous[next] = previous;
  }

  #linkFirst(slot: number): void {
    const first = this.#next[HEAD]!;
    this.#next[slot] = first;
    this.#previous[slot] = HEAD;
    this.#previous[first] = slot;
    this.#next[HEAD] = slot;
  }

  #grow(): void {
    const [next, previous] = [new Int32Array(2 * this.#next.length), new Int32Array(2 * this.#next.length)];
    next.set(this.#next);
    previous.set(this.#previous);
    [this.#next, this.#previous] = [next, previous];
  }
}
