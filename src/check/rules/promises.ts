/**
 * Rules about asynchronous code: promises and errors that nothing receives (SVC611, SVC612, SVC613), what ends the process or
 * keeps it in a broken state (SVC663), and work that starts again before it has ended (SVC664).
 */
import {
  calledName,
  classAround,
  functionAround,
  isWithin,
  leaveIn,
  loopAround,
  methodOf,
  nodesAround,
  objectOf,
  partsIn,
  partsOf,
  pathOf,
  returnsOf,
  triesAround,
} from '../reader/nodes.ts';
import { literal, numberOf } from '../reader/constants.ts';
import { callsIn, isCommand, writtenOf } from '../sources.ts';
import { isTimer } from '../values/calls.ts';
import { ROW } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { hasMark } from '../values/value.ts';
import { ASKS } from './availability.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Assign, Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { MisusedPromise } from '../values/promises.ts';
import type { RouteCall } from '../values/functions.ts';
import type { Closure, Promised } from '../values/value.ts';

/** Rules about asynchronous code, sorted by id. */
export const PROMISE_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC611', onCall: findLostErrors },
  {
    id: 'SVC611',
    severity: 'error',
    cwe: [252, 253],
    why: 'A promise always counts as true, so a condition that tests a promise lets every client in. Errors of promises that no code awaits are lost',
    remedy: 'Await the promise, return it, or pass it to BackgroundTasks',
    wrong: 'if (!checkPassword(password, hash)) throw new Unauthorized();',
    right: 'if (!(await checkPassword(password, hash))) throw new Unauthorized();',
    watch: (report, sources) => watchPromises((misused) => reportForgotten(misused, sources, report)),
  },
  {
    id: 'SVC612',
    severity: 'warning',
    cwe: [252],
    why: 'Array methods do not wait for asynchronous callbacks',
    remedy: 'Use for (const each of list) { await … }, or await Promise.all(list.map(…))',
    wrong: 'items.forEach(async (item) => { await save(item); });',
    right: 'for (const item of items) await save(item);',
    watch: (report, sources) => watchPromises((misused) => reportCallback(misused, sources, report)),
  },
  {
    id: 'SVC613',
    severity: 'warning',
    cwe: [755],
    why: 'If a stream, socket or child process has no listener for errors, an error ends the process. After an error, pipe() leaves the second stream open',
    remedy:
      'Use await pipeline(source, target) of node:stream/promises, return new StreamingResponse(source), or add a listener: child.on("error", reject)',
    wrong: 'source.pipe(target)',
    right: 'await pipeline(source, target)',
    watch: watchPipes,
    find: findUnheard,
  },
  {
    id: 'SVC663',
    severity: 'warning',
    cwe: [705, 248],
    sources: ['Node.js: process, Event "uncaughtException"'],
    why: 'A call of process.exit() ends the requests of all other clients. After an exception that nothing has caught, locks, connections and variables may be in any state',
    remedy:
      'In a request, throw an error: throw new HTTPException(503). After an uncaught exception, write it to the log and end the process',
    wrong: "process.on('uncaughtException', (error) => console.error(error));",
    right: "process.on('uncaughtException', (error) => { console.error(error); process.exit(1); });",
    find: findExits,
    watch: watchUncaught,
  },
  {
    id: 'SVC664',
    severity: 'warning',
    cwe: [362],
    why: 'While another service is slow, each tick starts the same work once more: rows are sent twice, and the load grows until the process has no memory',
    remedy:
      'Start the next run when this one has ended, in a loop with a pause, or return at once if a run is going on',
    wrong: 'const timer = timers.setInterval(sendOutbox, 1_000);',
    right: 'while (!signal.aborted) { await sendOutbox(); await sleep(1_000, undefined, { signal }); }',
    onCall: findOverlaps,
  },
  {
    id: 'SVC675',
    severity: 'warning',
    cwe: [190],
    sources: ['Node.js documentation: timers'],
    why: 'Node.js takes a delay above 2147483647 ms, which is 24.8 days, for 1 ms: the work runs at once, and an interval without a pause',
    remedy:
      'Store when the work is due, and look for due rows every minute: select id from trial where ends_at < now()',
    wrong: 'timers.setTimeout(expire, 30 * 24 * 60 * 60 * 1000)',
    right: "db.execute('update trial set ends_at = ? where id = ?', [end, id])",
    onCall: findLongTimers,
  },
];

