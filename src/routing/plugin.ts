/**
 * Determines the order of plugins by their requirements, starts them in this order, and stops them in reverse
 * order.
 *
 * A test client can replace values that plugins provide, such as the database. A plugin is not started for a
 * client that replaces one of its values and does not need it: no dependency of the client reads another of
 * its values, it has added no routes and no middleware, and the program holds no object of the plugin.
 */
import { SvcError } from '../base/errors.ts';
import { ignore, isThenable, whenReady, within } from '../base/promises.ts';
import { StartContext } from './compile.ts';
import { isClass, isGenerator } from './di-plan.ts';
import { readSource } from './di.ts';
import type { Clock } from '../base/clock.ts';
import type { Finding, Place } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { Context, HostLike, PluginLike, StateKey, StateMap } from '../http/contracts.ts';
import type { DependencySource } from './di.ts';
import type { Router } from './route.ts';

/**
 * A reusable part of an application. It can add routes, middleware and rules, and run code at the start and
 * shutdown.
 */
export interface Plugin extends PluginLike {
  register(host: Host): void;
}

/** Gives one plugin access to the application: to read settings, and to add routes, middleware and so on. */
export interface Host extends HostLike {
  /**
   * Router of the plugin, which the application includes: `host.routes.get('/stock/{id:int}', …)`. Its middleware and
   * exception handlers are for the routes of the plugin alone.
   */
  readonly routes: Router;
}

/** The part of a router with which a plugin may add routes. */
export type RouterLike = Pick<Router, 'route'>;

/** A plugin, and the place in the program's code that registers it. */
export interface RegisteredPlugin {
  readonly plugin: Plugin;
  readonly place: Place;
}

/**
 * Sorts plugins, so that each one comes after the plugins that it requires. Apart from that, plugins with
 * `startsFirst` come first, and the others keep the order of registration. Repeated names, missing plugins
 * and cycles are reported as findings.
 */
export function sortPlugins(
  registered: readonly RegisteredPlugin[],
  report: (finding: Finding) => void,
): Plugin[] {
  const byName = new Map<string, RegisteredPlugin>();
  const mistake = ({ plugin, place }: RegisteredPlugin, message: string, remedy: string): void =>
    report({ rule: 'SVC114', severity: 'error', subject: `plugin ${plugin.name}`, place, message, remedy });
  for (const entry of registered) {
    if (byName.has(entry.plugin.name))
      mistake(
        entry,
        `two plugins are named "${entry.plugin.name}"`,
        'Register the plugin once, or give each plugin a name of its own',
      );
    else byName.set(entry.plugin.name, entry);
  }
  const sorted = new Set<Plugin>();
  const visit = (entry: RegisteredPlugin, path: readonly string[]): void => {
    const { plugin } = entry;
    const names = [...path, plugin.name];
    if (sorted.has(plugin)) return;
    if (path.includes(plugin.name))
      return mistake(
        entry,
        `plugins need one another in a circle: ${names.slice(names.indexOf(plugin.name)).join(' → ')}`,
        'Break the circle: let one of these plugins work without the other, or look the other up when a request arrives',
      );
    for (const name of plugin.requires ?? []) {
      const needed = byName.get(name);
      if (needed === undefined)
        mistake(
          entry,
          `it requires the plugin "${name}", which is not registered: ${[...names, name].join(' → ')}`,
          `Register that plugin with app.register(…), or remove the plugin ${plugin.name}`,
        );
      else visit(needed, names);
    }
    for (const name of plugin.after ?? []) {
      const earlier = byName.get(name);
      if (earlier !== undefined) visit(earlier, names);
    }
    sorted.add(plugin);
  };
  const entries = [...byName.values()];
  for (const entry of entries) if (entry.plugin.startsFirst === true) visit(entry, []);
  for (const entry of entries) visit(entry, []);
  return [...sorted];
}

/** Replaces the values of a plugin in the state of the application. Returns a function that restores them. */
export type Replace = () => () => void;

