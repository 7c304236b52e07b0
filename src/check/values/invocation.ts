/**
 * Calls and functions: runs the functions of a project on values, and gives each call its result. Listeners receive every
 * call with the values of its arguments.
 */
import { functionAround, methodOf } from '../reader/nodes.ts';
import { resultOfFunction, resultOfMethod } from './effects.ts';
import { constantIn } from './tests.ts';
import { classMadeBy } from './classes.ts';
import { ControlFlow, NO_SHIELD } from './control-flow.ts';
import { anyError, filledBy, itemOf, parsedBy, readInput, rowValue } from './inputs.ts';
import { Path } from './path.ts';
import { awaited, isCaught, neverRejects, promiseIn, returnsPromise, settledItems } from './promises.ts';
import { SOCKET_ROUTER, returnsItself } from './ours.ts';
import {
  MAKERS,
  SENDS,
  TESTS,
  addsListener,
  answerOf,
  argumentAt,
  classIn,
  isBuiltIn,
  isList,
  isOfPackage,
  isTimer,
  madeBy,
  ledFrom,
  settingOf,
  textsMadeOf,
  writtenAt,
} from './calls.ts';
import { PRINCIPAL, ROW, isPrincipal } from './marks.ts';
import { isolationIn, resultOfSql } from './sql-texts.ts';
import { NO_FACTS, allFacts, digestOf, sharedFacts } from './text.ts';
import * as values from './value.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import { typeAfter } from './annotations.ts';
import type { Called, Frame, OpenTransaction } from './calls.ts';
import type { Facts } from './text.ts';
import type { Closure, Declaration, Value } from './value.ts';

const { ABSENT, KNOWN } = values;

/** The result of a function, and whether an error may leave it. */
interface Summary {
  readonly value: Value;
  readonly facts: Facts;
  readonly fails: boolean;
}

const MAX_DEPTH = 10;

/** The handler that runs, or a function without a route. */
interface Running {
  readonly declaration?: Declaration | undefined;
  readonly isGuarded?: boolean;
}

export abstract class Invocation extends ControlFlow {
  protected stack: Frame[] = [];
  /** Functions that have run. */
  protected readonly ran: Set<Fn> = new Set();
  protected current: Running | undefined;
  readonly #summaries = new Map<string, Summary>();
  #transaction: OpenTransaction | undefined;

  /** Queues the handlers and the middleware that a call gives to a router, to the application or to a WebSocket. */
  protected abstract register(call: Call, called: Called): Declaration | undefined;
  /** Returns the result of `Depends(…)`. A guard gives the principal. */
  protected abstract given(source: Value, node: Call): Value;
  /** Returns the result of `provide(…)`. */
  protected abstract providerOf(spec: Value, made: Value, call: Call): Value;
  /** Returns the module that a program loads while it runs. */
  protected abstract imported(from: string | undefined): Value;

  /** Forgets the results of functions, which may read state that has changed. */
  protected forgetResults(): void {
    this.#summaries.clear();
  }

  protected invoke(closure: Closure, args: readonly Value[], call: Call | undefined): Value {
    const { fn } = closure;
    if (this.stack.length >= MAX_DEPTH || this.stack.filter((frame) => frame.fn === fn).length > 1)
      return this.#promised(closure, KNOWN, true, call);
    // a constructor runs for each object, because it sets the members of this object
    const isShared = functionAround(fn) === undefined && this.stack.length > 0 && fn.name !== 'constructor';
    const key = isShared
      ? digestOf(
          [
            ...[...args, closure.self ?? KNOWN].map((value) => values.signatureOf(value)),
            ...[fn, this.handler, this.#transaction?.work].map(values.idOfFunction),
          ].join(';'),
        )
      : '';
    const known = this.#summaries.get(key);
    if (known !== undefined) {
      this.path.facts = allFacts(this.path.facts, known.facts);
      return this.#promised(closure, known.value, known.fails, call);
    }
    const { value, facts, fails } = this.#runBody(closure, args, call);
    if (isShared) this.#summaries.set(key, { value, facts, fails });
    return this.#promised(closure, value, fails, call);
  }

  /** Returns the result of a call: for an asynchronous function, a promise of it. */
  #promised({ fn }: Closure, value: Value, mayFail: boolean, call: Call | undefined): Value {
    const { module } = this;
    if (fn.isAsync && !fn.isGenerator)
      return { ...awaited(value), promise: { call, module, by: undefined, fn, mayFail } };
    if (mayFail) this.mayThrow();
    return value.promise === undefined || call === undefined
      ? value
      : { ...value, promise: { ...value.promise, call, module, fn } };
  }

