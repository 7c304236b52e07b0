/**
 * Dependencies: declared as data, put in order when the application compiles, resolved per request, cleaned up in reverse.
 *
 *   Depends(source)        a function, generator, class, state key, or what provide() gives
 *   provide(spec, fn)      a function with inputs and dependencies of its own, validated and resolved before it runs
 *
 *   scope    resolved           cleaned up
 *   request  per request        after the answer has been sent; what ended the request early is thrown into a generator
 *   handler  per request        before the first byte: a commit that fails becomes the answer
 *   app      once, at start-up  once, at shutdown
 *
 * A wider scope may not need a narrower one. A source is resolved once per request, unless `cache: false`.
 */
import { SvcError } from './errors.ts';
import { BackgroundTasks } from './background.ts';
import { bool, oneOf, readOptions, shown } from './options.ts';
import { isThenable } from './http/pipeline.ts';
import { observeDependency } from './http/request-event.ts';
import { fieldsOf, isSchemaClass, planOf } from './schema.ts';
import type { BackgroundRunner } from './background.ts';
import type { Finding, Place } from './findings.ts';
import type { Context, HttpRequest, SecurityRequirement, StateMap } from './http/contracts.ts';
import type { RequestEvent } from './http/request-event.ts';
import type { Result, SchemaClass, SchemaPlan } from './schema.ts';

/** How long a dependency lives. */
export type Scope = 'request' | 'handler' | 'app';

/** What can be depended upon: it gets the context of the request. */
export type DependencySource = ((context: Context) => unknown) | (new (context: Context) => unknown) | typeof BackgroundTasks;

/** What a source gives: instances of a class, what a generator yields, what a promise resolves with. */
export type Provided<F> = F extends abstract new (...args: never[]) => infer I ? I
  : F extends (...args: never[]) => infer R
    ? R extends Generator<infer Y, unknown, unknown> | AsyncGenerator<infer Y, unknown, unknown> ? Y : Awaited<R>
    : never;

/** A dependency in a spec. Made by {@link Depends} only. */
export class Dependency<out T> {
  /** For the compiler only: what the handler gets. */
  declare readonly value?: T;
  /** @internal */
  readonly source: DependencySource;
  /** @internal */
  readonly isCached: boolean;
  /** @internal */
  readonly scope: Scope;
  /** Keeps look-alikes out. */
  readonly #isDependency = true;

  /** @internal */
  constructor(source: DependencySource, isCached: boolean, scope: Scope) {
    this.source = source;
    this.isCached = isCached;
    this.scope = scope;
  }

  static is(value: unknown): value is Dependency<unknown> {
    return typeof value === 'object' && value !== null && #isDependency in value;
  }
}

/** What {@link Depends} takes besides its source. */
export interface DependsOptions {
  /** Once per request, whoever asks. Default true. */
  readonly cache?: boolean | undefined;
  /** Default `request`. */
  readonly scope?: Scope | undefined;
}

/** Injects what `source` gives. @throws SvcError `E_DEPENDS` for what is no source */
export function Depends<F extends DependencySource>(source: F, options: DependsOptions = {}): Dependency<Provided<F>> {
  if (typeof source !== 'function') throw new SvcError('E_DEPENDS', [shown(source)]);
  const { cache, scope } = readOptions('Depends', options, { cache: bool(true), scope: oneOf(['request', 'handler', 'app'], 'request') });
  return new Dependency(source, cache, scope);
}

/** Fields by name, as `Field()` declares them, or a schema class. */
export type InputShape = object;
/** The values of a shape or of a class's instances. */
export type InputOf<S> = S extends SchemaClass<infer T> ? T : { readonly [K in keyof S]: S[K] };

/** Where inputs come from, beside the path and the body. */
export interface TextInputs {
  readonly query?: InputShape | undefined;
  /** `userAgent` reads `User-Agent`; an alias names others. */
  readonly headers?: InputShape | undefined;
  readonly cookies?: InputShape | undefined;
}

