/**
 * Determines the order of a route's dependencies: each one comes after the dependencies that it needs.
 * Reports cycles, and dependencies that need another one with a shorter scope. The second part of this file
 * resolves the dependencies for each request.
 */
import { errorAfter, SvcError } from '../base/errors.ts';
import { BackgroundTasks } from './background.ts';
import { Dependency, readSource, readTextInputs } from './di.ts';
import { shown } from '../base/options.ts';
import { isThenable, whenReady } from '../base/promises.ts';
import { surroundOfSource } from '../http/state.ts';
import { inSpan } from '../observability/tracer.ts';
import type { BackgroundRunner } from './background.ts';
import type { ContextKey, DependencySource, ProviderSpec, ReadSource, Scope, TextInputPlan } from './di.ts';
import type { Declared, Finding } from '../base/findings.ts';
import type { Context, HttpRequest, SecurityRequirement, StateMap } from '../http/contracts.ts';
import type { SpanStart, Tracer } from '../observability/tracer.ts';
import type { Surround } from '../http/state.ts';

/** The dependencies of one route, while their order is being determined. */
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

/** Chain of dependencies from the route to the current dependency. Each one needs the next one. */
type Path = readonly { readonly source: DependencySource; readonly label: string; readonly scope: Scope }[];

const NOWHERE: Declared = Object.freeze({ place: Object.freeze({ file: '<unknown>', line: 0, column: 0 }) });

const RANK: Readonly<Record<Scope, number>> = { handler: 0, request: 1, app: 2 };

/**
 * Determines the order of an application's dependencies, reports mistakes, and stores the values of scope
 * `app`.
 */
export class DependencyGraph {
  readonly #app: Ordering = { planned: [], slots: new Map(), subject: 'the application', declared: NOWHERE };
  #values: readonly unknown[] = [];
  /** Functions and classes of all planned dependencies, after replacement. */
  readonly sources: Set<unknown> = new Set();
  readonly #deps: PlannerDeps;

  constructor(deps: PlannerDeps) {
    this.#deps = deps;
  }

  /** Returns an empty ordering. {@link plan} adds the dependencies of a route to it. */
  order(subject: string, declared: Declared): Ordering {
    return { planned: [], slots: new Map(), subject, declared };
  }

  /** Returns the clean-up of scope `app`. `report` gets each error that is not thrown. */
  async start(
    context: Context,
    report: (event: 'dependency_failed' | 'cleanup_failed', error: unknown, label: string) => void,
  ): Promise<() => Promise<unknown>> {
    const resolution = new Resolution(context, this.#app.planned.length);
    const onCleanUpError = (error: unknown, label: string): void => report('cleanup_failed', error, label);
    try {
      await resolution.resolve(this.#app.planned);
    } catch (error) {
      for (const other of resolution.otherFailures)
        report('dependency_failed', other.error, other.dependency.label);
      await resolution.cleanUp('app', { error }, onCleanUpError);
      throw error;
    }
    this.#values = resolution.values;
    return () => resolution.cleanUp('app', undefined, onCleanUpError);
  }

  /**
   * Returns the index of the dependency's value (its slot), or -1 after a mistake. Its function may have no name:
   * `name` is the name under which a handler or another dependency receives the value.
   */
  plan(ordering: Ordering, dependency: Dependency<unknown>, name: string, above: Path = []): number {
    const source = this.#deps.overrides.get(dependency.source) ?? dependency.source;
    this.sources.add(source);
    const { scope } = dependency;
    const before = above.find((step) => step.source === source);
    const found = readSource(source, dependency.source);
    const read = { ...found, label: before?.label ?? (found.run.name || name) };
    const path = [...above, { source, label: read.label, scope }];
    const names = path.map((step) => step.label).join(' → ');
    if (before !== undefined)
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
      const other = ordering.planned[known]; // undefined after a mistake
      if (other === undefined || other.scope === scope) return known;
      return this.#mistake(
        ordering,
        'SVC112',
        `${read.label} is used with the scopes ${other.scope} and ${scope}: ${names}`,
        'Use the same scope in each Depends() of this source, or set cache: false',
      );
    }
    const slot =
      scope === 'app' && ordering.planned !== this.#app.planned
        ? this.#planShared(ordering, dependency, read.label, above)
        : this.#planOwn(ordering, scope, source, read, path);
    if (dependency.isCached) ordering.slots.set(source, slot);
    return slot;
  }

