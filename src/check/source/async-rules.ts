/**
 * Rules about promises that are not awaited (SVC611 … SVC614), unbounded memory and time (SVC634, SVC635),
 * and blocking calls in functions that handlers call (SVC501).
 */
import { calledName, childrenOf, entryOf, functionAround, isWithin, pathOf, walk } from './nodes.ts';
import { makerOf, meaningOfCall } from './sources.ts';
import { returnsOf } from './values.ts';
import { isBlockingName } from './blocking.ts';
import type { SourceModule } from './modules.ts';
import type { Call, Fn, Member, Node } from './nodes.ts';
import type { ReportNode, Sources } from './sources.ts';

/** Runs every rule of this file. */
export function reportAsync(sources: Sources, report: ReportNode): void {
  findForgotten(sources, report);
  findAsyncCallbacks(sources, report);
  findPipes(sources, report);
  findOutsideTransaction(sources, report);
  findCollected(sources, report);
  findEndless(sources, report);
  findBlockingHelpers(sources, report);
}

// -- SVC611: promises that are not awaited --

const OURS = /^(?:svc\.)?(?:checkPassword|hashPassword)$|^fetch$|^fs(?:\/promises|\.promises)\.\w+$/;
const DATABASE = /(?:^|\.)#?_?(?:db|tx|trx|database)$/i;
const OF_DATABASE = /^(?:execute|executeMany|fetchOne|fetchAll|fetchArrays|scalar|script|transaction)$/;
const LIMITER = /(?:^|\.)#?\w*limit(?:er)?s?$/i;
const REQUEST = /(?:^|\.)(?:req|request)$/;
/** Methods that return promises, by the class or function that created their object. */
const OF_CLASSES: Readonly<Record<string, RegExp>> = {
  'svc/oauth.OAuthPlugin':
    /^(?:revokeAll|listSessions|revokeSession|issue|providerToken|forgetProviderToken|logout|cleanUp)$/,
  'svc.RateLimiter': /^take$/,
  'svc/db.Redis': /^(?:get|set|del|incr|expire|hget|hset|publish)$/,
};

/**
 * A call that returns a promise. `isOurs`: a known function of this package or of Node.js, so that it
 * certainly returns one.
 */
interface Promised {
  readonly name: string;
  readonly isOurs: boolean;
  readonly fn?: Fn;
}

/** Returns the promise that a call returns, or undefined if the call is unknown or returns none. */
function promiseOf(call: Call, module: SourceModule, sources: Sources, depth = 0): Promised | undefined {
  if (call.isNew) return undefined;
  const meaning = meaningOfCall(call, module);
  if (OURS.test(meaning) && !/\.(?:constants|watch|opendir)$/.test(meaning))
    return { name: meaning.replace(/^svc\./, ''), isOurs: true };
  const { callee } = call;
  if (callee.type === 'member' && callee.property !== undefined) {
    const owner = pathOf(callee.object) ?? '';
    const made = makerOf(callee.object, module);
    const isOfStores = callee.property === 'transaction' && isOtherTransaction(call);
    const isDatabase = DATABASE.test(owner) && OF_DATABASE.test(callee.property) && !isOfStores;
    const isKnown = made !== undefined && OF_CLASSES[made]?.test(callee.property) === true;
    const isBody =
      REQUEST.test(owner) && call.args.length < 2 && /^(?:json|text|form|body)$/.test(callee.property);
    if (isDatabase || isKnown || isBody || (LIMITER.test(owner) && callee.property === 'take'))
      return { name: `${owner}.${callee.property}`, isOurs: true };
  }
  const fn = sources.handlers.resolve(callee, module);
  // `step('load', async () => …)` may return anything
  const isCertain =
    fn?.parent?.type !== 'call' && (callee.type !== 'member' || isMethodOf(callee, fn, module));
  const takesCallback = call.args.some(({ type }) => type === 'function');
  return fn !== undefined && isCertain && !takesCallback && givesPromise(fn, sources, depth)
    ? { name: pathOf(callee) ?? 'the function', isOurs: false, fn }
    : undefined;
}

/**
 * Whether a call to transaction() returns no promise: a transaction of IndexedDB, or of a database with
 * synchronous functions.
 */
