/**
 * Rules about settings in the sources (SVC208, SVC210 … SVC212, SVC218, SVC403). They find mistakes that the loaded
 * application does not show, or shows without a line.
 */
import { calledName, entryOf, isRaw, methodOf, nodesAround } from '../reader/nodes.ts';
import { literal, numberOf } from '../reader/constants.ts';
import { meaningOfCall } from '../sources.ts';
import { isRouter } from '../values/ours.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { Site } from '../values/calls.ts';
import type { ReportAt, SourcePart, Sources, Watch } from '../sources.ts';

/** Rules about settings, sorted by id. */
export const SETTING_RULES: readonly SourcePart[] = [
  { id: 'SVC208', onCall: findDiagnostics },
  { id: 'SVC212', watch: watchSwitchedOff },
  { id: 'SVC218', find: findPlainDatabases },
  { id: 'SVC403', watch: watchMemory },
];

/** Responses whose time limit ends with their beginning. They go on for as long as their client wants. */
const STREAMS = /^svc\.(?:EventStreamResponse|StreamingResponse|NDJSONResponse|FileResponse)$/;

/** SVC212: time limits that are switched off, except those of routes whose responses are streams. */
function watchSwitchedOff(report: ReportAt, sources: Sources): Watch {
  const streaming = new Map<Node, boolean>();
  return {
    onReply: ({ value, route }) => {
      if (route !== undefined)
        streaming.set(route.call, STREAMS.test(value.type ?? '') && streaming.get(route.call) !== false);
    },
    finish() {
      for (const { module, node } of sources.all('entry'))
        if (
          node.parent?.type === 'object' &&
          node.value !== undefined &&
          LIMITS.test(node.key ?? '') &&
          isEndless(node.value) &&
          isOption(node.parent) &&
          streaming.get(node.parent.parent ?? node) !== true
        )
          report(
            { module, node },
            `the time limit ${node.key!} is switched off: a stalled request or statement keeps its connection and memory forever`,
            { severity: 'warning' },
          );
    },
  };
}

/** Functions of Node.js that show or end the whole process. */
const DIAGNOSES =
  /^(?:v8\.(?:writeHeapSnapshot|getHeapSnapshot|setFlagsFromString|takeCoverage)|inspector(?:\/promises)?\.(?:open|Session)|repl\.start|process\.(?:exit|kill|abort)|process\.report\.(?:getReport|writeReport))$/;

/** SVC208: diagnostics of the process that every client may start. */
function findDiagnostics({ call, meaning, module, route, isGuarded }: Site, report: ReportAt): void {
  if (route !== undefined && !isGuarded && DIAGNOSES.test(meaning))
    report(
      { module, call },
      `every client may call ${meaning}(): it shows the memory and settings of the process, or stops it`,
      { remedy: 'Require a guard: { me: Depends(requireRoles("operator")) }' },
    );
}

/**
 * SVC218: connections without TLS to databases on other machines. A host name without a dot, such as `db`, is
 * not reported, because it usually names a container on a private network.
 */
function findPlainDatabases(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.called(
    /(?:^|\.)(?:DatabasePlugin|RedisPlugin|openDatabase)$/,
  )) {
    const [first] = call.args;
    const given = first?.type === 'binary' ? first.right : first;
    const value = given && literal(given, module);
    if (value?.type !== 'text') continue;
    const [, scheme, host] = /^(\w+):\/\/(?:[^@/]*@)?(\[[^\]]+\]|[^:/?]+)/.exec(value.value) ?? [];
    if (host === undefined || /^(?:127\.|\[::1\]|[\w-]+$)/.test(host)) continue;
    if (/[?&]sslmode=(?:disable|prefer)\b/.test(value.value) || scheme === 'redis')
      report(
        { module, node: given! }, // its value is a text
        `the connection to ${host} has no TLS: attackers on the network can read passwords and rows`,
      );
  }
}

const COUNTERS = 'keeps its counters in the memory of one process';
const RECORDS = 'keeps its records in the memory of one process';

/** Classes with state in one process. The values follow the name of the class in messages. */
const KEPT: Readonly<Record<string, string>> = {
  RateLimitMiddleware: COUNTERS,
  RateLimiter: COUNTERS,
  MemoryRateLimitStore: COUNTERS,
  MemoryRecordStore: RECORDS,
  MemoryCache: RECORDS,
  MemoryRoomBus: 'sends messages only to the members of rooms in one process',
  EventBroadcast: 'sends events only to the clients of one process',
};

