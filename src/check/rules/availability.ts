/**
 * Rules about code that holds up or ends the process: blocking calls, and
 * missing limits on memory, time and backtracking (SVC501, SVC634 … SVC636).
 */
import { analysePattern } from '../../schema/pattern.ts';
import { isBlockingName } from '../reader/functions.ts';
import {
  calledName,
  catchAround,
  functionAround,
  isRaw,
  isWithin,
  loopAround,
  methodOf,
  nameAround,
  nameOf,
  nodesAround,
  objectOf,
  partsIn,
  partsOf,
  pathOf,
} from '../reader/nodes.ts';
import { isOnce, isOnlyInDevelopment } from '../reader/once.ts';
import { constantOf } from '../reader/constants.ts';
import { meaningOfCall } from '../sources.ts';
import { isTimer } from '../values/calls.ts';
import { hasNoMaximum, isStored, literalOf } from '../values/text.ts';
import { clientIn, givenOf, madeIn } from '../values/value.ts';
import { methodsOf } from './routes.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Pattern, Value } from '../values/value.ts';
import type { RouteCall } from '../values/functions.ts';

/** Rules about memory and time, sorted by id. */
export const AVAILABILITY_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC634',
    severity: 'warning',
    cwe: [770],
    why: 'A request body that is collected without a limit can fill the memory of the process',
    remedy: 'Use await req.body({ maxBytes: 1_000_000 }), or maxBodyBytes for the route',
    wrong: 'for await (const chunk of req.stream()) chunks.push(chunk);',
    right: 'await req.body({ maxBytes: 1_000_000 })',
    onCall: findUnpacked,
    watch: watchCollected,
  },
  {
    id: 'SVC635',
    severity: 'warning',
    cwe: [400],
    why: 'While a request waits for a slow service, the request keeps its connection and its memory',
    remedy: 'Set a time limit: fetch(address, { signal: req.signal }), or pass a signal that aborts sooner',
    wrong: 'await fetch(address)',
    right: 'await fetch(address, { signal: req.signal })',
    watch: watchEndless,
    find: findEndlessWaits,
  },
  {
    id: 'SVC636',
    severity: 'warning',
    cwe: [1333],
    why: 'A regular expression with nested repetitions tries very many ways to match a text: thirty characters can take minutes',
    remedy: 'Write regular expressions without nested repetitions, and limit the length of the text first',
    wrong: String.raw`/^(\w+\s?)*$/.test(query.q)`,
    right: String.raw`/^\w+(\s\w+)*$/.test(query.q)`,
    find: findSlowPatterns,
    onCall: findSlowMatches,
  },
  { id: 'SVC501', find: findBlockingHelpers },
  {
    id: 'SVC653',
    severity: 'warning',
    cwe: [770, 401],
    why: 'A collection of the process that gets an entry for each text that clients send grows until the process has no memory',
    remedy:
      'Limit the entries: new MemoryCache({ maxEntries: 1_000 }), or delete the oldest entry above a size',
    wrong: 'const memo = new Map(); … memo.set(query.text, result);',
    right: 'const memo = new MemoryCache({ maxEntries: 1_000 }); … await memo.set(query.text, result);',
    watch: watchGrowth,
  },
];

/** SVC634: parts of the stream of a request that a loop keeps: in a list, or at the end of a text. */
function watchCollected(report: ReportAt, sources: Sources): Watch {
  const isBounded = sources.project.modules.some(({ source }) => /\bmaxBodyBytes\s*:/.test(source));
  const judge = (node: Node, module: SourceModule): void => {
    const loop = isBounded ? undefined : loopAround(node);
    const parts = loop === undefined ? [] : partsIn(loop.body);
    const measures = parts.some((part) => part.type === 'binary' && /^[<>]=?$/.test(part.operator));
    if (loop !== undefined && !measures)
      report(
        { module, node: loop },
        'the request body is collected without a size limit, so one client can fill the memory of the process',
      );
  };
  return {
    onCall({ call, module, value }) {
      const isKept = methodOf(call) === 'push' && clientIn(value(call.args[0]))?.origin.input === 'stream';
      if (isKept) judge(call, module);
    },
    onAssign({ assign, module, value }) {
      if (assign.operator === '+=' && value.what === 'stream') judge(assign, module);
    },
  };
}

