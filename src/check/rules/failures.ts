/**
 * Rules about failures that come late: requests that are repeated without end, locks that stay locked,
 * and successful responses for work that failed (SVC657 … SVC659).
 */
import {
  catchAround,
  functionAround,
  isRaw,
  isWithin,
  leaveIn,
  methodOf,
  nodesAround,
  objectOf,
  partsIn,
  partsOf,
  pathOf,
  triesAround,
} from '../reader/nodes.ts';
import { callsIn } from '../sources.ts';
import { isTimer } from '../values/calls.ts';
import { constantIn } from '../values/tests.ts';
import { ASKS, isCount, isPause } from './availability.ts';
import { isLog } from './logs.ts';
import { MAKES_REPLY } from './replies.ts';
import { methodsOf } from './routes.ts';
import { clientsIn, madeIn } from '../values/value.ts';
import type { RouteCall } from '../values/functions.ts';
import type { Value } from '../values/value.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Assign, Call, Fn, Node, NodeOf } from '../reader/nodes.ts';
import type { Site } from '../values/calls.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';

type Try = NodeOf<'try'>;

/** Rules about failures that come late, sorted by id. */
export const FAILURE_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC657',
    severity: 'warning',
    cwe: [835, 400],
    why: 'While the called service is down, each request repeats its call as fast as it can, for ever: the load keeps the service down, and the requests of clients never end',
    remedy:
      'Limit the number of tries, and wait longer before each: for (let tries = 0; tries < 4; tries++) { … await sleep(100 * 2 ** tries); }',
    wrong: 'for (;;) { try { return await send(message); } catch { continue; } }',
    right: 'for (let tries = 0; tries < 4; tries++) { try { … } catch { await sleep(100 * 2 ** tries); } }',
    watch: watchRetries,
  },
  {
    id: 'SVC658',
    severity: 'warning',
    cwe: [667, 772],
    why: 'After one error, the lock stays: every later request waits for it or is refused until the process restarts',
    remedy: 'Release in finally: try { await work(); } finally { release(); }',
    wrong: 'const release = await mutex.acquire(); await work(); release();',
    right: 'const release = await mutex.acquire(); try { await work(); } finally { release(); }',
    find: findKeptLocks,
  },
  {
    id: 'SVC659',
    severity: 'warning',
    cwe: [390, 755],
    why: 'The client gets a successful response for data that is lost, so neither the client nor a program repeats the request',
    remedy:
      'Let the error through, so that the response has status 500: log it there, or throw new HTTPException(503)',
    wrong:
      "try { await db.execute('insert …'); } catch (error) { console.error(error); } return { ok: true };",
    right: "await db.execute('insert …'); return { ok: true };",
    watch: watchDelayed,
  },
  { id: 'SVC659', watch: watchRecorded },
  { id: 'SVC659', watch: watchSwallowed },
];

// -- SVC657 --

function watchRetries(report: ReportAt, sources: Sources): Watch {
  const asking = new Set<Call>();
  const asks = (node: Node, module: SourceModule): boolean =>
    callsIn(node, module, sources).some(({ call }) => asking.has(call));
  const waits = (node: Node, module: SourceModule): boolean =>
    callsIn(node, module, sources).some((each) => isPause(each.call, each.module));
  return {
    onCall({ call, meaning }) {
      if (ASKS.test(meaning)) asking.add(call);
    },
    finish() {
      if (asking.size === 0) return;
      for (const { module, node: loop } of sources.all('loop')) {
        if (!sources.isReached(loop) || loop.head.some((part) => !isTrue(part)) || isCounted(loop)) continue;
        const repeated = partsOf(loop.body).some(
          (part) => part.type === 'call' && !changes(part, loop) && asks(part, module),
        );
        if (repeated && !waits(loop.body, module)) tellOfRetries(module, loop);
      }
      for (const { module, node } of sources.all('call'))
        if (repeatsItself(node, module)) tellOfRetries(module, node);
    },
  };

  function tellOfRetries(module: SourceModule, node: Node): void {
    report(
      { module, node },
      'a call of another service is repeated after each failure, without a limit and without a pause',
    );
  }

  /** Whether a function that asks another service calls itself with the arguments that it has received, without a pause. */
  function repeatsItself(call: Call, module: SourceModule): boolean {
    const fn = functionAround(call);
    if (fn === undefined || sources.handlers.resolve(call.callee, module) !== fn) return false;
    const isSame = call.args.every(
      (arg, index) => arg.type === 'name' && arg.name === pathOf(fn.params[index] ?? arg),
    );
    if (!isSame || !sources.isReached(call)) return false;
    const branch = catchAround(call) ?? fn;
    return !isCounted(branch) && asks(fn, module) && !waits(branch, module);
  }
}

