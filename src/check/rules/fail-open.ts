/**
 * Rule about decisions that an attacker turns (SVC645): a function whose result refuses a request returns, after an
 * error, the value that lets the request pass; a token says whether it is verified; a check searches a text for a word.
 */
import {
  conditionAround,
  functionAround,
  isRaw,
  leaveIn,
  methodOf,
  nodesAround,
  objectOf,
  partsOf,
} from '../reader/nodes.ts';
import { constantIn } from '../values/tests.ts';
import { isStored } from '../values/text.ts';
import { isEmpty } from '../statements/trace.ts';
import { isOfPackage } from '../values/calls.ts';
import { isOfPrincipal } from '../values/marks.ts';
import { clientIn, clientsIn, hasMark, madeIn } from '../values/value.ts';
import * as errors from '../../base/errors.ts';
import { meaningOf, meaningOfCall } from '../sources.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { Site } from '../values/calls.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Value } from '../values/value.ts';

/** Rules about decisions that fail. */
export const FAIL_OPEN_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC645',
    severity: 'warning',
    cwe: [636, 697, 755],
    sources: ['OWASP Top 10 2025: A10 Mishandling of Exceptional Conditions'],
    why: 'An attacker passes a check that allows when it fails, or that accepts a text with the right word in another place',
    remedy:
      'Let the error through, or respond with 503: throw new HTTPException(503, "Permissions cannot be checked now")',
    wrong: 'try { return await ask(id); } catch { return true; }',
    right:
      "try { return await ask(id); } catch (cause) { throw new HTTPException(503, 'no decision', { cause }); }",
    find: findSwallowed,
    watch: watchOptionalSignatures,
    onCall: findLooseSearches,
  },
  { id: 'SVC645', watch: watchFallbacks, find: findMistaken },
];

/** Functions are followed to this depth. */
const MAX_DEPTH = 4;

/** SVC645: checks whose results, after an error, let requests pass. */
function watchFallbacks(report: ReportAt): Watch {
  const tell = (fallback: Value | undefined): void => {
    const [part] = fallback?.texts.flat() ?? [];
    const from = part?.kind === 'literal' ? part.from?.[0] : undefined;
    if (from !== undefined)
      report(
        from,
        'when the check fails, its result lets the request pass: every client may do what the check protects',
      );
  };
  /** Whether a condition that a node has as a part refuses requests, but not with this value of the node. */
  const passes = (node: Node, isTrue: boolean, module: SourceModule): boolean => {
    const { whole, isNegated } = conditionAround(node, /^(?:&&|\|\|)$/);
    const { parent } = whole;
    return (
      isTrue === isNegated && parent?.type === 'if' && parent.test === whole && refuses(parent.yes, module)
    );
  };
  return {
    onHandler({ dependencies }) {
      for (const { gives } of dependencies)
        if (gives?.type === 'svc.requireIf' && gives.fallback?.constant === true) tell(gives.fallback);
    },
    onTest({ node, module, value: { fallback } }) {
      if (fallback?.constant !== undefined && passes(node, fallback.constant, module)) tell(fallback);
    },
    onCompare({ node, module, sides }) {
      sides.forEach(({ fallback }, index) => {
        const [given, other] = [constantIn(fallback), constantIn(sides[1 - index])];
        if (given === undefined || (other ?? '') === '' || node.type !== 'binary') return;
        const isTrue = (given === other) === node.operator.startsWith('=');
        if (/^[!=]==?$/.test(node.operator) && passes(node, isTrue, module)) tell(fallback);
      });
    },
  };
}

/** SVC645: refusals that never come: errors that code does not throw, and places of a text as conditions. */
function findMistaken(sources: Sources, report: ReportAt): void {
  findUnthrown(sources, report);
  findPlaces(sources, report);
}