const UNPACKS = /^zlib\.(?:gunzip|inflate|inflateRaw|unzip|brotliDecompress|zstdDecompress)(?:Sync)?$/;

/** SVC634: compressed bytes of a client that are unpacked without a limit. */
function findUnpacked({ call, module, meaning, value }: Site, report: ReportAt): void {
  const [packed, options] = call.args;
  if (packed === undefined || !UNPACKS.test(meaning)) return;
  const origin = clientIn(value(packed))?.origin;
  if (origin === undefined || isLimited(options, value(options))) return;
  report(
    { module, call },
    `${origin.what}, which a client sends, is unpacked without a limit: one megabyte can become a gigabyte`,
    { remedy: 'Limit the size of the result: gunzip(bytes, { maxOutputLength: 5_000_000 })' },
  );
}

/** Whether an argument is an object of options with a limit, or options that the analysis does not know. */
function isLimited(node: Node | undefined, options: Value | undefined): boolean {
  if (node === undefined || options?.fn !== undefined) return false;
  return options?.members?.has('maxOutputLength') !== false;
}

/** Functions that send a request to another service. */
export const ASKS: RegExp =
  /^(?:fetch|undici\.(?:fetch|request)|https?\.(?:get|request)|axios(?:\.(?:get|post|put|patch|delete|request))?)$/;

/** SVC635: requests to other servers without a time limit, for which a client waits. */
function watchEndless(report: ReportAt, sources: Sources): Watch {
  const endless = new Map<Call, { readonly module: SourceModule; readonly meaning: string }>();
  return {
    onCall(site) {
      const { call, module, meaning } = site;
      if (ASKS.test(meaning) && !hasLimit(site) && !isOfPage(site) && !isDropped(call))
        endless.set(call, { module, meaning });
    },
    finish() {
      const has = (code: RegExp): boolean => sources.project.modules.some(({ source }) => code.test(source));
      // limits that a project sets once for all requests of a client
      const [isAxiosLimited, isFetchLimited] = [has(/\.defaults\.timeout\b/), has(/\bsetGlobalDispatcher\(/)];
      for (const [call, { module, meaning }] of endless) {
        const isLimited =
          (isAxiosLimited && /^axios\b/.test(meaning)) ||
          (isFetchLimited && /^(?:fetch|undici)\b/.test(meaning));
        if (isLimited || !sources.isReached(call)) continue;
        report(
          { module, call },
          `${meaning.replace('undici.', '')}() has no time limit${meaning.endsWith('fetch') ? ' below 300 s' : ''}: if the called service is slow, the client of this server waits just as long`,
        );
      }
    },
  };
}

/** SVC635: a loop that waits for a change as long as it takes, also after the client has left. */
function findEndlessWaits(sources: Sources, report: ReportAt): void {
  for (const { module, node: loop } of sources.all('loop')) {
    if (loop.kind === 'of' || !loop.head.every((part) => isRaw(part, 'true'))) continue;
    if (!sources.isReached(loop)) continue;
    const parts = partsOf(loop);
    const ends = parts.some(
      (part) =>
        isCount(part) ||
        (part.type === 'unary' && part.operator.startsWith('yield')) ||
        /^(?:signal|aborted|closed|isClosed|throwIfAborted)$/.test(
          part.type === 'name' ? part.name : part.type === 'member' ? (part.property ?? '') : '',
        ),
    );
    const waits = parts.some(
      (part) =>
        part.type === 'await' &&
        catchAround(part) === undefined &&
        partsIn(part).some((each) => each.type === 'call' && isPause(each, module)),
    );
    if (waits && !ends)
      report(
        { module, node: loop },
        'the loop waits without end: it goes on after the client has left, and each such request keeps its memory and its statements',
        { remedy: 'End it: while (!signal.aborted) { …; await sleep(1_000, undefined, { signal }); }' },
      );
  }
}

/** Whether a part of a loop counts, or asks for the time. */
export function isCount(part: Node): boolean {
  return (
    (part.type === 'unary' && /^(?:\+\+|--)$/.test(part.operator)) ||
    (part.type === 'assign' && /^[-+*]=$/.test(part.operator)) ||
    (part.type === 'call' && /^(?:Date|performance)\.now$/.test(pathOf(part.callee) ?? ''))
  );
}

/** Whether a call waits for some time. */
export function isPause(call: Call, module: SourceModule): boolean {
  const meaning = meaningOfCall(call, module);
  return isTimer(meaning) || meaning.startsWith('timers/promises.');
}

/** Whether the options of a request may limit its time, or end it by another call. */
function hasLimit({ call, meaning, value }: Site): boolean {
  const given = call.args.map((arg) => value(arg));
  const isRequest = /^https?\./.test(meaning);
  // Node.js ends such a request by its methods, which follow the call
  if (isRequest && call.parent?.type !== 'statement') return true;
  return given.some((each, index) => {
    if (each?.fn !== undefined || (index === 0 && each?.members === undefined) || each?.type === 'URL')
      return false;
    const isUnknown = each?.members === undefined || each.items !== undefined || each.source !== undefined;
    return isUnknown || ['signal', 'timeout', 'dispatcher'].some((key) => each.members?.has(key));
  });
}

/** Whether an address begins with a slash, so that only a browser, or a client with the host of this site, can ask for it. */
function isOfPage({ call, value }: Site): boolean {
  const text = value(call.args[0])?.texts[0];
  return text !== undefined && literalOf(text, ' ').startsWith('/');
}

/** Whether code does not use the response to a request. */
function isDropped(call: Call): boolean {
  let at: Node = call;
  while (at.parent?.type === 'member' || (at.parent?.type === 'call' && at.parent.callee === at)) {
    at = at.parent;
    if (at.type === 'member' && at.property === 'then') return false;
  }
  return at.parent?.type === 'statement' && !/^https?\./.test(pathOf(call.callee) ?? '');
}

/** SVC501: blocking calls in functions that handlers call. */
function findBlockingHelpers(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    const name = calledName(call);
    const blocking = meaningOfCall(call, module).split('.').at(-1) ?? '';
    if (name === undefined || !(isBlockingName(name) || isBlockingName(blocking))) continue;
    const around = functionAround(call);
    const from = sources.handlers.reachedFrom(around);
    // rules/code.ts already reports blocking calls in the handler itself
    if (from === undefined || isWithin(call, from) || isOnce(call, module)) continue;
    if (isCalledOnce(around!, sources)) continue;
    if (sources.handlers.resolve(call.callee, module) !== undefined) continue;
    const owner = nameAround(call);
    const caller = owner === undefined ? 'the function' : `"${owner}", the function`;
    report(
      { module, call },
      `${name}() blocks all other requests until the call returns, and requests reach ${caller} that contains the call`,
    );
  }
}