  #planOwn(ordering: Ordering, scope: Scope, source: DependencySource, read: ReadSource, path: Path): number {
    const needs = this.#needsOf(read, (dependency, name) => this.plan(ordering, dependency, name, path));
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
      call: (slot) => callerOf(source, read, inputs.length === 0 ? -1 : slot, needs, this.#deps.tasks),
    });
  }

  #planShared(ordering: Ordering, dependency: Dependency<unknown>, label: string, above: Path): number {
    // findings about this dependency name the first route that uses it
    const shared = { ...this.#app, subject: ordering.subject, declared: ordering.declared };
    const slot = this.plan(
      shared,
      dependency,
      label,
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
    plan: (dependency: Dependency<unknown>, name: string) => number,
  ): (readonly [name: string, slot: number])[] {
    return Object.keys(read.spec)
      .filter((key) => !PROVIDER_KEYS.has(key))
      .map((key) => {
        const need = read.spec[key];
        if (CONTEXT_KEYS.has(key))
          throw new SvcError('E_DEPENDS', [
            `"${key}" of ${read.label}`,
            key === 'params'
              ? 'a dependency declares no path parameters: read req.pathParams in its function'
              : `the name ${key} is reserved for a member that every context has`,
          ]);
        if (!Dependency.is(need))
          throw new SvcError('E_DEPENDS', [`"${key}" of ${read.label}: ${shown(need)}`]);
        return [key, plan(need, key)] as const;
      });
  }

  #mistake(ordering: Ordering, rule: Finding['rule'], message: string, remedy: string): -1 {
    const { subject, declared } = ordering;
    this.#deps.report({ rule, severity: 'error', subject, place: declared.place, message, remedy });
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

/** Returns a function that calls the function or class of a dependency for a request. */
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
  return (request) => {
    const context = new ProvidedContext(request.context) as unknown as Record<string, unknown>;
    for (const [name, slot] of needs) context[name] = request.values[slot];
    if (inputSlot !== -1) Object.assign(context, request.inputs[inputSlot]);
    return run(context);
  };
}

export function isClass(source: unknown): boolean {
  return typeof source === 'function' && /^class\b/.test(Function.prototype.toString.call(source));
}

/** Context for a function that was passed to provide(). It also gets the dependencies of the function. */
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

/** A dependency of a route, with everything that is needed to resolve it. */
export interface PlannedDependency {
  /** Index in {@link Resolution.values} of the value of this dependency. */
  readonly slot: number;
  readonly label: string;
  readonly scope: Scope;
  readonly inputs: readonly TextInputPlan[];
  readonly security: readonly SecurityRequirement[];
  /** Indexes in {@link Resolution.values} of the dependencies that this one needs. */
  readonly needs: readonly number[];
  /** For scope `app`, returns the value that was resolved at the start. */
  readonly call: (request: Resolution) => unknown;
  /** Whether the function may return a generator, whose first `yield` gives the value. */
  readonly mayYield: boolean;
  /** Calls a function inside this dependency, such as a transaction. Undefined for most dependencies. */
  readonly surround: Surround | undefined;
  /** Whether other dependencies wait for this one. */
  isNeeded: boolean;
}

/**
 * Moves transactions and similar dependencies, and all dependencies that need them, to the end. So a
 * transaction begins as late as possible. `inside` contains the `slot` of each moved dependency.
 */
