/**
 * Rules about code that holds up or ends the process: blocking calls, streams without a listener for errors, and
 * missing limits on memory, time and backtracking (SVC501, SVC613, SVC634 … SVC636).
 */
import { analysePattern } from '../../schema/pattern.ts';
import { isBlockingName } from '../reader/functions.ts';
import {
  calledName,
  functionAround,
  isWithin,
  nameAround,
  nameOf,
  pathOf,
  returnsOf,
  walk,
} from '../reader/nodes.ts';
import { isOnce, isOnlyInDevelopment } from '../reader/once.ts';
import { constantOf, literal } from '../reader/constants.ts';
import { isCommand, makerOf, meaningOfCall } from '../sources.ts';
import { isStored, literalOf } from '../values/text.ts';
import { clientIn, givenOf, madeIn } from '../values/value.ts';
import { methodsOf } from './routes.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Pattern, Value } from '../values/value.ts';
import type { RouteCall } from '../values/functions.ts';

/** Rules about memory and time, sorted by id. */
export const AVAILABILITY_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC613',
    severity: 'warning',
    phase: 'source',
    cwe: [755],
    why: 'If a stream has no listener for errors, an error ends the process. After an error, pipe() leaves the second stream open',
    remedy:
      'Use await pipeline(source, target) of node:stream/promises, or return new StreamingResponse(source)',
    wrong: 'source.pipe(target)',
    right: 'await pipeline(source, target)',
    find: findPipes,
  },
  {
    id: 'SVC634',
    severity: 'warning',
    phase: 'source',
    cwe: [770],
    why: 'A request body that is collected without a limit can fill the memory of the process',
    remedy: 'Use await req.body({ maxBytes: 1_000_000 }), or maxBodyBytes for the route',
    wrong: 'for await (const chunk of req.stream()) chunks.push(chunk);',
    right: 'await req.body({ maxBytes: 1_000_000 })',
    onCall(site, report, sources) {
      findUnpacked(site, report);
      findKeptParts(site, report, sources);
    },
    find: findCollected,
  },
  {
    id: 'SVC635',
    severity: 'warning',
    phase: 'source',
    cwe: [400],
    why: 'While a request waits for a slow service, the request keeps its connection and its memory',
    remedy: 'Set a time limit: fetch(address, { signal: req.signal }), or pass a signal that aborts sooner',
    wrong: 'await fetch(address)',
    right: 'await fetch(address, { signal: req.signal })',
    watch: watchEndless,
  },
  {
    id: 'SVC636',
    severity: 'warning',
    phase: 'source',
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
    phase: 'source',
    cwe: [770, 401],
    why: 'A collection of the process that gets an entry for each text that clients send grows until the process has no memory',
    remedy:
      'Limit the entries: new MemoryCache({ maxEntries: 1_000 }), or delete the oldest entry above a size',
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

/** Functions of Node.js that create streams. Streams of other packages may handle their errors themselves. */
const STREAMS =
  /^(?:(?:\w*[fF]s|fs-extra|graceful-fs|zlib)\.)?create(?:ReadStream|WriteStream|Gzip|Gunzip|Deflate|Inflate|Brotli\w+)$/;

/** SVC613: calls of pipe() without an error handler. */
function findPipes(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    if (call.callee.type !== 'member' || call.callee.property !== 'pipe' || call.args.length === 0) continue;
    if (call.parent?.type === 'member' && call.parent.property === 'on') continue;
    if (endsInOutput(call) || isCommand(module)) continue;
    // another call receives the stream and handles its errors: `await finished(source.pipe(target))`
    if (call.parent?.type === 'call') continue;
    const { object } = call.callee;
    if (![object, call.args[0]!].some((node) => isOfNode(node, module))) continue;
    const name = pathOf(object);
    const around = functionAround(call);
    // an error may end a script, so code outside of functions is not reported
    if (around === undefined) continue;
    const outer = outerOf(around, sources);
    const code = module.source.slice(outer.start, outer.end);
    const target = pathOf(call.args[0]!);
    if (
      returnsOf(around).some((value) => pathOf(value) !== undefined && [name, target].includes(pathOf(value)))
    )
      continue;
    const handles =
      /\.(?:on|once)\(\s*['"]error['"]/.test(code) || (name !== undefined && /\bfinished\(/.test(code));
    if (!handles)
      report(
        module,
        call,
        'pipe() does not forward errors: an error of one of the two streams ends the process, or leaves the second stream open',
      );
  }
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

/** Whether an expression, or the constant that it names, creates a stream of Node.js. */
function isOfNode(node: Node, module: SourceModule): boolean {
  let found = false;
  walk(literal(node, module) ?? node, (part) => {
    if (part.type === 'call' && STREAMS.test(meaningOfCall(part, module))) found = true;
    return !found && part.type !== 'function';
  });
  return found;
}

/** SVC634: code that collects a request body without a size limit. */
function findCollected(sources: Sources, report: ReportAt): void {
  const isBounded = sources.project.modules.some(({ source }) => /\bmaxBodyBytes\s*:/.test(source));
  for (const { module, node: loop } of sources.all('loop')) {
    if (loop.kind !== 'of' || !/^for\s+await\b/.test(module.source.slice(loop.start, loop.start + 20)))
      continue;
    const over = loop.head[1]!; // the head of a for-of loop always has two nodes: the variable and the list
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

/** SVC634: parts of the stream of a request that a loop keeps. */
function findKeptParts({ call, module, value }: Site, report: ReportAt, sources: Sources): void {
  const part = clientIn(value(call.args[0]));
  if (calledName(call) !== 'push' || part?.origin.input !== 'stream') return;
  if (sources.project.modules.some(({ source }) => /\bmaxBodyBytes\s*:/.test(source))) return;
  for (let at = call.parent; at !== undefined && at.type !== 'function'; at = at.parent)
    if (at.type === 'loop') return reportCollecting(at.body, module, at, report);
}

/**
 * Whether a call probably reads the response of another server, as in `https.get(url, (response) => {
 * response.on('data', …); })`.
 */
function isOfAnswer(call: Call, module: SourceModule): boolean {
  const around = functionAround(call)?.parent;
  const object = call.callee.type === 'member' ? call.callee.object : call;
  const binding = object.type === 'name' ? module.lookup(object.name, object) : undefined;
  const owner =
    binding?.kind === 'parameter' && binding.owner.type === 'function' ? binding.owner : undefined;
  const hasResponse = owner?.params.some((param) =>
    /^(?:res|response|reply|ctx|next)$/.test(pathOf(param) ?? ''),
  );
  return (
    makerOf(object, module) !== undefined ||
    (hasResponse === false && object.type === 'name' && object.name === 'request') ||
    (around?.type === 'call' && /^https?\.(?:get|request)$/.test(meaningOfCall(around, module)))
  );
}

const UNPACKS = /^zlib\.(?:gunzip|inflate|inflateRaw|unzip|brotliDecompress|zstdDecompress)(?:Sync)?$/;

/** SVC634: compressed bytes of a client that are unpacked without a limit. */
function findUnpacked({ call, module, meaning, value }: Site, report: ReportAt): void {
  const [packed, options] = call.args;
  if (packed === undefined || !UNPACKS.test(meaning)) return;
  const origin = clientIn(value(packed))?.origin;
  if (origin === undefined || isLimited(options, value(options))) return;
  report(
    module,
    call,
    `${origin.what}, which a client sends, is unpacked without a limit: one megabyte can become a gigabyte`,
    { remedy: 'Limit the size of the result: gunzip(bytes, { maxOutputLength: 5_000_000 })' },
  );
}

/** Whether an argument is an object of options with a limit, or options that the analysis does not know. */
function isLimited(node: Node | undefined, options: Value | undefined): boolean {
  if (node === undefined || options?.fn !== undefined) return false;
  return options?.members?.has('maxOutputLength') !== false;
}

function reportCollecting(body: Node, module: SourceModule, at: Node, report: ReportAt): void {
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
    report(
      module,
      at,
      'the request body is collected without a size limit, so one client can fill the memory of the process',
    );
}

/** Functions that send a request to another service. */
export const ASKS: RegExp =
  /^(?:fetch|undici\.(?:fetch|request)|https?\.(?:get|request)|axios(?:\.(?:get|post|put|patch|delete|request))?)$/;

/** SVC635: requests to other servers without a time limit, for which a client waits. */
function watchEndless(report: ReportAt, sources: Sources): Watch {
  const endless = new Map<Node, { readonly module: SourceModule; readonly meaning: string }>();
  return {
    onCall(site) {
      const { call, module, meaning } = site;
      if (ASKS.test(meaning) && !hasLimit(site) && !isOfPage(site) && !isDropped(call))
        endless.set(call, { module, meaning });
    },
    finish() {
      const isLimited = limitedClients(sources);
      for (const [call, { module, meaning }] of endless) {
        if (isLimited.test(meaning) || sources.reachedFrom(functionAround(call)) === undefined) continue;
        report(
          module,
          call,
          `${meaning.replace('undici.', '')}() has no time limit${meaning.endsWith('fetch') ? ' below 300 s' : ''}: if the called service is slow, the client of this server waits just as long`,
        );
      }
    },
  };
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

/**
 * Returns a regular expression that matches the HTTP clients for which the project sets a time limit once, as
 * in `axios.defaults.timeout = 5_000`.
 */
function limitedClients({ project }: Sources): RegExp {
  const has = (pattern: RegExp): boolean => project.modules.some(({ source }) => pattern.test(source));
  const limited = [
    ...(has(/\.defaults\.timeout\b/) ? ['axios'] : []),
    ...(has(/\bsetGlobalDispatcher\(/) ? ['fetch', 'undici'] : []),
  ];
  return new RegExp(`^(?:${limited.join('|') || '(?!)'})\\b`);
}

/** SVC501: blocking calls in functions that handlers call. */
function findBlockingHelpers(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    const name = calledName(call);
    const blocking = meaningOfCall(call, module).split('.').at(-1) ?? '';
    if (name === undefined || !(isBlockingName(name) || isBlockingName(blocking))) continue;
    const around = functionAround(call);
    const from = sources.reachedFrom(around);
    // rules/code.ts already reports blocking calls in the handler itself
    if (from === undefined || isWithin(call, from) || isOnce(call, module)) continue;
    if (isCalledOnce(around!, sources)) continue;
    if (sources.handlers.resolve(call.callee, module) !== undefined) continue;
    const owner = nameAround(call);
    const caller = owner === undefined ? 'the function' : `"${owner}", the function`;
    report(
      module,
      call,
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
    const fn = functionAround(node);
    if (fn !== undefined ? sources.reachedFrom(fn) === undefined : !isUsedByHandlers(node, module, sources))
      continue;
    if (isExponential(node.source, node.flags)) report(module, node, NESTED);
  }
}

/** Methods of texts whose argument is a regular expression. */
const MATCHES = /^(?:match|matchAll|replace|replaceAll|search|split)$/;

/** SVC636: input of a client that is matched with a regular expression which `RegExp()` builds. */
function findSlowMatches({ call, module, receiver, value }: Site, report: ReportAt): void {
  const method = call.callee.type === 'member' ? (call.callee.property ?? '') : '';
  const first = value(call.args[0]);
  const [pattern, text] = MATCHES.test(method) ? [first?.pattern, receiver] : [receiver?.pattern, first];
  const most = text?.declared?.most;
  const at = MATCHES.test(method)
    ? call.args[0]
    : call.callee.type === 'member'
      ? call.callee.object
      : undefined;
  if (
    pattern !== undefined &&
    at !== undefined &&
    most !== undefined &&
    most > MOST_TEXT &&
    isPolynomial(pattern)
  ) {
    const made = constantOf(at, module) ?? { node: call, module };
    report(
      made.module,
      made.node,
      `the time of the regular expression grows with the square of the text, and a client may send ${most} characters`,
    );
  }
  if (pattern?.isBuilt !== true || givenOf(text) === undefined) return;
  if (isExponential(pattern.source, pattern.flags)) report(module, call, NESTED);
}

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
  let at: Node | undefined = node;
  while (at !== undefined && at.type !== 'declarator') at = at.parent;
  if (at?.type !== 'declarator' || at.target.type !== 'name') return false;
  const { name } = at.target;
  for (const { module: other, node: use } of sources.all('name')) {
    if (use.name !== name && other === module) continue;
    if (use.parent === at || sources.reachedFrom(functionAround(use)) === undefined) continue;
    const binding = other.lookup(use.name, use);
    if (binding?.kind === 'declared' && binding.node === at) return true;
  }
  return false;
}

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
          .flatMap(({ module, node }) =>
            node.operator === 'delete' && node.value?.type === 'member' ? [module] : [],
          ),
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
      if (to !== undefined && LISTENS.test(method) && !endsItself(site))
        additions.push({ node: call, module, to });
      if (/^(?:timers\.)?set(?:Interval)$/.test(meaning)) intervals.push({ node: call, module });
    },
    finish() {
      for (const { node, module, to } of additions)
        if (!removed.has(to))
          report(
            module,
            node,
            'each request adds a listener that nothing removes, to an object of the whole process',
          );
      const clearing = new Set(
        sources
          .all('name')
          .flatMap(({ module, node }) => (/^clear(?:Interval|Timeout)$/.test(node.name) ? [module] : [])),
      );
      for (const { node, module } of intervals)
        if (node.parent?.type === 'statement' || !clearing.has(module))
          report(
            module,
            node,
            'each request starts an interval that nothing clears, so it runs until the process ends',
          );
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