/** Whether every call of a function runs only once or in development. */
function isCalledOnce(fn: Fn, sources: Sources): boolean {
  const name = nameOf(fn);
  if (name === undefined) return false;
  const calls = [...sources.all('call')].filter(({ node }) => calledName(node) === name);
  return (
    calls.length > 0 &&
    calls.every(({ node, module }) => isOnce(node, module) || isOnlyInDevelopment(node, module))
  );
}

const NESTED =
  'the regular expression has nested repetitions: a short text can block the process for minutes';

/** SVC636: regular expressions that backtrack exponentially. */
function findSlowPatterns(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('pattern')) {
    // exponential backtracking requires at least two repetitions
    if (!/[+*}][^]*[+*}]/.test(node.source)) continue;
    const isOfModule = functionAround(node) === undefined;
    if (isOfModule ? !isUsedByHandlers(node, module, sources) : !sources.isReached(node)) continue;
    if (isExponential(node.source, node.flags)) report({ module, node }, NESTED);
  }
}

/** Methods of texts whose argument is a regular expression. */
const MATCHES = /^(?:match|matchAll|replace|replaceAll|search|split)$/;

/** SVC636: input of a client that is matched with a regular expression which `RegExp()` builds. */
function findSlowMatches({ call, module, receiver, value }: Site, report: ReportAt): void {
  const method = methodOf(call);
  const first = value(call.args[0]);
  const [pattern, text] = MATCHES.test(method) ? [first?.pattern, receiver] : [receiver?.pattern, first];
  const declared = text?.declared;
  const isOfBody = /^(?:body|form|message|args)$/.test(clientIn(text)?.origin.input ?? '');
  // only the limit of the body ends a text without a maximum
  const most = declared?.most ?? (isOfBody && declared?.node?.kind === 'str' ? MOST_BODY : undefined);
  const at = MATCHES.test(method) ? call.args[0] : objectOf(call);
  if (pattern === undefined || at === undefined) return;
  if (most !== undefined && most > MOST_TEXT && isPolynomial(pattern))
    report(
      constantOf(at, module) ?? { node: call, module },
      `the time of the regular expression grows with the square of the text, and a client may send ${most} characters`,
    );
  if (pattern.isBuilt !== true || givenOf(text) === undefined) return;
  if (isExponential(pattern.source, pattern.flags)) report({ module, call }, NESTED);
}