/** A condition that is the place of an item: it is -1, and so true, where there is none. */
function findPlaces(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('call')) {
    const method = methodOf(node);
    if (!/^(?:lastIndexOf|indexOf|findIndex|findLastIndex)$/.test(method) || !sources.isReached(node))
      continue;
    // a method of the project may return something else
    if (sources.handlers.resolve(node.callee, module) !== undefined) continue;
    // ~indexOf() is 0 where there is no such item
    if (node.parent?.type === 'unary' && node.parent.operator !== '!') continue;
    const { whole } = conditionAround(node, /^(?:&&|\|\|)$/);
    const { parent } = whole;
    if ((parent?.type === 'if' || parent?.type === 'choice') && parent.test === whole)
      report(
        { module, node },
        `${method}() is -1 for what is not there, and -1 counts as true: the condition is false for the first item only`,
        { remedy: 'Ask for the item: includes(item), or some((item) => …)' },
      );
  }
}

/** An error that a statement makes, and that it neither throws nor keeps. */
function findUnthrown(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('call')) {
    let at: Node | undefined = node.isNew ? node.parent : undefined;
    for (let child: Node = node; at?.type === 'binary' && at.right === child; at = at.parent) child = at;
    if (at?.type === 'statement' && isErrorClass(node.callee, module))
      report(
        { module, node },
        'the error is made, but not thrown: the code after it runs as if nothing had happened',
        { remedy: 'Throw it: throw new Forbidden()' },
      );
  }
}

/** Whether a class is an error of this package, of JavaScript, or of the project. */
function isErrorClass(node: Node, module: SourceModule, depth = 0): boolean {
  const binding = node.type === 'name' ? module.lookup(node.name, node) : undefined;
  if (binding?.kind === 'declared' && binding.node.type === 'class')
    return (
      binding.node.base !== undefined &&
      depth < MAX_DEPTH &&
      isErrorClass(binding.node.base, binding.module, depth + 1)
    );
  const name = meaningOf(node, module) ?? '';
  const known: unknown =
    binding === undefined
      ? Reflect.get(globalThis, name)
      : Reflect.get(errors, /^svc\.(\w+)$/.exec(name)?.[1] ?? '');
  return typeof known === 'function' && (known === Error || known.prototype instanceof Error);
}

/** A `try` whose block refuses requests, and whose `catch` lets them go on after any error. */
function findSwallowed(sources: Sources, report: ReportAt): void {
  for (const { module, node } of sources.all('try')) {
    const { block, handler } = node;
    const isRefusal = partsOf(block).some(
      (part) => part.type === 'leave' && part.how === 'throw' && refuses(part, module),
    );
    if (isRefusal && handler !== undefined && !leaveIn(handler) && sources.isReached(node))
      report(
        { module, node: handler },
        'the catch block keeps the refusal that the block above throws, so every client passes the check',
      );
  }
}

/** Whether a branch responds with 401 or 403 without a further condition. */
export function refuses(branch: Node, module: SourceModule): boolean {
  const statements = branch.type === 'block' ? branch.body : [branch];
  return statements.some((node) => {
    if (node.type !== 'leave' || node.value?.type !== 'call') return false;
    const meaning = meaningOfCall(node.value, module);
    if (/^svc\.(?:Forbidden|Unauthorized)$/.test(meaning)) return true;
    return (
      /^svc\.(?:HTTPException|reply|HttpResponse|JSONResponse)$/.test(meaning) &&
      node.value.args.some((arg) => /\b40[13]\b/.test(module.source.slice(arg.start, arg.end)))
    );
  });
}

/** A test whether a request has a field, whether the operator has set a variable, or whether a token has a word. */
interface Presence extends Spot {
  readonly handler: Fn | undefined;
  readonly what: string;
  /** Whether the test is true where the value is present. Undefined for a word: each result may skip the signature. */
  readonly isTrue: boolean | undefined;
}

const BODY = /^(?:body|text|rawBody|stream)$/;
/** Functions that say whether a signature is the right one. */
const PROVES =
  /^crypto\.(?:timingSafeEqual|verify|createVerify\.[^]*verify)$|(?:^|\.)subtle\.verify$|^svc\.unsign/;

