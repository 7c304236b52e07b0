/**
 * Everything that an application declares besides its routes, and the way from there to a compilation and its findings.
 *
 *   middleware, exception handlers, plugins, rules, tools  ->  build()  ->  Compilation  ->  examine()  ->  Report
 */
import { SvcError } from '../base/errors.ts';
import { declaredHere } from '../base/findings.ts';
import { checkedRule, examine, makeReport } from '../check/check.ts';
import { coreRules } from '../check/rules.ts';
import { neededSecrets } from '../check/secrets.ts';
import { passesAtStart } from '../check/graph-rules.ts';
import { ErrorRenderer, ExceptionHandlers, asMiddleware } from '../http/pipeline.ts';
import { compileApplication } from '../routing/compile.ts';
import { Plugins } from './host.ts';
import { metricsRoutes, operationRoutes } from './operation-routes.ts';
import type { FaultCode } from '../base/faults.ts';
import type { Declared, Finding, Report } from '../base/findings.ts';
import type { ApplicationView, CoreRule, Examination } from '../check/check.ts';
import type { Middleware, Plugin, Rule, Services } from '../http/contracts.ts';
import { readExceptionHandler } from '../routing/exceptions.ts';
import type { ExceptionArguments } from '../routing/exceptions.ts';
import type { MiddlewareFunction, ErrorClass } from '../http/pipeline.ts';
import type { Counter } from '../observability/metrics.ts';
import type { Toolbox } from '../mcp/mcp.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { BackgroundRunner } from '../routing/background.ts';
import type { Compilation, CompiledApplication } from '../routing/compile.ts';
import type { DependencySource } from '../routing/di.ts';
import type { Routes } from '../routing/route.ts';
import type { SocketHub } from '../routing/websocket.ts';
import type { HostDeps } from './host.ts';

/** How a compilation differs from the application's own: for test clients. */
export interface CompileVariant {
  /** Called with every error that nothing handled. */
  readonly onUnhandled?: ((error: unknown, requestId: string) => void) | undefined;
  /** Called with every error of a clean-up or a background task; the id is empty where it belongs to no request. */
  readonly onFailedAfter?: ((error: unknown, requestId: string) => void) | undefined;
  /** Replacements of dependency sources. */
  readonly overrides?: ReadonlyMap<unknown, DependencySource> | undefined;
}

/** The parts of an application that compiling needs. */
interface DeclarationDeps extends Omit<HostDeps, 'use' | 'addRule'> {
  readonly declaredRoutes: Routes;
  readonly openapi: OpenApiOptions;
  readonly services: Services;
  readonly tasks: BackgroundRunner;
  readonly errors: Counter;
  readonly sockets: SocketHub;
  /** Whether replies of 5xx show stack traces. */
  isDebug(): boolean;
  /** Whether declared JSON bodies need a Content-Type. */
  isContentTypeStrict(): boolean;
  assertNotFrozen(action: string): void;
}

/** The declarations of one application. */
export class Declarations {
  readonly middleware: Middleware[] = [];
  readonly handlers: ExceptionHandlers = new ExceptionHandlers();
  /** Findings of declarations and plugins, in the order of their discovery. */
  readonly findings: Finding[] = [];
  readonly plugins: Plugins;
  /** Undefined while the application has no tools and prompts but its routes. */
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

  /** Every rule: those of the package, then added ones. */
  get rules(): readonly (CoreRule | Rule)[] {
    return [...coreRules(), ...this.#rules];
  }

  /** @throws SvcError `E_MIDDLEWARE`, `E_APP_FROZEN` */
  addMiddleware(middleware: Middleware | MiddlewareFunction, where: 'inside' | 'outside' = 'inside'): void {
    this.#deps.assertNotFrozen('use a middleware');
    const layer = asMiddleware(middleware);
    if (where === 'inside') this.middleware.push(layer);
    else this.middleware.unshift(layer);
    this.#middlewarePlaces.set(layer, declaredHere());
  }

  /** @throws SvcError `E_RULE`, `E_APP_FROZEN` */
  addRule(rule: Rule, options?: { readonly mayExtend: boolean }): void {
    this.#deps.assertNotFrozen(`add the check "${rule.id}"`);
    this.#rules.push(checkedRule(rule, this.rules, options));
  }

  /** Adds an exception handler; one that takes the place of another is a finding. @throws SvcError `E_EXCEPTION_HANDLER` */
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

  /** Compiles as much as can be. Plugins register first. */
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

  /** Compiles what serves; nothing can be declared any more. @throws SvcError `E_COMPILE` with every finding that prevents a start */
  compile(): CompiledApplication {
    const compilation = this.build();
    this.assertMayStart(compilation);
    const compiled = compilation.serve();
    this.toolbox?.freeze();
    return compiled;
  }

  /** Compiles the metrics alone, for a port of their own. */
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

  /** The application as checks and commands see it. */
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

  /** Every finding that needs no start. Never throws for a mistake of the application. */
  check(): Report {
    try {
      return this.#examine(this.build()).report;
    } catch (error) {
      // a setting of the framework is unreadable: nothing else can be judged
      if (!(error instanceof SvcError)) throw error;
      const rule = UNREADABLE_SETTINGS[error.code as FaultCode];
      if (rule === undefined) throw error;
      return makeReport([
        { rule, severity: 'error', subject: 'the settings', message: error.message, remedy: error.remedy },
      ]);
    }
  }

  /** @throws SvcError `E_COMPILE` with all findings of check(), when one of them forbids a start */
  assertMayStart(compilation: Compilation): void {
    if (this.#hasNoFindings(compilation)) return;
    const { report, refuses } = this.#examine(compilation, this.rules.filter(countsAtStart));
    if (refuses) {
      const { findings } = this.#examine(compilation).report;
      throw new SvcError('E_COMPILE', [findings], { findings });
    }
    // other findings can wait for the next deployment; a secret that can be guessed protects nothing from now on
    for (const { rule, message, remedy } of report.findings)
      if (rule === 'SVC205') this.#deps.log.warn('secret_weak', { message, remedy });
  }

  /** Whether no rule that counts at a start finds anything. */
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

/** Rules that may forbid a start; other rules only fail `svc check`. */
function countsAtStart({ id, phase }: CoreRule | Rule): boolean {
  return phase === 'graph' || id === 'SVC205';
}

/** Rules of settings that the framework cannot read. */
const UNREADABLE_SETTINGS: Readonly<Partial<Record<FaultCode, Finding['rule']>>> = {
  E_CONFIG_CAST: 'SVC401',
  E_TRUST_PROXY: 'SVC210',
};
