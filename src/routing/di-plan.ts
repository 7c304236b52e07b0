/**
 * Plans the dependencies of a route: each comes after those that it needs. A cycle is a mistake, and so is a
 * dependency that needs one of a shorter scope. The second part of the file resolves the dependencies for one
 * request.
 */
import { errorAfter, SvcError } from '../base/errors.ts';
import { BackgroundTasks } from './background.ts';
import { Dependency, readSource, readTextInputs } from './di.ts';
import { shown } from '../base/options.ts';
import { ignore, isThenable } from '../base/promises.ts';
import { surroundOfSource } from '../http/state.ts';
import { observeDependency } from '../http/request/event.ts';
import type { BackgroundRunner } from './background.ts';
import type { ContextKey, DependencySource, ProviderSpec, ReadSource, Scope, TextInputPlan } from './di.ts';
import type { Declared, Finding } from '../base/findings.ts';
import type { Context, HttpRequest, SecurityRequirement, StateMap } from '../http/contracts.ts';
import type { RequestEvent } from '../http/request/event.ts';
import type { Surround } from '../http/state.ts';

/** The plan of one route while it is made. */
interface Ordering {
  readonly planned: PlannedDependency[];
  readonly slots: Map<DependencySource, number>;
  readonly subject: string;
  readonly declared: Declared;
}

interface PlannerDeps {
  readonly overrides: ReadonlyMap<unknown, DependencySource>;
  readonly tasks: BackgroundRunner;
  readonly report: (finding: Finding) => void;
}

/** Dependencies from the one that the route names to the current one. Each needs the next. */
type Path = readonly { readonly source: DependencySource; readonly label: string; readonly scope: Scope }[];

const NOWHERE: Declared = Object.freeze({ place: Object.freeze({ file: '<unknown>', line: 0, column: 0 }) });

const RANK: Readonly<Record<Scope, number>> = { handler: 0, request: 1, app: 2 };

/** The dependencies of one application: plans them, reports mistakes, and keeps those of scope `app`. */
export class DependencyGraph {
  readonly #app: Ordering = { planned: [], slots: new Map(), subject: 'the application', declared: NOWHERE };
  #values: readonly unknown[] = [];
  readonly #overrides: ReadonlyMap<unknown, DependencySource>;
  readonly #tasks: BackgroundRunner;
  readonly #report: (finding: Finding) => void;

  constructor(deps: PlannerDeps) {
    this.#overrides = deps.overrides;
    this.#tasks = deps.tasks;
    this.#report = deps.report;
  }

  /** Starts an empty plan for a route. */
  order(subject: string, declared: Declared): Ordering {
    return { planned: [], slots: new Map(), subject, declared };
  }

