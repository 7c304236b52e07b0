/**
 * The syntax tree of a module: statements and expressions with their positions in the text.
 *
 * In this syntax tree, destructuring patterns are expressions: `{ a, b = 1 }` is an object with the
 * assignment `b = 1`.
 */

/** The position of a node in the text, and its parent. */
interface Placed {
  readonly start: number;
  readonly end: number;
  /** The enclosing node; undefined for the module. Set after the whole module has been parsed. */
  parent: Node | undefined;
}

/** Parent of a new node. A member that is added later would take memory of its own. */
export const parent = undefined;

/** Members of each type of node. */
interface Shapes {
  name: { name: string };
  /** A string literal with its value. */
  text: { value: string };
  /** The source text of a number, `true`, `false` or `null`. */
  value: { raw: string };
  /** A regular expression literal. */
  pattern: { source: string; flags: string };
  /** `texts` are before, between and after the values, at the offsets `starts`: always one text more than values. */
  template: {
    tag: Node | undefined;
    texts: readonly string[];
    starts: readonly number[];
    values: readonly Node[];
  };
  /** `property` is the name after the dot, or the text in brackets; undefined for any other `object[index]`. */
  member: { object: Node; property: string | undefined; index: Node | undefined };
  call: { callee: Node; args: readonly Node[]; isNew: boolean };
  function: {
    name: string | undefined;
    params: readonly Node[];
    /** The statements of the body; for an arrow function without braces, its expression. */
    body: readonly Node[];
    isExpression: boolean;
    isAsync: boolean;
    isGenerator: boolean;
  };
  class: { name: string | undefined; base: Node | undefined; members: readonly (Entry | Block)[] };
  /** A member of an object or a class. */
  entry: {
    /** Undefined for a computed key. */
    key: string | undefined;
    computed: Node | undefined;
    value: Node | undefined;
    isShorthand: boolean;
    isStatic: boolean;
  };
  object: { entries: readonly (Entry | Spread)[] };
  list: { items: readonly Node[] };
  spread: { value: Node };
  await: { value: Node };
  /** An operator with one operand: `!a`, `typeof a`, `a++`, `yield a`. */
  unary: { operator: string; value: Node | undefined };
  binary: { operator: string; left: Node; right: Node };
  assign: { operator: string; target: Node; value: Node };
  choice: { test: Node; yes: Node; no: Node };
  sequence: { items: readonly Node[] };
  block: { body: readonly Node[] };
  /** An expression as a statement. */
  statement: { value: Node };
  declare: { items: readonly Declarator[] };
  declarator: { target: Node; value: Node | undefined };
  leave: { how: 'return' | 'throw' | 'break' | 'continue'; value: Node | undefined };
  if: { test: Node; yes: Node; no: Node | undefined };
  /**
   * `head` has the variable and the iterated expression of `for (… of …)` and `for (… in …)`, and the parts of the head
   * of other loops.
   */
  loop: { kind: 'for' | 'of' | 'in' | 'while' | 'do'; head: readonly Node[]; body: Node };
  try: { block: Node; param: Node | undefined; handler: Node | undefined; finalizer: Node | undefined };
  switch: { value: Node; cases: readonly Case[] };
  case: { test: Node | undefined; body: readonly Node[] };
  /** `imported` is `*` for an import of the whole module. */
  import: { from: string; names: readonly { readonly imported: string; readonly local: string }[] };
  export: {
    from: string | undefined;
    names: readonly { readonly local: string; readonly exported: string }[];
    declared: Node | undefined;
    isDefault: boolean;
  };
}

/** A node of one type. */
export type NodeOf<T extends keyof Shapes> = Placed & { readonly type: T } & Readonly<Shapes[T]>;
export type Node = { [T in keyof Shapes]: NodeOf<T> }[keyof Shapes];
export type Call = NodeOf<'call'>;
export type Fn = NodeOf<'function'>;
export type ClassNode = NodeOf<'class'>;
export type Entry = NodeOf<'entry'>;
export type Assign = NodeOf<'assign'>;
export type Block = NodeOf<'block'>;
export type Declarator = NodeOf<'declarator'>;
export type Member = NodeOf<'member'>;
export type Spread = NodeOf<'spread'>;
export type Case = NodeOf<'case'>;

