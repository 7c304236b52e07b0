/**
 * Rules about what requests leave in the memory of the process (SVC653, SVC654): entries for each text that clients send, listeners and
 * intervals.
 */
import { isStored } from '../values/text.ts';
import { clientIn, madeIn } from '../values/value.ts';
import { methodsOf } from './routes.ts';
import type { Node } from '../reader/nodes.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { RouteCall } from '../values/functions.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';
import type { Value } from '../values/value.ts';

/** Rules about memory that requests keep, sorted by id. */
export const LEAK_RULES: readonly SourceRule[] = [
  {
    id: 'SVC653',
    severity: 'warning',
    phase: 'source',
    cwe: [770, 401],
    why: 'A collection of the process that gets an entry for each text that clients send grows until the process has no memory',
    remedy: 'Limit the entries: new MemoryCache({ maxEntries: 1_000 }), or delete the oldest entry above a size',
    wrong: 'const memo = new Map(); … memo.set(query.text, result);',
    right: 'const memo = new MemoryCache({ maxEntries: 1_000 }); … await memo.set(query.text, result);',
    watch: watchGrowth,
  },
  {
    id: 'SVC654',
    severity: 'warning',
    phase: 'source',
    cwe: [772],
    why: 'Each request adds one more listener or interval, which keeps the memory of the request and takes time for as long as the process runs',
    remedy: 'Remove it when the request ends: try { … } finally { bus.off("order", listener); }',
    wrong: "bus.on('order', (order) => seen.push(order));",
    right: "bus.on('order', note); try { … } finally { bus.off('order', note); }",
    watch: watchLeft,
  },
];

/** A place that adds to an object which lives as long as the process. */
interface Addition {
  readonly node: Node;
  readonly module: SourceModule;
  /** The expression that made the object. */
  readonly to: Node;
}

function watchGrowth(report: ReportAt, sources: Sources): Watch {
  const additions: Addition[] = [];
  /** Objects that shrink, or whose size code compares. */
  const limited = new Set<Node>();
  return {
    onCall({ call, module, receiver, route, handler, value }) {
      const to = receiver?.lasting;
      const method = call.callee.type === 'member' ? call.callee.property : undefined;
      if (to === undefined || handler === undefined || !/^(?:Map|Set)$/.test(receiver?.type ?? '')) return;
      if (/^(?:delete|clear)$/.test(method ?? '')) limited.add(to);
      if (/^(?:set|add)$/.test(method ?? '') && isOfReading(route) && isEndless(value(call.args[0])))
        additions.push({ node: call, module, to });
    },
    onIndexed({ target, module, handler, object, key }) {
      const route = handler && sources.handlers.routeOf(handler);
      if (object.lasting !== undefined && handler !== undefined && isOfReading(route) && isEndless(key))
        additions.push({ node: target, module, to: object.lasting });
    },
    onCompare({ sides }) {
      for (const { lasting } of sides) if (lasting !== undefined) limited.add(lasting);
    },
    finish() {
      const deleting = new Set(
        sources
          .all('unary')
          .flatMap(({ module, node }) => (node.operator === 'delete' && node.value?.type === 'member' ? [module] : [])),
      );
      for (const { node, module, to } of additions)
        if (!limited.has(to) && !(node.type === 'member' && deleting.has(module)))
          report(
            module,
            node,
            'each text that a client sends adds an entry that nothing removes, so clients fill the memory of the process',
          );
    },
  };
}

/** Whether requests of a handler only read, so that what it keeps is no data of the application: of GET, or middleware. */
function isOfReading(route: RouteCall | undefined): boolean {
  return route === undefined || methodsOf(route.call).includes('get');
}

/** Whether clients can choose any number of values. */
function isEndless(value: Value | undefined): boolean {
  const part = clientIn(value && { texts: value.texts });
  if (part !== undefined) return !isStored(part) && part.isGuessable !== true;
  return madeIn(value).some(({ by }) => by.startsWith('endless '));
}

const LISTENS = /^(?:on|addListener|prependListener|addEventListener)$/;
const REMOVES = /^(?:off|removeListener|removeEventListener|removeAllListeners)$/;

function watchLeft(report: ReportAt, sources: Sources): Watch {
  const additions: Addition[] = [];
  const intervals: Omit<Addition, 'to'>[] = [];
  const removed = new Set<Node>();
  const ofProcess = new Map<string, Node>();
  return {
    onCall(site) {
      const { call, module, meaning, receiver, route, fn } = site;
      const method = call.callee.type === 'member' ? (call.callee.property ?? '') : '';
      if (meaning.startsWith('process.') && !ofProcess.has('process')) ofProcess.set('process', call);
      const to = meaning.startsWith('process.') ? ofProcess.get('process') : receiver?.lasting;
      if (to !== undefined && REMOVES.test(method)) removed.add(to);
      if (route === undefined || fn !== undefined) return;
      if (to !== undefined && LISTENS.test(method) && !endsItself(site)) additions.push({ node: call, module, to });
      if (/^(?:timers\.)?setInterval$/.test(meaning)) intervals.push({ node: call, module });
    },
    finish() {
      for (const { node, module, to } of additions)
        if (!removed.has(to))
          report(module, node, 'each request adds a listener that nothing removes, to an object of the whole process');
      const clearing = new Set(
        sources
          .all('name')
          .flatMap(({ module, node }) => (/^clear(?:Interval|Timeout)$/.test(node.name) ? [module] : [])),
      );
      for (const { node, module } of intervals)
        if (node.parent?.type === 'statement' || !clearing.has(module))
          report(module, node, 'each request starts an interval that nothing clears, so it runs until the process ends');
    },
  };
}

/** Whether a listener is removed by itself: by its options, or because nothing is known of them. */
function endsItself({ call, value }: Site): boolean {
  const [, listener, options] = call.args;
  if (listener === undefined || value(listener)?.fn === undefined) return true;
  const members = value(options)?.members;
  return options !== undefined && (members === undefined || members.has('signal') || members.has('once'));
}