function isOtherTransaction({ args: [work], parent }: Call): boolean {
  if (parent?.type === 'member' && parent.property === 'objectStore') return true;
  return work?.type === 'function'
    ? !work.isAsync && work.params.length === 0
    : work?.type === 'list' || work?.type === 'text';
}

/**
 * Whether `fn` is certainly the method that the call runs: the object is `this` in the class of the method, a
 * module, an object literal of the project, or `new` of the class that has the method.
 */
function isMethodOf(callee: Member, fn: Fn | undefined, module: SourceModule): boolean {
  const { object } = callee;
  if (fn === undefined || object.type !== 'name') return false;
  const owner = fn.parent?.parent;
  if (object.name === 'this') return owner?.type === 'class';
  const binding = module.lookup(object.name, object);
  if (binding?.kind === 'module') return true;
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return false;
  const { value } = binding.node;
  if (value?.type === 'object') return value === owner;
  if (value?.type !== 'call' || !value.isNew || value.callee.type !== 'name') return false;
  const made = binding.module.lookup(value.callee.name, value.callee);
  return made?.kind === 'declared' && made.node === owner;
}

/** Whether a function is asynchronous, or returns only promises of other calls. */
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
 * Whether errors of a function can escape: the function throws, or awaits a promise that may reject, outside
 * of `try`.
 */
function mayFail(fn: Fn, sources: Sources, depth = 0): boolean {
  const module = sources.handlers.homeOf(fn);
  let fails = false;
  const visit = (node: Node): void => {
    if (fails || node.type === 'function') return;
    if (node.type === 'try' && node.handler !== undefined)
      return [node.handler, node.finalizer].forEach((part) => part !== undefined && visit(part));
    if (node.type === 'leave' && node.how === 'throw') fails = true;
    const value = node.type === 'await' ? node.value : undefined;
    const returned = node.type === 'leave' && node.value?.type === 'call' ? node.value : undefined;
    const isPromise = returned !== undefined && promiseOf(returned, module, sources) !== undefined;
    const awaited = value ?? (isPromise ? returned : undefined);
    if (awaited !== undefined && isUncaught(awaited, module, sources, depth)) fails = true;
    childrenOf(node).forEach(visit);
  };
  if (fn.isExpression && fn.body[0]!.type === 'call') return isUncaught(fn.body[0]!, module, sources, depth);
  fn.body.forEach(visit);
  return fails;
}

/**
 * Whether nothing catches the rejection of a promise. `load().catch(…)` catches it, and so does a function
 * that awaits only in `try`.
 */
function isUncaught(value: Node, module: SourceModule, sources: Sources, depth: number): boolean {
  if (value.type !== 'call') return true;
  if (calledName(value) === 'catch' || pathOf(value.callee) === 'Promise.allSettled') return false;
  const fn = depth > 2 ? undefined : sources.handlers.resolve(value.callee, module);
  return fn === undefined || mayFail(fn, sources, depth + 1);
}

function findForgotten(sources: Sources, report: ReportNode): void {
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
        `${promise.name}() is not awaited: its promise counts as true, whatever its result is`,
      );
    else if (use === 'statement' && isLost(promise, call, sources))
      report(
        'SVC611',
        module,
        call,
        `${promise.name}() is not awaited: what follows does not wait for it, and its errors are lost`,
        { severity: 'warning' },
      );
    else if (use === 'value' && promise.isOurs)
      report(
        'SVC611',
        module,
        call,
        `${promise.name}() is not awaited: its promise is used as if it were the value`,
      );
    else if (use === 'kept') {
      const kept = keptPromise(call);
      if (kept !== undefined)
        report(
          'SVC611',
          module,
          call,
          `${promise.name}() is not awaited: "${kept}" is a promise instead of its result`,
        );
    }
  }
}

/**
 * Whether the errors of a promise are lost. For functions of the project, only calls that requests reach
 * count.
 */
function isLost({ isOurs, fn }: Promised, call: Call, sources: Sources): boolean {
  if (isOurs || fn === undefined) return true;
  return sources.reachedFrom(functionAround(call)) !== undefined && mayFail(fn, sources);
}