function isTrue(node: Node): boolean {
  return isRaw(node, 'true') || isRaw(node, '1');
}

/** Whether code counts, or compares the time: it ends sometime. */
function isCounted(within: Node): boolean {
  return partsOf(within).some(isCount);
}

/** Whether a call in a loop has other arguments in each round: it uses a variable that the loop declares or assigns. */
function changes(call: Call, loop: Node): boolean {
  const changed = new Set(
    partsOf(loop).flatMap((part) =>
      part.type === 'assign' || part.type === 'declarator' ? [pathOf(part.target) ?? ''] : [],
    ),
  );
  return call.args.flatMap(partsOf).some((part) => part.type === 'name' && changed.has(part.name));
}

// -- SVC658 --

function findKeptLocks(sources: Sources, report: ReportAt): void {
  const lists = [
    ...sources
      .all('function')
      .map(({ module, node }) => ({ module, body: node.isExpression ? [] : node.body })),
    ...sources.all('block').map(({ module, node }) => ({ module, body: node.body })),
  ];
  for (const { module, body } of lists)
    body.forEach((statement, index) => {
      const isRelease = lockedBy(statement, module);
      if (isRelease === undefined || !sources.isReached(statement)) return;
      const end = body.findIndex((each, at) => at > index && isRelease(each));
      if (end === -1 || !body.slice(index + 1, end).some(mayEnd)) return;
      const isOpened = callOf(body[end]!)?.callee.type === 'member' && statement.type === 'declare';
      report(
        { module, node: statement },
        isOpened
          ? 'the file or connection is closed at the end only: if the work between fails, it stays open'
          : 'the lock is released at the end only: if the work between fails, it stays locked',
      );
    });
}

/** Methods that give back what a call has opened: a file, a connection of a pool. */
const CLOSES = /^(?:close|release|end|destroy|dispose|disconnect|quit|unlock)$/;

/** Returns a test for the statement that releases what this statement locks or opens; undefined if it does neither. */
function lockedBy(statement: Node, module: SourceModule): ((node: Node) => boolean) | undefined {
  if (statement.type === 'declare') {
    const [{ target, value } = { target: statement, value: undefined }] = statement.items;
    const name = target.type === 'name' ? target.name : undefined;
    if (name === undefined || value?.type !== 'await' || value.value.type !== 'call') return undefined;
    return (node) => {
      const call = callOf(node);
      const isClosed = call?.callee.type === 'member' && CLOSES.test(methodOf(call));
      return call?.args.length === 0 && pathOf(isClosed ? call.callee.object : call.callee) === name;
    };
  }
  if (statement.type !== 'statement') return undefined;
  const { value } = statement;
  if (value.type === 'assign') {
    const path = pathOf(value.target);
    if (path === undefined || !isTrue(value.value) || !isShared(value, module) || !isTested(path, statement))
      return undefined;
    return (node) =>
      node.type === 'statement' &&
      node.value.type === 'assign' &&
      pathOf(node.value.target) === path &&
      isRaw(node.value.value, 'false');
  }
  const [object, key] = entryOfSet(statement, /^(?:add|set)$/, module);
  if (object === undefined || !isTested(`${object}.has`, statement)) return undefined;
  return (node) => {
    const [from, removed] = entryOfSet(node, /^delete$/, module);
    return from === object && removed === key;
  };
}

function callOf(statement: Node): Call | undefined {
  const value = statement.type === 'statement' ? statement.value : undefined;
  const call = value?.type === 'await' ? value.value : value;
  return call?.type === 'call' ? call : undefined;
}

/** Returns the set or map that a statement changes, and the text of the key. */
function entryOfSet(
  statement: Node,
  method: RegExp,
  { source }: SourceModule,
): readonly (string | undefined)[] {
  const call = callOf(statement);
  const [object, key] = [call && objectOf(call), call?.args[0]];
  return object !== undefined && key !== undefined && method.test(methodOf(call))
    ? [pathOf(object), source.slice(key.start, key.end)]
    : [];
}

/** Whether requests share what an assignment changes: a variable of the module, or a member. */
function isShared({ target }: Assign, module: SourceModule): boolean {
  if (target.type !== 'name') return true;
  const binding = module.lookup(target.name, target);
  return binding?.kind === 'declared' && functionAround(binding.node) === undefined;
}

