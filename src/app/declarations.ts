/**
 * The declarations of an application except its routes: middleware, exception handlers, plugins, rules and
 * MCP tools. This file compiles them together with the routes, and reports findings.
 *
 * build() compiles the declarations. examine() runs the rules of `svc check` on the result, and returns a
 * report.
 */
import { SvcError } from '../base/errors.ts';
import { declaredHere } from '../base/findings.ts';
import { ignore } from '../base/promises.ts';
import { checkedRule, examine, makeReport } from '../check/check.ts';
import { APPLICATION_RULES } from '../check/rules/application.ts';
import { isAbsent, neededSecrets } from '../check/rules/secrets.ts';
import { passesAtStart } from '../check/rules/graph.ts';
import { ErrorRenderer, ExceptionHandlers, asMiddleware } from '../http/pipeline.ts';
import { compileApplication, thrown } from '../routing/compile.ts';
import { metricsRoutes, operationRoutes } from './operation-routes.ts';
import { readExceptionHandler } from '../routing/declared-responses.ts';
import { Replacements, sortPlugins } from '../routing/plugin.ts';
import { Router, type Routes } from '../routing/route.ts';
import type { FaultCode } from '../base/faults.ts';
import type { Declared, Finding, Report, Place } from '../base/findings.ts';
import type { ApplicationView, CoreRule, Examination } from '../check/check.ts';
import type {
  Middleware,
  MiddlewareFunction,
  Rule,
  Services,
  ContributedMigration,
  StateKey,
  StateMap,
} from '../http/contracts.ts';
import type { ExceptionArguments } from '../routing/declared-responses.ts';
import type { ErrorClass } from '../http/pipeline.ts';
import type { Counter, MetricsRegistry } from '../observability/metrics.ts';
import type { Toolbox } from '../mcp/mcp.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { BackgroundRunner } from '../routing/background.ts';
import type { Compilation, CompiledApplication } from '../routing/compile.ts';
import type { DependencySource } from '../routing/di.ts';
import type { SocketHub } from '../routing/websocket.ts';
import type { Clock } from '../base/clock.ts';
import type { Config, Env } from '../base/config.ts';
import type { AppState } from '../http/state.ts';
import type { Logger } from '../observability/log.ts';
import type { Operations } from '../operations/operations.ts';
import type { Host, Plugin, ProvidedValue, RegisteredPlugin, Replace } from '../routing/plugin.ts';

/** Settings of the compilation for a test client. */
export interface CompileVariant {
  /** Called with each error that no exception handler handled. */
  readonly onUnhandled?: ((error: unknown, requestId: string) => void) | undefined;
  /**
   * Called with each error of a clean-up or a background task. `requestId` is empty for clean-ups of
   * dependencies of scope `app`.
   */
  readonly onFailedAfter?: ((error: unknown, requestId: string) => void) | undefined;
  /** Replaced dependencies: maps each original function or class to its replacement. */
  readonly overrides?: ReadonlyMap<unknown, DependencySource> | undefined;
  /** State of the requests. Default: the state of the application. */
  readonly state?: StateMap | undefined;
}

/** The services and declarations that the compilation of an application reads. */
interface DeclarationDeps extends Omit<HostDeps, 'use' | 'addRule'> {
  readonly openapi: OpenApiOptions;
  readonly services: Services;
  readonly tasks: BackgroundRunner;
  readonly errors: Counter;
  readonly sockets: SocketHub;
  /** Whether error responses with status 5xx contain stack traces. */
  isDebug(): boolean;
  assertNotFrozen(what: string): void;
}

/** Middleware, exception handlers, plugins, rules and MCP tools of one application. */
export class Declarations {
  readonly middleware: Middleware[] = [];
  readonly handlers: ExceptionHandlers = new ExceptionHandlers();
  /** Findings about exception handlers and plugins, in the order in which they were detected. */
  readonly findings: Finding[] = [];
  readonly plugins: Plugins;
  /** MCP tools, prompts and resources that are declared as functions; undefined if there are none. */
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

