/**
 * Follows values through the sources of an application: from the inputs of its handlers through statements,
 * branches and calls. Nothing of the application runs. Listeners receive every call with the values of its
 * arguments, and every assignment.
 */
import { Invocation } from './invocation.ts';
import { anyError, inputValue, keyValue, requestValue } from './inputs.ts';
import { Path } from './path.ts';
import { awaited, promiseIn } from './promises.ts';
import { isRouter, parametersOf, userValue } from './ours.ts';
import { isGuard, isList } from './calls.ts';
import { methodOf } from '../reader/nodes.ts';
import { GUARDS, PRINCIPAL } from './marks.ts';
import * as values from './value.ts';
import type { Project, SourceModule } from '../reader/modules.ts';
import type { Call, Fn } from '../reader/nodes.ts';
import type { Called, ValueListeners } from './calls.ts';
import type { Functions, RouteCall } from './functions.ts';
import type { Parameter } from './ours.ts';
import type { Closure, Declaration, Value } from './value.ts';

const { KNOWN } = values;
const ERROR: Value = { texts: KNOWN.texts, type: 'Error' };

interface Pending {
  readonly closure: Closure;
  readonly args: readonly Value[];
  /** The declaration of the handler. */
  readonly declaration?: Declaration | undefined;
  /** Whether the result of the function is a response. */
  readonly isReply?: boolean;
  readonly isGuarded?: boolean;
}

/**
 * Runs the modules of a project on values instead of data: first their statements, then their handlers with
 * the inputs of a client. Tells the listeners which values calls, responses and comparisons have.
 */
export class Interpreter extends Invocation {
  readonly #project: Project;
  readonly #scopes = new Map<SourceModule, values.Scope>();
  readonly #pending: Pending[] = [];
  readonly #done = new Set<Fn>();
  readonly #started: Pending[] = [];
  /** Dependencies of the MCP endpoints. */
  readonly #mounts: Value[] = [];
  /** Results of `provide()`, by their functions. */
  readonly #providers = new Map<Fn, Value>();

  constructor(project: Project, functions: Functions, listeners: ValueListeners) {
    super(functions, listeners);
    this.#project = project;
  }

  run(): void {
    for (const module of this.#project.modules.toReversed()) this.scopeOf(module);
    this.#runPending();
    for (const [fn, source] of this.#providers) if (!this.ran.has(fn)) this.#provided(source);
    // functions that no call reached run with arguments of which only the declared types are known
    for (const [fn] of this.functions.all) {
      const closure = this.ran.has(fn) ? undefined : (this.closures.get(fn) ?? this.#methodOf(fn));
      if (closure !== undefined) this.#evaluate({ closure, args: [] });
      this.#runPending();
    }
    if (!this.isStored) return;
    this.forgetResults();
    for (const each of [...this.#started]) this.#evaluate(each);
    this.#runPending();
  }

  #runPending(): void {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) this.#start(next);
  }

  #start(pending: Pending): void {
    const { closure, declaration } = pending;
    const given = declaration === undefined ? [] : this.#givenTo(declaration);
    const started = { ...pending, isGuarded: given.some((each) => isGuard(each)) };
    const dependencies = given.filter(({ gives }) => gives !== undefined);
    if (declaration !== undefined)
      this.listeners.onHandler({ handler: closure.fn, route: declaration.route, dependencies });
    this.#started.push(started);
    this.#evaluate(started);
  }

  /** Returns the dependencies that run before a handler. A tool has those of the MCP endpoints, if each endpoint has some. */
  #givenTo({ route, spec, deps }: Declaration): readonly Value[] {
    const isTool =
      methodOf(route?.call) === 'tool' && this.#mounts.every(({ members }) => members !== undefined);
    const mount = isTool ? this.#mounts[0] : undefined;
    return [spec, deps, mount].flatMap((each) => [...(each?.members?.values() ?? [])]);
  }

  #evaluate(pending: Pending): void {
    const { closure, args, declaration, isReply } = pending;
    this.current = pending;
    this.handler = this.functions.isHandler(closure.fn) ? closure.fn : undefined;
    this.steps = 0;
    this.seen = new Map();
    this.path = new Path(this.root);
    this.stack = [];
    const value = awaited(this.invoke(closure, args, undefined));
    if (isReply !== true) return;
    this.listeners.onReply({ value, route: declaration?.route });
    const promise = promiseIn(value);
    if (promise === undefined) return;
    const { module, call, fn = closure.fn } = promise;
    this.listeners.onPromise({ promise, use: 'value', node: call ?? fn, module });
  }

  /** Returns a method of a class, bound to an instance of which nothing is known. */
  #methodOf({ parent, name }: Fn): Closure | undefined {
    if (name === undefined || parent?.type !== 'entry' || parent.isStatic || parent.parent?.type !== 'class')
      return undefined;
    const of = this.classes.get(parent.parent);
    return of && this.method(this.unknownInstance(of), name)?.fn;
  }

