/**
 * Keys with a time each, the earliest at hand: the index under a bounded store that gives up what is soonest worth nothing.
 *
 *   Map: key -> slot        heap: a binary heap of slots, the earliest time first        places: where each slot is in it
 *
 * Looking up is O(1), writing O(log n). All but the keys is numbers in typed arrays, grown by doubling.
 */

const FIRST_SLOTS = 64;

/** At most `capacity` keys. Slots are 1 ... capacity; 0 means none. */
export class ExpiryHeap {
  readonly #capacity: number;
  readonly #slots = new Map<string, number>();
  readonly #keys: string[] = [''];
  /** By slot. */
  #timesMs: Float64Array = new Float64Array(FIRST_SLOTS);
  #places: Int32Array = new Int32Array(FIRST_SLOTS);
  /** Slots by place, from 0. */
  #heap: Int32Array = new Int32Array(FIRST_SLOTS);

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#slots.size;
  }

  get isFull(): boolean {
    return this.#slots.size >= this.#capacity;
  }

  /** The earliest time of all. The index must not be empty. */
  get earliestMs(): number {
    return this.#timesMs[this.#heap[0]!]!;
  }

  /** The slot of a key, or 0. */
  find(key: string): number {
    return this.#slots.get(key) ?? 0;
  }

  timeOf(slot: number): number {
    return this.#timesMs[slot]!;
  }

  /** Gives a slot a time that is no earlier than the one it has. */
  postpone(slot: number, timeMs: number): void {
    this.#timesMs[slot] = timeMs;
    this.#sink(slot, timeMs);
  }

  /** Takes in a key that has no slot. The index must not be full. */
  add(key: string, timeMs: number): void {
    const place = this.#slots.size;
    const slot = this.#keys.push(key) - 1;
    if (slot >= this.#timesMs.length) this.#grow();
    this.#slots.set(key, slot);
    this.#timesMs[slot] = timeMs;
    this.#rise(slot, place, timeMs);
  }

  /** Gives the slot of the earliest time to another key, with whatever time. The index must not be empty. */
  replaceEarliest(key: string, timeMs: number): void {
    const slot = this.#heap[0]!;
    this.#slots.delete(this.#keys[slot]!);
    this.#keys[slot] = key;
    this.#slots.set(key, slot);
    this.#timesMs[slot] = timeMs;
    this.#sink(slot, timeMs);
  }

  /** Moves what is later down until the slot's place above it is free. */
  #rise(slot: number, from: number, timeMs: number): void {
    let place = from;
    while (place > 0) {
      const parent = this.#heap[(place - 1) >> 1]!;
      if (this.#timesMs[parent]! <= timeMs) break;
      this.#put(parent, place);
      place = (place - 1) >> 1;
    }
    this.#put(slot, place);
  }

  /** Moves what is earlier up until the slot's place below it is free. */
  #sink(slot: number, timeMs: number): void {
    const heap = this.#heap;
    const timesMs = this.#timesMs;
    const { size } = this.#slots;
    let place = this.#places[slot]!;
    for (let child = 2 * place + 1; child < size; child = 2 * place + 1) {
      if (child + 1 < size && timesMs[heap[child + 1]!]! < timesMs[heap[child]!]!) child++;
      const earlier = heap[child]!;
      if (timesMs[earlier]! > timeMs) break; // below those of the same time: the last to come is the last to go
      this.#put(earlier, place);
      place = child;
    }
    this.#put(slot, place);
  }

  #put(slot: number, place: number): void {
    this.#heap[place] = slot;
    this.#places[slot] = place;
  }

  #grow(): void {
    const length = 2 * this.#timesMs.length;
    const [timesMs, places, heap] = [
      new Float64Array(length),
      new Int32Array(length),
      new Int32Array(length),
    ];
    timesMs.set(this.#timesMs);
    places.set(this.#places);
    heap.set(this.#heap);
    [this.#timesMs, this.#places, this.#heap] = [timesMs, places, heap];
  }
}
