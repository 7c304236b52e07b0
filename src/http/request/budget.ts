/**
 * Budget of the received bytes that a process holds in memory: bodies that are read whole, inflated bodies, fields of
 * forms, and messages of WebSockets. Only received bytes count, never a declared length.
 *
 * A body holds its bytes until its request has ended. Beyond the budget, it is refused with 503. A client may hold at
 * most half of the budget, so that others are served, too. A single body is never refused: it may exceed the share of
 * its client if the client holds nothing else, and the budget if nothing else is held.
 *
 * Clients are counted only while more than half of the budget is held. So a small request does not pay for them.
 */
import { getHeapStatistics } from 'node:v8';
import { unavailable } from '../../base/errors.ts';
import type { HTTPException } from '../../base/errors.ts';

/** A body or a WebSocket that holds received bytes. */
export interface Holder {
  /** Undefined if the bytes are not counted. The budget clears it when the holder has ended. */
  budget: ByteBudget | undefined;
  /** Number of counted bytes. Only the budget changes it. */
  heldBytes: number;
  /** Index in the list of the budget's holders. Only the budget changes it. */
  holderIndex: number;
  /** Address or network of the client, as clientOf() in proxy.ts returns it. It never changes. */
  readonly client: string;
}

/** Time in seconds after which a refused client may try again. */
const RETRY_SECONDS = 1;
/** The default budget has room for a body of the largest size that json(), text() and form() read by default. */
const LEAST_USUAL_BYTES = 10_000_000;
/**
 * Parsed JSON takes several times the memory of its bytes: a text, and the value. The maximum size of a small heap is
 * mostly that of its young generation: 192 of 256 MB with --max-old-space-size=64, whose budget is 16 MB.
 */
const PART_OF_HEAP = 16;

/** Default budget in bytes: a sixteenth of the maximum size of the heap, at least 10 MB. */
export function usualBudgetBytes(): number {
  return Math.max(LEAST_USUAL_BYTES, Math.floor(getHeapStatistics().heap_size_limit / PART_OF_HEAP));
}

/** Counts the bytes that all bodies and WebSockets of an application hold. */
export class ByteBudget {
  heldBytes = 0;
  /** Number of bytes that one client may hold: half of the budget. */
  readonly shareBytes: number;
  readonly #maxBytes: number;
  /** In any order. A Set would take a fifth of the time of a small POST (guard --only=post). */
  readonly #holders: Holder[] = [];
  /** Bytes that each client holds; undefined until more than half of the budget is held. */
  #ofClients: Map<string, number> | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.shareBytes = maxBytes / 2;
  }

  /** Sets the number of bytes that a holder holds. Returns false, and changes nothing, if the budget refuses them. */
  hold(holder: Holder, bytes: number): boolean {
    const before = holder.heldBytes;
    const more = bytes - before;
    if (more === 0) return true;
    if (more > 0 && this.heldBytes + more > this.shareBytes && !this.admits(holder, more)) return false;
    if (before === 0) holder.holderIndex = this.#holders.push(holder) - 1;
    else if (bytes === 0) {
      const last = this.#holders.pop()!; // `holder` itself, or the holder that takes its place
      last.holderIndex = holder.holderIndex;
      if (last !== holder) this.#holders[last.holderIndex] = last;
    }
    holder.heldBytes = bytes;
    this.heldBytes += more;
    if (this.#ofClients !== undefined) this.#count(this.#ofClients, holder.client, more);
    return true;
  }

  /** Returns whether a holder may hold `more` bytes. It is only asked while more than half of the budget is held. */
  admits(holder: Holder, more: number): boolean {
    const { heldBytes: own, client } = holder;
    if (this.heldBytes + more > this.#maxBytes && this.heldBytes > own) return false;
    const ofClient = (this.#ofClients ??= this.#clients()).get(client) ?? 0;
    return ofClient + more <= this.shareBytes || ofClient === own;
  }

  /** Frees the bytes of a holder that has ended. Its later bytes do not count. */
  release(holder: Holder): void {
    if (holder.heldBytes > 0) this.hold(holder, 0);
    holder.budget = undefined;
  }

  #clients(): Map<string, number> {
    const sums = new Map<string, number>();
    for (const { client, heldBytes } of this.#holders) sums.set(client, (sums.get(client) ?? 0) + heldBytes);
    return sums;
  }

  #count(sums: Map<string, number>, client: string, more: number): void {
    const sum = (sums.get(client) ?? 0) + more;
    if (sum === 0) sums.delete(client);
    else sums.set(client, sum);
    if (this.heldBytes < this.shareBytes / 2) this.#ofClients = undefined;
  }
}

export function holdBytes(holder: Holder, bytes: number): void {
  if (holder.budget?.hold(holder, bytes) === false) throw budgetExceeded();
}

export function budgetExceeded(): HTTPException {
  return unavailable(
    'The server holds too many request bodies at the moment; repeat the request later',
    RETRY_SECONDS,
    'body_budget',
  );
}