/** The inputs and dependencies of a {@link provide}d function; every key that is none of these is a dependency. */
export interface ProviderSpec extends TextInputs {
  /** What a client must show to pass: for documents and checks. */
  readonly security?: SecurityRequirement | readonly SecurityRequirement[] | undefined;
  /** Secret settings that it cannot do without, for example `['authSecret']`: an application that lacks one does not start. */
  readonly secrets?: readonly string[] | undefined;
}
/** Names that no dependency of a provided function may take: the parts of its context. */
type ContextKey = 'req' | 'signal' | 'state' | 'params';
type ProviderKey = keyof ProviderSpec | ContextKey;

/** `S`, or a sentence at each key that is neither. */
export type CheckedProvider<S> = {
  readonly [K in keyof S]: K extends keyof ProviderSpec ? ProviderSpec[K]
    : K extends ContextKey ? `"${K}" is reserved: give the dependency another name`
    : S[K] extends Dependency<unknown> ? S[K] : `"${K & string}" is neither query, headers, cookies, security nor secrets, and no Depends(…)`;
};

/** What a provided function gets. */
export type ProviderContext<S> = Context
  & { readonly [K in keyof S & keyof TextInputs]: InputOf<NonNullable<S[K]>> }
  & { readonly [K in Exclude<keyof S, ProviderKey>]: S[K] extends Dependency<infer T> ? T : never };

const PROVIDERS = new WeakMap<object, { readonly spec: Readonly<Record<string, unknown>>; readonly fn: (context: never) => unknown }>();

/**
 * A dependency function with inputs and dependencies of its own. The spec is read when the application compiles, so that a
 * getter in it may name what is declared later.
 */
export function provide<const S extends object, R>(spec: S & CheckedProvider<S>, fn: (context: ProviderContext<S>) => R): (context: Context) => R {
  const provider = (_context: Context): R => { throw new SvcError('E_DEPENDS', [`${fn.name || 'a provided function'}, called directly`]); };
  Object.defineProperty(provider, 'name', { value: fn.name });
  PROVIDERS.set(provider, { spec, fn: fn as (context: never) => unknown });
  return provider;
}

// ── compiled ──

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

  get hasCleanups(): boolean { return this.#cleanups !== undefined; }

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
  async cleanUp(scope: Scope, failure: Failure | undefined, onError: (error: unknown, label: string) => void): Promise<Failure | undefined> {
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
  mustCleanUp(scope: Scope): boolean {
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
    return scope === 'app' ? this.#call(dependency) : observeDependency(event, label, scope, () => this.#call(dependency));
  }

  #call(dependency: PlannedDependency): unknown {
    const value = dependency.call(this);
    return dependency.mayYield && isGenerator(value) ? this.#enterGenerator(dependency, value) : value;
  }

  #enterGenerator(dependency: PlannedDependency, generator: Generator | AsyncGenerator): unknown {
    const step = generator.next();
    return isThenable(step) ? step.then((taken) => this.#take(dependency, generator, taken)) : this.#take(dependency, generator, step);
  }

  #take(dependency: PlannedDependency, generator: Generator | AsyncGenerator, step: IteratorResult<unknown>): unknown {
    if (step.done === true) throw new SvcError('E_DEPENDENCY_YIELD', [dependency.label, 'ended without yielding a value']);
    const cleanups = (this.#cleanups ??= {})[dependency.scope] ??= [];
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
    const arriving = promise.then((settled) => {
      this.values[slot] = settled;
      this.#arrive();
    }, (error: unknown) => {
      this.#fail(slot, error);
      this.#arrive();
    });
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
    if (isThenable(step)) return step.then((left) => left.done === true ? undefined : this.#close());
    return step.done === true ? undefined : this.#close();
  }

  async #close(): Promise<never> {
    await this.#generator.return(undefined);
    throw new SvcError('E_DEPENDENCY_YIELD', [this.dependency.label, 'yielded a second time']);
  }
}

function isGenerator(value: unknown): value is Generator | AsyncGenerator {
  if (typeof value !== 'object' || value === null || typeof (value as { throw?: unknown }).throw !== 'function') return false;
  const tag = (value as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag];
  return tag === 'Generator' || tag === 'AsyncGenerator';
}

/** What is being put in order for one route. */
interface Ordering {
  readonly planned: PlannedDependency[];
  readonly slots: Map<DependencySource, number>;
  readonly subject: string;
  readonly place: Place;
}

/** The dependencies that lead to one, the outermost first. */
type Path = readonly { readonly source: DependencySource; readonly label: string; readonly scope: Scope }[];