/** Middleware that reports such a store of its own where a setting starts several processes: see isServedByMany(). */
const REPORTERS: Readonly<Record<string, RegExp>> = {
  MemoryRateLimitStore: /^svc\.RateLimitMiddleware$/,
  MemoryRecordStore: /^svc\.(?:SessionMiddleware|IdempotencyMiddleware)$/,
};

const REMEDIES: Readonly<Record<string, string>> = {
  MemoryRoomBus:
    'Remove the option roomBus: workers of one program share rooms. For several machines, use a RedisRoomBus',
  EventBroadcast:
    "Publish each event to all processes, and send it in each: redis.publish('news', text), and redis.subscribe('news', (text) => news.send(text)). Or serve with one process",
};

/** SVC403: state in the memory of one process, although several processes serve the program. */
function watchMemory(report: ReportAt, sources: Sources): Watch {
  const sent: { object: Node | undefined; isInRequest: boolean }[] = [];
  /** Endpoints of MCP with sessions. */
  const mounts: Spot[] = [];
  /** Whether each process by itself sends the events of an object. Events of an unknown object count for all. */
  const isFed = (made: Call): boolean => {
    const own = sent.filter(({ object = made }) => object === made);
    return own.length > 0 && !own.some(({ isInRequest }) => isInRequest);
  };
  return {
    onCall({ call, module, meaning, receiver, handler, value }) {
      if (meaning === 'svc.EventBroadcast.send')
        sent.push({ object: receiver?.lasting, isInRequest: handler !== undefined });
      const isMount = isRouter(receiver?.type) && methodOf(call) === 'mountMcp';
      if (isMount && value(call.args[1])?.members?.get('sessions')?.constant !== false)
        mounts.push({ module, node: call });
    },
    finish() {
      const startsMany = sources
        .all('call')
        .some(({ module, node }) => calledName(node) === 'run' && startsSeveral(node, module));
      if (!startsMany && !sources.deployment.isServedByMany) return;
      for (const mount of sources.deployment.hasAuthSecret ? [] : mounts)
        report(
          mount,
          'without an authSecret, each process refuses the MCP sessions of the others, but several worker processes serve the application',
          { remedy: 'Set SVC_AUTH_SECRET, or mount the endpoint with sessions: false' },
        );
      for (const { module, node } of sources.all('call')) {
        const [, name = ''] = /^svc(?:\/db)?\.(\w+)$/.exec(meaningOfCall(node, module)) ?? [];
        const what = Object.hasOwn(KEPT, name) ? KEPT[name] : undefined;
        const isShared = /^RateLimit/.test(name) && entryOf(node.args[0], 'store') !== undefined;
        if (what === undefined || isShared || (name === 'EventBroadcast' && isFed(node))) continue;
        if (!startsMany && (name === 'RateLimitMiddleware' || isReported(name, { module, node }, sources)))
          continue;
        report(
          { module, node },
          `${name} ${what}, but several worker processes serve the application, and they do not share memory`,
          name in REMEDIES ? { remedy: REMEDIES[name]! } : {},
        );
      }
    },
  };
}

/** Whether a store is an argument of middleware that reports it, also through a variable. */
function isReported(name: string, made: Spot, sources: Sources): boolean {
  const by = REPORTERS[name];
  if (by === undefined) return false;
  const holder = (node: Node): Node | undefined =>
    nodesAround(node).find(({ type }) => /^(?:call|declarator|function)$/.test(type));
  const variable = holder(made.node);
  const places = variable?.type === 'declarator' ? sources.usesOf(variable) : [made];
  return places.some(({ module, node }) => {
    const call = holder(node);
    return call?.type === 'call' && by.test(meaningOfCall(call, module));
  });
}

/** Whether `run({ workers })` starts several processes. A computed number probably does. */
function startsSeveral({ args: [options] }: Call, module: SourceModule): boolean {
  const workers = entryOf(literal(options, module), 'workers');
  if (workers === undefined) return false;
  const isAuto = workers.type === 'text' && workers.value === 'auto';
  return workers.type === 'call' || isAuto || (numberOf(workers, module) ?? 0) > 1;
}

const LIMITS =
  /^(?:statementTimeoutMs|connectTimeoutMs|requestTimeoutMs|headersTimeoutMs|sendTimeoutMs|timeoutMs)$/;

function isEndless(value: Node): boolean {
  return isRaw(value, 'false') || isRaw(value, '0') || (value.type === 'name' && value.name === 'Infinity');
}

/** Whether an object is an argument of a call, or inside such an argument. */
function isOption(node: Node): boolean {
  return (
    node.parent?.type === 'call' ||
    (node.parent?.type === 'entry' && node.parent.parent !== undefined && isOption(node.parent.parent))
  );
}