/** SVC645: a signature of the body that code verifies only if the request has one, or if a key is set. */
function watchOptionalSignatures(report: ReportAt, sources: Sources): Watch {
  const tests: Presence[] = [];
  /** Calls and comparisons that prove a signature, and calls of functions that do. */
  const proofs = new Set<Node>();
  const calls = new Map<Fn, Set<Call>>();
  /** Handlers whose signatures are of the body, and no credential of a client. */
  const signed = new Set<Fn | undefined>();
  return {
    onCall({ call, meaning, fn, handler, value }) {
      if (fn !== undefined) calls.set(fn, (calls.get(fn) ?? new Set()).add(call));
      const isCrypto = /^crypto\.|subtle\./.test(meaning);
      if (!isCrypto && !(isOfPackage(meaning) && call.args.length > 1)) return;
      const isOfBody = call.args.some((arg) =>
        clientsIn(value(arg)).some(({ origin }) => BODY.test(origin.input)),
      );
      if (isOfBody) signed.add(handler);
      if (PROVES.test(meaning) || (!isCrypto && isOfBody)) proofs.add(call);
    },
    onCompare({ node, module, handler, sides }) {
      const given = sides.find((side) => !isEmpty(side));
      const what = given !== undefined && sides.some(isEmpty) ? optionalIn(given) : undefined;
      if (what !== undefined && node.type === 'binary')
        tests.push({ node, module, handler, what, isTrue: node.operator.startsWith('!') });
      const word = sides.some((side) => (constantIn(side) ?? '') !== '') ? sides.map(parsedIn) : [];
      for (const each of word)
        if (each !== undefined) tests.push({ node, module, handler, what: each, isTrue: undefined });
      const isSigned = sides.some((side) => hasMark(side, /createHmac/));
      if (isSigned && sides.some((side) => clientIn(side) !== undefined)) proofs.add(node);
    },
    onTest({ node, module, handler, value }) {
      const what = optionalIn(value);
      if (what !== undefined) tests.push({ node, module, handler, what, isTrue: true });
    },
    finish() {
      for (const fn of [...proofs].flatMap((proof) => functionAround(proof) ?? []))
        addCalls(fn, calls, proofs);
      for (const test of tests)
        if (test.isTrue === undefined) tellWord(test, proofs, sources, report);
        else if (signed.has(test.handler) && passesWithout(test, test.isTrue, proofs, sources))
          report(
            test,
            `without ${test.what} nothing verifies the signature of the request, and the request goes on`,
            {
              remedy:
                'Refuse a request without a signature: if (given === undefined || !isGenuine(raw, given)) throw new Unauthorized()',
            },
          );
    },
  };
}

/** SVC645: a check that searches a text for a word, so that it also finds the word elsewhere in the text. */
function findLooseSearches(site: Site, report: ReportAt, sources: Sources): void {
  const { call, module, receiver } = site;
  const [method, object] = [methodOf(call), objectOf(call)];
  if (object === undefined || !/^(?:includes|indexOf|endsWith)$/.test(method)) return;
  const made = madeIn(receiver);
  if (made.some(({ by }) => by === 'request.target') && letsPass(call, sources))
    report(
      { module, call },
      'a part of the address lets the request pass the check, and every client can write this part into the query of another address',
      {
        remedy:
          "Compare the path from its beginning: req.path === '/healthz' || req.path.startsWith('/public/')",
      },
    );
  // RFC 8693 §4.2: one text with spaces between the scopes
  const isScope = object.type === 'member' && object.property === 'scope' && method !== 'endsWith';
  if (isScope && receiver?.items === undefined && made.some(isOfPrincipal) && !hasListOf('scope', sources))
    report(
      { module, call },
      `the claim "scope" is one text, so a scope is also found as a part of another one: "admin" in "not-admin"`,
      {
        remedy:
          "Compare whole scopes: me.scope.split(' ').includes(wanted), or Depends(requireScopes(wanted))",
      },
    );
}

