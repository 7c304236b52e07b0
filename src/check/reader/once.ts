/**
 * Code that is no burden for requests, because it runs once, keeps its result, or runs only in development.
 *
 *   text ??= readFileSync(…)                    if (text === undefined) text = readFileSync(…)
 *   if (isLoaded) return; … isLoaded = true;    const load = once(() => readFileSync(…))
 */
import { codeOf, isBlockingName, isDefinedIn } from './functions.ts';
import { calledName, functionAround, isWithin, partsIn, pathOf, walk } from './nodes.ts';
import { parse } from './syntax.ts';
import type { Call, Fn, Node, NodeOf } from './nodes.ts';

/** Matches conditions that are true only in development or in tests. */
const DEVELOPMENT =
  /^[\w.]*?(?:\b|_|is)(?:dev|development|testing|(?:dev|test|debug)_?(?:mode|env\w*))$|(?<!!)===?\s*['"](?:dev\w*|tests?)['"]|!==?\s*['"]prod\w*['"]|^!\s*[\w.]*is_?prod\w*$/i;
/** Matches conditions that are false in development. */
const PRODUCTION = /(?<!!)===?\s*['"]prod\w*['"]|^[\w.]*is_?prod\w*$/i;
/** Functions that call their argument once, or keep its results. */
const KEEPERS = /^(?:once|lazy|memo\w*|cached?)$/i;
/** Functions that call their argument while they run. */
const CALLERS = /^(?:map|flatMap|filter|find|forEach|reduce|some|every|from|then|try|parse)$/;

/** Text of a module, for nodes of its tree. */
interface Written {
  readonly source: string;
}

/** Whether code runs in development or in tests only: `if (config.dev) app.post(…)`. */
export function isOnlyInDevelopment(node: Node, { source }: Written): boolean {
  const holds = (test: Node, only: RegExp): boolean =>
    source
      .slice(test.start, test.end)
      .split('&&')
      .some((part) => only.test(part.trim()));
  for (let at = node; at.parent !== undefined; at = at.parent) {
    const { parent } = at;
    const isBranch = parent.type === 'if' || parent.type === 'choice';
    const test = isBranch
      ? parent.test
      : parent.type === 'binary' && parent.operator === '&&'
        ? parent.left
        : at;
    if (test !== at && holds(test, isBranch && parent.no === at ? PRODUCTION : DEVELOPMENT)) return true;
    if (endsBefore(at).some((end) => holds(end.test, PRODUCTION))) return true;
  }
  return false;
}

/** Whether a call runs once, or code keeps its result for later requests. */
export function isOnce(call: Call, { source }: Written): boolean {
  for (let at: Node = call; at.parent !== undefined; at = at.parent) {
    const parent: Node = at.parent;
    if (parent.type === 'assign' && /^(?:\?\?|\|\|)=$/.test(parent.operator)) return true;
    if (parent.type === 'binary' && parent.right === at && /^(?:\?\?|\|\|)$/.test(parent.operator))
      if (asksStore(parent.left)) return true;
    if (parent.type === 'if' && parent.yes === at && isFirstTime(parent.test, parent.yes, source))
      return true;
    if (endsBefore(at).some(({ test }) => isRemembered(test, at))) return true;
    if (at.type !== 'function') continue;
    const name = parent.type === 'call' && parent.callee !== at ? (calledName(parent) ?? '') : '';
    if (KEEPERS.test(name)) return true;
    if (!CALLERS.test(name)) return false;
  }
  return false;
}

/** Matches the start of a function or class that is an expression. */
const EXPRESSION = /^(?:(?:async\s*)?(?:function\b|\(|[\w$]+\s*=>)|class\b)/;

/**
 * Returns the names of the blocking functions that a function calls for each request. Undefined if its code
 * cannot be parsed.
 */
export function blockingCallsOf(fn: (...args: never[]) => unknown): ReadonlySet<string> | undefined {
  const calls = new Set<string>();
  const code = codeOf(fn);
  if (!/Sync\b/.test(code)) return calls;
  const written = Function.prototype.toString.call(fn);
  // the text of a method is not an expression
  const source = EXPRESSION.test(written) ? `(${written})` : `({${written}})`;
  const body = parsed(source);
  if (body === undefined) return undefined;
  walk(body, (node) => {
    const name = node.type === 'call' ? calledName(node) : undefined;
    if (node.type !== 'call' || name === undefined || !isBlockingName(name) || isDefinedIn(code, name))
      return;
    if (!isOnce(node, { source }) && !isOnlyInDevelopment(node, { source })) calls.add(name);
  });
  return calls;
}

function parsed(source: string): Node | undefined {
  try {
    return parse(source).body;
  } catch {
    return undefined; // the parser does not know the syntax
  }
}

/** Returns the `if` statements before a statement in its block that end the function: `if (a) return b;`. */
export function endsBefore(at: Node): readonly NodeOf<'if'>[] {
  const { parent } = at;
  const body = parent?.type === 'block' || parent?.type === 'function' ? parent.body : [];
  return body.filter((each) => each.type === 'if').filter(({ yes, end }) => end <= at.start && returns(yes));
}

function returns(node: Node): boolean {
  const last = node.type === 'block' ? node.body.at(-1) : node;
  return last?.type === 'leave' && last.how === 'return';
}

/** Whether an expression asks a store for a value: `cache.get(path)`, `pages.has(name)`. */
function asksStore(node: Node): boolean {
  return partsIn(node).some((part) => part.type === 'call' && /^(?:get|has)$/.test(calledName(part) ?? ''));
}

/** Whether code fills a store: `cache.set(path, text)`, `pages[name] = text`. */
function fillsStore(node: Node): boolean {
  return partsIn(node).some(
    (part) =>
      (part.type === 'call' && /^(?:set|add)$/.test(calledName(part) ?? '')) ||
      (part.type === 'assign' && part.target.type === 'member' && part.target.index !== undefined),
  );
}

/** Whether a branch runs only while a variable has no value, and gives the variable a value or fills a store. */
function isFirstTime(test: Node, yes: Node, source: string): boolean {
  const tested =
    test.type === 'unary' && test.operator === '!'
      ? test.value
      : test.type === 'binary' && /^={2,3}$/.test(test.operator)
        ? test.left
        : undefined;
  if (tested === undefined) return false;
  const name = source.slice(tested.start, tested.end);
  const isSet = partsIn(yes).some(
    (part) => part.type === 'assign' && source.slice(part.target.start, part.target.end) === name,
  );
  if (isSet && !isLocal(tested)) return true;
  return (isSet || asksStore(tested) || isFromStore(tested)) && fillsStore(yes);
}

/** Whether a test before a statement finds what the function keeps later: `if (text) return text; text = …`. */
function isRemembered(test: Node, at: Node): boolean {
  const fn = functionAround(at);
  if (fn === undefined) return false;
  const later = fn.body.filter((statement) => statement.end > at.start);
  if (asksStore(test) && later.some(fillsStore)) return true;
  return partsIn(test).some((part) => {
    const path = pathOf(part);
    if (path === undefined) return false;
    if (isFromStore(part) && later.some(fillsStore)) return true;
    const isAssigned = later.some((statement) =>
      partsIn(statement).some((each) => each.type === 'assign' && pathOf(each.target) === path),
    );
    return isAssigned && !isLocal(part);
  });
}

/** Whether a name is a constant that holds a value of a store: `const hit = cache.get(path)`. */
function isFromStore(node: Node): boolean {
  const value = declarationOf(node)?.value;
  return value !== undefined && asksStore(value);
}

/** Whether the function around a name declares it, so that it has no value when the function is called again. */
function isLocal(node: Node): boolean {
  const root = pathOf(node)?.split('.')[0];
  const fn = functionAround(node);
  const isParameter = fn?.params.some((param) =>
    partsIn(param).some((part) => part.type === 'name' && part.name === root),
  );
  return isParameter === true || declarationOf(node) !== undefined;
}

function declarationOf(node: Node): NodeOf<'declarator'> | undefined {
  const root = pathOf(node)?.split('.')[0];
  const fn: Fn | undefined = functionAround(node);
  if (root === undefined || fn === undefined) return undefined;
  return partsIn(fn)
    .filter((part) => part.type === 'declarator')
    .find((part) => part.target.type === 'name' && part.target.name === root && !isWithin(node, part));
}
