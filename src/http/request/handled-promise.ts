/**
 * What is read of a request fails where its client does: it leaves, or sends what cannot be read. Whoever waits is told; a
 * handler that has left is not, and no rejection without a listener ends the process, and with it everybody else's requests.
 */

/** A promise whose failure is told to those who listen, and to nobody where there are none. */
export function handled<T>(reading: Promise<T>): Promise<T> {
  reading.catch(ignore);
  return reading;
}

/** The same for each step of a generator. */
export class HandledSteps<T> implements AsyncGenerator<T, void, undefined> {
  readonly #steps: AsyncGenerator<T, void, undefined>;

  constructor(steps: AsyncGenerator<T, void, undefined>) {
    this.#steps = steps;
  }

  next(): Promise<IteratorResult<T, void>> {
    return handled(this.#steps.next());
  }

  return(): Promise<IteratorResult<T, void>> {
    return handled(this.#steps.return());
  }

  throw(error: unknown): Promise<IteratorResult<T, void>> {
    return handled(this.#steps.throw(error));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

function ignore(): void {
  /* it is told to others */
}
