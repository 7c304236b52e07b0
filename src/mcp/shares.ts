/**
 * Limits of what clients may leave open at an endpoint: in all, and for each client, so that no client takes the
 * share of others.
 */

/** Counts open requests or questions by client. */
export class Shares {
  readonly #what: string;
  readonly #most: number;
  readonly #mostOfOne: number;
  readonly #open = new Map<string, number>();
  #total = 0;

  constructor(what: string, most: number, mostOfOne: number) {
    this.#what = what;
    this.#most = most;
    this.#mostOfOne = mostOfOne;
  }

  /** Counts one more of a client. Returns a message, and counts nothing, when a limit is reached. */
  take(client: string): string | undefined {
    const open = this.#open.get(client) ?? 0;
    if (open >= this.#mostOfOne)
      return `Already ${open} ${this.#what} of this client have no answer: try again later`;
    if (this.#total >= this.#most)
      return `Already ${this.#total} ${this.#what} have no answer: try again later`;
    this.#open.set(client, open + 1);
    this.#total++;
    return undefined;
  }

  /** Counts one less of a client. */
  give(client: string): void {
    const open = this.#open.get(client)! - 1; // take() has counted it
    if (open === 0) this.#open.delete(client);
    else this.#open.set(client, open);
    this.#total--;
  }
}