type PartOf<N> = Exclude<
  { [K in keyof N]-?: N[K] extends Node | readonly Node[] | undefined ? K : never }[keyof N],
  'parent'
>;

/** Members of each type of node that hold its children, in the order of the text. */
const PARTS: { readonly [T in Node['type']]: readonly PartOf<NodeOf<T>>[] } = {
  name: [],
  text: [],
  value: [],
  pattern: [],
  template: ['tag', 'values'],
  member: ['object', 'index'],
  call: ['callee', 'args'],
  function: ['params', 'body'],
  class: ['base', 'members'],
  entry: ['computed', 'value'],
  object: ['entries'],
  list: ['items'],
  spread: ['value'],
  await: ['value'],
  unary: ['value'],
  binary: ['left', 'right'],
  assign: ['target', 'value'],
  choice: ['test', 'yes', 'no'],
  sequence: ['items'],
  block: ['body'],
  statement: ['value'],
  declare: ['items'],
  declarator: ['target', 'value'],
  leave: ['value'],
  if: ['test', 'yes', 'no'],
  loop: ['head', 'body'],
  try: ['block', 'param', 'handler', 'finalizer'],
  switch: ['value', 'cases'],
  case: ['test', 'body'],
  import: [],
  export: ['declared'],
};

type Parts = Readonly<Record<string, Node | readonly Node[] | undefined>>;

/** Calls `work` with each direct child node, in the order of the text. */
export function eachChild(node: Node, work: (child: Node) => void): void {
  for (const key of PARTS[node.type]) {
    const part = (node as unknown as Parts)[key]; // PARTS names only members that hold nodes
    if (part === undefined) continue;
    if ('type' in part) work(part);
    else part.forEach(work);
  }
}

/** Thrown when source text cannot be read. `offset` is the position of the error in the text. */
export class Unreadable extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** Most levels of nodes inside each other. Rules follow values recursively, so deeper code could fill the stack. */
export const MAX_DEPTH = 1_000;
export const TOO_DEEP: string = `the code is nested too deeply for svc check, which follows at most ${MAX_DEPTH} levels`;

/** Returns the result of `read`; throws Unreadable if it fills the stack of Node.js. */
export function withinStack<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof RangeError) throw new Unreadable(TOO_DEEP, 0);
    throw error;
  }
}

/**
 * Visits a node and all nodes in it, parents first. If `visit` returns false, walk() skips the children of
 * that node.
 */
export function walk(node: Node, visit: (node: Node) => boolean | void): void {
  if (visit(node) !== false) eachChild(node, (child) => walk(child, visit));
}

/** Returns a node and all nodes in it, parents first. */
export function partsIn(within: Node): readonly Node[] {
  const found: Node[] = [];
  walk(within, (node) => void found.push(node));
  return found;
}

/** Returns a node and the nodes in it that run with it: not those of inner functions. */
export function partsOf(within: Node): readonly Node[] {
  const found: Node[] = [];
  walk(within, (node) => {
    found.push(node);
    return node === within || node.type !== 'function';
  });
  return found;
}

/** Returns the nodes around a node, the nearest first. */
export function* nodesAround({ parent }: Node): Generator<Node, undefined> {
  for (let at = parent; at !== undefined; at = at.parent) yield at;
  return undefined;
}

/** Returns the innermost loop around a node in its function. */
export function loopAround(node: Node): NodeOf<'loop'> | undefined {
  const found = nodesAround(node).find(({ type }) => type === 'loop' || type === 'function');
  return found?.type === 'loop' ? found : undefined;
}

/** Returns the `try` statements in whose block a node is, the nearest first. */
export function triesAround(node: Node): IteratorObject<NodeOf<'try'>, undefined> {
  return nodesAround(node)
    .filter((around) => around.type === 'try')
    .filter(({ block }) => isWithin(node, block));
}