  /** Rules that judge the compiled application: first those of the framework, then those that addRule() added. */
  get rules(): readonly (CoreRule | Rule)[] {
    return [...APPLICATION_RULES, ...this.#rules];
  }

  addMiddleware(middleware: Middleware | MiddlewareFunction, where: 'inside' | 'outside' = 'inside'): void {
    this.#deps.assertNotFrozen('middleware');
    const layer = asMiddleware(middleware);
    if (where === 'inside') this.middleware.push(layer);
    else this.middleware.unshift(layer);
    this.#middlewarePlaces.set(layer, declaredHere());
  }

  /** Adds a rule of the application or of a plugin to `svc check`. */
  addRule(rule: Rule, options?: { readonly mayExtend: boolean }): void {
    this.#deps.assertNotFrozen(`the check "${rule.id}"`);
    this.#rules.push(checkedRule(rule, this.rules, options));
  }

  /** Adds an exception handler. A handler that the class already has is replaced, and `svc check` reports this. */
  addExceptionHandler<E>(errorClass: ErrorClass<E>, rest: ExceptionArguments<E>): void {
    const { handler, plan, spec } = readExceptionHandler(errorClass, rest);
    if (this.handlers.add(errorClass, handler, plan, spec)) return;
    this.findings.push({
      rule: 'SVC123',
      severity: 'info',
      subject: `exception handler of ${errorClass.name}`,
      place: declaredHere().place,
      message:
        'the exception class has two handlers: the second handler replaces the first handler, which never runs',
      remedy: 'Register one exception handler for each class',
    });
  }

  /** Each invalid declaration becomes a finding of `svc check`. */
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

  /** Compiles the application. Afterwards, nothing can be added to it. */
  compile(): CompiledApplication {
    const compilation = this.build();
    this.assertMayStart(compilation);
    const compiled = compilation.serve();
    this.toolbox?.freeze();
    return compiled;
  }

  metrics(): CompiledApplication {
    return this.#compileRoutes({ routes: metricsRoutes(this.#deps.operations) }).serve();
  }

  #compileRoutes(
    routes: { routes: Routes; operations?: Routes; tools?: Routes | undefined },
    variant: CompileVariant = {},
    middleware: readonly Middleware[] = [],
    findings: readonly Finding[] = [],
  ): Compilation {
    const { log, errors, services, config, tasks, state, sockets, operations } = this.#deps;
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
        descriptors: operations.descriptors,
        debug: this.#deps.isDebug(),
        onUnhandled: variant.onUnhandled,
        onFailedAfter: variant.onFailedAfter,
      }),
      placeOfMiddleware: (layer) => this.#middlewarePlaces.get(layer)?.place,
      tasks,
      state: variant.state ?? state,
      overrides: variant.overrides ?? new Map(),
      sockets,
    });
  }

  /** Returns the view of the application that the rules of `svc check` and the commands of `svc` read. */
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

  /** Mistakes are not thrown, but become findings. */
  check(): Report {
    try {
      return this.#examine(this.build()).report;
    } catch (error) {
      // if the framework cannot parse one of its own settings, that error becomes the only finding, because
      // nothing else can be checked
      if (!(error instanceof SvcError)) throw error;
      const rule = UNREADABLE_SETTINGS[error.code as FaultCode];
      if (rule === undefined) throw error;
      return makeReport([
        { rule, severity: 'error', subject: 'the settings', message: error.message, remedy: error.remedy },
      ]);
    }
  }

  assertMayStart(compilation: Compilation): void {
    if (this.#hasNoFindings(compilation)) return;
    const { report, refuses } = this.#examine(compilation, this.rules.filter(countsAtStart));
    if (refuses) {
      const { findings } = this.#examine(compilation).report;
      throw new SvcError('E_COMPILE', [report.findings], { findings });
    }
    // Findings that do not prevent a start are not logged, except weak secrets: an attacker who guesses a
    // secret can sign tokens that the application accepts.
    for (const { rule, message, remedy } of report.findings)
      if (rule === 'SVC205') this.#deps.log.warn('secret_weak', { message, remedy });
  }

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

/** Whether findings of this rule may forbid a start. Findings of other rules only make `svc check` fail. */
function countsAtStart({ id, phase }: CoreRule | Rule): boolean {
  return phase === 'graph' || id === 'SVC205';
}

/** Rules of `svc check` for settings that cannot be parsed, by the code of the thrown error. */
const UNREADABLE_SETTINGS: Readonly<Partial<Record<FaultCode, Finding['rule']>>> = {
  E_CONFIG_CAST: 'SVC401',
  E_TRUST_PROXY: 'SVC210',
};

/** The services and functions that a `Host` offers to a plugin. */
interface HostDeps {
  /** Read at each access, because a test client may replace them until the application compiles. */
  readonly conditions: { readonly env: Env; readonly clock: Clock };
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  readonly state: AppState;
  readonly operations: Operations;
  /** Routes of the application, which include the router of each plugin. */
  readonly declaredRoutes: Routes;
  use(middleware: Middleware | MiddlewareFunction, where: 'inside' | 'outside'): void;
  addRule(rule: Rule): void;
}

/** Each plugin registers once, after the plugins that it requires, through a `Host` of its own. */
class Plugins {
  readonly #deps: HostDeps;
  readonly #registered: RegisteredPlugin[] = [];
  readonly #migrations: ContributedMigration[] = [];
  readonly #provided = new Map<StateKey<unknown>, ProvidedValue>();
  /** Plugins that have added middleware. */
  readonly #extending = new Set<Plugin>();
  readonly #routers = new Map<Plugin, Router>();
  /** Plugins whose values a test client replaces, and which are not started. */
  readonly #replaced = new Set<Plugin>();
  #sorted: readonly Plugin[] | undefined;

  constructor(deps: HostDeps) {
    this.#deps = deps;
  }

  /** Plugins in the order in which they start; empty until registerAll() has sorted them. */
  get sorted(): readonly Plugin[] {
    return this.#sorted ?? [];
  }

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
   * Sorts the plugins, and calls `register()` of each plugin once. If they cannot be sorted, returns findings
   * instead, and the next call tries again. Exceptions of `register()` are passed to `report` as findings.
   */
  registerAll(report: (finding: Finding) => void): readonly Finding[] {
    if (this.#sorted !== undefined) return [];
    const findings: Finding[] = [];
    const sorted = sortPlugins(this.#registered, (finding) => findings.push(finding));
    if (findings.length > 0) return findings;
    this.#sorted = sorted;
    for (const plugin of sorted) {
      // SVC205 reports the secret; the plugin could only report it once more
      if (plugin.secrets?.some((key) => isAbsent(this.#deps.config.peek(key))) === true) continue;
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

  /** Returns the replacements of a test client for values that plugins provide. */
  replacements(overrides: ReadonlyMap<unknown, DependencySource>): Replacements {
    return new Replacements(overrides, this.#provided, this.#deps.state);
  }

  /** Returns the plugins that a test client does not need. `sources` has the dependencies of the client. */
  unneeded(replacements: Replacements, sources: ReadonlySet<unknown>): ReadonlyMap<Plugin, Replace> {
    return replacements.unneeded(
      sources,
      (plugin) => this.#extends(plugin) || plugin.isHeld === true,
      (plugin, values) => {
        for (const [key, read] of values) this.#deps.state.provide(key, read);
        this.#replaced.add(plugin);
        return () => {
          for (const [key, { read }] of this.#provided)
            if (values.has(key)) this.#deps.state.provide(key, read);
          this.#replaced.delete(plugin);
        };
      },
    );
  }

  /** Whether a plugin has added middleware or routes. */
  #extends(plugin: Plugin): boolean {
    return this.#extending.has(plugin) || (this.#routers.get(plugin)?.flatten(ignore) ?? []).length > 0;
  }

  #hostFor(plugin: Plugin): Host {
    const { conditions, config, log, metrics, state, operations, declaredRoutes, use, addRule } = this.#deps;
    const routes = new Router();
    declaredRoutes.includeRouter(routes);
    this.#routers.set(plugin, routes);
    return {
      get env() {
        return conditions.env;
      },
      clock: conditions.clock,
      log: log.child(plugin.name),
      metrics,
      routes,
      option: (key, fallback, cast) =>
        // the types are cast, because no overload of get() accepts an optional `cast`
        config.get(
          key,
          fallback as never,
          cast === undefined ? (undefined as never) : { cast: cast as never },
        ) as never,
      use: (middleware, where = 'inside') => {
        this.#extending.add(plugin);
        use(middleware, where);
      },
      get: (key) => state.get(key),
      has: (key) => state.has(key),
      provide: (key, read, like) => {
        this.#provided.set(key, { plugin, read, like });
        state.provide(key, read);
      },
      readiness: (name, probe) =>
        operations.probe(name, (signal) => (this.#replaced.has(plugin) ? undefined : probe(signal))),
      rule: addRule,
      migration: (id, sql) => void this.#migrations.push({ plugin: plugin.name, id, sql }),
      migrations: this.#migrations,
    };
  }
}

/** The environment is read at each access, because a test client may replace it. */
export function servicesOf(app: Services): Services {
  const { clock, log, metrics, config, tracer } = app;
  return {
    get env() {
      return app.env;
    },
    clock,
    log,
    metrics,
    config,
    tracer,
  };
}
