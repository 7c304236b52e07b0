/**
 * Declarations of an application in addition to its routes. Compiles them together with the routes, and
 * reports findings.
 *
 * Steps:
 *   middleware, exception handlers, plugins, rules, tools  ->  build()  ->  Compilation  ->  examine()  ->  Report
 */
import { SvcError } from '../base/errors.ts';
import { declaredHere } from '../base/findings.ts';
import { checkedRule, examine, makeReport } from '../check/check.ts';
import { coreRules } from '../check/rules.ts';
import { neededSecrets } from '../check/secrets.ts';
import { passesAtStart } from '../check/graph-rules.ts';
import { ErrorRenderer, ExceptionHandlers, asMiddleware } from '../http/pipeline.ts';
import { compileApplication, thrown } from '../routing/compile.ts';
import { metricsRoutes, operationRoutes } from './operation-routes.ts';
import { readExceptionHandler } from '../routing/replies.ts';
import { sortPlugins } from '../routing/plugin.ts';
import type { FaultCode } from '../base/faults.ts';
import type { Declared, Finding, Report, Place } from '../base/findings.ts';
import type { ApplicationView, CoreRule, Examination } from '../check/check.ts';
import type {
  Middleware,
  Plugin,
  Rule,
  Services,
  ContributedMigration,
  Host,
  RouterLike,
} from '../http/contracts.ts';
import type { ExceptionArguments } from '../routing/replies.ts';
import type { MiddlewareFunction, ErrorClass } from '../http/pipeline.ts';
import type { Counter, MetricsRegistry } from '../observability/metrics.ts';
import type { Toolbox } from '../mcp/mcp.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { BackgroundRunner } from '../routing/background.ts';
import type { Compilation, CompiledApplication } from '../routing/compile.ts';
import type { DependencySource } from '../routing/di.ts';
import type { Routes } from '../routing/route.ts';
import type { SocketHub } from '../routing/websocket.ts';
import type { Clock } from '../base/clock.ts';
import type { Config, Env } from '../base/config.ts';
import type { AppState } from '../http/state.ts';
import type { Logger } from '../observability/log.ts';
import type { Operations } from '../operations/operations.ts';
import type { RegisteredPlugin } from '../routing/plugin.ts';

/** Differences between a compilation for a test client and that of the application. */
export interface CompileVariant {
  /** Called with every unhandled error. */
  readonly onUnhandled?: ((error: unknown, requestId: string) => void) | undefined;
  /**
   * Called with every error of a clean-up or a background task. The id is empty if the task belongs to no
   * request.
   */
  readonly onFailedAfter?: ((error: unknown, requestId: string) => void) | undefined;
  /** Replacements of dependencies: the original function or class, and its replacement. */
  readonly overrides?: ReadonlyMap<unknown, DependencySource> | undefined;
}

/** The objects that the compilation of an application needs. */
interface DeclarationDeps extends Omit<HostDeps, 'use' | 'addRule'> {
  readonly declaredRoutes: Routes;
  readonly openapi: OpenApiOptions;
  readonly services: Services;
  readonly tasks: BackgroundRunner;
  readonly errors: Counter;
  readonly sockets: SocketHub;
  /** Whether responses with 5xx contain stack traces. */
  isDebug(): boolean;
  /** Whether declared JSON bodies need a Content-Type. */
  isContentTypeStrict(): boolean;
  assertNotFrozen(what: string): void;
}

/** The declarations of one application. */
export class Declarations {
  readonly middleware: Middleware[] = [];
  readonly handlers: ExceptionHandlers = new ExceptionHandlers();
  /** Findings of declarations and plugins, in the order of their discovery. */
  readonly findings: Finding[] = [];
  readonly plugins: Plugins;
  /** Declared MCP tools, prompts and resources; undefined if there are only routes. */
  toolbox: Toolbox | undefined;
  readonly #deps: DeclarationDeps;
  readonly #declared: Declared = declaredHere();
  readonly #middlewarePlaces = new Map<Middleware, Declared>();
  readonly #rules: Rule[] = [];