/** Whether a condition with this call lets a request pass code that refuses others. */
function letsPass(call: Node, sources: Sources): boolean {
  let at = call;
  let isTrue = true;
  for (const parent of nodesAround(call)) {
    if (parent.type === 'block') return false;
    const fn = parent.type === 'if' && parent.test === at ? functionAround(parent) : undefined;
    if (parent.type === 'if' && fn !== undefined) {
      const refusal = leaveIn(isTrue ? fn : parent.yes, /^throw$/);
      return (
        refusal !== undefined && (!isTrue || partsOf(parent.yes).some((part) => isBypass(part, fn, sources)))
      );
    }
    if (parent.type === 'unary') isTrue = !isTrue;
    at = parent;
  }
  return false;
}

/** Whether a class of the project declares a member as a list. */
function hasListOf(name: string, sources: Sources): boolean {
  return sources
    .all('class')
    .some(({ module, node }) =>
      node.members.some(
        (each) =>
          each.type === 'entry' &&
          each.key === name &&
          each.value !== undefined &&
          /\blist\b/.test(module.source.slice(each.value.start, each.value.end)),
      ),
    );
}

/** Adds the calls of a function that proves a signature. */
function addCalls(
  fn: Fn,
  calls: ReadonlyMap<Fn, ReadonlySet<Call>>,
  proofs: Set<Node>,
  seen = new Set<Fn>(),
): void {
  if (seen.has(fn)) return;
  seen.add(fn);
  for (const call of calls.get(fn) ?? []) {
    proofs.add(call);
    const around = functionAround(call);
    if (around !== undefined) addCalls(around, calls, proofs, seen);
  }
}

/** Returns the name of a field of the request, of a variable or of a setting, if the value is nothing else. */
export function optionalIn({ texts }: Value): string | undefined {
  const [part, ...more] = texts.flat().filter((each) => each.kind !== 'literal' || each.text !== '');
  if (part === undefined || more.length > 0) return undefined;
  if (part.kind === 'client')
    return /^(?:headers|query|cookies)$/.test(part.origin.input) ? part.origin.what : undefined;
  const by = part.kind === 'own' ? (part.made?.by ?? '') : '';
  if (by.startsWith('setting ')) return `the ${by}`;
  return by.startsWith('process.env.') ? `the variable ${by.slice(12)}` : undefined;
}

/** Returns the member of a token or message that a value is, if code has parsed it: `header.alg`. */
export function parsedIn({ texts }: Value): string | undefined {
  const [part, ...more] = texts.flat();
  const isOnly = part?.kind === 'client' && more.length === 0 && !isStored(part);
  return isOnly && / parsed\.\w+$/.test(part.id) ? part.origin.what : undefined;
}

/** Reports a word of an unverified token that says whether code verifies its signature (RFC 8725 §2.1). */
function tellWord(test: Presence, proofs: ReadonlySet<Node>, sources: Sources, report: ReportAt): void {
  const { node, module, what } = test;
  const fn = functionAround(node);
  const isVerified =
    fn !== undefined && partsOf(fn).some((part) => proofs.has(part) && part.end < node.start);
  if (isVerified || ![true, false].some((isTrue) => passesWithout(test, isTrue, proofs, sources))) return;
  report(
    { module, node },
    `${what} says whether code verifies the signature, and every client can write it: a client leaves the signature out`,
    { remedy: 'Refuse each other algorithm first: if (header.alg !== "HS256") throw new Unauthorized()' },
  );
}