  /** Resolves dependencies of scope `app`. Returns a function that cleans them up. */
  async start(
    context: Context,
  ): Promise<(onError: (error: unknown, label: string) => void) => Promise<unknown>> {
    const resolution = new Resolution(context, this.#app.planned.length);
    try {
      await resolution.resolve(this.#app.planned);
    } catch (error) {
      // errors of the clean-up are ignored, because the first failure is thrown
      await resolution.cleanUp('app', { error }, ignore);
      throw error;
    }
    this.#values = resolution.values;
    return (onError) => resolution.cleanUp('app', undefined, onError);
  }

  /** Adds a dependency, and those it needs, to a plan. Returns its slot; -1 if a mistake was reported. */
  plan(ordering: Ordering, dependency: Dependency<unknown>, above: Path = []): number {
    const source = this.#overrides.get(dependency.source) ?? dependency.source;
    const { scope } = dependency;
    const read = readSource(source, dependency.source);
    const path = [...above, { source, label: read.label, scope }];
    const names = path.map((step) => step.label).join(' → ');
    if (above.some((step) => step.source === source))
      return this.#mistake(
        ordering,
        'SVC111',
        `a dependency needs itself: ${names}`,
        'Break the circle: let one of these dependencies read what it needs from the request or the application',
      );
    const outer = above.at(-1);
    if (outer !== undefined && RANK[outer.scope] > RANK[scope]) {
      return this.#mistake(
        ordering,
        'SVC112',
        `${outer.label} lives for the ${outer.scope} and needs ${read.label}, which lives for the ${scope}: ${names}`,
        'Give the dependency that needs the other one its shorter scope, or give the other one the longer scope',
      );
    }
    const known = dependency.isCached ? ordering.slots.get(source) : undefined;
    if (known !== undefined) {
      if (known >= 0 && ordering.planned[known]!.scope !== scope) {
        return this.#mistake(
          ordering,
          'SVC112',
          `${read.label} is used with the scopes ${ordering.planned[known]!.scope} and ${scope}: ${names}`,
          'Use the same scope in each Depends() of this source, or set cache: false',
        );
      }
      return known;
    }
    const slot =
      scope === 'app' && ordering.planned !== this.#app.planned
        ? this.#planShared(ordering, dependency, read.label, above)
        : this.#planOwn(ordering, scope, source, read, path);
    if (dependency.isCached) ordering.slots.set(source, slot);
    return slot;
  }

  #planOwn(ordering: Ordering, scope: Scope, source: DependencySource, read: ReadSource, path: Path): number {
    const needs = this.#needsOf(read, (dependency) => this.plan(ordering, dependency, path));
    if (needs.some(([, slot]) => slot === -1)) return -1;
    for (const [, slot] of needs) ordering.planned[slot]!.isNeeded = true;
    const inputs = readTextInputs(read.spec);
    if (scope === 'app' && (inputs.length > 0 || source === BackgroundTasks)) {
      return this.#mistake(
        ordering,
        'SVC112',
        `${read.label} lives for the application and needs a request`,
        'Give it the scope request',
      );
    }
    return this.#add(ordering, {
      label: read.label,
      scope,
      inputs,
      security: read.security,
      needs: needs.map(([, slot]) => slot),
      mayYield: source !== BackgroundTasks && !isClass(source),
      surround: surroundOfSource(source),
      call: (slot) => callerOf(source, read, inputs.length === 0 ? -1 : slot, needs, this.#tasks),
    });
  }

  #planShared(ordering: Ordering, dependency: Dependency<unknown>, label: string, above: Path): number {
    // subject and place of this route, so that findings name the first route that uses the dependency
    const shared = { ...this.#app, subject: ordering.subject, declared: ordering.declared };
    const slot = this.plan(
      shared,
      dependency,
      above.filter((step) => step.scope === 'app'),
    );
    if (slot === -1) return -1;
    return this.#add(ordering, {
      label,
      scope: 'app',
      inputs: [],
      security: [],
      needs: [],
      mayYield: false,
      surround: undefined,
      call: () => () => this.#values[slot],
    });
  }

  #add(
    ordering: Ordering,
    parts: Omit<PlannedDependency, 'slot' | 'call' | 'isNeeded'> & {
      readonly call: (slot: number) => PlannedDependency['call'];
    },
  ): number {
    const slot = ordering.planned.length;
    ordering.planned.push({ ...parts, slot, isNeeded: false, call: parts.call(slot) });
    return slot;
  }

  #needsOf(
    read: ReadSource,
    plan: (dependency: Dependency<unknown>) => number,
  ): (readonly [name: string, slot: number])[] {
    return Object.keys(read.spec)
      .filter((key) => !PROVIDER_KEYS.has(key))
      .map((key) => {
        const need = read.spec[key];
        if (CONTEXT_KEYS.has(key))
          throw new SvcError('E_DEPENDS', [
            `"${key}" of ${read.label}`,
            'every context already has a member of that name',
          ]);
        if (!Dependency.is(need))
          throw new SvcError('E_DEPENDS', [`"${key}" of ${read.label}: ${shown(need)}`]);
        return [key, plan(need)] as const;
      });
  }

  #mistake(ordering: Ordering, rule: Finding['rule'], message: string, remedy: string): -1 {
    this.#report({
      rule,
      severity: 'error',
      subject: ordering.subject,
      place: ordering.declared.place,
      message,
      remedy,
    });
    return -1;
  }
}

const PROVIDER_KEYS: ReadonlySet<string> = new Set<keyof ProviderSpec>([
  'query',
  'headers',
  'cookies',
  'security',
  'secrets',
]);
const CONTEXT_KEYS: ReadonlySet<string> = new Set<ContextKey>(['req', 'signal', 'state', 'params']);

/**
 * Returns the function that calls a source. It is chosen here, so that nothing is decided for each request.
 */