/**
 * Returns how code uses the promise of a call: ignores it, tests it, stores it in a variable, or uses it as a
 * value. Undefined if it may be awaited.
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

/**
 * Whether a list holds the parameters of an SQL statement: `db.execute('…', [name, hashPassword(password)])`.
 */
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
 * Returns the variable that holds the promise, if all code uses it as the result: tests it or reads a member
 * of it.
 */
function keptPromise(call: Call): string | undefined {
  const declarator = call.parent;
  const fn = functionAround(call);
  if (declarator?.type !== 'declarator' || fn === undefined) return undefined;
  if (declarator.target.type === 'object' || declarator.target.type === 'list')
    return 'what is taken out of it';
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
    else isAwaited = true; // the promise may be awaited, or passed on
  });
  return isMisused && !isAwaited ? name : undefined;
}

// -- SVC612: asynchronous callbacks of array methods --

const TESTS = /^(?:filter|some|every|find|findIndex|findLast|sort|toSorted)$/;

function findAsyncCallbacks(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const name = call.callee.type === 'member' ? calledName(call) : undefined;
    const [callback] = call.args;
    if (name === undefined || callback === undefined || !(name === 'forEach' || TESTS.test(name))) continue;
    const fn =
      callback.type === 'function'
        ? callback
        : callback.type === 'name'
          ? sources.handlers.resolve(callback, module)
          : undefined;
    if (fn?.isAsync !== true) continue;
    if (TESTS.test(name))
      report(
        'SVC612',
        module,
        callback,
        `${name}() receives a promise from its callback, which counts as true for every element`,
        { severity: 'error' },
      );
    else if (call.parent?.type !== 'await' && awaits(fn) && mayFail(fn, sources))
      report(
        'SVC612',
        module,
        callback,
        'forEach() does not await its callback: later code runs before the callback ends, and errors of the callback are lost',
      );
  }
}

function awaits(fn: Fn): boolean {
  let found = false;
  walk(fn, ({ type }) => {
    found ||= type === 'await';
    return !found;
  });
  return found;
}

// -- SVC613: pipe() without an error handler --

const STREAMS =
  /(?:createReadStream|createWriteStream|create(?:Gzip|Gunzip|Deflate|Inflate|Brotli\w+)|Readable\.from)\b/;