/** Whether a request goes on without a proof, where the tested value is absent. */
function passesWithout(
  { node, module, isTrue: asked }: Presence,
  isTrue: boolean,
  proofs: ReadonlySet<Node>,
  sources: Sources,
): boolean {
  const proves = (within: Node | undefined): boolean =>
    within !== undefined && partsOf(within).some((part) => proofs.has(part));
  let at = node;
  let isPresent = isTrue;
  for (let { parent } = at; parent !== undefined; { parent } = at) {
    if (parent.type === 'unary' && parent.operator === '!') isPresent = !isPresent;
    else if (parent.type !== 'binary' || !/^(?:&&|\|\|)$/.test(parent.operator)) break;
    else if ((parent.operator === '&&') !== isPresent) return false;
    // an absent value decides the result, so the other side does not run
    else if (parent.left === at && proves(parent.right)) return lets(parent, !isPresent, module);
    at = parent;
  }
  const { parent } = at;
  const isWord = asked === undefined;
  // a token with another word may have a proof of its own
  const isVerified = (absent: Node | undefined): boolean =>
    isWord && absent !== undefined && (proves(absent) || usesPackage(absent, module));
  if ((parent?.type !== 'choice' && parent?.type !== 'if') || parent.test !== at) return false;
  const [present, absent] = isPresent ? [parent.yes, parent.no] : [parent.no, parent.yes];
  if (isVerified(absent)) return false;
  if (parent.type === 'choice') {
    const isRefusal = (absent?.type === 'value' && absent.raw !== 'true') || absent?.type === 'name';
    return proves(present) && !isRefusal;
  }
  if (proves(present))
    return !ends(present!) && (absent === undefined || !leaveIn(absent)) && !isRefused(parent);
  const fn = functionAround(parent);
  return (
    fn !== undefined &&
    absent !== undefined &&
    partsOf(fn).some((part) => proofs.has(part) && part.start > parent.end) &&
    partsOf(absent).some(
      (part) =>
        isBypass(part, fn, sources) ||
        (isWord && part.type === 'leave' && part.how === 'return' && !isRefusing(part.value)),
    )
  );
}

function usesPackage(within: Node, module: SourceModule): boolean {
  return partsOf(within).some(
    (part) =>
      part.type === 'name' &&
      module.lookup(part.name, part)?.kind === 'external' &&
      isOfPackage(meaningOf(part, module) ?? ''),
  );
}

/** Whether a function returns nothing that lets a token pass: `false`, `null` or `undefined`. */
function isRefusing(value: Node | undefined): boolean {
  return value === undefined || isRaw(value, 'false') || isRaw(value, 'null') || value.type === 'name';
}

/** Whether a condition with this result lets the request go on. */
function lets(condition: Node, result: boolean, module: SourceModule): boolean {
  const { parent } = condition;
  if (parent?.type === 'unary' && parent.operator === '!') return lets(parent, !result, module);
  if (parent?.type !== 'if' || parent.test !== condition) return result;
  const isRefusal = partsOf(parent.yes).some(
    (part) =>
      part.type === 'leave' &&
      (part.how === 'throw' || /\b4\d\d\b/.test(module.source.slice(part.start, part.end))),
  );
  return result !== isRefusal;
}

/** Whether a statement lets the request pass a function that only throws: `return;`, `return true;`, `return next();`. */
function isBypass(part: Node, fn: Fn, { handlers }: Sources): boolean {
  if (part.type !== 'leave' || part.how !== 'return') return false;
  const { value } = part;
  if (value === undefined) return !handlers.isHandler(fn);
  const next = fn.params[1];
  return (
    isRaw(value, 'true') ||
    (value.type === 'call' &&
      value.callee.type === 'name' &&
      next?.type === 'name' &&
      value.callee.name === next.name)
  );
}

/** Whether the last statement of a branch leaves the function. */
function ends(branch: Node): boolean {
  return (branch.type === 'block' ? branch.body.at(-1) : branch)?.type === 'leave';
}

/** Whether the statement after a branch refuses each request that arrives there. */
function isRefused(branch: Node): boolean {
  const { parent } = branch;
  const body = parent?.type === 'block' || parent?.type === 'function' ? parent.body : [];
  const next = body[body.indexOf(branch) + 1];
  return next?.type === 'leave' && next.how === 'throw';
}