const NOWHERE: Place = Object.freeze({ file: '<unknown>', line: 0, column: 0 });

/** A source together with what it asks for. */
interface ReadSource {
  readonly label: string;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly run: (context: never) => unknown;
  readonly isPlain: boolean;
  readonly security: readonly SecurityRequirement[];
}

const RANK: Readonly<Record<Scope, number>> = { handler: 0, request: 1, app: 2 };

/** Puts the dependencies of an application's routes in order, and finds what cannot be. */
export class DependencyGraph {
  readonly #app: Ordering = { planned: [], slots: new Map(), subject: 'the application', place: NOWHERE };
  #values: readonly unknown[] = [];
  readonly #overrides: ReadonlyMap<unknown, DependencySource>;
  readonly #tasks: BackgroundRunner;
  readonly #report: (finding: Finding) => void;

  constructor(parts: { readonly overrides: ReadonlyMap<unknown, DependencySource>; readonly tasks: BackgroundRunner; readonly report: (finding: Finding) => void }) {
    this.#overrides = parts.overrides;
    this.#tasks = parts.tasks;
    this.#report = parts.report;
  }

  /** Resolves what lives as long as the application. Answers how to leave it again. */
  async start(context: Context): Promise<(onError: (error: unknown, label: string) => void) => Promise<unknown>> {
    const resolution = new Resolution(context, this.#app.planned.length);
    try {
      await resolution.resolve(this.#app.planned);
    } catch (error) {
      await resolution.cleanUp('app', { error }, () => { /* the first failure is the one to tell */ });
      throw error;
    }
    this.#values = resolution.values;
    return (onError) => resolution.cleanUp('app', undefined, onError);
  }

  /** An empty order for a route. */
  order(subject: string, place: Place): Ordering {
    return { planned: [], slots: new Map(), subject, place };
  }

  /** Adds a dependency and what it needs; answers its slot, or -1 where a mistake has been reported. */
  plan(ordering: Ordering, dependency: Dependency<unknown>, above: Path = []): number {
    const source = this.#overrides.get(dependency.source) ?? dependency.source;
    const { scope } = dependency;
    const read = readSource(source, dependency.source);
    const path = [...above, { source, label: read.label, scope }];
    const names = path.map((step) => step.label).join(' → ');
    if (above.some((step) => step.source === source)) return this.#mistake(ordering, 'SVC111', `a dependency needs itself: ${names}`, 'Break the circle: let one of them take what it needs from the request or the application');
    const outer = above.at(-1);
    if (outer !== undefined && RANK[outer.scope] > RANK[scope]) {
      return this.#mistake(ordering, 'SVC112', `${outer.label} lives for the ${outer.scope} and needs ${read.label}, which lives for the ${scope}: ${names}`, 'Give the outer one the narrower scope, or the inner one the wider');
    }
    const known = dependency.isCached ? ordering.slots.get(source) : undefined;
    if (known !== undefined) {
      if (known >= 0 && ordering.planned[known]!.scope !== scope) {
        return this.#mistake(ordering, 'SVC112', `${read.label} is asked for with the scopes ${ordering.planned[known]!.scope} and ${scope}: ${names}`, 'Ask for it with one scope everywhere, or with cache: false');
      }
      return known;
    }
    const slot = scope === 'app' && ordering.planned !== this.#app.planned ? this.#planShared(ordering, dependency, read.label, above) : this.#planOwn(ordering, scope, source, read, path);
    if (dependency.isCached) ordering.slots.set(source, slot);
    return slot;
  }

  #planOwn(ordering: Ordering, scope: Scope, source: DependencySource, read: ReadSource, path: Path): number {
    const needs = this.#needsOf(read, (dependency) => this.plan(ordering, dependency, path));
    if (needs.some(([, slot]) => slot === -1)) return -1;
    for (const [, slot] of needs) ordering.planned[slot]!.isNeeded = true;
    const inputs = readTextInputs(read.spec);
    if (scope === 'app' && (inputs.length > 0 || source === BackgroundTasks)) {
      return this.#mistake(ordering, 'SVC112', `${read.label} lives for the application and needs a request`, 'Give it the scope request');
    }
    return this.#add(ordering, {
      label: read.label, scope, inputs, security: read.security, needs: needs.map(([, slot]) => slot), mayYield: source !== BackgroundTasks && !isClass(source),
      call: (slot) => callerOf(source, read, inputs.length === 0 ? -1 : slot, needs, this.#tasks),
    });
  }

