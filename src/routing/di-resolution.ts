/**
 * The dependencies of one request: resolved in order, side by side where they can be, and left again in reverse.
 */
import { SvcError } from '../base/errors.ts';
import { isThenable } from '../http/pipeline.ts';
import { observeDependency } from '../http/request/event.ts';
import type { BackgroundTasks } from './background.ts';
import type { Scope, TextInputPlan } from './di.ts';
import type { Context, SecurityRequirement } from '../http/contracts.ts';
import type { RequestEvent } from '../http/request/event.ts';

/** A dependency in the order of one route. */
export interface PlannedDependency {
  /** Where its value is kept during a request. */
  readonly slot: number;
  readonly label: string;
  readonly scope: Scope;
  readonly inputs: readonly TextInputPlan[];
  readonly security: readonly SecurityRequirement[];
  /** The slots of what it needs itself. */
  readonly needs: readonly number[];
  /** Calls the source, or takes the value that all requests share. */
  readonly call: (request: Resolution) => unknown;
  /** Whether what it gives may be a generator, which is entered. */
  readonly mayYield: boolean;
  /** Whether another one needs it, and has to wait for it. */
  isNeeded: boolean;
}

/** What ended a request early. In an object, since anything can be thrown. */
export interface Failure {
  readonly error: unknown;
}

/** What the dependencies of one request share while they are resolved. */
export class Resolution {
  readonly context: Context;
  /** Of the request, where somebody watches it. */
  readonly #event: RequestEvent | undefined;
  readonly values: unknown[];
  /** Validated inputs by slot. */
  readonly inputs: (Readonly<Record<string, unknown>> | undefined)[];
  tasks: BackgroundTasks | undefined;
  /** Those that others need, by slot, once they are under way; they never reject. */
  #waiting: (Promise<void> | undefined)[] | undefined;
  #pending = 0;
  /** The failure of the lowest slot. */
  #failed: (Failure & { readonly slot: number }) | undefined;
  #settle: PromiseWithResolvers<void> | undefined;
  #cleanups: Partial<Record<Scope, Cleanup[]>> | undefined;

  constructor(context: Context, size: number, event?: RequestEvent) {
    this.context = context;
    this.#event = event;
    this.values = new Array<unknown>(size);
    this.inputs = new Array<undefined>(size);
  }

  get hasCleanups(): boolean {
    return this.#cleanups !== undefined;
  }

  /**
   * Resolves dependencies in order, each as soon as what it needs is there; independent ones run side by side. A promise
   * only where one of them has one. When one fails, none begins any more, and those under way are waited for, so that all
   * can be cleaned up; the first in order tells.
   */
  resolve(planned: readonly PlannedDependency[]): Promise<void> | undefined {
    for (const dependency of planned) {
      try {
        const value = this.#begin(dependency);
        if (isThenable(value)) this.#await(dependency, value);
        else this.values[dependency.slot] = value;
      } catch (error) {
        if (this.#pending === 0) throw error;
        this.#fail(dependency.slot, error);
        break;
      }
    }
    return this.#pending === 0 ? undefined : (this.#settle = Promise.withResolvers<void>()).promise;
  }

  /**
   * Leaves the generators of a scope, the last of the order first, however long each took to yield. `failure` holds what
   * ended the request early, and is thrown into them; what one of them throws instead is thrown into the next, and comes
   * back at the end.
   */
  async cleanUp(
    scope: Scope,
    failure: Failure | undefined,
    onError: (error: unknown, label: string) => void,
  ): Promise<Failure | undefined> {
    const cleanups = this.#cleanups?.[scope] ?? [];
    let current = failure;
    for (let cleanup = cleanups.pop(); cleanup !== undefined; cleanup = cleanups.pop()) {
      try {
        const leaving = cleanup.leave(current);
        if (leaving !== undefined) await leaving; // awaiting nothing would cost a turn for each
      } catch (error) {
        if (current !== undefined && error === current.error) continue;
        current = { error };
        onError(error, cleanup.dependency.label);
      }
    }
    return current;
  }

  /** Whether a scope has anything to leave. */
  needsCleanup(scope: Scope): boolean {
    const cleanups = this.#cleanups?.[scope];
    return cleanups !== undefined && cleanups.length > 0;
  }

  #begin(dependency: PlannedDependency): unknown {
    const waiting = this.#waiting;
    if (waiting !== undefined && this.#pending > 0) {
      const needed = dependency.needs.map((slot) => waiting[slot]).filter((promise) => promise !== undefined);
      if (needed.length > 0) return Promise.all(needed).then(() => this.#enterUnlessFailed(dependency));
    }
    return this.#enter(dependency);
  }

  #enterUnlessFailed(dependency: PlannedDependency): unknown {
    if (this.#failed !== undefined) throw this.#failed.error;
    return this.#enter(dependency);
  }

  #enter(dependency: PlannedDependency): unknown {
    return this.#event === undefined ? this.#call(dependency) : this.#callObserved(dependency, this.#event);
  }

