/**
 * Exception handlers: for a thrown value, the one whose class is nearest in its prototype chain.
 */
import { HTTPException, SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import type { Awaitable, HttpRequest } from './contracts.ts';

/** A class, abstract or not. */
export type ErrorClass<E> = abstract new (...args: never[]) => E;
/** Turns an exception into a reply. What it throws itself is handled as an unhandled error. */
export type ExceptionHandler<E> = (error: E, req: HttpRequest) => Awaitable<unknown>;

/** Handlers by class, looked up along the prototype chain; the answer per class is kept. */
export class ExceptionHandlers {
  /** By the prototype of the class: what `instanceof` goes by, whatever `constructor` says. */
  readonly #byPrototype = new Map<unknown, ExceptionHandler<never>>();
  readonly #found = new WeakMap<object, ExceptionHandler<never> | null>();

  get size(): number {
    return this.#byPrototype.size;
  }

  /** Sets the handler of a class. Answers whether it had none before. @throws SvcError `E_EXCEPTION_HANDLER` */
  add<E>(errorClass: ErrorClass<E>, handler: ExceptionHandler<E>): boolean {
    const isClass = typeof errorClass === 'function' && typeof errorClass.prototype === 'object';
    if (!isClass || typeof handler !== 'function')
      throw new SvcError('E_EXCEPTION_HANDLER', [
        isClass ? 'there is no function' : `${shown(errorClass)} is no class`,
      ]);
    const isNew = !this.#byPrototype.has(errorClass.prototype);
    this.#byPrototype.set(errorClass.prototype, handler);
    return isNew;
  }

  /** The handler of a thrown value; a value that is no object has none. */
  find(error: unknown): ExceptionHandler<unknown> | undefined {
    if (this.#byPrototype.size === 0 || typeof error !== 'object' || error === null) return undefined;
    const prototype = Object.getPrototypeOf(error) as object | null;
    if (prototype === null) return undefined;
    let found = this.#found.get(prototype);
    if (found === undefined) this.#found.set(prototype, (found = this.#walk(prototype)));
    return (found as ExceptionHandler<unknown> | null) ?? undefined; // the class it was found by makes it fit
  }

  #walk(prototype: object): ExceptionHandler<never> | null {
    for (let at: object | null = prototype; at !== null; at = Object.getPrototypeOf(at) as object | null) {
      const handler = this.#byPrototype.get(at);
      if (handler !== undefined) return handler;
      if (at === HTTPException.prototype) return null; // how they are rendered is more specific than a handler of Error
    }
    return null;
  }
}
