/**
 * An answer that is made when the body of its request is whole, and sent at once.
 *
 * The promise of an answer is settled when all that has arrived has been read: the requests of all connections wait for each
 * other then, and so do their answers.
 */
import { HttpResponse } from './response.ts';
import type { Awaitable } from './contracts.ts';

/** What a request is answered with: now or later. */
export type Answer = Awaitable<HttpResponse> | LateAnswer;

/** For one taker. Whoever awaits it has a promise of it. */
export class LateAnswer implements PromiseLike<HttpResponse> {
  #answer: HttpResponse | undefined;
  #taker: ((answer: HttpResponse) => void) | undefined;

  /** It is here, or will be: called once. A promise never rejects. */
  protected settle(answer: Awaitable<HttpResponse>): void {
    if (!(answer instanceof HttpResponse)) return void answer.then((settled) => this.settle(settled));
    this.#answer = answer;
    this.#taker?.(answer);
  }

  /** Gives it to `taker`, at once if it is there. */
  giveTo(taker: (answer: HttpResponse) => void): void {
    if (this.#answer === undefined) this.#taker = taker;
    else taker(this.#answer);
  }

  /** Never rejects. */
  get promise(): Promise<HttpResponse> {
    return new Promise((resolve) => this.giveTo(resolve));
  }

  then<T = HttpResponse, F = never>(
    onFulfilled?: ((answer: HttpResponse) => T | PromiseLike<T>) | null,
    onRejected?: ((error: unknown) => F | PromiseLike<F>) | null,
  ): Promise<T | F> {
    return this.promise.then(onFulfilled, onRejected);
  }
}