  /** Returns the variables of a module. Runs its statements first. */
  protected scopeOf(module: SourceModule): values.Scope {
    const known = this.#scopes.get(module);
    if (known !== undefined) return known;
    const scope = new values.Scope();
    this.#scopes.set(module, scope);
    const before = [this.module, this.scope, this.path, this.stack, this.steps, this.handler] as const;
    const state = [this.shield, this.fails] as const;
    [this.module, this.scope, this.path, this.stack, this.steps] = [module, scope, this.root, [], 0];
    this.handler = undefined;
    this.statements(module.body.body);
    this.root.end = undefined;
    [this.module, this.scope, this.path, this.stack, this.steps, this.handler] = before;
    [this.shield, this.fails] = state;
    return scope;
  }

  /** Adds a handler to the functions that run later. */
  #queue(
    closure: Closure | undefined,
    argsOf: (closure: Closure) => readonly Value[],
    more: Pick<Pending, 'declaration' | 'isReply'> = {},
  ): void {
    if (closure === undefined) return;
    this.functions.addHandler(closure.fn, more.declaration?.route);
    if (this.#done.has(closure.fn)) return;
    this.#done.add(closure.fn);
    this.#pending.push({ closure, args: argsOf(closure), ...more });
  }

  #inputOf(kind: Parameter, { route, spec, deps }: Declaration): Value {
    if (kind === 'request') return { ...requestValue(route), members: givenBy(deps, spec) };
    if (kind === 'own') return KNOWN;
    const message = inputValue({ id: 'message', origin: { what: 'the message', input: 'message' }, route });
    return kind === 'message' ? message : { texts: KNOWN.texts, type: 'svc.Socket', items: message };
  }

  protected providerOf(spec: Value, made: Value, call: Call): Value {
    const provider = { ...made, spec, providedBy: { call, module: this.module } };
    if (made.fn !== undefined) this.#providers.set(made.fn.fn, provider);
    return provider;
  }

  protected given(source: Value, node: Call): Value {
    const given = this.#provided(source, { call: node, module: this.module });
    const isGuard = GUARDS.test(given.type ?? '') || source.spec?.members?.has('security') === true;
    const value = isGuard ? values.marked(given, { by: PRINCIPAL, node, module: this.module }) : given;
    const isolation = source.meaning === 'svc/db.transaction' ? '' : source.isolation;
    return isolation === undefined ? value : { ...value, isolation };
  }

  /** Returns the result of a dependency: of a function, a class, or a function of a package. */
  #provided(source: Value, at?: RouteCall): Value {
    const context = { ...requestValue(source.providedBy ?? at, true), members: givenBy(source.spec) };
    const { predicate } = source;
    const made =
      source.of === undefined
        ? (source.fn ?? predicate)
        : this.method({ ...source, isInstance: true }, 'constructor')?.fn;
    const result: Value = { texts: KNOWN.texts, type: source.meaning ?? source.type };
    if (source.of === undefined && made === undefined) return result;
    const before = this.handler;
    // a test in one dependency proves nothing for another one
    const { facts } = this.path;
    if (made !== undefined) {
      this.#done.add(made.fn);
      this.functions.addHandler(made.fn, undefined);
      this.handler = made.fn;
    }
    const { call, module } = source.providedBy ?? {};
    const claims =
      predicate === undefined || call === undefined || module === undefined
        ? []
        : [values.marked(KNOWN, { by: PRINCIPAL, node: call, module })];
    const value =
      source.of !== undefined
        ? this.instance(source.of, [context], undefined)
        : awaited(this.invoke(made!, [...claims, context], undefined)); // one of the two is defined: see above
    this.handler = before;
    this.path.facts = facts;
    return predicate === undefined ? value : { ...result, fallback: value.fallback };
  }

  protected register(call: Call, { receiver, args, method, meaning }: Called): Declaration | undefined {
    const parameters = parametersOf(receiver?.type, method);
    if (parameters === undefined) {
      if (call.isNew && isRouter(meaning)) this.#queueLayers(args[0]?.members?.get('use'));
      if (call.isNew && meaning === 'svc/oauth.OAuthPlugin')
        this.#queue(args[0]?.members?.get('onUser')?.fn, ({ fn, module }) => [
          KNOWN,
          userValue({ node: fn, module }),
        ]);
      if (meaning === 'svc.APIKeyAuth')
        this.#queue(args[0]?.members?.get('verify')?.fn, () => [keyValue(), requestValue()]);
      if (method === 'mountMcp') this.#mounts.push(args[1]?.members?.get('deps') ?? KNOWN);
      return undefined;
    }
    const last = args.at(-1);
    if (method === 'use') {
      if (last !== undefined) this.#queueMiddleware(last);
      return undefined;
    }
    const spec = args.find(
      (each) => each.members !== undefined && each.of === undefined && each.fn === undefined && !isList(each),
    );
    const isRoute = method !== 'exceptionHandler';
    const declaration: Declaration = receiver?.declares ?? {
      route: isRoute ? { call, module: this.module } : undefined,
      spec,
      deps: receiver?.members?.get('deps'),
    };
    this.#queueLayers(spec?.members?.get('use'));
    const { module } = this;
    // an error of a named class has the message that code of this class wrote
    const error = args[0]?.meaning === 'Error' ? anyError({ node: call, module }) : ERROR;
    const argsOf = (): readonly Value[] =>
      parameters.map((kind) => (kind === 'error' ? error : this.#inputOf(kind, declaration)));
    const isReply = parameters[0] === 'request' || parameters[0] === 'error';
    for (const closure of values.closuresOf(last ?? KNOWN))
      this.#queue(closure, argsOf, { declaration, isReply });
    return declaration;
  }

  #queueLayers(layers: Value | undefined): void {
    for (const layer of layers?.members?.values() ?? []) this.#queueMiddleware(layer);
  }

  #queueMiddleware(layer: Value): void {
    const closure = layer.of === undefined ? layer.fn : this.method(layer, 'handle')?.fn;
    this.#queue(closure, () => [requestValue(), KNOWN]);
  }

  protected imported(from: string | undefined): Value {
    const module = from === undefined ? undefined : this.module.resolved.get(from);
    if (module === undefined)
      return from === undefined ? KNOWN : { texts: KNOWN.texts, meaning: from.replace(/^node:/, '') };
    this.scopeOf(module);
    return { texts: KNOWN.texts, module };
  }
}

/** Returns the results of the dependencies in options, by the names under which a handler receives them. */
function givenBy(...specs: readonly (Value | undefined)[]): Map<string, Value> {
  const given = new Map<string, Value>();
  for (const [key, { gives }] of specs.flatMap((spec) => [...(spec?.members ?? [])]))
    if (gives !== undefined) given.set(key, gives);
  return given;
}
