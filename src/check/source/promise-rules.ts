/**
 * Rules about promises that are not awaited (SVC611), and asynchronous callbacks of array methods (SVC612).
 */
import { calledName, childrenOf, functionAround, pathOf, returnsOf, walk } from '../reader/nodes.ts';
import { makerOf, meaningOfCall, writtenOf } from '../sources.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, ClassNode, Fn, Member, Node } from '../reader/nodes.ts';
import type { ReportNode, Sources } from '../sources.ts';

const OURS = /^svc\.(?:checkPassword|hashPassword)$|^fetch$|^fs(?:\/promises|\.promises)\.\w+$/;
/** Names of variables that hold databases or transactions. */
export const DATABASE: RegExp = /(?:^|\.)#?_?(?:db|tx|trx|database)$/i;
/** Methods of databases that return promises. */
export const OF_DATABASE: RegExp =
  /^(?:execute|executeMany|fetchOne|fetchAll|fetchArrays|scalar|script|transaction)$/;
const LIMITER = /(?:^|\.)#?\w*limit(?:er)?s?$/i;
const REQUEST = /(?:^|\.)(?:req|request)$/;
/**
 * Names of methods that return promises, by the class or function that created their object: `take` for an
 * object of `RateLimiter`.
 */
const OF_CLASSES: Readonly<Record<string, RegExp>> = {
  'svc/oauth.OAuthPlugin':
    /^(?:revokeAll|listSessions|revokeSession|issue|providerToken|forgetProviderToken|listIdentities|logout|cleanUp)$/,
  'svc.RateLimiter': /^take$/,
  'svc/db.Redis': /^(?:get|set|del|incr|expire|hget|hset|publish)$/,
};

/**
 * A call that returns a promise. `isOurs` is true for a known function of this package or of Node.js, which
 * certainly returns a promise.
 */
interface Promised {
  readonly name: string;
  readonly isOurs: boolean;
  readonly fn?: Fn;
}

/**
 * Describes the promise that a call returns. Undefined if the called function is unknown or returns no
 * promise.
 */
function promiseOf(call: Call, module: SourceModule, sources: Sources, depth = 0): Promised | undefined {
  if (call.isNew) return undefined;
  const meaning = meaningOfCall(call, module);
  if (OURS.test(meaning) && !/\.(?:constants|watch|opendir)$/.test(meaning))
    return { name: meaning.replace(/^svc\./, ''), isOurs: true };
  const { callee } = call;
  if (callee.type === 'member' && isOfPackage(call, callee, module))
    return { name: pathOf(callee) ?? writtenOf(module, callee), isOurs: true };
  const fn = sources.handlers.resolve(callee, module);
  // after `const load = wrap(async () => …)`, `load` need not return a promise
  const isCertain =
    fn?.parent?.type !== 'call' && (callee.type !== 'member' || isMethodOf(callee, fn, module));
  return fn !== undefined && isCertain && !takesCallback(call) && givesPromise(fn, sources, depth)
    ? { name: pathOf(callee) ?? writtenOf(module, callee), isOurs: false, fn }
    : undefined;
}

/** Whether a call runs a method of this package that returns a promise. */
function isOfPackage(call: Call, { object, property }: Member, module: SourceModule): boolean {
  if (property === undefined) return false;
  const owner = pathOf(object) ?? '';
  const made = makerOf(object, module);
  if (made !== undefined && OF_CLASSES[made]?.test(property) === true) return true;
  if (property === 'transaction') return DATABASE.test(owner) && !isOtherTransaction(call);
  if (takesCallback(call)) return false;
  if (property === 'take') return LIMITER.test(owner) && isOfRequest(call.args[0]);
  const isBody = REQUEST.test(owner) && /^(?:json|text|form|body)$/.test(property);
  return isBody
    ? call.args.length < 2 && isParameter(object, module)
    : DATABASE.test(owner) && OF_DATABASE.test(property);
}

/**
 * Whether an expression is named like a request, as in `limiter.take(req)`. A call without a request, such as
 * `limiter.take(5)`, probably belongs to another class than RateLimiter.
 */
function isOfRequest(node: Node | undefined): boolean {
  return node !== undefined && REQUEST.test(pathOf(node) ?? '');
}

/** Whether an expression is a parameter or a member of a parameter, such as `req` and `ctx.req`. */
function isParameter(node: Node, module: SourceModule): boolean {
  const [name] = (pathOf(node) ?? '').split('.') as [string];
  return module.lookup(name, node)?.kind === 'parameter';
}

/** Names of callbacks, which receive the result or the error of a call. */
const CALLBACK =
  /(?:^|\.)(?:cb|callback|done|next|resolve|reject|fulfill|respond|on[A-Z]\w*|\w+C(?:b|allback))$/;