/** Whether a condition of the function around a statement reads a path. */
function isTested(path: string, statement: Node): boolean {
  const fn = functionAround(statement);
  return (
    fn !== undefined &&
    fn.body
      .flatMap(partsOf)
      .some(
        (part) =>
          (part.type === 'if' || part.type === 'loop') &&
          partsOf(part.type === 'if' ? part.test : (part.head[0] ?? part.body)).some(
            (each) => pathOf(each) === path,
          ),
      )
  );
}

/** Whether a statement may end the function: it awaits a promise whose error it does not catch, or returns. */
function mayEnd(statement: Node): boolean {
  return partsOf(statement).some(
    (part) =>
      (part.type === 'leave' && /^(?:return|throw)$/.test(part.how)) ||
      (part.type === 'await' && !isCaught(part, statement)),
  );
}

/** Whether code in a statement goes on after an error of a promise that it awaits. */
function isCaught(node: NodeOf<'await'>, within: Node): boolean {
  const isKept = (handler: Node | undefined): boolean =>
    handler !== undefined && leaveIn(handler) === undefined;
  return (
    /^(?:catch|finally)$/.test(methodOf(node.value)) ||
    triesAround(node).some(
      (around) => isWithin(around, within) && (around.finalizer !== undefined || isKept(around.handler)),
    )
  );
}

// -- SVC659 --

/** SVC659: a statement that a timer sends after the response. */
function watchDelayed(report: ReportAt, { handlers }: Sources): Watch {
  const delayed: (Spot & { readonly handler: Fn | undefined; readonly call: Call })[] = [];
  return {
    onStatement({ isWrite, handler, call, module, way }) {
      if (!isWrite || !way.some(({ node }) => isTimer(takerOf(node)))) return;
      const inHandler = handler && way.findLast(({ node }) => isWithin(node, handler));
      delayed.push({ handler, call, ...(inHandler ?? { node: call, module }) });
    },
    finish() {
      const ofRoute = delayed.filter(
        ({ handler }) => handler !== undefined && handlers.routeOf(handler) !== undefined,
      );
      for (const { call, ...spot } of ofRoute)
        // a start of the process sets the timer again
        if (!delayed.some((each) => each.call === call && !ofRoute.includes(each)))
          report(
            spot,
            'the statement is sent by a timer, after the response: the change is lost if the process ends before',
            { remedy: 'Await the statement before the response, or hand it to BackgroundTasks' },
          );
    },
  };
}

/** SVC659: a row that says that a request of another service was done, although nothing has noticed its failure. */
function watchRecorded(report: ReportAt, sources: Sources): Watch {
  const logs = new Set<Call>();
  /** Requests that change something elsewhere, and the statements after them that write a constant. */
  const recorded = new Map<Call, Recorded>();
  return {
    onCall(site) {
      const { call, handler, module, meaning } = site;
      if (isLog(site)) logs.add(call);
      if (ASKS.test(meaning) && isChange(site))
        recorded.set(call, { handler, module, isUnread: isUnread(site), records: [] });
    },
    onStatement({ handler, call, outline, statement }) {
      if (outline.verb !== 'update' || !WRITES_CONSTANT.test(statement.text('sqlite'))) return;
      for (const each of recorded.values()) if (each.handler === handler) each.records.push(call);
    },
    finish() {
      const done = [...recorded].filter(([, { records }]) => records.length > 0);
      for (const [request, { isUnread: isLost, module }] of done)
        if (isLost)
          report(
            { module, call: request },
            'nothing reads the status of the response, and code after it writes into a row that it was done: fetch() does not throw for status 500',
            { remedy: 'Test it: if (!response.ok) throw new HTTPException(502)' },
          );
      const keeping = done.length === 0 ? [] : [...swallowing(sources, logs)];
      for (const [request, { records }] of done)
        for (const { work, node, module, outcomes } of keeping) {
          const calls = new Set(callsIn(work, module, sources).map(({ call }) => call));
          const isLater = records.some((record) => !calls.has(record));
          if (calls.has(request) && isLater && !returnsValue(work) && !isTold(request, outcomes))
            report(
              { module, node },
              'a request of another service fails here without a trace, and code after it writes into a row that it was done',
            );
        }
    },
  };
}

/** Whether code returns a value to its caller. */
function returnsValue(within: Node): boolean {
  return partsOf(within).some(
    (part) => part.type === 'leave' && part.how === 'return' && part.value !== undefined,
  );
}