  #planShared(ordering: Ordering, dependency: Dependency<unknown>, label: string, above: Path): number {
    const shared = { ...this.#app, subject: ordering.subject, place: ordering.place }; // of the route that asks first
    const slot = this.plan(shared, dependency, above.filter((step) => step.scope === 'app'));
    if (slot === -1) return -1;
    return this.#add(ordering, { label, scope: 'app', inputs: [], security: [], needs: [], mayYield: false, call: () => () => this.#values[slot] });
  }

  #add(ordering: Ordering, parts: Omit<PlannedDependency, 'slot' | 'call' | 'isNeeded'> & { readonly call: (slot: number) => PlannedDependency['call'] }): number {
    const slot = ordering.planned.length;
    ordering.planned.push({ ...parts, slot, isNeeded: false, call: parts.call(slot) });
    return slot;
  }

  #needsOf(read: ReadSource, plan: (dependency: Dependency<unknown>) => number): (readonly [name: string, slot: number])[] {
    return Object.keys(read.spec).filter((key) => !PROVIDER_KEYS.has(key)).map((key) => {
      const need = read.spec[key];
      if (CONTEXT_KEYS.has(key)) throw new SvcError('E_DEPENDS', [`"${key}" of ${read.label}, which is a part of every context`]);
      if (!Dependency.is(need)) throw new SvcError('E_DEPENDS', [`"${key}" of ${read.label}: ${shown(need)}`]);
      return [key, plan(need)] as const;
    });
  }

  #mistake(ordering: Ordering, rule: Finding['rule'], message: string, remedy: string): -1 {
    this.#report({ rule, severity: 'error', subject: ordering.subject, place: ordering.place, message, remedy });
    return -1;
  }
}

const PROVIDER_KEYS: ReadonlySet<string> = new Set<keyof ProviderSpec>(['query', 'headers', 'cookies', 'security', 'secrets']);
const CONTEXT_KEYS: ReadonlySet<string> = new Set<ContextKey>(['req', 'signal', 'state', 'params']);

/** A dependency as checks see it. */
export interface DependencyView {
  readonly label: string;
  readonly secrets: readonly string[];
  /** Its own, without those of what it needs. */
  readonly security: readonly SecurityRequirement[];
  readonly needs: readonly Dependency<unknown>[];
}

/** What a dependency is called and asks for itself. */
export function viewOfDependency({ source }: Dependency<unknown>): DependencyView {
  const { label, spec, security } = readSource(source);
  return { label, security, secrets: spec['secrets'] as ProviderSpec['secrets'] ?? [], needs: Object.keys(spec).map((key) => spec[key]).filter(Dependency.is) }; // provide() types it
}

/** The function that somebody wrote: for rules that read its code. */
export function functionOf({ source }: Dependency<unknown>): (...args: never[]) => unknown {
  return readSource(source).run;
}

/** What stands in for another source has the security of that: it is resolved as early. */
function readSource(source: DependencySource, declared: DependencySource = source): ReadSource {
  const provider = PROVIDERS.get(source);
  const security = [PROVIDERS.get(declared)?.spec['security'] ?? []].flat() as SecurityRequirement[]; // provide() types it: one or a list
  if (provider !== undefined) return { label: provider.fn.name || '(anonymous)', spec: provider.spec, run: provider.fn, isPlain: false, security };
  return { label: source.name || '(anonymous)', spec: {}, run: source as (context: never) => unknown, isPlain: true, security };
}

/** What calls a source, decided once. */
function callerOf(source: DependencySource, read: ReadSource, inputSlot: number, needs: readonly (readonly [name: string, slot: number])[], tasks: BackgroundRunner): PlannedDependency['call'] {
  if (source === BackgroundTasks) return (request) => request.tasks ??= new BackgroundTasks(tasks);
  if (read.isPlain) return isClass(source) ? (request) => new (source as new (context: Context) => unknown)(request.context) : (request) => (source as (context: Context) => unknown)(request.context);
  const run = read.run as (context: object) => unknown;
  const names = needs.map(([name]) => name);
  const slots = needs.map(([, slot]) => slot);
  return (request) => {
    const context = contextOf(request.context, names, slots.map((slot) => request.values[slot]));
    if (inputSlot !== -1) Object.assign(context, request.inputs[inputSlot]);
    return run(context);
  };
}