/** Characters of a text that fit into a body with the limit of the framework. */
const MOST_BODY = 10_000_000;
/** Characters from which a pattern of quadratic time takes seconds. */
const MOST_TEXT = 50_000;

function isPolynomial({ source, flags }: Pattern): boolean {
  try {
    return analysePattern(new RegExp(source, flags.replace(/[gy]/g, '')))?.degree === 'polynomial';
  } catch {
    return false; // this version of Node.js does not know the flags or the syntax
  }
}

function isExponential(source: string, flags: string): boolean {
  try {
    // skips patterns with `$` in the middle, because analysePattern() may wrongly find them exponential
    if (/[$](?!$)/.test(source.replace(/\\./g, ''))) return false;
    return analysePattern(new RegExp(source, flags))?.degree === 'exponential';
  } catch {
    return false; // this version of Node.js does not know the flags or the syntax
  }
}

/** Whether a constant holds the regular expression and a function that handles requests uses the constant. */
function isUsedByHandlers(node: Node, module: SourceModule, sources: Sources): boolean {
  const at = nodesAround(node).find((around) => around.type === 'declarator');
  if (at?.target.type !== 'name') return false;
  const { name } = at.target;
  for (const { module: other, node: use } of sources.all('name')) {
    if (use.name !== name && other === module) continue;
    if (use.parent === at || !sources.isReached(use)) continue;
    const binding = other.lookup(use.name, use);
    if (binding?.kind === 'declared' && binding.node === at) return true;
  }
  return false;
}

/** A place that adds to an object which lives as long as the process. */
interface Addition extends Spot {
  /** The expression that made the object. */
  readonly to: Node;
  /** `Map` or `Set`: a map may hold sets, which end with their entry. */
  readonly type?: string | undefined;
}

function watchGrowth(report: ReportAt, sources: Sources): Watch {
  const additions: Addition[] = [];
  const deletions: Addition[] = [];
  /** Objects whose size code compares. */
  const limited = new Set<Node>();
  return {
    onCall({ call, module, receiver, route, handler, value }) {
      const to = receiver?.lasting;
      const method = methodOf(call);
      if (to === undefined || !/^(?:Map|Set)$/.test(receiver?.type ?? '')) return;
      const change = { node: call, module, to, type: receiver?.type };
      if (/^(?:delete|clear)$/.test(method)) deletions.push(change);
      if (handler === undefined) return;
      const key = value(call.args[0]);
      const isOfMessage = clientIn(key)?.origin.input === 'message';
      if (/^(?:set|add)$/.test(method) && (isOfMessage || isOfReading(route)) && isEndless(key))
        additions.push(change);
    },
    onIndexed({ target, module, handler, object, key }) {
      const route = handler && sources.handlers.routeOf(handler);
      if (object.lasting !== undefined && handler !== undefined && isOfReading(route) && isEndless(key))
        additions.push({ node: target, module, to: object.lasting });
    },
    onCompare({ sides }) {
      for (const { lasting, type } of sides)
        if (lasting !== undefined && type === undefined) limited.add(lasting);
    },
    finish() {
      const deleting = new Set(
        sources
          .all('unary')
          .flatMap(({ module, node }) =>
            node.operator === 'delete' && node.value?.type === 'member' ? [module] : [],
          ),
      );
      for (const { node, module, to, type } of additions)
        if (
          !limited.has(to) &&
          !deletions.some((each) => each.to === to && (each.type === type || each.type === 'Map')) &&
          !(node.type === 'member' && deleting.has(module))
        )
          report(
            { module, node },
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
  const parts = (value?.texts ?? []).map((text) =>
    text.flatMap((part) => (part.kind === 'client' && !isStored(part) ? [part] : [])),
  );
  // several texts of few digits have many values together
  return (
    parts.some((all) => new Set(all.map(({ id }) => id)).size > 1 || all.some((part) => !part.isGuessable)) ||
    madeIn(value).some(hasNoMaximum)
  );
}