/** Whether an argument is a callback, which may receive the error of the call: `load(id, next)`. */
function takesCallback({ args }: Call): boolean {
  return args.some((arg) => arg.type === 'function' || CALLBACK.test(pathOf(arg) ?? ''));
}

/**
 * Whether a call of transaction() does not run the asynchronous method of this package, but a method of
 * IndexedDB or of a synchronous database.
 */
export function isOtherTransaction({ args: [work] }: Call): boolean {
  return work?.type !== 'function' || (!work.isAsync && work.params.length === 0);
}

/**
 * Whether a call certainly runs the method `fn`, and not a method of the same name in another class. Example:
 * `save` of the class `Store` in `const store = new Store(); store.save();`.
 */
function isMethodOf(callee: Member, fn: Fn | undefined, module: SourceModule): boolean {
  const { object } = callee;
  if (fn === undefined || object.type !== 'name') return false;
  const owner = fn.parent?.parent;
  if (object.name === 'this') return owner?.type === 'class' && isInClass(callee, owner);
  const binding = module.lookup(object.name, object);
  if (binding?.kind === 'module') return true;
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return false;
  const { value } = binding.node;
  if (value?.type === 'object') return value === owner;
  if (value?.type !== 'call' || !value.isNew || value.callee.type !== 'name') return false;
  const made = binding.module.lookup(value.callee.name, value.callee);
  return made?.kind === 'declared' && made.node === owner;
}

/** Whether a node is in the class `owner` or in a subclass of it. */
function isInClass(node: Node, owner: ClassNode): boolean {
  let at: Node | undefined = node;
  while (at !== undefined && at.type !== 'class') at = at.parent;
  return (
    at === owner || (at?.base !== undefined && owner.name !== undefined && pathOf(at.base) === owner.name)
  );
}

/** Whether a function returns a promise: it is asynchronous, or returns only the promises of other calls. */
function givesPromise(fn: Fn, sources: Sources, depth: number): boolean {
  if (fn.isGenerator) return false;
  if (fn.isAsync) return true;
  if (depth > 1) return false;
  const returned = fn.isExpression ? fn.body : returnsOf(fn);
  const module = sources.handlers.homeOf(fn);
  return (
    returned.length > 0 &&
    returned.every(
      (value) => value.type === 'call' && promiseOf(value, module, sources, depth + 1) !== undefined,
    )
  );
}

/**
 * Whether an error can leave a function: outside of `try`, the function throws, or awaits a promise that may
 * reject. Promises that a `catch` block awaits do not count.
 */
function mayFail(fn: Fn, sources: Sources, depth = 0): boolean {
  const module = sources.handlers.homeOf(fn);
  let fails = false;
  const visit = (node: Node, isHandler: boolean): void => {
    if (fails || node.type === 'function') return;
    if (node.type === 'try' && node.handler !== undefined) {
      visit(node.handler, true);
      if (node.finalizer !== undefined) visit(node.finalizer, isHandler);
      return;
    }
    if (node.type === 'leave' && node.how === 'throw') fails = true;
    const awaited = isHandler ? undefined : awaitedBy(node, module, sources);
    if (awaited !== undefined && isUncaught(awaited, module, sources, depth)) fails = true;
    for (const child of childrenOf(node)) visit(child, isHandler);
  };
  if (fn.isExpression && fn.body[0]!.type === 'call') return isUncaught(fn.body[0]!, module, sources, depth);
  for (const statement of fn.body) visit(statement, false);
  return fails;
}

/** Returns the promise that a node awaits or returns, if any. */
function awaitedBy(node: Node, module: SourceModule, sources: Sources): Node | undefined {
  if (node.type === 'await') return node.value;
  return node.type === 'leave' &&
    node.value?.type === 'call' &&
    promiseOf(node.value, module, sources) !== undefined
    ? node.value
    : undefined;
}

/**
 * Names of functions whose promises do not reject, because the functions only wait or return errors as
 * results.
 */
const NEVER_FAILS =
  /^(?:sleep|delay|wait|pause|timeout|tick|nextTick|set(?:Timeout|Immediate)|allSettled|value|to|attempt|swallow|try[A-Z]\w*|safe[A-Z]?\w*)$/;

/** Whether a promise may reject without a handler: true for `load()`, and false for `load().catch(…)`. */
function isUncaught(value: Node, module: SourceModule, sources: Sources, depth: number): boolean {
  if (value.type !== 'call') return true;
  if (isCaught(value) || NEVER_FAILS.test(calledName(value) ?? '')) return false;
  const path = pathOf(value.callee);
  const [first] = value.args;
  // `new Promise((resolve) => …)` without the parameter "reject" never rejects
  if (value.isNew && path === 'Promise') return first?.type !== 'function' || first.params.length > 1;
  if (/^Promise\.(?:all|race|any)$/.test(path ?? '') && first !== undefined && depth <= 2)
    return allIn(first).some((each) => isUncaught(each, module, sources, depth + 1));
  const fn = depth > 2 ? undefined : sources.handlers.resolve(value.callee, module);
  return fn === undefined || mayFail(fn, sources, depth + 1);
}