function callerOf(
  source: DependencySource,
  read: ReadSource,
  inputSlot: number,
  needs: readonly (readonly [name: string, slot: number])[],
  tasks: BackgroundRunner,
): PlannedDependency['call'] {
  if (source === BackgroundTasks) return (request) => (request.tasks ??= new BackgroundTasks(tasks));
  if (read.isPlain)
    return isClass(source)
      ? (request) => new (source as new (context: Context) => unknown)(request.context)
      : (request) => (source as (context: Context) => unknown)(request.context);
  const run = read.run as (context: object) => unknown;
  const names = needs.map(([name]) => name);
  const slots = needs.map(([, slot]) => slot);
  return (request) => {
    const context = contextOf(
      request.context,
      names,
      slots.map((slot) => request.values[slot]),
    );
    if (inputSlot !== -1) Object.assign(context, request.inputs[inputSlot]);
    return run(context);
  };
}

/**
 * Whether a source is a class, which must be called with `new`. Only the source text of a function shows
 * whether it is a class.
 */
function isClass(source: unknown): boolean {
  return typeof source === 'function' && /^class\b/.test(Function.prototype.toString.call(source));
}

/**
 * Returns the context of a provided function: the context of the request, with the function's own
 * dependencies as members.
 */
function contextOf(context: Context, names: readonly string[], values: readonly unknown[]): object {
  const own = new ProvidedContext(context) as unknown as Record<string, unknown>;
  names.forEach((name, index) => {
    own[name] = values[index];
  });
  return own;
}

class ProvidedContext implements Context {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  get req(): HttpRequest {
    return this.#context.req;
  }
  get signal(): AbortSignal {
    return this.#context.signal;
  }
  get state(): StateMap {
    return this.#context.state;
  }
}

/* Resolves the dependencies of one request, independent ones in parallel. Cleans them up in reverse order. */

/** A dependency in the plan of one route. */
export interface PlannedDependency {
  /** Index of the dependency's value in the values of a request. */
  readonly slot: number;
  readonly label: string;
  readonly scope: Scope;
  readonly inputs: readonly TextInputPlan[];
  readonly security: readonly SecurityRequirement[];
  /** Slots of the dependencies that it needs. */
  readonly needs: readonly number[];
  /** Calls the source; for scope `app`, returns the value that all requests share. */
  readonly call: (request: Resolution) => unknown;
  /** Whether the source may return a generator, which is advanced to its first `yield`. */
  readonly mayYield: boolean;
  /** Set if the dependency runs the functions that need it, as a transaction does: see {@link surrounded}. */
  readonly surround: Surround | undefined;
  /** Whether other dependencies need this one, so that they must wait until it is resolved. */
  isNeeded: boolean;
}

/**
 * Moves the dependencies that surround others (such as a transaction), and those that need them, behind all
 * others. So a transaction begins only after everything that does not need it is resolved. A surrounding
 * dependency runs the functions that need it, the handler among them. `inside` contains the slots of all
 * moved dependencies.
 */
export function surrounded(planned: readonly PlannedDependency[]): {
  readonly order: readonly PlannedDependency[];
  readonly inside: ReadonlySet<number>;
} {
  const around: PlannedDependency[][] = [];
  for (const { needs } of planned) {
    // both are defined: a plan lists the needs of a dependency before the dependency itself
    const outer = needs.flatMap((slot) => [...around[slot]!, planned[slot]!]);
    around.push([...new Set(outer)].filter(({ surround }) => surround !== undefined));
  }
  const isInside = ({ slot, surround }: PlannedDependency): boolean =>
    surround !== undefined || around[slot]!.length > 0;
  const before = planned.filter((each) => !isInside(each));
  const behind = planned.filter(isInside);
  if (behind.length > 0) for (const each of before) each.isNeeded = true;
  const order = behind.map((each) => ({
    ...each,
    needs: [...each.needs, ...before.map(({ slot }) => slot)],
    call: (request: Resolution) => {
      const inside = <T>(work: () => T): T => calledInside(around[each.slot]!, request, work)(undefined) as T;
      const value = inside(() => each.call(request));
      return each.mayYield && isGenerator(value) ? steppedInside(value, inside) : value;
    },
  }));
  return { order: [...before, ...order], inside: new Set(behind.map(({ slot }) => slot)) };
}

/**
 * Runs each step of a generator inside the surrounding dependencies. The call of a generator function runs
 * none of its code, so it is not enough to surround that call.
 */