/** Returns the nearest `catch` block around a node. */
export function catchAround(node: Node): Node | undefined {
  return nodesAround(node).find(
    (around) => around.parent?.type === 'try' && around.parent.handler === around,
  );
}

/** Returns the class around a node. */
export function classAround(node: Node): ClassNode | undefined {
  return nodesAround(node).find((around) => around.type === 'class');
}

/** Returns the conditions on which a node depends, the nearest first: those around it, and those that leave before it. */
export function* testsAround(node: Node): Generator<Node, undefined> {
  let at = node;
  for (const around of nodesAround(node)) {
    if ((around.type === 'if' || around.type === 'choice') && around.test !== at) yield around.test;
    else if (around.type === 'binary' && around.right === at && /^(?:\?\?|\|\||&&)$/.test(around.operator))
      yield around.left;
    else if (around.type === 'switch' && around.value !== at) yield around.value;
    else if (around.type === 'block' || around.type === 'function')
      for (const before of around.body.slice(0, Math.max(0, around.body.indexOf(at))))
        if (before.type === 'if' && endsFunction(before.yes)) yield before.test;
    at = around;
  }
  return undefined;
}

/** Whether a condition on which a node depends has a word of a pattern. */
export function dependsOn(node: Node, { source }: { readonly source: string }, words: RegExp): boolean {
  return testsAround(node).some(({ start, end }) => words.test(source.slice(start, end)));
}

/** Returns the name of the method that a node calls; empty for any other node. */
export function methodOf(node: Node | undefined): string {
  return node?.type === 'call' && node.callee.type === 'member' ? (node.callee.property ?? '') : '';
}

/** Returns the object whose method a call runs. */
export function objectOf({ callee }: Call): Node | undefined {
  return callee.type === 'member' ? callee.object : undefined;
}

/** Returns the first statement in a node that leaves its function. */
export function leaveIn(within: Node, how: RegExp = /^(?:return|throw)$/): NodeOf<'leave'> | undefined {
  return partsOf(within).find((part) => part.type === 'leave' && how.test(part.how)) as
    NodeOf<'leave'> | undefined;
}

/** Returns the whole condition in which a node is an operand, through `!` and these operators, and whether it is negated there. */
export function conditionAround(
  node: Node,
  operators: RegExp = /^(?!)/,
): { readonly whole: Node; readonly isNegated: boolean } {
  let [whole, isNegated] = [node, false];
  for (let { parent } = whole; parent !== undefined; { parent } = whole) {
    const isJoined = parent.type === 'binary' && operators.test(parent.operator);
    if (parent.type !== 'unary' && !isJoined) break;
    if (parent.type === 'unary') isNegated = !isNegated;
    whole = parent;
  }
  return { whole, isNegated };
}

/** Returns the branch that runs where the operand of a condition is true, or where it is false. */
export function branchIf(node: Node, isTrue: boolean, operators?: RegExp): Node | undefined {
  const { whole, isNegated } = conditionAround(node, operators);
  const { parent } = whole;
  if ((parent?.type !== 'if' && parent?.type !== 'choice') || parent.test !== whole) return undefined;
  return isTrue === isNegated ? parent.no : parent.yes;
}

/** Whether a node is a constant such as `true`, `false` or `null`. */
export function isRaw(node: Node | undefined, raw: string): boolean {
  return node?.type === 'value' && node.raw === raw;
}

/**
 * Returns the text of a chain of names, such as `req.query.name` or `this.db`; undefined for any other
 * expression.
 */
export function pathOf(node: Node | undefined): string | undefined {
  if (node?.type === 'name') return node.name;
  if (node?.type === 'await') return pathOf(node.value);
  if (node?.type !== 'member') return undefined;
  const object = node.property === undefined ? undefined : pathOf(node.object);
  return object === undefined ? undefined : `${object}.${node.property}`;
}

/** Returns the last name of a called expression: `fetchAll` for `this.#db.fetchAll(…)`. */
export function calledName({ callee }: Call): string | undefined {
  return callee.type === 'name' ? callee.name : callee.type === 'member' ? callee.property : undefined;
}