/** Starts and stops the plugins of one application. */
export class PluginRun {
  readonly #plugins: () => readonly Plugin[];
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #started = new Set<Plugin>();
  /** Plugins that test clients replace, with functions that restore their values. */
  readonly #replaced = new Map<Plugin, () => void>();
  #starting: Plugin | undefined;
  #turn: Promise<void> = Promise.resolve();

  /** `plugins` returns the plugins in the order in which they start. */
  constructor(plugins: () => readonly Plugin[], log: Logger, clock: Clock) {
    this.#plugins = plugins;
    this.#log = log;
    this.#clock = clock;
  }

  /** The plugin that is starting. */
  get starting(): Plugin | undefined {
    return this.#starting;
  }

  /** If one fails, the started plugins are stopped in reverse order, and its error is thrown. */
  async start(signal: AbortSignal, replaced: ReadonlyMap<Plugin, Replace>): Promise<void> {
    // before the start, because another plugin may read a value while it starts
    for (const [plugin, replace] of replaced) this.#replaced.set(plugin, replace());
    try {
      await this.#start(
        this.#plugins().filter((plugin) => !replaced.has(plugin)),
        signal,
      );
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Starts the plugins that an earlier test client replaces and this one does not. */
  startNeeded(signal: AbortSignal, replaced: ReadonlyMap<Plugin, Replace>): Promise<void> {
    const start = (): Promise<void> =>
      this.#start(
        this.#plugins().filter((plugin) => this.#replaced.has(plugin) && !replaced.has(plugin)),
        signal,
      );
    return (this.#turn = this.#turn.then(start, start));
  }

  /** If one fails or does not end, its error is logged, and the others are still stopped. */
  async stop(): Promise<void> {
    // a plugin that is starting for a later test client must be stopped, too
    await this.#turn.catch(ignore);
    const started = this.#plugins().filter((plugin) => this.#started.has(plugin));
    this.#started.clear();
    this.#starting = undefined;
    for (const plugin of started.toReversed()) {
      try {
        await stopped(this.#clock, () => plugin.shutdown?.());
      } catch (error) {
        this.#log.error('plugin_shutdown_failed', error, { plugin: plugin.name });
      }
    }
    for (const restore of this.#replaced.values()) restore();
    this.#replaced.clear();
  }

  async #start(plugins: readonly Plugin[], signal: AbortSignal): Promise<void> {
    for (const plugin of plugins) {
      signal.throwIfAborted();
      this.#starting = plugin;
      await plugin.startup?.(signal);
      this.#starting = undefined;
      this.#started.add(plugin);
      this.#replaced.get(plugin)?.();
      this.#replaced.delete(plugin);
    }
  }
}

/** Class whose members a replacement needs. */
type Like<T = unknown> = abstract new (...args: never[]) => T;

export interface ProvidedValue {
  readonly plugin: Plugin;
  readonly read: () => unknown;
  readonly like: Like | undefined;
}

type ProvidedValues = ReadonlyMap<StateKey<unknown>, ProvidedValue>;

type PlainSource = (context: Context) => unknown;

/** The replacements of one test client. */
export class Replacements {
  /** All replaced dependencies of the client. A replacement of a plugin's value is checked when it is used. */
  readonly overrides: ReadonlyMap<unknown, DependencySource>;
  /** State of the client's requests, with the replaced values. */
  readonly state: StateMap;
  readonly #provided: ProvidedValues;
  readonly #values = new Map<StateKey<unknown>, PlainSource>();
  /** Keys whose replacement is being called. */
  readonly #called = new Set<StateKey<unknown>>();

  constructor(overrides: ReadonlyMap<unknown, DependencySource>, provided: ProvidedValues, state: StateMap) {
    this.#provided = provided;
    const checked = new Map(overrides);
    for (const [key, { like }] of provided) {
      const source = overrides.get(key);
      // only a plain function gives its value without a request
      if (source === undefined || !readSource(source).isPlain || isClass(source)) continue;
      const plain = checkedSource(key.name, source as PlainSource, like);
      checked.set(key, plain);
      this.#values.set(key, plain);
    }
    this.overrides = checked;
    this.state = this.#values.size === 0 ? state : new ReplacedState(state, (key) => this.#reader(key));
  }

  /**
   * Returns the plugins that the client does not need, each with a function that puts the replacements into
   * the state of the application. `sources` has the dependencies of the client. `isNeeded` returns whether
   * the application needs a plugin for more than its values.
   */
  unneeded(
    sources: ReadonlySet<unknown>,
    isNeeded: (plugin: Plugin) => boolean,
    replace: (plugin: Plugin, values: ReadonlyMap<StateKey<unknown>, () => unknown>) => () => void,
  ): ReadonlyMap<Plugin, Replace> {
    const unneeded = new Map<Plugin, Replace>();
    for (const [key, { plugin }] of this.#provided) {
      if (!this.#values.has(key)) continue;
      const keys = [...this.#provided].filter(([, value]) => value.plugin === plugin).map(([own]) => own);
      if (isNeeded(plugin) || keys.some((own) => sources.has(own))) continue;
      const values = keys.flatMap((own) => {
        const read = this.#reader(own);
        return read === undefined ? [] : [[own, read] as const];
      });
      unneeded.set(plugin, () => replace(plugin, new Map(values)));
    }
    return unneeded;
  }

  /** Returns a function that calls the replacement outside of a dependency; undefined if there is none. */
  #reader(key: StateKey<unknown>): (() => unknown) | undefined {
    const source = this.#values.get(key);
    if (source === undefined) return undefined;
    return () => {
      const refuse = (why: string): SvcError => new SvcError('E_REPLACEMENT', [key.name, why]);
      if (this.#called.has(key)) throw refuse('its function reads the value that it replaces');
      this.#called.add(key);
      try {
        const value = source(new StartContext(this.state));
        if (isThenable(value) || isGenerator(value))
          throw refuse(
            'its function returns a promise or a generator, but the value is read without Depends()',
          );
        return value;
      } finally {
        this.#called.delete(key);
      }
    };
  }
}

class ReplacedState implements StateMap {
  readonly #app: StateMap;
  readonly #reader: (key: StateKey<unknown>) => (() => unknown) | undefined;

  constructor(app: StateMap, reader: (key: StateKey<unknown>) => (() => unknown) | undefined) {
    this.#app = app;
    this.#reader = reader;
  }

  get<T>(key: StateKey<T>): T {
    const read = this.#reader(key);
    return read === undefined ? this.#app.get(key) : (read() as T);
  }

  set<T>(key: StateKey<T>, value: T): void {
    this.#app.set(key, value);
  }

  has(key: StateKey<unknown>): boolean {
    return this.#reader(key) !== undefined || this.#app.has(key);
  }
}

function checkedSource(name: string, source: PlainSource, like: Like | undefined): PlainSource {
  if (like === undefined) return source;
  return (context) => whenReady(source(context), (value) => checkedValue(name, value, like));
}

/**
 * Returns an object that throws when a member is read that `like` has and the replacement lacks. Instances of
 * classes are returned as they are, because the methods of a proxy cannot read private members.
 */
function checkedValue(name: string, value: unknown, like: Like): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  const needed = like.prototype as object;
  return new Proxy(value, {
    get(target, member, receiver) {
      if (typeof member === 'string' && member in needed && !(member in target))
        throw new SvcError('E_REPLACEMENT', [name, `it has no member "${member}"`]);
      return Reflect.get(target, member, receiver) as unknown;
    },
  });
}

/**
 * Time in milliseconds in which a step of the shutdown must end. A plugin may have a shorter limit of its
 * own: a database waits ten seconds for running transactions.
 */
export const STEP_MS = 12_000;

/** Runs a step of the shutdown. Rejects if the step does not end in time, so that the other steps can run. */
export async function stopped(clock: Clock, stop: () => unknown): Promise<void> {
  await within(clock, STEP_MS, Promise.try(stop), () => {
    throw new Error(`The step did not end within ${STEP_MS} ms, so the shutdown goes on`);
  });
}
