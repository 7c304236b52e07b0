/**
 * Rules about promises that are not awaited (SVC611), and asynchronous callbacks of array methods (SVC612). The evaluation
 * tells which values are promises.
 */
import { calledName, classAround, functionAround, pathOf } from '../reader/nodes.ts';
import { isCommand, writtenOf } from '../sources.ts';
import type { SourceModule } from '../reader/modules.ts';
import { isOnlyFirst } from './state.ts';
import type { Assign, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { MisusedPromise } from '../values/promises.ts';
import type { Promised } from '../values/value.ts';

/** Rules about promises, sorted by id. */
export const PROMISE_RULES: readonly SourceRule[] = [
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
];

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
  if (use === 'kept') return reportKept(promise, node, module, sources, report);
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
  { mayFail, by }: Promised,
  node: Node,
  module: SourceModule,
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
  return sources.reachedFrom(functionAround(node) ?? fn) !== undefined;
}

/** Whether the project listens for unhandled rejections: `process.on('unhandledRejection', …)`. */
function hasListener({ project }: Sources): boolean {
  return project.modules.some(({ source }) => /['"]unhandledRejection['"]/.test(source));
}