/** Whether a chain of calls has a `catch()`, or a `then()` with two functions. */
function isCaught(call: Call): boolean {
  if (calledName(call) === 'catch' || (calledName(call) === 'then' && call.args.length > 1)) return true;
  return call.callee.type === 'member' && call.callee.object.type === 'call' && isCaught(call.callee.object);
}

/**
 * Returns the promises in the argument of `Promise.all()`: the elements of a list, or the promises that the
 * callback of `map()` returns.
 */
function allIn(list: Node): readonly Node[] {
  if (list.type === 'list') return list.items;
  const [callback] = list.type === 'call' && calledName(list) === 'map' ? list.args : [];
  if (callback?.type !== 'function') return [list];
  // isUncaught() examines calls, so this creates a node for a call of the callback
  return [
    { type: 'call', callee: callback, args: [], isNew: false, start: callback.start, end: callback.end },
  ];
}

/** SVC611: promises that are not awaited. */
export function findForgotten(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const use = useOf(call);
    if (use === undefined) continue;
    const promise = promiseOf(call, module, sources);
    if (promise === undefined) continue;
    if (use === 'condition')
      report(
        'SVC611',
        module,
        call,
        `${promise.name}() is not awaited: the condition tests its promise, which always counts as true`,
      );
    else if (use === 'statement' && isLost(promise, call, sources))
      report(
        'SVC611',
        module,
        call,
        `${promise.name}() is not awaited: the code after the call does not wait for the result, and errors of the call are lost`,
        { severity: 'warning' },
      );
    else if (use === 'value' && promise.isOurs)
      report(
        'SVC611',
        module,
        call,
        `${promise.name}() is not awaited: the code uses its promise in place of the result`,
      );
    else if (use === 'kept') {
      const kept = keptPromise(call);
      if (kept !== undefined)
        report(
          'SVC611',
          module,
          call,
          `${promise.name}() is not awaited: ${kept} contains a promise, and not the result`,
        );
    }
  }
}

/**
 * Whether the error of a promise is lost. For a call of a project function, this is true only if requests
 * reach the call, and the project has no listener for rejections.
 */
function isLost({ isOurs, fn }: Promised, call: Call, sources: Sources): boolean {
  if (isOurs || fn === undefined) return true;
  if (isOnPurpose(call, sources.handlers.homeOf(functionAround(call) ?? fn))) return false;
  if (sources.reachedFrom(functionAround(call)) === undefined || hasListener(sources)) return false;
  return mayFail(fn, sources);
}

