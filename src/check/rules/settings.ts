/**
 * Rules about settings in the sources (SVC208, SVC210 … SVC212, SVC218, SVC403). They find mistakes that the loaded
 * application does not show, or shows without a line.
 */
import { calledName, entryOf } from '../reader/nodes.ts';
import { literal, numberOf } from '../reader/constants.ts';
import { meaningOfCall } from '../sources.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportNode, SourcePart, Sources, Watch } from '../sources.ts';

/** Rules about settings, sorted by id. */
export const SETTING_RULES: readonly SourcePart[] = [
  { id: 'SVC208', find: findDevelopment },
  { id: 'SVC210', find: findLargeNetworks },
  { id: 'SVC211', find: findPolicies },
  { id: 'SVC212', watch: watchSwitchedOff },
  { id: 'SVC218', find: findPlainDatabases },
  { id: 'SVC403', find: judgeMemory },
];

/** SVC208: settings for development in the sources. */
function findDevelopment(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (meaningOfCall(call, module) === 'svc.Svc')
      judgeEnvironment(entryOf(call.args[0], 'env'), module, report);
    if (calledName(call) === 'loadDict') judgeSettings(call, module, report);
  }
}

/** SVC210: networks of trusted proxies that cover a large part of all addresses. */
function findLargeNetworks(sources: Sources, report: ReportNode): void {
  for (const { module, node } of sources.all('entry'))
    if (node.parent?.type === 'object' && node.value !== undefined && node.key === 'trustProxy')
      judgeProxies(node.value, module, report);
}

/** SVC211: content security policies that allow injected scripts. */
function findPolicies(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call'))
    judgePolicy(call, meaningOfCall(call, module), module, report);
}

/** Replies whose time limit ends with their beginning, and which go on for as long as their client wants. */
const STREAMS = /^svc\.(?:EventStreamResponse|StreamingResponse|NDJSONResponse|FileResponse)$/;

/** SVC212: time limits that are switched off, except those of routes whose replies are streams. */
function watchSwitchedOff(report: ReportNode, sources: Sources): Watch {
  const streaming = new Map<Node, boolean>();
  return {
    onReply: ({ value, route }) => {
      if (route !== undefined)
        streaming.set(route.call, STREAMS.test(value.type ?? '') && streaming.get(route.call) !== false);
    },
    finish: () => findSwitchedOff(sources, report, streaming),
  };
}

function findSwitchedOff(sources: Sources, report: ReportNode, streaming: ReadonlyMap<Node, boolean>): void {
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
        'SVC212',
        module,
        node,
        `the time limit ${node.key!} is switched off: a stalled request or statement keeps its connection and memory forever`,
        { severity: 'warning' },
      );
}

/** SVC218: connections without TLS to databases on other machines. */
function findPlainDatabases(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call'))
    judgeDatabases(call, meaningOfCall(call, module), module, report);
}

function judgeEnvironment(env: Node | undefined, module: SourceModule, report: ReportNode): void {
  const value = env === undefined ? undefined : literal(env, module);
  if (value?.type === 'text' && value.value !== 'production')
    report(
      'SVC208',
      module,
      env!,
      `the source code sets env to "${value.value}" even in production, where every client can then read stack traces and API documents`,
      {
        severity: 'warning',
        remedy:
          'Remove env from the source code, and set the variable SVC_ENV=development on development machines',
      },
    );
}