  #runBody({ fn, module, scope, self }: Closure, args: readonly Value[], call: Call | undefined): Summary {
    const before = [this.module, this.scope, this.path, this.results, this.shield, this.fails] as const;
    const around = this.path;
    this.stack.push({ fn, call, module: this.module });
    this.ran.add(fn);
    if (this.handler !== undefined) this.functions.reach(fn, this.handler);
    this.module = module;
    this.scope = new values.Scope(scope, self);
    this.path = new Path(around);
    this.results = [];
    [this.shield, this.fails] = [NO_SHIELD, false];
    fn.params.forEach((param, index) => {
      const value =
        param.type === 'spread'
          ? values.listOf(args.slice(index))
          : (args[index] ?? (call === undefined ? KNOWN : ABSENT));
      const target = param.type === 'assign' ? param.target : param;
      const typed = values.isBare(value) ? this.typed(typeAfter(target, module), module) : undefined;
      this.bind(
        param.type === 'spread' ? param.value : param,
        typed === undefined || value === KNOWN ? (typed ?? value) : values.ofType(value, typed),
      );
    });
    const [only] = fn.body;
    if (fn.isExpression && only !== undefined) this.addResult(this.value(only));
    else {
      this.statements(fn.body);
      if (this.path.end === undefined) this.addResult(ABSENT);
    }
    const { results, fails } = this;
    this.stack.pop();
    [this.module, this.scope, this.path, this.results, this.shield, this.fails] = before;
    const paths = results.map(({ path }) => path);
    // a callback may run several times
    if (paths.length > 0) around.continueAfter(paths, call === undefined ? values.inexact : undefined);
    const value = values.oneOf(results.map((result) => result.value));
    const [first = NO_FACTS, ...more] = results.map((result) => result.facts);
    const facts = more.reduce((all, each) => sharedFacts(all, each), first);
    const fallback = this.fallbackIn(results) ?? value.fallback;
    return { value: { ...value, ...values.judgedResults(results), fallback }, facts, fails };
  }

  protected call(call: Call): Value {
    const { callee } = call;
    const receiver = callee.type === 'member' ? this.value(callee.object) : undefined;
    if (callee.type === 'member' && !/^(?:then|catch|finally)$/.test(callee.property ?? ''))
      this.misuse('value', receiver ?? KNOWN, callee.object);
    const called =
      callee.type === 'member' && callee.property !== undefined
        ? this.member(receiver!, callee.property)
        : this.value(callee);
    const args = call.args.flatMap((arg) => {
      const value = this.value(arg);
      return arg.type === 'spread' && value.members !== undefined ? values.innerOf(value) : [value];
    });
    const method = methodOf(call);
    const meaning = called.meaning ?? (receiver?.type === undefined ? '' : `${receiver.type}.${method}`);
    if (called.fn !== undefined) this.functions.note(callee, called.fn.fn);
    const all = { called, receiver, args, method, meaning };
    const declares = this.register(call, all);
    this.#visit(call, all);
    if (method === 'websocket' && declares !== undefined)
      return { texts: KNOWN.texts, type: SOCKET_ROUTER, declares };
    if (receiver !== undefined && returnsItself(receiver.type, method)) return receiver;
    const result = this.#settled(call, all, this.#resultOf(call, all));
    const made = { by: meaning, node: call, module: this.module };
    if (SENDS.test(meaning)) return answerOf({ ...made, by: ROW }, result, all);
    if (isPrincipal(meaning)) return values.marked(result, { ...made, by: PRINCIPAL });
    if (MAKERS.test(meaning) || (meaning === 'Date' && args.length === 0))
      return madeBy({ ...made, isLasting: this.#isStarting() }, result);
    return result;
  }

  /** Returns the result of a call with its promise. */
  #settled(call: Call, { called, receiver, args, method, meaning }: Called, result: Value): Value {
    if (/^(?:svc(?:\/\w+)?\.|JSON\.stringify$)/.test(meaning))
      args.forEach((arg, index) =>
        this.misuse('value', { ...KNOWN, promise: promiseIn(arg) }, call.args[index] ?? call),
      );
    if (called.fn !== undefined) return result;
    const { module } = this;
    const before = receiver?.promise;
    if (before !== undefined && /^(?:then|catch|finally)$/.test(method)) {
      const mayFail = !isCaught(call) && (before.mayFail || result.promise?.mayFail === true);
      return { ...result, promise: { ...before, call, module, mayFail } };
    }
    const isBuilt = meaning === 'Promise' && call.isNew;
    if (meaning === 'Promise.withResolvers') return result;
    if (isBuilt || /^Promise\.\w+$/.test(meaning)) {
      const all = args[0] === undefined ? [] : values.innerOf(args[0]);
      const mayFail = isBuilt
        ? (args[0]?.fn?.fn.params.length ?? 2) > 1 // without the parameter "reject", it never rejects
        : !neverRejects(meaning) &&
          (all.length === 0 || all.some(({ promise }) => promise?.mayFail !== false));
      const promise = { call, module, by: undefined, fn: undefined, mayFail };
      return { ...settledItems(result), type: undefined, promise }; // the type "Promise" is not that of its result
    }
    return returnsPromise(meaning, receiver, method)
      ? { ...result, promise: { call, module, by: meaning, fn: undefined, mayFail: !neverRejects(meaning) } }
      : result;
  }

  #visit(call: Call, { called, meaning, receiver }: Called): void {
    const [seen, module, stack] = [this.seen, this.module, [...this.stack]];
    this.listeners.onCall({
      call,
      module,
      meaning,
      receiver,
      fn: called.fn?.fn,
      route: this.current?.declaration?.route,
      transaction: this.#transaction,
      stack,
      led: ledFrom(this.#transaction?.work, stack),
      isGuarded: this.current?.isGuarded === true,
      handler: this.handler,
      value: (node) => (node === undefined ? undefined : seen.get(node)),
      given: (node) => (node === undefined ? undefined : values.givenOf(seen.get(node))),
      run: (node, args) => this.#tried(node && seen.get(node)?.fn, args),
      written: (node) => writtenAt(node, module, stack),
      passed: (node, isNearest) => argumentAt(node, module, stack, isNearest),
    });
  }

  /** Returns the result of a function on a path of its own. */
  #tried(closure: Closure | undefined, args: readonly Value[]): Value | undefined {
    if (closure === undefined) return undefined;
    const { fails } = this;
    const { result } = this.branch(NO_FACTS, () => this.invoke(closure, args, undefined));
    this.fails = fails;
    return result;
  }

  #resultOf(call: Call, { called, receiver, args, method, meaning }: Called): Value {
    const [first = KNOWN] = args;
    if (called.of !== undefined && call.isNew)
      return this.made(filledBy(this.instance(called.of, args, call), first), call);
    if (called.fn !== undefined)
      return values.oneOf(values.closuresOf(called).map((each) => this.invoke(each, args, call)));
    if (meaning === 'svc.Depends')
      return { texts: KNOWN.texts, gives: this.given(first, call), depends: first };
    const shown = meaning === 'String' ? first : method === 'toString' ? receiver : undefined;
    if (shown?.type === 'Error') return this.textOf(shown, call);
    if (meaning === 'svc.Config.get') return settingOf(call, this.module, args[1]);
    if (meaning === 'svc.provide') return this.providerOf(first, args[1] ?? KNOWN, call);
    if (meaning === 'svc.requireIf' && first.fn !== undefined)
      return { ...KNOWN, type: meaning, predicate: first.fn, providedBy: { call, module: this.module } };
    if (meaning === 'util.promisify' || meaning === 'svc.cached') return first;
    if (/^(?:require|import)$/.test(meaning)) return this.imported(constantIn(first));
    if (call.isNew && /^(?:Set|Map|WeakMap|Array)$/.test(meaning)) {
      const item = itemOf(first);
      const items = /Map$/.test(meaning) ? (item.members?.get('1') ?? item) : item;
      const members = /Map$/.test(meaning) ? values.entriesIn(first) : undefined;
      return this.made({ ...KNOWN, type: meaning, items, members }, call);
    }
    const isOfList = isList(receiver);
    const run = (callback: Value, values_: readonly Value[]): Value => {
      if (callback.fn === undefined) return KNOWN;
      const { fails } = this;
      const value = this.invoke(callback.fn, values_, undefined);
      const isRunning = this.stack.some(({ fn }) => fn === callback.fn?.fn || fn === value.promise?.fn);
      if ((isTimer(meaning) || addsListener(meaning)) && !isRunning)
        this.misuse('timer', value, call.args[0] ?? call);
      // other functions may call a callback later
      if (!isOfList) this.fails = fails;
      else if (method === 'forEach' || TESTS.test(method))
        this.misuse(method === 'forEach' ? 'each' : 'tested', value, call.args[0] ?? call);
      return value;
    };
    const error = anyError({ node: call, module: this.module });
    const operation = { args, receiver: receiver ?? KNOWN, at: call.start, error, run };
    const made =
      resultOfSql(meaning, { args, node: call, module: this.module }) ?? resultOfFunction(meaning, operation);
    if (made !== undefined && meaning.startsWith('path.')) return this.entered(made, call);
    if (made !== undefined) return made.members === undefined ? made : this.made(made, call);
    const read =
      receiver?.source === undefined
        ? undefined
        : readInput(receiver.source, method, constantIn(first), this.listeners.typeOf, args.length > 0);
    if (read !== undefined) return read;
    const parsed = parsedBy(receiver, method, first) ?? (receiver && classMadeBy(receiver, method, args));
    if (parsed !== undefined) return parsed;
    if (receiver?.type === 'svc.BackgroundTasks' && method === 'add') {
      run(first, args.slice(1));
      return KNOWN; // the tasks await the promise
    }
    const before = receiver?.items;
    const changed = receiver && resultOfMethod(method, operation);
    if (receiver !== undefined && receiver.items !== before) this.stores(receiver, args.at(-1));
    if (changed !== undefined) return changed;
    const result = this.#resultOfUnknown(call, { called, receiver, args, method, meaning }, run);
    const as = /^svc\/db\..*\.(?:fetchAll|fetchOne|stream)$/.test(meaning) ? classIn(args) : undefined;
    if (as === undefined) return result;
    const row = rowValue(this.lineOf(as), { by: ROW, node: call, module: this.module });
    return method === 'fetchOne' ? { ...row, keys: result.keys } : { ...result, items: row };
  }

  protected made(made: Value, node: Node): Value {
    return this.#isStarting() ? { ...made, lasting: made.lasting ?? node } : made;
  }

  /** Whether a module is imported, and no callback of it runs. */
  #isStarting(): boolean {
    const isStart = this.current === undefined && this.handler === undefined;
    return isStart && this.stack.every(({ call }) => call !== undefined);
  }

  #resultOfUnknown(
    call: Call,
    { called: { meaning }, receiver, args, method }: Called,
    run: (callback: Value, args: readonly Value[]) => Value,
  ): Value {
    // a callback may receive the object itself, as the one of transaction() receives a session
    const owner =
      method === 'transaction' && returnsPromise(`${receiver?.type ?? ''}.transaction`, undefined, '')
        ? receiver
        : undefined;
    const before = this.#transaction;
    let ofWork: Value | undefined;
    for (const arg of args) {
      if (arg.fn === undefined || this.functions.isHandler(arg.fn.fn)) continue;
      const isolation = isolationIn(args.find((each) => each !== arg));
      const session =
        receiver?.type === undefined ? KNOWN : { ...receiver, ...(owner !== undefined && { isolation }) };
      if (owner !== undefined) this.#transaction = { owner, session, work: arg.fn.fn };
      const result = run(arg, [session]);
      if (owner !== undefined) ofWork = awaited(result);
      this.#transaction = before;
    }
    if (ofWork !== undefined && ofWork !== KNOWN) return ofWork;
    if (method === 'get' && receiver !== undefined) {
      const entry = receiver.type === 'Map' ? constantIn(args[0]) : undefined;
      const { source, ...item } = receiver.members?.get(entry ?? '') ?? itemOf(receiver);
      // a value in a map is no longer the whole input of this request
      const kept = source && { ...source, whole: undefined };
      const lasting = /^(?:Map|Set)$/.test(item.type ?? '') ? receiver.lasting : item.lasting;
      return { ...item, source: kept, lasting, keys: args.flatMap(values.idsIn) };
    }
    const type = meaning ?? (receiver?.type === undefined ? undefined : `${receiver.type}.${method}`);
    const deps = /^svc\.(?:Router|Svc)$/.test(type ?? '') ? args[0]?.members : undefined;
    if (meaning !== undefined && isOfPackage(meaning)) {
      const part = args
        .map((arg) => values.clientIn(values.withoutMembers(arg)))
        .find((each) => each !== undefined);
      if (part !== undefined)
        return { ...values.textValue({ ...part, id: `${part.id} ${meaning}`, unknown: meaning }), type };
    }
    const keys = isBuiltIn(meaning)
      ? []
      : args.flatMap((arg) => (arg.type === 'Error' ? (arg.keys ?? []) : values.idsIn(arg)));
    const texts = textsMadeOf(type, { receiver, args }, { node: call, module: this.module });
    const made = { texts, type, members: deps, ...(keys.length > 0 && { keys }) };
    return call.isNew ? this.made(made, call) : made;
  }
}
