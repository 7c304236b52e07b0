/**
 * Rules about code that holds up or ends the process: blocking calls, streams without a listener for errors, and
 * missing limits on memory, time and backtracking (SVC501, SVC613, SVC634 … SVC636).
 */
import { analysePattern } from '../../schema/pattern.ts';
import { isBlockingName } from '../reader/functions.ts';
import {
  calledName,
  entryOf,
  functionAround,
  isWithin,
  leadOf,
  nameAround,
  nameOf,
  pathOf,
  returnsOf,
  walk,
} from '../reader/nodes.ts';
import { isOnce, isOnlyInDevelopment } from '../reader/once.ts';
import { literal } from '../reader/constants.ts';
import { isCommand, makerOf, meaningOfCall } from '../sources.ts';
import { clientIn, givenOf } from '../values/value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';
import type { Value } from '../values/value.ts';

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
    find: findCollected,
    onCall: findUnpacked,
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
    find: findEndless,
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

const ASKS =
  /^(?:fetch|undici\.fetch|https?\.(?:get|request)|axios(?:\.(?:get|post|put|patch|delete|request))?)$/;

/** SVC635: requests to other servers without a time limit. */
function findEndless(sources: Sources, report: ReportAt): void {
  const isLimited = limitedClients(sources);
  for (const { module, node: call } of sources.all('call')) {
    const meaning = meaningOfCall(call, module);
    if (!ASKS.test(meaning) || isLimited.test(meaning)) continue;
    if (sources.reachedFrom(functionAround(call)) === undefined) continue;
    const [address, ...more] = call.args;
    // an argument that is not a literal may hold options with a time limit
    const isOther = more.some(({ type }) => type !== 'object' && type !== 'function');
    const isOfOptions = address?.type !== 'object' && /^(?:https?\.|axios$|axios\.request$)/.test(meaning);
    if (isOther || (isOfOptions && !isAddress(address)) || isOwnAddress(address)) continue;
    if (isBesideClient(call, module)) continue;
    const hasSpread = call.args.some(
      (arg) => arg.type === 'object' && arg.entries.some(({ type }) => type === 'spread'),
    );
    const hasLimit = ['signal', 'timeout', 'dispatcher'].some((key) =>
      call.args.some((arg) => entryOf(arg, key) !== undefined),
    );
    // no finding if the options may set a limit, or if the enclosing function mentions a timeout or aborts
    // the call
    if (hasSpread || hasLimit || /timeout|\babort/i.test(parentText(call, module))) continue;
    report(
      module,
      call,
      `${meaning.replace('undici.', '')}() has no time limit${meaning.endsWith('fetch') ? ' below 300 s' : ''}: if the called service is slow, the client of this server waits just as long`,
    );
  }
}

const ANSWERS =
  /\b(?:res|response|reply|ctx)\.\w+[.(]|\breply\(|\b(?:resolve|reject|next|cb|callback|done)\b/;

/**
 * Whether no client waits for the result of a call: code does not use its promise, and its callbacks send no
 * reply.
 */
function isBesideClient(call: Call, { source }: SourceModule): boolean {
  let at: Node = call;
  while (at.parent?.type === 'member' || (at.parent?.type === 'call' && at.parent.callee === at))
    at = at.parent;
  const isPromise = !/^https?\./.test(pathOf(call.callee) ?? '');
  return isPromise && at.parent?.type === 'statement' && !ANSWERS.test(source.slice(call.start, at.end));
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

/** Whether an argument is certainly a URL, and not an object with options. */
function isAddress(node: Node | undefined): boolean {
  if (node?.type === 'text' || node?.type === 'template' || node?.type === 'binary') return true;
  if (node?.type === 'call') return /^(?:URL|url\.parse)$/.test(pathOf(node.callee) ?? '');
  return node !== undefined && /(?:ur[il]|address|href)$/i.test(pathOf(node) ?? '');
}

/**
 * Whether a URL begins with a slash and so has no host. Only a browser, or a client that adds the host of the
 * application, can request such a URL.
 */
function isOwnAddress(node: Node | undefined): boolean {
  return node !== undefined && leadOf(node).startsWith('/');
}

function parentText(call: Call, module: SourceModule): string {
  const { start, end } = functionAround(call) ?? call;
  return module.source.slice(start, end);
}

/** SVC501: blocking calls in functions that handlers call. */
function findBlockingHelpers(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    const name = calledName(call);
    if (name === undefined || !isBlockingName(name)) continue;
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
  if (pattern?.isBuilt !== true || givenOf(text) === undefined) return;
  if (isExponential(pattern.source, pattern.flags)) report(module, call, NESTED);
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
