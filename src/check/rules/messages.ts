/**
 * Rules about messages: payments that a retry repeats (SVC657), jobs that are lost (SVC659), secrets for an address that
 * only looks like the stored one (SVC639), listeners that stay (SVC654), and fields of requests that switch checks off
 * (SVC673).
 */
import {
  catchAround,
  entryOf,
  functionAround,
  isWithin,
  leaveIn,
  loopAround,
  methodOf,
  partsIn,
  partsOf,
  pathOf,
  triesAround,
} from '../reader/nodes.ts';
import { literal } from '../reader/constants.ts';
import { isEmpty, rowsIn } from '../statements/trace.ts';
import { CRYPTO, ROW } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { hasAny, isStored } from '../values/text.ts';
import { ABSENT, clientsIn, hasMark, madeIn } from '../values/value.ts';
import { ASKS } from './availability.ts';
import { optionalIn, parsedIn, refuses } from './fail-open.ts';
import { PAID, REPEAT_KEY } from '../names.ts';
import type { Call, Fn, Node, NodeOf } from '../reader/nodes.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Compared, Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Rules about messages, sorted by id. */
export const MESSAGE_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC639', watch: watchAddressees },
  {
    id: 'SVC654',
    severity: 'warning',
    cwe: [772],
    why: 'Each request adds one more listener or interval, which keeps the memory of the request and takes time for as long as the process runs',
    remedy: 'Remove it when the request ends: try { … } finally { bus.off("order", listener); }',
    wrong: "bus.on('order', (order) => seen.push(order));",
    right: "bus.on('order', note); try { … } finally { bus.off('order', note); }",
    watch: watchLeft,
  },
  { id: 'SVC657', onCall: findRepeatedPayments },
  { id: 'SVC659', watch: watchJobs },
  {
    id: 'SVC673',
    severity: 'warning',
    cwe: [288, 807],
    sources: ['CWE-807 Reliance on Untrusted Inputs in a Security Decision'],
    why: 'Every client can send any header field and any parameter, so a field that switches a check off switches it off for everyone',
    remedy:
      'Run the check for each request. Give a service that may do more a credential of its own: Depends(APIKeyAuth(…)), and allow it by the verified key',
    wrong: "if (req.headers.get('x-internal') === '1') return next(); … throw new Unauthorized();",
    right: "if (!isGenuine(req.headers.get('x-service-key'))) throw new Unauthorized();",
    watch: watchSwitches,
  },
];

const SENDS_MAIL = /\.(?:sendMail|send|messages\.create)$/;

/** An input of a client in a value. */
interface Input {
  readonly name: string;
  readonly isFolded: boolean;
}

/** SVC639: a secret for the address that a client has typed, although the account was found by a folded form of it. */
function watchAddressees(report: ReportAt): Watch {
  const sent = new Map<Site['handler'], Sending[]>();
  const mails: (Spot & Pick<Site, 'handler'> & { readonly inputs: readonly Input[] })[] = [];
  return {
    onStatement(sending) {
      sent.set(sending.handler, [...(sent.get(sending.handler) ?? []), sending]);
    },
    onCall({ call, meaning, module, handler, isGuarded, value }) {
      if (isGuarded || handler === undefined || !(ASKS.test(meaning) || SENDS_MAIL.test(meaning))) return;
      const inputs = call.args.flatMap(partsIn).flatMap((part) => inputsIn(value(part)));
      mails.push({ node: call, module, handler, inputs: inputs.filter(({ isFolded }) => !isFolded) });
    },
    finish() {
      for (const { inputs, handler, ...at } of mails) {
        const all = sent.get(handler) ?? [];
        const written = all.flatMap((each) => each.written.map(({ value }) => value));
        const isOfSecret = written.some((value) => hasMark(value, CRYPTO));
        const found = all
          .filter(({ outline }) => outline.verb === 'select')
          .flatMap(({ equal }) => equal.flatMap(({ value }) => foldedIn(value)));
        const input = inputs.find(
          ({ name }) =>
            found.includes(name) &&
            // the program may keep the address as the client has typed it
            !written.some((value) => inputsIn(value).some((each) => each.name === name && !each.isFolded)),
        );
        if (isOfSecret && input !== undefined)
          report(
            at,
            `the secret goes to ${input.name} as the client has typed it, although the account was found by a folded form: another mailbox whose address folds to the same text gets the secret`,
            {
              severity: 'warning',
              remedy: 'Send it to the address in the row: select id, email from account where folded = ?',
            },
          );
      }
    },
  };
}