/** SVC659: the only work of a request, whose errors a `catch` keeps. */
function watchSwallowed(report: ReportAt, sources: Sources): Watch {
  const logs = new Set<Call>();
  /** Statements that change rows, and requests of other services, by the handlers whose work they are. */
  const [writes, asked] = [new Map<Fn, Work[]>(), new Map<Fn, Work[]>()];
  /** Calls that read rows, and the calls whose rows a response of a handler contains. */
  const [reads, told] = [new Set<Node>(), new Map<Call, Set<Node>>()];
  /** Handlers that change rows, or use what a statement returns. */
  const telling = new Set<Fn | undefined>();
  const add = (to: Map<Fn, Work[]>, handler: Fn | undefined, work: Work): void => {
    if (handler !== undefined) to.set(handler, [...(to.get(handler) ?? []), work]);
  };
  const tell = (route: RouteCall | undefined, value: Value | undefined): void => {
    if (route === undefined) return;
    const rows = [...madeIn(value), ...clientsIn(value).flatMap(({ origin }) => origin.made ?? [])];
    const all = told.get(route.call) ?? new Set();
    for (const { node } of rows) all.add(node);
    told.set(route.call, all);
  };
  /** Whether the response of a handler is its work: a GET that reads rows, or that drops no result. */
  const isReading = ({ call: route }: RouteCall, handler: Fn, work: readonly Work[]): boolean =>
    methodsOf(route).every((method) => /^(?:get|head)$/.test(method)) &&
    (telling.has(handler) || !work.every(({ call }) => isDropped(call)));
  return {
    onCall(site) {
      const { call, meaning, handler, route, stack, value } = site;
      if (isLog(site)) logs.add(call);
      if (MAKES_REPLY.test(meaning)) for (const arg of call.args) tell(route, value(arg));
      if (ASKS.test(meaning))
        add(asked, handler, { call, way: [...stack.map((frame) => frame.call ?? frame.fn), call] });
    },
    onReply: ({ value, route }) => tell(route, value),
    onStatement({ isWrite, handler, call, way }) {
      if (!isWrite) reads.add(call);
      if (isWrite || isDropped(call)) add(writes, handler, { call, way: way.map(({ node }) => node) });
      if (isWrite || !isDropped(call)) telling.add(handler);
    },
    finish() {
      const keeping = [...swallowing(sources, logs)];
      for (const handler of new Set([...writes.keys(), ...asked.keys()])) {
        const route = sources.handlers.routeOf(handler);
        // requests of other services are the work of a handler that changes no row
        const work = writes.get(handler) ?? asked.get(handler) ?? [];
        if (route === undefined || isReading(route, handler, work)) continue;
        const found = work.map(({ way }) =>
          keeping.find(
            ({ work: kept, isOfRows, outcomes }) =>
              (isOfRows !== true || writes.has(handler)) &&
              way.some((node) => isWithin(node, kept) && !isTold(node, outcomes)),
          ),
        );
        const [first] = found;
        // the work of the request is its answer, and what nothing waits for comes beside it
        const isBeside =
          found.every((each) => each?.isOfRows === true) &&
          [...(told.get(route.call) ?? [])].some((node) => reads.has(node));
        if (first !== undefined && !found.includes(undefined) && !isBeside)
          report(
            first,
            'the work of the request fails here without a trace in the response: the client gets a successful response',
          );
      }
    },
  };
}

/** A call that is the work of a handler, and the calls that lead to it, itself the last. */
interface Work {
  readonly call: Call;
  readonly way: readonly Node[];
}