/** Longest delay of a timer, in milliseconds: a signed integer of 32 bits. */
const LONGEST = 2 ** 31 - 1;

/** SVC675: a delay that is too long for a timer. */
function findLongTimers({ call, module, meaning, written }: Site, report: ReportAt): void {
  if (!/^(?:(?:timers\.)?set(?:Timeout|Interval)|timers\/promises\.set(?:Timeout|Interval))$/.test(meaning))
    return;
  const delay = call.args[meaning.startsWith('timers/promises') ? 0 : 1];
  const at = delay && written(delay);
  const length = numberOf(at?.node, at?.module);
  if (length === undefined || length <= LONGEST || length === Infinity) return;
  report(
    { module, node: call },
    `the delay of ${length} ms is longer than the 2147483647 ms of a timer, so the timer ends after 1 ms`,
  );
}

/** Collects promises, and judges them once all functions are known. */
function watchPromises(judge: (misused: MisusedPromise) => void): Watch {
  const all: MisusedPromise[] = [];
  return { onPromise: (misused) => void all.push(misused), finish: () => all.forEach(judge) };
}

/** SVC612: asynchronous callbacks of array methods. */
function reportCallback(
  { promise, use, node, module }: MisusedPromise,
  sources: Sources,
  report: ReportAt,
): void {
  if (use === 'tested')
    report({ module, node }, 'the callback returns a promise, which counts as true for every element', {
      severity: 'error',
    });
  if (use !== 'each' || !promise.mayFail) return;
  if (isOfRequest(node, promise, sources))
    report(
      { module, node },
      'forEach() does not await its callback: later code runs before the callback ends, and errors of the callback are lost',
    );
}

/** SVC611: promises that are not awaited. */
function reportForgotten(
  { promise, use, node, module }: MisusedPromise,
  sources: Sources,
  report: ReportAt,
): void {
  if (use === 'tested' || use === 'each') return;
  if (use === 'kept') return reportKept({ promise, use, node, module }, sources, report);
  if (use === 'timer') {
    const isHandled = !promise.mayFail || hasListener(sources);
    if (!isHandled && !isCommand(module))
      report(
        { module, node },
        'the callback of a timer or event returns a promise that nothing awaits: an error in it ends the process',
        { severity: 'warning', remedy: 'Catch errors in the callback, and log them' },
      );
    return;
  }
  const at = { node: promise.call ?? node, module: promise.call === undefined ? module : promise.module };
  const name = nameOf(promise, at.module);
  if (use === 'condition')
    report(at, `${name} is not awaited: the condition tests its promise, which always counts as true`);
  else if (use === 'value')
    report(at, `${name} is not awaited: the code uses its promise in place of the result`);
  else if (isLost(promise, at.node, sources))
    report(
      at,
      `${name} is not awaited: the code after the call does not wait for the result, and errors of the call are lost`,
      { severity: 'warning' },
    );
}

/** SVC611: a promise that is made once and kept, also after it failed. */
function reportKept(
  { promise: { mayFail, by }, node, module }: MisusedPromise,
  sources: Sources,
  report: ReportAt,
): void {
  // a file or key that cannot be read stays so
  if (node.type !== 'assign' || !mayFail || /^(?:fs|crypto)\b|subtle/.test(by ?? '')) return;
  const isOnce = node.operator === '=' ? isOnlyFirst(node) : functionAround(node) !== undefined;
  const path = pathOf(node.target);
  const isForgotten = sources
    .all('assign')
    .some((other) => other.module === module && other.node !== node && isReset(other.node, node, path));
  if (!isOnce || path === undefined || isForgotten) return;
  report(
    { module, node },
    `"${path}" keeps the promise also if it fails: after one error, every later use gets the same error until the process restarts`,
    {
      severity: 'warning',
      remedy:
        'Forget the promise when it fails: load().catch((error) => { promise = undefined; throw error; })',
    },
  );
}