function inputsIn(value: Value | undefined): readonly Input[] {
  const parts = clientsIn(value).filter((part) => !isStored(part));
  const marks = madeIn(value).filter(({ by }) => by.startsWith('input '));
  return [
    ...parts.map(({ origin, isFolded = false }) => ({ name: origin.what, isFolded })),
    ...marks.map(({ by, isFolded = false }) => ({ name: by.slice('input '.length), isFolded })),
  ];
}

/** Returns the names of folded inputs in a value. Only letters outside of ASCII fold to others. */
function foldedIn(value: Value | undefined): readonly string[] {
  const parts = clientsIn(value);
  return parts
    .filter((part) => part.isFolded === true && !isStored(part) && hasAny(part.may, '\u0080'))
    .map(({ origin }) => origin.what);
}

/** SVC657: a payment that is sent again after an error, without a key by which the receiver recognises it. */
function findRepeatedPayments({ call, meaning, module, stack, value }: Site, report: ReportAt): void {
  if (!ASKS.test(meaning) || ![call, ...stack.map((frame) => frame.call)].some(isRetried)) return;
  const isPost = meaning.endsWith('.post');
  const [, second, third] = call.args;
  const options = value(isPost ? third : second)?.members;
  const headers = options?.get('headers');
  const body = isPost ? second : entryOf(second, 'body');
  const content = body?.type === 'call' && pathOf(body.callee) === 'JSON.stringify' ? body.args[0] : body;
  const names = [...(value(content)?.members?.keys() ?? [])];
  const isOpen = headers !== undefined && (headers.members === undefined || headers.items !== undefined);
  const isKeyed = [...names, ...(headers?.members?.keys() ?? [])].some((name) => REPEAT_KEY.test(name));
  if (!isPost && !/^post$/i.test(constantIn(options?.get('method')) ?? '')) return;
  if (isOpen || isKeyed || !names.some((name) => PAID.test(name))) return;
  report(
    { module, node: call },
    'the payment is sent again after an error, although the first one may have arrived, and nothing tells the receiver that both are one',
    {
      severity: 'warning',
      remedy:
        "Send one key with each attempt, such as the id of the order: headers: { 'Idempotency-Key': id }",
    },
  );
}

/** Whether a call runs again after an error: in the block of a `try` that leaves a loop, and whose `catch` does not. */
function isRetried(call: Node | undefined): boolean {
  return (
    call !== undefined &&
    triesAround(call).some(
      (around) =>
        around.handler?.type === 'block' &&
        loopAround(around) !== undefined &&
        leaveIn(around.block, /^(?:return|break)$/) !== undefined &&
        around.handler.body.at(-1)?.type !== 'leave',
    )
  );
}

/** SVC659: a row that is deleted before the request that uses its columns has succeeded. */
function watchJobs(report: ReportAt): Watch {
  /** Statements that read rows without an input of a client. */
  const read = new Set<Node>();
  /** Deletions by the calls that read the deleted rows. */
  const deleted = new Map<Node, Sending>();
  /** Tables into which a `catch` inserts. */
  const restored = new Set<string>();
  const lost = new Set<Sending>();
  return {
    onStatement(sending) {
      const { outline, call, equal, isByInput, isTied, way, target = '' } = sending;
      if (outline.verb === 'insert' && way.some(({ node }) => catchAround(node) !== undefined))
        restored.add(target);
      if (!isByInput && !isTied) read.add(call);
      if (outline.verb !== 'delete' || sending.isInTransaction) return;
      const rows = equal.flatMap(({ value }) => rowsIn(value, [ROW]));
      for (const node of outline.has(/^returning$/, 0) ? [call, ...rows] : rows)
        if (read.has(node)) deleted.set(node, sending);
    },
    onCall({ call, meaning, value }) {
      if (!ASKS.test(meaning) || deleted.size === 0) return;
      for (const part of call.args.flatMap(partsIn))
        for (const { by, node } of madeIn(value(part))) {
          const sending = by === ROW ? deleted.get(node) : undefined;
          if (sending !== undefined) lost.add(sending);
        }
    },
    finish() {
      for (const sending of lost)
        if (!restored.has(sending.target ?? ''))
          report(
            sending.nodeAt(),
            'the row is deleted before the request that needs it has succeeded: an error or a restart between the two loses it',
            {
              remedy:
                'Delete it after the request. Before, set when another attempt is due: update job set due_ms = ? where id = ? and due_ms = ?',
            },
          );
    },
  };
}