function findPipes(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (call.callee.type !== 'member' || call.callee.property !== 'pipe' || call.args.length === 0) continue;
    if (call.parent?.type === 'member' && call.parent.property === 'on') continue;
    // a function such as finished() handles the errors: `await finished(source.pipe(target))`
    if (call.parent?.type === 'call') continue;
    const { object } = call.callee;
    const text = [object, call.args[0]!].map((node) => sourceOf(node, module)).join(' ');
    if (/Readable\.from\((?:Buffer|\[|['"`])/.test(text)) continue; // a text in memory cannot fail
    if (!STREAMS.test(text) || /^process\.std(?:out|err)$/.test(pathOf(call.args[0]!) ?? '')) continue;
    const name = pathOf(object);
    const around = functionAround(call);
    const code = module.source.slice(around?.start ?? 0, around?.end);
    const target = pathOf(call.args[0]!);
    if (
      around !== undefined &&
      returnsOf(around).some((value) => pathOf(value) !== undefined && [name, target].includes(pathOf(value)))
    )
      continue;
    const handles =
      /\.(?:on|once)\(\s*['"]error['"]/.test(code) || (name !== undefined && /\bfinished\(/.test(code));
    if (!handles)
      report(
        'SVC613',
        module,
        call,
        'pipe() does not forward errors: an error of one stream ends the process, or leaves the other stream open',
      );
  }
}

/** Returns the source text of an expression; for a variable, the text of its initial value. */
function sourceOf(node: Node, module: SourceModule): string {
  const written = module.source.slice(node.start, node.end);
  if (node.type !== 'name') return written;
  const binding = module.lookup(node.name, node);
  const value =
    binding?.kind === 'declared' && binding.node.type === 'declarator' ? binding.node.value : undefined;
  return value === undefined ? written : module.source.slice(value.start, value.end);
}

// -- SVC614: statements outside of their transaction --

function findOutsideTransaction(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (call.callee.type !== 'member' || call.callee.property !== 'transaction') continue;
    const owner = pathOf(call.callee.object);
    const [work] = call.args;
    if (owner === undefined || !DATABASE.test(owner) || work?.type !== 'function') continue;
    const isRenamed = work.params.some((param) => param.type === 'name' && param.name === owner);
    if (isRenamed || isOtherTransaction(call)) continue;
    walk(work, (node) => {
      if (node.type !== 'call') return;
      const passed = node.args.find((arg) => pathOf(arg) === owner);
      if (passed !== undefined && sources.handlers.resolve(node.callee, module) !== undefined)
        report(
          'SVC614',
          module,
          passed,
          `${owner} is passed on inside ${owner}.transaction(): its statements are not part of the transaction`,
          { severity: 'warning' },
        );
      if (node.callee.type !== 'member' || pathOf(node.callee.object) !== owner) return;
      if (OF_DATABASE.test(node.callee.property ?? '') || node.callee.property === 'stream')
        report(
          'SVC614',
          module,
          node,
          `${owner}.${node.callee.property!}() inside ${owner}.transaction() is not part of the transaction`,
        );
    });
  }
}

// -- SVC634: request bodies collected without a limit --

function findCollected(sources: Sources, report: ReportNode): void {
  const isBounded = sources.project.modules.some(({ source }) => /\bmaxBodyBytes\s*:/.test(source));
  for (const { module, node: loop } of sources.all('loop')) {
    if (loop.kind !== 'of' || !/^for\s+await\b/.test(module.source.slice(loop.start, loop.start + 20)))
      continue;
    const over = loop.head[1]!; // the declaration of a for-of loop has two parts
    const call = over.type === 'call' ? over : undefined;
    const path = pathOf(call?.callee ?? over) ?? '';
    if (!/(?:^|\.)(?:req|request)(?:\.stream|\.raw)?$/.test(path)) continue;
    if (call !== undefined && (isBounded || call.args.length > 0)) continue;
    reportCollecting(loop.body, module, over, report);
  }
  for (const { module, node: call } of sources.all('call')) {
    if (call.callee.type !== 'member' || call.callee.property !== 'on') continue;
    const [event, listener] = call.args;
    if (event?.type !== 'text' || event.value !== 'data' || listener?.type !== 'function') continue;
    if (/(?:^|\.)(?:req|request)$/.test(pathOf(call.callee.object) ?? '') && !isOfAnswer(call, module))
      reportCollecting(listener, module, call, report);
  }
}

/**
 * Whether the variable `request` holds a response of another server:
 * `https.get(url, (request) => { request.on('data', …); })`.
 */
function isOfAnswer(call: Call, module: SourceModule): boolean {
  const around = functionAround(call)?.parent;
  const object = call.callee.type === 'member' ? call.callee.object : call;
  return (
    makerOf(object, module) !== undefined ||
    (around?.type === 'call' && /^https?\.(?:get|request)$/.test(meaningOfCall(around, module)))
  );
}

function reportCollecting(body: Node, module: SourceModule, at: Node, report: ReportNode): void {
  let keeps = false;
  let measures = false;
  walk(body, (node) => {
    if (node.type === 'call' && calledName(node) === 'push') keeps = true;
    if (
      node.type === 'assign' &&
      node.operator === '+=' &&
      !/\.(?:length|byteLength)$/.test(pathOf(node.value) ?? '')
    )
      keeps = true;
    if (node.type === 'binary' && /^[<>]=?$/.test(node.operator)) measures = true;
  });
  if (keeps && !measures)
    report('SVC634', module, at, 'the body is collected without a limit: one client can fill the memory');
}

// -- SVC635: outbound calls without a time limit --

function findEndless(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    if (
      !/^(?:fetch|undici\.fetch|https?\.(?:get|request)|axios(?:\.(?:get|post|put|patch|delete|request))?)$/.test(
        meaning,
      )
    )
      continue;
    if (sources.reachedFrom(functionAround(call)) === undefined) continue;
    const isOther = call.args.slice(1).some(({ type }) => type !== 'object' && type !== 'function');
    const hasSpread = call.args.some(
      (arg) => arg.type === 'object' && arg.entries.some(({ type }) => type === 'spread'),
    );
    const isLimited = ['signal', 'timeout', 'dispatcher'].some((key) =>
      call.args.some((arg) => entryOf(arg, key) !== undefined),
    );
    if (isOther || hasSpread || isLimited || /\.setTimeout\(/.test(parentText(call, module))) continue;
    report(
      'SVC635',
      module,
      call,
      `${meaning.replace('undici.', '')}() has no time limit${meaning.endsWith('fetch') ? ' below 300 s' : ''}: a slow service also blocks the client`,
    );
  }
}

function parentText(call: Call, module: SourceModule): string {
  const around = functionAround(call);
  return module.source.slice(around?.start ?? call.start, around?.end ?? call.end);
}

// -- SVC501 in functions that handlers call --

function findBlockingHelpers(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    const name = calledName(call);
    if (name === undefined || !isBlockingName(name)) continue;
    const around = functionAround(call);
    const from = sources.reachedFrom(around);
    // code-rules.ts checks calls in the handler itself
    if (from === undefined || isWithin(call, from) || isOnce(call, module) || isKept(call)) continue;
    if (isCalledOnce(around!, sources)) continue;
    if (sources.handlers.resolve(call.callee, module) !== undefined) continue;
    report(
      'SVC501',
      module,
      call,
      `${name}() blocks every other request: handlers call "${around!.name ?? nameOf(around!) ?? 'this function'}"`,
    );
  }
}

function nameOf(fn: Fn): string | undefined {
  return fn.parent?.type === 'declarator' && fn.parent.target.type === 'name'
    ? fn.parent.target.name
    : undefined;
}

/** Whether an expression calls get(), as a cache does: `cache.get(path) ?? readFileSync(path)`. */
function readsCache(node: Node): boolean {
  let found = false;
  walk(node, (part) => {
    if (part.type === 'call' && calledName(part) === 'get') found = true;
  });
  return found;
}

/**
 * Whether a call runs only the first time: `text ??= readFileSync(…)` or `if (text === undefined) text = …`.
 */
function isOnce(call: Call, { source }: SourceModule): boolean {
  for (let at: Node | undefined = call; at !== undefined && at.type !== 'function'; at = at.parent) {
    if (at.type === 'assign' && /^(?:\?\?|\|\|)=$/.test(at.operator)) return true;
    if (at.type === 'binary' && /^(?:\?\?|\|\|)$/.test(at.operator) && readsCache(at.left)) return true;
    if (at.type !== 'if' || at.parent === undefined) continue;
    const { test } = at;
    const tested =
      test.type === 'unary' && test.operator === '!'
        ? test.value
        : test.type === 'binary'
          ? test.left
          : undefined;
    const name = tested === undefined ? undefined : source.slice(tested.start, tested.end);
    let isSet = false;
    walk(at.yes, (node) => {
      if (node.type === 'assign' && source.slice(node.target.start, node.target.end) === name) isSet = true;
      if (node.type === 'call' && calledName(node) === 'set' && /\.(?:has|get)\(/.test(name ?? ''))
        isSet = true;
    });
    if (isSet) return true;
  }
  return false;
}

/** Whether a call runs only the first time: `if (text) return text; text = readFileSync(…); return text;`. */
function isKept(call: Call): boolean {
  const { parent } = call;
  const path = parent?.type === 'assign' ? pathOf(parent.target) : undefined;
  const fn = functionAround(call);
  if (path === undefined || fn === undefined) return false;
  return fn.body.some(
    (statement) =>
      statement.type === 'if' &&
      statement.end <= call.start &&
      returnsValue(statement.yes, path) &&
      mentionsPath(statement.test, path),
  );
}

function returnsValue(node: Node, path: string): boolean {
  const last = node.type === 'block' ? node.body.at(-1) : node;
  return (
    last?.type === 'leave' && last.how === 'return' && last.value !== undefined && pathOf(last.value) === path
  );
}

function mentionsPath(node: Node, path: string): boolean {
  let found = false;
  walk(node, (part) => {
    if (pathOf(part) === path) found = true;
    return !found;
  });
  return found;
}

/** Whether every call of a function runs only the first time. */
function isCalledOnce(fn: Fn, sources: Sources): boolean {
  const name = fn.name ?? nameOf(fn);
  if (name === undefined) return false;
  const calls = sources.all('call').filter(({ node }) => calledName(node) === name);
  return calls.length > 0 && calls.every(({ node, module }) => isOnce(node, module));
}