function steppedInside<G extends Generator | AsyncGenerator>(
  generator: G,
  inside: <T>(work: () => T) => T,
): G {
  const { next, throw: fail, return: end } = generator;
  return Object.assign(generator, {
    next: () => inside(() => Reflect.apply(next, generator, [])),
    throw: (error: unknown) => inside(() => Reflect.apply(fail, generator, [error])),
    return: (value: unknown) => inside(() => Reflect.apply(end, generator, [value])),
  });
}

/** Returns a function that runs `call` inside the surrounding dependencies of `around`. */
export function calledInside<T>(
  around: readonly PlannedDependency[],
  { values }: Resolution,
  call: (context: T) => unknown,
): (context: T) => unknown {
  return around.reduce(
    (inner, { slot, surround }) =>
      (context) =>
        // `surround` is defined, because `around` lists only dependencies that surround others
        surround!(values[slot], () => inner(context)),
    call,
  );
}

/** The error that ended a request early. It is in an object, because `undefined` can be thrown, too. */
interface Failure {
  readonly error: unknown;
}

/** The state of the dependencies of one request while they are resolved. */
export class Resolution {
  readonly context: Context;
  /** Diagnostics event of the request; undefined without subscribers. */
  readonly #event: RequestEvent | undefined;
  readonly values: unknown[];
  /** Validated inputs by slot. */
  readonly inputs: (Readonly<Record<string, unknown>> | undefined)[];
  tasks: BackgroundTasks | undefined;
  /** Promises, by slot, of running dependencies that others need. They never reject. */
  #waiting: (Promise<void> | undefined)[] | undefined;
  #pending = 0;
  /** The failure of the dependency with the lowest slot, so far. */
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
   * Resolves dependencies in order. Each one starts as soon as those that it needs are resolved, so
   * independent dependencies run in parallel. Returns a promise only if a dependency returns one. After a
   * failure, no further dependency starts. Running ones are awaited, so that all can be cleaned up; then the
   * first failure in order is thrown.
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
   * Finishes the generators of a scope, in reverse order. `failure`, the error that ended the request, is
   * thrown into them. An exception of one generator is thrown into the next, and is returned at the end.
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
        // awaiting undefined would delay each clean-up by a microtask
        if (leaving !== undefined) await leaving;
      } catch (error) {
        if (current !== undefined && error === current.error) continue;
        current = { error: current === undefined ? error : errorAfter(error, current.error) };
        onError(current.error, cleanup.dependency.label);
      }
    }
    return current;
  }

  /** Whether a scope has generators to finish. */
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

  /**
   * Calls a dependency. Publishes diagnostics messages, unless its scope is `app`, because such a dependency
   * was resolved before.
   */
  #enter(dependency: PlannedDependency): unknown {
    const { scope, label } = dependency;
    return this.#event === undefined || scope === 'app'
      ? this.#call(dependency)
      : observeDependency(this.#event, label, scope, () => this.#call(dependency));
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
      throw new SvcError('E_DEPENDENCY_YIELD', [
        dependency.label,
        'the generator ended without yielding a value',
      ]);
    const cleanups = ((this.#cleanups ??= {})[dependency.scope] ??= []);
    let at = cleanups.length;
    while (at > 0 && cleanups[at - 1]!.dependency.slot > dependency.slot) at--;
    const cleanup = new Cleanup(generator, dependency);
    if (at === cleanups.length) cleanups.push(cleanup);
    else cleanups.splice(at, 0, cleanup);
    return step.value;
  }

  /**
   * Waits by two callbacks and a counter. An async function for each dependency, with allSettled(), would
   * take three times as long (test/bench/dependencies.ts).
   */
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

/** A generator that has yielded its value, and must be finished. */
class Cleanup {
  readonly #generator: Generator | AsyncGenerator;
  readonly dependency: PlannedDependency;

  constructor(generator: Generator | AsyncGenerator, dependency: PlannedDependency) {
    this.#generator = generator;
    this.dependency = dependency;
  }

  /** Finishes the generator. Returns a promise only if there is something to await. */
  leave(failure: Failure | undefined): Promise<void> | undefined {
    const step = failure === undefined ? this.#generator.next() : this.#generator.throw(failure.error);
    if (isThenable(step)) return step.then((left) => (left.done === true ? undefined : this.#close()));
    return step.done === true ? undefined : this.#close();
  }

  async #close(): Promise<never> {
    await this.#generator.return(undefined);
    throw new SvcError('E_DEPENDENCY_YIELD', [this.dependency.label, 'the generator yielded a second time']);
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