/** A test whether a client, or a variable, sets a switch. */
interface Switch extends Spot {
  readonly handler: Fn | undefined;
  readonly what: string;
  /** Whether the expression is true where the switch is set. */
  readonly isTrue: boolean;
  /** Whether the field must have a word of the program; else, whether it is there. */
  readonly isWord?: boolean;
}

/** Fields that a page of another site cannot send, and fields with a credential, which other code verifies. */
const NO_SWITCH =
  /^headers\.(?:authorization|cookie|origin|referer|sec-?fetch-?\w+|x-?requested-?with|host|upgrade|connection|content-?\w+|access-?control-?[\w-]+)$|^the variable (?:NODE_ENV|SVC_ENV|CI)$/i;

/** SVC673: a field of a request, or a variable, that says whether a check runs. */
function watchSwitches(report: ReportAt, sources: Sources): Watch {
  const switches: Switch[] = [];
  const routes = new Set<Fn>();
  const code: Code = {
    called: new Map(),
    limits: new Set(),
    predicates: new Set(),
    quiet: new Set(),
    calls: new Map(),
    sources,
  };
  return {
    onHandler({ handler, route, dependencies }) {
      if (route !== undefined) routes.add(handler);
      for (const { depends } of dependencies)
        if (depends?.predicate !== undefined) code.predicates.add(depends.predicate.fn);
    },
    onCall(site) {
      noteCall(site, code);
      switches.push(...searchesIn(site));
    },
    onCompare: (compared) => switches.push(...comparedIn(compared)),
    onTest({ value, ...at }) {
      const what = optionalIn(value);
      if (what?.startsWith('the ') === false) switches.push(...switchOf({ ...at, what, isTrue: true }));
    },
    finish() {
      for (const each of switches) {
        // in a handler, a parameter says what the client wants, and a check may be for this only
        if (!/^headers|^the /.test(each.what) && each.handler !== undefined && routes.has(each.handler))
          continue;
        // the operator of a service may choose its limits
        const known = each.what.startsWith('the ') ? { ...code, limits: new Set<Call>() } : code;
        for (const at of skipsOf(each, each.node, each.isTrue, known))
          report(
            at,
            each.what.startsWith('the ')
              ? `${each.what} switches the check off for every client`
              : `${each.what} switches the check off, and every client can send it`,
          );
      }
    },
  };
}

/** Returns a switch, unless its field or variable is none; see {@link NO_SWITCH}. */
function switchOf(found: Omit<Switch, 'what'> & { readonly what: string | undefined }): readonly Switch[] {
  const { what } = found;
  return what === undefined || NO_SWITCH.test(what) ? [] : [{ ...found, what }];
}

/** Returns the switches of calls such as `['1', 'yes'].includes(field)` and `headers.has(name)`. */
function searchesIn({ call, module, handler, receiver, value }: Site): readonly Switch[] {
  const at = { node: call, module, handler, isTrue: true };
  const [first] = call.args;
  const words = [...(receiver?.members?.values() ?? [])];
  const isWords = words.length > 0 && words.every((word) => constantIn(word) !== undefined);
  if (methodOf(call) === 'includes' && isWords)
    return switchOf({ ...at, what: optionalIn(value(first) ?? ABSENT), isWord: true });
  const field = receiver?.source?.origin.input === 'headers' ? constantIn(value(first)) : undefined;
  const isAsked = methodOf(call) === 'has' && field !== undefined;
  return isAsked ? switchOf({ ...at, what: `headers.${field}` }) : [];
}