/** Whether code sets a variable only the first time: `if (!provider) provider = start(req)`. */
function isOnlyFirst({ target, parent }: Assign): boolean {
  const path = pathOf(target);
  let at = parent;
  while (at?.type === 'statement' || at?.type === 'block') at = at.parent;
  if (at?.type !== 'if') return false;
  const { test } = at;
  if (test.type === 'unary' && test.operator === '!') return pathOf(test.value) === path;
  return test.type === 'binary' && /^===?$/.test(test.operator) && pathOf(test.left) === path;
}

/** Whether an assignment replaces what another one has kept. */
function isReset(assign: Assign, kept: Assign, path: string | undefined): boolean {
  const isSame = path?.startsWith('this.') !== true || classAround(assign) === classAround(kept);
  return isSame && assign.operator === '=' && pathOf(assign.target) === path && !isOnlyFirst(assign);
}

function nameOf({ call, by }: Promised, module: SourceModule): string {
  if (call === undefined) return 'the callback';
  const written = pathOf(call.callee) ?? writtenOf(module, call.callee);
  return `${by !== undefined && /^(?:svc|fs)\b/.test(by) && call.callee.type === 'name' ? by.replace(/^svc(?:\/\w+)?\./, '') : written}()`;
}

/**
 * Whether the error of a promise is lost. For a function of the project, this is true only if requests or timers reach
 * the call, and the project has no listener for rejections.
 */
function isLost(promise: Promised, node: Node, sources: Sources): boolean {
  if (promise.by !== undefined) return promise.mayFail || /^timers/.test(promise.by);
  const isRun = isOfRequest(node, promise, sources) || isOfTimer(node);
  return promise.mayFail && isRun && !hasListener(sources);
}

/** Whether a timer calls the function around a place. */
function isOfTimer(node: Node): boolean {
  const call = functionAround(node)?.parent;
  return call?.type === 'call' && /^set(?:Interval|Timeout|Immediate)$/.test(calledName(call) ?? '');
}

/** Whether requests reach a place. */
function isOfRequest(node: Node, { fn }: Promised, sources: Sources): boolean {
  return sources.handlers.reachedFrom(functionAround(node) ?? fn) !== undefined;
}