/** Classes cannot be called; nothing but their text tells them from functions. */
function isClass(source: unknown): boolean {
  return typeof source === 'function' && /^class\b/.test(Function.prototype.toString.call(source));
}

/** The context of a provided function: that of the request, and what it asked for. */
function contextOf(context: Context, names: readonly string[], values: readonly unknown[]): object {
  const own = new ProvidedContext(context) as unknown as Record<string, unknown>;
  names.forEach((name, index) => { own[name] = values[index]; });
  return own;
}

class ProvidedContext implements Context {
  readonly #context: Context;

  constructor(context: Context) { this.#context = context; }

  get req(): HttpRequest { return this.#context.req; }
  get signal(): AbortSignal { return this.#context.signal; }
  get state(): StateMap { return this.#context.state; }
}

const SOURCES = [['query', 'query'], ['headers', 'header'], ['cookies', 'cookie']] as const;

/** The text inputs that a spec asks for, compiled. */
export function readTextInputs(spec: Readonly<Record<string, unknown>>): TextInputPlan[] {
  return SOURCES.flatMap(([key, from]) => {
    const shape = spec[key];
    return shape === undefined ? [] : [new TextInputPlan(key, from, planOfShape(shape as InputShape, key))]; // the spec's type says what it is
  });
}

/** A schema class's plan, or that of the fields of an object. */
export function planOfShape(shape: InputShape, owner: string): SchemaPlan {
  return isSchemaClass(shape) ? planOf(shape) : fieldsOf(shape, owner);
}

/** One source of text inputs of a route or dependency. */
export class TextInputPlan {
  /** The member of the context. */
  readonly key: keyof TextInputs;
  readonly from: 'query' | 'header' | 'cookie';
  readonly plan: SchemaPlan;
  /** Field names by the names of the schema: `userAgent` is `user-agent`. */
  readonly #fieldNames: ReadonlyMap<string, string>;
  readonly #lists: ReadonlySet<string>;

  constructor(key: keyof TextInputs, from: TextInputPlan['from'], plan: SchemaPlan) {
    this.key = key;
    this.from = from;
    this.plan = plan;
    this.#fieldNames = new Map(plan.fields.map(({ name, wireName }) => [wireName, from === 'header' ? fieldNameOf(name, wireName) : wireName]));
    this.#lists = new Set(plan.fields.filter((field) => field.isList).map((field) => field.wireName));
  }

  /** What the client calls a member: the name of the header, or the member's own. */
  nameOf(wireName: string): string {
    return this.#fieldNames.get(wireName) ?? wireName;
  }

  /** Validates what the request has. */
  read(req: HttpRequest): Result<unknown> {
    if (this.from === 'query') return this.plan.parseText(req.query, 'query');
    if (this.from === 'cookie') return this.plan.parseText(req.cookies, 'cookie');
    const result = this.plan.parseText({
      getAll: (name) => {
        const value = req.headers[this.nameOf(name)];
        return value === undefined ? [] : this.#lists.has(name) ? itemsOf(value) : [value];
      },
      keys: () => this.#fieldNames.keys(),
    }, 'header');
    if (result.ok) return result;
    return { ok: false, issues: result.issues.map((issue) => ({ ...issue, loc: issue.loc.map((step, index) => index === 1 ? this.nameOf(String(step)) : step) })) };
  }
}

/** The field that a member reads: its alias as it stands, else `userAgent` as `user-agent`. */
function fieldNameOf(name: string, wireName: string): string {
  return (name === wireName ? name.replace(/([a-z0-9])([A-Z])/g, '$1-$2').replaceAll('_', '-') : wireName).toLowerCase();
}

/** The items of a comma list; empty ones are none (RFC 9110 §5.6.1.2). */
function itemsOf(value: string): string[] {
  return value.split(',').map((item) => item.trim()).filter((item) => item !== '');
}