/** Returns the function around a node; undefined at the top level of the module. */
export function functionAround(node: Node): Fn | undefined {
  for (let at = node.parent; at !== undefined; at = at.parent) if (at.type === 'function') return at;
  return undefined;
}

/**
 * Returns the name of a function: its own, or that of the constant, member or variable that holds it. Undefined
 * for a function without a name, such as a callback.
 */
export function nameOf({ name, parent }: Fn): string | undefined {
  if (name !== undefined || parent === undefined) return name;
  if (parent.type === 'entry') return parent.key;
  const target = parent.type === 'declarator' || parent.type === 'assign' ? pathOf(parent.target) : undefined;
  return target?.split('.').at(-1);
}

/** Returns the name of the innermost function around a node that has a name. */
export function nameAround(node: Node): string | undefined {
  const fn = functionAround(node);
  return fn === undefined ? undefined : (nameOf(fn) ?? nameAround(fn));
}

/** Whether a node is `outer` or is inside it. */
export function isWithin(node: Node, outer: Node): boolean {
  for (let at: Node | undefined = node; at !== undefined; at = at.parent) if (at === outer) return true;
  return false;
}

/** Returns the value of a member of an object literal. */
export function entryOf(node: Node | undefined, key: string): Node | undefined {
  if (node?.type !== 'object') return undefined;
  const found = node.entries.find((entry) => entry.type === 'entry' && entry.key === key);
  return found?.type === 'entry' ? found.value : undefined;
}

/** Returns the results of a function, or of the code in another node. */
export function returnsOf(within: Node): readonly Node[] {
  if (within.type === 'function' && within.isExpression) return within.body;
  return partsOf(within).flatMap((part) =>
    part.type === 'leave' && part.how === 'return' ? (part.value ?? []) : [],
  );
}

/** Whether a branch ends the function: it returns, throws, or calls a function such as fail(). */
export function endsFunction(node: Node): boolean {
  if (node.type === 'leave') return true;
  if (node.type === 'statement')
    return (
      node.value.type === 'call' &&
      /^(?:fail|missing|refuse|abort|notFound)/i.test(calledName(node.value) ?? '')
    );
  return node.type === 'block' && node.body.some(endsFunction);
}

/**
 * Returns the only part of the code for which a test of a name holds: an operand of `...(name && {})` or of a member, or a
 * branch that nothing leaves. Undefined for each other use, which may say more.
 */
export function provedBy(use: Node): Node | undefined {
  const { parent: around } = use;
  const isCompared =
    around?.type === 'binary' &&
    /^!==?$/.test(around.operator) &&
    isAbsent(around.left === use ? around.right : around.left);
  const test = isCompared ? around : use;
  const { parent } = test;
  const isPart = parent?.parent?.type === 'spread' || parent?.parent?.type === 'entry';
  if (parent?.type === 'binary' && parent.operator === '&&' && parent.left === test && isPart)
    return parent.right;
  if (parent?.type === 'choice' && parent.test === test && isPart) return parent.yes;
  if (parent?.type !== 'if' || parent.test !== test || parent.no !== undefined) return undefined;
  const decides = partsIn(parent.yes).some(({ type }) => type === 'leave' || type === 'assign');
  return decides ? undefined : parent.yes;
}

/** Whether a node is `null` or `undefined`. */
export function isAbsent(node: Node): boolean {
  return isRaw(node, 'null') || pathOf(node) === 'undefined';
}

/** Whether code before a call has awaited something with the same arguments. */
export function isAskedBefore(call: Call): boolean {
  const namesIn = (node: Node): string[] =>
    partsIn(node).flatMap((part) => (/^(?:name|member)$/.test(part.type) ? (pathOf(part) ?? []) : []));
  const given = new Set(call.args.flatMap(namesIn));
  const fn = functionAround(call);
  return partsIn(fn ?? call).some(
    (part) =>
      part.type === 'await' &&
      part.end < call.start &&
      part.value.type === 'call' &&
      part.value.args.flatMap(namesIn).some((name) => given.has(name)),
  );
}