const ON_PURPOSE =
  /\/?[/*].*(?:fire[- ]and[- ]forget|on purpose|intentional|deliberate|background|do(?:n't| not) (?:a?wait|block)|no-(?:floating|misused)-promises)/i;

/**
 * Whether a comment at or above a call says that code deliberately does not await it: `// fire and forget`.
 */
function isOnPurpose({ start, end }: Call, { source }: SourceModule): boolean {
  const lines = source.slice(0, start).split('\n');
  const own = `${lines.pop()!}${source.slice(start, end)}${source.slice(end).split('\n', 1)[0]!}`;
  const above = lines.slice(lines.findLastIndex((line) => !/^\s*(?:\/\/|\/?\*)/.test(line)) + 1);
  return [...above, own].some((line) => ON_PURPOSE.test(line));
}

/** Whether the project listens for unhandled rejections: `process.on('unhandledRejection', …)`. */
function hasListener({ project }: Sources): boolean {
  return project.modules.some(({ source }) => /['"]unhandledRejection['"]/.test(source));
}

/**
 * Returns how code uses the promise of a call: not at all ("statement"), as a condition, as the value of a
 * variable ("kept"), or as another value. Undefined if code may await the promise.
 */
function useOf(call: Call): 'statement' | 'condition' | 'kept' | 'value' | undefined {
  const { parent } = call;
  switch (parent?.type) {
    case 'statement':
      return 'statement';
    case 'unary':
      return parent.operator === '!' ? 'condition' : undefined;
    case 'if':
    case 'choice':
      return parent.test === call ? 'condition' : undefined;
    case 'binary':
      if (parent.operator === '&&' && parent.left === call) return 'condition';
      if (/^[!=]==?$/.test(parent.operator)) return 'condition';
      return (parent.operator === '&&' || parent.operator === '||') && isTest(parent)
        ? 'condition'
        : undefined;
    case 'member':
      return parent.object === call && !/^(?:then|catch|finally)$/.test(parent.property ?? 'then')
        ? 'condition'
        : undefined;
    case 'declarator':
      return 'kept';
    case 'template':
      return 'value';
    case 'list':
      return isBound(parent) ? 'value' : undefined;
    default:
      return undefined;
  }
}

/** Whether a list holds parameters of an SQL statement: `db.execute('…', [name, hashPassword(password)])`. */
function isBound(list: Node): boolean {
  const { parent } = list;
  return (
    parent?.type === 'call' &&
    parent.callee.type === 'member' &&
    (OF_DATABASE.test(parent.callee.property ?? '') || parent.callee.property === 'query') &&
    parent.args[0] !== list
  );
}

function isTest(node: Node): boolean {
  const { parent } = node;
  if (parent?.type === 'binary' && /^(?:&&|\|\|)$/.test(parent.operator)) return isTest(parent);
  return (parent?.type === 'if' || parent?.type === 'choice') && parent.test === node;
}

/**
 * Returns the name of the variable that holds the promise of a call, as messages show it. Undefined unless
 * code only tests the variable or reads its members, as if the variable held the result.
 */
function keptPromise(call: Call): string | undefined {
  const declarator = call.parent;
  const fn = functionAround(call);
  if (declarator?.type !== 'declarator' || fn === undefined) return undefined;
  if (declarator.target.type === 'object' || declarator.target.type === 'list')
    return 'the destructured value';
  if (declarator.target.type !== 'name') return undefined;
  const { name } = declarator.target;
  let isMisused = false;
  let isAwaited = false;
  walk(fn, (node) => {
    if (node.type !== 'name' || node.name !== name || node === declarator.target) return;
    const { parent } = node;
    const isMisuse =
      (parent?.type === 'unary' && parent.operator === '!') ||
      ((parent?.type === 'if' || parent?.type === 'choice') && parent.test === node) ||
      (parent?.type === 'binary' && /^(?:[!=]==?|&&|\|\|)$/.test(parent.operator)) ||
      (parent?.type === 'member' &&
        parent.object === node &&
        !/^(?:then|catch|finally)$/.test(parent.property ?? 'then'));
    if (isMisuse) isMisused = true;
    else isAwaited = true; // any other use of the variable may await the promise
  });
  return isMisused && !isAwaited ? `"${name}"` : undefined;
}

const TESTS = /^(?:filter|some|every|find|findIndex|findLast|sort|toSorted)$/;

/** SVC612: asynchronous callbacks of array methods. */
export function findAsyncCallbacks(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const name = call.callee.type === 'member' ? calledName(call) : undefined;
    const [callback] = call.args;
    if (name === undefined || callback === undefined || !(name === 'forEach' || TESTS.test(name))) continue;
    const fn =
      callback.type === 'function' ||
      callback.type === 'name' ||
      pathOf(callback)?.startsWith('this.') === true
        ? sources.handlers.resolve(callback, module)
        : undefined;
    if (fn === undefined || !givesPromise(fn, sources, 0)) continue;
    if (TESTS.test(name)) {
      if (!isList(call)) continue;
      report(
        'SVC612',
        module,
        callback,
        `the callback of ${name}() returns a promise, which counts as true for every element`,
        { severity: 'error' },
      );
    } else if (
      isList(call) &&
      // a function with a name may be the end of a program, where errors may end the process
      ((fn === callback && fn.isAsync) || sources.reachedFrom(functionAround(call)) !== undefined) &&
      (!fn.isAsync || awaits(fn)) &&
      mayFail(fn, sources) &&
      !isOnPurpose(call, module)
    )
      report(
        'SVC612',
        module,
        callback,
        'forEach() does not await its callback: later code runs before the callback ends, and errors of the callback are lost',
      );
  }
}

/**
 * Names of objects whose methods may await their callbacks: streams, cursors, queries and promises of
 * libraries.
 */
const OTHER_LISTS = /stream|cursor|quer(?:y|ies)|iterator|observable|collection|promise|readable|\$$/i;

/**
 * Whether a method certainly belongs to an array: its object does not come from a query, and code does not
 * await its result.
 */
function isList(call: Call): boolean {
  let at: Node = call.callee;
  if (call.parent?.type === 'await') return false;
  while (at.type === 'member' || at.type === 'call') {
    const name = at.type === 'member' ? at.property : undefined;
    if (
      name !== undefined &&
      (OTHER_LISTS.test(name) || (/^(?:find|aggregate)$/.test(name) && at !== call.callee))
    )
      return false;
    at = at.type === 'member' ? at.object : at.callee;
  }
  return at.type !== 'name' || !OTHER_LISTS.test(at.name);
}

function awaits(fn: Fn): boolean {
  let found = false;
  walk(fn, ({ type }) => {
    found ||= type === 'await';
    return !found;
  });
  return found;
}