  constructor(deps: DeclarationDeps) {
    this.#deps = deps;
    this.plugins = new Plugins({
      ...deps,
      use: (middleware, where) => this.addMiddleware(middleware, where),
      addRule: (rule) => this.addRule(rule, { mayExtend: true }),
    });
  }

  /** All rules: those of the framework first, then added ones. */
  get rules(): readonly (CoreRule | Rule)[] {
    return [...coreRules(), ...this.#rules];
  }

  /** Adds middleware. @throws SvcError `E_MIDDLEWARE`, `E_APP_FROZEN` */
  addMiddleware(middleware: Middleware | MiddlewareFunction, where: 'inside' | 'outside' = 'inside'): void {
    this.#deps.assertNotFrozen('middleware');
    const layer = asMiddleware(middleware);
    if (where === 'inside') this.middleware.push(layer);
    else this.middleware.unshift(layer);
    this.#middlewarePlaces.set(layer, declaredHere());
  }

  /** Adds a rule. @throws SvcError `E_RULE`, `E_APP_FROZEN` */
  addRule(rule: Rule, options?: { readonly mayExtend: boolean }): void {
    this.#deps.assertNotFrozen(`the check "${rule.id}"`);
    this.#rules.push(checkedRule(rule, this.rules, options));
  }

  /**
   * Adds an exception handler. A second handler of the same class never runs, and `svc check` reports it.
   * @throws SvcError `E_EXCEPTION_HANDLER`
   */
  addExceptionHandler<E>(errorClass: ErrorClass<E>, rest: ExceptionArguments<E>): void {
    const { handler, plan, spec } = readExceptionHandler(errorClass, rest);
    if (this.handlers.add(errorClass, handler, plan, spec)) return;
    this.findings.push({
      rule: 'SVC123',
      severity: 'info',
      subject: `exception handler of ${errorClass.name}`,
      place: declaredHere().place,
      message: 'another exception handler for this class is registered, so this one never runs',
      remedy: 'Register one exception handler for each class',
    });
  }

  /** Registers the plugins, and compiles as much as possible despite mistakes. */
  build(variant: CompileVariant = {}): Compilation {
    const { declaredRoutes, operations, config, conditions, openapi } = this.#deps;
    const found = this.plugins.registerAll((finding) => this.findings.push(finding));
    const hasDocs = config.get('enableDocs', conditions.env !== 'production');
    const compilation = this.#compileRoutes(
      {
        routes: declaredRoutes,
        operations: operationRoutes(operations, hasDocs ? openapi : undefined, () => compilation.view),
        tools: this.toolbox,
      },
      variant,
      this.middleware,
      [...found, ...this.findings],
    );
    return compilation;
  }

  /**
   * Compiles the application. After that nothing can be declared.
   * @throws SvcError `E_COMPILE` with every finding that prevents a start
   */
  compile(): CompiledApplication {
    const compilation = this.build();
    this.assertMayStart(compilation);
    const compiled = compilation.serve();
    this.toolbox?.freeze();
    return compiled;
  }

  /** Compiles only the route of the metrics, for a port of its own. */
  metrics(): CompiledApplication {
    return this.#compileRoutes({ routes: metricsRoutes(this.#deps.operations) }).serve();
  }

