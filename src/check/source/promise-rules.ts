/**
 * Rules about promises that are not awaited (SVC611), and asynchronous callbacks of array methods (SVC612). The evaluation
 * tells which values are promises.
 */
import { functionAround, pathOf } from '../reader/nodes.ts';
import { writtenOf } from './sources.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { MisusedPromise } from '../values/promises.ts';
import type { Promised } from '../values/value.ts';
import type { ReportNode, Sources } from './sources.ts';

/** Names of variables that hold databases or transactions. */
export const DATABASE: RegExp = /(?:^|\.)#?_?(?:db|tx|trx|database)$/i;
/** Methods of databases that return promises. */
export const OF_DATABASE: RegExp =
  /^(?:execute|executeMany|fetchOne|fetchAll|fetchArrays|scalar|script|transaction)$/;

/**
 * Whether a call of transaction() does not run the asynchronous method of this package, but a method of
 * IndexedDB or of a synchronous database.
 */
export function isOtherTransaction({ args: [work] }: Call): boolean {
  return work?.type !== 'function' || (!work.isAsync && work.params.length === 0);
}

/** Reports a promise that code uses without `await`. */
export function reportPromise(misused: MisusedPromise, sources: Sources, report: ReportNode): void {
  const { promise, use, node, module } = misused;
  if (use === 'tested')
    report('SVC612', module, node, 'the callback returns a promise, which counts as true for every element', {
      severity: 'error',
    });
  else if (use === 'each') {
    if (promise.mayFail && isOfRequest(node, promise, sources) && !isOnPurpose(node, module))
      report(
        'SVC612',
        module,
        node,
        'forEach() does not await its callback: later code runs before the callback ends, and errors of the callback are lost',
      );
  } else reportForgotten(misused, sources, report);
}

/** SVC611: promises that are not awaited. */
function reportForgotten(
  { promise, use, node, module }: MisusedPromise,
  sources: Sources,
  report: ReportNode,
): void {
  const at = { node: promise.call ?? node, module: promise.call === undefined ? module : promise.module };
  const name = nameOf(promise, at.module);
  if (use === 'condition')
    report(
      'SVC611',
      at.module,
      at.node,
      `${name} is not awaited: the condition tests its promise, which always counts as true`,
    );
  else if (use === 'value')
    report(
      'SVC611',
      at.module,
      at.node,
      `${name} is not awaited: the code uses its promise in place of the result`,
    );
  else if (isLost(promise, at.node, sources) && !isOnPurpose(at.node, at.module))
    report(
      'SVC611',
      at.module,
      at.node,
      `${name} is not awaited: the code after the call does not wait for the result, and errors of the call are lost`,
      { severity: 'warning' },
    );
}

function nameOf({ call, by }: Promised, module: SourceModule): string {
  if (call === undefined) return 'the callback';
  const written = pathOf(call.callee) ?? writtenOf(module, call.callee);
  return `${by !== undefined && /^(?:svc|fs)\b/.test(by) && call.callee.type === 'name' ? by.replace(/^svc(?:\/\w+)?\./, '') : written}()`;
}

/**
 * Whether the error of a promise is lost. For a function of the project, this is true only if requests reach
 * the call, and the project has no listener for rejections.
 */
function isLost(promise: Promised, node: Node, sources: Sources): boolean {
  if (promise.by !== undefined) return promise.mayFail || /^timers/.test(promise.by);
  return promise.mayFail && isOfRequest(node, promise, sources) && !hasListener(sources);
}

/** Whether requests reach a place. */
function isOfRequest(node: Node, { fn }: Promised, sources: Sources): boolean {
  return sources.reachedFrom(functionAround(node) ?? fn) !== undefined;
}

const ON_PURPOSE =
  /\/?[/*].*(?:fire[- ]and[- ]forget|on purpose|intentional|deliberate|background|do(?:n't| not) (?:a?wait|block)|no-(?:floating|misused)-promises)/i;

/**
 * Whether a comment at or above a call says that code deliberately does not await it: `// fire and forget`.
 */
function isOnPurpose({ start, end }: Node, { source }: SourceModule): boolean {
  const lines = source.slice(0, start).split('\n');
  const own = `${lines.pop()!}${source.slice(start, end)}${source.slice(end).split('\n', 1)[0]!}`;
  const above = lines.slice(lines.findLastIndex((line) => !/^\s*(?:\/\/|\/?\*)/.test(line)) + 1);
  return [...above, own].some((line) => ON_PURPOSE.test(line));
}

/** Whether the project listens for unhandled rejections: `process.on('unhandledRejection', …)`. */
function hasListener({ project }: Sources): boolean {
  return project.modules.some(({ source }) => /['"]unhandledRejection['"]/.test(source));
}