  /** Those of scope `app` are there already. */
  #callObserved(dependency: PlannedDependency, event: RequestEvent): unknown {
    const { scope, label } = dependency;
    return scope === 'app'
      ? this.#call(dependency)
      : observeDependency(event, label, scope, () => this.#call(dependency));
  }

  #call(dependency: PlannedDependency): unknown {
    const value = dependency.call(this);
    return dependency.mayYield && isGenerator(value) ? this.#enterGenerator(dependency, value) : value;
  }

  #enterGenerator(dependency: PlannedDependency, generator: Generator | AsyncGenerator): unknown {
    const step = generator.next();
    return isThenable(step)
      ? step.then((taken) => this.#take(dependency, generator, taken))
      : this.#take(dependency, generator, step);
  }

  #take(
    dependency: PlannedDependency,
    generator: Generator | AsyncGenerator,
    step: IteratorResult<unknown>,
  ): unknown {
    if (step.done === true)
      throw new SvcError('E_DEPENDENCY_YIELD', [dependency.label, 'ended without yielding a value']);
    const cleanups = ((this.#cleanups ??= {})[dependency.scope] ??= []);
    let at = cleanups.length;
    while (at > 0 && cleanups[at - 1]!.dependency.slot > dependency.slot) at--;
    const cleanup = new Cleanup(generator, dependency);
    if (at === cleanups.length) cleanups.push(cleanup);
    else cleanups.splice(at, 0, cleanup);
    return step.value;
  }

  /** Two callbacks and a counter: an async function for each, with allSettled() around them, costs three times as much (test/bench/dependencies.ts). */
  #await({ slot, isNeeded }: PlannedDependency, value: PromiseLike<unknown>): void {
    this.#pending++;
    const promise = value instanceof Promise ? value : Promise.resolve(value);
    const arriving = promise.then(
      (settled) => {
        this.values[slot] = settled;
        this.#arrive();
      },
      (error: unknown) => {
        this.#fail(slot, error);
        this.#arrive();
      },
    );
    if (isNeeded) (this.#waiting ??= [])[slot] = arriving;
  }

  #arrive(): void {
    if (--this.#pending > 0) return;
    this.#waiting = undefined;
    if (this.#failed === undefined) this.#settle!.resolve();
    else this.#settle!.reject(this.#failed.error);
  }

  #fail(slot: number, error: unknown): void {
    if (this.#failed === undefined || slot < this.#failed.slot) this.#failed = { slot, error };
  }
}

/** A generator that has yielded its value and waits to be left. */
class Cleanup {
  readonly #generator: Generator | AsyncGenerator;
  readonly dependency: PlannedDependency;

  constructor(generator: Generator | AsyncGenerator, dependency: PlannedDependency) {
    this.#generator = generator;
    this.dependency = dependency;
  }

  /** A promise only where there is something to wait for. */
  leave(failure: Failure | undefined): Promise<void> | undefined {
    const step = failure === undefined ? this.#generator.next() : this.#generator.throw(failure.error);
    if (isThenable(step)) return step.then((left) => (left.done === true ? undefined : this.#close()));
    return step.done === true ? undefined : this.#close();
  }

  async #close(): Promise<never> {
    await this.#generator.return(undefined);
    throw new SvcError('E_DEPENDENCY_YIELD', [this.dependency.label, 'yielded a second time']);
  }
}

function isGenerator(value: unknown): value is Generator | AsyncGenerator {
  if (
    typeof value !== 'object' ||
    value === null ||
    typeof (value as { throw?: unknown }).throw !== 'function'
  )
    return false;
  const tag = (value as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag];
  return tag === 'Generator' || tag === 'AsyncGenerator';
}