  /** Compiles routes with the exception handlers and plugins of the application, inside the given middleware. */
  #compileRoutes(
    routes: { routes: Routes; operations?: Routes; tools?: Routes | undefined },
    variant: CompileVariant = {},
    middleware: readonly Middleware[] = [],
    findings: readonly Finding[] = [],
  ): Compilation {
    const { log, errors, services, config, tasks, state, sockets } = this.#deps;
    return compileApplication({
      ...routes,
      middleware,
      plugins: this.plugins.sorted,
      findings,
      services,
      config: (key) => config.peek(key),
      errors: new ErrorRenderer({
        handlers: [this.handlers],
        log,
        errors,
        debug: this.#deps.isDebug(),
        onUnhandled: variant.onUnhandled,
        onFailedAfter: variant.onFailedAfter,
      }),
      placeOfMiddleware: (layer) => this.#middlewarePlaces.get(layer)?.place,
      tasks,
      state,
      strictContentType: this.#deps.isContentTypeStrict(),
      overrides: variant.overrides ?? new Map(),
      sockets,
    });
  }

  /** Returns the application as rules and commands see it. */
  viewOf({ view }: Compilation): ApplicationView {
    const { operations, config, conditions } = this.#deps;
    const declared = this.#declared;
    const placeOfPlugin = (plugin: Plugin): ReturnType<Plugins['placeOf']> => this.plugins.placeOf(plugin);
    return {
      ...view,
      get place() {
        return declared.place;
      },
      placeOfMiddleware: (layer) => this.#middlewarePlaces.get(layer)?.place,
      placeOfPlugin: (name) => this.plugins.placeOfName(name),
      metricsGuard: operations.guard,
      hasPublicDocs: operations.hasPublicDocs,
      settings: config,
      nowMs: conditions.clock.nowMs(),
      nodeVersion: process.versions.node,
      get secrets() {
        return neededSecrets(view, placeOfPlugin);
      },
    };
  }

  /**
   * Returns every finding that can be made without a start. A mistake of the application becomes a finding,
   * and is not thrown.
   */
  check(): Report {
    try {
      return this.#examine(this.build()).report;
    } catch (error) {
      // a setting of the framework cannot be parsed, so nothing else can be checked
      if (!(error instanceof SvcError)) throw error;
      const rule = UNREADABLE_SETTINGS[error.code as FaultCode];
      if (rule === undefined) throw error;
      return makeReport([
        { rule, severity: 'error', subject: 'the settings', message: error.message, remedy: error.remedy },
      ]);
    }
  }

  /**
   * Throws if a finding forbids the start of the application.
   * @throws SvcError `E_COMPILE` with all findings of check(), if one of them forbids a start
   */
  assertMayStart(compilation: Compilation): void {
    if (this.#hasNoFindings(compilation)) return;
    const { report, refuses } = this.#examine(compilation, this.rules.filter(countsAtStart));
    if (refuses) {
      const { findings } = this.#examine(compilation).report;
      throw new SvcError('E_COMPILE', [findings], { findings });
    }
    // only this finding is logged at a start, because a secret that can be guessed protects nothing
    for (const { rule, message, remedy } of report.findings)
      if (rule === 'SVC205') this.#deps.log.warn('secret_weak', { message, remedy });
  }

  /** Whether no rule that may forbid a start has a finding. */
  #hasNoFindings(compilation: Compilation): boolean {
    return (
      compilation.findings.length === 0 &&
      !this.#rules.some(countsAtStart) &&
      passesAtStart(this.viewOf(compilation))
    );
  }

  #examine(compilation: Compilation, rules: readonly (CoreRule | Rule)[] = this.rules): Examination {
    return examine(this.viewOf(compilation), compilation.findings, rules);
  }
}

/** Whether a rule may forbid a start; other rules only make `svc check` fail. */
function countsAtStart({ id, phase }: CoreRule | Rule): boolean {
  return phase === 'graph' || id === 'SVC205';
}

/** Rules for settings that the framework cannot parse, by error code. */
const UNREADABLE_SETTINGS: Readonly<Partial<Record<FaultCode, Finding['rule']>>> = {
  E_CONFIG_CAST: 'SVC401',
  E_TRUST_PROXY: 'SVC210',
};

/*
 * Plugins of one application: each registers once, after the plugins that it requires, and gets a `Host` of
 * its own.
 */

/** The parts of an application that plugins may use. */
interface HostDeps {
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
class Plugins {
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
    if (this.#sorted !== undefined) throw new SvcError('E_APP_FROZEN', [`the plugin "${plugin.name}"`]);
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
   * Returns findings about the order. If there are any, no plugin registers, and the next call sorts the
   * plugins again. A `register()` that throws is reported to `report`.
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
              : 'Correct the plugin, or the options that the program passes to it',
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
        ) as never, // the cast is needed, because the overloads of get() do not allow a union of their types
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