/** A constant that a statement writes into a column, such as a state, or the time at which something was done. */
const WRITES_CONSTANT = /\bset\b[^]*?=\s*(?:'|true\b|1\b|now\(|current_timestamp\b)[^]*?(?:\bwhere\b|$)/i;

/** A request that changes something elsewhere, and the statements after it that write a constant. */
interface Recorded {
  readonly handler: Fn | undefined;
  readonly module: SourceModule;
  readonly isUnread: boolean;
  readonly records: Call[];
}

/** Whether code awaits a call and drops its result. */
function isDropped({ parent }: Node): boolean {
  return parent?.type === 'await' && parent.parent?.type === 'statement';
}

/** Whether nothing reads the response to a request: its function drops it, or each caller of the function on the way here. */
function isUnread({ call, meaning, stack }: Site): boolean {
  if (!/fetch$/.test(meaning)) return false;
  let at: Node = call;
  for (const frame of stack.toReversed()) {
    if (isDropped(at)) return true;
    const result = at.parent?.type === 'await' ? at.parent : at;
    const isResult = result.parent === frame.fn ? frame.fn.isExpression : result.parent?.type === 'leave';
    if (!isResult || frame.call === undefined) return false;
    at = frame.call;
  }
  return isDropped(at);
}

/** Returns the name of the function that receives a callback. */
function takerOf({ type, parent }: Node): string {
  return type === 'function' && parent?.type === 'call' ? (pathOf(parent.callee) ?? '') : '';
}

/** Whether a request of another service changes something there. */
function isChange({ meaning, call, value }: Site): boolean {
  const method = constantIn(value(call.args[1])?.members?.get('method')) ?? meaning.split('.').at(-1)!;
  return /^(?:post|put|patch|delete)$/i.test(method);
}

/** Code whose errors a `catch` keeps, and this `catch`. */
type Swallowing = Spot & {
  readonly work: Node;
  readonly isOfRows?: boolean;
  /** Assignments in the code to variables that code after it reads. */
  readonly outcomes?: readonly Node[];
};

/** Returns each piece of code whose errors a `catch` keeps. */
function* swallowing(sources: Sources, logs: ReadonlySet<Call>): Generator<Swallowing, undefined> {
  for (const { module, node } of sources.all('try'))
    if (node.handler?.type === 'block' && keeps(node.handler.body, node, module, logs))
      yield { work: node.block, node: node.handler, module, outcomes: outcomesOf(node, module, logs) };
  for (const { module, node } of sources.all('call')) {
    const [handler] = node.args;
    if (isDropped(node) && pathOf(node.callee) === 'Promise.allSettled') yield { work: node, node, module };
    // nothing waits for it: a message to another service may be lost, but no row
    const isOfRows = /^(?:statement|unary)$/.test(node.parent?.type ?? '');
    if (!(isDropped(node) || isOfRows) || methodOf(node) !== 'catch' || handler?.type !== 'function')
      continue;
    if (keeps(handler.body, handler, module, logs)) yield { work: objectOf(node)!, node, module, isOfRows };
  }
  return undefined;
}

/** Returns the assignments in a `try` block to variables that code after it reads, except for a log. */
function outcomesOf({ block }: Try, module: SourceModule, logs: ReadonlySet<Call>): readonly Node[] {
  const variable = (node: Node): Node | undefined => {
    const binding = node.type === 'name' ? module.lookup(node.name, node) : undefined;
    return binding?.kind === 'declared' ? binding.node : undefined;
  };
  const isRead = (node: Node): boolean =>
    !(node.parent?.type === 'assign' && node.parent.target === node && node.parent.operator === '=') &&
    !nodesAround(node).some((around) => around.type === 'call' && logs.has(around));
  const read = new Set(
    partsIn(functionAround(block) ?? block)
      .filter((node) => node.start >= block.end && isRead(node))
      .flatMap((node) => variable(node) ?? []),
  );
  return partsIn(block).filter((part) => {
    const target =
      part.type === 'assign' ? part.target : part.type === 'unary' && isCount(part) ? part.value : undefined;
    return target !== undefined && partsIn(target).some((node) => read.has(variable(node) ?? node));
  });
}

/** Whether an assignment with a call, or after it, tells later code whether the call has failed. */
function isTold(call: Node, outcomes: readonly Node[] = []): boolean {
  return outcomes.some((outcome) => isWithin(call, outcome) || outcome.start > call.start);
}

/** Whether the code after an error does nothing but write a log, or returns what the code without an error returns. */
function keeps(
  body: readonly Node[],
  within: Try | Fn,
  { source }: SourceModule,
  logs: ReadonlySet<Call>,
): boolean {
  const parts = body.flatMap(partsOf);
  const written = (node: Node | undefined): string =>
    node === undefined ? '' : source.slice(node.start, node.end);
  const returned = parts.find((part) => part.type === 'leave');
  if (returned?.type === 'leave') {
    const { block } = within.type === 'try' ? within : { block: undefined };
    const isSame =
      block !== undefined &&
      partsOf(block).some(
        (part) => part.type === 'leave' && part.how === 'return' && written(part) === written(returned),
      );
    if (!isSame || returned.how !== 'return' || returned.value?.type !== 'object') return false;
  }
  return parts.every(
    (part) =>
      !/^(?:assign|unary|await)$/.test(part.type) &&
      (part.type !== 'call' || logs.has(part) || /^(?:String|JSON\.\w+)$/.test(pathOf(part.callee) ?? '')),
  );
}