/** Returns the switch of a comparison with a word, or with nothing. */
function comparedIn({ node, module, handler, sides }: Compared): readonly Switch[] {
  if (node.type !== 'binary' || !/^[!=]==?$/.test(node.operator)) return [];
  // SVC645 reports a word of a token
  if (sides.some((side) => parsedIn(side) !== undefined)) return [];
  const what = sides.map(optionalIn).find((each) => each !== undefined);
  const at = { node, module, handler, what };
  const isEqual = node.operator.startsWith('=');
  if (sides.some((side) => !isEmpty(side) && constantIn(side) !== undefined))
    return switchOf({ ...at, isTrue: isEqual, isWord: true });
  return sides.some(isEmpty) && what?.startsWith('the ') === false
    ? switchOf({ ...at, isTrue: !isEqual })
    : [];
}

/** Notes what a call does for the checks of a program. */
function noteCall({ call, module, meaning, fn }: Site, code: Code): void {
  if (meaning === 'svc.RateLimiter.take') code.limits.add(call);
  if (/^(?:svc\.Logger|console)\./.test(meaning)) code.quiet.add(call);
  if (fn === undefined) return;
  code.called.set(call, fn);
  const calls = code.calls.get(fn) ?? new Set();
  code.calls.set(fn, calls.add({ node: call, module }));
}

/** The calls of a program, for searches of its checks. */
interface Code {
  /** Functions of the project by the calls that run them. */
  readonly called: Map<Call, Fn>;
  readonly calls: Map<Fn, Set<Spot & { readonly node: Call }>>;
  /** Calls that write to a log. */
  readonly quiet: Set<Call>;
  /** Calls that count requests. */
  readonly limits: Set<Call>;
  /** Functions whose result lets a client pass. */
  readonly predicates: Set<Fn>;
  readonly sources: Sources;
}

/** Returns the branches at which a set switch leaves a check out. `isTrue` is the value of the expression where it is set. */
function skipsOf(
  { module, isWord = false }: Pick<Switch, 'module' | 'isWord'>,
  node: Node,
  isTrue: boolean,
  code: Code,
  depth = 0,
): readonly Spot[] {
  const { parent } = node;
  if (parent === undefined || depth > 12) return [];
  const onward = (at: Node, is: boolean, spot: Spot = { node, module }): readonly Spot[] =>
    skipsOf({ module: spot.module, isWord }, at, is, code, depth + 1);
  if (parent.type === 'unary' && parent.operator === '!') return onward(parent, !isTrue);
  if (parent.type === 'binary' && /^(?:&&|\|\||\?\?)$/.test(parent.operator)) {
    if (parent.operator === '||' && isTrue && parent.left === node && checks(parent.right, code))
      return [{ node: parent, module }];
    // a further condition may be a check of its own
    return (parent.operator === '&&') === isTrue ? [] : onward(parent, isTrue);
  }
  if (parent.type === 'declarator' && parent.target.type === 'name' && parent.value === node) {
    const uses = code.sources.usesOf(parent, parent.target.name);
    return uses.flatMap((use) => onward(use.node, isTrue, use));
  }
  if (parent.type === 'choice' && parent.test === node) {
    const [set, unset] = isTrue ? [parent.yes, parent.no] : [parent.no, parent.yes];
    return checks(unset, code) && !checks(set, code) ? [{ node: parent, module }] : [];
  }
  if (parent.type === 'if' && parent.test === node) {
    const isSkipped = isTrue ? leavesOut(parent, code) : isConditional(parent, node, isWord, code);
    return isSkipped ? [{ node: parent, module }] : [];
  }
  const fn = functionAround(node);
  const isResult =
    (parent.type === 'leave' && parent.how === 'return') ||
    (parent.type === 'function' && parent.isExpression);
  if (!isResult || fn === undefined) return [];
  if (isTrue && code.predicates.has(fn) && node.type === 'binary' && node.operator === '||')
    return [{ node, module }];
  return [...(code.calls.get(fn) ?? [])].flatMap((call) => onward(awaitedAt(call.node), isTrue, call));
}