/** SVC211: content security policies that allow injected scripts. */
function judgePolicy(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  if (meaning !== 'svc.SecurityHeadersMiddleware') return;
  const given = entryOf(call.args[0], 'contentSecurityPolicy');
  const policy = given === undefined ? undefined : literal(given, module);
  if (policy === undefined) return;
  for (const [sources, node] of scriptSources(policy)) {
    const found = /'unsafe-inline'|'unsafe-eval'|(?<![\w:/*.-])(?:https?:|data:|\*)(?![\w/.*-])/.exec(
      sources,
    )?.[0];
    if (found === undefined || (found === "'unsafe-inline'" && /'nonce-|'strict-dynamic'/.test(sources)))
      continue;
    report(
      'SVC211',
      module,
      node,
      `the content security policy allows ${found} for scripts, so a script that is injected into a page runs`,
      {
        remedy: "Name the allowed sources of scripts: script-src 'self'. For an inline script use cspNonce()",
      },
    );
  }
}

function scriptSources(policy: Node): (readonly [sources: string, node: Node])[] {
  if (policy.type === 'text') {
    const directives = policy.value.split(';').map((each) => each.trim());
    const found =
      directives.find((each) => /^script-src\s/.test(each)) ??
      directives.find((each) => /^default-src\s/.test(each));
    return found === undefined ? [] : [[found, policy]];
  }
  const node = entryOf(policy, 'scriptSrc') ?? entryOf(policy, 'script-src') ?? entryOf(policy, 'defaultSrc');
  if (node === undefined) return [];
  const items = node.type === 'list' ? node.items : [node];
  return [[items.map((item) => (item.type === 'text' ? item.value : '')).join(' '), node]];
}

/**
 * SVC218: connections without TLS to databases on other machines. A host name without a dot, such as `db`, is
 * not reported, because it usually names a container on a private network.
 */
function judgeDatabases(call: Call, meaning: string, module: SourceModule, report: ReportNode): void {
  if (!/(?:^|\.)(?:DatabasePlugin|RedisPlugin|openDatabase)$/.test(meaning) || call.args[0] === undefined)
    return;
  const given = call.args[0].type === 'binary' ? call.args[0].right : call.args[0];
  const value = literal(given, module);
  if (value?.type !== 'text') return;
  const [, scheme, host] = /^(\w+):\/\/(?:[^@/]*@)?(\[[^\]]+\]|[^:/?]+)/.exec(value.value) ?? [];
  if (host === undefined || /^(?:127\.|\[::1\]|[\w-]+$)/.test(host)) return;
  if (/[?&]sslmode=(?:disable|prefer)\b/.test(value.value) || scheme === 'redis')
    report(
      'SVC218',
      module,
      given,
      `the connection to ${host} has no TLS: attackers on the network can read passwords and rows`,
    );
}

/** SVC208: settings for development, such as `debug`, that code passes to config.loadDict(). */
function judgeSettings(call: Call, module: SourceModule, report: ReportNode): void {
  judgeEnvironment(entryOf(call.args[0], 'env'), module, report);
  for (const [key, what] of [
    ['debug', 'error replies show stack traces to every client'],
    ['enableDocs', '/docs and /openapi.json show every route to every client'],
  ] as const) {
    const value = entryOf(call.args[0], key);
    if (value?.type === 'value' && value.raw === 'true')
      report('SVC208', module, value, what, {
        severity: key === 'debug' ? 'error' : 'warning',
        remedy: `Remove the setting ${key} from the source code, and set ${key} only on development machines`,
      });
  }
}

/** SVC210: a network of trusted proxies that covers a large part of all addresses. */
function judgeProxies(given: Node, module: SourceModule, report: ReportNode): void {
  const value = literal(given, module);
  for (const item of value?.type === 'list' ? value.items : []) {
    const prefix = item.type === 'text' ? /^([\d.]+|[\da-f:]+)\/(\d+)$/i.exec(item.value) : null;
    if (prefix === null || Number(prefix[2]) >= 8) continue;
    report(
      'SVC210',
      module,
      value === given ? item : given,
      `the network "${prefix[0]}" of trusted proxies is too large: clients in this network can claim any IP address`,
    );
  }
}

/** SVC403: state in the memory of one process, although the program starts several processes. */
function judgeMemory(sources: Sources, report: ReportNode): void {
  const isServedByMany = sources.all('call').some(({ module, node }) => {
    const [options] = calledName(node) === 'run' ? node.args : [];
    const workers = options === undefined ? undefined : entryOf(literal(options, module), 'workers');
    return workers !== undefined && (workers.type === 'call' || (numberOf(workers) ?? 0) > 1);
  });
  if (!isServedByMany) return;
  for (const { module, node } of sources.all('call')) {
    const name =
      /^svc(?:\/db)?\.(Memory(?:RecordStore|RateLimitStore|Cache|RoomBus)|RateLimitMiddleware|RateLimiter)$/.exec(
        meaningOfCall(node, module),
      )?.[1];
    if (name === undefined || (name.startsWith('RateLimit') && entryOf(node.args[0], 'store') !== undefined))
      continue;
    report(
      'SVC403',
      module,
      node,
      `${name} keeps its ${name.startsWith('RateLimit') ? 'counters' : 'records'} in the memory of one process, but run() starts several worker processes, which do not share memory`,
    );
  }
}

const LIMITS =
  /^(?:statementTimeoutMs|connectTimeoutMs|requestTimeoutMs|headersTimeoutMs|sendTimeoutMs|timeoutMs)$/;

function isEndless(value: Node): boolean {
  return (
    (value.type === 'value' && (value.raw === 'false' || value.raw === '0')) ||
    (value.type === 'name' && value.name === 'Infinity')
  );
}

/** Whether an object is an argument of a call, or inside such an argument. */
function isOption(node: Node): boolean {
  return (
    node.parent?.type === 'call' ||
    (node.parent?.type === 'entry' && node.parent.parent !== undefined && isOption(node.parent.parent))
  );
}
