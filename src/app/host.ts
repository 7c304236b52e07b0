/**
 * Plugins of one application: each registers once, after the plugins that it requires, with a `Host` of its
 * own.
 */
import { SvcError } from '../base/errors.ts';
import { declaredHere } from '../base/findings.ts';
import { thrown } from '../routing/compile.ts';
import { sortPlugins } from '../routing/plugin.ts';
import type { Clock } from '../base/clock.ts';
import type { Config, Env } from '../base/config.ts';
import type { Finding, Place } from '../base/findings.ts';
import type {
  ContributedMigration,
  Host,
  Middleware,
  Plugin,
  Rule,
  RouterLike,
  Services,
} from '../http/contracts.ts';
import type { MiddlewareFunction } from '../http/pipeline.ts';
import type { AppState } from '../http/state.ts';
import type { Logger } from '../observability/log.ts';
import type { MetricsRegistry } from '../observability/metrics.ts';
import type { Operations } from '../operations/operations.ts';
import type { RegisteredPlugin } from '../routing/plugin.ts';

/** The parts of an application that plugins may use. */
export interface HostDeps {
  /** Environment and clock, read each time: a test may replace them before the application compiles. */
  readonly conditions: { readonly env: Env; readonly clock: Clock };
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  readonly state: AppState;
  readonly operations: Operations;
  readonly routes: RouterLike;
  use(middleware: Middleware | MiddlewareFunction, where: 'inside' | 'outside'): void;
  addRule(rule: Rule): void;
}

/** The plugins of one application. */
export class Plugins {
  readonly #deps: HostDeps;
  readonly #registered: RegisteredPlugin[] = [];
  readonly #migrations: ContributedMigration[] = [];
  #sorted: readonly Plugin[] | undefined;

  constructor(deps: HostDeps) {
    this.#deps = deps;
  }

  /** Plugins in the order in which they start; empty before registerAll(). */
  get sorted(): readonly Plugin[] {
    return this.#sorted ?? [];
  }

  /** Adds a plugin. @throws SvcError `E_APP_FROZEN` once the plugins have registered */
  add(plugin: Plugin): void {
    if (this.#sorted !== undefined)
      throw new SvcError('E_APP_FROZEN', [`register the plugin "${plugin.name}"`]);
    this.#registered.push({ plugin, place: declaredHere().place });
  }

  placeOf(plugin: Plugin): Place | undefined {
    return this.#registered.find((registered) => registered.plugin === plugin)?.place;
  }

  placeOfName(name: string): Place | undefined {
    return this.#registered.find(({ plugin }) => plugin.name === name)?.place;
  }

  /**
   * Sorts the plugins, and lets each declare its routes, middleware and rules. Each registers only once.
   * Returns findings about the order; while there are any, they are determined again at each call. A
   * `register()` that throws is reported to `report`.
   */
  registerAll(report: (finding: Finding) => void): readonly Finding[] {
    if (this.#sorted !== undefined) return [];
    const findings: Finding[] = [];
    const sorted = sortPlugins(this.#registered, (finding) => findings.push(finding));
    if (findings.length > 0) return findings;
    this.#sorted = sorted;
    for (const plugin of sorted) {
      try {
        plugin.register(this.#hostFor(plugin));
      } catch (error) {
        report({
          rule: 'SVC114',
          severity: 'error',
          subject: `plugin ${plugin.name}`,
          place: this.placeOf(plugin),
          message: `register() of the plugin threw ${thrown(error)}`,
          remedy:
            error instanceof SvcError
              ? error.remedy
              : 'Fix the plugin, or the options that it was created with',
        });
      }
    }
    return [];
  }

  #hostFor(plugin: Plugin): Host {
    const { conditions, config, log, metrics, state, operations, routes, use, addRule } = this.#deps;
    return {
      get env() {
        return conditions.env;
      },
      get clock() {
        return conditions.clock;
      },
      log: log.child(plugin.name),
      metrics,
      routes,
      option: (key, fallback, cast) =>
        config.get(
          key,
          fallback as never,
          cast === undefined ? (undefined as never) : { cast: cast as never },
        ) as never, // the overloads of get() differ by the kind
      use: (middleware, where = 'inside') => use(middleware, where),
      get: (key) => state.get(key),
      has: (key) => state.has(key),
      provide: (key, read) => state.provide(key, read),
      readiness: (name, probe) => operations.probe(name, probe),
      rule: addRule,
      migration: (id, sql) => void this.#migrations.push({ plugin: plugin.name, id, sql }),
      migrations: this.#migrations,
    };
  }
}

/** Services for middleware and plugins, read each time: a test client may replace environment and clock. */
export function servicesOf(app: Services): Services {
  return {
    get env() {
      return app.env;
    },
    get clock() {
      return app.clock;
    },
    get log() {
      return app.log;
    },
    get metrics() {
      return app.metrics;
    },
    get config() {
      return app.config;
    },
  };
}
