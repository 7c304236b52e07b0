/**
 * The order in which dependencies are resolved: what each needs comes before it, nothing needs itself, and nothing needs what lives shorter.
 */
import { SvcError } from '../base/errors.ts';
import { BackgroundTasks } from './background.ts';
import { Dependency, readSource, readTextInputs } from './di.ts';
import { Resolution } from './di-resolution.ts';
import { shown } from '../base/options.ts';
import type { BackgroundRunner } from './background.ts';
import type { ContextKey, DependencySource, ProviderSpec, ReadSource, Scope } from './di.ts';
import type { PlannedDependency } from './di-resolution.ts';
import type { Declared, Finding } from '../base/findings.ts';
import type { Context, HttpRequest, StateMap } from '../http/contracts.ts';

/** What is being put in order for one route. */
interface Ordering {
  readonly planned: PlannedDependency[];
  readonly slots: Map<DependencySource, number>;
  readonly subject: string;
  readonly declared: Declared;
}

/** What a planner works with. */
interface PlannerDeps {
  readonly overrides: ReadonlyMap<unknown, DependencySource>;
  readonly tasks: BackgroundRunner;
  readonly report: (finding: Finding) => void;
}

/** The dependencies that lead to one, the outermost first. */
type Path = readonly { readonly source: DependencySource; readonly label: string; readonly scope: Scope }[];

const NOWHERE: Declared = Object.freeze({ place: Object.freeze({ file: '<unknown>', line: 0, column: 0 }) });

const RANK: Readonly<Record<Scope, number>> = { handler: 0, request: 1, app: 2 };

/** Puts the dependencies of an application's routes in order, and finds what cannot be. */
class DependencyPlanner {
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

  /** Resolves what lives as long as the application. Answers how to leave it again. */
  async start(
    context: Context,
  ): Promise<(onError: (error: unknown, label: string) => void) => Promise<unknown>> {
    const resolution = new Resolution(context, this.#app.planned.length);
    try {
      await resolution.resolve(this.#app.planned);
    } catch (error) {
      await resolution.cleanUp('app', { error }, () => {
        /* the first failure is the one to tell */
      });
      throw error;
    }
    this.#values = resolution.values;
    return (onError) => resolution.cleanUp('app', undefined, onError);
  }

  /** Adds a dependency and what it needs; answers its slot, or -1 where a mistake has been reported. */
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
        'Break the circle: let one of them take what it needs from the request or the application',
      );
    const outer = above.at(-1);
    if (outer !== undefined && RANK[outer.scope] > RANK[scope]) {
      return this.#mistake(
        ordering,
        'SVC112',
        `${outer.label} lives for the ${outer.scope} and needs ${read.label}, which lives for the ${scope}: ${names}`,
        'Give the outer one the narrower scope, or the inner one the wider',
      );
    }
    const known = dependency.isCached ? ordering.slots.get(source) : undefined;
    if (known !== undefined) {
      if (known >= 0 && ordering.planned[known]!.scope !== scope) {
        return this.#mistake(
          ordering,
          'SVC112',
          `${read.label} is asked for with the scopes ${ordering.planned[known]!.scope} and ${scope}: ${names}`,
          'Ask for it with one scope everywhere, or with cache: false',
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
      call: (slot) => callerOf(source, read, inputs.length === 0 ? -1 : slot, needs, this.#tasks),
    });
  }

  #planShared(ordering: Ordering, dependency: Dependency<unknown>, label: string, above: Path): number {
    const shared = { ...this.#app, subject: ordering.subject, declared: ordering.declared }; // of the route that asks first
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
          throw new SvcError('E_DEPENDS', [`"${key}" of ${read.label}, which is a part of every context`]);
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

/** What calls a source, decided once. */
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

/** Classes cannot be called; nothing but their text tells them from functions. */
function isClass(source: unknown): boolean {
  return typeof source === 'function' && /^class\b/.test(Function.prototype.toString.call(source));
}

/** The context of a provided function: that of the request, and what it asked for. */
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

/** Leaves what lives as long as the application. */
export type Leave = (onError: (error: unknown, label: string) => void) => Promise<unknown>;

/** Of the routes of one application. */
export class DependencyGraph {
  readonly #deps: PlannerDeps;
  #planner: DependencyPlanner | undefined;

  constructor(deps: PlannerDeps) {
    this.#deps = deps;
  }

  /** An empty order for a route. */
  order(subject: string, declared: Declared): Ordering {
    return { planned: [], slots: new Map(), subject, declared };
  }

  /** Adds a dependency and what it needs; answers its slot, or -1 where a mistake has been reported. */
  plan(ordering: Ordering, dependency: Dependency<unknown>): number {
    return (this.#planner ??= new DependencyPlanner(this.#deps)).plan(ordering, dependency);
  }

  /** Resolves what lives as long as the application. Answers how to leave it again. */
  async start(context: Context): Promise<Leave> {
    return this.#planner === undefined ? nothingToLeave : this.#planner.start(context);
  }
}

async function nothingToLeave(): Promise<void> {
  /* nothing was resolved */
}