function awaitedAt(node: Node): Node {
  return node.parent?.type === 'await' ? node.parent : node;
}

/** Whether a branch that a set switch does not take has a check. */
function isConditional(branch: NodeOf<'if'>, test: Node, isWord: boolean, code: Code): boolean {
  const { yes } = branch;
  const operands = operandsOf(test);
  const pathIn = (operand: Node): string | Node =>
    (operand.type === 'binary' && pathOf(operand.left)) || operand;
  // one field with several words, as in `x !== 'a' && x !== 'b'`, is one test
  const isAlone = operands.length === 1 || new Set(operands.map(pathIn)).size === 1;
  // the word itself may be the credential: without it, each request is refused
  const isFurther = partsOf(yes).some(
    (part) => /^(?:if|choice)$/.test(part.type) || (part.type === 'call' && isCheck(part, code)),
  );
  return checks(yes, code) && (!isAlone || isFurther) && (isWord || !isCheckedAfter(branch, code));
}

function operandsOf(test: Node): readonly Node[] {
  return test.type === 'binary' && test.operator === '&&'
    ? [...operandsOf(test.left), ...operandsOf(test.right)]
    : [test];
}

/** Whether a set switch leaves out a check: that of the other branch, or the code after a branch that lets the request pass. */
function leavesOut(branch: NodeOf<'if'>, code: Code): boolean {
  const { yes, no } = branch;
  const next = functionAround(branch)?.params[1];
  const isVerified = partsOf(yes).some(
    (part) =>
      part.type === 'call' &&
      !code.quiet.has(part) &&
      !(next?.type === 'name' && part.callee.type === 'name' && part.callee.name === next.name),
  );
  if (isVerified || checks(yes, code)) return false;
  return no === undefined ? leaveIn(yes)?.how === 'return' && isCheckedAfter(branch, code) : checks(no, code);
}

function isCheckedAfter(branch: Node, code: Code): boolean {
  const fn = functionAround(branch);
  return fn !== undefined && partsOf(fn).some((part) => part.start > branch.end && isCheck(part, code));
}

function checks(within: Node, code: Code): boolean {
  return partsOf(within).some((part) => isCheck(part, code));
}

/** Whether a part of a function refuses requests: by itself, or by a function of the project that it calls. */
function isCheck(part: Node, code: Code, depth = 0): boolean {
  if (part.type === 'leave') {
    const home = functionAround(part);
    return home !== undefined && refuses(part, code.sources.handlers.homeOf(home));
  }
  if (part.type !== 'call') return false;
  if (code.limits.has(part)) return true;
  const fn = depth > 2 ? undefined : code.called.get(part);
  return fn !== undefined && partsOf(fn).some((each) => isCheck(each, code, depth + 1));
}

/** A place in a request that adds to an object which lives as long as the process. */
interface Left extends Spot {
  readonly handler: Fn;
}

/** A listener of an object. */
interface Listener extends Left {
  /** The expression that made the object. */
  readonly to: Node;
  readonly fn: Fn | undefined;
}

const LISTENS = /^(?:on|addListener|prependListener|addEventListener)$/;
const REMOVES = /^(?:off|removeListener|removeEventListener|removeAllListeners)$/;
/** Functions that return what ends a subscription, or a promise of it. */
const SUBSCRIBES = /^svc\/db\.[^]*\.p?(?:listen|subscribe)$/;