/** Whether the project listens for unhandled rejections: `process.on('unhandledRejection', …)`. */
function hasListener({ project }: Sources): boolean {
  return project.modules.some(({ source }) => /['"]unhandledRejection['"]/.test(source));
}

/** Functions of Node.js that create streams. Streams of other packages may handle their errors themselves. */
const STREAMS =
  /^(?:fs|fs-extra|graceful-fs|zlib)\.create(?:ReadStream|WriteStream|Gzip|Gunzip|Deflate|Inflate|Brotli\w+)$/;

/** SVC613: calls of pipe() without an error handler. */
function watchPipes(report: ReportAt, sources: Sources): Watch {
  const piped: Site[] = [];
  /** Calls that add a listener for errors, or wait for the end of a stream. */
  const listening: Call[] = [];
  return {
    onCall(site) {
      const { call, meaning, receiver, value } = site;
      const first = value(call.args[0]);
      const isListener = /^(?:on|once)$/.test(methodOf(call)) && constantIn(first) === 'error';
      if (isListener || /^stream(?:\/promises)?\.finished$/.test(meaning)) listening.push(call);
      const isOfNode = [receiver, first].some((stream) => STREAMS.test(stream?.type ?? ''));
      if (methodOf(call) === 'pipe' && isOfNode && site.fn === undefined) piped.push(site);
    },
    finish() {
      for (const { call, module } of piped) {
        const around = functionAround(call);
        // an error may end a script, so code outside of functions is not reported
        if (around === undefined || isCommand(module) || endsInOutput(call)) continue;
        const outer = outerOf(around, sources);
        if (listening.some((each) => isWithin(each, outer)) || isHandedOn(call, around)) continue;
        report(
          { module, call },
          'pipe() does not forward errors: an error of one of the two streams ends the process, or leaves the second stream open',
        );
      }
    },
  };
}

/** Whether other code receives a stream and handles its errors: as an argument, or as the result of the function. */
function isHandedOn(call: Call, around: Fn): boolean {
  const names = [objectOf(call) ?? call, ...call.args].map(pathOf);
  return (
    call.parent?.type === 'call' ||
    returnsOf(around).some((value) => pathOf(value) !== undefined && names.includes(pathOf(value)))
  );
}

/** Returns the function around nested callbacks, because its code may add the listeners for errors. */
function outerOf(fn: Fn, sources: Sources): Fn {
  const around = functionAround(fn);
  const isCallback = fn.parent?.type === 'call' && !sources.handlers.isHandler(fn);
  return isCallback && around !== undefined ? outerOf(around, sources) : fn;
}

/**
 * Whether a chain of pipe() calls ends in the output of the process:
 * `source.pipe(gunzip).pipe(process.stdout)`.
 */
function endsInOutput(call: Call): boolean {
  const { parent, args } = call;
  // the callers pass only calls with an argument, so `args[0]` exists
  if (/^process\.std(?:out|err)$/.test(pathOf(args[0]!) ?? '')) return true;
  const next = parent?.type === 'member' && parent.property === 'pipe' ? parent.parent : undefined;
  return next?.type === 'call' && next.args.length > 0 && endsInOutput(next);
}

/** Functions of Node.js whose results emit errors that end the process if nothing listens. */
const EMITS_ERRORS =
  /^(?:fs|fs-extra|graceful-fs)\.create(?:Read|Write)Stream$|^child_process\.(?:spawn|fork)$|^(?:net|tls)\.(?:connect|createConnection)$|^https?\.(?:get|request)$/;

/** SVC613: streams, sockets and child processes on which nothing listens for errors. */
function findUnheard(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.called(EMITS_ERRORS))
    if (!isCommand(module) && isUnheard(call))
      report(
        { module, call },
        'nothing listens for errors of what this call starts, so an error event ends the process',
      );
}

/** Whether code only calls methods of the result of a call, and adds no listener for errors. */
function isUnheard(call: Call): boolean {
  const [end, methods] = chainOf(call);
  const { parent } = end;
  if (methods.some(hears)) return false;
  if (parent?.type === 'statement') return true;
  if (parent?.type !== 'declarator' || parent.target.type !== 'name') return false;
  const { name } = parent.target;
  const around: Node = functionAround(call) ?? nodesAround(call).toArray().at(-1)!; // at least the module is around
  const uses = partsIn(around).filter(
    (part) => part.type === 'name' && part.name === name && part.parent !== parent,
  );
  return (
    uses.length > 0 &&
    uses.every(
      (use) => use.parent?.type === 'member' && use.parent.object === use && !chainOf(use)[1].some(hears),
    )
  );
}

/** Returns the end of a chain of calls, such as `spawn(…).on(…).unref()`, and the calls after its beginning. */
function chainOf(begin: Node): readonly [end: Node, calls: readonly Call[]] {
  const calls: Call[] = [];
  let end = begin;
  while (end.parent?.type === 'member' || (end.parent?.type === 'call' && end.parent.callee === end)) {
    end = end.parent;
    if (end.type === 'call') calls.push(end);
  }
  return [end, calls];
}

/** Whether a call adds a listener for errors, or hands the stream on. */
function hears(call: Call): boolean {
  const [event] = call.args;
  const isError = event?.type !== 'text' || event.value === 'error';
  return methodOf(call) === 'pipe' || (/^(?:on|once|addListener)$/.test(methodOf(call)) && isError);
}

/** Functions of Node.js that call their last argument later, outside of the code that has passed it. */
const CALLS_LATER = /^(?:fs|crypto|zlib|dns|child_process)\.(?!\w+Sync$)\w+$/;

/** SVC611: errors of callbacks that no code can catch. */
function findLostErrors({ call, meaning, value }: Site, report: ReportAt): void {
  const isExecutor = meaning === 'Promise' && call.isNew;
  const given = value(isExecutor || isTimer(meaning) ? call.args[0] : call.args.at(-1))?.fn;
  if (given === undefined) return;
  const { fn, module } = given;
  if (isExecutor && fn.isAsync) {
    const lost = partsOf(fn).some((part) => part.type === 'await' && !isCaughtIn(part, fn));
    if (lost)
      report(
        { module, node: fn },
        'new Promise() ignores the promise of an asynchronous function: after an error in it, nothing ever settles',
        { severity: 'warning', remedy: 'Leave new Promise() out: return the promise of an async function' },
      );
  } else if (isTimer(meaning) || CALLS_LATER.test(meaning)) {
    const thrown = leaveIn(fn, /^throw$/);
    if (thrown !== undefined && !fn.isAsync && !isCaughtIn(thrown, fn))
      report(
        { module, node: thrown },
        'no code can catch what this callback throws, because Node.js calls it later: the error ends the process',
        {
          severity: 'warning',
          remedy: 'Hand the error on: reject(error), or use the functions that return promises',
        },
      );
  }
}

/** Whether a `try` of a function has a part in its block, and a `catch`. */
function isCaughtIn(part: Node, fn: Fn): boolean {
  return triesAround(part).some((around) => around.handler !== undefined && isWithin(around, fn));
}

const EXITS = /^process\.(?:exit|abort|kill|reallyExit)$/;

/** SVC663: calls that end the process, in functions that requests reach. */
function findExits(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call'))
    if (/^process\.(?:exit|abort)$/.test(pathOf(call.callee) ?? '') && sources.isReached(call))
      report(
        { module, call },
        'a request ends the whole process, and with it the requests of all other clients',
      );
}

/** SVC663: listeners that let the process go on after an exception that nothing has caught. */
function watchUncaught(report: ReportAt, sources: Sources): Watch {
  const listeners: (RouteCall & { readonly given: Closure })[] = [];
  return {
    onCall({ call, meaning, module, value }) {
      const [event, listener] = call.args.map((arg) => value(arg));
      const given = listener?.fn;
      if (/^process\.(?:on|once)$/.test(meaning) && constantIn(event) === 'uncaughtException' && given)
        listeners.push({ module, call, given });
    },
    finish() {
      for (const { given, ...at } of listeners) {
        const { fn, module: home } = given;
        const ends =
          leaveIn(fn, /^throw$/) !== undefined ||
          partsIn(fn).some((part) => part.type === 'assign' && pathOf(part.target) === 'process.exitCode') ||
          callsIn(fn, home, sources).some(
            (each) =>
              EXITS.test(pathOf(each.call.callee) ?? '') ||
              /^(?:shutdown|stop|close)$/.test(methodOf(each.call)),
          );
        if (!ends)
          report(at, 'the process goes on after an exception that nothing has caught, in an unknown state');
      }
    },
  };
}

/** Longer intervals are seldom shorter than the work. */
const SHORT_INTERVAL = 60_000;

/** SVC664: an interval whose callback sends a request for each of several rows, and does not look whether a run is going on. */
function findOverlaps({ call, meaning, stack, value }: Site, report: ReportAt): void {
  if (!ASKS.test(meaning)) return;
  const at = stack.findLastIndex(({ fn }) => intervalOf(fn) !== undefined);
  const timer = at === -1 ? undefined : intervalOf(stack[at]!.fn);
  if (timer === undefined) return;
  const frames = stack.slice(at);
  const [, delay] = timer.args;
  const period = numberOf(delay && literal(delay, stack[at]!.module)) ?? Infinity;
  const isRepeated = [call, ...frames.map((frame) => frame.call)].some((each) => {
    const loop = each && loopAround(each);
    return loop?.kind === 'of' && hasMark(value(loop.head[1]), ROW);
  });
  if (isRepeated && period <= SHORT_INTERVAL && !looksForRun(frames.map(({ fn }) => fn)))
    report(
      { module: stack[at]!.module, call: timer },
      'the interval starts the work again while an earlier run may still send its requests, so rows are sent twice',
    );
}

function intervalOf({ parent }: Fn): Call | undefined {
  return parent?.type === 'call' && /^(?:timers\.)?set(?:Interval)$/.test(pathOf(parent.callee) ?? '')
    ? parent
    : undefined;
}

/** Whether functions test a variable that they set, such as `isRunning`. */
function looksForRun(functions: readonly Fn[]): boolean {
  const parts = functions.flatMap(partsIn);
  const set = new Set(parts.map((part) => (part.type === 'assign' ? pathOf(part.target) : undefined)));
  return parts.some(
    (part) =>
      (part.type === 'assign' && part.operator === '??=') ||
      (part.type === 'if' &&
        partsIn(part.test).some((each) => pathOf(each) !== undefined && set.has(pathOf(each)))),
  );
}