export function surrounded(planned: readonly PlannedDependency[]): {
  readonly order: readonly PlannedDependency[];
  readonly inside: ReadonlySet<number>;
} {
  const around: PlannedDependency[][] = [];
  for (const { needs } of planned) {
    // a dependency comes after all dependencies that it needs, so `around` and `planned` have an element at
    // `slot`
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

/** Runs each step of a generator inside the surrounding dependencies, such as a transaction. */
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

/** Runs `call` inside all dependencies in `around`, for example inside a transaction. */
export function calledInside<T>(
  around: readonly PlannedDependency[],
  { values }: Resolution,
  call: (context: T) => unknown,
): (context: T) => unknown {
  return around.reduce(
    (inner, { slot, surround }) =>
      (context) =>
        // `surround` is defined, because `around` only contains dependencies that have it
        surround!(values[slot], () => inner(context)),
    call,
  );
}

/** The error that ended a request. It is wrapped in an object, because `undefined` can be thrown, too. */
export interface Failure {
  readonly error: unknown;
}

const DEPENDENCY: SpanStart = { kind: 'internal', attributes: {} };
type DependencyFailure = Failure & { readonly dependency: PlannedDependency };

/** Resolves the dependencies of one request, and runs their clean-ups. */
export class Resolution {
  readonly context: Context;
  readonly #tracer: Tracer | undefined;
  readonly values: unknown[];
  /** Validated inputs of each dependency, at the index of its value in `values`. */
  readonly inputs: (Readonly<Record<string, unknown>> | undefined)[];
  tasks: BackgroundTasks | undefined;
  /** Promises of the running dependencies that others wait for, by `slot`. They never reject. */
  #waiting: (Promise<void> | undefined)[] | undefined;
  #pending = 0;
  /** Failures of dependencies that ran in parallel, in the order of the dependencies. The first is thrown. */
  #failures: DependencyFailure[] | undefined;
  #allDone: PromiseWithResolvers<void> | undefined;
  #cleanups: Partial<Record<Scope, Cleanup[]>> | undefined;

  /** With a tracer, each dependency has a span, from its call until its value is known. */
  constructor(context: Context, size: number, tracer?: Tracer) {
    this.context = context;
    this.#tracer = tracer;
    this.values = new Array<unknown>(size);
    this.inputs = new Array<undefined>(size);
  }

  get hasCleanups(): boolean {
    return this.#cleanups !== undefined;
  }

  /**
   * Resolves dependencies, independent ones in parallel. After a failure, no further dependency starts, and
   * the error is thrown when all running dependencies have settled. Returns a promise only if it has to wait.
   */
  resolve(planned: readonly PlannedDependency[]): Promise<void> | undefined {
    for (const dependency of planned) {
      try {
        const value = this.#begin(dependency);
        if (isThenable(value)) this.#await(dependency, value);
        else this.values[dependency.slot] = value;
      } catch (error) {
        if (this.#pending === 0) throw error;
        this.#fail(dependency, error);
        break;
      }
    }
    return this.#pending === 0 ? undefined : (this.#allDone = Promise.withResolvers<void>()).promise;
  }

  /** Failures of dependencies whose errors resolve() has not thrown, because an earlier one failed, too. */
  get otherFailures(): readonly DependencyFailure[] {
    const failures = this.#failures;
    return failures === undefined ? [] : failures.filter(({ error }) => error !== failures[0]!.error);
  }

  /**
   * Runs the generators of a scope to their end, the last one first. `failure`, the error of the request, is
   * thrown into each generator. A new error that a generator throws replaces `failure`, and is returned.
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

  /** Returns whether generators of a scope must still run to their end. */
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
    if (this.#failures !== undefined) throw this.#failures[0]!.error;
    return this.#enter(dependency);
  }

  /** Calls a dependency in a span. One of scope `app` has no span, because it was called at the start. */
  #enter(dependency: PlannedDependency): unknown {
    return this.#tracer === undefined || dependency.scope === 'app'
      ? this.#call(dependency)
      : inSpan(this.#tracer, `dependency ${dependency.label}`, DEPENDENCY, () => this.#call(dependency));
  }

  #call(dependency: PlannedDependency): unknown {
    const value = dependency.call(this);
    return dependency.mayYield && isGenerator(value) ? this.#enterGenerator(dependency, value) : value;
  }

  #enterGenerator(dependency: PlannedDependency, generator: Generator | AsyncGenerator): unknown {
    return whenReady(generator.next(), (step) => this.#take(dependency, generator, step));
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
   * Waits with two callbacks and a counter. An async function per dependency, with allSettled(), would take
   * three times as long (test/bench/dependencies.ts).
   */
  #await(dependency: PlannedDependency, value: PromiseLike<unknown>): void {
    this.#pending++;
    const promise = value instanceof Promise ? value : Promise.resolve(value);
    const arriving = promise.then(
      (ready) => {
        this.values[dependency.slot] = ready;
        this.#arrive();
      },
      (error: unknown) => {
        this.#fail(dependency, error);
        this.#arrive();
      },
    );
    if (dependency.isNeeded) (this.#waiting ??= [])[dependency.slot] = arriving;
  }

  #arrive(): void {
    if (--this.#pending > 0) return;
    this.#waiting = undefined;
    if (this.#failures === undefined) this.#allDone!.resolve();
    else this.#allDone!.reject(this.#failures[0]!.error);
  }

  #fail(dependency: PlannedDependency, error: unknown): void {
    const failures = (this.#failures ??= []);
    failures.push({ dependency, error });
    failures.sort((left, right) => left.dependency.slot - right.dependency.slot);
  }
}

/** A generator that has yielded the value of its dependency, and must still run to its end. */
class Cleanup {
  readonly #generator: Generator | AsyncGenerator;
  readonly dependency: PlannedDependency;

  constructor(generator: Generator | AsyncGenerator, dependency: PlannedDependency) {
    this.#generator = generator;
    this.dependency = dependency;
  }

  /** Runs the generator to its end. Returns a promise only if it has to wait. */
  leave(failure: Failure | undefined): Promise<void> | undefined {
    const step = failure === undefined ? this.#generator.next() : this.#generator.throw(failure.error);
    if (isThenable(step)) return step.then((left) => (left.done === true ? undefined : this.#close()));
    return step.done === true ? undefined : this.#close();
  }

  async #close(): Promise<never> {
    await this.#generator.return(undefined);
    throw new SvcError('E_DEPENDENCY_YIELD', [
      this.dependency.label,
      'the generator yielded a second value, but must yield exactly one',
    ]);
  }
}

export function isGenerator(value: unknown): value is Generator | AsyncGenerator {
  if (
    typeof value !== 'object' ||
    value === null ||
    typeof (value as { throw?: unknown }).throw !== 'function'
  )
    return false;
  const tag = (value as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag];
  return tag === 'Generator' || tag === 'AsyncGenerator';
}