/** SVC654: listeners and intervals of requests that nothing removes. */
function watchLeft(report: ReportAt, sources: Sources): Watch {
  const additions: Listener[] = [];
  const subscriptions: Left[] = [];
  const intervals: Left[] = [];
  /** Listeners that code removes, by their object; 'any' if it is not known which. */
  const removed = new Map<Node, Set<Fn | 'any'>>();
  const ofProcess = new Map<string, Node>();
  return {
    onCall(site) {
      const { call, module, meaning, receiver, fn, handler, value } = site;
      const method = methodOf(call);
      if (meaning.startsWith('process.') && !ofProcess.has('process')) ofProcess.set('process', call);
      const to = meaning.startsWith('process.') ? ofProcess.get('process') : receiver?.lasting;
      if (handler === undefined) return;
      if (to !== undefined && REMOVES.test(method))
        removed.set(to, (removed.get(to) ?? new Set()).add(value(call.args[1])?.fn?.fn ?? 'any'));
      if (fn !== undefined) return;
      if (to !== undefined && LISTENS.test(method) && !endsItself(site)) {
        // a method of the object may add what a request hands to it
        const passed = site.passed(call.args[1]!); // endsItself() is true without a listener
        const at = passed.node === call.args[1] ? { node: call, module } : passed;
        additions.push({ ...at, to, handler, fn: value(call.args[1])?.fn?.fn });
      }
      const isIterated = meaning === 'events.on' && value(call.args[0])?.lasting !== undefined;
      if (isIterated && !isStopped(call.args[2], site) && !isReturned(call, module, sources))
        subscriptions.push({ node: call, module, handler });
      if (SUBSCRIBES.test(meaning) && !isUsed(call)) subscriptions.push({ node: call, module, handler });
      if (/^(?:timers\.)?set(?:Interval)$/.test(meaning)) intervals.push({ node: call, module, handler });
    },
    finish() {
      const isRemoved = (each: Listener): boolean =>
        [each.fn, 'any' as const].some((fn) => fn !== undefined && removed.get(each.to)?.has(fn) === true);
      const isOfRequests = ({ handler }: Left): boolean => !isOfApplication(handler, sources);
      for (const { node, module } of [
        ...additions.filter((each) => !isRemoved(each)),
        ...subscriptions,
      ].filter(isOfRequests))
        report(
          { module, node },
          'each request adds a listener that nothing removes, to an object of the whole process',
        );
      const clearing = new Set(
        sources
          .all('name')
          .flatMap(({ module, node }) => (/^clear(?:Interval|Timeout)$/.test(node.name) ? [module] : [])),
      );
      for (const { node, module } of intervals.filter(isOfRequests))
        if (node.parent?.type === 'statement' || !clearing.has(module))
          report(
            { module, node },
            'each request starts an interval that nothing clears, so it runs until the process ends',
          );
    },
  };
}

/** Whether a listener is removed by itself: by its options, or because nothing is known of them. */
function endsItself(site: Site): boolean {
  const { call, value } = site;
  const [, listener, options] = call.args;
  const fn = value(listener)?.fn?.fn;
  if (fn === undefined) return true;
  // an EventTarget adds the same function once
  if (methodOf(call) === 'addEventListener' && functionAround(fn) === undefined) return true;
  return options !== undefined && (isStopped(options, site) || value(options)?.members?.has('once') === true);
}

/** Whether options have a signal, or are not known. */
function isStopped(options: Node | undefined, { value }: Site): boolean {
  const members = value(options)?.members;
  return options !== undefined && (members === undefined || members.has('signal'));
}

/** Whether code ends the iterator that a call returns: `events.return()`, or a loop that it leaves. */
function isReturned(call: Call, module: SourceModule, sources: Sources): boolean {
  const { parent } = call;
  if (parent?.type !== 'declarator') return isLeft(call);
  return sources.usesOf(parent).some(({ module: at, node }) => {
    const member = node.parent;
    const isEnded = member?.type === 'member' && member.property === 'return';
    return at === module && (isEnded || isLeft(node));
  });
}

/** Whether the loop over an iterator may end before the iterator does. */
function isLeft({ parent: loop }: Node): boolean {
  return loop?.type === 'loop' && leaveIn(loop.body, /^(?:break|return)$/) !== undefined;
}

/** Whether code uses the result of a call, or that of its promise. */
function isUsed(call: Call): boolean {
  const given = call.parent?.type === 'await' ? call.parent : call;
  return given.parent?.type !== 'statement';
}

/** Whether a function is a dependency that runs once for the application: `Depends(connect, { scope: 'app' })`. */
function isOfApplication(fn: Fn, sources: Sources): boolean {
  return sources.called(/^svc\.Depends$/).some(({ module, node: { args } }) => {
    const [source, options] = args;
    const scope = entryOf(options, 'scope');
    const made = source && literal(source, module);
    return scope?.type === 'text' && scope.value === 'app' && made !== undefined && isWithin(fn, made);
  });
}
