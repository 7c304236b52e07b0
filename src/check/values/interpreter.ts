/**
 * Follows values through the sources of an application: from the inputs of its handlers through statements,
 * branches and calls. Nothing of the application runs. Listeners receive every call with the values of its
 * arguments, and every assignment.
 */
import { isBuiltin } from 'node:module';
import { functionAround, isWithin } from '../reader/nodes.ts';
import { EXACT, FUNCTIONS, METHODS, constantIn, isExact, itemOf, keyOf } from './effects.ts';
import { Evaluation, equality, listOf } from './evaluation.ts';
import { inputValue, readInput, requestValue, rowValue } from './inputs.ts';
import { Path } from './path.ts';
import { SQL_FUNCTIONS } from './sql-texts.ts';
import { NO_FACTS, allFacts, sharedFacts } from './text.ts';
import * as values from './value.ts';
import type { Project, SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { Handlers, Role, RouteCall } from '../source/routes.ts';
import type { EvaluationListeners } from './evaluation.ts';
import type { Facts } from './text.ts';
import type { ClassValue, Closure, Given, Value } from './value.ts';

const { ABSENT, KNOWN } = values;

/** A call with the values of its arguments on one path through the code. */
export interface Site {
  readonly call: Call;
  readonly module: SourceModule;
  /** Import of the called function, such as `fs.readFile`; the type of its object and the method, else ''. */
  readonly meaning: string;
  readonly receiver: Value | undefined;
  /** The route whose handler makes the call. */
  readonly route: RouteCall | undefined;
  /** Whether the route requires a credential. */
  readonly isGuarded: boolean;
  /** Returns the value of an argument, or of an expression in it. */
  value(node: Node | undefined): Value | undefined;
  /** Returns the origin of the value of an expression; undefined if no client sent a part of it. */
  given(node: Node | undefined): Given | undefined;
  /** Returns the expression that a caller passed for a parameter. Other expressions are returned unchanged. */
  written(node: Node): { readonly node: Node; readonly module: SourceModule };
}

/** The result of a handler. */
interface Sent {
  readonly value: Value;
  readonly route: RouteCall | undefined;
}

interface Listeners extends EvaluationListeners {
  onCall(site: Site): void;
  onReply(sent: Sent): void;
}

interface Frame {
  readonly fn: Fn;
  readonly call: Call | undefined;
  readonly module: SourceModule;
}

/** A call after the evaluation of its parts. */
interface Called {
  readonly called: Value;
  readonly receiver: Value | undefined;
  readonly args: readonly Value[];
  readonly method: string;
  readonly meaning: string;
}

interface Result {
  readonly value: Value;
  readonly facts: Facts;
  readonly path: Path;
}

interface Pending {
  readonly closure: Closure;
  readonly args: readonly Value[];
  /** The route whose handler runs. */
  readonly route?: RouteCall | undefined;
  /** Whether the result of the function is a reply. */
  readonly isReply?: boolean;
  readonly isGuarded?: boolean;
}

const MAX_DEPTH = 10;
const ERROR: Value = { texts: KNOWN.texts, type: 'Error' };
/** Functions whose results rules recognise again. */
const MAKERS =
  /^crypto\.(?:randomBytes|randomUUID|randomInt|getRandomValues|createHmac\.[^]*digest)$|^svc\.createToken$/;
const GUARDS = /^svc\.(?:BearerAuth|APIKeyAuth|requireRoles|requireScopes|requireSession)$/;
/** Methods that return rows as the database has them. */
const ROWS = /^svc\/db\.[^]*\.(?:fetchAll|fetchOne)$/;

/**
 * Runs the modules of a project on values instead of data: first their statements, then their handlers with
 * the inputs of a client. Tells the listeners which values calls, replies and comparisons have.
 */
export class Interpreter extends Evaluation {
  readonly #project: Project;
  readonly #handlers: Handlers;
  readonly #onCall: Listeners['onCall'];
  readonly #onReply: Listeners['onReply'];
  readonly #scopes = new Map<SourceModule, values.Scope>();
  readonly #pending: Pending[] = [];
  readonly #done = new Set<Fn>();
  readonly #summaries = new WeakMap<Fn, Map<string, { readonly value: Value; readonly facts: Facts }>>();
  /** Path of the statements of modules. Handlers run on paths after it. */
  readonly #root = this.path;
  readonly #started: Pending[] = [];
  /** Whether a handler put a value of a client into a map, where another handler may find it. */
  #isStored = false;
  #stack: Frame[] = [];
  #results: Result[] = [];
  #current: Pending | undefined;

  constructor(project: Project, handlers: Handlers, listeners: Listeners) {
    super(listeners);
    this.#project = project;
    this.#handlers = handlers;
    this.#onCall = (site) => listeners.onCall(site);
    this.#onReply = (sent) => listeners.onReply(sent);
  }

  run(): void {
    for (const module of this.#project.modules.toReversed()) this.scopeOf(module);
    this.#runPending();
    for (const fn of this.#handlers.all) {
      if (this.#done.has(fn)) continue;
      // no call reached the function around the handler, so it runs with unknown arguments
      const outer = this.#outermost(fn);
      if (!this.closures.has(fn) && outer !== undefined) this.#start({ closure: outer, args: [] });
      const closure = this.closures.get(fn);
      if (closure !== undefined) this.#queue(closure, undefined, undefined);
      this.#runPending();
    }
    if (!this.#isStored) return;
    for (const each of [...this.#started]) this.#evaluate(each);
    this.#runPending();
  }

  #runPending(): void {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) this.#start(next);
  }

  #start(pending: Pending): void {
    this.#started.push(pending);
    this.#evaluate(pending);
  }

  #evaluate(pending: Pending): void {
    const { closure, args, route, isReply } = pending;
    this.#current = pending;
    this.steps = 0;
    this.seen = new Map();
    this.path = new Path(this.#root);
    this.#stack = [];
    const value = this.invoke(closure, args, undefined);
    if (isReply === true) this.#onReply({ value, route });
  }

  #outermost(fn: Fn): Closure | undefined {
    let found: Closure | undefined;
    for (let at = functionAround(fn); at !== undefined; at = functionAround(at))
      found = this.closures.get(at) ?? found;
    return found;
  }

  /** Returns the variables of a module. Runs its statements first. */
  protected scopeOf(module: SourceModule): values.Scope {
    const known = this.#scopes.get(module);
    if (known !== undefined) return known;
    const scope = new values.Scope();
    this.#scopes.set(module, scope);
    const before = [this.module, this.scope, this.path, this.#stack, this.steps] as const;
    [this.module, this.scope, this.path, this.#stack, this.steps] = [module, scope, this.#root, [], 0];
    this.#statements(module.body.body);
    this.#root.end = undefined;
    [this.module, this.scope, this.path, this.#stack, this.steps] = before;
    return scope;
  }

  /** Adds a handler to the functions that run later, with the inputs of its role. */
  #queue(closure: Closure, spec: Value | undefined, deps: Value | undefined): void {
    const roles = this.#handlers.rolesOf(closure.fn);
    if (roles.length === 0 || this.#done.has(closure.fn)) return;
    this.#done.add(closure.fn);
    const args = closure.fn.params.map((_, index) => this.#inputOf(roles[index], spec, deps));
    const route = roles.find((role) => role?.route !== undefined)?.route;
    const given = [...(spec?.members?.values() ?? []), ...(deps?.members?.values() ?? [])];
    const isGuarded = given.some(({ gives }) => GUARDS.test(gives?.type ?? ''));
    this.#pending.push({ closure, args, route, isGuarded, isReply: route !== undefined });
  }

  #inputOf(role: Role | undefined, spec: Value | undefined, deps: Value | undefined): Value {
    if (role === undefined) return KNOWN;
    if (role.kind === 'request') return this.#context(role.route, spec, deps);
    return inputValue({
      id: 'message',
      origin: { what: 'the message', input: 'message' },
      route: role.route,
    });
  }

  /** Returns the context of a handler: its inputs, and the results of its dependencies. */
  #context(route: RouteCall | undefined, spec: Value | undefined, deps?: Value): Value {
    if (route?.isValidated === true) return KNOWN;
    const members = new Map<string, Value>();
    for (const [key, { gives }] of [...(deps?.members ?? []), ...(spec?.members ?? [])])
      if (gives !== undefined) members.set(key, gives);
    return { ...requestValue(route), members };
  }

  /** Returns the result of a dependency: of a function, a class, or a function of a package. */
  #provided(source: Value): Value {
    const context = this.#context(undefined, source.spec);
    if (source.of !== undefined) return this.instance(source.of, [context], undefined);
    if (source.fn === undefined) return { texts: KNOWN.texts, type: source.meaning ?? source.type };
    this.#done.add(source.fn.fn);
    return this.invoke(source.fn, [context], undefined);
  }

  protected invoke(closure: Closure, args: readonly Value[], call: Call | undefined): Value {
    const { fn } = closure;
    if (this.#stack.length >= MAX_DEPTH || this.#stack.some((frame) => frame.fn === fn)) return KNOWN;
    // a constructor runs for each object, because it sets the members of this object
    const isShared = functionAround(fn) === undefined && this.#stack.length > 0 && fn.name !== 'constructor';
    const key = isShared
      ? [...args, closure.self ?? KNOWN].map((value) => values.signatureOf(value)).join(';')
      : '';
    let summaries = this.#summaries.get(fn);
    if (summaries === undefined) this.#summaries.set(fn, (summaries = new Map()));
    const known = isShared ? summaries.get(key) : undefined;
    if (known !== undefined) {
      this.path.facts = allFacts(this.path.facts, known.facts);
      return known.value;
    }
    const { value, facts } = this.#runBody(closure, args, call);
    if (isShared) summaries.set(key, { value, facts });
    return value;
  }

  #runBody(
    { fn, module, scope, self }: Closure,
    args: readonly Value[],
    call: Call | undefined,
  ): Omit<Result, 'path'> {
    const before = [this.module, this.scope, this.path, this.#results] as const;
    const around = this.path;
    this.#stack.push({ fn, call, module: this.module });
    this.module = module;
    this.scope = new values.Scope(scope, self);
    this.path = new Path(around);
    this.#results = [];
    fn.params.forEach((param, index) => {
      const value =
        param.type === 'spread'
          ? listOf(args.slice(index))
          : (args[index] ?? (call === undefined ? KNOWN : ABSENT));
      this.bind(param.type === 'spread' ? param.value : param, value);
    });
    const [only] = fn.body;
    if (fn.isExpression && only !== undefined) this.addResult(this.value(only));
    else {
      this.#statements(fn.body);
      if (this.path.end === undefined) this.addResult(ABSENT);
    }
    const results = this.#results;
    this.#stack.pop();
    [this.module, this.scope, this.path, this.#results] = before;
    // a callback may run several times
    if (results.length > 0)
      around.continueAfter(
        results.map(({ path }) => path),
        call === undefined ? values.inexact : undefined,
      );
    const value = values.oneOf(results.map((result) => result.value));
    const facts = results
      .map((result) => result.facts)
      .reduce<Facts | undefined>(
        (all, each) => (all === undefined ? each : sharedFacts(all, each)),
        undefined,
      );
    return { value: { ...value, ...values.judgedResults(results) }, facts: facts ?? NO_FACTS };
  }

  protected addResult(value: Value): void {
    this.#results.push({ value, facts: this.path.facts, path: this.path });
  }

  #statements(body: readonly Node[]): void {
    for (const node of body) this.#hoist(node.type === 'export' ? node.declared : node);
    for (const node of body) {
      if (this.path.end !== undefined) return;
      this.#statement(node);
    }
  }

  #hoist(node: Node | undefined): void {
    if (node?.type === 'function' && node.name !== undefined) this.define(node.name, this.value(node));
    if (node?.type === 'class' && node.name !== undefined) this.define(node.name, this.value(node));
  }

  #statement(node: Node): void {
    switch (node.type) {
      case 'declare':
        for (const { target, value } of node.items)
          this.bind(target, value === undefined ? ABSENT : this.value(value));
        return;
      case 'leave':
        return this.#leave(node);
      case 'if':
        return this.#ifStatement(node);
      case 'loop':
        return this.#loopStatement(node);
      case 'block':
        return this.inScope(() => this.#statements(node.body));
      case 'try':
        return this.#tryStatement(node);
      case 'switch':
        return this.#switchStatement(node);
      case 'export':
        if (node.declared !== undefined) this.#statement(node.declared);
        return;
      case 'statement':
        return this.#asserted(this.value(node.value), node.value);
      case 'function':
      case 'class':
      case 'import':
        return;
      default:
        this.value(node);
    }
  }

  /** A call of an undeclared function as a statement may throw for texts that are not known. */
  #asserted({ keys }: Value, node: Node): void {
    const call = node.type === 'await' ? node.value : node;
    if (keys === undefined || call.type !== 'call' || call.callee.type !== 'name') return;
    const known = new Map(keys.map((id) => [id, { isKnown: true }]));
    this.path.facts = allFacts(this.path.facts, known);
  }

  #leave({ how, value }: Extract<Node, { type: 'leave' }>): void {
    const result = value === undefined ? ABSENT : this.value(value);
    if (how === 'return') this.addResult(result);
    this.path.end = how === 'return' || how === 'throw' ? 'exit' : 'break';
  }

  #ifStatement({ test, yes, no }: Extract<Node, { type: 'if' }>): void {
    const value = this.value(test);
    const branches = [
      this.branch(values.factsIf(value, true), () => this.#statement(yes)),
      this.branch(values.factsIf(value, false), () => no && this.#statement(no)),
    ];
    this.path.join(branches.map(({ path }) => path));
  }

  #loopStatement({ kind, head, body }: Extract<Node, { type: 'loop' }>): void {
    this.inScope(() => {
      const isOver = kind === 'of' || kind === 'in';
      const over = isOver && head[1] !== undefined ? this.value(head[1]) : undefined;
      let test = KNOWN;
      if (!isOver)
        for (const part of head)
          if (part.type === 'declare') this.#statement(part);
          else test = this.value(part);
      const around = this.path;
      const { path } = this.branch(values.factsIf(test, true), () => {
        const [target] = head;
        if (over !== undefined && target !== undefined)
          for (const each of target.type === 'declare' ? target.items.map((item) => item.target) : [target])
            this.bind(each, kind === 'of' ? itemOf(over) : keyOf(over));
        this.#statement(body);
      });
      path.end = undefined;
      // the number of rounds is not known
      around.join([path, new Path(around)], values.inexact);
    });
  }

  #tryStatement({ block, param, handler, finalizer }: Extract<Node, { type: 'try' }>): void {
    const branches = [this.branch(NO_FACTS, () => this.#statement(block)).path];
    if (handler !== undefined) {
      const caught = this.branch(NO_FACTS, () =>
        this.inScope(() => {
          if (param !== undefined) this.bind(param, ERROR);
          this.#statement(handler);
        }),
      );
      branches.push(caught.path);
    }
    this.path.join(branches);
    const { end } = this.path;
    this.path.end = undefined;
    if (finalizer !== undefined) this.#statement(finalizer);
    this.path.end ??= end;
  }

  #switchStatement({ value, cases }: Extract<Node, { type: 'switch' }>): void {
    const subject = this.value(value);
    const hasDefault = cases.some(({ test }) => test === undefined);
    const branches = cases.map(({ test, body }) => {
      const equal = test === undefined ? KNOWN : equality(subject, this.value(test));
      // an empty case falls through to the next one
      const facts = values.factsIf(equal, true);
      const { path } = this.branch(facts, () => this.inScope(() => this.#statements(body)));
      if (path.end === 'break') path.end = undefined;
      return path;
    });
    this.path.join(hasDefault ? branches : [...branches, new Path(this.path)]);
  }

  protected call(call: Call): Value {
    const { callee } = call;
    const receiver = callee.type === 'member' ? this.value(callee.object) : undefined;
    const called =
      callee.type === 'member' && callee.property !== undefined
        ? this.member(receiver!, callee.property)
        : this.value(callee);
    const args = call.args.flatMap((arg) => {
      const value = this.value(arg);
      if (arg.type !== 'spread' || value.members === undefined) return [value];
      return [...value.members.values(), ...(value.items === undefined ? [] : [value.items])];
    });
    const method = callee.type === 'member' ? (callee.property ?? '') : '';
    const meaning = called.meaning ?? (receiver?.type === undefined ? '' : `${receiver.type}.${method}`);
    for (const arg of args) this.#register(arg, method, args, receiver);
    this.#visit(call, meaning, receiver);
    const result = this.#resultOf(call, { called, receiver, args, method, meaning });
    const made = { by: meaning, node: call, module: this.module };
    if (MAKERS.test(meaning)) return { ...result, texts: [[{ kind: 'own', made }]] };
    const isQuery = ROWS.test(meaning) || (meaning === '' && ROWS.test(`svc/db.unknown.${method}`));
    return isQuery && args[2]?.members?.has('as') !== true ? { ...result, whole: made } : result;
  }

  #visit(call: Call, meaning: string, receiver: Value | undefined): void {
    const [seen, module, stack] = [this.seen, this.module, [...this.#stack]];
    this.#onCall({
      call,
      module,
      meaning,
      receiver,
      route: this.#current?.route,
      isGuarded: this.#current?.isGuarded === true,
      value: (node) => (node === undefined ? undefined : seen.get(node)),
      given: (node) => (node === undefined ? undefined : values.givenOf(seen.get(node))),
      written: (node) => writtenAt(node, module, stack),
    });
  }

  /** Queues handlers among the arguments of a call, such as those of a route, and middleware objects. */
  #register(arg: Value, method: string, args: readonly Value[], receiver: Value | undefined): void {
    const spec = args.find((each) => each.members !== undefined && each.of === undefined);
    const deps = receiver?.members?.get('deps');
    if (method === 'exceptionHandler' && arg.fn !== undefined && !this.#done.has(arg.fn.fn)) {
      this.#done.add(arg.fn.fn);
      this.#pending.push({ closure: arg.fn, args: [ERROR, requestValue()], isReply: true });
    }
    if (arg.fn !== undefined) this.#queue(arg.fn, spec, deps);
    for (const item of arg.members?.values() ?? [])
      if (item.fn !== undefined) this.#queue(item.fn, spec, deps);
    const layers = method === 'use' ? [arg] : (arg.members?.get('use')?.members?.values() ?? []);
    for (const layer of layers) this.#queueMiddleware(layer);
  }

  #queueMiddleware(layer: Value): void {
    const closure = layer.of === undefined ? layer.fn : this.method(layer, 'handle')?.fn;
    if (closure === undefined || this.#done.has(closure.fn)) return;
    this.#done.add(closure.fn);
    this.#pending.push({ closure, args: [requestValue(), KNOWN] });
  }

  #resultOf(call: Call, { called, receiver, args, method, meaning }: Called): Value {
    const [first = KNOWN] = args;
    if (called.of !== undefined && call.isNew) return this.instance(called.of, args, call);
    if (called.fn !== undefined) return this.invoke(called.fn, args, call);
    if (meaning === 'svc.Depends') return { texts: KNOWN.texts, gives: this.#provided(first) };
    if (meaning === 'svc.provide') return { ...(args[1] ?? KNOWN), spec: first };
    if (meaning === 'util.promisify') return first;
    if (/^(?:require|import)$/.test(meaning)) return this.#imported(constantIn(first));
    if (call.isNew && /^(?:Set|Map|WeakMap|Array)$/.test(meaning)) return { ...KNOWN, items: itemOf(first) };
    const run = (callback: Value, values_: readonly Value[]): Value =>
      callback.fn === undefined ? KNOWN : this.invoke(callback.fn, values_, undefined);
    const operation = { args, receiver: receiver ?? KNOWN, at: call.start, run };
    const ofSql = Object.hasOwn(SQL_FUNCTIONS, meaning) ? SQL_FUNCTIONS[meaning] : undefined;
    if (ofSql !== undefined) return ofSql({ args, node: call, module: this.module });
    const effect = Object.hasOwn(FUNCTIONS, meaning) ? FUNCTIONS[meaning] : undefined;
    if (effect !== undefined) return EXACT.has(meaning) ? effect(operation) : values.inexact(effect(operation));
    const read =
      receiver?.source === undefined
        ? undefined
        : readInput(receiver.source, method, constantIn(first), this.listeners.typeOf);
    if (read !== undefined) return read;
    if (receiver?.type === 'svc.BackgroundTasks' && method === 'add') return run(first, args.slice(1));
    if (method === 'set' && values.clientIn(args[1]) !== undefined) this.#isStored = true;
    if (receiver !== undefined && Object.hasOwn(METHODS, method)) {
      const made = METHODS[method]!(operation);
      return isExact(method, operation) ? made : values.inexact(made);
    }
    const result = this.#resultOfUnknown(called, receiver, args, method, run);
    const as = /^svc\/db\..*\.fetch(?:All|One)$/.test(meaning) ? classIn(args) : undefined;
    if (as === undefined) return result;
    return method === 'fetchAll'
      ? { ...result, items: rowValue(as) }
      : { ...rowValue(as), keys: result.keys };
  }

  /** Returns the module that a program loads while it runs. */
  #imported(from: string | undefined): Value {
    const module = from === undefined ? undefined : this.module.resolved.get(from);
    if (module === undefined)
      return from === undefined ? KNOWN : { texts: KNOWN.texts, meaning: from.replace(/^node:/, '') };
    this.scopeOf(module);
    return { texts: KNOWN.texts, module };
  }

  #resultOfUnknown(
    { meaning }: Value,
    receiver: Value | undefined,
    args: readonly Value[],
    method: string,
    run: (callback: Value, args: readonly Value[]) => Value,
  ): Value {
    // a callback may receive the object itself, as the one of transaction() receives a session
    for (const arg of args)
      if (arg.fn !== undefined && !this.#handlers.isHandler(arg.fn.fn))
        run(arg, [receiver?.type === undefined ? KNOWN : { ...receiver }]);
    if (method === 'get' && receiver !== undefined)
      return { ...itemOf(receiver), keys: args.flatMap((arg) => values.idsIn(arg)) };
    const type = meaning ?? (receiver?.type === undefined ? undefined : `${receiver.type}.${method}`);
    const deps = /^svc\.(?:Router|Svc)$/.test(type ?? '') ? args[0]?.members : undefined;
    if (meaning !== undefined && isOfPackage(meaning)) {
      const part = args
        .map((arg) => values.clientIn({ texts: arg.texts }))
        .find((each) => each !== undefined);
      if (part !== undefined)
        return { ...values.textValue({ ...part, id: `${part.id} ${meaning}`, unknown: meaning }), type };
    }
    const keys = isBuiltIn(meaning) ? [] : args.flatMap((arg) => values.idsIn(arg));
    return { texts: KNOWN.texts, type, members: deps, ...(keys.length > 0 && { keys }) };
  }
}

/** Returns the class of the option `as`: the type of the rows of a query. */
function classIn(args: readonly Value[]): ClassValue | undefined {
  return args.map(({ members }) => members?.get('as')?.of).find((of) => of !== undefined);
}

/** Whether a name is imported from a package that is neither of Node.js nor this one. */
function isOfPackage(meaning: string): boolean {
  const [name] = meaning.split('.') as [string];
  return !isBuiltIn(meaning) && !/^(?:svc(?:[/.]|$)|[./#])/.test(meaning) && name !== '';
}

function isBuiltIn(meaning = ''): boolean {
  const [name] = meaning.split('.') as [string];
  return name in globalThis || isBuiltin(name);
}

/** Returns the argument of a caller if a node is a parameter of a function around it. */
function writtenAt(
  node: Node,
  module: SourceModule,
  stack: readonly Frame[],
): { node: Node; module: SourceModule } {
  if (node.type !== 'name') return { node, module };
  const at = stack.findLastIndex(
    ({ fn }) =>
      isWithin(node, fn) && fn.params.some((param) => param.type === 'name' && param.name === node.name),
  );
  const frame = stack[at];
  const index =
    frame?.fn.params.findIndex((param) => param.type === 'name' && param.name === node.name) ?? -1;
  const arg = frame?.call?.args[index];
  return frame === undefined || arg === undefined || arg.type === 'spread'
    ? { node, module }
    : writtenAt(arg, frame.module, stack.slice(0, at));
}
